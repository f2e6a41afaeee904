"""Figure 5: an AlgoFormer on linear regression beside gradient descent and Newton's method."""

from dataclasses import replace

import torch
from matplotlib.figure import Figure

from innerloop.analysis import Averages, Measured, Statistic, drawing
from innerloop.analysis.drawing import COLOURS, ERROR
from innerloop.analysis.similarity import predict_in_parts
from innerloop.learners import GradientDescent, Newton, Ridge
from innerloop.studies import nulls
from innerloop.studies.claim import Claim, Criterion, Premise, at_most
from innerloop.studies.gao2025 import samples
from innerloop.studies.gao2025.samples import ALGOFORMER as OWN
from innerloop.studies.gao2025.samples import with_noise
from innerloop.studies.lab import Lab
from innerloop.studies.runs import trained
from innerloop.studies.study import Measures, Runs, Scale, Tables, declare

NOISES = (0.0, 0.1, 1.0)
STEPS = {0.0: 2500, 0.1: 2500, 1.0: 5000}
"""At laptop scale, by noise."""
ITERATIONS = (5, 10, 15, 20)
SHORT = "AlgoFormer, T = 10"
"""The paper's second model, (T, dT) = (10, 10)."""
ALGORITHMS = {
    **{f"Newton, {steps}": Newton(steps) for steps in ITERATIONS},
    **{f"GD, {steps}": GradientDescent(steps) for steps in ITERATIONS},
}
"""Newton starts at 1 / |S S'|_F; gradient descent has the step size 1 / L of each prefix."""
AHEAD = 0.99
"""Lower on the same prompts; by a hundredth, as no algorithm is ahead of itself."""
FIRST = f"{ITERATIONS[-1]} steps"
NULLS = {
    "untrained": nulls.untrained(),
    f"gradient descent, {FIRST}": nulls.instead(lambda lab, label: GradientDescent(ITERATIONS[-1])),
    f"Newton's method, {FIRST}": nulls.instead(lambda lab, label: Newton(ITERATIONS[-1])),
}
"""What takes the AlgoFormer's place: it is not ahead of the algorithms, being one of them."""
COLOURED = tuple(
    label
    for steps in ITERATIONS
    for label in (OWN, f"Newton, {steps}", f"GD, {steps}", SHORT, *[""] * (len(COLOURS) - 4))
)
"""A colour for each method, and a kind of line for each number of iterations."""


def _fig5_runs(scale: Scale) -> Runs:
    models: dict[str, tuple[str, ...]] = {OWN: ()}
    if scale == "paper":
        models[SHORT] = ("model.backbone.loops=10", "window=10", "loops.start=10")
    return {
        with_noise(label, noise): trained(
            "algoformer-linear", scale, f"task.noise={noise:g}", *changes, *_longer(scale, noise)
        )
        for label, changes in models.items()
        for noise in NOISES
    }


def _longer(scale: Scale, noise: float) -> tuple[str, ...]:
    """What replaces the recipe's steps and rate at laptop scale.

    With as many steps its rate leaves twice as much above the best answer to noisy functions, and
    the noisiest take twice the steps (docs/LOG.md).
    """
    if scale != "laptop":
        return ()
    return f"steps={STEPS[noise]}", "optimizer.matrix_rate=0.01"


def _draw_fig5(tables: Tables) -> Figure:
    table = tables["by-examples"]
    own = ~table["label"].isin(list(ALGORITHMS))
    # Eight bands on top of each other cannot be told apart: the table has them.
    table = table.assign(own=own, low=table["low"].where(own), high=table["high"].where(own))
    figure, axes = drawing.facets(
        table.sort_values("own", kind="stable"), "sigma", x="examples", order=COLOURED, floor=1e-5,
        title=lambda noise: f"linear regression, $\\sigma$ = {noise:g}",
        names=(samples.SAMPLES, ERROR), size=(3.7, 3.5),
    )  # fmt: skip
    for panel in axes.values():
        panel.set_ylim(top=10.0)
    drawing.legend(figure, axes.values(), columns=5)
    return figure


def _against_best(noise: float, *, beginning: str = "", ending: str = "") -> Statistic:
    """The AlgoFormer's error over the least of the algorithms whose labels begin and end so."""
    labels = [each for each in ALGORITHMS if each.startswith(beginning) and each.endswith(ending)]

    def statistic(m: Averages) -> torch.Tensor:
        own, *errors = (m[f"{with_noise(label, noise)}, compared"] for label in (OWN, *labels))
        return own / torch.stack(errors).amin(dim=0)

    return statistic


def _learned(noise: float) -> Premise:
    """That the AlgoFormer has learned linear regression at this level of noise."""
    return Premise(
        quantity="excess over ridge regression with the noise's penalty after the last example, "
        f"sigma {noise:g}",
        criterion=samples.LEARNED, statistic=lambda m: m[f"{with_noise(OWN, noise)}, excess"],
    )  # fmt: skip


