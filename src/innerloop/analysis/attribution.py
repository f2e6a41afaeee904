"""Direct attribution: what each component adds to a prediction, straight through the readout.

A prediction is read from a sum: what was embedded, and what every head and every MLP has added to
the residual stream. With the scale of each norm on the way frozen at what it was, the readout is
linear, and the prediction is the sum of one number per component. What a component does to
later ones is not counted: that is what ablation and patching are for.

Shapes: P prompts, T tokens, h heads, s head size, D width.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from innerloop.analysis.measured import Measured
from innerloop.analysis.places import cut, row_names, rows_at_once, steps_of
from innerloop.core.chunks import in_parts
from innerloop.core.components import Place
from innerloop.core.edited import run_edited
from innerloop.core.errors import ConfigurationError, NotSupportedError
from innerloop.core.expects import expect_learner, expect_prompt
from innerloop.core.learner import Learner
from innerloop.core.prompt import Prompt


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Attribution:
    """The parts of one prediction per prompt, which add up to it."""

    parts: Mapping[str, Measured]
    """input (P,), head (P, step, head) and mlp (P, step), where the model has them; rest (P,): what
    biases and positions add."""
    predictions: Tensor
    """(P,) in float64."""

    @property
    def shares(self) -> dict[str, Measured]:
        """The parts as shares of the predictions, adding up to 1 in the mean over prompts.

        Each part times the prediction, over the mean squared prediction: a part that is as
        often with the prediction as against it has no share.
        """
        size = self.predictions.square().mean()  # ()
        return {
            name: replace(
                part, values=part.values * _beside(self.predictions, part.values) / size
            )
            for name, part in self.parts.items()
        }  # fmt: skip


def direct_attribution(
    learner: Learner[Any],
    prompt: Prompt,
    *,
    output: int = 0,
    prefix: int = -1,
    steps: int | None = None,
) -> Attribution:
    """What the input, each head and each MLP add to the prediction after `prefix` examples.

    It takes one run forward and one back: every component's value is held fixed, so that the
    gradient of the prediction goes through the residual stream alone, and norms pass it on at a
    frozen scale. Of a model with several outputs, one is taken. Predictions are taken to be what
    the readout gives, as those of regression are: of classes, parts do not add up to them.
    """
    expect_learner(learner)
    expect_prompt(prompt)
    prompt, _ = cut(prompt, prefix)
    if not 0 <= output < prompt.outputs:
        raise ConfigurationError(f"output is {output}, the prompt has {prompt.outputs} from 0 on.")
    if not learner.components.complete:
        raise NotSupportedError(
            f"{learner.name} has no residual stream that heads and MLPs alone add to, or hooks do "
            "not reach all of them: there are no direct parts. Ablate or patch instead."
        )
    total = steps_of(learner, steps)
    places = [
        place
        for kind in ("residual", "head", "mlp")
        for place in learner.components.places(kind, total)
        if kind != "residual" or place.layer < 0
    ]
    parts = [
        _attribute(learner, part, places, output, steps)
        for _, part in in_parts(prompt, rows_at_once(learner, prompt, places))
    ]
    predictions = torch.cat([one for one, _ in parts])  # (P,)
    each = {place: torch.cat([found[place] for _, found in parts]) for place in places}  # (P[, h])
    measures = {
        name: _measured(
            [place for place in places if place.kind == kind], each, learner.name, total
        )
        for kind, name in (("residual", "input"), ("head", "head"), ("mlp", "mlp"))
        if any(place.kind == kind for place in places)
    }  # fmt: skip
    added = torch.stack([one.flatten(1).sum(dim=1) for one in each.values()]).sum(dim=0)  # (P,)
    measures["rest"] = Measured(values=predictions - added, label=learner.name)
    return Attribution(parts=measures, predictions=predictions)


def _attribute(
    learner: Learner[Any], prompt: Prompt, places: Sequence[Place], output: int, steps: int | None
) -> tuple[Tensor, dict[Place, Tensor]]:
    """Predictions (P,), and what each place adds to them: (P, h) for heads, (P, 1) else."""
    fixed: dict[Place, Tensor] = {}

    def fix(place: Place, value: Tensor) -> Tensor | None:
        if place not in places:
            return None
        fixed[place] = value.detach().requires_grad_()
        return fixed[place]

    with torch.enable_grad(), _frozen(learner.components.norms):
        answers = run_edited(learner, prompt, fix, kinds=("residual", "head", "mlp"), steps=steps)[
            :, -1, output
        ]  # (P,)
        if not answers.requires_grad:
            raise NotSupportedError(
                f"{learner.name} answers without gradients, from which attributions are computed."
            )
        found = torch.autograd.grad(
            answers.sum(), [fixed[place] for place in places], allow_unused=True
        )  # fmt: skip
    shares: dict[Place, Tensor] = {}
    for place, gradient in zip(places, found, strict=True):
        value = fixed[place].detach().double()  # (P, T, h, s) or (P, T, D)
        moved = torch.zeros_like(value) if gradient is None else value * gradient.double()
        shares[place] = moved.sum(dim=(1, 3)) if value.ndim == 4 else moved.sum(dim=(1, 2))[:, None]
    return answers.detach().double(), shares


@contextmanager
def _frozen(norms: Sequence[nn.Module]) -> Iterator[None]:
    """While this is open, gradients pass norms as if their scale did not depend on the input."""

    def freeze(module: Any, arguments: tuple[Tensor, ...], output: Tensor) -> Tensor:
        inputs = arguments[0]  # (.., D)
        moved = inputs - inputs.detach()  # zeros (.., D), with the gradient of the inputs
        if isinstance(module, nn.LayerNorm):
            moved = moved - moved.mean(dim=-1, keepdim=True)  # (.., D)
            size = inputs.detach().var(dim=-1, keepdim=True, correction=0)  # (.., 1)
        else:
            size = inputs.detach().square().mean(dim=-1, keepdim=True)  # (.., 1)
        small = torch.finfo(size.dtype).eps if module.eps is None else module.eps
        scale = (size + small).rsqrt()  # (.., 1)
        passed = moved * scale  # (.., D)
        return output.detach() + (passed if module.weight is None else passed * module.weight)

    with ExitStack() as stack:
        for norm in norms:
            if isinstance(norm, nn.Identity):
                continue
            if not isinstance(norm, nn.LayerNorm | nn.RMSNorm):
                raise NotSupportedError(
                    f"the scale of a {type(norm).__name__} cannot be frozen: attributions know "
                    "LayerNorm and RMSNorm."
                )
            handle = norm.register_forward_hook(freeze)
            stack.callback(handle.remove)
        yield


def _measured(
    places: Sequence[Place], each: Mapping[Place, Tensor], label: str, steps: int
) -> Measured:
    """The parts of one kind: (P,) of the input, (P, step, head) of heads, (P, step) of MLPs."""
    if places[0].kind == "residual":
        return Measured(values=each[places[0]][:, 0], label=label)
    ticks = {"step": row_names(places, steps)}
    if places[0].kind == "mlp":
        values = torch.cat([each[place] for place in places], dim=1)  # (P, S)
        return Measured(values=values, axes=("step",), ticks=ticks, label=label)
    most = max(place.heads for place in places)
    values = torch.full((len(each[places[0]]), len(places), most), torch.nan, dtype=torch.float64)
    for row, place in enumerate(places):
        values[:, row, : place.heads] = each[place]  # (P, h)
    missing = values.isnan()  # (P, S, h)
    return Measured(
        values=values, axes=("step", "head"), ticks=ticks, label=label,
        counted=~missing if bool(missing.any()) else None,
    )  # fmt: skip


def _beside(predictions: Tensor, values: Tensor) -> Tensor:
    """Predictions (P,) in the shape of values (P, ..)."""
    return predictions.reshape(-1, *(1 for _ in values.shape[1:]))
