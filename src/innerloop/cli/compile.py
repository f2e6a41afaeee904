"""`innerloop compile`: a known algorithm as the weights of a transformer, or explained."""

import textwrap
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from innerloop.circuits import CIRCUITS, Blueprint, CircuitSettings, read_settings
from innerloop.circuits.explain import layer_table, slot_table
from innerloop.cli.console import Console, as_place
from innerloop.cli.folders import require_free
from innerloop.cli.options import Force, json_file, write_json
from innerloop.cli.specs import settings_of
from innerloop.core.errors import ConfigurationError, InnerloopError
from innerloop.core.files import read_json
from innerloop.core.settings import parse_settings
from innerloop.models.checkpoint import save
from innerloop.report.words import count
from innerloop.studies.circuits import Shape

CIRCUIT = "circuit.json"
"""Beside config.json and weights.safetensors: what the weights were compiled from."""


def compile_(
    algorithm: Annotated[
        str | None,
        typer.Argument(metavar="[ALGORITHM]", help="A circuit. Without one: a list of all."),
    ] = None,
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[KEY=VALUE...]", help="Settings of the circuit, as `start=0.001`."),
    ] = None,
    dims: Annotated[int | None, typer.Option(help="Dimensions of an input.")] = None,
    steps: Annotated[int | None, typer.Option(help="Steps of the algorithm.")] = None,
    points: Annotated[int | None, typer.Option(help="The most points of a prompt.")] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="Folder for the model. Without one it is only explained."
        ),
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Print the slots, the layers and their algebra.")
    ] = False,
    json: Annotated[Path | None, json_file("slots, layers and bounds")] = None,
    force: Force = False,
) -> None:
    """Compile a known algorithm into the weights of a transformer.

    The folder holds a model like any other, and what it was compiled from.

    For example:

    innerloop compile

    innerloop compile newton-relu --dims 5 --steps 12

    innerloop compile newton-relu start=0.001 --dims 5 --steps 12 -o models/newton

    innerloop verify models/newton
    """
    if output is not None:
        require_free(output, force=force)
    console = Console(highlight=False)
    if algorithm is None:
        _list(console, json)
        return
    given = {"dims": dims, "steps": steps, "points": points}
    settings = read_settings(algorithm, _merged(words or [], given))
    circuit = settings.build()
    description = describe(circuit.blueprint, settings)
    if explain or output is None:
        _explain(console, description)
    write_json(json, description)
    if output is not None:
        # Never what one circuit was compiled from beside the weights of another.
        (output / CIRCUIT).unlink(missing_ok=True)
        save(circuit, output)
        write_json(output / CIRCUIT, description)
        console.print(_sizes(description), soft_wrap=True)
        console.print(f"written to {as_place(output)}", soft_wrap=True)
        console.print(f"Hold it to its algorithm: innerloop verify {output}", markup=False)


def describe(blueprint: Blueprint, settings: CircuitSettings) -> dict[str, Any]:
    """All that is known of a circuit but its weights, as `circuit.json` holds it."""
    bounds = [blueprint.bound(step) for step in range(blueprint.steps + 1)]
    return {
        "name": blueprint.name,
        "settings": settings.model_dump(mode="json"),
        "source": blueprint.source,
        "algorithm": blueprint.algorithm,
        "form": blueprint.form,
        "layers": blueprint.layers,
        "heads": blueprint.heads,
        "width": Shape.of(blueprint).width,
        "mask": blueprint.mask,
        "slots": [{"slot": n, "offset": o, "size": s} for n, o, s in slot_table(blueprint)],
        "parts": [asdict(row) for row in layer_table(blueprint)],
        "condition": blueprint.condition,
        "bounds": [{"step": step, **asdict(bound)} for step, bound in enumerate(bounds)],
    }


