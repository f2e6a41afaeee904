"""When a run has failed: a loss that is no number, or far above where it began for long."""

import math
from typing import Any

from innerloop.core.errors import InnerloopError
from innerloop.models.model import Head

FAR = 3.0
"""How many times the loss of the start is far above it. A model that learns stays below its start;
noise on the mean of 50 batches, and a loop or a dimension more, move it by tens of percent."""
LONG = 200
"""Steps that it must stay there: spikes of runs with high rates pass within dozens of steps."""
MEMORY = 0.98
"""Of the smoothed loss: the last 50 steps."""


class DivergenceError(InnerloopError):
    """Training that has failed; the last good weights are kept."""


def require_finite(name: str, value: float, step: int) -> None:
    """Raise a DivergenceError where what was computed at a step is no number."""
    if not math.isfinite(value):
        raise DivergenceError(
            f"the {name} is {value} at step {step}: the run has diverged, lower the learning rate "
            "or clip the gradient."
        )


class Divergence:
    """Watches the losses of a run.

    The start is the first loss, or that of predicting nothing if it is larger: with fewer
    dimensions at first, a loss that grows with them is no failure.
    """

    def __init__(self, head: Head, outputs: int) -> None:
        several = math.log(outputs)
        self.nothing = {
            "regression": 1.0, "gaussian": 1.0, "binary": math.log(2), "classes": several,
            "tokens": several,
        }[head]  # fmt: skip
        self.first = 0.0
        self.mean = 0.0
        self.weight = 0.0
        self.above = 0

    @property
    def smoothed(self) -> float:
        """The average of the last losses."""
        return self.mean / self.weight if self.weight else math.nan

    @property
    def limit(self) -> float:
        """The smoothed loss that is too high."""
        return FAR * max(self.first, self.nothing)

    @property
    def suspicious(self) -> bool:
        """Whether the loss is too high now: what is computed from it is not worth keeping."""
        return self.above > 0

    def watch(self, step: int, loss: float, gradient: float) -> None:
        """Look at the loss and the gradient's norm of a step; raise if the run has failed."""
        require_finite("loss", loss, step)
        require_finite("gradient", gradient, step)
        if self.weight == 0:
            self.first = loss
        self.mean = MEMORY * self.mean + (1 - MEMORY) * loss
        self.weight = MEMORY * self.weight + (1 - MEMORY)
        self.above = self.above + 1 if self.smoothed > self.limit else 0
        if self.above >= LONG:
            raise self._failed(f"for {LONG} steps")

    def accepts(self, loss: float) -> bool:
        """Whether weights with this loss are worth keeping; before the first step any number is."""
        return math.isfinite(loss) and (self.weight == 0 or loss <= self.limit)

    def conclude(self) -> None:
        """Raise if the run, which is at its end, has failed."""
        if self.suspicious:
            raise self._failed("at the end")

    def _failed(self, when: str) -> DivergenceError:
        return DivergenceError(
            f"the loss is {self.smoothed:.3g}, more than {FAR:g} times its start {when}: the run "
            "has diverged, lower the learning rate."
        )

    def state(self) -> dict[str, Any]:
        """All that it remembers."""
        return {name: getattr(self, name) for name in ("first", "mean", "weight", "above")}

    def load_state(self, state: dict[str, Any]) -> None:
        """Go on from what `state` gave."""
        self.first, self.mean = float(state["first"]), float(state["mean"])
        self.weight, self.above = float(state["weight"]), int(state["above"])
