"""Figure 4: what probes decode from the hidden states of a trained model, and where they look.

Shapes: S layers, p prefixes, T tokens.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pandas as pd
import torch
from matplotlib.figure import Figure
from torch import Tensor

from innerloop.analysis import Measured, RidgeSettings, drawing
from innerloop.analysis.intervals import average
from innerloop.analysis.probing import (
    ProbeSettings,
    Probing,
    Target,
    least_squares,
    moment,
)
from innerloop.core.learner import Learner
from innerloop.studies.claim import Claim, Premise, at_least, at_most
from innerloop.studies.lab import Lab
from innerloop.studies.probe_gate import (
    BY_TRAINING,
    UNDECODED,
    beside_untrained,
    embedding_alone,
    fit_probes,
    untrained,
)
from innerloop.studies.runs import trained
from innerloop.studies.study import Measures, Runs, Scale, Tables, declare

TARGETS: dict[str, Target] = {"X'y": moment, "w": least_squares}
READERS = MLP, LINEAR = "MLP", "linear"
"""An MLP of one weighted sum of the tokens, trained; a linear map of all tokens, the best one."""
UNTRAINED, EMBEDDING = "untrained", "the embedding alone"
PROMPTS: dict[Scale, int] = {"smoke": 64, "laptop": 16_384, "paper": 50_000}
"""That probes are trained on: a linear map of all tokens has up to 1400 weights per number."""
STEPS: dict[Scale, int] = {"smoke": 20, "laptop": 500, "paper": 5000}
"""Of Adam, for MLPs."""


def _fig4_runs(scale: Scale) -> Runs:
    """The paper's main model; at laptop scale with 10 examples, as probes see all their tokens."""
    return {"model": trained("akyurek-linear", scale)}


def reached(means: Tensor) -> Tensor:
    """The first layer with at most the mean of the first and the lowest error: (..) of (.., S)."""
    half = (means[..., :1] + means.amin(dim=-1, keepdim=True)) / 2  # (.., 1)
    # The first of the largest: argmax of what is true.
    return (means <= half).double().argmax(dim=-1).double()


def attention_to_last(attention: pd.DataFrame) -> float:
    """What probes give to the y of their last example, averaged over prefixes."""
    last = 2 * attention["examples"] - 1  # x_1 y_1 x_2 .., counted from 0
    return float(attention["weight"].to_numpy(float)[attention["token"] == last].mean())


def _draw_fig4(tables: Tables) -> Figure:
    figure, axes = drawing.panels(4, columns=2, size=(4.6, 3.2))
    for row, target in enumerate(TARGETS):
        left, right = axes[2 * row], axes[2 * row + 1]
        rows = drawing.rows_where(tables["by-layer"], {"target": target, "prompts": "held out"})
        order = (*READERS, f"{LINEAR}, {UNTRAINED}")
        drawing.draw_curves(left, rows, x="layer", order=order, log=False)
        drawing.level(left, 1.0, label="the mean of the target alone")
        drawing.level(left, UNDECODED, label="decoded: at most 0.25", colour=drawing.COLOURS[4])
        left.set_ylim(bottom=0)
        drawing.name(left, title=f"{target}, by layer", x="layer", y="squared error / variance")
        seen = drawing.rows_where(tables["attention"], {"target": target})
        for colour, marker, (prefix, own) in zip(
            drawing.COLOURS[5:], drawing.MARKERS[5:], seen.groupby("examples"), strict=False
        ):
            places = own["token"].to_numpy(int) - (2 * int(str(prefix)) - 1)
            right.plot(
                places[places <= 1], own["weight"].to_numpy(float)[places <= 1], color=colour,
                marker=marker, label=f"{prefix} examples",
            )  # fmt: skip
        drawing.mark(right, 0.0, label="the last y")
        drawing.level(right, 0.5, label="half of the weight")
        right.set_ylim(0, 1)
        drawing.plain(right)
        title = f"{target}, where the MLP probe looks, layer {seen['layer'].iloc[0]}"
        drawing.name(right, title=title, x="token, counted from the last y", y="weight")
    drawing.legend(figure, axes, columns=3)
    return figure


