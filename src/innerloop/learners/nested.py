"""Least squares at every prefix at once, from factorisations that all prefixes share.

Minimise |y - X w|^2 + penalty |w|^2 over the first i examples, for every i; without a penalty,
take the solution of smallest norm.

Up to d examples: with A the first d inputs as rows and the Cholesky factor L of A A' + penalty I,
w_i = A_i' (L_i L_i')^-1 y_i. The factor of a leading block is the leading block of the factor, so
with Q = L^-1 A and z = L^-1 y the weights are a running sum, w_i = sum_{j<i} z_j Q_j.

Beyond: take a prefix whose weights w are known as the base, and F with
F'F = (X'X + penalty I)^-1 there. For further inputs N, with S = N F' and the Cholesky factor C of
I + S S', the weights move by a running sum again: the rows of C^-1 S F times the entries of
C^-1 (y - N w). A new base every few examples keeps the blocks small.

Rounding: both sums lose digits with the square of the condition number of A, most at the
interpolation peak (i = d). The factors tell that number. Where it matters the weights are refined:
the same factors solve for what the residuals leave. Where even that cannot help, the caller is
told, and takes `singular_weights`.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from innerloop.core.chunks import rows_within_budget, slices
from innerloop.learners.prefix import tensor_bytes
from innerloop.learners.units import powers_of_two

CACHE = 2**22
"""Bytes of temporaries per chunk on a CPU: what stays near it is worked on several times faster."""
REFINED = ((1e6, 1e9, 1), (1e9, 1e11, 2))
"""Condition numbers, from and to, and the refinements that they call for. Weights are off by less
than 1e-16 times the number (measured), also relative to the smaller ones after the peak, and each
refinement gains that factor again. Beyond the last number nothing helps."""
DROWNED = 1e7
"""The condition number beyond which a direction that only the penalty holds up is not solved."""
BLOCK = 32
"""Examples that share a base, or d if that is more: a base costs as much as d examples."""


def nested_weights(xs: Tensor, ys: Tensor, penalty: float) -> tuple[Tensor, Tensor]:
    """Weights (B, n, d, k) of xs (B, n, d), ys (B, n, k), and which prompts (B,) are not solved.

    Those are nearly rank-deficient, or would be without the penalty; their weights are junk.
    """
    weights = xs.new_empty(*ys.shape, xs.shape[2])  # (B, n, k, d)
    condition = xs.new_empty(xs.shape[0])  # (B,)
    for rows in chunks(xs, ys):
        condition[rows] = _solve(xs[rows], ys[rows], penalty, 0, weights[rows])
    for low, high, refinements in REFINED:
        some = torch.nonzero((condition > low) & (condition <= high))[:, 0]  # (R,)
        refined = weights[some]  # (R, n, k, d)
        for rows in chunks(refined[:, :, 0], refined[:, :, :, 0]):
            which = some[rows]  # (r,)
            _solve(xs[which], ys[which], penalty, refinements, refined[rows])
        weights[some] = refined
    # A failed factorisation has the condition NaN, or infinity, which is not below any limit.
    return weights.transpose(2, 3), ~(condition <= REFINED[-1][1])


def singular_weights(xs: Tensor, ys: Tensor, penalty: float, precision: float) -> Tensor:
    """The same weights from the singular values of each prefix: slow, and right for any inputs.

    Singular values below `rank_tolerance` times the largest one are zero, with a penalty as well:
    rounding makes them up, and beside a penalty that is as small they would count.
    """
    batch, points, dims = xs.shape
    weights = xs.new_zeros(batch, points, dims, ys.shape[2])  # (B, n, d, k)
    for rows in chunks(xs, ys):
        for i in range(1, points):
            inputs = xs[rows, :i]  # (b, i, d)
            sizes = inputs.abs().amax(dim=(1, 2)).clamp(min=penalty**0.5)  # (b,)
            units = powers_of_two(sizes)[:, None, None]  # (b, 1, 1)
            u, s, vt = torch.linalg.svd(inputs / units, full_matrices=False)  # (b, i, r), (b, r)
            kept = s > rank_tolerance(i, dims, precision) * s[:, :1]  # (b, r)
            rest = xs.new_tensor(penalty) / units[:, 0] / units[:, 0] / s  # (b, r)
            along = (u.mT @ ys[rows, :i]) / (s + rest)[..., None]  # (b, r, k)
            weights[rows, i] = vt.mT @ along.masked_fill(~kept[..., None], 0.0) / units
    return weights


def rank_tolerance(examples: int, dims: int, precision: float) -> float:
    """The rule of numpy, max(i, d) * eps, but never finer than the precision of the inputs."""
    return max(max(examples, dims) * torch.finfo(torch.float64).eps, precision)


def chunks(xs: Tensor, ys: Tensor) -> Iterator[slice]:
    """Slices of the batch whose temporaries fit the cache, or on a GPU the memory budget."""
    batch, points, dims = xs.shape
    block = max(BLOCK, dims)
    one = tensor_bytes((points + 4 * dims) * dims + (points + block) * block, ys.shape[2])
    at_most = CACHE if xs.device.type == "cpu" else None
    return slices(batch, rows_within_budget(one, at_most=at_most))


def _solve(xs: Tensor, ys: Tensor, penalty: float, refinements: int, weights: Tensor) -> Tensor:
    """Fill the weights (b, n, k, d); return a bound (b,) of the condition number at any prefix."""
    batch, points, dims = xs.shape
    weights[:, 0] = 0
    first = min(dims, points - 1)
    if first == 0:
        return xs.new_ones(batch)
    lower, factor = _start(xs[:, :first], ys[:, :first], penalty, refinements, weights)
    # The largest eigenvalue is at most the trace with all examples, and the smallest one at least
    # what it is with the first: one number for all prefixes, so that all are solved the same way.
    largest = xs[:, :-1].square().sum(dim=(1, 2)) + penalty * first  # (b,)
    inverse = factor.square().sum(dim=(1, 2))  # (b,): the trace of (A A' + penalty I)^-1, ..
    # .. unless A is singular to rounding: what is left of an input may then cancel in F.
    pivots = lower.diagonal(dim1=1, dim2=2).square().reciprocal().sum(dim=1)  # (b,)
    worst = torch.maximum(inverse, pivots)  # (b,)
    condition = largest * worst  # (b,)
    # Where the penalty alone keeps a direction from being singular, what the inputs have along it
    # is rounding, which it blows up: refinement cannot tell, since the factors have it as well.
    condition[(penalty * worst > 0.5) & (condition > DROWNED)] = torch.inf
    block = max(BLOCK, dims)
    for base in range(first, points - 1, block):
        end = min(base + block, points - 1)
        if base > first or penalty:
            seen = xs[:, :base]  # (b, i, d)
            gram = plus_identity(seen.mT @ seen, penalty)  # (b, d, d)
            factor = _solve_lower(cholesky(gram), _identity(gram))  # (b, d, d)
        _extend(xs[:, :end], ys[:, :end], penalty, refinements, factor, base, weights)
    return condition


def _start(
    a: Tensor, y: Tensor, penalty: float, refinements: int, weights: Tensor
) -> tuple[Tensor, Tensor]:
    """Fill the weights of the first m <= d prefixes; return L (b, m, m) and F (b, m, d).

    With a penalty, F is L^-1 (b, m, m). The squares of either sum to the trace of
    (A A' + penalty I)^-1.
    """
    m, dims = a.shape[1:]
    gram = plus_identity(a @ a.mT, penalty)  # (b, m, m)
    lower = cholesky(gram)  # (b, m, m)
    if penalty:
        # The penalty as one more input for each example: the rest is as without a penalty.
        a = torch.cat([a, penalty**0.5 * _identity(gram)], dim=2)  # (b, m, d + m)
    width = a.shape[2]
    solved = _solve_lower(lower, torch.cat([a, y], dim=2))  # (b, m, width + k)
    q, z = solved[..., :width], solved[..., width:]  # (b, m, width), (b, m, k)
    known = torch.cumsum(z[..., None] * q[:, :, None], dim=1)  # (b, m, k, width)
    if refinements:
        seen = _lower_ones(m, a)  # (m, m): prefix, example
        flat = known.flatten(1, 2)  # (b, m k, width)
        for _ in range(refinements):
            left = _residuals(flat, a, y, seen)  # (b, m k, m)
            flat += _masked(_solve_lower(lower, left.mT).mT, seen) @ q
    weights[:, 1 : m + 1] = known[..., :dims]
    if penalty:
        return lower, q[..., dims:] / penalty**0.5  # (b, m, m)
    return lower, torch.linalg.solve_triangular(lower.mT, q, upper=True)  # (b, m, d)


def _extend(
    xs: Tensor, ys: Tensor, penalty: float, refinements: int, factor: Tensor, base: int,
    weights: Tensor,
) -> None:  # fmt: skip
    """Fill the weights of the prefixes from the base, where F is `factor`, to all the examples."""
    _, end, dims = xs.shape
    new = xs[:, base:]  # (b, p, d)
    start = weights[:, base]  # (b, k, d)
    s = new @ factor.mT  # (b, p, d)
    lower = cholesky(plus_identity(s @ s.mT, 1.0))  # (b, p, p): C
    surprise = ys[:, base:] - new @ start.mT  # (b, p, k)
    solved = _solve_lower(lower, torch.cat([s, surprise], dim=2))  # (b, p, d + k)
    v = solved[..., :dims]  # (b, p, d)
    moves = solved[..., dims:, None] * (v @ factor)[:, :, None]  # (b, p, k, d)
    moves[:, 0] += start
    known = weights[:, base + 1 : end + 1]  # (b, p, k, d)
    torch.cumsum(moves, dim=1, out=known)
    if not refinements:
        return
    later = _lower_ones(end - base, xs)  # (p, p): prefix, example
    seen = torch.cat([later.new_ones(end - base, base), later], dim=1)  # (p, end)
    flat = known.flatten(1, 2)  # (b, p k, d)
    for _ in range(refinements):
        left = _residuals(flat, xs, ys, seen)  # (b, p k, end)
        gradient = (left @ xs - penalty * flat) @ factor.mT  # (b, p k, d)
        gradient -= _masked(gradient @ v.mT, later) @ v
        flat = flat + gradient @ factor
    known.copy_(flat.view_as(known))


def _residuals(weights: Tensor, a: Tensor, y: Tensor, seen: Tensor) -> Tensor:
    """What w leaves of y, for the examples that each prefix has seen, else zero: (b, p k, j)."""
    left = (weights @ a.mT).unflatten(1, (-1, y.shape[2]))  # (b, p, k, j)
    return ((y.mT[:, None] - left) * seen[:, None]).flatten(1, 2)


def _masked(values: Tensor, seen: Tensor) -> Tensor:
    """Values (b, p k, j) where each of the p prefixes has seen example j, else zero."""
    return (values.unflatten(1, (seen.shape[0], -1)) * seen[:, None]).flatten(1, 2)


def _lower_ones(size: int, like: Tensor) -> Tensor:
    return torch.ones(size, size, dtype=like.dtype, device=like.device).tril()


def _identity(like: Tensor) -> Tensor:
    return torch.eye(like.shape[1], dtype=like.dtype, device=like.device).expand_as(like)


def plus_identity(matrix: Tensor, amount: float) -> Tensor:
    """Add to the diagonals of (b, m, m), in place."""
    if amount:
        matrix.diagonal(dim1=1, dim2=2).add_(amount)
    return matrix


def cholesky(matrix: Tensor) -> Tensor:
    """The lower factor (b, m, m); NaN where the matrix is not positive definite."""
    lower, failed = torch.linalg.cholesky_ex(matrix)  # (b, m, m), (b,)
    return lower.masked_fill_((failed > 0)[:, None, None], torch.nan)


def _solve_lower(lower: Tensor, right: Tensor) -> Tensor:
    return torch.linalg.solve_triangular(lower, right, upper=False)
