"""Runs that another process opens: where they find the rows that trained them, and what they say where these are gone."""
import json
import re
import shutil
import subprocess
import sys

import pytest

import elmo
from conftest import SMALL, elmo_program, rows
from test_train import save_to_disk

CALLS = """
import json, sys, elmo
run = elmo.Run(sys.argv[1])
scores, calibrated = run.evaluate(bootstrap=0), run.calibrate()
page = run.report(out=sys.argv[2], overwrite=True, bootstrap=0)
index = run.index()
more = elmo.train(init=run, epochs=1)
print(json.dumps([scores["P@5"], scores.protocol.samples, scores.protocol.data, page["P@5"], calibrated.a, calibrated.rows,
                  index.recall_at_5, more.log[0].train_rows, run.evaluate(split="validation", bootstrap=0).protocol.samples]))
"""


def in_another_process(run, page):
    found = subprocess.run([sys.executable, "-c", CALLS, run, page], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    return json.loads(found.stdout.splitlines()[-1])


def table_of(count=400, seed=1):
    texts, labels = rows(count, seed)
    return pytest.importorskip("pyarrow").table({"title": texts, "tags": labels})


COLUMNS = dict(text_column="title", label_column="tags")


def write_parquet(file, table):
    pytest.importorskip("pyarrow.parquet").write_table(table, file)
    return file


def test_files_that_only_python_reads_are_found_again(tmp_path):
    write_parquet(tmp_path / "rows.parquet", table_of())
    pytest.importorskip("pyarrow.feather").write_feather(table_of(), tmp_path / "rows.feather")
    write_parquet(tmp_path / "validation.parquet", table_of(60, seed=5))
    for file, validation in (("rows.parquet", 0.2), ("rows.feather", 0.2), ("rows.parquet", tmp_path / "validation.parquet")):
        data, out = tmp_path / file, tmp_path / f"run {file} {validation == 0.2}"
        run = elmo.train(data, validation=validation, out=out, **COLUMNS, **SMALL)
        scores, calibrated, shown = run.evaluate(bootstrap=0), run.calibrate(), run.report(out=tmp_path / "a.html", bootstrap=0,
                                                                                         overwrite=True)
        index, more = run.index(), elmo.train(init=run, epochs=1)
        validated = run.evaluate(split="validation", bootstrap=0).protocol.samples
        wanted = [scores["P@5"], scores.protocol.samples, str(data), shown["P@5"], calibrated.a, calibrated.rows,
                  index.recall_at_5, more.log[0].train_rows, validated]
        assert scores.protocol.data == str(data) and 0 < scores.protocol.samples < 100
        assert in_another_process(out, tmp_path / "b.html") == wanted
        assert str(data) in (tmp_path / "b.html").read_text()
        for file_of_run in ("log.jsonl", "best/recipe.toml"):
            assert "elmo-rows" not in (out / file_of_run).read_text()


def test_labels_of_categories_and_nulls_are_read_again_as_they_were(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    texts, labels = rows(200)
    for number, (values, options) in enumerate((
            ([f"{a}, {b}" for a, b in labels], {}),
            ([f"{a};{b}" for a, b in labels], dict(label_separator=";")),
            ([None if i % 5 == 0 else thing for i, (_, thing) in enumerate(labels)], dict(allow_null_labels=True)))):
        table = pyarrow.table({"text": texts, "labels": pyarrow.array(values).dictionary_encode()})
        file = write_parquet(tmp_path / f"{number}.parquet", table)
        run = elmo.train(file, out=tmp_path / f"run{number}", **options, **SMALL)
        wanted = run.evaluate(bootstrap=0)["P@5"]
        del run  # and with it the copy of its rows
        assert elmo.Run(tmp_path / f"run{number}").evaluate(bootstrap=0)["P@5"] == wanted


def test_saved_splits_are_found_again(tmp_path):
    pytest.importorskip("pyarrow")
    for name, count in (("train", 200), ("test", 40)):
        save_to_disk(tmp_path / "saved" / name, table_of(count, seed=count))
    (tmp_path / "saved" / "dataset_dict.json").write_text(json.dumps({"splits": ["train", "test"]}))
    elmo.train(tmp_path / "saved", out=tmp_path / "run", **COLUMNS, **SMALL)
    scores = elmo.Run(tmp_path / "run").evaluate(bootstrap=0)
    assert scores.protocol.samples == 40 and scores.protocol.data == str(tmp_path / "saved")
    printed = elmo_program("eval", tmp_path / "run")
    assert f"{tmp_path / 'saved'}: expected a data set that elmo reads" in printed.stderr and "elmo.convert" in printed.stderr


def test_the_runs_own_folder_of_splits_is_scored_as_without_data(tmp_path):
    """Labels that training never saw, too, and all that is kept in the run."""
    texts = [f"the {colour} {thing} {i}" for i in range(10) for colour in ("red", "green") for thing in ("apple", "stone")]
    pyarrow = pytest.importorskip("pyarrow")
    for name, rows_of in (("train", (texts, [text.split()[1:3] for text in texts])),
                          ("test", (["a red apple", "a green moon"], [["red", "apple"], ["green", "moon"]]))):
        save_to_disk(tmp_path / "saved" / name, pyarrow.table(dict(zip(("text", "labels"), rows_of))))
    (tmp_path / "saved" / "dataset_dict.json").write_text(json.dumps({"splits": ["train", "test"]}))
    run = elmo.train(tmp_path / "saved", out=tmp_path / "run")
    scores = [run.evaluate(*data) for data in ((), (tmp_path / "saved",))]
    assert scores[0]["R@3"] == scores[1]["R@3"] == 100 and scores[0].protocol == scores[1].protocol
    assert len((tmp_path / "run" / "scores.jsonl").read_text().splitlines()) == 2
    assert run.compare(run, tmp_path / "saved").second["R@3"] == 100
    assert run.evaluate(tmp_path / "saved" / "test")["R@3"] == 75  # by itself it has true labels that the run has not


def test_a_stopped_training_on_a_file_continues(tmp_path):
    file = write_parquet(tmp_path / "rows.parquet", table_of(200))
    whole = elmo.train(file, out=tmp_path / "whole", **COLUMNS, **SMALL)
    stopped = elmo.train(file, out=tmp_path / "run", log_every=1, on_log=lambda line: line.step >= 3, **COLUMNS, **SMALL)
    assert stopped.result.interrupted
    del stopped
    again = elmo.train(out=tmp_path / "run", resume=True)
    weights = [(run / "best/model.safetensors").read_bytes() for run in map(type(tmp_path), (again.path, whole.path))]
    assert weights[0] == weights[1]
    assert again.evaluate(bootstrap=0)["P@5"] == whole.evaluate(bootstrap=0)["P@5"]


def test_the_program_names_the_file_and_what_to_do(tmp_path):
    file = write_parquet(tmp_path / "rows.parquet", table_of(200))
    elmo.train(file, out=tmp_path / "run", **COLUMNS, **SMALL)
    wanted = elmo.Run(tmp_path / "run").evaluate(bootstrap=0)
    for verb in (["eval"], ["calibrate"], ["index"], ["report", "--out", tmp_path / "page.html"]):
        printed = elmo_program(verb[0], tmp_path / "run", *verb[1:])
        assert printed.returncode != 0 and f"{file}: expected text" in printed.stderr, printed.stderr
        assert "found Parquet; convert it: python3 -c" in printed.stderr and "name what that writes with --data" in printed.stderr
        assert "the run was trained on it in Python" in printed.stderr
    pytest.importorskip("pandas").read_parquet(file).to_json(tmp_path / "rows.jsonl", orient="records", lines=True)
    scores = json.loads(elmo_program("eval", tmp_path / "run", tmp_path / "rows.jsonl", "--bootstrap", 0, "--json").stdout)
    assert scores["P@5"] == wanted["P@5"] and scores["protocol"]["samples"] == wanted.protocol.samples


def test_validation_that_only_python_reads_beside_a_file(tmp_path):
    """The program needs it only where validation rows are asked for."""
    texts, labels = rows(200)
    lines = "".join(json.dumps({"title": text, "tags": row}) + "\n" for text, row in zip(texts, labels))
    (tmp_path / "rows.jsonl").write_text(lines)
    file = write_parquet(tmp_path / "validation.parquet", table_of(50, seed=5))
    run = elmo.train(tmp_path / "rows.jsonl", validation=file, out=tmp_path / "run", **COLUMNS, **SMALL)
    assert elmo.Run(run.path).calibrate().rows == 50
    assert elmo.Run(run.path).evaluate(bootstrap=0).protocol.data == str(tmp_path / "rows.jsonl")
    assert elmo_program("eval", run.path, "--bootstrap", 0).returncode == 0
    printed = elmo_program("calibrate", run.path)
    assert f"{file}: expected text" in printed.stderr and "Parquet" in printed.stderr and "with --validation" in printed.stderr


def test_a_file_that_only_the_run_names_is_not_read(tmp_path):
    """As the library reads none: a run may come from anybody."""
    file = write_parquet(tmp_path / "rows.parquet", table_of(200))
    elmo.train(file, out=tmp_path / "run", cache=tmp_path / "cache", **COLUMNS, **SMALL)
    (tmp_path / "cache").rename(tmp_path / "elsewhere")
    with pytest.raises(elmo.ConfigError, match="which only the run names; a run may come from anybody.*name it with data="):
        elmo.Run(tmp_path / "run").evaluate()
    assert elmo.Run(tmp_path / "run").evaluate(file).protocol.samples < 60


def test_a_folder_that_another_run_was_trained_in(tmp_path):
    """An older object of it takes the rows of the run that is there now."""
    file, other = (write_parquet(tmp_path / name, table_of(count, seed=3)) for name, count in (("a.parquet", 200), ("b.parquet", 600)))
    old = elmo.train(file, out=tmp_path / "run", **COLUMNS, **SMALL)
    new = elmo.train(other, out=tmp_path / "run", overwrite=True, **COLUMNS, **SMALL)
    assert old.evaluate(bootstrap=0) | {"texts_per_second": 0} == new.evaluate(bootstrap=0) | {"texts_per_second": 0}
    newest = elmo.train(texts=rows(300)[0], labels=rows(300)[1], out=tmp_path / "run", overwrite=True, **SMALL)
    assert old.evaluate(bootstrap=0)["P@5"] == newest.evaluate(bootstrap=0)["P@5"]


def test_a_file_that_holds_other_rows_now(tmp_path):
    pandas = pytest.importorskip("pandas")
    file = tmp_path / "rows.parquet"
    pandas.DataFrame({"text": [f"old text {i}" for i in range(200)], "labels": ["a", "b"] * 100}).to_parquet(file)
    elmo.train(file, out=tmp_path / "run", **SMALL)
    pandas.DataFrame({"text": [f"new words {i * 7}" for i in range(90)], "labels": ["b", "a", "a"] * 30}).to_parquet(file)
    for call in (elmo.evaluate, lambda run: elmo.Run(run).calibrate(), lambda run: elmo.report(run, out=tmp_path / "page.html")):
        with pytest.raises(elmo.DataError, match=r"rows.parquet: expected the data that trained this run, found other rows"):
            call(str(tmp_path / "run"))
    assert elmo.evaluate(tmp_path / "run", file).protocol.samples == 90


def test_an_interrupted_training_goes_on_with_rows_in_other_forms(tmp_path):
    pandas = pytest.importorskip("pandas")
    texts, labels = rows(200)
    frame = pandas.DataFrame({"headline": texts, "kind": labels})
    frame.to_parquet(tmp_path / "rows.parquet")
    for name, data in (("frame", frame), ("parquet", tmp_path / "rows.parquet")):
        elmo.train(data, text_column="headline", label_column="kind", out=tmp_path / name, log_every=1,
                   on_log=lambda line: line.step >= 3, **SMALL)
    for again in (dict(texts=texts, labels=labels), dict(data=frame)):
        shutil.copytree(tmp_path / "frame", tmp_path / "copy", dirs_exist_ok=True)
        assert not elmo.train(**again, out=tmp_path / "copy", resume=True).result.interrupted
        shutil.rmtree(tmp_path / "copy")
    assert not elmo.train(tmp_path / "rows.parquet", out=tmp_path / "parquet", resume=True).result.interrupted


def test_the_command_that_is_named_reads_labels_as_the_run_did(tmp_path):
    pandas = pytest.importorskip("pandas")
    countries = ["Korea, Republic of", "Iran, Islamic Republic of", "Bolivia, Plurinational State of", "France"]
    file = tmp_path / "rows.parquet"
    pandas.DataFrame([(f"news {i} about {c.split(',')[0]}", c) for i in range(60) for c in countries],
                     columns=["text", "country"]).to_parquet(file)
    run = elmo.train(file, label_column="country", label_separator="none", out=tmp_path / "run")
    said = elmo_program("eval", tmp_path / "run", cwd=tmp_path).stderr
    command = re.search(r'python3 -c "(import elmo; .*?)" and name the folder (\S+)', said)
    assert "label_separator='none'" in command[1]
    subprocess.run([sys.executable, "-c", command[1]], check=True, cwd=tmp_path)
    again = json.loads(elmo_program("eval", tmp_path / "run", "--data", command[2], "--json", cwd=tmp_path).stdout)
    assert again["P@1"] == run.evaluate()["P@1"] > 90


def test_the_command_that_is_named_has_the_separator(tmp_path):
    pandas = pytest.importorskip("pandas")
    pandas.DataFrame({"text": [f"news {i}" for i in range(100)], "labels": ["a;b", "b"] * 50}).to_parquet(tmp_path / "rows.parquet")
    for separator in (";", "|", "a b", "$", "'"):
        run = elmo.train(tmp_path / "rows.parquet", label_separator=separator, out=tmp_path / "run", overwrite=True)
        command = re.search(r'python3 -c "(import elmo; .*?)" and name', elmo_program("eval", run.path, cwd=tmp_path).stderr)[1]
        said = subprocess.run(["bash", "-c", f'printf %s "{command}"'], capture_output=True, text=True, check=True).stdout
        assert eval(said[said.index("label_separator=") + 16:].split(",")[0].rstrip(")")) == separator


def test_a_search_from_a_run_takes_its_validation_rows(tmp_path):
    pandas = pytest.importorskip("pandas")
    (texts, labels), (others, of_others) = rows(200), rows(60, seed=4)
    for name, values in (("rows", (texts, labels)), ("valid", (others, of_others))):
        pandas.DataFrame({"text": values[0], "labels": values[1]}).to_parquet(tmp_path / f"{name}.parquet")
    file = elmo.train(tmp_path / "rows.parquet", validation=tmp_path / "valid.parquet", out=tmp_path / "file", **SMALL)
    memory = elmo.train(texts=texts, labels=labels, validation=(others, of_others), out=tmp_path / "memory", **SMALL)
    for name, call in (("a", dict(data=tmp_path / "rows.parquet", init=file)), ("b", dict(init=file)),
                       ("c", dict(texts=texts, labels=labels, init=memory)), ("d", dict(init=memory))):
        assert elmo.tune(**call, out=tmp_path / name, trials=1, epochs=1).trials > 0


def test_a_file_that_is_gone(tmp_path):
    file = write_parquet(tmp_path / "rows.parquet", table_of(200))
    elmo.train(file, out=tmp_path / "run", **COLUMNS, **SMALL)
    file.rename(tmp_path / "moved.parquet")
    with pytest.raises(elmo.DataError, match="rows.parquet: no such file or folder"):
        elmo.Run(tmp_path / "run").evaluate()
    assert elmo.Run(tmp_path / "run").evaluate(tmp_path / "moved.parquet").protocol.samples < 60


def test_a_test_file_that_was_given_beside_a_file(tmp_path):
    file = write_parquet(tmp_path / "rows.parquet", table_of(400))
    test = write_parquet(tmp_path / "test.parquet", table_of(40, seed=9))
    run = elmo.train(file, test=test, validation=0.2, out=tmp_path / "run", **COLUMNS, **SMALL)
    scores, calibrated, shown = run.evaluate(bootstrap=0), run.calibrate(), run.report(out=tmp_path / "a.html", bootstrap=0)
    index, more = run.index(), elmo.train(init=run, epochs=1)
    validated = run.evaluate(split="validation", bootstrap=0).protocol.samples
    wanted = [scores["P@5"], 40, str(file), shown["P@5"], calibrated.a, calibrated.rows, index.recall_at_5,
              more.log[0].train_rows, validated]
    assert scores.protocol.samples == 40
    assert in_another_process(tmp_path / "run", tmp_path / "b.html") == wanted
    more = elmo.train(init=tmp_path / "run", epochs=1, out=tmp_path / "more").path  # it remembers the test file too
    assert elmo.Run(more).evaluate(bootstrap=0).protocol.samples == 40
    assert "elmo-rows" not in (tmp_path / "run/best/recipe.toml").read_text()
    test.rename(tmp_path / "moved.parquet")
    again = elmo.Run(tmp_path / "run")
    for call in (again.evaluate, lambda: again.report(out=tmp_path / "c.html"), lambda: again.compare(more)):
        with pytest.raises(elmo.DataError) as caught:
            call()
        assert str(caught.value) == f"{test}: no such file or folder, but its rows were the test rows of the run; give rows to score"
    assert again.calibrate().a == calibrated.a and again.index().recall_at_5 == index.recall_at_5  # they need no test rows
    assert again.evaluate(split="validation", bootstrap=0).protocol.samples == validated
    assert again.evaluate(tmp_path / "moved.parquet", bootstrap=0).protocol.samples == 40


def test_a_test_file_that_only_the_run_names_is_not_read(tmp_path):
    file, test, other = (write_parquet(tmp_path / f"{name}.parquet", table_of(60, seed)) for seed, name in enumerate("abc"))
    elmo.train(file, test=test, out=tmp_path / "run", **COLUMNS, **SMALL)
    recipe = tmp_path / "run/best/recipe.toml"
    recipe.write_text(recipe.read_text().replace(str(test), str(other)))
    with pytest.raises(elmo.ConfigError, match="^test: expected a path that was read as data here before, found '.*c.parquet', which only"):
        elmo.Run(tmp_path / "run").evaluate()


def test_a_recipe_of_a_run_with_a_test_file(tmp_path, caplog):
    """Another training has its own test rows."""
    file, test = (write_parquet(tmp_path / name, table_of(60)) for name in ("rows.parquet", "test.parquet"))
    elmo.train(file, test=test, out=tmp_path / "run", **COLUMNS, **SMALL)
    recipe = tmp_path / "run/best/recipe.toml"
    elmo.train(file, recipe=recipe, out=tmp_path / "other", test_share=0.2)
    assert "test.parquet" not in (tmp_path / "other/best/recipe.toml").read_text()
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in table_of(60).to_pylist()))
    printed = elmo_program("train", tmp_path / "rows.jsonl", "--recipe", recipe, "--test-share", 0.2, "--out", tmp_path / "program")
    assert printed.returncode == 0 and "test has no effect with data that elmo reads itself, whose test file" in printed.stderr
    for call, message in ((lambda: elmo.tune(file, test=test, out=tmp_path / "tuned"), "option 'test' belongs to train itself"),
                          (lambda: elmo.Run(tmp_path / "run").predict(["a"], test=test), "option 'test' does not belong to predict")):
        with pytest.raises(elmo.ConfigError, match=message):
            call()


