#!/usr/bin/env python3
"""Are the defaults good on data that had no part in choosing them? The defaults beside a random search.

    bench/defaults_search.py make SETS [--train-rows 6000]
        makes five data sets: Debian changelogs (an entry -> package and author, as numbers), manual pages (a
        description -> the pages of SEE ALSO), FOLDOC (a computing term's definition without its links -> fields and
        linked terms; package dict-foldoc), PyPI projects (a description -> classifiers; asks pypi.org), other PyPI
        projects (name and summary -> keywords); with --train-rows the training rows beyond are test rows.
        With --unpacked FOLDER, where `dpkg -x` has put edict, linux-source-6.1 (its Kconfig files under FOLDER/k),
        unicode-cldr-core and doc-rfc-* (non-free), six more: kanji (what a Japanese word means -> the characters it is
        written with), kconfig (a kernel option's question and help -> the options it needs or selects), rfc (title and
        first words of an RFC -> the RFCs it cites and its working group), rfc-long (the same, whole texts, fewer rows), emoji (names
        of emoji in ten languages -> search words in that language), messages (messages of installed programs in all
        their languages -> language and program, as numbers)
    bench/defaults_search.py run SETS --elmo build/bin/elmo --encoder all-MiniLM-L6-v2 [--only NAME,...] [--runs 20]
            [--jobs 8] [--seconds 230]
        trains with nothing but data and encoder, then with numbers drawn at random, several runs side by side, until
        the time is over; appends each score to SETS/search.jsonl and does not repeat what is there
    bench/defaults_search.py again SETS --elmo build/bin/elmo --encoder all-MiniLM-L6-v2
        trains the best of the search by validation once more, with as many training rows as the defaults have
    bench/defaults_search.py table SETS
        chooses the best of the search by validation and prints its test scores beside those of the defaults

The search runs validate on a tenth of the training rows, because it chooses by that score; so does a second run of the
defaults, which is the fair one to compare with. Draws are a function of the run's number, so a search can be continued.
"""

import argparse
import concurrent.futures as futures
import gettext
import glob
import gzip
import hashlib
import html
import json
import os
import random
import re
import shutil
import ssl
import subprocess
import threading
import time
import urllib.request
from pathlib import Path

from baselines import read_labels, write_labels, write_set

# --- data sets -------------------------------------------------------------------------------------------------------


def changelog_rows():
    """Entries that only one package has, with package and author. Their names would say nothing: numbers stand for them."""
    packages, numbers = {}, {}
    number = lambda kind, name: f"{kind}{numbers.setdefault((kind, name), len(numbers))}"
    head = r"(\S+) \([^)]*\) [^;\n]*; urgency"
    for file in sorted(glob.glob("/usr/share/doc/*/changelog*.gz")):
        text = gzip.open(file, "rt", encoding="utf-8", errors="replace").read()
        for block in re.split(rf"\n(?={head})", text):
            package = re.match(head, block)
            author = re.search(r"^ -- .*<(\S+)>  ", block, re.M)
            if not package or not author:
                continue
            for entry in re.split(r"\n  \* ", block)[1:]:
                entry = " ".join(re.split(r"\n -- ", entry)[0].split())
                packages.setdefault(entry, {}).setdefault(package[1], author[1])
    for entry, found in sorted(packages.items()):
        if len(found) == 1 and len(entry) > 20:
            (package, author), = found.items()
            yield entry[:300], [number("p", package), number("a", author)]


def plain(roff):
    """The words of a manual page's source."""
    roff = re.sub(r'^[.\']\\".*$', "", roff, flags=re.M)
    roff = re.sub(r"^[.'][A-Za-z]+ ?", "", roff, flags=re.M)
    roff = re.sub(r"\\f(\[\w*\]|\(..|.)|\\s[-+]?\d", "", roff)
    roff = roff.replace("\\-", "-").replace("\\&", "").replace("\\(aq", "'").replace("\\e", "\\")
    return re.sub(r"\\(\(..|\[[^\]]*\]|.)", " ", roff)


