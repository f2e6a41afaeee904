"""Patching, ablation and attribution on circuits, where the algorithm says what must come out.

Each test runs the algorithm by hand, with the quantity replaced that the circuit holds in the
place that was patched or ablated.
"""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from innerloop.analysis import (
    ablate,
    attention_patterns,
    direct_attribution,
    draw_attention,
    patch,
)
from innerloop.circuits.circuit import TransformerCircuit
from innerloop.circuits.linear_attention import LinearAttention
from innerloop.circuits.linear_looped import LinearLooped
from innerloop.circuits.newton_relu import NewtonRelu
from innerloop.core.errors import ConfigurationError
from innerloop.core.prompt import Prompt
from innerloop.tasks.linear import LinearRegression

AGREES = 1e-8
DIMS, POINTS, STEPS, PROMPTS = 3, 6, 4, 5
TASK = LinearRegression(dims=DIMS, dtype="float64")
ALPHA, RATE = 1e-3, 0.03

Change = Callable[[int, Tensor], Tensor]
"""What a step's result becomes: a function of the number of the step and of the result."""


def pair() -> tuple[Prompt, Prompt]:
    draw = torch.Generator().manual_seed(5)
    clean, corrupted = (TASK.sample(PROMPTS, POINTS, generator=draw) for _ in range(2))
    return clean, corrupted


def examples(prompt: Prompt) -> tuple[Tensor, Tensor, Tensor]:
    """Inputs (P, m, d) and outputs (P, m, 1) of the examples, and the question (P, 1, d)."""
    return prompt.xs[:, :-1], prompt.ys[:, :-1], prompt.xs[:, -1:]


def newton(prompt: Prompt, change: Change | None = None) -> tuple[list[Tensor], Tensor]:
    """What examples hold, M x_j (P, m, d), after each step, and the answers (P,)."""
    xs, ys, asked = examples(prompt)
    moved = ALPHA * (xs @ xs.mT) @ xs  # (P, m, d)
    path: list[Tensor] = []
    for k in range(STEPS):
        moved = 2 * moved - (moved @ xs.mT) @ moved
        moved = moved if change is None else change(k, moved)
        path.append(moved)
    return path, ((asked @ moved.mT) @ ys)[:, 0, 0]


def descent(
    prompt: Prompt, change: Change | None = None, rates: Tensor | None = None
) -> tuple[list[Tensor], Tensor]:
    """Weights (P, d, 1) after each step, and the answers (P,); `rates` are those of the steps."""
    xs, ys, asked = examples(prompt)
    weights = torch.zeros(PROMPTS, DIMS, 1, dtype=torch.float64)
    path: list[Tensor] = []
    for k in range(STEPS):
        rate = RATE if rates is None else float(rates[k])
        weights = weights - rate * xs.mT @ (xs @ weights - ys)
        weights = weights if change is None else change(k, weights)
        path.append(weights)
    return path, (asked @ weights)[:, 0, 0]


def newton_circuit() -> TransformerCircuit:
    circuit = NewtonRelu(dims=DIMS, points=POINTS, steps=STEPS, start=ALPHA).build()
    assert isinstance(circuit, TransformerCircuit)
    return circuit


def linear_circuit() -> TransformerCircuit:
    settings = LinearAttention(dims=DIMS, points=POINTS, steps=STEPS, step_size=RATE)
    circuit = settings.build()
    assert isinstance(circuit, TransformerCircuit)
    return circuit


def squared(answers: Tensor, prompt: Prompt) -> Tensor:
    """Errors (P,) over E[y^2]."""
    return (answers - prompt.ys[:, -1, 0]).square() / float(TASK.scale_at(POINTS)[-1])


def assert_close(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, atol=AGREES, rtol=AGREES)


def test_newton_with_one_example_of_another_prompt_in_the_slot_of_m_x() -> None:
    circuit, (clean, corrupted) = newton_circuit(), pair()
    found = patch(
        circuit, clean, corrupted, component="residual", at_steps=range(STEPS),
        numbers=circuit.slot_numbers("M x"),
    )  # fmt: skip
    path, whole = newton(clean)
    unchanged = newton(corrupted)[1]
    assert_close(found.clean[:, 0], whole)
    assert_close(found.corrupted[:, 0], unchanged)
    for step in range(STEPS):
        for token in range(2 * POINTS - 1):
            example, is_output = divmod(token, 2)

            def replaced(k: int, moved: Tensor, step: int = step, j: int = example) -> Tensor:
                if k != step:
                    return moved
                return torch.cat([moved[:, :j], path[k][:, j : j + 1], moved[:, j + 1 :]], dim=1)

            expected = newton(corrupted, replaced)[1] if is_output else unchanged
            assert_close(found.predictions[:, step, token, 0], expected)
            # A patch that changes nothing at an example would pass the comparison with itself.
            assert not is_output or (expected - unchanged).abs().max() > 1e-6
    assert list(found.restored.ticks["token"]) == [f"{'xy'[t % 2]}{t // 2}" for t in range(11)]


