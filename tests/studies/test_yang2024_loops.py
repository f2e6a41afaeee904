"""What the studies on loops, shifts and shapes measure, on learners whose answers are known."""

import pytest
import torch
from torch import Tensor

from innerloop.learners import GradientDescent
from innerloop.studies.claim import judge
from innerloop.studies.lab import Lab
from innerloop.studies.quantity import Quantity
from innerloop.studies.study import Study
from innerloop.studies.yang2024.comparing import shown_loops, times
from innerloop.studies.yang2024.fixed_points import fig3
from innerloop.studies.yang2024.loop_grid import Place, cost_of_few_losses, drift, fig4
from innerloop.studies.yang2024.schedules import either_way, fig17
from innerloop.studies.yang2024.shape import (
    SHAPES,
    USUAL,
    compare_shapes,
    fig7,
    loops_until,
)
from innerloop.studies.yang2024.shifts import fig6
from innerloop.tasks import LinearRegression
from innerloop.training.families import Scale

LAB = Lab(study="yang2024/test", scale="laptop")
TASK = LinearRegression(dims=5)
POINTS = 11


def by_step(learner: GradientDescent, steps: int) -> Tensor:
    """Errors (P, K + 1) after the last example."""
    prompt = LAB.draw(TASK, POINTS)
    return LAB.errors(learner, prompt, TASK, steps=steps, at=POINTS - 1)


def verdict(study: Study, claim: str, found: Quantity) -> str:
    (declared,) = [each for each in study.claims if each.name == claim]
    # Two seeds that agree: of one, nothing is concluded about a way of training.
    return judge(declared, [found, found], "laptop").verdict


def test_ratios_are_averaged_by_their_logarithms() -> None:
    errors = torch.rand(200, generator=LAB.generator("errors")) + 0.1  # (P,)
    found = times(LAB, [2 * errors, 8 * errors], [errors, errors], seed=0)
    assert found.value == pytest.approx(4)
    assert (found.low, found.high) == pytest.approx((4, 4))


def test_loops_are_counted_until_the_first_that_is_good_enough() -> None:
    means = torch.tensor([[1.0, 0.5, 0.1, 0.2], [1.0, 0.9, 0.8, 0.7]])  # (2, K + 1)
    assert loops_until(means, 0.2).tolist() == [2, 4]
    assert loops_until(means, torch.tensor([1.0, 0.8])).tolist() == [0, 2]


@pytest.mark.parametrize(("last", "trained"), [(12, 4), (150, 30), (150, 33), (15, 15)])
def test_shown_loops_hold_the_first_the_trained_and_the_last(last: int, trained: int) -> None:
    shown = shown_loops(last, trained)
    assert shown == sorted(set(shown))
    assert {0, 1, trained, last} <= set(shown)
    assert shown[-1] == last
    assert len(shown) <= 45


def test_drift_tells_a_fixed_point_from_divergence() -> None:
    # Descent by 1/L converges, here to an error that nothing makes smaller; by steps beyond 2/L
    # it grows.
    calm = by_step(GradientDescent(40), 100) + 0.01  # (P, K + 1)
    wild = by_step(GradientDescent(40, 0.2), 100)  # (P, K + 1)
    grid = {Place("linear", 4, 3): wild, Place("linear", 40, 3): calm}
    found = drift(LAB, grid, "linear", min, 0)
    assert verdict(fig4, "few-loops-diverge", found) == "confirmed"
    assert verdict(fig3, "tied-falls-apart", found) == "confirmed"
    stays = drift(LAB, grid, "linear", max, 0)
    assert verdict(fig4, "many-loops-stay", stays) == "confirmed"
    assert verdict(fig4, "few-loops-diverge", stays) == "not confirmed"
    assert verdict(fig4, "many-loops-stay", found) == "not confirmed"


def test_drift_takes_one_model_of_each_window() -> None:
    errors = torch.full((50, 9), 1.0)  # (P, K + 1)
    twice, eight = errors.clone(), errors.clone()
    twice[:, -1], eight[:, -1] = 2, 8
    grid = {
        Place("linear", 2, 1): twice, Place("linear", 4, 1): errors,
        Place("linear", 3, 2): eight, Place("linear", 4, 2): errors, Place("tree", 1, 1): 9 * eight,
    }  # fmt: skip
    # Of the smallest b the calmest window counts, of the largest the wildest.
    assert drift(LAB, grid, "linear", min, 0).value == pytest.approx(2)
    assert drift(LAB, grid, "linear", max, 0).value == pytest.approx(1)


