"""Where a study measures: the learners of one seed, a scale, and prompts."""

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeVar

import pandas as pd
import torch

from innerloop.analysis.error import error
from innerloop.analysis.measured import Measured
from innerloop.core.errors import ConfigurationError, InnerloopError, unknown
from innerloop.core.learner import Learner
from innerloop.core.prompt import Prompt
from innerloop.core.task import Task
from innerloop.models.model import AnyModel
from innerloop.training.config import RunConfig
from innerloop.training.data import generator_for
from innerloop.training.families import Scale
from innerloop.training.run import Run

T = TypeVar("T")


class StoppedError(InnerloopError):
    """A study that somebody has interrupted."""


class Lab:
    """What a study's function is given: the trained learners of one seed, by label, and prompts.

    The framework makes one lab per seed. A study asks for its learners by label and does not know
    where they come from, so that another learner can take the place of a trained one.
    """

    def __init__(
        self,
        *,
        study: str,
        scale: Scale,
        seed: int = 0,
        runs: Mapping[str, Run] | None = None,
        learners: Mapping[str, Learner[Any]] | None = None,
        tell: Callable[[str], None] | None = None,
        stop: Callable[[], bool] | None = None,
    ) -> None:
        """`runs` are finished, by label; `learners` take the place of trained models.

        `tell` is called with what is being measured.
        """
        self.study, self.seed = study, seed
        self.scale: Scale = scale
        self.notes: list[str] = []
        self.tables: dict[str, pd.DataFrame] = {}
        """Tables of facts that were added, by name."""
        self._runs, self._learners = dict(runs or {}), dict(learners or {})
        self._models: dict[str, AnyModel] = {}
        self._tell, self._stop = tell, stop

    @property
    def prompts(self) -> int:
        """Prompts that errors are averaged over: the papers' 1280, at smoke scale 64."""
        return 64 if self.scale == "smoke" else 1280

    def choose(self, *, smoke: T, laptop: T, paper: T) -> T:
        """The one of this scale."""
        return {"smoke": smoke, "laptop": laptop, "paper": paper}[self.scale]

    def run(self, label: str) -> Run:
        """The finished run of a label that the study has declared."""
        if label not in self._runs:
            raise ConfigurationError(unknown(f"run of {self.study}", label, self._runs))
        return self._runs[label]

    def config(self, label: str) -> RunConfig:
        """The configuration that a label was trained with: its task, points and model."""
        return self.run(label).config

    def learner(self, label: str) -> Learner[Any]:
        """The learner of a label: its trained model, or what takes its place."""
        return self._learners[label] if label in self._learners else self.model(label)

    def model(self, label: str) -> AnyModel:
        """The trained model of a label, for studies that look at its weights; loaded once."""
        if label not in self._models:
            self._models[label] = self.run(label).model()
        return self._models[label]

    def tell(self, what: str) -> None:
        """Say what is being measured now; often, as this is also where a study can be stopped."""
        if self._stop is not None and self._stop():
            raise StoppedError(f"{self.study} was stopped: the same command goes on.")
        if self._tell is not None:
            self._tell(what)

    def note(self, sentence: str) -> None:
        """Add a sentence that a reader should know: what was left out, what was surprising."""
        if sentence not in self.notes:
            self.notes.append(sentence)

    def table(
        self, name: str, columns: Mapping[str, Any] | pd.DataFrame, *, by_seed: bool = False
    ) -> None:
        """Add a table of facts that no claim is about, such as the sizes of models.

        Results have that of the first seed, or with `by_seed` those of all seeds below each other,
        with a column `seed`.
        """
        frame = pd.DataFrame(columns)
        if by_seed:
            frame.insert(0, "seed", self.seed)
        if by_seed or self.seed == 0:
            self.tables[name] = frame

    def generator(self, purpose: str) -> torch.Generator:
        """A generator of its own for each study, purpose and seed."""
        return generator_for(self.seed, f"{self.study}/{purpose}")

    def draw(
        self, task: Task, points: int, *, prompts: int | None = None, purpose: str = "test"
    ) -> Prompt:
        """Prompts that no model was trained on: other ones for each seed and purpose."""
        return task.sample(prompts or self.prompts, points, generator=self.generator(purpose))

    def error(
        self,
        learner: Learner[Any],
        prompt: Prompt,
        task: Task,
        *,
        steps: int | None = None,
        by: Literal["examples", "step", "both"] = "examples",
        at: int | None = None,
        axis: str = "step",
        label: str | None = None,
    ) -> Measured:
        """`analysis.error`, told to whoever watches and stopped where somebody asks for it."""
        self.tell(learner.name if label is None else label)
        return error(learner, prompt, task, steps=steps, by=by, at=at, axis=axis, label=label)
