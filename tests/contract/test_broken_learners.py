"""Each check of the contract catches the mistake that it is there for, and nothing else."""

import inspect
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from innerloop.core.checks import CHECKS, check_learner
from innerloop.core.errors import AnswerShapeError, ConfigurationError, ContractViolation
from innerloop.core.learner import Learner, Traits
from innerloop.core.named_prompts import Setting, named_prompts
from innerloop.core.prompt import Prompt
from innerloop.core.state_parts import MovingPart
from innerloop.learners.averaging import Averaging
from tests.contract import broken
from tests.contract.broken import (
    BROKEN,
    INVARIANT,
    Broken,
    DescentState,
    PrefixDescent,
    PrefixMoments,
    WholePromptMean,
    grams,
    moments,
)

RIGHT: list[Learner[Any]] = [Averaging(), PrefixDescent(), PrefixMoments(), WholePromptMean()]


class OneOutputOfAWholePrompt(WholePromptMean):
    """Its shape (R, n, 1) is broadcast to all outputs when prefixes are expanded."""

    def init(self, prompt: Prompt) -> Tensor:
        return super().init(prompt)[..., :1]


class WholePromptInDouble(WholePromptMean):
    """Its float64 answers are cast when prefixes are expanded."""

    def init(self, prompt: Prompt) -> Tensor:
        return super().init(prompt.to(dtype=torch.float64))

    def read(self, prompt: Prompt, state: Tensor) -> Tensor:
        return state


class ClipsInPlaceWithoutQueries(broken.ClipsInPlace):
    """Changes the prompt, unless it has queries."""

    def fit(self, prompt: Prompt) -> Tensor:
        copied = replace(prompt, ys=prompt.ys.clone())
        return super().fit(prompt if prompt.queries is None else copied)


class ReadsTheNoise(PrefixMoments):
    """Reads a truth of another name than "w"."""

    def fit(self, prompt: Prompt) -> Tensor:
        return moments(prompt) / (1.0 + ("noise" in prompt.truth))


class IgnoresWhereItIsPut(PrefixDescent):
    """Acceleration would have no effect, without a word."""

    @property
    def moving(self) -> MovingPart[DescentState]:
        return replace(super().moving, replace=lambda state, moving: state)


class MovesInPlace(PrefixDescent):
    """Changes the state that it was given."""

    @property
    def moving(self) -> MovingPart[DescentState]:
        def put(state: DescentState, moving: Tensor) -> DescentState:
            state.weights.copy_(moving)
            return state

        return replace(super().moving, replace=put)


@dataclass(frozen=True)
class MomentumState(DescentState):
    velocity: Tensor  # (B, n, d, k)


class ForgetsItsMomentum(PrefixDescent):
    """Its step depends on more than its moving part."""

    def init(self, prompt: Prompt) -> MomentumState:
        start = super().init(prompt)
        return MomentumState(start.weights, start.sizes, torch.zeros_like(start.weights))

    def step(self, prompt: Prompt, state: DescentState, k: int) -> MomentumState:
        assert isinstance(state, MomentumState)
        plain = super().step(prompt, state, k).weights - state.weights  # (B, n, d, k)
        velocity = 0.5 * state.velocity + plain  # (B, n, d, k)
        return MomentumState(state.weights + velocity, state.sizes, velocity)


@dataclass(frozen=True)
class AnsweredState(DescentState):
    answers: Tensor  # (B, n, k) or (B, n, q, k)


class KeepsAnOldAnswer(PrefixDescent):
    """Its state holds the answer as well, which nobody moves."""

    def init(self, prompt: Prompt) -> AnsweredState:
        return self.answered(prompt, super().init(prompt))

    def step(self, prompt: Prompt, state: DescentState, k: int) -> AnsweredState:
        return self.answered(prompt, super().step(prompt, state, k))

    def answered(self, prompt: Prompt, state: DescentState) -> AnsweredState:
        answers = super().read(prompt, state)
        return AnsweredState(state.weights, state.sizes, answers)

    def read(self, prompt: Prompt, state: DescentState) -> Tensor:
        assert isinstance(state, AnsweredState)
        return state.answers


class MovesPrefixFirstByItself(broken.MovesPrefixFirst):
    """Not batch first, and not to be moved by hand."""

    @property
    def moving(self) -> MovingPart[DescentState]:
        return replace(super().moving, replace=None)


