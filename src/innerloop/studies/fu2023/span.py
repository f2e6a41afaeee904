"""Figure 16: with fewer examples than dimensions, induced weights lie in the examples' span."""

from dataclasses import replace

import torch
from matplotlib.figure import Figure

from innerloop.analysis import drawing, span_chance, span_test
from innerloop.analysis.drawing import EXAMPLES
from innerloop.core.learner import Traits
from innerloop.core.prompt import Prompt
from innerloop.learners import OLS, GradientDescent, NearestNeighbors
from innerloop.learners.through import Through
from innerloop.studies.claim import Claim, at_most
from innerloop.studies.fu2023 import model_layers
from innerloop.studies.fu2023.layer_matches import fig3
from innerloop.studies.fu2023.model_layers import MODEL
from innerloop.studies.fu2023.stand_ins import LAST_ERROR, LEARNED, NULLS, UNTRAINED
from innerloop.studies.lab import Lab
from innerloop.studies.nulls import instead
from innerloop.studies.study import Measures, Tables, declare

STRETCHED = "least squares on inputs stretched by 1 to 2"
ELSEWHERE = "gradient descent that does not start at zero"
NEIGHBORS = "the mean of the 3 nearest neighbours"


def _stretch(prompt: Prompt) -> Prompt:
    """Inputs with coordinates times 1 to 2: minimum norm then prefers some of them."""
    factors = torch.linspace(1, 2, prompt.dims).to(prompt.xs)  # (d,)
    queries = None if prompt.queries is None else prompt.queries * factors  # (B, n, q, d)
    return replace(prompt, xs=prompt.xs * factors, queries=queries)


def _stretched(lab: Lab, label: str) -> Through:
    """Right wherever least squares is, but with few examples its weights leave their span."""
    traits = Traits(order_invariant=True, linear_in_y=True)
    return Through(_stretch, OLS(), traits=traits, label="stretched inputs")


def _elsewhere(lab: Lab, label: str) -> GradientDescent:
    """From a start as long as the weights are: what is outside the span stays as it is."""
    return GradientDescent(400, start=(1.0,) * lab.config(label).task.dims)


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
            premise=LEARNED,
            excludes=(UNTRAINED, STRETCHED, ELSEWHERE, NEIGHBORS),
        ),
    ),
    nulls={
        UNTRAINED: NULLS[UNTRAINED],
        STRETCHED: instead(_stretched, MODEL),
        ELSEWHERE: instead(_elsewhere, MODEL),
        NEIGHBORS: instead(lambda lab, label: NearestNeighbors(3), MODEL),
    },
    draw=_draw_fig16,
    runs=model_layers.standard_runs,
    minutes={"smoke": 0.2, "laptop": 6, "desk": 40, "paper": 2500},
    smaller=fig3.smaller,
)
def fig16(lab: Lab) -> Measures:
    """The residual of the projection on the inputs seen so far, by their number."""
    config, learner = lab.config(MODEL), lab.learner(MODEL)
    dims = config.task.dims
    number = lab.choose(smoke=lab.prompts, laptop=lab.prompts, desk=256, paper=lab.prompts)
    prompt = lab.draw(config.task, config.points, prompts=number)
    lab.tell("induced weights")
    queries = model_layers.asked_queries(lab, dims)
    outside = span_test(learner, prompt, queries=queries, seed=lab.seed, label=MODEL)
    chance = span_chance(prompt)
    lab.table("sizes", {"dims": [dims]})
    few = slice(0, dims - 1)  # from one example on
    return {
        "outside": outside,
        "chance": chance,
        "few examples": outside.at(examples=few).mean("examples"),
        "few examples, chance": chance.at(examples=few).mean("examples"),
        LAST_ERROR: lab.error(learner, prompt, config.task, label=MODEL).at(examples=-1),
    }
