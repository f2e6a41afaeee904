"""Figure 4: what probes decode from the hidden states of a trained model, and where they look.

Shapes: S layers, p prefixes, T tokens.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure
from torch import Tensor

from innerloop.analysis import Averages, Measured, Statistic, drawing
from innerloop.analysis.intervals import average
from innerloop.analysis.probing import ProbeSettings, Probing, Target, least_squares, moment, probe
from innerloop.studies.akyurek2022.agreement import linear_runs
from innerloop.studies.claim import Claim, at_least, at_most
from innerloop.studies.lab import Lab
from innerloop.studies.study import Measures, Scale, Tables, declare

TARGETS: dict[str, Target] = {"X'y": moment, "w": least_squares}
READERS = MLP, LINEAR = "MLP", "linear"
UNLESS = "; no number unless the best layer leaves less than 0.25 of the variance"
PROMPTS: dict[Scale, int] = {"smoke": 64, "laptop": 5000, "paper": 50_000}
"""That probes are trained on."""
STEPS: dict[Scale, int] = {"smoke": 20, "laptop": 500, "paper": 5000}
"""Of Adam, for probes."""


UNDECODED = 0.25
"""The share of the variance at which a probe has decoded nothing that could be located: its error
is half of the target's deviation. What a place adds to it is then a matter of the probe."""


def reached(means: Tensor) -> Tensor:
    """The first layer with at most the mean of the first and the lowest error: (..) of (.., S)."""
    half = (means[..., :1] + means.amin(dim=-1, keepdim=True)) / 2  # (.., 1)
    # The first of the largest: argmax of what is true.
    return (means <= half).double().argmax(dim=-1).double()


def located(statistic: Statistic, *targets: str) -> Statistic:
    """What probes say of a place; no number where those of a target have decoded too little."""

    def where_decoded(m: Averages) -> Tensor:
        value = statistic(m)  # (..)
        for target in targets:
            value = torch.where(m[f"{target} is decoded"] > 0, value, torch.nan)  # (..)
        return value

    return where_decoded


def attention_to_last(attention: pd.DataFrame) -> float:
    """What probes give to the y of their last example, averaged over prefixes."""
    last = 2 * attention["examples"] - 1  # x_1 y_1 x_2 .., counted from 0
    return float(attention["weight"].to_numpy(float)[attention["token"] == last].mean())


def _draw_fig4(tables: Tables) -> Figure:
    figure, axes = drawing.panels(4, columns=2, size=(4.6, 3.2))
    for row, target in enumerate(TARGETS):
        left, right = axes[2 * row], axes[2 * row + 1]
        keys = {"target": target, "prompts": "held out"}
        rows = drawing.rows_where(tables["by-layer"], keys)
        drawing.draw_curves(left, rows, x="layer", order=READERS, log=False)
        drawing.level(left, 1.0, label="the mean of the target alone")
        left.set_ylim(bottom=0)
        drawing.name(left, title=f"{target}, by layer", x="layer", y="squared error / variance")
        seen = drawing.rows_where(tables["attention"], {"target": target})
        grid = seen.pivot(index="token", columns="examples", values="weight")
        tokens = [f"{'xy'[int(place) % 2]}{int(place) // 2 + 1}" for place in grid.index]
        drawing.heatmap(
            right, np.nan_to_num(grid.to_numpy(float)), rows=tokens, columns=list(grid.columns),
            best={column: 2 * int(seen_y) - 1 for column, seen_y in enumerate(grid.columns)},
            bar="weight; framed: the last y",
        )  # fmt: skip
        title = f"{target}, where the MLP probe looks, layer {seen['layer'].iloc[0]}"
        drawing.name(right, title=title, x="examples of the target", y="token")
    drawing.legend(figure, axes, columns=3)
    return figure


def _decoded(name: str, target: str) -> Claim:
    errors = f"{target}, {MLP}"  # (.., S)
    return Claim(
        name=name,
        sentence=f"{target} is decoded accurately deep in the network, and not from its input.",
        quantity=f"error of the MLP probe at the best layer / at the input layer{UNLESS}",
        statistic=located(lambda m: m[errors].amin(dim=-1) / m[errors][..., 0], target),
        criterion=at_most(
            0.5,
            "less than half of what the input layer leaves: most of what is known is the work of "
            "the layers",
        ),
        ratio=True,
    )