def test_a_training_from_a_run_with_test_rows_of_its_own(tmp_path):
    """Rows from memory are gone: a share is held out. Those of a file are read again, and nothing else is held out."""
    file, test = (write_parquet(tmp_path / name, table_of(200)) for name in ("rows.parquet", "test.parquet"))
    for name, tests in (("memory", rows(20, seed=8)), ("file", test)):
        elmo.train(file, test=tests, out=tmp_path / name, **COLUMNS, **SMALL)
    assert 0 < elmo.train(init=tmp_path / "memory", epochs=1).evaluate(bootstrap=0).protocol.samples < 60
    assert elmo.train(init=tmp_path / "file", epochs=1).evaluate(bootstrap=0).protocol.samples == 200
    with pytest.raises(elmo.ConfigError, match="test_share: expected none beside test rows"):
        elmo.train(init=tmp_path / "file", test_share=0.5, out=tmp_path / "fourth")
    with pytest.raises(elmo.ConfigError, match="test: expected beside data or texts only; give the rows for training, too"):
        elmo.train(init=tmp_path / "memory", test=rows(20), out=tmp_path / "fourth")


def test_rows_from_memory_beside_a_table_of_a_file(tmp_path):
    texts, labels = rows(60)
    (tmp_path / "a.csv").write_text("text,labels\n" + "".join(f"{text},{row[0]}\n" for text, row in zip(texts, labels)))
    with pytest.raises(elmo.DataError, match="rows from memory: expected validation rows in the format of the data, csv, found rows "
                                             "that Python read; give a file in that format, or a share"):
        elmo.train(tmp_path / "a.csv", validation=(texts, labels))


