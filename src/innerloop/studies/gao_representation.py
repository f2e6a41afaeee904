"""The equalities of Gao et al. (2025), theorems 3.1 to 3.3: gradient descent through something."""

from collections.abc import Callable
from dataclasses import replace

import torch
from pydantic import Field, FiniteFloat
from torch import Tensor
from torch.nn.functional import leaky_relu, one_hot

from innerloop.circuits.autoregression import Autoregression
from innerloop.circuits.chain import Chain
from innerloop.circuits.leaky import Matrix
from innerloop.circuits.representation import Representation
from innerloop.circuits.softmax_products import Form
from innerloop.core.learner import Traits
from innerloop.core.prompt import Prompt
from innerloop.core.task import Task
from innerloop.learners import GradientDescent
from innerloop.learners.through import Through
from innerloop.studies.equality import Equality, Limit
from innerloop.tasks import ChainOfThought, RepresentationAR, RepresentationRegression

STEPS = 12


class Within(Task):
    """Another task's prompts, scaled down where they are beyond a bound on |x| or |y|.

    For tasks whose functions are homogeneous, so that scaled prompts are prompts of the same kind:
    x and y by one factor, and, in pairs, y by another.
    """

    task: Task = Field(description="what is bounded")
    largest_input: FiniteFloat = Field(gt=0, description="bound on |x|")
    largest_output: FiniteFloat = Field(gt=0, description="bound on |y|")
    slope: FiniteFloat = Field(
        default=1.0, gt=0, description="y is bounded before a leaky ReLU of this slope; 1: as it is"
    )

    def draw(self, batch: int, points: int, generator: torch.Generator) -> Prompt:
        """The task's prompts, scaled."""
        prompt = self.task.draw(batch, points, generator)
        both = _shrink(prompt.xs, self.largest_input)  # (B, 1, 1)
        if prompt.layout == "stream":
            before = leaky_relu(prompt.ys, 1 / self.slope)  # (B, n, d)
            if prompt.scored is not None:  # Others have not come out of an activation.
                before = torch.where(prompt.scored[..., None], before, prompt.ys)  # (B, n, d)
            both = torch.minimum(both, _shrink(before, self.largest_output))  # (B, 1, 1)
            return replace(prompt, xs=both * prompt.xs, ys=both * prompt.ys, truth={})
        ys = both * prompt.ys  # (B, n, k)
        return replace(
            prompt, xs=both * prompt.xs, ys=_shrink(ys, self.largest_output) * ys, truth={}
        )

    def scale(self) -> Tensor:
        """The task's."""
        return self.task.scale()


def _shrink(values: Tensor, largest: float) -> Tensor:
    """What each prompt's values (B, n, d) are multiplied by to stay within a bound: (B, 1, 1)."""
    longest = values.norm(dim=2).amax(dim=1)  # (B,)
    # A hair less, or rounding might leave the bound.
    return (largest * (1 - 1e-12) / longest).clamp(max=1)[:, None, None]


def features(phi: Callable[[Tensor], Tensor]) -> Callable[[Prompt], Prompt]:
    """Phi(x) in the place of x."""
    return lambda prompt: _with_inputs(prompt, phi)


def history_features(phi: Callable[[Tensor], Tensor], order: int) -> Callable[[Prompt], Prompt]:
    """Phi of the last tokens in the place of x; zeros where there are fewer, as in the task."""

    def transform(prompt: Prompt) -> Prompt:
        windows = [
            torch.nn.functional.pad(prompt.xs, (0, 0, back, 0))[:, : prompt.points]  # (B, n, d)
            for back in range(order - 1, 0, -1)
        ]
        before = torch.cat([prompt.xs[..., :0], *windows], dim=2)  # (B, n, (q - 1) d)
        full = torch.arange(prompt.points, device=before.device) >= order - 1  # (n,)

        def of(asked: Tensor) -> Tensor:
            past = before[:, :, None].expand(*asked.shape[:3], -1)  # (B, n, q, (q - 1) d)
            return phi(torch.cat([past, asked], dim=3)) * full[:, None, None]  # (B, n, q, w)

        return _with_inputs(prompt, of)

    return transform


def levels_apart(layers: int, slope: float) -> Callable[[Prompt], Prompt]:
    """Every level of a chain in coordinates of its own, so that one regression is L of them.

    The outputs are the next states before their activation. The last level has no coordinates.
    """

    def transform(prompt: Prompt) -> Prompt:
        level = torch.arange(prompt.points, device=prompt.xs.device) % (layers + 1)  # (n,)
        own = one_hot(level, layers + 1)[:, :layers].to(prompt.xs)  # (n, L)

        def of(asked: Tensor) -> Tensor:
            return (own[:, None, :, None] * asked[:, :, :, None]).flatten(3)  # (B, n, q, L d)

        before = torch.where(prompt.ys < 0, prompt.ys / slope, prompt.ys)  # (B, n, d)
        return replace(_with_inputs(prompt, of), ys=before)

    return transform


