"""Which known algorithm does a learner run? Its predictions beside those of every candidate.

Every candidate is fitted - its steps over their whole range, its continuous parameters refined
between the points of their grid - and ranked by its distance from the learner. The answer is the
closest family, unless even that leaves too much unexplained.

Shapes: P prompts, n points, k outputs.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from typing import Any

import pandas as pd
import torch

from innerloop.analysis.candidates import DESCENT, Candidate, Family, default_candidates
from innerloop.analysis.descent_fit import fit_descent
from innerloop.analysis.distances import Fitted, Question, closest_of_family, refine
from innerloop.analysis.error import Progress
from innerloop.analysis.induced import induced_weights
from innerloop.analysis.intervals import CONFIDENCE, DRAWS, occurrences, resample, seeded
from innerloop.analysis.matching import Progression, progression
from innerloop.analysis.similarity import counted_positions, weight_cosines
from innerloop.core.arguments import expect_count, expect_device
from innerloop.core.errors import ConfigurationError
from innerloop.core.expects import expect_learner, expect_task
from innerloop.core.iterate import predict
from innerloop.core.learner import Learner
from innerloop.core.task import Task

UNEXPLAINED = 0.05
"""A family that leaves more than this part of the learner's predictions unexplained is not the
answer: a convention. Known algorithms with noise of 0.01 on their predictions leave at most 0.0014,
a trained looped transformer 0.009, a kernel smoother 0.14, a mixture of OLS and neighbours 0.32."""
RESOLUTION = 1e-9
"""Families whose unexplained parts differ by less than this are one, whatever the statistics say:
it is what float32 models and iterations that stop at rounding leave."""
WORTH_REFINING = 300.0
"""Parameters are refined for candidates whose distance is at most so many times the least."""
SOME = 64
"""Prompts on which induced weights and the progression from step to step are looked at."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Identification:
    """The answer, and what it rests on."""

    learner: str
    family: str
    """The class name of the algorithm, or "none"."""
    equivalents: tuple[str, ...]
    """The families that it cannot be told from on these prompts."""
    parameters: dict[str, float | str]
    """Of the family: its parameter and its number of steps; empty for "none"."""
    unexplained: float
    """The part of the learner's predictions that the closest family leaves unexplained."""
    sureness: float
    """In which part of the bootstrap draws of prompts the answer is the same."""
    ranking: pd.DataFrame
    """One row per family, closest first: family, algorithm, spd, low, high, unexplained, sim_w."""
    progression: Progression | None = None
    """Which iteration of known algorithms each step of the learner is like; None without steps."""
    mixture: tuple[tuple[float, str], ...] = ()
    """Two algorithms whose weighted sum explains a learner that none explains alone."""
    prompts: int
    points: int

    @property
    def intervals(self) -> dict[str, tuple[float, float]]:
        """The interval of each family's SPD."""
        columns = (self.ranking[name].tolist() for name in ("family", "low", "high"))
        return {family: (low, high) for family, low, high in zip(*columns, strict=True)}

    def summary(self) -> str:
        """The answer in a sentence or two."""
        closest = str(self.ranking["algorithm"].iloc[0])
        if self.family == "none":
            answer = (
                f"none of these: the closest, {closest}, leaves "
                f"{self.unexplained:.1%} of the predictions unexplained."
            )
            if self.mixture:
                parts = " + ".join(f"{weight:.2f} x {name}" for weight, name in self.mixture)
                answer += f" They look like {parts}."
            return answer
        row = self.ranking[self.ranking["family"] == self.family].iloc[0]
        answer = (
            f"{row['algorithm']}: leaves {self.unexplained:.2g} of the predictions unexplained."
        )
        if self.equivalents:
            answer += f" Cannot be told from {', '.join(self.equivalents)} here."
        return f"{answer} Same answer in {self.sureness:.0%} of resampled prompts."