def test_a_validation_split_of_a_saved_folder_is_named_by_its_path(tmp_path, caplog):
    for name, count in (("train", 100), ("validation", 40)):
        save_to_disk(tmp_path / "saved" / name, table_of(count, seed=count))
    (tmp_path / "saved" / "dataset_dict.json").write_text(json.dumps({"splits": ["train", "validation"]}))
    elmo.train(tmp_path / "saved", **COLUMNS, **SMALL)
    path = str(tmp_path / "saved" / "validation")
    assert f"the split 'validation' is not read; validation={path!r} takes its rows" in caplog.text
    run = elmo.train(tmp_path / "saved", validation=path, **COLUMNS, **SMALL)
    assert run.evaluate(split="validation", bootstrap=0).protocol.samples == 40
    linear = elmo.train(tmp_path / "saved", **COLUMNS, encoder="linear").result
    assert linear.plan.program_bytes > 40 << 20, "what Python and its libraries take"


def test_the_command_for_the_data_of_a_run_keeps_its_labels_and_test_rows(tmp_path, monkeypatch):
    """Of categories, columns of 0 and 1, another share and test rows of another file."""
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    monkeypatch.chdir(tmp_path)
    texts = [f"a {colour} thing, number {i}" for i in range(60) for colour in ("red", "green")]
    red = ["red" in text for text in texts]
    pandas.DataFrame({"text": texts, "y": pandas.Categorical(["red, dark" if one else "green" for one in red])}).to_parquet("cat.parquet")
    pandas.DataFrame({"text": texts, "is_red": red, "is_green": [not one for one in red]}).to_parquet("wide.parquet")
    table = pandas.DataFrame({"text": texts, "tag": ["red" if one else "green" for one in red]})
    table[:90].to_parquet("train.parquet")
    table[90:].to_parquet("test.parquet")
    for file, options in (("cat", dict(label_column="y")), ("wide", dict(label_column="is_*", test_share=0.3)),
                          ("train", dict(label_column="tag", test="test.parquet"))):
        scores = elmo.train(f"{file}.parquet", out=f"run-{file}", **options).evaluate()
        refused = elmo_program("eval", f"run-{file}")
        command = re.search('python3 -c "(.*?)"', refused.stderr)[1]
        subprocess.run([sys.executable, "-c", command.replace("out='data'", f"out='data-{file}'")], check=True)
        again = elmo_program("eval", f"run-{file}", "--data", f"data-{file}", "--json", "--quiet")
        assert json.loads(again.stdout)["P@1"] == scores["P@1"], again.stderr
        assert json.loads(again.stdout)["protocol"]["samples"] == scores.protocol.samples, again.stderr


