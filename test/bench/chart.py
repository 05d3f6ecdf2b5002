"""A chart of ratios as an SVG file: for each model a bar for each side that it was compared with, on a logarithmic scale."""

import html
import math

COLOURS = ("#1b6ca8", "#c8553d", "#588b4f", "#8c6bb1")
LEFT, WIDTH, BAR, GAP, TOP = 150, 560, 9, 8, 54
TICKS = (0.25, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0)


def text(x, y, words, anchor="start", colour="#333"):
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}" fill="{colour}">{html.escape(words)}</text>'


def position(ratio):
    """Where a ratio stands between the first and the last tick."""
    low, high = math.log(TICKS[0]), math.log(TICKS[-1])
    return LEFT + WIDTH * (min(max(math.log(ratio), low), high) - low) / (high - low)


def axis(bottom):
    lines = []
    for tick in TICKS:
        x, is_one = position(tick), tick == 1.0
        lines.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP - 4}" y2="{bottom}" stroke="{"#333" if is_one else "#ddd"}"/>')
        lines.append(text(x, bottom + 14, f"{tick:g}", "middle"))
    return lines


def write_chart(path, rows):
    """`rows`: by (side, threads) and model the ratio ours / theirs with its 95 % interval."""
    models = list(dict.fromkeys(name for row in rows.values() for name in row))
    step = len(rows) * BAR + GAP
    bottom = TOP + step * len(models)
    lines = axis(bottom)
    for number, (side, threads) in enumerate(rows):
        x, colour = LEFT + 180 * (number % 3), COLOURS[number % len(COLOURS)]
        y = 14 + 16 * (number // 3)
        lines.append(f'<rect x="{x}" y="{y - 9}" width="10" height="10" fill="{colour}"/>')
        lines.append(text(x + 16, y, f"{side}, {threads} thread{'s' if threads > 1 else ''}"))
    for place, model in enumerate(models):
        top = TOP + step * place
        lines.append(text(LEFT - 8, top + (step - GAP) / 2 + 4, model, "end"))
        for number, row in enumerate(rows.values()):
            if model not in row:
                continue
            (ratio, low, high), y, one = row[model], top + BAR * number, position(1.0)
            begin, end = sorted((position(ratio), one))
            lines.append(f'<rect x="{begin:.1f}" y="{y}" width="{end - begin:.1f}" height="{BAR - 2}" fill="{COLOURS[number % len(COLOURS)]}"/>')
            middle = y + (BAR - 2) / 2
            lines.append(f'<line x1="{position(low):.1f}" x2="{position(high):.1f}" y1="{middle}" y2="{middle}" stroke="#000" stroke-width="0.8"/>')
    lines.append(text(LEFT, bottom + 32, "Weft's time as a share of the other's: left of 1 Weft is faster"))
    size = f'width="{LEFT + WIDTH + 30}" height="{bottom + 44}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="11"><rect width="100%" height="100%" fill="#fff"/>'
    path.write_text("\n".join([head, *lines, "</svg>", ""]))
