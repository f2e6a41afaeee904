"""`identify` on learners whose answer is known, with and without noise on their predictions."""

import math

import pytest
import torch

from innerloop.analysis.candidates import Candidate
from innerloop.analysis.identify import Identification, identify
from innerloop.analysis.identify_figure import draw_identification
from innerloop.core.errors import ConfigurationError
from innerloop.core.iterate import trajectory
from innerloop.learners import OLS, FromFunction, GradientDescent, Newton, Ridge
from innerloop.tasks import LinearRegression
from tests.analysis.identify_cases import CASES, DIMS, POINTS, PROMPTS, Case, Noisy

TASK = LinearRegression(dims=DIMS)
NOISES = (0.0, 1e-3, 1e-2)


def ask(case: Case, noise: float) -> Identification:
    return identify(Noisy(case.make(), noise), TASK, points=POINTS, prompts=PROMPTS, draws=200)


def mistakes(case: Case, noise: float, found: Identification) -> list[str]:
    """What is wrong with an answer; the rules are those that a reader would hold it to."""
    wrong: list[str] = []
    if found.family not in case.families:
        return [f"family {found.family}, expected {sorted(case.families)}"]
    if case.penalty is not None:
        ratio = float(found.parameters["penalty"]) / case.penalty
        if abs(math.log10(ratio)) > 0.5 + 1e-9:  # the grid has two points a decade
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
@pytest.mark.parametrize("noise", NOISES)
def test_nineteen_of_twenty_known_learners_are_found(noise: float) -> None:
    """The issue's measure: at least 95% of the cases, at every noise."""
    found = {name: mistakes(case, noise, ask(case, noise)) for name, case in CASES.items()}
    wrong = {name: told for name, told in found.items() if told}
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
    assert set(found.equivalents) >= {"ShermanMorrison", "Bayes"}
    assert found.parameters["penalty"] == pytest.approx(1.0, rel=1e-6)
    assert found.sureness == 1.0
    assert found.unexplained < 1e-12
    assert list(found.ranking["spd"]) == sorted(found.ranking["spd"])
    low, high = found.intervals["OLS"]
    spd = dict(zip(found.ranking["family"], found.ranking["spd"], strict=True))
    assert low <= spd["OLS"] <= high
    assert found.progression is None
    assert "Ridge(penalty=1)" in found.summary()


def test_steps_are_matched_one_by_one() -> None:
    """A circuit-like learner: its own steps are Newton's, from the first to the last."""
    found = identify(Newton(steps=5), TASK, points=POINTS, prompts=32, draws=50)
    assert found.progression is not None
    table = found.progression.table()
    assert list(table["Newton"]) == [0, 1, 2, 3, 4, 5]
    assert found.progression.matches["Newton"].linear.slope == pytest.approx(1.0)


def test_only_the_given_candidates_count() -> None:
    given = [Candidate(family="OLS", learner=OLS())]
    found = identify(
        GradientDescent(steps=1, step_size=0.01), TASK, points=POINTS, prompts=16, candidates=given
    )
    assert found.family == "none"
    assert list(found.ranking["family"]) == ["OLS"]


def test_the_figure_has_both_parts() -> None:
    found = identify(Newton(steps=2), TASK, points=5, prompts=16, draws=20)
    figure = draw_identification(found)
    assert len(figure.axes) == 2
    assert figure.axes[1].get_yscale() == "symlog"


def test_predictions_that_are_not_finite_are_refused() -> None:
    broken = FromFunction(lambda xs, ys: torch.full_like(ys, torch.nan))
    with pytest.raises(ConfigurationError, match="not finite"):
        identify(broken, TASK, points=4, prompts=4)


@pytest.mark.parametrize("size", [0.0, 1e-30, 1e200])
def test_predictions_of_no_sensible_size_are_refused(size: float) -> None:
    flat = FromFunction(lambda xs, ys: torch.full_like(ys, size))
    with pytest.raises(ConfigurationError, match="predicts numbers of size"):
        identify(flat, TASK, points=4, prompts=4)


def test_what_does_not_explain_is_no_equivalent() -> None:
    """On diverging predictions one prompt outweighs all: draws without it prove nothing."""
    wild = GradientDescent(steps=25, step_size=0.4, average=True)
    found = identify(wild, TASK, points=POINTS, prompts=64, draws=100)
    assert found.family == "GradientDescent"
    assert "Averaging" not in found.equivalents


def test_one_prompt_is_too_few() -> None:
    with pytest.raises(ConfigurationError, match="expected at least 2"):
        identify(OLS(), TASK, points=4, prompts=1)
