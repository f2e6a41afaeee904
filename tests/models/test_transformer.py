"""The transformer against plain transcriptions of its equations, and at the papers' sizes."""

from collections.abc import Callable

import pytest
import torch
from pydantic import ValidationError
from torch import Tensor
from torch.nn import functional

import innerloop as il
from innerloop.core.chunks import budget
from innerloop.core.errors import NotSupportedError, PromptError
from innerloop.core.prompt import Prompt
from innerloop.models import InContextTransformer, Loop, Stack, TransformerConfig

TOLERANCE = 1e-12
"""The same operations in another order, float64."""
DIMS, POINTS, WIDTH, HEADS = 3, 6, 8, 2


def make(
    backbone: Stack | Loop, generator: torch.Generator, *, points: int = POINTS
) -> InContextTransformer:
    config = TransformerConfig(dims=DIMS, points=points, backbone=backbone)
    model = InContextTransformer(config, generator=generator).double()
    with torch.no_grad():
        for parameter in model.parameters():
            # Norms and biases that do something, so that leaving one out is noticed.
            parameter += 0.2 * torch.randn(parameter.shape, generator=generator).double()
    return model


class Plain:
    """A GPT-2 written out for one prompt at a time, on the weights of a model."""

    def __init__(self, model: InContextTransformer) -> None:
        self.weights = {name: value.detach() for name, value in model.state_dict().items()}

    def linear(self, name: str, inputs: Tensor) -> Tensor:
        return inputs @ self.weights[f"{name}.weight"].T + self.weights[f"{name}.bias"]

    def norm(self, name: str, inputs: Tensor) -> Tensor:
        centred = inputs - inputs.mean(-1, keepdim=True)
        deviation = (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt()
        return centred / deviation * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]

    def block(self, name: str, hidden: Tensor) -> Tensor:
        """Hidden states (T, D) after one pre-norm block."""
        inner = self.linear(f"{name}.attention.inward", self.norm(f"{name}.attention_norm", hidden))
        queries, keys, values = inner.split(WIDTH, dim=1)  # (T, D) each
        size = WIDTH // HEADS
        taken = torch.zeros_like(hidden)  # (T, D)
        for head in range(HEADS):
            part = slice(head * size, (head + 1) * size)
            for t in range(len(hidden)):
                scores = keys[: t + 1, part] @ queries[t, part] / size**0.5  # (t + 1,)
                weights = scores.exp() / scores.exp().sum()  # (t + 1,)
                taken[t, part] = weights @ values[: t + 1, part]
        hidden = hidden + self.linear(f"{name}.attention.outward", taken)
        units = self.linear(f"{name}.mlp.up", self.norm(f"{name}.mlp_norm", hidden))
        active = units * 0.5 * (1 + torch.erf(units / 2**0.5))  # (T, H)
        return hidden + self.linear(f"{name}.mlp.down", active)

    def embedded(self, prompt: Prompt, b: int) -> Tensor:
        """x_0, y_0, x_1, .. x_{n-1} through the read-in, without positions: (2n - 1, D)."""
        tokens: list[Tensor] = []
        for i in range(prompt.points):
            tokens += [prompt.xs[b, i], functional.pad(prompt.ys[b, i], (0, DIMS - 1))]
        return self.linear("embedding.inward", torch.stack(tokens[:-1]))

    @property
    def positions(self) -> Tensor:
        return self.weights["backbone.positions"]

    def answer(self, hidden: Tensor) -> Tensor:
        """The readout at the x tokens: (n, 1)."""
        return self.linear("readout", hidden[::2])


def assert_same(
    model: InContextTransformer,
    prompt: Prompt,
    expected: Callable[[Plain, Tensor], list[Tensor]],
    steps: int | None = None,
) -> None:
    """Compare all predictions, after each step from the first on, with a transcription's."""
    plain = Plain(model)
    with torch.no_grad():
        found = il.trajectory(model, prompt, steps=steps).predictions[1:]  # (K, B, n, 1)
    for b in range(prompt.batch):
        answers = torch.stack(expected(plain, plain.embedded(prompt, b)))  # (K, n, 1)
        assert float((found[:, b] - answers).abs().max()) < TOLERANCE


@pytest.fixture
def prompt(random_prompt: Callable[..., Prompt]) -> Prompt:
    return random_prompt(2, POINTS, DIMS)


