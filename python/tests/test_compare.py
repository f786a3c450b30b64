"""Two runs on the same rows: elmo.compare, the twin of `elmo eval RUN1 RUN2 DATA`."""
import json

import pytest

import elmo
from conftest import SMALL, elmo_program, rows
from test_reopened import COLUMNS, table_of, write_parquet

FEW = SMALL | dict(epochs=2)


def without_times(compared):
    return {key: {name: value for name, value in values.items() if name != "texts_per_second"} for key, values in compared.items()}


def test_it_answers_as_the_program_does(tmp_path):
    texts, labels = rows(300)
    lines = [json.dumps({"text": text, "labels": row}) + "\n" for text, row in zip(texts, labels)]
    (tmp_path / "rows.jsonl").write_text("".join(lines))
    runs = [elmo.train(tmp_path / "rows.jsonl", out=tmp_path / name, **options).path
            for name, options in (("first", FEW), ("second", SMALL))]
    printed = json.loads(elmo_program("eval", *runs, tmp_path / "rows.jsonl", "--json", "--bootstrap", 50).stdout)
    compared = elmo.compare(*runs, tmp_path / "rows.jsonl", bootstrap=50)
    assert without_times(compared) == without_times(printed)
    assert without_times(elmo.Run(runs[0]).compare(runs[1], bootstrap=50)) == without_times(printed)
    assert compared.second["P@1"] - compared.first["P@1"] == pytest.approx(compared.difference["P@1"])
    low, high = compared.difference_intervals["P@1"]
    assert low <= compared.difference["P@1"] <= high and compared.difference["P@1"] > 0


def test_rows_from_memory(run, texts, labels, caplog):
    few, (new, of_new) = elmo.train(texts=texts, labels=labels, **FEW), rows(60, seed=8)
    compared = few.compare(run, texts=new, labels=of_new, bootstrap=20)
    for one, scored in ((few, compared.first), (run, compared.second)):
        alone = one.evaluate(texts=new, labels=of_new, bootstrap=20)
        assert scored["P@1"] == alone["P@1"] and scored.intervals == alone.intervals and scored.protocol == alone.protocol
    table = {"text": new, "labels": of_new}
    assert elmo.compare(few, run, table, bootstrap=20).difference == compared.difference
    alike = run.compare(run, texts=new, labels=of_new, bootstrap=20)
    assert set(alike.difference.values()) == {0} and alike.difference_intervals["P@1"] == [0, 0]
    assert "difference_intervals" not in few.compare(run, table, bootstrap=0)
    held_out = few.compare(run, bootstrap=0)  # the rows that both held out
    assert [held_out[which]["P@1"] for which in ("first", "second")] == [one.evaluate(bootstrap=0)["P@1"] for one in (few, run)]
    caplog.clear()
    few.compare(run, texts=texts, labels=labels, bootstrap=0)
    for one in (few, run):
        assert f"scored texts trained {one.path}, or are alike to its tokenizer; their scores say little" in caplog.text


def test_files_that_only_python_reads(tmp_path):
    file = write_parquet(tmp_path / "rows.parquet", table_of(300))
    first, second = (elmo.train(file, out=tmp_path / name, **COLUMNS, **options) for name, options in (("a", FEW), ("b", SMALL)))
    wanted = [run.evaluate(bootstrap=0)["P@5"] for run in (first, second)]
    again = elmo.Run(tmp_path / "a")
    for compared in (first.compare(second, bootstrap=0), again.compare(tmp_path / "b", bootstrap=0),
                     again.compare(tmp_path / "b", file, bootstrap=0)):
        assert [compared.first["P@5"], compared.second["P@5"]] == wanted
        assert compared.first.protocol.data == str(file) and 0 < compared.first.protocol.samples < 80
        assert compared.first.protocol.split_reason == "the run's own data: its other rows trained the run"


