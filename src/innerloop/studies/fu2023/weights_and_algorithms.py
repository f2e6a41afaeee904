"""Figures 7, 9 and 10: of all candidates, layers are most like Newton's method.

Figures 7 and 10 have it by induced weights (SimW), figure 9 by errors (SimE) as well.
"""

from dataclasses import replace

from matplotlib.figure import Figure

from innerloop.analysis import Measured, drawing, induced_weights
from innerloop.analysis.drawing import EXAMPLES
from innerloop.analysis.similarity import weight_cosines
from innerloop.core.iterate import iterate
from innerloop.learners import OLS, GradientDescent, OnlineGradientDescent, Ridge, Strided
from innerloop.learners.in_turn import InTurn
from innerloop.studies.claim import Claim, at_most
from innerloop.studies.fu2023 import layer_trends, model_layers
from innerloop.studies.fu2023.heatmaps import ORDER, best_steps, draw_matches, draw_similarity
from innerloop.studies.fu2023.layer_matches import fig3
from innerloop.studies.fu2023.layer_trends import MEASURES
from innerloop.studies.fu2023.model_layers import DESCENT, LEAST, MODEL, NEWTON, ONLINE
from innerloop.studies.fu2023.stand_ins import (
    LAST_ERROR,
    LEARNED,
    MANY,
    UNTRAINED,
    excluded_by,
    in_strides,
)
from innerloop.studies.lab import Lab
from innerloop.studies.nulls import instead
from innerloop.studies.study import Measures, Tables, declare

ALGORITHMS = (NEWTON, DESCENT, ONLINE, LEAST)
EARLY = 6
"""One layer in so many has learned nothing yet: figure 10 shows layer 2 of 12."""


def early_layer(layers: int) -> int:
    """The layer at the same part of the depth as the paper's layer 2 of 12; never below the first.

    Of 12 layers it is 2, of 8 it is 1.
    """
    return max(1, round(layers / EARLY))


def _draw_fig7(tables: Tables) -> Figure:
    curves = tables["by-layer-examples"]
    layers = list(dict.fromkeys(curves["layer"]))
    figure, axes = drawing.panels(3 + len(layers), columns=3, size=(4.0, 3.3))
    draw_similarity(axes[0], tables, "SimW", NEWTON)
    draw_similarity(axes[1], tables, "SimW", DESCENT)
    draw_matches(axes[2], tables, "SimW")
    best = {algorithm: best_steps(tables, "SimW", algorithm) for algorithm in (NEWTON, DESCENT)}
    for panel, layer in zip(axes[3:], layers, strict=True):
        # Of cosines, which end at 1, seeds as far apart as these have no sensible interval.
        rows = drawing.rows_where(curves, {"layer": layer})
        rows = rows.assign(low=rows["seed low"], high=rows["seed high"])
        drawing.draw_curves(panel, rows, x="examples", order=ORDER, log=False)
        if rows["mean"].to_numpy(float).max() < 0.5:  # like none: not to be seen in close-up
            panel.set_ylim(-0.1, 1.05)
        steps = f"Newton {best[NEWTON][layer]:.3g}, descent {best[DESCENT][layer]:.3g}"
        drawing.name(panel, title=f"layer {layer} ({steps})", x=EXAMPLES, y="SimW (band: seeds)")
    drawing.legend(figure, axes)
    return figure


ONE_STEP = "gradient descent, 1 step per layer"
PENALISED = "ridge regression with the penalty d"
_FIG7 = (
    *layer_trends.trend_claims("SimW"),
    Claim(
        name="early-layer",
        sentence="After a sixth of the layers (layer 2 of 12) nothing is learned yet: there is no "
        "similarity to any algorithm.",
        quantity="SimW of the layer after a sixth of the depth with the algorithm that it is most "
        "like",
        statistic=lambda m: m["most like"],
        criterion=at_most(
            0.2, "the paper says zero; at a cosine of 0.2 a twenty-fifth of the square is shared"
        ),
        paper="0",
        premise=LEARNED,
        excludes=(UNTRAINED, MANY, ONE_STEP),
    ),
    Claim(
        name="last-layer-least-squares",
        sentence="The last layer computes least squares, given more than one example.",
        quantity="what SimW of the last layer with least squares is short of 1, over the same of "
        "gradient descent with one step per layer; means over two examples and more",
        statistic=lambda m: (
            (1 - m[LEAST][..., -1, 1:].mean(dim=-1)) / (1 - m[ONE_STEP][..., 1:].mean(dim=-1))
        ),
        criterion=at_most(
            0.5,
            "half of what the known construction leaves, a gradient step per attention layer: a "
            "cosine of 0.9 is reached by a few steps, by ridge regression and by online descent",
        ),
        ratio=True,
        premise=LEARNED,
        excludes=(UNTRAINED, ONE_STEP, PENALISED),
    ),
)


def _penalised(lab: Lab, label: str) -> Strided:
    """Complete at once, so that every layer is the same."""
    return Strided(Ridge(lab.config(label).task.dims), (1,) * lab.untrained(label).steps)


