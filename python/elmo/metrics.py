"""P, nDCG, PSP, PSnDCG and R at k of predictions from anywhere, equal to pyxclib's; computed by the library.

Predictions are a SciPy matrix of scores (a row per text, a column per label; ranked by score, equal ones by lower
label), a DataFrame of them (0 is no score, as in such a matrix), an array of label numbers with a row per text (best first; negative ones are none), lists of them, or the
Answers of a Predictor. True labels are a matrix of 0 and 1, or lists of label numbers. Each function returns an array
of the scores at 1 to k, as fractions of 1."""
from __future__ import annotations

import logging
import numbers
from typing import Any, Iterable

import numpy as np

from elmo import _core
from elmo._config import number
from elmo._inputs import column_list, csr_type, dense_matrix, describe, has_names, is_matrix, iterate, listed_names

__all__ = ["inverse_propensity", "ndcg", "precision", "psndcg", "psprecision", "recall", "scores"]

DataError = _core.DataError


def whole_numbers(values: Any, where: str) -> np.ndarray:
    if isinstance(values, numbers.Number):
        raise DataError(f"{where}: expected label numbers in a list, found {describe(values)}")
    array = np.asarray(values if hasattr(values, "__len__") else list(values))
    if array.size == 0:
        return np.zeros(0, np.int64)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise DataError(f"{where}: expected label numbers, found {describe(values)}")
    return array.astype(np.int64)


