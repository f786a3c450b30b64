#!/usr/bin/env python3
"""Disturbs the program in every way that a machine can, for a given time, and counts what is lost.

  tools/torture.py [ELMO] [--seconds 60] [--seed 1] [--parts kills,calls,...] [--trials N] [--work FOLDER] [--device cuda]

Every trial runs a verb undisturbed once, then disturbed, then again as a user would. The second call must end with
status 0 and with the bytes of the undisturbed one. Parts:
  kills    SIGKILL at random moments of a training, resumed until it ends
  calls    SIGKILL at a random file system call of any verb (strace)
  faults   a random system call fails (disk full, I/O error, no descriptors ...): status 1 or right bytes, and then again
  disks    a limit on the size of files, then none; as root also a disk that is full, then larger
  power    the disk as it is at a random moment, without what was not flushed (a loss of power), as root
  readers  predictions beside a writer that replaces the checkpoint: the answers of one checkpoint, never of two
  races    two trainings into one folder, several imports into one cache
  beside   scores of the checkpoint of a training that goes on and saves: those of one of its checkpoints
  changes  a changed, cut, grown, emptied or removed file of a run or of a cache: status 1 or 2, or the right answer
  soak     one training for the whole time, ended by SIGTERM: its memory does not grow
On a card (--device cuda), with tools/faulty_card.cpp between the program and the driver:
  launches a random call to the driver is refused, or a kernel ends in a trap: one error, and then again
  memory   a card with little memory, or one whose memory is gone at a random moment: one error, and then again
  full     the same by another program that takes what is free; nobody else should use the card
Prints one line per part: trials, disturbed, failures. Exit status 1 if anything was lost."""
import argparse
import collections
import ctypes
import hashlib
import itertools
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

CALLS = "openat write pwrite64 fsync rename renameat2 mkdir unlink unlinkat flock ftruncate fallocate".split()
FAULTS = {"openat": "EMFILE EACCES EIO", "write": "ENOSPC EIO", "pwrite64": "ENOSPC EIO", "fsync": "EIO ENOSPC",
          "renameat2": "EIO ENOSPC", "rename": "EIO ENOSPC", "mkdir": "ENOSPC EACCES", "unlink": "EIO",
          "flock": "ENOLCK", "ftruncate": "ENOSPC EIO", "fallocate": "ENOSPC", "mmap": "ENOMEM"}
MODES = [["--precision", "bf16"], ["--precision", "fp8"], ["--precision", "e2m5", "--head-kahan", "20%"],
         ["--precision", "renee"]]
ENVIRONMENT = dict(os.environ)
PATIENCE = 3600  # seconds after which a call hangs
ERRORS = collections.Counter()  # of failing cards, without their numbers


# Takes the memory of a card that is free, but for so many MiB as a line of its input says; gives it back at 'free'.
EATER = """
import ctypes, sys
cuda = ctypes.CDLL("libcuda.so.1")
def check(status):
    if status: sys.exit(f"the card's driver says {status}")
check(cuda.cuInit(0))
context, device, held = ctypes.c_void_p(), ctypes.c_int(), []
check(cuda.cuDeviceGet(ctypes.byref(device), 0))
check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
check(cuda.cuCtxSetCurrent(context))
def take(size):
    block = ctypes.c_uint64()
    taken = cuda.cuMemAlloc_v2(ctypes.byref(block), ctypes.c_size_t(size)) == 0
    if taken: held.append(block)
    return taken
print("ready", flush=True)
for line in sys.stdin:
    if line != "free\\n":
        left = int(line) << 20
        if left and take(left): left = held.pop()
        size = 1 << 37
        while size >= 1 << 16:
            while take(size): pass
            size //= 2
        if left: cuda.cuMemFree_v2(left)
    else:
        while held: check(cuda.cuMemFree_v2(held.pop()))
    print("done", flush=True)
"""


def errors(command, limit=None, more={}):
    """status and the lines of standard error"""
    try:
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=ENVIRONMENT | more,
                              preexec_fn=limit, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        return -signal.SIGALRM, [f"did not end in {PATIENCE} s"]
    return done.returncode, done.stderr.decode(errors="replace").strip().split("\n")


