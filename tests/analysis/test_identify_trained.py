"""`identify` on looped models that were trained on functions which are not linear."""

from pathlib import Path
from typing import Any

import pytest

import innerloop as il
from innerloop.analysis.candidates import Battery

NONLINEAR = {"NearestNeighbors", "GreedyTree", "KernelRidge", "RandomFeatures"}
SLOW = {"Boosting", "NetworkByAdam"}
SHORT: dict[str, Any] = {"steps": 150, "points": 11, "model.backbone.loops": 6, "window": 4}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("recipe", "task"),
    [
        ("looped-tree", {"task.dims": 2, "task.depth": 1}),
        ("looped-network", {"task.dims": 2, "task.hidden": 2}),
    ],
)
def test_a_short_training_has_a_named_best_candidate(
    recipe: str, task: dict[str, Any], tmp_path: Path
) -> None:
    run = il.train(il.training.recipe(recipe, **SHORT, **task), store=tmp_path)
    tried: dict[Battery, set[str]] = {"quick": NONLINEAR, "full": NONLINEAR | SLOW}
    for battery, expected in tried.items():
        found = il.analysis.identify(
            run.model(), run.config.task, points=run.config.points, prompts=32, draws=100,
            battery=battery, shifts={},
        )  # fmt: skip
        families = found.ranking["family"].tolist()
        assert expected <= set(families)
        # The closest of all is named, with its parameters and what it leaves.
        assert found.algorithm.startswith(families[0] if found.family == "none" else found.family)
        assert found.algorithm in found.summary()
        assert 0 < found.unexplained < 1, "it predicts better than zero does"
        left = f"{found.unexplained:.1%}" if found.family == "none" else f"{found.unexplained:.2g}"
        assert f"{left} unexplained" in found.summary()
