"""Classical learners in exact rational arithmetic: no rounding, no overflow, one prefix at a time.

A vector is a list of fractions, a matrix a list of rows. Square roots and exponentials, which are
not rational, are taken by mpmath to `DIGITS` digits; its exponents have no end, either.
"""

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import mpmath

DIGITS = 60
Vector = list[Fraction]
Matrix = list[Vector]
Weights = Callable[[Matrix, Vector], Vector]
"""The weights (d,) of inputs (i, d) and outputs (i,), at least one of them."""


def dot(a: Vector, b: Vector) -> Fraction:
    return sum((x * y for x, y in zip(a, b, strict=True)), Fraction(0))


def transposed(a: Matrix) -> Matrix:
    return [list(column) for column in zip(*a, strict=True)]


def product(a: Matrix, b: Matrix) -> Matrix:
    columns = transposed(b)
    return [[dot(row, column) for column in columns] for row in a]


def applied(a: Matrix, v: Vector) -> Vector:
    return [dot(row, v) for row in a]


def plus(a: Vector, b: Vector, factor: Fraction | int = 1) -> Vector:
    return [x + factor * y for x, y in zip(a, b, strict=True)]


def reduced(a: Matrix) -> tuple[Matrix, list[int]]:
    """The reduced row echelon form without its zero rows, and the columns of its pivots."""
    rows, pivots = [list(row) for row in a], list[int]()
    for column in range(len(a[0])):
        at = len(pivots)
        found = next((r for r in range(at, len(rows)) if rows[r][column]), None)
        if found is None:
            continue
        rows[at], rows[found] = rows[found], rows[at]
        rows[at] = [value / rows[at][column] for value in rows[at]]
        for r in range(len(rows)):
            if r != at and rows[r][column]:
                rows[r] = plus(rows[r], rows[at], -rows[r][column])
        pivots.append(column)
    return rows[: len(pivots)], pivots


def solved(a: Matrix, v: Vector) -> Vector:
    """The solution of a regular system."""
    rows, pivots = reduced([[*row, value] for row, value in zip(a, v, strict=True)])
    assert pivots == list(range(len(a)))
    return [row[-1] for row in rows]


def gram(x: Matrix) -> Matrix:
    return product(transposed(x), x)


def plus_diagonal(a: Matrix, amount: Fraction) -> Matrix:
    return [[v + amount * (i == j) for j, v in enumerate(row)] for i, row in enumerate(a)]


def fraction(value: Any) -> Fraction:
    """An mpmath number as it is; zero where it is far below all floating-point numbers."""
    sign, mantissa, exponent, _ = value._mpf_
    if exponent < -20_000:  # a kernel of far points, whose exponent alone may fill the memory
        return Fraction(0)
    power = Fraction(2) ** exponent
    return (-1) ** sign * int(mantissa) * power


def real(value: Fraction) -> Any:
    """A fraction as an mpmath number."""
    return mpmath.mpf(value.numerator) / mpmath.mpf(value.denominator)


def largest_eigenvalue(symmetric: Matrix) -> Fraction:
    with mpmath.workdps(DIGITS):
        values = mpmath.eigsy(
            mpmath.matrix([[real(v) for v in row] for row in symmetric]), eigvals_only=True
        )
        return fraction(max(values))


def root(value: Fraction) -> Fraction:
    with mpmath.workdps(DIGITS):
        return fraction(mpmath.sqrt(real(value)))


def least_squares(x: Matrix, y: Vector) -> Vector:
    """The solution of least norm, from X = F C: C' (C C')^-1 (F' F)^-1 F' y."""
    c, pivots = reduced(x)
    if not pivots:
        return [Fraction(0)] * len(x[0])
    f = [[row[p] for p in pivots] for row in x]
    inner = solved(gram(f), applied(transposed(f), y))
    return applied(transposed(c), solved(product(c, transposed(c)), inner))


def ridge(penalty: float) -> Weights:
    def weights(x: Matrix, y: Vector) -> Vector:
        system = plus_diagonal(gram(x), Fraction(penalty))
        return solved(system, applied(transposed(x), y))

    return weights


