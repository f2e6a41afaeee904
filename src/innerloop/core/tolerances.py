"""How far two computations of the same thing may lie apart, by kind.

Differences are divided by max(1, the size of what is compared). A looser number, anywhere in the
project, needs a reason beside it.
"""

from typing import Final

import torch

EXACT_CIRCUIT: Final = 1e-10
"""A circuit with an exact construction against its algorithm, float64."""
REFERENCE: Final = 1e-8
"""A classical learner against an independent implementation, float64."""
PUBLIC_CODE: Final = 1e-4
"""Against the answers of the papers' public code, which computes in float32."""

FIXED_POINT: Final = {torch.float64: 1e-8, torch.float32: 1e-5}
"""The residual at which an iteration stands still, by the type of what moves."""

CONTRACT: Final = {torch.float64: 1e-8, torch.float32: 1e-4}
"""Two ways of asking one learner the same thing, by the coarser of two types: that of the prompt,
and that which the learner computes in."""
