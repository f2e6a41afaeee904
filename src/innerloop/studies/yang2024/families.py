"""Figure 10: sparse linear functions, decision trees and two-layer networks, with their solvers."""

from collections.abc import Mapping
from typing import Any

import pandas as pd
import torch
from matplotlib.figure import Figure
from torch import Tensor

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
from innerloop.studies.claim import Claim, Criterion
from innerloop.analysis.drawing import draw_curves, legend, name, panels
from innerloop.studies.lab import Lab
from innerloop.studies.quantity import UNKNOWN, Quantity
from innerloop.studies.runs import trained
from innerloop.studies.study import Findings, Tables, declare
from innerloop.studies.tables import curve, rows_where, stacked
from innerloop.studies.yang2024.comparing import APART, bootstrapped, largest_ratio
from innerloop.training.config import RunConfig
from innerloop.training.families import Scale

TITLES = {
    "sparse": "sparse linear functions",
    "tree": "decision trees",
    "network": "two-layer networks",
}
"""The families of section 5.4."""

KINDS = ("looped", "standard")
FEW = 10
"""Below so many examples the paper has its looped model ahead of the Lasso."""
LASSOS = {f"Lasso, {penalty:g}": Lasso(penalty) for penalty in (1, 0.1, 0.01, 0.001, 0.0001)}
"""The Lasso with each penalty of the paper's search."""

SOLVERS: dict[str, dict[str, Learner[Any]]] = {
    "sparse": {
        "least squares": OLS(),
        "averaging": Averaging(),
        "3 nearest neighbours": NearestNeighbors(),
        **LASSOS,
    },
    "tree": {
        "3 nearest neighbours": NearestNeighbors(),
        "greedy tree": GreedyTree(),
        "greedy tree on signs": GreedyTree(signs=True),
        "XGBoost": Boosting(),
        "XGBoost on signs": Boosting(signs=True),
    },
    "network": {
        "least squares": OLS(),
        "3 nearest neighbours": NearestNeighbors(),
        "network by Adam": NetworkByAdam(),
    },
}
"""What the paper draws beside the two models."""

MATCHES = Criterion(
    at_most=APART,
    reason="two seeds of one model differ by about a quarter; a better one matches too",
)


def _families(scale: Scale) -> tuple[str, ...]:
    return ("sparse",) if scale == "laptop" else tuple(TITLES)


def _fig10_runs(scale: Scale) -> Mapping[str, RunConfig]:
    return {
        f"{kind}-{family}": trained(f"{kind}-{family}", scale)
        for family in _families(scale)
        for kind in KINDS
    }


def with_examples(errors: Tensor, most: int | None = None) -> Tensor:
    """The mean (P,) of errors (P, n) over all prefixes but the empty one, or those up to most."""
    return errors[:, 1 : None if most is None else most + 1].mean(dim=1)


def over_best_of_others(means: Tensor) -> Tensor:
    """The first of errors (.., m) over the lowest of the others: (..)."""
    return means[..., 0] / means[..., 1:].amin(dim=-1)


def _draw_fig10(tables: Tables) -> Figure:
    table = tables["by-examples"]
    families = list(dict.fromkeys(table["family"]))
    best = _best_lasso(table)
    others = [label for label in LASSOS if label != best]
    trees = [label for label in SOLVERS["tree"] if label != "3 nearest neighbours"]
    # Sixteen lines of eight colours, no two of a colour in one panel: hence the empty place.
    order = [*KINDS, "3 nearest neighbours", "least squares", best, "averaging"]
    order += ["network by Adam", others[0], "", *others[1:], *trees]
    figure, axes = panels(len(families) + 1, columns=2, size=(4.4, 3.2), legend=0.9)
    sparse = rows_where(table, {"family": "sparse"})
    chosen = [rows_where(table, {"family": family}) for family in families]
    chosen = [rows.loc[~rows["label"].isin(others), :] for rows in chosen]
    chosen.insert(1, sparse.loc[sparse["label"].isin(["looped", *LASSOS]), :])
    titles = [TITLES[family] for family in families]
    titles.insert(1, "sparse: the Lasso by its penalty")
    for panel, rows, title in zip(axes, chosen, titles, strict=True):
        draw_curves(panel, rows, x="examples", order=order, log=False)
        panel.set_ylim(0, 1.5)  # least squares leaves it at as many examples as dimensions
        name(panel, title=title, x="examples in the prompt", y="squared error / E[y²]")
    legend(figure, axes)
    return figure


def _best_lasso(table: pd.DataFrame) -> str:
    """The penalty with the lowest error over all prefixes: the one that the paper draws."""
    errors = {label: rows_where(table, {"label": label})["mean"].mean() for label in LASSOS}
    return min(errors, key=lambda label: errors[label])


