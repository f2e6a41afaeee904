"""What the studies of this paper share."""

APART = 1.25
"""Two seeds of one model differ by about a quarter: less is no difference."""
