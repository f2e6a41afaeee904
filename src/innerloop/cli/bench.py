"""`innerloop bench`: how fast this machine trains, before a long run is begun."""

import statistics
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import torch
import typer
from rich.table import Table
from torch.utils.flop_counter import FlopCounterMode

from innerloop.cli.console import Console
from innerloop.cli.options import ScaleName, json_file, spread, write_rows
from innerloop.core.machine import describe_machine, require_threads
from innerloop.data.reading import MissingDataError
from innerloop.report.words import duration
from innerloop.training.config import MOST_THREADS, RunConfig
from innerloop.training.estimate import training_seconds
from innerloop.training.recipes import RECIPES, find_recipe
from innerloop.training.trainer import Trainer, available

PLACES = 5
"""Steps of a run that are timed, from its beginning to its end: prompts and loops grow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """How fast a recipe trains here."""

    recipe: str
    seconds: float
    """Of a step at the end of the run, when all has grown."""
    minutes: float
    """Of the whole run, about."""
    gigaflops: float
    """Of a step at the end: products of matrices only."""
    share: float
    """Of the rate at which this machine multiplies large matrices."""


def bench(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[RECIPE...]", help="Default: all.")
    ] = None,
    scale: ScaleName = "laptop",
    repeats: Annotated[int, typer.Option(min=1, help="Steps to time at each place.")] = 3,
    device: Annotated[str, typer.Option(help="Where to compute: cpu, cuda, ..")] = "cpu",
    threads: Annotated[
        int | None, typer.Option(min=1, max=MOST_THREADS, help="Default: as torch has.")
    ] = None,
    json: Annotated[Path | None, json_file("the table")] = None,
) -> None:
    """Time the training steps of recipes on this machine, and say what whole runs would take."""
    console = Console()
    configs = {name: find_recipe(name, scale) for name in names or RECIPES}
    place = available(device)
    if threads is not None:
        require_threads(threads)
        torch.set_num_threads(threads)
    peak = multiplication_rate(place)
    console.print(describe_machine(), markup=False)
    console.print(
        f"{device}, {torch.get_num_threads()} threads: large matrices are multiplied at "
        f"{peak / 1e9:.0f} GFLOP/s in float32"
    )
    speeds: list[Speed] = []
    for name, config in configs.items():
        placed = config.model_copy(update={"device": device})
        try:
            with console.status(f"{name} .."):
                speeds.append(time_recipe(name, placed, repeats, peak))
        except MissingDataError as error:
            if names:  # it was asked for
                raise
            console.print(f"{name} is left out: {error}", markup=False)
    console.print(_table(speeds, scale))
    about = {"scale": scale, "device": device, "peak": peak, "machine": describe_machine()}
    write_rows(json, pd.DataFrame(speeds).assign(**about))


def time_recipe(name: str, config: RunConfig, repeats: int, peak: float) -> Speed:
    """Time steps at several places of a run."""
    trainer = Trainer(config)
    places = spread(config.steps, PLACES)
    seconds = {place: _seconds(trainer, place, repeats) for place in places}
    trainer.step = places[-1]
    with FlopCounterMode(display=False, custom_mapping=PRODUCTS) as counter:
        trainer.take_step()
    flops = counter.get_total_flops()
    return Speed(
        recipe=name,
        seconds=seconds[places[-1]],
        minutes=training_seconds(config, seconds) / 60,
        gigaflops=flops / 1e9,
        share=flops / seconds[places[-1]] / peak,
    )


def _product_flops(
    total: Any, left: tuple[int, int], right: tuple[int, int], *_: Any, **__: Any
) -> int:
    """Of a product (m, k) times (k, n) added to something; torch's counter gives the shapes."""
    return 2 * left[0] * left[1] * right[1]


PRODUCTS = {torch.ops.aten.addmm_: _product_flops}
"""The fused kernels add products up in place, which torch's counter does not know."""


def multiplication_rate(
    device: torch.device, size: int = 2048, *, dtype: torch.dtype = torch.float32
) -> float:
    """Operations per second of a product of large matrices: the best of five."""
    generator = torch.Generator().manual_seed(0)
    matrix = torch.randn(size, size, generator=generator).to(device, dtype)  # (size, size)
    times: list[float] = []
    for _ in range(6):
        _wait(device)
        start = time.perf_counter()
        torch.mm(matrix, matrix)
        _wait(device)
        times.append(time.perf_counter() - start)
    return 2 * size**3 / min(times[1:])


def _seconds(trainer: Trainer, place: int, repeats: int) -> float:
    """The median time of a step at a place of the run, after one to warm up."""
    times: list[float] = []
    for _ in range(repeats + 1):
        trainer.step = place
        start = time.perf_counter()
        trainer.take_step()
        _wait(trainer.device)
        times.append(time.perf_counter() - start)
    return statistics.median(times[1:])


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _table(speeds: list[Speed], scale: str) -> Table:
    table = Table(title=f"Training at {scale} size", title_justify="left")
    table.add_column("recipe", style="cyan", no_wrap=True)
    for heading in ("step", "products", "share of the rate", "whole run"):
        table.add_column(heading, justify="right")
    for speed in speeds:
        table.add_row(
            speed.recipe, f"{speed.seconds * 1e3:.0f} ms",
            # An LSTM's products happen inside one call, which the counter does not look into.
            f"{speed.gigaflops:.2f} GFLOP" if speed.gigaflops else "-",
            f"{speed.share:.0%}" if speed.gigaflops else "-",
            duration(60 * speed.minutes),
        )  # fmt: skip
    return table
