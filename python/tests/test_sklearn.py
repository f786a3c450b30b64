"""ElmoClassifier among scikit-learn's tools."""
import pickle
import warnings

import numpy as np
import pytest
from conftest import SMALL, rows

import elmo

sklearn = pytest.importorskip("sklearn")
from sklearn.base import clone  # noqa: E402
from sklearn.exceptions import NotFittedError  # noqa: E402
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score  # noqa: E402
from sklearn.pipeline import Pipeline  # noqa: E402
from sklearn.preprocessing import FunctionTransformer, MultiLabelBinarizer  # noqa: E402
from sklearn.utils import estimator_checks  # noqa: E402

from elmo import ElmoClassifier  # noqa: E402

CASES = ["the red apple", "a blue river"]


@pytest.fixture(scope="module")
def matrix(labels):
    binarizer = MultiLabelBinarizer()
    return binarizer.fit_transform(labels), binarizer.classes_.tolist()


def test_lists_of_labels(texts, labels):
    model = ElmoClassifier(**SMALL).fit(texts, labels)
    assert [sorted(row) for row in model.predict(CASES)] == [["apple", "colour red"], ["colour blue", "river"]]
    assert model.classes_.tolist() == sorted({name for row in labels for name in row})
    assert model.score(*rows(30, seed=4)) > 0.9
    assert model.score(CASES, [["never seen"], ["river"]]) <= 0.5


def test_matrices(texts, matrix):
    from scipy.sparse import csr_matrix
    y, names = matrix
    dense = ElmoClassifier(**SMALL).fit(np.array(texts), y)
    found = dense.predict(CASES)
    assert isinstance(found, np.ndarray) and found.shape == (2, len(names))
    assert [names[i] for i in np.flatnonzero(found[0])] == ["apple", "colour red"]
    sparse = ElmoClassifier(**SMALL).fit(texts, csr_matrix(y))
    assert (sparse.predict(CASES).toarray() == found).all()
    probabilities = dense.predict_proba(CASES)
    assert probabilities.shape == (2, len(names)) and probabilities.nnz == 10  # top 5 each
    assert (probabilities[0, found[0] == 1].toarray() >= 0.5).all()


def test_a_frame_of_flags(texts, matrix):
    """A DataFrame is a matrix: its columns may have any names, and predict answers in their order."""
    pandas = pytest.importorskip("pandas")
    y, names = matrix
    dense = ElmoClassifier(**SMALL).fit(texts, y)
    frame = pandas.DataFrame(y, columns=names, index=[f"row {i}" for i in range(len(y))])
    model = ElmoClassifier(**SMALL).fit(texts, frame)
    assert (model.predict(CASES) == dense.predict(CASES)).all()
    assert model.score(texts, frame) == dense.score(texts, y)


@pytest.mark.parametrize("numbered", [False, True])
def test_validation_has_the_columns_of_fit(texts, matrix, numbered):
    pandas = pytest.importorskip("pandas")
    y, names = matrix
    names = list(range(len(names)))[::-1] if numbered else names
    short, new = SMALL | dict(epochs=2), slice(150, None)
    dense = ElmoClassifier(**short, validation=(texts[new], y[new])).fit(texts[:150], y[:150])
    frame = pandas.DataFrame(y, columns=names)
    for other in (frame.iloc[new], frame.iloc[new][names[::-1]], y[new]):
        model = ElmoClassifier(**short, validation=(texts[new], other), threshold=-1).fit(texts[:150], frame.iloc[:150])
        assert model._run.result.best_score == dense._run.result.best_score > 0
        assert model.score(texts[new], other) == dense.score(texts[new], y[new])
    with pytest.raises(elmo.DataError, match=r"validation\[1\]: expected a matrix of 0 and 1 with 9 columns, as in fit, found 4"):
        ElmoClassifier(**short, validation=(texts, y[:, :4])).fit(texts, y)


def test_validation_is_no_table(texts, labels, tmp_path):
    """Its labels would not have the form of y, and no parameter names its columns."""
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"title": texts, "tags": labels})
    pytest.importorskip("pyarrow")
    table.to_parquet(tmp_path / "rows.parquet")
    for validation in (table, tmp_path / "rows.parquet"):
        with pytest.raises(elmo.DataError, match=r"validation: expected .* a pair \(texts, labels\) .* found a table; give two of its columns"):
            ElmoClassifier(encoder="linear", validation=validation).fit(texts, labels)
    assert ElmoClassifier(encoder="linear", validation=(table["title"], table["tags"])).fit(texts, labels).score(texts, labels) > 0.9


