"""Figures 2 and 3: a looped model matches a standard one, and stays where it has arrived."""

from collections.abc import Mapping

from matplotlib.figure import Figure
from torch import Tensor

from innerloop.analysis.figure import COLOURS
from innerloop.learners import OLS
from innerloop.models.block import Block
from innerloop.studies.claim import Claim, Criterion
from innerloop.studies.drawing import draw_curves, legend, mark, name, panels
from innerloop.studies.lab import Lab
from innerloop.studies.quantity import Quantity, exact
from innerloop.studies.runs import trained
from innerloop.studies.study import Findings, Tables, declare
from innerloop.studies.tables import curve, record, stacked
from innerloop.training.config import RunConfig
from innerloop.training.families import Scale

BEYOND = 5
"""How many times the trained loops a model is run for."""
STAYS = Criterion(
    at_most=1.1,
    reason="at a fixed point nothing changes; a tenth is less than what separates two seeds",
)


def _fig2_runs(scale: Scale) -> Mapping[str, RunConfig]:
    return {
        "looped": trained("looped-linear", scale),
        "standard": trained("standard-linear", scale),
    }


def _draw_fig2(tables: Tables) -> Figure:
    figure, (left, right) = panels(2, columns=2, size=(4.2, 3.2))
    draw_curves(left, tables["by-loop"], x="loop", order=("looped", "standard", "least squares"))
    mark(left, float(tables["sizes"]["trained loops"].iloc[0]))
    name(left, title="error by loop, last prefix", x="loops", y="squared error / E[y²]")
    draw_curves(
        right, tables["by-examples"], x="examples", order=("looped", "standard", "least squares"),
        floor=1e-4,
    )  # fmt: skip
    name(right, title="error by examples", x="examples in the prompt", y="squared error / E[y²]")
    legend(figure, (left, right))
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
            criterion=Criterion(
                at_most=1.25,
                reason="two seeds of one model differ by about a quarter; a better one matches too",
            ),
            over="seeds",
            ratio=True,
        ),
        Claim(
            name="near-least-squares",
            sentence="It comes near least squares.",
            quantity="error of the looped model after the last example (least squares has 0)",
            criterion=Criterion(
                at_most=0.02,
                reason="in the paper's figure its curve ends at a few hundredths of the error of "
                "predicting zero",
            ),
            over="prompts",
            ratio=True,
        ),
        Claim(
            name="stays",
            sentence="It stays at its fixed point beyond the loops that it was trained with.",
            quantity=f"error at {BEYOND} b loops / error at b loops, looped",
            criterion=STAYS,
            over="prompts",
            ratio=True,
        ),
        Claim(
            name="parameters",
            sentence="It has a twelfth of the parameters, for twelve layers against one.",
            quantity="parameters of the blocks times layers of the stack, looped / standard",
            criterion=Criterion(
                at_least=0.999, at_most=1.001, reason="one block against L blocks of the same shape"
            ),
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
def fig2(lab: Lab) -> Findings:
    """Error by prefix of both, and of the loop by loop, well beyond the trained ones."""
    config = lab.run("looped").config
    task, points, loops = config.task, config.points, lab.model("looped").steps
    by_prefix: dict[str, list[Tensor]] = {"looped": [], "standard": [], "least squares": []}
    by_loop: list[Tensor] = []
    matches: list[Quantity] = []
    near: list[Quantity] = []
    stays: list[Quantity] = []
    for seed in lab.seeds:
        prompt = lab.draw(task, points, seed=seed)
        looped, standard = (lab.model(label, seed) for label in ("looped", "standard"))
        for label, learner in zip(by_prefix, (looped, standard, OLS()), strict=True):
            by_prefix[label].append(lab.errors(learner, prompt, task))  # (P, n)
        by_loop.append(
            lab.errors(looped, prompt, task, steps=BEYOND * loops, at=points - 1)
        )  # (P, K + 1)
        last = {label: errors[-1][:, -1] for label, errors in by_prefix.items()}  # (P,) each
        matches.append(lab.ratio(last["looped"], last["standard"], seed=seed))
        near.append(lab.mean(last["looped"], seed=seed))
        stays.append(lab.ratio(by_loop[-1][:, -1], by_loop[-1][:, loops], seed=seed))
    blocks = {label: _block_parameters(lab, label) for label in ("looped", "standard")}
    layers = lab.model("standard").steps
    at_the_end = [errors[:, -1:] for errors in by_prefix["standard"]]  # (P, 1) each
    return Findings(
        tables={
            "by-examples": stacked(
                [curve(lab, by_prefix[key], "examples", {"label": key}) for key in by_prefix]
            ),
            "by-loop": stacked(
                [
                    curve(lab, by_loop, "loop", {"label": "looped"}),
                    curve(lab, at_the_end, "loop", {"label": "standard"}),
                ]
            ),
            "sizes": record(
                {
                    "trained loops": [loops],
                    "layers": [layers],
                    "looped parameters": [blocks["looped"]],
                    "standard parameters": [blocks["standard"]],
                }
            ),
        },
        measured={
            "matches-standard": matches,
            "near-least-squares": near,
            "stays": stays,
            "parameters": exact(blocks["looped"] * layers / blocks["standard"]),
        },
    )


def _block_parameters(lab: Lab, label: str) -> int:
    """Parameters of a model's blocks."""
    model = lab.model(label)
    blocks = [module for module in model.modules() if isinstance(module, Block)]
    return sum(weights.numel() for block in blocks for weights in block.parameters())


def _fig3_runs(scale: Scale) -> Mapping[str, RunConfig]:
    return {"injected": trained("looped-linear", scale), "tied": trained("tied-linear", scale)}


_FIG3_LABELS = {"injected": "with injection", "tied": "without injection"}


def _draw_fig3(tables: Tables) -> Figure:
    figure, (axes,) = panels(1, columns=1, size=(5.4, 3.4))
    order = tuple(_FIG3_LABELS.values())
    draw_curves(axes, tables["by-loop"], x="loop", order=order)
    sizes = tables["sizes"]
    for label, loops in zip(sizes["label"], sizes["trained loops"], strict=True):
        colour = COLOURS[order.index(str(label))]
        mark(axes, float(loops), label=f"trained loops, {label}", colour=colour)
    name(axes, title="error by loop, last prefix", x="loops", y="squared error / E[y²]")
    legend(figure, (axes,), columns=2)
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
            criterion=STAYS,
            over="prompts",
            ratio=True,
        ),
        Claim(
            name="tied-falls-apart",
            sentence="Without it the error grows beyond them.",
            quantity=f"error at {BEYOND} b loops / error at b loops, tied",
            criterion=Criterion(
                at_least=10,
                reason="the paper calls it divergence on an axis of three powers of ten: one of "
                "them is the least that fits",
            ),
            over="prompts",
            ratio=True,
        ),
        Claim(
            name="tied-soon",
            sentence="It does so quickly.",
            quantity="error at 2 b loops / error at b loops, tied",
            criterion=Criterion(
                at_least=2, reason="an error that has doubled after as many loops again is lost"
            ),
            over="prompts",
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
def fig3(lab: Lab) -> Findings:
    """Error by loop, with and without injection, each to five times its trained loops."""
    by_loop: dict[str, list[Tensor]] = {label: [] for label in _FIG3_LABELS}
    grown: dict[str, list[Quantity]] = {label: [] for label in _FIG3_LABELS}
    soon: list[Quantity] = []
    loops = {label: lab.model(label).steps for label in _FIG3_LABELS}
    for seed in lab.seeds:
        config = lab.run("injected", seed).config
        prompt = lab.draw(config.task, config.points, seed=seed)
        for label, trained_loops in loops.items():
            errors = lab.errors(
                lab.model(label, seed), prompt, config.task, steps=BEYOND * trained_loops,
                at=config.points - 1,
            )  # (P, K + 1)  # fmt: skip
            by_loop[label].append(errors)
            at_trained = errors[:, trained_loops]  # (P,)
            grown[label].append(lab.ratio(errors[:, -1], at_trained, seed=seed))
            if label == "tied":
                soon.append(lab.ratio(errors[:, 2 * trained_loops], at_trained, seed=seed))
    return Findings(
        tables={
            "by-loop": stacked(
                [
                    curve(lab, by_loop[label], "loop", {"label": told})
                    for label, told in _FIG3_LABELS.items()
                ]
            ),
            "sizes": record(
                {
                    "label": [_FIG3_LABELS[label] for label in loops],
                    "trained loops": list(loops.values()),
                }
            ),
        },
        measured={
            "injected-stays": grown["injected"],
            "tied-falls-apart": grown["tied"],
            "tied-soon": soon,
        },
    )
