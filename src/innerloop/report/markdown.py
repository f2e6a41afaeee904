"""Results as pages of the documentation: tables, pictures, and a summary for the README."""

import os
import re
from collections.abc import Callable, Iterable, Sequence
from html import escape
from itertools import groupby
from pathlib import Path

from innerloop.core.errors import ConfigurationError, InnerloopError
from innerloop.core.files import slug, write_atomically
from innerloop.core.words import printable
from innerloop.report.headlines import Row, blocks, headline_rows
from innerloop.report.joined import in_order
from innerloop.report.words import (
    SIGNS,
    by_seed,
    changed_since,
    controls_of,
    count,
    duration,
    facts_of,
    figures,
    measured,
    paper_title,
    premise,
    scales,
    tally,
    versions,
    why,
)
from innerloop.studies.claim import Judged
from innerloop.studies.measuring import TrainingTime
from innerloop.studies.result import CLAIMS, Result, read_result
from innerloop.studies.table import STUDIES

BEGIN, END = "<!-- results -->", "<!-- end of results -->"
"""The lines of a README before and after the summary."""
WRITTEN = "files.txt"
"""Names the files that were written into a folder: only these are ever replaced or removed."""


def write_docs(
    folder: Path,
    results: Sequence[Result],
    *,
    training: Callable[[Sequence[Result]], TrainingTime | None] | None = None,
) -> list[Result]:
    """Write results as pages with their pictures and tables; all results that the pages are about.

    Results that the folder holds already, of studies that are not among these, stay, so that one
    study can be reproduced without the others; what was written of studies that are no longer in
    the table is removed. `training` says how long the runs of all results took, each
    counted once, or None if it does not know.
    """
    known = _written(folder)
    everything = in_order([*results, *_kept(folder, known, results)])
    if not everything:  # else all that is there would be removed
        raise ConfigurationError(
            f"{folder} holds no results that can be read, and no others were given: write some "
            "with `innerloop reproduce`."
        )
    files = _pages(everything, training(everything) if training is not None else None)
    for result in results:
        files |= _files_of(result)
    staying = {name for result in everything for name in _names_of(result)}
    names = {*files, *staying, WRITTEN}
    _refuse_others(folder, [name for name in files if name not in known])
    # Noted before they are written: an interruption leaves no file that nobody knows of.
    _note(folder, {*known, *names})
    for name, content in files.items():
        _write(folder / name, content)
    for name in sorted(known - names):
        _remove(folder, name)
    _note(folder, names)
    return everything


def write_summary(readme: Path, results: Sequence[Result], folder: Path) -> Path:
    """Put the papers' headlines and all counts between the two lines of a README, with links."""
    before, after = require_place(readme)
    # Links are relative to the file that holds them, and have slashes on every system.
    there = Path(os.path.relpath(folder, readme.absolute().parent)).as_posix()
    summary = "\n".join(_summary(results, f"{there}/"))
    link = f"{count(len(results), 'study')}, claim by claim: [{there}]({there}/README.md)."
    return _write(readme, f"{before}{BEGIN}\n{summary}\n{link}\n{END}{after}".encode())


def _summary(results: Sequence[Result], folder: str = "") -> list[str]:
    """A row per paper, and all claims in four blocks."""
    rows = [
        (
            _text(row.headline.words), _link(row.result, figures(row.result), folder),
            *map(_text, row.cells),
        )
        for row in headline_rows(results)
    ]  # fmt: skip
    headings = ("headline", "study", *Row.headings)
    lines = [f"- {line}\n" for line in blocks(results)]
    table = [_table(headings, rows), f"{Row.legend}\n"] if rows else []
    return [*table, "".join(lines)]


