"""Parts of a model as rows and columns of a heatmap: which are asked for, what they are called.

Shapes: P prompts, T tokens, h heads, s head size, D width.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from innerloop.core.chunks import rows_within_budget
from innerloop.core.components import Edit, Kind, Place
from innerloop.core.edited import run_edited
from innerloop.core.errors import ConfigurationError, NotSupportedError, PromptError, unknown
from innerloop.core.learner import Learner
from innerloop.core.prompt import Prompt

Component = Literal["head", "attention", "mlp", "residual"]
"""head: each head by itself; attention: all heads of a block at once; mlp; residual: the residual
stream behind a block, and first of all the embedded prompt."""
Tokens = Literal["all", "each"] | Sequence[int | Sequence[int]]
"""All tokens at once, each by itself, or those of a list, in which several may go together:
[[1, 3, 5], 6] are two columns."""
Span = Literal["only", "onward", "all"]
"""What a row replaces: its own step only, its step and all later ones, or all in one row."""


@dataclass(frozen=True, slots=True, eq=False)
class Cell:
    """Part of what stands at one place, or at several: what one run replaces."""

    places: frozenset[Place]
    head: int | None = None
    """None: all."""
    tokens: Sequence[int] | None = None
    """None: all."""
    numbers: Sequence[int] | None = None
    """Of the residual stream's D numbers; None: all."""

    def edit(self, source: Callable[[Place, Tensor], Tensor]) -> Edit:
        """An edit that puts the source's values (P or 1, T, ..) into this cell."""

        def put(place: Place, value: Tensor) -> Tensor | None:
            if place not in self.places:
                return None
            # One axis at a time: torch would join two lists of places into pairs.
            token, part = (torch.zeros_like(value[0], dtype=torch.bool) for _ in range(2))
            token[slice(None) if self.tokens is None else list(self.tokens)] = True
            inner = part if self.head is None else part[:, self.head]  # (T, s) or (T, D)
            inner[..., slice(None) if self.numbers is None else list(self.numbers)] = True
            return torch.where(token & part, source(place, value), value)

        return put


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Grid:
    """The cells of a heatmap: one row per place, then heads, then tokens."""

    rows: Sequence[Sequence[Place]]
    """The places that are replaced together, for each row."""
    axes: tuple[str, ...]
    ticks: Mapping[str, Sequence[Any]]
    heads: Sequence[int | None]
    tokens: Sequence[Sequence[int] | None]

    @property
    def places(self) -> list[Place]:
        """All places, each once."""
        return list(dict.fromkeys(place for row in self.rows for place in row))

    @property
    def shape(self) -> tuple[int, ...]:
        """Its size along each axis."""
        return tuple(len(self.ticks[axis]) for axis in self.axes)

    def cells(self, numbers: Sequence[int] | None = None) -> list[Cell | None]:
        """All cells in order; None where the blocks of a row have fewer heads than others."""
        return [
            Cell(frozenset(row), head, tokens, numbers)
            if head is None or head < min(place.heads for place in row)
            else None
            for row, head, tokens in product(self.rows, self.heads, self.tokens)
        ]


def make_grid(
    learner: Learner[Any],
    prompt: Prompt,
    component: Component,
    *,
    steps: int | None,
    at_steps: Sequence[int] | None,
    tokens: Tokens,
    span: Span = "only",
) -> Grid:
    """The grid of a component at some steps, by default at all of them."""
    places = places_of(learner, component, steps=steps, at_steps=at_steps)
    rows: list[list[Place]] = [[place] for place in places]
    names = row_names(places, steps_of(learner, steps))
    if span == "onward":
        rows = [list(places[i:]) for i in range(len(places))]
    elif span == "all":
        rows, names = [places], ["all"]
    axes, ticks = ["step"], {"step": names}
    heads: list[int | None] = [None]
    if component == "head":
        heads = list(range(max(place.heads for place in places)))
        axes, ticks = [*axes, "head"], {**ticks, "head": heads}
    chosen: Sequence[Sequence[int] | None] = [None]
    if tokens != "all":
        known = token_names(learner, prompt)
        groups = _groups(tokens, len(known))
        axes, chosen = [*axes, "token"], groups
        ticks = {**ticks, "token": [_span_name([known[token] for token in one]) for one in groups]}
    return Grid(rows=rows, axes=tuple(axes), ticks=ticks, heads=heads, tokens=chosen)


def _groups(tokens: Tokens, number: int) -> list[list[int]]:
    """The tokens of each column, of a prompt with so many."""
    if isinstance(tokens, str):
        if tokens != "each":
            raise ConfigurationError(unknown("choice of tokens", tokens, ("all", "each")))
        return [[token] for token in range(number)]
    groups = [[one] if isinstance(one, int) else list(one) for one in tokens]
    for token in (token for group in groups for token in group):
        if not 0 <= token < number:
            raise ConfigurationError(
                f"there is no token {token}: the prompt has {number}, counted from 0."
            )
    if not groups or not all(groups):
        raise ConfigurationError("a list of tokens is empty: name one at least, or take 'all'.")
    return groups


