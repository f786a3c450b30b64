#!/usr/bin/env python3
"""Disturbs the program in every way that a machine can, for a given time, and counts what is lost.

  tools/torture.py [ELMO] [--seconds 60] [--seed 1] [--parts kills,calls,faults,disks,readers,races] [--work FOLDER]

Every trial runs a verb undisturbed once, then disturbed, then again as a user would. The second call must end with
status 0 and with the bytes of the undisturbed one. Parts:
  kills    SIGKILL at random moments of a training, resumed until it ends
  calls    SIGKILL at a random file system call of any verb (strace)
  faults   a random system call fails (disk full, I/O error, no descriptors ...): status 1 or right bytes, and then again
  disks    a limit on the size of files, then none
  readers  predictions beside a writer that replaces the checkpoint: the answers of one checkpoint, never of two
  races    two trainings into one folder, several imports into one cache
Prints one line per part: trials, disturbed, failures. Exit status 1 if anything was lost."""
import argparse
import ctypes
import hashlib
import itertools
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CALLS = "openat write pwrite64 fsync rename renameat2 mkdir unlink unlinkat flock ftruncate fallocate".split()
FAULTS = {"openat": "EMFILE EACCES EIO", "write": "ENOSPC EIO", "pwrite64": "ENOSPC EIO", "fsync": "EIO ENOSPC",
          "renameat2": "EIO ENOSPC", "rename": "EIO ENOSPC", "mkdir": "ENOSPC EACCES", "unlink": "EIO",
          "flock": "ENOLCK", "ftruncate": "ENOSPC EIO", "fallocate": "ENOSPC"}
MODES = [["--precision", "bf16"], ["--precision", "fp8"], ["--precision", "e2m5", "--head-kahan", "20%"],
         ["--precision", "renee"]]
ENVIRONMENT = {**os.environ, "ELMO_DEVICE": "cpu"}


def call(command, limit=None):
    """status and the last line of standard error"""
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=ENVIRONMENT,
                          preexec_fn=limit, timeout=3600)
    lines = done.stderr.decode(errors="replace").strip().split("\n")
    return done.returncode, lines[-1]


def strace(what, command):
    return ["strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={what.split(':')[0]}", "-e", f"inject={what}", *command]


def content(*paths):
    """{path: hash} of files and folders, less what holds times or locks"""
    found = {}
    for path in map(Path, paths):
        for file in [path] if path.is_file() else sorted(path.rglob("*")):
            if file.is_file() and file.suffix != ".lock" and "tensorboard" not in file.parts \
                    and file.name not in ("log.jsonl", "scores.jsonl"):
                found[str(file)] = hashlib.sha256(file.read_bytes()).hexdigest()
    return found


class Job:
    """A verb with its outputs. `again` is what a user types after a disturbance."""

    def __init__(self, first, outputs, again=None, prepare=None):
        self.first, self.outputs, self.prepare = first, outputs, prepare
        self.again = again or (lambda: first)
        self.start()
        status, line = call(first)
        assert status == 0, (first, line)
        self.wanted = content(*outputs)
        assert self.wanted, first

    def start(self):
        for path in self.outputs:
            parent, name = Path(path).parent, Path(path).name
            for left in [p for p in parent.iterdir() if p.name.startswith((name, "." + name))]:
                shutil.rmtree(left) if left.is_dir() else left.unlink()
        if self.prepare:
            self.prepare()

    def finish(self, more=False):
        """Calls it again; what is wrong, or nothing. `more`: files that could not be removed may lie beside."""
        status, line = call(self.again())
        if status != 0:
            return f"the second call ended with status {status}: {line}"
        found = content(*self.outputs)
        wrong = [p for p in sorted(self.wanted if more else self.wanted | found)
                 if self.wanted.get(p) != found.get(p)]
        return f"other bytes in {wrong[:4]}" if wrong else None


