#!/usr/bin/env python3
"""Whole runs on several ranks: every byte as in one process, and every way to end.

    ranks_test.py ELMO TEST [mpi|gloo]   exit status 77: there is no such engine here

mpi: started by mpirun. gloo: by this script, with the variables that torchrun sets.
"""
import json
import os
import random
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ELMO = str(Path(sys.argv[1]).resolve())
ENGINE = sys.argv[3] if len(sys.argv) > 3 else "mpi"
SKIPPED = 77
LIMIT = 120  # seconds: only for what hangs
BERT = {"model_type": "bert", "architectures": ["BertModel"], "vocab_size": 400, "hidden_size": 32,
        "num_hidden_layers": 2, "num_attention_heads": 1, "intermediate_size": 64, "max_position_embeddings": 32,
        "type_vocab_size": 2, "hidden_act": "gelu", "layer_norm_eps": 1e-12, "hidden_dropout_prob": 0.1,
        "attention_probs_dropout_prob": 0.1, "pad_token_id": 0}
COMMON = ["--vocab-size", "400", "--batch-size", "50", "--validation", "0.1", "--max-length", "16", "--augment", "none",
          "--threads", "1", "--device", "cpu", "--batch-shards", "4", "--label-groups", "4", "--quiet"]
ENCODERS = {"bag": ["--encoder", "bag", "--width", "32"], "bert": ["--encoder", "bert", "--encoder-lr", "1e-3"]}


def make_data():
    random.seed(5)
    words = ["w%02d" % i for i in range(99)]
    labels = 1100  # five tiles of 256: more than there are groups
    with open("data.csv", "w") as file:
        file.write("text,labels\n")
        for row in range(1300):
            # Every label occurs; texts have very different lengths.
            chosen = sorted({row % labels, int(labels * random.random() ** 2)})
            text = [words[t % 99] for t in chosen] + random.choices(words, k=random.choice([0, 3, 12]))
            file.write('%s,"%s"\n' % (" ".join(text), ",".join("l%d" % t for t in chosen)))
    with open("texts.txt", "w") as file:
        for _ in range(33):
            file.write(" ".join(random.choices(words, k=9)) + "\n")
    os.mkdir("bert")
    Path("bert/config.json").write_text(json.dumps(BERT))