def test_score_wants_the_form_of_fit(texts, labels, matrix):
    """Names beside the columns of a matrix would all be labels that are never answered."""
    y, _ = matrix
    dense = ElmoClassifier(**SMALL | dict(epochs=1)).fit(texts, y)
    with pytest.raises(elmo.DataError, match="y: expected a matrix of 0 and 1 with 9 columns, as in fit, found labels"):
        dense.score(texts, labels)
    with pytest.raises(elmo.DataError, match="y: expected a matrix of 0 and 1 with 9 columns, as in fit, found 8"):
        dense.score(texts, y[:, :8])
    with pytest.raises(elmo.DataError, match="y: expected labels by name, as in fit, found a matrix"):
        ElmoClassifier(**SMALL | dict(epochs=1)).fit(texts, labels).score(texts, y)


def test_calibration(texts, labels):
    options = SMALL | dict(validation=0.3)
    model = ElmoClassifier(threshold=-1, **options).fit(texts, labels)
    assert model._run.predictor().calibrated
    again = pickle.loads(pickle.dumps(model))
    assert again.predict(CASES) == model.predict(CASES)
    calibrated = ElmoClassifier(probabilities="calibrated", **options).fit(texts, labels).predict_proba(CASES)
    plain = ElmoClassifier(**options).fit(texts, labels)
    assert (calibrated != plain.predict_proba(CASES)).nnz > 0
    with pytest.raises(elmo.ConfigError, match="fit again"):
        plain.set_params(threshold=-1).predict(CASES)


def test_one_label_per_text(texts, labels):
    things = np.array([row[1] for row in labels])
    model = ElmoClassifier(**SMALL).fit(texts, things)
    assert model.predict(CASES).tolist() == ["apple", "river"] and model.classes_.tolist() == sorted(set(things))
    assert model.score(texts, things) > 0.95
    numbers = ElmoClassifier(**SMALL).fit(texts, [len(thing) for thing in things])
    assert numbers.predict(CASES).tolist() == [5, 5]
    of_numpy = ElmoClassifier(**SMALL).fit(texts, [np.int64(len(thing)) for thing in things])
    assert of_numpy.predict(CASES).tolist() == [5, 5] and of_numpy.classes_.tolist() == [4, 5]


def test_texts_without_labels(texts, labels):
    """What the message about a None advises is what helps."""
    things = [None if i % 9 == 0 else row[1] for i, row in enumerate(labels)]
    with pytest.raises(elmo.DataError, match=r"y\[0\].*allow_null_labels=True"):
        ElmoClassifier(**SMALL).fit(texts, things)
    one = ElmoClassifier(allow_null_labels=True, **SMALL).fit(texts, things)
    assert one.predict(CASES).tolist() == ["apple", "river"] and one.score(texts[1:9], things[1:9]) == 1
    assert one.score(texts, things) < 0.9  # a text without labels is never answered right
    lists = ElmoClassifier(allow_null_labels=True, **SMALL).fit(texts, [thing and [thing, None] for thing in things])
    assert lists.predict(CASES) == [["apple"], ["river"]]


def test_clone_and_parameters():
    model = ElmoClassifier(width=24, epochs=3)
    assert clone(model).get_params() == model.get_params() and model.get_params()["width"] == 24
    assert repr(model) == "ElmoClassifier(epochs=3, width=24)"
    assert model.set_params(width=32).width == 32
    for of_files in ("out", "test_share", "label_column"):
        with pytest.raises(TypeError, match=f"no parameter '{of_files}': options about files, folders and test rows are not taken"):
            ElmoClassifier(**{of_files: "model"})
    with pytest.raises(TypeError, match="no parameter 'wide'"):
        ElmoClassifier(wide=3)
    with pytest.raises(NotFittedError):
        model.predict(CASES)
    with pytest.raises(elmo.ConfigError, match="width"):
        ElmoClassifier(**SMALL | dict(width=-1)).fit(CASES, ["a", "b"])


def test_labels_of_a_text_are_a_set(texts, labels):
    """A list that has a label twice, as MultiLabelBinarizer takes it, is learnt and scored."""
    model = ElmoClassifier(**SMALL)
    once = model.fit(texts, labels).predict(texts)
    twice = [[*row, row[0]] for row in labels]
    assert model.fit(texts, twice).predict(texts) == once
    assert model.score(texts, twice) == model.score(texts, labels)


