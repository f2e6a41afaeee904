"""Named, complete configurations: each model of the papers on each family, at three sizes.

At smoke and laptop size by the `fast` optimiser; at the papers' size by theirs, for a GPU.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from innerloop.core.errors import ConfigurationError, unknown
from innerloop.models.backbone import Loop, Stack
from innerloop.tasks.classification import LinearClassification
from innerloop.training.config import RunConfig
from innerloop.training.curriculum import Curriculum, Growth, LoopSchedule
from innerloop.training.families import (
    AUTOREGRESSION,
    CHAIN,
    CLASSIFICATION,
    EIGHT_DIMENSIONS,
    ILL_CONDITIONED,
    LINEAR,
    NETWORK,
    NOISY,
    REPRESENTATION,
    SCALES,
    SPARSE,
    TREE,
    VECTOR,
    Family,
    Scale,
)
from innerloop.training.optimizer import Optimizer

STEADY = Optimizer.fast().model_copy(
    update={"matrix_rate": 0.02, "learning_rate": 3e-3, "warmup": 100}
)
"""For blocks whose input does not come in again: a stack stalls at the rates of a loop."""
ADAM = Optimizer(learning_rate=3e-3, warmup=100, schedule="cosine", clip=1.0)
"""For models that are no transformers: Muon is made for the blocks of one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """A name for what to train, and where it comes from."""

    paper: str
    """The papers that it is from, by their keys in the docs."""
    title: str
    build: Callable[[Scale], RunConfig]
    minutes: float | None = None
    """What the laptop size takes on two cores, as measured; see docs/recipes.md."""


def find_recipe(name: str, scale: str = "laptop") -> RunConfig:
    """The configuration of a recipe at a scale."""
    if name not in RECIPES:
        raise ConfigurationError(unknown("recipe", name, RECIPES))
    for known in SCALES:
        if scale == known:
            return RECIPES[name].build(known)
    raise ConfigurationError(unknown("scale", scale, SCALES))


def _blocks(scale: Scale, heads: int | None = None) -> dict[str, Any]:
    """The shape of a block: width, heads and the activation of the papers' code."""
    width, usual = {"smoke": (16, 2), "laptop": (64, 4), "paper": (256, 8)}[scale]
    activation = "gelu-tanh" if scale == "paper" else "gelu"
    return {"width": width, "heads": heads or usual, "activation": activation}


def _looped(family: Family, *, pre: int = 0, post: int = 0) -> Callable[[Scale], RunConfig]:
    """Yang et al.'s looped transformer, or with pre- and post-transformer Gao et al.'s."""

    def build(scale: Scale) -> RunConfig:
        loop = Loop(**_blocks(scale), loops=family.at(scale).loops, pre=pre, post=post)
        return _transformer(family, scale, loop, window=family.at(scale).window)

    return build


def _tied(family: Family) -> Callable[[Scale], RunConfig]:
    """Shared weights without injection; every loop has a gradient, or the input would get none.

    All from the start, twelve loops do not learn at all: they grow.
    """

    def build(scale: Scale) -> RunConfig:
        loops = {"smoke": 4, "laptop": 12, "paper": 20}[scale]
        loop = Loop(**_blocks(scale), loops=loops, inject="none")
        return _transformer(family, scale, loop)

    return build


def _standard(family: Family, *, heads: int | None = None) -> Callable[[Scale], RunConfig]:
    """A stack of GPT-2 blocks."""

    def build(scale: Scale) -> RunConfig:
        layers = {"smoke": 2, "laptop": 8, "paper": 12}[scale]
        stack = Stack(**_blocks(scale, heads), layers=layers)
        return _transformer(family, scale, stack)

    return build


def _akyurek(family: Family) -> Callable[[Scale], RunConfig]:
    """16 layers of width 512 with 4 heads, y in a place of its own, cosine with a long warm-up."""

    def build(scale: Scale) -> RunConfig:
        if scale != "paper":
            return _standard(family)(scale)
        stack = Stack(width=512, heads=4, layers=16)
        model = {"kind": "transformer", "backbone": stack, "output_place": "own"}
        optimizer = Optimizer(learning_rate=1e-4, warmup=0.2, schedule="cosine")
        return _config(family, scale, model, optimizer=optimizer)

    return build


