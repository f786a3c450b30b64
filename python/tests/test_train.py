"""Training from values: every form of data gives the run that the command line gives, bit for bit."""
import contextlib
import copy
import json
import os
import pickle
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import SMALL, elmo_program, rows

import elmo

WEIGHTS = ("head-00001-of-00001.safetensors", "model.safetensors", "tokenizer.json", "labels.txt", "state.json")
SHORT = SMALL | dict(epochs=2)


def files_of(run, checkpoint="last"):
    return {name: (Path(run) / checkpoint / name).read_bytes() for name in WEIGHTS}


@pytest.fixture(scope="module")
def expected(texts, labels):
    return files_of(elmo.train(texts=texts, labels=labels, **SHORT))


def flags(options):
    return [word for key, value in options.items() for word in ("--" + key.replace("_", "-"), str(value))]


def test_a_run_of_the_program_has_the_same_files(tmp_path, texts, labels, expected):
    data = tmp_path / "data"
    data.mkdir()
    with open(data / "train.jsonl", "w", encoding="utf-8") as file:
        for text, names in zip(texts, labels):
            file.write(json.dumps({"text": text, "labels": names}) + "\n")
    done = elmo_program("train", data, "--out", tmp_path / "run", "--format", "jsonl", *flags(SHORT))
    assert done.returncode == 0, done.stderr
    assert files_of(tmp_path / "run") == expected
    from_path = elmo.train(data, format="jsonl", **SHORT)
    assert files_of(from_path) == expected
    assert files_of(from_path, "best") == files_of(tmp_path / "run", "best")


def forms(texts, labels):
    names = sorted({name for row in labels for name in row})
    matrix = np.zeros((len(texts), len(names)), np.int8)
    for i, row in enumerate(labels):
        matrix[i, [names.index(name) for name in row]] = 1
    ordered = [[name for name in names if name in row] for row in labels]
    sparse = pytest.importorskip("scipy.sparse")
    pandas = pytest.importorskip("pandas")
    yield "sets", dict(texts=texts, labels=[set(row) for row in labels])
    yield "arrays", dict(texts=np.array(texts), labels=np.array(ordered))
    yield "generators", dict(texts=(text for text in texts), labels=(row for row in ordered))
    yield "series", dict(texts=pandas.Series(texts), labels=pandas.Series(ordered))
    yield "dense", dict(texts=np.array(texts, object), labels=matrix, label_names=names)
    yield "csr", dict(texts=texts, labels=sparse.csr_matrix(matrix), label_names=names)
    yield "csc", dict(texts=texts, labels=sparse.csc_array(matrix.astype(float)), label_names=names)
    yield "indicator frame", dict(texts=texts, labels=pandas.DataFrame(matrix, columns=names))


def test_every_form_of_values_is_the_same_data(texts, labels):
    ordered = [sorted(row) for row in labels]
    wanted = files_of(elmo.train(texts=texts, labels=ordered, **SHORT))
    for what, data in forms(texts, labels):
        assert files_of(elmo.train(**data, **SHORT)) == wanted, what


def write_stream(file, table):
    pyarrow = pytest.importorskip("pyarrow")
    import pyarrow.ipc
    with pyarrow.ipc.new_stream(str(file), table.schema) as out:
        out.write_table(table, max_chunksize=40)


def save_to_disk(folder, table):
    """As Hugging Face's library does it, in two files."""
    folder.mkdir(parents=True)
    names = ["data-00000-of-00002.arrow", "data-00001-of-00002.arrow"]
    write_stream(folder / names[0], table.slice(0, 90))
    write_stream(folder / names[1], table.slice(90))
    (folder / "dataset_info.json").write_text("{}")
    (folder / "state.json").write_text(json.dumps({"_data_files": [{"filename": name} for name in names]}))


def test_splits_that_were_saved(tmp_path, texts, labels, expected):
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.table({"text": texts, "labels": labels})
    save_to_disk(tmp_path / "both" / "train", table)
    save_to_disk(tmp_path / "both" / "test", table.slice(0, 20))
    (tmp_path / "both" / "dataset_dict.json").write_text(json.dumps({"splits": ["train", "test"]}))
    run = elmo.train(tmp_path / "both", **SHORT)
    assert run.evaluate()["protocol"]["samples"] == 20
    assert run.evaluate(tmp_path / "both")["protocol"]["samples"] == 20


def test_saved_folders_that_are_wrong(tmp_path):
    def refused(state, *words):
        (tmp_path / "state.json").write_text(state)
        (tmp_path / "dataset_info.json").write_text("{}")
        with pytest.raises(elmo.DataError) as error:
            elmo.train(tmp_path, **SHORT)
        assert all(word in str(error.value) for word in words), error.value

    pytest.importorskip("pyarrow")
    refused("{", "state.json")
    refused("[" * 100000, "state.json")
    refused("[]", "state.json", "expected an object")
    refused("{}", "_data_files")
    refused('{"_data_files": []}', "load_from_disk")
    refused('{"_data_files": [{"filename": "a.arrow"}], "_indices_data_files": [1]}', "load_from_disk")
    (tmp_path.parent / "outside.arrow").write_bytes(b"secret")
    refused('{"_data_files": [{"filename": "../outside.arrow"}]}', str(tmp_path / "outside.arrow"))
    (tmp_path / "a.arrow").write_bytes(b"ARROW1 and no more")
    refused('{"_data_files": [{"filename": "a.arrow"}]}', "a.arrow", "expected Arrow's file or stream format")


def test_splits_are_inside_of_their_folder(tmp_path):
    table = pytest.importorskip("pyarrow").table({"text": ["a b"], "labels": [["x"]]})
    save_to_disk(tmp_path / "elsewhere", table)
    (tmp_path / "both").mkdir()
    for splits in (["../elsewhere"], [str(tmp_path / "elsewhere")], [".."], [3], "train", None):
        (tmp_path / "both" / "dataset_dict.json").write_text(json.dumps({"splits": splits}))
        with pytest.raises(elmo.DataError, match="expected the names of folders in splits"):
            elmo.train(tmp_path / "both", **SHORT)


