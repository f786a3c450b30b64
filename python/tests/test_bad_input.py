"""What cannot be meant is one clear exception."""
import numpy as np
import pytest
from conftest import SMALL
from test_train import save_to_disk

import elmo

TEXTS, LABELS = ["one", "two", "three"], [["a"], ["b"], ["a", "b"]]


def raising(values):
    yield values[0]
    raise RuntimeError("the generator broke")


@pytest.mark.parametrize("texts, labels, message", [
    ("one text", ["a"], "texts: expected a sequence of str, found 'one text' (str); a single one goes into a list"),
    (None, LABELS, "found neither"),
    (b"bytes", LABELS, "texts: expected a sequence of str, found b'bytes' (bytes)"),
    (3, LABELS, "texts: expected a sequence of str, found 3 (int)"),
    (["one", None, "three"], LABELS, "texts[1]: expected a str, found None (NoneType)"),
    (["one", float("nan"), "three"], LABELS, "texts[1]: expected a str, found nan (float)"),
    (["one", 2, "three"], LABELS, "texts[1]: expected a str, found 2 (int)"),
    (["one", b"two", "three"], LABELS, "texts[1]: expected a str, found b'two' (bytes)"),
    (["one", "\ud800", "three"], LABELS, "texts[1]: expected a str that UTF-8 can hold"),
    (np.array([["one", "two", "three"]] * 2), LABELS, "texts: expected a sequence of str in one dimension"),
    (np.array("one"), LABELS, "texts: expected a sequence, found a single value"),
    ([], [], "texts: expected at least one text, found none"),
    (TEXTS, None, "labels: expected an entry per text, found None"),
    (TEXTS, LABELS[:2], "labels: expected an entry per text, found 2 for more texts"),
    (TEXTS, LABELS + [["c"]], "labels: expected an entry per text, found more than the 3 texts"),
    (TEXTS, ["a", None, "b"], "labels[1]: expected a label's name or whole number, found None (NoneType); a text "
                              "without labels has an empty list"),
    (TEXTS, ["a", float("nan"), "b"], "found nan (float); a text without labels has an empty list"),
    (TEXTS, [["a"], ["b", None], []], "labels[1][1]: expected a label's name or whole number, found None"),
    (TEXTS, [["a"], [1.5], []], "labels[1][0]: expected a label's name or whole number, found 1.5 (float)"),
    (TEXTS, np.array([0, 1, np.nan]), "labels[2]: expected a label's name or whole number, found nan (float)"),
    (TEXTS, np.array([0, 1.5, 2]), "labels[1]: expected a label's name or whole number, found 1.5 (float)"),
    (TEXTS, np.eye(3, dtype=int).tolist(), "labels: expected the labels of each text, found rows of 3 values that are 0 or 1, "
                                           "which are a matrix; give it as one: numpy.array(...)"),
    (TEXTS, [[True, False], [False, True], [True, True]], "found rows of 2 values that are 0 or 1"),
    (TEXTS, [True, False, True], "labels[0]: expected a label's name or whole number, found True (bool); make "
                                  "names of them: [str(label) for label in labels]"),
    (TEXTS, [[""], ["b"], []], "labels[0][0]: expected a label's name, found an empty str; leave it out: a text without "
                               "labels has an empty list"),
    (TEXTS, ["a", "", "b"], "labels[1]: expected a label's name, found an empty str; leave it out: a text without labels "
                            "has an empty list"),
    (TEXTS, [{"a": 1}, ["b"], []], "labels[0]: expected a label's name or whole number, found {'a': 1} (dict)"),
    (TEXTS, "abc", "labels: expected an entry per text, found 'abc' (str)"),
    (TEXTS, np.array([[0, 1], [1, np.nan], [0, 0]]), "labels: expected a matrix of 0 and 1, found nan"),
    (TEXTS, np.array([[0, 1], [1, 2], [0, 0]]), "labels: expected a matrix of 0 and 1, found 2"),
    (TEXTS, np.array([[0, 1]] * 2), "labels: expected an entry per text, found 2 for more texts"),
    (TEXTS, [[], [], []], "labels: expected at least one label, found none"),
    (TEXTS, np.zeros((3, 2)), "labels: expected at least one label, found none"),
    (TEXTS, ["a", "b\nc", "d"], "if these are several labels, write them as a list of labels"),
    (TEXTS, np.zeros((3, 2, 2)), "labels: expected an entry per text in one dimension, found the shape (3, 2, 2)"),
])
def test_values(texts, labels, message):
    with pytest.raises(elmo.Error) as caught:
        elmo.train(texts=texts, labels=labels, **SMALL)
    assert message in str(caught.value)
    assert isinstance(caught.value, ValueError) and "\n" not in str(caught.value)


def test_labels_of_a_pair_are_named_by_it():
    for rows, message in (((TEXTS, LABELS[:2]), "validation[1]: expected an entry per text, found 2 for more texts"),
                          ((TEXTS, ["a", "", "b"]), "validation[1][1]: expected a label's name, found an empty str"),
                          ([TEXTS, LABELS], "; give a tuple (texts, labels)")):
        with pytest.raises(elmo.DataError) as caught:
            elmo.train(texts=TEXTS, labels=LABELS, validation=rows, **SMALL)
        assert message in str(caught.value)


def test_generators_that_raise():
    for texts, labels in ((raising(TEXTS), LABELS), (TEXTS, raising(LABELS))):
        with pytest.raises(RuntimeError, match="the generator broke"):
            elmo.train(texts=texts, labels=labels, **SMALL)


def test_names_of_columns():
    matrix = np.array([[0, 1], [1, 0], [1, 1]])
    for names, message in ((["a"], "expected 2, one per column of labels, found 1"), (["a", "a"], "every name once"),
                           (["a", None], r"label_names\[1\]: expected")):
        with pytest.raises(elmo.DataError, match=message):
            elmo.train(texts=TEXTS, labels=matrix, label_names=names, **SMALL)
    with pytest.raises(elmo.DataError, match="with labels as a matrix only"):
        elmo.train(texts=TEXTS, labels=LABELS, label_names=["a", "b"], **SMALL)


