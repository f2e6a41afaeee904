"""What determines a run, what follows from what, and what is refused."""

import subprocess
import sys
from typing import Any

import pytest
from pydantic import ValidationError

from innerloop.models.linear_looped import LinearLoopedConfig
from innerloop.models.lstm import LSTMConfig
from innerloop.models.transformer import TransformerConfig
from innerloop.tasks.linear import LinearRegression
from innerloop.training.config import RunConfig
from innerloop.training.optimizer import Optimizer
from innerloop.training.recipes import recipe
from tests.training.configs import LOOP, STACK, stack, tiny


def refusal(**changes: Any) -> str:
    with pytest.raises(ValidationError) as raised:
        tiny(**changes)
    return str(raised.value)


@pytest.mark.parametrize(
    ("task", "points", "sizes"),
    [
        ({"name": "linear", "dims": 3, "outputs": 2}, 7, (3, 2, 7, "pairs")),
        ({"name": "tree", "dims": 4}, 9, (4, 1, 9, "pairs")),
        ({"name": "chain", "dims": 3, "layers": 2}, 6, (3, 3, 6, "stream")),
    ],
)
def test_the_model_follows_the_task(
    task: dict[str, Any], points: int, sizes: tuple[int, int, int, str]
) -> None:
    model = tiny(task=task, points=points).model
    assert isinstance(model, TransformerConfig)
    assert (model.dims, model.outputs, model.points, model.layout) == sizes


def test_every_kind_of_model_follows_the_task() -> None:
    lstm = stack(model={"kind": "lstm", "width": 8, "layers": 2}).model
    looped = tiny(model={"kind": "linear-looped", "loops": 4}).model
    assert isinstance(lstm, LSTMConfig)
    assert isinstance(looped, LinearLoopedConfig)
    assert lstm.dims == looped.dims == 2


def test_a_task_and_a_model_are_accepted_as_objects() -> None:
    described = tiny()
    given = tiny(task=LinearRegression(dims=2), model=described.model)
    assert given == described
    assert given.key() == described.key()


@pytest.mark.parametrize("key", ["dims", "outputs", "points", "layout"])
def test_a_model_for_another_task_is_refused(key: str) -> None:
    other = {"dims": 3, "outputs": 2, "points": 9, "layout": "stream"}
    given = {"outputs": 2} if key == "layout" else {}  # a stream's outputs are its dimensions
    sentence = refusal(model={"backbone": LOOP, key: other[key], **given})
    assert "it follows the task" in sentence
    assert f"model.{'outputs' if given else key}" in sentence


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"task": {"name": "liner", "dims": 2}}, "did you mean 'linear'?"),
        ({"task": {"name": "linear", "dmis": 2}}, "did you mean 'dims'?"),
        ({"task": {"dims": 2}}, "the task has no name"),
        ({"task": 3}, "the task is 3"),
        ({"task": {"name": "linear", "dims": 0}}, "the key 'dims' of LinearRegression is 0"),
        ({"bach": 3}, "did you mean 'batch'?"),
        ({"optimizer": "fats"}, "did you mean 'fast'?"),
        ({"batch": 0}, "greater than or equal to 1"),
        ({"seed": 2**63}, "2^63"),
        ({"model": {"backbone": {**LOOP, "heads": 3}}}, "3 heads do not divide the width 8"),
        ({"model": {"backbone": {**LOOP, "mask": "full"}}}, "would see the answers"),
        ({"model": {"backbone": LOOP, "head": "binary"}}, "are not labels"),
        (
            {"model": {"backbone": STACK}},
            "window is given, but the model does not loop: set window=null",
        ),
        (
            {"model": {"backbone": STACK}, "window": None, "loops": {"start": 1}},
            "loops.start is given, but the model does not loop: set loops.start=null",
        ),
        ({"loops": {"start": 5}}, "expected at most the model's loops, 4"),
        ({"model": {"backbone": {**LOOP, "inject": "none"}}}, "no gradient reaches the input"),
        ({"model": {"head": "classes", "backbone": LOOP}}, "no task has them yet"),
        ({"curriculum": {"points": {"start": 1, "every": 0}}}, "at least 1"),
        ({"curriculum": {"points": {"start": 1, "every": 1.5}}}, "neither a number of steps"),
        (
            {"pool": 3, "curriculum": {"points": {"start": 1, "every": 1}}},
            "prompts of one size: set pool=null, or curriculum.points=null",
        ),
        (
            {
                "task": {"name": "chain", "dims": 2},
                "curriculum": {"dims": {"start": 1, "every": 1}},
            },
            "can be left out: set curriculum.dims=null",
        ),
        (
            {
                "task": {"name": "representation-ar", "dims": 2, "order": 3},
                "curriculum": {"points": {"start": 2, "every": 1}},
            },
            "scores none of the first 2 points",
        ),
        ({"optimizer": {"betas": (0.9, 1.0)}}, "betas"),
    ],
)
def test_what_makes_no_sense_is_refused(changes: dict[str, Any], sentence: str) -> None:
    assert sentence in refusal(**changes)