def manual_rows(root):
    for file in sorted(glob.glob(f"{root}/man[1-9]/*.gz")):
        name, section = re.match(r"(.*)\.(\d\w*)\.gz$", os.path.basename(file)).groups()
        if name.startswith("gcloud"):  # 17,000 pages made by one program
            continue
        page = gzip.open(file, "rt", encoding="utf-8", errors="replace").read()
        parts = dict(re.findall(r'^\.S[Hh] "?([A-Z ]+?)"? *\n(.*?)(?=^\.S[Hh] |\Z)', page, re.M | re.S))
        see = plain(parts.get("SEE ALSO", ""))
        pages = {f"{n} {s}" for n, s in re.findall(r"([A-Za-z_][\w.:+-]*) ?\(?(\d)\w*\)?", see)} - {f"{name} {section[0]}"}
        text = " ".join((plain(parts.get("NAME", "")) + " " + plain(parts.get("DESCRIPTION", ""))).split())
        if len(text) > 100:
            yield text[:900], sorted(pages)


def foldoc_rows(folder):
    """Definitions without the terms that they link to; the links and fields are the labels."""
    text = gzip.open(f"{folder}/foldoc.dict.dz", "rt", encoding="utf-8", errors="replace").read()
    for entry in re.split(r"\n(?=\S)", re.sub(r"\n(?=\S.*\n\S)", ", ", text)):
        head, _, body = entry.partition("\n\n")
        fields, body = re.match(r"(?:<([^>]*)> *)?(.*)", " ".join(body.split())).groups(default="")
        links = [link.lower() for link in re.findall(r"{([^{}]{2,40})}", body) if not re.search(r"http|\(", link)]
        body = " ".join(re.sub(r"{[^{}]*}|\(\d{4}-\d\d-\d\d\)", "", body).split())
        yield f"{head}: {body[:400]}", links + ["field " + f.strip().lower() for f in fields.split(",") if f.strip()]


def pypi_infos(first, last):
    """What PyPI says about projects, in an order that says nothing about them."""
    context = ssl.create_default_context()  # one for all: making one costs more than a request

    def info(name):
        try:
            return json.load(urllib.request.urlopen(f"https://pypi.org/pypi/{name}/json", timeout=30, context=context))["info"]
        except OSError:
            return None

    listed = re.findall(r'href="(?:/simple/)?([^"/]+)/"', urllib.request.urlopen("https://pypi.org/simple/").read().decode())
    names = sorted(listed, key=lambda n: hashlib.md5(n.encode()).hexdigest())[first:last]
    with futures.ThreadPoolExecutor(24) as pool:
        return [i for i in pool.map(info, names) if i]


def classifier_rows(infos):
    for info in infos:
        text = re.sub(r"<[^>]*>|https?://\S+|[#*=~`|_-]{2,}", " ", html.unescape(info["description"] or ""))
        topics = [c for c in info["classifiers"] if re.match(r"Topic|Framework|Intended|Operating|Environment|License|Development", c)]
        text = f"{info['name']}: {info['summary'] or ''} {' '.join(text.split())[:350]}"
        if len(text) > 60:
            yield text, [c.split(" :: ")[-1] for c in topics]


def keyword_rows(infos):
    for info in infos:
        given = info["keywords"] or ""
        words = re.split(r"[,;]" if re.search(r"[,;]", given) else r"\s+", given.lower())
        words = [" ".join(w.split()).strip("'\"[]") for w in words]
        if info["summary"]:
            yield f"{info['name']}: {info['summary'][:300]}", [w for w in words if 1 < len(w) < 40]


