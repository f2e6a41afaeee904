"""The answer of `identify` as a figure: what each family explains, under which shifts, and how."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from innerloop.analysis.drawing import COLOURS, MARKERS, as_label, plain
from innerloop.analysis.identification import Identification

SMALLEST = 1e-16
"""Where the axis of unexplained parts ends: the rounding of float64."""
OTHERS = "0.45"
"""The grey of what is not the answer."""


def draw_identification(answer: Identification) -> Figure:
    """Families by what they leave unexplained; beside it the shifts and the matched iterations."""
    steps, shifts = answer.progression, answer.tried
    number = 1 + bool(len(shifts)) + bool(steps)
    height = max(4.5, 0.32 * max(len(answer.ranking), len(shifts)) + 1.2)
    figure = Figure(figsize=(5.5 * number, height), layout="constrained", dpi=150)
    axes = list(figure.subplots(1, number, squeeze=False)[0])
    _draw_ranking(axes[0], answer)
    if len(shifts):
        _draw_shifts(axes[1], answer)
    if steps:
        _draw_steps(axes[-1], answer)
    title = answer.algorithm if answer.family != "none" else "none of these"
    figure.suptitle(as_label(f"{answer.learner}: {title}"), x=0.01, horizontalalignment="left")
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
    colours = [COLOURS[0] if family in same else OTHERS for family in table["family"]]
    ends = np.minimum(low, parts), np.maximum(high, parts)  # (F,) each
    axes.hlines(places, *ends, colors=colours, linewidth=2.0)
    axes.scatter(parts, places, c=colours, s=40, zorder=3)
    _finish(axes, answer, places, list(table["family"]), parts, high)
    axes.set_title("in distribution", fontsize=10, loc="left")


def _draw_shifts(axes: Axes, answer: Identification) -> None:
    """What the answer leaves under each shift, and what the closest family leaves there."""
    table = answer.tried
    parts, low, high, closest = (
        np.maximum(table[name].to_numpy(float), SMALLEST)
        for name in ("unexplained", "low", "high", "closest_unexplained")
    )  # (S,) each
    places = np.arange(len(table))[::-1]
    holds = table["holds"].to_numpy(bool)  # (S,)
    for which, colour, label in ((holds, COLOURS[0], "holds"), (~holds, COLOURS[1], "does not")):
        ends = np.minimum(low, parts)[which], np.maximum(high, parts)[which]
        axes.hlines(places[which], *ends, colors=colour, linewidth=2.0)
        axes.scatter(parts[which], places[which], color=colour, s=40, zorder=3, label=label)
    other = (table["closest"] != answer.algorithm).to_numpy(bool)  # (S,)
    axes.scatter(
        closest[other], places[other], marker="D", s=60, facecolors="none", edgecolors=OTHERS,
        zorder=4, label="the closest there",
    )  # fmt: skip
    axes.legend(frameon=False, fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=3)
    _finish(axes, answer, places, list(table["shift"]), np.minimum(parts, closest), high)
    axes.set_title("under shifts", fontsize=10, loc="left")


def _finish(
    axes: Axes,
    answer: Identification,
    places: np.ndarray,
    names: list[str],
    parts: np.ndarray,
    high: np.ndarray,
) -> None:
    """The threshold, the names and a logarithmic axis that holds parts and intervals."""
    axes.axvline(answer.threshold, color=COLOURS[4], linestyle="--", linewidth=1.0)
    axes.text(answer.threshold * 0.9, len(names) - 0.4, "explains enough", ha="right", fontsize=8)
    axes.set_yticks(places, [as_label(name) for name in names])
    axes.set_xscale("log")
    axes.set_xlim(max(SMALLEST, float(parts.min()) / 10), max(2.0, float(high.max()) * 2))
    axes.set_ylim(-0.6, len(names) - 0.1)
    axes.set_xlabel("part of the predictions left unexplained")
    axes.grid(axis="x", alpha=0.3, linewidth=0.5)
    axes.spines[["top", "right"]].set_visible(False)


def _draw_steps(axes: Axes, answer: Identification) -> None:
    assert answer.progression is not None
    for index, (name, matches) in enumerate(answer.progression.best.items()):
        best = matches.cpu().numpy()  # (A,)
        axes.plot(
            np.arange(len(best)), best, label=as_label(name), color=COLOURS[index],
            marker=MARKERS[index], markersize=4, linewidth=1.4,
        )  # fmt: skip
    axes.set_yscale("symlog", linthresh=1.0)  # iteration 0 has no logarithm
    axes.set_xlabel("step of the learner (layer or loop)")
    axes.set_ylabel("best-matching iteration (SimE)")
    plain(axes)
    axes.legend(frameon=False, fontsize=8)
