"""Figure 5: an AlgoFormer on linear regression beside gradient descent and Newton's method."""

from collections.abc import Mapping

import torch
from matplotlib.figure import Figure
from torch import Tensor

from innerloop.analysis.drawing import COLOURS
from innerloop.core.prompt import Prompt
from innerloop.core.task import Task
from innerloop.learners import GradientDescent, Newton
from innerloop.studies.claim import Claim, Criterion
from innerloop.analysis.drawing import draw_curves, legend, name, panels
from innerloop.studies.lab import Lab
from innerloop.studies.quantity import Quantity, estimate
from innerloop.studies.runs import noisy, trained
from innerloop.studies.study import Findings, Tables, declare
from innerloop.studies.tables import curve, rows_where, stacked
from innerloop.training.config import RunConfig
from innerloop.training.families import Scale

NOISES: dict[Scale, tuple[float, ...]] = {
    "smoke": (0.0, 0.1, 1.0),
    "laptop": (0.0, 0.1, 1.0),
    "paper": (0.0, 0.1, 1.0),
}
ITERATIONS = (5, 10, 15, 20)
OWN = "AlgoFormer"
SHORT = "AlgoFormer, T = 10"
"""The paper's second model, (T, dT) = (10, 10)."""
ALGORITHMS = {
    **{f"Newton, {steps}": Newton(steps) for steps in ITERATIONS},
    **{f"GD, {steps}": GradientDescent(steps) for steps in ITERATIONS},
}
"""Newton starts at 1 / |S S'|_F; gradient descent has the step size 1 / L of each prefix."""
COLOURED = tuple(
    label
    for steps in ITERATIONS
    for label in (OWN, f"Newton, {steps}", f"GD, {steps}", SHORT, *[""] * (len(COLOURS) - 4))
)
"""A colour for each method, and a kind of line for each number of iterations."""


def _run(label: str, noise: float) -> str:
    return f"{label}, sigma {noise:g}"


def _fig5_runs(scale: Scale) -> Mapping[str, RunConfig]:
    runs = {_run(OWN, noise): noisy("algoformer-linear", scale, noise) for noise in NOISES[scale]}
    if scale == "paper":
        short = ("model.backbone.loops=10", "window=10", "loops.start=10")
        for noise in NOISES[scale]:
            change = f"task.noise={noise:g}"
            runs[_run(SHORT, noise)] = trained("algoformer-linear", scale, change, *short)
    return runs


def _draw_fig5(tables: Tables) -> Figure:
    table = tables["by-examples"]
    noises = list(dict.fromkeys(table["sigma"]))
    figure, axes = panels(len(noises), size=(3.7, 3.5))
    for panel, noise in zip(axes, noises, strict=True):
        rows = rows_where(table, {"sigma": noise})
        of_algorithms = rows["label"].isin(list(ALGORITHMS))
        # Eight bands on top of each other cannot be told apart: the table has them.
        for kind, band in (
            (rows.loc[of_algorithms, :], False),
            (rows.loc[~of_algorithms, :], True),
        ):
            draw_curves(panel, kind, x="examples", order=COLOURED, band=band, floor=1e-5)
        name(panel, title=f"linear regression, $\\sigma$ = {noise:g}", x="in-context samples")
        panel.set_ylim(top=10.0)
    axes[0].set_ylabel("squared error / E[y²]", fontsize=9)
    legend(figure, axes, columns=5)
    return figure


def _with_noise(noise: float, *, hindsight: bool) -> Claim:
    most = f"{ITERATIONS[-1]} iterations"
    return Claim(
        name=f"{'best' if hindsight else 'better'}-at-noise-{noise:g}",
        sentence=f"With noise of sigma {noise:g} it is better than both algorithms with "
        + ("any number of iterations." if hindsight else f"{most}, as many as it has loops."),
        quantity="error averaged over all prefixes, AlgoFormer / the better of both algorithms, "
        + ("with the best number of iterations" if hindsight else f"with {most}"),
        criterion=Criterion(at_most=1.0, reason="better is lower, on the same prompts"),
        over="prompts",
        ratio=True,
    )


