"""Figure 3: more loops than an AlgoFormer was trained with."""

from collections.abc import Mapping

import pandas as pd
import torch
from matplotlib.figure import Figure
from torch import Tensor

from innerloop.analysis.drawing import COLOURS
from innerloop.studies.claim import Claim, Criterion
from innerloop.analysis.drawing import draw_curves, legend, mark, name, panels
from innerloop.studies.lab import Lab
from innerloop.studies.quantity import Quantity, estimate
from innerloop.studies.runs import trained
from innerloop.studies.study import Findings, Tables, declare
from innerloop.studies.tables import curve, record, rows_where, stacked
from innerloop.training.config import RunConfig
from innerloop.training.families import Scale
from innerloop.training.recipes import find_recipe

GRID: dict[Scale, tuple[tuple[int, int], ...]] = {
    "smoke": ((2, 2), (4, 1), (4, 3)),
    "laptop": ((6, 2), (6, 6), (12, 2), (12, 4), (12, 6)),
    # A window cannot be longer than the loops: of twelve loops at most twelve count.
    "paper": tuple((loops, min(window, loops)) for window in (5, 10, 15) for loops in
                   (12, 20, 30, 50)),
}  # fmt: skip
"""T and dT: loops that are trained, and how many of the last ones count."""
BEYOND = 10
"""How many times the trained loops a model is run for; in the paper for 200 loops."""
PAPER_LOOPS = 200


def algoformer_of_loops(scale: Scale, loops: int, window: int) -> RunConfig:
    """An AlgoFormer of T loops, of which the last dT count."""
    usual = find_recipe("algoformer-representation", scale).loops.start
    return trained(
        "algoformer-representation",
        scale,
        f"model.backbone.loops={loops}",
        f"window={window}",
        # Schedules begin with fewer loops than all, or with all where there are not so many.
        f"loops.start={min(loops, usual or loops)}",
    )


def _label(loops: int, window: int) -> str:
    return f"T = {loops}, dT = {window}"


def _fig3_runs(scale: Scale) -> Mapping[str, RunConfig]:
    return {_label(*cell): algoformer_of_loops(scale, *cell) for cell in GRID[scale]}


def _draw_fig3(tables: Tables) -> Figure:
    table = tables["by-loop"]
    windows, every = (sorted(set(table[key])) for key in ("dT", "T"))
    labels = [f"T = {loops}" for loops in every]
    figure, axes = panels(len(windows), size=(3.6, 3.1))
    for panel, window in zip(axes, windows, strict=True):
        rows = rows_where(table, {"dT": window})
        draw_curves(panel, rows, x="loop", order=labels)
        for loops in dict.fromkeys(rows["T"]):
            index = every.index(loops)
            mark(panel, loops, label=f"trained with {loops} loops", colour=COLOURS[index])
        name(panel, title=f"ΔT = {window}", x="loop iteration")
    lowest, highest = (
        end(panel.get_ylim()[side] for panel in axes) for side, end in ((0, min), (1, max))
    )
    for panel in axes:  # one scale for all, as they are to be compared
        panel.set_ylim(lowest, highest)
    axes[0].set_ylabel("squared error / E[y²]", fontsize=9)
    legend(figure, axes)
    return figure


