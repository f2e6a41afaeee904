"""Probes for what hidden states hold."""

import pytest
import torch
from torch import Tensor

import innerloop as il
from innerloop.analysis.intervals import average
from innerloop.analysis.measured import Measured
from innerloop.analysis.probe_features import hidden_states, steps_at_once, visible_tokens
from innerloop.analysis.probe_program import ProbeSettings
from innerloop.analysis.probe_ridge import RidgeSettings
from innerloop.analysis.probing import Probing, least_squares, moment, probe, probe_several
from innerloop.core.chunks import budget
from innerloop.core.errors import ConfigurationError, NotSupportedError, PromptError
from innerloop.core.prompt import Prompt
from innerloop.core.tolerances import REFERENCE
from innerloop.models import (
    InContextTransformer,
    LinearLoopedTransformer,
    Loop,
    Stack,
    TransformerConfig,
)
from tests.analysis.encoding import DIMS, EXPLAINED, POINTS, TASK, Encoding, prompts, with_ones

QUICK = ProbeSettings(iterations=400, batch=32, rate=1e-2)


def mixed(*parts: Tensor) -> Tensor:
    """The parts side by side, turned by a fixed matrix so that no coordinate is one of them."""
    whole = torch.cat(parts, dim=2)  # (B, n, c)
    generator = torch.Generator().manual_seed(5)
    matrix = torch.randn(whole.shape[2], 12, dtype=torch.float64, generator=generator)
    return whole @ matrix


def places(prompt: Prompt) -> Tensor:
    """Where each token stands: (B, n, 1)."""
    return torch.linspace(-3, 3, prompt.points, dtype=torch.float64).expand(prompt.batch, -1)[
        ..., None
    ]


def moment_from_step_one(prompt: Prompt, step: int) -> Tensor:
    """Statistics of x at every step, X'y from step 1 on."""
    held = moment(prompt) if step else torch.zeros_like(prompt.xs)
    return mixed(held, moment(with_ones(prompt)), places(prompt))


HOLDER = Encoding(moment_from_step_one)


def means(measured: Measured) -> Tensor:
    """The means over prompts: (S, p)."""
    return average(measured.values)


def relative_high(found: Probing) -> Tensor:
    """The upper ends of the intervals over the targets' variance: (S, p)."""
    return found.relative.interval().high


@pytest.mark.parametrize("attention", ["positions", "content"])
@pytest.mark.parametrize("reader", ["linear", "mlp"])
def test_the_moment_is_found_where_it_is_held_and_only_there(attention: str, reader: str) -> None:
    settings = QUICK.model_copy(
        update={"attention": attention, "reader": reader, "iterations": 1000}
    )
    found = probe(
        HOLDER, prompts(800, 0), moment, held_out=prompts(300, 1), settings=settings,
        at_prefixes=(3, 6),
    )  # fmt: skip
    assert found.errors.ticks == {"step": [0, 1], "examples": [3, 6]}
    high = relative_high(found)
    assert bool((high[1] < EXPLAINED).all())
    # To know nothing of w is to be as wrong as the mean, or worse.
    assert bool((high[0] >= 1).all())


def test_the_probe_attends_to_the_token_that_holds_it() -> None:
    # At prefix 1 the token before holds nothing at all, and any weight of it does no harm.
    prefixes = list(range(2, POINTS))
    found = probe(HOLDER, prompts(800, 0), moment, at_prefixes=prefixes, settings=QUICK)
    assert found.attention.shape == (2, POINTS - 2, POINTS)
    assert torch.allclose(found.attention.sum(dim=2), torch.ones(2, POINTS - 2).double())
    assert found.attention[1].argmax(dim=1).tolist() == prefixes
    table = found.table()
    assert list(table["token"][table["step"] == 1]) == prefixes
    assert len(table) == 2 * len(prefixes)


def test_content_attention_follows_a_marker_that_moves() -> None:
    """Which token holds the target differs by prompt: places cannot say, a marker can."""

    def encode(prompt: Prompt, step: int) -> Tensor:
        last = moment(prompt)[:, -1:]  # (B, 1, d)
        place = (prompt.xs[:, 0, 0].abs() * 1000).long() % POINTS  # (B,)
        here = torch.nn.functional.one_hot(place, POINTS)[..., None].double()  # (B, n, 1)
        return mixed(here * last + (1 - here) * prompt.xs, here)

    found = {
        attention: probe(
            Encoding(encode, steps=0), prompts(1500, 0), moment, at_prefixes=(POINTS - 1,),
            settings=QUICK.model_copy(update={"attention": attention, "reader": "linear"}),
        )
        for attention in ("positions", "content")
    }  # fmt: skip
    assert float(means(found["content"].relative)) < EXPLAINED
    assert float(means(found["positions"].relative)) > 0.5