def test_every_table_is_the_same_data(tmp_path, texts, labels, expected):
    pandas, pyarrow = map(pytest.importorskip, ("pandas", "pyarrow"))
    import pyarrow.feather
    import pyarrow.parquet
    columns = {"headline": texts, "tags": labels}
    table = pyarrow.table(columns)
    large = pyarrow.schema([("headline", pyarrow.large_string()), ("tags", pyarrow.large_list(pyarrow.string()))])
    pyarrow.parquet.write_table(table, tmp_path / "data.parquet", row_group_size=64)
    pyarrow.feather.write_feather(table, tmp_path / "data.feather")
    write_stream(tmp_path / "data.arrow", table)
    save_to_disk(tmp_path / "saved", table)
    frame = pandas.DataFrame(columns)
    tables = {"dict": columns, "pandas": frame, "pyarrow": table, "large": table.cast(large),
              "slices": pyarrow.concat_tables([table.slice(0, 33), table.slice(33)]),
              "views": table.set_column(0, "headline", table["headline"].cast(pyarrow.string_view())), "reader": table.to_reader(max_chunksize=50),
              "parquet": tmp_path / "data.parquet", "arrow": tmp_path / "data.arrow", "feather": str(tmp_path / "data.feather"),
              "saved": tmp_path / "saved",
              "joined": frame.assign(tags=[",".join(row) for row in labels]),
              "dictionary": table.set_column(0, "headline", table["headline"].dictionary_encode())}
    with contextlib.suppress(ImportError):
        import polars
        tables["polars"] = polars.DataFrame(columns)
    for what, data in tables.items():
        run = elmo.train(data, text_column="headline", label_column="tags", **SHORT)
        assert files_of(run) == expected, what


def test_hugging_face_data_sets(texts, labels, expected):
    datasets = pytest.importorskip("datasets")
    data = datasets.Dataset.from_dict({"text": texts[::-1], "labels": labels[::-1]})
    reversed_again = data.select(range(len(texts) - 1, -1, -1))
    assert files_of(elmo.train(reversed_again, **SHORT)) == expected
    both = datasets.DatasetDict(train=reversed_again, test=data.select(range(20)))
    assert elmo.train(both, **SHORT).evaluate()["protocol"]["samples"] == 20


def test_class_labels_of_hugging_face_have_their_names(tmp_path):
    datasets = pytest.importorskip("datasets")
    parquet = pytest.importorskip("pyarrow.parquet")
    texts, labels = rows(60)
    names = sorted({name for row in labels for name in row})[::-1]
    numbers = [[names.index(name) for name in row] for row in labels]
    wanted = {one: files_of(elmo.train(texts=texts, labels=[row[:1] if one else row for row in labels], **SHORT))
              for one in (True, False)}
    for one in (True, False):
        kind = datasets.ClassLabel(names=names)
        data = datasets.Dataset.from_dict(
            {"text": texts, "labels": [row[0] for row in numbers] if one else numbers},
            features=datasets.Features(text=datasets.Value("string"), labels=kind if one else datasets.Sequence(kind)))
        saved, file = tmp_path / f"saved-{one}", tmp_path / f"rows-{one}.parquet"
        data.save_to_disk(saved)
        data.to_parquet(file)
        halves = data.select(list(range(30)) + list(range(30, 60)))
        forms = [data, halves, saved, file, parquet.read_table(file)]
        if not one:
            forms += [data.cast(datasets.Features(text=datasets.Value("string"), labels=datasets.Sequence(kind, length=2)))]
        for form in forms:
            assert files_of(elmo.train(form, **SHORT)) == wanted[one], (one, type(form))
    unknown = data.remove_columns("labels").add_column("labels", [[], None, [0]] * 20).cast(data.features)
    run = elmo.train(unknown, allow_null_labels=True, **SHORT)
    assert run.label_names == names[:1]
    with pytest.raises(elmo.DataError, match="expected numbers below 1, the number of its names, found"):
        table = data.with_format("arrow")[:]
        text = table.schema.metadata[b"huggingface"].replace(json.dumps(names).encode(), b'["one"]')
        elmo.train(table.replace_schema_metadata({"huggingface": text}), **SHORT)


def test_numbers_and_single_labels():
    texts, labels = rows(60)
    things = [row[1] for row in labels]
    one = elmo.train(texts=texts, labels=things, **SHORT)
    assert sorted(one.label_names) == sorted(set(things))
    numbers = elmo.train(texts=texts, labels=np.arange(60) % 3, **SHORT)
    assert sorted(numbers.label_names) == ["0", "1", "2"]


def test_several_columns_are_joined():
    texts, labels = rows(40)
    first, rest = [t.split(" ", 2)[0] for t in texts], [t.split(" ", 1)[1] for t in texts]
    data = {"a": first, "b": rest, "labels": labels}
    wanted = files_of(elmo.train(texts=texts, labels=labels, **SHORT))
    assert files_of(elmo.train(data, text_column="a+b", **SHORT)) == wanted
    pyarrow = pytest.importorskip("pyarrow")
    assert files_of(elmo.train(pyarrow.table(data), text_column="a+b", **SHORT)) == wanted


def test_result_log_and_callbacks(texts, labels):
    lines, validations = [], []
    run = elmo.train(texts=texts, labels=labels, validation=0.2, on_log=lines.append, on_validation=validations.append,
                     **SHORT)
    assert run.result.steps == run.result["steps"] > 0 and not run.result.interrupted
    assert lines == run.log
    assert [line for line in lines if line.event == "validation"] == validations
    assert len(validations) == 2 and 0 <= validations[0]["P@1"] <= 100


def test_a_callback_that_returns_true_stops(texts, labels):
    run = elmo.train(texts=texts, labels=labels, steps=5000, log_every=1, **SHORT,
                     on_log=lambda line: line["event"] == "step" and line["step"] >= 3)
    assert run.result.interrupted and run.result.steps == 4  # the step after that line, however fast steps are


