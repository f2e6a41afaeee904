"""Tasks in a configuration: written as {"name": "linear", "dims": 5, ..}.

A task of the library is known by its name on the command line, any other by its import path:
{"name": "mymodule:Sinusoid", ..}. A configuration may come from a file that a stranger wrote, so
reading one never imports a module; `core/named.py` does, for names that a user has given.
"""

import json
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import InstanceOf, PlainSerializer, ValidationError
from pydantic_core import PydanticSerializationError

from innerloop.core.errors import unknown
from innerloop.core.explain import explain
from innerloop.core.named import class_in_memory, is_named, name_of_class
from innerloop.core.task import Task
from innerloop.language.table import TEXT_TASKS
from innerloop.tasks.table import TASKS

KNOWN_TASKS: dict[str, type[Task]] = {**TASKS, **TEXT_TASKS}
"""Every task of the library, by its name."""


def read_task(value: Any) -> Task:
    """The task that a configuration describes, or the task itself; a ValueError says what is wrong.

    A task that could not be written down, and read again, is refused.
    """
    if isinstance(value, Task):
        return _require_storable(value)
    if not isinstance(value, Mapping):
        raise ValueError(f"the task is {value!r}: write name=.. and its settings, or give a Task")
    settings = {str(key): setting for key, setting in value.items()}
    name = settings.pop("name", None)
    if name is None:
        raise ValueError(
            f"the task has no name: give one of {', '.join(KNOWN_TASKS)}, or module:class"
        )
    kind = _class_named(str(name))
    try:
        parts = {key: read_task(settings[key]) for key in _inner_tasks(kind) & set(settings)}
        return kind(**{**settings, **parts})
    except ValidationError as error:
        raise ValueError(explain(error, kind)) from None


def not_imported(name: str) -> str | None:
    """Why the class of a task in a file cannot be used; None if it can."""
    if not is_named(name) or class_in_memory(name, Task) is not None:
        return None
    module = name.partition(":")[0]
    if module == "__main__":
        return (
            f"the task {name!r} was defined in a script or notebook, and is not defined here: "
            "define it first, or put it into a module of its own"
        )
    return (
        f"the task {name!r} is not imported, and a file may not import code by itself: import "
        f"{module} first, or give task={name} on the command line"
    )


def task_name(task: Task) -> str:
    """What a configuration calls a task of this class."""
    kind = type(task)
    for name, known in KNOWN_TASKS.items():
        if kind is known:
            return name
    name = name_of_class(kind)
    if name is None:
        raise ValueError(
            f"{kind.__name__} cannot be imported from {kind.__module__}, so that a run of it could "
            "not be read again: define the class at the top of a module"
        )
    return name


def write_task(task: Task) -> dict[str, Any]:
    """The task as a configuration describes it; so are the tasks that it is made of."""
    parts = {key: write_task(part) for key, part in task if isinstance(part, Task)}
    return {"name": task_name(task), **task.model_dump(mode="json", exclude=set(parts)), **parts}


def _inner_tasks(kind: type[Task]) -> set[str]:
    """The settings of a task that are tasks themselves, as of a shift."""
    kinds = {key: field.annotation for key, field in kind.model_fields.items()}
    return {key for key, part in kinds.items() if isinstance(part, type) and issubclass(part, Task)}


def _class_named(name: str) -> type[Task]:
    if name in KNOWN_TASKS:
        return KNOWN_TASKS[name]
    problem = not_imported(name)
    if problem is not None:
        raise ValueError(problem)
    kind = class_in_memory(name, Task) if is_named(name) else None
    if kind is None:
        raise ValueError(unknown("task", name, KNOWN_TASKS))
    return kind


def _require_storable(task: Task) -> Task:
    """The task, if what is written of it reads as the same task."""
    if type(task) in KNOWN_TASKS.values():
        return task
    kind = type(task).__name__
    if "name" in type(task).model_fields:
        raise ValueError(
            f"{kind} has a setting 'name', which is what a configuration calls the class: rename it"
        )
    try:
        same = read_task(json.loads(json.dumps(write_task(task)))) == task
    except (PydanticSerializationError, TypeError) as error:
        raise ValueError(
            f"the settings of {kind} cannot be written as JSON ({error}): make them numbers, "
            "words, lists of them, or tasks"
        ) from None
    if not same:
        raise ValueError(
            f"{kind} is another task when it is written as JSON and read again: give its fields "
            "types that pydantic restores, such as float, str or tuple"
        )
    return task


TaskField = Annotated[InstanceOf[Task], PlainSerializer(write_task)]
"""A task, written by its name and its settings; whoever validates calls `read_task` first."""