def read_compiled(folder: Path) -> CircuitSettings:
    """The settings that a folder's circuit was compiled from."""
    path = folder / CIRCUIT
    description = read_json(
        path, missing=f"{folder} was not written by `innerloop compile`, and there is no telling "
        "which algorithm it should run"
    )  # fmt: skip
    name = description.get("name") if isinstance(description, dict) else None
    values = description.get("settings") if isinstance(description, dict) else None
    if not isinstance(name, str) or not isinstance(values, dict):
        raise InnerloopError(f"{path} names no circuit and settings: compile it again.")
    return read_settings(name, values)


def _merged(words: Sequence[str], options: dict[str, int | None]) -> dict[str, Any]:
    """Settings given as words and as options, each once."""
    values: dict[str, Any] = parse_settings(words)
    for key, value in options.items():
        if value is None:
            continue
        if key in values:
            raise ConfigurationError(f"{key} is given twice: keep {key}=.. or --{key}.")
        values[key] = value
    return values


def _list(console: Console, json: Path | None) -> None:
    """All circuits: the algorithm, the theorem, the settings with their defaults."""
    rows: list[dict[str, Any]] = []
    for name, kind in CIRCUITS.items():
        blueprint = kind().blueprint()
        defaults = {setting.key: setting.default for setting in settings_of(kind)}
        named = {"circuit": name, "algorithm": blueprint.algorithm, "source": blueprint.source}
        rows.append({**named, "settings": defaults})
    table = Table(title="Circuits", title_justify="left", title_style="bold")
    for heading in ("circuit", "theorem", "settings beside dims, steps, points"):
        table.add_column(heading)
    for row in rows:
        own = [key for key in row["settings"] if key not in CircuitSettings.model_fields]
        table.add_row(
            f"[cyan]{row['circuit']}[/]\n  {escape(row['algorithm'])}", escape(row["source"]),
            escape(", ".join(own)),
        )  # fmt: skip
    console.print(table)
    console.print("All about one: innerloop compile newton-relu")
    write_json(json, rows)


def _explain(console: Console, description: dict[str, Any]) -> None:
    """Slots, layers and bounds as tables."""
    console.print(
        f"[bold]{escape(description['name'])}[/]: {escape(description['algorithm'])}",
        soft_wrap=True,
    )
    console.print(_sizes(description), soft_wrap=True)
    _print_table(console, "Settings", _settings(description))
    _print_table(console, "Slots", description["slots"], right=("offset", "size"))
    _print_table(console, "Layers", description["parts"])
    console.print(_bounds(description["bounds"]), soft_wrap=True)
    if description["condition"]:
        console.print(f"on prompts with {escape(description['condition'])}", soft_wrap=True)


def _settings(description: dict[str, Any]) -> list[dict[str, Any]]:
    """The settings of a circuit: key, value, what it is."""
    return [
        {
            "setting": setting.key,
            "value": textwrap.shorten(
                str(description["settings"][setting.key]), 40, placeholder=" .."
            ),
            "what it is": setting.description,
        }
        for setting in settings_of(CIRCUITS[description["name"]])
    ]


def _print_table(
    console: Console, title: str, rows: Sequence[dict[str, Any]], right: Sequence[str] = ()
) -> None:
    table = Table(title=title, title_justify="left", title_style="bold")
    for heading in rows[0]:
        table.add_column(
            heading,
            justify="right" if heading in right else "left",
            no_wrap=heading in ("layer", "part", "slot", "setting"),
        )
    for row in rows:
        table.add_row(*(escape(str(value)) for value in row.values()))
    console.print(table)


def _sizes(description: dict[str, Any]) -> str:
    return escape(
        f"{description['source']}, {description['form']} form: {description['layers']} layers, "
        f"{count(description['heads'], 'head')}, "
        f"width {description['width']}, {description['mask']} attention"
    )


def _bounds(bounds: Sequence[dict[str, float]]) -> str:
    """The stated error before the first and after the last step."""
    parts = [
        f"{row['truncation'] + row['rounding']:.2g} after step {row['step']} "
        f"({row['truncation']:.2g} truncation + {row['rounding']:.2g} rounding)"
        for row in (bounds[0], *bounds[1:][-1:])
    ]
    return escape(f"stated error: {', '.join(parts)}")