def test_binary_labels_are_accepted_where_the_task_has_them() -> None:
    task = {"name": "classification", "dims": 2}
    assert tiny(task=task, model={"backbone": LOOP, "head": "binary"}).model.head == "binary"


def test_optimizers_have_names() -> None:
    assert tiny(optimizer="paper").optimizer == Optimizer.paper()
    assert tiny(optimizer="fast").optimizer == Optimizer.fast()
    assert tiny().optimizer == Optimizer.fast()


@pytest.mark.parametrize("name", ["linear", "tree", "classification", "chain"])
def test_a_configuration_survives_json(name: str) -> None:
    config = tiny(task={"name": name, "dims": 2})
    again = RunConfig.model_validate_json(config.model_dump_json())
    assert again == config
    assert again.key() == config.key()


def test_eigenvalues_survive_json() -> None:
    config = tiny(task=LinearRegression(dims=2, covariance=(1.0, 4.0)))
    assert RunConfig.model_validate_json(config.model_dump_json()) == config


CHANGES: dict[str, Any] = {
    "task": {"name": "linear", "dims": 2, "noise": 0.5},
    "points": 6,
    "model": {"backbone": {**LOOP, "loops": 5}},
    "steps": 13,
    "batch": 5,
    "accumulate": 2,
    "seed": 1,
    "optimizer": "paper",
    "label_smoothing": 0.1,
    "balance": True,
    "spread": "small",
    "identity_start": True,
    "average": 0.1,
    "window": 3,
    "loops": {"start": 2},
    "curriculum": {"points": {"start": 2, "every": 2}},
    "pool": 8,
    "precision": "bfloat16",
    "compile": True,
    "kernels": False,
    "threads": 2,
    "device": "cuda",
    "log_every": 3,
    "evaluate_every": 5,
    "target": 0.5,
}


def test_every_setting_is_part_of_the_key_or_changes_nothing() -> None:
    assert {*CHANGES, "save_every"} == set(RunConfig.model_fields)


@pytest.mark.parametrize("setting", CHANGES)
def test_the_key_sees_every_setting(setting: str) -> None:
    assert tiny(**{setting: CHANGES[setting]}).key() != tiny().key()


def test_how_often_it_is_saved_is_not_part_of_the_key() -> None:
    assert tiny(save_every=3).key() == tiny().key()


def test_the_key_is_that_of_the_values_not_of_how_they_are_written() -> None:
    growth = {"start": 1, "every": 4}
    same = {"start": 1, "every": 4.0, "by": 1}
    config = tiny(curriculum={"points": growth})
    assert config.key() == tiny(curriculum={"points": same}).key()
    assert len(config.key()) == 16


def test_the_key_is_the_same_in_another_process() -> None:
    program = (
        "import sys; from innerloop.training.config import RunConfig; "
        "print(RunConfig.model_validate_json(sys.argv[1]).key())"
    )
    found = subprocess.run(
        [sys.executable, "-c", program, tiny().model_dump_json()],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert found.stdout.strip() == tiny().key()


def test_a_setting_at_its_default_is_not_part_of_the_key() -> None:
    """So that a version which adds settings finds the runs of one that did not have them."""

    class Later(RunConfig):
        added: int = 3

    config = tiny()
    values = {name: getattr(config, name) for name in RunConfig.model_fields}
    assert Later(**values).key() == config.key()
    assert Later(**values, added=4).key() != config.key()


def test_kinds_with_equal_settings_have_different_keys() -> None:
    """A kind is a default of its class, and still told."""
    keys = {
        tiny(
            window=None, model={"backbone": {"kind": kind, "width": 8, "heads": 2, "layers": 3}}
        ).key()
        for kind in ("loop", "stack")
    }
    assert len(keys) == 2


def test_losses_that_are_no_errors_of_positions_cannot_be_balanced() -> None:
    with pytest.raises(ValueError, match="balance is true, but the losses of a 'gaussian' head"):
        recipe("tabular-regression", scale="smoke", balance=True)
