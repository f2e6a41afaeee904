"""Greedy regression trees: all prompts and prefixes at once, one level after the other."""

from dataclasses import dataclass as record
from typing import Annotated, Any

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from pydantic.dataclasses import dataclass
from torch import Tensor

from innerloop.core.chunks import rows_within_budget, slices
from innerloop.core.config import STRICT
from innerloop.core.learner import OneShot, Traits
from innerloop.core.prompt import Prompt
from innerloop.learners.prefix import require_finite
from innerloop.learners.units import output_units

Reals = NDArray[np.float64]
Places = NDArray[np.intp]
Flags = NDArray[np.bool_]

_BYTES = 2**23
"""Numbers sorted at once. Far below the memory budget: what stays in the cache is faster."""
_EQUAL = 1e-9
"""Splits whose gains differ by less are equal; in units of a node's largest deviation, squared.
Two features that divide a node alike differ by rounding only, and rounding must not choose."""


@dataclass(frozen=True, config=STRICT)
class GreedyTree(OneShot):
    """A greedy regression tree (CART).

    A regression tree per prefix, grown greedily (CART); a baseline of Garg et al. (2022). Each node
    takes the feature and threshold that leave the least squared error, summed over the outputs; it
    is split as long as its outputs differ and some feature does, down to `depth` (None: no limit).
    Thresholds lie midway between neighbouring values; a leaf answers its mean, an empty prefix 0.
    These are scikit-learn's rules, with two differences: equally good splits go to the lowest
    feature, then to the lowest threshold (scikit-learn draws one), and values are told apart in
    float64 (scikit-learn rounds inputs to float32). With `signs` the tree sees only the signs of
    the inputs.
    """

    depth: Annotated[int, Field(ge=1)] | None = Field(
        default=4, description="the most levels of the tree; None: no limit"
    )
    signs: bool = Field(default=False, description="see only the signs of the inputs")
    traits = Traits(order_invariant=True)
    differentiable = False

    def init(self, prompt: Prompt) -> Tensor:
        """The answers, for a few prompts at a time; on the CPU, where ragged arrays are quick."""
        inputs, asked = _array(prompt.xs), _array(prompt.asked)  # (B, n, d), (B, n, q, d)
        if self.signs:
            inputs, asked = np.sign(inputs), np.sign(asked)
        # In units, so that sums of extreme outputs neither overflow nor lose digits.
        units = output_units(prompt).amax(dim=1)[:, None, None]  # (B, 1, 1)
        outputs = _array(prompt.ys.double() / units)  # (B, n, k)
        answers = np.zeros((*asked.shape[:3], prompt.outputs))  # (B, n, q, k)
        rows = rows_within_budget(8 * prompt.dims * prompt.points**2, at_most=_BYTES)
        for part in slices(prompt.batch if prompt.points > 1 else 0, rows):
            _answer(inputs[part], outputs[part], asked[part], answers[part], self.depth)
        given = torch.from_numpy(answers).to(prompt.xs.device) * units[..., None]  # (B, n, q, k)
        return require_finite(self.name, prompt, given.reshape(prompt.prediction_shape))


@record(slots=True)
class _Level:
    """The nodes of one depth, of all trees, that can still be split.

    An entry is one example in the data set of one prefix; N nodes hold A entries, and lie one
    after the other along A.
    """

    order: Places
    """(d, A): for each feature the entries, sorted by node and by the feature's value."""
    sizes: Places
    """(N,): entries of each node."""
    means: Reals
    """(N, k): mean output of each node."""
    waiting: Places
    """(W,): the questions that have come to these nodes."""
    place: Places
    """(W,): the node of each."""

    @property
    def starts(self) -> Places:
        """(N,): where each node begins along A."""
        return np.cumsum(self.sizes) - self.sizes


@record(slots=True)
class _Splits:
    """For each node of a level: whether it can be split, and where."""

    possible: Flags
    feature: Places
    threshold: Reals


@record(slots=True)
class _Data:
    """The examples that the trees are grown from, and the questions."""

    inputs: Reals
    """(B n, d)."""
    values: Reals | None
    """(d, E): the inputs of the entries, where some are equal; None where all differ."""
    outputs: Reals
    """(E, k): the outputs of the entries."""
    source: Places
    """(E,): the row of each entry's input."""
    asked: Reals
    """(Q, d)."""
    answers: Reals
    """(Q, k): written as the trees grow."""


