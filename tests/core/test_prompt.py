"""Prompts: what fits together is taken, and everything else is refused with a sentence."""

import copy
import dataclasses
import math
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from innerloop.core.errors import PromptError
from innerloop.core.prompt import Prompt, expand_prefixes
from innerloop.tasks.linear import LinearRegression

Draw = Callable[..., Prompt]
REAL = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
SIZES = st.integers(1, 4)


@st.composite
def valid_arguments(draw: st.DrawFn) -> dict[str, Any]:
    """Arguments of a prompt that fit together, with every optional part there or not."""
    batch, points, dims = draw(SIZES), draw(SIZES), draw(SIZES)
    layout = draw(st.sampled_from(["pairs", "stream"]))
    outputs = dims if layout == "stream" else draw(SIZES)
    asked = draw(st.none() | SIZES)
    dtype = draw(st.sampled_from(REAL))
    arguments: dict[str, Any] = {
        "xs": torch.zeros(batch, points, dims, dtype=dtype),
        "ys": torch.zeros(batch, points, outputs, dtype=dtype),
        "layout": layout,
    }
    if asked is not None:
        arguments["queries"] = torch.zeros(batch, points, asked, dims, dtype=dtype)
    if draw(st.booleans()):
        arguments["scored"] = torch.ones(batch, points, dtype=torch.bool)
    if draw(st.booleans()):
        arguments["truth"] = {"w": torch.zeros(batch, dims), "level": torch.zeros(batch)}
    return arguments


@given(valid_arguments())
def test_what_fits_is_taken(arguments: dict[str, Any]) -> None:
    prompt = Prompt(**arguments)
    batch, points, dims = arguments["xs"].shape
    outputs = arguments["ys"].shape[2]
    assert (prompt.batch, prompt.points, prompt.dims, prompt.outputs) == (
        batch, points, dims, outputs,
    )  # fmt: skip
    if "queries" in arguments:
        asked = arguments["queries"].shape[2]
        assert prompt.prediction_shape == (batch, points, asked, outputs)
        assert prompt.asked is prompt.queries
    else:
        assert prompt.prediction_shape == (batch, points, outputs)
        assert prompt.asked.shape == (batch, points, 1, dims)
        assert torch.equal(prompt.asked[:, :, 0], prompt.xs)


