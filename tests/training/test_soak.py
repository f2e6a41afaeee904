"""A run of many steps holds no more memory and no more files in the end."""

import sys
from pathlib import Path

import pytest

from tests.training.soak import Sample, growth, soak


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_and_open_files_stay_flat(tmp_path: Path) -> None:
    samples = soak(1500, tmp_path)
    assert len(samples) > 100
    assert growth(samples) < 4  # MB; a prompt kept per step would be 1
    assert len({one.files for one in samples[len(samples) // 4 :]}) == 1


def test_growth_is_seen() -> None:
    # 2 kB per step, over 1500 steps.
    samples = [Sample(step, 300 + 0.01 * step, 12) for step in range(1500)]
    assert growth(samples) > 4
