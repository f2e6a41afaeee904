import pytest
import torch
from pydantic import ValidationError

from innerloop.core.chunks import budget
from innerloop.core.tolerances import REFERENCE
from innerloop.learners.ridge import Ridge
from innerloop.learners.sherman_morrison import ShermanMorrison
from tests.learners.references import distance, linear_prompt, normal, ridge


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("penalty", [0.01, 1.0, 100.0])
def test_equals_ridge_at_every_prefix(seed: int, penalty: float) -> None:
    prompt = linear_prompt(seed, normal(seed, 5, 41, 20))
    weights = ShermanMorrison(penalty).weights(prompt)
    assert distance(weights, ridge(prompt, penalty)) < REFERENCE
    assert distance(weights, Ridge(penalty).weights(prompt).numpy()) < REFERENCE


@pytest.mark.parametrize(
    ("points", "dims", "outputs"), [(1, 3, 1), (2, 3, 2), (30, 1, 2), (4, 9, 2), (40, 5, 3)]
)
def test_all_shapes(points: int, dims: int, outputs: int) -> None:
    prompt = linear_prompt(3, normal(3, 3, points, dims), outputs)
    assert distance(ShermanMorrison(0.5).weights(prompt), ridge(prompt, 0.5)) < REFERENCE


def test_chunks_change_nothing() -> None:
    prompt = linear_prompt(4, normal(4, 7, 12, 4))
    whole = ShermanMorrison(0.1).weights(prompt)
    with budget(1):
        torch.testing.assert_close(ShermanMorrison(0.1).weights(prompt), whole)


@pytest.mark.parametrize("penalty", [0, -1, float("inf")])
def test_impossible_penalties_are_refused(penalty: float) -> None:
    with pytest.raises(ValidationError, match="penalty"):
        ShermanMorrison(penalty=penalty)
