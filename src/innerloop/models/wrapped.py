"""The learner that `wrap` makes of a module: one run of it, and what its layers leave.

Shapes, beside those of a prompt: T tokens, D width, c outputs of the module per token.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from innerloop.core.chunks import rows_within_budget
from innerloop.core.components import Components, Tap
from innerloop.core.errors import ConfigurationError, InnerloopError, NotSupportedError
from innerloop.core.learner import Learner, Traits
from innerloop.core.prompt import Prompt, expand_prefixes
from innerloop.core.state_parts import HiddenStates
from innerloop.models.foreign import (
    evaluating,
    first_tensor,
    recording,
    type_of,
    width_of,
)
from innerloop.models.tokens import TokenForm
from innerloop.models.wrap_taps import InnerNames, wrapped_taps

Read = Callable[[Tensor], Tensor]
ROUNDING = 100
"""Times eps: answers of the module that differ by less than this part of them are the same."""


@dataclass(frozen=True, slots=True, eq=False)
class WrappedState:
    """All that one run of the module has left, from the current step on."""

    answers: Tensor
    """(B, n[, q], k): the module's own answers, after its last layer."""
    asked: tuple[Tensor, ...] = ()
    """(B, n[, q], D) each: the hidden states at what is asked, now and after each later layer."""
    tokens: tuple[Tensor, ...] = ()
    """(B, T, D) each: those of all tokens; empty where each prefix was a prompt of its own."""


