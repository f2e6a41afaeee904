"""Figure 9: how many loops each family of functions needs."""

from collections.abc import Iterable

import pandas as pd
from matplotlib.figure import Figure
from torch import Tensor

from innerloop.analysis import Averages, Measured, drawing
from innerloop.studies.claim import Claim
from innerloop.studies.lab import Lab
from innerloop.studies.nulls import instead, untrained
from innerloop.studies.study import Measures, Tables, declare
from innerloop.studies.yang2024 import shared
from innerloop.studies.yang2024.loop_grid import (
    GRIDS,
    Grid,
    Grids,
    Place,
    by_window,
    drifts,
    few_for_many,
    grid_of,
    many_loops,
    mark_trained,
    second_for_first,
)
from innerloop.studies.yang2024.shared import LOWER, PLAIN, STAYS, TITLES, UNLIKE_THE_PAPER

NEEDED: Grids = {
    "smoke": (Place("sparse", 2, 3), *(Place(family, 4, 3) for family in TITLES)),
    "laptop": (
        *(Place("sparse", loops, 10) for loops in (6, 20)),
        *(Place("network", loops, 5) for loops in (6, 20)),
    ),
    "paper": tuple(each for each in GRIDS["paper"] if each.window == 10 and each.family in TITLES),
}
"""The models of each scale: one window per family."""


def fewest_and_most(grid: Grid) -> dict[str, tuple[Place, Place]]:
    """The models with the smallest and the largest b of each family that has several."""
    return {
        family: (own[0], own[-1]) for (family, _), own in by_window(grid).items() if len(own) > 1
    }


def stays_better(m: Averages) -> Tensor:
    """The drift of the largest b over that of the smallest, geometric mean over families: (..)."""
    fewest, most = zip(*fewest_and_most(grid_of(m, NEEDED)).values(), strict=True)
    return shared.geometric_mean(drifts(m, most) / drifts(m, fewest))


def networks_stay(m: Averages) -> Tensor:
    """The drift of networks at the smallest b over that of the calmest other family: (..)."""
    fewest = {family: own[0] for (family, _), own in by_window(grid_of(m, NEEDED)).items()}
    network = shared.drift(fewest.pop("network").label)(m)  # (..)
    return network / drifts(m, fewest.values()).amin(dim=-1)


def over_plain(m: Averages, places: Iterable[Place]) -> list[Tensor]:
    """Errors (..) over all prefixes over those of a learner that knows nothing of the family."""
    return [m[f"{place.label}, all prefixes"] / m[f"{place.family}, plain"] for place in places]


def _of_twenty(grid: Grid) -> list[Place]:
    """The model of sparse functions with b = 20, or with the most where there are fewer."""
    return [[place for place in sorted(grid) if place.family == "sparse" and place.loops <= 20][-1]]


def _draw_fig9(tables: Tables) -> Figure:
    """Errors by loop, and what they have become since b loops, with the margin of staying."""
    table = tables["by-loop"]
    order = [f"b = {loops}" for loops in sorted(set(table["trained loops"]))]
    families = list(dict.fromkeys(table["family"]))
    figure, axes = drawing.panels(2 * len(families), columns=len(families), size=(3.9, 2.6))
    for place, (panel, family) in enumerate(zip(axes, families * 2, strict=True)):
        rows = drawing.rows_where(table, {"family": family})
        below = place >= len(families)
        if below:
            rows = _since_trained(rows)
            drawing.level(panel, STAYS.at_most, label="a tenth more")
        # The bands are those of errors, far wider than those of ratios on the same prompts.
        drawing.draw_curves(panel, rows, x="loop", order=order, band=not below)
        drawing.name(
            panel, title="" if below else TITLES[family], x="loops" if below else "",
            y="error / error at b loops" if below else drawing.ERROR,
        )  # fmt: skip
        mark_trained(panel, rows, order, "")
    for panel in axes[len(families) :]:
        if panel.get_ylim()[1] < 2:  # nothing moves: on a logarithmic axis not to be seen
            panel.set_yscale("linear")
            panel.set_ylim(0, 2)
    drawing.legend(figure, axes, columns=6)
    return figure


