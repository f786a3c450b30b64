"""Which columns of a table in memory hold texts and labels, where nobody says it: found as those of a file are."""
from __future__ import annotations

import itertools
import logging
import numbers
from typing import Any, Iterable, Sequence

import numpy as np

from elmo._core import Config, detect_columns
from elmo._inputs import FLAGS, class_names, column_list, is_null, module_of, opened, split_columns

ROWS = 200  # that are looked at
NO_FIELD = "[]"  # in the place of what a table of texts cannot hold: neither words nor 0 or 1


def settle_columns(config: Config, table: Any, named: str = "") -> None:
    """Sets the columns that nobody gave, where the first rows of the table, perhaps of a file that is `named`, leave no doubt."""
    if config.given("text_column") and config.given("label_column"):
        return
    if (columns := first_values(table, named)) and len(columns) == len(names := column_list(table)):
        rows = itertools.zip_longest(*(map(field_of, column) for column in columns), fillvalue="")
        detect_columns(config, split_columns(config.get("text_column"), names), [names, *map(list, rows)])


def settle_other_columns(config: Config, table: Any, named: str = "") -> None:
    """The same for a table that a run is scored on, which has other columns than the run: they win over the run's."""
    before = {key: config.get(key) for key in ("text_column", "label_column") if not config.given(key)}
    settle_columns(config, table, named)
    found = {key: config.get(key) for key, value in before.items() if config.get(key) != value}
    for key, value in found.items():
        config.set(key, value)
    if found:
        logging.getLogger("elmo").info("%s: read with %s, as its first rows show; give your own to read it otherwise",
                                       named or "rows from memory", ", ".join(f"{key}={value!r}" for key, value in found.items()))


def has_flags(table: Any, beginning: str, named: str = "") -> bool:
    """Whether columns that begin so hold nothing but 0 and 1 in the first rows, as far as that can be seen."""
    columns = first_values(table, named)
    return columns is None or any(all(field_of(value) in FLAGS for value in values) and name.startswith(beginning)
                                  for name, values in zip(column_list(table), columns))


def first_values(table: Any, named: str) -> list[Sequence[Any]] | None:
    """The first values of each column; None of what can be read only once, and of what is no table."""
    if type(table).__name__ == "LazyFrame" or getattr(table, "ndim", 2) != 2:
        return None
    if module_of(table) == "pandas":
        return [table.iloc[:ROWS, i].tolist() for i in range(table.shape[1])]
    if module_of(table) == "datasets":
        table = next(iter(table.with_format("arrow").iter(batch_size=ROWS)), None)
    elif hasattr(table, "scanner"):  # a pyarrow data set
        table = table.head(ROWS)
    elif hasattr(table, "read_next_batch"):
        table = next(iter(opened(named)), None) if named else None
    if hasattr(table, "slice"):  # pyarrow, polars
        piece = table.slice(0, ROWS)
        columns = piece.get_columns() if hasattr(piece, "get_columns") else piece.columns
        values = [column.to_list() if hasattr(column, "to_list") else column.to_pylist() for column in columns]
        classes = [class_names(getattr(table, "schema", None), name) for name in column_list(table)]
        return [[NO_FIELD] if names else column for column, names in zip(values, classes)]
    if not isinstance(table, dict):
        return None
    if any(not isinstance(values, Iterable) or iter(values) is values for values in table.values()):
        return None
    return [list(itertools.islice(values, ROWS)) for values in table.values()]


def field_of(value: Any) -> str:
    """A value as a file of texts would have it."""
    if isinstance(value, str):
        return value
    if is_null(value):
        return ""
    if isinstance(value, (bool, np.bool_)):
        return str(int(value))
    return str(value) if isinstance(value, numbers.Real) else NO_FIELD
