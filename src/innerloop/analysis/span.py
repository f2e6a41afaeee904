"""The span test: whether induced weights are combinations of the inputs seen so far.

Fu et al. (2023, appendix B.4, eq. 42): weights of the form M X'y, with M a polynomial in X'X, are a
sum of the examples' inputs. So are those of every method that starts at zero and moves along
gradients of a function of Xw.

Shapes: P prompts, n points, d dimensions, k outputs.
"""

from typing import Any

import torch
from torch import Tensor

from innerloop.analysis.induced import induced_weights
from innerloop.analysis.measured import Measured
from innerloop.analysis.similarity import by_examples
from innerloop.core.chunks import in_parts, rows_within_budget
from innerloop.core.errors import PromptError
from innerloop.core.expects import expect_prompt
from innerloop.core.learner import Learner
from innerloop.core.prompt import Prompt


def span_test(
    learner: Learner[Any],
    prompt: Prompt,
    *,
    queries: int | Tensor = 100,
    steps: int | None = None,
    seed: int = 0,
    label: str | None = None,
) -> Measured:
    """The part of the induced weights outside the span of the examples: |w - Pw| / |w|.

    By examples, from one on. P projects on the inputs of the prefix; several outputs are taken
    together (Frobenius norms). Weights of zero are in every span. From d examples on the span is
    everything, and the residual says nothing. `span_chance` has what weights at random have.
    """
    weights = induced_weights(learner, prompt, queries=queries, steps=steps, seed=seed)
    outside = outside_span(weights, prompt)[0]  # (P, n)
    return _from_one_on(outside, prompt, learner.name if label is None else label)


def span_chance(prompt: Prompt) -> Measured:
    """The part of weights at random outside the span of the examples, by examples, from one on."""
    expect_prompt(prompt)
    none = torch.zeros(prompt.batch, prompt.points, prompt.dims, prompt.outputs)  # (P, n, d, k)
    ranks = outside_span(none, prompt)[1]  # (P, n)
    chance = chance_outside(ranks, prompt.dims, prompt.outputs)  # (P, n)
    return _from_one_on(chance, prompt, "a direction at random")


def _from_one_on(values: Tensor, prompt: Prompt, label: str) -> Measured:
    if prompt.points < 2:
        raise PromptError("the prompt has one point and no examples: give at least two points.")
    return by_examples(values, prompt, label).at(examples=slice(1, None))


def outside_span(weights: Tensor, prompt: Prompt) -> tuple[Tensor, Tensor]:
    """|w - Pw| / |w| of weights (P, n, d, k), and the rank of each prefix: (P, n) each."""
    rows = rows_within_budget(32 * prompt.points * prompt.outputs * (prompt.points + prompt.dims))
    parts: list[Tensor] = []
    ranks: list[Tensor] = []
    for some, part in in_parts(prompt, rows):
        basis = nested_basis(part)  # (b, n - 1, d)
        own = weights[some].double()  # (b, n, d, k)
        flat = own.transpose(1, 2).flatten(2)  # (b, d, n k)
        inside = (basis @ flat).unflatten(2, own.shape[1::2])  # (b, n - 1, n, k)
        seen = torch.ones_like(inside[0, ..., 0], dtype=torch.bool).triu(1)  # (n - 1, n)
        inside = inside.masked_fill(~seen[..., None], 0.0).flatten(2)  # (b, n - 1, n k)
        outside = (flat - basis.mT @ inside).unflatten(2, own.shape[1::2])  # (b, d, n, k)
        size = own.norm(dim=(2, 3))  # (b, n)
        parts.append(outside.norm(dim=(1, 3)) / size.masked_fill(size == 0, 1.0))
        new = (basis != 0).any(dim=2).double().cumsum(dim=1)  # (b, n - 1)
        ranks.append(torch.cat([torch.zeros_like(new[:, :1]), new], dim=1))  # (b, n)
    return torch.cat(parts), torch.cat(ranks)


def chance_outside(ranks: Tensor, dims: int, outputs: int = 1) -> Tensor:
    """The mean of |w - Pw| / |w| for a w (d, k) at random, where P projects on spans of ranks (..).

    Its square has the distribution Beta(k (d - r) / 2, k r / 2). This is the mean of the root,
    which is less than the root of the mean, sqrt(1 - r / d).
    """
    left = outputs * (dims - ranks.double()) / 2  # (..)
    whole = torch.tensor(outputs * dims / 2, dtype=torch.float64)  # ()
    logarithm = (
        torch.lgamma(left + 0.5) - torch.lgamma(left) + torch.lgamma(whole)
        - torch.lgamma(whole + 0.5)
    )  # fmt: skip
    return logarithm.exp()  # (..): 0 where the span is everything, as Gamma has a pole at 0


def nested_basis(prompt: Prompt) -> Tensor:
    """Rows (P, n - 1, d) of which the first i are a basis of the span of the first i inputs.

    An input that lies in the span of those before it has a row of zeros. This is Gram and Schmidt's
    method, with every row made orthogonal twice, which is enough (Kahan and Parlett); a QR
    factorisation would fill the rows of such inputs with directions that no example has.
    """
    xs = prompt.xs[:, :-1].double()  # (P, n - 1, d)
    # Inputs of a coarser type lie in a subspace up to their own rounding only.
    coarse = torch.finfo(prompt.xs.dtype).eps
    tolerance = max(100 * torch.finfo(torch.float64).eps, 4 * coarse)
    basis = torch.zeros_like(xs)  # (P, n - 1, d)
    for i in range(xs.shape[1]):
        before, left = basis[:, :i], xs[:, i, :, None]  # (P, i, d), (P, d, 1)
        for _ in range(2):
            left = left - before.mT @ (before @ left)  # (P, d, 1)
        size = left.norm(dim=1)  # (P, 1)
        new = size > tolerance * xs[:, i].norm(dim=1, keepdim=True)  # (P, 1)
        basis[:, i] = torch.where(new, left[..., 0] / size.masked_fill(~new, 1.0), 0.0)
    return basis
