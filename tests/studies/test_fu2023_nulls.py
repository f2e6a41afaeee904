"""The nulls of Fu et al.'s studies fail, and learners of which the sentences are true do not."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest

from innerloop.analysis.intervals import estimate
from innerloop.core.learner import Learner
from innerloop.core.prompt import Prompt
from innerloop.core.task import Task
from innerloop.learners import OLS, GradientDescent, Newton, OnlineGradientDescent, Strided
from innerloop.learners.in_turn import InTurn
from innerloop.studies.claim import control
from innerloop.studies.fu2023 import fig1, fig3, fig4, fig5, fig7, fig9, fig14, fig16
from innerloop.studies.fu2023.model_layers import LSTM, MODEL
from innerloop.studies.fu2023.stand_ins import GROWING, MANY
from innerloop.studies.lab import Lab, Null
from innerloop.studies.nulls import untrained
from innerloop.studies.study import Study, premises
from innerloop.training.run import Run
from innerloop.training.trainer import first_model

Learners = Mapping[str, Learner[Any]]
TRANSFORMER = (fig1, fig3, fig4, fig7, fig9, fig14, fig16)
NEEDS_TRAINING = "the transformer in the place of the LSTM"


@pytest.fixture(autouse=True)
def few_prompts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Laptop scale on few prompts: seconds instead of minutes."""
    draw = Lab.draw

    def fewer(
        lab: Lab, task: Task, points: int, *, prompts: int | None = None, purpose: str = "test"
    ) -> Prompt:
        number = 48 if purpose == "test" else 192
        return draw(lab, task, points, prompts=number, purpose=purpose)

    monkeypatch.setattr(Lab, "draw", fewer)


def lab_of(study: Study) -> Lab:
    """A lab at laptop scale whose models have not been trained."""

    def run(config: Any) -> Run:
        return cast(Run, SimpleNamespace(config=config, model=lambda: first_model(config)))

    runs = {label: run(config) for label, config in study.runs("laptop").items()}
    return Lab(study=study.name, scale="laptop", runs=runs)


def passing(study: Study, null: Null) -> dict[str, bool]:
    """Which claims learners in the place of the models meet, with their premise."""
    own = [study.measure(lab_of(study).standing_in(null))]
    met: dict[str, bool] = {}
    for claim in study.claims:
        number = estimate(claim.statistic, own, log=claim.ratio, draws=50)
        met[claim.name] = control(claim.statement, "", number, premises(claim, own)).passes
    return met


def cases() -> list[Any]:
    """Every null of every study; figure 14 has the claims of 3 and 7, and figure 4 those of all."""
    return [
        pytest.param(
            study, null, id=f"{study.id}, {null}",
            marks=(pytest.mark.slow,) if study in (fig4, fig14) and null != MANY else (),
        )
        for study in TRANSFORMER
        for null in study.nulls
        if null != NEEDS_TRAINING
    ]  # fmt: skip


@pytest.mark.parametrize(("study", "null"), cases())
def test_nulls_fail(study: Study, null: str) -> None:
    met = passing(study, study.nulls[null])
    excluded = [claim.name for claim in study.claims if null in claim.excludes]
    assert excluded
    assert not [name for name in excluded if met[name]]


def strided(learner: Learner[Any], *strides: int) -> Learners:
    return {MODEL: Strided(learner, strides)}


RIGHT: dict[str, tuple[Study, Learners, set[str]]] = {
    "Newton's method converges": (
        fig1, {**strided(Newton(16), *[2] * 8), LSTM: Strided(OnlineGradientDescent(), (1,) * 4)},
        {"layers-improve", "progressively", "curves-like-newton", "lstm-flat"},
    ),
    "one iteration per layer": (
        fig3, strided(Newton(8), *[1] * 8), {"errors-newton-linear", "errors-descent-exponential"},
    ),
    "two iterations per layer": (
        fig3, strided(Newton(16), *[2] * 8), {"errors-newton-linear", "iterations-a-layer"},
    ),
    # By which they have Newton's rate, as the sentence says; figure 9 tells them from its method.
    "steps that grow by a factor": (
        fig3, strided(GradientDescent(200), *(2, 2, 4, 8, 16, 32, 64)),
        {"errors-newton-linear", "errors-descent-exponential"},
    ),
    "ill-conditioned": (
        fig4, strided(Newton(16), *[2] * 8),
        {"layers-improve", "progressively", "errors-newton-linear", "not-descent", "descent-slow"},
    ),
    "the last layer is least squares": (
        fig7, strided(Newton(16), *[2] * 8), {"weights-newton-linear", "last-layer-least-squares"},
    ),
    "the first layer does nothing": (
        fig7, strided(GradientDescent(175), 0, *[25] * 7), {"early-layer"},
    ),
    "Newton's method itself": (
        fig9, strided(Newton(8), *[1] * 8),
        {"not-gradient-descent", "not-gradient-descent-weights", "not-online-gradient-descent"},
    ),
    "one head": (
        fig14, strided(Newton(8), *[1] * 8), {"errors-newton-linear", "weights-newton-linear"},
    ),
    "least squares": (fig16, {MODEL: OLS()}, {"in-the-span"}),
}  # fmt: skip


@pytest.mark.parametrize("name", RIGHT)
def test_learners_of_which_sentences_are_true_pass(name: str) -> None:
    study, learners, expected = RIGHT[name]
    met = passing(study, lambda _: learners)
    assert expected <= {name for name, passes in met.items() if passes}


def test_steps_that_grow_by_a_factor_are_not_newton() -> None:
    met = passing(fig9, fig9.nulls[GROWING])
    assert not met["not-gradient-descent"]
    assert not met["not-gradient-descent-weights"]


ONLINE, EARLY_NEWTON = InTurn(OnlineGradientDescent(), steps=10), Newton(12)


@pytest.mark.parametrize(
    ("models", "passes"),
    [
        ({MODEL: EARLY_NEWTON, LSTM: ONLINE}, True),
        ({MODEL: ONLINE, LSTM: EARLY_NEWTON}, False),
    ],
    ids=["as the paper has it", "exchanged"],
)
def test_an_online_learner_in_the_place_of_the_lstm(models: Learners, passes: bool) -> None:
    met = passing(fig5, lambda _: models)
    del met["transformer-descent"]  # of which nothing is known
    assert set(met.values()) == {passes}


def test_untrained_models_have_no_algorithm_to_compare() -> None:
    assert not any(passing(fig5, untrained()).values())
