"""Figures 2 and 3: a looped model matches a standard one, and stays where it has arrived."""

from dataclasses import replace

from matplotlib.figure import Figure

from innerloop.analysis import Measured, Statistic, drawing
from innerloop.analysis.drawing import ERROR, EXAMPLES
from innerloop.learners import OLS
from innerloop.models.block import Block
from innerloop.studies.claim import Claim, at_least, at_most, between
from innerloop.studies.lab import Lab
from innerloop.studies.runs import trained
from innerloop.studies.study import Measures, Runs, Scale, Tables, declare

BEYOND = 5
"""How many times the trained loops a model is run for."""
STAYS = at_most(
    1.1, "at a fixed point nothing changes; a tenth is less than what separates two seeds"
)


def _fig2_runs(scale: Scale) -> Runs:
    return {
        "looped": trained("looped-linear", scale),
        "standard": trained("standard-linear", scale),
    }


def _draw_fig2(tables: Tables) -> Figure:
    figure, (left, right) = drawing.panels(2, columns=2, size=(4.2, 3.2))
    order = ("looped", "standard", "least squares")
    drawing.draw_curves(left, tables["by-loop"], x="loop", order=order)
    drawing.mark(left, float(tables["sizes"]["trained loops"].iloc[0]))
    drawing.name(left, title="error by loop, last prefix", x="loops", y=ERROR)
    drawing.draw_curves(right, tables["by-examples"], x="examples", order=order, floor=1e-4)
    drawing.name(right, title="error by examples", x=EXAMPLES, y=ERROR)
    drawing.legend(figure, (left, right))
    return figure


@declare(
    paper="yang2024",
    id="fig2",
    title="A looped transformer matches a standard one with a fraction of its parameters",
    claims=(
        Claim(
            name="matches-standard",
            sentence="The looped model is as good as the standard one.",
            quantity="error after the last example, looped / standard",
            statistic=lambda m: m["looped"][..., -1] / m["standard"][..., -1],
            criterion=at_most(
                1.25, "two seeds of one model differ by about a quarter; a better one matches too"
            ),
            over="seeds",
            ratio=True,
        ),
        Claim(
            name="near-least-squares",
            sentence="It comes near least squares.",
            quantity="error of the looped model after the last example (least squares has 0)",
            statistic=lambda m: m["looped"][..., -1],
            criterion=at_most(
                0.02,
                "in the paper's figure its curve ends at a few hundredths of the error of "
                "predicting zero",
            ),
            ratio=True,
        ),
        Claim(
            name="stays",
            sentence="It stays at its fixed point beyond the loops that it was trained with.",
            quantity=f"error at {BEYOND} b loops / error at b loops, looped",
            statistic=lambda m: m["far beyond"] / m["at b loops"],
            criterion=STAYS,
            ratio=True,
        ),
        Claim(
            name="parameters",
            sentence="It has a twelfth of the parameters, for twelve layers against one.",
            quantity="parameters of the blocks times layers of the stack, looped / standard",
            statistic=lambda m: m["parameters"],
            criterion=between(0.999, 1.001, "one block against L blocks of the same shape"),
            over="exact",
            paper="1/12",
        ),
    ),
    draw=_draw_fig2,
    runs=_fig2_runs,
    minutes={"smoke": 0.2, "laptop": 7, "paper": 3000},
    smaller={
        "smoke": "3 dimensions, 7 points, width 16, 4 loops against 2 layers, 20 steps.",
        "laptop": "5 dimensions, 11 points, width 64, 20 loops against 8 layers, 1500 steps of a "
        "faster optimiser (2000 for the stack).",
    },
)
def fig2(lab: Lab) -> Measures:
    """Error by examples of both, and of the loop by loop, well beyond the trained ones."""
    config = lab.config("looped")
    looped, standard = lab.learner("looped"), lab.learner("standard")
    prompt = lab.draw(config.task, config.points)
    by_examples = {
        label: lab.error(learner, prompt, config.task, label=label)
        for label, learner in (("looped", looped), ("standard", standard), ("least squares", OLS()))
    }
    by_loop = lab.error(
        looped, prompt, config.task, by="step", steps=BEYOND * looped.steps, axis="loop",
        label="looped",
    )  # fmt: skip
    end = by_examples["standard"].at(examples=[-1])
    blocks = {label: _block_parameters(lab, label) for label in ("looped", "standard")}
    lab.table(
        "sizes",
        {
            "trained loops": [looped.steps],
            "layers": [standard.steps],
            "looped parameters": [blocks["looped"]],
            "standard parameters": [blocks["standard"]],
        },
    )
    return {
        **by_examples,
        "by loop": by_loop,
        "standard, as a level": replace(end, axes=("loop",), ticks={}),
        "at b loops": by_loop.at(loop=looped.steps),
        "far beyond": by_loop.at(loop=-1),
        "parameters": Measured.exact(blocks["looped"] * standard.steps / blocks["standard"]),
    }


