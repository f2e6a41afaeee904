"""Prompts from real tables: each holds some rows of one table, and asks for the class of the last.

Shapes, beside those of a prompt: N rows of a table, f features, t tables.
"""

import hashlib
from dataclasses import dataclass
from functools import lru_cache

import torch
from pydantic import Field, field_validator
from torch import Tensor

from innerloop.core.errors import ConfigurationError
from innerloop.core.prompt import Prompt
from innerloop.core.task import PromptForm, Task
from innerloop.data.catalog import DATASETS, find_dataset
from innerloop.data.reading import digest, read_table
from innerloop.tasks.draws import integers, signs, uniform
from innerloop.tasks.function import number

TABLES = tuple(data.name for data in DATASETS.values() if data.kind == "tabular")
"""All tables of the catalogue."""
HELD_OUT_SHARE = 0.2
"""Of the rows of a table, never trained on."""
LARGEST = 5.0
"""Deviations at which a feature is cut off: what no example has prepared for."""


class TabularPrompts(Task):
    """Rows of real tables: each prompt from one of them, with labels -1 and 1.

    Features are numbers only. They are standardised by the mean and the deviation of the prompt's
    examples, all rows but the last, since a user knows no more than these; a feature that is the
    same in all examples is 0, and none lies beyond 5 deviations. Features that a table has not are
    zeros, after those that it has.

    With `shuffle` features come in random order with random signs, and the two classes are
    exchanged in half of the prompts: what a place means, and which class is the more frequent one,
    is then not known before the examples, just as of a table that was never seen. With `subsets`
    training prompts have 1 to all features of their table, in random choice: those of few features
    are what a model learns first.

    One row in five, by a hash of its number, is for `held_out`. `split=False` draws from all rows,
    with all features: for a table that no model was trained on.
    """

    dims: int = Field(default=16, ge=1, description="places for features")
    tables: tuple[str, ...] = Field(
        default=TABLES, min_length=1, description="the tables: see `innerloop data`"
    )
    shuffle: bool = Field(
        default=True, description="whether order, signs and classes are random in each prompt"
    )
    subsets: bool = Field(
        default=True, description="whether shuffled training prompts leave out some features"
    )
    split: bool = Field(
        default=True, description="whether some rows are kept for evaluation; False: all are drawn"
    )

    @field_validator("tables")
    @classmethod
    def _check_tables(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            if names.count(find_dataset(name, "tabular").name) > 1:
                raise ValueError(f"the table {name!r} is given twice: name each once")
        return names

    @property
    def form(self) -> PromptForm:
        """Pairs with one label."""
        return PromptForm(dims=self.dims, labels=True)

    @property
    def unshiftable(self) -> str:
        """Its rows are given."""
        return "no function labels its rows, which are real; give a task such as LinearRegression"

    def data_digest(self) -> str:
        """That of all its tables, in order."""
        whole = "/".join(digest(name) for name in self.tables)
        return hashlib.sha256(whole.encode()).hexdigest()[:16]

    def draw(self, batch: int, points: int, generator: torch.Generator) -> Prompt:
        """Prompts of rows that are for training."""
        return self._prompts(batch, points, generator, held_out=False)

    def held_out(self, batch: int, points: int, *, generator: torch.Generator) -> Prompt:
        """Prompts of rows that are never trained on."""
        return self._prompts(batch, points, generator, held_out=True)

    def scale(self) -> Tensor:
        """Every label squares to 1."""
        return number(1)

    def _prompts(
        self, batch: int, points: int, generator: torch.Generator, *, held_out: bool
    ) -> Prompt:
        tables = [self._table(name, points, held_out=held_out) for name in self.tables]
        which = integers(generator, 0, len(tables), batch).cpu()  # (B,) the table of each prompt
        sizes = torch.tensor([len(table.rows) for table in tables])  # (t,)
        places = _distinct(sizes[which], points, generator)  # (B, n)
        xs = torch.zeros(batch, points, self.dims, dtype=torch.float64)  # (B, n, d)
        ys = torch.zeros(batch, points, 1, dtype=torch.float64)  # (B, n, 1)
        rows = torch.zeros(batch, points, dtype=torch.int64)  # (B, n)
        for index, table in enumerate(tables):
            own = which == index  # (B,)
            rows[own] = table.rows[places[own]]  # (b, n)
            values = _standardised(table.features[rows[own]])  # (b, n, f)
            if self.shuffle:
                some = self.subsets and self.split and not held_out
                values = _shuffled(values, generator, some=some)  # (b, n, f)
            xs[own, :, : values.shape[2]] = values
            ys[own] = table.labels[rows[own]][..., None]  # (b, n, 1)
        if self.shuffle:
            ys = ys * signs(generator, batch, 1, 1).cpu()  # (B, n, 1)
        prompt = Prompt(
            xs=xs.to(self.torch_dtype), ys=ys.to(self.torch_dtype),
            truth={"table": which, "row": rows},
        )  # fmt: skip
        return prompt.to(device=generator.device)

    def _table(self, name: str, points: int, *, held_out: bool) -> "_Rows":
        table = _loaded(name, digest(name), self.split, held_out)
        features = table.features.shape[1]
        if features > self.dims:
            raise ConfigurationError(
                f"{name} has {features} features, and dims is {self.dims}: raise dims."
            )
        if len(table.rows) < points:
            raise ConfigurationError(
                f"{name} has {len(table.rows)} rows to draw from, and a prompt of {points} points "
                "holds none twice: take fewer points."
            )
        return table


@dataclass(frozen=True, slots=True, eq=False)
class _Rows:
    """A table, and the rows of it to draw from."""

    features: Tensor
    """(N, f)."""
    labels: Tensor
    """(N,) -1 or 1."""
    rows: Tensor
    """Numbers of rows, in order."""


@lru_cache(maxsize=64)
def _loaded(name: str, content: str, split: bool, held_out: bool) -> _Rows:
    """A table by its name and its content: asked for at every step, read once."""
    table = read_table(name)
    rows = range(len(table.labels))
    if split:
        rows = [row for row in rows if is_held_out(name, row) == held_out]
    return _Rows(
        torch.from_numpy(table.features), 2 * torch.from_numpy(table.labels).double() - 1,
        torch.tensor(list(rows)),
    )  # fmt: skip


def is_held_out(name: str, row: int) -> bool:
    """Whether a row of a table, counted from 0, is never trained on."""
    key = hashlib.sha256(f"{name}/{row}".encode()).digest()
    return int.from_bytes(key[:4], "big") < HELD_OUT_SHARE * 2**32


def _distinct(sizes: Tensor, points: int, generator: torch.Generator) -> Tensor:
    """For each of the sizes (B,) that many points of 0 .. size - 1, none twice: (B, n)."""
    largest = int(sizes.max())
    keys = uniform(generator, len(sizes), largest).cpu()  # (B, N)
    outside = torch.arange(largest) >= sizes[:, None]  # (B, N)
    return keys.masked_fill_(outside, -1.0).topk(points, dim=1).indices


def _standardised(rows: Tensor) -> Tensor:
    """Rows (b, n, f) by the mean and deviation of all but the last."""
    examples = rows[:, :-1]  # (b, n - 1, f)
    centred = rows - examples.mean(dim=1, keepdim=True)  # (b, n, f)
    deviation = centred[:, :-1].square().mean(dim=1, keepdim=True).sqrt()  # (b, 1, f)
    constant = (examples == examples[:, :1]).all(dim=1, keepdim=True)  # (b, 1, f)
    return (centred / deviation).masked_fill(constant, 0.0).clamp(-LARGEST, LARGEST)


def _shuffled(values: Tensor, generator: torch.Generator, *, some: bool) -> Tensor:
    """Features (b, n, f) in random order with random signs; 1 to f of them, or all, before zeros.

    Each number of features is as likely as the others.
    """
    batch, points, features = values.shape
    order = uniform(generator, batch, 1, features).argsort(dim=2).cpu()  # (b, 1, f)
    moved = values.gather(2, order.expand(-1, points, -1))  # (b, n, f)
    fewest = 1 if some else features
    kept = integers(generator, fewest, features + 1, batch, 1, 1).cpu()  # (b, 1, 1)
    return moved * signs(generator, batch, 1, features).cpu() * (torch.arange(features) < kept)