@declare(
    paper="fu2023",
    id="fig7",
    also=("fig10",),
    title="By induced weights, too, layers match Newton's iterations linearly",
    claims=_FIG7,
    nulls={
        **excluded_by(_FIG7),
        ONE_STEP: in_strides(lambda _, layers: [1] * layers),
        PENALISED: instead(_penalised, MODEL),
    },
    draw=_draw_fig7,
    runs=model_layers.standard_runs,
    minutes={"smoke": 0.2, "laptop": 9, "desk": 45, "paper": 2500},
    smaller=fig3.smaller,
    notes=(layer_trends.RATE, *fig3.notes),
)
def fig7(lab: Lab) -> Measures:
    """SimW of every layer with every step, and by the number of examples at three layers."""
    layers = model_layers.read_layers(lab, MODEL)
    number = layers.learner.steps
    lab.note(f"The paper's layer 2 of 12 is layer {early_layer(number)} of {number} here.")
    known = model_layers.algorithms(lab, *ALGORITHMS)
    trends = layer_trends.trends_of(lab, layers, known, "SimW")
    both = {key: trend for key, trend in trends.items() if key[1] in (NEWTON, DESCENT)}
    one_step = weight_cosines(
        GradientDescent(number).weights(layers.prompt), OLS().weights(layers.prompt)
    )  # (P, n)
    return {
        **layer_trends.measures_of(lab, both),
        **_by_examples(lab, layers, trends),
        ONE_STEP: Measured(values=one_step[:, 1:], axes=("from one example",)),
        "most like": most_like(trends),
        LAST_ERROR: layers.last_error,
    }


def most_like(trends: layer_trends.Trends) -> Measured:
    """The similarity of the early layer with the algorithm that it is most like."""
    several = [
        trend.at_best.at(layer=early_layer(len(trend.best)) - 1) for trend in trends.values()
    ]
    return max(several, key=lambda each: float(each.values.mean()))


def _by_examples(
    lab: Lab, layers: model_layers.Layers, trends: layer_trends.Trends
) -> dict[str, Measured]:
    """SimW of the layers of figure 10 with their best matches, from one example on."""
    lab.tell("induced weights")
    number, prompt = layers.learner.steps, layers.prompt
    early = early_layer(number)
    weights = induced_weights(
        layers.learner, prompt, queries=layers.queries, every_step=True
    )  # (A, P, n, d, k)
    curves: dict[str, Measured] = {}
    for label, algorithm in model_layers.algorithms(lab, *ALGORITHMS).items():
        each: dict[int, Measured] = {}
        for layer in sorted({early, min(early + 1, number), number}):
            step = int(trends["SimW", label].best[layer - 1])
            *_, state = iterate(algorithm, prompt, steps=step)
            cosines = weight_cosines(weights[layer], algorithm.weights(prompt, state))  # (P, n)
            each[layer] = Measured(values=cosines, axes=("examples",))
        curve = Measured.stack("layer", each).at(examples=slice(1, None))
        curves[label] = replace(curve, label=label)
    return curves


def _draw_fig9(tables: Tables) -> Figure:
    figure, axes = drawing.panels(4, columns=2, size=(4.4, 3.0))
    for place, measure in enumerate(MEASURES):
        for panel, value, title in (
            (axes[place], "similarity", f"{measure} with the best match"),
            (axes[2 + place], BESIDE, f"{measure}, less that with Newton's method"),
        ):
            rows = drawing.rows_where(tables["by-layer"], {"value": value, "measure": measure})
            rows = rows.assign(low=rows["seed low"], high=rows["seed high"])
            drawing.draw_curves(panel, rows, x="layer", order=ORDER, log=False)
            drawing.name(panel, title=title, x="layer", y=f"{measure} (band: seeds)")
        drawing.level(axes[2 + place], 0.0)
        # The differences are a hundredth; least squares and the first layers are a tenth away.
        axes[2 + place].set_yscale("symlog", linthresh=0.01)
    drawing.legend(figure, axes)
    return figure


BESIDE = "less Newton's"
"""The value of a table: the similarity with an algorithm, less that with Newton's method."""
ONLINE_LAYERS = "online gradient descent, an example per layer"


def _online(lab: Lab, label: str) -> InTurn:
    return InTurn(OnlineGradientDescent(), steps=lab.config(label).points - 1)


_FIG9 = (
    layer_trends.nearer_newton(DESCENT),
    layer_trends.nearer_newton(DESCENT, "SimW"),
    replace(layer_trends.nearer_newton(ONLINE), excludes=(UNTRAINED, ONLINE_LAYERS)),
)


@declare(
    paper="fu2023",
    id="fig9",
    title="Of the candidate algorithms, the transformer resembles Newton's method the most",
    claims=_FIG9,
    nulls={**excluded_by(_FIG9), ONLINE_LAYERS: instead(_online, MODEL)},
    draw=_draw_fig9,
    runs=model_layers.standard_runs,
    minutes={"smoke": 0.2, "laptop": 9, "desk": 45, "paper": 2500},
    smaller=fig3.smaller,
    notes=(
        f"{layer_trends.RATE} Its best match is one of many more steps than Newton's method has. "
        "That is not what decides: with eighths of Newton's iterations to choose from, the "
        "similarity of a model of 8 layers rose by 0.0008 at most.",
        "Least squares is no rival: it is where Newton's method ends.",
    ),
)
def fig9(lab: Lab) -> Measures:
    """The similarity of each layer with its best match in every candidate algorithm."""
    layers = model_layers.read_layers(lab, MODEL)
    known = model_layers.algorithms(lab, *ALGORITHMS)
    trends = layer_trends.trends_of(lab, layers, known, *MEASURES)
    beside = {
        f"{trend.name}, beside": layer_trends.by_layer(
            BESIDE,
            (trend.at_best - trends[measure, NEWTON].at_best).values,  # (P, L)
            trend.similarity,
        )
        for (measure, label), trend in trends.items()
        if label != NEWTON
    }
    return {
        "compared": layer_trends.by_layer("compared", layers.compared[None]),
        **{f"{trend.name}, at best": trend.at_best for trend in trends.values()},
        **beside,
        LAST_ERROR: layers.last_error,
    }
