"""What studies cost to train, in operations: counted before anything is trained."""

from collections.abc import Iterable
from dataclasses import dataclass

from innerloop.studies.seeds import Seeds
from innerloop.studies.study import Study
from innerloop.training.estimate import RunCost
from innerloop.training.families import Scale


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyCost:
    """The training of one study, beside that of the studies before it."""

    study: str
    runs: int
    """All that it needs, over all seeds."""
    shared: int
    """Those of them that an earlier study in the list trains already."""
    operations: float
    """Of the others: products and sums of numbers."""
    largest: float
    """Operations of the largest of them: no number of machines ends sooner than one run."""


def training_costs(studies: Iterable[Study], scale: Scale, seeds: Seeds) -> list[StudyCost]:
    """The cost of each study that there is at a scale, in order; shared runs count once."""
    known: set[str] = set()
    costs: list[StudyCost] = []
    for study in studies:
        if scale not in study.scales:
            continue
        runs = {config.key(): config for config in study.seeded_runs(scale, seeds).values()}
        new = [RunCost(config).whole for key, config in runs.items() if key not in known]
        known |= runs.keys()
        cost = StudyCost(
            study=study.name, runs=len(runs), shared=len(runs) - len(new),
            operations=sum(new), largest=max(new, default=0.0),
        )  # fmt: skip
        costs.append(cost)
    return costs
