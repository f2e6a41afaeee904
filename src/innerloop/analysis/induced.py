"""Induced weights: the linear function that fits a learner's answers best, at every prefix.

Fu et al. (2023, eq. 12), Akyurek et al. (2022, eq. 14). Their code asks one prefix and one query at
a time; here all queries of all prefixes are one pass, and since all prefixes are asked the same
queries, one pseudo-inverse serves all of them.

Shapes: P prompts, n points, q queries, d dimensions, k outputs, K steps.
"""

from typing import Any

import torch
from torch import Tensor

from innerloop.analysis.intervals import seeded
from innerloop.core.arguments import expect_count
from innerloop.core.chunks import in_parts, rows_within_budget
from innerloop.core.errors import ConfigurationError, PromptError
from innerloop.core.expects import expect_learner, expect_prompt
from innerloop.core.iterate import answers_by_step, predict
from innerloop.core.learner import Learner
from innerloop.core.overflow import overflow_allowed
from innerloop.core.prompt import Prompt


@overflow_allowed()
def induced_weights(
    learner: Learner[Any],
    prompt: Prompt,
    *,
    queries: int | Tensor = 100,
    steps: int | None = None,
    every_step: bool = False,
    seed: int = 0,
) -> Tensor:
    """Weights (P, n, d, k) in float64 that fit the learner's answers to many queries.

    Queries are a number of standard normal ones, or a tensor (q, d), the same for all prompts and
    prefixes, or a tensor (P, q, d), each prompt's own: on ill-conditioned inputs, queries with
    another covariance would be unlike all that a model has seen.
    With `every_step` the weights after each step: (K + 1, P, n, d, k). For a linear learner they
    are its own weights; for others they describe it best among linear functions.
    """
    expect_learner(learner)
    expect_prompt(prompt)
    # In the prompt's type: the weights must fit what is asked, not what that was rounded from.
    asked = _queries(prompt, queries, seed).to(prompt.xs)  # (q, d) or (P, q, d)
    inverse = torch.linalg.pinv(asked.double())  # (d, q) or (P, d, q)
    parts: list[Tensor] = []
    rows = rows_within_budget(bytes_asked(learner, prompt, asked.shape[-2]))
    for which, part in in_parts(prompt, rows):
        own, inverted = asked, inverse  # (q, d), (d, q)
        if asked.ndim == 3:
            own, inverted = asked[which, None], inverse[which, None]  # (b, 1, q, d), (b, 1, d, q)
        some = part.ask(own.expand(part.batch, part.points, -1, -1))  # (b, n, q, d)
        with torch.no_grad():
            if every_step:
                # Fitted as they come: the answers after all steps would not fit into memory.
                answers = answers_by_step(learner, some, steps)
                parts.append(torch.stack([inverted @ each.double() for each in answers]))
            else:
                parts.append(inverted @ predict(learner, some, steps=steps).double())
    return torch.cat(parts, dim=1 if every_step else 0)  # ([K + 1,] P, n, d, k)


def bytes_asked(learner: Learner[Any], prompt: Prompt, queries: int) -> int:
    """About how much memory one prompt takes with so many queries per point."""
    # A query costs a learner about half of what a point of the prompt does.
    return learner.bytes_per_prompt(prompt) * queries // 2


def _queries(prompt: Prompt, queries: int | Tensor, seed: int) -> Tensor:
    """What is asked: (q, d), or (P, q, d)."""
    if prompt.layout != "pairs":
        raise PromptError(
            "induced weights need prompts of pairs: in a stream no other x can be asked."
        )
    asked = queries  # (q, d) or (P, q, d)
    if not isinstance(asked, Tensor):
        expect_count("queries", asked, least=None)
        shape = (max(0, asked), prompt.dims)
        asked = torch.randn(shape, dtype=torch.float64, generator=seeded(seed))  # (q, d)
    own = (prompt.batch,) if asked.ndim == 3 else ()
    number = asked.shape[-2] if asked.ndim > 1 else 0
    if asked.shape != (*own, number, prompt.dims) or number < prompt.dims:
        raise ConfigurationError(
            f"queries have shape {tuple(asked.shape)}, expected at least {prompt.dims} of "
            f"{prompt.dims} dimensions, for all prompts or for each of {prompt.batch}: fewer do "
            "not determine the weights."
        )
    return asked