def _nonlinear(name: str, target: str) -> Claim:
    """Of the two readers, and not of a place: it needs nothing decoded."""
    linear, mlp = (f"{target}, {reader}" for reader in (LINEAR, MLP))
    return Claim(
        name=name,
        sentence=f"{target} is encoded nonlinearly: an MLP decodes it better than a linear map.",
        quantity="error of the linear probe / of the MLP, each at its best layer",
        statistic=lambda m: m[linear].amin(dim=-1) / m[mlp].amin(dim=-1),
        criterion=at_least(1.0, "better, however little"),
        ratio=True,
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
            f"is made, to where that of w is{UNLESS}, for both",
            statistic=located(
                lambda m: reached(m[f"w, {MLP}"]) - reached(m[f"X'y, {MLP}"]), *TARGETS
            ),
            criterion=at_least(1, "one layer later at least"),
            paper="about layers 7 and 12 of 16",
        ),
        _nonlinear("moment-nonlinear", "X'y"),
        _nonlinear("weights-nonlinear", "w"),
        Claim(
            name="attention",
            sentence="Probes look at the right token: w of the first i examples is found at y_i.",
            quantity="attention of the MLP probe for w to the last y, best layer, mean over "
            f"prefixes{UNLESS}",
            statistic=located(lambda m: m["attention to the last y"], "w"),
            criterion=at_least(0.5, "more than all other tokens together"),
        ),
    ),
    draw=_draw_fig4,
    runs=linear_runs,
    minutes={"smoke": 0.2, "laptop": 13, "paper": 5000},
    smaller={
        "smoke": "3 dimensions, 6 examples, 2 layers of width 16, 20 steps; "
        f"{STEPS['smoke']} steps of Adam for probes on {PROMPTS['smoke']} prompts.",
        "laptop": "5 dimensions instead of 8, 10 examples instead of 40, 8 layers of width 64 "
        "instead of 16 of 512; MLPs of 64 units instead of 512, at 3, 5 and 10 "
        f"examples, trained for {STEPS['laptop']} steps on {PROMPTS['laptop']} prompts.",
    },
    notes=(
        "Scores of probes are learned by place, as the shape of W_p in the paper's appendix "
        "has it. Errors are over the target's variance, averaged over prefixes.",
    ),
)
def fig4(lab: Lab) -> Measures:
    """Linear and MLP probes for both targets, after each layer and at several prefixes."""
    probes = {
        (target, reader): _probe(lab, target, reader) for target in TARGETS for reader in READERS
    }
    several = [attention_of(target, probes[target, MLP]) for target in TARGETS]
    attention = pd.concat(several, ignore_index=True)
    lab.table("attention", attention)
    # Scores are of places: no prompt changes them, and only another training would.
    last = attention_to_last(drawing.rows_where(attention, {"target": "w"}))
    return {**measures_by_layer(lab, probes), "attention to the last y": Measured.exact(last)}


def measures_by_layer(lab: Lab, probes: Mapping[tuple[str, str], Probing]) -> Measures:
    """Errors by layer, and whether each target is decoded; a note of those that are not.

    Errors are over the target's variance: a mean of 1 is to know its mean and nothing else.
    Prefixes count alike, whatever the size of their targets.
    """
    measures: dict[str, Measured] = {}
    for (target, reader), own in probes.items():
        for prompts, errors in (("held out", own.errors), ("training", own.training)):
            name = f"{target}, {reader}" + (", training" if prompts == "training" else "")
            means = (errors / own.variances).mean("examples")
            measures[name] = replace(means, keys={"target": target, "prompts": prompts})
    for target in TARGETS:
        left, best = average(measures[f"{target}, {MLP}"].values).min(dim=0)  # () each
        measures[f"{target} is decoded"] = Measured.exact(float(left < UNDECODED))
        if left >= UNDECODED:
            fitted = average(measures[f"{target}, {MLP}, training"].values)[best]  # ()
            lab.note(_undecoded(target, lab.seed, float(left), float(fitted)))
    return measures


def _undecoded(target: str, seed: int, left: float, fitted: float) -> str:
    """A sentence on what is left open, and on what the probes were short of."""
    short_of = (
        "they fit too little, and more steps or a larger probe may help, not more prompts"
        if fitted >= UNDECODED
        else "they had too few prompts"
    )
    return (
        f"MLP probes for {target}{f' (seed {seed})' if seed else ''} leave {left:.2f} of "
        f"its variance at their best layer. With {UNDECODED:g} or more nothing was decoded "
        f"that could be located, and claims of where {target} is are left open: their numbers "
        f"would be about the probes. In training they leave {fitted:.2f}: {short_of}."
    )


def _probe(lab: Lab, target: str, reader: str) -> Probing:
    """Train probes of one kind for one target."""
    lab.tell(f"{reader} probes for {target}")
    task, points = lab.config("model").task, lab.config("model").points
    settings = ProbeSettings(
        reader="mlp" if reader == MLP else "linear",
        hidden=lab.choose(smoke=16, laptop=64, paper=512),
        iterations=STEPS[lab.scale],
        rate=lab.choose(smoke=1e-2, laptop=2e-3, paper=1e-4),
    )
    prefixes = lab.choose(
        smoke=(2, points - 1), laptop=(3, 5, 10), paper=(2, 4, 6, 8, 12, 16, 24, 40)
    )
    return probe(
        lab.learner("model"),
        lab.draw(task, points, prompts=PROMPTS[lab.scale], purpose="probes"),
        TARGETS[target],
        held_out=lab.draw(task, points),
        at_prefixes=prefixes, axis="layer", label=reader, settings=settings, seed=lab.seed,
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
