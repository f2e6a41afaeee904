"""What the studies of this paper share."""

from functools import partial

from innerloop.studies.claim import Claim

APART = 1.25
"""Two seeds of one model differ by about a quarter: less is no difference."""
ratio_over_prompts = partial(Claim, over="prompts", ratio=True)
ratio_over_seeds = partial(Claim, over="seeds", ratio=True)
