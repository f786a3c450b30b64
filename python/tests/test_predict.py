"""Predictor, evaluation, tokenizer: equal to what the program prints."""
import json
import logging
import os
import pickle
import threading

import numpy as np
import pytest
from conftest import SMALL, elmo_program, rows

import elmo


def test_predictions_are_the_programs(tmp_path, run, texts):
    (tmp_path / "texts.txt").write_text("\n".join(texts[:50]) + "\n")
    printed = elmo_program("predict", run.path, tmp_path / "texts.txt", "--json", "--top", 3)
    answers = run.predict(texts[:50], top=3)
    assert len(answers) == 50
    for line, ours in zip(printed.stdout.splitlines(), answers):
        theirs = json.loads(line)["labels"]
        assert [(p["label"], p["name"]) for p in theirs] == [(p.label, p.name) for p in ours]
        assert [np.float32(p["score"]) for p in theirs] == [np.float32(p.score) for p in ours]
        assert [np.float32(p["probability"]) for p in theirs] == [np.float32(p.probability) for p in ours]


def test_it_has_learnt(run):
    assert set(run.predict(["a blue bird"], top=2)[0][i].name for i in (0, 1)) == {"colour blue", "bird"}


def test_answers_as_arrays(run, texts):
    answers = run.predict(texts, top=4)
    assert answers.labels.dtype == np.int64 and answers.scores.dtype == np.float32
    assert answers.offsets.tolist() == list(range(0, 4 * len(texts) + 1, 4))
    assert answers.names[7] == [p.name for p in answers[7]] == [p.name for p in answers[7:8][0]]
    matrix = answers.to_csr()
    assert matrix.shape == (len(texts), len(run.label_names))
    best = answers[-1][0]
    assert matrix[len(texts) - 1, best.label] == np.float32(best.probability)
    with pytest.raises(IndexError):
        answers[len(texts)]
    strict = run.predict(texts, top=9, threshold=0.5)
    assert (strict.probabilities >= 0.5).all() and 0 < len(strict.labels) < 9 * len(texts)


def test_answers_have_the_columns_of_the_matrix_that_trained(run, texts, labels, caplog):
    """Labels are numbered by name, '10' before '2': a matrix without names has another order."""
    from scipy.sparse import csr_matrix
    names = run.label_names
    answers = run.predict(texts, top=4)
    turned = names[::-1] + ["a label that the run does not have"]
    matrix = answers.to_csr(columns=turned)
    assert matrix.shape == (len(texts), len(turned))
    assert (matrix[:, :-1] != answers.to_csr()[:, ::-1]).nnz == 0 and matrix[:, -1].nnz == 0
    assert answers.to_csr(columns=names[:2]).shape == (len(texts), 2)
    with pytest.raises(elmo.DataError, match="columns: expected labels, found none"):
        answers.to_csr(columns=[])
    for columns, found in ((range(9), "'0', '1', '2'"), (["Apple"], "'Apple'")):
        with pytest.raises(elmo.DataError, match=rf"columns: expected labels of the run, such as 'apple', found none of them in {found}"
                                                 r".*; give label_names of the matrix that trained it, or run.label_names"):
            answers.to_csr(columns=columns)
    few = pickle.loads(pickle.dumps(run.predict(["the red apple"], top=1)))  # which knows its own names only
    assert few.to_csr(columns=["river"]).shape == (1, 1)
    # Twelve columns, so that their numbers are not in the order of their bytes.
    words = [f"word{chr(97 + i)}" for i in range(12)]
    truth = csr_matrix(np.eye(12, dtype=np.int8)[np.arange(240) % 12])
    own = elmo.train(texts=[words[i % 12] for i in range(240)], labels=truth, encoder="linear", threads=1)
    answers = own.predict(words, top=1)
    caplog.clear()
    assert elmo.metrics.precision(answers.to_csr(columns=range(12)), np.eye(12, dtype=np.int8), k=1).tolist() == [1.0]
    assert not caplog.records
    elmo.metrics.precision(answers, np.eye(12, dtype=np.int8), k=1)
    assert "'10' before '2': if the columns of the truth are numbered, give answers.to_csr(columns=range(12))" in caplog.text


def test_labels_without_names_are_called_by_their_numbers(texts, labels, tmp_path):
    names = files_of(tmp_path, texts, labels)
    run = elmo.train(tmp_path / "numbered", test_share=0, **SMALL)
    answers = run.predict(CASES := ["the red apple", "a blue river"], top=1)
    expected = [[str(names.index("apple"))], [str(names.index("river"))]]
    assert answers.names == expected == pickle.loads(pickle.dumps(answers)).names
    assert answers[0][0].name == run.explain(CASES[0], top=1).labels[0].name == expected[0][0]
    assert run.label_names == [str(i) for i in range(len(names))]
    for columns in (range(len(names)), run.label_names):
        assert (answers.to_csr(columns=columns) != answers.to_csr()).nnz == 0
    assert answers.to_csr(columns=range(len(names))).nnz == 2
    assert run.predict_among(CASES, expected[0], top=1).names == [expected[0], expected[0]]


