"""Results on disk, made without any measuring."""

from dataclasses import replace
from pathlib import Path

import pandas as pd
import torch
from matplotlib.figure import Figure

from innerloop.analysis.measured import Measured
from innerloop.studies.claim import Claim, Criterion
from innerloop.studies.lab import Lab
from innerloop.studies.result import Result, write_result
from innerloop.studies.study import Findings, Measures, Study, Tables, declare
from innerloop.training.families import Scale

BELOW_TEN = Criterion(at_most=10.0, reason="ten <is> a | round number")


def by_prompt(*values: float) -> Measured:
    """One number per prompt; of two prompts the interval reaches from the one to the other."""
    return Measured(values=torch.tensor(values, dtype=torch.float64))  # (P,)


MEASURES: Measures = {
    "curve": replace(Measured.exact(torch.full((40,), 0.5), "step"), label="a*b*"),
    "fact": Measured.exact(3.0),
    "against": by_prompt(19.0, 21.0),
    "across": by_prompt(9.0, 11.0),
    "by-seed": by_prompt(0.9, 1.1),
    "nothing": replace(Measured.exact(0.0), counted=torch.zeros(1, dtype=torch.bool)),
}
"""One claim that is confirmed, one that is not, three of which nothing can be said."""
FINDINGS = Findings(
    seeds=(MEASURES,),
    tables={"sizes": pd.DataFrame({"loops": [20], "none": [float("nan")]})},
    notes=("Worth <knowing>.",),
)


def draw(tables: Tables) -> Figure:
    figure = Figure(figsize=(2, 2))
    figure.add_subplot().plot(tables["by-step"]["step"], tables["by-step"]["mean"])
    return figure


def a_study(paper: str = "yang2024", id: str = "fig2", also: tuple[str, ...] = ()) -> Study:
    def claim(name: str, sentence: str, over: str, paper: str = "") -> Claim:
        return Claim(
            name=name, sentence=sentence, quantity=f"the number of {name}", criterion=BELOW_TEN,
            over=over, paper=paper, statistic=lambda m: m[name],  # pyright: ignore[reportArgumentType]
        )  # fmt: skip

    def measure(lab: Lab) -> Measures:
        lab.table("sizes", FINDINGS.tables["sizes"])
        lab.note(*FINDINGS.notes)
        return MEASURES

    measure.__module__ = "innerloop.studies.made"  # as those of the papers
    return declare(
        paper=paper, id=id, also=also, title=f"What {id} | says",
        claims=(
            claim("fact", "It <holds>.", "exact", "1/12"),
            claim("against", "It does not.", "prompts"),
            claim("across", "It may.", "prompts"),
            claim("by-seed", "It holds for most seeds.", "seeds"),
            claim("nothing", "It cannot be measured.", "prompts"),
        ),
        # Its own function, not the usual one of studies that train nothing, whose claims are exact.
        draw=draw, runs=lambda scale: {}, minutes={"smoke": 0.1, "laptop": 2, "paper": 600},
        smaller={"laptop": "Five_dimensions, not 20.", "smoke": "All of it."},
    )(measure)  # fmt: skip


def a_result(
    root: Path, study: Study | None = None, scale: Scale = "laptop", runs: tuple[str, ...] = ()
) -> Result:
    """A result in its folder below `root`."""
    return write_result(
        root, study or a_study(), FINDINGS, scale=scale, seeds=1, runs=runs,
        training_seconds=120.0 * len(runs), seconds=3.0, finished="2026-01-01",
    )  # fmt: skip