def require_place(readme: Path) -> tuple[str, str]:
    """The text before and after the summary of a README; refused if it has no place for one."""
    try:
        text = readme.read_text("utf-8")
    except OSError as error:
        raise InnerloopError(f"cannot read {readme}: {error.strerror or error}.") from error
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(BEGIN) > text.index(END):
        raise ConfigurationError(
            f"{readme} has no place for a summary: write the lines `{BEGIN}` and `{END}` into it, "
            "once, in this order."
        )
    return text[: text.index(BEGIN)], text[text.index(END) + len(END) :]


def _pages(results: Sequence[Result], training: TrainingTime | None) -> dict[str, bytes]:
    pages = {"README.md": _overview(results, training).encode()}
    for paper, own in groupby(results, key=lambda result: result.paper):
        pages[f"{slug(paper)}.md"] = _paper(paper, list(own)).encode()
    return pages


def _overview(results: Sequence[Result], training: TrainingTime | None) -> str:
    """The page of all studies."""
    rows = [
        (_link(result, figures(result)), _text(result.title),
         "out of date" if changed_since(result) else result.verdicts,
         duration(result.training_seconds) if result.runs else "-", duration(result.seconds))
        for result in results
    ]  # fmt: skip
    time = f"Measuring took {duration(sum(result.seconds for result in results))}"
    if training is not None:
        time += f", training {duration(training.seconds)}, each run counted once"
    time += ", by the clock, whatever else the machine was doing"
    if training is not None:
        time += f"; a core that does nothing else would train for {duration(training.expected)}"
    known = {result.name for result in results}
    missing = ", ".join(study.name for study in STUDIES if study.name not in known)
    # Where studies were run in several ways, each page has the commands of its own.
    commands = {result.command.replace(result.name, "--all", 1) for result in results}
    command = commands.pop() if len(commands) == 1 else "innerloop reproduce PAPER/ID .."
    return "\n".join(
        [
            "# Results\n",
            *_summary(results),
            "Every criterion is in the code with its reason; intervals are 90%. "
            "Claims about trained models are about trainings: they need three seeds, models "
            "that have learned their task, and a criterion that learners which should fail it do "
            "fail. Below three seeds they are exploratory; where models have not learned, nothing "
            "follows at this size.\n",
            # A line that begins with the command's name cannot end the block.
            f"```sh\n{' '.join(printable(command).split())}\n```\n",
            f"Scale: {scales(results)}. {time}. Studies share runs: the column says how long those "
            f"of each took. With {_text(versions(results))}. What is smaller than in the paper "
            "stands with each study, and so does its command.\n",
            *([f"Not run at this scale: {missing}.\n"] if missing else []),
            _table(("study", "what it is about", "claims", "training", "measuring"), rows),
        ]
    )


def _paper(paper: str, results: Sequence[Result]) -> str:
    """The page of one paper's studies."""
    lines = [f"# {_text(paper_title(paper))}\n", f"{_text(paper)}. {tally(results)}.\n"]
    for result in results:
        lines += _study(result)
    return "\n".join(lines)


def _study(result: Result) -> list[str]:
    numbers, picture, *tables = _names_of(result)
    links = [f"[{_text(name)}]({file})" for name, file in zip(result.tables, tables, strict=True)]
    headings = ("claim", "measured", "in the paper", "here", "criterion", "verdict")
    facts = [
        f"- {_text(fact.heading)}: " + (_code if fact.code else _text)(fact.text)
        for fact in facts_of(result)
    ]
    return [
        f'<a id="{slug(result.id)}"></a>\n',
        f"## {_text(figures(result))}: {_text(result.title)}\n",
        _table(headings, [_claim(judged) for judged in result.claims]),
        *_controls(result),
        f"![{_text(result.title)}]({picture})\n",
        *facts,
        f"- numbers: {', '.join(links)}, [claims]({numbers})\n",
    ]


def _controls(result: Result) -> list[str]:
    rows = controls_of(result)
    if not rows:
        return []
    cells = [[_text(cell) or "-" for cell in row.values()] for row in rows]
    return ["Learners that should fail:\n", _table(tuple(rows[0]), cells)]