def _since_trained(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of each curve from b loops on, over its mean at b loops."""
    curves: list[pd.DataFrame] = []
    for _, curve in rows.groupby("label", sort=False):
        after = curve.loc[curve["loop"] >= curve["trained loops"]].copy()
        after["mean"] /= float(after["mean"].iloc[0])
        curves.append(after)
    return pd.concat(curves)


@declare(
    paper="yang2024", id="fig9",
    title="How many loops a family of functions needs for a stable fixed point",
    claims=(
        Claim(
            name="sparse-stays", ratio=True, criterion=STAYS,
            sentence="On sparse functions b = 20 loops with T = 10 find a stable fixed point.",
            quantity="error far beyond b / error at b, sparse, b = 20 (4 at smoke)",
            statistic=lambda m: drifts(m, _of_twenty(grid_of(m, NEEDED)))[..., 0],
            premise=shared.known(
                "this model", lambda m: over_plain(m, _of_twenty(grid_of(m, NEEDED)))
            ),
            excludes=("untrained", "few for many", "plain learners"),
        ),
        Claim(
            name="larger-b-stays", ratio=True, criterion=LOWER,
            sentence="A larger b is more stable beyond the trained loops, whatever the family.",
            quantity="drift (error far beyond b / error at b) of the largest b / that of the "
            "smallest, geometric mean over the families measured",
            statistic=stays_better,
            premise=shared.known(
                "all families at the largest b",
                lambda m: over_plain(m, many_loops(grid_of(m, NEEDED))),
            ),
            excludes=("untrained", "few for many", "one b against itself"),
        ),
        Claim(
            name="network-needs-least", ratio=True, criterion=LOWER,
            sentence="Two-layer networks need fewer loops than the other families.",
            quantity="drift at the smallest b, networks / the other family that drifts least",
            statistic=networks_stay,
            premise=shared.known(
                "all families at the smallest b",
                lambda m: over_plain(m, [own[0] for own in by_window(grid_of(m, NEEDED)).values()]),
            ),
            excludes=("untrained", "untrained networks", "one b against itself"),
        ),
    ),
    runs=lambda scale: {place.label: place.run(scale) for place in NEEDED[scale]},
    nulls={
        "untrained": untrained(),
        "untrained networks": lambda lab: untrained(
            *(place.label for place in NEEDED[lab.scale] if place.family == "network")
        )(lab),
        "few for many": few_for_many(NEEDED),
        "one b against itself": second_for_first(
            NEEDED, lambda grid: fewest_and_most(grid).values()
        ),
        "plain learners": instead(lambda lab, label: PLAIN[label.split()[0]]),
    },
    draw=_draw_fig9, minutes={"smoke": 0.5, "laptop": 25, "paper": 30_000},
    smaller={
        "smoke": "4 loops, for sparse functions also 2, run for 20; 20 steps.",
        "laptop": "Two b, 6 and 20, for sparse functions (T = 10, 10 dimensions with 2 weights, "
        "2500 steps) and networks (T = 5, 20 units in 5 dimensions, 1500 steps); width 64 with 4 "
        "heads; run for 100 loops. T is b where b is smaller. No trees. Of sparse "
        "functions dimensions grow from 2, positions count by the inverse of their errors, and "
        f"rates fall in the second half of the steps alone. {UNLIKE_THE_PAPER}.",
    },
)  # fmt: skip
def fig9(lab: Lab) -> Measures:
    """Error by loop far beyond the trained ones, for each family and b."""
    last = lab.choose(smoke=20, laptop=100, paper=200)
    measures: dict[str, Measured] = {}
    for place in NEEDED[lab.scale]:
        errors = shared.errors_of(lab, place.label, purpose=place.family)
        measures |= place.measure(lab, last)
        measures[f"{place.label}, all prefixes"] = shared.over_prefixes(errors)
        measures[f"{place.family}, plain"] = shared.plain_errors(lab, place.label, place.family)
    return measures
