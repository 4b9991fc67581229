"""What a trained model writes: the text of generated ids, and held-out English forms completed from the Spanish."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from minimodel.transformer import MiniGPT

from .tokenizer import BOS_ID, SPECIAL_TOKENS, UNK_ID, CharTokenizer, Tokenizer
from .verbs import Example, VerbCorpus, admissible_answers


@dataclass(frozen=True, slots=True)
class Completion:
    """One held-out line and what the model made of it."""

    example: Example
    answer: str

    @property
    def exact(self) -> bool:
        """Whether the answer is one that the corpus pairs with the source."""
        return self.answer in admissible_answers(self.example.source)


def written(tokenizer: Tokenizer, ids: npt.NDArray[np.integer]) -> str:
    """Text of generated `ids`, shape (T,), up to the first that ends a text.

    Reserved tokens are written out, so that an answer with one in it does not pass for one without. A model may have
    more ids than the tokenizer: one that stands for nothing is written as `<unk>`.
    """
    ends = np.flatnonzero(ids == tokenizer.end_id)
    kept = ids[: ends[0]] if ends.size else ids
    first, *others = np.split(kept, np.flatnonzero(kept >= tokenizer.vocab_size))
    runs = [first, *(run[1:] for run in others)]  # what stands between ids without a token
    return SPECIAL_TOKENS[UNK_ID].join(tokenizer.decode(run, show_special=True) for run in runs)


def complete(
    model: MiniGPT, tokenizer: CharTokenizer, prompts: Sequence[str], *, longest: int | None = None
) -> list[str]:
    """Greedy completions of `prompts`, each up to the first `<eos>`, `longest` or the end of the context.

    Prompts of equal length run as one batch.

    Parameters
    ----------
    model : MiniGPT
    tokenizer : CharTokenizer
    prompts : sequence of str
        Without `<bos>`, which is put before each. Shorter than the model's context.
    longest : int, optional
        Tokens of a line, `<bos>` and `<eos>` included, past which nobody reads. By default the context decides.
    """
    most = model.config.context_len if longest is None else min(longest, model.config.context_len)
    answers = [""] * len(prompts)
    by_length: dict[int, list[int]] = {}
    for index, prompt in enumerate(prompts):
        by_length.setdefault(len(prompt), []).append(index)
    for length, indices in by_length.items():
        ids = np.array([[BOS_ID, *tokenizer.encode(prompts[i])] for i in indices])  # (B, T)
        room = max(0, most - length - 1)
        new = model.generate(ids, room, temperature=0.0)[:, ids.shape[1] :]
        for index, row in zip(indices, new, strict=True):
            answers[index] = written(tokenizer, row)
    return answers


def completions(model: MiniGPT, corpus: VerbCorpus) -> list[Completion]:
    """The model's English for the Spanish sources that `corpus` holds out, greedy."""
    lines = [example for example in corpus.validation if example.direction == "es-en"]
    # What is as long as the longest line and has not ended is no line of the corpus, whatever else would come.
    answers = complete(model, corpus.tokenizer, [example.prompt for example in lines], longest=corpus.longest)
    return [Completion(example, answer) for example, answer in zip(lines, answers, strict=True)]


def exact_shares(done: Sequence[Completion]) -> dict[str, dict[str, float | int | None]]:
    """Count and share of exact completions, for "regular" and "irregular" verbs; a share of nothing is None."""
    shares: dict[str, dict[str, float | int | None]] = {}
    for regularity in ("regular", "irregular"):
        own = [completion for completion in done if completion.example.regularity == regularity]
        exact = sum(completion.exact for completion in own)
        shares[regularity] = {"exact": exact, "of": len(own), "share": exact / len(own) if own else None}
    return shares
