#!/usr/bin/env python3
"""elmo beside PyTorch on this machine's CPU: speed and peak memory of the same step, in one run.

    bench/compare_pytorch.py --encoder all-MiniLM-L6-v2 [--elmo build/bin/elmo] [--threads 2]

Runs alternate between the two (elmo, PyTorch, elmo, PyTorch, ...) so that a noisy machine hurts both; the
ratio printed is between the medians of all runs. Needs a Python with torch and transformers.
"""
import argparse
import datetime
import json
import os
import pathlib
import platform
import shlex
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent


def run(command, env=None):
    result = subprocess.run(command, capture_output=True, text=True, env=env)
    if result.returncode != 0:
        sys.exit(f"failed ({result.returncode}): {' '.join(map(str, command))}\n{result.stderr[-2000:]}")
    return json.loads(result.stdout.strip().splitlines()[-1] if "\n{" not in result.stdout else result.stdout)


def processor():
    for line in open("/proc/cpuinfo"):
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def compare(name, elmo_arguments, torch_arguments, a):
    threads = ["--threads", str(a.threads)]
    env = dict(os.environ)
    if a.torch_isa:
        env["ONEDNN_MAX_CPU_ISA"] = a.torch_isa
    ours, theirs = [], []
    for _ in range(a.rounds):
        ours.append(run([a.elmo, "bench", *elmo_arguments, *threads, "--device", "cpu", "--steps", str(a.steps), "--json"]))
        theirs.append(
            run([sys.executable, HERE / "pytorch_step.py", *torch_arguments, *threads, "--steps", str(a.steps)], env)
        )
    ms = statistics.median(r["median_ms"] for r in ours)
    torch_ms = statistics.median(r["median_ms"] for r in theirs)
    gib = max(r["measured_peak_bytes"] for r in ours) / 2**30
    torch_gib = max(r["measured_peak_bytes"] for r in theirs) / 2**30
    row = {
        "name": name,
        "threads": a.threads,
        "elmo_ms": ms,
        "torch_ms": torch_ms,
        "speedup": torch_ms / ms,
        "elmo_gib": gib,
        "torch_gib": torch_gib,
        "memory_share": gib / torch_gib,
        "sol_percent": statistics.median(r["sol_percent"] for r in ours),
        "products": ours[0].get("products", ""),
    }
    print(
        f"{name:<28} {a.threads} threads  elmo {ms:8.1f} ms {gib:6.2f} GiB   PyTorch {torch_ms:8.1f} ms {torch_gib:6.2f} GiB"
        f"   {row['speedup']:.2f} x the speed, {row['memory_share']:.2f} of the memory, {row['sol_percent']:.0f} % of the roofline",
        flush=True,
    )
    return row


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--elmo", default=str(HERE.parent / "build/bin/elmo"))
    p.add_argument("--encoder", required=True)
    p.add_argument("--threads", type=int, default=os.cpu_count())
    p.add_argument("--steps", type=int, default=7)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--head-labels", type=int, default=500_000)
    p.add_argument("--torch-isa", default="", help="ONEDNN_MAX_CPU_ISA for PyTorch, where its own choice crashes")
    p.add_argument("--out", help="also write the rows as JSON, with machine, date, commit and command")
    a = p.parse_args()
    rows = []
    shape = ["--batch-size", "64", "--max-length", "32", "--labels", "100000", "--encoder", a.encoder]
    rows.append(compare("step, MiniLM, 100k labels", ["step", *shape], ["step", *shape], a))
    head = ["--batch-size", "128", "--width", "384", "--labels", str(a.head_labels)]
    for precision in ["fp32", "bf16", "fp8", "e3m4"]:
        # PyTorch has no E3M4: its BF16 head, which is faster than emulating one, stands in.
        torch_precision = "bf16" if precision == "e3m4" else precision
        rows.append(
            compare(
                f"head, {precision}",
                ["head", *head, "--precision", precision],
                ["head", *head, "--precision", torch_precision],
                a,
            )
        )
    if a.out:
        commit = subprocess.run(["git", "-C", HERE, "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
        document = {
            "machine": f"{processor()}, {os.cpu_count()} cores; {platform.platform()}",
            "date": datetime.date.today().isoformat(),
            "commit": commit.stdout.strip() or "unknown",
            "command": shlex.join(["bench/compare_pytorch.py", *sys.argv[1:]]),
            "runs": rows,
        }
        pathlib.Path(a.out).write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
