"""The measures of Fu et al.'s studies on learners whose answer is known, and the algebra of B.3."""

from fractions import Fraction

import pytest
import torch
from torch import Tensor

from innerloop.analysis.forgetting import example_errors
from innerloop.analysis.induced import induced_weights
from innerloop.analysis.matching import match
from innerloop.core.iterate import iterate, trajectory
from innerloop.core.prompt import Prompt
from innerloop.learners import GradientDescent, Newton, OnlineGradientDescent
from innerloop.studies.fu2023.forgetting import older_over_newer
from innerloop.studies.fu2023.ill_conditioned import steps_to_reach
from innerloop.studies.fu2023.layers import (
    error_directions,
    falling_layers,
    induced_by_layer,
    similarities,
    weight_directions,
)
from innerloop.studies.fu2023.theorems import (
    as_printed,
    binomial,
    degree,
    example_gram,
    expanded,
    gradient_degree,
    off_by,
)
from innerloop.studies.fu2023.trends import (
    DESCENT,
    NEWTON,
    Trend,
    line,
    linear_steps,
    logarithmic_steps,
    rate,
    similarity_table,
    too_few,
    trend_claims,
    trend_of,
    trend_quantities,
)
from innerloop.studies.lab import Lab
from innerloop.tasks.linear import LinearRegression

LAYERS = range(1, 8)


@pytest.fixture(scope="module")
def prompt() -> Prompt:
    task = LinearRegression(dims=5)
    return task.sample(96, 11, generator=torch.Generator().manual_seed(7))


@pytest.fixture(scope="module")
def lab() -> Lab:
    return Lab(study="fu2023/test", scale="smoke")


def trends(predictions: Tensor, prompt: Prompt) -> tuple[Trend, Trend]:
    """Predictions (A, P, n, k), as if of layers, beside both algorithms."""
    own = error_directions(predictions, prompt)  # (A, P, m)
    newton = similarities(own, Newton(14), prompt, "SimE")  # (P, A, C)
    descent = similarities(own, GradientDescent(150), prompt, "SimE")  # (P, A, C)
    return (
        trend_of(newton, "SimE", NEWTON, LAYERS),
        trend_of(descent, "SimE", DESCENT, LAYERS),
    )


def verdicts(lab: Lab, newton: Trend, descent: Trend) -> dict[str, str]:
    """What the claims of a trend come to, whatever the scale."""
    found = trend_quantities(lab, newton, descent, 0)
    return {
        claim.name: claim.criterion.judge(found[claim.name].low, found[claim.name].high)
        for claim in trend_claims("SimE")
    }


@pytest.mark.parametrize("a_layer", [1, 2])
def test_layers_that_run_newton_have_the_papers_trends(
    lab: Lab, prompt: Prompt, a_layer: int
) -> None:
    steps = trajectory(Newton(7 * a_layer), prompt).predictions[::a_layer]  # (8, P, n, k)
    newton, descent = trends(steps, prompt)
    assert newton.best.tolist() == [a_layer * layer for layer in range(8)]
    assert set(verdicts(lab, newton, descent).values()) == {"confirmed"}
    assert rate(lab, newton, 0).value == a_layer
    # The match at the last iteration that is run does not count: a later one might be nearer.
    assert newton.fitted == tuple(layer for layer in LAYERS if a_layer * layer < 14)


def test_layers_that_run_gradient_descent_do_not(lab: Lab, prompt: Prompt) -> None:
    steps = trajectory(GradientDescent(70), prompt).predictions[::10]  # (8, P, n, k)
    newton, descent = trends(steps, prompt)
    assert descent.best.tolist() == [10 * layer for layer in range(8)]
    found = verdicts(lab, newton, descent)
    # By this they are told apart: Newton's matches grow as a logarithm, which is no exponential.
    assert found["errors-descent-exponential"] == "not confirmed"


def test_too_few_layers_conclude_nothing(lab: Lab, prompt: Prompt) -> None:
    own = error_directions(trajectory(Newton(7), prompt).predictions, prompt)  # (8, P, m)
    table = similarities(own, Newton(14), prompt, "SimE")  # (P, 8, C)
    for layers, known in ((4, {"inconclusive"}), (5, {"confirmed", "not confirmed"})):
        trend = trend_of(table, "SimE", NEWTON, range(1, 1 + layers))
        found = verdicts(lab, trend, trend)
        assert {found["errors-newton-linear"], found["errors-descent-exponential"]} == known
        assert bool(too_few([trend], 0)) == (layers == 4)


@pytest.mark.parametrize("measure", ["SimE", "SimW"])
def test_similarities_are_those_of_match(prompt: Prompt, measure: str) -> None:
    first, second = Newton(4), GradientDescent(12)
    if measure == "SimE":
        own = error_directions(trajectory(first, prompt).predictions, prompt)  # (A, P, m)
        found = similarities(own, second, prompt, "SimE")
        expected = match(first, second, prompt, measure="sim_e")
    else:
        weights = torch.stack([first.weights(prompt, state) for state in iterate(first, prompt)])
        found = similarities(weight_directions(weights), second, prompt, "SimW")
        expected = match(first, second, prompt, measure="sim_w")
    assert found.shape == (prompt.batch, 5, 13)
    # By sim_w, weights are fitted to answers of float32.
    assert torch.allclose(found.mean(dim=0), expected.similarity, atol=1e-5)
    trend = trend_of(found, "SimE", DESCENT, range(1, 5))
    assert trend.best.tolist() == expected.best.tolist()
    assert torch.allclose(trend.at_best().mean(dim=0), expected.value, atol=1e-5)


