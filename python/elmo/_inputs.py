"""Texts and labels in the forms that Python programs have them, to rows of a data set.

Each form is recognised by what it can do, not by its type, so no library is imported for it. What cannot be meant is
one elmo.DataError that says where and what."""
from __future__ import annotations

import difflib
import importlib
import itertools
import json
import numbers
import os
from typing import Any, Iterable, Iterator, Sequence

import numpy as np

from elmo._core import ConfigError, DataError, Rows

CHUNK = 1024  # rows that pass into C++ at a time
BLANKS = " \t\r\n"  # which the library takes away around labels
PARQUET, ARROW = (".parquet", ".pq"), (".arrow", ".feather", ".ipc")


def describe(value: Any) -> str:
    """On one line, and not longer than one."""
    shown = " ".join(repr(value).split()) if not isinstance(value, (str, bytes)) else repr(value)
    return f"{shown if len(shown) <= 60 else shown[:57] + '...'} ({type(value).__name__})"


def is_path(value: Any) -> bool:
    return isinstance(value, (str, os.PathLike))


def path_of(value: Any, what: str, of: str) -> str:
    """The path, or a message that says what was expected."""
    if not is_path(value):
        raise ConfigError(f"{what}: expected {of}, found {describe(value)}")
    if not is_utf8(path := os.fspath(value)):
        raise ConfigError(f"{what}: expected a str that UTF-8 can hold, found {path!r}; rename what is called so")
    return path


def is_utf8(text: str) -> bool:
    """Not of half a surrogate pair, as of a file name in another encoding."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def folder_of(run: Any) -> str:
    """The folder of a run."""
    return path_of(run, "run", "a Run, or its folder")


def module_of(value: Any) -> str:
    return type(value).__module__.partition(".")[0]


def iterate(values: Any, what: str, of: str) -> Iterator[Any]:
    """The elements of any sequence of values; a text or a number is none."""
    if isinstance(values, (str, bytes, dict)) or values is None:
        raise DataError(f"{what}: expected {of}, found {describe(values)}"
                        + ("; a single one goes into a list" if isinstance(values, str) else ""))
    if isinstance(values, (set, frozenset)):
        raise DataError(f"{what}: expected {of} in an order, found {describe(values)}")
    refuse_lazy(values, what)
    if is_matrix(values) and (names := column_list(values)):
        if len(names) > 1:
            raise DataError(f"{what}: expected {of}, found a table; give one of its columns, as "
                            + ("table['text']" if "text" in names else "table[NAME]"))
        values = np.asarray(values)
    if hasattr(values, "tocsr"):
        raise DataError(f"{what}: expected {of}, found a SciPy matrix of the shape {values.shape}")
    if getattr(values, "ndim", 1) != 1:
        shape = getattr(values, "shape", None)
        if len(shape or ()) != 2 or shape[1] != 1:
            raise DataError(f"{what}: expected {of} in one dimension, found the shape {shape}")
        values = np.asarray(values)[:, 0]
    if hasattr(values, "to_pylist"):  # pyarrow
        values = values.to_pylist()
    elif hasattr(values, "tolist") and not hasattr(values, "to_list"):  # NumPy
        values = values.tolist()
    try:
        return iter(values)
    except TypeError:
        raise DataError(f"{what}: expected {of}, found {describe(values)}") from None


def refuse_lazy(values: Any, what: str) -> None:
    if type(values).__name__ == "LazyFrame":
        raise DataError(f"{what}: expected data that is there, found a LazyFrame; call its collect() first")


def refuse_transform(table: Any, what: str) -> None:
    """A function that Hugging Face's data sets apply when rows are read, which reading the columns passes by."""
    form = getattr(table, "format", None) if module_of(table) == "datasets" else None
    if isinstance(form, dict) and form.get("type") == "custom":
        raise DataError(f"{what}: expected a data set without a transform, found one (set_transform, with_transform), which is not "
                        "applied here; apply it first: data.reset_format() and data.map(function, batched=True)")


def chunks(values: Iterable[Any]) -> Iterator[list[Any]]:
    values = iter(values)
    while chunk := list(itertools.islice(values, CHUNK)):
        yield chunk


