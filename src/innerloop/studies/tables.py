"""Long tables of curves: one row a label and place, with a mean and its interval."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from innerloop.analysis.bootstrap import bootstrap
from innerloop.studies.lab import Lab


def curve(
    lab: Lab,
    errors: Tensor | Sequence[Tensor],
    axis: str,
    keys: Mapping[str, object],
    *,
    places: Sequence[float] | None = None,
    counted: Tensor | None = None,
) -> pd.DataFrame:
    """A curve of errors (P, m) along an axis (`examples`, `loop`, ..), from 0 on unless places say.

    Several tensors are those of several seeds: their prompts are put together, so that the band is
    over prompts, and the columns `seed low` and `seed high` are the lowest and highest mean of a
    seed. `keys` are further columns, the same in every row, that tell the curve from others, such
    as {"label": "looped"}. `counted` (P, m) says which entries count; places that count none are
    left out.
    """
    several = [errors] if isinstance(errors, Tensor) else list(errors)
    together = torch.cat(several)  # (S P, m)
    mask = None if counted is None else counted.repeat(len(several), 1)  # (S P, m)
    found = bootstrap(
        together, counted=mask, draws=lab.draws, generator=lab.generator(f"curve {axis}")
    )
    means = torch.stack([_means(part, counted) for part in several])  # (S, m)
    table = pd.DataFrame(
        {
            **{name: [value] * together.shape[1] for name, value in keys.items()},
            axis: list(range(together.shape[1]) if places is None else places),
            "mean": found.mean,
            "median": found.median,
            "low": found.low,
            "high": found.high,
            "seed low": means.amin(dim=0),
            "seed high": means.amax(dim=0),
        }
    )
    return table.dropna(subset=["mean"]).reset_index(drop=True)


def _means(errors: Tensor, counted: Tensor | None) -> Tensor:
    """The mean of each column over what counts: (m,)."""
    if counted is None:
        return errors.double().mean(dim=0)
    return torch.where(counted, errors.double(), 0.0).sum(dim=0) / counted.sum(dim=0)


def stacked(tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Tables of the same columns below each other."""
    return pd.concat(tables, ignore_index=True)


def rows_where(table: pd.DataFrame, values: Mapping[str, object]) -> pd.DataFrame:
    """The rows in which columns have these values."""
    chosen = pd.Series(True, index=table.index)
    for name, value in values.items():
        chosen &= table[name] == value
    return table.loc[chosen, :]


def record(values: Mapping[str, Sequence[Any]]) -> pd.DataFrame:
    """A table from its columns."""
    return pd.DataFrame({name: list(column) for name, column in values.items()})
