"""The tokenisers of GPT-2 folders: byte pairs as published, or the plain characters of a small model.

`folder_tokenizer` finds out which a folder has. Byte-pair encoding is the work of the `tokenizers` library, which the
extra `[gpt2]` brings; it is imported when a vocabulary needs it, and nothing here asks a network.

References
----------
Radford et al., "Language Models are Unsupervised Multitask Learners" (2019), §2.2, for byte pairs over bytes. Sennrich,
Haddow and Birch, "Neural Machine Translation of Rare Words with Subword Units" (2016), §3.2, for byte pairs.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from autograd_core.files import write_atomic

from .tokenizer import SCHEMA, SPECIAL_TOKENS, CharTokenizer, Tokenizer

if TYPE_CHECKING:
    import tokenizers

__all__ = ["BytePairTokenizer", "PlainCharacters", "folder_tokenizer"]

END_OF_TEXT = "<|endoftext|>"
"""The one token of GPT-2 that no text can spell."""

_PAIRS = (("vocab.json", "merges.txt"), ("encoder.json", "vocab.bpe"))
"""Vocabulary and merges, as Hugging Face names them and as OpenAI published them."""

_CHARACTERS = "meta.json"

_INSTALL = "Install it from the checkout: pip install './packages/minitrain_inspect[gpt2]'."


def folder_tokenizer(folder: str | os.PathLike[str]) -> Tokenizer:
    """The tokeniser that stands in a GPT-2 folder.

    Parameters
    ----------
    folder : path
        With `vocab.json` and `merges.txt`, or `encoder.json` and `vocab.bpe`, or a `meta.json` whose `chars` are the
        model's characters in the order of their ids. The first that is there is taken.

    Raises
    ------
    ValueError
        If none is there, or a file is not what its name says; one line that names it. Also if byte pairs are needed and
        the extra `[gpt2]` is not installed.
    OSError
        If a file cannot be read.
    """
    folder = Path(folder)
    for vocabulary, merges in _PAIRS:
        if (folder / vocabulary).is_file() and (folder / merges).is_file():
            return BytePairTokenizer(_read_object(folder / vocabulary), _read_merges(folder / merges))
    if (folder / _CHARACTERS).is_file():
        characters = _read_object(folder / _CHARACTERS).get("chars")
        if not isinstance(characters, str) or not characters:
            raise ValueError(f"{folder / _CHARACTERS} must have the model's characters as the text `chars`. Add it.")
        return PlainCharacters(characters)
    raise ValueError(
        f"a GPT-2 folder must hold its tokeniser, vocab.json and merges.txt, encoder.json and vocab.bpe, or a "
        f"{_CHARACTERS} with `chars`; {str(folder)!r} has none. Put it beside the weights."
    )


class BytePairTokenizer:
    """Byte-pair encoding over bytes, as GPT-2's: any text has ids, and its ids give the text back.

    Parameters
    ----------
    vocabulary : mapping of str to int, as a file has it
        Token to id. A token is written in GPT-2's 256 printable stand-ins for bytes, which are all tokens themselves.
    merges : sequence of (str, str)
        Which neighbours become one token, the most urgent first.

    Attributes
    ----------
    vocab_size : int
        One more than the largest id.
    end_id : int or None
        Id of `<|endoftext|>`, where the vocabulary has it.

    Raises
    ------
    ValueError
        If ids are not whole numbers of 0 and more, or not distinct; if a byte has no token; if a merge makes something
        that is no token; if the extra `[gpt2]` is not installed.
    """

    def __init__(self, vocabulary: Mapping[str, object], merges: Sequence[tuple[str, str]]) -> None:
        self._vocabulary = _checked_vocabulary(vocabulary)
        self._merges = list(merges)
        self._library = _byte_pairs(self._vocabulary, self._merges)  # which asks for all bytes: there are ids
        self.vocab_size = max(self._vocabulary.values()) + 1
        self.end_id = self._vocabulary.get(END_OF_TEXT)

    def encode(self, text: str) -> npt.NDArray[np.int64]:
        """Ids of `text`, shape (number of tokens,). `<|endoftext|>` in it is text like any other.

        Raises
        ------
        ValueError
            If `text` holds a lone surrogate, which is no character.
        """
        text.encode()  # the library says of a surrogate that it is no str
        return np.array(self._library.encode(text).ids, dtype=np.int64)

    def decode(self, ids: Iterable[int] | npt.NDArray[np.integer], *, show_special: bool = False) -> str:
        """Text of `ids`, without `<|endoftext|>` unless `show_special`; bytes that are no UTF-8 become U+FFFD.

        Raises
        ------
        IndexError
            If an id is outside [0, vocab_size).
        """
        kept = _checked(ids, self.vocab_size)
        if not show_special and self.end_id is not None:
            kept = kept[kept != self.end_id]
        text: str = self._library.decode(kept.tolist())
        return text

    def to_json(self) -> str:
        """The tokeniser as a JSON object: `schema`, `kind`, `vocabulary`, `merges`."""
        form = {
            "schema": SCHEMA,
            "kind": "gpt2-byte-pairs",
            "vocabulary": self._vocabulary,
            "merges": [" ".join(merge) for merge in self._merges],
        }
        return json.dumps(form, ensure_ascii=False) + "\n"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the JSON form to `path`, atomically."""
        write_atomic(path, self.to_json())


