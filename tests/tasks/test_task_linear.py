"""Linear regression: weights, noise, and every way of giving a covariance."""

import math

import pytest
import scipy.stats
import torch
from torch import Tensor

from innerloop.core.tolerances import EXACT_CIRCUIT
from innerloop.tasks.covariance import (
    Covariance,
    ill_conditioned_spectrum,
    matrix_root,
    random_bases,
    skewed_spectrum,
    stretch,
)
from innerloop.tasks.linear import LinearRegression
from tests.tasks.task_statistics import (
    LARGEST_Z,
    MATRIX,
    SIGNIFICANCE,
    normal_probability,
    seeded,
    z_score,
)

ROUNDING = EXACT_CIRCUIT
"""Matrices of size 1 to 100 in float64 agree far below this."""


def eigenvalues_of_sample(inputs: Tensor) -> Tensor:
    """Of the second moments of inputs (B, n, d), largest first: (B, d)."""
    moments = inputs.mT @ inputs / inputs.shape[1]  # (B, d, d)
    return torch.linalg.eigvalsh(moments).flip(-1)


def eigenvalue_ratio_bound(points: int, dims: int) -> float:
    """Largest ratio of sampled to true eigenvalues, up to a probability of 2 exp(-4^2 / 2).

    Davidson and Szarek's bound on the singular values of normal matrices.
    """
    return (1 + (math.sqrt(dims) + 4) / math.sqrt(points)) ** 2


def test_weights_are_normal_with_the_prior_variance() -> None:
    task = LinearRegression(dims=5, prior_variance=4, outputs=2)
    w = task.sample(500, 3, generator=seeded(0)).truth["w"]  # (B, d, k)
    assert w.shape == (500, 5, 2)
    assert normal_probability(w, 2) > SIGNIFICANCE


def test_outputs_have_weights_and_noise_of_their_own() -> None:
    task = LinearRegression(dims=3, outputs=2, noise=0.7, dtype="float64")
    prompt = task.sample(500, 6, generator=seeded(1))
    noise = prompt.ys - prompt.xs @ prompt.truth["w"]  # (B, n, k)
    assert normal_probability(noise, 0.7) > SIGNIFICANCE
    assert abs(z_score(noise[..., 0] * noise[..., 1], 0)) < LARGEST_Z
    assert abs(z_score(prompt.truth["w"][..., 0] * prompt.truth["w"][..., 1], 0)) < LARGEST_Z


def test_plain_inputs_are_standard_normal() -> None:
    xs = LinearRegression(dims=3).sample(400, 5, generator=seeded(2)).xs  # (B, n, d)
    assert normal_probability(xs) > SIGNIFICANCE


def test_bases_are_uniform_orthogonal_matrices() -> None:
    dims = 4
    bases = random_bases(3000, dims, seeded(3))  # (B, d, d)
    assert float((bases @ bases.mT - torch.eye(dims)).abs().max()) < ROUNDING
    # A coordinate of a uniform unit vector: (q + 1) / 2 is Beta((d-1)/2, (d-1)/2).
    marginal = scipy.stats.beta((dims - 1) / 2, (dims - 1) / 2)
    for i in range(dims):
        for j in range(dims):
            entry = ((bases[:, i, j] + 1) / 2).numpy()
            assert scipy.stats.kstest(entry, marginal.cdf).pvalue > SIGNIFICANCE / dims**2
    # Uniform matrices look the same after a rotation of either side.
    turn = random_bases(2, dims, seeded(4))  # (2, d, d)
    turned = ((turn[0] @ bases @ turn[1] + 1) / 2)[:, 0, 0].numpy()  # (B,)
    assert scipy.stats.kstest(turned, marginal.cdf).pvalue > SIGNIFICANCE
    assert abs(z_score(torch.linalg.det(bases), 0)) < LARGEST_Z


def test_stretched_inputs_have_the_covariance_of_basis_and_spectrum() -> None:
    spectrum = torch.tensor([9.0, 1.0, 0.0], dtype=torch.float64)
    bases = random_bases(2, 3, seeded(5))  # (B, d, d)
    maps = stretch(torch.eye(3, dtype=torch.float64).expand(2, 3, 3), spectrum, bases)
    expected = bases @ torch.diag(spectrum) @ bases.mT  # (B, d, d)
    assert float((maps.mT @ maps - expected).abs().max()) < ROUNDING


def test_named_spectra() -> None:
    assert ill_conditioned_spectrum(6, 100).tolist() == [100, 100, 100, 1, 1, 1]
    assert ill_conditioned_spectrum(5, 7).tolist() == [7, 7, 1, 1, 1]
    skewed = skewed_spectrum(4)
    assert float(skewed.sum()) == pytest.approx(4, rel=ROUNDING)
    assert (skewed[0] / skewed).tolist() == pytest.approx([1, 4, 9, 16], rel=ROUNDING)