def zeros(*shape: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.zeros(shape, dtype=dtype)


INVALID: dict[str, tuple[dict[str, Any], str]] = {
    "xs without batch axis": ({"xs": zeros(4, 3)}, r"have shapes \(4, 3\) and \(2, 4, 1\)"),
    "ys without output axis": ({"ys": zeros(2, 4)}, r"expected \(B, n, d\) and \(B, n, k\)"),
    "ys with one axis too many": ({"ys": zeros(2, 4, 1, 1)}, "add the missing axes|from_arrays"),
    "another batch": ({"ys": zeros(3, 4, 1)}, r"xs has \(2, 4\) prompts .* ys has \(3, 4\)"),
    "another number of points": ({"ys": zeros(2, 5, 1)}, "every x needs its y"),
    "no prompts": ({"xs": zeros(0, 4, 3), "ys": zeros(0, 4, 1)}, "empty axis"),
    "no points": ({"xs": zeros(2, 0, 3), "ys": zeros(2, 0, 1)}, "empty axis"),
    "no dimensions": ({"xs": zeros(2, 4, 0)}, r"xs \(2, 4, 0\).*empty axis"),
    "no outputs": ({"ys": zeros(2, 4, 0)}, r"ys \(2, 4, 0\) has an empty axis"),
    "integers": (
        {"xs": zeros(2, 4, 3, dtype=torch.int64), "ys": zeros(2, 4, 1, dtype=torch.int64)},
        "xs is torch.int64 and ys is torch.int64, expected one floating type",
    ),
    "two types": (
        {"ys": zeros(2, 4, 1, dtype=torch.float32)},
        "xs is torch.float64 and ys is torch.float32, expected one floating type",
    ),
    "complex": (
        {
            "xs": zeros(2, 4, 3, dtype=torch.complex128),
            "ys": zeros(2, 4, 1, dtype=torch.complex128),
        },
        "expected one floating type",
    ),
    "two devices": ({"ys": zeros(2, 4, 1).to("meta")}, "ys is on meta and xs on cpu: move them"),
    "unknown layout": ({"layout": "pair"}, "layout is 'pair', expected 'pairs', 'stream' or"),
    "stream of other outputs": (
        {"layout": "stream"}, "a stream's y_i is its next x, but xs has 3 dimensions and ys 1",
    ),
    "queries without their axis": (
        {"queries": zeros(2, 4, 3)}, r"queries have shape \(2, 4, 3\), expected \(2, 4, q, 3\)",
    ),
    "queries of another batch": ({"queries": zeros(3, 4, 5, 3)}, "queries have shape"),
    "queries of other points": ({"queries": zeros(2, 3, 5, 3)}, "asked after i examples"),
    "queries of other dimensions": ({"queries": zeros(2, 4, 5, 2)}, "queries have shape"),
    "no queries at a point": ({"queries": zeros(2, 4, 0, 3)}, "with q >= 1"),
    "queries of another type": (
        {"queries": zeros(2, 4, 5, 3, dtype=torch.float32)},
        "queries are torch.float32, xs are torch.float64",
    ),
    "queries elsewhere": (
        {"queries": zeros(2, 4, 5, 3).to("meta")}, "queries is on meta and xs on cpu",
    ),
    "scored of another shape": (
        {"scored": zeros(2, 3, dtype=torch.bool)},
        r"scored is torch.bool of shape \(2, 3\), expected torch.bool of shape \(2, 4\)",
    ),
    "scored by numbers": ({"scored": zeros(2, 4)}, "scored is torch.float64"),
    "truth without prompts": ({"truth": {"w": zeros(3)}}, r"truth\['w'\] has shape \(3,\)"),
    "truth without axes": (
        {"truth": {"fine": zeros(2), "level": torch.tensor(1.0)}},
        r"truth\['level'\] has shape \(\), expected 2 prompts along its first axis",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", INVALID)
def test_what_does_not_fit_is_refused(kind: str) -> None:
    arguments: dict[str, Any] = {"xs": zeros(2, 4, 3), "ys": zeros(2, 4, 1)}
    Prompt(**arguments)
    changes, sentence = INVALID[kind]
    with pytest.raises(PromptError, match=sentence) as refused:
        Prompt(**{**arguments, **changes})
    assert str(refused.value).endswith(".")


@given(valid_arguments(), st.data())
def test_any_one_part_that_is_resized_is_refused(
    arguments: dict[str, Any], data: st.DataObject
) -> None:
    parts = [name for name in ("xs", "ys", "queries", "scored") if name in arguments]
    name = data.draw(st.sampled_from(parts))
    axis = data.draw(st.integers(0, 1))
    part = arguments[name]
    with pytest.raises(PromptError):
        Prompt(**{**arguments, name: torch.cat([part, part[:1] if axis == 0 else part], dim=axis)})


def test_scored_on_another_device_is_refused() -> None:
    with pytest.raises(PromptError, match="scored is on meta and xs on cpu"):
        Prompt(
            xs=zeros(1, 2, 1), ys=zeros(1, 2, 1), scored=zeros(1, 2, dtype=torch.bool).to("meta")
        )


def test_truth_on_another_device_is_refused() -> None:
    with pytest.raises(PromptError, match=r"truth\['w'\] is on meta and xs on cpu"):
        Prompt(xs=zeros(1, 2, 1), ys=zeros(1, 2, 1), truth={"w": zeros(1, 2).to("meta")})


@pytest.mark.parametrize(
    "arguments",
    [
        {"xs": np.zeros((1, 2, 1)), "ys": np.zeros((1, 2, 1))},
        {"xs": [[[0.0]]], "ys": [[[0.0]]]},
        {"xs": zeros(1, 2, 1), "ys": zeros(1, 2, 1), "truth": {"w": [1.0]}},
    ],
    ids=["arrays", "lists", "truth"],
)
def test_what_is_no_tensor_is_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(PromptError, match="tensor"):
        Prompt(**arguments)


def test_prompts_are_frozen_and_closed() -> None:
    prompt = Prompt(xs=zeros(1, 2, 1), ys=zeros(1, 2, 1))
    with pytest.raises(dataclasses.FrozenInstanceError):
        prompt.xs = zeros(1, 2, 1)  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(TypeError):
        Prompt(zeros(1, 2, 1), zeros(1, 2, 1))  # pyright: ignore[reportCallIssue]


def test_prompts_can_be_copied_and_pickled(random_prompt: Draw) -> None:
    prompt = random_prompt(queries=2)
    for other in (copy.deepcopy(prompt), pickle.loads(pickle.dumps(prompt))):
        assert torch.equal(other.xs, prompt.xs)
        assert torch.equal(other.asked, prompt.asked)


@pytest.mark.parametrize(
    ("xs", "ys", "shapes"),
    [
        ((2, 4, 3), (2, 4, 5), ((2, 4, 3), (2, 4, 5))),
        ((2, 4, 3), (2, 4), ((2, 4, 3), (2, 4, 1))),
        ((4, 3), (4, 5), ((1, 4, 3), (1, 4, 5))),
        ((4, 3), (4,), ((1, 4, 3), (1, 4, 1))),
        # A square single prompt must not be taken for scalar outputs of a batch.
        ((3, 3), (3, 3), ((1, 3, 3), (1, 3, 3))),
    ],
)
def test_from_arrays_adds_the_missing_axes(
    xs: tuple[int, ...], ys: tuple[int, ...], shapes: tuple[tuple[int, ...], tuple[int, ...]]
) -> None:
    inputs = np.arange(np.prod(xs), dtype=float).reshape(xs)
    outputs = np.arange(np.prod(ys), dtype=float).reshape(ys)
    prompt = Prompt.from_arrays(inputs, outputs)
    assert (tuple(prompt.xs.shape), tuple(prompt.ys.shape)) == shapes
    assert np.array_equal(prompt.xs.flatten().numpy(), inputs.flatten())
    assert np.array_equal(prompt.ys.flatten().numpy(), outputs.flatten())


def test_from_arrays_takes_lists_and_integers() -> None:
    prompt = Prompt.from_arrays([[1, 2], [3, 4]], [5, 6], queries=[[[7, 8]], [[9, 10]]])
    assert prompt.xs.dtype == prompt.ys.dtype == torch.float64
    assert prompt.xs.tolist() == [[[1, 2], [3, 4]]]
    assert prompt.ys.tolist() == [[[5], [6]]]
    assert prompt.asked.tolist() == [[[[7, 8]], [[9, 10]]]]


def test_from_arrays_casts_and_keeps_the_layout() -> None:
    prompt = Prompt.from_arrays(
        np.zeros((2, 3, 1)), np.zeros((2, 3)), layout="stream", dtype=torch.float32
    )
    assert prompt.xs.dtype == prompt.ys.dtype == torch.float32
    assert prompt.layout == "stream"


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", ["xs", "ys", "queries"])
def test_from_arrays_refuses_what_is_not_finite(name: str, bad: float) -> None:
    arrays = {"xs": np.ones((2, 3, 2)), "ys": np.ones((2, 3, 1)), "queries": np.ones((2, 3, 1, 2))}
    arrays[name][1, 2] = bad
    number = arrays[name][1, 2].size
    with pytest.raises(PromptError, match=f"{name} holds {number} value.* not finite"):
        Prompt.from_arrays(**arrays)


def test_from_arrays_refuses_numbers_that_overflow_the_type() -> None:
    with pytest.raises(PromptError, match="ys holds 1 value that is not finite"):
        Prompt.from_arrays([[1.0]], [1e300], dtype=torch.float32)


def test_from_arrays_refuses_integers_as_type() -> None:
    with pytest.raises(PromptError, match="expected one floating type"):
        Prompt.from_arrays([[1.0]], [1.0], dtype=torch.int64)


def test_from_arrays_refuses_ragged_lists_in_its_own_words() -> None:
    with pytest.raises(PromptError, match="xs is not an array of numbers: every row needs"):
        Prompt.from_arrays([[1.0, 2.0], [3.0]], [1.0, 2.0])


def test_from_arrays_refuses_a_stream_whose_outputs_are_not_its_next_inputs() -> None:
    Prompt.from_arrays([[1.0], [2.0]], [2.0, 3.0], layout="stream")
    with pytest.raises(PromptError, match="the ys of a stream are not its next xs"):
        Prompt.from_arrays([[1.0], [2.0]], [7.0, 3.0], layout="stream")


def test_from_arrays_takes_arrays_that_cannot_be_written() -> None:
    xs = np.ones((2, 3))
    xs.setflags(write=False)
    assert Prompt.from_arrays(xs, [1.0, 2.0]).xs.tolist() == [xs.tolist()]


def test_from_arrays_copies_arrays() -> None:
    xs, ys = np.ones((2, 3)), np.ones(2)
    prompt = Prompt.from_arrays(xs, ys)
    xs[:], ys[:] = 7, 7
    assert bool((prompt.xs == 1).all())
    assert bool((prompt.ys == 1).all())


@pytest.mark.parametrize("dtype", REAL)
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("name", ["xs", "ys", "queries"])
def test_values_that_are_not_finite_are_refused(name: str, bad: float, dtype: torch.dtype) -> None:
    zero = torch.zeros(2, 2, 1, dtype=dtype)
    tensors: dict[str, Any] = {"xs": zero, "ys": zero, "queries": zero[:, :, None]}
    prompt = Prompt(**tensors)
    wrong = tensors[name].clone()
    wrong[1, 0] = bad
    sentence = rf"{name} holds 1 value that is not finite \(NaN or infinity\): drop or impute"
    with pytest.raises(PromptError, match=sentence):
        Prompt(**{**tensors, name: wrong})
    with pytest.raises(PromptError, match=sentence):
        dataclasses.replace(prompt, **{name: wrong})


def test_a_type_without_room_for_a_number_is_refused() -> None:
    large = torch.full((1, 2, 1), 1e300, dtype=torch.float64)
    with pytest.raises(PromptError, match="xs holds 2 values that are not finite"):
        Prompt(xs=large, ys=large).to(dtype=torch.float32)


def test_every_tensor_is_looked_at_once(
    random_prompt: Draw, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at: list[torch.Tensor] = []
    aminmax = torch.aminmax
    monkeypatch.setattr(torch, "aminmax", lambda x: looked_at.append(x) or aminmax(x))
    prompt = random_prompt(queries=2)
    assert len(looked_at) == 3
    parts = [prompt.select(slice(0, 1)), prompt.select(torch.tensor([1, 2]))]
    dataclasses.replace(Prompt.cat(parts), truth={}).to(device="cpu").ask(None)
    prompt.to(dtype=torch.float64)  # the type that it has
    list(expand_prefixes(prompt))
    assert len(looked_at) == 3
    dataclasses.replace(prompt, ys=prompt.ys + 1)
    assert len(looked_at) == 4


def test_a_task_that_explodes_is_refused_where_it_draws() -> None:
    task = LinearRegression(dims=2, noise=1e300)
    with pytest.raises(PromptError, match=r"ys holds .* not finite"):
        task.sample(2, 3, generator=torch.Generator().manual_seed(0))


def full(random_prompt: Draw) -> Prompt:
    """A prompt with every part: four prompts, of which no two are alike."""
    prompt = random_prompt(4, 3, 2, queries=2)
    return dataclasses.replace(
        prompt,
        scored=torch.rand(4, 3, generator=torch.Generator().manual_seed(1)) > 0.5,
        truth={"w": torch.arange(8.0).reshape(4, 2), "index": torch.arange(4)},
    )


def test_to_casts_what_is_real_and_leaves_the_rest(random_prompt: Draw) -> None:
    prompt = full(random_prompt)
    single = prompt.to(dtype=torch.float32)
    assert single.queries is not None
    assert single.scored is not None
    for part in (single.xs, single.ys, single.queries, single.truth["w"]):
        assert part.dtype == torch.float32
    assert single.scored.dtype == torch.bool
    assert single.truth["index"].dtype == torch.int64
    assert torch.equal(single.xs, prompt.xs.float())
    assert prompt.xs.dtype == torch.float64


def test_to_moves_every_part(random_prompt: Draw) -> None:
    moved = full(random_prompt).to(device="meta")
    parts = (moved.xs, moved.ys, moved.queries, moved.scored, *moved.truth.values())
    assert {part.device.type for part in parts if part is not None} == {"meta"}


def test_to_without_arguments_changes_nothing(random_prompt: Draw) -> None:
    prompt = full(random_prompt)
    same = prompt.to()
    assert torch.equal(same.xs, prompt.xs)
    assert same.xs.dtype == prompt.xs.dtype


@pytest.mark.parametrize(
    ("which", "kept"),
    [
        (slice(1, 3), [1, 2]),
        (slice(-1, None), [3]),
        (slice(0, 100), [0, 1, 2, 3]),
        (torch.tensor([3, 0, 0]), [3, 0, 0]),
        (torch.tensor([True, False, False, True]), [0, 3]),
    ],
    ids=["slice", "last", "beyond the end", "indices", "mask"],
)
def test_select_keeps_all_parts_of_the_chosen_prompts(
    random_prompt: Draw, which: slice | torch.Tensor, kept: list[int]
) -> None:
    prompt = full(random_prompt)
    part = prompt.select(which)
    assert part.queries is not None
    assert prompt.queries is not None
    assert part.scored is not None
    assert prompt.scored is not None
    assert part.batch == len(kept)
    assert part.truth.keys() == prompt.truth.keys()
    for place, b in enumerate(kept):
        assert torch.equal(part.xs[place], prompt.xs[b])
        assert torch.equal(part.ys[place], prompt.ys[b])
        assert torch.equal(part.queries[place], prompt.queries[b])
        assert torch.equal(part.scored[place], prompt.scored[b])
        for name, value in prompt.truth.items():
            assert torch.equal(part.truth[name][place], value[b])


def test_select_keeps_the_layout(random_prompt: Draw) -> None:
    assert random_prompt(layout="stream").select(slice(0, 1)).layout == "stream"


@pytest.mark.parametrize(
    "which", [slice(4, None), torch.zeros(4, dtype=torch.bool), torch.tensor([], dtype=torch.int64)]
)
def test_select_refuses_to_keep_nothing(random_prompt: Draw, which: slice | torch.Tensor) -> None:
    with pytest.raises(PromptError, match="empty axis"):
        random_prompt(4).select(which)


def test_select_refuses_to_drop_the_batch_axis(random_prompt: Draw) -> None:
    with pytest.raises(PromptError, match="expected"):
        random_prompt(4).select(torch.tensor(1))


def test_ask_replaces_the_queries_and_forgets_their_answers(
    random_prompt: Draw,
) -> None:
    prompt = full(random_prompt)
    prompt = dataclasses.replace(prompt, truth={**prompt.truth, "query_ys": zeros(4, 3, 2, 1)})
    other = prompt.ask(zeros(4, 3, 5, 2))
    assert other.prediction_shape == (4, 3, 5, 1)
    assert set(other.truth) == {"w", "index"}
    assert torch.equal(other.xs, prompt.xs)
    assert other.scored is prompt.scored
    assert set(prompt.truth) == {"w", "index", "query_ys"}


def test_ask_nothing_asks_the_inputs(random_prompt: Draw) -> None:
    prompt = full(random_prompt).ask(None)
    assert prompt.queries is None
    assert prompt.prediction_shape == (4, 3, 1)


def test_ask_checks_its_queries(random_prompt: Draw) -> None:
    with pytest.raises(PromptError, match="queries have shape"):
        random_prompt(4, 3, 2).ask(zeros(4, 3, 2))


def with_all_parts(prompt: Prompt) -> Prompt:
    """The prompt with every optional part."""
    scored = prompt.xs[:, :, 0] > 0  # (B, n)
    return dataclasses.replace(prompt, scored=scored, truth={"w": prompt.xs[:, 0]})


def test_cat_joins_every_part(random_prompt: Draw) -> None:
    whole = with_all_parts(random_prompt(5, queries=2))
    parts = [whole.select(slice(0, 2)), whole.select(slice(2, 3)), whole.select(slice(3, 5))]
    joined = Prompt.cat(parts)
    for name in ("xs", "ys", "queries", "scored"):
        assert torch.equal(getattr(joined, name), getattr(whole, name))
    assert torch.equal(joined.truth["w"], whole.truth["w"])
    stream = random_prompt(3, layout="stream")
    assert Prompt.cat([stream]).layout == Prompt.cat([stream, stream]).layout == "stream"
    assert Prompt.cat([stream, stream]).scored is None


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        (lambda p: dataclasses.replace(p, scored=None), "scored .*: none beside torch.bool"),
        (lambda p: dataclasses.replace(p, truth={}), r"truth\['w'\]"),
        (lambda p: dataclasses.replace(p, truth={**p.truth, "b": p.ys}), r"truth\['b'\]"),
        (lambda p: dataclasses.replace(p, truth={"w": p.xs}), r"truth\['w'\]"),
        (lambda p: p.ask(None), "queries"),
        (lambda p: p.to(dtype=torch.float32), "xs"),
        (lambda p: dataclasses.replace(p, layout="stream"), "layout"),
        (lambda p: dataclasses.replace(p, ys=p.ys[..., :1]), "ys"),
    ],
)
def test_cat_refuses_prompts_that_differ(
    random_prompt: Draw, changed: Callable[[Prompt], Prompt], named: str
) -> None:
    prompt = with_all_parts(random_prompt(3, outputs=2, queries=2))
    other = changed(prompt)
    for prompts in ([prompt, prompt, other], [other, prompt]):
        with pytest.raises(PromptError, match="prompts that differ in"):
            Prompt.cat(prompts)
    with pytest.raises(PromptError, match=f"differ in {named}"):
        Prompt.cat([prompt, other])


def test_cat_refuses_no_prompts() -> None:
    with pytest.raises(PromptError, match="no prompts to concatenate"):
        Prompt.cat([])
