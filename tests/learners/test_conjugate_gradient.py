from collections.abc import Callable

import numpy as np
import pytest
import torch

import innerloop as il
from innerloop.core.errors import NotSupportedError
from innerloop.core.prompt import Prompt
from innerloop.core.tolerances import REFERENCE
from innerloop.learners.conjugate_gradient import ConjugateGradient

Draw = Callable[..., Prompt]


def textbook(x: np.ndarray, y: np.ndarray, steps: int) -> np.ndarray:
    """CGLS with recurrences, for one prefix and output: (steps + 1, d)."""
    w, residual = np.zeros(x.shape[1]), y.copy()
    gradient = x.T @ residual
    direction = gradient.copy()
    path = [w]
    for _ in range(steps):
        across = x @ direction
        length = gradient @ gradient / (across @ across)
        w = w + length * direction
        residual = residual - length * across
        new = x.T @ residual
        direction = new + (new @ new) / (gradient @ gradient) * direction
        gradient = new
        path.append(w)
    return np.stack(path)


def conditioned(
    condition: float, generator: torch.Generator, batch: int = 8, points: int = 40, dims: int = 20
) -> tuple[Prompt, torch.Tensor]:
    """Prompts whose first `points` inputs have that condition number, and their true weights."""
    square = torch.randn(batch, points, dims, generator=generator, dtype=torch.float64)
    left, _, right = torch.linalg.svd(square, full_matrices=False)  # (B, n, d), (B, d, d)
    values = torch.logspace(0, -float(np.log10(condition)), dims, dtype=torch.float64)
    xs = torch.cat([left * values @ right, torch.zeros_like(left[:, :1])], dim=1)  # (B, n + 1, d)
    w = torch.randn(batch, dims, 1, generator=generator, dtype=torch.float64)
    return Prompt(xs=xs, ys=xs @ w), w


def errors(prompt: Prompt, w: torch.Tensor, steps: int) -> torch.Tensor:
    """|w_k - w| / |w| at the last prefix after `steps` steps: (B,)."""
    found = ConjugateGradient(steps).weights(prompt)[:, -1]  # (B, d, 1)
    return ((found - w).norm(dim=1) / w.norm(dim=1))[:, 0]


@pytest.mark.parametrize("outputs", [1, 3])
def test_equals_the_textbook_at_every_step(outputs: int, random_prompt: Draw) -> None:
    prompt = random_prompt(batch=3, points=14, dims=6, outputs=outputs)
    for k, state in enumerate(il.iterate(ConjugateGradient(5), prompt)):
        for b in range(3):
            for i in range(k + 1, 14):  # A prefix of fewer than k examples has converged before.
                for o in range(outputs):
                    x, y = prompt.xs[b, :i].numpy(), prompt.ys[b, :i, o].numpy()
                    np.testing.assert_allclose(
                        state.weights[b, i, :, o], textbook(x, y, k)[-1], rtol=0, atol=REFERENCE
                    )


def test_each_output_has_a_path_of_its_own(random_prompt: Draw) -> None:
    prompt = random_prompt(batch=3, points=9, dims=5, outputs=3)
    together = ConjugateGradient(3).weights(prompt)  # (B, n, d, k)
    for o in range(3):
        alone = Prompt(xs=prompt.xs, ys=prompt.ys[..., o : o + 1])
        weights = ConjugateGradient(3).weights(alone)[..., 0]  # (B, n, d)
        np.testing.assert_allclose(weights, together[..., o], rtol=0, atol=REFERENCE)


def test_ends_in_d_steps_where_the_condition_number_is_small(generator: torch.Generator) -> None:
    prompt, w = conditioned(3, generator)
    assert float(errors(prompt, w, 20).max()) < REFERENCE


def test_does_not_end_in_d_steps_where_it_is_large(generator: torch.Generator) -> None:
    prompt, w = conditioned(1e4, generator)
    assert float(errors(prompt, w, 20).min()) > REFERENCE
    # More steps get there: to what rounding allows, eps times the square of the condition number.
    assert float(errors(prompt, w, 400).max()) < 1e-16 * 1e4**2


def test_converges_to_the_solution_of_least_norm_and_stays(random_prompt: Draw) -> None:
    prompt = random_prompt(batch=4, points=12, dims=5)
    xs = prompt.xs.clone()
    xs[:, 3] = xs[:, 1]  # A repeated input, and one of zero.
    xs[:, 5] = 0
    prompt = Prompt(xs=xs, ys=prompt.ys)
    states = list(il.iterate(ConjugateGradient(60), prompt))
    for b in range(4):
        for i in range(1, 12):
            x, y = xs[b, :i].numpy(), prompt.ys[b, :i].numpy()
            expected = np.linalg.lstsq(x, y, rcond=None)[0]
            np.testing.assert_allclose(states[60].weights[b, i], expected, rtol=0, atol=REFERENCE)
    assert torch.equal(states[60].weights, states[50].weights)
    assert not bool(states[60].direction.any())


def test_nothing_to_learn(random_prompt: Draw) -> None:
    prompt = random_prompt(batch=2, points=6, dims=3)
    for xs, ys in ((0 * prompt.xs, prompt.ys), (prompt.xs, 0 * prompt.ys)):
        weights = ConjugateGradient(5).weights(Prompt(xs=xs, ys=ys))
        assert torch.equal(weights, torch.zeros(2, 6, 3, 1).double())


def test_fixed_point_without_acceleration_only(random_prompt: Draw) -> None:
    prompt = random_prompt(batch=3, points=9, dims=4)
    result = il.run_to_fixed_point(ConjugateGradient(1), prompt, tolerance=1e-13)
    last = np.stack(
        [
            np.linalg.lstsq(x[:8], y[:8], rcond=None)[0]
            for x, y in zip(prompt.xs, prompt.ys, strict=True)
        ]
    )  # (B, d, 1)
    np.testing.assert_allclose(result.state.weights[:, 8], last, rtol=0, atol=REFERENCE)
    with pytest.raises(NotSupportedError, match="more than their last"):
        il.run_to_fixed_point(ConjugateGradient(1), prompt, acceleration="anderson")


def test_contract_run_to_the_end() -> None:
    reason = "run to its end it is least squares, which is linear in y; cut short it is not"
    il.check_learner(ConjugateGradient(8), waived={"linearity": reason})
