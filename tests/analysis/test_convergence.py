"""Distances to the fixed point, rates and spectral radii where they are known."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import innerloop as il
from innerloop.analysis.convergence import convergence
from innerloop.core.chunks import budget
from innerloop.core.errors import ConfigurationError, FixedPointError, NotSupportedError
from innerloop.core.learner import Traits
from innerloop.core.prompt import Prompt
from innerloop.core.state import select_state
from innerloop.core.state_parts import MovingPart
from innerloop.core.tolerances import REFERENCE
from innerloop.learners import ConjugateGradient, FromFunction, GradientDescent, Newton
from innerloop.learners.prefix import LinearLearner, pull_back, residuals
from innerloop.models import InContextTransformer, LinearLoopedTransformer, Loop, Stack
from innerloop.models.transformer import TransformerConfig

DIMS, POINTS, STEP_SIZE = 3, 7, 0.6
SPECTRUM = np.array([1.0, 0.5, 0.2])
"""The eigenvalues of X'X over all six examples: each direction is seen twice."""
RADIUS = float(np.abs(1 - STEP_SIZE * SPECTRUM).max())

DrawPrompt = Callable[..., Prompt]


def known_prompt(prompts: int = 4) -> Prompt:
    """Inputs along an orthogonal basis, each twice: prefix 6 has the spectrum, prefix 3 half of it.

    The weights are the sum of the basis, so that all of its directions are on the path.
    """
    generator = torch.Generator().manual_seed(11)
    normal = torch.randn(prompts, DIMS, DIMS, generator=generator, dtype=torch.float64)
    basis = torch.linalg.qr(normal)[0].mT  # (P, d, d): a direction a row
    once = basis * torch.from_numpy(SPECTRUM / 2).sqrt()[:, None]  # (P, d, d)
    xs = torch.cat([once, once, basis[:, :1]], dim=1)  # (P, 7, d)
    ys = xs @ basis.sum(dim=1)[..., None]  # (P, 7, 1)
    return Prompt(xs=xs, ys=ys)


def only(prefix: int) -> Tensor:
    """A mask over the weights (n, d, k) of gradient descent."""
    mask = torch.zeros(POINTS, DIMS, 1, dtype=torch.bool)
    mask[prefix] = True
    return mask


@dataclass(frozen=True)
class HeavyBall(LinearLearner[Tensor]):
    """Gradient descent with momentum: w' = w - step_size X'(Xw - y) + momentum (w - w_before).

    Its eigenvalues are complex, of absolute value sqrt(momentum), where the square of
    1 + momentum - step_size s is below 4 momentum. The state (B, 2, n, d, k) holds both iterates.
    """

    step_size: float
    momentum: float
    steps: int = 1
    traits = Traits(order_invariant=True, rotation_equivariant=True, linear_in_y=True)

    def init(self, prompt: Prompt) -> Tensor:
        shape = (prompt.batch, 2, prompt.points, prompt.dims, prompt.outputs)
        return torch.zeros(shape, dtype=torch.float64)

    def step(self, prompt: Prompt, state: Tensor, k: int) -> Tensor:
        before, now = state.unbind(dim=1)  # (B, n, d, k) each
        downhill = pull_back(prompt.xs, residuals(prompt.xs, prompt.ys, now))  # (B, n, d, k)
        new = now + self.step_size * downhill + self.momentum * (now - before)  # (B, n, d, k)
        return torch.stack([now, new], dim=1)

    def weights_of(self, state: Tensor) -> Tensor:
        return state[:, 1]

    @property
    def moving(self) -> MovingPart[Tensor]:
        return MovingPart(self.name, lambda state: state, lambda state, moving: moving)


def test_distances_of_gradient_descent_are_known() -> None:
    """In the eigenvectors each part of the weights shrinks by its own factor."""
    found = convergence(GradientDescent(1, STEP_SIZE), known_prompt(), entries=only(6))
    factors = 1 - STEP_SIZE * SPECTRUM  # (d,)
    # The weights are the sum of the basis: 1 in each direction, sqrt(3) in all.
    times = np.arange(found.distances.values.shape[1])[:, None]  # (K + 1, 1)
    expected = np.sqrt((factors ** (2 * times)).sum(axis=1) / 3)  # (K + 1,)
    assert np.abs(found.distances.values.numpy() - expected).max() < 1e-12
    assert found.converged.all()
    assert int(found.steps.max()) == found.distances.values.shape[1] - 1
    table = found.distances.table()
    assert list(table["step"]) == list(range(len(expected)))
    assert np.abs(table["mean"].to_numpy() - expected).max() < 1e-12
    assert found.distances.counted is not None
    assert set(found.distances.counted.sum(dim=0).tolist()) == {4}


@pytest.mark.parametrize(
    ("prefix", "expected"),
    [
        (0, 1.0),  # nothing was seen, and nothing moves
        (2, 1.0),  # the third direction was not seen
        (3, np.abs(1 - STEP_SIZE * SPECTRUM / 2).max()),
        (6, RADIUS),
    ],
)
def test_radii_of_gradient_descent_are_known(prefix: int, expected: float) -> None:
    learner = GradientDescent(1, STEP_SIZE)
    found = convergence(learner, known_prompt(), entries=only(prefix))
    assert found.radii is not None
    assert np.abs(found.radii.values.numpy() - expected).max() < REFERENCE
    assert found.refusal == ""


