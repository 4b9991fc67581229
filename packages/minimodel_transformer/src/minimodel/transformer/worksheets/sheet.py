"""`worksheet`: a block and its input to a `Worksheet`, which shows itself as Markdown or HTML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
from autograd_core import GELU, Module, Tensor
from minimodel.embedding.arguments import array_argument

from ..block import TransformerBlock
from .arithmetic import block_on_paper
from .attention_arithmetic import has_rope
from .content import Section, Setting, sections_of
from .html_sheet import fragment, page
from .markdown_sheet import markdown
from .step import Step
from .tables import position_labels
from .words import LANGUAGES, Language

MOST_POSITIONS = 24
"""Columns of the attention weights, which are never cut: what the width of a printed page holds with two digits."""

MOST_HEADS = 16
"""Each head adds eight tables; GPT-2 has 12, its next size 16."""


@dataclass(frozen=True, slots=True)
class Worksheet:
    """Every intermediate value of one forward of a block.

    Attributes
    ----------
    steps : tuple of Step
        In the order of the arithmetic, each with symbol, equation, shape, source and value.
    parameters : mapping of str to array
        The block's parameters when the worksheet was made, by dotted name.
    language : "en" or "es"
        Of the pages.

    Examples
    --------
    >>> from minimodel.transformer.worksheets import hand_example
    >>> sheet = worksheet(*hand_example())
    >>> sheet.values["ln1.variance"].tolist()
    [[0.3125], [0.875]]
    >>> list(sheet.values)[-2:]
    ['ffn', 'y']
    """

    steps: tuple[Step, ...]
    parameters: Mapping[str, npt.NDArray[Any]]
    language: Language
    _setting: Setting

    @property
    def values(self) -> dict[str, npt.NDArray[Any]]:
        """Name to array, in order, from `x` to `y`, which is the output of the block; the arrays are read-only."""
        return {step.name: step.value for step in self.steps}

    def markdown(self) -> str:
        """The worksheet as Markdown, for reading: formulas between dollar signs, tables."""
        return markdown(self._sections(), self._setting, self.language)

    def html(self) -> str:
        """The worksheet as one HTML page that fetches nothing: formulas typeset, attention weights as a heat map."""
        return page(self._sections(), self._setting, self.language)

    def _sections(self) -> list[Section]:
        return sections_of(self.steps, self.parameters, self._setting, self.language)

    def __str__(self) -> str:
        return self.markdown()

    def __repr__(self) -> str:
        sizes = ", ".join(f"{letter}={size}" for letter, size in self._setting.sizes.items())
        return f"<Worksheet of {len(self.steps)} steps, {sizes}>"

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return fragment(self._sections(), self._setting, self.language)


def worksheet(
    block: TransformerBlock,
    x: Tensor | npt.NDArray[Any] | Sequence[Sequence[float]],
    *,
    language: Language = "en",
    tokens: Sequence[str] | None = None,
) -> Worksheet:
    """Return the worksheet of one forward of `block`: every intermediate value by name, in order, as on paper.

    The block is not called: the numbers are computed anew in plain NumPy, in the order of the papers, without fused
    operations; the last one equals `block(x)` to rounding. Hooks do not fire and nothing of the block changes. Dropout
    is left out, as after `block.eval()`.

    Parameters
    ----------
    block : TransformerBlock
        At most 16 heads. Its width is not limited: on the page tables of more than 16 columns, and matrices of more
        than 16 rows, are cut in the middle, and the HTML page has those of up to 8192 numbers folded up whole;
        `.values` and `.parameters` have all.
    x : Tensor, array or nested list, shape (T, D)
        The stream that enters the block, finite; T is at most 24. For a block inside a model, a forward hook on the
        block sees it in `args[0]`.
    language : "en" or "es"
        Of the words on the pages.
    tokens : sequence of str, optional
        One text a position, shown at the heads of rows.

    Returns
    -------
    Worksheet

    Raises
    ------
    ValueError
        If the worksheet would not fit a page, `x` has another shape or is not finite, the language is another, or
        `tokens` is of another length.
    TypeError
        If `block` is not a TransformerBlock, `x` holds no numbers, or `tokens` are no texts.
    """
    if language not in LANGUAGES:
        raise ValueError(f"worksheet: language must be 'en' or 'es'; got {language!r}. Choose one.")
    if not isinstance(block, TransformerBlock):
        raise TypeError(
            f"worksheet: block must be a TransformerBlock; got {type(block).__name__}. "
            "Of a model, give model.blocks[i] and the stream that enters it."
        )
    act: Module = block.ffn.act  # which may have been exchanged
    if not isinstance(act, GELU) or act.approximate != "tanh":
        found = f"GELU({act.approximate!r})" if isinstance(act, GELU) else type(act).__name__
        raise ValueError(
            f"worksheet: the formulas are those of GELU in its tanh form; got {found} as block.ffn.act. "
            "Put GELU('tanh') back."
        )
    stream = _checked_stream(block, x)
    length, d_model = stream.shape
    n_heads = block.attn.n_heads
    if length > MOST_POSITIONS or n_heads > MOST_HEADS:
        raise ValueError(
            f"worksheet: a page holds at most {MOST_POSITIONS} positions and {MOST_HEADS} heads; "
            f"got {length} positions and {n_heads} heads. Give a shorter x, or a block with fewer heads."
        )
    if tokens is not None:
        _check_tokens(tokens, length)
    paper = block_on_paper(block, stream)
    sizes = {"T": length, "D": d_model, "H": n_heads, "K": block.attn.d_head, "F": block.ffn.d_ff}
    setting = Setting(
        sizes,
        block.ln1.eps,
        block.attn.causal,
        has_rope(block.attn),
        block.dropout is not None,
        paper.steps[-1].value.dtype.name,
        position_labels(length, tokens),
    )
    return Worksheet(tuple(paper.steps), MappingProxyType(paper.parameters), language, setting)


def _check_tokens(tokens: Any, length: int) -> None:
    """Raise unless there is one text a position."""
    is_list = isinstance(tokens, Sequence) and not isinstance(tokens, bytes)
    others = [type(token).__name__ for token in tokens if not isinstance(token, str)] if is_list else []
    if not is_list or others:
        found = type(tokens).__name__ + (f" with {others[0]}" if others else "")
        raise TypeError(f"worksheet: tokens must be texts, one a position; got {found}. Give a list of str.")
    if len(tokens) != length:
        raise ValueError(
            f"worksheet: tokens must have one text a position; got {len(tokens)} for {length} positions. "
            "Leave them out, or give as many."
        )


def _checked_stream(
    block: TransformerBlock, x: Tensor | npt.NDArray[Any] | Sequence[Sequence[float]]
) -> npt.NDArray[Any]:
    """Return `x` as a finite floating array of shape (T, D), T at least 1."""
    stream = array_argument("worksheet", "x", x)
    if stream.dtype.kind not in "fiu":
        raise TypeError(f"worksheet: x must hold numbers; got dtype {stream.dtype}. Give floats.")
    if stream.dtype.kind != "f" or not isinstance(x, (Tensor, np.ndarray)):
        stream = stream.astype(block.ln1.gamma.dtype)
    d_model = block.ln1.d_model
    if stream.ndim != 2 or stream.shape[1] != d_model or len(stream) == 0:
        raise ValueError(
            f"worksheet: x must be (T, D) with T at least 1 and D = d_model={d_model}; got shape {stream.shape}. "
            "Give one sequence; of a batch, x[i]."
        )
    if not np.isfinite(stream).all():
        raise ValueError(
            "worksheet: x must be finite, or there is nothing to work out; it holds NaN or infinity. "
            "Look for the first layer whose output is not finite."
        )
    return stream