class PlainCharacters:
    """One id a character, from 0 on, with no reserved ids: what small character models in GPT-2's format have.

    Parameters
    ----------
    characters : str
        Each once; the order gives the ids.

    Attributes
    ----------
    vocab_size : int
    end_id : None
        There is no token that ends a text.

    Raises
    ------
    ValueError
        If a character occurs twice.

    Examples
    --------
    >>> PlainCharacters("abn").encode("banana").tolist()
    [1, 0, 2, 0, 2, 0]
    """

    end_id: int | None = None

    def __init__(self, characters: str) -> None:
        self._shifted = CharTokenizer(characters)  # the same ids, after its reserved ones
        self.vocab_size = len(characters)

    def encode(self, text: str) -> npt.NDArray[np.int64]:
        """Ids of `text`, shape (len(text),).

        Raises
        ------
        ValueError
            If a character is not one of the model's.
        """
        return self._shifted.encode(text) - len(SPECIAL_TOKENS)

    def decode(self, ids: Iterable[int] | npt.NDArray[np.integer], *, show_special: bool = False) -> str:
        """Text of `ids`; there is nothing special to show.

        Raises
        ------
        IndexError
            If an id is outside [0, vocab_size).
        """
        return self._shifted.decode(_checked(ids, self.vocab_size) + len(SPECIAL_TOKENS))

    def to_json(self) -> str:
        """The tokeniser as a JSON object: `schema`, `kind`, `characters`."""
        form = {"schema": SCHEMA, "kind": "characters", "characters": self._shifted.alphabet}
        return json.dumps(form, ensure_ascii=False, indent=2) + "\n"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the JSON form to `path`, atomically."""
        write_atomic(path, self.to_json())


def _checked_vocabulary(vocabulary: Mapping[str, object]) -> dict[str, int]:
    """A copy, whose ids are whole numbers, distinct and not negative."""
    checked: dict[str, int] = {}
    for token, number in vocabulary.items():
        if isinstance(number, bool) or not isinstance(number, int) or number < 0:
            raise ValueError(
                f"a vocabulary's ids must be integers of 0 and more; {token!r} has {number!r}. Fetch the file again."
            )
        checked[token] = number
    if len(set(checked.values())) != len(checked):
        raise ValueError("a vocabulary's ids must be distinct; some are there twice. Fetch the file again.")
    return checked


def _byte_pairs(vocabulary: dict[str, int], merges: list[tuple[str, str]]) -> tokenizers.Tokenizer:
    """The library's encoder: bytes as stand-ins, GPT-2's words, merges within a word."""
    try:
        import tokenizers
    except ImportError as error:
        raise ValueError(f"GPT-2's byte pairs need the extra [gpt2], which is not installed. {_INSTALL}") from error
    missing = sorted(set(tokenizers.pre_tokenizers.ByteLevel.alphabet()) - vocabulary.keys())
    if missing:
        # The library would leave such bytes out of the ids without a word.
        raise ValueError(
            f"a vocabulary must have a token for each of 256 bytes; {len(missing)} are missing, as {missing[0]!r}. "
            "Fetch the file again."
        )
    made = {left + right for left, right in merges}
    # Specials, as <|endoftext|>, are no product of merges; any other token of several bytes is.
    unmade = [token for token in vocabulary if len(token) > 1 and token not in made and not _is_special(token)]
    if unmade:
        raise ValueError(
            f"merges must make every token of several bytes; {len(unmade)} of the vocabulary are made by none, as "
            f"{unmade[0]!r}. The merges are cut short or another model's: fetch both files again."
        )
    try:
        library = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=vocabulary, merges=merges))
    except Exception as error:  # the library has no class of its own for its errors
        raise ValueError(f"merges must be of tokens and make tokens; {error}. Fetch both files again.") from error
    library.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    library.decoder = tokenizers.decoders.ByteLevel()
    return library


def _is_special(token: str) -> bool:
    return token.startswith(("<", "[")) and token.endswith((">", "]"))


def _read_object(path: Path) -> dict[str, Any]:
    """The JSON object in a file."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} must be a JSON object; {error}. Fetch it again.") from error
    if not isinstance(content, dict):
        raise ValueError(f"{path} must be a JSON object; got {type(content).__name__}. Fetch it again.")
    return content


def _read_merges(path: Path) -> list[tuple[str, str]]:
    """The merges of a file: two tokens a line, after a line that says the version."""
    try:
        lines = path.read_text(encoding="utf-8").split("\n")  # splitlines() would also split inside tokens
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} must be UTF-8; {error}. Fetch it again.") from error
    merges = []
    for number, line in enumerate(lines, start=1):
        if not line.strip() or (number == 1 and line.startswith("#version")):
            continue
        parts = line.rstrip("\r").split(" ")
        if len(parts) != 2 or not all(parts):
            raise ValueError(f"{path} must have two tokens a line; line {number} is {line[:60]!r}. Fetch it again.")
        merges.append((parts[0], parts[1]))
    return merges


def _checked(ids: Iterable[int] | npt.NDArray[np.integer], vocab_size: int) -> npt.NDArray[np.int64]:
    """`ids` as an array, all of them in [0, vocab_size)."""
    found = np.fromiter((int(each) for each in ids), dtype=np.int64)
    outside = np.flatnonzero((found < 0) | (found >= vocab_size))
    if outside.size:
        raise IndexError(
            f"ids must be in [0, {vocab_size}); got {found[outside[0]]} at position {outside[0]}. "
            "Decode with the tokenizer that the model was trained with."
        )
    return found
