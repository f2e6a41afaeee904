"""Which known algorithm does a learner run? Its predictions beside those of every candidate.

Every candidate is fitted - its steps over their whole range, its continuous parameters refined
between the points of their grid - and ranked by its distance from the learner. The answer is the
closest family, unless even that leaves too much unexplained. Then the task is shifted, and what was
fitted is compared with the learner again (`battery.py`).

Shapes: P prompts, n points, k outputs.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations
from typing import Any

import pandas as pd
import torch

from innerloop.analysis.battery import RESOLUTION, Situation, hold, situations
from innerloop.analysis.candidates import (
    DESCENT,
    MOMENTUM,
    Battery,
    Candidate,
    Family,
    chosen_families,
    default_candidates,
    given_candidates,
)
from innerloop.analysis.descent_fit import fit_descent
from innerloop.analysis.distances import Fitted, Question, closest_of_family, pose
from innerloop.analysis.error import Progress
from innerloop.analysis.identification import Identification, sureness_of
from innerloop.analysis.induced import induced_weights
from innerloop.analysis.intervals import CONFIDENCE, DRAWS, occurrences, resample, seeded
from innerloop.analysis.matching import progression
from innerloop.analysis.momentum_fit import fit_momentum
from innerloop.analysis.refine import refine
from innerloop.analysis.similarity import weight_cosines
from innerloop.core.arguments import expect_count, expect_device
from innerloop.core.errors import ConfigurationError
from innerloop.core.expects import expect_learner, expect_task
from innerloop.core.learner import Learner
from innerloop.core.task import Task

UNEXPLAINED = 0.05
"""A family that leaves more than this part of the learner's predictions unexplained is not the
answer: a convention. Known algorithms with noise of 0.01 on their predictions leave at most 0.0014,
a trained looped transformer 0.009, a kernel smoother 0.14, a mixture of OLS and neighbours 0.32."""
WORTH_REFINING = 300.0
"""Parameters are refined for candidates whose distance is at most so many times the least."""
SHIFTED = 128
"""Prompts on which each shift is tried, at most."""
SOME = 64
"""Prompts on which induced weights and the progression from step to step are looked at."""


def identify(
    learner: Learner[Any],
    task: Task,
    *,
    points: int,
    prompts: int = 256,
    steps: int | None = None,
    battery: Battery = "quick",
    shifts: Mapping[str, Task] | None = None,
    noise: float | None = None,
    families: Sequence[str] | None = None,
    candidates: Sequence[Candidate | Learner[Any]] | None = None,
    draws: int = DRAWS,
    seed: int = 0,
    device: torch.device | str = "cpu",
    progress: Progress | None = None,
) -> Identification:
    """Say which known algorithm predicts as the learner does, and under which shifts.

    Every family is fitted to the learner's answers on prompts of the task and ranked by SPD, the
    squared prediction difference over the task's scale. Under each shift the same algorithms, with
    the parameters found on the task, are compared again. The battery "quick" has eight shifts and
    all families that are quick to fit, "full" all families and the papers' shifts, "none" no
    shifts. `shifts` are tasks by name to try in the place of the battery's, `noise` is the
    standard deviation of the noise that it adds; `families` are names such as "ridge",
    `candidates` learners of one's own in their place, each with its parameters as they are.
    """
    expect_learner(learner)
    expect_task(task)
    expect_device(device)
    for name, number in (("prompts", prompts), ("draws", draws)):
        expect_count(name, number)
    if prompts < 2 or draws < 1:
        raise ConfigurationError(
            f"{prompts} prompts and {draws} draws: expected at least 2 and 1, to have an interval."
        )
    asked = partial(pose, learner, steps=steps, generator=seeded(seed), device=device)
    question = asked(task, points=points, prompts=prompts)
    size = float(question.size.mean())
    if not 1e-20 < size < 1e100:
        raise ConfigurationError(
            f"{learner.name} predicts numbers of size {size**0.5:.2g} on this task: too small or "
            "too large to be compared with anything. Give it prompts that it was made for."
        )
    several = situations(task, points, battery, shifts=shifts, noise=noise)
    given = None if candidates is None else given_candidates(candidates)
    fitted = _fit_families(chosen_families(families, battery), given, question, progress)
    answer, chosen = _decide(learner.name, fitted, question, draws, seed)

    def ask(situation: Situation) -> Question:
        number = min(prompts, SHIFTED)
        return asked(situation.task, points=situation.points, prompts=number)

    held = hold(fitted, chosen, several, ask, threshold=UNEXPLAINED, draws=draws, seed=seed)
    similar = _weight_similarity(learner, fitted, question, steps, seed)
    closest = fitted[0].candidate
    # What iterates without a parameter of its own is one of the references of `progression`.
    iterates = closest.learner.steps and closest.parameters
    return replace(
        answer,
        ranking=answer.ranking.assign(sim_w=[similar.get(f) for f in answer.ranking["family"]]),
        shifts=held,
        progression=progression(
            learner, question.prompt.select(slice(0, SOME)), steps=steps,
            closest=(fitted[0].describe(), closest.learner) if iterates else None,
        ),
        mixture=_mixture(fitted, question) if answer.family == "none" else (),
    )  # fmt: skip


def _fit_families(
    families: Sequence[Family],
    candidates: Sequence[Candidate] | None,
    question: Question,
    progress: Progress | None,
) -> list[Fitted]:
    """The closest member of every family, refined; closest first."""
    # Settings that differ in kind are fitted apart: the grid may favour the wrong one.
    kinds: dict[tuple[Family, int, str], list[Candidate]] = {}
    given = default_candidates(question.prompt, families) if candidates is None else candidates
    for candidate in given:
        kind = (candidate.family, len(candidate.parameters), candidate.note)
        kinds.setdefault(kind, []).append(candidate)
    report = (lambda *_: None) if progress is None else progress
    coarse: list[Fitted] = []
    for done, ((family, _, _), members) in enumerate(kinds.items()):
        report(family.name, done, 2 * len(kinds))
        closest = closest_of_family(members, question)
        coarse += [closest] if closest is not None else []
    best: dict[Family, Fitted] = {}
    if candidates is None and DESCENT in families:
        best[DESCENT] = fit_descent(question)
    least = min((one.mean for one in (*coarse, *best.values())), default=math.inf)
    if candidates is None and MOMENTUM in families:
        best[MOMENTUM] = fit_momentum(question, worth=WORTH_REFINING * least)
        least = min(least, best[MOMENTUM].mean)
    for done, one in enumerate(coarse):
        family = one.candidate.family
        report(family.name, len(kinds) + done, 2 * len(kinds))
        # What is far off on the grid is far off between its points.
        refined = refine(one, question) if one.mean <= WORTH_REFINING * least else one
        if family not in best or refined.mean < best[family].mean:
            best[family] = refined
    if not best:
        raise ConfigurationError("no candidate can run on this task: give others.")
    return sorted(best.values(), key=lambda one: one.mean)


def _decide(
    learner: str, fitted: list[Fitted], question: Question, draws: int, seed: int
) -> tuple[Identification, int]:
    """Rank, find what cannot be told apart, and say which family it is, and its place."""
    distances = torch.stack([one.distances for one in fitted]).cpu()  # (F, P)
    number = distances.shape[1]
    times = occurrences(resample(number, draws, seeded(seed))) / number  # (draws, P)
    means = times @ distances.T  # (draws, F)
    sizes = (times @ question.size.cpu()).clamp(min=1e-300)  # (draws,)
    size = max(float(question.size.mean()), 1e-300)
    tail = (1 - CONFIDENCE) / 2
    worse = (means - means[:, :1]).quantile(tail, dim=0)  # (F,)
    mean = distances.mean(dim=1)  # (F,)
    same = (worse <= 0) | (mean - mean[0] <= RESOLUTION * size)  # (F,)
    # What does not explain the learner is not the same as what does, however rarely that shows.
    same &= (mean <= UNEXPLAINED * size) | (mean <= mean[0])  # (F,)
    ranking = pd.DataFrame(
        {
            "family": [one.candidate.family.name for one in fitted],
            "algorithm": [one.describe() for one in fitted],
            "spd": mean,
            "low": means.quantile(tail, dim=0),
            "high": means.quantile(1 - tail, dim=0),
            "unexplained": mean / size,
            "edges": [", ".join(one.edges()) for one in fitted],
        }
    )
    alike: list[int] = same.nonzero()[:, 0].tolist()
    chosen = min(alike, key=lambda index: fitted[index].candidate.family.rank)
    family, unexplained = fitted[chosen].candidate.family, float(mean[chosen]) / size
    # A draw agrees if the chosen family, or one that is the same, is closest and explains enough.
    closest = same[means.argmin(dim=1)]  # (draws,)
    enough = means[:, chosen] <= UNEXPLAINED * sizes  # (draws,)
    known = unexplained <= UNEXPLAINED
    # What the search pushed to one of its ends is the same as a limit only.
    others = [
        fitted[index].candidate.family.name
        for index in alike
        if index != chosen and not fitted[index].edges()
    ]
    agreeing = float((closest & enough if known else ~enough).double().mean())
    answer = Identification(
        learner=learner,
        family=family.name if known else "none",
        equivalents=(*family.equivalents, *others) if known else (),
        parameters=fitted[chosen].parameters() if known else {},
        unexplained=unexplained,
        edges=fitted[chosen].edges() if known else (),
        sureness=sureness_of(agreeing, question.size.cpu()),
        ranking=ranking,
        prompts=question.prompt.batch,
        points=question.prompt.points,
        threshold=UNEXPLAINED,
    )
    return answer, chosen


def _weight_similarity(
    learner: Learner[Any], fitted: list[Fitted], question: Question, steps: int | None, seed: int
) -> dict[str, float]:
    """SimW of the learner with the closest families, on some of the prompts."""
    if question.prompt.layout != "pairs":
        return {}
    some = question.prompt.select(slice(0, SOME))
    number = max(4 * some.dims, 20)
    weights = partial(induced_weights, prompt=some, queries=number, seed=seed)
    own = weights(learner, steps=steps)  # (P, n, d, k)
    cosines: dict[str, float] = {}
    for one in fitted[:6]:
        other = weights(one.candidate.learner, steps=one.step)  # (P, n, d, k)
        cosines[one.candidate.family.name] = float(weight_cosines(own, other)[:, 1:].mean())
    return cosines


def _mixture(fitted: list[Fitted], question: Question) -> tuple[tuple[float, str], ...]:
    """The two families whose weighted sum explains the answers best, if it explains enough."""
    root = question.weight.sqrt()[..., None]  # (P, n, 1)
    target = (question.answers * root).flatten()  # (m,)
    columns = [(one.predictions * root).flatten() for one in fitted]  # (m,) each
    best: tuple[float, tuple[tuple[float, str], ...]] = (UNEXPLAINED, ())
    for first, second in combinations(range(len(columns)), 2):
        both = torch.stack([columns[first], columns[second]], dim=1)  # (m, 2)
        if not bool(torch.isfinite(both).all()):
            continue
        weights = torch.linalg.lstsq(both, target[:, None]).solution[:, 0]  # (2,)
        left = float((target - both @ weights).square().sum() / target.square().sum())
        if left < best[0]:
            names = (fitted[first].describe(), fitted[second].describe())
            best = (left, tuple(zip(weights.tolist(), names, strict=True)))
    return best[1]
