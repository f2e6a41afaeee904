"""Modules as learners: what is wrapped answers as the module does, step by step, and no more."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import innerloop as il
from innerloop.core.chunks import budget
from innerloop.core.errors import ConfigurationError, InnerloopError, NotSupportedError
from innerloop.core.tolerances import REFERENCE
from innerloop.models.tokens import FORMS, interleave

DIMS, POINTS, STEPS, RATE = 3, 8, 4, 0.1
TASK = il.tasks.LinearRegression(dims=DIMS, dtype="float64")
REFERENCE_DESCENT = il.learners.GradientDescent(STEPS, step_size=RATE)


class DescentLayer(nn.Module):
    """One gradient step of every prefix, on hidden states [token, w] (B, T, 2d)."""

    def forward(self, hidden: Tensor) -> Tensor:
        xs, w = hidden[:, ::2, :DIMS], hidden[:, ::2, DIMS:]  # (B, n, d) each
        ys = hidden[:, 1::2, :1].mT  # (B, 1, n - 1)
        residuals = (ys - w @ xs[:, :-1].mT).tril(-1)  # (B, n, n - 1)
        moved = hidden.clone()  # (B, T, 2d)
        moved[:, ::2, DIMS:] += RATE * residuals @ xs[:, :-1]
        return moved


class Products(nn.Module):
    """x * w, entry by entry: (B, n, d)."""

    def forward(self, hidden: Tensor) -> Tensor:
        return hidden[..., :DIMS] * hidden[..., DIMS:]


class Descent(nn.Module):
    """Gradient descent as a network of layers: the algorithm inside is known."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.ModuleDict({"h": nn.ModuleList(DescentLayer() for _ in range(STEPS))})
        self.products = Products()
        self.sum = nn.Linear(DIMS, 1, bias=False).double()
        nn.init.ones_(self.sum.weight)
        self.dropout = nn.Dropout(0.5)  # off in eval mode only

    def forward(self, tokens: Tensor) -> Tensor:
        hidden = torch.cat([tokens, torch.zeros_like(tokens)], dim=2)  # (B, T, 2d)
        for layer in self.body["h"]:  # pyright: ignore[reportGeneralTypeIssues]
            hidden = layer(hidden)
        return self.sum(self.dropout(self.products(hidden)))  # (B, T, 1)


class Mixer(nn.Module):
    """Attention between all tokens, with a mask or without."""

    def __init__(self, width: int = DIMS, *, masked: bool, start: bool = False) -> None:
        super().__init__()
        self.start = nn.Parameter(torch.ones(16)) if start else None
        self.inward, self.block = nn.Linear(width, 16), nn.Linear(16, 16)
        self.outward, self.masked = nn.Linear(16, 1), masked
        self.double()

    def forward(self, tokens: Tensor) -> Tensor:
        hidden = self.inward(tokens)  # (B, T, 16)
        if self.start is not None:
            hidden = torch.cat([self.start.expand(len(tokens), 1, -1), hidden], dim=1)
        scores = hidden @ hidden.mT  # (B, T, T)
        if self.masked:
            scores = scores.masked_fill(torch.ones_like(scores[0]).triu(1) > 0, -torch.inf)
        return self.outward(self.block(scores.softmax(-1) @ hidden))


def wrapped(**settings: Any) -> il.models.WrappedModule:
    """Gradient descent, wrapped with its layers and its head."""
    return il.wrap(Descent(), layers="body.h", head=["products", "sum"], **settings)


def drawn(prompts: int = 16, task: il.Task = TASK, points: int = POINTS) -> il.Prompt:
    return task.sample(prompts, points, generator=torch.Generator().manual_seed(0))


def with_queries(prompt: il.Prompt) -> il.Prompt:
    generator = torch.Generator().manual_seed(1)
    shape = (prompt.batch, prompt.points, 2, prompt.dims)
    return prompt.ask(torch.randn(shape, generator=generator, dtype=prompt.xs.dtype))


def same(one: Tensor, other: Tensor) -> None:
    torch.testing.assert_close(one, other, rtol=REFERENCE, atol=REFERENCE)


