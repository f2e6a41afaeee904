"""Run every benchmark: `python -m benchmarks`, or some: `python -m benchmarks linear newton`.

With `--json FILE` the table is written there as well, with the machine that it was measured on.
"""

import argparse
import importlib
import json
import pkgutil
import sys
from dataclasses import asdict
from pathlib import Path
from types import ModuleType

from rich.console import Console
from rich.table import Table

from benchmarks.timing import Row
from innerloop.core.machine import describe_machine


def main() -> int:
    """Print one table; exit with 1 where a target was missed."""
    names = sorted(
        module.name
        for module in pkgutil.iter_modules([str(Path(__file__).parent)])
        if module.name.startswith("bench_")
    )
    parser = argparse.ArgumentParser("benchmarks", description="Speeds as ratios.")
    parser.add_argument("names", nargs="*", help="benchmarks; default: all that are not long")
    parser.add_argument("--json", type=Path, help="a file for the table")
    words = parser.parse_args()
    wanted = [f"bench_{name}" for name in words.names] or [
        name for name in names if not getattr(_module(name), "LONG", False)
    ]
    for name in wanted:
        if name not in names:
            known = ", ".join(name.removeprefix("bench_") for name in names)
            print(f"error: unknown benchmark {name.removeprefix('bench_')!r}: choose from {known}.")
            return 2
    console = Console()
    console.print(describe_machine(), markup=False)
    console.print("one thread where a row does not say more; medians; ratios within this run")
    rows: list[Row] = []
    for name in wanted:
        with console.status(f"{name} .."):
            rows.extend(_module(name).run())
    console.print(as_table(rows))
    if words.json is not None:
        words.json.write_text(json.dumps({"machine": describe_machine(), "rows": as_json(rows)}))
    return 0 if all(row.reached for row in rows) else 1


def _module(name: str) -> ModuleType:
    return importlib.import_module(f"benchmarks.{name}")


def as_json(rows: list[Row]) -> list[dict[str, str | float | bool]]:
    """The rows as plain values."""
    return [{**asdict(row), "ratio": row.ratio, "reached": row.reached} for row in rows]


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
