"""Colours: enough contrast in both themes, and lines that stay apart for readers who confuse red and green."""

import itertools

import numpy as np
import numpy.typing as npt
import pytest
from minitrain.dashboard.style import DARK, DARK_LINES, DASHES, LIGHT, LIGHT_LINES, css_variables, slot_style

Vector = npt.NDArray[np.float64]

# What protanopia and deuteranopia leave of linear RGB: Machado, Oliveira and Fernandes (2009), table 1, severity 1.0.
SIGHT = {
    "normal": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
}
XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
)


def linear(colour: str) -> Vector:
    channels = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    return np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)


def contrast(one: str, other: str) -> float:
    """WCAG 2.2 contrast ratio."""
    darker, lighter = sorted(float(XYZ[1] @ linear(colour)) for colour in (one, other))
    return (lighter + 0.05) / (darker + 0.05)


def lab(light: Vector) -> Vector:
    x, y, z = (XYZ @ np.clip(light, 0, 1)) / XYZ.sum(axis=1)
    fx, fy, fz = (np.cbrt(t) if t > 216 / 24389 else (24389 / 27 * t + 16) / 116 for t in (x, y, z))
    return np.array([116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)])


def test_contrast_of_black_on_white_is_21() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21.0)


@pytest.mark.parametrize(("theme", "lines"), [(LIGHT, LIGHT_LINES), (DARK, DARK_LINES)], ids=["light", "dark"])
def test_text_and_lines_have_contrast(theme: dict[str, str], lines: tuple[str, ...]) -> None:
    for name in ("ink", "quiet", "accent", "warn", "good"):
        for ground in ("card", "ground"):
            assert contrast(theme[name], theme[ground]) >= 4.5, (name, ground)
    for colour in lines:
        assert contrast(colour, theme["card"]) >= 3.0, colour


@pytest.mark.parametrize("sight", SIGHT)
@pytest.mark.parametrize("lines", [LIGHT_LINES, DARK_LINES], ids=["light", "dark"])
def test_lines_stay_apart(lines: tuple[str, ...], sight: str) -> None:
    seen = [lab(SIGHT[sight] @ linear(colour)) for colour in lines]
    distances = [float(np.linalg.norm(one - other)) for one, other in itertools.combinations(seen, 2)]
    assert min(distances) >= 20.0


def test_slots_differ_until_every_colour_met_every_dash() -> None:
    count = len(LIGHT_LINES) * len(DASHES)
    assert len({slot_style(slot) for slot in range(count)}) == count
    assert [slot_style(slot)[1] for slot in (0, 5, 6)] == ["solid", "solid", "dash"]


def test_both_themes_define_the_same_variables() -> None:
    assert LIGHT.keys() == DARK.keys()
    assert len(LIGHT_LINES) == len(DARK_LINES)
    css = css_variables()
    for name in (*LIGHT, "line-5"):
        assert css.count(f"--{name}: ") == 3  # light, dark by the system, dark by choice
