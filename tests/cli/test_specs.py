"""Text of the command line into things."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from innerloop.cli.specs import build, find, settings_of
from innerloop.core.errors import ConfigurationError
from innerloop.core.settings import is_setting, parse_settings, parse_spec, written_as
from innerloop.learners import LEARNERS, GradientDescent, NearestNeighbors, Newton, Ridge
from innerloop.tasks import TASKS, LinearRegression


def test_names_settings_and_lists() -> None:
    assert parse_spec("ols") == ("ols", {})
    assert parse_spec("ridge:penalty=0.1") == ("ridge", {"penalty": 0.1})
    name, settings = parse_spec("gradient-descent:steps=3,start=1,2,average=true")
    assert name == "gradient-descent"
    assert settings == {"steps": 3, "start": [1, 2], "average": True}
    learner = build(GradientDescent, settings)
    assert (learner.steps, learner.start, learner.average) == (3, (1.0, 2.0), True)


@pytest.mark.parametrize(
    ("words", "settings"),
    [
        (["penalty=0.1"], {"penalty": 0.1}),
        (["task.dims=5", "task.noise=1e-3", "steps=7"],
         {"task": {"dims": 5, "noise": 1e-3}, "steps": 7}),
        (["covariance=1,2.5"], {"covariance": [1, 2.5]}),
        (["covariance=[1, 2.5]"], {"covariance": [1, 2.5]}),
        (["sizes=[[1,2],[3,4]]"], {"sizes": [[1, 2], [3, 4]]}),
        (["optimizer={kind: adam, clip: 2}"], {"optimizer": {"kind": "adam", "clip": 2}}),
        (["window=null", "average=true", "label='1,2'"],
         {"window": None, "average": True, "label": "1,2"}),
        (["start=ill-conditioned", "factor=1,"], {"start": "ill-conditioned", "factor": [1]}),
    ],
)  # fmt: skip
def test_one_grammar_for_all_settings(words: list[str], settings: dict[str, object]) -> None:
    assert parse_settings(words) == settings
    if all("," not in word for word in words):
        assert parse_spec(f"name:{','.join(words)}") == ("name", settings)


def test_settings_are_written_as_they_are_read() -> None:
    settings = {"task": {"dims": 5, "name": "linear"}, "window": None, "betas": [0.9, 0.99]}
    assert parse_settings([f"{key}={value}" for key, value in written_as(settings)]) == settings


def test_settings_are_known_from_names() -> None:
    assert is_setting("dims=5")
    assert is_setting("task.dims=5")
    assert not is_setting("ridge:penalty=0.1")
    assert not is_setting("ols")


@given(st.text(max_size=20))
def test_any_text_is_a_spec_or_one_sentence(text: str) -> None:
    try:
        name, settings = parse_spec(text)
    except ConfigurationError as error:
        name, settings = str(error), {}
        if "\n" in str(error):
            pytest.fail("a message of several lines")
    assert name
    assert all(settings)


@pytest.mark.parametrize("name", ["GradientDescent", "gradient_descent", "Gradient-Descent"])
def test_class_names_are_names(name: str) -> None:
    assert find("learner", name, LEARNERS) is GradientDescent


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("ridge:", "not a name"),
        (":penalty=1", "not a name"),
        ("ridge:penalty", "write key=value"),
        ("ridge:penalty=1,penalty=2", "twice"),
        ("ridge:penalty=1,penalty.x=2", "one is a part of the other"),
        ("ridge:penalty=", "has no value"),
        ("ridge:penalty=0x_", "no number"),
        ("ridge:penalty=[1", "no number"),
        ("ridge:penalty=}", "no number"),
        ("ridge:penalty=a: b: c", "no number"),
    ],
)
def test_bad_specs(text: str, sentence: str) -> None:
    with pytest.raises(ConfigurationError, match=sentence):
        parse_spec(text)


def test_nearest_choices_are_offered() -> None:
    with pytest.raises(ConfigurationError, match="did you mean 'ridge'"):
        find("learner", "rigde", LEARNERS)
    with pytest.raises(ConfigurationError, match="did you mean 'penalty'"):
        build(Ridge, {"penalti": "1"})
    with pytest.raises(ConfigurationError, match="did you mean 'dims'"):
        build(LinearRegression, {"dimz": "5"})
    with pytest.raises(ConfigurationError, match="choose from"):
        find("task", "zzzzzz", TASKS)


@pytest.mark.parametrize(
    ("kind", "settings", "sentence"),
    [
        (Ridge, {}, "Ridge needs a value for 'penalty'"),
        (Ridge, {"penalty": "-1"}, "'penalty' of Ridge is '-1'"),
        (Ridge, {"penalty": "much"}, "'penalty' of Ridge is 'much'"),
        (Newton, {"steps": "2", "start": "papre"}, "'start' of Newton"),
        (LinearRegression, {"dims": "0"}, "'dims' of LinearRegression is '0'"),
    ],
)
def test_bad_values_are_one_sentence(kind: type, settings: dict[str, str], sentence: str) -> None:
    with pytest.raises(ConfigurationError, match=sentence) as caught:
        build(kind, settings)
    assert "\n" not in str(caught.value)


def test_settings_and_defaults() -> None:
    (penalty,) = settings_of(Ridge)
    assert (penalty.key, penalty.required) == ("penalty", True)
    noise = next(setting for setting in settings_of(LinearRegression) if setting.key == "noise")
    assert (noise.required, noise.default) == (False, 0)
    assert "standard deviation" in noise.description
    assert [setting.key for setting in settings_of(NearestNeighbors)] == ["k", "weights"]
