"""What the studies of Gao et al. measure, on learners and numbers whose answers are known."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch

from innerloop.analysis import Estimate, Measured, estimate
from innerloop.core.iterate import predict
from innerloop.core.learner import Learner, OneShot, Traits
from innerloop.core.prompt import Prompt
from innerloop.core.task import Task
from innerloop.learners import OLS, GradientDescent, Newton, Ridge
from innerloop.models.model import AnyModel
from innerloop.studies.claim import Control, control
from innerloop.studies.gao2025 import fig2a, fig2b, fig2c, fig3, fig4, fig5
from innerloop.studies.gao2025.chains import LayerByLayer, leaky_mean
from innerloop.studies.gao2025.loops import GRID, growths
from innerloop.studies.gao2025.models import FIRST_VARIANCE, GAINS, JUDGED, SERIES_NOISE, SIGNAL
from innerloop.studies.gao2025.newton import NULLS, OWN
from innerloop.studies.gao2025.samples import (
    ALGOFORMER,
    LINEAR,
    LOOPED,
    STANDARD,
    another_seed,
    distances,
    ends,
    itself,
    late,
    noise_level,
    ridge_on_features,
    three_models,
    with_noise,
)
from innerloop.studies.gao2025.sizes import DEEPEST, HEADS, ONE, USUAL_HEADS, compared
from innerloop.studies.lab import Lab
from innerloop.studies.study import Measures, Study, premises
from innerloop.studies.table import find_studies
from innerloop.tasks import (
    ChainOfThought,
    LinearRegression,
    RepresentationAR,
    RepresentationRegression,
)
from innerloop.training.recipes import find_recipe
from innerloop.training.run import Run
from innerloop.training.trainer import first_model


@pytest.fixture
def lab() -> Lab:
    """A lab without runs, of the laptop's numbers of prompts and draws."""
    return Lab(study="gao2025/test", scale="laptop")


def quantity(study: Study, name: str, measures: Mapping[str, Measured]) -> Estimate:
    """What a claim is about, of these measures."""
    claim = next(claim for claim in study.claims if claim.name == name)
    return estimate(claim.statistic, [measures])


def test_a_chain_is_one_sample_and_only_its_thoughts_count() -> None:
    task = ChainOfThought(dims=2, layers=2)
    values = torch.tensor([[1.0, 3.0, 100.0, 5.0, 7.0, 100.0, 9.0]])  # the third chain is not whole
    assert task.by_sample(values).tolist() == [[2.0, 6.0]]


def test_by_sample_leaves_out_just_what_is_not_scored() -> None:
    for task in (RepresentationAR(dims=2, order=3), ChainOfThought(dims=2, layers=2)):
        prompt = task.sample(1, 9, generator=torch.Generator().manual_seed(0))
        assert prompt.scored is not None
        marked = torch.where(prompt.scored, 1.0, math.nan)  # (1, 9)
        assert bool((task.by_sample(marked) == 1.0).all())
        kept = task.by_sample(torch.ones(1, 9)).numel()
        whole = 1 if isinstance(task, RepresentationAR) else task.layers
        assert kept * whole == int(prompt.scored.sum())


def test_pairs_are_samples_as_they_are() -> None:
    values = torch.arange(6.0).reshape(2, 3)
    assert torch.equal(LinearRegression(dims=2).by_sample(values), values)


def test_the_last_quarter() -> None:
    values = torch.tensor([[1.0, 3.0, 50.0, 50.0, 8.0, 10.0]])  # a quarter of six is two
    assert late(Measured(values=values, axes=("examples",))).values.tolist() == [9.0]