def test_any_number_of_texts(run):
    assert len(run.predict([])) == 0 and run.embed([]).shape == (0, 16)
    many = rows(3000, seed=3)[0]
    together = run.predict(iter(many))
    assert len(together) == 3000
    assert [p.label for p in run.predict(many[2500:2501])[0]] == [p.label for p in together[2500]]


def test_among_and_without(run, texts):
    wanted = ["bird", "stone"]
    among = run.predict_among(texts[:20], wanted, top=5)
    assert {name for row in among.names for name in row} == set(wanted)
    full = run.predict(texts[:20], top=9)
    for few, all_ in zip(among, full):
        assert few == [p for p in all_ if p.name in wanted]
    predictor = elmo.Predictor(run, without=wanted, top=9)
    assert predictor.num_answers == 7 and predictor.num_labels == 9
    assert not {name for row in predictor.predict(texts[:20]).names for name in row} & set(wanted)
    assert elmo.Predictor(run, top=1).predict_among(texts[:1], np.array([3])).labels.tolist() == [3]
    with pytest.raises(elmo.DataError, match=r"labels\[1\]: expected the name of a label"):
        run.predict_among(texts, ["bird", "no such label"])
    with pytest.raises(elmo.DataError, match="labels: expected labels, found none"):
        run.predict_among(texts, [])


def test_embeddings(run, texts):
    vectors = run.embed(texts)
    assert vectors.shape == (len(texts), 16) and vectors.dtype == np.float32
    assert (run.embed(texts[3:5]) == vectors[3:5]).all()


def test_scores_are_the_programs(tmp_path, texts, labels):
    with open(tmp_path / "data.jsonl", "w", encoding="utf-8") as file:
        for text, names in zip(texts, labels):
            file.write(json.dumps({"text": text, "labels": names}) + "\n")
    run = elmo.train(tmp_path / "data.jsonl", out=tmp_path / "run", **SMALL | dict(epochs=3))
    printed = elmo_program("eval", run.path, tmp_path / "data.jsonl", "--json", "--save-scores", "none")
    theirs, ours = json.loads(printed.stdout), run.evaluate(k=[1, 3, 5], save_scores="none")
    assert theirs.pop("texts_per_second") > 0 and ours.pop("texts_per_second") > 0
    assert theirs == ours
    assert not (tmp_path / "run" / "scores.jsonl").exists()


def test_a_run_remembers_the_columns_of_its_table(tmp_path):
    texts, labels = rows(120)
    table = {"title": texts, "tags": labels, "text": ["nothing"] * 120, "labels": [["none"]] * 120}
    run = elmo.train(table, text_column="title", label_column="tags", out=tmp_path / "run", **SMALL)
    new = rows(50, seed=9)
    table = {"title": new[0], "tags": new[1], "text": ["nothing"] * 50, "labels": [["none"]] * 50}
    wanted = run.evaluate(texts=new[0], labels=new[1], bootstrap=0)["P@5"]
    assert elmo.Run(tmp_path / "run").evaluate(table, bootstrap=0)["P@5"] == wanted > 30
    # A table without them is read as it always was, and an option wins.
    assert run.evaluate({"text": new[0], "labels": new[1]}, bootstrap=0)["P@5"] == wanted
    assert run.evaluate(table | {"text": new[0]}, text_column="text", bootstrap=0)["P@5"] == wanted
    with pytest.raises(elmo.DataError, match="expected a column 'tags', found 'title'"):
        run.evaluate({"title": new[0]})
    file = tmp_path / "new.parquet"
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pytest.importorskip("pyarrow").table(table), file)
    assert run.evaluate(file, bootstrap=0)["P@5"] == wanted
    more = elmo.train({"title": new[0], "tags": new[1]}, init=run, epochs=1)
    assert set(more.label_names) == set(run.label_names)
    # Columns of several texts, and the program.
    run = elmo.train({"a": texts, "b": [None] * 120, "c": labels}, text_column="a+b", label_column="c",
                     validation={"a": new[0], "b": [""] * 50, "c": new[1]}, out=tmp_path / "joined", **SMALL)
    file = tmp_path / "new.jsonl"
    file.write_text("".join(json.dumps({"a": text, "c": row}) + "\n" for text, row in zip(*new)))
    printed = elmo_program("eval", tmp_path / "joined", file, "--bootstrap", 0, "--json", "--save-scores", "none")
    assert json.loads(printed.stdout)["P@5"] == run.evaluate(texts=new[0], labels=new[1], bootstrap=0)["P@5"]


def test_a_file_of_a_table_is_scored_as_other_files_are(tmp_path):
    """Of the run's own file the rows that it held out, also where the run is opened again; of another file all."""
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    for name, (texts, labels) in (("own", rows(200)), ("new", rows(50, seed=9))):
        parquet.write_table(pyarrow.table({"text": texts, "labels": labels}), tmp_path / f"{name}.parquet")
    file = tmp_path / "own.parquet"
    run = elmo.train(file, out=tmp_path / "run", **SMALL)
    wanted = run.evaluate(bootstrap=0)
    for one in (run, elmo.Run(tmp_path / "run")):
        scores = one.evaluate(file, bootstrap=0)
        assert scores.protocol.samples == wanted.protocol.samples < 60
        assert scores["P@5"] == wanted["P@5"] and scores.protocol.split == "test"
        assert scores.protocol.data == str(file) and scores.protocol.get("trained_samples", 0) == 0
        assert one.evaluate(file, split="all", bootstrap=0).protocol.samples == 200
        assert one.evaluate(tmp_path / "new.parquet", bootstrap=0).protocol.samples == 50


