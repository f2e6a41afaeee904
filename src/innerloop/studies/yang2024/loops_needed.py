"""Figure 9: how many loops each family of functions needs for a stable fixed point."""

from collections.abc import Mapping, Sequence

import pandas as pd
import torch
from matplotlib.figure import Figure
from torch import Tensor

from innerloop.analysis.drawing import COLOURS
from innerloop.studies.claim import Claim, Criterion
from innerloop.analysis.drawing import draw_curves, legend, mark, name, panels
from innerloop.studies.lab import Lab
from innerloop.studies.quantity import Quantity
from innerloop.studies.runs import trained
from innerloop.studies.study import Findings, Tables, declare
from innerloop.studies.tables import curve, rows_where, stacked
from innerloop.studies.yang2024.comparing import bootstrapped, shown_loops
from innerloop.studies.yang2024.families import TITLES
from innerloop.studies.yang2024.fixed_points import STAYS
from innerloop.training.config import RunConfig
from innerloop.training.families import Scale
from innerloop.training.recipes import find_recipe


def _grid(scale: Scale) -> dict[str, tuple[int, ...]]:
    """The loops b that each family is trained with."""
    return {
        "smoke": {"sparse": (2, 4), "tree": (4,), "network": (4,)},
        "laptop": {"sparse": (6, 20), "network": (6, 20)},
        "paper": {
            "sparse": (12, 20, 30, 40, 50),
            "tree": (12, 50, 70, 100),
            "network": (12, 20, 30, 40, 50),
        },
    }[scale]


def with_loops(family: str, scale: Scale, loops: int) -> RunConfig:
    """The loop on a family with b loops; T = 10 in the paper, that of the recipe elsewhere."""
    recipe = f"looped-{family}"
    window = 10 if scale == "paper" else find_recipe(recipe, scale).window or loops
    start = window if scale == "paper" else min(4, loops)
    return trained(
        recipe, scale, f"model.backbone.loops={loops}", f"window={min(window, loops)}",
        f"loops.start={start}",
    )  # fmt: skip


def _fig9_runs(scale: Scale) -> Mapping[str, RunConfig]:
    return {
        f"{family}, b = {loops}": with_loops(family, scale, loops)
        for family, several in _grid(scale).items()
        for loops in several
    }


def smallest_stable(loops: Sequence[int], drifts: Tensor) -> Tensor:
    """The smallest b whose error stays within a tenth, of drifts (.., g): (..); infinite if none.

    A drift is the error far beyond the trained loops over the error at them.
    """
    needed = torch.tensor(loops, dtype=drifts.dtype)  # (g,)
    return torch.where(drifts <= STAYS.at_most, needed, torch.inf).amin(dim=-1)


def _draw_fig9(tables: Tables) -> Figure:
    table = tables["by-loop"]
    families = list(dict.fromkeys(table["family"]))
    order = [f"b = {loops}" for loops in sorted(set(table["trained loops"]))]
    figure, axes = panels(len(families))
    for panel, family in zip(axes, families, strict=True):
        rows = rows_where(table, {"family": family})
        draw_curves(panel, rows, x="loop", order=order)
        for loops in sorted(set(rows["trained loops"])):
            colour = COLOURS[order.index(f"b = {loops}") % len(COLOURS)]
            mark(panel, float(loops), colour=colour)
        name(panel, title=TITLES[family], x="loops", y="squared error / E[y²]")
    legend(figure, axes, columns=6)
    return figure


