"""Muon against torch's own, rates by hand, and what each optimiser moves."""

import math

import pytest
import torch
from torch import nn

from innerloop.models.table import build
from innerloop.training.muon import Muon, orthogonalise
from innerloop.training.optimizer import Optimizer, Optimizers
from tests.training.configs import tiny

BFLOAT16 = 0.05
"""Five iterations in bfloat16, which has 8 bits, against float32: what the comparison allows."""


@pytest.mark.parametrize("shape", [(6, 6), (4, 9), (9, 4)])
def test_singular_values_are_sent_near_one(
    generator: torch.Generator, shape: tuple[int, int]
) -> None:
    matrix = torch.randn(shape, generator=generator, dtype=torch.float64)
    found = orthogonalise(100 * matrix)
    u, _, vt = torch.linalg.svd(matrix, full_matrices=False)
    values = (u.mT @ found @ vt.mT).diagonal()  # the same singular vectors
    assert torch.allclose(u @ values.diag() @ vt, found, atol=1e-10)
    assert float(values.min()) > 0.6
    assert float(values.max()) < 1.3


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_muon_takes_the_steps_of_torchs_own(generator: torch.Generator, decay: float) -> None:
    start = [torch.randn(shape, generator=generator) for shape in [(16, 8), (8, 16), (8, 8)]]
    ours = [nn.Parameter(matrix.clone()) for matrix in start]
    theirs = [nn.Parameter(matrix.clone()) for matrix in start]
    optimizers = (
        Muon(ours, lr=0.02, momentum=0.95, weight_decay=decay),
        torch.optim.Muon(theirs, lr=0.02, momentum=0.95, weight_decay=decay),
    )
    for _ in range(5):
        for one, other in zip(ours, theirs, strict=True):
            one.grad = torch.randn(one.shape, generator=generator)
            other.grad = one.grad.clone()
        for optimizer in optimizers:
            optimizer.step()
    for one, other, before in zip(ours, theirs, start, strict=True):
        moved = (other.detach() - before).norm()
        assert float((one - other).detach().norm() / moved) < BFLOAT16


def test_muon_leaves_alone_what_has_no_gradient() -> None:
    matrix = nn.Parameter(torch.ones(2, 2))
    Muon([matrix], lr=1.0).step()
    assert torch.equal(matrix, torch.ones(2, 2))


def test_the_rates_of_the_papers_are_constant() -> None:
    paper = Optimizer.paper()
    assert {paper.factor(step, 10) for step in range(10)} == {1.0}
    assert (paper.kind, paper.learning_rate, paper.clip) == ("adam", 1e-4, None)


def test_rates_warm_up_and_fall_to_zero() -> None:
    settings = Optimizer(warmup=4, schedule="cosine")
    found = [settings.factor(step, 16) for step in range(16)]
    expected = [
        min(1, (step + 1) / 4) * (1 + math.cos(math.pi * step / 16)) / 2 for step in range(16)
    ]
    assert found == pytest.approx(expected)
    assert settings.factor(15, 16) < 0.01
    shared = Optimizer(warmup=0.25)
    assert [shared.factor(step, 8) for step in range(3)] == [0.5, 1.0, 1.0]


def test_a_trapezoid_is_constant_for_half_of_the_run_and_then_a_line_to_zero() -> None:
    settings = Optimizer(warmup=2, schedule="trapezoid")
    found = [settings.factor(step, 8) for step in range(8)]
    assert found == pytest.approx([0.5, 1, 1, 1, 1, 0.75, 0.5, 0.25])


def test_muon_moves_the_matrices_and_adam_the_rest() -> None:
    model = build(tiny().model)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    settings = Optimizer(kind="muon", learning_rate=1e-3, matrix_rate=0.5)
    Optimizers(settings, model).step(0, 1)
    hidden = {id(matrix) for matrix in model.matrices()}
    for name, parameter in model.named_parameters():
        moved = (parameter.detach() - before[name]).abs().max()
        if id(parameter) in hidden:
            assert float(moved) > 2e-3, name  # 0.5 / 8 or so
        else:
            assert float(moved) == pytest.approx(1e-3, rel=1e-3), name


def test_weight_decay_touches_hidden_matrices_only() -> None:
    for kind in ("adam", "muon"):
        model = build(tiny().model)
        before = {name: value.clone() for name, value in model.state_dict().items()}
        for parameter in model.parameters():
            parameter.grad = torch.zeros_like(parameter)
        settings = Optimizer.model_validate(
            {"kind": kind, "learning_rate": 0.1, "matrix_rate": 0.1, "weight_decay": 0.5}
        )
        Optimizers(settings, model).step(0, 1)
        hidden = {id(matrix) for matrix in model.matrices()}
        for name, parameter in model.named_parameters():
            share = 0.95 if id(parameter) in hidden else 1.0
            assert torch.allclose(parameter, share * before[name]), name


def test_a_long_gradient_is_shortened_and_told() -> None:
    model = build(tiny().model)
    optimizers = Optimizers(Optimizer(clip=0.5), model)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    count = sum(parameter.numel() for parameter in model.parameters())
    assert float(optimizers.clip()) == pytest.approx(math.sqrt(count), rel=1e-5)
    total = sum(float(p.grad.square().sum()) for p in model.parameters() if p.grad is not None)
    assert math.sqrt(total) == pytest.approx(0.5, rel=1e-4)
    assert float(optimizers.clip()) == pytest.approx(0.5, rel=1e-4)
