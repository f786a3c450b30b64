"""ElmoClassifier: elmo as an estimator of scikit-learn."""
from __future__ import annotations

import difflib
import inspect
import logging
import numbers
import os
import tempfile
from typing import Any

import numpy as np

try:
    from scipy.sparse import csr_matrix, issparse
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.utils.validation import check_is_fitted
except ModuleNotFoundError as error:
    missing = "SciPy" if (error.name or "").startswith("scipy") else "scikit-learn"
    raise ImportError(f"ElmoClassifier is an estimator of scikit-learn; {missing} is not installed: pip install scikit-learn",
                      name=error.name) from None

from elmo import _core, metrics
from elmo._calls import train
from elmo._config import MOST_ANSWERS, document, make_config, number
from elmo._data import is_rows
from elmo._inputs import (BLANKS, as_list, column_list, dense_matrix, has_names, is_matrix, is_null, iterate, label_rows,
                          names_of, opened, refuse_flags, texts_of, whole_if_float)
from elmo._predictor import Answers, Predictor
from elmo._run import Run

# Options of files and folders mean nothing here, and all texts of fit are for training.
OF_FILES = ("data", "format", "encoding", "text_column", "label_column", "label_separator", "test_share", "cache",
            "columns", "delimiter", "quotes", "allow_invalid_utf8", "allow_stray_quotes", "allow_repeated_labels", "filter",
            "out", "resume", "overwrite")
OF_PREDICTION = ("top", "threshold", "probabilities")
TRAINING = [o.key for o in _core.options() if "t" in o.verbs and o.key not in OF_FILES]
PARAMETERS = [*TRAINING, *OF_PREDICTION, "verbose"]
BOOLEAN = (bool, np.bool_)
MOST_ON_GPU = 4096  # labels of a text that it ranks
CALIBRATION = "calibration-best.json"  # in the folder of a run, beside best/


def with_parameters(init):
    """The signature that scikit-learn reads parameters from, made of the option list."""
    keyword = inspect.Parameter.KEYWORD_ONLY
    init.__signature__ = inspect.Signature(
        [inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)]
        + [inspect.Parameter(name, keyword, default=None) for name in PARAMETERS])
    return init


def classes_of(labels: list[Any]) -> np.ndarray:
    """All labels, in order: numbers or booleans where all are, else names. As objects where no type of NumPy holds them."""
    if labels and all(isinstance(label, BOOLEAN) for label in labels):
        return np.unique(np.array(labels, dtype=bool))
    if all(isinstance(label, numbers.Integral) for label in labels):
        classes = sorted({int(label) for label in labels})
        array = np.array(classes)
        return array if array.dtype.kind in "iu" else np.array(classes, dtype=object)
    names = sorted({str(label).strip(BLANKS) for label in labels})
    array = np.array(names)
    return array if array.tolist() == names else np.array(names, dtype=object)  # NumPy cuts zeros at the end


def with_more(answers: Answers, rows: np.ndarray, more: Answers) -> Answers:
    """The answers, those to the texts `rows` replaced."""
    counts, new_counts, texts = np.diff(answers.offsets), np.diff(more.offsets), np.arange(len(answers))
    kept = np.repeat(~np.isin(texts, rows), counts)
    order = np.argsort(np.concatenate([np.repeat(texts, counts)[kept], np.repeat(rows, new_counts)]), kind="stable")
    labels, scores, probabilities = (np.concatenate([getattr(answers, name)[kept], getattr(more, name)])[order]
                                     for name in ("labels", "scores", "probabilities"))
    counts[rows] = new_counts
    return Answers(np.concatenate([[0], np.cumsum(counts)]), labels, scores, probabilities, more._predictor)