@declare(
    paper="gao2025",
    id="fig3",
    title="AlgoFormers run for more loops than they were trained with",
    claims=(
        Claim(
            name="stays",
            sentence="With a large window an AlgoFormer is stable far beyond its trained loops.",
            quantity="error after the last loop / error after T loops, largest T, largest dT",
            criterion=Criterion(
                at_most=1.1,
                reason="at a fixed point nothing changes; a tenth is less than what separates two "
                "seeds",
            ),
            over="prompts",
            ratio=True,
        ),
        Claim(
            name="window-steadies",
            sentence="A larger dT makes long inference more stable.",
            quantity="growth of the error beyond T loops, smallest dT / largest dT, geometric mean "
            "over those T that have both",
            criterion=Criterion(
                at_least=1.1, reason="beyond the tenth by which a stable model may move"
            ),
            over="seeds",
            ratio=True,
        ),
        Claim(
            name="loops-help",
            sentence="More loops T make a model more capable.",
            quantity="error after T loops, largest T / smallest T, each with its largest dT",
            criterion=Criterion(
                at_most=0.8,
                reason="two seeds of one model differ by about a quarter: less is better by more",
            ),
            over="seeds",
            ratio=True,
        ),
    ),
    draw=_draw_fig3,
    runs=_fig3_runs,
    minutes={"smoke": 0.3, "laptop": 18, "paper": 30000},
    smaller={
        "smoke": "3 dimensions, 7 points, 20 steps, loops of 2 and 4.",
        "laptop": "5 dimensions, 16 points, width 64, 1200 steps of a faster optimiser, T of 6 and "
        f"12 with dT of 2 to 6, run for {BEYOND} T loops, 512 prompts.",
    },
)
def fig3(lab: Lab) -> Findings:
    """Error after the last example by loop, well beyond the trained ones."""
    grid = GRID[lab.scale]
    by_loop: dict[tuple[int, int], list[Tensor]] = {cell: [] for cell in grid}
    measured: dict[str, list[Quantity]] = {"stays": [], "window-steadies": [], "loops-help": []}
    for seed in lab.seeds:
        config = lab.run(_label(*grid[0])).config
        task, points = config.task, config.points
        prompts = lab.choose(smoke=64, laptop=512, paper=1280)
        prompt = lab.draw(task, points, seed=seed, prompts=prompts)
        for loops, window in grid:
            model = lab.model(_label(loops, window), seed)
            steps = _longest(lab, loops)
            errors = lab.errors(model, prompt, task, steps=steps, at=points - 1)  # (P, K + 1)
            by_loop[loops, window].append(errors)
        last = {cell: several[-1] for cell, several in by_loop.items()}  # (P, K + 1) each
        for claim, quantity in fig3_quantities(lab, last, seed).items():
            measured[claim].append(quantity)
    return Findings(
        tables={
            "by-loop": stacked(
                [
                    curve(
                        lab, [errors[:, _shown(lab, loops)] for errors in several], "loop",
                        {"T": loops, "dT": window, "label": f"T = {loops}"},
                        places=_shown(lab, loops),
                    )
                    for (loops, window), several in by_loop.items()
                ]
            ),
            "growth": _growth_table(by_loop),
        },
        measured=measured,
    )  # fmt: skip


def _longest(lab: Lab, loops: int) -> int:
    return PAPER_LOOPS if lab.scale == "paper" else BEYOND * loops


def _shown(lab: Lab, loops: int) -> list[int]:
    """The loops that the table has: each of the trained ones, then about four to each T."""
    beyond = range(loops, _longest(lab, loops) + 1, max(1, loops // 4))
    return [*range(loops), *beyond]


def _growth_table(by_loop: Mapping[tuple[int, int], list[Tensor]]) -> pd.DataFrame:
    """The mean error after T loops and after the last, of every cell."""
    cells = list(by_loop)
    ends = {
        cell: (
            torch.cat(several)[:, cell[0]].mean().item(),
            torch.cat(several)[:, -1].mean().item(),
        )
        for cell, several in by_loop.items()
    }
    return record(
        {
            "T": [loops for loops, _ in cells],
            "dT": [window for _, window in cells],
            "error at T": [ends[cell][0] for cell in cells],
            "error at the end": [ends[cell][1] for cell in cells],
            "growth": [ends[cell][1] / ends[cell][0] for cell in cells],
        }
    )


def fig3_quantities(
    lab: Lab, errors: Mapping[tuple[int, int], Tensor], seed: int
) -> dict[str, Quantity]:
    """What the claims of one seed's models come to, from errors by loop (P, K + 1)."""
    windows: dict[int, list[int]] = {}
    for loops, window in errors:
        windows.setdefault(loops, []).append(window)
    most, fewest = (end(windows) for end in (max, min))
    trained_ends = {cell: found[:, cell[0]] for cell, found in errors.items()}  # (P,) each
    last = {cell: found[:, -1] for cell, found in errors.items()}  # (P,) each
    best = {loops: (loops, max(own)) for loops, own in windows.items()}
    both = [
        ((loops, min(own)), (loops, max(own))) for loops, own in windows.items() if len(own) > 1
    ]
    ends = [part[cell] for pair in both for cell in pair for part in (last, trained_ends)]
    return {
        "stays": lab.ratio(last[best[most]], trained_ends[best[most]], seed=seed),
        "window-steadies": estimate(
            growth_ratio, torch.stack(ends, dim=1), draws=lab.draws,
            generator=lab.generator("bootstrap", seed),
        ),
        "loops-help": lab.ratio(trained_ends[best[most]], trained_ends[best[fewest]], seed=seed),
    }  # fmt: skip


def growth_ratio(means: Tensor) -> Tensor:
    """The geometric mean of growth with one window / growth with another, of means (.., 4 T).

    Four numbers belong together: the last error and the one after T loops, of the one and of the
    other window.
    """
    apart = means.unflatten(-1, (-1, 2, 2))  # (.., T, windows, (last, trained))
    growth = apart[..., 0] / apart[..., 1]  # (.., T, 2)
    logs = (growth[..., 0] / growth[..., 1]).log()  # (.., T)
    return logs.mean(dim=-1).exp()
