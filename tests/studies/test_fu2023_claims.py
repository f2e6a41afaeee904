"""The claims of Fu et al.'s studies on made-up numbers: each tells what it is to tell apart."""

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
import torch
from matplotlib.axes import Axes

from innerloop.analysis.drawing import panels
from innerloop.core.prompt import Prompt
from innerloop.core.task import Task
from innerloop.learners import GradientDescent
from innerloop.studies.claim import judge
from innerloop.studies.fu2023.candidates import EARLY, fig7, most_like
from innerloop.studies.fu2023.forgetting import LSTM, ONLINE, difference, fig5
from innerloop.studies.fu2023.heatmaps import draw_similarity, nearest_row
from innerloop.studies.fu2023.layers import Measure, read_prompts
from innerloop.studies.fu2023.matching import MODEL, choose_rate
from innerloop.studies.fu2023.trends import (
    DESCENT,
    FEWEST,
    NEWTON,
    Trend,
    best_table,
    fit_table,
    line,
    linear,
    linear_steps,
    logarithmic_steps,
    similarity_table,
    trend_claims,
    trend_of,
)
from innerloop.studies.lab import Lab
from innerloop.studies.quantity import Quantity
from innerloop.tasks.linear import LinearRegression
from innerloop.training.run import Run


@pytest.fixture(scope="module")
def lab() -> Lab:
    return Lab(study="fu2023/test", scale="smoke")


def trend_with(matches: list[int]) -> Trend:
    """A trend with given best matches of layers 1, 2, .. on every prompt."""
    similarity = torch.zeros(32, len(matches) + 1, 250)  # (P, A, C)
    for layer, step in enumerate(matches, start=1):
        similarity[:, layer, step] = 1.0
    return trend_of(similarity, "SimE", NEWTON, range(1, len(matches) + 1))


def test_doublings_are_told_from_a_line_by_five_layers() -> None:
    """Of fewer, a line explains more than nine tenths: the reason for FEWEST."""
    most = {layers: 2.0 ** torch.arange(layers, dtype=torch.float64) for layers in (3, 4, 5)}
    explains = {
        layers: float(line(torch.arange(float(layers)), values)[1])
        for layers, values in most.items()
    }
    assert [layers for layers, part in explains.items() if part < 0.9] == [FEWEST]


@pytest.mark.parametrize(
    ("matches", "verdict"),
    [([3, 8, 19, 45, 106, 176, 214], "not confirmed"), ([3, 6, 9, 12, 15, 18, 21], "confirmed")],
)
def test_steps_that_grow_exponentially_are_no_line(
    lab: Lab, matches: list[int], verdict: str
) -> None:
    """As those of gradient descent do, towards an end; by R^2 alone both pass as a line."""
    trend = trend_with(matches)
    places = torch.tensor(trend.fitted, dtype=torch.float64)  # (7,)
    steps = torch.tensor(matches, dtype=torch.float64)  # (7,)
    assert float(line(places, steps)[1]) > 0.9
    (claim,) = [each for each in trend_claims("SimE") if each.name == "errors-newton-linear"]
    found = linear(lab, trend, 0)
    assert claim.criterion.judge(found.low, found.high) == verdict
    fits = fit_table([trend], 0)
    gain = fits["R^2 of a line"].to_numpy(float) - fits["R^2 of an exponential"].to_numpy(float)
    assert gain.tolist() == pytest.approx([found.value])


@pytest.mark.parametrize("count", [21, 401, 801])
@pytest.mark.parametrize("logarithmic", [False, True])
def test_the_frame_is_on_the_nearest_step_that_is_shown(count: int, logarithmic: bool) -> None:
    shown = logarithmic_steps(count) if logarithmic else linear_steps(count)
    assert nearest_row(shown, 0, logarithmic=logarithmic) == 0
    for row, step in enumerate(shown):
        assert nearest_row(shown, step, logarithmic=logarithmic) == row
    for step in (1, 3, 7, 8, count - 1):
        row = nearest_row(shown, step, logarithmic=logarithmic)
        assert row > 0, "a step is not the start"
        above = shown[min(row + 1, len(shown) - 1)]
        below = shown[max(row - 1, 1)]
        for other in (below, above):
            if logarithmic:
                assert abs(math.log(shown[row] / step)) <= abs(math.log(other / step))
            else:
                assert abs(shown[row] - step) <= abs(other - step)