def test_the_commands_for_other_data_of_a_run(tmp_path, monkeypatch):
    """All of its rows, and none that trained or judged the run."""
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    monkeypatch.chdir(tmp_path)
    texts = [f"a {colour} thing, number {i}" for i in range(60) for colour in ("red", "green")]
    table = pandas.DataFrame({"note": texts, "tag": pandas.Categorical(["red, dark" if "red" in text else "green" for text in texts])})
    table[:90].to_parquet("train.parquet")
    table[90:].to_parquet("test.parquet")
    new = pandas.concat([table[:20], table[:20].assign(tag=table.tag[1:21].tolist())]).astype({"tag": "category"})
    new.to_parquet("new.parquet")
    new[["note"]].assign(kind=pandas.Categorical(["x"] * 40)).to_parquet("texts.parquet")
    run = elmo.train("train.parquet", test="test.parquet", text_column="note", label_column="tag", out="run")

    def advised(*words):
        refused = elmo_program(*words)
        code, name = re.search('python3 -c "(.*?)"(?: and (?:name|give --validation) ([^ \n]*))?', refused.stderr).groups()
        subprocess.run([sys.executable, "-c", code], check=True)
        return name

    printed = elmo_program("eval", "run", advised("eval", "run", "new.parquet"), "--json", "--quiet")
    scores = json.loads(printed.stdout)
    assert scores["P@1"] == run.evaluate("new.parquet")["P@1"] == 50 and scores["protocol"]["samples"] == 40
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps({"note": text, "tag": [tag]}) + "\n" for text, tag in table.values))
    elmo.train("rows.jsonl", text_column="note", label_column="tag", out="lines")
    fitted = elmo_program("calibrate", "lines", "--validation", advised("calibrate", "lines", "--validation", "test.parquet"), "--json")
    assert json.loads(fitted.stdout)["rows"] == 30
    assert advised("predict", "run", "texts.parquet") is None
    assert len(elmo_program("predict", "run", "texts.jsonl", "--json").stdout.splitlines()) == 40


