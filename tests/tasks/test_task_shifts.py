"""Shifts: each changes what it says and nothing else, and refuses what makes no sense."""

import math
import re

import hypothesis
import hypothesis.strategies as st
import pytest
import scipy.stats
import torch

from innerloop.core.errors import ShiftError
from innerloop.core.task import Task
from innerloop.core.tolerances import REFERENCE
from innerloop.tasks import shifts
from innerloop.tasks.autoregression import RepresentationAR
from innerloop.tasks.chain import ChainOfThought
from innerloop.tasks.classification import LinearClassification
from innerloop.tasks.covariance import skewed_spectrum
from innerloop.tasks.function import FunctionTask
from innerloop.tasks.linear import LinearRegression
from innerloop.tasks.network import TwoLayerNetwork
from innerloop.tasks.quadratic import QuadraticRegression
from innerloop.tasks.representation import RepresentationRegression
from innerloop.tasks.shifts import SHIFTS, Shift
from innerloop.tasks.sparse import SparseLinearRegression
from innerloop.tasks.tree import DecisionTree
from innerloop.tasks.vector import VectorGeneration
from tests.tasks.task_statistics import (
    LARGEST_Z,
    SIGNIFICANCE,
    normal_probability,
    seeded,
    uniform_probability,
    z_score,
)

WITH_QUERIES = {"orthogonal-query", "example-query", "random-orthant", "opposite-orthant"}
LINEAR = LinearRegression(dims=6, dtype="float64")
TASKS: list[FunctionTask] = [
    LINEAR,
    LinearRegression(dims=6, outputs=2, noise=0.3),
    SparseLinearRegression(dims=6, dtype="float64"),
    QuadraticRegression(dims=6),
    DecisionTree(dims=6),
    TwoLayerNetwork(dims=6, dtype="float64"),
    RepresentationRegression(dims=6),
    VectorGeneration(dims=6),
    LinearClassification(dims=6, dtype="float64"),
]


def shifted(name: str, task: Task) -> Shift:
    """The shift of this name, with a factor where it needs one."""
    factor = {"factor": 2.0} if "factor" in SHIFTS[name].model_fields else {}
    return SHIFTS[name](task=task, **factor)


def allowed(name: str, task: FunctionTask) -> bool:
    """Which of the tasks above a shift takes."""
    return not (
        isinstance(task, LinearClassification) and name in {"noisy-outputs", "scaled-weights"}
    )


PAIRS = [(name, task) for name in SHIFTS for task in TASKS if allowed(name, task)]


@pytest.mark.parametrize(("name", "task"), PAIRS)
def test_every_shift_of_every_task(name: str, task: FunctionTask) -> None:
    shift = shifted(name, task)
    assert (shift.dims, shift.dtype) == (task.dims, task.dtype)
    assert torch.equal(shift.scale(), task.scale())
    prompt = shift.sample(4, 6, generator=seeded(0))
    again = shift.sample(4, 6, generator=seeded(0))
    assert torch.equal(prompt.ys, again.ys)
    assert prompt.xs.dtype == task.torch_dtype
    assert (prompt.queries is not None) == (name in WITH_QUERIES)
    noiseless = getattr(task, "noise", 0) == 0
    if noiseless and name != "noisy-outputs":
        assert torch.equal(task.evaluate(prompt.truth, prompt.xs), prompt.ys)
    if prompt.queries is not None:
        assert prompt.queries.shape == (4, 6, 1, 6)
        assert prompt.truth["query_ys"].shape == (4, 6, 1, prompt.outputs)
        if noiseless:
            answers = task.evaluate(prompt.truth, prompt.queries[:, :, 0])  # (B, n, k)
            assert torch.equal(answers, prompt.truth["query_ys"][:, :, 0])


@pytest.mark.parametrize(
    "shift",
    [
        shifts.ScaledInputs(task=LINEAR, factor=1),
        shifts.ScaledWeights(task=LINEAR, factor=1),
        shifts.NoisyOutputs(task=LINEAR, noise=0),
    ],
)
def test_a_shift_by_nothing_gives_the_very_same_prompts(shift: Shift) -> None:
    ours, plain = (task.sample(3, 5, generator=seeded(1)) for task in (shift, LINEAR))
    assert torch.equal(ours.xs, plain.xs)
    assert torch.equal(ours.ys, plain.ys)
    assert torch.equal(ours.truth["w"], plain.truth["w"])