def test_a_dataset_dict_is_scored_by_its_test_split(run):
    datasets = pytest.importorskip("datasets")
    known, new = (datasets.Dataset.from_dict(dict(zip(("text", "labels"), rows(count, seed=count)))) for count in (60, 40))
    scores = run.evaluate(datasets.DatasetDict(train=known, test=new), bootstrap=0)
    assert scores.protocol.samples == 40 and scores["P@5"] == run.evaluate(new, bootstrap=0)["P@5"]
    with pytest.raises(elmo.DataError, match=r"expected a split 'test', found train; give one of them: data\['train'\]"):
        run.evaluate(datasets.DatasetDict(train=known))


def test_scores_of_rows_in_memory(run):
    texts, labels = rows(50, seed=9)
    scores = run.evaluate(texts=texts, labels=labels, bootstrap=0)
    assert scores["P@1"] > 90 and scores.protocol.samples == 50
    assert scores.protocol.data == "rows from memory"
    answers = elmo.Predictor(run, top=5).predict(texts)
    number = {name: i for i, name in enumerate(run.label_names)}
    truth = [[number[name] for name in row] for row in labels]
    for name, value in elmo.metrics.scores(answers, truth).items():
        assert scores[name] == pytest.approx(100 * value, abs=1e-9)
    by_table = elmo.evaluate(run, {"text": texts, "labels": labels}, bootstrap=0)
    assert by_table["P@5"] == scores["P@5"]
    with pytest.raises(elmo.ConfigError, match="have no splits"):
        run.evaluate(texts=texts, labels=labels, split="test")


def test_nearest_training_texts_are_explained(texts, labels, tmp_path, caplog):
    lines = "".join(json.dumps({"text": text, "labels": row}) + "\n" for text, row in zip(texts, labels))
    (tmp_path / "rows.jsonl").write_text(lines)
    asked = "a red house number 7"
    of_file = elmo.train(tmp_path / "rows.jsonl", out=tmp_path / "file", neighbours=0.4, encoder="linear")
    printed = json.loads(elmo_program("explain", of_file.path, "--text", asked, "--json").stdout)
    explained = of_file.explain(asked)
    assert explained.nearest == printed["nearest"] and explained.words == printed["words"] and len(explained.nearest) == 5
    near = explained.nearest[0]
    assert near.text in texts and near.names == sorted(labels[texts.index(near.text)])
    assert len(of_file.explain(asked, nearest=2).nearest) == 2 and of_file.explain(asked, nearest=0).nearest == []
    # Rows from memory, while the process that trained the run has them.
    of_rows = elmo.train(texts=texts, labels=labels, out=tmp_path / "rows", neighbours=0.4, encoder="linear")
    assert of_rows.explain("zzz qqq").nearest == []
    assert of_rows.explain(asked).nearest == explained.nearest
    del of_rows
    caplog.clear()
    with caplog.at_level("WARNING", "elmo"):
        again = elmo.Run(tmp_path / "rows").explain(asked)
    assert [one.training_text for one in again.nearest] == [one.training_text for one in explained.nearest]
    assert {one.text for one in again.nearest} == {""}
    assert caplog.messages == [f"training texts are not shown: {tmp_path / 'rows'}: this run was trained on rows from memory, which it "
                               "does not keep; train on a file of them to see them, or ask for none (nearest=0)"]
    for wrong in (-1, 1.5):
        with pytest.raises(elmo.ConfigError, match="nearest: expected"):
            of_file.explain(asked, nearest=wrong)


def test_stored_predictions_of_a_run(texts, labels, tmp_path, caplog):
    """The run says which data they are of and how it is read."""
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": texts, "b": [";".join(row) for row in labels]})
    frame.to_csv(tmp_path / "d.csv", index=False)
    frame.to_parquet(tmp_path / "d.parquet")
    stored = tmp_path / "p.txt"
    for data in (tmp_path / "d.csv", tmp_path / "d.parquet", frame):
        run = elmo.train(data, text_column="a", label_column="b", out=tmp_path / "run", overwrite=True, **SMALL | dict(epochs=3))
        scores = run.evaluate(save_predictions=stored, bootstrap=0)
        calls = [lambda: run.evaluate(predictions=stored, bootstrap=0)]
        calls += [] if data is frame else [lambda: run.evaluate(data, predictions=stored, bootstrap=0),
                                           lambda: elmo.Run(run.path).evaluate(predictions=stored, bootstrap=0),
                                           lambda: run.report(out=tmp_path / "page.html", predictions=stored, overwrite=True)]
        for call in calls:
            again = call()
            assert [again[f"P@{k}"] for k in (1, 3, 5)] == [scores[f"P@{k}"] for k in (1, 3, 5)]
            assert again.protocol.samples == scores.protocol.samples < 60 and "own data" in again.protocol.split_reason
    other = tmp_path / "other.csv"  # none of it is the run's
    frame.assign(a=frame.a + " again").to_csv(other, index=False)
    scores = run.evaluate(other, save_predictions=stored, bootstrap=0)
    again = run.evaluate(other, predictions=stored, bootstrap=0)
    assert again.protocol.samples == scores.protocol.samples == 200 and again["P@1"] == scores["P@1"]
    with caplog.at_level("WARNING", "elmo"):  # of rows alone propensities are counted on these
        alone = run.evaluate(pandas.read_csv(other), predictions=stored, bootstrap=0)
    assert alone["P@1"] == scores["P@1"] and alone.protocol.propensity_counts.startswith("scored rows")
    assert "rows from memory: propensities, head and tail are counted on the scored rows" in caplog.text


