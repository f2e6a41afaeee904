"""All results in one page, with a summary of all claims at its top."""

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import get_args

import pandas as pd

from innerloop.core.files import slug
from innerloop.report.page import Cell, Page, Section
from innerloop.report.study_page import anchor, here, study_sections, tags_of, verdict_cell
from innerloop.report.words import (
    SIGNS,
    VERDICTS,
    duration,
    figures,
    paper_title,
    scales,
    tally,
    versions,
)
from innerloop.studies.result import Result
from innerloop.studies.study import Scale
from innerloop.studies.table import PAPERS, STUDIES


def choose(results: Iterable[Result], scale: str | None = None) -> list[Result]:
    """One result per study, in the order of the papers: of a scale, or of the largest there is."""
    wanted = [result for result in results if scale in (None, result.scale)]
    # From the smallest on: of several scales, the one that says most stays.
    by_scale = sorted(wanted, key=lambda result: get_args(Scale).index(result.scale))
    return in_order({result.name: result for result in by_scale}.values())


def in_order(results: Iterable[Result]) -> list[Result]:
    """As the papers and their figures are; studies that are in no table come last."""
    papers, studies = list(PAPERS), [study.name for study in STUDIES]

    def place(result: Result) -> tuple[int, str, int, str]:
        paper = papers.index(result.paper) if result.paper in papers else len(papers)
        study = studies.index(result.name) if result.name in studies else len(studies)
        return paper, result.paper, study, result.id

    return sorted(results, key=place)


def joined_page(results: Sequence[Result]) -> Page:
    """The page of all results; they are complete."""
    sections: list[Section] = [
        Section(title="Summary", anchor="summary", table=summary_table(results))
    ]
    papers = {paper: list(own) for paper, own in groupby(results, lambda result: result.paper)}
    for paper, own in papers.items():
        sections.append(
            Section(title=paper_title(paper), text=paper, anchor=slug(paper), tags=tags_of(own))
        )
        for result in own:
            title = f"{result.paper} {figures(result)}: {result.title}"
            sections += study_sections(result, level=3, title=title)
    return Page(
        title="The papers' claims, measured",
        summary=f"{tally(results)}. Scale: {scales(results)}. Every criterion is in the code with "
        "its reason; intervals are 90%.",
        sections=tuple(sections),
        footer=f"Measuring took {duration(sum(result.seconds for result in results))}. "
        f"{versions(results)}.",
        filters={
            "verdict": {slug(verdict): f"{SIGNS[verdict]} {verdict}" for verdict in VERDICTS},
            "paper": {slug(paper): paper for paper in papers},
        },
    )


def summary_table(results: Sequence[Result]) -> pd.DataFrame:
    """One row per claim, with a link to its study."""
    rows = [
        {
            "study": Cell(
                text=f"{result.paper} {result.id}",
                link=anchor(result),
                tags={"paper": slug(result.paper)},
            ),
            "claim": Cell(text=judged.claim.sentence, detail=(judged.claim.quantity,)),
            "in the paper": judged.claim.paper,
            "here": here(judged),
            "criterion": str(judged.claim.criterion),
            "verdict": verdict_cell(judged),
        }
        for result in results
        for judged in result.claims
    ]
    return pd.DataFrame(rows)
