"""Compare two ways of computing the same thing, on one thread, alternately, by their medians.

Machines are noisy and differ: only the ratio within one run means something.
"""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from threadpoolctl import threadpool_limits

from innerloop.core.prompt import Prompt
from innerloop.tasks.linear import LinearRegression


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the benchmark's table."""

    name: str
    ours: float
    """Median seconds of ours."""
    plain: float
    """Median seconds of the plain implementation."""
    target: float
    """The ratio that we want to reach."""

    @property
    def ratio(self) -> float:
        """How many times faster ours is."""
        return self.plain / self.ours

    @property
    def reached(self) -> bool:
        """Whether the ratio is at least the target."""
        return self.ratio >= self.target


def compare(
    name: str,
    ours: Callable[[], Any],
    plain: Callable[[], Any],
    *,
    target: float,
    repeats: int = 5,
    share: float = 1.0,
) -> Row:
    """Time both alternately, after a warm-up of each, on one thread.

    A plain loop that takes every prompt the same time may run on a `share` of them; its time is
    scaled up to all.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(limits=1):
            _seconds(ours)
            _seconds(plain)
            pairs = [(_seconds(ours), _seconds(plain)) for _ in range(repeats)]
    finally:
        torch.set_num_threads(threads)
    return Row(
        name=name,
        ours=statistics.median(pair[0] for pair in pairs),
        plain=statistics.median(pair[1] for pair in pairs) / share,
        target=target,
    )


def linear_prompt(prompts: int, points: int, dims: int) -> Prompt:
    """Noiseless linear prompts in float64, the same at every call."""
    task = LinearRegression(dims=dims, dtype="float64")
    return task.sample(prompts, points, generator=torch.Generator().manual_seed(0))


def _seconds(function: Callable[[], Any]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start
