"""What figures 8, 10 and 11 of Yang et al. (2024) measure, where the answer is known."""

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from innerloop.analysis import Averages, Measured, RidgeSettings, estimate
from innerloop.analysis.probe_features import hidden_states
from innerloop.analysis.probing import least_squares, probe
from innerloop.core.learner import Learner
from innerloop.core.task import Task
from innerloop.learners import OLS, Lasso, Ridge
from innerloop.models.linear_looped import LinearLoopedTransformer
from innerloop.models.model import AnyModel
from innerloop.studies.claim import Claim, control
from innerloop.studies.lab import Lab
from innerloop.studies.probe_gate import decoded, embedding_alone
from innerloop.studies.study import Findings, Measures, Study, premises
from innerloop.studies.yang2024.families import LASSOS, few_and_more, fig10
from innerloop.studies.yang2024.probes import by_step, end_and_quarter, fig8
from innerloop.studies.yang2024.sparsity import fig11
from innerloop.tasks import LinearRegression, SparseLinearRegression
from innerloop.training.families import Scale
from innerloop.training.recipes import find_recipe
from innerloop.training.run import Run


@pytest.mark.parametrize("scale", ["smoke", "laptop"])
def test_studies_share_runs(scale: Scale) -> None:
    linear = {find_recipe(f"{kind}-linear", scale).key() for kind in ("looped", "standard")}
    assert linear <= {config.key() for config in fig8.runs(scale).values()}
    sparse = {find_recipe(f"{kind}-sparse", scale).key() for kind in ("looped", "standard")}
    for study in (fig10, fig11):
        assert sparse <= {config.key() for config in study.runs(scale).values()}


def test_figures_10_and_11_share_the_runs_of_hours() -> None:
    sparse = {label: config.key() for label, config in fig10.runs("desk").items()}
    shared = {sparse["looped-sparse"], sparse["standard-sparse"]}
    assert shared <= {config.key() for config in fig11.runs("desk").values()}


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
        "all examples, looped": 6.0,
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
def test_the_lasso_has_the_penalty_of_the_paper(looped: float, ratio: float) -> None:
    errors = {"looped, sparse": looped, "Lasso, 0.01, sparse": 2.0, "Lasso, 0.1, sparse": 1.0}
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

    # Better by a half with one or two examples, or only with more of them; and behind with more.
    assert ahead(early) == pytest.approx(0.5)
    assert ahead(late) == pytest.approx(-0.5)
    assert ahead(early, late) == pytest.approx(0)
    assert ahead(2 - late) == pytest.approx(0)


def lab_of(study: Study, loops: Learner[Any], stacks: Learner[Any]) -> Lab:
    """A lab at laptop scale with few prompts: one learner for loops, another for stacks."""

    class Few(Lab):
        @property
        def prompts(self) -> int:
            """So that a test takes seconds."""
            return 96

        def of_another_seed(self, label: str) -> AnyModel:
            """One that is a little different."""
            return Ridge(0.04)  # pyright: ignore[reportReturnType]

    configs = study.runs("laptop")
    return Few(
        study=study.name,
        scale="laptop",
        runs={label: Run(Path("none"), config) for label, config in configs.items()},
        learners={label: loops if "looped" in label else stacks for label in configs},
    )


def passes(study: Study, claim: Claim, measures: Measures) -> bool:
    number = estimate(claim.statistic, [measures, measures], log=claim.ratio, draws=2)
    return control(claim.statement, "", number, premises(claim, [measures])).passes


@pytest.mark.parametrize("study", [fig10, fig11])
def test_nulls_fail_beside_a_stack_that_solves_the_task(study: Study) -> None:
    stack = Ridge(0.05)
    own = lab_of(study, Lasso(0.01), stack)
    for null in {null for claim in study.claims for null in claim.excludes}:
        learners = dict(study.nulls[null](own))
        lab = lab_of(study, stack, stack)
        lab._learners |= learners
        measures = study.measure(lab)
        for claim in study.claims:
            if null in claim.excludes:
                assert not passes(study, claim, measures), (claim.name, null)


