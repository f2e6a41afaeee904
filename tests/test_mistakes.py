"""Mistakes in Python, each answered with one sentence that says what to do.

A row is a mistake, what makes it, and a piece of the sentence. Every row is an `InnerloopError`:
what torch, numpy or Python would have said instead says nothing about what to do.
"""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from pydantic import ValidationError
from torch import Tensor, nn

import innerloop as il
from innerloop import analysis
from innerloop.core.errors import InnerloopError
from innerloop.core.explain import explain
from innerloop.core.learner import OneShot, Traits

TASK = il.tasks.LinearRegression(dims=3)
OLS = il.learners.OLS()
DESCENT = il.learners.GradientDescent(3)
MODULE = nn.Linear(3, 1)


def drawn() -> il.Prompt:
    return TASK.sample(4, 6, generator=torch.Generator().manual_seed(0))


PROMPT = drawn()


class Answering(OneShot):
    """A learner that gives whatever a function makes of the prompt."""

    traits = Traits()

    def __init__(self, answer: Callable[[il.Prompt], Any]) -> None:
        self.answer = answer

    def init(self, prompt: il.Prompt) -> Any:
        return self.answer(prompt)

    def read(self, prompt: il.Prompt, state: Any) -> Any:
        return state


def model() -> il.models.InContextTransformer:
    stack = il.models.Stack(width=8, heads=2, layers=1)
    return il.models.InContextTransformer(
        il.models.TransformerConfig(dims=3, points=6, backbone=stack)
    )


# What is wrong on purpose is typed as anything, so that only the library itself complains.
il_predict: Any = il.predict
a: Any = analysis

Row = tuple[Callable[[], Any], str]

LEARNERS: dict[str, Row] = {
    "predict a module": (lambda: il_predict(MODULE, PROMPT), "wrap it with il.wrap(module)"),
    "predict a function": (lambda: il_predict(torch.relu, PROMPT), "il.learners.FromFunction"),
    "predict a class": (lambda: il_predict(il.learners.OLS, PROMPT), "make one of it, OLS()"),
    "predict a name": (lambda: il_predict("ols", PROMPT), "'ols' is a string, expected a learner"),
    "predict nothing": (lambda: il_predict(None, PROMPT), "None was given, expected a learner"),
    "predict, turned round": (lambda: il_predict(PROMPT, OLS), "learners come before"),
    "iterate a module": (lambda: next(il.iterate(MODULE, PROMPT)), "il.wrap(module)"),  # pyright: ignore
    "trajectory of a module": (lambda: il.trajectory(MODULE, PROMPT), "il.wrap(module)"),  # pyright: ignore
    "a fixed point of a module": (
        lambda: il.run_to_fixed_point(MODULE, PROMPT), "il.wrap(module)",  # pyright: ignore
    ),
    "a contract of a module": (lambda: il.check_learner(MODULE), "il.wrap(module)"),  # pyright: ignore
    "a curve of a module": (lambda: a.error_curve(MODULE, TASK, points=6), "il.wrap(module)"),
    "a curve of one module among others": (
        lambda: a.error_curve([OLS, MODULE], TASK, points=6), "il.wrap(module)",
    ),
    "a curve of names": (lambda: a.error_curve("ols", TASK, points=6), "'ols' is a string"),
    "identify a module": (lambda: a.identify(MODULE, TASK, points=6), "il.wrap(module)"),
    "probe a module": (lambda: a.probe(MODULE, PROMPT, a.moment), "il.wrap(module)"),
    "readouts of a module": (lambda: a.fit_readouts(MODULE, PROMPT), "il.wrap(module)"),
    "match a module": (lambda: a.match(OLS, MODULE, PROMPT), "il.wrap(module)"),
    "forgetting of a module": (lambda: a.forgetting(MODULE, PROMPT), "il.wrap(module)"),
    "weights of a module": (lambda: a.induced_weights(MODULE, PROMPT), "il.wrap(module)"),
    "a distance from a module": (lambda: a.spd(OLS, MODULE, PROMPT), "il.wrap(module)"),
    "verify a module": (lambda: a.verify(MODULE, OLS, PROMPT, tolerance=0.1), "il.wrap(module)"),
    "a span of a module": (lambda: a.span_test(MODULE, PROMPT), "il.wrap(module)"),
    "convergence of a module": (lambda: a.convergence(MODULE, PROMPT), "il.wrap(module)"),
    "a Bayes check of a module": (
        lambda: a.bayes_check(MODULE, PROMPT, noise=0.5), "il.wrap(module)",
    ),
    "patch a module": (lambda: a.patch(MODULE, PROMPT, PROMPT), "il.wrap(module)"),
    "ablate a module": (lambda: a.ablate(MODULE, PROMPT, TASK), "il.wrap(module)"),
    "attention of a module": (lambda: a.attention_patterns(MODULE, PROMPT), "il.wrap(module)"),
    "attribution of a module": (lambda: a.direct_attribution(MODULE, PROMPT), "il.wrap(module)"),
    "a module among candidates": (
        lambda: a.identify(OLS, TASK, points=6, candidates=[MODULE]), "il.wrap(module)",
    ),
    "one learner for all candidates": (
        lambda: a.identify(OLS, TASK, points=6, candidates=OLS), "expected a list of learners",
    ),
    "no candidates": (
        lambda: a.identify(OLS, TASK, points=6, candidates=[]), "candidates is empty",
    ),
    "save a module": (lambda: il.models.save(MODULE, "nowhere"), "torch.save"),  # pyright: ignore
    "a module in the place of a function": (
        lambda: il.predict(il.learners.FromFunction(MODULE), PROMPT), "with il.wrap",
    ),
}  # fmt: skip

