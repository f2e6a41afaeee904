"""The study of table 1, on a made-up language; and what it says where there are no data."""

import json
from pathlib import Path

import pytest

from innerloop.analysis.drawing import rows_where
from innerloop.models.text import TextConfig
from innerloop.studies.gao2025.samples import ALGOFORMER, LOOPED, RECIPES, STANDARD
from innerloop.studies.gao2025.translation import PAPER, TALKS
from innerloop.studies.reproduce import reproduce
from innerloop.studies.table import find_studies
from innerloop.training.families import Scale
from innerloop.training.store import Store
from tests.language.made_language import write_language

(TABLE1,) = find_studies("gao2025/table1")


def test_it_measures_what_the_paper_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_language(tmp_path / "data")
    monkeypatch.setenv("INNERLOOP_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (outcome,) = reproduce(
        [TABLE1], scale="smoke", store=Store(tmp_path / "runs"), results=tmp_path / "made"
    )
    assert outcome.result is not None, outcome.error
    scores = outcome.result.table("scores")
    assert list(scores["model"]) == list(RECIPES)
    for measure in ("cross-entropy", "BLEU", "chrF"):
        for low, value, high in zip(
            scores[f"{measure} low"], scores[measure], scores[f"{measure} high"], strict=True
        ):
            assert low <= value <= high
    examples = outcome.result.table("examples")
    assert {"German", "English", *RECIPES} == set(examples.columns)
    by_loops = outcome.result.table("by-loops")
    assert len(set(rows_where(by_loops, {"label": STANDARD})["mean"])) == 1
    assert len(set(rows_where(by_loops, {"label": LOOPED})["mean"])) > 1
    # The claims are about differences of these very numbers.
    own = dict(zip(scores["model"], scores["cross-entropy"], strict=True))
    judged = {each.claim.name: each for each in outcome.result.claims}
    measured = judged["cross-entropy-beats-looped"].value
    assert measured == pytest.approx(own[ALGOFORMER] - own[LOOPED], abs=1e-3), "tables are rounded"
    written = json.loads((outcome.result.folder / "claims.json").read_text())
    assert "+5.42" in json.dumps(written), "the paper's difference stands beside ours"
    assert PAPER["BLEU"][ALGOFORMER] - PAPER["BLEU"][STANDARD] == pytest.approx(5.42)


def test_without_data_it_says_which_command_gets_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("INNERLOOP_DATA", str(tmp_path / "empty"))
    (outcome,) = reproduce(
        [TABLE1], scale="smoke", store=Store(tmp_path / "runs"), results=tmp_path / "made"
    )
    assert outcome.result is None
    assert "innerloop data get multi30k" in outcome.error


@pytest.mark.parametrize("scale", ["laptop", "desk"])
def test_all_models_have_the_same_operations(scale: Scale) -> None:
    """Counted here again: blocks forward and backward, and the readout of half of the tokens."""
    runs = {label: run for label, run in TABLE1.runs(scale).items() if TALKS not in label}
    totals: dict[str, float] = {}
    for label, run in runs.items():
        assert isinstance(run.model, TextConfig)
        shape, window = run.model.backbone, run.window or 1
        loops = run.trained_loops
        inside = 3 * shape.layers if loops is None else shape.layers * (loops + 2 * window)
        blocks = inside + 3 * (shape.pre + shape.post * window)
        readout = run.task.form.vocabulary / (12 * shape.width) / 2
        totals[label] = run.steps * (blocks + 3 * window * readout)
    assert max(totals.values()) / min(totals.values()) < 1.05