def test_calibration_on_other_rows(texts, labels, tmp_path):
    run = elmo.train(texts=texts, labels=labels, **SMALL | dict(epochs=3))
    new = rows(60, seed=9)
    fit = run.calibrate(validation=new)
    assert fit.rows == 60 and run.predictor().calibrated
    assert run.calibrate(validation={"text": new[0], "labels": new[1]}).a == fit.a
    titled = elmo.train({"title": texts, "tags": labels}, text_column="title", label_column="tags", **SMALL | dict(epochs=3))
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pytest.importorskip("pyarrow").table({"title": new[0], "tags": new[1]}), tmp_path / "new.parquet")
    assert titled.calibrate(validation=tmp_path / "new.parquet").a == fit.a
    run.save(tmp_path / "saved")
    assert elmo.Run(tmp_path / "saved").calibrate(texts=texts, labels=labels, validation=new).a == fit.a


def files_of(folder, texts, labels):
    """The same rows in formats that have other columns than rows from memory, or none."""
    sparse = pytest.importorskip("scipy.sparse")
    names = sorted({row[1] for row in labels})
    (folder / "rows.csv").write_text("title,topic\n" + "".join(f"{text},{row[1]}\n" for text, row in zip(texts, labels)))
    (folder / "rows.txt").write_text("".join(f"__label__{row[1]} {text}\n" for text, row in zip(texts, labels)))
    for pecos in (folder / "pecos", folder / "numbered"):
        pecos.mkdir()
        (pecos / "X.trn.txt").write_text("".join(text + "\n" for text in texts))
        sparse.save_npz(pecos / "Y.trn.npz", sparse.csr_matrix([[float(name == row[1]) for name in names] for row in labels]))
    (folder / "pecos" / "output-items.txt").write_text("".join(name + "\n" for name in names))
    return names


def test_calibration_of_any_run_on_rows_from_memory(texts, labels, tmp_path, caplog):
    pandas = pytest.importorskip("pandas")
    names = files_of(tmp_path, texts, labels)
    new_texts, both = rows(120, seed=9)
    new = [row[1] for row in both]
    numbers = [names.index(name) for name in new]
    expected = None
    for data, columns in (("rows.csv", dict(text_column="title", label_column="topic")), ("rows.txt", {}), ("pecos", {})):
        run = elmo.train(tmp_path / data, test_share=0, **columns, **SMALL | dict(epochs=3))
        caplog.clear()
        fit = run.calibrate(validation=(new_texts, new))
        expected = expected or fit
        assert not caplog.records and fit.rows == 120 and fit.a == expected.a
        if columns:
            assert run.calibrate(validation=pandas.DataFrame({"title": new_texts, "topic": new})).a == fit.a
    matrix = np.eye(len(names), dtype=int)[numbers]
    with pytest.raises(elmo.DataError, match="label_names: expected the names of the columns of labels, found none"):
        run.calibrate(validation=(new_texts, matrix))
    assert run.calibrate(validation=(new_texts, matrix), label_names=names).a == expected.a
    run = elmo.train(tmp_path / "numbered", test_share=0, **SMALL | dict(epochs=3))  # its labels have no names
    for given in (numbers, matrix):
        assert run.calibrate(validation=(new_texts, given)).a == expected.a
    assert run.evaluate(texts=new_texts, labels=matrix)["P@1"] == run.evaluate(texts=new_texts, labels=numbers)["P@1"] > 50
    elmo.train(texts=texts, labels=[row[1] for row in labels], test_share=0, out=tmp_path / "run", **SMALL | dict(epochs=3))
    assert elmo.Run(tmp_path / "run").calibrate(validation=(new_texts, new)).a == expected.a


def test_calibration(texts, labels):
    run = elmo.train(texts=texts, labels=labels, validation=0.3, **SMALL | dict(epochs=3))
    assert not run.predictor().calibrated
    assert run.calibrate().method == "platt"
    assert run.predictor().calibrated


