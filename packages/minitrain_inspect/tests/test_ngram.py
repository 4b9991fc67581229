"""The n-gram baseline against a plain recursion over dictionaries, and as a probability."""

import math
import time
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from minitrain.batches import IGNORED, Batch, TokenSequence, evaluation_batches, evaluation_windows
from minitrain.ngram import NGram
from minitrain.verbs import encode_example, verb_corpus


class Plain:
    """The formula of the BLUEPRINT, one probability at a time."""

    def __init__(self, order, vocab_size, sequences):
        self.order, self.vocab_size = order, vocab_size
        self.seen = {}
        for sequence in sequences:
            ids = tuple(int(token) for token in sequence)
            for place in range(1, len(ids)):
                for length in range(min(order, place + 1)):
                    self.seen.setdefault(ids[place - length : place], Counter())[ids[place]] += 1

    def probability(self, context, token):
        context = tuple(context)[max(0, len(context) - self.order + 1) :]
        lower = self.probability(context[1:], token) if context else 1 / self.vocab_size
        after = self.seen.get(context)
        if after is None:
            return lower
        return (after[token] + len(after) * lower) / (after.total() + len(after))


def random_sequences(rng, vocab_size, lengths):
    # A skewed draw, so that some contexts repeat and some never occur.
    return [np.minimum(rng.geometric(0.3, size=length) - 1, vocab_size - 1) for length in lengths]


@pytest.mark.parametrize("order", [1, 2, 3, 5, 8])
def test_every_probability_equals_the_plain_recursion(order):
    rng = np.random.default_rng(11)
    training = random_sequences(rng, 7, (2, 31, 5, 1, 89, 3))
    model = NGram(order, vocab_size=11).fit(training)
    plain = Plain(order, 11, training)
    inputs = rng.integers(9, size=(5, 13))
    targets = rng.integers(11, size=(5, 13))
    got = model.log_prob(inputs, targets)
    for row in range(5):
        for column in range(13):
            expected = math.log(plain.probability(inputs[row, : column + 1].tolist(), int(targets[row, column])))
            assert got[row, column] == pytest.approx(expected, abs=1e-12)


@given(
    st.lists(st.lists(st.integers(0, 4), min_size=2, max_size=9), min_size=1, max_size=5),
    st.lists(st.integers(0, 5), min_size=1, max_size=6),
    st.integers(1, 6),
)
def test_probabilities_sum_to_one_over_the_whole_vocabulary(training, context, order):
    model = NGram(order, vocab_size=6).fit([np.array(sequence) for sequence in training])
    targets = np.full((6, len(context)), IGNORED)
    targets[:, -1] = np.arange(6)
    probabilities = np.exp(model.log_prob(np.tile(context, (6, 1)), targets)[:, -1])
    assert probabilities.sum() == pytest.approx(1, abs=1e-12)
    assert (probabilities > 0).all()


def test_a_hand_computed_value():
    # After 5: 6 twice and 7 once; overall 6 twice, 7 once, 5 twice (the first token is context only).
    model = NGram(2, vocab_size=10).fit([np.array([5, 6, 5, 6, 5, 7])])
    unigram = (2 + 3 * 0.1) / (5 + 3)
    expected = (2 + 2 * unigram) / (3 + 2)
    assert math.exp(model.log_prob(np.array([[5]]), np.array([[6]]))[0, 0]) == pytest.approx(expected, rel=1e-14)


def test_without_evidence_only_the_uniform_share_is_left():
    model = NGram(5, vocab_size=13).fit([np.array([1, 2, 2])])
    never_seen = math.exp(model.log_prob(np.array([[9]]), np.array([[12]]))[0, 0])
    assert never_seen == pytest.approx((1 / 13) / (2 + 1))


def test_contexts_do_not_cross_the_start_of_a_sequence():
    apart = NGram(3, vocab_size=5).fit([np.array([0, 1, 2]), np.array([3, 4, 2])])
    joined = NGram(3, vocab_size=5).fit([np.array([0, 1, 2, 3, 4, 2])])
    inputs, targets = np.array([[2]]), np.array([[3]])
    assert joined.log_prob(inputs, targets)[0, 0] > apart.log_prob(inputs, targets)[0, 0]


def test_rows_of_a_batch_do_not_see_each_other():
    rng = np.random.default_rng(5)
    model = NGram(4, vocab_size=7).fit(random_sequences(rng, 7, (101,)))
    inputs, targets = rng.integers(7, size=(2, 3, 5))
    together = model.log_prob(inputs, targets)
    for row in range(3):
        assert np.array_equal(together[row], model.log_prob(inputs[row : row + 1], targets[row : row + 1])[0])


def test_the_future_of_a_position_changes_nothing():
    rng = np.random.default_rng(6)
    model = NGram(4, vocab_size=7).fit(random_sequences(rng, 7, (101,)))
    inputs, targets = rng.integers(7, size=(2, 1, 11))
    changed = inputs.copy()
    changed[0, 6:] = (changed[0, 6:] + 1) % 7
    assert np.array_equal(model.log_prob(inputs, targets)[0, :6], model.log_prob(changed, targets)[0, :6])