def test_tables():
    pyarrow, pandas = pytest.importorskip("pyarrow"), pytest.importorskip("pandas")
    for data, message in (
            ({"text": TEXTS}, "expected a column 'labels', found 'text'"),
            ({"txt": TEXTS, "labels": LABELS}, r"expected a column 'text' \(did you mean 'txt'\?\), found 'txt'"),
            (pyarrow.table({"text": TEXTS, "labels": LABELS}).slice(0, 0), "data: expected at least one row, found none"),
            (pandas.DataFrame({"text": ["one", None], "labels": ["a", "b"]}),
             r"column 'text'\[1\]: expected a str, found .*; leave such rows out, or fill them with ''$"),
            (pandas.DataFrame({"text": ["one", "two"], "labels": ["a", None]}),
             r"column 'labels'\[1\]: expected a label's name or whole number, found .*; leave such rows out \(dropna\), or take "
             r"them as texts without labels \(allow_null_labels=True\)"),
            ({"text": ["one", "two"], "labels": [["a"], ["b", float("nan")]]},
             r"column 'labels'\[1\]\[1\]: expected .*, found nan \(float\); leave it out of the list"),
            (pandas.DataFrame({"text": TEXTS, "labels": [0, 1, None]}),
             r"column 'labels'\[2\]: expected .*, found nan \(float\); leave such rows out \(dropna\)"),
            (pyarrow.table({"text": TEXTS}), "expected a column 'labels', found 'text'"),
            (pyarrow.table({"txt": TEXTS, "labels": LABELS}), r"a column 'text' \(did you mean 'txt'\?\), found 'txt'"),
            (pyarrow.table({"text": ["one", None], "labels": [["a"], ["b"]]}),
             "row 1, column 'text': expected a text, found null; leave such rows out, or fill them"),
            (pyarrow.table({"text": ["one", "two"], "labels": [["a"], None]}),
             "row 1, column 'labels': expected labels, found null"),
            (pyarrow.table({"text": ["one", "two"], "labels": [["a"], ["b", None]]}),
             "row 1, column 'labels': expected labels, found null; allow_null_labels=True"),
            (pyarrow.table({"text": [1, 2], "labels": ["a", "b"]}),
             "row 0, column 'text': expected a text, found the type int64; convert it, or name another with text_column"),
            (pyarrow.table({"text": ["one", "two"], "labels": [[0.5], [1.0]]}),
             r"row 0, column 'labels': expected names or whole numbers, found numbers that may be fractions \(float64\); lists of 0"),
            (pyarrow.table([TEXTS, LABELS, LABELS], names=["text", "labels", "labels"]),
             "expected the column 'labels' once, found it 2 times; rename one of them"),
            (pandas.DataFrame([["one", "a", "b"]], columns=["text", "labels", "labels"]),
             "expected the column 'labels' once, found it 2 times; rename one of them"),
            (pandas.DataFrame([["one", "two", "b"]], columns=["text", "text", "labels"]),
             "expected the column 'text' once, found it 2 times; rename one of them"),
            (pandas.DataFrame({"text": [1, 2], "labels": ["a", "b"]}),
             r"column 'text'\[0\]: expected a str, found 1 \(int\); convert it to str, or name another column"),
            (5, "data: expected a path, a table or a dict of columns, found 5"),
            ([{"text": "one", "labels": "a"}], r"data: expected .*; give texts=… and labels=…, or pandas.DataFrame"),
            ("nothing/here", "nothing/here"), ("nothing/here.parquet", "nothing/here.parquet")):
        with pytest.raises((elmo.DataError, FileNotFoundError), match=message):
            elmo.train(data, **SMALL)


def test_validation_files_beside_rows_from_memory(tmp_path):
    """They are JSON lines, as such rows are; a message about JSON says nothing to somebody who has a CSV file."""
    file = tmp_path / "rows.csv"
    file.write_text("text,labels\none,a\n")
    with pytest.raises(elmo.DataError, match="validation: expected a pair of texts and labels, a table, or a file of JSON "
                                             "lines, Parquet or Arrow beside rows from memory, found the path"):
        elmo.train(texts=TEXTS, labels=LABELS, validation=file, **SMALL)
    lines = tmp_path / "rows.jsonl"
    lines.write_text('{"text": "one", "labels": ["a"]}\n')
    assert elmo.train(texts=TEXTS, labels=LABELS, validation=lines, **SMALL).result.steps > 0


def test_joined_columns_that_are_no_texts():
    table = {"title": TEXTS, "year": [None, float("nan"), 1984], "tags": LABELS}
    with pytest.raises(elmo.DataError, match=r"column 'year'\[2\]: expected a str, None or NaN, found 1984 \(int\)"):
        elmo.train(table, text_column="title+year", label_column="tags", **SMALL)


def test_options():
    for options, message in ((dict(epoch=3), "unknown key 'epoch' (did you mean 'epochs'?)"),
                             (dict(learning_rate=3), "'learning_rate' (did you mean 'encoder_lr' or 'head_lr'?)"),
                             (dict(top=3), "option 'top' does not belong to train"),
                             (dict(epochs="many"), "epochs"), (dict(epochs=-1), "epochs"),
                             (dict(epochs=[3]), "epochs: expected a number, found [3] (list)"),
                             (dict(words=["a"] * 9), "unknown key 'words'"),
                             (dict(epochs=[3] * 99), "found [" + "3, " * 18 + "3,... (list)"),
                             (dict(precision="fp9"), "precision"), (dict(recipe="no such recipe"), "no such recipe")):
        with pytest.raises(elmo.Error) as caught:
            elmo.train(texts=TEXTS, labels=LABELS, **options)
        assert message in str(caught.value)
    with pytest.raises(elmo.ConfigError, match="found both"):
        elmo.train("data", texts=TEXTS, labels=LABELS)
    with pytest.raises(TypeError, match="on_log"):
        elmo.train(texts=TEXTS, labels=LABELS, on_log=[1])


def test_explain_of_options_takes_no_rows():
    for options in (dict(texts=TEXTS, labels=LABELS), dict(data={"text": TEXTS, "labels": LABELS}),
                    dict(validation=(TEXTS, LABELS))):
        with pytest.raises(elmo.ConfigError) as caught:
            elmo.explain(**options)
        assert str(caught.value).startswith(f"{next(iter(options))}: expected options alone, or the path of a data set")
    with pytest.raises(elmo.ConfigError, match="option 'test' belongs to train itself, not to this call; leave it out"):
        elmo.tune(texts=TEXTS, labels=LABELS, test=(TEXTS, LABELS), out="search")
    assert "the path of a data set" in elmo.explain.__doc__


def test_a_linear_run_is_not_told_to_train_longer(texts, labels):
    wrong = [["river" if row[1] == "stone" else "stone"] for row in labels]  # the worst answers are right
    for options, advice in ((SMALL, "; train longer"), (dict(encoder="linear"), "; the run learnt nothing that holds for its "
                                                        "validation rows: train on more rows, or give rows")):
        run = elmo.train(texts=texts, labels=labels, **options)
        with pytest.raises(elmo.DataError) as caught:
            run.calibrate(validation=(texts, wrong))
        assert "nothing to calibrate" + advice in str(caught.value)


def test_a_share_beside_test_rows(tmp_path):
    rows, pair = dict(texts=TEXTS * 10, labels=LABELS * 10, **SMALL | dict(epochs=1)), (TEXTS, LABELS)
    with pytest.raises(elmo.ConfigError, match=r"test_share: expected none beside test rows.*found 0\.5; leave it out"):
        elmo.train(**rows, test=pair, test_share=0.5)
    assert elmo.train(**rows, test=pair, test_share=0).log[0].train_rows == 30
    recipe = tmp_path / "share.toml"
    recipe.write_text("test_share = 0.5\n")  # of data without test rows
    assert elmo.train(**rows, test=pair, recipe=recipe).log[0].train_rows == 30


