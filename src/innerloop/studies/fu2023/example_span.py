"""Figure 16: the weights that a transformer induces lie in the span of the examples."""

from matplotlib.figure import Figure

from innerloop.analysis import drawing, span_chance, span_test
from innerloop.studies.claim import Claim, at_most
from innerloop.studies.fu2023.model_layers import MODEL, standard_runs
from innerloop.studies.lab import Lab
from innerloop.studies.study import Measures, Tables, declare


def _draw_fig16(tables: Tables) -> Figure:
    figure, (axes,) = drawing.panels(1, size=(5.4, 3.4))
    drawing.draw_curves(axes, tables["by-examples"], x="examples", log=False)
    dims = float(tables["sizes"]["dims"].iloc[0])
    drawing.mark(axes, dims, label="as many examples as dimensions")
    drawing.name(
        axes, title="induced weights outside the span", x=drawing.EXAMPLES, y="|w - Pw| / |w|"
    )
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
    runs=standard_runs,
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
