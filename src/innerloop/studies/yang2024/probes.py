"""Figure 8: what can be decoded from the hidden states, layer by layer and loop by loop."""

from dataclasses import replace
from itertools import product

import pandas as pd
import torch
from matplotlib.figure import Figure
from torch import Tensor

from innerloop.analysis import Averages, Measured, ProbeSettings, Probing, drawing
from innerloop.analysis.probing import Target, least_squares, moment, probe
from innerloop.core.prompt import Prompt
from innerloop.studies.claim import Claim, at_least, at_most
from innerloop.studies.lab import Lab
from innerloop.studies.runs import standard, trained
from innerloop.studies.study import Measures, Runs, Scale, Tables, declare
from innerloop.studies.yang2024.shared import KINDS

TARGETS: dict[str, Target] = {"moment": moment, "weights": least_squares}
"""X'y over the number of examples, and the weights of least squares."""
TITLES = {"moment": "X'y / examples", "weights": "least-squares weights"}
MARGIN = 1.1
"""Probes that know the same may differ by a tenth."""


def _fig8_runs(scale: Scale) -> Runs:
    # The paper's axis has 20 layers.
    stack = standard(scale, layers=20) if scale == "paper" else trained("standard-linear", scale)
    return {"looped": trained("looped-linear", scale), "standard": stack}


def with_weights_of_one(prompt: Prompt) -> Prompt:
    """The control task: the same inputs, labelled by w = (1, .., 1)."""
    return replace(prompt, ys=prompt.xs.sum(dim=2, keepdim=True), truth={})  # (B, n, 1)


def _draw_fig8(tables: Tables) -> Figure:
    table = tables["by-step"]
    figure, axes = drawing.facets(
        drawing.rows_where(table, {"trained on": "task"}), "target", x="step", order=KINDS,
        title=TITLES.__getitem__, names=("layer or loop", "squared error of the probe / d"),
        log=False, columns=2, size=(4.2, 3.2),
    )  # fmt: skip
    for target, panel in axes.items():
        for kind, colour in zip(KINDS, drawing.COLOURS, strict=False):
            control = {"label": kind, "target": target, "trained on": "control"}
            lowest = float(drawing.rows_where(table, control)["mean"].to_numpy(float).min())
            drawing.level(panel, lowest, label=f"{kind}: lowest of the control", colour=colour)
        drawing.mark(panel, float(tables["sizes"]["trained loops"].iloc[0]))
        panel.set_ylim(bottom=0)
        panel.set_xlim(left=0)
    drawing.legend(figure, axes.values(), columns=3)
    return figure


def _claims(target: str, what: str) -> tuple[Claim, Claim]:
    """What the paper says of one target in the loop, and in the stack."""
    loop, stack = f"looped, {target}", f"standard, {target}"
    return (
        Claim(
            name=f"looped-{target}", ratio=True,
            sentence=f"The looped model refines {what} with every loop.",
            quantity="error of the probe after b loops / after a quarter of them",
            statistic=lambda m: m[f"{loop}, after b loops"] / m[f"{loop}, after a quarter"],
            criterion=at_most(1 / MARGIN, "probes of loops that know the same may differ by a "
                              "tenth"),
        ),
        Claim(
            name=f"standard-{target}", ratio=True,
            sentence=f"The standard model knows {what} best in a middle layer, and moves on.",
            quantity="error of the probe after the last layer / lowest error after any layer",
            statistic=lambda m: m[stack][..., -1] / m[stack].amin(dim=-1),
            criterion=at_least(MARGIN, "the margin within which a model counts as still at its "
                               "best"),
        ),
    )  # fmt: skip


def _beyond_control(m: Averages) -> Tensor:
    """The largest of lowest error / lowest error of the control, of models and targets: (..)."""
    ratios = [
        m[f"{kind}, {target}"].amin(dim=-1) / m[f"control, {kind}, {target}"].amin(dim=-1)
        for kind, target in product(KINDS, TARGETS)
    ]  # (..) each
    return torch.stack(ratios).amax(dim=0)


