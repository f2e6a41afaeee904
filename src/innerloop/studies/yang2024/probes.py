"""Figure 8: what can be decoded from the hidden states, layer by layer and loop by loop."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from typing import Any

import pandas as pd
import torch
from matplotlib.figure import Figure
from torch import Tensor

from innerloop.analysis import Averages, Measured, Probing, RidgeSettings, drawing
from innerloop.analysis.probing import Target, least_squares, moment
from innerloop.core.learner import Learner
from innerloop.studies.claim import Claim, Premise, at_least, at_most
from innerloop.studies.lab import Lab
from innerloop.studies.probe_gate import (
    BY_TRAINING,
    UNDECODED,
    beside_untrained,
    decoded,
    embedding_alone,
    fit_probes,
    left,
    untrained,
)
from innerloop.studies.runs import standard, trained
from innerloop.studies.study import Measures, Runs, Scale, Tables, declare
from innerloop.studies.yang2024.shared import KINDS, UNLIKE_THE_PAPER

TARGETS: dict[str, Target] = {"moment": moment, "weights": least_squares}
"""X'y over the number of examples, and the weights of least squares."""
TITLES = {"moment": "X'y / examples", "weights": "least-squares weights"}
MARGIN = 1.1
"""Probes that know the same may differ by a tenth."""
EMBEDDING = "embedding alone"
_NULLS = ("untrained", EMBEDDING)
_ORDER = [*KINDS, *(f"{kind}, untrained" for kind in KINDS)]


def _fig8_runs(scale: Scale) -> Runs:
    # The paper's axis has 20 layers.
    stack = standard(scale, layers=20) if scale == "paper" else trained("standard-linear", scale)
    return {"looped": trained("looped-linear", scale), "standard": stack}


def _draw_fig8(tables: Tables) -> Figure:
    figure, axes = drawing.facets(
        tables["by-step"], "target", x="step", order=_ORDER, title=TITLES.__getitem__,
        names=("layer or loop", "squared error of the probe / variance"), log=False, columns=2,
        size=(4.4, 3.4), legend=0.8,
    )  # fmt: skip
    for panel in axes.values():
        drawing.level(panel, 1.0, label="the mean of the target alone")
        decodes = f"decoded: at most {UNDECODED:g}"
        drawing.level(panel, UNDECODED, label=decodes, colour=drawing.COLOURS[4])
        drawing.mark(panel, float(tables["sizes"]["trained loops"].iloc[0]))
        panel.set_ylim(bottom=0)
        panel.set_xlim(left=0)
    drawing.legend(figure, axes.values(), columns=3)
    return figure


def _decoded(kind: str, target: str) -> Premise:
    return decoded(f"{kind}, {target}", f"{kind}, untrained, {target}")


def _claims(target: str, what: str) -> tuple[Claim, Claim]:
    """What the paper says of one target in the loop, and in the stack."""
    loop, stack = f"looped, {target}", f"standard, {target}"
    return (
        Claim(
            name=f"looped-{target}", ratio=True, premise=_decoded("looped", target),
            sentence=f"The looped model refines {what} with every loop.",
            quantity="error of the probe after b loops / after a quarter of them",
            statistic=lambda m: m[f"{loop}, after b loops"] / m[f"{loop}, after a quarter"],
            criterion=at_most(1 / MARGIN, "probes of loops that know the same may differ by a "
                              "tenth"),
            excludes=_NULLS,
        ),
        Claim(
            name=f"standard-{target}", ratio=True, premise=_decoded("standard", target),
            sentence=f"The standard model knows {what} best in a middle layer, and moves on.",
            quantity="error of the probe after the last layer / lowest error after any layer",
            statistic=lambda m: m[stack][..., -1] / m[stack].amin(dim=-1),
            criterion=at_least(MARGIN, "the margin within which a model counts as still at its "
                               "best"),
            excludes=_NULLS,
        ),
    )  # fmt: skip


def _worst(m: Averages, *, beside: bool) -> Tensor:
    """What probes leave, or that beside an untrained model: the most of models and targets."""
    shares = [
        beside_untrained(m, f"{kind}, {target}", f"{kind}, untrained, {target}")
        if beside
        else left(m, f"{kind}, {target}")
        for kind, target in product(KINDS, TARGETS)
    ]  # (..) each
    return torch.stack(shares).amax(dim=0)


