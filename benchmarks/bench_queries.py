"""Queries in one pass against one pass a prefix, with the prefix's queries as its batch."""

from typing import Any

import torch
from torch import Tensor

from benchmarks.timing import Row, compare
from innerloop.core.iterate import predict
from innerloop.core.prompt import Prompt, expand_prefixes
from innerloop.models.backbone import Loop, Stack
from innerloop.models.model import Model
from innerloop.models.transformer import InContextTransformer, TransformerConfig

PROMPTS, POINTS, QUERIES, DIMS = 1, 40, 100, 20


def run() -> list[Row]:
    """A stack and a loop, three steps each, in float32."""
    shapes = {
        "3 layers, width 64": Stack(layers=3, width=64, heads=4),
        "3 layers, width 256": Stack(layers=3, width=256, heads=8),
        "3 loops, width 64": Loop(loops=3, width=64, heads=4),
    }
    rows: list[Row] = []
    for name, shape in shapes.items():
        model = InContextTransformer(TransformerConfig(dims=DIMS, points=POINTS, backbone=shape))
        prompt = asked()
        worst = float(
            (in_one_pass(model, prompt) - one_prefix_at_a_time(model, prompt)).abs().max()
        )
        if worst > 1e-5:
            raise AssertionError(f"one pass is {worst:.1g} off")
        rows.append(
            compare(
                f"{QUERIES} queries at {POINTS} prefixes, {name}",
                lambda model=model, prompt=prompt: in_one_pass(model, prompt),
                lambda model=model, prompt=prompt: one_prefix_at_a_time(model, prompt),
                target=20,
                repeats=3,
            )
        )
    return rows


def asked() -> Prompt:
    """Prompts with queries at every point."""
    generator = torch.Generator().manual_seed(0)
    xs = torch.randn(PROMPTS, POINTS, DIMS, generator=generator)  # (B, n, d)
    ys = xs.sum(dim=2, keepdim=True) / DIMS**0.5  # (B, n, 1)
    queries = torch.randn(PROMPTS, POINTS, QUERIES, DIMS, generator=generator)  # (B, n, q, d)
    return Prompt(xs=xs, ys=ys, queries=queries)


@torch.no_grad()
def in_one_pass(model: Model[Any, Any], prompt: Prompt) -> Tensor:
    """As the library does: (B, n, q, 1)."""
    return predict(model, prompt)


@torch.no_grad()
def one_prefix_at_a_time(model: Model[Any, Any], prompt: Prompt) -> Tensor:
    """As one does without: every query ends a prompt of its own, (B, n, q, 1)."""
    answers = torch.empty(prompt.prediction_shape)  # (B, n, q, 1)
    for i, _, part in expand_prefixes(prompt, rows=PROMPTS * QUERIES):
        last = predict(model, part)[:, -1]  # (B q, 1)
        answers[:, i] = last.reshape(PROMPTS, QUERIES, 1)
    return answers