class WrappedModule(Learner[WrappedState]):
    """A module as a learner, made by `wrap`; its steps are the layers that were named.

    `init` runs the module once and keeps the hidden states of all layers, `step` goes on to the
    next, `read` applies the head, and after the last layer gives the module's own answers.
    """

    def __init__(
        self,
        module: Callable[..., Any],
        *,
        layers: tuple[nn.Module, ...],
        head: tuple[Callable[..., Any], ...],
        form: TokenForm,
        read: Read | None,
        causal: bool | None,
        traits: Traits,
        steps: int,
        name: str,
        device: torch.device | None,
        inner: InnerNames,
    ) -> None:
        self._inner = inner
        self.module, self.layers, self.head, self.form = module, layers, head, form
        self.steps = steps
        self.traits = replace(traits, causal=causal is not False)
        self._name, self._read, self._causal, self._device = name, read, causal, device
        self._head_fits = False
        named = [part for part in (*layers, *head) if isinstance(part, nn.Module)]
        self._modules = [module] if isinstance(module, nn.Module) else named

    @cached_property
    def name(self) -> str:
        """As the user says, or the module's class or the function's name."""
        return self._name

    def init(self, prompt: Prompt) -> WrappedState:
        """One run of the module, or one per prefix where there are queries or it looks ahead."""
        if prompt.queries is None and (not self.traits.causal or self._looks_back(prompt)):
            return self._run(prompt)
        return self._run_prefixes(prompt)

    def step(self, prompt: Prompt, state: WrappedState, k: int) -> WrappedState:
        """The next layer's hidden states; nothing is left to do beyond the last."""
        if len(state.asked) <= 1:
            return state
        return WrappedState(state.answers, state.asked[1:], state.tokens[1:])

    @torch.no_grad()
    def read(self, prompt: Prompt, state: WrappedState) -> Tensor:
        """The head's answers between the layers, the module's own after the last."""
        if len(state.asked) <= 1:
            return state.answers.to(prompt.xs)  # (B, n[, q], k)
        if not self.head:
            raise NotSupportedError(
                f"{self.name} has no head to read the hidden states between its layers with: name "
                "it in il.wrap(.., head=..), or call il.analysis.fit_readouts(learner, prompts) "
                "first and use the learner that it returns."
            )
        return self._read_head(state.asked[0], prompt).to(prompt.xs)

    @property
    def hidden_states(self) -> HiddenStates[WrappedState]:
        """What enters the first layer, and what leaves each."""
        if not self.layers:
            raise NotSupportedError(
                f"{self.name} was wrapped without layers, so nothing inside it is known: name them "
                "in il.wrap(.., layers=..)."
            )
        return HiddenStates(
            features=self._features,
            input_tokens=self.form.places,
            readout_inputs=lambda prompt, state: self._apply(self.head[:-1], state.asked[0]),
        )

    @property
    def components(self) -> Components:
        """The residual stream behind every layer; MLPs and attention where they were named."""
        if not self.layers:
            raise NotSupportedError(
                f"{self.name} was wrapped without layers, so nothing inside it is known: name them "
                "in il.wrap(.., layers=..)."
            )

        def taps(k: int, steps: int) -> list[Tap]:
            if self.traits.causal and self._causal is False:
                raise NotSupportedError(
                    f"{self.name} looks ahead, and so it is run on every prefix by itself: wrap it "
                    "with causal=False, and hooks reach the run on the whole prompt."
                )
            return wrapped_taps(self.layers, self.steps, self._inner) if k == -1 else []

        return Components(taps=taps)

    @property
    def computes_in(self) -> torch.dtype:
        """The type of the module's parameters; a module without any computes in the prompt's."""
        return type_of(self._modules)[0] or super().computes_in

    def bytes_per_prompt(self, prompt: Prompt) -> int:
        """Hidden states of all layers, and the scores and units of one, roughly."""
        tokens, width = 2 * prompt.points, width_of(self._modules)
        return 8 * tokens * ((16 + self.steps) * width + 8 * tokens)

    def _features(self, prompt: Prompt, state: WrappedState) -> Tensor:
        """The hidden states (B, T, D) of all tokens."""
        if state.tokens:
            return state.tokens[0]
        reason = "it was asked queries" if prompt.queries is not None else "its answers look ahead"
        raise NotSupportedError(
            f"{self.name} was run on every prefix by itself, since {reason}: its hidden states "
            "belong to no one prompt. Ask without queries, and wrap what looks ahead with "
            "causal=False."
        )

    @torch.no_grad()
    def _run(self, prompt: Prompt) -> WrappedState:
        """The module on the whole prompt, in one pass."""
        dtype, device = type_of(self._modules)
        own = prompt.to(dtype=dtype, device=self._device or device)
        arguments = self.form.arguments(own)
        with evaluating(self._modules), recording(self.layers) as seen:
            output = first_tensor(self._call(arguments), f"{self.name} returns")
        tokens = arguments[0].shape[1] if arguments[0].ndim > 1 else 0
        answers = self._answers(output, own, tokens)  # (B, n, k)
        self._require_hidden(seen, own, tokens)
        asked = tuple(_pick(each, self.form.places(own, each.shape[1])) for each in seen)
        if self.head and not self._head_fits:
            self._require_head(self._read_head(asked[-1], own), answers)
        return WrappedState(answers, asked, tuple(seen))

    def _run_prefixes(self, prompt: Prompt) -> WrappedState:
        """The module on every prefix and query by itself."""
        batch, points, number, _ = prompt.asked.shape
        rows = rows_within_budget(self.bytes_per_prompt(prompt))
        kept: list[Tensor] = []
        for i, which, part in expand_prefixes(prompt, rows=rows):
            state = self._run(part)
            pieces = [each[:, i] for each in (state.answers, *state.asked)]  # (R, c) each
            if not kept:
                kept = [each.new_empty(batch * number, points, each.shape[1]) for each in pieces]
            for whole, piece in zip(kept, pieces, strict=True):
                whole[which, i] = piece
        grids = [each.reshape(batch, number, points, -1).transpose(1, 2) for each in kept]
        if prompt.queries is None:
            grids = [each[:, :, 0] for each in grids]  # (B, n, c) each
        return WrappedState(grids[0], tuple(grids[1:]))

    def _call(self, arguments: tuple[Tensor, ...]) -> Any:
        try:
            return self.module(*arguments)
        except (InnerloopError, Warning):  # warnings, where the user has turned them into errors
            raise
        except Exception as error:
            shapes = ", ".join(f"{tuple(each.shape)} {each.dtype}" for each in arguments)
            reason = " ".join(str(error).split()).rstrip(".")
            raise InnerloopError(
                f"{self.name} failed on tokens {shapes} ({type(error).__name__}: {reason}): make "
                "it take such tokens, or give il.wrap a function prompts= that makes others."
            ) from error

    def _answers(self, output: Tensor, prompt: Prompt, tokens: int) -> Tensor:
        """The module's output, (B, T or n[, c]), as predictions (B, n, k)."""
        values = output[..., None] if output.ndim == 2 else output  # (B, T or n, c)
        fits = values.ndim == 3 and values.shape[0] == prompt.batch
        if fits and values.shape[1] != prompt.points:
            fits = self.form.x_tokens is not None or values.shape[1] == tokens
            values = _pick(values, self.form.places(prompt, values.shape[1])) if fits else values
        if not fits:
            raise InnerloopError(
                f"{self.name} returned shape {tuple(output.shape)} for {prompt.batch} prompts of "
                f"{prompt.points} points in {tokens} tokens, expected one answer per token or per "
                f"point: ({prompt.batch}, {tokens}, {prompt.outputs}) or "
                f"({prompt.batch}, {prompt.points}, {prompt.outputs})."
            )
        return self._predictions(values, prompt)

    def _predictions(self, values: Tensor, prompt: Prompt) -> Tensor:
        """Outputs (B, m, c) as predictions (B, m, k)."""
        answers = values if self._read is None else self._read(values)  # (B, m, k)
        if tuple(answers.shape) != (*values.shape[:2], prompt.outputs):
            source = "returns" if self._read is None else "is read as"
            raise InnerloopError(
                f"{self.name} {source} {tuple(answers.shape)} at the {values.shape[1]} inputs, "
                f"expected {(*values.shape[:2], prompt.outputs)}: give il.wrap a function read= "
                f"that turns {tuple(values.shape)} into predictions."
            )
        return answers

    def _read_head(self, hidden: Tensor, prompt: Prompt) -> Tensor:
        """Predictions (B, n[, q], k) from hidden states (B, n[, q], D)."""
        values = self._apply(self.head, hidden.flatten(1, -2))  # (B, n q, c)
        values = values[..., None] if values.ndim == 2 else values
        return self._predictions(values, prompt).reshape(prompt.prediction_shape)

    def _apply(self, parts: Sequence[Callable[..., Any]], hidden: Tensor) -> Tensor:
        """One part of the head after the other."""
        with torch.no_grad(), evaluating(self._modules):
            for part in parts:
                hidden = part(hidden)
        return hidden

    def _looks_back(self, prompt: Prompt) -> bool:
        """Whether no answer changes with what comes after it: tried once, on two prompts.

        Where nothing changes at all (one point, or a readout of zeros that is yet to be trained)
        nothing is known, and each prefix is run by itself.
        """
        if self._causal is None and prompt.points > 1:
            some = prompt.select(slice(0, 2))
            kept = (prompt.points + 1) // 2
            xs, ys = some.xs.clone(), some.ys.clone()  # (b, n, d), (b, n, k)
            xs[:, kept:] = 1 - xs[:, kept:]
            ys[:, kept - 1 :] = 1 - ys[:, kept - 1 :]
            runs = self._run(some), self._run(Prompt(xs=xs, ys=ys, layout=some.layout))
            one, other = (torch.cat([run.answers, *run.asked], dim=2) for run in runs)  # (b, n, m)
            if not _same(one[:, :kept], other[:, :kept]):
                self._causal = False
            elif not _same(one[:, kept:], other[:, kept:]):
                self._causal = True
        return self._causal is True

    def _require_hidden(self, seen: list[Tensor], prompt: Prompt, tokens: int) -> None:
        """Refuse hidden states that are not one (B, T, D) per layer."""
        if not self.layers:
            return
        if len(seen) != self.steps + 1:
            raise ConfigurationError(
                f"the layers of {self.name} ran {max(0, len(seen) - 1)} times, expected "
                f"{self.steps}: give il.wrap the number with steps=, or name other layers."
            )
        shapes = sorted({tuple(each.shape) for each in seen})
        first = shapes[0]  # (B, T, D)
        fits = len(shapes) == 1 and len(first) == 3 and first[0] == prompt.batch
        if not fits or (self.form.x_tokens is None and first[1] != tokens):
            raise ConfigurationError(
                f"the layers of {self.name} give {', '.join(map(str, shapes))}, expected "
                f"(B, T, D) = ({prompt.batch}, {tokens}, D) from all: name layers of one width "
                "with the batch first, and say with x_tokens= where the xs stand if there are "
                "tokens more."
            )

    def _require_head(self, read: Tensor, answers: Tensor) -> None:
        """Refuse a head that does not turn the last layer into the module's own answers."""
        if not _same(read, answers, times=100):
            raise ConfigurationError(
                f"the head does not give the answers of {self.name} from its last layer (they "
                f"differ by {float((read - answers).abs().max()):.1e}): name all that comes after "
                "the layers, in order, such as head=['transformer.ln_f', 'lm_head']."
            )
        self._head_fits = True


def _pick(values: Tensor, places: range | list[int]) -> Tensor:
    """The values (B, n, ..) at some of the tokens (B, T, ..)."""
    if isinstance(places, range):
        return values[:, places.start : places.stop : places.step]
    return values[:, places]


def _same(one: Tensor, other: Tensor, *, times: int = 1) -> bool:
    """Whether two answers agree up to rounding."""
    allowed = times * ROUNDING * torch.finfo(one.dtype).eps * float(other.abs().max())
    return bool(((one - other).abs() <= allowed).all())
