"""A trained run: the folder that training wrote, and what can be done with it."""
from __future__ import annotations

import json
import logging
import os
import shutil
import tempfile
import weakref
from typing import TYPE_CHECKING, Any, Callable

from elmo import _core
from elmo._config import document, make_config, number
from elmo._data import (COLUMNS, columns_of_run, has_matrix, has_splits, is_file, is_gone, is_rows, is_table_name, name_of_file,
                        name_of_split, read_again, refuse_labels_alone, refuse_separator, require_run, set_columns_of_run, set_data,
                        set_validation, set_validation_alone, test_of)
from elmo._inputs import column_list, folder_of, has_names, is_matrix, is_path, opened, path_of, texts_of
from elmo._listener import Listener
from elmo._predictor import Answers, Predictor, labels_per_text, open_run
from elmo._result import Result, from_json

if TYPE_CHECKING:
    import numpy as np
    from typing_extensions import Unpack

    from elmo._options import CalibrateOptions, EvaluateOptions, ExportOptions, IndexOptions, PredictOptions


# Runs of this process that have copies of the rows that trained them, by folder, as long as their objects live.
TRAINED: weakref.WeakValueDictionary[str, Run] = weakref.WeakValueDictionary()


class NotTrainedHere(_core.DataError, AttributeError):
    """A run has no result: hasattr says so too."""


