"""Gradient-boosted trees, by XGBoost."""

from typing import Any

import torch
from pydantic import Field
from pydantic.dataclasses import dataclass
from torch import Tensor

from innerloop.core.config import STRICT
from innerloop.core.errors import NotSupportedError, RangeError
from innerloop.core.learner import OneShot, Traits
from innerloop.core.prompt import Prompt
from innerloop.learners._estimators import Reals, fit_each_prefix

LARGEST = 2.0**60
"""Numbers up to this size, and down to its inverse, have squares in the range of float32."""


@dataclass(frozen=True, config=STRICT)
class Boosting(OneShot):
    """XGBoost's regression trees on each prefix.

    One model per prefix and output; a baseline of Garg et al. (2022). `rounds` trees of at most
    `depth` levels, each fitted to what the ones before leave of the squared error and added
    `learning_rate` times; all else as XGBoost has it. Nothing is drawn at random. Split points are
    searched exactly: on a hundred examples that is faster than histograms. An empty prefix answers
    0, a single example its y. With `signs` the trees see only the signs of the inputs.

    XGBoost computes in float32: answers are good to 1e-6 of the outputs' size, and prompts whose
    inputs or outputs float32 has no room for are refused.
    """

    rounds: int = Field(default=50, ge=1, description="trees, one after the other")
    depth: int = Field(default=4, ge=1, le=1000, description="the most levels of a tree")
    learning_rate: float = Field(
        default=0.1, ge=1e-9, le=1, description="what each tree is multiplied by"
    )
    signs: bool = Field(default=False, description="see only the signs of the inputs")
    traits = Traits(order_invariant=True)
    differentiable = False

    @property
    def computes_in(self) -> torch.dtype:
        """XGBoost's, whatever it is given."""
        return torch.float32

    def init(self, prompt: Prompt) -> Tensor:
        """One fit after the other: XGBoost trains no two models at once."""
        xgboost = _xgboost()
        self._require_range(prompt)
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

    def _require_range(self, prompt: Prompt) -> None:
        """Refuse prompts that are infinite in float32, or all zero where they were not."""
        named = {"inputs": prompt.xs[:, :-1], "outputs": prompt.ys[:, :-1]}
        for name, values in named.items() if prompt.points > 1 else ():
            sizes = values.double().abs().flatten(1).amax(dim=1)  # (B,)
            beyond = (sizes > LARGEST) | ((sizes < 1 / LARGEST) & (sizes > 0))  # (B,)
            if bool(beyond.any()):
                b = int(torch.nonzero(beyond)[0])
                raise RangeError(
                    f"{self.name} is given {name} up to {float(sizes[b]):.1e} in prompt {b} of "
                    f"{prompt.batch}, and XGBoost computes in float32: scale them to about 1."
                )


def _xgboost() -> Any:
    try:
        import xgboost
    except ImportError as error:
        raise NotSupportedError(
            "Boosting needs XGBoost, which is not installed: pip install innerloop[trees]."
        ) from error
    return xgboost