@declare(
    paper="gao2025",
    id="fig5",
    title="An AlgoFormer beside gradient descent and Newton's method on linear regression",
    claims=(
        Claim(
            name="ahead-of-gradient-descent-early",
            sentence="Without noise the AlgoFormer is ahead of gradient descent at first.",
            quantity="error over the prefixes of 1 to d - 1 examples, AlgoFormer / gradient "
            "descent with the best number of iterations, sigma 0",
            criterion=Criterion(at_most=1.0, reason="ahead is lower, on the same prompts"),
            over="prompts",
            ratio=True,
        ),
        Claim(
            name="ahead-of-newton-early",
            sentence="It is ahead of Newton's method at first as well.",
            quantity="error over the prefixes of 1 to d - 1 examples, AlgoFormer / Newton's method "
            "with the best number of iterations, sigma 0",
            criterion=Criterion(
                at_most=1.0,
                reason="ahead is lower, on the same prompts; Newton's method that has converged is "
                "Bayes' answer here, which nothing can be ahead of",
            ),
            over="prompts",
            ratio=True,
        ),
        Claim(
            name="newton-wins-late",
            sentence="Without noise Newton's method reaches machine precision later on, and the "
            "AlgoFormer does not.",
            quantity="median error after the last example, Newton's method with 20 iterations / "
            "AlgoFormer, sigma 0",
            criterion=Criterion(
                at_most=1e-3,
                reason="the paper has machine precision against about 1e-3; in float32 precision "
                "is about 1e-14 of squares, and a thousand times is far more than chance",
            ),
            over="prompts",
            paper="machine precision / 1e-3",
        ),
        *(_with_noise(noise, hindsight=late) for noise in (0.1, 1.0) for late in (False, True)),
    ),
    draw=_draw_fig5,
    runs=_fig5_runs,
    minutes={"smoke": 0.3, "laptop": 15, "paper": 12000},
    smaller={
        "smoke": "3 dimensions, 7 points, 20 steps; no AlgoFormer of 10 loops.",
        "laptop": "5 dimensions, 11 points, width 64, 1500 steps of a faster optimiser; no "
        "AlgoFormer of 10 loops.",
    },
)
def fig5(lab: Lab) -> Findings:
    """Error by prefix of the AlgoFormer and of both algorithms, at each level of noise."""
    curves: dict[tuple[float, str], list[Tensor]] = {}
    measured: dict[str, list[Quantity]] = {}
    for seed in lab.seeds:
        for noise in NOISES[lab.scale]:
            config = lab.run(_run(OWN, noise)).config
            prompt = lab.draw(config.task, config.points, seed=seed)
            found = _errors(lab, noise, config.task, prompt, seed)  # (P, n) each
            for label, errors in found.items():
                curves.setdefault((noise, label), []).append(errors)
            if noise > 0:
                own = with_noise(lab, found, noise, seed)
            else:
                own = without_noise(lab, found, config.task.dims, seed)
            for claim, quantity in own.items():
                measured.setdefault(claim, []).append(quantity)
    return Findings(
        tables={
            "by-examples": stacked(
                [
                    curve(lab, errors, "examples", {"sigma": noise, "label": label})
                    for (noise, label), errors in curves.items()
                ]
            )
        },
        measured=measured,
        notes=(
            "Newton's method that has converged is least squares of minimum norm, which is Bayes' "
            "answer without noise; with noise, few iterations of either algorithm act as a "
            "penalty, and the best number of them is taken with hindsight.",
        ),
    )


def _errors(lab: Lab, noise: float, task: Task, prompt: Prompt, seed: int) -> dict[str, Tensor]:
    """Errors by prefix (P, n) of the trained models and of both algorithms, by label."""
    models = (OWN, SHORT) if lab.scale == "paper" else (OWN,)
    trained_ones = {label: lab.model(_run(label, noise), seed) for label in models}
    return {
        label: lab.errors(learner, prompt, task)
        for label, learner in (trained_ones | ALGORITHMS).items()
    }


def with_noise(
    lab: Lab, found: Mapping[str, Tensor], noise: float, seed: int
) -> dict[str, Quantity]:
    """Against both algorithms with the most iterations, and with any number of them."""
    averages = {label: errors.mean(dim=1) for label, errors in found.items()}  # (P,) each
    most = {
        label: part
        for label, part in averages.items()
        if label == OWN or label.endswith(f", {ITERATIONS[-1]}")
    }
    return {
        f"better-at-noise-{noise:g}": against_best(lab, most, seed),
        f"best-at-noise-{noise:g}": against_best(lab, averages, seed),
    }


def without_noise(
    lab: Lab, found: Mapping[str, Tensor], dims: int, seed: int
) -> dict[str, Quantity]:
    """Ahead at first, behind later."""
    first = {label: errors[:, 1:dims].mean(dim=1) for label, errors in found.items()}  # (P,) each

    def against(algorithm: str) -> Quantity:
        chosen = {
            label: part for label, part in first.items() if label.startswith((OWN, algorithm))
        }
        return against_best(lab, chosen, seed)

    newton = found[f"Newton, {ITERATIONS[-1]}"][:, -1]  # (P,)
    return {
        "ahead-of-gradient-descent-early": against("GD"),
        "ahead-of-newton-early": against("Newton"),
        "newton-wins-late": lab.ratio_of_medians(newton, found[OWN][:, -1], seed=seed),
    }


def against_best(lab: Lab, parts: Mapping[str, Tensor], seed: int) -> Quantity:
    """The AlgoFormer's mean over the least mean of the algorithms, from numbers (P,) by label."""
    others = [part for label, part in parts.items() if label in ALGORITHMS]
    values = torch.stack([parts[OWN], *others], dim=1)  # (P, 1 + algorithms)
    return estimate(
        lambda means: means[..., 0] / means[..., 1:].amin(dim=-1), values, draws=lab.draws,
        generator=lab.generator("bootstrap", seed),
    )  # fmt: skip