def _lstm(family: Family) -> Callable[[Scale], RunConfig]:
    """Fu et al.'s LSTM: ten layers of width 256."""

    def build(scale: Scale) -> RunConfig:
        width, layers = {"smoke": (16, 2), "laptop": (64, 4), "paper": (256, 10)}[scale]
        return _config(
            family, scale, {"kind": "lstm", "width": width, "layers": layers},
            optimizer=Optimizer.paper() if scale == "paper" else ADAM,
        )  # fmt: skip

    return build


def _linear_looped(family: Family) -> Callable[[Scale], RunConfig]:
    """Chen et al.'s linear looped transformer, trained as no paper does."""

    def build(scale: Scale) -> RunConfig:
        model = {"kind": "linear-looped", "loops": family.at(scale).loops}
        return _config(family, scale, model, optimizer=ADAM)

    return build


def _transformer(
    family: Family, scale: Scale, backbone: Stack | Loop, *, window: int | None = None
) -> RunConfig:
    """The papers' optimiser at their size, ours at the others."""
    paper = scale == "paper"
    task = family.at(scale).task
    model = {
        "kind": "transformer",
        "backbone": backbone,
        # The papers put y where x stands. In a place of its own it is told from x at once, and
        # training needs a third fewer steps.
        "output_place": "first" if paper or family.stream else "own",
        "head": "binary" if isinstance(task, LinearClassification) else "regression",
    }
    loops = None
    if isinstance(backbone, Loop):
        # Few loops at first; the papers start with as many as there are losses.
        loops = LoopSchedule(start=window if paper else 4, share=0.1 if paper else 0.6)
    injected = isinstance(backbone, Loop) and backbone.inject != "none"
    fast = Optimizer.fast() if injected else STEADY
    optimizer = Optimizer.paper() if paper else fast
    return _config(family, scale, model, optimizer=optimizer, window=window, loops=loops)


def _config(
    family: Family,
    scale: Scale,
    model: dict[str, object],
    *,
    optimizer: Optimizer,
    window: int | None = None,
    loops: LoopSchedule | None = None,
) -> RunConfig:
    """What does not depend on the model."""
    return RunConfig.model_validate(
        {
            "task": family.at(scale).task,
            "points": family.at(scale).points,
            "model": model,
            "steps": family.at(scale).steps,
            "optimizer": optimizer,
            "spread": "small" if scale == "paper" else "fan-in",
            "window": window,
            "loops": loops or LoopSchedule(),
            "curriculum": _curriculum(family, scale, looped=loops is not None),
            **_rhythm(scale),
        }
    )


def _curriculum(family: Family, scale: Scale, *, looped: bool) -> Curriculum:
    """Few dimensions and points first, as in Garg et al. (2022); streams are always whole."""
    dims, points = family.at(scale).task.dims, family.at(scale).points
    if family.stream:
        return Curriculum()
    if scale == "paper" and dims > 5:
        start, by = (11, 2) if points <= 41 else (26, 5)
        # Garg et al. say 2000, Yang et al. 5000.
        every = 5000 if looped else 2000
        return Curriculum(
            dims=Growth(start=5, by=1, every=every), points=Growth(start=start, by=by, every=every)
        )
    if scale == "laptop" and dims > 5:
        return Curriculum(dims=Growth(start=2, by=1, every=0.05))
    return Curriculum()


def _rhythm(scale: Scale) -> dict[str, int]:
    """How often a run reports, evaluates and saves."""
    return {
        "smoke": {"log_every": 5, "evaluate_every": 10, "save_every": 10},
        "laptop": {"log_every": 10, "evaluate_every": 50, "save_every": 250},
        "paper": {"log_every": 100, "evaluate_every": 1000, "save_every": 1000},
    }[scale]