def test_stopped_and_continued_equals_unbroken(tmp_path, texts, labels, expected):
    out = tmp_path / "run"
    stopped = elmo.train(texts=texts, labels=labels, out=out, log_every=1, **SHORT, on_log=lambda line: True)
    assert stopped.result.interrupted
    again = elmo.train(texts=texts, labels=labels, out=out, resume=True)
    assert not again.result.interrupted
    assert files_of(again) == expected


def test_fields_of_tables_are_read_as_in_files(texts, labels):
    rows = [f"{text} {i}" for i, text in enumerate(texts)]
    for separator, form in ((";", ";".join), (None, str), (None, lambda names: "[" + ", ".join(names) + "]")):
        table = {"text": rows, "labels": [form([*sorted(names), "all"]) for names in labels]}
        run = elmo.train(table, **({"label_separator": separator} if separator else {}))
        assert run.label_names == sorted({name for names in labels for name in names} | {"all"})


def test_joined_columns_are_not_doubted(texts, labels, caplog):
    table = {"title": texts, "body": texts, "labels": [",".join(names) for names in labels]}
    with caplog.at_level("WARNING", "elmo"):
        elmo.train(table, text_column="title+body")
    assert "text-column" not in caplog.text


def test_nulls_are_no_labels_where_that_is_allowed(texts, labels, caplog):
    some = [None if i % 4 == 0 else [*names, None] if i % 4 == 1 else names for i, names in enumerate(labels)]
    with pytest.raises(elmo.DataError, match="allow_null_labels=True"):
        elmo.train(texts=texts, labels=some)
    names = sorted({name for names in labels for name in names})
    with caplog.at_level("WARNING", "elmo"):
        assert elmo.train(texts=texts, labels=some, allow_null_labels=True, test_share=0).label_names == names
    assert "rows from memory: " in caplog.text and "rows with null" in caplog.text
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"text": texts, "labels": [None if i % 4 == 0 else ",".join(names)
                                                        for i, names in enumerate(labels)]})
    pyarrow = pytest.importorskip("pyarrow")
    for table in (frame, pyarrow.Table.from_pandas(frame)):
        with pytest.raises(elmo.DataError, match="allow_null_labels=True"):
            elmo.train(table)
        assert elmo.train(table, allow_null_labels=True, test_share=0).label_names == names


def test_words_for_null_are_labels_where_no_file_writes_them(texts, caplog):
    words = ["NA" if i % 4 == 0 else f"name {i % 3}" for i in range(len(texts))]
    for data in (dict(texts=texts, labels=words), dict(data={"text": texts, "labels": [[word] for word in words]})):
        caplog.clear()
        with caplog.at_level("WARNING", "elmo"):
            assert "NA" in elmo.train(**data, allow_null_labels=True, encoder="linear", test_share=0).label_names
        assert "'NA' is a label of 50 rows: where it means that there is none, leave it out" in caplog.text
    fields = elmo.train({"text": texts, "labels": words}, allow_null_labels=True, encoder="linear", test_share=0)
    assert "NA" not in fields.label_names


def test_test_and_validation_rows_from_memory(texts, labels):
    other = rows(30, seed=5)
    run = elmo.train(texts=texts, labels=labels, test=other, validation=rows(20, seed=6), **SHORT)
    assert run.log[0]["validation_rows"] == 20 and run.log[0]["train_rows"] == 200
    assert run.evaluate()["protocol"]["samples"] == 30


@pytest.mark.parametrize("numbered", [False, True])
def test_names_of_columns_are_those_of_all_matrices(texts, labels, numbered):
    pandas, sparse = pytest.importorskip("pandas"), pytest.importorskip("scipy.sparse")
    all_names = sorted({name for row in labels for name in row})
    shown = {name: 8 - i if numbered else name for i, name in enumerate(all_names)}  # in another order than their columns
    columns = list(shown.values())

    def matrix(of):
        return np.array([[int(name in row) for name in all_names] for row in of])

    def named(of):
        return [[shown[name] for name in row] for row in of]

    new = rows(60, seed=5)
    given = dict(texts=texts, **SHORT)
    by_name = elmo.train(labels=named(labels), test=(new[0], named(new[1])), validation=(new[0], named(new[1])), **given)
    score, fit = by_name.evaluate()["P@1"], by_name.calibrate(validation=(new[0], named(new[1])))
    frame = pandas.DataFrame(matrix(new[1]), columns=columns)
    for own, other, label_names in (
            (matrix(labels), matrix(new[1]), columns), (matrix(labels), matrix(new[1]), iter(columns)),
            (matrix(labels), sparse.csr_matrix(matrix(new[1])), columns), (matrix(labels), pandas.DataFrame(matrix(new[1])), columns),
            (matrix(labels), frame[columns[::-1]], columns),  # its names are these: matched by them
            (matrix(labels), frame.set_axis([f"old {name}" for name in columns], axis=1), columns),
            (matrix(labels), named(new[1]), columns),
            (pandas.DataFrame(matrix(labels), columns=columns), matrix(new[1]), None)):
        run = elmo.train(labels=own, label_names=label_names, test=(new[0], other), validation=(new[0], other), **given)
        assert run.result.best_score == by_name.result.best_score and run.evaluate()["P@1"] == score
    assert run.calibrate(validation=(new[0], matrix(new[1])), label_names=columns).a == fit.a
    with pytest.raises(elmo.DataError, match="label_names: expected 9, one per column"):
        elmo.train(labels=matrix(labels), label_names=columns[:3], test=(new[0], matrix(new[1])), **given)
    with pytest.raises(elmo.ConfigError, match="label_names: expected beside texts only"):
        run.calibrate(validation=(new[0], named(new[1])), label_names=columns)


