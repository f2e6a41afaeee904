"""The claims of Fu et al.'s studies on made-up numbers: each tells what it is to tell apart."""

import math
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
import torch
from matplotlib.axes import Axes

from innerloop.analysis.drawing import panels
from innerloop.analysis.intervals import Averages, estimate
from innerloop.analysis.matching import line
from innerloop.analysis.measured import Measured, tables_of
from innerloop.core.prompt import Prompt
from innerloop.core.task import Task
from innerloop.learners import GradientDescent
from innerloop.studies.claim import judge
from innerloop.studies.fu2023.growth import Curve, better, explained, refined_matches
from innerloop.studies.fu2023.heatmaps import draw_similarity, nearest_row
from innerloop.studies.fu2023.layer_matches import choose_rate
from innerloop.studies.fu2023.layer_trends import (
    FEWEST,
    Measure,
    Trend,
    drawn_steps,
    linear_steps,
    logarithmic_steps,
    measures_of,
    trend_claims,
)
from innerloop.studies.fu2023.lstm import ALGORITHMS, LSTM, fig5, note_weights
from innerloop.studies.fu2023.model_layers import DESCENT, MODEL, NEWTON, ONLINE, read_prompts
from innerloop.studies.fu2023.weights_and_algorithms import fig7, most_like
from innerloop.studies.lab import Lab
from innerloop.tasks.linear import LinearRegression
from innerloop.training.run import Run


def trend_with(matches: list[int], algorithm: str = NEWTON) -> Trend:
    """A trend with given best matches of layers 1, 2, .. on every prompt."""
    values = torch.zeros(32, len(matches), 250)  # (P, L, C)
    for layer, step in enumerate(matches):
        values[:, layer, step] = 1.0
    similarity = Measured(
        values=values, axes=("layer", "step"), label=algorithm, keys={"measure": "SimE"},
        ticks={"layer": range(1, len(matches) + 1)}, shown={"step": drawn_steps(250)},
    )  # fmt: skip
    return Trend(similarity=similarity, falling=torch.ones(len(matches)))


def test_doublings_are_told_from_a_line_by_five_layers() -> None:
    """Of fewer, a line explains more than nine tenths: the reason for FEWEST."""
    for layers, known in ((3, 0.964), (4, 0.920), (5, 0.871)):
        places = torch.arange(float(layers), dtype=torch.float64)  # (layers,)
        part = float(line(places, 2**places)[1])
        assert part == pytest.approx(known, abs=1e-3)
        assert (part < 0.9) == (layers >= FEWEST)


@pytest.mark.parametrize(
    ("matches", "verdict"),
    [([3, 8, 19, 45, 106, 176, 214], "contradicted"), ([3, 6, 9, 12, 15, 18, 21], "confirmed")],
)
def test_steps_that_grow_exponentially_are_no_line(matches: list[int], verdict: str) -> None:
    """As those of gradient descent do, towards an end; by R^2 alone both pass as a line."""
    lab, trend = Lab(study="fu2023/test", scale="smoke"), trend_with(matches)
    places = torch.arange(1.0, 8.0, dtype=torch.float64)  # (7,)
    steps = torch.tensor(matches, dtype=torch.float64)  # (7,)
    assert float(line(places, steps)[1]) > 0.9
    (claim,) = [each for each in trend_claims("SimE") if each.name == "errors-newton-linear"]
    number = estimate(claim.statistic, [measures_of(lab, {("SimE", NEWTON): trend})], draws=100)
    assert claim.criterion.judge(number.low, number.high) == verdict
    fits = lab.tables["fits"]
    part, *others = (
        fits[f"R^2 of {curve}"].to_numpy(float) for curve in ("line", "exponential", "logarithm")
    )
    assert (part - np.maximum(*others)).tolist() == pytest.approx([number.value])


