"""Figure 8: what can be decoded from the hidden states, layer by layer and loop by loop."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure
from torch import Tensor

from innerloop.analysis.drawing import COLOURS
from innerloop.analysis.probe_program import ProbeSettings
from innerloop.analysis.probing import Probing, Target, least_squares, moment, probe
from innerloop.core.prompt import Prompt
from innerloop.studies.claim import Claim, Criterion
from innerloop.analysis.drawing import draw_curves, legend, level, mark, name, panels
from innerloop.studies.lab import Lab
from innerloop.studies.quantity import Quantity
from innerloop.studies.runs import standard, trained
from innerloop.studies.study import Findings, Tables, declare
from innerloop.studies.tables import curve, record, rows_where, stacked
from innerloop.studies.yang2024.comparing import bootstrapped
from innerloop.training.config import RunConfig
from innerloop.training.families import Scale

KINDS = ("looped", "standard")
TARGETS: dict[str, Target] = {"moment": moment, "weights": least_squares}
"""X'y over the number of examples, and the weights of least squares."""
TITLES = {"moment": "X'y / examples", "weights": "least-squares weights"}

MARGIN = 1.1
"""Probes that know the same may differ by a tenth."""
REFINES = Criterion(
    at_most=1 / MARGIN, reason="probes of loops that know the same may differ by a tenth"
)
MOVES_ON = Criterion(
    at_least=MARGIN, reason="the margin within which a model counts as still at its best"
)


def _fig8_runs(scale: Scale) -> Mapping[str, RunConfig]:
    # The paper's axis has 20 layers.
    stack = standard(scale, layers=20) if scale == "paper" else trained("standard-linear", scale)
    return {"looped": trained("looped-linear", scale), "standard": stack}


def with_weights_of_one(prompt: Prompt) -> Prompt:
    """The control task: the same inputs, labelled by w = (1, .., 1)."""
    return replace(prompt, ys=prompt.xs.sum(dim=2, keepdim=True), truth={})  # (B, n, 1)


def last_over_lowest(means: Tensor) -> Tensor:
    """How much worse the last of errors (.., S) is than the best of them: (..), 1 at least."""
    return means[..., -1] / means.amin(dim=-1)


def last_over_quarter(steps: Sequence[int]) -> Callable[[Tensor], Tensor]:
    """The last of errors (.., S) over that after a quarter of the last step: (..)."""
    quarter = min(range(len(steps)), key=lambda place: abs(steps[place] - steps[-1] / 4))
    return lambda means: means[..., -1] / means[..., quarter]


def _draw_fig8(tables: Tables) -> Figure:
    figure, axes = panels(2, columns=2, size=(4.2, 3.2))
    for panel, target in zip(axes, TARGETS, strict=True):
        rows = rows_where(tables["by-step"], {"target": target})
        draw_curves(panel, rows, x="step", order=KINDS, log=False)
        for kind, colour in zip(KINDS, COLOURS, strict=False):
            found = rows_where(tables["lowest"], {"label": kind, "target": target})
            control = float(found["control"].iloc[0])
            level(panel, control, label=f"{kind}: lowest of the control", colour=colour)
        mark(panel, float(tables["sizes"]["trained loops"].iloc[0]))
        panel.set_ylim(bottom=0)
        panel.set_xlim(left=0)
        name(panel, title=TITLES[target], x="layer or loop", y="squared error of the probe / d")
    legend(figure, axes, columns=3)
    return figure


def _claim(kind: str, target: str) -> Claim:
    what = {"moment": "X'y", "weights": "the least-squares weights"}[target]
    if kind == "looped":
        return Claim(
            name=f"looped-{target}",
            sentence=f"The looped model refines {what} with every loop.",
            quantity="error of the probe after b loops / after a quarter of them",
            criterion=REFINES,
            over="prompts",
            ratio=True,
        )
    return Claim(
        name=f"standard-{target}",
        sentence=f"The standard model knows {what} best in a middle layer, and moves on.",
        quantity="error of the probe after the last layer / lowest error after any layer",
        criterion=MOVES_ON,
        over="prompts",
        ratio=True,
    )


