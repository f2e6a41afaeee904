"""Measured values: selecting, averaging, comparing, stacking, and their tables."""

import math
from dataclasses import replace

import pytest
import torch

from innerloop.analysis.intervals import Averages, across_seeds
from innerloop.analysis.measured import Measured, difference, ratio, tables_of
from innerloop.core.errors import ConfigurationError


def measured(prompts: int = 6) -> Measured:
    values = torch.arange(prompts * 12.0).reshape(prompts, 3, 4)  # (P, step, examples)
    return Measured(values=values, axes=("step", "examples"), label="one")


def test_places_are_chosen_by_the_names_of_axes() -> None:
    whole = measured()
    assert torch.equal(whole.at(step=-1).values, whole.values[:, -1])
    assert whole.at(step=-1).axes == ("examples",)
    some = whole.at(step=[0, 2], examples=slice(1, None))
    assert torch.equal(some.values, whole.values[:, [0, 2], 1:])
    assert some.ticks == {"step": [0, 2], "examples": [1, 2, 3]}
    assert torch.equal(whole.at(step=[0, 2], examples=[1, 3]).values, whole.values[:, ::2, 1::2])
    with pytest.raises(ConfigurationError, match="unknown axis 'stp': did you mean 'step'"):
        whole.at(stp=0)


def test_the_mean_over_an_axis_is_of_what_counts() -> None:
    whole = measured()
    assert torch.equal(whole.mean("examples").values, whole.values.mean(dim=2))
    assert whole.mean("step", "examples").axes == ()
    assert torch.equal(whole.mean().values, whole.values)
    counted = torch.ones(6, 3, 4, dtype=torch.bool)
    counted[0, 0, 1:], counted[1, 1] = False, False
    some = replace(whole, counted=counted).mean("examples")
    assert some.values[0, 0] == whole.values[0, 0, 0]
    assert some.values[2, 2] == whole.values[2, 2].mean()
    assert some.counted is not None
    assert not some.counted[1, 1]
    assert some.counted.sum() == 17


def test_differences_and_ratios_keep_the_pairing() -> None:
    first = Measured(values=torch.tensor([1.0, 10.0, 100.0]))
    second = replace(first, values=first.values + 1)
    apart = difference(second, first)
    assert (apart.value, apart.low, apart.high) == pytest.approx((1.0, 1.0, 1.0))
    assert torch.equal((second - first).values, torch.ones(3, dtype=torch.float64))
    double = ratio(replace(first, values=2 * first.values), first)
    assert (double.low, double.high) == pytest.approx((2.0, 2.0))
    assert torch.equal((first / 4).values, first.values / 4)


def test_what_counts_of_a_difference_counts_in_both() -> None:
    counted = torch.tensor([True, False, True])
    first = Measured(values=torch.ones(3), counted=counted)
    second = Measured(values=torch.zeros(3), counted=~counted)
    mask = (first - second).counted
    assert mask is not None
    assert not mask.any()


def test_stacked_measures_have_an_axis_more_and_missing_places_do_not_count() -> None:
    short = Measured(values=torch.ones(5, 2), axes=("examples",))
    long = Measured(values=2 * torch.ones(5, 3), axes=("examples",))
    both = Measured.stack("shift", {"short": short, "long": long})
    assert both.axes == ("shift", "examples")
    assert both.ticks["shift"] == ["short", "long"]
    assert both.counted is not None
    assert both.counted[:, 0].tolist() == [[True, True, False]] * 5
    value = both.interval().value
    assert value[1].tolist() == [2, 2, 2]
    assert value[0, 2].isnan()
    table = both.table()
    assert len(table) == 5
    assert table["shift"].tolist() == ["short"] * 2 + ["long"] * 3


def test_several_seeds_have_students_interval_and_one_has_the_bootstraps() -> None:
    seeds = [Measured(values=torch.tensor([value, value + 1])) for value in (1.0, 2.0, 3.0)]
    together = Measured.of_seeds(seeds)
    assert together.prompts == 6
    assert [one.values.tolist() for one in together.by_seed()] == [[1, 2], [2, 3], [3, 4]]
    interval, expected = together.interval(), across_seeds(torch.tensor([1.5, 2.5, 3.5]))
    assert (float(interval.low), float(interval.high)) == (
        float(expected.low),
        float(expected.high),
    )
    assert Measured.of_seeds(seeds[:1]) is seeds[0]
    log = replace(together, scale="log").interval()
    assert float(log.low) > 0
    assert ratio(together, together).seeds == (1.0, 1.0, 1.0)


def test_what_any_seed_leaves_out_does_not_count() -> None:
    every = Measured(values=torch.tensor([1.0, 3.0]))
    some = replace(every, counted=torch.tensor([True, False]))
    for seeds, masks in (((every, some), [[1, 1], [1, 0]]), ((some, every), [[1, 0], [1, 1]])):
        together = Measured.of_seeds(seeds)
        assert together.counted is not None
        assert together.counted.view(2, 2).int().tolist() == masks
        assert float(together.interval().value) == pytest.approx(5 / 3)
    assert Measured.of_seeds([every, every]).counted is None


def test_a_table_has_a_row_per_place_that_counts() -> None:
    counted = torch.ones(6, 3, 4, dtype=torch.bool)
    counted[:, 2, 3] = False
    table = replace(
        measured(), counted=counted, keys={"sigma": 0.1}, shown={"step": [0, 2]},
        ticks={"step": [0, 10, 20]},
    ).table()  # fmt: skip
    assert table.columns.tolist() == [
        "sigma", "label", "step", "examples", "mean", "median", "low", "high", "seed low",
        "seed high",
    ]  # fmt: skip
    assert table["step"].tolist() == [0] * 4 + [20] * 3
    assert table["mean"].iloc[-1] == measured().values[:, 2, 2].mean()
    assert bool((table["low"] <= table["mean"]).all() & (table["mean"] <= table["high"]).all())


def test_tables_join_measures_of_the_same_axes() -> None:
    one = Measured(values=torch.ones(4, 2), axes=("examples",), label="one")
    other = replace(one, label="other")
    tables = tables_of({"a": one, "b": other, "c": measured(), "d": Measured.exact(1.0)})
    assert list(tables) == ["by-examples", "by-step-examples"]
    assert tables["by-examples"]["label"].tolist() == ["one"] * 2 + ["other"] * 2


def test_axes_of_several_words_name_files_without_spaces() -> None:
    several = {size: measured().at(step=0, examples=0) for size in (500, 2000)}
    stacked = Measured.stack("distinct prompts", several)
    (name,) = tables_of({"errors": stacked})
    assert name == "by-distinct-prompts"
    ticks = Averages({"errors": stacked}).ticks("errors", "distinct prompts")  # (2,)
    assert ticks.tolist() == [500, 2000]


def test_medians_are_averaged_where_they_are_asked_for() -> None:
    values = torch.tensor([1.0, 2.0, 90.0])
    assert float(Measured(values=values, average="median").interval().value) == 2
    assert float(Measured(values=values).interval().value) == 31


def test_shapes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="one axis of prompts"):
        Measured(values=torch.ones(3, 2))
    with pytest.raises(ConfigurationError, match="3 ticks for 2 places"):
        Measured(values=torch.ones(3, 2), axes=("step",), ticks={"step": [1, 2, 3]})


def test_values_leave_the_graph_and_are_of_full_precision() -> None:
    values = torch.ones(3, requires_grad=True)
    held = Measured(values=values).values
    assert held.dtype == torch.float64
    assert not held.requires_grad
    assert math.isclose(float(Measured.exact(0.1).values), 0.1)
