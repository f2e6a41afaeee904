"""Attention patterns: how much each token looks at each, in every head, layer and loop."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from innerloop.analysis.measured import Measured
from innerloop.analysis.places import row_names, rows_at_once, steps_of, token_names
from innerloop.core.chunks import in_parts
from innerloop.core.components import Place
from innerloop.core.edited import run_edited
from innerloop.core.errors import ConfigurationError, NotSupportedError
from innerloop.core.expects import expect_learner, expect_prompt
from innerloop.core.learner import Learner
from innerloop.core.prompt import Prompt


@torch.no_grad()
def attention_patterns(
    learner: Learner[Any],
    prompt: Prompt,
    *,
    at_steps: Sequence[int] | None = None,
    steps: int | None = None,
) -> Measured:
    """The weight of every token in the sum that every token takes: (P, step, head, token, seen).

    Rows of softmax attention add up to 1; those of ReLU and linear attention need not, and linear
    ones may be negative. Heads that some blocks have and others do not are left out of averages.
    """
    expect_learner(learner)
    expect_prompt(prompt)
    total = steps_of(learner, steps)
    everything = learner.components.places("pattern", total)
    if not everything:
        raise NotSupportedError(f"hooks reach no attention pattern of {learner.name}.")
    places = [place for place in everything if at_steps is None or place.step in at_steps]
    if not places:
        raise ConfigurationError(
            f"there is no attention at the steps {list(at_steps or ())}: there is from "
            f"{everything[0].step} to {everything[-1].step}."
        )
    parts: list[Tensor] = []
    for _, part in in_parts(prompt, rows_at_once(learner, prompt, places)):
        seen: dict[Place, Tensor] = {}

        def keep(place: Place, value: Tensor, seen: dict[Place, Tensor] = seen) -> None:
            if place in places:
                seen[place] = value

        run_edited(learner, part, keep, kinds=("pattern",), steps=steps)
        parts.append(_stack([seen[place] for place in places]))
    values = torch.cat(parts)  # (P, S, h, T, T)
    missing = values.isnan()  # (P, S, h, T, T)
    names = token_names(learner, prompt)
    return Measured(
        values=values, axes=("step", "head", "token", "seen"), label=learner.name,
        ticks={"step": row_names(places, total), "token": names, "seen": names},
        counted=~missing if bool(missing.any()) else None,
    )  # fmt: skip


def _stack(patterns: Sequence[Tensor]) -> Tensor:
    """Patterns (P, h, T, T) of several places side by side, missing heads as NaN."""
    first, most = patterns[0], max(one.shape[1] for one in patterns)
    shape = (len(first), len(patterns), most, *first.shape[2:])
    values = first.new_full(shape, torch.nan)  # (P, S, h, T, T)
    for place, one in enumerate(patterns):
        values[:, place, : one.shape[1]] = one
    return values
