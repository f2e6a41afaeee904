"""A model as JSON: all that `assets/transformer.js` needs to run it.

Shapes: B prompts, n points, d dimensions, T tokens, D width.
"""

import base64
from typing import Any

import torch
from torch import Tensor, nn

from innerloop.circuits.circuit import Circuit
from innerloop.core.errors import NotSupportedError
from innerloop.core.prompt import Prompt
from innerloop.core.tolerances import CONTRACT
from innerloop.models.block import Block
from innerloop.models.transformer import InContextTransformer

MOST_DIMS = 2
"""A curve over one input, a surface over two."""
TRIED_POINTS = 4
"""Three examples and a question: as many as tell whether full attention looks at the question."""


def sheet(
    model: Any, *, name: str, title: str, about: str = "", untrained: bool = False
) -> dict[str, Any]:
    """A model as JSON values: its configuration and its weights, and what a page says of it.

    `name` is what the page calls it inside, `title` what readers see, `about` a sentence on it.
    """
    trained = not untrained and not isinstance(model, Circuit)
    model = _shown(model)
    config, shape = model.config, model.config.backbone
    return {
        "name": name,
        "title": title,
        "about": about,
        "trained": trained,
        "dims": config.dims,
        "looped": model.looped,
        "steps": model.steps,
        "points": model.points,
        "parameters": model.parameter_count,
        "largest_input": config.largest_input,
        "largest_output": config.largest_output,
        "output_offset": model.embedding.output_offset,
        "width": shape.width,
        "attention": shape.attention,
        "mask": shape.mask,
        "divisor": shape.divisor,
        "activation": shape.activation,
        "inject": shape.inject,
        "layers_per_step": len(range(shape.layers)[shape.blocks_of_step(0)]),
        "blocks": {
            part: [_block(block) for block in getattr(model.backbone, part)]
            for part in ("pre", "blocks", "post")
        },
        "tensors": {key: _tensor(value) for key, value in model.state_dict().items()},
    }


def _block(block: Block) -> dict[str, Any]:
    attention = block.attention
    return {"heads": attention.heads, "head_size": attention.head_size, "scale": attention.scale}


def _tensor(values: Tensor) -> dict[str, Any]:
    """A tensor as the bytes of its numbers, little endian."""
    double = values.dtype == torch.float64
    numbers = values.detach().cpu().to(torch.float64 if double else torch.float32).numpy()
    data = base64.b64encode(numbers.astype("<f8" if double else "<f4").tobytes()).decode("ascii")
    kind = "float64" if double else "float32"
    return {"shape": list(values.shape), "type": kind, "data": data}


def _shown(model: Any) -> InContextTransformer:
    """The model, refused unless the page can draw it and its script can run it."""
    if not isinstance(model, InContextTransformer):
        called = model.name if isinstance(model, nn.Module) and hasattr(model, "name") else model
        raise NotSupportedError(
            f"{called} is a {type(model).__name__}, and the page runs in-context transformers and "
            "circuits that are such: give one of those."
        )
    config = model.config
    for setting, given, shown in (
        ("dims", config.dims, range(1, MOST_DIMS + 1)),
        ("outputs", config.outputs, (1,)),
        ("layout", config.layout, ("pairs",)),
        ("head", config.head, ("regression",)),
    ):
        if given not in shown:
            raise NotSupportedError(
                f"{model.name} has {setting} {given!r}, and the page shows models with "
                f"{' or '.join(map(repr, shown))}: give such a model."
            )
    if not all(bool(torch.isfinite(value).all()) for value in model.state_dict().values()):
        raise NotSupportedError(
            f"{model.name} has weights that are not finite: give an earlier checkpoint."
        )
    if config.backbone.mask == "full":
        _require_blind(model)
    return model


@torch.no_grad()
def _require_blind(model: InContextTransformer) -> None:
    """Refuse full attention through which examples see the question.

    The page computes the tokens of the examples once for all questions.
    """
    if model.points == 1:
        return
    points = min(TRIED_POINTS, model.points or TRIED_POINTS)
    generator = torch.Generator().manual_seed(0)
    dims = model.config.dims
    size = min(0.5, model.config.largest_input or 1, model.config.largest_output or 1)
    drawn = size * torch.rand(1, points, dims + 1, generator=generator, dtype=torch.float64)
    both = drawn.expand(2, -1, -1)  # (2, n, d + 1)
    xs, ys = both[..., :dims] / dims**0.5, both[..., dims:]  # (2, n, d), (2, n, 1)
    xs[1, -1] *= -1  # the same examples, and another question
    prompt = Prompt(xs=xs, ys=ys)
    visible = model.embedding.visible(prompt)
    state = model.init(prompt)
    for k in range(model.steps + 1):
        read = model.backbone.end(state, visible)
        for one, other in (state.now.tokens[:, :-1], read.tokens[:, :-1]):  # (T - 1, D) each
            apart = float((one - other).abs().max() / one.abs().max().clamp(min=1))
            if not apart <= CONTRACT[model.dtype]:
                raise NotSupportedError(
                    f"the examples of {model.name} see the question through full attention, and "
                    "the page computes them once for all questions: give a causal model."
                )
        state = model.step(prompt, state, k)
