"""Figure 11: sparse linear functions with few and with many weights that are not zero."""

from collections.abc import Mapping, Sequence

import torch
from matplotlib.figure import Figure
from torch import Tensor

from innerloop.analysis.drawing import COLOURS, MARKERS
from innerloop.studies.claim import Claim, Criterion
from innerloop.analysis.drawing import legend, name, panels, plain
from innerloop.studies.lab import Lab
from innerloop.studies.quantity import Quantity
from innerloop.studies.runs import sparse, trained
from innerloop.studies.study import Findings, Tables, declare
from innerloop.studies.tables import curve, rows_where, stacked
from innerloop.studies.yang2024.comparing import bootstrapped, largest_ratio
from innerloop.studies.yang2024.families import KINDS, MATCHES, with_examples
from innerloop.training.config import RunConfig
from innerloop.training.families import Scale


def _sparsities(scale: Scale) -> tuple[int, ...]:
    return {"smoke": (1, 3), "laptop": (1, 3, 5), "paper": (1, 3, 6, 9, 12)}[scale]


def _sparse(kind: str, scale: Scale, sparsity: int) -> RunConfig:
    """A model on functions with so many weights; the paper takes b = 30 and T = 15 for all."""
    if scale != "paper":
        return sparse(f"{kind}-linear", scale, sparsity)
    changes = [f"task.sparsity={sparsity}"]
    if kind == "looped":
        changes += ["model.backbone.loops=30", "window=15", "loops.start=15"]
    return trained(f"{kind}-sparse", scale, *changes)


def _fig11_runs(scale: Scale) -> Mapping[str, RunConfig]:
    return {
        f"{kind}, s = {sparsity}": _sparse(kind, scale, sparsity)
        for sparsity in _sparsities(scale)
        for kind in KINDS
    }


def _draw_fig11(tables: Tables) -> Figure:
    """One panel as in the paper: a colour a sparsity, lines of their own for the two models."""
    table = tables["by-examples"]
    figure, (axes,) = panels(1, size=(7.6, 4.0))
    for index, sparsity in enumerate(dict.fromkeys(table["sparsity"])):
        colour, marker = COLOURS[index % len(COLOURS)], MARKERS[index % len(MARKERS)]
        for kind, style in zip(KINDS, ("-", (0, (4, 2))), strict=True):
            rows = rows_where(table, {"sparsity": sparsity, "label": kind})
            places, mean, low, high = (
                rows[key].to_numpy(float) for key in ("examples", "mean", "low", "high")
            )
            axes.plot(
                places, mean, color=colour, linestyle=style, linewidth=1.5, marker=marker,
                markersize=3.5, markevery=max(1, len(places) // 8), label=f"{kind}, s = {sparsity}",
            )  # fmt: skip
            axes.fill_between(places, low, high, color=colour, alpha=0.15, linewidth=0)
    axes.set_ylim(bottom=0)
    plain(axes)
    name(
        axes, title="error by examples, s weights not zero", x="examples in the prompt",
        y="squared error / E[y²]",
    )  # fmt: skip
    legend(figure, [axes], columns=len(set(table["sparsity"])))
    return figure


def ahead_with_few(
    lab: Lab, pairs: Sequence[tuple[Tensor, Tensor]], few: int, *, seed: int
) -> Quantity:
    """First over second of errors (P, n) with up to `few` examples, over the same with more.

    A geometric mean over the pairs.
    """
    columns = [
        part
        for pair in pairs
        for errors in pair
        for part in (with_examples(errors, few), errors[:, few + 1 :].mean(dim=1))
    ]  # (P,) each: few and more of the first, few and more of the second

    def statistic(means: Tensor) -> Tensor:
        first, then, other_first, other_then = means.log().unflatten(-1, (-1, 4)).unbind(-1)
        # (.., m) each
        return (first - other_first - then + other_then).mean(dim=-1).exp()  # (..)

    return bootstrapped(lab, statistic, torch.stack(columns, dim=1), seed=seed)


@declare(
    paper="yang2024",
    id="fig11",
    title="Looped and standard transformers at every sparsity",
    claims=(
        Claim(
            name="matches-at-all",
            sentence="At every sparsity the looped model matches the standard one or is better.",
            quantity="mean error over all prefixes, looped / standard, at the sparsity where it is "
            "largest",
            criterion=MATCHES,
            over="seeds",
            ratio=True,
        ),
        Claim(
            name="ahead-with-few-examples",
            sentence="It is ahead above all when there are few examples.",
            quantity="looped / standard, mean error over 1 to d - 1 examples, over the same from d "
            "on (geometric mean over sparsities)",
            criterion=Criterion(
                at_most=1.0, reason="ahead above all there: by more than with more examples"
            ),
            over="seeds",
            ratio=True,
        ),
    ),
    draw=_draw_fig11,
    runs=_fig11_runs,
    minutes={"smoke": 0.2, "laptop": 12, "paper": 25_000},
    smaller={
        "smoke": "3 dimensions, 1 or 3 weights that are not zero; 20 steps.",
        "laptop": "5 dimensions with 1, 3 and 5 weights that are not zero (the paper: 20 with 1 to "
        "12); width 64, 20 loops against 8 layers.",
    },
)
def fig11(lab: Lab) -> Findings:
    """Error by prefix of both models at each sparsity."""
    sparsities = _sparsities(lab.scale)
    few = lab.run(f"looped, s = {sparsities[0]}").config.task.dims - 1
    found: dict[tuple[int, str], list[Tensor]] = {
        (sparsity, kind): [] for sparsity in sparsities for kind in KINDS
    }
    matches: list[Quantity] = []
    ahead: list[Quantity] = []
    for seed in lab.seeds:
        for (sparsity, kind), errors in found.items():
            label = f"{kind}, s = {sparsity}"
            config = lab.run(label, seed).config
            prompt = lab.draw(config.task, config.points, seed=seed, purpose=f"s = {sparsity}")
            errors.append(lab.errors(lab.model(label, seed), prompt, config.task))  # (P, n)
        latest = {which: errors[-1] for which, errors in found.items()}  # (P, n) each
        every = torch.stack([with_examples(errors) for errors in latest.values()], dim=1)
        matches.append(bootstrapped(lab, largest_ratio, every, seed=seed))
        pairs = [(latest[s, "looped"], latest[s, "standard"]) for s in sparsities]  # (P, n) each
        ahead.append(ahead_with_few(lab, pairs, few, seed=seed))
    return Findings(
        tables={
            "by-examples": stacked(
                [
                    curve(lab, errors, "examples", {"sparsity": sparsity, "label": kind})
                    for (sparsity, kind), errors in found.items()
                ]
            )
        },
        measured={"matches-at-all": matches, "ahead-with-few-examples": ahead},
    )
