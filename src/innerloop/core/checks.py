"""The public contract: what holds of every learner, model and circuit.

`check_learner(learner)` runs every check; each is a function of its own that raises
`ContractViolation` with one sentence. A check that cannot hold for a learner is waived by the
caller, with a reason; no check looks at names.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from innerloop.core.arguments import expect_count
from innerloop.core.check_tools import (
    AnyLearner,
    changed_from,
    first_question,
    queries,
    same,
)
from innerloop.core.errors import (
    AnswerShapeError,
    ConfigurationError,
    ContractViolation,
    IgnoredQueriesError,
    NotSupportedError,
    unknown,
)
from innerloop.core.expects import expect_learner
from innerloop.core.iterate import iterate, predict, read_checked, trajectory
from innerloop.core.named_prompts import Setting, WatchedTruth, named_prompts
from innerloop.core.prompt import Layout, Prompt
from innerloop.core.tolerances import CONTRACT
from innerloop.core.trait_checks import (
    check_causal,
    check_linearity,
    check_order,
    check_rotation,
)

DEGENERATE = ("plain", "collinear inputs", "constant inputs")
"""Where a learner might take another way, and that way might peek or misread a query."""


def check_shape_and_dtype(learner: AnyLearner, setting: Setting) -> None:
    """Predictions have the prompt's shape, dtype and device, in float32 and in float64."""
    for dtype in (torch.float32, torch.float64):
        prompt = named_prompts(setting)["plain"].to(dtype=dtype)
        asked = prompt.ask(queries(prompt, setting))
        # A learner that is not causal never meets queries itself: prefixes are expanded first.
        straight = (prompt, asked) if learner.traits.causal else (prompt,)
        try:
            answers = [_straight(learner, question) for question in straight]
            answers += [predict(learner, question) for question in (prompt, asked)]
        except AnswerShapeError as error:
            raise ContractViolation(str(error)) from error
        for answer in answers:
            if answer.dtype != dtype or answer.device != prompt.xs.device:
                raise ContractViolation(
                    f"{learner.name} answers a {dtype} prompt in {answer.dtype} on {answer.device}."
                )


def _straight(learner: AnyLearner, question: Prompt) -> Tensor:
    """The learner's own answer, at the queries or, where it ignores them, at the xs."""
    *_, state = iterate(learner, question)
    try:
        return read_checked(learner, question, state)
    except IgnoredQueriesError:  # prefixes are expanded for it
        return read_checked(learner, question.ask(None), state)


def check_finite(learner: AnyLearner, setting: Setting) -> None:
    """All predictions, after every step, are finite on every named prompt, prefix 0 included."""
    for name, prompt in named_prompts(setting).items():
        for asked in (prompt, prompt.ask(queries(prompt, setting))):
            answers = trajectory(learner, asked).predictions  # (K + 1, B, n[, q], k)
            if not bool(torch.isfinite(answers).all()):
                raise ContractViolation(f"{learner.name} is not finite on {name!r}.")


def check_no_peeking(learner: AnyLearner, setting: Setting) -> None:
    """The prediction at i, after any step, does not move when y_i and all after it is changed."""
    for name in DEGENERATE:
        prompt = named_prompts(setting)[name]
        answer = trajectory(learner, prompt).predictions  # (K + 1, B, n, k)
        for i in range(prompt.points):
            moved = trajectory(learner, changed_from(prompt, i, setting)).predictions
            seen = slice(0, i + 1)
            complaint = f"peeks beyond point {i} on {name!r}"
            same(moved[:, :, seen], answer[:, :, seen], setting, learner, complaint)


def check_batch_independence(learner: AnyLearner, setting: Setting) -> None:
    """A prompt alone, and in another place of the batch, gets the same predictions."""
    for name in ("plain", "collinear inputs"):
        prompt = named_prompts(setting)[name]
        answer = predict(learner, prompt)  # (B, n, k)
        backwards = torch.arange(prompt.batch - 1, -1, -1)
        moved = predict(learner, prompt.select(backwards))[backwards]  # (B, n, k)
        same(moved, answer, setting, learner, "depends on a prompt's place in the batch")
        for b in range(prompt.batch):
            alone = predict(learner, prompt.select(slice(b, b + 1)))  # (1, n, k)
            same(alone, answer[b : b + 1], setting, learner, "depends on the rest of the batch")


