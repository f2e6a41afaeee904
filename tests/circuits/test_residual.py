"""Slots, and affine functions of what stands in them."""

import pytest
import torch
from torch import Tensor

from innerloop.circuits.residual import Affine, Residual, constant, join, zeros
from innerloop.core.errors import ConfigurationError


@pytest.fixture
def residual() -> Residual:
    residual = Residual()
    residual.slot("x", 3)
    residual.slot("y", 1)
    residual.slot("answer", 2)
    return residual


def value(affine: Affine, at: dict[str, Tensor]) -> Tensor:
    """An affine function where slots hold certain numbers: (rows,)."""
    total = affine.constant.clone()  # (rows,)
    for name, matrix in affine.terms.items():
        total += matrix @ at[name]
    return total


def test_affine_functions_are_what_their_signs_say(
    residual: Residual, generator: torch.Generator
) -> None:
    x, y = residual["x"], residual["y"]
    matrix = torch.randn(2, 3, generator=generator, dtype=torch.float64)  # (2, 3)
    at = {
        "x": torch.randn(3, generator=generator, dtype=torch.float64),  # (3,)
        "y": torch.randn(1, generator=generator, dtype=torch.float64),  # (1,)
    }
    shift = constant(1.0, -2.0, 0.5)
    cases = {
        "a slot": (x, at["x"]),
        "sums": (x + x - shift, 2 * at["x"] - torch.tensor([1.0, -2.0, 0.5])),
        "a factor on either side": (2.5 * x * 2, 5 * at["x"]),
        "minus": (-(x - shift), torch.tensor([1.0, -2.0, 0.5]) - at["x"]),
        "a matrix": (matrix @ (x + shift), matrix @ (at["x"] + shift.constant)),
        "one row": (x[1], at["x"][1:2]),
        "the last row": (x[-1], at["x"][2:]),
        "some rows": ((x + shift)[[2, 0]], (at["x"] + shift.constant)[[2, 0]]),
        "joined": (join(y, x[:2], zeros(1)), torch.cat([at["y"], at["x"][:2], torch.zeros(1)])),
        "a slot joined twice": (join(x, -x), torch.cat([at["x"], -at["x"]])),
    }
    for name, (affine, expected) in cases.items():
        assert affine.rows == len(expected), name
        assert torch.allclose(value(affine, at), expected.double(), atol=1e-14), name


def test_arithmetic_leaves_slots_as_they_were(residual: Residual) -> None:
    x = residual["x"]
    _ = join(x, 2.0 * x) + constant(*range(6))
    assert torch.equal(x.terms["x"], torch.eye(3, dtype=torch.float64))
    assert torch.equal(x.constant, torch.zeros(3, dtype=torch.float64))


def test_slots_lie_one_behind_the_other(residual: Residual) -> None:
    assert residual.offsets() == {"x": 0, "y": 3, "answer": 4}
    assert residual.width == 6
    assert repr(residual["x"]) == "x (3)"


def test_mistakes_are_named(residual: Residual) -> None:
    with pytest.raises(ConfigurationError, match="'x' is declared twice"):
        residual.slot("x", 2)
    with pytest.raises(ConfigurationError, match="'empty' has size 0"):
        residual.slot("empty", 0)
    with pytest.raises(ConfigurationError, match="did you mean 'answer'"):
        residual["anser"]
    with pytest.raises(ConfigurationError, match="3 numbers and 1 cannot be added"):
        _ = residual["x"] + residual["y"]


def test_reading_what_was_not_declared_is_refused(residual: Residual) -> None:
    other = Residual()
    unknown, larger = other.slot("w", 3), other.slot("x", 4)
    with pytest.raises(ConfigurationError, match="layer 0 reads unknown slot 'w'"):
        residual.require(join(residual["x"], unknown), "layer 0")
    with pytest.raises(ConfigurationError, match="reads 4 numbers of slot 'x', which holds 3"):
        residual.require(larger, "layer 0")
    residual.require(join(residual["x"], residual["y"], constant(1.0)), "layer 0")
