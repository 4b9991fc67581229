"""From token ids to batches: the dataclass between data and loop, and the seeded iterators that make it.

Read `Batch` first: it is all that the loop knows about data. `PaddedBatches` serves sequences of different lengths
(lines), `WindowBatches` one long text; both run for ever, and both can be put back to where they were by one number.
`evaluation_batches` and `evaluation_windows` are their finite counterparts. Nothing here knows verbs or characters.
"""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import SupportsIndex

import numpy as np
import numpy.typing as npt

__all__ = [
    "IGNORED",
    "Batch",
    "PaddedBatches",
    "SameBatches",
    "TokenSequence",
    "WindowBatches",
    "evaluation_batches",
    "evaluation_windows",
    "pad",
]

IntArray = npt.NDArray[np.integer]
BoolArray = npt.NDArray[np.bool_]

IGNORED = -100
"""The target where no loss is counted: what `cross_entropy` ignores by default."""


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """What one forward pass reads. Checked when made, so that the loop need not.

    Parameters
    ----------
    inputs : int array, shape (B, T)
        Token ids.
    targets : int array, shape (B, T)
        The id that should follow each position, `IGNORED` (-100) where no loss is counted.
    pad_mask : bool array, shape (B, T), optional
        True where the token is real; None where all are.
    verb_labels : tuple of str, length B, optional
        One lemma an example, where examples are verbs.

    Raises
    ------
    TypeError
        If an array is not an ndarray of the dtype above, or the labels are not a tuple of strings.
    ValueError
        If shapes disagree, the batch is empty, or a padded position has a target.
    """

    inputs: IntArray
    targets: IntArray
    pad_mask: BoolArray | None = None
    verb_labels: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        _require_ids("inputs", self.inputs)
        _require_ids("targets", self.targets)
        if self.inputs.ndim != 2 or self.inputs.size == 0:
            raise ValueError(
                f"inputs must have shape (B, T) with at least one token; got {self.inputs.shape}. "
                "A single sequence is inputs[np.newaxis]."
            )
        if self.targets.shape != self.inputs.shape:
            raise ValueError(
                f"targets must have the shape of inputs; got {self.targets.shape} for inputs {self.inputs.shape}. "
                f"Mark positions without a target by {IGNORED}."
            )
        if self.pad_mask is not None:
            _require_mask(self.pad_mask)
            if self.pad_mask.shape != self.inputs.shape:
                raise ValueError(
                    f"pad_mask must have the shape of inputs; got {self.pad_mask.shape} for inputs "
                    f"{self.inputs.shape}. Use True where the token is real."
                )
            if np.any(self.targets[~self.pad_mask] != IGNORED):
                row, column = np.argwhere(~self.pad_mask & (self.targets != IGNORED))[0]
                raise ValueError(
                    f"a padded position must have target {IGNORED}; got {self.targets[row, column]} at "
                    f"({row}, {column}). A pad has nothing to predict."
                )
        if self.verb_labels is not None:
            _require_labels(self.verb_labels)
            if len(self.verb_labels) != len(self.inputs):
                raise ValueError(
                    f"verb_labels must have one lemma an example; got {len(self.verb_labels)} for "
                    f"{len(self.inputs)} examples. Leave it None where examples are not verbs."
                )

    @property
    def counted(self) -> int:
        """Number of positions whose loss counts."""
        return int(np.count_nonzero(self.targets != IGNORED))


