#!/usr/bin/env python3
"""What a step should cost on a cluster: the table of docs/cluster.md. A model, not a measurement.

    bench/cluster_model.py [--json]

Calibrated on one H200 (docs/benchmarks.md). The head has 8-bit weights of width 768, the encoder is BERT-base with 110
million parameters in BF16. A machine has 8 GPUs with 450 GB/s of NVLink each way and 50 GB/s of network per GPU.
bench/cluster.sh measures the same steps on a real cluster.
"""
import json
import math
import sys

WIDTH, GPUS = 768, 8
LAYERS, LAYER, EMBEDDINGS = 12, 7.09e6, 23.8e6  # parameters of a layer and of the embeddings
PIECE = 1 << 22  # elements of the gradients in one exchange (src/engine/shared_step.cpp)
NVLINK, NETWORK = 0.8 * 450e9, 0.9 * 50e9  # bytes per second that exchanges reach
# Of the encoder's time: the backward is two thirds, and the gradients of its first layer are there after a twelfth.
HIDES = 0.6


def latency(machines):
    return 15e-6 if machines == 1 else 30e-6 + 5e-6 * math.log2(machines)


def exchanged(bytes_, ranks, two_levels=False, exchanges=1):
    """Seconds in which every rank sends (or receives) its share of `bytes_` to (from) each other one. Flat, as elmo does
    it: what goes to another machine goes over the rank's own network card. In two levels: inside the machine first, and
    an eighth each between machines."""
    if ranks == 1:
        return 0.0
    machines, local = math.ceil(ranks / GPUS), min(ranks, GPUS)
    if two_levels or machines == 1:
        inside = bytes_ * (local - 1) / local / NVLINK
        between = bytes_ / local * (machines - 1) / machines / NETWORK
    else:
        inside = bytes_ * (local - 1) / ranks / NVLINK
        between = bytes_ * (ranks - local) / ranks / NETWORK
    return max(inside, between) + exchanges * (latency(machines) + 1.5e-6 * (machines - 1))


def encoder_exchange(parameters, ranks, two_levels=False):
    """Gradients (FP32 parts, in pieces) and new weights (BF16) of a layer, or of the embeddings."""
    return (exchanged(4 * parameters, ranks, two_levels, math.ceil(parameters / PIECE)) +
            exchanged(2 * parameters, ranks, two_levels))


def step(labels, ranks, batch, tokens):
    """Milliseconds of each part. `step_ms` is what elmo does: a layer's gradients and weights travel behind the backward
    of the layers before it; those of the embeddings come last. `one_by_one_ms`: as if nothing overlapped.
    `two_levels_ms`: with exchanges in two levels."""
    weights = labels * WIDTH / ranks
    head = weights * (0.863 + 0.0110 * batch) * 1e-12
    encoder = max(3.0e-3, 0.4e-3 + 1.28e-6 * batch * tokens / ranks)
    x = exchanged(2 * batch * WIDTH, ranks)
    dx = exchanged(4 * batch * WIDTH, ranks)

    def whole(two_levels, hides):
        layers, last = (LAYERS * encoder_exchange(LAYER, ranks, two_levels),
                        encoder_exchange(EMBEDDINGS, ranks, two_levels))
        return encoder + head + x + dx + max(0.0, layers - hides * encoder) + last

    gradients = LAYERS * encoder_exchange(LAYER, ranks) + encoder_exchange(EMBEDDINGS, ranks)
    now = whole(False, HIDES)
    return {"labels": labels, "ranks": ranks, "batch": batch, "head_gb_per_rank": weights / 1e9,
            "encoder_ms": encoder * 1e3, "head_ms": head * 1e3, "x_ms": x * 1e3, "dx_ms": dx * 1e3,
            "gradients_ms": gradients * 1e3, "one_by_one_ms": whole(False, 0) * 1e3, "step_ms": now * 1e3,
            "two_levels_ms": whole(True, HIDES) * 1e3, "texts_per_second": batch / now}


CASES = [(2.8e6, 128, [(1, 1024), (8, 1024), (64, 1024), (64, 8192)]),
         (8.6e6, 128, [(8, 1024), (64, 1024), (64, 8192)]),
         (18e6, 128, [(8, 1024), (64, 8192)]),
         (100e6, 32, [(8, 1024), (64, 1024), (64, 8192), (1024, 8192)]),
         (1e9, 32, [(64, 1024), (1024, 8192)])]


def main():
    rows = [step(labels, ranks, batch, tokens) for labels, tokens, runs in CASES for ranks, batch in runs]
    if "--json" in sys.argv[1:]:
        return print(json.dumps(rows, indent=1))
    print("| labels (million) | ranks | batch | head per rank, GB | encoder | head | x | dx | gradients, weights | "
          "without overlap | step, ms | in two levels | texts/s |")
    print("|---" * 13 + "|")
    for r in rows:
        print(f"| {r['labels'] / 1e6:g} | {r['ranks']} | {r['batch']} | {r['head_gb_per_rank']:.2f} | "
              f"{r['encoder_ms']:.1f} | {r['head_ms']:.1f} | {r['x_ms']:.2f} | {r['dx_ms']:.2f} | "
              f"{r['gradients_ms']:.1f} | {r['one_by_one_ms']:.1f} | {r['step_ms']:.1f} | {r['two_levels_ms']:.1f} | "
              f"{r['texts_per_second']:,.0f} |")


if __name__ == "__main__":
    main()