def call(command, limit=None):
    """status and the last line of standard error"""
    status, lines = errors(command, limit)
    return status, lines[-1]


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

    def __init__(self, first, outputs, again=None, prepare=None, more={}):
        self.first, self.outputs, self.prepare = first, outputs, prepare
        self.again = again or (lambda: first)
        self.start()
        status, lines = errors(first, more=more)
        assert status == 0, (first, lines)
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
                                  chance.choices(words, k=1)), labels))
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

    def train_job(self, mode, name="run", steps=12, more={}):
        run = self.work / name
        options = self.with_steps(steps)
        if "--encoder" in mode:  # of a folder, which has its own width
            at = options.index("--width")
            del options[at:at + 2]
        first = [self.elmo, "train", str(self.data), "--out", str(run), *options, *mode]
        # A run that was never saved is started again.
        again = lambda: first + (["--resume"] if (run / "last").exists() else ["--overwrite"])
        return Job(first, [run], again, more=more)

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
            what, kills = inject(seen[name])
            job.start()
            status, line = call(strace(what, job.first))
            if status == 127 or what.endswith("when=1"):  # before the program began: the system's loader
                continue
            wrong = None
            if status == 0 and not job.wanted.items() <= content(*job.outputs).items():
                wrong = "status 0, but other bytes"
            elif not kills and status not in (0, 1, 2, 3):
                wrong = f"status {status}: {line}"
            elif not kills and status != 0 and "error" not in line:
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

    def small_files(self):
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

    def full_disks(self):
        """A disk of a few KiB (or of a few files) for a training, then more room and the training resumed."""
        mount = self.work / "disk"
        mount.mkdir(exist_ok=True)
        run = mount / "run"
        first = [self.elmo, "train", str(self.data), "--out", str(run), "--cache", str(self.work / "disk-cache"), *self.small]
        def unmount():
            while os.path.ismount(mount):  # lazily: whoever still looks at it loses it
                subprocess.run(["umount", "--lazy", str(mount)], check=True)
        def mounted(options):
            unmount()
            subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(mount)], check=True)
        try:
            mounted("size=64m")
            status, line = call(first)
            assert status == 0, line
            wanted = content(run)
            while True:
                few = self.random.random() < 0.3
                mounted(f"size=8m,nr_inodes={self.random.randint(3, 60)}" if few else
                        f"size={self.random.randint(8, 400)}k")
                status, line = call(first)
                wrong = None if status in (0, 1) else f"status {status}: {line}"
                subprocess.run(["mount", "-o", "remount,size=64m,nr_inodes=10000", str(mount)], check=True)
                again, line = call(first + (["--resume"] if (run / "last").exists() else ["--overwrite"]))
                if not wrong and (again != 0 or content(run) != wanted):
                    wrong = f"with room again: status {again}: {line}"
                yield status != 0, wrong and f"a full disk: {wrong}"
        finally:
            unmount()

    def can_mount(self):
        """Root may; inside a container not always."""
        place = self.work / "mounted"
        place.mkdir(exist_ok=True)
        mounted = subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(place)], stderr=subprocess.DEVNULL).returncode == 0
        if mounted:
            subprocess.run(["umount", str(place)], check=True)
        return mounted

    def disks(self):
        if not self.can_mount():
            return self.small_files()
        return (trial for both in zip(self.small_files(), self.full_disks()) for trial in both)

    def power(self):
        if not self.can_mount():
            print("power: needs the right to mount the file system that loses its power")
            return
        work = Path(tempfile.mkdtemp(prefix="elmo-power-", dir="/var/tmp"))
        live, dead = work / "live", work / "dead"
        options = ["--cache", str(work / "cache"), *self.with_steps(120)]
        image = lambda name: str(work / f"{name}.img")
        def mount(name, *options):
            subprocess.run(["mount", "-o", ",".join(["loop", *options]), image(name), str(work / name)], check=True)
        def unmount(name):
            subprocess.run(["umount", str(work / name)], stderr=subprocess.DEVNULL)
        try:
            for folder in (live, dead):
                folder.mkdir()
            status, line = call([self.elmo, "train", str(self.data), "--out", str(work / "wanted"), *options])
            assert status == 0, line
            wanted = {p.replace("wanted", "copy", 1): h for p, h in content(work / "wanted").items()}
            while True:
                with open(image("live"), "wb") as file:
                    file.truncate(64 << 20)
                subprocess.run(["mkfs.ext4", "-q", "-F", image("live")], check=True)
                mount("live", "commit=600")  # the journal is not written by the clock
                os.sync()
                process = subprocess.Popen([self.elmo, "train", str(self.data), "--out", str(live / "run"), *options],
                                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=ENVIRONMENT)
                try:
                    while process.poll() is None:
                        time.sleep(self.random.uniform(0, 0.3))
                        process.send_signal(signal.SIGSTOP)
                        while process.poll() is None and \
                                Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "TZ":
                            time.sleep(0.002)
                        saved = self.last_step(live / "run")
                        shutil.copyfile(image("live"), image("dead"))
                        process.send_signal(signal.SIGCONT)
                        shutil.rmtree(work / "copy", ignore_errors=True)
                        mount("dead")
                        if (dead / "run").exists():
                            shutil.copytree(dead / "run", work / "copy")
                        unmount("dead")
                        yield True, self.after_power(work / "copy", options, saved, wanted)
                finally:
                    process.kill()
                    process.wait()
                    unmount("live")
        finally:
            unmount("dead")
            unmount("live")
            shutil.rmtree(work, ignore_errors=True)

    @staticmethod
    def last_step(run):
        """of the newest checkpoint that the log says is saved"""
        log = run / "log.jsonl"
        events = [line for line in log.read_text().split("\n")[:-1] if '"checkpoint"' in line] if log.exists() else []
        steps = [json.loads(line) for line in events]
        return max([e["step"] for e in steps if e.get("event") == "checkpoint" and e.get("folder") == "last"], default=0)

    def after_power(self, run, options, saved, wanted):
        state = run / "last" / "state.json"
        step = json.loads(state.read_text())["step"] if state.exists() else 0
        if step < saved:
            return f"a loss of power: step {saved} was said to be saved, the disk has {step}"
        status, line = call([self.elmo, "train", str(self.data), "--out", str(run), *options,
                             *(["--resume"] if (run / "last").exists() else ["--overwrite"] if run.exists() else [])])
        found = content(run)
        wrong = [p for p in sorted(wanted | found) if wanted.get(p) != found.get(p)]
        return f"a loss of power at step {step}: status {status}, {line}, {wrong[:4]}" if status or wrong else None

    def changes(self):
        run, cache = self.work / "changed", self.work / "changed-cache"
        small = ["--cache", str(cache), "--vocab-size", "300", "-q"]
        answer = lambda: subprocess.run([self.elmo, "predict", str(run), str(self.texts), "--json", "-q"], env=ENVIRONMENT,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=600)
        score = lambda: subprocess.run([self.elmo, "eval", str(run), str(self.data), "--json", "-q", "--save-scores", "none",
                                        "--bootstrap", "0", "--cache", str(cache)], env=ENVIRONMENT,
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=600)
        inspect = lambda: subprocess.run([self.elmo, "inspect", str(run), "--json"], env=ENVIRONMENT,
                                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=600)
        kinds = [self.base, self.work / "linear-base"]
        status, line = call([self.elmo, "train", str(self.data), "--out", str(kinds[1]), "--encoder", "linear", "-q"])
        assert status == 0, line
        for kind in itertools.cycle(kinds):
            shutil.rmtree(run, ignore_errors=True)
            shutil.copytree(kind, run)
            shutil.rmtree(cache, ignore_errors=True)
            call([self.elmo, "data", str(self.data), *small])
            score()
            verbs = {"predict": answer, "eval": score, "inspect": inspect}
            # A blank more in the manifest is another manifest, which a score names, of the same files.
            timeless = lambda out: re.sub(rb"manifest xxh64 [0-9a-f]+", b"", out.split(b'"texts_per_second"')[0])
            wanted = {verb: timeless(ask().stdout) for verb, ask in verbs.items()}
            # In turn a file of the run, which must be noticed, and one of the cache, which is made again.
            for _ in range(50):
                of_run = self.random.random() < 0.7
                files = [f for f in (run / "best" if of_run else cache).rglob("*") if f.is_file() and f.suffix != ".known"]
                file = self.random.choice(sorted(files))
                bytes_before, how = file.read_bytes(), self.change(file)
                verb = self.random.choice(list(verbs)) if of_run else "eval"
                done = verbs[verb]()
                wrong = None
                if done.returncode not in (0, 1, 2) or (done.returncode and b"error: " not in done.stderr):
                    wrong = f"status {done.returncode}: {done.stderr.decode(errors='replace')[-200:]}"
                elif done.returncode == 0 and timeless(done.stdout) != wanted[verb] and verb != "inspect":
                    wrong = "status 0, but another answer"
                elif not of_run and done.returncode != 0:
                    wrong = f"the cache was not made again: {done.stderr.decode(errors='replace')[-200:]}"
                yield done.returncode != 0 or not of_run, wrong and f"{verb}, {how} of {file.name}: {wrong}"
                if of_run:
                    file.write_bytes(bytes_before)

    def change(self, file):
        content, chance = bytearray(file.read_bytes()), self.random
        how = chance.choice(["a bit", "a byte", "the end", "a block", "growth", "everything", "removal"])
        if how == "removal":
            file.unlink()
            return how
        at = chance.randrange(len(content)) if content else 0
        if how == "a bit" and content:
            content[at] ^= 1 << chance.randrange(8)
        elif how == "a byte" and content:
            content[at] = (content[at] + chance.randrange(1, 256)) % 256
        elif how == "the end":
            del content[at:]
        elif how == "a block":
            content[at:at + 64] = b"\xff" * len(content[at:at + 64])
        elif how == "growth":
            content += chance.randbytes(chance.randint(1, 100))
        else:
            content.clear()
        file.write_bytes(content)
        return how

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

    def beside(self):
        run, kept = self.work / "beside", self.work / "kept"
        train = [self.elmo, "train", str(self.data), "--out", str(run), *self.with_steps(10 ** 5), "--save-every", "50"]
        def score(path):
            done = subprocess.run([self.elmo, "eval", str(path), str(self.data), "--checkpoint", "last", "--json", "-q",
                                   "--save-scores", "none", "--bootstrap", "0"], env=ENVIRONMENT,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            if done.returncode != 0:
                return None, done.stderr.decode()
            found = json.loads(done.stdout)
            _, step, manifest = re.findall(r"(\(step (\d+), manifest xxh64 (\w+)\))", found.pop("protocol")["checkpoint"])[0]
            del found["texts_per_second"]
            return step, (manifest, found)
        def keep():
            """The checkpoint under another name, unless it is replaced meanwhile"""
            part = kept / "part"
            shutil.rmtree(part, ignore_errors=True)
            try:
                folder = os.open(run / "last", os.O_DIRECTORY)
                try:
                    (part / "last").mkdir(parents=True)
                    for name in os.listdir(folder):
                        os.link(name, part / "last" / name, src_dir_fd=folder)
                    part.rename(kept / str(json.loads((part / "last" / "state.json").read_text())["step"]))
                finally:
                    os.close(folder)
            except OSError:  # replaced, or kept already
                pass
        while True:
            for folder in (run, kept):
                shutil.rmtree(folder, ignore_errors=True)
            trainer = subprocess.Popen(train, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=ENVIRONMENT)
            def keep_all():
                while trainer.poll() is None:
                    keep()
                    time.sleep(0.01)
            keeper = threading.Thread(target=keep_all)
            keeper.start()
            try:
                while not (run / "last").exists():
                    time.sleep(0.01)
                scores = [score(run) for _ in range(8)]
            finally:
                trainer.kill()
                trainer.wait()
                keeper.join()
            for step, found in scores:
                whole = step is not None and (kept / step / "last" / "manifest.json").exists()
                yield whole, f"a checkpoint beside its training: {found}" if step is None else \
                    None if not whole or score(kept / step) == (step, found) else f"a score of no checkpoint at step {step}"

    def soak(self):
        run, samples, began = self.work / "soak", [], time.monotonic()
        trainer = subprocess.Popen([self.elmo, "train", str(self.data), "--out", str(run), *self.with_steps(10 ** 6),
                                    "--save-every", "2000", "--eval-every", "100", "--precision", "fp8"],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=ENVIRONMENT)
        def card_mib():
            if ENVIRONMENT["ELMO_DEVICE"] != "cuda":
                return 0, 0
            asked = lambda *what: subprocess.run(["nvidia-smi", *what, "--format=csv,noheader,nounits"], text=True,
                                                 stdout=subprocess.PIPE).stdout.split("\n")
            own = [line.split(",")[1] for line in asked("--query-compute-apps=pid,used_memory")
                   if line.startswith(f"{trainer.pid},")]
            return (int(own[0]) if own and own[0].strip().isdigit() else 0), int(asked("--query-gpu=memory.used")[0])
        try:
            print(" seconds      step  host MiB  its card MiB  whole card MiB")
            while trainer.poll() is None and time.monotonic() < began + self.seconds:
                time.sleep(5)
                status = Path(f"/proc/{trainer.pid}/status").read_text()
                host = int((re.findall(r"VmRSS:\s+(\d+)", status) or [0])[0]) / 1024
                samples.append((time.monotonic() - began, self.last_step(run), host, *card_mib()))
                if len(samples) % 6 == 1:
                    print("%8.0f %9d %9.1f %13d %15d" % samples[-1], flush=True)
            trainer.terminate()
            said = trainer.communicate(timeout=600)[1].decode(errors="replace")
            print("%8.0f %9d %9.1f %13d %15d" % samples[-1])
            print(f"{len(samples)} samples")
            half = samples[len(samples) // 2:]
            grown = [max(row[i] for row in half) - half[0][i] for i in (2, 3)]
            wrong = f"status {trainer.returncode}: {said}" if trainer.returncode else \
                f"memory grew by {grown[0]:.1f} MiB, on the card by {grown[1]} MiB" if grown[0] > 8 or grown[1] > 2 else None
            yield True, wrong
        finally:
            trainer.kill()
            trainer.wait()

    def card_job(self, name, more):
        """A training or a prediction on a card"""
        if name == "predict":
            answers = [self.elmo, "predict", str(self.base), str(self.texts), "--out", str(self.work / "card-answers.jsonl"),
                       "--batch-size", "64", "-q"]
            return Job(answers, [self.work / "card-answers.jsonl"], lambda: answers + ["--resume"], more=more)
        if name != "transformer":
            return self.train_job(name.split(), f"card {name}", more=more)
        encoder = self.work / "encoder"
        encoder.mkdir(exist_ok=True)
        (encoder / "config.json").write_text(json.dumps({
            "model_type": "bert", "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64,
            "max_position_embeddings": 64, "vocab_size": 300, "type_vocab_size": 2, "hidden_act": "gelu", "layer_norm_eps": 1e-12,
            "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1}))
        return self.train_job(["--encoder", str(encoder)], "card-transformer", more=more)

    def after_failure(self, job, status, lines):
        """What is wrong with a call on a failing card, and with the next one, or nothing"""
        if status == 0:
            wrong = None if content(*job.outputs) == job.wanted else "status 0, but other bytes"
        else:  # a plan of the memory may follow
            said = sum("error: " in line for line in lines) == 1 and lines[0].startswith("elmo: error: ")
            wrong = None if status == 1 and said else f"status {status}: {lines[:4]}"
        return wrong or job.finish()

    def faulty_card(self, choose):
        if ENVIRONMENT["ELMO_DEVICE"] != "cuda":
            print("needs a card (--device cuda)")
            return
        library = os.environ.get("ELMO_FAULTY_CARD") or str(self.work / "faulty_card.so")
        if not os.path.exists(library):
            subprocess.run(["c++", "-std=c++20", "-O1", "-shared", "-fPIC", "-o", library,
                            str(Path(__file__).with_name("faulty_card.cpp"))], check=True)
        jobs, counted = {}, self.work / "card-calls"
        more = {"LD_PRELOAD": library, "FAULTY_CARD_COUNT": str(counted)}
        # Starting a card takes seconds: a few kinds of work, so that most of the time goes to trials.
        names = self.random.sample(["transformer", "predict", *map(" ".join, MODES)], 2)
        while True:
            name = self.random.choice(names)
            if name not in jobs:
                jobs[name] = self.card_job(name, more), int(counted.read_text())
            job, calls = jobs[name]
            what = choose(calls)
            job.start()
            status, lines = errors(job.first, more=more | {"FAULTY_CARD": what})
            wrong = self.after_failure(job, status, lines)
            ERRORS[re.sub(r"[\d.]+", "#", lines[0])[:100] if status else "(none)"] += 1
            yield status != 0, wrong and f"{name}, {what}: {wrong}"

    def launches(self):
        return self.faulty_card(lambda calls: f"{self.random.choice(['refuse', 'trap'])}={self.random.randint(1, calls)}")

    def memory(self):
        return self.faulty_card(lambda calls: self.random.choice([f"full={self.random.randint(1, calls)}",
                                                                  f"memory={self.random.randint(1, 64 << 20)}"]))

    def full(self):
        jobs = [self.train_job(mode, f"full{i}", steps=2000) for i, mode in enumerate(MODES[1:3])]
        eater = subprocess.Popen([sys.executable, "-c", EATER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        def eat(what):
            if what:
                print(what, file=eater.stdin, flush=True)
            answer = eater.stdout.readline()
            assert answer, "no card to fill"
        try:
            eat("")
            for job in itertools.cycle(jobs):
                job.start()
                room = self.random.choice([0, self.random.randint(1, 1200)])
                before = self.random.random() < 0.3
                if before:
                    eat(f"{room}")
                process = subprocess.Popen(job.first, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=ENVIRONMENT)
                if not before:
                    time.sleep(self.random.uniform(0, 5))
                    eat(f"{room}")
                lines = process.communicate(timeout=600)[1].decode(errors="replace").strip().split("\n")
                eat("free")
                ERRORS[re.sub(r"[\d.]+", "#", lines[0])[:100] if process.returncode else "(none)"] += 1
                wrong = self.after_failure(job, process.returncode, lines)
                yield process.returncode != 0, wrong and f"a full card, {room} MiB left, before {before}: {wrong}"
        finally:
            eater.kill()
            eater.wait()

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
    global PATIENCE
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("elmo", nargs="?", default="build/bin/elmo")
    parser.add_argument("--seconds", type=float, default=60, help="for all parts together; each makes at least one trial")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--parts", default="kills,calls,faults,disks,readers,races,beside,changes",
                        help="of kills, calls, faults, disks, power, readers, races, beside, changes, soak, launches, memory, full")
    parser.add_argument("--trials", type=int, help="of each part, however long that takes")
    parser.add_argument("--device", default="cpu", help="cpu, or cuda for trainings on a card")
    parser.add_argument("--patience", type=float, default=PATIENCE, help="seconds after which a call counts as hanging")
    parser.add_argument("--work", default="/dev/shm" if os.path.isdir("/dev/shm") else None, help="where its folder is made")
    given = parser.parse_args()
    parts = given.parts.split(",")
    PATIENCE = given.patience
    ENVIRONMENT["ELMO_DEVICE"] = given.device
    lost = 0
    print(f"seed {given.seed}\n{'part':10} {'trials':>7} {'disturbed':>10} {'failures':>9}")
    with tempfile.TemporaryDirectory(prefix="elmo-torture-", dir=given.work) as work:
        torture = Torture(given.elmo, work, given.seed)
        torture.seconds = given.seconds / len(parts)
        for part in parts:
            trials = disturbed = 0
            failures = []
            end = time.monotonic() + torture.seconds
            running = getattr(torture, part)()
            for was_disturbed, wrong in running:
                trials += 1
                disturbed += was_disturbed
                if wrong:
                    failures.append(wrong)
                if trials == given.trials or (not given.trials and time.monotonic() > end):
                    break
            running.close()
            print(f"{part:10} {trials:7} {disturbed:10} {len(failures):9}", flush=True)
            for failure in failures[:10]:
                print("   ", failure)
            for error, count in ERRORS.most_common(20):
                print(f"    {count:5} {error}")
            ERRORS.clear()
            lost += len(failures)
    sys.exit(1 if lost else 0)


if __name__ == "__main__":
    main()