def test_skewed_inputs_have_the_skewed_eigenvalues_and_the_trace_of_plain_ones() -> None:
    points = 20_000
    prompt = shifts.SkewedCovariance(task=LINEAR).sample(3, points, generator=seeded(2))
    moments = prompt.xs.mT @ prompt.xs / points  # (B, d, d)
    ratio = torch.linalg.eigvalsh(moments).flip(-1) / skewed_spectrum(6)  # (B, d)
    deviation = (math.sqrt(6) + 4) / math.sqrt(points)  # Davidson and Szarek, p < 1e-3
    assert float(ratio.max()) < (1 + deviation) ** 2
    assert float(ratio.min()) > (1 - deviation) ** 2
    leading = torch.linalg.eigh(moments).eigenvectors[..., -1]  # (B, d)
    assert float((leading[0] * leading[1]).sum().abs()) < 0.999  # a basis for each prompt
    squares = prompt.xs[:, :1000].square().sum(dim=2)  # (B, 1000)
    assert abs(z_score(squares, 6)) < LARGEST_Z


@pytest.mark.parametrize(("dims", "half"), [(1, 1), (2, 1), (5, 3), (6, 3)])
def test_half_of_the_dimensions(dims: int, half: int) -> None:
    task = LinearRegression(dims=dims, dtype="float64")
    xs = shifts.HalfSubspace(task=task).sample(2000, 8, generator=seeded(3)).xs  # (B, n, d)
    # Noise of rounding, 1e-15, is far below the smallest of the true singular values.
    rank = (torch.linalg.svdvals(xs) > 1e-9).sum(dim=1)  # (B,)
    assert bool((rank == half).all())
    squares = xs.square().sum(dim=2).mean(dim=1)  # (B,)
    assert abs(z_score(squares, dims)) < LARGEST_Z
    joint = torch.cat([xs[0], xs[1]])  # (2n, d): two prompts span more than one
    assert int((torch.linalg.svdvals(joint) > 1e-9).sum()) == min(2 * half, dims)


def test_noise_comes_on_top_of_the_labels() -> None:
    task = LinearRegression(dims=3, noise=0.6, dtype="float64")
    prompt = shifts.NoisyOutputs(task=task, noise=0.8).sample(500, 4, generator=seeded(4))
    noise = prompt.ys - prompt.xs @ prompt.truth["w"]  # (B, n, 1)
    assert normal_probability(noise, 1.0) > SIGNIFICANCE  # 0.6^2 + 0.8^2 = 1
    assert shifts.NoisyOutputs(task=task).noise == 1


@hypothesis.given(dims=st.integers(1, 9), data=st.data(), seed=st.integers(0, 2**32 - 1))
def test_orthogonal_queries(dims: int, data: st.DataObject, seed: int) -> None:
    points = data.draw(st.integers(1, dims))
    task = LinearRegression(dims=dims, dtype="float64")
    prompt = shifts.OrthogonalQuery(task=task).sample(3, points, generator=seeded(seed))
    assert prompt.queries is not None
    queries = prompt.queries[:, :, 0]  # (B, n, d)
    products = queries @ prompt.xs.mT  # (B, n, n): query i against example j
    assert float(products.tril(-1).abs().max()) < REFERENCE
    assert float(torch.linalg.vector_norm(queries, dim=2).min()) > 0


def test_orthogonal_queries_have_the_length_of_inputs() -> None:
    task = LinearRegression(dims=4, dtype="float64")
    prompt = shifts.OrthogonalQuery(task=task).sample(1000, 4, generator=seeded(5))
    assert prompt.queries is not None
    lengths = prompt.queries.square().sum(dim=3)[..., 0]  # (B, n)
    for i in range(4):
        assert scipy.stats.kstest(lengths[:, i].numpy(), "chi2", (4,)).pvalue > SIGNIFICANCE
    # In the one direction that three examples leave, both ways are as likely.
    assert abs(z_score(prompt.queries[:, 3, 0, 0].sign(), 0)) < LARGEST_Z


def test_orthogonal_queries_of_degenerate_inputs() -> None:
    task = LinearRegression(dims=4, covariance=(1, 1, 0, 0), dtype="float64")
    prompt = shifts.OrthogonalQuery(task=task).sample(5, 4, generator=seeded(6))
    assert prompt.queries is not None
    products = prompt.queries[:, :, 0] @ prompt.xs.mT  # (B, n, n)
    assert float(products.tril(-1).abs().max()) < REFERENCE


def test_orthogonal_queries_end_with_the_dimensions() -> None:
    with pytest.raises(ShiftError, match="points is 7, expected at most dims, 6: no query is"):
        shifts.OrthogonalQuery(task=LINEAR).sample(2, 7, generator=seeded(0))


