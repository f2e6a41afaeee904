"""Every study, by name."""

from innerloop.core.errors import ConfigurationError, unknown
from innerloop.studies import chen2025, fu2023, gao2025, yang2024
from innerloop.studies.study import Study

STUDIES: tuple[Study, ...] = (
    *yang2024.STUDIES,
    *gao2025.STUDIES,
    *fu2023.STUDIES,
    *chen2025.STUDIES,
)
"""In the order of the papers and of their figures."""

PAPERS = {
    "yang2024": "Looped Transformers are Better at Learning Learning Algorithms",
    "gao2025": "AlgoFormer: An Efficient Transformer Framework with Algorithmic Structures",
    "fu2023": "Transformers Learn Higher-Order Optimization Methods for In-Context Learning",
    "akyurek2022": "What Learning Algorithm Is In-Context Learning?",
    "chen2025": "Bypassing the Exponential Dependency: Looped Transformers Efficiently Learn "
    "In-context by Multi-step Gradient Descent",
}
"""The papers by the keys that studies use."""


def find_studies(name: str) -> tuple[Study, ...]:
    """The study `PAPER/ID`, or all of `PAPER`; an unknown name is refused."""
    paper, _, own = name.partition("/")
    if paper not in PAPERS:
        raise ConfigurationError(unknown("paper", paper, PAPERS))
    of_paper = tuple(study for study in STUDIES if study.paper == paper)
    if not own:
        return of_paper
    found = tuple(study for study in of_paper if own in (study.id, *study.also))
    if not found:
        known = {known for study in of_paper for known in (study.id, *study.also)}
        raise ConfigurationError(unknown(f"study of {paper}", own, known))
    return found