def test_options_of_files_that_predictions_do_not_have(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for options, message in ((dict(out="answers.jsonl"), "option 'out' does not belong to predict; predict returns its answers"),
                             (dict(resume=True), "predict returns its answers"), (dict(overwrite=True), "predict returns its"),
                             (dict(with_text=True), "answers stand in the order of the texts"),
                             (dict(id_column="id"), "answers stand in the order of the texts"),
                             (dict(input="jsonl"), "texts come from memory"), (dict(data={"a": [1, 2]}), "texts come from memory"),
                             *((dict([pair]), "texts come from memory: read them first") for pair in dict(
                                 text_column="title", label_column="tags", format="csv", columns="text,labels", delimiter=",",
                                 quotes="none", encoding="latin-1", label_separator=";", test_share=0.5, cache="cache",
                                 allow_invalid_utf8=True, allow_stray_quotes=True).items())):
        for call in (lambda: run.predict(TEXTS, **options), lambda: elmo.Predictor(run, **options),
                     lambda: run.explain("one", **options), lambda: run.embed(TEXTS, **options)):
            with pytest.raises(elmo.ConfigError) as caught:
                call()
            assert message in str(caught.value)
    assert not list(tmp_path.iterdir())
    assert len(run.predict(TEXTS, out=None, data=None, top=1)) == 3


def test_columns_of_answers(run):
    with pytest.raises(elmo.DataError, match="columns: expected every label once, found 'apple' more than once"):
        run.predict(TEXTS).to_csr(columns=["river", "apple", "apple"])


def test_predictions(run):
    for texts, message in (("a text", "texts: expected a sequence of str"), ([None], r"texts\[0\]: expected a str"),
                           (["a"] * 1500 + [3], r"texts\[1500\]: expected a str, found 3")):
        with pytest.raises(elmo.DataError, match=message):
            run.predict(texts)
    with pytest.raises(RuntimeError, match="the generator broke"):
        run.predict(raising(TEXTS))
    with pytest.raises(elmo.ConfigError, match="top"):
        run.predict(TEXTS, top=-1)
    with pytest.raises(elmo.DataError, match="nothing"):
        elmo.Predictor("nothing")
    with pytest.raises(elmo.DataError, match=r"labels\[0\]"):
        run.evaluate(texts=TEXTS, labels=[None] * 3)


def test_vectors(run):
    good = np.zeros((3, 16), np.float32)
    nan, infinite = good.copy(), good.copy()
    nan[1, 2], infinite[2, 0] = np.nan, np.inf
    for vectors, message in ((good[:, :15], "16"), (good[0], "expected a matrix with a row per text, found the shape (16,)"),
                             (good[None], "found the shape (1, 3, 16)"), (nan, "vectors[1]: expected finite numbers, found nan"),
                             (infinite, "vectors[2]: expected finite numbers, found inf"),
                             ([["a"] * 16], "vectors: expected a matrix of numbers, found"),
                             ([[1.0], [1.0, 2.0]], "vectors: expected a matrix of numbers, found"),
                             (["a text"], "vectors: expected a matrix of numbers, found"),
                             (raising([[0.0] * 16]), "vectors: expected a matrix of numbers, found")):
        with pytest.raises(elmo.DataError) as caught:
            run.predict_vectors(vectors)
        assert message in str(caught.value)
    assert len(run.predict_vectors(good)) == 3


def test_errors_are_the_programs():
    from conftest import elmo_program
    printed = elmo_program("predict", "nothing/there", input="text\n").stderr
    with pytest.raises(elmo.Error) as caught:
        elmo.Predictor("nothing/there")
    assert printed == f"elmo: error: {caught.value}\n"
    assert issubclass(elmo.OutOfMemory, MemoryError) and issubclass(elmo.OutOfMemory, elmo.DeviceError)


def test_a_parquet_file_that_is_not_there():
    pytest.importorskip("pyarrow")
    with pytest.raises(elmo.DataError, match="nothing.parquet: no such file or folder"):
        elmo.train("nothing.parquet", **SMALL)


def test_rows_that_trained_the_run_are_noticed(caplog):
    texts = [f"{word} number {i}" for i in range(40) for word in ("red", "blue")]
    labels = [[text.split()[0]] for text in texts]
    run = elmo.train(texts=texts, labels=labels)
    with caplog.at_level("WARNING", logger="elmo"):
        scores = run.evaluate(texts=texts, labels=labels)
    assert scores.protocol.trained_samples > 60
    assert "scored texts trained this run" in caplog.text
    # The folder that held the rows for the time of the call says nothing to anybody.
    assert "elmo-rows-" not in caplog.text + str(scores.protocol)
    caplog.clear()
    with caplog.at_level("WARNING", logger="elmo"):
        run.evaluate(texts=["a red house"], labels=[["red"]])
    assert "trained this run" not in caplog.text


def test_errors_name_rows_from_memory_by_their_index(caplog):
    with pytest.raises(elmo.DataError) as caught:
        elmo.train(texts=["one", "two"], labels=[["a"], ["b", "b"]], **SMALL)
    assert str(caught.value).startswith("rows from memory[1]: expected every label once, found 'b' twice")
    with pytest.raises(elmo.DataError) as caught:
        elmo.train(texts=["one"], labels=[["a"]], test=(["two"], [["line\nend"]]), **SMALL)
    assert str(caught.value).startswith("test rows from memory[0]: expected labels without a line end")


def test_labels_with_line_ends(tmp_path):
    """No advice to give what the call refuses, or what cuts no item of a list."""
    pandas = pytest.importorskip("pandas")
    of_field = "if these are several labels of one field, give label_separator='\\n'"
    of_list = "found 'a\\x0ab'; if these are several labels, write them as a list of labels; otherwise replace the line end"
    (tmp_path / "rows.jsonl").write_text('{"text": "one", "labels": ["a\\nb"]}\n')
    for advice, call in ((of_list, dict(texts=["one"], labels=["a\nb"])), (of_list, dict(texts=["one"], labels=[["a\nb"]])),
                         (of_list, dict(data=pandas.DataFrame({"text": ["one"], "labels": [["a\nb"]]}))),
                         (of_list, dict(data=tmp_path / "rows.jsonl")),
                         (of_field, dict(data=pandas.DataFrame({"text": ["one"], "labels": ["a\nb"]})))):
        with pytest.raises(elmo.DataError) as caught:
            elmo.train(test_share=0, **call, **SMALL)
        assert advice in str(caught.value)


def test_errors_name_the_file_that_rows_are_from(tmp_path, caplog):
    """Of files that only Python reads, whose rows are copied for a call."""
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    texts, labels = [f"word{i % 5} n{i}" for i in range(60)], [[f"l{i % 5}"] for i in range(60)]
    twice, few = [*labels[:3], ["a", "a"], *labels[4:]], dict(encoder="linear", progress=False)

    def file(name, **columns):
        parquet.write_table(pyarrow.table(columns), tmp_path / name)
        return tmp_path / name

    def splits(name, train, test):
        for split, rows in (("train", train), ("test", test)):
            save_to_disk(tmp_path / name / split, pyarrow.table({"text": texts, "labels": rows}))
        (tmp_path / name / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
        return tmp_path / name

    good, wrong, other = (file(name, text=texts, labels=rows) for name, rows in (
        ("good.parquet", labels), ("twice.parquet", twice), ("other.parquet", [["z"]] * 60)))
    no_text, empty = file("column.parquet", txt=texts, labels=labels), file("empty.parquet", text=[""] * 0, labels=[""] * 0)
    no_labels, null = file("none.parquet", text=texts, labels=[[]] * 60), file("null.parquet", text=texts, labels=[*labels[1:], None])
    save_to_disk(tmp_path / "saved", pyarrow.table({"text": texts, "labels": twice}))
    (tmp_path / "text.parquet").write_text("no Parquet at all")
    run, column = elmo.train(good, **few), "column.parquet: expected a column 'text' (did you mean 'txt'?), found 'txt', 'labels'"
    found_twice = "[3]: expected every label once, found 'a' twice"
    for call, message in (
            (lambda: elmo.train(wrong, **few), "twice.parquet" + found_twice),
            (lambda: elmo.train(good, test=wrong, **few), "twice.parquet" + found_twice),
            (lambda: elmo.train(good, validation=wrong, **few), "twice.parquet" + found_twice),
            (lambda: elmo.train(texts=texts, labels=labels, test=wrong, **few), "twice.parquet" + found_twice),
            (lambda: elmo.train(tmp_path / "saved", **few), "saved" + found_twice),
            (lambda: elmo.train(splits("in train", twice, labels), **few), "in train/train" + found_twice),
            (lambda: elmo.train(splits("in test", labels, twice), **few), "in test/test" + found_twice),
            (lambda: run.evaluate(tmp_path / "in test"), "in test/test" + found_twice),
            (lambda: run.calibrate(validation=wrong), "twice.parquet" + found_twice),
            (lambda: elmo.inspect(wrong), "twice.parquet" + found_twice),
            (lambda: elmo.train(no_text, **few), column), (lambda: elmo.train(good, test=no_text, **few), column),
            (lambda: elmo.train(good, validation=no_text, **few), column), (lambda: run.evaluate(no_text), column),
            (lambda: run.calibrate(validation=no_text), column),
            (lambda: elmo.train(no_labels, **few), "none.parquet: expected at least one label, found none"),
            (lambda: elmo.train(null, **few), "null.parquet: row 59, column 'labels': expected labels, found null"),
            (lambda: elmo.train(empty, **few), "empty.parquet: expected at least one row, found none"),
            (lambda: elmo.train(tmp_path / "text.parquet", **few), "text.parquet: expected a Parquet file, found one of another format"),
            (lambda: run.evaluate(other), "other.parquet: these are not the labels of the run"),
            (lambda: run.evaluate(tmp_path / "in test", split="train"), "split: expected none beside a folder of splits")):
        assert said(call).startswith(message if message.startswith("split") else f"{tmp_path}/{message}")
    assert run.evaluate(tmp_path / "in train").protocol.data == f"{tmp_path}/in train/test"
    with caplog.at_level("WARNING", "elmo"):
        elmo.train(file("half.parquet", text=texts, labels=[*labels[:20], *[[]] * 40]), **few)
    assert f"{tmp_path}/half.parquet: " in caplog.text and "rows have no labels" in caplog.text
    assert said(lambda: elmo.train(texts=texts, labels=twice, **few)).startswith("rows from memory" + found_twice)


def test_columns_of_different_lengths():
    """Columns that are joined are as long as each other: the shortest one once decided in silence."""
    for title, body, short in ((TEXTS, ["x"], "body"), (["x"], TEXTS, "title"), (TEXTS, iter(["x", "y"]), "body")):
        with pytest.raises(elmo.DataError, match=f"column '{short}': expected as many entries as the other columns, found"):
            elmo.train({"title": title, "body": body, "labels": ["a"]}, text_column="title+body", **SMALL)
    with pytest.raises(elmo.DataError, match="column 'body': expected texts, found 'hello' "):
        elmo.train({"title": TEXTS, "body": "hello", "labels": LABELS}, text_column="title+body", **SMALL)


def test_labels_without_texts(run, texts, labels):
    """Labels that nothing would read are not passed over."""
    table = {"text": texts, "labels": labels}
    for call in (lambda: elmo.train(table, labels=labels, **SMALL), lambda: elmo.train(table, label_names=["a"], **SMALL),
                 lambda: run.evaluate(labels=labels), lambda: run.evaluate(table, labels=labels),
                 lambda: run.calibrate(labels=labels), lambda: run.calibrate(table, label_names=["a"])):
        with pytest.raises(elmo.ConfigError, match="expected beside texts only; the labels of a table are its label_column"):
            call()


def test_what_is_wrong_has_its_name():
    for key, value in (("test", [TEXTS, LABELS]), ("validation", [TEXTS, LABELS])):
        with pytest.raises(elmo.DataError, match=f"^{key}: expected a path, a table or a dict of columns"):
            elmo.train(texts=TEXTS, labels=LABELS, **{key: value}, **SMALL)
    for empty in (([], []), {"text": [], "labels": []}):
        with pytest.raises(elmo.DataError, match="test: expected at least one row, found none"):
            elmo.train(texts=TEXTS, labels=LABELS, test=empty, **SMALL)


def test_sets_have_no_order():
    for texts, labels in ((set(TEXTS), LABELS), (TEXTS, set("abc"))):
        with pytest.raises(elmo.DataError, match="in an order, found"):
            elmo.train(texts=texts, labels=labels, **SMALL)


def test_matrices_that_are_none():
    sparse = pytest.importorskip("scipy.sparse")
    pandas = pytest.importorskip("pandas")
    flat = sparse.coo_array(np.ones(3))
    frame = pandas.DataFrame({"a": [1, 0, None], "b": [0, 1, 1]}).astype("Int64")
    for labels, names, message in ((flat, None, "labels: expected an entry per text, found a SciPy matrix of the shape"),
                                   (frame, None, "expected a matrix of 0 and 1, found nan in row 2, column 'a'"),
                                   (np.eye(3), 3, "label_names: expected a name per column, found 3"),
                                   (np.eye(3), {"a": 2, "b": 1, "c": 0}, "label_names: expected a name per column, found")):
        with pytest.raises(elmo.DataError, match=message):
            elmo.train(texts=TEXTS, labels=labels, label_names=names, **SMALL)


def test_callbacks_and_bars_that_are_none(monkeypatch):
    with pytest.raises(TypeError, match="on_log: expected a function of one argument, found 5"):
        elmo.train(texts=TEXTS, labels=LABELS, on_log=5, **SMALL)
    monkeypatch.setitem(__import__("sys").modules, "tqdm.auto", None)
    with pytest.raises(elmo.ConfigError, match="progress: .* pip install tqdm"):
        elmo.train(texts=TEXTS, labels=LABELS, progress=True, **SMALL)


def test_what_scipy_and_scikit_learn_are_needed_for(run, monkeypatch):
    pandas, modules = pytest.importorskip("pandas"), __import__("sys").modules
    answers = run.predict(TEXTS)
    one, other = (pandas.DataFrame([[1.0, 0.0]], columns=names) for names in (["a", "b"], ["b", "a"]))
    monkeypatch.setitem(modules, "scipy.sparse", None)
    for call in (answers.to_csr, lambda: elmo.metrics.scores(one, one), lambda: elmo.metrics.scores(one, other)):
        with pytest.raises(elmo.ConfigError, match=r"^(to_csr|predicted): .* SciPy, which is not installed: pip install scipy$"):
            call()
    monkeypatch.delitem(modules, "elmo.sklearn", raising=False)
    with pytest.raises(ImportError, match="ElmoClassifier is .* scikit-learn; SciPy is not installed: pip install scikit-learn$"):
        elmo.ElmoClassifier
    monkeypatch.setitem(modules, "sklearn.base", None)
    with pytest.raises(ImportError, match="pip install scikit-learn$"):
        __import__("elmo.sklearn")


def refused(call, part):
    with pytest.raises(elmo.DataError) as raised:
        call()
    assert part in str(raised.value)


def test_columns_that_are_not_joined_by_plus():
    pyarrow, pandas = pytest.importorskip("pyarrow"), pytest.importorskip("pandas")
    columns = {"title": ["a"], "body": ["b"], "labels": [["x"]], "kind": ["y"]}
    for table in (columns, pandas.DataFrame(columns), pyarrow.table(columns)):
        for wrong in ("title,body", "title, body", "title;body", "title body"):
            refused(lambda: elmo.train(table, text_column=wrong), "; + joins columns: text_column='title+body'")
        for wrong in ("labels,kind", "labels+kind"):
            refused(lambda: elmo.train(table, text_column="title", label_column=wrong),
                    "; labels are those of one column: join 'labels' and 'kind' first")
        refused(lambda: elmo.train(table, text_column="title,nothing"), "; name it with text_column or label_column")


def test_lists_as_texts():
    refused(lambda: elmo.train(texts=[["a", "b"]], labels=["x"]),
            "texts[0]: expected a str, found ['a', 'b'] (list); join its parts to one str")
    pyarrow = pytest.importorskip("pyarrow")
    refused(lambda: elmo.train(pyarrow.table({"text": [["a"]], "labels": ["x"]})),
            "row 0, column 'text': expected a text, found a list; join its parts to one text")
    refused(lambda: elmo.train(pyarrow.table({"text": [{"a": "b"}], "labels": ["x"]})),
            "row 0, column 'text': expected a text, found a struct; take a column of it")


def said(call):
    """The message of the error, which is on one line that one can read."""
    with pytest.raises((elmo.Error, TypeError)) as caught:
        call()
    message = str(caught.value)
    assert "\n" not in message and len(message) < 400, message
    return message


def test_words_of_the_program_become_those_of_python():
    """Flags are keyword arguments, commands are calls; what Python does not have stays as it is."""
    from elmo._core import in_words_of_python
    for text, expected in (
            ("give --overwrite to replace it, another folder, or --resume", "give overwrite=True to replace it, another folder, or "
             "resume=True"),
            ("name it with --label-column, or give --label-separator none", "name it with label_column, or give "
             "label_separator='none'"),
            ("is --label-column the column of the labels?", "is label_column the column of the labels?"),
            ("name the columns with --text-column and --label-column", "name the columns with text_column and label_column"),
            ("give --text-column words --label-column tags", "give text_column='words', label_column='tags'"),
            ("+ joins columns: --text-column title+body", "+ joins columns: text_column='title+body'"),
            ("give --label-separator $'\\n', in a list", "give label_separator='\\n', in a list"),
            ("--label-weights '' for none", "label_weights='' for none"),
            ("train with --validation above 0, or give --validation FILE", "train with validation above 0, or give validation=FILE"),
            ("give --test-share 0, or more rows", "give test_share=0, or more rows"),
            ("use --device cpu", "use device='cpu'"), ("for --to numpy, found", "for to='numpy', found"),
            ("(did you mean '--encoder-lr' or '--head-lr'?)", "(did you mean 'encoder_lr' or 'head_lr'?)"),
            ("if it is, give --set cache=PATH", "if it is, give cache=PATH"),
            ("first; run 'elmo calibrate RUN' first", "first; call run.calibrate() first"),
            ("'elmo calibrate RUN --label-thresholds'", "run.calibrate(label_thresholds=True)"),
            ("'elmo eval RUN DATA --save-predictions FILE' writes", "run.evaluate(DATA, save_predictions=FILE) writes"),
            ("score it with 'elmo eval some/run DATA'", "score it with elmo.Run('some/run').evaluate(DATA)"),
            ("'elmo refine RUN --out NEW --resume' continues it", "'elmo refine RUN --out NEW --resume' continues it"),
            ("'elmo tune DATA --out FOLDER --budget 30m'", "'elmo tune DATA --out FOLDER --budget 30m'"),
            ("leave DATA out; BIG DATA stays", "leave data out; BIG DATA stays"),
            ("/data/run --seed: 'run elmo --seed 3'", "/data/run seed: 'run elmo --seed 3'"),
            ("/tmp/x/--seed and a--b/--seed: the label 'it's --seed 3, '", "/tmp/x/--seed and a--b/--seed: the label 'it's --seed 3, '"),
            ("the user's data: --overwrite; give --text-column a/b", "the user's data: overwrite=True; give text_column='a/b'"),
            ("found 'leave DATA out', leave DATA out", "found 'leave DATA out', leave data out"),
            ("found '--- a --b'; x--overwrite", "found '--- a --b'; x--overwrite"), ("--", "--"), ("'elmo ", "'elmo ")):
        assert in_words_of_python(text) == expected


def test_errors_and_warnings_are_in_words_of_python(run, tmp_path, caplog):
    rows = dict(texts=[f"word{i % 7} n{i}" for i in range(99)], labels=[[f"l{i % 7}"] for i in range(99)])
    linear = elmo.train(**rows, out=tmp_path / "run", validation=0.1)
    with caplog.at_level("INFO", logger="elmo"):
        linear.calibrate()
        elmo.train(**rows, encoder="bag", epochs=3, on_log=lambda line: True, width=16, vocab_size=300)
    assert "validation=FILE" in caplog.text and "resume=True continues" in caplog.text
    messages = [said(call) for call in (
        lambda: elmo.train(**rows, out=tmp_path / "run"), lambda: elmo.train(texts=["a"], labels=[["b", "b"]]),
        lambda: run.predict(["a"], threshold=-1), lambda: run.predict(["a"], label_thresholds=True),
        lambda: linear.embed(["a"]), lambda: linear.export("numpy", tmp_path / "out"),
        lambda: run.predict(["a"], search="approximate"), lambda: elmo.train(**rows, test_share=0).evaluate())]
    assert "overwrite=True" in messages[0] and "run.calibrate()" in messages[2]
    assert not any("--" in text or "'elmo " in text for text in [*messages, caplog.text])


def test_types_of_arrow_have_names():
    import datetime
    pyarrow = pytest.importorskip("pyarrow")
    for value, name in ((True, "bool"), ({"a": 1}, "struct"), (datetime.date(2020, 1, 1), "date"), (b"a", "binary"),
                        (datetime.datetime(2020, 1, 1), "timestamp")):
        assert f"expected names or whole numbers, found the type {name}" in said(
            lambda: elmo.train(pyarrow.table({"text": ["a"], "labels": [value]})))
    assert "found a fraction (float64)" in said(lambda: elmo.train(pyarrow.table({"text": ["a"], "labels": [1.5]})))
    for value, found in ((float("inf"), "infinity"), (1e17, "a number beyond 2^53, which may be rounded")):
        assert f"found {found} (float64)" in said(lambda: elmo.train(pyarrow.table({"text": ["a"], "labels": [value]})))
    nulls = pyarrow.table({"text": [f"a {i}" for i in range(60)], "labels": [[1, None]] * 60})
    assert elmo.train(nulls, encoder="linear", allow_null_labels=True).label_names == ["1"]
    assert "found the type date; convert it, or name another with text_column" in said(
        lambda: elmo.train(pyarrow.table({"text": [datetime.date(2020, 1, 1)], "labels": ["a"]})))
    for rows in ([[0, 1], [1, 0]], [[0, 0, 1], [1, 1, 0]]):
        assert "column 'labels': expected labels of each row, found lists of 0 and 1 of one length" in said(
            lambda: elmo.train(pyarrow.table({"text": ["a", "b"], "labels": rows})))


def test_labels_0_and_1():
    """Of each text, they are no matrix."""
    pyarrow = pytest.importorskip("pyarrow")
    rows = dict(text=[f"text {i}" for i in range(20)], labels=[[0, 1]] * 20)
    for table in (rows, pyarrow.table(rows)):
        assert elmo.train(table, encoder="linear", progress=False).label_names == ["0", "1"]


def test_whole_numbers_that_are_floats():
    pyarrow, pandas = pytest.importorskip("pyarrow"), pytest.importorskip("pandas")
    frame = pandas.DataFrame({"text": [f"word{i % 3}" for i in range(60)], "labels": [i % 3 for i in range(60)]})
    few = {"encoder": "linear", "progress": False, "test_share": 0}
    floats = frame.assign(labels=frame.labels.astype(float))
    gap = floats.assign(labels=floats.labels.where(floats.index > 0))
    for table in (floats, pyarrow.Table.from_pandas(floats), {"text": list(floats.text), "labels": list(floats.labels)}):
        assert elmo.train(table, **few).label_names == ["0", "1", "2"]
    for table in (gap, pyarrow.Table.from_pandas(gap)):
        assert elmo.train(table, allow_null_labels=True, **few).label_names == ["0", "1", "2"]


def test_paths_that_are_none(run, texts, labels):
    rows = dict(texts=texts, labels=labels)
    for call, name in (
            (lambda: elmo.evaluate([run, run], **rows), "run"), (lambda: elmo.evaluate(None, **rows), "run"),
            (lambda: elmo.evaluate(run.predictor(), {"text": texts, "labels": labels}), "run"), (lambda: elmo.Run(None), "path"),
            (lambda: elmo.Predictor(None), "run"), (lambda: elmo.Predictor(elmo.ElmoClassifier()), "run"),
            (lambda: run.save(None), "folder"), (lambda: run.export("numpy", None), "out"), (lambda: run.export(3, "out"), "to"),
            (lambda: elmo.Tokenizer(3), "path"), (lambda: elmo.train(**rows, out=3), "out"), (lambda: elmo.tune(**rows, out=3), "out"),
            (lambda: elmo.train(**rows, recipe=3), "recipe"), (lambda: run.report(**rows, out=3), "out"),
            (lambda: elmo.index(3, **rows), "run"), (lambda: elmo.Run(b"run"), "path"),
            (lambda: elmo.train({"text": texts, "labels": labels}, init=3), "run")):
        with pytest.raises(elmo.ConfigError, match=f"^{name}: expected .*, found .+"):
            call()


def test_folders_that_are_no_runs(run, tmp_path):
    (tmp_path / "rows.csv").write_text("text,labels\n")
    for path, found in ((tmp_path, "a folder without best, last or manifest.json"), (tmp_path / "rows.csv", "a file"),
                        (tmp_path / "nothing", "nothing")):
        with pytest.raises(elmo.DataError, match=f"{path}: expected the folder of a run, found {found}"):
            elmo.Run(path)
    assert elmo.Run(run.path + "/best").label_names == elmo.Run(run.path).label_names == run.label_names


def test_what_was_expected(run, texts, labels, tmp_path):
    pandas, sparse = pytest.importorskip("pandas"), pytest.importorskip("scipy.sparse")
    frame = pandas.DataFrame({"text": TEXTS, "m": "a", "n": "b"})
    wide = pandas.DataFrame([range(5000)], columns=[f"column {i}" for i in range(5000)])
    for call, message in (
            (lambda: elmo.train(frame, label_column=["m", "n"]),
             "label_column: expected the name of one column, found ['m', 'n'] (list); join several to one column of lists"),
            (lambda: elmo.train(frame, text_column="m", label_column="m"),
             "label_column: expected another column than those of text_column, found 'm' in both"),
            (lambda: elmo.train(frame, text_column="text+n", label_column="n"), "of text_column, found 'n' in both"),
            (lambda: elmo.train(texts=TEXTS, labels=LABELS, label_weights={"a": 2}), "label_weights: expected 'root' or a file of"),
            (lambda: elmo.train(texts=TEXTS, labels=LABELS, resume=[1]), "resume: expected True or False, found [1] (list)"),
            (lambda: elmo.metrics.psprecision([[1]], [[2]], [1.0, 2.0]),
             "inverse_propensity: expected a number for each of 3 labels, found 2"),
            (lambda: elmo.metrics.psprecision(np.array([[1]]), np.eye(3)[:1], np.ones(5)), "each of 3 labels, found 5"),
            (lambda: run.evaluate(texts=TEXTS, labels=np.eye(3, dtype=int)),
             "label_names: expected the names of the columns of labels, found none"),
            (lambda: run.predict(TEXTS, labels=["apple"]), "; predict_among(texts, labels) answers with some labels only"),
            (lambda: run.predict(TEXTS, without=["apple"]), "option 'without' does not belong to predict; elmo.Predictor(run, "
                                                            "without=labels) never answers with these"),
            (lambda: elmo.Predictor(run, wihout=["apple"]), "unknown option 'wihout' (did you mean 'without'?)"),
            (lambda: run.predict(TEXTS, label=["apple"]), "unknown option 'label' (did you mean 'labels'?)"),
            (lambda: run.predict(TEXTS, k=3), "; top is the number of labels per text"),
            (lambda: run.predict(frame), "texts: expected a sequence of str, found a table; give one of its columns, as table['text']"),
            (lambda: run.predict(pandas.DataFrame({"text": [[1] * 99]})), "texts[0]: expected a str, found [1, 1, 1"),
            (lambda: elmo.train(wide), "found 'column 0', 'column 1', 'column 2', 'column 3', 'column 4', 'column 5' and 4994 more"),
            (lambda: elmo.train(pandas.Series(TEXTS * 999)), "data: expected a table, found a Series; give texts=… and labels=…"),
            (lambda: elmo.train(texts=TEXTS, label=LABELS), "unknown option 'label' (did you mean 'labels'?)"),
            (lambda: elmo.serve(run, prt=0), "unknown option 'prt' (did you mean 'port'?)"),
            (lambda: elmo.serve(run, host=3), "host: expected an address, found 3 (int)"),
            (lambda: elmo.serve(run, tokens=[3]), "tokens: expected a list of texts, found a list"),
            (lambda: elmo.ElmoClassifier(epoch=3), "no parameter 'epoch' (did you mean 'epochs'?)"),
            (lambda: elmo.ElmoClassifier().fit(TEXTS, np.eye(3, dtype=int).tolist()), "y: expected the labels of each text, found")):
        assert message in said(call)
    assert len(run.predict(pandas.DataFrame({"text": TEXTS}))) == 3


def test_numbers_that_are_none(run, texts, labels, tmp_path):
    def scored(k):
        return [name for name in run.evaluate(texts=texts, labels=labels, k=k, bootstrap=0) if name.startswith("P@")]

    for k in ([1, 3], (np.int64(1), 3), np.array([1, 3]), range(1, 4, 2), "1,3"):
        assert scored(k) == ["P@1", "P@3"]
    for k, found in (((1, 2.7), "2.7 (float)"), (("a",), "'a' (str)"), ((None,), "None (NoneType)"), ([True], "True (bool)"),
                     (np.array([1.0, 3.0]), "1.0")):
        assert f"k: expected a whole number, found {found}" in said(lambda: scored(k)).replace("np.float64(1.0)", "1.0")
    assert "k: expected a whole number, or a list of them, found {1: 2} (dict)" in said(lambda: scored({1: 2}))
    rows = dict(texts=texts, labels=labels)
    for call, message in ((lambda: run.explain("a", top=2.7), "top: expected a whole number, found 2.7 (float)"),
                          (lambda: run.explain("a", top="2"), "top: expected a whole number, found '2' (str)"),
                          (lambda: run.explain("a", labels=["apple"], top=-1), "top: expected 1 or more labels, found -1"),
                          (lambda: run.explain("a", top=0), "top: expected 1 or more"),
                          (lambda: run.index(**rows, recall="x"), "recall: expected a number, found 'x' (str)"),
                          (lambda: elmo.tune(**rows, out=tmp_path / "a", trials="x"), "trials: expected a whole number, found 'x'"),
                          (lambda: elmo.tune(**rows, out=tmp_path / "b", seconds=None), "seconds: expected a number, found None")):
        assert message in said(call)
    assert len(run.explain("a red apple", top=None).labels) == 3


def test_frames_of_polars(run):
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"text": TEXTS, "labels": ["a", "b", "c"]})
    assert "; call its collect() first" in said(lambda: elmo.train(frame.lazy()))
    assert "; call its collect() first" in said(lambda: run.predict(frame.lazy()))
    assert "found a table; give one of its columns, as table['text']" in said(lambda: run.predict(frame))
    assert len(run.predict(frame.select("text"))) == 3


