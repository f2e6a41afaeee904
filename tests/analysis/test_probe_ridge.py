"""Ridge probes, solved in closed form."""

from dataclasses import dataclass, replace

import pytest
import torch
from pydantic import ValidationError
from sklearn.linear_model import Ridge
from torch import Tensor

import innerloop as il
from innerloop.analysis.intervals import average
from innerloop.analysis.probe_features import steps_at_once, visible_tokens
from innerloop.analysis.probe_ridge import RidgeSettings, ridge
from innerloop.analysis.probing import least_squares, moment, probe
from innerloop.core.chunks import budget
from innerloop.core.learner import Learner, Traits
from innerloop.core.prompt import Prompt
from innerloop.core.state_parts import HiddenStates
from innerloop.core.tolerances import REFERENCE
from innerloop.models import InContextTransformer, Loop, TransformerConfig

DIMS, POINTS, WIDTH = 3, 7, 8
TASK = il.tasks.LinearRegression(dims=DIMS, dtype="float64")
RIDGE = RidgeSettings()
EXPLAINED = 0.05
"""A probe has decoded its target when it leaves less than this part of the variance."""
PRIMAL, DUAL = (40, 12), (15, 30)
"""Prompts and features: more prompts than features, and fewer."""


@dataclass(frozen=True, eq=False)
class Held(Learner[Tensor]):
    """One token per point: noise before step 1, and then X'y, turned, at one of them."""

    at: int = 2
    """The token that holds the moment of prefix `of` from step 1 on."""
    of: int = 4
    beside: float = 0.0
    """What multiplies the last token, which only the last prefix may see."""
    steps = 2
    traits = Traits()

    def init(self, prompt: Prompt) -> Tensor:
        generator = torch.Generator().manual_seed(prompt.batch)
        shape = (prompt.batch, prompt.points, WIDTH)
        return torch.randn(shape, generator=generator, dtype=torch.float64)  # (B, n, D)

    def step(self, prompt: Prompt, state: Tensor, k: int) -> Tensor:
        state = state.clone()  # (B, n, D)
        state[:, self.at] = turned(moment(prompt)[:, self.of])
        state[:, -1] += self.beside * turned(moment(prompt)[:, self.of])
        return state

    def read(self, prompt: Prompt, state: Tensor) -> Tensor:
        return torch.zeros_like(prompt.ys)

    @property
    def hidden_states(self) -> HiddenStates[Tensor]:
        return HiddenStates(
            features=lambda prompt, state: state,
            input_tokens=lambda prompt: range(prompt.points),
            readout_inputs=lambda prompt, state: state,
        )


@dataclass(frozen=True, eq=False)
class StatisticsOfX(Held):
    """X'X 1 at every token and step, and X'y beside it from step 1 on."""

    def init(self, prompt: Prompt) -> Tensor:
        ones = turned(moment(with_ones(prompt)))  # (B, n, D)
        return torch.cat([torch.zeros_like(ones), ones], dim=2)  # (B, n, 2 D)

    def step(self, prompt: Prompt, state: Tensor, k: int) -> Tensor:
        ones = turned(moment(with_ones(prompt)))  # (B, n, D)
        return torch.cat([turned(moment(prompt)), ones], dim=2)  # (B, n, 2 D)


def turned(numbers: Tensor) -> Tensor:
    """Numbers (.., d) in a space of D, so that no coordinate is one of them: (.., D)."""
    matrix = torch.randn(DIMS, WIDTH, generator=torch.Generator().manual_seed(5)).double()
    return numbers @ matrix


def prompts(number: int, seed: int) -> Prompt:
    return TASK.sample(number, POINTS, generator=torch.Generator().manual_seed(seed))


def with_ones(prompt: Prompt) -> Prompt:
    """The control task: w is fixed to ones."""
    return replace(prompt, ys=prompt.xs.sum(dim=2, keepdim=True), truth={})