def _claim(judged: Judged) -> tuple[str, ...]:
    claim = judged.claim
    here = "; ".join(part for part in (measured(judged), by_seed(judged)) if part)
    verdict = f"{SIGNS[judged.verdict]} {judged.verdict}"
    return (
        _text(claim.sentence),
        _text(claim.quantity),
        _text(claim.paper or "-"),
        _text(here),
        _text(f"{claim.criterion}: {claim.criterion.reason}"),
        _text("; ".join(part for part in (verdict, why(judged), premise(judged)) if part)),
    )


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def _text(text: str) -> str:
    """Words that mean nothing in Markdown or HTML, in one line."""
    line = " ".join(printable(text).split())
    # As entities: not every reader of Markdown takes a backslash before a bracket of HTML.
    return re.sub(r"([\\`*_\[\]|~$])", r"\\\1", escape(line, quote=False))


def _code(text: str) -> str:
    """Words to be typed, as they are, in one line: between more backticks than they hold."""
    line = " ".join(printable(text).split())
    fence = "`" * (1 + max(map(len, re.findall("`+", line)), default=0))
    return f"{fence}{line}{fence}" if fence == "`" else f"{fence} {line} {fence}"


def _link(result: Result, words: str, folder: str = "") -> str:
    """A link to a study on the page of its paper."""
    page = f"{folder}{slug(result.paper)}.md"
    return f"[{_text(f'{result.paper} {words}')}]({page}#{slug(result.id)})"


def _files_of(result: Result) -> dict[str, bytes]:
    """What is copied of a result, by the name that it has in the folder."""
    sources = [CLAIMS, result.figure.name, *(f"{name}.csv" for name in result.tables)]
    contents = [(result.folder / source).read_bytes() for source in sources]
    return dict(zip(_names_of(result), contents, strict=True))


def _names_of(result: Result) -> list[str]:
    place = f"{slug(result.paper)}/{slug(result.id)}"
    tables = [f"{place}-{slug(name)}.csv" for name in result.tables]
    return [f"{place}.json", f"{place}.png", *tables]


def _kept(folder: Path, known: set[str], results: Sequence[Result]) -> list[Result]:
    """Results that the folder holds of studies of the table that are not given anew."""
    declared = {study.name for study in STUDIES} - {result.name for result in results}
    kept: list[Result] = []
    for name in sorted(known):
        file = folder / name
        if file.suffix != ".json" or not file.is_file():
            continue
        try:
            result = read_result(file.parent, file.name)
        except InnerloopError:
            continue  # of another version: it goes, as do its pictures
        if result.name in declared and all((folder / own).is_file() for own in _names_of(result)):
            kept.append(result)
    return kept


def _written(folder: Path) -> set[str]:
    """The files that were written into a folder before; names that lead out of it are not ours."""
    note = folder / WRITTEN
    if not note.is_file():
        return set()
    root = folder.resolve()
    names = {line for line in note.read_text("utf-8").splitlines() if line}
    return {name for name in names if (folder / name).resolve().is_relative_to(root)}


def _refuse_others(folder: Path, names: Iterable[str]) -> None:
    """Never write over a file that somebody else has put there."""
    for name in names:
        if (folder / name).exists():
            raise ConfigurationError(
                f"{folder / name} is not among the files that were written there before "
                f"({WRITTEN}): move it away, or choose another folder."
            )


def _note(folder: Path, names: Iterable[str]) -> None:
    _write(folder / WRITTEN, "".join(f"{name}\n" for name in sorted(names)).encode())


def _write(path: Path, content: bytes) -> Path:
    return write_atomically(path, lambda file: file.write_bytes(content))


def _remove(folder: Path, name: str) -> None:
    """Remove a file, and the folder that it leaves empty."""
    path = folder / name
    path.unlink(missing_ok=True)
    if path.parent != folder and path.parent.is_dir() and not any(path.parent.iterdir()):
        path.parent.rmdir()
