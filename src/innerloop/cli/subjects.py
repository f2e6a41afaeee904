"""What a verb is asked to look at: learners by name, trained models by folder, and a task."""

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from innerloop.cli.specs import build, find
from innerloop.core.errors import ConfigurationError
from innerloop.core.files import shortened, slug
from innerloop.core.learner import Learner
from innerloop.core.named import import_class, import_class_or_instance, is_named
from innerloop.core.settings import is_setting, parse_settings, parse_spec
from innerloop.core.task import Task
from innerloop.learners.table import LEARNERS
from innerloop.models.checkpoint import CONFIG, load
from innerloop.models.model import AnyModel
from innerloop.models.pretrained import SHIPPED, folder_of, pretrained
from innerloop.tasks.linear import LinearRegression
from innerloop.training.config import RunConfig
from innerloop.training.run import Run, read_config
from innerloop.training.task_field import KNOWN_TASKS, task_name


@dataclass(frozen=True, slots=True, kw_only=True)
class Subjects:
    """Learners and the task that they are set."""

    learners: list[Learner[Any]]
    labels: list[str]
    """What tables and figures call them: two runs of one recipe by their folders."""
    task: Task
    name: str
    """What the command line calls the task."""
    points: int
    """The points of a prompt, unless the user says otherwise."""


def read_subjects(words: Sequence[str], task: str | None) -> Subjects:
    """What the positional words and --task describe.

    A word is a learner's name, that of a model which comes with the package, `module:name` of one's
    own, the folder of a run or a model, or a setting of the task. The task is the one that --task
    names, or the word task=.., else that of the first run or model of the package, else linear
    regression. What a user names is imported; what a file names is not.
    """
    settings = parse_settings([word for word in words if is_setting(word)])
    kind = _task_named(task, settings.pop("task", None))
    named = [word for word in words if not is_setting(word)]
    if not named:
        raise ConfigurationError("no learner was named: see `innerloop learners`, or take 'ols'.")
    runs = {word: Run.open(Path(word)) for word in named if is_run(Path(word))}
    for run in runs.values():
        note_unfinished(run)
    models = {
        word: runs[word].model() if word in runs else _model(word)
        for word in named
        if word in runs or _is_ours(word) or looks_like_folder(word)
    }
    learners = [models[word] if word in models else _by_name(word) for word in named]
    trainings = [
        runs[word].config if word in runs else read_config(folder_of(word) / CONFIG)
        for word in named
        if word in runs or _is_ours(word)
    ]
    chosen, points = _task(list(models.values()), kind, settings, next(iter(trainings), None))
    return Subjects(
        learners=learners,
        labels=_labels(named, learners),
        task=chosen,
        name=task_name(chosen),
        points=points,
    )


def looks_like_folder(word: str) -> bool:
    """Whether a word names a place on the disk rather than a learner."""
    return "/" in word or os.path.isfile(Path(word) / "config.json")


def _is_ours(word: str) -> bool:
    """Whether a word names a model of the package; a folder of that name comes first."""
    return word in SHIPPED and not looks_like_folder(word)


def _model(word: str) -> AnyModel:
    """The model of the package, or of the folder, that a word names."""
    return pretrained(word) if _is_ours(word) else load(Path(word))


def is_run(folder: Path) -> bool:
    """Whether a folder holds a training run, rather than a model alone."""
    # By the older function: a word that is too long for a path, as a list may be, is none.
    return os.path.isfile(folder / "state.pt")


def note_unfinished(run: Run) -> None:
    """Say so where a run has not come to its end: its error is not what the recipe promises."""
    if run.diverged is not None:
        print(f"note: {run.name} was given up: {run.diverged}", file=sys.stderr)
    elif not run.finished:
        progress = f"step {run.step} of {run.config.steps}"
        print(f"note: {run.name} is not finished: {progress}.", file=sys.stderr)


def _by_name(word: str) -> Learner[Any]:
    """The learner of a word such as `ridge:penalty=0.1`, or `mymodule:MyLearner:penalty=0.1`."""
    module, _, rest = word.partition(":")
    name, _, text = rest.partition(":")
    own = f"{module}:{name}"
    if module in LEARNERS or not is_named(own):
        name, values = parse_spec(word)
        return build(find("learner", name, LEARNERS), values)
    thing = import_class_or_instance(own, Learner, "learner")
    _, values = parse_spec(rest)
    if not isinstance(thing, Learner):
        return _made(thing, values)
    if values:
        raise ConfigurationError(f"{own} is a learner with its settings: leave {text!r} out.")
    return thing


def _made(kind: type[Learner[Any]], settings: dict[str, Any]) -> Learner[Any]:
    """A learner of a user's own class, which need not be one of pydantic."""
    try:
        return build(kind, settings)
    except TypeError as error:
        raise ConfigurationError(
            f"{kind.__name__} cannot be made of these settings ({error}): give them as "
            f"{kind.__module__}:{kind.__name__}:key=value,key=value."
        ) from error


def _task_named(option: str | None, word: Any) -> type[Task] | None:
    """The class of the task that --task or the word task=.. names; `module:class` is imported."""
    if isinstance(word, dict):
        key = next(iter(word))
        raise ConfigurationError(f"settings of the task are written without 'task.' here: {key}=..")
    if word is not None and option is not None:
        raise ConfigurationError(f"--task {option} and task={word} are given: keep one of them.")
    name = option if word is None else str(word)
    if name is None:
        return None
    return import_class(name, Task, "task") if is_named(name) else find("task", name, KNOWN_TASKS)


def _labels(words: Sequence[str], learners: Sequence[Learner[Any]]) -> list[str]:
    """The learners' names; the folders where models have the same name."""
    names = [learner.name for learner in learners]
    return [
        Path(word).name if names.count(name) > 1 and looks_like_folder(word) else name
        for word, name in zip(words, names, strict=True)
    ]


def _task(
    models: list[AnyModel],
    kind: type[Task] | None,
    settings: dict[str, Any],
    training: RunConfig | None,
) -> tuple[Task, int]:
    """The task to evaluate on, and the points of its prompts: such as all models can read."""
    known = None if training is None else training.task
    # A task of one's own must be named for its run to be read: that does not mean another one.
    same = kind is None or (type(known) is kind and kind not in KNOWN_TASKS.values())
    if known is not None and same:
        chosen = build(type(known), {**dict(known), **settings})
    else:
        kind = LinearRegression if kind is None else kind
        has_own = not kind.model_fields["dims"].is_required()
        dims = {"dims": models[0].config.dims} if models else {} if has_own else {"dims": 20}
        chosen = build(kind, {**dims, **settings})
    if chosen.form.layout == "tokens":
        raise ConfigurationError(
            f"{task_name(chosen)} is about texts, which this verb does not compare: take "
            "`innerloop classify RUN`."
        )
    points = 2 * chosen.dims + 1 if training is None else training.points
    limits = [model.points for model in models if model.points is not None]
    return chosen, min([points, *limits])


def file_name(words: list[str], labels: Sequence[str], settings: Mapping[str, Any]) -> str:
    """What the files of an answer about learners are called: other settings have other names.

    A folder goes by its own name: two runs of one kind have the same label.
    """
    learners = [word for word in words if not is_setting(word)]
    parts = [
        Path(word).resolve().name if looks_like_folder(word) else label
        for word, label in zip(learners, labels, strict=True)
    ]
    parts += [word for word in words if is_setting(word)]
    parts += [f"{key} {value}" for key, value in settings.items() if value is not None]
    return shortened(slug(" ".join(parts)))
