"""Figures 2 to 5, 7, 9 and 17 of Yang et al. (2024): right learners pass, and no null does.

At smoke scale, with learners in the place of trained models whose errors by loop are given.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from torch import Tensor

from innerloop.analysis import Estimate, estimate
from innerloop.core.learner import Learner, Traits
from innerloop.core.prompt import Prompt
from innerloop.learners import OLS
from innerloop.models.model import AnyModel
from innerloop.studies.claim import Claim, control
from innerloop.studies.lab import Lab
from innerloop.studies.study import Measures, Scale, Study, premises
from innerloop.studies.yang2024 import fig2, fig3, fig4, fig5, fig7, fig9, fig17
from innerloop.training.config import RunConfig
from innerloop.training.run import Run

Miss = Callable[[int], float]


@dataclass(frozen=True)
class Progress:
    """How far a learner is, and whether it still gets its input."""

    answers: Tensor  # (B, n, k)
    step: int = 0
    term: bool | None = True
    starved: int = 0
    """Steps without input."""


@dataclass(frozen=True)
class Missing(Learner[Progress]):
    """Answers that fall short by a share that depends on the step: the error is its square.

    Short of least squares, or of the right answer, which no learner could know.
    """

    steps: int
    miss: Miss
    least_squares: bool = False
    traits: Traits = field(default_factory=Traits)

    def init(self, prompt: Prompt) -> Progress:
        if not self.least_squares:
            return Progress(prompt.ys)
        return Progress(OLS().read(prompt, OLS().init(prompt)))

    def step(self, prompt: Prompt, state: Progress, k: int) -> Progress:
        starved = state.starved + (state.term is None)
        return replace(state, step=k + 1, starved=starved)

    def read(self, prompt: Prompt, state: Progress) -> Tensor:
        return (1 - self.miss(state.step) * 2.0**state.starved) * state.answers  # (B, n, k)


class Trained(Run):
    """A run whose model is one of these."""

    def __init__(self, config: RunConfig, learner: Learner[Any]) -> None:
        super().__init__(Path("nowhere"), config)
        self._learner = learner

    def model(self, device: torch.device | str = "cpu") -> AnyModel:
        return cast(AnyModel, self._learner)


def stays(steps: int, floor: float = 0.05, *, least_squares: bool = False) -> Missing:
    """An error that falls to a floor, and stays."""
    return Missing(steps, lambda k: max(floor, 0.3**k), least_squares)


def drifts(steps: int, by: float = 1.2) -> Missing:
    """An error that falls until the last step, and then grows."""
    return Missing(steps, lambda k: 0.3**k if k < steps else 0.1 * by ** (k - steps))


def halving(loops: int, layers: float, worse: float = 1.0) -> Missing:
    """So many halvings of what is missed with each step."""
    return Missing(loops, lambda k: worse * 0.5 ** (layers * k))


RIGHT: Mapping[str, Mapping[str, Learner[Any]]] = {
    "fig2": {"looped": stays(4, least_squares=True), "standard": stays(2, 0.05)},
    "fig3": {"injected": stays(4), "tied": drifts(4, 2.0)},
    "fig4": {
        "linear b=4 T=2": stays(4, 0.1), "linear b=2 T=3": drifts(2), "linear b=4 T=3": stays(4)
    },
    "fig5": {
        "looped, 3 dimensions, 64 prompts": stays(4, 0.1),
        "standard, 3 dimensions, 64 prompts": stays(2, 0.7),
        "looped, 3 dimensions, fresh prompts": stays(4),
        "standard, 3 dimensions, fresh prompts": stays(2),
    },
    "fig7": {
        "looped L = 1": halving(4, 1), "looped L = 2": halving(4, 2),
        "looped D = 8": halving(4, 1, 1.5), "looped h = 1": halving(4, 1, 1.5),
        "looped h = 4": halving(4, 1, 1.5),
        "standard L = 1": halving(1, 2.5), "standard L = 2": halving(2, 2.5),
    },
    "fig9": {
        "sparse b=2 T=3": drifts(2), "sparse b=4 T=3": stays(4), "tree b=4 T=3": drifts(4),
        "network b=4 T=3": stays(4),
    },
    "fig17": {
        "linear with": stays(4), "linear without": stays(4, 0.06),
        "network with": stays(4), "network without": stays(4, 0.06),
    },
}  # fmt: skip
"""Learners of which the sentences are true, by study and label."""
STUDIES = {study.id: study for study in (fig2, fig3, fig4, fig5, fig7, fig9, fig17)}
UNMEASURED = {"sparse-alike", "helps-trees"}
"""What needs the paper's scale."""
CLAIMS = [
    (id, claim.name) for id, study in STUDIES.items() for claim in study.claims
    if claim.name not in UNMEASURED
]  # fmt: skip