def test_a_probe_may_not_look_beyond_its_prefix() -> None:
    def later(prompt: Prompt, step: int) -> Tensor:
        """Token i + 1 holds the moment of prefix i: no token up to x_i does."""
        held = moment(prompt)  # (B, n, d)
        if step:
            held = torch.cat([torch.zeros_like(held[:, :1]), held[:, :-1]], dim=1)
        # What a prefix shares with the one before is taken away, or it would be a guess.
        return mixed(held * (torch.arange(POINTS) == 4 + step)[:, None])

    found = probe(Encoding(later), prompts(800, 0), moment, at_prefixes=(4, 6), settings=QUICK)
    high = relative_high(found)
    assert not found.attention[:, 0, 5:].any()
    assert float(high[0, 0]) < EXPLAINED
    assert float(high[1, 0]) >= 1


def test_the_control_task_separates_what_is_held_from_what_is_not() -> None:
    """A control probe that has learned its task perfectly answers X'X 1/i to every prompt.

    It is wrong by the target's variance and, x being isotropic, by as much again. A probe that
    knows nothing of w is wrong by the variance: half of that. Only below half does one know more.
    """
    found = probe(
        HOLDER, prompts(1500, 0), moment, held_out=prompts(500, 1),
        control=with_ones(prompts(1500, 2)), at_prefixes=(2, 5), settings=QUICK,
    )  # fmt: skip
    assert found.control is not None
    assert found.control_training is not None
    # Statistics of x are all that the control's training asks for, and they are held at both steps.
    assert bool((means(found.control_training) < EXPLAINED * found.variances).all())
    high, low = found.errors.interval().high, found.control.interval().low  # (S, p) each
    assert bool((high[1] < low[1] / 2).all())
    assert bool((high[0] >= low[0] / 2).all())
    assert {"control", "control low", "control high"} <= set(found.table())


@pytest.mark.parametrize("attention", ["positions", "content"])
@pytest.mark.parametrize("reader", ["linear", "mlp"])
def test_probes_trained_together_equal_each_alone(attention: str, reader: str) -> None:
    settings = ProbeSettings.model_validate(
        {"attention": attention, "reader": reader, "iterations": 60, "batch": 32, "hidden": 8}
    )
    training, held_out = prompts(100, 0), prompts(50, 1)
    together = probe(HOLDER, training, moment, held_out=held_out, settings=settings, seed=3)
    for step in (0, 1):
        for prefix in (1, 4, 6):
            alone = probe(
                HOLDER, training, moment, held_out=held_out, settings=settings, seed=3,
                at_steps=(step,), at_prefixes=(prefix,),
            )  # fmt: skip
            for one, several in (
                (alone.errors, together.errors),
                (alone.training, together.training),
            ):
                difference = one.values[:, 0, 0] - several.values[:, step, prefix - 1]  # (P,)
                assert float(difference.abs().max()) < REFERENCE
            tokens = alone.attention.shape[2]
            beside = together.attention[step, prefix - 1]  # (T,)
            assert float((alone.attention[0, 0] - beside[:tokens]).abs().max()) < REFERENCE
            assert float(beside[tokens:].abs().sum()) == 0


def test_little_memory_gives_the_same_answer() -> None:
    settings = ProbeSettings(iterations=20, batch=16, hidden=8)
    learner = Encoding(moment_from_step_one, steps=4)
    training, held_out = prompts(80, 0), prompts(40, 1)
    visible = visible_tokens(learner, training, [2, 6])
    assert steps_at_once(learner, training, held_out, visible, settings) >= 5
    options = {"held_out": held_out, "settings": settings, "at_prefixes": (2, 6)}
    whole = probe(learner, training, moment, **options)
    with budget(2**17):
        assert steps_at_once(learner, training, held_out, visible, settings) == 1
        parts = probe(learner, training, moment, **options)
        assert torch.allclose(whole.errors.values, parts.errors.values, rtol=0, atol=REFERENCE)
        assert torch.allclose(whole.attention, parts.attention, rtol=0, atol=REFERENCE)