def torchrun(ranks, *arguments):
    """Starts all ranks and passes signals on. Once one has failed, those that are still there get 30 seconds."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    variables = {"WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(ranks), "MASTER_ADDR": "localhost",
                 "MASTER_PORT": port}
    children = [subprocess.Popen([ELMO, *arguments], env={**os.environ, **variables, "RANK": str(rank),
                                                          "LOCAL_RANK": str(rank)},
                                 stdin=None if rank == 0 else subprocess.DEVNULL) for rank in range(ranks)]
    for number in (signal.SIGUSR1, signal.SIGTERM):
        signal.signal(number, lambda sent, _: [child.send_signal(sent) for child in children])
    failed = None
    while any(child.poll() is None for child in children):
        if failed is None and any(child.poll() for child in children):
            failed = time.time()
        if failed is not None and time.time() > failed + 30:  # as torchrun waits for those that are left
            for child in children:
                child.kill()
        time.sleep(0.02)
    return int(any(child.returncode != 0 for child in children))


def mpirun(ranks, *arguments):
    if ENGINE == "gloo":
        return [sys.executable, str(Path(__file__).resolve()), ELMO, "torchrun", "gloo", str(ranks), *arguments]
    # Hydra, the launcher of MPICH, would kill the other ranks before they can say which one has gone.
    options = ["--oversubscribe"] if "Open MPI" in subprocess.run(
        ["mpirun", "--version"], capture_output=True, text=True).stdout else ["-disable-auto-cleanup"]
    return ["mpirun", *options, "-n", str(ranks), ELMO, *arguments]


def run(ranks, *arguments, status=0, **more):
    command = [ELMO, *arguments] if ranks == 0 else mpirun(ranks, *arguments)
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, **more)
    assert (done.returncode == 0) == (status == 0), (command, done.returncode, done.stdout, done.stderr)
    return done


def train(ranks, out, *more):
    return run(ranks, "train", "data.csv", "--out", out, *COMMON, *more)


def files_of(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(Path(folder).rglob("*")) if p.is_file()}


def require_equal(a, b):
    for part in ("last", "best"):
        one, other = files_of(f"{a}/{part}"), files_of(f"{b}/{part}")
        assert one, f"{a}/{part} is empty"
        different = [name for name in one.keys() | other.keys() if one.get(name) != other.get(name)]
        assert not different, f"{a} and {b} differ in {part}: {different}"


def start(ranks, out, *more):
    command = mpirun(ranks, "train", "data.csv", "--out", out, *COMMON, *more)
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for(condition, what, process):
    end = time.time() + LIMIT
    while not condition():
        assert time.time() < end and process.poll() is None, (what, process.poll(), process.communicate())
        time.sleep(0.02)


def step_of(run_folder):
    try:
        return json.loads(Path(run_folder, "last/state.json").read_text())["step"]
    except (OSError, ValueError):  # it is just being replaced
        return 0


def rank_pids(process):
    """Of the ranks of this mpirun, by their rank."""
    pids = {}
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and f"\0{ELMO}\0" in "\0" + (entry / "cmdline").read_text():
                variables = dict(v.split("=", 1) for v in (entry / "environ").read_text().split("\0") if "=" in v)
                rank = variables.get("OMPI_COMM_WORLD_RANK", variables.get("PMI_RANK", variables.get("RANK")))
                if rank is not None and os.readlink(entry / "cwd") == os.getcwd():
                    pids[int(rank)] = int(entry.name)
        except OSError:
            continue
    return pids


def same_bytes(encoder):
    for precision, all_ranks in (("bf16", (1, 2, 4)), ("e2m5", (3, 4))):
        options = [*ENCODERS[encoder], "--precision", precision, "--epochs", "1"]
        train(0, "one", *options)
        for ranks in all_ranks:
            train(ranks, "many", *options)
            require_equal("one", "many")
            if ranks != all_ranks[-1]:
                shutil.rmtree("many")
        scores = []
        for ranks, folder in ((0, "one"), (3, "many")):
            run(ranks, "eval", folder, "data.csv", "--quiet")
            scores.append(Path(folder, "scores.jsonl").read_text().replace(f"{folder}/", ""))
            shutil.rmtree(folder)
        assert scores[0] == scores[1], scores


def test_bag():
    same_bytes("bag")


def test_bert():
    same_bytes("bert")


def test_torchrun():
    """What mpirun's tests show, in short: bytes, answers, a killed rank, a stopped run."""
    options = [*ENCODERS["bert"], "--precision", "e2m5", "--save-every", "3", "--steps", "24", "--log-every", "1"]
    train(0, "whole", *options)
    for ranks in (2, 3):
        train(ranks, "many", *options)
        require_equal("whole", "many")
        shutil.rmtree("many")
    for arguments in (["predict", "whole", "texts.txt", "--json"], ["eval", "whole", "whole", "data.csv"]):
        assert run(3, *arguments, "--quiet").stdout == run(0, *arguments, "--quiet").stdout, arguments
    # A rank is killed; what is left stops on a signal; one process ends it.
    process = start(3, "broken", *options, "--steps", "30000")
    wait_for(lambda: step_of("broken") >= 3, "a checkpoint", process)
    os.kill(rank_pids(process)[2], signal.SIGKILL)
    _, said = process.communicate(timeout=LIMIT)
    assert process.returncode != 0 and "rank 2 (" in said and "has gone in step" in said, said
    assert said.count("elmo: error") == 1, said
    before = step_of("broken")
    process = start(2, "broken", *options, "--steps", "30000", "--resume")
    wait_for(lambda: step_of("broken") > before, "progress", process)
    os.kill(rank_pids(process)[1], signal.SIGUSR1)
    _, said = process.communicate(timeout=LIMIT)
    assert process.returncode == 0, said
    # A rank that does not come.
    lonely = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "no such host", "MASTER_PORT": "29000",
              "ELMO_MEETING_SECONDS": "1"}
    said = run(0, "eval", "whole", "data.csv", status=1, env={**os.environ, **lonely}).stderr
    assert "MASTER_ADDR no such host is not a name" in said, said


