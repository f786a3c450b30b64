#!/usr/bin/env python3
"""Measures the head's step over widths, batches and storages with `elmo bench head`, and draws the share of the speed
of light as a heat map.

    bench/sweep.py measure FILE.json [--elmo build/bin/elmo] [--labels 1000000] [--widths 384,768] [--batches 128,512]
                   [--precisions fp8,e2m5] [--steps 30]
    bench/sweep.py draw FILE.json docs/sweep.svg

Measuring adds to FILE.json what it does not have yet, so a sweep may be interrupted.
"""
import argparse
import datetime
import json
import os

import card

WIDTHS, BATCHES = [64, 100, 128, 200, 256, 384, 512, 768, 776, 1024], [64, 128, 256, 512, 1024, 2048, 4096]
PRECISIONS = ["bf16", "fp8", "e3m4", "e2m5", "e2m3", "e2m1"]
KEPT = ["median_ms", "min_ms", "floor_ms", "sol_percent", "peak_gflops", "peak_gbytes"]
CELL, ROW, LEFT, TOP = 46, 24, 76, 76


def measure(args):
    document = {"date": datetime.date.today().isoformat(), "labels": args.labels, "runs": []}
    if os.path.exists(args.file):
        with open(args.file) as file:
            document = json.load(file)
    known = {(r["precision"], r["width"], r["batch"]) for r in document["runs"]}
    for precision in args.precisions:
        for width in args.widths:
            for batch in args.batches:
                if (precision, width, batch) in known:
                    continue
                command = [args.elmo, "bench", "head", "--quiet", "--json", "--labels", str(args.labels), "--width",
                           str(width), "--batch-size", str(batch), "--precision", precision, "--steps",
                           str(args.steps)]
                done, state = card.watched(command)
                if done.returncode != 0:
                    raise SystemExit(f"{' '.join(command)} failed: {done.stderr.strip()}")
                result = json.loads(done.stdout)
                document["card"] = state.pop("card", result["device"])
                document["runs"].append({"precision": precision, "width": width, "batch": batch} |
                                        {key: result[key] for key in KEPT} | state)
                print(f"{precision} {width} x {batch}: {result['median_ms']:.2f} ms, {result['sol_percent']:.0f} %",
                      flush=True)
                with open(args.file, "w") as file:
                    json.dump(document, file, indent=1)


def colour(percent):
    """Red at 0 %, yellow at 35, green from 70 on."""
    return f"hsl({min(percent, 70) * 12 / 7:.0f} 65% 45%)"


def draw(args):
    with open(args.file) as file:
        document = json.load(file)
    runs = document["runs"]
    widths, batches = (sorted({r[key] for r in runs}) for key in ("width", "batch"))
    precisions = [p for p in PRECISIONS if any(r["precision"] == p for r in runs)]
    panel_width, panel_height = LEFT + CELL * len(batches) + 24, ROW * (len(widths) + 3)
    across = min(2, len(precisions))
    height = TOP + panel_height * ((len(precisions) + across - 1) // across)
    page_width = max(panel_width * across, 480)  # the title has room
    svg = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {page_width} {height}" '
           'font-family="sans-serif" font-size="12">',
           '<style>text{fill:#222}rect.page{fill:#fff}'
           '@media(prefers-color-scheme:dark){text{fill:#ddd}rect.page{fill:#16181c}}</style>',
           '<rect class="page" width="100%" height="100%"/>',
           f'<text x="12" y="24" font-size="15">The head\'s step, {document["labels"]:,} labels: share of the speed of '
           'light, %</text>',
           f'<text x="12" y="44">{document["card"]}, {document["date"]}</text>']
    for i, precision in enumerate(precisions):
        left, top = i % across * panel_width, TOP + i // across * panel_height
        svg.append(f'<text x="{left + 12}" y="{top}" font-weight="bold">{precision}</text>')
        svg.append(f'<text x="{left + LEFT - 8}" y="{top + ROW}" text-anchor="end">batch</text>')
        for j, batch in enumerate(batches):
            svg.append(f'<text x="{left + LEFT + CELL * (j + 0.5):.0f}" y="{top + ROW}" '
                       f'text-anchor="middle">{batch}</text>')
        for k, width in enumerate(widths):
            y = top + ROW * (k + 1) + 8
            svg.append(f'<text x="{left + LEFT - 8}" y="{y + 16}" text-anchor="end">width {width}</text>')
            for j, batch in enumerate(batches):
                run = next((r for r in runs if (r["precision"], r["width"], r["batch"]) == (precision, width, batch)),
                           None)
                if run is None:
                    continue
                x = left + LEFT + CELL * j
                svg.append(f'<rect x="{x}" y="{y}" width="{CELL - 2}" height="{ROW - 2}" '
                           f'fill="{colour(run["sol_percent"])}"><title>{run["median_ms"]:.2f} ms, floor '
                           f'{run["floor_ms"]:.2f} ms, {run["clock"]}, {run["power"]}</title></rect><text x="{x + CELL / 2 - 1}" y="{y + 16}" '
                           f'text-anchor="middle" style="fill:#fff">{run["sol_percent"]:.0f}</text>')
    svg.append("</svg>")
    with open(args.out, "w") as file:
        file.write("\n".join(svg) + "\n")


def main():
    def numbers(text):
        return [int(part) for part in text.split(",")]

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    sub = commands.add_parser("measure")
    sub.add_argument("file")
    sub.add_argument("--elmo", default="build/bin/elmo")
    sub.add_argument("--labels", type=int, default=1_000_000)
    sub.add_argument("--steps", type=int, default=30)
    sub.add_argument("--widths", type=numbers, default=WIDTHS)
    sub.add_argument("--batches", type=numbers, default=BATCHES)
    sub.add_argument("--precisions", type=lambda text: text.split(","), default=PRECISIONS)
    sub.set_defaults(run=measure)
    sub = commands.add_parser("draw")
    sub.add_argument("file")
    sub.add_argument("out")
    sub.set_defaults(run=draw)
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
