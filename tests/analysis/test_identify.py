"""`identify` on learners whose answer is known, with and without noise on their predictions."""

import math
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor

from innerloop.analysis.candidates import (
    LEAST_SQUARES,
    NEWTON,
    RIDGE,
    Candidate,
    Family,
    default_candidates,
)
from innerloop.analysis.identification import Identification
from innerloop.analysis.identify import identify
from innerloop.analysis.identify_figure import draw_identification
from innerloop.core.errors import ConfigurationError
from innerloop.core.iterate import predict, trajectory
from innerloop.core.learner import Learner
from innerloop.core.prompt import Prompt
from innerloop.learners import (
    OLS,
    Bayes,
    FromFunction,
    GradientDescent,
    Newton,
    Ridge,
    ShermanMorrison,
)
from innerloop.tasks import LinearRegression
from tests.analysis.identify_cases import CASES, DIMS, POINTS, PROMPTS, Case, Noisy
from tests.analysis.identify_wider_cases import WIDER_CASES

TASK = LinearRegression(dims=DIMS)
NOISES = (0.0, 1e-3, 1e-2)


def ask(case: Case, noise: float) -> Identification:
    """What it is taken for in distribution."""
    return identify(
        Noisy(case.make(), noise), TASK, points=POINTS, prompts=PROMPTS, draws=200, shifts={}
    )


def mistakes(case: Case, noise: float, found: Identification) -> list[str]:
    """What is wrong with an answer; the rules are those that a reader would hold it to."""
    wrong: list[str] = []
    if found.family not in case.families:
        return [f"family {found.family}, expected {sorted(case.families)}"]
    if case.penalty is not None:
        ratio = float(found.parameters["penalty"]) / case.penalty
        if abs(math.log10(ratio)) > 0.5 + 1e-9:  # the grid has two points per decade
            wrong.append(f"penalty {found.parameters['penalty']}, expected {case.penalty}")
    if case.steps is not None and next_step_is_seen(case, noise):
        steps = int(found.parameters["steps"])
        if abs(steps - case.steps) > 1:
            wrong.append(f"{steps} steps, expected {case.steps}")
    return wrong


