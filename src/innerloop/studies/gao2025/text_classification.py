"""Table 2: classes of texts, by standard and looped transformer and AlgoFormer."""

from functools import partial
from typing import Any

import pandas as pd
import torch
from matplotlib.figure import Figure

from innerloop.analysis import Measured, drawing
from innerloop.core.errors import ConfigurationError
from innerloop.core.learner import Learner
from innerloop.language.accuracy import right_answers
from innerloop.language.bag_of_words import BagOfWords
from innerloop.language.classification import TextClassification
from innerloop.studies import nulls
from innerloop.studies.claim import Claim, Premise, at_least
from innerloop.studies.lab import Lab
from innerloop.studies.runs import trained
from innerloop.studies.study import Measures, Runs, Scale, Tables, declare
from innerloop.training.config import RunConfig

STANDARD, LOOPED, ALGOFORMER = MODELS = ("standard", "looped", "AlgoFormer")
SMALL, USEFUL = SIZES = ("width 32", "useful size")
"""The paper's size, and one at which the texts are learned."""
WORDS = "bag of words"

DATASETS: dict[Scale, tuple[str, ...]] = {
    "smoke": ("ag_news",), "laptop": ("ag_news",),
    "desk": ("ag_news", "imdb", "dbpedia14", "yelp", "yahoo"),
    "paper": ("ag_news", "imdb", "dbpedia14", "yelp", "yahoo"),
}  # fmt: skip
"""Claims are about the first."""
PAPER: dict[str, tuple[float, float, float]] = {
    "ag_news": (0.9207, 0.9104, 0.9792),
    "imdb": (0.75, 0.775, 0.775),
    "dbpedia14": (0.9921, 0.9911, 0.9821),
    "yelp": (0.6625, 0.5357, 0.575),
    "yahoo": (0.7396, 0.6979, 0.8125),
}
"""The paper's accuracies of the three models."""

_SMALL: dict[str, tuple[str, ...]] = {
    STANDARD: ("model.backbone.layers=12",),
    LOOPED: ("model.backbone.loops=10", "window=10"),
    ALGOFORMER: ("model.backbone.loops=10", "window=10"),
}
"""What the paper's models have beside one head of width 32: 12 layers, or (T, delta T)."""
_PAPERS_OPTIMIZER = (
    "optimizer.kind=adam", "optimizer.learning_rate=1e-3", "optimizer.weight_decay=0",
)  # fmt: skip
_USEFUL_AT_PAPER = ("model.backbone.width=128", "model.backbone.heads=4", "task.dropout=0.3")


def _label(model: str, size: str, dataset: str) -> str:
    return f"{model}, {size}, {dataset}"


def _runs(scale: Scale) -> Runs:
    return {
        _label(model, size, dataset): _run(model, size, dataset, scale)
        for dataset in DATASETS[scale] for size in SIZES for model in MODELS
    }  # fmt: skip


def _run(model: str, size: str, dataset: str, scale: Scale) -> RunConfig:
    """A recipe on a data set, as it is or with the paper's blocks and rate."""
    changes = (f"task.dataset={dataset}",)
    if size == SMALL:
        blocks = ("model.backbone.width=32", "model.backbone.heads=1")
        # The paper hides no words.
        changes += (*blocks, *_SMALL[model], *_PAPERS_OPTIMIZER, "task.dropout=0")
    elif scale == "paper":
        changes += _USEFUL_AT_PAPER
    return trained(f"text-{model.lower()}", scale, *changes)


def _words_instead(lab: Lab, label: str) -> Learner[Any]:
    return BagOfWords(_task(lab.config(label)))


def _task(config: RunConfig) -> TextClassification:
    if not isinstance(config.task, TextClassification):
        raise ConfigurationError(f"{config.task_name} has no test texts: take text-classification.")
    return config.task


def _difference(one: str, other: str, m: Any) -> torch.Tensor:
    """Of two accuracies on the first data set."""
    return m[one][..., 0] - m[other][..., 0]


def _learned(*names: str) -> Premise:
    return Premise(
        quantity="the least accuracy of the models compared, on AG News",
        statistic=lambda m: torch.stack([m[name][..., 0] for name in names]).amin(dim=0),
        criterion=at_least(
            0.8, "a quarter of the answers is right by chance; the sections of most news are plain"
        ),
    )


