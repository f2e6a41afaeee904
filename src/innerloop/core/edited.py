"""A run of a model in which hooks read or replace what stands at some of its places."""

from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from torch import Tensor

from innerloop.core.components import Edit, Kind, Tap
from innerloop.core.errors import ConfigurationError
from innerloop.core.iterate import iterate
from innerloop.core.learner import Learner
from innerloop.core.prompt import Prompt


def run_edited(
    learner: Learner[Any],
    prompt: Prompt,
    edit: Edit,
    *,
    kinds: Collection[Kind],
    steps: int | None = None,
) -> Tensor:
    """Predictions after the last step (B, n, k), with all places of these kinds given to `edit`.

    The prompt is run as it is: of a learner that is not causal, its last prediction is the one
    that sees all examples before it.
    """
    if prompt.queries is not None:
        raise ConfigurationError(
            "a run with hooks takes prompts without queries: ask at x_i, the prompt's own points."
        )
    total = learner.steps if steps is None else steps
    components = learner.components
    states = iterate(learner, prompt, steps=total)
    state: Any = None
    for k in range(-1, total):
        with _all_hooked(components.taps(k, total), kinds, edit):
            state = next(states)
    with _all_hooked(components.taps(total, total), kinds, edit):
        return learner.read(prompt, state)


@contextmanager
def _all_hooked(taps: Sequence[Tap], kinds: Collection[Kind], edit: Edit) -> Iterator[None]:
    with ExitStack() as stack:
        for tap in taps:
            if tap.place.kind in kinds:
                stack.enter_context(tap.hooked(edit))
        yield