class Torture:
    def __init__(self, elmo, work, seed):
        self.elmo, self.work, self.random = str(Path(elmo).resolve()), Path(work), random.Random(seed)
        self.data, self.texts = self.work / "data.jsonl", self.work / "texts.txt"
        chance = random.Random(5)  # always the same data: a model of some cannot be calibrated
        words = [f"w{chance.randrange(10 ** 6)}" for _ in range(300)]
        rows = []
        for _ in range(400):
            labels = chance.sample(range(60), 2)
            rows.append((" ".join([words[5 * l + chance.randrange(5)] for l in labels] +
                                  chance.choices(words, k=4)), labels))
        self.data.write_text("".join('{"text": "%s", "labels": ["l%d", "l%d"]}\n' % (t, *l) for t, l in rows))
        self.texts.write_text("".join(t + "\n" for t, _ in rows))
        self.small = ["--encoder", "bag", "--width", "16", "--vocab-size", "300", "--batch-size", "64", "--steps", "12",
                      "--save-every", "2", "--eval-every", "0.5", "--validation", "0.1", "--threads", "1", "-q"]
        self.base = self.work / "base"
        # Longer than the others: what has learnt nothing cannot be calibrated.
        status, line = call([self.elmo, "train", str(self.data), "--out", str(self.base), *self.with_steps(300)])
        assert status == 0, line

    def with_steps(self, steps):
        at = self.small.index("--steps") + 1
        return [*self.small[:at], str(steps), *self.small[at + 1:]]

    def train_job(self, mode, name="run", steps=12):
        run = self.work / name
        first = [self.elmo, "train", str(self.data), "--out", str(run), *self.with_steps(steps), *mode]
        # A run that was never saved is started again.
        again = lambda: first + (["--resume"] if (run / "last").exists() else ["--overwrite"])
        return Job(first, [run], again)

    def jobs(self):
        elmo, data, base, work = self.elmo, str(self.data), str(self.base), self.work
        run = work / "revised"
        copy = lambda: shutil.copytree(self.base, run)
        answers = [elmo, "predict", base, str(self.texts), "--out", str(work / "answers.jsonl"), "--batch-size", "8", "-q"]
        converted = [elmo, "data", "convert", data, "--to", "xmc", "--out", str(work / "converted"), "-q"]
        (work / "new.txt").write_text("fresh one\nfresh two\tw1 w2 w3\n")
        added = [elmo, "labels", "add", base, str(work / "new.txt"), "--data", data, "--steps", "4", "--out", str(run), "-q"]
        return {
            "train": self.train_job(MODES[2]),
            "linear": Job([elmo, "train", data, "--out", str(work / "linear"), "--encoder", "linear", "-q"],
                          [work / "linear"],
                          lambda: [elmo, "train", data, "--out", str(work / "linear"), "--encoder", "linear", "-q", "--overwrite"]),
            "import": Job([elmo, "data", data, "--cache", str(work / "cache"), "--vocab-size", "300", "-q"], [work / "cache"]),
            "predict": Job(answers, [work / "answers.jsonl"], lambda: answers + ["--resume"]),
            "convert": Job(converted, [work / "converted"], lambda: converted + ["--overwrite"]),
            "labels": Job(added, [run], lambda: added + ["--overwrite"]),
            "calibrate": Job([elmo, "calibrate", str(run), data, "-q"], [run], prepare=copy),
        }

    def counts(self, job):
        """How often an undisturbed run of the job makes each system call"""
        job.start()
        table = self.work / "calls"
        calls = ",".join(sorted({*CALLS, *FAULTS}))
        call(["strace", "-f", "-c", "-o", str(table), "-e", f"trace={calls}", *job.first])
        rows = [line.split() for line in table.read_text().split("\n")]
        return {r[-1]: int(r[3]) for r in rows if len(r) >= 5 and r[3].isdigit() and r[-1] in calls}

    # Each part yields (was it disturbed, what is wrong or None) per trial.
    def kills(self):
        jobs = [self.train_job(mode, f"killed{i}", steps=40) for i, mode in enumerate(MODES)]
        for job in itertools.cycle(jobs):
            job.start()
            longest = 0.5  # grows, so that a slow machine comes to an end too
            command, disturbed = job.first, 0
            while True:
                process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=ENVIRONMENT)
                try:
                    process.wait(self.random.uniform(0, longest))
                    break
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
                    disturbed += 1
                    yield True, None
                longest *= 1.1
                command = job.again()
            yield False, job.finish() if disturbed else None

    def disturbed_calls(self, inject):
        jobs = self.jobs()
        seen = {}
        while True:
            name = self.random.choice(list(jobs))
            job = jobs[name]
            if name not in seen:
                seen[name] = self.counts(job)
            what, signal = inject(seen[name])
            job.start()
            status, line = call(strace(what, job.first))
            wrong = None
            if status == 0 and not job.wanted.items() <= content(*job.outputs).items():
                wrong = "status 0, but other bytes"
            elif not signal and status not in (0, 1, 2, 3):
                wrong = f"status {status}: {line}"
            elif not signal and status != 0 and "error" not in line:
                wrong = f"status {status} without a reason: {line}"
            wrong = wrong or job.finish(more=what.startswith("unlink"))
            yield status != 0, wrong and f"{name}, {what}: {wrong}"

    def calls(self):
        def inject(counts):
            name = self.random.choice([c for c in CALLS if counts.get(c)])
            return f"{name}:signal=KILL:when={self.random.randint(1, counts[name])}", True
        return self.disturbed_calls(inject)

    def faults(self):
        def inject(counts):
            name = self.random.choice([c for c in FAULTS if counts.get(c)])
            error = self.random.choice(FAULTS[name].split())
            return f"{name}:error={error}:when={self.random.randint(1, counts[name])}", False
        return self.disturbed_calls(inject)

    def disks(self):
        jobs = self.jobs()
        while True:
            name = self.random.choice(list(jobs))
            job, size = jobs[name], int(2 ** self.random.uniform(6, 17))
            job.start()
            status, line = call(job.first, lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size)))
            wrong = None if status in (0, 1) else f"status {status}: {line}"
            if status == 0 and content(*job.outputs) != job.wanted:
                wrong = "status 0, but other bytes"
            wrong = wrong or job.finish()
            yield status != 0, wrong and f"{name}, files of at most {size} bytes: {wrong}"

    def readers(self):
        run, other = self.work / "read", self.work / "other"
        for path, seed in ((run, 1), (other, 2)):
            shutil.rmtree(path, ignore_errors=True)
            status, line = call([self.elmo, "train", str(self.data), "--out", str(path), *self.small, "--seed", str(seed)])
            assert status == 0, line
        def answers(path):
            done = subprocess.run([self.elmo, "predict", str(path), str(self.texts), "-q"], stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, env=ENVIRONMENT)
            return done.stdout if done.returncode == 0 else f"status {done.returncode}: {done.stderr.decode()}"
        allowed = [answers(run), answers(other)]
        libc, exchange = ctypes.CDLL(None, use_errno=True), 2
        swap = f"""
import ctypes, os, sys, time, random
libc = ctypes.CDLL(None)
while os.getppid() == {os.getpid()}:
    libc.renameat2(-100, b"{run}/best", -100, b"{other}/best", {exchange})
    time.sleep(random.uniform(0, 0.02))
"""
        writer = subprocess.Popen([sys.executable, "-c", swap])
        try:
            while True:
                found = answers(run)
                yield True, None if found in allowed else f"answers of no checkpoint: {str(found)[-200:]}"
        finally:
            writer.kill()
            writer.wait()

    def races(self):
        job = self.train_job(MODES[0], "raced")
        while True:
            job.start()
            both = [subprocess.Popen(job.first, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=ENVIRONMENT)
                    for _ in range(2)]
            ended = sorted(process.wait() for process in both)
            found = content(*job.outputs)
            yield True, None if ended[0] == 0 and ended[1] in (0, 1, 2) and ended != [0, 0] and found == job.wanted \
                else f"two trainings into one folder ended with {ended}"
            cache = self.work / "shared-cache"
            shutil.rmtree(cache, ignore_errors=True)
            imports = [subprocess.Popen([self.elmo, "data", str(self.data), "--cache", str(cache), "--vocab-size", "300", "-q"],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=ENVIRONMENT)
                       for _ in range(4)]
            ended = [process.wait() for process in imports]
            left = [f.name for f in cache.rglob("*") if ".part" in f.name]
            yield True, None if ended == [0] * 4 and not left else f"four imports ended with {ended}, left {left}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("elmo", nargs="?", default="build/bin/elmo")
    parser.add_argument("--seconds", type=float, default=60, help="for all parts together; each makes at least one trial")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--parts", default="kills,calls,faults,disks,readers,races")
    parser.add_argument("--work", default="/dev/shm" if os.path.isdir("/dev/shm") else None, help="where its folder is made")
    given = parser.parse_args()
    parts = given.parts.split(",")
    lost = 0
    print(f"seed {given.seed}\n{'part':10} {'trials':>7} {'disturbed':>10} {'failures':>9}")
    with tempfile.TemporaryDirectory(prefix="elmo-torture-", dir=given.work) as work:
        torture = Torture(given.elmo, work, given.seed)
        for part in parts:
            trials = disturbed = 0
            failures = []
            end = time.monotonic() + given.seconds / len(parts)
            running = getattr(torture, part)()
            for was_disturbed, wrong in running:
                trials += 1
                disturbed += was_disturbed
                if wrong:
                    failures.append(wrong)
                if time.monotonic() > end:
                    break
            running.close()
            print(f"{part:10} {trials:7} {disturbed:10} {len(failures):9}", flush=True)
            for failure in failures[:10]:
                print("   ", failure)
            lost += len(failures)
    sys.exit(1 if lost else 0)


if __name__ == "__main__":
    main()
