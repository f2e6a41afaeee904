"""Two learners held against each other, step by step."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest
import torch
from torch import Tensor

from innerloop.analysis import verify
from innerloop.core.chunks import budget
from innerloop.core.errors import ConfigurationError, PromptError
from innerloop.core.learner import Learner, Traits
from innerloop.core.prompt import Prompt
from innerloop.core.tolerances import EXACT_CIRCUIT
from innerloop.learners import OLS, GradientDescent
from innerloop.models import LinearLoopedTransformer

RandomPrompt = Callable[..., Prompt]


@dataclass(frozen=True)
class Counting(Learner[Tensor]):
    """Predicts the number of steps taken, plus what is given for a step, prompt and prefix."""

    steps: int = 3
    size: float = 1.0
    wrong: tuple[tuple[int, float, int, float], ...] = ()
    """(step, first input of the prompt, prefix, what is added)."""
    traits = Traits()

    def init(self, prompt: Prompt) -> Tensor:
        assert not torch.is_grad_enabled()
        return torch.zeros_like(prompt.ys)  # (B, n, k)

    def step(self, prompt: Prompt, state: Tensor, k: int) -> Tensor:
        return state + self.size

    def read(self, prompt: Prompt, state: Tensor) -> Tensor:
        answer = state.clone()  # (B, n, k)
        for step, first, prefix, added in self.wrong:
            # Told by its content, not its place: the prompts may come in parts.
            which = prompt.xs[:, 0, 0] == first  # (B,)
            if float(state.flatten()[0]) == step * self.size:
                answer[which, prefix, -1] += added
        return answer


def test_gradient_descent_and_its_weights_hold(random_prompt: RandomPrompt) -> None:
    prompt = random_prompt(batch=5, points=7, dims=3)
    circuit = LinearLoopedTransformer.gradient_descent(dims=3, loops=6, step_size=0.02)
    found = verify(circuit, GradientDescent(6, step_size=0.02), prompt, tolerance=EXACT_CIRCUIT)
    assert found.holds
    assert [step.step for step in found.steps] == list(range(7))
    assert found.failed is None
    assert str(found).startswith("linear looped transformer is GradientDescent(")


def test_another_step_size_fails_from_the_first_step_on(random_prompt: RandomPrompt) -> None:
    prompt = random_prompt(batch=5, points=7, dims=3)
    circuit = LinearLoopedTransformer.gradient_descent(dims=3, loops=6, step_size=0.02)
    found = verify(circuit, GradientDescent(6, step_size=0.0201), prompt, tolerance=EXACT_CIRCUIT)
    assert not found.holds
    assert found.failed is not None
    assert found.failed.step == 1  # both start at zero
    assert " is not " in str(found)


@pytest.mark.parametrize("rows", [1, 2, 128])
def test_the_worst_error_is_found_where_it_is(random_prompt: RandomPrompt, rows: int) -> None:
    prompt = random_prompt(batch=5, points=4, outputs=2)
    first = [float(value) for value in prompt.xs[:, 0, 0]]
    wrong = ((1, first[3], 2, 1e-3), (1, first[0], 0, 1e-4), (3, first[4], 1, -6e-3))
    with budget(rows * Counting().bytes_per_prompt(prompt)):
        found = verify(Counting(wrong=wrong), Counting(), prompt, tolerance=1e-2)
    places = [(step.prompt, step.prefix) for step in found.steps]
    assert places[1] == (3, 2)
    assert places[3] == (4, 1)
    # After three steps the answer is 3: errors are parts of it. After one it is 1.
    errors = [step.error for step in found.steps]
    assert errors == pytest.approx([0.0, 1e-3, 0.0, 2e-3])
    assert found.worst.step == 3
    assert found.holds


def test_tolerances_go_by_the_step(random_prompt: RandomPrompt) -> None:
    prompt = random_prompt()
    first = float(prompt.xs[0, 0, 0])
    circuit = Counting(wrong=((1, first, 0, 1e-3), (2, first, 0, 1e-3), (3, first, 0, 1e-3)))
    found = verify(circuit, Counting(), prompt, tolerance=lambda step: 1e-3 if step != 1 else 1e-4)
    assert [step.holds for step in found.steps] == [True, False, True, True]
    assert found.failed is found.steps[1]
    assert "first 0.001 > 0.0001 after step 1, at prefix 0 of prompt 0" in str(found)
    table = found.table()
    assert list(table["holds"]) == [True, False, True, True]
    assert list(table["tolerance"]) == [1e-3, 1e-4, 1e-3, 1e-3]


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_what_is_no_number_is_infinitely_wrong(random_prompt: RandomPrompt, bad: float) -> None:
    prompt = random_prompt()
    circuit = Counting(wrong=((2, float(prompt.xs[1, 0, 0]), 3, bad),))
    for one, other in ((circuit, Counting()), (Counting(), circuit), (circuit, circuit)):
        found = verify(one, other, prompt, tolerance=1e300)
        assert not found.holds
        assert found.worst.error == float("inf")
        assert (found.worst.step, found.worst.prompt, found.worst.prefix) == (2, 1, 3)


def test_positions_that_are_not_scored_do_not_count(random_prompt: RandomPrompt) -> None:
    prompt = random_prompt(points=4)
    scored = torch.ones(3, 4, dtype=torch.bool)
    scored[:, 2] = False
    circuit = Counting(wrong=((1, float(prompt.xs[0, 0, 0]), 2, 1.0),))
    assert not verify(circuit, Counting(), prompt, tolerance=0.0).holds
    assert verify(circuit, Counting(), replace(prompt, scored=scored), tolerance=0.0).holds
    with pytest.raises(PromptError, match="nothing to compare"):
        verify(circuit, Counting(), replace(prompt, scored=scored & False), tolerance=0.0)


def test_queries_are_compared_too(random_prompt: RandomPrompt) -> None:
    prompt = random_prompt(batch=2, points=5, dims=3, queries=4)
    circuit = LinearLoopedTransformer.gradient_descent(dims=3, loops=4, step_size=0.02)
    for size, holds in ((0.02, True), (0.03, False)):
        found = verify(circuit, GradientDescent(4, step_size=size), prompt, tolerance=EXACT_CIRCUIT)
        assert found.holds is holds


def test_different_numbers_of_steps_are_refused_unless_told(random_prompt: RandomPrompt) -> None:
    prompt = random_prompt()
    with pytest.raises(ConfigurationError, match="Counting takes 3 steps and OLS 0"):
        verify(Counting(), OLS(), prompt, tolerance=1.0)
    assert len(verify(Counting(), Counting(5), prompt, tolerance=0.0, steps=4).steps) == 5
    with pytest.raises(ConfigurationError, match="steps is -1"):
        verify(Counting(), Counting(), prompt, tolerance=0.0, steps=-1)


@pytest.mark.parametrize("tolerance", [-1.0, float("nan")])
def test_a_tolerance_below_zero_is_refused(random_prompt: RandomPrompt, tolerance: float) -> None:
    with pytest.raises(ConfigurationError, match="expected a number of at least 0"):
        verify(Counting(), Counting(), random_prompt(), tolerance=tolerance)
