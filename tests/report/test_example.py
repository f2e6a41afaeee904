"""The study of docs/study.md does what the page says."""

import re
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parent.parent.parent / "docs" / "study.md"


def test_the_example_is_measured_and_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), flags=re.DOTALL)
    assert len(blocks) == 2
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {"__name__": "example"}
    for block in blocks:
        exec(compile(block, PAGE.name, "exec"), namespace)
    assert capsys.readouterr().out == "1 confirmed\n"
    text = (tmp_path / "results" / "laptop" / "mine" / "fig1" / "index.html").read_text("utf-8")
    assert "far ahead of gradient descent" in text
    assert namespace["result"].claims[0].high < 0.01