def test_a_validation_split_that_is_not_read(caplog):
    datasets = pytest.importorskip("datasets")
    one = datasets.Dataset.from_dict({"text": TEXTS * 20, "labels": LABELS * 20})
    both = datasets.DatasetDict(train=one, validation=one)
    elmo.train(both, encoder="linear")
    assert "the split 'validation' is not read; validation=data['validation'] takes its rows" in caplog.text
    caplog.clear()
    elmo.train(both, encoder="linear", validation=both["validation"])
    assert "is not read" not in caplog.text


def test_a_file_in_the_place_of_texts(run, tmp_path):
    (tmp_path / "rows.parquet").write_bytes(b"")
    for file in (tmp_path / "rows.parquet", str(tmp_path / "rows.parquet")):
        for call in (run.predict, run.embed, lambda texts: run.predict_among(texts, ["apple"]),
                     lambda texts: elmo.train(texts=texts, labels=["a"])):
            assert said(lambda: call(file)) == (f"texts: expected a sequence of str, found the file '{file}'; read it first, "
                                                "as pandas.read_parquet does, and give a column of it")


def test_rows_of_0_and_1_in_any_form_are_a_matrix():
    texts = [f"{'odd' if i % 2 else 'even'} {i}" for i in range(40)]
    flags = [[1, 0] if i % 2 else [0, 1] for i in range(40)]
    arrays = [np.array(row) for row in flags]
    objects = np.empty(40, object)
    objects[:] = arrays
    pandas = pytest.importorskip("pandas")
    for labels in (flags, arrays, objects, pandas.Series(flags), pandas.Series(arrays)):
        with pytest.raises(elmo.DataError, match=r"^labels: expected the labels of each text, found rows of 2 values that are 0 or 1"):
            elmo.train(texts=texts, labels=labels)
    with pytest.raises(elmo.DataError, match=r"^column 'labels': expected the labels .* give it as one: texts=…, labels=numpy.array"):
        elmo.train(pandas.DataFrame({"text": texts, "labels": flags}))
    named = pandas.DataFrame({"text": texts, "labels": [[row[0], 7] for row in flags]})
    assert elmo.train(named, **SMALL | dict(epochs=1)).label_names == ["0", "1", "7"]


