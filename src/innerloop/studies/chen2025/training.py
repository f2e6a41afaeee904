"""Beyond the paper: linear looped transformers that are trained, beside the derived weights."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, cast

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure
from torch import Tensor

from innerloop.analysis import Averages, Measured, drawing
from innerloop.core.iterate import predict
from innerloop.core.learner import Learner
from innerloop.core.prompt import Prompt
from innerloop.learners import GradientDescent
from innerloop.models.linear_looped import LinearLoopedTransformer
from innerloop.studies import nulls
from innerloop.studies.claim import Claim, Criterion, Premise, at_most, between
from innerloop.studies.lab import Lab
from innerloop.studies.runs import trained
from innerloop.studies.study import Measures, Runs, Tables, declare
from innerloop.training.families import Scale

LOOPS: dict[Scale, tuple[int, ...]] = {"smoke": (1, 4), "laptop": (1, 5, 20), "paper": (1, 5, 20)}
"""T of the models that are trained."""
ORDER = ("trained", "gradient descent, nearest step size", "gradient descent, 1/L")
AS_SEEDS = "two seeds of one model differ by about a quarter"


def _runs(scale: Scale) -> Runs:
    """The recipe with so many loops, by the error of the last one alone, until that is small.

    Where the errors of all loops count, what is fast at first is rewarded: with Q_yy and P_yy above
    their derived values y pulls more at first, and alpha falls from loop to loop. And eta grows for
    as long as a training lasts, until one prompt in thousands is beyond 2 / L: with twenty loops
    the loss of its batch is millions of times that of others, and the run counts as diverged.
    """
    return {
        str(own): trained(
            "linear-looped-vector", scale, f"model.loops={own}", "window=1", "target=0.001"
        )
        for own in LOOPS[scale]
    }


TENTH = "a tenth: that far off is what the loop then generates"
LEARNED = Premise(
    quantity="median error at n = 4 d with the most loops",
    criterion=at_most(0.05, "a twentieth of generating nothing, whose error is 1; twenty steps of "
                      "gradient descent reach a tenth of that, and what has not come near is still "
                      "on its way"),
    statistic=lambda m: m[ORDER[0]][..., -1],
)  # fmt: skip
"""Weights that do not solve the task are no solution that training has found."""
UNTRAINED, RANDOM, LOUD = "untrained", "random matrices", "Q_yy 1.65 times Q_xx"


def _part(name: str, part: str, sentence: str, criterion: Criterion) -> Claim:
    """A claim about one part of the trained matrices; all parts together are the derived ones."""
    return Claim(
        name=name, sentence=f"Training finds {sentence}.", criterion=criterion, premise=LEARNED,
        quantity=f"{part}, with the most loops", statistic=lambda m: m[part],
        excludes=(UNTRAINED, RANDOM, *([LOUD] if part == RATIO_Q else [])),
    )  # fmt: skip


APART_Q, RATIO_Q = "distance of Q from diag(c I, Q_yy) / |c I|", "Q_yy / c of Q"
APART_P, RATIO_P = "distance of P from diag(c I, P_yy) / |c I|", "P_yy / c of P"
"""Parts of the matrices, with c the mean of the diagonal of the part from x to x."""


def _made_up(lab: Lab, label: str, *, ratio: float = 1.0, random: bool = False) -> Learner[Any]:
    """A model of given weights: the derived ones but for Q_yy, or random ones."""
    model = LinearLoopedTransformer.gradient_descent(
        dims=lab.config(label).task.dims, loops=int(label), step_size=0.05, dtype=torch.float32
    )
    with torch.no_grad():
        model.query_key[-1, -1] = ratio
        if random:
            generator = lab.generator(f"random {label}")
            for matrix in (model.query_key, model.value_output):
                drawn = torch.randn(matrix.shape, generator=generator)  # (d + 1, d + 1)
                matrix.copy_(drawn / len(matrix) ** 0.5)
    return model


NULLS = {
    UNTRAINED: nulls.untrained(),
    RANDOM: nulls.instead(partial(_made_up, random=True)),
    LOUD: nulls.instead(partial(_made_up, ratio=1.65)),
}


def _worst_ratio(first: str, second: str) -> Callable[[Averages], Tensor]:
    """The largest of the ratios of two measures over all T."""
    return lambda m: (m[first] / m[second]).amax(dim=-1)


def _draw_train(tables: Tables) -> Figure:
    """Errors, how many times those of gradient descent they are, and the matrices."""
    figure, axes = drawing.panels(4, columns=2, size=(4.6, 3.2))
    curves = tables["by-loops"].assign(mean=tables["by-loops"]["median"])
    curves = curves.loc[curves["label"].isin(ORDER), :]
    drawing.draw_curves(axes[0], curves, x="loops", order=ORDER)
    y = "|<v, theta> - alpha| / |alpha|, median"
    drawing.name(axes[0], title="error after the last example", x="loops T", y=y)
    rows = drawing.rows_where(curves, {"label": ORDER[1]})
    nearest = dict(zip(rows["loops"], rows["mean"], strict=True))
    ratio = curves.assign(mean=curves["mean"] / [nearest[loops] for loops in curves["loops"]])
    drawing.draw_curves(axes[1], ratio, x="loops", order=ORDER, band=False)
    drawing.name(axes[1], title=f"error / that of {ORDER[1]}", x="loops T", y="ratio")
    for panel, matrix in zip(axes[2:], ("Q", "P"), strict=True):
        rows = drawing.rows_where(tables["weights"], {"matrix": matrix})
        values = rows.pivot(index="row", columns="column", values="value").to_numpy(float)
        places = [*range(1, len(values)), "y"]
        drawing.heatmap(
            panel, values, rows=places, columns=places, limits=(-1, 1), bar="over the largest"
        )
        for (row, column), value in np.ndenumerate(values):
            dark = "black" if value > 0.3 else "white"
            panel.text(
                column, row, f"{value:.2f}", ha="center", va="center", fontsize=7, color=dark
            )
        panel.invert_yaxis()
        derived = "derived: 1 on the diagonal" + (", 0 for y" if matrix == "P" else "")
        drawing.name(panel, title=f"trained {matrix}, most loops ({derived})", x="to", y="from")
    drawing.legend(figure, axes, columns=3)
    return figure


@declare(
    paper="chen2025",
    id="train",
    title="Trained linear looped transformers beside gradient descent",
    claims=(
        _part(
            "query-key",
            APART_Q,
            "Q near a multiple of the identity among the inputs, and no "
            "products of inputs and outputs",
            at_most(0.1, TENTH),
        ),
        _part(
            "query-key-outputs",
            RATIO_Q,
            "Q_yy as large as the rest of Q's diagonal",
            between(0.9, 1.1, f"{TENTH}: it ends at Q_yy / Q_xx times the vector"),
        ),
        _part(
            "value-output",
            APART_P,
            "P near a multiple of the identity among the inputs, and "
            "nothing from inputs to outputs or back",
            at_most(0.1, TENTH),
        ),
        _part(
            "value-output-outputs",
            RATIO_P,
            "P_yy = 0",
            between(-0.1, 0.1, f"{TENTH}: alpha is to stay as it is"),
        ),
        Claim(
            name="gradient-descent",
            sentence="It predicts as gradient descent with as many steps of one size does.",
            quantity="median squared difference from gradient descent at the nearest step size / "
            "median squared prediction, last prefix, the worst of all T",
            statistic=_worst_ratio("difference", "square"),
            criterion=at_most(0.05, "what `identify` calls explained: less than a twentieth"),
            ratio=True,
            premise=LEARNED,
            excludes=(UNTRAINED, RANDOM, LOUD),
        ),
        Claim(
            name="as-accurate",
            sentence="It is as accurate as that gradient descent.",
            quantity="median error at n = 4 d, trained / gradient descent at the nearest step "
            "size, the worst of all T",
            statistic=_worst_ratio(ORDER[0], ORDER[1]),
            criterion=at_most(1.25, AS_SEEDS),
            ratio=True,
            premise=LEARNED,
            excludes=(UNTRAINED, RANDOM, LOUD),
        ),
        Claim(
            name="more-loops",
            sentence="More loops have a lower error with a number of examples of order d.",
            quantity="median error at n = 4 d with T loops / with the next fewer, the largest of "
            "such ratios",
            statistic=lambda m: (m[ORDER[0]][..., 1:] / m[ORDER[0]][..., :-1]).amax(dim=-1),
            criterion=at_most(0.8, AS_SEEDS),
            ratio=True,
            premise=LEARNED,
            excludes=(UNTRAINED, RANDOM, LOUD),
        ),
    ),
    draw=_draw_train,
    runs=_runs,
    nulls=NULLS,
    minutes={"smoke": 0.2, "laptop": 3, "paper": 20},
    smaller={
        "smoke": "3 dimensions, 6 examples, 20 steps, 1 and 4 loops.",
        "laptop": "At most 1500 steps, instead of the 20000 of the scale `paper` (the paper trains "
        "nothing).",
    },
    notes=(
        "The answer of the last loop alone is trained, until its error is 0.001, which twenty "
        "loops reach before their steps are at an end. Without that end two of ten trainings "
        "with twenty loops blow up on a rare prompt; the others end at medians of 0.007 to 0.015. "
        "When the errors of all loops counted, they ended at Q_yy / Q_xx = 1.7 and P_yy = 0.3.",
        "With one loop Q has no part in what is learned but its last row: q starts at zero.",
        "A factor can go from Q to P and to eta: parts of a matrix are compared with each other.",
    ),
)
def train(lab: Lab) -> Measures:
    """Errors in the paper's sense, medians: one step size for all prompts fails on a few."""
    config = lab.config(str(LOOPS[lab.scale][0]))
    prompt = lab.draw(config.task, config.points)
    tuning = lab.draw(config.task, config.points, prompts=256, purpose="tune")
    by_loops: dict[str, dict[int, Measured]] = {}
    for loops in LOOPS[lab.scale]:
        learner = lab.learner(str(loops))
        nearest = nearest_descent(lab, learner, tuning)
        learners = zip(ORDER, (learner, nearest, GradientDescent(learner.steps)), strict=True)
        own, other = last_predictions(learner, prompt), last_predictions(nearest, prompt)  # (P,)
        errors = {
            **{kind: vector_errors(each, prompt) for kind, each in learners},
            "difference": (own - other).square(),
            "square": own.square(),
        }  # (P,) each
        for key, values in errors.items():
            by_loops.setdefault(key, {})[loops] = Measured(values=values, average="median")
    measures = {
        key: replace(Measured.stack("loops", each), label=key, scale="log")
        for key, each in by_loops.items()
    }
    # The study trains no other kind of model.
    most = cast(LinearLoopedTransformer, lab.model(str(LOOPS[lab.scale][-1])))
    lab.table("weights", _weights(most))
    for part, value in matrix_parts(most).items():
        measures[part] = Measured.exact(value)
    return measures