def test_a_learner_that_knows_of_sparsity_is_ahead_with_few_examples() -> None:
    measures = fig11.measure(lab_of(fig11, Lasso(0.01), Ridge(0.05)))
    (claim,) = [each for each in fig11.claims if each.name == "ahead-with-few-examples"]
    assert passes(fig11, claim, measures)
    figure = fig11.draw(
        fig11.tables(Findings.of([(Lab(study="", scale="smoke"), measures)]), "smoke")
    )
    assert len(figure.axes) == 4


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
        at_steps=(0, 1, 2, 4, 8),
        settings=RidgeSettings(),
    )
    errors = by_step(probing, label="looped", target="weights")
    means = errors.values.mean(dim=0)  # (S,)
    torch.testing.assert_close(means, probing.relative.values.mean(dim=(0, 2)))
    assert quantity(fig8, "standard-weights", {"standard, weights": errors}) == 1
    backwards = replace(errors, values=errors.values.flip(1))
    assert quantity(fig8, "standard-weights", {"standard, weights": backwards}) > 1.1
    refined = quantity(fig8, "looped-weights", end_and_quarter(errors, 8, "looped, weights"))
    assert refined == pytest.approx(float(means[4] / means[2]))
    assert refined < 1 / 1.1


@pytest.mark.parametrize("beyond", [(), (30,)])
def test_a_loop_that_stays_where_it_is_does_not_refine(beyond: tuple[int, ...]) -> None:
    steps = (1, 5, 10, 20, *beyond)
    flat = torch.tensor([0.3, 0.2, 0.2, 0.2, 9.0])[: len(steps)]  # (S,)
    errors = Measured.exact(flat, "step", step=steps)
    assert quantity(fig8, "looped-moment", end_and_quarter(errors, 20, "looped, moment")) == 1


@pytest.mark.parametrize(
    ("trained", "untrained", "premise"),
    [
        # Decoded: a fifth is left, a quarter of what is left without training.
        ((1.0, 0.2, 0.4), (1.0, 0.8), 0.8),
        # Too much is left; the embedding leaves as little; an untrained model does.
        ((1.0, 0.5, 0.4), (1.0, 0.9), 1.6),
        ((0.25, 0.2, 0.4), (1.0, 0.8), 1.6),
        ((1.0, 0.2, 0.4), (1.0, 0.2), 2.0),
    ],
)
def test_a_target_is_decoded_by_what_was_trained(
    trained: tuple[float, ...], untrained: tuple[float, ...], premise: float
) -> None:
    own, without = (Measured.exact(torch.tensor(each), "step") for each in (trained, untrained))
    measures = {"own": own, "without": without}
    assert float(decoded("own", "without").statistic(Averages(measures))) == pytest.approx(premise)


def test_untrained_models_and_embeddings_do_not_pass_figure_8() -> None:
    configs = fig8.runs("smoke")
    runs = {label: Run(Path("none"), config) for label, config in configs.items()}
    lab = Lab(study=fig8.name, scale="smoke", runs=runs)
    lab = lab.standing_in(lambda lab: {label: lab.untrained(label) for label in lab.labels})
    for null in fig8.nulls.values():
        measures = fig8.measure(lab.standing_in(null))
        for claim in fig8.claims:
            assert not passes(fig8, claim, measures), claim.name


def test_an_embedding_alone_is_the_same_after_every_layer() -> None:
    configs = fig8.runs("smoke")
    runs = {label: Run(Path("none"), config) for label, config in configs.items()}
    lab = Lab(study=fig8.name, scale="smoke", runs=runs)
    models = lab.standing_in(lambda lab: {label: lab.untrained(label) for label in lab.labels})
    (model,) = [own for label, own in embedding_alone(models).items() if label == "standard"]
    config = lab.config("standard")
    prompt = config.task.sample(3, config.points, generator=torch.Generator().manual_seed(0))
    hidden = hidden_states(model, prompt, [0, 1, 2], 2 * config.points - 1)  # (3, P, T, D)
    torch.testing.assert_close(hidden[1], hidden[2])
