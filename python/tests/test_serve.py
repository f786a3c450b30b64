"""elmo.serve: the server inside this process answers what the run does."""
import json
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import pytest
from conftest import SMALL, elmo_program, rows

import elmo


def ask(server, path, body, **headers):
    request = urllib.request.Request(server.url + path, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=60) as reply:
        return json.load(reply)


def wait_until(there):
    for _ in range(100):
        if there():
            return
        time.sleep(0.1)


def test_answers_are_the_runs(run, texts):
    lines = []
    with elmo.serve(run, port=0, threads=1, on_request=lines.append) as server:
        found = ask(server, "v1/predict", {"texts": texts[:20], "top": 3})["answers"]
        for theirs, ours in zip(found, run.predict(texts[:20], top=3), strict=True):
            assert [(p["label"], p["name"], np.float32(p["score"])) for p in theirs["labels"]] == \
                   [(p.label, p.name, np.float32(p.score)) for p in ours]
        explained = ask(server, "v1/explain", {"text": texts[0]})
        assert explained["labels"] == run.explain(texts[0]).labels
        assert b"<title>elmo</title>" in urllib.request.urlopen(server.url, timeout=60).read()
        assert server.reload() == 0
    assert [line.path for line in lines] == ["/v1/predict", "/v1/explain", "/"]
    assert lines[0].texts == 20 and lines[0].status == 200
    server.stop()  # once more is no error
    assert repr(server).endswith("stopped>")
    with pytest.raises(urllib.error.URLError):
        ask(server, "v1/predict", {"text": "a"})


