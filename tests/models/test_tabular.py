"""The transformer over tables: sets of rows and of features, units, and questions at the end."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from pydantic import ValidationError
from torch import Tensor

import innerloop as il
from innerloop.core.errors import NotSupportedError
from innerloop.core.prompt import Prompt
from innerloop.models import TabularConfig, TabularTransformer
from innerloop.models.tabular import FARTHEST
from innerloop.models.tabular_block import TabularShape
from tests.estimators.small import Heads, tabular

Draw = Callable[..., Prompt]
CLOSE = 1e-10


def answers(model: TabularTransformer, prompt: Prompt, questions: Tensor) -> Tensor:
    """What the model says at the end, (B, q, k)."""
    return il.predict(model, prompt.ask(questions[:, None]))[:, 0]


def apart(one: Tensor, other: Tensor) -> float:
    return float((one - other).abs().max())


@pytest.fixture
def questions(generator: torch.Generator) -> Tensor:
    return torch.randn(3, 5, 2, generator=generator, dtype=torch.float64)  # (B, q, d)


HEADS: tuple[Heads, ...] = ("regression", "gaussian", "binary")


@pytest.mark.parametrize("head", HEADS)
def test_the_order_of_rows_and_of_features_does_not_matter(
    head: Heads, random_prompt: Draw, generator: torch.Generator, questions: Tensor
) -> None:
    model = tabular(head).double()
    prompt = random_prompt(3, 9, 2)
    expected = answers(model, prompt, questions)
    rows = torch.cat([torch.randperm(8, generator=generator), torch.tensor([8])])
    moved = replace(prompt, xs=prompt.xs[:, rows], ys=prompt.ys[:, rows])
    assert apart(answers(model, moved, questions), expected) < CLOSE
    turned = replace(prompt, xs=prompt.xs.flip(2))
    assert apart(answers(model, turned, questions.flip(2)), expected) < CLOSE
    assert apart(answers(model, turned, questions), expected) > 1e-3


def test_questions_at_the_end_do_not_see_each_other(random_prompt: Draw, questions: Tensor) -> None:
    model = tabular().double()
    prompt = random_prompt(3, 9, 2)
    together = answers(model, prompt, questions)  # (B, q, 1)
    for j in range(questions.shape[1]):
        alone = answers(model, prompt, questions[:, j : j + 1])
        assert apart(alone[:, 0], together[:, j]) < CLOSE
        xs = prompt.xs.clone()
        xs[:, -1] = questions[:, j]
        last = il.predict(model, replace(prompt, xs=xs))[:, -1]
        assert apart(last, together[:, j]) < CLOSE


def test_a_table_does_not_see_the_others_of_its_batch(
    random_prompt: Draw, questions: Tensor
) -> None:
    model = tabular().double()
    prompt = random_prompt(3, 9, 2)
    xs, asked = prompt.xs.clone(), questions.clone()
    xs[1, :, 0], asked[1, :, 0] = 4.0, 4.0  # this table has one feature, the others have two
    prompt = replace(prompt, xs=xs)
    together = answers(model, prompt, asked)
    for b in range(3):
        alone = answers(model, prompt.select(slice(b, b + 1)), asked[b : b + 1])
        assert apart(alone[0], together[b]) < CLOSE


def test_a_feature_that_all_examples_agree_in_is_left_out(
    random_prompt: Draw, questions: Tensor
) -> None:
    model = tabular().double()
    prompt = random_prompt(3, 9, 2)
    expected = answers(model, prompt, questions)
    for value in (0.0, 0.1, 1e9 + 0.1):
        constant = torch.full((3, 9, 1), value, dtype=torch.float64)
        wider = replace(prompt, xs=torch.cat([prompt.xs, constant], dim=2))
        another = torch.full((3, 5, 1), 3 * value + 1, dtype=torch.float64)
        found = answers(model, wider, torch.cat([questions, another], dim=2))
        assert apart(found, expected) < CLOSE


def test_units_of_inputs_and_outputs_do_not_matter(random_prompt: Draw, questions: Tensor) -> None:
    model = tabular().double()
    prompt = random_prompt(3, 9, 2)
    expected = answers(model, prompt, questions)
    scale, offset = torch.tensor([1e-3, 40.0]).double(), torch.tensor([5.0, -2.0]).double()
    other = replace(prompt, xs=prompt.xs * scale + offset, ys=100 * prompt.ys - 7)
    found = answers(model, other, questions * scale + offset)
    assert apart((found + 7) / 100, expected) < 1e-8


def test_deviations_grow_with_the_units_of_outputs(random_prompt: Draw, questions: Tensor) -> None:
    model = tabular("gaussian").double()
    prompt = random_prompt(3, 9, 2).ask(questions[:, None])
    logs = []
    for scale in (1.0, 10.0):
        scaled = replace(prompt, ys=scale * prompt.ys)
        *_, state = il.iterate(model, scaled)
        logs.append(model.outputs(scaled, state)[..., 1].detach())  # (B, 1, q)
    assert apart(logs[1] - logs[0], torch.full_like(logs[0], 100.0).log()) < 1e-8


def test_an_outlier_among_the_questions_is_put_at_the_edge(random_prompt: Draw) -> None:
    model = tabular().double()
    prompt = random_prompt(1, 9, 1)
    far = torch.tensor([[[1e6], [1e9]]], dtype=torch.float64)
    found = answers(model, prompt, far)[0, :, 0]
    assert apart(found[0], found[1]) < CLOSE
    examples = prompt.xs[:, :-1]
    edge = examples.mean() + FARTHEST * examples.std(correction=0)
    assert apart(answers(model, prompt, edge.reshape(1, 1, 1))[0, 0, 0], found[0]) < CLOSE


@pytest.mark.parametrize("examples", [0, 1, 2])
@pytest.mark.parametrize("head", HEADS)
def test_few_examples_get_finite_answers(
    head: Heads, examples: int, random_prompt: Draw, questions: Tensor
) -> None:
    model = tabular(head).double()
    found = answers(model, random_prompt(3, examples + 1, 2), questions)
    assert bool(torch.isfinite(found).all())


def test_labels_are_probable_labels(random_prompt: Draw, questions: Tensor) -> None:
    prompt = random_prompt(3, 9, 2)
    prompt = replace(prompt, ys=prompt.ys.sign())
    found = answers(tabular("binary").double(), prompt, questions)
    assert float(found.abs().max()) < 1


def test_it_runs_to_its_fixed_point_where_queries_are_at_the_end(
    random_prompt: Draw, questions: Tensor
) -> None:
    model = tabular().double()
    prompt = random_prompt(3, 9, 2).ask(questions[:, None])
    point = il.run_to_fixed_point(model, prompt, 1e-6, max_steps=50, throw=False)
    assert point.predictions.shape == (3, 1, 5, 1)
    for b in range(3):
        steps = int(point.steps[b])
        alone = il.predict(model, prompt.select(slice(b, b + 1)), steps=steps)
        assert apart(alone[0], point.predictions[b]) < CLOSE
    with pytest.raises(NotSupportedError, match="cannot answer all questions"):
        il.run_to_fixed_point(model, prompt.ask(None))


def test_heads_must_divide_the_width() -> None:
    with pytest.raises(ValidationError, match="3 heads do not divide the width 8"):
        TabularShape(width=8, heads=3)


def test_its_name_says_what_it_is() -> None:
    assert tabular().name == "tabular transformer (1 layer)"
    assert TabularTransformer(TabularConfig(label="mine")).name == "mine"
    assert TabularTransformer(TabularConfig(shape=TabularShape(layers=2))).name.endswith(
        "2 layers)"
    )