PROMPTS_AND_TASKS: dict[str, Row] = {
    "predict on a task": (lambda: il_predict(OLS, TASK), "draw one with task.sample"),
    "predict on a tensor": (lambda: il_predict(OLS, PROMPT.xs), "il.Prompt.from_arrays"),
    "a curve on a prompt": (
        lambda: a.error_curve(OLS, PROMPT, points=6), "the task that has drawn it",
    ),
    "errors without a task": (lambda: a.error(OLS, PROMPT, PROMPT), "expected a task"),
    "identify on a prompt": (lambda: a.identify(OLS, PROMPT, points=6), "expected a task"),
    "identify on a class": (
        lambda: a.identify(OLS, il.tasks.LinearRegression, points=6), "LinearRegression(dims=5)",
    ),
    "identify on a name": (lambda: a.identify(OLS, "linear", points=6), "'linear' is a string"),
    "probe on a task": (lambda: a.probe(OLS, TASK, a.moment), "expected a prompt"),
    "readouts on a task": (lambda: a.fit_readouts(OLS, TASK), "expected a prompt"),
    "match on a task": (lambda: a.match(OLS, DESCENT, TASK), "expected a prompt"),
    "forgetting on a task": (lambda: a.forgetting(OLS, TASK), "expected a prompt"),
    "residuals on a task": (lambda: a.sim_e(OLS, DESCENT, TASK), "expected a prompt"),
    "patch a task": (lambda: a.patch(model(), PROMPT, TASK), "expected a prompt"),
    "ablate on a task": (lambda: a.ablate(model(), TASK, TASK), "expected a prompt"),
    "ablate on two prompts": (lambda: a.ablate(model(), PROMPT, PROMPT), "expected a task"),
    "attention on a task": (lambda: a.attention_patterns(model(), TASK), "expected a prompt"),
    "attribution on a task": (lambda: a.direct_attribution(model(), TASK), "expected a prompt"),
    "prefixes of a task": (lambda: il.core.expand_prefixes(TASK), "expected a prompt"),  # pyright: ignore
    "tasks in a row": (lambda: il.Prompt.cat([TASK]), "expected a prompt"),  # pyright: ignore
    "prompts by a name": (lambda: PROMPT.select("a"), "give a slice"),  # pyright: ignore
    "one prompt by its number": (lambda: PROMPT.select(2), "give a slice"),  # pyright: ignore
    "chance on a task": (lambda: a.span_chance(TASK), "expected a prompt"),
    "a prompt of lists": (lambda: il.Prompt(xs=[[[1.0]]], ys=[[[1.0]]]), "from_arrays"),  # pyright: ignore
    "a prompt of words": (lambda: il.Prompt.from_arrays([["a"]], [1.0]), "not an array of numbers"),
    "more xs than ys": (
        lambda: il.Prompt(xs=torch.ones(2, 3, 1), ys=torch.ones(2, 4, 1)), "every x needs its y",
    ),
    "xs without a batch": (
        lambda: il.Prompt(xs=torch.ones(3, 1), ys=torch.ones(3, 1)), "add the missing axes",
    ),
    "whole numbers": (
        lambda: il.Prompt(xs=torch.ones(1, 2, 1).long(), ys=torch.ones(1, 2, 1).long()),
        "cast them",
    ),
    "queries of another size": (lambda: PROMPT.ask(torch.ones(4, 6, 2, 5)), "after i examples"),
    "one prompt is no list": (lambda: il.Prompt.cat(PROMPT), "Prompt.cat([one, two])"),  # pyright: ignore
    "a type by its name": (lambda: PROMPT.to(dtype="float64"), "torch.float64"),  # pyright: ignore
    "another number of dimensions": (
        lambda: il.predict(model(), il.tasks.LinearRegression(dims=4).sample(
            2, 6, generator=torch.Generator())), "give such prompts, or another model",
    ),
    "more points than positions": (
        lambda: il.predict(model(), TASK.sample(2, 9, generator=torch.Generator())), "fewer points",
    ),
}  # fmt: skip

