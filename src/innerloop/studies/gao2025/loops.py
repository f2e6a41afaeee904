"""Figure 3: more loops than an AlgoFormer was trained with."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import pandas as pd
from matplotlib.figure import Figure
from torch import Tensor

from innerloop.analysis import Averages, Measured, drawing
from innerloop.learners import Ridge
from innerloop.studies import nulls
from innerloop.studies.claim import Claim, Premise, at_least, at_most
from innerloop.studies.gao2025 import samples
from innerloop.studies.gao2025.samples import UNTRAINED
from innerloop.studies.lab import Lab, Null
from innerloop.studies.runs import looped
from innerloop.studies.study import Measures, Scale, Tables, declare

GRID: dict[Scale, tuple[tuple[int, int], ...]] = {
    "smoke": ((2, 2), (4, 1), (4, 3)),
    "laptop": ((6, 2), (6, 6), (12, 2), (12, 4), (12, 6)),
    # A window cannot be longer than the loops: of twelve loops at most twelve count.
    "paper": tuple((loops, min(window, loops)) for window in (5, 10, 15) for loops in
                   (12, 20, 30, 50)),
}  # fmt: skip
"""T and dT: loops that are trained, and how many of the last ones count."""
LABEL = "T = {}, dT = {}"
BEYOND = 10
"""How many times the trained loops a model is run for; in the paper for 200 loops."""
AT_FIRST, AT_T, AT_END = "after T / 4 loops", "after T loops", "after the last loop"
USED = Premise(
    quantity="error after T loops / after T / 4 loops, largest T, largest dT",
    criterion=at_most(0.5, "an error that is halved on the way: what a loop does is then an "
                      "iteration; a model that is done after a few loops is stable because the "
                      "others do nothing, and has no use for more of them"),
    statistic=samples.over(f"most loops, {AT_T}", f"most loops, {AT_FIRST}"),
)  # fmt: skip
"""Without it nothing follows about loops."""
DONE, WIDER, SHORTER = "done at once", "wider window of another seed", "fewer loops of another seed"
"""Nulls: ridge, which no loop changes; one architecture against itself."""


def _windows(scale: Scale) -> dict[int, list[int]]:
    """The dT of each T, rising."""
    cells = sorted(GRID[scale])
    return {loops: [dt for t, dt in cells if t == loops] for loops, _ in cells}


def _wider(scale: Scale) -> dict[str, str]:
    """The model of the largest window in the place of that of the smallest, for each T."""
    return {
        LABEL.format(loops, own[0]): LABEL.format(loops, own[-1])
        for loops, own in _windows(scale).items()
    }


def _shorter(scale: Scale) -> dict[str, str]:
    """The model of the fewest loops in the place of that of the most."""
    windows = _windows(scale)
    most, fewest = (LABEL.format(t, windows[t][-1]) for t in (max(windows), min(windows)))
    return {most: fewest}


def _of_another_seed(places: Callable[[Scale], Mapping[str, str]]) -> Null:
    return lambda lab: nulls.of_another_seed(places(lab.scale))(lab)


def _draw_fig3(tables: Tables) -> Figure:
    """Errors by loop, and how far they move beyond the trained loops."""
    table = tables["by-loop"].sort_values("dT", kind="stable")
    every = sorted(set(table["T"]))
    table = table.loc[table["loop"] > 0, :].assign(part="error")
    moved = pd.concat(map(_over_trained, (rows for _, rows in table.groupby(["dT", "T"]))))
    both = pd.concat([table, moved.assign(part="error / error after T loops")])
    both = both.assign(panel="ΔT = " + both["dT"].astype(str) + ": " + both["part"])
    windows = len(set(table["dT"]))
    figure, axes = drawing.facets(
        both, "panel", x="loop", names=("loop iteration", drawing.ERROR), columns=windows,
        order=[f"T = {loops}" for loops in every], size=(3.6, 2.8),
    )  # fmt: skip
    rows = list(axes.values())
    for window, panel, below in zip(dict.fromkeys(table["dT"]), rows, rows[windows:], strict=False):
        for loops in dict.fromkeys(drawing.rows_where(table, {"dT": window})["T"]):
            colour = drawing.COLOURS[every.index(loops)]
            for each in (panel, below):
                drawing.mark(each, loops, label=f"trained with {loops} loops", colour=colour)
        below.set_ylabel("ratio", fontsize=9)
        below.set_yscale("linear")  # ratios near 1 have no decades
        drawing.level(below, 1.0)
    # One scale for all that are to be compared; ratios with the tenth that is called stable.
    for row, ends in ((rows[:windows], ()), (rows[windows:], (0.9, 1.1))):
        limits = [*ends, *(end for panel in row for end in panel.get_ylim())]
        for panel in row:
            panel.set_ylim(min(limits), max(limits))
            panel.set_xscale("log")
            panel.set_xlim(0.9, 1.1 * float(table["loop"].max()))
    drawing.legend(figure, rows)
    return figure


def _over_trained(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of one model from its trained loops on, over its error there."""
    trained = int(rows["T"].iloc[0])
    (there,) = rows.loc[rows["loop"] == trained, "mean"].drop_duplicates()
    beyond = rows.loc[rows["loop"] >= trained, :]
    # A band of means is none of their ratio.
    return beyond.assign(mean=beyond["mean"] / there, low=float("nan"), high=float("nan"))


