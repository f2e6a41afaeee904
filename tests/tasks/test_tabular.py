"""Prompts from real tables, on made ones; on the real ones where they are here."""

import gzip
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from pydantic import ValidationError

import innerloop as il
from innerloop.core.errors import ConfigurationError
from innerloop.data.catalog import find_dataset
from innerloop.data.reading import DataError, MissingDataError, is_here, read_table
from innerloop.tasks.tabular import LARGEST, TABLES, TabularPrompts, is_held_out
from innerloop.training.overrides import with_overrides
from innerloop.training.recipes import find_recipe
from tests.tasks.made_tables import FEATURES, made_tables, write_tables
from tests.tasks.task_statistics import seeded

REAL = all(is_here(find_dataset(name)) for name in TABLES)


@pytest.fixture
def data(tmp_path: Path) -> Iterator[Path]:
    with made_tables(tmp_path, ("abalone", "wind", "kin8nm")) as folder:
        yield folder


def tables(
    *names: str, shuffle: bool = True, subsets: bool = True, split: bool = True
) -> TabularPrompts:
    several = names or ("abalone", "wind", "kin8nm")
    return TabularPrompts(tables=several, shuffle=shuffle, subsets=subsets, split=split)


def test_a_prompt_holds_rows_of_one_table_and_none_twice(data: Path) -> None:
    task = tables(shuffle=False)
    prompt = task.sample(200, 41, generator=seeded(0))
    which, rows = prompt.truth["table"], prompt.truth["row"]
    assert prompt.xs.shape == (200, 41, 16)
    assert set(which.tolist()) == {0, 1, 2}
    for index, name in enumerate(task.tables):
        labels = 2 * torch.from_numpy(read_table(name).labels) - 1  # (N,)
        own = which == index
        assert torch.equal(prompt.ys[own, :, 0].long(), labels[rows[own]])
    assert all(len(set(own)) == 41 for own in rows.tolist())


def test_labels_are_minus_1_and_1(data: Path) -> None:
    ys = tables().sample(50, 20, generator=seeded(1)).ys
    assert set(ys.flatten().tolist()) == {-1.0, 1.0}
    assert tables().form.labels


def test_neither_words_nor_what_labels_are_made_of_are_features(data: Path) -> None:
    assert read_table("abalone").columns == tuple(f"x{place}" for place in range(7))
    assert read_table("wind").features.shape == (160, FEATURES["wind"])


def test_held_out_rows_are_never_trained_on(data: Path) -> None:
    task = tables()
    for drawn, held in ((task.sample, False), (task.held_out, True)):
        prompt = drawn(300, 12, generator=seeded(2))
        pairs = zip(prompt.truth["table"].tolist(), prompt.truth["row"].tolist(), strict=True)
        rows = {(task.tables[table], row) for table, several in pairs for row in several}
        assert {is_held_out(name, row) for name, row in rows} == {held}
    share = sum(is_held_out("wind", row) for row in range(5000)) / 5000
    assert 0.17 < share < 0.23, "five standard deviations about a fifth"


def test_without_a_split_all_rows_are_drawn(data: Path) -> None:
    rows = tables("wind", split=False).sample(40, 160, generator=seeded(3)).truth["row"]
    assert all(sorted(own) == list(range(160)) for own in rows.tolist())


def test_missing_features_are_zeros(data: Path) -> None:
    xs = tables("abalone", shuffle=False).sample(30, 20, generator=seeded(4)).xs
    assert bool((xs[..., 7:] == 0).all())
    assert bool((xs[..., :7].abs().amax(dim=1) > 0).all())


def test_training_prompts_leave_out_features_and_evaluation_does_not(data: Path) -> None:
    task = tables("abalone")
    assert set(kept(task.sample(300, 20, generator=seeded(4)))) == set(range(1, 8))
    for prompt in (
        task.held_out(30, 12, generator=seeded(4)),
        tables("abalone", split=False).sample(30, 20, generator=seeded(4)),
        tables("abalone", subsets=False).sample(30, 20, generator=seeded(4)),
    ):
        assert set(kept(prompt)) == {7}


def kept(prompt: il.Prompt) -> list[int]:
    """How many features each prompt has; they stand before the zeros."""
    used = (prompt.xs != 0).any(dim=1)  # (B, d)
    number = used.sum(dim=1)  # (B,)
    assert torch.equal(used, torch.arange(prompt.dims) < number[:, None])
    return number.tolist()


