"""Results on disk: what is kept, what counts as the same, and what is refused."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from matplotlib.figure import Figure

from innerloop.analysis import Measured
from innerloop.core.errors import InnerloopError
from innerloop.core.files import read_json
from innerloop.core.seal import sealed_json
from innerloop.studies import result as result_module
from innerloop.studies.result import (
    CLAIMS,
    ERROR,
    FIGURE,
    Result,
    find_result,
    read_result,
    read_results,
    redrawn,
    write_result,
)
from innerloop.studies.study import Findings, Study, Tables
from innerloop.training.run import TIMINGS
from innerloop.training.store import Store
from tests.studies.small import small_study


def written(root: Path, study: Study, *, seeds: int = 1) -> Result:
    """A result that nothing was measured for."""
    errors = Measured(values=torch.tensor([[1.0, 0.5]]), axes=("examples",))
    findings = Findings(seeds=({"errors": errors},) * seeds, tables={}, notes=())
    return write_result(
        root, study, findings, scale="smoke", seeds=tuple(range(seeds)), runs=(),
        training_seconds=0.0, seconds=0.0, finished="2026-01-01",
    )  # fmt: skip


def known(root: Path, study: Study, seeds: int = 1) -> Result | None:
    return find_result(root, study, scale="smoke", seeds=tuple(range(seeds)))


def test_more_seeds_than_asked_for_are_not_thrown_away(tmp_path: Path) -> None:
    study = small_study()
    written(tmp_path, study, seeds=3)
    for seeds in (1, 3):
        found = known(tmp_path, study, seeds)
        assert found is not None
        assert found.seeds == (0, 1, 2)
    assert known(tmp_path, study, 4) is None


@pytest.mark.parametrize("file", [FIGURE, "by-examples.csv", CLAIMS])
def test_a_result_that_lacks_a_file_is_not_known(tmp_path: Path, file: str) -> None:
    study = small_study()
    result = written(tmp_path, study)
    assert known(tmp_path, study) is not None
    (result.folder / file).unlink()
    assert known(tmp_path, study) is None


@pytest.mark.parametrize(
    "text",
    [
        "null",
        "[]",
        '{"format": 1}',
        '{"format": 2, "scale": "smoke"}',
        "not JSON",
        "",
        "[" * 200_000,
    ],
    ids=lambda text: text[:10],
)
def test_a_file_that_is_no_result_is_told_and_hides_no_other(tmp_path: Path, text: str) -> None:
    written(tmp_path, small_study("one"))
    broken = written(tmp_path, small_study("two"))
    (broken.folder / CLAIMS).write_text(text)
    found, refused = read_results(tmp_path)
    assert [result.id for result in found] == ["one"]
    assert len(refused) == 1
    assert str(broken.folder) in refused[0]


def change(path: Path, **values: object) -> None:
    """Write a result with other values, and a seal that fits them: whoever wrote it meant it."""
    path.write_bytes(sealed_json({**read_json(path, missing="it is there"), **values}))


FORGED: dict[str, tuple[dict[str, object], str]] = {
    "a scale": ({"scale": "huge"}, "scale"),
    "no seeds": ({"seeds": []}, "no seeds"),
    "a type": ({"seconds": {"a": 1}}, "seconds"),
    "an unknown field": ({"extra": 1}, "unknown field 'extra'"),
    "a table elsewhere": ({"tables": ["../../secret"]}, r"'\.\./\.\./secret', expected a plain"),
    "an absolute table": ({"tables": ["/etc/passwd"]}, "'/etc/passwd', expected a plain name"),
    "a table of the other slash": ({"tables": ["..\\secret"]}, "expected a plain name"),
    "a hidden table": ({"tables": [".secret"]}, "expected a plain name"),
}


@pytest.mark.parametrize("what", FORGED)
def test_what_no_study_writes_is_left_out_with_a_sentence(tmp_path: Path, what: str) -> None:
    written(tmp_path, small_study("one"))
    values, message = FORGED[what]
    change(written(tmp_path, small_study("two")).folder / CLAIMS, **values)
    found, refused = read_results(tmp_path)
    assert [result.id for result in found] == ["one"]
    (sentence,) = refused
    assert re.search(message, sentence)
    assert "\n" not in sentence


@pytest.mark.parametrize(
    ("verdict", "message"),
    [("great", "verdict"), ("contradicted", "not contradicted"), (3, "verdict")],
)
def test_a_verdict_that_does_not_follow_is_refused(
    tmp_path: Path, verdict: object, message: str
) -> None:
    path = written(tmp_path, small_study(), seeds=3).folder / CLAIMS
    claims = read_json(path, missing="it is there")["claims"]
    change(path, claims=[{**claims[0], "value": 0.5, "low": 0.4, "high": 0.6, "exact": True,
                          "criterion": {"at_most": 1.0, "at_least": "-inf", "reason": "one"},
                          "verdict": verdict}])  # fmt: skip
    with pytest.raises(InnerloopError, match=message):
        read_result(path.parent)


@pytest.mark.parametrize("field", ["criterion", "claim"])
def test_an_unknown_field_of_a_claim_is_refused(tmp_path: Path, field: str) -> None:
    path = written(tmp_path, small_study()).folder / CLAIMS
    (claim, *others) = read_json(path, missing="it is there")["claims"]
    where = claim if field == "claim" else claim[field]
    where["verdikt"] = "confirmed"
    change(path, claims=[claim, *others])
    with pytest.raises(InnerloopError, match="unknown field 'verdikt'"):
        read_result(path.parent)


@pytest.mark.parametrize("file", [CLAIMS, FIGURE, "by-examples.csv"])
def test_a_flipped_bit_of_a_result_is_left_out(tmp_path: Path, file: str) -> None:
    path = written(tmp_path, small_study()).folder / file
    whole = path.read_bytes()
    for place in range(0, len(whole), max(1, len(whole) // 40)):
        changed = bytearray(whole)
        changed[place] ^= 1 << place % 8
        path.write_bytes(changed)
        found, refused = read_results(tmp_path)
        assert found == []
        assert len(refused) == 1
    path.write_bytes(whole)
    assert len(read_results(tmp_path)[0]) == 1


@pytest.mark.parametrize("content", [b"", b"\xff\xfe\x00"])
def test_a_table_that_is_none_is_left_out_and_measured_again(
    tmp_path: Path, content: bytes
) -> None:
    study = small_study()
    result = written(tmp_path, study)
    change(result.folder / CLAIMS, checksums={})  # as of an earlier version
    assert len(read_results(tmp_path)[0]) == 1
    (result.folder / "by-examples.csv").write_bytes(content)
    found, refused = read_results(tmp_path)
    assert found == []
    assert "by-examples.csv holds no table" in refused[0]
    assert known(tmp_path, study) is None


def test_what_goes_wrong_later_leaves_the_earlier_result(tmp_path: Path) -> None:
    earlier = written(tmp_path, small_study())

    def draw(tables: Tables) -> Figure:
        raise ValueError(f"no figure of {sorted(tables)}")

    worse = small_study()
    object.__setattr__(worse, "draw", draw)
    with pytest.raises(ValueError, match="no figure"):
        written(tmp_path, worse)
    assert read_result(earlier.folder).claims == earlier.claims


def test_a_figure_is_drawn_anew_from_the_tables(tmp_path: Path) -> None:
    study = small_study()
    result = written(tmp_path, study)
    picture = result.figure.read_bytes()
    assert redrawn(result, study) is result  # as it is

    def draw(tables: Tables) -> Figure:
        figure = study.draw(tables)
        figure.suptitle(f"{len(tables['by-examples'])} rows")
        return figure

    new = redrawn(result, replace(study, draw=draw))
    assert result.figure.read_bytes() != picture
    found = known(tmp_path, study)
    assert found is not None, "its files agree with their checksums"
    assert found == new == replace(result, checksums=new.checksums)


def test_a_kill_while_a_figure_is_drawn_anew_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = small_study()
    result = written(tmp_path, study)
    other = replace(study, draw=lambda _: Figure(figsize=(1, 1)))
    write, wrote = result_module.write_atomically, 0

    def killed(path: Path, *how: Callable[[Path], object]) -> None:
        nonlocal wrote
        if wrote == left:
            raise KeyboardInterrupt
        write(path, *how)
        wrote += 1

    for left in (0, 1, 2):
        wrote = 0
        with monkeypatch.context() as patched:
            patched.setattr(result_module, "write_atomically", killed)
            with pytest.raises(KeyboardInterrupt):
                redrawn(read_result(result.folder), other)
        assert known(tmp_path, study) is not None, f"after {left} of three files"
    assert redrawn(read_result(result.folder), other).checksums.keys() == result.checksums.keys()
    assert known(tmp_path, study) is not None


def test_an_error_is_forgotten_when_it_is_mended(tmp_path: Path) -> None:
    folder = tmp_path / "smoke" / "test2024" / "small"
    folder.mkdir(parents=True)
    (folder / ERROR).write_text("Traceback")
    written(tmp_path, small_study())
    assert not (folder / ERROR).exists()


def test_results_of_the_first_version_are_read(tmp_path: Path) -> None:
    folder = tmp_path / "laptop" / "chen2025" / "thm4.2"
    folder.mkdir(parents=True)
    text = (Path(__file__).parent / "claims-0.1.0.json").read_text()
    (folder / CLAIMS).write_text(text)
    result = read_result(folder)
    assert result.versions["innerloop"] == "0.1.0"
    assert [judged.verdict for judged in result.claims] == ["confirmed"] * 4
    assert result.claims[0].value == json.loads(text)["claims"][0]["value"]


def test_times_are_those_of_all_stretches_whatever_was_cut_off(tmp_path: Path) -> None:
    run = Store(tmp_path).train(small_study().runs("smoke")["model"])
    first = run.seconds
    assert first > 0
    lines = [{"seconds": second} for second in (0.0, 5.0, 6.0, 0.0, 10.0, 20.0)]
    text = "\n".join(json.dumps(line) for line in lines)
    (run.path / TIMINGS).write_text(text + '\n{"step": 3, "sec')
    assert run.seconds == 26.0


def test_a_stretch_begins_with_a_line_of_its_own(tmp_path: Path) -> None:
    config = small_study().runs("smoke")["model"]
    store = Store(tmp_path)
    taken = iter([False, True])
    run = store.train(config, stop=lambda: next(taken, True))
    with (run.path / TIMINGS).open("a") as file:
        file.write('{"step": 3, "sec')  # a kill
    store.train(config)
    rows = [row for row in (run.path / TIMINGS).read_text().splitlines() if row.endswith("}")]
    assert [json.loads(row)["seconds"] for row in rows].count(0.0) == 2
