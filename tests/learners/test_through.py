"""A learner on transformed prompts: the contract, and what is refused."""

from dataclasses import replace

import pytest
import torch
from pydantic import ValidationError
from torch import Tensor

import innerloop as il
from innerloop.core.errors import InnerloopError
from innerloop.core.learner import Traits
from innerloop.core.tolerances import REFERENCE
from innerloop.learners import OLS, FromFunction, GradientDescent
from innerloop.learners.through import Through


def squares(prompt: il.Prompt) -> il.Prompt:
    """x and x^2 in the place of x."""

    def of(values: Tensor) -> Tensor:
        return torch.cat([values, values.square()], dim=-1)

    asked = None if prompt.queries is None else of(prompt.queries)
    return replace(prompt, xs=of(prompt.xs), queries=asked, truth={})


def history(prompt: il.Prompt) -> il.Prompt:
    """The token before and the token itself, of a stream."""
    before = torch.nn.functional.pad(prompt.xs, (0, 0, 1, 0))[:, :-1]  # (B, n, d)

    def of(values: Tensor) -> Tensor:
        past = before[:, :, None].expand(values.shape)  # (B, n, q, d)
        return torch.cat([past, values], dim=3)

    asked = None if prompt.queries is None else of(prompt.queries)
    return il.Prompt(xs=of(prompt.xs[:, :, None])[:, :, 0], ys=prompt.ys, queries=asked)


SUM = Traits(order_invariant=True, linear_in_y=True)


def test_the_contract_on_features() -> None:
    il.check_learner(Through(squares, GradientDescent(4, step_size=1e-3), traits=SUM))


def test_the_contract_on_a_history() -> None:
    learner = Through(history, GradientDescent(3, step_size=1e-2), traits=Traits())
    il.check_learner(learner, layout="stream")


def test_the_contract_with_a_finish() -> None:
    learner = Through(
        squares, GradientDescent(3, step_size=1e-3), traits=replace(SUM, linear_in_y=False),
        finish=torch.tanh,
    )  # fmt: skip
    il.check_learner(learner)


def test_a_learner_that_is_not_causal_stays_so() -> None:
    whole = Traits(causal=False)
    inner = FromFunction(lambda xs, ys: ys.mean(dim=1, keepdim=True).expand(ys.shape), traits=whole)
    with pytest.raises(ValidationError, match="is not causal"):
        Through(squares, inner, traits=Traits())
    generator = torch.Generator().manual_seed(0)
    prompt = il.tasks.LinearRegression(dims=2).sample(3, 5, generator=generator)
    through = Through(squares, inner, traits=whole)
    assert torch.equal(il.predict(through, prompt), il.predict(inner, prompt))


def test_it_is_the_learner_on_the_transformed_prompt() -> None:
    generator = torch.Generator().manual_seed(1)
    prompt = il.tasks.LinearRegression(dims=2, dtype="float64").sample(3, 9, generator=generator)
    quadratic = replace(prompt, ys=prompt.xs.square().sum(dim=2, keepdim=True))
    learner = Through(squares, OLS(), traits=SUM)
    # Four features: solved from the fourth example on.
    off = (il.predict(learner, quadratic) - quadratic.ys)[:, 4:]  # (B, 5, 1)
    assert float(off.abs().max()) < REFERENCE
    assert learner.name == "OLS through squares"
    assert Through(squares, OLS(), traits=SUM, label="x, x^2").name == "OLS through x, x^2"


def test_a_transform_that_loses_points_is_refused() -> None:
    generator = torch.Generator().manual_seed(2)
    prompt = il.tasks.LinearRegression(dims=2).sample(3, 5, generator=generator)
    shorter = Through(lambda p: il.Prompt(xs=p.xs[:, 1:], ys=p.ys[:, 1:]), OLS(), traits=SUM)
    with pytest.raises(InnerloopError, match="keep batch, points"):
        il.predict(shorter, prompt)