def averaging(x: Matrix, y: Vector) -> Vector:
    return [value / len(x) for value in applied(transposed(x), y)]


def descent(
    steps: int, size: float | None, *, average: bool = False, momentum: float = 0.0
) -> Weights:
    def weights(x: Matrix, y: Vector) -> Vector:
        w = before = [Fraction(0)] * len(x[0])
        if not any(map(any, x)):
            return w
        rate = 1 / largest_eigenvalue(gram(x)) if size is None else Fraction(size)
        rate = rate / len(x) if average else rate
        for _ in range(steps):
            downhill = applied(transposed(x), plus(y, applied(x, w), -1))
            moved = plus(plus(w, downhill, rate), plus(w, before, -1), Fraction(momentum))
            w, before = moved, w
        return w

    return weights


def online(size: float | None, penalty: float) -> Weights:
    def weights(x: Matrix, y: Vector) -> Vector:
        w = [Fraction(0)] * len(x[0])
        for one, target in zip(x, y, strict=True):
            if size is None and not any(one):
                continue
            rate = 1 / dot(one, one) if size is None else Fraction(size)
            error = dot(one, w) - target
            gradient = plus([value * error for value in one], w, Fraction(penalty))
            w = plus(w, gradient, -rate)
        return w

    return weights


def newton(steps: int, start: str | float) -> Weights:
    def weights(x: Matrix, y: Vector) -> Vector:
        s = gram(x)
        if not any(map(any, s)):
            return [Fraction(0)] * len(s)
        squared = product(s, s)
        if isinstance(start, float):
            alpha = Fraction(start)
        elif start == "paper":
            alpha = 2 / largest_eigenvalue(squared)
        else:
            alpha = 1 / root(sum((dot(row, row) for row in squared), Fraction(0)))
        m = [[alpha * value for value in row] for row in s]
        for _ in range(steps):
            m = [
                plus([2 * v for v in a], b, -1)
                for a, b in zip(m, product(product(m, s), m), strict=True)
            ]
        return applied(m, applied(transposed(x), y))

    return weights


def conjugate_gradient(steps: int) -> Weights:
    def weights(x: Matrix, y: Vector) -> Vector:
        w = [Fraction(0)] * len(x[0])
        direction = gradient = applied(transposed(x), y)
        for _ in range(steps):
            if not any(gradient):
                break
            across = applied(x, direction)
            w = plus(w, direction, dot(gradient, gradient) / dot(across, across))
            new = applied(transposed(x), plus(y, applied(x, w), -1))
            direction = plus(new, direction, dot(new, new) / dot(gradient, gradient))
            gradient = new
        return w

    return weights


def prefixes(x: Matrix, y: Vector) -> Iterator[tuple[Matrix, Vector, Vector]]:
    """The examples of each prefix but the empty one, and its question."""
    return ((x[:i], y[:i], x[i]) for i in range(1, len(x)))


def kernel_ridge(kernel: Callable[[Vector, Vector], Any], penalty: float) -> Any:
    """The answer of kernel ridge regression, for a kernel in mpmath; 1e-12 of k(x, x) is added."""

    def answer(x: Matrix, y: Vector, question: Vector) -> Fraction:
        with mpmath.workdps(DIGITS):
            system = mpmath.matrix([[_seen(kernel(a, b)) for b in x] for a in x])
            for i in range(len(x)):
                system[i, i] += mpmath.mpf(penalty) + mpmath.mpf(1e-12) * system[i, i]
            alpha = mpmath.lu_solve(system, mpmath.matrix([real(value) for value in y]))
            across = (_seen(kernel(a, question)) for a in x)
            return fraction(mpmath.fsum(k * c for k, c in zip(across, alpha, strict=True)))

    return answer


def _seen(value: Any) -> Any:
    """Zero for what is far below all floating-point numbers: sums with it would have no end."""
    return value if abs(value) > mpmath.mpf(10) ** -5000 else mpmath.mpf(0)