def _answer(inputs: Reals, outputs: Reals, asked: Reals, answers: Reals, depth: int | None) -> None:
    """Grow the trees of all prefixes and write their answers (B, n, q, k)."""
    data, level = _plant(inputs, outputs, asked, answers)
    grown = 0
    while level.order.size and (depth is None or grown < depth):
        grown += 1
        level = _descend(data, level, _best_splits(data, level), last=grown == depth)


def _plant(inputs: Reals, outputs: Reals, asked: Reals, answers: Reals) -> tuple[_Data, _Level]:
    """The roots: one for each prefix with an example, prefixes 1 .. n-1 of each prompt in turn."""
    batch, points, dims = inputs.shape
    example = np.tril_indices(points, -1)[1]  # (n (n-1) / 2,): 0, 0 1, 0 1 2, ..
    source = (points * np.arange(batch)[:, None] + example).ravel()  # (E,)
    sizes = np.tile(np.arange(1, points), batch)  # (B (n-1),)
    entries = outputs.reshape(batch * points, -1)[source]  # (E, k)
    means, alive = _summarise(entries, sizes)  # (B (n-1), k), (B (n-1),)
    number = asked.shape[2]
    answers[:, 1:] = means.reshape(batch, points - 1, 1, -1)

    # A prefix's sorted order is that of the whole prompt, without the points after it.
    features = np.ascontiguousarray(inputs.transpose(2, 0, 1))  # (d, B, n)
    sorting = features.argsort(axis=2, kind="stable")[:, :, None]  # (d, B, 1, n)
    length = np.arange(1, points)[:, None]  # (n-1, 1)
    begins = (np.cumsum(sizes) - sizes).reshape(batch, points - 1, 1)  # (B, n-1, 1)
    member = (sorting < length) & alive.reshape(batch, points - 1, 1)  # (d, B, n-1, n)
    order = (begins + sorting).ravel().take(np.flatnonzero(member)).reshape(dims, -1)  # (d, A)

    ordered = np.sort(features, axis=2)  # (d, B, n)
    repeated = bool((ordered[..., 1:] == ordered[..., :-1]).any())
    rows = inputs.reshape(batch * points, dims)  # (B n, d)
    data = _Data(
        inputs=rows,
        values=rows.T.take(source, axis=1) if repeated else None,
        outputs=entries,
        source=source,
        asked=asked.reshape(-1, dims),
        answers=answers.reshape(batch * points * number, -1),
    )
    question = np.arange(batch * points * number).reshape(batch, points, number)[:, 1:].ravel()
    root = np.repeat(np.arange(len(sizes)), number)  # (Q - B q,)
    waiting, place = _still_waiting(question, root, alive)
    return data, _Level(order, sizes[alive], means[alive], waiting, place)


def _summarise(outputs: Reals, sizes: Places) -> tuple[Reals, Flags]:
    """Means (N, k) of nodes that lie one after the other, and whether they could be split (N,)."""
    starts = np.cumsum(sizes) - sizes  # (N,)
    means = np.add.reduceat(outputs, starts) / sizes[:, None]  # (N, k)
    # A second pass takes away the rounding of large offsets.
    rest = outputs - means.repeat(sizes, axis=0)  # (A, k)
    means += np.add.reduceat(rest, starts) / sizes[:, None]
    lowest, highest = (f.reduceat(outputs, starts) for f in (np.minimum, np.maximum))  # (N, k)
    return means, np.any(lowest < highest, axis=1)


def _best_splits(data: _Data, level: _Level) -> _Splits:
    """The split of each node that lowers the squared error most."""
    gains = _gains(data, level)  # (d, A)
    active = gains.shape[1]
    best = np.maximum.reduceat(gains.max(axis=0), level.starts)  # (N,)
    possible = best >= 0  # (N,)
    bar = np.where(possible, best - _EQUAL, np.inf)  # (N,)
    hits = np.flatnonzero(gains >= bar.repeat(level.sizes))  # rising: by feature, then by value
    node = np.arange(len(best)).repeat(level.sizes)[hits % active]
    first = np.zeros(len(best), dtype=np.intp)  # (N,)
    first[node[::-1]] = hits[::-1]  # of several hits of a node the last one written stays
    feature, position = np.divmod(first, active)  # (N,)
    below, above = (
        data.inputs[data.source[level.order[feature, at]], feature]
        for at in (position, np.minimum(position + 1, active - 1))
    )  # (N,), (N,)
    middle = below / 2 + above / 2  # (N,)
    # Between neighbouring floating-point numbers the middle may round up to the upper one.
    return _Splits(possible, feature, np.where(middle < above, middle, below))


