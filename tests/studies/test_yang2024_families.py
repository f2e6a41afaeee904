"""What figures 8, 10 and 11 of Yang et al. (2024) measure, where the answer is known."""

import pytest
import torch

from innerloop.analysis.probe_program import ProbeSettings
from innerloop.analysis.probing import Target, least_squares, moment, probe
from innerloop.core.task import Task
from innerloop.learners import OLS
from innerloop.models.linear_looped import LinearLoopedTransformer
from innerloop.studies.lab import Lab
from innerloop.studies.yang2024.comparing import largest_ratio, smallest_ratio
from innerloop.studies.yang2024.families import (
    LASSOS,
    fig10,
    over_best_of_others,
    with_examples,
)
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


@pytest.mark.parametrize("scale", ["smoke", "laptop"])
def test_studies_share_runs(scale: Scale) -> None:
    linear = {find_recipe(f"{kind}-linear", scale).key() for kind in ("looped", "standard")}
    for study in (fig8, fig11):
        assert linear <= {config.key() for config in study.runs(scale).values()}
    sparse = find_recipe("looped-sparse", scale).key()
    assert sparse in {config.key() for config in fig10.runs(scale).values()}


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
