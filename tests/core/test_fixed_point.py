"""Running to the fixed point: each prompt stops by itself, and nothing is made up."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest
import torch
from torch import Tensor

from innerloop.core.errors import ConfigurationError, FixedPointError, NotSupportedError
from innerloop.core.fixed_point import FixedPoint, run_to_fixed_point
from innerloop.core.iterate import iterate
from innerloop.core.learner import Learner, Traits
from innerloop.core.prompt import Prompt
from innerloop.core.state_parts import MovingPart
from tests.contract.broken import DescentState, PrefixDescent, PrefixMoments, WholePromptMean

Draw = Callable[..., Prompt]


@dataclass(frozen=True)
class Place:
    """Where the iteration is; the count only shows that nothing else is lost on the way."""

    z: Tensor  # (B, 2)
    count: Tensor  # (B,) int64


@dataclass(frozen=True)
class Contraction(Learner[Place]):
    """Z <- c + r (z - c) from zero, with r and c = (c_0, c_1) of each prompt in its first x.

    After t steps z = c (1 - r^t).
    """

    steps = 1
    traits = Traits()

    def init(self, prompt: Prompt) -> Place:
        z = torch.zeros_like(prompt.xs[:, 0, 1:])  # (B, 2)
        return Place(z=z, count=torch.zeros(prompt.batch, dtype=torch.int64))

    def step(self, prompt: Prompt, state: Place, k: int) -> Place:
        rate, target = prompt.xs[:, 0, :1], prompt.xs[:, 0, 1:]  # (B, 1), (B, 2)
        return Place(z=target + rate * (state.z - target), count=state.count + 1)

    def read(self, prompt: Prompt, state: Place) -> Tensor:
        return state.z[:, None].expand(prompt.prediction_shape)

    @property
    def moving(self) -> MovingPart[Place]:
        return MovingPart(
            self.name, lambda state: state.z, lambda state, moving: replace(state, z=moving)
        )


@dataclass(frozen=True)
class Iteration(Learner[Tensor]):
    """Z <- f(z) from x_0 of each prompt, for a function f of (B, d)."""

    function: Callable[[Tensor], Tensor]
    steps = 1
    traits = Traits()

    def init(self, prompt: Prompt) -> Tensor:
        return prompt.xs[:, 0].clone()  # (B, d)

    def step(self, prompt: Prompt, state: Tensor, k: int) -> Tensor:
        return self.function(state)

    def read(self, prompt: Prompt, state: Tensor) -> Tensor:
        return state[:, None, :1].expand(prompt.prediction_shape)

    @property
    def moving(self) -> MovingPart[Tensor]:
        return MovingPart(self.name, lambda state: state, lambda state, moving: moving)


def contractions(*rows: tuple[float, float, float], dtype: torch.dtype = torch.float64) -> Prompt:
    """One prompt for each (rate, c_0, c_1)."""
    xs = torch.tensor(rows, dtype=dtype)[:, None]  # (B, 1, 3)
    return Prompt(xs=xs, ys=torch.zeros(len(rows), 1, 2, dtype=dtype))


def starts(*rows: list[float]) -> Prompt:
    """One prompt for each starting point."""
    xs = torch.tensor(rows, dtype=torch.float64)[:, None]  # (B, 1, d)
    return Prompt(xs=xs, ys=torch.zeros(len(rows), 1, 1, dtype=torch.float64))


def steps_needed(rate: float, size: float, tolerance: float) -> int:
    """The first t whose change r^(t-1) (1 - r) |c|, over max(1, |z_t|), is within the tolerance."""
    t = 1
    while rate ** (t - 1) * (1 - rate) * size / max(1, (1 - rate**t) * size) > tolerance:
        t += 1
    return t


MIXED = ((0.9, 3.0, 4.0), (0.1, 0.3, 0.4), (0.5, -30.0, 40.0), (0.0, 1.0, 0.0))


def test_each_prompt_stops_by_its_own_residual() -> None:
    prompt = contractions(*MIXED)
    result = run_to_fixed_point(Contraction(), prompt, tolerance=1e-6)
    expected = [steps_needed(rate, math.hypot(*c), 1e-6) for rate, *c in MIXED]
    assert result.steps.tolist() == expected
    assert len(set(expected)) == len(MIXED)
    assert bool(result.converged.all())
    assert not bool(result.diverged.any())


def test_a_stopped_prompt_stays_where_it_was() -> None:
    prompt = contractions(*MIXED)
    result = run_to_fixed_point(Contraction(), prompt, tolerance=1e-6)
    states = list(iterate(Contraction(), prompt, steps=int(result.steps.max())))
    for b, t in enumerate(result.steps.tolist()):
        assert torch.equal(result.state.z[b], states[t].z[b])
        assert int(result.state.count[b]) == t
        assert torch.equal(result.predictions[b, 0], states[t].z[b])


def test_residual_is_the_last_change_over_the_size_of_the_iterate() -> None:
    prompt = contractions(*MIXED)
    result = run_to_fixed_point(Contraction(), prompt, tolerance=1e-6)
    assert result.residuals.dtype == torch.float64
    for b, t in enumerate(result.steps.tolist()):
        one, other = list(iterate(Contraction(), prompt, steps=t))[-2:]
        size = float(other.z[b].norm())
        expected = float((other.z[b] - one.z[b]).norm()) / max(1.0, size)
        assert float(result.residuals[b]) == pytest.approx(expected, rel=1e-12)
        assert float(result.residuals[b]) <= 1e-6


def test_the_fixed_point_is_found_to_the_tolerance_over_one_minus_the_rate() -> None:
    prompt = contractions(*MIXED)
    result = run_to_fixed_point(Contraction(), prompt, tolerance=1e-10)
    rates, targets = prompt.xs[:, 0, 0], prompt.xs[:, 0, 1:]  # (B,), (B, 2)
    # |z - c| = r / (1 - r) |last change|, and the change is at most tolerance * max(1, |z|).
    allowed = 1e-10 * rates / (1 - rates) * targets.norm(dim=1).clamp(min=1)
    assert bool(((result.state.z - targets).norm(dim=1) <= allowed + 1e-14).all())


def test_a_prompt_gets_the_same_alone_and_in_company() -> None:
    prompt = contractions(*MIXED)
    together = run_to_fixed_point(Contraction(), prompt, tolerance=1e-6)
    for b in range(prompt.batch):
        alone = run_to_fixed_point(Contraction(), prompt.select(slice(b, b + 1)), tolerance=1e-6)
        assert torch.equal(alone.state.z[0], together.state.z[b])
        assert int(alone.steps) == int(together.steps[b])


def test_a_prompt_at_its_fixed_point_takes_one_step() -> None:
    result = run_to_fixed_point(Contraction(), contractions((0.5, 0.0, 0.0)), tolerance=0)
    assert result.steps.tolist() == [1]
    assert result.residuals.tolist() == [0]


def test_stopped_prompts_are_not_stepped_again() -> None:
    sizes: list[int] = []

    @dataclass(frozen=True)
    class Watched(Contraction):
        def step(self, prompt: Prompt, state: Place, k: int) -> Place:
            sizes.append(prompt.batch)
            return super().step(prompt, state, k)

    result = run_to_fixed_point(Watched(), contractions(*MIXED), tolerance=1e-6)
    assert sum(sizes) == int(result.steps.sum())


def test_the_step_is_told_its_number() -> None:
    told: list[int] = []

    @dataclass(frozen=True)
    class Watched(Contraction):
        def step(self, prompt: Prompt, state: Place, k: int) -> Place:
            told.append(k)
            return super().step(prompt, state, k)

    run_to_fixed_point(Watched(), contractions(*MIXED), tolerance=1e-6)
    assert told == list(range(len(told)))


DIVERGING = ((0.5, 1.0, 1.0), (3.0, 1.0, 1.0), (0.9, 1.0, 1.0))


def test_diverging_prompts_leave_the_others_alone() -> None:
    prompt = contractions(*DIVERGING)
    result = run_to_fixed_point(Contraction(), prompt, tolerance=1e-6, throw=False)
    assert result.converged.tolist() == [True, False, True]
    assert result.diverged.tolist() == [False, True, False]
    assert int(result.steps[1]) < int(result.steps[2])
    alone = run_to_fixed_point(Contraction(), prompt.select(torch.tensor([0, 2])), tolerance=1e-6)
    assert torch.equal(result.state.z[[0, 2]], alone.state.z)


def test_divergence_raises_and_says_what_to_do() -> None:
    with pytest.raises(FixedPointError) as raised:
        run_to_fixed_point(Contraction(), contractions(*DIVERGING), tolerance=1e-6)
    sentence = str(raised.value)
    assert sentence.startswith("Contraction: 2 of 3 prompts converged, 1 diverged, 0 were still")
    assert "Take a smaller step" in sentence
    assert "throw=False" in sentence


@pytest.mark.parametrize(
    ("acceleration", "bad"),
    [
        ("none", torch.nan),
        ("none", torch.inf),
        ("anderson", torch.inf),
        ("anderson", torch.nan),
    ],
)
def test_iterates_that_are_not_finite_have_diverged(acceleration: str, bad: float) -> None:
    def breaks(z: Tensor) -> Tensor:
        return torch.where(z > 10, bad, 0.5 * z + torch.where(z > 5, 100.0, 1.0))

    result = run_to_fixed_point(
        Iteration(breaks), starts([0.0], [7.0], [1.0]), throw=False,
        acceleration=acceleration,  # pyright: ignore[reportArgumentType]
    )  # fmt: skip
    assert result.diverged.tolist() == [False, True, False]
    assert result.converged.tolist() == [True, False, True]
    assert int(result.steps[1]) == 2


def test_a_large_start_is_not_divergence() -> None:
    result = run_to_fixed_point(Iteration(lambda z: 0.5 * z), starts([1e12]), max_steps=200)
    assert result.converged.tolist() == [True]


def test_growth_is_measured_against_the_prompts_own_start() -> None:
    small, large = (0.0, 1.0, 0.0), (0.5, 1e9, 0.0)
    result = run_to_fixed_point(Contraction(), contractions(small, large))
    assert result.converged.tolist() == [True, True]


def test_running_out_of_steps_raises_and_says_what_to_do() -> None:
    with pytest.raises(FixedPointError) as raised:
        run_to_fixed_point(Contraction(), contractions(*MIXED), tolerance=1e-6, max_steps=10)
    sentence = str(raised.value)
    assert "2 of 4 prompts converged, 0 diverged, 2 were still moving" in sentence
    assert "after 10 steps" in sentence
    assert "Allow more steps" in sentence


def test_running_out_of_steps_can_be_inspected() -> None:
    prompt = contractions(*MIXED)
    result = run_to_fixed_point(Contraction(), prompt, tolerance=1e-6, max_steps=10, throw=False)
    assert result.converged.tolist() == [False, True, False, True]
    assert not bool(result.diverged.any())
    assert result.steps.tolist()[0] == result.steps.tolist()[2] == 10
    *_, last = iterate(Contraction(), prompt, steps=10)
    for b in (0, 2):
        assert torch.equal(result.state.z[b], last.z[b])
        assert float(result.residuals[b]) > 1e-6
    assert "2 were still moving" in result.summary()


@pytest.mark.parametrize("max_steps", [1, 2, 3])
def test_the_last_allowed_step_counts(max_steps: int) -> None:
    prompt = contractions((0.5, 1.0, 0.0))
    result = run_to_fixed_point(
        Contraction(), prompt, tolerance=0.13, max_steps=max_steps, throw=False
    )
    # The changes are 1/2, 1/4, 1/8.
    assert result.steps.tolist() == [max_steps]
    assert result.converged.tolist() == [max_steps == 3]


def test_the_learners_own_number_of_steps_does_not_matter(random_prompt: Draw) -> None:
    result = run_to_fixed_point(PrefixDescent(), random_prompt(), max_steps=9, throw=False)
    assert int(result.steps.max()) == 9 > PrefixDescent.steps


def test_queries_are_answered_from_the_fixed_point(random_prompt: Draw) -> None:
    prompt = random_prompt(4, 12, 2, queries=3)
    result = run_to_fixed_point(PrefixDescent(), prompt, max_steps=5000)
    assert tuple(result.predictions.shape) == prompt.prediction_shape
    expected = prompt.asked @ result.state.weights  # (B, n, q, k)
    torch.testing.assert_close(result.predictions, expected)


def test_learners_that_do_not_iterate_are_refused(random_prompt: Draw) -> None:
    with pytest.raises(NotSupportedError, match="PrefixMoments has no moving part"):
        run_to_fixed_point(PrefixMoments(), random_prompt())


def test_learners_that_are_not_causal_are_refused(random_prompt: Draw) -> None:
    with pytest.raises(NotSupportedError, match=r"cannot answer all questions .* expand_prefixes"):
        run_to_fixed_point(WholePromptMean(), random_prompt())


def test_learners_that_cannot_be_moved_are_not_accelerated(random_prompt: Draw) -> None:
    class Unmoved(PrefixDescent):
        @property
        def moving(self) -> MovingPart[DescentState]:
            return replace(super().moving, replace=None)

    run_to_fixed_point(Unmoved(), random_prompt(), max_steps=10, throw=False)
    with pytest.raises(NotSupportedError, match="Run it without acceleration"):
        run_to_fixed_point(Unmoved(), random_prompt(), acceleration="anderson")


@pytest.mark.parametrize(
    "arguments", [{"tolerance": -1e-9}, {"max_steps": 0}, {"max_steps": -1}, {"memory": 0}]
)
def test_senseless_arguments_are_refused(arguments: dict[str, float]) -> None:
    with pytest.raises(ConfigurationError, match=str(next(iter(arguments.values())))):
        run_to_fixed_point(
            Contraction(), contractions(*MIXED),
            **arguments,  # pyright: ignore[reportArgumentType]
        )  # fmt: skip


def test_unknown_acceleration_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="unknown acceleration 'andersen': did you mean"):
        run_to_fixed_point(
            Contraction(), contractions(*MIXED),
            acceleration="andersen",  # pyright: ignore[reportArgumentType]
        )  # fmt: skip


@pytest.mark.parametrize("acceleration", ["none", "anderson"])
def test_float32_prompts_have_fixed_points(acceleration: str) -> None:
    result = run_to_fixed_point(
        Contraction(), contractions(*MIXED, dtype=torch.float32), tolerance=1e-5,
        acceleration=acceleration,  # pyright: ignore[reportArgumentType]
    )  # fmt: skip
    assert result.state.z.dtype == torch.float32
    assert result.residuals.dtype == torch.float64
    assert bool(result.converged.all())


def test_summary_gives_the_worst_residual_of_those_still_moving() -> None:
    def result(last: float) -> FixedPoint:
        return FixedPoint(
            state=torch.zeros(2),
            predictions=torch.zeros(2, 1, 1),
            steps=torch.tensor([7, 3]),
            residuals=torch.tensor([1e-3, last], dtype=torch.float64),
            converged=torch.tensor([False, False]),
            diverged=torch.tensor([False, True]),
        )

    assert "1 were still moving (worst residual 1.0e-03)" in result(5.0).summary()
    assert "1 were still moving (worst residual 1.0e-03)" in result(torch.nan).summary()


def test_the_way_to_the_fixed_point_keeps_no_gradients() -> None:
    rate = torch.nn.Parameter(torch.tensor(0.5, dtype=torch.float64))
    result = run_to_fixed_point(Iteration(lambda z: rate * z + 1), starts([0.0], [1.0]))
    assert not result.residuals.requires_grad
    assert not result.state.requires_grad
