"""Characters to ids and back: one token a character, and four reserved tokens that no text can spell.

The reserved ids come first and never change, so that padding, the start and the end of a line mean the same in every
vocabulary: `<pad>` 0, `<bos>` 1, `<eos>` 2, `<unk>` 3. Text never produces them: `encode("<bos>")` is five characters.
"""

from __future__ import annotations

import json
import os
import unicodedata
from collections.abc import Iterable
from pathlib import Path
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt
from autograd_core.files import write_atomic

__all__ = ["BOS_ID", "EOS_ID", "PAD_ID", "SPECIAL_TOKENS", "UNK_ID", "CharTokenizer", "Tokenizer"]

SPECIAL_TOKENS = ("<pad>", "<bos>", "<eos>", "<unk>")
"""The reserved tokens; their ids are their places."""

PAD_ID, BOS_ID, EOS_ID, UNK_ID = range(4)

SCHEMA = 1
"""Version of the JSON form."""

_SHOWN = 120  # characters of an alphabet that an error names


class Tokenizer(Protocol):
    """What data, sampling and the run folder ask of a tokeniser."""

    @property
    def vocab_size(self) -> int:
        """Number of ids: all are in [0, vocab_size)."""

    @property
    def end_id(self) -> int | None:
        """The id that ends a text, None if there is none."""

    def encode(self, text: str) -> npt.NDArray[np.int64]:
        """Ids of `text`, shape (number of tokens,); ValueError if it cannot be written in them."""

    def decode(self, ids: Iterable[int] | npt.NDArray[np.integer], *, show_special: bool = False) -> str:
        """Text of `ids`."""

    def to_json(self) -> str:
        """What `save` writes; equal for equal tokenisers."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it for `tokenizer_file.load_tokenizer`."""


