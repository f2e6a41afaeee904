"""Fu et al. (2023): Transformers Learn Higher-Order Optimization Methods."""

from innerloop.studies.fu2023.theorems import b3, thm1

__all__ = ["b3", "thm1"]