def from_lists(rows: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    offsets = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
    return offsets, np.concatenate([*rows, np.zeros(0, np.int64)]).astype(np.int64)


def ranked_by_score(matrix: Any) -> tuple[np.ndarray, np.ndarray]:
    csr = matrix.tocsr()
    if not np.isfinite(csr.data).all():
        raise DataError("predicted: expected finite scores, found NaN or infinity")
    rows = np.repeat(np.arange(csr.shape[0]), np.diff(csr.indptr))
    scores = csr.data.astype(np.float64) if csr.data.dtype.kind in "bui" else csr.data  # not all have a negative
    order = np.lexsort((csr.indices, -scores, rows))
    return csr.indptr.astype(np.int64), csr.indices[order].astype(np.int64)


def is_frame(values: Any) -> bool:
    return is_matrix(values) and hasattr(values, "columns")


def predicted_rows(predicted: Any) -> tuple[np.ndarray, np.ndarray]:
    if is_frame(predicted):
        csr_matrix = csr_type("predicted: a DataFrame is read with")
        predicted = csr_matrix(dense_matrix(predicted, "predicted", "numbers"))
    if hasattr(predicted, "tocsr"):
        return ranked_by_score(predicted)
    if hasattr(predicted, "offsets"):  # Answers
        return predicted.offsets, predicted.labels
    if is_matrix(predicted):
        predicted = np.asarray(predicted)
        if predicted.dtype.kind not in "iu":
            raise DataError(f"predicted: expected label numbers, found an array of {predicted.dtype}; scores of all "
                            "labels are given as a SciPy matrix")
        if predicted.shape[1] > 2 and predicted.size and np.isin(predicted, (0, 1)).all():
            raise DataError("predicted: expected label numbers, the best first, found a matrix of 0 and 1; give it as a SciPy "
                            "matrix (scipy.sparse.csr_matrix)")
        return from_lists([row[row >= 0] for row in predicted])
    rows = iterate(predicted, "predicted", "an entry per text")
    return from_lists([whole_numbers(row, f"predicted[{i}]") for i, row in enumerate(rows)])


def true_rows(truth: Any, advice: str = "") -> tuple[np.ndarray, np.ndarray]:
    if is_matrix(truth):
        if not hasattr(truth, "tocsr"):
            truth = dense_matrix(truth, "truth")
        values = truth.tocsr().data if hasattr(truth, "tocsr") else truth
        if values.dtype.kind not in "biuf" or not np.isin(values, (0, 1)).all():
            raise DataError(f"truth: expected a matrix of 0 and 1, found other values{advice}")
        if not hasattr(truth, "tocsr"):
            return from_lists([np.flatnonzero(row) for row in truth])
        csr = truth.tocsr(copy=True)
        csr.sum_duplicates()
        csr.eliminate_zeros()
        return csr.indptr.astype(np.int64), csr.indices.astype(np.int64)
    rows = iterate(truth, "truth", "an entry per text")
    return from_lists([whole_numbers(row, f"truth[{i}]") for i, row in enumerate(rows)])


def weights_of(inverse_propensity: Any) -> np.ndarray:
    try:
        weights = np.ascontiguousarray(inverse_propensity, np.float64)
    except (TypeError, ValueError):
        weights = np.full(1, np.nan)
    if inverse_propensity is None or weights.ndim != 1 or not np.isfinite(weights).all():
        raise DataError(f"inverse_propensity: expected one finite number per label, found {describe(inverse_propensity)}")
    return weights


def check_columns(predicted: Any, truth: Any) -> None:
    """Matrices of different columns do not number labels alike."""
    if not is_matrix(truth):
        return
    of_run, has_columns = hasattr(predicted, "offsets"), hasattr(predicted, "tocsr") or is_frame(predicted)
    columns = predicted.num_labels if of_run else predicted.shape[1] if has_columns else truth.shape[1]
    if columns != truth.shape[1]:
        raise DataError(f"expected predictions and true labels with as many columns, found {columns} and {truth.shape[1]}"
                        + ("; a run numbers its labels in its own order: to_csr(columns=...) gives them in yours"
                           if of_run else "; label numbers, the best first, are given as an array (to_numpy())"
                           if is_frame(predicted) else ""))


def warn_of_order(predicted: Any, truth: Any) -> None:
    """The names of a matrix's columns without names are numbers, and a run orders names by their bytes: label 2 is '10'."""
    if hasattr(predicted, "offsets") and is_matrix(truth) and truth.shape[1] > 10 and predicted._name(2) == "10":
        logging.getLogger("elmo").warning("the labels of these answers are in the order of their names, '10' before '2': if the "
                                          "columns of the truth are numbered, give answers.to_csr(columns=range(%d))",
                                          truth.shape[1])


def in_columns_of(truth: Any, predicted: Any) -> Any:
    """A frame of predictions with the columns of a frame of true labels, in their order."""
    if not (is_frame(predicted) and is_frame(truth)):
        return predicted
    names, wanted = column_list(predicted), column_list(truth)
    place, needed = {name: i for i, name in enumerate(names)}, set(wanted)
    if names == wanted or (place.keys() != needed and not (has_names(predicted) and has_names(truth))):
        return predicted
    if len(place) < len(names) or len(needed) < len(wanted):
        raise DataError("expected every column of predictions and of true labels once, found one more than once; rename it")
    if other := [name for name in names if name not in needed]:
        raise DataError(f"expected predictions and true labels with the same columns, found {listed_names(other)} only in the "
                        "predictions; truth.to_numpy() has no names, so that columns are matched by place")
    csr_matrix = csr_type("predicted: a DataFrame is read with")
    return csr_matrix(dense_matrix(predicted, "predicted", "numbers")[:, [place[name] for name in wanted]])


def scores(predicted: Any, truth: Any, k: Any = (1, 3, 5), inverse_propensity: Any = None) -> dict[str, float]:
    """Every score at the given k: {"P@1": ..., "nDCG@1": ..., ...}, with PSP and PSnDCG where there are inverse
    propensities."""
    weights = np.zeros(0) if inverse_propensity is None else weights_of(inverse_propensity)
    ks = list(range(1, int(k) + 1) if isinstance(k, numbers.Integral) else k if isinstance(k, Iterable) else [k])
    for one in ks:
        if not isinstance(one, numbers.Integral):
            raise _core.ConfigError(f"k: expected whole numbers from 1 on, found {describe(one)}")
    check_columns(predicted, truth)
    warn_of_order(predicted, truth)
    predicted = in_columns_of(truth, predicted)
    ranked, right = predicted_rows(predicted), true_rows(truth, "; predictions come first, then the truth")
    labels = truth.shape[1] if is_matrix(truth) else 1 + max(ranked[1].max(initial=-1), right[1].max(initial=-1))
    if inverse_propensity is not None and (len(weights) < labels or is_matrix(truth) and len(weights) != labels):
        raise DataError(f"inverse_propensity: expected a number for each of {labels} labels, found {len(weights)}")
    found = _core.score_rankings(*ranked, *right, [int(one) for one in ks], weights)
    return {f"{metric}@{at}": value for metric, at, value in found}


def at_each(metric: str, predicted: Any, truth: Any, k: int, inverse_propensity: Any = None) -> np.ndarray:
    if not isinstance(k, (int, np.integer)) or k < 1:
        raise _core.ConfigError(f"k: expected a whole number from 1 on, found {k!r}")
    found = scores(predicted, truth, int(k), inverse_propensity)
    return np.array([found[f"{metric}@{i}"] for i in range(1, k + 1)])


def precision(predicted: Any, truth: Any, k: int = 5) -> np.ndarray:
    """P@1 to P@k."""
    return at_each("P", predicted, truth, k)


def recall(predicted: Any, truth: Any, k: int = 5) -> np.ndarray:
    """R@1 to R@k."""
    return at_each("R", predicted, truth, k)


def ndcg(predicted: Any, truth: Any, k: int = 5) -> np.ndarray:
    """nDCG@1 to nDCG@k."""
    return at_each("nDCG", predicted, truth, k)


def psprecision(predicted: Any, truth: Any, inverse_propensity: Any, k: int = 5) -> np.ndarray:
    """PSP@1 to PSP@k."""
    return at_each("PSP", predicted, truth, k, weights_of(inverse_propensity))


def psndcg(predicted: Any, truth: Any, inverse_propensity: Any, k: int = 5) -> np.ndarray:
    """PSnDCG@1 to PSnDCG@k."""
    return at_each("PSnDCG", predicted, truth, k, weights_of(inverse_propensity))


def inverse_propensity(labels: Any, a: float = 0.55, b: float = 1.5) -> np.ndarray:
    """Inverse propensities of labels from the training rows, a matrix of 0 and 1 with a column per label."""
    if len(getattr(labels, "shape", ())) != 2:
        raise DataError(f"labels: expected a matrix with a row per text and a column per label, found "
                        f"{describe(labels)}")
    _, numbers = true_rows(labels)
    counts = np.bincount(numbers, minlength=labels.shape[1]).astype(np.int64)
    return _core.inverse_propensities(counts, labels.shape[0], number(a, "a"), number(b, "b"))
