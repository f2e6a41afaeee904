"""The Lasso at every prefix: the exact path from each prefix's solution to that of the next.

After i examples, with G = X'X, q = X'y and p = i * penalty, w solves the Lasso where

    G w + p s = q,   s_j = sign(w_j) where w_j is not 0,   |s_j| <= 1 elsewhere.

When an example is added, the old w and s solve another problem, with the new G and p and with
G w + p s in the place of q. Now q moves from there to its true value on a straight line. As long
as the support stays, the weights on it and the s_j off it move on straight lines as well, so the
first weight to reach 0, or s_j to reach 1 or -1, is found by division: it leaves or enters the
support, and the move goes on. (Parametric active sets: Osborne et al. 2000; Garrigues and El
Ghaoui 2008 for examples that come one by one.)

All that a step needs of G stands in one tableau: G swept on the support (Goodnight 1979),

    -H on the support,   H G beside it,   G - G H G off it,   H the inverse of G on the support.

A change of the support and a new example are rank-one updates of it. Problems are independent of
each other: each is at a prefix of its own, and all take one step, whichever it is, at a time.

The problems (N of them, with one output each) come last in all shapes here, so that every
operation runs over contiguous memory.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

TINY = 1e-200
"""In the place of a zero to divide by; its inverse, and products with it, are finite."""
DEPENDENT = 1e-12
"""A variable of which the support leaves no more than this part of its square does not enter: it
is a copy of those that are in, and its s_j moves as theirs."""


@dataclass(slots=True)
class _Path:
    """Where every problem is on its path; steps change it in place."""

    xs: Tensor
    """(n, d, N) inputs."""
    ys: Tensor
    """(n, N) outputs."""
    growth: Tensor
    """(n, N) what each example adds to p."""
    table: Tensor
    """(d, d, N) tableau of the examples so far."""
    scratch: Tensor
    """(d, d, N); fresh memory would cost more than the work on it."""
    power: Tensor
    """(d, N) the diagonal of G."""
    sign: Tensor
    """(d, N) 1 or -1 on the support, 0 off it."""
    place: Tensor
    """(d, N) w_j on the support, s_j off it."""
    pull: Tensor
    """(d, N) what q has left to move."""
    weight: Tensor
    """(N,) p."""
    seen: Tensor
    """(N,) examples so far."""
    turns: Tensor
    """(N,) steps since the last example."""


def lasso_path(xs: Tensor, ys: Tensor, growth: Tensor) -> Tensor:
    """Weights (N, n, d) of inputs (N, n, d) and outputs (N, n), in float64.

    Each example adds its `growth` (N, n) to p. Exact up to rounding, which adds up along the path:
    the caller checks, and lets `settle` repair.
    """
    batch, _, dims = xs.shape
    none = xs.new_zeros(dims, batch)  # (d, N)
    start = (none.clone(), none.clone(), none.clone(), none.clone(), none[0])
    path = _path(xs, ys, growth, xs.new_zeros(dims, dims, batch), *start)
    return _follow(path).permute(2, 0, 1)


def settle(xs: Tensor, ys: Tensor, weight: Tensor, near: Tensor) -> Tensor:
    """Weights (N, d) of whole prompts xs (N, n, d), ys (N, n) with p = weight (N,), from near ones.

    The same path, from the problem that the near weights (N, d) solve to the true one, with a new
    tableau and exact residuals. The nearer they are, the more exact is the end; the way from zero
    is long, but depends on nothing that went wrong before.
    """
    gram = (xs.mT @ xs).permute(1, 2, 0).contiguous()  # (d, d, N)
    power = gram.diagonal(dim1=0, dim2=1).T.clone()  # (d, N)
    on = near.T != 0  # (d, N)
    for j in range(xs.shape[2]):
        on[j] &= gram[j, j] > DEPENDENT * power[j]
        _sweep(gram, torch.full_like(on[j], j, dtype=torch.long), on[j], torch.ones_like(weight))
    w = near.T * on  # (d, N)
    left = ys - (xs @ w.T[..., None])[..., 0]  # (N, n)
    gradient = (left[:, None] @ xs)[:, 0].T  # (d, N)
    # From zero all of s may be scaled: then G w + p s is a q that some y has, as on any true path.
    limit = torch.where(on.any(dim=0), weight, torch.maximum(weight, gradient.abs().amax(dim=0)))
    s = torch.where(on, w.sign(), (gradient / limit).clamp(-1, 1))  # (d, N)
    start = (gram, power, w.sign(), torch.where(on, w, s), gradient - weight * s, weight)
    return _follow(_path(xs[:, :1], ys[:, :1], ys[:, :1], *start))[0].T


def _path(
    xs: Tensor, ys: Tensor, growth: Tensor,
    table: Tensor, power: Tensor, sign: Tensor, place: Tensor, pull: Tensor, weight: Tensor,
) -> _Path:  # fmt: skip
    """A path from a given state on, with the examples xs (N, n, d), ys and growth (N, n) to take.

    The last one is never taken: it is the question.
    """
    return _Path(
        xs=xs.permute(1, 2, 0).contiguous(),
        ys=ys.T.contiguous(),
        growth=growth.T.contiguous(),
        table=table,
        scratch=torch.empty_like(table),
        power=power,
        sign=sign.contiguous(),
        place=place.contiguous(),
        pull=pull.contiguous(),
        weight=weight.clone(),
        seen=torch.zeros(xs.shape[0], dtype=torch.long, device=xs.device),
        turns=torch.zeros_like(weight),
    )


def _follow(path: _Path) -> Tensor:
    """Take all examples but the last one: the weights (n, d, N) on the way."""
    weights = torch.zeros_like(path.xs)  # (n, d, N)
    through = torch.zeros_like(path.seen, dtype=torch.bool)  # (N,)
    while not bool(through.all()):
        through |= _advance(path, weights)
    return weights


def _advance(path: _Path, weights: Tensor) -> Tensor:
    """One step of every problem: to a change of its support, or to the next example.

    Writes the weights (n, d, N) where each problem is; returns which (N,) are through.
    """
    points, dims, batch = path.xs.shape
    at = path.seen.expand(1, dims, batch)  # (1, d, N)
    x = path.xs.gather(0, at)[0]  # (d, N)
    on = path.sign * path.sign  # (d, N)
    off = 1 - on  # (d, N)
    speed = _swept(path, path.pull, on, off)  # (d, N)
    speed /= torch.addcmul(on, off, path.weight.clamp(min=TINY))
    rate, chosen = _first_change(path, speed, on, off)  # (N,), (N,)
    # A problem that goes round among ties is sent on; what it owes stays in its pull.
    lands = (rate <= 1) | (path.turns > 4 * dims + 20)  # (N,)
    takes = lands & (path.seen < points - 1)  # (N,)

    step = rate.clamp(min=1).reciprocal()  # (N,)
    path.place.addcmul_(speed, step)
    path.pull.addcmul_(path.pull, step, value=-1)
    # Rounding can leave a weight that is on its way out beyond 0.
    w = path.sign * (path.sign * path.place).clamp_(min=0)  # (d, N)
    weights.scatter_(0, at, w[None])

    if bool(takes.any()):
        _take_examples(path, x, w, on, off, takes.to(x.dtype))
        path.seen += takes
    if not bool(lands.all()):
        _change_support(path, speed, chosen, ~lands)
    path.turns.add_(1).masked_fill_(lands, 0)
    return lands & ~takes


def _swept(path: _Path, values: Tensor, on: Tensor, off: Tensor) -> Tensor:
    """H v on the support and v - G H v off it, for values v (d, N): a column swept like G."""
    product = torch.mul(path.table, on * values, out=path.scratch).sum(dim=1)  # (d, N)
    return torch.addcmul(product.neg_(), off, values)


def _first_change(path: _Path, speed: Tensor, on: Tensor, off: Tensor) -> tuple[Tensor, Tensor]:
    """How many times (N,) the whole move would overshoot the first bound, and whose (N,) it is."""
    gap = torch.addcmul(off, path.place, speed.sign(), value=-1)  # (d, N): to 0, or to 1 or -1
    rest = path.table.diagonal(dim1=0, dim2=1).T  # (d, N)
    free = torch.add(rest, on, alpha=1 / TINY) > DEPENDENT * path.power  # (d, N)
    free &= path.sign * speed <= 0  # A weight that grows meets no bound.
    rate = speed.abs().div_(gap.clamp_(min=TINY)).mul_(free)  # (d, N)
    return torch.max(rate, dim=0)


def _take_examples(
    path: _Path, x: Tensor, w: Tensor, on: Tensor, off: Tensor, takes: Tensor
) -> None:
    """Add the next example where `takes` (N,) is 1: q, G and p grow by y x, x x' and the growth."""
    at = path.seen[None]  # (1, N)
    surprise = path.ys.gather(0, at)[0] - (x * w).sum(dim=0)  # (N,)
    more = path.growth.gather(0, at)[0] * takes  # (N,)
    s = torch.addcmul(path.sign, off, path.place)  # (d, N)
    path.pull.addcmul_(x, surprise * takes).addcmul_(s, more, value=-1)
    path.power.addcmul_(x * x, takes)
    path.weight += more
    swept = _swept(path, x, on, off)  # (d, N)
    scaled = swept * (takes / (1 + (on * x * swept).sum(dim=0)))  # (d, N)
    path.table.addcmul_(scaled[:, None], swept)


