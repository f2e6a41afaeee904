"""How the trainings of a study differ from the paper's own recipe, setting by setting."""

from collections.abc import Iterable, Mapping
from typing import Any

from innerloop.studies.study import Runs, Scale, Study

_SAYS_NOTHING = (
    "seed", "threads", "device", "kernels", "compile", "log_every", "evaluate_every", "save_every",
    "target", "model.dims", "model.points",
)  # fmt: skip
"""Settings that change how a run is carried out or shown, and those that follow the task."""


def beside_the_paper(study: Study, scale: Scale) -> str:
    """`steps 1500 (500000), width 64 (256)`: what differs, with the paper's value behind it.

    Runs are compared with those of the same label at the scale `paper`; where several runs have
    several values, all of them are named. Empty where the study trains nothing, or as the paper
    does.
    """
    own, paper = (_settings(study.runs(size)) for size in (scale, "paper"))
    labels = [label for label in own if label in paper]
    keys = dict.fromkeys(key for label in labels for key in (*own[label], *paper[label]))
    differing = {
        key: (_values(own, labels, key), _values(paper, labels, key))
        for key in keys
        if any(own[label].get(key) != paper[label].get(key) for label in labels)
    }
    return ", ".join(f"{key} {here} ({there})" for key, (here, there) in differing.items())


def _settings(runs: Runs) -> dict[str, dict[str, Any]]:
    """The settings of each run with dots, without those that say nothing."""
    return {
        label: {
            key: value
            for key, value in _flat(config.model_dump()).items()
            if key not in _SAYS_NOTHING
        }
        for label, config in runs.items()
    }


def _flat(values: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """`{"task": {"dims": 5}}` as `{"task.dims": 5}`."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        flat |= (
            _flat(value, f"{before}{key}.")
            if isinstance(value, Mapping)
            else {f"{before}{key}": value}
        )
    return flat


def _values(runs: Mapping[str, Mapping[str, Any]], labels: Iterable[str], key: str) -> str:
    """The values of one setting in several runs, each once; `none` where it is not set."""
    values = dict.fromkeys(_written(runs[label].get(key)) for label in labels)
    return " or ".join(values)


def _written(value: Any) -> str:
    if value is None:
        return "none"
    return f"{value:g}" if isinstance(value, float) else str(value)
