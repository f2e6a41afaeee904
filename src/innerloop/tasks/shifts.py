"""Out-of-distribution prompts: tasks that wrap a task and change one thing about it.

`ScaledInputs(task=LinearRegression(dims=5), factor=3)` is a task like any other. Its function is
drawn as the wrapped task draws it, labels are computed at the shifted inputs, and errors are
divided by the scale of the wrapped task, so that curves can be set side by side. The list is that
of Garg et al. (2022) and Yang et al. (2024).

Some shifts ask other queries than x_i: one per prefix, with its label, made as every other label is
made, in truth["query_ys"] (B, n, 1, k).
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, cast

import torch
from pydantic import Field, FiniteFloat, InstanceOf, SerializeAsAny
from torch import Tensor
from torch.nn.functional import normalize

from innerloop.core.errors import ShiftError
from innerloop.core.prompt import Prompt
from innerloop.core.task import PromptForm, Task
from innerloop.tasks.covariance import random_bases, skewed_spectrum, stretch
from innerloop.tasks.draws import normal, signs, uniform
from innerloop.tasks.function import FunctionTask, squared, with_noise

Inputs = tuple[Tensor, Tensor | None]
"""Inputs (B, n, d), and one query per prefix (B, n, d), or None to ask x_i."""

_FACTORS = {
    written: {"factor": factor}
    for written, factor in (("1/3", 1 / 3), ("1/2", 1 / 2), ("2", 2.0), ("3", 3.0))
}


class Shift(Task):
    """A task with one thing changed; `dims` and `dtype` are those of the task that it wraps.

    A subclass replaces one piece: the inputs, the function or the labels. Tasks that it makes no
    sense for are refused with a ShiftError when it is built; a shift of a shift always is.
    """

    dims: int = Field(default=1, ge=1, exclude=True, repr=False, description="those of the task")
    dtype: Literal["float32", "float64"] = Field(
        default="float32", exclude=True, repr=False, description="that of the task"
    )
    task: SerializeAsAny[InstanceOf[FunctionTask]] = Field(description="the task that is shifted")

    papers: ClassVar[Mapping[str, Mapping[str, float]]] = {"": {}}
    """The settings that the papers test a model on, by what is added to the shift's name."""

    def __init__(self, **values: Any) -> None:
        # Here and not in a validator, which would turn a ShiftError into a ValidationError.
        task = values.get("task")
        if isinstance(task, Task):
            values = self._taken_from(task, values)
        super().__init__(**values)

    @classmethod
    def _taken_from(cls, task: Task, values: dict[str, Any]) -> dict[str, Any]:
        """The values with the task's dims and dtype, if the task can be shifted."""
        reason = cls.refusal(task)
        if reason is not None:
            raise ShiftError(f"{cls.__name__} cannot shift {type(task).__name__}: {reason}.")
        taken = {"dims": task.dims, "dtype": task.dtype}
        for name, value in taken.items():
            if values.get(name, value) != value:
                raise ShiftError(
                    f"{name} of {cls.__name__} is {values[name]!r}, but its task has {value!r}: "
                    "leave it out, a shift takes it from its task."
                )
        return {**values, **taken}

    @classmethod
    def refusal(cls, task: Task) -> str | None:
        """Why the shift makes no sense for a task; None if it does."""
        return task.unshiftable or cls.unsuited(cast(FunctionTask, task))  # no other is shiftable

    @classmethod
    def unsuited(cls, task: FunctionTask) -> str | None:
        """Why this shift makes no sense for a task that others may shift; None if it does."""
        return None

    @property
    def added_noise(self) -> float:
        """The variance of the noise that the shift adds to every label."""
        return 0.0

    @property
    def unshiftable(self) -> str | None:
        """A shift is not shifted again."""
        return "it is shifted already; give the task inside it"

    def draw_inputs(self, batch: int, points: int, generator: torch.Generator) -> Inputs:
        """The inputs of the task, and no queries."""
        return self.task.draw_inputs(batch, points, generator), None

    def change_function(self, function: dict[str, Tensor]) -> dict[str, Tensor]:
        """The function's parameters, unchanged."""
        return function

    def label(
        self, function: Mapping[str, Tensor], inputs: Tensor, generator: torch.Generator
    ) -> Tensor:
        """The task's labels (B, m, k)."""
        return self.task.label(function, inputs, generator)

    def draw(self, batch: int, points: int, generator: torch.Generator) -> Prompt:
        """The task's own pieces in the task's own order, one of them changed."""
        xs, asked = self.draw_inputs(batch, points, generator)  # (B, n, d) each
        function = self.change_function(self.task.draw_function(batch, generator))
        ys = self.label(function, xs, generator)  # (B, n, k)
        truth = self.task.truth(function, xs)
        if asked is None:
            return Prompt(xs=xs, ys=ys, truth=truth)
        truth["query_ys"] = self.label(function, asked, generator)[:, :, None]  # (B, n, 1, k)
        return Prompt(xs=xs, ys=ys, queries=asked[:, :, None], truth=truth)

    @property
    def form(self) -> PromptForm:
        """That of the task."""
        return self.task.form

    def scale(self) -> Tensor:
        """That of the task."""
        return self.task.scale()