class Run:
    """A run on disk. ``Run(folder)`` opens one; elmo.train returns one."""

    path: str

    def __init__(self, path: str | os.PathLike[str]):
        self.path = os.path.abspath(path_of(path, "path", "the folder of a run"))  # also after a change of the working folder
        self._result: Result | None = None
        self._kept: list[Any] = []  # copies of the rows that the run was trained on
        self._own: _core.Config | None = None  # names them,
        self._hashes: Any = None  # and these tell which run they trained
        self._opened: tuple[Any, _core.Predictor, list[Any]] | None = None  # with copies of training rows that it shows
        self._said: dict[str, None] = {}  # messages of predictions, the last ones
        require_run(path)

    @classmethod
    def _of(cls, path: str, temporary: str | None, kept: list[Any]) -> Run:
        """A run that is being trained; its temporary folder goes when it goes."""
        run = cls.__new__(cls)
        run.path, run._result, run._kept, run._own, run._opened = os.path.abspath(path), None, kept, None, None
        run._said, run._hashes = {}, None
        if temporary is not None:
            weakref.finalize(run, remove_own, temporary, os.getpid())
        return run

    def _trained_by(self, own: _core.Config) -> None:
        """Training has ended, on the rows that `own` names."""
        self._own, self._hashes = own, hashes_of(self.path)
        TRAINED[os.path.realpath(self.path)] = self

    def __copy__(self) -> Run:
        return self  # a temporary folder goes with the object that trained it

    def __deepcopy__(self, memo: Any) -> Run:
        return self

    def __getstate__(self) -> dict[str, Any]:
        """Of a pickle: the folder is not inside."""
        return {"path": self.path, "_result": self._result}

    def __setstate__(self, state: dict[str, Any]) -> None:
        if not os.path.isdir(state["path"]):
            raise _core.DataError(f"{state['path']}: expected the folder of a run, found nothing; a pickle holds only its "
                                  "path: save a run in a folder that stays (run.save(folder)), then pickle that")
        self.__dict__.update(state, _kept=[], _own=None, _hashes=None, _opened=None, _said={})

    def __fspath__(self) -> str:
        return self.path

    def __repr__(self) -> str:
        return f"<elmo.Run {self.path}>"

    def save(self, folder: str | os.PathLike[str], overwrite: bool = False) -> Run:
        """Copies the run to a folder that is not there yet, and returns the copy. With `overwrite` a run that is there goes, when
        its successor is complete."""
        path = os.path.abspath(path_of(folder, "folder", "a folder for the copy"))
        if os.path.lexists(path):
            if not os.path.isdir(path):
                raise _core.DataError(f"{os.fspath(folder)}: expected a folder for the copy, found "
                                      f"{'a file' if os.path.exists(path) else 'a link to nothing'}; name another")
            if not overwrite:
                raise _core.DataError(f"{os.fspath(folder)}: expected a folder that is not there yet, found one; name another, or give "
                                      "overwrite=True")
            Run(folder)  # what is no run stays
        ours, there = os.path.realpath(self.path), os.path.realpath(path)
        if os.path.commonpath([ours, there]) in (ours, there):
            raise _core.DataError(f"{os.fspath(folder)}: expected another folder than that of the run itself; name another")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".elmo-save-", dir=os.path.dirname(path)) as temporary:
            copy, old = shutil.copytree(self.path, os.path.join(temporary, "new")), os.path.join(temporary, "old")
            try:
                if os.path.lexists(path):
                    os.rename(path, old)
                os.rename(copy, path)
            except BaseException:
                if os.path.lexists(old) and not os.path.lexists(path):
                    os.rename(old, path)
                raise
        return Run(folder)

    @property
    def result(self) -> Result:
        """What training returned, of a run that this object trained."""
        if self._result is None:
            raise NotTrainedHere(f"{self.path}: this run was opened, not trained here"
                                 + ("; run.log holds its history" if os.path.exists(self.path + "/log.jsonl") else ""))
        return self._result

    @property
    def log(self) -> list[Result]:
        """The lines of the run's log."""
        try:
            with open(os.path.join(self.path, "log.jsonl"), encoding="utf-8") as file:
                return [json.loads(line, object_hook=Result) for line in file]
        except OSError as error:
            is_checkpoint = os.path.exists(os.path.join(self.path, "manifest.json"))
            raise _core.DataError(f"{self.path}: expected the folder of a run with its log.jsonl, found {error.strerror}; "
                                  + ("a checkpoint has none: open the folder above it" if is_checkpoint
                                     else "a head that elmo.torch saved has none")) from None

    @property
    def label_names(self) -> list[str]:
        """Names of the labels, by number."""
        return self.predictor().label_names

    def predictor(self, **options: Unpack[PredictOptions]) -> Predictor:
        """A Predictor with these options. What the last one opened is kept, for calls with the same options while the
        files of the run stay the same."""
        asked = (dict(options), self._stamp(str(options.get("checkpoint") or "best")))
        kept = self._opened
        if kept is None or kept[0] != asked:
            kept = self._opened = None  # not two models at a time
            kept = self._opened = (asked, open_run(self, options), [])
        return Predictor._of(self, options, kept[1], kept[2])

    def _stamp(self, checkpoint: str) -> list[tuple[int, int] | None]:
        """Other than before when this checkpoint, its calibration or its index was written."""
        own = stamp_of(self.path + "/manifest.json")  # of a folder that is a checkpoint itself
        folder, name = os.path.split(self.path) if own else (self.path, checkpoint)
        return [own or stamp_of(f"{folder}/{name}/manifest.json"), stamp_of(f"{folder}/calibration-{name}.json"),
                stamp_of(f"{folder}/index-{name}.safetensors")]

    def predict(self, texts: Any, **options: Unpack[PredictOptions]) -> Answers:
        """The best labels of each text; options as of Predictor (top, threshold, ...). With a threshold, 0 too, all
        labels that are at least as probable, up to 100; top sets another limit."""
        return self.predictor(**options).predict(texts)

    def predict_vectors(self, vectors: Any, **options: Unpack[PredictOptions]) -> Answers:
        """The best labels of vectors in the place of texts: see Predictor.predict_vectors."""
        return self.predictor(**options).predict_vectors(vectors)

    def predict_among(self, texts: Any, labels: Any, **options: Unpack[PredictOptions]) -> Answers:
        """The best of these labels, by name or number; only their weights are read."""
        return Predictor(self, labels=labels, **options).predict(texts)

    def embed(self, texts: Any, **options: Unpack[PredictOptions]) -> np.ndarray:
        """The vectors that the run's encoder makes of the texts, a row per text."""
        return self.predictor(**options).embed(texts)

    def explain(self, text: str, labels: Any = None, top: int | None = None, nearest: int = 5,
                **options: Unpack[PredictOptions]) -> Result:
        """Which words of a text carried its labels, and of a run with neighbours the nearest training texts: see
        Predictor.explain."""
        if top is not None and labels is None and labels_per_text(top) > int(_core.Config().get("top")):
            options["top"] = top  # else what predict opened serves
        return self.predictor(**options).explain(text, labels, top, nearest)

    def evaluate(self, data: Any = None, *, texts: Any = None, labels: Any = None, label_names: Any = None,
                 progress: bool | None = None, **options: Unpack[EvaluateOptions]) -> Result:
        """Scores of the run: see elmo.evaluate."""
        return evaluate_run(self, data, texts, labels, label_names, progress, options)

    def compare(self, other: Any, data: Any = None, *, texts: Any = None, labels: Any = None, label_names: Any = None,
                progress: bool | None = None, **options: Unpack[EvaluateOptions]) -> Result:
        """Scores of this run and of another on the same rows, and what the other is better by: see elmo.compare."""
        return compare_runs(self, other, data, texts, labels, label_names, progress, options)

    def report(self, data: Any = None, *, out: str | os.PathLike[str], overwrite: bool = False, texts: Any = None,
               labels: Any = None, label_names: Any = None, progress: bool | None = None,
               **options: Unpack[EvaluateOptions]) -> Result:
        """Writes a page about how well the run answers: see elmo.report."""
        return report_run(self, data, out, overwrite, texts, labels, label_names, progress, options)

    @document("c", without=("data", "validation"))
    def calibrate(self, data: Any = None, *, texts: Any = None, labels: Any = None, validation: Any = None,
                  label_names: Any = None, progress: bool | None = None, **options: Unpack[CalibrateOptions]) -> Result:
        """Fits probabilities on the validation rows of the run's data; predictions then use them.

        data, texts, labels : the rows that the run was trained on, as of train: of a run that was trained on rows from
            memory and opened again, which has them no more
        validation : other rows, all of which are taken, as of train: they should not have trained the run. None of the rows
            that did are needed beside a pair, a table or a file.
        label_names : the columns of a matrix of labels, here or in validation
        """
        config, is_table = make_config("c", options), is_rows(opened(validation))
        for table in (data, validation if is_table else None):
            if table is not None or texts is not None:
                set_columns_of_run(config, self, table, options)
        of_validation = has_matrix(validation)
        refuse_labels_alone(texts, labels, None if of_validation else label_names)
        if is_table:
            kept = set_validation_alone(config, validation, label_names)
        elif data is not None or texts is not None:
            kept = set_data(config, data, texts, labels, None, validation, label_names)
            kept += set_validation_of_run(config, self, refuse_lost_validation("give them again, or others, as validation=(texts, labels)"))
        elif is_file(validation):
            kept = set_validation(config, validation, False)
        else:
            kept = set_validation(config, validation, False)
            kept += set_own_data(config, self, "give them again as texts=… and labels=…, or others as validation=(texts, labels)",
                                 "give them again, or others, as validation=(texts, labels)")
        self._opened = None  # not two models at a time; it would be opened again anyway
        listener = Listener(progress)
        try:
            return from_json(_core.calibrate(listener, self.path, config))
        except _core.DataError as error:
            raise about_labels(error, validation[1] if of_validation else labels, label_names) from None
        finally:
            listener.close()
            del kept

    def index(self, data: Any = None, *, texts: Any = None, labels: Any = None, label_names: Any = None,
              recall: float = 0.99, progress: bool | None = None, **options: Unpack[IndexOptions]) -> Result:
        """Makes the index that search="approximate" finds labels by: see elmo.index."""
        return index_run(self, data, texts, labels, label_names, recall, progress, options)

    def export(self, to: str, out: str | os.PathLike[str], *, progress: bool | None = None,
               **options: Unpack[ExportOptions]) -> Result:
        """Writes the run as other tools read it: see elmo.export."""
        return export_run(self, to, out, progress, options)

    def inspect(self) -> Result:
        """What the run folder holds."""
        return from_json(_core.inspect(None, self.path, _core.Config()))


