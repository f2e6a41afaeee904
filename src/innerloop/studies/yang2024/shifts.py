"""Figures 6, 15 and 16: models trained on plain linear functions, asked about other prompts."""

from collections.abc import Mapping

import torch
from matplotlib.figure import Figure
from torch import Tensor

from innerloop.analysis import Averages, drawing
from innerloop.learners import Averaging
from innerloop.studies.claim import Claim, at_least, between
from innerloop.studies.lab import Lab, Null
from innerloop.studies.nulls import untrained
from innerloop.studies.study import Measures, Scale, Tables, declare
from innerloop.studies.yang2024.comparing import for_loops
from innerloop.studies.yang2024.shared import ALIKE, APART, HIGHER, LOWER, SEEDS, UNLIKE_THE_PAPER
from innerloop.studies.yang2024.shift_errors import (
    FULL,
    LAYERS,
    LEAST_SQUARES,
    PLAIN,
    equally_good,
    log_loops,
    measure_shifts,
    runs_at,
    times,
)

_MINUTES: Mapping[Scale, float] = {"smoke": 0.3, "laptop": 12, "desk": 300, "paper": 16_000}
_SMALLER: Mapping[Scale, str] = {
    "smoke": "3 dimensions, 7 points, width 16, b in {2, 4}, L in {1, 2}, 20 steps, 64 prompts.",
    "laptop": "5 dimensions, 11 points, width 64 with 4 heads; b in {20, 30} with T = 10, L in "
    "{2, 4, 8}; 1500 steps (2500 for the stacks, whose blocks begin as the identity) without a "
    f"curriculum. {UNLIKE_THE_PAPER}.",
    "desk": "Width 128; b = 20 with T = 8, L in {4, 12}; a few thousand steps for 500,000, in "
    f"which dimensions grow from 4 and points from 9. {UNLIKE_THE_PAPER}.",
}
_ELSEWHERE = ("half-subspace", "random-orthant", "opposite-orthant")
_QUERIES = ("orthogonal-query", "example-query")
_FACTORS = ("1/3", "1/2", "2", "3")
_SCALED = tuple(f"scaled-{what} {by}" for what in ("inputs", "weights") for by in _FACTORS)
_STANDARD = "standard (12 layers; 8 at laptop, 2 at smoke)"
_NULLS: Mapping[str, Null] = {
    "untrained": untrained(),
    "stack of another seed": for_loops(
        lambda lab: lab.of_another_seed(f"standard L = {FULL[lab.scale]}")
    ),
    "full stack": for_loops(lambda lab: lab.learner(f"standard L = {FULL[lab.scale]}")),
    "shallowest stack": for_loops(
        lambda lab: lab.learner(f"standard L = {min(LAYERS[lab.scale])}")
    ),
    "averaging": for_loops(lambda lab: Averaging()),
}
"""The first in the place of all models, the others in that of the looped ones."""
_NO_BETTER = ("untrained", "stack of another seed", "shallowest stack")


def _better_than_plainly(m: Averages) -> Tensor:
    """On skewed inputs, or over the same ratio in distribution where that is larger: (..)."""
    shifted, plain = (times("full", shift)(m) for shift in ("skewed-covariance", PLAIN))
    return torch.maximum(shifted, shifted / plain)


def _worse_than_plainly(m: Averages) -> Tensor:
    """On inputs of three times the size, or over that in distribution where it is smaller: (..)."""
    shifted, plain = (times("full", shift)(m) for shift in ("scaled-inputs 3", PLAIN))
    return torch.minimum(shifted, shifted / plain)


def _peak(m: Averages) -> Tensor:
    """The peak with noise, or times the same ratio without noise where that is larger: (..).

    What is further from least squares has a lower peak for that reason alone.
    """
    noisy, plain = (times("full", shift, "at d")(m) for shift in ("noisy-outputs", PLAIN))
    return torch.maximum(noisy, noisy * plain)


def _largest_factor(m: Averages) -> Tensor:
    """Between looped models and the standard one, either way: the larger of two shifts, (..)."""
    factors = [times("full", shift, "with examples")(m).log().abs() for shift in _QUERIES]
    return torch.stack(factors).amax(dim=0).exp()


def _share_like_shallow(m: Averages) -> Tensor:
    """Of all scalings, those where the stack of the nearest error has fewer layers: (..)."""
    nearer: list[Tensor] = []
    for shift in _SCALED:
        loops = log_loops(m, "from d on", shift)[..., None]  # (.., 1)
        shallow, deep = (
            (loops - m.several(f"from d on, {shift}, {kind} L").log()).abs().amin(dim=-1)
            for kind in ("shallow", "deep")
        )  # (..) each
        nearer.append((shallow < deep).double())
    return torch.stack(nearer).mean(dim=0)


