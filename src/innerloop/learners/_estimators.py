"""What learners share that fit a model of another library: one fit for each prompt and prefix."""

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from innerloop.core.prompt import Prompt

Reals = NDArray[np.float64]
Fit = Callable[[Reals, Reals, Reals], Reals]
"""Answers (q,) from the inputs (i, d) and one output (i,) of i examples, and questions (q, d)."""


def fit_each_prefix(prompt: Prompt, fit: Fit, *, minimum: int = 1, signs: bool = False) -> Tensor:
    """Answers in the prompt's shape, in float64; 0 for prefixes of less than `minimum` examples.

    Each output is a problem of its own. With `signs` the fits see the signs of the inputs only.
    """
    inputs, outputs, asked = (
        values.detach().double().cpu().numpy() for values in (prompt.xs, prompt.ys, prompt.asked)
    )  # (B, n, d), (B, n, k), (B, n, q, d)
    if signs:
        inputs, asked = np.sign(inputs), np.sign(asked)
    answers = np.zeros((*asked.shape[:3], prompt.outputs))  # (B, n, q, k)
    for b in range(prompt.batch):
        for i in range(minimum, prompt.points):
            for o in range(prompt.outputs):
                answers[b, i, :, o] = fit(inputs[b, :i], outputs[b, :i, o], asked[b, i])
    return torch.from_numpy(answers).reshape(prompt.prediction_shape).to(prompt.xs.device)
