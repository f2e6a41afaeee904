"""A figure as an SVG whose curves can be told apart, with the values of their points beside it.

The picture is matplotlib's own, of the same figure that is saved as PNG; only the names of its
elements are changed, so that a page can hold several, and its coordinates are shortened.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from io import StringIO
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pandas as pd
from matplotlib import rc_context
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.collections import FillBetweenPolyCollection, PathCollection, QuadMesh
from matplotlib.colors import to_rgb
from matplotlib.container import BarContainer
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.legend import Legend
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedFormatter, FixedLocator, FuncFormatter

POINTS = 72
"""Per inch: the unit of an SVG's coordinates."""
MOST_POINTS = 400
"""Of a curve that can be read one by one; a longer one is thinned out evenly."""
_SVG, _LINK = "{http://www.w3.org/2000/svg}", "{http://www.w3.org/1999/xlink}href"

Interval = Callable[[float, float], str]
"""What belongs to a point at x and y: `0.1 to 0.3`, or nothing."""


@dataclass(frozen=True, slots=True)
class Plot:
    """A figure for a page."""

    svg: str
    values: dict[str, Any]
    """Labels, panels with their boxes, and curves with points [left, top, x, y, interval]."""

    @property
    def size(self) -> int:
        """Characters that it takes."""
        return len(self.svg) + len(json.dumps(self.values))


def plot(figure: Figure, name: str, tables: Sequence[pd.DataFrame] = ()) -> Plot:
    """The figure as SVG, with `name` before all its ids, and what can be read from it.

    Intervals are those of the tables that it was drawn from: bands may be cut.
    """
    labels: dict[str, int] = {}
    artists = [(axes, list(_labelled(axes))) for axes in figure.axes]
    entries = list(_entries(figure))
    for _, own in artists:
        for artist, label in own:
            label = label or _label_by_look(artist, entries)
            if label:
                artist.set_gid(f"series-{labels.setdefault(label, len(labels))}")
    for axes in figure.axes:
        for mesh in axes.collections:  # a bar of colours is hundreds of paths otherwise
            mesh.set_rasterized(isinstance(mesh, QuadMesh))
    for label, parts in entries:
        for part in parts if label in labels else ():
            part.set_gid(f"legend-{labels[label]}")
    svg = _svg(figure, name)  # which lays it out: only now is it known where things are
    interval = _intervals(tables)
    values = {
        "labels": [_plain(label) for label in labels],
        "panels": [_panel(axes) for axes in figure.axes],
        "curves": [
            {"panel": index, **curve}
            for index, (axes, own) in enumerate(artists)
            for artist, _ in own
            for curve in _curves(axes, artist, interval)
        ],
    }
    return Plot(svg, values)


def _labelled(axes: Axes) -> Iterator[tuple[Artist, str]]:
    """What shows data in a panel, with its label; a band has that of the line before it."""
    owned: dict[Artist, str] = {}
    for container in axes.containers:
        label = str(container.get_label())
        owned |= {part: label for part in container.get_children()}
    line: Line2D | None = None
    for artist in axes.get_children():
        label = owned.get(artist, str(artist.get_label()))
        if isinstance(artist, FillBetweenPolyCollection):
            colour = np.asarray(artist.get_facecolor(), float)[0, :3]  # (3,)
            if line is None or to_rgb(line.get_color()) != tuple(colour):
                continue
            label = str(line.get_label())
        elif isinstance(artist, Line2D):
            line = artist
        elif not isinstance(artist, PathCollection | AxesImage) and artist not in owned:
            continue
        yield artist, "" if label.startswith("_") else label


def _entries(figure: Figure) -> Iterator[tuple[str, tuple[Artist, ...]]]:
    """The entries of all legends: label, and what is drawn of it."""
    own = (axes.get_legend() for axes in figure.axes)
    legends: list[Legend] = [*figure.legends, *(legend for legend in own if legend is not None)]
    for legend in legends:
        for text, handle in zip(legend.get_texts(), legend.legend_handles, strict=True):
            yield text.get_text(), (text,) if handle is None else (text, handle)


def _label_by_look(artist: Artist, entries: Sequence[tuple[str, tuple[Artist, ...]]]) -> str:
    """The label of a line that has none, where a legend shows one that looks the same."""

    def look(line: Line2D) -> tuple[object, ...]:
        return line.get_color(), line.get_linestyle(), line.get_marker()

    for label, parts in entries:
        handle = parts[-1]
        if isinstance(artist, Line2D) and isinstance(handle, Line2D):
            if look(artist) == look(handle):
                return label
    return ""


