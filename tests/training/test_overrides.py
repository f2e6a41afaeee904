"""`key=value` over a configuration."""

import pytest

from innerloop.core.errors import ConfigurationError
from innerloop.models.backbone import Stack
from innerloop.models.lstm import LSTMConfig
from innerloop.models.transformer import TransformerConfig
from innerloop.training.curriculum import Growth
from innerloop.training.data import sizes_at
from innerloop.training.optimizer import Optimizer
from innerloop.training.overrides import with_overrides
from innerloop.training.recipes import find_recipe
from tests.training.configs import LOOP, tiny


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("noise=0.5", "unknown key 'noise': did you mean 'task.noise'?"),
        ("learning_rate=1", "unknown key 'learning_rate': did you mean 'optimizer.learning_rate'?"),
        ("model.loops=3", "unknown key 'model.loops': did you mean 'model.backbone.loops'?"),
        ("dims=3", "unknown key 'dims': did you mean 'task.dims' or 'curriculum.dims'?"),
        ("stepz=3", "unknown key of RunConfig 'stepz': did you mean 'steps'?"),
    ],
)
def test_a_setting_of_a_part_is_recognised_without_the_part(word: str, meant: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        with_overrides(tiny(), [word, "batch=2"])
    assert str(error.value) == meant


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
    ("words", "sentence"),
    [
        (["steps"], "'steps' is not a setting"),
        (["=3"], "'=3' is not a setting"),
        (["steps=1", "steps=2"], "given twice"),
        (["optimizer=fast", "optimizer=paper"], "given twice"),
        (["optimizer=fast", "optimizer=fast"], "given twice"),
        (["optimizer=papr"], "did you mean 'paper'?"),
        (["optimizer.learning_rate=1", "optimizer=papr"], "did you mean 'paper'?"),
        (["optimizer={kind: adam}", "optimizer.clip=1"], "one is a part of the other"),
        (["optimizer.betas=[0.9]"], "the key 'optimizer.betas' is [0.9]: give at least 2 values"),
        (["optimizer.betas=[0.9, 0.9, 0.9]"], "'optimizer.betas'"),
        (["task={name: linear}", "task.dims=3"], "both 'task' and 'task.dims' are given"),
        (["task.dims=3", "task={name: linear}"], "both 'task' and 'task.dims' are given"),
        (["task=linear", "task.name=tree"], "given twice"),
        (["task=liner"], "did you mean 'linear'?"),
        (["task=no_such_module:Thing"], "there is no module 'no_such_module'"),
        (["task=tests.training.configs:tiny"], "is of the type function, expected a task"),
        (["stepz=1"], "did you mean 'steps'?"),
        (["model.backbone.loopz=3"], "did you mean 'loops'?"),
        (["task.dmis=3"], "did you mean 'dims'?"),
        (["task.name=liner"], "did you mean 'linear'?"),
        (["task=3"], "unknown task '3'"),
        (["batch=0"], "greater than or equal to 1"),
        (["batch=many"], "valid integer"),
        (["model.dims=9"], "it follows the task"),
        (["model.kind=lsmt"], "lsmt"),
        (["steps=["], "the key 'steps' is '[', which is no number"),
        (["steps=${nothing}"], "nothing"),
    ],
)
def test_a_mistake_is_one_sentence(words: list[str], sentence: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        with_overrides(tiny(), words)
    assert sentence in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("turn", [1, -1])
def test_a_named_optimiser_is_changed_by_what_is_given_beside_it(turn: int) -> None:
    words = ["optimizer=paper", "optimizer.learning_rate=3e-4"][::turn]
    optimizer = with_overrides(find_recipe("looped-linear", "smoke"), words).optimizer
    assert optimizer == Optimizer.paper().model_copy(update={"learning_rate": 3e-4})


@pytest.mark.parametrize("turn", [1, -1])
def test_a_key_and_a_part_of_it_are_refused(turn: int) -> None:
    words = ["curriculum.dims=null", "curriculum.dims.start=2"][::turn]
    with pytest.raises(ConfigurationError, match="one is a part of the other"):
        with_overrides(find_recipe("looped-linear", "smoke"), words)


def test_an_optimiser_may_be_written_out() -> None:
    found = with_overrides(tiny(), ["optimizer={kind: adam, clip: 2.0}"]).optimizer
    assert found == Optimizer.fast().model_copy(update={"kind": "adam", "clip": 2.0})


def test_dimensions_grow_where_the_recipe_has_no_curriculum() -> None:
    recipe = find_recipe("looped-linear")
    assert recipe.curriculum.dims is None
    words = ["task.dims=10", "curriculum.dims.start=2", "curriculum.dims.every=0.05"]
    assert with_overrides(recipe, words).curriculum.dims == Growth(start=2, every=0.05)


def test_fewer_dimensions_than_the_recipes_curriculum_starts_with() -> None:
    config = with_overrides(find_recipe("looped-linear", "paper"), ["task.dims=4", "points=9"])
    assert {sizes_at(config, step).dims for step in (0, 499_999)} == {4}
    assert {sizes_at(config, step).points for step in (0, 499_999)} == {9}
