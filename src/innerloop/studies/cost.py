"""How long a training takes, about: what the time left of `innerloop reproduce` is reckoned by."""

from innerloop.models.lstm import LSTMConfig
from innerloop.models.transformer import TransformerConfig
from innerloop.training.config import RunConfig
from innerloop.training.data import Sizes, sizes_at

RATE = 28e9
"""Operations a second of one core, in trainings of the laptop size."""
BACKWARD = 2.0
"""Operations of a gradient, over those of the prediction."""
_LOOKS = 100
"""Steps of a run that are looked at: sizes grow while it trains."""


def training_minutes(config: RunConfig) -> float:
    """Minutes on one core of a laptop; right to a factor of two, better between runs of a kind."""
    every = max(1, config.steps // _LOOKS)
    looked = range(0, config.steps, every)
    mean = sum(_operations(config, sizes_at(config, step)) for step in looked) / len(looked)
    return mean * config.steps * config.batch * config.accumulate / RATE / 60


def _operations(config: RunConfig, sizes: Sizes) -> float:
    """Operations of one prompt at one step, with its gradient."""
    model = config.model
    if isinstance(model, LSTMConfig):
        return 2 * sizes.points * (1 + BACKWARD) * model.layers * 16 * model.width**2
    if not isinstance(model, TransformerConfig):
        # A linear looped transformer: one product of (n, d) matrices a loop, and much overhead.
        return (1 + BACKWARD) * (sizes.loops or 1) * 1e6
    backbone = model.backbone
    tokens = sizes.points * (2 if model.layout == "pairs" else 1)
    # 12 D^2 weights, each a product and a sum; scores and values over all earlier tokens.
    block = tokens * (24 * backbone.width**2 + 4 * tokens * backbone.width)
    loops, window = sizes.loops or 1, sizes.window or 1
    if sizes.loops is None:
        return block * (1 + BACKWARD) * (backbone.layers + backbone.pre + backbone.post)
    looped = block * backbone.layers * (loops + BACKWARD * window)
    # The post-transformer reads every loop of the window.
    return looped + block * (1 + BACKWARD) * (backbone.pre + backbone.post * window)
