"""A regressor that learns in context.

Shapes: N rows, d features, M contexts of m examples, q questions.
"""

from typing import Any, Literal, overload

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin
from sklearn.utils.validation import validate_data

from innerloop.core.errors import NotSupportedError
from innerloop.estimators.asking import Loops, ask, ask_by_loop
from innerloop.estimators.base import InContextEstimator
from innerloop.estimators.checked import refuse_text_and_gaps, refuse_text_targets
from innerloop.estimators.contexts import Projection, Selection, moments

Array = NDArray[np.float64]


class InContextRegressor(RegressorMixin, InContextEstimator):
    """Regression by a model that reads the examples and answers, without any training of its own.

    Args:
        model: the name of a pretrained model, the folder of a run or of a saved model, or a
            learner. A pickle holds a name or a folder as it is, and a learner with its weights.
        loops: how often the model's loop is run: None for as many as it was trained with, a whole
            number, or "converged" for as many as each context needs to stand still.
        contexts: how many contexts there are where one does not suffice, see below.
        selection: what happens to more rows than `max_rows`: "subsample" draws that many rows for
            each context, and every context answers; "nearest" makes clusters, takes the rows
            nearest to each centre, and a question is answered by the context of its nearest
            centre; "all" shows all rows at once, which no model was trained for.
        projection: what happens to more features than `max_features`: "principal" components, or
            a "random" projection of its own for each context.
        max_rows: examples per context; None for as many as the model was trained with.
        max_features: features per context; None for as many as the model was trained with.
        batch_size: questions per pass; None for 1024. No answer depends on it.
        random_state: of subsamples, clusters and random projections.
        device: where the model is computed.

    Several contexts: the prediction is the mean of theirs, the variance is the mean of their
    variances plus the variance of their means. All y equal, as with one row: that value, with
    a deviation of 0. Models compute in float64, whatever type they were trained in.
    """

    heads = ("regression", "gaussian")

    def __init__(
        self, model: Any = "tabular-regression", *, loops: Loops = None, contexts: int = 8,
        selection: Selection = "subsample", projection: Projection = "principal",
        max_rows: int | None = None, max_features: int | None = None,
        batch_size: int | None = None, random_state: Any = 0, device: str = "cpu",
    ) -> None:  # fmt: skip
        super().__init__(
            model, loops=loops, contexts=contexts, selection=selection, projection=projection,
            max_rows=max_rows, max_features=max_features, batch_size=batch_size,
            random_state=random_state, device=device,
        )  # fmt: skip

    def fit(self, X: Any, y: Any) -> "InContextRegressor":
        """Keep the examples, standardised; nothing is trained."""
        self._expect_settings()
        refuse_text_and_gaps(X)
        refuse_text_targets(y)
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        y = np.asarray(y, dtype=np.float64)  # (N,)
        self.contexts_ = self._keep(X, None)
        self.constant_ = y[0] if np.ptp(y) == 0 else None
        shown = y[self.contexts_.rows]  # (M, m)
        self.y_center_, self.y_scale_ = moments(shown, axis=1)  # (M, 1) each
        self.targets_ = ((shown - self.y_center_) / self.y_scale_)[..., None]  # (M, m, 1)
        return self

    @overload
    def predict(self, X: Any, return_std: Literal[False] = False) -> Array: ...
    @overload
    def predict(self, X: Any, return_std: Literal[True]) -> tuple[Array, Array]: ...
    def predict(self, X: Any, return_std: bool = False) -> Array | tuple[Array, Array]:
        """Predictions (q,), in one pass for all; with `return_std`, their deviations (q,) beside.

        The deviation is that of an output, noise included.
        """
        questions, source = self._questions(X), self._source()  # (q, d)
        if return_std and source.head != "gaussian":
            raise NotSupportedError(
                f"{source.learner.name} gives no deviations, only predictions: leave return_std "
                "out, or choose a model with the head 'gaussian', such as 'tabular-regression'."
            )
        if self.constant_ is not None:
            means, variances = np.full(len(questions), self.constant_), np.zeros(len(questions))
        else:
            means, variances = np.empty(len(questions)), np.empty(len(questions))  # (q,) each
            for which, asked, prompt in self._prompts(questions):
                answers = ask(source.learner, prompt, self.loops)  # (M', q') each
                own = answers.means * self.y_scale_[which] + self.y_center_[which]  # (M', q')
                means[asked] = own.mean(axis=0)
                if answers.variances is not None:
                    noise = answers.variances * self.y_scale_[which] ** 2  # (M', q')
                    variances[asked] = noise.mean(axis=0) + own.var(axis=0)
        return (means, np.sqrt(variances)) if return_std else means

    def predict_trajectory(self, X: Any) -> Array:
        """Predictions before the first loop and after each: (loops + 1, q).

        With loops="converged", until the slowest context stands still.
        """
        questions, source = self._questions(X), self._source()  # (q, d)
        if self.constant_ is not None:
            loops = self.loops if isinstance(self.loops, int) else source.learner.steps
            return np.full((loops + 1, len(questions)), self.constant_)
        loops = self._loops_of_trajectory(source, questions)
        found = np.empty((loops + 1, len(questions)))  # (loops + 1, q)
        for which, asked, prompt in self._prompts(questions):
            by_loop = ask_by_loop(source.learner, prompt, loops)  # (loops + 1, M', q')
            own = by_loop * self.y_scale_[which] + self.y_center_[which]  # (loops + 1, M', q')
            found[:, asked] = own.mean(axis=1)
        return found