class WeightsOfTheLastStepOnly(PrefixDescent):
    """Gives the final weights, whatever state it is asked about."""

    def weights(self, prompt: Prompt, state: DescentState | None = None) -> Tensor:
        return super().weights(prompt, None)


class WeightsInSingle(PrefixDescent):
    """Weights are promised in float64."""

    def weights(self, prompt: Prompt, state: DescentState | None = None) -> Tensor:
        return super().weights(prompt, state).float()


class PeeksBeforeItsFirstStep(PrefixDescent):
    """Its first state has seen y_i; those after it are right."""

    def init(self, prompt: Prompt) -> DescentState:
        return replace(super().init(prompt), weights=moments(prompt).roll(-1, dims=1))

    def step(self, prompt: Prompt, state: DescentState, k: int) -> DescentState:
        return super().step(prompt, super().init(prompt) if k == 0 else state, k)


class StepsInPlaceAtFirst(PrefixDescent):
    """Changes its initial state only."""

    def step(self, prompt: Prompt, state: DescentState, k: int) -> DescentState:
        after = super().step(prompt, state, k)
        if k == 0:
            state.weights.copy_(after.weights)
        return after


SUBTLE = [
    Broken(OneOutputOfAWholePrompt(), "shape_and_dtype"),
    Broken(WholePromptInDouble(), "shape_and_dtype"),
    Broken(ClipsInPlaceWithoutQueries(), "inputs_unmodified"),
    Broken(ReadsTheNoise(), "truth_unread"),
    Broken(IgnoresWhereItIsPut(), "moving"),
    Broken(MovesInPlace(), "moving"),
    Broken(ForgetsItsMomentum(), "moving"),
    Broken(KeepsAnOldAnswer(), "moving"),
    Broken(MovesPrefixFirstByItself(), "moving"),
    Broken(WeightsOfTheLastStepOnly(), "weights"),
    Broken(WeightsInSingle(), "weights"),
    Broken(PeeksBeforeItsFirstStep(), "no_peeking"),
    Broken(StepsInPlaceAtFirst(), "resumable"),
]
"""Mistakes that show on one path only: without queries, before the last step, when moved."""

ALL = BROKEN + SUBTLE


def name_of(case: Any) -> str:
    return getattr(case, "learner", case).name


def violations(learner: Learner[Any]) -> set[str]:
    """The names of all checks that a learner breaks, with one output or two."""
    found: set[str] = set()
    for name, check in CHECKS.items():
        for outputs in (1, 2):
            try:
                check(learner, Setting(outputs=outputs))
            except ContractViolation:
                found.add(name)
            except AnswerShapeError:
                # No other check can be carried out on such answers: the first must say so.
                assert "shape_and_dtype" in found
    return found


@pytest.mark.parametrize("case", ALL, ids=name_of)
def test_broken_learner_is_caught_by_its_check(case: Broken) -> None:
    assert violations(case.learner) == {case.caught_by} | case.also


@pytest.mark.parametrize("case", ALL, ids=name_of)
def test_broken_learner_does_not_pass_as_a_whole(case: Broken) -> None:
    with pytest.raises(ContractViolation, match=f"^{case.learner.name} .*\\.$"):
        check_learner(case.learner)


def test_every_check_has_a_broken_learner() -> None:
    assert {case.caught_by for case in BROKEN} == set(CHECKS)


def test_every_broken_learner_is_in_the_list() -> None:
    defined = {
        value
        for value in vars(broken).values()
        if inspect.isclass(value) and issubclass(value, Learner) and not inspect.isabstract(value)
    }
    assert defined - {type(case.learner) for case in BROKEN} == {
        PrefixDescent, PrefixMoments, WholePromptMean,
    }  # fmt: skip


@pytest.mark.parametrize("learner", RIGHT, ids=name_of)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_right_learner_keeps_the_contract(learner: Learner[Any], dtype: torch.dtype) -> None:
    check_learner(learner, dtype=dtype)


@pytest.mark.parametrize("learner", RIGHT, ids=name_of)
def test_right_learner_keeps_the_contract_on_streams(learner: Learner[Any]) -> None:
    check_learner(learner, layout="stream", outputs=(1,))


@given(
    learner=st.sampled_from(RIGHT),
    dims=st.integers(1, 6),
    more=st.integers(3, 8),
    outputs=st.integers(1, 4),
    seed=st.integers(0, 2**20),
    dtype=st.sampled_from([torch.float64, torch.float32]),
)
def test_contract_over_random_shapes(
    learner: Learner[Any], dims: int, more: int, outputs: int, seed: int, dtype: torch.dtype
) -> None:
    check_learner(
        learner, dims=dims, points=dims + more, outputs=(outputs,), seed=seed, dtype=dtype
    )


