"""The loss of a looped model: over its last T loops, the earlier ones run without gradient."""

import torch
from torch import Tensor
from torch.nn import functional

from innerloop.core.iterate import iterate
from innerloop.core.prompt import Prompt
from innerloop.models import kernels
from innerloop.models.model import AnyModel, Head


def window_outputs(
    model: AnyModel,
    prompt: Prompt,
    *,
    loops: int | None = None,
    window: int | None = None,
    use_kernels: bool = True,
) -> Tensor:
    """What a model gives after each of its last T loops: (T, B, n, k).

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
        return model.outputs(prompt, state)[None]  # (1, B, n, k)
    before, graded = total - last, torch.is_grad_enabled()
    state = next(states)
    outputs: list[Tensor] = []
    for loop in range(total):
        # The generator runs in the mode of whoever asks it for the next state.
        with torch.set_grad_enabled(graded and loop >= before):
            state = next(states)
        if loop >= before:
            outputs.append(model.outputs(prompt, state))  # (B, n, k)
    return torch.stack(outputs)


def window_loss(outputs: Tensor, prompt: Prompt, scale: Tensor, head: Head) -> Tensor:
    """The loss of outputs (T, B, n, k), averaged over window, scored positions and outputs: ().

    Regression: squared error over the scale (n,) of each position. Binary labels -1 and 1: the
    logistic loss. Classes, one-hot: the cross entropy.
    """
    losses = position_losses(outputs, prompt, scale, head).mean(dim=0)  # (B, n)
    if prompt.scored is None:
        return losses.mean()
    return (losses * prompt.scored).sum() / prompt.scored.sum()


def position_losses(outputs: Tensor, prompt: Prompt, scale: Tensor, head: Head) -> Tensor:
    """The loss at each position, averaged over outputs: (T, B, n)."""
    ys = prompt.ys  # (B, n, k)
    outputs = outputs.to(ys.dtype)  # (T, B, n, k)
    if head == "binary":
        return functional.softplus(-ys * outputs).mean(dim=-1)
    if head == "classes":
        return -(ys * outputs.log_softmax(dim=-1)).sum(dim=-1)
    return (outputs - ys).square().mean(dim=-1) / scale.to(ys)
