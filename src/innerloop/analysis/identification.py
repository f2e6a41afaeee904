"""The answer of `identify`: a family, where it holds, how sure that is, and what it rests on."""

import math
from dataclasses import dataclass, field

import pandas as pd
from torch import Tensor

from innerloop.analysis.battery import COLUMNS
from innerloop.analysis.matching import Progression


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Identification:
    """The answer, and what it rests on."""

    learner: str
    family: str
    """The class name of the algorithm, or "none"."""
    equivalents: tuple[str, ...]
    """The families that it cannot be told from on these prompts."""
    parameters: dict[str, float | str]
    """Of the family: its parameters and its number of steps; empty for "none"."""
    edges: tuple[str, ...] = ()
    """The parameters that the search found at one of its ends: they may lie beyond."""
    unexplained: float
    """The part of the learner's predictions that the closest family leaves unexplained."""
    sureness: float
    """How sure the answer is, from 0 to 1, given so many prompts: see `sureness_of`."""
    ranking: pd.DataFrame
    """One row per family, closest first: family, algorithm, spd, low, high, unexplained, edges,
    sim_w."""
    shifts: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=list(COLUMNS)))
    """One row per shift: what the answer, with the parameters found in distribution, leaves
    unexplained there, whether it holds, and which family comes closest; a note where it could not
    be run."""
    progression: Progression | None = None
    """Which iteration of known algorithms each step of the learner is like; None without steps."""
    mixture: tuple[tuple[float, str], ...] = ()
    """Two algorithms whose weighted sum explains a learner that none explains alone."""
    threshold: float
    """What a family that is the answer may leave unexplained."""
    prompts: int
    points: int

    @property
    def intervals(self) -> dict[str, tuple[float, float]]:
        """The interval of each family's SPD."""
        columns = (self.ranking[name].tolist() for name in ("family", "low", "high"))
        return {family: (low, high) for family, low, high in zip(*columns, strict=True)}

    @property
    def algorithm(self) -> str:
        """The answer with its parameters; for "none" the closest of all."""
        columns = (self.ranking[name].tolist() for name in ("family", "algorithm"))
        by_family: dict[str, str] = dict(zip(*columns, strict=True))
        return by_family.get(self.family, next(iter(by_family.values())))

    @property
    def tried(self) -> pd.DataFrame:
        """The shifts under which the learner could be run."""
        return self.shifts.dropna(subset=["closest"])

    def statement(self) -> str:
        """What holds where: in distribution, and under each shift."""
        first = f"{self.algorithm} in distribution"
        if self.family == "none":
            first = (
                f"none of these in distribution (the closest, {self.algorithm}, leaves "
                f"{self.unexplained:.1%} unexplained)"
            )
        same: list[str] = []
        others: dict[str, list[str]] = {}
        none: list[str] = []
        for row in self.tried.to_dict("records"):
            shift, closest, left = row["shift"], row["closest"], row["closest_unexplained"]
            if row["holds"] and self.family != "none":
                same.append(shift)
            elif left <= self.threshold:
                others.setdefault(closest, []).append(shift)
            else:
                none.append(f"{shift} ({left:.1%} unexplained)")
        parts = [first + (f" and at {_listed(same)}" if same else "")]
        parts += [f"{name} at {_listed(places)}" for name, places in others.items()]
        parts += [f"none of these at {_listed(none)}"] if none else []
        return "; ".join(parts)

    def summary(self) -> str:
        """The answer in a few sentences."""
        sentences = [f"{self.statement()}."]
        if self.mixture:
            parts = " + ".join(f"{weight:.2f} x {name}" for weight, name in self.mixture)
            sentences.append(f"Its predictions look like {parts}.")
        if self.family != "none":
            sentences.append(f"In distribution it leaves {self.unexplained:.2g} unexplained.")
        if self.equivalents:
            sentences.append(f"Cannot be told from {', '.join(self.equivalents)} there.")
        if self.edges:
            sentences.append(
                f"The search for {_listed(list(self.edges))} ended at its limit: the truth may lie "
                "beyond."
            )
        sentences.append(f"Sureness {percent(self.sureness)} from {self.prompts} prompts.")
        return " ".join(sentences)


def sureness_of(agreeing: float, sizes: Tensor) -> float:
    """How sure an answer is that a share of the bootstrap draws agree with.

    A bootstrap knows only the prompts that it has: of two prompts all draws may agree. So the share
    counts as n agreeing of n independent prompts, with a uniform prior for the next one to agree:
    (n agreeing + 1) / (n + 2), Laplace's rule of succession. n is the effective number of prompts,
    (sum s)^2 / sum s^2 (Kish 1965) with the sizes s (P,) that they enter the comparison with: one
    prompt that outweighs all others is one prompt.
    """
    squares = float(sizes.square().sum())
    effective = float(sizes.sum()) ** 2 / squares if squares > 0 else 0.0
    return (effective * agreeing + 1) / (effective + 2)


def percent(share: float) -> str:
    """A share in percent, rounded down: what is not sure is never 100%."""
    return f"{math.floor(1000 * share + 1e-9) / 10:g}%"


def _listed(names: list[str]) -> str:
    """Names as in a sentence."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