def test_pickle(texts, labels):
    model = ElmoClassifier(**SMALL).fit(texts, labels)
    again = pickle.loads(pickle.dumps(model))
    assert again.predict(texts) == model.predict(texts)
    third = pickle.loads(pickle.dumps(again))
    del again
    assert (third.predict_proba(CASES) != model.predict_proba(CASES)).nnz == 0
    assert pickle.loads(pickle.dumps(ElmoClassifier(width=8))).width == 8


def test_grid_search_and_pipeline(texts, labels):
    pipeline = Pipeline([("lower", FunctionTransformer(lambda texts: [t.lower() for t in texts])),
                         ("elmo", ElmoClassifier(**SMALL | dict(epochs=4)))])
    search = GridSearchCV(pipeline, {"elmo__head_lr": [0.2, 1e-9]}, cv=KFold(2))
    search.fit(np.array(texts, object), labels)
    assert search.best_params_ == {"elmo__head_lr": 0.2}
    assert len(search.predict([text.upper() for text in CASES])) == 2


def test_scikit_learns_own_checks():
    """check_estimator leaves out, by the estimator's tags, every check that needs a matrix of numbers as X. Of the others
    it runs one; those that need no X at all are run here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = estimator_checks.check_estimator(ElmoClassifier(**SMALL | dict(epochs=1)), on_fail=None)
    failed = {result["check_name"]: result["exception"] for result in results if result["status"] == "failed"}
    assert not failed
    assert any(result["status"] == "passed" for result in results)
    for check in ("check_parameters_default_constructible", "check_no_attributes_set_in_init", "check_get_params_invariance",
                  "check_set_params", "check_estimator_repr", "check_estimator_tags_renamed", "check_valid_tag_types",
                  "check_mixin_order"):
        if hasattr(estimator_checks, check):
            getattr(estimator_checks, check)("ElmoClassifier", ElmoClassifier(width=16))


def test_lists_of_numbers(texts, labels):
    """Whole numbers in lists come back as numbers."""
    number = {name: i * 5 for i, name in enumerate(sorted({name for row in labels for name in row}))}
    model = ElmoClassifier(**SMALL).fit(texts, [[number[name] for name in row] for row in labels])
    assert model.classes_.tolist() == sorted(number.values())
    assert [sorted(row) for row in model.predict(CASES)] == [sorted([number["apple"], number["colour red"]]),
                                                             sorted([number["colour blue"], number["river"]])]
    assert model.score(CASES, [[number["apple"]], [number["river"], number["colour blue"]]]) >= 0.5


def test_whole_numbers_that_are_floats(texts, labels):
    y = np.array([len(row[1]) for row in labels])
    short = SMALL | dict(epochs=2)
    expected, model = (ElmoClassifier(**short).fit(texts, of) for of in (y, y.astype(float)))
    assert model.classes_.tolist() == sorted(set(y.tolist())) and (model.predict(CASES) == expected.predict(CASES)).all()
    assert model.score(texts, y.astype(float)) == expected.score(texts, y)


def test_a_matrix_of_names(texts, labels):
    model = ElmoClassifier(**SMALL).fit(texts, np.array(labels))
    assert [sorted(row) for row in model.predict(CASES)] == [["apple", "colour red"], ["colour blue", "river"]]


def test_a_frame_of_one_column_of_names(texts, labels):
    """It is what fit took it for in score, in validation and in scikit-learn's own calls too."""
    pandas = pytest.importorskip("pandas")
    short = SMALL | dict(epochs=4)
    frame = pandas.DataFrame({"labels": [row[1] for row in labels]})
    series = ElmoClassifier(**short, validation=(texts[150:], frame["labels"][150:])).fit(texts[:150], frame["labels"][:150])
    model = ElmoClassifier(**short, validation=(texts[150:], frame[150:])).fit(texts[:150], frame[:150])
    assert model._run.result.best_score == series._run.result.best_score > 0
    assert model.score(texts, frame) == series.score(texts, frame["labels"]) > 0
    scores = (cross_val_score(ElmoClassifier(**short), np.array(texts), y, cv=2) for y in (frame, frame["labels"]))
    assert np.array_equal(*scores)


def test_one_column_of_flags_holds_the_labels_0_and_1(texts, labels):
    """As scikit-learn's classifiers ravel it; a label of its own is a SciPy matrix of one column."""
    pandas = pytest.importorskip("pandas")
    flags = np.array([int("apple" in row) for row in labels])
    expected = ElmoClassifier(encoder="linear").fit(texts, flags)
    for y in (flags[:, None], pandas.DataFrame({"apple": flags})):
        model = ElmoClassifier(encoder="linear").fit(texts, y)
        assert model.classes_.tolist() == [0, 1] and model.predict(CASES).tolist() == expected.predict(CASES).tolist() == [1, 0]
        assert model.score(texts, y) == expected.score(texts, flags)
    assert "one column" in ElmoClassifier.__doc__


