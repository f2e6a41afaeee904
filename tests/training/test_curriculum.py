"""What grows while a run trains, by hand."""

import pytest

from innerloop.training.curriculum import Growth, LoopSchedule
from innerloop.training.data import Sizes, sizes_at
from innerloop.training.duration import in_steps
from tests.training.configs import LOOP, stack, tiny


def test_a_size_grows_by_jumps_to_its_full_value() -> None:
    growth = Growth(start=3, by=2, every=4)
    found = [growth.at(step, 100, 8) for step in range(14)]
    assert found == [3, 3, 3, 3, 5, 5, 5, 5, 7, 7, 7, 7, 8, 8]


def test_garg_et_al_reach_the_full_sizes_after_thirty_thousand_steps() -> None:
    dims, points = Growth(start=5, every=2000), Growth(start=11, by=2, every=2000)
    assert (dims.at(29_999, 500_000, 20), points.at(29_999, 500_000, 41)) == (19, 39)
    assert (dims.at(30_000, 500_000, 20), points.at(30_000, 500_000, 41)) == (20, 41)


def test_a_size_may_stay_small_for_a_while() -> None:
    growth = Growth(start=2, every=2, hold=3)
    assert [growth.at(step, 10, 4) for step in range(9)] == [2, 2, 2, 2, 2, 3, 3, 4, 4]
    shared = Growth(start=2, every=0.2, hold=0.3)
    assert [shared.at(step, 10, 4) for step in range(9)] == [2, 2, 2, 2, 2, 3, 3, 4, 4]


def test_a_share_counts_in_steps_of_the_run() -> None:
    assert in_steps(0.05, 3000) == 150
    assert in_steps(0.05, 3) == 1
    assert in_steps(7, 3) == 7
    growth = Growth(start=1, every=0.25)
    assert [growth.at(step, 8, 9) for step in range(8)] == [1, 1, 2, 2, 3, 3, 4, 4]


def test_loops_grow_linearly() -> None:
    schedule = LoopSchedule(start=4, share=0.5)
    found = [schedule.at(step, 16, 8) for step in range(16)]
    assert found == [4, 4, 5, 5, 6, 6, 7, 7, 8, 8, 8, 8, 8, 8, 8, 8]


def test_without_a_start_there_is_no_schedule() -> None:
    assert {LoopSchedule().at(step, 10, 6) for step in range(10)} == {6}


@pytest.mark.parametrize("start", [1, 3, 20])
def test_loops_never_leave_their_bounds(start: int) -> None:
    schedule = LoopSchedule(start=start, share=0.3)
    found = [schedule.at(step, 97, 20) for step in range(97)]
    assert found == sorted(found)
    assert found[0] == start
    assert found[-1] == 20


def test_the_window_is_never_longer_than_the_loops() -> None:
    config = tiny(
        model={"backbone": {**LOOP, "loops": 6}}, steps=8, window=3,
        loops={"start": 1, "share": 1.0}, curriculum={"dims": {"start": 1, "every": 0.5}},
    )  # fmt: skip
    found = [sizes_at(config, step) for step in range(8)]
    assert [sizes.loops for sizes in found] == [1, 1, 2, 2, 3, 4, 4, 5]
    assert [sizes.window for sizes in found] == [1, 1, 2, 2, 3, 3, 3, 3]
    assert [sizes.dims for sizes in found] == [1, 1, 1, 1, 2, 2, 2, 2]


def test_without_a_window_all_loops_count() -> None:
    assert sizes_at(tiny(window=None), 0) == Sizes(dims=2, points=5, loops=4, window=4)


def test_a_stack_has_neither_loops_nor_window() -> None:
    assert sizes_at(stack(), 0) == Sizes(dims=2, points=5, loops=None, window=None)
