"""Yang et al. (2024): Looped Transformers are Better at Learning Learning Algorithms."""

from innerloop.studies.yang2024.fixed_points import fig2, fig3

__all__ = ["fig2", "fig3"]
