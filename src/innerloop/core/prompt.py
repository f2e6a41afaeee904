"""A batch of in-context learning problems.

Shapes, here and in every file of the library:
B prompts, n points, d input dimensions, k outputs, q queries at each point.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor

from innerloop.core.arguments import expect_count
from innerloop.core.errors import PromptError

Layout = Literal["pairs", "stream", "tokens"]
_DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Prompt:
    """Examples (x_0, y_0), (x_1, y_1), ... of one unknown function per prompt.

    The prediction at point i may use x_0 .. x_i and y_0 .. y_{i-1}: i examples and a question.
    Shapes, dtypes, devices and values are checked here: NaN and infinity are refused, so that no
    learner meets them. Each tensor is looked at once, since that stalls a GPU: prompts made of
    this one (`select`, `ask`, `dataclasses.replace`) look at new tensors only.
    """

    xs: Tensor
    """(B, n, d) inputs."""
    ys: Tensor
    """(B, n, k) outputs; scalar problems have k = 1."""
    queries: Tensor | None = None
    """(B, n, q, d): queries[:, i] are asked after the examples 0 .. i-1; None asks x_i itself.
    (B, 1, q, d): all are asked after the last example, n - 1 of them, and none before."""
    layout: Layout = "pairs"
    """What a model reads: "pairs" x_0 y_0 x_1 y_1 ..; "stream" x_0 x_1 .., with y_i = x_{i+1};
    "tokens" x_0 x_1 .., numbers of tokens, with y_i the number of the next token, or a class."""
    scored: Tensor | None = None
    """(B, n) bool: the positions that count in a loss or an error; None counts all."""
    truth: Mapping[str, Tensor] = field(default_factory=dict[str, Tensor])
    """What only losses and the analysis may know, batch first: "w" (B, d, k), "query_ys" (B, n or
    1, q, k), .."""
    _finite: tuple[Tensor, ...] = field(default=(), repr=False)
    """Tensors that are known to be finite, by identity; `replace` hands them on."""

    def __post_init__(self) -> None:
        """Refuse tensors that do not fit together, and values that are not finite."""
        _check_examples(self)
        _check_queries(self)
        _check_scored(self)
        for name, value in self.truth.items():
            _check_tensor(f"truth[{name!r}]", value, self.xs.device)
            if value.ndim == 0 or value.shape[0] != self.batch:
                raise PromptError(
                    f"truth[{name!r}] has shape {tuple(value.shape)}, expected {self.batch} "
                    "prompts along its first axis: repeat what all prompts share."
                )
        _check_finite(self)

    @classmethod
    def from_arrays(
        cls,
        xs: Any,
        ys: Any,
        *,
        queries: Any = None,
        layout: Layout = "pairs",
        dtype: torch.dtype = torch.float64,
    ) -> "Prompt":
        """Make a prompt of arrays, lists or tensors.

        A single prompt may come without the batch axis, and scalar outputs without the last one.
        """
        inputs = _as_tensor("xs", xs, dtype)  # (B, n, d) or (n, d)
        outputs = _as_tensor("ys", ys, dtype)  # (B, n, k), (B, n), (n, k) or (n,)
        asked = None if queries is None else _as_tensor("queries", queries, dtype)
        if inputs.ndim == 2:
            inputs, outputs = inputs[None], outputs[None]  # (1, n, d), (1, n[, k])
            asked = None if asked is None else asked[None]  # (1, n, q, d)
        if outputs.ndim == 2:
            outputs = outputs[..., None]  # (B, n, 1)
        prompt = cls(xs=inputs, ys=outputs, queries=asked, layout=layout)
        if layout == "stream" and not torch.equal(prompt.ys[:, :-1], prompt.xs[:, 1:]):
            raise PromptError(
                "the ys of a stream are not its next xs: give ys[:, i] = xs[:, i + 1], or use the "
                "layout 'pairs'."
            )
        return prompt

    @classmethod
    def cat(cls, prompts: Sequence["Prompt"]) -> "Prompt":
        """All prompts as one batch, in order.

        They must agree in layout, types, sizes and in which tensors they have: queries, `scored`
        and the keys of the truth. Drop a truth that differs first: `replace(prompt, truth={})`.
        """
        if isinstance(prompts, Prompt):
            raise PromptError(
                "this is one prompt, expected a list of them: Prompt.cat([one, two])."
            )
        if not prompts:
            raise PromptError("there are no prompts to concatenate: give at least one.")
        for prompt in prompts:
            _expect_prompt("one of the prompts to concatenate", prompt)
        parts = [prompt._tensors() for prompt in prompts]
        first = prompts[0]._kind()
        for prompt in prompts[1:]:
            kind = prompt._kind()
            for name in (*first, *kind):
                if first.get(name) != kind.get(name):
                    raise PromptError(
                        f"prompts that differ in {name} are no batch: {kind.get(name, 'none')} "
                        f"beside {first.get(name, 'none')}. Concatenate prompts of one kind."
                    )
        return prompts[0]._with({name: torch.cat([p[name] for p in parts]) for name in parts[0]})

    @property
    def batch(self) -> int:
        """B, the number of prompts."""
        return self.xs.shape[0]

    @property
    def points(self) -> int:
        """The number of points n: predictions see 0 .. n-1 examples."""
        return self.xs.shape[1]

    @property
    def dims(self) -> int:
        """The number of input dimensions d."""
        return self.xs.shape[2]

    @property
    def outputs(self) -> int:
        """The number of outputs k."""
        return self.ys.shape[2]

    @property
    def asked(self) -> Tensor:
        """(B, n, q, d): what is asked at each point; x_i itself, with q = 1, without queries.

        (B, 1, q, d) where queries are asked at the end alone.
        """
        return self.xs[:, :, None] if self.queries is None else self.queries

    @property
    def at_end(self) -> bool:
        """Whether queries are asked after the last example alone, of several prefixes."""
        return self.queries is not None and self.queries.shape[1] < self.points

    @property
    def prediction_shape(self) -> tuple[int, ...]:
        """(B, n, k), or (B, n or 1, q, k) with queries: what a learner's `read` returns."""
        if self.queries is None:
            return tuple(self.ys.shape)
        return (*self.queries.shape[:3], self.outputs)

    def to(
        self, *, dtype: torch.dtype | None = None, device: torch.device | str | None = None
    ) -> "Prompt":
        """Cast and move all that is real-valued; booleans only move."""
        if dtype is not None and dtype not in _DTYPES:
            raise PromptError(
                f"dtype is {dtype!r}, expected a real type of torch: torch.float32 or "
                "torch.float64."
            )

        def cast(value: Tensor) -> Tensor:
            real = value.is_floating_point()
            return value.to(device=device, dtype=dtype if real else None)

        tensors = {name: cast(value) for name, value in self._tensors().items()}
        # A narrower type may have no room for a number: infinity.
        return self._with(tensors, finite=dtype is None)

    def select(self, which: slice | Tensor) -> "Prompt":
        """Keep some of the prompts: a slice, indices, or a mask over the batch."""
        if not isinstance(which, slice | Tensor):
            raise PromptError(
                f"prompts cannot be selected by {which!r}: give a slice, such as slice(0, 8), or a "
                "tensor of indices or of booleans, one per prompt."
            )
        return self._with({name: value[which] for name, value in self._tensors().items()})

    def ask(self, queries: Tensor | None) -> "Prompt":
        """The same examples with other queries (B, n, q, d), or (B, 1, q, d) to ask at the end.

        The truth about the old ones goes.
        """
        truth = {name: value for name, value in self.truth.items() if name != "query_ys"}
        return replace(self, queries=queries, truth=truth)

    def _tensors(self) -> dict[str, Tensor]:
        """All tensors that there are, by name, batch first."""
        own = {"xs": self.xs, "ys": self.ys, "queries": self.queries, "scored": self.scored}
        truth = {f"truth[{name!r}]": value for name, value in self.truth.items()}
        return {name: value for name, value in own.items() if value is not None} | truth

    def _with(self, tensors: Mapping[str, Tensor], *, finite: bool = True) -> "Prompt":
        """The prompt with others in the place of its tensors, which may be known to be finite."""
        return replace(
            self, xs=tensors["xs"], ys=tensors["ys"],
            queries=tensors.get("queries"), scored=tensors.get("scored"),
            truth={name: tensors[f"truth[{name!r}]"] for name in self.truth},
            _finite=tuple(tensors.values()) if finite else self._finite,
        )  # fmt: skip

    def _kind(self) -> dict[str, str]:
        """What must be the same for prompts to make one batch, by name."""
        sizes = {
            name: f"{value.dtype} of shape (B, {', '.join(map(str, value.shape[1:]))})"
            for name, value in self._tensors().items()
        }
        return {"layout": self.layout} | sizes


