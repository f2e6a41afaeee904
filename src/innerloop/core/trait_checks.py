"""The checks of the contract that hold a learner to its traits, claimed or not."""

from collections.abc import Callable
from dataclasses import replace

import torch

from innerloop.core.check_tools import AnyLearner, changed_from, distance, raw
from innerloop.core.errors import ContractViolation
from innerloop.core.iterate import predict
from innerloop.core.named_prompts import Setting, named_prompts
from innerloop.core.prompt import Prompt

DRAWS = 4
"""A trait that is not promised must fail on one of so many draws of the plain prompt."""


def check_causal(learner: AnyLearner, setting: Setting) -> None:
    """Causal: `read` does not peek without being run on expanded prefixes; not causal: it does.

    A learner that answers at the end alone has nothing after its answer to peek at.
    """
    if learner.answers_at_end and not learner.traits.causal:
        return

    def moved(prompt: Prompt, setting: Setting) -> float:
        answer = raw(learner, prompt)  # (B, n, k)
        others = [raw(learner, changed_from(prompt, i, setting)) for i in range(prompt.points)]
        return max(distance(other[:, i], answer[:, i]) for i, other in enumerate(others))

    _trait(learner, setting, "causal", learner.traits.causal, moved)


def check_order(learner: AnyLearner, setting: Setting) -> None:
    """Examples in reverse: the prediction at the last point stays, or moves if not promised."""
    if setting.layout != "pairs":
        return  # The order of a stream, or of a text, is what it says.

    def moved(prompt: Prompt, setting: Setting) -> float:
        order = torch.arange(prompt.points)  # (n,)
        order[:-1] = order[:-1].flip(0)
        other = replace(prompt, xs=prompt.xs[:, order], ys=prompt.ys[:, order])
        return distance(predict(learner, other)[:, -1], predict(learner, prompt)[:, -1])

    _trait(learner, setting, "order_invariant", learner.traits.order_invariant, moved)


def check_rotation(learner: AnyLearner, setting: Setting) -> None:
    """Inputs rotated by one orthogonal matrix: the predictions stay, or move if not promised."""
    if setting.layout != "pairs":
        return  # A stream's outputs are its inputs: they turn with them. Tokens do not turn.

    def moved(prompt: Prompt, setting: Setting) -> float:
        square = setting.normal(setting.generator(purpose=4), prompt.dims, prompt.dims).double()
        rotation = torch.linalg.qr(square).Q.to(prompt.xs.dtype)  # (d, d)
        other = replace(prompt, xs=prompt.xs @ rotation, truth={})
        return distance(predict(learner, other), predict(learner, prompt))

    promised = learner.traits.rotation_equivariant
    if promised or setting.dims > 1:  # a line has no rotations to be refuted by
        _trait(learner, setting, "rotation_equivariant", promised, moved)


def check_linearity(learner: AnyLearner, setting: Setting) -> None:
    """The answer to y + 2 z is the answer to y plus twice that to z, or is not if not promised."""
    if setting.layout != "pairs":
        return  # A stream's outputs are inputs as well, and the outputs of a text are not read.

    def moved(prompt: Prompt, setting: Setting) -> float:
        z = setting.normal(setting.generator(purpose=3), *prompt.ys.shape)  # (B, n, k)
        answer, other, mixed = (
            predict(learner, replace(prompt, ys=ys)) for ys in (prompt.ys, z, prompt.ys + 2 * z)
        )
        return distance(mixed, answer + 2 * other)

    _trait(learner, setting, "linear_in_y", learner.traits.linear_in_y, moved)


def _trait(
    learner: AnyLearner,
    setting: Setting,
    trait: str,
    promised: bool,
    moved: Callable[[Prompt, Setting], float],
) -> None:
    """Hold a promise on the plain prompt, or find a draw of it on which it fails, if not made."""
    for draw in range(1 if promised else DRAWS):
        drawn = replace(setting, seed=setting.seed + draw)
        far = moved(named_prompts(drawn)["plain"], drawn)
        if promised and far > setting.allowed:
            raise ContractViolation(
                f"{learner.name} promises to be {trait}, but its predictions move by {far:.1e}."
            )
        if far > setting.allowed:
            return
    if not promised:
        raise ContractViolation(
            f"{learner.name} is {trait} on the plain prompt without saying so: declare the trait."
        )
