from collections.abc import Callable

import numpy as np
import pytest
import torch
from pydantic import ValidationError

import innerloop as il
from innerloop.core.errors import FixedPointError, NotSupportedError
from innerloop.core.prompt import Prompt
from innerloop.core.tolerances import PUBLIC_CODE, REFERENCE
from innerloop.learners.newton import Newton

Draw = Callable[..., Prompt]
EPSILON = float(np.finfo(np.float64).eps)


def transcription(prompt: Prompt, steps: int, start: str | float) -> np.ndarray:
    """The weights (K + 1, B, n, d, k) by matrix products, one prompt and prefix at a time."""
    xs, ys = prompt.xs.double().numpy(), prompt.ys.double().numpy()
    weights = np.zeros((steps + 1, *xs.shape, ys.shape[2]))
    for b in range(len(xs)):
        for i in range(1, xs.shape[1]):
            x = xs[b, :i]
            gram, moment = x.T @ x, x.T @ ys[b, :i]
            if start == "frobenius":
                alpha = 1 / np.linalg.norm(gram @ gram.T)
            else:
                alpha = 2 / np.linalg.norm(gram @ gram.T, 2) if start == "paper" else float(start)
            inverse = alpha * gram
            weights[0, b, i] = inverse @ moment
            for k in range(steps):
                inverse = 2 * inverse - inverse @ gram @ inverse
                weights[k + 1, b, i] = inverse @ moment
    return weights


def least_squares(prompt: Prompt, rcond: float | None = None) -> np.ndarray:
    """The minimum-norm weights (B, n, d, k) of each prefix."""
    xs, ys = prompt.xs.double().numpy(), prompt.ys.double().numpy()
    weights = np.zeros((*xs.shape, ys.shape[2]))
    for b in range(len(xs)):
        for i in range(1, xs.shape[1]):
            weights[b, i] = np.linalg.lstsq(xs[b, :i], ys[b, :i], rcond=rcond)[0]
    return weights


def distance(weights: torch.Tensor, expected: np.ndarray) -> float:
    """The largest difference of weights (B, n, d, k), relative to max(1, |w|)."""
    size = np.maximum(1, np.linalg.norm(expected, axis=2, keepdims=True))
    return float(np.nan_to_num(np.abs(weights.numpy() - expected) / size, nan=np.inf).max())


@pytest.mark.parametrize("start", ["frobenius", "paper", 1e-4])
@pytest.mark.parametrize(
    ("points", "dims", "outputs"), [(41, 20, 1), (12, 5, 3), (8, 1, 1), (4, 9, 2)]
)
def test_equals_matrix_products_at_every_step(
    points: int, dims: int, outputs: int, start: str | float, random_prompt: Draw
) -> None:
    prompt = random_prompt(batch=3, points=points, dims=dims, outputs=outputs)
    # From the paper's start rounding doubles at every step: 2^20 eps are 2e-10 of the weights.
    learner = Newton(20, start)  # pyright: ignore[reportArgumentType]
    expected = transcription(prompt, 20, start)  # (K + 1, B, n, d, k)
    for k, state in enumerate(il.iterate(learner, prompt)):
        assert distance(learner.weights_of(state), expected[k]) < REFERENCE, f"step {k}"


def test_the_default_converges_where_the_start_of_the_paper_stalls(random_prompt: Draw) -> None:
    prompt = random_prompt(batch=64, points=41, dims=20)
    expected = torch.from_numpy(least_squares(prompt))[:, 40, :, 0]  # (B, d)

    def errors(learner: Newton) -> list[float]:
        """The mean over prompts of |w - w_ols| / |w_ols| after 40 examples, step by step."""
        found = [learner.weights_of(s)[:, 40, :, 0] for s in il.iterate(learner, prompt)]
        return [float(((w - expected).norm(dim=1) / expected.norm(dim=1)).mean()) for w in found]

    default, paper = errors(Newton(30)), errors(Newton(30, "paper"))
    assert default[30] < REFERENCE
    assert min(paper) > 0.05


@pytest.mark.parametrize("points", [12, 20])
def test_stays_at_least_squares_far_beyond_convergence(points: int, random_prompt: Draw) -> None:
    # Fewer points than dimensions: matrix products lose everything here before step 150.
    prompt = random_prompt(batch=8, points=points, dims=20)
    expected = least_squares(prompt)
    weights = Newton(200).weights(prompt)
    assert distance(weights, expected) < REFERENCE
    with np.errstate(all="ignore"):
        last = transcription(prompt.select(slice(0, 1)), 200, "frobenius")[-1]
    assert distance(torch.from_numpy(last), expected[:1]) > 1


def test_ill_conditioned_prefixes_are_not_given_up(generator: torch.Generator) -> None:
    # Condition numbers of S of 1e8 and 1e10; forming S costs eps times that, and d for its sums.
    for condition in (1e4, 1e5):
        square = torch.randn(6, 20, 20, generator=generator, dtype=torch.float64)
        left, _, right = torch.linalg.svd(square)  # (B, d, d), (B, d, d)
        values = torch.logspace(0, -float(np.log10(condition)), 20, dtype=torch.float64)
        xs = torch.cat([left * values @ right, torch.zeros_like(left[:, :1])], dim=1)  # (B, 21, d)
        w = torch.randn(6, 20, 1, generator=generator, dtype=torch.float64)
        weights = Newton(90).weights(Prompt(xs=xs, ys=xs @ w))[:, 20]  # (B, d, 1)
        error = float(((weights - w).norm(dim=1) / w.norm(dim=1)).max())
        assert error < 20 * EPSILON * condition**2


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("rank", [1, 3])
def test_inputs_in_a_subspace(rank: int, dtype: torch.dtype, generator: torch.Generator) -> None:
    # Rounding of the inputs, or of S, must not pass for a direction, however long it runs.
    inside = torch.randn(6, 30, rank, generator=generator, dtype=torch.float64)
    span = torch.randn(6, rank, 7, generator=generator, dtype=torch.float64)
    ys = torch.randn(6, 30, 1, generator=generator, dtype=torch.float64)
    prompt = Prompt(xs=(inside @ span).to(dtype), ys=ys.to(dtype))
    # The reference leaves out the directions that are within the rounding of the inputs, too.
    expected = least_squares(prompt, rcond=1e-6)
    assert distance(Newton(300).weights(prompt), expected) < REFERENCE


