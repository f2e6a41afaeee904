"""Figures 2 and 3: a looped model matches a standard one, and stays where it has arrived."""

from dataclasses import replace

from matplotlib.figure import Figure

from innerloop.analysis import Measured, Statistic, drawing
from innerloop.learners import OLS
from innerloop.models.block import Block
from innerloop.studies.claim import Claim, at_least, at_most, between
from innerloop.studies.lab import Lab
from innerloop.studies.runs import trained
from innerloop.studies.study import Measures, Tables, declare
from innerloop.studies.yang2024.shared import KINDS, MATCHES, STAYS, errors_of

BEYOND = 5
"""How many times the trained loops a model is run for."""
_FIG3_LABELS = {"injected": "with injection", "tied": "without injection"}


def _draw_fig2(tables: Tables) -> Figure:
    figure, (left, right) = drawing.panels(2, columns=2, size=(4.2, 3.2))
    order = (*KINDS, "least squares")
    drawing.draw_curves(left, tables["by-loop"], x="loop", order=order)
    drawing.mark(left, float(tables["sizes"]["trained loops"].iloc[0]))
    drawing.name(left, title="error by loop, last prefix", x="loops", y=drawing.ERROR)
    drawing.draw_curves(right, tables["by-examples"], x="examples", order=order, floor=1e-4)
    drawing.name(right, title="error by examples", x=drawing.EXAMPLES, y=drawing.ERROR)
    drawing.legend(figure, (left, right))
    return figure


@declare(
    paper="yang2024", id="fig2",
    title="A looped transformer matches a standard one with a fraction of its parameters",
    claims=(
        Claim(
            name="matches-standard", ratio=True, criterion=MATCHES,
            sentence="The looped model is as good as the standard one.",
            quantity="error after the last example, looped / standard",
            statistic=lambda m: m["looped"][..., -1] / m["standard"][..., -1],
        ),
        Claim(
            name="near-least-squares", ratio=True,
            sentence="It comes near least squares.",
            quantity="error of the looped model after the last example (least squares has 0)",
            statistic=lambda m: m["looped"][..., -1],
            criterion=at_most(0.02, "in the paper's figure its curve ends at a few hundredths of "
                              "the error of predicting zero"),
        ),
        Claim(
            name="stays", ratio=True, criterion=STAYS,
            sentence="It stays at its fixed point beyond the loops that it was trained with.",
            quantity=f"error at {BEYOND} b loops / error at b loops, looped",
            statistic=lambda m: m["far beyond"] / m["at b loops"],
        ),
        Claim(
            name="parameters", exact=True, paper="1/12",
            sentence="It has a twelfth of the parameters, for twelve layers against one.",
            quantity="parameters of the blocks times layers of the stack, looped / standard",
            statistic=lambda m: m["parameters"],
            criterion=between(0.999, 1.001, "one block against L blocks of the same shape"),
        ),
    ),
    runs=lambda scale: {kind: trained(f"{kind}-linear", scale) for kind in KINDS},
    draw=_draw_fig2, minutes={"smoke": 0.2, "laptop": 7, "paper": 3000},
    smaller={
        "smoke": "3 dimensions, 7 points, width 16, 4 loops against 2 layers, 20 steps.",
        "laptop": "5 dimensions, 11 points, width 64, 20 loops against 8 layers, 1500 steps of a "
        "faster optimiser (2000 for the stack).",
    },
)  # fmt: skip
def fig2(lab: Lab) -> Measures:
    """Error by examples of both, and of the loop by loop, well beyond the trained ones."""
    config = lab.config("looped")
    prompt = lab.draw(config.task, config.points)
    by_examples = {kind: errors_of(lab, kind) for kind in KINDS}
    by_examples["least squares"] = lab.error(OLS(), prompt, config.task, label="least squares")
    loops, layers = (lab.learner(kind).steps for kind in KINDS)
    by_loop = errors_of(lab, "looped", loops=BEYOND * loops)
    end = by_examples["standard"].at(examples=[-1])
    looped, standard = (_block_parameters(lab, kind) for kind in KINDS)
    sizes = {"trained loops": loops, "layers": layers}
    sizes |= {"looped parameters": looped, "standard parameters": standard}
    lab.table("sizes", {name: [size] for name, size in sizes.items()})
    return {
        **by_examples,
        "by loop": by_loop,
        "standard, as a level": replace(end, axes=("loop",), ticks={}),
        "at b loops": by_loop.at(loop=loops),
        "far beyond": by_loop.at(loop=-1),
        "parameters": Measured.exact(looped * layers / standard),
    }


