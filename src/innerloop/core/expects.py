"""Learners, prompts and tasks in each other's place, refused in one sentence where they enter."""

from typing import Any

from torch import Tensor, nn

from innerloop.core.errors import ConfigurationError
from innerloop.core.learner import Learner
from innerloop.core.prompt import Prompt
from innerloop.core.task import Task


def expect_learner(value: Any) -> None:
    """Refuse what is not a learner, and say how to make it one."""
    if not isinstance(value, Learner):
        raise ConfigurationError(f"{_given(value)}, expected a learner: {_learner_hint(value)}.")


def expect_prompt(value: Any) -> None:
    """Refuse what is not a prompt, and say how to get one."""
    if isinstance(value, Prompt):
        return
    hint = "make one with il.Prompt.from_arrays(xs, ys)"
    if isinstance(value, Task):
        hint = "draw one with task.sample(batch, points, generator=..)"
    raise ConfigurationError(f"{_given(value)}, expected a prompt: {hint}.")


def expect_task(value: Any) -> None:
    """Refuse what is not a task, and say how to get one."""
    if isinstance(value, Task):
        return
    hint = "make one, such as il.tasks.LinearRegression(dims=5)"
    if isinstance(value, Prompt):
        hint = "give the task that has drawn it, such as il.tasks.LinearRegression(dims=5)"
    elif isinstance(value, type) and issubclass(value, Task):
        hint = f"make one of it, {value.__name__}(dims=5)"
    raise ConfigurationError(f"{_given(value)}, expected a task: {hint}.")


def _given(value: Any) -> str:
    """What a value is, for the beginning of a sentence."""
    if isinstance(value, str):
        return f"{value!r} is a string"
    if value is None:
        return "None was given"
    if isinstance(value, type):
        return f"{value.__name__} is a class"
    name = type(value).__name__
    article = "an" if name[0] in "AEIOUaeiou" else "a"
    for kind, word in (
        (Learner, "a learner"), (Prompt, "a prompt"), (Task, "a task"), (nn.Module, "a module"),
        (Tensor, "a tensor"),
    ):  # fmt: skip
        if isinstance(value, kind):
            same = name.lower() == word.split()[1]
            return f"{word} was given" if same else f"{article} {name} is {word}"
    return f"{article} {name} was given"


def _learner_hint(value: Any) -> str:
    """How to make a learner of what was given."""
    if isinstance(value, nn.Module):
        return "wrap it with il.wrap(module)"
    if isinstance(value, type):
        return f"make one of it, {value.__name__}(), or wrap a module with il.wrap"
    if isinstance(value, Task | Prompt):
        return "learners come before tasks and prompts among the arguments"
    if isinstance(value, list | tuple):
        return "give them one at a time"
    if callable(value):
        return (
            "wrap a function of tokens with il.wrap, one of xs and ys with il.learners.FromFunction"
        )
    return "make one, such as il.learners.OLS(), or wrap a module with il.wrap(module)"
