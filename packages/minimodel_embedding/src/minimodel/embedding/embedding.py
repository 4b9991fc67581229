"""The lookup table as a module, and its gradient written for reading.

`Embedding` is what models use: its lookup and its scatter of gradients are the core's fused operation. What that
scatter must compute, `gather_backward` says in two lines; tests compare the two, and nothing else calls it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Never, Self, TypeAlias

import numpy as np
import numpy.typing as npt
from autograd_core import Module, Parameter, Tensor, init
from autograd_core import functional as F

from .arguments import dtype_argument, ids_argument, number_argument, rng_argument, size_argument
from .no_draws import NoDraws
from .storage import read_pair, write_pair

Ids: TypeAlias = Tensor | npt.NDArray[np.integer[Any]] | Sequence[Any] | int
"""What can be looked up: integers in an array, in a Tensor, in nested lists, or one alone."""


class Embedding(Module):
    """A table of `num_embeddings` vectors of width `embedding_dim`, looked up by integer id.

    Parameters
    ----------
    num_embeddings : int
        Number of rows V, at least 1; ids are in [0, V).
    embedding_dim : int
        Width d of a row, at least 1.
    init_scale : float
        Standard deviation of the initial values. 0.02 is GPT-2's.
    rng : numpy.random.Generator, optional
        Draws the initial values; a fresh unseeded one by default.
    dtype : dtype
        float64 or float32.

    Attributes
    ----------
    E : Parameter, shape (V, d)
        The rows. Its gradient is dense: zero in rows that were not looked up.

    Raises
    ------
    ValueError
        If a size is below 1, or `init_scale` is negative or not finite.
    TypeError
        If a size is not an integer, `init_scale` no number, `dtype` another one, `rng` no generator, or for an unknown
        keyword. There is no `padding_idx`: a padded position teaches nothing when its target is the `ignore_index` of
        the loss.

    Examples
    --------
    >>> table = Embedding(5, 2, rng=np.random.default_rng(0))
    >>> table(np.array([[1, 4, 1]])).shape
    (1, 3, 2)
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        init_scale: float = 0.02,
        *,
        rng: np.random.Generator | None = None,
        dtype: npt.DTypeLike = np.float64,
        **unknown: Never,
    ) -> None:
        if unknown:
            raise _unknown_keyword(next(iter(unknown)))
        self.num_embeddings = size_argument("Embedding", "num_embeddings", num_embeddings)
        self.embedding_dim = size_argument("Embedding", "embedding_dim", embedding_dim)
        dtype = dtype_argument("Embedding", dtype)
        init_scale = number_argument("Embedding", "init_scale", init_scale)
        if not 0.0 <= init_scale < np.inf:
            raise ValueError(
                f"Embedding: init_scale must be finite and not negative; got {init_scale}. It is a standard deviation."
            )
        shape = (self.num_embeddings, self.embedding_dim)
        rng = rng_argument("Embedding", rng)
        self.E = Parameter(init.normal(shape, std=init_scale, rng=rng, dtype=dtype))  # (V, d)

    def forward(self, ids: Ids) -> Tensor:
        """Return the rows of `ids`.

        Parameters
        ----------
        ids : int array or nested list, shape (...)
            Any number of dimensions, none and empty ones included, each id in [0, V).

        Returns
        -------
        Tensor, shape (..., d), dtype of `E`

        Raises
        ------
        IndexError
            If an id is outside [0, V); negative ids do not count from the end. Names the first one and its position.
        TypeError
            If the ids are not integers; an empty list is taken as no ids.
        ValueError
            If the rows of a nested list are not equally long.
        """
        return F.embedding(self.E, ids_argument("Embedding", "ids", ids, self.num_embeddings))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the table to `<path>.npy` and its description to `<path>.json`; return nothing.

        Parameters
        ----------
        path : path
            Without extension; a trailing `.npy` is dropped. The folder must exist. Ends in a name, hence not in a
            slash.

        Raises
        ------
        ValueError
            If the path does not end in a name.
        TypeError
            If it is no path.
        OSError
            If the folder is missing or cannot be written. A pair that stood there before is then still whole.
        """
        write_pair(path, self.E.value)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Return the table that `save` wrote to `path`: equal bits, same dtype, trainable.

        Raises
        ------
        ValueError
            If either file is damaged or the two do not belong together; names the file and what is wrong with it. If
            the path does not end in a name.
        TypeError
            If it is no path.
        FileNotFoundError
            If either file is missing.

        Warns
        -----
        RuntimeWarning
            If the table holds NaN or infinite values.
        """
        rows = read_pair(path)
        num_embeddings, embedding_dim = rows.shape
        embedding = cls(num_embeddings, embedding_dim, rng=NoDraws(np.random.PCG64()), dtype=rows.dtype)
        embedding.E.value = rows  # assignment copies
        return embedding


def gather_backward(
    upstream_grad: npt.NDArray[Any], ids: npt.NDArray[np.integer[Any]], shape: tuple[int, int]
) -> npt.NDArray[Any]:
    """Return the gradient of a lookup with respect to the table: the readable oracle of the fused scatter.

    Parameters
    ----------
    upstream_grad : array, shape (..., d)
        The cotangent of the rows that were looked up.
    ids : int array, shape (...)
        Which rows those were, each in [0, V).
    shape : (V, d)
        Of the table.

    Returns
    -------
    array, shape (V, d), dtype of `upstream_grad`
        Row r is the sum of the cotangents of every position whose id is r.

    Raises
    ------
    ValueError
        If the three shapes do not fit together.

    Examples
    --------
    >>> gather_backward(np.array([[1.0, 2.0], [4.0, 5.0]]), np.array([3, 3]), (4, 2))[3]
    array([5., 7.])
    """
    if upstream_grad.shape != (*ids.shape, shape[1]):
        raise ValueError(
            "gather_backward: upstream_grad must have one row for each id; "
            f"got upstream_grad {upstream_grad.shape}, ids {ids.shape}, table {shape}. "
            f"Expected {(*ids.shape, shape[1])}."
        )
    grad = np.zeros(shape, dtype=upstream_grad.dtype)
    # `grad[ids] += …` would keep the last of several contributions to a row: NumPy buffers it.
    np.add.at(grad, ids, upstream_grad)
    return grad


def _unknown_keyword(name: str) -> TypeError:
    """Return the error for a keyword that does not exist."""
    if name == "padding_idx":
        return TypeError(
            "Embedding: there is no padding_idx; got one. "
            "Give padded positions the target ignore_index of the loss instead: they then teach nothing."
        )
    return TypeError(f"Embedding: got an unexpected keyword argument {name!r}. Known are init_scale, rng and dtype.")