@declare(
    paper="yang2024",
    id="fig8",
    title="Probes: the loop refines X'y and the least-squares weights, the stack moves on",
    claims=(
        *(_claim(kind, target) for target in TARGETS for kind in KINDS),
        Claim(
            name="beyond-control",
            sentence="Probes find what was learned in context: they do better than control probes.",
            quantity="lowest error of the probes / lowest error of the control's, the largest of "
            "both models and both targets",
            criterion=Criterion(
                at_most=0.5,
                reason="a control probe that is perfect at w = 1 has twice the error of a probe "
                "that knows nothing of w",
            ),
            over="prompts",
            ratio=True,
        ),
    ),
    draw=_draw_fig8,
    runs=_fig8_runs,
    minutes={"smoke": 0.2, "laptop": 9, "paper": 3000},
    smaller={
        "smoke": "Hardly trained models of 3 dimensions; 20 steps on 192 prompts for each probe.",
        "laptop": "5 dimensions, width 64, 8 layers against 20 loops; probes after every layer and "
        "after eight numbers of loops, at two context lengths (5 and 10 examples), over which "
        "errors are averaged.",
    },
)
def fig8(lab: Lab) -> Findings:
    """Probe errors by layer and by loop, for both targets, with those of the control task."""
    by_step: dict[tuple[str, str], list[Tensor]] = {}
    control: dict[tuple[str, str], list[Tensor]] = {}
    measured: dict[str, list[Quantity]] = {}
    details: list[pd.DataFrame] = []
    for seed in lab.seeds:
        for kind, target in product(KINDS, TARGETS):
            lab.tell(f"probes for {TITLES[target]}, {kind}")
            found = _probe(lab, kind, target, seed)
            assert found.control is not None
            errors = _over_prefixes(found.errors.by_prompt)  # (P, S)
            by_step.setdefault((kind, target), []).append(errors)
            control.setdefault((kind, target), []).append(_over_prefixes(found.control.by_prompt))
            details.append(_with_keys(found, label=kind, target=target, seed=seed))
            within = [step for step in _steps(lab, kind) if step <= lab.model(kind).steps]
            statistic = last_over_quarter(within) if kind == "looped" else last_over_lowest
            quantity = bootstrapped(lab, statistic, errors[:, : len(within)], seed=seed)
            measured.setdefault(f"{kind}-{target}", []).append(quantity)
        pairs = [(by_step[which][-1], control[which][-1]) for which in by_step]
        measured.setdefault("beyond-control", []).append(_beyond_control(lab, pairs, seed))
    curves = [
        curve(lab, errors, "step", {"label": kind, "target": target}, places=_steps(lab, kind))
        for (kind, target), errors in by_step.items()
    ]
    loops, layers = (lab.model(kind).steps for kind in KINDS)
    return Findings(
        tables={
            "by-step": stacked(curves),
            "lowest": _lowest(by_step, control),
            "by-prefix": stacked(details),
            "sizes": record({"trained loops": [loops], "layers": [layers]}),
        },
        measured=measured,
        notes=(_how_well_fitted(details),),
    )


def _how_well_fitted(details: Sequence[pd.DataFrame]) -> str:
    """Whether the probes had steps and prompts enough, in a sentence."""
    table = stacked(details)
    held_out, training, relative = (
        table[key].to_numpy(float) for key in ("error", "training", "relative")
    )
    ratio, left = float(np.median(held_out / training)), float(relative.min())
    return (
        f"Held-out errors are {ratio:.2f} times the training errors (median over probes), and the "
        f"best probe leaves {left:.2f} of its target's variance. Near 1 they are as good as probes "
        "of this size and training get; far above it more prompts would help."
    )


def _steps(lab: Lab, kind: str) -> tuple[int, ...]:
    """After how many layers or loops hidden states are probed."""
    if kind == "standard":
        return tuple(range(1, lab.model("standard").steps + 1))
    return lab.choose(
        smoke=(1, 4, 6), laptop=(1, 2, 3, 5, 10, 15, 20, 30), paper=(*range(1, 21), 25, 30)
    )


def _probe(lab: Lab, kind: str, target: str, seed: int) -> Probing:
    """Probes for one target in one model, with those of the control task."""
    config = lab.run(kind, seed).config
    task, points = config.task, config.points
    many = lab.choose(smoke=192, laptop=8192, paper=16_384)
    training = lab.draw(task, points, seed=seed, prompts=many, purpose="probes")
    control = lab.draw(task, points, seed=seed, prompts=many, purpose="control")
    prefixes = lab.choose(
        smoke=(points - 1,), laptop=(task.dims, points - 1), paper=tuple(range(8, points, 8))
    )
    return probe(
        lab.model(kind, seed),
        training,
        TARGETS[target],
        held_out=lab.draw(task, points, seed=seed),
        control=with_weights_of_one(control),
        at_steps=_steps(lab, kind),
        at_prefixes=prefixes,
        settings=ProbeSettings(iterations=lab.choose(smoke=20, laptop=2000, paper=5000)),
        draws=lab.draws,
        seed=seed,
    )


def _over_prefixes(errors: Tensor) -> Tensor:
    """Errors (S, p, P) averaged over context lengths, as in the paper: (P, S)."""
    return errors.mean(dim=1).T


def _beyond_control(lab: Lab, pairs: Sequence[tuple[Tensor, Tensor]], seed: int) -> Quantity:
    """The largest of lowest error / lowest error of the control, of pairs of (P, S) each."""
    sizes = [errors.shape[1] for pair in pairs for errors in pair]
    values = torch.cat([errors for pair in pairs for errors in pair], dim=1)  # (P, all S)

    def largest(means: Tensor) -> Tensor:
        lowest = [part.amin(dim=-1) for part in means.split(sizes, dim=-1)]  # (..) each
        ratios = [lowest[i] / lowest[i + 1] for i in range(0, len(lowest), 2)]  # (..) each
        return torch.stack(ratios).amax(dim=0)  # (..)

    return bootstrapped(lab, largest, values, seed=seed)


def _lowest(
    by_step: Mapping[tuple[str, str], Sequence[Tensor]],
    control: Mapping[tuple[str, str], Sequence[Tensor]],
) -> pd.DataFrame:
    """The lowest errors of each model's probes, and of its control probes, over all seeds."""
    return record(
        {
            "label": [kind for kind, _ in by_step],
            "target": [target for _, target in by_step],
            "probe": [float(torch.cat(list(part)).mean(dim=0).min()) for part in by_step.values()],
            "control": [
                float(torch.cat(list(control[which])).mean(dim=0).min()) for which in by_step
            ],
        }
    )


def _with_keys(found: Probing, *, label: str, target: str, seed: int) -> pd.DataFrame:
    """What the probes found at each context length, with what tells it from others."""
    table = found.table()
    for place, (key, value) in enumerate({"label": label, "target": target, "seed": seed}.items()):
        table.insert(place, key, value)
    return table
