"""The papers' kinds of problems at four sizes, and how long and how deep they are trained.

smoke: seconds, to see that everything runs; it learns nothing. laptop: minutes on two cores. desk:
hours on two cores, for those problems that need them. paper: the papers' own sizes, for a GPU.
"""

from dataclasses import dataclass, replace
from typing import Literal, get_args

from innerloop.core.errors import ConfigurationError, unknown
from innerloop.core.task import Task
from innerloop.language.classification import TextClassification
from innerloop.tasks.autoregression import RepresentationAR
from innerloop.tasks.chain import ChainOfThought
from innerloop.tasks.classification import LinearClassification
from innerloop.tasks.linear import LinearRegression
from innerloop.tasks.network import TwoLayerNetwork
from innerloop.tasks.representation import RepresentationRegression
from innerloop.tasks.sparse import SparseLinearRegression
from innerloop.tasks.tabular import TabularPrompts
from innerloop.tasks.tabular_prior import TabularPrior
from innerloop.tasks.tree import DecisionTree
from innerloop.tasks.vector import VectorGeneration
from innerloop.training.config import Precision

Scale = Literal["smoke", "laptop", "desk", "paper"]
"""How large a recipe or study is: seconds, minutes, hours, or as in the paper."""
SCALES: tuple[Scale, ...] = get_args(Scale)


