"""The study of docs/study.md does what the page says."""

import re
import runpy
from pathlib import Path

import pytest

PAGE = Path(__file__).parent.parent.parent / "docs" / "study.md"


def test_the_example_is_measured_and_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), flags=re.DOTALL)
    assert len(blocks) == 2
    monkeypatch.chdir(tmp_path)
    script = tmp_path / "example.py"
    script.write_text("\n\n".join(blocks), "utf-8")
    namespace = runpy.run_path(str(script))
    assert capsys.readouterr().out == "1 confirmed\n"
    text = (tmp_path / "results" / "laptop" / "mine" / "fig1" / "index.html").read_text("utf-8")
    assert "far ahead of gradient descent" in text
    assert namespace["result"].claims[0].high < 0.01