class CharTokenizer:
    """One id a character of `alphabet`, after the reserved ids 0 to 3.

    Parameters
    ----------
    alphabet : str
        The characters (Unicode code points), each once; the order gives the ids.

    Raises
    ------
    ValueError
        If a character occurs twice, or is a lone surrogate (no file could hold it).

    Examples
    --------
    >>> tokenizer = CharTokenizer("abn")
    >>> tokenizer.encode("banana").tolist()
    [5, 4, 6, 4, 6, 4]
    >>> tokenizer.decode([1, 5, 4, 6, 2])
    'ban'
    """

    end_id: int | None = EOS_ID

    def __init__(self, alphabet: str) -> None:
        ids: dict[str, int] = {}
        for character in alphabet:
            if character in ids:
                raise ValueError(
                    f"an alphabet must name each character once; got {character!r} twice. Use CharTokenizer.from_text."
                )
            if "\ud800" <= character <= "\udfff":
                raise ValueError(f"an alphabet must be what UTF-8 can write; got {character!r}. Remove it.")
            ids[character] = len(SPECIAL_TOKENS) + len(ids)
        self.alphabet = alphabet
        self._ids = ids

    @classmethod
    def from_text(cls, text: str) -> CharTokenizer:
        """Tokenizer over the distinct characters of `text`, in the order of their code points."""
        return cls("".join(sorted(set(text))))

    @property
    def vocab_size(self) -> int:
        """Number of ids, the reserved ones included."""
        return len(SPECIAL_TOKENS) + len(self.alphabet)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CharTokenizer) and self.alphabet == other.alphabet

    def __hash__(self) -> int:
        return hash(self.alphabet)

    def __repr__(self) -> str:
        return f"CharTokenizer({self.alphabet!r})"

    def encode(self, text: str, unknown: Literal["error", "unk"] = "error") -> npt.NDArray[np.int64]:
        """Ids of the characters of `text`; no reserved token is added.

        Parameters
        ----------
        text : str
        unknown : {"error", "unk"}
            What a character outside the alphabet becomes: an error, or the id of `<unk>`.

        Returns
        -------
        int64 array, shape (len(text),)

        Raises
        ------
        ValueError
            If a character is outside the alphabet and `unknown` is "error", or if `unknown` is something else.
        """
        if unknown not in ("error", "unk"):
            raise ValueError(f"unknown must be 'error' or 'unk'; got {unknown!r}. Choose one of the two.")
        lookup = self._ids
        ids = np.fromiter((lookup.get(character, UNK_ID) for character in text), dtype=np.int64, count=len(text))
        if unknown == "error":
            strangers = np.flatnonzero(ids == UNK_ID)
            if strangers.size:
                raise ValueError(self._describe_unknown(text, int(strangers[0])))
        return ids

    def _describe_unknown(self, text: str, position: int) -> str:
        message = (
            f"every character must be in the alphabet of {len(self.alphabet)}; "
            f"got {text[position]!r} at position {position}. "
        )
        composed = unicodedata.normalize("NFC", text)
        if composed != text and all(character in self._ids for character in composed):
            return message + "Write accented letters as one code point (Unicode form NFC)."
        known = self.alphabet if len(self.alphabet) <= _SHOWN else f"{self.alphabet[:_SHOWN]}..."
        return message + f"Leave it out; the alphabet is {known!r}."

    def decode(self, ids: Iterable[int] | npt.NDArray[np.integer], *, show_special: bool = False) -> str:
        """Text of `ids`, without the reserved tokens unless `show_special`; `<unk>` otherwise becomes U+FFFD.

        Raises
        ------
        IndexError
            If an id is outside [0, vocab_size).
        """
        pieces: list[str] = []
        for position, raw in enumerate(ids):
            token = int(raw)
            if not 0 <= token < self.vocab_size:
                raise IndexError(
                    f"ids must be in [0, {self.vocab_size}); got {token} at position {position}. "
                    "Decode with the tokenizer that the model was trained with."
                )
            if token >= len(SPECIAL_TOKENS):
                pieces.append(self.alphabet[token - len(SPECIAL_TOKENS)])
            elif show_special:
                pieces.append(SPECIAL_TOKENS[token])
            elif token == UNK_ID:
                pieces.append("\N{REPLACEMENT CHARACTER}")
        return "".join(pieces)

    def to_json(self) -> str:
        """The tokenizer as a JSON object: `schema`, `kind`, `special_tokens`, `alphabet`."""
        form = {"schema": SCHEMA, "kind": "char", "special_tokens": list(SPECIAL_TOKENS), "alphabet": self.alphabet}
        return json.dumps(form, ensure_ascii=False, indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str) -> CharTokenizer:
        """The tokenizer that `to_json` wrote.

        Raises
        ------
        ValueError
            If `text` is not JSON, or a key is missing, unknown or holds something that this version cannot mean.
        """
        try:
            form = json.loads(text)
        except (json.JSONDecodeError, RecursionError) as error:
            raise ValueError(f"a tokenizer must be JSON; {error}. Write it with to_json.") from error
        if not isinstance(form, dict):
            raise ValueError(f"a tokenizer must be a JSON object; got {type(form).__name__}. Write it with to_json.")
        expected = {"schema": SCHEMA, "kind": "char", "special_tokens": list(SPECIAL_TOKENS)}
        if form.keys() != {*expected, "alphabet"}:
            raise ValueError(
                f"a tokenizer must have the keys {sorted({*expected, 'alphabet'})}; got {sorted(form)}. "
                "Write it with to_json."
            )
        for key, value in expected.items():
            # JSON's true equals 1 in Python; the type must agree too.
            if form[key] != value or type(form[key]) is not type(value):
                raise ValueError(
                    f"tokenizer key {key!r} must be {value!r}; got {form[key]!r}. Use the version that wrote the file."
                )
        if not isinstance(form["alphabet"], str):
            raise ValueError(
                f"tokenizer key 'alphabet' must be a string; got {type(form['alphabet']).__name__}. "
                "Write it with to_json."
            )
        return cls(form["alphabet"])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the JSON form to `path`, atomically."""
        write_atomic(path, self.to_json())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> CharTokenizer:
        """The tokenizer saved at `path`.

        Raises
        ------
        OSError
            If the file cannot be read.
        ValueError
            If its content is not a tokenizer; the message names the file.
        """
        try:
            return cls.from_json(Path(path).read_text(encoding="utf-8"))
        except ValueError as error:
            raise ValueError(f"{os.fspath(path)}: {error}") from error