@pytest.mark.parametrize("queries", [False, True])
def test_every_layer_is_a_step_of_the_algorithm(queries: bool) -> None:
    prompt = with_queries(drawn()) if queries else drawn()
    path = il.trajectory(wrapped(), prompt).predictions  # (K + 1, B, n[, q], k)
    same(path, il.trajectory(REFERENCE_DESCENT, prompt).predictions)


def test_the_contract_holds() -> None:
    il.check_learner(wrapped(), dims=DIMS, points=POINTS, outputs=(1,), waived={
        "order": "it promises nothing, though it runs an algorithm that could",
        "rotation": "the same", "linearity": "the same",
    })  # fmt: skip
    # One layer without positions sees a set of examples, which the user can promise.
    a_set = il.core.Traits(order_invariant=True)
    for masked, causal in ((True, None), (False, None), (False, False)):
        learner = il.wrap(Mixer(masked=masked), causal=causal, traits=a_set)
        il.check_learner(learner, dims=DIMS, points=POINTS, outputs=(1,))


def test_the_contract_allows_the_rounding_of_the_modules_own_type() -> None:
    learner = il.wrap(Mixer(masked=True).float(), traits=il.core.Traits(order_invariant=True))
    assert learner.computes_in == torch.float32
    il.check_learner(learner, dims=DIMS, points=POINTS, outputs=(1,))
    assert wrapped().computes_in == torch.float64
    assert il.wrap(lambda tokens: tokens[..., :1]).computes_in == torch.float64


def test_measures_see_the_algorithm() -> None:
    learner, prompt = wrapped(), drawn(64)
    errors = [
        il.analysis.error(one, prompt, TASK, by="both") for one in (learner, REFERENCE_DESCENT)
    ]
    same(errors[0].values, errors[1].values)
    same(*(il.analysis.forgetting(one, prompt).values for one in (learner, REFERENCE_DESCENT)))
    weights = il.analysis.induced_weights(learner, prompt, queries=10)  # (B, n, d, k)
    same(weights, REFERENCE_DESCENT.weights(prompt))
    similarity = il.analysis.match(learner, REFERENCE_DESCENT, prompt, measure="spd").values
    best = il.analysis.best_matches(similarity.mean(dim=0), "spd")
    assert best.tolist() == list(range(STEPS + 1))


def test_identify_names_the_algorithm() -> None:
    answer = il.analysis.identify(wrapped(), TASK, points=POINTS, prompts=32)
    assert answer.family == "GradientDescent"
    assert answer.parameters["steps"] == STEPS


def test_probes_find_the_first_gradient_in_the_first_layer() -> None:
    """After one step w is the rate times X'y."""
    found = il.analysis.probe(
        wrapped(), drawn(400), il.analysis.moment, at_prefixes=[5],
        settings=il.analysis.RidgeSettings(),
    )  # fmt: skip
    relative = found.relative.values.mean(dim=0)[:, 0]  # (S,)
    assert float(relative[1]) < 1e-3
    assert float(relative[0]) > 0.5


def test_readouts_are_fitted_behind_all_of_the_head_but_its_last_part() -> None:
    """The sum of x * w is a linear readout, so the best one does at least as well."""
    prompt = drawn(200)
    learner = wrapped()
    state = learner.init(prompt)
    assert learner.hidden_states.readout_inputs(prompt, state).shape == (200, POINTS, DIMS)
    fitted = il.analysis.fit_readouts(learner, prompt, penalty=0.0)
    own, best = (
        (il.trajectory(one, prompt).predictions - prompt.ys).square().mean(dim=(1, 2, 3))
        for one in (learner, fitted)
    )  # (K + 1,) each
    assert bool((best <= own + REFERENCE).all())
    assert float(best[1]) < float(best[0]) / 1.2
    asked = with_queries(prompt)
    assert il.predict(fitted, asked).shape == asked.prediction_shape