def _span_name(names: Sequence[str]) -> str:
    """`y3` of one, `y0..y9` of several."""
    return names[0] if len(names) == 1 else f"{names[0]}..{names[-1]}"


def places_of(
    learner: Learner[Any],
    component: Component,
    *,
    steps: int | None = None,
    at_steps: Sequence[int] | None = None,
) -> list[Place]:
    """The places of a component at some steps, by default at all, in the order of the run."""
    if component not in get_args(Component):
        raise ConfigurationError(unknown("component", component, get_args(Component)))
    kind: Kind = "head" if component == "attention" else component
    everything = learner.components.places(kind, steps_of(learner, steps))
    places = [place for place in everything if at_steps is None or place.step in at_steps]
    if not everything:
        raise NotSupportedError(
            f"hooks reach no {component} of {learner.name}: take another component, or say where "
            "it is when the model is wrapped."
        )
    if not places:
        known = sorted({place.step for place in everything})
        raise ConfigurationError(
            f"there is no {component} at the steps {list(at_steps or ())}: it has those from "
            f"{known[0]} to {known[-1]}."
        )
    return places


def row_names(places: Sequence[Place], steps: int) -> list[str]:
    """What rows are called: `3` is step 3, `3.1` its block 1; `input`, `pre.0`, `read.0`."""
    several = any(place.layer > 0 for place in places if 0 <= place.step < steps)

    def name(place: Place) -> str:
        if place.layer < 0:
            return "input"
        if place.step < 0:
            return f"pre.{place.layer}"
        if place.step >= steps:
            return f"read.{place.layer}"
        return f"{place.step}.{place.layer}" if several else f"{place.step}"

    return [name(place) for place in places]


def token_names(learner: Learner[Any], prompt: Prompt) -> list[str]:
    """What tokens are called: x0, y0, x1, ..; by where the model says that the x's stand."""
    inputs = list(learner.hidden_states.input_tokens(prompt))
    names = [f"start{i}" if i else "start" for i in range(inputs[0])]
    for i, (here, following) in enumerate(zip(inputs, [*inputs[1:], inputs[-1] + 1], strict=True)):
        names += [f"x{i}", *(f"y{i}" for _ in range(following - here - 1))]
    return names


def cut(prompt: Prompt, prefix: int) -> tuple[Prompt, int]:
    """The prompt up to the point that is asked about after `prefix` examples, and their number.

    A learner that is not causal is then run on this prefix, and a causal one on no more. What only
    the analysis may know is left behind.
    """
    if prompt.queries is not None:
        raise PromptError("the prompt has queries: give one without, which asks at its own points.")
    last = prefix + prompt.points if prefix < 0 else prefix
    if not 0 <= last < prompt.points:
        raise ConfigurationError(
            f"prefix is {prefix}, expected 0 to {prompt.points - 1} for {prompt.points} points."
        )
    end = last + 1
    scored = None if prompt.scored is None else prompt.scored[:, :end]
    shorter = replace(prompt, xs=prompt.xs[:, :end], ys=prompt.ys[:, :end], scored=scored, truth={})
    return shorter, last


def run_at_last(
    learner: Learner[Any], prompt: Prompt, edit: Edit, kind: Kind, steps: int | None
) -> Tensor:
    """Predictions (P, k) at the last point, with all places of a kind given to `edit`."""
    return run_edited(learner, prompt, edit, kinds=(kind,), steps=steps)[:, -1].detach()


def record(
    learner: Learner[Any], prompt: Prompt, places: Sequence[Place], steps: int | None
) -> tuple[dict[Place, Tensor], Tensor]:
    """What stands at places of one kind in a run, (P, T, ..) each, and its predictions (P, k)."""
    values: dict[Place, Tensor] = {}

    def keep(place: Place, value: Tensor) -> None:
        if place in places:
            values[place] = value.detach()

    predictions = run_at_last(learner, prompt, keep, places[0].kind, steps)  # (P, k)
    for place in places:
        if place not in values:
            raise NotSupportedError(
                f"the {place.kind} of {learner.name} at step {place.step} was never reached: its "
                "module is not called by itself. Name another, whose output or input it is."
            )
    return values, predictions


def steps_of(learner: Learner[Any], steps: int | None) -> int:
    """The steps of a run: the learner's own unless they are given."""
    return learner.steps if steps is None else steps


def rows_at_once(learner: Learner[Any], prompt: Prompt, places: Sequence[Place]) -> int:
    """How many prompts are run at a time, with what is recorded at these places."""
    return rows_within_budget((2 + len(places)) * learner.bytes_per_prompt(prompt))