@pytest.mark.parametrize(
    "task",
    [
        RepresentationRegression(dims=3, noise=1.0, dtype="float64"),
        RepresentationAR(dims=3, order=2, dtype="float64"),
    ],
    ids=["regression", "series"],
)
def test_who_knows_phi_ends_just_above_the_noise(lab: Lab, task: Task) -> None:
    prompt = lab.draw(task, 81, prompts=512)
    answers = predict(ridge_on_features(1.0), prompt)
    right = replace(prompt, ys=prompt.truth["features"] @ prompt.truth["A"])
    errors, above = (distances(answers, each, task) for each in (prompt, right))
    # After i examples d / i of the noise is left, 0.04 here; a wrong Phi would leave more.
    rest = late(above).values.mean().item()
    assert 0 < rest < 0.05 < above.values[:, :4].mean().item()
    floor = noise_level(1.0, task, 81).values.item()
    assert late(errors).values.mean().item() == pytest.approx(floor + rest, rel=0.03)


def test_who_knows_phi_needs_d_examples_without_noise(lab: Lab) -> None:
    task = RepresentationRegression(dims=3, dtype="float64")
    prompt = lab.draw(task, 8)
    errors = distances(predict(ridge_on_features(0.0), prompt), prompt, task).values
    assert float(errors[:, 6:].median()) < 1e-12
    assert float(errors[:, 1].mean()) > 0.1


def test_the_level_of_noise() -> None:
    level = noise_level(1.0, RepresentationRegression(dims=3, noise=1.0), 5)
    assert level.values.item() == pytest.approx(1 / 4)  # of the variance 3 + 1
    assert level.table()["mean"].tolist() == [level.values.item()]


