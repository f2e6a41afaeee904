"""Ask a learner many questions after the last example: one pass for all of them.

Shapes: P problems (a context, and what its outputs mean), m examples, u inputs, q questions.
"""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor

from innerloop.core.chunks import in_parts, rows_within_budget
from innerloop.core.errors import ConfigurationError
from innerloop.core.fixed_point import run_to_fixed_point
from innerloop.core.iterate import answers_by_step, iterate, predict, read_checked
from innerloop.core.learner import Learner
from innerloop.core.prompt import Prompt
from innerloop.models.model import Model

Array = NDArray[np.float64]
Loops = int | Literal["converged"] | None
TOLERANCE, MOST_LOOPS = 1e-5, 200
"""A context has converged once a loop changes its cells by less than this share of them."""


@dataclass(frozen=True, slots=True, eq=False)
class Answers:
    """What each problem's learner says about each question, (P, q)."""

    means: Array
    variances: Array | None
    """Of the output itself, noise included; None where the model does not give them."""


def expect_loops(loops: object) -> None:
    """Refuse what is not a number of loops, 'converged' or None."""
    whole = isinstance(loops, int | np.integer) and not isinstance(loops, bool) and loops >= 0
    if loops not in (None, "converged") and not whole:
        raise ConfigurationError(
            f"loops is {loops!r}, expected a whole number, 'converged', or None for as many as the "
            "model was trained with."
        )


@torch.no_grad()
def ask(learner: Learner[Any], prompt: Prompt, loops: Loops) -> Answers:
    """Answers to the questions at the end of each prompt, after some loops."""
    return _joined([_answers(learner, part, loops) for part in _within_budget(learner, prompt)])


@torch.no_grad()
def ask_by_loop(learner: Learner[Any], prompt: Prompt, loops: int | None) -> Array:
    """The means before the first loop and after each: (loops + 1, P, q)."""
    by_loop = [
        np.stack([_flat(one) for one in answers_by_step(learner, part, loops)])
        for part in _within_budget(learner, prompt)
    ]  # (loops + 1, P', q) each
    return np.concatenate(by_loop, axis=1)


@torch.no_grad()
def loops_until_converged(learner: Learner[Any], prompt: Prompt) -> int:
    """The loops that the slowest of the prompts takes."""
    points = [
        run_to_fixed_point(learner, part, TOLERANCE, MOST_LOOPS, throw=False)
        for part in _within_budget(learner, prompt)
    ]
    return max(int(point.steps.max()) for point in points)


def _within_budget(learner: Learner[Any], prompt: Prompt) -> Iterator[Prompt]:
    rows = rows_within_budget(learner.bytes_per_prompt(prompt))
    return (part for _, part in in_parts(prompt, rows))


def _answers(learner: Learner[Any], prompt: Prompt, loops: Loops) -> Answers:
    if loops == "converged":
        point = run_to_fixed_point(learner, prompt, TOLERANCE, MOST_LOOPS, throw=False)
        if not bool(point.converged.all()):
            warnings.warn(
                f"{point.summary()}: choose a number of loops where this matters.",
                ConvergenceWarning, stacklevel=2,
            )  # fmt: skip
        means, state = point.predictions, point.state
    elif learner.answers_at_end:
        *_, state = iterate(learner, prompt, steps=loops)
        means = read_checked(learner, prompt, state)  # (P, 1, q, 1)
    else:
        return Answers(_flat(predict(learner, prompt, steps=loops)), None)
    if not isinstance(learner, Model) or learner.head != "gaussian":
        return Answers(_flat(means), None)
    logs = learner.outputs(prompt, state).chunk(2, dim=-1)[1]  # (P, 1, q, 1)
    return Answers(_flat(means), _flat(logs.exp()))


def _flat(answers: Tensor) -> Array:
    """Answers (P, 1, q, 1) as an array (P, q)."""
    return answers[:, 0, :, 0].cpu().numpy()


def _joined(parts: list[Answers]) -> Answers:
    variances = [part.variances for part in parts if part.variances is not None]
    return Answers(
        np.concatenate([part.means for part in parts]),
        np.concatenate(variances) if variances else None,
    )
