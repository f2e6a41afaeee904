"""Newton's method as softmax attention, against the learner that shares no line with it."""

from pathlib import Path

import pytest
import torch
from pydantic import ValidationError
from torch import Tensor

from innerloop.circuits.newton_softmax import NewtonSoftmax
from innerloop.core.errors import PromptError
from innerloop.core.iterate import predict, trajectory
from innerloop.core.learner import Learner
from innerloop.core.prompt import Prompt
from innerloop.learners import Newton
from innerloop.models.checkpoint import load, save
from innerloop.studies.gradient_circuits import NEWTON_SOFTMAX, NEWTON_SOFTMAX_PRINTED
from innerloop.tasks import LinearRegression


def draw(dims: int, points: int, *, seed: int = 0, batch: int = 3, noise: float = 1.0) -> Prompt:
    task = LinearRegression(dims=dims, noise=noise, dtype="float64")
    return task.sample(batch, points, generator=torch.Generator().manual_seed(seed))


def errors(settings: NewtonSoftmax, prompt: Prompt, *, model: Learner | None = None) -> Tensor:
    """The worst error after each step, divided by max(1, the answer): (K + 1,)."""
    with torch.no_grad():
        found = trajectory(model or settings.build(), prompt).predictions
    expected = trajectory(Newton(settings.steps, start=settings.alpha), prompt).predictions
    assert found.shape == expected.shape
    return ((found - expected).abs() / expected.abs().clamp(min=1)).flatten(1).amax(dim=1)


def within(found: Tensor, settings: NewtonSoftmax) -> bool:
    bound = settings.blueprint().bound
    return all(float(error) <= bound(step).total for step, error in enumerate(found))


@pytest.mark.parametrize("form", ["tight", "printed"])
@pytest.mark.parametrize(("dims", "points"), [(1, 6), (2, 4), (5, 11), (8, 12)])
def test_every_step_is_newtons_within_its_bound(dims: int, points: int, form: str) -> None:
    """At every prefix, with fewer and with more examples than dimensions."""
    settings = NewtonSoftmax.model_validate(
        {"dims": dims, "points": points, "steps": 12, "form": form}
    )
    assert within(errors(settings, draw(dims, points)), settings)


def test_queries_have_the_same_answers() -> None:
    settings = NewtonSoftmax(dims=3, points=6, steps=8)
    generator = torch.Generator().manual_seed(1)
    queries = torch.randn(3, 6, 2, 3, generator=generator, dtype=torch.float64)  # (B, n, q, d)
    assert within(errors(settings, draw(3, 6).ask(queries)), settings)


def test_small_and_dependent_inputs_stay_within_the_bound() -> None:
    """Eigenvalues of S that are tiny, or zero: where rounding doubles."""
    settings = NewtonSoftmax(dims=4, points=9, steps=16)
    prompt = draw(4, 9, batch=2)
    xs = prompt.xs.clone()  # (2, 9, 4)
    xs[0, :, 3] *= 1e-3
    xs[1, :, 2] = xs[1, :, 1]
    assert within(errors(settings, Prompt(xs=xs, ys=prompt.ys)), settings)


@pytest.mark.parametrize("row", [NEWTON_SOFTMAX, NEWTON_SOFTMAX_PRINTED])
@pytest.mark.parametrize("steps", [0, 1, 7])
def test_no_larger_than_theorem_4_1(row, steps: int) -> None:
    """One layer before, one a step, two after, two heads each; so k + 3 layers."""
    settings = row.settings(5, 11).model_copy(update={"steps": steps})
    limit, blueprint = row.limit(settings), settings.blueprint()
    assert len(blueprint.pre) <= limit.pre == 1
    assert len(blueprint.body) <= limit.step == 1
    assert len(blueprint.post) <= limit.post == 2
    assert blueprint.heads <= min(limit.heads) == 2
    assert blueprint.layers == steps + 3
    assert blueprint.residual.width == 5 * settings.dims + 6


