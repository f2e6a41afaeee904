"""Induced weights in one pass against one pass a prefix, with its queries as the batch."""

from typing import Any

import torch
from torch import Tensor

from benchmarks.timing import Row, compare
from innerloop.analysis.induced import induced_weights
from innerloop.core.iterate import predict
from innerloop.core.prompt import Prompt, expand_prefixes
from innerloop.models.backbone import Stack
from innerloop.models.model import Model
from innerloop.models.transformer import InContextTransformer, TransformerConfig
from innerloop.tasks.linear import LinearRegression

PROMPTS, POINTS, QUERIES, DIMS = 64, 41, 100, 20
PLAIN_PROMPTS = 2
"""The plain way takes every prompt the same time, minutes for all of them: its time is scaled."""


def run() -> list[Row]:
    """A transformer of 3 layers, in float32, on prompts of linear regression."""
    shape = Stack(layers=3, width=64, heads=4)
    model = InContextTransformer(TransformerConfig(dims=DIMS, points=POINTS, backbone=shape))
    task = LinearRegression(dims=DIMS)
    prompt = task.sample(PROMPTS, POINTS, generator=torch.Generator().manual_seed(0))
    asked = torch.randn(QUERIES, DIMS, generator=torch.Generator().manual_seed(1))  # (q, d)
    few = prompt.select(slice(PLAIN_PROMPTS))
    expected = one_prefix_at_a_time(model, few, asked)  # (b, n, d, 1)
    found = induced_weights(model, prompt, queries=asked)[:PLAIN_PROMPTS]  # (b, n, d, 1)
    worst = float(((found - expected).abs() / expected.abs().clamp(min=1)).max())
    if not worst <= 1e-5:
        raise AssertionError(f"the weights of one pass are {worst:.1g} off")
    return [
        compare(
            f"weights of {POINTS} prefixes x {QUERIES} queries, {PROMPTS} prompts, 3 layers",
            lambda: induced_weights(model, prompt, queries=asked),
            lambda: one_prefix_at_a_time(model, few, asked),
            target=20,
            repeats=3,
            share=PLAIN_PROMPTS / PROMPTS,
        )
    ]


@torch.no_grad()
def one_prefix_at_a_time(model: Model[Any, Any], prompt: Prompt, asked: Tensor) -> Tensor:
    """As one does without: every query ends a prompt of its own, then a fit a prefix."""
    queries = asked.expand(prompt.batch, prompt.points, -1, -1)  # (b, n, q, d)
    weights: list[Tensor] = []
    for _, _, part in expand_prefixes(prompt.ask(queries), rows=prompt.batch * QUERIES):
        answers = predict(model, part)[:, -1].reshape(prompt.batch, QUERIES, 1)  # (b, q, 1)
        inputs = asked.double().expand(prompt.batch, -1, -1)  # (b, q, d)
        weights.append(torch.linalg.lstsq(inputs, answers.double()).solution)  # (b, d, 1)
    return torch.stack(weights, dim=1)  # (b, n, d, 1)
