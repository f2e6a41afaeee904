"""What figures 8, 10 and 11 of Yang et al. (2024) measure, where the answer is known."""

import math
from collections.abc import Mapping
from dataclasses import replace

import pytest
import torch

from innerloop.analysis import Averages, Measured
from innerloop.analysis.probe_program import ProbeSettings
from innerloop.analysis.probing import Target, least_squares, moment, probe
from innerloop.core.task import Task
from innerloop.learners import OLS
from innerloop.models.linear_looped import LinearLoopedTransformer
from innerloop.studies.lab import Lab
from innerloop.studies.study import Measures, Study
from innerloop.studies.yang2024.families import LASSOS, few_and_more, fig10
from innerloop.studies.yang2024.probes import by_step, end_and_quarter, fig8, with_weights_of_one
from innerloop.studies.yang2024.sparsity import fig11
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


def quantity(study: Study, name: str, measures: Measures) -> float:
    """What a claim is about, from measures by name."""
    (claim,) = [each for each in study.claims if each.name == name]
    return float(claim.statistic(Averages(measures)))


def exact(numbers: Mapping[str, float]) -> Measures:
    return {name: Measured.exact(number) for name, number in numbers.items()}


def by_examples(values: torch.Tensor) -> Measured:
    return Measured(values=values, axes=("examples",))


def test_few_examples_leave_out_the_empty_prefix() -> None:
    errors = by_examples(torch.tensor([[100.0, 1.0, 2.0, 6.0]]))  # (1, n)
    parts = few_and_more("looped", errors, 2)
    assert {name: float(part.values) for name, part in parts.items()} == {
        "with examples, looped": 3.0,
        "few examples, looped": 1.5,
        "more examples, looped": 6.0,
    }


@pytest.mark.parametrize(("tree", "largest"), [((3.0, 4.0), 0.75), ((1.0, 4.0), 0.5)])
def test_of_several_families_the_largest_ratio_counts(
    tree: tuple[float, float], largest: float
) -> None:
    errors = {
        "looped, sparse": 1.0, "standard, sparse": 2.0, "looped, tree": tree[0],
        "standard, tree": tree[1], "looped, network": 1.0, "standard, network": 9.0,
    }  # fmt: skip
    measures = exact({f"with examples, {name}": error for name, error in errors.items()})
    assert quantity(fig11, "matches-at-all", measures) == largest
    assert quantity(fig10, "matches-standard", measures) == largest
    assert quantity(fig10, "ahead-on-sparse", measures) == 0.5
    one_family = {name: own for name, own in measures.items() if "sparse" in name}
    assert math.isnan(quantity(fig10, "matches-standard", one_family))


@pytest.mark.parametrize(("looped", "ratio"), [(1.0, 0.5), (8.0, 4.0)])
def test_the_lasso_has_the_penalty_that_is_best(looped: float, ratio: float) -> None:
    errors = {"looped, sparse": looped, "Lasso, 1, sparse": 3.0, "Lasso, 0.1, sparse": 2.0}
    few = exact({f"few examples, {name}": error for name, error in errors.items()})
    late = exact({f"all examples, {name}": error for name, error in errors.items()})
    assert quantity(fig10, "ahead-of-lasso", few) == ratio
    assert quantity(fig10, "lasso-more-precise", late) == ratio


def test_ahead_with_few_examples_is_more_than_with_many() -> None:
    ones = torch.ones(20, 6)  # (P, n)
    early, late = ones.clone(), ones.clone()
    early[:, 1:3], late[:, 3:] = 0.5, 0.5

    def ahead(*looped: torch.Tensor) -> float:
        measures: dict[str, Measured] = {}
        for place, errors in enumerate(looped):
            measures |= few_and_more(f"looped, s = {place}", by_examples(errors), 2)
            measures |= few_and_more(f"standard, s = {place}", by_examples(ones), 2)
        return quantity(fig11, "ahead-with-few-examples", measures)

    # Better by a half with one or two examples, or only with more of them.
    assert ahead(early) == pytest.approx(0.5)
    assert ahead(late) == pytest.approx(2)
    assert ahead(early, late) == pytest.approx(1)


def test_least_squares_does_not_beat_the_lasso_on_few_examples() -> None:
    """Sparse functions: below d examples least squares has nothing to choose by, and loses."""
    task = SparseLinearRegression(dims=10, sparsity=1)
    assert _against_the_lasso(task) > 1.2
    # With dense weights the Lasso has no advantage.
    assert _against_the_lasso(LinearRegression(dims=10)) < 1.05


def _against_the_lasso(task: Task) -> float:
    lab = Lab(study="test", scale="smoke")
    prompt = lab.draw(task, 10, prompts=96)
    measures: dict[str, Measured] = {}
    for label, solver in {"looped": OLS(), **LASSOS}.items():
        measures |= few_and_more(f"{label}, sparse", lab.error(solver, prompt, task), 9)
    return quantity(fig10, "ahead-of-lasso", measures)


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
    training, held_out = (task.sample(many, 16, generator=draw) for many in (512, 256))
    probing = probe(
        model,
        training,
        least_squares,
        held_out=held_out,
        control=with_weights_of_one(training),
        at_steps=(1, 2, 4, 8),
        settings=ProbeSettings(reader="linear", iterations=100, rate=1e-2),
    )
    errors, control = by_step(probing, label="looped", target="weights")
    means = errors.values.mean(dim=0)  # (S,)
    torch.testing.assert_close(means, probing.errors.values.mean(dim=(0, 2)))
    assert float((control.values.mean(dim=0) / means).amin()) > 1
    assert quantity(fig8, "standard-weights", {"standard, weights": errors}) == 1
    backwards = replace(errors, values=errors.values.flip(1))
    assert quantity(fig8, "standard-weights", {"standard, weights": backwards}) > 1.1
    refined = quantity(fig8, "looped-weights", end_and_quarter(errors, 8, "looped, weights"))
    assert refined == pytest.approx(float(means[3] / means[1]))
    assert refined < 1 / 1.1


@pytest.mark.parametrize("beyond", [(), (30,)])
def test_a_loop_that_stays_where_it_is_does_not_refine(beyond: tuple[int, ...]) -> None:
    steps = (1, 5, 10, 20, *beyond)
    flat = torch.tensor([0.3, 0.2, 0.2, 0.2, 9.0])[: len(steps)]  # (S,)
    errors = Measured.exact(flat, "step", step=steps)
    assert quantity(fig8, "looped-moment", end_and_quarter(errors, 20, "looped, moment")) == 1


def test_probes_are_compared_with_their_control_where_it_is_nearest() -> None:
    errors = {
        f"{control}{kind}, {target}": Measured.exact(torch.tensor([9.0, lowest]), "step")
        for kind, target in (("looped", "moment"), ("standard", "weights"))
        for control, lowest in (("", 1.0), ("control, ", 4.0))
    }
    near = {
        f"{control}{kind}, {target}": Measured.exact(torch.tensor([lowest, 9.0, 9.0]), "step")
        for kind, target in (("looped", "weights"), ("standard", "moment"))
        for control, lowest in (("", 3.0), ("control, ", 6.0))
    }
    assert quantity(fig8, "beyond-control", errors | near) == 0.5
