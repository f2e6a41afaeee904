"""What probes say of a layer: their errors, what they may be asked, and what they look at.

Shapes: S layers, p prefixes, T tokens.
"""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from innerloop.analysis import Averages, Measured, Probing, Statistic
from innerloop.analysis.intervals import average

UNDECODED = 0.25
"""The share of the variance at which a probe has decoded nothing that could be located: its error
is half of the target's deviation. What a place adds to it is then a matter of the probe."""


@dataclass(frozen=True, eq=False)
class ByLayer:
    """Errors of probes over the target's variance, averaged over prefixes, by layer."""

    errors: Measured
    """A mean of 1 is to know the target's mean and nothing else."""
    training: Measured
    """On the prompts that they were trained on."""

    @classmethod
    def of(cls, probes: Probing) -> "ByLayer":
        """Prefixes count alike, whatever the size of their targets."""
        training = probes.training / probes.variances
        return cls(probes.relative.mean("examples"), training.mean("examples"))

    @cached_property
    def best(self) -> int:
        """The place of the layer with the lowest error."""
        return int(average(self.errors.values).argmin())

    @property
    def left(self) -> float:
        """The share of the variance that the probe of the best layer leaves."""
        return float(average(self.errors.values)[self.best])

    @property
    def decodes(self) -> bool:
        """Whether so much was decoded that one can ask where."""
        return self.left < UNDECODED

    def undecoded(self, target: str, seed: int) -> str:
        """A sentence on what is left open, and on what the probes were short of."""
        fitted = float(average(self.training.values)[self.best])
        short_of = (
            "they fit too little, and more steps or a larger probe may help, not more prompts"
            if fitted >= UNDECODED
            else "they had too few prompts"
        )
        return (
            f"MLP probes for {target}{f' (seed {seed})' if seed else ''} leave {self.left:.2f} of "
            f"its variance at their best layer. With {UNDECODED:g} or more nothing was decoded "
            f"that could be located, and claims of where {target} is are left open: their numbers "
            f"would be about the probes. In training they leave {fitted:.2f}: {short_of}."
        )


def lowest_over_first(means: Tensor) -> Tensor:
    """What is left at the best layer of what the input layer leaves: (..) of errors (.., S)."""
    return means.amin(dim=-1) / means[..., 0]


def reached(means: Tensor) -> Tensor:
    """The first layer with at most the mean of the first and the lowest error: (..) of (.., S)."""
    half = (means[..., :1] + means.amin(dim=-1, keepdim=True)) / 2  # (.., 1)
    # The first of the largest: argmax of what is true.
    return (means <= half).double().argmax(dim=-1).double()


def located(statistic: Statistic, *targets: str) -> Statistic:
    """What probes say of a place; no number where those of a target have decoded too little."""

    def where_decoded(m: Averages) -> Tensor:
        value = statistic(m)  # (..)
        for target in targets:
            value = torch.where(m[f"{target} is decoded"] > 0, value, torch.nan)  # (..)
        return value

    return where_decoded


def attention_to_last(probes: Probing, layer: int) -> float:
    """What probes of a layer give to the y of their last example, averaged over prefixes."""
    prefixes = torch.tensor(probes.errors.ticks["examples"])  # (p,)
    last = 2 * prefixes - 1  # (p,): x_1 y_1 x_2 .., counted from 0
    weights = probes.attention[layer].gather(1, last[:, None])  # (p, 1)
    return float(weights.mean())