def texts_of(texts: Any) -> Iterator[str]:
    if is_path(texts) and os.path.isfile(texts):
        name = os.fspath(texts)
        reader = "parquet" if name.endswith(PARQUET) else "feather" if name.endswith(ARROW) else "csv"
        raise DataError(f"texts: expected a sequence of str, found the file '{name}'; read it first, as pandas.read_{reader} does, "
                        "and give a column of it")
    return iterate(texts, "texts", "a sequence of str")


def is_null(value: Any) -> bool:
    return value is None or type(value).__name__ == "NAType" or (isinstance(value, float) and value != value)


def name_of(label: Any, where: str, allow_null: bool = False, of_text: bool = False) -> str | None:
    """Without blanks around it; None for a null that is allowed. With `of_text` it is one of the labels of a text."""
    if isinstance(label, str):
        if not label.isascii() and not is_utf8(label):
            raise DataError(f"{where}: expected a str that UTF-8 can hold, found {describe(label)}")
        if not (name := label.strip(BLANKS)):
            raise DataError(f"{where}: expected a label's name, found " + (describe(label) if label else "an empty str")
                            + ("; leave it out: a text without labels has an empty list" if of_text else ""))
        return name
    if isinstance(label, numbers.Integral) and not isinstance(label, (bool, np.bool_)):
        return str(int(label))
    advice = ""
    if is_null(label):
        if allow_null:
            return None
        if where.startswith("column"):
            advice = ("; leave it out of the list, or allow_null_labels=True takes it as no label" if "][" in where else
                      "; leave such rows out (dropna), or take them as texts without labels (allow_null_labels=True)")
        elif of_text:
            advice = "; a text without labels has an empty list, or allow_null_labels=True"
    elif isinstance(label, float) and label.is_integer():
        advice = "; convert it: astype('Int64') of pandas makes whole numbers and keeps gaps"
    elif isinstance(label, (bool, np.bool_)):
        advice = ("; convert it: astype(str) makes names, astype(int) numbers" if where.startswith("column") else
                  "; make names of them: [str(label) for label in labels]")
    raise DataError(f"{where}: expected a label's name or whole number, found {describe(label)}{advice}")


def whole_if_float(entry: Any, where: str) -> Any:
    """A label that is a whole number as a float, as pandas has them beside a gap, as an int; anything else as it is."""
    if not isinstance(entry, float) or not entry.is_integer():
        return entry
    if abs(entry) > 2**53:
        raise DataError(f"{where}: expected a label's name or whole number, found a number beyond 2^53, which may be rounded "
                        f"({describe(entry)}); convert it: astype('Int64') of pandas makes whole numbers and keeps gaps")
    return int(entry)


def as_list(entry: Any) -> Any:
    """The labels of one text as a list or tuple where they are several in any form; one label as it is."""
    if isinstance(entry, (set, frozenset)):
        return sorted(entry, key=str)  # the same order in every process
    for method in ("tolist", "to_list"):  # NumPy and pandas; polars
        if hasattr(entry, method):
            return getattr(entry, method)()
    return entry


def names_of(entry: Any, where: str, allow_null: bool = False) -> list[str | None]:
    """The labels of one text: a list of names or numbers, or one of them; None for nulls."""
    is_set, entry = isinstance(entry, (set, frozenset)), as_list(entry)
    if isinstance(entry, (list, tuple)):
        names = [name_of(label, f"{where}[{i}]", allow_null, True) for i, label in enumerate(entry)]
        return list(dict.fromkeys(names)) if is_set else names  # two that differ in blanks are one
    return [name_of(entry, where, allow_null, True)]


def is_matrix(labels: Any) -> bool:
    return len(getattr(labels, "shape", ())) == 2


def has_names(matrix: Any) -> bool:
    """Whether it is a frame whose columns somebody named; pandas numbers the others."""
    return hasattr(matrix, "columns") and type(matrix.columns).__name__ != "RangeIndex"


