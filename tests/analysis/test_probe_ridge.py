"""Ridge probes, solved in closed form."""

import pytest
import torch
from pydantic import ValidationError
from sklearn.linear_model import Ridge
from torch import Tensor

from innerloop.analysis.intervals import average
from innerloop.analysis.probe_features import steps_at_once, visible_tokens
from innerloop.analysis.probe_ridge import RidgeSettings, ridge
from innerloop.analysis.probing import least_squares, moment, probe
from innerloop.core.chunks import budget
from innerloop.core.prompt import Prompt
from innerloop.core.tolerances import REFERENCE
from innerloop.models import InContextTransformer, Loop, TransformerConfig
from tests.analysis.encoding import DIMS, EXPLAINED, POINTS, Encoding, prompts, with_ones

WIDTH = 8
RIDGE = RidgeSettings()
PRIMAL, DUAL = (40, 12), (15, 30)
"""Prompts and features: more prompts than features, and fewer."""


def held(at: int = 2, beside: float = 0.0) -> Encoding:
    """Noise in all tokens, and from step 1 on the moment of prefix 4, turned, in token `at`.

    It is added to the last token, which only the last prefix may see, `beside` times per step.
    """

    def encode(prompt: Prompt, step: int) -> Tensor:
        generator = torch.Generator().manual_seed(prompt.batch)
        shape = (prompt.batch, prompt.points, WIDTH)
        state = torch.randn(shape, generator=generator, dtype=torch.float64)  # (B, n, D)
        if step:
            state[:, at] = turned(moment(prompt)[:, 4])
            state[:, -1] += step * beside * turned(moment(prompt)[:, 4])
        return state

    return Encoding(encode, steps=2)


def statistics_of_x(prompt: Prompt, step: int) -> Tensor:
    """X'X 1 at every token and step, and X'y beside it from step 1 on: (B, n, 2 D)."""
    ones = turned(moment(with_ones(prompt)))  # (B, n, D)
    return torch.cat([turned(moment(prompt)) if step else torch.zeros_like(ones), ones], dim=2)


def turned(numbers: Tensor) -> Tensor:
    """Numbers (.., d) in a space of D, so that no coordinate is one of them: (.., D)."""
    matrix = torch.randn(DIMS, WIDTH, generator=torch.Generator().manual_seed(5)).double()
    return numbers @ matrix


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
    ((weights, chosen),) = ridge(inputs, [targets], (penalty,))
    expected = reference(inputs, targets, penalty * mean_variance(inputs))
    assert chosen == penalty
    assert float((weights - torch.from_numpy(expected.coef_.T)).abs().max()) < REFERENCE
    # The probes' answers, with their intercept: two tokens of half of the features each.
    features = inputs.unflatten(1, (2, -1))[None]  # (1, P, 2, F / 2)
    settings = RidgeSettings(penalties=(penalty,))
    seen = torch.ones(1, 2, dtype=torch.bool)
    (probes,) = settings.fit(features, [targets[:, None]], seen, seed=0)
    errors, _ = probes.evaluate(features, targets[:, None])  # (1, 1, P)
    answers = torch.from_numpy(expected.predict(inputs.numpy()))  # (P, 2)
    slow = (answers - targets).square().mean(dim=1)  # (P,)
    assert float((errors[0, 0] - slow).abs().max()) < REFERENCE


@pytest.mark.parametrize("shape", [PRIMAL, DUAL])
def test_the_penalty_is_that_of_explicit_leave_one_out(shape: tuple[int, int]) -> None:
    inputs, targets = problem(shape)
    ((_, chosen),) = ridge(inputs, [targets], RIDGE.penalties)
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
    decoded = probe(
        held(), prompts(800, 0), moment, held_out=prompts(400, 1), at_prefixes=(4,), settings=RIDGE
    )
    assert float(average(decoded.relative.values)[1, 0]) < REFERENCE
    shares = decoded.attention[1, 0]  # (T,)
    assert int(shares.argmax()) == 2
    assert float(shares[2]) > 1 - EXPLAINED
    assert float(decoded.attention.sum(dim=2).sub(1).abs().max()) < REFERENCE
    # Noise: as good as the mean, within what a mean over 400 prompts can tell.
    interval = decoded.relative.interval()
    assert float(interval.low[0, 0]) <= 1 <= float(interval.high[0, 0])
    table = decoded.table()
    assert list(table["token"][table["step"] == 1]) == [2]


def test_a_probe_sees_no_token_beyond_its_prefix() -> None:
    options = {"held_out": prompts(100, 1), "at_prefixes": (4, 6), "settings": RIDGE}
    with_noise, with_more = (
        probe(held(at=5, beside=beside), prompts(200, 0), moment, **options) for beside in (0, 1)
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
        Encoding(statistics_of_x), prompts(1000, 0), moment, held_out=prompts(500, 1),
        control=with_ones(prompts(1000, 2)), at_steps=(0, 1), at_prefixes=(2, 5), settings=RIDGE,
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
    (probes,) = RIDGE.fit(features, [targets], torch.ones(1, 2, dtype=torch.bool), seed=0)
    errors, shares = probes.evaluate(features, targets)
    expected = (targets[:, 0] - targets.mean(dim=0)).square().mean(dim=1)  # (P,)
    assert float((errors[0, 0] - expected).abs().max()) < REFERENCE
    assert shares.tolist() == [[[0.5, 0.5]]]


def test_a_state_that_is_not_finite_gives_no_number() -> None:
    features = torch.randn(2, 30, 2, 3, generator=torch.Generator().manual_seed(0))
    features[1, 4, 0, 0] = torch.inf
    targets = features[0, :, :1, :2]  # (P, 1, 2)
    visible = torch.ones(1, 2, dtype=torch.bool)
    (probes,) = RIDGE.fit(features, [targets], visible, seed=0)
    errors, _ = probes.evaluate(features, targets)
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
    with pytest.raises(ValidationError, match="greater than or equal to"):
        RidgeSettings(penalties=(0.0,))
    with pytest.raises(ValidationError, match="at least 1 item"):
        RidgeSettings(penalties=())


def test_states_that_do_not_change_are_fitted_once() -> None:
    """The probes after a step that changed nothing are those from before it."""
    generator = torch.Generator().manual_seed(3)
    first, other = torch.randn(2, 40, 3, 4, generator=generator, dtype=torch.float64)  # (P, T, D)
    targets = torch.randn(40, 2, 2, generator=generator, dtype=torch.float64)  # (P, p, m)
    visible = torch.tensor([[True, True, False], [True, True, True]])  # (p, T)
    (alone,) = RIDGE.fit(other[None], [targets], visible, seed=0)
    (several,) = RIDGE.fit(torch.stack([first, first, other]), [targets], visible, seed=0)
    assert torch.equal(several.weights[0], several.weights[1])
    assert torch.equal(several.penalties[0], several.penalties[1])
    assert several.weights[1].abs().max() > 0
    assert torch.equal(several.weights[2], alone.weights[0])
    assert not torch.equal(several.weights[1], several.weights[2])
