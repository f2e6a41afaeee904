"""Averages over seeds, and figures for one, two and more keys."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
import torch

from innerloop.analysis.intervals import across_seeds
from innerloop.analysis.sweep_figure import draw_sweep, sweep_averages
from innerloop.core.errors import ConfigurationError


def table_of(*axes: tuple[str, ...], seeds: int = 3) -> pd.DataFrame:
    rows: list[dict[str, object]] = []
    for number, (*values, seed) in enumerate(product(*axes, range(seeds))):
        place = {f"key{index}": value for index, value in enumerate(values)}
        rows.append({**place, "seed": seed, "state": "finished", "error": 0.01 * (number + 1)})
    return pd.DataFrame(rows)


def test_averages_are_those_of_finished_runs_with_students_interval() -> None:
    table = table_of(("a", "b"))
    table.loc[table.index[-1], "state"] = "failed"
    first, second = sweep_averages(table, ["key0"]).to_dict(orient="records")
    expected = across_seeds(torch.tensor([0.01, 0.02, 0.03], dtype=torch.float64))
    assert first["mean"] == pytest.approx(float(expected.value))
    assert first["low"] == pytest.approx(float(expected.low))
    assert (first["runs"], first["finished"]) == (3, 3)
    assert (second["runs"], second["finished"]) == (3, 2)
    assert second["mean"] == pytest.approx(0.045)


def test_one_run_is_its_own_interval_and_none_has_no_number() -> None:
    table = table_of(("1", "2"), seeds=1)
    table.loc[table.index[1], "state"] = "stopped"
    first, second = sweep_averages(table, ["key0"]).to_dict(orient="records")
    assert (first["low"], first["mean"], first["high"]) == (0.01, 0.01, 0.01)
    assert pd.isna(second["mean"])


def test_one_key_is_a_curve_over_numbers_or_words() -> None:
    numbers = sweep_averages(table_of(("1e-4", "1e-2", "1e-3")), ["key0"])
    (axes,) = draw_sweep(numbers, ["key0"]).axes
    assert axes.get_xscale() == "log"
    assert np.asarray(axes.lines[0].get_xdata()).tolist() == [1e-4, 1e-3, 1e-2]
    words = sweep_averages(table_of(("adam", "mu$on")), ["key0"])
    (axes,) = draw_sweep(words, ["key0"]).axes
    assert [label.get_text() for label in axes.get_xticklabels()] == ["adam", r"mu\$on"]


def test_two_keys_are_colours_with_the_numbers_in_them() -> None:
    averages = sweep_averages(table_of(("1", "2"), ("x", "y", "z"), seeds=1), ["key0", "key1"])
    axes, _ = draw_sweep(averages, ["key0", "key1"], title="a recipe").axes
    assert [text.get_text() for text in axes.texts] == [
        "0.01",
        "0.02",
        "0.03",
        "0.04",
        "0.05",
        "0.06",
    ]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("key1", "key0")


def test_more_keys_are_panels_with_the_same_colours() -> None:
    keys = ["key0", "key1", "key2"]
    figure = draw_sweep(sweep_averages(table_of(("1", "2"), ("3", "4"), ("5", "6")), keys), keys)
    maps = [axes.images[0] for axes in figure.axes if axes.images]
    assert len(maps) == 2
    assert maps[0].get_clim() == maps[1].get_clim()


def test_nothing_that_is_finished_is_nothing_to_draw() -> None:
    table = table_of(("1", "2")).assign(state="failed")
    with pytest.raises(ConfigurationError, match="nothing to draw"):
        draw_sweep(sweep_averages(table, ["key0"]), ["key0"])