def _with_inputs(prompt: Prompt, of: Callable[[Tensor], Tensor]) -> Prompt:
    """Pairs whose inputs and queries are a function of those of a prompt (B, n, q, d)."""
    asked = None if prompt.queries is None else of(prompt.queries)  # (B, n, q, w)
    return Prompt(xs=of(prompt.xs[:, :, None])[:, :, 0], ys=prompt.ys, queries=asked)


def representation_learner(settings: Representation) -> Through:
    """Gradient descent on the features of a representation."""
    traits = Traits(order_invariant=True, linear_in_y=True)
    return Through(features(_phi(settings)), _descent(settings), traits=traits, label="Phi")


def autoregression_learner(settings: Autoregression) -> Through:
    """Gradient descent on the features of the last tokens."""
    transform = history_features(_phi(settings), settings.order)
    return Through(transform, _descent(settings), traits=Traits(), label="Phi of the history")


def chain_learner(settings: Chain) -> Through:
    """Gradient descent on every level of a chain by itself, then the activation."""
    return Through(
        levels_apart(settings.layers, settings.slope), _descent(settings), traits=Traits(),
        finish=lambda answer: leaky_relu(answer, settings.slope), label="its level",
    )  # fmt: skip


def _descent(settings: Representation | Autoregression | Chain) -> GradientDescent:
    return GradientDescent(settings.steps, step_size=settings.descent().step_size)


def _phi(settings: Representation | Autoregression) -> Callable[[Tensor], Tensor]:
    """The leaky-ReLU network as a function."""

    def phi(inputs: Tensor) -> Tensor:
        hidden = inputs
        for weight in settings.network.weights:
            hidden = leaky_relu(hidden @ weight.to(inputs), settings.slope)  # (.., w)
        return hidden

    return phi


def _matrices(task: RepresentationRegression | RepresentationAR) -> tuple[Matrix, ...]:
    weights = task.representation.weights
    return tuple(tuple(tuple(row) for row in weight.tolist()) for weight in weights)


def _representation(form: Form) -> Equality:
    return Equality(
        circuit="representation",
        settings=lambda d, n: Representation(
            dims=d, points=n, steps=STEPS, outputs=2, form=form,
            representation=_matrices(RepresentationRegression(dims=d, outputs=2, layers=2)),
            largest_input=d**0.5 + 2, largest_output=3 * d**0.5,
        ),
        algorithm=representation_learner,
        task=lambda s: Within(
            task=RepresentationRegression(
                dims=s.dims, outputs=s.outputs, layers=len(s.network.weights), dtype="float64"
            ),
            dims=s.dims, dtype="float64",
            largest_input=s.input_bound, largest_output=s.output_bound,
        ),
        limit=lambda s: Limit(
            theorem="gao2025 theorem 3.1",
            pre=len(s.network.weights) + 1, step=1, post=1, heads=(2, 2, 1),
        ),
    )  # fmt: skip


def _autoregression(form: Form) -> Equality:
    return Equality(
        circuit="autoregression",
        settings=lambda d, n: Autoregression(
            dims=d, points=n, steps=STEPS, order=2, form=form,
            representation=_matrices(RepresentationAR(dims=d, order=2, layers=2)),
            largest_input=1.2 * (d**0.5 + 2),
        ),
        algorithm=autoregression_learner,
        task=lambda s: Within(
            task=RepresentationAR(
                dims=s.dims, order=s.order, layers=len(s.network.weights), dtype="float64"
            ),
            dims=s.dims, dtype="float64",
            largest_input=s.input_bound, largest_output=s.input_bound,
        ),
        limit=lambda s: Limit(
            theorem="gao2025 theorem 3.2",
            pre=len(s.network.weights) + 2, step=1, post=1, heads=(s.order, 2, 1),
        ),
    )  # fmt: skip


def _chain(form: Form) -> Equality:
    return Equality(
        circuit="chain",
        settings=lambda d, n: Chain(
            dims=d, points=n, steps=STEPS, layers=2, form=form,
            largest_input=d**0.5 + 2, largest_output=1.2 * (d**0.5 + 2),
        ),
        algorithm=chain_learner,
        task=lambda s: Within(
            task=ChainOfThought(dims=s.dims, layers=s.layers, slope=s.slope, dtype="float64"),
            dims=s.dims, dtype="float64",
            largest_input=s.input_bound, largest_output=s.output_bound, slope=s.slope,
        ),
        limit=lambda s: Limit(
            theorem="gao2025 theorem 3.3", pre=7, step=1, post=1, heads=(2, 2, 1)
        ),
    )  # fmt: skip


FORMS: tuple[Form, Form] = ("tight", "printed")
ROWS: tuple[Equality, ...] = tuple(
    make(form) for make in (_representation, _autoregression, _chain) for form in FORMS
)
"""Both forms of each theorem; the tight one is the circuits' default."""