def test_a_run_whose_validation_file_only_python_reads_goes_on_in_the_program(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_parquet(tmp_path / "rows.parquet", table_of(200))
    write_parquet(tmp_path / "validation.parquet", table_of(50, seed=5))
    elmo.train("rows.parquet", validation="validation.parquet", out="run", on_log=lambda line: line.step >= 3, log_every=1,
               **COLUMNS, **SMALL)

    def followed(*words):
        code, name = re.search('python3 -c "(.*?)" and (?:name the folder|give --validation) ([^ ,\n]*)',
                               elmo_program(*words).stderr).groups()
        subprocess.run([sys.executable, "-c", code], check=True)
        return name

    data = followed("train", "--out", "run", "--resume")
    validation = followed("train", "--data", data, "--out", "run", "--resume")
    assert validation == "validation/train.jsonl"
    again = elmo_program("train", "--data", data, "--validation", validation, "--out", "run", "--resume")
    assert again.returncode == 0, again.stderr
    assert elmo_program("refine", "run", "--data", data, "--out", "refined").returncode == 0
    assert elmo_program("calibrate", "run", "--validation", validation).returncode == 0


@pytest.mark.parametrize("name, a, b", [("Amazon-7", 0.6, 2.6), ("Wikipedia-500K", 0.5, 0.4), ("others", 0.55, 1.5)])
def test_the_name_of_a_file_decides_propensities_whoever_reads_it(tmp_path, name, a, b):
    texts, labels = rows(200)
    file = write_parquet(tmp_path / f"{name}.parquet", table_of(200))
    (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps({"title": text, "tags": row}) + "\n" for text, row in zip(texts, labels)))
    options = COLUMNS | dict(encoder="linear", objective="psp")
    runs = [elmo.train(data, **options) for data in (file, tmp_path / f"{name}.jsonl")]
    scores = [run.evaluate(bootstrap=0) for run in runs]
    for protocol in (score.protocol for score in scores):
        assert (protocol.propensity_a, protocol.propensity_b) == (a, b)
        assert protocol.propensity_source == f"by the data set's name '{name}'"
    assert scores[0]["PSP@1"] == scores[1]["PSP@1"]
    memory = elmo.train(texts=texts, labels=labels, **SMALL).evaluate(bootstrap=0).protocol
    assert (memory.propensity_a, memory.propensity_source) == (0.55, "by the data set's name 'rows from memory'")