def _gains(data: _Data, level: _Level) -> Reals:
    """How much less squared error each split leaves: (d, A); -1 where there is none.

    Entry (f, a) splits after the a-th entry. With outputs that sum to 0 in a node of m entries, of
    which l go left with sum s, the gain is s^2 m / (l (m - l)).
    """
    sizes = level.sizes.repeat(level.sizes)  # (A,)
    left = np.arange(1, len(sizes) + 1) - level.starts.repeat(level.sizes)  # (A,)
    factor = sizes / np.maximum(left * (sizes - left), 1)  # (A,)
    first = level.order[0]  # (A,)
    centred = data.outputs[first] - level.means.repeat(level.sizes, axis=0)  # (A, k)
    # The sums run on over all nodes: each node must add up to 0, also where means are rounded,
    # and none may outweigh the others, so the unit is its largest deviation.
    left_over = np.add.reduceat(centred, level.starts) / level.sizes[:, None]  # (N, k)
    centred -= left_over.repeat(level.sizes, axis=0)
    largest = np.maximum.reduceat(np.abs(centred).max(axis=1), level.starts)  # (N,)
    centred /= largest.repeat(level.sizes)[:, None]
    gains: Reals | None = None
    table = np.empty(len(data.source))  # (E,)
    for output in range(centred.shape[1]):
        table[first] = centred[:, output]
        sums = table.take(level.order)  # (d, A)
        np.cumsum(sums, axis=1, out=sums)
        sums *= sums
        gains = sums if gains is None else np.add(gains, sums, out=gains)
    assert gains is not None
    gains *= factor
    gains[:, np.cumsum(level.sizes) - 1] = -1
    if data.values is not None:
        offset = data.values.shape[1] * np.arange(len(gains))[:, None]  # (d, 1)
        value = data.values.take(level.order + offset)  # (d, A)
        gains[:, :-1][value[:, 1:] == value[:, :-1]] = -1
    return gains


def _descend(data: _Data, level: _Level, splits: _Splits, *, last: bool) -> _Level:
    """Send entries and questions to the children, answer the questions, keep who can go on."""
    number = int(splits.possible.sum())  # nodes that split; their children: left ones, then right
    node = np.arange(len(level.sizes)).repeat(level.sizes)  # (A,)
    first = level.order[0]  # (A,)
    value = data.inputs[data.source[first], splits.feature[node]]  # (A,)
    right = value > splits.threshold[node]  # (A,)
    stays = splits.possible[node]  # (A,)
    sides = [first[stays & ~right], first[stays & right]]
    to_left = np.add.reduceat(~right, level.starts, dtype=np.intp)[splits.possible]
    sizes = np.concatenate([to_left, level.sizes[splits.possible] - to_left])  # (2 N',)
    means, alive = _summarise(data.outputs[np.concatenate(sides)], sizes)  # (2 N', k), (2 N',)

    moves = splits.possible[level.place]  # (W,)
    waiting, place = level.waiting[moves], level.place[moves]  # (W',), (W',)
    beyond = data.asked[waiting, splits.feature[place]] > splits.threshold[place]  # (W',)
    child = (np.cumsum(splits.possible) - 1)[place] + number * beyond  # (W',)
    data.answers[waiting] = means[child]
    waiting, place = _still_waiting(waiting, child, alive)

    order = level.order[:, :0]
    if not last:
        going = alive.repeat(sizes)  # (A',)
        cut = len(sides[0])
        parts = [
            _keep(level.order, side[kept], len(data.source))
            for side, kept in zip(sides, (going[:cut], going[cut:]), strict=True)
        ]
        order = np.concatenate(parts, axis=1)  # (d, A'')
    return _Level(order, sizes[alive], means[alive], waiting, place)


def _keep(order: Places, entries: Places, total: int) -> Places:
    """The order (d, A') of some of its entries (A',)."""
    wanted = np.zeros(total, dtype=bool)  # (E,)
    wanted[entries] = True
    return order.ravel().take(np.flatnonzero(wanted.take(order))).reshape(len(order), -1)


def _still_waiting(questions: Places, nodes: Places, alive: Flags) -> tuple[Places, Places]:
    """The questions in nodes that can be split, and the places of those nodes among such."""
    goes = alive[nodes]
    return questions[goes], (np.cumsum(alive) - 1)[nodes[goes]]


def _array(values: Tensor) -> Any:
    return values.detach().double().cpu().numpy()
