"""Figures 7, 9, 10 and 16: which algorithm the induced weights are like, and where they lie.

Of all candidates, layers are most like Newton's method: figures 7 and 10 have it by induced weights
(SimW), figure 9 by errors (SimE) as well. Figure 16: they lie in the span of the examples.
"""

from dataclasses import replace

from matplotlib.figure import Figure

from innerloop.analysis import Measured, drawing, induced_weights, span_chance, span_test
from innerloop.analysis.drawing import EXAMPLES
from innerloop.analysis.similarity import weight_cosines
from innerloop.core.iterate import iterate
from innerloop.studies.claim import Claim, at_least, at_most
from innerloop.studies.fu2023 import layer_trends, model_layers
from innerloop.studies.fu2023.heatmaps import best_steps, draw_matches, draw_similarity
from innerloop.studies.fu2023.layer_matches import SMALLER
from innerloop.studies.fu2023.layer_trends import MEASURES
from innerloop.studies.fu2023.model_layers import DESCENT, LEAST, MODEL, NEWTON, ONLINE
from innerloop.studies.lab import Lab
from innerloop.studies.study import Measures, Tables, declare

ALGORITHMS = (NEWTON, DESCENT, ONLINE, LEAST)
EARLY = 2
"""The layer of figure 10 that has learned nothing yet."""


def _draw_fig7(tables: Tables) -> Figure:
    curves = tables["by-layer-examples"]
    layers = list(dict.fromkeys(curves["layer"]))
    figure, axes = drawing.panels(3 + len(layers), columns=3, size=(4.0, 3.3))
    draw_similarity(axes[0], tables, "SimW", NEWTON)
    draw_similarity(axes[1], tables, "SimW", DESCENT)
    draw_matches(axes[2], tables, "SimW")
    best = {algorithm: best_steps(tables, "SimW", algorithm) for algorithm in (NEWTON, DESCENT)}
    for panel, layer in zip(axes[3:], layers, strict=True):
        rows = drawing.rows_where(curves, {"layer": layer})
        drawing.draw_curves(panel, rows, x="examples", order=ALGORITHMS, log=False)
        if rows["mean"].to_numpy(float).max() < 0.5:  # like none: not to be seen in close-up
            panel.set_ylim(-0.1, 1.05)
        steps = f"k = {best[NEWTON][layer]:.3g} of Newton, {best[DESCENT][layer]:.3g} of descent"
        drawing.name(panel, title=f"layer {layer}: {steps}", x=EXAMPLES, y="SimW")
    drawing.legend(figure, axes)
    return figure


@declare(
    paper="fu2023",
    id="fig7",
    also=("fig10",),
    title="By induced weights, too, layers match Newton's iterations linearly",
    claims=(
        *layer_trends.trend_claims("SimW"),
        Claim(
            name="layer-2",
            sentence="Layer 2 has learned nothing yet: it has no similarity to any algorithm.",
            quantity=f"SimW of layer {EARLY} with the algorithm that it is most like",
            statistic=lambda m: m["most like"],
            criterion=at_most(
                0.2,
                "the paper says zero; at a cosine of 0.2 a twenty-fifth of the square is shared",
            ),
            paper="0",
        ),
        Claim(
            name="last-layer-least-squares",
            sentence="The last layer computes least squares, given more than one example.",
            quantity="SimW of the last layer with least squares, mean over two examples and more",
            statistic=lambda m: m[LEAST][..., -1, 1:].mean(dim=-1),
            criterion=at_least(0.9, "the paper's curve is near 1 but for a dip at d examples"),
        ),
        Claim(
            name="dip",
            sentence="At d examples least squares is less like the model than Newton's method.",
            quantity="SimW of the last layer with its best Newton iteration, less that with least "
            "squares, at d examples",
            statistic=lambda m: m["dip"],
            criterion=at_least(0.0, "the paper sees a dip for least squares alone"),
        ),
    ),
    draw=_draw_fig7,
    runs=model_layers.standard_runs,
    minutes={"smoke": 0.2, "laptop": 6, "paper": 2500},
    smaller=SMALLER,
    notes=("Gradient descent has the rate 1/L of each prefix.",),
)
def fig7(lab: Lab) -> Measures:
    """SimW of every layer with every step, and by the number of examples at three layers."""
    layers = model_layers.read_layers(lab, MODEL)
    lab.note(f"The paper's layer 2 is one of 12, here of {layers.learner.steps}.")
    known = model_layers.algorithms(lab, *ALGORITHMS)
    trends = layer_trends.trends_of(lab, layers, known, "SimW")
    both = {key: trend for key, trend in trends.items() if key[1] in (NEWTON, DESCENT)}
    curves = _by_examples(lab, layers, trends)
    at_dims = layers.prompt.dims - 1  # examples are counted from one
    return {
        **layer_trends.measures_of(lab, both),
        **curves,
        "most like": most_like(trends),
        "dip": (curves[NEWTON] - curves[LEAST]).at(layer=-1, examples=at_dims),
    }


def most_like(trends: layer_trends.Trends) -> Measured:
    """The similarity of the early layer with the algorithm that it is most like."""
    several = [trend.at_best.at(layer=EARLY - 1) for trend in trends.values()]
    return max(several, key=lambda each: float(each.values.mean()))


