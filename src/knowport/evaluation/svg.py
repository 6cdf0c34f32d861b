"""Small plots as SVG text: grouped bars with intervals, lines, changes. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

COLOURS = ("#3b6fb6", "#e08a1e", "#4c9f70", "#b5485d", "#7d6bb0", "#8a8a8a")
_WIDTH, _LEFT, _TOP, _BOTTOM = 860, 56, 34, 46


def grouped_bars(
    title: str,
    groups: Sequence[str],
    series: Mapping[str, Sequence[tuple[float, float | None, float | None] | None]],
) -> str:
    """Values 0..1 of each series (value, low, high; None: no value) by group, with whiskers."""
    height, plot = 300, 300 - _TOP - _BOTTOM
    slot = (_WIDTH - _LEFT - 10) / max(len(groups), 1)
    bar = min(46.0, slot * 0.8 / max(len(series), 1))
    parts = _frame(title, height, [(share, f"{share:.1f}") for share in (0, 0.2, 0.4, 0.6, 0.8, 1)])
    for at, group in enumerate(groups):
        middle = _LEFT + slot * (at + 0.5)
        shown = _cut(group, max(3, int(slot / 7)))
        parts.append(_text(middle, height - 26, shown, anchor="middle"))
        for place, (name, values) in enumerate(series.items()):
            value = values[at]
            if value is None:
                continue
            mean, low, high = value
            x = middle + (place - len(series) / 2) * bar
            top = _TOP + plot * (1 - mean)
            label = f"{group}, {name}: {mean:.3f}"
            parts.append(
                f'<rect x="{x + 1:.1f}" y="{top:.1f}" width="{bar - 2:.1f}" '
                f'height="{max(plot * mean, 0.5):.1f}" fill="{COLOURS[place % 6]}">'
                f"<title>{escape(label)}</title></rect>"
            )
            if low is not None and high is not None:
                centre = x + bar / 2
                ends = [_TOP + plot * (1 - end) for end in (low, high)]
                parts.append(_line(centre, ends[0], centre, ends[1], "#222"))
                parts += [_line(centre - 3, end, centre + 3, end, "#222") for end in ends]
    return _svg(title, height, [*parts, *_legend(list(series), height)])


def lines(
    title: str,
    series: Mapping[str, Sequence[tuple[float, float]]],
    x_name: str,
    y_name: str,
) -> str:
    """Points (x, y), both 0..1, joined for each series."""
    height, plot, width = 320, 320 - _TOP - _BOTTOM, _WIDTH - _LEFT - 10
    ticks = [(share, f"{share:.1f}") for share in (0, 0.2, 0.4, 0.6, 0.8, 1)]
    parts = _frame(title, height, ticks)
    parts += [_text(_LEFT + width * at, height - 28, name, anchor="middle") for at, name in ticks]
    parts.append(_text(_WIDTH - 10, height - 8, x_name, anchor="end"))
    parts.append(_text(_LEFT + 6, _TOP + 12, y_name))
    for place, (name, points) in enumerate(series.items()):
        path = " ".join(f"{_LEFT + width * x:.1f},{_TOP + plot * (1 - y):.1f}" for x, y in points)
        parts.append(
            f'<polyline points="{path}" fill="none" stroke="{COLOURS[place % 6]}" '
            f'stroke-width="2"><title>{escape(name)}</title></polyline>'
        )
    return _svg(title, height, [*parts, *_legend(list(series), height)])


def stacked(title: str, rows: Mapping[str, Mapping[str, float]], unit: str) -> str:
    """One horizontal bar a row, its parts side by side."""
    height = _TOP + 34 * len(rows) + 34
    longest = max((sum(parts.values()) for parts in rows.values()), default=0) or 1.0
    width = _WIDTH - 220
    names = list(dict.fromkeys(name for parts in rows.values() for name in parts))
    found = [_text(10, 18, title, size=14, weight="bold")]
    for at, (row, parts) in enumerate(rows.items()):
        y, x = _TOP + 34 * at, 130.0
        found.append(_text(120, y + 17, row, anchor="end"))
        for name, value in parts.items():
            size = width * value / longest
            colour = COLOURS[names.index(name) % 6]
            found.append(
                f'<rect x="{x:.1f}" y="{y}" width="{size:.1f}" height="24" fill="{colour}">'
                f"<title>{escape(f'{row}, {name}: {value:.1f} {unit}')}</title></rect>"
            )
            x += size
        found.append(_text(x + 6, y + 17, f"{sum(parts.values()):.1f} {unit}"))
    return _svg(title, height, [*found, *_legend(names, height)])


def changes(title: str, rows: Sequence[tuple[str, float]]) -> str:
    """Signed values -1..1, to the right where better, one a row."""
    height, middle, half = _TOP + 22 * max(len(rows), 1) + 14, 560, 280
    parts = [_text(10, 18, title, size=14, weight="bold")]
    parts.append(_line(middle, _TOP - 6, middle, height - 10, "#888"))
    for at, (name, value) in enumerate(rows):
        y, size = _TOP + 22 * at, abs(value) * half
        colour = COLOURS[2] if value > 0 else COLOURS[3]
        parts.append(_text(10, y + 12, _cut(name, 38)))
        parts.append(
            f'<rect x="{middle if value > 0 else middle - size:.1f}" y="{y}" '
            f'width="{max(size, 1):.1f}" height="16" fill="{colour}">'
            f"<title>{escape(f'{name}: {value:+.3f}')}</title></rect>"
        )
    return _svg(title, height, parts)


def _frame(title: str, height: int, ticks: Sequence[tuple[float, str]]) -> list[str]:
    plot = height - _TOP - _BOTTOM
    parts = [_text(10, 18, title, size=14, weight="bold")]
    for share, name in ticks:
        y = _TOP + plot * (1 - share)
        parts.append(_line(_LEFT, y, _WIDTH - 10, y, "#ddd"))
        parts.append(_text(_LEFT - 6, y + 4, name, anchor="end"))
    return parts


def _legend(names: Sequence[str], height: int) -> list[str]:
    parts, x = [], float(_LEFT)
    for place, name in enumerate(names):
        parts.append(
            f'<rect x="{x:.0f}" y="{height - 16}" width="11" height="11" '
            f'fill="{COLOURS[place % 6]}"/>'
        )
        parts.append(_text(x + 16, height - 6, name))
        x += 34 + 7 * len(name)
    return parts


def _text(
    x: float, y: float, text: str, *, anchor: str = "start", size: int = 12, weight: str = "normal"
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" '
        f'font-weight="{weight}">{escape(text)}</text>'
    )


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _line(x1: float, y1: float, x2: float, y2: float, colour: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}"/>'


def _svg(title: str, height: int, parts: Sequence[str]) -> str:
    return (
        f'<svg viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" role="img" '
        f'aria-label="{escape(title)}">{"".join(parts)}</svg>'
    )
