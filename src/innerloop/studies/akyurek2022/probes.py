"""Figure 4: what probes decode from the hidden states of a trained model, and where they look.

Shapes: p prefixes, T tokens.
"""

from collections.abc import Mapping

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure

from innerloop.analysis.probe_program import ProbeSettings
from innerloop.analysis.probing import Probing, Target, least_squares, moment, probe
from innerloop.studies.akyurek2022.probe_curves import (
    ByLayer,
    attention_to_last,
    both,
    located,
    lowest_over_first,
    reached,
    undecoded,
)
from innerloop.studies.claim import Claim, Criterion
from innerloop.analysis.drawing import draw_curves, heatmap, legend, level, name, panels
from innerloop.studies.lab import Lab
from innerloop.studies.quantity import Quantity, exact
from innerloop.studies.runs import trained
from innerloop.studies.study import Findings, Tables, declare
from innerloop.studies.tables import curve, record, rows_where, stacked
from innerloop.training.config import RunConfig
from innerloop.training.families import Scale

TARGETS: dict[str, Target] = {"X'y": moment, "w": least_squares}
MLP, LINEAR = "MLP", "linear"
READERS = (MLP, LINEAR)
DECODED = Criterion(
    at_most=0.5,
    reason="less than half of what the input layer leaves: most of what is known is the work of "
    "the layers",
)
BEATS = Criterion(at_least=1.0, reason="better, however little")
UNLESS = "; no number unless the best layer leaves less than 0.25 of the variance"
PROMPTS: dict[Scale, int] = {"smoke": 64, "laptop": 5000, "paper": 50_000}
"""That probes are trained on."""
STEPS: dict[Scale, int] = {"smoke": 20, "laptop": 500, "paper": 5000}
"""Of Adam, for probes."""


def _fig4_runs(scale: Scale) -> Mapping[str, RunConfig]:
    return {"model": trained("akyurek-linear", scale)}


def _draw_fig4(tables: Tables) -> Figure:
    figure, axes = panels(4, columns=2, size=(4.6, 3.2))
    for row, target in enumerate(TARGETS):
        left, right = axes[2 * row], axes[2 * row + 1]
        rows = rows_where(tables["by-layer"], {"target": target})
        draw_curves(left, rows, x="layer", order=READERS, log=False)
        level(left, 1.0, label="the mean of the target alone")
        left.set_ylim(bottom=0)
        name(left, title=f"{target}, by layer", x="layer", y="squared error / variance")
        seen = rows_where(tables["attention"], {"target": target})
        grid = seen.pivot(index="token", columns="examples", values="weight")
        tokens = [f"{'xy'[int(place) % 2]}{int(place) // 2 + 1}" for place in grid.index]
        heatmap(
            right, np.nan_to_num(grid.to_numpy(float)), rows=tokens, columns=list(grid.columns),
            best={column: 2 * int(seen_y) - 1 for column, seen_y in enumerate(grid.columns)},
            bar="weight; framed: the last y",
        )  # fmt: skip
        layer = int(seen["layer"].to_numpy(int)[0])
        name(right, title=f"{target}, where the MLP probe looks, layer {layer}",
             x="examples of the target", y="token")  # fmt: skip
    legend(figure, axes, columns=3)
    return figure


