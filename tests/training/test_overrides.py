"""`key=value` over a configuration."""

import pytest

from innerloop.core.errors import ConfigurationError
from innerloop.models.backbone import Stack
from innerloop.models.lstm import LSTMConfig
from innerloop.models.transformer import TransformerConfig
from innerloop.training.optimizer import Optimizer
from innerloop.training.overrides import with_overrides
from innerloop.training.recipes import find_recipe
from tests.training.configs import LOOP, tiny


def test_nothing_changes_nothing() -> None:
    assert with_overrides(tiny(), []) == tiny()


def test_settings_are_changed_at_any_depth() -> None:
    found = with_overrides(
        tiny(), ["steps=7", "optimizer.learning_rate=1e-3", "model.backbone.loops=6", "window=null"]
    )
    optimizer = Optimizer.fast().model_copy(update={"learning_rate": 1e-3})
    model = {"backbone": {**LOOP, "loops": 6}}
    assert found == tiny(steps=7, optimizer=optimizer, model=model, window=None)


def test_the_model_follows_the_task() -> None:
    found = with_overrides(tiny(), ["task.dims=5", "points=9"]).model
    assert isinstance(found, TransformerConfig)
    assert (found.dims, found.points) == (5, 9)


def test_another_task_keeps_its_dimensions_only() -> None:
    noisy = tiny(task={"name": "linear", "dims": 3, "noise": 0.5})
    found = with_overrides(noisy, ["task.name=sparse", "task.sparsity=1"])
    assert found.task.model_dump() == {
        "dims": 3, "dtype": "float32", "sparsity": 1, "noise": 0.0,
    }  # fmt: skip


def test_a_stack_keeps_the_shape_of_the_loops_blocks() -> None:
    words = ["model.backbone.kind=stack", "model.backbone.layers=3", "window=null"]
    found = with_overrides(tiny(), words).model
    assert isinstance(found, TransformerConfig)
    assert found.backbone == Stack(width=8, heads=2, layers=3)


def test_another_kind_of_model_has_settings_of_its_own() -> None:
    words = ["model.kind=lstm", "model.width=8", "window=null"]
    assert with_overrides(tiny(), words).model == LSTMConfig(dims=2, width=8)


def test_named_optimizers_and_nested_growth() -> None:
    words = ["optimizer=paper", "curriculum.dims.start=1", "curriculum.dims.every=0.25"]
    found = with_overrides(tiny(), words)
    assert found.optimizer == Optimizer.paper()
    assert found.curriculum == tiny(curriculum={"dims": {"start": 1, "every": 0.25}}).curriculum


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["steps"], "'steps' is not a setting"),
        (["=3"], "'=3' is not a setting"),
        (["steps=1", "steps=2"], "given twice"),
        (["stepz=1"], "did you mean 'steps'?"),
        (["model.backbone.loopz=3"], "did you mean 'loops'?"),
        (["task.dmis=3"], "did you mean 'dims'?"),
        (["task.name=liner"], "did you mean 'linear'?"),
        (["task=linear"], "the task is 'linear'"),
        (["batch=0"], "greater than or equal to 1"),
        (["batch=many"], "valid integer"),
        (["model.dims=9"], "it follows the task"),
        (["model.kind=lsmt"], "lsmt"),
        (["steps=["], "cannot read the settings"),
        (["steps=${nothing}"], "nothing"),
    ],
)
def test_a_mistake_is_one_sentence(words: list[str], said: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        with_overrides(tiny(), words)
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("turn", [1, -1])
def test_a_named_optimiser_is_changed_by_what_is_given_beside_it(turn: int) -> None:
    words = ["optimizer=paper", "optimizer.learning_rate=3e-4"][::turn]
    optimizer = with_overrides(find_recipe("looped-linear", "smoke"), words).optimizer
    assert optimizer == Optimizer.paper().model_copy(update={"learning_rate": 3e-4})


def test_a_key_and_a_part_of_it_are_refused() -> None:
    words = ["curriculum.dims=null", "curriculum.dims.start=2"]
    with pytest.raises(ConfigurationError, match="one is a part of the other"):
        with_overrides(find_recipe("looped-linear", "smoke"), words)
