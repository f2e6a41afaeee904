"""How long training takes: the cost of a run, and the time that is left. Nothing else estimates.

A step costs the operations that its model counts. A core is expected to do `RATE` of them per
second, until the work itself shows its pace.
"""

from collections.abc import Mapping
from itertools import accumulate

from innerloop.training.config import RunConfig
from innerloop.training.data import sizes_at

RATE = 28e9
"""Operations per second of one core, in trainings of the laptop size."""
_BFLOAT16 = 3.0
"""How many times as many in bfloat16, at width 128 and more (docs/LOG.md: 90 to 185 GFLOP/s)."""
_CELLS = 1000
"""Stretches of a run, whose steps are taken to cost the same: there may be a million steps."""
_SOON = 0.02
"""The share of the work that must be done, in a second or more, before its pace is believed."""


def step_cost(config: RunConfig, step: int) -> float:
    """Operations of a step (from 0) of a run: sizes and loops grow."""
    sizes = sizes_at(config, step)
    prompts = config.batch * config.accumulate
    points = max(1, round(config.task.form.usual_share * sizes.points))
    return prompts * config.model.operations(points, sizes.loops, sizes.window)


class RunCost:
    """The operations of a run, added up from its first step on."""

    def __init__(self, config: RunConfig) -> None:
        self.steps, self.width = config.steps, max(1, config.steps // _CELLS)
        starts = range(0, self.steps, self.width)
        self.per_step = [step_cost(config, start) for start in starts]
        costs = [
            cost * min(self.width, self.steps - start)
            for cost, start in zip(self.per_step, starts, strict=True)
        ]
        self.before = [0.0, *accumulate(costs)]

    @property
    def whole(self) -> float:
        """Of all steps."""
        return self.before[-1]

    def until(self, step: int) -> float:
        """Of the steps before this one."""
        if step >= self.steps:
            return self.whole
        cell, rest = divmod(step, self.width)
        return self.before[cell] + rest * self.per_step[cell]


def usual_pace(config: RunConfig) -> float:
    """Operations per second of one core, as long as no step of the run was timed."""
    return RATE * (_BFLOAT16 if config.precision == "bfloat16" else 1.0)


def training_seconds(config: RunConfig, timed: Mapping[int, float] | None = None) -> float:
    """Seconds that a whole run takes, at the pace of steps that were timed: seconds by step.

    Without them: on one core of a laptop that does nothing else, right to a factor of two, and
    better between runs of a kind.
    """
    if not timed:
        return RunCost(config).whole / usual_pace(config)
    pace = sum(step_cost(config, step) for step in timed) / sum(timed.values())
    return RunCost(config).whole / pace


def seconds_left(
    *, whole: float, done: float, before: float, elapsed: float, expected: float
) -> float:
    """Seconds that are left of work with a cost of `whole`, of which `done` is done.

    It began at `before`, `elapsed` seconds ago, and goes on at the pace that it has had since; as
    long as that says little, the time left is what is `expected`.
    """
    since = done - before
    if elapsed > 1 and since > _SOON * (whole - before):
        return elapsed * (whole - done) / since
    return expected