def test_looped_forward_is_y_equals_m_of_y_plus_p(
    generator: torch.Generator, prompt: Prompt
) -> None:
    model = make(Loop(layers=2, loops=3, width=WIDTH, heads=HEADS), generator)

    def expected(plain: Plain, embedded: Tensor) -> list[Tensor]:
        given = embedded + plain.positions  # P: (T, D)
        state = torch.zeros_like(given)  # Y: (T, D)
        answers: list[Tensor] = []
        for _ in range(7):
            hidden = plain.block("backbone.blocks.0", state + given)
            hidden = plain.block("backbone.blocks.1", hidden)
            state = plain.norm("backbone.loop_norm", hidden)
            answers.append(plain.answer(state))
        return answers

    assert_same(model, prompt, expected, steps=7)  # more loops than it is made for


def test_norm_after_the_loop(generator: torch.Generator, prompt: Prompt) -> None:
    shape = Loop(loops=4, width=WIDTH, heads=HEADS, norm_inside=False)
    model = make(shape, generator)

    def expected(plain: Plain, embedded: Tensor) -> list[Tensor]:
        given = embedded + plain.positions  # (T, D)
        state = torch.zeros_like(given)  # (T, D)
        answers: list[Tensor] = []
        for _ in range(4):
            state = plain.block("backbone.blocks.0", state + given)
            answers.append(plain.answer(plain.norm("backbone.final_norm", state)))
        return answers

    assert_same(model, prompt, expected)


@pytest.mark.parametrize("inject", ["none", "multiply"])
def test_other_injections_add_positions_at_every_loop(
    generator: torch.Generator, prompt: Prompt, inject: str
) -> None:
    shape = Loop.model_validate({"loops": 4, "width": WIDTH, "heads": HEADS, "inject": inject})
    model = make(shape, generator)

    def expected(plain: Plain, embedded: Tensor) -> list[Tensor]:
        factor = embedded if inject == "multiply" else torch.ones_like(embedded)  # (T, D)
        state = torch.ones_like(embedded) if inject == "multiply" else embedded  # (T, D)
        answers: list[Tensor] = []
        for _ in range(4):
            hidden = plain.block("backbone.blocks.0", state * factor + plain.positions)
            state = plain.norm("backbone.loop_norm", hidden)
            answers.append(plain.answer(state))
        return answers

    assert_same(model, prompt, expected)


def test_algoformer_is_post_of_loops_of_pre(generator: torch.Generator, prompt: Prompt) -> None:
    model = make(Loop(pre=1, post=1, loops=3, width=WIDTH, heads=HEADS), generator)

    def expected(plain: Plain, embedded: Tensor) -> list[Tensor]:
        given = plain.block("backbone.pre.0", embedded + plain.positions)  # (T, D)
        state = torch.zeros_like(given)  # (T, D)
        answers: list[Tensor] = []
        for _ in range(3):
            state = plain.norm(
                "backbone.loop_norm", plain.block("backbone.blocks.0", state + given)
            )
            last = plain.norm("backbone.final_norm", plain.block("backbone.post.0", state))
            answers.append(plain.answer(last))
        return answers

    assert_same(model, prompt, expected)


def test_stack_is_its_blocks_in_turn(generator: torch.Generator, prompt: Prompt) -> None:
    model = make(Stack(layers=3, width=WIDTH, heads=HEADS), generator)

    def expected(plain: Plain, embedded: Tensor) -> list[Tensor]:
        hidden = embedded + plain.positions  # (T, D)
        answers: list[Tensor] = []
        for layer in range(3):
            hidden = plain.block(f"backbone.blocks.{layer}", hidden)
            answers.append(plain.answer(plain.norm("backbone.final_norm", hidden)))
        return answers

    assert_same(model, prompt, expected)


BLOCK = 12 * 256**2 + 13 * 256
"""Four D x D maps of the attention, two of 4 D x D of the MLP, their biases and two norms."""