WITH_GRADIENTS = il.Prompt(xs=PROMPT.xs.clone().requires_grad_(), ys=PROMPT.ys)
HUGE = il.Prompt(xs=1e300 * PROMPT.xs.double(), ys=1e300 * PROMPT.ys.double())

NUMBERS: dict[str, Row] = {
    "gradients through least squares": (
        lambda: next(il.iterate(OLS, WITH_GRADIENTS)), "detach its tensors",
    ),
    "gradients through a tree": (
        lambda: next(il.iterate(il.learners.GreedyTree(), WITH_GRADIENTS)), "is not differentiable",
    ),
    "gradients through steps of descent": (
        lambda: next(il.iterate(il.learners.Strided(DESCENT, (1, 2)), WITH_GRADIENTS)), "`predict`",
    ),
    "weights of a prompt with gradients": (lambda: OLS.weights(WITH_GRADIENTS), "`predict`"),
    "a step size that diverges": (
        lambda: il.predict(il.learners.GradientDescent(400, 9.0), PROMPT), "diverges beyond 2 / L",
    ),
    "descent of a step size on huge inputs": (
        lambda: il.predict(il.learners.GradientDescent(3, 0.1), HUGE), "step_size is 0.1",
    ),
    "momentum that diverges": (
        lambda: il.predict(il.learners.MomentumDescent(400, 9.0), PROMPT), "step_size is 9",
    ),
    "online descent that diverges": (
        lambda: il.predict(il.learners.OnlineGradientDescent(1e90), PROMPT),
        "2 / (|x|^2 + penalty)",
    ),
    "online descent whose penalty diverges": (
        lambda: il.predict(il.learners.OnlineGradientDescent(penalty=1e90), PROMPT),
        "a penalty of 1e+90",
    ),
    "averages of huge numbers": (lambda: il.predict(il.learners.Averaging(), HUGE), "nearer to 1"),
    "Newton from too large a start": (
        lambda: il.predict(il.learners.Newton(20, 9.0), PROMPT), "diverges beyond 2 / |S S'|",
    ),
    "updates that drown in rounding": (
        lambda: il.predict(il.learners.ShermanMorrison(1e-20), PROMPT), "or Ridge",
    ),
    "cosines of huge numbers": (
        lambda: il.predict(il.learners.RandomFeatures(0.1, kind="cosine"), HUGE), "a larger length",
    ),
    "boosting on huge numbers": (lambda: il.predict(il.learners.Boosting(), HUGE), "float32"),
    "a network on huge numbers": (
        lambda: il.predict(il.learners.NetworkByAdam(hidden=2, steps=2), HUGE), "leave the range",
    ),
    "inputs of too many sizes": (
        lambda: il.predict(
            il.learners.ConjugateGradient(2),
            il.Prompt.from_arrays([[[1e-300], [1.0], [2.0]]], [[1.0, 1.0, 1.0]])),
        "reach from 1.0e-300 to 1.0e+00",
    ),
}  # fmt: skip

