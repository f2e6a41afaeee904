"""docs/own-model.md runs, and three models that the library did not write are asked what they are.

The page's code is executed as it stands; then each model goes through the same few lines.
"""

import re
from pathlib import Path
from typing import Any

import pytest
import torch

PAGE = Path(__file__).parents[2] / "docs" / "own-model.md"
LINES = 12
"""The most that a user has to write to wrap a model, and to ask for what the issue names."""


def sections() -> dict[str, list[str]]:
    """The Python of each section of the page, by its heading."""
    text = PAGE.read_text(encoding="utf-8")
    parts = re.split(r"^#+ (.*)$", text, flags=re.MULTILINE)[1:]
    return {
        heading: re.findall(r"```py(?:thon)?\n(.*?)```", body, flags=re.DOTALL)
        for heading, body in zip(parts[::2], parts[1::2], strict=True)
    }


def run(code: str, names: dict[str, Any]) -> None:
    exec(compile(code, PAGE.name, "exec"), names)


def lines_of(code: str) -> int:
    return len([line for line in code.splitlines() if line.strip()])


@pytest.fixture(scope="module")
def example() -> dict[str, Any]:
    """What the whole example of the page has made."""
    names: dict[str, Any] = {}
    for block in sections()["A whole example"]:
        run(block, names)
    return names


def ask(names: dict[str, Any]) -> None:
    """The page's own questions, to the learner that is there."""
    _, questions = sections()["A whole example"]
    kept = [line for line in questions.splitlines() if not line.startswith("learner =")]
    run("\n".join(kept), names)


def require_answers(names: dict[str, Any], layers: int, prompts: int = 512) -> None:
    """Each question has an answer of the right size, with numbers in it."""
    assert names["learner"].steps == layers
    assert names["curve"]["prefix"].tolist() == list(range(11))
    assert names["curve"]["mean"].gt(0).all()
    assert names["answer"].prompts == 32
    errors = names["probing"].errors.values  # (P, S, p)
    assert errors.shape == (prompts // 4, layers + 1, 10)
    assert bool(torch.isfinite(errors).all())


def test_a_gpt_of_forty_lines(example: dict[str, Any]) -> None:
    model, questions = sections()["A whole example"]
    assert lines_of(model) <= 40
    assert lines_of(questions) <= LINES
    require_answers(example, layers=4)
    assert example["model"].training, "the model's own flag is left as it was"


def test_three_lines_are_enough(
    example: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    (three,) = sections()["Your own model in three lines"]
    assert lines_of(three) == 3
    run(three, {"model": example["model"]})
    assert "unexplained" in capsys.readouterr().out


def test_the_rest_of_the_page_runs(example: dict[str, Any]) -> None:
    names = dict(example)
    for heading in ("Look inside: layers and a head", "Prompts as your model wants them"):
        for block in sections()[heading]:
            run(block, names)
    assert names["by_layer"]["step"].tolist() == [0, 1, 2, 3, 4]
    assert names["matches"].values.shape == (32, 5, 21)
    few = names["few"]
    means = few.ys.cumsum(dim=1)[:, -2] / (few.points - 1)  # (B, 1)
    last = names["il"].predict(names["mean"], few)[:, -1]  # (B, 1)
    torch.testing.assert_close(last, means)


def test_a_transformer_encoder(example: dict[str, Any]) -> None:
    names = dict(example)
    (block,) = sections()["An `nn.TransformerEncoder`"]
    run(block, names)
    ask(names)
    require_answers(names, layers=3)


def test_a_gpt2_of_transformers(example: dict[str, Any]) -> None:
    pytest.importorskip(
        "transformers", reason="transformers is not installed: innerloop[transformers]"
    )
    names = dict(example)
    (block,) = sections()["A GPT-2 of `transformers`"]
    run(block, names)
    ask(names)
    require_answers(names, layers=3)