def test_example_queries_repeat_an_earlier_example() -> None:
    prompt = shifts.ExampleQuery(task=LINEAR).sample(3000, 5, generator=seeded(7))
    assert prompt.queries is not None
    same = (prompt.queries == prompt.xs[:, None]).all(dim=3)  # (B, n, n): query i is example j
    assert not same[:, 0].any()  # a fresh input
    assert normal_probability(prompt.queries[:, 0]) > SIGNIFICANCE
    for i in range(1, 5):
        assert bool((same[:, i].sum(dim=1) == 1).all())
        chosen = same[:, i].int().argmax(dim=1)  # (B,)
        assert int(chosen.max()) < i
        assert i == 1 or uniform_probability(chosen, i) > SIGNIFICANCE
    answers = prompt.truth["query_ys"][:, 1:, 0, 0]  # (B, n - 1)
    index = same[:, 1:].int().argmax(dim=2)  # (B, n - 1)
    assert torch.equal(answers, prompt.ys[..., 0].gather(1, index))


def test_example_queries_of_a_single_point() -> None:
    prompt = shifts.ExampleQuery(task=LINEAR).sample(2, 1, generator=seeded(8))
    assert prompt.queries is not None
    assert not torch.equal(prompt.queries[:, :, 0], prompt.xs)


@pytest.mark.parametrize("name", ["random-orthant", "opposite-orthant"])
def test_examples_lie_in_one_orthant_and_queries_in_another(name: str) -> None:
    prompt = shifted(name, LINEAR).sample(2000, 3, generator=seeded(9))
    assert prompt.queries is not None
    example, query = prompt.xs.sign(), prompt.queries[:, :, 0].sign()  # (B, n, d)
    assert bool((example == example[:, :1]).all())
    assert bool((query == query[:, :1]).all())
    orthant = ((example[:, 0] > 0).long() * 2 ** torch.arange(6)).sum(dim=1)  # (B,)
    assert uniform_probability(orthant, 64) > SIGNIFICANCE
    if name == "opposite-orthant":
        assert torch.equal(query, -example)
    else:
        # All four pairs of signs are as likely: the orthants are independent.
        pair = (2 * (example[:, 0] > 0).long() + (query[:, 0] > 0).long())[:, 2]  # (B,)
        assert uniform_probability(pair, 4) > SIGNIFICANCE
    signs = torch.randint(2, (2, 2000, 3, 6), generator=seeded(10)) * 2 - 1
    assert normal_probability(prompt.xs * signs[0]) > SIGNIFICANCE  # only signs were changed
    assert normal_probability(prompt.queries[:, :, 0] * signs[1]) > SIGNIFICANCE


def test_scaled_inputs() -> None:
    prompt = shifts.ScaledInputs(task=LINEAR, factor=3).sample(300, 4, generator=seeded(11))
    assert normal_probability(prompt.xs, 3) > SIGNIFICANCE
    assert normal_probability(prompt.truth["w"]) > SIGNIFICANCE


@pytest.mark.parametrize("task", [task for task in TASKS if task.readout is not None])
def test_scaled_weights(task: FunctionTask) -> None:
    shift = shifts.ScaledWeights(task=task, factor=3)
    ours, plain = (one.sample(3, 5, generator=seeded(12)) for one in (shift, task))
    noise = plain.ys - task.evaluate(plain.truth, plain.xs)  # (B, n, k): it is not scaled
    expected = 3 * (plain.ys - noise) + noise  # (B, n, k)
    rounding = 1e-4 if task.dtype == "float32" else REFERENCE
    assert float((ours.ys - expected).abs().max()) < rounding * float(expected.abs().max())
    assert torch.equal(ours.xs, plain.xs)


def test_queries_are_labelled_with_noise_as_examples_are() -> None:
    task = LinearRegression(dims=5, noise=0.5, dtype="float64")
    prompt = shifts.OppositeOrthant(task=task).sample(400, 4, generator=seeded(13))
    assert prompt.queries is not None
    clean = prompt.queries @ prompt.truth["w"][:, None]  # (B, n, 1, k)
    assert normal_probability(prompt.truth["query_ys"] - clean, 0.5) > SIGNIFICANCE


def test_queries_have_the_covariance_of_the_examples_of_their_prompt() -> None:
    task = LinearRegression(dims=2, covariance=(1.0, 0.0), dtype="float64")
    prompt = shifts.ExampleQuery(task=task).sample(20, 3, generator=seeded(14))
    assert prompt.queries is not None
    # All inputs of a prompt lie on a line, and so does the fresh one.
    together = torch.cat([prompt.xs, prompt.queries[:, 0]], dim=1)  # (B, n + 1, d)
    assert float(torch.linalg.svdvals(together)[:, 1].max()) < REFERENCE