def test_a_column_of_texts_may_be_named_twice(tmp_path):
    file = write_parquet(tmp_path / "rows.parquet", table_of(60))
    runs = [elmo.train(data, text_column="title+title", label_column="tags", **SMALL) for data in (file, table_of(60))]
    assert runs[0].predict(["a"]).names == runs[1].predict(["a"]).names


def test_wrong_texts_of_rows_that_are_given_are_of_no_split(tmp_path):
    texts, labels = rows(60)
    run = elmo.train(texts=texts, labels=labels, **SMALL)
    scores = run.evaluate(texts=["one of nothing"], labels=[labels[0]], threshold=0.999, errors=1)
    assert [wrong.split for wrong in scores.wrong_texts] == ["all"]


def test_a_run_on_rows_from_memory_is_continued_with_them_alone(tmp_path):
    texts, labels = rows(100)
    out, options = tmp_path / "run", SMALL | dict(epochs=10)
    elmo.train(texts=texts, labels=labels, out=out, on_log=lambda line: line.step >= 5, log_every=1, **options)
    advice = ("; the run was trained on rows from memory, and these are others: give the same ones in the same order, or "
              "another out")
    (tmp_path / "rows.jsonl").write_text('{"text": "one", "labels": ["a"]}\n' * 30)
    for other in (dict(texts=texts[::-1], labels=labels[::-1]), dict(data=tmp_path / "rows.jsonl")):
        with pytest.raises(elmo.DataError) as caught:
            elmo.train(**other, out=out, resume=True)
        assert str(caught.value).endswith(advice)
    assert not elmo.train(texts=texts, labels=labels, out=out, resume=True).result.interrupted


def test_a_relative_path_is_one_from_where_training_was_started(tmp_path, monkeypatch):
    texts, labels = rows(200)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps({"text": text, "labels": row}) + "\n"
                                                 for text, row in zip(texts, labels)))
    write_parquet(tmp_path / "rows.parquet", table_of(200))
    elmo.train("rows.jsonl", out="lines", **SMALL)
    elmo.train("rows.parquet", out="table", **COLUMNS, **SMALL)
    (tmp_path / "elsewhere").mkdir()
    runs = [elmo.Run("lines"), elmo.Run("table")]
    monkeypatch.chdir(tmp_path / "elsewhere")
    for run in runs:
        for call in (run.evaluate, run.calibrate, run.index, lambda: elmo.train(init=run, epochs=1)):
            with pytest.raises(elmo.DataError, match=r"^rows\.\w+: no such file or folder, but the run was trained on it; the "
                                                     r"path is from the folder where training was started: go there, or name"):
                call()
    monkeypatch.chdir(tmp_path)
    assert all(run.evaluate(bootstrap=0).protocol.samples < 60 for run in runs)


def test_rows_from_memory_that_are_gone(tmp_path, caplog):
    """What a message says to do leads to no message that says to undo it."""
    texts, labels = rows(200)
    elmo.train(texts=texts, labels=labels, out=tmp_path / "run", **SMALL)
    run, gone = elmo.Run(tmp_path / "run"), "run: this run was trained on rows from memory, which it does not keep; give "
    for call, advice in ((run.evaluate, "rows to score that did not train it"),
                         (lambda: run.report(out=tmp_path / "page.html"), "rows to score that did not train it"),
                         (run.calibrate, "them again as texts=… and labels=…, or others as validation="),
                         (run.index, "texts=…, 40 at least"),
                         (lambda: elmo.train(out=run.path, resume=True), "them again as texts=… and labels=…"),
                         (lambda: elmo.train(init=run), "rows as data, or as texts and labels")):
        with pytest.raises(elmo.DataError, match=gone + advice):
            call()
    with caplog.at_level("WARNING", "elmo"):
        run.evaluate(texts=texts, labels=labels, bootstrap=0)
    assert "trained this run" in caplog.text and "score others, or a file of all of its rows" in caplog.text
    assert "evaluate() without rows" not in caplog.text
    lines = "".join(json.dumps({"text": text, "labels": row}) + "\n" for text, row in zip(texts, labels))
    (tmp_path / "rows.jsonl").write_text(lines)
    assert run.evaluate(tmp_path / "rows.jsonl", bootstrap=0).protocol.samples < 60
    printed = elmo_program("eval", run.path)
    assert "the run was trained on rows from memory, which are gone; write them, or others, to a file" in printed.stderr
    caplog.clear()
    here = elmo.train(texts=texts, labels=labels, **SMALL)
    with caplog.at_level("WARNING", "elmo"):
        here.evaluate(texts=texts, labels=labels, bootstrap=0)
    assert "evaluate() without rows scores the test rows of its data" in caplog.text


