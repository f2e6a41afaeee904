"""The hidden states that probes read: of some steps, of the tokens that some prefixes may see.

Shapes: S steps, p prefixes, P prompts, T tokens, D width.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from innerloop.analysis.probe_program import ProbeSettings
from innerloop.analysis.probe_ridge import RidgeSettings
from innerloop.core.chunks import in_parts, rows_within_budget
from innerloop.core.iterate import iterate
from innerloop.core.learner import Learner
from innerloop.core.prompt import Prompt


def without_questions(learner: Learner[Any], prompt: Prompt) -> Prompt:
    """The prompt as its tokens are: without queries, and without the last y if that were seen."""
    if learner.traits.causal:
        return prompt.ask(None)
    ys = prompt.ys.clone()  # (B, n, k)
    ys[:, -1] = 0
    return replace(prompt.ask(None), ys=ys)


def visible_tokens(learner: Learner[Any], prompt: Prompt, prefixes: Sequence[int]) -> Tensor:
    """Which tokens each prefix may see, those up to its x: (p, T) bool."""
    places = learner.hidden_states.input_tokens(prompt)
    last = torch.tensor([places[i] for i in prefixes], device=prompt.xs.device)  # (p,)
    tokens = torch.arange(int(last.max()) + 1, device=prompt.xs.device)  # (T,)
    return tokens <= last[:, None]


@torch.no_grad()
def hidden_states(
    learner: Learner[Any], prompt: Prompt, steps: Sequence[int], tokens: int
) -> Tensor:
    """Hidden states (S, P, T, D) of the first T tokens after each of the steps.

    In float32, or float64 where the learner computes in it.
    """
    rows = rows_within_budget(learner.bytes_per_prompt(prompt))
    kept: Tensor | None = None
    for which, part in in_parts(prompt, rows):
        for step, state in enumerate(iterate(learner, part, steps=max(steps))):
            if step not in steps:
                continue
            features = learner.hidden_states.features(part, state)[:, :tokens]  # (b, T, D)
            if kept is None:
                shape = (len(steps), prompt.batch, *features.shape[1:])
                dtype = torch.promote_types(features.dtype, torch.float32)
                kept = torch.empty(shape, dtype=dtype, device=features.device)
            kept[steps.index(step), which] = features
    assert kept is not None
    return kept


def steps_at_once(
    learner: Learner[Any],
    training: Prompt,
    held_out: Prompt,
    visible: Tensor,
    settings: ProbeSettings | RidgeSettings,
) -> int:
    """How many steps' hidden states, and what their probes hold, fit the budget."""
    one = training.select(slice(0, 1))
    features = learner.hidden_states.features(one, learner.init(one))  # (1, T, D)
    width, (prefixes, tokens) = features.shape[2], visible.shape
    size = torch.promote_types(features.dtype, torch.float32).itemsize
    held = max(training.batch, held_out.batch) * tokens * width * size
    return rows_within_budget(
        held + settings.bytes_per_step(prefixes=prefixes, tokens=tokens, width=width, size=size)
    )
