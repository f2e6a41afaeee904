"""The README's Python does what it says."""

import re
from pathlib import Path
from typing import Any

import pytest

README = Path(__file__).parent.parent / "README.md"


def test_python_of_the_readme_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = README.read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    assert len(blocks) == 5
    namespace: dict[str, Any] = {}
    for block in blocks:
        exec(compile(block, README.name, "exec"), namespace)
    assert (tmp_path / "errors.png").stat().st_size > 10_000
    assert namespace["answer"].family == "Newton"
    assert namespace["answer"].parameters["steps"] == 6
    assert set(namespace["table"]["learner"]) == {
        "OLS",
        "Ridge(penalty=0.25)",
        "GradientDescent(steps=5)",
    }


def test_links_of_the_documentation_lead_somewhere() -> None:
    for page in [README, *(README.parent / "docs").glob("*.md"), README.parent / "CONTRIBUTING.md"]:
        for link in re.findall(r"\]\(([^)#]+)", page.read_text(encoding="utf-8")):
            assert (page.parent / link).exists(), f"{page.name} links to {link}"
