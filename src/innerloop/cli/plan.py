"""`innerloop plan`: what the studies cost to train, in GPU-hours, before anything is trained."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from innerloop.cli.options import ScaleName, json_file, write_json
from innerloop.studies.budget import StudyCost, training_costs
from innerloop.studies.seeds import read_seeds
from innerloop.studies.table import STUDIES, find_studies
from innerloop.training.families import read_scale

PEAK = 19.5
"""TFLOP/s of an NVIDIA A100 in float32, by its data sheet: what runs compute in by default."""
UTILISATION = 0.25
"""The share of the peak that is assumed: the papers' models are small, and their kernels short."""


def plan(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[PAPER|PAPER/ID...]", help="Studies. Default: all."),
    ] = None,
    scale: ScaleName = "paper",
    seeds: Annotated[str, typer.Option(help="Their number, as 3, or first and last: 3-5.")] = "3",
    peak: Annotated[
        float, typer.Option(min=1e-3, help="TFLOP/s of the GPU at its best. Default: an A100.")
    ] = PEAK,
    utilisation: Annotated[
        float, typer.Option(min=1e-3, max=1.0, help="The share of it that training reaches.")
    ] = UTILISATION,
    json: Annotated[Path | None, json_file("the table")] = None,
) -> None:
    """Say what the studies cost to train, in GPU-hours from counted operations.

    For example:

    innerloop plan --scale paper

    innerloop plan yang2024 --seeds 1 --peak 67 --utilisation 0.2
    """
    chosen = [study for name in names for study in find_studies(name)] if names else STUDIES
    own = read_seeds(seeds)
    costs = training_costs(dict.fromkeys(chosen), read_scale(scale), own)
    rate = peak * 1e12 * utilisation
    console = Console()
    console.print(_table(costs, scale, rate))
    console.print(
        f"{len(own)} seeds; {peak:g} TFLOP/s at a utilisation of {utilisation:.0%}, which is an "
        "assumption: `innerloop bench --device cuda` measures it. A run that several studies share "
        "is counted with the first. Measuring comes on top."
    )
    rows = [{**asdict(cost), "gpu_hours": cost.operations / rate / 3600} for cost in costs]
    write_json(json, rows)


def _table(costs: list[StudyCost], scale: str, rate: float) -> Table:
    """A row per study, and their sum."""
    table = Table(title=f"Training of the studies at {scale} size", title_justify="left")
    table.add_column("study", style="cyan", no_wrap=True)
    for heading in ("runs", "shared", "PFLOP", "GPU-hours", "longest run"):
        table.add_column(heading, justify="right", no_wrap=True)
    total = StudyCost(
        study="all", runs=sum(cost.runs - cost.shared for cost in costs), shared=0,
        operations=sum(cost.operations for cost in costs),
        largest=max((cost.largest for cost in costs), default=0.0),
    )  # fmt: skip
    for cost in (*costs, total):
        if cost is total:
            table.add_section()
        table.add_row(
            cost.study, f"{cost.runs}", f"{cost.shared}", _brief(cost.operations / 1e15, 0),
            _brief(cost.operations / rate / 3600, 1),
            f"{_brief(cost.largest / rate / 3600, 1)} h",
        )  # fmt: skip
    return table


def _brief(value: float, decimals: int) -> str:
    """So many decimals, or two digits where these would be zeros: small scales cost little."""
    small = 0 < value < 10.0**-decimals
    return f"{value:.2g}" if small else f"{value:,.{decimals}f}"