def test_temporary_runs_go_and_saved_ones_stay(tmp_path, texts, labels):
    run = elmo.train(texts=texts, labels=labels, **SHORT)
    path = run.path
    kept = run.save(tmp_path / "kept")
    with pytest.raises(elmo.DataError, match="expected a folder that is not there yet"):
        run.save(tmp_path / "kept")
    (tmp_path / "kept" / "note.txt").write_text("of the run before")
    run.save(tmp_path / "kept", overwrite=True)
    assert sorted(os.listdir(tmp_path / "kept")) == sorted(os.listdir(path)) and os.listdir(tmp_path) == ["kept"]
    (tmp_path / "mine").mkdir()
    for folder, found in ((tmp_path / "mine", "expected the folder of a run"), (path, "that of the run itself")):
        with pytest.raises(elmo.DataError, match=found):
            run.save(folder, overwrite=True)
    answers = run.predict(texts[:3]).names
    del run
    assert not os.path.exists(path)
    assert elmo.Run(kept.path).predict(texts[:3]).names == answers
    with pytest.raises(elmo.DataError, match="was opened, not trained here"):
        kept.result
    with pytest.raises(elmo.DataError, match="expected the folder of a run"):
        elmo.Run(tmp_path / "nothing")


def test_recipes_and_reasons(tmp_path):
    recipe = tmp_path / "mine.toml"
    recipe.write_text("epochs = 3\nwidth = 48\n")
    reasons = {key: (value, why) for key, value, why in elmo.explain(recipe=recipe, width=32)}
    assert reasons["epochs"][0] == "3" and "mine" in reasons["epochs"][1]
    assert reasons["width"] == ("32", "given")
    assert elmo.recipes()


def test_numbers_of_an_unvalidated_run_and_of_a_parquet_file(tmp_path):
    pandas = pytest.importorskip("pandas")
    texts, labels = rows(100)
    for options in ({}, SMALL | dict(epochs=1)):
        assert elmo.train(texts=texts, labels=labels, validation=0, **options).result.best_score is None
    pandas.DataFrame({"text": texts, "labels": labels}).to_parquet(tmp_path / "rows.parquet")
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps({"text": t, "labels": l}) + "\n" for t, l in zip(texts, labels)))
    ends = [{key: value for key, value, _ in elmo.explain(data=tmp_path / f"rows.{end}", encoder="bag")} for end in ("parquet", "jsonl")]
    assert ends[0]["batch_size"] == ends[1]["batch_size"] and ends[0]["data"].endswith("rows.parquet")
    nulls = pandas.DataFrame({"text": ["a b", "c d"], "labels": [["x", None], ["y"]]})
    with pytest.raises(elmo.DataError, match="leave it out of the list, or allow_null_labels=True takes it as no label"):
        elmo.convert(nulls, to="jsonl", out=tmp_path / "o", test_share=0)


def test_tune(tmp_path):
    texts, labels = rows(80)
    found = elmo.tune(texts=texts, labels=labels, validation=0.3, out=tmp_path / "search", trials=2,
                      **SMALL | dict(epochs=1, head_lr=None))
    assert found.trials > 0 and Path(found.recipe).exists()
    # The model that was searched, in any form of data.
    reasons = {key: value for key, value, _ in elmo.explain(recipe=found.recipe)}
    assert reasons["encoder"] == "bag" and reasons["width"] == str(SMALL["width"]) and reasons["format"] == "auto"
    run = elmo.train(texts=texts, labels=labels, recipe=found.recipe, epochs=1)
    assert run.result.steps > 0
    # From a run, on its own rows and on others.
    first = elmo.train(texts=texts, labels=labels, validation=0.3, **SMALL | dict(epochs=1))
    for name, data in (("own", {}), ("other", {"texts": [t + " and more" for t in texts], "labels": labels})):
        assert elmo.tune(**data, init=first, out=tmp_path / name, trials=1, epochs=1).trials > 0


def test_plan(texts):
    plan = elmo.plan(labels=100_000, encoder="bag", width=64, batch_size=32)
    assert plan.total_bytes > 100_000 * 64 and "head/weights" in str(plan)
    with pytest.raises(elmo.ConfigError, match="number of labels"):
        elmo.plan(width=64)


def test_columns_without_names(texts, labels):
    """A frame that was read without a header has numbers for names."""
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({0: texts, 1: labels})
    run = elmo.train(frame, text_column=0, label_column=1, **SMALL)
    assert run.label_names == elmo.train(texts=texts, labels=labels, **SMALL).label_names
    assert run.evaluate(frame)["P@1"] > 90
    with pytest.raises(elmo.DataError, match="expected a column 'text', found '0', '1'"):
        elmo.train(frame, **SMALL)


def scores(result):
    """What depends on the rows and the model alone."""
    return {name: value for name, value in result.items() if name not in ("texts_per_second", "protocol")}


def as_tables(columns, tmp_path):
    """The columns as every kind of table."""
    pandas, pyarrow = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    frame, table = pandas.DataFrame(columns), pyarrow.table(columns)
    pytest.importorskip("pyarrow.parquet").write_table(table, tmp_path / "rows.parquet")
    pytest.importorskip("pyarrow.feather").write_feather(table, str(tmp_path / "rows.arrow"))
    return [columns, frame, table, str(tmp_path / "rows.parquet"), str(tmp_path / "rows.arrow")]


