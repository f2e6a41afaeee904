"""A classifier that learns in context.

Shapes: N rows, d features, M contexts of m examples, c classes, p = c problems (1 for two classes),
each asked twice, q questions.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from innerloop.estimators.asking import Loops, ask, ask_by_loop
from innerloop.estimators.base import InContextEstimator
from innerloop.estimators.checked import TableError, refuse_text_and_gaps
from innerloop.estimators.contexts import Projection, Selection

Array = NDArray[np.float64]
MOST_CLASSES = 10
"""One against the rest is one problem per class, in which the class becomes rarer and rarer."""
NEARLY_0 = 1e-12
"""A probability is kept so far from 0 and 1, where its logarithm is taken."""


class InContextClassifier(ClassifierMixin, InContextEstimator):
    """Classification by a model that reads the examples and answers, without training of its own.

    Args:
        model: the name of a pretrained model, the folder of a run or of a saved model, or a
            learner. A pickle holds a name or a folder as it is, and a learner with its weights.
        loops: how often the model's loop is run: None for as many as it was trained with, a whole
            number, or "converged" for as many as each context needs to stand still.
        contexts: how many contexts there are where one does not suffice, see below.
        selection: what happens to more rows than `max_rows`: "subsample" draws that many rows for
            each context, classes in proportion, and every context answers; "nearest" makes
            clusters, takes the rows nearest to each centre, and a question is answered by the
            context of its nearest centre; "all" shows all rows at once.
        projection: what happens to more features than `max_features`: "principal" components, or
            a "random" projection of its own for each context.
        max_rows: examples per context; None for as many as the model was trained with.
        max_features: features per context; None for as many as the model was trained with.
        batch_size: questions per pass; None for 1024. No answer depends on it.
        random_state: of subsamples, clusters and random projections.
        device: where the model is computed.

    Every problem is asked twice, with the classes exchanged the second time, so that it does not
    matter which is called positive. The probability is the mean over both and over contexts. Three
    to ten classes: each against the rest, probabilities divided by their sum. One class, as with
    one row: that class, with probability 1. A model for regression sees labels -1 and 1.
    """

    heads = ("binary", "regression", "gaussian")

    def __init__(
        self, model: Any = "tabular-classification", *, loops: Loops = None, contexts: int = 8,
        selection: Selection = "subsample", projection: Projection = "principal",
        max_rows: int | None = None, max_features: int | None = None,
        batch_size: int | None = None, random_state: Any = 0, device: str = "cpu",
    ) -> None:  # fmt: skip
        super().__init__(
            model, loops=loops, contexts=contexts, selection=selection, projection=projection,
            max_rows=max_rows, max_features=max_features, batch_size=batch_size,
            random_state=random_state, device=device,
        )  # fmt: skip

    def fit(self, X: Any, y: Any) -> "InContextClassifier":
        """Keep the examples, standardised; nothing is trained."""
        self._expect_settings()
        refuse_text_and_gaps(X)
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        self.classes_, labels = np.unique(y, return_inverse=True)  # (c,), (N,)
        if len(self.classes_) > MOST_CLASSES:
            raise TableError(
                f"y has {len(self.classes_)} classes, expected at most {MOST_CLASSES}: join the "
                "rare ones, or, for numbers, take an InContextRegressor."
            )
        self.contexts_ = self._keep(X, labels)
        shown = labels[self.contexts_.rows]  # (M, m)
        problems = [1] if len(self.classes_) == 2 else range(len(self.classes_))
        signs = np.stack([np.where(shown == k, 1.0, -1.0) for k in problems], axis=2)  # (M, m, p)
        self.targets_ = np.concatenate([signs, -signs], axis=2)  # (M, m, 2 p)
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable class of each row: (q,)."""
        best = self.predict_proba(X).argmax(axis=1)  # (q,)
        return self.classes_[best]

    def predict_proba(self, X: Any) -> Array:
        """Probabilities (q, c) of the classes, in the order of `classes_`."""
        return self._by_class(self._against_rest(X))

    def decision_function(self, X: Any) -> Array:
        """Log-odds (q,) of the second of two classes, or (q, c) of each class against the rest."""
        rest = self._against_rest(X).clip(NEARLY_0, 1 - NEARLY_0)  # (q, p)
        odds = np.log(rest) - np.log1p(-rest)  # (q, p)
        return odds[:, 0] if odds.shape[1] == 1 else odds

    def predict_trajectory(self, X: Any) -> NDArray[Any]:
        """The most probable class before the first loop and after each: (loops + 1, q).

        With loops="converged", until the slowest context stands still.
        """
        best = self.predict_proba_trajectory(X).argmax(axis=2)  # (loops + 1, q)
        return self.classes_[best]

    def predict_proba_trajectory(self, X: Any) -> Array:
        """Probabilities before the first loop and after each: (loops + 1, q, c)."""
        questions, source = self._questions(X), self._source()  # (q, d)
        loops = self._loops_of_trajectory(source, questions)
        found = np.ones((loops + 1, len(questions), self._problems))  # (loops + 1, q, p)
        if len(self.classes_) > 1:
            for _, asked, prompt in self._prompts(questions):
                by_loop = ask_by_loop(source.learner, prompt, loops)  # (loops + 1, M' 2p, q')
                found[:, asked] = self._probabilities(by_loop)
        return self._by_class(found)

    @property
    def _problems(self) -> int:
        """One for two classes, else one per class."""
        return self.targets_.shape[2] // 2

    def _against_rest(self, X: Any) -> Array:
        """Probabilities (q, p) of each problem's class, against all others."""
        questions, source = self._questions(X), self._source()  # (q, d)
        found = np.ones((len(questions), self._problems))  # (q, p)
        if len(self.classes_) > 1:
            for _, asked, prompt in self._prompts(questions):
                found[asked] = self._probabilities(ask(source.learner, prompt, self.loops).means)
        return found

    def _probabilities(self, labels: Array) -> Array:
        """From expected labels (.., M' 2p, q) in -1 .. 1 to probabilities (.., q, p)."""
        shares = (1 + self._members(labels).clip(-1, 1)) / 2  # (.., M', 2p, q)
        plain, exchanged = np.split(shares, 2, axis=-2)  # (.., M', p, q) each
        return ((plain + 1 - exchanged) / 2).mean(axis=-3).swapaxes(-1, -2)  # (.., q, p)

    def _by_class(self, rest: Array) -> Array:
        """From probabilities (.., q, p) against the rest to those of the classes (.., q, c)."""
        if len(self.classes_) == 2:
            return np.concatenate([1 - rest, rest], axis=-1)
        total = rest.sum(axis=-1, keepdims=True)  # (.., q, 1)
        even = np.full_like(rest, 1 / rest.shape[-1])  # (.., q, c)
        return np.divide(rest, total, out=even, where=total > 0)
