"""Akyurek et al. (2022): What Learning Algorithm Is In-Context Learning? With linear models."""

from innerloop.studies.akyurek2022.lemma import lemma1
from innerloop.studies.akyurek2022.theorems import thm1, thm2

__all__ = ["lemma1", "thm1", "thm2"]