def dense_matrix(matrix: Any, what: str, of: str = "0 and 1") -> np.ndarray:
    """A matrix of numbers as NumPy has it. The nullable columns of pandas are objects there; nulls become NaN."""
    array = np.asarray(matrix)
    if array.dtype == object:
        values = [np.nan if is_null(value) else value for value in array.ravel()]
        for value in values:
            if not isinstance(value, (numbers.Real, np.bool_)):
                raise DataError(f"{what}: expected a matrix of {of}, found {describe(value)}")
        array = np.array(values, np.float64).reshape(array.shape)
    return array


def column_names(labels: Any, given: Sequence[Any] | None, columns: int) -> list[str]:
    if given is None:
        given = list(labels.columns) if hasattr(labels, "columns") else range(columns)
    names = [name_of(name, f"label_names[{i}]") for i, name in enumerate(iterate(given, "label_names", "a name per column"))]
    if len(names) != columns:
        raise DataError(f"label_names: expected {columns}, one per column of labels, found {len(names)}")
    if len(set(names)) != len(names):
        raise DataError("label_names: expected every name once, found one more than once")
    return names


# What to do about a null in the place of 0 or 1.
FLAG_ADVICE = "fill such gaps with 0, or take them as no label (allow_null_labels=True)"


def matrix_rows(labels: Any, label_names: Sequence[Any] | None, allow_null: bool) -> Iterator[list[str | None]]:
    """A row per text, a column per label, 1 where the text has the label: SciPy, NumPy or a DataFrame. A row with nulls that
    are allowed ends in None."""
    names = column_names(labels, label_names, labels.shape[1])
    is_sparse = hasattr(labels, "tocsr")
    labels = labels.tocsr() if is_sparse else dense_matrix(labels, "labels")
    values = labels.data if is_sparse else labels.ravel()
    if values.dtype.kind not in "biuf":
        raise DataError(f"labels: expected a matrix of 0 and 1, found values of type {values.dtype}")
    is_gap = values != values
    if (strange := values[~np.isin(values, (0, 1)) & ~is_gap]).size:
        raise DataError(f"labels: expected a matrix of 0 and 1, found {strange[0]}")
    gaps = np.flatnonzero(is_gap)
    rows, columns = ((np.searchsorted(labels.indptr, gaps, "right") - 1, labels.indices[gaps]) if is_sparse else
                     np.divmod(gaps, len(names)))
    if gaps.size and not allow_null:
        raise DataError(f"labels: expected a matrix of 0 and 1, found nan in row {rows[0]}, column '{names[columns[0]]}'; {FLAG_ADVICE}")
    with_gap = np.zeros(labels.shape[0], bool)
    with_gap[rows] = True
    for row in range(labels.shape[0]):
        if is_sparse:
            there = slice(labels.indptr[row], labels.indptr[row + 1])
            of_row = np.sort(labels.indices[there][labels.data[there] == 1])
        else:
            of_row = np.flatnonzero(labels[row] == 1)
        yield [*(names[c] for c in of_row), *([None] if with_gap[row] else [])]


def refuse_flags(labels: Any, what: str) -> None:
    """Rows of 0 and 1 as `tolist` of a matrix makes them, or its rows. Equal rows [0, 1] may be the labels 0 and 1 of each
    text."""
    rows_again = isinstance(labels, (list, tuple)) or hasattr(labels, "to_list") or hasattr(labels, "tolist")
    if not rows_again or not hasattr(labels, "__len__") or getattr(labels, "ndim", 1) == 0 or len(labels) == 0:
        return  # what is read only once, and what has no rows of labels
    first = next(iter(labels))
    if isinstance(first, (set, frozenset)) or not isinstance(first := as_list(first), (list, tuple)) or len(first) < 2:
        return
    rows, width = list(map(as_list, labels)), len(first)
    if all(isinstance(row, (list, tuple)) and len(row) == width
           and all(isinstance(value, (numbers.Real, np.bool_)) and value in (0, 1) for value in row) for row in rows
           ) and (len(set(first)) < width or len(set(map(tuple, rows))) > 1):
        raise DataError(f"{what}: expected the labels of each text, found rows of {width} values that are 0 or 1, which are a "
                        "matrix; give it as one: " + ("texts=…, labels=numpy.array(...)" if what.startswith("column") else
                                                      "numpy.array(...)"))


