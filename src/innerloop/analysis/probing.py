"""Probing: what can be decoded from a model's hidden states, after which step, at which tokens.

Akyurek et al. (2022, section 5) and Yang et al. (2024, appendix F). A probe for prefix i may look
at the tokens up to x_i, which is what the prediction at i knows.

Shapes: S steps, p prefixes, P prompts, T tokens, D width, m target numbers.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from innerloop.analysis.intervals import DRAWS, average
from innerloop.analysis.measured import Measured
from innerloop.analysis.probe_features import (
    hidden_states,
    steps_at_once,
    visible_tokens,
    without_questions,
)
from innerloop.analysis.probe_program import ProbeSettings
from innerloop.analysis.probe_ridge import RidgeSettings
from innerloop.core.arguments import expect_function
from innerloop.core.errors import ConfigurationError, NotSupportedError, PromptError
from innerloop.core.expects import expect_learner, expect_prompt
from innerloop.core.learner import Learner
from innerloop.core.prompt import Prompt
from innerloop.learners.ols import OLS
from innerloop.learners.prefix import counts, moments

Target = Callable[[Prompt], Tensor]
"""What a probe is to find: (B, n, m), entry i of the examples before point i."""


def moment(prompt: Prompt) -> Tensor:
    """X'y over the number of examples of each prefix: (B, n, d k) in float64.

    The papers' X'y is this times the number of examples, which is the same for all prompts of a
    prefix: divided by it, prefixes can be compared and averaged.
    """
    number = counts(prompt).clamp(min=1)[:, None, None]  # (n, 1, 1)
    return (moments(prompt) / number).flatten(2)


def least_squares(prompt: Prompt) -> Tensor:
    """The weights of ordinary least squares, of minimum norm, of each prefix: (B, n, d k)."""
    return OLS().weights(prompt).flatten(2)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Probing:
    """What probes decode: squared errors over d on each prompt, by step and number of examples."""

    errors: Measured
    """On held-out prompts."""
    training: Measured
    """On the prompts that they were trained on: far lower, and these were too few."""
    control: Measured | None
    """Of probes trained on the control's prompts, on the same held-out prompts."""
    control_training: Measured | None
    """Of these on the control's prompts."""
    variances: Tensor
    """(p,): the variance of a target number over the held-out prompts, over d as errors are."""
    attention: Tensor
    """(S, p, T), adding up to 1: how trained probes weigh the tokens, averaged over the held-out
    prompts; for ridge probes what each token contributes (`RidgeProbes.evaluate`)."""

    @property
    def relative(self) -> Measured:
        """Errors over the target's variance; 1 is to know its mean and nothing else."""
        return self.errors / self.variances

    def table(self, *, draws: int = DRAWS) -> pd.DataFrame:
        """One row per step and number of examples: the columns of `errors.table()`, and more.

        relative, training, token (the one most attended to), weight (of it), and control, control
        low, control high where there is a control.
        """
        weight, token = self.attention.max(dim=2)  # (S, p) each
        columns = {
            "relative": average(self.relative.values),
            "training": average(self.training.values),
            "token": token,
            "weight": weight,
        }  # (S, p) each
        if self.control is not None:
            interval = self.control.interval(draws=draws)
            columns |= {"control": interval.value}
            columns |= {"control low": interval.low, "control high": interval.high}
        table = self.errors.table(draws=draws)
        return table.assign(**{name: column.flatten().tolist() for name, column in columns.items()})


