"""Nulls: learners of which a claim is not true, in the place of the models that it is about.

A study is measured on them as on its own models. A criterion that they meet as well says nothing.
"""

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

from torch import Tensor

from innerloop.core.learner import Learner, OneShot, Traits
from innerloop.core.prompt import Prompt
from innerloop.studies.lab import Lab, Null


def untrained(*labels: str) -> Null:
    """Models of the same shape before their first step: all of them, or those of some labels."""
    return lambda lab: {label: lab.untrained(label) for label in labels or lab.labels}


def of_another_seed(places: Mapping[str, str]) -> Null:
    """In some places a model of another label, trained with another seed.

    One architecture against itself: what is better than itself is better by chance.
    """
    return lambda lab: {
        place: lab.of_another_seed(label) for place, label in places.items() if place in lab.labels
    }


def swapped(places: Mapping[str, str]) -> Null:
    """In some places the trained model of another label, of the same seed."""
    return lambda lab: {
        place: lab.model(label) for place, label in places.items() if place in lab.labels
    }


def instead(learner: Callable[[Lab, str], Learner[Any]], *labels: str) -> Null:
    """In the places of some labels, or of all, a learner that is made for the lab and the label."""
    return lambda lab: {label: learner(lab, label) for label in labels or lab.labels}


class RightAnswers(OneShot):
    """Knows the class: of it no sentence about a best model is true but that it is right."""

    traits = Traits(linear_in_y=True)

    @cached_property
    def name(self) -> str:
        """What it has."""
        return "right answers"

    def init(self, prompt: Prompt) -> Tensor:
        """What is asked for."""
        return prompt.ys
