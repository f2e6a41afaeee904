"""What each paper is known for, beside what was measured here, and all claims in four blocks."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from innerloop.report.words import SIGNS, count, current_and_old, measured, number, verdicts
from innerloop.studies.claim import Judged
from innerloop.studies.result import Result

DECIDED = ("confirmed", "contradicted", "inconclusive")


@dataclass(frozen=True, slots=True)
class Headline:
    """A paper's main finding: the claim that decides it here, and its words in one line."""

    study: str
    claim: str
    words: str
    quantity: str
    """What the claim measures, in fewer words than its own."""
    paper: str
    """What the paper gives for it, be it a number or what its figure shows."""


HEADLINES: tuple[Headline, ...] = (
    Headline("yang2024/fig2", "matches-standard",
             "a looped transformer matches a standard one with a twelfth of its parameters",
             "error after the last example, looped / standard",
             "curves that coincide"),
    Headline("gao2025/fig2a", "beats-standard",
             "an AlgoFormer is ahead of a standard transformer where functions share a network",
             "error above the best possible (noise 0.1), AlgoFormer / standard",
             "the lowest of three curves"),
    Headline("fu2023/fig3", "errors-newton-linear",
             "the iteration of Newton's method that a layer matches grows in a line with the layer",
             "R² of a line through these iterations, less that of the better other curve",
             "a line, about 3 iterations per middle layer"),
    Headline("akyurek2022/fig1", "predictions",
             "a trained transformer predicts as least squares does",
             "share of the numbers of examples at which SPD / d is below 0.01",
             "almost any number"),
    Headline("chen2025/thm4.5", "within-the-bound",
             "a linear looped transformer's error falls as exp(-T / 2 kappa)",
             "largest error / its bound",
             "at most 1"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Row:
    """A headline with what was measured."""

    headline: Headline
    result: Result
    judged: Judged

    legend: ClassVar = (
        "Asked: the criterion, which stood in the code before the run. Here: the mean over seeds "
        "with its 90% interval. Error left, seed by seed: after the last example, that of the "
        "worst model that the claim compares; in the row of gao2025 that of the best one, less the "
        "error of the best possible answer."
    )
    headings: ClassVar = (
        "measured", "in the paper", "asked", "here", "seeds", "error left", "verdict"
    )  # fmt: skip

    @property
    def cells(self) -> tuple[str, ...]:
        """What tables show beside the link to the study, in the order of the headings."""
        claim, verdict = self.judged.claim, self.judged.verdict
        seeds = "exact" if claim.exact else str(len(self.judged.seeds))
        learned = ", ".join(number(value) for value in self.judged.premises)
        return (
            self.headline.quantity, self.headline.paper, str(claim.criterion),
            measured(self.judged), seeds, learned or "-", f"{SIGNS[verdict]} {verdict}",
        )  # fmt: skip


def headline_rows(results: Iterable[Result]) -> list[Row]:
    """The headlines of the papers whose studies are among the results."""
    known = {result.name: result for result in results}
    rows: list[Row] = []
    for headline in HEADLINES:
        result = known.get(headline.study)
        for judged in () if result is None else result.claims:
            if result is not None and judged.claim.name == headline.claim:
                rows.append(Row(headline, result, judged))
    return rows


def blocks(results: Sequence[Result]) -> list[str]:
    """All claims in four blocks, a line each: those that nothing follows from are apart.

    So are those that other code has judged, if there are any.
    """
    claims, old = current_and_old(results)
    exact = [judged.verdict for judged in claims if judged.claim.exact]
    trained = [judged.verdict for judged in claims if not judged.claim.exact]
    decided = [verdict for verdict in trained if verdict in DECIDED]
    lines = [
        f"{count(len(exact), 'exact claim')}: {verdicts(Counter(exact))}",
        f"{count(len(decided), 'claim')} about trained models, three seeds or more: "
        f"{verdicts(Counter(decided))}",
        f"{count(trained.count('exploratory'), 'claim')} exploratory: fewer than three seeds",
        f"{count(trained.count('not at this size'), 'claim')} not decided at this size: models "
        "have not learned enough, or not equally well, or were not trained",
    ]
    if old:
        lines.append(
            f"{count(len(old), 'claim')} out of date, in none of the lines above: the code has "
            "changed since they were measured"
        )
    return lines
