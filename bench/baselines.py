#!/usr/bin/env python3
"""Other tools beside elmo on a CPU, same rows, one script.

    bench/baselines.py make SETS [--given FOLDER ...]
        makes the data sets: Debian packages (from apt's index) with their tags, section and dependencies; long texts
        (all descriptions of a source package -> who maintains it and what builds it); formal texts (the paths of a
        package's files -> its dependencies); Python docstrings with the names that the function calls; copies those
        given; and the first 10,000 rows of each
    bench/baselines.py run SETS --elmo build/elmo [--only NAME,...] [--tools elmo,pecos,omikuji,fasttext,sklearn]
        trains each tool with its defaults (TF-IDF of word 1- and 2-grams where a tool takes features), predicts the
        test rows, scores everything through `elmo eval --predictions`, prints a table and appends to SETS/results.jsonl

CPU seconds are user and system time of the whole process: reading, features, training and prediction. Memory is its
largest resident set. Splits are a hash of the text, so every machine with the same index makes the same rows.
Needs `pip install libpecos omikuji scikit-learn fasttext-wheel "scipy<1.14" "numpy<2"`; a tool that is not installed is
left out.
"""

import argparse
import ast
import glob
import gzip
import hashlib
import itertools
import json
import lzma
import os
import re
import resource
import shutil
import subprocess
import sys
import urllib.request
import warnings
from collections import Counter
from pathlib import Path

FEW = 10_000
THREADS = 2


# --- data sets -------------------------------------------------------------------------------------------------------


def write_set(folder, rows, least_rows=1):
    """rows: (text, labels). Labels in fewer training rows are left out, then rows without labels, equal texts too."""
    seen, kept = set(), []
    for text, labels in rows:
        text = " ".join(text.split())
        if text and labels and text not in seen:
            seen.add(text)
            kept.append((text, sorted(set(labels))))
    is_test = [int(hashlib.md5(t.encode()).hexdigest(), 16) % 5 == 0 for t, _ in kept]
    counts = Counter(l for (_, labels), test in zip(kept, is_test) if not test for l in labels)
    names = sorted(l for l, n in counts.items() if n >= least_rows)
    index = {name: i for i, name in enumerate(names)}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "Y.txt").write_text("".join(n + "\n" for n in names))
    for part, wanted in (("trn", False), ("tst", True)):
        chosen = [(t, [index[l] for l in labels if l in index]) for (t, labels), test in zip(kept, is_test) if test == wanted]
        chosen = [(t, l) for t, l in chosen if l]
        (folder / f"{part}_X.txt").write_text("".join(t + "\n" for t, _ in chosen))
        write_labels(folder / f"{part}_X_Y.txt", [l for _, l in chosen], len(names))
        print(f"{folder.name}: {part} {len(chosen)} rows, {len(names)} labels")


def write_labels(file, rows, num_labels):
    with open(file, "w") as out:
        out.write(f"{len(rows)} {num_labels}\n")
        for labels in rows:
            out.write(" ".join(f"{l}:1" for l in labels) + "\n")


def paragraphs(lists, pattern):
    """Paragraphs of apt's index files, as dictionaries."""
    for file in sorted(glob.glob(f"{lists}/{pattern}")):
        text = subprocess.run(["/usr/lib/apt/apt-helper", "cat-file", file], capture_output=True, check=True).stdout.decode("utf-8", "replace")
        for block in text.split("\n\n"):
            yield {m.group(1): m.group(2).strip() for m in re.finditer(r"^([A-Za-z0-9-]+):(.*(?:\n .*)*)", block, re.M)}


