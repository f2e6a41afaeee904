"""Time series through a representation: the recursion, the noise, and that nothing explodes."""

import pytest
import torch

from innerloop.core.errors import ConfigurationError
from innerloop.core.tolerances import REFERENCE
from innerloop.tasks import autoregression
from innerloop.tasks.autoregression import (
    GAIN,
    LARGEST_GROWTH,
    LARGEST_TOKEN,
    STATIONARY_VARIANCE,
    RepresentationAR,
    growth,
)
from tests.tasks.task_statistics import SIGNIFICANCE, normal_probability, seeded


def test_every_token_follows_from_the_ones_before_it() -> None:
    task = RepresentationAR(dims=3, order=2, noise=0.5, dtype="float64")
    prompt = task.sample(400, 9, generator=seeded(0))
    phi = task.representation
    assert phi.weights[0].shape == (6, 3)
    assert torch.equal(prompt.ys[:, :-1], prompt.xs[:, 1:])
    noise = []
    for i in range(1, 9):
        history = torch.cat([prompt.xs[:, i - 1], prompt.xs[:, i]], dim=1)  # (B, 2 d)
        features = phi(history)  # (B, d)
        assert float((features - prompt.truth["features"][:, i]).abs().max()) < REFERENCE
        signal = torch.einsum("bi,bij->bj", features, prompt.truth["A"])  # (B, d)
        noise.append(prompt.ys[:, i] - signal)
    assert normal_probability(torch.stack(noise), 0.5) > SIGNIFICANCE
    assert not prompt.truth["features"][:, 0].any()


@pytest.mark.parametrize("order", [1, 2, 4])
def test_positions_with_a_whole_history_are_scored(order: int) -> None:
    prompt = RepresentationAR(dims=2, order=order).sample(2, 6, generator=seeded(1))
    assert prompt.layout == "stream"
    assert prompt.scored is not None
    assert prompt.scored[0].tolist() == [i >= order - 1 for i in range(6)]
    assert torch.equal(prompt.scored[0], prompt.scored[1])


def test_the_first_tokens_have_the_stationary_variance() -> None:
    prompt = RepresentationAR(dims=4, noise=3).sample(500, 2, generator=seeded(2))
    deviation = 3 * STATIONARY_VARIANCE**0.5
    assert normal_probability(prompt.xs, deviation) > SIGNIFICANCE
    assert pytest.approx(GAIN**2 * STATIONARY_VARIANCE + 1) == STATIONARY_VARIANCE


def test_prompts_shorter_than_the_history() -> None:
    prompt = RepresentationAR(dims=2, order=5).sample(3, 2, generator=seeded(3))
    assert prompt.scored is not None
    assert not prompt.scored.any()


@pytest.mark.parametrize("dims", [5, 20])
def test_series_stay_bounded(dims: int) -> None:
    task = RepresentationAR(dims=dims)
    prompt = task.sample(1000, 200, generator=seeded(4))
    assert bool((growth(task.representation, prompt.truth["A"]) < LARGEST_GROWTH).all())
    size = prompt.ys.square().mean(dim=2).sqrt() / STATIONARY_VARIANCE**0.5  # (B, n)
    assert float(size.max()) <= LARGEST_TOKEN
    # Well inside the bound, that is by their own stability and not by being drawn again.
    assert float((size.amax(dim=1) > LARGEST_TOKEN / 2).double().mean()) <= 0.002


@pytest.mark.parametrize("dims", [5, 20])
def test_stable_matrices_hardly_ever_need_the_bound(dims: int) -> None:
    phi = RepresentationAR(dims=dims).representation
    kind = autoregression._Kind(phi, STATIONARY_VARIANCE)
    series = autoregression._draw_series(kind, 1000, 200, torch.float32, seeded(5))
    unstable = growth(phi, series.matrices) >= LARGEST_GROWTH  # (B,)
    largest = series.tokens.square().mean(dim=2).amax(dim=1)  # (B,)
    exploded = ~(largest <= LARGEST_TOKEN**2 * STATIONARY_VARIANCE)  # (B,)
    assert bool(exploded.any())  # why matrices are refused at all
    assert int((exploded & ~unstable).sum()) <= 2
    assert float(unstable.double().mean()) < 0.3
    assert normal_probability(series.matrices[:, 0]) > SIGNIFICANCE


def test_series_that_leave_the_bound_are_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def largest(bound: float) -> float:
        monkeypatch.setattr(autoregression, "LARGEST_TOKEN", bound)
        prompt = RepresentationAR(dims=4).sample(300, 20, generator=seeded(7))
        tokens = torch.cat([prompt.xs, prompt.ys], dim=1)  # (B, 2n, d)
        return float(tokens.square().mean(dim=2).sqrt().max() / STATIONARY_VARIANCE**0.5)

    assert largest(20) > 2
    assert largest(2) <= 2


def test_growth_is_the_largest_eigenvalue_where_phi_is_linear() -> None:
    # With slope 1, order 1 and one identity layer, Phi is the identity and the map is A itself.
    phi = autoregression.Representation(weights=(torch.eye(2, dtype=torch.float64),), slope=1.0)
    matrices = torch.tensor([[[0.5, 0.0], [0.0, -0.8]], [[1.2, 0.0], [3.0, 0.1]]]).double()
    # 24 steps leave (0.5 / 0.8)^24 = 1e-5 of the other direction.
    assert growth(phi, matrices).tolist() == pytest.approx([0.8, 1.2], rel=1e-3)


def test_noise_of_another_size_scales_the_series_and_its_scale() -> None:
    one, three = (RepresentationAR(dims=2, noise=noise, dtype="float64") for noise in (1, 3))
    a, b = (task.sample(3, 6, generator=seeded(6)) for task in (one, three))
    assert float((3 * a.ys - b.ys).abs().max()) < REFERENCE
    assert float((3 * a.truth["features"] - b.truth["features"]).abs().max()) < REFERENCE
    assert torch.equal(9 * one.scale(), three.scale())


def test_the_scale_starts_at_the_stationary_variance_and_ends_stationary() -> None:
    scale = RepresentationAR(dims=5).scale_at(100)
    assert scale[:2].tolist() == [STATIONARY_VARIANCE] * 2
    assert len(set(scale[18:].tolist())) == 1
    assert torch.equal(scale, RepresentationAR(dims=5).scale_at(100))


@pytest.mark.parametrize(("dims", "gain"), [(3, 0.93), (5, 0.9), (20, 0.78)])
def test_a_larger_gain_leaves_half_of_the_variance_to_predict(dims: int, gain: float) -> None:
    task = RepresentationAR(dims=dims, gain=gain, first_variance=2.0)
    prompt = task.sample(2000, 31, generator=seeded(8))
    signal = prompt.truth["features"][:, 2:] @ prompt.truth["A"]  # (B, 29, d)
    share = signal.square().mean() / prompt.ys[:, 2:].square().mean()
    assert float(share) == pytest.approx(0.5, abs=0.05)
    scale = task.scale_at(31)
    assert float(1 - 1 / scale[-1]) == pytest.approx(0.5, abs=0.05)
    assert scale[:2].tolist() == [2.0, 2.0]


def test_a_series_without_noise_is_refused() -> None:
    with pytest.raises(ValueError, match="noise"):
        RepresentationAR(dims=2, noise=0)


def test_a_history_too_long_to_be_stable_is_refused() -> None:
    # Histories longer than the look at their growth: every matrix seems to keep its size.
    task = RepresentationAR(dims=3, order=30)
    with pytest.raises(ConfigurationError, match="take a smaller order"):
        task.sample(4, 7, generator=torch.Generator().manual_seed(0))
