"""Figures 6, 15 and 16: models trained on plain linear functions, asked about other prompts."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from matplotlib.figure import Figure
from torch import Tensor

from innerloop.analysis import Averages, Measured, Statistic, drawing
from innerloop.learners import OLS
from innerloop.studies.claim import Claim, at_most, between
from innerloop.studies.lab import Lab
from innerloop.studies.runs import looped, standard
from innerloop.studies.study import Measures, Runs, Scale, Tables, declare
from innerloop.studies.yang2024.shared import ALIKE, APART, HIGHER, LOWER, SEEDS
from innerloop.tasks.shifts import papers_shifts

_SIZES: Mapping[Scale, tuple[tuple[int, ...], int, tuple[int, ...]]] = {
    "smoke": ((2, 4), 3, (1, 2)),
    "laptop": ((20, 30), 10, (2, 4, 8)),
    "paper": ((20, 30, 50, 100), 15, (1, 4, 12, 20)),
}
"""Loops of the looped models, and their window; layers of the standard ones."""
_LEAST_SQUARES = "least squares"
_SAME = between(1 / APART, APART, SEEDS)
_MINUTES: Mapping[Scale, float] = {"smoke": 0.3, "laptop": 12, "paper": 16_000}
_SMALLER: Mapping[Scale, str] = {
    "smoke": "3 dimensions, 7 points, width 16, b in {2, 4}, L in {1, 2}, 20 steps, 64 prompts.",
    "laptop": "5 dimensions, 11 points, width 64; b in {20, 30} with T = 10, L in {2, 4, 8}; "
    "1500 steps of a faster optimiser (2000 for the stacks).",
}
_ELSEWHERE = ("half-subspace", "random-orthant", "opposite-orthant")
_QUERIES = ("orthogonal-query", "example-query")
_FACTORS = ("1/3", "1/2", "2", "3")
_SCALED = tuple(f"scaled-{what} {by}" for what in ("inputs", "weights") for by in _FACTORS)


def _runs(scale: Scale) -> Runs:
    loops, window, layers = _SIZES[scale]
    return {
        **{f"looped b = {b}": looped(scale, loops=b, window=window) for b in loops},
        **{f"standard L = {each}": standard(scale, layers=each) for each in layers},
    }


def _measure(lab: Lab, layers: Mapping[str, int], shifts: Sequence[str]) -> Measures:
    """Errors by examples of all models on every shift, and the numbers that claims compare.

    `layers` are those of the standard models that claims name, such as "deepest". Shifts that
    allow fewer points have fewer. Everywhere is the mean over all prefixes.
    """
    learners = {label: lab.learner(label) for label in _runs(lab.scale)}
    config = lab.config(next(iter(learners)))
    everything, dims = papers_shifts(config.task), config.task.dims
    measures: dict[str, Measured] = {}
    for shift in shifts:
        task = everything[shift]
        points = min(config.points, task.most_points or config.points)
        prompt = lab.draw(task, points, purpose=shift)
        errors = {
            label: replace(lab.error(learner, prompt, task, label=label), keys={"shift": shift})
            for label, learner in {**learners, _LEAST_SQUARES: OLS()}.items()
        }
        measures |= {f"{shift}: {label}": own for label, own in errors.items()}
        compared = {label: own for label, own in errors.items() if label.startswith("looped")}
        compared |= {role: errors[f"standard L = {several}"] for role, several in layers.items()}
        # Nothing can predict the noise of the question itself.
        noise = Measured.exact(task.added_noise / float(task.scale()))
        for label, own in compared.items():
            measures[f"everywhere, {shift}, {label}"] = own.mean("examples")
            if points > dims:
                late = own.at(examples=slice(dims, None))
                measures[f"from d on, {shift}, {label}"] = late.mean("examples")
                measures[f"above noise at d, {shift}, {label}"] = late.at(examples=0) - noise
    return measures


def _times(against: str, *shifts: str, part: str = "from d on") -> Statistic:
    """Errors of the looped models over those of another: geometric mean over models and shifts."""

    def statistic(m: Averages) -> Tensor:
        pairs = [(m.several(f"{part}, {s}, looped"), m[f"{part}, {s}, {against}"]) for s in shifts]
        # Not by ratios: of two errors below the noise the ratio is a number, but says nothing.
        logs = [several.log() - other.log()[..., None] for several, other in pairs]  # (.., b) each
        return torch.cat(logs, dim=-1).mean(dim=-1).exp()  # (..)

    return statistic


def _largest_difference(m: Averages) -> Tensor:
    """How far apart looped models, averaged, and the standard one are: the larger of two shifts."""
    differences = [
        m.several(f"everywhere, {shift}, looped").mean(dim=-1) - m[f"everywhere, {shift}, full"]
        for shift in _QUERIES
    ]  # (..) each
    return torch.stack(differences).abs().amax(dim=0)


def _draw(tables: Tables) -> Figure:
    """One panel per shift, with linear axes that end above the models' errors."""
    table = tables["by-examples"]
    figure, axes = drawing.facets(
        table, "shift", x="examples", title=_title, log=False, columns=4, size=(3.1, 2.7)
    )
    for shift, panel in axes.items():
        rows = drawing.rows_where(table, {"shift": shift})
        top = drawing.ceiling(rows.loc[rows["label"] != _LEAST_SQUARES, :])
        panel.set_ylim(0, top)
        # Least squares has no mean error after d noisy examples.
        if (rows["mean"].to_numpy(float) > top).any():
            cut = f"{_title(shift)} (least squares is cut)"
            drawing.name(panel, title=cut, x=drawing.EXAMPLES, y=drawing.ERROR)
    drawing.legend(figure, axes.values())
    return figure


