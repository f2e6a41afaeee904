"""Any module, or function of tokens, as a learner in one line: `wrap`.

Shapes, beside those of a prompt: T tokens, c outputs of the module per token.
"""

from collections.abc import Callable, Sequence
from typing import Any, Literal

import torch
from torch import nn

from innerloop.core.arguments import expect_count, expect_device
from innerloop.core.errors import ConfigurationError
from innerloop.core.learner import Learner, Traits
from innerloop.models.foreign import Part, find_layers, find_part
from innerloop.models.tokens import Places, Tokens, token_form
from innerloop.models.wrap_taps import InnerNames, wrapped_taps
from innerloop.models.wrapped import Read, WrappedModule


def wrap(
    module: Callable[..., Any],
    *,
    layers: str | nn.Module | Sequence[str | nn.Module] | None = None,
    head: Part | Sequence[Part] | None = None,
    prompts: Literal["interleave", "concat"] | Tokens = "interleave",
    read: Read | None = None,
    x_tokens: Places | None = None,
    causal: bool | None = None,
    traits: Traits | None = None,
    steps: int | None = None,
    name: str | None = None,
    device: torch.device | str | None = None,
    mlp: str | None = None,
    attention: str | None = None,
    heads: tuple[str, int] | None = None,
) -> WrappedModule:
    """A learner made of any `nn.Module`, or function of tokens, for all that takes learners.

    The module is called with tokens, in the type and on the device of its own parameters, in
    `eval` mode and without gradients; its flags are left as they were. It returns one answer per
    token or per point, (B, T, k) or (B, n, k), without the last axis for k = 1.

    - `prompts`: "interleave" (x_0, y_0, x_1, .. as tokens of their own), "concat" (x and y in one
      token), or a function of a `Prompt` that returns what the module is called with.
    - `layers`: the modules that are its steps: a dotted name such as "transformer.h", a module, or
      a list. A layer that runs in a loop is a step per loop: say how many with `steps`.
    - `head`: what turns hidden states into answers after the last layer: names, modules or
      functions, in order, such as ["transformer.ln_f", "lm_head"].
    - `read`: turns outputs (B, n, c) that are not predictions, such as logits, into (B, n, k).
    - `x_tokens`: where the xs stand among the tokens, as a function of n, if not every (other) one.
    - `causal`: whether one pass answers all prefixes. None: found out at the first prompt; what
      looks ahead is run on every prefix by itself. False: known to look ahead.
    - `traits`: what else it promises, such as `Traits(order_invariant=True)` of a set transformer.
    - `device`: where the module is moved to, as by `module.to(device)`.
    - `mlp`, `attention`, `heads`: what to patch and ablate beside the residual stream: the names of
      these inside every layer, such as mlp="mlp" and attention="attn"; heads by the name of their
      output map and their number, such as heads=("attn.c_proj", 12).
    """
    _require_callable(module)
    form = token_form(prompts, x_tokens)
    if form.shows_answers and causal:
        raise ConfigurationError(
            "prompts='concat' shows y_i in the token that asks for it, so one pass cannot answer "
            "all prefixes: leave causal out."
        )
    named = () if layers is None else find_layers(module, layers)
    if head is not None and not named:
        raise ConfigurationError("head reads hidden states of layers: name these, too.")
    several = [] if head is None else [head] if isinstance(head, str) or callable(head) else head
    if steps is not None:
        expect_count("steps", steps)
        if not named:
            raise ConfigurationError("steps counts how often layers run: name these, too.")
    if device is not None:
        expect_device(device)
    if isinstance(module, nn.Module) and device is not None:
        module.to(device)
    inner = InnerNames(mlp=mlp, attention=attention, heads=heads)
    if not named and inner != InnerNames():
        raise ConfigurationError("mlp, attention and heads are parts of layers: name these, too.")
    if named:
        wrapped_taps(named, len(named), inner)  # a wrong name is refused here, not in the run
    promised = Traits() if traits is None else traits
    kind = getattr(module, "__name__", type(module).__name__)  # of a function, of a module
    return WrappedModule(
        module, layers=named, head=tuple(find_part(module, part) for part in several), form=form,
        read=read, causal=False if form.shows_answers or not promised.causal else causal,
        traits=promised, steps=len(named) if steps is None else steps,
        name=kind if name is None else name,
        device=None if device is None else torch.device(device), inner=inner,
    )  # fmt: skip


def _require_callable(module: Any) -> None:
    if isinstance(module, Learner):
        raise ConfigurationError(f"{module.name} is a learner already: use it as it is.")
    if isinstance(module, type):
        raise ConfigurationError(
            f"{module.__name__} is a class, expected a module: make one first, {module.__name__}()."
        )
    if not callable(module):
        raise ConfigurationError(
            f"il.wrap was given a {type(module).__name__}, expected an nn.Module or a function of "
            "tokens."
        )