def _ahead(other: str) -> Claim:
    own, its = f"{ALGOFORMER}, {SMALL}", f"{other}, {SMALL}"
    theirs = PAPER["ag_news"]
    gap = theirs[2] - theirs[MODELS.index(other)]
    return Claim(
        name=f"beats-{other}",
        sentence=f"At the paper's size the AlgoFormer is better than the {other} transformer.",
        quantity=f"accuracy on AG News, AlgoFormer - {other}",
        statistic=partial(_difference, own, its),
        criterion=at_least(
            0.01, "a point, a sixth of the paper's gain, is the least that anybody would notice"
        ),
        paper=f"{gap:.3f}",
        premise=_learned(own, its),
        excludes=("untrained", f"{other} twice"),
    )


def _twice(other: str) -> nulls.Null:
    """The other model in the AlgoFormer's place, of another seed."""
    return nulls.of_another_seed(
        {_label(ALGOFORMER, SMALL, "ag_news"): _label(other, SMALL, "ag_news")}
    )


CLAIMS = (
    _ahead(STANDARD),
    _ahead(LOOPED),
    Claim(
        name="comparable",
        sentence="At the paper's size the AlgoFormer is at least comparable with the standard "
        "transformer.",
        quantity="accuracy on AG News, AlgoFormer - standard",
        statistic=partial(_difference, f"{ALGOFORMER}, {SMALL}", f"{STANDARD}, {SMALL}"),
        criterion=at_least(-0.01, "a point is three deviations of an accuracy on 7600 texts"),
        paper="0.058",
        premise=_learned(f"{STANDARD}, {SMALL}"),
        excludes=("untrained AlgoFormer",),
    ),
    Claim(
        name="useful-size-learns",
        sentence="A standard transformer of useful size learns the sections of news from 19 "
        "thousand texts (not a claim of the paper).",
        quantity="accuracy on AG News",
        statistic=lambda m: m[f"{STANDARD}, {USEFUL}"][..., 0],
        criterion=at_least(0.87, "what a linear model of words reaches from as many, less three "
                           "points"),
        excludes=("untrained",),
    ),
    Claim(
        name="beats-bag-of-words",
        sentence="A standard transformer of useful size is better than a linear model of the words "
        "(not a claim of the paper).",
        quantity="accuracy on AG News, standard of useful size - bag of words",
        statistic=lambda m: m[f"{STANDARD}, {USEFUL}"][..., 0] - m[WORDS][..., 0],
        criterion=at_least(0.005, "half a point is what the 7600 test texts can tell apart"),
        premise=_learned(f"{STANDARD}, {USEFUL}"),
        excludes=(WORDS, "untrained"),
    ),
    Claim(
        name="words-beat-algoformer",
        sentence="A linear model of the words is better than the AlgoFormer of the paper's size "
        "(not a claim of the paper).",
        quantity="accuracy on AG News, bag of words - AlgoFormer of width 32",
        statistic=lambda m: m[WORDS][..., 0] - m[f"{ALGOFORMER}, {SMALL}"][..., 0],
        criterion=at_least(0.005, "half a point is what the 7600 test texts can tell apart"),
        premise=_learned(f"{ALGOFORMER}, {SMALL}"),
        excludes=(WORDS, "right answers"),
    ),
)  # fmt: skip