def test_the_program_equals_a_plain_transcription() -> None:
    prompt, steps, prefixes = prompts(60, 0), [0, 1], [2, 5]
    visible = visible_tokens(HOLDER, prompt, prefixes)  # (p, T)
    features = hidden_states(HOLDER, prompt, steps, visible.shape[1])  # (S, P, T, D)
    targets = moment(prompt)[:, prefixes]  # (P, p, m)
    for attention in ("positions", "content"):
        settings = ProbeSettings.model_validate({"attention": attention, "iterations": 5})
        (probes,) = settings.fit(features, [targets], visible, seed=0)
        errors, weights = probes.evaluate(features, targets)
        scale = probes.scaling
        for s in steps:
            for p, prefix in enumerate(prefixes):
                which = s * len(prefixes) + p
                for b in range(3):
                    h = (features[s, b, : prefix + 1] - scale.mean[s, p]) / scale.deviation[s, p]
                    scores = probes.scores[s, p]  # (T,) or (D,)
                    scores = scores[: prefix + 1] if attention == "positions" else h @ scores
                    alpha = torch.softmax(scores, dim=0)  # (prefix + 1,)
                    unit = torch.relu(
                        alpha @ h @ probes.weights[0][which] + probes.biases[0][which, 0]
                    )
                    scaled = unit @ probes.weights[1][which] + probes.biases[1][which, 0]
                    answer = scaled * scale.target_deviation[p] + scale.target_mean[p]  # (m,)
                    expected = (answer - targets[b, p]).square().mean()
                    assert abs(float(errors[s, p, b] - expected)) < REFERENCE
        assert torch.allclose(weights.sum(dim=2), torch.ones(2, 2).double())
        assert not weights[:, 0, 3:].any()


def test_errors_are_means_over_d_and_the_variance_is_the_targets() -> None:
    """A probe of one number that does not vary in the features answers with the training mean."""
    blank = Encoding(lambda prompt, step: torch.ones(prompt.batch, prompt.points, 2), steps=0)
    training, held_out = prompts(200, 0), prompts(100, 1)
    found = probe(blank, training, moment, held_out=held_out, settings=QUICK, at_prefixes=(3,))
    wanted, known = moment(held_out)[:, 3], moment(training)[:, 3]  # (P, d)
    expected = (wanted - known.mean(dim=0)).square().mean() / DIMS
    # Adam goes on stepping about the mean, by about its rate.
    assert found.errors.values.shape == (100, 1, 1)
    assert found.training.values.shape == (200, 1, 1)
    assert float(means(found.errors)) == pytest.approx(float(expected), rel=0.01)
    variance = wanted.var(dim=0, correction=0).mean() / DIMS
    assert float(found.variances) == pytest.approx(float(variance))
    assert float(means(found.relative)) == pytest.approx(1, abs=0.1)
    row = found.table().iloc[0]
    assert row["mean"] == pytest.approx(float(means(found.errors)))
    assert row["training"] == pytest.approx(float(means(found.training)))
    assert row["relative"] == pytest.approx(row["mean"] / float(found.variances))
    assert row["low"] <= row["mean"] <= row["high"]


def test_targets_equal_slow_ones() -> None:
    prompt = prompts(3, 0)
    products, weights = moment(prompt), least_squares(prompt)
    assert products.shape == weights.shape == (3, POINTS, DIMS)
    for b in range(3):
        assert not products[b, 0].any()
        for i in range(1, POINTS):
            xs, ys = prompt.xs[b, :i], prompt.ys[b, :i, 0]
            assert torch.allclose(products[b, i], xs.T @ ys / i)
            assert torch.allclose(weights[b, i], torch.linalg.pinv(xs) @ ys)


def test_gradient_descent_in_weights_holds_the_moment_after_one_step() -> None:
    model = LinearLoopedTransformer.gradient_descent(dims=DIMS, loops=1, step_size=0.1)
    settings = QUICK.model_copy(update={"reader": "linear"})
    found = probe(model, prompts(800, 0), moment, settings=settings, at_prefixes=(3, 6))
    high = relative_high(found)
    assert bool((high[1] < EXPLAINED).all())
    # Before it, nothing varies, and no constant is nearer to the targets than their mean.
    assert bool((means(found.relative)[0] >= 1 - REFERENCE).all())


