"""SPD, ILW, SimE and SimW against a slow transcription of their definitions."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

import innerloop as il
from innerloop.analysis.induced import bytes_asked
from innerloop.analysis.intervals import Interval
from innerloop.analysis.measured import Measured
from innerloop.analysis.similarity import (
    cosines,
    ilw,
    predict_in_parts,
    sim_e,
    sim_e_by_examples,
    sim_w,
    spd,
)
from innerloop.core.chunks import budget
from innerloop.core.errors import PromptError
from innerloop.core.learner import Learner
from innerloop.core.prompt import Prompt
from innerloop.learners import (
    OLS,
    FromFunction,
    GradientDescent,
    Lasso,
    NearestNeighbors,
    Newton,
    Ridge,
)

DrawPrompt = Callable[..., Prompt]
Array = np.ndarray
Measure = Callable[..., Measured]
FIRST, SECOND = GradientDescent(3), NearestNeighbors(2)
QUERIES = 12


def scored(prompt: Prompt, generator: torch.Generator) -> Prompt:
    """The prompt with some positions that do not count; of the first prompt none do."""
    mask = torch.rand(prompt.batch, prompt.points, generator=generator) < 0.6  # (P, n)
    mask[0] = False
    return replace(prompt, scored=mask)


def positions(prompt: Prompt, first: int) -> list[list[int]]:
    """Of each prompt, the positions from the first on that count."""
    mask = np.ones((prompt.batch, prompt.points), dtype=bool)
    if prompt.scored is not None:
        mask = prompt.scored.numpy()
    return [[i for i in range(first, prompt.points) if row[i]] for row in mask]


def slow_mean(table: dict[tuple[int, int], float]) -> tuple[float, dict[int, float]]:
    """Over prompts of the mean over prefixes, and by prefix, of values by (prompt, prefix)."""
    prompts = sorted({b for b, _ in table})
    prefixes = sorted({i for _, i in table})
    means = [np.mean([value for (b, _), value in table.items() if b == p]) for p in prompts]
    by_prefix = {
        i: float(np.mean([value for (_, j), value in table.items() if j == i])) for i in prefixes
    }
    return float(np.mean(means)), by_prefix


def slow_cosine(one: Array, other: Array) -> float:
    return float(one @ other / (np.sqrt(one @ one) * np.sqrt(other @ other)))


def slow_weights(learner: Learner[Any], prompt: Prompt, asked: Array) -> Array:
    """Eq. 14 of Akyurek et al.: least squares at each prompt, prefix and output: (P, n, d, k)."""
    shape = (prompt.batch, prompt.points, *asked.shape)
    answers = il.predict(learner, prompt.ask(torch.from_numpy(asked).expand(shape))).numpy()
    weights = np.zeros((prompt.batch, prompt.points, prompt.dims, prompt.outputs))
    for b in range(prompt.batch):
        for i in range(prompt.points):
            for k in range(prompt.outputs):
                normal = np.linalg.inv(asked.T @ asked)
                weights[b, i, :, k] = normal @ asked.T @ answers[b, i, :, k]
    return weights


def slow_spd(prompt: Prompt) -> tuple[float, dict[int, float]]:
    """Eq. 13 of Akyurek et al., with a mean over whatever is asked and over outputs."""
    one, other = (il.predict(learner, prompt).numpy() for learner in (FIRST, SECOND))
    table = {}
    for b, counted in enumerate(positions(prompt, 0)):
        for i in counted:
            table[b, i] = np.mean((one[b, i] - other[b, i]) ** 2)
    return slow_mean(table)


def slow_ilw(prompt: Prompt, asked: Array) -> tuple[float, dict[int, float]]:
    """Eq. 15 of Akyurek et al."""
    one, other = (slow_weights(learner, prompt, asked) for learner in (FIRST, SECOND))
    table = {}
    for b, counted in enumerate(positions(prompt, 0)):
        for i in counted:
            table[b, i] = np.sum((one[b, i] - other[b, i]) ** 2)
    return slow_mean(table)


def slow_sim_w(prompt: Prompt, asked: Array) -> tuple[float, dict[int, float]]:
    """Section 3.4 of Fu et al.; the cosines of several outputs are averaged."""
    one, other = (slow_weights(learner, prompt, asked) for learner in (FIRST, SECOND))
    table = {}
    for b, counted in enumerate(positions(prompt, 1)):
        for i in counted:
            each = [slow_cosine(one[b, i, :, k], other[b, i, :, k]) for k in range(prompt.outputs)]
            table[b, i] = np.mean(each)
    return slow_mean(table)


def slow_sim_e(prompt: Prompt) -> tuple[float, dict[int, float]]:
    """Eq. 9 and 10 of Fu et al.; by prefix the residuals of all prompts make the vectors."""
    ys = prompt.ys.numpy()
    one, other = (il.predict(learner, prompt).numpy() - ys for learner in (FIRST, SECOND))
    counted = positions(prompt, 1)
    cosines_of_prompts = [
        slow_cosine(one[b][which].ravel(), other[b][which].ravel())
        for b, which in enumerate(counted)
        if which
    ]
    by_prefix = {}
    for i in range(1, prompt.points):
        some = [b for b in range(prompt.batch) if i in counted[b]]
        if some:
            by_prefix[i] = slow_cosine(one[some, i].ravel(), other[some, i].ravel())
    return float(np.mean(cosines_of_prompts)), by_prefix


def over_all(measured: Measured, *, confidence: float = 0.9) -> Interval:
    """Over prompts, of the mean over prefixes."""
    return measured.mean(*measured.axes).interval(confidence=confidence)


def mean(measured: Measured) -> float:
    return float(over_all(measured).value)


def check(
    measured: Measured,
    expected: tuple[float, dict[int, float]],
    points: int,
    by_examples: Interval | None = None,
) -> None:
    total, by_prefix = expected
    whole = over_all(measured)
    assert float(whole.value) == pytest.approx(total, rel=1e-10)
    assert whole.low <= whole.value <= whole.high
    assert whole.low < whole.high
    each = measured.interval() if by_examples is None else by_examples  # (n,)
    for i in range(points):
        if i in by_prefix:
            assert float(each.value[i]) == pytest.approx(by_prefix[i], rel=1e-10)
            assert each.low[i] <= each.value[i] <= each.high[i]
        else:
            assert each.value[i].isnan()


@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize("some", [False, True], ids=["all positions", "scored positions"])
def test_all_four_are_their_definitions(
    outputs: int, some: bool, random_prompt: DrawPrompt, generator: torch.Generator
) -> None:
    prompt = random_prompt(30, 6, 3, outputs=outputs)
    if some:
        prompt = scored(prompt, generator)
    asked = torch.randn(QUERIES, 3, generator=generator, dtype=torch.float64)  # (q, d)
    check(spd(FIRST, SECOND, prompt), slow_spd(prompt), 6)
    residuals = sim_e_by_examples(FIRST, SECOND, prompt)
    check(sim_e(FIRST, SECOND, prompt), slow_sim_e(prompt), 6, residuals)
    check(ilw(FIRST, SECOND, prompt, queries=asked), slow_ilw(prompt, asked.numpy()), 6)
    check(sim_w(FIRST, SECOND, prompt, queries=asked), slow_sim_w(prompt, asked.numpy()), 6)


def test_spd_is_over_the_queries_where_there_are_some(random_prompt: DrawPrompt) -> None:
    prompt = random_prompt(8, 5, 2, outputs=2, queries=4)
    check(spd(FIRST, SECOND, prompt), slow_spd(prompt), 5)
    # The queries that are asked already are not those of the weights.
    plain = prompt.ask(None)
    assert mean(ilw(FIRST, SECOND, prompt)) == mean(ilw(FIRST, SECOND, plain))
    with pytest.raises(PromptError, match="without queries"):
        sim_e(FIRST, SECOND, prompt)


@pytest.mark.parametrize("learner", [OLS(), Ridge(0.1), Newton(4), Lasso(0.05), FIRST])
def test_equal_learners_agree(learner: Learner[Any], random_prompt: DrawPrompt) -> None:
    prompt = random_prompt(6, 7, 3)
    for measure in (spd, ilw):
        measured = measure(learner, learner, prompt)
        whole = over_all(measured)
        assert (float(whole.value), float(whole.low), float(whole.high)) == (0.0, 0.0, 0.0)
        assert (measured.values == 0).all()
    by_weights = sim_w(learner, learner, prompt)
    for measured, each in (
        (sim_e(learner, learner, prompt), sim_e_by_examples(learner, learner, prompt)),
        (by_weights, by_weights.interval()),
    ):
        assert mean(measured) == pytest.approx(1, abs=1e-12)
        assert each.value[0].isnan()
        assert each.value[1:].numpy() == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("measure", [spd, ilw, sim_e, sim_w])
def test_learners_may_change_places(measure: Measure, random_prompt: DrawPrompt) -> None:
    prompt = random_prompt(6, 7, 3)
    assert mean(measure(FIRST, SECOND, prompt)) == pytest.approx(
        mean(measure(SECOND, FIRST, prompt)), rel=1e-12
    )


@pytest.mark.parametrize("measure", [spd, ilw, sim_e, sim_w])
def test_steps_are_taken_by_each_its_own(measure: Measure, random_prompt: DrawPrompt) -> None:
    prompt = random_prompt(6, 7, 3)
    found = measure(GradientDescent(9), Newton(9), prompt, steps=(2, 1))
    expected = measure(GradientDescent(2), Newton(1), prompt)
    assert mean(found) == pytest.approx(mean(expected), rel=1e-10)


def test_right_predictions_agree_in_having_no_error(random_prompt: DrawPrompt) -> None:
    prompt = replace(random_prompt(4, 5, 2), ys=torch.zeros(4, 5, 1, dtype=torch.float64))
    assert mean(sim_e(OLS(), Ridge(1.0), prompt)) == 1
    assert (sim_e_by_examples(OLS(), Ridge(1.0), prompt).value[1:] == 1).all()


def test_a_prompt_without_positions_that_count_says_nothing(random_prompt: DrawPrompt) -> None:
    prompt = random_prompt(4, 5, 2)
    mask = torch.ones(4, 5, dtype=torch.bool)
    mask[2] = False
    kept = prompt.select(torch.tensor([0, 1, 3]))
    for measure in (spd, ilw, sim_e, sim_w):
        found = measure(FIRST, SECOND, replace(prompt, scored=mask))
        assert mean(found) == pytest.approx(mean(measure(FIRST, SECOND, kept)), rel=1e-12)


def test_what_is_not_finite_is_like_nothing(random_prompt: DrawPrompt) -> None:
    prompt = random_prompt(4, 5, 2)
    broken = FromFunction(lambda xs, ys: xs[..., :1] / 0.0, label="infinite")
    assert mean(spd(broken, OLS(), prompt)) == torch.inf
    assert mean(ilw(broken, OLS(), prompt)) == torch.inf
    assert mean(sim_e(broken, OLS(), prompt)) == 0
    assert mean(sim_w(broken, OLS(), prompt)) == 0
    # One diverging prompt does not speak for the others.
    steep = replace(prompt, xs=prompt.xs.clone())
    steep.xs[0] *= 1e170
    one, rest = GradientDescent(2, step_size=0.1), prompt.select(slice(1, None))
    expected = 0.75 * mean(sim_w(one, OLS(), rest))
    assert mean(sim_w(one, OLS(), steep)) == pytest.approx(expected)


def test_cosines_of_zero() -> None:
    one = torch.tensor([[0.0, 0.0], [0.0, 0.0], [3.0, 4.0], [1.0, 0.0]])
    other = torch.tensor([[0.0, 0.0], [1.0, 2.0], [4.0, 3.0], [-2.0, 0.0]])
    assert cosines(one, other).tolist() == pytest.approx([1, 0, 24 / 25, -1])


def test_chunks_change_nothing(random_prompt: DrawPrompt) -> None:
    prompt = random_prompt(7, 5, 2, queries=3)
    whole = predict_in_parts(OLS(), prompt)
    assert torch.equal(whole, il.predict(OLS(), prompt))
    with budget(bytes_asked(OLS(), prompt, 3)):  # one prompt at a time
        assert torch.equal(predict_in_parts(OLS(), prompt), whole)


def test_intervals_are_wider_with_more_confidence(random_prompt: DrawPrompt) -> None:
    prompt = random_prompt(20, 5, 2)
    for measure in (spd, ilw, sim_e, sim_w):
        measured = measure(FIRST, SECOND, prompt)
        narrow, wide = (over_all(measured, confidence=c) for c in (0.5, 0.95))
        assert wide.low < narrow.low < narrow.high < wide.high