def test_calibration_of_a_run_that_was_opened(texts, labels, tmp_path):
    elmo.train(texts=texts, labels=labels, validation=0.3, out=tmp_path / "run", **SMALL | dict(epochs=3)).calibrate()
    fitted = (tmp_path / "run" / "calibration-best.json").read_bytes()
    (tmp_path / "run" / "calibration-best.json").unlink()
    opened = elmo.Run(tmp_path / "run")
    with pytest.raises(elmo.DataError, match="give them again"):
        opened.calibrate()
    opened.calibrate(texts=texts, labels=labels)
    assert (tmp_path / "run" / "calibration-best.json").read_bytes() == fitted


def test_thresholds_of_calibrated_probabilities(texts, labels, tmp_path):
    """Raw probabilities have none, whether the run is calibrated or not."""
    run = elmo.train(texts=texts, labels=labels, **SMALL)
    raw = dict(probabilities="raw")

    def said(call):
        with pytest.raises(elmo.ConfigError) as caught:
            call()
        return str(caught.value)

    for calibrated in (False, True):
        if calibrated:
            run.calibrate(validation=rows(100, seed=5), label_thresholds=True)
        for call in (lambda: run.predict(texts, label_thresholds=True, **raw), lambda: run.evaluate(label_thresholds=True, **raw)):
            assert said(call) == ("label_thresholds: thresholds per label are of calibrated probabilities, found "
                                  "probabilities='raw'; leave one of the two out")
        assert said(lambda: run.predict(texts, threshold=-1, **raw)) == (
            "threshold: -1 is the best one of calibrated probabilities, found probabilities='raw'; leave it out, or give "
            "another threshold")
        printed = elmo_program("predict", run.path, "--text", texts[0], "--label-thresholds", "--probabilities", "raw")
        assert "are of calibrated probabilities, found --probabilities raw; leave one of the two out" in printed.stderr
    run.calibrate(validation=rows(100, seed=5))
    assert "the run has none; call run.calibrate(label_thresholds=True) first" in said(
        lambda: run.predict(texts, label_thresholds=True))


def test_thresholds_of_labels_that_a_new_calibration_drops(texts, labels, caplog):
    run = elmo.train(texts=texts, labels=labels, **SMALL)
    new = rows(100, seed=5)
    with caplog.at_level("WARNING", "elmo"):
        run.calibrate(validation=new)
        run.calibrate(validation=new, label_thresholds=True)
        run.calibrate(validation=new, label_thresholds=True)
    assert "thresholds" not in caplog.text
    with caplog.at_level("WARNING", "elmo"):
        run.calibrate(validation=new)
    assert "the thresholds per label of the last calibration are dropped; give label_thresholds=True to fit them again" in caplog.text
    printed = elmo_program("calibrate", run.path)
    assert "are dropped" not in printed.stderr


def test_answers_that_a_threshold_cuts_are_a_warning(caplog):
    names = [f"label {i}" for i in range(120)]
    run = elmo.train(texts=["all of them", "something else"] * 20, labels=[names, ["else"]] * 20, test_share=0)
    with caplog.at_level("WARNING", logger="elmo"):
        for _ in range(2):  # the same line is said once
            assert len(run.predict(["all of them", "something else"], threshold=0.5)[0]) == 100
        assert [line.message for line in caplog.records] == [
            "1 text with 100 labels above the threshold, and perhaps more: top= raises this limit"]
        run.predict(["all of them"] * 2, threshold=0.5)
        assert caplog.messages[1:] == ["2 texts with 100 labels above the threshold, and perhaps more: top= raises this limit"]
        caplog.clear()
        assert len(run.predict(["all of them", "something else"], threshold=0.5, top=120)[0]) == 120
        assert len(run.predict(["all of them"], top=3)[0]) == 3
        assert not caplog.records


def test_messages_of_predictions_go_to_the_logger(texts, labels, tmp_path, caplog):
    caplog.set_level(logging.INFO, "elmo")
    run = elmo.train(texts=texts, labels=labels, **SMALL | dict(epochs=1))
    run.index(texts=texts, labels=labels)
    caplog.clear()

    class Asks(logging.Handler):  # of the same predictor: nothing is locked meanwhile
        def emit(self, record):
            run.predict(["a red apple"])

    handler = Asks()
    logging.getLogger("elmo").addHandler(handler)
    try:
        for top in (1, 2, 1):  # opened again each time
            run.predict(["微笑む猫の顔 日本語", "顔"], top=top)
            run.predict_among(["12:3 4:5 17:0.2"], ["apple"])
            run.predict(["a red apple"], search="approximate")
    finally:
        logging.getLogger("elmo").removeHandler(handler)
    said = [(record.levelname, record.getMessage()) for record in caplog.records]
    assert [level for level, _ in said] == ["WARNING", "WARNING", "INFO"]
    assert "mostly of tokens that the tokenizer does not know" in said[0][1]
    assert "expected words, found features in '12:3 4:5 17:0.2'" in said[1][1]
    assert said[2][1].startswith("approximate search: ")
    elmo.Predictor(run.path).predict(["顔"])  # which knows nothing of what was said before
    assert len(caplog.records) == 4


