"""A result as JSON has it: what is not JSON's, older formats, and what does not belong there."""

import math
from dataclasses import fields
from typing import Any

from pydantic import ValidationError

from innerloop.studies.claim import FEWEST_SEEDS, Statement


def in_json(value: Any) -> Any:
    """A value in what JSON has, which is no infinities: `float` reads their names back."""
    if isinstance(value, dict):
        return {key: in_json(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [in_json(part) for part in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def with_statements(claims: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Claims, each with its statement apart from what was measured of it."""
    own = {part.name for part in fields(Statement)}
    return [
        {**claim, "claim": {key: value for key, value in claim.items() if key in own}}
        for claim in claims
    ]


def from_format_1(record: dict[str, Any]) -> dict[str, Any]:
    """A result of version 0.1.0 as it would be judged now, but for premises and controls."""
    claims: list[dict[str, Any]] = []
    for old in record["claims"]:
        claim = {key: value for key, value in old.items() if key != "over"}
        claim["exact"] = old["over"] == "exact"
        if claim["verdict"] == "not confirmed":
            claim["verdict"] = "contradicted"
        if not claim["exact"] and len(old["seeds"]) < FEWEST_SEEDS:
            claim |= {"verdict": "exploratory", "why": f"fewer than {FEWEST_SEEDS} seeds"}
        claims.append(claim)
    return {**record, "format": 2, "seeds": list(range(record["seeds"])), "claims": claims}


def unknown_key(given: Any, known: Any) -> str | None:
    """The first key of nested values that the known ones do not have."""
    pairs: list[tuple[Any, Any]] = []
    if isinstance(given, dict) and isinstance(known, dict):
        names = {str(key): value for key, value in known.items()}
        for key, value in given.items():
            if str(key) not in names:
                return str(key)
            pairs.append((value, names[str(key)]))
    elif isinstance(given, list) and isinstance(known, list):
        pairs = list(zip(given, known, strict=False))
    return next((key for pair in pairs if (key := unknown_key(*pair)) is not None), None)


def reason(error: Exception) -> str:
    """What is wrong with a record, in a few words."""
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return f"no {error}" if isinstance(error, KeyError) else str(error).rstrip(".")