def test_any_function_of_the_prompt_is_a_target() -> None:
    def true_weights(prompt: Prompt) -> Tensor:
        return prompt.truth["w"].flatten(1)[:, None].expand(-1, prompt.points, -1)

    settings = QUICK.model_copy(update={"reader": "linear"})
    held = Encoding(lambda prompt, step: mixed(true_weights(prompt)), steps=0)
    found = probe(held, prompts(800, 0), true_weights, settings=settings, at_prefixes=(0, 3))
    assert bool((means(found.relative) < EXPLAINED).all())


def small(backbone: Stack | Loop) -> InContextTransformer:
    config = TransformerConfig(dims=DIMS, points=POINTS, backbone=backbone)
    return InContextTransformer(config, generator=torch.Generator().manual_seed(0))


def test_a_looped_transformer_is_probed_at_any_step() -> None:
    model = small(Loop(loops=2, width=8, heads=2))
    before = [parameter.clone() for parameter in model.parameters()]
    settings = ProbeSettings(iterations=5)
    found = probe(
        model, prompts(64, 0).to(dtype=torch.float32), least_squares, at_steps=(0, 2, 5),
        at_prefixes=(2, 6), settings=settings,
    )  # fmt: skip
    assert found.errors.values.shape == (16, 3, 2)
    assert found.errors.ticks["step"] == [0, 2, 5]
    assert found.attention.shape == (3, 2, 2 * 6 + 1)
    # Prefix 2 sees x_0 y_0 x_1 y_1 x_2.
    assert bool((found.attention[:, 0, :5] > 0).all())
    assert not found.attention[:, 0, 5:].any()
    assert bool(torch.isfinite(found.errors.values).all())
    for parameter, old in zip(model.parameters(), before, strict=True):
        assert torch.equal(parameter, old)
        assert parameter.grad is None


def test_full_attention_is_probed_at_the_last_prefix() -> None:
    model = small(Stack(layers=1, width=8, heads=2, mask="full"))
    settings = ProbeSettings(iterations=2)
    found = probe(model, prompts(32, 0), moment, settings=settings)
    assert found.errors.ticks["examples"] == [POINTS - 1]
    with pytest.raises(NotSupportedError, match="not causal"):
        probe(model, prompts(32, 0), moment, settings=settings, at_prefixes=(2,))


def test_the_same_seed_gives_the_same_probes() -> None:
    settings = ProbeSettings(iterations=10)
    state = torch.get_rng_state()
    one, same, other = (
        probe(HOLDER, prompts(80, 0), moment, settings=settings, seed=seed) for seed in (1, 1, 2)
    )
    assert torch.equal(one.errors.values, same.errors.values)
    assert not torch.equal(one.errors.values, other.errors.values)
    assert torch.equal(torch.get_rng_state(), state)


def test_mistakes_are_named() -> None:
    few = prompts(8, 0)
    with pytest.raises(ConfigurationError, match=r"at_prefixes is \[7\], expected numbers from 0"):
        probe(HOLDER, few, moment, at_prefixes=(7,))
    with pytest.raises(ConfigurationError, match="at_steps"):
        probe(HOLDER, few, moment, at_steps=(1, 1))
    with pytest.raises(ConfigurationError, match="the target has shape"):
        probe(HOLDER, few, lambda prompt: prompt.xs[:, 0])
    with pytest.raises(PromptError, match="give the same for all"):
        probe(HOLDER, few, moment, held_out=TASK.sample(4, 3, generator=torch.Generator()))
    with pytest.raises(PromptError, match="cannot be split"):
        probe(HOLDER, prompts(1, 0), moment)
    with pytest.raises(NotSupportedError, match="not a model"):
        probe(il.learners.OLS(), few, moment)


@pytest.mark.parametrize("settings", [QUICK, RidgeSettings()])
def test_several_targets_are_probed_as_each_alone(settings: ProbeSettings | RidgeSettings) -> None:
    training, tested, control = prompts(200, 0), prompts(50, 1), with_ones(prompts(200, 2))
    targets = {"moment": moment, "weights": least_squares}
    several = probe_several(
        HOLDER, training, targets, held_out=tested, control=control, settings=settings
    )
    assert list(several) == list(targets)
    for name, target in targets.items():
        alone = probe(HOLDER, training, target, held_out=tested, control=control, settings=settings)
        both = several[name]
        assert torch.equal(both.variances, alone.variances)
        assert both.control is not None
        assert alone.control is not None
        for found, expected in ((both.errors, alone.errors), (both.control, alone.control)):
            torch.testing.assert_close(
                found.values, expected.values, rtol=REFERENCE, atol=REFERENCE
            )
