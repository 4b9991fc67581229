"""A block of a model on a prompt, worked out as on paper: what `minitrain worksheet RUN --prompt …` shows."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from autograd_core import Module, Tensor, no_grad
from minimodel.transformer import MiniGPT, Worksheet, worksheet
from minimodel.transformer.worksheets import Language
from minimodel.transformer.worksheets.sheet import MOST_POSITIONS

from .tokenizer import Tokenizer


def prompt_worksheet(
    model: MiniGPT,
    tokenizer: Tokenizer,
    ids: npt.NDArray[np.integer],
    *,
    block: int = 0,
    language: Language = "en",
) -> Worksheet:
    """Return the worksheet of `model.blocks[block]` on the stream that enters it when the model reads `ids`.

    Parameters
    ----------
    model : MiniGPT
    tokenizer : Tokenizer
        Names the positions.
    ids : int array, shape (T,)
        The prompt; T at least 1.
    block : int
        Counted from 0.
    language : "en" or "es"

    Raises
    ------
    ValueError
        If there is no such block, or the prompt is empty, longer than the context, or longer than a page holds.
    """
    blocks = len(model.blocks)
    if not 0 <= block < blocks:
        raise ValueError(f"--block: must be from 0 to {blocks - 1}, since the model has {blocks} blocks; got {block}.")
    if len(ids) == 0:
        raise ValueError("--prompt: must have at least one token; got none.")
    most = min(MOST_POSITIONS, model.config.context_len)
    if len(ids) > most:
        raise ValueError(
            f"--prompt: must have at most {most} tokens, as many as a page and the model's context hold; "
            f"got {len(ids)}. Give a shorter text."
        )
    entering: list[npt.NDArray[np.floating]] = []

    def keep(module: Module, args: tuple[Tensor, ...], kwargs: dict[str, object], output: Tensor) -> None:
        entering.append(args[0].value)

    with no_grad(), model.evaluating(), model.blocks[block].register_forward_hook(keep):
        model(ids)
    texts = [tokenizer.decode([token], show_special=True) for token in ids.tolist()]
    return worksheet(model.blocks[block], entering[0], language=language, tokens=texts)