def read_scale(name: str) -> Scale:
    """A scale by its name."""
    for known in SCALES:
        if name == known:
            return known
    raise ConfigurationError(unknown("scale", name, SCALES))


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """A problem, and the training that it takes."""

    task: Task
    points: int
    steps: int
    loops: int = 20
    """b, the loops of a looped model."""
    window: int = 10
    """T, the losses of a looped model."""
    width: int = 64
    heads: int = 4
    layers: int = 8
    """Of a stack."""
    identity: bool = False
    """Whether what gets its input once begins as the identity, at a lower rate: without that twelve
    layers do not learn at all, and eight learn no noisy functions (docs/LOG.md)."""
    precision: Precision = "float32"
    """Of the products of a transformer's training."""
    balanced: bool = False
    """Whether a transformer's positions count by the inverse of their errors, at rates that fall in
    the second half of the training alone (docs/LOG.md, "Balanced positions")."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """One kind of problem, at each scale."""

    smoke: Size
    laptop: Size
    desk: Size | None = None
    paper: Size
    stream: bool = False
    """Whether its outputs are its next inputs."""
    positions: bool = True
    """Whether its models have learned positions, and so a largest number of examples."""

    @property
    def scales(self) -> tuple[Scale, ...]:
        """The scales that it has, from the smallest on."""
        return tuple(scale for scale in SCALES if scale != "desk" or self.desk is not None)

    def at(self, scale: Scale) -> Size:
        """The size at a scale; refused at one that it does not have."""
        size = {"smoke": self.smoke, "laptop": self.laptop, "desk": self.desk, "paper": self.paper}
        own = size[scale]
        if own is None:
            raise ConfigurationError(
                f"{type(self.laptop.task).__name__} has no scale {scale!r}: take laptop or paper."
            )
        return own


def _smoke(task: Task, *, points: int = 7) -> Size:
    return Size(task=task, points=points, steps=20, loops=4, window=3, width=16, heads=2, layers=2)


def _paper(task: Task, *, points: int = 41, loops: int = 20, window: int = 15) -> Size:
    return Size(
        task=task, points=points, steps=500_000, loops=loops, window=window, width=256, heads=8,
        layers=12,
    )  # fmt: skip


def _desk(task: Task, *, steps: int, points: int = 41, loops: int = 20, window: int = 8) -> Size:
    """The papers' problem with half of their width, in heads as wide as theirs, of 32 numbers.

    A head that compares fewer numbers than there are dimensions cannot compare inputs: 8 heads of
    16 leave three to ten times the error in 20 dimensions (docs/LOG.md).

    In bfloat16, which at this width halves a step where the processor has such units.
    """
    return Size(
        task=task, points=points, steps=steps, loops=loops, window=window, width=128, heads=4,
        layers=12, identity=True, precision="bfloat16", balanced=True,
    )  # fmt: skip


LINEAR = Family(
    smoke=_smoke(LinearRegression(dims=3)),
    laptop=Size(task=LinearRegression(dims=5), points=11, steps=1500),
    desk=_desk(LinearRegression(dims=20), steps=3000),
    paper=_paper(LinearRegression(dims=20)),
)


def _drawn(dims: int, *, steps: int) -> Family:
    """Noisy linear functions that fit on a page, for models that run there: of no paper.

    Without learned positions a model takes more examples than it was trained with.
    """
    task = LinearRegression(dims=dims, noise=0.25)
    size = Size(
        task=task, points=21, steps=steps, loops=12, window=6, width=32, heads=2, layers=4
    )  # fmt: skip
    return Family(
        smoke=_smoke(task), laptop=size, paper=replace(size, steps=50_000), positions=False
    )


LINE, PLANE = _drawn(1, steps=2000), _drawn(2, steps=3000)
SPARSE = Family(
    smoke=_smoke(SparseLinearRegression(dims=4, sparsity=2), points=9),
    # A loop on functions with one weight, one seed each: 0.010 after 2500 steps with balance, 0.053
    # after 3900 of 6000 without (docs/LOG.md).
    laptop=Size(
        task=SparseLinearRegression(dims=10, sparsity=2), points=21, steps=2500, balanced=True
    ),
    desk=Size(task=SparseLinearRegression(dims=10, sparsity=2), points=21, steps=15_000),
    paper=_paper(SparseLinearRegression(dims=20, sparsity=3), window=10),
)
TREE = Family(
    smoke=_smoke(DecisionTree(dims=3, depth=2), points=9),
    laptop=Size(task=DecisionTree(dims=5, depth=3), points=41, steps=1500, loops=24, window=8),
    desk=Size(task=DecisionTree(dims=5, depth=3), points=41, steps=6000, loops=24, window=8),
    paper=_paper(DecisionTree(dims=20), points=101, loops=70),
)
NETWORK = Family(
    smoke=_smoke(TwoLayerNetwork(dims=3, hidden=4), points=9),
    laptop=Size(task=TwoLayerNetwork(dims=5, hidden=20), points=31, steps=1500, loops=12, window=5),
    desk=Size(task=TwoLayerNetwork(dims=5, hidden=20), points=31, steps=6000, loops=12, window=5),
    paper=_paper(TwoLayerNetwork(dims=20), points=101, loops=12, window=5),
)
CLASSIFICATION = Family(
    smoke=_smoke(LinearClassification(dims=3)),
    laptop=Size(task=LinearClassification(dims=5), points=21, steps=1500),
    paper=_paper(LinearClassification(dims=20)),
)
ILL_CONDITIONED = Family(
    smoke=_smoke(LinearRegression(dims=4, covariance="ill-conditioned")),
    laptop=Size(
        task=LinearRegression(dims=5, covariance="ill-conditioned"),
        points=11,
        steps=4500,
        identity=True,
    ),
    desk=Size(
        task=LinearRegression(dims=10, covariance="ill-conditioned"),
        points=21,
        steps=12_000,
        layers=12,
        identity=True,
    ),
    paper=_paper(LinearRegression(dims=20, covariance="ill-conditioned")),
)
EIGHT_DIMENSIONS = Family(
    smoke=_smoke(LinearRegression(dims=3)),
    # At this size it is the run of LINEAR, so that studies of several papers share one model.
    laptop=Size(task=LinearRegression(dims=5), points=11, steps=1500),
    desk=Size(task=LinearRegression(dims=8), points=41, steps=12_000),
    paper=_paper(LinearRegression(dims=8)),
)
NOISY = Family(
    smoke=_smoke(LinearRegression(dims=3, noise=0.5)),
    laptop=Size(task=LinearRegression(dims=5, noise=0.5), points=11, steps=2250, identity=True),
    desk=Size(task=LinearRegression(dims=8, noise=0.5), points=41, steps=12_000, identity=True),
    paper=_paper(LinearRegression(dims=8, noise=0.5)),
)
REPRESENTATION = Family(
    smoke=_smoke(RepresentationRegression(dims=3)),
    laptop=Size(task=RepresentationRegression(dims=5), points=16, steps=1200, loops=12, window=6),
    desk=Size(task=RepresentationRegression(dims=5), points=16, steps=6000, loops=12, window=6),
    paper=_paper(RepresentationRegression(dims=20)),
)
AUTOREGRESSION = Family(
    smoke=_smoke(RepresentationAR(dims=3)),
    laptop=Size(task=RepresentationAR(dims=5), points=31, steps=1200, loops=12, window=6),
    desk=Size(task=RepresentationAR(dims=5), points=31, steps=6000, loops=12, window=6),
    paper=_paper(RepresentationAR(dims=20)),
    stream=True,
)
CHAIN = Family(
    smoke=_smoke(ChainOfThought(dims=3, layers=2), points=9),
    laptop=Size(task=ChainOfThought(dims=5, layers=3), points=36, steps=1200, loops=12, window=6),
    # Smaller than at laptop: at that size no model came near the best answer (docs/LOG.md).
    desk=Size(
        task=ChainOfThought(dims=3, layers=3, slope=0.3),
        points=36,
        steps=3000,
        loops=12,
        window=6,
        precision="bfloat16",
        balanced=True,
    ),
    paper=_paper(ChainOfThought(dims=20, layers=6), points=287),
    stream=True,
)
TEXT = Family(
    smoke=Size(
        task=TextClassification(dataset="ag_news", vocabulary=500, limit=400), points=16, steps=20,
        loops=3, window=3, width=16, heads=2, layers=2,
    ),
    laptop=Size(
        task=TextClassification(dataset="ag_news", limit=20_000, dropout=0.3), points=96, steps=900,
        loops=4, window=4, width=96, heads=4, layers=1,
    ),
    desk=Size(
        task=TextClassification(dataset="ag_news", dropout=0.3), points=128, steps=2000, loops=4,
        window=4, width=128, heads=4, layers=2,
    ),
    # As far as the paper says: 1 head, width 32, 12 layers, (T, delta T) = (10, 10).
    paper=Size(
        task=TextClassification(dataset="ag_news"), points=256, steps=100_000, loops=10, window=10,
        width=32, heads=1, layers=12,
    ),
)  # fmt: skip
VECTOR = Family(
    smoke=_smoke(VectorGeneration(dims=3)),
    laptop=Size(task=VectorGeneration(dims=4), points=17, steps=1500),
    paper=Size(task=VectorGeneration(dims=4), points=17, steps=20_000),
)


def _tables(*, labels: bool) -> Family:
    """Random tables of up to 16 features and 128 examples: of no paper, so at no paper's size."""
    return Family(
        smoke=_smoke(TabularPrior(dims=3, labels=labels, questions=4), points=9),
        laptop=Size(
            task=TabularPrior(dims=16, labels=labels), points=129, steps=3000, loops=8, window=4
        ),
        paper=Size(
            task=TabularPrior(dims=16, labels=labels), points=129, steps=100_000, loops=12,
            window=6, width=128, heads=8,
        ),
    )  # fmt: skip


TABLES, LABELLED_TABLES = _tables(labels=False), _tables(labels=True)
REAL_TABLES = Family(
    smoke=_smoke(TabularPrompts(), points=19),
    laptop=Size(task=TabularPrompts(), points=41, steps=800, loops=4, window=2, layers=4),
    # Yang et al. do not say how many examples a prompt has: as many as in their linear functions.
    paper=_paper(TabularPrompts(), loops=30),
)
