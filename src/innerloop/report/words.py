"""Results in words, the same on the terminal, on HTML pages and in the documentation."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import get_args

from innerloop.core.words import count, duration
from innerloop.report.differences import beside_the_paper
from innerloop.report.page import Fact
from innerloop.studies.claim import Judged, Verdict
from innerloop.studies.result import Result
from innerloop.studies.seeds import write_seeds
from innerloop.studies.table import PAPERS, STUDIES

VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
SIGNS: dict[Verdict, str] = {
    "confirmed": "✓", "contradicted": "✗", "inconclusive": "?", "exploratory": "…",
    "not at this size": "○",
}  # fmt: skip
"""Beside the words, so that they are seen at a glance without colours."""
DIGITS = 3


def number(value: float, digits: int = DIGITS) -> str:
    """Three digits: `0.00491`, `1.25e+04`."""
    return f"{value:.{digits}g}"


def measured(judged: Judged) -> str:
    """What was measured with its interval, where it has one: `0.771 (0.65 to 0.921)`."""
    three = (judged.value, judged.low, judged.high)
    if math.isnan(judged.value):
        return "no number"
    # As many digits as it takes to tell the numbers of a narrow interval apart, and from a limit
    # of the criterion that they miss by little: what is read must lead to the verdict.
    criterion = judged.claim.criterion
    value = low = high = ""
    for digits in range(DIGITS, 3 * DIGITS):
        value, low, high = (number(one, digits) for one in three)
        same = criterion.judge(float(low), float(high)) == criterion.judge(*three[1:])
        if same and len({value, low, high}) == len(set(three)):
            break
    return value if value == low == high else f"{value} ({low} to {high})"


def why(judged: Judged) -> str:
    """Why nothing can be concluded; empty where something can."""
    if judged.verdict in ("confirmed", "contradicted"):
        return ""
    if judged.why:
        return judged.why
    if math.isnan(judged.value):
        return "it could not be measured at this scale"
    if math.isnan(judged.low) or math.isnan(judged.high):
        return "what was measured is no number"
    return "the interval reaches across the criterion"


def premise(judged: Judged) -> str:
    """What the claim rests on, in each seed: `premise: error: 0.006, 0.008 (at most 0.02)`.

    Empty where that is what `why` says.
    """
    condition = judged.claim.premise
    if condition is None or not judged.premises or condition.quantity in judged.why:
        return ""
    values = ", ".join(number(value) for value in judged.premises)
    return f"premise: {condition.quantity}: {values} ({condition.criterion})"


def controls_of(result: Result) -> list[dict[str, str]]:
    """One row per claim and control: what was measured, and what became of it."""
    rows: list[dict[str, str]] = []
    for judged in result.claims:
        for each in judged.controls:
            value, low, high = (number(one) for one in (each.value, each.low, each.high))
            rows.append(
                {
                    "claim": judged.claim.sentence,
                    "of": each.null,
                    "measured": "no number"
                    if math.isnan(each.value)
                    else f"{value} ({low} to {high})",
                    "criterion": str(judged.claim.criterion),
                    "premise": ", ".join(number(one) for one in each.premises),
                    "outcome": "passes" if each.passes else "fails, as it should",
                }
            )
    return rows


def by_seed(judged: Judged) -> str:
    """The value of each seed, where there are several."""
    if len(judged.seeds) < 2:
        return ""
    return "by seed: " + ", ".join(number(value) for value in judged.seeds)


def seeds(result: Result) -> str:
    """`1 seed`, `3 seeds`, `3 seeds (3-5)`."""
    number = count(len(result.seeds), "seed")
    return number if result.seeds[0] == 0 else f"{number} ({write_seeds(result.seeds)})"


def tally(results: Sequence[Result]) -> str:
    """`3 studies, 12 claims. Exact: 4 confirmed. Trained: 5 confirmed. Out of date: 3 claims`."""
    current, old = current_and_old(results)
    blocks = [f"{count(len(results), 'study')}, {count(len(current) + len(old), 'claim')}"]
    for name, exact in (("Exact", True), ("Trained", False)):
        number = Counter(judged.verdict for judged in current if judged.claim.exact == exact)
        if number:
            blocks.append(f"{name}: {verdicts(number)}")
    if old:
        blocks.append(f"Out of date: {count(len(old), 'claim')}")
    return ". ".join(blocks)


def current_and_old(results: Iterable[Result]) -> tuple[list[Judged], list[Judged]]:
    """The claims that the code as it is has judged, and those that other code has.

    What the latter asked for may not be what is asked for now: they are counted apart.
    """
    judged: tuple[list[Judged], list[Judged]] = ([], [])
    for result in results:
        judged[changed_since(result)].extend(result.claims)
    return judged


def verdicts(number: Mapping[str, int]) -> str:
    """`3 confirmed, 1 exploratory`; `none` without any."""
    some = [f"{number[verdict]} {verdict}" for verdict in VERDICTS if number.get(verdict)]
    return ", ".join(some) or "none"


def scales(results: Sequence[Result]) -> str:
    """At which scale results are: `laptop`, or `laptop (40), smoke (2)`."""
    number = Counter(result.scale for result in results)
    if len(number) == 1:
        return next(iter(number))
    return ", ".join(f"{name} ({times})" for name, times in number.items())


def versions(results: Sequence[Result]) -> str:
    """`innerloop 0.1.0, torch 2.13.0, ..`; where results differ, all that there are."""
    known: dict[str, dict[str, None]] = {}  # each version once, in order
    for result in results:
        for name, version in result.versions.items():
            known.setdefault(name, {})[version] = None
    return ", ".join(f"{name} {' and '.join(several)}" for name, several in known.items())


def facts_of(result: Result) -> list[Fact]:
    """How a result was obtained: sizes, notes, the command, versions, times."""
    facts = [
        Fact(heading="scale", text=f"{result.scale}, {seeds(result)}"),
        Fact(heading="smaller than in the paper", text=result.smaller or "Nothing."),
        *_training_settings(result),
        *(
            Fact(heading=f"seed {seed} failed", text=reason)
            for seed, reason in result.failed.items()
        ),
        *(Fact(heading="note", text=note) for note in result.notes),
        Fact(heading="command", text=result.command, code=True),
        Fact(heading="time", text=_time(result)),
        Fact(heading="with", text=f"{versions([result])}; {result.finished}"),
    ]
    if changed_since(result):
        note = "The study's code has changed since this was measured: reproduce it again."
        facts.insert(0, Fact(heading="out of date", text=note))
    return facts


def _training_settings(result: Result) -> list[Fact]:
    """Every setting in which its trainings differ from the paper's, as long as it is known."""
    for study in STUDIES:
        if study.name == result.name and not changed_since(result):
            text = beside_the_paper(study, result.scale)
            heading = "settings of the trainings (in the paper's recipe)"
            return [Fact(heading=heading, text=f"{text}.")] if text else []
    return []


def _time(result: Result) -> str:
    measuring = f"{duration(result.seconds)} of measuring"
    if not result.runs:
        return measuring
    runs = count(len(result.runs), "run")
    return f"{duration(result.training_seconds)} of training ({runs}), {measuring}"


def changed_since(result: Result) -> bool:
    """Whether the study is another one now than when this was measured.

    A study that is not in the table, such as a reader's own, cannot be compared.
    """
    for study in STUDIES:
        if study.name == result.name:
            return study.fingerprint(result.scale, result.seeds) != result.fingerprint
    return False


def figures(result: Result) -> str:
    """The figures of the paper that a result is about: `fig3, fig6`."""
    also = [study.also for study in STUDIES if study.name == result.name]
    return ", ".join((result.id, *(also[0] if also else ())))


def paper_title(paper: str) -> str:
    """The title of a paper, or its key where it is none of the five."""
    return PAPERS.get(paper, paper)
