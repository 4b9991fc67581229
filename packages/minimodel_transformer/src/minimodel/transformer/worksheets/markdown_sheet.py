"""A worksheet as Markdown of GitHub's kind: formulas between dollar signs, tables with bars."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from . import words
from .content import Line, Section, Setting, Shown, facts_of, remarks_of
from .words import Language

# What Markdown, GitHub's formulas or HTML would read as their own.
_SPECIAL = re.compile(r"[!-/:-@\[-`{-~]")


def markdown(sections: Sequence[Section], setting: Setting, language: Language) -> str:
    """Return the whole worksheet."""
    return "\n".join(_lines(sections, setting, language)) + "\n"


def _lines(sections: Sequence[Section], setting: Setting, language: Language) -> Iterator[str]:
    yield from (f"# {words.TITLE.of(language)}", "", words.SUBTITLE.of(language), "")
    yield from (words.HOW_TO_READ.of(language), "")
    facts = facts_of(setting, language)
    yield f"| {' | '.join(f'{letter} ({meaning})' for letter, _, meaning in facts)} |"
    yield f"|{'--:|' * len(facts)}"
    yield f"| {' | '.join(value for _, value, _ in facts)} |"
    yield ""
    for heading, text in remarks_of(sections, setting, language):
        yield f"- {heading}: {text}." if heading else f"- {text}"
    for section in sections:
        yield from ("", f"## {section.title}", "", section.about)
        for line in section.lines:
            yield from _step(line, language)


def _step(line: Line, language: Language) -> Iterator[str]:
    yield from ("", f"### {line.number}. {line.title}")
    for equation in line.equations:
        yield from ("", f"$${equation}$$")
    for item in line.given:
        yield from ("", f"{words.GIVEN.of(language)}: {_caption(item)}", "")
        yield from _table(item)
    yield from ("", f"{_caption(line.result)}", "")
    yield from _table(line.result)
    if line.worked:
        yield from ("", f"{line.entry}: ${line.worked}$")
    if line.weights is not None:
        yield from ("", words.HEAT.of(language).split(".")[0] + ".")
    if line.source:
        yield from ("", f"*{words.SOURCE.of(language)}: {line.source}*")


def _caption(item: Shown) -> str:
    hidden = f", {item.hidden}" if item.hidden else ""
    return f"${item.symbol}$ · `{item.name}` · {item.shape}{hidden}"


def _table(item: Shown) -> Iterator[str]:
    table = item.table
    yield f"| | {' | '.join(map(escaped, table.columns))} |"
    yield f"|:--|{'--:|' * len(table.columns)}"
    for head, cells in table.rows:
        yield f"| {escaped(head)} | {' | '.join(cells)} |"


def escaped(name: str) -> str:
    """Return a name that came from outside so that it is shown as it is, wherever it stands."""
    return _SPECIAL.sub(lambda match: f"&#{ord(match[0])};", name)