def test_nats_is_the_mean_over_counted_positions_only():
    rng = np.random.default_rng(7)
    model = NGram(3, vocab_size=7).fit(random_sequences(rng, 7, (101,)))
    sequences = [TokenSequence(ids, 1 + i) for i, ids in enumerate(random_sequences(rng, 7, (5, 7, 11)))]
    losses = []
    for sequence in sequences:
        row = model.log_prob(sequence.ids[np.newaxis, :-1], sequence.ids[np.newaxis, 1:])[0]
        losses.extend(-row[sequence.loss_start - 1 :])
    assert len(losses) == 4 + 5 + 8
    for batch_size in (1, 2, 3):
        batches = evaluation_batches(sequences, batch_size)
        assert model.nats(batches) == pytest.approx(np.mean(losses), rel=1e-13)


def test_counting_the_training_text_itself_beats_uniform_and_a_longer_context_fits_it_better():
    ids = np.array([1, 2, 3, 4] * 25)
    windows = evaluation_windows(ids, 17, 3)
    losses = [NGram(order, vocab_size=8).fit([ids]).nats(windows) for order in (1, 2)]
    assert losses[1] < 0.25 < losses[0] < math.log(8)


def test_fitting_again_forgets_and_repeats_exactly():
    rng = np.random.default_rng(8)
    first, second = random_sequences(rng, 7, (101, 103))
    windows = evaluation_windows(second, 13, 2)
    model = NGram(5, vocab_size=7)
    value = model.fit([first]).nats(windows)
    assert model.fit([second]).nats(windows) != value
    assert model.fit([first]).nats(windows) == value


def test_large_vocabularies_and_orders_do_not_overflow_the_keys():
    ids = np.arange(0, 1_000_000, 997)
    model = NGram(9, vocab_size=1_000_000).fit([ids, ids])
    plain = Plain(9, 1_000_000, [ids, ids])
    got = model.log_prob(ids[np.newaxis, 50:70], ids[np.newaxis, 51:71])[0, -1]
    assert got == pytest.approx(math.log(plain.probability(ids[50:70].tolist(), int(ids[70]))), abs=1e-12)


def test_a_million_tokens_take_seconds():
    rng = np.random.default_rng(9)
    ids = random_sequences(rng, 60, (1_000_000,))[0]
    start = time.perf_counter()
    NGram(5, vocab_size=64).fit([ids]).nats(evaluation_windows(ids[:100_000], 64, 16))
    assert time.perf_counter() - start < 20  # half a second when this was written; slow machines may be slow


def test_the_baseline_of_the_default_verb_split():
    corpus = verb_corpus()
    tokenizer = corpus.tokenizer
    model = NGram(5, vocab_size=tokenizer.vocab_size).fit(encode_example(e, tokenizer).ids for e in corpus.train)
    validation = evaluation_batches([encode_example(e, tokenizer) for e in corpus.validation], 16)
    assert sum(batch.counted for batch in validation) == 879
    assert model.nats(validation) == pytest.approx(0.8215, abs=5e-5)


def test_an_unfitted_model_says_so():
    with pytest.raises(RuntimeError, match="needs a fitted model"):
        NGram(vocab_size=5).log_prob(np.zeros((1, 1), int), np.zeros((1, 1), int))


def test_nothing_to_count_is_refused():
    with pytest.raises(ValueError, match="two tokens and more; got none"):
        NGram(vocab_size=5).fit([np.array([1])])


def test_nothing_to_score_is_refused():
    model = NGram(vocab_size=5).fit([np.array([1, 2])])
    ids = np.zeros((1, 2), dtype=np.int64)
    for batches in ([], [Batch(ids, np.full_like(ids, IGNORED))]):
        with pytest.raises(ValueError, match="needs a counted position; got none"):
            model.nats(batches)


@pytest.mark.parametrize("bad", [-1, 5])
def test_ids_outside_the_vocabulary_are_refused(bad):
    model = NGram(vocab_size=5).fit([np.array([1, 2])])
    for call in (
        lambda: NGram(vocab_size=5).fit([np.array([1, bad])]),
        lambda: model.log_prob(np.array([[bad]]), np.array([[1]])),
        lambda: model.log_prob(np.array([[1]]), np.array([[bad]])),
    ):
        with pytest.raises(IndexError, match=rf"in \[0, 5\); got {bad}"):
            call()


@pytest.mark.parametrize("arguments", [{"order": 0, "vocab_size": 5}, {"order": 5, "vocab_size": 0}])
def test_order_and_vocabulary_are_positive(arguments):
    name = "order" if arguments["order"] == 0 else "vocab_size"
    with pytest.raises(ValueError, match=f"{name} must be 1 or more; got 0"):
        NGram(**arguments)