def test_the_cost_of_few_losses_is_taken_at_the_loops_that_both_windows_have() -> None:
    ones = torch.ones(50, 9)  # (P, K + 1)
    grid = {
        Place("linear", 2, 1): 100 * ones, Place("linear", 4, 1): 3 * ones,
        Place("linear", 4, 2): 50 * ones, Place("linear", 4, 3): ones,
    }  # fmt: skip
    found = cost_of_few_losses(LAB, grid, "linear", 0)
    assert found.value == pytest.approx(3)
    assert verdict(fig4, "few-losses-cost", found) == "confirmed"


def test_shapes_are_compared_by_the_loops_that_they_need() -> None:
    # One block is descent; two of them take two steps a loop, a stack of L layers takes 2.5 L,
    # and is a little worse, so that rounding decides nothing.
    shapes = SHAPES["laptop"]
    descent = by_step(GradientDescent(20), 200)  # (P, K + 1)
    errors = {USUAL: descent[:, :101], "looped L = 2": descent[:, ::2]}
    errors |= {
        f"standard L = {depth}": 1.001 * descent[:, round(2.5 * depth)][:, None]
        for depth in shapes.depths
    }
    for label in ("looped D = 32", "looped h = 1", "looped h = 16"):
        errors[label] = 2 * errors[USUAL]
    found = compare_shapes(LAB, errors, shapes, 0)
    assert found["layers-faster"].value == pytest.approx(2, rel=0.2)
    assert found["more-loops-than-layers"].value == 1  # two loops (2.5, to even) for one layer
    assert found["twenty-for-eight"].value == 2.5
    assert found["width-helps"].value == pytest.approx(2)
    assert {
        claim: verdict(fig7, claim, quantity) for claim, quantity in found.items()
    } == dict.fromkeys(found, "confirmed")


def test_a_loop_that_is_as_good_as_a_layer_needs_no_more() -> None:
    shapes = SHAPES["laptop"]
    descent = by_step(GradientDescent(20), 100)  # (P, K + 1)
    errors = {label: descent for label in (USUAL, "looped L = 2")}
    errors |= {
        f"standard L = {depth}": 1.001 * descent[:, depth : depth + 1] for depth in shapes.depths
    }
    errors |= {label: descent for label in ("looped D = 32", "looped h = 1", "looped h = 16")}
    found = compare_shapes(LAB, errors, shapes, 0)
    assert {verdict(fig7, claim, quantity) for claim, quantity in found.items()} == {
        "not confirmed"
    }


def test_a_change_counts_either_way() -> None:
    halved = either_way(Quantity(0.5, 0.4, 0.8))
    assert (halved.value, halved.low, halved.high) == pytest.approx((2, 1.25, 2.5))
    assert either_way(Quantity(2.0, 1.0, 3.0)) == Quantity(2.0, 1.0, 3.0)
    assert verdict(fig17, "matters-little", halved) == "not confirmed"


def test_laptop_studies_share_their_models() -> None:
    grid = {config.key() for config in fig4.runs("laptop").values()}
    runs = fig6.runs("laptop")
    assert {config.key() for label, config in runs.items() if label.startswith("looped")} <= grid
    assert fig7.runs("laptop")[USUAL].key() in grid
    assert fig3.runs("laptop")["injected"].key() in grid


def test_the_papers_grid_is_that_of_the_paper() -> None:
    runs = fig4.runs("paper")
    assert len({config.key() for config in runs.values()}) == 3 * (5 + 5 + 4 + 5)
    for config in runs.values():
        assert config.trained_loops is not None
        assert config.window is not None
        assert config.window <= config.trained_loops
        assert config.loops.start == config.window
    assert runs["linear b=12 T=15"].window == 12


@pytest.mark.parametrize("study", [fig3, fig4, fig6, fig7, fig17], ids=lambda each: each.id)
def test_runs_of_a_study_differ(study: Study) -> None:
    scales: tuple[Scale, ...] = ("smoke", "laptop")
    for scale in scales:
        keys = [config.key() for config in study.runs(scale).values()]
        assert len(set(keys)) == len(keys)