GROWTH: dict[str, tuple[Curve, list[float]]] = {
    "three more per layer": ("line", [3, 6, 9, 12, 15, 18, 21, 24]),
    "a line that starts late": ("line", [20, 22, 23, 26, 28, 29, 32, 34]),
    "doubling": ("exponential", [2, 4, 8, 16, 32, 64, 128, 256]),
    "towards an end": ("exponential", [3, 8, 19, 45, 106, 176, 214]),
    "a logarithm": ("logarithm", [4, 9, 12, 14, 16, 17, 18, 19]),
    "a logarithm of whole numbers": ("logarithm", [5, 6, 7, 7, 7, 8, 8, 8]),
    "saturating": ("logarithm", [8, 13, 16, 17, 18, 19, 19, 20]),
}


@pytest.mark.parametrize("algorithm", [NEWTON, DESCENT])
@pytest.mark.parametrize("name", GROWTH)
def test_growth_is_called_by_its_name(name: str, algorithm: str) -> None:
    curve, numbers = GROWTH[name]
    matches = torch.tensor(numbers, dtype=torch.float64)  # (L,)
    chosen = torch.ones_like(matches)  # (L,)
    parts = explained(matches, chosen, algorithm)
    assert max(parts, key=lambda each: float(parts[each])) == curve
    assert all(-1e9 < float(part) <= 1 + 1e-9 for part in parts.values())
    assert float(better(curve, matches, chosen, algorithm)) > 0
    # Layers before the first that is fitted change nothing; nor does what they match.
    late = torch.cat([torch.tensor([7.0, 1.0]), matches])  # (L + 2,)
    shifted = explained(late, torch.cat([torch.zeros(2), chosen]), algorithm)
    for each, part in parts.items():
        assert float(shifted[each]) == pytest.approx(float(part))


def test_matches_between_steps() -> None:
    """The top of a parabola is found where it is; at the ends of the steps nothing is refined."""
    steps, tops = torch.arange(9.0), torch.tensor([3.0, 3.3, 4.6, -2.0, 20.0])  # (C,), (L,)
    similarity = 1 - 0.01 * (steps - tops[:, None]).square()  # (L, C)
    assert refined_matches(similarity).tolist() == pytest.approx(
        [3.0, 3.3, 4.6, 0.0, 8.0], abs=1e-4
    )
    assert refined_matches(similarity[:, :2]).tolist() == [1.0, 1.0, 1.0, 0.0, 1.0]


@pytest.mark.parametrize("algorithm", [NEWTON, DESCENT])
def test_matches_that_fall_do_not_grow(algorithm: str) -> None:
    falling = torch.tensor([24.0, 21.0, 18.0, 15.0, 12.0, 9.0])  # (6,)
    parts = explained(falling, torch.ones(6), algorithm)
    assert max(float(part) for part in parts.values()) < 0.01


@pytest.mark.parametrize("curve", ["line", "exponential", "logarithm"])
def test_growth_with_rounding_and_noise(curve: Curve) -> None:
    """Whole iterations, half an iteration off: the right curve is the best of most of them."""
    layers = torch.arange(1.0, 11.0, dtype=torch.float64)  # (10,)
    exact = {"line": 2 * layers, "exponential": (0.4 * layers).exp(), "logarithm": 7 * layers.log()}
    noise = torch.randn(200, 10, generator=torch.Generator().manual_seed(0))  # (200, 10)
    matches = (exact[curve] + 0.5 * noise).round().clamp(min=0)  # (200, 10)
    margin = better(curve, matches, torch.ones(10), NEWTON)  # (200,)
    assert float((margin > 0).double().mean()) > 0.9


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
    descent = trend_with([0, 3, 7, 8, 19, 45, 106], DESCENT)
    tables = tables_of({"table": descent.similarity, **descent.by_layer()}, draws=2)
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
    compared = ("lstm-online", "transformer-newton", "transformer-descent")
    for claim in (claims[each] for each in compared):
        nearer, other = (LSTM, MODEL) if claim.name == "lstm-online" else (MODEL, LSTM)
        near, far = alike({nearer: 0.8, other: 0.7}), alike({nearer: 0.7, other: 0.8})
        for seeds, verdict in (
            ([near], "exploratory"),
            ([near, far], "exploratory"),
            ([near, far, near], "inconclusive"),
            ([near, near, near], "confirmed"),
        ):
            number = estimate(claim.statistic, seeds, draws=10)
            assert judge(claim, number, "laptop").verdict == verdict


