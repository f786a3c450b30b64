"""The metrics against their formulas, and against pyxclib's numbers where the conformance data is."""
import json

import numpy as np
import pytest
from conftest import SHARED

import elmo
from elmo import metrics

sparse = pytest.importorskip("scipy.sparse")


@pytest.fixture(scope="module")
def problem():
    pick = np.random.default_rng(3)
    truth = (pick.random((40, 12)) < 0.2).astype(np.int8)
    scores = pick.permutation(np.arange(1, 40 * 12 + 1)).reshape(40, 12).astype(float)
    return sparse.csr_matrix(scores), sparse.csr_matrix(truth)


def by_hand(scores, truth, k, weights):
    """The formulas as they stand in docs/evaluation.md."""
    scores, truth = scores.toarray(), truth.toarray()
    order = np.argsort(-scores, axis=1)[:, :k]
    hits = np.take_along_axis(truth, order, 1)
    gains = hits * weights[order]
    discount = 1 / np.log2(np.arange(2, k + 2))
    counts = truth.sum(1)
    ideal = np.array([discount[:min(k, n)].sum() or 1 for n in counts])
    best = np.sort(truth * weights, axis=1)[:, ::-1][:, :k]
    return {"P": hits.sum(1).mean() / k, "R": (hits.sum(1) / np.maximum(counts, 1)).mean(),
            "nDCG": ((hits * discount).sum(1) / ideal).mean(), "PSP": gains.sum() / best.sum(),
            "PSnDCG": ((gains * discount).sum(1) / ideal).sum() / ((best * discount).sum(1) / ideal).sum()}


def test_formulas(problem):
    scores, truth = problem
    weights = metrics.inverse_propensity(truth, 0.55, 1.5)
    counts = np.asarray(truth.sum(0)).ravel()
    assert weights == pytest.approx(1 + (np.log(40) - 1) * 2.5**0.55 * (counts + 1.5)**-0.55)
    functions = {"P": metrics.precision, "R": metrics.recall, "nDCG": metrics.ndcg}
    weighted = {"PSP": metrics.psprecision, "PSnDCG": metrics.psndcg}
    for k in (1, 3, 5):
        for name, value in by_hand(scores, truth, k, weights).items():
            found = weighted[name](scores, truth, weights, k) if name in weighted else functions[name](scores, truth, k)
            assert len(found) == k and found[-1] == pytest.approx(value, rel=1e-12), (name, k)
    together = metrics.scores(scores, truth, (1, 3), weights)
    assert list(together) == [f"{m}@{k}" for m in ("P", "nDCG", "PSP", "PSnDCG", "R") for k in (1, 3)]


def test_forms(problem):
    scores, truth = problem
    order = np.argsort(-scores.toarray(), axis=1)[:, :5]
    lists = [np.flatnonzero(row).tolist() for row in truth.toarray()]
    wanted = metrics.ndcg(scores, truth)
    for predicted in (order, order.tolist(), np.hstack([order, -np.ones((40, 1), int)])):
        for true in (truth, truth.toarray(), lists, truth.tocsc()):
            assert (metrics.ndcg(predicted, true) == wanted).all()
    tied = sparse.csr_matrix(np.ones((1, 3)))
    assert metrics.precision(tied, [[0]], 1)[0] == 1 and metrics.precision(tied, [[2]], 1)[0] == 0


@pytest.mark.parametrize("predicted, truth, message", [
    ([[0]], [[0], [1]], "expected predictions for 2 rows of true labels, found 1"),
    ([[0, 0]], [[0]], "predicted, row 0: expected every label once"), ([[0]], [[-1]], "truth, row 0: expected label numbers"),
    ([["a"]], [[0]], r"predicted\[0\]: expected label numbers"), ([[0]], [[0.5]], r"truth\[0\]: expected label numbers"),
    (np.zeros((1, 3)), [[0]], "given as a SciPy matrix"), ([[0]], np.array([[np.nan, 1]]), "matrix of 0 and 1"),
    (sparse.csr_matrix([[np.nan]]), [[0]], "finite scores"), (3, [[0]], "predicted: expected an entry per text")])
def test_bad_input(predicted, truth, message):
    with pytest.raises(elmo.DataError, match=message):
        metrics.precision(predicted, truth)
    with pytest.raises(elmo.ConfigError, match="k: expected"):
        metrics.precision([[0]], [[0]], 0)


def read_sparse(path):
    with open(path, encoding="utf-8") as file:
        shape = [int(n) for n in file.readline().split()]
        rows = [[pair.split(":") for pair in line.split()] for line in file]
    indptr = np.cumsum([0] + [len(row) for row in rows])
    columns = [int(label) for row in rows for label, _ in row]
    return sparse.csr_matrix(([float(value) for row in rows for _, value in row], columns, indptr), shape)


def test_pyxclib():
    folder = SHARED / "conformance" / "metrics"
    if not folder.exists() or not (SHARED / "data" / "tate-subjects").exists():
        pytest.skip(f"{folder} is not there")
    expected = json.loads((folder / "expected.json").read_text())["tate-subjects"]["A=0.55,B=1.5"]
    predicted = read_sparse(folder / "tate-subjects_pred_top10.txt")
    train, truth = (read_sparse(SHARED / "data" / "tate-subjects" / f"{name}_X_Y.txt") for name in ("trn", "tst"))
    weights = metrics.inverse_propensity(train, 0.55, 1.5)
    found = metrics.scores(predicted, truth, 5, weights)
    for metric in ("P", "nDCG", "PSP", "PSnDCG", "R"):
        ours = [found[f"{metric}@{k}"] for k in range(1, 6)]
        assert ours == pytest.approx(expected[metric]["xclib"], abs=5e-5 if metric == "R" else 5e-7)