def distance(a: Vector, b: Vector) -> Any:
    difference = plus(a, b, -1)
    return mpmath.sqrt(real(dot(difference, difference)))


def neighbors(k: int, by_distance: bool) -> Any:
    def answer(x: Matrix, y: Vector, question: Vector) -> Fraction:
        squares = [dot(d, d) for d in (plus(one, question, -1) for one in x)]
        nearest = sorted(range(len(x)), key=lambda j: squares[j])[:k]
        if by_distance and squares[nearest[0]] == 0:
            nearest = [j for j in nearest if squares[j] == 0]
        inverse = by_distance and squares[nearest[0]] > 0
        counts = [1 / root(squares[j]) if inverse else Fraction(1) for j in nearest]
        return sum((c * y[j] for c, j in zip(counts, nearest, strict=True)), Fraction(0)) / sum(
            counts
        )

    return answer


def off_optimum(x: Matrix, y: Vector, w: Vector, absolute: Fraction, squared: Fraction) -> Fraction:
    """How far w is from minimising |y - X w|^2 / 2 + absolute |w|_1 + squared |w|^2 / 2.

    In parts of |x| |y|, or of the penalty on |w|_1 if that is more.
    """
    gradient = plus(applied(transposed(x), plus(y, applied(x, w), -1)), w, -squared)
    off = [
        max(abs(g) - absolute, Fraction(0)) if v == 0 else abs(g - absolute * (1 if v > 0 else -1))
        for g, v in zip(gradient, w, strict=True)
    ]
    largest = max((abs(v) for row in x for v in row), default=Fraction(0))
    size = max(absolute, largest * max(map(abs, y)))
    return max(off) / size if size else max(off)


def network(hidden: Matrix, output: Matrix, steps: int, rate: float) -> Any:
    """The answer of a network with one output after steps of Adam; biases are the last columns."""

    def answer(x: Matrix, y: Vector, question: Vector) -> Fraction:
        with mpmath.workdps(DIGITS):
            a = [[real(v) for v in row] for row in hidden]
            b = [real(v) for v in output[0]]
            mean = [[mpmath.mpf(0)] * 2 for _ in range(len(a) * len(a[0]) + len(b))]

            def units(one: list[Any]) -> list[Any]:
                inner = (mpmath.fdot(row, [*one, 1]) for row in a)
                return [max(value, mpmath.mpf(0)) for value in inner]

            for k in range(steps):
                slopes = [mpmath.mpf(0)] * len(mean)
                for one, target in zip(x, y, strict=True):
                    point = [real(v) for v in one]
                    active = units(point)
                    left = 2 * (mpmath.fdot(b, [*active, 1]) - real(target)) / len(x)
                    back = [left * c * (u > 0) for c, u in zip(b, active, strict=False)]
                    parts = [r * v for r in back for v in [*point, 1]] + [
                        left * u for u in [*active, 1]
                    ]
                    slopes = [s + p for s, p in zip(slopes, parts, strict=True)]
                moves: list[Any] = []
                for both, slope in zip(mean, slopes, strict=True):
                    both[0] = mpmath.mpf(0.9) * both[0] + (1 - mpmath.mpf(0.9)) * slope
                    both[1] = mpmath.mpf(0.999) * both[1] + (1 - mpmath.mpf(0.999)) * slope**2
                    first = both[0] / (1 - mpmath.mpf(0.9) ** (k + 1))
                    second = mpmath.sqrt(both[1] / (1 - mpmath.mpf(0.999) ** (k + 1)))
                    moves.append(mpmath.mpf(rate) * first / (second + mpmath.mpf(1e-8)))
                width = len(a[0])
                a = [
                    [v - moves[i * width + j] for j, v in enumerate(row)] for i, row in enumerate(a)
                ]
                b = [v - m for v, m in zip(b, moves[len(a) * width :], strict=True)]
            asked = units([real(v) for v in question])
            return fraction(mpmath.fdot(b, [*asked, 1]))

    return answer