def label_rows(labels: Any, label_names: Sequence[Any] | None = None, fields: bool = False,
               allow_null: bool = False, what: str = "labels") -> Iterator[list[str | None] | str]:
    """The labels of each text, by name. With `fields`, a str stays one: it is read as a field of a file is."""
    if getattr(getattr(labels, "dtype", None), "kind", "-") in "UT":  # a NumPy array of names
        labels = labels.tolist()
    if is_matrix(labels):
        yield from matrix_rows(labels, label_names, allow_null)
        return
    refuse_flags(labels, what)
    if label_names is not None:
        raise DataError("label_names: expected with labels as a matrix only")
    for row, entry in enumerate(iterate(labels, what, "an entry per text")):
        if fields and isinstance(entry, str):
            yield entry
        else:
            yield names_of(whole_if_float(entry, where := f"{what}[{row}]"), where, allow_null)


def add_values(rows: Rows, texts: Any, labels: Any, label_names: Any = None, test: bool = False,
               fields: bool = False, allow_null: bool = False, what: str = "labels") -> int:
    """Texts and labels, which must be as many; messages call the labels `what`. Returns how many."""
    if labels is None:
        raise DataError("labels: expected an entry per text, found None")
    for values, name in ((texts, "texts"), (labels, what)):
        if len(getattr(values, "shape", (1,))) == 0:
            raise DataError(f"{name}: expected a sequence, found a single value")
    count, labelled = 0, fields  # a column of a table is read later
    label_iterator = label_rows(labels, label_names, fields, allow_null, what)
    for chunk in chunks(texts_of(texts)):
        names = list(itertools.islice(label_iterator, len(chunk)))
        if len(names) < len(chunk):
            raise DataError(f"{what}: expected an entry per text, found {count + len(names)} for more texts")
        rows.add(chunk, names, count, test)
        count += len(chunk)
        labelled = labelled or any(name is not None for row in names for name in row)
    if count == 0 and not test:
        raise DataError("texts: expected at least one text, found none")
    if next(label_iterator, None) is not None:
        raise DataError(f"{what}: expected an entry per text, found more than the {count} texts")
    if not labelled and not test:
        raise DataError("labels: expected at least one label, found none")
    return count


def split_columns(text_column: str, there: Iterable[str] = ()) -> list[str]:
    """The columns that text_column joins by +, of a table with the columns `there`, whose names may hold a + or end in a blank
    themselves: of several ways to read it, the one whose first names are the longest. The library knows a copy of the rows by
    what is between the signs."""
    pieces, there = text_column.split("+"), set(there)
    ways: list[list[str] | None] = [*([None] * len(pieces)), []]  # to read what follows so many pieces
    for begin in reversed(range(len(pieces))):
        for end in range(len(pieces), begin, -1):
            name = "+".join(pieces[begin:end])
            name = name if name in there else name.strip()
            if name in there and (others := ways[end]) is not None:
                ways[begin] = [name, *others]
                break
    parts = [piece.strip() for piece in pieces]
    if any("+" in name for name in ways[0] or ()) and ("" in parts or len(set(parts)) < len(parts)):
        raise ConfigError(f"text_column: expected names without equal or empty parts between their + signs, found {text_column!r}; "
                          "rename a column")
    return ways[0] or parts


def listed_names(names: Sequence[str]) -> str:
    """In quotes, as many as a line holds."""
    shown = list(itertools.takewhile(lambda i: sum(len(name) + 4 for name in names[:i + 1]) <= 80 or i == 0,
                                     range(min(len(names), 40))))
    text = ", ".join(f"'{names[i][:60]}'" for i in shown)
    return text + (f" and {len(names) - len(shown)} more" if len(shown) < len(names) else "")


