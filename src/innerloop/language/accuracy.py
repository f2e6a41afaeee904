"""Which texts a learner puts into their class."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from innerloop.core.errors import ConfigurationError
from innerloop.core.iterate import iterate
from innerloop.core.learner import Learner
from innerloop.language.classification import TextClassification
from innerloop.models.model import AnyModel

MOST = 1024
"""Tokens of a text that a model without positions reads."""


@torch.no_grad()
def right_answers(
    learner: Learner[Any],
    task: TextClassification,
    points: int,
    *,
    steps: int | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> Tensor:
    """Whether each text of the test split gets its class, in the order of its file: (N,) bool.

    Texts are cut off after `points` tokens. After `steps` steps, by default the learner's own.
    `progress` hears the learner's name, how many texts are done, and of how many.
    """
    order: list[Tensor] = []
    right: list[Tensor] = []
    for which, prompt in task.test_prompts(points):
        *_, state = iterate(learner, prompt, steps=steps)
        answers = learner.read(prompt, state)[prompt.scored]  # (B, 1)
        order.append(which)
        right.append((answers == prompt.ys[prompt.scored])[:, 0])  # (B,)
        if progress is not None:
            progress(learner.name, sum(map(len, order)), task.test_size())
    return torch.cat(right)[torch.cat(order).argsort()]


@torch.no_grad()
def probabilities(model: AnyModel, task: TextClassification, texts: Sequence[str]) -> Tensor:
    """How likely each class is for each of some texts of one's own: (N, classes).

    They are encoded and cut off as those that the model was trained on.
    """
    if not texts:
        raise ConfigurationError("there are no texts: give at least one.")
    prompt = task.prompt_of(texts, model.points or MOST)
    *_, state = iterate(model, prompt)
    return model.scored_outputs(prompt, state).softmax(-1)