def kanji_rows(root):
    lines = open(f"{root}/usr/share/edict/edict", encoding="euc-jp", errors="replace").read().split("\n")[1:]
    for line in lines:
        word, _, rest = line.partition(" ")
        gloss = re.sub(r"\([^)]*\)|Ent[LX]\w+", " ", rest.partition("/")[2].replace("/", ", "))
        yield " ".join(re.sub(r"[\s,]*,[\s,]*", ", ", gloss).strip(" ,").split())[:120], re.findall("[\u4e00-\u9fff]", word)


def kconfig_rows(root):
    for file in sorted(glob.glob(f"{root}/k/**/Kconfig*", recursive=True)):
        for block in re.split(r"^(?:menu)?config ", open(file, errors="replace").read(), flags=re.M)[1:]:
            asked = re.search(r'^\s+(?:bool|tristate|prompt) "([^"]*)"', block, re.M)
            told = re.search(r"^\s+(?:---)?help(?:---)?\n((?:[ \t].*\n|\n)*)", block, re.M)
            needs = " ".join(re.findall(r"^\s+(?:depends on|select|imply) (.*)", block[: told.start() if told else None], re.M))
            if asked and told:
                yield f"{asked[1]}: {' '.join(told[1].split())}"[:900], re.findall(r"\b[A-Z][A-Z0-9_]+\b", needs)


def rfc_rows(root, most):
    """The RFCs that a text cites are taken out of it; titles stand for them."""
    about = {}
    for file in sorted(glob.glob(f"{root}/usr/share/doc/RFC/*/rfc*.json")):
        entry = json.load(open(file))
        about[int(entry["doc_id"][3:])] = (Path(file), " ".join(entry["title"].split()), entry["source"].strip())
    for number, (file, title, group) in sorted(about.items()):
        try:
            text = gzip.open(file.with_suffix(".txt.gz"), "rt", encoding="utf-8", errors="replace").read()
        except OSError:
            continue
        cited = {int(n) for n in re.findall(r"RFC[ -]?(\d{1,4})", text)} & set(about) - {number}
        text = re.sub(r"\S*RFC[ -]?\d+\S*|^.*\[Page \d+\]$|[.]{4,}", " ", text, flags=re.M)
        start = re.search(r"^\s*(?:Abstract|1\.?\s+Introduction)", text, re.M)
        text = " ".join(text[start.start() if start else 800 :].split())
        yield f"{title}. {text}"[:most], [about[n][1] for n in cited] + (["group " + group] if group else [])


def emoji_rows(root):
    for language in "de fr es ru it pl tr fi el ja".split():
        file = open(f"{root}/usr/share/unicode/cldr/common/annotations/{language}.xml", encoding="utf-8").read()
        name = dict(re.findall(r'<annotation cp="([^"]*)" type="tts">([^<]*)<', file))
        for sign, words in re.findall(r'<annotation cp="([^"]*)">([^<]*)<', file):
            yield name.get(sign, ""), [f"{language} {w.strip()}" for w in words.split("|") if w.strip() != name.get(sign)]


def message_rows(most):
    rows, numbers = [], {}
    number = lambda kind, name: f"{kind}{numbers.setdefault((kind, name), len(numbers))}"
    for file in sorted(glob.glob("/usr/share/locale/*/LC_MESSAGES/*.mo")):
        with open(file, "rb") as mo:
            try:
                catalogue = gettext.GNUTranslations(mo)._catalog
            except (OSError, UnicodeDecodeError, IndexError):
                continue
        labels = [number("l", file.split("/")[4]), number("p", Path(file).stem)]
        rows += [(text, labels) for text in set(catalogue.values()) if isinstance(text, str) and 10 < len(text) < 300]
    return some(rows, most)


def some(rows, most):
    """So many of the rows, in an order that says nothing about them."""
    return sorted(rows, key=lambda row: hashlib.md5(row[0].encode()).hexdigest())[:most]