def test_a_direction_within_the_rounding_of_float32_counts_in_float64_only() -> None:
    xs = torch.tensor([[[1.0, 2e-7], [1.0, -2e-7], [1.0, 0.0]]], dtype=torch.float64)
    prompt = Prompt(xs=xs, ys=xs[..., 1:] * 1e7)  # y = 1e7 x_2: 2, -2, 0
    # The condition number of S is 2.5e13, of which forming S costs a part in 1e3.
    assert Newton(200).weights(prompt)[0, 2, 1, 0] == pytest.approx(1e7, rel=1e-2)
    coarse = Newton(200).weights(prompt.to(dtype=torch.float32))[0, 2]  # (d, 1)
    assert float(coarse.abs().max()) < 1e-6


@pytest.mark.parametrize("start", ["frobenius", 1e-4])
def test_is_a_polynomial_in_the_gram_matrix(start: str | float, random_prompt: Draw) -> None:
    prompt = random_prompt(batch=3, points=9, dims=4)
    states = list(il.iterate(Newton(2, start), prompt))  # pyright: ignore[reportArgumentType]
    for i in range(1, 9):
        x = prompt.xs[:, :i]
        s = x.mT @ x  # (B, d, d)
        square = s @ s
        a = 1 / square.norm(dim=(1, 2), keepdim=True) if start == "frobenius" else float(start)
        s3, s5, s7 = s @ square, s @ square @ square, s @ square @ square @ square
        polynomials = (
            a * s,
            2 * a * s - a**2 * s3,
            4 * a * s - 6 * a**2 * s3 + 4 * a**3 * s5 - a**4 * s7,
        )
        for state, polynomial in zip(states, polynomials, strict=True):
            assert torch.allclose(state.matrices()[:, i], polynomial, rtol=0, atol=1e-12)


@pytest.mark.parametrize("start", ["frobenius", "paper", 0.001])
def test_without_inputs_the_weights_are_zero(start: str | float, random_prompt: Draw) -> None:
    prompt = random_prompt(batch=2, points=6, dims=3)
    learner = Newton(10, start)  # pyright: ignore[reportArgumentType]
    assert torch.equal(learner.weights(prompt)[:, 0], torch.zeros(2, 3, 1).double())
    nothing = Prompt(xs=torch.zeros_like(prompt.xs), ys=prompt.ys)
    assert torch.equal(learner.weights(nothing), torch.zeros(2, 6, 3, 1).double())


@pytest.mark.parametrize("scale", [1e-60, 1e60])
def test_the_scale_of_the_inputs_does_not_matter(scale: float, random_prompt: Draw) -> None:
    prompt = random_prompt(batch=3, points=9, dims=4)
    other = Prompt(xs=scale * prompt.xs, ys=prompt.ys)
    for steps in (0, 3, 100):
        expected = Newton(steps).weights(prompt)
        assert distance(scale * Newton(steps).weights(other), expected.numpy()) < REFERENCE


def test_fixed_point_is_least_squares(random_prompt: Draw) -> None:
    prompt = random_prompt(batch=6, points=13, dims=4)
    result = il.run_to_fixed_point(Newton(1), prompt, tolerance=1e-13, max_steps=100)
    assert distance(Newton(1).weights_of(result.state), least_squares(prompt)) < REFERENCE


def test_too_large_a_start_is_reported_as_divergence(random_prompt: Draw) -> None:
    with pytest.raises(FixedPointError, match="2 diverged"):
        il.run_to_fixed_point(Newton(1, 10.0), random_prompt(batch=2, points=8, dims=3))


def test_configuration() -> None:
    assert Newton(3, "1e-4").start == 1e-4  # pyright: ignore[reportArgumentType]
    assert Newton(3).name == "Newton(steps=3)"
    assert Newton(3, "paper").name == "Newton(steps=3, start=paper)"
    for wrong in ("papers", -1.0, 0.0, float("inf")):
        with pytest.raises(ValidationError):
            Newton(3, wrong)  # pyright: ignore[reportArgumentType]


def test_public_code(reference: dict[str, np.ndarray]) -> None:
    prompt = Prompt.from_arrays(reference["xs"], reference["ys"])
    for steps in (0, 3, 8):
        answer = il.predict(Newton(steps), prompt)[..., 0]  # (B, n)
        np.testing.assert_allclose(answer, reference[f"newton_{steps}"], rtol=0, atol=PUBLIC_CODE)


def test_acceleration_is_refused(random_prompt: Draw) -> None:
    """Zero is a fixed point as well: extrapolated iterates end there, not at the inverse."""
    with pytest.raises(NotSupportedError, match="without acceleration"):
        il.run_to_fixed_point(Newton(1), random_prompt(4, 9, 3), acceleration="anderson")