def missing_column(column: str, of_labels: bool, names: Sequence[str]) -> DataError:
    """What to say about a column that the table does not have."""
    known = listed_names(names)
    near, advice = difflib.get_close_matches(column, list(names), 1), "name it with text_column or label_column"
    for joint in ",;|&/+ ":
        parts = [part.strip() for part in column.split(joint) if part.strip()]
        if len(parts) > 1 and set(parts) <= set(names):
            near = []
            advice = (f"labels are those of one column: join {' and '.join(map(repr, parts))} first" if of_labels else
                      f"+ joins columns: text_column={'+'.join(parts)!r}")
            break
    return DataError(f"expected a column '{column}'{f' (did you mean {near[0]!r}?)' if near else ''}, "
                     f"found {known or 'none'}; {advice}")


def require_once(column: str, names: Sequence[str]) -> None:
    if (times := names.count(column)) > 1:  # pandas and Arrow allow it
        raise DataError(f"expected the column '{column}' once, found it {times} times; rename one of them")


def stands_for_columns(label_column: str, names: Iterable[str]) -> bool:
    """'*', or a beginning and '*', where no column is called so: each such column is a label and holds 0 or 1."""
    return label_column.endswith("*") and label_column not in names


FLAGS = {"": 0, "0": 0, "0.0": 0, "false": 0, "False": 0, "FALSE": 0, "1": 1, "1.0": 1, "true": 1, "True": 1, "TRUE": 1}


def flags_of(values: Any, column: str, needed: bool, allow_null: bool) -> np.ndarray | None:
    """A column of 0 and 1, where an empty text is 0, as in a file, and a null that is allowed NaN; None of one that holds
    anything else, or only nulls, unless it is needed."""
    array = np.asarray(values)
    if array.ndim == 1 and array.dtype.kind in "biu" and np.isin(array, (0, 1)).all():
        return array.astype(np.uint8)
    flags: list[float] = []
    first_null = None
    for row, value in enumerate(iterate(values, f"column '{column}'", "0 and 1")):
        if is_null(value):
            first_null = first_null or (row, value)
            flags.append(np.nan)
            continue
        flag = FLAGS.get(value.strip()) if isinstance(value, str) else None
        if flag is None and isinstance(value, (numbers.Real, np.bool_)) and value in (0, 1):
            flag = int(value)
        if flag is None and needed:
            raise DataError(f"column '{column}'[{row}]: expected 0 or 1, found {describe(value)}; name the columns of the "
                            "labels with label_column")
        if flag is None:
            return None
        flags.append(flag)
    if first_null is None:
        return np.array(flags, dtype=np.uint8)
    array = np.array(flags, dtype=np.float32)
    if not needed and np.isnan(array).all():
        return None
    if not allow_null:
        raise DataError(f"column '{column}'[{first_null[0]}]: expected 0 or 1, found {describe(first_null[1])}; {FLAG_ADVICE}")
    return array


def add_flags(rows: Rows, table: Any, columns: list[str], label_column: str, allow_null: bool, test: bool) -> int:
    """The rows of a table whose labels are columns of 0 and 1."""
    if hasattr(table, "read_all"):
        table = table.read_all()
    if module_of(table) == "datasets":
        table = table.with_format("arrow")  # whose format may leave columns out
    names = column_list(table)
    for column in columns:
        require_once(column, names)
        if column not in names:
            raise missing_column(column, False, names)
    keys = {str(key): key for key in (table.keys() if hasattr(table, "keys") else names)}
    beginning = label_column[:-1]
    labels: dict[str, np.ndarray] = {}
    for name in names:
        if name in columns or not name or not name.startswith(beginning):
            continue
        require_once(name, names)
        if (flags := flags_of(table[keys[name]], name, bool(beginning), allow_null)) is not None:
            labels[name] = flags
    if not labels:
        raise DataError(f"label_column: expected columns of 0 and 1 for '{label_column}', found none; write 1 where a row has "
                        "the label that a column is named by, and 0 where it has not")
    fields = {column: iterate(table[keys[column]], f"column '{column}'", "texts") for column in columns}
    return add_values(rows, texts_in(fields), np.column_stack(list(labels.values())), list(labels), test=test,
                      allow_null=allow_null)


def has_categories(values: Any) -> bool:
    """A column of categories: of pandas, polars or Arrow (a dictionary)."""
    kind = getattr(values, "dtype", getattr(values, "type", None))
    return type(kind).__name__ in ("CategoricalDtype", "Categorical", "Enum", "DictionaryType")


