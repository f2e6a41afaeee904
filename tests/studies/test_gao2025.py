"""What the studies of Gao et al. measure, on learners and numbers whose answers are known."""

import math
from collections.abc import Mapping
from typing import Any

import pytest
import torch

from innerloop.analysis import Estimate, Measured, estimate
from innerloop.core.learner import Learner
from innerloop.core.task import Task
from innerloop.learners import OLS, GradientDescent
from innerloop.studies.gao2025 import fig2a, fig2b, fig3, fig5
from innerloop.studies.gao2025.loops import GRID, algoformer_of_loops, growths
from innerloop.studies.gao2025.models import SERIES_NOISE
from innerloop.studies.gao2025.newton import ALGORITHMS, OWN, compared
from innerloop.studies.gao2025.samples import (
    early,
    late,
    noise_level,
    ridge_on_features,
    three_models,
    with_and_without_noise,
)
from innerloop.studies.gao2025.sizes import (
    HEADS,
    USUAL_HEADS,
    algoformer_of_heads,
    algoformer_of_layers,
)
from innerloop.studies.lab import Lab
from innerloop.studies.study import Study
from innerloop.studies.table import find_studies
from innerloop.tasks import (
    ChainOfThought,
    LinearRegression,
    RepresentationAR,
    RepresentationRegression,
)
from innerloop.training.families import SCALES, Scale
from innerloop.training.recipes import find_recipe


@pytest.fixture
def lab() -> Lab:
    """A lab without runs, of the laptop's numbers of prompts and draws."""
    return Lab(study="gao2025/test", scale="laptop")


def quantity(study: Study, name: str, measures: Mapping[str, Measured]) -> Estimate:
    """What a claim is about, of these measures."""
    claim = next(claim for claim in study.claims if claim.name == name)
    return estimate(claim.statistic, [measures])


def quantity(study: Study, name: str, measures: Mapping[str, Measured]) -> Estimate:
    """What a claim is about, of these measures."""
    claim = next(claim for claim in study.claims if claim.name == name)
    return estimate(claim.statistic, [measures])


def quantity(study: Study, name: str, measures: Mapping[str, Measured]) -> Estimate:
    """What a claim is about, of these measures."""
    claim = next(claim for claim in study.claims if claim.name == name)
    return estimate(claim.statistic, [measures])


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


def test_first_and_last_quarter() -> None:
    values = torch.tensor([[1.0, 3.0, 50.0, 50.0, 8.0, 10.0]])  # a quarter of six is two
    errors = Measured(values=values, axes=("examples",))
    assert (early(errors).values.tolist(), late(errors).values.tolist()) == ([2.0], [9.0])


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
    errors, above = with_and_without_noise(ridge_on_features(1.0), prompt, task)
    # After i examples d / i of the noise is left, 0.04 here; a wrong Phi would leave more.
    rest = late(above).values.mean().item()
    assert 0 < rest < 0.05 < early(above).values.mean().item()
    floor = noise_level(1.0, task, 81).values.item()
    assert late(errors).values.mean().item() == pytest.approx(floor + rest, rel=0.03)


def test_who_knows_phi_needs_d_examples_without_noise(lab: Lab) -> None:
    task = RepresentationRegression(dims=3, dtype="float64")
    prompt = lab.draw(task, 8)
    errors, above = with_and_without_noise(ridge_on_features(0.0), prompt, task)
    assert torch.allclose(errors.values, above.values)
    assert float(errors.values[:, 6:].median()) < 1e-12
    assert float(errors.values[:, 1].mean()) > 0.1


def test_the_level_of_noise() -> None:
    level = noise_level(1.0, RepresentationRegression(dims=3, noise=1.0), 5)
    assert level.values.item() == pytest.approx(1 / 4)  # of the variance 3 + 1
    assert level.table()["mean"].tolist() == [level.values.item()]


def test_the_worst_noise_and_the_better_rival_decide() -> None:
    # At the second noise the AlgoFormer is worse than the better of the others.
    means = {"standard": (4.0, 4.0), "looped": (8.0, 2.0), "AlgoFormer": (2.0, 3.0)}
    measures = {
        f"{label} with noise": Measured(values=torch.tensor(row).expand(20, 2), axes=("sigma",))
        for label, row in means.items()
    }
    worst = quantity(fig2a, "beats-both-with-noise", measures)
    assert (worst.value, worst.low, worst.high) == pytest.approx((1.5, 1.5, 1.5))


