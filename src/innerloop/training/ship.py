"""A finished run as a folder of pretrained weights, which can come with the package."""

from pathlib import Path

from innerloop.core.files import require_folder, write_atomically
from innerloop.models.checkpoint import CONFIG, WEIGHTS
from innerloop.models.pretrained import CARD, CURVE, digest
from innerloop.training.run import Run, RunError

LARGEST = 3 * 2**20
"""Bytes of the weights that come with the package, for each model."""

_CARD = """# {name}

{model} with {parameters:,} parameters, trained for {steps:,} steps on `{task}`.

- What it is for: (fill in)
- What it was trained on: `config.json` here is the whole recipe; `curve.csv` is its training curve,
  which ends at a held-out error of {error}.
- Where it fails: (fill in)
"""


def ship(run: Run, folder: Path | str) -> str:
    """Write a finished run as pretrained weights, and return the hash of the folder.

    A card that is there already is left as it is.
    """
    folder = Path(folder)
    require_folder(folder)
    if not run.finished or run.diverged is not None:
        raise RunError(f"{run.name} is not finished: train it to its end first.")
    size = (run.path / WEIGHTS).stat().st_size
    if size > LARGEST:
        raise RunError(
            f"the weights of {run.name} take {size / 2**20:.1f} MB, expected at most "
            f"{LARGEST / 2**20:g} MB: train a smaller model."
        )
    for name in (CONFIG, WEIGHTS):
        content = (run.path / name).read_bytes()
        write_atomically(folder / name, lambda file, content=content: file.write_bytes(content))
    curve = run.metrics()
    write_atomically(folder / CURVE, lambda file: curve.to_csv(file, index=False))
    if not (folder / CARD).exists():
        model = run.model()
        errors = curve["error"].dropna().tolist() if "error" in curve else []
        text = _CARD.format(
            name=folder.name, model=model.name, parameters=model.parameter_count,
            steps=run.step, task=run.config.task_name,
            error=f"{errors[-1]:.3g}" if errors else "(unknown)",
        )  # fmt: skip
        write_atomically(folder / CARD, lambda file: file.write_text(text))
    return digest(folder)
