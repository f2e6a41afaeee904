"""`innerloop import`: a checkpoint of a public repository as a model of this library."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from innerloop.cli.console import Console, as_place
from innerloop.cli.folders import require_free
from innerloop.cli.options import Force
from innerloop.models.checkpoint import save
from innerloop.models.imports import import_garg, import_yang
from innerloop.models.transformer import InContextTransformer
from innerloop.report.words import count


class Source(StrEnum):
    """Whose code wrote the checkpoint."""

    GARG = "garg"
    YANG = "yang"


class Injection(StrEnum):
    """How the input comes in again at every loop."""

    ADD = "add"
    MULTIPLY = "multiply"
    NONE = "none"


def import_(
    file: Annotated[Path, typer.Argument(help="The checkpoint, a file of torch.save.")],
    source: Annotated[
        Source,
        typer.Option("--from", help="Whose code wrote it: Garg et al. 2022, or Yang et al. 2024."),
    ],
    heads: Annotated[int, typer.Option(help="Attention heads per layer; the file does not say.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the model.")],
    loops: Annotated[
        int | None,
        typer.Option(help="The layers are looped, and were trained with so many loops."),
    ] = None,
    inject: Annotated[
        Injection | None,
        typer.Option(
            help="With --loops, how the input comes in again. Default: add; none is a tied model."
        ),
    ] = None,
    force: Force = False,
) -> None:
    """Turn a checkpoint of the public code of Garg et al. or Yang et al. into a model.

    For example:

    innerloop import state.pt --from yang --heads 8 --loops 20 -o models/looped
    """
    require_free(output, force=force)
    read = import_garg if source is Source.GARG else import_yang
    model = read(file, heads=heads, loops=loops, inject=inject.value if inject else None)
    save(model, output)
    console = Console(soft_wrap=True, highlight=False)
    console.print(f"{describe(model)}\nwritten to {as_place(output)}")
    console.print(f"Use it: innerloop evaluate {output} ols", markup=False)
    console.print(f"or, in Python: innerloop.models.load({str(output)!r})", markup=False)


def describe(model: InContextTransformer) -> str:
    """A model's sizes in one sentence."""
    shape = model.config.backbone
    return (
        f"{shape.summary}, {count(shape.heads, 'head')}, width {shape.width}, "
        f"{count(model.parameter_count, 'parameter')} in "
        f"{str(model.dtype).removeprefix('torch.')}; "
        f"prompts of up to {model.config.points} points, {model.config.dims} dimensions and "
        f"{count(model.config.outputs, 'output')}"
    )