def add_table(rows: Rows, table: Any, text_column: str, label_column: str, allow_null: bool, cut_categories: bool,
              test: bool, what: str) -> int:
    """The rows of a DataFrame, an Arrow table, a Hugging Face data set or a dict of columns. A text in the label column
    is a field as a file has it; a category is one label, unless they are to be cut too."""
    refuse_lazy(table, what)
    if module_of(table) == "pandas" and getattr(table, "ndim", 2) == 1:
        raise DataError(f"{what}: expected a table, found a {type(table).__name__}; give texts=… and labels=…")
    refuse_transform(table, what)
    there = column_list(table)
    columns = split_columns(text_column, there)
    if there and stands_for_columns(label_column, there):
        return add_flags(rows, table, columns, label_column, allow_null, test)
    for column in (*columns, label_column) if there else ():
        if column not in there:
            raise missing_column(column, column == label_column, there)
    of_hugging_face = module_of(table) == "datasets"
    features = getattr(table, "features", None) if of_hugging_face else None
    names = class_names(table if features is None else features.arrow_schema, label_column)
    if of_hugging_face or names:
        count = 0
        pieces = table.with_format("arrow").iter(batch_size=CHUNK) if of_hugging_face else batches_in(table)
        for piece in pieces:
            if names:
                piece = with_names(piece, label_column, names)
            count += rows.add_arrow(piece.__arrow_c_stream__(), columns, label_column, allow_null, cut_categories, count,
                                    test)
        return count
    if hasattr(table, "__arrow_c_stream__") and module_of(table) != "pandas":
        return rows.add_arrow(table.__arrow_c_stream__(), columns, label_column, allow_null, cut_categories, 0, test)
    if not hasattr(table, "keys") or not hasattr(table, "__getitem__"):
        advice = ("give texts=… and labels=…, or pandas.DataFrame(…) of rows" if what == "data" else
                  "give a tuple (texts, labels), or pandas.DataFrame(…) of rows")
        raise DataError(f"{what}: expected a path, a table or a dict of columns, found {describe(table)}; {advice}")
    keys = {str(key): key for key in table.keys()}  # a frame without a header has numbers
    for column in (*columns, label_column):
        require_once(column, there)
        if column not in keys:
            raise missing_column(column, column == label_column, list(keys))
    fields = {column: iterate(table[keys[column]], f"column '{column}'", "texts") for column in columns}
    labels = table[keys[label_column]]
    if has_categories(labels) and not cut_categories:
        labels = (label if not isinstance(label, str) else [label] if label.strip(BLANKS) else []
                  for label in iterate(labels, f"column '{label_column}'", "an entry per text"))
    return add_values(rows, texts_in(fields), labels, test=test, fields=True, allow_null=allow_null,
                      what=f"column '{label_column}'")


def class_names(schema: Any, column: str) -> list[str]:
    """What the numbers of a column, or of its lists, are called in a schema that Hugging Face's library wrote (in the
    files that it saves, too): the names of its ClassLabel. None of any other column."""
    metadata = getattr(getattr(schema, "schema", schema), "metadata", None)
    text = metadata.get(b"huggingface") if isinstance(metadata, dict) else None
    try:
        feature = json.loads(text or "{}")["info"]["features"][column]
        while isinstance(feature, list) or "feature" in feature:
            feature = feature[0] if isinstance(feature, list) else feature["feature"]
        names = feature["names"] if feature["_type"] == "ClassLabel" else []
    except (ValueError, KeyError, TypeError, IndexError, RecursionError):
        return []
    return names if isinstance(names, list) and all(isinstance(name, str) for name in names) else []


def batches_in(table: Any) -> Iterator[Any]:
    """Of a pyarrow Table or RecordBatchReader."""
    import pyarrow
    for batch in table.to_batches() if hasattr(table, "to_batches") else table:
        yield pyarrow.Table.from_batches([batch])