def debian_sets(sets, lists):
    if not glob.glob(f"{lists}/*Translation-en*"):
        os.makedirs(f"{lists}/partial", exist_ok=True)
        subprocess.run(["apt-get", "update", "-qq", "-o", "Acquire::Languages=en", "-o", f"Dir::State::lists={lists}"], check=True)
    long = {p["Package"]: p["Description-en"] for p in paragraphs(lists, "*Translation-en*") if "Description-en" in p}
    packages = {p["Package"]: p for p in paragraphs(lists, "*_Packages*") if "Package" in p}.items()
    text = lambda name, p: re.sub(r"\n \.(?=\n)", "\n", long.get(name, p.get("Description", "")))
    write_set(sets / "debian-tags", ((text(n, p), re.findall(r"[^\s,]+", p.get("Tag", ""))) for n, p in packages))
    write_set(sets / "debian-sections", ((text(n, p), [p["Section"]] if p.get("Section") else []) for n, p in packages))
    depends = lambda p: re.findall(r"(?:^|,)\s*([a-z0-9][a-z0-9+.-]+)", p.get("Depends", ""))
    write_set(sets / "debian-depends", ((p.get("Description", ""), depends(p)) for n, p in packages))


def index_file(lists, path):
    """Lines of a packed file of the Debian archive that apt does not keep."""
    file = Path(lists) / path.replace("/", "_")
    if not file.exists():
        file.write_bytes(urllib.request.urlopen(f"https://deb.debian.org/debian/dists/bookworm/main/{path}").read())
    with (lzma if path.endswith("xz") else gzip).open(file, "rt", encoding="utf-8", errors="replace") as lines:
        yield from lines


def long_and_formal_sets(sets, lists):
    long = {p["Package"]: p["Description-en"] for p in paragraphs(lists, "*Translation-en*") if "Description-en" in p}
    names = lambda field: re.findall(r"(?:^|,)\s*([a-z0-9][a-z0-9+.-]+)", field)

    def sources():
        for block in "".join(index_file(lists, "source/Sources.xz")).split("\n\n"):
            p = {m.group(1): m.group(2).strip() for m in re.finditer(r"^([A-Za-z0-9-]+):(.*(?:\n .*)*)", block, re.M)}
            people = re.findall(r"<([^>]+)>", p.get("Maintainer", "") + p.get("Uploaders", ""))
            text = " ".join(re.sub(r"\n \.(?=\n)", "\n", long.get(b, "")) for b in re.findall(r"[^\s,]+", p.get("Binary", "")))
            if len(text) > 600:
                yield text, names(p.get("Build-Depends", "")) + people

    def files():
        depends = {p["Package"]: names(p.get("Depends", "")) for p in paragraphs(lists, "*_Packages*") if "Package" in p}
        paths = {}
        for line in itertools.chain(index_file(lists, "Contents-all.gz"), index_file(lists, "Contents-amd64.gz")):
            path, _, owners = line.rstrip("\n").rpartition(" ")
            for owner in owners.split(","):
                mine = paths.setdefault(owner.rpartition("/")[2], [])
                if len(mine) < 40:
                    mine.append(path.strip())
        # packages in an order that says nothing about them: the first rows are a fair part of all
        for package in sorted(paths, key=lambda n: hashlib.md5(n.encode()).hexdigest()):
            yield " ".join(p for p in paths[package] if not p.startswith("usr/share/doc")), depends.get(package, [])

    write_set(sets / "debian-sources", sources())
    write_set(sets / "debian-files", files())


def docstring_set(sets):
    """Texts: docstrings of functions of this Python and its packages; labels: the names that the function calls."""
    def rows():
        warnings.simplefilter("ignore")
        roots = sorted({sys.base_prefix + "/lib", sys.prefix + "/lib"})
        for file in sorted(f for root in roots for f in glob.glob(root + "/**/*.py", recursive=True)):
            try:
                tree = ast.parse(Path(file).read_text())
            except (SyntaxError, ValueError, UnicodeDecodeError, RecursionError):
                continue
            for node in ast.walk(tree):
                if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                    continue
                text = ast.get_docstring(node)
                if not text or len(text) < 40:
                    continue
                called = set()
                for call in ast.walk(node):
                    if isinstance(call, ast.Call):
                        f = call.func
                        called.add(f.id if isinstance(f, ast.Name) else f.attr if isinstance(f, ast.Attribute) else "")
                yield text, [c for c in called if c]
    write_set(sets / "docstrings", rows(), least_rows=2)


