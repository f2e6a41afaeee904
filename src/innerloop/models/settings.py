"""What the configurations of all models answer."""

from abc import abstractmethod
from typing import Literal

from innerloop.core.config import Config

Spread = Literal["small", "fan-in"]
"""Of first weights: a deviation of 0.02, or by the inputs of each map."""
BACKWARD = 2.0
"""Operations of a gradient, over those of the prediction."""
MOST_LOOPS = 10**6
"""Far more than any model needs, and few enough to compute with."""


class ModelSettings(Config):
    """The configuration of a model: all that it is but its weights.

    It answers what training asks before there is a model; the answers here are those of a model
    that neither loops nor sees more than it should.
    """

    @property
    def trained_loops(self) -> int | None:
        """The loops that it is trained with; None if it does not loop."""
        return None

    @property
    def reinjects(self) -> bool:
        """Whether the input comes in again at every loop, so that its gradient needs no others."""
        return True

    @property
    def sees_answers(self) -> bool:
        """Whether a prediction sees the y that it is about."""
        return False

    @abstractmethod
    def operations(self, points: int, loops: int | None, window: int | None) -> float:
        """Operations, about, of a prompt and its gradient.

        The gradient goes through the last `window` of the loops; both are None without loops.
        """
