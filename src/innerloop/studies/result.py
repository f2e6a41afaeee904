"""A study's results on disk: tables, a figure, and claims.json, which is written last."""

import json
import math
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from importlib import metadata
from io import StringIO
from pathlib import Path
from typing import Any, get_args

import pandas as pd
from pydantic import TypeAdapter

from innerloop.analysis.drawing import save_small
from innerloop.core.errors import InnerloopError
from innerloop.core.files import write_atomically
from innerloop.studies.claim import FEWEST_SEEDS, Judged, Verdict
from innerloop.studies.seeds import Seeds, write_seeds
from innerloop.studies.study import Findings, Study
from innerloop.training.families import Scale

CLAIMS, FIGURE, ERROR = "claims.json", "figure.png", "error.txt"
FORMAT = 2
"""Format 1, of version 0.1.0, had no premises and controls; it is read as well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What a study came to, as its folder holds it."""

    folder: Path
    paper: str
    id: str
    title: str
    scale: Scale
    seeds: Seeds
    claims: tuple[Judged, ...]
    notes: tuple[str, ...]
    smaller: str
    """What is smaller than in the paper; nothing at the paper's own scale."""
    runs: tuple[str, ...]
    """The names of the runs that it is about."""
    training_seconds: float
    """What these runs took, each on as many threads as it had, whoever had them trained."""
    seconds: float
    """What measuring took."""
    finished: str
    """The date."""
    versions: dict[str, str]
    fingerprint: str
    tables: tuple[str, ...]
    """Names of the tables, each beside it as a CSV."""
    failed: dict[int, str] = field(default_factory=dict)
    """The seeds whose training failed, with the reason; the claims are of the others."""
    called: str = ""
    """What `innerloop reproduce` takes, where that is not its name."""

    @property
    def name(self) -> str:
        """`PAPER/ID`."""
        return f"{self.paper}/{self.id}"

    @property
    def command(self) -> str:
        """What was typed to get it."""
        seeds = "" if self.seeds == (0,) else f" --seeds {write_seeds(self.seeds)}"
        return f"innerloop reproduce {self.called or self.name} --scale {self.scale}{seeds}"

    @property
    def figure(self) -> Path:
        """The picture."""
        return self.folder / FIGURE

    @property
    def complete(self) -> bool:
        """Whether all files that it names are there."""
        tables = [self.folder / f"{name}.csv" for name in self.tables]
        return all(file.is_file() for file in (self.figure, *tables))

    def table(self, name: str) -> pd.DataFrame:
        """One of its tables."""
        return pd.read_csv(self.folder / f"{name}.csv")

    def count(self, verdict: Verdict, *, exact: bool | None = None) -> int:
        """How many of its claims have this verdict: of all, of exact ones, or of the others."""
        return sum(
            judged.verdict == verdict and exact in (None, judged.claim.exact)
            for judged in self.claims
        )

    @property
    def verdicts(self) -> str:
        """`2 confirmed, 1 inconclusive`."""
        numbers = [(self.count(verdict), verdict) for verdict in get_args(Verdict)]
        return ", ".join(f"{number} {verdict}" for number, verdict in numbers if number)


_READER = TypeAdapter(Result)


def place(root: Path, study: Study, scale: Scale) -> Path:
    """The folder of a study's results at a scale."""
    return root / scale / study.paper / study.id


def write_result(
    root: Path,
    study: Study,
    findings: Findings,
    *,
    scale: Scale,
    seeds: Seeds,
    runs: Sequence[str],
    training_seconds: float,
    seconds: float,
    finished: str,
) -> Result:
    """Judge the claims, write tables and figure, then claims.json: a folder with it is complete.

    What can go wrong with a study goes wrong before anything of an earlier result is gone.
    """
    folder = place(root, study, scale)
    tables = study.tables(findings, scale)
    result = Result(
        folder=folder, paper=study.paper, id=study.id, title=study.title, scale=scale, seeds=seeds,
        claims=study.judge(findings, scale), notes=(*study.notes, *findings.notes),
        smaller=study.smaller.get(scale, ""), runs=tuple(runs), training_seconds=training_seconds,
        seconds=seconds, finished=finished, versions=versions(),
        fingerprint=study.fingerprint(scale, seeds), tables=tuple(tables), called=study.called,
        failed=dict(findings.failed),
    )  # fmt: skip
    written = {
        name: table.to_csv(index=False, float_format="%.6g") for name, table in tables.items()
    }
    # From what is written: a figure that needs more than its CSV holds fails here.
    drawn = study.draw({name: pd.read_csv(StringIO(text)) for name, text in written.items()})
    for old in (CLAIMS, ERROR):
        (folder / old).unlink(missing_ok=True)
    for name, table in written.items():
        write_atomically(folder / f"{name}.csv", partial(Path.write_text, data=table))
    write_atomically(folder / FIGURE, lambda file: save_small(drawn, file))
    text = json.dumps(_record(result), indent=1, allow_nan=False) + "\n"
    write_atomically(folder / CLAIMS, lambda file: file.write_text(text))
    return result


