"""The steps of a run."""

import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from pydantic import ValidationError

from innerloop.core.errors import ConfigurationError, NotSupportedError
from innerloop.core.iterate import predict, trajectory
from innerloop.models import kernels
from innerloop.models.table import build
from innerloop.training.config import RunConfig
from innerloop.training.data import generator_for, held_out
from innerloop.training.trainer import Trainer, available, first_model
from tests.training.configs import LOOP, STACK, stack, tiny

MODELS: dict[str, dict[str, Any]] = {
    "loop": {"backbone": LOOP},
    "algoformer": {"backbone": {**LOOP, "pre": 1, "post": 1}},
    "tied": {"backbone": {**LOOP, "inject": "none"}},
    "stack": {"backbone": STACK},
    "relu": {"backbone": {**STACK, "attention": "relu", "norm": "none"}},
    "lstm": {"kind": "lstm", "width": 8, "layers": 2},
    "linear-looped": {"kind": "linear-looped", "loops": 4},
}


def moved(config: RunConfig, steps: int) -> dict[str, torch.Tensor]:
    trainer = Trainer(config)
    for _ in range(steps):
        trainer.take_step()
    return trainer.model.state_dict()


@pytest.mark.parametrize("kind", MODELS)
def test_every_model_learns_the_one_prompt_that_it_sees(kind: str) -> None:
    slow = {"kind": "adam", "learning_rate": 1e-3}
    trainer = Trainer(tiny(model=MODELS[kind], window=None, optimizer=slow, pool=1))
    losses = [trainer.take_step().loss for _ in range(10)]
    assert losses == sorted(losses, reverse=True)
    assert len(set(losses)) == 10


@pytest.mark.parametrize(
    ("task", "head"),
    [
        ({"name": "classification", "dims": 2}, "binary"),
        ({"name": "linear", "dims": 2, "outputs": 3}, "regression"),
        ({"name": "chain", "dims": 2, "layers": 2}, "regression"),
        ({"name": "representation-ar", "dims": 2, "order": 2}, "regression"),
    ],
)
def test_tasks_with_labels_several_outputs_and_scored_positions(
    task: dict[str, Any], head: str
) -> None:
    trainer = Trainer(tiny(task=task, model={"backbone": LOOP, "head": head}))
    first = trainer.take_step()
    assert 0 < first.loss < 100
    assert first.gradient > 0
    # The scale is E[y^2]: what is predicted before training is about as bad as nothing.
    assert 0.2 < trainer.error() < 20


@pytest.mark.parametrize(
    "task", [{"name": "linear", "dims": 2}, {"name": "chain", "dims": 2, "layers": 2}]
)
def test_accumulated_batches_have_the_gradient_of_one_larger_batch(task: dict[str, Any]) -> None:
    whole = Trainer(tiny(task=task, batch=8))
    parts = Trainer(tiny(task=task, batch=4, accumulate=2))
    one, other = whole.take_step(), parts.take_step()
    assert one.loss == pytest.approx(other.loss, rel=1e-5)
    expected = dict(whole.model.named_parameters())
    for name, parameter in parts.model.named_parameters():
        assert parameter.grad is not None
        wanted = expected[name].grad
        assert wanted is not None
        assert torch.allclose(parameter.grad, wanted, atol=1e-5 * one.gradient), name


def test_the_first_weights_are_those_of_the_seed() -> None:
    one, again, other = (first_model(tiny(seed=seed)) for seed in (3, 3, 4))
    for name, value in one.state_dict().items():
        assert torch.equal(again.state_dict()[name], value)
    assert any(
        not torch.equal(other.state_dict()[name], value) for name, value in one.state_dict().items()
    )


def test_small_weights_are_small() -> None:
    small, wide = first_model(tiny(spread="small")), first_model(tiny())
    for one, other in zip(small.matrices(), wide.matrices(), strict=True):
        assert float(one.detach().std()) == pytest.approx(0.02, rel=0.5)
        assert float(other.detach().std()) > 0.1


def test_blocks_may_begin_as_the_identity_and_learn_all_the_same() -> None:
    config = stack(identity_start=True)
    drawn, trainer = first_model(stack()), Trainer(config)
    prompt = held_out(config)
    with torch.no_grad():
        first, *others = trajectory(trainer.model, prompt).predictions  # (B, n, k) each
    assert len(others) == 2
    assert all(torch.equal(other, first) for other in others)
    changed = {
        name
        for name, value in trainer.model.state_dict().items()
        if not torch.equal(value, drawn.state_dict()[name])
    }
    assert changed
    assert all(name.endswith(("outward.weight", "down.weight")) for name in changed)
    trainer.take_step()
    assert all(bool(matrix.any()) for matrix in trainer.model.matrices())