def _draw(tables: Tables) -> Figure:
    """One panel per shift, with linear axes that end above the models' errors."""
    table = tables["by-examples"]
    figure, axes = drawing.facets(
        table, "shift", x="examples", title=_title, log=False, columns=4, size=(3.1, 2.7)
    )
    for shift, panel in axes.items():
        rows = drawing.rows_where(table, {"shift": shift})
        top = drawing.ceiling(rows.loc[rows["label"] != LEAST_SQUARES, :])
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
            name="skewed-better", ratio=True, criterion=LOWER, premise=equally_good("full"),
            sentence="On inputs with a skewed covariance looped models are better.",
            quantity=f"mean error from d examples on, looped (geometric mean over b) / {_STANDARD}"
            "; that over the same ratio in distribution where it is larger",
            statistic=_better_than_plainly, excludes=_NO_BETTER,
        ),
        Claim(
            name="lower-peak", ratio=True, criterion=LOWER, premise=equally_good("full", "at d"),
            sentence="With noisy outputs their peak of double descent is lower.",
            quantity="error after d examples above the noise, looped (geometric mean over b) / "
            "standard; that times the same ratio without noise where it is larger, as what is "
            "further from least squares has a lower peak for that reason alone",
            statistic=_peak, excludes=_NO_BETTER,
        ),
        Claim(
            name="scaled-worse", ratio=True, criterion=HIGHER, premise=equally_good("full"),
            sentence="On inputs that are three times as large they are worse.",
            quantity="mean error from d examples on, looped (geometric mean over b) / standard; "
            "that over the same ratio in distribution where it is smaller",
            statistic=_worse_than_plainly, excludes=_NO_BETTER,
        ),
        Claim(
            name="matches-deepest", ratio=True, criterion=ALIKE, premise=equally_good("deepest"),
            sentence="On a subspace and in other orthants they match the deepest standard model.",
            quantity="mean error from d examples on, looped (geometric mean over b) / deepest "
            "standard, the shift of the three where it is largest",
            statistic=lambda m: torch.stack(
                [times("deepest", shift)(m) for shift in _ELSEWHERE]
            ).amax(dim=0),
            excludes=("untrained", "shallowest stack", "averaging"),
        ),
        Claim(
            name="queries-alike", ratio=True, criterion=ALIKE, premise=equally_good("full"),
            sentence="Asked an orthogonal query, or an example again, they do as standard ones.",
            quantity="mean error with examples, looped (geometric mean over b) / standard, either "
            "way, the larger of the two shifts",
            statistic=_largest_factor, excludes=("untrained", "shallowest stack", "averaging"),
        ),
    ),
    draw=_draw, runs=runs_at, nulls=_NULLS, minutes=_MINUTES, smaller=_SMALLER,
)  # fmt: skip
def fig6(lab: Lab) -> Measures:
    """Error by examples of looped and standard models on every shift but the other scalings."""
    shifts = ("skewed-covariance", "half-subspace", "noisy-outputs", *_QUERIES, *_ELSEWHERE[1:])
    return measure_shifts(lab, (*shifts, "scaled-inputs 3"))


@declare(
    paper="yang2024", id="fig16",
    title="With scaled inputs or functions a looped model is like a shallower standard one",
    claims=(
        Claim(
            name="doubled-inputs", ratio=True, criterion=between(1 / APART, APART, SEEDS),
            premise=equally_good("full", fewer=True),
            sentence="With inputs twice as large, looped models are like a stack of four layers.",
            quantity="mean error from d examples on, looped (geometric mean over b) / standard "
            "with 4 layers (1 at smoke), x scaled by 2",
            statistic=times("fewer", "scaled-inputs 2"),
            excludes=("untrained", "full stack", "averaging"),
        ),
        Claim(
            name="scaled-alike", premise=equally_good("full"),
            sentence="Whatever is scaled, they are like a standard model with fewer layers.",
            quantity="of x and w scaled by 1/3, 1/2, 2 and 3, the share where the stack whose mean "
            "error from d examples on is nearest, by logarithms, has fewer layers than 12 (8 at "
            "laptop, 2 at smoke)",
            statistic=_share_like_shallow,
            criterion=at_least(0.75, "six of eight: two in three stacks have fewer layers, which a "
                               "learner that is like none of them would have"),
            excludes=("untrained", "stack of another seed", "averaging"),
        ),
    ),
    draw=_draw, runs=runs_at, nulls=_NULLS, minutes=_MINUTES, smaller=_SMALLER,
)  # fmt: skip
def fig16(lab: Lab) -> Measures:
    """Error by examples of looped and standard models with x or w scaled."""
    return measure_shifts(lab, _SCALED)
