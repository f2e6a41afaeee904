"""Figures 2 and 3: a looped model matches a standard one, and stays where it has arrived."""

from dataclasses import replace
from functools import cached_property
from typing import Any

from matplotlib.figure import Figure
from torch import Tensor

from innerloop.analysis import Measured, drawing
from innerloop.core.learner import Learner
from innerloop.core.prompt import Prompt
from innerloop.learners import OLS, Ridge
from innerloop.models.backbone import BackboneState
from innerloop.models.model import AnyModel
from innerloop.studies.claim import Claim, at_least
from innerloop.studies.lab import Lab
from innerloop.studies.nulls import instead, swapped, untrained
from innerloop.studies.runs import trained
from innerloop.studies.study import Measures, Tables, declare
from innerloop.studies.yang2024.shared import (
    ALIGNED,
    KINDS,
    MATCHES,
    STAYS,
    UNLIKE_THE_PAPER,
    descent,
    distance,
    drift,
    errors_of,
    learned,
    with_ends,
)

BEYOND = 5
"""How many times the trained loops a model is run for."""
_FIG3_LABELS = {"injected": "with injection", "tied": "without injection"}
_DESK = (
    "The paper's problem, 20 dimensions and 41 points, at half of its width (128; 4 heads of 32 "
    "numbers, as wide as the paper's 8); T = 8 for 15; 3000 steps in bfloat16 for 500,000, in "
    "which dimensions grow from 4 and points from 9. Positions count by the inverse of their "
    "errors, rates fall in the second half of the steps alone, and what has no injection begins "
    "as the identity."
)


class Deprived(Learner[Any]):
    """A loop that gets its input no longer once it has run its trained loops.

    It is as good as the loop at these, and has no reason to stay there.
    """

    looped = True

    def __init__(self, model: AnyModel) -> None:
        self.model, self.steps, self.traits = model, model.steps, model.traits

    @cached_property
    def name(self) -> str:
        """The loop's, and what it lacks."""
        return f"{self.model.name}, without input beyond b"

    def init(self, prompt: Prompt) -> BackboneState:
        """The loop's."""
        return self.model.init(prompt)

    def step(self, prompt: Prompt, state: BackboneState, k: int) -> BackboneState:
        """The loop's, with nothing to add from step b on."""
        known = state if k < self.steps else replace(state, term=None)
        return self.model.step(prompt, known, k)

    def read(self, prompt: Prompt, state: BackboneState) -> Tensor:
        """The loop's."""
        return self.model.read(prompt, state)


def _draw_fig2(tables: Tables) -> Figure:
    figure, (left, right) = drawing.panels(2, columns=2, size=(4.2, 3.2))
    order = (*KINDS, "least squares")
    drawing.draw_curves(left, tables["by-loop"], x="loop", order=order)
    drawing.mark(left, float(tables["sizes"]["trained loops"].iloc[0]))
    drawing.name(left, title="error by loop, last prefix", x="loops", y=drawing.ERROR)
    drawing.draw_curves(right, tables["by-examples"], x="examples", order=order, floor=1e-4)
    drawing.name(right, title="error by examples", x=drawing.EXAMPLES, y=drawing.ERROR)
    drawing.legend(figure, (left, right))
    return figure


@declare(
    paper="yang2024", id="fig2",
    title="A looped transformer matches a standard one with a fraction of its parameters",
    claims=(
        Claim(
            name="matches-standard", ratio=True, criterion=MATCHES,
            sentence="The looped model is as good as the standard one.",
            quantity="error after the last example, looped / standard",
            statistic=lambda m: m["looped"][..., -1] / m["standard"][..., -1],
            premise=learned(*KINDS), excludes=("untrained", "gradient descent"),
        ),
        Claim(
            name="near-least-squares", ratio=True, criterion=ALIGNED,
            sentence="It closely aligns with least squares.",
            quantity="distance of its error from that of least squares, mean over all prefixes",
            statistic=lambda m: distance(m["looped"], m["least squares"]),
            excludes=("untrained", "gradient descent", "ridge"),
        ),
        Claim(
            name="stays", ratio=True, criterion=STAYS,
            sentence="It stays at its fixed point beyond the loops that it was trained with.",
            quantity=f"error at {BEYOND} b loops / error at b loops, looped",
            statistic=drift("looped"), premise=learned("looped"),
            excludes=("untrained", "without input beyond b"),
        ),
    ),
    runs=lambda scale: {kind: trained(f"{kind}-linear", scale) for kind in KINDS},
    nulls={
        "untrained": untrained("looped"),
        # What needs as many steps as there are loops is the least that a loop must do better.
        "gradient descent": instead(descent, "looped"),
        "ridge": instead(lambda lab, label: Ridge(1.0), "looped"),
        "without input beyond b": instead(lambda lab, label: Deprived(lab.model(label)), "looped"),
    },
    draw=_draw_fig2, minutes={"smoke": 0.3, "laptop": 7, "desk": 70, "paper": 4500},
    smaller={
        "smoke": "3 dimensions, 7 points, width 16, 4 loops against 2 layers, 20 steps.",
        "laptop": "5 dimensions, 11 points, width 64 with 4 heads, 20 loops (T = 10) against 8 "
        "layers, 1500 steps (2000 for the stack) without a curriculum. "
        f"{UNLIKE_THE_PAPER}.",
        "desk": f"{_DESK} 20 loops against 12 layers. {UNLIKE_THE_PAPER}.",
    },
    notes=(
        "The paper gives no error for linear functions: by loops it draws them on an axis that "
        "begins at 0.001, by examples on one from 0 to 1. For sparse ones it gives 0.0006 "
        "(looped) and 0.0017 (standard) after 40 examples.",
        "On the paper's axis from 0 to 1 errors of 0.004 and 0.0003 lie on each other, and a ratio "
        "tells them apart: it is about trainings of a few thousand steps, which the stack ends "
        "better.",
    ),
)  # fmt: skip
def fig2(lab: Lab) -> Measures:
    """Error by examples of both, and of the loop by loop, well beyond the trained ones."""
    config = lab.config("looped")
    by_examples = {kind: errors_of(lab, kind) for kind in KINDS}
    prompt = lab.draw(config.task, config.points)
    by_examples["least squares"] = lab.error(OLS(), prompt, config.task, label="least squares")
    by_loop = errors_of(lab, "looped", loops=BEYOND * lab.learner("looped").steps)
    ends = with_ends(lab, "looped", by_loop)
    _count_parameters(lab)
    return {
        **by_examples,
        **{name: errors for name, errors in ends.items() if name != "looped"},
        "by loop": by_loop,
        "standard, as a level": replace(
            by_examples["standard"].at(examples=[-1]), axes=("loop",), ticks={}
        ),
    }