def with_names(piece: Any, column: str, names: list[str]) -> Any:
    """A pyarrow Table with names in the place of a column's numbers, as categories: a name is one label. A negative
    number, Hugging Face's for "not known", is a null."""
    import pyarrow
    from pyarrow import compute, types

    def named(values: Any) -> Any:
        if not types.is_integer(values.type):
            return values
        known = compute.if_else(compute.less(values, 0), pyarrow.scalar(None, values.type), values)
        try:
            return pyarrow.array(names, pyarrow.string()).take(known).dictionary_encode()
        except pyarrow.ArrowIndexError:
            raise DataError(f"column '{column}': expected numbers below {len(names)}, the number of its names, "
                            f"found {compute.max(values).as_py()}") from None

    if column not in piece.column_names:
        return piece  # whoever reads it says so
    values = pyarrow.concat_arrays(piece.column(column).chunks) if piece.num_rows else piece.column(column)
    if any(is_list(values.type) for is_list in (types.is_list, types.is_large_list, types.is_fixed_size_list)):
        if piece.num_rows:
            counts = compute.fill_null(compute.list_value_length(values), 0).to_numpy()
            offsets = pyarrow.array(np.concatenate(([0], np.cumsum(counts, dtype=np.int64))))
            nulls = values.is_null() if values.null_count else None
            values = pyarrow.LargeListArray.from_arrays(offsets, named(values.flatten()), mask=nulls)
    else:
        values = named(values)
    return piece.set_column(piece.column_names.index(column), column, values)


def column_list(table: Any) -> list[str]:
    """Names of the columns of whatever add_table reads; none of anything else, which add_table refuses."""
    for names in ("column_names", "columns"):  # Hugging Face and pyarrow; polars and pandas
        if isinstance(getattr(table, names, None), Iterable):
            return list(map(str, getattr(table, names)))
    schema = getattr(table, "schema", None)  # a RecordBatchReader
    names_there = schema.names if schema is not None else table.keys() if hasattr(table, "keys") else ()
    return list(map(str, names_there))


def joined(columns: dict[str, Iterator[Any]]) -> Iterator[Any]:
    """Columns joined by a space; None and NaN are empty in all but the first."""
    _, *others = columns
    ended = object()
    for row, (text, *more) in enumerate(itertools.zip_longest(*columns.values(), fillvalue=ended)):
        for column, piece in zip(columns, (text, *more)):
            if piece is ended:
                raise DataError(f"column '{column}': expected as many entries as the other columns, found {row}")
        for column, piece in zip(others, more):
            if not isinstance(piece, str) and not is_null(piece):
                raise DataError(f"column '{column}'[{row}]: expected a str, None or NaN, found {describe(piece)}")
        pieces = [text, *(piece for piece in more if isinstance(piece, str))]
        yield " ".join(piece for piece in pieces if piece) if isinstance(text, str) else text


def texts_in(columns: dict[str, Iterator[Any]]) -> Iterator[Any]:
    """The texts of a table, joined where they are in several columns."""
    first = next(iter(columns))
    for row, text in enumerate(joined(columns) if len(columns) > 1 else columns[first]):
        if not isinstance(text, str) and is_null(text):
            raise DataError(f"column '{first}'[{row}]: expected a str, found {describe(text)}; leave such rows out, or fill "
                            "them with ''")
        if not isinstance(text, str):
            advice = ("join its parts to one str" if isinstance(as_list(text), (list, tuple)) else
                      "convert it to str, or name another column with text_column")
            raise DataError(f"column '{first}'[{row}]: expected a str, found {describe(text)}; {advice}")
        yield text


class Splits(dict):
    """The splits of a folder that a Hugging Face DatasetDict was saved to, by name."""


def opened(data: Any) -> Any:
    """The table in a file or folder that only Python reads: Parquet, Arrow, or what `save_to_disk` of a Hugging Face
    data set wrote. Anything else as it is."""
    if not is_path(data):
        return data
    path = os.fspath(data)
    if path.lower().endswith((*PARQUET, *ARROW)):
        if not os.path.exists(path):
            raise DataError(f"{path}: no such file or folder")
        if path.lower().endswith(PARQUET):
            return parquet(path)
        return batches_of([path])
    if os.path.isfile(os.path.join(path, "dataset_dict.json")):
        return Splits({name: saved_table(os.path.join(path, name)) for name in split_names(path)})
    if os.path.isfile(os.path.join(path, "state.json")) and os.path.isfile(os.path.join(path, "dataset_info.json")):
        return saved_table(path)
    return data


