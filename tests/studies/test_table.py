"""Every row of the papers' claims is a study, and what it declares holds together."""

import math
import re
from pathlib import Path

import pytest

from innerloop.data.reading import MissingDataError
from innerloop.report.headlines import HEADLINES
from innerloop.studies.claim import FEWEST_SEEDS
from innerloop.studies.reproduce import reproduce
from innerloop.studies.result import read_result
from innerloop.studies.study import Study
from innerloop.studies.table import PAPERS, STUDIES, find_studies
from innerloop.training.families import SCALES
from innerloop.training.store import Store

ROWS = {
    "yang2024": "fig2 fig3 fig4,fig12,fig13 fig5,fig14 fig6,fig15 fig7 fig8 fig9 fig10 fig11 fig16 "
    "fig17 table2",
    "gao2025": "fig2a fig2b fig2c fig3 fig4 fig5 table1 table2 thm3.1 thm3.2 thm3.3 thm4.1 thm4.2",
    "fu2023": "fig1 fig3,fig6,fig8 fig4,fig11,fig12,fig13 fig5,table1 fig7,fig10 fig9 fig14,fig15 "
    "fig16 thm1 b3",
    "akyurek2022": "lemma1 thm1 thm2 fig1 fig2 fig3 fig4",
    "chen2025": "thm4.2 thm4.5 fig1 train",
}
"""Every figure, table and theorem that a claim is made with."""


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
    assert {"smoke", "laptop", "paper"} <= set(study.minutes) <= set(SCALES)
    # Thirty minutes is the most that a study may take on a laptop.
    assert study.minutes["laptop"] <= 30
    assert all(math.isfinite(minutes) for minutes in study.minutes.values())
    trains = bool(study.runs("laptop"))
    told = {scale for scale, sentence in study.smaller.items() if sentence}
    assert "paper" not in told
    if trains:
        assert told == {*study.scales} - {"paper"}, "what is smaller than in the paper is said"


@pytest.mark.parametrize("study", STUDIES, ids=lambda study: study.name)
def test_runs_can_be_configured_at_every_scale(study: Study) -> None:
    sizes = {scale: study.runs(scale) for scale in study.scales}
    assert all(bool(runs) == bool(sizes["paper"]) for runs in sizes.values())
    assert all(config.steps <= 50 for config in sizes["smoke"].values())
    if study.paper != "chen2025":  # which trains nothing in print
        assert all(config.steps >= 100_000 for config in sizes["paper"].values())


@pytest.mark.parametrize("study", STUDIES, ids=lambda study: study.name)
def test_a_claim_about_trained_models_names_learners_that_fail_it(study: Study) -> None:
    for claim in study.claims:
        assert claim.exact or claim.excludes, f"{study.name} {claim.name} cannot fail"
        assert not (claim.exact and claim.excludes)


RESULTS = [
    read_result(file.parent, file.name)
    for file in sorted((Path(__file__).parents[2] / "docs" / "results").glob("*/*.json"))
]
"""The results of the documentation."""


def test_nothing_is_confirmed_of_trained_models_with_fewer_than_three_seeds() -> None:
    claims = [
        (result.name, judged) for result in RESULTS for judged in result.claims
        if not judged.claim.exact
    ]  # fmt: skip
    assert len(claims) > 50
    for name, judged in claims:
        if judged.verdict in ("confirmed", "contradicted"):
            assert len(judged.seeds) >= FEWEST_SEEDS, f"{name} {judged.claim.name}"


def test_no_criterion_of_the_documentation_is_passed_by_one_of_its_nulls() -> None:
    for result in RESULTS:
        for judged in result.claims:
            passing = [control.null for control in judged.controls if control.passes]
            assert not passing, f"{result.name} {judged.claim.name}"
            if judged.verdict in ("confirmed", "contradicted"):
                assert {each.null for each in judged.controls} == set(judged.claim.excludes)


def test_every_headline_is_a_claim_of_a_study() -> None:
    for headline in HEADLINES:
        (study,) = find_studies(headline.study)
        assert headline.claim in [claim.name for claim in study.claims], headline
    assert [headline.study.partition("/")[0] for headline in HEADLINES] == list(PAPERS)


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
    runs = study.seeded_runs("laptop", (3, 4, 5))
    assert len({config.key() for config in runs.values()}) == len(runs) == 2 * 3


def has_data(study: Study) -> bool:
    """Whether the real data that it needs, if any, are here."""
    try:
        for config in study.runs("smoke").values():
            config.task.data_digest()
    except MissingDataError:
        return False
    return True


@pytest.mark.slow
def test_every_study_runs_at_smoke_scale(tmp_path: Path) -> None:
    failed: dict[str, str] = {}
    studies = [study for study in STUDIES if has_data(study)]
    for outcome in reproduce(
        studies, scale="smoke", store=Store(tmp_path / "runs"), results=tmp_path / "results",
        workers=2,
    ):  # fmt: skip
        study, result = outcome.study, outcome.result
        if outcome.skipped:  # its data are not here
            continue
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
        trained = {claim.name for claim in study.claims if not claim.exact}
        assert all(done[name] in ("exploratory", "not at this size") for name in trained)
    assert failed == {}
