"""Gradient-boosted trees, by XGBoost."""

from typing import Any

import torch
from pydantic import Field
from pydantic.dataclasses import dataclass
from torch import Tensor

from innerloop.core.config import STRICT
from innerloop.core.errors import NotSupportedError
from innerloop.core.learner import OneShot, Traits
from innerloop.core.prompt import Prompt
from innerloop.learners._estimators import Reals, fit_each_prefix


@dataclass(frozen=True, config=STRICT)
class Boosting(OneShot):
    """XGBoost's regression trees on each prefix.

    One model per prefix and output; a baseline of Garg et al. (2022). `rounds` trees of at most
    `depth` levels, each fitted to what the ones before leave of the squared error and added
    `learning_rate` times; all else as XGBoost has it. Nothing is drawn at random. Split points are
    searched exactly: on a hundred examples that is faster than histograms. An empty prefix answers
    0, a single example its y. With `signs` the trees see only the signs of the inputs.

    XGBoost computes in float32: answers are good to 1e-6 of the outputs' size.
    """

    rounds: int = Field(default=50, ge=1, description="trees, one after the other")
    depth: int = Field(default=4, ge=1, description="the most levels of a tree")
    learning_rate: float = Field(
        default=0.1, gt=0, le=1, description="what each tree is multiplied by"
    )
    signs: bool = Field(default=False, description="see only the signs of the inputs")
    traits = Traits(order_invariant=True)

    @property
    def computes_in(self) -> torch.dtype:
        """XGBoost's, whatever it is given."""
        return torch.float32

    def init(self, prompt: Prompt) -> Tensor:
        """One fit after the other: XGBoost trains no two models at once."""
        xgboost = _xgboost()
        settings = {
            "max_depth": self.depth,
            "learning_rate": self.learning_rate,
            "tree_method": "exact",
            "nthread": 1,  # threads cost more than they save on so few examples
        }

        def fit(inputs: Reals, outputs: Reals, asked: Reals) -> Reals:
            examples = xgboost.DMatrix(inputs, label=outputs, nthread=1)
            model = xgboost.Booster(settings, [examples])
            for k in range(self.rounds):  # xgboost.train adds callbacks to the same loop
                model.update(examples, k)
            return model.predict(xgboost.DMatrix(asked, nthread=1))

        return fit_each_prefix(prompt, fit, signs=self.signs)


def _xgboost() -> Any:
    try:
        import xgboost
    except ImportError as error:
        raise NotSupportedError(
            "Boosting needs XGBoost, which is not installed: pip install innerloop[trees]."
        ) from error
    return xgboost
