"""Prompts as the tokens of foreign models: interleaved, concatenated, or by a user's function.

Shapes, beside those of a prompt: T tokens.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import pad

from innerloop.core.errors import ConfigurationError, PromptError, unknown
from innerloop.core.prompt import Prompt

Tokens = Callable[[Prompt], Tensor | tuple[Tensor, ...]]
"""What a module is called with: one tensor, or one per argument."""
Places = Callable[[int], Sequence[int]]
"""Where the x of each of n points stands among the tokens."""


def interleave(prompt: Prompt) -> Tensor:
    """x_0, y_0, x_1, .. x_{n-1} in turn, padded with zeros to the wider: (B, 2n - 1, max(d, k)).

    As Garg et al. (2022) have it. The last y is no token. A stream is its xs: (B, n, d).
    """
    if prompt.layout == "stream":
        return prompt.xs
    width = max(prompt.dims, prompt.outputs)
    xs, ys = (pad(each, (0, width - each.shape[2])) for each in (prompt.xs, prompt.ys))
    return torch.stack([xs, ys], dim=2).flatten(1, 2)[:, :-1]  # (B, 2n - 1, width)


def concat(prompt: Prompt) -> Tensor:
    """x_i and y_i in one token, with 0 for the y that is asked for: (B, n, d + k)."""
    if prompt.layout == "stream":
        raise PromptError("a stream has no ys beside its xs: wrap with prompts='interleave'.")
    ys = prompt.ys.clone()  # (B, n, k)
    ys[:, -1] = 0
    return torch.cat([prompt.xs, ys], dim=2)


@dataclass(frozen=True, slots=True)
class TokenForm:
    """How prompts become tokens, and where the xs stand among them."""

    make: Tokens
    shows_answers: bool = False
    """Whether the token of x_i shows y_i: then each prefix must be a prompt of its own."""
    x_tokens: Places | None = None
    """As the user says; None: every token, or every other, by how many there are."""

    def arguments(self, prompt: Prompt) -> tuple[Tensor, ...]:
        """What the module is called with."""
        made = self.make(prompt)
        several = made if isinstance(made, tuple) else (made,)
        for each in several:
            if not isinstance(each, Tensor):
                raise PromptError(
                    f"prompts= returned a {type(each).__name__}, expected a tensor of tokens "
                    "(B, T, width), or a tuple of tensors, one per argument of the module."
                )
        return several

    def count(self, prompt: Prompt) -> int:
        """T, the tokens that the module is given: the second axis of its first argument."""
        first = self.arguments(prompt.select(slice(0, 1)))[0]  # (1, T, ..)
        return first.shape[1] if first.ndim > 1 else 0

    def places(self, prompt: Prompt, tokens: int | None = None) -> range | list[int]:
        """Where the n xs stand among so many tokens; by default those that the module is given."""
        points = prompt.points
        if self.x_tokens is not None:
            places = list(self.x_tokens(points))
            # The module may have added tokens of its own, so without a number there is no last.
            beyond = max(places, default=0) + 1 if tokens is None else tokens
            if len(places) == points and 0 <= min(places) <= max(places) < beyond:
                return places
            raise ConfigurationError(
                f"x_tokens gives {len(places)} places, {places[:1]} to {places[-1:]}, expected "
                f"one for each of {points} points, among {beyond} tokens."
            )
        tokens = self.count(prompt) if tokens is None else tokens
        if tokens == points:
            return range(points)
        if tokens in (2 * points - 1, 2 * points):
            return range(0, 2 * points - 1, 2)
        raise ConfigurationError(
            f"there are {tokens} tokens for {points} points: say which of them are the xs with "
            "x_tokens=, a function of the number of points."
        )


FORMS: Mapping[str, TokenForm] = {
    "interleave": TokenForm(interleave),
    "concat": TokenForm(concat, shows_answers=True),
}
"""The forms that have a name."""


def token_form(
    prompts: Literal["interleave", "concat"] | Tokens, x_tokens: Places | None
) -> TokenForm:
    """The form that was named, or that of a function."""
    if isinstance(prompts, str) and prompts not in FORMS:
        raise ConfigurationError(unknown("form of prompts", prompts, FORMS))
    if not isinstance(prompts, str) and not callable(prompts):
        raise ConfigurationError(
            f"prompts is a {type(prompts).__name__}, expected 'interleave', 'concat' or a function "
            "of a prompt that returns its tokens."
        )
    if x_tokens is not None and not callable(x_tokens):
        raise ConfigurationError(
            f"x_tokens is a {type(x_tokens).__name__}, expected a function of the number of points."
        )
    form = FORMS[prompts] if isinstance(prompts, str) else TokenForm(prompts)
    return TokenForm(form.make, form.shows_answers, x_tokens)
