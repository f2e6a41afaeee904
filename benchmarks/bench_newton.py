"""Newton's method: all prompts and prefixes at once, against a loop over them in numpy."""

import numpy as np

from benchmarks.timing import Row, compare, linear_prompt
from innerloop.core.iterate import predict
from innerloop.core.prompt import Prompt
from innerloop.learners.newton import Newton

BATCH, POINTS, DIMS, STEPS = 1280, 41, 20, 15
LOOPED = 128
"""The loop takes every prompt the same time: it runs on a tenth of them, and is scaled."""


def run() -> list[Row]:
    """Time both, after a check that they predict the same."""
    prompt = linear_prompt(BATCH, POINTS, DIMS)
    learner = Newton(STEPS)
    some = prompt.select(slice(0, 8))
    np.testing.assert_allclose(
        _loop(some), predict(learner, some)[..., 0].numpy(), rtol=0, atol=1e-8
    )
    few = prompt.select(slice(0, LOOPED))
    row = compare(
        f"Newton, {STEPS} steps, {BATCH} prompts, d {DIMS}, {POINTS} points, numpy loop "
        f"(on {LOOPED} prompts, scaled)",
        lambda: predict(learner, prompt),
        lambda: _loop(few),
        target=4,
        share=LOOPED / BATCH,
    )
    return [row]


def _loop(prompt: Prompt) -> np.ndarray:
    """The predictions (B, n), one prompt and one prefix at a time."""
    xs, ys = prompt.xs.numpy(), prompt.ys.numpy()[..., 0]  # (B, n, d), (B, n)
    answers = np.zeros(ys.shape)  # (B, n)
    for b in range(len(xs)):
        for i in range(1, xs.shape[1]):
            x = xs[b, :i]  # (i, d)
            gram = x.T @ x  # (d, d)
            inverse = gram / np.linalg.norm(gram @ gram.T)  # (d, d)
            for _ in range(STEPS):
                inverse = 2 * inverse - inverse @ gram @ inverse  # (d, d)
            answers[b, i] = xs[b, i] @ (inverse @ (x.T @ ys[b, :i]))
    return answers
