"""Memory and open files of a long run: `python -m tests.training.soak 20000`.

Trains a tiny run in this process and samples both on the way. What grows with the steps would grow
in the second half as well, when all caches are warm: so the halves are compared.
"""

import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import torch

from innerloop.training.store import Store
from innerloop.training.train import Report
from tests.training.configs import tiny

SAMPLES = 200
"""Of memory and files, over the whole run."""


@dataclass(frozen=True)
class Sample:
    """What a process holds at a step."""

    step: int
    megabytes: float
    """Resident memory."""
    files: int
    """That are open."""


def soak(steps: int, root: Path) -> list[Sample]:
    """Train a tiny run of so many steps, with evaluations and checkpoints, and take samples."""
    torch.set_num_threads(1)
    every = max(1, steps // SAMPLES)
    samples: list[Sample] = []

    def look(report: Report) -> None:
        if report.step % every == 0:
            samples.append(Sample(report.step, resident(), len(os.listdir("/proc/self/fd"))))

    config = tiny(
        steps=steps, log_every=1, evaluate_every=max(1, steps // 20), save_every=max(1, steps // 40)
    )
    Store(root).train(config, report=look)
    return samples


def resident() -> float:
    """Megabytes of memory that this process has in use."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def growth(samples: list[Sample]) -> float:
    """Megabytes by which the last quarter lies above the second: the first one warms up."""
    quarter = len(samples) // 4
    second, last = samples[quarter : 2 * quarter], samples[-quarter:]
    return max(one.megabytes for one in last) - max(one.megabytes for one in second)


def main() -> int:
    """Print what was measured; fail where memory or files grow."""
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    with tempfile.TemporaryDirectory() as folder:
        samples = soak(steps, Path(folder))
    files = {one.files for one in samples[len(samples) // 4 :]}
    print(
        f"{steps} steps: {samples[0].megabytes:.0f} MB at step {samples[0].step}, "
        f"{samples[-1].megabytes:.0f} MB at the end, {growth(samples):+.1f} MB from the second "
        f"quarter to the last; open files {min(files)} to {max(files)}"
    )
    return 0 if growth(samples) < 8 and len(files) == 1 else 1


if __name__ == "__main__":
    sys.exit(main())
