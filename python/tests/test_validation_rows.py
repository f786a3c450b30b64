"""Validation rows from memory and of files that only Python reads: in resumed runs, in searches, and beside other rows."""
import json
import subprocess
import sys

import pytest
from conftest import SMALL, rows
from test_reopened import COLUMNS, table_of, write_parquet

import elmo

SHORT = SMALL | dict(epochs=4)
STOP = dict(log_every=1, on_log=lambda line: line.step >= 5)


def test_a_stopped_training_with_validation_rows_continues(tmp_path):
    """With the same rows, whatever the folder of their copy is called."""
    texts, labels = rows(200)
    options = SHORT | dict(texts=texts, labels=labels, out=tmp_path / "run")
    whole = elmo.train(**options | dict(out=tmp_path / "whole"), validation=(texts[:40], labels[:40]))
    assert elmo.train(**options, validation=(texts[:40], labels[:40]), **STOP).result.interrupted
    for others, message in ((dict(validation=(texts[:30], labels[:30])),
                             "validation = rows from memory, found others: rows from memory; a continued run keeps its recipe: give the "
                             "same rows again, or start a new run"),
                            ({}, "validation: those of .*run were rows from memory, which it does not keep; give the same ones again as "
                                 r"validation=\(texts, labels\)")):
        with pytest.raises(elmo.Error, match=message):
            elmo.train(**options, **others, resume=True)
    again = elmo.train(**options, validation=(texts[:40], labels[:40]), resume=True)
    weights = [(tmp_path / name / "best/model.safetensors").read_bytes() for name in ("run", "whole")]
    assert not again.result.interrupted and weights[0] == weights[1]


def test_a_search_on_rows_from_memory_goes_on(tmp_path):
    texts, labels = rows(120)
    data = dict(texts=texts, labels=labels, validation=(texts[:30], labels[:30]), out=tmp_path / "search", **SHORT)
    first = elmo.tune(**data, trials=2)
    assert elmo.tune(**data, trials=2, resume=True).best_score == first.best_score
    for key, others in (("data", dict(labels=labels[::-1])), ("validation", dict(validation=(texts[:20], labels[:20])))):
        with pytest.raises(elmo.ConfigError, match=f"0-0.json has other rows from memory as {key}; give the options of the search"):
            elmo.tune(**data | others, trials=2, resume=True)


def test_validation_rows_of_a_run_beside_other_rows(tmp_path, caplog):
    texts, labels = rows(200)
    pair = dict(texts=texts, labels=labels)
    table = {"title": texts, "tags": labels}
    file, validation = (write_parquet(tmp_path / f"{name}.parquet", table_of(count)) for name, count in (("rows", 200), ("held", 50)))
    lines = tmp_path / "held.jsonl"
    lines.write_text("".join(json.dumps(row) + "\n" for row in table_of(50).to_pylist()))
    for number, (data, held, own) in enumerate(((table, (texts[:50], labels[:50]), dict(data=table)),
                                                (file, validation, dict(data=file)), (file, lines, dict(data=file)))):
        run = elmo.train(data, validation=held, out=tmp_path / f"run{number}", **COLUMNS, **SHORT)
        wanted = run.calibrate()
        for given in (own, pair):
            again = run.calibrate(**given)
            assert (again.rows, again.a) == (50, wanted.a)
            assert elmo.train(**given, init=run, epochs=1).log[0].validation_rows == 50
        opened = elmo.Run(run.path)
        if data is not table:
            assert opened.calibrate().rows == opened.calibrate(**own).rows == opened.calibrate(**pair).rows == 50
            assert elmo.train(init=opened, epochs=1).log[0].validation_rows == 50
            assert opened.evaluate(file, split="validation", bootstrap=0).protocol.samples == 50
            assert elmo.index(opened, file, split="all").texts > 0
            assert not elmo.train(file, out=run.path, resume=True, **COLUMNS).result.interrupted
    out = run.path + " memory"
    elmo.train(**pair, validation=(texts[:50], labels[:50]), out=out, **SHORT)
    gone = elmo.Run(out)
    with pytest.raises(elmo.DataError, match=r"^validation: those of .* which it does not keep; give them again, or others, as "
                                             r"validation=\(texts, labels\)$"):
        gone.calibrate(**pair)
    with caplog.at_level("WARNING", "elmo"):
        assert elmo.train(**pair, init=gone, epochs=1).log[0].config.validation == "0.02"
    assert "which it does not keep; a share of 0.02 of the rows is taken; validation= takes others" in caplog.text
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in table_of(200).to_pylist()))
    elmo.train(tmp_path / "rows.jsonl", validation=(texts[:50], labels[:50]), out=tmp_path / "lines", **COLUMNS, **SHORT)
    with pytest.raises(elmo.DataError, match="^validation: those of .* which it does not keep; give them again, or others, as validation=.texts, labels.$"):
        elmo.Run(tmp_path / "lines").calibrate()


