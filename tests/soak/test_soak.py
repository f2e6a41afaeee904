"""A sample of each campaign of `make soak`."""

from pathlib import Path

import pytest

from tests.soak.flips import ACCEPTED, REFUSED, TRACEBACK, flips
from tests.soak.kills import kills


@pytest.mark.slow
def test_no_flipped_bit_is_accepted_silently(tmp_path: Path) -> None:
    table = flips(40, tmp_path)
    counts = [int(table[name].to_numpy().sum()) for name in (REFUSED, ACCEPTED, TRACEBACK)]
    assert counts == [40, 0, 0]


@pytest.mark.slow
def test_a_run_that_was_killed_ends_as_one_left_alone(tmp_path: Path) -> None:
    table = kills(9, tmp_path)
    assert int(table["kills"].to_numpy().sum()) >= 9
    assert {"alone", "sweep"} <= set(table["where"])
    assert table["equal"].tolist() == [True] * len(table)
    assert table["debris"].tolist() == [0] * len(table)