def test_features_are_standardised_by_the_examples(data: Path) -> None:
    prompt = tables("wind", shuffle=False).sample(20, 30, generator=seeded(5))
    raw = torch.from_numpy(read_table("wind").features)[prompt.truth["row"]]  # (B, n, f)
    examples = raw[:, :-1]  # (B, n - 1, f)
    expected = (raw - examples.mean(1, True)) / examples.std(1, correction=0, keepdim=True)
    expected = expected.clamp(-LARGEST, LARGEST).float()  # (B, n, f)
    assert torch.allclose(prompt.xs[..., :14], expected, atol=1e-5)


def test_shuffling_moves_features_and_exchanges_classes_and_nothing_else(data: Path) -> None:
    plain = tables("wind", shuffle=False).sample(100, 20, generator=seeded(6))
    moved = tables("wind", subsets=False).sample(100, 20, generator=seeded(6))
    assert torch.equal(plain.truth["row"], moved.truth["row"])
    before, after = (
        prompt.xs.abs().sum(dim=1).sort(dim=1).values for prompt in (plain, moved)
    )  # (B, d)
    assert torch.allclose(before, after)
    exchanged = (plain.ys != moved.ys)[..., 0]  # (B, n)
    assert torch.equal(exchanged.all(dim=1), exchanged.any(dim=1))
    assert 20 < int(exchanged.any(dim=1).sum()) < 80


def test_a_feature_that_is_the_same_in_all_examples_is_zero(data: Path) -> None:
    path = data / "tabular" / "kin8nm.csv.gz"
    lines = gzip.decompress(path.read_bytes()).decode().splitlines()
    constant = [lines[0], *(",".join(["3.5", *line.split(",")[1:]]) for line in lines[1:])]
    path.write_bytes(gzip.compress("\n".join(constant).encode()))
    xs = tables("kin8nm", shuffle=False).sample(10, 9, generator=seeded(7)).xs
    assert bool((xs[..., 0] == 0).all())
    for points in (1, 2):  # with no example, or one, nothing is known of any deviation
        assert bool((tables().sample(5, points, generator=seeded(7)).xs == 0).all())


def test_the_same_seed_draws_the_same_prompts(data: Path) -> None:
    first, again, other = (tables().sample(9, 15, generator=seeded(seed)) for seed in (0, 0, 1))
    assert torch.equal(first.xs, again.xs)
    assert not torch.equal(first.xs, other.xs)


def test_other_data_have_another_digest(data: Path) -> None:
    before = tables().data_digest()
    assert tables("wind").data_digest() != before
    write_tables(data, ("wind",), seed=9)
    assert tables().data_digest() != before


def test_a_missing_table_is_one_sentence(data: Path) -> None:
    with pytest.raises(MissingDataError, match="innerloop data get pollen") as error:
        tables("wind", "pollen").sample(2, 5, generator=seeded(0))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("cell", "sentence"), [("", "no finite numbers"), ("?", "no finite numbers")]
)
def test_a_feature_that_is_no_number_is_refused(data: Path, cell: str, sentence: str) -> None:
    path = data / "tabular" / "wind.csv.gz"
    lines = gzip.decompress(path.read_bytes()).decode().splitlines()
    lines[3] = ",".join([cell, *lines[3].split(",")[1:]])
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    with pytest.raises(DataError, match=f"'x0' of .*wind.csv.gz has values that are {sentence}"):
        read_table("wind")


def test_mistakes_are_one_sentence(data: Path) -> None:
    with pytest.raises(ConfigurationError, match="wind has 14 features, and dims is 8: raise dims"):
        TabularPrompts(tables=("wind",), dims=8).sample(2, 5, generator=seeded(0))
    with pytest.raises(ConfigurationError, match="rows to draw from, and a prompt of 200 points"):
        tables("wind").sample(2, 200, generator=seeded(0))
    with pytest.raises(ValidationError, match="'wind' is given twice"):
        tables("wind", "wind")
    with pytest.raises(ValidationError, match="unknown tabular data set 'ag_news'"):
        tables("ag_news")


def test_a_run_trains_on_tables_by_name(data: Path, tmp_path: Path) -> None:
    changes = ("task.tables=abalone,kin8nm", "steps=3")
    config = with_overrides(find_recipe("looped-tables", "smoke"), changes)
    assert config.task == tables("abalone", "kin8nm")
    assert il.train(config, store=tmp_path / "runs").finished


@pytest.mark.skipif(not REAL, reason="the ten tables are not here")
@pytest.mark.parametrize("name", TABLES)
def test_the_real_tables_can_be_drawn_from(name: str) -> None:
    prompt = tables(name).sample(64, 41, generator=seeded(0))
    assert bool(prompt.xs.isfinite().all())
    assert read_table(name).features.shape[1] <= 16