@declare(
    paper="yang2024",
    id="fig9",
    title="How many loops a family of functions needs for a stable fixed point",
    claims=(
        Claim(
            name="sparse-stays",
            sentence="On sparse functions b = 20 loops with T = 10 find a stable fixed point.",
            quantity="error far beyond b / error at b, sparse, b = 20 (4 at smoke)",
            criterion=STAYS,
            over="prompts",
            ratio=True,
        ),
        Claim(
            name="larger-b-stays",
            sentence="On all families a larger b is more stable beyond the trained loops.",
            quantity="drift (error far beyond b / error at b) of the largest b / that of the "
            "smallest, in the family where it is largest",
            criterion=Criterion(
                at_most=STAYS.at_most,
                reason="two stable models have 1, and a tenth is what staying allows",
            ),
            over="prompts",
            ratio=True,
        ),
        Claim(
            name="network-needs-least",
            sentence="Two-layer networks need fewer loops than the other families.",
            quantity="smallest stable b of networks / smallest stable b of the other families",
            criterion=Criterion(at_most=0.6, reason="12 loops against 20 for sparse functions"),
            over="seeds",
            ratio=True,
            paper="12/20",
        ),
    ),
    draw=_draw_fig9,
    runs=_fig9_runs,
    minutes={"smoke": 0.3, "laptop": 19, "paper": 30_000},
    smaller={
        "smoke": "4 loops, for sparse functions also 2, run for 20; 20 steps.",
        "laptop": "Two b, 6 and 20, for sparse functions (T = 10, 10 dimensions with 2 weights) "
        "and networks (T = 5, 20 units in 5 dimensions); run for 100 loops. T is b where b is "
        "smaller. No trees.",
    },
)
def fig9(lab: Lab) -> Findings:
    """Error by loop far beyond the trained ones, for each family and b."""
    grid, far = _grid(lab.scale), lab.choose(smoke=20, laptop=100, paper=200)
    by_loop: dict[tuple[str, int], list[Tensor]] = {
        (family, loops): [] for family, several in grid.items() for loops in several
    }
    stays: list[Quantity] = []
    larger: list[Quantity] = []
    least: list[Quantity] = []
    sparse_loops = lab.choose(smoke=4, laptop=20, paper=20)

    def drifts(means: Tensor) -> dict[str, Tensor]:
        """From errors (.., 2 m), far and at b of each run: (.., g) a family."""
        far_from, at = means.unflatten(-1, (-1, 2)).unbind(-1)  # (.., m) each
        sizes = [len(several) for several in grid.values()]
        return dict(zip(grid, (far_from / at).split(sizes, dim=-1), strict=True))

    def sparse_drift(means: Tensor) -> Tensor:
        return drifts(means)["sparse"][..., grid["sparse"].index(sparse_loops)]  # (..)

    def larger_drift(means: Tensor) -> Tensor:
        ratios = [drift[..., -1] / drift[..., 0] for drift in drifts(means).values()]
        return torch.stack(ratios).amax(dim=0)  # (..)

    def network_needs(means: Tensor) -> Tensor:
        needed = {
            family: smallest_stable(grid[family], drift) for family, drift in drifts(means).items()
        }  # (..) each
        others = [loops for family, loops in needed.items() if family != "network"]  # (..) each
        return needed["network"] / torch.stack(others).amin(dim=0)  # (..)

    for seed in lab.seeds:
        columns: list[Tensor] = []
        for (family, loops), errors in by_loop.items():
            label = f"{family}, b = {loops}"
            config = lab.run(label, seed).config
            prompt = lab.draw(config.task, config.points, seed=seed, purpose=family)
            errors.append(
                lab.errors(
                    lab.model(label, seed), prompt, config.task, steps=far, at=config.points - 1
                )
            )  # (P, far + 1)
            columns += [errors[-1][:, far], errors[-1][:, loops]]  # (P,) each
        values = torch.stack(columns, dim=1)  # (P, 2 m)
        stays.append(bootstrapped(lab, sparse_drift, values, seed=seed))
        larger.append(bootstrapped(lab, larger_drift, values, seed=seed))
        least.append(bootstrapped(lab, network_needs, values, seed=seed))
    return Findings(
        tables={
            "by-loop": stacked(
                [_loop_table(lab, *which, errors) for which, errors in by_loop.items()]
            )
        },
        measured={"sparse-stays": stays, "larger-b-stays": larger, "network-needs-least": least},
    )


def _loop_table(lab: Lab, family: str, loops: int, errors: Sequence[Tensor]) -> pd.DataFrame:
    """One curve by loop, thinned out where it is long."""
    places = shown_loops(errors[0].shape[1] - 1, loops)
    keys = {"family": family, "label": f"b = {loops}", "trained loops": loops}
    return curve(lab, [part[:, places] for part in errors], "loop", keys, places=places)