def test_whole_floats_that_may_be_rounded():
    """They would be one label where they were several."""
    pandas = pytest.importorskip("pandas")
    for labels in ([2.0**53 + 2, 3.0] * 20, pandas.Series([10**17 + 1, 10**17 + 3, None, 5] * 10)):
        with pytest.raises(elmo.DataError, match=r"^labels\[0\]: expected a label's name or whole number, found a number beyond 2\^53"):
            elmo.train(texts=["a"] * 40, labels=labels, allow_null_labels=True)
    assert elmo.train(texts=["a", "b"] * 20, labels=[2.0**53, 3.0] * 20, **SMALL | dict(epochs=1)).label_names == ["3", str(2**53)]


def test_texts_beside_columns_of_0_and_1_that_are_none():
    """The advice fits tables of any library."""
    pyarrow = pytest.importorskip("pyarrow")
    for values, message in ((["one", None], r"found None \(NoneType\); leave such rows out, or fill them with ''$"),
                            ([1, 2], r"found 1 \(int\); convert it to str, or name another column with text_column$")):
        with pytest.raises(elmo.DataError, match=r"column 'text'\[\d\]: expected a str, " + message):
            elmo.train(pyarrow.table({"text": values, "has_a": [0, 1]}), label_column="has_*", **SMALL)


