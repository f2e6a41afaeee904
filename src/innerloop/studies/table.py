"""Every study, by name."""

from innerloop.core.errors import ConfigurationError, unknown
from innerloop.core.named import import_named
from innerloop.studies import akyurek2022, chen2025, fu2023, gao2025, yang2024
from innerloop.studies.study import Study

STUDIES: tuple[Study, ...] = (
    yang2024.fig2, yang2024.fig3, yang2024.fig4, yang2024.fig5, yang2024.fig6, yang2024.fig7,
    yang2024.fig8, yang2024.fig9, yang2024.fig10, yang2024.fig11, yang2024.fig16, yang2024.fig17,
    yang2024.table2,
    gao2025.fig2a, gao2025.fig2b, gao2025.fig2c, gao2025.fig3, gao2025.fig4, gao2025.fig5,
    gao2025.table1, gao2025.table2,
    gao2025.thm31, gao2025.thm32, gao2025.thm33, gao2025.thm41, gao2025.thm42,
    fu2023.fig1, fu2023.fig3, fu2023.fig4, fu2023.fig5, fu2023.fig7, fu2023.fig9, fu2023.fig14,
    fu2023.fig16, fu2023.thm1, fu2023.b3,
    akyurek2022.lemma1, akyurek2022.thm1, akyurek2022.thm2, akyurek2022.fig1, akyurek2022.fig2,
    akyurek2022.fig3, akyurek2022.fig4,
    chen2025.thm42, chen2025.thm45, chen2025.fig1, chen2025.train,
)  # fmt: skip
"""In the order of the papers and of their figures."""

PAPERS = {
    "yang2024": "Looped Transformers are Better at Learning Learning Algorithms",
    "gao2025": "AlgoFormer: An Efficient Transformer Framework with Algorithmic Structures",
    "fu2023": "Transformers Learn Higher-Order Optimization Methods for In-Context Learning",
    "akyurek2022": "What Learning Algorithm Is In-Context Learning?",
    "chen2025": "Bypassing the Exponential Dependency: Looped Transformers Efficiently Learn "
    "In-context by Multi-step Gradient Descent",
}
"""Titles of the papers by the keys that studies use."""


def find_studies(name: str) -> tuple[Study, ...]:
    """The study `PAPER/ID`, all of `PAPER`, or that of another package, `module:name`."""
    if ":" in name:
        return (import_named(name, Study, "study"),)
    paper, slash, own = name.partition("/")
    of_paper = tuple(study for study in STUDIES if study.paper == paper)
    if not of_paper:
        raise ConfigurationError(unknown("paper", paper, {study.paper for study in STUDIES}))
    if not slash:
        return of_paper
    by_id = {name: study for study in of_paper for name in (study.id, *study.also)}
    if own not in by_id:
        raise ConfigurationError(unknown(f"study of {paper}", own, by_id))
    return (by_id[own],)
