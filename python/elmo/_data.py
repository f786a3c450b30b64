"""The data set of a call: a path that the library reads itself, or rows from memory."""
from __future__ import annotations

import contextlib
import logging
import numbers
import os
from pathlib import Path
from typing import Any, Collection, Iterator, Mapping

from elmo._config import text_of
from elmo._core import Config, ConfigError, DataError, Rows, is_row_folder, known_path, resolve_for_run
from elmo._detect import has_flags, settle_columns, settle_other_columns
from elmo._inputs import (BLANKS, Splits, add_table, add_values, column_list, folder_of, has_names, is_matrix, is_path,
                          iterate, module_of, name_of, opened, reader_of, split_columns, stands_for_columns)


COLUMNS = ("text_column", "label_column")
# What the folder of a run has, also before its first checkpoint; that of a checkpoint has the third.
PARTS = ("best", "last", "manifest.json", "recipe.toml", "log.jsonl")


def require_run(run: Any) -> None:
    """DataError where nothing is that could be a run."""
    folder = folder_of(run)
    if not any(os.path.exists(os.path.join(folder, part)) for part in PARTS):
        found = ("a folder without best, last or manifest.json; name the folder that training wrote" if os.path.isdir(folder)
                 else "a file" if os.path.exists(folder) else "nothing")
        raise DataError(f"{folder}: expected the folder of a run, found {found}")


def allows_null(config: Config) -> bool:
    return config.get("allow_null_labels") == "true"


def new_rows(config: Config) -> Rows:
    """Rows that a run remembers by the columns of the table that they are from."""
    text_column, label_column = config.get("text_column"), config.get("label_column")
    if label_column in split_columns(text_column):
        raise ConfigError(f"label_column: expected another column than those of text_column, found {label_column!r} in both")
    rows = Rows()
    rows.name_columns(text_column, label_column)
    return rows


def names_beside(label_names: Any, labels: Any, of_pair: Any) -> Any:
    """What names the columns of a pair's matrix: `label_names`, or the columns of the frame `labels` that it stands beside,
    unless it has such names itself, perhaps in another order. None: its own names, or numbers."""
    if not is_matrix(of_pair):
        return None
    if label_names is None:
        label_names = getattr(labels, "columns", None) if is_matrix(labels) else None
    if label_names is None:
        return None
    label_names = list(iterate(label_names, "label_names", "a name per column"))
    if not has_names(of_pair):
        return label_names
    known = {name_of(name, f"label_names[{i}]") for i, name in enumerate(label_names)}
    return None if {name.strip(BLANKS) for name in column_list(of_pair)} <= known else label_names


@contextlib.contextmanager
def about(file: str) -> Iterator[None]:
    """Errors about the rows of a file begin with its name."""
    try:
        yield
    except DataError as error:
        raise (DataError(f"{file}: {error}") if file else error) from None


def add_any(rows: Rows, data: Any, config: Config, test: bool, what: str, label_names: Any = None,
            labels: Any = None, named: str = "") -> None:
    """A pair of texts and labels, a table, or a file of one, which may be `named` already. The columns of a pair's matrix
    are called as those of the matrix `labels` that it stands beside."""
    if isinstance(data, tuple):
        if len(data) != 2:
            raise DataError(f"{what}: expected a pair of texts and labels, found {len(data)} values")
        if add_values(rows, *data, names_beside(label_names, labels, data[1]), test, allow_null=allows_null(config),
                      what=f"{what}[1]") == 0:
            raise DataError(f"{what}: expected at least one row, found none")
        return
    text_column, label_column = config.get("text_column"), config.get("label_column")
    named, data = named or name_of_file(data), opened(data)
    if is_path(data):
        raise DataError(f"{what}: expected a pair of texts and labels, a table, a Parquet or an Arrow file, found the path "
                        f"{os.fspath(data)!r}; give a folder with both train and test files as data instead")
    data = reader_of(data, list(dict.fromkeys([*split_columns(text_column, column_list(data)), label_column])))
    cut_categories = config.get("label_separator") != "auto"
    with about(named):
        if add_table(rows, data, text_column, label_column, allows_null(config), cut_categories, test, what) == 0:
            raise DataError(f"{'' if named else what + ': '}expected at least one row, found none")


