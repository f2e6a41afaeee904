"""Figure 5 and table 1: an LSTM is nearer to online gradient descent than a transformer is."""

from collections.abc import Mapping
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from innerloop.analysis.drawing import COLOURS, draw_curves, legend, name, panels, plain
from innerloop.analysis.forgetting import example_errors
from innerloop.analysis.similarity import predict_in_parts
from innerloop.core.learner import Learner
from innerloop.learners import OLS, GradientDescent, Newton, OnlineGradientDescent
from innerloop.studies.claim import Claim, Criterion
from innerloop.studies.fu2023.layers import (
    Measure,
    draw_with_queries,
    error_directions,
    induced_by_layer,
    similarities,
    weight_directions,
)
from innerloop.studies.fu2023.matching import MODEL, descent_steps, newton
from innerloop.studies.fu2023.trends import DESCENT, NEWTON, Trend, gathered, trend_of
from innerloop.studies.lab import Lab
from innerloop.studies.quantity import Quantity
from innerloop.studies.runs import trained
from innerloop.studies.study import Findings, Tables, declare
from innerloop.studies.tables import curve, record, rows_where, stacked
from innerloop.training.config import RunConfig
from innerloop.training.families import Scale

LSTM, ONLINE = "LSTM", "online gradient descent"
ORDER = (MODEL, LSTM, "Newton, as far as the LSTM", ONLINE, "least squares")
"""Learners of the curves; Newton's method takes the number of iterations that matches the LSTM."""
MEASURES: tuple[Measure, ...] = ("SimE", "SimW")


def _runs(scale: Scale) -> Mapping[str, RunConfig]:
    return {MODEL: trained("standard-linear", scale), LSTM: trained("lstm-linear", scale)}


def _draw_fig5(tables: Tables) -> Figure:
    figure, axes = panels(4, columns=2, size=(4.6, 3.4))
    draw_curves(axes[0], tables["by-examples"], x="examples", order=ORDER, log=False)
    name(axes[0], title="error by examples", x="examples in the prompt", y="squared error / E[y²]")
    draw_curves(axes[1], tables["forgetting"], x="gap", order=ORDER, log=False)
    rows = rows_where(tables["similarities"], {"seed": 0, "measure": "SimE"})
    steps = rows_where(rows, {"model": LSTM, "algorithm": NEWTON})["step"].iloc[0]
    name(
        axes[1], title=f"examples asked again (Newton: k = {steps})",
        x="examples that came later", y="squared error / E[y²]",
    )  # fmt: skip
    _draw_similarities(axes[2], tables, "SimE")
    name(axes[2], title="SimE at the best match (table 1)", y="SimE")
    _draw_similarities(axes[3], tables, "SimW")
    name(axes[3], title="SimW at the best match (not in table 1)", y="SimW")
    legend(figure, axes, columns=5)
    return figure


def _draw_similarities(axes: Axes, tables: Tables, measure: Measure) -> None:
    """A bar for each algorithm and model, of the first seed."""
    rows = rows_where(tables["similarities"], {"seed": 0, "measure": measure})
    places = {algorithm: place for place, algorithm in enumerate(dict.fromkeys(rows["algorithm"]))}
    for index, model in enumerate((MODEL, LSTM)):
        each = rows_where(rows, {"model": model})
        own = [places[algorithm] + 0.2 * (2 * index - 1) for algorithm in each["algorithm"]]
        mean = each["mean"].to_numpy(float)
        spread = [mean - each["low"].to_numpy(float), each["high"].to_numpy(float) - mean]
        axes.bar(own, mean, width=0.36, yerr=spread, color=COLOURS[index])
    plain(axes, whole=False)
    axes.set_xticks(
        list(places.values()),
        [key.replace(" gradient", "\ngradient") for key in places],
        fontsize=8,
    )


def _nearer(claim: str, first: str, second: str, algorithm: str, paper: str) -> Claim:
    """One model is nearer to an algorithm than the other is: of two ways of training."""
    return Claim(
        name=claim,
        sentence=f"The {first} is more similar to {algorithm} than the {second} is (SimE).",
        quantity=f"SimE with {algorithm} at its best match, {first} less {second}",
        criterion=Criterion(
            at_least=0.0, reason="table 1 compares the two; equal models would differ by 0"
        ),
        over="seeds",
        paper=paper,
    )


