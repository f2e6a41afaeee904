"""Readouts fitted to every step of a model."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

import innerloop as il
from innerloop.analysis.error import squared_errors
from innerloop.analysis.readout import ReadoutLearner, fit_readouts
from innerloop.core.chunks import budget
from innerloop.core.errors import ConfigurationError, NotSupportedError, PromptError
from innerloop.core.prompt import Prompt
from innerloop.core.tolerances import REFERENCE
from innerloop.models import (
    LSTM,
    InContextTransformer,
    LinearLoopedConfig,
    LinearLoopedTransformer,
    Loop,
    LSTMConfig,
    Stack,
    TransformerConfig,
)
from innerloop.models.model import AnyModel

DIMS, POINTS, WIDTH = 3, 8, 8
TASK = il.tasks.LinearRegression(dims=DIMS, dtype="float64")


def transformer(backbone: Stack | Loop, *, start_token: bool = False) -> AnyModel:
    config = TransformerConfig(dims=DIMS, points=POINTS, backbone=backbone, start_token=start_token)
    return InContextTransformer(config, generator=torch.Generator().manual_seed(1)).double()


def loop(**settings: object) -> Loop:
    return Loop.model_validate({"loops": 3, "width": WIDTH, "heads": 2} | settings)


def linear_looped() -> AnyModel:
    model = LinearLoopedTransformer(LinearLoopedConfig(dims=DIMS, loops=3)).double()
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for matrix in model.matrices():
            matrix.normal_(0.0, 0.5, generator=generator)
    return model


MODELS: dict[str, Callable[[], AnyModel]] = {
    "loop": lambda: transformer(loop()),
    "loop, start token": lambda: transformer(loop(), start_token=True),
    "AlgoFormer": lambda: transformer(loop(pre=1, post=1)),
    "stack": lambda: transformer(Stack(layers=2, width=WIDTH, heads=2)),
    "stack, full attention": lambda: transformer(
        Stack(layers=2, width=WIDTH, heads=2, mask="full")
    ),
    "LSTM": lambda: LSTM(LSTMConfig(dims=DIMS, width=WIDTH, layers=2)).double(),
    "linear looped": linear_looped,
}
CAUSAL = [name for name in MODELS if "full" not in name]


@pytest.fixture(autouse=True)
def _no_gradients() -> Iterator[None]:
    with torch.no_grad():
        yield


def prompts(number: int, seed: int) -> Prompt:
    return TASK.sample(number, POINTS, generator=torch.Generator().manual_seed(seed))


def asked(prompt: Prompt) -> Prompt:
    generator = torch.Generator().manual_seed(9)
    shape = (prompt.batch, prompt.points, 2, prompt.dims)
    return prompt.ask(torch.randn(shape, dtype=torch.float64, generator=generator))


@pytest.mark.parametrize("name", CAUSAL)
def test_a_models_answers_are_linear_in_its_readout_inputs(name: str) -> None:
    model = MODELS[name]()
    for prompt in (prompts(20, 0), asked(prompts(20, 0))):
        for state in il.iterate(model, prompt):
            inputs = model.hidden_states.readout_inputs(prompt, state).flatten(0, -2)  # (N, D)
            answers = model.outputs(prompt, state).flatten(0, -2)  # (N, k)
            ones = torch.ones_like(inputs[:, :1])  # (N, 1)
            design = torch.cat([inputs, ones], dim=1)  # (N, D + 1)
            fitted = design @ (torch.linalg.pinv(design) @ answers)
            assert float((fitted - answers).abs().max()) < REFERENCE


@pytest.mark.parametrize("name", CAUSAL)
def test_tokens_up_to_an_x_know_nothing_of_what_comes_after(name: str) -> None:
    model, prompt, point = MODELS[name](), prompts(2, 0), 4
    ys, xs = prompt.ys.clone(), prompt.xs.clone()
    ys[:, point] += 1.0
    xs[:, point + 1] += 1.0
    changed = replace(prompt, xs=xs, ys=ys)
    places = model.hidden_states.input_tokens(prompt)
    assert len(places) == POINTS
    one = [model.hidden_states.features(prompt, state) for state in il.iterate(model, prompt)]
    other = [model.hidden_states.features(changed, state) for state in il.iterate(model, changed)]
    seen = places[point] + 1
    for before, after in zip(one, other, strict=True):
        assert torch.equal(before[:, :seen], after[:, :seen])
    # The next x's token has seen both changes at the end.
    assert not torch.equal(one[-1][:, places[point + 1]], other[-1][:, places[point + 1]])


def test_a_token_of_x_holds_that_x() -> None:
    for name in ("loop, start token", "stack", "LSTM"):
        model, prompt = MODELS[name](), prompts(2, 0)
        xs = prompt.xs.clone()
        xs[:, 4] += 1.0
        changed = replace(prompt, xs=xs)
        *_, one = il.iterate(model, prompt, steps=1)
        *_, other = il.iterate(model, changed, steps=1)
        before = model.hidden_states.features(prompt, one)  # (B, T, D)
        moved = (model.hidden_states.features(changed, other) != before).any(dim=2)  # (B, T)
        assert int(moved[0].nonzero()[0]) == model.hidden_states.input_tokens(prompt)[4]


def test_a_classical_learner_has_no_readout() -> None:
    with pytest.raises(NotSupportedError, match="not a model"):
        fit_readouts(il.learners.OLS(), prompts(4, 0))
    with pytest.raises(NotSupportedError, match="not a model"):
        il.learners.OLS().hidden_states.input_tokens(prompts(4, 0))


def transcription(inputs: Tensor, answers: Tensor, penalty: float) -> tuple[Tensor, Tensor]:
    """Ridge with a free bias on centred data, as rows added to a least-squares problem."""
    centre, middle = inputs.mean(0), answers.mean(0)  # (D,), (k,)
    here, wanted = inputs - centre, answers - middle  # (N, D), (N, k)
    width = inputs.shape[1]
    strength = len(inputs) * penalty * float(here.square().mean())
    rows = strength**0.5 * torch.eye(width, dtype=torch.float64)  # (D, D)
    zeros = torch.zeros(width, answers.shape[1], dtype=torch.float64)  # (D, k)
    system, right = torch.cat([here, rows]), torch.cat([wanted, zeros])  # (N + D, D), (N + D, k)
    weights = torch.linalg.pinv(system, rtol=1e-12) @ right  # (D, k)
    return weights, middle - centre @ weights


@pytest.mark.parametrize("name", CAUSAL)
@pytest.mark.parametrize("penalty", [0.0, 1e-2])
def test_readouts_equal_plain_least_squares(name: str, penalty: float) -> None:
    model, prompt = MODELS[name](), prompts(40, 0)
    with budget(7 * model.bytes_per_prompt(prompt)):
        fitted = fit_readouts(model, prompt, penalty=penalty)
        assert fitted.steps == model.steps
        for step, state in enumerate(il.iterate(model, prompt)):
            inputs = model.hidden_states.readout_inputs(prompt, state).flatten(0, 1)  # (N, D)
            weights, bias = transcription(inputs, prompt.ys.flatten(0, 1), penalty)
            # Fits are compared, not weights, which are free where the inputs do not vary.
            expected = inputs @ weights + bias
            found = inputs @ fitted.readouts[step] + fitted.biases[step]
            assert float((found - expected).abs().max()) < REFERENCE


class FarAway(InContextTransformer):
    """The same hidden states a million deviations off, as the residual stream of a circuit is."""

    def _readout_inputs(self, prompt: Prompt, state: Any) -> Tensor:
        return super()._readout_inputs(prompt, state) + 1e6


def test_a_far_mean_costs_no_precision() -> None:
    config = TransformerConfig(dims=DIMS, points=POINTS, backbone=loop())
    near, far = (kind(config).double() for kind in (InContextTransformer, FarAway))
    expected = il.predict(fit_readouts(near, prompts(50, 0), penalty=1e-3), prompts(9, 1))
    found = il.predict(fit_readouts(far, prompts(50, 0), penalty=1e-3), prompts(9, 1))
    assert float((found - expected).abs().max()) < REFERENCE


@pytest.mark.parametrize("name", CAUSAL)
def test_they_fit_their_prompts_at_least_as_well_as_the_models_own(name: str) -> None:
    model, prompt = MODELS[name](), prompts(100, 0)
    fitted = fit_readouts(model, prompt, penalty=0.0)
    own = squared_errors(il.trajectory(model, prompt).predictions, prompt).mean(dim=(1, 2))
    mine = squared_errors(il.trajectory(fitted, prompt).predictions, prompt).mean(dim=(1, 2))
    assert bool((mine <= own * (1 + REFERENCE)).all())
    # The readouts of a random model are random: there is something to gain.
    assert float(mine[-1]) < float(own[-1])


def test_full_attention_is_fitted_one_prefix_at_a_time() -> None:
    model, prompt = MODELS["stack, full attention"](), prompts(30, 0)
    fitted = fit_readouts(model, prompt, penalty=0.0)
    inputs: list[Tensor] = []
    for i in range(POINTS):
        ys = prompt.ys[:, : i + 1].clone()
        ys[:, -1] = 0.0
        part = Prompt(xs=prompt.xs[:, : i + 1], ys=ys)
        *_, state = il.iterate(model, part)
        inputs.append(model.hidden_states.readout_inputs(part, state)[:, -1])  # (B, D)
    every = torch.stack(inputs, dim=1).flatten(0, 1)  # (N, D)
    weights, bias = transcription(every, prompt.ys.flatten(0, 1), 0.0)
    expected = (every @ weights + bias).reshape(prompt.ys.shape)
    assert float((il.predict(fitted, prompt) - expected).abs().max()) < REFERENCE


def test_unscored_points_are_not_learned_from() -> None:
    model, prompt = MODELS["loop"](), prompts(40, 0)
    scored = torch.zeros(40, POINTS, dtype=torch.bool)
    scored[:, ::2] = True
    ys = prompt.ys.clone()
    # The last y is no token, and odd: nothing else sees it.
    ys[:, -1] = 1e6
    one = fit_readouts(model, replace(prompt, scored=scored))
    other = fit_readouts(model, replace(prompt, scored=scored, ys=ys))
    assert torch.equal(one.readouts, other.readouts)
    assert not torch.allclose(one.readouts, fit_readouts(model, prompt).readouts)


@pytest.mark.parametrize("name", MODELS)
def test_the_contract(name: str) -> None:
    fitted = fit_readouts(MODELS[name](), prompts(40, 0), penalty=1e-3)
    il.check_learner(fitted, dims=DIMS, points=POINTS, outputs=(1,))


def test_each_prompt_is_read_by_the_readout_of_its_own_step() -> None:
    model, prompt = MODELS["loop"](), prompts(6, 1)
    fitted = fit_readouts(model, prompts(40, 0), steps=40)
    result = il.run_to_fixed_point(fitted, prompt, tolerance=1e-3, max_steps=40, throw=False)
    steps = il.trajectory(fitted, prompt).predictions  # (41, B, n, k)
    assert len(result.steps.unique()) > 1
    expected = steps[result.steps, torch.arange(6)]  # (B, n, k)
    assert float((result.predictions - expected).abs().max()) < REFERENCE


def test_beyond_the_last_step_the_last_readout_is_used() -> None:
    model, prompt = MODELS["loop"](), prompts(5, 1)
    fitted = fit_readouts(model, prompts(40, 0))
    *_, state = il.iterate(model, prompt, steps=5)
    inputs = model.hidden_states.readout_inputs(prompt, state)  # (B, n, D)
    expected = inputs @ fitted.readouts[-1] + fitted.biases[-1]
    found = il.predict(fitted, prompt, steps=5)
    assert float((found - expected).abs().max()) < REFERENCE


def test_a_single_precision_model_is_read_in_double() -> None:
    model = transformer(loop()).float()
    prompt = prompts(200, 0).to(dtype=torch.float32)
    fitted = fit_readouts(model, prompt)
    assert fitted.readouts.dtype == torch.float64
    assert il.predict(fitted, prompt).dtype == torch.float32
    assert fitted.name == f"{model.name} with fitted readouts"


def test_the_hidden_states_are_the_models() -> None:
    model, prompt = MODELS["loop"](), prompts(5, 1)
    fitted = fit_readouts(model, prompts(40, 0))
    *_, inner = il.iterate(model, prompt)
    *_, state = il.iterate(fitted, prompt)
    assert isinstance(fitted, ReadoutLearner)
    through, own = fitted.hidden_states, model.hidden_states
    assert torch.equal(through.features(prompt, state), own.features(prompt, inner))
    assert through.input_tokens(prompt) == own.input_tokens(prompt)


def test_mistakes_are_named() -> None:
    model, prompt = MODELS["loop"](), prompts(4, 0)
    with pytest.raises(ConfigurationError, match="penalty is -1"):
        fit_readouts(model, prompt, penalty=-1)
    with pytest.raises(ConfigurationError, match="steps is -1"):
        fit_readouts(model, prompt, steps=-1)
    with pytest.raises(PromptError, match="without queries"):
        fit_readouts(model, asked(prompt))
    with pytest.raises(PromptError, match="score no position"):
        fit_readouts(model, replace(prompt, scored=torch.zeros(4, POINTS, dtype=torch.bool)))
