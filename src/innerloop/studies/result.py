"""A study's results on disk: tables, a figure, and claims.json, which is written last.

claims.json is sealed and keeps the checksums of the other files. It may come from anywhere, and is
believed only where all of it is what a study writes.
"""

import platform
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from importlib import metadata
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any, get_args

import pandas as pd
from pydantic import TypeAdapter

from innerloop.analysis.drawing import save_small
from innerloop.core.errors import InnerloopError
from innerloop.core.files import read_json, write_atomically
from innerloop.core.seal import DamagedError, checksum, sealed_json
from innerloop.studies.claim import Answer, Judged, Verdict
from innerloop.studies.result_record import (
    from_format_1,
    in_json,
    reason,
    unknown_key,
    with_statements,
)
from innerloop.studies.seeds import Seeds, write_seeds
from innerloop.studies.study import Findings, Study, Tables
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
    checksums: dict[str, str] = field(default_factory=dict)
    """Of the figure and the tables, by the names of their files; earlier versions wrote none."""

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

    def table(self, name: str) -> pd.DataFrame:
        """One of its tables."""
        file = f"{name}.csv"
        try:
            return pd.read_csv(BytesIO(self._content(file)))
        except ValueError as error:  # empty, or no table
            if isinstance(error, InnerloopError):
                raise
            raise InnerloopError(
                f"{self.folder / file} holds no table: reproduce the study again."
            ) from error

    def require_sound(self) -> None:
        """Refuse a result whose files are not all there, and as they were written."""
        files = (self.figure, *(self.folder / f"{name}.csv" for name in self.tables))
        if not all(file.is_file() for file in files):
            raise InnerloopError(
                f"{self.folder} lacks some of its files: reproduce the study again."
            )
        self._content(FIGURE)
        for name in self.tables:
            self.table(name)

    def _content(self, file: str) -> bytes:
        """What a file holds, if that is what was written."""
        path = self.folder / file
        try:
            content = path.read_bytes()
        except OSError as error:
            raise InnerloopError(f"cannot read {path}: {error.strerror or error}.") from error
        if self.checksums.get(file, checksum(content)) != checksum(content):
            raise InnerloopError(
                f"{path} is damaged, or was changed after it was written: reproduce the study "
                "again."
            )
        return content

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
    for name in tables:
        _require_plain(name)
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
    read = {name: pd.read_csv(StringIO(text)) for name, text in written.items()}
    files = {FIGURE: _picture(study, read)}
    files |= {f"{name}.csv": text.encode() for name, text in written.items()}
    result = replace(result, checksums={name: checksum(file) for name, file in files.items()})
    for old in (CLAIMS, ERROR):
        (folder / old).unlink(missing_ok=True)
    for name, content in files.items():
        write_atomically(folder / name, partial(Path.write_bytes, data=content))
    _write_claims(result)
    return result


def redrawn(result: Result, study: Study) -> Result:
    """The result with its figure drawn anew by the study from the tables that it has written.

    What a study draws is not part of its fingerprint. Where the picture stays the same, nothing is
    written.
    """
    picture = _picture(study, {name: result.table(name) for name in result.tables})
    if checksum(picture) == result.checksums.get(FIGURE):
        return result
    others = {name: own for name, own in result.checksums.items() if name != FIGURE}
    # Meanwhile either picture is right: a process that is killed in between leaves a sound result.
    _write_claims(replace(result, checksums=others))
    write_atomically(result.figure, partial(Path.write_bytes, data=picture))
    new = replace(result, checksums={FIGURE: checksum(picture), **others})
    _write_claims(new)
    return new


def _write_claims(result: Result) -> None:
    claims = sealed_json(_record(result))
    write_atomically(result.folder / CLAIMS, partial(Path.write_bytes, data=claims))


def _picture(study: Study, tables: Tables) -> bytes:
    """The figure of some tables as a PNG."""
    picture = BytesIO()
    save_small(study.draw(tables), picture)
    return picture.getvalue()


def find_result(root: Path, study: Study, *, scale: Scale, seeds: Seeds) -> Result | None:
    """What a study came to, if it is complete and of the same code, with these seeds or more."""
    try:
        result = read_result(place(root, study, scale))
        result.require_sound()
    except InnerloopError:
        return None
    same = result.fingerprint == study.fingerprint(scale, result.seeds)
    return result if same and set(seeds) <= set(result.seeds) else None


def refusal(root: Path, study: Study, *, scale: Scale, seeds: Seeds) -> str | None:
    """Why results of these seeds may not be written: they would replace those of other seeds."""
    folder = place(root, study, scale)
    try:
        known = read_result(folder)
        known.require_sound()
    except InnerloopError:
        return None
    if set(known.seeds) <= set(seeds):
        return None
    return (
        f"{folder} holds results of --seeds {write_seeds(known.seeds)}, and --seeds "
        f"{write_seeds(seeds)} would replace them: take these seeds too, or replace them with "
        "--again."
    )


def read_result(folder: Path, file: str = CLAIMS) -> Result:
    """The result in a folder; an error in one sentence if it is damaged, or none in some part."""
    path = folder / file
    try:
        record = read_json(path, missing="reproduce the study again")
    except DamagedError as error:
        raise InnerloopError(
            f"{path} is damaged, or was changed after it was written: reproduce the study again."
        ) from error
    try:
        if record["format"] == 1:
            record = from_format_1(record)
        if record["format"] == FORMAT:
            values = {**record, "folder": folder, "claims": with_statements(record["claims"])}
            result = _READER.validate_python(values)
            _require_honest(result, record)
            return result
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InnerloopError(
            f"{path} holds no results ({reason(error)}): reproduce the study again."
        ) from error
    raise InnerloopError(f"{path} was written by another version: reproduce it again.")


def _require_honest(result: Result, record: dict[str, Any]) -> None:
    """Refuse what no study writes: unknown fields, names that are paths, verdicts of other numbers.

    The errors are ValueErrors with a few words.
    """
    if (unknown := unknown_key(record, _record(result))) is not None:
        raise ValueError(f"unknown field {unknown!r}")
    if not result.seeds:
        raise ValueError("no seeds")
    for name in result.tables:
        _require_plain(name)
    for judged in result.claims:
        follows = judged.claim.criterion.judge(judged.low, judged.high)
        if judged.verdict in get_args(Answer) and judged.verdict != follows:
            raise ValueError(f"{judged.claim.name} is {follows}, not {judged.verdict}")


def _require_plain(name: str) -> None:
    """Refuse the name of a table that would lead to a file elsewhere."""
    if re.fullmatch(r"\w[\w +,.=()-]*", name) is None:
        raise ValueError(f"a table is called {name[:80]!r}, expected a plain name")


def read_results(root: Path) -> tuple[list[Result], list[str]]:
    """All complete results below a folder, by scale, paper and id, and why others are left out."""
    results: list[Result] = []
    refused: list[str] = []
    for path in sorted(root.glob(f"*/*/*/{CLAIMS}")):
        try:
            result = read_result(path.parent)
            result.require_sound()
            results.append(result)
        except InnerloopError as error:
            refused.append(str(error))  # one broken folder does not hide the others
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