def test_columns_of_0_and_1_beside_a_column_that_is_there_twice():
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.Table.from_arrays([pyarrow.array(TEXTS), pyarrow.array(TEXTS), pyarrow.array([1, 0, 1])], ["text", "text", "g_a"])
    with pytest.raises(elmo.DataError, match="expected the column 'text' once, found it 2 times; rename one of them"):
        elmo.train(table, label_column="g_*")


def test_data_sets_of_hugging_face_with_a_format():
    datasets = pytest.importorskip("datasets")
    texts = [f"thing {i}" for i in range(40)]
    data = datasets.Dataset.from_dict({"text": texts, "labels": ["a", "b"] * 20, "g_a": [1] * 40, "g_b": [0, 1] * 20})
    few = SMALL | dict(epochs=1)
    chosen = data.with_format("numpy", columns=["g_a"])
    assert elmo.train(chosen, label_column="g_*", **few).label_names == ["g_a", "g_b"]
    with pytest.raises(elmo.DataError, match="^data: expected a data set without a transform, found one"):
        elmo.train(data.with_transform(lambda batch: batch), **few)


def test_names_that_utf8_cannot_hold(tmp_path, run):
    """As Python has the names of files in Latin-1."""
    name, texts = str(tmp_path / "caf\udce9"), ["one", "two"] * 20
    few = SMALL | dict(epochs=1)
    for call, where in ((lambda: elmo.train(name + ".csv", **few), "data"), (lambda: elmo.Run(name), "path"),
                        (lambda: elmo.train(texts=texts, labels=texts, out=name, **few), "out"),
                        (lambda: elmo.evaluate(name), "run"), (lambda: elmo.serve(name), "run"),
                        (lambda: elmo.train(texts=texts, labels=texts, validation=name + ".jsonl", **few), "validation"),
                        (lambda: run.predict_among(["a"], ["\ud800"]), r"labels\[0\]"),
                        (lambda: elmo.train({"\ud800": texts, "labels": texts}, text_column="\ud800"), "text_column")):
        with pytest.raises(elmo.Error, match=f"^{where}: expected a str that UTF-8 can hold, found '"):
            call()


