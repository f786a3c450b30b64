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
    (np.array([[0, 1, 0]]), [[1]], "found a matrix of 0 and 1; give it as a SciPy matrix"),
    (sparse.csr_matrix([[0, 1]]), sparse.csr_matrix([[0.2, 0.7]]), "found other values; predictions come first, then the truth"),
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


def test_frames(problem):
    """A DataFrame is a matrix; iterating over one gives the names of its columns."""
    pandas = pytest.importorskip("pandas")
    scores, truth = problem
    frame = pandas.DataFrame(truth.toarray(), columns=[f"label {i}" for i in range(12)])
    for given in (frame, frame.astype("Int64"), frame.astype("boolean"), np.matrix(truth.toarray())):
        assert (metrics.precision(scores, given) == metrics.precision(scores, truth)).all()
        assert (metrics.inverse_propensity(given) == metrics.inverse_propensity(truth)).all()
    best = pandas.DataFrame(np.argsort(-scores.toarray(), axis=1)[:, :5])
    for given in (best.to_numpy(), np.matrix(best)):
        assert (metrics.precision(given, truth) == metrics.precision(scores, truth)).all()
    with pytest.raises(elmo.DataError, match="found 5 and 12; label numbers, the best first, are given as an array"):
        metrics.precision(best, truth)


def test_scores_of_every_type():
    truth = [[1], [0, 2]]
    stored = sparse.csr_matrix((np.array([0, 3, 1, 1, 1, 0]), np.array([0, 1, 2, 0, 2, 1]), np.array([0, 3, 6])), (2, 3))
    for kind in (np.int8, np.uint8, np.uint64, np.float32):
        assert metrics.precision(stored.astype(kind), truth, 2).tolist() == [1, 0.75]
    assert metrics.precision(sparse.csr_matrix([[False, True, False], [True, False, True]]), truth, 1).tolist() == [1]


def test_what_k_may_be(problem):
    assert metrics.scores(*problem, np.int64(2)) == metrics.scores(*problem, 2)
    for k in (1.5, [1.5], "1", None):
        with pytest.raises(elmo.ConfigError, match="k: expected whole numbers"):
            metrics.scores(*problem, k)


@pytest.mark.parametrize("weights", [None, ["a", "b"]])
def test_weights_that_are_none(problem, weights):
    with pytest.raises(elmo.DataError, match="inverse_propensity: expected one finite number per label"):
        metrics.psprecision(*problem, weights)


def test_one_label_per_text_is_a_list_too():
    with pytest.raises(elmo.DataError, match=r"truth\[0\]: expected label numbers in a list, found 0 \(int\)"):
        metrics.precision([[0], [1]], [0, 1], 1)


def test_other_columns(problem, run, texts):
    scores, truth = problem
    with pytest.raises(elmo.DataError, match="as many columns, found 11 and 12"):
        metrics.precision(scores[:, :11], truth)
    with pytest.raises(elmo.DataError, match="as many columns, found 9 and 12.*to_csr"):
        metrics.precision(run.predict(texts[:40]), truth)


def test_frames_of_predictions_are_matrices():
    pandas, sparse = pytest.importorskip("pandas"), pytest.importorskip("scipy.sparse")
    truth = pandas.DataFrame([[1, 0, 0], [0, 0, 1]], columns=["a", "b", "c"])
    for values in (truth.values, np.array([[3, 2, 1], [1, 2, 3]]), np.array([[0.5, -1, 0.2], [0, 0.5, 0.1]]), truth.values > 0):
        for frame in (pandas.DataFrame(values), pandas.DataFrame(values, columns=["a", "b", "c"])):
            for metric in (metrics.precision, metrics.ndcg):
                assert metric(frame, truth, k=2).tolist() == metric(sparse.csr_matrix(values), truth, k=2).tolist()
    assert metrics.precision(truth, truth, k=1).tolist() == [1.0]
    assert metrics.precision(truth, [[0], [2]], k=1).tolist() == [1.0]
    for frame, message in ((pandas.DataFrame([["a"] * 3] * 2), "predicted: expected a matrix of numbers, found 'a'"),
                           (pandas.DataFrame([[np.nan] * 3] * 2), "predicted: expected finite scores"),
                           (pandas.DataFrame([[1, 0]] * 2), "as many columns, found 2 and 3")):
        with pytest.raises(elmo.DataError, match=message):
            metrics.precision(frame, truth, k=1)


def test_frames_are_matched_by_the_names_of_their_columns():
    pandas = pytest.importorskip("pandas")
    truth = pandas.DataFrame([[1, 0, 0], [0, 0, 1]], columns=["a", "b", "c"])
    scored = pandas.DataFrame([[0.9, 0.2, 0.1], [0.1, 0.2, 0.9]], columns=["a", "b", "c"])
    assert metrics.precision(scored[["c", "a", "b"]], truth, k=1).tolist() == [1]
    assert metrics.ndcg(scored, truth[["b", "c", "a"]], k=2).tolist() == metrics.ndcg(scored, truth, k=2).tolist()
    assert metrics.precision(scored.set_axis(["c", "a", "b"], axis=1), truth.to_numpy(), k=1).tolist() == [1]
    numbered = truth.set_axis(range(3), axis=1)
    assert metrics.precision(scored, numbered, k=1).tolist() == [1]
    assert metrics.precision(scored.set_axis(range(3), axis=1)[[2, 0, 1]], numbered, k=1).tolist() == [1]
    for columns, message in ((["a", "b", "d"], "the same columns, found 'd' only in the predictions"),
                             (["a", "b", "b"], "once, found one more than once")):
        with pytest.raises(elmo.DataError, match=message):
            metrics.precision(scored.set_axis(columns, axis=1), truth, k=1)


def test_scores_of_8_bits():
    """The lowest has no negative of its type."""
    for kind in (np.int8, np.int16, np.int64):
        assert elmo.metrics.precision(sparse.csr_matrix(np.array([[np.iinfo(kind).min, 5]], kind)), [[1]], k=1).tolist() == [1.0]