def test_newton_with_the_product_of_another_prompt() -> None:
    """The heads of a step hold - M S M x_j: patched, the step is 2 M x of one, M S M x of other."""
    circuit, (clean, corrupted) = newton_circuit(), pair()
    found = patch(circuit, clean, corrupted, component="attention", at_steps=range(STEPS))
    inputs, _, _ = examples(clean)
    start = ALPHA * (inputs @ inputs.mT) @ inputs  # (P, m, d)
    before = [start, *newton(clean)[0]]  # before each step
    for step in range(STEPS):
        other = (before[step] @ inputs.mT) @ before[step]  # (P, m, d): M S M x of the clean prompt
        moved = _newton_with(corrupted, step, other)
        assert_close(found.predictions[:, step, 0], moved)


def test_newton_without_the_heads_of_a_step_doubles_m_there_and_nothing_else() -> None:
    circuit, (prompt, _) = newton_circuit(), pair()
    found = ablate(
        circuit, prompt, TASK, component="attention", kind="zero", at_steps=range(STEPS)
    )  # fmt: skip
    assert_close(found.intact.values, squared(newton(prompt)[1], prompt))
    for step in range(STEPS):
        doubled = _newton_with(prompt, step, None)
        assert_close(found.errors.values[:, step], squared(doubled, prompt))
    assert found.change.values.abs().amax(dim=0).min() > 1e-6


def _newton_with(prompt: Prompt, step: int, product: Tensor | None) -> Tensor:
    """Newton's answers (P,), with M S M x_j (P, m, d) at one step replaced, or left out."""
    xs, ys, asked = examples(prompt)
    moved = ALPHA * (xs @ xs.mT) @ xs  # (P, m, d)
    for k in range(STEPS):
        own = (moved @ xs.mT) @ moved  # (P, m, d)
        other = torch.zeros_like(own) if product is None else product
        moved = 2 * moved - (other if k == step else own)
    return ((asked @ moved.mT) @ ys)[:, 0, 0]


def test_gradient_descent_with_what_an_example_of_another_prompt_leaves() -> None:
    """Tokens hold r_j = y_j - w . x_j, the asked one -w . x: each is replaced in turn."""
    circuit, (clean, corrupted) = linear_circuit(), pair()
    found = patch(
        circuit, clean, corrupted, component="residual", at_steps=range(STEPS),
        numbers=circuit.slot_numbers("residual"), tokens=[1, 3, 10],
    )  # fmt: skip
    for step in range(STEPS):
        for place, row in enumerate((0, 1, POINTS - 1)):
            expected = _residuals(corrupted, step, row, _residuals(clean, step, None, None))
            assert_close(found.predictions[:, step, place, 0], -expected[:, -1])
    assert list(found.restored.ticks["token"]) == ["y0", "y1", "x5"]


def _residuals(prompt: Prompt, step: int, row: int | None, other: Tensor | None) -> Tensor:
    """r (P, n) of all examples and the question, one row replaced after a step.

    Without a row: those after the step itself.
    """
    xs = prompt.xs  # (P, n, d)
    left = torch.cat([prompt.ys[:, :-1], torch.zeros_like(prompt.ys[:, :1])], dim=1)  # (P, n, 1)
    kernel = xs @ xs[:, :-1].mT  # (P, n, m): only examples are looked at
    for k in range(STEPS):
        left = left - RATE * kernel @ left[:, :-1]
        if k == step and (row is None or other is None):
            return left[..., 0]
        if k == step and row is not None and other is not None:
            left = left.clone()
            left[:, row, 0] = other[:, row]
    return left[..., 0]


