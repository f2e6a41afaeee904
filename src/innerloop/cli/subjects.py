"""What a verb is asked to look at: learners by name, trained models by folder, and a task."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from innerloop.cli.specs import build, find, is_setting, parse_settings, parse_spec
from innerloop.core.errors import ConfigurationError
from innerloop.core.learner import Learner
from innerloop.core.task import Task
from innerloop.learners.table import LEARNERS
from innerloop.models.checkpoint import load
from innerloop.models.model import Model
from innerloop.tasks.table import TASKS
from innerloop.training.run import Run


@dataclass(frozen=True, slots=True, kw_only=True)
class Subjects:
    """Learners and the task that they are set."""

    learners: list[Learner[Any]]
    task: Task
    name: str
    """What the command line calls the task."""
    points: int
    """The points of a prompt, unless the user says otherwise."""


def read_subjects(words: Sequence[str], task: str | None) -> Subjects:
    """What the positional words and --task describe.

    A word is a learner's name, the folder of a run or a model, or a setting of the task. The task
    is the one that --task names, else that of the first run, else linear regression.
    """
    settings = parse_settings([word for word in words if is_setting(word)])
    learners: list[Learner[Any]] = []
    trained_on: Run | None = None
    for word in words:
        if is_setting(word):
            continue
        folder = Path(word)
        if not looks_like_folder(word):
            name, values = parse_spec(word)
            learners.append(build(find("learner", name, LEARNERS), values))
        elif is_run(folder):
            run = Run.open(folder)
            learners.append(run.model())
            trained_on = trained_on or run
        else:
            learners.append(load(folder))
    if not learners:
        raise ConfigurationError("no learner was named: see `innerloop learners`, or take 'ols'.")
    return _with_task(learners, task, settings, trained_on)


def looks_like_folder(word: str) -> bool:
    """Whether a word names a place on the disk rather than a learner."""
    return "/" in word or (Path(word) / "config.json").is_file()


def is_run(folder: Path) -> bool:
    """Whether a folder holds a training run, rather than a model alone."""
    return (folder / "state.pt").is_file()


def _with_task(
    learners: list[Learner[Any]],
    task: str | None,
    settings: dict[str, str | list[str]],
    trained_on: Run | None,
) -> Subjects:
    if task is None and trained_on is not None:
        known = trained_on.config.task
        chosen = build(type(known), {**dict(known), **settings})
        name = next(name for name, kind in TASKS.items() if kind is type(known))
        points = trained_on.config.points
    else:
        name = task or "linear"
        dims = _dims_of(learners)
        chosen = build(find("task", name, TASKS), {"dims": str(dims or 20), **settings})
        points = 2 * chosen.dims + 1
    limits = [limit for limit in (_most_points(learner) for learner in learners) if limit]
    return Subjects(learners=learners, task=chosen, name=name, points=min([points, *limits]))


def _dims_of(learners: Sequence[Learner[Any]]) -> int | None:
    """The dimensions that the first model was made for."""
    found = [learner.config.dims for learner in learners if isinstance(learner, Model)]
    return found[0] if found else None


def _most_points(learner: Learner[Any]) -> int | None:
    return learner.points if isinstance(learner, Model) else None
