"""Random functions of the rows of a table: linear, additive, trees, networks, smooth.

Shapes: B tables, r rows, f features. Every kind is computed for all tables, and each table keeps
one of them, or the sum of two.
"""

import torch
from torch import Tensor

from innerloop.tasks.draws import integers, normal, uniform

_HIDDEN = 32
_WAVES = 48
_TREES, _DEPTH = 8, 4


def standardised(values: Tensor) -> Tensor:
    """Columns (B, r, f) of mean 0 and deviation 1 within each table; 0 where nothing differs."""
    centred = values - values.mean(dim=1, keepdim=True)  # (B, r, f)
    deviation = centred.square().mean(dim=1, keepdim=True).sqrt()  # (B, 1, f)
    return torch.where(deviation > 1e-9, centred / deviation.clamp(min=1e-9), 0.0)


def random_function(inputs: Tensor, generator: torch.Generator) -> Tensor:
    """Values (B, r), of mean 0 and deviation 1, of one random function per table."""
    batch, _, features = inputs.shape
    share = 0.5 ** integers(generator, -1, 3, batch, 1).clamp(min=0)  # (B, 1) of all features
    matters = uniform(generator, batch, features) < share  # (B, f)
    matters[:, 0] = True
    kinds = torch.stack(
        [kind(inputs, matters, generator) for kind in (linear, additive, trees, network, smooth)],
        dim=2,
    )  # (B, r, 5)
    kinds = standardised(kinds)
    first, second = integers(generator, 0, 5, 2, batch)  # (B,) each
    angle = uniform(generator, batch, 1) * torch.pi / 2  # (B, 1)
    alone = uniform(generator, batch, 1) < 0.5  # (B, 1)
    angle = torch.where(alone, 0.0, angle)
    table = torch.arange(batch, device=inputs.device)
    values = angle.cos() * kinds[table, :, first] + angle.sin() * kinds[table, :, second]  # (B, r)
    skewed = uniform(generator, batch, 1)  # (B, 1)
    values = torch.where(skewed < 0.12, (0.8 * values).exp(), values)
    values = torch.where(skewed > 0.92, values.abs().pow(0.6) * values.sign(), values)
    return standardised(values[..., None])[..., 0]


def linear(inputs: Tensor, matters: Tensor, generator: torch.Generator) -> Tensor:
    """A weighted sum of the features that matter: (B, r)."""
    weights = normal(generator, *matters.shape) * matters  # (B, f)
    return (inputs * weights[:, None]).sum(dim=2)


def additive(inputs: Tensor, matters: Tensor, generator: torch.Generator) -> Tensor:
    """A sum of functions of single features, and sometimes a product of two: (B, r)."""
    batch, _, features = inputs.shape
    kind, place, pace = (uniform(generator, batch, 1, features) for _ in range(3))  # (B, 1, f)
    bent = torch.where(kind < 0.25, inputs, inputs.square())  # (B, r, f)
    wave = torch.sin((0.5 + 2.5 * pace) * inputs + 6.3 * place)  # (B, r, f)
    step = torch.tanh(6 * (inputs - 2 * place + 1))  # (B, r, f)
    parts = torch.where(kind < 0.5, bent, torch.where(kind < 0.75, wave, step))  # (B, r, f)
    first, second = integers(generator, 0, features, 2, batch)  # (B,) each
    table = torch.arange(batch, device=inputs.device)
    product = inputs[table, :, first] * inputs[table, :, second]  # (B, r)
    joined = (uniform(generator, batch, 1) < 0.5) * normal(generator, batch, 1)  # (B, 1)
    return linear(standardised(parts), matters, generator) + joined * product


def trees(inputs: Tensor, matters: Tensor, generator: torch.Generator) -> Tensor:
    """One to eight trees of depth one to four, split at values of the table: (B, r)."""
    batch, rows, _ = inputs.shape
    nodes, leaves = 2**_DEPTH - 1, 2**_DEPTH
    # The features that matter, each as likely as the others.
    column = torch.multinomial(
        matters.double(), _TREES * nodes, replacement=True, generator=generator
    )  # (B, trees nodes)
    row = integers(generator, 0, rows, batch, _TREES * nodes)  # (B, trees nodes)
    table = torch.arange(batch, device=inputs.device)[:, None]  # (B, 1)
    every = torch.arange(rows, device=inputs.device)[:, None]  # (r, 1)
    limits = inputs[table, row, column]  # (B, trees nodes)
    right = inputs[table[..., None], every, column[:, None]] > limits[:, None]
    right = right.unflatten(2, (_TREES, nodes))  # (B, r, trees, nodes)
    depth = integers(generator, 1, _DEPTH + 1, batch, 1, 1)  # (B, 1, 1)
    node = column.new_zeros(batch, rows, _TREES)  # (B, r, trees)
    for level in range(_DEPTH):
        turned = right.gather(3, node[..., None])[..., 0] & (level < depth)  # (B, r, trees)
        node = 2 * node + 1 + turned
    values = normal(generator, batch, _TREES, leaves)  # (B, trees, leaves)
    number = integers(generator, 1, _TREES + 1, batch, 1)  # (B, 1)
    values = values * (torch.arange(_TREES, device=inputs.device) < number)[..., None]
    leaf = (node - nodes).transpose(1, 2)  # (B, trees, r)
    return values.gather(2, leaf).sum(dim=1)


def network(inputs: Tensor, matters: Tensor, generator: torch.Generator) -> Tensor:
    """One or two hidden layers, of tanh, ReLU or sine units: (B, r)."""
    batch, _, features = inputs.shape
    gain = 0.5 + 2 * uniform(generator, batch, 1, 1)  # (B, 1, 1)
    first = normal(generator, batch, features, _HIDDEN) * matters[..., None]  # (B, f, h)
    first = gain * first / matters.sum(dim=1)[:, None, None].sqrt()
    units = inputs @ first + normal(generator, batch, 1, _HIDDEN)  # (B, r, h)
    kind = uniform(generator, batch, 1, 1)  # (B, 1, 1)
    units = _activated(units, kind)
    second = normal(generator, batch, _HIDDEN, _HIDDEN) / _HIDDEN**0.5  # (B, h, h)
    deep = uniform(generator, batch, 1, 1) < 0.4  # (B, 1, 1)
    units = torch.where(deep, _activated(1.5 * units @ second, kind), units)  # (B, r, h)
    return (units @ normal(generator, batch, _HIDDEN, 1))[..., 0]


def smooth(inputs: Tensor, matters: Tensor, generator: torch.Generator) -> Tensor:
    """A draw of a Gaussian process, by random waves; each feature has its own length: (B, r)."""
    batch, _, features = inputs.shape
    reach = 1.2 * matters.sum(dim=1).double().sqrt()[:, None]  # (B, 1)
    lengths = reach * (0.6 * normal(generator, batch, features)).exp()  # (B, f)
    pace = normal(generator, batch, features, _WAVES) * (matters / lengths)[..., None]  # (B, f, w)
    waves = torch.cos(inputs @ pace + 6.3 * uniform(generator, batch, 1, _WAVES))  # (B, r, w)
    return (waves @ normal(generator, batch, _WAVES, 1))[..., 0]


def _activated(units: Tensor, kind: Tensor) -> Tensor:
    """Units (B, r, h) through the activation that each table has drawn (B, 1, 1)."""
    bent = torch.where(kind < 0.7, units.relu(), units.sin())  # (B, r, h)
    return torch.where(kind < 0.4, units.tanh(), bent)