def test_messages_that_were_said_are_not_kept_without_end(texts, labels, caplog):
    """A service may be asked for days, each time with features of another text."""
    caplog.set_level(logging.WARNING, "elmo")
    run = elmo.train(texts=texts, labels=labels, encoder="linear", progress=False)
    caplog.clear()
    for number in range(150):
        elmo.Predictor(run, top=1).predict([f"{number}:3 4:5 17:0.2"])
    assert len(caplog.records) == 150 and len(run._said) <= 100
    elmo.Predictor(run, top=1).predict(["149:3 4:5 17:0.2"])
    assert len(caplog.records) == 150


def test_tokenizer(run, texts):
    tokenizer = elmo.Tokenizer(run, max_length=6)
    (one, two) = tokenizer.encode_batch(texts[:2])
    assert one.tolist() == tokenizer.encode(texts[0]) and len(one) <= 6 and one.dtype == np.int32
    printed = elmo_program("tokenize", "--tokenizer", run.path, "--max-length", 6, "--json", input=texts[1] + "\n")
    assert json.loads(printed.stdout) == two.tolist() == tokenizer.encode(texts[1])


def test_threads_share_a_predictor(run, texts):
    predictor, found = run.predictor(), {}
    alone = predictor.predict(texts).labels.tolist()
    threads = [threading.Thread(target=lambda i=i: found.update({i: predictor.predict(texts).labels.tolist()}))
               for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(found[i] == alone for i in range(4))


def test_two_models_in_two_threads(texts, labels):
    def train(seed, into):
        run = elmo.train(texts=texts, labels=labels, **SMALL | dict(seed=seed, epochs=5))
        into[seed] = run.embed(texts[:9]).tolist()

    alone, together = {}, {}
    for seed in (1, 2):
        train(seed, alone)
    threads = [threading.Thread(target=train, args=(seed, together)) for seed in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert together == alone and alone[1] != alone[2]


def test_explanations_are_the_programs(run):
    text = "the blue bird of the river"
    printed = elmo_program("explain", run.path, "--text", text, "--json")
    assert json.loads(printed.stdout) == run.explain(text) == elmo.Predictor(run).explain(text)
    explained = run.explain(text, labels=["bird", "colour blue"], top=2)
    assert {label.name for label in explained.labels} == {"bird", "colour blue"}
    for label in explained.labels:
        strongest = max(range(len(explained.words)), key=lambda i: label.effects[i])
        assert explained.words[strongest].word in label.name
    with pytest.raises(elmo.DataError, match="text: expected a str, found 7"):
        run.explain(7)


def test_explained_labels_are_all_that_were_asked_for(run, labels):
    asked = sorted({name for row in labels for name in row})[:7]
    text = "a green house by the river"
    expected = run.predict_among([text], asked, top=7).names[0]
    for explained in (run.explain(text, asked), run.explain(text, asked, top=7), elmo.Predictor(run, top=2).explain(text, asked)):
        assert [label.name for label in explained.labels] == expected
        alone = {name: run.explain(text, [name]).labels[0].effects for name in asked}
        assert all(label.effects == alone[label.name] for label in explained.labels)
    assert [label.name for label in run.explain(text, asked, top=2).labels] == expected[:2]
    flags = [word for name in asked for word in ("--label", name)]
    program = elmo_program("explain", run.path, "--text", text, "--json", *flags)
    assert [label["name"] for label in json.loads(program.stdout)["labels"]] == expected
    assert len(run.explain(text, top=9).labels) == 9 and len(run.explain(text).labels) == 3
    for top in (0, -1):
        for call in (lambda: run.explain(text, top=top), lambda: run.explain(text, asked, top=top),
                     lambda: elmo.Predictor(run, top=2).explain(text, top=top)):
            with pytest.raises(elmo.ConfigError, match=f"top: expected 1 or more labels, found {top}$"):
                call()
    with pytest.raises(elmo.ConfigError, match="top: expected up to 2 labels, as this Predictor.*open it with top=9"):
        elmo.Predictor(run, top=2).explain(text, top=9)
    assert elmo.Predictor(run, top=2).explain(text) == run.explain(text, top=2) == run.predictor(top=2).explain(text)


def test_the_report_is_the_programs(tmp_path, texts, labels):
    with open(tmp_path / "data.jsonl", "w", encoding="utf-8") as file:
        for text, names in zip(texts, labels):
            file.write(json.dumps({"text": text, "labels": names}) + "\n")
    run = elmo.train(tmp_path / "data.jsonl", out=tmp_path / "run", **SMALL | dict(epochs=2))
    printed = elmo_program("report", run.path, tmp_path / "data.jsonl", "--json", "--save-scores", "none", "--out",
                           tmp_path / "theirs.html")
    theirs = json.loads(printed.stdout)
    ours = elmo.report(run, tmp_path / "data.jsonl", out=tmp_path / "ours.html", save_scores="none")
    assert theirs.pop("texts_per_second") > 0 and ours.pop("texts_per_second") > 0
    assert theirs.pop("page") == str(tmp_path / "theirs.html") and ours.pop("page") == str(tmp_path / "ours.html")
    assert theirs == ours
    pages = [(tmp_path / name).read_text(encoding="utf-8").split("<footer>")[0] for name in ("theirs.html", "ours.html")]
    assert pages[0] == pages[1]
    with pytest.raises(elmo.ConfigError, match="exists already"):
        run.report(out=tmp_path / "ours.html")
    in_memory = run.report(texts=texts, labels=labels, out=tmp_path / "ours.html", overwrite=True, errors=3)
    assert in_memory.protocol.data == "rows from memory" and len(in_memory.worst_labels) <= 3


def test_files_say_where_their_rows_are_from(texts, labels, tmp_path):
    run = elmo.train(texts=texts, labels=labels, **SMALL | dict(epochs=2))
    new = rows(60, seed=9)
    shown = run.report(texts=new[0], labels=new[1], out=tmp_path / "new.html", per_label=tmp_path / "new.jsonl")
    first = json.loads((tmp_path / "new.jsonl").read_text().splitlines()[0])
    assert (first["data"], first["split"]) == (shown.protocol.data, shown.protocol.split) == ("rows from memory", "all rows given")
    page = (tmp_path / "new.html").read_text()
    assert "60 texts (rows from memory: all rows given)" in page and "elmo-rows" not in page
    run.report(out=tmp_path / "own.html")
    page = (tmp_path / "own.html").read_text()
    assert "test rows of rows from memory" in page and "elmo-rows" not in page
    assert json.loads((tmp_path / run.path / "scores.jsonl").read_text())["protocol"]["data"] == "rows from memory"
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pytest.importorskip("pyarrow").table({"text": new[0], "labels": new[1]}), tmp_path / "new.parquet")
    run.report(tmp_path / "new.parquet", out=tmp_path / "file.html")
    assert f"all rows of {tmp_path / 'new.parquet'}" in (tmp_path / "file.html").read_text()


def test_export_is_the_programs(run, tmp_path):
    made = run.export("numpy", tmp_path / "here")
    elmo_program("export", run.path, "--to", "numpy", "--out", tmp_path / "there")
    assert made.labels == 9 and made.to == "numpy" and made.out == str(tmp_path / "here")
    assert {file.name for file in made.files} == {path.name for path in (tmp_path / "there").iterdir()}
    for path in (tmp_path / "there").iterdir():
        assert path.read_bytes() == (tmp_path / "here" / path.name).read_bytes()
    with pytest.raises(elmo.ConfigError, match="expected numpy, sentence-transformers or onnx, found 'excel'"):
        elmo.export(run.path, "excel", tmp_path / "other")
    with pytest.raises(elmo.ConfigError, match="is not empty"):
        elmo.export(run, "numpy", tmp_path / "here")
    elmo.export(run, "numpy", tmp_path / "here", overwrite=True)
    with pytest.raises(elmo.ConfigError, match="a transformer"):
        run.export("onnx", tmp_path / "model")


def test_an_index_finds_labels(run, texts, labels, tmp_path, caplog):
    with pytest.raises(elmo.Error, match="index"):
        run.predict(texts[:1], search="approximate")
    made = run.save(tmp_path / "copy").index(texts=texts, labels=labels)
    index = (tmp_path / "copy/index-best.safetensors").read_bytes()
    caplog.clear()
    with caplog.at_level("INFO", "elmo"):  # it learns from texts alone
        alone = elmo.index(tmp_path / "copy", texts=iter(texts))
    assert not caplog.records
    assert (alone.recall_at_5, alone.texts) == (made.recall_at_5, made.texts)
    assert (tmp_path / "copy/index-best.safetensors").read_bytes()[-1000:] == index[-1000:]
    assert made.labels == 9 and made.recall_at_5 == 1 and made.texts == 50
    copy = elmo.Run(tmp_path / "copy")
    for text in texts[:20]:
        assert copy.predict([text], top=3, search="approximate")[0] == run.predict([text], top=3)[0]
    with pytest.raises(elmo.DataError, match="expected at least 40 texts"):
        elmo.index(copy, texts=texts[:10])
    with pytest.raises(elmo.ConfigError, match="recall: expected more than 0 and at most 1, found 2"):
        copy.index(texts=texts, labels=labels, recall=2)


def test_answers_can_be_pickled(run, texts):
    pytest.importorskip("scipy")
    answers = run.predict(texts[:4], top=2)
    again = pickle.loads(pickle.dumps(answers))
    assert again[:] == answers[:] and again.names == answers.names and again.num_labels == answers.num_labels
    names = run.label_names[::-1]
    for columns in (None, names):
        assert (again.to_csr(columns=columns) != answers.to_csr(columns=columns)).nnz == 0


def test_a_folder_that_is_trained_again(tmp_path):
    """An older object of it answers with what is there now, whatever it had opened."""
    texts = [f"{colour} {i}" for i in range(60) for colour in ("red", "blue")]
    options = dict(texts=texts, out=tmp_path / "run", encoder="linear", progress=False)
    old = elmo.train(labels=[text.split()[0] for text in texts], **options)
    assert old.predict(["red"], top=1).names == [["red"]]
    kept = old.predictor(top=1)
    new = elmo.train(labels=["new " + text.split()[0] for text in texts], overwrite=True, **options)
    assert old.predict(["red"], top=1).names == [["new red"]] and old.predict(["red"], top=2)[0][0].name == "new red"
    assert old.label_names == ["new blue", "new red"]
    assert kept.predict(["red"]).names == [["red"]] and kept.label_names == ["blue", "red"]  # it stays open
    new.calibrate(validation=(texts, ["new " + text.split()[0] for text in texts]))
    assert old.predictor(top=1).calibrated


def test_a_threshold_of_0_is_one(caplog):
    texts, labels = [f"word{i % 150} n{i}" for i in range(600)], [[f"l{i % 150}"] for i in range(600)]
    run = elmo.train(texts=texts, labels=labels, encoder="linear", progress=False)
    with caplog.at_level("WARNING", logger="elmo"):
        assert [len(answer) for answer in run.predict(texts[:2], threshold=0)] == [100, 100]
    assert "2 texts with 100 labels above the threshold, and perhaps more: top= raises this limit" in caplog.text
    caplog.clear()
    for zero in (0.0, np.float32(0), "0"):
        assert len(elmo.Predictor(run, threshold=zero).predict(texts[:1])[0]) == 100
    caplog.clear()
    with caplog.at_level("WARNING", logger="elmo"):
        assert len(run.predict(texts[:1], threshold=0, top=150)[0]) == 150
        assert len(run.predict(texts[:1], threshold=None)[0]) == 5
        assert len(run.predict_among(texts[:1], [f"l{i}" for i in range(20)], threshold=0)[0]) == 20
    assert not caplog.text


def test_words_of_an_explanation_are_parts_of_the_text(run):
    text = "größte café 東京 green house 🙂 river"
    words = run.explain(text, labels=["river"]).words
    assert [text[word.begin:word.end].lower() for word in words] == [word.word.lower() for word in words]
    assert "river" in [word.word for word in words]


def test_when_a_run_is_opened_again(texts, labels, tmp_path):
    """When what answers was written, and the old model is not kept beside the new one."""
    import os
    run = elmo.train(texts=texts, labels=labels, out=tmp_path / "run", validation=0.2, **SMALL)
    first = run.predictor()._core
    (tmp_path / "run/last/more").write_text("")
    os.utime(tmp_path / "run/last/manifest.json")
    assert run.predictor()._core is first
    os.utime(tmp_path / "run/best/manifest.json")
    second = run.predictor()._core
    assert second is not first
    run.calibrate()
    assert run._opened is None
    assert run.predictor().calibrated and run.predictor()._core is run.predictor()._core
    alone = elmo.Run(tmp_path / "run/best")
    assert alone.predictor().calibrated and alone.predictor()._core is alone.predictor()._core
    run.index(texts=texts, labels=labels)
    assert run._opened is None and run.predictor(search="approximate")._core is not second


def test_predict_among_of_a_predictor_without_some_labels(run):
    without, only = elmo.Predictor(run, without=["apple"]), elmo.Predictor(run, labels=["apple", "stone"])
    for predictor, label in ((without, "apple"), (only, "river")):
        with pytest.raises(elmo.DataError, match=f"^labels: expected labels that this Predictor answers with, found '{label}'"):
            predictor.predict_among(["the red apple"], [label, "stone"])
        assert predictor.predict_among(["the red apple"], ["stone"]).names == [["stone"]]
        number = run.label_names.index(label)  # the same label
        with pytest.raises(elmo.DataError, match=f"found '{label}'"):
            predictor.predict_among(["the red apple"], [number])
        assert predictor.predict_among(["the red apple"], [run.label_names.index("stone")]).names == [["stone"]]


def test_relative_folders_stay_the_same_in_another_working_folder(run, tmp_path, monkeypatch):
    run.save(tmp_path / "run")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    predictor = elmo.Predictor("run")
    with elmo.serve("run", port=0) as server:
        monkeypatch.chdir(tmp_path / "elsewhere")
        assert predictor.predict_among(["the red apple"], ["apple"]).names == [["apple"]]
        run.save(tmp_path / "run", overwrite=True)
        assert server.reload() == 1


def test_a_copy_inside_of_the_run_itself(run):
    with pytest.raises(elmo.DataError, match="expected another folder than that of the run itself; name another"):
        run.save(run.path + "/deep/backup")
    assert not os.path.exists(run.path + "/deep")


def test_a_copy_where_a_file_is(run, tmp_path):
    (tmp_path / "file.csv").write_text("text,labels\n")
    (tmp_path / "link").symlink_to(tmp_path / "gone")
    for overwrite in (False, True):
        with pytest.raises(elmo.DataError, match=r"file\.csv: expected a folder for the copy, found a file; name another$"):
            run.save(tmp_path / "file.csv", overwrite)
        with pytest.raises(elmo.DataError, match="link: expected a folder for the copy, found a link to nothing; name another$"):
            run.save(tmp_path / "link", overwrite)
    assert (tmp_path / "file.csv").read_text() == "text,labels\n"


def test_labels_beside_texts_of_an_index_are_not_looked_at(run, texts):
    found = run.index(texts=texts, labels=["unknown"] * len(texts))
    assert found.recall_at_5 == run.index(texts=texts).recall_at_5