@dataclass(frozen=True, slots=True, eq=False)
class TokenSequence:
    """One example of its own length: the unit that `PaddedBatches` shuffles.

    Parameters
    ----------
    ids : int array, shape (L,), L of 2 and more
        The whole sequence; inputs are all ids but the last, targets all but the first.
    loss_start : int, in [1, L)
        Index in `ids` of the first token whose prediction counts; 1 counts them all.
    label : str, optional
        What the example is about, for the loss by class.
    """

    ids: IntArray
    loss_start: int = 1
    label: str | None = None

    def __post_init__(self) -> None:
        _require_ids("ids", self.ids)
        if self.ids.ndim != 1 or len(self.ids) < 2:
            raise ValueError(
                f"ids must have shape (L,) with L of 2 and more; got {self.ids.shape}. "
                "One token predicts nothing: add a start or an end token."
            )
        if not 1 <= self.loss_start < len(self.ids):
            raise ValueError(
                f"loss_start must be in [1, {len(self.ids)}), the sequence's length; got {self.loss_start}. "
                "Use 1 to count every prediction."
            )


def pad(sequences: Sequence[TokenSequence], pad_id: int) -> Batch:
    """Batch of `sequences`, padded on the right with `pad_id` to the longest of them.

    Right padding keeps position 0 the first token of every row; under a causal mask no real token even sees a pad.
    `pad_mask` is always given, `verb_labels` where every sequence has a label.
    """
    if not sequences:
        raise ValueError("a batch must have at least one sequence; got none. Check the data for an empty split.")
    width = max(len(sequence.ids) for sequence in sequences) - 1
    shape = (len(sequences), width)
    inputs = np.full(shape, pad_id, dtype=np.int64)
    targets = np.full(shape, IGNORED, dtype=np.int64)
    pad_mask = np.zeros(shape, dtype=np.bool_)
    for row, sequence in enumerate(sequences):
        length = len(sequence.ids) - 1
        first = sequence.loss_start - 1  # the position that predicts ids[loss_start]
        inputs[row, :length] = sequence.ids[:-1]
        targets[row, first:length] = sequence.ids[first + 1 :]
        pad_mask[row, :length] = True
    labels = tuple(sequence.label for sequence in sequences if sequence.label is not None)
    return Batch(inputs, targets, pad_mask, labels if len(labels) == len(sequences) else None)


class PaddedBatches:
    """Endless iterator over shuffled sequences, padded to the longest of each batch.

    Parameters
    ----------
    sequences : sequence of TokenSequence
        At least one.
    batch_size : int
        Examples a batch, always: a batch that reaches the end of an epoch goes on in the next one, so that every
        example is seen once an epoch and no step is smaller than another.
    seed : int
        Epoch e is the permutation of `numpy.random.default_rng([seed, e])`, whatever happened before it.
    pad_id : int

    Notes
    -----
    Padding to the batch's longest, not to a fixed length, saves its share of every operation of the model; the
    number of real tokens is the same.
    """

    def __init__(self, sequences: Sequence[TokenSequence], batch_size: int, *, seed: int, pad_id: int = 0) -> None:
        if not sequences:
            raise ValueError("sequences must not be empty; got none. Check the data for an empty split.")
        self.sequences = tuple(sequences)
        self.batch_size = _whole("batch_size", batch_size, at_least=1)
        self.seed = _whole("seed", seed, at_least=0)
        self.pad_id = _whole("pad_id", pad_id, at_least=0)
        self._taken = 0
        self._shuffled_epoch = -1
        self._order: IntArray = np.empty(0, dtype=np.int64)

    @property
    def epoch(self) -> int:
        """Epoch of the next example, counted from 0."""
        return self._taken // len(self.sequences)

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        batch = pad([self.sequences[self._index(self._taken + i)] for i in range(self.batch_size)], self.pad_id)
        self._taken += self.batch_size
        return batch

    def _index(self, taken: int) -> int:
        epoch, position = divmod(taken, len(self.sequences))
        if epoch != self._shuffled_epoch:
            self._order = np.random.default_rng([self.seed, epoch]).permutation(len(self.sequences))
            self._shuffled_epoch = epoch
        return int(self._order[position])

    @cached_property
    def _sha256(self) -> str:
        each = ((sequence.ids, sequence.loss_start, sequence.label) for sequence in self.sequences)
        return _checksum(part for parts in each for part in parts)

    def state_dict(self) -> dict[str, int | str]:
        """JSON: `taken`, the position, and what must agree for it to mean the same."""
        return {
            "taken": self._taken,
            "seed": self.seed,
            "batch_size": self.batch_size,
            "examples": len(self.sequences),
            "sha256": self._sha256,
        }

    def load_state_dict(self, state: Mapping[str, int | str]) -> None:
        """Continue where the iterator that gave `state` stood.

        Raises
        ------
        ValueError
            If a key is missing or unknown, or the other iterator had another seed, batch size or other examples.
        """
        self._taken = _position(state, "taken", self.state_dict())