def test_more():
    """Accumulated steps, state in 8 bits, a frozen encoder, more ranks than shards or groups, an encoder of FP32, weights of labels."""
    Path("weights.tsv").write_text("l3\t2.5\nl900\t4\n")
    for ranks, options in ((2, ["--accumulate", "3", *ENCODERS["bert"], "--head-kahan", "10%"]),
                           (3, ["--encoder-state", "8bit", *ENCODERS["bert"]]),
                           (2, ["--encoder-state", "8bit", "--accumulate", "2", *ENCODERS["bag"]]),
                           (2, ["--freeze-encoder", "--encoder-state", "8bit", *ENCODERS["bag"]]),
                           (3, ["--objective", "psp", "--label-weights", "weights.tsv", *ENCODERS["bag"]]),
                           (5, ["--encoder-precision", "fp32", *ENCODERS["bag"], "--precision", "fp8",
                                "--weight-dropout", "0.1"])):
        options += ["--steps", "11", "--batch-shards", "3", "--label-groups", "2"]
        train(0, "one", *options)
        train(ranks, "many", *options)
        require_equal("one", "many")
        shutil.rmtree("one")
        shutil.rmtree("many")


def test_answers():
    train(0, "one", *ENCODERS["bag"], "--epochs", "8")
    for arguments in (["predict", "one", "texts.txt", "--json", "--top", "7", "--batch-size", "8"],
                      ["predict", "one", "--text", "w01 w02", "--labels", "some.txt"],
                      ["calibrate", "one", "--json"], ["eval", "one", "one", "data.csv"]):
        Path("some.txt").write_text("\n".join(str(i) for i in range(3, 900, 7)))
        expected = run(0, *arguments, "--quiet").stdout
        assert expected
        assert run(3, *arguments, "--quiet").stdout == expected, arguments
    with open("texts.txt") as texts:
        piped = run(2, "predict", "one", "--quiet", stdin=texts).stdout
    assert piped == run(0, "predict", "one", "texts.txt", "--quiet").stdout
    for ranks, out in ((0, "a.jsonl"), (3, "b.jsonl")):
        run(ranks, "predict", "one", "texts.txt", "--out", out, "--quiet")
    assert Path("a.jsonl").read_bytes() == Path("b.jsonl").read_bytes()
    run(3, "predict", "one", "texts.txt", "--out", "b.jsonl", "--resume", "--quiet")
    # A step that ranks share is measured on all of them; the rest of bench is the first one's.
    sizes = ["--labels", "2000", "--batch-size", "48", "--device", "cpu", "--threads", "1", "--steps", "2", "--json"]
    shared = json.loads(run(3, "bench", *sizes, "step", "--encoder", "bag", "--width", "32").stdout)
    assert shared["median_ms"] > 0 and len(shared["phases"]) == 3, shared
    assert json.loads(run(3, "bench", *sizes, "head", "--width", "32").stdout)["median_ms"] > 0


def test_elastic():
    """4 ranks, killed; then 2, 3 and 1, stopped; then 4 to the end: the bytes of an unbroken run."""
    options = [*ENCODERS["bert"], "--precision", "e2m5", "--save-every", "3", "--steps", "60", "--log-every", "1"]
    train(0, "whole", *options)
    process = start(4, "broken", *options)
    wait_for(lambda: step_of("broken") >= 3, "a checkpoint", process)
    os.kill(rank_pids(process)[2], signal.SIGKILL)
    _, said = process.communicate(timeout=LIMIT)
    assert process.returncode != 0 and "rank 2 (" in said and "has gone in step" in said, said
    assert said.count("elmo: error") == 1, said
    for ranks in (2, 3, 1):
        before = step_of("broken")
        assert before >= 3
        process = start(ranks, "broken", *options, "--resume")
        wait_for(lambda: step_of("broken") > before or process.poll() is not None, "progress", process)
        for pid in rank_pids(process).values():
            os.kill(pid, signal.SIGUSR1)
            break  # one rank is enough
        if ranks == 1 and process.poll() is None:
            process.send_signal(signal.SIGUSR1)
        _, said = process.communicate(timeout=LIMIT)
        assert process.returncode == 0, said
    train(4, "broken", *options, "--resume")
    require_equal("whole", "broken")


