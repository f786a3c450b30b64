"""docs/python.md: every Python block is run, in order, and prints what stands below it. Docstrings and stubs, too."""
import contextlib
import io
import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import elmo_program

import elmo

PAGE = Path(__file__).parents[2] / "docs" / "python.md"


def test_the_page(tmp_path, monkeypatch):
    pytest.importorskip("sklearn")
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```(?:\n\n```\n(.*?)```)?", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) >= 9
    names = {}
    for code, expected in blocks:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, str(PAGE), "exec"), names)
        assert printed.getvalue() == expected, code


def test_docstrings_come_from_the_option_list():
    helps = {option.key: option.help for option in elmo.options()}
    for function, key in ((elmo.train, "head_lr"), (elmo.evaluate, "bootstrap"), (elmo.plan, "labels"),
                          (elmo.Predictor.__init__, "top"), (elmo.Run.calibrate, "threads"), (elmo.report, "bootstrap"),
                          (elmo.serve, "top"), (elmo.index, "threads"), (elmo.export, "checkpoint")):
        assert key + " : " in function.__doc__
        assert helps[key][:40] in re.sub(r"\s+", " ", function.__doc__)
    shown = set(re.findall(r"^ *(\w+) : ", elmo.Predictor.__init__.__doc__, re.MULTILINE))
    assert {"top", "threshold", "labels", "without"} <= shown and shown.isdisjoint(
        ("out", "with_text", "id_column", "text_column", "data", "format", "resume", "input", "cache", "test_share"))


def test_the_program_is_there():
    assert elmo_program("--version").stdout == f"elmo {elmo.__version__}\n"
    assert elmo_program("trian").returncode == 2
    as_module = subprocess.run([sys.executable, "-m", "elmo", "--version"], capture_output=True, text=True, check=True)
    assert as_module.stdout == f"elmo {elmo.__version__}\n"


def test_types(tmp_path):
    """mypy accepts a right program and names the mistakes of a wrong one."""
    pytest.importorskip("mypy")
    (tmp_path / "right.py").write_text(
        "import elmo\nimport numpy as np\n"
        "run: elmo.Run = elmo.train(texts=['a'], labels=[['b']], epochs=3, precision='bf16', encoder_lr='auto')\n"
        "names: list[list[str]] = run.predict(['a'], top=3).names\n"
        "first: elmo.Prediction = run.predict(['a'])[0][0]\n"
        "words: elmo.Result = run.explain('a', labels=['b'])\n"
        "page: elmo.Result = run.report(out='page.html', errors=3)\n"
        "made: elmo.Result = run.export('numpy', 'vectors', overwrite=True)\n"
        "compared: elmo.Result = elmo.compare(run, 'second', k=[3])\n"
        "index: elmo.Result = run.index(recall=0.9, threads=2)\n"
        "with elmo.serve(run, port=0, top=3) as server:\n    address: str = server.url\n"
        "try:\n    steps: int = run.result.steps\nexcept elmo.DataError as error:\n    print(error)\n"
        "p: np.ndarray = elmo.metrics.precision([[0]], [[0]])\n")
    (tmp_path / "wrong.py").write_text("import elmo\nelmo.train(texts=['a'], labels=['b'], epochs='three')\n"
                                       "elmo.train(texts=['a'], labels=['b'], epoch=3)\n"
                                       "elmo.Run('run').predict(['a'], out='answers.jsonl')\n"
                                       "elmo.Predictor('run', text_column='title')\n")
    done = subprocess.run([sys.executable, "-m", "mypy", "--cache-dir", tmp_path / "cache", "right.py", "wrong.py"],
                          capture_output=True, text=True, cwd=tmp_path, check=False)
    assert "right.py" not in done.stdout, done.stdout
    assert 'wrong.py:2: error: Argument "epochs"' in done.stdout and 'wrong.py:3: error: Unexpected keyword' in done.stdout
    assert 'wrong.py:4: error: Unexpected keyword' in done.stdout and 'wrong.py:5: error: Unexpected keyword' in done.stdout