@torch.no_grad()
def vector_errors(learner: Learner[Any], prompt: Prompt) -> Tensor:
    """|<v, theta> - alpha| / |alpha| of the weights at the last prefix: (P,)."""
    vectors = learner.weights(prompt)[:, -1, :, 0]  # (P, d)
    return ((vectors * prompt.truth["w"][..., 0].double()).sum(dim=1) - 1).abs()


def nearest_descent(lab: Lab, model: Learner[Any], prompt: Prompt) -> GradientDescent:
    """Gradient descent with as many steps, of the size that comes nearest in the median."""
    lab.tell(f"gradient descent, {model.steps} steps")
    own = last_predictions(model, prompt)  # (P,)
    sizes = [2.0 ** (-exponent / 4) for exponent in range(4, 37)]  # 0.5 to 0.002
    tried = [GradientDescent(model.steps, step_size=size) for size in sizes]
    return min(tried, key=lambda one: (own - last_predictions(one, prompt)).abs().median().item())


@torch.no_grad()
def last_predictions(learner: Learner[Any], prompt: Prompt) -> Tensor:
    """Predictions at the last prefix: (P,)."""
    return predict(learner, prompt)[:, -1, 0]


def matrix_parts(model: LinearLoopedTransformer) -> dict[str, float]:
    """How far Q and P are from diag(c I, .), and what they have for the output, both over c."""
    parts: dict[str, float] = {}
    names = {"Q": (APART_Q, RATIO_Q), "P": (APART_P, RATIO_P)}
    for matrix, own in _matrices(model).items():
        dims = len(own) - 1
        c = own.diagonal()[:dims].mean()  # of any sign, which Q and P share
        near = torch.cat([c.expand(dims), own[-1:, -1]]).diag()  # (d + 1, d + 1)
        apart, ratio = names[matrix]
        parts[apart] = float((own - near).norm() / (c.abs() * dims**0.5))
        parts[ratio] = float(own[-1, -1] / c)
    return parts


def _weights(model: LinearLoopedTransformer) -> pd.DataFrame:
    """Q and P, each over its largest entry."""
    tables: list[pd.DataFrame] = []
    for matrix, own in _matrices(model).items():
        rows, columns = torch.ones_like(own).nonzero().unbind(dim=1)  # ((d + 1)^2,) each
        values = own.flatten() / own.flatten()[own.abs().argmax()]  # ((d + 1)^2,)
        entries = {"matrix": matrix, "row": rows, "column": columns, "value": values}
        tables.append(pd.DataFrame(entries))
    return pd.concat(tables, ignore_index=True)


def _matrices(model: LinearLoopedTransformer) -> dict[str, Tensor]:
    """Q and P by name: (d + 1, d + 1) each."""
    return {"Q": model.query_key.detach().double(), "P": model.value_output.detach().double()}
