"""Learners made of any function, and of any scikit-learn estimator."""

from collections.abc import Callable
from functools import cached_property
from typing import Annotated, Any

import numpy as np
from pydantic import Field, field_validator
from pydantic.dataclasses import dataclass
from sklearn.base import clone, is_classifier
from torch import Tensor

from innerloop.core.config import STRICT
from innerloop.core.errors import InnerloopError
from innerloop.core.learner import OneShot, Traits
from innerloop.core.prompt import Prompt, expand_prefixes
from innerloop.learners._estimators import Reals, fit_each_prefix

Function = Callable[[Tensor, Tensor], Tensor]
"""Predictions (B, n, k) from xs (B, n, d) and ys (B, n, k)."""


@dataclass(frozen=True, config=STRICT)
class FromFunction(OneShot):
    """Any function f(xs, ys) of whole prompts, (B, n, d) and (B, n, k) to predictions (B, n, k).

    Its prediction at i may use x_0 .. x_i and y_0 .. y_{i-1} only; `check_learner` finds out if it
    peeks. A function that does not keep to that by itself, say a regression on all it is given,
    takes `traits=Traits(causal=False)`: it is then called once per prefix length, on prompts whose
    last y is 0, and only its last prediction counts. So are all functions for other queries
    than x_i.
    """

    function: Function
    traits: Traits = Traits()
    label: str = ""
    """What tables call it; by default the function's own name."""

    @cached_property
    def name(self) -> str:
        """The label, or the function's name."""
        kind = type(self.function).__name__  # of callable objects
        return self.label or getattr(self.function, "__name__", kind)

    def init(self, prompt: Prompt) -> Tensor:
        """The function's answer, checked for its shape and type."""
        if prompt.queries is None:
            return self._call(prompt)
        batch, points, number, _ = prompt.queries.shape
        shape = (batch * number, points, prompt.outputs)
        answers = prompt.xs.new_empty(shape)  # (B q, n, k)
        for i, which, part in expand_prefixes(prompt):
            answers[which, i] = self._call(part)[:, i].to(answers.dtype)  # (R, k)
        return answers.reshape(batch, number, points, -1).transpose(1, 2)  # (B, n, q, k)

    def _call(self, prompt: Prompt) -> Tensor:
        try:
            answer: Any = self.function(prompt.xs, prompt.ys)
        except (InnerloopError, Warning):  # warnings, where the user has turned them into errors
            raise
        except Exception as error:
            reason = " ".join(str(error).split()).rstrip(".")
            raise InnerloopError(
                f"{self.name} failed on xs {tuple(prompt.xs.shape)} and ys "
                f"{tuple(prompt.ys.shape)} ({type(error).__name__}: {reason}): give a function of "
                "both, or wrap a module of tokens with il.wrap."
            ) from error
        if not isinstance(answer, Tensor):
            raise InnerloopError(
                f"{self.name} returned {type(answer).__name__}, expected a tensor of shape "
                f"{tuple(prompt.ys.shape)}: wrap it with torch.as_tensor."
            )
        if answer.shape != prompt.ys.shape:
            raise InnerloopError(
                f"{self.name} returned shape {tuple(answer.shape)} for xs {tuple(prompt.xs.shape)} "
                f"and ys {tuple(prompt.ys.shape)}, expected one prediction for each y: "
                f"{tuple(prompt.ys.shape)}."
            )
        if not answer.is_floating_point() or answer.device != prompt.xs.device:
            raise InnerloopError(
                f"{self.name} returned {answer.dtype} on {answer.device}, expected real numbers on "
                f"{prompt.xs.device}: cast or move them at its end."
            )
        return answer


@dataclass(frozen=True, config=STRICT)
class FromEstimator(OneShot):
    """Any scikit-learn regressor, or classifier of numeric labels, fitted to every prefix anew.

    A clone is fitted for each prompt, prefix and output: k outputs are k problems of their own,
    whether or not the estimator could take them together. Prefixes of fewer than
    `minimum_examples` answer 0, and a classifier that has seen one label only answers that label.
    A `random_state` that was left open is set to `seed`, in nested estimators too. Warnings of
    the estimator come through.

    What the estimator promises is for the user to say, in `traits`.
    """

    estimator: Any
    minimum_examples: Annotated[int, Field(ge=1)] = 1
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 0
    traits: Traits = Traits()
    differentiable = False

    @field_validator("estimator")
    @classmethod
    def _require_estimator(cls, estimator: Any) -> Any:
        missing = [m for m in ("fit", "predict", "get_params") if not hasattr(estimator, m)]
        if missing or isinstance(estimator, type):
            given = f"the class {estimator.__name__}" if isinstance(estimator, type) else "this"
            raise ValueError(
                f"{given} is not a scikit-learn estimator with fit, predict and get_params: "
                "give an instance of one, for example Ridge()"
            )
        return estimator

    @cached_property
    def name(self) -> str:
        """The estimator as it describes itself, on one line."""
        return f"FromEstimator({' '.join(str(self.estimator).split())})"

    def init(self, prompt: Prompt) -> Tensor:
        """One fit after the other."""
        seeded: Any = clone(self.estimator)
        open_seeds = [
            key
            for key, value in seeded.get_params().items()
            if value is None and (key == "random_state" or key.endswith("__random_state"))
        ]
        if open_seeds:
            seeded.set_params(**dict.fromkeys(open_seeds, self.seed))
        classifies = _is_classifier(seeded)

        def fit(inputs: Reals, outputs: Reals, asked: Reals) -> Reals:
            if classifies and (outputs == outputs[0]).all():
                return np.full(len(asked), outputs[0])
            try:
                model: Any = clone(seeded)
                answer = model.fit(inputs, outputs).predict(asked)
                return np.asarray(answer, dtype=np.float64).reshape(len(asked))
            except Warning:  # where the user has turned warnings into errors
                raise
            except Exception as error:
                raise InnerloopError(self._failure(len(inputs), error)) from error

        return fit_each_prefix(prompt, fit, minimum=self.minimum_examples)

    def _failure(self, examples: int, error: Exception) -> str:
        reason = " ".join(str(error).split()).rstrip(".")
        return (
            f"{self.name} failed on {examples} examples ({type(error).__name__}: {reason}): "
            f"raise minimum_examples above {examples}, or change the estimator's settings."
        )


def _is_classifier(estimator: Any) -> bool:
    try:
        return is_classifier(estimator)
    except AttributeError:  # an estimator that does not derive from scikit-learn's
        return False
