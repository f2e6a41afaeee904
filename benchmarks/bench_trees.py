"""Greedy trees, all prompts and prefixes at once, against a loop of scikit-learn's."""

import numpy as np
from sklearn.tree import DecisionTreeRegressor

from benchmarks.timing import Row, compare, linear_prompt
from innerloop.core.iterate import predict
from innerloop.core.prompt import Prompt
from innerloop.learners.tree import GreedyTree

PROMPTS, POINTS, DIMS = 64, 101, 20
LOOPED = 4
"""Prompts that the loop is timed on; its time is scaled up to all of them."""


def run() -> list[Row]:
    """Depth 4, as the papers have it, and without a limit."""
    prompt = linear_prompt(PROMPTS, POINTS, DIMS)
    rows: list[Row] = []
    for learner, target in ((GreedyTree(4), 10), (GreedyTree(None), 5)):
        row = compare(
            f"{learner.name}, {PROMPTS} x {POINTS} (loop: {LOOPED} prompts, scaled)",
            lambda learner=learner: predict(learner, prompt),
            lambda learner=learner: _loop(prompt.select(slice(0, LOOPED)), learner.depth),
            target=target,
            repeats=3,
            share=LOOPED / PROMPTS,
        )
        rows.append(row)
    return rows


def _loop(prompt: Prompt, depth: int | None) -> np.ndarray:
    """Answers (B, n), one prompt and prefix at a time."""
    xs, ys = prompt.xs.numpy(), prompt.ys[..., 0].numpy()  # (B, n, d), (B, n)
    answers = np.zeros_like(ys)  # (B, n)
    for b in range(prompt.batch):
        for i in range(1, prompt.points):
            model = DecisionTreeRegressor(max_depth=depth, random_state=0)
            answers[b, i] = model.fit(xs[b, :i], ys[b, :i]).predict(xs[b, i : i + 1])[0]
    return answers