def test_what_to_score_where_nothing_was_held_out(tmp_path, caplog):
    """No message says to score test rows that there are not."""
    texts, labels = rows(200)
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps({"text": text, "labels": row}) + "\n"
                                                 for text, row in zip(texts, labels)))
    there = "evaluate() without rows scores the test rows of its data"

    def advice(run):
        caplog.clear()
        with caplog.at_level("WARNING", "elmo"):
            run.evaluate(texts=texts[:100], labels=labels[:100], bootstrap=0)
        return caplog.messages[0].split("new texts: ")[1]

    of_rows = elmo.train(texts=texts, labels=labels, test_share=0, out=tmp_path / "rows", **SMALL)
    of_file = elmo.train(tmp_path / "rows.jsonl", test_share=0, out=tmp_path / "file", **SMALL)
    with_test = elmo.train(texts=texts, labels=labels, test=rows(20, seed=9), out=tmp_path / "test", **SMALL)
    assert [advice(run) for run in (of_rows, of_file, elmo.Run(of_file.path))] == ["score others"] * 3
    assert advice(with_test) == there and with_test.evaluate(bootstrap=0).protocol.samples == 20
    for run in (of_rows, with_test):  # their rows are gone, of a file all are scored
        kept = run.save(f"{run.path}-kept").path
        assert advice(elmo.Run(kept)) == "score others"
        assert elmo.Run(kept).evaluate(tmp_path / "rows.jsonl", bootstrap=0).protocol.samples == 200


def test_nearest_training_texts_of_a_file_that_only_python_reads(tmp_path, caplog):
    file, asked = write_parquet(tmp_path / "rows.parquet", table_of(200)), "a red house number 7"
    run = elmo.train(file, out=tmp_path / "run", neighbours=0.4, encoder="linear", **COLUMNS)
    wanted = run.explain(asked).nearest
    assert {near.text for near in wanted} <= set(rows(200)[0])
    again, folder, opened = elmo.Run(run.path), elmo.Predictor(run.path), elmo.Run(run.path).predictor()
    for other in (again, folder, opened):
        assert other.explain(asked).nearest == wanted
    file.rename(tmp_path / "moved.parquet")
    for other in (again, folder, opened):  # what is open has read them
        assert other.explain(asked).nearest == wanted
    assert not caplog.records
    assert {near.text for near in elmo.Run(run.path).explain(asked).nearest} == {""}
    assert caplog.messages == [f"training texts are not shown: {file}: no such file or folder, but the run was trained on it; they "
                               "are read by the path that trained the run, from data that has not changed"]
    assert elmo.Run(run.path).explain(asked, nearest=0).nearest == [] and len(caplog.messages) == 1
    write_parquet(file, table_of(100))
    assert {near.text for near in elmo.Run(run.path).explain(asked).nearest} == {""}
    assert f"not shown: {file}: expected the rows that trained the run, found others; they are read by the path" in caplog.text


def test_a_linear_run_without_its_rows_needs_none(tmp_path):
    """Rows, which it has no more, would be given in vain."""
    texts, labels = rows(60)
    elmo.train(texts=texts, labels=labels, out=tmp_path / "run", encoder="linear")
    with pytest.raises(elmo.ConfigError, match="found a linear model, which needs no index"):
        elmo.index(tmp_path / "run")
    with pytest.raises(elmo.ConfigError, match="is a linear model, which is solved for all rows at once"):
        elmo.train(init=tmp_path / "run")


def test_a_table_is_read_as_the_run_read_its_own(tmp_path):
    """Also with null labels; and its scores are kept, as those of a file are."""
    texts, labels = rows(120)
    table = {"text": texts, "labels": [None, *labels[1:]]}
    file = write_parquet(tmp_path / "nulls.parquet", pytest.importorskip("pyarrow").table(table))
    run = elmo.train(file, allow_null_labels=True, out=tmp_path / "run", **SMALL)
    expected = run.evaluate()["P@1"]
    assert run.evaluate(file)["P@1"] == expected and run.compare(run, file)["first"]["P@1"] == expected
    kept = (tmp_path / "run" / "scores.jsonl").read_text().splitlines()
    run.evaluate(file)
    run.evaluate(table)
    assert len((tmp_path / "run" / "scores.jsonl").read_text().splitlines()) == len(kept) + 1
    assert run.calibrate(validation=table).rows == 120
    assert elmo.train(file, init=run, epochs=1, progress=False).log[0].train_rows > 90


def test_a_separator_beside_labels_is_refused(tmp_path):
    texts, labels = rows(60)
    joined = [";".join(row) for row in labels]
    for call in (lambda **given: elmo.train(**given, encoder="linear"), elmo.train(texts=texts, labels=labels).evaluate):
        with pytest.raises(elmo.ConfigError, match="in labels= a text is one label: give lists of labels"):
            call(texts=texts, labels=joined, label_separator=";")
    with pytest.raises(elmo.DataError, match="in labels= a text is one label: give lists of labels"):
        elmo.train(texts=texts, labels=labels).evaluate(texts=texts, labels=joined)
    (tmp_path / "a.csv").write_text("text,labels\na,b\n")
    with pytest.raises(elmo.ConfigError, match="test: expected beside rows from memory, Parquet or Arrow, found the path"):
        elmo.train(tmp_path / "a.csv", test=(texts, labels))