@given(
    case=st.sampled_from(ALL),
    dims=st.integers(2, 6),
    more=st.integers(3, 8),
    seed=st.integers(0, 2**20),
)
def test_broken_learners_are_caught_at_random_shapes(
    case: Broken, dims: int, more: int, seed: int
) -> None:
    with pytest.raises(ContractViolation):
        check_learner(case.learner, dims=dims, points=dims + more, seed=seed)


def test_untrue_trait_is_caught_in_float32_as_well() -> None:
    with pytest.raises(ContractViolation, match="promises to be linear_in_y"):
        check_learner(broken.ClipsItsAnswers(), dtype=torch.float32)


def test_peeking_is_caught_on_streams_as_well() -> None:
    with pytest.raises(ContractViolation, match="peeks beyond point"):
        check_learner(broken.IncludesItsOwnAnswer(), layout="stream")


def test_traits_that_mean_nothing_on_a_stream_are_not_looked_at() -> None:
    check_learner(broken.OrderUnsaid(), layout="stream")
    check_learner(broken.RotationUnsaid(), layout="stream")
    check_learner(broken.LinearityUnsaid(), layout="stream")


def test_unknown_waiver_names_the_nearest_check() -> None:
    with pytest.raises(ConfigurationError, match="unknown check 'ordr': did you mean 'order'"):
        check_learner(PrefixMoments(), waived={"ordr": "a reason"})


def test_waiver_that_is_not_needed_is_a_breach() -> None:
    with pytest.raises(ContractViolation, match="passes 'order': its waiver is not needed"):
        check_learner(PrefixMoments(), waived={"order": "it was thought to depend on it"})


def test_needed_waiver_lets_a_learner_pass() -> None:
    check_learner(broken.ForgetsOldExamples(), waived={"order": "it forgets, by design"})


def test_waiver_that_one_of_two_settings_needs_is_needed() -> None:
    class SeveralInDouble(broken.StaysInDouble):
        def init(self, prompt: Prompt) -> Tensor:
            return super().init(prompt).to(torch.float64 if prompt.outputs > 1 else prompt.xs.dtype)

    reason = {"shape_and_dtype": "made for scalar problems"}
    check_learner(SeveralInDouble(), outputs=(1, 2), waived=reason)
    with pytest.raises(ContractViolation, match="not needed"):
        check_learner(SeveralInDouble(), outputs=(1,), waived=reason)


def test_a_learner_that_ignores_queries_keeps_the_contract() -> None:
    """It is run on expanded prefixes instead."""

    class AtTheInputs(PrefixMoments):
        def init(self, prompt: Prompt) -> Tensor:
            return super().init(prompt.ask(None))

    check_learner(AtTheInputs())


def test_waiver_excuses_one_check_only() -> None:
    with pytest.raises(ContractViolation, match="promises to be causal"):
        check_learner(
            broken.IncludesItsOwnAnswer(),
            waived={"no_peeking": "a reason", "queries": "a reason"},
        )


def test_too_few_points_are_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"points is 5, expected at least dims \+ 3 = 6"):
        check_learner(PrefixMoments(), dims=3, points=5)


def test_own_tolerance_replaces_the_table() -> None:
    @dataclass
    class Rough(PrefixMoments):
        """Off by up to one part in a million, differently at each call."""

        calls: int = 0

        def fit(self, prompt: Prompt) -> Tensor:
            self.calls += 1
            return moments(prompt) * (1 + 1e-7 * (self.calls % 2))

    with pytest.raises(ContractViolation, match="allowed 1e-08"):
        check_learner(Rough())
    check_learner(Rough(), tolerance=1e-6)


def test_named_prompts_have_what_their_names_say() -> None:
    prompts = named_prompts(Setting(dims=4, points=9))
    assert prompts["plain"].points == 9
    assert prompts["fewer points than dimensions"].points == 3
    assert prompts["as many points as dimensions"].points == 4
    assert prompts["one example more than dimensions"].points == 4 + 1 + 1
    assert int(torch.linalg.matrix_rank(prompts["collinear inputs"].xs).max()) == 1
    assert torch.equal(prompts["repeated inputs"].xs[:, 0], prompts["repeated inputs"].xs[:, 1])
    assert not prompts["zero inputs"].xs.any()
    assert not prompts["one zero input"].xs[:, 0].any()
    assert prompts["one zero input"].xs[:, 1:].all()
    first = prompts["plain"].xs[:, :4]  # (B, d, d)
    assert float(torch.linalg.cond(first).max()) < 100