def remove_own(folder: str, maker: int) -> None:
    """A temporary folder, by the process that made it: a fork that ends leaves it there."""
    if os.getpid() == maker:
        shutil.rmtree(folder, ignore_errors=True)


def hashes_of(run: str) -> tuple[Any, Any] | None:
    """What a run knows its training rows and labels by; None before its first checkpoint."""
    for checkpoint in ("best", "last"):
        try:
            with open(os.path.join(run, checkpoint, "state.json"), encoding="utf-8") as file:
                state = json.load(file)
            return state["data_hash"], state["names_hash"]
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return None


def stamp_of(file: str) -> tuple[int, int] | None:
    try:
        found = os.stat(file)
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns


def report_run(run: Any, data: Any, out: Any, overwrite: bool, texts: Any, labels: Any, label_names: Any,
               progress: bool | None, options: Any) -> Result:
    page = {"out": path_of(out, "out", "a file for the page"), "overwrite": "true" if overwrite else "false"}
    return evaluate_run(run, data, texts, labels, label_names, progress, options, _core.report, page)


def compare_runs(first: Any, second: Any, data: Any, texts: Any, labels: Any, label_names: Any, progress: bool | None,
                 options: Any) -> Result:
    for run in (first, second):
        require_run(run)
    data = unless_own(first, data, texts)
    if hasattr(data, "read_all"):
        data = data.read_all()  # each run may read other columns of it
    options = with_shared_columns(first, second, data, texts, options)
    copy, copied = copy_for_second(first, second, data, texts, options)

    def call(listener: Listener, run: str, *of_call: Any) -> str:
        return _core.compare(listener, run, folder_of(second), *of_call, copy)

    try:
        return evaluate_run(first, data, texts, labels, label_names, progress, options, call, second=second)
    finally:
        del copied


