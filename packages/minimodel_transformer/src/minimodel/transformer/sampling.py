"""From logits to the next id: temperature, top-k, top-p, one draw. NumPy alone; there is no model here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from minimodel.embedding.arguments import number_argument


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampler:
    """How an id is chosen. The three are applied in this order.

    Attributes
    ----------
    temperature : float
        Logits are divided by it; 0 always takes the most likely id (of equals, the lowest).
    top_k : int or None
        Keep the k most likely ids, and whatever ties with the last of them.
    top_p : float or None
        Keep the fewest most likely ids whose probability together reaches p, in (0, 1]; at least one. Of equally likely
        ids the lower counts first.

    Raises
    ------
    ValueError
        If a value is out of range.
    TypeError
        If `top_k` is not an integer, or one of the others no number.

    References
    ----------
    Fan, Lewis and Dauphin, "Hierarchical Neural Story Generation" (2018), §5.4 (top-k). Holtzman et al., "The
    Curious Case of Neural Text Degeneration" (2020), §3.1, eq. 2 (top-p, there called nucleus).
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "temperature", number_argument("sampling", "temperature", self.temperature))
        if not 0.0 <= self.temperature < np.inf:
            raise ValueError(
                f"sampling: temperature must be finite and not negative; got {self.temperature}. 0 is greedy."
            )
        if self.top_k is not None:
            if isinstance(self.top_k, bool) or not isinstance(self.top_k, (int, np.integer)):
                raise TypeError(
                    f"sampling: top_k must be an integer; got {self.top_k!r}. Leave it out to keep all ids."
                )
            if self.top_k < 1:
                raise ValueError(f"sampling: top_k must be at least 1; got {self.top_k}. Leave it out to keep all ids.")
        if self.top_p is not None:
            object.__setattr__(self, "top_p", number_argument("sampling", "top_p", self.top_p))
            if not 0.0 < self.top_p <= 1.0:
                raise ValueError(
                    f"sampling: top_p must be above 0 and at most 1; got {self.top_p}. Leave it out to keep all ids."
                )

    def probabilities(self, logits: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        """Return the distribution that `draw` draws from; ids that were filtered out have probability 0.

        Parameters
        ----------
        logits : array, shape (..., V), floating
            Computed with in float64, whatever their dtype.

        Returns
        -------
        array, shape (..., V), float64

        Raises
        ------
        ValueError
            If a logit is NaN or infinite: a diverged model has no next token.
        """
        z = _finite(logits)
        if self.temperature == 0.0:
            best = np.zeros_like(z)
            np.put_along_axis(best, z.argmax(axis=-1, keepdims=True), 1.0, axis=-1)
            return best
        z = z - z.max(axis=-1, keepdims=True)
        with np.errstate(over="ignore", under="ignore"):  # a tiny temperature sends all but the best to -inf, rightly
            weights = np.exp(z / self.temperature)  # (..., V), the largest is 1
        if self.top_k is not None and self.top_k < z.shape[-1]:
            kth = np.partition(z, -self.top_k, axis=-1)[..., -self.top_k, None]  # (..., 1)
            weights = np.where(z >= kth, weights, 0.0)
        p: npt.NDArray[np.float64] = weights / weights.sum(axis=-1, keepdims=True)
        if self.top_p is not None and self.top_p < 1.0:
            order = np.argsort(-p, axis=-1, kind="stable")
            ranked = np.take_along_axis(p, order, axis=-1)
            # An id stays if the ones before it have not yet reached p: the id that crosses the line stays too.
            before = np.cumsum(ranked, axis=-1) - ranked
            np.put_along_axis(p, order, np.where(before < self.top_p, ranked, 0.0), axis=-1)
            p /= p.sum(axis=-1, keepdims=True)
        return p

    def draw(self, logits: npt.NDArray[Any], rng: np.random.Generator) -> npt.NDArray[np.int64]:
        """Return one id a row.

        Parameters
        ----------
        logits : array, shape (..., V), floating
        rng : numpy.random.Generator
            One number is drawn a row; none at temperature 0.

        Returns
        -------
        array, shape (...), int64

        Raises
        ------
        ValueError
            As `probabilities`.
        """
        picked: npt.NDArray[np.int64]
        if self.temperature == 0.0:
            picked = _finite(logits).argmax(axis=-1)
            return picked
        p = self.probabilities(logits)
        # The inverse of the distribution function. Dividing by its last entry makes that exactly 1, which the draw
        # never reaches, so that rounding cannot select an id past the end or one of probability 0.
        cumulative = np.cumsum(p, axis=-1)
        cumulative /= cumulative[..., -1:]
        picked = (cumulative <= rng.random(p.shape[:-1])[..., None]).sum(axis=-1)
        return picked


def _finite(logits: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Return the logits in float64, all of them finite."""
    z = np.asarray(logits, dtype=np.float64)
    finite = np.isfinite(z)
    if not finite.all():
        raise ValueError(
            f"sampling: logits must be finite; {np.count_nonzero(~finite)} of {z.size} are not. "
            "The model has diverged: use weights from before."
        )
    return z