def fewer_rows(folder, most):
    """Training rows beyond so many become test rows: a run takes less time, and its score has less noise. Labels that no
    training row is left for go."""
    texts = {part: (folder / f"{part}_X.txt").read_text().split("\n")[:-1] for part in ("trn", "tst")}
    labels = {part: read_labels(folder / f"{part}_X_Y.txt")[0] for part in ("trn", "tst")}
    names = (folder / "Y.txt").read_text().split("\n")[:-1]
    order = sorted(range(len(texts["trn"])), key=lambda i: hashlib.md5(texts["trn"][i].encode()).hexdigest())
    rows = [(texts["trn"][i], labels["trn"][i]) for i in order]
    parts = {"trn": rows[:most], "tst": rows[most:] + list(zip(texts["tst"], labels["tst"]))}
    left = sorted({l for _, row in parts["trn"] for l in row})
    index = {l: i for i, l in enumerate(left)}
    (folder / "Y.txt").write_text("".join(names[l] + "\n" for l in left))
    for part, rows in parts.items():
        kept = [(text, [index[l] for l in row if l in index]) for text, row in rows]
        kept = [(text, row) for text, row in kept if row]
        (folder / f"{part}_X.txt").write_text("".join(text + "\n" for text, _ in kept))
        write_labels(folder / f"{part}_X_Y.txt", [row for _, row in kept], len(left))
        print(f"{folder.name}: {part} {len(kept)} rows, {len(left)} labels")


def make(args):
    sets = Path(args.sets)
    kinds = {
        "changelogs": changelog_rows,
        "manual-pages": lambda: [row for root in args.manuals for row in manual_rows(root)],
        "foldoc": lambda: foldoc_rows(args.foldoc),
        "pypi": lambda: classifier_rows(pypi_infos(0, args.projects)),
        "keywords": lambda: keyword_rows(pypi_infos(args.projects, 4 * args.projects)),
    }
    if args.unpacked:
        kinds |= {
            "kanji": lambda: some(kanji_rows(args.unpacked), 40_000),
            "kconfig": lambda: kconfig_rows(args.unpacked),
            "rfc": lambda: rfc_rows(args.unpacked, 1500),
            "rfc-long": lambda: some(rfc_rows(args.unpacked, 20_000), 4_000),
            "emoji": lambda: emoji_rows(args.unpacked),
            "messages": lambda: message_rows(40_000),
        }
    for name, rows in kinds.items():
        if (sets / name).exists() or (args.only and name not in args.only.split(",")):
            continue
        write_set(sets / name, rows(), least_rows=2)
        if args.train_rows:
            fewer_rows(sets / name, args.train_rows)


# --- the search ------------------------------------------------------------------------------------------------------


def drawn(number, rows, has_names):
    """The numbers of a run of the search: a function of its number."""
    draw = random.Random(number)
    flags = {
        "encoder-lr": round(10 ** draw.uniform(-4.2, -3.2), 6),
        "head-lr": draw.choice([0.02, 0.05, 0.1, 0.2]),
        "dropout": draw.choice([0.2, 0.3, 0.4, 0.5, 0.6]),
        "batch-size": draw.choice([64, 128, 128, 256]),
    }
    flags["epochs"] = min(150, max(3, round(10 ** draw.uniform(5.3, 6.1) / rows)))
    flags["eval-every"] = max(1, round(flags["epochs"] / 10))
    augment = draw.choice(["none", "labels"])
    flags["augment"] = augment if has_names else "none"
    return flags


def keep_highest(run, ended):
    """Keeps the checkpoint with the highest validation score while a run trains: `best/` goes on to later ones. Its files
    are never changed, only replaced, so that links to them are enough."""
    seen, kept = None, Path(f"{run}-highest")
    while True:
        last_look = ended.is_set()
        try:
            here = os.stat(run / "best").st_ino
            if here != seen:
                shutil.rmtree(f"{kept}-new", ignore_errors=True)
                shutil.copytree(run / "best", f"{kept}-new/best", copy_function=os.link)
                state = json.load(open(f"{kept}-new/best/state.json"))
                if os.stat(run / "best").st_ino != here:
                    continue
                seen = here
                if state["best_score"] >= state["top_score"]:
                    shutil.rmtree(kept, ignore_errors=True)
                    os.rename(f"{kept}-new", kept)
        except (OSError, shutil.Error):  # there is none yet, or it was replaced meanwhile
            pass
        if last_look:
            return
        time.sleep(0.01)