def first_rows(folder, few):
    """A set of the first training rows of another, with the same test rows and the labels that are left."""
    train = read_labels(folder / "trn_X_Y.txt")[0]
    if len(train) <= FEW:
        return
    train = train[:FEW]
    left = sorted({l for row in train for l in row})
    index = {l: i for i, l in enumerate(left)}
    few.mkdir(exist_ok=True)
    texts = lambda name: (folder / name).read_text().split("\n")[:-1]
    names = texts("Y.txt")
    (few / "Y.txt").write_text("".join(names[l] + "\n" for l in left))
    (few / "trn_X.txt").write_text("".join(t + "\n" for t in texts("trn_X.txt")[:FEW]))
    write_labels(few / "trn_X_Y.txt", [[index[l] for l in row] for row in train], len(left))
    test = [[index[l] for l in row if l in index] for row in read_labels(folder / "tst_X_Y.txt")[0]]
    kept = [(t, l) for t, l in zip(texts("tst_X.txt"), test) if l]
    (few / "tst_X.txt").write_text("".join(t + "\n" for t, _ in kept))
    write_labels(few / "tst_X_Y.txt", [l for _, l in kept], len(left))


def make(args):
    sets = Path(args.sets)
    sets.mkdir(parents=True, exist_ok=True)
    for given in args.given or []:
        target = sets / Path(given).name
        if not target.exists():
            shutil.copytree(given, target)
    if not (sets / "debian-tags").exists():
        debian_sets(sets, args.lists)
    if not (sets / "debian-sources").exists():
        long_and_formal_sets(sets, args.lists)
    if not (sets / "docstrings").exists():
        docstring_set(sets)
    for folder in sorted(sets.iterdir()):
        if (folder / "trn_X.txt").exists() and not folder.name.endswith("-10k"):
            first_rows(folder, sets / (folder.name + "-10k"))


# --- reading ---------------------------------------------------------------------------------------------------------


def read_labels(file):
    with open(file) as lines:
        _, labels = map(int, next(lines).split())
        return [[int(p.split(":")[0]) for p in line.split()] for line in lines], labels


def read_bow(file):
    """A file of the repository: header, then labels and feature:value pairs."""
    import scipy.sparse as sp
    with open(file) as lines:
        rows, features, labels = map(int, next(lines).split())
        ys, data, cols, ptr = [], [], [], [0]
        for line in lines:
            first, _, rest = line.rstrip("\n").partition(" ")
            ys.append([int(l) for l in first.split(",") if l])
            for pair in rest.split():
                c, v = pair.split(":")
                cols.append(int(c)), data.append(float(v))
            ptr.append(len(cols))
    return sp.csr_matrix((data, cols, ptr), shape=(rows, features), dtype="float32"), ys, labels


def matrices(folder):
    """Features and labels of train and test: TF-IDF of word 1- and 2-grams, or the given bag of words."""
    import numpy as np
    import scipy.sparse as sp
    from sklearn.preprocessing import normalize
    if (folder / "train.txt").exists():
        x, train, labels = read_bow(folder / "train.txt")
        xt, test, _ = read_bow(folder / "test.txt")
        x, xt = normalize(x), normalize(xt)
    else:
        from sklearn.feature_extraction.text import TfidfVectorizer
        tfidf = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, dtype=np.float32)
        x = tfidf.fit_transform(open(folder / "trn_X.txt"))
        xt = tfidf.transform(open(folder / "tst_X.txt"))
        train, labels = read_labels(folder / "trn_X_Y.txt")
        test, _ = read_labels(folder / "tst_X_Y.txt")
    def to_csr(rows):
        ptr = np.cumsum([0] + [len(r) for r in rows])
        cols = np.array([l for r in rows for l in r], dtype=np.int32)
        return sp.csr_matrix((np.ones(len(cols), dtype=np.float32), cols, ptr), shape=(len(rows), labels))
    return x, to_csr(train), xt, train, labels


