"""Runs of a sweep whose process dies at a moment that was drawn, wherever it is."""

import random
from dataclasses import dataclass
from pathlib import Path

from innerloop.engine.job import Job, Stop, Tell
from innerloop.engine.trainings import Training
from tests.training.children import die, die_writing

MOMENTS = ("step", "state", "between")
"""Between two steps, in the middle of a state, between the writing of weights and of state."""


@dataclass(frozen=True, slots=True)
class Mortal(Training):
    """A run that dies once for each file in a folder, at the moment that the file names."""

    orders: Path = Path()

    def do(self, tell: Tell, stop: Stop) -> bool:
        order = next(iter(sorted(self.orders.iterdir())), None)
        if order is None:
            return super(Mortal, self).do(tell, stop)  # with slots, a plain super() finds no class
        moment, number = order.read_text().split()
        left = int(number)

        def obey() -> None:
            order.unlink()
            die()

        def counted(share: float, doing: str) -> None:
            nonlocal left
            tell(share, doing)
            left -= 1
            if moment == "step" and left == 0:
                obey()

        if moment != "step":
            die_writing(1, moment == "state", obey)
        return super(Mortal, self).do(counted, stop)


def doomed(job: Job, orders: Path, deaths: int, draw: random.Random) -> Job:
    """Let a run die so many times."""
    work = job.work
    assert isinstance(work, Training)
    orders.mkdir(parents=True)
    for number in range(deaths):
        (orders / f"{number}").write_text(f"{draw.choice(MOMENTS)} {draw.randint(8, 18)}")
    job.work = Mortal(work.config, work.name, work.store, orders=orders)
    return job