def test_a_sparse_matrix_of_one_column(texts, labels):
    from scipy.sparse import csr_matrix, coo_array
    y = csr_matrix([[int("apple" in row)] for row in labels])
    model = ElmoClassifier(**SMALL).fit(texts, y)
    assert model.predict(CASES).toarray().tolist() in ([[1], [0]], [[1], [1]])  # nothing else can be answered
    assert model.classes_.tolist() == [0] and model.score(texts, y) == y.mean()
    with pytest.raises(elmo.DataError, match="found a SciPy matrix of the shape"):
        ElmoClassifier(**SMALL).fit(texts, coo_array(np.ones(len(texts))))


@pytest.mark.parametrize("values", [[-1, 2**63], ["a", "a\0"], [2**70, 1], ["1", 2]])
def test_labels_that_no_type_of_numpy_holds(texts, values):
    y = [values[i % 2] for i in range(len(texts))]
    model = ElmoClassifier(**SMALL).fit(texts, y)
    assert sorted(map(str, model.classes_)) == sorted(map(str, values))
    assert set(map(str, model.predict(texts))) <= set(map(str, values))


@pytest.mark.parametrize("wrong, message", [
    (dict(probabilities="calibratd"), "probabilities: expected one of"), (dict(threshold=2), "threshold: expected a number from 0"),
    (dict(threshold="-1"), "threshold: expected a number, found '-1'"), (dict(top=0), "top: expected an integer from 1"),
    (dict(threshold=-1, probabilities="raw"), "threshold: -1 is the best one of calibrated probabilities, found probabilities='raw'; "
                                              "leave it out, or give another threshold")])
def test_parameters_of_prediction_are_checked_in_fit(texts, labels, wrong, message):
    with pytest.raises(elmo.ConfigError, match=message):
        ElmoClassifier(**SMALL | dict(epochs=1), **wrong).fit(texts, labels)


def test_a_fit_that_fails_changes_nothing(texts, labels):
    model = ElmoClassifier(**SMALL).fit(texts, labels)
    before = model.predict(CASES)
    with pytest.raises(elmo.DataError):
        model.fit(["one", None], np.eye(2))
    assert model.predict(CASES) == before


def test_a_threshold_of_nothing(texts, matrix):
    """At least 0 is every label's probability."""
    y, names = matrix
    assert (ElmoClassifier(threshold=0, **SMALL).fit(texts, y).predict(CASES) == 1).all()
    assert ElmoClassifier(threshold=0, top=2, **SMALL).fit(texts, y).predict(CASES).sum() == 4


def test_nulls_in_a_matrix_are_no_label_where_they_are_allowed(texts, matrix):
    zeros = matrix[0].astype(float)
    zeros[::7] = 0
    with_gaps = zeros.copy()
    with_gaps[::7] = np.nan
    with pytest.raises(elmo.DataError, match="found nan in row 0, column '0'; fill such gaps with 0"):
        ElmoClassifier(**SMALL).fit(texts, with_gaps)
    expected = ElmoClassifier(**SMALL).fit(texts, zeros).predict_proba(texts[:9])
    found = ElmoClassifier(allow_null_labels=True, **SMALL).fit(texts, with_gaps).predict_proba(texts[:9])
    assert (found != expected).nnz == 0


def test_frames_of_nullable_flags(texts, matrix):
    pandas = pytest.importorskip("pandas")
    y, names = matrix
    expected = ElmoClassifier(**SMALL).fit(texts, y).predict(CASES)
    for kind in ("boolean", "Int64", object):
        model = ElmoClassifier(**SMALL).fit(texts, pandas.DataFrame(y, columns=names).astype(kind))
        assert (model.predict(CASES) == expected).all()


