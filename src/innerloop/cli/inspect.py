"""`innerloop inspect`: what the heads and MLPs of a model do, by layer or loop."""

from pathlib import Path
from typing import Annotated

import pandas as pd
import typer
from rich.markup import escape
from rich.table import Table

from innerloop.analysis.ablation import Ablation, ablate
from innerloop.analysis.attention_patterns import attention_patterns
from innerloop.analysis.attribution import direct_attribution
from innerloop.analysis.drawing import save_figure_and_table
from innerloop.analysis.inside_figure import draw_inside
from innerloop.analysis.intervals import seeded
from innerloop.analysis.places import Component
from innerloop.cli.console import Console, as_place
from innerloop.cli.evaluate import describe
from innerloop.cli.options import Points, Steps, TaskName, json_file, output_folder, write_rows
from innerloop.cli.progress import progress_bar
from innerloop.cli.subjects import file_name, read_subjects
from innerloop.core.errors import ConfigurationError

PROMPTS = 64


def inspect(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL [KEY=VALUE...]",
            help="The folder of a trained run, of an imported model or of a compiled circuit, or "
            "a model of the package, as `looped-linear`; and settings of the task, as `noise=0.5`.",
        ),
    ],
    task: TaskName = None,
    points: Points = None,
    prompts: Annotated[int, typer.Option(help="Prompts to average over.")] = PROMPTS,
    steps: Steps = None,
    seed: Annotated[int, typer.Option(help="Seed of the prompts.")] = 0,
    output: Annotated[Path, output_folder("the figure and the CSV")] = Path("inspection"),
    json: Annotated[Path | None, json_file("the rows of the table")] = None,
) -> None:
    """Say which heads and MLPs of a model matter, and at which layer or loop.

    Each is ablated (replaced by its mean over prompts) at one step after the other and at all of
    them, and what it adds directly to the prediction is read off. The figure has the attention
    patterns of the last step beside both. All is about the prediction at the last point.

    For example:

    innerloop inspect runs/looped-linear-...
    """
    console = Console()
    subjects = read_subjects(words, task)
    if len(subjects.learners) != 1:
        raise ConfigurationError(f"{len(subjects.learners)} models were named: give one at a time.")
    if prompts < 2:
        raise ConfigurationError(f"prompts is {prompts}, expected at least 2: a mean is taken out.")
    learner, length = subjects.learners[0], subjects.points if points is None else points
    prompt = subjects.task.sample(prompts, length, generator=seeded(seed))
    total = learner.steps if steps is None else steps
    kinds: list[Component] = ["head"]
    if learner.components.places("mlp", total):
        kinds.append("mlp")
    single: dict[Component, Ablation] = {}
    whole: dict[Component, Ablation] = {}
    with progress_bar() as advance:
        for done, kind in enumerate(kinds):
            advance("ablating", done, len(kinds))
            single[kind] = ablate(learner, prompt, subjects.task, component=kind, steps=steps)
            whole[kind] = ablate(
                learner, prompt, subjects.task, component=kind, span="all", steps=steps
            )
        advance("ablating", len(kinds), len(kinds))
    direct = direct_attribution(learner, prompt, steps=steps)
    patterns = attention_patterns(learner, prompt, steps=steps)
    shares = {kind: share.table() for kind, share in direct.shares.items() if share.axes}
    rows = pd.concat([_rows(kind, single[kind], shares[kind]) for kind in kinds], ignore_index=True)
    title = f"{subjects.labels[0]} on {describe(subjects.name, subjects.task)}, {length} points"
    console.print(_summary(rows, whole, title))
    settings = {
        "task": subjects.name if task else None,
        "points": points, "steps": steps, "seed": seed or None,
        "prompts": None if prompts == PROMPTS else prompts,
    }  # fmt: skip
    stem = file_name(words, subjects.labels, settings)
    figure = draw_inside(patterns, single["head"], single.get("mlp"), direct)
    image, csv = save_figure_and_table(figure, rows, output / stem)
    console.print(f"figure {as_place(image)}, numbers {as_place(csv)}", soft_wrap=True)
    write_rows(json, rows)


def _rows(kind: Component, ablation: Ablation, shares: pd.DataFrame) -> pd.DataFrame:
    """One row per step and component: the error without it, and its direct share."""
    table = ablation.errors.table().drop(columns=["label", "median", "seed low", "seed high"])
    table = table.rename(columns={"mean": "error without"})
    names = [f"head {head}" for head in table.pop("head")] if kind == "head" else "MLP"
    table.insert(0, "component", names)
    return table.assign(**{"direct share": shares["mean"].to_numpy(float)})


def _summary(rows: pd.DataFrame, whole: dict[Component, Ablation], title: str) -> Table:
    """One row per head, and one for the MLPs."""
    intact = float(whole["head"].intact.values.mean())
    shown = Table(title=escape(title), title_justify="left", caption_justify="left")
    shown.caption = escape(
        f"squared error / E[y²] at the last point, with a component at its mean over prompts; "
        f"intact {intact:.2g}. Direct share: of the prediction, with the scale of norms frozen"
    )
    shown.add_column("component", style="cyan")
    for column in ("without it at one step, at worst", "without it at all steps", "direct share"):
        shown.add_column(column, justify="right")
    heads = whole["head"].errors.values.mean(dim=0)[0]  # (h,)
    everywhere = {f"head {head}": float(error) for head, error in enumerate(heads)}
    if "mlp" in whole:
        everywhere["MLP"] = float(whole["mlp"].errors.values.mean())
    for component, table in rows.groupby("component", sort=False):
        worst = table.loc[table["error without"].idxmax()]
        shown.add_row(
            str(component),
            f"{worst['error without']:.2g} (step {worst['step']})",
            f"{everywhere[str(component)]:.2g}",
            f"{table['direct share'].sum():.0%}",
        )
    return shown
