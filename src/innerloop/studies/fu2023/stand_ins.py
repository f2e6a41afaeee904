"""What must hold of models before anything is concluded, and learners that must not pass for them.

The nulls run gradient descent in the place of the transformer's layers. Of those with a fixed
number of steps per layer it is not true that the layers converge as fast as Newton's method; of the
one whose steps grow by a factor from layer to layer it is, but it is not Newton's method.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np

from innerloop.learners import GradientDescent, Newton, Strided
from innerloop.studies.claim import Claim, Premise, at_most
from innerloop.studies.fu2023.model_layers import DESCENT, MODEL, algorithms
from innerloop.studies.lab import Lab, Null
from innerloop.studies.nulls import instead, untrained

LAST_ERROR = "last error"
"""The measure of the premise: the transformer's error after the last example."""
LEARNED = Premise(
    quantity="the transformer's error after the last example",
    criterion=at_most(
        0.05,
        "a twentieth of what predicting zero leaves: a model that does not solve the task has no "
        "algorithm that could be compared",
    ),
    statistic=lambda m: m[LAST_ERROR],
)

UNTRAINED = "an untrained transformer"
FIVE = "gradient descent, 5 steps per layer"
MANY = "gradient descent, 25 steps per layer"
GROWING = "gradient descent, steps that grow by a factor per layer"
HALF = "gradient descent, 25 steps in each layer of the first half"
TOO_LONG = "gradient descent, steps too long"
SLOW_NEWTON = "Newton's method, 1 iteration per layer"


def in_strides(strides: Callable[[Lab, int], Sequence[int]]) -> Null:
    """Gradient descent whose steps per layer are a function of the lab and the number of layers."""

    def layers(lab: Lab, label: str) -> Strided:
        each = tuple(strides(lab, lab.untrained(label).steps))
        return Strided(GradientDescent(sum(each)), each)

    return instead(layers, MODEL)


def _growing(lab: Lab, layers: int) -> list[int]:
    """From two steps in all to half of those that gradient descent is compared at."""
    most = algorithms(lab, DESCENT)[DESCENT].steps // 2
    return np.diff(np.geomspace(2, max(2, most), layers).round().astype(int), prepend=0).tolist()


def _too_long(lab: Lab, label: str) -> GradientDescent:
    """Steps of 3 / L of a typical prompt, where more than 2 / L diverges."""
    config = lab.config(label)
    largest = ((config.points - 1) ** 0.5 + config.task.dims**0.5) ** 2
    return GradientDescent(lab.untrained(label).steps, step_size=3 / largest)


def _slow_newton(lab: Lab, label: str) -> Newton:
    return Newton(lab.untrained(label).steps)


NULLS: dict[str, Null] = {
    UNTRAINED: untrained(MODEL),
    FIVE: in_strides(lambda _, layers: [5] * layers),
    MANY: in_strides(lambda _, layers: [25] * layers),
    GROWING: in_strides(_growing),
    HALF: in_strides(lambda _, layers: [25 * (2 * layer < layers) for layer in range(layers)]),
    TOO_LONG: instead(_too_long, MODEL),
    SLOW_NEWTON: instead(_slow_newton, MODEL),
}
"""By the names that claims exclude them by."""


def excluded_by(claims: Iterable[Claim]) -> dict[str, Null]:
    """Those of the nulls that some claim excludes: what a study declares."""
    wanted = {null for claim in claims for null in claim.excludes}
    return {name: null for name, null in NULLS.items() if name in wanted}


def on_premise(premise: Premise, *claims: Claim) -> tuple[Claim, ...]:
    """The claims with another premise."""
    return tuple(replace(claim, premise=premise) for claim in claims)
