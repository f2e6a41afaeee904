"""From step to step: which iteration of Newton's method and of gradient descent each step is like.

Fu et al. (2023): the layers of a transformer match Newton's iterations linearly, and those of
gradient descent exponentially.
"""

from dataclasses import dataclass
from typing import Any

import pandas as pd
import torch

from innerloop.analysis.distances import Fitted
from innerloop.analysis.matching import Match, compare_steps, matched
from innerloop.core.iterate import trajectory
from innerloop.core.learner import Learner
from innerloop.core.prompt import Prompt
from innerloop.learners import GradientDescent, Newton

NEWTON_STEPS, DESCENT_STEPS = 30, 300
"""How far the reference algorithms are run: both have converged on most prompts by then."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Progression:
    """The best match of every step of a learner, in each of some iterative algorithms."""

    matches: dict[str, Match]
    """By the name of the algorithm."""

    def table(self) -> pd.DataFrame:
        """One row a step: step, and for each algorithm the iteration and its SimE."""
        tables = [
            match.table()
            .set_index("step")
            .rename(columns={"match": name, "similarity": f"SimE with {name}"})
            for name, match in self.matches.items()
        ]
        return pd.concat(tables, axis=1).reset_index()


def progression(
    learner: Learner[Any],
    prompt: Prompt,
    *,
    steps: int | None = None,
    closest: Fitted | None = None,
) -> Progression | None:
    """Match the steps of a learner by SimE; None where it takes none.

    Beside the two reference algorithms, the closest one that was found is matched, if it iterates.
    """
    taken = learner.steps if steps is None else steps
    if taken == 0 or learner.steps == 0 or prompt.layout != "pairs":
        return None
    references: dict[str, Learner[Any]] = {
        "Newton": Newton(steps=NEWTON_STEPS),
        "GradientDescent": GradientDescent(steps=DESCENT_STEPS),
    }
    # Without a parameter of its own the closest is one of the references.
    if closest is not None and closest.candidate.iterates and closest.candidate.parameter:
        references[closest.describe()] = closest.candidate.learner
    with torch.no_grad():
        own = trajectory(learner, prompt, steps=taken).predictions.double()  # (A, P, n, k)
        matches = {
            name: matched(
                compare_steps(own, trajectory(other, prompt).predictions.double(), prompt, "sim_e"),
                "sim_e",
            )
            for name, other in references.items()
        }
    return Progression(matches=matches)
