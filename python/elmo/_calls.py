"""The verbs as functions: train, evaluate, report, index, export, plan, explain, inspect, convert."""
from __future__ import annotations

import os
import tempfile
from typing import TYPE_CHECKING, Any

from elmo import _core
from elmo._config import OF_ONE_RUN, document, make_config, number, whole_number
from elmo._data import (COLUMNS, is_rows, refuse_separator, refuse_share_beside_test, set_columns_of_run, set_data,
                        set_nothing_but_validation, take_default_validation)
from elmo._inputs import describe, folder_of, is_path, opened, path_of
from elmo._listener import Callback, Listener
from elmo._result import Plan, Result, from_json, plan_of
from elmo._run import (Run, compare_runs, evaluate_run, export_run, hashes_of, index_run, names_data_of, refuse_lost_validation, report_run,
                       set_own_data, set_validation_of_run, unless_linear)

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from elmo._options import ConvertOptions, EvaluateOptions, ExportOptions, IndexOptions, InspectOptions, PlanOptions, TrainOptions


@document("t", without=("data", "out", "validation"))
def train(data: Any = None, *, texts: Any = None, labels: Any = None, test: Any = None, validation: Any = None,
          label_names: Any = None, out: str | os.PathLike[str] | None = None, recipe: Any = None,
          progress: bool | None = None, on_log: Callback | list[Callback] | None = None,
          on_validation: Callback | list[Callback] | None = None, **options: Unpack[TrainOptions]) -> Run:
    """Trains a classifier and returns its run.

    data : a path that `elmo train` reads, a Parquet or an Arrow file, a folder of `save_to_disk`, a DataFrame, an Arrow
        table, a Hugging Face data set or a dict of columns (text_column and label_column, found where they have usual
        names); or, in its place,
    texts, labels : sequences of as many entries. The labels of a text are a list of names or whole numbers, or one of
        them (a str is a label as it stands, 'NA' too); or labels is a matrix of 0 and 1 with a column per label (SciPy,
        NumPy, DataFrame), whose columns label_names names.
    test, validation : rows for scoring and for choosing the best checkpoint, as a pair (texts, labels) or a table;
        without test, a share of the rows is held out (test_share); validation may also be a share, or a file in the
        format of data (JSON lines, Parquet or Arrow beside rows from memory). Matrices in the place of their labels
        have the columns of labels, which label_names names.
    out : the folder of the run; without it, a temporary one that goes with the Run.
    recipe : name or file of a recipe, or several; options win over it.
    progress : a tqdm bar; None: where there is a terminal or a notebook.
    on_log, on_validation : called with each line of the run's log, or those of validations; one that returns True
        stops training: the step after that line is the last.

    Ctrl-C stops after the running step, keeps the run and raises KeyboardInterrupt; resume=True continues it.
    """
    config = make_config("t", options, recipe)
    listener = Listener(progress, on_log, on_validation)
    kept: list[Any] = []
    refuse_separator(texts, options)
    has_rows, init, resume = data is not None or texts is not None, options.get("init"), options.get("resume")
    if init and not resume:
        kept = set_rows_beside_init(config, init, data, texts, labels, test, validation, label_names, options)
    elif has_rows or not resume:
        if resume and is_path(out):
            set_columns_of_begun(config, out, data, options)
        if init:
            set_test_of_init(config, init)
        kept = set_data(config, data, texts, labels, test, validation, label_names, options.get("test_share"))
        if resume and out is not None:
            kept += set_validation_of_run(config, path_of(out, "out", "a folder for the run"),
                                          refuse_lost_validation("give the same ones again as validation=(texts, labels)"))
    elif out is not None:
        kept = set_own_data(config, path_of(out, "out", "a folder for the run"), "give them again as texts=… and labels=…",
                            "give data too, and the same ones again as validation=(texts, labels)")
    temporary = None
    if out is None:
        if options.get("resume"):
            raise _core.ConfigError("out: expected the folder of the run to continue, found none")
        temporary = tempfile.mkdtemp(prefix="elmo-run-")
        out = os.path.join(temporary, "run")
    config.set("out", path_of(out, "out", "a folder for the run"))
    run = Run._of(os.fspath(out), temporary, kept)
    try:
        run._result = from_json(_core.train(listener, config))
    finally:
        listener.close()
    if kept:
        run._trained_by(config)
    return run


def set_test_of_init(config: _core.Config, init: Any) -> None:
    """As the recipe of the run that a training starts from does."""
    if test_of_init := _core.resolve_for_run(folder_of(init), _core.Config()).get("test"):
        config.set("test", test_of_init)