def test_induced_weights_of_a_linear_learner_are_its_weights() -> None:
    """With the queries of each prompt its own, on ill-conditioned inputs."""
    task = LinearRegression(dims=4, covariance="ill-conditioned", dtype="float64")
    drawn = task.sample(5, 9 + 12, generator=torch.Generator().manual_seed(1))
    prompt = Prompt(xs=drawn.xs[:, :9], ys=drawn.ys[:, :9])
    learner = GradientDescent(3)
    found = induced_by_layer(learner, prompt, drawn.xs[:, 9:])  # (4, 5, 9, 4, 1)
    states = iterate(learner, prompt)
    expected = torch.stack([learner.weights(prompt, state) for state in states])
    assert found == pytest.approx(expected, abs=1e-10)
    alike = induced_weights(learner, prompt, every_step=True)
    assert found == pytest.approx(alike, abs=1e-10)


@pytest.mark.parametrize(
    ("errors", "expected"),
    [
        ([1.0, 1.0, 0.8, 0.4, 0.1, 0.095], range(2, 5)),
        ([1.0, 0.5, 0.2, 0.1], range(1, 4)),
        ([1.0, 0.99, 0.98], range(0)),
        ([1.0, 0.95, 0.88, 0.87], range(0)),  # slowly, and never by a tenth
    ],
)
def test_falling_layers(errors: list[float], expected: range) -> None:
    assert falling_layers(torch.tensor(errors)) == expected


def test_line_through_whole_numbers_is_exact() -> None:
    places = torch.arange(2.0, 9.0, dtype=torch.float64)  # (7,)
    slope, explained = line(places, torch.stack([2 * places - 1, 2**places]))
    assert float(slope[0]) == 2.0
    assert float(explained[0]) == 1.0
    # As the reason for FEWEST has it, of doublings over three, four and five layers.
    for layers, known in ((3, 0.964), (4, 0.920), (5, 0.871)):
        some = torch.arange(float(layers), dtype=torch.float64)  # (layers,)
        assert float(line(some, 2**some)[1]) == pytest.approx(known, abs=1e-3)


def test_steps_to_reach() -> None:
    errors = torch.tensor([[1.0, 0.5, 0.2, 0.1], [1.0, 0.9, 0.8, 0.7]])  # (2, 4)
    assert steps_to_reach(errors, torch.tensor([0.2, 0.2])).tolist() == [2.0, torch.inf]


@pytest.mark.parametrize("count", [1, 2, 13, 21, 401, 801])
def test_steps_that_are_drawn(count: int) -> None:
    for steps in (linear_steps(count), logarithmic_steps(count)):
        assert len(steps) <= 21
        assert steps == sorted(set(steps))
        assert steps[0] == 0
        assert steps[-1] == count - 1


def test_the_table_of_similarities_holds_the_means(prompt: Prompt) -> None:
    newton, _ = trends(trajectory(Newton(7), prompt).predictions, prompt)
    table = similarity_table([newton]).pivot(index="step", columns="layer", values="similarity")
    assert list(table.columns) == list(range(1, 8))
    expected = newton.similarity.mean(dim=0)[1:].T  # (C, 7)
    assert table.to_numpy() == pytest.approx(expected.numpy(), abs=1e-4)


def test_online_descent_forgets_and_newton_does_not() -> None:
    task = LinearRegression(dims=5)
    seen = task.sample(512, 10, generator=torch.Generator().manual_seed(3))
    lab = Lab(study="fu2023/test", scale="laptop")
    online, newton = (
        older_over_newer(lab, example_errors(learner, seen).flip(1), 0)
        for learner in (OnlineGradientDescent(), Newton(2))
    )
    assert online.low > 1.25
    assert newton.low < 1.0 < newton.high


def test_newton_as_a_polynomial() -> None:
    right = expanded(4)
    assert right[1] == (0, 2, 0, -1)
    assert right[2] == (0, 4, 0, -6, 0, 4, 0, -1)
    assert [degree(polynomial) for polynomial in right] == [1, 3, 7, 15, 31]
    assert [binomial(k) for k in range(5)] == right
    assert [gradient_degree(k) for k in (1, 2, 5)] == [0, 1, 4]


def test_the_printed_polynomials_are_not_newton() -> None:
    gram, alpha = example_gram(), Fraction(1, 400)
    for k in (1, 2):
        assert off_by(expanded(k)[k], gram, alpha, k) == 0
        assert off_by(as_printed(k), gram, alpha, k) > Fraction(1, 1000)


def test_the_learner_is_that_polynomial() -> None:
    task = LinearRegression(dims=3, dtype="float64")
    prompt = task.sample(4, 7, generator=torch.Generator().manual_seed(5))
    alpha, k = 1e-3, 3
    learner = Newton(k, start=alpha)
    *_, state = iterate(learner, prompt)
    for i in (1, 3, 6):
        xs = prompt.xs[:, :i]  # (4, i, 3)
        gram = xs.mT @ xs  # (4, 3, 3)
        expected = torch.zeros_like(gram)  # (4, 3, 3)
        for power, coefficient in enumerate(expanded(k)[k]):
            if coefficient:
                size = float(coefficient) * alpha ** ((power + 1) // 2)
                expected += size * torch.linalg.matrix_power(gram, power)
        assert state.matrices()[:, i] == pytest.approx(expected, abs=1e-10)
