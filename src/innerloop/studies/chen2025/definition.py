"""The linear looped transformer as Chen et al. (2025) define it, definitions 3.4 to 3.6.

Z = [[X, y], [q', alpha]] with an example a row; Z <- Z - eta (M o (Z Q Z')) Z P, where M lets the
last row attend to the examples and nothing else; the vector that is generated is -q. Here with the
weights of theorem 4.2, Q = I and P = diag(I, 0), and an eta for every prompt.

Shapes: B prompts, n examples, d dimensions, T loops.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from innerloop.studies.lab import Lab
from innerloop.tasks import VectorGeneration

ROUNDING = 1e-12
"""What float64 leaves of numbers of order 1 that went through a few hundred loops, and more."""


def draw_examples(
    lab: Lab, purpose: str, *, dims: int, examples: int, prompts: int
) -> tuple[Tensor, Tensor, Tensor]:
    """X (B, n, d), y (B, n) and the unit vector theta (B, d), in float64."""
    task = VectorGeneration(dims=dims, dtype="float64")
    own = f"{purpose} {dims} {examples}"
    prompt = lab.draw(task, examples, prompts=prompts, purpose=own)
    return prompt.xs, prompt.ys[..., 0], prompt.truth["w"][..., 0]


def spectra(xs: Tensor) -> tuple[Tensor, Tensor]:
    """The largest eigenvalue L of X'X and the condition number kappa: (B,) each."""
    values = torch.linalg.eigvalsh(xs.mT @ xs)  # (B, d), rising
    return values[:, -1], values[:, -1] / values[:, 0]


def generated(
    xs: Tensor, ys: Tensor, *, query: Tensor, alpha: Tensor, rates: Tensor, loops: int
) -> Tensor:
    """What is generated before the first loop and after each, -q: (T + 1, B, d).

    `query` (B, d) is the q that it starts from, `alpha` (B,) what is asked for and `rates` (B,) the
    eta of each prompt. The mask leaves the last row only, so nothing else is computed.
    """
    examples = torch.cat([xs, ys[..., None]], dim=2)  # (B, n, d + 1)
    last = torch.cat([query, alpha[:, None]], dim=1)[:, None]  # (B, 1, d + 1)
    kept = torch.arange(last.shape[2]) < xs.shape[2]  # (d + 1,): the diagonal of P
    return _loop(last, lambda last: last @ examples.mT @ examples * kept, rates, loops)


def generated_by_whole_matrices(
    xs: Tensor, ys: Tensor, *, query: Tensor, alpha: Tensor, rates: Tensor, loops: int
) -> Tensor:
    """The same, letter by letter, with all of Z, M, Q and P: (T + 1, B, d)."""
    _, number, dims = xs.shape
    above = torch.cat([xs, ys[..., None]], dim=2)  # (B, n, d + 1)
    below = torch.cat([query, alpha[:, None]], dim=1)[:, None]  # (B, 1, d + 1)
    whole = torch.cat([above, below], dim=1)  # (B, n + 1, d + 1)
    mask = torch.zeros(number + 1, number + 1, dtype=xs.dtype)  # (n + 1, n + 1)
    mask[-1, :-1] = 1
    query_key = torch.eye(dims + 1, dtype=xs.dtype)  # (d + 1, d + 1)
    value_output = torch.block_diag(query_key[:-1, :-1], torch.zeros(1))  # (d + 1, d + 1)

    def attention(whole: Tensor) -> Tensor:
        return (mask * (whole @ query_key @ whole.mT)) @ whole @ value_output

    return _loop(whole, attention, rates, loops)


def _loop(rows: Tensor, attention: Callable[[Tensor], Tensor], rates: Tensor, loops: int) -> Tensor:
    """-q of the last of the rows (B, m, d + 1) before the first loop and after each: (T + 1, B, d).

    No learner has an eta for every prompt, so this is not `iterate`.
    """
    generated = [-rows[:, -1, :-1]]  # (B, d) each
    for _ in range(loops):
        rows = rows - rates[:, None, None] * attention(rows)  # (B, m, d + 1)
        generated.append(-rows[:, -1, :-1])
    return torch.stack(generated)
