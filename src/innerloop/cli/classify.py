"""`innerloop classify`: the class of texts by a trained model, or how many it gets right."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from innerloop.analysis.measured import Measured
from innerloop.cli.console import Console
from innerloop.cli.options import DataFolder, json_file, write_json
from innerloop.cli.progress import progress_bar
from innerloop.core.errors import ConfigurationError
from innerloop.data.catalog import find_dataset
from innerloop.language.accuracy import probabilities, right_answers
from innerloop.language.bag_of_words import BagOfWords
from innerloop.language.classification import TextClassification
from innerloop.training.run import Run


def classify(
    run: Annotated[Path, typer.Argument(help="The folder of a run on texts.")],
    texts: Annotated[
        list[str] | None, typer.Argument(metavar="[TEXT...]", help="Texts to put into classes.")
    ] = None,
    data: DataFolder = None,
    json: Annotated[Path | None, json_file("the answers")] = None,
) -> None:
    """Say which class texts are of, or how many of the test texts a model gets right.

    For example:

    innerloop classify runs/text-standard-0123456789abcdef "Shares fell after the merger"

    innerloop classify runs/text-standard-0123456789abcdef
    """
    known = Run.open(run)
    task = known.task
    if not isinstance(task, TextClassification):
        raise ConfigurationError(
            f"{known.name} was trained on {known.config.task_name}, which has no classes of texts: "
            "give a run of text-standard, text-looped or text-algoformer."
        )
    if texts:
        _tell_classes(known, task, texts, json)
    else:
        _tell_accuracy(known, task, json)


def _tell_classes(run: Run, task: TextClassification, texts: list[str], json: Path | None) -> None:
    names = find_dataset(task.dataset).classes
    likely = probabilities(run.model(), task, texts)  # (N, classes)
    table = Table("text", "class", "probability")
    rows: list[dict[str, object]] = []
    for text, shares in zip(texts, likely.tolist(), strict=True):
        best = max(range(len(names)), key=lambda place: shares[place])
        table.add_row(escape(text), escape(names[best]), f"{shares[best]:.2f}")
        rows.append({"text": text, "class": names[best], **dict(zip(names, shares, strict=True))})
    Console().print(table)
    write_json(json, rows)


def _tell_accuracy(run: Run, task: TextClassification, json: Path | None) -> None:
    """The model's accuracy, and that of a bag of words on the same texts."""
    model, words = run.model(), BagOfWords(task)
    with progress_bar() as progress:
        right = {
            model.name: right_answers(model, task, run.config.points, progress=progress),
            words.name: right_answers(words, task, task.longest_test(), progress=progress),
        }
    table = Table("model", "accuracy", "90% interval", title=f"{task.dataset}, test split")
    rows: list[dict[str, object]] = []
    for name, answers in right.items():
        found = Measured(values=answers, label=name).interval()
        mean, low, high = float(answers.float().mean()), float(found.low), float(found.high)
        table.add_row(escape(name), f"{mean:.4f}", f"{low:.4f} to {high:.4f}")
        rows.append({"model": name, "accuracy": mean, "low": low, "high": high})
    Console().print(table)
    write_json(json, rows)
