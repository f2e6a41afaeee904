"""Which steps of algorithms the layers of a model match, and whether these grow as a line does.

Shapes: P prompts, L layers, C steps of an algorithm with its start.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from innerloop.analysis import Measured, Statistic, best_matches, match_all
from innerloop.core.learner import Learner
from innerloop.studies.claim import Claim, at_least
from innerloop.studies.fu2023.growth import Curve, better, explained, refined_matches
from innerloop.studies.fu2023.model_layers import DESCENT, NEWTON, Layers
from innerloop.studies.fu2023.stand_ins import FIVE, GROWING, LEARNED, MANY, UNTRAINED
from innerloop.studies.lab import Lab
from innerloop.studies.study import Measures

Measure = Literal["SimE", "SimW"]
"""Cosines of errors, and of induced weights: Fu et al. (2023), section 3.4."""
MEASURES: tuple[Measure, ...] = ("SimE", "SimW")
RATE = "Gradient descent has the rate 1/L of each prefix."
"""A note of figures that compare the two."""
FEWEST = 5
"""Layers that tell a line from an exponential.

Of five numbers that double a line explains 0.87, and leaves more than a tenth to speak against it;
of four it explains 0.92, of three 0.96.
"""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Trend:
    """The similarity of a model's layers with the steps of an algorithm."""

    similarity: Measured
    """By layer, without the embedding, and by step."""
    falling: Tensor
    """(L,): 1 for the layers in which the error falls, else 0."""

    @property
    def name(self) -> str:
        """The measure and the algorithm."""
        return f"{self.similarity.keys['measure']}, {self.similarity.label}"

    @property
    def best(self) -> Tensor:
        """(L,): the step that is most like each layer."""
        return best_matches(self.similarity.values.mean(dim=0))

    @property
    def fitted(self) -> Tensor:
        """(L,): 1 for the layers whose matches a line is put through, else 0.

        Not for those that match the algorithm's last step: they might match a later one.
        """
        return self.falling * (self.best < self.similarity.values.shape[2] - 1)

    @property
    def at_best(self) -> Measured:
        """The similarity with the best match of each layer."""
        own = self.similarity
        where = self.best.expand(own.prompts, -1)[..., None]  # (P, L, 1)
        return by_layer("similarity", own.values.gather(2, where)[..., 0], own)

    def by_layer(self) -> dict[str, Measured]:
        """All but the whole table of similarities, by name: what claims and figures need."""
        return {
            f"{self.name}, at best": self.at_best,
            f"{self.name}, best": by_layer("best match", self.best[None], self.similarity),
            f"{self.name}, fitted": by_layer("fitted", self.fitted[None], self.similarity),
            "falling": by_layer("falling", self.falling[None]),
        }


Trends = Mapping[tuple[Measure, str], Trend]
"""By measure and algorithm."""


def by_layer(value: str, values: Tensor, of: Measured | None = None) -> Measured:
    """Values (P, L) of layers from the first on; a column `value` tells what they are.

    The algorithm and the measure are those of a similarity, where they are about one.
    """
    label, measure = ("", "") if of is None else (of.label, of.keys["measure"])
    return Measured(
        values=values, axes=("layer",), label=label, keys={"value": value, "measure": measure},
        ticks={"layer": range(1, values.shape[1] + 1)},
    )  # fmt: skip


def trends_of(
    lab: Lab, layers: Layers, algorithms: Mapping[str, Learner[Any]], *measures: Measure
) -> dict[tuple[Measure, str], Trend]:
    """How a model's layers match the steps of each algorithm, by each measure."""
    trends: dict[tuple[Measure, str], Trend] = {}
    for measure in measures:
        lab.tell(f"{measure} of {layers.learner.name}")
        several = match_all(
            layers.learner, algorithms, layers.prompt, queries=layers.queries, exact=True,
            measure="sim_e" if measure == "SimE" else "sim_w", axes=("layer", "step"),
        )  # fmt: skip
        for label, one in several.items():
            similarity = replace(
                one.at(layer=slice(1, None)), keys={"measure": measure},
                shown={"step": drawn_steps(one.values.shape[2])},
            )  # fmt: skip
            trends[measure, label] = Trend(similarity=similarity, falling=layers.falling)
    return trends