def _block_parameters(lab: Lab, label: str) -> int:
    """Parameters of a model's blocks."""
    blocks = [module for module in lab.model(label).modules() if isinstance(module, Block)]
    return sum(weights.numel() for block in blocks for weights in block.parameters())


def _drift(label: str, loops: str = "far beyond") -> Statistic:
    """The error at more loops over that at b loops."""
    return lambda m: m[f"{label}, {loops}"] / m[f"{label}, at b loops"]


def _draw_fig3(tables: Tables) -> Figure:
    figure, (axes,) = drawing.panels(1, columns=1, size=(5.4, 3.4))
    order = tuple(_FIG3_LABELS.values())
    drawing.draw_curves(axes, tables["by-loop"], x="loop", order=order)
    sizes = tables["sizes"]
    for label, loops in zip(sizes["label"], sizes["trained loops"], strict=True):
        colour = drawing.COLOURS[order.index(str(label))]
        drawing.mark(axes, float(loops), label=f"trained loops, {label}", colour=colour)
    drawing.name(axes, title="error by loop, last prefix", x="loops", y=drawing.ERROR)
    drawing.legend(figure, (axes,), columns=2)
    return figure


@declare(
    paper="yang2024", id="fig3",
    title="Without input injection a loop falls apart beyond its trained loops",
    claims=(
        Claim(
            name="injected-stays", ratio=True, criterion=STAYS,
            sentence="With input injection the error stays where it is beyond the trained loops.",
            quantity=f"error at {BEYOND} b loops / error at b loops, injected",
            statistic=_drift("injected"),
        ),
        Claim(
            name="tied-falls-apart", ratio=True,
            sentence="Without it the error grows beyond them.",
            quantity=f"error at {BEYOND} b loops / error at b loops, tied",
            statistic=_drift("tied"),
            criterion=at_least(10, "the paper calls it divergence on an axis of three powers of "
                               "ten: one of them is the least that fits"),
        ),
        Claim(
            name="tied-soon", ratio=True,
            sentence="It does so quickly.",
            quantity="error at 2 b loops / error at b loops, tied",
            statistic=_drift("tied", "at 2 b loops"),
            criterion=at_least(2, "an error that has doubled after as many loops again is lost"),
        ),
    ),
    runs=lambda scale: {
        "injected": trained("looped-linear", scale), "tied": trained("tied-linear", scale)
    },
    draw=_draw_fig3, minutes={"smoke": 0.2, "laptop": 5, "paper": 3000},
    smaller={
        "smoke": "3 dimensions, 7 points, width 16, 4 loops, 20 steps.",
        "laptop": "5 dimensions, 11 points, width 64, 1500 steps of a faster optimiser; 20 loops "
        "with injection and 12 without, each run for five times its own.",
    },
)  # fmt: skip
def fig3(lab: Lab) -> Measures:
    """Error by loop, with and without injection, each to five times its trained loops."""
    measures: dict[str, Measured] = {}
    loops = {run: lab.learner(run).steps for run in _FIG3_LABELS}
    for run, b in loops.items():
        by_loop = errors_of(lab, run, loops=BEYOND * b, label=_FIG3_LABELS[run])
        measures |= {
            run: by_loop,
            f"{run}, at b loops": by_loop.at(loop=b),
            f"{run}, at 2 b loops": by_loop.at(loop=2 * b),
            f"{run}, far beyond": by_loop.at(loop=-1),
        }
    lab.table("sizes", {"label": _FIG3_LABELS.values(), "trained loops": loops.values()})
    return measures
