"""`innerloop demo`: classical learners on linear and sparse problems, in a minute."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from innerloop.analysis.error import error_curve
from innerloop.analysis.figure import draw_error_curve, save_figure_and_table
from innerloop.cli.evaluate import error_table, progress_bar
from innerloop.core.files import require_folder
from innerloop.core.learner import Learner
from innerloop.core.task import Task
from innerloop.learners.averaging import Averaging
from innerloop.learners.gradient_descent import GradientDescent
from innerloop.learners.lasso import Lasso
from innerloop.learners.neighbors import NearestNeighbors
from innerloop.learners.newton import Newton
from innerloop.learners.ols import OLS
from innerloop.learners.ridge import Ridge
from innerloop.tasks.linear import LinearRegression
from innerloop.tasks.sparse import SparseLinearRegression

POINTS = 41


def demo(
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder for the figures and the CSVs.")
    ] = Path("demo"),
    prompts: Annotated[int, typer.Option(help="Prompts to average over.")] = 1280,
) -> None:
    """Draw what classical learners make of linear and sparse problems, by example and by step."""
    console = Console()
    require_folder(output)
    linear, sparse = LinearRegression(dims=20), SparseLinearRegression(dims=20, sparsity=3)
    general: list[Learner[Any]] = [OLS(), Ridge(1.0), GradientDescent(10), Averaging()]
    chapters: list[tuple[str, str, Task, list[Learner[Any]], bool]] = [
        (
            "linear",
            "linear functions of 20 dimensions: least squares is exact from 20 examples on",
            linear,
            [*general, NearestNeighbors(3)],
            False,
        ),
        (
            "sparse",
            "3 of 20 weights are not zero: the Lasso finds them from half as many examples",
            sparse,
            [*general, Lasso(0.1), Lasso(0.01)],
            False,
        ),
        (
            "steps",
            "linear functions, step by step: Newton's method against gradient descent",
            linear,
            [GradientDescent(30), Newton(30), OLS()],
            True,
        ),
    ]
    for name, title, task, learners, by_step in chapters:
        with progress_bar() as advance:
            table = error_curve(
                learners, task, points=POINTS, by="step" if by_step else "prefix",
                prompts=prompts, progress=advance,
            )  # fmt: skip
        figure = draw_error_curve(table, title=title, scale="log" if by_step else "linear")
        image, numbers = save_figure_and_table(figure, table, output / name)
        console.print(error_table(table, title=title, by="step" if by_step else "prefix"))
        console.print(f"figure [cyan]{image}[/], numbers [cyan]{numbers}[/]\n", soft_wrap=True)