def test_without_a_head_the_layers_are_read_by_fitted_readouts_only() -> None:
    learner, prompt = il.wrap(Descent(), layers="body.h"), drawn(100)
    same(il.predict(learner, prompt), il.predict(REFERENCE_DESCENT, prompt))
    with pytest.raises(NotSupportedError, match="fit_readouts"):
        il.trajectory(learner, prompt)
    fitted = il.analysis.fit_readouts(learner, prompt)
    assert il.trajectory(fitted, prompt).steps == STEPS


def test_type_flags_and_gradients_are_the_modules_own() -> None:
    module = Mixer(masked=True).float().train()
    module.block.eval()
    learner = il.wrap(module, layers=[module.block], head=module.outward)
    prompt = drawn()
    answers = il.trajectory(learner, prompt).predictions
    assert answers.dtype == torch.float64
    assert not answers.requires_grad
    assert module.training
    assert not module.block.training
    assert not module.block._forward_hooks
    with torch.no_grad():
        own = module(interleave(prompt).float())[:, ::2]  # (B, n, 1)
    torch.testing.assert_close(answers[-1], own.double())


def test_flags_are_put_back_after_a_failure() -> None:
    module = Mixer(width=DIMS + 1, masked=True).train()
    with pytest.raises(InnerloopError, match="failed on tokens"):
        il.predict(il.wrap(module, layers="block"), drawn())
    assert module.training
    assert not module.block._forward_hooks


@pytest.mark.parametrize("causal", [None, False])
@pytest.mark.parametrize("form", ["interleave", "concat"])
def test_what_looks_ahead_is_run_on_every_prefix(causal: bool | None, form: Any) -> None:
    module = Mixer(DIMS + (form == "concat"), masked=False)
    learner = il.wrap(module, prompts=form, causal=causal)
    for prompt in (drawn(), with_queries(drawn())):
        answers = il.predict(learner, prompt).reshape(prompt.batch, POINTS, -1)  # (B, n, q)
        for i in range(POINTS):
            for j in range(answers.shape[2]):
                xs = torch.cat([prompt.xs[:, :i], prompt.asked[:, i, j][:, None]], dim=1)
                ys = torch.cat([prompt.ys[:, :i], torch.zeros_like(prompt.ys[:, :1])], dim=1)
                part = il.Prompt(xs=xs, ys=ys)
                tokens = FORMS[form].make(part)  # (B, T, ..)
                same(answers[:, i, j], module(tokens)[:, -1, 0].detach())


def test_one_pass_serves_what_looks_back() -> None:
    module, calls = Mixer(masked=True), []
    module.register_forward_hook(lambda *_: calls.append(1))
    learner = il.wrap(module)
    il.predict(learner, drawn())
    assert len(calls) == 3  # two to find out whether it looks ahead, one for the answer
    il.predict(learner, drawn())
    assert len(calls) == 4


def test_a_readout_of_zeros_says_nothing_about_looking_ahead() -> None:
    module = Mixer(masked=False)
    weight = module.outward.weight.detach().clone()
    nn.init.zeros_(module.outward.weight)
    learner, prompt = il.wrap(module), drawn()
    il.predict(learner, prompt)
    with torch.no_grad():
        module.outward.weight.copy_(weight)
    same(il.predict(learner, prompt), il.predict(il.wrap(module, causal=False), prompt))


def test_probes_of_what_looks_ahead() -> None:
    module, prompt = Mixer(masked=False), drawn(40)
    ridge = il.analysis.RidgeSettings()
    with pytest.raises(NotSupportedError, match="causal=False"):
        il.analysis.probe(
            il.wrap(module, layers="block"), prompt, il.analysis.moment, settings=ridge
        )
    known = il.wrap(module, layers="block", causal=False)
    errors = il.analysis.probe(known, prompt, il.analysis.moment, settings=ridge).errors
    assert errors.values.shape == (10, 2, 1)