def test_each_call_says_what_it_takes_where_validation_rows_from_memory_are_gone(tmp_path):
    """And takes it."""
    pandas = pytest.importorskip("pandas")
    texts, labels = rows(200)
    pair = (texts[:50], labels[:50])
    held = pandas.DataFrame({"title": pair[0], "tags": pair[1]})
    file = write_parquet(tmp_path / "rows.parquet", table_of(200))
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in table_of(200).to_pylist()))
    gone = "^validation: those of .*run.* were rows from memory, which it does not keep; give "
    for number, data in enumerate((file, tmp_path / "rows.jsonl")):
        elmo.train(data, validation=pair, out=tmp_path / f"run{number}", **COLUMNS, **SHORT)
        run = elmo.Run(tmp_path / f"run{number}")
        for call in (run.index, lambda: run.evaluate(split="validation"), lambda: run.report(split="validation", out=tmp_path / "page.html")):
            with pytest.raises(elmo.DataError, match=gone + "them again, or others, as texts=… and labels=…$"):
                call()
        assert run.index(texts=pair[0]).texts > 0 and run.evaluate(texts=pair[0], labels=pair[1]).protocol.samples == 50
        assert run.evaluate(bootstrap=0).protocol.samples > 0 < run.evaluate(split="all", bootstrap=0).protocol.samples
        with pytest.raises(elmo.DataError, match=gone + r"them again, or others, as validation=\(texts, labels\), or a share$"):
            elmo.train(init=run, epochs=1)
        for validation in (pair, held, file):
            log = elmo.train(init=run, validation=validation, epochs=1).log
            assert log[0].validation_rows == (200 if validation is file else 50)
        assert elmo.train(init=run, validation=0.3, epochs=1).log[0].validation_rows > 20
        with pytest.raises(elmo.DataError, match=gone + r"data too, and the same ones again as validation=\(texts, labels\)$"):
            elmo.train(out=run.path, resume=True)
        assert not elmo.train(data, validation=pair, out=run.path, resume=True, **COLUMNS).result.interrupted
        for call in (run.index, run.evaluate):
            with pytest.raises(elmo.ConfigError, match="^validation: expected a file, found .*; give rows in memory as texts=… and labels=…$"):
                call(validation=held)
        with pytest.raises(elmo.DataError, match="which are gone; write them, or others, to a file and name it with validation$"):
            run.evaluate(data, split="validation")
        assert run.evaluate(data, split="validation", validation=file).protocol.samples == 200
    matrix = [[name in row for name in ("bird", "river")] for row in labels[:50]]
    matrix = pytest.importorskip("numpy").array(matrix)
    more = elmo.train(init=run, validation=(pair[0], matrix), label_names=["bird", "river"], epochs=1)
    assert more.log[0].validation_rows == 50


def test_a_file_for_validation_that_a_recipe_names(tmp_path):
    file, held = (write_parquet(tmp_path / f"{name}.parquet", table_of(count)) for name, count in (("rows", 120), ("held", 30)))
    run = elmo.train(file, validation=held, out=tmp_path / "run", **COLUMNS, **SHORT)
    again = elmo.train(file, recipe=tmp_path / "run/best/recipe.toml", out=tmp_path / "again")
    assert again.log[0].validation_rows == 30 and again.log[0].config.validation == str(held)
    assert elmo.train(init=run, validation=held, epochs=1).log[0].validation_rows == 30
    for validation in (held, table_of(30), str(held)):
        assert elmo.plan(file, validation=validation, encoder="bag", **COLUMNS).total_bytes > 0