def expand_prefixes(prompt: Prompt, *, rows: int = 4096) -> Iterator[tuple[int, slice, Prompt]]:
    """Turn each prefix, and each query, into a prompt of its own, whose last point is the question.

    This is how a learner that is not causal (full attention, or any function of a whole data set)
    answers a prompt: at n times the cost, and without a way to peek, since the last y is zero.
    Yields (i, s, part) with at most `rows` prompts of i + 1 points each; part's prompts are the
    slice s of the B * q questions asked at point i, in the order of the (B, q) grid.
    """
    _expect_prompt("what is to be expanded", prompt)
    expect_count("rows", rows)
    return _expanded(prompt, rows)


def _expanded(prompt: Prompt, rows: int) -> Iterator[tuple[int, slice, Prompt]]:
    asked = prompt.asked  # (B, n, q, d)
    batch, _, number, dims = asked.shape
    for place, i in enumerate(range(prompt.points - asked.shape[1], prompt.points)):
        questions = asked[:, place].reshape(batch * number, dims)  # (B q, d)
        for start in range(0, batch * number, rows):
            which = slice(start, min(start + rows, batch * number))
            owner = torch.arange(which.start, which.stop, device=asked.device) // number
            xs = torch.cat([prompt.xs[owner, :i], questions[which, None]], dim=1)  # (R, i + 1, d)
            ys = prompt.ys[owner, : i + 1].clone()  # (R, i + 1, k)
            ys[:, i] = 0
            yield i, which, Prompt(xs=xs, ys=ys, layout=prompt.layout, _finite=(xs, ys))