@pytest.mark.parametrize(
    ("backbone", "numbers", "millions"),
    [
        (Stack(layers=12), 12 * BLOCK + 512, 9.48),
        (Loop(loops=20), BLOCK + 512, 0.79),
        (Loop(loops=20, pre=1, post=1), 3 * BLOCK + 2 * 512, 2.37),
    ],
)
def test_parameter_counts_of_the_papers(
    backbone: Stack | Loop, numbers: int, millions: float
) -> None:
    model = InContextTransformer(TransformerConfig(dims=20, points=41, backbone=backbone))
    embeddings = sum(
        parameter.numel()
        for parameter in (
            model.backbone.positions, *model.embedding.parameters(), *model.readout.parameters()
        )
        if parameter is not None
    )  # fmt: skip
    assert embeddings == 81 * 256 + (20 * 256 + 256) + (256 + 1)
    assert model.parameter_count - embeddings == numbers
    assert round(numbers / 1e6, 2) == millions


def test_shorter_prompts_are_the_beginning_of_longer_ones(
    generator: torch.Generator, prompt: Prompt
) -> None:
    model = make(Loop(loops=3, width=WIDTH, heads=HEADS), generator)
    part = Prompt(xs=prompt.xs[:, :4], ys=prompt.ys[:, :4])
    with torch.no_grad():
        torch.testing.assert_close(il.predict(model, part), il.predict(model, prompt)[:, :4])


@pytest.mark.parametrize(
    ("points", "dims", "outputs", "told"),
    [
        (POINTS + 1, DIMS, 1, "13 tokens, the model has positions for 11"),
        (POINTS, DIMS + 1, 1, "4 dimensions and 1 outputs"),
        (POINTS, DIMS, 2, "3 dimensions and 2 outputs"),
    ],
)
def test_prompts_that_do_not_fit_are_refused(
    generator: torch.Generator,
    random_prompt: Callable[..., Prompt],
    points: int,
    dims: int,
    outputs: int,
    told: str,
) -> None:
    model = make(Stack(layers=1, width=WIDTH, heads=HEADS), generator)
    with pytest.raises(PromptError, match=told):
        il.predict(model, random_prompt(1, points, dims, outputs))


def test_another_layout_is_refused(
    generator: torch.Generator, random_prompt: Callable[..., Prompt]
) -> None:
    config = TransformerConfig(
        dims=2, outputs=2, points=4, backbone=Stack(layers=1, width=WIDTH, heads=HEADS)
    )
    model = InContextTransformer(config, generator=generator)
    with pytest.raises(PromptError, match="layout 'stream'"):
        il.predict(model, random_prompt(1, 4, 2, layout="stream"))


def test_shapes_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ValidationError, match="3 heads do not divide the width 8"):
        Stack(width=8, heads=3)
    assert Stack(width=8, heads=3, head_size=2).numbers_per_head == 2
    with pytest.raises(ValidationError, match="a stream of 3 dimensions has 1 outputs"):
        TransformerConfig(dims=3, points=4, layout="stream", backbone=Stack())


def test_full_attention_takes_no_queries_beside_the_tokens(
    generator: torch.Generator, random_prompt: Callable[..., Prompt]
) -> None:
    model = make(Stack(layers=1, width=WIDTH, heads=HEADS, mask="full"), generator)
    asked = random_prompt(2, POINTS, DIMS, queries=2)
    with pytest.raises(NotSupportedError, match="expand_prefixes"):
        model.step(asked, model.init(asked), 0)


def test_only_loops_have_a_moving_part(
    generator: torch.Generator, random_prompt: Callable[..., Prompt]
) -> None:
    prompt = random_prompt(2, POINTS, DIMS, queries=2)
    stack = make(Stack(layers=1, width=WIDTH, heads=HEADS), generator)
    with pytest.raises(NotSupportedError, match="no moving part"):
        _ = stack.moving
    loop = make(Loop(loops=2, width=WIDTH, heads=HEADS), generator)
    with torch.no_grad():
        _, one, two = il.iterate(loop, prompt)
        moved = loop.moving.put(one, loop.moving.get(two))
        assert torch.equal(loop.read(prompt, moved), loop.read(prompt, two))


def test_queries_are_answered_in_pieces_where_memory_is_short(
    generator: torch.Generator, random_prompt: Callable[..., Prompt]
) -> None:
    points = 24  # so many that several share a piece, and see different numbers of tokens
    model = make(Loop(loops=2, width=WIDTH, heads=HEADS), generator, points=points)
    prompt = random_prompt(2, points, DIMS, queries=4)
    with torch.no_grad():
        whole = il.predict(model, prompt)
        with budget(1):
            torch.testing.assert_close(il.predict(model, prompt), whole, rtol=0, atol=TOLERANCE)
