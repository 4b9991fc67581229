"""Any UTF-8 text file as training data: read with clear errors, split by position, turned into ids.

The last part of the text is validation, as a reader of the first part would meet it; nothing is shuffled before the
split, so no sentence stands half in training and half in validation but the one at the cut.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from .tokenizer import UNK_ID, CharTokenizer, Tokenizer

__all__ = ["TextCorpus", "read_text", "text_corpus"]

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
DOS_END_OF_FILE = "\x1a"


@dataclass(frozen=True, slots=True, eq=False)
class TextCorpus:
    """A text on both sides of the cut, as ids of one tokeniser."""

    tokenizer: Tokenizer
    """The one that was given, or one over the characters of the training part: a model knows no others."""
    train: npt.NDArray[np.int64]
    """Ids of the training part, shape (N_train,)."""
    validation: npt.NDArray[np.int64]
    """Ids of the validation part, shape (N_val,)."""
    unknown: int
    """Number of validation characters that training never showed, and that became `<unk>`."""


def read_text(path: str | os.PathLike[str]) -> str:
    r"""Text of a UTF-8 file with `\n` line ends.

    A byte order mark and a closing control-Z (DOS wrote one) are dropped, `\r\n` and a lone `\r` become `\n`: the same
    text trains the same model whatever system it was saved on.

    Raises
    ------
    FileNotFoundError
        If nothing is at `path`.
    OSError
        If it cannot be read.
    ValueError
        If it is a folder or a device, or its bytes are not UTF-8; the message gives the offset of the first bad byte.
    """
    source = Path(path)
    if not source.exists():
        raise FileNotFoundError(f"a text file must exist; got {str(source)!r}. Check the path.")
    if not source.is_file():
        # A pipe would wait for ever and a device may never end.
        kind = "a folder" if source.is_dir() else "no ordinary file"
        raise ValueError(f"a text file must be an ordinary file; {str(source)!r} is {kind}. Name one file.")
    content = source.read_bytes()
    start = len(BYTE_ORDER_MARK) if content.startswith(BYTE_ORDER_MARK) else 0
    try:
        text = content[start:].decode("utf-8")
    except UnicodeDecodeError as error:
        offset = start + error.start
        raise ValueError(
            f"a text file must be UTF-8; {str(source)!r} has byte 0x{content[offset]:02x} at offset {offset} "
            f"({error.reason}). Convert it to UTF-8."
        ) from error
    return text.removesuffix(DOS_END_OF_FILE).replace("\r\n", "\n").replace("\r", "\n")


def text_corpus(
    path: str | os.PathLike[str], val_fraction: float, context_len: int, tokenizer: Tokenizer | None = None
) -> TextCorpus:
    """The file at `path` with its last `val_fraction` of characters as validation.

    Parameters
    ----------
    path : path
    val_fraction : float, in (0, 1)
    context_len : int
        Window of the model: each part must hold one window and the token after it.
    tokenizer : Tokenizer, optional
        By default one token a character. Each part is encoded on its own.

    Raises
    ------
    OSError, ValueError
        As `read_text`; also if `val_fraction` is out of range, a part is too short, naming the lengths, or the
        tokeniser given cannot write the text.
    """
    if not (math.isfinite(val_fraction) and 0 < val_fraction < 1):
        raise ValueError(f"val_fraction must be above 0 and below 1; got {val_fraction}. Use 0.1.")
    text = read_text(path)
    cut = len(text) - round(val_fraction * len(text))
    training, validation = text[:cut], text[cut:]
    if tokenizer is None:
        # Before the alphabet is made, which an empty part does not have.
        _require_length(
            path, text, context_len, "characters", {"training": len(training), "validation": len(validation)}
        )
        characters = CharTokenizer.from_text(training)
        ids = characters.encode(validation, unknown="unk")
        return TextCorpus(characters, characters.encode(training), ids, int(np.count_nonzero(ids == UNK_ID)))
    encoded = {"training": tokenizer.encode(training), "validation": tokenizer.encode(validation)}
    _require_length(path, text, context_len, "tokens", {name: len(ids) for name, ids in encoded.items()})
    return TextCorpus(tokenizer, encoded["training"], encoded["validation"], 0)


def _require_length(
    path: str | os.PathLike[str], text: str, context_len: int, unit: str, lengths: Mapping[str, int]
) -> None:
    """Raise unless each part holds a window and the token after it."""
    for name, length in lengths.items():
        if length <= context_len:
            raise ValueError(
                f"a text must have more than {context_len} {unit} (model.context_len) for each of training and "
                f"validation; {os.fspath(path)!r} of {len(text)} characters has {length} for {name}. "
                "Use a longer file, a smaller model.context_len or another data.val_fraction."
            )
