"""A study's results as sections of a page, and as a page of their own beside its tables."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from innerloop.core.files import slug
from innerloop.report.page import Cell, Folded, Page, Section, write_page
from innerloop.report.words import (
    SIGNS,
    by_seed,
    controls_of,
    count,
    facts_of,
    figures,
    measured,
    paper_title,
    premise,
    why,
)
from innerloop.studies.claim import Judged
from innerloop.studies.result import Result
from innerloop.studies.table import STUDIES

PAGE = "index.html"
ROWS = 30
"""How many rows of a table a page shows; the CSV has all."""


def write_study_page(result: Result) -> Path:
    """Write the page of a study into its folder."""
    return write_page(study_page(result), result.folder / PAGE)


def study_page(result: Result) -> Page:
    """One study as a page."""
    return Page(
        title=result.title,
        summary=f"{paper_title(result.paper)} ({result.paper}), {figures(result)}: "
        f"{result.verdicts}.",
        sections=study_sections(result, level=2),
        footer=result.command,
    )


def study_sections(result: Result, *, level: int, title: str = "Claims") -> tuple[Section, ...]:
    """The claims with their verdicts, the figure, how it was done, and the tables."""
    below, tags = 2 if level == 2 else level + 1, tags_of([result])
    return (
        Section(
            title=title, level=level, anchor=anchor(result), table=claims_table(result), tags=tags
        ),
        Section(
            title="Figure",
            level=below,
            figure=_figure(result),
            drawn_from=tuple(result.table(name) for name in result.tables),
            description=f"{result.title}: {figures(result)} of {result.paper}, drawn anew from "
            f"the tables {', '.join(result.tables)} below.",
            tags=tags,
        ),
        *_controls(result, below),
        Section(title="How it was done", level=below, facts=tuple(facts_of(result)), tags=tags),
        Section(title="Tables", level=below, folded=tuple(_folded(result)), tags=tags),
    )


def _figure(result: Result) -> Figure | bytes:
    """The figure, drawn from the tables; the picture where this version cannot draw it.

    That is so of a study that is not in the table, and of an older one with other tables.
    """
    for study in STUDIES:
        if study.name == result.name and result.called in ("", study.called):
            try:
                return study.draw({name: result.table(name) for name in result.tables})
            except (LookupError, ValueError):
                break
    return result.figure.read_bytes()


def tags_of(results: Sequence[Result]) -> dict[str, str]:
    """What filters know results of one paper by: the paper, and all their verdicts."""
    known = dict.fromkeys(slug(judged.verdict) for result in results for judged in result.claims)
    return {"paper": slug(results[0].paper), "verdict": " ".join(known)}


def anchor(result: Result) -> str:
    """What links to a study are called."""
    return slug(result.name)


def claims_table(result: Result) -> pd.DataFrame:
    """One row per claim: the paper's sentence, what was measured, the criterion, the verdict."""
    rows = [
        {
            "claim": Cell(text=judged.claim.sentence),
            "measured": judged.claim.quantity,
            "in the paper": judged.claim.paper,
            "here": here(judged),
            "criterion": Cell(
                text=str(judged.claim.criterion), detail=(judged.claim.criterion.reason,)
            ),
            "verdict": verdict_cell(judged),
        }
        for judged in result.claims
    ]
    return pd.DataFrame(rows)


def _controls(result: Result, level: int) -> list[Section]:
    """What the claims' quantities are on learners that should fail, if any were measured."""
    rows = controls_of(result)
    if not rows:
        return []
    text = "The same quantities on learners of which the sentences are not true."
    table = pd.DataFrame(rows)
    return [Section(title="Controls", level=level, text=text, table=table, tags=tags_of([result]))]


def here(judged: Judged) -> Cell:
    """What was measured, its interval below it, and the value of each seed."""
    value, _, interval = measured(judged).partition(" (")
    lines = (interval.rstrip(")"), by_seed(judged))
    return Cell(text=value, detail=tuple(line for line in lines if line))


def verdict_cell(judged: Judged) -> Cell:
    """A verdict by word, sign and colour, why it is none, and what it rests on."""
    lines = (why(judged), premise(judged))
    return Cell(
        text=f"{SIGNS[judged.verdict]} {judged.verdict}",
        mark=slug(judged.verdict),
        tags={"verdict": slug(judged.verdict)},
        detail=tuple(line for line in lines if line),
    )


def _folded(result: Result) -> list[Folded]:
    folded: list[Folded] = []
    for name in result.tables:
        table = result.table(name)
        rows = count(len(table), "row")
        shown = f"first {ROWS} of {rows}" if len(table) > ROWS else rows
        folded.append(Folded(title=f"{name}.csv ({shown})", table=table.head(ROWS)))
    return folded
