"""A real Ray cluster on this machine, whose nodes can be added and killed."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from innerloop.core.extras import import_extra

MEMORY = 80_000_000
"""Bytes of a node's object store: the least that Ray takes."""


@contextmanager
def local_cluster() -> Iterator[Any]:
    """A cluster whose head has one CPU; whoever uses it adds nodes and takes them away."""
    cluster_utils = import_extra("ray.cluster_utils", "ray", "a cluster")
    variables = {
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_worker_niceness": "0",  # as fast as the test itself
        "PYTHONPATH": os.pathsep.join(["src", str(Path(__file__).parents[2])]),
    }
    with mock.patch.dict(os.environ, variables):
        head = {"num_cpus": 1, "object_store_memory": MEMORY}
        made = cluster_utils.Cluster(initialize_head=True, head_node_args=head)
        try:
            yield made
        finally:
            made.shutdown()
