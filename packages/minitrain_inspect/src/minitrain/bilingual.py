"""Sentences in English and Spanish, and the way numbers are written in both.

A `Text` always carries both languages: a page holds both and shows one, so that switching needs no second file. The
decimal sign is a point in both, as on the axes of the charts, in the tables and in the log; thousands stand apart, with
a comma in English and, from five digits on, a thin space in Spanish.
"""

import math
from collections.abc import Iterable
from typing import NamedTuple

LANGUAGES = ("en", "es")


class Text(NamedTuple):
    """One sentence or word in both languages."""

    en: str
    es: str

    def fill(self, **values: "Text | str | float | int") -> "Text":
        """The sentence with `{name}` replaced in both languages; floats as by `number`, integers as by `count`."""

        def of(index: int) -> dict[str, str]:
            return {
                key: value[index]
                if isinstance(value, Text)
                else number(value)
                if isinstance(value, float)
                else count(value)[index]
                if isinstance(value, int)
                else value
                for key, value in values.items()
            }

        return Text(self.en.format(**of(0)), self.es.format(**of(1)))

    def capitalised(self) -> "Text":
        """With a capital at the start, for the beginning of a sentence."""
        return Text(self.en[:1].upper() + self.en[1:], self.es[:1].upper() + self.es[1:])

    def __str__(self) -> str:
        return self.en


def plain(words: str) -> Text:
    """`words` as they are in both languages: a name, a number."""
    return Text(words, words)


def joined(texts: Iterable[Text], separator: str = " ") -> Text:
    """The texts one after another."""
    both = list(texts)
    return Text(separator.join(text.en for text in both), separator.join(text.es for text in both))


def count(value: int) -> Text:
    r"""A whole number with its thousands apart: 103,680 in English, 103\u202f680 in Spanish.

    Spanish writes four digits together: 4000 (Real Academia Española, Ortografía, 2010).
    """
    return Text(f"{value:,}", f"{value:,}".replace(",", "\u202f") if abs(value) >= 10_000 else str(value))


def number(value: float | None) -> str:
    """`value` with four significant digits, as short as they allow; a dash for None."""
    if value is None:
        return "–"
    if not math.isfinite(value):
        return "∞" if value > 0 else "−∞" if value < 0 else "nan"
    if value != 0 and not 1e-4 <= abs(value) < 1e6:
        mantissa, exponent = f"{value:.3e}".split("e")
        return f"{mantissa.rstrip('0').rstrip('.')}e{int(exponent)}".replace("-", "−")
    digits = f"{value:.4g}" if abs(value) < 1e4 else f"{value:.0f}"
    return digits.replace("-", "−")
