"""A run's `tokenizer.json`, which may be of any kind that a run can have."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from .gpt2_tokenizer import BytePairTokenizer, PlainCharacters
from .tokenizer import SCHEMA, CharTokenizer, Tokenizer

__all__ = ["load_tokenizer"]


def load_tokenizer(path: str | os.PathLike[str]) -> Tokenizer:
    """The tokeniser whose `save` wrote `path`.

    Raises
    ------
    ValueError
        If the content is not a tokeniser; one line that names the file. For byte pairs also if the extra `[gpt2]` is
        not installed.
    OSError
        If the file cannot be read.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
        form = _parsed(text)
        kind = form.get("kind")
        if not isinstance(kind, str) or kind not in _READERS:
            return CharTokenizer.from_json(text)  # which says what is wrong with any other kind
        if form.get("schema") != SCHEMA:
            raise ValueError(
                f"tokenizer key 'schema' must be {SCHEMA}; got {form.get('schema')!r}. "
                "Use the version that wrote the file."
            )
        return _READERS[kind](form)
    except ValueError as error:
        raise ValueError(f"{os.fspath(path)}: {error}") from error


def _parsed(text: str) -> Mapping[str, Any]:
    """The JSON object, or an empty one where `text` is something else."""
    try:
        form = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return form if isinstance(form, dict) else {}


def _byte_pairs(form: Mapping[str, Any]) -> Tokenizer:
    vocabulary, merges = form.get("vocabulary"), form.get("merges")
    if not isinstance(vocabulary, dict) or not isinstance(merges, list):
        raise ValueError("byte pairs must have 'vocabulary' and 'merges'. Write the file with save.")
    pairs = [tuple(merge.split(" ")) if isinstance(merge, str) else () for merge in merges]
    if not all(len(pair) == 2 for pair in pairs):
        raise ValueError("each of 'merges' must be two tokens. Write the file with save.")
    return BytePairTokenizer(vocabulary, [(first, second) for first, second in pairs])


def _characters(form: Mapping[str, Any]) -> Tokenizer:
    characters = form.get("characters")
    if not isinstance(characters, str):
        raise ValueError("plain characters must have 'characters', a text. Write the file with save.")
    return PlainCharacters(characters)


_READERS: dict[str, Callable[[Mapping[str, Any]], Tokenizer]] = {
    "gpt2-byte-pairs": _byte_pairs,
    "characters": _characters,
}