def _expect_prompt(what: str, value: Any) -> None:
    if not isinstance(value, Prompt):
        raise PromptError(
            f"{what} is a {type(value).__name__}, expected a prompt: draw one with "
            "task.sample(batch, points, generator=..), or make one with Prompt.from_arrays."
        )


def _as_tensor(name: str, values: Any, dtype: torch.dtype) -> Tensor:
    if isinstance(values, Tensor):
        return values.to(dtype)
    try:
        # A copy: what a caller keeps is never changed through a prompt, nor the other way round.
        return torch.from_numpy(np.array(values, dtype=np.float64)).to(dtype)
    except (ValueError, TypeError) as error:
        raise PromptError(
            f"{name} is not an array of numbers: every row needs the same length, every entry a "
            "number."
        ) from error


def _check_tensor(name: str, value: Any, device: torch.device) -> None:
    if not isinstance(value, Tensor):
        raise PromptError(
            f"{name} is a {type(value).__name__}, expected a tensor: use Prompt.from_arrays, or "
            "torch.as_tensor."
        )
    if value.device != device:
        raise PromptError(f"{name} is on {value.device} and xs on {device}: move them together.")


def _check_examples(prompt: Prompt) -> None:
    xs, ys = prompt.xs, prompt.ys
    _check_tensor("xs", xs, getattr(xs, "device", torch.device("cpu")))
    _check_tensor("ys", ys, xs.device)
    if xs.ndim != 3 or ys.ndim != 3:
        raise PromptError(
            f"xs and ys have shapes {tuple(xs.shape)} and {tuple(ys.shape)}, expected (B, n, d) "
            "and (B, n, k): add the missing axes, or use Prompt.from_arrays."
        )
    if xs.shape[:2] != ys.shape[:2]:
        raise PromptError(
            f"xs has {tuple(xs.shape[:2])} prompts and points, ys has {tuple(ys.shape[:2])}: "
            "every x needs its y."
        )
    if 0 in xs.shape or 0 in ys.shape:
        raise PromptError(
            f"xs {tuple(xs.shape)} or ys {tuple(ys.shape)} has an empty axis: "
            "a prompt has at least one prompt, point, dimension and output."
        )
    if xs.dtype not in _DTYPES or ys.dtype != xs.dtype:
        raise PromptError(
            f"xs is {xs.dtype} and ys is {ys.dtype}, expected one floating type for both: "
            "cast them, for example with .double()."
        )
    if prompt.layout not in get_args(Layout):
        raise PromptError(f"layout is {prompt.layout!r}, expected 'pairs', 'stream' or 'tokens'.")
    if prompt.layout == "stream" and xs.shape != ys.shape:
        raise PromptError(
            f"a stream's y_i is its next x, but xs has {xs.shape[2]} dimensions and ys "
            f"{ys.shape[2]}: use the layout 'pairs'."
        )


