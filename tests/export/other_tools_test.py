#!/usr/bin/env python3
"""What `elmo export` writes, in the tools that it is for: NumPy, sentence-transformers, onnxruntime.

    other_tools_test.py ELMO [numpy|sentence-transformers|onnx ...]

Trains tiny runs of every family of encoders, exports them, and compares vectors and labels with what
`elmo serve` answers. Leaves with status 77 (skipped) if a package is not installed.
"""
import json
import os
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

FAMILIES = {
    "bert": {"type_vocab_size": 2},
    "distilbert": {"dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 32},
    "roberta": {"type_vocab_size": 1, "pad_token_id": 0, "layer_norm_eps": 1e-5},
    "xlm-roberta": {"type_vocab_size": 1, "pad_token_id": 0, "layer_norm_eps": 1e-5},
    "mpnet": {"pad_token_id": 1, "relative_attention_num_buckets": 32, "layer_norm_eps": 1e-5},
}
WIDTH, INNER, LAYERS, LENGTH, LABELS = 16, 32, 2, 22, 37
WORDS = ["%s%s%so" % ("bdfglmnprstz"[l % 12], "aeiou"[l // 12 % 5], "xkv"[l // 60 % 3]) for l in range(LABELS)]


def missing(package):
    print(f"skipped: {package} is not installed")
    sys.exit(77)


def text_of(i):
    a, b = i % LABELS, (7 * i + 3) % LABELS
    return f"the thing {WORDS[a]} beside {WORDS[b]} number {i % 5}" + " and more" * (i % 9)


TEXTS = [text_of(11 * i) for i in range(60)]


def write_data(folder):
    folder.mkdir()
    for part, rows in (("trn", 150), ("tst", 40)):
        labels = [sorted({i % LABELS, (7 * i + 3) % LABELS}) for i in range(rows)]
        (folder / f"{part}_X.txt").write_text("".join(text_of(i) + "\n" for i in range(rows)))
        (folder / f"{part}_X_Y.txt").write_text(
            f"{rows} {LABELS}\n" + "".join(" ".join(f"{l}:1" for l in row) + "\n" for row in labels))
    (folder / "Y.txt").write_text("".join(f"kind {l}\n" for l in range(LABELS)))


class Runs:
    def __init__(self, elmo, folder):
        self.elmo, self.folder = elmo, Path(folder)
        write_data(self.folder / "data")

    def call(self, *words):
        done = subprocess.run([self.elmo, *map(str, words)], capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"elmo {' '.join(map(str, words))}: {done.stderr}")
        return done.stdout

    def train(self, name, encoder, *options):
        run = self.folder / name
        self.call("train", self.folder / "data", "--out", run, "--encoder", encoder, "--vocab-size", 300,
                  "--steps", 60, "--max-length", LENGTH, "--validation", 0.1, "--device", "cpu",
                  "--augment", "none", "--encoder-lr", 0.01, *options)
        return run

    def transformer(self, family, *options, name=None):
        config = {"model_type": family, "vocab_size": 400, "hidden_size": WIDTH, "num_hidden_layers": LAYERS,
                  "num_attention_heads": 2, "intermediate_size": INNER, "max_position_embeddings": LENGTH + 2,
                  "hidden_act": "gelu", "activation": "gelu", **FAMILIES[family]}
        folder = self.folder / f"{name or family}-encoder"
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps(config))
        return self.train(name or family, folder, "--encoder-precision", "fp32", *options)

    def export(self, run, to, *options):
        out = self.folder / f"{run.name}-{to}"
        self.call("export", run, "--to", to, "--out", out, *options)
        return out

    def ask(self, run, route, **fields):
        """One answer of `elmo serve`."""
        server = subprocess.Popen([self.elmo, "serve", run, "--port", "0", "--device", "cpu", "--no-log"],
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            port = json.loads(server.stdout.readline())["port"]
            request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/{route}", json.dumps(fields).encode())
            with urllib.request.urlopen(request) as reply:
                return json.load(reply)
        finally:
            server.terminate()
            server.wait()

    def vectors(self, run, texts):
        import numpy as np
        return np.array(self.ask(run, "embed", texts=texts)["vectors"], dtype=np.float32)

    def labels(self, run, texts, top=5):
        return [answer["labels"] for answer in self.ask(run, "predict", texts=texts, top=top)["answers"]]


def readme_code(folder):
    text = (folder / "README.md").read_text(encoding="utf-8")
    return text.split("```python\n")[1].split("```")[0]


def test_numpy(runs):
    try:
        import numpy as np
    except ImportError:
        missing("numpy")
    for precision in ("fp32", "bf16", "fp8", "e3m4", "e2m5", "e2m3", "e2m1"):
        run = runs.train(f"bag-{precision}", "bag", "--width", WIDTH, "--precision", precision)
        folder = runs.export(run, "numpy")
        vectors = np.load(folder / "labels.npy")
        assert vectors.shape == (LABELS, WIDTH)
        assert vectors.dtype == (np.float16 if precision in ("fp8", "e3m4") else np.float32)
        assert (folder / "labels.txt").read_text() == "".join(f"kind {l}\n" for l in range(LABELS))
        x = runs.vectors(run, TEXTS)
        # float32 sums of WIDTH terms; with fp8 elmo rounds x to E4M3 first: half of its last place.
        step = 2.0 ** -4 if precision == "fp8" else 2 * WIDTH * 2.0 ** -24
        error = np.abs(x) @ np.abs(vectors.astype(np.float32)).T * step + 1e-6
        scores = x.astype(np.float64) @ vectors.astype(np.float64).T
        worst = 0.0
        for row, bound, answer in zip(scores, error, runs.labels(run, TEXTS, top=LABELS)):
            for label in answer:
                difference = abs(row[label["label"]] - label["score"])
                assert difference <= bound[label["label"]], (precision, label, row[label["label"]])
                worst = max(worst, difference)
        print(f"numpy, {precision}: {vectors.dtype}, scores of {len(TEXTS)} texts within {worst:.2e} of elmo's")
    try:
        import elmo  # noqa: F401
    except ImportError:
        print("numpy: the README's code was not run: the package elmo is not installed")
        return
    code = readme_code(folder).replace("RUN", repr(str(run)))
    subprocess.run([sys.executable, "-c", code], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    print("numpy: the README's code runs")


def test_sentence_transformers(runs):
    try:
        import numpy as np
        from sentence_transformers import SentenceTransformer
    except ImportError as error:
        missing(error.name)
    for family, options in [(family, ()) for family in FAMILIES] + [("bert", ("--pooling", "cls"))]:
        run = runs.transformer(family, *options, name=f"{family}{'-cls' if options else ''}-st")
        folder = runs.export(run, "sentence-transformers")
        model = SentenceTransformer(str(folder), device="cpu")
        assert model.max_seq_length == LENGTH, model.max_seq_length
        single = model.encode(TEXTS)
        exact = model.double().encode(TEXTS).astype(np.float64)
        ours = runs.vectors(run, TEXTS)
        # elmo rounds the vector to BF16: half of its last place. Inside both compute in float32: sums of as
        # many terms as a layer has inputs, one after another.
        terms = LAYERS * (3 * WIDTH + INNER + LENGTH) + WIDTH
        largest = np.abs(exact).max()
        float32 = 4 * terms * 2.0 ** -24 * largest
        assert np.all(np.abs(single - exact) <= float32), np.abs(single - exact).max()
        assert np.all(np.abs(ours - exact) <= 2.0 ** -8 * np.abs(exact) + float32), np.abs(ours - exact).max()
        assert np.abs(exact - exact.mean(0)).max() > 100 * float32  # the texts do differ
        print(f"sentence-transformers, {family} {' '.join(options)}: numbers up to {largest:.2f}; float32 within "
              f"{np.abs(single - exact).max():.1e} (bound {float32:.1e}), elmo, which rounds to BF16, within "
              f"{np.abs(ours - exact).max():.1e}")


def test_onnx(runs):
    try:
        import numpy as np
        import onnxruntime  # noqa: F401, the README's code
        from tokenizers import Tokenizer  # noqa: F401
    except ImportError as error:
        missing(error.name)
    cases = [(family, ()) for family in FAMILIES]
    cases += [("bert", ("--pooling", "cls")), ("bert", ("--precision", "fp8")), ("bert", ("--precision", "e2m5"))]
    for family, options in cases:
        name = "-".join([family, *(o.lstrip("-") for o in options), "onnx"])
        run = runs.transformer(family, *options, name=name)
        folder = runs.export(run, "onnx")
        try:
            import onnx
            onnx.checker.check_model(str(folder / "model.onnx"), full_check=True)
        except ImportError:
            print("onnx: the model was not checked: the package onnx is not installed")
        found = {"TEXTS": TEXTS}
        code = readme_code(folder).replace('texts = ["a text to label"]', "texts = TEXTS").replace("print(", "kept = (")
        before = os.getcwd()
        os.chdir(folder)
        try:
            exec(code, found)
        finally:
            os.chdir(before)
        vectors, all_scores, all_labels = found["session"].run(
            ["text_vectors", "scores", "labels"], {**found["inputs"], "k": np.array([LABELS])})
        answers = runs.labels(run, TEXTS, top=LABELS)
        weights = np.load(runs.export(run, "numpy") / "labels.npy").astype(np.float64)
        ours = runs.vectors(run, TEXTS)
        # Elements of the text vector may round to either neighbour, in BF16 and again in E4M3.
        step = 2.0 ** -7 if "fp8" not in options else 2.0 ** -3
        assert np.all(np.abs(vectors - ours) <= 2.0 ** -7 * np.abs(ours) + 1e-4)
        bound = (np.abs(ours) * step + 1e-4) @ np.abs(weights).T
        equal = 0
        for i, answer in enumerate(answers):
            score = dict(zip(all_labels[i], all_scores[i]))
            for entry in answer:
                assert abs(score[entry["label"]] - entry["score"]) <= bound[i, entry["label"]]
            best = [entry["label"] for entry in answer[:5]]
            equal += best == list(found["labels"][i])
            for label, other in zip(best, found["labels"][i]):  # another label: no better than the rounding
                gap = abs(score[label] - score[other])
                assert label == other or gap <= bound[i, label] + bound[i, other], (i, label, other, gap)
        assert equal >= 0.9 * len(TEXTS), equal
        print(f"onnx, {name}: {equal} of {len(TEXTS)} texts have the same five labels in the same order")


TESTS = {"numpy": test_numpy, "sentence-transformers": test_sentence_transformers, "onnx": test_onnx}


def main():
    elmo, names = sys.argv[1], sys.argv[2:] or list(TESTS)
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            TESTS[name](Runs(elmo, folder))


if __name__ == "__main__":
    main()
