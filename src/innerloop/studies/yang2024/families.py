"""Figure 10: sparse linear functions, decision trees and two-layer networks, with their solvers."""

import math
from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from typing import Any

import pandas as pd
import torch
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
from innerloop.studies.claim import Claim, Premise
from innerloop.studies.lab import Lab, Null
from innerloop.studies.nulls import untrained
from innerloop.studies.runs import trained
from innerloop.studies.study import Measures, Runs, Scale, Tables, declare
from innerloop.studies.yang2024.comparing import all_within, for_loops, other_stacks
from innerloop.studies.yang2024.shared import (
    APART,
    HIGHER,
    KINDS,
    KNOWN,
    LEARNED,
    LOWER,
    MATCHES,
    TITLES,
    UNLIKE_THE_PAPER,
)

FEW = 10
"""Below so many examples the paper has its looped model ahead of the Lasso."""
LASSOS = {f"Lasso, {penalty:g}": Lasso(penalty) for penalty in (1, 0.1, 0.01, 0.001, 0.0001)}
"""The Lasso with each penalty of the paper's search."""
PAPERS_LASSO = "Lasso, 0.01"
"""The penalty that the paper has chosen, for all numbers of examples."""
BOOSTED = {"XGBoost": Boosting(), "XGBoost on signs": Boosting(signs=True)}
"""Asked about fewer prompts: they fit one prefix after the other, for hours if on all."""
_TREES = {"greedy tree": GreedyTree(), "greedy tree on signs": GreedyTree(signs=True), **BOOSTED}
NEIGHBOURS = "3 nearest neighbours"
_NEIGHBOURS: dict[str, Learner[Any]] = {NEIGHBOURS: NearestNeighbors()}
SOLVERS: dict[str, dict[str, Learner[Any]]] = {
    "sparse": {"least squares": OLS(), "averaging": Averaging(), **_NEIGHBOURS, **LASSOS},
    "tree": {**_NEIGHBOURS, **_TREES},
    "network": {"least squares": OLS(), **_NEIGHBOURS, "network by Adam": NetworkByAdam()},
}
"""What the paper draws beside the two models."""


BALANCED = (
    "On sparse functions positions count by the inverse of their errors, and rates fall in the "
    "second half of the steps alone."
)
"""How models of sparse functions are trained, unlike those of other families."""
DESK = ("steps=20000",)
"""Changes of the laptop's recipes for sparse functions: until sparsity is learned."""


def _families(scale: Scale) -> tuple[str, ...]:
    return ("sparse",) if scale == "laptop" else tuple(TITLES)


def _fig10_runs(scale: Scale) -> Runs:
    pairs = list(product(_families(scale), KINDS))
    if scale != "desk":
        return {f"{kind}-{family}": trained(f"{kind}-{family}", scale) for family, kind in pairs}
    return {
        f"{kind}-{family}": trained(
            f"{kind}-{family}", "laptop", *(DESK if family == "sparse" else ())
        )
        for family, kind in pairs
    }


def few_and_more(label: str, errors: Measured, few: int) -> Measures:
    """The mean errors with examples, with up to `few` of them, and with more; after all of them."""
    parts = {"with": slice(1, None), "few": slice(1, few + 1), "more": slice(few + 1, None)}
    return {
        **{
            f"{part} examples, {label}": errors.at(examples=places).mean("examples")
            for part, places in parts.items()
        },
        f"all examples, {label}": errors.at(examples=-1),
    }


def largest_ratio(m: Averages) -> Tensor:
    """Looped over standard, with examples, where it is largest: (..)."""
    return (m.several("with examples, looped") / m.several("with examples, standard")).amax(dim=-1)


def _in_every_family(m: Averages) -> Tensor:
    """The largest ratio; not a number where some families are not trained."""
    trained_all = all(f"with examples, looped, {family}" in m for family in TITLES)
    return largest_ratio(m) * (1.0 if trained_all else math.nan)


def _over_lasso(part: str) -> Statistic:
    """The looped model's error over that of the Lasso with the paper's penalty."""
    return lambda m: m[f"{part}, looped, sparse"] / m[f"{part}, {PAPERS_LASSO}, sparse"]


def knows_sparsity(kinds: tuple[str, ...], place: str, *, solved: bool) -> Premise:
    """One of these models has learned that functions are sparse, and the stack solves the task.

    `place` is what measures are called after the model, such as ", sparse".
    """
    limits: dict[str, tuple[Statistic, float]] = {
        f"mean error with few examples / that of least squares, {' or '.join(kinds)}": (
            lambda m: (
                torch.stack([m[f"few examples, {kind}{place}"] for kind in kinds]).amin(dim=0)
                / m[f"few examples, least squares{place}"]
            ),
            KNOWN.at_most,
        )
    }
    if solved:
        limits["error of the standard model after the last example"] = (
            lambda m: m.several("all examples, standard").amax(dim=-1), LEARNED.at_most
        )  # fmt: skip
    return all_within(
        limits,
        "of weights that may point anywhere nothing knows more than least squares: a tenth less "
        "error below d examples is knowledge of sparsity, and with all examples a linear function "
        "is known",
    )


