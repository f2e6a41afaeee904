"""Best matches of layers in the steps of an algorithm, and whether they lie on a line.

Shapes: P prompts, A layers, C steps of an algorithm with its start, L layers that are fitted.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd
import torch
from torch import Tensor

from innerloop.studies.claim import Claim, Criterion
from innerloop.studies.fu2023.layers import Measure
from innerloop.studies.lab import Lab
from innerloop.studies.quantity import Quantity, estimate
from innerloop.studies.tables import record, stacked

NEWTON, DESCENT = "Newton", "gradient descent"
FEWEST = 5
"""Layers that tell a line from an exponential.

Of five numbers that double a line explains 0.87, and leaves more than a tenth to speak against it;
of four it explains 0.92, of three 0.96.
"""
WORDS: Mapping[Measure, str] = {"SimE": "errors", "SimW": "weights"}


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Trend:
    """The similarity of a model's layers with the steps of an algorithm."""

    measure: Measure
    algorithm: str
    similarity: Tensor
    """(P, A, C): the embedding is layer 0."""
    best: Tensor
    """(A,): the step that is most like each layer."""
    falling: tuple[int, ...]
    """The layers in which the error falls."""
    fitted: tuple[int, ...]
    """Those of them whose matches a line is put through."""

    def at_best(self) -> Tensor:
        """The similarity with the best match of each layer: (P, A)."""
        where = self.best.expand(len(self.similarity), -1)[..., None]  # (P, A, 1)
        return self.similarity.gather(2, where)[..., 0]


def trend_of(similarity: Tensor, measure: Measure, algorithm: str, falling: range) -> Trend:
    """The best match of each layer, and the layers whose matches are fitted.

    Not those that match the algorithm's last step: they might match a later one.
    """
    best = similarity.mean(dim=0).argmax(dim=1)  # (A,)
    last = similarity.shape[2] - 1
    fitted = tuple(layer for layer in falling if int(best[layer]) < last)
    return Trend(
        measure=measure, algorithm=algorithm, similarity=similarity, best=best,
        falling=tuple(falling), fitted=fitted,
    )  # fmt: skip