def write_predictions(file, rows, labels, num_rows):
    with open(file, "w") as out:
        out.write(f"{num_rows} {labels}\n")
        for row in rows:
            out.write(" ".join(f"{l}:{s:.8g}" for l, s in row) + "\n")


def csr_rows(matrix):
    for i in range(matrix.shape[0]):
        a, b = matrix.indptr[i], matrix.indptr[i + 1]
        yield sorted(zip(matrix.indices[a:b], matrix.data[a:b]), key=lambda p: -p[1])[:10]


# --- tools: each runs in a process of its own ------------------------------------------------------------------------


def tool_pecos(folder, out):
    from pecos.xmc import Indexer, LabelEmbeddingFactory
    from pecos.xmc.xlinear.model import XLinearModel
    x, y, xt, _, labels = matrices(folder)
    clusters = Indexer.gen(LabelEmbeddingFactory.create(y, x), threads=THREADS)
    model = XLinearModel.train(x, y, C=clusters, threads=THREADS)
    write_predictions(out, csr_rows(model.predict(xt, threads=THREADS)), labels, xt.shape[0])


def tool_omikuji(folder, out, work):
    import omikuji
    x, y, xt, train, labels = matrices(folder)
    source = work / "omikuji.svm"
    worded = [i for i in range(x.shape[0]) if x.indptr[i] < x.indptr[i + 1]]  # it refuses rows without features
    with open(source, "w") as f:
        f.write(f"{len(worded)} {x.shape[1]} {labels}\n")
        for i in worded:
            row, a, b = train[i], x.indptr[i], x.indptr[i + 1]
            f.write(",".join(map(str, row)) + " " + " ".join(f"{c}:{v:.6g}" for c, v in zip(x.indices[a:b], x.data[a:b])) + "\n")
    model = omikuji.Model.train_on_data(str(source), n_threads=THREADS)
    rows = []
    for i in range(xt.shape[0]):
        a, b = xt.indptr[i], xt.indptr[i + 1]
        rows.append(model.predict(list(zip(map(int, xt.indices[a:b]), map(float, xt.data[a:b]))), top_k=10))
    write_predictions(out, rows, labels, xt.shape[0])


def tool_fasttext(folder, out, work):
    import fasttext
    train, labels = read_labels(folder / "trn_X_Y.txt")
    clean = lambda t: " ".join(re.findall(r"\w+", t.lower()))
    with open(work / "fasttext.txt", "w") as f:
        for text, row in zip(open(folder / "trn_X.txt"), train):
            f.write(" ".join(f"__label__{l}" for l in row) + " " + clean(text) + "\n")
    model = fasttext.train_supervised(str(work / "fasttext.txt"), wordNgrams=2, thread=THREADS, loss="ova" if labels < 2000 else "hs", verbose=0)
    tests = [clean(t) for t in open(folder / "tst_X.txt")]
    rows = []
    for t in tests:
        predicted = model.f.predict(t + "\n", 10, 0.0, "strict")
        rows.append([(int(name[9:]), score) for score, name in predicted])
    write_predictions(out, rows, labels, len(tests))


def tool_sklearn(folder, out):
    """One-vs-rest LinearSVC: for few labels only."""
    import numpy as np
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.svm import LinearSVC
    x, y, xt, _, labels = matrices(folder)
    if labels > 1000:
        sys.exit("too many labels for one-vs-rest LinearSVC")
    scores = OneVsRestClassifier(LinearSVC(), n_jobs=1).fit(x, y).decision_function(xt)
    if scores.ndim == 1:
        scores = np.stack([-scores, scores], 1)
    best = np.argsort(-scores, axis=1)[:, :10]
    write_predictions(out, ([(l, scores[i, l]) for l in row] for i, row in enumerate(best)), labels, xt.shape[0])


