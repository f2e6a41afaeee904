"""Forgetting: how well a learner answers its own examples, by how long ago it has seen them.

Fu et al. (2023, appendix A.4, eq. 16): after n examples the learner is asked about x_i again. Their
code makes a prompt of every example that is asked again; here all of them are queries of one pass.

Shapes: P prompts, n examples, d dimensions, k outputs.
"""

from typing import Any

import torch
from torch import Tensor

from innerloop.analysis.induced import bytes_asked
from innerloop.analysis.measured import Measured
from innerloop.core.chunks import map_prompts, rows_within_budget
from innerloop.core.errors import PromptError
from innerloop.core.expects import expect_learner, expect_prompt, expect_task
from innerloop.core.iterate import predict
from innerloop.core.learner import Learner
from innerloop.core.overflow import overflow_allowed
from innerloop.core.prompt import Prompt
from innerloop.core.task import Task


def forgetting(
    learner: Learner[Any],
    prompt: Prompt,
    task: Task | None = None,
    *,
    steps: int | None = None,
    label: str | None = None,
) -> Measured:
    """Squared error on each example, asked again after all of them, over E[y^2]: axis "gap".

    The gap is how many examples came after it, the papers' time stamp gap: 0 for the newest. All
    points of the prompt are examples. E[y^2] is the scale of the task that has drawn them, or
    their own mean square without a task. Examples that the prompt does not score do not count.
    """
    expect_learner(learner)
    expect_prompt(prompt)
    if task is not None:
        expect_task(task)
    if prompt.layout != "pairs":
        raise PromptError("forgetting needs prompts of pairs: in a stream no x can be asked again.")
    own = prompt.ys.double().square().mean().cpu()  # ()
    scale = own if task is None else task.scale_at(prompt.points)  # () or (n,)
    if not bool((scale > 0).all()):
        raise PromptError("E[y^2] is 0: there is no error to compare with, give other outputs.")
    return Measured(
        values=(_example_errors(learner, prompt, steps) / scale).flip(1), axes=("gap",),
        counted=None if prompt.scored is None else prompt.scored.flip(1),
        label=learner.name if label is None else label, scale="log",
    )  # fmt: skip


@torch.no_grad()
@overflow_allowed()
def _example_errors(learner: Learner[Any], prompt: Prompt, steps: int | None) -> Tensor:
    """Squared errors (P, n) on all points of the prompts, asked again after the last of them."""

    def errors(part: Prompt) -> Tensor:
        # With a point more, at which all examples are asked: what is there is seen by no query.
        xs = torch.cat([part.xs, part.xs[:, -1:]], dim=1)  # (b, n + 1, d)
        ys = torch.cat([part.ys, torch.zeros_like(part.ys[:, -1:])], dim=1)  # (b, n + 1, k)
        queries = part.xs[:, None].expand(-1, part.points + 1, -1, -1)  # (b, n + 1, n, d)
        again = Prompt(xs=xs, ys=ys, queries=queries)
        answers = predict(learner, again, steps=steps)[:, -1]  # (b, n, k)
        return (answers.double() - part.ys.double()).square().mean(dim=-1)  # (b, n)

    rows = rows_within_budget(bytes_asked(learner, prompt, prompt.points))
    return map_prompts(errors, prompt, rows=rows).cpu()
