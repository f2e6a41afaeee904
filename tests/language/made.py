"""Made texts: in the layout of the real data sets, with words that decide the class."""

import csv
import gzip
import io
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

TOPICS = (
    ("minister", "treaty", "embassy"),
    ("goal", "coach", "league"),
    ("shares", "profit", "merger"),
    ("software", "satellite", "browser"),
)
FILLER = "the of a said on in for and to with new first after over from".split()


def texts(number: int, seed: int) -> list[tuple[int, str]]:
    """Labels and texts of 3 to 30 words, one or two of which say the class."""
    draw = random.Random(seed)
    rows: list[tuple[int, str]] = []
    for index in range(number):
        label = index % len(TOPICS)
        words: list[str] = [*draw.choices(FILLER, k=draw.randint(2, 28))]
        for word in draw.sample(TOPICS[label], draw.randint(1, 2)):
            words.insert(draw.randrange(len(words) + 1), word)
        rows.append((label, f"{' '.join(words).capitalize()}, no. {index}."))
    draw.shuffle(rows)
    return rows


def write_csv(path: Path, header: tuple[str, ...], rows: list[tuple[int, str]]) -> None:
    """A table of a data folder, gzipped where its name says so."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([header, *rows])
    raw = text.getvalue().encode()
    path.write_bytes(gzip.compress(raw, mtime=0) if path.suffix == ".gz" else raw)


def write_ag_news(folder: Path, *, train: int = 600, test: int = 200, seed: int = 0) -> Path:
    """Both splits of the data set `ag_news`, made up."""
    for split, number, own in (("train", train, 2 * seed), ("test", test, 2 * seed + 1)):
        place = folder / "text" / f"ag_news_{split}.csv.gz"
        write_csv(place, ("label", "text"), texts(number, own))
    return folder


@contextmanager
def made_data(folder: Path) -> Iterator[Path]:
    """Let all data and caches be in a folder, with `ag_news` made up."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("INNERLOOP_DATA", str(write_ag_news(folder / "data")))
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        yield folder / "data"