def test_a_layer_in_a_loop_is_one_step_per_loop() -> None:
    class Looped(Descent):
        def forward(self, tokens: Tensor) -> Tensor:
            hidden = torch.cat([tokens, torch.zeros_like(tokens)], dim=2)
            for _ in range(6):
                hidden = self.body["h"][0](hidden)  # pyright: ignore
            return self.sum(self.products(hidden))

    head = ["products", "sum"]
    learner = il.wrap(Looped(), layers="body.h.0", head=head, steps=6)
    prompt = drawn()
    same(
        il.trajectory(learner, prompt).predictions,
        il.trajectory(il.learners.GradientDescent(6, step_size=RATE), prompt).predictions,
    )
    with pytest.raises(ConfigurationError, match="ran 6 times, expected 1"):
        il.predict(il.wrap(Looped(), layers="body.h.0", head=head), prompt)


def test_functions_with_arguments_of_their_own() -> None:
    def ridge(xs: Tensor, ys: Tensor) -> Tensor:
        return il.predict(il.learners.Ridge(0.5), il.Prompt(xs=xs, ys=ys))

    learner = il.wrap(ridge, prompts=lambda prompt: (prompt.xs, prompt.ys))
    assert learner.name == "ridge"
    for prompt in (drawn(), with_queries(drawn())):
        same(il.predict(learner, prompt), il.predict(il.learners.Ridge(0.5), prompt))


def test_a_plain_function_runs_in_the_type_of_its_layers() -> None:
    module = Mixer(masked=True).float()
    learner = il.wrap(lambda tokens: module(tokens), layers=[module.block], head=module.outward)
    assert il.trajectory(learner, drawn()).predictions.dtype == torch.float64


def test_tokens_before_the_first_x_are_named() -> None:
    module = Mixer(masked=True, start=True)
    with pytest.raises(InnerloopError, match="expected one answer per token"):
        il.predict(il.wrap(module), drawn())
    settings: dict[str, Any] = {"layers": "block", "head": "outward"}
    learner = il.wrap(module, x_tokens=lambda n: range(1, 2 * n, 2), **settings)
    prompt = drawn()
    own = module(interleave(prompt))[:, 1::2].detach()  # (B, n, 1)
    same(il.predict(learner, prompt), own)
    # The start token is there at every step: prefix 0 is answered from it and x_0.
    places = learner.hidden_states.input_tokens(prompt)
    assert list(places) == list(range(1, 2 * POINTS, 2))


def test_outputs_that_are_not_predictions_are_read() -> None:
    module = nn.Linear(DIMS, 5).double()  # five classes, whose values are -2 .. 2
    values = torch.arange(-2.0, 3.0, dtype=torch.float64)[:, None]  # (5, 1)
    prompt = drawn()
    with pytest.raises(InnerloopError, match=r"give il\.wrap a function read="):
        il.predict(il.wrap(module), prompt)
    learner = il.wrap(module, read=lambda logits: logits.softmax(-1) @ values)
    same(il.predict(learner, prompt), module(prompt.xs).softmax(-1).detach() @ values)