def identify(
    learner: Learner[Any],
    task: Task,
    *,
    points: int,
    prompts: int = 256,
    steps: int | None = None,
    candidates: Sequence[Candidate] | None = None,
    draws: int = DRAWS,
    seed: int = 0,
    device: torch.device | str = "cpu",
    progress: Progress | None = None,
) -> Identification:
    """Say which known algorithm predicts as the learner does, on prompts of a task.

    Without candidates: all families of `default_candidates`. The ranking is by SPD, the squared
    prediction difference over the task's scale; intervals are over prompts.
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
    prompt = task.sample(prompts, points, generator=seeded(seed)).to(
        device=device, dtype=torch.float64
    )
    with torch.no_grad():
        answers = predict(learner, prompt, steps=steps).double()  # (P, n, k)
    counted, scale = counted_positions(prompt), task.scale_at(points)  # (P, n), (n,)
    number = counted.sum(dim=1, keepdim=True).clamp(min=1)  # (P, 1)
    # Each prompt's mean over the positions that count, in units of the scale.
    weight = counted / scale.to(prompt.xs.device, torch.float64) / number  # (P, n)
    question = Question(prompt, answers, weight)
    if not bool(torch.isfinite(answers).all()):
        raise ConfigurationError(
            f"{learner.name} gives predictions that are not finite on this task: nothing can be "
            "compared. Take fewer steps, or prompts that it was made for."
        )
    size = float(question.size.mean())
    if not 1e-20 < size < 1e100:
        raise ConfigurationError(
            f"{learner.name} predicts numbers of size {size**0.5:.2g} on this task: too small or "
            "too large to be compared with anything. Give it prompts that it was made for."
        )
    fitted = _fit_families(candidates, question, progress)
    answer = _decide(learner.name, fitted, question, draws, seed)
    similar = _weight_similarity(learner, fitted, question, steps, seed)
    closest = fitted[0].candidate
    # What iterates without a value of its own is one of the references of `progression`.
    iterates = closest.learner.steps and closest.value is not None
    return replace(
        answer,
        ranking=answer.ranking.assign(sim_w=[similar.get(f) for f in answer.ranking["family"]]),
        progression=progression(
            learner, prompt.select(slice(0, SOME)), steps=steps,
            closest=(fitted[0].describe(), closest.learner) if iterates else None,
        ),
        mixture=_mixture(fitted, question) if answer.family == "none" else (),
    )  # fmt: skip


def _fit_families(
    candidates: Sequence[Candidate] | None, question: Question, progress: Progress | None
) -> list[Fitted]:
    """The closest member of every family, refined; closest first."""
    # Settings that differ in kind are fitted apart: the grid may favour the wrong one.
    kinds: dict[tuple[Family, str | None, str], list[Candidate]] = {}
    for candidate in default_candidates(question.prompt) if candidates is None else candidates:
        kind = (candidate.family, candidate.parameter, candidate.note)
        kinds.setdefault(kind, []).append(candidate)
    report = (lambda *_: None) if progress is None else progress
    coarse: list[Fitted] = []
    for done, ((family, _, _), members) in enumerate(kinds.items()):
        report(family.name, done, 2 * len(kinds))
        closest = closest_of_family(members, question)
        coarse += [closest] if closest is not None else []
    best = {DESCENT: fit_descent(question)} if candidates is None else {}
    least = min((one.mean for one in coarse), default=0.0)
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
) -> Identification:
    """Rank, find what cannot be told apart, and say which family it is."""
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
        }
    )
    alike: list[int] = same.nonzero()[:, 0].tolist()
    chosen = min(alike, key=lambda index: fitted[index].candidate.family.rank)
    family, unexplained = fitted[chosen].candidate.family, float(mean[chosen]) / size
    # A draw agrees if the chosen family, or one that is the same, is closest and explains enough.
    closest = same[means.argmin(dim=1)]  # (draws,)
    enough = means[:, chosen] <= UNEXPLAINED * sizes  # (draws,)
    known = unexplained <= UNEXPLAINED
    others = [fitted[index].candidate.family.name for index in alike if index != chosen]
    return Identification(
        learner=learner,
        family=family.name if known else "none",
        equivalents=(*family.equivalents, *others) if known else (),
        parameters=fitted[chosen].parameters() if known else {},
        unexplained=unexplained,
        sureness=float((closest & enough if known else ~enough).double().mean()),
        ranking=ranking,
        prompts=question.prompt.batch,
        points=question.prompt.points,
    )


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
    columns = [(one.predictions * root).flatten() for one in fitted[:8]]  # (m,) each
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
