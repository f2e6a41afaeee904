"""Linear classification: signs, never zero."""

import torch

from innerloop.tasks.classification import LinearClassification
from tests.tasks.task_statistics import LARGEST_Z, SIGNIFICANCE, normal_probability, seeded, z_score


def test_labels_are_the_side_of_the_hyperplane() -> None:
    prompt = LinearClassification(dims=4).sample(200, 5, generator=seeded(0))
    products = torch.einsum("bnd,bd->bn", prompt.xs, prompt.truth["w"][..., 0])  # (B, n)
    assert torch.equal(prompt.ys[..., 0], products.sign())
    assert normal_probability(prompt.truth["w"]) > SIGNIFICANCE


def test_both_classes_are_as_likely() -> None:
    ys = LinearClassification(dims=4).sample(2000, 1, generator=seeded(1)).ys  # (B, 1, 1)
    assert abs(z_score(ys, 0)) < LARGEST_Z


def test_the_hyperplane_itself_has_a_class() -> None:
    task = LinearClassification(dims=2)
    function = {"w": torch.tensor([[[1.0], [-1.0]]])}
    values = task.evaluate(function, torch.tensor([[[0.0, 0.0], [1.0, 1.0], [0.0, 1.0]]]))
    assert values.flatten().tolist() == [1, 1, -1]
