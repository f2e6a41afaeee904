"""Where a study measures: the learners of one seed, a scale, and prompts."""

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeVar

import pandas as pd
import torch

from innerloop.analysis.error import error
from innerloop.analysis.measured import Measured
from innerloop.core.errors import ConfigurationError, InnerloopError, NotSupportedError, unknown
from innerloop.core.learner import Learner
from innerloop.core.prompt import Prompt
from innerloop.core.task import Task
from innerloop.models.model import AnyModel, Model
from innerloop.training.config import RunConfig
from innerloop.training.data import generator_for
from innerloop.training.families import Scale
from innerloop.training.run import Run
from innerloop.training.trainer import first_model

T = TypeVar("T")

Null = Callable[["Lab"], Mapping[str, Learner[Any]]]
"""Learners of which a claim is not true, by the labels of the models whose place they take."""


class StoppedError(InnerloopError):
    """A study that somebody has interrupted."""


class NoOtherSeedError(ConfigurationError):
    """A null that needs a model of another seed, where there is one seed only."""


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
        first: bool = True,
        runs: Mapping[str, Run] | None = None,
        others: Mapping[str, Run] | None = None,
        learners: Mapping[str, Learner[Any]] | None = None,
        tell: Callable[[str], None] | None = None,
        stop: Callable[[], bool] | None = None,
    ) -> None:
        """`runs` are finished, by label; `learners` take the place of trained models.

        `first` says whether this is the first of the seeds, `others` are the runs of another one.
        `tell` is called with what is being measured.
        """
        self.study, self.seed, self.first = study, seed, first
        self.scale: Scale = scale
        self.notes: list[str] = []
        self.tables: dict[str, pd.DataFrame] = {}
        """Tables of facts that were added, by name."""
        self._runs, self._others = dict(runs or {}), dict(others or {})
        self._learners = dict(learners or {})
        self._models: dict[str, AnyModel] = {}
        self._tell, self._stop = tell, stop

    @property
    def prompts(self) -> int:
        """Prompts that errors are averaged over: the papers' 1280, at smoke scale 64."""
        return 64 if self.scale == "smoke" else 1280

    def choose(self, *, smoke: T, laptop: T, paper: T, desk: T | None = None) -> T:
        """The one of this scale; at desk scale that of laptop where nothing else is given."""
        at_desk = laptop if desk is None else desk
        return {"smoke": smoke, "laptop": laptop, "desk": at_desk, "paper": paper}[self.scale]

    def run(self, label: str) -> Run:
        """The finished run of a label that the study has declared."""
        if label not in self._runs:
            raise ConfigurationError(unknown(f"run of {self.study}", label, self._runs))
        return self._runs[label]

    def config(self, label: str) -> RunConfig:
        """The configuration that a label was trained with: its task, points and model."""
        return self.run(label).config

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of all runs."""
        return tuple(self._runs)

    def learner(self, label: str) -> Learner[Any]:
        """The learner of a label: its trained model, or what takes its place."""
        return self._learners[label] if label in self._learners else self.model(label)

    def model(self, label: str) -> AnyModel:
        """The model of a label, for studies that look at its weights; loaded once."""
        if label not in self._models:
            own = self._learners.get(label)
            if own is not None and not isinstance(own, Model):
                raise NotSupportedError(
                    f"{own.name} takes the place of {label!r} in {self.study}, which looks into "
                    "the model: give a model."
                )
            self._models[label] = self.run(label).model() if own is None else own
        return self._models[label]

    def untrained(self, label: str) -> AnyModel:
        """The model of a label before its first step."""
        return first_model(self.config(label))

    def of_another_seed(self, label: str) -> AnyModel:
        """The model of a label that was trained with another seed."""
        if label not in self._others:
            raise NoOtherSeedError(
                unknown(f"run of another seed of {self.study}", label, self._others)
            )
        return self._others[label].model()

    def standing_in(self, null: Null) -> "Lab":
        """The same lab with a null's learners in the place of trained models."""
        return Lab(
            study=self.study, scale=self.scale, seed=self.seed, first=self.first, runs=self._runs,
            others=self._others, learners={**self._learners, **null(self)}, tell=self._tell,
            stop=self._stop,
        )  # fmt: skip

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
        if by_seed or self.first:
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