def test_stored_predictions_of_all_rows_of_a_runs_file(tmp_path):
    """In the order of the file, with the run's numbers of labels, though some labels are only in rows that it held out."""
    texts, labels = rows(200)
    lines = [json.dumps({"text": text, "labels": [*row, f"only {i}"]}) for i, (text, row) in enumerate(zip(texts, labels))]
    (tmp_path / "rows.jsonl").write_text("\n".join(lines) + "\n")
    run = elmo.train(tmp_path / "rows.jsonl", encoder="linear", out=tmp_path / "run")
    stored = tmp_path / "stored.txt"
    wanted = run.evaluate(split="all", save_predictions=stored)
    found = run.evaluate(predictions=stored, split="all")
    assert found.protocol.samples == wanted.protocol.samples == 200
    assert found["P@1"] == wanted["P@1"] and found["P@5"] == wanted["P@5"] > 0


def test_a_successor_in_the_folder_is_not_scored_with_the_rows_of_the_run_before(tmp_path):
    texts, labels = rows(200)
    turned = [[row[1], "other"] for row in labels]
    old = elmo.train(texts=texts, labels=labels, out=tmp_path / "run", **SMALL)
    new = elmo.train(texts=texts, labels=turned, out=tmp_path / "run", overwrite=True, **SMALL)
    wanted = new.evaluate(bootstrap=0)["P@5"]
    assert old.evaluate(bootstrap=0)["P@5"] == wanted
    del new
    with pytest.raises(elmo.DataError, match="was trained on rows from memory, which it does not keep"):
        old.evaluate()
    file = write_parquet(tmp_path / "rows.parquet", table_of(200))  # the same name for other rows
    old = elmo.train(file, out=tmp_path / "file", **COLUMNS, **SMALL)
    write_parquet(file, pytest.importorskip("pyarrow").table({"title": texts, "tags": turned}))
    new = elmo.train(file, out=tmp_path / "file", overwrite=True, **COLUMNS, **SMALL)
    wanted = new.evaluate(bootstrap=0)["P@5"]
    assert old.evaluate(bootstrap=0)["P@5"] == wanted


def test_test_rows_beside_a_file_are_scored_where_it_is_named(tmp_path):
    file, test = (write_parquet(tmp_path / f"{name}.parquet", table_of(count)) for name, count in (("rows", 200), ("test", 40)))
    for number, held in enumerate((test, rows(40))):
        run = elmo.train(file, test=held, out=tmp_path / f"run{number}", **COLUMNS, **SMALL)
        wanted = run.evaluate(bootstrap=0)
        for call in (lambda: run.evaluate(file, bootstrap=0), lambda: run.evaluate(file, bootstrap=0, split="test"),
                     lambda: run.compare(run, file, bootstrap=0).second):
            assert call().protocol.samples == 40 and call()["P@5"] == wanted["P@5"]
    assert elmo.Run(tmp_path / "run0").evaluate(file, bootstrap=0).protocol.samples == 40
    path = run.path
    del run, call  # and with them the rows
    for again in (lambda: elmo.Run(path).evaluate(), lambda: elmo.Run(path).evaluate(file)):
        with pytest.raises(elmo.DataError, match="^test: those of the run were rows from memory, which it does not keep; give rows to score$"):
            again()


def test_a_resumed_run_keeps_the_rows_of_the_object_before(tmp_path):
    texts, labels = rows(200)
    run = elmo.train(texts=texts, labels=labels, out=tmp_path / "run", log_every=1, on_log=lambda line: line.step >= 5, **SMALL)
    run = elmo.train(out=tmp_path / "run", resume=True)
    assert run.evaluate(bootstrap=0).protocol.samples < 60


FORKED = """
import os, pickle, sys, elmo
from conftest import SMALL, rows
run = elmo.train(texts=rows()[0], labels=rows()[1], **SMALL)
if os.fork() == 0:
    run.evaluate(bootstrap=0)
    sys.exit(0)
os.wait()
print(run.evaluate(bootstrap=0).protocol.samples, len(run.predict(["a red house"])[0]))
"""


def test_a_fork_that_ends_leaves_the_run_of_its_parent(tmp_path):
    found = subprocess.run([sys.executable, "-c", FORKED], capture_output=True, text=True, check=False, cwd=__file__.rpartition("/")[0])
    assert found.returncode == 0 and found.stdout.split()[1:] == ["5"], found.stderr


PREFORKED = """
import multiprocessing, elmo
from conftest import SMALL, rows
texts, labels = rows(200)
run = elmo.train(texts=texts, labels=labels, **SMALL)
wanted = run.predict(texts).names
def answer(part):
    return run.predict(part).names
with multiprocessing.get_context("fork").Pool(2) as pool:
    found = pool.map(answer, [texts[:100], texts[100:]])
print(found[0] + found[1] == wanted)
"""


def test_forked_workers_use_the_run_of_their_parent():
    found = subprocess.run([sys.executable, "-c", PREFORKED], capture_output=True, text=True, check=False, cwd=__file__.rpartition("/")[0])
    assert found.returncode == 0 and found.stdout == "True\n", found.stderr


def test_categories_are_cut_as_those_that_trained_the_run(tmp_path):
    pandas = pytest.importorskip("pandas")
    texts, labels = rows(200)
    frame = pandas.DataFrame({"text": texts, "labels": pandas.Categorical([";".join(row) for row in labels])})
    run = elmo.train(frame, label_separator=";", **SMALL)
    wanted = run.evaluate(frame.astype({"labels": str}), bootstrap=0)
    for found in (run.evaluate(frame, bootstrap=0), run.evaluate(frame, label_separator=";", bootstrap=0)):
        assert [found[name] for name in ("P@1", "R@5")] == [wanted[name] for name in ("P@1", "R@5")]
    whole = elmo.train(frame, **SMALL)
    assert all(";" in name for name in whole.label_names) and whole.evaluate(frame, bootstrap=0)["P@1"] > 50
