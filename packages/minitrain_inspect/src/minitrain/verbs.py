"""The verb corpus: lines that translate one verb form, and the cells of the table that are held out for validation.

Reading order: `Cell` and `Example` say what a line is, `all_examples` writes every line there is, `verb_corpus` splits
them, `encode_example` turns one into ids. The split rule and its reasons stand in the package's BLUEPRINT, section 7.
"""

from __future__ import annotations

import functools
import hashlib
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, NamedTuple, get_args

import numpy as np

from .batches import TokenSequence
from .per_class_loss import REGULAR_VERBS
from .tokenizer import BOS_ID, EOS_ID, CharTokenizer
from .verb_forms import (
    ENGLISH,
    ENGLISH_PRONOUNS,
    GOING_TO,
    INDIRECT_OBJECT_PRONOUNS,
    INDIRECT_OBJECT_VERBS,
    IR_A,
    SPANISH,
    SPANISH_PRONOUNS,
    TRANSLATIONS,
)

__all__ = [
    "SPLIT_SALT",
    "TENSES",
    "Cell",
    "Direction",
    "Example",
    "LossOn",
    "Tense",
    "VerbCorpus",
    "admissible_answers",
    "all_examples",
    "encode_example",
    "verb_corpus",
]

Tense = Literal["infinitive", "present", "past", "participle", "future_will", "future_going"]
Direction = Literal["es-en", "en-es"]
Regularity = Literal["regular", "irregular"]
LossOn = Literal["target", "line"]

TENSES: tuple[Tense, ...] = get_args(Tense)

_QuotaKey = tuple[str, ...]

SEPARATOR = " / "
"""Between source and target; what follows it is the target part."""

SPLIT_SALT = "held-out verb cells 1"
"""Hashed with a group's name to order the groups. Another salt is another split: no comparison with runs before it."""


class Cell(NamedTuple):
    """One place of the table: what is held out, whole."""

    lemma: str
    tense: Tense
    person: int | None
    """1, 2 or 3 (singular); None for the forms without one, infinitive and participle."""

    @property
    def regularity(self) -> Regularity:
        """The class of the lemma."""
        return "regular" if self.lemma in REGULAR_VERBS else "irregular"


@dataclass(frozen=True, slots=True)
class Example:
    """One line of the corpus: a source, one right target, and what both are about."""

    source: str
    target: str
    direction: Direction
    cell: Cell

    @property
    def lemma(self) -> str:
        """English infinitive without *to*: the label of panel 7."""
        return self.cell.lemma

    @property
    def tense(self) -> Tense:
        """One of `TENSES`."""
        return self.cell.tense

    @property
    def person(self) -> int | None:
        """1, 2 or 3; None where the form has no person."""
        return self.cell.person

    @property
    def regularity(self) -> Regularity:
        """Class of the lemma."""
        return self.cell.regularity

    @property
    def prompt(self) -> str:
        """The line up to the answer, language tag included: `es:yo trabajo / en:`."""
        source_tag, target_tag = self.direction.split("-")
        return f"{source_tag}:{self.source}{SEPARATOR}{target_tag}:"

    @property
    def text(self) -> str:
        """The whole line without its reserved tokens: `es:yo trabajo / en:I work`."""
        return self.prompt + self.target


@dataclass(frozen=True, slots=True)
class VerbCorpus:
    """The lines on both sides of the split, in table order."""

    train: tuple[Example, ...]
    validation: tuple[Example, ...]
    held_out: frozenset[Cell]
    """The cells of the validation lines."""

    @property
    def tokenizer(self) -> CharTokenizer:
        """Over the characters of both splits: the tables are known, so no validation character is unknown."""
        return CharTokenizer.from_text("".join(example.text for example in self.train + self.validation))

    @property
    def longest(self) -> int:
        """Tokens of the longest line, `<bos>` and `<eos>` included."""
        return max(len(example.text) for example in self.train + self.validation) + 2

    @property
    def context_len(self) -> int:
        """The smallest power of two that the longest line fits into."""
        return 1 << (self.longest - 1).bit_length()


def _cells() -> list[Cell]:
    """Every cell, verbs in table order."""
    return [
        Cell(lemma, tense, person)
        for lemma in ENGLISH
        for tense in TENSES
        for person in ((None,) if tense in ("infinitive", "participle") else (1, 2, 3))
    ]


def _english(cell: Cell) -> str:
    forms = ENGLISH[cell.lemma]
    if cell.person is None:
        return f"to {cell.lemma}" if cell.tense == "infinitive" else forms.participle
    who = cell.person - 1
    predicate = {
        "present": forms.present[who],
        "past": forms.past[who],
        "future_will": f"will {cell.lemma}",
        "future_going": f"{GOING_TO[who]} going to {cell.lemma}",
    }[cell.tense]
    return f"{ENGLISH_PRONOUNS[who]} {predicate}"


def _spanish(infinitive: str, cell: Cell) -> str:
    forms = SPANISH[infinitive]
    if cell.person is None:
        return infinitive if cell.tense == "infinitive" else forms.participle
    who = cell.person - 1
    pronoun = SPANISH_PRONOUNS[who]
    if infinitive in INDIRECT_OBJECT_VERBS:
        pronoun, who = INDIRECT_OBJECT_PRONOUNS[who], 2
    predicate = {
        "present": forms.present[who],
        "past": forms.preterite[who],
        "future_will": forms.future[who],
        "future_going": f"{IR_A[who]} a {infinitive}",
    }[cell.tense]
    return f"{pronoun} {predicate}"