def test_models_differ_by_each_measure_on_its_own() -> None:
    """Table 1 is of SimE, by which its claims are decided; the note has the other sign of SimW."""
    both = alike({LSTM: 0.8, MODEL: 0.7}) | alike({LSTM: 0.5, MODEL: 0.6}, "SimW")
    (claim,) = [each for each in fig5.claims if each.name == "lstm-online"]
    assert float(claim.statistic(Averages(both))) == pytest.approx(0.1)
    lab = Lab(study="fu2023/test", scale="smoke")
    note_weights(lab, both)
    assert f"with {ONLINE}, LSTM less transformer, -0.100 (-0.100 to -0.100)" in lab.notes[0]


def alike(models: dict[str, float], measure: Measure = "SimE") -> dict[str, Measured]:
    """Models with these similarities with every algorithm, on every prompt."""
    return {
        f"{measure}, {model}": Measured(
            values=torch.full((32, len(ALGORITHMS)), value), axes=("algorithm",)
        )
        for model, value in models.items()
    }


@pytest.mark.parametrize(("layers", "early"), [(12, 2), (8, 1), (2, 1), (18, 3)])
def test_the_early_layer_is_at_a_sixth_of_the_depth(layers: int, early: int) -> None:
    """As layer 2 of the paper's 12: one layer is like Newton's method, the others like nothing."""
    for like in range(1, layers + 1):
        tables = {NEWTON: torch.zeros(32, layers, 3), DESCENT: torch.zeros(32, layers, 3)}
        tables[NEWTON][:, like - 1, 1] = 0.9  # (P, L, C)
        tables[DESCENT][:, like - 1, 1] = 0.5
        trends: dict[tuple[Measure, str], Trend] = {
            ("SimW", key): Trend(
                similarity=Measured(
                    values=table, axes=("layer", "step"), label=key, keys={"measure": "SimW"}
                ),
                falling=torch.zeros(layers),
            )
            for key, table in tables.items()
        }
        (claim,) = [each for each in fig7.claims if each.name == "early-layer"]
        number = estimate(claim.statistic, [{"most like": most_like(trends)}], draws=10)
        assert number.value == pytest.approx(0.9 if like == early else 0.0)
        verdict = "contradicted" if like == early else "confirmed"
        assert claim.criterion.judge(number.low, number.high) == verdict


class WatchedLab(Lab):
    """Keeps what prompts were drawn for."""

    def draw(
        self, task: Task, points: int, *, prompts: int | None = None, purpose: str = "test"
    ) -> Prompt:
        self.drawn = [*getattr(self, "drawn", []), purpose]
        return super().draw(task, points, prompts=prompts, purpose=purpose)


def test_the_rate_is_tuned_on_prompts_of_its_own() -> None:
    run = SimpleNamespace(config=SimpleNamespace(task=LinearRegression(dims=3), points=7))
    runs = {MODEL: cast(Run, run)}
    lab = WatchedLab(study="fu2023/test", scale="smoke", seed=1, runs=runs)
    size = 0.5 / (6**0.5 + 3**0.5) ** 2
    learner = GradientDescent(4, step_size=size)
    descent = choose_rate(lab, learner)
    assert lab.drawn == ["tune"]  # those of the tests are not among them
    assert descent.step_size == pytest.approx(size)
    assert lab.tables["rates"]["similarity"].to_numpy(float).max() == pytest.approx(1.0)
    test, tune = (
        read_prompts(lab, learner, MODEL, purpose=purpose).prompt.xs  # (P, n, d)
        for purpose in ("test", "tune")
    )
    assert not torch.isin(tune, test).any()
