"""Figures 6, 15 and 16: models trained on plain linear functions, asked about other prompts."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from innerloop.core.learner import Learner
from innerloop.learners import OLS
from innerloop.studies.claim import Claim, Criterion
from innerloop.analysis.drawing import draw_curves, legend, name, panels
from innerloop.studies.lab import Lab
from innerloop.studies.quantity import Quantity
from innerloop.studies.runs import looped, standard
from innerloop.studies.study import Findings, Tables, declare
from innerloop.studies.tables import curve, rows_where, stacked
from innerloop.studies.yang2024.comparing import APART, by_value
from innerloop.studies.yang2024.shifted import (
    Errors,
    difference,
    looped_against,
    peak_against,
    shifted_errors,
)
from innerloop.tasks.function import FunctionTask
from innerloop.tasks.shifts import NoisyOutputs, Shift, papers_shifts
from innerloop.training.config import RunConfig
from innerloop.training.families import Scale

_LOOPS: Mapping[Scale, tuple[int, ...]] = {
    "smoke": (2, 4), "laptop": (20, 30), "paper": (20, 30, 50, 100)
}  # fmt: skip
_WINDOW: Mapping[Scale, int] = {"smoke": 3, "laptop": 10, "paper": 15}
_LAYERS: Mapping[Scale, tuple[int, ...]] = {
    "smoke": (1, 2), "laptop": (2, 4, 8), "paper": (1, 4, 12, 20)
}  # fmt: skip
_FULL: Mapping[Scale, int] = {"smoke": 2, "laptop": 8, "paper": 12}
"""Layers of the standard model that the paper's figure 6 compares with."""
_FEWER: Mapping[Scale, int] = {"smoke": 1, "laptop": 4, "paper": 4}
"""Layers of the standard model that looped ones are said to resemble when inputs are scaled."""
_LEAST_SQUARES = "least squares"
_SAME = "two seeds of one model differ by about a quarter"
_SMALLER: Mapping[Scale, str] = {
    "smoke": "3 dimensions, 7 points, width 16, b in {2, 4}, L in {1, 2}, 20 steps, 64 prompts.",
    "laptop": "5 dimensions, 11 points, width 64; b in {20, 30} with T = 10, L in {2, 4, 8}; "
    "1500 steps of a faster optimiser (2000 for the stacks).",
}


def _looped(loops: int) -> str:
    return f"looped b = {loops}"


def _standard(layers: int) -> str:
    return f"standard L = {layers}"


def _runs(scale: Scale) -> Mapping[str, RunConfig]:
    loops = {
        _looped(several): looped(scale, loops=several, window=_WINDOW[scale])
        for several in _LOOPS[scale]
    }
    return loops | {
        _standard(several): standard(scale, layers=several) for several in _LAYERS[scale]
    }


def _measure_errors(lab: Lab, shifts: Mapping[str, Shift], points: int) -> list[Errors]:
    """Errors of all models, and of least squares, by seed."""
    found: list[Errors] = []
    for seed in lab.seeds:
        learners: dict[str, Learner[Any]] = {
            label: lab.model(label, seed) for label in _runs(lab.scale)
        }
        learners[_LEAST_SQUARES] = OLS()
        found.append(shifted_errors(lab, learners, shifts, points, seed=seed))
    return found


def _tables(lab: Lab, found: Sequence[Errors]) -> Tables:
    curves = [
        curve(lab, [errors[shift][label] for errors in found], "examples",
              {"shift": shift, "label": label})
        for shift, several in found[0].items()
        for label in several
    ]  # fmt: skip
    return {"by-examples": stacked(curves)}


def _draw(tables: Tables) -> Figure:
    """One panel a shift, with linear axes that end above the models' errors."""
    table = tables["by-examples"]
    shifts = list(dict.fromkeys(table["shift"]))
    order = list(dict.fromkeys(table["label"]))
    figure, axes = panels(len(shifts), columns=4, size=(3.1, 2.7))
    for panel, shift in zip(axes, shifts, strict=True):
        rows = rows_where(table, {"shift": shift})
        draw_curves(panel, rows, x="examples", order=order, log=False)
        models = rows.loc[rows["label"] != _LEAST_SQUARES, "high"].to_numpy(float)
        top = 1.08 * float(models[np.isfinite(models)].max(initial=0.1))
        # Least squares has no mean error after d noisy examples.
        cut = bool((rows["mean"].to_numpy(float) > top).any())
        panel.set_ylim(0, top)
        title = _told(str(shift)) + (" (least squares is cut)" if cut else "")
        name(panel, title=title, x="examples in the prompt", y="squared error / E[y²]")
    legend(figure, axes)
    return figure


def _told(shift: str) -> str:
    """A shift as a title: `x scaled by 3`."""
    told = shift.replace("scaled-inputs", "x scaled by").replace("scaled-weights", "w scaled by")
    return told.replace("-", " ")


def _shifts(lab: Lab) -> tuple[Mapping[str, Shift], FunctionTask, int]:
    """All shifts of the papers, of the task that the models were trained on, and its points."""
    config = lab.run(_looped(_LOOPS[lab.scale][0])).config
    assert isinstance(config.task, FunctionTask)  # linear functions
    return papers_shifts(config.task), config.task, config.points