def has_splits(data: Any) -> bool:
    return isinstance(data, Splits) or (module_of(data) == "datasets" and isinstance(data, Mapping))


def splits_of(data: Any) -> tuple[Any, Any]:
    """Training and test rows; a Hugging Face DatasetDict has both."""
    if has_splits(data):
        if "train" not in data:
            raise DataError(f"data: expected a split 'train', found {', '.join(data)}")
        return data["train"], data.get("test")
    return data, None


def test_of(data: Any) -> Any:
    """The rows that a run is judged by; those of a Hugging Face DatasetDict are its test split."""
    if has_splits(data):
        if "test" not in data:
            raise DataError(f"data: expected a split 'test', found {', '.join(data)}; give one of them: "
                            f"data[{next(iter(data), 'test')!r}]")
        return data["test"]
    return data


def columns_of_run(of_run: Config, table: Any, there: Collection[str], named: str) -> dict[str, tuple[str, bool]]:
    """The columns that a run reads, and whether the table, which has those `there`, has them."""
    texts, labels = of_run.get("text_column"), of_run.get("label_column")
    return {"text_column": (texts, set(split_columns(texts, there)) <= set(there)),
            "label_column": (labels, has_flags(table, labels[:-1], named) if stands_for_columns(labels, there) else labels in there)}


def set_columns_of_run(config: Config, run: Any, data: Any, options: Mapping[str, Any], named: str = "") -> None:
    """What is not given as an option is read from the columns that the run was trained on, unless the table lacks them
    and has others that must be meant. Texts and labels without a table are called as these columns."""
    require_run(run)
    named, data = named or name_of_file(data), opened(data)
    if is_path(data):
        return  # the library reads it, and knows the run
    table = None if data is None else splits_of(data)[0]
    there = set(() if data is None else column_list(table))
    of_run, of_table = resolve_for_run(folder_of(run), config), name_of_split(named, data, "train")
    for key, (columns, has_them) in columns_of_run(of_run, table, there, of_table).items():
        if options.get(key) is None and has_them:
            config.set(key, columns)
    if data is not None:
        settle_other_columns(config, table, of_table)
    for key in COLUMNS:
        if not config.given(key):
            config.set(key, config.get(key) if config.get(key) in there else of_run.get(key))
    for key in ("allow_null_labels", "label_separator"):
        if options.get(key) is None:
            config.set_of_run(key, of_run.get(key))


def is_table_name(path: str) -> bool:
    """Of CSV and TSV, plain or compressed: they validate a training file of their format only."""
    return not {".csv", ".tsv"}.isdisjoint(Path(path.lower()).suffixes)


def has_matrix(pair: Any) -> bool:
    """Of texts and labels."""
    return isinstance(pair, tuple) and len(pair) == 2 and is_matrix(pair[1])


def refuse_labels_alone(texts: Any, labels: Any, label_names: Any) -> None:
    """Labels that nothing would read."""
    for what, value in (("labels", labels), ("label_names", label_names)):
        if texts is None and value is not None:
            raise ConfigError(f"{what}: expected beside texts only; the labels of a table are its label_column")


def refuse_share_beside_test(config: Config, test_share: Any) -> None:
    """A share that nothing would hold out."""
    if test_share is not None and float(config.get("test_share")) != 0:
        raise ConfigError(f"test_share: expected none beside test rows (no others are held out then), found {test_share}; "
                          "leave it out, or give training rows alone")


def refuse_separator(texts: Any, options: Mapping[str, Any]) -> None:
    """What would do nothing."""
    if texts is not None and options.get("label_separator") is not None:
        raise ConfigError("label_separator: expected with tables and files only; in labels= a text is one label: give lists of "
                          "labels")