def growth_ratio(m: Averages) -> Tensor:
    """Growth with the smallest window / with the largest, the geometric mean over T."""
    growth = m[AT_END] / m[AT_T]  # (.., T, windows)
    return (growth[..., 0] / growth[..., 1]).log().mean(dim=-1).exp()


@declare(
    paper="gao2025", id="fig3",
    title="AlgoFormers run for more loops than they were trained with",
    claims=(
        Claim(
            name="stays", ratio=True,
            sentence="With a large window an AlgoFormer is stable far beyond its trained loops.",
            quantity="error after the last loop / error after T loops, largest T, largest dT",
            statistic=samples.over(f"most loops, {AT_END}", f"most loops, {AT_T}"),
            criterion=at_most(1.1, "at a fixed point nothing changes; a tenth is less than what "
                              "separates two seeds"),
            premise=USED, excludes=(UNTRAINED, DONE),
        ),
        Claim(
            name="window-steadies", ratio=True,
            sentence="A larger dT makes long inference more stable.",
            quantity="growth of the error beyond T loops, smallest dT / largest dT, geometric mean "
            "over those T that have both",
            statistic=growth_ratio,
            criterion=at_least(1.1, "beyond the tenth by which a stable model may move"),
            premise=USED, excludes=(UNTRAINED, DONE, WIDER),
        ),
        Claim(
            name="loops-help", ratio=True, criterion=samples.BETTER, premise=USED,
            excludes=(UNTRAINED, DONE, SHORTER),
            sentence="More loops T make a model more capable.",
            quantity="error after T loops, largest T / smallest T, each with its largest dT",
            statistic=samples.over(f"most loops, {AT_T}", f"fewest loops, {AT_T}"),
        ),
    ),
    runs=lambda scale: {
        LABEL.format(loops, window): looped(
            scale, loops=loops, window=window, recipe="algoformer-representation"
        )
        for loops, window in GRID[scale]
    },
    nulls={
        UNTRAINED: nulls.untrained(),
        DONE: nulls.instead(lambda lab, label: Ridge(1.0)),
        WIDER: _of_another_seed(_wider), SHORTER: _of_another_seed(_shorter),
    },
    draw=_draw_fig3, minutes={"smoke": 0.3, "laptop": 18, "paper": 30000},
    smaller={
        "smoke": "3 dimensions, 7 points, 20 steps, loops of 2 and 4.",
        "laptop": f"5 dimensions, 16 points, 1200 steps, {samples.RECIPE}, y in a place of its "
        f"own; T of 6 and 12 with dT of 2 to 6, run for {BEYOND} T loops, 512 prompts.",
    },
)  # fmt: skip
def fig3(lab: Lab) -> Measures:
    """Error after the last example by loop, well beyond the trained ones."""
    config = lab.config(LABEL.format(*GRID[lab.scale][0]))
    prompts = lab.choose(smoke=64, laptop=512, paper=1280)
    prompt = lab.draw(config.task, config.points, prompts=prompts)
    by_loop: dict[tuple[int, int], Measured] = {}
    for loops, window in GRID[lab.scale]:
        longest = 200 if lab.scale == "paper" else BEYOND * loops
        errors = lab.error(
            lab.learner(LABEL.format(loops, window)), prompt, config.task, by="step",
            steps=longest, at=config.points - 1, axis="loop", label=f"T = {loops}",
        )  # fmt: skip
        # Each of the trained loops, then about four for each T.
        shown = {"loop": [*range(loops), *range(loops, longest + 1, max(1, loops // 4))]}
        by_loop[loops, window] = replace(errors, keys={"T": loops, "dT": window}, shown=shown)
    return {LABEL.format(*cell): errors for cell, errors in by_loop.items()} | growths(by_loop)


def growths(by_loop: Mapping[tuple[int, int], Measured]) -> dict[str, Measured]:
    """Errors after T / 4 loops, after T and after the last, which claims compare, by loop."""
    cells = sorted(by_loop)
    windows = {loops: [dt for t, dt in cells if t == loops] for loops, _ in cells}
    measures: dict[str, Measured] = {}
    for part in (AT_FIRST, AT_T, AT_END):
        ends = {
            cell: errors.at(loop={AT_FIRST: max(1, cell[0] // 4), AT_T: cell[0], AT_END: -1}[part])
            for cell, errors in by_loop.items()
        }
        for key, loops in (("most loops", max(windows)), ("fewest loops", min(windows))):
            measures[f"{key}, {part}"] = ends[loops, windows[loops][-1]]
        pairs = {
            loops: Measured.stack(
                "dT", {"smallest": ends[loops, own[0]], "largest": ends[loops, own[-1]]}
            )
            for loops, own in windows.items()
            if len(own) > 1
        }
        measures[part] = replace(Measured.stack("T", pairs), label=part, keys={})
    return measures
