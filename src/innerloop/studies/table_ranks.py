"""Mean ranks and ratios of the methods on tables, with intervals, as Markdown and as a figure."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from innerloop.analysis import drawing
from innerloop.analysis.intervals import CONFIDENCE, DRAWS
from innerloop.core.files import write_atomically
from innerloop.studies.real_tables import ASKED
from innerloop.studies.rivals import BASELINE

Array = NDArray[np.float64]


def mean_ranks(found: pd.DataFrame) -> pd.DataFrame:
    """One row per kind, number of rows and method: rank, error and seconds.

    Ranks are taken within each table and split, 1 is best; their interval is a bootstrap that draws
    tables, and then splits of each. The error is the mean over all of them.
    """
    records: list[dict[str, object]] = []
    groups: Any = found.groupby(["kind", "rows"], sort=False)
    for (kind, rows), part in groups:
        errors = part.pivot_table(index=["table", "split"], columns="method", values="error")
        ranks = errors.rank(axis=1)  # (tables x splits, methods)
        cube = np.stack([group.to_numpy() for _, group in ranks.groupby("table")])  # (t, s, m)
        low, high = _ends(_drawn_means(cube))  # (m,) each
        seconds = part.groupby("method")["seconds"].median()
        for place, method in enumerate(ranks.columns):
            records.append({
                "kind": kind, "rows": rows, "method": method, "rank": ranks[method].mean(),
                "rank_low": low[place], "rank_high": high[place], "error": errors[method].mean(),
                "seconds": seconds[method],
            })  # fmt: skip
    return pd.DataFrame(records)


def ratios(found: pd.DataFrame) -> pd.DataFrame:
    """One row per table, kind, number of rows and method: its error over that of a constant.

    The interval is a bootstrap over splits.
    """
    records: list[dict[str, object]] = []
    groups: Any = found.groupby(["table", "kind", "rows"], sort=False)
    for (table, kind, rows), part in groups:
        errors = part.pivot_table(index="split", columns="method", values="error")
        for method in errors.columns:
            if method == BASELINE:
                continue
            pair = errors[[method, BASELINE]].to_numpy()[None]  # (1, s, 2)
            drawn = _drawn_means(pair)  # (D, 2)
            low, high = _ends(drawn[:, :1] / drawn[:, 1:])  # (1,) each
            mean = pair[0].mean(axis=0)  # (2,)
            records.append({
                "table": table, "kind": kind, "rows": rows, "method": method,
                "ratio": mean[0] / mean[1], "ratio_low": low[0], "ratio_high": high[0],
            })  # fmt: skip
    return pd.DataFrame(records)


def write_comparison(found: pd.DataFrame, folder: Path) -> Path:
    """Write all errors, ranks and ratios as CSV, the ranks as Markdown, and a figure."""
    ranks, over = mean_ranks(found), ratios(found)
    for name, frame in (("errors", found), ("ranks", ranks), ("ratios", over)):
        write_atomically(folder / f"{name}.csv", lambda file, frame=frame: frame.to_csv(
            file, index=False, float_format="%.5g"))  # fmt: skip
    text = as_markdown(ranks, over)
    write_atomically(folder / "tables.md", lambda file: file.write_text(text, "utf-8"))
    write_atomically(folder / "ranks.png", lambda file: _draw(ranks, file))
    return folder


def as_markdown(ranks: pd.DataFrame, over: pd.DataFrame) -> str:
    """Tables of mean ranks, and the places where a method is surely worse than a constant."""
    number = over.groupby("kind", sort=False)["table"].nunique()
    tables = " and ".join(f"{each} of {kind}" for kind, each in number.items())
    lines = [
        "# Estimators on tables of few rows", "",
        f"Tables: {tables}. In each split, examples and up to {ASKED} questions are drawn anew, "
        "the same for all methods; the others are scikit-learn's, linear models and neighbours "
        "tuned by cross-validation. `innerloop compare-tables` writes this page.", "",
        "![Mean ranks by the number of rows](ranks.png)", "",
    ]  # fmt: skip
    for kind, part in ranks.groupby("kind", sort=False):
        measure = "mean square / variance" if kind == "regression" else "share of wrong classes"
        lines += [
            f"## {str(kind).capitalize()}", "",
            f"Mean rank with its {CONFIDENCE:.0%} interval; in brackets the mean error ({measure}) "
            "and the median seconds of fit and predict.", "",
        ]  # fmt: skip
        numbers = sorted(part["rows"].unique())
        lines.append("| method | " + " | ".join(f"{number} rows" for number in numbers) + " |")
        lines.append("|---" * (len(numbers) + 1) + "|")
        means: Any = part.groupby("method")["rank"].mean()
        for method in means.sort_values().index:
            own = part[part["method"] == method].set_index("rows")
            cells = [_cell(own.loc[number]) for number in numbers]
            lines.append(f"| {method} | " + " | ".join(cells) + " |")
        lines.append("")
    worse = over[over["ratio_low"] > 1]
    lines += ["## Worse than a constant", "", (
        f"Where the {CONFIDENCE:.0%} interval of the error's ratio to that of the mean, or of the "
        "larger class, lies above 1:"), ""]  # fmt: skip
    lines += [
        f"- {row['method']} on {row['table']} ({row['kind']}, {row['rows']} rows): "
        f"{row['ratio']:.2f} ({row['ratio_low']:.2f} to {row['ratio_high']:.2f})"
        for _, row in worse.iterrows()
    ] or ["- nowhere"]
    return "\n".join(lines) + "\n"


def _cell(row: pd.Series) -> str:
    return (
        f"{row['rank']:.2f} ({row['rank_low']:.2f} to {row['rank_high']:.2f}) "
        f"[{row['error']:.3f}, {row['seconds']:.2g} s]"
    )


def _drawn_means(cube: Array) -> Array:
    """Means over tables and splits (t, s, m), of each drawn with replacement: (D, m)."""
    random = np.random.default_rng(0)
    tables, splits, _ = cube.shape
    which = random.integers(tables, size=(DRAWS, tables, 1))  # (D, t, 1)
    each = random.integers(splits, size=(DRAWS, tables, splits))  # (D, t, s)
    return cube[which, each].mean(axis=(1, 2))


def _ends(drawn: Array) -> tuple[Array, Array]:
    """The ends of the interval of draws (D, m): (m,) each."""
    rest = (1 - CONFIDENCE) / 2
    low, high = np.quantile(drawn, [rest, 1 - rest], axis=0)
    return low, high


def _draw(ranks: pd.DataFrame, path: Path) -> None:
    """A panel per kind of output; a method has one colour in both, and so have the linear ones."""
    kinds = list(ranks["kind"].unique())
    figure, panels = drawing.panels(len(kinds), size=(4.6, 3.4), legend=0.6)
    names = sorted(set(ranks["method"]), key=lambda name: (name != "innerloop", name))
    linear = [name for name in names if name in ("ridge", "logistic")]
    colours = dict(zip([n for n in names if n not in linear], drawing.COLOURS, strict=False))
    numbers = sorted(ranks["rows"].unique())
    for axes, kind in zip(panels, kinds, strict=True):
        for method, part in ranks[ranks["kind"] == kind].groupby("method"):
            colour = colours.get(str(method), "0.45")
            axes.plot(part["rows"], part["rank"], marker="o", color=colour, label=method)
            axes.fill_between(
                part["rows"], part["rank_low"], part["rank_high"], color=colour, alpha=0.15
            )
        drawing.name(axes, title=str(kind), x="rows", y="mean rank (1 is best)")
        axes.set_xscale("log")
        axes.set_xticks(numbers, [str(number) for number in numbers])
        axes.minorticks_off()
        axes.invert_yaxis()
    drawing.legend(figure, panels, columns=4)
    figure.savefig(path, dpi=120)