def test_the_figure_frames_the_best_matches() -> None:
    descent = replace(trend_with([0, 3, 7, 8, 19, 45, 106]), algorithm=DESCENT)
    tables = {"similarities": similarity_table([descent]), "best": best_table([descent], 0)}
    _, (by_distance, by_ratio) = panels(2)
    draw_similarity(by_distance, tables, "SimE", DESCENT)
    draw_similarity(by_ratio, tables, "SimE", DESCENT, logarithmic=True)
    assert framed(by_distance) == [0, 1, 1, 1, 1, 3, 8]  # a row is thirteen steps
    shown = logarithmic_steps(250)
    assert [shown[row] for row in framed(by_ratio)] == [0, 3, 8, 8, 18, 44, 104]


def framed(axes: Axes) -> list[int]:
    """The row of the frame in each column."""
    places = [(np.ravel(drawn.get_xdata()), np.ravel(drawn.get_ydata())) for drawn in axes.lines]
    rows = {int(column[0]): int(row[0]) for column, row in places}
    return [rows[column] for column in sorted(rows)]


def test_the_models_of_table_1_are_compared_over_seeds() -> None:
    """One seed of each says nothing of two ways of training."""
    claims = {claim.name: claim for claim in fig5.claims}
    compared = ["lstm-online", "transformer-newton", "transformer-descent"]
    near = Quantity(0.1, 0.09, 0.11)
    for claim in (claims[each] for each in compared):
        assert judge(claim, [near], "laptop").verdict == "inconclusive"
        apart = [near, Quantity(-0.1, -0.11, -0.09)]
        assert judge(claim, apart, "laptop").verdict == "inconclusive"
        assert judge(claim, [near, near, near], "laptop").verdict == "confirmed"


def test_models_differ_by_each_measure_on_its_own(lab: Lab) -> None:
    both = {LSTM: alike(errors=0.8, weights=0.5), MODEL: alike(errors=0.7, weights=0.6)}
    assert difference(lab, both, (LSTM, MODEL), ONLINE, 0).value == pytest.approx(0.1)
    assert difference(lab, both, (LSTM, MODEL), ONLINE, 0, "SimW").value == pytest.approx(-0.1)


def alike(*, errors: float, weights: float) -> dict[tuple[Measure, str], Trend]:
    """A model with these similarities with online gradient descent, on every prompt."""
    by_measure: dict[Measure, float] = {"SimE": errors, "SimW": weights}
    return {
        (measure, ONLINE): trend_of(torch.full((32, 1, 1), value), measure, ONLINE, range(0))
        for measure, value in by_measure.items()
    }


def test_layer_two_is_the_one_that_has_learned_nothing(lab: Lab) -> None:
    """A model whose layer 1 does nothing, but whose layer 2 is like Newton's method."""
    newton, descent = torch.zeros(32, 4, 3), torch.zeros(32, 4, 3)  # (P, A, C)
    newton[:, 2, 1] = 0.9
    descent[:, 2, 1] = 0.5
    found = {
        key: trend_of(table, "SimW", key, range(0))
        for key, table in ((NEWTON, newton), (DESCENT, descent))
    }
    (claim,) = [each for each in fig7.claims if each.name == "layer-2"]
    quantity = most_like(lab, found, EARLY, 0)
    assert quantity.value == pytest.approx(0.9)
    assert claim.criterion.judge(quantity.low, quantity.high) == "not confirmed"


class WatchedLab(Lab):
    """Keeps what prompts were drawn for."""

    def draw(
        self,
        task: Task,
        points: int,
        *,
        seed: int = 0,
        prompts: int | None = None,
        purpose: str = "test",
    ) -> Prompt:
        self.drawn = [*getattr(self, "drawn", []), (purpose, seed)]
        return super().draw(task, points, seed=seed, prompts=prompts, purpose=purpose)


def test_the_rate_is_tuned_on_prompts_of_its_own() -> None:
    run = SimpleNamespace(config=SimpleNamespace(task=LinearRegression(dims=3), points=7))
    runs = {(MODEL, seed): cast(Run, run) for seed in (0, 1)}
    lab = WatchedLab(study="fu2023/test", scale="smoke", runs=runs)
    size = 0.5 / (6**0.5 + 3**0.5) ** 2
    learner = GradientDescent(4, step_size=size)
    descent, tried = choose_rate(lab, learner, 1)
    assert lab.drawn == [("tune", 1)]  # those of the tests are not among them
    assert descent.step_size == pytest.approx(size)
    assert tried["similarity"].to_numpy(float).max() == pytest.approx(1.0)
    test, tune = (
        read_prompts(lab, learner, MODEL, 1, purpose=purpose).prompt.xs  # (P, n, d)
        for purpose in ("test", "tune")
    )
    assert not torch.isin(tune, test).any()