def test_the_mean_of_a_leaky_relu() -> None:
    z = torch.randn(1_000_000, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for mean, deviation in ((0.3, 0.7), (-2.0, 1.0), (1.0, 0.0)):
        middle, spread = (torch.tensor(each).double() for each in (mean, deviation))
        drawn = torch.nn.functional.leaky_relu(mean + deviation * z, 0.01).mean()
        assert float(leaky_mean(middle, spread, 0.01)) == pytest.approx(float(drawn), abs=4e-3)


def test_who_knows_the_networks_is_right_after_d_chains_and_best_before() -> None:
    task = ChainOfThought(dims=3, layers=2, dtype="float64")
    prompt = task.sample(2000, 24, generator=torch.Generator().manual_seed(0))
    answers = predict(LayerByLayer(2, 0.01), prompt)  # (P, n, d)
    errors = distances(answers, prompt, task).values  # (P, 8)
    assert float(errors[:, 4:].median()) < 1e-9
    # The mean of what is asked for: what is added to it in any direction adds to the error.
    early = slice(0, 2)
    for change in (0.9 * answers, 1.1 * answers, answers + 0.1):
        assert float(distances(change, prompt, task).values[:, early].mean()) > float(
            errors[:, early].mean()
        )
    # It sees nothing of what it is asked for.
    changed = prompt.ys.clone()
    changed[:, -2] = 9.0
    other = predict(LayerByLayer(2, 0.01), replace(prompt, ys=changed))
    assert torch.equal(other, answers)


def test_last_quarters_and_last_samples_are_compared() -> None:
    curves = {"standard": (9.0, 9.0, 9.0, 4.0), "looped": (9.0, 9.0, 9.0, 16.0),
              "AlgoFormer": (8.0, 9.0, 9.0, 2.0)}  # fmt: skip
    excess = {
        label: Measured(values=torch.tensor([row]), axes=("examples",))
        for label, row in curves.items()
    }
    measures = {**ends(excess), **ends({label: each / 3 for label, each in excess.items()}, SIGNAL)}
    expected = {"beats-standard": 1 / 2, "beats-looped": 1 / 8, "standard-beats-looped": 1 / 4}
    assert {name: quantity(fig2c, name, measures).value for name in expected} == expected
    claim = next(claim for claim in fig2b.claims if claim.name == "beats-standard-half-signal")
    assert premises(claim, [measures]) == pytest.approx((2 / 3,))


class Untrained(Run):
    """A run whose model is the one before its first step: other seeds have other ones."""

    def model(self) -> AnyModel:
        """The model that its configuration begins with."""
        return first_model(self.config)


def stand_in(study: Study, learners: Mapping[str, Learner[Any]] | None = None) -> Lab:
    """A lab at smoke scale whose models are untrained, with others in some places."""
    seeds = ({}, {})
    for (label, seed), config in study.seeded_runs("smoke", (0, 1)).items():
        seeds[seed][label] = Untrained(Path("none"), config)
    return Lab(
        study=study.name, scale="smoke", runs=seeds[0], others=seeds[1], learners=learners
    )  # fmt: skip


def controls(study: Study, measures: Measures, name: str = "") -> dict[str, Control]:
    """Every claim as it would be judged on these measures."""
    return {
        claim.name: control(
            claim.statement, name, estimate(claim.statistic, [measures], draws=100),
            premises(claim, [measures]),
        )
        for claim in study.claims
    }  # fmt: skip


@pytest.mark.parametrize("study", [fig2a, fig2b, fig2c, fig4], ids=lambda study: study.id)
def test_nulls_fail_on_models_that_have_not_learned(study: Study) -> None:
    for name, null in study.nulls.items():
        result = controls(study, study.measure(stand_in(study).standing_in(null)))
        for claim in study.claims:
            if name in claim.excludes:
                assert not result[claim.name].passes, (name, claim.name)


@dataclass(frozen=True)
class Shrunk(OneShot):
    """A learner's answers, 5% too small: something that has learned a task, but not quite."""

    learner: Learner[Any]
    traits = Traits()

    def init(self, prompt: Prompt) -> torch.Tensor:
        return 0.95 * predict(self.learner, prompt)


REFERENCES: dict[str, tuple[Study, str, Learner[Any]]] = {
    "fig2a": (fig2a, with_noise("", JUDGED), ridge_on_features(JUDGED)),
    "fig2b": (fig2b, SIGNAL, ridge_on_features(SERIES_NOISE)),
    "fig2c": (fig2c, "", LayerByLayer(2, 0.01)),
}


@pytest.mark.parametrize("name", REFERENCES)
def test_nulls_fail_beside_models_that_have_learned(name: str) -> None:
    """Then the premise is met, and the criterion alone keeps them out."""
    study, suffix, reference = REFERENCES[name]
    rivals = {other + suffix: Shrunk(reference) for other in (STANDARD, LOOPED)}
    for null in (LINEAR, another_seed(STANDARD)):
        taken = {**study.nulls[null](stand_in(study)), **rivals}
        result = controls(study, study.measure(stand_in(study, taken)))
        for claim in study.claims:
            if null in claim.excludes and suffix in claim.quantity:
                own = result[claim.name]
                assert claim.premise is not None
                assert all(map(claim.premise.criterion.meets, own.premises)), own.premises
                assert own.value > 1, (null, claim.name)
                assert not own.passes, (null, claim.name)


def test_no_model_is_ahead_of_itself() -> None:
    lab = stand_in(fig2c)
    result = controls(fig2c, fig2c.measure(lab.standing_in(fig2c.nulls[itself(LOOPED)])))
    assert [each.value for each in result.values()] == [1.0, 1.0, 1.0]
    assert not any(claim.criterion.meets(1.0) for claim in fig2c.claims)


RIGHT: dict[str, tuple[Study, dict[str, Learner[Any]], tuple[str, ...]]] = {
    "fig2a": (
        fig2a, {with_noise(ALGOFORMER, JUDGED): ridge_on_features(JUDGED)},
        ("beats-standard", "beats-looped"),
    ),
    "fig2b": (
        fig2b, {ALGOFORMER + SIGNAL: ridge_on_features(SERIES_NOISE)},
        ("beats-standard-half-signal", "beats-looped-half-signal"),
    ),
    "fig2c": (fig2c, {STANDARD: LayerByLayer(2, 0.01)}, ("standard-beats-looped",)),
    "fig4": (fig4, {compared("smoke")[ONE]: ridge_on_features(0.0)}, ("beats-the-deepest",)),
}  # fmt: skip


@pytest.mark.parametrize("study", RIGHT)
def test_the_reference_in_a_models_place_is_ahead_of_untrained_ones(study: str) -> None:
    own, learners, ahead = RIGHT[study]
    result = controls(own, own.measure(stand_in(own, learners)))
    assert {name for name, each in result.items() if each.passes} >= set(ahead)


def test_the_deepest_stack_is_as_deep_as_the_loops() -> None:
    for scale in ("laptop", "paper"):
        runs = fig4.runs(scale)
        labels = compared(scale)
        stack = runs[labels[DEEPEST]].model_dump()["model"]["backbone"]["layers"]
        assert stack == (runs[labels[ONE]].trained_loops or 0) + 2


def by_loop(loops: int, trained: float, last: float) -> Measured:
    """Errors by loop that are the same for all prompts: (P, 2 loops + 1)."""
    errors = torch.full((20, 2 * loops + 1), math.nan)  # what is not read may be anything
    errors[:, loops // 4], errors[:, loops], errors[:, -1] = 4 * trained, trained, last
    return Measured(values=errors, axes=("loop",))


def test_what_figure_3_compares() -> None:
    measures = growths(
        {
            (12, 6): by_loop(12, 0.1, 0.2),  # in no order
            (3, 3): by_loop(3, 0.5, 7.0),  # one window only: nothing to compare growth with
            (6, 2): by_loop(6, 0.4, 1.6),
            (6, 6): by_loop(6, 0.4, 0.4),
            (12, 2): by_loop(12, 0.3, 2.7),
            (12, 4): by_loop(12, 5.0, 50.0),
        }
    )
    assert quantity(fig3, "stays", measures).value == pytest.approx(2.0)
    # Averaged over loops by its logarithm.
    assert quantity(fig3, "window-steadies", measures).value == pytest.approx(math.sqrt(4 * 4.5))
    assert quantity(fig3, "loops-help", measures).value == pytest.approx(0.2)
    for claim in fig3.claims:
        assert premises(claim, [measures]) == pytest.approx((0.25,))


def test_what_no_loop_changes_has_not_used_its_loops() -> None:
    for name in ("untrained", "done at once"):
        result = controls(fig3, fig3.measure(stand_in(fig3).standing_in(fig3.nulls[name])))
        assert not any(each.passes for each in result.values()), name
    same = result["stays"]
    assert (same.value, same.premises) == (1.0, (1.0,))  # stable, but not by its loops


def test_one_architecture_is_not_steadier_than_itself() -> None:
    lab = stand_in(fig3)
    wider = fig3.nulls["wider window of another seed"](lab)
    assert set(wider) == {"T = 2, dT = 2", "T = 4, dT = 1"}
    shorter = fig3.nulls["fewer loops of another seed"](lab)
    assert set(shorter) == {"T = 4, dT = 3"}


def in_its_place(own: Learner[Any]) -> dict[str, Measured]:
    """What figure 5 measures with a known learner in the AlgoFormer's place."""
    configs = fig5.runs("laptop")
    runs = {label: Run(Path("none"), config) for label, config in configs.items()}
    lab = Lab(study="gao2025/test", scale="laptop", runs=runs, learners=dict.fromkeys(runs, own))
    return dict(fig5.measure(lab))


def test_least_squares_in_the_algoformers_place() -> None:
    measures = in_its_place(OLS())
    assert quantity(fig5, "ahead-of-gradient-descent-early", measures).high < 1
    assert quantity(fig5, "ahead-of-newton-early", measures).value == pytest.approx(1, abs=0.02)
    # With noise it is not the best.
    assert quantity(fig5, "better-at-noise-1", measures).low > 1


def test_gradient_descent_in_the_algoformers_place() -> None:
    measures = in_its_place(GradientDescent(10))
    assert quantity(fig5, "ahead-of-gradient-descent-early", measures).low > 1
    assert quantity(fig5, "ahead-of-newton-early", measures).low > 1
    assert quantity(fig5, "newton-wins-late", measures).high < 1e-3


def test_an_excess_is_a_distance_from_the_best_answer_to_the_prompt_as_it_is() -> None:
    # Ridge with the noise's penalty is the best answer at its own noise and at no other.
    measures = in_its_place(Ridge(1.0))
    own, others = (measures[f"{with_noise(OWN, noise)}, excess"].values for noise in (1.0, 0.0))
    assert float(own.amax()) < 1e-12
    assert float(others.mean()) > 1e-3


def test_an_algorithm_is_not_ahead_of_itself() -> None:
    steps: dict[str, Learner[Any]] = {
        "gradient descent, 20 steps": GradientDescent(20),
        "Newton's method, 20 steps": Newton(20),
    }
    for name, learner in steps.items():
        result = controls(fig5, in_its_place(learner))
        for claim in fig5.claims:
            if name in claim.excludes:
                assert not result[claim.name].passes, (name, claim.name)
    assert set(steps) < set(NULLS)


def test_newton_wins_in_the_median_which_does_not_hear_outliers() -> None:
    measures = in_its_place(GradientDescent(10))
    values = {"Newton, 20, at the end": 2.0, f"{OWN}, at the end": 4.0}
    for name, value in values.items():
        measures[name].values[:] = value
    measures["Newton, 20, at the end"].values[:10] = 1e9
    ratio = quantity(fig5, "newton-wins-late", measures)
    assert (ratio.value, ratio.low, ratio.high) == (0.5, 0.5, 0.5)


def test_runs_are_what_their_labels_say() -> None:
    for scale in fig2a.scales:
        for family in ("representation", "autoregression", "chain"):
            runs = three_models(family, scale)
            assert len({config.steps for config in runs.values()}) == 1, family
        for (label, _), config in fig2a.seeded_runs(scale, (0,)).items():
            assert label.endswith(f"sigma {config.model_dump()['task']['noise']:g}")
        for label, config in fig2b.runs(scale).items():
            task = config.model_dump()["task"]
            assert task["noise"] == SERIES_NOISE
            louder = (task["gain"], task["first_variance"]) == (GAINS[scale], FIRST_VARIANCE)
            assert louder == label.endswith(SIGNAL)
    for scale in fig3.scales:
        for (loops, window), config in zip(GRID[scale], fig3.runs(scale).values(), strict=True):
            assert (config.trained_loops, config.window) == (loops, window)
    for scale in fig4.scales:
        assert USUAL_HEADS[scale] in HEADS[scale]
        sizes = fig4.runs(scale)
        usual = sizes[f"AlgoFormer, h = {USUAL_HEADS[scale]}"]
        assert usual.key() == sizes["AlgoFormer, L = 1"].key()


def test_studies_share_the_recipes_runs() -> None:
    recipe = find_recipe("algoformer-representation")
    assert fig3.runs("laptop")["T = 12, dT = 6"].key() == recipe.key()
    assert three_models("representation", "laptop")["AlgoFormer"].key() == recipe.key()


def test_every_figure_and_theorem_of_the_paper_is_there() -> None:
    figures = ["fig2a", "fig2b", "fig2c", "fig3", "fig4", "fig5"]
    tables = ["table1", "table2"]
    theorems = ["thm3.1", "thm3.2", "thm3.3", "thm4.1", "thm4.2"]
    studies = find_studies("gao2025")
    assert [study.id for study in studies] == [*figures, *tables, *theorems]
    for study in studies:
        assert {"smoke", "laptop", "paper"} <= set(study.minutes)
    assert [study.id for study in studies if "desk" in study.minutes] == [*figures[:3], *tables]