def _check_queries(prompt: Prompt) -> None:
    queries, xs = prompt.queries, prompt.xs
    if queries is None:
        return
    _check_tensor("queries", queries, xs.device)
    batch, points, dims = xs.shape
    shapes = (
        [(batch, asked, queries.shape[2], dims) for asked in (points, 1)]
        if queries.ndim == 4
        else []
    )
    if tuple(queries.shape) not in shapes or queries.shape[2] == 0:
        raise PromptError(
            f"queries have shape {tuple(queries.shape)}, expected ({batch}, {points}, q, {dims}) "
            "with q >= 1, queries[:, i] being asked after i examples, or "
            f"({batch}, 1, q, {dims}), all of them asked at the end."
        )
    if queries.dtype != xs.dtype:
        raise PromptError(f"queries are {queries.dtype}, xs are {xs.dtype}: they must agree.")


def _check_scored(prompt: Prompt) -> None:
    scored = prompt.scored
    if scored is None:
        return
    _check_tensor("scored", scored, prompt.xs.device)
    expected = (prompt.batch, prompt.points)
    if tuple(scored.shape) != expected or scored.dtype != torch.bool:
        raise PromptError(
            f"scored is {scored.dtype} of shape {tuple(scored.shape)}, expected torch.bool of "
            f"shape {expected}."
        )


def _check_finite(prompt: Prompt) -> None:
    """Refuse NaN and infinity in tensors that were not looked at before."""
    values = {"xs": prompt.xs, "ys": prompt.ys, "queries": prompt.queries}
    given = {name: value for name, value in values.items() if value is not None}
    for name, value in given.items():
        if any(value is known for known in prompt._finite):
            continue
        # The extremes of what holds NaN are NaN: ten times quicker than looking at each value.
        if not bool(torch.isfinite(torch.stack(torch.aminmax(value.detach()))).all()):
            bad = int((~torch.isfinite(value)).sum())
            number = "1 value that is" if bad == 1 else f"{bad} values that are"
            raise PromptError(
                f"{name} holds {number} not finite (NaN or infinity): drop or impute them first."
            )
    object.__setattr__(prompt, "_finite", tuple(given.values()))
