"""`innerloop translate`: German sentences into English, and how good a run's translations are."""

import sys
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from innerloop.cli.console import Console
from innerloop.cli.options import DataFolder
from innerloop.cli.progress import progress_bar
from innerloop.cli.subjects import note_unfinished
from innerloop.core.errors import ConfigurationError
from innerloop.language.quality import Interval
from innerloop.language.scoring import Scores, difference, score
from innerloop.language.tokenizer import Tokenizer
from innerloop.language.translation import Translation
from innerloop.language.translation import translate as translate_all
from innerloop.models.text import TextModel
from innerloop.report.words import count
from innerloop.training.data import generator_for
from innerloop.training.run import Run


def translate(
    run: Annotated[
        Path, typer.Argument(metavar="RUN", help="The folder of a run of `translation-..`.")
    ],
    sentences: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[SENTENCE...]", help="German sentences; without any, the lines of the input."
        ),
    ] = None,
    beam: Annotated[int, typer.Option(help="Beginnings that are followed at once; 1: greedy.")] = 4,
    loops: Annotated[
        int | None,
        typer.Option(help="Loops of a looped model. Default: as many as it was trained with."),
    ] = None,
    test: Annotated[
        str | None,
        typer.Option(
            metavar="SPLIT",
            help="Translate a split of the data set instead, such as `test_2016_flickr`, and say "
            "BLEU, chrF and the cross-entropy, with 90% intervals.",
        ),
    ] = None,
    against: Annotated[
        Path | None,
        typer.Option(metavar="RUN", help="With --test: another run, and the differences."),
    ] = None,
    data: DataFolder = None,
) -> None:
    """Translate German sentences into English by a trained run.

    For example:

    innerloop translate runs/translation-standard-... "Ein Hund läuft durch den Schnee."

    innerloop translate runs/translation-looped-... --loops 12 < german.txt

    innerloop translate runs/translation-algoformer-... --test test_2016_flickr
    """
    if against is not None and test is None:
        raise ConfigurationError("--against compares runs on a split: give --test SPLIT as well.")
    if test is not None:
        if sentences:
            raise ConfigurationError("--test translates a split: leave the sentences out.")
        _print_scores([run] if against is None else [run, against], test, beam=beam, loops=loops)
        return
    translator, tokenizer, _ = _opened(run)
    given = sentences or [line.rstrip("\n") for line in sys.stdin]
    for english in translate_all(translator, tokenizer, given, beams=beam, loops=loops):
        print(english)


def _opened(folder: Path) -> tuple[TextModel, Tokenizer, Translation]:
    """The model of a run, its tokeniser, and what it was trained on; no data are needed."""
    run = Run.open(folder)
    model, task = run.model(), run.task
    if not isinstance(task, Translation) or not isinstance(model, TextModel):
        raise ConfigurationError(
            f"{folder} was trained on {run.config.task_name}, which is no translation: train one, "
            "`innerloop train translation-standard`."
        )
    note_unfinished(run)
    return model, Tokenizer.from_text(run.read_tokenizer()), task


def _print_scores(folders: list[Path], split: str, *, beam: int, loops: int | None) -> None:
    """A table of scores, one row per run, and the difference of two."""
    scores: dict[str, Scores] = {}
    pairs = 0
    for folder in folders:
        model, tokenizer, task = _opened(folder)
        lines = task.pairs(split)
        pairs = len(lines)
        with progress_bar() as advance:
            scores[folder.name] = score(
                model, tokenizer, lines, generator=generator_for(0, "translate"), beams=beam,
                loops=loops, progress=partial(advance, folder.name),
            )  # fmt: skip
    table = Table(title=f"{count(pairs, 'sentence')} of {split}", title_justify="left")
    table.caption = "90% intervals over sentences"
    for name in ("run", "BLEU", "chrF", "cross-entropy per token"):
        table.add_column(name, justify="left" if name == "run" else "right", overflow="fold")
    for name, own in scores.items():
        _add(table, name, own)
    if len(scores) == 2:
        first, second = scores.values()
        _add(table, "first - second", difference(first, second))
    Console().print(table)


def _add(table: Table, name: str, scores: Scores) -> None:
    table.add_row(
        name, _cell(scores.bleu.interval, 1), _cell(scores.chrf.interval, 1),
        _cell(scores.cross_entropy.interval, 3),
    )  # fmt: skip


def _cell(interval: Interval, digits: int) -> str:
    low, high = f"{interval.low:.{digits}f}", f"{interval.high:.{digits}f}"
    return f"{interval.value:.{digits}f} ({low} .. {high})"
