"""A distribution over prompts."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from innerloop.core.arguments import expect_count, expect_generator
from innerloop.core.config import Config
from innerloop.core.errors import ConfigurationError, PromptError
from innerloop.core.prompt import Layout, Prompt


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptForm:
    """What all prompts of a task look like: known without drawing one."""

    dims: int
    outputs: int = 1
    layout: Layout = "pairs"
    labels: bool = False
    """Whether every output is -1 or 1: a class, which can be neither noisy nor scaled."""
    fewest_points: int = 1
    """The points of the shortest prompt that has a scored position."""
    usual_share: float = 1.0
    """The points of a usual prompt over those asked for; below 1, prompts differ in length."""
    vocabulary: int = 0
    """How many tokens there are, in the layout "tokens"."""
    classes: int = 0
    """How many values an output has, which is then the number of one: a class, or a token."""
    asks_at_end: bool = False
    """Whether the last position alone is scored, so that full attention sees no answer."""

    @property
    def varies(self) -> bool:
        """Whether a prompt may have fewer points than were asked for, as texts do."""
        return self.usual_share < 1


class Task(Config):
    """A family of random problems; its fields are its configuration, given by keyword.

    A subclass writes `draw` and `scale`, and `form` where prompts are not pairs with one output.
    Callers use `sample`.
    """

    dims: int = Field(ge=1, description="dimensions of an input")
    dtype: Literal["float32", "float64"] = Field(
        default="float32", description="type of the numbers drawn"
    )

    @property
    def torch_dtype(self) -> torch.dtype:
        """The type of the numbers drawn, as torch names it."""
        return torch.float32 if self.dtype == "float32" else torch.float64

    def sample(self, batch: int, points: int, *, generator: torch.Generator) -> Prompt:
        """Draw `batch` prompts of `points` points, on the generator's device.

        The same task, sizes and generator state give the same prompts.
        """
        for name, value in (("batch", batch), ("points", points)):
            expect_count(name, value)
        expect_generator(generator)
        try:
            # Room for the inputs, twice: a draw that fails for want of memory fails here.
            torch.empty((2, batch, points, self.dims), dtype=torch.float64, device=generator.device)
        except (RuntimeError, MemoryError) as error:
            raise ConfigurationError(
                f"{batch} prompts of {points} points in {self.dims} dimensions do not fit into "
                "memory: take fewer."
            ) from error
        prompt = self.draw(batch, points, generator)
        fits = prompt.points <= points if self.form.varies else prompt.points == points
        if prompt.batch != batch or not fits:
            raise PromptError(
                f"{type(self).__name__} drew {prompt.batch} prompts of {prompt.points} points, "
                f"asked for {batch} of {points}: its draw is wrong."
            )
        return prompt

    def held_out(self, batch: int, points: int, *, generator: torch.Generator) -> Prompt:
        """Prompts to evaluate on; a task of real data has others here than `sample` draws from."""
        return self.sample(batch, points, generator=generator)

    def data_digest(self) -> str | None:
        """What tells its data from others, for a task of real data; None where all is drawn.

        A run keeps it, and does not go on with other data.
        """
        return None

    @property
    def form(self) -> PromptForm:
        """What its prompts look like; models are made to fit it."""
        return PromptForm(dims=self.dims)

    @property
    def most_points(self) -> int | None:
        """The most points that a prompt can have; None if there is no limit."""
        return None

    def tokenizer_text(self) -> str | None:
        """The tokeniser of its texts, as JSON, which a run keeps; None where it has no texts."""
        return None

    @property
    def unshiftable(self) -> str | None:
        """Why `innerloop.tasks.shifts` cannot shift it; None where they can."""
        return (
            "it labels no inputs with a function, its inputs are its outputs; "
            "give a task such as LinearRegression"
        )

    @abstractmethod
    def draw(self, batch: int, points: int, generator: torch.Generator) -> Prompt:
        """Draw the prompts; every random number comes from the generator."""

    @abstractmethod
    def scale(self) -> Tensor:
        """E[y^2], averaged over the outputs: what every error curve is divided by.

        Either one number () or, where it varies, one per position (p,); positions beyond the last
        take the last. A shifted task keeps the scale of the task that it shifts.
        """

    def scale_at(self, points: int) -> Tensor:
        """The scale of each of the first `points` positions: (points,) in float64."""
        scale = self.scale().to(torch.float64).reshape(-1)  # (p,)
        index = torch.arange(points).clamp(max=len(scale) - 1)  # (points,)
        return scale[index]

    def by_sample(self, values: Tensor) -> Tensor:
        """Values by position (.., n) as values by in-context sample (.., m): here they are one."""
        return values