class WindowBatches:
    """Endless iterator over windows of one long text, each at a place drawn at random.

    Parameters
    ----------
    ids : int array, shape (N,), N of `context_len` + 1 and more
    context_len : int
        T of each batch.
    batch_size : int
    seed : int
        Batch k draws its places from `numpy.random.default_rng([seed, k])`, uniform over the N - context_len places.

    Raises
    ------
    ValueError
        If the text is too short for one window; the message gives both lengths.
    """

    def __init__(self, ids: IntArray, context_len: int, batch_size: int, *, seed: int) -> None:
        self.ids = _require_text(ids)
        self.context_len = _whole("context_len", context_len, at_least=1)
        self.batch_size = _whole("batch_size", batch_size, at_least=1)
        self.seed = _whole("seed", seed, at_least=0)
        if len(ids) <= self.context_len:
            raise ValueError(
                f"ids must hold one window and the token after it, {self.context_len + 1} for context_len "
                f"{self.context_len}; got {len(ids)}. Use a longer text or a smaller context_len."
            )
        self._drawn = 0

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        rng = np.random.default_rng([self.seed, self._drawn])
        starts = rng.integers(len(self.ids) - self.context_len, size=self.batch_size)
        places = starts[:, np.newaxis] + np.arange(self.context_len)  # (B, T)
        self._drawn += 1
        return Batch(self.ids[places], self.ids[places + 1])

    @cached_property
    def _sha256(self) -> str:
        return _checksum([self.ids])

    def state_dict(self) -> dict[str, int | str]:
        """JSON: `drawn`, the position, and what must agree for it to mean the same."""
        return {
            "drawn": self._drawn,
            "seed": self.seed,
            "batch_size": self.batch_size,
            "context_len": self.context_len,
            "tokens": len(self.ids),
            "sha256": self._sha256,
        }

    def load_state_dict(self, state: Mapping[str, int | str]) -> None:
        """Continue where the iterator that gave `state` stood.

        Raises
        ------
        ValueError
            If a key is missing or unknown, or the other iterator was made for other data or sizes.
        """
        self._drawn = _position(state, "drawn", self.state_dict())


class SameBatches:
    """What a resumed run must find unchanged though it only reads them: validation batches, as their checksum.

    Parameters
    ----------
    batches : iterable of Batch
    """

    def __init__(self, batches: Iterable[Batch]) -> None:
        each = ((batch.inputs, batch.targets, batch.verb_labels) for batch in batches)
        self._sha256 = _checksum(part for parts in each for part in parts)

    def state_dict(self) -> dict[str, str]:
        """JSON: the checksum."""
        return {"validation_sha256": self._sha256}

    def load_state_dict(self, state: Mapping[str, str]) -> None:
        """Check that `state` came from the same batches.

        Raises
        ------
        ValueError
            If it did not.
        """
        _require_same(state, self.state_dict())


def evaluation_batches(sequences: Sequence[TokenSequence], batch_size: int, *, pad_id: int = 0) -> list[Batch]:
    """Every sequence once, in order; the last batch may be smaller."""
    size = _whole("batch_size", batch_size, at_least=1)
    return [pad(sequences[start : start + size], pad_id) for start in range(0, len(sequences), size)]


