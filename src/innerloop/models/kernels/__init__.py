"""An optional accelerator of small trainings on a CPU: forward and backward written by hand.

`window_outputs` gives what `init`, `step` and `outputs` of a transformer give, to rounding, with
the same gradients; `supports` says where it can, and where it gains enough to be used. Everything
else takes the steps of the model itself.
"""

from typing import TYPE_CHECKING

from innerloop.core.lazy import import_at_first_use

if TYPE_CHECKING:
    from innerloop.models.kernels.memory import release_memory
    from innerloop.models.kernels.window import supports, window_outputs

__all__ = ["release_memory", "supports", "window_outputs"]

import_at_first_use(__name__)
