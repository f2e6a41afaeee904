"""The answer of `identify` as a figure: how much each family explains, and the steps beside it."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from innerloop.analysis.drawing import COLOURS, MARKERS, plain
from innerloop.analysis.identification import Identification

SMALLEST = 1e-16
"""Where the axis of unexplained parts ends: the rounding of float64."""


def draw_identification(answer: Identification) -> Figure:
    """Families by what they leave unexplained, with intervals; beside it the matched iterations."""
    steps = answer.progression
    figure = Figure(figsize=(11.0 if steps else 7.0, 4.5), layout="constrained", dpi=150)
    axes = figure.subplots(1, 2) if steps else [figure.add_subplot()]
    _draw_ranking(axes[0], answer)
    if steps:
        _draw_steps(axes[1], answer)
    figure.suptitle(f"{answer.learner}: {answer.family}", x=0.01, horizontalalignment="left")
    return figure


def _draw_ranking(axes: Axes, answer: Identification) -> None:
    table = answer.ranking
    # The last family is the farthest: its distance is not zero.
    size = float(table["spd"].iloc[-1] / max(table["unexplained"].iloc[-1], 1e-300)) or 1.0
    parts, low, high = (
        np.maximum(table[name].to_numpy(float) / unit, SMALLEST)
        for name, unit in (("unexplained", 1.0), ("low", size), ("high", size))
    )  # (F,) each
    same = {answer.family, *answer.equivalents}
    places = np.arange(len(table))[::-1]
    colours = [COLOURS[0] if family in same else "0.45" for family in table["family"]]
    ends = np.minimum(low, parts), np.maximum(high, parts)  # (F,) each
    axes.hlines(places, *ends, colors=colours, linewidth=2.0)
    axes.scatter(parts, places, c=colours, s=40, zorder=3)
    axes.axvline(answer.threshold, color=COLOURS[4], linestyle="--", linewidth=1.0)
    axes.text(answer.threshold * 0.9, len(table) - 0.4, "explains enough", ha="right", fontsize=8)
    axes.set_yticks(places, list(table["family"]))
    axes.set_xscale("log")
    axes.set_xlim(max(SMALLEST, float(parts.min()) / 10), max(2.0, float(high.max()) * 2))
    axes.set_ylim(-0.6, len(table) - 0.1)
    axes.set_xlabel("part of the predictions left unexplained")
    axes.grid(axis="x", alpha=0.3, linewidth=0.5)
    axes.spines[["top", "right"]].set_visible(False)


def _draw_steps(axes: Axes, answer: Identification) -> None:
    assert answer.progression is not None
    for index, (name, matches) in enumerate(answer.progression.best.items()):
        best = matches.cpu().numpy()  # (A,)
        axes.plot(
            np.arange(len(best)), best, label=name, color=COLOURS[index],
            marker=MARKERS[index], markersize=4, linewidth=1.4,
        )  # fmt: skip
    axes.set_yscale("symlog", linthresh=1.0)  # iteration 0 has no logarithm
    axes.set_xlabel("step of the learner (layer or loop)")
    axes.set_ylabel("best-matching iteration (SimE)")
    plain(axes)
    axes.legend(frameon=False, fontsize=8)