def evaluation_windows(ids: IntArray, context_len: int, batch_size: int) -> list[Batch]:
    """Windows that do not overlap and cover a whole text: every token but the first is predicted once.

    A window sees nothing before its own start, so a loss over few long windows is lower than over many short ones.
    The rest that does not fill a window comes last, as a batch of one shorter row. Batches are views of `ids`.

    Raises
    ------
    ValueError
        If `ids` holds fewer than two tokens, which leave nothing to predict.
    """
    ids = _require_text(ids)
    width = _whole("context_len", context_len, at_least=1)
    size = _whole("batch_size", batch_size, at_least=1)
    if len(ids) < 2:
        raise ValueError(f"ids must hold two tokens and more; got {len(ids)}. Use a longer text.")
    rows, rest = divmod(len(ids) - 1, width)
    inputs = ids[: rows * width].reshape(rows, width)
    targets = ids[1 : rows * width + 1].reshape(rows, width)
    batches = [Batch(inputs[row : row + size], targets[row : row + size]) for row in range(0, rows, size)]
    if rest:
        batches.append(Batch(ids[np.newaxis, rows * width : -1], ids[np.newaxis, rows * width + 1 :]))
    return batches


def _require_ids(name: str, ids: object) -> None:
    if not isinstance(ids, np.ndarray) or not np.issubdtype(ids.dtype, np.integer):
        raise TypeError(f"{name} must be an integer ndarray; got {_kind(ids)}. Use np.asarray(ids, dtype=np.int64).")


def _require_mask(mask: object) -> None:
    if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_:
        raise TypeError(f"pad_mask must be a bool ndarray; got {_kind(mask)}. Use True where the token is real.")


def _require_labels(labels: object) -> None:
    if not isinstance(labels, tuple) or not all(isinstance(label, str) for label in labels):
        raise TypeError(f"verb_labels must be a tuple of strings; got {labels!r}. Give one lemma an example.")


def _require_text(ids: IntArray) -> IntArray:
    _require_ids("ids", ids)
    if ids.ndim != 1:
        raise ValueError(f"ids must have shape (N,), one long text; got {ids.shape}. Concatenate the parts.")
    return ids


def _kind(value: object) -> str:
    return f"dtype {value.dtype}" if isinstance(value, np.ndarray) else type(value).__name__


def _whole(name: str, value: object, *, at_least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, SupportsIndex):
        raise TypeError(f"{name} must be an integer; got {value!r}. Use {at_least} or more.")
    number = operator.index(value)
    if number < at_least:
        raise ValueError(f"{name} must be {at_least} or more; got {number}. Use {at_least} or more.")
    return number


def _checksum(parts: Iterable[IntArray | int | str | tuple[str, ...] | None]) -> str:
    """SHA-256 of arrays and what belongs to them, in hexadecimal; of ids alike in every dtype."""
    digest = hashlib.sha256()
    for part in parts:
        if isinstance(part, np.ndarray):
            digest.update(f"{part.shape}".encode())
            digest.update(part.astype("<i8", copy=False).tobytes())
        else:
            digest.update(f"{part!r}".encode())
    return digest.hexdigest()


def _position(state: Mapping[str, int | str], key: str, own: Mapping[str, int | str]) -> int:
    """The position in `state`, once everything else in it equals the iterator's own."""
    _require_same(state, own, but=key)
    return _whole(key, state[key], at_least=0)


def _require_same(state: Mapping[str, int | str], own: Mapping[str, int | str], *, but: str = "") -> None:
    """Raise ValueError unless `state` has the keys and, `but` for one, the values of `own`."""
    if state.keys() != own.keys():
        raise ValueError(
            f"a data position must have the keys {sorted(own)}; got {sorted(state)}. "
            "Load what state_dict of the same kind of iterator gave."
        )
    for name, value in own.items():
        if name != but and state[name] != value:
            raise ValueError(
                f"the data must be those of the run; got {name} {state[name]} where this iterator has {value}. "
                "Resume with its configuration and its data, a text file as it was then, or begin a new run."
            )
