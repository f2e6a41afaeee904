"""What the studies of Gao et al. measure, on learners and numbers whose answers are known."""

import math

import pytest
import torch
from torch import Tensor

from innerloop.core.task import Task
from innerloop.learners import OLS, GradientDescent
from innerloop.studies.gao2025.loops import GRID, algoformer_of_loops, fig3_quantities, growth_ratio
from innerloop.studies.gao2025.models import fig2a, worst_with_noise
from innerloop.studies.gao2025.newton import (
    ALGORITHMS,
    OWN,
    with_noise,
    without_noise,
)
from innerloop.studies.gao2025.samples import (
    by_sample,
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


def test_a_chain_is_one_sample_and_only_its_thoughts_count() -> None:
    task = ChainOfThought(dims=2, layers=2)
    values = torch.tensor([[1.0, 3.0, 100.0, 5.0, 7.0, 100.0, 9.0]])  # the third chain is not whole
    assert by_sample(task, values).tolist() == [[2.0, 6.0]]


def test_by_sample_leaves_out_just_what_is_not_scored() -> None:
    for task in (RepresentationAR(dims=2, order=3), ChainOfThought(dims=2, layers=2)):
        prompt = task.sample(1, 9, generator=torch.Generator().manual_seed(0))
        assert prompt.scored is not None
        marked = torch.where(prompt.scored, 1.0, math.nan)  # (1, 9)
        assert bool((by_sample(task, marked) == 1.0).all())
        kept = by_sample(task, torch.ones(1, 9)).numel()
        whole = 1 if isinstance(task, RepresentationAR) else task.layers
        assert kept * whole == int(prompt.scored.sum())


def test_pairs_are_samples_as_they_are() -> None:
    values = torch.arange(6.0).reshape(2, 3)
    assert torch.equal(by_sample(LinearRegression(dims=2), values), values)


def test_first_and_last_quarter() -> None:
    errors = torch.tensor([[1.0, 3.0, 50.0, 50.0, 8.0, 10.0]])  # a quarter of six is two
    assert (early(errors).item(), late(errors).item()) == (2.0, 9.0)


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
    errors, above = with_and_without_noise(ridge_on_features(task), prompt, task)  # (P, m) each
    # After i examples d / i of the noise is left, 0.04 here; a wrong Phi would leave more.
    assert 0 < float(late(above).mean()) < 0.05 < float(early(above).mean())
    (floor,) = noise_level(task, 81, {"label": "noise"})["mean"].tolist()
    assert float(late(errors).mean()) == pytest.approx(floor + float(late(above).mean()), rel=0.03)


def test_who_knows_phi_needs_d_examples_without_noise(lab: Lab) -> None:
    task = RepresentationRegression(dims=3, dtype="float64")
    prompt = lab.draw(task, 8)
    errors, above = with_and_without_noise(ridge_on_features(task), prompt, task)  # (P, 8) each
    assert torch.allclose(errors, above)
    assert float(errors[:, 6:].median()) < 1e-12
    assert float(errors[:, 1].mean()) > 0.1
    assert noise_level(task, 8, {"label": "noise"}).empty


def test_the_level_of_noise() -> None:
    table = noise_level(RepresentationRegression(dims=3, noise=1.0), 5, {"label": "noise"})
    assert table["mean"].tolist() == pytest.approx([1 / 4])  # of the variance 3 + 1


def test_the_worst_noise_and_the_better_rival_decide(lab: Lab) -> None:
    # standard, looped, AlgoFormer; at the second noise it is worse than the better of the others.
    means = ((4.0, 8.0, 2.0), (4.0, 2.0, 3.0))
    noisy = [torch.tensor(row).expand(lab.prompts, 3) for row in means]
    found = worst_with_noise(lab, noisy, 0)
    assert (found.value, found.low, found.high) == pytest.approx((1.5, 1.5, 1.5))


def test_growth_is_averaged_over_loops_by_its_logarithm() -> None:
    # last and trained error, of the small and of the large window, for two T.
    means = torch.tensor([8.0, 1.0, 2.0, 1.0, 3.0, 3.0, 1.0, 1.0])  # ratios 4 and 1
    assert float(growth_ratio(means)) == pytest.approx(2.0)


def by_loop(lab: Lab, loops: int, trained: float, last: float) -> Tensor:
    """Errors by loop that are the same for all prompts: (P, 2 loops + 1)."""
    errors = torch.full((lab.prompts, 2 * loops + 1), math.nan)  # what is not read may be anything
    errors[:, loops], errors[:, -1] = trained, last
    return errors


def test_what_figure_3_compares(lab: Lab) -> None:
    found = fig3_quantities(
        lab,
        {
            (6, 2): by_loop(lab, 6, 0.4, 1.6),
            (6, 6): by_loop(lab, 6, 0.4, 0.4),
            (12, 2): by_loop(lab, 12, 0.3, 2.7),
            (12, 4): by_loop(lab, 12, 5.0, 50.0),
            (12, 6): by_loop(lab, 12, 0.1, 0.2),
        },
        0,
    )
    assert found["stays"].value == pytest.approx(2.0)
    assert found["window-steadies"].value == pytest.approx(math.sqrt(4 * 4.5))
    assert found["loops-help"].value == pytest.approx(0.25)


def linear_errors(lab: Lab, noise: float, own: OLS | GradientDescent) -> dict[str, Tensor]:
    """Errors of a known learner in the AlgoFormer's place, and of the algorithms: (P, 11) each."""
    task = LinearRegression(dims=5, noise=noise)
    prompt = lab.draw(task, 11, prompts=256)
    learners = {OWN: own, **ALGORITHMS}
    return {label: lab.errors(learner, prompt, task) for label, learner in learners.items()}


def test_least_squares_in_the_algoformers_place(lab: Lab) -> None:
    found = without_noise(lab, linear_errors(lab, 0.0, OLS()), 5, 0)
    assert found["ahead-of-gradient-descent-early"].high < 1
    assert found["ahead-of-newton-early"].value == pytest.approx(1, abs=0.02)


def test_gradient_descent_in_the_algoformers_place(lab: Lab) -> None:
    found = without_noise(lab, linear_errors(lab, 0.0, GradientDescent(10)), 5, 0)
    assert found["ahead-of-gradient-descent-early"].low > 1
    assert found["ahead-of-newton-early"].low > 1
    assert found["newton-wins-late"].high < 1e-3


def test_least_squares_is_not_the_best_with_noise(lab: Lab) -> None:
    claims = with_noise(lab, linear_errors(lab, 1.0, OLS()), 1.0, 0)
    assert claims["better-at-noise-1"].low > 1
    # With noise fewer steps are better: to have as many as are drawn is not to be the best.
    claims = with_noise(lab, linear_errors(lab, 1.0, GradientDescent(20)), 1.0, 0)
    assert claims["better-at-noise-1"].value == 1
    assert claims["best-at-noise-1"].low > 1


def test_a_ratio_of_medians_does_not_hear_outliers(lab: Lab) -> None:
    first, second = torch.full((100,), 2.0), torch.full((100,), 4.0)
    first[:10] = 1e9
    found = lab.ratio_of_medians(first, second)
    assert (found.value, found.low, found.high) == (0.5, 0.5, 0.5)


@pytest.mark.parametrize("scale", SCALES)
def test_runs_are_what_their_labels_say(scale: Scale) -> None:
    for family in ("representation", "autoregression", "chain"):
        runs = three_models(family, scale)
        assert len({config.steps for config in runs.values()}) == 1, family
    for (label, _), config in fig2a.seeded_runs(scale, 1).items():
        assert label.endswith(f"sigma {config.model_dump()['task']['noise']:g}")
    for loops, window in GRID[scale]:
        config = algoformer_of_loops(scale, loops, window)
        assert (config.trained_loops, config.window) == (loops, window)
    assert USUAL_HEADS[scale] in HEADS[scale]
    usual = algoformer_of_heads(scale, USUAL_HEADS[scale])
    assert usual.key() == algoformer_of_layers(scale, 1).key()


def test_studies_share_the_recipes_runs() -> None:
    recipe = find_recipe("algoformer-representation")
    assert algoformer_of_loops("laptop", 12, 6).key() == recipe.key()
    assert three_models("representation", "laptop")["AlgoFormer"].key() == recipe.key()


def test_every_figure_and_theorem_of_the_paper_is_there() -> None:
    figures = ["fig2a", "fig2b", "fig2c", "fig3", "fig4", "fig5"]
    theorems = ["thm3.1", "thm3.2", "thm3.3", "thm4.1", "thm4.2"]
    studies = find_studies("gao2025")
    assert [study.id for study in studies] == [*figures, *theorems]
    for study in studies:
        assert set(study.minutes) == set(SCALES)