def scored_table(first: Any, data: Any, texts: Any) -> tuple[Any, str]:
    """The table on which two runs are compared and the file that it is from; None where the library reads the rows."""
    if texts is None and data is None:
        data = path if os.path.exists(path := _core.known_path(_core.resolve_for_run(folder_of(first), _core.Config()), "data")) else None
    if texts is not None or data is None or is_path(table := opened(data)):
        return None, ""
    return test_of(table), name_of_split(name_of_file(data), table, "test")


def with_shared_columns(first: Any, second: Any, data: Any, texts: Any, options: Any) -> Any:
    """The options of a comparison: a column that the table has of one run only is read for both, as the library does it."""
    table, named = scored_table(first, data, texts)
    if table is None:
        return options
    there, shared = column_list(table), dict(options)
    columns = [columns_of_run(_core.resolve_for_run(folder_of(run), _core.Config()), table, there, named) for run in (first, second)]
    for key in COLUMNS:
        (of_first, first_has), (of_second, second_has) = (of_run[key] for of_run in columns)
        if options.get(key) is not None or first_has == second_has:
            continue
        has, lacks, reader = (of_first, of_second, second) if first_has else (of_second, of_first, first)
        shared[key] = has
        logging.getLogger("elmo").warning("%s: found no %s=%r, so %s reads %r, too", named or "rows from memory", key, lacks,
                                          folder_of(reader), has)
    return shared


def copy_for_second(first: Any, second: Any, data: Any, texts: Any, options: Any) -> tuple[_core.Config | None, list[Any]]:
    """Where two runs are compared on a table of which they read other columns: a copy of it as the second one reads it, in a
    configuration, and what has to live as long as it is used."""
    of_first, is_own = _core.resolve_for_run(folder_of(first), _core.Config()), data is None
    if texts is None and is_own and has_lost_rows(of_first):
        of_second = _core.resolve_for_run(folder_of(second), _core.Config())
        for key in COLUMNS:
            if (kept := of_first.get(key)) not in (_core.Config().get(key), other := of_second.get(key)):
                raise _core.DataError(f"{key}: of the rows from memory that trained {folder_of(first)} only what {kept!r} holds is kept, "
                                      f"and {folder_of(second)} reads {other!r}; give the rows as data")
        return None, []
    table, named = scored_table(first, data, texts)
    if table is None:
        return None, []
    columns = []
    for run in (first, second):
        config = make_config("e", options)
        set_columns_of_run(config, run, table, options, named)
        columns.append([(key, config.get(key)) for key in COLUMNS])
    if columns[0] == columns[1]:
        return None, []
    if not is_own:
        config = make_config("e", options)
        return config, set_scored_data(second, config, data, None, None, None, options, "")
    for key, column in columns[1]:
        of_first.set(key, column)
    return of_first, read_again(of_first, config.get("split") not in ("train", "validation"))