class Returning(nn.Module):
    """A module that returns its answers in some container, as many do."""

    def __init__(self, pack: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.inner, self.pack = Mixer(masked=True), pack

    def forward(self, tokens: Tensor) -> Any:
        return self.pack(self.inner(tokens))


@pytest.mark.parametrize(
    "pack",
    [
        lambda answers: (answers, None),
        lambda answers: {"logits": answers, "cache": ()},
        lambda answers: answers[..., 0],
        lambda answers: answers[:, ::2],
        lambda answers: answers[:, ::2, 0],
    ],
    ids=["tuple", "dictionary", "no last axis", "at the xs", "at the xs, no last axis"],
)
def test_answers_in_many_forms(pack: Callable[[Tensor], Any]) -> None:
    torch.manual_seed(0)
    module = Returning(pack)
    prompt = drawn()
    same(il.predict(il.wrap(module), prompt), il.predict(il.wrap(module.inner), prompt))


def test_several_outputs_and_streams() -> None:
    prompt = drawn()
    both = replace(prompt, ys=torch.cat([prompt.ys, -prompt.ys], dim=2), truth={})
    module = nn.Linear(DIMS, 2).double()
    same(il.predict(il.wrap(module), both), module(prompt.xs).detach())
    stream = il.Prompt(xs=prompt.xs[:, :-1], ys=prompt.xs[:, 1:], layout="stream")
    module = nn.Linear(DIMS, DIMS).double()
    same(il.predict(il.wrap(module), stream), module(stream.xs).detach())


def test_a_device_is_where_the_module_goes() -> None:
    module = Mixer(masked=True)
    learner = il.wrap(module, device="meta")
    assert all(each.device.type == "meta" for each in module.parameters())
    assert learner.name == "Mixer"


def test_memory_stays_bounded() -> None:
    prompt, learner = with_queries(drawn()), wrapped()
    whole = il.predict(learner, prompt)
    with budget(1):
        same(il.predict(learner, prompt), whole)


BAD_WRAPS: dict[str, tuple[Callable[[], Any], str]] = {
    "a learner": (lambda: il.wrap(il.learners.OLS()), "is a learner already"),  # pyright: ignore
    "a class": (lambda: il.wrap(Descent), "make one first, Descent()"),
    "a string": (lambda: il.wrap("gpt2"), "expected an nn.Module or a function"),  # pyright: ignore
    "an unknown layer": (lambda: il.wrap(Descent(), layers="body.g"), "did you mean 'body.h'?"),
    "a name inside a function": (lambda: il.wrap(torch.relu, layers="h"), "the module itself"),
    "no layers": (lambda: il.wrap(Descent(), layers=[]), "layers is empty"),
    "a function as a layer": (
        lambda: il.wrap(Descent(), layers=[torch.relu]),  # pyright: ignore
        "layers hold a builtin_function_or_method",
    ),
    "a number as a layer": (lambda: il.wrap(Descent(), layers=[3]), "3 is no part"),  # pyright: ignore
    "a head without layers": (lambda: il.wrap(Descent(), head="sum"), "name these, too"),
    "steps without layers": (lambda: il.wrap(Descent(), steps=3), "name these, too"),
    "no steps": (lambda: il.wrap(Descent(), layers="body.h", steps=0), "steps is 0"),
    "an unknown form": (lambda: il.wrap(Descent(), prompts="interleaved"), "'interleave'?"),  # pyright: ignore
    "a number for a form": (lambda: il.wrap(Descent(), prompts=2), "prompts is a int"),  # pyright: ignore
    "places as a list": (lambda: il.wrap(Descent(), x_tokens=[0, 2]), "x_tokens is a list"),  # pyright: ignore
    "a form that shows answers": (
        lambda: il.wrap(Descent(), prompts="concat", causal=True), "leave causal out",
    ),
    "half a head": (
        lambda: il.predict(
            il.wrap(Mixer(masked=True), layers="block", head=lambda h: h[..., :1]), drawn()
        ),
        "name all that comes after the layers",
    ),
    "layers of different widths": (
        lambda: il.predict(il.wrap(Mixer(masked=True), layers=["inward", "block"]), drawn()),
        "name layers of one width",
    ),
    "places that are not there": (
        lambda: il.predict(il.wrap(Mixer(masked=True), x_tokens=lambda n: range(n + 90)), drawn()),
        "98 places",
    ),
    "tokens that are no tensor": (
        lambda: il.predict(il.wrap(Descent(), prompts=lambda p: p), drawn()),  # pyright: ignore
        "prompts= returned a Prompt",
    ),
    "hidden states of a black box": (
        lambda: il.wrap(Descent()).hidden_states, "name them in il.wrap",
    ),
    "a module that returns nothing": (
        lambda: il.predict(il.wrap(lambda tokens: None), drawn()), "returns NoneType",
    ),
}  # fmt: skip


@pytest.mark.parametrize("mistake", BAD_WRAPS)
def test_mistakes_are_one_sentence(mistake: str) -> None:
    make, sentence = BAD_WRAPS[mistake]
    with pytest.raises(InnerloopError) as raised:
        make()
    text = str(raised.value)
    assert sentence in text
    assert "\n" not in text
    assert text[-1] in ".?"