def test_each_run_reads_its_own_columns_of_a_table(tmp_path):
    pandas, pyarrow = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    colours, things = ["red", "green", "blue", "black"], ["apple", "stone", "river"]

    def table(first):
        return pandas.DataFrame([(f"number {first + i} {c}", f"the {t}, {i}", [c, t]) for i in range(20) for c in colours
                                 for t in things], columns=["title", "body", "tags"])

    train, new = table(0), table(1000)
    title, both, body = (elmo.train(train, text_column=column, label_column="tags", out=tmp_path / column, neighbours=0)
                         for column in ("title", "title+body", "body"))
    new.to_parquet(tmp_path / "new.parquet")
    forms = (new, pyarrow.Table.from_pandas(new), pyarrow.Table.from_pandas(new).to_reader(), tmp_path / "new.parquet")
    for data in forms:
        compared = title.compare(both, data, bootstrap=0)
        assert compared.first["P@1"] == title.evaluate(new, bootstrap=0)["P@1"]
        assert compared.second["P@3"] == both.evaluate(new, bootstrap=0)["P@3"] > compared.first["P@3"]
    assert body.compare(title, new, bootstrap=0).first["P@3"] == body.evaluate(new, bootstrap=0)["P@3"]
    # Rows that were held out by their text are others of each column.
    train.to_parquet(tmp_path / "train.parquet")
    runs = [elmo.train(tmp_path / "train.parquet", text_column=column, label_column="tags", out=tmp_path / f"file_{column}")
            for column in ("title", "body")]
    with pytest.raises(elmo.DataError, match="expected the same rows and labels for both runs"):
        elmo.compare(*runs, bootstrap=0)


def test_own_rows_are_read_from_the_columns_that_a_run_has_only(tmp_path):
    pandas = pytest.importorskip("pandas")
    colours = ["red", "green", "blue"]
    table = pandas.DataFrame([{"title": f"{colours[j]} thing {i}", "body": f"{colours[(j + 1) % 3]} matter {i}", "kind": colours[j]}
                              for i in range(100) for j in range(3)])
    train, test = table[:240], table[240:]
    table[:240].to_parquet(tmp_path / "train.parquet")
    test.to_parquet(tmp_path / "test.parquet")
    for name, data, tests in (("frame", train, test), ("file", tmp_path / "train.parquet", tmp_path / "test.parquet")):
        title, body = (elmo.train(data, text_column=column, label_column="kind", test=tests, out=tmp_path / f"{name} {column}")
                       for column in ("title", "body"))
        assert title.evaluate()["P@1"] == body.evaluate()["P@1"] == 100
        given = title.compare(body, test)
        assert given.first["P@1"] == given.second["P@1"] == 100
        if name == "frame":  # copies have the one column only
            for call in (lambda: title.compare(body), lambda: body.compare(title)):
                with pytest.raises(elmo.DataError, match="only what '(title|body)' holds is kept, and .* give the rows as data"):
                    call()
            with pytest.raises(elmo.ConfigError, match="text_column: of the rows from memory .* only what 'title' holds is kept"):
                title.evaluate(text_column="body")
        else:
            own = title.compare(body)
            assert own.first["P@1"] == own.second["P@1"] == 100 and own.first.protocol.samples == 60
            assert title.evaluate(text_column="body")["P@1"] < 50
            columns = dict(text_column="title", label_column="kind")
            assert title.evaluate(data, **columns)["P@1"] == 100 and title.evaluate(data, **columns).protocol.samples == 60


