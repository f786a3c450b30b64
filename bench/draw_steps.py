#!/usr/bin/env python3
"""Draws one step of each shape, phase by phase, beside what its products and bytes would take at the card's measured
rates: docs/steps.svg from a stored output of `elmo bench step --json`.

    bench/draw_steps.py bench/results/FILE.json docs/steps.svg [PRECISION]
"""
import json
import sys

PHASES = ["encoder forward", "head", "encoder backward and update"]
COLOURS = {"encoder forward": "#4c78a8", "head": "#e4572e", "encoder backward and update": "#72b7b2"}
LEFT, TOP, WIDTH, ROW, BAR = 190, 64, 620, 58, 18


def floor_ms(phase, run):
    """The least time of a phase: its products at the measured rate, or its bytes at the rate of copying."""
    return max(phase["flops"] / run["peak_gflops"], phase["bytes"] / run["peak_gbytes"]) / 1e6


def main():
    stored, out = sys.argv[1:3]
    precision = sys.argv[3] if len(sys.argv) > 3 else "fp8"
    document = json.load(open(stored))
    runs = [r for r in document["runs"]
            if r["what"] == "step" and r.get("precision") == precision and not r.get("note")]
    most = max(r["median_ms"] for r in runs)
    scale = WIDTH / most
    height = TOP + ROW * len(runs) + 60
    svg = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LEFT + WIDTH + 90} {height}" '
           'font-family="sans-serif" font-size="13">',
           '<style>text{fill:#222}.floor{opacity:.45}.axis{stroke:#888}rect.page{fill:#fff}'
           '@media(prefers-color-scheme:dark){text{fill:#ddd}rect.page{fill:#16181c}}</style>',
           '<rect class="page" width="100%" height="100%"/>',
           f'<text x="12" y="24" font-size="15">One step, {precision} head, BF16 encoder: measured (upper bar) and '
           'the floor by products and bytes (lower bar)</text>',
           f'<text x="12" y="44">{document["card"]}, {document["date"]}, commit {document["commit"]}</text>']
    for i, run in enumerate(runs):
        y = TOP + i * ROW
        svg.append(f'<text x="{LEFT - 10}" y="{y + 20}" text-anchor="end">{run["shape"]}</text>')
        x = [LEFT, LEFT]
        for name in PHASES:
            phase = next(p for p in run["phases"] if p["name"] == name)
            least = floor_ms(phase, run)
            for row, ms in enumerate((phase["median_ms"], least)):
                width, kind = ms * scale, ' class="floor"' if row else ""
                svg.append(f'<rect x="{x[row]:.1f}" y="{y + row * (BAR + 2)}" width="{width:.1f}" height="{BAR}" '
                           f'fill="{COLOURS[name]}"{kind}><title>{name}: '
                           f'{phase["median_ms"]:.2f} ms, floor {least:.2f} ms, '
                           f'{100 * least / phase["median_ms"]:.0f} %</title></rect>')
                if row == 0 and width > 34:
                    svg.append(f'<text x="{x[0] + width / 2:.1f}" y="{y + 14}" text-anchor="middle" '
                               f'style="fill:#fff">{100 * least / phase["median_ms"]:.0f} %</text>')
                x[row] += width
        svg.append(f'<text x="{x[0] + 6:.1f}" y="{y + 14}">{run["median_ms"]:.1f} ms</text>')
        svg.append(f'<text x="{x[1] + 6:.1f}" y="{y + 34}">{run["floor_ms"]:.1f} ms, '
                   f'{run["sol_percent"]:.0f} %</text>')
    y = TOP + ROW * len(runs) + 20
    x = 12
    for name in PHASES:
        svg.append(f'<rect x="{x}" y="{y}" width="14" height="14" fill="{COLOURS[name]}"/>'
                   f'<text x="{x + 20}" y="{y + 12}">{name}</text>')
        x += 40 + 8 * len(name)
    svg.append("</svg>")
    open(out, "w").write("\n".join(svg) + "\n")


if __name__ == "__main__":
    main()
