"""Ctrl-C, callbacks that raise, progress, and Python threads that run while training does."""
import signal
import subprocess
import sys
import textwrap
import threading

import pytest
from conftest import SMALL

import elmo

LONG = SMALL | dict(steps=100_000, log_every=1)
SCRIPT = """
import os, signal, sys
import elmo
from conftest import LONG_OPTIONS, rows
signal.signal(signal.SIGINT, signal.default_int_handler)  # it is ignored where tests run in the background
texts, labels = rows()
def interrupt(line):
    if line["event"] == "step" and line["step"] == 3:
        os.kill(os.getpid(), signal.SIGINT)
try:
    elmo.train(texts=texts, labels=labels, out=sys.argv[1], on_log=interrupt, **LONG_OPTIONS)
except KeyboardInterrupt:
    print("interrupted")
"""


def test_ctrl_c_keeps_the_run(tmp_path, texts):
    """In a process of its own, whose main thread gets the signal."""
    script = SCRIPT.replace("LONG_OPTIONS", repr(LONG), 2).replace(f"import {LONG!r}, rows", "import rows")
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script), tmp_path / "run"], capture_output=True, text=True,
                          cwd=__file__.rpartition("/")[0], check=False)
    assert done.stdout == "interrupted\n", done.stderr
    run = elmo.Run(tmp_path / "run")
    assert run.log[-1].event == "end" and run.log[-1].interrupted
    assert len(run.predict(texts[:2])) == 2


def test_a_callback_that_raises_ends_the_call_with_its_exception(tmp_path, texts, labels):
    def callback(line):
        if line["event"] == "step" and line["step"] > 2:
            raise LookupError("from the callback")

    with pytest.raises(LookupError, match="from the callback"):
        elmo.train(texts=texts, labels=labels, out=tmp_path / "run", on_log=callback, **LONG)
    assert elmo.Run(tmp_path / "run").log[-1].interrupted


def test_callbacks_run_on_the_callers_thread(texts, labels):
    seen = set()
    elmo.train(texts=texts, labels=labels, on_log=lambda line: seen.add(threading.get_ident()), **SMALL)
    assert seen == {threading.get_ident()}


def test_other_threads_run_meanwhile(texts, labels):
    """Training goes on until another Python thread has done something, so that thread must get its turns."""
    turns = threading.Event()
    threading.Thread(target=lambda: [sum(range(1000)) for _ in range(200)] and turns.set()).start()
    run = elmo.train(texts=texts, labels=labels, on_log=lambda line: turns.is_set(), **LONG)
    assert turns.is_set() and run.result.interrupted


def test_evaluation_can_be_interrupted(monkeypatch, run, texts, labels):
    from elmo._listener import Listener

    def broken(self, *report):
        raise KeyboardInterrupt

    monkeypatch.setattr(Listener, "progress", broken)
    with pytest.raises(KeyboardInterrupt):
        run.evaluate(texts=texts, labels=labels)


def test_progress_bars(monkeypatch, texts, labels, capsys):
    pytest.importorskip("tqdm")
    elmo.train(texts=texts, labels=labels, progress=True, **SMALL)
    shown = capsys.readouterr().err
    assert "training" in shown and "100%" in shown
    monkeypatch.delitem(sys.modules, "ipykernel", raising=False)  # a notebook may have been run before
    elmo.train(texts=texts, labels=labels, **SMALL)  # no terminal: no bar
    assert "training" not in capsys.readouterr().err


def test_messages_are_logged(texts, labels, caplog):
    with caplog.at_level("INFO", logger="elmo"):
        elmo.train(texts=texts, labels=labels, **SMALL)
    assert any("training texts" in record.message for record in caplog.records)


def test_signal_handlers_are_left_alone(run, texts):
    before = signal.getsignal(signal.SIGINT)
    run.predict(texts)
    assert signal.getsignal(signal.SIGINT) is before