ANSWERS: dict[str, Row] = {
    "a flat answer": (
        lambda: il.predict(Answering(lambda p: p.ys[..., 0]), PROMPT), "expected a tensor of shape",
    ),
    "an answer for each input": (
        lambda: il.predict(Answering(lambda p: p.xs), PROMPT), "answers with shape (4, 6, 3)",
    ),
    "an array": (
        lambda: il.predict(Answering(lambda p: p.ys.numpy()), PROMPT), "answers with a ndarray",
    ),
    "a flat answer, prefix by prefix": (
        lambda: il.predict(Answering(lambda p: p.ys[:, -1]), PROMPT.ask(PROMPT.xs[:, :, None])),
        "expected a tensor of shape",
    ),
    "a function with a flat answer": (
        lambda: il.predict(il.learners.FromFunction(lambda xs, ys: ys[..., 0]), PROMPT),
        "expected one prediction for each y",
    ),
    "a wrapped module with another width": (
        lambda: il.predict(il.wrap(nn.Linear(4, 1)), PROMPT), "failed on tokens (2, 11, 3)",
    ),
    "a wrapped module that answers once": (
        lambda: il.predict(il.wrap(lambda tokens: tokens.sum()), PROMPT), "one answer per token",
    ),
}  # fmt: skip

ARGUMENTS: dict[str, Row] = {
    "an int for a generator": (
        lambda: TASK.sample(4, 6, generator=0), "torch.Generator().manual_seed(0)",  # pyright: ignore
    ),
    "no generator": (lambda: TASK.sample(4, 6, generator=None), "expected a torch.Generator"),  # pyright: ignore
    "an int for a model's generator": (
        lambda: il.models.InContextTransformer(model().config, generator=7),  # pyright: ignore
        "torch.Generator().manual_seed(7)",
    ),
    "a generator for a seed": (
        lambda: a.error_curve(OLS, TASK, points=6, seed=torch.Generator()), "such as seed=0",
    ),
    "a dictionary for a model's configuration": (
        lambda: il.models.InContextTransformer({"dims": 3}),  # pyright: ignore
        "make one of it, TransformerConfig(**settings)",
    ),
    "no configuration": (lambda: il.models.LSTM(None), "make one, LSTMConfig(dims=5, ..)"),  # pyright: ignore
    "half a prompt": (lambda: TASK.sample(2.5, 6, generator=torch.Generator()), "batch is 2.5"),  # pyright: ignore
    "points as text": (lambda: a.error_curve(OLS, TASK, points="6"), "points is '6'"),
    "prompts as text": (lambda: a.identify(OLS, TASK, points=6, prompts="64"), "prompts is '64'"),
    "no points": (lambda: a.identify(OLS, TASK, points=0), "points is 0, expected at least 1"),
    "half a step": (lambda: il_predict(OLS, PROMPT, steps=2.5), "steps is 2.5"),
    "fewer than no steps": (lambda: il.predict(DESCENT, PROMPT, steps=-1), "expected 0 or more"),
    "a start without its step": (lambda: il.iterate(OLS, PROMPT, start=3), "expected a pair"),  # pyright: ignore
    "one number of steps for two": (lambda: a.spd(OLS, OLS, PROMPT, steps=3), "expected a pair"),
    "a target by its name": (
        lambda: a.probe(model(), PROMPT, "moment"), "target is 'moment', expected a function",
    ),
    "a target that is a number": (
        lambda: a.probe(model(), PROMPT, lambda prompt: 3.0), "expected a tensor (B, n, m)",
    ),
    "settings by their name": (
        lambda: a.probe(model(), PROMPT, a.moment, settings="ridge"), "RidgeSettings()",
    ),
    "progress by its name": (
        lambda: a.error_curve(OLS, TASK, points=6, progress="bar"), "progress is 'bar'",
    ),
    "a measure that is none": (
        lambda: a.match(OLS, OLS, PROMPT, measure="sime"), "did you mean 'sim_e'?",
    ),
    "a device that is none": (
        lambda: a.identify(OLS, TASK, points=6, device="gpu"), "torch cannot use here",
    ),
    "too few queries": (lambda: a.induced_weights(OLS, PROMPT, queries=2), "do not determine"),
    "queries in a list": (lambda: a.induced_weights(OLS, PROMPT, queries=[1]), "a whole number"),
    "a tolerance as text": (
        lambda: a.verify(OLS, OLS, PROMPT, tolerance="tight"), "tolerance is 'tight'",
    ),
    "noise as text": (lambda: a.bayes_check(OLS, PROMPT, noise="low"), "noise is 'low'"),
    "a drawing of numbers": (
        lambda: a.draw_error_curve(a.error(OLS, PROMPT, TASK)), "that error_curve returns",
    ),
    "hidden states of an algorithm": (
        lambda: a.fit_readouts(OLS, PROMPT), "has no hidden states",
    ),
    "layers without a head": (
        lambda: il.trajectory(
            il.wrap(nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 1)), layers="0"), PROMPT),
        "call il.analysis.fit_readouts(learner, prompts) first",
    ),
    "a circuit that is none": (lambda: il.circuits.compile("newton", dims=3), "'newton-relu'?"),
    "a folder that is none": (lambda: il.models.load("nowhere"), "there is no folder nowhere"),
}  # fmt: skip