def test_a_column_whose_name_ends_in_a_blank_or_holds_a_plus():
    texts = [f"{'odd' if i % 2 else 'even'} {i}" for i in range(40)]
    for column in (" title ", "a+b"):
        run = elmo.train({column: texts, "labels": ["x", "y"] * 20}, text_column=column, **SMALL)
        assert run.evaluate({column: texts, "labels": ["x", "y"] * 20}).protocol.samples == 40


def test_a_list_of_columns_whose_names_hold_a_plus():
    """A run finds them again."""
    pyarrow = pytest.importorskip("pyarrow")
    texts, tail = [f"{'odd' if i % 2 else 'even'} {i}" for i in range(40)], ["x"] * 40
    labels, few = ["x", "y"] * 20, SMALL | dict(epochs=2)
    wanted = elmo.train({"a": texts, "b": tail, "labels": labels}, text_column=["a", "b"], **few)
    for names in (["Q+A", "b"], ["b+c", "d"], [" a+b+c ", " d "]):
        table = {names[0]: texts, names[1]: tail, "labels": labels, "Q": tail}
        for form in (table, pyarrow.table(table)):
            run = elmo.train(form, text_column=names, **few)
            assert run.predict(texts).scores.tolist() == wanted.predict(texts).scores.tolist()
            assert run.evaluate(form).protocol.samples == 40
    with pytest.raises(elmo.DataError, match=r"expected a column 'Q', found 'Q\+A', 'labels'; name it with"):
        elmo.train({"Q+A": texts, "labels": labels}, text_column=["Q+A", "b"], **few)
    for names in (["Q+A", "Q+B"], ["C++"], ["Q+A", "A"]):
        with pytest.raises(elmo.ConfigError, match="^text_column: expected names without equal or empty parts between their "):
            elmo.train({**{name: texts for name in names}, "labels": labels}, text_column=names, **few)


