"""Data sets of real tables and texts: where they are, how they are read, how they are fetched."""

from typing import TYPE_CHECKING

from innerloop.core.lazy import import_at_first_use

if TYPE_CHECKING:
    from innerloop.data.catalog import DATASETS, DataSet, find_dataset
    from innerloop.data.folder import data_folder
    from innerloop.data.reading import read_table, read_texts

__all__ = ["DATASETS", "DataSet", "data_folder", "find_dataset", "read_table", "read_texts"]

import_at_first_use(__name__)