def names_data_of(config: _core.Config, run: Any) -> bool:
    """Whether the data is what the run was trained on, by its path or by what its rows are."""
    own, named = _core.resolve_for_run(folder_of(run), _core.Config()).get("data"), config.original("data")
    return named == own or os.path.realpath(named) == os.path.realpath(own)


# Of the library, about labels that are not the run's.
ADVICE_FOR_FILES = "; if labels are written otherwise here, say so with label_column or label_separator"


def about_labels(error: _core.DataError, labels: Any, label_names: Any) -> _core.DataError:
    """The error, or where labels from memory are not those of the run what is meant by it."""
    if labels is None or "these are not the labels of the run" not in str(error):
        return error
    if is_matrix(labels) and label_names is None and not has_names(labels):
        return _core.DataError("label_names: expected the names of the columns of labels, found none; give those that the run "
                               "was trained with")
    are_texts = not is_matrix(labels) and hasattr(labels, "__len__") and all(isinstance(label, str) for label in labels)
    return _core.DataError(str(error).replace(ADVICE_FOR_FILES, "; in labels= a text is one label: give lists of labels" if are_texts
                                              else ""))


def set_own_data(config: _core.Config, run: Any, advice: str, of_validation: str = "", needs_test: bool = False) -> list[Any]:
    """Sets the rows that a run was trained on, where they are copies or only Python reads them; returns what has to live
    as long as they are used. Otherwise the library takes them from the run. Test rows need be there only for what
    `needs_test`, validation rows where there is advice `of_validation`."""
    owner, of_run = owner_of_rows(run), _core.resolve_for_run(folder_of(run), _core.Config())
    others = [key for key in COLUMNS if config.given(key) and config.get(key) != of_run.get(key)]
    if owner is not None and not others:
        own, kept = owner._own, list(owner._kept)
    else:
        own = _core.resolve_for_run(folder_of(run), config)
        if owner is not None and has_lost_rows(own):
            raise _core.ConfigError(f"{others[0]}: of the rows from memory that trained {folder_of(run)} only what {of_run.get(others[0])!r} "
                                    f"holds is kept, found {own.get(others[0])!r}; give rows")
        if has_lost_rows(own):
            raise _core.DataError(f"{folder_of(run)}: this run was trained on rows from memory, which it does not keep; {advice}")
        if of_validation and not config.given("validation") and _core.is_row_folder(own.get("validation")):
            refuse_lost_validation(of_validation)(f"those of {folder_of(run)} were rows from memory, which it does not keep")
        if not (kept := read_again(own, needs_test)):
            return []
    for key in ("data", "format", "validation", "test"):
        if own.given(key) and not config.given(key) and not (key == "validation" and is_gone(own.get(key))):
            value, original = own.get(key), own.original(key)
            config.set_copy(key, value, original if original != value else "")
            if key == "data":
                config.named_by_run(key)
    return kept


def refuse_lost_validation(advice: str) -> Callable[[str], None]:
    def refuse(why: str) -> None:
        raise _core.DataError(f"validation: {why}; {advice}")
    return refuse


def set_validation_of_run(config: _core.Config, run: Any, lost: Callable[[str], None]) -> list[Any]:
    """Beside other rows, and where no validation is given: sets that of the run, where it is copies or a file that the
    library would not know beside these rows; returns what has to live as long as it is used. `lost` is called with the reason
    where they are gone."""
    if config.given("validation"):
        return []
    if (owner := owner_of_rows(run)) is not None and owner._own.given("validation"):
        value, original = owner._own.get("validation"), owner._own.original("validation")
        config.set_copy("validation", value, original if original != value else "")
        return list(owner._kept)
    of_run = _core.resolve_for_run(folder_of(run), _core.Config())
    if _core.is_row_folder(of_run.get("validation")):
        lost(f"those of {folder_of(run)} were rows from memory, which it does not keep")
    elif is_file(known := _core.known_path(of_run, "validation")) and os.path.exists(known):
        if _core.is_row_folder(config.get("data")) and is_table_name(known):
            lost(f"those of {folder_of(run)} are in {known}, and CSV and TSV files are not read beside rows from memory")
            return []
        return set_file_for_validation(config, run, known, of_run)
    return []