def set_nothing_but_validation(config: Config, labels: Any, test: Any, validation: Any, label_names: Any) -> list[Rows]:
    """Of a call without rows, which takes those of another run."""
    refuse_labels_alone(None, labels, None if has_matrix(validation) else label_names)
    if test is not None:
        raise ConfigError("test: expected beside data or texts only; give the rows for training, too")
    return set_validation(config, validation, False, label_names)


def is_rows(validation: Any) -> bool:
    """Rows from memory, not a share or a file."""
    return validation is not None and not is_path(validation) and not isinstance(validation, numbers.Real)


def is_file(validation: Any) -> bool:
    """A path, not a share that is written as a string."""
    if not is_path(validation):
        return False
    try:
        float(os.fspath(validation))
    except ValueError:
        return True
    return False


def is_gone(validation: str) -> bool:
    """A file of a run or a recipe that is not there: the library says so where its rows are asked for."""
    return is_file(validation) and not os.path.exists(validation)


def set_validation(config: Config, validation: Any, beside_memory: bool, label_names: Any = None,
                   labels: Any = None, reading: Config | None = None) -> list[Rows]:
    """A share, a file or rows, or what a recipe names; returns what has to live as long as it is used. A table is read by
    the options of `reading`, where its columns are others than those of the data."""
    if validation is None and config.given("validation"):
        of_recipe = config.get("validation")
        validation = None if is_gone(of_recipe) or is_path(opened(of_recipe)) else of_recipe
    named, validation = name_of_file(validation), opened(validation)
    if is_rows(validation):
        rows, scratch = new_rows(config), Config()
        add_any(rows, validation, reading or config, False, "validation", label_names, labels, named)
        rows.finish(scratch, named)
        config.set_copy("validation", os.path.join(scratch.get("data"), "train.jsonl"),
                        named or os.path.join(scratch.original("data"), "train.jsonl"))
        return [rows]
    if validation is not None:
        if beside_memory and is_path(validation) and is_table_name(os.fspath(validation)):
            raise DataError("validation: expected a pair of texts and labels, a table, or a file of JSON lines, Parquet or "
                            f"Arrow beside rows from memory, found the path {os.fspath(validation)!r}; read it first, as "
                            "pandas.read_csv does")
        config.set("validation", text_of("validation", validation))
    return []


def set_validation_alone(config: Config, validation: Any, label_names: Any) -> list[Rows]:
    """Rows to calibrate a run with, as a data set of their own: none of those that trained it is needed, in whatever format
    they were."""
    rows = new_rows(config)
    add_any(rows, validation, config, False, "validation", label_names)
    rows.finish(config, name_of_file(validation))
    config.set("validation", os.path.join(config.get("data"), "train.jsonl"))
    config.set("test_share", "0")
    return [rows]