def parquet(path: str) -> Any:
    """A pyarrow data set of a Parquet file, or of a folder of such files."""
    dataset = arrow("dataset", path)
    import pyarrow
    try:
        return dataset.dataset(path, format="parquet")
    except pyarrow.ArrowInvalid:
        raise DataError(f"{path}: expected a Parquet file, found one of another format, or a damaged one") from None
    except OSError as error:
        raise DataError(f"{path}: {error}") from None


def csr_type(what: str) -> Any:
    """SciPy's csr_matrix, for what makes one."""
    try:
        return importlib.import_module("scipy.sparse").csr_matrix
    except ImportError:
        raise ConfigError(f"{what} SciPy, which is not installed: pip install scipy") from None


def arrow(part: str, path: str) -> Any:
    try:
        return importlib.import_module("pyarrow." + part)
    except ImportError:
        raise DataError(f"{path}: it is read with pyarrow, which is not installed: pip install pyarrow") from None


def json_file(folder: str, name: str) -> dict[str, Any]:
    file = os.path.join(folder, name)
    try:
        with open(file, encoding="utf-8") as opened_file:
            found = json.load(opened_file)
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{file}: {error}") from None
    if not isinstance(found, dict):
        raise DataError(f"{file}: expected an object, found {describe(found)}")
    return found


def split_names(folder: str) -> list[str]:
    """Of a saved DatasetDict: folders inside of it, nothing elsewhere."""
    names = json_file(folder, "dataset_dict.json").get("splits")
    if not isinstance(names, list) or not all(isinstance(name, str) and name not in ("", ".", "..")
                                              and name == os.path.basename(name) for name in names):
        raise DataError(f"{os.path.join(folder, 'dataset_dict.json')}: expected the names of folders in splits, "
                        f"found {describe(names)}")
    return names


def saved_table(folder: str) -> Any:
    """The rows that `Dataset.save_to_disk` wrote; files of its folder only, whatever their names say."""
    state = json_file(folder, "state.json")
    try:
        names = [os.path.basename(file["filename"]) for file in state["_data_files"]]
    except (KeyError, TypeError):
        raise DataError(f"{os.path.join(folder, 'state.json')}: expected the files of the rows in _data_files") from None
    if not names or state.get("_indices_data_files") or state.get("_indices_files"):
        raise DataError(f"{folder}: expected files with all of its rows; give datasets.load_from_disk({folder!r}) instead")
    return batches_of([os.path.join(folder, name) for name in names])


def batches_of(files: list[str]) -> Any:
    """A reader of the rows of Arrow files, one after another; both of Arrow's formats, the file and the stream."""
    ipc = arrow("ipc", files[0])
    import pyarrow

    def batches(file: str) -> tuple[Any, Iterator[Any]]:
        try:
            source = pyarrow.memory_map(file)
            if source.read(6) == b"ARROW1":
                reader = ipc.open_file(source)
                return reader.schema, (reader.get_batch(i) for i in range(reader.num_record_batches))
            source.seek(0)
            reader = ipc.open_stream(source)
            return reader.schema, iter(reader)
        except (OSError, pyarrow.ArrowException) as error:
            raise DataError(f"{file}: expected Arrow's file or stream format: {error}") from None

    schema, first = batches(files[0])
    others = itertools.chain.from_iterable(batches(file)[1] for file in files[1:])
    return pyarrow.RecordBatchReader.from_batches(schema, itertools.chain(first, others))


def reader_of(table: Any, columns: list[str]) -> Any:
    """Of a pyarrow data set only the columns that are needed; where one is missing all: for the message, or since it
    stands for several."""
    if not hasattr(table, "scanner"):
        return table
    has_all = set(columns) <= set(table.schema.names)
    return table.scanner(columns=columns if has_all else None).to_reader()