def test_a_column_that_a_table_has_of_one_run_only_is_read_for_both(tmp_path, caplog):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    table = pandas.DataFrame({"comment": [f"a {word} thing {i}" for i in range(60) for word in ("red", "blue")],
                              "kinds": ["red", "blue"] * 60})
    file = str(tmp_path / "rows.parquet")
    table.to_parquet(file)
    named = elmo.train(table, text_column="comment", label_column="kinds", out=tmp_path / "named")
    of_file = elmo.train(file, text_column="comment", label_column="kinds", out=tmp_path / "file")
    lists = elmo.train(texts=list(table.comment), labels=list(table.kinds), out=tmp_path / "lists")
    others = elmo.train(table.rename(columns={"comment": "sentence", "kinds": "themes"}), text_column="sentence",
                        label_column="themes", out=tmp_path / "others")
    table.to_csv(tmp_path / "rows.csv", index=False)
    wanted = named.compare(lists, tmp_path / "rows.csv", bootstrap=0)
    for first, second, lacking, read in ((named, lists, "text", lists), (lists, named, "text", lists), (named, others, "sentence", others)):
        for data, shown in ((table, "rows from memory"), (file, file)):
            caplog.clear()
            compared = first.compare(second, data, bootstrap=0)
            assert compared.first["P@1"] == compared.second["P@1"] == wanted.first["P@1"] == 100
            assert f"{shown}: found no text_column='{lacking}', so {read.path} reads 'comment', too" in caplog.text
    assert of_file.compare(lists, bootstrap=0).first["P@1"] == 100  # on its own file
    with pytest.raises(elmo.DataError, match="only what 'comment' holds is kept, and .* reads 'text'; give the rows as data"):
        named.compare(lists)


def test_a_run_that_is_not_there(tmp_path, run, texts, labels):
    table = {"comment": ["a"], "kinds": ["b"]}
    pandas, nothing = pytest.importorskip("pandas"), str(tmp_path / "nothing")
    data = pandas.DataFrame(table)
    for call in (lambda: elmo.evaluate(nothing, data), lambda: elmo.report(nothing, data, out=tmp_path / "x.html"),
                 lambda: elmo.compare(run, nothing, data), lambda: elmo.compare(nothing, run, data), lambda: run.compare(nothing),
                 lambda: elmo.index(nothing, data), lambda: elmo.train(data, init=nothing)):
        with pytest.raises(elmo.DataError, match=f"^{nothing}: expected the folder of a run, found nothing$"):
            call()


def test_labels_that_the_run_does_not_have(texts, labels):
    pandas = pytest.importorskip("pandas")
    texts = [f"a {word} thing {i}" for i in range(60) for word in ("red", "blue")]
    flags = pandas.DataFrame({"red": [1, 0] * 60, "blue": [0, 1] * 60})
    run = elmo.train(texts=texts, labels=flags)
    other = flags.add_prefix("is_")
    for given, message in ((other, "the data has 'is_(red|blue)', for example, and the run 'blue'$"),
                           ([["is_red"], ["is_blue"]] * 60, "the data has 'is_(red|blue)', for example, and the run 'blue'$"),
                           (["is_red", "is_blue"] * 60, "; in labels= a text is one label: give lists of labels$"),
                           (flags.values, "^label_names: expected the names of the columns of labels, found none")):
        for call in (lambda: run.evaluate(texts=texts, labels=given), lambda: run.compare(run, texts=texts, labels=given)):
            with pytest.raises(elmo.DataError, match=message):
                call()
    with pytest.raises(elmo.DataError, match="the data has 'is_(red|blue)', for example"):
        run.calibrate(validation=(texts, other))


def test_runs_on_different_rows_from_memory():
    (texts, labels), (others, of_others) = rows(200), rows(200, seed=5)
    first = elmo.train(texts=texts, labels=labels)
    second = elmo.train(texts=[f"another {text}" for text in others], labels=of_others)
    compared = elmo.compare(first, second, bootstrap=0)
    assert compared.first.protocol.samples == compared.second.protocol.samples == first.evaluate(bootstrap=0).protocol.samples


def test_what_cannot_be_compared(run, texts, labels):
    for call, message in ((lambda: run.compare(3, texts=texts, labels=labels), "run: expected a Run, or its folder, found 3"),
                          (lambda: run.compare(run, texts=texts, labels=labels, errors=3), "errors: is about one run, found two"),
                          (lambda: elmo.compare(run, run, texts=texts), "labels: expected an entry per text, found None")):
        with pytest.raises(elmo.Error, match=message):
            call()
