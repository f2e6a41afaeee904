"""A sweep: the runs of a recipe over a grid of settings, and a table of what became of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

import pandas as pd

from innerloop.core.errors import ConfigurationError, InnerloopError
from innerloop.engine.cluster import RayCluster
from innerloop.engine.job import Job, Stop
from innerloop.engine.run import Listener, run_jobs
from innerloop.engine.trainings import training_job
from innerloop.training.config import RunConfig
from innerloop.training.overrides import with_overrides
from innerloop.training.store import Store

SEED = "seed"
_MOST = 10_000
"""Runs of a sweep, at the most: more are a slip of the pen."""


@dataclass(frozen=True, slots=True)
class Point:
    """A place of the grid with its run."""

    values: Mapping[str, str]
    """The keys that differ between runs, as they were written."""
    config: RunConfig

    @property
    def label(self) -> str:
        """`task.noise=0.1 seed=0`."""
        return " ".join(f"{key}={value}" for key, value in self.values.items())


@dataclass(slots=True, eq=False)
class Sweep:
    """The runs of a grid in a store, and why some of them have failed."""

    recipe: str
    keys: tuple[str, ...]
    """The settings of the grid, but for the seed."""
    points: tuple[Point, ...]
    store: Store
    retry: bool = False
    """Whether runs that were given up, or are damaged, start over."""
    _failed: dict[str, str] = field(default_factory=dict)
    """By the label of a point, why its run has failed in this sweep."""

    def jobs(self) -> list[Job]:
        """What is left to train."""
        jobs = (
            training_job(
                point.config, label=point.label, name=self.recipe, store=self.store,
                retry=self.retry,
            )
            for point in self.points
        )  # fmt: skip
        return [job for job in jobs if job is not None]

    def run(
        self,
        jobs: Sequence[Job] | None = None,
        *,
        workers: int = 1,
        cluster: RayCluster | None = None,
        stop: Stop | None = None,
        listener: Listener | None = None,
    ) -> pd.DataFrame:
        """Train what is left, and return the table; where `stop` said so, runs are saved.

        Every run has one thread, however many workers there are, so that its bits do not depend
        on them; on a cluster it has those that it is given. `jobs` are those of `jobs`, if somebody
        has asked for them already.
        """
        for job in run_jobs(
            self.jobs() if jobs is None else jobs,
            workers=workers, cluster=cluster, stop=stop, listener=listener,
        ):  # fmt: skip
            if job.error:
                self._failed[job.name] = job.error
        return self.table()

    def table(self) -> pd.DataFrame:
        """One row per run: its settings, seed, state, held-out error, and why it has failed."""
        return pd.DataFrame([self._row(point) for point in self.points])

    def _row(self, point: Point) -> dict[str, object]:
        row: dict[str, object] = {
            **{key: point.values[key] for key in self.keys},
            SEED: point.config.seed, "state": "not trained", "error": float("nan"), "steps": 0,
            "seconds": float("nan"), "run": "", "reason": "",
        }  # fmt: skip
        reason = self._failed.get(point.label, "")
        try:
            run = self.store.find(point.config)
            if run is not None:
                row |= {"steps": run.step, "seconds": run.seconds, "run": run.name}
                row["state"] = "finished" if run.finished else "stopped"
                reason = reason or run.diverged or ""
                if run.finished:
                    row["error"] = float(run.metrics()["error"].dropna().iloc[-1])
        except InnerloopError as error:
            reason = reason or str(error)
        return row | ({"state": "failed", "reason": reason} if reason else {})


def make_sweep(
    recipe: str,
    base: RunConfig,
    words: Sequence[str],
    *,
    seeds: Sequence[int] | None = None,
    store: Store,
    retry: bool = False,
) -> Sweep:
    """The sweep of `key=value` words, where a key has several values with commas between them.

    A value that is a list itself has brackets: `key=[1,2],[3,4]`. Every run is the one that
    `innerloop train` would make of the same settings.
    """
    axes = {key: values for key, values in map(_axis, words) if len(values) > 1}
    fixed = [word for word in words if _axis(word)[0] not in axes]
    keys = tuple(key for key in axes if key != SEED)
    if seeds is not None:
        if any(_axis(word)[0] == SEED for word in words):
            raise ConfigurationError("seeds are given twice: by seed=.. and by --seeds; keep one.")
        axes[SEED] = [str(seed) for seed in seeds]
    number = 1
    for values in axes.values():
        number *= len(values)
    if number > _MOST:
        raise ConfigurationError(f"the grid has {number} runs, at most {_MOST}: give fewer values.")
    points: dict[str, Point] = {}
    for values in product(*axes.values()):
        chosen = dict(zip(axes, values, strict=True))
        words_here = [*fixed, *(f"{key}={value}" for key, value in chosen.items())]
        config = with_overrides(base, words_here)
        point = Point(chosen or {SEED: str(config.seed)}, config)
        same = points.setdefault(config.key(), point)
        if same is not point:
            raise ConfigurationError(
                f"{same.label!r} and {point.label!r} are the same run: keep one of them."
            )
    return Sweep(recipe, keys, tuple(points.values()), store, retry)


def _axis(word: str) -> tuple[str, list[str]]:
    """The key of a word, and its values: what commas outside brackets and quotes separate."""
    key, equals, text = word.partition("=")
    values, depth, quote = [""], 0, ""
    for letter in text:
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        else:
            depth += (letter in "[{") - (letter in "]}")
        if letter == "," and depth == 0 and not quote:
            values.append("")
        else:
            values[-1] += letter
    if equals and len(values) > 1 and not all(value.strip() for value in values):
        raise ConfigurationError(f"{word!r} has an empty value: look at its commas.")
    return key, values