def _count_parameters(lab: Lab) -> None:
    """Leave the sizes of both models in the lab: that one is smaller needs no training."""
    looped, standard = (lab.untrained(kind) for kind in KINDS)
    numbers = [sum(each.numel() for each in model.parameters()) for model in (looped, standard)]
    lab.table(
        "sizes",
        {
            "trained loops": [looped.steps], "layers": [standard.steps],
            "looped parameters": numbers[:1], "standard parameters": numbers[1:],
        },
    )  # fmt: skip
    lab.note(
        f"The looped model has {numbers[0]:,} parameters, the standard one {numbers[1]:,}: one "
        f"block against {standard.steps}, and equally many outside of them."
    )


def _draw_fig3(tables: Tables) -> Figure:
    figure, (axes,) = drawing.panels(1, columns=1, size=(5.4, 3.4))
    order = tuple(_FIG3_LABELS.values())
    drawing.draw_curves(axes, tables["by-loop"], x="loop", order=order)
    sizes = tables["sizes"]
    for label, loops in zip(sizes["label"], sizes["trained loops"], strict=True):
        colour = drawing.COLOURS[order.index(str(label))]
        drawing.mark(axes, float(loops), label=f"trained loops, {label}", colour=colour)
    drawing.name(axes, title="error by loop, last prefix", x="loops", y=drawing.ERROR)
    drawing.legend(figure, (axes,), columns=2)
    return figure


@declare(
    paper="yang2024", id="fig3",
    title="Without input injection a loop falls apart beyond its trained loops",
    claims=(
        Claim(
            name="injected-stays", ratio=True, criterion=STAYS,
            sentence="With input injection the error stays where it is beyond the trained loops.",
            quantity=f"error at {BEYOND} b loops / error at b loops, injected",
            statistic=drift("injected"), premise=learned("injected, at b loops"),
            excludes=("untrained", "the other"),
        ),
        Claim(
            name="tied-falls-apart", ratio=True,
            sentence="Without it the error grows beyond them.",
            quantity=f"error at {BEYOND} b loops / error at b loops, tied",
            statistic=drift("tied"), premise=learned("tied, at b loops"),
            criterion=at_least(10, "the paper calls it divergence on an axis of three powers of "
                               "ten: one of them is the least that fits"),
            excludes=("untrained", "the other"),
        ),
        Claim(
            name="tied-soon", ratio=True,
            sentence="It does so quickly.",
            quantity="error at 2 b loops / error at b loops, tied",
            statistic=lambda m: m["tied, at 2 b loops"] / m["tied, at b loops"],
            premise=learned("tied, at b loops"),
            criterion=at_least(2, "an error that has doubled after as many loops again is lost"),
            excludes=("untrained", "the other"),
        ),
    ),
    runs=lambda scale: {
        "injected": trained("looped-linear", scale), "tied": trained("tied-linear", scale)
    },
    nulls={
        "untrained": untrained(),
        "the other": swapped({"injected": "tied", "tied": "injected"}),
    },
    draw=_draw_fig3, minutes={"smoke": 0.2, "laptop": 5, "desk": 65, "paper": 3000},
    smaller={
        "smoke": "3 dimensions, 7 points, width 16, 4 loops, 20 steps.",
        "laptop": "5 dimensions, 11 points, width 64 with 4 heads, 1500 steps without a "
        "curriculum; 20 loops with injection (T = 10) and 12 without, all of "
        f"them with a loss, each run for five times its own. {UNLIKE_THE_PAPER}.",
        "desk": f"{_DESK} 20 loops with injection and 12 without, all of them with a loss, each "
        f"run for five times its own. {UNLIKE_THE_PAPER}.",
    },
)  # fmt: skip
def fig3(lab: Lab) -> Measures:
    """Error by loop, with and without injection, each to five times its trained loops."""
    measures: dict[str, Measured] = {}
    loops = {run: lab.learner(run).steps for run in _FIG3_LABELS}
    for run, b in loops.items():
        by_loop = errors_of(lab, run, loops=BEYOND * b, label=_FIG3_LABELS[run])
        measures |= with_ends(lab, run, by_loop)
        measures[f"{run}, at 2 b loops"] = by_loop.at(loop=2 * b)
    lab.table("sizes", {"label": _FIG3_LABELS.values(), "trained loops": loops.values()})
    return measures