@declare(
    paper="yang2024", id="fig8",
    title="Probes: the loop refines X'y and the least-squares weights, the stack moves on",
    claims=(
        *_claims("moment", "X'y"),
        *_claims("weights", "the least-squares weights"),
        Claim(
            name="beyond-control", ratio=True,
            sentence="Probes find what was learned in context: they do better than control probes.",
            quantity="lowest error of the probes / lowest error of the control's, the largest of "
            "both models and both targets",
            statistic=_beyond_control,
            criterion=at_most(0.5, "a control probe that is perfect at w = 1 has twice the error "
                              "of a probe that knows nothing of w"),
        ),
    ),
    draw=_draw_fig8, runs=_fig8_runs, minutes={"smoke": 0.2, "laptop": 9, "paper": 3000},
    smaller={
        "smoke": "Hardly trained models of 3 dimensions; 20 steps on 192 prompts for each probe.",
        "laptop": "5 dimensions, width 64, 8 layers against 20 loops; probes after every layer and "
        "after eight numbers of loops, at two context lengths (5 and 10 examples), over which "
        "errors are averaged.",
    },
)  # fmt: skip
def fig8(lab: Lab) -> Measures:
    """Probe errors by layer and by loop, for both targets, with those of the control task."""
    measures: dict[str, Measured] = {}
    details: list[pd.DataFrame] = []
    steps = {kind: lab.learner(kind).steps for kind in KINDS}
    for kind, target in product(KINDS, TARGETS):
        lab.tell(f"probes for {TITLES[target]}, {kind}")
        probing = _probe(lab, kind, target)
        errors, control = by_step(probing, label=kind, target=target)
        measures |= {f"{kind}, {target}": errors, f"control, {kind}, {target}": control}
        if kind == "looped":
            measures |= end_and_quarter(errors, steps[kind], f"looped, {target}")
        details.append(probing.table().assign(label=kind, target=target))
    table = pd.concat(details, ignore_index=True)
    lab.table("by-prefix", table, by_seed=True)
    lab.table("sizes", {"trained loops": [steps["looped"]], "layers": [steps["standard"]]})
    if lab.first:
        ratio, left = (table["mean"] / table["training"]).median(), table["relative"].min()
        lab.note(
            f"Held-out errors are {ratio:.2f} times the training errors (median over the probes of "
            f"the first seed), and the best probe leaves {left:.2f} of its target's variance. Near "
            "1 they are as good as probes of this size and training get; far above it more prompts "
            "would help."
        )
    return measures


def _probe(lab: Lab, kind: str, target: str) -> Probing:
    """Probes for one target in one model, with those of the control task."""
    learner, task, points = lab.learner(kind), lab.config(kind).task, lab.config(kind).points
    many = lab.choose(smoke=192, laptop=8192, paper=16_384)
    loops = lab.choose(
        smoke=(1, 4, 6), laptop=(1, 2, 3, 5, 10, 15, 20, 30), paper=(*range(1, 21), 25, 30)
    )
    prefixes = lab.choose(
        smoke=(points - 1,), laptop=(task.dims, points - 1), paper=tuple(range(8, points, 8))
    )
    return probe(
        learner, lab.draw(task, points, prompts=many, purpose="probes"), TARGETS[target],
        held_out=lab.draw(task, points),
        control=with_weights_of_one(lab.draw(task, points, prompts=many, purpose="control")),
        at_steps=loops if kind == "looped" else range(1, learner.steps + 1), at_prefixes=prefixes,
        settings=ProbeSettings(iterations=lab.choose(smoke=20, laptop=2000, paper=5000)),
        seed=lab.seed,
    )  # fmt: skip


def by_step(probing: Probing, *, label: str, target: str) -> tuple[Measured, Measured]:
    """Errors of the probes and of the control's by step, averaged over context lengths."""
    assert probing.control is not None
    errors, control = (
        replace(one.mean("examples"), label=label, keys={"target": target, "trained on": kind})
        for kind, one in (("task", probing.errors), ("control", probing.control))
    )
    return errors, control


def end_and_quarter(errors: Measured, loops: int, label: str) -> Measures:
    """Errors after the last step within b loops, and after the one nearest to a quarter of it."""
    steps = [step for step in errors.ticks["step"] if step <= loops]
    quarter = min(range(len(steps)), key=lambda place: abs(steps[place] - steps[-1] / 4))
    return {
        f"{label}, after b loops": errors.at(step=len(steps) - 1),
        f"{label}, after a quarter": errors.at(step=quarter),
    }
