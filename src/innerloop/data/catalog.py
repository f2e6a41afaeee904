"""The data sets that are known by name: their files, columns and classes, and where they are from.

A file is named without `.gz`: it may be gzipped or plain. Tables lie in `tabular/NAME.csv`, texts
in `text/NAME_train.csv` and `text/NAME_test.csv`, translations in `translation/NAME.SPLIT.de.txt`
and `.en.txt`, line by line.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from innerloop.core.errors import ConfigurationError, unknown

Kind = Literal["tabular", "text", "translation"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hub:
    """A data set of the `datasets` library."""

    path: str
    config: str | None = None
    revision: str | None = None
    splits: Mapping[str, str]
    """Our name of a split -> theirs."""
    text: tuple[str, ...] = ("text",)
    """The columns whose values, one after the other, are the text."""
    label: str = "label"
    keep: int | None = None
    """Keep the classes below this number only."""

    @property
    def words(self) -> str:
        """Where it is from."""
        return f"datasets: {self.path}"


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenML:
    """A data set of OpenML."""

    number: int
    positive: str = "P"
    """The class that is labelled 1."""

    @property
    def words(self) -> str:
        """Where it is from."""
        return f"OpenML {self.number}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSet:
    """A data set: what it is, which files hold it, where it can be got."""

    name: str
    kind: Kind
    title: str
    source: Hub | OpenML
    files: Mapping[str, tuple[str, ...]]
    """Split -> its files, below the data folder: one table, or the German and the English side."""
    label: str = "label"
    """The column of the class, from 0."""
    classes: tuple[str, ...] = ()
    """The names of the classes, in order."""
    drop: tuple[str, ...] = field(default=())
    """Columns of a table that are no numbers."""

    @property
    def command(self) -> str:
        """What a user types to get it."""
        return f"innerloop data get {self.name}"


def _table(
    name: str, number: int, title: str, *, positive: str = "P", drop: tuple[str, ...] = ()
) -> DataSet:
    return DataSet(
        name=name, kind="tabular", title=title, source=OpenML(number=number, positive=positive),
        files={"all": (f"tabular/{name}.csv",)}, classes=("no", "yes"), drop=drop,
    )  # fmt: skip


def _texts(
    name: str, title: str, source: Hub, classes: tuple[str, ...], *, stem: str = "",
    label: str = "label",
) -> DataSet:  # fmt: skip
    files = {split: (f"text/{stem or name}_{split}.csv",) for split in ("train", "test")}
    return DataSet(
        name=name, kind="text", title=title, source=source, files=files, classes=classes,
        label=label,
    )  # fmt: skip


def _translation(name: str, title: str, source: Hub, splits: tuple[str, ...]) -> DataSet:
    sides = ("de", "en")
    files = {
        split: tuple(f"translation/{name}.{split}.{side}.txt" for side in sides) for split in splits
    }
    return DataSet(name=name, kind="translation", title=title, source=source, files=files)


_HALVES = {"train": "train", "test": "test"}

_ALL = (
    _table("abalone", 720, "whether an abalone is younger than average", drop=("Sex",)),
    _table("bank8FM", 725, "whether fewer customers than average leave their bank's queue"),
    _table("space_ga", 737, "whether a county lies in the south"),
    _table("delta_ailerons", 803, "whether a plane's ailerons move less than average"),
    _table("kin8nm", 807, "whether a robot's arm ends nearer to its foot than average"),
    _table("puma8NH", 816, "whether a robot's arm is accelerated less than average"),
    _table("delta_elevators", 819, "whether a plane's elevators move less than average"),
    _table("wind", 847, "whether the wind at one of twelve stations is below average"),
    _table("pollen", 871, "whether a row stands in the first half of the file: pure chance"),
    _table("compas_two_years", 42192, "whether somebody is arrested again", positive="1"),
    _texts("ag_news", "news in four sections", Hub(path="fancyzhx/ag_news", splits=_HALVES),
           ("World", "Sports", "Business", "Sci/Tech")),
    _texts("imdb", "reviews of films", Hub(path="stanfordnlp/imdb", splits=_HALVES),
           ("negative", "positive")),
    _texts("dbpedia14", "first paragraphs of articles in an encyclopaedia",
           Hub(path="fancyzhx/dbpedia_14", splits=_HALVES, text=("content",)),
           ("Company", "EducationalInstitution", "Artist", "Athlete", "OfficeHolder",
            "MeanOfTransportation", "Building", "NaturalPlace", "Village", "Animal", "Plant",
            "Album", "Film", "WrittenWork")),
    _texts("yelp", "reviews of businesses, one to five stars",
           Hub(path="Yelp/yelp_review_full", splits=_HALVES), ("1", "2", "3", "4", "5"),
           label="stars_minus_1"),
    _texts("yahoo", "questions with answers, two of ten topics",
           Hub(path="community-datasets/yahoo_answers_topics", splits=_HALVES, label="topic",
               text=("question_title", "question_content", "best_answer"), keep=2),
           ("Society & Culture", "Science & Mathematics"), stem="yahoo_answers_2class"),
    _translation("multi30k", "captions of photographs, German and English",
                 Hub(path="bentrevett/multi30k",
                     splits={"train": "train", "val": "validation", "test_2016_flickr": "test"}),
                 ("train", "val", "test_2016_flickr")),
    _translation("iwslt14", "talks, German and English",
                 Hub(path="bbaaaa/iwslt14-de-en", revision="refs/convert/parquet",
                     splits={"train": "train", "valid": "validation", "test": "test"}),
                 ("train", "valid", "test")),
)  # fmt: skip

DATASETS: dict[str, DataSet] = {data.name: data for data in _ALL}
"""Every data set by its name."""


def find_dataset(name: str, kind: Kind | None = None) -> DataSet:
    """The data set of a name, of a kind."""
    known = [data.name for data in _ALL if kind in (None, data.kind)]
    if name not in known:
        raise ConfigurationError(unknown(f"{kind or ''} data set".strip(), name, known))
    return DATASETS[name]
