"""What training costs, and how long it takes."""

import pytest

from innerloop.training.config import RunConfig
from innerloop.training.estimate import (
    RATE,
    RunCost,
    seconds_left,
    step_cost,
    training_seconds,
)
from innerloop.training.recipes import RECIPES, find_recipe
from tests.training.configs import LOOP, stack, tiny


def growing(steps: int) -> RunConfig:
    return tiny(
        steps=steps, model={"backbone": {**LOOP, "loops": 6}}, loops={"start": 2, "share": 0.5},
        curriculum={"points": {"start": 2, "every": 0.2}},
    )  # fmt: skip


@pytest.mark.parametrize("steps", [1, 7, 999, 1000])
def test_the_cost_of_a_run_is_that_of_its_steps(steps: int) -> None:
    config, cost = growing(steps), RunCost(growing(steps))
    for step in {0, 1, steps // 3, steps - 1, steps}:
        assert cost.until(step) == pytest.approx(sum(step_cost(config, k) for k in range(step)))
    assert cost.until(steps) == cost.whole


@pytest.mark.parametrize("steps", [2500, 2999, 100_000])
def test_long_runs_are_looked_at_here_and_there(steps: int) -> None:
    config, cost = growing(steps), RunCost(growing(steps))
    exact = sum(step_cost(config, step) for step in range(steps))
    assert cost.whole == pytest.approx(exact, rel=0.01)
    places = [cost.until(step) for step in range(0, steps + 1, steps // 100)]
    assert places == sorted(places)


def test_the_cost_grows_with_all_that_a_step_computes() -> None:
    base = step_cost(tiny(), 0)
    assert step_cost(tiny(batch=8), 0) == 2 * base
    assert step_cost(tiny(accumulate=3), 0) == 3 * base
    assert step_cost(tiny(window=1), 0) < base < step_cost(tiny(window=3), 0)
    assert step_cost(tiny(points=9), 0) > base
    # Of 4 loops, of which 2 have gradients of twice the cost, against 2 layers that all have them.
    assert base / step_cost(stack(), 0) == pytest.approx((4 + 2 * 2) / (2 * 3))
    widths = [{"kind": "lstm", "width": width, "layers": 2} for width in (8, 16)]
    narrow, wide = (step_cost(stack(model=model), 0) for model in widths)
    assert wide == 4 * narrow


def test_steps_that_were_timed_set_the_pace() -> None:
    config = growing(500)
    pace = 3e6
    timed = {step: step_cost(config, step) / pace for step in (0, 100, 499)}
    assert training_seconds(config, timed) == pytest.approx(RunCost(config).whole / pace)
    assert training_seconds(config) == pytest.approx(RunCost(config).whole / RATE)


MEASURED = {
    "looped-linear": 4, "standard-linear": 4, "tied-linear": 3, "looped-sparse": 15,
    "looped-tree": 21, "standard-network": 17, "algoformer-linear": 8, "looped-chain": 4,
    "lstm-linear": 1, "one-head-linear": 6, "linear-looped-vector": 1,
}  # fmt: skip
"""Minutes that runs of the laptop size took on one core, one of each kind."""


@pytest.mark.parametrize("name", MEASURED)
def test_what_is_expected_is_right_to_a_factor_of_two(name: str) -> None:
    assert name in RECIPES
    expected = training_seconds(find_recipe(name)) / 60
    assert MEASURED[name] / 2 < expected < 2 * MEASURED[name]


@pytest.mark.parametrize(("name", "minutes"), [("looped-linear", 25), ("standard-linear", 28)])
def test_products_in_bfloat16_take_a_third(name: str, minutes: float) -> None:
    """16 to 35 minutes on two kinds of processors with such units."""
    expected = training_seconds(find_recipe(name, "desk")) / 60
    assert minutes / 2 < expected < 2 * minutes


def test_the_time_left_goes_by_what_was_expected_then_by_what_was_done() -> None:
    def left(done: float, elapsed: float) -> float:
        return seconds_left(whole=100, done=done, before=20, elapsed=elapsed, expected=7)

    assert left(done=21, elapsed=50) == 7  # too little is done
    assert left(done=60, elapsed=0.5) == 7  # too early
    assert left(done=60, elapsed=50) == 50  # half of the 80 in 50 seconds, not 60 of the 100
    assert left(done=100, elapsed=50) == 0
