#!/usr/bin/env python3
"""Runs every GPU figure of docs/benchmarks.md (`elmo bench`) and stores the outputs as one file.

    bench/gpu_table.py --elmo build/bin/elmo --commit $(git rev-parse --short HEAD) --out bench/results/DATE-CARD.json
"""
import argparse
import datetime
import json
import sys

import card

SHAPES = ["lf-amazontitles-131k", "amazontitles-670k", "lf-amazontitles-1.3m", "amazon-3m", "lf-paper2keywords-8.6m"]


def commands():
    """(kind, shape, further options, note)"""
    for shape in SHAPES:
        for precision in ("fp8", "e3m4", "e2m5", "bf16"):
            yield "step", shape, ["--precision", precision], ""
    for shape in ("lf-amazontitles-131k", "lf-amazontitles-1.3m", "amazon-3m"):
        for precision in ("fp8", "e2m5", "bf16"):
            yield "head", shape, ["--precision", precision], ""
    for shape in ("lf-amazontitles-1.3m", "amazon-3m"):
        yield "head", shape, ["--precision", "e2m5", "--head-kahan", "0"], "head-Kahan, none"
        yield "head", shape, ["--precision", "fp8", "--head-kahan", "20%"], "head-Kahan, 20 %"
        yield "step", shape, ["--precision", "fp8", "--head-kahan", "20%"], "head-Kahan, 20 %"
    for precision in ("e2m3", "e2m1"):
        yield "step", "amazon-3m", ["--precision", precision], "fewer bits"
    for shape in ("lf-amazontitles-131k", "amazon-3m", "lf-paper2keywords-8.6m"):
        yield "step", shape, ["--precision", "renee"], "the baseline"
    yield "step", "amazon-3m", ["--precision", "fp8", "--recompute", "layers"], "recompute layers"
    yield "step", "amazon-3m", ["--precision", "fp8", "--recompute", "cheap"], "recompute cheap"
    yield "step", "amazon-3m", ["--precision", "fp8", "--recompute", "compressed"], "recompute compressed"
    yield "encoder", "amazon-3m", ["--precision", "fp8"], ""
    yield "encoder", "amazon-3m", ["--precision", "fp8", "--encoder-precision", "fp8"], "encoder fp8"
    for shape in SHAPES:
        yield "step", shape, ["--precision", "fp8", "--encoder-precision", "fp8"], "encoder fp8"
    for recompute in ("wide", "none"):
        yield ("step", "amazon-3m", ["--precision", "fp8", "--encoder-precision", "fp8", "--recompute", recompute],
               f"encoder fp8, recompute {recompute}")
    yield "step", "lf-paper2keywords-8.6m", ["--precision", "fp8", "--labels", "18000000"], "18,000,000 labels"
    for precision in ("fp8", "e2m5", "bf16"):
        for texts in ("1", "16", "64", "128", "512", "1024"):
            yield ("predict", "lf-amazontitles-131k", ["--precision", precision, "--labels", "2812281", "--top", "100",
                                                       "--batch-size", texts], "best 100 of 2,812,281 labels")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--elmo", default="build/bin/elmo")
    parser.add_argument("--commit", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--steps", type=int, default=40, help="enough that the card's power limit acts")
    given = parser.parse_args()
    runs, failed = [], 0
    for kind, shape, options, note in commands():
        command = [given.elmo, "bench", kind, "--device", "cuda", "--shape", shape, *options, "--steps",
                   str(given.steps), "--json"]
        done, state = card.watched(command)
        if done.returncode != 0:
            print(" ".join(command), "failed:", done.stderr.strip()[-300:], flush=True)
            failed += 1
            continue
        run = json.loads(done.stdout)
        segments = {}
        for s in run.pop("segments", []):  # by their first two names: a tensor per line would be thousands
            if s.get("at_peak"):
                name = "/".join(s["name"].split("/")[:2])
                name = "encoder/layer.*" if name.startswith("encoder/layer.") else name
                segments[name] = segments.get(name, 0) + s["bytes"]
        run.update(shape=shape, precision=options[1], note=note, command=" ".join(["elmo", *command[1:]]),
                   peak_segments=segments, **state)
        runs.append(run)
        print(f"{kind:8}{shape:24}{' '.join(options):50}{run['median_ms']:9.3f} ms  head {run['head_ms']:.3f}  "
              f"encoder {run['encoder_ms']:.3f}  {run['peak_gib']:.3f} GiB  {run['sol_percent']:.1f} %  "
              f"{run['items_per_second']:.0f} texts/s  {state.get('clock', '')} {state.get('power', '')}", flush=True)
    name = runs[0]["device"].split(" (")[0] if runs else ""
    document = {"card": name, "date": datetime.date.today().isoformat(), "commit": given.commit, "runs": runs}
    json.dump(document, open(given.out, "w"), indent=1)
    if failed:
        sys.exit(f"{failed} commands failed and are missing in {given.out}")


if __name__ == "__main__":
    main()
