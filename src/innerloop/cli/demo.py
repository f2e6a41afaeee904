"""`innerloop demo`: train a looped transformer from scratch, and see what it has learned."""

from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import typer
from matplotlib.figure import Figure
from rich.markup import escape

from innerloop.analysis.drawing import draw_error_curve, draw_training, save_figure_and_table
from innerloop.analysis.error import error_curve
from innerloop.analysis.identify import Identification, identify
from innerloop.analysis.identify_figure import draw_identification
from innerloop.cli.console import Console, as_place
from innerloop.cli.evaluate import error_table
from innerloop.cli.options import json_file, output_folder, write_rows
from innerloop.cli.progress import progress_bar
from innerloop.cli.train import stopped
from innerloop.core.learner import Learner
from innerloop.core.task import Task
from innerloop.explore.gallery import gallery
from innerloop.explore.page import write_explore_page
from innerloop.learners.averaging import Averaging
from innerloop.learners.gradient_descent import GradientDescent
from innerloop.learners.ols import OLS
from innerloop.learners.ridge import Ridge
from innerloop.report.page import Page, Section, write_page
from innerloop.report.words import count
from innerloop.training.interrupt import interruptible
from innerloop.training.progress import shown_progress
from innerloop.training.recipes import find_recipe
from innerloop.training.run import Run
from innerloop.training.store import Store

RECIPE = "looped-linear"
STEPS = 1000
"""Fewer than the recipe's: enough to see it learn, in two minutes."""
IDENTIFIED = 256
"""Prompts on which it is compared with known algorithms, at the most."""
BEYOND = 5
"""The loops are run to so many times the number that was trained."""


def demo(
    output: Annotated[Path, output_folder("the page, the figures and the run")] = Path("demo"),
    prompts: Annotated[int, typer.Option(help="Prompts to average over.")] = 1280,
    scale: Annotated[
        str, typer.Option(help="How large the model is: `smoke` takes seconds and learns nothing.")
    ] = "laptop",
    json: Annotated[Path | None, json_file("the numbers of the figures")] = None,
) -> None:
    """Train a looped transformer to learn linear functions in context, and set it beside OLS."""
    console = Console()
    recipe = find_recipe(RECIPE, scale)
    config = recipe.model_copy(update={"steps": min(recipe.steps, STEPS)})
    console.print(
        f"A looped transformer learns linear functions of {config.task.dims} dimensions from "
        f"{config.points - 1} examples in its prompt."
    )
    with interruptible() as interruption, shown_progress(RECIPE) as listener:
        run = Store(output / "runs").train(config, name=RECIPE, report=listener, stop=interruption)
    if not run.finished:
        raise stopped(run, interruption)
    model, task = run.model(), run.config.task
    loops = BEYOND * model.steps
    by_prefix = _curve(
        [model, OLS(), Ridge(0.1), GradientDescent(model.steps), Averaging()],
        task, config.points, prompts,
    )  # fmt: skip
    # Least squares is exact here: on a logarithmic axis it would leave no room for the others.
    by_loop = _curve([model, GradientDescent(loops)], task, config.points, prompts, steps=loops)
    with progress_bar() as advance:
        answer = identify(
            model, task, points=config.points, prompts=min(prompts, IDENTIFIED),
            progress=lambda _, done, total: advance("which algorithm is it", done, total),
        )  # fmt: skip
    figures = (
        draw_error_curve(by_prefix, title=f"linear functions of {task.dims} dimensions"),
        draw_error_curve(
            by_loop, title="loop by loop", scale="log", place=(model.steps, "loops in training")
        ),
        draw_training(run.metrics(), title="held-out error while training"),
        draw_identification(answer),
    )
    for name, figure, table in (
        ("by-example", figures[0], by_prefix),
        ("by-loop", figures[1], by_loop),
        ("training", figures[2], run.metrics()),
        ("algorithm", figures[3], answer.ranking),
    ):
        save_figure_and_table(figure, table, output / name)
    console.print(error_table(by_prefix, title="error by example", by="prefix"))
    console.print(error_table(by_loop, title="error by loop", by="step"))
    console.print(_verdict(by_prefix, model.name))
    console.print(f"[bold]Which algorithm is it?[/] {escape(answer.summary())}")
    write_rows(json, pd.concat([by_prefix.assign(by="prefix"), by_loop.assign(by="step")]))
    page = write_page(_page(run, answer, by_prefix, by_loop, figures), output / "index.html")
    console.print(f"page {as_place(page)}, run {as_place(run.path)}", soft_wrap=True)
    explored = write_explore_page(gallery(), output / "explore")
    console.print(f"Drag examples, and watch one learn: {as_place(explored)}", soft_wrap=True)