def set_data(config: Config, data: Any, texts: Any, labels: Any, test: Any = None, validation: Any = None,
             label_names: Any = None, test_share: Any = None, named: str = "", of_training: bool = True) -> list[Rows]:
    """Sets the data set of the configuration; returns what has to live as long as it is used. A share to hold out that is
    given beside test rows is refused. Data may be a table of a file that is `named`; rows may be for no training."""
    if (data is None) == (texts is None):
        raise ConfigError("expected either data (a path or a table), or texts and labels; found "
                          + ("neither" if data is None else "both"))
    beside_matrix = has_matrix(test) or has_matrix(validation)
    refuse_labels_alone(texts, labels, None if beside_matrix else label_names)
    if config.given("test"):  # of another run, as is that none of its rows were held out
        config.set("test", "")
        if test_share is None:
            config.set_of_recipe("test_share", Config().get("test_share"))
    named, data = named or name_of_file(data), opened(data)
    if label_names is not None:
        label_names = list(iterate(label_names, "label_names", "a name per column"))  # it is read more than once
    if data is not None and not is_path(data):
        settle_columns(config, splits_of(data)[0], name_of_split(named, data, "train"))
    kept = set_validation(config, validation, not (data is not None and is_path(data)), label_names, labels)
    if data is not None and is_path(data):
        if test is not None:
            raise ConfigError(f"test: expected beside rows from memory, Parquet or Arrow, found the path {os.fspath(data)!r}: its test "
                              "rows are those of the file beside it (x_test.csv beside x_train.csv), or a share of its own; to give "
                              "others, read it first, as pandas.read_csv does")
        config.set("data", os.fspath(data))
        return kept
    rows, test_file = new_rows(config), name_of_file(test)
    if data is not None:
        if has_splits(data) and "validation" in data and validation is None:
            given = repr(os.path.join(named, "validation")) if named and isinstance(data, Splits) else "data['validation']"
            logging.getLogger("elmo").warning("the split 'validation' is not read; %s",
                                              f"validation={given} takes its rows to choose the best checkpoint" if of_training
                                              else f"for its rows give {given} by itself")
        train, own_test = splits_of(data)
        of_train, of_test = (name_of_split(named, data, split) for split in ("train", "test"))
        if test is not None:
            own_test, of_test = test, test_file
        test = own_test
        add_any(rows, train, config, False, "data", named=of_train)
    else:
        of_train, of_test = "", test_file
        add_values(rows, texts, labels, None if beside_matrix and not is_matrix(labels) else label_names,
                   allow_null=allows_null(config))
    if test is not None:
        refuse_share_beside_test(config, test_share)
        add_any(rows, test, config, True, "test", label_names, labels, of_test)
        if config.get("resume") != "true":  # a continued run keeps its own
            config.set("test_share", "0")  # the run remembers that none of its rows were held out
    rows.finish(config, of_train, of_test)
    if test is not None:
        copy, original = (os.path.join(folder, "test.jsonl") for folder in (config.get("data"), config.original("data")))
        config.set_copy("test", copy, of_test or original)
    if named:
        config.set_copy("data", config.get("data"), named)
    return [rows, *kept]


def name_of_file(data: Any) -> str:
    """What a run remembers of data whose rows are copied for a call: a path; nothing of rows from memory."""
    return os.fspath(data) if is_path(data) else ""


def name_of_split(named: str, data: Any, split: str) -> str:
    """The folder of a split in a saved folder of several; of other data what it is `named` itself."""
    return os.path.join(named, split) if isinstance(data, Splits) else named


def take_default_validation(config: Config, why: str) -> None:
    config.set("validation", share := Config().get("validation"))
    logging.getLogger("elmo").warning("validation: %s; a share of %s of the rows is taken; validation= takes others", why, share)


def read_again(config: Config, needs_test: bool) -> list[Rows]:
    """Of a configuration with the options of a run: copies of the files that only Python reads and that the run was
    trained on. Nothing where the library reads the run's data itself, or says why it cannot."""
    data, validation, test = (known_path(config, key) for key in ("data", "validation", "test"))
    by_python = {path for path in (data, validation, test) if os.path.exists(path) and not is_path(opened(path))}
    if data not in by_python:
        return set_validation(config, validation, False) if validation in by_python else []
    if validation and is_file(validation) and os.path.exists(validation) and validation not in by_python:
        config.set("validation", validation)  # known beside the data, which will be a copy
    if needs_test and (path := config.get("test")) and test not in by_python:
        if is_row_folder(path):
            raise DataError("test: those of the run were rows from memory, which it does not keep; give rows to score")
        if os.path.exists(path):
            raise ConfigError(f"test: expected a path that was read as data here before, found '{path}', which only the run names; a "
                              "run may come from anybody: if it is the right one, give it as data")
        raise DataError(f"{path}: no such file or folder, but its rows were the test rows of the run; "
                        + ("" if os.path.isabs(path) else "the path is from the folder where training was started: go there, or ")
                        + "give rows to score")
    return set_data(config, data, None, None, test if test in by_python else None, validation if validation in by_python else None)
