"""Every row of the papers' claims is a study, and what it declares holds together."""

import math
import re
from pathlib import Path

import pytest

from innerloop.studies.reproduce import reproduce
from innerloop.studies.study import Study
from innerloop.studies.table import PAPERS, STUDIES, find_studies
from innerloop.training.families import SCALES
from innerloop.training.store import Store

ROWS = {
    "yang2024": "fig2 fig3 fig4,fig12,fig13 fig5,fig14 fig6,fig15 fig7 fig8 fig9 fig10 fig11 fig16 "
    "fig17",
    "gao2025": "fig2a fig2b fig2c fig3 fig4 fig5 thm3.1 thm3.2 thm3.3 thm4.1 thm4.2",
    "fu2023": "fig1 fig3,fig6,fig8 fig4,fig11,fig12,fig13 fig5,table1 fig7,fig10 fig9 fig14,fig15 "
    "fig16 thm1 b3",
    "akyurek2022": "lemma1 thm1 thm2 fig1 fig2 fig3 fig4",
    "chen2025": "thm4.2 thm4.5 fig1 train",
}
"""Every figure, table and theorem that a claim is made with, but for tables of real data."""


def test_every_row_of_the_claims_is_a_study() -> None:
    rows = {
        (paper, row[0], tuple(row[1:]))
        for paper, ids in ROWS.items()
        for row in (word.split(",") for word in ids.split())
    }
    assert {(study.paper, study.id, study.also) for study in STUDIES} == rows
    assert set(ROWS) == set(PAPERS)


def test_a_study_is_found_by_each_of_its_names() -> None:
    for study in STUDIES:
        for name in (study.id, *study.also):
            assert find_studies(f"{study.paper}/{name}") == (study,)
        assert study in find_studies(study.paper)


@pytest.mark.parametrize("study", STUDIES, ids=lambda study: study.name)
def test_a_study_declares_what_it_needs(study: Study) -> None:
    assert study.title
    assert study.claims
    names = [claim.name for claim in study.claims]
    assert len(set(names)) == len(names)
    for claim in study.claims:
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9.]+)*", claim.name)
        assert claim.sentence.endswith(".")
        assert claim.quantity
        assert len(claim.criterion.reason) > 10, "a number without a reason"
    assert set(study.minutes) == set(SCALES)
    # Thirty minutes is the most that a study may take on a laptop.
    assert study.minutes["laptop"] <= 30
    assert all(math.isfinite(minutes) for minutes in study.minutes.values())
    trains = bool(study.runs("laptop"))
    told = {scale for scale, sentence in study.smaller.items() if sentence}
    assert "paper" not in told
    if trains:
        assert told == {"smoke", "laptop"}, "what is smaller than in the paper is said"


@pytest.mark.parametrize("study", STUDIES, ids=lambda study: study.name)
def test_runs_can_be_configured_at_every_scale(study: Study) -> None:
    sizes = {scale: study.runs(scale) for scale in SCALES}
    assert all(bool(runs) == bool(sizes["paper"]) for runs in sizes.values())
    assert all(config.steps <= 50 for config in sizes["smoke"].values())
    if study.paper != "chen2025":  # which trains nothing in print
        assert all(config.steps >= 100_000 for config in sizes["paper"].values())


QUICK = (
    "yang2024/fig3",
    "gao2025/fig5",
    "fu2023/fig3",
    "fu2023/b3",
    "akyurek2022/fig1",
    "chen2025/fig1",
)
"""One of each paper at least, and of each kind; all of them are run by the slow test below."""


@pytest.mark.parametrize("name", QUICK)
def test_a_study_of_each_paper_runs_at_smoke_scale(name: str, tmp_path: Path) -> None:
    (outcome,) = reproduce(
        find_studies(name), scale="smoke", store=Store(tmp_path / "runs"), results=tmp_path / "made"
    )
    assert outcome.result is not None, outcome.error
    assert outcome.result.figure.stat().st_size > 5000


def test_other_seeds_are_other_runs() -> None:
    (study,) = find_studies("yang2024/fig2")
    runs = study.seeded_runs("laptop", 3)
    assert len({config.key() for config in runs.values()}) == len(runs) == 3 * 2


@pytest.mark.slow
def test_every_study_runs_at_smoke_scale(tmp_path: Path) -> None:
    failed: dict[str, str] = {}
    for outcome in reproduce(
        STUDIES, scale="smoke", store=Store(tmp_path / "runs"), results=tmp_path / "results",
        workers=2,
    ):  # fmt: skip
        study, result = outcome.study, outcome.result
        if result is None:
            failed[study.name] = outcome.error
            continue
        assert [judged.claim for judged in result.claims] == [c.statement for c in study.claims]
        assert result.figure.stat().st_size > 5000
        assert result.tables
        for name in result.tables:
            table = result.table(name)
            assert len(table) > 0, f"{study.name} has an empty table {name}"
            # They are committed at laptop scale.
            assert (result.folder / f"{name}.csv").stat().st_size < 200_000
        done = {judged.claim.name: judged.verdict for judged in result.claims}
        trained = {claim.name for claim in study.claims if claim.over != "exact"}
        assert all(done[name] == "inconclusive" for name in trained)
    assert failed == {}
