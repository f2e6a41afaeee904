"""Gao et al. (2025): AlgoFormer: An Efficient Transformer Framework with Algorithmic Structures."""

from innerloop.studies.gao2025.theorems import thm31, thm32, thm33, thm41, thm42

__all__ = ["thm31", "thm32", "thm33", "thm41", "thm42"]