def lab_of(study: Study) -> Lab:
    """The right learners of one seed and of another."""
    runs = {
        label: Trained(config, RIGHT[study.id][label])
        for label, config in study.runs("smoke").items()
    }
    return Lab(study=study.name, scale="smoke", runs=runs, others=runs)


@cache
def measured(id: str, null: str | None = None) -> Measures:
    """What a study measures on the right learners, or with a null in their place."""
    lab = lab_of(STUDIES[id])
    return STUDIES[id].measure(lab if null is None else lab.standing_in(STUDIES[id].nulls[null]))


def claim_of(id: str, name: str) -> Claim:
    (claim,) = [each for each in STUDIES[id].claims if each.name == name]
    return claim


def number(claim: Claim, measures: Measures) -> Estimate:
    return estimate(claim.statistic, [measures], log=claim.ratio, draws=100)


@pytest.mark.parametrize(("id", "name"), CLAIMS)
def test_right_learners_meet_premise_and_criterion(id: str, name: str) -> None:
    claim, own = claim_of(id, name), measured(id)
    assert control(claim, "none", number(claim, own), premises(claim, [own])).passes


@pytest.mark.parametrize(("id", "name"), CLAIMS)
def test_no_null_meets_premise_and_criterion(id: str, name: str) -> None:
    claim = claim_of(id, name)
    assert claim.excludes
    for null in claim.excludes:
        own = measured(id, null)
        assert not control(claim, null, number(claim, own), premises(claim, [own])).passes, null


@pytest.mark.parametrize(
    ("id", "name", "null"),
    [
        ("fig2", "stays", "without input beyond b"),
        ("fig2", "near-least-squares", "gradient descent"),
        ("fig2", "near-least-squares", "ridge"), ("fig3", "injected-stays", "the other"),
        ("fig3", "tied-falls-apart", "the other"), ("fig4", "many-loops-stay", "few for many"),
        ("fig4", "few-loops-diverge", "few for many"),
        ("fig4", "few-losses-cost", "one T against itself"),
        ("fig5", "lower-error", "standard of another seed"),
        ("fig7", "width-helps", "the usual block"), ("fig7", "layers-faster", "the usual block"),
        ("fig7", "more-loops-than-layers", "a step per loop and layer"),
        ("fig9", "larger-b-stays", "one b against itself"),
        ("fig9", "network-needs-least", "one b against itself"),
        ("fig17", "linear-alike", "plain without"), ("fig17", "network-alike", "plain without"),
    ],
)  # fmt: skip
def test_the_hardest_null_fails_by_the_criterion_and_not_only_by_the_premise(
    id: str, name: str, null: str
) -> None:
    claim, own = claim_of(id, name), measured(id, null)
    measure = number(claim, own)
    assert claim.criterion.judge(measure.low, measure.high) == "contradicted"


@pytest.mark.parametrize("scale", ["smoke", "laptop", "paper"])
@pytest.mark.parametrize(
    ("study", "null"),
    [
        (fig4, "one T against itself"), (fig5, "standard of another seed"),
        (fig7, "the usual block"), (fig9, "one b against itself"), (fig17, "with a schedule, too"),
    ],
)  # fmt: skip
def test_models_of_another_seed_are_runs_of_the_same_scale(
    study: Study, null: str, scale: Scale
) -> None:
    runs = {label: Trained(config, OLS()) for label, config in study.runs(scale).items()}
    lab = Lab(study=study.name, scale=scale, runs=runs, others=runs)
    instead = study.nulls[null](lab)
    assert instead
    assert set(instead) <= set(runs)