def test_numbers_that_are_none(run):
    assert run.explain("the red apple", nearest=2**70).labels
    with pytest.raises(elmo.ConfigError, match="^a: expected a number, found '0.55'"):
        elmo.metrics.inverse_propensity(np.eye(2, dtype=int), a="0.55")
    with pytest.raises(elmo.DataError, match="expected the folder of a run with its log.jsonl, found No such file"):
        elmo.Run(run.path + "/best").log
    with pytest.raises(elmo.DataError, match="^columns: expected names or numbers in an order, found"):
        run.predict(["a"]).to_csr(columns={"apple", "stone"})


def test_messages_where_temporary_folders_are_has_a_blank(tmp_path, monkeypatch):
    import tempfile
    folder = tmp_path / "tmp dir's"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    with pytest.raises(elmo.DataError) as caught:
        elmo.train(texts=TEXTS * 5, labels=[["a"], ["b", "b"], ["a"]] * 5, **SMALL)
    assert str(caught.value).startswith("rows from memory[1]: expected every label once, found 'b' twice")


def test_what_needs_texts_refuses_a_head_on_vectors(tmp_path, run):
    """As elmo.torch.Head.save writes it."""
    from elmo import _core
    config = _core.Config()
    config.set("precision", "bf16")
    _core.VectorHead(config, 9, 16, 4, 5, 0).save_run(str(tmp_path / "head"), [])
    head = elmo.Run(tmp_path / "head")
    assert len(head.predict_vectors(np.ones((2, 16), np.float32), top=3)[0]) == 3
    for rows in ({}, {"texts": TEXTS * 20, "labels": LABELS * 20}):
        for call in (lambda: head.evaluate(**rows), lambda: head.calibrate(**rows), lambda: head.index(**rows),
                     lambda: head.report(out=tmp_path / "page.html", **rows), lambda: head.compare(run, **rows),
                     lambda: run.compare(head, **rows), lambda: elmo.train(init=head, **rows), lambda: head.explain("a text")):
            with pytest.raises(elmo.ConfigError, match=r"^.*head.best: \w+ needs texts, found a head on vectors from elsewhere, which has "
                                                       r"no encoder; run.predict_vectors\(vectors\) and 'elmo serve' take its vectors$"):
                call()
    with pytest.raises(elmo.ConfigError, match="is finished: it has a best checkpoint and none to continue from"):
        elmo.train(out=head, resume=True)
    with pytest.raises(elmo.DataError, match="this run was opened, not trained here$"):
        head.result
    with pytest.raises(elmo.DataError, match="this run was opened, not trained here; run.log holds its history$"):
        elmo.Run(run.path).result
    assert hasattr(run, "result") and not hasattr(elmo.Run(run.path), "result")
