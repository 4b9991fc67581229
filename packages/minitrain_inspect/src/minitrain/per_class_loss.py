"""The two verb classes, and the loss of a batch split between them: the series of panel 7.

Nothing here knows a model or a corpus: `partition_batch_loss` takes one number and one lemma an example, so that it
serves any loop that can say which verb each of its examples is about.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

__all__ = ["IRREGULAR_VERBS", "REGULAR_VERBS", "partition_batch_loss"]

REGULAR_VERBS = frozenset(
    {"work", "play", "walk", "talk", "listen", "watch", "study", "finish", "start", "look", "want", "like"}
)
"""Lemmas whose past and participle follow from the infinitive (+ed, with the spelling rules of *study* and *like*)."""

IRREGULAR_VERBS = frozenset({"be", "have", "do", "go", "come", "see", "eat", "write"})
"""Lemmas whose past must be known by heart."""


def partition_batch_loss(per_example_loss: npt.ArrayLike, verb_labels: Sequence[str]) -> tuple[float, float]:
    """Mean loss of the regular and of the irregular examples of a batch.

    Parameters
    ----------
    per_example_loss : array-like, shape (B,), real
        One loss an example, in nats; the caller has already averaged over the positions that count. A NaN among them
        makes its own class NaN and leaves the other alone.
    verb_labels : sequence of str, length B
        The lemma of each example, in the same order.

    Returns
    -------
    (float, float)
        Means over the examples of each class, in nats, summed in float64. A class without an example is `nan`, which
        is not a loss of zero: a plot leaves a gap there.

    Raises
    ------
    ValueError
        If `per_example_loss` is not one-dimensional, if the lengths differ, or if a lemma is in neither set.

    Examples
    --------
    >>> partition_batch_loss([1.0, 2.0, 5.0], ["work", "play", "go"])
    (1.5, 5.0)
    >>> partition_batch_loss([1.0, 2.0], ["work", "play"])
    (1.5, nan)
    """
    losses = np.asarray(per_example_loss, dtype=np.float64)
    if losses.ndim != 1:
        raise ValueError(
            f"per_example_loss must have one number an example, shape (B,); got shape {losses.shape}. "
            "Average over positions first."
        )
    if len(losses) != len(verb_labels):
        raise ValueError(
            f"per_example_loss and verb_labels must have the same length; got {len(losses)} losses and "
            f"{len(verb_labels)} labels. Give one lemma an example."
        )
    for position, lemma in enumerate(verb_labels):
        if lemma not in REGULAR_VERBS and lemma not in IRREGULAR_VERBS:
            raise ValueError(
                f"a verb label must be in REGULAR_VERBS or IRREGULAR_VERBS; got {lemma!r} at position {position}. "
                "Give the lemma (the infinitive without 'to')."
            )
    is_regular = np.fromiter((lemma in REGULAR_VERBS for lemma in verb_labels), dtype=np.bool_, count=len(losses))
    return _mean_or_nan(losses[is_regular]), _mean_or_nan(losses[~is_regular])


def _mean_or_nan(losses: npt.NDArray[np.float64]) -> float:
    # NumPy's mean of nothing is NaN too, but with a warning; an absent class is an ordinary event here.
    return float(losses.mean()) if losses.size else float("nan")
