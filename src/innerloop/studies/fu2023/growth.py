"""Whether the best matches of layers grow as a line, as an exponential or as a logarithm.

Each of the three curves has two parameters and grows. They are fitted by least squares in one
space, and so they explain parts of one variance, which can be compared. (R^2 of a line through the
steps and of one through their logarithms are parts of two different variances.)

The space is the one in which a match is as uncertain at a late layer as at an early one. After k
iterations Newton's method leaves (1 - s)^(2^k) of the start, and gradient descent after t steps
(1 - s)^t: one iteration is worth a doubling of the gradient steps. So iterations are compared as
they are, and gradient steps by their logarithm.

Shapes: L layers, C steps of an algorithm, G curves of a family.
"""

from typing import Literal

import torch
from torch import Tensor

from innerloop.analysis.matching import best_matches, line
from innerloop.studies.fu2023.model_layers import NEWTON

Curve = Literal["line", "exponential", "logarithm"]
OFFSETS = torch.logspace(-3, 3, 121, dtype=torch.float64)  # (G,)
"""What a line and a logarithm of gradient steps begin at, in units of their slope."""
RATES = torch.logspace(-3, 1, 121, dtype=torch.float64)  # (G,)
"""Of exponentials of iterations, per layer."""


def refined_matches(similarity: Tensor) -> Tensor:
    """The best matches (.., L) between steps, from the similarity (.., L, C) with each step.

    The top of the parabola through the most similar step and its two neighbours. Whole iterations
    hide what is to be told apart: of six layers with 3 gradient steps each they are 4, 5, 6, 7, 8,
    8, of which a line explains as much as the logarithm that they are.
    """
    best = best_matches(similarity)  # (.., L)
    if similarity.shape[-1] < 3:
        return best.double()
    inner = best.clamp(1, similarity.shape[-1] - 2)  # (.., L)
    low, top, high = (
        similarity.double().gather(-1, (inner + side)[..., None])[..., 0] for side in (-1, 0, 1)
    )  # (.., L) each
    aside = (0.5 * (low - high) / (low - 2 * top + high)).nan_to_num(0.0)  # (.., L)
    return best + torch.where(best == inner, aside.clamp(-0.5, 0.5), 0.0)


def explained(matches: Tensor, chosen: Tensor, algorithm: str) -> dict[Curve, Tensor]:
    """The part (..) of the variance of matches (.., L) that each of the curves explains.

    `chosen` (.., L) is 1 at the layers that are fitted, else 0. They are counted from the first of
    them, where the computation begins.
    """
    chosen = chosen.expand_as(matches)  # (.., L)
    first = chosen.argmax(dim=-1, keepdim=True)  # (.., 1)
    layer = torch.arange(matches.shape[-1])  # (L,)
    places = (layer - first).clamp(min=0).double() + 1  # (.., L)
    if algorithm == NEWTON:
        values = matches.double()  # (.., L)
        curves = (RATES.view(-1, *[1] * places.ndim) * (places - 1)).exp()  # (G, .., L)
        scales = _sum(curves * values, chosen) / _sum(curves.square(), chosen)  # (G, .., 1)
        return {
            "line": _growing(places, values, chosen),
            "exponential": _best(scales * curves, values, chosen),
            "logarithm": _growing(places.log(), values, chosen),
        }
    values = matches.double().clamp(min=1).log()  # (.., L): the start has no logarithm
    offsets = OFFSETS.view(-1, *[1] * places.ndim)  # (G, .., 1)
    return {
        "line": _best(_centred((places - 1 + offsets).log(), values, chosen), values, chosen),
        "exponential": _growing(places, values, chosen),
        "logarithm": _best(
            _centred((places.log() + offsets).log(), values, chosen), values, chosen
        ),
    }


def better(curve: Curve, matches: Tensor, chosen: Tensor, algorithm: str) -> Tensor:
    """How much more (..) of the variance a curve explains than the better one of the others."""
    parts = explained(matches, chosen, algorithm)
    return parts[curve] - torch.stack([parts[each] for each in parts if each != curve]).amax(dim=0)


def _sum(values: Tensor, chosen: Tensor) -> Tensor:
    """The sum (.., 1) of values (.., L) over the layers that are chosen."""
    return (values * chosen).sum(dim=-1, keepdim=True)


def _growing(places: Tensor, values: Tensor, chosen: Tensor) -> Tensor:
    """What a line that does not fall explains (..) of values (.., L) at places (.., L)."""
    slope, part = line(places, values, chosen)  # (..) each
    return torch.where(slope < 0, 0.0, part)


def _centred(curves: Tensor, values: Tensor, chosen: Tensor) -> Tensor:
    """Curves (G, .., L), each moved to where it fits values (.., L) best."""
    return curves + _sum(values - curves, chosen) / _sum(torch.ones_like(values), chosen)


def _best(curves: Tensor, values: Tensor, chosen: Tensor) -> Tensor:
    """What the best of curves (G, .., L) explains (..) of values (.., L)."""
    mean = _sum(values, chosen) / _sum(torch.ones_like(values), chosen)  # (.., 1)
    variance = _sum((values - mean).square(), chosen)  # (.., 1)
    left = _sum((values - curves).square(), chosen).amin(dim=0)  # (.., 1)
    return (1 - left / variance)[..., 0]