def _change_support(path: _Path, speed: Tensor, chosen: Tensor, changes: Tensor) -> None:
    """Where `changes` (N,), the chosen variable enters with the sign of its s_j, or leaves."""
    row = chosen[None]  # (1, N)
    sign = path.sign.gather(0, row)  # (1, N)
    _sweep(path.table, chosen, changes, 1 - 2 * sign[0].abs())
    entered = torch.where(sign == 0, speed.gather(0, row).sign(), 0)  # (1, N)
    path.place.scatter_(0, row, torch.where(changes, sign, path.place.gather(0, row)))
    path.sign.scatter_(0, row, torch.where(changes, entered, sign))


def _sweep(table: Tensor, chosen: Tensor, where: Tensor, entering: Tensor) -> None:
    """Sweep the tableau (d, d, N) on one variable each, `entering` (N,) 1, or -1 to undo it."""
    dims, _, batch = table.shape
    row = chosen[None]  # (1, N)
    column = table.gather(1, chosen.expand(dims, 1, batch))[:, 0]  # (d, N)
    pivot = column.gather(0, row)[0]  # (N,)
    scaled = column * torch.where(where, 1 / pivot, 0)  # (d, N)
    table.addcmul_(scaled[:, None], column, value=-1)
    fresh = torch.where(where, scaled * entering, column)  # (d, N)
    fresh.scatter_(0, row, torch.where(where, -1 / pivot, pivot)[None])
    table.scatter_(1, chosen.expand(dims, 1, batch), fresh[:, None])
    table.scatter_(0, chosen.expand(1, dims, batch), fresh[None])
