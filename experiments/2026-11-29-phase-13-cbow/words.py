"""The verb corpus as words: its vocabulary, its texts, and which words are forms of which verb.

A token is a whole word of either side of a line, in the order of the line and without its tags: words are what this
experiment compares, and pieces of words would put `trabajo` beside `trabajas` because they are spelt alike.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import numpy.typing as npt
from minitrain.verbs import all_examples

LINES = [(example.lemma, example.source.split() + example.target.split()) for example in all_examples()]

_lemmas_of: dict[str, set[str]] = defaultdict(set)
for _lemma, _words in LINES:
    for _word in _words:
        _lemmas_of[_word].add(_lemma)

IDS = {word: i for i, word in enumerate(sorted(_lemmas_of))}

# A form is a word of the lines of one verb alone: pronouns, auxiliaries and words of two verbs (`fui`) are nobody's.
_order = list(dict.fromkeys(lemma for lemma, _ in LINES))
FORMS = sorted(
    (word for word, lemmas in _lemmas_of.items() if len(lemmas) == 1),
    key=lambda word: _order.index(next(iter(_lemmas_of[word]))),
)
LEMMAS: npt.NDArray[np.str_] = np.array([next(iter(_lemmas_of[form])) for form in FORMS])


def _joined() -> npt.NDArray[np.bool_]:
    """Return for each two forms whether a chain of lines leads from one to the other, by way of forms alone."""
    place = {form: i for i, form in enumerate(FORMS)}
    reached = np.eye(len(FORMS), dtype=bool)
    for _, words in LINES:
        here = [place[word] for word in words if word in place]
        reached[np.ix_(here, here)] = True
    while (further := reached @ reached).sum() > reached.sum():
        reached = further
    return reached


JOINED = _joined()


def texts(kind: str, rng: np.random.Generator) -> list[list[int]]:
    """Return the texts of one epoch as ids: windows do not look beyond a text.

    Parameters
    ----------
    kind : {"line", "verb"}
        "line": each line is a text. "verb": the lines of a verb, in an order drawn anew, are one text, as in a book
        that speaks about one thing for a while.
    rng : numpy.random.Generator
    """
    if kind == "line":
        return [[IDS[word] for word in words] for _, words in LINES]
    of_verb: dict[str, list[int]] = defaultdict(list)
    for i in rng.permutation(len(LINES)):
        lemma, words = LINES[i]
        of_verb[lemma] += [IDS[word] for word in words]
    return list(of_verb.values())