def _decodable(target: str, reader: str) -> Premise:
    errors = f"{target}, {reader}"  # (.., S)
    return Premise(
        quantity=f"share of the variance of {target} that the {reader} probe leaves at its best "
        "layer",
        statistic=lambda m: m[errors].amin(dim=-1),
        criterion=at_most(
            UNDECODED,
            "an error of half of the target's deviation: with more, nothing was decoded that could "
            "be located, and numbers would be about the probes",
        ),
    )


def _decoded(name: str, target: str) -> Claim:
    own, without = f"{target}, {LINEAR}", f"{target}, {LINEAR}, {UNTRAINED}"  # (.., S) each
    return Claim(
        name=name,
        sentence=f"{target} is decoded accurately deep in the network, and not from its input.",
        quantity="error of the linear probe at the best layer / the lower one of its errors at the "
        "input layer, and at the best layer of an untrained model",
        statistic=lambda m: beside_untrained(m, own, without),
        criterion=at_most(
            BY_TRAINING,
            "less than half of what the input and random layers leave: most of what is known is "
            "the work of the training",
        ),
        ratio=True,
        premise=_decodable(target, LINEAR),
        excludes=(UNTRAINED, EMBEDDING),
    )


def _nonlinear(name: str, target: str) -> Claim:
    linear, mlp = (f"{target}, {reader}" for reader in (LINEAR, MLP))
    return Claim(
        name=name,
        sentence=f"{target} is encoded nonlinearly: an MLP decodes it better than a linear map.",
        quantity="error of the linear probe / of the MLP, each at its best layer",
        statistic=lambda m: m[linear].amin(dim=-1) / m[mlp].amin(dim=-1),
        criterion=at_least(1.1, "probes that know the same may differ by a tenth"),
        ratio=True,
        # Else it is true of the embedding: an MLP multiplies x and y, and a linear map does not.
        premise=_decodable(target, MLP),
        excludes=(UNTRAINED, EMBEDDING),
    )


@declare(
    paper="akyurek2022",
    id="fig4",
    title="The moment X'y and the weights w can be decoded from late layers",
    claims=(
        _decoded("moment-decoded", "X'y"),
        _decoded("weights-decoded", "w"),
        Claim(
            name="moment-first",
            sentence="X'y becomes predictable before w does.",
            quantity="layers between: from where half of the way to the best layer's error of X'y "
            "is made, to where that of w is, linear probes",
            statistic=lambda m: reached(m[f"w, {LINEAR}"]) - reached(m[f"X'y, {LINEAR}"]),
            criterion=at_least(1, "one layer later at least"),
            paper="about layers 7 and 12 of 16",
            premise=Premise(
                quantity="share of the variance that the linear probe leaves at its best layer, "
                "the larger one of both targets",
                statistic=lambda m: torch.maximum(
                    *(m[f"{target}, {LINEAR}"].amin(dim=-1) for target in TARGETS)
                ),
                criterion=_decodable("w", LINEAR).criterion,
            ),
            excludes=(UNTRAINED, EMBEDDING),
        ),
        _nonlinear("moment-nonlinear", "X'y"),
        _nonlinear("weights-nonlinear", "w"),
        Claim(
            name="attention",
            sentence="Probes look at the right token: w of the first i examples is found at y_i.",
            quantity="attention of the MLP probe for w to the last y, best layer, mean over "
            "prefixes",
            statistic=lambda m: m["attention to the last y"],
            criterion=at_least(0.5, "more than all other tokens together"),
            premise=_decodable("w", MLP),
            excludes=(UNTRAINED, EMBEDDING),
        ),
    ),
    draw=_draw_fig4,
    runs=_fig4_runs,
    nulls={UNTRAINED: untrained, EMBEDDING: embedding_alone},
    minutes={"smoke": 0.3, "laptop": 20, "paper": 5000},
    smaller={
        "smoke": "3 dimensions, 6 examples, 2 layers of width 16, 20 steps; "
        f"{STEPS['smoke']} steps of Adam for MLPs, on {PROMPTS['smoke']} prompts.",
        "laptop": "5 dimensions instead of 8, 10 examples instead of 40, 8 layers of width 64 "
        "instead of 16 of 512, 2000 steps by Muon instead of 500,000 by Adam, no curriculum; MLPs "
        f"of 64 units instead of 512, at 3, 5 and 10 examples, trained for {STEPS['laptop']} steps "
        f"on {PROMPTS['laptop']} prompts.",
    },
    notes=(
        "The linear probe is a ridge regression on all tokens that a prefix may see, in closed "
        "form; the paper's is linear in one weighted sum of them. MLPs are of such a sum, with "
        "scores learned by place, as the shape of W_p in the paper's appendix has it. Errors are "
        "over the target's variance, averaged over prefixes.",
    ),
)
def fig4(lab: Lab) -> Measures:
    """Linear and MLP probes for both targets, after each layer and at several prefixes."""
    model = lab.learner("model")
    by_reader = {reader: _probe(lab, model, reader) for reader in READERS}
    probes = {
        (target, reader): by_reader[reader][target] for target in TARGETS for reader in READERS
    }
    without = _probe(lab, untrained(lab)["model"], LINEAR)
    several = [attention_of(target, probes[target, MLP]) for target in TARGETS]
    attention = pd.concat(several, ignore_index=True)
    lab.table("attention", attention)
    # Scores are of places: no prompt changes them, and only another training would.
    last = attention_to_last(drawing.rows_where(attention, {"target": "w"}))
    return {**measures_by_layer(lab, probes, without),
            "attention to the last y": Measured.exact(last)}  # fmt: skip


