"""Models that come with the package: known by name, held against their hash, shipped from a run."""

from pathlib import Path

import pytest
import torch

import innerloop as il
from innerloop.core.errors import ConfigurationError, InnerloopError
from innerloop.models import pretrained as load_pretrained
from innerloop.models import save
from innerloop.training.run import Run
from innerloop.training.ship import LARGEST, ship
from tests.estimators.small import linear_table, needs_weights, tabular

module = __import__("innerloop.models.pretrained", fromlist=["SHIPPED"])


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder in the place of the package's weights."""
    monkeypatch.setattr(module, "FOLDER", tmp_path / "weights")
    module._require_intact.cache_clear()
    return tmp_path / "weights"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    config = il.training.RunConfig.model_validate({
        "task": {"name": "tabular-prior", "dims": 3}, "points": 9, "steps": 2, "batch": 2,
        "model": {"kind": "tabular", "shape": {"width": 8, "heads": 2, "loops": 2}},
        "log_every": 1, "evaluate_every": 1,
    })  # fmt: skip
    return il.train(config, store=tmp_path_factory.mktemp("runs"))


def test_a_wrong_name_lists_the_right_ones() -> None:
    with pytest.raises(ConfigurationError, match=r"'tabular-regression', 'tabular-classification'"):
        load_pretrained("tabular")


def test_a_shipped_run_is_loaded_by_name(
    shelf: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = ship(run, shelf / "tabular-regression")
    monkeypatch.setitem(module.SHIPPED, "tabular-regression", found)
    model = il.models.pretrained("tabular-regression")
    expected = run.model().state_dict()
    assert all(torch.equal(value, expected[name]) for name, value in model.state_dict().items())
    assert not model.training
    X, y = linear_table(20)
    kept = il.InContextRegressor().fit(X, y).contexts_
    assert kept.xs.shape == (8, 8, 3)  # as the run says, nine points
    card = (shelf / "tabular-regression" / "card.md").read_text()
    assert "tabular-prior" in card
    assert "2 steps" in card
    assert "error" in (shelf / "tabular-regression" / "curve.csv").read_text().splitlines()[0]


def test_a_card_that_was_written_stays(shelf: Path, run: Run) -> None:
    (shelf / "mine").mkdir(parents=True)
    (shelf / "mine" / "card.md").write_text("mine")
    ship(run, shelf / "mine")
    assert (shelf / "mine" / "card.md").read_text() == "mine"


def test_files_that_have_changed_are_refused(
    shelf: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = ship(run, shelf / "tabular-regression")
    monkeypatch.setitem(module.SHIPPED, "tabular-regression", found)
    save(tabular(), shelf / "tabular-regression")
    with pytest.raises(InnerloopError, match="are not those that this version"):
        load_pretrained("tabular-regression")


def test_weights_that_are_not_there_yet_say_what_to_do(
    shelf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(module.SHIPPED, "tabular-regression", None)
    with pytest.raises(InnerloopError, match="train the model, and give the folder of the run"):
        load_pretrained("tabular-regression")
    monkeypatch.setitem(module.SHIPPED, "tabular-regression", "0" * 64)
    with pytest.raises(InnerloopError, match=r"cannot read .*config.json"):
        load_pretrained("tabular-regression")


def test_an_unfinished_run_and_a_large_one_are_not_shipped(
    shelf: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("innerloop.training.ship.LARGEST", 10)
    with pytest.raises(InnerloopError, match="expected at most"):
        ship(run, shelf / "mine")
    monkeypatch.setattr(Run, "finished", property(lambda self: False))
    with pytest.raises(InnerloopError, match="is not finished"):
        ship(run, shelf / "mine")


@needs_weights
@pytest.mark.parametrize("name", module.SHIPPED)
def test_what_comes_with_the_package_is_whole(name: str) -> None:
    folder = module.folder_of(name)
    for file in ("config.json", "weights.safetensors", "curve.csv", "card.md"):
        assert (folder / file).is_file(), file
    assert "fill in" not in (folder / "card.md").read_text()
    assert (folder / "weights.safetensors").stat().st_size <= LARGEST
    assert load_pretrained(name).looped is not name.startswith("standard")
