"""Figure 3: more loops than an AlgoFormer was trained with."""

from collections.abc import Mapping
from dataclasses import replace

from matplotlib.figure import Figure
from torch import Tensor

from innerloop.analysis import Averages, Measured, drawing
from innerloop.studies.claim import Claim, at_least, at_most
from innerloop.studies.gao2025 import samples
from innerloop.studies.lab import Lab
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
AT_T, AT_END = "after T loops", "after the last loop"


def _draw_fig3(tables: Tables) -> Figure:
    table = tables["by-loop"].sort_values("dT", kind="stable")
    every = sorted(set(table["T"]))
    figure, axes = drawing.facets(
        table, "dT", x="loop", title=lambda window: f"ΔT = {window}",
        names=("loop iteration", drawing.ERROR), order=[f"T = {loops}" for loops in every],
        size=(3.6, 3.1),
    )  # fmt: skip
    for window, panel in axes.items():
        for loops in dict.fromkeys(drawing.rows_where(table, {"dT": window})["T"]):
            colour = drawing.COLOURS[every.index(loops)]
            drawing.mark(panel, loops, label=f"trained with {loops} loops", colour=colour)
    lowest, highest = zip(*(panel.get_ylim() for panel in axes.values()), strict=True)
    for panel in axes.values():  # one scale for all, as they are to be compared
        panel.set_ylim(min(lowest), max(highest))
    drawing.legend(figure, axes.values())
    return figure


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
        ),
        Claim(
            name="window-steadies", ratio=True,
            sentence="A larger dT makes long inference more stable.",
            quantity="growth of the error beyond T loops, smallest dT / largest dT, geometric mean "
            "over those T that have both",
            statistic=growth_ratio,
            criterion=at_least(1.1, "beyond the tenth by which a stable model may move"),
        ),
        Claim(
            name="loops-help", ratio=True, criterion=samples.CLEARLY,
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
    draw=_draw_fig3, minutes={"smoke": 0.3, "laptop": 18, "paper": 30000},
    smaller={
        "smoke": "3 dimensions, 7 points, 20 steps, loops of 2 and 4.",
        "laptop": "5 dimensions, 16 points, width 64, 1200 steps of a faster optimiser, T of 6 and "
        f"12 with dT of 2 to 6, run for {BEYOND} T loops, 512 prompts.",
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
    """Errors after T loops and after the last, which the claims compare, from errors by loop."""
    cells = sorted(by_loop)
    windows = {loops: [dt for t, dt in cells if t == loops] for loops, _ in cells}
    measures: dict[str, Measured] = {}
    for part in (AT_T, AT_END):
        ends = {
            cell: errors.at(loop=cell[0] if part == AT_T else -1)
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
