"""The prompts that the contract is checked on, each with a name that an error can say."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from innerloop.core.prompt import Layout, Prompt
from innerloop.core.tolerances import CONTRACT

TOKENS = 5
"""Texts of the contract are made of the tokens 1 to 4, which every vocabulary has; 0 is padding."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """The sizes that a learner is checked at."""

    dims: int = 3
    points: int = 8
    outputs: int = 1
    layout: Layout = "pairs"
    dtype: torch.dtype = torch.float64
    allowed: float = CONTRACT[torch.float64]
    """How far two answers may lie apart."""
    scale: float = 1.0
    """What all numbers of the prompts are multiplied by."""
    seed: int = 0
    batch: int = 4

    def generator(self, purpose: int = 0) -> torch.Generator:
        """A fresh generator; each purpose has numbers of its own."""
        return torch.Generator().manual_seed(1000 * self.seed + purpose)

    def normal(self, generator: torch.Generator, *shape: int) -> Tensor:
        """Normal numbers of the setting's scale and type."""
        drawn = torch.randn(shape, generator=generator, dtype=torch.float64)
        return (self.scale * drawn).to(self.dtype)

    def inputs(self, generator: torch.Generator, *shape: int) -> Tensor:
        """Normal numbers; of texts tokens, none of them padding."""
        if self.layout != "tokens":
            return self.normal(generator, *shape)
        return torch.randint(1, TOKENS, shape, generator=generator).to(self.dtype)


def named_prompts(setting: Setting) -> dict[str, Prompt]:
    """The prompts of the contract: prefixes below, at and above d, and degenerate ones."""
    if setting.layout == "tokens":
        return _named_texts(setting)
    generator = setting.generator()
    batch, points, dims = setting.batch, setting.points, setting.dims
    plain = _well_conditioned(setting, generator)  # (B, n, d)
    collinear = plain[:, :1] * setting.normal(generator, batch, points, 1)  # (B, n, d)
    inputs = {
        "plain": plain,
        "fewer points than dimensions": plain[:, : max(1, dims - 1)],
        "as many points as dimensions": plain[:, :dims],
        "one example more than dimensions": plain[:, : dims + 2],
        "collinear inputs": collinear,
        "constant inputs": torch.full_like(plain, setting.scale),
        "repeated inputs": plain[:, torch.arange(points) // 2],
        "zero inputs": torch.zeros_like(plain),
        "one zero input": torch.cat([torch.zeros_like(plain[:, :1]), plain[:, 1:]], dim=1),
    }
    return {name: _labelled(xs, setting, generator) for name, xs in inputs.items()}


def _named_texts(setting: Setting) -> dict[str, Prompt]:
    """Texts under the same names; collinear ones are those of different lengths, with padding."""
    generator = setting.generator()
    plain = setting.inputs(generator, setting.batch, setting.points, 1)  # (B, n, 1)
    lengths = setting.points - torch.arange(setting.batch) % setting.points  # (B,)
    inside = torch.arange(setting.points) < lengths[:, None]  # (B, n)
    texts = {
        "plain": plain,
        "fewer points than dimensions": plain[:, :1],
        "collinear inputs": plain * inside[..., None],
        "constant inputs": torch.ones_like(plain),
    }
    return {
        name: Prompt(xs=xs, ys=setting.inputs(generator, *xs.shape), layout="tokens")
        for name, xs in texts.items()
    }


def _well_conditioned(setting: Setting, generator: torch.Generator) -> Tensor:
    """Inputs (B, n, d) whose first d points have a condition number below 50 d, by rejection."""
    xs = setting.normal(generator, setting.batch, setting.points, setting.dims)
    while True:
        condition = torch.linalg.cond(xs[:, : setting.dims].double())  # (B,)
        refused = torch.nonzero(condition > 50 * setting.dims)[:, 0]  # (r,)
        if len(refused) == 0:
            return xs
        xs[refused] = setting.normal(generator, len(refused), setting.points, setting.dims)


def _labelled(xs: Tensor, setting: Setting, generator: torch.Generator) -> Prompt:
    """Noisy linear outputs, so that no learner is right by accident; for a stream, the next x."""
    if setting.layout == "stream":
        last = setting.normal(generator, xs.shape[0], 1, xs.shape[2])  # (B, 1, d)
        return Prompt(xs=xs, ys=torch.cat([xs[:, 1:], last], dim=1), layout="stream")
    w = setting.normal(generator, xs.shape[0], setting.dims, setting.outputs)  # (B, d, k)
    noise = setting.normal(generator, *xs.shape[:2], setting.outputs)  # (B, n, k)
    return Prompt(xs=xs, ys=xs @ w + 0.1 * noise, truth={"w": w})


class WatchedTruth(dict[str, Tensor]):
    """A truth that remembers which keys were asked for; going through all of it is no secret."""

    def __init__(self, truth: dict[str, Tensor]) -> None:
        super().__init__(truth)
        self.looked_up: list[object] = []

    def __getitem__(self, key: str) -> Tensor:
        self.looked_up.append(key)
        return super().__getitem__(key)

    def __contains__(self, key: object) -> bool:
        self.looked_up.append(key)
        return super().__contains__(key)

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a key, remembered as asked for."""
        self.looked_up.append(key)
        return super().get(key, default)
