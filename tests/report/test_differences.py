"""Which settings of a study's trainings are not the paper's."""

import pytest

from innerloop.report.differences import beside_the_paper
from innerloop.studies.study import Study
from innerloop.studies.table import STUDIES


def _study(name: str) -> Study:
    (study,) = (study for study in STUDIES if study.name == name)
    return study


def test_each_setting_that_differs_is_named_with_the_paper_s_value() -> None:
    text = beside_the_paper(_study("yang2024/fig3"), "desk")
    named = dict(part.rstrip(")").split(" ", 1) for part in text.split("), "))
    assert named["steps"] == "3000 (500000"
    assert named["model.backbone.loops"] == "20 or 12 (20", "the loop and the tied loop"
    assert named["precision"] == "bfloat16 (float32"
    assert named["balance"] == "True (False"
    assert "task.dims" not in named, "the paper's problem"
    assert "seed" not in named


@pytest.mark.parametrize("name", ["yang2024/fig2", "gao2025/fig2c", "chen2025/train"])
def test_the_paper_s_own_size_differs_in_nothing(name: str) -> None:
    assert beside_the_paper(_study(name), "paper") == ""


def test_a_study_without_trainings_has_no_settings() -> None:
    assert beside_the_paper(_study("chen2025/thm4.5"), "laptop") == ""
