"""The loss of a looped model: over its last T loops, the earlier ones run without gradient."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from innerloop.core.iterate import iterate
from innerloop.core.prompt import Prompt
from innerloop.models import kernels
from innerloop.models.model import AnyModel, Head

BALANCE_FLOOR = 1e-6
"""The loss of a position, over the task's scale, below which it gets no more weight."""


def window_outputs(
    model: AnyModel,
    prompt: Prompt,
    *,
    loops: int | None = None,
    window: int | None = None,
    use_kernels: bool = True,
) -> Tensor:
    """What a model gives after each of its last T loops: (T, B, n, k).

    Of tokens, at the positions that count alone: (T, questions, k). A vocabulary is large, and
    what it gives elsewhere would be computed for nothing.


    The state is cut off from its past where the window begins; what is injected at every loop is
    not, so that the embedding learns. A model that does not loop gives its last step only: (1, B,
    n, k), and all its steps have gradients. `use_kernels` allows fused kernels where they are
    quicker: the same numbers, to rounding.
    """
    total = model.steps if loops is None else loops
    last = total if window is None else min(window, total)
    if use_kernels and kernels.supports(model, prompt):
        return kernels.window_outputs(model, prompt, loops=total, window=last)  # (T, B, n, k)
    states = iterate(model, prompt, steps=total)
    if not model.looped:
        *_, state = states
        return _read(model, prompt, state)[None]  # (1, B, n, k)
    before, graded = total - last, torch.is_grad_enabled()
    state = next(states)
    outputs: list[Tensor] = []
    for loop in range(total):
        # The generator runs in the mode of whoever asks it for the next state.
        with torch.set_grad_enabled(graded and loop >= before):
            state = next(states)
        if loop >= before:
            outputs.append(_read(model, prompt, state))  # (B, n, k)
    return torch.stack(outputs)


def _read(model: AnyModel, prompt: Prompt, state: Any) -> Tensor:
    """The outputs (B, n, k), or those that count (questions, k)."""
    if counts_alone(model.head, prompt):
        return model.scored_outputs(prompt, state)
    return model.outputs(prompt, state)


def counts_alone(head: Head, prompt: Prompt) -> bool:
    """Whether outputs are those of the positions that count, and no others."""
    return head == "tokens" and prompt.scored is not None and prompt.queries is None


def window_loss(
    outputs: Tensor,
    prompt: Prompt,
    scale: Tensor,
    head: Head,
    *,
    smoothing: float = 0.0,
    balance: bool = False,
) -> Tensor:
    """The loss of outputs (T, B, n[, q], k), averaged over window, questions and outputs: ().

    Of tokens, outputs may be those that count, (T, questions, k).

    Questions are the scored positions, or all queries where there are some. Regression: squared
    error over the scale (n,) of each position. Gaussian: the negative log-likelihood, times the
    deviation, which has no gradient (Seitzer et al. 2022): without it a few answers that are too
    sure outweigh all others. Binary labels -1 and 1: the logistic loss. Classes, one-hot, and
    tokens: the cross entropy.

    With `balance` the loss is the same number, and its gradient that of the mean of log(loss) over
    loops and positions: each counts by the inverse of its own loss.
    """
    by_loop = position_losses(outputs, prompt, scale, head, smoothing=smoothing)
    counted = prompt.scored if prompt.queries is None else None  # (B, n)
    loss = _mean(by_loop.mean(dim=0), counted)  # ()
    if not balance:
        return loss
    weights = balancing_weights(by_loop.detach(), counted)[:, None]  # (T, 1, n)
    balanced = _mean((weights * by_loop).mean(dim=0), counted)  # ()
    return loss.detach() + balanced - balanced.detach()


def _mean(losses: Tensor, counted: Tensor | None) -> Tensor:
    """The mean of losses (B, n), of which some are `counted`, or all; of (questions,): ()."""
    if losses.ndim == 1 or counted is None:
        return losses.mean()
    return (losses * counted).sum() / counted.sum()


def balancing_weights(losses: Tensor, counted: Tensor | None) -> Tensor:
    """The inverses (T, n) of mean losses (T, B, n), of which some are `counted` (B, n), or all.

    Early positions have few examples: their losses stay large whatever is learned, and what they
    add to a gradient is mostly noise. Where the noise of some measurements is known, each counts
    by the inverse of its variance; the loss of a position is that variance, once all that can be
    learned has been.
    """
    number = losses.new_full((losses.shape[2],), losses.shape[1])  # (n,)
    if counted is not None:
        losses, number = losses * counted, counted.sum(0).to(losses)  # (T, B, n), (n,)
    means = losses.sum(dim=1) / number.clamp(min=1)  # (T, n)
    return 1 / means.clamp(min=BALANCE_FLOOR)


def targets(prompt: Prompt) -> Tensor:
    """The right answers: ys (B, n, k), or those of the queries (B, n or 1, q, k)."""
    return prompt.ys if prompt.queries is None else prompt.truth["query_ys"]


def _targets_of(outputs: Tensor, prompt: Prompt) -> Tensor:
    """The right answers to outputs (T, B, n[, q], k); to those that count, (questions, k)."""
    return prompt.ys[prompt.scored] if outputs.ndim == 3 else targets(prompt)


def position_losses(
    outputs: Tensor, prompt: Prompt, scale: Tensor, head: Head, *, smoothing: float = 0.0
) -> Tensor:
    """The loss at each position, averaged over outputs and queries: (T, B, n)."""
    losses = _losses(outputs, _targets_of(outputs, prompt), head, smoothing)  # (T, B, n[, q])
    if prompt.queries is not None:
        losses = losses.mean(dim=-1)  # (T, B, n or 1)
    return losses / scale[-losses.shape[-1] :].to(losses) if head == "regression" else losses


def _losses(outputs: Tensor, ys: Tensor, head: Head, smoothing: float) -> Tensor:
    """The loss of each answer (T, .., k), averaged over outputs: (T, ..)."""
    if head == "tokens":
        wanted = ys[..., 0].long().expand(outputs.shape[:-1])  # (T, ..)
        flat = functional.cross_entropy(
            outputs.flatten(0, -2), wanted.flatten(), reduction="none", label_smoothing=smoothing
        )  # (T ..,)
        return flat.view(wanted.shape)
    outputs = outputs.to(ys.dtype)  # (T, .., k)
    if head == "gaussian":
        means, logs = outputs.chunk(2, dim=-1)  # (T, .., k) each
        likelihood = 0.5 * ((means - ys).square() * (-logs).exp() + logs)  # (T, .., k)
        return ((0.5 * logs.detach()).exp() * likelihood).mean(dim=-1)
    if head == "binary":
        return functional.softplus(-ys * outputs).mean(dim=-1)
    if head == "classes":
        return -(ys * outputs.log_softmax(dim=-1)).sum(dim=-1)
    return (outputs - ys).square().mean(dim=-1)