def _block_parameters(lab: Lab, label: str) -> int:
    """Parameters of a model's blocks."""
    model = lab.model(label)
    blocks = [module for module in model.modules() if isinstance(module, Block)]
    return sum(weights.numel() for block in blocks for weights in block.parameters())


def _drift(label: str, loops: str = "far beyond") -> Statistic:
    """The error at more loops over that at b loops."""
    return lambda m: m[f"{label}, {loops}"] / m[f"{label}, at b loops"]


def _fig3_runs(scale: Scale) -> Runs:
    return {"injected": trained("looped-linear", scale), "tied": trained("tied-linear", scale)}


_FIG3_LABELS = {"injected": "with injection", "tied": "without injection"}


def _draw_fig3(tables: Tables) -> Figure:
    figure, (axes,) = drawing.panels(1, columns=1, size=(5.4, 3.4))
    order = tuple(_FIG3_LABELS.values())
    drawing.draw_curves(axes, tables["by-loop"], x="loop", order=order)
    sizes = tables["sizes"]
    for label, loops in zip(sizes["label"], sizes["trained loops"], strict=True):
        colour = drawing.COLOURS[order.index(str(label))]
        drawing.mark(axes, float(loops), label=f"trained loops, {label}", colour=colour)
    drawing.name(axes, title="error by loop, last prefix", x="loops", y=ERROR)
    drawing.legend(figure, (axes,), columns=2)
    return figure


@declare(
    paper="yang2024",
    id="fig3",
    title="Without input injection a loop falls apart beyond its trained loops",
    claims=(
        Claim(
            name="injected-stays",
            sentence="With input injection the error stays where it is beyond the trained loops.",
            quantity=f"error at {BEYOND} b loops / error at b loops, injected",
            statistic=_drift("injected"),
            criterion=STAYS,
            ratio=True,
        ),
        Claim(
            name="tied-falls-apart",
            sentence="Without it the error grows beyond them.",
            quantity=f"error at {BEYOND} b loops / error at b loops, tied",
            statistic=_drift("tied"),
            criterion=at_least(
                10,
                "the paper calls it divergence on an axis of three powers of ten: one of "
                "them is the least that fits",
            ),
            ratio=True,
        ),
        Claim(
            name="tied-soon",
            sentence="It does so quickly.",
            quantity="error at 2 b loops / error at b loops, tied",
            statistic=_drift("tied", "at 2 b loops"),
            criterion=at_least(2, "an error that has doubled after as many loops again is lost"),
            ratio=True,
        ),
    ),
    draw=_draw_fig3,
    runs=_fig3_runs,
    minutes={"smoke": 0.2, "laptop": 5, "paper": 3000},
    smaller={
        "smoke": "3 dimensions, 7 points, width 16, 4 loops, 20 steps.",
        "laptop": "5 dimensions, 11 points, width 64, 1500 steps of a faster optimiser; 20 loops "
        "with injection and 12 without, each run for five times its own.",
    },
)
def fig3(lab: Lab) -> Measures:
    """Error by loop, with and without injection, each to five times its trained loops."""
    config = lab.config("injected")
    prompt = lab.draw(config.task, config.points)
    measures: dict[str, Measured] = {}
    loops = {label: lab.learner(label).steps for label in _FIG3_LABELS}
    for label, trained_loops in loops.items():
        by_loop = lab.error(
            lab.learner(label), prompt, config.task, by="step", steps=BEYOND * trained_loops,
            axis="loop", label=_FIG3_LABELS[label],
        )  # fmt: skip
        measures |= {
            label: by_loop,
            f"{label}, at b loops": by_loop.at(loop=trained_loops),
            f"{label}, at 2 b loops": by_loop.at(loop=2 * trained_loops),
            f"{label}, far beyond": by_loop.at(loop=-1),
        }
    lab.table("sizes", {"label": _FIG3_LABELS.values(), "trained loops": loops.values()})
    return measures