@declare(
    paper="fu2023",
    id="fig5",
    also=("table1",),
    title="An LSTM is nearer to online gradient descent than a transformer is; a transformer is "
    "nearer to Newton's method than an LSTM",
    claims=(
        Claim(
            name="lstm-behind",
            sentence="LSTMs have a much higher error than transformers.",
            quantity="error after the last example, LSTM / transformer",
            criterion=Criterion(
                at_least=2.0, reason="twice is far more than two seeds differ by, a quarter"
            ),
            over="seeds",
            ratio=True,
        ),
        _nearer("lstm-online", LSTM, MODEL, ONLINE, "0.954 - 0.806"),
        _nearer("transformer-newton", MODEL, LSTM, NEWTON, "0.991 - 0.920"),
        _nearer("transformer-descent", MODEL, LSTM, DESCENT, "0.957 - 0.916"),
        Claim(
            name="lstm-forgets",
            sentence="The LSTM knows recent examples better than early ones.",
            quantity="error on examples asked again, older half / newer half, LSTM",
            criterion=Criterion(
                at_least=1.25,
                reason="1 for a learner that does not mind the order; two seeds differ by a "
                "quarter",
            ),
            over="prompts",
            ratio=True,
        ),
        Claim(
            name="newton-remembers",
            sentence="Newton's method, stopped as early, knows early and recent examples alike.",
            quantity="error on examples asked again, older half / newer half, Newton",
            criterion=Criterion(
                at_least=0.9, at_most=1.1, reason="the order does not enter: 1 in expectation"
            ),
            over="prompts",
            ratio=True,
        ),
        Claim(
            name="transformer-remembers",
            sentence="Transformers remember their examples better than LSTMs.",
            quantity="error on examples asked again, transformer / LSTM",
            criterion=Criterion(
                at_most=0.5, reason="half is far less than what separates two seeds of one model"
            ),
            over="seeds",
            ratio=True,
        ),
    ),
    draw=_draw_fig5,
    runs=_runs,
    minutes={"smoke": 0.3, "laptop": 6, "paper": 3500},
    smaller={
        "smoke": "3 dimensions, 7 points, width 16, 2 layers, 20 steps; 6 examples asked again.",
        "laptop": "5 dimensions, 11 points, width 64, 8 layers of the transformer and 4 of the "
        "LSTM, 2000 and 1500 steps of faster optimisers; 10 examples asked again in the place "
        "of 20.",
    },
)
def fig5(lab: Lab) -> Findings:
    """Error by examples, forgetting by age, and similarities of both models with algorithms."""
    measured: list[dict[str, Quantity]] = []
    notes = ["Gradient descent has the rate 1/L of each prefix, online descent 1/|x|^2."]
    errors: dict[str, list[Tensor]] = {key: [] for key in ORDER}
    forgotten: dict[str, list[Tensor]] = {key: [] for key in ORDER}
    tables: list[pd.DataFrame] = []
    task = lab.run(MODEL).config.task
    examples = lab.choose(smoke=6, laptop=10, paper=20)
    for seed in lab.seeds:
        found = {label: _similarities(lab, label, seed) for label in (MODEL, LSTM)}
        tables.append(_table(lab, found, seed))
        notes.append(_by_weights(lab, found, seed))
        steps = int(found[LSTM]["SimE", NEWTON].best[0])
        learners: tuple[Learner[Any], ...] = (
            lab.model(MODEL, seed), lab.model(LSTM, seed), Newton(steps), OnlineGradientDescent(),
            OLS(),
        )  # fmt: skip
        prompt = lab.draw(task, lab.run(MODEL).config.points, seed=seed)
        seen = lab.draw(task, examples, seed=seed, purpose="forgetting")
        for label, learner in zip(ORDER, learners, strict=True):
            errors[label].append(lab.errors(learner, prompt, task))  # (P, n)
            again = example_errors(learner, seen).flip(1) / task.scale_at(examples)  # (P, gaps)
            forgotten[label].append(again)
        measured.append(
            {
                "lstm-behind": lab.ratio(
                    errors[LSTM][-1][:, -1], errors[MODEL][-1][:, -1], seed=seed
                ),
                "lstm-online": difference(lab, found, (LSTM, MODEL), ONLINE, seed),
                "transformer-newton": difference(lab, found, (MODEL, LSTM), NEWTON, seed),
                "transformer-descent": difference(lab, found, (MODEL, LSTM), DESCENT, seed),
                "lstm-forgets": older_over_newer(lab, forgotten[LSTM][-1], seed),
                "newton-remembers": older_over_newer(lab, forgotten[ORDER[2]][-1], seed),
                "transformer-remembers": lab.ratio(
                    forgotten[MODEL][-1].mean(dim=1), forgotten[LSTM][-1].mean(dim=1), seed=seed
                ),
            }
        )
    return Findings(
        tables={
            "by-examples": _curves(lab, errors, "examples"),
            "forgetting": _curves(lab, forgotten, "gap"),
            "similarities": stacked(tables),
        },
        measured=gathered(measured),
        notes=tuple(notes),
    )