def set_rows_beside_init(config: _core.Config, init: Any, data: Any, texts: Any, labels: Any, test: Any, validation: Any,
                         label_names: Any, options: Any, validates_others: bool = True) -> list[Any]:
    """The rows of a training that starts from a run, in its columns, with its validation rows, unless those are for its own
    rows only."""
    has_rows = data is not None or texts is not None
    if has_rows or is_rows(opened(validation)):
        set_columns_of_run(config, init, data, options)
    if not has_rows:  # the run knows its data, as a continued one does
        kept = set_nothing_but_validation(config, labels, test, validation, label_names)
        kept += unless_linear(init, lambda: set_own_data(config, init, "give rows as data, or as texts and labels",
                                                         "give them again, or others, as validation=(texts, labels), or a share"))
        if config.given("test"):
            refuse_share_beside_test(config, options.get("test_share"))
        elif options.get("test_share") is None and _core.is_row_folder(_core.resolve_for_run(folder_of(init), _core.Config()).get("test")):
            config.set_of_recipe("test_share", _core.Config().get("test_share"))  # the run had test rows, which are gone
        return kept
    set_test_of_init(config, init)
    kept = set_data(config, data, texts, labels, test, validation, label_names, options.get("test_share"))
    if validates_others or names_data_of(config, init):
        kept += set_validation_of_run(config, init, lambda why: take_default_validation(config, why))
    return kept


def set_columns_of_begun(config: _core.Config, out: Any, data: Any, options: Any) -> None:
    """Rows that are given again to a training that is continued, perhaps in another form, are read from its columns."""
    recipe = os.path.join(out, "recipe.toml")  # of one that stopped before its first checkpoint
    if hashes_of(out) is not None:
        set_columns_of_run(config, out, data, options)
    elif os.path.isfile(recipe) and not is_path(opened(data)):
        begun = _core.Config()
        begun.load_recipe(recipe)
        for key in COLUMNS:
            if options.get(key) is None and begun.given(key):
                config.set(key, begun.get(key))


@document("t", without=("data", "out", "validation"))
def tune(data: Any = None, *, texts: Any = None, labels: Any = None, validation: Any = None, label_names: Any = None,
         out: str | os.PathLike[str], trials: int = 16, seconds: float = 0, recipe: Any = None,
         progress: bool | None = None, **options: Unpack[TrainOptions]) -> Result:
    """Looks for better numbers than the defaults, on validation rows only, and writes them to out/recipe.toml.

    data, texts, labels, validation : as of train; with init those of that run when left out. What is given as an option
        stays, the rest may be varied.
    trials : candidates of the first round, the defaults among them
    seconds : after which no more is trained; 0: no limit. resume=True goes on.
    """
    config = make_config("t", options, recipe)
    trials, seconds = whole_number(trials, "trials"), number(seconds, "seconds")
    if init := options.get("init"):
        kept = set_rows_beside_init(config, init, data, texts, labels, None, validation, label_names, options,
                                    validates_others=False)
    else:
        kept = set_data(config, data, texts, labels, None, validation, label_names, options.get("test_share"))
    config.set("out", path_of(out, "out", "a folder for the search"))
    listener = Listener(progress)
    try:
        return from_json(_core.tune(listener, config, trials, seconds))
    finally:
        listener.close()
        del kept


@document("e", without=("data",))
def evaluate(run: Any, data: Any = None, *, texts: Any = None, labels: Any = None, label_names: Any = None,
             progress: bool | None = None, **options: Unpack[EvaluateOptions]) -> Result:
    """Scores a run (a Run, or its folder) and returns scores in percent with the protocol that gave them.

    data : a file or folder as `elmo eval` takes it, or a Parquet or an Arrow file: of the run's own data, which it is when
        left out, the rows that were held out; of another without test rows all. Of a table in memory all rows; or, in
        its place,
    texts, labels : rows in memory, all of which are scored. Scores of rows from memory that are given are not kept in the run.
    """
    return evaluate_run(run, data, texts, labels, label_names, progress, options)


@document("e", without=("data", *OF_ONE_RUN))
def compare(first: Any, second: Any, data: Any = None, *, texts: Any = None, labels: Any = None, label_names: Any = None,
            progress: bool | None = None, **options: Unpack[EvaluateOptions]) -> Result:
    """Scores two runs (each a Run, or its folder) on the same rows, as `elmo eval RUN1 RUN2 DATA` does.

    data, texts, labels : as of evaluate; the first run's own data when left out. Of the own data of one of them, the
        rows that it held out are scored.

    Returns `first` and `second`, the scores of each as of evaluate, `difference`, the points by which the second is better, by
    score, and `difference_intervals`, the low and the high end of each (not with bootstrap=0). An interval is of replicates that
    hold the same texts for both runs: where it does not contain 0, chance hardly made the difference.
    """
    return compare_runs(first, second, data, texts, labels, label_names, progress, options)


@document("e", without=("data",))
def report(run: Any, data: Any = None, *, out: str | os.PathLike[str], overwrite: bool = False, texts: Any = None,
           labels: Any = None, label_names: Any = None, progress: bool | None = None,
           **options: Unpack[EvaluateOptions]) -> Result:
    """Scores a run as evaluate does and writes a page about it to `out`: scores, precision, recall and F1 by label,
    calibration curve, worst labels, commonest confusions and examples of errors (`errors`, 20 of each).

    data, texts, labels : as of evaluate. Returns what the page shows.
    A run that is not calibrated is judged at a probability of 0.5, unless threshold is given.
    """
    return report_run(run, data, out, overwrite, texts, labels, label_names, progress, options)


