"""SGD as a transformer, an example a layer, against online gradient descent."""

from itertools import pairwise
from typing import Literal

import pytest
import torch
from pydantic import ValidationError

import innerloop as il
from innerloop.analysis.verify import verify
from innerloop.circuits.circuit import TransformerCircuit
from innerloop.circuits.gelu import Form
from innerloop.circuits.sgd import Sgd
from innerloop.core.errors import PromptError
from innerloop.core.prompt import Prompt
from innerloop.learners import OnlineGradientDescent
from innerloop.learners.in_turn import InTurn
from innerloop.models import load, save
from innerloop.models.block import Block
from innerloop.studies.akyurek_circuits import ROWS
from innerloop.tasks import LinearRegression
from tests.circuits.interpreter import run
from tests.learners.references import normal

Norm = Literal["pre", "mlp-only"]
NORMS: tuple[Norm, ...] = ("pre", "mlp-only")


def sample(dims: int, points: int, seed: int, batch: int = 8) -> Prompt:
    generator = torch.Generator().manual_seed(seed)
    return LinearRegression(dims=dims, dtype="float64").sample(batch, points, generator=generator)


def extreme(settings: Sgd, seed: int) -> Prompt:
    """Inputs and outputs as long as is allowed, and in no relation to each other."""
    xs = normal(seed, 16, settings.points, settings.dims)  # (16, n, d)
    xs = 0.999 * settings.input_bound * xs / xs.norm(dim=2, keepdim=True)
    return Prompt(
        xs=xs, ys=0.999 * settings.output_bound * normal(seed + 1, 16, settings.points, 1).sign()
    )


def learner(settings: Sgd) -> InTurn:
    return InTurn(OnlineGradientDescent(settings.rate, settings.penalty), settings.steps)


def worst_share(settings: Sgd, *prompts: Prompt) -> float:
    """The largest error, in parts of what is stated for its step."""
    circuit = TransformerCircuit(settings.blueprint())
    bound = circuit.blueprint.bound
    worst = 0.0
    for prompt in prompts:
        found = verify(circuit, learner(settings), prompt, tolerance=lambda step: bound(step).total)
        assert found.holds, str(found)
        assert found.steps[0].error == 0
        worst = max(worst, *(step.error / step.tolerance for step in found.steps[1:]))
    return worst


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("penalty", [0.0, 0.5])
@pytest.mark.parametrize("dims", [1, 2, 5, 8])
def test_every_step_and_prefix(dims: int, penalty: float, norm: Norm) -> None:
    """Within the bound, which is at most 100 times what is found over the sizes and seeds."""
    shares = [
        worst_share(
            Sgd(dims=dims, points=points, steps=points - 1, penalty=penalty, norm=norm),
            *(sample(dims, points, seed) for seed in range(3)),
        )
        for points in (4, 11)
    ]
    assert max(shares) > 0.01


@pytest.mark.parametrize("step", ["safe", "largest"])
def test_the_bound_holds_at_the_declared_limits(step: str) -> None:
    for dims, penalty in ((1, 0.0), (3, 0.7), (8, 0.0)):
        settings = Sgd(dims=dims, points=9, steps=8, penalty=penalty)
        if step == "largest":
            settings = Sgd(
                dims=dims, points=9, steps=8, penalty=penalty, step_size=2 * settings.rate
            )
        assert worst_share(settings, extreme(settings, dims)) <= 1


def test_predictions_keep_to_their_bound() -> None:
    for dims in (1, 3):
        for factor in (1.0, 1.7, 2.0):
            settings = Sgd(dims=dims, points=15, steps=14, penalty=0.3)
            settings = Sgd(
                dims=dims, points=15, steps=14, penalty=0.3, step_size=factor * settings.rate
            )
            prompt = extreme(settings, 5)
            answers = il.trajectory(learner(settings), prompt).predictions
            assert float(answers.abs().max()) <= settings.largest_prediction


def test_a_step_is_a_layer() -> None:
    """akyurek2022 theorem 1: O(1) layers a step and O(d) width."""
    for dims in (1, 4, 20):
        for points in (3, 12):
            blueprint = Sgd(dims=dims, points=points, steps=points - 1).blueprint()
            assert blueprint.layers == points
            assert blueprint.heads == 2
            assert blueprint.residual.width == 4 * dims + 10


def test_the_rows_are_within_the_theorem() -> None:
    for row in ROWS:
        settings = row.settings(3, 6)
        limit, blueprint = row.limit(settings), settings.blueprint()
        assert len(blueprint.pre) <= limit.pre
        assert len(blueprint.body) <= limit.step * blueprint.steps
        assert max(len(layer.heads) for layer in blueprint.pre) <= limit.heads[0]
        assert max(len(layer.heads) for layer in blueprint.body) <= limit.heads[1]
        assert not blueprint.post


def test_the_weights_stand_in_every_token() -> None:
    settings = Sgd(dims=3, points=7, steps=6, penalty=0.2)
    prompt = sample(3, 7, 0)
    expected = il.trajectory(learner(settings), prompt, states=True).states
    assert expected is not None
    for values, state in zip(
        run(TransformerCircuit(settings.blueprint()), prompt), expected, strict=True
    ):
        w = torch.from_numpy(values["w"][:, 1::2])  # (B, n, d)
        assert float((w - state.now[..., 0]).abs().max()) < 1e-11


