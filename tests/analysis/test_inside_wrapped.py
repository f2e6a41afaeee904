"""Looking inside modules that the library did not write: what hooks reach by names of parts."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from innerloop.analysis import ablate, attention_patterns, direct_attribution, fit_readouts, patch
from innerloop.analysis.places import Component
from innerloop.core.errors import ConfigurationError, NotSupportedError
from innerloop.core.prompt import Prompt
from innerloop.models import wrap
from innerloop.models.backbone import Loop, Stack
from innerloop.models.block import Block
from innerloop.models.hidden import Hidden, Visible
from innerloop.models.transformer import InContextTransformer, TransformerConfig
from innerloop.tasks.linear import LinearRegression

DIMS, POINTS = 2, 4
TASK = LinearRegression(dims=DIMS, dtype="float64")
NAMES: dict[str, Any] = {"mlp": "block.mlp", "heads": ("block.attention.outward", 2)}


class Layer(nn.Module):
    """A block as others write them: tokens to tokens, in a tuple."""

    def __init__(self, block: Block) -> None:
        super().__init__()
        self.block = block

    def forward(self, tokens: Tensor) -> tuple[Tensor, None]:
        return self.block(Hidden(tokens), Visible()).tokens, None


class Foreign(nn.Module):
    """The weights of one of our models, run by a module that knows nothing of the library."""

    def __init__(self, model: InContextTransformer, loops: int = 1) -> None:
        super().__init__()
        self.inward, self.readout = model.embedding.inward, model.readout
        backbone = model.backbone
        self.positions, self.norm = backbone.positions, backbone.final_norm
        self.layers = nn.ModuleList(Layer(block) for block in backbone.blocks)  # pyright: ignore[reportArgumentType]
        self.loops = loops

    def forward(self, tokens: Tensor) -> Tensor:  # (B, T, d)
        assert self.positions is not None
        places = self.positions[: tokens.shape[1]]  # (T, D)
        hidden = self.inward(tokens)  # (B, T, D)
        hidden = hidden + places if self.loops == 1 else hidden
        for _ in range(self.loops):
            for layer in self.layers:
                hidden, _ = layer(hidden if self.loops == 1 else hidden + places)
        return self.readout(self.norm(hidden))  # (B, T, 1)


def transformer(backbone: Stack | Loop) -> InContextTransformer:
    config = TransformerConfig(dims=DIMS, points=POINTS, backbone=backbone)
    return InContextTransformer(config, generator=torch.Generator().manual_seed(3)).double()


def draw(seed: int = 0) -> Prompt:
    return TASK.sample(5, POINTS, generator=torch.Generator().manual_seed(seed))


OWN = {
    "stack": (transformer(Stack(layers=3, width=8, heads=2, hidden=12)), 1),
    # Positions enter at every loop, as in ours, and the norm is outside.
    "loop": (
        transformer(Loop(loops=3, inject="none", norm_inside=False, width=8, heads=2, hidden=12)),
        3,
    ),
}


@pytest.mark.parametrize("kind", OWN)
@pytest.mark.parametrize("component", ["residual", "head", "attention", "mlp"])
def test_a_wrapped_module_is_patched_and_ablated_as_our_own_model_is(
    kind: str, component: Component
) -> None:
    model, loops = OWN[kind]
    learner = wrap(Foreign(model, loops), layers="layers", steps=3, **NAMES)
    clean, corrupted = draw(), draw(1)
    ours, theirs = (patch(one, clean, corrupted, component=component) for one in (model, learner))
    assert ours.grid.ticks == theirs.grid.ticks
    torch.testing.assert_close(theirs.predictions, ours.predictions)
    ours, theirs = (ablate(one, clean, TASK, component=component) for one in (model, learner))
    torch.testing.assert_close(theirs.errors.values, ours.errors.values)
    torch.testing.assert_close(theirs.intact.values, ours.intact.values)


def test_fitted_readouts_are_patched_through() -> None:
    """Without a head, hidden states are read by other maps: hooks come before these read."""
    model = OWN["stack"][0]
    learner = wrap(Foreign(model), layers="layers")
    found = patch(
        fit_readouts(learner, draw(2)), draw(), draw(1), component="residual", tokens="all"
    )
    torch.testing.assert_close(found.predictions[:, -1], found.clean)
    assert not torch.allclose(found.clean, found.corrupted)


class Weighing(nn.Module):
    """Attention that returns its weights, as transformers do when they are asked for them."""

    def __init__(self, weights: bool) -> None:
        super().__init__()
        self.inner = nn.MultiheadAttention(8, 2, batch_first=True)
        self.weights = weights

    def forward(self, tokens: Tensor) -> Any:
        later = torch.ones(tokens.shape[1], tokens.shape[1], dtype=torch.bool).triu(1)
        return self.inner(
            tokens, tokens, tokens, attn_mask=later, need_weights=self.weights,
            average_attn_weights=False,
        )  # fmt: skip


class Adding(nn.Module):
    """A layer that adds what its attention says."""

    def __init__(self, weights: bool) -> None:
        super().__init__()
        self.attention = Weighing(weights)

    def forward(self, tokens: Tensor) -> Tensor:
        return tokens + self.attention(tokens)[0]


class Small(nn.Module):
    """One layer of attention alone, by torch's own module."""

    def __init__(self, weights: bool) -> None:
        super().__init__()
        self.inward = nn.Linear(DIMS, 8)
        self.layer = Adding(weights)
        self.outward = nn.Linear(8, 1)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.outward(self.layer(self.inward(tokens)))


