"""What figures 5, 8, 9, 10 and 11 of Yang et al. (2024) measure, where the answer is known."""

import math

import pytest
import torch

from innerloop.analysis.probe_program import ProbeSettings
from innerloop.analysis.probing import Target, least_squares, moment, probe
from innerloop.core.task import Task
from innerloop.learners import OLS
from innerloop.models.linear_looped import LinearLoopedTransformer
from innerloop.studies.lab import Lab
from innerloop.studies.yang2024.comparing import largest_ratio, smallest_ratio
from innerloop.studies.yang2024.distinct_prompts import (
    LEARNED,
    fig5,
    needed_ratio,
    prompts_needed,
)
from innerloop.studies.yang2024.families import (
    LASSOS,
    fig10,
    over_best_of_others,
    with_examples,
)
from innerloop.studies.yang2024.loops_needed import fig9, smallest_stable, with_loops
from innerloop.studies.yang2024.probes import (
    fig8,
    last_over_lowest,
    last_over_quarter,
    with_weights_of_one,
)
from innerloop.studies.yang2024.sparsity import ahead_with_few, fig11
from innerloop.tasks import LinearRegression, SparseLinearRegression
from innerloop.training.families import Scale
from innerloop.training.recipes import find_recipe

POOLS = (100, 1000, 10_000)


def falling(scale: float) -> torch.Tensor:
    """Errors that fall as scale / prompts: they come to LEARNED at scale / LEARNED prompts."""
    return scale / torch.tensor(POOLS, dtype=torch.float64)  # (k,)


@pytest.mark.parametrize("needed", [150.0, 500.0, 1000.0, 7000.0])
def test_the_prompts_needed_are_found_between_pools(needed: float) -> None:
    found = prompts_needed(falling(LEARNED * needed), POOLS)
    assert float(found) == pytest.approx(needed)


def test_the_prompts_needed_lie_beyond_the_pools() -> None:
    both = torch.stack([falling(LEARNED * 20), falling(LEARNED * 1e6)])  # (2, k)
    assert prompts_needed(both, POOLS).tolist() == pytest.approx([100.0, math.inf])


def test_four_times_the_prompts_are_a_ratio_of_a_quarter() -> None:
    few, many = falling(LEARNED * 500), falling(LEARNED * 2000)
    assert float(needed_ratio(few, many, POOLS)) == pytest.approx(0.25)
    assert float(needed_ratio(many, few, POOLS)) == pytest.approx(4)


def test_pools_that_tell_nothing_give_no_ratio() -> None:
    never, some, at_once = (falling(LEARNED * needed) for needed in (1e6, 500, 20))
    assert math.isnan(needed_ratio(never, never, POOLS))
    assert math.isnan(needed_ratio(at_once, at_once, POOLS))
    # One of them alone is enough to tell which needs fewer.
    assert float(needed_ratio(some, never, POOLS)) == 0
    assert float(needed_ratio(never, some, POOLS)) == math.inf
    assert float(needed_ratio(at_once, some, POOLS)) == pytest.approx(100 / 500)


def test_pools_hold_what_the_paper_says() -> None:
    runs = fig5.runs("paper")
    assert len(runs) == 2 * 3 * 7
    for label, config in runs.items():
        assert config.points == 2 * config.task.dims + 1
        assert config.pool is not None
        assert f"{config.pool} prompts" in label
        assert config.curriculum.dims is None
        assert config.curriculum.points is None
        if label.startswith("looped"):
            assert (config.trained_loops, config.window, config.loops.start) == (30, 15, None)


def test_the_smallest_stable_loops_are_the_first_that_stay() -> None:
    drifts = torch.tensor([[1.5, 1.05, 1.0], [1.0, 1.0, 1.0], [9.0, 2.0, math.inf]])  # (3, g)
    assert smallest_stable((6, 12, 20), drifts).tolist() == [12, 6, math.inf]


@pytest.mark.parametrize("family", ["sparse", "tree", "network"])
def test_the_loops_of_the_recipe_are_the_run_of_the_recipe(family: str) -> None:
    for scale in ("smoke", "laptop"):
        recipe = find_recipe(f"looped-{family}", scale)
        assert recipe.trained_loops is not None
        assert with_loops(family, scale, recipe.trained_loops).key() == recipe.key()
    small = with_loops(family, "laptop", 3)
    assert (small.trained_loops, small.window, small.loops.start) == (3, 3, 3)
    paper = with_loops(family, "paper", 50)
    assert (paper.trained_loops, paper.window, paper.loops.start) == (50, 10, 10)