def set_file_for_validation(config: _core.Config, run: Any, file: Any, reading: _core.Config | None = None) -> list[Any]:
    """Sets a file for validation beside the rows that a run is judged by, in the columns that these are read by; returns copies."""
    of_call = _core.resolve_for_run(folder_of(run), config)
    kept = set_validation(of_call, file, False, reading=reading)
    config.set_copy("validation", of_call.get("validation"), os.fspath(file))
    return kept


def owner_of_rows(run: Any) -> Run | None:
    """The object that has copies of a run's rows, where its folder still holds the run that they trained."""
    of_run = _core.resolve_for_run(folder_of(run), _core.Config())
    for owner in (run, TRAINED.get(os.path.realpath(folder_of(run))) if has_lost_rows(of_run) else None):
        if (own := getattr(owner, "_own", None)) is None or owner._hashes != hashes_of(owner.path):
            continue
        if all(of_run.get(key) == own.original(key) for key in ("data", "validation", "test") if own.given(key)):
            return owner
    return None


def has_lost_rows(of_run: _core.Config) -> bool:
    """Whether the rows of a run were copied from memory for its training."""
    return _core.is_row_folder(of_run.get("data"))


def unless_own(run: Any, data: Any, texts: Any) -> Any:
    """The data, or None where it is the path of the run's own that only Python reads, with test rows in it or given beside it:
    they are scored as where no data is given."""
    if texts is not None or not is_path(data) or is_path(table := opened(data)):
        return data
    of_run = _core.resolve_for_run(folder_of(run), _core.Config())
    own = os.path.realpath(data) == os.path.realpath(of_run.get("data")) and (has_splits(table) or of_run.get("test") != "")
    return None if own else data


def set_scored_data(run: Any, config: _core.Config, data: Any, texts: Any, labels: Any, label_names: Any,
                    options: Any, advice: str) -> list[Any]:
    """Sets the rows that a run is judged by; returns copies, which have to live as long as they are used."""
    refuse_labels_alone(texts, labels, label_names)
    refuse_separator(texts, options)
    as_file, path = is_table_file(data), data
    data = opened(data)
    given = options.get("validation")
    of_given = set_file_for_validation(config, run, given) if is_table_file(given) else []
    if texts is None and data is None:
        split = config.get("split")
        of_validation = "give them again, or others, as texts=… and labels=…" if split == "validation" else ""
        return of_given + set_own_data(config, run, advice, of_validation, split not in ("train", "validation"))
    of_validation = of_given or ([] if config.get("split") not in ("all", "validation") or not (as_file or is_path(data)) else
                     set_validation_of_run(config, run, lambda why: None))  # the library says so where it needs them
    if texts is None and is_path(data):
        config.set("data", os.fspath(data))
        return of_validation
    if options.get("split") is not None and not as_file:
        raise _core.ConfigError("split: rows from memory have no splits: all of them are scored" if not is_path(path) else
                                f"split: expected none beside a folder of splits, of which 'test' is scored; give the folder of "
                                f"one of them, as {os.path.join(path, 'train')!r}")
    named = name_of_split(name_of_file(path), data, "test")
    if data is not None:
        data = test_of(data)
        set_columns_of_run(config, run, data, options, named)
    kept = set_data(config, path if as_file else data, texts, labels, label_names=label_names, named=named)
    if not as_file:  # a data set of the given rows only, all of them scored
        config.set("split", "train")
        config.set("test_share", "0")
        if options.get("save_scores") is None:
            config.set("save_scores", "none")  # the name of such data would mean nothing in the run
    return kept + of_validation


