"""Run every benchmark: `python -m benchmarks`, or some: `python -m benchmarks linear newton`."""

import importlib
import pkgutil
import sys
from pathlib import Path
from types import ModuleType

import torch
from rich.console import Console
from rich.table import Table

from benchmarks.timing import Row


def main() -> int:
    """Print one table; exit with 1 where a target was missed."""
    names = sorted(
        module.name
        for module in pkgutil.iter_modules([str(Path(__file__).parent)])
        if module.name.startswith("bench_")
    )
    wanted = [f"bench_{name}" for name in sys.argv[1:]] or [
        name for name in names if not getattr(_module(name), "LONG", False)
    ]
    for name in wanted:
        if name not in names:
            known = ", ".join(name.removeprefix("bench_") for name in names)
            print(f"error: unknown benchmark {name.removeprefix('bench_')!r}: choose from {known}.")
            return 2
    console = Console()
    console.print(f"torch {torch.__version__}, one thread, medians; ratios within this run")
    rows: list[Row] = []
    for name in wanted:
        with console.status(f"{name} .."):
            rows.extend(_module(name).run())
    console.print(as_table(rows))
    return 0 if all(row.reached for row in rows) else 1


def _module(name: str) -> ModuleType:
    return importlib.import_module(f"benchmarks.{name}")


def as_table(rows: list[Row]) -> Table:
    """The rows as a table for the terminal."""
    table = Table("benchmark", title="innerloop against plain implementations")
    for heading in ("ours", "plain", "ratio", "target"):
        table.add_column(heading, justify="right")
    for row in rows:
        colour = "green" if row.reached else "red"
        table.add_row(
            row.name,
            f"{row.ours:.3f} s",
            f"{row.plain:.3f} s",
            f"[{colour}]{row.ratio:.1f}x[/]",
            f"{row.target:g}x",
        )
    return table


if __name__ == "__main__":
    sys.exit(main())
