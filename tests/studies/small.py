"""Small studies of our own, to try the machinery with: they train in a second."""

from collections.abc import Callable, Mapping

from matplotlib.figure import Figure

from innerloop.studies.claim import Claim, Criterion
from innerloop.studies.lab import Lab, Null
from innerloop.studies.runs import trained
from innerloop.studies.study import Measures, Study, Tables, declare
from innerloop.training.config import RunConfig
from innerloop.training.families import Scale

SMALL = Claim(
    name="small",
    sentence="Errors are small.",
    quantity="error after the last example",
    statistic=lambda m: m["errors"][..., -1],
    criterion=Criterion(at_most=10.0, reason="ten times that of predicting zero"),
    ratio=True,
)


def draw(tables: Tables) -> Figure:
    figure = Figure()
    figure.add_subplot().plot(tables["by-examples"]["examples"], tables["by-examples"]["mean"])
    return figure


def measure(lab: Lab) -> Measures:
    config = lab.config("model")
    prompt = lab.draw(config.task, config.points)
    lab.note("A note.")
    return {"errors": lab.error(lab.learner("model"), prompt, config.task)}


def small_study(
    id: str = "small",
    *changes: str,
    measure: Callable[[Lab], Measures] = measure,
    claims: tuple[Claim, ...] = (SMALL,),
    nulls: Mapping[str, Null] | None = None,
) -> Study:
    """A study of one run: the smallest model on the smallest prompts, with some changes."""

    def runs(scale: Scale) -> Mapping[str, RunConfig]:
        given = {word.partition("=")[0] for word in changes}
        usual = [
            word for word in ("steps=4", "save_every=1") if word.partition("=")[0] not in given
        ]
        return {"model": trained("looped-linear", "smoke", *usual, *changes)}

    return declare(
        paper="test2024", id=id, title="A small study", claims=claims, draw=draw, runs=runs,
        nulls=nulls or {},
        minutes={"smoke": 0.1, "laptop": 0.1, "paper": 0.1}, smaller={"smoke": "All of it."},
    )(measure)  # fmt: skip
