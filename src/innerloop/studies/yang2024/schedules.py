"""Figure 17: whether it matters that the loops grow during training."""

from collections.abc import Mapping

from matplotlib.figure import Figure
from torch import Tensor

from innerloop.studies.claim import Claim, Criterion
from innerloop.analysis.drawing import draw_curves, legend, name, panels
from innerloop.studies.lab import Lab
from innerloop.studies.quantity import UNKNOWN, Quantity
from innerloop.studies.runs import trained
from innerloop.studies.study import Findings, Tables, declare
from innerloop.studies.tables import curve, rows_where, stacked
from innerloop.studies.yang2024.comparing import APART, by_value
from innerloop.training.config import RunConfig
from innerloop.training.families import Scale

"""What is not measured at a scale: nothing can be concluded of it."""


def either_way(ratio: Quantity) -> Quantity:
    """A ratio or its inverse, whichever is larger: how much two numbers differ."""
    if ratio.value >= 1:
        return ratio
    return Quantity(1 / ratio.value, 1 / ratio.high, 1 / ratio.low)


def _families(scale: Scale) -> tuple[str, ...]:
    return ("linear", "sparse", "tree", "network") if scale == "paper" else ("linear", "network")


def _fig17_runs(scale: Scale) -> Mapping[str, RunConfig]:
    runs: dict[str, RunConfig] = {}
    for family in _families(scale):
        runs[f"{family} with"] = trained(f"looped-{family}", scale)
        runs[f"{family} without"] = trained(f"looped-{family}", scale, "loops.start=null")
    return runs


_SCHEDULES = {"with": "with a schedule", "without": "without"}


def _draw_fig17(tables: Tables) -> Figure:
    table = tables["by-examples"]
    families = list(dict.fromkeys(table["family"]))
    figure, axes = panels(len(families), columns=2, size=(3.9, 3.0))
    for panel, family in zip(axes, families, strict=True):
        draw_curves(
            panel, rows_where(table, {"family": family}), x="examples", log=False,
            order=tuple(_SCHEDULES.values()),
        )  # fmt: skip
        panel.set_ylim(bottom=0)
        name(panel, title=str(family), x="examples in the prompt", y="squared error / E[y²]")
    legend(figure, axes)
    return figure


@declare(
    paper="yang2024",
    id="fig17",
    title="Letting the loops grow during training matters little",
    claims=(
        Claim(
            name="matters-little",
            sentence="Whether b grows by a schedule makes no difference, except for trees.",
            quantity="mean error over all prefixes without a schedule / with it, or its inverse "
            "where that is larger; the family that differs most, without trees",
            criterion=Criterion(
                at_most=APART, reason="two seeds of one model differ by about a quarter"
            ),
            over="seeds",
            ratio=True,
        ),
        Claim(
            name="helps-trees",
            sentence="On trees the schedule helps a little.",
            quantity="mean error over all prefixes without a schedule / with it, trees (measured "
            "at the paper's scale only)",
            criterion=Criterion(
                at_least=1, reason="better at all: by how much the paper does not say"
            ),
            over="seeds",
            ratio=True,
        ),
    ),
    draw=_draw_fig17,
    runs=_fig17_runs,
    minutes={"smoke": 0.2, "laptop": 13, "paper": 14_000},
    smaller={
        "smoke": "Linear functions and networks only; 3 dimensions, 4 loops, 20 steps; a schedule "
        "that begins with four loops is none here.",
        "laptop": "Linear functions and networks only, without sparse ones and trees; 5 "
        "dimensions, 20 hidden units, width 64, 1500 steps of a faster optimiser; loops grow "
        "over 60% of the steps.",
    },
)
def fig17(lab: Lab) -> Findings:
    """Error by examples after training with and without a schedule of loops."""
    families = _families(lab.scale)
    errors: dict[tuple[str, str], list[Tensor]] = {
        (family, schedule): [] for family in families for schedule in _SCHEDULES
    }
    measured: dict[str, list[Quantity]] = {"matters-little": [], "helps-trees": []}
    for seed in lab.seeds:
        changes: dict[str, Quantity] = {}
        for family in families:
            config = lab.run(f"{family} with", seed).config
            prompt = lab.draw(config.task, config.points, seed=seed, purpose=family)
            for schedule in _SCHEDULES:
                model = lab.model(f"{family} {schedule}", seed)
                errors[family, schedule].append(lab.errors(model, prompt, config.task))  # (P, n)
            means = {key: errors[family, key][-1].mean(dim=1) for key in _SCHEDULES}  # (P,) each
            changes[family] = lab.ratio(means["without"], means["with"], seed=seed)
        others = [either_way(changes[family]) for family in families if family != "tree"]
        measured["matters-little"].append(max(others, key=by_value))
        measured["helps-trees"].append(changes.get("tree", UNKNOWN))
    table = stacked(
        [
            curve(lab, several, "examples", {"family": family, "label": _SCHEDULES[schedule]})
            for (family, schedule), several in errors.items()
        ]
    )
    notes = () if "tree" in families else ("Trees are trained at the paper's scale only.",)
    return Findings(tables={"by-examples": table}, measured=measured, notes=notes)
