"""Which rows and which features of a table each context shows to a model.

Shapes: N rows of the table, d features, M contexts of m rows and u inputs each, q questions.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Numbers = NDArray[np.int64]
Selection = Literal["all", "subsample", "nearest"]
Projection = Literal["principal", "random"]
SAMPLE = 4096
"""Rows that centres and principal components are computed from, at most."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Contexts:
    """The examples of every context, and how a question is put to it."""

    rows: Numbers
    """(M, m): the rows of the table that each context shows."""
    xs: Array
    """(M, m, u): their inputs, standardised within each context."""
    center: Array
    """(M, 1, u): what was subtracted for that."""
    scale: Array
    """(M, 1, u): what was divided by."""
    maps: Array | None
    """(M, d, u): features to inputs; None: the inputs are the features, and zeros after them."""
    centres: Array | None
    """(M, d): a question goes to the context of the nearest centre; None: to all of them."""

    def inputs(self, questions: Array, which: slice) -> Array:
        """Questions (q, d) as some of the contexts see them: (M', q, u)."""
        maps = None if self.maps is None else self.maps[which]
        inputs = _through(questions[None], maps, self.xs.shape[2])  # (M' or 1, q, u)
        return (inputs - self.center[which]) / self.scale[which]

    def groups(self, questions: Array) -> list[tuple[slice, Numbers]]:
        """The contexts, and the numbers of the questions (q, d) that each of them answers."""
        everything = np.arange(len(questions))  # (q,)
        if self.centres is None:
            return [(slice(0, len(self.xs)), everything)]
        nearest = _squared_distances(questions, self.centres).argmin(axis=1)  # (q,)
        chosen = [(slice(k, k + 1), everything[nearest == k]) for k in range(len(self.xs))]
        return [(which, asked) for which, asked in chosen if len(asked)]


def choose_contexts(
    xs: Array,
    labels: Numbers | None,
    *,
    most_rows: int,
    most_features: int,
    dims: int | None,
    number: int,
    selection: Selection,
    projection: Projection,
    random: np.random.RandomState,
) -> Contexts:
    """Contexts over a standardised table (N, d), whose classes are kept in proportion.

    One context where all rows fit in, and one for all features or for the principal components;
    otherwise `number` of them, each with rows, and a random projection, of its own.
    """
    total, features = xs.shape
    fits = selection == "all" or total <= most_rows
    projected = features > most_features
    several = number if not fits or (projected and projection == "random") else 1
    centres = None
    if fits:
        rows = np.tile(np.arange(total), (several, 1))  # (M, N)
    elif selection == "subsample":
        rows = np.stack([_subsample(total, labels, most_rows, random) for _ in range(several)])
    else:
        centres = _centres(xs, several, random)  # (M, d)
        rows = np.stack([_nearest_rows(xs, centre, most_rows) for centre in centres])
    maps = None
    if projected:
        maps = _projections(xs, most_features, len(rows), projection, random)  # (M, d, u)
    width = dims or (features if maps is None else maps.shape[2])
    shown = _through(xs[rows], maps, width)  # (M, m, u)
    center, scale = moments(shown, axis=1)  # (M, 1, u) each
    return Contexts(
        rows=rows, xs=(shown - center) / scale, center=center, scale=scale, maps=maps,
        centres=centres,
    )  # fmt: skip


def moments(values: Array, axis: int) -> tuple[Array, Array]:
    """Mean and deviation along an axis, which is kept; a deviation of 1 where nothing differs."""
    center = values.mean(axis=axis, keepdims=True)
    deviation = values.std(axis=axis, keepdims=True)
    # Equal values whose mean is rounded differ from it by about an ulp of the largest.
    tiny = 8 * np.finfo(np.float64).eps * np.abs(values).max(axis=axis, keepdims=True)
    return center, np.where(deviation > tiny, deviation, 1.0)


def _through(rows: Array, maps: Array | None, width: int) -> Array:
    """Rows (M or 1, n, d) through maps (M, d, u), if there are any, and padded: (M, n, width)."""
    inputs = rows if maps is None else rows @ maps  # (M, n, u)
    return np.pad(inputs, ((0, 0), (0, 0), (0, width - inputs.shape[2])))


def _subsample(
    total: int, labels: Numbers | None, number: int, random: np.random.RandomState
) -> Numbers:
    """Some rows (m,) without repetition; with labels (N,), as many of each class as there should.

    Every class has at least one row, as long as there are rows enough.
    """
    if labels is None:
        return random.choice(total, number, replace=False)
    order = random.permutation(total)  # (N,)
    counts = np.bincount(labels)  # (c,)
    shares = np.maximum(counts * number / total, 1)  # (c,)
    # The place of each row within its own class, over what the class may have: the first ones go
    # into the context, so that no class waits for another.
    place = np.empty(total)  # (N,)
    for label, share in enumerate(shares):
        own = order[labels[order] == label]
        place[own] = np.arange(len(own)) / share
    return order[np.argsort(place[order], kind="stable")[:number]]


def _centres(xs: Array, number: int, random: np.random.RandomState) -> Array:
    """The centres (M, d) of clusters of the table's rows."""
    sample = xs[random.choice(len(xs), min(len(xs), SAMPLE), replace=False)]
    distinct = len(np.unique(sample, axis=0))
    from sklearn.cluster import KMeans  # where it is used: half as long again to import as the rest

    means = KMeans(n_clusters=min(number, distinct), n_init="auto", random_state=random).fit(sample)
    return means.cluster_centers_


def _nearest_rows(xs: Array, centre: Array, number: int) -> Numbers:
    """The rows (m,) nearest to a centre (d,)."""
    distances = _squared_distances(xs, centre[None])[:, 0]  # (N,)
    return np.argpartition(distances, number - 1)[:number]


def _squared_distances(xs: Array, centres: Array) -> Array:
    """Squared distances (N, M) of rows (N, d) to centres (M, d), one centre at a time."""
    return np.stack([((xs - centre) ** 2).sum(axis=1) for centre in centres], axis=1)


def _projections(
    xs: Array, width: int, number: int, kind: Projection, random: np.random.RandomState
) -> Array:
    """Maps (M, d, u) to inputs of variance 1: principal components, or one random map each."""
    total, features = xs.shape
    sample = xs[random.choice(total, min(total, SAMPLE), replace=False)]  # (s, d)
    if kind == "principal":
        from sklearn.decomposition import PCA  # as KMeans

        fitted = PCA(min(width, *sample.shape), random_state=random).fit(sample)
        maps = np.asarray(fitted.components_).T[None]  # (1, d, u)
    else:
        drawn = random.standard_normal((number, features, width))  # (M, d, u)
        maps = np.linalg.qr(drawn).Q  # (M, d, u)
    deviation = np.einsum("sd,kdu->ksu", sample, maps).std(axis=1, keepdims=True)  # (M, 1, u)
    known = deviation > 1e-9 * np.maximum(deviation.max(axis=2, keepdims=True), 1e-300)
    scaled = np.where(known, maps / np.where(known, deviation, 1), 0)  # (M, d, u)
    return np.repeat(scaled, number, axis=0) if len(scaled) < number else scaled