@declare(
    paper="yang2024",
    id="fig6",
    also=("fig15",),
    title="Out of distribution a looped model prefers simple solutions",
    claims=(
        Claim(
            name="skewed-better",
            sentence="On inputs with a skewed covariance looped models are better.",
            quantity="mean error from d examples on, looped (geometric mean over b) / standard "
            "(12 layers; 8 at laptop, 2 at smoke)",
            criterion=Criterion(at_most=1 / APART, reason=_SAME),
            over="seeds",
            ratio=True,
        ),
        Claim(
            name="lower-peak",
            sentence="With noisy outputs their peak of double descent is lower.",
            quantity="error after d examples above the noise, looped (geometric mean over b) / "
            "standard",
            criterion=Criterion(at_most=1 / APART, reason=_SAME),
            over="seeds",
            ratio=True,
        ),
        Claim(
            name="scaled-worse",
            sentence="On inputs that are three times as large they are worse.",
            quantity="mean error from d examples on, looped (geometric mean over b) / standard",
            criterion=Criterion(at_least=APART, reason=_SAME),
            over="seeds",
            ratio=True,
        ),
        Claim(
            name="matches-deepest",
            sentence="On a subspace and in other orthants they match the deepest standard model.",
            quantity="mean error from d examples on, looped (geometric mean over b) / deepest "
            "standard, the shift of the three where it is largest",
            criterion=Criterion(at_most=APART, reason=_SAME),
            over="seeds",
            ratio=True,
        ),
        Claim(
            name="queries-alike",
            sentence="Asked an orthogonal query, or an example again, they do as standard ones.",
            quantity="mean error over all prefixes, looped (mean over b) and standard: their "
            "difference, the larger of the two shifts",
            criterion=Criterion(
                at_most=0.1, reason="on the figure's axis, up to 1.5, less is hardly to be seen"
            ),
            over="seeds",
        ),
    ),
    draw=_draw,
    runs=_runs,
    minutes={"smoke": 0.3, "laptop": 12, "paper": 16_000},
    smaller=_SMALLER,
)
def fig6(lab: Lab) -> Findings:
    """Error by examples of looped and standard models on every shift but the other scalings."""
    everything, task, points = _shifts(lab)
    shifts = {
        shift: shifted for shift, shifted in everything.items()
        if not shift.startswith("scaled") or shift == "scaled-inputs 3"
    }  # fmt: skip
    found = _measure_errors(lab, shifts, points)
    full, deepest = _standard(_FULL[lab.scale]), _standard(max(_LAYERS[lab.scale]))
    noisy = shifts["noisy-outputs"]
    assert isinstance(noisy, NoisyOutputs)
    dims, floor = task.dims, noisy.noise**2 / float(task.scale())
    elsewhere = ("half-subspace", "random-orthant", "opposite-orthant")
    measured: dict[str, list[Quantity]] = {
        "skewed-better": [], "lower-peak": [], "scaled-worse": [], "matches-deepest": [],
        "queries-alike": [],
    }  # fmt: skip
    for seed, errors in zip(lab.seeds, found, strict=True):
        for claim, where, against in (
            ("skewed-better", ("skewed-covariance",), full),
            ("scaled-worse", ("scaled-inputs 3",), full),
        ):
            measured[claim].append(
                looped_against(lab, errors, where, against, dims=dims, seed=seed)
            )
        worst = [
            looped_against(lab, errors, (shift,), deepest, dims=dims, seed=seed)
            for shift in elsewhere
        ]
        measured["matches-deepest"].append(max(worst, key=by_value))
        measured["lower-peak"].append(
            peak_against(lab, errors["noisy-outputs"], full, dims=dims, floor=floor, seed=seed)
        )
        measured["queries-alike"].append(
            difference(lab, errors, ("orthogonal-query", "example-query"), full, seed=seed)
        )
    return Findings(tables=_tables(lab, found), measured=measured)


@declare(
    paper="yang2024",
    id="fig16",
    title="With scaled inputs or functions a looped model is like a shallower standard one",
    claims=(
        Claim(
            name="doubled-inputs",
            sentence="With inputs twice as large, looped models are like a stack of four layers.",
            quantity="mean error from d examples on, looped (geometric mean over b) / standard "
            "with 4 layers (1 at smoke), x scaled by 2",
            criterion=Criterion(at_least=1 / APART, at_most=APART, reason=_SAME),
            over="seeds",
            ratio=True,
        ),
        Claim(
            name="scaled-alike",
            sentence="Whatever is scaled, they are like a standard model with fewer layers.",
            quantity="the same, as a geometric mean over x and w scaled by 1/3, 1/2, 2 and 3",
            criterion=Criterion(at_least=1 / APART, at_most=APART, reason=_SAME),
            over="seeds",
            ratio=True,
        ),
    ),
    draw=_draw,
    runs=_runs,
    minutes={"smoke": 0.3, "laptop": 12, "paper": 16_000},
    smaller=_SMALLER,
)
def fig16(lab: Lab) -> Findings:
    """Error by examples of looped and standard models with x or w scaled."""
    everything, task, points = _shifts(lab)
    shifts = {shift: shifted for shift, shifted in everything.items() if "scaled" in shift}
    found = _measure_errors(lab, shifts, points)
    measured: dict[str, list[Quantity]] = {"doubled-inputs": [], "scaled-alike": []}
    for seed, errors in zip(lab.seeds, found, strict=True):
        for claim, where in (
            ("doubled-inputs", ("scaled-inputs 2",)), ("scaled-alike", tuple(shifts))
        ):  # fmt: skip
            measured[claim].append(
                looped_against(
                    lab, errors, where, _standard(_FEWER[lab.scale]), dims=task.dims, seed=seed
                )
            )
    return Findings(tables=_tables(lab, found), measured=measured)
