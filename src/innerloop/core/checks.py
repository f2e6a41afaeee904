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

from innerloop.core.errors import ConfigurationError, ContractViolation, NotSupportedError, unknown
from innerloop.core.iterate import iterate, predict, trajectory
from innerloop.core.learner import Learner
from innerloop.core.named_prompts import Setting, WatchedTruth, named_prompts
from innerloop.core.prompt import Layout, Prompt
from innerloop.core.tolerances import CONTRACT

AnyLearner = Learner[Any]


def check_shape_and_dtype(learner: AnyLearner, setting: Setting) -> None:
    """Predictions have the prompt's shape, dtype and device, in float32 and in float64."""
    for dtype in (torch.float32, torch.float64):
        prompt = named_prompts(setting)["plain"].to(dtype=dtype)
        asked = prompt.ask(_queries(prompt, setting))
        # A learner that is not causal never meets queries itself: prefixes are expanded first.
        straight = (prompt, asked) if learner.traits.causal else (prompt,)
        answers = [(_raw(learner, question), question) for question in straight]
        answers += [(predict(learner, question), question) for question in (prompt, asked)]
        for answer, question in answers:
            if tuple(answer.shape) != question.prediction_shape:
                raise ContractViolation(
                    f"{learner.name} answers with shape {tuple(answer.shape)}, expected "
                    f"{question.prediction_shape}."
                )
            if answer.dtype != dtype or answer.device != prompt.xs.device:
                raise ContractViolation(
                    f"{learner.name} answers a {dtype} prompt in {answer.dtype} on {answer.device}."
                )


def check_finite(learner: AnyLearner, setting: Setting) -> None:
    """All predictions, after every step, are finite on every named prompt, prefix 0 included."""
    for name, prompt in named_prompts(setting).items():
        for asked in (prompt, prompt.ask(_queries(prompt, setting))):
            answers = trajectory(learner, asked).predictions  # (K + 1, B, n[, q], k)
            if not bool(torch.isfinite(answers).all()):
                raise ContractViolation(f"{learner.name} is not finite on {name!r}.")


def check_no_peeking(learner: AnyLearner, setting: Setting) -> None:
    """The prediction at i, after any step, does not move when y_i and all after it is changed."""
    prompt = named_prompts(setting)["plain"]
    answer = trajectory(learner, prompt).predictions  # (K + 1, B, n, k)
    for i in range(prompt.points):
        moved = trajectory(learner, _changed_from(prompt, i, setting)).predictions
        seen = slice(0, i + 1)
        _same(moved[:, :, seen], answer[:, :, seen], setting, learner, f"peeks beyond point {i}")


def check_batch_independence(learner: AnyLearner, setting: Setting) -> None:
    """A prompt alone, and in another place of the batch, gets the same predictions."""
    for name in ("plain", "collinear inputs"):
        prompt = named_prompts(setting)[name]
        answer = predict(learner, prompt)  # (B, n, k)
        backwards = torch.arange(prompt.batch - 1, -1, -1)
        moved = predict(learner, prompt.select(backwards))[backwards]  # (B, n, k)
        _same(moved, answer, setting, learner, "depends on a prompt's place in the batch")
        for b in range(prompt.batch):
            alone = predict(learner, prompt.select(slice(b, b + 1)))  # (1, n, k)
            _same(alone, answer[b : b + 1], setting, learner, "depends on the rest of the batch")


def check_inputs_unmodified(learner: AnyLearner, setting: Setting) -> None:
    """The prompt's tensors are the same, bit for bit, after the learner has run."""
    plain = named_prompts(setting)["plain"]
    for prompt in (plain, plain.ask(_queries(plain, setting))):
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
        _same(answer, answers[0], setting, learner, "reads the truth")


def check_deterministic(learner: AnyLearner, setting: Setting) -> None:
    """Twice the same question, twice the same answer; torch's global generator is not touched."""
    prompt = named_prompts(setting)["plain"]
    before = torch.get_rng_state()
    first, second = predict(learner, prompt), predict(learner, prompt)
    if not torch.equal(torch.get_rng_state(), before):
        raise ContractViolation(f"{learner.name} draws from the global random generator.")
    _same(second, first, setting, learner, "answers differently the second time")


