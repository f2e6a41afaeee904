"""Theorems as studies: a circuit is its algorithm, step by step, within the theorem's sizes.

A study of a theorem declares a `Theorem` and returns what `measure_theorem` measures:

    CAUSAL = Theorem(rows=rows_of("causal-gradient-descent"), says="..", parameter=..)

    @declare(paper=.., id="thm4.2", claims=theorem_claims(CAUSAL), draw=draw_theorem, ..)
    def thm42(lab: Lab) -> Measures:
        return measure_theorem(lab, CAUSAL)

Nothing is trained and nothing is left to chance: the prompts are those of fixed seeds.
`draw_theorem` is in `theorem_figure`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from innerloop.analysis.measured import Measured
from innerloop.circuits import CircuitSettings
from innerloop.core.tolerances import EXACT_CIRCUIT
from innerloop.studies.circuits import Case, compare
from innerloop.studies.claim import Claim, Criterion
from innerloop.studies.equality import Equality
from innerloop.studies.lab import Lab

DIMS, POINTS = 5, 11
"""The size at which a free parameter is swept."""
SMOKE_SIZES = ((2, 4), (5, 11))
"""Dimensions and points at smoke scale; the other scales take all of them."""
SEEDS = 2
"""Of prompts, four each; they have nothing to do with seeds of training, of which there is none."""
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
    """One a form that is swept."""
    values: tuple[float, ...]
    setting: str = "scale"
    """What the circuit's settings call it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Theorem:
    """What a theorem says of a circuit, as rows of the table of equalities."""

    rows: tuple[Equality, ...]
    """One a form of the construction."""
    says: str
    """The sentence of the theorem, in our words."""
    parameter: FreeParameter | None = None
    """None where the construction is exact."""
    sizes: tuple[tuple[int, int], ...] = ()
    """Dimensions and points beyond those of the rows, such as the paper's own."""
    stated_by: str = "the theorem"
    """Where the layers and heads that are allowed stand: in its proof, if it has orders alone."""


def powers(base: float, first: float, last: float, each: int = 1) -> tuple[float, ...]:
    """Powers of a base, so many from one whole power to the next."""
    count = round((last - first) * each) + 1
    return tuple(base ** (first + i / each) for i in range(count))


def form_of(row: Equality) -> str:
    """What tables call a row: the form, and where the norm stands if there is one."""
    blueprint = row.settings(DIMS, POINTS).blueprint()
    return blueprint.form if blueprint.norm == "none" else f"{blueprint.form}, {blueprint.norm}"


def theorem_claims(theorem: Theorem) -> tuple[Claim, ...]:
    """It is the algorithm; it is as small as stated; its error falls with the free parameter."""
    if theorem.parameter is None:
        equal = Criterion(
            at_most=EXACT_CIRCUIT,
            reason="the construction is exact: float64 has 16 digits, and steps add up roundings",
        )
        quantity = "worst error after any step / max(1, |answer|), over all sizes and prompts"
    else:
        equal = Criterion(
            at_most=1.0,
            reason="the construction states a bound on its error before it is run: what the free "
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
            over="exact",
        ),
        Claim(
            name="within-the-theorem",
            sentence="Its layers and heads, before, in and after the steps, are as few as stated.",
            quantity=f"parts of the circuit that are larger than {theorem.stated_by} allows, over "
            "all sizes",
            statistic=lambda m: m["parts too large"],
            criterion=Criterion(at_most=0, reason=f"{theorem.stated_by} states the numbers"),
            over="exact",
        ),
    ]
    orders = () if theorem.parameter is None else theorem.parameter.orders
    return (*claims, *(_falls(theorem, order) for order in orders))


def _falls(theorem: Theorem, order: Order) -> Claim:
    assert theorem.parameter is not None
    direction = "shrinks" if order.power > 0 else "grows"
    letter = theorem.parameter.name.partition(",")[0]
    return Claim(
        name=f"falls-{order.form.replace(', ', '-')}",
        statistic=lambda m: m[f"slope, {order.form}"],
        sentence=f"The error falls as {letter} {direction} (form: {order.form}).",
        quantity=f"slope of log error against log {letter}, from {order.between[0]:g} to "
        f"{order.between[1]:g}",
        criterion=Criterion(
            at_least=order.power - SLACK,
            at_most=order.power + SLACK,
            reason=f"the first term of the series that is left out has the power {order.power:g}",
        ),
        over="exact",
    )


