"""Tasks in a configuration: written as {"name": "linear", "dims": 5, ..}."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import InstanceOf, PlainSerializer, ValidationError

from innerloop.core.errors import unknown
from innerloop.core.explain import explain
from innerloop.core.task import Task
from innerloop.tasks.table import TASKS


def read_task(value: Any) -> Task:
    """The task that a configuration describes, or the task itself; a ValueError says what is wrong.

    A task that has no name on the command line could not be written down, and is refused.
    """
    if isinstance(value, Task):
        task_name(value)
        return value
    if not isinstance(value, Mapping):
        raise ValueError(f"the task is {value!r}: write name=.. and its settings, or give a Task")
    settings = {str(key): setting for key, setting in value.items()}
    name = settings.pop("name", None)
    if name is None:
        raise ValueError(f"the task has no name: give one of {', '.join(TASKS)}")
    if name not in TASKS:
        raise ValueError(unknown("task", str(name), TASKS))
    try:
        return TASKS[name](**settings)
    except ValidationError as error:
        raise ValueError(explain(error, TASKS[name])) from None


def task_name(task: Task) -> str:
    """What the command line calls a task of this class."""
    for name, kind in TASKS.items():
        if type(task) is kind:
            return name
    raise ValueError(
        f"{type(task).__name__} has no name in tasks/table.py, so that a run of it could not be "
        f"written down: take one of {', '.join(TASKS)}"
    )


def write_task(task: Task) -> dict[str, Any]:
    """The task as a configuration describes it."""
    return {"name": task_name(task), **task.model_dump(mode="json")}


TaskField = Annotated[InstanceOf[Task], PlainSerializer(write_task)]
"""A task, written by its name and its settings; whoever validates calls `read_task` first."""