def test_columns_with_usual_names_are_found(texts, labels, tmp_path, caplog):
    caplog.set_level("INFO", "elmo")
    expected = elmo.train(texts=texts, labels=labels, **SMALL)
    columns = {"id": list(range(len(texts))), "Description": texts, "tags": [";".join(row) for row in labels]}
    for table in as_tables(columns, tmp_path):
        caplog.clear()
        run = elmo.train(table, **SMALL)
        assert run.evaluate()["P@1"] == expected.evaluate()["P@1"]
        assert "read with text_column='Description', label_column='tags', label_separator=';'" in caplog.text
        assert (run.log[0].config.text_column, run.log[0].config.label_column) == ("Description", "tags")
    # Of a run on them, rows in other columns.
    other = {"Text": texts, "topics": labels}
    assert scores(run.evaluate(columns, bootstrap=0)) == scores(run.evaluate(other, bootstrap=0))
    assert "rows from memory: read with text_column='Text', label_column='topics', as its first rows" in caplog.text
    assert elmo.train(columns, validation={"Description": texts[:9], "tags": labels[:9]}, **SMALL).result.best_score > 0
    longer = [text + " too" for text in texts]
    for nowhere in ({"blurb": texts, "tags": labels}, {"title": texts, "body text": longer, "tags": labels},
                    {"description": iter(texts), "tags": labels}):
        with pytest.raises(elmo.DataError, match="expected a column .text.*, found "):
            elmo.train(nowhere, **SMALL)
    with pytest.raises(elmo.DataError, match="expected a column 'Description', found 'blurb', 'tags'"):
        run.evaluate({"blurb": texts, "tags": labels})