def problem(shape: tuple[int, int]) -> tuple[Tensor, Tensor]:
    """Inputs (P, F) away from 0 and of unequal sizes, and targets (P, 2) with noise."""
    generator = torch.Generator().manual_seed(shape[0])
    sizes = torch.logspace(-1, 1, shape[1]).double()  # (F,)
    inputs = 3 + sizes * torch.randn(shape, generator=generator, dtype=torch.float64)  # (P, F)
    weights = torch.randn(shape[1], 2, generator=generator, dtype=torch.float64) / 10  # (F, 2)
    noise = torch.randn(shape[0], 2, generator=generator, dtype=torch.float64)  # (P, 2)
    return inputs, inputs @ weights + noise + 7


def reference(inputs: Tensor, targets: Tensor, penalty: float) -> Ridge:
    """scikit-learn's, with an absolute penalty on the mean squared error."""
    return Ridge(alpha=penalty * len(inputs), solver="cholesky").fit(
        inputs.numpy(), targets.numpy()
    )


def mean_variance(inputs: Tensor) -> float:
    return float(inputs.var(dim=0, correction=0).mean())


@pytest.mark.parametrize("shape", [PRIMAL, DUAL])
@pytest.mark.parametrize("penalty", [1e-2, 1.0])
def test_equals_scikit_learn(shape: tuple[int, int], penalty: float) -> None:
    inputs, targets = problem(shape)
    weights, chosen = ridge(inputs, targets, (penalty,))
    expected = reference(inputs, targets, penalty * mean_variance(inputs))
    assert chosen == penalty
    assert float((weights - torch.from_numpy(expected.coef_.T)).abs().max()) < REFERENCE
    # The probes' answers, with their intercept: two tokens of half of the features each.
    features = inputs.unflatten(1, (2, -1))[None]  # (1, P, 2, F / 2)
    settings = RidgeSettings(penalties=(penalty,))
    probes = settings.fit(features, targets[:, None], torch.ones(1, 2, dtype=torch.bool), seed=0)
    errors, _ = probes.evaluate(features, targets[:, None])  # (1, 1, P)
    answers = torch.from_numpy(expected.predict(inputs.numpy()))  # (P, 2)
    slow = (answers - targets).square().mean(dim=1)  # (P,)
    assert float((errors[0, 0] - slow).abs().max()) < REFERENCE


@pytest.mark.parametrize("shape", [PRIMAL, DUAL])
def test_the_penalty_is_that_of_explicit_leave_one_out(shape: tuple[int, int]) -> None:
    inputs, targets = problem(shape)
    _, chosen = ridge(inputs, targets, RIDGE.penalties)
    unit = mean_variance(inputs)
    slow: list[float] = []
    for penalty in RIDGE.penalties:
        squares = 0.0
        for left_out in range(len(inputs)):
            kept = torch.arange(len(inputs)) != left_out  # (P,)
            # The penalty on the sum of squares is the same for all.
            fitted = Ridge(alpha=penalty * unit * len(inputs), solver="svd").fit(
                inputs[kept].numpy(), targets[kept].numpy()
            )
            answer = torch.from_numpy(fitted.predict(inputs[left_out, None].numpy()))[0]  # (2,)
            squares += float((answer - targets[left_out]).square().sum())
        slow.append(squares)
    best = slow.index(min(slow))
    assert 0 < best < len(slow) - 1  # or any rule with the same end would do
    assert chosen == RIDGE.penalties[best]


def test_a_target_is_found_at_its_token_and_nothing_in_noise() -> None:
    held = Held()
    decoded = probe(
        held, prompts(800, 0), moment, held_out=prompts(400, 1), at_prefixes=(4,), settings=RIDGE
    )
    assert float(average(decoded.relative.values)[1, 0]) < REFERENCE
    shares = decoded.attention[1, 0]  # (T,)
    assert int(shares.argmax()) == held.at
    assert float(shares[held.at]) > 1 - EXPLAINED
    assert float(decoded.attention.sum(dim=2).sub(1).abs().max()) < REFERENCE
    # Noise: as good as the mean, within what a mean over 400 prompts can tell.
    interval = decoded.relative.interval()
    assert float(interval.low[0, 0]) <= 1 <= float(interval.high[0, 0])
    table = decoded.table()
    assert list(table["token"][table["step"] == 1]) == [held.at]