def check_resumable(learner: AnyLearner, setting: Setting) -> None:
    """Some steps and then more equal all at once; earlier states are left as they were."""
    prompt = _first_question(named_prompts(setting)["plain"], learner)
    total = learner.steps + 2
    straight: list[Tensor] = []
    states: list[Any] = []
    for state in iterate(learner, prompt, steps=total):
        straight.append(learner.read(prompt, state).clone())
        states.append(state)
    for state, answer in zip(states, straight, strict=True):
        _same(
            learner.read(prompt, state), answer, setting, learner,
            "changes a state that it has given out",
        )  # fmt: skip
    half = states[total // 2]
    for k in range(total // 2, total):
        half = learner.step(prompt, half, k)
        _same(
            learner.read(prompt, half), straight[k + 1], setting, learner,
            "goes on differently from a state that it was in before",
        )  # fmt: skip


def check_queries(learner: AnyLearner, setting: Setting) -> None:
    """All queries in one pass equal one query at a time, put in the place of x_i."""
    prompt = named_prompts(setting)["plain"]
    queries = _queries(prompt, setting)  # (B, n, q, d)
    together = predict(learner, prompt.ask(queries))  # (B, n, q, k)
    for i in range(prompt.points):
        for j in range(queries.shape[2]):
            xs = prompt.xs.clone()
            xs[:, i] = queries[:, i, j]
            alone = predict(learner, replace(prompt, xs=xs, truth={}))[:, i]  # (B, k)
            _same(together[:, i, j], alone, setting, learner, f"misanswers queries at point {i}")


def check_weights(learner: AnyLearner, setting: Setting) -> None:
    """Where a learner gives weights, its predictions are x . w, of any state, also at queries."""
    prompt = named_prompts(setting)["plain"]
    prompt = prompt.ask(_queries(prompt, setting))
    states = list(iterate(learner, prompt))
    try:
        given = [learner.weights(prompt, state) for state in (*states, None)]  # (B, n, d, k) each
    except NotSupportedError:
        return
    for weights, state in zip(given, (*states, states[-1]), strict=True):
        if weights.dtype != torch.float64:
            raise ContractViolation(f"{learner.name} gives weights in {weights.dtype}.")
        answer = prompt.asked.double() @ weights  # (B, n, q, k)
        read = learner.read(prompt, state).double()  # (B, n, q, k)
        _same(read, answer, setting, learner, "contradicts its weights")


def check_moving(learner: AnyLearner, setting: Setting) -> None:
    """A state moved by hand to where another stands is that other state, for `read` and `step`."""
    prompt = _first_question(named_prompts(setting)["plain"], learner)
    _, one, two = iterate(learner, prompt, steps=2)
    try:
        before, moving = learner.moving(one).clone(), learner.moving(two).clone()  # (B, ...) each
    except NotSupportedError:
        return
    if moving.shape[0] != prompt.batch:
        raise ContractViolation(f"{learner.name} has a moving part that is not batch first.")
    try:
        moved = learner.with_moving(one, moving)
    except NotSupportedError:
        return
    _same(learner.moving(one), before, setting, learner, "changes a state by moving it")
    further = learner.step(prompt, moved, 2), learner.step(prompt, two, 2)
    for this, that in ((moved, two), further):
        _same(
            learner.read(prompt, this), learner.read(prompt, that), setting, learner,
            "is not where it was moved to",
        )  # fmt: skip


def check_causal(learner: AnyLearner, setting: Setting) -> None:
    """Causal: `read` does not peek without being run on expanded prefixes; not causal: it does."""
    prompt = named_prompts(setting)["plain"]
    worst = 0.0
    for i in range(prompt.points):
        changed = _changed_from(prompt, i, setting)
        worst = max(worst, _distance(_raw(learner, changed)[:, i], _raw(learner, prompt)[:, i]))
    _trait(learner, setting, "causal", learner.traits.causal, worst)


def check_order(learner: AnyLearner, setting: Setting) -> None:
    """Examples in reverse: the prediction at the last point stays, or moves if not promised."""
    if setting.layout == "stream":
        return  # The order of a stream is what it says.
    prompt = named_prompts(setting)["plain"]
    order = torch.arange(prompt.points)  # (n,)
    order[:-1] = order[:-1].flip(0)
    other = replace(prompt, xs=prompt.xs[:, order], ys=prompt.ys[:, order])
    distance = _distance(predict(learner, other)[:, -1], predict(learner, prompt)[:, -1])
    _trait(learner, setting, "order_invariant", learner.traits.order_invariant, distance)


def check_rotation(learner: AnyLearner, setting: Setting) -> None:
    """Inputs rotated by one orthogonal matrix: the predictions stay, or move if not promised."""
    if setting.layout == "stream":
        return  # A stream's outputs are its inputs: they turn with them.
    prompt = named_prompts(setting)["plain"]
    square = setting.normal(setting.generator(purpose=4), prompt.dims, prompt.dims).double()
    rotation = torch.linalg.qr(square).Q.to(prompt.xs.dtype)  # (d, d)
    other = replace(prompt, xs=prompt.xs @ rotation, truth={})
    distance = _distance(predict(learner, other), predict(learner, prompt))
    promised = learner.traits.rotation_equivariant
    if promised or setting.dims > 1:  # a line has no rotations to be refuted by
        _trait(learner, setting, "rotation_equivariant", promised, distance)


def check_linearity(learner: AnyLearner, setting: Setting) -> None:
    """The answer to y + 2 z is the answer to y plus twice that to z, or is not if not promised."""
    if setting.layout == "stream":
        return  # A stream's outputs are inputs as well.
    prompt = named_prompts(setting)["plain"]
    z = setting.normal(setting.generator(purpose=3), *prompt.ys.shape)  # (B, n, k)
    answer, other, mixed = (
        predict(learner, replace(prompt, ys=ys)) for ys in (prompt.ys, z, prompt.ys + 2 * z)
    )
    distance = _distance(mixed, answer + 2 * other)
    _trait(learner, setting, "linear_in_y", learner.traits.linear_in_y, distance)


CHECKS: dict[str, Callable[[AnyLearner, Setting], None]] = {
    "shape_and_dtype": check_shape_and_dtype,
    "finite": check_finite,
    "no_peeking": check_no_peeking,
    "batch_independence": check_batch_independence,
    "inputs_unmodified": check_inputs_unmodified,
    "truth_unread": check_truth_unread,
    "deterministic": check_deterministic,
    "resumable": check_resumable,
    "queries": check_queries,
    "weights": check_weights,
    "moving": check_moving,
    "causal": check_causal,
    "order": check_order,
    "rotation": check_rotation,
    "linearity": check_linearity,
}
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
    seed: int = 0,
    waived: Mapping[str, str] | None = None,
) -> None:
    """Hold a learner to the whole contract; raise ContractViolation at the first breach.

    Sizes are for learners that were made for particular ones (a trained model). `waived` maps the
    name of a check that cannot hold to the reason; a waiver that is not needed is a breach, too.
    """
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
    if tolerance is None and dtype not in CONTRACT:
        raise ConfigurationError(f"there is no tolerance for {dtype}: give one.")
    settings = [
        Setting(
            dims=dims, points=points, outputs=number, layout=layout, dtype=dtype, seed=seed,
            tolerance=tolerance,
        )
        for number in outputs
    ]  # fmt: skip
    for name, check in CHECKS.items():
        if name not in waivers:
            for setting in settings:
                check(learner, setting)
        elif all(_passes(check, learner, setting) for setting in settings):
            raise ContractViolation(f"{learner.name} passes {name!r}: its waiver is not needed.")


def _passes(
    check: Callable[[AnyLearner, Setting], None], learner: AnyLearner, setting: Setting
) -> bool:
    try:
        check(learner, setting)
    except Exception:
        return False  # a check that cannot even be carried out is not passed, either
    return True


def _queries(prompt: Prompt, setting: Setting) -> Tensor:
    shape = (prompt.batch, prompt.points, 2, prompt.dims)
    return setting.normal(setting.generator(purpose=1), *shape).to(prompt.xs.dtype)  # (B, n, 2, d)


def _changed_from(prompt: Prompt, i: int, setting: Setting) -> Prompt:
    """The prompt with y_i and all points after i changed beyond recognition."""
    generator = setting.generator(purpose=5)
    xs, ys = prompt.xs.clone(), prompt.ys.clone()
    ys[:, i:] = 5 * setting.normal(generator, *ys[:, i:].shape) - 3 * ys[:, i:]
    if prompt.layout == "stream":
        xs[:, i + 1 :] = ys[:, i:-1]
    else:
        xs[:, i + 1 :] = 5 * setting.normal(generator, *xs[:, i + 1 :].shape) - 3 * xs[:, i + 1 :]
    return replace(prompt, xs=xs, ys=ys, truth={})


def _first_question(prompt: Prompt, learner: AnyLearner) -> Prompt:
    """The prompt as the learner's own functions take it; one that is not causal must not peek."""
    if learner.traits.causal:
        return prompt
    ys = prompt.ys.clone()
    ys[:, -1] = 0
    return replace(prompt, ys=ys)


def _raw(learner: AnyLearner, prompt: Prompt) -> Tensor:
    """Predictions straight from init, step and read, without expanded prefixes."""
    *_, state = iterate(learner, prompt)
    return learner.read(prompt, state)


def _distance(one: Tensor, other: Tensor) -> float:
    """The largest difference over max(1, the largest value); infinite where values are NaN."""
    difference = (one.detach() - other.detach()).abs().max()
    relative = difference / other.detach().abs().max().clamp(min=1)
    return float(torch.nan_to_num(relative, nan=torch.inf))


def _same(
    one: Tensor, other: Tensor, setting: Setting, learner: AnyLearner, complaint: str
) -> None:
    distance = _distance(one, other)
    if distance > setting.allowed:
        raise ContractViolation(
            f"{learner.name} {complaint}: predictions differ by {distance:.1e}, "
            f"allowed {setting.allowed:.0e}."
        )


def _trait(
    learner: AnyLearner, setting: Setting, trait: str, promised: bool, distance: float
) -> None:
    if promised and distance > setting.allowed:
        raise ContractViolation(
            f"{learner.name} promises to be {trait}, but its predictions move by {distance:.1e}."
        )
    if not promised and distance <= setting.allowed:
        raise ContractViolation(
            f"{learner.name} is {trait} on the plain prompt without saying so: declare the trait."
        )