@pytest.mark.parametrize(
    ("covariance", "spectrum"),
    [
        ("identity", [1, 1, 1, 1]),
        ("ill-conditioned", [50, 50, 1, 1]),
        ("skewed", skewed_spectrum(4).tolist()),
        ((0.1, 5.0, 1.0, 2.0), [5, 2, 1, 0.1]),
    ],
)
def test_inputs_have_the_eigenvalues_asked_for(
    covariance: Covariance, spectrum: list[float]
) -> None:
    task = LinearRegression(dims=4, covariance=covariance, condition_number=50, dtype="float64")
    xs = task.draw_inputs(3, 20_000, seeded(6))  # (B, n, d)
    ratio = eigenvalues_of_sample(xs) / torch.tensor(spectrum)  # (B, d)
    bound = eigenvalue_ratio_bound(20_000, 4)
    assert float(ratio.max()) < bound
    # The smallest singular value deviates by as much: (1 - t)^2 = (2 - (1 + t))^2.
    assert float(ratio.min()) > (2 - math.sqrt(bound)) ** 2


@pytest.mark.parametrize("covariance", ["ill-conditioned", "skewed", (9.0, 1.0, 1.0)])
def test_the_basis_is_drawn_anew_for_each_prompt(covariance: Covariance) -> None:
    task = LinearRegression(dims=3, covariance=covariance, dtype="float64")
    xs = task.draw_inputs(400, 50, seeded(7))  # (B, n, d)
    leading = torch.linalg.eigh(xs.mT @ xs).eigenvectors[..., -1]  # (B, d)
    # A uniform direction in three dimensions has a uniform coordinate.
    coordinate = leading[:, 0].abs().numpy()
    assert scipy.stats.kstest(coordinate, "uniform").pvalue > SIGNIFICANCE


def test_a_full_matrix_is_the_covariance_of_all_prompts() -> None:
    task = LinearRegression(dims=3, covariance=MATRIX, dtype="float64")
    xs = task.draw_inputs(50, 400, seeded(8)).reshape(-1, 3)  # (B n, d)
    for i in range(3):
        for j in range(3):
            assert abs(z_score(xs[:, i] * xs[:, j], MATRIX[i][j])) < LARGEST_Z


def test_the_root_of_a_singular_matrix() -> None:
    singular = torch.tensor([[1.0, 2.0], [2.0, 4.0]], dtype=torch.float64)
    root = matrix_root(singular)
    # The zero eigenvalue comes out as 1e-16, whose root is 1e-8, and squares away again.
    assert float((root @ root - singular).abs().max()) < ROUNDING
    LinearRegression(dims=2, covariance=((1, 2), (2, 4))).sample(2, 3, generator=seeded(9))


def test_covariances_come_as_text() -> None:
    assert LinearRegression.model_validate(
        {"dims": "3", "covariance": "4, 0.5,1", "noise": "0.1"}
    ) == LinearRegression(dims=3, covariance=(4, 0.5, 1), noise=0.1)
    one = LinearRegression.model_validate({"dims": 1, "covariance": 4})
    assert one.covariance == (4.0,)
    assert LinearRegression.model_validate({"dims": 2, "covariance": "skewed"}) == LinearRegression(
        dims=2, covariance="skewed"
    )


@pytest.mark.parametrize(
    ("covariance", "sentence"),
    [
        ("skewd", "unknown covariance 'skewd': did you mean 'skewed'?"),
        ((1.0, 2.0), "covariance has 2 eigenvalues, expected as many as dims, 3."),
        ((1.0, -2.0, 1.0), "expected none below 0 and one above."),
        ((0.0, 0.0, 0.0), "expected none below 0 and one above."),
        (((1.0, 0.0), (0.0, 1.0)), "expected 3 rows of dims, 3."),
        (((1.0, 0.0, 0.0), (0.0, 1.0), (0.0, 0.0, 1.0)), "expected 3 rows of dims, 3."),
        (((1.0, 0.1, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)), "covariance is not symmetric"),
        (((1.0, 2.0, 0.0), (2.0, 1.0, 0.0), (0.0, 0.0, 1.0)), "eigenvalues from -1 to 3"),
        ("1,inf,2", "finite"),
    ],
)
def test_impossible_covariances_are_refused(covariance: object, sentence: str) -> None:
    with pytest.raises(ValueError, match="covariance") as caught:
        LinearRegression.model_validate({"dims": 3, "covariance": covariance})
    assert sentence in str(caught.value)


def test_the_scale_counts_trace_prior_and_noise() -> None:
    def scale(**settings: object) -> float:
        return float(LinearRegression.model_validate({"dims": 4, **settings}).scale())

    assert scale() == 4
    assert scale(noise=3) == 4 + 9
    assert scale(prior_variance=2, noise=1) == 8 + 1
    assert scale(covariance="ill-conditioned") == 202
    assert scale(covariance="skewed") == pytest.approx(4, rel=ROUNDING)
    assert scale(covariance=(1, 2, 3, 4), prior_variance=0.5) == 5
    assert scale(dims=3, covariance=MATRIX) == 3.5