def line(places: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """Slope of the line through values (.., L) at places (L,), and the variance it explains."""
    count = len(places)
    # Not from differences to means: so, sums of whole numbers are exact, and a slope of 2 is 2.
    together = count * (places * values).sum(dim=-1) - places.sum() * values.sum(dim=-1)  # (..)
    across = count * places.square().sum() - places.sum().square()  # ()
    up = count * values.square().sum(dim=-1) - values.sum(dim=-1).square()  # (..)
    return together / across, together.square() / (across * up)


def like(lab: Lab, trend: Trend, seed: int) -> Quantity:
    """The similarity with the best match, mean over the layers in which the error falls."""
    if not trend.falling:
        return Quantity(math.nan, math.nan, math.nan)
    return lab.mean(trend.at_best()[:, list(trend.falling)].mean(dim=1), seed=seed)


def explained(places: Tensor, matches: Tensor) -> tuple[Tensor, Tensor]:
    """What a line explains of matches (.., L), and what one explains of their logarithms.

    The first is near 1 where they grow linearly, the second where they grow exponentially.
    """
    from_one = matches.clamp(min=1)  # (.., L): the start has no logarithm
    return line(places, from_one)[1], line(places, from_one.log())[1]


def linear(lab: Lab, trend: Trend, seed: int) -> Quantity:
    """How much more a line explains of the matches than of their logarithms."""
    places = torch.tensor(trend.fitted, dtype=torch.float64)  # (L,)

    def gain(table: Tensor) -> Tensor:
        steps, logarithms = explained(places, _matches(table))  # (..) each
        return steps - logarithms

    return _estimate(lab, trend, seed, gain)


def rate(lab: Lab, trend: Trend, seed: int) -> Quantity:
    """Steps of the algorithm a layer: the slope of the line."""
    places = torch.tensor(trend.fitted, dtype=torch.float64)  # (L,)
    return _estimate(lab, trend, seed, lambda table: line(places, _matches(table))[0])


def exponential(lab: Lab, trend: Trend, seed: int) -> Quantity:
    """How much more a line explains of the matches' logarithms than of the matches."""
    places = torch.tensor(trend.fitted, dtype=torch.float64)  # (L,)

    def gain(table: Tensor) -> Tensor:
        steps, logarithms = explained(places, _matches(table))  # (..) each
        return logarithms - steps

    return _estimate(lab, trend, seed, gain)


def _matches(table: Tensor) -> Tensor:
    """The best steps (.., L) of similarities (.., L, C)."""
    return table.argmax(dim=-1).double()


def _estimate(
    lab: Lab,
    trend: Trend,
    seed: int,
    statistic: Callable[[Tensor], Tensor],
) -> Quantity:
    """A function of the mean similarities (.., L, C) of the fitted layers, with its interval.

    NaN, which concludes nothing, where too few layers can be fitted.
    """
    if len(trend.fitted) < FEWEST:
        return Quantity(math.nan, math.nan, math.nan)
    table = trend.similarity[:, list(trend.fitted)]  # (P, L, C)
    shape = table.shape[1:]
    return estimate(
        lambda means: statistic(means.unflatten(-1, shape)),
        table.flatten(1),
        draws=lab.draws,
        generator=lab.generator("bootstrap", seed),
    )


def trend_claims(measure: Measure) -> tuple[Claim, ...]:
    """Layers are like Newton's iterations; these grow in a line, gradient steps exponentially."""
    word = WORDS[measure]
    return (
        Claim(
            name=f"{word}-like-newton",
            sentence=f"The layers' {word} are very like those of Newton's iterations.",
            quantity=f"{measure} with the best-matching iteration, mean over the layers in which "
            "the error falls",
            criterion=Criterion(
                at_least=0.9,
                reason="the paper calls the similarity very high; at a cosine of 0.9 a fifth of "
                "the square is not shared",
            ),
            over="prompts",
        ),
        Claim(
            name=f"{word}-newton-linear",
            sentence="The best-matching Newton iteration grows linearly from layer to layer, not "
            "exponentially.",
            quantity=f"R^2 of a line through the iterations matched by {measure}, less that of a "
            "line through their logarithm, over the layers in which the error falls (but those "
            "that match the last iteration run)",
            criterion=Criterion(
                at_least=0.0, reason="the line fits better where the growth is linear"
            ),
            over="prompts",
        ),
        Claim(
            name=f"{word}-descent-exponential",
            sentence="The best-matching number of gradient steps grows exponentially.",
            quantity=f"R^2 of a line through the logarithm of the steps matched by {measure}, less "
            "that of a line through the steps themselves",
            criterion=Criterion(
                at_least=0.0, reason="the line fits better where the growth is exponential"
            ),
            over="prompts",
        ),
    )


def trend_quantities(lab: Lab, newton: Trend, descent: Trend, seed: int) -> dict[str, Quantity]:
    """What `trend_claims` are about, by their names."""
    word = WORDS[newton.measure]
    return {
        f"{word}-like-newton": like(lab, newton, seed),
        f"{word}-newton-linear": linear(lab, newton, seed),
        f"{word}-descent-exponential": exponential(lab, descent, seed),
    }


def gathered(found: Sequence[Mapping[str, Quantity]]) -> dict[str, list[Quantity]]:
    """What each seed came to, by claim."""
    return {name: [one[name] for one in found] for name in found[0]}


def best_table(trends: Sequence[Trend], seed: int) -> pd.DataFrame:
    """One row a layer: its best match, how like it is, and whether it counts in the fits."""
    return stacked([_best(trend, seed) for trend in trends])


def _best(trend: Trend, seed: int) -> pd.DataFrame:
    layers = range(1, len(trend.best))
    similarity = trend.at_best().mean(dim=0)  # (A,)
    return record(
        {
            "seed": [seed] * len(layers),
            "measure": [trend.measure] * len(layers),
            "algorithm": [trend.algorithm] * len(layers),
            "layer": layers,
            "step": [int(trend.best[layer]) for layer in layers],
            "similarity": [float(similarity[layer]) for layer in layers],
            "fitted": [layer in trend.fitted for layer in layers],
        }
    )


def fit_table(trends: Sequence[Trend], seed: int) -> pd.DataFrame:
    """One row a trend: what a line explains of its matches, and of their logarithms."""
    fits = [
        explained(
            torch.tensor(trend.fitted, dtype=torch.float64),  # (L,)
            trend.best[list(trend.fitted)].double(),  # (L,)
        )
        for trend in trends
    ]
    return record(
        {
            "seed": [seed] * len(trends),
            "measure": [trend.measure for trend in trends],
            "algorithm": [trend.algorithm for trend in trends],
            "layers": [len(trend.fitted) for trend in trends],
            "R^2 of a line": [float(steps) for steps, _ in fits],
            "R^2 of an exponential": [float(logarithms) for _, logarithms in fits],
        }
    )


def too_few(trends: Sequence[Trend], seed: int) -> tuple[str, ...]:
    """A note on each trend that is not fitted; seeds are counted from 0."""
    return tuple(
        f"Seed {seed}: the steps of {trend.algorithm} matched by {trend.measure} can be fitted at "
        f"{len(trend.fitted)} layers only. Nothing is concluded of their trend from fewer than "
        f"{FEWEST}."
        for trend in trends
        if len(trend.fitted) < FEWEST
    )


def similarity_table(trends: Sequence[Trend]) -> pd.DataFrame:
    """Mean similarities by layer and step, for heatmaps: of many steps those that are drawn."""
    rows: list[pd.DataFrame] = []
    for trend in trends:
        means = trend.similarity.mean(dim=0)  # (A, C)
        for step in sorted({*linear_steps(means.shape[1]), *logarithmic_steps(means.shape[1])}):
            layers = range(1, len(means))
            rows.append(
                record(
                    {
                        "measure": [trend.measure] * len(layers),
                        "algorithm": [trend.algorithm] * len(layers),
                        "step": [step] * len(layers),
                        "layer": layers,
                        "similarity": [round(float(means[layer, step]), 4) for layer in layers],
                    }
                )
            )
    return stacked(rows)


def linear_steps(count: int) -> list[int]:
    """Some twenty of `count` steps from 0 on, at equal distances; all where there are few."""
    return list(range(0, count, max(1, -(-(count - 1) // 20))))


def logarithmic_steps(count: int) -> list[int]:
    """The start and some twenty of `count` steps from 1 on, at equal ratios, with the last."""
    ratios = torch.linspace(0, 1, 20, dtype=torch.float64)  # (20,)
    from_one = {round((count - 1) ** float(ratio)) for ratio in ratios} if count > 1 else set()
    return sorted({0, *from_one})