def find_result(root: Path, study: Study, *, scale: Scale, seeds: Seeds) -> Result | None:
    """What a study came to, if it is complete and of the same code, with these seeds or more."""
    try:
        result = read_result(place(root, study, scale))
    except InnerloopError:
        return None
    same = result.fingerprint == study.fingerprint(scale, result.seeds)
    return result if same and set(seeds) <= set(result.seeds) and result.complete else None


def refusal(root: Path, study: Study, *, scale: Scale, seeds: Seeds) -> str | None:
    """Why results of these seeds may not be written: they would replace those of other seeds."""
    folder = place(root, study, scale)
    try:
        known = read_result(folder)
    except InnerloopError:
        return None
    if not known.complete or set(known.seeds) <= set(seeds):
        return None
    return (
        f"{folder} holds results of --seeds {write_seeds(known.seeds)}, and --seeds "
        f"{write_seeds(seeds)} would replace them: take these seeds too, or replace them with "
        "--again."
    )


def read_result(folder: Path, file: str = CLAIMS) -> Result:
    """The result in a folder; an error in one sentence if it is damaged."""
    path = folder / file
    try:
        record = json.loads(path.read_text())
        if record["format"] == 1:
            record = _from_format_1(record)
        if record["format"] == FORMAT:
            claims = [{**claim, "claim": claim} for claim in record["claims"]]
            return _READER.validate_python({**record, "folder": folder, "claims": claims})
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InnerloopError(f"{path} holds no results: reproduce the study again.") from error
    raise InnerloopError(f"{path} was written by another version: reproduce it again.")


def _from_format_1(record: dict[str, Any]) -> dict[str, Any]:
    """A result of version 0.1.0 as it would be judged now, but for premises and controls."""
    claims: list[dict[str, Any]] = []
    for old in record["claims"]:
        claim = {**old, "exact": old["over"] == "exact"}
        if claim["verdict"] == "not confirmed":
            claim["verdict"] = "contradicted"
        if not claim["exact"] and len(old["seeds"]) < FEWEST_SEEDS:
            claim |= {"verdict": "exploratory", "why": f"fewer than {FEWEST_SEEDS} seeds"}
        claims.append(claim)
    return {**record, "format": 2, "seeds": list(range(record["seeds"])), "claims": claims}


def read_results(root: Path) -> tuple[list[Result], list[str]]:
    """All complete results below a folder, by scale, paper and id, and why others are left out."""
    results: list[Result] = []
    refused: list[str] = []
    for path in sorted(root.glob(f"*/*/*/{CLAIMS}")):
        try:
            result = read_result(path.parent)
        except InnerloopError as error:
            refused.append(str(error))  # one broken folder does not hide the others
            continue
        if result.complete:
            results.append(result)
        else:
            refused.append(f"{result.folder} lacks some of its files: reproduce the study again.")
    return results, refused


def versions() -> dict[str, str]:
    """What the numbers depend on."""
    return {
        "innerloop": metadata.version("innerloop"),
        "torch": metadata.version("torch").split("+")[0],
        "numpy": metadata.version("numpy"),
        "python": platform.python_version(),
    }


def _record(result: Result) -> dict[str, Any]:
    """A result in what JSON has."""
    record = asdict(result)
    del record["folder"]
    claims = [{**judged.pop("claim"), **judged} for judged in record.pop("claims")]
    return in_json({"format": FORMAT, **record, "claims": claims})


def in_json(value: Any) -> Any:
    """A value in what JSON has, which is no infinities: `float` reads their names back."""
    if isinstance(value, dict):
        return {key: in_json(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [in_json(part) for part in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
