"""What grows while a run trains: dimensions, points and loops."""

from pydantic import Field, FiniteFloat, field_validator

from innerloop.core.config import Config
from innerloop.training.duration import Duration, in_steps


class Growth(Config):
    """A size that starts small, may stay so for a while, and grows by jumps to its full value."""

    start: int = Field(ge=1, description="the size at the first step")
    by: int = Field(default=1, ge=1, description="how much it grows at a time")
    every: Duration = Field(description="steps from one jump to the next, or their share")
    hold: Duration = Field(default=0, description="steps, or their share, before it begins to grow")

    @field_validator("every")
    @classmethod
    def _check_every(cls, every: int | float) -> int | float:
        if every <= 0:
            raise ValueError(f"{every} steps between two jumps: give at least 1, or a share")
        return every

    def at(self, step: int, steps: int, most: int) -> int:
        """The size at a step (from 0) of a run of `steps`, where the full size is `most`."""
        growing = max(0, step - in_steps(self.hold, steps))
        return min(most, self.start + self.by * (growing // in_steps(self.every, steps)))


class Curriculum(Config):
    """Easy prompts first: fewer dimensions, fewer points, or both (Garg et al., 2022)."""

    dims: Growth | None = Field(
        default=None, description="dimensions that are not zero; None: all from the start"
    )
    points: Growth | None = Field(default=None, description="points; None: all from the start")


class LoopSchedule(Config):
    """Few loops first: b grows linearly from `start` to the model's loops (Yang et al., 2024)."""

    start: int | None = Field(
        default=None, ge=1, description="loops at the first step; None: all from the start"
    )
    share: FiniteFloat = Field(
        default=0.5, gt=0, le=1, description="share of the steps over which they grow"
    )

    def at(self, step: int, steps: int, most: int) -> int:
        """The loops b at a step (from 0) of a run of `steps`, for a model of `most` loops."""
        if self.start is None:
            return most
        grown = int((most - self.start) * min(1.0, step / (self.share * steps)))
        return min(most, self.start + grown)