STREAMS = [RepresentationAR(dims=3), ChainOfThought(dims=3)]


@pytest.mark.parametrize("name", SHIFTS)
@pytest.mark.parametrize("stream", STREAMS)
def test_streams_are_refused(name: str, stream: Task) -> None:
    with pytest.raises(ShiftError, match=r"cannot shift \w+: it labels no inputs with a function"):
        shifted(name, stream)


@pytest.mark.parametrize("name", SHIFTS)
def test_shifts_of_shifts_are_refused(name: str) -> None:
    inner = shifts.ScaledInputs(task=LINEAR, factor=2)
    with pytest.raises(ShiftError, match="cannot shift ScaledInputs: it is shifted already"):
        shifted(name, inner)


@pytest.mark.parametrize(
    ("name", "task", "sentence"),
    [
        (
            "noisy-outputs",
            LinearClassification(dims=3),
            "NoisyOutputs cannot shift LinearClassification: its outputs are classes, "
            "and a class with noise on it is none.",
        ),
        (
            "scaled-weights",
            LinearClassification(dims=3),
            "ScaledWeights cannot shift LinearClassification: "
            "it has no weights that its outputs are linear in.",
        ),
        (
            "skewed-covariance",
            LinearRegression(dims=3, covariance="ill-conditioned"),
            "SkewedCovariance cannot shift LinearRegression: its inputs have a covariance of "
            "their own; give one with covariance='identity'.",
        ),
    ],
)
def test_shifts_that_make_no_sense_are_refused(name: str, task: Task, sentence: str) -> None:
    with pytest.raises(ShiftError, match=f"^{re.escape(sentence)}$"):
        shifted(name, task)


def test_dims_and_type_are_the_tasks() -> None:
    with pytest.raises(ShiftError, match="dims of ScaledInputs is 3, but its task has 6: leave it"):
        shifts.ScaledInputs(task=LINEAR, factor=2, dims=3)
    with pytest.raises(ShiftError, match="dtype of ScaledInputs is 'float32'"):
        shifts.ScaledInputs(task=LINEAR, factor=2, dtype="float32")
    assert shifts.ScaledInputs(task=LINEAR, factor=2, dims=6).dims == 6


@pytest.mark.parametrize("factor", [0, -1, float("inf")])
def test_factors_are_positive_numbers(factor: float) -> None:
    for kind in (shifts.ScaledInputs, shifts.ScaledWeights):
        with pytest.raises(ValueError, match="factor"):
            kind(task=LINEAR, factor=factor)


def test_anything_but_a_task_is_refused() -> None:
    with pytest.raises(ValueError, match="instance of FunctionTask"):
        shifts.HalfSubspace.model_validate({"task": {"dims": 3}})
    with pytest.raises(ValueError, match="task"):
        shifts.HalfSubspace.model_validate({})


def test_a_shift_shows_its_task_whole() -> None:
    shift = shifts.ScaledInputs(task=LinearRegression(dims=2, noise=0.5), factor=3)
    dump = shift.model_dump()
    assert dump["factor"] == 3
    assert dump["task"]["noise"] == 0.5
    assert set(dump) == {"factor", "task"}
    assert hash(shift) == hash(
        shifts.ScaledInputs(task=LinearRegression(dims=2, noise=0.5), factor=3)
    )


def test_only_noisy_outputs_add_noise_of_which_the_variance_is_known() -> None:
    added = {name: shift.added_noise for name, shift in shifts.papers_shifts(LINEAR).items()}
    assert added == {name: float(name == "noisy-outputs") for name in added}
    assert shifts.NoisyOutputs(task=LINEAR, noise=3).added_noise == 9


def test_a_task_without_a_function_has_no_shifts() -> None:
    assert shifts.papers_shifts(RepresentationAR(dims=3)) == {}


def test_the_table_holds_every_shift_under_its_name() -> None:
    # Truncated, in a file of its own, is the curriculum's: nobody evaluates on it by name.
    here = {kind for kind in Shift.__subclasses__() if kind.__module__ == Shift.__module__}
    assert set(SHIFTS.values()) == here
    for name, kind in SHIFTS.items():
        assert "".join(part.capitalize() for part in name.split("-")) == kind.__name__
        assert kind.__doc__ is not None
        assert kind.__doc__.splitlines()[0].endswith(".")
        assert all(field.description for field in kind.model_fields.values())