def next_step_is_seen(case: Case, noise: float) -> bool:
    """Whether one step more changes the predictions by more than three times the noise."""
    learner = case.make()
    prompt = TASK.sample(PROMPTS, POINTS, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        answers = trajectory(
            learner, prompt.to(dtype=torch.float64), steps=learner.steps + 1
        ).predictions
    change = float((answers[-1] - answers[-2]).square().mean().sqrt())
    return change > 3 * noise


@pytest.mark.parametrize("name", ["gd 5 x 0.02", "newton 6", "ridge 1", "a mixture of two"])
def test_known_learners_are_found(name: str) -> None:
    """A few of the cases; all of them, at all noises, are in the slow tier."""
    case = CASES[name]
    assert mistakes(case, 1e-2, ask(case, 1e-2)) == []


@pytest.mark.slow
def test_the_wider_candidates_are_found() -> None:
    """At least 28 of 30 cases, which were held apart from tuning."""
    wrong: list[str] = []
    for name, noise in product(WIDER_CASES, NOISES):
        case = WIDER_CASES[name]
        found = identify(
            Noisy(case.make(), noise), TASK, points=POINTS, prompts=PROMPTS, draws=200,
            battery=case.battery, shifts={},  # the family is found in distribution
        )  # fmt: skip
        if found.family not in case.families:
            wrong.append(f"{name} with noise {noise:g}: {found.statement()}")
    assert len(WIDER_CASES) * len(NOISES) == 30
    assert len(wrong) <= 2, wrong


@pytest.mark.slow
@pytest.mark.parametrize("noise", NOISES)
def test_nineteen_of_twenty_known_learners_are_found(noise: float) -> None:
    """At least 95% of the cases, at every noise."""
    found = {name: mistakes(case, noise, ask(case, noise)) for name, case in CASES.items()}
    wrong = {name: reasons for name, reasons in found.items() if reasons}
    assert len(CASES) >= 20
    assert len(wrong) <= 0.05 * len(CASES), wrong


def test_a_mixture_is_taken_apart() -> None:
    found = ask(CASES["a mixture of two"], 0.0)
    assert found.family == "none"
    names = [name for _, name in found.mixture]
    assert any(name.startswith("NearestNeighbors(k=3)") for name in names)
    assert "0.5" in found.summary()


def test_what_it_rests_on_is_told() -> None:
    found = identify(Ridge(1.0), TASK, points=POINTS, prompts=32, draws=50)
    assert found.family == "Ridge"
    assert found.parameters["penalty"] == pytest.approx(1.0, rel=1e-6)
    # Every draw agrees, and 32 prompts are no more than 32.
    assert 0.9 < found.sureness <= 33 / 34
    assert found.unexplained < 1e-12
    assert list(found.ranking["spd"]) == sorted(found.ranking["spd"])
    row = found.ranking[found.ranking["family"] == "OLS"].iloc[0]
    assert row["low"] <= row["spd"] <= row["high"]
    assert found.intervals["OLS"] == (row["low"], row["high"])
    assert found.progression is None
    assert "Ridge(penalty=1)" in found.summary()


@pytest.mark.parametrize("learner", [Ridge(2.25), ShermanMorrison(2.25), Bayes(1.5)], ids=str)
def test_learners_that_compute_one_function_have_one_answer(learner: Learner[Any]) -> None:
    """Each of the three is found to be ridge, and named beside it; nothing else is."""
    prompt = TASK.sample(16, POINTS, generator=torch.Generator().manual_seed(0))
    given = [one for one in default_candidates(prompt) if one.family in (RIDGE, LEAST_SQUARES)]
    found = identify(learner, TASK, points=POINTS, prompts=16, draws=50, candidates=given)
    assert found.parameters["penalty"] == pytest.approx(2.25, rel=1e-6)
    assert found.unexplained < 1e-12
    names = [found.family, *found.equivalents]
    assert names[0] == "Ridge"
    assert type(learner).__name__ in names
    assert len(names) == 3


def test_of_families_that_nothing_tells_apart_the_simplest_is_the_answer() -> None:
    """Newton's method converged is least squares, whichever of the two is given first."""
    given = [
        Candidate(family=NEWTON, learner=Newton(steps=40)),
        Candidate(family=LEAST_SQUARES, learner=OLS()),
    ]
    for candidates in (given, given[::-1]):
        found = identify(OLS(), TASK, points=4, prompts=16, draws=50, candidates=candidates)
        assert (found.family, found.equivalents) == ("OLS", ("Newton",))


def test_steps_are_matched_one_by_one() -> None:
    """A circuit-like learner: its own steps are Newton's, from the first to the last."""
    found = identify(Newton(steps=5), TASK, points=POINTS, prompts=32, draws=50)
    assert found.progression is not None
    table = found.progression.table()
    assert list(table["Newton"]) == [0, 1, 2, 3, 4, 5]
    assert found.progression.fits()["Newton"][0] == pytest.approx(1.0)


def test_only_the_given_candidates_count() -> None:
    given = [Candidate(family=LEAST_SQUARES, learner=OLS())]
    found = identify(
        GradientDescent(steps=1, step_size=0.01), TASK, points=POINTS, prompts=16, candidates=given
    )
    assert found.family == "none"
    assert list(found.ranking["family"]) == ["OLS"]


def test_bare_learners_are_candidates_as_they_are() -> None:
    """Two of one class stay apart, and the simplest of those that are the same is the answer."""
    given = [Newton(steps=40), Ridge(0.1), Ridge(10.0), OLS()]
    found = identify(Ridge(10.0), TASK, points=POINTS, prompts=16, draws=50, candidates=given)
    assert found.family == found.algorithm == "Ridge(penalty=10)"
    assert set(found.ranking["family"]) == {one.name for one in given}
    assert found.unexplained < 1e-12
    found = identify(OLS(), TASK, points=4, prompts=16, draws=50, candidates=given)
    assert (found.family, found.equivalents) == ("OLS", ("Newton(steps=40)",))
    early = identify(Newton(3), TASK, points=POINTS, prompts=16, draws=50, candidates=given)
    assert early.algorithm == "Newton(steps=40) after 3 steps"


def test_the_figure_has_a_part_for_each_question() -> None:
    """Families, shifts and steps; without shifts or steps, no axes for them."""
    found = identify(Newton(steps=2), TASK, points=5, prompts=16, draws=20, families=["newton"])
    axes = draw_identification(found).axes
    assert [one.get_title(loc="left") for one in axes] == ["in distribution", "under shifts", ""]
    assert axes[2].get_yscale() == "symlog"
    shown = [label.get_text() for label in axes[1].get_yticklabels()]
    assert shown == list(found.shifts["shift"])
    plain = identify(OLS(), TASK, points=5, prompts=16, draws=20, families=["ols"], battery="none")
    assert len(draw_identification(plain).axes) == 1


def test_predictions_that_are_not_finite_are_refused() -> None:
    broken = FromFunction(lambda xs, ys: torch.full_like(ys, torch.nan))
    with pytest.raises(ConfigurationError, match="not finite"):
        identify(broken, TASK, points=4, prompts=4)


@pytest.mark.parametrize("size", [0.0, 1e-30, 1e200])
def test_predictions_of_no_sensible_size_are_refused(size: float) -> None:
    flat = FromFunction(lambda xs, ys: torch.full_like(ys, size))
    with pytest.raises(ConfigurationError, match="predicts numbers of size"):
        identify(flat, TASK, points=4, prompts=4)


def test_a_descent_that_diverges_is_identified() -> None:
    wild = GradientDescent(steps=25, step_size=0.4, average=True)
    found = identify(wild, TASK, points=POINTS, prompts=64, draws=100)
    assert found.family == "GradientDescent"
    assert "Averaging" not in found.equivalents


def test_what_does_not_explain_is_no_equivalent() -> None:
    """One prompt outweighs all others: draws without it, a third of all, prove nothing."""
    prompt = TASK.sample(32, 4, generator=torch.Generator().manual_seed(0))
    second = float(prompt.xs[:, 0, 0].topk(2).values[1])

    def learner(usual: float, outlier: float) -> FromFunction:
        """Predicts the sum of x times one number on the outlier, another on all other prompts."""

        def function(xs: Tensor, ys: Tensor) -> Tensor:
            factors = torch.where(xs[:, :1, :1] > second + 1e-6, outlier, usual)  # (B, 1, 1)
            return factors * xs.sum(dim=2, keepdim=True)  # (B, n, 1)

        return FromFunction(function)

    explains, simpler = Family("explains", 1), Family("simpler, right but on the outlier", 0)
    given = [
        Candidate(family=explains, learner=learner(1.01, 1000.0)),
        Candidate(family=simpler, learner=learner(1.0, 0.0)),
    ]
    found = identify(learner(1.0, 1000.0), TASK, points=4, prompts=32, draws=200, candidates=given)
    assert (found.family, found.equivalents) == ("explains", ())
    unexplained = dict(zip(found.ranking["family"], found.ranking["unexplained"], strict=True))
    assert unexplained[explains.name] < 1e-6 < 0.99 < unexplained[simpler.name]


def test_sureness_is_the_share_of_draws_that_agree() -> None:
    """On one prompt in eight 1.7 times the answer: that leaves 5%, and draws lie on both sides."""

    def function(xs: Tensor, ys: Tensor) -> Tensor:
        line = predict(OLS(), Prompt(xs=xs, ys=ys))  # (B, n, 1)
        return torch.where(xs[:, :1, :1] > 1.15, 1.7 * line, line)  # (B, n, 1)

    given = [Candidate(family=Family("OLS", 0), learner=OLS())]
    task = LinearRegression(dims=2, dtype="float64")
    result = identify(
        FromFunction(function), task, points=8, prompts=64, draws=400, candidates=given
    )
    unexplained = float(result.ranking["unexplained"].iloc[0])
    assert 0 < result.sureness < 1, (unexplained, result.family)


def test_one_prompt_is_too_few() -> None:
    with pytest.raises(ConfigurationError, match="expected at least 2"):
        identify(OLS(), TASK, points=4, prompts=1)
