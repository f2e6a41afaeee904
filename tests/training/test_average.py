"""The mean of a run's weights: by hand, in training, on disk."""

from pathlib import Path

import pytest
import torch

from innerloop.core.iterate import predict
from innerloop.models.table import build
from innerloop.training.average import Average
from innerloop.training.data import held_out
from innerloop.training.store import Store
from innerloop.training.trainer import Trainer
from tests.training.configs import tiny


def mean_of(values: list[float], age: float) -> float:
    """What an average holds after a model whose weights were all one of these after another."""
    model = build(tiny().model)
    average = Average(model, age)
    for step, value in enumerate(values, start=1):
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.fill_(value)
        average.take(model, step)
    return float(next(average.model.parameters()).detach().mean())


def test_half_an_age_is_the_plain_mean() -> None:
    assert mean_of([3.0, -1.0, 4.0, 10.0], 0.5) == pytest.approx(4.0)


@pytest.mark.parametrize("age", [0.05, 0.1, 0.3])
def test_the_weights_are_as_old_as_it_says(age: float) -> None:
    steps = 400
    newest = mean_of([float(step) for step in range(1, steps + 1)], age)
    # Sums in place of integrals: off by about half a step.
    assert steps - newest == pytest.approx(age * steps, abs=1)


def test_the_mean_of_weights_that_stay_is_those_weights() -> None:
    model = build(tiny().model, generator=torch.Generator().manual_seed(1))
    average = Average(build(tiny().model), 0.1)  # whatever it held before the first step is gone
    for step in range(1, 20):
        average.take(model, step)
    for name, value in average.model.state_dict().items():
        assert torch.equal(value, model.state_dict()[name]), name


def test_the_steps_are_those_without_an_average() -> None:
    plain, averaged = Trainer(tiny()), Trainer(tiny(average=0.2))
    for _ in range(4):
        assert averaged.take_step() == plain.take_step()
    for name, value in plain.model.state_dict().items():
        assert torch.equal(averaged.model.state_dict()[name], value), name


def test_the_error_is_that_of_the_average() -> None:
    quick = {"kind": "adam", "learning_rate": 0.02}
    plain, averaged = Trainer(tiny(optimizer=quick)), Trainer(tiny(optimizer=quick, average=0.5))
    assert averaged.error() == plain.error()  # no step yet: the first weights
    for _ in range(4):
        plain.take_step()
        averaged.take_step()
    assert averaged.average is not None
    prompt = held_out(tiny())
    with torch.no_grad():
        answers = predict(averaged.average.model, prompt)[:, -1]  # (P, k)
    scale = float(tiny().task.scale_at(5)[-1])
    expected = float((answers - prompt.ys[:, -1]).square().mean()) / scale
    assert averaged.error() == pytest.approx(expected, rel=1e-4)
    assert averaged.error() != pytest.approx(plain.error(), rel=1e-2)


def test_a_run_keeps_the_average_and_resumes_from_both(tmp_path: Path) -> None:
    run = Store(tmp_path).train(tiny(average=0.2))
    kept, state = run.model().state_dict(), run.read_state()
    trainer = Trainer(tiny(average=0.2))
    for _ in range(12):
        trainer.take_step()
    for name, value in trainer.result.state_dict().items():
        assert torch.equal(kept[name], value), name
        assert torch.equal(state["average"][name], value), name
        assert torch.equal(state["weights"][name], trainer.model.state_dict()[name]), name
    assert any(not torch.equal(state["weights"][name], value) for name, value in kept.items())


def test_a_run_without_an_average_has_none_in_its_state(tmp_path: Path) -> None:
    assert "average" not in Store(tmp_path).train(tiny()).read_state()