def train_and_score(args, folder, number, flags):
    run = Path(args.scratch) / f"{folder.name}-{number}"
    shutil.rmtree(run, ignore_errors=True)
    given = [f"--{k}={v}" for k, v in flags.items()]
    began = time.time()
    limit = lambda: max(1, args.until - time.time())
    result = {"set": folder.name, "run": number, "flags": flags}
    is_draw = isinstance(number, int)
    ended = threading.Event()
    watch = threading.Thread(target=keep_highest, args=(run, ended))
    try:
        log = open(f"{run}.log", "w")
        if not is_draw:
            watch.start()
        subprocess.run([args.elmo, "train", str(folder), "--out", str(run), "--encoder", args.encoder, "--cache", f"{run}-cache",
                        f"--threads={max(1, (os.cpu_count() or 1) // args.jobs)}", *given], stdout=log, stderr=log, timeout=limit(), check=True)
        lines = [json.loads(line) for line in open(run / "log.jsonl")]
        result["validation"] = [e for e in lines if "best_score" in e][-1]["best_score"]
        result["best_step"] = [e for e in lines if "best_step" in e][-1]["best_step"]
        # (step, score) of each validation: whether more or fewer epochs would do shows in them
        result["validations"] = [(e["step"], round(e["P@1"], 2)) for e in lines if e.get("event") == "validation"]
        result["train_seconds"] = round(time.time() - began, 1)
        # of the defaults also the last checkpoint and the one with the highest score: what the choice of the best gains
        wanted = [("test", run, "best")]
        if not is_draw:
            ended.set()
            watch.join()
            wanted += [("last", run, "last"), ("highest", f"{run}-highest", "best")]
            result["highest_step"] = json.load(open(f"{run}-highest/best/state.json"))["step"]
        for name, where, checkpoint in wanted:
            scores = subprocess.run([args.elmo, "eval", str(where), str(folder), "--checkpoint", checkpoint, "--bootstrap=0", "--json"],
                                    stdout=subprocess.PIPE, stderr=log, timeout=limit(), check=True)
            result[name] = json.loads(scores.stdout)
        result["seconds"] = round(time.time() - began, 1)
    except (subprocess.TimeoutExpired, subprocess.CalledProcessError) as error:
        result["failed"] = str(error)[-200:] + ": " + open(f"{run}.log").read()[-300:]
    ended.set()
    for made in ("", "-cache", "-highest", "-highest-new"):
        shutil.rmtree(f"{run}{made}", ignore_errors=True)
    return result


def run(args):
    sets, file = Path(args.sets), Path(args.sets) / "search.jsonl"
    args.until = time.time() + args.seconds
    done = {(r["set"], r["run"]) for r in map(json.loads, open(file))} if file.exists() else set()
    tasks = []
    for folder in sorted(f for f in sets.iterdir() if (f / "trn_X.txt").exists()):
        if args.only and folder.name not in args.only.split(","):
            continue
        rows = sum(1 for _ in open(folder / "trn_X.txt"))
        has_names = sum(bool(re.search("[a-z]{3}", line.lower())) for line in open(folder / "Y.txt")) > 0
        tenth = {"validation": 0.1}
        tasks.append((0, folder, "defaults", {}))
        if not args.few:
            tasks.append((1, folder, "defaults, a tenth validates", tenth))
        if has_names and not args.few:  # what the rule for label texts gives
            tasks += [(1, folder, f"defaults, augment {a}", {"augment": a, **tenth}) for a in ("none", "labels")]
        tasks += [(2 + n, folder, n, {**drawn(n, rows, has_names), **tenth}) for n in range(args.runs)]
    tasks = [t[1:] for t in sorted(tasks, key=lambda t: t[0]) if (t[1].name, t[2]) not in done]
    os.makedirs(args.scratch, exist_ok=True)
    with futures.ThreadPoolExecutor(args.jobs) as pool, open(file, "a") as out:
        pending = {pool.submit(lambda t: time.time() < args.until - 5 and train_and_score(args, *t), t) for t in tasks}
        for finished in futures.as_completed(pending):
            result = finished.result()
            if not result:
                continue
            if "failed" not in result:
                out.write(json.dumps(result) + "\n")
                out.flush()
            print(result["set"], result["run"], result.get("failed", ""), result.get("validation", ""), p_at(result), result.get("seconds", ""), flush=True)