def probe(
    learner: Learner[Any],
    prompts: Prompt,
    target: Target,
    *,
    held_out: Prompt | None = None,
    control: Prompt | None = None,
    at_steps: Sequence[int] | None = None,
    at_prefixes: Sequence[int] | None = None,
    axis: str = "step",
    label: str | None = None,
    settings: ProbeSettings | RidgeSettings | None = None,
    seed: int = 0,
) -> Probing:
    """Fit a probe for each step and prefix to find the target in the learner's `features`.

    `settings` choose the kind of probe: `ProbeSettings` (the default) one that is trained to weigh
    the tokens and to map their sum, `RidgeSettings` one that is linear in all tokens and solved in
    closed form. The learner is run and never trained. Errors are those on the held-out prompts: the
    last quarter of the prompts unless others are given. `control` are prompts of a task that needs
    no learning in context (the same task with w fixed to ones): other probes are fitted to them,
    and tested on the same held-out prompts. Steps are all of 0 .. learner.steps unless given,
    prefixes all but the empty one; a learner that is not causal has the last prefix only. `axis`
    names the steps.
    """
    (probing,) = probe_several(
        learner, prompts, {"target": target}, held_out=held_out, control=control,
        at_steps=at_steps, at_prefixes=at_prefixes, axis=axis, label=label, settings=settings,
        seed=seed,
    ).values()  # fmt: skip
    return probing


