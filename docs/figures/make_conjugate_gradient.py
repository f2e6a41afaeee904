"""Draw docs/figures/conjugate-gradient.png: python docs/figures/make_conjugate_gradient.py."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import torch
from torch import Tensor

import innerloop as il
from innerloop.learners.conjugate_gradient import ConjugateGradient

BATCH, EXAMPLES, DIMS, STEPS = 25, 40, 20, 80
CONDITIONS = {
    3: ("#009E73", "D"),
    10: ("#0072B2", "o"),
    1_000: ("#E69F00", "s"),
    100_000: ("#CC79A7", "^"),
}
"""Condition numbers of X, with colours that are told apart without red and green."""


def draw_prompt(condition: int) -> tuple[il.Prompt, Tensor]:
    """Prompts whose singular values are spread evenly on a log scale, and their true weights."""
    generator = torch.Generator().manual_seed(0)
    normal = torch.randn(BATCH, EXAMPLES, DIMS, generator=generator, dtype=torch.float64)
    left, _, right = torch.linalg.svd(normal, full_matrices=False)  # (B, n, d), (B, d, d)
    values = condition ** -torch.linspace(0, 1, DIMS, dtype=torch.float64)  # (d,)
    xs = torch.cat([left * values @ right, torch.zeros_like(left[:, :1])], dim=1)  # (B, n + 1, d)
    w = torch.randn(BATCH, DIMS, 1, generator=generator, dtype=torch.float64)  # (B, d, 1)
    return il.Prompt(xs=xs, ys=xs @ w), w


def measure(condition: int) -> tuple[list[float], list[float]]:
    """By step: the median overlap of the gradient with an earlier one, and the median error.

    The gradients of converged prompts are rounding: the overlaps end where half have converged.
    """
    prompt, w = draw_prompt(condition)
    xs = prompt.xs[:, :EXAMPLES]  # (B, n, d)
    units: list[Tensor] = []  # Each (B, d): the gradients so far, of length one.
    overlaps: list[float] = []
    errors: list[float] = []
    for state in il.iterate(ConjugateGradient(STEPS), prompt):
        weights = state.weights[:, -1]  # (B, d, 1)
        errors.append(float(((weights - w).norm(dim=1) / w.norm(dim=1)).median()))
        moving = state.squared[:, -1, 0] > 0  # (B,)
        if int(moving.sum()) * 2 < BATCH:
            continue
        gradient = (xs.mT @ (xs @ (w - weights)))[..., 0]  # (B, d)
        unit = gradient / gradient.norm(dim=1, keepdim=True)  # (B, d)
        if units:
            before = torch.stack(units, dim=1)  # (B, k, d)
            overlap = (before @ unit[..., None]).abs().amax(dim=1)[:, 0]  # (B,)
            overlaps.append(float(overlap[moving].median()))
        units.append(unit)
    return overlaps, errors


def main() -> None:
    """Draw both panels and save the figure beside this file."""
    plt.rcParams.update({"font.size": 11, "axes.spines.top": False, "axes.spines.right": False})
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
    for condition, (colour, marker) in CONDITIONS.items():
        overlaps, errors = measure(condition)
        style = {"color": colour, "marker": marker, "markevery": 5, "markersize": 5}
        label = f"{condition:,}".replace(",", " ")
        left.semilogy(range(1, len(overlaps) + 1), overlaps, label=label, **style)
        right.semilogy(range(len(errors)), errors, label=label, **style)
    left.set_title("Orthogonality is lost ..", loc="left")
    left.set_ylabel("largest |cosine| with an earlier gradient")
    right.set_title(".. and d steps are not enough", loc="left")
    right.set_ylabel("error of the weights, |w - w*| / |w*|")
    for axes in (left, right):
        axes.set_xlabel("step")
        axes.set_xlim(0, STEPS)
        axes.set_ylim(1e-17, 3)
        axes.axvline(DIMS, color="0.4", linestyle=":", linewidth=1.5)
        axes.text(DIMS + 0.8, 3e-17, f"d = {DIMS} steps", color="0.3")
        axes.grid(axis="y", color="0.9")
    left.legend(title="condition number of X", frameon=False, loc="center right")
    figure.savefig(Path(__file__).parent / "conjugate-gradient.png", dpi=130)


if __name__ == "__main__":
    main()
