"""A mean of the weights of a run's last steps, less noisy than the weights themselves."""

from copy import deepcopy

import torch

from innerloop.models.model import AnyModel


class Average:
    """The mean of a model's weights after each step, weighted by a power of the step.

    After step t it is t * `age` steps old on average: it reaches back over a share of the steps so
    far, so that the first weights, which are far off, leave it however long the run is (Karras et
    al., 2024). torch.optim.swa_utils has fixed decays only, which keep them. At an `age` of 0.5 all
    steps weigh the same.
    """

    def __init__(self, model: AnyModel, age: float) -> None:
        self.model = deepcopy(model)
        """With the mean as its weights; before the first step, with those of the given model."""
        self._power = 1 / age - 1

    @torch.no_grad()
    def take(self, model: AnyModel, step: int) -> None:
        """Let the weights after a step (from 1) into the mean."""
        kept = (1 - 1 / step) ** self._power
        for mean, weight in zip(self.model.parameters(), model.parameters(), strict=True):
            mean.lerp_(weight, 1 - kept)