def is_table_file(data: Any) -> bool:
    """Whether data is a file, or folder, of one table that only Python reads: its rows are scored as those of other
    files are, of the run's own data those that it held out."""
    return is_path(data) and not is_path(table := opened(data)) and not has_splits(table)


def evaluate_run(run: Any, data: Any, texts: Any, labels: Any, label_names: Any, progress: bool | None,
                 options: Any, call: Callable[..., str] = _core.evaluate, page: dict[str, str] = {},
                 second: Any = None) -> Result:
    require_run(run)
    data = unless_own(run, data, texts)
    config = make_config("e", options)
    for key, value in page.items():
        config.set(key, value)
    kept = set_scored_data(run, config, data, texts, labels, label_names, options,
                           "give rows to score that did not train it (texts=… and labels=…), or a file of all of its rows, of "
                           "which those that it held out are scored")
    are_given = bool(kept) and not is_table_file(data) and (data is not None or texts is not None)
    copied, name = _core.is_row_folder(config.get("data")), config.original("data")
    listener = Listener(progress)
    try:
        result = from_json(call(listener, folder_of(run), config,
                                "" if not copied else "rows from memory" if _core.is_row_folder(name) else name,
                                "all rows given" if are_given else ""))
    except _core.DataError as error:
        raise about_labels(error, labels, label_names) from None
    finally:
        listener.close()
        del kept
    for scored, scores in ((run, result),) if second is None else ((run, result["first"]), (second, result["second"])):
        protocol = scores["protocol"]
        protocol["propensity_source"] = _core.in_words_of_python(protocol["propensity_source"])
        if not are_given or protocol.get("trained_samples", 0) <= 0.05 * protocol["samples"]:
            continue
        of_run = _core.resolve_for_run(folder_of(scored), _core.Config())
        lost = owner_of_rows(scored) is None and has_lost_rows(of_run)
        held_out = float(of_run.get("test_share")) > 0 or (of_run.get("test") != "" and not lost)
        listener.logger.warning("%d of %d scored texts trained %s, or are alike to its tokenizer; their scores say little about new texts: %s",
                                protocol["trained_samples"], protocol["samples"],
                                "this run" if second is None else folder_of(scored),
                                "score others" if not held_out else
                                "score others, or a file of all of its rows, of which those that it held out are scored"
                                if lost else "evaluate() without rows scores the test rows of its data")
    return result


def unless_linear(run: Any, set_rows: Callable[[], list[Any]]) -> list[Any]:
    """What setting the rows returns. Nothing where it fails for a linear run, which the library refuses whatever they are."""
    try:
        return set_rows()
    except _core.DataError:
        if from_json(_core.inspect(None, folder_of(run), _core.Config())).get("encoder") != "linear":
            raise
        return []


def index_run(run: Any, data: Any, texts: Any, labels: Any, label_names: Any, recall: float, progress: bool | None,
              options: Any) -> Result:
    require_run(run)
    config, recall = make_config("n", options), number(recall, "recall")
    data = unless_own(run, data, texts)
    if texts is not None:  # a data set has labels: any one of the run does
        texts, label_names = list(texts_of(texts)), None
        labels = [[open_run(run, {"checkpoint": options.get("checkpoint")}, [0]).label_name(0) or "0"]] * len(texts)
    if data is None and texts is None and options.get("split") is None:
        config.set("split", "validation")  # as the library does where it takes them from the run
    kept = unless_linear(run, lambda: set_scored_data(run, config, data, texts, labels, label_names, options,
                                                      "give texts=…, 40 at least"))
    if isinstance(run, Run):
        run._opened = None  # as in calibrate
    listener = Listener(progress)
    try:
        return from_json(_core.index(listener, folder_of(run), config, recall))
    finally:
        listener.close()
        del kept


def export_run(run: Any, to: str, out: Any, progress: bool | None, options: Any) -> Result:
    config = make_config("o", options)
    config.set("out", path_of(out, "out", "a folder for the files"))
    listener = Listener(progress)
    try:
        form = path_of(to, "to", "'numpy', 'sentence-transformers' or 'onnx'")
        return from_json(_core.export(listener, folder_of(run), form, config))
    finally:
        listener.close()
