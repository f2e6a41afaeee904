"""When a run is given up."""

import math

import pytest

from innerloop.training.divergence import LONG, Divergence, DivergenceError


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_stops_at_once(value: float) -> None:
    with pytest.raises(DivergenceError, match=r"loss is .* at step 7"):
        Divergence("regression", 1).watch(7, value, 1.0)
    with pytest.raises(DivergenceError, match=r"gradient is .* at step 7"):
        Divergence("regression", 1).watch(7, 1.0, value)


def test_a_loss_far_above_its_start_stops_after_long() -> None:
    watcher = Divergence("regression", 1)
    watcher.watch(1, 2.0, 1.0)
    step = 2
    while watcher.above < LONG - 1 and step < 1000:
        watcher.watch(step, 7.0, 1.0)
        step += 1
    # The smoothed loss passes 6 once what it remembers of the start has faded.
    assert LONG < step < 2 * LONG
    with pytest.raises(DivergenceError, match="more than 3 times its start"):
        watcher.watch(step, 7.0, 1.0)


def test_a_spike_is_forgiven() -> None:
    watcher = Divergence("regression", 1)
    for step in range(1, 1000):
        watcher.watch(step, 500.0 if step == 300 else 1.0, 1.0)
        if step in (299, 999):
            assert not watcher.suspicious
        if step == 301:
            assert watcher.suspicious
    watcher.conclude()


def test_a_loss_that_grows_with_the_dimensions_is_no_failure() -> None:
    watcher = Divergence("regression", 1)
    for step in range(1, 1000):
        watcher.watch(step, min(1.0, 0.05 + step / 500), 1.0)
    assert not watcher.suspicious


@pytest.mark.parametrize(
    ("head", "outputs", "nothing"),
    [("regression", 3, 1.0), ("binary", 1, math.log(2)), ("classes", 5, math.log(5))],
)
def test_the_start_is_at_least_the_loss_of_predicting_nothing(
    head: str, outputs: int, nothing: float
) -> None:
    watcher = Divergence(head, outputs)  # type: ignore[arg-type]
    watcher.watch(1, 0.01, 1.0)
    assert watcher.limit == pytest.approx(3 * nothing)
    larger = Divergence(head, outputs)  # type: ignore[arg-type]
    larger.watch(1, 10.0, 1.0)
    assert larger.limit == pytest.approx(30.0)


def test_weights_are_accepted_up_to_the_limit() -> None:
    watcher = Divergence("regression", 1)
    assert watcher.accepts(1e6)  # nothing is known yet
    assert not watcher.accepts(math.nan)
    assert not watcher.accepts(math.inf)
    watcher.watch(1, 2.0, 1.0)
    assert watcher.accepts(6.0)
    assert not watcher.accepts(6.1)
    assert not watcher.accepts(math.nan)


def test_a_run_that_ends_too_high_has_failed() -> None:
    watcher = Divergence("regression", 1)
    watcher.watch(1, 1.0, 1.0)
    watcher.watch(2, 1e6, 1.0)
    with pytest.raises(DivergenceError, match="at the end"):
        watcher.conclude()


def test_it_goes_on_from_its_state() -> None:
    one = Divergence("regression", 1)
    for step in range(5):
        one.watch(step, 1.0 + step, 1.0)
    other = Divergence("regression", 1)
    other.load_state(one.state())
    for watcher in (one, other):
        watcher.watch(6, 9.0, 1.0)
    assert other.state() == one.state()
    assert other.smoothed == one.smoothed
