"""What the studies train, at each scale: written once, so that studies share runs."""

from functools import cache

from innerloop.training.config import RunConfig
from innerloop.training.families import Scale
from innerloop.training.overrides import with_overrides
from innerloop.training.recipes import find_recipe


@cache  # studies ask for the same runs again and again, and merging settings takes its time
def trained(recipe: str, scale: Scale, *changes: str) -> RunConfig:
    """A recipe at a scale, with settings changed as on the command line (`steps=500`)."""
    return with_overrides(find_recipe(recipe, scale), changes)


def looped(scale: Scale, *, loops: int, window: int, recipe: str = "looped-linear") -> RunConfig:
    """A recipe, the loop on linear functions, with b loops of which the last T count."""
    # Schedules begin with fewer loops than all, or with all where there are not so many.
    start = min(loops, find_recipe(recipe, scale).loops.start or loops)
    return trained(
        recipe, scale, f"model.backbone.loops={loops}", f"window={min(window, loops)}",
        f"loops.start={start}",
    )  # fmt: skip


def standard(scale: Scale, *, layers: int) -> RunConfig:
    """A stack of so many blocks on linear functions."""
    return trained("standard-linear", scale, f"model.backbone.layers={layers}")


def noisy(recipe: str, scale: Scale, noise: float) -> RunConfig:
    """A recipe whose outputs have noise of this standard deviation."""
    return trained(recipe, scale, f"task.noise={noise:g}")


def sparse(recipe: str, scale: Scale, sparsity: int) -> RunConfig:
    """A recipe on linear functions with so many non-zero weights; with all of them, as it is."""
    config = find_recipe(recipe, scale)
    if sparsity == config.task.dims:
        return config
    return trained(recipe, scale, "task.name=sparse", f"task.sparsity={sparsity}")
