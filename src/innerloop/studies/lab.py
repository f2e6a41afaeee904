"""Where a study works: trained runs, a scale, seeds, and prompts to measure on."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import torch
from torch import Tensor

from innerloop.analysis.error import prompt_errors
from innerloop.core.errors import ConfigurationError, InnerloopError, unknown
from innerloop.core.learner import Learner
from innerloop.core.prompt import Prompt
from innerloop.core.task import Task
from innerloop.models.model import AnyModel
from innerloop.studies.quantity import Quantity, mean, ratio, ratio_of_medians
from innerloop.training.data import generator_for
from innerloop.training.families import Scale
from innerloop.training.run import Run

T = TypeVar("T")


class StoppedError(InnerloopError):
    """A study that somebody has interrupted."""


class Lab:
    """What a study's function is given; it reads models from it and asks it for prompts."""

    def __init__(
        self,
        *,
        study: str,
        scale: Scale,
        seeds: int = 1,
        runs: Mapping[tuple[str, int], Run] | None = None,
        tell: Callable[[str], None] | None = None,
        stop: Callable[[], bool] | None = None,
    ) -> None:
        """`runs` are finished, by label and seed; `tell` hears what is being measured."""
        if seeds < 1:
            raise ConfigurationError(f"seeds is {seeds}, expected at least 1.")
        self.study, self.seeds = study, range(seeds)
        self.scale: Scale = scale
        self._runs = dict(runs or {})
        self._tell, self._stop = tell, stop

    @property
    def prompts(self) -> int:
        """Prompts that errors are averaged over: the papers' 1280, at smoke scale 64."""
        return 64 if self.scale == "smoke" else 1280

    @property
    def draws(self) -> int:
        """Draws of the bootstrap: the papers' 1000, at smoke scale 100."""
        return 100 if self.scale == "smoke" else 1000

    def choose(self, *, smoke: T, laptop: T, paper: T) -> T:
        """The one of this scale."""
        return {"smoke": smoke, "laptop": laptop, "paper": paper}[self.scale]

    def run(self, label: str, seed: int = 0) -> Run:
        """The finished run of a label that the study has declared."""
        if (label, seed) not in self._runs:
            labels = {known for known, _ in self._runs}
            if label in labels:
                raise ConfigurationError(
                    f"{self.study} has no run {label!r} with seed {seed}: its seeds are 0 to "
                    f"{self.seeds[-1]}."
                )
            raise ConfigurationError(unknown(f"run of {self.study}", label, labels))
        return self._runs[label, seed]

    def model(self, label: str, seed: int = 0) -> AnyModel:
        """The trained model of a run."""
        return self.run(label, seed).model()

    def tell(self, what: str) -> None:
        """Say what is being measured now; often, as this is also where a study can be stopped."""
        if self._stop is not None and self._stop():
            raise StoppedError(f"{self.study} was stopped: the same command goes on.")
        if self._tell is not None:
            self._tell(what)

    def generator(self, purpose: str, seed: int = 0) -> torch.Generator:
        """A generator of its own for each study, purpose and seed."""
        return generator_for(seed, f"{self.study}/{purpose}")

    def draw(
        self,
        task: Task,
        points: int,
        *,
        seed: int = 0,
        prompts: int | None = None,
        purpose: str = "test",
    ) -> Prompt:
        """Prompts that no model was trained on: other ones for each seed and purpose."""
        return task.sample(prompts or self.prompts, points, generator=self.generator(purpose, seed))

    def errors(
        self,
        learner: Learner[Any],
        prompt: Prompt,
        task: Task,
        *,
        steps: int | None = None,
        at: int | None = None,
    ) -> Tensor:
        """Squared errors over the task's scale: (P, n) after the last step, or (P, K + 1) by step.

        By step where `at` says at which prefix; a task's scale is that of the prompts it has drawn.
        """
        self.tell(learner.name)
        scale = task.scale_at(prompt.points)  # (n,)
        errors = prompt_errors(learner, prompt, steps=steps, prefix=at)  # (P, n) or (P, K + 1)
        return errors / (scale if at is None else scale[at])

    def ratio(self, first: Tensor, second: Tensor, *, seed: int = 0) -> Quantity:
        """The mean of the first (P,) over that of the second (P,), with its interval."""
        return ratio(first, second, draws=self.draws, generator=self.generator("bootstrap", seed))

    def ratio_of_medians(self, first: Tensor, second: Tensor, *, seed: int = 0) -> Quantity:
        """The median of the first (P,) over that of the second (P,), with its interval."""
        draws = self.generator("bootstrap", seed)
        return ratio_of_medians(first, second, draws=self.draws, generator=draws)

    def mean(self, values: Tensor, *, seed: int = 0) -> Quantity:
        """The mean of values (P,) with its interval."""
        return mean(values, draws=self.draws, generator=self.generator("bootstrap", seed))
