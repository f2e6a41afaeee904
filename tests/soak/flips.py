"""Single bits flipped anywhere in the files of runs, models and results, each used afterwards."""

import random
from collections.abc import Callable
from pathlib import Path

import pandas as pd

from innerloop.core.errors import InnerloopError
from innerloop.models.checkpoint import load
from innerloop.studies.result import read_results
from innerloop.training.run import Run
from innerloop.training.store import Store
from tests.report.made import a_result
from tests.training.configs import tiny
from tests.training.test_damage import use

REFUSED, ACCEPTED, TRACEBACK = "refused", "accepted silently", "traceback"


def flips(count: int, root: Path, *, seed: int = 2024) -> pd.DataFrame:
    """Flip so many bits, one at a time; one row per file: how many were refused, accepted, failed.

    A bit is drawn from the files in turn, so that small ones have as many as large ones.
    """
    cases = _cases(root)
    draw, outcomes = random.Random(seed), list[tuple[str, str]]()
    for number in range(count):
        name, path, look = cases[number % len(cases)]
        whole = path.read_bytes()
        bit = draw.randrange(8 * len(whole))
        changed = bytearray(whole)
        changed[bit // 8] ^= 1 << bit % 8
        path.write_bytes(changed)
        outcomes.append((name, _outcome(look)))
        path.write_bytes(whole)
    table = pd.DataFrame(outcomes, columns=["file", "outcome"])
    counted = pd.crosstab(table["file"], table["outcome"])
    return counted.reindex(columns=[REFUSED, ACCEPTED, TRACEBACK], fill_value=0)


def _cases(root: Path) -> list[tuple[str, Path, Callable[[], object]]]:
    """Every file of a run and of a result, and what reads it; all are used once as they are."""
    run = Store(root / "runs").train(tiny())
    result = a_result(root / "results")
    cases: list[tuple[str, Path, Callable[[], object]]] = [
        (f"run: {name}", run.path / name, lambda: use(run))
        for name in ("config.json", "weights.safetensors", "state.pt", "metrics.jsonl")
    ]
    # By the other door: as a model, without the key of the run's name.
    cases.append(("model: config.json", run.path / "config.json", lambda: load(run.path)))
    cases += [
        (f"result: {file.name}", file, lambda: _use_results(root / "results"))
        for file in sorted(result.folder.iterdir())
    ]
    cases.append(("run: previous.pt", run.path / "previous.pt", lambda: _use_previous(run)))
    for name, _, look in cases:
        assert _outcome(look) == ACCEPTED, f"{name} is not even accepted as it is"
    return cases


def _use_results(root: Path) -> None:
    _, refused = read_results(root)
    if refused:
        raise InnerloopError(refused[0])


def _use_previous(run: Run) -> None:
    """Read the run as if the previous checkpoint had been put in the place of the last one."""
    state, previous = run.path / "state.pt", run.path / "previous.pt"
    last = state.read_bytes()
    state.write_bytes(previous.read_bytes())
    try:
        run.read_state()
    finally:
        state.write_bytes(last)


def _outcome(look: Callable[[], object]) -> str:
    try:
        look()
    except InnerloopError as error:
        return REFUSED if "\n" not in str(error) else TRACEBACK
    except Exception:
        return TRACEBACK
    return ACCEPTED