def _plain(text: str) -> str:
    """A text of a figure in one line, without the backslash that keeps a dollar a dollar."""
    return re.sub(r"\s+", " ", text.replace(r"\$", "$"))


def _panel(axes: Axes) -> dict[str, Any]:
    """Names of the axes, and the box: left, top, right, bottom."""
    corners = _places(axes, axes.transAxes.transform([(0, 1), (1, 0)]))
    names = (axes.get_title(loc="left"), axes.get_xlabel(), axes.get_ylabel())
    title, x, y = map(_plain, names)
    return {"title": title, "x": x or "x", "y": y or "y", "box": corners.ravel().tolist()}


def _curves(axes: Axes, artist: Artist, interval: Interval) -> Iterator[dict[str, Any]]:
    """An artist's points with their places, where it has any that a person wants to read."""
    gid = artist.get_gid()
    curve: dict[str, Any] = {"label": None if gid is None else int(gid.partition("-")[2])}
    values: np.ndarray | None = None
    if isinstance(artist, Line2D) and artist.get_transform() == axes.transData:
        if artist.get_marker() not in ("None", "", None) or artist.get_linestyle() != "None":
            data = np.asarray(artist.get_xydata(), float)  # (N, 2)
        else:
            return
    elif isinstance(artist, PathCollection):
        data = np.asarray(artist.get_offsets(), float)  # (N, 2)
    elif isinstance(artist, AxesImage):
        values = np.asarray(artist.get_array(), float)  # (rows, columns)
        rows, columns = np.indices(values.shape)
        data = np.stack([columns.ravel(), rows.ravel()], axis=1).astype(float)  # (N, 2)
        unit = axes.transData.transform([(0, 0), (1, 1)])
        curve["half"] = (abs(unit[1] - unit[0]) / 2 * _scale(axes)).round(1).tolist()
        values = values.ravel()
    else:
        bars = [bars for bars in axes.containers if isinstance(bars, BarContainer)]
        own = next((bars.patches for bars in bars if bars.patches[:1] == [artist]), None)
        if own is None:  # the first of some bars stands for all
            return
        boxes = [bar.get_bbox() for bar in own]
        data = np.array([((box.x0 + box.x1) / 2, box.y1) for box in boxes], float)  # (N, 2)
        ends = axes.transData.transform([(box.x0, box.y0) for box in boxes])
        middles = axes.transData.transform(data)
        curve["half"] = [round(float(abs(middles - ends)[0, 0]) * _scale(axes), 1), 0]
        curve["base"] = float(_places(axes, ends)[0, 1])
    points = list(_points(axes, data, values, interval, bars="base" in curve))
    if points:
        yield {**curve, "points": points}


