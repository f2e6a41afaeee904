"""Figure 10: sparse linear functions, decision trees and two-layer networks, with their solvers."""

import math
from dataclasses import replace
from itertools import product
from typing import Any

import pandas as pd
from matplotlib.figure import Figure
from torch import Tensor

from innerloop.analysis import Averages, Measured, Statistic, drawing
from innerloop.core.errors import NotSupportedError
from innerloop.core.learner import Learner
from innerloop.learners import (
    OLS,
    Averaging,
    Boosting,
    GreedyTree,
    Lasso,
    NearestNeighbors,
    NetworkByAdam,
)
from innerloop.studies.claim import Claim, at_least, at_most
from innerloop.studies.lab import Lab
from innerloop.studies.runs import trained
from innerloop.studies.study import Measures, Scale, Tables, declare
from innerloop.studies.yang2024.shared import KINDS, MATCHES, TITLES

FEW = 10
"""Below so many examples the paper has its looped model ahead of the Lasso."""
LASSOS = {f"Lasso, {penalty:g}": Lasso(penalty) for penalty in (1, 0.1, 0.01, 0.001, 0.0001)}
"""The Lasso with each penalty of the paper's search."""
BOOSTED = {"XGBoost": Boosting(), "XGBoost on signs": Boosting(signs=True)}
"""Asked about fewer prompts: they fit one prefix after the other, for hours if on all."""
_TREES = {"greedy tree": GreedyTree(), "greedy tree on signs": GreedyTree(signs=True), **BOOSTED}
_NEIGHBOURS: dict[str, Learner[Any]] = {"3 nearest neighbours": NearestNeighbors()}
SOLVERS: dict[str, dict[str, Learner[Any]]] = {
    "sparse": {"least squares": OLS(), "averaging": Averaging(), **_NEIGHBOURS, **LASSOS},
    "tree": {**_NEIGHBOURS, **_TREES},
    "network": {"least squares": OLS(), **_NEIGHBOURS, "network by Adam": NetworkByAdam()},
}
"""What the paper draws beside the two models."""


def _families(scale: Scale) -> tuple[str, ...]:
    return ("sparse",) if scale == "laptop" else tuple(TITLES)


def few_and_more(label: str, errors: Measured, few: int) -> Measures:
    """The mean errors with examples, with up to `few` of them, and with more."""
    parts = {"with": slice(1, None), "few": slice(1, few + 1), "more": slice(few + 1, None)}
    return {
        f"{part} examples, {label}": errors.at(examples=places).mean("examples")
        for part, places in parts.items()
    }


def largest_ratio(m: Averages) -> Tensor:
    """Looped over standard, with examples, where it is largest: (..)."""
    return (m.several("with examples, looped") / m.several("with examples, standard")).amax(dim=-1)


def _in_every_family(m: Averages) -> Tensor:
    """The largest ratio; not a number where some families are not trained."""
    trained_all = all(f"with examples, looped, {family}" in m for family in TITLES)
    return largest_ratio(m) * (1.0 if trained_all else math.nan)


def _over_best_lasso(part: str) -> Statistic:
    """The looped model's error over that of the Lasso with the penalty that is best there."""
    return lambda m: m[f"{part}, looped, sparse"] / m.several(f"{part}, Lasso").amin(dim=-1)


def _draw_fig10(tables: Tables) -> Figure:
    table = tables["by-examples"]
    # The paper draws the penalty with the lowest error over all prefixes.
    errors = {label: drawing.rows_where(table, {"label": label})["mean"] for label in LASSOS}
    best = min(LASSOS, key=lambda label: errors[label].to_numpy(float).mean())
    others = [label for label in LASSOS if label != best]
    # Sixteen lines of eight colours, no two of a colour in one panel: hence the empty place.
    order = [*KINDS, "3 nearest neighbours", "least squares", best, "averaging"]
    order += ["network by Adam", others[0], "", *others[1:], *_TREES]
    sparse = table["family"] == "sparse"
    rows = table.assign(panel=table["family"].replace(TITLES)).loc[~table["label"].isin(others), :]
    lassos = table.loc[sparse & table["label"].isin(["looped", *LASSOS]), :]
    lassos = lassos.assign(panel="sparse: the Lasso by its penalty")
    figure, axes = drawing.facets(
        pd.concat([rows.loc[sparse, :], lassos, rows.loc[~sparse, :]]), "panel", x="examples",
        order=order, log=False, columns=2, size=(4.4, 3.2), legend=0.9,
    )  # fmt: skip
    for panel in axes.values():
        panel.set_ylim(0, 1.5)  # least squares leaves it at as many examples as dimensions
    drawing.legend(figure, axes.values())
    return figure


