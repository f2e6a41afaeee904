"""Matching the steps of two learners, where the answer is known."""

import pytest
import torch
from torch import Tensor

from innerloop.analysis.intervals import average
from innerloop.analysis.matching import (
    MEASURES,
    Measure,
    best_matches,
    explained,
    falling_steps,
    line,
    match,
    match_all,
)
from innerloop.analysis.measured import Measured
from innerloop.analysis.similarity import sim_e, sim_w, spd
from innerloop.core.chunks import budget
from innerloop.core.errors import ConfigurationError
from innerloop.core.prompt import Prompt
from innerloop.learners import OLS, GradientDescent, Newton
from innerloop.tasks import LinearRegression


def noisy_prompt(batch: int = 40) -> Prompt:
    """With noise residuals stay apart from rounding at every step."""
    task = LinearRegression(dims=4, noise=0.3)
    prompt = task.sample(batch, 9, generator=torch.Generator().manual_seed(0))
    return prompt.to(dtype=torch.float64)


def means(measured: Measured) -> Tensor:
    """The averages over prompts: (A, C)."""
    return average(measured.values, counted=measured.counted)


def fit(table: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Places, matches and which of them are fitted, of averages (A, C); each (A - 1,).

    Without the start, and without what matches the last step: it might match a later one.
    """
    best = best_matches(table)[1:].double()  # (A - 1,)
    places = torch.arange(1, len(table), dtype=torch.float64)  # (A - 1,)
    return places, best, (best < table.shape[1] - 1).double()


@pytest.mark.parametrize("measure", MEASURES)
def test_a_learner_matches_itself_step_by_step(measure: Measure) -> None:
    learner = GradientDescent(steps=6, step_size=0.02)
    measured = match(learner, learner, noisy_prompt(), measure=measure)
    assert (measured.axes, measured.label) == (("step", "match"), learner.name)
    best = best_matches(means(measured), measure)  # (7,)
    assert best.tolist() == list(range(7))
    slope, part = line(torch.arange(7.0), best.double())
    assert (float(slope), float(part)) == (1.0, 1.0)


def test_two_steps_of_half_the_size_match_one() -> None:
    """To first order; the slope of the best match is two."""
    slow = GradientDescent(steps=40, step_size=0.001)
    fast = GradientDescent(steps=10, step_size=0.002)
    slope, _ = line(*fit(means(match(fast, slow, noisy_prompt()))))
    assert float(slope) == pytest.approx(2.0, abs=0.1)


def test_newton_doubles_gradient_descent() -> None:
    """Newton's k-th residual is that of 2^k small steps on S^2: exponential, not linear."""
    table = means(match(Newton(steps=6), GradientDescent(steps=400), noisy_prompt()))
    places, best, chosen = fit(table)
    steps, logarithms = explained(places, best, chosen)
    assert float(logarithms) > float(steps)
    assert float(line(places, best.clamp(min=1).log(), chosen)[0]) > 0.4


@pytest.mark.parametrize(("measure", "plain"), [("sim_e", sim_e), ("sim_w", sim_w), ("spd", spd)])
def test_every_entry_is_the_similarity_of_these_steps(measure: Measure, plain: object) -> None:
    first, second = GradientDescent(steps=3, step_size=0.02), Newton(steps=2)
    prompt = noisy_prompt(15)
    measured = match(first, second, prompt, measure=measure)
    assert measured.values.shape == (15, 4, 3)
    for i in range(4):
        for j in range(3):
            if measure == "sim_w" and i == 0:
                continue  # zero weights have no direction: 0 here, and 0 there
            each = plain(first, second, prompt, steps=(i, j))  # pyright: ignore
            each = each.mean(*each.axes)
            # SimE is one number per prompt; of SPD and SimW it is the mean over prefixes.
            assert torch.allclose(measured.values[:, i, j], each.values, atol=1e-9)


def test_several_are_matched_at_once_and_by_their_own_weights() -> None:
    first, prompt = GradientDescent(steps=3, step_size=0.02), noisy_prompt(7)
    others = {"Newton": Newton(steps=2), "least squares": OLS()}
    whole = match_all(first, others, prompt, measure="sim_w", exact=True, axes=("layer", "step"))
    assert [one.values.shape for one in whole.values()] == [(7, 4, 3), (7, 4, 1)]
    with budget(1):  # one prompt at a time, with queries of its own
        queries = torch.randn(7, 9, 4, generator=torch.Generator().manual_seed(2))
        for label, other in others.items():
            assert (whole[label].axes, whole[label].label) == (("layer", "step"), label)
            alone = match(first, other, prompt, measure="sim_w", queries=queries)
            # In float64, weights that are fitted are the learner's own.
            assert torch.allclose(whole[label].values, alone.values, atol=1e-9)


def test_an_iteration_that_diverges_is_no_match() -> None:
    wild = GradientDescent(steps=400, step_size=10.0)
    first = GradientDescent(steps=3, step_size=0.02)
    table = means(match(first, wild, noisy_prompt(), measure="spd"))
    best = best_matches(table, "spd")
    assert int(best.max()) == 0
    assert bool(torch.isfinite(table.gather(1, best[:, None])).all())


def test_prompts_without_positions_that_count_say_nothing() -> None:
    prompt = noisy_prompt(6)
    scored = torch.ones(6, 9, dtype=torch.bool)
    scored[2] = False
    some = Prompt(xs=prompt.xs, ys=prompt.ys, scored=scored)
    kept = prompt.select(torch.tensor([0, 1, 3, 4, 5]))
    for measure in MEASURES:
        one, other = (match(Newton(2), OLS(), each, measure=measure) for each in (some, kept))
        assert torch.allclose(means(one), means(other), atol=1e-12)


def test_lines_without_two_points_are_not_numbers() -> None:
    slope, part = line(*fit(torch.eye(2, dtype=torch.float64)))
    assert slope.isnan()
    assert part.isnan()


def test_line_through_whole_numbers_is_exact() -> None:
    places = torch.arange(2.0, 9.0, dtype=torch.float64)  # (7,)
    slope, part = line(places, torch.stack([2 * places - 1, 2**places]))
    assert float(slope[0]) == 2.0
    assert float(part[0]) == 1.0
    # Places that are not chosen might hold anything.
    chosen = (places < 6).double()  # (7,)
    values = torch.where(chosen > 0, 3 * places, 1e9)  # (7,)
    assert [float(each) for each in line(places, values, chosen)] == [3.0, 1.0]


@pytest.mark.parametrize(
    ("errors", "expected"),
    [
        ([1.0, 1.0, 0.8, 0.4, 0.1, 0.095], range(2, 5)),
        ([1.0, 0.5, 0.2, 0.1], range(1, 4)),
        ([1.0, 0.99, 0.98], range(0)),
        ([1.0, 0.95, 0.88, 0.87], range(0)),  # slowly, and never by a tenth
    ],
)
def test_falling_steps(errors: list[float], expected: range) -> None:
    assert falling_steps(torch.tensor(errors)) == expected


def test_unknown_measure_is_refused() -> None:
    learner = Newton(steps=1)
    with pytest.raises(ConfigurationError, match="unknown measure 'simE'"):
        match(learner, learner, noisy_prompt(2), measure="simE")  # pyright: ignore[reportArgumentType]