@pytest.mark.parametrize(
    ("form", "scales", "order"),
    [("tight", (2.0, 4.0, 8.0), 8), ("printed", (64.0, 256.0, 1024.0, 4096.0), 2)],
)
def test_truncation_falls_to_the_rounding_floor(
    form: Form, scales: tuple[float, ...], order: int
) -> None:
    """At the declared limits operands are near their bounds, where truncation shows."""
    errors: list[float] = []
    base = Sgd(dims=2, points=5, steps=4, form=form)
    prompt = extreme(base, 0)
    for scale in (*scales, 1024 * base.program().product_scale):
        settings = base.model_copy(update={"scale": scale})
        circuit = TransformerCircuit(settings.blueprint())
        found = verify(
            circuit, learner(settings), prompt,
            tolerance=lambda step, bound=circuit.blueprint.bound: bound(step).total,
        )  # fmt: skip
        assert found.holds, str(found)
        errors.append(found.worst.error)
    for (coarse, s), (fine, t) in pairwise(zip(errors[:-1], scales, strict=True)):
        assert fine < coarse * (s / t) ** (order - 1)
    best = TransformerCircuit(base.blueprint())
    floor = verify(best, learner(base), prompt, tolerance=1.0).worst.error
    assert floor < errors[-2]
    assert floor < errors[-1]  # far beyond the best scale rounding has taken over


def test_the_printed_form_is_a_thousand_times_worse() -> None:
    prompt = sample(5, 11, 0)
    tight, printed = (
        verify(TransformerCircuit(s.blueprint()), learner(s), prompt, tolerance=1.0).worst.error
        for s in (Sgd(steps=10), Sgd(steps=10, form="printed"))
    )
    assert printed > 1000 * tight


def test_fewer_points_and_more_than_the_steps() -> None:
    settings = Sgd(dims=2, points=8, steps=3)
    circuit = TransformerCircuit(settings.blueprint())
    tolerance = circuit.blueprint.bound(3).total
    for points in (1, 2, 8):
        prompt = sample(2, points, points)
        assert verify(circuit, learner(settings), prompt, tolerance=tolerance).holds


def test_one_weight_that_is_off_is_found_out() -> None:
    settings = Sgd(dims=2, points=6, steps=5)
    circuit = TransformerCircuit(settings.blueprint())
    bound = circuit.blueprint.bound
    block = circuit.backbone.blocks[2]
    assert isinstance(block, Block)
    assert block.mlp is not None
    with torch.no_grad():
        row = block.mlp.down.weight[circuit.blueprint.residual.offsets()["f"]]  # (H,)
        row[row.abs().argmax()] *= 1 + 1e-6
    found = verify(
        circuit, learner(settings), sample(2, 6, 0), tolerance=lambda step: bound(step).total
    )
    assert not found.holds
    assert found.failed is not None
    assert found.failed.step == 3


def test_contract() -> None:
    circuit = Sgd(
        dims=3, points=8, steps=7, penalty=0.1, largest_input=12, largest_output=30
    ).build()
    il.check_learner(
        circuit, dims=3, points=8, outputs=(1,), tolerance=1e-9, scale=0.3,
        waived={
            "rotation": "weights in general promise nothing: the algorithm is rotation equivariant",
            "linearity": "weights in general promise nothing: the algorithm is linear in y",
        },
    )  # fmt: skip


def test_saved_and_loaded_bit_for_bit(tmp_path: object) -> None:
    circuit = Sgd(dims=2, points=4, steps=3).build()
    again = load(save(circuit, f"{tmp_path}/sgd"))
    prompt = sample(2, 4, 0)
    with torch.no_grad():
        assert torch.equal(il.predict(circuit, prompt), il.predict(again, prompt))


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"points": 5, "steps": 5}, "5 steps of 5 points: each step takes one example"),
        ({"points": 5, "steps": 0}, "take at least 1 and at most one fewer"),
        ({"step_size": 1.0}, "makes steps grow at inputs of length 6.24: take at most 0.0514"),
        ({"step_size": -1.0}, "greater than 0"),
        ({"penalty": -1.0}, "greater than or equal to 0"),
        ({"form": "loose"}, "'tight' or 'printed'"),
        ({"stepsize": 1.0}, "did you mean 'step_size'"),
    ],
)
def test_what_does_not_fit_is_refused(settings: dict[str, object], complaint: str) -> None:
    with pytest.raises(ValidationError, match=complaint):
        Sgd.model_validate(settings)


def test_prompts_beyond_the_declared_bounds_are_refused() -> None:
    circuit = Sgd(dims=2, points=4, steps=3, largest_input=2.0, largest_output=1.0).build()
    ones = torch.ones(1, 4, 2, dtype=torch.float64)  # (1, 4, 2)
    with pytest.raises(PromptError, match="made for at most 2"):
        il.predict(circuit, Prompt(xs=3 * ones, ys=ones[..., :1]))
    with pytest.raises(PromptError, match="made for at most 1"):
        il.predict(circuit, Prompt(xs=ones, ys=3 * ones[..., :1]))
