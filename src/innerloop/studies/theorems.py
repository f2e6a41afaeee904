"""Theorems as studies: a circuit is its algorithm, step by step, within the theorem's sizes.

A study of a theorem declares a `Theorem` and returns what `measure_theorem` measures:

    CAUSAL = Theorem(rows=rows_of("causal-gradient-descent"), says="..", parameter=..)

    @declare(paper=.., id="thm4.2", claims=theorem_claims(CAUSAL), draw=draw_theorem, ..)
    def thm42(lab: Lab) -> Measures:
        return measure_theorem(lab, CAUSAL)

Nothing is trained and nothing is left to chance: the prompts are those of fixed seeds.
`draw_theorem` is in `theorem_figure`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from innerloop.analysis import Measured
from innerloop.core.tolerances import EXACT_CIRCUIT
from innerloop.studies.circuits import Case, compare
from innerloop.studies.claim import Claim, at_most, between
from innerloop.studies.equality import Equality, Limit
from innerloop.studies.lab import Lab

DIMS, POINTS = 5, 11
"""The size at which a free parameter is swept."""
SMOKE_SIZES = ((2, 4), (5, 11))
"""Dimensions and points at smoke scale; the other scales take all of them."""
SEEDS = 2
"""Of prompts, four each; these are no seeds of training, of which there is none."""
SLACK = 0.25
"""How far a measured order may be from the one that theory has; orders are whole numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """With which power of its free parameter the error of a form falls, and where that shows."""

    form: str
    """As tables call it: see `form_of`."""
    power: float
    """Positive where the parameter goes to 0, negative where it grows."""
    between: tuple[float, float]
    """The values fitted: on one side rounding counts, on the other the orders that follow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FreeParameter:
    """A setting that makes a construction as good as one likes, on paper."""

    name: str
    """What the axis calls it: `c, the scale of scores`."""
    orders: tuple[Order, ...]
    """One per form that is swept."""
    values: tuple[float, ...]
    """Of `scale`, as the circuit's settings call it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Theorem:
    """What a theorem says of a circuit, as rows of the table of equalities."""

    rows: tuple[Equality, ...]
    """One per form of the construction."""
    says: str
    """The sentence of the theorem, in our words."""
    parameter: FreeParameter | None = None
    """None where the construction is exact."""
    sizes: tuple[tuple[int, int], ...] = ()
    """Dimensions and points beyond those of the rows, such as the paper's own."""
    stated_by: str = "the theorem"
    """What states how many layers and heads are allowed: the proof, if the theorem has orders."""


def powers(base: float, first: float, last: float, each: int = 1) -> tuple[float, ...]:
    """Powers of a base, so many from one whole power to the next."""
    count = round((last - first) * each) + 1
    return tuple(base ** (first + i / each) for i in range(count))


def form_of(row: Equality) -> str:
    """What tables call a row: the form, and where the norm is if there is one."""
    blueprint = row.settings(DIMS, POINTS).blueprint()
    return blueprint.form if blueprint.norm == "none" else f"{blueprint.form}, {blueprint.norm}"


def theorem_claims(theorem: Theorem) -> tuple[Claim, ...]:
    """It is the algorithm; it is as small as stated; its error falls with the free parameter."""
    if theorem.parameter is None:
        equal = at_most(
            EXACT_CIRCUIT,
            "the construction is exact: float64 has 16 digits, and steps add up roundings",
        )
        quantity = "worst error after any step / max(1, |answer|), over all sizes and prompts"
    else:
        equal = at_most(
            1.0,
            "the construction states a bound on its error before it is run: what the free "
            "parameter leaves out and what float64 rounds",
        )
        quantity = "worst error / stated bound, over all steps, sizes, prompts and forms"
    claims = [
        Claim(
            name="equals-the-algorithm",
            sentence=theorem.says,
            quantity=quantity,
            statistic=lambda m: m["worst error"],
            criterion=equal,
        ),
        Claim(
            name="within-the-theorem",
            sentence="Its layers and heads, before, in and after the steps, are as few as stated.",
            quantity=f"parts of the circuit that are larger than {theorem.stated_by} allows, over "
            "all sizes",
            statistic=lambda m: m["parts too large"],
            criterion=at_most(0, f"{theorem.stated_by} states the numbers"),
        ),
    ]
    if theorem.parameter is not None:
        letter = theorem.parameter.name.partition(",")[0]
        claims += [_falls(letter, order) for order in theorem.parameter.orders]
    return tuple(claims)


def _falls(letter: str, order: Order) -> Claim:
    direction = "shrinks" if order.power > 0 else "grows"
    return Claim(
        name=f"falls-{order.form.replace(', ', '-')}",
        sentence=f"The error falls as {letter} {direction} (form: {order.form}).",
        quantity=f"slope of log error against log {letter}, from {order.between[0]:g} to "
        f"{order.between[1]:g}",
        statistic=lambda m: m[f"slope, {order.form}"],
        criterion=between(
            order.power - SLACK,
            order.power + SLACK,
            f"the first term of the series that is left out has the power {order.power:g}",
        ),
    )