def test_named_streams_are_streams() -> None:
    for name, prompt in named_prompts(Setting(layout="stream")).items():
        assert prompt.layout == "stream", name
        assert torch.equal(prompt.ys[:, :-1], prompt.xs[:, 1:]), name


class FollowsTheLastExample(PrefixMoments):
    """Right: answers with y of the last example; the order matters, all else holds."""

    traits = Traits(rotation_equivariant=True, linear_in_y=True)

    def init(self, prompt: Prompt) -> Tensor:
        last = torch.cat([torch.zeros_like(prompt.ys[:, :1]), prompt.ys[:, :-1]], dim=1)
        return last if prompt.queries is None else last[:, :, None].expand(prompt.prediction_shape)


def test_order_is_refuted_for_every_seed() -> None:
    check_learner(FollowsTheLastExample())
    for seed in range(20):
        CHECKS["order"](FollowsTheLastExample(), Setting(seed=seed))
        CHECKS["order"](FollowsTheLastExample(), Setting(dims=1, points=4, seed=seed))


def test_undeclared_rotation_is_not_held_against_a_learner_in_one_dimension() -> None:
    @dataclass
    class WithoutRotation(PrefixMoments):
        traits = replace(INVARIANT, rotation_equivariant=False)

        def fit(self, prompt: Prompt) -> Tensor:
            variances = grams(prompt).diagonal(dim1=2, dim2=3)  # (B, n, d)
            return moments(prompt) / (1 + variances[..., None])

    check_learner(WithoutRotation(), dims=2, points=6)
    check_learner(WithoutRotation(), dims=1, points=6)


def test_no_outputs_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="outputs is empty"):
        check_learner(PrefixMoments(), outputs=())


def test_types_without_a_tolerance_are_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"no tolerance for torch\.float16"):
        check_learner(PrefixMoments(), dtype=torch.float16)


def test_waiver_without_a_reason_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="the waiver of 'order' has no reason"):
        check_learner(broken.ForgetsOldExamples(), waived={"order": " "})


def test_truth_that_is_read_after_a_cast_is_seen() -> None:
    class CastsAndReads(ReadsTheNoise):
        def fit(self, prompt: Prompt) -> Tensor:
            return super().fit(prompt.to(dtype=torch.float64))

    with pytest.raises(ContractViolation):
        CHECKS["truth_unread"](CastsAndReads(), Setting())


def test_queries_of_the_contract_are_no_inputs_of_the_prompt() -> None:
    seen: list[Prompt] = []

    class Watched(PrefixMoments):
        def init(self, prompt: Prompt) -> Tensor:
            seen.append(prompt)
            return super().init(prompt)

    CHECKS["queries"](Watched(), Setting())
    prompt = next(prompt for prompt in seen if prompt.queries is not None)
    queries = prompt.asked.flatten(0, 2)  # (B n q, d)
    same = (queries[:, None] == prompt.xs.flatten(0, 1)).all(dim=2)  # (B n q, B n)
    assert not bool(same.any())


def test_learners_with_parameters_pass_without_warnings() -> None:
    class Trained(PrefixMoments):
        gain = torch.nn.Parameter(torch.ones(1, dtype=torch.float64))

        def fit(self, prompt: Prompt) -> Tensor:
            return self.gain * moments(prompt)

    # Torch warns of a gradient that a number loses, but only once a process unless told to.
    before = torch.is_warn_always_enabled()
    torch.set_warn_always(True)
    try:
        for check in CHECKS.values():
            check(Trained(), Setting())
        check_learner(Trained())
    finally:
        torch.set_warn_always(before)


def test_the_tolerance_is_that_of_the_coarser_type() -> None:
    @dataclass
    class Rough(PrefixMoments):
        """Off by a rounding of float32, differently at each call."""

        single: bool = False
        calls: int = 0

        @property
        def computes_in(self) -> torch.dtype:
            return torch.float32 if self.single else torch.float64

        def fit(self, prompt: Prompt) -> Tensor:
            self.calls += 1
            return moments(prompt) * (1 + 7e-8 * (self.calls % 2))

    check_learner(Rough(single=True))
    check_learner(Rough(), dtype=torch.float32)
    with pytest.raises(ContractViolation, match="allowed 1e-08"):
        check_learner(Rough())
