"""The one loop: which state is which, and learners that are not causal."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest
import torch
from torch import Tensor

from innerloop.core.errors import ConfigurationError
from innerloop.core.iterate import iterate, predict, trajectory
from innerloop.core.learner import Learner, OneShot, Traits
from innerloop.core.prompt import Prompt
from tests.contract.broken import PrefixDescent, PrefixMoments

Draw = Callable[..., Prompt]


class Counter(Learner[Tensor]):
    """Its state, and its answer everywhere, is 100 plus the number of steps taken."""

    steps = 4
    traits = Traits()

    def __init__(self) -> None:
        self.asked: list[int] = []

    def init(self, prompt: Prompt) -> Tensor:
        return torch.full((prompt.batch,), 100.0, dtype=prompt.xs.dtype)

    def step(self, prompt: Prompt, state: Tensor, k: int) -> Tensor:
        self.asked.append(k)
        return state + 1

    def read(self, prompt: Prompt, state: Tensor) -> Tensor:
        ones = torch.ones(prompt.prediction_shape, dtype=prompt.xs.dtype)
        return ones * state.reshape(-1, *[1] * (ones.ndim - 1))


@dataclass
class LastPoint(Learner[Tensor]):
    """`PrefixDescent` for one data set: sees the whole prompt, and answers its last point.

    Where it was not asked, it says NaN: no such answer may come through.
    """

    steps = 3
    traits = replace(PrefixDescent.traits, causal=False)

    def init(self, prompt: Prompt) -> Tensor:
        assert prompt.queries is None
        return torch.zeros(prompt.batch, prompt.dims, prompt.outputs, dtype=torch.float64)

    def step(self, prompt: Prompt, state: Tensor, k: int) -> Tensor:
        xs, ys = prompt.xs[:, :-1].double(), prompt.ys[:, :-1].double()
        trace = xs.square().sum(dim=(1, 2)).clamp(min=1e-30)  # (R,)
        return state + xs.mT @ (ys - xs @ state) / trace[:, None, None]

    def read(self, prompt: Prompt, state: Tensor) -> Tensor:
        answers = torch.full_like(prompt.ys, torch.nan)  # (R, n, k)
        answers[:, -1] = (prompt.xs[:, -1:].double() @ state)[:, 0].to(prompt.ys.dtype)
        return answers


def test_iterate_yields_the_first_state_and_one_after_each_step(random_prompt: Draw) -> None:
    learner = Counter()
    states = [float(state[0]) for state in iterate(learner, random_prompt(), steps=3)]
    assert states == [100, 101, 102, 103]
    assert learner.asked == [0, 1, 2]


def test_iterate_takes_the_learners_own_number_of_steps(random_prompt: Draw) -> None:
    assert len(list(iterate(Counter(), random_prompt()))) == Counter.steps + 1


def test_iterate_takes_no_step_that_nobody_asked_for(random_prompt: Draw) -> None:
    learner = Counter()
    states = iterate(learner, random_prompt(), steps=10)
    next(states)
    assert learner.asked == []
    next(states)
    assert learner.asked == [0]


@pytest.mark.parametrize("half", [0, 1, 4, 6])
def test_some_steps_and_then_more_are_all_at_once(random_prompt: Draw, half: int) -> None:
    prompt, straight, again = random_prompt(), Counter(), Counter()
    states = list(iterate(straight, prompt, steps=6))
    rest = list(iterate(again, prompt, steps=6 - half, start=(states[half], half)))
    assert [float(state[0]) for state in rest] == [100.0 + k for k in range(half, 7)]
    assert again.asked == straight.asked[half:]  # the steps keep their numbers


@pytest.mark.parametrize(("taken", "left"), [(0, 4), (3, 1), (4, 0), (9, 0)])
def test_from_a_start_the_steps_that_are_left_are_taken(
    random_prompt: Draw, taken: int, left: int
) -> None:
    learner, prompt = Counter(), random_prompt()
    states = list(iterate(learner, prompt, start=(learner.init(prompt), taken)))
    assert learner.asked == list(range(taken, taken + left))
    assert len(states) == left + 1


def test_a_start_before_the_first_step_is_refused_at_once(random_prompt: Draw) -> None:
    learner, prompt = Counter(), random_prompt()
    with pytest.raises(ConfigurationError, match="start is after -1 steps"):
        iterate(learner, prompt, start=(learner.init(prompt), -1))


@pytest.mark.parametrize(("steps", "value"), [(0, 100), (1, 101), (7, 107), (None, 104)])
def test_predict_reads_after_the_last_step(
    random_prompt: Draw, steps: int | None, value: float
) -> None:
    prompt = random_prompt(3, 5, outputs=2)
    answers = predict(Counter(), prompt, steps=steps)
    assert tuple(answers.shape) == prompt.prediction_shape
    assert torch.equal(answers, torch.full_like(answers, value))


@pytest.mark.parametrize("queries", [0, 2])
@pytest.mark.parametrize("steps", [0, 1, 5])
def test_trajectory_has_an_entry_before_the_first_step_and_after_each(
    random_prompt: Draw, steps: int, queries: int
) -> None:
    prompt = random_prompt(3, 5, outputs=2, queries=queries)
    result = trajectory(Counter(), prompt, steps=steps)
    assert tuple(result.predictions.shape) == (steps + 1, *prompt.prediction_shape)
    assert result.steps == steps
    assert result.states is None
    for t in range(steps + 1):
        assert torch.equal(result.predictions[t], predict(Counter(), prompt, steps=t))


def test_trajectory_by_default_takes_the_learners_steps(random_prompt: Draw) -> None:
    assert trajectory(Counter(), random_prompt()).steps == Counter.steps


def test_trajectory_keeps_the_states_apart(random_prompt: Draw) -> None:
    prompt = random_prompt()
    result = trajectory(PrefixDescent(), prompt, steps=3, states=True)
    assert result.states is not None
    assert len(result.states) == 4
    for t, state in enumerate(result.states):
        assert torch.equal(PrefixDescent().read(prompt, state), result.predictions[t])
    addresses = {state.weights.data_ptr() for state in result.states}
    assert len(addresses) == 4


def test_one_shot_learners_stay_where_they_are(random_prompt: Draw) -> None:
    prompt = random_prompt()
    assert trajectory(PrefixMoments(), prompt).steps == 0
    longer = trajectory(PrefixMoments(), prompt, steps=3).predictions
    assert torch.equal(longer, longer[:1].expand_as(longer))


@pytest.mark.parametrize("function", [predict, trajectory])
@pytest.mark.parametrize("learner", [Counter(), LastPoint()])
def test_negative_steps_are_refused(
    random_prompt: Draw, function: Callable[..., object], learner: Learner[Tensor]
) -> None:
    with pytest.raises(ConfigurationError, match=r"steps is -1, expected 0 or more\."):
        function(learner, random_prompt(), steps=-1)


def test_iterate_refuses_negative_steps_at_once(random_prompt: Draw) -> None:
    with pytest.raises(ConfigurationError, match="steps is -2"):
        iterate(Counter(), random_prompt(), steps=-2)


@pytest.mark.parametrize("queries", [0, 1, 3])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_learner_that_is_not_causal_equals_its_causal_twin(
    random_prompt: Draw, queries: int, dtype: torch.dtype
) -> None:
    prompt = random_prompt(4, 6, 3, 2, queries=queries, dtype=dtype)
    one, other = trajectory(LastPoint(), prompt), trajectory(PrefixDescent(), prompt)
    assert one.predictions.shape == other.predictions.shape
    # Both compute in float64 and round once: the last bit may differ.
    torch.testing.assert_close(one.predictions, other.predictions)
    torch.testing.assert_close(predict(LastPoint(), prompt), predict(PrefixDescent(), prompt))


@pytest.mark.parametrize("steps", [0, 1, 4])
def test_learner_that_is_not_causal_takes_the_steps_asked_for(
    random_prompt: Draw, steps: int
) -> None:
    prompt = random_prompt(queries=2)
    result = trajectory(LastPoint(), prompt, steps=steps)
    assert result.steps == steps
    torch.testing.assert_close(
        result.predictions, trajectory(PrefixDescent(), prompt, steps=steps).predictions
    )
    torch.testing.assert_close(predict(LastPoint(), prompt, steps=steps), result.predictions[-1])


def test_learner_that_is_not_causal_never_sees_the_answer(random_prompt: Draw) -> None:
    class Copies(OneShot):
        """Answers with the y that it was not to see."""

        traits = Traits(causal=False)

        def init(self, prompt: Prompt) -> Tensor:
            return prompt.ys.clone()

    assert not predict(Copies(), random_prompt()).any()


def test_learner_that_is_not_causal_has_no_states_to_keep(random_prompt: Draw) -> None:
    with pytest.raises(ConfigurationError, match=r"not causal.*expand_prefixes instead\."):
        trajectory(LastPoint(), random_prompt(), states=True)


@pytest.mark.parametrize("causal", [True, False])
def test_predictions_have_no_gradients_and_states_do(random_prompt: Draw, causal: bool) -> None:
    class Trained(PrefixMoments):
        traits = replace(PrefixMoments.traits, causal=causal)
        gain = torch.nn.Parameter(torch.tensor(2.0, dtype=torch.float64))

        def init(self, prompt: Prompt) -> Tensor:
            return self.gain * super().init(prompt)

    learner, prompt = Trained(), random_prompt()
    for answers in (predict(learner, prompt), trajectory(learner, prompt).predictions):
        assert not answers.requires_grad
        assert answers.numpy().shape == tuple(answers.shape)
    *_, state = iterate(learner, prompt)
    learner.read(prompt, state).square().sum().backward()
    plain = PrefixMoments().read(prompt, PrefixMoments().init(prompt))
    assert learner.gain.grad is not None
    torch.testing.assert_close(learner.gain.grad, 2 * 2.0 * plain.square().sum())
