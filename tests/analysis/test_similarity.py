"""SPD, ILW, SimE and SimW against a slow transcription of their definitions."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

import innerloop as il
from innerloop.analysis import induced
from innerloop.analysis.similarity import (
    Similarity,
    cosines,
    ilw,
    predict_in_parts,
    sim_e,
    sim_w,
    spd,
)
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
Measure = Callable[..., Similarity]
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


def check(found: Similarity, expected: tuple[float, dict[int, float]], points: int) -> None:
    total, by_prefix = expected
    assert found.mean == pytest.approx(total, rel=1e-10)
    assert found.low <= found.mean <= found.high
    assert found.low < found.high
    for i in range(points):
        if i in by_prefix:
            assert float(found.by_prefix[i]) == pytest.approx(by_prefix[i], rel=1e-10)
            assert found.by_prefix_low[i] <= found.by_prefix[i] <= found.by_prefix_high[i]
        else:
            assert found.by_prefix[i].isnan()


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
    check(sim_e(FIRST, SECOND, prompt), slow_sim_e(prompt), 6)
    check(ilw(FIRST, SECOND, prompt, queries=asked), slow_ilw(prompt, asked.numpy()), 6)
    check(sim_w(FIRST, SECOND, prompt, queries=asked), slow_sim_w(prompt, asked.numpy()), 6)


def test_spd_is_over_the_queries_where_there_are_some(random_prompt: DrawPrompt) -> None:
    prompt = random_prompt(8, 5, 2, outputs=2, queries=4)
    check(spd(FIRST, SECOND, prompt), slow_spd(prompt), 5)
    # The queries that are asked already are not those of the weights.
    plain = prompt.ask(None)
    assert ilw(FIRST, SECOND, prompt).mean == ilw(FIRST, SECOND, plain).mean
    with pytest.raises(PromptError, match="without queries"):
        sim_e(FIRST, SECOND, prompt)


@pytest.mark.parametrize("learner", [OLS(), Ridge(0.1), Newton(4), Lasso(0.05), FIRST])
def test_equal_learners_agree(learner: Learner[Any], random_prompt: DrawPrompt) -> None:
    prompt = random_prompt(6, 7, 3)
    for measure in (spd, ilw):
        found = measure(learner, learner, prompt)
        assert (found.mean, found.low, found.high) == (0.0, 0.0, 0.0)
        assert (found.by_prefix == 0).all()
    for measure in (sim_e, sim_w):
        found = measure(learner, learner, prompt)
        assert found.mean == pytest.approx(1, abs=1e-12)
        assert found.by_prefix[0].isnan()
        assert found.by_prefix[1:].numpy() == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("measure", [spd, ilw, sim_e, sim_w])
def test_learners_may_change_places(measure: Measure, random_prompt: DrawPrompt) -> None:
    prompt = random_prompt(6, 7, 3)
    assert measure(FIRST, SECOND, prompt).mean == pytest.approx(
        measure(SECOND, FIRST, prompt).mean, rel=1e-12
    )


@pytest.mark.parametrize("measure", [spd, ilw, sim_e, sim_w])
def test_steps_are_taken_by_each_its_own(measure: Measure, random_prompt: DrawPrompt) -> None:
    prompt = random_prompt(6, 7, 3)
    found = measure(GradientDescent(9), Newton(9), prompt, steps=(2, 1))
    expected = measure(GradientDescent(2), Newton(1), prompt)
    assert found.mean == pytest.approx(expected.mean, rel=1e-10)


def test_right_predictions_agree_in_having_no_error(random_prompt: DrawPrompt) -> None:
    prompt = replace(random_prompt(4, 5, 2), ys=torch.zeros(4, 5, 1, dtype=torch.float64))
    found = sim_e(OLS(), Ridge(1.0), prompt)
    assert found.mean == 1
    assert (found.by_prefix[1:] == 1).all()


def test_a_prompt_without_positions_that_count_says_nothing(random_prompt: DrawPrompt) -> None:
    prompt = random_prompt(4, 5, 2)
    mask = torch.ones(4, 5, dtype=torch.bool)
    mask[2] = False
    kept = prompt.select(torch.tensor([0, 1, 3]))
    for measure in (spd, ilw, sim_e, sim_w):
        found = measure(FIRST, SECOND, replace(prompt, scored=mask))
        assert found.mean == pytest.approx(measure(FIRST, SECOND, kept).mean, rel=1e-12)


def test_what_is_not_finite_is_like_nothing(random_prompt: DrawPrompt) -> None:
    prompt = random_prompt(4, 5, 2)
    broken = FromFunction(lambda xs, ys: xs[..., :1] / 0.0, label="infinite")
    assert spd(broken, OLS(), prompt).mean == torch.inf
    assert ilw(broken, OLS(), prompt).mean == torch.inf
    assert sim_e(broken, OLS(), prompt).mean == 0
    assert sim_w(broken, OLS(), prompt).mean == 0
    # One diverging prompt does not speak for the others.
    steep = replace(prompt, xs=prompt.xs.clone())
    steep.xs[0] *= 1e170
    one, rest = GradientDescent(2, step_size=0.1), prompt.select(slice(1, None))
    assert sim_w(one, OLS(), steep).mean == pytest.approx(0.75 * sim_w(one, OLS(), rest).mean)


def test_cosines_of_zero() -> None:
    one = torch.tensor([[0.0, 0.0], [0.0, 0.0], [3.0, 4.0], [1.0, 0.0]])
    other = torch.tensor([[0.0, 0.0], [1.0, 2.0], [4.0, 3.0], [-2.0, 0.0]])
    assert cosines(one, other).tolist() == pytest.approx([1, 0, 24 / 25, -1])


def test_chunks_change_nothing(random_prompt: DrawPrompt, monkeypatch: pytest.MonkeyPatch) -> None:
    prompt = random_prompt(7, 5, 2, queries=3)
    whole = predict_in_parts(OLS(), prompt)
    assert torch.equal(whole, il.predict(OLS(), prompt))
    monkeypatch.setattr(induced, "BUDGET", OLS().bytes_per_prompt(prompt))  # a prompt at a time
    assert induced.prompts_at_once(OLS(), prompt, 3) == 1
    assert torch.equal(predict_in_parts(OLS(), prompt), whole)


def test_intervals_are_wider_with_more_confidence(random_prompt: DrawPrompt) -> None:
    prompt = random_prompt(20, 5, 2)
    for measure in (spd, ilw, sim_e, sim_w):
        narrow, wide = (measure(FIRST, SECOND, prompt, confidence=c) for c in (0.5, 0.95))
        assert wide.low < narrow.low < narrow.high < wide.high