@declare(
    paper="akyurek2022",
    id="fig4",
    title="The moment X'y and the weights w can be decoded from late layers",
    claims=(
        Claim(
            name="moment-decoded",
            sentence="X'y is decoded accurately deep in the network, and not from its input.",
            quantity=f"error of the MLP probe at the best layer / at the input layer{UNLESS}",
            criterion=DECODED,
            over="prompts",
            ratio=True,
        ),
        Claim(
            name="weights-decoded",
            sentence="w is decoded accurately deep in the network, and not from its input.",
            quantity=f"error of the MLP probe at the best layer / at the input layer{UNLESS}",
            criterion=DECODED,
            over="prompts",
            ratio=True,
        ),
        Claim(
            name="moment-first",
            sentence="X'y becomes predictable before w does.",
            quantity="layers between: from where half of the way to the best layer's error of X'y "
            f"is made, to where that of w is{UNLESS}, for both",
            criterion=Criterion(at_least=1, reason="one layer later at least"),
            over="prompts",
            paper="about layers 7 and 12 of 16",
        ),
        Claim(
            name="moment-nonlinear",
            sentence="X'y is encoded nonlinearly: an MLP decodes it better than a linear map.",
            quantity="error of the linear probe / of the MLP, each at its best layer",
            criterion=BEATS,
            over="prompts",
            ratio=True,
        ),
        Claim(
            name="weights-nonlinear",
            sentence="w is encoded nonlinearly: an MLP decodes it better than a linear map.",
            quantity="error of the linear probe / of the MLP, each at its best layer",
            criterion=BEATS,
            over="prompts",
            ratio=True,
        ),
        Claim(
            name="attention",
            sentence="Probes look at the right token: w of the first i examples is found at y_i.",
            quantity="attention of the MLP probe for w to the last y, best layer, mean over "
            f"prefixes{UNLESS}",
            criterion=Criterion(at_least=0.5, reason="more than all other tokens together"),
            over="seeds",
        ),
    ),
    draw=_draw_fig4,
    runs=_fig4_runs,
    minutes={"smoke": 0.2, "laptop": 13, "paper": 5000},
    smaller={
        "smoke": "3 dimensions, 6 examples, 2 layers of width 16, 20 steps; "
        f"{STEPS['smoke']} steps of Adam for probes on {PROMPTS['smoke']} prompts.",
        "laptop": "5 dimensions instead of 8, 10 examples instead of 40, 8 layers of width 64 "
        "instead of 16 of 512; MLPs of 64 units instead of 512, at 3, 5 and 10 "
        f"examples, trained for {STEPS['laptop']} steps on {PROMPTS['laptop']} prompts.",
    },
)
def fig4(lab: Lab) -> Findings:
    """Linear and MLP probes for both targets, after each layer and at several prefixes."""
    measured: dict[str, list[Quantity]] = {claim.name: [] for claim in fig4.claims}
    first: dict[tuple[str, str], Probing] = {}
    by_target: dict[str, list[ByLayer]] = {target: [] for target in TARGETS}
    for seed in lab.seeds:
        found = {
            (target, reader): _probe(lab, target, reader, seed)
            for target in TARGETS
            for reader in READERS
        }
        first = first or found
        curves = {key: ByLayer.of(one) for key, one in found.items()}
        for target, several in by_target.items():
            several.append(curves[target, MLP])
        for claim, quantity in claims_by_layer(lab, curves, seed).items():
            measured[claim].append(quantity)
        weights = curves["w", MLP]
        # Scores are of places: no prompt changes them, and only another training would.
        looks = exact(attention_to_last(found["w", MLP], weights.best))
        measured["attention"].append(located(looks, weights))
    return Findings(
        tables={
            "by-layer": stacked([_layers(lab, *key, one) for key, one in first.items()]),
            "attention": stacked([_attention(key, first[key, MLP]) for key in TARGETS]),
        },
        measured=measured,
        notes=(
            "Scores of probes are learned by place, as the shape of W_p in the paper's appendix "
            "has it. Errors are over the target's variance, averaged over prefixes.",
            *undecoded(by_target),
        ),
    )


def claims_by_layer(
    lab: Lab, curves: Mapping[tuple[str, str], ByLayer], seed: int
) -> dict[str, Quantity]:
    """What is claimed of errors by layer, by claim."""
    measured: dict[str, Quantity] = {}
    for word, target in (("moment", "X'y"), ("weights", "w")):
        mlp, linear = curves[target, MLP], curves[target, LINEAR]
        gain = both(lab, lambda own, _: lowest_over_first(own), mlp, linear, seed)
        measured[f"{word}-decoded"] = located(gain, mlp)
        # Of the two readers, and not of a place: it stays as it was measured.
        measured[f"{word}-nonlinear"] = both(
            lab, lambda own, plain: plain.amin(dim=-1) / own.amin(dim=-1), mlp, linear, seed
        )
    weights, moments = curves["w", MLP], curves["X'y", MLP]
    later = both(lab, lambda own, other: reached(own) - reached(other), weights, moments, seed)
    measured["moment-first"] = located(later, weights, moments)
    return measured


def _probe(lab: Lab, target: str, reader: str, seed: int) -> Probing:
    """Train probes of one kind for one target."""
    lab.tell(f"{reader} probes for {target}")
    config, model = lab.run("model", seed).config, lab.model("model", seed)
    settings = ProbeSettings(
        reader="mlp" if reader == MLP else "linear",
        hidden=lab.choose(smoke=16, laptop=64, paper=512),
        iterations=STEPS[lab.scale],
        rate=lab.choose(smoke=1e-2, laptop=2e-3, paper=1e-4),
    )
    number = PROMPTS[lab.scale]
    points = config.points
    return probe(
        model,
        lab.draw(config.task, points, seed=seed, prompts=number, purpose="probes"),
        TARGETS[target],
        held_out=lab.draw(config.task, points, seed=seed),
        at_prefixes=lab.choose(
            smoke=(2, points - 1), laptop=(3, 5, 10), paper=(2, 4, 6, 8, 12, 16, 24, 40)
        ),
        settings=settings,
        draws=lab.draws,
        seed=seed,
    )


def _layers(lab: Lab, target: str, reader: str, found: Probing) -> pd.DataFrame:
    own = ByLayer.of(found)
    keys = {"target": target, "label": reader}
    table = curve(lab, own.errors, "layer", keys, places=found.steps.tolist())
    return table.assign(training=own.training.numpy())


def _attention(target: str, found: Probing) -> pd.DataFrame:
    """Weights of tokens at the best layer, for each number of examples."""
    layer = ByLayer.of(found).best
    weights = found.attention[layer]  # (p, T)
    prefixes, tokens = weights.shape
    return record(
        {
            "target": [target] * weights.numel(),
            "layer": [int(found.steps[layer])] * weights.numel(),
            "examples": found.prefixes.repeat_interleave(tokens).tolist(),
            "token": torch.arange(tokens).repeat(prefixes).tolist(),
            "weight": weights.flatten().tolist(),
        }
    )
