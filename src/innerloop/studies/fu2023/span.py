"""Figure 16: the weights that a transformer induces lie in the span of the examples."""

from matplotlib.figure import Figure
from torch import Tensor

from innerloop.analysis.drawing import draw_curves, legend, mark, name, panels
from innerloop.analysis.induced import induced_weights
from innerloop.analysis.span import chance_outside, outside_span
from innerloop.studies.claim import Claim, Criterion
from innerloop.studies.fu2023.matching import MODEL, standard_runs
from innerloop.studies.lab import Lab
from innerloop.studies.quantity import Quantity
from innerloop.studies.study import Findings, Tables, declare
from innerloop.studies.tables import curve, record, stacked

CHANCE = "a direction at random"


def _draw_fig16(tables: Tables) -> Figure:
    figure, (axes,) = panels(1, size=(5.4, 3.4))
    draw_curves(axes, tables["outside"], x="examples", order=(MODEL, CHANCE), log=False)
    mark(axes, float(tables["sizes"]["dims"].iloc[0]), label="as many examples as dimensions")
    name(
        axes, title="induced weights outside the span", x="examples in the prompt",
        y="|w - Pw| / |w|",
    )  # fmt: skip
    legend(figure, (axes,), columns=3)
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
            criterion=Criterion(
                at_most=0.25,
                reason="close, against a direction that knows nothing of the examples: a quarter "
                "of the length that it leaves outside, about a sixteenth in squares",
            ),
            over="prompts",
            ratio=True,
        ),
    ),
    draw=_draw_fig16,
    runs=standard_runs,
    minutes={"smoke": 0.2, "laptop": 5, "paper": 2500},
    smaller={
        "smoke": "3 dimensions, 7 points, width 16, 2 layers, 20 steps.",
        "laptop": "5 dimensions, 11 points, width 64, 8 layers, 2000 steps of a faster optimiser.",
    },
)
def fig16(lab: Lab) -> Findings:
    """The residual of the projection on the inputs seen so far, by their number."""
    config = lab.run(MODEL).config
    dims = config.task.dims
    outside: list[Tensor] = []
    chance: list[Tensor] = []
    ratios: list[Quantity] = []
    for seed in lab.seeds:
        prompt = lab.draw(config.task, config.points, seed=seed)
        lab.tell("induced weights")
        queries = lab.choose(smoke=3 * dims, laptop=40, paper=200)
        weights = induced_weights(lab.model(MODEL, seed), prompt, queries=queries, seed=seed)
        left, ranks = outside_span(weights, prompt)  # (P, n) each
        expected = chance_outside(ranks, dims)  # (P, n)
        outside.append(left)
        chance.append(expected)
        ratios.append(
            lab.ratio(left[:, 1:dims].mean(dim=1), expected[:, 1:dims].mean(dim=1), seed=seed)
        )
    places = range(1, config.points)
    return Findings(
        tables={
            "outside": stacked(
                [
                    curve(
                        lab,
                        [each[:, 1:] for each in found],
                        "examples",
                        {"label": label},
                        places=places,
                    )
                    for label, found in ((MODEL, outside), (CHANCE, chance))
                ]
            ),
            "sizes": record({"dims": [dims]}),
        },
        measured={"in-the-span": ratios},
    )