def check_inputs_unmodified(learner: AnyLearner, setting: Setting) -> None:
    """The prompt's tensors are the same, bit for bit, after the learner has run."""
    plain = named_prompts(setting)["plain"]
    for prompt in (plain, plain.ask(queries(plain, setting))):
        tensors = {"xs": prompt.xs, "ys": prompt.ys, "queries": prompt.asked}
        before = {name: value.clone() for name, value in tensors.items()}
        predict(learner, prompt)
        for name, value in before.items():
            if not torch.equal(tensors[name], value):
                raise ContractViolation(f"{learner.name} changes the prompt's {name}.")


def check_truth_unread(learner: AnyLearner, setting: Setting) -> None:
    """No key of `prompt.truth` is looked up, and it makes no difference, true, false or absent."""
    prompt = named_prompts(setting)["plain"]
    shape = (prompt.batch, prompt.dims, prompt.outputs)
    true_w = setting.normal(setting.generator(purpose=2), *shape)  # (B, d, k)
    watched = WatchedTruth({"w": true_w})
    names = ("w", "A", "noise", "features", "query_ys")
    answers = [
        predict(learner, replace(prompt, truth=truth))
        for truth in (watched, {}, {name: -3 * true_w for name in names})
    ]
    if watched.looked_up:
        raise ContractViolation(f"{learner.name} reads the truth: {watched.looked_up[0]!r}.")
    for answer in answers[1:]:
        same(answer, answers[0], setting, learner, "reads the truth")


def check_deterministic(learner: AnyLearner, setting: Setting) -> None:
    """Twice the same question, twice the same answer; torch's global generator is not touched."""
    prompt = named_prompts(setting)["plain"]
    before = torch.get_rng_state()
    first, second = predict(learner, prompt), predict(learner, prompt)
    if not torch.equal(torch.get_rng_state(), before):
        raise ContractViolation(f"{learner.name} draws from the global random generator.")
    same(second, first, setting, learner, "answers differently the second time")


def check_resumable(learner: AnyLearner, setting: Setting) -> None:
    """Some steps and then more equal all at once; earlier states are left as they were."""
    prompt = first_question(named_prompts(setting)["plain"], learner)
    total = learner.steps + 2
    straight: list[Tensor] = []
    states: list[Any] = []
    for state in iterate(learner, prompt, steps=total):
        straight.append(learner.read(prompt, state).clone())
        states.append(state)
    for state, answer in zip(states, straight, strict=True):
        same(
            learner.read(prompt, state), answer, setting, learner,
            "changes a state that it has given out",
        )  # fmt: skip
    half = total // 2
    again = iterate(learner, prompt, steps=total - half, start=(states[half], half))
    for state, answer in zip(again, straight[half:], strict=True):
        same(
            learner.read(prompt, state), answer, setting, learner,
            "goes on differently from a state that it was in before",
        )  # fmt: skip


def check_queries(learner: AnyLearner, setting: Setting) -> None:
    """All queries in one pass equal one query at a time, put in the place of x_i.

    So do those that are asked at the end alone.
    """
    for name in DEGENERATE:
        prompt = named_prompts(setting)[name]
        asked = queries(prompt, setting)  # (B, n, q, d)
        together = predict(learner, prompt.ask(asked))  # (B, n, q, k)
        complaint = f"answers queries on {name!r} otherwise than one at a time"
        for i in range(prompt.points):
            for j in range(asked.shape[2]):
                xs = prompt.xs.clone()
                xs[:, i] = asked[:, i, j]
                alone = predict(learner, replace(prompt, xs=xs, truth={}))[:, i]  # (B, k)
                same(together[:, i, j], alone, setting, learner, complaint)
        at_end = predict(learner, prompt.ask(asked[:, -1:]))  # (B, 1, q, k)
        same(at_end, together[:, -1:], setting, learner, f"{complaint}, at the end")


def check_weights(learner: AnyLearner, setting: Setting) -> None:
    """Where a learner gives weights, its predictions are x . w, of any state, also at queries."""
    prompt = first_question(named_prompts(setting)["plain"], learner)
    if learner.traits.causal:
        prompt = prompt.ask(queries(prompt, setting))
    states = list(iterate(learner, prompt))
    try:
        given = [learner.weights(prompt, state) for state in (*states, None)]  # (B, n, d, k) each
    except NotSupportedError:
        return
    for weights, state in zip(given, (*states, states[-1]), strict=True):
        if weights.dtype != torch.float64:
            raise ContractViolation(f"{learner.name} gives weights in {weights.dtype}.")
        answer = prompt.asked.double() @ weights  # (B, n, q, k)
        read = learner.read(prompt, state).double()  # (B, n, q, k), or (B, n, k)
        same(read.reshape(answer.shape), answer, setting, learner, "contradicts its weights")


