"""Anderson acceleration: fewer steps to the same fixed point."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from innerloop.core.fixed_point import run_to_fixed_point
from innerloop.core.prompt import Prompt
from tests.contract.broken import PrefixDescent
from tests.core.test_fixed_point import MIXED, Contraction, Iteration, contractions, starts

SLOW = torch.tensor([0.99, 0.9, -0.7], dtype=torch.float64)
"""The eigenvalues of a linear contraction; the plain iteration goes by the largest."""


def linear(z: Tensor) -> Tensor:
    return SLOW * z + 1  # fixed point 1 / (1 - SLOW)


def cosine(z: Tensor) -> Tensor:
    return torch.cos(z)  # fixed point 0.7390851.., the rate there is 0.67


def test_slow_linear_contraction_ends_when_its_directions_are_known() -> None:
    prompt = starts([0.0, 0.0, 0.0], [5.0, -3.0, 1.0])
    plain = run_to_fixed_point(Iteration(linear), prompt, max_steps=5000)
    fast = run_to_fixed_point(Iteration(linear), prompt, acceleration="anderson")
    assert int(plain.steps.min()) > 1000
    # Three directions are spanned by four steps; the next iterate is exact but for rounding,
    # which is 1 / (1 - 0.99) times larger than the residual that it leaves: some steps mend it.
    assert int(fast.steps.max()) <= 4 + 4
    torch.testing.assert_close(fast.state, (1 / (1 - SLOW)).expand(2, 3), rtol=1e-6, atol=0)


def test_nonlinear_contraction_is_faster() -> None:
    prompt = starts([0.0], [1.0], [3.0])
    plain = run_to_fixed_point(Iteration(cosine), prompt, tolerance=1e-12)
    fast = run_to_fixed_point(Iteration(cosine), prompt, tolerance=1e-12, acceleration="anderson")
    assert bool((fast.steps < plain.steps / 2).all())
    torch.testing.assert_close(fast.state, torch.full_like(fast.state, 0.7390851332151607))


@pytest.mark.parametrize("memory", [1, 2, 5, 20])
def test_the_fixed_point_does_not_depend_on_the_memory(memory: int) -> None:
    prompt = starts([0.0, 2.0], [1.0, 1.0])
    result = run_to_fixed_point(
        Iteration(cosine), prompt, tolerance=1e-12, acceleration="anderson", memory=memory
    )
    torch.testing.assert_close(result.state, torch.full_like(result.state, 0.7390851332151607))


def test_more_memory_than_one_pays_in_several_dimensions() -> None:
    prompt = starts([0.0, 0.0, 0.0])
    short, long = (
        run_to_fixed_point(
            Iteration(linear), prompt, acceleration="anderson", memory=memory, max_steps=5000
        )
        for memory in (1, 3)
    )
    assert int(long.steps) < int(short.steps)


def test_prompts_stop_one_by_one() -> None:
    prompt = contractions(*MIXED)
    result = run_to_fixed_point(Contraction(), prompt, tolerance=1e-9, acceleration="anderson")
    assert len(set(result.steps.tolist())) > 1
    assert bool((result.residuals <= 1e-9).all())
    torch.testing.assert_close(result.state.z, prompt.xs[:, 0, 1:], rtol=1e-6, atol=1e-6)
    assert result.state.count.tolist() == result.steps.tolist()
    for b in range(prompt.batch):
        alone = run_to_fixed_point(
            Contraction(), prompt.select(slice(b, b + 1)), tolerance=1e-9, acceleration="anderson"
        )
        assert int(alone.steps) == int(result.steps[b])
        torch.testing.assert_close(alone.state.z[0], result.state.z[b])


def test_a_prompt_keeps_its_history_when_others_stop() -> None:
    still = (1 / (1 - SLOW)).tolist()
    near = [value + 1e-7 for value in still]
    alone, together = (
        run_to_fixed_point(
            Iteration(linear), starts(*others, [5.0, -3.0, 1.0]), acceleration="anderson"
        )
        for others in ([], [still, near])
    )
    assert bool((together.steps[:-1] < together.steps[-1]).all())
    assert int(together.steps[-1]) == int(alone.steps)
    torch.testing.assert_close(together.state[-1], alone.state[0])


def test_acceleration_starts_with_a_plain_step() -> None:
    prompt = contractions((0.5, 3.0, 4.0))
    plain = run_to_fixed_point(Contraction(), prompt, max_steps=1, throw=False)
    fast = run_to_fixed_point(
        Contraction(), prompt, max_steps=1, throw=False, acceleration="anderson"
    )
    assert torch.equal(plain.state.z, fast.state.z)


def test_the_last_iterate_is_a_step_of_the_learner_not_a_proposal() -> None:
    class Watched(Iteration):
        """Remembers every result of its step."""

        results: list[Tensor] = []  # noqa: RUF012

        def step(self, prompt: Prompt, state: Tensor, k: int) -> Tensor:
            after = super().step(prompt, state, k)
            self.results.append(after.clone())
            return after

    for max_steps in (2, 3, 4):
        result = run_to_fixed_point(
            Watched(linear), starts([0.0, 0.0, 0.0]), max_steps=max_steps, throw=False,
            acceleration="anderson",
        )  # fmt: skip
        assert torch.equal(result.state, Watched.results[-1])


def test_gradient_descent_is_accelerated(random_prompt: Callable[..., Prompt]) -> None:
    prompt = random_prompt(8, 12, 3)
    fast = run_to_fixed_point(PrefixDescent(), prompt, acceleration="anderson")
    plain = run_to_fixed_point(
        PrefixDescent(), prompt, max_steps=int(fast.steps.max()) + 1, throw=False
    )
    assert bool((plain.steps > fast.steps).all())
    least_squares = torch.linalg.lstsq(prompt.xs[:, :-1], prompt.ys[:, :-1]).solution  # (B, d, k)
    # The tolerance of the run, 1e-8, times the condition number of X'X with room.
    torch.testing.assert_close(fast.state.weights[:, -1], least_squares, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("memory", [1, 5])
def test_acceleration_does_not_turn_convergence_into_a_cycle(memory: int) -> None:
    def kinked(z: Tensor) -> Tensor:
        return 0.9 * z.abs() - 1  # a contraction with a kink; its fixed point is -1 / 1.9

    prompt = starts([5.0])
    plain = run_to_fixed_point(Iteration(kinked), prompt)
    fast = run_to_fixed_point(
        Iteration(kinked), prompt, max_steps=1000, acceleration="anderson", memory=memory,
        throw=False,
    )  # fmt: skip
    assert bool(plain.converged.all())
    assert bool(fast.converged.all())


@pytest.mark.parametrize("memory", [1, 5])
def test_what_acceleration_cannot_help_still_converges(
    generator: torch.Generator, memory: int
) -> None:
    """Extrapolation alone cycles among the kinks, for 1 and 10 of these prompts."""
    shift = 0.3 * torch.randn(10, generator=generator, dtype=torch.float64)  # (d,)
    z = 5 * torch.randn(32, 10, generator=generator, dtype=torch.float64)  # (B, d)

    def shrink(z: Tensor) -> Tensor:
        return 0.97 * z.sign() * (z.abs() - 0.1).clamp(min=0) + shift

    plain = run_to_fixed_point(Iteration(shrink), starts(*z.tolist()))
    fast = run_to_fixed_point(
        Iteration(shrink), starts(*z.tolist()), acceleration="anderson", memory=memory
    )
    # A contraction by r ends within r / (1 - r) times its last change from its fixed point.
    allowed = 2 * 0.97 / 0.03 * 1e-8 * plain.state.norm(dim=1).clamp(min=1)  # (B,)
    assert bool(((fast.state - plain.state).norm(dim=1) <= allowed).all())
    assert int(fast.steps.max()) < int(plain.steps.max())


def test_acceleration_does_not_turn_convergence_into_divergence() -> None:
    def kinked(z: Tensor) -> Tensor:
        # Far from its fixed point, 0, it moves by almost equal steps: the secant leaps to -1e7.
        return torch.maximum((1 - 1e-7) * z - 1, 0.5 * z)

    plain = run_to_fixed_point(Iteration(kinked), starts([5.0]))
    fast = run_to_fixed_point(
        Iteration(kinked), starts([5.0]), acceleration="anderson", throw=False
    )
    assert bool(plain.converged.all())
    assert bool(fast.converged.all())