def _draw(tables: Tables) -> Figure:
    """A panel per data set, a row per model; both sizes, the words, and the paper's number."""
    table, paper = tables["by-dataset"], tables["paper"]
    names = list(dict.fromkeys(table["dataset"]))
    figure, panels = drawing.panels(len(names), columns=3, size=(4.2, 2.3))
    for axes, dataset in zip(panels, names, strict=True):
        own = table.loc[table["dataset"] == dataset]
        for size, marker, shift in ((SMALL, "o", 0.14), (USEFUL, "s", -0.14)):
            rows = own.loc[own["size"] == size].set_index("label").loc[list(MODELS)]
            errors = [rows["mean"] - rows["low"], rows["high"] - rows["mean"]]
            axes.errorbar(
                rows["mean"], [place + shift for place in range(len(MODELS))], xerr=errors,
                fmt=marker, capsize=3, label=size,
            )  # fmt: skip
        words = own.loc[own["label"] == WORDS].iloc[0]
        axes.axvspan(words["low"], words["high"], color="0.8", label=WORDS, zorder=0)
        theirs = paper.loc[paper["dataset"] == dataset].set_index("model")["accuracy"]
        axes.plot(
            theirs.loc[list(MODELS)], range(len(MODELS)), "x", color="0.2", label="the paper's",
        )  # fmt: skip
        axes.set_yticks(range(len(MODELS)), MODELS)
        axes.set_ylim(len(MODELS) - 0.5, -0.5)
        drawing.name(axes, title=dataset, x="accuracy on the test split")
    drawing.legend(figure, panels)
    return figure


@declare(
    paper="gao2025", id="table2",
    title="Classes of texts: AlgoFormer, standard and looped transformer, and a bag of words",
    claims=CLAIMS,
    nulls={
        "untrained": nulls.untrained(),
        "untrained AlgoFormer": lambda lab: {
            label: lab.untrained(label) for label in lab.labels if label.startswith(ALGOFORMER)
        },
        f"{STANDARD} twice": _twice(STANDARD),
        f"{LOOPED} twice": _twice(LOOPED),
        WORDS: nulls.instead(_words_instead),
        "right answers": nulls.instead(lambda lab, label: nulls.RightAnswers()),
    },
    draw=_draw, runs=_runs, data=DATASETS.__getitem__,
    minutes={"smoke": 0.5, "laptop": 15, "desk": 150, "paper": 4000},
    smaller={
        "smoke": "400 texts of AG News, 16 tokens, 20 steps.",
        "laptop": "AG News alone, at most 20 thousand texts for training, 96 tokens, 900 steps.",
        "desk": "All texts that are here, 128 tokens, 2000 steps.",
    },
    notes=(
        "The paper says neither how texts were made tokens, nor how long it trained, nor on how "
        "many texts.",
        "The bag of words is TF-IDF of words and pairs of words with logistic regression, on the "
        "same training texts.",
        "Yelp and Yahoo are whatever lies under these names in the data folder: `innerloop data` "
        "says which.",
    ),
)  # fmt: skip
def table2(lab: Lab) -> Measures:
    """Whether each test text is put into its class, by each model, on each data set."""
    datasets = DATASETS[lab.scale]
    measures: dict[str, Measured] = {}
    for size in SIZES:
        for model in MODELS:
            right: dict[str, Measured] = {}
            for dataset in datasets:
                label = _label(model, size, dataset)
                lab.tell(label)
                config = lab.config(label)
                answers = right_answers(lab.learner(label), _task(config), config.points)  # (N,)
                right[dataset] = Measured(values=answers)
            measures[f"{model}, {size}"] = _stacked(right, model, size)
    tasks = {name: _task(lab.config(_label(STANDARD, USEFUL, name))) for name in datasets}
    lab.tell(WORDS)
    words = {
        name: Measured(values=right_answers(BagOfWords(task), task, task.longest_test()))
        for name, task in tasks.items()
    }
    measures[WORDS] = _stacked(words, WORDS, "")
    _facts(lab)
    return measures


def _stacked(right: dict[str, Measured], label: str, size: str) -> Measured:
    """The answers of one model by data set: those with fewer texts have fewer that count."""
    whole = Measured.stack("dataset", right)
    return Measured(
        values=whole.values, axes=whole.axes, ticks=whole.ticks, counted=whole.counted,
        label=label, keys={"size": size},
    )  # fmt: skip


def _facts(lab: Lab) -> None:
    """The paper's accuracies, and the sizes of the models."""
    rows = [
        {"dataset": dataset, "model": model, "accuracy": PAPER[dataset][place]}
        for dataset in DATASETS[lab.scale]
        for place, model in enumerate(MODELS)
    ]
    lab.table("paper", pd.DataFrame(rows))
    lab.table(
        "sizes", {"run": lab.labels,
                  "parameters": [lab.untrained(label).parameter_count for label in lab.labels]},
    )  # fmt: skip
