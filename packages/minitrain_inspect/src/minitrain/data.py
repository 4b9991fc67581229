"""A configuration's data source as a run needs it: tokeniser, training and validation batches, baseline."""

from __future__ import annotations

import difflib
import math
from dataclasses import dataclass

from .batches import (
    Batch,
    PaddedBatches,
    WindowBatches,
    evaluation_batches,
    evaluation_windows,
)
from .config import RunConfig
from .ngram import NGram
from .text_file import text_corpus
from .tokenizer import PAD_ID, Tokenizer
from .verbs import VerbCorpus, encode_example, verb_corpus

NGRAM_ORDER = 5
"""Best on running text and 2 % behind the best on the verb lines; BLUEPRINT, section 7, has the table."""

# Validation costs no gradient, so its batches may be larger; the numbers change nothing but time and memory.
_VALIDATION_BATCH = 64
_VALIDATION_LOGITS = 2**26
"""Logits of a validation batch at most, unless one window has more. With GPT-2's vocabulary it has 50 million."""


@dataclass(frozen=True, slots=True)
class Data:
    """What a run reads.

    Attributes
    ----------
    tokenizer : Tokenizer
    train : PaddedBatches or WindowBatches
        Endless, seeded.
    validation : list of Batch
        Finite; each held-out position once.
    ngram_loss : float
        The baseline on the positions of `validation`, in nats a position.
    corpus : VerbCorpus or None
        Of the verb preset: what held-out forms are completed from.
    """

    tokenizer: Tokenizer
    train: PaddedBatches | WindowBatches
    validation: list[Batch]
    ngram_loss: float
    corpus: VerbCorpus | None


def load_data(config: RunConfig, tokenizer: Tokenizer | None = None) -> Data:
    """Read, split and encode the source that `config` names, and fit the baseline on its training part.

    Parameters
    ----------
    config : RunConfig
    tokenizer : Tokenizer, optional
        Of a model trained before, for text files; by default one is made of the data's characters.

    Raises
    ------
    ValueError, OSError
        If the source is unusable; the message is one line that names it.
    """
    if config.data.source != "verbs":
        return _text(config, tokenizer)
    if tokenizer is not None:
        raise ValueError(
            'data.source must be a text file with model.from_gpt2; got "verbs", whose lines need tokens of their own. '
            "Name one with --set data.source=FILE."
        )
    return _verbs(config)


def _verbs(config: RunConfig) -> Data:
    corpus = verb_corpus(config.data.val_fraction)
    if corpus.longest - 1 > config.model.context_len:
        raise ValueError(
            f"model.context_len: the longest verb line needs {corpus.longest - 1} positions; "
            f"got {config.model.context_len}. Use {corpus.context_len}."
        )
    tokenizer = corpus.tokenizer
    train = [encode_example(example, tokenizer) for example in corpus.train]
    held_out = [encode_example(example, tokenizer) for example in corpus.validation]
    validation = evaluation_batches(held_out, _VALIDATION_BATCH, pad_id=PAD_ID)
    baseline = NGram(NGRAM_ORDER, vocab_size=tokenizer.vocab_size).fit([line.ids for line in train])
    # Spread evenly: the lines stand verb by verb.
    count = _share(len(train), config.faults.data_fraction)
    fed = [train[place * len(train) // count] for place in range(count)]
    batches = PaddedBatches(fed, config.train.batch_size, seed=config.train.seed, pad_id=PAD_ID)
    return Data(tokenizer, batches, validation, baseline.nats(validation), corpus)


def _text(config: RunConfig, tokenizer: Tokenizer | None) -> Data:
    context_len = config.model.context_len
    source = config.data.source
    try:
        corpus = text_corpus(source, config.data.val_fraction, context_len, tokenizer)
    except FileNotFoundError as error:
        meant = ' Or did you mean "verbs"?' if difflib.get_close_matches(source.lower(), ["verbs"]) else ""
        raise FileNotFoundError(f"data.source: {error}{meant}") from error
    except OSError as error:
        raise OSError(f"data.source: {source!r} cannot be read: {error.strerror}.") from error
    except ValueError as error:
        raise ValueError(f"data.source: {error}") from error
    vocab_size = corpus.tokenizer.vocab_size
    fitting = max(1, _VALIDATION_LOGITS // (context_len * vocab_size))
    validation = evaluation_windows(corpus.validation, context_len, min(_VALIDATION_BATCH, fitting))
    baseline = NGram(NGRAM_ORDER, vocab_size=vocab_size).fit([corpus.train])
    # A window and the token after it are the least there can be.
    fed = corpus.train[: max(context_len + 1, _share(len(corpus.train), config.faults.data_fraction))]
    batches = WindowBatches(fed, context_len, config.train.batch_size, seed=config.train.seed)
    return Data(corpus.tokenizer, batches, validation, baseline.nats(validation), None)


def _share(count: int, fraction: float) -> int:
    return max(1, math.ceil(fraction * count))
