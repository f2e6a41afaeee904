"""Covariances of inputs: spectra with a name, and bases drawn anew for each prompt."""

from typing import Literal, cast

import torch
from pydantic import FiniteFloat
from torch import Tensor

from innerloop.tasks.draws import normal

CovarianceName = Literal["identity", "ill-conditioned", "skewed"]
Spectrum = tuple[FiniteFloat, ...]
Matrix = tuple[tuple[FiniteFloat, ...], ...]
Covariance = CovarianceName | Spectrum | Matrix
"""How a user gives a covariance: by name, by its eigenvalues, or in full."""


def ill_conditioned_spectrum(dims: int, condition_number: float) -> Tensor:
    """Half of the eigenvalues (d // 2 of them) are the condition number, the others 1: (d,)."""
    spectrum = torch.ones(dims, dtype=torch.float64)  # (d,)
    spectrum[: dims // 2] = condition_number
    return spectrum


def skewed_spectrum(dims: int) -> Tensor:
    """Eigenvalues proportional to 1 / i^2, i = 1 .. d, with the trace d of the identity: (d,)."""
    spectrum = torch.arange(1, dims + 1, dtype=torch.float64) ** -2  # (d,)
    return spectrum * (dims / spectrum.sum())


def random_bases(batch: int, dims: int, generator: torch.Generator) -> Tensor:
    """Orthogonal matrices (B, d, d), uniformly distributed (Haar), in float64.

    The Q of a factorised normal matrix is uniform once R's diagonal is made positive.
    """
    q, r = torch.linalg.qr(normal(generator, batch, dims, dims))  # (B, d, d) each
    diagonal = r.diagonal(dim1=-2, dim2=-1)  # (B, d)
    return torch.where(diagonal[:, None] < 0, -q, q)


def stretch(inputs: Tensor, spectrum: Tensor, bases: Tensor) -> Tensor:
    """Inputs (B, n, d) of covariance I become inputs of covariance Q diag(spectrum) Q'."""
    roots = spectrum.sqrt().to(bases)  # (d,)
    maps = roots[:, None] * bases.mT  # (B, d, d)
    return inputs @ maps.to(inputs.dtype)


def matrix_root(matrix: Tensor) -> Tensor:
    """The symmetric square root (d, d) of a positive semi-definite matrix, singular or not."""
    spectrum, basis = torch.linalg.eigh(matrix)  # (d,), (d, d)
    return basis * spectrum.clamp(min=0).sqrt() @ basis.T


def is_matrix(covariance: Covariance) -> bool:
    """Whether a covariance is given in full, as rows of a matrix."""
    return isinstance(covariance, tuple) and any(isinstance(row, tuple) for row in covariance)


def covariance_problem(covariance: Covariance, dims: int) -> str | None:
    """What is wrong with a covariance that a user gave, in a sentence; None if nothing."""
    if isinstance(covariance, str):
        return None
    if is_matrix(covariance):
        return _matrix_problem(cast(Matrix, covariance), dims)
    return _spectrum_problem(cast(Spectrum, covariance), dims)


def _spectrum_problem(spectrum: Spectrum, dims: int) -> str | None:
    if len(spectrum) != dims:
        return f"covariance has {len(spectrum)} eigenvalues, expected as many as dims, {dims}."
    if min(spectrum) < 0 or max(spectrum) == 0:
        return f"covariance has eigenvalues {spectrum}, expected none below 0 and one above."
    return None


def _matrix_problem(matrix: Matrix, dims: int) -> str | None:
    rows = [len(row) for row in matrix]
    if len(rows) != dims or set(rows) != {dims}:
        return f"covariance has rows of {rows} numbers, expected {dims} rows of dims, {dims}."
    entries = torch.tensor(matrix, dtype=torch.float64)  # (d, d)
    if not torch.equal(entries, entries.T):
        return "covariance is not symmetric: average it with its transpose."
    spectrum = torch.linalg.eigvalsh(entries)  # (d,)
    # Rounding may push the zeros of a singular matrix below 0, by about ulp(largest) * d.
    if float(spectrum[0]) < -1e-12 * dims * float(spectrum[-1]) or float(spectrum[-1]) <= 0:
        return (
            f"covariance has eigenvalues from {float(spectrum[0]):.3g} to "
            f"{float(spectrum[-1]):.3g}, expected none below 0 and one above."
        )
    return None
