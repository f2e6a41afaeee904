"""Named, complete configurations: each model of the papers on each family, at three sizes."""

from dataclasses import dataclass

from innerloop.core.errors import ConfigurationError, unknown
from innerloop.training.builders import (
    Builder,
    akyurek,
    linear_looped,
    looped,
    lstm,
    standard,
    tied,
)
from innerloop.training.config import RunConfig
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
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """A name for what to train, and where it comes from."""

    paper: str
    """The papers that it is from, by their keys in the docs."""
    title: str
    build: Builder


def find_recipe(name: str, scale: str = "laptop") -> RunConfig:
    """The configuration of a recipe at a scale."""
    if name not in RECIPES:
        raise ConfigurationError(unknown("recipe", name, RECIPES))
    for known in SCALES:
        if scale == known:
            return RECIPES[name].build(known)
    raise ConfigurationError(unknown("scale", scale, SCALES))


RECIPES: dict[str, Recipe] = {
    "looped-linear": Recipe(
        paper="yang2024",
        title="one block in a loop learns linear functions",
        build=looped(LINEAR),
    ),
    "standard-linear": Recipe(
        paper="yang2024, fu2023",
        title="a stack of blocks on linear functions",
        build=standard(LINEAR),
    ),
    "tied-linear": Recipe(
        paper="yang2024",
        title="one block in a loop without input injection",
        build=tied(LINEAR),
    ),
    "looped-sparse": Recipe(
        paper="yang2024",
        title="the loop on sparse linear functions",
        build=looped(SPARSE),
    ),
    "standard-sparse": Recipe(
        paper="yang2024",
        title="the stack on sparse linear functions",
        build=standard(SPARSE),
    ),
    "looped-tree": Recipe(paper="yang2024", title="the loop on decision trees", build=looped(TREE)),
    "standard-tree": Recipe(
        paper="yang2024", title="the stack on decision trees", build=standard(TREE)
    ),
    "looped-network": Recipe(
        paper="yang2024", title="the loop on two-layer networks", build=looped(NETWORK)
    ),
    "standard-network": Recipe(
        paper="yang2024",
        title="the stack on two-layer networks",
        build=standard(NETWORK),
    ),
    "algoformer-linear": Recipe(
        paper="gao2025",
        title="pre-transformer, loop, post-transformer on linear functions",
        build=looped(LINEAR, pre=1, post=1),
    ),
    "algoformer-representation": Recipe(
        paper="gao2025",
        title="AlgoFormer on regression through a fixed network",
        build=looped(REPRESENTATION, pre=1, post=1),
    ),
    "looped-representation": Recipe(
        paper="gao2025",
        title="the loop on regression through a fixed network",
        build=looped(REPRESENTATION),
    ),
    "standard-representation": Recipe(
        paper="gao2025",
        title="the stack on regression through a fixed network",
        build=standard(REPRESENTATION),
    ),
    "algoformer-autoregression": Recipe(
        paper="gao2025",
        title="AlgoFormer on series through a fixed network",
        build=looped(AUTOREGRESSION, pre=1, post=1),
    ),
    "looped-autoregression": Recipe(
        paper="gao2025",
        title="the loop on series through a fixed network",
        build=looped(AUTOREGRESSION),
    ),
    "standard-autoregression": Recipe(
        paper="gao2025",
        title="the stack on series through a fixed network",
        build=standard(AUTOREGRESSION),
    ),
    "algoformer-chain": Recipe(
        paper="gao2025",
        title="AlgoFormer on chains of thought",
        build=looped(CHAIN, pre=1, post=1),
    ),
    "looped-chain": Recipe(
        paper="gao2025", title="the loop on chains of thought", build=looped(CHAIN)
    ),
    "standard-chain": Recipe(
        paper="gao2025", title="the stack on chains of thought", build=standard(CHAIN)
    ),
    "lstm-linear": Recipe(paper="fu2023", title="an LSTM on linear functions", build=lstm(LINEAR)),
    "standard-ill-conditioned": Recipe(
        paper="fu2023",
        title="the stack on inputs of condition number 100",
        build=standard(ILL_CONDITIONED),
    ),
    "one-head-linear": Recipe(
        paper="fu2023",
        title="the stack with one head per layer",
        build=standard(LINEAR, heads=1),
    ),
    "akyurek-linear": Recipe(
        paper="akyurek2022",
        title="a deep stack on linear functions",
        build=akyurek(EIGHT_DIMENSIONS),
    ),
    "akyurek-noisy": Recipe(
        paper="akyurek2022",
        title="a deep stack on noisy linear functions",
        build=akyurek(NOISY),
    ),
    "linear-looped-vector": Recipe(
        paper="chen2025",
        title="linear attention in a loop generates vectors",
        build=linear_looped(VECTOR),
    ),
    "looped-classification": Recipe(
        paper="yang2024",
        title="the loop on linear classification",
        build=looped(CLASSIFICATION),
    ),
}
"""Every recipe by its name."""