def test_truncation_falls_to_the_floor_of_rounding() -> None:
    """As c^2 between c and -c, as c between c and 0; below some c rounding grows as 1 / c."""
    prompt = draw(3, 8, noise=0.0)

    def worst(scale: float, form: str) -> float:
        settings = NewtonSoftmax.model_validate(
            {"dims": 3, "points": 8, "steps": 8, "scale": scale, "form": form}
        )
        found = errors(settings, prompt)
        assert within(found, settings)
        return float(found.max())

    tight = [worst(scale, "tight") for scale in (1e-1, 1e-2, 1e-3)]
    assert tight[0] / tight[1] == pytest.approx(100, rel=0.2)
    assert tight[1] / tight[2] == pytest.approx(100, rel=0.2)
    printed = [worst(scale, "printed") for scale in (1e-2, 1e-3, 1e-4)]
    assert printed[0] / printed[1] == pytest.approx(10, rel=0.2)
    assert printed[1] / printed[2] == pytest.approx(10, rel=0.2)
    assert printed[1] > 100 * tight[2]
    # Truncation would be 1e-8 of the last: this is rounding, ten times as much at c / 10.
    floor = [worst(scale, "tight") for scale in (1e-7, 1e-8)]
    assert floor[0] > tight[2]
    assert 2 < floor[1] / floor[0] < 50


def test_the_chosen_scale_is_better_than_its_neighbours() -> None:
    prompt = draw(5, 11)
    chosen = float(errors(NewtonSoftmax(dims=5, points=11, steps=12), prompt).max())
    for scale in (1e-3, 1e-8):
        other = NewtonSoftmax(dims=5, points=11, steps=12, scale=scale)
        assert chosen < float(errors(other, prompt).max())


def test_errors_of_converged_prompts_do_not_grow() -> None:
    """What steps add once M is the inverse of S is not multiplied by the steps that follow."""
    settings = NewtonSoftmax(dims=2, points=30, steps=36)
    prompt = draw(2, 30, batch=8)
    with torch.no_grad():
        found = trajectory(settings.build(), prompt).predictions[:, :, -1]  # (37, 8, 1)
    expected = trajectory(Newton(36, start=settings.alpha), prompt).predictions[:, :, -1]
    worst = (found - expected).abs().flatten(1).amax(dim=1)  # (37,)
    converged = (expected[1:] - expected[:-1]).abs().flatten(1).amax(dim=1) < 1e-12  # (36,)
    first = int(converged.nonzero()[0])
    assert first < 16
    assert float(worst[36]) < 5 * float(worst[first : first + 4].max())


def test_too_many_steps_are_refused() -> None:
    with pytest.raises(ValidationError, match="take fewer, or the circuit newton-relu"):
        NewtonSoftmax(steps=41)


def test_prompts_beyond_the_declared_bounds_are_refused() -> None:
    settings = NewtonSoftmax(dims=2, points=4, steps=2, largest_input=2.0, largest_output=1.0)
    circuit = settings.build()
    xs, ys = torch.ones(1, 4, 2), torch.ones(1, 4, 1)
    predict(circuit, Prompt(xs=xs, ys=ys))
    with pytest.raises(PromptError, match=r"\|x\| = 2.828"):
        predict(circuit, Prompt(xs=2 * xs, ys=ys))
    with pytest.raises(PromptError, match=r"\|y\| = 2"):
        predict(circuit, Prompt(xs=xs, ys=2 * ys))
    with pytest.raises(PromptError, match="take fewer points"):
        predict(circuit, Prompt(xs=xs.repeat(1, 2, 1), ys=ys.repeat(1, 2, 1)))


def test_a_perturbed_weight_is_caught() -> None:
    """One weight of the step, off by one part in a hundred thousand."""
    settings = NewtonSoftmax(dims=3, points=7, steps=6)
    circuit, prompt = settings.build(), draw(3, 7)
    assert within(errors(settings, prompt, model=circuit), settings)
    with torch.no_grad():
        weight = circuit.get_parameter("backbone.blocks.0.attention.inward.weight")  # (3 h s, D)
        row, column = divmod(int((weight == 1).flatten().nonzero()[0]), weight.shape[1])
        weight[row, column] *= 1 + 1e-5
    assert not within(errors(settings, prompt, model=circuit), settings)


def test_saved_and_loaded_bit_for_bit(tmp_path: Path) -> None:
    circuit, prompt = NewtonSoftmax(dims=3, points=5, steps=4).build(), draw(3, 5)
    again = load(save(circuit, tmp_path))
    assert again.dtype == torch.float64
    for name, value in circuit.state_dict().items():
        assert torch.equal(value, again.state_dict()[name]), name
    with torch.no_grad():
        assert torch.equal(predict(circuit, prompt), predict(again, prompt))