@declare(
    paper="yang2024", id="fig8",
    title="Probes: the loop refines X'y and the least-squares weights, the stack moves on",
    claims=(
        *_claims("moment", "X'y"),
        *_claims("weights", "the least-squares weights"),
        Claim(
            name="learned-in-context", ratio=True,
            sentence="Probes find what was learned in context.",
            quantity="lowest error of the probe / its error at step 0, or its lowest one in an "
            "untrained model where that is lower; the largest of both models and both targets",
            statistic=lambda m: _worst(m, beside=True),
            criterion=at_most(BY_TRAINING, "less than half of what the input and random layers "
                              "leave: most of what is known is the work of the training"),
            premise=Premise(
                quantity="share of a target's variance that the probe leaves at the best step, the "
                "largest of both models and both targets",
                criterion=at_most(UNDECODED, "an error of half of the target's deviation: with "
                                  "more, nothing is found"),
                statistic=lambda m: _worst(m, beside=False),
            ),
            excludes=_NULLS,
        ),
    ),
    nulls={"untrained": untrained, EMBEDDING: embedding_alone},
    draw=_draw_fig8, runs=_fig8_runs, minutes={"smoke": 0.2, "laptop": 9, "paper": 4000},
    smaller={
        "smoke": "Hardly trained models of 3 dimensions; probes from 512 prompts.",
        "laptop": "5 dimensions, width 64 with 4 heads, 8 layers against 20 loops (T = 10), 1500 "
        "steps (2000 for the stack) without a curriculum. "
        f"{UNLIKE_THE_PAPER}. Probes from 16,384 prompts, after every layer and after eight "
        "numbers of loops, at two context lengths (5 and 10 examples), over which errors are "
        "averaged.",
    },
    notes=(
        "The paper trains an MLP on a weighted sum of the tokens. The probe here is linear in all "
        "tokens that a prefix sees, and solved (ridge). In the place of the paper's control task, "
        "whose error a probe that knows nothing halves, stand the embedding and untrained models.",
    ),
)  # fmt: skip
def fig8(lab: Lab) -> Measures:
    """Shares of variance that probes leave by layer and by loop, also in untrained models."""
    measures: dict[str, Measured] = {}
    details: list[pd.DataFrame] = []
    steps = {kind: lab.learner(kind).steps for kind in KINDS}
    random = untrained(lab)
    for kind in KINDS:
        learners = {kind: lab.learner(kind), f"{kind}, untrained": random[kind]}
        labels = {label: _probe(lab, own, kind, label) for label, own in learners.items()}
        for (label, probings), target in product(labels.items(), TARGETS):
            errors = by_step(probings[target], label=label, target=target)
            measures[f"{label}, {target}"] = errors
            if label == "looped":
                measures |= end_and_quarter(errors, steps[kind], f"looped, {target}")
            details.append(probings[target].table().assign(label=label, target=target))
    lab.table("by-prefix", pd.concat(details, ignore_index=True), by_seed=True)
    lab.table("sizes", {"trained loops": [steps["looped"]], "layers": [steps["standard"]]})
    return measures


def _probe(lab: Lab, learner: Learner[Any], kind: str, label: str) -> Mapping[str, Probing]:
    """Probes for all targets in one model."""
    lab.tell(f"probes of {label}")
    loops = lab.choose(
        smoke=(0, 1, 4, 6), laptop=(0, 1, 2, 3, 5, 10, 20, 30),
        paper=(*range(0, 21), 25, 30),
    )  # fmt: skip
    config = lab.config(kind)
    return fit_probes(
        lab, learner, kind, TARGETS, axis="step", settings=RidgeSettings(),
        prompts=lab.choose(smoke=512, laptop=16_384, paper=16_384),
        at_prefixes=(config.task.dims, config.points - 1),
        at_steps=loops if kind == "looped" else range(learner.steps + 1),
    )  # fmt: skip


def by_step(probing: Probing, *, label: str, target: str) -> Measured:
    """Errors of the probes over the target's variance by step; context lengths count alike."""
    return replace(probing.relative.mean("examples"), label=label, keys={"target": target})


def end_and_quarter(errors: Measured, loops: int, label: str) -> Measures:
    """Errors after the last step within b loops, and after the one nearest to a quarter of it."""
    steps = [step for step in errors.ticks["step"] if step <= loops]
    quarter = min(range(len(steps)), key=lambda place: abs(steps[place] - steps[-1] / 4))
    return {
        f"{label}, after b loops": errors.at(step=len(steps) - 1),
        f"{label}, after a quarter": errors.at(step=quarter),
    }
