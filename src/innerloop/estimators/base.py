"""What the two estimators share: their settings, the table that they keep, and how they ask.

Shapes: N rows, d features, M contexts of m examples, p problems (one, or one per class), q
questions.
"""

import warnings
from collections.abc import Iterator
from typing import Any, ClassVar, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from innerloop.core.arguments import expect_count
from innerloop.core.chunks import slices
from innerloop.core.errors import NotSupportedError
from innerloop.core.prompt import Prompt
from innerloop.estimators.asking import Loops, expect_loops, loops_until_converged
from innerloop.estimators.checked import TableError, expect_choice, refuse_text_and_gaps
from innerloop.estimators.contexts import Contexts, Projection, Selection, choose_contexts, moments
from innerloop.estimators.source import Source, open_source
from innerloop.models.model import Head

Array = NDArray[np.float64]
QUESTIONS = 1024
"""Questions per pass, where a user does not say."""
MEMORY = 2**32
"""Bytes that one context may take: 4 GB."""


class InContextEstimator(BaseEstimator):
    """A trained model as an estimator: `fit` keeps examples, and the model learns from them anew.

    The table is standardised; a model of fixed size sees zeros after the last feature. What does
    not fit into one context makes several, whose answers are averaged.
    """

    heads: ClassVar[tuple[Head, ...]]
    """What the model's readout may mean."""
    loops: Loops
    selection: Selection
    projection: Projection
    contexts_: Contexts
    targets_: Array
    """(M, m, p): the outputs of the examples of each context."""

    def __init__(
        self, model: Any, *, loops: Loops, contexts: int, selection: Selection,
        projection: Projection, max_rows: int | None, max_features: int | None,
        batch_size: int | None, random_state: Any, device: str,
    ) -> None:  # fmt: skip
        self.model = model
        self.loops = loops
        self.contexts = contexts
        self.selection = selection
        self.projection = projection
        self.max_rows = max_rows
        self.max_features = max_features
        self.batch_size = batch_size
        self.random_state = random_state
        self.device = device

    def _source(self) -> Source:
        """The learner, once it is known to suit the estimator."""
        source = open_source(self.model, self.device)
        if source.head not in self.heads:
            raise NotSupportedError(
                f"{source.learner.name} has the head {source.head!r}, expected one of "
                f"{', '.join(map(repr, self.heads))}: choose another model for "
                f"{type(self).__name__}."
            )
        return source

    def _expect_settings(self) -> None:
        expect_loops(self.loops)
        expect_count("contexts", self.contexts)
        expect_choice("selection", self.selection, get_args(Selection))
        expect_choice("projection", self.projection, get_args(Projection))
        for name in ("max_rows", "max_features", "batch_size"):
            if self.get_params(deep=False)[name] is not None:
                expect_count(name, self.get_params(deep=False)[name])

    def _keep(self, X: Array, labels: NDArray[np.int64] | None) -> Contexts:
        """Standardise the table (N, d), and choose the contexts; labels are kept in proportion."""
        source = self._source()
        self.center_, self.scale_ = moments(X, axis=0)  # (1, d) each
        if self.selection == "all":
            _require_room(source, *X.shape)
        if source.dims is not None and X.shape[1] < source.dims and not source.knows_padding:
            warnings.warn(
                f"{source.learner.name} reads {source.dims} inputs and X has {X.shape[1]} features:"
                " zeros take the place of the others, which it was not trained with as far as is "
                "known, so its answers may be worse than a constant. Compare it with a "
                "DummyRegressor or a DummyClassifier.",
                stacklevel=3,
            )
        return choose_contexts(
            self._standardised(X), labels,
            most_rows=min(self.max_rows or source.rows, source.most_rows or len(X)),
            most_features=min(self.max_features or source.features, source.dims or X.shape[1]),
            dims=source.dims, number=self.contexts, selection=self.selection,
            projection=self.projection, random=check_random_state(self.random_state),
        )  # fmt: skip

    def _questions(self, X: Any) -> Array:
        """Rows to predict for, checked and standardised: (q, d)."""
        check_is_fitted(self)
        expect_loops(self.loops)
        refuse_text_and_gaps(X)
        checked = validate_data(self, X, reset=False, dtype=np.float64)  # (q, d)
        return self._standardised(np.asarray(checked))

    def _standardised(self, X: Array) -> Array:
        return (X - self.center_) / self.scale_  # (N, d)

    def _prompts(self, questions: Array) -> Iterator[tuple[slice, NDArray[np.int64], Prompt]]:
        """The contexts, the questions that they answer, and their prompts (M' p, m + 1, u).

        Each has some of the questions (q, d) at its end; together they have all, each in the
        prompts of its contexts and nowhere else.
        """
        kept, targets = self.contexts_, torch.as_tensor(self.targets_)  # targets (M, m, p)
        problems = targets.shape[2]
        for part in slices(len(questions), self.batch_size or QUESTIONS):
            for which, asked in kept.groups(questions[part]):
                inputs = kept.inputs(questions[part][asked], which)  # (M', q', u)
                xs = _repeated(kept.xs[which], problems)  # (M' p, m, u)
                ys = targets[which].mT.flatten(0, 1)[..., None]  # (M' p, m, 1)
                # The last point is a place for questions; what stands there is never read.
                prompt = Prompt(
                    xs=torch.nn.functional.pad(xs, (0, 0, 0, 1)),
                    ys=torch.nn.functional.pad(ys, (0, 0, 0, 1)),
                    queries=_repeated(inputs, problems)[:, None],  # (M' p, 1, q', u)
                )
                yield which, part.start + asked, prompt.to(device=self.device)

    def _loops_of_trajectory(self, source: Source, questions: Array) -> int:
        """The loops of `predict_trajectory`: until the slowest context has converged, if asked."""
        if self.loops == "converged":
            found = [loops_until_converged(source.learner, one)
                     for _, _, one in self._prompts(questions)]  # fmt: skip
            return max(found)
        return source.learner.steps if self.loops is None else self.loops

    def _members(self, answers: Array) -> Array:
        """Answers (.., M' p, q) by context and problem: (.., M', p, q)."""
        problems = self.targets_.shape[2]
        return answers.reshape(*answers.shape[:-2], -1, problems, answers.shape[-1])


def _repeated(values: Array, times: int) -> torch.Tensor:
    """Each of the first axis (M, ..) several times in a row: (M times, ..)."""
    return torch.as_tensor(np.ascontiguousarray(values)).repeat_interleave(times, dim=0)


def _require_room(source: Source, rows: int, features: int) -> None:
    """Refuse to show a model more rows at once than it, or the memory, has room for."""
    if source.most_rows is not None and rows > source.most_rows:
        raise TableError(
            f"selection='all' with {rows} rows, but {source.learner.name} reads "
            f"{source.most_rows} examples at most: choose 'subsample' or 'nearest'."
        )
    # One number, shown everywhere: a prompt of any size that takes no memory.
    one = torch.zeros(1, 1, 1)
    table = Prompt(
        xs=one.expand(1, rows + 1, source.dims or features), ys=one.expand(1, rows + 1, 1)
    )
    needed = source.learner.bytes_per_prompt(table)
    if needed > MEMORY:
        raise TableError(
            f"selection='all' with {rows} rows would take about {needed / 2**30:.0f} GB: choose "
            "'subsample' or 'nearest'."
        )
