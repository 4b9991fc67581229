"""Colours of both themes, line dashes, and the layout that all charts share.

Contrast is at least 3 : 1 against the ground of the theme (WCAG 2.2, 1.4.11), and any two line colours stay apart by a
CIE 1976 difference of 20 and more for readers with normal sight, protanopia or deuteranopia; `tests/test_style.py`
computes both. The page gets the colours as CSS variables and its script reads them from there.
"""

from typing import Any

LIGHT = {
    "ground": "#f5f6f4",
    "card": "#ffffff",
    "ink": "#1d2327",
    "quiet": "#59636b",
    "rule": "#d9dedc",
    "grid": "#e6eae8",
    "accent": "#0b62c4",
    "warn": "#a33a00",
    "good": "#0b6b4a",
    "healthy": "rgba(11, 125, 85, 0.08)",
    "band-outer": "rgba(60, 75, 85, 0.10)",
    "band-inner": "rgba(60, 75, 85, 0.20)",
}
DARK = {
    "ground": "#0f1214",
    "card": "#171b1f",
    "ink": "#e9edef",
    "quiet": "#a2adb5",
    "rule": "#30373d",
    "grid": "#283036",
    "accent": "#78b0ff",
    "warn": "#ffa570",
    "good": "#6fd3a8",
    "healthy": "rgba(95, 215, 160, 0.12)",
    "band-outer": "rgba(190, 205, 215, 0.11)",
    "band-inner": "rgba(190, 205, 215, 0.22)",
}
LIGHT_LINES = ("#0976e3", "#d22500", "#00795c", "#8c548f", "#9e9356", "#333390")
DARK_LINES = ("#4c86ff", "#d9702e", "#4fa586", "#f4c8ec", "#e8d84e", "#8288c4")

DASHES = ("solid", "dash", "dot", "dashdot")
"""After all colours were used once, the dash changes: 24 lines can be told apart."""

FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "Noto Sans", sans-serif'


def slot_style(slot: int) -> tuple[str, str]:
    """Colour (of the light theme) and dash of the line in `slot`, counted from 0."""
    return LIGHT_LINES[slot % len(LIGHT_LINES)], DASHES[slot // len(LIGHT_LINES) % len(DASHES)]


def css_variables() -> str:
    """The rules that give both themes their colours: the reader's system decides, `data-theme` overrules it."""

    def block(colours: dict[str, str], lines: tuple[str, ...], scheme: str) -> str:
        named = {**colours, **{f"line-{index}": colour for index, colour in enumerate(lines)}}
        return f"color-scheme: {scheme}; " + " ".join(f"--{name}: {colour};" for name, colour in named.items())

    light, dark = block(LIGHT, LIGHT_LINES, "light"), block(DARK, DARK_LINES, "dark")
    return (
        f":root {{ {light} }}\n"
        f"@media (prefers-color-scheme: dark) {{ :root:not([data-theme=light]) {{ {dark} }} }}\n"
        f":root[data-theme=dark] {{ {dark} }}\n"
    )


def _axis() -> dict[str, Any]:
    return {
        "gridcolor": LIGHT["grid"],
        "linecolor": LIGHT["rule"],
        "zeroline": False,
        "showline": True,
        "ticks": "outside",
        "ticklen": 4,
        "tickcolor": LIGHT["rule"],
        "automargin": True,
        "title": {"standoff": 8, "font": {"size": 12}},
    }


def base_layout() -> dict[str, Any]:
    """Plotly layout without data: transparent ground, thin grid, room for axis titles, no legend of its own."""
    return {
        "template": "none",
        "showlegend": False,
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": FONT, "size": 12, "color": LIGHT["quiet"]},
        "margin": {"l": 56, "r": 24, "t": 12, "b": 44},
        "hoverlabel": {"font": {"family": FONT, "size": 12}, "align": "left", "namelength": -1},
        "dragmode": "zoom",
        "autosize": True,
        "xaxis": _axis(),
        "yaxis": _axis(),
    }
