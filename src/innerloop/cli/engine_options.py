"""Where many jobs are done: options that verbs share."""

import os
from enum import StrEnum
from typing import Annotated

import typer

from innerloop.core.errors import ConfigurationError
from innerloop.engine.cluster import RayCluster


class Engine(StrEnum):
    """Where jobs are done."""

    LOCAL = "local"
    RAY = "ray"


EngineName = Annotated[
    Engine, typer.Option(help="On this machine, or on a Ray cluster that this machine is part of.")
]
Workers = Annotated[
    int | None,
    typer.Option(min=1, help="Jobs side by side, each on one thread. Default: one per core."),
]
Address = Annotated[
    str | None,
    typer.Option(metavar="HOST:PORT", help="With ray: the cluster's head. Default: this one's."),
]
CpusPerRun = Annotated[
    float | None,
    typer.Option(min=0.01, help="With ray: CPUs of a job, and its threads. Default: 1."),
]
GpusPerRun = Annotated[
    float | None, typer.Option(min=0, help="With ray: GPUs of a job. Default: 0.")
]


def read_cluster(
    engine: Engine,
    *,
    workers: int | None,
    address: str | None,
    cpus: float | None,
    gpus: float | None,
) -> RayCluster | None:
    """The cluster that was asked for; None: this machine."""
    asked = {"address": address, "cpus_per_run": cpus, "gpus_per_run": gpus}
    given = {key: value for key, value in asked.items() if value is not None}
    if engine is Engine.RAY:
        if workers is not None:
            raise ConfigurationError("--workers is for this machine: leave it out with ray.")
        return RayCluster.model_validate(given)
    for key in given:
        option = f"--{key.replace('_', '-')}"
        raise ConfigurationError(f"{option} is for a cluster: add --engine ray, or leave it out.")
    return None


def cores() -> int:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
