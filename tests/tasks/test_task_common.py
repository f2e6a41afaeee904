"""What holds of every task: its scale, its types, and that it is a function of its generator."""

import hypothesis
import hypothesis.strategies as st
import pytest
import torch

from innerloop.core.errors import ConfigurationError
from innerloop.core.task import Task
from innerloop.tasks.autoregression import RepresentationAR, unit_moments
from innerloop.tasks.function import FunctionTask
from innerloop.tasks.shifts import papers_shifts
from tests.tasks.task_statistics import CASES, LARGEST_Z, seeded

CLASSES = sorted({type(task) for task in CASES.values()}, key=lambda kind: kind.__name__)
SAME_AT_EVERY_POSITION = {
    name: task for name, task in CASES.items() if not isinstance(task, RepresentationAR)
}


@pytest.mark.parametrize("name", SAME_AT_EVERY_POSITION)
def test_the_scale_is_the_mean_square_of_y(name: str) -> None:
    task = CASES[name].model_copy(update={"dtype": "float64"})
    scale = task.scale()
    assert scale.shape == ()
    assert scale.dtype == torch.float64
    squares = task.sample(6000, 10, generator=seeded(1)).ys.square().mean(dim=2)  # (B, n)
    by_prompt = squares.mean(dim=1)  # (B,)
    error = float(by_prompt.std()) / len(by_prompt) ** 0.5
    # A fixed representation is normalised to 0.1% only, and says so.
    known = 1e-3 * float(scale) if "representation" in name else 0.0
    # Signs do not vary: their error is 0, and the two sides are equal.
    assert abs(float(by_prompt.mean()) - float(scale)) <= LARGEST_Z * error + known


@pytest.mark.parametrize("name", ["autoregression", "autoregression, order 1"])
def test_the_scale_of_a_time_series_is_the_mean_square_of_y_at_each_position(name: str) -> None:
    task = CASES[name]
    assert isinstance(task, RepresentationAR)
    points = 30
    squares = task.sample(4000, points, generator=seeded(2)).ys.double().square().mean(dim=2)
    sizes = (task.dims, task.order, task.layers, task.representation_seed)
    moments = unit_moments(*sizes, task.gain, task.first_variance)
    index = torch.arange(points).clamp(max=len(moments.errors) - 1)  # (n,)
    ours = task.noise**2 * moments.errors[index]  # (n,)
    sampled = squares.std(dim=0) / len(squares) ** 0.5  # (n,)
    z = (squares.mean(dim=0) - task.scale_at(points)) / (ours.square() + sampled.square()).sqrt()
    assert float(z.abs().max()) < LARGEST_Z


@pytest.mark.parametrize("name", CASES)
def test_the_same_generator_gives_the_same_prompts(name: str) -> None:
    task = CASES[name]
    before = torch.get_rng_state()
    one, two, other = (task.sample(3, 5, generator=seeded(seed)) for seed in (7, 7, 8))
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(one.xs, two.xs)
    assert torch.equal(one.ys, two.ys)
    assert not torch.equal(one.xs, other.xs)
    assert one.truth.keys() == two.truth.keys()
    assert all(torch.equal(one.truth[key], two.truth[key]) for key in one.truth)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", CASES)
def test_all_that_is_real_has_the_type_asked_for(name: str, dtype: str) -> None:
    task = CASES[name].model_copy(update={"dtype": dtype})
    prompt = task.sample(3, 5, generator=seeded(0))
    assert prompt.xs.dtype == prompt.ys.dtype == getattr(torch, dtype)
    for value in prompt.truth.values():
        assert value.dtype in (getattr(torch, dtype), torch.int64)


@pytest.mark.parametrize("kind", CLASSES)
@hypothesis.given(
    dims=st.integers(1, 7),
    points=st.integers(1, 12),
    batch=st.integers(1, 3),
    seed=st.integers(0, 2**32 - 1),
)
@hypothesis.settings(max_examples=10)
def test_prompts_of_any_size(
    kind: type[Task], dims: int, points: int, batch: int, seed: int
) -> None:
    sparsity = {"sparsity": 1} if "sparsity" in kind.model_fields else {}
    task = kind.model_validate({"dims": dims, **sparsity})
    prompt = task.sample(batch, points, generator=seeded(seed))
    assert prompt.xs.shape == (batch, points, dims)
    assert prompt.ys.shape[:2] == (batch, points)
    assert bool(torch.isfinite(prompt.ys).all())
    assert prompt.layout == ("pairs" if isinstance(task, FunctionTask) else "stream")


@pytest.mark.parametrize("name", CASES)
def test_prompts_have_the_form_that_their_task_states(name: str) -> None:
    plain = CASES[name]
    shifted = papers_shifts(plain).values() if isinstance(plain, FunctionTask) else ()
    for task in (plain, *shifted):
        form, points = task.form, min(9, task.most_points or 9)
        prompt = task.sample(50, points, generator=seeded(1))
        assert (prompt.dims, prompt.outputs, prompt.layout) == (
            form.dims, form.outputs, form.layout,
        )  # fmt: skip
        if form.layout == "pairs":
            assert bool((prompt.ys.abs() == 1).all()) == form.labels
        scored = [
            number
            for number in range(1, points + 1)
            if (short := task.sample(1, number, generator=seeded(1))).scored is None
            or bool(short.scored.any())
        ]
        assert scored == list(range(form.fewest_points, points + 1))


@pytest.mark.parametrize(("batch", "points"), [(0, 5), (3, 0), (-1, 5)])
@pytest.mark.parametrize("name", ["linear", "tree", "chain", "autoregression"])
def test_empty_samples_are_refused(name: str, batch: int, points: int) -> None:
    with pytest.raises(ConfigurationError, match="expected at least 1"):
        CASES[name].sample(batch, points, generator=seeded(0))


@pytest.mark.parametrize("name", CASES)
def test_a_task_survives_the_way_through_text(name: str) -> None:
    task = CASES[name]
    assert type(task).model_validate_json(task.model_dump_json()) == task
    assert hash(task) == hash(task.model_copy())


@pytest.mark.parametrize("kind", CLASSES)
def test_every_task_and_field_is_described(kind: type[Task]) -> None:
    assert kind.__doc__ is not None
    assert kind.__doc__.splitlines()[0].endswith(".")
    assert all(field.description for field in kind.model_fields.values())


@pytest.mark.parametrize("name", [name for name, task in CASES.items() if "noise" in repr(task)])
@pytest.mark.parametrize("noise", [-1.0, float("inf"), float("nan")])
def test_noise_is_a_standard_deviation(name: str, noise: float) -> None:
    task = CASES[name]
    with pytest.raises(ValueError, match="noise"):
        type(task).model_validate({**task.model_dump(), "noise": noise})


def test_labels_are_the_values_of_the_function_where_there_is_no_noise() -> None:
    for name, task in CASES.items():
        if not isinstance(task, FunctionTask) or getattr(task, "noise", 0) > 0:
            continue
        prompt = task.sample(4, 6, generator=seeded(5))
        assert torch.equal(task.evaluate(prompt.truth, prompt.xs), prompt.ys), name