def test_all_prefixes_at_once_have_directions_that_stand_still() -> None:
    found = convergence(GradientDescent(1, STEP_SIZE), known_prompt())
    assert found.radii is not None
    assert np.abs(found.radii.values.numpy() - 1).max() < REFERENCE
    # The path never enters them: its rate is that of prefix 3, whose eigenvalues are smallest.
    slowest = np.abs(1 - STEP_SIZE * SPECTRUM / 2).max()
    assert np.abs(found.rates.values.numpy() - slowest).max() < 1e-3


@pytest.mark.parametrize("step_size", [STEP_SIZE, 1.9])
def test_the_rate_is_the_radius_where_the_path_takes_all_directions(step_size: float) -> None:
    """Also where the steps are so long that they overshoot: 1 - 1.9 is negative."""
    found = convergence(GradientDescent(1, step_size), known_prompt(), entries=only(6))
    expected = np.abs(1 - step_size * SPECTRUM).max()
    assert found.radii is not None
    assert np.abs(found.radii.values.numpy() - expected).max() < REFERENCE
    # What is left of the next factor: below (0.7 / 0.88)^30 over the two decades of the fit.
    assert np.abs(found.rates.values.numpy() - expected).max() < 1e-3
    for measured in (found.rates, found.radii):
        interval = measured.interval()
        assert abs(float(interval.value - measured.values.mean())) < 1e-12
        assert float(interval.low) <= float(interval.value) + 1e-12
        assert float(interval.value) <= float(interval.high) + 1e-12


def test_the_rate_of_a_path_that_avoids_the_slowest_direction() -> None:
    prompt = known_prompt()
    first = prompt.xs[:, 0] / (SPECTRUM[0] / 2) ** 0.5  # (P, d): the direction of the largest
    prompt = replace(prompt, ys=prompt.xs @ first[..., None])
    found = convergence(GradientDescent(1, STEP_SIZE), prompt, entries=only(6))
    assert found.radii is not None
    # The fit ends where rounding is a thousandth of the distance.
    assert np.abs(found.rates.values.numpy() - (1 - STEP_SIZE)).max() < 1e-3
    assert np.abs(found.radii.values.numpy() - RADIUS).max() < REFERENCE


def test_a_linear_looped_transformer_has_the_radius_of_its_descent() -> None:
    model = LinearLoopedTransformer.gradient_descent(dims=DIMS, loops=3, step_size=STEP_SIZE)
    mask = torch.zeros(1, POINTS, DIMS + 1, dtype=torch.bool)
    mask[:, 6, :-1] = True  # the last number of a row never moves
    found = convergence(model, known_prompt(), entries=mask)
    assert found.radii is not None
    assert np.abs(found.radii.values.numpy() - RADIUS).max() < REFERENCE


def test_complex_pairs_do_not_upset_the_radius() -> None:
    learner = HeavyBall(step_size=0.6, momentum=0.8)
    assert ((1 + 0.8 - 0.6 * SPECTRUM) ** 2 < 4 * 0.8).all()
    mask = only(6).expand(2, -1, -1, -1)
    found = convergence(learner, known_prompt(), entries=mask)
    assert found.radii is not None
    assert np.abs(found.radii.values.numpy() - 0.8**0.5).max() < 1e-6


def exact_radius(model: InContextTransformer, prompt: Prompt) -> float:
    """Of one prompt: eigenvalues of the whole Jacobian, by automatic differentiation."""
    state = il.run_to_fixed_point(model, prompt, max_steps=5000).state
    state = select_state(state, torch.tensor([0]))
    moving = model.moving.get(state)  # (1, T, D)

    def step(flat: Tensor) -> Tensor:
        moved = model.moving.put(state, flat.reshape(moving.shape))
        return model.moving.get(model.step(prompt, moved, 0)).flatten()

    jacobian: Any = torch.autograd.functional.jacobian(step, moving.flatten())
    return float(torch.linalg.eigvals(jacobian).abs().max())


def test_radii_of_a_looped_transformer_are_those_of_its_jacobian(
    random_prompt: DrawPrompt,
) -> None:
    prompt = random_prompt(4, 4, DIMS)
    shape = Loop(width=8, heads=2, loops=3)
    config = TransformerConfig(dims=DIMS, points=4, backbone=shape)
    generator = torch.Generator().manual_seed(2)  # a loop that comes to rest: not all do
    model = InContextTransformer(config, generator=generator).double()
    found = convergence(model, prompt, max_steps=5000)
    expected = [exact_radius(model, prompt.select(slice(b, b + 1))) for b in range(4)]
    assert found.radii is not None
    assert not found.radii.values.requires_grad
    assert found.radii.values.numpy() == pytest.approx(np.array(expected), rel=1e-3)
    # In single precision the differences keep four digits.
    coarse = convergence(model.float(), prompt.to(dtype=torch.float32), max_steps=5000)
    assert coarse.radii is not None
    assert coarse.radii.values.numpy() == pytest.approx(np.array(expected), rel=1e-2)