def test_stop():
    """SIGUSR1 to one rank, SIGTERM to another: one common last step, saved, status 0."""
    process = start(3, "run", *ENCODERS["bag"], "--steps", "30000", "--save-every", "5", "--log-every", "1")
    wait_for(lambda: step_of("run") >= 5, "a checkpoint", process)
    pids = rank_pids(process)
    os.kill(pids[2], signal.SIGUSR1)
    os.kill(pids[1], signal.SIGTERM)
    _, said = process.communicate(timeout=LIMIT)
    assert process.returncode == 0, said
    events = [json.loads(line) for line in Path("run/log.jsonl").read_text().splitlines()]
    assert events[-1]["event"] == "end" and events[-1]["interrupted"], events[-1]
    assert events[-1]["step"] == step_of("run"), (events[-1], step_of("run"))


def test_errors():
    """One line, wherever it went wrong."""
    def error_of(*command, expected, ranks=3):
        said = run(ranks, *command, status=1).stderr
        assert said.count("elmo: error") == 1 and all(part in said for part in expected), said

    error_of("train", "data.csv", "--out", "linear", "--quiet", expected=["encoder linear trains in one process"])
    error_of("train", "none.csv", "--out", "none", "--encoder", "bag", "--quiet", expected=["none.csv"])
    error_of("train", "data.csv", "--out", "nan", *COMMON, *ENCODERS["bag"], "--head-lr", "1e6",
             "--head-weight-decay", "1e6", "--steps", "50", "--log-every", "1", "--precision", "fp32", "--on-collapse",
             "ignore", expected=["step", "NaN or Inf"])
    assert not Path("nan/last").exists()
    found = json.loads(run(3, "inspect", "ranks", "--json").stdout)
    assert all(f"rank_{r}" in found for r in range(3)) and found["gbytes_per_second"] > 0, found
    # The other verbs are the first rank's.
    assert run(3, "plan", "--labels", "1000", "--json").stdout.count("arena_bytes") == 1
    if ENGINE == "gloo":
        return
    # Another seed on the second rank.
    one = mpirun(1, "train", "data.csv", "--out", "other", *COMMON, *ENCODERS["bag"], "--steps", "5")
    other = one[one.index("-n"):] + ["--seed", "7"]
    done = subprocess.run([*one, ":", *other], capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode != 0 and "rank 1 has another run than the first: expected 'seed = 42', found 'seed = 7'" in \
        done.stderr, done.stderr


def test_disk():
    """The first rank, which writes, has no room: all end, one says so, and what was saved before goes on."""
    options = [*ENCODERS["bag"], "--steps", "30000", "--save-every", "3", "--log-every", "1"]
    process = start(3, "full", *options)
    wait_for(lambda: step_of("full") >= 3, "a checkpoint", process)
    resource.prlimit(rank_pids(process)[0], resource.RLIMIT_FSIZE, (4096, 4096))
    _, said = process.communicate(timeout=LIMIT)
    assert process.returncode != 0 and said.count("elmo: error") == 1, said
    assert "rank 0 (" in said and "File too large" in said, said
    run(0, "predict", "full", "texts.txt", "--checkpoint", "last", "--quiet")
    before = step_of("full")
    process = start(2, "full", *options, "--resume")
    wait_for(lambda: step_of("full") > before, "progress", process)
    os.kill(rank_pids(process)[1], signal.SIGUSR1)
    _, said = process.communicate(timeout=LIMIT)
    assert process.returncode == 0, said


def test_strangers():
    """Who else connects to the port at which ranks meet is turned away, and holds up nobody."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    variables = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": str(port)}
    def begin(rank):
        return subprocess.Popen([ELMO, "inspect", "ranks", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                text=True, env={**os.environ, **variables, "RANK": str(rank), "LOCAL_RANK": str(rank)})
    ranks, guests = [begin(0)], []
    def visit(words=b""):
        guests.append(socket.create_connection(("127.0.0.1", port), 5))
        guests[-1].sendall(words)
    def is_listening():
        try:
            visit()
        except OSError:
            return False
        return True
    wait_for(is_listening, "the first rank", ranks[0])
    for rank, size in ((1, 2), (-1, 2), (7, 9), (0, 2)):  # of another run
        visit(b"elmo-rk2" + bytes(8) + rank.to_bytes(4, "little", signed=True) + size.to_bytes(4, "little"))
    for words in (b"GET / HTTP/1.1\r\n\r\n", bytes(range(256)) * 100, b"elmo-rk2", b""):
        visit(words)
    ranks.append(begin(1))
    for process in ranks:
        _, said = process.communicate(timeout=LIMIT)
        assert process.returncode == 0, said


def test_silent():
    """A rank that is stopped is noticed by its silence."""
    process = start(3, "run", *ENCODERS["bag"], "--steps", "30000", "--save-every", "5", "--rank-timeout", "2")
    wait_for(lambda: step_of("run") >= 5, "a checkpoint", process)
    pids = rank_pids(process)
    os.kill(pids[1], signal.SIGSTOP)
    try:
        _, said = process.communicate(timeout=LIMIT)
    finally:
        try:
            os.kill(pids[1], signal.SIGKILL)
        except ProcessLookupError:
            pass
    assert process.returncode != 0 and "rank 1 (" in said and "has not answered for" in said, said


def test_cable():
    """Two hosts, as network namespaces, with two ranks each: the same bytes; then the cable between them is pulled."""
    ip = lambda *words: subprocess.run(["ip", *words], check=True, capture_output=True)
    hosts, cable = [f"elmo{os.getpid()}a", f"elmo{os.getpid()}b"], [f"ea{os.getpid()}", f"eb{os.getpid()}"]
    try:
        ip("netns", "add", hosts[0])
    except (OSError, subprocess.CalledProcessError):
        print("skipped: network namespaces need root and iproute2")
        return SKIPPED

    def start_all(out, *more):
        where = {"WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "10.77.0.1", "MASTER_PORT": "29511"}
        return [subprocess.Popen(["ip", "netns", "exec", hosts[rank // 2], ELMO, "train", "data.csv", "--out", out, *COMMON,
                                  *ENCODERS["bag"], *more], stderr=subprocess.PIPE, text=True,
                                 env={**os.environ, **where, "RANK": str(rank), "LOCAL_RANK": str(rank % 2)})
                for rank in range(4)]

    ranks = []
    try:
        ip("netns", "add", hosts[1])
        ip("link", "add", cable[0], "type", "veth", "peer", "name", cable[1])
        for number, host in enumerate(hosts):
            ip("link", "set", cable[number], "netns", host)
            ip("-n", host, "addr", "add", f"10.77.0.{number + 1}/24", "dev", cable[number])
            for name in ("lo", cable[number]):
                ip("-n", host, "link", "set", name, "up")
        train(0, "one", *ENCODERS["bag"], "--steps", "20")
        ranks = start_all("many", "--steps", "20")
        said = [rank.communicate(timeout=LIMIT)[1] for rank in ranks]
        assert all(rank.returncode == 0 for rank in ranks), said
        require_equal("one", "many")
        ranks = start_all("pulled", "--steps", "1000000", "--save-every", "3", "--rank-timeout", "3")
        wait_for(lambda: step_of("pulled") >= 3, "a checkpoint", ranks[0])
        ip("-n", hosts[0], "link", "set", cable[0], "down")
        said = [rank.communicate(timeout=LIMIT)[1] for rank in ranks]
        assert all(rank.returncode != 0 for rank in ranks) and "has not answered for" in said[0], said
        run(0, "predict", "pulled", "texts.txt", "--checkpoint", "last", "--quiet")
    finally:
        for rank in ranks:
            rank.kill()
        for host in hosts:
            subprocess.run(["ip", "netns", "del", host], capture_output=True)


def main():
    if sys.argv[2] == "torchrun" and len(sys.argv) > 4:
        return torchrun(int(sys.argv[4]), *sys.argv[5:])
    if not Path(ELMO).parent.parent.joinpath(f"lib/libelmo_{ENGINE}.so").exists() or (
            ENGINE == "mpi" and shutil.which("mpirun") is None):
        print("skipped: no mpirun, or elmo was built without MPI (libopenmpi-dev, openmpi-bin) or Gloo (libgloo-dev)")
        return SKIPPED
    os.environ.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", ELMO_DEVICE="cpu")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        make_data()
        status = globals()["test_" + sys.argv[2]]()
        os.chdir("/")
    return status or 0


if __name__ == "__main__":
    sys.exit(main())