def _by_examples(
    lab: Lab, layers: model_layers.Layers, trends: layer_trends.Trends
) -> dict[str, Measured]:
    """SimW of the layers of figure 10 with their best matches, from one example on."""
    lab.tell("induced weights")
    number, prompt = layers.learner.steps, layers.prompt
    weights = induced_weights(
        layers.learner, prompt, queries=layers.queries, every_step=True
    )  # (A, P, n, d, k)
    curves: dict[str, Measured] = {}
    for label, algorithm in model_layers.algorithms(lab, *ALGORITHMS).items():
        each: dict[int, Measured] = {}
        for layer in sorted({EARLY, min(EARLY + 1, number), number}):
            step = int(trends["SimW", label].best[layer - 1])
            *_, state = iterate(algorithm, prompt, steps=step)
            cosines = weight_cosines(weights[layer], algorithm.weights(prompt, state))  # (P, n)
            each[layer] = Measured(values=cosines, axes=("examples",))
        curve = Measured.stack("layer", each).at(examples=slice(1, None))
        curves[label] = replace(curve, label=label)
    return curves


def _draw_fig9(tables: Tables) -> Figure:
    rows = drawing.rows_where(tables["by-layer"], {"value": "similarity"})
    figure, axes = drawing.facets(
        rows, "measure", x="layer", title="{} with the best match".format, names=("layer", ""),
        order=ALGORITHMS, log=False, columns=2, size=(4.4, 3.3),
    )  # fmt: skip
    for measure, panel in axes.items():
        panel.set_ylabel(measure, fontsize=9)
    drawing.legend(figure, axes.values())
    return figure


@declare(
    paper="fu2023",
    id="fig9",
    title="Of the candidate algorithms, the transformer resembles Newton's method the most",
    claims=(
        *(layer_trends.nearer_newton(other) for other in (DESCENT, ONLINE, LEAST)),
        layer_trends.nearer_newton(DESCENT, "SimW"),
    ),
    draw=_draw_fig9,
    runs=model_layers.standard_runs,
    minutes={"smoke": 0.2, "laptop": 6, "paper": 2500},
    smaller=SMALLER,
    notes=(layer_trends.MORE_STEPS,),
)
def fig9(lab: Lab) -> Measures:
    """The similarity of each layer with its best match in every candidate algorithm."""
    layers = model_layers.read_layers(lab, MODEL)
    known = model_layers.algorithms(lab, *ALGORITHMS)
    trends = layer_trends.trends_of(lab, layers, known, *MEASURES)
    return {
        "compared": layer_trends.by_layer("compared", layers.compared[None]),
        **{f"{trend.name}, at best": trend.at_best for trend in trends.values()},
    }


def _draw_fig16(tables: Tables) -> Figure:
    figure, (axes,) = drawing.panels(1, size=(5.4, 3.4))
    drawing.draw_curves(axes, tables["by-examples"], x="examples", log=False)
    dims = float(tables["sizes"]["dims"].iloc[0])
    drawing.mark(axes, dims, label="as many examples as dimensions")
    drawing.name(axes, title="induced weights outside the span", x=EXAMPLES, y="|w - Pw| / |w|")
    drawing.legend(figure, (axes,), columns=3)
    return figure


@declare(
    paper="fu2023",
    id="fig16",
    title="Induced weights lie in the span of the examples",
    claims=(
        Claim(
            name="in-the-span",
            sentence="With fewer examples than dimensions, the induced weights lie close to the "
            "span of the examples.",
            quantity="mean of |w - Pw| / |w| over 1 to d - 1 examples, over the mean for a "
            "direction at random",
            statistic=lambda m: m["few examples"] / m["few examples, chance"],
            criterion=at_most(
                0.25,
                "close, against a direction that knows nothing of the examples: a quarter of the "
                "length that it leaves outside, about a sixteenth in squares",
            ),
            ratio=True,
        ),
    ),
    draw=_draw_fig16,
    runs=model_layers.standard_runs,
    minutes={"smoke": 0.2, "laptop": 5, "paper": 2500},
    smaller={
        "smoke": "3 dimensions, 7 points, width 16, 2 layers, 20 steps.",
        "laptop": "5 dimensions, 11 points, width 64, 8 layers, 2000 steps of a faster optimiser.",
    },
)
def fig16(lab: Lab) -> Measures:
    """The residual of the projection on the inputs seen so far, by their number."""
    config = lab.config(MODEL)
    dims, prompt = config.task.dims, lab.draw(config.task, config.points)
    lab.tell("induced weights")
    number = lab.choose(smoke=3 * dims, laptop=40, paper=200)
    outside = span_test(lab.learner(MODEL), prompt, queries=number, seed=lab.seed, label=MODEL)
    chance = span_chance(prompt)
    lab.table("sizes", {"dims": [dims]})
    few = slice(0, dims - 1)  # from one example on
    return {
        "outside": outside,
        "chance": chance,
        "few examples": outside.at(examples=few).mean("examples"),
        "few examples, chance": chance.at(examples=few).mean("examples"),
    }