@functools.cache
def all_examples() -> tuple[Example, ...]:
    """Every line of the corpus, verbs in table order, both directions of a translation next to each other."""
    lines: list[Example] = []
    for cell in _cells():
        english = _english(cell)
        for infinitive in TRANSLATIONS[cell.lemma]:
            spanish = _spanish(infinitive, cell)
            lines.append(Example(spanish, english, "es-en", cell))
            lines.append(Example(english, spanish, "en-es", cell))
    return tuple(lines)


@functools.cache
def _answers() -> Mapping[str, frozenset[str]]:
    answers: dict[str, set[str]] = {}
    for example in all_examples():
        answers.setdefault(example.source, set()).add(example.target)
    return MappingProxyType({source: frozenset(targets) for source, targets in answers.items()})


def admissible_answers(source: str) -> frozenset[str]:
    """Every target that the corpus, whole, pairs with `source`: `yo fui` gives `I was` and `I went`.

    Raises
    ------
    ValueError
        If `source` is no source of the corpus.
    """
    try:
        return _answers()[source]
    except KeyError:
        raise ValueError(
            f"a source must be one of the verb corpus, such as 'yo trabajo' or 'I work'; got {source!r}. "
            "Leave out the language tag."
        ) from None


def verb_corpus(val_fraction: float = 0.1) -> VerbCorpus:
    """The corpus with about `val_fraction` of its cells held out, the same ones in every run.

    Parameters
    ----------
    val_fraction : float, in (0, 0.5]
        Share of the cells of each (regularity, tense); at least one cell of each is held out and one kept.

    Raises
    ------
    ValueError
        If `val_fraction` is out of range. Above a half, verbs would have to be guessed rather than inflected.
    """
    if not (math.isfinite(val_fraction) and 0 < val_fraction <= 0.5):
        raise ValueError(
            f"val_fraction of the verb corpus must be above 0 and at most 0.5; got {val_fraction}. Use 0.1."
        )
    held_out = _held_out_cells(val_fraction)
    train = tuple(example for example in all_examples() if example.cell not in held_out)
    validation = tuple(example for example in all_examples() if example.cell in held_out)
    return VerbCorpus(train, validation, held_out)


def _held_out_cells(val_fraction: float) -> frozenset[Cell]:
    quota = {key: _quota(key, size, val_fraction) for key, size in Counter(_quota_keys(_cells())).items()}
    held_out: set[Cell] = set()
    taken: Counter[_QuotaKey] = Counter()
    for group in sorted(_groups(), key=_rank):
        more = taken + Counter(_quota_keys(group))
        if all(count <= quota[key] for key, count in more.items()):
            held_out.update(group)
            taken = more
    return frozenset(held_out)


def _quota_keys(cells: Iterable[Cell]) -> Iterator[_QuotaKey]:
    """What each cell counts towards: its stratum, its verb and, where there are persons, its verb's tense."""
    for cell in cells:
        yield ("stratum", cell.regularity, cell.tense)
        yield ("verb", cell.lemma)
        if cell.person is not None:
            yield ("tense", cell.lemma, cell.tense)


def _quota(key: _QuotaKey, size: int, val_fraction: float) -> int:
    """How many of `size` cells may be held out; at least one stays for training."""
    match key[0]:
        case "stratum":
            wanted = max(1, round(val_fraction * size))
        case "verb":
            wanted = math.ceil(2 * val_fraction * size)
        case _:
            wanted = size
    return min(wanted, size - 1)


def _rank(group: tuple[Cell, ...]) -> bytes:
    name = ";".join(f"{cell.lemma} {cell.tense} {cell.person}" for cell in group)
    return hashlib.sha256(f"{SPLIT_SALT}|{name}".encode()).digest()


def _groups() -> list[tuple[Cell, ...]]:
    """Cells joined by a common source string, transitively, in table order."""
    group_of: dict[Cell, list[Cell]] = {}
    first_with: dict[str, Cell] = {}
    for example in all_examples():
        mine = group_of.setdefault(example.cell, [example.cell])
        other = group_of[first_with.setdefault(example.source, example.cell)]
        if other is not mine:
            other.extend(mine)
            for cell in mine:
                group_of[cell] = other
    distinct = {id(group): group for group in group_of.values()}
    return [tuple(group) for group in distinct.values()]


def encode_example(example: Example, tokenizer: CharTokenizer, loss_on: LossOn = "target") -> TokenSequence:
    """Ids of `<bos>line<eos>` with the place where its loss begins.

    Parameters
    ----------
    example : Example
    tokenizer : CharTokenizer
    loss_on : {"target", "line"}
        "target" counts what follows the separator: language tag, answer and `<eos>`. "line" counts everything after
        `<bos>`, most of which (which verb, which tense) nothing before it determines.
    """
    if loss_on not in get_args(LossOn):
        raise ValueError(f"loss_on must be 'target' or 'line'; got {loss_on!r}. Choose one of the two.")
    ids = np.concatenate([[BOS_ID], tokenizer.encode(example.text), [EOS_ID]])
    loss_start = 1 if loss_on == "line" else 1 + example.text.index(SEPARATOR) + len(SEPARATOR)
    return TokenSequence(ids, loss_start, example.lemma)