def measures_of(lab: Lab, trends: Trends) -> Measures:
    """The measures of several trends; what curves explain of them is a table of its own.

    A note tells where too few layers can be fitted.
    """
    rows: list[dict[str, object]] = []
    measures: dict[str, Measured] = {}
    for (measure, algorithm), trend in trends.items():
        number = int(trend.fitted.sum())
        matches = refined_matches(trend.similarity.values.mean(dim=0))  # (L,)
        parts = explained(matches, trend.fitted, algorithm)  # () each
        own = {f"R^2 of {curve}": float(part) for curve, part in parts.items()}
        rows.append({"measure": measure, "algorithm": algorithm, "layers": number, **own})
        measures |= {trend.name: trend.similarity, **trend.by_layer()}
        if number < FEWEST:
            lab.note(
                f"Seed {lab.seed}: the steps of {algorithm} matched by {measure} can be "
                f"fitted at {number} layers only. Nothing is concluded of their trend from fewer "
                f"than {FEWEST}."
            )
    lab.table("fits", pd.DataFrame(rows), by_seed=True)
    return measures


def over_layers(values: Tensor, chosen: Tensor) -> Tensor:
    """The mean (..) of values (.., L) over layers that are chosen by ones (.., L); NaN of none."""
    return (values * chosen).sum(dim=-1) / chosen.sum(dim=-1)


def nearer_newton(other: str, measure: Measure = "SimE") -> Claim:
    """Layers are more like Newton's method than like another, where errors are compared."""
    one, two = (f"{measure}, {algorithm}, at best" for algorithm in (NEWTON, other))
    return Claim(
        name=f"not-{other.replace(' ', '-')}" + ("-weights" if measure == "SimW" else ""),
        sentence=f"The transformer resembles Newton's method more than {other} ({measure}).",
        quantity=f"{measure} with Newton's method less {measure} with {other}, each at its best "
        "match, mean over the layers in which the error falls",
        statistic=lambda m: over_layers(m[one] - m[two], m["compared"]),
        criterion=at_least(0.0, "the paper's curve of Newton's method is the uppermost"),
        premise=LEARNED,
        excludes=(UNTRAINED, MANY, GROWING),
    )


def fitted(name: str, number: Callable[[Tensor, Tensor], Tensor]) -> Statistic:
    """A number of a trend's similarities (.., L, C), and of which layers (.., L) are fitted.

    NaN, which concludes nothing, where too few layers can be fitted.
    """

    def statistic(m: Mapping[str, Tensor]) -> Tensor:
        chosen = m[f"{name}, fitted"]  # (.., L)
        return torch.where(chosen.sum(dim=-1) < FEWEST, torch.nan, number(m[name], chosen))

    return statistic


def trend_claims(measure: Measure) -> tuple[Claim, ...]:
    """Newton's iterations grow in a line from layer to layer, gradient steps exponentially."""
    word = {"SimE": "errors", "SimW": "weights"}[measure]
    return (
        _grows(
            NEWTON, "line", measure,
            name=f"{word}-newton-linear",
            sentence="The best-matching Newton iteration grows linearly from layer to layer.",
            compared="iterations",
            others="an exponential or a logarithm",
        ),
        _grows(
            DESCENT, "exponential", measure,
            name=f"{word}-descent-exponential",
            sentence="The best-matching number of gradient steps grows exponentially.",
            compared="logarithms of the steps",
            others="a line or a logarithm of the layer",
        ),
    )  # fmt: skip


def _grows(
    algorithm: str, curve: Curve, measure: Measure, *, name: str, sentence: str, compared: str,
    others: str,
) -> Claim:  # fmt: skip
    """The best matches of an algorithm grow as one curve and not as the others."""
    article = "an" if curve == "exponential" else "a"
    return Claim(
        name=name,
        sentence=sentence,
        quantity=f"part of the variance of the {compared} matched by {measure} (between whole "
        f"ones) that {article} {curve} explains, less the part that {others} does, whichever is "
        "more; over the layers in which the error falls (but those that match the last step run)",
        statistic=fitted(
            f"{measure}, {algorithm}",
            lambda similarity, chosen: better(
                curve, refined_matches(similarity), chosen, algorithm
            ),
        ),
        criterion=at_least(
            0.0, "of three curves with two parameters each, the right one fits best"
        ),
        premise=LEARNED,
        # Steps that grow by a factor converge as fast as Newton's method: of them it is true.
        excludes=(UNTRAINED, FIVE, MANY),
    )


def drawn_steps(count: int) -> list[int]:
    """The steps that tables and heatmaps show."""
    return sorted({*linear_steps(count), *logarithmic_steps(count)})


def linear_steps(count: int) -> list[int]:
    """Some twenty of `count` steps from 0 on, at equal distances; all where there are few."""
    return list(range(0, count, max(1, -(-(count - 1) // 20))))


def logarithmic_steps(count: int) -> list[int]:
    """The start and some twenty of `count` steps from 1 on, at equal ratios, with the last."""
    from_one = np.geomspace(1, count - 1, 20).round().astype(int).tolist() if count > 1 else []
    return sorted({0, *from_one})
