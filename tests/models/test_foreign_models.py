"""Three models that the library did not write, asked everything in twelve lines each.

The lines are those of docs/own-model.md, executed as they stand there.
"""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from innerloop.models.tokens import interleave
from tests.snippets import blocks

PAGE = "own-model.md"
MODEL_LINES = 40
LINES = 12
"""The most that a user has to write to wrap a model, and to ask about it."""
PROMPTS, POINTS = 512, 11

# By heading: layers, and the grid that is patched: the input and 4 layers by tokens; 3 layers by 2
# heads; the MLPs of 3 layers.
MODELS: dict[str, tuple[int, tuple[int, ...]]] = {
    "A whole example": (4, (5, 2 * POINTS - 1)),
    "A GPT-2 of `transformers`": (3, (3, 2)),
    "An `nn.TransformerEncoder`": (3, (3,)),
}


def section(heading: str) -> list[str]:
    """The Python below a heading of the page."""
    return [block.text for block in blocks(PAGE) if block.heading == heading]


def lines_of(code: str) -> int:
    return len([line for line in code.splitlines() if line.strip()])


@pytest.fixture(scope="module", params=MODELS)
def asked(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, dict[str, Any], Path]:
    """A heading, what its two blocks have made, and the folder that they ran in."""
    heading: str = request.param
    if "transformers" in heading:
        pytest.importorskip("transformers", reason="not installed: innerloop[transformers]")
    folder = tmp_path_factory.mktemp("user")
    names: dict[str, Any] = {"torch": torch, "nn": torch.nn}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        torch.manual_seed(0)
        for block in section(heading):
            exec(compile(block, PAGE, "exec"), names)
    return heading, names, folder


@pytest.mark.parametrize("heading", MODELS)
def test_twelve_lines_ask_everything(heading: str) -> None:
    model, questions = section(heading)
    assert lines_of(model) <= MODEL_LINES
    assert lines_of(questions) <= LINES
    for word in ("il.wrap", "error_curve", "identify", "probe", "patch"):
        assert word in questions


def test_every_question_is_answered(asked: tuple[str, dict[str, Any], Path]) -> None:
    heading, names, _ = asked
    layers, grid = MODELS[heading]
    assert names["learner"].steps == layers
    assert names["curve"]["prefix"].tolist() == list(range(POINTS))
    assert names["curve"]["mean"].gt(0).all()
    assert names["answer"].prompts == 32
    assert "unexplained" in names["answer"].summary()
    errors = names["probing"].errors.values  # (P, S, p)
    assert errors.shape == (PROMPTS // 4, layers + 1, POINTS - 1)
    assert bool(torch.isfinite(errors).all())
    assert names["patching"].restored.values.shape == (PROMPTS, *grid)
    assert names["model"].training, "the model's own flag is left as it was"


def test_what_is_patched_is_what_the_model_computes(
    asked: tuple[str, dict[str, Any], Path],
) -> None:
    """The answers between which patching moves are the model's own, and each part moves them."""
    _, names, _ = asked
    model, patching = names["model"].eval(), names["patching"]
    for prompts, answers in (
        (names["prompts"], patching.clean), (names["others"], patching.corrupted),
    ):  # fmt: skip
        with torch.no_grad():
            own: Tensor = model(interleave(prompts))[:, -1]  # (B, 1)
        torch.testing.assert_close(answers.float(), own)
    model.train()
    moved = patching.moved.values.mean(dim=0)  # (S, ..)
    assert bool((moved.reshape(len(moved), -1) > 0).any(dim=1).all())


def test_the_last_state_of_the_asked_token_is_all_that_is_read(
    asked: tuple[str, dict[str, Any], Path],
) -> None:
    heading, names, folder = asked
    if heading != "A whole example":
        pytest.skip("heads and MLPs add to a stream, of which the rest stays corrupted")
    patching = names["patching"]
    torch.testing.assert_close(patching.predictions[:, -1, -1], patching.clean)
    assert [path.name for path in folder.iterdir()] == ["patching.png"]


def test_three_lines_are_enough() -> None:
    (three,) = section("Your own model in three lines")
    assert lines_of(three) == 3