def test_several_servers_and_python_beside_them(run, texts):
    with elmo.serve(run, port=0, threads=1) as one, elmo.serve(run, port=0, threads=1, top=1) as two:
        assert one.port != two.port
        found = {}
        threads = [threading.Thread(target=lambda s=s: found.update({s.port: ask(s, "v1/predict", {"text": texts[0]})}))
                   for s in (one, two)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(found[one.port]["answers"][0]["labels"]) == 5
        assert len(found[two.port]["answers"][0]["labels"]) == 1


def test_a_threshold_of_0_is_one():
    """As of predict: a request without one is answered with 5 labels."""
    texts, labels = [f"word{i % 150} n{i}" for i in range(600)], [[f"l{i % 150}"] for i in range(600)]
    run = elmo.train(texts=texts, labels=labels, encoder="linear", progress=False)

    def answered(server, **body):
        return len(ask(server, "v1/predict", {"text": texts[0], **body})["answers"][0]["labels"])

    with elmo.serve(run, port=0, threads=1) as server:
        assert answered(server) == len(run.predict(texts[:1])[0]) == 5
        assert answered(server, threshold=0) == len(run.predict(texts[:1], threshold=0)[0]) == 100
        assert answered(server, threshold=0, top=7) == 7
        tensor = ask(server, f"v2/models/{Path(run.path).name}/infer", {
            "inputs": [{"name": "text", "shape": [1], "datatype": "BYTES", "data": texts[:1]}], "parameters": {"threshold": 0}})
        assert tensor["outputs"][0]["shape"] == [1, 100]
    with elmo.serve(run, port=0, threads=1, threshold=0) as server:
        assert answered(server) == 100
    with elmo.serve(run, port=0, threads=1, threshold=0.99) as server:
        assert answered(server, threshold=0) == 100 > answered(server)
    for flags, count in (([], 5), (["--threshold", 0], 100), (["--threshold", 0, "--top", 3], 3)):
        printed = elmo_program("predict", run.path, "--text", texts[0], "--json", *flags)
        assert len(json.loads(printed.stdout)["labels"]) == count, printed.stderr


def test_tokens_and_wait(run):
    server = elmo.serve(run, port=0, threads=1, tokens=["secret"])
    with pytest.raises(urllib.error.HTTPError, match="401"):
        ask(server, "v1/predict", {"text": "a"})
    assert ask(server, "v1/predict", {"text": "a"}, Authorization="Bearer secret")["answers"]
    waiting = threading.Thread(target=server.wait)
    waiting.start()
    server.stop()
    waiting.join()


def test_a_listener_that_raises_harms_no_answer(run, monkeypatch):
    raised = []
    monkeypatch.setattr("sys.unraisablehook", lambda unraisable: raised.append(unraisable.exc_value))

    def fail(line):
        raise RuntimeError("no log")

    with elmo.serve(run, port=0, threads=1, on_request=fail) as server:
        assert ask(server, "v1/predict", {"text": "a"})["answers"]
    assert [str(error) for error in raised] == ["no log"]


def test_bad_input(run, tmp_path):
    with pytest.raises(elmo.ConfigError, match="found none"):
        elmo.serve()
    with pytest.raises(elmo.ConfigError, match=r"port: expected a whole number, found 'http' \(str\)"):
        elmo.serve(run, port="http")
    with pytest.raises(elmo.ConfigError, match="option 'epochs' does not belong to serve"):
        elmo.serve(run, port=0, epochs=3)
    with pytest.raises(elmo.DataError, match="expected the folder of a run"):
        elmo.serve(tmp_path / "nothing", port=0)
    with elmo.serve(run, port=0, threads=1) as server, pytest.raises(elmo.ConfigError, match="port"):
        elmo.serve(run, port=server.port)


def test_the_description_holds(run, tmp_path):
    """schemathesis asks what /openapi.json allows, and what it does not: no answer is a failure of the server."""
    pytest.importorskip("schemathesis")
    with elmo.serve(run, port=0, threads=1) as server:
        done = subprocess.run([Path(sys.executable).with_name("st"), "run", server.url + "openapi.json", "--max-examples", "3",
                               "--phases", "examples,coverage,fuzzing", "--checks",
                               "not_a_server_error,response_schema_conformance,content_type_conformance", "--seed", "1",
                               "--no-color"], capture_output=True, text=True, cwd=tmp_path, check=False)
        assert ask(server, "v1/predict", {"text": "still there"})["answers"]
    assert done.returncode == 0, done.stdout[-6000:]


def test_explained_labels_have_a_limit():
    names = [f"label {i}" for i in range(120)]
    run = elmo.train(texts=[f"text {name}" for name in names], labels=names, test_share=0, **SMALL | dict(epochs=1))
    with elmo.serve(run, port=0, threads=1) as server:
        assert len(ask(server, "v1/explain", {"text": "a text", "labels": names[:100]})["labels"]) == 100
        assert len(ask(server, "v1/explain", {"text": "a text", "labels": names, "top": 7})["labels"]) == 7
        with pytest.raises(urllib.error.HTTPError) as refused:
            ask(server, "v1/explain", {"text": "a text", "labels": names})
    assert "labels: expected up to 100 labels to explain, found 120" in json.load(refused.value)["error"]
    assert len(run.explain("a text", names).labels) == 120


def test_a_checkpoint_that_cannot_be_loaded_is_reported(run, tmp_path, caplog):
    run.save(tmp_path / "run")
    with elmo.serve(tmp_path / "run", port=0, threads=1) as server:
        before = ask(server, "v1/predict", {"text": "a red apple"})
        (tmp_path / "run/best/manifest.json").write_text("{}")
        server.reload()  # this, or the server by itself
        wait_until(lambda: caplog.records)
        assert ask(server, "v1/predict", {"text": "a red apple"})["checkpoint"] == before["checkpoint"]
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "run: the checkpoint that was loaded stays, the new one cannot be: " in caplog.text


def test_the_start_warns_of_nothing(caplog):
    texts, labels = rows()
    run = elmo.train(texts=[text.rstrip("0123456789") for text in texts], labels=labels, **SMALL | dict(epochs=1))
    caplog.clear()
    with elmo.serve(run, port=0, threads=1) as server:
        assert not caplog.records
        ask(server, "v1/predict", {"text": "顔 顔"})
        assert "mostly of tokens that the tokenizer does not know" in caplog.text


def test_one_token_is_a_list_too(run):
    """A text is a sequence of letters, each of which was a token."""
    with pytest.raises(elmo.ConfigError, match="tokens: expected a list of texts, found one text") as caught:
        elmo.serve(run, port=0, tokens="secret")
    assert "secret" not in str(caught.value)
    with pytest.raises(elmo.ConfigError, match=r"runs: expected a Run or its folder, found .*serve\(a, b\)"):
        elmo.serve([run, run], port=0)


def test_nothing_is_left_at_the_end_of_python(run):
    """The callback's globals hold the server, which holds the callback."""
    program = f"""if True:
        import elmo, sys
        first = elmo.serve({run.path!r}, port=0, threads=1, on_request=lambda line: None)
        second = elmo.serve({run.path!r}, port=0, threads=1, on_request=lambda line: print(first))
        second.stop()
    """
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stderr == ""
