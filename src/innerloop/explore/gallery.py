"""The models that come with the page: trained ones, an untrained one, and a compiled circuit."""

from dataclasses import dataclass
from typing import Any

import torch

from innerloop.circuits import compile
from innerloop.core.errors import InnerloopError
from innerloop.explore.sheet import sheet
from innerloop.models.model import AnyModel
from innerloop.models.pretrained import pretrained
from innerloop.models.transformer import InContextTransformer

FAMILIES = {1: "line", 2: "plane"}
"""What the recipes of the shipped models end with, by the number of inputs."""
EXAMPLES = 60
"""As many examples as the page takes."""
LARGEST_GRAM = 300.0
"""L, for which Newton's method starts at M = S / L^2: it converges while the largest eigenvalue of
S is below 1.4 L, which takes 60 examples nearly all at the edge, and is quick on all presets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exhibit:
    """A kind of model on the page, and what is said of it."""

    kind: str
    title: str
    about: str


EXHIBITS = (
    Exhibit(
        kind="looped",
        title="Looped",
        about="One block, applied again and again; the prompt is added at every loop. Trained with "
        "12 loops.",
    ),
    Exhibit(
        kind="standard",
        title="Standard",
        about="Four layers, each with weights of its own. After the fourth there is no step left.",
    ),
    Exhibit(
        kind="tied",
        title="Looped, no injection",
        about="One block in a loop, trained with 12 loops as well, but the prompt enters once. Go "
        "beyond loop 12.",
    ),
    Exhibit(
        kind="untrained",
        title="Untrained",
        about="The looped model before its first training step.",
    ),
    Exhibit(
        kind="newton",
        title="Newton, compiled",
        about="Not trained: Newton's method, derived as the weights of a transformer with ReLU "
        "attention.",
    ),
)  # fmt: skip
"""In the order in which the page offers them; the first two are shown at the start."""


def gallery() -> list[dict[str, Any]]:
    """The sheets of all models that come with the page, those with one input first."""
    return [_exhibit(exhibit, dims) for dims in FAMILIES for exhibit in EXHIBITS]


def _exhibit(exhibit: Exhibit, dims: int) -> dict[str, Any]:
    return sheet(
        _model(exhibit.kind, dims),
        name=f"{exhibit.kind}-{FAMILIES[dims]}",
        title=exhibit.title,
        about=exhibit.about,
        untrained=exhibit.kind == "untrained",
    )


def _model(kind: str, dims: int) -> AnyModel:
    """A model of the gallery; the untrained one has the first weights that the trained one had."""
    if kind == "newton":
        return newton(dims)
    if kind != "untrained":
        return pretrained(f"{kind}-{FAMILIES[dims]}")
    trained = pretrained(f"looped-{FAMILIES[dims]}")
    if not isinstance(trained, InContextTransformer):
        raise InnerloopError(f"looped-{FAMILIES[dims]} is no transformer: install innerloop again.")
    return InContextTransformer(trained.config, generator=torch.Generator().manual_seed(0))


def newton(dims: int) -> AnyModel:
    """Newton's method as weights, with one first step for all problems, as weights must have it."""
    return compile("newton-relu", dims=dims, points=EXAMPLES + 1, start=1 / LARGEST_GRAM**2)
