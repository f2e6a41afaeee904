"""What studies of this paper share: criteria, names, and small pieces of statistics and tables."""

from torch import Tensor

from innerloop.studies.claim import at_least, at_most

APART = 1.25
"""Two seeds of one model differ by about a quarter: less is no difference."""
SEEDS = "two seeds of one model differ by about a quarter"
HIGHER, LOWER, ALIKE = at_least(APART, SEEDS), at_most(1 / APART, SEEDS), at_most(APART, SEEDS)
"""What ratios of errors must be for the first to be larger, smaller, or no larger."""

KINDS = ("looped", "standard")
TITLES = {
    "sparse": "sparse linear functions",
    "tree": "decision trees",
    "network": "two-layer networks",
}
"""The families of section 5.4."""


def geometric_mean(ratios: Tensor) -> Tensor:
    """The mean of ratios (.., m) by their logarithms: (..)."""
    return ratios.log().mean(dim=-1).exp()


def shown_loops(last: int, trained: int) -> list[int]:
    """Every loop at first, then fewer and fewer, always the trained one: what a table has."""
    steps = {*range(min(20, last) + 1), *range(20, min(40, last) + 1, 2), *range(40, last + 1, 10)}
    return sorted({*steps, trained, last})