def test_gradient_descent_without_the_head_of_a_step_is_without_this_step() -> None:
    circuit, (prompt, _) = linear_circuit(), pair()
    one = ablate(circuit, prompt, TASK, kind="zero", at_steps=range(STEPS))
    onward = ablate(circuit, prompt, TASK, kind="zero", at_steps=range(STEPS), span="onward")
    for step in range(STEPS):
        rates = torch.full((STEPS,), RATE, dtype=torch.float64)
        rates[step] = 0.0
        assert_close(
            one.errors.values[:, step, 0], squared(descent(prompt, rates=rates)[1], prompt)
        )
        rates[step:] = 0.0
        stopped = squared(descent(prompt, rates=rates)[1], prompt)
        assert_close(onward.errors.values[:, step, 0], stopped)


def test_the_direct_parts_of_gradient_descent_are_its_steps() -> None:
    circuit, (prompt, _) = linear_circuit(), pair()
    found = direct_attribution(circuit, prompt)
    path, answers = descent(prompt)
    before = [torch.zeros_like(path[0]), *path]
    asked = prompt.xs[:, -1:]  # (P, 1, d)
    heads = found.parts["head"]
    assert list(heads.ticks["step"]) == ["pre.0", "0", "1", "2", "3"]
    assert_close(heads.values[:, 0, 0], torch.zeros(PROMPTS, dtype=torch.float64))
    for k in range(STEPS):
        moved = (asked @ (path[k] - before[k]))[:, 0, 0]  # (P,): x . (w_{k+1} - w_k)
        assert_close(heads.values[:, k + 1, 0], moved)
    assert_close(found.predictions, answers)
    assert_close(found.parts["rest"].values, torch.zeros(PROMPTS, dtype=torch.float64))
    total = sum(float(share.values.mean(dim=0).sum()) for share in found.shares.values())
    assert total == pytest.approx(1.0, abs=AGREES)


def test_the_pattern_of_gradient_descent_is_the_kernel_of_the_inputs() -> None:
    circuit, (prompt, _) = linear_circuit(), pair()
    found = attention_patterns(circuit, prompt, at_steps=[0, 2])
    kernel = -RATE * prompt.xs @ prompt.xs[:, :-1].mT  # (P, n, m)
    for step in range(2):
        asked = found.values[:, step, 0, -1]  # (P, T)
        assert_close(asked[:, 1::2], kernel[:, -1])
        assert_close(asked[:, ::2], torch.zeros_like(asked[:, ::2]))


def test_the_row_that_holds_x_y_moves_the_answer_as_gradient_descent_says() -> None:
    """After one step from 0, the last row holds q = - step_size X'y and alpha = 1."""
    circuit = LinearLooped(dims=DIMS, points=POINTS, steps=STEPS, step_size=RATE).build()
    clean, corrupted = pair()
    found = patch(circuit, clean, corrupted, component="residual")
    path = descent(clean)[0]
    xs, ys, _ = examples(clean)
    assert_close(path[0], RATE * xs.mT @ ys)
    unchanged = descent(corrupted)[1]
    for step in range(STEPS):
        replaced: Change = lambda k, own, step=step: path[k] if k == step else own  # noqa: E731
        expected = descent(corrupted, replaced)[1]
        assert_close(found.predictions[:, step, -1, 0], expected)
        # The rows of other prefixes do not enter this answer.
        assert_close(found.predictions[:, step, 0, 0], unchanged)
        assert (expected - unchanged).abs().max() > 1e-3


def test_the_head_of_the_linear_looped_circuit_is_its_step() -> None:
    circuit = LinearLooped(dims=DIMS, points=POINTS, steps=STEPS, step_size=RATE).build()
    prompt, _ = pair()
    found = ablate(circuit, prompt, TASK, kind="zero")
    fewer = torch.tensor([RATE, RATE, RATE, 0.0], dtype=torch.float64)
    expected = squared(descent(prompt, rates=fewer)[1], prompt)
    for step in range(STEPS):  # all steps are the same map: it does not matter which is left out
        assert_close(found.errors.values[:, step, 0], expected)


def test_a_slot_that_is_not_there_is_refused_by_name() -> None:
    with pytest.raises(ConfigurationError, match="'M y'"):
        newton_circuit().slot_numbers("M y")


def test_a_head_that_a_layer_does_not_have_leaves_its_panel_empty() -> None:
    circuit = NewtonRelu(dims=DIMS, points=POINTS, steps=1).build()  # one head pairs, two step
    figure = draw_attention(attention_patterns(circuit, pair()[0]), rows=[0, 2])
    assert [panel.axison for panel in figure.axes] == [True, False, True, True]
