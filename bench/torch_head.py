"""The step of elmo.torch.Head beside `elmo bench head` on the same GPU, in one run.

    python bench/torch_head.py [--labels 1000000] [--elmo build/bin/elmo]

The encoder is left out on both sides: what is compared is the cost of coming from Python. Prints a line per case. Memory
is what the whole card has less of after the steps, so nothing else may run there: a small head has loaded the libraries
before, and PyTorch's own tensors are subtracted."""
import argparse
import json
import subprocess
import time

import torch

from elmo.torch import Head

parser = argparse.ArgumentParser()
parser.add_argument("--labels", type=int, default=1_000_000)
parser.add_argument("--elmo", default="build/bin/elmo")
parser.add_argument("--steps", type=int, default=100)
args = parser.parse_args()


def seconds_per_step(head, vectors, labels, want_loss):
    began = 0.0
    for step in range(10 + args.steps):
        if step == 10:
            torch.cuda.synchronize()
            began = time.perf_counter()
        head(vectors, labels, want_loss=want_loss).backward()
        vectors.grad = None
    torch.cuda.synchronize()
    return (time.perf_counter() - began) / args.steps


def taken():
    """Bytes of the card that are in use, without those that PyTorch holds."""
    torch.cuda.synchronize()
    free, total = torch.cuda.mem_get_info()
    return total - free - torch.cuda.memory_reserved()


def planned(head):
    """Bytes of the head and its step, by its plan."""
    number, unit = next(line for line in head.plan.splitlines() if line.startswith("arena")).split()[1:3]
    return float(number.replace(",", "")) * 1024 ** ["B", "KiB", "MiB", "GiB"].index(unit)


def small_step(precision):
    vectors = torch.randn(8, 64, device="cuda").to(torch.bfloat16).requires_grad_()
    head = Head(1000, 64, batch=8, precision=precision, device="cuda")
    head(vectors, [[1]] * 8).backward()


for width, batch, precision in ((768, 128, "fp8"), (768, 512, "fp8"), (768, 128, "e2m5"), (384, 512, "bf16")):
    shape = ["--labels", args.labels, "--width", width, "--batch-size", batch, "--precision", precision, "--head-lr", 0.05,
             "--steps", args.steps]  # as many on both sides: a card that works for longer meets its power limit
    printed = subprocess.run([args.elmo, "bench", "head", "--device", "cuda", "--json", *map(str, shape)],
                             capture_output=True, text=True, check=True).stdout
    bench = json.loads(printed)["median_ms"]
    small_step(precision)
    before = taken()
    head = Head(args.labels, width, batch=batch, precision=precision, lr=0.05, device="cuda")
    torch.manual_seed(1)  # numbers like those of the bench: a card at its power limit is slower with larger ones
    vectors = (0.3 * torch.randn(batch, width, device="cuda")).to(torch.bfloat16).requires_grad_()
    labels = torch.randint(args.labels, (batch, 5)).tolist()
    silent, aloud = (1000 * seconds_per_step(head, vectors, labels, want_loss) for want_loss in (False, True))
    print(f"{precision} {width} x {batch}: bench head {bench:.3f} ms; Head {silent:.3f} ms ({100 * (silent / bench - 1):+.1f} %), "
          f"with its loss {aloud:.3f} ms; memory planned {planned(head) / 2**20:.1f} MiB, taken {(taken() - before) / 2**20:.1f} MiB",
          flush=True)
    del head