def by_loop(loops: int, trained: float, last: float) -> Measured:
    """Errors by loop that are the same for all prompts: (P, 2 loops + 1)."""
    errors = torch.full((20, 2 * loops + 1), math.nan)  # what is not read may be anything
    errors[:, loops], errors[:, -1] = trained, last
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


def in_its_place(lab: Lab, own: Learner[Any], noise: float) -> dict[str, Measured]:
    """What figure 5 measures with a known learner in the AlgoFormer's place."""
    task = LinearRegression(dims=5, noise=noise)
    prompt = lab.draw(task, 11, prompts=256)
    return compared(lab, {OWN: own, **ALGORITHMS}, prompt, task, noise)


def test_least_squares_in_the_algoformers_place(lab: Lab) -> None:
    measures = in_its_place(lab, OLS(), 0.0)
    assert quantity(fig5, "ahead-of-gradient-descent-early", measures).high < 1
    assert quantity(fig5, "ahead-of-newton-early", measures).value == pytest.approx(1, abs=0.02)


def test_gradient_descent_in_the_algoformers_place(lab: Lab) -> None:
    measures = in_its_place(lab, GradientDescent(10), 0.0)
    assert quantity(fig5, "ahead-of-gradient-descent-early", measures).low > 1
    assert quantity(fig5, "ahead-of-newton-early", measures).low > 1
    assert quantity(fig5, "newton-wins-late", measures).high < 1e-3


def test_least_squares_is_not_the_best_with_noise(lab: Lab) -> None:
    measures = in_its_place(lab, OLS(), 1.0)
    assert quantity(fig5, "better-at-noise-1", measures).low > 1
    # With noise fewer steps are better: to have as many as are drawn is not to be the best.
    measures = in_its_place(lab, GradientDescent(20), 1.0)
    assert quantity(fig5, "better-at-noise-1", measures).value == 1
    assert quantity(fig5, "best-at-noise-1", measures).low > 1


def test_newton_wins_in_the_median_which_does_not_hear_outliers(lab: Lab) -> None:
    measures = in_its_place(lab, GradientDescent(10), 0.0)
    values = {"Newton, 20, at the end": 2.0, f"{OWN}, at the end": 4.0}
    for name, value in values.items():
        measures[name].values[:] = value
    measures["Newton, 20, at the end"].values[:10] = 1e9
    ratio = quantity(fig5, "newton-wins-late", measures)
    assert (ratio.value, ratio.low, ratio.high) == (0.5, 0.5, 0.5)


@pytest.mark.parametrize("scale", SCALES)
def test_runs_are_what_their_labels_say(scale: Scale) -> None:
    for family in ("representation", "autoregression", "chain"):
        runs = three_models(family, scale)
        assert len({config.steps for config in runs.values()}) == 1, family
    for (label, _), config in fig2a.seeded_runs(scale, 1).items():
        assert label.endswith(f"sigma {config.model_dump()['task']['noise']:g}")
    for config in fig2b.runs(scale).values():
        assert config.model_dump()["task"]["noise"] == SERIES_NOISE
    for config in fig2b.runs(scale).values():
        assert config.model_dump()["task"]["noise"] == SERIES_NOISE
    for config in fig2b.runs(scale).values():
        assert config.model_dump()["task"]["noise"] == SERIES_NOISE
    for config in fig2b.runs(scale).values():
        assert config.model_dump()["task"]["noise"] == SERIES_NOISE
    for (loops, window), config in zip(GRID[scale], fig3.runs(scale).values(), strict=True):
        assert (config.trained_loops, config.window) == (loops, window)
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
    theorems = ["thm3.1", "thm3.2", "thm3.3", "thm4.1", "thm4.2"]
    studies = find_studies("gao2025")
    assert [study.id for study in studies] == [*figures, *theorems]
    for study in studies:
        assert set(study.minutes) == set(SCALES)