@torch.no_grad()
def probe_several(
    learner: Learner[Any],
    prompts: Prompt,
    targets: Mapping[str, Target],
    *,
    held_out: Prompt | None = None,
    control: Prompt | None = None,
    at_steps: Sequence[int] | None = None,
    at_prefixes: Sequence[int] | None = None,
    axis: str = "step",
    label: str | None = None,
    settings: ProbeSettings | RidgeSettings | None = None,
    seed: int = 0,
) -> dict[str, Probing]:
    """`probe` for several targets by name: the learner runs once for all of them.

    Ridge probes share their decompositions, too, which take most of their time.
    """
    expect_learner(learner)
    for one in [prompts, *(each for each in (held_out, control) if each is not None)]:
        expect_prompt(one)
    for target in targets.values():
        expect_function("target", target, "of a prompt, such as il.analysis.moment")
    if settings is not None and not isinstance(settings, ProbeSettings | RidgeSettings):
        raise ConfigurationError(
            f"settings is {settings!r}, expected il.analysis.ProbeSettings() or RidgeSettings()."
        )
    if held_out is None:
        if prompts.batch < 2:
            raise PromptError("one prompt cannot be split: give two at least, or held-out prompts.")
        cut = prompts.batch - max(1, prompts.batch // 4)
        prompts, held_out = prompts.select(slice(0, cut)), prompts.select(slice(cut, None))
    steps, prefixes = _places(learner, prompts, at_steps, at_prefixes)
    several = [prompts] if control is None else [prompts, control]
    *several, held_out = (without_questions(learner, one) for one in (*several, held_out))
    kinds = [(one.points, one.dims, one.outputs, one.layout) for one in (*several, held_out)]
    if len(set(kinds)) > 1:
        raise PromptError(
            "probes are trained and tested on prompts of (points, dims, outputs, layout) "
            f"{', '.join(map(str, kinds))}: give the same for all."
        )
    visible = visible_tokens(learner, held_out, prefixes)  # (p, T)
    settings = ProbeSettings() if settings is None else settings

    def measured(errors: Tensor) -> Measured:
        return Measured(
            values=errors.movedim(2, 0) / held_out.dims, axes=(axis, "examples"), scale="log",
            ticks={axis: steps, "examples": prefixes},
            label=learner.name if label is None else label,
        )  # fmt: skip

    def wanted(prompt: Prompt) -> list[Tensor]:
        return [_targets(target, prompt)[:, prefixes] for target in targets.values()]

    answers = wanted(held_out)  # (P', p, m) each
    tested, *controls = (
        _train_and_test(learner, one, wanted(one), held_out, answers, steps, visible, settings,
                        seed)
        for one in several
    )  # fmt: skip
    probings: dict[str, Probing] = {}
    for place, (name, own) in enumerate(zip(targets, answers, strict=True)):
        errors, fitted, attention = tested[place]  # (S, p, P'), (S, p, P), (S, p, T)
        beside = controls[0][place] if controls else None
        variances = own.double().var(dim=0, correction=0).mean(dim=1).cpu()  # (p,)
        probings[name] = Probing(
            errors=measured(errors),
            training=measured(fitted),
            control=None if beside is None else measured(beside[0]),
            control_training=None if beside is None else measured(beside[1]),
            variances=variances / held_out.dims,
            attention=attention,
        )
    return probings


def _train_and_test(
    learner: Learner[Any],
    training: Prompt,
    known: Sequence[Tensor],
    held_out: Prompt,
    wanted: Sequence[Tensor],
    steps: Sequence[int],
    visible: Tensor,
    settings: ProbeSettings | RidgeSettings,
    seed: int,
) -> list[tuple[Tensor, ...]]:
    """Errors (S, p, P') on held-out prompts, (S, p, P) in training, attention (S, p, T), by target.

    Targets are known in training, (P, p, m) each, and wanted of the held-out prompts, (P', p, m)
    each. Hidden states of as many steps are held at once as fit; the learner runs once for each
    such group, which costs little beside the training.
    """
    many = steps_at_once(learner, training, held_out, visible, settings)
    groups: list[list[tuple[Tensor, Tensor, Tensor]]] = []
    for start in range(0, len(steps), many):
        some = steps[start : start + many]
        features = hidden_states(learner, training, some, visible.shape[1])  # (s, P, T, D)
        probes = settings.fit(features, known, visible, seed=seed)
        fitted = [
            each.evaluate(features, own)[0].cpu() for each, own in zip(probes, known, strict=True)
        ]  # (s, p, P) each
        del features  # before the next are computed
        features = hidden_states(learner, held_out, some, visible.shape[1])  # (s, P', T, D)
        tested = [
            each.evaluate(features, own) for each, own in zip(probes, wanted, strict=True)
        ]  # (s, p, P') and (s, p, T) each
        del features
        groups.append(
            [
                (errors.cpu(), trained, attention.cpu())
                for (errors, attention), trained in zip(tested, fitted, strict=True)
            ]
        )
    return [
        tuple(torch.cat(parts) for parts in zip(*own, strict=True))
        for own in zip(*groups, strict=True)
    ]


def _targets(target: Target, prompt: Prompt) -> Tensor:
    """The target (B, n, m), checked."""
    numbers = target(prompt)  # (B, n, m)
    if not isinstance(numbers, Tensor):
        raise ConfigurationError(
            f"the target returned a {type(numbers).__name__}, expected a tensor (B, n, m)."
        )
    if numbers.ndim != 3 or numbers.shape[:2] != (prompt.batch, prompt.points):
        raise ConfigurationError(
            f"the target has shape {tuple(numbers.shape)}, expected ({prompt.batch}, "
            f"{prompt.points}, m): give m numbers for every prompt and prefix."
        )
    return numbers


def _places(
    learner: Learner[Any],
    prompt: Prompt,
    at_steps: Sequence[int] | None,
    at_prefixes: Sequence[int] | None,
) -> tuple[list[int], list[int]]:
    """The steps and the prefixes to probe, checked."""
    last = prompt.points - 1
    causal = learner.traits.causal
    usual = range(min(1, last) if causal else last, prompt.points)
    prefixes = list(usual if at_prefixes is None else at_prefixes)
    steps = list(range(learner.steps + 1) if at_steps is None else at_steps)
    if not steps or min(steps) < 0 or len(set(steps)) < len(steps):
        raise ConfigurationError(f"at_steps is {steps}, expected different numbers from 0 on.")
    if not prefixes or not 0 <= min(prefixes) <= max(prefixes) <= last:
        raise ConfigurationError(
            f"at_prefixes is {prefixes}, expected numbers from 0 to {last} for {last + 1} points."
        )
    if not causal and prefixes != [last]:
        raise NotSupportedError(
            f"{learner.name} is not causal: its hidden states belong to the whole prompt. Probe "
            f"its last prefix, {last}, and shorter prompts for shorter ones."
        )
    return steps, prefixes