def again(args):
    """The best draw by validation once more, with as many training rows as the defaults have."""
    args.until = time.time() + args.seconds
    results = [json.loads(line) for line in open(Path(args.sets) / "search.jsonl")]
    for name in sorted({r["set"] for r in results}):
        search = [r for r in results if r["set"] == name and isinstance(r["run"], int)]
        if not search or (args.only and name not in args.only.split(",")):
            continue
        best = max(search, key=lambda r: r["validation"])
        flags = {k: v for k, v in best["flags"].items() if k != "validation"}
        result = train_and_score(args, Path(args.sets) / name, f"draw {best['run']} as the defaults validate", flags)
        if "failed" not in result:
            with open(Path(args.sets) / "search.jsonl", "a") as out:
                out.write(json.dumps(result) + "\n")
        print(name, result["run"], result.get("failed", ""), p_at(result), flush=True)


# --- the table -------------------------------------------------------------------------------------------------------


def p_at(result):
    """P@1, 3, 5 and PSP@5 of the test rows, in percent."""
    if "test" not in result:
        return ()
    return tuple(round(result["test"][k], 2) for k in ("P@1", "P@3", "P@5", "PSP@5"))


def table(args):
    results = [json.loads(line) for line in open(Path(args.sets) / "search.jsonl")]
    for name in sorted({r["set"] for r in results}):
        mine = {r["run"]: r for r in results if r["set"] == name}
        search = [r for n, r in mine.items() if isinstance(n, int)]
        print(f"{name}: {len(search)} runs of the search")
        for run in mine:
            if not isinstance(run, int):
                others = ", ".join(f"{k} {p_at({'test': mine[run][k]})}" for k in ("last", "highest") if k in mine[run])
                print(f"  {run}: {p_at(mine[run])}, validation {mine[run]['validation']}, {others}")
        for what, key in (("best by validation", lambda r: r["validation"]), ("best by test, for comparison", lambda r: p_at(r)[0])):
            best = max(search, key=key, default=None)
            if best is None:
                continue
            print(f"  {what}: {p_at(best)}, validation {best['validation']}, {best['flags']}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["make", "run", "again", "table"])
    parser.add_argument("sets")
    parser.add_argument("--manuals", nargs="*", default=["/usr/share/man"], help="folders of manual pages")
    parser.add_argument("--foldoc", default="/usr/share/dictd", help="folder of foldoc.dict.dz")
    parser.add_argument("--unpacked", help="folder of unpacked Debian packages, for six sets more")
    parser.add_argument("--projects", type=int, default=8_000, help="of PyPI: how many to ask for, and three times as many for keywords")
    parser.add_argument("--train-rows", type=int, default=0, help="at most so many training rows, the others test")
    parser.add_argument("--elmo", default="build/bin/elmo")
    parser.add_argument("--encoder")
    parser.add_argument("--only", default="")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--few", action="store_true", help="only the defaults and the search, no variants of the defaults")
    parser.add_argument("--jobs", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=1e6)
    parser.add_argument("--scratch", default="/dev/shm/defaults_search")
    args = parser.parse_args()
    {"make": make, "run": run, "again": again, "table": table}[args.what](args)


if __name__ == "__main__":
    main()