class SkewedCovariance(Shift):
    """Inputs with covariance eigenvalues 1/i^2.

    Up to a factor that keeps the trace. The basis is drawn uniformly for each prompt.
    """

    @classmethod
    def unsuited(cls, task: FunctionTask) -> str | None:
        """A covariance is not skewed on top of another."""
        if task.isotropic:
            return None
        return "its inputs have a covariance of their own; give one with covariance='identity'"

    def draw_inputs(self, batch: int, points: int, generator: torch.Generator) -> Inputs:
        """N(0, Q D Q')."""
        xs = self.task.draw_inputs(batch, points, generator)  # (B, n, d)
        bases = random_bases(batch, self.dims, generator)  # (B, d, d)
        return stretch(xs, skewed_spectrum(self.dims), bases), None


class HalfSubspace(Shift):
    """Inputs from a random half of the dimensions.

    They are projected on a subspace of ceil(d / 2) dimensions, drawn uniformly for each prompt, and
    scaled by the root of what the projection costs on average, so that their mean square length
    is kept.
    """

    def draw_inputs(self, batch: int, points: int, generator: torch.Generator) -> Inputs:
        """Sqrt(d / h) x U U' with U (d, h)."""
        xs = self.task.draw_inputs(batch, points, generator)  # (B, n, d)
        half = -(-self.dims // 2)
        bases = random_bases(batch, self.dims, generator)[..., :half].to(xs.dtype)  # (B, d, h)
        return (self.dims / half) ** 0.5 * (xs @ bases @ bases.mT), None


class NoisyOutputs(Shift):
    """Outputs with additional noise."""

    noise: FiniteFloat = Field(
        default=1.0, ge=0, description="standard deviation of the noise added"
    )

    @classmethod
    def unsuited(cls, task: FunctionTask) -> str | None:
        """Classes take no noise."""
        refusal = "its outputs are classes, and a class with noise on it is none"
        return refusal if task.form.labels else None

    @property
    def added_noise(self) -> float:
        """The square of its standard deviation."""
        return squared(self.noise)

    def label(
        self, function: Mapping[str, Tensor], inputs: Tensor, generator: torch.Generator
    ) -> Tensor:
        """The task's labels, with its own noise if it has any, plus N(0, noise^2)."""
        labels = super().label(function, inputs, generator)  # (B, m, k)
        return with_noise(labels, self.noise, generator)


class OrthogonalQuery(Shift):
    """Queries orthogonal to all earlier examples.

    Nothing is known of the function there. They have a uniformly random direction and the length of
    a fresh input. They exist for fewer examples than dimensions only, so that prompts have at most
    d points.
    """

    @property
    def most_points(self) -> int | None:
        """As many as there are dimensions."""
        return self.dims

    def draw_inputs(self, batch: int, points: int, generator: torch.Generator) -> Inputs:
        """Plain inputs; random directions with the part along the earlier inputs taken out."""
        if points > self.dims:
            raise ShiftError(
                f"points is {points}, expected at most dims, {self.dims}: no query is orthogonal "
                "to as many examples as there are dimensions."
            )
        inputs = self.task.draw_inputs(batch, 2 * points, generator)  # (B, 2n, d)
        xs, fresh = inputs.split(points, dim=1)  # (B, n, d) each
        directions = normal(generator, batch, points, self.dims)  # (B, n, d)
        directions = normalize(_orthogonal_to_earlier(xs.double(), directions), dim=2)
        lengths = torch.linalg.vector_norm(fresh.double(), dim=2, keepdim=True)  # (B, n, 1)
        return xs, (lengths * directions).to(xs.dtype)


class ExampleQuery(Shift):
    """Queries that repeat an earlier example.

    Where there is none, the query is a fresh input.
    """

    def draw_inputs(self, batch: int, points: int, generator: torch.Generator) -> Inputs:
        """Plain inputs; the query of prefix i is x_j with j uniform in 0 .. i-1."""
        inputs = self.task.draw_inputs(batch, points + 1, generator)  # (B, n + 1, d)
        xs, fresh = inputs[:, :points], inputs[:, points:]  # (B, n, d), (B, 1, d)
        earlier = torch.arange(1, points, device=xs.device)  # (n - 1,)
        chosen = (uniform(generator, batch, points - 1) * earlier).long()  # (B, n - 1)
        # u * i may round up to i.
        chosen = torch.minimum(chosen, earlier - 1)
        repeated = xs.gather(1, chosen[..., None].expand(-1, -1, self.dims))  # (B, n - 1, d)
        return xs, torch.cat([fresh, repeated], dim=1)


class RandomOrthant(Shift):
    """Examples and queries from two random orthants.

    Both are drawn for each prompt, and are the same with probability 2^-d.
    """

    def draw_inputs(self, batch: int, points: int, generator: torch.Generator) -> Inputs:
        """Inputs with their signs replaced by those of the orthants."""
        inputs = self.task.draw_inputs(batch, 2 * points, generator).abs()  # (B, 2n, d)
        orthants = signs(generator, batch, 2, self.dims, dtype=inputs.dtype)  # (B, 2, d)
        xs, asked = inputs.split(points, dim=1)  # (B, n, d) each
        return xs * orthants[:, :1], asked * orthants[:, 1:]


class OppositeOrthant(Shift):
    """Examples and queries from opposite orthants.

    That of the examples is drawn for each prompt.
    """

    def draw_inputs(self, batch: int, points: int, generator: torch.Generator) -> Inputs:
        """Inputs with their signs replaced by those of the orthant, and by the opposite ones."""
        inputs = self.task.draw_inputs(batch, 2 * points, generator).abs()  # (B, 2n, d)
        orthant = signs(generator, batch, 1, self.dims, dtype=inputs.dtype)  # (B, 1, d)
        xs, asked = inputs.split(points, dim=1)  # (B, n, d) each
        return xs * orthant, -asked * orthant


class ScaledInputs(Shift):
    """Inputs times a factor.

    The function is the same.
    """

    papers = _FACTORS

    factor: FiniteFloat = Field(gt=0, description="what every input is multiplied by")

    def draw_inputs(self, batch: int, points: int, generator: torch.Generator) -> Inputs:
        """Factor times x."""
        return self.factor * self.task.draw_inputs(batch, points, generator), None


class ScaledWeights(Shift):
    """Functions times a factor.

    The inputs, and the noise if there is any, are the same.
    """

    papers = _FACTORS

    factor: FiniteFloat = Field(
        gt=0, description="what every value of the function is multiplied by"
    )

    @classmethod
    def unsuited(cls, task: FunctionTask) -> str | None:
        """Only a parameter that the values are linear in can be scaled."""
        return "it has no weights that its outputs are linear in" if task.readout is None else None

    def change_function(self, function: dict[str, Tensor]) -> dict[str, Tensor]:
        """Factor times the weights that the outputs are linear in."""
        name = self.task.readout
        assert name is not None  # refused when built
        return {**function, name: self.factor * function[name]}


SHIFTS: dict[str, type[Shift]] = {
    "skewed-covariance": SkewedCovariance,
    "half-subspace": HalfSubspace,
    "noisy-outputs": NoisyOutputs,
    "orthogonal-query": OrthogonalQuery,
    "example-query": ExampleQuery,
    "random-orthant": RandomOrthant,
    "opposite-orthant": OppositeOrthant,
    "scaled-inputs": ScaledInputs,
    "scaled-weights": ScaledWeights,
}
"""Every shift, as the command line calls it."""


def papers_shifts(task: Task) -> dict[str, Shift]:
    """Every shift that the papers test a model on, by name; without those that refuse the task."""
    return {
        f"{name} {written}".strip(): kind(task=task, **settings)
        for name, kind in SHIFTS.items()
        if kind.refusal(task) is None
        for written, settings in kind.papers.items()
    }


def _orthogonal_to_earlier(xs: Tensor, vectors: Tensor) -> Tensor:
    """Vectors (B, n, d), each without its part in the span of the inputs before it."""
    basis = torch.linalg.qr(xs.mT).Q  # (B, d, n)
    points = xs.shape[1]
    earlier = xs.new_ones(points, points).tril(-1)  # (n, n)
    for _ in range(2):  # The second pass takes out what rounding left of the first.
        along = (vectors @ basis) * earlier  # (B, n, n)
        vectors = vectors - along @ basis.mT  # (B, n, d)
    return vectors