@declare(
    paper="yang2024", id="fig10",
    title="Looped and standard transformers beside the solvers of each family",
    claims=(
        Claim(
            name="matches-standard", ratio=True, criterion=MATCHES,
            sentence="On all families the looped model matches the standard one or is better.",
            quantity="mean error over all prefixes, looped / standard, in the family where it is "
            "largest (not at laptop, where one family is trained)",
            statistic=_in_every_family,
        ),
        Claim(
            name="ahead-on-sparse", ratio=True,
            sentence="On sparse functions the looped model outperforms the standard one.",
            quantity="mean error over all prefixes, looped / standard, sparse functions",
            statistic=lambda m: m["with examples, looped, sparse"]
            / m["with examples, standard, sparse"],
            criterion=at_most(1.0, "to outperform is to have less error"),
        ),
        Claim(
            name="ahead-of-lasso", ratio=True,
            sentence=f"Below {FEW} examples the looped model is better than the Lasso.",
            quantity=f"mean error over 1 to {FEW - 1} examples (fewer than d), looped / Lasso with "
            "the penalty that is best there",
            statistic=_over_best_lasso("few examples"),
            criterion=at_most(1.0, "to be better is to have less error"),
        ),
        Claim(
            name="lasso-more-precise", ratio=True,
            sentence="After all examples the Lasso is more precise.",
            quantity="error after the last example, looped / Lasso with the penalty that is best "
            "there",
            statistic=_over_best_lasso("all examples"),
            criterion=at_least(1.0, "to be more precise is to have less error"),
            paper="4.6",
        ),
    ),
    runs=lambda scale: {
        f"{kind}-{family}": trained(f"{kind}-{family}", scale)
        for family, kind in product(_families(scale), KINDS)
    },
    draw=_draw_fig10, minutes={"smoke": 0.4, "laptop": 17, "paper": 15_000},
    smaller={
        "smoke": "All families in 3 or 4 dimensions; 20 steps.",
        "laptop": "Sparse functions only: 10 dimensions, 2 weights that are not zero, 21 points; "
        "width 64, 20 loops against 8 layers, 2500 steps (3333 for the stack). No trees, no "
        "networks.",
    },
)  # fmt: skip
def fig10(lab: Lab) -> Measures:
    """Error by prefix of both models and of every solver that the paper draws."""
    measures: dict[str, Measured] = {}
    for family in _families(lab.scale):
        config = lab.config(f"looped-{family}")
        prompt = lab.draw(config.task, config.points, purpose=family)
        fewer = prompt.select(slice(0, lab.choose(smoke=4, laptop=128, paper=256)))
        models = {kind: lab.learner(f"{kind}-{family}") for kind in KINDS}
        for label, learner in {**models, **SOLVERS[family]}.items():
            asked = fewer if label in BOOSTED else prompt
            try:
                errors = lab.error(learner, asked, config.task, label=label)
            except NotSupportedError as error:
                lab.note(f"{label} is left out: {error}")
                continue
            name = f"{label}, {family}"
            measures[name] = replace(errors, keys={"family": family})
            measures[f"all examples, {name}"] = errors.at(examples=-1)
            measures |= few_and_more(name, errors, min(FEW, config.task.dims) - 1)
    if lab.first:
        last = float(measures["all examples, standard, sparse"].values.mean())
        lab.note(
            f"On sparse functions the standard model has an error of {last:.2g} after all "
            "examples: the ratio is one of trainings as short as these."
        )
    return measures