def run_child(command, log):
    """Exit status, CPU seconds and peak MiB of a process with its children."""
    with open(log, "w") as f:
        process = subprocess.Popen(command, stdout=f, stderr=subprocess.STDOUT)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def elmo_data(folder):
    return folder / "train.txt" if (folder / "train.txt").exists() else folder


def score(elmo, folder, predictions):
    done = subprocess.run([elmo, "eval", "--predictions", predictions, elmo_data(folder), "--json", "--bootstrap", "0", "--quiet"],
                          capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    return json.loads(done.stdout)


def run_elmo(elmo, folder, work, flags):
    run, cache = work / "run", work / "cache"
    for f in (run, cache):
        shutil.rmtree(f, ignore_errors=True)
    predictions = work / "elmo.txt"
    common = ["--cache", cache, "--quiet", "--threads", str(THREADS)]
    status, cpu, peak = run_child([elmo, "train", elmo_data(folder), "--out", run, *common, *flags], work / "elmo.log")
    if status == 0:
        status, more, peak2 = run_child([elmo, "eval", run, elmo_data(folder), "--save-predictions", predictions, "--bootstrap", "0", *common], work / "elmo-eval.log")
        cpu, peak = cpu + more, max(peak, peak2)
    return status, cpu, peak, predictions


def run(args):
    sets = Path(args.sets)
    folders = [f for f in sorted(sets.iterdir()) if f.is_dir() and ((f / "trn_X.txt").exists() or (f / "train.txt").exists())]
    if args.only:
        folders = [f for f in folders if f.name in args.only.split(",")]
    print(f"{'set':24} {'tool':10} {'P@1':>6} {'P@3':>6} {'P@5':>6} {'PSP@5':>6} {'CPU s':>7} {'MiB':>6}", flush=True)
    for folder in folders:
        for tool in args.tools.split(","):
            work = sets / ".work" / folder.name
            work.mkdir(parents=True, exist_ok=True)
            if tool == "elmo":
                status, cpu, peak, predictions = run_elmo(args.elmo, folder, work, args.flags.split())
            else:
                predictions = work / (tool + ".txt")
                status, cpu, peak = run_child([sys.executable, __file__, "tool", tool, folder, predictions], work / (tool + ".log"))
            if status:
                print(f"{folder.name:24} {tool:10} failed, see {work}", flush=True)
                continue
            s = score(args.elmo, folder, predictions)
            row = {"set": folder.name, "tool": tool, **{k: s[k] for k in ("P@1", "P@3", "P@5", "PSP@5")}, "cpu_s": cpu, "peak_mib": peak}
            print(f"{folder.name:24} {tool:10} {row['P@1']:6.2f} {row['P@3']:6.2f} {row['P@5']:6.2f} {row['PSP@5']:6.2f} {cpu:7.1f} {peak:6.0f}", flush=True)
            with open(sets / "results.jsonl", "a") as f:
                f.write(json.dumps(row) + "\n")


def tool(args):
    folder, out = Path(args.folder), Path(args.out)
    function = globals()["tool_" + args.tool]
    function(*((folder, out, out.parent) if args.tool in ("omikuji", "fasttext") else (folder, out)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(required=True)
    p = verbs.add_parser("make")
    p.add_argument("sets")
    p.add_argument("--given", action="append", help="a data set folder to copy beside those made; may be repeated")
    p.add_argument("--lists", default="/tmp/apt-lists", help="apt's index files with translations; fetched when empty")
    p.set_defaults(call=make)
    p = verbs.add_parser("run")
    p.add_argument("sets")
    p.add_argument("--elmo", required=True)
    p.add_argument("--only", default="")
    p.add_argument("--tools", default="elmo,pecos,omikuji,fasttext,sklearn")
    p.add_argument("--flags", default="", help="further flags of elmo train")
    p.set_defaults(call=run)
    p = verbs.add_parser("tool")
    p.add_argument("tool"), p.add_argument("folder"), p.add_argument("out")
    p.set_defaults(call=tool)
    args = parser.parse_args()
    args.call(args)


if __name__ == "__main__":
    main()
