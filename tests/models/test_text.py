"""The transformer of texts: padding is never seen, and readouts are what they say."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional

import innerloop as il
from innerloop.core.errors import PromptError
from innerloop.core.iterate import iterate
from innerloop.core.prompt import Prompt
from innerloop.models import Loop, Stack, TextConfig, TextModel
from innerloop.training.window import window_loss, window_outputs

VOCABULARY, CLASSES, POINTS = 20, 3, 12
BACKBONES = {
    "stack": {"kind": "stack", "layers": 2},
    "loop": {"kind": "loop", "loops": 3},
    "AlgoFormer": {"kind": "loop", "loops": 2, "pre": 1, "post": 1},
    "linear attention": {"kind": "stack", "layers": 2, "attention": "linear"},
    "relu attention": {"kind": "stack", "layers": 2, "attention": "relu"},
}


def text_model(kind: str = "stack", *, causal: bool = False, tied: bool = False) -> TextModel:
    settings = {"width": 8, "heads": 2, "mask": "causal" if causal else "full", **BACKBONES[kind]}
    shape = Stack if settings["kind"] == "stack" else Loop
    config = TextConfig(
        vocabulary=VOCABULARY, classes=VOCABULARY if tied else CLASSES, points=POINTS,
        pool=None if causal else "mean", tied=tied, backbone=shape.model_validate(settings),
    )  # fmt: skip
    return TextModel(config, generator=torch.Generator().manual_seed(3)).double()


def text(numbers: list[list[int]]) -> Prompt:
    """Texts filled up with padding; the last token of each is scored."""
    longest = max(map(len, numbers))
    rows = [row + [0] * (longest - len(row)) for row in numbers]
    xs = torch.tensor(rows, dtype=torch.float64)[..., None]  # (B, n, 1)
    scored = torch.arange(longest) == torch.tensor([len(row) - 1 for row in numbers])[:, None]
    return Prompt(xs=xs, ys=torch.ones_like(xs), layout="tokens", scored=scored)


def outputs(model: TextModel, prompt: Prompt) -> Tensor:
    *_, state = iterate(model, prompt)
    return model.outputs(prompt, state)  # (B, n, C)


@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize("kind", BACKBONES)
def test_padding_is_never_seen(kind: str, causal: bool) -> None:
    model = text_model(kind, causal=causal)
    short, long = [7, 3, 9], [5, 2, 2, 8, 11, 1, 4]
    alone = outputs(model, text([short]))  # (1, 3, C)
    beside = outputs(model, text([short, long]))  # (2, 7, C)
    torch.testing.assert_close(beside[:1, :3], alone, rtol=0, atol=1e-12)
    torch.testing.assert_close(beside[1:], outputs(model, text([long])), rtol=0, atol=1e-12)


def test_the_embedding_of_padding_has_no_gradient() -> None:
    model = text_model()
    prompt = text([[7, 3], [5, 2, 2, 8]])
    (gradient,) = torch.autograd.grad(outputs(model, prompt).sum(), model.embedding.weight)
    assert bool((gradient[0] == 0).all())
    assert bool((gradient[7] != 0).any())


def test_with_mean_pooling_all_positions_say_the_same_and_see_all_tokens() -> None:
    model = text_model()
    answers = outputs(model, text([[7, 3, 9]]))  # (1, 3, C)
    assert torch.equal(answers[:, 0], answers[:, 2])
    other = outputs(model, text([[7, 3, 10]]))  # (1, 3, C)
    assert not torch.allclose(other[:, 0], answers[:, 0])


def test_a_causal_model_does_not_see_what_follows() -> None:
    model = text_model("loop", causal=True)
    first, second = (outputs(model, text([[7, 3, last]])) for last in (9, 10))
    torch.testing.assert_close(first[:, :2], second[:, :2], rtol=0, atol=1e-12)
    assert not torch.allclose(first[:, 2], second[:, 2])


def test_tied_embeddings_are_the_readout() -> None:
    model = text_model(causal=True, tied=True)
    prompt = text([[7, 3, 9]])
    *_, state = iterate(model, prompt)
    inputs = model.hidden_states.readout_inputs(prompt, state)  # (1, 3, D)
    assert outputs(model, prompt).shape == (1, 3, VOCABULARY)
    torch.testing.assert_close(outputs(model, prompt), inputs @ model.embedding.weight.T)
    assert not [name for name, _ in model.named_parameters() if name.startswith("readout")]


@pytest.mark.parametrize("kind", ["stack", "loop"])
def test_the_loss_is_the_cross_entropy_at_the_positions_that_count(kind: str) -> None:
    model = text_model(kind, causal=True, tied=True)
    prompt = text([[7, 3], [5, 2, 2, 8]])
    several = window_outputs(model, prompt, window=1)  # (1, 2, V)
    assert several.shape == (1, 2, VOCABULARY)
    whole = outputs(model, prompt)  # (B, n, V)
    at_ends = torch.stack([whole[0, 1], whole[1, 3]])  # (2, V)
    expected = functional.cross_entropy(at_ends, torch.tensor([1, 1]))
    loss = window_loss(several, prompt, torch.ones(4), "tokens")
    torch.testing.assert_close(loss, expected, rtol=1e-12, atol=0)


@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize("kind", ["stack", "loop", "AlgoFormer"])
def test_models_of_texts_keep_the_contract(kind: str, causal: bool) -> None:
    model = text_model(kind, causal=causal)
    with torch.no_grad():  # so that the most likely class depends on the text
        for parameter in model.parameters():
            parameter.mul_(4)
    il.check_learner(model, dims=1, points=6, outputs=(1,), layout="tokens")


def test_strange_tokens_and_prompts_are_refused() -> None:
    model = text_model()
    with pytest.raises(PromptError, match=f"token {VOCABULARY}, the model knows 0 to 19"):
        outputs(model, text([[1, VOCABULARY]]))
    with pytest.raises(PromptError, match="token -1"):
        outputs(model, text([[1, -1]]))
    with pytest.raises(PromptError, match="layout 'tokens'"):
        outputs(model, Prompt(xs=torch.ones(1, 2, 1).double(), ys=torch.ones(1, 2, 1).double()))
    with pytest.raises(PromptError, match="13 tokens"):
        outputs(model, text([[1] * 13]))


def test_settings_that_make_no_sense_are_refused() -> None:
    causal = Stack(width=8, heads=2, layers=1)
    with pytest.raises(ValueError, match="pool is 'mean' with a causal mask"):
        TextConfig(vocabulary=20, classes=3, points=5, backbone=causal)
    with pytest.raises(ValueError, match="tied embeddings answer with tokens"):
        TextConfig(vocabulary=20, classes=3, points=5, pool=None, tied=True, backbone=causal)


def test_a_saved_model_is_the_same(tmp_path: object) -> None:
    model = text_model("AlgoFormer")
    folder = il.models.save(model, f"{tmp_path}/model")
    prompt = text([[7, 3], [5, 2, 2, 8]])
    again = il.models.load(folder)
    assert isinstance(again, TextModel)
    assert torch.equal(outputs(again, prompt), outputs(model, prompt))