@document("n", without=("data",))
def index(run: Any, data: Any = None, *, texts: Any = None, labels: Any = None, label_names: Any = None,
          recall: float = 0.99, progress: bool | None = None, **options: Unpack[IndexOptions]) -> Result:
    """Makes the index of a run by which predictions with search="approximate" find labels without scoring all of them.

    data, texts, labels : the texts that make and measure it, as of evaluate, 40 at least; the run's own validation
        rows when left out. Labels are not looked at: beside texts they may be left out.
    recall : the share of the five best labels that it must find

    It is stored in the run. Returns what it is, and the recall and time that were measured.
    """
    return index_run(run, data, texts, labels, label_names, recall, progress, options)


@document("o", without=("out",))
def export(run: Any, to: str, out: str | os.PathLike[str], *, progress: bool | None = None,
           **options: Unpack[ExportOptions]) -> Result:
    """Writes a run as other tools read it to the folder `out`, which appears complete or not at all.

    to : "numpy" (label vectors and names), "sentence-transformers" (the encoder) or "onnx" (from token ids to labels)

    Returns the files, and notes on what the other tool does otherwise.
    """
    return export_run(run, to, out, progress, options)


@document("d", without=("data", "out"))
def convert(data: Any = None, to: str = "jsonl", out: str | os.PathLike[str] | None = None, *, texts: Any = None, labels: Any = None,
            test: Any = None, label_names: Any = None, progress: bool | None = None, **options: Unpack[ConvertOptions]) -> Result:
    """Writes a data set to the folder `out` in a format that the program and other tools read, as `elmo data convert` does.

    data, texts, labels, test, label_names : as of train; tables, Parquet and Arrow files and saved folders of Hugging Face too,
        whose classes keep their names
    to : "csv", "tsv", "jsonl", "fasttext", "xmc", "pecos", "raw", "sparse" or "jsonl-folder"

    Training and test rows go to files of their own. Without test rows a share is held out (test_share=0: none), as in
    training. Returns the files and numbers.
    """
    config = make_config("d", options)
    refuse_separator(texts, options)
    config.set("out", path_of(out, "out", "a folder for the files"))
    kept = set_data(config, data, texts, labels, test, None, label_names, options.get("test_share"), of_training=False)
    listener = Listener(progress)
    try:
        return from_json(_core.convert(listener, config, path_of(to, "to", "the name of a format")))
    finally:
        listener.close()
        del kept


@document("m", without=("data", "validation"))
def plan(data: Any = None, *, validation: Any = None, recipe: Any = None, **options: Unpack[PlanOptions]) -> Plan:
    """The memory of a training run, tensor by tensor, without running it: of a data set, or of `labels` or `shape`. data and
    validation are as of train."""
    config = make_config("m", options, recipe)
    kept = set_data(config, data, None, None, None, validation, None, options.get("test_share")) if data is not None else None
    if kept is None and options.get("labels") is None and options.get("shape") is None:
        raise _core.ConfigError("expected data, labels or shape: a plan needs the number of labels")
    return plan_of(*_core.plan(None, config))


@document("t", without=("data",))
def explain(*, recipe: Any = None, **options: Unpack[TrainOptions]) -> list[tuple[str, str, str]]:
    """Every option with the value that training would use and the reason for it.

    data : the path of a data set that `elmo train` reads. Values that follow from data (encoder, batch_size and so on) are
        those of training only beside it; of a run on rows from memory, run.log[0].config and .reasons tell them.
    """
    for what in ("texts", "labels", "test", "label_names", "data", "validation"):
        value = options.get(what)
        if is_rows(value) or (value is not None and what not in ("data", "validation")):
            raise _core.ConfigError(f"{what}: expected options alone, or the path of a data set beside them (data='rows.csv'), found "
                                    f"{describe(value)}; run.log[0].reasons tells those of a run on rows from memory")
    config, data = make_config("t", options, recipe), options.get("data")
    if data is None or is_path(opened(data)):
        return _core.resolve(config).reasons()
    kept = set_data(config, data, None, None, test_share=options.get("test_share"))
    try:
        reasons = _core.resolve(config).reasons()
    finally:
        del kept
    return [(key, os.fspath(data) if key == "data" else value, why) for key, value, why in reasons]


@document("i", without=("data",))
def inspect(path: Any, **options: Unpack[InspectOptions]) -> Result:
    """What a run folder or a data set, as train takes it, holds. The options say how to read the data."""
    config = make_config("i", options)
    if is_path(opened(path)):
        return from_json(_core.inspect(None, os.fspath(path), config))
    kept = set_data(config, path, None, None)
    try:
        report = from_json(_core.inspect(None, config.get("data"), config))
    finally:
        del kept
    for of_copy in ("cache", "format"):  # gone when this returns
        report.pop(of_copy, None)
    return report


def recipes() -> list[str]:
    """Names of the recipes that are built in."""
    return _core.recipes()