RECIPES: dict[str, Recipe] = {
    "looped-linear": Recipe(
        paper="yang2024", title="one block in a loop learns linear functions",
        build=_looped(LINEAR),
    ),
    "standard-linear": Recipe(
        paper="yang2024, fu2023", title="a stack of blocks on linear functions",
        build=_standard(LINEAR),
    ),
    "tied-linear": Recipe(
        paper="yang2024", title="one block in a loop without input injection",
        build=_tied(LINEAR),
    ),
    "looped-sparse": Recipe(
        paper="yang2024", title="the loop on sparse linear functions", build=_looped(SPARSE)
    ),
    "standard-sparse": Recipe(
        paper="yang2024", title="the stack on sparse linear functions", build=_standard(SPARSE)
    ),
    "looped-tree": Recipe(
        paper="yang2024", title="the loop on decision trees", build=_looped(TREE)
    ),
    "standard-tree": Recipe(
        paper="yang2024", title="the stack on decision trees", build=_standard(TREE)
    ),
    "looped-network": Recipe(
        paper="yang2024", title="the loop on two-layer networks", build=_looped(NETWORK)
    ),
    "standard-network": Recipe(
        paper="yang2024", title="the stack on two-layer networks", build=_standard(NETWORK)
    ),
    "algoformer-linear": Recipe(
        paper="gao2025", title="pre-transformer, loop, post-transformer on linear functions",
        build=_looped(LINEAR, pre=1, post=1),
    ),
    "algoformer-representation": Recipe(
        paper="gao2025", title="AlgoFormer on regression through a fixed network",
        build=_looped(REPRESENTATION, pre=1, post=1),
    ),
    "looped-representation": Recipe(
        paper="gao2025", title="the loop on regression through a fixed network",
        build=_looped(REPRESENTATION),
    ),
    "standard-representation": Recipe(
        paper="gao2025", title="the stack on regression through a fixed network",
        build=_standard(REPRESENTATION),
    ),
    "algoformer-autoregression": Recipe(
        paper="gao2025", title="AlgoFormer on series through a fixed network",
        build=_looped(AUTOREGRESSION, pre=1, post=1),
    ),
    "looped-autoregression": Recipe(
        paper="gao2025", title="the loop on series through a fixed network",
        build=_looped(AUTOREGRESSION),
    ),
    "standard-autoregression": Recipe(
        paper="gao2025", title="the stack on series through a fixed network",
        build=_standard(AUTOREGRESSION),
    ),
    "algoformer-chain": Recipe(
        paper="gao2025", title="AlgoFormer on chains of thought",
        build=_looped(CHAIN, pre=1, post=1),
    ),
    "looped-chain": Recipe(
        paper="gao2025", title="the loop on chains of thought", build=_looped(CHAIN)
    ),
    "standard-chain": Recipe(
        paper="gao2025", title="the stack on chains of thought", build=_standard(CHAIN)
    ),
    "lstm-linear": Recipe(
        paper="fu2023", title="an LSTM on linear functions", build=_lstm(LINEAR)
    ),
    "standard-ill-conditioned": Recipe(
        paper="fu2023", title="the stack on inputs of condition number 100",
        build=_standard(ILL_CONDITIONED),
    ),
    "one-head-linear": Recipe(
        paper="fu2023", title="the stack with one head a layer", build=_standard(LINEAR, heads=1)
    ),
    "akyurek-linear": Recipe(
        paper="akyurek2022", title="a deep stack on linear functions",
        build=_akyurek(EIGHT_DIMENSIONS),
    ),
    "akyurek-noisy": Recipe(
        paper="akyurek2022", title="a deep stack on noisy linear functions", build=_akyurek(NOISY)
    ),
    "linear-looped-vector": Recipe(
        paper="chen2025", title="linear attention in a loop generates vectors",
        build=_linear_looped(VECTOR),
    ),
    "looped-classification": Recipe(
        paper="yang2024", title="the loop on linear classification",
        build=_looped(CLASSIFICATION),
    ),
}  # fmt: skip
"""Every recipe by its name."""
