"""Named, complete configurations: each model of the papers on each family, at each size."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from innerloop.core.errors import ConfigurationError, unknown
from innerloop.training.builders import (
    akyurek,
    algoformer,
    linear_looped,
    looped,
    lstm,
    one_head,
    standard,
    tables_looped,
    tables_standard,
    tabular,
    text_algoformer,
    text_looped,
    text_standard,
    tied,
)
from innerloop.training.config import RunConfig
from innerloop.training.families import (
    AUTOREGRESSION,
    CHAIN,
    CLASSIFICATION,
    EIGHT_DIMENSIONS,
    ILL_CONDITIONED,
    LABELLED_TABLES,
    LINE,
    LINEAR,
    NETWORK,
    NOISY,
    PLANE,
    REAL_TABLES,
    REPRESENTATION,
    SCALES,
    SPARSE,
    TABLES,
    TEXT,
    TREE,
    VECTOR,
    Scale,
    read_scale,
)
from innerloop.training.overrides import with_settings
from innerloop.training.translations import Kind, translation


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """A name for what to train, and where it comes from."""

    paper: str
    """The papers that it is from, by their keys in the docs."""
    title: str
    scales: tuple[Scale, ...]
    build: Callable[[Scale], RunConfig]


def find_recipe(name: str, scale: str = "laptop") -> RunConfig:
    """The configuration of a recipe at a scale."""
    if name not in RECIPES:
        raise ConfigurationError(unknown("recipe", name, RECIPES))
    return RECIPES[name].build(read_scale(scale))


def recipe(name: str, *, scale: str = "laptop", **overrides: Any) -> RunConfig:
    """The configuration of a recipe at a scale, with some of its settings changed.

    The settings are those of the command line, and a mistake in one is one sentence: `steps=2000`,
    `task=MyTask(dims=3)`, `task={"dims": 10}`, or with dots `**{"task.dims": 10}`.
    """
    return with_settings(find_recipe(name, scale), overrides)


RECIPES: dict[str, Recipe] = {
    name: Recipe(
        paper=paper, title=title, scales=family.scales, build=partial(build, family)
    )
    for name, paper, title, build, family in (
        ("looped-linear", "yang2024", "one block in a loop learns linear functions",
         looped, LINEAR),
        ("standard-linear", "yang2024, fu2023", "a stack of blocks on linear functions",
         standard, LINEAR),
        ("tied-linear", "yang2024", "one block in a loop without input injection", tied, LINEAR),
        ("looped-line", "yang2024", "a small loop on noisy lines, for the page of `explore`",
         looped, LINE),
        ("tied-line", "yang2024", "the same without input injection", tied, LINE),
        ("standard-line", "yang2024", "a small stack on noisy lines", standard, LINE),
        ("looped-plane", "yang2024", "a small loop on noisy planes, for the page of `explore`",
         looped, PLANE),
        ("tied-plane", "yang2024", "the same without input injection", tied, PLANE),
        ("standard-plane", "yang2024", "a small stack on noisy planes", standard, PLANE),
        ("looped-sparse", "yang2024", "the loop on sparse linear functions", looped, SPARSE),
        ("standard-sparse", "yang2024", "the stack on sparse linear functions", standard, SPARSE),
        ("looped-tree", "yang2024", "the loop on decision trees", looped, TREE),
        ("standard-tree", "yang2024", "the stack on decision trees", standard, TREE),
        ("looped-network", "yang2024", "the loop on two-layer networks", looped, NETWORK),
        ("standard-network", "yang2024", "the stack on two-layer networks", standard, NETWORK),
        ("algoformer-linear", "gao2025",
         "pre-transformer, loop, post-transformer on linear functions",
         algoformer, LINEAR),
        ("algoformer-representation", "gao2025", "AlgoFormer on regression through a fixed network",
         algoformer, REPRESENTATION),
        ("looped-representation", "gao2025", "the loop on regression through a fixed network",
         looped, REPRESENTATION),
        ("standard-representation", "gao2025", "the stack on regression through a fixed network",
         standard, REPRESENTATION),
        ("algoformer-autoregression", "gao2025", "AlgoFormer on series through a fixed network",
         algoformer, AUTOREGRESSION),
        ("looped-autoregression", "gao2025", "the loop on series through a fixed network",
         looped, AUTOREGRESSION),
        ("standard-autoregression", "gao2025", "the stack on series through a fixed network",
         standard, AUTOREGRESSION),
        ("algoformer-chain", "gao2025", "AlgoFormer on chains of thought", algoformer, CHAIN),
        ("looped-chain", "gao2025", "the loop on chains of thought", looped, CHAIN),
        ("standard-chain", "gao2025", "the stack on chains of thought", standard, CHAIN),
        ("lstm-linear", "fu2023", "an LSTM on linear functions", lstm, LINEAR),
        ("standard-ill-conditioned", "fu2023", "the stack on inputs of condition number 100",
         standard, ILL_CONDITIONED),
        ("one-head-linear", "fu2023", "the stack with one head per layer", one_head, LINEAR),
        ("akyurek-linear", "akyurek2022", "a deep stack on linear functions",
         akyurek, EIGHT_DIMENSIONS),
        ("akyurek-noisy", "akyurek2022", "a deep stack on noisy linear functions", akyurek, NOISY),
        ("linear-looped-vector", "chen2025", "linear attention in a loop generates vectors",
         linear_looped, VECTOR),
        ("tabular-regression", "hollmann2025",
         "a loop over cells predicts numbers in real tables", tabular, TABLES),
        ("tabular-classification", "hollmann2025",
         "a loop over cells predicts classes in real tables", tabular, LABELLED_TABLES),
        ("looped-classification", "yang2024", "the loop on linear classification",
         looped, CLASSIFICATION),
        ("looped-tables", "yang2024", "the loop on prompts from ten real tables",
         tables_looped, REAL_TABLES),
        ("standard-tables", "yang2024", "the stack on prompts from ten real tables",
         tables_standard, REAL_TABLES),
        ("text-standard", "gao2025", "a stack of blocks on the classes of texts",
         text_standard, TEXT),
        ("text-looped", "gao2025", "one block in a loop on the classes of texts",
         text_looped, TEXT),
        ("text-algoformer", "gao2025", "AlgoFormer on the classes of texts",
         text_algoformer, TEXT),
    )
}  # fmt: skip
"""Every recipe by its name."""
_TRANSLATORS: dict[Kind, str] = {
    "standard": "a stack of blocks translates German into English",
    "looped": "one block in a loop translates German into English",
    "algoformer": "AlgoFormer translates German into English",
}
RECIPES |= {
    f"translation-{kind}": Recipe(
        paper="gao2025", title=title, scales=SCALES, build=partial(translation, kind)
    )
    for kind, title in _TRANSLATORS.items()
}