def _curve(
    learners: list[Learner[Any]], task: Task, points: int, prompts: int, steps: int | None = None
) -> pd.DataFrame:
    """By prefix; by step where steps are given."""
    with progress_bar() as advance:
        return error_curve(
            learners, task, points=points, prompts=prompts, progress=advance,
            by="prefix" if steps is None else "step", steps=steps,
        )  # fmt: skip


def _last(table: pd.DataFrame, learner: str) -> pd.Series:
    """The last row of a learner."""
    return table[table["learner"] == learner].iloc[-1]


def _verdict(by_prefix: pd.DataFrame, model: str) -> str:
    """How near the model comes to least squares, in a sentence."""
    own, best = _last(by_prefix, model), _last(by_prefix, "OLS")
    return (
        f"After {own['prefix']} examples the {model} has an error of {own['mean']:.4f} "
        f"(90% interval {own['low']:.4f} to {own['high']:.4f}); least squares has "
        f"{best['mean']:.2g}, and predicting zero has 1."
    )


def _page(
    run: Run,
    answer: Identification,
    by_prefix: pd.DataFrame,
    by_loop: pd.DataFrame,
    figures: tuple[Figure, Figure, Figure, Figure],
) -> Page:
    config, model = run.config, answer.learner
    loops = run.model().steps
    last, beyond = (_at_step(by_loop, model, step) for step in (loops, BEYOND * loops))
    examples = Section(
        title="What it has learned",
        text="One block of a transformer, applied again and again to its own output with the "
        "prompt added each time, has been trained on nothing but random linear functions. Each "
        "curve is the mean squared error over 1 for predicting zero, after so many examples; bands "
        f"are 90% intervals.\n\n{_verdict(by_prefix, model)}",
        figure=figures[0],
        drawn_from=(by_prefix,),
        description="error by number of examples: the trained model beside least squares, ridge, "
        "gradient descent and averaging",
        table=_last_rows(by_prefix),
    )
    fixed_point = Section(
        title="Loop by loop",
        text="Each loop is a step of the algorithm that it has learned. It was trained with "
        f"{loops} loops, where its error is {last:.4f}; after {BEYOND * loops} it is {beyond:.4f}. "
        "Gradient descent is run as long, on the same prompts.",
        figure=figures[1],
        drawn_from=(by_loop,),
        description="error by loop, well beyond the trained loops, beside gradient descent",
    )
    training = Section(
        title="Training",
        text=f"{config.steps} steps with a batch of {config.batch}, "
        f"{count(run.model().parameter_count, 'parameter')}. The folder beside this page holds the "
        "run: its configuration, weights and metrics. `innerloop evaluate` takes it wherever it "
        "takes the name of a learner.",
        figure=figures[2],
        description="held-out error by training step",
    )
    algorithm = Section(
        title="Which algorithm it has learned",
        text="Known algorithms are fitted to its predictions - their steps, penalties, neighbours "
        f"- and ranked by what they leave unexplained.\n\n{answer.summary()}",
        figure=figures[3],
        description="the known algorithms by what they leave unexplained of the predictions, and "
        "the iterations that each loop is like",
    )
    return Page(
        title="A transformer that learns linear regression in its prompt",
        summary="Trained from scratch, by one command.",
        sections=(examples, fixed_point, training, algorithm),
        footer=f"innerloop demo, run {run.path.name}",
    )


def _last_rows(table: pd.DataFrame) -> pd.DataFrame:
    """The last error of each learner, with its interval."""
    last = table.groupby("learner", sort=False).tail(1).rename(columns={"prefix": "examples"})
    return pd.DataFrame(last, columns=["learner", "examples", "mean", "low", "high"])


def _at_step(table: pd.DataFrame, learner: str, step: int) -> float:
    chosen = (table["learner"] == learner) & (table["step"] == step)
    return float(table.loc[chosen, "mean"].to_numpy()[0])
