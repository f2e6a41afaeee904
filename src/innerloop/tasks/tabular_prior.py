"""Random tables that look like real ones: what tabular models are trained on.

Shapes: B tables, r rows, f features; every table has columns, a function and noise of its own.
"""

import math

import torch
from pydantic import Field
from torch import Tensor

from innerloop.core.prompt import Prompt
from innerloop.core.task import PromptForm, Task
from innerloop.tasks.draws import integers, normal, signs, uniform
from innerloop.tasks.function import number
from innerloop.tasks.tabular_functions import random_function, standardised

FEWEST_EXAMPLES = 4
_EVALUATED_EXAMPLES = 32
"""Of the tables that a run is evaluated on."""
_DRAWS = 8
"""Numbers of features among them."""


class TabularPrior(Task):
    """Tables of 1 to `dims` features and 4 to n - 1 examples, with questions after the last.

    Columns are correlated, in clusters, skewed, uniform or of few values; the function is linear,
    sparse, additive, a tree, a network or smooth, or two of these; the noise is drawn per table,
    from nearly none to more than the signal, some of it heavy-tailed or larger in places. With
    `labels` the output is cut into -1 and 1. The numbers of features and of examples are drawn for
    all tables of a batch at once; missing features are columns of zeros.
    """

    labels: bool = Field(default=False, description="whether outputs are classes, -1 and 1")
    questions: int = Field(
        default=24, ge=1, le=1_000_000, description="questions after the last example"
    )

    @property
    def form(self) -> PromptForm:
        """Pairs, of at most as many points as are asked for."""
        return PromptForm(
            dims=self.dims, labels=self.labels, usual_share=0.5, fewest_points=FEWEST_EXAMPLES + 1
        )

    def draw(self, batch: int, points: int, generator: torch.Generator) -> Prompt:
        """Tables of one size, which is drawn first."""
        share, length = uniform(generator, 2).tolist()
        features = 1 + int(self.dims * share**1.5)
        low, high = math.log(FEWEST_EXAMPLES), math.log(points)
        examples = min(int(math.exp(low + (high - low) * length)), points - 1)
        return self._tables(batch, max(examples, 1), features, generator)

    def held_out(self, batch: int, points: int, *, generator: torch.Generator) -> Prompt:
        """Tables of 32 examples and of several numbers of features."""
        examples = min(points - 1, _EVALUATED_EXAMPLES)
        sizes = [1 + (self.dims - 1) * draw // (_DRAWS - 1) for draw in range(_DRAWS)]
        shares = [batch // _DRAWS + (draw < batch % _DRAWS) for draw in range(_DRAWS)]
        return Prompt.cat(
            [
                self._tables(share, examples, features, generator)
                for share, features in zip(shares, sizes, strict=True)
                if share
            ]
        )

    def _tables(
        self, batch: int, examples: int, features: int, generator: torch.Generator
    ) -> Prompt:
        rows = examples + self.questions
        inputs = _columns(batch, rows, features, generator)  # (B, r, f)
        values = random_function(inputs, generator)  # (B, r)
        outputs = _noisy(values, inputs, generator)  # (B, r)
        if self.labels:
            outputs = _cut(outputs, generator)  # (B, r)
        padded = torch.nn.functional.pad(inputs, (0, self.dims - features))  # (B, r, d)
        xs, ys = padded.to(self.torch_dtype), outputs[..., None].to(self.torch_dtype)
        return Prompt(
            xs=xs[:, : examples + 1], ys=ys[:, : examples + 1],
            queries=xs[:, None, examples:], truth={"query_ys": ys[:, None, examples:]},
        )  # fmt: skip

    def scale(self) -> Tensor:
        """Outputs have variance 1, about."""
        return number(1)


def _columns(batch: int, rows: int, features: int, generator: torch.Generator) -> Tensor:
    """Inputs (B, r, f): correlated normal numbers, in clusters, each column with its own shape."""
    factors = normal(generator, batch, rows, features)  # (B, r, f)
    loads = normal(generator, batch, features, features) / math.sqrt(features)  # (B, f, f)
    mixed = 1.5 * uniform(generator, batch, 1, 1)  # (B, 1, 1) how correlated
    latent = mixed * (factors @ loads) + normal(generator, batch, rows, features)  # (B, r, f)
    centres = 2 * normal(generator, batch, 4, features)  # (B, 4, f)
    which = integers(generator, 0, 4, batch, rows, 1)  # (B, r, 1)
    clustered = uniform(generator, batch, 1, 1) < 0.2  # (B, 1, 1)
    latent = latent + clustered * centres.gather(1, which.expand(-1, -1, features))
    latent = standardised(latent)  # (B, r, f)
    kind = uniform(generator, batch, 1, features)  # (B, 1, f)
    strength = 0.3 + 0.7 * uniform(generator, batch, 1, features)  # (B, 1, f)
    sign = signs(generator, batch, 1, features)  # (B, 1, f)
    share = torch.special.ndtr(latent)  # (B, r, f) from 0 to 1
    levels = 2 + (7 * uniform(generator, batch, 1, features)).floor()  # (B, 1, f)
    shapes = (
        (0.45, latent),
        (0.60, sign * (strength * latent).exp()),
        (0.75, share),
        (0.80, latent.abs().pow(1.5) * latent.sign()),
        (1.01, (share * levels).floor()),
    )
    columns = latent
    for limit, values in reversed(shapes):
        columns = torch.where(kind < limit, values, columns)
    return standardised(columns)


def _noisy(values: Tensor, inputs: Tensor, generator: torch.Generator) -> Tensor:
    """Values (B, r) with noise of each table's own size and kind, of variance 1 in all."""
    batch, rows = values.shape
    low, high = math.log(0.03), math.log(1.5)
    deviation = (low + (high - low) * uniform(generator, batch, 1)).exp()  # (B, 1)
    noise = normal(generator, batch, rows)  # (B, r)
    # A normal number over the root of a mean of three squares is Student's t: heavy tails.
    squares = normal(generator, batch, rows, 3).square().mean(dim=2)  # (B, r)
    heavy = uniform(generator, batch, 1) < 0.15  # (B, 1)
    noise = torch.where(heavy, (noise / squares.clamp(min=0.05).sqrt()).clamp(-8, 8), noise)
    uneven = uniform(generator, batch, 1) < 0.2  # (B, 1)
    noise = torch.where(uneven, noise * (0.7 * inputs[..., 0]).exp().clamp(max=4), noise)
    return standardised((values + deviation * noise)[..., None])[..., 0]


def _cut(outputs: Tensor, generator: torch.Generator) -> Tensor:
    """Outputs (B, r) as -1 and 1, cut at a quantile of each table."""
    share = 0.2 + 0.6 * uniform(generator, len(outputs), 1)  # (B, 1)
    ranks = outputs.argsort(dim=1).argsort(dim=1)  # (B, r)
    return torch.where(ranks < share * outputs.shape[1], -1.0, 1.0).to(outputs)