def measure_theorem(lab: Lab, theorem: Theorem) -> dict[str, Measured]:
    """Hold every form of the circuit to its algorithm, at every size, and sweep its parameter."""
    cases: list[Case] = []
    shapes: list[pd.DataFrame] = []
    excesses = 0
    for row in theorem.rows:
        for settings in _settings(lab, theorem, row):
            lab.tell(f"{row.circuit}, {form_of(row)}, d {settings.dims}, n {settings.points}")
            case = compare(row, settings, seeds=lab.choose(smoke=1, laptop=SEEDS, paper=SEEDS))
            cases.append(case)
            limit = row.limit(settings)
            shapes.append(_shape_table(case, row, settings))
            excesses += len(case.shape.beyond(limit))
    by_step = _by_step(cases)
    errors = by_step["error"].to_numpy(float)
    stated = by_step["truncation"].to_numpy(float) + by_step["rounding"].to_numpy(float)
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
        swept = by_parameter(lab, theorem.rows, theorem.parameter)
        orders = _orders(swept, theorem.parameter)
        lab.table("by-parameter", swept)
        lab.table("orders", orders)
        for form, slope in zip(orders["form"], orders["slope"], strict=True):
            measures[f"slope, {form}"] = Measured.exact(slope)
    return measures


def _settings(lab: Lab, theorem: Theorem, row: Equality) -> Iterator[CircuitSettings]:
    every = (*((d, n) for d in row.dims for n in row.points), *theorem.sizes)
    for dims, points in lab.choose(smoke=SMOKE_SIZES, laptop=every, paper=every):
        yield row.settings(dims, points)


def _by_step(cases: Sequence[Case]) -> pd.DataFrame:
    """One row a form, size and step: the worst error and the two parts of the stated bound."""
    rows = [
        (_form(case), case.dims, case.points, step, error, bound.truncation, bound.rounding)
        for case in cases
        for step, (error, bound) in enumerate(zip(case.errors, case.bounds, strict=True))
    ]
    columns = ("form", "dims", "points", "step", "error", "truncation", "rounding")
    return pd.DataFrame(rows, columns=list(columns))


def _form(case: Case) -> str:
    return case.form if case.norm == "none" else f"{case.form}, {case.norm}"


def _shape_table(case: Case, row: Equality, settings: CircuitSettings) -> pd.DataFrame:
    """Layers and heads of each part beside what the theorem allows; width and mask of the whole."""
    shape, limit = case.shape, row.limit(settings)
    return pd.DataFrame(
        {
            "form": [_form(case)] * 3,
            "dims": [case.dims] * 3,
            "points": [case.points] * 3,
            "part": ["before", "step", "after"],
            "layers": [shape.pre, shape.step, shape.post],
            "layers allowed": [limit.pre, limit.step, limit.post],
            "heads": shape.heads,
            "heads allowed": limit.heads,
            "width": [shape.width] * 3,
            "width allowed": [limit.width] * 3,
            "mask": [shape.mask] * 3,
            "theorem": [limit.theorem] * 3,
        }
    )


def by_parameter(lab: Lab, rows: Sequence[Equality], parameter: FreeParameter) -> pd.DataFrame:
    """The worst error of all steps and the parts of its bound, a form and value of the parameter.

    At smoke scale only the values that orders are fitted to.
    """
    found: list[tuple[str, float, float, float, float, bool]] = []
    for row in rows:
        form, base = form_of(row), row.settings(DIMS, POINTS)
        order = next((order for order in parameter.orders if order.form == form), None)
        if order is None:
            continue
        for value in parameter.values:
            fitted = _within(value, order)
            if lab.scale == "smoke" and not fitted:
                continue
            lab.tell(f"{row.circuit}, {form}, {parameter.setting} {value:.2g}")
            settings = type(base).model_validate({**dict(base), parameter.setting: value})
            case = compare(row, settings, seeds=1)
            truncation = max(bound.truncation for bound in case.bounds)
            rounding = max(bound.rounding for bound in case.bounds)
            found.append((form, value, max(case.errors), truncation, rounding, fitted))
    columns = ("form", "value", "error", "truncation", "rounding", "fitted")
    table = pd.DataFrame(found, columns=list(columns))
    return table.assign(parameter=parameter.name)


def _within(value: float, order: Order) -> bool:
    low, high = order.between
    return low * (1 - 1e-9) <= value <= high * (1 + 1e-9)


def slope_of(values: Sequence[float], errors: Sequence[float]) -> float:
    """The power with which errors grow with values: the line through their logarithms."""
    return float(np.polyfit(np.log(np.asarray(values)), np.log(np.asarray(errors)), 1)[0])


def _orders(swept: pd.DataFrame, parameter: FreeParameter) -> pd.DataFrame:
    """The measured power of each form beside the one of theory."""
    slopes: list[float] = []
    for order in parameter.orders:
        rows = swept.loc[(swept["form"] == order.form) & swept["fitted"], :]
        slopes.append(slope_of(rows["value"].tolist(), rows["error"].tolist()))
    return pd.DataFrame(
        {
            "form": [order.form for order in parameter.orders],
            "power": [order.power for order in parameter.orders],
            "slope": slopes,
            "from": [order.between[0] for order in parameter.orders],
            "to": [order.between[1] for order in parameter.orders],
        }
    )