def test_a_model_without_blocks_cannot_begin_as_the_identity() -> None:
    with pytest.raises(ValidationError, match="set identity_start=false"):
        stack(model={"kind": "lstm", "width": 4, "layers": 1}, identity_start=True)


def test_a_linear_looped_transformer_keeps_its_own_first_weights() -> None:
    model = {"kind": "linear-looped", "loops": 4}
    config = tiny(model=model, spread="small")
    expected = build(config.model, generator=generator_for(config.seed, "weights"))
    for name, value in first_model(config).state_dict().items():
        assert torch.equal(value, expected.state_dict()[name])


def test_the_error_is_that_of_predicting_the_held_out_prompts() -> None:
    chain = {"name": "chain", "dims": 2, "layers": 3}
    for config in (tiny(), stack(task=chain, points=4)):
        trainer = Trainer(config)
        prompt = held_out(config)
        place = 4 if prompt.scored is None else 2  # level 3 of a chain is followed by a fresh x
        with torch.no_grad():
            answers = predict(trainer.model, prompt)[:, place]  # (P, k)
        expected = float((answers - prompt.ys[:, place]).square().mean()) / float(
            config.task.scale_at(config.points)[place]
        )
        assert trainer.error() == pytest.approx(expected, rel=1e-4)


def test_evaluating_changes_nothing() -> None:
    one, other = Trainer(tiny()), Trainer(tiny())
    for _ in range(3):
        one.take_step()
        one.error()
        assert one.sound()
        other.take_step()
    for name, value in one.model.state_dict().items():
        assert torch.equal(other.model.state_dict()[name], value)


def test_a_step_that_fails_moves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = Trainer(tiny())
    before = {name: value.clone() for name, value in trainer.model.state_dict().items()}
    readout = next(trainer.model.parameters())
    monkeypatch.setattr(trainer, "_loss", lambda prompt, sizes: readout.sum() * math.nan)
    with pytest.raises(ValueError, match="loss is nan"):
        trainer.take_step()
    assert trainer.step == 0
    for name, value in trainer.model.state_dict().items():
        assert torch.equal(value, before[name])


def test_bfloat16_is_near_float32() -> None:
    exact, rough = Trainer(tiny()), Trainer(tiny(precision="bfloat16"))
    one, other = exact.take_step(), rough.take_step()
    assert one.loss != other.loss
    assert one.loss == pytest.approx(other.loss, rel=0.05)
    assert all(p.dtype == torch.float32 for p in rough.model.parameters())


def test_a_device_that_is_not_here_is_refused() -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(ConfigurationError, match="which is not here"):
        available("cuda")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of torch's compiler about itself
def test_compiled_blocks_take_the_same_steps() -> None:
    plain, compiled = moved(tiny(), 3), moved(tiny(compile=True), 3)
    for name, value in plain.items():
        assert torch.allclose(compiled[name], value, atol=1e-3), name


@pytest.mark.slow
def test_without_a_compiler_compiling_is_refused_in_one_sentence(tmp_path: Path) -> None:
    words = ["looped-linear", "--scale", "smoke", "steps=2", "compile=true", "threads=1"]
    kept = {key: value for key, value in os.environ.items() if key not in ("CXX", "PATH")}
    ended = subprocess.run(
        [sys.executable, "-m", "innerloop", "train", *words, "--store", str(tmp_path / "runs")],
        env={**kept, "PATH": str(tmp_path), "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache")},
        capture_output=True, text=True,
    )  # fmt: skip
    assert ended.returncode == 2
    assert "Traceback" not in ended.stderr
    last = ended.stderr.rstrip().split("\n")[-1]
    assert last.startswith("error: torch cannot compile the model here")
    assert last.endswith("set compile=false.")


def test_kernels_are_used_unless_they_are_turned_off(monkeypatch: pytest.MonkeyPatch) -> None:
    fused, plain = Trainer(tiny()).take_step(), Trainer(tiny(kernels=False)).take_step()
    assert plain.loss == pytest.approx(fused.loss, rel=1e-5)

    def refuse(*arguments: object, **settings: object) -> None:
        raise NotSupportedError("no kernels here.")

    monkeypatch.setattr(kernels, "window_outputs", refuse)
    assert Trainer(tiny(kernels=False)).take_step() == plain
    with pytest.raises(NotSupportedError, match="no kernels here"):
        Trainer(tiny()).take_step()