def test_a_file_for_validation_that_is_named_beside_the_data_of_a_run(tmp_path):
    file, held, others = (write_parquet(tmp_path / f"{name}.parquet", table_of(count))
                          for name, count in (("rows", 200), ("held", 40), ("others", 60)))
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in table_of(200).to_pylist()))
    for number, data in enumerate((file, tmp_path / "rows.jsonl", table_of(200))):
        run = elmo.train(data, validation=held, out=tmp_path / f"run{number}", **COLUMNS, **SHORT)
        for opened in (run, elmo.Run(run.path)) if number < 2 else (run,):
            assert opened.evaluate(split="validation", validation=others, bootstrap=0).protocol.samples == 60
            assert opened.index(validation=str(others)).texts == 15  # a quarter measures it
        if number < 2:
            assert run.evaluate(data, split="validation", validation=others, bootstrap=0).protocol.samples == 60


def test_a_file_for_validation_that_is_gone(tmp_path):
    """It is missed where its rows are asked for."""
    lines = "".join(json.dumps(row) + "\n" for row in table_of(40).to_pylist())
    for number, name in enumerate(("held.parquet", "held.jsonl")):
        file, held = write_parquet(tmp_path / "rows.parquet", table_of(200)), tmp_path / name
        write_parquet(held, table_of(40)) if number == 0 else held.write_text(lines)
        elmo.train(file, validation=held, out=tmp_path / f"run{number}", **COLUMNS, **SHORT)
        held.rename(moved := tmp_path / f"moved.{name}")
        run = elmo.Run(tmp_path / f"run{number}")
        for call in (run.calibrate, run.index, lambda: run.calibrate(file), lambda: run.evaluate(split="validation"),
                     lambda: elmo.train(init=run, epochs=1), lambda: elmo.train(file, init=run, epochs=1)):
            with pytest.raises(elmo.ConfigError, match="', which the run was trained with and which is gone; name it with validation=FILE$"):
                call()
        assert run.evaluate(bootstrap=0).protocol.samples < 60
        assert run.calibrate(validation=moved).rows == run.evaluate(split="validation", validation=moved).protocol.samples == 40


COPIES = """
import json, sys, elmo
run = elmo.Run(sys.argv[1])
print(json.dumps([[scores["P@5"], scores.protocol.samples] for scores in (run.evaluate(path, bootstrap=0) for path in sys.argv[2:])]))
"""


def test_copies_of_the_rows_are_scored_where_other_files_of_the_run_are_gone(tmp_path):
    file, held, test = (write_parquet(tmp_path / f"{name}.parquet", table_of(count, seed=count))
                        for name, count in (("rows", 200), ("held", 40), ("test", 50)))
    copies = [write_parquet(tmp_path / "copy.parquet", table_of(200, seed=200)), tmp_path / "rows.jsonl"]
    copies[1].write_text("".join(json.dumps(row) + "\n" for row in table_of(200, seed=200).to_pylist()))
    for number, options in enumerate((dict(test=test), {})):
        run = elmo.train(file, validation=held, out=tmp_path / f"run{number}", **options, **COLUMNS, **SHORT)
        wanted = run.evaluate(copies[0], bootstrap=0)
        assert (wanted.protocol.samples == 200) == (number == 0)  # beside test rows of their own none were held out
        assert number == 0 or wanted["P@5"] == run.evaluate(bootstrap=0)["P@5"]
        held.rename(tmp_path / "gone")
        found = subprocess.run([sys.executable, "-c", COPIES, run.path, *copies], capture_output=True, text=True, check=False)
        assert found.returncode == 0, found.stderr
        assert json.loads(found.stdout.splitlines()[-1]) == [[wanted["P@5"], wanted.protocol.samples]] * 2
        (tmp_path / "gone").rename(held)


def test_a_run_with_test_rows_of_its_own_hands_on_the_usual_share(tmp_path):
    """To one that starts from it without."""
    texts, labels = rows(200)
    first = elmo.train(texts=texts, labels=labels, test=(texts[:50], labels[:50]), **SHORT)
    assert first.log[0].train_rows + first.log[0].validation_rows == 200 and first.evaluate(bootstrap=0).protocol.samples == 50
    for other in (dict(init=first, epochs=1), dict(recipe=first.path + "/best/recipe.toml")):
        assert 5 < elmo.train(texts=texts, labels=labels, **other).evaluate(bootstrap=0).protocol.samples < 50
    assert elmo.train(texts=texts, labels=labels, init=first, epochs=1, test_share=0).log[0].train_rows == first.log[0].train_rows
    assert elmo.train(init=first, epochs=1).evaluate(bootstrap=0).protocol.samples == 50
