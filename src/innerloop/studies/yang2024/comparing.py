"""What the studies of this paper share: ratios over several pairs, and loops that are shown."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from innerloop.studies.lab import Lab
from innerloop.studies.quantity import Quantity, estimate

Statistic = Callable[[Tensor], Tensor]
"""From means over prompts (.., m) to one number (..)."""

APART = 1.25
"""Two seeds of one model differ by about a quarter: less is no difference."""


def times(lab: Lab, above: Sequence[Tensor], below: Sequence[Tensor], *, seed: int) -> Quantity:
    """How many times the errors above (P,) are those below (P,): geometric mean over the pairs."""
    pairs = len(above)
    values = torch.stack([*above, *below], dim=1)  # (P, 2 pairs)

    def ratio(means: Tensor) -> Tensor:
        logs = means.log()  # (.., 2 pairs)
        return (logs[..., :pairs] - logs[..., pairs:]).mean(dim=-1).exp()  # (..)

    return bootstrapped(lab, ratio, values, seed=seed)


def bootstrapped(lab: Lab, statistic: Statistic, values: Tensor, *, seed: int) -> Quantity:
    """A function of means over prompts of values (P, m), with its interval."""
    return estimate(statistic, values, draws=lab.draws, generator=lab.generator("bootstrap", seed))


def largest_ratio(means: Tensor) -> Tensor:
    """The largest ratio (..) of neighbours in (.., 2 m): first over second, third over fourth."""
    return _ratios(means).amax(dim=-1)


def smallest_ratio(means: Tensor) -> Tensor:
    """The smallest ratio (..) of neighbours in (.., 2 m)."""
    return _ratios(means).amin(dim=-1)


def _ratios(means: Tensor) -> Tensor:
    above, below = means.unflatten(-1, (-1, 2)).unbind(-1)  # (.., m) each
    return above / below  # (.., m)


def shown_loops(last: int, trained: int) -> list[int]:
    """Every loop at first, then fewer and fewer, always the trained one: what a table holds."""
    steps = {*range(min(20, last) + 1), *range(20, min(40, last) + 1, 2), *range(40, last + 1, 10)}
    return sorted({*steps, trained, last})


def by_value(quantity: Quantity) -> float:
    """To find the smallest or largest of several quantities."""
    return quantity.value