MISTAKES = LEARNERS | PROMPTS_AND_TASKS | NUMBERS | ANSWERS | ARGUMENTS

SETTINGS: dict[str, tuple[type[Any], Callable[[], Any], str]] = {
    "a string for a function": (
        il.learners.FromFunction, lambda: il.learners.FromFunction("ols"),  # pyright: ignore
        "the key 'function' of FromFunction is 'ols'",
    ),
    "a string for an estimator": (
        il.learners.FromEstimator, lambda: il.learners.FromEstimator("svr"), "scikit-learn",
    ),
    "a misspelt key": (
        il.tasks.LinearRegression, lambda: il.tasks.LinearRegression(dim=3),  # pyright: ignore
        "did you mean 'dims'?",
    ),
    "half a step of Newton": (
        il.learners.Newton, lambda: il.learners.Newton(2.5),  # pyright: ignore
        "the key 'steps' of Newton is 2.5",
    ),
    "steps as a word": (
        il.learners.GradientDescent, lambda: il.learners.GradientDescent("three"),  # pyright: ignore
        "the key 'steps' of GradientDescent is 'three'",
    ),
    "half a dimension": (
        il.tasks.LinearRegression, lambda: il.tasks.LinearRegression(dims=2.5),  # pyright: ignore
        "the key 'dims' of LinearRegression is 2.5",
    ),
    "half a stride": (
        il.learners.Strided, lambda: il.learners.Strided(DESCENT, (2.5,)),  # pyright: ignore
        "valid integer",
    ),
    "noise that squares to infinity": (
        il.learners.Bayes, lambda: il.learners.Bayes(1e200), "bring them nearer to 1",
    ),
    "noise that squares to zero": (
        il.learners.GaussianProcess, lambda: il.learners.GaussianProcess(1e-200), "nearer to 1",
    ),
    "a negative penalty": (
        il.learners.Ridge, lambda: il.learners.Ridge(-1.0), "greater than or equal to 0",
    ),
}  # fmt: skip
"""Wrong settings are pydantic's errors; the sentence is that of the command line."""


def require_sentence(text: str, piece: str) -> None:
    assert piece in text
    assert "\n" not in text
    assert text.endswith((".", "?"))
    assert len(text) < 500


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_answered_with_one_sentence(mistake: str) -> None:
    make, piece = MISTAKES[mistake]
    with pytest.raises(InnerloopError) as raised:
        make()
    require_sentence(str(raised.value), piece)


@pytest.mark.parametrize("mistake", SETTINGS)
def test_a_wrong_setting_is_explained_in_one_sentence(mistake: str) -> None:
    kind, make, piece = SETTINGS[mistake]
    with pytest.raises(ValidationError) as raised:
        make()
    require_sentence(explain(raised.value, kind), piece)


def test_there_are_forty_and_more() -> None:
    assert len(MISTAKES) + len(SETTINGS) >= 40


class LastYs(OneShot):
    """Predicts the last y it has seen, at x_i, and has never heard of queries."""

    traits = Traits()

    def init(self, prompt: il.Prompt) -> Tensor:
        return torch.cat([torch.zeros_like(prompt.ys[:, :1]), prompt.ys[:, :-1]], dim=1)


def test_a_learner_that_ignores_queries_is_run_on_every_prefix() -> None:
    asked = PROMPT.ask(torch.ones(4, 6, 2, 3))
    plain = il.predict(LastYs(), PROMPT)  # (B, n, k)
    expected = plain[:, :, None].expand(-1, -1, 2, -1)  # (B, n, q, k)
    torch.testing.assert_close(il.predict(LastYs(), asked), expected)
    path = il.trajectory(LastYs(), asked).predictions  # (1, B, n, q, k)
    torch.testing.assert_close(path[0], expected)
    for every_step in (False, True):
        weights = analysis.induced_weights(LastYs(), PROMPT, every_step=every_step)
        assert weights.shape[-4:] == (4, 6, 3, 1)
    assert analysis.forgetting(LastYs(), PROMPT).values.shape == (4, 6)
    with pytest.raises(InnerloopError, match="without queries"):
        il.trajectory(LastYs(), asked, states=True)