def older_over_newer(lab: Lab, errors: Tensor, seed: int) -> Quantity:
    """Errors by gap (P, gaps): of the older half of the examples over the newer half."""
    half = errors.shape[1] // 2
    return lab.ratio(errors[:, -half:].mean(dim=1), errors[:, :half].mean(dim=1), seed=seed)


def _similarities(lab: Lab, label: str, seed: int) -> dict[tuple[Measure, str], Trend]:
    """A model's answers beside every step of each algorithm, by both measures."""
    prompt, queries = draw_with_queries(lab, label, seed)
    model = lab.model(label, seed)
    algorithms: dict[str, Learner[Any]] = {
        NEWTON: newton(lab), DESCENT: GradientDescent(descent_steps(lab)),
        ONLINE: OnlineGradientDescent(),
    }  # fmt: skip
    lab.tell(f"induced weights of the {label}")
    own: dict[Measure, Tensor] = {
        "SimE": error_directions(predict_in_parts(model, prompt), prompt)[None],  # (1, P, m)
        "SimW": weight_directions(induced_by_layer(model, prompt, queries))[-1:],  # (1, P, m)
    }
    found: dict[tuple[Measure, str], Trend] = {}
    for measure in MEASURES:
        for key, algorithm in algorithms.items():
            lab.tell(f"{measure} of the {label} with {key}")
            table = similarities(own[measure], algorithm, prompt, measure)  # (P, 1, C)
            found[measure, key] = trend_of(table, measure, key, range(0))
    return found


def difference(
    lab: Lab,
    found: Mapping[str, Mapping[tuple[Measure, str], Trend]],
    models: tuple[str, str],
    algorithm: str,
    seed: int,
    measure: Measure = "SimE",
) -> Quantity:
    """The first model's similarity with an algorithm less the second's, on the same prompts."""
    one, other = (found[model][measure, algorithm].at_best()[:, 0] for model in models)  # (P,) each
    return lab.mean(one - other, seed=seed)


def _by_weights(
    lab: Lab, found: Mapping[str, Mapping[tuple[Measure, str], Trend]], seed: int
) -> str:
    """A note of the same differences by SimW, of which table 1 and so the claims do not speak."""
    told: list[str] = []
    for models, algorithm in (
        ((LSTM, MODEL), ONLINE),
        ((MODEL, LSTM), NEWTON),
        ((MODEL, LSTM), DESCENT),
    ):
        each = difference(lab, found, models, algorithm, seed, "SimW")
        words = f"{each.value:.3f} ({each.low:.3f} to {each.high:.3f})"
        told.append(f"with {algorithm}, {models[0]} less {models[1]}, {words}")
    return (
        "Table 1 is of errors (SimE), and so are the claims. Of induced weights (SimW) it says "
        f"nothing; seed {seed} has here: {'; '.join(told)}."
    )


def _table(
    lab: Lab, found: Mapping[str, Mapping[tuple[Measure, str], Trend]], seed: int
) -> pd.DataFrame:
    """Table 1: one row a model, measure and algorithm, with the step that matches best."""
    rows = [
        (model, measure, algorithm, int(trend.best[0]), lab.mean(trend.at_best()[:, 0], seed=seed))
        for model, each in found.items()
        for (measure, algorithm), trend in each.items()
    ]
    return record(
        {
            "seed": [seed] * len(rows),
            "model": [row[0] for row in rows],
            "measure": [row[1] for row in rows],
            "algorithm": [row[2] for row in rows],
            "step": [row[3] for row in rows],
            "mean": [row[4].value for row in rows],
            "low": [row[4].low for row in rows],
            "high": [row[4].high for row in rows],
        }
    )


def _curves(lab: Lab, found: Mapping[str, list[Tensor]], axis: str) -> pd.DataFrame:
    return stacked([curve(lab, found[key], axis, {"label": key}) for key in found])
