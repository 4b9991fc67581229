"""Cosines between all forms as a picture: a square of pixels for each text, forms in the order of the verbs."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

SIDE, LEFT, TOP, GAP = 496, 70, 78, 40
# A scale that the colour-blind can read as well.
NEGATIVE, ZERO, POSITIVE = np.array([[33.0, 102.0, 172.0], [247.0, 247.0, 247.0], [178.0, 24.0, 43.0]])
SHADES = 33  # of the palette, the middle one is 0: more are not told apart, and make the file larger
TITLES = {
    "line": "Text ends with the line: only translations tie words together",
    "verb": "The lines of a verb are one text, in random order",
}


def _palette() -> npt.NDArray[np.uint8]:
    """Return the colours from −1 to 1, shape (SHADES, 3)."""
    at = np.linspace(-1.0, 1.0, SHADES)[:, np.newaxis]
    return (ZERO + (np.where(at < 0, NEGATIVE, POSITIVE) - ZERO) * np.abs(at)).round().astype(np.uint8)


def _png(cosine: Array) -> bytes:
    """Return a PNG of one pixel a pair, blue at −1, white at 0, red at 1."""
    shades = ((cosine + 1.0) / 2.0 * (SHADES - 1)).round().clip(0, SHADES - 1).astype(np.uint8)
    lines = b"".join(b"\x00" + row.tobytes() for row in shades)  # 0: the line is not filtered

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", cosine.shape[1], cosine.shape[0], 8, 3, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"PLTE", _palette().tobytes())
        + chunk(b"IDAT", zlib.compress(lines, 9))
        + chunk(b"IEND", b"")
    )


def similarity_svg(cosines: Mapping[str, Array], lemmas: npt.NDArray[np.str_]) -> str:
    """Return an SVG with a square for each text; a verb's name stands beside the rows of its forms."""
    width, height = LEFT + len(cosines) * (SIDE + GAP), TOP + SIDE + 24
    scale = SIDE / len(lemmas)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="sans-serif" font-size="12" role="img">',
        "<title>Cosine between the embeddings of all verb forms</title>",
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="{LEFT}" y="22" font-size="15" font-weight="bold">Cosine of each two verb forms</text>',
        '<defs><linearGradient id="scale">'
        + "".join(
            f'<stop offset="{at}" stop-color="rgb({",".join(f"{x:.0f}" for x in colour)})"/>'
            for at, colour in ((0, NEGATIVE), (0.5, ZERO), (1, POSITIVE))
        )
        + "</linearGradient></defs>",
        f'<text x="{LEFT}" y="42">−1</text><rect x="{LEFT + 22}" y="33" width="120" height="10" fill="url(#scale)"/>'
        f'<text x="{LEFT + 148}" y="42">1 · a square on the diagonal is a verb</text>',
    ]
    for number, (text, cosine) in enumerate(cosines.items()):
        left = LEFT + number * (SIDE + GAP)
        image = base64.b64encode(_png(cosine)).decode()
        parts.append(f'<text x="{left}" y="{TOP - 12}" font-size="13">{TITLES[text]}</text>')
        parts.append(
            f'<image x="{left}" y="{TOP}" width="{SIDE}" height="{SIDE}" preserveAspectRatio="none" '
            f'style="image-rendering:pixelated" href="data:image/png;base64,{image}"/>'
        )
        parts.append(f'<rect x="{left}" y="{TOP}" width="{SIDE}" height="{SIDE}" fill="none" stroke="#888"/>')
    for lemma in dict.fromkeys(lemmas.tolist()):
        rows = np.flatnonzero(lemmas == lemma)
        middle = TOP + scale * (rows[0] + rows[-1] + 1) / 2
        parts.append(f'<text x="{LEFT - 6}" y="{middle + 4:.1f}" text-anchor="end">{lemma}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"
