"""What probes say of a layer: their errors, what they may be asked, and what they look at.

Shapes: P prompts, S layers, p prefixes, T tokens.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from innerloop.analysis.probing import Probing
from innerloop.studies.lab import Lab
from innerloop.studies.quantity import UNKNOWN, Quantity, estimate

UNDECODED = 0.25
"""The share of the variance at which a probe has decoded nothing that could be located: its error
is half of the target's deviation. What a place adds to it is then a matter of the probe."""


@dataclass(frozen=True, slots=True, eq=False)
class ByLayer:
    """Errors of probes over the target's variance, averaged over prefixes."""

    errors: Tensor
    """(P, S); a mean of 1 is to know the target's mean and nothing else."""
    training: Tensor
    """(S,): on the prompts that they were trained on."""

    @classmethod
    def of(cls, found: Probing) -> "ByLayer":
        """Prefixes count alike, whatever the size of their targets."""
        over = found.dims / found.variances  # (p,)
        errors = (found.errors.by_prompt * over[:, None]).mean(dim=1).T  # (P, S)
        return cls(errors, (found.errors.training * over).mean(dim=1))

    @property
    def best(self) -> int:
        """The layer with the lowest error."""
        return int(self.errors.mean(dim=0).argmin())

    @property
    def left(self) -> float:
        """The share of the variance that the probe of the best layer leaves."""
        return float(self.errors[:, self.best].mean())

    @property
    def decodes(self) -> bool:
        """Whether so much was decoded that one can ask where."""
        return self.left < UNDECODED


def lowest_over_first(means: Tensor) -> Tensor:
    """What is left at the best layer of what the input layer leaves: (..) of errors (.., S)."""
    return means.amin(dim=-1) / means[..., 0]


def reached(means: Tensor) -> Tensor:
    """The first layer with at most the mean of the first and the lowest error: (..) of (.., S)."""
    half = (means[..., :1] + means.amin(dim=-1, keepdim=True)) / 2  # (.., 1)
    # The first of the largest: argmax of what is true.
    return (means <= half).double().argmax(dim=-1).double()


def both(
    lab: Lab,
    statistic: Callable[[Tensor, Tensor], Tensor],
    one: ByLayer,
    other: ByLayer,
    seed: int,
) -> Quantity:
    """A function of the mean errors (.., S) of two kinds of probes, on the same prompts."""
    layers = one.errors.shape[1]
    return estimate(
        lambda means: statistic(means[..., :layers], means[..., layers:]),
        torch.cat([one.errors, other.errors], dim=1),  # (P, 2 S)
        draws=lab.draws,
        generator=lab.generator("bootstrap", seed),
    )


def located(quantity: Quantity, *asked: ByLayer) -> Quantity:
    """What probes say of a place; no number where one of them has decoded too little."""
    return quantity if all(one.decodes for one in asked) else UNKNOWN


def undecoded(probes: Mapping[str, Sequence[ByLayer]]) -> tuple[str, ...]:
    """A sentence for each target that the probes of some seed have not decoded."""
    found: list[str] = []
    for target, several in probes.items():
        worst = max(several, key=lambda one: one.left)
        if not worst.decodes:
            found.append(_undecoded(target, worst))
    return tuple(found)


def _undecoded(target: str, one: ByLayer) -> str:
    """What is left open, and what the probes were short of."""
    fitted = float(one.training[one.best])
    short_of = (
        "they fit too little, and more steps or a larger probe may help, not more prompts"
        if fitted >= UNDECODED
        else "they had too few prompts"
    )
    return (
        f"MLP probes for {target} leave {one.left:.2f} of its variance at their best layer. With "
        f"{UNDECODED:g} or more nothing was decoded that could be located, and claims of where "
        f"{target} is are left open: their numbers would be about the probes. In training they "
        f"leave {fitted:.2f}: {short_of}."
    )


def attention_to_last(found: Probing, layer: int) -> float:
    """What probes of a layer give to the y of their last example, averaged over prefixes."""
    last = 2 * found.prefixes - 1  # (p,): x_1 y_1 x_2 .., counted from 0
    weights = found.attention[layer].gather(1, last[:, None])  # (p, 1)
    return float(weights.mean())
