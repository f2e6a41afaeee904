"""Results on disk, made without any measuring."""

from dataclasses import replace
from pathlib import Path

import pandas as pd
import torch
from matplotlib.figure import Figure

from innerloop.analysis.measured import Measured
from innerloop.studies.claim import Claim, Criterion, Premise, at_most
from innerloop.studies.lab import Lab
from innerloop.studies.result import Result, write_result
from innerloop.studies.study import Findings, Measures, Study, Tables, declare
from innerloop.training.families import Scale

BELOW_TEN = Criterion(at_most=10.0, reason="ten <is> a | round number")


def measures(seed: int) -> Measures:
    """What a seed has measured: seeds differ by a tenth."""
    shift = 0.1 * seed
    return {
        "curve": replace(Measured.exact(torch.full((40,), 0.5), "step"), label="a*b*"),
        "fact": Measured.exact(3.0),
        "against": Measured.exact(20.0 + shift),
        "across": Measured.exact(9.0 + 10 * shift),
        "unlearned": Measured.exact(1.0 + shift),
        "nothing": replace(Measured.exact(0.0), counted=torch.zeros(1, dtype=torch.bool)),
    }


FINDINGS = Findings(
    seeds=tuple(measures(seed) for seed in range(3)),
    nulls={"a <null>": (measures(5),) * 3},
    tables={"sizes": pd.DataFrame({"loops": [20], "none": [float("nan")]})},
    notes=("Worth <knowing>.",),
)
"""One claim that is confirmed, one that is contradicted, three of which nothing can be said."""


def draw(tables: Tables) -> Figure:
    figure = Figure(figsize=(2, 2))
    figure.add_subplot().plot(tables["by-step"]["step"], tables["by-step"]["mean"])
    return figure


def a_study(paper: str = "yang2024", id: str = "fig2", also: tuple[str, ...] = ()) -> Study:
    def claim(
        name: str, sentence: str, *, paper: str = "", exact: bool = False, premise: float = 100.0
    ) -> Claim:
        learned = Premise(
            quantity=f"the error of {name}", statistic=lambda m: m[name],
            criterion=at_most(premise, "a round number as well"),
        )  # fmt: skip
        return Claim(
            name=name, sentence=sentence, quantity=f"the number of {name}", criterion=BELOW_TEN,
            exact=exact, paper=paper, statistic=lambda m: m[name],
            premise=None if exact else learned, excludes=("a <null>",) if name == "against" else (),
        )  # fmt: skip

    def measure(lab: Lab) -> Measures:
        lab.table("sizes", FINDINGS.tables["sizes"])
        lab.note(*FINDINGS.notes)
        return measures(lab.seed)

    measure.__module__ = "innerloop.studies.made"  # as those of the papers
    return declare(
        paper=paper, id=id, also=also, title=f"What {id} | says",
        claims=(
            claim("fact", "It <holds>.", exact=True, paper="1/12"),
            claim("against", "It does not."),
            claim("across", "It may."),
            claim("unlearned", "It holds of models that have learned.", premise=0.5),
            claim("nothing", "It cannot be measured."),
        ),
        nulls={"a <null>": lambda lab: {}},
        # Its own function, not the usual one of studies that train nothing, whose claims are exact.
        draw=draw, runs=lambda scale: {}, minutes={"smoke": 0.1, "laptop": 2, "paper": 600},
        smaller={"laptop": "Five_dimensions, not 20.", "smoke": "All of it."},
    )(measure)  # fmt: skip


def a_result(
    root: Path,
    study: Study | None = None,
    scale: Scale = "laptop",
    runs: tuple[str, ...] = (),
    findings: Findings = FINDINGS,
) -> Result:
    """A result in its folder below `root`."""
    return write_result(
        root, study or a_study(), findings, scale=scale, seeds=(0, 1, 2), runs=runs,
        training_seconds=120.0 * len(runs), seconds=3.0, finished="2026-01-01",
    )  # fmt: skip