def check_moving(learner: AnyLearner, setting: Setting) -> None:
    """A state given the moving part of another is that other state, for `read` and `step`."""
    prompt = first_question(named_prompts(setting)["plain"], learner)
    _, one, two = iterate(learner, prompt, steps=2)
    try:
        part = learner.moving
    except NotSupportedError:
        return
    before, moving = part.get(one).clone(), part.get(two).clone()  # (B, ...) each
    if moving.shape[0] != prompt.batch:
        raise ContractViolation(f"{learner.name} has a moving part that is not batch first.")
    if part.replace is None:
        return
    moved = part.put(one, moving)
    same(part.get(one), before, setting, learner, "changes a state by moving it")
    further = learner.step(prompt, moved, 2), learner.step(prompt, two, 2)
    for this, that in ((moved, two), further):
        same(
            learner.read(prompt, this), learner.read(prompt, that), setting, learner,
            "is not where it was moved to",
        )  # fmt: skip


CHECKS: dict[str, Callable[[AnyLearner, Setting], None]] = {
    check.__name__.removeprefix("check_"): check
    for check in (
        check_shape_and_dtype, check_finite, check_no_peeking, check_batch_independence,
        check_inputs_unmodified, check_truth_unread, check_deterministic, check_resumable,
        check_queries, check_weights, check_moving, check_causal, check_order, check_rotation,
        check_linearity,
    )
}  # fmt: skip
"""Every check of the contract, by name."""


@torch.no_grad()
def check_learner(
    learner: AnyLearner,
    *,
    dims: int = 3,
    points: int = 8,
    outputs: tuple[int, ...] = (1, 2),
    layout: Layout = "pairs",
    dtype: torch.dtype = torch.float64,
    tolerance: float | None = None,
    scale: float = 1.0,
    seed: int = 0,
    waived: Mapping[str, str] | None = None,
) -> None:
    """Hold a learner to the whole contract; raise ContractViolation at the first breach.

    Answers may differ by the rounding of the coarser type, the prompts' `dtype` or that which the
    learner computes in (`tolerances.CONTRACT`), unless a `tolerance` is given. Sizes are for
    learners that were made for particular ones (a trained model), `scale` for those that take
    inputs and outputs up to a bound (a circuit). `waived` maps the name of a check that cannot hold
    to the reason; a waiver that is not needed is a breach, too.
    """
    expect_learner(learner)
    for size, number in (("dims", dims), ("points", points)):
        expect_count(size, number)
    waivers = dict(waived or {})
    for name, reason in waivers.items():
        if name not in CHECKS:
            raise ConfigurationError(unknown("check", name, CHECKS))
        if not reason.strip():
            raise ConfigurationError(f"the waiver of {name!r} has no reason: give one.")
    if points < dims + 3:
        raise ConfigurationError(f"points is {points}, expected at least dims + 3 = {dims + 3}.")
    if not outputs:
        raise ConfigurationError("outputs is empty, expected at least one number of outputs.")
    if tolerance is None:
        tolerance = _tolerance(
            max(dtype, learner.computes_in, key=lambda one: torch.finfo(one).eps)
        )
    settings = [
        Setting(
            dims=dims, points=points, outputs=number, layout=layout, dtype=dtype, seed=seed,
            allowed=tolerance, scale=scale,
        )
        for number in outputs
    ]  # fmt: skip
    for name, check in CHECKS.items():
        if name not in waivers:
            for setting in settings:
                check(learner, setting)
        elif all(_passes(check, learner, setting) for setting in settings):
            raise ContractViolation(f"{learner.name} passes {name!r}: its waiver is not needed.")


def _tolerance(dtype: torch.dtype) -> float:
    if dtype not in CONTRACT:
        raise ConfigurationError(f"there is no tolerance for {dtype}: give one.")
    return CONTRACT[dtype]


def _passes(
    check: Callable[[AnyLearner, Setting], None], learner: AnyLearner, setting: Setting
) -> bool:
    try:
        check(learner, setting)
    except Exception:
        return False  # a check that cannot even be carried out is not passed, either
    return True
