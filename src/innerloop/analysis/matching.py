"""Which step of one learner is most like which step of another: Fu et al. (2023, definition 4).

The paper prints an argmin of similarity and means the best match; that is what is taken here.

Shapes: P prompts, n points, k outputs, A and C steps of the two learners, 0 steps included.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, get_args

import pandas as pd
import torch
from torch import Tensor

from innerloop.analysis.distances import finite
from innerloop.analysis.induced import induced_weights
from innerloop.analysis.intervals import average
from innerloop.analysis.measured import Measured
from innerloop.analysis.similarity import counted_positions
from innerloop.core.chunks import in_parts, rows_within_budget
from innerloop.core.errors import ConfigurationError, unknown
from innerloop.core.expects import expect_learner, expect_prompt
from innerloop.core.iterate import answers_by_step, iterate
from innerloop.core.learner import Learner
from innerloop.core.overflow import overflow_allowed
from innerloop.core.prompt import Prompt
from innerloop.learners import GradientDescent, Newton

Measure = Literal["sim_e", "sim_w", "spd"]
MEASURES: tuple[Measure, ...] = get_args(Measure)

FALLS = 0.9
"""A step has done something if it leaves less than this part of the error of the one before."""
NEWTON_STEPS, DESCENT_STEPS = 30, 300
"""How far `progression` runs its references: both have converged on most prompts by then."""


def match(
    first: Learner[Any],
    second: Learner[Any],
    prompt: Prompt,
    *,
    measure: Measure = "sim_e",
    steps: int | None = None,
    queries: int | Tensor = 100,
) -> Measured:
    """The similarity of all steps of two learners on each prompt: axes ("step", "match").

    SimE and SimW are cosines and SPD is a distance, as in `similarity`; `best_matches` knows. The
    first learner takes `steps`, the second its default number. The queries of SimW are those of
    `induced_weights`.
    """
    expect_learner(second)
    several = {second.name: second}
    matches = match_all(first, several, prompt, measure=measure, steps=steps, queries=queries)
    return matches[second.name]


@overflow_allowed()
def match_all(
    first: Learner[Any],
    others: Mapping[str, Learner[Any]],
    prompt: Prompt,
    *,
    measure: Measure = "sim_e",
    steps: int | None = None,
    queries: int | Tensor = 100,
    exact: bool = False,
    axes: tuple[str, str] = ("step", "match"),
) -> dict[str, Measured]:
    """`match` with each of several learners by label, for which the first is run only once.

    With `exact`, the others are linear learners, and SimW takes their own weights. `axes` name the
    steps of the first and of the others, such as ("layer", "step").
    """
    for one in (first, *others.values()):
        expect_learner(one)
    expect_prompt(prompt)
    if measure not in MEASURES:
        raise ConfigurationError(unknown("measure", measure, MEASURES))
    taken = first.steps if steps is None else steps
    size = prompt.ys[0].numel() * (prompt.dims if measure == "sim_w" else 1)
    rows = rows_within_budget(8 * (taken + 2) * size)
    parts: dict[str, list[Tensor]] = {label: [] for label in others}
    for which, part in in_parts(prompt, rows):
        asked = queries[which] if isinstance(queries, Tensor) and queries.ndim == 3 else queries
        compared = partial(_compared, prompt=part, measure=measure, queries=asked)
        own = torch.stack(list(compared(first, steps=taken)), dim=1)  # (b, A, m)
        for label, other in others.items():
            several = compared(other, steps=other.steps, exact=exact)
            columns = [
                (own - each[:, None]).square().sum(dim=2)
                if measure == "spd"
                else (own @ each[..., None])[..., 0]
                for each in several
            ]  # (b, A) each
            parts[label].append(torch.stack(columns, dim=2))  # (b, A, C)
    some = counted_positions(prompt, empty=measure == "spd").any(dim=1)[:, None, None]  # (P, 1, 1)
    return {
        label: Measured(
            values=torch.cat(several), axes=axes, label=label,
            counted=None if bool(some.all()) else some,
        )
        for label, several in parts.items()
    }  # fmt: skip


@torch.no_grad()
def _compared(
    learner: Learner[Any],
    *,
    prompt: Prompt,
    measure: Measure,
    steps: int,
    queries: int | Tensor,
    exact: bool = False,
) -> Iterator[Tensor]:
    """What is compared of each step, (b, m): directions for cosines, else scaled answers."""
    counted = counted_positions(prompt, empty=measure == "spd")[..., None]  # (b, n, 1)
    number = counted.sum(dim=1).clamp(min=1).double() * prompt.outputs  # (b, 1)
    if measure == "sim_w":
        several = (
            (learner.weights(prompt, state) for state in iterate(learner, prompt, steps=steps))
            if exact
            else induced_weights(learner, prompt, queries=queries, steps=steps, every_step=True)
        )  # K + 1 of (b, n, d, k)
        for weights in several:
            each = _unit(weights.mT) * counted[..., None]  # (b, n, k, d)
            yield each.flatten(1) / number.sqrt()
        return
    for read in answers_by_step(learner, prompt, steps):
        answers = read.double()  # (b, n, k)
        if measure == "spd":
            yield (finite(answers) * counted).flatten(1) / number.sqrt()
        else:
            yield _unit(((finite(answers) - prompt.ys.double()) * counted).flatten(1))


def _unit(vectors: Tensor) -> Tensor:
    """Vectors (.., m) at length 1; those of length 0, and what is not finite, become zero."""
    length = vectors.norm(dim=-1, keepdim=True)  # (.., 1)
    return torch.where(length.isfinite() & (length > 0), vectors / length, 0.0)


def best_matches(similarity: Tensor, measure: Measure = "sim_e") -> Tensor:
    """The step (.., A) of the second learner most like each of the first's, from (.., A, C)."""
    if measure == "spd":
        return torch.nan_to_num(similarity, nan=torch.inf).argmin(dim=-1)
    return torch.nan_to_num(similarity, nan=-torch.inf, neginf=-torch.inf).argmax(dim=-1)


