"""Colours of both themes, and the ramp of the heat map.

Text keeps a contrast of at least 4.5 : 1 against its ground (WCAG 2.2, 1.4.3), over the whole ramp too: a cell's number
is always the theme's ink, so the ramp ends where that would no longer be read. `tests/test_worksheet_pages.py` computes
it.
"""

from __future__ import annotations

LIGHT = {
    "ground": "#f5f6f4",
    "card": "#ffffff",
    "ink": "#1d2327",
    "quiet": "#59636b",
    "rule": "#d9dedc",
    "accent": "#0b62c4",
    "tint": "#eef3fa",
    "hot": "#74aaf0",
}
DARK = {
    "ground": "#0f1214",
    "card": "#171b1f",
    "ink": "#e9edef",
    "quiet": "#a2adb5",
    "rule": "#30373d",
    "accent": "#78b0ff",
    "tint": "#1c2530",
    "hot": "#2459a8",
}


def css_variables() -> str:
    """Return the rules that give a worksheet its colours: the reader's system decides which."""

    def block(colours: dict[str, str]) -> str:
        return " ".join(f"--{name}: {colour};" for name, colour in colours.items())

    return (
        f".worksheet {{ color-scheme: light dark; {block(LIGHT)} }}\n"
        f"@media (prefers-color-scheme: dark) {{ .worksheet {{ {block(DARK)} }} }}\n"
        f"@media print {{ .worksheet {{ {block(LIGHT)} }} }}\n"
    )


def heat(weight: float) -> str:
    """Return how much of `hot` a cell has, from 0 % to 100 %, for a weight in [0, 1]."""
    return f"{100.0 * weight:.1f}%"
