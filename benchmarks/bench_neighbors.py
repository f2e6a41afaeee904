"""Nearest neighbours, batched, against a loop over prompts and prefixes."""

import torch
from torch import Tensor

from benchmarks.timing import Row, compare, linear_prompt
from innerloop.core.iterate import predict
from innerloop.core.tolerances import REFERENCE
from innerloop.learners.neighbors import NearestNeighbors

PROMPTS, POINTS, DIMS, NEIGHBOURS = 1280, 41, 20, 3
LOOPED = 64
"""Prompts that the loop is timed on; its time is scaled up to all of them."""


def run() -> list[Row]:
    """Both kinds of weights."""
    prompt = linear_prompt(PROMPTS, POINTS, DIMS)
    xs, ys = prompt.xs, prompt.ys  # (B, n, d), (B, n, 1)
    rows: list[Row] = []
    for learner in (NearestNeighbors(NEIGHBOURS), NearestNeighbors(NEIGHBOURS, "distance")):
        by_distance = learner.weighting == "distance"
        ours, theirs = (
            predict(learner, prompt)[:LOOPED],
            _loop(xs[:LOOPED], ys[:LOOPED], by_distance),
        )
        torch.testing.assert_close(ours, theirs, rtol=REFERENCE, atol=REFERENCE)
        row = compare(
            f"{learner.name}, {PROMPTS} x {POINTS} (loop: {LOOPED} prompts, scaled)",
            lambda learner=learner: predict(learner, prompt),
            lambda by_distance=by_distance: _loop(xs[:LOOPED], ys[:LOOPED], by_distance),
            target=15,
            share=LOOPED / PROMPTS,
        )
        rows.append(row)
    return rows


def _loop(xs: Tensor, ys: Tensor, by_distance: bool) -> Tensor:
    """Answers (B, n, 1), one prompt and prefix at a time."""
    answers = torch.zeros_like(ys)  # (B, n, 1)
    for b in range(xs.shape[0]):
        for i in range(1, xs.shape[1]):
            distances = (xs[b, :i] - xs[b, i]).square().sum(dim=1).sqrt()  # (i,)
            nearest, index = distances.topk(min(NEIGHBOURS, i), largest=False)  # (j,)
            if by_distance:
                weights = 1 / nearest  # (j,)
                answers[b, i] = (weights[:, None] * ys[b, index]).sum(dim=0) / weights.sum()
            else:
                answers[b, i] = ys[b, index].mean(dim=0)
    return answers