def line(places: Tensor, values: Tensor, chosen: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """The slope (..) of the line through values (.., L) at places (L,), and its R^2 (..).

    `chosen` (.., L) is 1 at the places that count, 0 elsewhere.
    """
    weights = torch.ones_like(places) if chosen is None else chosen  # (.., L)
    count, xs, ys = (
        (weights * each).sum(dim=-1) for each in (torch.ones_like(places), places, values)
    )  # (..) each
    # Not from differences to means: so, sums of whole numbers are exact, and a slope of 2 is 2.
    together = count * (weights * places * values).sum(dim=-1) - xs * ys  # (..)
    across = count * (weights * places.square()).sum(dim=-1) - xs.square()  # (..)
    up = count * (weights * values.square()).sum(dim=-1) - ys.square()  # (..)
    return together / across, together.square() / (across * up)


def explained(
    places: Tensor, matches: Tensor, chosen: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """What a line explains of matches (.., L), and what one explains of their logarithms: R^2.

    The first is near 1 where they grow linearly, the second where they grow exponentially.
    """
    from_one = matches.double().clamp(min=1)  # (.., L): the start has no logarithm
    return line(places, from_one, chosen)[1], line(places, from_one.log(), chosen)[1]


def falling_steps(errors: Tensor) -> range:
    """The steps in which errors (A,), those before the first step first, fall.

    From the first that has less than FALLS of the first error on to the last that has less than
    FALLS of the error of the step before.
    """
    known = (errors < FALLS * errors[0]).nonzero()[:, 0].tolist()
    moved = [step for step in range(1, len(errors)) if errors[step] < FALLS * errors[step - 1]]
    return range(known[0], moved[-1] + 1) if known and moved else range(0)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Progression:
    """The best match of every step of a learner, in each of some iterative algorithms.

    Fu et al. (2023): the layers of a transformer match Newton's iterations linearly, and those of
    gradient descent exponentially.
    """

    similarity: dict[str, Tensor]
    """(A, C): the SimE of every step with every iteration, by the name of the algorithm."""

    @property
    def best(self) -> dict[str, Tensor]:
        """(A,) int64: the best-matching iterations, by the name of the algorithm."""
        return {name: best_matches(table) for name, table in self.similarity.items()}

    def table(self) -> pd.DataFrame:
        """One row per step: step, and for each algorithm the iteration and its SimE."""
        columns: dict[str, Any] = {}
        for name, best in self.best.items():
            value = self.similarity[name].gather(1, best[:, None])[:, 0]  # (A,)
            columns |= {"step": range(len(best)), name: best, f"SimE with {name}": value}
        return pd.DataFrame(columns)

    def fits(self) -> dict[str, tuple[float, float]]:
        """R^2 of a line through the matches and of an exponential, by the name of the algorithm.

        Without step 0, where nothing has been computed, and without the last steps that match the
        last iteration: these would match a later one, were there any. NaN without two steps.
        """
        fits: dict[str, tuple[float, float]] = {}
        for name, best in self.best.items():
            inner = (best < self.similarity[name].shape[1] - 1).nonzero()[:, 0]  # (some,)
            places = torch.arange(1, int(inner[-1]) + 1 if len(inner) else 1)  # (L,)
            linear, exponential = explained(places.double(), best[places].double())  # () each
            fits[name] = (float(linear), float(exponential))
        return fits


def progression(
    learner: Learner[Any],
    prompt: Prompt,
    *,
    steps: int | None = None,
    closest: tuple[str, Learner[Any]] | None = None,
) -> Progression | None:
    """Match the steps of a learner by SimE; None where it takes none.

    Beside Newton's method and gradient descent, `closest` is matched, an iterative algorithm with
    the name that the table calls it by.
    """
    taken = learner.steps if steps is None else steps
    if taken == 0 or learner.steps == 0 or prompt.layout != "pairs":
        return None
    references: dict[str, Learner[Any]] = {
        "Newton": Newton(steps=NEWTON_STEPS),
        "GradientDescent": GradientDescent(steps=DESCENT_STEPS),
        **({} if closest is None else {closest[0]: closest[1]}),
    }
    return Progression(
        similarity={
            name: average(measured.values, counted=measured.counted)  # (A, C)
            for name, measured in match_all(learner, references, prompt, steps=taken).items()
        }
    )