def _points(
    axes: Axes, data: np.ndarray, values: np.ndarray | None, interval: Interval, *, bars: bool
) -> Iterator[list[Any]]:
    """Place, x, y and interval of what can be seen; the value of a cell is its third."""
    places = _places(axes, axes.transData.transform(data))  # (N, 2)
    (left, top), (right, bottom) = _places(axes, axes.transAxes.transform([(0, 1), (1, 0)]))
    name_x, name_y = _namer(axes.xaxis, near=bars), _namer(axes.yaxis)
    level = len(data) == 2 and data[0, 1] == data[1, 1]  # from left to right: x says nothing
    every = max(1, -(-len(data) // MOST_POINTS)) if values is None else 1
    for index in range(0, len(data), every):
        (x, y), (across, down) = data[index], places[index]
        if not (left - 2 <= across <= right + 2 and top - 2 <= down <= bottom + 2):
            continue  # nor is what is no number
        shown = interval(x, y) if values is None else f"{values[index]:.6g}"
        point = [float(across), float(down), "" if level else name_x(x), name_y(y)]
        yield [*point, shown] if shown else point


def _scale(axes: Axes) -> float:
    """Units of the SVG per pixel of the figure."""
    figure = axes.figure
    assert figure is not None
    return POINTS / figure.dpi


def _places(axes: Axes, pixels: np.ndarray) -> np.ndarray:
    """Where pixels of the figure (N, 2) are in its SVG, whose origin is the upper left corner."""
    figure = axes.figure
    assert figure is not None
    scaled = np.asarray(pixels, float) * _scale(axes)  # (N, 2)
    scaled[:, 1] = figure.bbox.height * _scale(axes) - scaled[:, 1]
    return scaled.round(1)


def _namer(axis: Axis, *, near: bool = False) -> Callable[[float], str]:
    """How the values of an axis are written: by the names of its ticks, where it has some.

    Things that have a tick together stand beside it: `near` says that these are such.
    """
    fixed = isinstance(axis.get_major_locator(), FixedLocator)
    named = isinstance(axis.get_major_formatter(), FuncFormatter | FixedFormatter)
    ticks = zip(axis.get_majorticklocs(), axis.get_ticklabels(), strict=True) if fixed else ()
    names = {float(at): _plain(text.get_text()) if named else f"{at:.6g}" for at, text in ticks}
    if not names or not (near or named):
        return lambda value: f"{value:.6g}"
    places, numbers = np.array(list(names)), np.zeros(0)
    try:
        numbers = np.array([float(name) for name in names.values()])
    except ValueError:
        near = True
    if near:
        return lambda value: names[min(names, key=lambda place: abs(place - value))]
    # Where only some ticks have names, those of the others follow if they are on a line.
    slope = (numbers[-1] - numbers[0]) / ((places[-1] - places[0]) or 1)
    even = np.allclose(numbers, numbers[0] + slope * (places - places[0]))
    return lambda value: (
        names.get(value) or (f"{numbers[0] + slope * (value - places[0]):.6g}" if even else "")
    )


def _intervals(tables: Sequence[pd.DataFrame]) -> Interval:
    """Finds the interval of a point: that of the row with its mean, and its x if there are some."""
    rows: dict[float, list[tuple[set[Any], str]]] = {}
    for table in tables:
        if {"mean", "low", "high"} <= set(table.columns):
            for row in table.to_dict("records"):
                shown = f"{row['low']:.6g} to {row['high']:.6g}"
                rows.setdefault(row["mean"], []).append((set(row.values()), shown))

    def find(x: float, y: float) -> str:
        for mean, other in ((y, x), (x, y)):
            own = rows.get(mean, [])
            shown = {text for values, text in own if other in values} or {text for _, text in own}
            if len(shown) == 1:
                return shown.pop()
        return ""

    return find


def _svg(figure: Figure, name: str) -> str:
    """The figure as an <svg> element, the same at every run."""
    # Letters stay letters: they can be searched, read aloud, and take a tenth of the space.
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "innerloop"}):
        text = StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    root = ElementTree.fromstring(text.getvalue())
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag == f"{_SVG}metadata" or child.tag == f"{_SVG}style":
                parent.remove(child)
    for element in root.iter():
        element.tag = element.tag.removeprefix(_SVG)
        element.attrib = dict(_attributes(element, name))
        element.tail = None
        if element.tag not in ("text", "tspan"):
            element.text = None
    root.set("xmlns", "http://www.w3.org/2000/svg")
    for size in ("width", "height"):
        del root.attrib[size]
    root.set("style", f"--width: {figure.get_figwidth() * POINTS:.0f}px")
    return ElementTree.tostring(root, encoding="unicode", short_empty_elements=False)


def _attributes(element: ElementTree.Element, name: str) -> Iterator[tuple[str, str]]:
    """An element's attributes: ids that others refer to are its own, series are data."""
    for key, value in element.items():
        kind, _, number = value.partition("-")
        if key == "id" and kind in ("series", "legend") and number.isdigit():
            yield f"data-{kind}", number
        elif key == "id":
            if element.tag not in ("g", "svg", "text"):
                yield key, f"{name}-{value}"
        elif key == _LINK:
            yield "href", value.replace("#", f"#{name}-", 1) if value[0] == "#" else value
        elif key == "d" or key in ("x", "y", "transform", "points"):
            short = re.sub(r"-?\d+\.\d{3,}", lambda number: f"{float(number[0]):.2f}", value)
            yield key, re.sub(r"\s+", " ", short)
        elif key != "style" or element.tag != "svg":
            own = re.sub(r"url\(#", f"url(#{name}-", value)
            yield key, re.sub(r"font-family:[^;]*;? ?", "", own)  # the page has one for all
