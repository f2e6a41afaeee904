"""What the checks of the contract share: questions, changed prompts, and comparisons."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from innerloop.core.errors import ContractViolation
from innerloop.core.iterate import iterate
from innerloop.core.learner import Learner
from innerloop.core.named_prompts import TOKENS, Setting
from innerloop.core.prompt import Prompt

AnyLearner = Learner[Any]


def queries(prompt: Prompt, setting: Setting) -> Tensor:
    """Two random queries at each point: (B, n, 2, d)."""
    shape = (prompt.batch, prompt.points, 2, prompt.dims)
    return setting.inputs(setting.generator(purpose=1), *shape).to(prompt.xs.dtype)  # (B, n, 2, d)


def changed_from(prompt: Prompt, i: int, setting: Setting) -> Prompt:
    """The prompt with y_i and all points after i changed beyond recognition."""
    generator = setting.generator(purpose=5)
    xs, ys = prompt.xs.clone(), prompt.ys.clone()
    if prompt.layout == "tokens":
        ys[:, i:] = TOKENS - ys[:, i:]
        xs[:, i + 1 :] = setting.inputs(generator, *xs[:, i + 1 :].shape).to(xs)
        return replace(prompt, xs=xs, ys=ys, truth={})
    ys[:, i:] = 5 * setting.normal(generator, *ys[:, i:].shape) - 3 * ys[:, i:]
    if prompt.layout == "stream":
        xs[:, i + 1 :] = ys[:, i:-1]
    else:
        xs[:, i + 1 :] = 5 * setting.normal(generator, *xs[:, i + 1 :].shape) - 3 * xs[:, i + 1 :]
    return replace(prompt, xs=xs, ys=ys, truth={})


def first_question(prompt: Prompt, learner: AnyLearner) -> Prompt:
    """The prompt as the learner's own functions take it; one that is not causal must not peek."""
    if learner.traits.causal:
        return prompt
    ys = prompt.ys.clone()
    ys[:, -1] = 0
    return replace(prompt, ys=ys)


def raw(learner: AnyLearner, prompt: Prompt) -> Tensor:
    """Predictions straight from init, step and read, without expanded prefixes."""
    *_, state = iterate(learner, prompt)
    return learner.read(prompt, state)


def distance(one: Tensor, other: Tensor) -> float:
    """The largest difference over max(1, the largest value); infinite where values are NaN."""
    difference = (one.detach() - other.detach()).abs().max()
    relative = difference / other.detach().abs().max().clamp(min=1)
    return float(torch.nan_to_num(relative, nan=torch.inf))


def same(one: Tensor, other: Tensor, setting: Setting, learner: AnyLearner, complaint: str) -> None:
    """Raise the complaint where two answers differ by more than is allowed."""
    far = distance(one, other)
    if far > setting.allowed:
        raise ContractViolation(
            f"{learner.name} {complaint}: predictions differ by {far:.1e}, "
            f"allowed {setting.allowed:.0e}."
        )
