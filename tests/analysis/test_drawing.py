"""Figures of error tables."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

import innerloop as il
from innerloop.analysis import draw_error_curve, drawing, error_curve, save_figure_and_table
from innerloop.core.errors import ConfigurationError
from innerloop.learners import OLS, Averaging, GradientDescent

TASK = il.tasks.LinearRegression(dims=3)


@pytest.fixture
def table() -> pd.DataFrame:
    return error_curve([OLS(), Averaging()], TASK, points=7, prompts=40)


def test_lines_are_the_table(table: pd.DataFrame) -> None:
    figure = draw_error_curve(table, title="three dimensions")
    axes = figure.axes[0]
    drawn = {str(line.get_label()): line for line in axes.get_lines()}
    for learner in ("OLS", "Averaging"):
        expected = table.loc[table["learner"] == learner, "mean"].to_numpy()
        assert np.array_equal(np.asarray(drawn[learner].get_ydata()), expected)
    assert axes.get_xlabel() == "examples seen"
    assert figure.get_suptitle() == "three dimensions"
    assert len(axes.collections) == 2


def test_one_shot_learners_are_a_level_by_step() -> None:
    learners = [GradientDescent(5), OLS()]
    table = error_curve(learners, TASK, points=7, by="step", prompts=40)
    figure = draw_error_curve(table, scale="log")
    axes = figure.axes[0]
    level = next(line for line in axes.get_lines() if line.get_label() == "OLS")
    assert list(np.asarray(level.get_xdata())) == [0, 5]
    assert axes.get_xlabel() == "steps taken"
    assert axes.get_yscale() == "log"
    assert figure.get_suptitle() == "after 6 examples"


def test_infinite_errors_do_not_spoil_the_axis(table: pd.DataFrame) -> None:
    table.loc[2, ["mean", "high"]] = np.inf
    low, high = draw_error_curve(table).axes[0].get_ylim()
    assert low == 0
    assert np.isfinite(high)


def test_figure_and_numbers_are_written_side_by_side(tmp_path: Path, table: pd.DataFrame) -> None:
    image, numbers = save_figure_and_table(
        draw_error_curve(table), table, tmp_path / "deep" / "linear.v2"
    )
    assert (image.name, numbers.name) == ("linear.v2.png", "linear.v2.csv")
    with Image.open(image) as picture:
        assert min(picture.size) > 500
        assert np.asarray(picture).std() > 5  # something was drawn
    pd.testing.assert_frame_equal(pd.read_csv(numbers), table, check_dtype=False)
    assert sorted(file.name for file in image.parent.iterdir()) == [numbers.name, image.name]


def test_the_axis_says_where_it_is_cut_and_shows_every_learner(table: pd.DataFrame) -> None:
    table.loc[table["learner"] == "Averaging", ["mean", "low", "high"]] = 8.0
    table.loc[0, "mean"] = 500.0
    axes = draw_error_curve(table).axes[0]
    assert axes.get_ylim()[1] == pytest.approx(12.0)
    assert "cut at 12" in axes.get_ylabel()


def test_long_names_and_dollars_leave_room_for_the_curves(table: pd.DataFrame) -> None:
    table["learner"] = table["learner"] + " with many settings and a cost of $5 or $7" * 3
    figure = draw_error_curve(table, title="a title of $9 " * 12)
    labels = [str(line.get_label()) for line in figure.axes[0].get_lines()]
    assert max(len(label) for label in labels) <= 42
    assert max(len(line) for line in figure.get_suptitle().split("\n")) <= 95


def test_one_prefix_is_no_curve_by_step() -> None:
    axes = draw_error_curve(error_curve(OLS(), TASK, points=1, prompts=8)).axes[0]
    assert axes.get_xlabel() == "examples seen"


def test_an_unknown_scale_is_refused(table: pd.DataFrame) -> None:
    with pytest.raises(ConfigurationError, match="did you mean 'log'"):
        draw_error_curve(table, scale="lgo")  # pyright: ignore[reportArgumentType]


def test_an_empty_table_is_refused(table: pd.DataFrame) -> None:
    with pytest.raises(ConfigurationError, match="nothing to draw"):
        draw_error_curve(table.head(0))


def test_an_axis_ends_above_bands_that_are_not_too_wide() -> None:
    table = pd.DataFrame({"mean": [1.0, 2.0, np.inf], "high": [1.5, 3.0, np.inf]})
    assert drawing.ceiling(table) == pytest.approx(1.08 * 3)
    # Two seeds have intervals of any width: twice the mean is enough.
    assert drawing.ceiling(table.assign(high=[1.5, 500.0, np.nan])) == pytest.approx(1.08 * 4)


def wide_bands(*labels: str, low: float, high: float) -> pd.DataFrame:
    """Curves that fall from 1 to 0.1, with the same band around all of their points."""
    xs = np.arange(10)
    rows = {"x": xs, "mean": np.geomspace(1.0, 0.1, 10), "low": low, "high": high}
    return pd.concat([pd.DataFrame(rows).assign(label=label) for label in labels])


@pytest.mark.parametrize(("log", "ends"), [(True, (0.01, 10.0)), (False, (-2.16, 2.16))])
def test_bands_that_are_too_wide_do_not_scale_the_axis(
    log: bool, ends: tuple[float, float]
) -> None:
    """Cut ten times beyond the curves, or a little beyond twice the highest."""
    _, (axes,) = drawing.panels(1)
    drawing.draw_curves(axes, wide_bands("a", low=-1e6, high=1e6), x="x", log=log)
    heights = np.asarray(axes.collections[0].get_paths()[0].vertices)[:, 1]
    assert (heights.min(), heights.max()) == pytest.approx(ends)
    low, high = axes.get_ylim()
    assert ends[0] - 0.5 < low < high < 2 * ends[1]


def test_bands_that_are_not_too_wide_are_drawn_whole() -> None:
    _, (axes,) = drawing.panels(1)
    drawing.draw_curves(axes, wide_bands("a", low=0.02, high=1.5), x="x")
    heights = np.asarray(axes.collections[0].get_paths()[0].vertices)[:, 1]
    assert (heights.min(), heights.max()) == pytest.approx((0.02, 1.5))


def test_a_small_picture_keeps_the_colours_of_its_lines(tmp_path: Path) -> None:
    """Also where other shades fill most of it, of which a heatmap has hundreds."""
    figure, (left, *others) = drawing.panels(6)
    labels = [f"curve {i}" for i in range(len(drawing.COLOURS))]
    table = wide_bands(*labels, low=0.02, high=1.5)
    table["mean"] *= np.geomspace(1.0, 0.2, len(labels)).repeat(10)  # side by side
    drawing.draw_curves(left, table, x="x")
    for index, panel in enumerate(others):
        values = np.linspace(0, 1, 10_000).reshape(100, 100) ** (index + 1)
        drawing.heatmap(panel, values, rows=range(100), columns=range(100))
    whole, small = tmp_path / "whole.png", tmp_path / "small.png"
    with small.open("wb") as file:
        drawing.save_small(figure, file)
    figure.savefig(whole)
    with Image.open(whole) as first, Image.open(small) as second:
        pixels, kept = (np.asarray(image.convert("RGB")).astype(int) for image in (first, second))
        assert second.mode == "P"
    for colour in drawing.COLOURS:
        wanted = [int(colour[place : place + 2], 16) for place in (1, 3, 5)]
        before, after = ((abs(each - wanted) <= 3).all(axis=2).sum() for each in (pixels, kept))
        assert before > 100
        assert after > 0.9 * before  # the layout may move by a pixel when it is drawn again
    assert small.stat().st_size < 0.6 * whole.stat().st_size


def test_dollars_in_names_are_dollars(tmp_path: Path) -> None:
    """`$` begins a formula in matplotlib, and one that is none is an error when it is drawn."""
    evil = r"$\frac{$ and $x^$"
    figure, (left, right) = drawing.panels(2)
    drawing.draw_curves(left, wide_bands(evil, "b", low=0.02, high=1.5), x="x")
    drawing.heatmap(right, np.eye(2), rows=[evil, "b"], columns=[evil, "c"])
    drawing.legend(figure, [left])
    with (tmp_path / "figure.png").open("wb") as file:
        drawing.save_small(figure, file)
    assert right.get_yticklabels()[0].get_text() == drawing.as_label(evil)