def test_columns_of_0_and_1_are_found(texts, labels, tmp_path, caplog):
    caplog.set_level("INFO", "elmo")
    names = sorted({name for row in labels for name in row})
    expected = elmo.train(texts=texts, labels=labels, **SMALL)
    flags = {"id": list(range(len(texts))), "what": texts} | {name: [int(name in row) for row in labels] for name in names}
    for table in as_tables(flags, tmp_path):
        caplog.clear()
        run = elmo.train(table, **SMALL)
        assert run.label_names == names and run.evaluate()["P@1"] == expected.evaluate()["P@1"]
        assert "read with text_column='what', label_column='*', as its first rows show" in caplog.text
    same = scores(run.evaluate({"text": texts, "labels": labels}, bootstrap=0))
    assert same == scores(run.evaluate(flags, bootstrap=0)) == scores(expected.evaluate(flags, bootstrap=0))
    # One of several columns of 0 and 1 is called as labels are; of yes and no only files have labels.
    with pytest.raises(elmo.ConfigError, match=r"found 2 of 0 and 1 \(label, new\): label_column='\*' takes each"):
        elmo.train({"text": texts, "label": [0, 1] * (len(texts) // 2), "new": [1, 0] * (len(texts) // 2)}, **SMALL)
    with pytest.raises(elmo.DataError, match="expected a column 'text', found 'what', 'red', 'blue'"):
        elmo.train({"what": texts, "red": ["yes", "no"] * (len(texts) // 2), "blue": ["no", "yes"] * (len(texts) // 2)}, **SMALL)


def test_joined_columns_of_any_kind(texts, labels):
    pyarrow = pytest.importorskip("pyarrow")
    plain = elmo.train({"a": texts, "b": texts, "labels": labels}, text_column="a+b", **SMALL)
    for second in (pyarrow.array(texts), np.array(texts)[:, None], iter(texts)):
        run = elmo.train({"a": texts, "b": second, "labels": labels}, text_column="a+b", **SMALL)
        assert (run.predict(texts[:9]).scores == plain.predict(texts[:9]).scores).all()


def test_large_numbers_of_arrow():
    pyarrow = pytest.importorskip("pyarrow")
    numbers = [2**64 - 1, 2**63, 5] * 5
    texts = ["the red one", "a green two", "some blue three"] * 5
    for labels in (pyarrow.array(numbers, pyarrow.uint64()), pyarrow.array([[n] for n in numbers], pyarrow.list_(pyarrow.uint64()))):
        run = elmo.train(pyarrow.table({"text": texts, "labels": labels}), test_share=0, **SMALL)
        assert sorted(run.label_names) == sorted(map(str, set(numbers)))


def test_a_run_stays_where_it_is(texts, labels, tmp_path, monkeypatch):
    """Of a folder that was named from the working folder, too, after a change of that."""
    monkeypatch.chdir(tmp_path)
    run = elmo.train(texts=texts, labels=labels, out="here", **SMALL)
    opened = elmo.Run("here")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert run.predict(["the red apple"]).names == opened.predict(["the red apple"]).names
    assert run.evaluate().protocol.samples > 0


def test_stopped_by_a_bool_of_numpy(texts, labels):
    run = elmo.train(texts=texts, labels=labels, log_every=1, on_log=lambda line: np.bool_(line.step >= 5), **SMALL)
    assert run.result.interrupted and run.result.steps == 6


def test_protocol_of_rows_from_memory(texts, labels):
    run = elmo.train(texts=texts, labels=labels, **SMALL)
    assert "elmo-rows" not in str(run.evaluate().protocol)


def test_calibrated_on_the_rows_of_a_run_with_test_rows(texts, labels, tmp_path, caplog):
    """Of a run that had test rows of its own, none are held out of the rows that are given again."""
    run = elmo.train(texts=texts, labels=labels, test=(texts[:9], labels[:9]), validation=0.3, **SMALL)
    first = run.calibrate()
    run.save(tmp_path / "kept")
    del run
    again = elmo.Run(tmp_path / "kept").calibrate(texts=texts, labels=labels)
    assert again == first and "trained this run" not in caplog.text


def test_a_run_with_a_share_of_test_rows_continues(texts, labels, tmp_path):
    """The recipe of a run of files, or of an earlier version, has one though the rows have test rows of their own."""
    (tmp_path / "data").mkdir()
    for name, count in (("train", len(texts)), ("test", 9)):
        lines = [json.dumps({"text": text, "labels": row}) for text, row in zip(texts[:count], labels)]
        (tmp_path / "data" / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
    stop = dict(log_every=1, on_log=lambda line: line.step >= 5)
    assert elmo.train(tmp_path / "data", format="jsonl", out=tmp_path / "run", **stop, **SMALL).result.interrupted
    rows_again = dict(texts=texts, labels=labels, test=(texts[:9], labels[:9]))
    assert not elmo.train(**rows_again, out=tmp_path / "run", resume=True, log_every=1, **SMALL).result.interrupted


def test_inspect_of_a_table(texts, tmp_path):
    """Its errors name options that it takes."""
    (tmp_path / "rows.csv").write_text("words,tag\n" + "".join(f"{text},one\n" for text in texts))
    with pytest.raises(elmo.DataError, match="text_column and label_column"):
        elmo.inspect(tmp_path / "rows.csv")
    found = elmo.inspect(tmp_path / "rows.csv", text_column="words", label_column="tag", test_share=0)
    assert found.labels == 1 and found == json.loads(elmo_program(
        "inspect", tmp_path / "rows.csv", "--text-column", "words", "--label-column", "tag", "--test-share", 0, "--json").stdout)
    with pytest.raises(elmo.ConfigError, match="option 'epochs' does not belong to inspect"):
        elmo.inspect(tmp_path / "rows.csv", epochs=3)


def test_columns_of_0_and_1_are_labels(tmp_path):
    pandas, pyarrow = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    texts = [f"number {i} is {'red' if i % 2 else 'blue'} and {'large' if i % 3 else 'small'}" for i in range(60)]
    columns = {"id": list(range(60)), "words": texts, "is_red": [i % 2 for i in range(60)],
               "is_large": [i % 3 != 0 for i in range(60)], "year": [1990 + i for i in range(60)]}
    frame = pandas.DataFrame(columns)
    path = tmp_path / "rows.csv"
    frame.to_csv(path, index=False)
    arrow = pyarrow.Table.from_pandas(frame)
    parquet.write_table(arrow, tmp_path / "rows.parquet")
    few = {"text_column": "words", "encoder": "linear", "progress": False}
    expected = elmo.train(path, label_column="*", **few)
    assert expected.label_names == ["is_large", "is_red"]
    forms = [frame, columns, arrow, arrow.to_reader(), str(tmp_path / "rows.parquet"),
             frame.assign(is_red=frame.is_red.astype("Int64")),
             frame.assign(nobody_knows=None, is_it_red=["yes", "no"] * 30).rename(columns={"is_it_red": "red"}),  # passed over by *
             {**columns, "is_red": ["1" if i % 2 else "" for i in range(60)]}]
    for form in forms:
        for pattern in ("*", "is_*"):
            run = elmo.train(form if not hasattr(form, "read_next_batch") else arrow.to_reader(), label_column=pattern, **few)
            assert run.label_names == expected.label_names
            assert run.evaluate()["P@1"] == expected.evaluate()["P@1"]
    # A run remembers it, of rows from memory too.
    assert expected.evaluate(frame)["P@1"] == expected.evaluate(path, split="all")["P@1"]
    assert run.evaluate(path, split="all").protocol.samples == 60
    with pytest.raises(elmo.DataError, match=r"column 'year'\[0\]: expected 0 or 1, found 1990 \(int\)"):
        elmo.train(columns, label_column="y*", **few)
    with pytest.raises(elmo.DataError, match=r"label_column: expected columns of 0 and 1 for 'x\*', found none; "):
        elmo.train(frame, label_column="x*", **few)
    with pytest.raises(elmo.DataError, match="expected a column 'word' .did you mean 'words'"):
        elmo.train(frame, label_column="*", text_column="word")


def test_nulls_in_columns_of_0_and_1(tmp_path, caplog):
    """They are no 0: a gap may mean that nobody knows."""
    pandas, pyarrow, sparse = (pytest.importorskip(name) for name in ("pandas", "pyarrow", "scipy.sparse"))
    texts = [f"number {i} is {'red' if i % 2 else 'blue'}" for i in range(60)]
    red, blue = [None if i >= 50 else i % 2 for i in range(60)], [(i + 1) % 2 for i in range(60)]
    frame = pandas.DataFrame({"text": texts, "is_red": pandas.Series(red, dtype="float64"), "is_blue": blue})
    table = pyarrow.table({"text": texts, "is_red": red, "is_blue": blue})
    pytest.importorskip("pyarrow.parquet").write_table(table, tmp_path / "rows.parquet")
    few = {"encoder": "linear", "progress": False, "test_share": 0}
    filled = elmo.train(frame.fillna(0), label_column="is_*", **few)
    matrix = frame[["is_red", "is_blue"]]
    tables = [frame, frame.convert_dtypes(), table, {"text": texts, "is_red": red, "is_blue": blue}, str(tmp_path / "rows.parquet")]
    forms = [(dict(data=form, label_column=pattern), r"column 'is_red'\[50\]: expected 0 or 1, found (nan|None|<NA>) ")
             for form in tables for pattern in ("*", "is_*")]
    forms += [(dict(texts=texts, labels=form), "labels: expected a matrix of 0 and 1, found nan in row 50, column '(is_red|0)'; ")
              for form in (matrix, matrix.convert_dtypes(), matrix.to_numpy(), sparse.csr_matrix(matrix.to_numpy()))]
    for data, message in forms:
        with pytest.raises(elmo.DataError, match=message + r".*fill such gaps with 0, or take them as no label \(allow_null_labels=True\)$"):
            elmo.train(**data, **few)
        caplog.clear()
        with caplog.at_level("WARNING", "elmo"):
            run = elmo.train(**data, allow_null_labels=True, **few)
        assert "10 rows with null" in caplog.text and "such a null is no label" in caplog.text
        assert run.predict(texts).scores.tolist() == filled.predict(texts).scores.tolist()


def test_text_columns_as_a_list_and_with_blanks(texts, labels):
    pandas, pyarrow = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    frame = pandas.DataFrame({"a": texts, "b": texts, "labels": labels})
    options = {"encoder": "linear", "progress": False, "test_share": 0.5}
    expected = elmo.train(frame, text_column="a+b", **options).evaluate()["nDCG@5"]
    for table in (frame, pyarrow.Table.from_pandas(frame)):
        for columns in ("a + b", ["a", "b"], ("a", "b")):
            run = elmo.train(table, text_column=columns, **options)
            assert run.evaluate()["nDCG@5"] == expected
            assert run.evaluate(table)["P@1"] > 0


def test_a_pickle_of_a_run_is_its_folder(texts, labels, tmp_path):
    run = elmo.train(texts=texts, labels=labels, encoder="linear", progress=False)
    run.predict(texts[:1])
    answers = run.predict(texts[:3], top=2)
    for copied in (pickle.loads(pickle.dumps(run)), copy.copy(run), copy.deepcopy(run)):
        assert copied.path == run.path and copied.result == run.result
        assert copied.predict(texts[:3], top=2).names == answers.names
        assert copied.evaluate()["nDCG@5"] == run.evaluate()["nDCG@5"]
    saved = pickle.dumps(run.save(tmp_path / "kept"))
    assert pickle.loads(saved).predict(texts[:3], top=2).names == answers.names
    shutil.rmtree(tmp_path / "kept")
    with pytest.raises(elmo.DataError, match="kept: expected the folder of a run, found nothing; a pickle holds only its path"):
        pickle.loads(saved)


def test_more_epochs_need_no_data(texts, labels, tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("text,labels\n" + "".join(f"{text},{';'.join(names)}\n" for text, names in zip(texts, labels)))
    for first in (elmo.train(path, **SHORT), elmo.train(texts=texts, labels=labels, **SHORT)):
        more = elmo.train(init=first, epochs=1, progress=False)
        assert more.log[0].labels == first.log[0].labels and more.log[0].train_rows == first.log[0].train_rows
        assert more.evaluate().protocol.samples == first.evaluate().protocol.samples
        assert elmo.train(init=first, epochs=1, validation=0.2, progress=False).log[0].validation_rows > 20
    for given in (dict(test=(texts, labels)), dict(labels=labels)):
        with pytest.raises(elmo.ConfigError, match="expected"):
            elmo.train(init=first, **given)


def test_inspect_of_rows_in_memory(texts, labels, tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"words": texts, "tags": labels})
    path = tmp_path / "rows.parquet"
    frame.to_parquet(path)
    for data in (frame, path):
        found = elmo.inspect(data, text_column="words", label_column="tags", test_share=0)
        assert found.train_rows == len(texts) and found.labels == len({name for row in labels for name in row})
    with pytest.raises(elmo.DataError, match="data: expected a path, a table or a dict of columns, found 5"):
        elmo.inspect(5)


def test_a_category_is_one_label(tmp_path):
    """Its name may hold any sign, as a label of labels= may."""
    pandas, pyarrow = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    names = ["Food, drink", "Home", "Travel, leisure"]
    texts, values = [f"{names[i % 3]} number {i}" for i in range(60)], [names[i % 3] for i in range(60)]
    few = {"encoder": "linear", "progress": False}
    category = pandas.Categorical(values)
    frame = pandas.DataFrame({"text": texts, "labels": category})
    encoded = pyarrow.array(values).dictionary_encode()
    info = {"info": {"features": {"labels": {"names": names, "_type": "ClassLabel"}}}}
    numbers = pyarrow.table({"text": texts, "labels": [i % 3 for i in range(60)]}).replace_schema_metadata(
        {"huggingface": json.dumps(info)})
    parquet.write_table(numbers, tmp_path / "numbers.parquet")
    tables = [frame, {"text": texts, "labels": category}, {"text": texts, "labels": encoded},
              pyarrow.table({"text": texts, "labels": encoded}), numbers, str(tmp_path / "numbers.parquet")]
    for table in tables:
        assert elmo.train(table, **few).label_names == names
        assert elmo.train(table, label_separator=",", **few).label_names == ["Food", "Home", "Travel", "drink", "leisure"]
    years = pandas.Categorical([(None, 1999.0, 2005.0)[i % 3] for i in range(60)])  # a gap made floats of them
    of_years = elmo.train(frame.assign(labels=years), allow_null_labels=True, **few)
    assert of_years.label_names == ["1999", "2005"]
    assert elmo.train(frame.assign(labels=values), **few).label_names == ["Food", "Home", "Travel", "drink", "leisure"]


def test_the_command_that_converts_classes_keeps_their_names(tmp_path, monkeypatch):
    """What the program advises, word by word, with the columns that it knows; -1 is no label."""
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    monkeypatch.chdir(tmp_path)
    names = ["fruit", "building"]
    texts, numbers = [f"{('an apple', 'a house', 'a stone')[i % 3]}, number {i}" for i in range(180)], [(0, 1, -1)[i % 3] for i in range(180)]
    for text_column, label_column in (("text", "labels"), ("the name", "kind")):
        features = {label_column: {"names": names, "_type": "ClassLabel"}}
        table = pyarrow.table({text_column: texts, label_column: numbers}).replace_schema_metadata(
            {"huggingface": json.dumps({"info": {"features": features}})})
        parquet.write_table(table, tmp_path / "rows.parquet")
        shutil.rmtree(tmp_path / "saved", ignore_errors=True)
        save_to_disk(tmp_path / "saved", table)
        (tmp_path / "saved/dataset_info.json").write_text(json.dumps({"features": features}))
        columns = dict(text_column=text_column, label_column=label_column)
        for data in ("rows.parquet", "saved"):
            run = elmo.train(data, allow_null_labels=True, encoder="linear", progress=False, out=f"run of {data}", overwrite=True, **columns)
            expected = run.evaluate()
            for refused in (elmo_program("eval", run.path, "--data", data), elmo_program("eval", run.path),
                            elmo_program("train", data, "--out", "run", "--allow-null-labels", *flags(columns))):
                code, name = re.search('python3 -c "([^"]*)" and name (?:the folder )?([a-z./]*)', refused.stderr).groups()
                subprocess.run([sys.executable, "-c", code.replace(")", ", overwrite=True)")], check=True)
                scored = elmo_program("eval", run.path, name, "--json")
                assert scored.returncode == 0 and json.loads(scored.stdout)["P@1"] == expected["P@1"], scored.stderr
                assert json.loads(scored.stdout)["protocol"]["samples"] == expected.protocol.samples
            assert ("there the columns are called text and labels" in refused.stderr) == (text_column != "text")
            assert elmo.train("data", encoder="linear", progress=False).label_names == sorted(names)


def test_a_category_of_polars_is_one_label():
    polars = pytest.importorskip("polars")
    names = ["Food, drink", "Home", "Travel, leisure"]
    texts, values = [f"{names[i % 3]} number {i}" for i in range(60)], [names[i % 3] for i in range(60)]
    for kind in (polars.Enum(names), polars.Categorical):
        column = polars.Series("labels", values, dtype=kind)
        for table in (polars.DataFrame({"text": texts, "labels": column}), {"text": texts, "labels": column}):
            assert elmo.train(table, encoder="linear", progress=False).label_names == names


def test_a_finished_run_that_is_resumed_has_its_rows(texts, labels, tmp_path):
    """A cell that runs twice. The rows of the first time are gone."""
    for number, options in enumerate((dict(encoder="linear", progress=False), SHORT)):
        for test in (None, (texts[:40], labels[:40])):
            given = dict(texts=texts, labels=labels, test=test, out=tmp_path / f"{number}{test is None}")
            first = elmo.train(**given, **options)
            expected = [first.evaluate(), first.evaluate(split="validation"), first.calibrate()]
            del first
            run = elmo.train(**given, resume=True, **options)
            found = [run.evaluate(), run.evaluate(split="validation"), run.calibrate()]
            assert found[0]["P@1"] == expected[0]["P@1"] and found[1]["P@1"] == expected[1]["P@1"]
            assert found[0].protocol.samples == expected[0].protocol.samples
            assert found[0].protocol.data == "rows from memory"
            assert found[2].f1_threshold == expected[2].f1_threshold
            assert run.report(out=tmp_path / "page.html", overwrite=True)["P@1"] == expected[0]["P@1"]
    more = elmo.train(init=run, epochs=1, progress=False)
    assert more.log[0].train_rows == run.log[0].train_rows


def test_a_run_of_rows_from_memory_goes_on_with_files(texts, labels, tmp_path):
    """Its rows were copied to JSON lines, which others need not be."""
    lines = [f'{text},"{",".join(row)}"' for text, row in zip(texts, labels)]
    (tmp_path / "rows.csv").write_text("\n".join(["text,labels", *lines]) + "\n")
    stop = dict(log_every=1, on_log=lambda line: line.step >= 5)
    run = elmo.train(texts=texts, labels=labels, out=tmp_path / "run", **stop, **SMALL)
    assert run.result.interrupted
    assert not elmo.train(tmp_path / "rows.csv", out=tmp_path / "run", resume=True, **SMALL).result.interrupted
    more = elmo.train(tmp_path / "rows.csv", init=tmp_path / "run", epochs=1, progress=False)
    assert more.log[0].train_rows == run.log[0].train_rows
    for of in (run, elmo.Run(tmp_path / "run")):
        assert of.calibrate(validation=tmp_path / "rows.csv").f1_threshold > 0


def test_nulls_beside_labels_are_not_said_to_be_all(texts, caplog):
    """A row that keeps a label is none without labels."""
    with caplog.at_level("WARNING", logger="elmo"):
        run = elmo.train(texts=texts, labels=[["a", None], ["b"]] * (len(texts) // 2), allow_null_labels=True, **SHORT)
    assert run.label_names == ["a", "b"] and run.inspect().labels == 2
    assert "without labels" not in caplog.text and "null" in caplog.text


def test_blanks_around_labels(texts):
    """The library takes them away, so a name is found with and without them."""
    things = [text.split()[2] for text in texts]
    run = elmo.train(texts=texts, labels=[{thing + " ", "\t" + thing} for thing in things], encoder="linear")
    assert run.label_names == sorted(set(things))
    answers = run.predict(["a stone"], top=1)
    assert answers.to_csr(columns=["bird ", "stone "]).nnz == 1
    assert run.predict_among(["a stone"], ["bird ", "house"], top=1).names[0][0] in ("bird", "house")
    assert run.explain("a stone", labels=[" stone"]).labels[0].name == "stone"
    assert elmo.Predictor(run, without=["stone "], top=1).predict(["a stone"]).names != [["stone"]]
    for labels in ([[" "]] * len(texts), ["\t\n"] * len(texts)):
        with pytest.raises(elmo.DataError, match=r"labels\[0\].*: expected a label's name, found '( |.t.n)'"):
            elmo.train(texts=texts, labels=labels)
    with pytest.raises(elmo.DataError, match="label_names: expected every name once"):
        elmo.train(texts=["a", "b"], labels=np.eye(2), label_names=["x", "x "])


def test_rows_without_columns_are_not_asked_for_one(caplog):
    """Of texts and labels in memory there is no label_column to doubt; of a table there is."""
    texts = [f"text number {i}" for i in range(60)]
    table = {"text": texts, "tags": [["a"] if i % 3 == 0 else [] for i in range(60)]}
    with caplog.at_level("WARNING", "elmo"):
        elmo.train(texts=texts, labels=table["tags"], encoder="linear", test_share=0)
        elmo.train(texts=texts, labels=[f"name {i}" for i in range(60)], encoder="linear", test_share=0)
    assert "rows from memory: 40 of 60 rows have no labels" in caplog.messages
    assert "rows from memory: 60 labels for 60 rows, 60 of them labels of one row" in caplog.messages
    with caplog.at_level("WARNING", "elmo"):
        elmo.train(table, label_column="tags", encoder="linear", test_share=0)
    assert "rows from memory: 40 of 60 rows have no labels: is label_column the column of the labels?" in caplog.messages


def test_label_names_of_a_matrix_in_a_pair(texts, labels):
    names = sorted({name for row in labels for name in row})
    matrix = np.array([[name in row for name in names] for row in labels[:40]]).astype(int)
    for data in (dict(texts=texts, labels=labels), dict(data={"text": texts, "labels": labels})):
        run = elmo.train(**data, test=(texts[:40], matrix), label_names=names, **SMALL)
        assert run.label_names == names and run.evaluate()["P@1"] > 90