def measure_theorem(lab: Lab, theorem: Theorem) -> dict[str, Measured]:
    """Hold every form of the circuit to its algorithm, at every size, and sweep its parameter."""
    steps: list[pd.DataFrame] = []
    shapes: list[pd.DataFrame] = []
    excesses = 0
    for row in theorem.rows:
        form = form_of(row)
        every = (*((d, n) for d in row.dims for n in row.points), *theorem.sizes)
        for dims, points in lab.choose(smoke=SMOKE_SIZES, laptop=every, paper=every):
            lab.tell(f"{row.circuit}, {form}, d {dims}, n {points}")
            settings = row.settings(dims, points)
            case = compare(row, settings, seeds=lab.choose(smoke=1, laptop=SEEDS, paper=SEEDS))
            limit = row.limit(settings)
            size = {"form": form, "dims": dims, "points": points}
            steps.append(pd.DataFrame({
                **size, "step": range(len(case.errors)), "error": case.errors,
                "truncation": [bound.truncation for bound in case.bounds],
                "rounding": [bound.rounding for bound in case.bounds],
            }))  # fmt: skip
            shapes.append(pd.DataFrame({**size, **_shape(case, limit)}))
            excesses += len(case.shape.beyond(limit))
    by_step = pd.concat(steps, ignore_index=True)
    errors = by_step["error"].to_numpy(float)
    stated = (by_step["truncation"] + by_step["rounding"]).to_numpy(float)
    # Before the first step nothing is computed: no error, and none is allowed.
    ratios = np.divide(errors, stated, out=np.zeros_like(errors), where=(errors > 0) | (stated > 0))
    equal = errors.max() if theorem.parameter is None else ratios.max()
    measures = {
        "worst error": Measured.exact(float(equal)),
        "parts too large": Measured.exact(excesses),
    }
    lab.table("by-step", by_step)
    lab.table("shapes", pd.concat(shapes, ignore_index=True))
    if theorem.parameter is not None:
        swept, orders = _sweep(lab, theorem.rows, theorem.parameter)
        lab.table("by-parameter", swept)
        lab.table("orders", orders)
        for form, slope in zip(orders["form"], orders["slope"], strict=True):
            measures[f"slope, {form}"] = Measured.exact(slope)
    return measures


def _shape(case: Case, limit: Limit) -> dict[str, Any]:
    """Layers and heads of each part beside what the theorem allows; width and mask of the whole."""
    shape = case.shape
    return {
        "part": ["before", "step", "after"],
        "layers": [shape.pre, shape.step, shape.post],
        "layers allowed": [limit.pre, limit.step, limit.post],
        "heads": shape.heads,
        "heads allowed": limit.heads,
        "width": shape.width,
        "width allowed": limit.width,
        "mask": case.blueprint.mask,
        "theorem": limit.theorem,
    }


def _sweep(
    lab: Lab, rows: Sequence[Equality], parameter: FreeParameter
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The worst error of all steps and the parts of its bound, by form and value; orders, by form.

    At smoke scale only the values that orders are fitted to.
    """
    by_form = {form_of(row): row for row in rows}
    swept: list[tuple[str, float, float, float, float, bool]] = []
    orders: list[tuple[str, float, float, float, float]] = []
    for order in parameter.orders:
        row, (low, high) = by_form[order.form], order.between
        base, errors = row.settings(DIMS, POINTS), dict[float, float]()
        for value in parameter.values:
            fitted = low * (1 - 1e-9) <= value <= high * (1 + 1e-9)
            if lab.scale == "smoke" and not fitted:
                continue
            lab.tell(f"{row.circuit}, {order.form}, scale {value:.2g}")
            settings = type(base).model_validate({**dict(base), "scale": value})
            case = compare(row, settings, seeds=1)
            truncation = max(bound.truncation for bound in case.bounds)
            rounding = max(bound.rounding for bound in case.bounds)
            swept.append((order.form, value, max(case.errors), truncation, rounding, fitted))
            if fitted:
                errors[value] = max(case.errors)
        slope = slope_of(list(errors), list(errors.values()))
        orders.append((order.form, order.power, slope, low, high))
    columns = ["form", "value", "error", "truncation", "rounding", "fitted"]
    by_value = pd.DataFrame(swept, columns=columns).assign(parameter=parameter.name)
    return by_value, pd.DataFrame(orders, columns=["form", "power", "slope", "from", "to"])


def slope_of(values: Sequence[float], errors: Sequence[float]) -> float:
    """The power with which errors grow with values: the line through their logarithms."""
    return float(np.polyfit(np.log(np.asarray(values)), np.log(np.asarray(errors)), 1)[0])
