"""The verbs of the command line, each loaded when it is used: the list of them needs none."""

import importlib
from dataclasses import dataclass
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from innerloop.cli.ctrl_c import CTRL_C


@dataclass(frozen=True, slots=True)
class Verb:
    """Where a verb is, and what it does in one line."""

    module: str
    """A file of this folder, with the verb's function, or its `app` where it has verbs itself."""
    function: str
    summary: str
    """The first line of its docstring, for the list of all verbs."""

    def load(self, name: str) -> Any:
        """The command itself, with all its imports; from here on Ctrl-C is an exception."""
        entry = getattr(importlib.import_module(f"innerloop.cli.{self.module}"), self.function)
        CTRL_C.begin()
        if isinstance(entry, typer.Typer):
            command = typer.main.get_command(entry)
            command.name = name
            return command
        alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        alone.command(name)(entry)
        return typer.main.get_command(alone)


VERBS = {
    "demo": Verb(
        "demo", "demo",
        "Train a looped transformer to learn linear functions in context, and set it beside OLS.",
    ),
    "tasks": Verb(
        "listing", "tasks",
        "List the families of problems, and the shifts that take them out of distribution.",
    ),
    "learners": Verb("listing", "learners", "List the learning algorithms."),
    "recipes": Verb(
        "recipes", "recipes",
        "List the recipes: what `innerloop train` can train by name, or all about one.",
    ),
    "data": Verb(
        "data", "app", "List the data sets that are known, and which of them are here."
    ),
    "studies": Verb(
        "studies", "studies",
        "List the studies with the last verdicts on this machine, or describe one.",
    ),
    "train": Verb(
        "train", "train",
        "Train a recipe; a run that exists is returned, one that was interrupted goes on.",
    ),
    "sweep": Verb(
        "sweep", "sweep",
        "Train a recipe over a grid of settings and seeds, on this machine or on a Ray cluster.",
    ),
    "runs": Verb("runs", "app", "List the runs: recipe, what differs from it, error and age."),
    "evaluate": Verb(
        "evaluate", "evaluate",
        "Compare learners on a task: squared error over that of predicting zero, with 90% "
        "intervals.",
    ),
    "classify": Verb(
        "classify", "classify",
        "Say which class texts are of, or how many of the test texts a model gets right.",
    ),
    "translate": Verb(
        "translate", "translate", "Translate German sentences into English by a trained run."
    ),
    "explore": Verb(
        "explore", "explore", "Watch transformers learn in context, on a page in the browser."
    ),
    "identify": Verb(
        "identify", "identify",
        "Say which known algorithm predicts as a learner does, and how sure that is.",
    ),
    "inspect": Verb(
        "inspect", "inspect",
        "Say which heads and MLPs of a model matter, and at which layer or loop.",
    ),
    "compile": Verb(
        "compile", "compile_", "Compile a known algorithm into the weights of a transformer."
    ),
    "verify": Verb(
        "verify", "verify",
        "Compare circuits with their algorithms after every step, at every prefix.",
    ),
    "reproduce": Verb(
        "reproduce", "reproduce",
        "Reproduce figures, tables and theorems of the papers, with a verdict on every claim.",
    ),
    "plan": Verb(
        "plan", "plan",
        "Say what the studies cost to train, in GPU-hours from counted operations.",
    ),
    "report": Verb(
        "report_", "report",
        "Join all that `innerloop reproduce` has written into one page that needs nothing else.",
    ),
    "bench": Verb(
        "bench", "bench",
        "Time the training steps of recipes on this machine, and say what whole runs would take.",
    ),
    "compare-tables": Verb(
        "compare_tables", "compare_tables",
        "Compare the estimators with those of scikit-learn on tables of few rows.",
    ),
    "import": Verb(
        "importing", "import_",
        "Turn a checkpoint of the public code of Garg et al. or Yang et al. into a model.",
    ),
}  # fmt: skip
"""Name on the command line -> verb, in the order of the list."""


class LazyVerbs(TyperGroup):
    """A command that lists its verbs from the table, and loads the one that is called."""

    def __init__(self, **settings: Any) -> None:
        """As typer makes it; the verbs come from the table."""
        super().__init__(**settings)
        for name, verb in VERBS.items():
            self.add_command(TyperCommand(name, help=verb.summary))

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[Any, Any, list[str]]:
        """The verb that was called, with its own options."""
        name, listed, rest = super().resolve_command(ctx, args)
        return name, listed if name is None else VERBS[name].load(name), rest