def measures_by_layer(
    lab: Lab, probes: Mapping[tuple[str, str], Probing], without: Mapping[str, Probing]
) -> Measures:
    """Errors by layer, those `without` training as well; a note of targets that are not decoded.

    Errors are over the target's variance: a mean of 1 is to know its mean and nothing else.
    Prefixes count alike, whatever the size of their targets.
    """
    measures: dict[str, Measured] = {}
    for (target, reader), own in probes.items():
        for prompts, errors in (("held out", own.errors), ("training", own.training)):
            name = f"{target}, {reader}" + (", training" if prompts == "training" else "")
            means = (errors / own.variances).mean("examples")
            measures[name] = replace(
                means, label=reader, keys={"target": target, "prompts": prompts}
            )
        left, best = average(measures[f"{target}, {reader}"].values).min(dim=0)  # () each
        if left > UNDECODED:
            fitted = average(measures[f"{target}, {reader}, training"].values)[best]  # ()
            lab.note(_undecoded(f"{reader} probes for {target}", lab.seed, left, fitted))
    for target, own in without.items():
        name = f"{LINEAR}, {UNTRAINED}"
        measures[f"{target}, {name}"] = replace(
            own.relative.mean("examples"), label=name,
            keys={"target": target, "prompts": "held out"},
        )  # fmt: skip
    return measures


def _undecoded(which: str, seed: int, left: Tensor, fitted: Tensor) -> str:
    """A sentence on what is left open, and on what the probes were short of."""
    short_of = (
        "even there they fit too little" if fitted > UNDECODED else "they had too few prompts"
    )
    return (
        f"Seed {seed}: {which} leave {float(left):.2f} of the variance at their best layer, and "
        f"in training {float(fitted):.2f}: {short_of}."
    )


def _probe(lab: Lab, learner: Learner[Any], reader: str) -> Mapping[str, Probing]:
    """Probes of one kind, by target."""
    lab.tell(f"{reader} probes")
    mlp = ProbeSettings(
        reader="mlp",
        hidden=lab.choose(smoke=16, laptop=64, paper=512),
        iterations=STEPS[lab.scale],
        rate=lab.choose(smoke=1e-2, laptop=2e-3, paper=1e-4),
    )
    last = lab.config("model").points - 1
    return fit_probes(
        lab, learner, "model", TARGETS, prompts=PROMPTS[lab.scale], axis="layer",
        settings=mlp if reader == MLP else RidgeSettings(), at_steps=range(learner.steps + 1),
        at_prefixes=lab.choose(
            smoke=(2, last), laptop=(3, 5, 10), paper=(2, 4, 6, 8, 12, 16, 24, 40)
        ),
    )  # fmt: skip


def attention_of(target: str, probes: Probing) -> pd.DataFrame:
    """Weights of tokens at the layer with the lowest error, for each number of examples."""
    place = int(average(probes.relative.mean("examples").values).argmin())
    layer, prefixes = probes.errors.ticks["layer"][place], probes.errors.ticks["examples"]
    rows = [
        (target, layer, prefix, token, weight)
        for prefix, weights in zip(prefixes, probes.attention[place].tolist(), strict=True)
        for token, weight in enumerate(weights)
    ]
    return pd.DataFrame(rows, columns=["target", "layer", "examples", "token", "weight"])