@pytest.mark.parametrize("scale", ["smoke", "laptop"])
def test_studies_share_runs(scale: Scale) -> None:
    linear = {find_recipe(f"{kind}-linear", scale).key() for kind in ("looped", "standard")}
    for study in (fig5, fig8, fig11):
        assert linear <= {config.key() for config in study.runs(scale).values()}
    sparse = find_recipe("looped-sparse", scale).key()
    for study in (fig9, fig10):
        assert sparse in {config.key() for config in study.runs(scale).values()}


def test_few_examples_leave_out_the_empty_prefix() -> None:
    errors = torch.tensor([[100.0, 1.0, 2.0, 6.0]])  # (1, n)
    assert with_examples(errors).tolist() == [3.0]
    assert with_examples(errors, 2).tolist() == [1.5]


def test_ratios_are_of_neighbours_and_of_the_best_other() -> None:
    means = torch.tensor([[1.0, 2.0, 3.0, 4.0], [8.0, 2.0, 1.0, 4.0]])  # (2, 4)
    assert largest_ratio(means).tolist() == [0.75, 4.0]
    assert smallest_ratio(means).tolist() == [0.5, 0.25]
    assert over_best_of_others(means).tolist() == [0.5, 8.0]


def test_ahead_with_few_examples_is_more_than_with_many() -> None:
    lab = Lab(study="test", scale="laptop")
    ones = torch.ones(20, 6)  # (P, n)
    early, late = ones.clone(), ones.clone()
    early[:, 1:3], late[:, 3:] = 0.5, 0.5
    # Better by a half with one or two examples, or only with more of them.
    assert ahead_with_few(lab, [(early, ones)], 2, seed=0).value == pytest.approx(0.5)
    assert ahead_with_few(lab, [(late, ones)], 2, seed=0).value == pytest.approx(2)
    assert ahead_with_few(lab, [(early, ones), (late, ones)], 2, seed=0).value == pytest.approx(1)


def test_least_squares_does_not_beat_the_lasso_on_few_examples() -> None:
    """Sparse functions: below d examples least squares has nothing to choose by, and loses."""
    task = SparseLinearRegression(dims=10, sparsity=1)
    found = _against_the_lasso(task)
    assert found > 1.2
    # With dense weights the Lasso has no advantage.
    assert _against_the_lasso(LinearRegression(dims=10)) < 1.05


def _against_the_lasso(task: Task) -> float:
    lab = Lab(study="test", scale="smoke")
    prompt = lab.draw(task, 10, prompts=96)
    errors = [lab.errors(solver, prompt, task) for solver in (OLS(), *LASSOS.values())]  # (P, n)
    means = torch.stack([with_examples(part).mean() for part in errors])  # (6,)
    return float(over_best_of_others(means))


@pytest.mark.parametrize("target", [moment, least_squares])
def test_a_perfect_control_probe_has_twice_the_error_of_ignorance(target: Target) -> None:
    """The theory behind the criterion of `beyond-control`."""
    task = LinearRegression(dims=4, dtype="float64")
    prompt = task.sample(4000, 9, generator=torch.Generator().manual_seed(0))
    ones = with_weights_of_one(prompt)
    torch.testing.assert_close(OLS().weights(ones)[:, -1], torch.ones(4000, 4, 1).double())
    wanted, answered = target(prompt)[:, -1], target(ones)[:, -1]  # (P, d) each
    ignorance = float(wanted.var(dim=0).mean())
    assert float((answered - wanted).square().mean()) / ignorance == pytest.approx(2, rel=0.1)


def test_probes_of_gradient_descent_refine_the_weights() -> None:
    """Each loop brings gradient descent nearer to least squares; run backwards it moves away."""
    task = LinearRegression(dims=3, dtype="float64")
    model = LinearLoopedTransformer.gradient_descent(dims=3, loops=8, step_size=0.04)
    draw = torch.Generator().manual_seed(0)
    found = probe(
        model,
        task.sample(512, 16, generator=draw),
        least_squares,
        held_out=task.sample(256, 16, generator=draw),
        at_steps=(1, 2, 4, 8),
        settings=ProbeSettings(reader="linear", iterations=100, rate=1e-2),
    )
    torch.testing.assert_close(found.errors.by_prompt.mean(dim=2), found.errors.mean)
    means = found.errors.by_prompt.mean(dim=(1, 2))  # (S,)
    assert float(last_over_lowest(means)) == 1
    assert float(last_over_lowest(means.flip(0))) > 1.1
    refined = float(last_over_quarter((1, 2, 4, 8))(means))
    assert refined == float(means[3] / means[1])
    assert refined < 1 / 1.1


def test_a_loop_that_stays_where_it_is_does_not_refine() -> None:
    flat = torch.tensor([0.3, 0.2, 0.2, 0.2])  # (S,)
    assert float(last_over_quarter((1, 5, 10, 20))(flat)) == 1