BETTER_THAN_NEIGHBOURS = all_within(
    {
        "mean error with examples, standard / 3 nearest neighbours, the family where it is largest":
        (
            lambda m: (
                m.several("with examples, standard") / m.several(f"with examples, {NEIGHBOURS}")
            ).amax(dim=-1),
            1 / APART,
        )
    },
    "a model that does not do better than neighbours has not learned its family",
)  # fmt: skip
_LOOP_KNOWS = knows_sparsity(("looped",), ", sparse", solved=False)


def _draw_fig10(tables: Tables) -> Figure:
    table = tables["by-examples"]
    lasso_panel = "sparse: the Lasso by its penalty"
    others = [label for label in LASSOS if label != PAPERS_LASSO]
    # Sixteen lines of eight colours, no two of a colour in one panel: hence the empty place.
    order = [*KINDS, "3 nearest neighbours", "least squares", PAPERS_LASSO, "averaging"]
    order += ["network by Adam", others[0], "", *others[1:], *_TREES]
    sparse = table["family"] == "sparse"
    rows = table.assign(panel=table["family"].replace(TITLES)).loc[~table["label"].isin(others), :]
    lassos = table.loc[sparse & table["label"].isin(["looped", *LASSOS]), :]
    lassos = lassos.assign(panel=lasso_panel)
    figure, axes = drawing.facets(
        pd.concat([rows.loc[sparse, :], lassos, rows.loc[~sparse, :]]), "panel", x="examples",
        order=order, log=False, columns=2, size=(4.4, 3.2), legend=0.9,
    )  # fmt: skip
    for panel in axes.values():
        panel.set_ylim(0, 1.5)  # least squares leaves it at as many examples as dimensions
    if lasso_panel in axes:  # small penalties differ where errors are small
        axes[lasso_panel].set_yscale("log")
        axes[lasso_panel].set_ylim(1e-4, 1.5)
    drawing.legend(figure, axes.values())
    return figure


_MODELS = (
    "Width 64 with 4 heads, 20 loops (T = 10) against 8 layers, dimensions that grow from 2. "
    f"{BALANCED} {UNLIKE_THE_PAPER}"
)
_NULLS: Mapping[str, Null] = {
    "untrained": untrained(),
    "stack of another seed": other_stacks,
    "least squares": for_loops(lambda lab: OLS()),
    NEIGHBOURS: for_loops(lambda lab: NearestNeighbors()),
    "Lasso with a smaller penalty": for_loops(lambda lab: Lasso(0.001)),
}
"""The first in the place of all models, the others in that of the looped ones."""


@declare(
    paper="yang2024", id="fig10",
    title="Looped and standard transformers beside the solvers of each family",
    claims=(
        Claim(
            name="matches-standard", ratio=True, criterion=MATCHES, premise=BETTER_THAN_NEIGHBOURS,
            sentence="On all families the looped model matches the standard one or is better.",
            quantity="mean error with examples, looped / standard, in the family where it is "
            "largest (not at laptop, where one family is trained)",
            statistic=_in_every_family, excludes=("untrained", NEIGHBOURS),
        ),
        Claim(
            name="ahead-on-sparse", ratio=True, criterion=LOWER,
            premise=knows_sparsity(KINDS, ", sparse", solved=True),
            sentence="On sparse functions the looped model outperforms the standard one.",
            quantity="mean error with examples, looped / standard, sparse functions",
            statistic=lambda m: m["with examples, looped, sparse"]
            / m["with examples, standard, sparse"],
            excludes=("untrained", "stack of another seed", "least squares"),
        ),
        Claim(
            name="ahead-of-lasso", ratio=True, criterion=LOWER, premise=_LOOP_KNOWS,
            sentence=f"Below {FEW} examples the looped model is better than the Lasso.",
            quantity=f"mean error over 1 to {FEW - 1} examples (fewer than d), looped / Lasso with "
            "the paper's penalty, 0.01",
            statistic=_over_lasso("few examples"),
            excludes=("untrained", "least squares", "Lasso with a smaller penalty"),
        ),
        Claim(
            name="lasso-more-precise", ratio=True, criterion=HIGHER, premise=_LOOP_KNOWS,
            sentence="After all examples the Lasso is more precise.",
            quantity="error after the last example, looped / Lasso with the paper's penalty, 0.01",
            statistic=_over_lasso("all examples"), paper="4.6",
            excludes=("untrained", "least squares", "Lasso with a smaller penalty"),
        ),
    ),
    runs=_fig10_runs, nulls=_NULLS, draw=_draw_fig10,
    minutes={"smoke": 0.4, "laptop": 17, "desk": 160, "paper": 15_000},
    smaller={
        "smoke": "All families in 3 or 4 dimensions; 20 steps.",
        "laptop": "Sparse functions only: 10 dimensions, 2 weights that are not zero, 21 points; "
        f"2500 steps (3333 for the stack). No trees, no networks. {_MODELS}.",
        "desk": "Sparse functions of 10 dimensions with 2 weights that are not zero, 21 points, "
        "20,000 steps; trees of 5 dimensions and depth 3, 41 points (24 loops, T = 8), networks of "
        "5 dimensions and 20 units, 31 points (12 loops, T = 5), 1500 steps (2000 for stacks). "
        f"{_MODELS}.",
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
            measures |= few_and_more(name, errors, min(FEW, config.task.dims) - 1)
    return measures
