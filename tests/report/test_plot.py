"""Figures whose values can be read."""

import json
import re
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from innerloop.analysis.drawing import draw_curves, heatmap, legend, mark, name, panels
from innerloop.report import page as pages
from innerloop.report.page import Page, Section, render_page
from innerloop.report.plot import MOST_POINTS, Plot, plot

HOSTILE = '</script><img src=x onerror="alert(1)"> id="a" $5 & \'q\''


def a_table(*labels: str) -> pd.DataFrame:
    """Three points per label, the last of which has a band that is cut in the picture."""
    return pd.DataFrame(
        [
            {"label": label, "step": step, "mean": mean, "low": mean / 2, "high": mean * wide}
            for place, label in enumerate(labels)
            for step, mean, wide in ((1, 0.5 + place, 2), (2, 0.25 + place, 2), (4, 0.125, 1e6))
        ]
    )


def a_figure(table: pd.DataFrame) -> Figure:
    figure, (axes,) = panels(1)
    draw_curves(axes, table, x="step")
    mark(axes, 2.0)
    name(axes, title="a title", x="step", y="error")
    legend(figure, [axes])
    return figure


def curves(drawn: Plot, label: str) -> list[dict[str, Any]]:
    number = drawn.values["labels"].index(label)
    return [curve for curve in drawn.values["curves"] if curve["label"] == number]


def test_points_have_the_numbers_of_the_table_where_the_picture_shows_them() -> None:
    table = a_table("one", "two")
    drawn = plot(a_figure(table), "f", [table])
    (curve,) = curves(drawn, "one")
    assert [point[2:] for point in curve["points"]] == [
        ["1", "0.5", "0.25 to 1"],
        ["2", "0.25", "0.125 to 0.5"],
        ["4", "0.125", "0.0625 to 125000"],
    ]
    # The line that matplotlib draws goes through the very places.
    root = ElementTree.fromstring(drawn.svg)
    number = drawn.values["labels"].index("one")
    paths = [
        path.get("d", "")
        for group in root.iter("{http://www.w3.org/2000/svg}g")
        if group.get("data-series") == str(number)
        for path in group.findall("{http://www.w3.org/2000/svg}path")
    ]
    corners = np.array(re.findall(r"[ML] (\S+) (\S+)", paths[0]), float)  # (3, 2)
    places = np.array([point[:2] for point in curve["points"]])
    np.testing.assert_allclose(corners, places, atol=0.06)


def test_a_line_with_its_band_and_its_entry_of_the_legend_have_the_same_number() -> None:
    drawn = plot(a_figure(a_table("one", "two")), "f")
    assert drawn.values["labels"] == ["one", "two", "trained loops"]
    for number in range(2):
        assert drawn.svg.count(f'data-series="{number}"') == 2, "line and band"
    for number in range(3):
        assert drawn.svg.count(f'data-legend="{number}"') == 2, "line and text"
    assert not curves(drawn, "trained loops"), "it has no values"


def test_cells_and_bars_have_their_values() -> None:
    figure, (left, right) = panels(2)
    heatmap(left, np.array([[0.1, 0.2], [0.3, 0.4]]), rows=["a", "b"], columns=[5, 7])
    right.bar([1.2, 2.2], [3.0, 4.0], width=0.4, label="bars", yerr=[0.1, 0.2])
    right.set_xticks([1, 2], ["one", "two"])
    drawn = plot(figure, "f")
    cells, bars = (
        next(curve for curve in drawn.values["curves"] if curve["panel"] == panel)
        for panel in (0, 1)
    )
    assert [point[2:] for point in cells["points"]] == [
        ["5", "a", "0.1"], ["7", "a", "0.2"], ["5", "b", "0.3"], ["7", "b", "0.4"],
    ]  # fmt: skip
    assert [point[2:] for point in bars["points"]] == [["one", "3"], ["two", "4"]]
    assert bars["base"] > max(point[1] for point in bars["points"])
    assert drawn.svg.count("<image") == 2, "the map and its bar of colours"


def test_an_interval_is_shown_only_where_it_is_certain() -> None:
    rows = [("one", 1, 0.5, 0.4, 0.6), ("one", 2, 0.5, 0.3, 0.7), ("two", 2, 0.5, 0.2, 0.8)]
    table = pd.DataFrame(rows, columns=["label", "step", "mean", "low", "high"])
    drawn = plot(a_figure(table), "f", [table])
    (curve,) = curves(drawn, "one")
    assert [point[4:] for point in curve["points"]] == [["0.4 to 0.6"], []]


def test_a_level_has_no_place_and_every_cell_of_a_large_map_its_value() -> None:
    figure, (left, right) = panels(2)
    left.plot([0, 10], [0.5, 0.5], label="a level")
    heatmap(right, np.zeros((30, 20)), rows=range(30), columns=range(1, 21))
    level, cells = plot(figure, "f").values["curves"]
    assert [point[2:] for point in level["points"]] == [["", "0.5"]] * 2
    assert len(cells["points"]) == 600
    assert cells["points"][-1][2:] == ["20", "29", "0"], "beyond the last tick that has a name"
    figure, (axes,) = panels(1)
    heatmap(axes, np.zeros((1, 20)), rows=["a"], columns=[2**power for power in range(20)])
    (cells,) = plot(figure, "f").values["curves"]
    assert [point[2] for point in cells["points"][:3]] == ["1", "", "4"], "no guess between names"


def test_a_long_curve_is_thinned_out() -> None:
    figure, (axes,) = panels(1)
    axes.plot(range(10 * MOST_POINTS), label="long")
    (curve,) = plot(figure, "f").values["curves"]
    assert len(curve["points"]) == MOST_POINTS


def test_two_figures_on_a_page_share_no_ids_and_every_reference_is_met() -> None:
    table = a_table("one", "two")
    sections = tuple(Section(title=title, figure=a_figure(table)) for title in "ab")
    text = render_page(Page(title="two", sections=sections))
    ids = re.findall(r'\bid="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    referred = re.findall(r'(?:href="|url\()#([^")]+)', text)
    assert referred
    assert set(referred) <= set(ids)


def test_hostile_labels_stay_text() -> None:
    table = a_table(HOSTILE)
    text = render_page(
        Page(title="x", sections=(Section(title="y", figure=a_figure(table), drawn_from=(table,)),))
    )
    assert "<img" not in text
    assert text.count("</script>") == 2, "the values and the page's own"
    values = json.loads(re.findall(r'<script type="application/json">(.*?)</script>', text)[0])
    assert values["labels"][0].startswith("</script><img src=x")


def test_only_the_script_of_the_page_may_run() -> None:
    text = render_page(Page(title="x"))
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]+)"', text)
    assert "default-src &#39;none&#39;" in policy or "default-src 'none'" in policy
    assert re.search(r"script-src 'sha256-[A-Za-z0-9+/=]+'", policy)


def test_a_figure_that_would_be_too_large_is_a_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    page = Page(title="x", sections=(Section(title="y", figure=a_figure(a_table("one"))),))
    assert "<svg" in render_page(page)
    monkeypatch.setattr(pages, "LARGEST", 1000)
    text = render_page(page)
    assert "<svg" not in text
    assert 'src="data:image/png;base64,' in text