@declare(
    paper="yang2024",
    id="fig10",
    title="Looped and standard transformers beside the solvers of each family",
    claims=(
        Claim(
            name="matches-standard",
            sentence="On all families the looped model matches the standard one or is better.",
            quantity="mean error over all prefixes, looped / standard, in the family where it is "
            "largest (not at laptop, where one family is trained)",
            criterion=MATCHES,
            over="seeds",
            ratio=True,
        ),
        Claim(
            name="ahead-on-sparse",
            sentence="On sparse functions the looped model outperforms the standard one.",
            quantity="mean error over all prefixes, looped / standard, sparse functions",
            criterion=Criterion(at_most=1.0, reason="to outperform is to have less error"),
            over="seeds",
            ratio=True,
        ),
        Claim(
            name="ahead-of-lasso",
            sentence=f"Below {FEW} examples the looped model is better than the Lasso.",
            quantity=f"mean error over 1 to {FEW - 1} examples (fewer than d), looped / Lasso with "
            "the penalty that is best there",
            criterion=Criterion(at_most=1.0, reason="to be better is to have less error"),
            over="prompts",
            ratio=True,
        ),
        Claim(
            name="lasso-more-precise",
            sentence="After all examples the Lasso is more precise.",
            quantity="error after the last example, looped / Lasso with the penalty that is best "
            "there",
            criterion=Criterion(at_least=1.0, reason="to be more precise is to have less error"),
            over="prompts",
            ratio=True,
            paper="4.6",
        ),
    ),
    draw=_draw_fig10,
    runs=_fig10_runs,
    minutes={"smoke": 0.4, "laptop": 17, "paper": 15_000},
    smaller={
        "smoke": "All families in 3 or 4 dimensions; 20 steps.",
        "laptop": "Sparse functions only: 10 dimensions, 2 weights that are not zero, 21 points; "
        "width 64, 20 loops against 8 layers, 2500 steps (3333 for the stack). No trees, no "
        "networks.",
    },
)
def fig10(lab: Lab) -> Findings:
    """Error by prefix of both models and of every solver that the paper draws."""
    found: dict[tuple[str, str], list[Tensor]] = {}
    notes: dict[str, None] = {}  # each once, in order
    measured: dict[str, list[Quantity]] = {}
    for seed in lab.seeds:
        for family in _families(lab.scale):
            for label, errors in _errors(lab, family, seed, notes).items():
                found.setdefault((family, label), []).append(errors)  # (P, n)
        for claim, quantity in _measured(lab, found, seed).items():
            measured.setdefault(claim, []).append(quantity)
    tables = [
        curve(lab, errors, "examples", {"family": family, "label": label})
        for (family, label), errors in found.items()
    ]
    last = float(found["sparse", "standard"][0][:, -1].mean())
    notes[
        f"On sparse functions the standard model has an error of {last:.2g} after all examples: "
        "the ratio is one of trainings as short as these."
    ] = None
    return Findings(tables={"by-examples": stacked(tables)}, measured=measured, notes=tuple(notes))


def _errors(lab: Lab, family: str, seed: int, notes: dict[str, None]) -> dict[str, Tensor]:
    """Errors (P, n) of both models and of the solvers of a family."""
    config = lab.run(f"looped-{family}", seed).config
    task = config.task
    prompt = lab.draw(task, config.points, seed=seed, purpose=family)
    found = {
        kind: lab.errors(lab.model(f"{kind}-{family}", seed), prompt, task) for kind in KINDS
    }  # (P, n) each
    fewer = prompt.select(slice(0, lab.choose(smoke=4, laptop=128, paper=256)))
    for label, solver in SOLVERS[family].items():
        # XGBoost fits one prefix after the other: on all prompts that would take hours.
        asked = fewer if isinstance(solver, Boosting) else prompt
        try:
            found[label] = lab.errors(solver, asked, task)  # (P, n)
        except NotSupportedError as error:
            notes[f"{label} is left out: {error}"] = None
    return found


def _measured(
    lab: Lab, found: Mapping[tuple[str, str], list[Tensor]], seed: int
) -> dict[str, Quantity]:
    """The claims' numbers of the latest seed."""
    every = torch.stack(
        [
            with_examples(found[family, kind][-1])
            for family in _families(lab.scale)
            for kind in KINDS
        ],
        dim=1,
    )  # (P, 2 families); sparse comes first
    few = min(FEW, lab.run("looped-sparse", seed).config.task.dims) - 1
    solved = [found["sparse", label][-1] for label in ("looped", *LASSOS)]  # (P, n) each
    early = torch.stack([with_examples(errors, few) for errors in solved], dim=1)  # (P, 6)
    late = torch.stack([errors[:, -1] for errors in solved], dim=1)  # (P, 6)
    return {
        "matches-standard": (
            bootstrapped(lab, largest_ratio, every, seed=seed)
            if len(_families(lab.scale)) == len(TITLES)
            else UNKNOWN
        ),
        "ahead-on-sparse": lab.ratio(every[:, 0], every[:, 1], seed=seed),
        "ahead-of-lasso": bootstrapped(lab, over_best_of_others, early, seed=seed),
        "lasso-more-precise": bootstrapped(lab, over_best_of_others, late, seed=seed),
    }