def test_newton_converges_and_has_no_radius() -> None:
    """Each eigenvalue's residual 1 - s m is squared by a step."""
    prompt = known_prompt()
    mask = torch.zeros(POINTS, DIMS, dtype=torch.bool)
    mask[6] = True
    found = convergence(Newton(1), prompt, entries=mask)
    start = SPECTRUM / np.linalg.norm(SPECTRUM**2)  # (d,): alpha s
    times = np.arange(found.distances.values.shape[1])[:, None]  # (K + 1, 1)
    left = (1 - SPECTRUM * start) ** (2.0**times) / SPECTRUM  # (K + 1, d)
    size = np.linalg.norm(1 / SPECTRUM)
    expected = np.linalg.norm(left, axis=1) / size  # (K + 1,)
    assert np.abs(found.distances.values.numpy() - expected).max() < 1e-12
    # Between the last two steps above rounding, not over the whole path.
    last = np.flatnonzero(expected > 1000 * np.finfo(float).eps)[-1]
    assert found.rates.values.numpy() == pytest.approx(
        expected[last] / expected[last - 1], rel=1e-2
    )
    assert found.radii is None
    assert "cannot be moved by hand" in found.refusal


def test_other_learners_that_cannot_be_moved_have_no_radius() -> None:
    found = convergence(ConjugateGradient(1), known_prompt())
    assert found.radii is None
    assert "depend on more" in found.refusal
    assert found.distances.values[:, DIMS].max() < 1e-8  # it ends after d steps


def test_prompts_that_diverge_are_told_apart() -> None:
    prompt = known_prompt()
    prompt.xs[1] *= 3  # 1 - 0.6 * 9 is far below -1
    with pytest.raises(FixedPointError, match="1 diverged"):
        convergence(GradientDescent(1, STEP_SIZE), prompt)
    found = convergence(GradientDescent(1, STEP_SIZE), prompt, entries=only(6), throw=False)
    assert found.converged.tolist() == [True, False, True, True]
    assert found.radii is not None
    for measured in (found.distances.at(step=0), found.rates, found.radii):
        assert measured.values.isnan().tolist() == [False, True, False, False]
        assert measured.counted is not None
        assert measured.counted.tolist() == [True, False, True, True]
    rest = prompt.select(torch.tensor([0, 2, 3]))
    alone = convergence(GradientDescent(1, STEP_SIZE), rest, entries=only(6))
    assert alone.radii is not None
    kept = found.radii.values[found.converged]
    assert np.abs((kept - alone.radii.values).numpy()).max() < REFERENCE
    assert float(found.radii.interval().value) == pytest.approx(float(kept.mean()), rel=1e-12)
    # How long the others ran does not matter.
    assert found.distances.values.shape == (4, int(found.steps[found.converged].max()) + 1)


def test_chunks_change_nothing() -> None:
    learner, prompt = GradientDescent(1, STEP_SIZE), known_prompt()
    whole = convergence(learner, prompt)
    with budget(1):  # a prompt at a time
        parts = convergence(learner, prompt)
        assert whole.radii is not None
        assert parts.radii is not None
        for one, other in (
            (whole.distances, parts.distances),
            (whole.rates, parts.rates),
            (whole.radii, parts.radii),
        ):
            assert np.abs((one.values - other.values).numpy()).max() < REFERENCE


def test_what_starts_at_its_fixed_point_has_no_rate() -> None:
    prompt = known_prompt()
    found = convergence(GradientDescent(1, STEP_SIZE), replace(prompt, ys=0 * prompt.ys))
    assert found.rates.values.isnan().all()
    assert (found.distances.values == 0).all()
    assert found.rates.counted is not None
    assert not found.rates.counted.any()
    assert found.rates.interval().value.isnan()


def test_what_does_not_iterate_is_refused(random_prompt: DrawPrompt) -> None:
    config = TransformerConfig(dims=2, points=4, backbone=Stack(layers=2, width=8, heads=2))
    prompt = random_prompt(2, 4, 2)
    with pytest.raises(NotSupportedError, match="each layer is another step"):
        convergence(InContextTransformer(config), prompt)
    with pytest.raises(NotSupportedError, match="does not iterate"):
        convergence(FromFunction(lambda xs, ys: ys), prompt)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"power_steps": 0}, "power_steps is 0"),
        ({"entries": torch.ones(2, 2, dtype=torch.bool)}, r"shape \(2, 2\), expected"),
        ({"entries": torch.ones(POINTS, DIMS, 1)}, "entries are torch.float32"),
        ({"entries": torch.zeros(POINTS, DIMS, 1, dtype=torch.bool)}, "selects some"),
        ({"max_steps": 0}, "max_steps is 0"),
    ],
)
def test_bad_arguments_are_one_sentence(arguments: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigurationError, match=sentence):
        convergence(GradientDescent(1, STEP_SIZE), known_prompt(), **arguments)