@document("t", without=OF_FILES)
class ElmoClassifier(ClassifierMixin, BaseEstimator):
    """Texts to labels, by `fit(X, y)` and `predict(X)`.

    X is a sequence of str. y is a matrix of 0 and 1 with a column per label (multi-label; SciPy, NumPy or DataFrame), a
    sequence of lists of labels (multi-label), or a sequence of labels (one per text; names, whole numbers or booleans),
    as which one column of NumPy or of a DataFrame is read; predict answers in the same form (of a DataFrame, a NumPy matrix of its columns), and score
    takes it in that form. A text has the labels whose probability is at least `threshold` (None: 0.5), at most `top` of
    them (None: no limit). score is P@1, which is the accuracy where each text has one label.

    top : labels per text, at most, in predict_proba (None: 5) and predict (None: all above the threshold)
    threshold : least probability of a label in predict; -1: the one with the best F1 on the validation rows
    probabilities : calibrated, by a fit on the validation rows, as with a threshold of -1; auto: raw ones otherwise
    verbose : True shows progress
    """

    @with_parameters
    def __init__(self, **parameters):
        for name in PARAMETERS:
            setattr(self, name, parameters.pop(name, None))
        if parameters:
            wrong = next(iter(parameters))
            if wrong in OF_FILES:
                raise TypeError(f"ElmoClassifier has no parameter '{wrong}': options about files, folders and test rows are not "
                                "taken; elmo.train takes them")
            near = difflib.get_close_matches(wrong, PARAMETERS, 1)
            raise TypeError(f"ElmoClassifier has no parameter '{wrong}'" + (f" (did you mean '{near[0]}'?)" if near else ""))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.two_d_array = False
        tags.input_tags.one_d_array = True
        tags.classifier_tags.multi_label = True
        tags.target_tags.required = True
        return tags

    def fit(self, X: Any, y: Any) -> ElmoClassifier:
        if y is None:
            raise ValueError("ElmoClassifier requires y to be passed, but the target y is None")
        make_config("p", {name: getattr(self, name) for name in OF_PREDICTION}).validate()  # not after the training
        if self.threshold is not None:
            number(self.threshold, "threshold")
        kind, names, classes = self._read_target(y)
        named = column_list(y) if kind == "dense" and has_names(y) else None
        options = {name: value for name in TRAINING if (value := getattr(self, name)) is not None}
        validation = options.pop("validation", None)
        if isinstance(validation, tuple) and len(validation) == 2:  # its labels have the form of y, and its columns
            validation = validation[0], self._read_alike(validation[1], "validation[1]", kind, classes, named)
        elif not isinstance(validation, tuple) and is_rows(opened(validation)):
            raise _core.DataError("validation: expected a share, a file of JSON lines, or a pair (texts, labels) whose labels have "
                                  "the form of y, found a table; give two of its columns: (table['text'], table['labels'])")
        run = train(texts=X, labels=names, validation=validation, test_share=0,
                    progress=True if self.verbose else False if self.verbose is False else None, **options)
        if self._wants_calibration(self.threshold):
            run.calibrate(progress=False)
        self._run, self.kind_, self.classes_, self._ranked = run, kind, classes, MOST_ANSWERS  # not before: a fit that fails changes nothing
        self._named = named
        column = {str(name): i for i, name in enumerate(classes.tolist())}
        self.columns_ = np.array([column[name] for name in self._run.label_names], dtype=np.int64)
        self.n_iter_ = self._run.result.steps
        return self

    def _wants_calibration(self, threshold: float | None) -> bool:
        return threshold == -1 or self.probabilities == "calibrated"

    def _read_target(self, y: Any, what: str = "y") -> tuple[str, list[list[str | None]], np.ndarray]:
        """The form of y, the labels of each text (None for a null that is allowed) and all of them."""
        allow_null = str(self.allow_null_labels).lower() == "true"
        if getattr(getattr(y, "dtype", None), "kind", "-") in "UT":  # names
            y = y.tolist() if is_matrix(y) and y.shape[1] != 1 else y
        if is_matrix(y) and (issparse(y) or y.shape[1] != 1):
            columns = range(y.shape[1])  # whatever a DataFrame calls them
            return ("sparse" if issparse(y) else "dense", list(label_rows(y, columns, allow_null=allow_null)),
                    np.arange(len(columns)))
        entries = [whole_if_float(entry, f"{what}[{i}]") for i, entry in enumerate(iterate(y, what, "an entry per text"))]
        refuse_flags(entries, what)
        known = [as_list(entry) for entry in entries if not is_null(entry)]
        named = entries
        if known and all(isinstance(entry, BOOLEAN) for entry in known):
            named = [entry if is_null(entry) else str(bool(entry)) for entry in entries]
        names = [list(dict.fromkeys(names_of(entry, f"{what}[{i}]", allow_null))) for i, entry in enumerate(named)]  # sets
        if all(isinstance(entry, (str, numbers.Integral, np.bool_)) for entry in known):
            return "one", names, classes_of(known)
        each = [label for entry in known for label in (entry if isinstance(entry, (list, tuple)) else [entry])]
        classes = classes_of([label for label in each if not is_null(label)])
        return "lists", names, classes.astype(object) if classes.dtype.kind == "U" else classes

    def _read_alike(self, y: Any, what: str, kind: str, classes: np.ndarray, named: list[str] | None) -> list[list[str | None]]:
        """The labels of other texts, in the form that y had in fit. Columns of frames are matched by name where both have
        the same names, else by place."""
        if named is not None and is_matrix(y) and has_names(y):
            place = {name: i for i, name in enumerate(column_list(y))}
            if len(place) == y.shape[1] == len(named) and place.keys() == set(named):
                y = dense_matrix(y, what)[:, [place[name] for name in named]]
        found, names, others = self._read_target(y, what)
        columns = len(others) if found in ("dense", "sparse") else None
        if kind not in ("dense", "sparse"):
            if columns is not None:
                raise _core.DataError(f"{what}: expected labels by name, as in fit, found a matrix")
            if (others.dtype.kind == "b") != (classes.dtype.kind == "b"):
                raise _core.DataError(f"{what}: expected labels of one kind, as in fit, found booleans beside names or numbers")
        elif columns != len(classes):
            raise _core.DataError(f"{what}: expected a matrix of 0 and 1 with {len(classes)} columns, as in fit, found "
                                  f"{'labels by name' if columns is None else columns}")
        return names

    def _predictor(self, top: int | None, threshold: float | None) -> Predictor:
        check_is_fitted(self, "columns_")
        if self._wants_calibration(threshold) and not os.path.exists(os.path.join(self._run.path, CALIBRATION)):
            raise _core.ConfigError("threshold=-1 and probabilities='calibrated' need a fit with one of them: fit again")
        return self._run.predictor(top=top, threshold=threshold, probabilities=self.probabilities)

    def _matrix(self, answers: Any, values: np.ndarray) -> csr_matrix:
        matrix = csr_matrix((values, self.columns_[answers.labels], answers.offsets),
                            shape=(len(answers), len(self.classes_)), copy=True)
        matrix.sort_indices()
        return matrix

    def predict_proba(self, X: Any) -> csr_matrix:
        """Probabilities of the `top` best labels of each text: a SciPy matrix with a column per class."""
        answers = self._predictor(self.top, None).predict(X)
        return self._matrix(answers, answers.probabilities)

    def _answers_above(self, X: Any, threshold: float) -> Answers:
        """All labels above the threshold, or the `top` best of them. More are ranked only of texts that have so many,
        and from then on of all: a model that is open for so many stays open."""
        if self.top is not None:
            return self._predictor(self.top, threshold).predict(X)
        texts, labels = list(texts_of(X)), len(self.columns_)
        top = min(self._ranked, labels)
        answers = self._predictor(top, threshold).predict(texts)
        while top < labels and (cut := np.flatnonzero(np.diff(answers.offsets) >= top)).size:
            more = min(MOST_ON_GPU if top < MOST_ON_GPU < 8 * top else 8 * top, labels)
            try:
                found = self._predictor(more, threshold).predict([texts[i] for i in cut])
            except _core.ConfigError:
                if top < MOST_ON_GPU:
                    raise
                logging.getLogger("elmo").warning("%d %s with %d labels above the threshold, and perhaps more: a GPU ranks "
                                                  "no more", len(cut), "text" if len(cut) == 1 else "texts", top)
                break
            answers, top = with_more(answers, cut, found), more
            self._ranked = more
        return answers

    def predict(self, X: Any) -> Any:
        """Labels, in the form that y had in fit."""
        check_is_fitted(self, "columns_")
        if self.kind_ == "one":
            answers = self._predictor(1, None).predict(X)
            return self.classes_[self.columns_[answers.labels]]
        answers = self._answers_above(X, 0.5 if self.threshold is None else self.threshold)
        if self.kind_ == "lists":
            labels = self.classes_[self.columns_[answers.labels]].tolist()
            return [labels[begin:end] for begin, end in zip(answers.offsets, answers.offsets[1:])]
        matrix = self._matrix(answers, np.ones(len(answers.labels), np.int64))
        return matrix if self.kind_ == "sparse" else matrix.toarray()

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """P@1: the share of texts whose best label is one of theirs."""
        if sample_weight is not None:
            raise ValueError("sample_weight: expected None, found weights, which P@1 has not")
        answers = self._predictor(1, None).predict(X)
        column = {str(name): i for i, name in enumerate(self.classes_.tolist())}
        truth = [[column.setdefault(name, len(column)) for name in row if name is not None]
                 for row in self._read_alike(y, "y", self.kind_, self.classes_, self._named)]
        return float(metrics.precision([[self.columns_[label]] for label in answers.labels], truth, 1)[0])

    # A pickle holds the files of the best checkpoint, and its calibration.
    def __getstate__(self):
        state = dict(super().__getstate__())
        if "_run" in state:
            folder = state.pop("_run").path
            best = os.path.join(folder, "best") if os.path.isdir(os.path.join(folder, "best")) else folder
            calibration = os.path.join(folder, CALIBRATION)
            state["_files"] = {}
            for path in [os.path.join(best, name) for name in sorted(os.listdir(best))] + [calibration]:
                if path != calibration or os.path.exists(path):
                    with open(path, "rb") as file:
                        state["_files"][os.path.basename(path)] = file.read()
        return state

    def __setstate__(self, state):
        state = dict(state)
        files = state.pop("_files", None)
        super().__setstate__(state)
        if files is None:
            return
        temporary = tempfile.mkdtemp(prefix="elmo-run-")
        folder = os.path.join(temporary, "best")
        os.mkdir(folder)
        for name, content in files.items():
            if os.path.basename(name) != name:
                raise _core.DataError(f"expected the name of a file of a checkpoint, found {name!r}")
            with open(os.path.join(temporary if name == CALIBRATION else folder, name), "wb") as file:
                file.write(content)
        self._run, self._ranked = Run._of(temporary, temporary, []), MOST_ANSWERS  # perhaps on another device