def test_a_probe_sees_no_token_beyond_its_prefix() -> None:
    options = {"held_out": prompts(100, 1), "at_prefixes": (4, 6), "settings": RIDGE}
    with_noise, with_more = (
        probe(Held(at=5, beside=beside), prompts(200, 0), moment, **options) for beside in (0, 1)
    )
    # Prefix 4 does not see token 5, which holds its target, nor token 6, which changes.
    assert torch.equal(with_noise.errors.values[..., 0], with_more.errors.values[..., 0])
    assert not torch.equal(with_noise.errors.values[..., 1], with_more.errors.values[..., 1])
    assert not with_more.attention[:, 0, 5:].any()
    low = with_more.relative.interval().low  # (S, p)
    assert float(low[1, 0]) > EXPLAINED


def test_the_control_separates_what_is_held_from_what_is_not() -> None:
    """As for trained probes: one that knows nothing of w has half of a perfect control's error."""
    decoded = probe(
        StatisticsOfX(), prompts(1000, 0), moment, held_out=prompts(500, 1), at_steps=(0, 1),
        control=with_ones(prompts(1000, 2)), at_prefixes=(2, 5), settings=RIDGE,
    )  # fmt: skip
    assert decoded.control is not None
    assert decoded.control_training is not None
    # Statistics of x are all that the control asks for.
    assert bool((average(decoded.control_training.values) < REFERENCE).all())
    high, low = decoded.errors.interval().high, decoded.control.interval().low  # (S, p) each
    assert bool((high[0] >= low[0] / 2).all())
    assert bool((high[1] < low[1] / 2).all())


def test_a_state_that_never_varies_leaves_the_mean() -> None:
    features, targets = torch.ones(1, 30, 2, 3), torch.randn(30, 1, 2, dtype=torch.float64)
    probes = RIDGE.fit(features, targets, torch.ones(1, 2, dtype=torch.bool), seed=0)
    errors, shares = probes.evaluate(features, targets)
    expected = (targets[:, 0] - targets.mean(dim=0)).square().mean(dim=1)  # (P,)
    assert float((errors[0, 0] - expected).abs().max()) < REFERENCE
    assert shares.tolist() == [[[0.5, 0.5]]]


def test_a_state_that_is_not_finite_gives_no_number() -> None:
    features = torch.randn(2, 30, 2, 3, generator=torch.Generator().manual_seed(0))
    features[1, 4, 0, 0] = torch.inf
    targets = features[0, :, :1, :2]  # (P, 1, 2)
    visible = torch.ones(1, 2, dtype=torch.bool)
    errors, _ = RIDGE.fit(features, targets, visible, seed=0).evaluate(features, targets)
    assert bool(errors[1].isnan().all())
    assert float(errors[0].max()) < EXPLAINED


def test_a_looped_transformer_with_little_memory() -> None:
    config = TransformerConfig(dims=DIMS, points=POINTS, backbone=Loop(loops=2, width=8, heads=2))
    model = InContextTransformer(config, generator=torch.Generator().manual_seed(0))
    training, held_out = (prompts(60, seed).to(dtype=torch.float32) for seed in (0, 1))
    options = {"held_out": held_out, "at_steps": (0, 2, 5), "at_prefixes": (2, 6)}
    whole = probe(model, training, least_squares, settings=RIDGE, **options)
    assert whole.errors.values.shape == (60, 3, 2)
    assert whole.errors.values.dtype == torch.float64
    assert whole.attention.shape == (3, 2, 2 * 6 + 1)
    visible = visible_tokens(model, training, [2, 6])
    assert steps_at_once(model, training, held_out, visible, RIDGE) >= 3
    with budget(2**15):
        assert steps_at_once(model, training, held_out, visible, RIDGE) == 1
        parts = probe(model, training, least_squares, settings=RIDGE, **options)
    # Other batches round otherwise in float32.
    assert torch.allclose(whole.errors.values, parts.errors.values, rtol=1e-3, atol=1e-4)


def test_mistakes_are_named() -> None:
    with pytest.raises(ValidationError, match="greater than or equal to 0.0000000001"):
        RidgeSettings(penalties=(0.0,))
    with pytest.raises(ValidationError, match="at least 1 item"):
        RidgeSettings(penalties=())
