"""From a blueprint to weights: the passes, in order.

`build` is the whole of it: validate, lay the slots out, choose the shape, write the tensors.

A norm is passed by mirroring: beside every slot with value v stands one with -v, and one slot holds
a large number N. The mean is then zero, the deviation N sqrt(2 / D) up to second order in v / N,
and a slot is read as half the difference of itself and its mirror, so that a mean that rounding has
moved cancels.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from innerloop.circuits.blueprint import Blueprint
from innerloop.circuits.parts import Layer
from innerloop.circuits.residual import Affine, Slot, join
from innerloop.circuits.validate import validate
from innerloop.models.backbone import Loop, Stack
from innerloop.models.block import Block
from innerloop.models.transformer import InContextTransformer, TransformerConfig


@dataclass(frozen=True, slots=True)
class Lane:
    """Where the slots lie in the residual stream, and how they are read and written."""

    offsets: Mapping[str, int]
    width: int
    """D."""
    mirror: int
    """From a slot to its mirror; 0: there are none."""
    factor: float
    """What a normed slot is multiplied by to read its value."""

    def read(self, affine: Affine, *, normed: bool) -> Tensor:
        """The matrix (rows, D) of an affine function of the stream, or of the normed stream."""
        matrix = torch.zeros(affine.rows, self.width, dtype=torch.float64)  # (rows, D)
        for name, own in affine.terms.items():
            start = self.offsets[name]
            read = self.factor / 2 * own if normed else own  # (rows, size)
            matrix[:, start : start + own.shape[1]] += read
            if normed:
                start += self.mirror
                matrix[:, start : start + own.shape[1]] -= read
        return matrix

    def write(self, slot: Slot, values: Tensor, to: Tensor) -> None:
        """Add values (size, ..) to the rows of a slot in a tensor (D, ..), and to its mirror."""
        start = self.offsets[slot.name]
        to[start : start + slot.size] += values
        if self.mirror:
            start += self.mirror
            to[start : start + slot.size] -= values


def build(blueprint: Blueprint) -> tuple[TransformerConfig, dict[str, Tensor]]:
    """The configuration and the weights of a circuit, float64."""
    validate(blueprint)
    lane = lay_out(blueprint)
    config = _configure(blueprint, lane)
    model = InContextTransformer(config).double()
    with torch.no_grad():
        _clear(model)
        _write_tokens(model, blueprint, lane)
        _write_layers(model, blueprint, lane)
        model.readout.weight.copy_(lane.read(blueprint.answer, normed=False))
        model.readout.bias.copy_(blueprint.answer.constant)
    return config, model.state_dict()


def lay_out(blueprint: Blueprint) -> Lane:
    """Slots one behind the other; mirrors behind all of them, where there is a norm."""
    width = blueprint.residual.width
    offsets = blueprint.residual.offsets()
    if blueprint.norm == "none":
        return Lane(offsets, width, 0, 1.0)
    # mean 0, variance (2 N^2 + 2 |v|^2) / D, with D = 2 width
    return Lane(offsets, 2 * width, width, blueprint.norm_scale / width**0.5)


def _configure(blueprint: Blueprint, lane: Lane) -> TransformerConfig:
    sizes = tuple(layer.size for _, layer in blueprint.all_layers())
    common = {
        "width": lane.width,
        "heads": max(size.heads for size in sizes),
        "head_size": max(size.head_size for size in sizes),
        "hidden": max(size.hidden for size in sizes),
        "sizes": sizes,
        "attention": blueprint.attention,
        "mask": blueprint.mask,
        "score_scale": 1.0,
        "divisor": blueprint.divisor,
        "activation": blueprint.activation,
        "norm": blueprint.norm,
        "layers": len(blueprint.body),
        "pre": len(blueprint.pre),
        "post": len(blueprint.post),
        "final_norm": False,
    }
    if blueprint.looped:
        shape = Loop.model_validate({**common, "loops": max(1, blueprint.steps), "inject": "none"})
    else:
        each = len(blueprint.body) // blueprint.steps
        shape = Stack.model_validate({**common, "layers_per_step": each})
    return TransformerConfig(
        label=blueprint.name,
        dims=blueprint.dims,
        outputs=blueprint.outputs,
        points=blueprint.points,
        layout=blueprint.layout,
        output_place="own",
        start_token=blueprint.tokens.start,
        positions=bool(blueprint.tokens.positions),
        largest_input=blueprint.largest_input,
        largest_output=blueprint.largest_output,
        backbone=shape,
    )


def _clear(model: InContextTransformer) -> None:
    """All weights 0, but for the factors of norms, which stay 1."""
    for module in model.modules():
        if not isinstance(module, nn.LayerNorm):
            for parameter in module.parameters(recurse=False):
                parameter.zero_()


def _write_tokens(model: InContextTransformer, blueprint: Blueprint, lane: Lane) -> None:
    tokens, embedding = blueprint.tokens, model.embedding
    weight = embedding.inward.weight  # (D, d + k), or (D, d) of a stream
    for slot, matrix in tokens.inputs.items():
        lane.write(slot, matrix, weight[:, : blueprint.dims])
    for slot, matrix in tokens.outputs.items():
        lane.write(slot, matrix, weight[:, embedding.output_offset :])
    constants = dict(tokens.constants)
    if blueprint.norm_slot is not None:
        constants[blueprint.norm_slot] = torch.tensor([blueprint.norm_scale], dtype=torch.float64)
    for slot, values in constants.items():
        lane.write(slot, values, embedding.inward.bias)
        if embedding.start is not None:
            lane.write(slot, values, embedding.start)
    positions = model.backbone.positions  # (T, D)
    for slot, values in tokens.positions.items():
        assert positions is not None
        lane.write(slot, values.T, positions.T)


def _write_layers(model: InContextTransformer, blueprint: Blueprint, lane: Lane) -> None:
    for block, (_, layer) in zip(model.compiled_parts(), blueprint.all_layers(), strict=True):
        assert isinstance(block, Block)
        _write_heads(block, layer, lane, normed=blueprint.norm == "pre")
        _write_neurons(block, layer, lane, normed=blueprint.norm != "none")


def _write_heads(block: Block, layer: Layer, lane: Lane, *, normed: bool) -> None:
    attention = block.attention
    size, all_heads = attention.head_size, attention.heads * attention.head_size
    inward, outward = attention.inward, attention.outward  # (3 h s, D), (D, h s)
    for number, head in enumerate(layer.heads):
        for part, affine in enumerate((head.query, head.key, join(*head.values.values()))):
            start = part * all_heads + number * size
            inward.weight[start : start + affine.rows] = lane.read(affine, normed=normed)
            inward.bias[start : start + affine.rows] = affine.constant
        column = number * size
        for slot in head.values:
            eye = torch.eye(slot.size, dtype=torch.float64)  # (size, size)
            lane.write(slot, eye, outward.weight[:, column : column + slot.size])
            column += slot.size


def _write_neurons(block: Block, layer: Layer, lane: Lane, *, normed: bool) -> None:
    if block.mlp is None:
        return
    start = 0
    up, down = block.mlp.up, block.mlp.down  # (H, D), (D, H)
    for part in layer.neurons:
        units = part.inputs.rows
        up.weight[start : start + units] = lane.read(part.inputs, normed=normed)
        up.bias[start : start + units] = part.inputs.constant
        for slot, matrix in part.outputs.items():
            lane.write(slot, matrix, down.weight[:, start : start + units])
        for slot, values in part.constants.items():
            lane.write(slot, values, down.bias)
        start += units
