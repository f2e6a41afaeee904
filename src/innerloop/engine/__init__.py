"""Many runs: jobs side by side on one machine or on a cluster, and sweeps over settings."""

from typing import TYPE_CHECKING

from innerloop.core.lazy import import_at_first_use

if TYPE_CHECKING:
    from innerloop.engine.cluster import RayCluster
    from innerloop.engine.sweep import Sweep, make_sweep

__all__ = ["RayCluster", "Sweep", "make_sweep"]

import_at_first_use(__name__)