def _ahead(why: str = "") -> Criterion:
    return at_most(AHEAD, f"ahead is lower, on the same prompts; nothing is ahead of itself{why}")


def _better(noise: float) -> Claim:
    most = f"{ITERATIONS[-1]} iterations"
    return Claim(
        name=f"better-at-noise-{noise:g}", ratio=True,
        sentence=f"With noise of sigma {noise:g} it is better than both algorithms with {most}, as "
        "many as it has loops.",
        quantity="error averaged over all prefixes, AlgoFormer / the better of both algorithms, "
        f"with {most}",
        statistic=_against_best(noise, ending=f", {ITERATIONS[-1]}"), criterion=_ahead(),
        premise=_learned(noise), excludes=tuple(NULLS),
    )  # fmt: skip


@declare(
    paper="gao2025", id="fig5",
    title="An AlgoFormer beside gradient descent and Newton's method on linear regression",
    claims=(
        Claim(
            name="ahead-of-gradient-descent-early", ratio=True,
            sentence="Without noise the AlgoFormer is ahead of gradient descent at first.",
            quantity="error over the prefixes of 1 to d - 1 examples, AlgoFormer / gradient "
            "descent with the best number of iterations, sigma 0",
            statistic=_against_best(0.0, beginning="GD"),
            criterion=_ahead(), premise=_learned(0.0), excludes=tuple(NULLS)[:2],
        ),
        Claim(
            name="ahead-of-newton-early", ratio=True,
            sentence="It is ahead of Newton's method at first as well.",
            quantity="error over the prefixes of 1 to d - 1 examples, AlgoFormer / Newton's method "
            "with the best number of iterations, sigma 0",
            statistic=_against_best(0.0, beginning="Newton"),
            criterion=_ahead("; Newton's method that has converged is Bayes' answer here, which "
                             "nothing can be ahead of"),
            premise=_learned(0.0), excludes=tuple(NULLS),
        ),
        Claim(
            name="newton-wins-late", ratio=True, paper="machine precision / 1e-3",
            sentence="Without noise Newton's method reaches machine precision later on, and the "
            "AlgoFormer does not.",
            quantity="median error after the last example, Newton's method with 20 iterations / "
            "AlgoFormer, sigma 0",
            statistic=samples.over("Newton, 20, at the end", f"{OWN}, at the end"),
            criterion=at_most(1e-3, "the paper has machine precision against about 1e-3; in "
                              "float32 precision is about 1e-14 of squares, and a thousand times "
                              "is far more than chance"),
            premise=_learned(0.0), excludes=("untrained", f"Newton's method, {FIRST}"),
        ),
        *map(_better, (0.1, 1.0)),
    ),
    nulls=NULLS, draw=_draw_fig5, runs=_fig5_runs,
    minutes={"smoke": 0.3, "laptop": 18, "paper": 12000},
    smaller={
        "smoke": "3 dimensions, 7 points, 20 steps; no AlgoFormer of 10 loops.",
        "laptop": "5 dimensions, 11 points, 2500 steps of a faster optimiser (Muon), 5000 with "
        "sigma 1, width 64, 4 heads, 20 loops of which 10 count and which grow from 4 in training, "
        "all points from the start, y in a place of its own; no AlgoFormer of 10 loops.",
    },
    notes=(
        "Newton's method that has converged is least squares of minimum norm, which is Bayes' "
        "answer without noise; with noise, few iterations of either algorithm act as a "
        "penalty, and some number of them, known with hindsight, is better than 20.",
    ),
)  # fmt: skip
def fig5(lab: Lab) -> Measures:
    """Error by prefix of the AlgoFormer and of both algorithms, at each level of noise.

    Claims compare, with noise, the mean over all prefixes; without, that over 1 to d - 1 examples,
    and the median at the end.
    """
    models = (OWN, SHORT) if lab.scale == "paper" else (OWN,)
    measures: dict[str, Measured] = {}
    for noise in NOISES:
        config = lab.config(with_noise(OWN, noise))
        prompt = lab.draw(config.task, config.points)
        learners = {label: lab.learner(with_noise(label, noise)) for label in models}
        # Models are asked as they were trained: the best answers are what theirs are compared with,
        # and stand in no prompt that a model reads.
        right = replace(prompt, ys=predict_in_parts(Ridge(noise**2), prompt))
        own = predict_in_parts(learners[OWN], prompt)  # (P, n, 1)
        excess = samples.distances(own, right, config.task)  # (P, n)
        measures[f"{with_noise(OWN, noise)}, excess"] = excess.at(examples=-1)
        for label, learner in {**learners, **ALGORITHMS}.items():
            errors = lab.error(learner, prompt, config.task, label=label)
            part = errors if noise else errors.at(examples=slice(1, config.task.dims))
            name = with_noise(label, noise)
            measures[name] = replace(errors, keys={"sigma": noise})
            measures[f"{name}, compared"] = part.mean("examples")
            if noise == 0:
                measures[f"{label}, at the end"] = replace(errors.at(examples=-1), average="median")
    return measures
