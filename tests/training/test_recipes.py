"""Named configurations: complete, distinct, and they run."""

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from innerloop.core.errors import ConfigurationError
from innerloop.core.task import Task
from innerloop.models.table import build
from innerloop.training.config import RunConfig
from innerloop.training.overrides import with_overrides
from innerloop.training.recipes import RECIPES, find_recipe
from innerloop.training.run import Run
from innerloop.training.store import Store
from tests.language.made import write_ag_news
from tests.language.made_language import write_language
from tests.tasks.made_tables import write_tables


@pytest.fixture(autouse=True, scope="module")
def _made_data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Recipes on real texts and tables train on made ones."""
    folder = tmp_path_factory.mktemp("data")
    write_ag_news(folder)
    write_tables(folder, rows=320)  # a fifth is held out: more than a prompt of 41 points
    for dataset in ("multi30k", "iwslt14"):
        write_language(folder, dataset=dataset)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("INNERLOOP_DATA", str(folder))
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.mark.parametrize("name", RECIPES)
def test_every_scale_is_a_run_of_its_own(name: str) -> None:
    scales = RECIPES[name].scales
    assert {"smoke", "laptop", "paper"} <= set(scales)
    assert len({find_recipe(name, scale).key() for scale in scales}) == len(scales)


LAPTOP = {
    "looped-linear": "832fbf3bcb7dcd03",
    "standard-linear": "aa232e2002870d95",
    "tied-linear": "0613489058db7595",
    "looped-sparse": "107835f393f2ab6e",
    "standard-sparse": "91c693204f3f9e3c",
    "looped-tree": "ca4c798533c49789",
    "standard-tree": "916dcb7b8f14f715",
    "looped-network": "b7ddc3bd8a4845c4",
    "standard-network": "95827a5ef6c67266",
    "algoformer-linear": "9a2db51965a38113",
    "algoformer-representation": "7b8a5c6d0164b9e6",
    "looped-representation": "a2b4f06e47e98c82",
    "standard-representation": "201c182fd66101d6",
    "algoformer-autoregression": "1d6bdec02a037b56",
    "looped-autoregression": "3134073103e2d963",
    "standard-autoregression": "18b358e5ef1ef1a5",
    "algoformer-chain": "990759017a3537c5",
    "looped-chain": "63c844b7583c2246",
    "standard-chain": "de78f3425192ca8b",
    "lstm-linear": "cf6fb51a279a5b43",
    "standard-ill-conditioned": "230765fbfa3a8b10",
    "one-head-linear": "479507179017dbe8",
    "akyurek-linear": "aa232e2002870d95",
    "akyurek-noisy": "0de108f33ffb6d51",
    "linear-looped-vector": "cd5b3b9b265136ca",
    "looped-classification": "08b7a77a14ef9398",
}
"""The keys of version 0.1.0: runs that were trained with it are found by them.

But for those on sparse functions, of which version 0.1.0 drew other prompts, and for stacks on
ill-conditioned inputs and noisy functions, which did not learn them with its recipes."""
OTHERS = {"smoke": "ab18bd0af180712c", "paper": "be8c2637a8b577ce"}
"""The beginning of the SHA-256 of all keys of a scale, in the order above, with spaces between."""


def test_keys_are_those_of_earlier_versions() -> None:
    keys = {name: find_recipe(name).key() for name in RECIPES}
    assert {name: keys[name] for name in LAPTOP} == LAPTOP
    for scale, digest in OTHERS.items():
        text = " ".join(find_recipe(name, scale).key() for name in LAPTOP)
        assert hashlib.sha256(text.encode()).hexdigest()[:16] == digest


def test_a_configuration_draws_no_prompts(monkeypatch: pytest.MonkeyPatch) -> None:
    def draw(*_: object, **__: object) -> None:
        raise AssertionError("a prompt was drawn")

    monkeypatch.setattr(Task, "sample", draw)
    for name in RECIPES:
        for scale in RECIPES[name].scales:
            config = find_recipe(name, scale)
            assert RunConfig.model_validate(config.model_dump(mode="json")) == config


def test_no_two_recipes_are_the_same_at_the_papers_size() -> None:
    keys = {name: find_recipe(name, "paper").key() for name in RECIPES}
    assert len(set(keys.values())) == len(keys)


@pytest.mark.parametrize(
    ("name", "millions"),
    [
        # Of the papers; the embedding, positions and readout come on top (0.03 M at most).
        ("standard-linear", 9.48), ("looped-linear", 0.79), ("tied-linear", 0.79),
        ("algoformer-linear", 3 * 0.79), ("lstm-linear", 5.3),
    ],
)  # fmt: skip
def test_the_papers_sizes_have_the_papers_parameters(name: str, millions: float) -> None:
    count = build(find_recipe(name, "paper").model).parameter_count
    assert millions - 0.04 < count / 1e6 < millions + 0.04


def test_the_papers_sizes_are_the_papers() -> None:
    config = find_recipe("looped-linear", "paper")
    assert (config.task.dims, config.points, config.batch, config.steps) == (20, 41, 64, 500_000)
    assert (config.trained_loops, config.window) == (20, 15)
    assert config.optimizer.kind == "adam"
    assert config.optimizer.learning_rate == 1e-4
    dims, points = config.curriculum.dims, config.curriculum.points
    assert dims is not None
    assert points is not None
    assert (dims.start, dims.by, dims.every) == (5, 1, 5000)
    assert (points.start, points.by, points.every) == (11, 2, 5000)


def test_an_unknown_recipe_is_answered_with_the_nearest() -> None:
    with pytest.raises(ConfigurationError, match="did you mean 'looped-linear'"):
        find_recipe("looped-lineer")


def stop_after(steps: int) -> Callable[[], bool]:
    """Says stop when it is asked for the time after so many."""
    asked = 0

    def stop() -> bool:
        nonlocal asked
        asked += 1
        return asked > steps

    return stop


WHOLE = {"looped-linear", "standard-linear"}
"""With all prompts of a step; the others with fewer, which is minutes less and the same code."""


@pytest.mark.slow
@pytest.mark.parametrize("name", RECIPES)
def test_the_papers_size_takes_three_steps_and_stops(name: str, tmp_path: Path) -> None:
    fewer = 1 if name.endswith("-chain") else 4  # 287 tokens from the first step on
    changes = [] if name in WHOLE else [f"batch={fewer}", "accumulate=1"]
    config = with_overrides(find_recipe(name, "paper"), changes)
    run = Store(tmp_path).train(config, name=name, stop=stop_after(3))
    assert not run.finished
    assert Run.open(run.path).step == 3


@pytest.mark.slow
@pytest.mark.parametrize("name", RECIPES)
def test_the_smoke_size_runs_to_its_end(name: str, tmp_path: Path) -> None:
    run = Store(tmp_path).train(find_recipe(name, "smoke"), name=name)
    assert run.finished
    errors = run.metrics()["error"].dropna()
    assert len(errors) >= 2
    assert errors.between(0, 10).all()
