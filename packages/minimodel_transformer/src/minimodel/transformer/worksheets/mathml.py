"""The small part of LaTeX that the worksheet's equations use, as MathML Core, which browsers typeset without script.

Understood: letters, numbers, operators, brackets, `_ ^ '`, groups in braces, and the commands in the tables below.
Anything else is an error, so that no formula can come out wrong unnoticed.

References
----------
W3C, "MathML Core" (2025), §3: presentation elements.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_TOKEN = re.compile(r"\s*(\\[A-Za-z]+|\d+(?:\.\d+)?|[A-Za-z]|[-+=/,;()\[\]{}_^'])")

_LETTERS = {
    "beta": "β",
    "gamma": "γ",
    "lambda": "λ",
    "mu": "μ",
    "pi": "π",
    "sigma": "σ",
    "theta": "θ",
    "varepsilon": "ε",
}
_OPERATORS = {"cdot": "·", "approx": "≈", "le": "≤", "gt": ">", "cdots": "⋯", "top": "⊤", "sum": "∑"}
_FUNCTIONS = ("cos", "exp", "max", "sin", "tanh")
_ACCENTS = {"hat": "^", "bar": "¯", "tilde": "~"}
_SPACES = {"quad": "1em", "enspace": "0.5em"}
# Characters of their own: a bold made by the browser from a mathematical font, which has none, is blurred.
_BOLD = {ord("A") + i: 0x1D400 + i for i in range(26)} | {ord("a") + i: 0x1D41A + i for i in range(26)}

_OPENING = "([{"

_START = "start"  # in the place of the token before the first one of a piece


def mathml(latex: str, *, block: bool = False) -> str:
    """Return a `<math>` element.

    Parameters
    ----------
    latex : str
    block : bool
        Displayed on a line of its own.

    Raises
    ------
    ValueError
        If `latex` holds what is not understood.

    Examples
    --------
    >>> mathml("x^2")
    '<math><msup><mi>x</mi><mn>2</mn></msup></math>'
    """
    parser = _Parser(latex)
    content = "".join(parser.row(""))
    return f'<math display="block">{content}</math>' if block else f"<math>{content}</math>"


def inline_pieces(latex: str) -> str:
    """Return a formula as several `<math>` elements, cut before operators and after commas: a line may break there."""
    pieces, depth = [""], 0
    for word in latex.split(" "):
        operator = word in ("=", r"\approx", "+", "-")
        if depth == 0 and pieces[-1] and (operator or pieces[-1].endswith(", ")):
            pieces.append("")
        pieces[-1] += f"{word} "
        depth += word.count("{") - word.count("}")
    # A piece may open a bracket that a later one closes, so brackets are plain signs here.
    # A minus after a comma, or at the very start, is a sign.
    firsts = ("" if before.endswith(", ") else _START for before in [", ", *pieces])
    rows = (
        "".join(_Parser(piece, flat=True).row("", first=first)) for piece, first in zip(pieces, firsts, strict=False)
    )
    return " ".join(f'<math displaystyle="true">{row}</math>' for row in rows)


class _Parser:
    """Recursive descent over the tokens of one formula."""

    def __init__(self, latex: str, *, flat: bool = False) -> None:
        self._latex = latex
        self._flat = flat
        self._tokens = list(self._scan(latex))
        self._next = 0

    def _scan(self, latex: str) -> Iterator[str]:
        position = 0
        while position < len(latex.rstrip()):
            match = _TOKEN.match(latex, position)
            if match is None:
                raise self._error(f"the character {latex[position:].lstrip()[:1]!r}")
            yield match[1]
            position = match.end()

    def _error(self, what: str) -> ValueError:
        return ValueError(
            f"mathml: formulas use a small part of LaTeX; got {what} in {self._latex!r}. Write it otherwise."
        )

    def _peek(self) -> str:
        return self._tokens[self._next] if self._next < len(self._tokens) else ""

    def _take(self, expected: str = "") -> str:
        token = self._peek()
        if not token or (expected and token != expected):
            raise self._error(f"{token or 'the end'!r}" + (f" where {expected!r} must stand" if expected else ""))
        self._next += 1
        return token

    def row(self, end: str, first: str = "") -> list[str]:
        """Return the elements up to the token `end`, which is taken too; up to the end of the formula if empty.

        The token before an element, `first` before the first one, decides whether a minus is a sign.
        """
        elements: list[str] = []
        before = first
        while self._peek() != end:
            token = self._peek()
            elements.append(self._scripted(before))
            before = token
        if end:
            self._take(end)
        return elements

    def _scripted(self, before: str) -> str:
        """Return one element with the scripts that follow it."""
        token = self._peek()
        base = self._atom(before)
        low, high, prime = "", "", ""
        while self._peek() in ("_", "^", "'"):
            mark = self._take()
            if mark == "'":
                prime = "<mo>′</mo>"
            elif mark == "_":
                low = self._atom("_")
            else:
                high = self._atom("^")
        if prime:
            high = f"<mrow>{prime}{high}</mrow>" if high else prime
        if token in (r"\sum", r"\max") and low and not high:
            return f"<munder>{base}{low}</munder>"
        if low and high:
            return f"<msubsup>{base}{low}{high}</msubsup>"
        if low:
            return f"<msub>{base}{low}</msub>"
        return f"<msup>{base}{high}</msup>" if high else base

    def _group(self) -> str:
        """Return a group in braces, or a single element, as one element."""
        return self._atom("{")

    def _atom(self, before: str) -> str:
        token = self._take()
        if token == "{":
            inside = self.row("}")
            return inside[0] if len(inside) == 1 else f"<mrow>{''.join(inside)}</mrow>"
        if self._flat and token in "()":
            form = "prefix" if token == "(" else "postfix"
            return f'<mo stretchy="false" form="{form}">{token}</mo>'
        if token in "([":
            close = {"(": ")", "[": "]"}[token]
            return self._bracketed(token, "".join(self.row(close)), close, stretchy=False)
        if token[0].isdigit():
            return f"<mn>{token}</mn>"
        if token[0].isalpha():
            return f"<mi>{token}</mi>"
        if token[0] == "\\":
            return self._command(token[1:], before)
        if token in "+-=":
            # A sign clings to its number; an operator has space around it, at the start of a piece too.
            sign = token == "-" and (before in ("", "_", "^", "=", ",", r"\approx", r"\cdot") or before in _OPENING)
            # Before the operator that starts a piece stands the blank between pieces.
            form = 'form="prefix"' if sign else 'form="infix" lspace="0"' if before == _START else 'form="infix"'
            return f"<mo {form}>{token.replace('-', '−')}</mo>"
        if token == "/":
            return '<mo lspace="0" rspace="0">/</mo>'
        if token in ",;":
            return f"<mo>{token}</mo>"
        raise self._error(f"{token!r}")

    def _bracketed(self, opening: str, inside: str, closing: str, *, stretchy: bool) -> str:
        fixed = "" if stretchy else ' stretchy="false"'
        return f"<mrow><mo{fixed}>{opening}</mo>{inside}<mo{fixed}>{closing}</mo></mrow>"

    def _function(self, name: str, before: str) -> str:
        """Return a function's name, thinly spaced from a factor before it and an argument without brackets after it."""
        space = '<mspace width="0.17em"></mspace>'
        left = (
            space
            if before and before not in (_START, "=", "+", "-", r"\cdot", r"\approx") and before not in _OPENING
            else ""
        )
        right = "" if self._peek() in ("(", r"\left") else space
        return f"{left}<mi>{name}</mi>{right}"

    def _command(self, name: str, before: str) -> str:
        if name in _LETTERS:
            return f"<mi>{_LETTERS[name]}</mi>"
        if name == "approx" and before == _START:
            return '<mo lspace="0">≈</mo>'
        if name in _OPERATORS:
            return f"<mo>{_OPERATORS[name].replace('>', '&gt;')}</mo>"
        if name == "infty":
            return "<mn>∞</mn>"
        if name in _FUNCTIONS:
            return "<mo>max</mo>" if name == "max" else self._function(name, before)
        if name in _SPACES:
            return f'<mspace width="{_SPACES[name]}"></mspace>'
        if name in _ACCENTS:
            return f'<mover accent="true">{self._group()}<mo stretchy="false">{_ACCENTS[name]}</mo></mover>'
        if name == "mathbf":
            self._take("{")
            letter = self._take()
            self._take("}")
            return f"<mi>{letter.translate(_BOLD)}</mi>"
        if name == "frac":
            return f"<mfrac>{self._group()}{self._group()}</mfrac>"
        if name == "sqrt":
            return f"<msqrt>{self._group()}</msqrt>"
        if name == "left":
            opening = self._take()
            inside = "".join(self.row(r"\right"))
            return self._bracketed(opening, inside, self._take(), stretchy=True)
        raise self._error(f"the command \\{name}")