def _title(shift: str) -> str:
    """A shift as a title: `x scaled by 3`."""
    text = shift.replace("scaled-inputs", "x scaled by").replace("scaled-weights", "w scaled by")
    return text.replace("-", " ")


@declare(
    paper="yang2024", id="fig6", also=("fig15",),
    title="Out of distribution a looped model prefers simple solutions",
    claims=(
        Claim(
            name="skewed-better", ratio=True, criterion=LOWER,
            sentence="On inputs with a skewed covariance looped models are better.",
            quantity="mean error from d examples on, looped (geometric mean over b) / standard "
            "(12 layers; 8 at laptop, 2 at smoke)",
            statistic=_times("full", "skewed-covariance"),
        ),
        Claim(
            name="lower-peak", ratio=True, criterion=LOWER,
            sentence="With noisy outputs their peak of double descent is lower.",
            quantity="error after d examples above the noise, looped (geometric mean over b) / "
            "standard",
            statistic=_times("full", "noisy-outputs", part="above noise at d"),
        ),
        Claim(
            name="scaled-worse", ratio=True, criterion=HIGHER,
            sentence="On inputs that are three times as large they are worse.",
            quantity="mean error from d examples on, looped (geometric mean over b) / standard",
            statistic=_times("full", "scaled-inputs 3"),
        ),
        Claim(
            name="matches-deepest", ratio=True, criterion=ALIKE,
            sentence="On a subspace and in other orthants they match the deepest standard model.",
            quantity="mean error from d examples on, looped (geometric mean over b) / deepest "
            "standard, the shift of the three where it is largest",
            statistic=lambda m: torch.stack(
                [_times("deepest", shift)(m) for shift in _ELSEWHERE]
            ).amax(dim=0),
        ),
        Claim(
            name="queries-alike", 
            sentence="Asked an orthogonal query, or an example again, they do as standard ones.",
            quantity="mean error over all prefixes, looped (mean over b) and standard: their "
            "difference, the larger of the two shifts",
            statistic=_largest_difference,
            criterion=at_most(0.1, "on the figure's axis, up to 1.5, less is hardly to be seen"),
        ),
    ),
    draw=_draw, runs=_runs, minutes=_MINUTES, smaller=_SMALLER,
)  # fmt: skip
def fig6(lab: Lab) -> Measures:
    """Error by examples of looped and standard models on every shift but the other scalings."""
    # The paper's figure 6 compares with the standard model of twelve layers.
    full = lab.choose(smoke=2, laptop=8, paper=12)
    layers = {"full": full, "deepest": max(_SIZES[lab.scale][-1])}
    shifts = ("skewed-covariance", "half-subspace", "noisy-outputs", *_QUERIES, *_ELSEWHERE[1:])
    return _measure(lab, layers, (*shifts, "scaled-inputs 3"))


@declare(
    paper="yang2024", id="fig16",
    title="With scaled inputs or functions a looped model is like a shallower standard one",
    claims=(
        Claim(
            name="doubled-inputs", ratio=True, criterion=_SAME,
            sentence="With inputs twice as large, looped models are like a stack of four layers.",
            quantity="mean error from d examples on, looped (geometric mean over b) / standard "
            "with 4 layers (1 at smoke), x scaled by 2",
            statistic=_times("fewer", "scaled-inputs 2"),
        ),
        Claim(
            name="scaled-alike", ratio=True, criterion=_SAME,
            sentence="Whatever is scaled, they are like a standard model with fewer layers.",
            quantity="the same, as a geometric mean over x and w scaled by 1/3, 1/2, 2 and 3",
            statistic=_times("fewer", *_SCALED),
        ),
    ),
    draw=_draw, runs=_runs, minutes=_MINUTES, smaller=_SMALLER,
)  # fmt: skip
def fig16(lab: Lab) -> Measures:
    """Error by examples of looped and standard models with x or w scaled."""
    # The layers of the standard model that looped ones are said to resemble.
    return _measure(lab, {"fewer": lab.choose(smoke=1, laptop=4, paper=4)}, _SCALED)