def test_booleans_are_classes(texts):
    pandas = pytest.importorskip("pandas")
    flags = [i % 3 == 0 for i in range(len(texts))]
    texts = ["yes" if flag else "no" for flag in flags]
    for y in (flags, np.array(flags), pandas.Series(flags), pandas.Series(flags, dtype="boolean"), np.array(flags)[:, None]):
        model = ElmoClassifier(**SMALL).fit(texts, y)
        assert model.classes_.tolist() == [False, True] and model.classes_.dtype == bool
        found = model.predict(["yes", "no"])
        assert found.dtype == bool and found.tolist() == [True, False] and model.score(texts, y) == 1
        assert model.predict_proba(["yes"]).toarray().argmax() == 1
    with pytest.raises(elmo.DataError, match=r"^y: expected labels of one kind, as in fit, found booleans beside names or"):
        model.score(texts, np.array(flags, int))
    numbers = ElmoClassifier(**SMALL).fit(texts, np.array(flags, int))
    with pytest.raises(elmo.DataError, match=r"^y: expected labels of one kind"):
        numbers.score(texts, flags)
    with pytest.raises(elmo.DataError, match=r"^y\[0\]: expected a label's name or whole number, found True"):
        ElmoClassifier(**SMALL).fit(["a", "b"], [True, 2])


def test_shares_of_numpy(texts, labels):
    for share in np.array([0.1, 0.2]), np.array([0.1], np.float32), [0]:
        ElmoClassifier(validation=share[0], **SMALL).fit(texts, labels)


def test_as_many_labels_as_a_text_has(caplog):
    import random
    pick = random.Random(0)
    labels = [sorted(pick.sample([f"v{i}" for i in range(300)], 150)) for _ in range(100)]
    texts = [" ".join(row) for row in labels]
    model = ElmoClassifier(encoder="linear", verbose=False).fit(texts, labels)
    with caplog.at_level("WARNING", logger="elmo"):
        found = model.predict(texts[:5])
    assert max(map(len, found)) > 100 and not caplog.text
    limited = ElmoClassifier(encoder="linear", verbose=False, top=300).fit(texts, labels)
    assert limited.predict(iter(texts[:5])) == found
    assert [len(row) for row in ElmoClassifier(encoder="linear", verbose=False, threshold=0).fit(texts, labels)
            .predict(texts[:2])] == [300, 300]
    assert max(map(len, ElmoClassifier(encoder="linear", top=20).fit(texts, labels).predict(texts[:5]))) == 20


def test_blanks_around_labels(texts):
    things = [text.split()[2] for text in texts]
    padded = [thing + " " * (i % 2) for i, thing in enumerate(things)]
    for y in (padded, [[thing] for thing in padded]):
        model = ElmoClassifier(encoder="linear").fit(texts, y)
        assert model.classes_.tolist() == sorted(set(things)) and model.score(texts, y) == 1


def test_only_texts_with_many_labels_are_ranked_again(monkeypatch, caplog):
    import random
    pick = random.Random(0)
    labels = [sorted(pick.sample([f"v{i}" for i in range(300)], 150 if i % 2 else 20)) for i in range(200)]
    texts = [" ".join(row) for row in labels]
    cases = texts[:4]
    model = ElmoClassifier(encoder="linear").fit(texts, labels)
    expected = ElmoClassifier(encoder="linear", top=300).fit(texts, labels).predict(cases)
    counts = list(map(len, expected))
    assert min(counts[1::2]) > 120 and max(counts[::2]) < 100
    predict, most, calls = elmo.Predictor.predict, 300, []

    def counted(self, texts):
        if self._options["top"] > most:
            raise elmo.ConfigError("a GPU ranks at most as many")
        calls.append((self._options["top"], len(texts)))
        return predict(self, texts)

    monkeypatch.setattr(elmo.Predictor, "predict", counted)
    assert model.predict(cases) == expected
    assert calls == [(100, 4), (300, 2)]
    calls.clear()
    assert model.predict(cases) == expected and calls == [(300, 4)] and not caplog.text
    monkeypatch.setattr("elmo.sklearn.MOST_ON_GPU", 120)
    again, most = pickle.loads(pickle.dumps(model)), 120
    calls.clear()
    assert again.predict(cases) == [row[:120] for row in expected] and calls == [(100, 4), (120, 2)]
    assert "2 texts with 120 labels above the threshold, and perhaps more: a GPU ranks no more" in caplog.text


def test_a_fit_whose_calibration_fails_changes_nothing(texts, labels):
    model = ElmoClassifier(**SMALL).fit(texts, labels)
    wanted = model.predict(CASES)
    model.set_params(threshold=-1, validation=0)
    with pytest.raises(elmo.Error):
        model.fit(texts, [row[0] for row in labels])
    assert model.set_params(threshold=None).predict(CASES) == wanted


def test_labels_that_are_rows_of_a_matrix(texts):
    flags = [np.array([i % 2, (i + 1) % 2]) for i in range(len(texts))]
    with pytest.raises(elmo.DataError, match="^y: expected the labels of each text, found rows of 2 values that are 0 or 1"):
        ElmoClassifier(**SMALL).fit(texts, flags)