def small(weights: bool = True) -> Small:
    torch.manual_seed(0)
    return Small(weights).double()


def test_patterns_are_the_weights_that_an_attention_returns() -> None:
    found = attention_patterns(wrap(small(), layers="layer", attention="attention"), draw())
    assert found.values.shape == (5, 1, 2, 7, 7)
    torch.testing.assert_close(found.values.sum(-1), torch.ones(5, 1, 2, 7, dtype=torch.float64))
    assert torch.equal(found.values, found.values.tril())
    silent = wrap(small(weights=False), layers="layer", attention="attention")
    with pytest.raises(NotSupportedError, match="need_weights=True"):
        attention_patterns(silent, draw())


def test_attention_without_its_heads_is_one_component() -> None:
    learner = wrap(small(), layers="layer", attention="attention")
    found = patch(learner, draw(), draw(1))
    assert found.grid.shape == (1, 1)
    zero = ablate(learner, draw(), TASK, kind="zero").errors.values[:, 0, 0]
    module = learner.module
    assert isinstance(module, Small)
    with torch.no_grad():
        plain = module.outward(module.inward(draw().xs[:, -1]))[:, 0]  # (B,)
    expected = (plain - draw().ys[:, -1, 0]).square() / TASK.scale_at(POINTS)[-1]
    torch.testing.assert_close(zero, expected)


def test_what_is_not_known_or_never_called_is_one_sentence() -> None:
    model = Foreign(OWN["stack"][0])
    with pytest.raises(NotSupportedError, match="without layers"):
        patch(wrap(model), draw(), draw(1))
    with pytest.raises(NotSupportedError, match="reach no mlp"):
        ablate(wrap(model, layers="layers"), draw(), TASK, component="mlp")
    with pytest.raises(ConfigurationError, match="mpl"):
        wrap(model, layers="layers", mlp="block.mpl")
    with pytest.raises(ConfigurationError, match="parts of layers"):
        wrap(model, mlp="block.mlp")
    with pytest.raises(NotSupportedError, match="Ablate or patch"):
        direct_attribution(wrap(model, layers="layers", **NAMES), draw())
    # torch's attention reads the weights of its output map, and never calls it.
    fused = wrap(small(), layers="layer", heads=("attention.inner.out_proj", 2))
    with pytest.raises(NotSupportedError, match="never reached"):
        patch(fused, draw(), draw(1))


def test_a_module_that_looks_ahead_is_hooked_once_it_says_so() -> None:
    class Mean(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(DIMS, DIMS)

        def forward(self, tokens: Tensor) -> Tensor:
            return self.layer(tokens).mean(dim=(1, 2))[:, None].expand(-1, tokens.shape[1])

    module = Mean().double()
    with pytest.raises(NotSupportedError, match="causal=False"):
        patch(wrap(module, layers="layer"), draw(), draw(1), component="residual")
    learner = wrap(module, layers="layer", causal=False)
    found = patch(learner, draw(), draw(1), component="residual", tokens="all")
    torch.testing.assert_close(found.predictions[:, -1], found.clean)
