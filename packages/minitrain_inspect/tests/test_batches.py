"""Batches: what `Batch` refuses, what padding leaves countable, and that a position puts an iterator back exactly."""

import ast
import json
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from minitrain import batches as batches_module
from minitrain.batches import (
    IGNORED,
    Batch,
    PaddedBatches,
    SameBatches,
    TokenSequence,
    WindowBatches,
    evaluation_batches,
    evaluation_windows,
    pad,
)


def sequences(count=11):
    """Sequences of different lengths; no id occurs twice in all of them, so that its origin can be read off."""
    lengths = [2 + (5 * i) % 7 for i in range(count)]
    starts = np.cumsum([1, *lengths])
    return [
        TokenSequence(np.arange(start, start + length), loss_start=1 + i % (length - 1), label=f"verb{i}")
        for i, (start, length) in enumerate(zip(starts, lengths, strict=False))
    ]


def equal(left, right):
    return (
        np.array_equal(left.inputs, right.inputs)
        and np.array_equal(left.targets, right.targets)
        and np.array_equal(left.pad_mask, right.pad_mask)
        and left.verb_labels == right.verb_labels
    )


def first_ids(batch):
    return batch.inputs[:, 0].tolist()


# Batch


def test_a_batch_counts_the_positions_with_a_target():
    batch = Batch(np.zeros((2, 3), dtype=np.int32), np.array([[4, IGNORED, 0], [IGNORED, IGNORED, 7]]))
    assert batch.counted == 3


IDS = np.ones((2, 3), dtype=np.int64)


@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        ({"inputs": [[1, 2]]}, TypeError, r"inputs must be an integer ndarray; got list"),
        ({"inputs": IDS * 1.0}, TypeError, r"inputs must be an integer ndarray; got dtype float64"),
        ({"targets": IDS > 0}, TypeError, r"targets must be an integer ndarray; got dtype bool"),
        ({"inputs": IDS[0]}, ValueError, r"must have shape \(B, T\) with at least one token; got \(3,\)"),
        ({"inputs": IDS[:0], "targets": IDS[:0]}, ValueError, r"at least one token; got \(0, 3\)"),
        ({"targets": IDS[:, :2]}, ValueError, r"targets must have the shape of inputs; got \(2, 2\) .* \(2, 3\)"),
        ({"pad_mask": IDS}, TypeError, r"pad_mask must be a bool ndarray; got dtype int64"),
        ({"pad_mask": np.ones((2, 1), bool)}, ValueError, r"pad_mask must have the shape of inputs; got \(2, 1\)"),
        (
            {"pad_mask": np.array([[1, 1, 1], [1, 0, 1]], bool)},
            ValueError,
            r"a padded position must have target -100; got 1 at \(1, 1\)",
        ),
        ({"verb_labels": ["be", "go"]}, TypeError, r"verb_labels must be a tuple of strings; got \['be', 'go'\]"),
        ({"verb_labels": ("be", None)}, TypeError, r"tuple of strings; got \('be', None\)"),
        ({"verb_labels": ("be",)}, ValueError, r"one lemma an example; got 1 for 2 examples"),
    ],
)
def test_a_malformed_batch_is_refused(fields, error, message):
    with pytest.raises(error, match=message):
        Batch(**{"inputs": IDS, "targets": IDS, **fields})


# TokenSequence and pad


@pytest.mark.parametrize(
    ("ids", "loss_start", "error", "message"),
    [
        ([1, 2], 1, TypeError, "ids must be an integer ndarray; got list"),
        (np.ones(1, int), 1, ValueError, r"L of 2 and more; got \(1,\)"),
        (IDS, 1, ValueError, r"shape \(L,\) with L of 2 and more; got \(2, 3\)"),
        (np.ones(5, int), 0, ValueError, r"loss_start must be in \[1, 5\), the sequence's length; got 0"),
        (np.ones(5, int), 5, ValueError, r"loss_start must be in \[1, 5\), the sequence's length; got 5"),
    ],
)
def test_a_malformed_sequence_is_refused(ids, loss_start, error, message):
    with pytest.raises(error, match=message):
        TokenSequence(ids, loss_start)


def test_padding_by_hand():
    batch = pad([TokenSequence(np.array([1, 5, 6, 7, 2]), 3, "go"), TokenSequence(np.array([1, 8, 2]), 1, "be")], 0)
    assert batch.inputs.tolist() == [[1, 5, 6, 7], [1, 8, 0, 0]]
    assert batch.targets.tolist() == [[-100, -100, 7, 2], [8, 2, -100, -100]]
    assert batch.pad_mask.tolist() == [[True] * 4, [True, True, False, False]]
    assert batch.verb_labels == ("go", "be")
    assert batch.inputs.dtype == batch.targets.dtype == np.int64


def test_labels_are_left_out_where_one_is_missing():
    assert pad([TokenSequence(np.array([1, 2]), 1, "go"), TokenSequence(np.array([1, 2]))], 0).verb_labels is None


@given(st.lists(st.tuples(st.integers(2, 13), st.integers(1, 12)), min_size=1, max_size=7))
def test_padding_counts_each_target_once_and_no_pad(shapes):
    made = [
        TokenSequence(np.arange(100 * i + 1, 100 * i + 1 + length), min(start, length - 1))
        for i, (length, start) in enumerate(shapes)
    ]
    batch = pad(made, 0)
    assert batch.inputs.shape[1] == max(length for length, _ in shapes) - 1
    for row, sequence in enumerate(made):
        real = batch.pad_mask[row]
        assert batch.inputs[row, real].tolist() == sequence.ids[:-1].tolist()
        assert set(batch.inputs[row, ~real]) <= {0}
        counted = batch.targets[row] != IGNORED
        assert batch.targets[row, counted].tolist() == sequence.ids[sequence.loss_start :].tolist()
        # The sequences count upwards by one, so every target must be its input's successor.
        assert (batch.targets[row, counted] == batch.inputs[row, counted] + 1).all()


def test_a_batch_of_nothing_is_refused():
    with pytest.raises(ValueError, match="at least one sequence; got none"):
        pad([], 0)


# PaddedBatches


def test_each_epoch_shows_every_example_once_in_another_order():
    data = sequences(11)
    iterator = PaddedBatches(data, 1, seed=3)
    epochs = [[first_ids(next(iterator))[0] for _ in data] for _ in range(5)]
    everything = sorted(int(sequence.ids[0]) for sequence in data)
    assert all(sorted(epoch) == everything for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) == 5


def test_batches_are_full_across_the_end_of_an_epoch():
    data = sequences(11)
    singles = PaddedBatches(data, 1, seed=7)
    fours = PaddedBatches(data, 4, seed=7)
    for _ in range(13):
        assert first_ids(next(fours)) == [first_ids(next(singles))[0] for _ in range(4)]
    assert fours.epoch == singles.epoch == 52 // 11


def test_a_batch_may_be_larger_than_the_data():
    batch = next(PaddedBatches(sequences(3), 7, seed=1))
    ids = first_ids(batch)
    assert len(ids) == 7
    assert sorted(ids[:3]) == sorted(ids[3:6])


def test_each_row_keeps_its_own_label():
    data = sequences(11)
    label_of = {int(sequence.ids[0]): sequence.label for sequence in data}
    iterator = PaddedBatches(data, 5, seed=2)
    for _ in range(4):
        batch = next(iterator)
        assert batch.verb_labels == tuple(label_of[first] for first in first_ids(batch))


def test_the_same_seed_gives_the_same_batches_and_another_seed_others():
    one, two, other = (PaddedBatches(sequences(), 5, seed=seed) for seed in (17, 17, 18))
    drawn = [(next(one), next(two), next(other)) for _ in range(9)]
    assert all(equal(a, b) for a, b, _ in drawn)
    assert not all(equal(a, c) for a, _, c in drawn)


@pytest.mark.parametrize("before", [0, 1, 2, 3, 8, 29])
def test_resuming_padded_batches_is_exact_through_json(before):
    original = PaddedBatches(sequences(), 4, seed=5)
    for _ in range(before):
        next(original)
    state = json.loads(json.dumps(original.state_dict()))
    resumed = PaddedBatches(sequences(), 4, seed=5)
    next(resumed)
    resumed.load_state_dict(state)
    for _ in range(9):
        assert equal(next(original), next(resumed))


def test_the_global_random_state_is_neither_read_nor_moved():
    np.random.seed(0)  # noqa: NPY002
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    first = next(PaddedBatches(sequences(), 4, seed=5))
    next(WindowBatches(np.arange(101), 7, 3, seed=5))
    assert np.array_equal(before, np.random.get_state()[1])  # noqa: NPY002
    np.random.seed(1)  # noqa: NPY002
    assert equal(first, next(PaddedBatches(sequences(), 4, seed=5)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": 6}, "got seed 6 where this iterator has 5"),
        ({"batch_size": 2}, "got batch_size 2 where this iterator has 4"),
        ({"examples": 12}, "got examples 12 where this iterator has 11"),
        ({"taken": -4}, "taken must be 0 or more; got -4"),
        ({"extra": 1}, r"must have the keys .*; got \['batch_size', 'examples', 'extra', 'seed', 'sha256', 'taken'\]"),
    ],
)
def test_a_position_of_other_data_is_refused_and_changes_nothing(change, message):
    iterator, untouched = (PaddedBatches(sequences(), 4, seed=5) for _ in range(2))
    with pytest.raises(ValueError, match=message):
        iterator.load_state_dict({**iterator.state_dict(), "taken": 8, **change})
    assert equal(next(iterator), next(untouched))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"sequences": []}, ValueError, "sequences must not be empty; got none"),
        ({"batch_size": 0}, ValueError, "batch_size must be 1 or more; got 0"),
        ({"batch_size": 2.0}, TypeError, r"batch_size must be an integer; got 2\.0"),
        ({"batch_size": True}, TypeError, "batch_size must be an integer; got True"),
        ({"seed": -1}, ValueError, "seed must be 0 or more; got -1"),
        ({"pad_id": -1}, ValueError, "pad_id must be 0 or more; got -1"),
    ],
)
def test_padded_batches_refuse_unusable_arguments(arguments, error, message):
    with pytest.raises(error, match=message):
        PaddedBatches(**{"sequences": sequences(), "batch_size": 4, "seed": 5, **arguments})


# WindowBatches


def test_windows_are_stretches_of_the_text_and_targets_come_one_later():
    iterator = WindowBatches(np.arange(1000, 1101), 7, 5, seed=3)
    for _ in range(11):
        batch = next(iterator)
        assert batch.inputs.shape == (5, 7)
        assert (batch.targets == batch.inputs + 1).all()
        assert (np.diff(batch.inputs, axis=1) == 1).all()
        assert batch.pad_mask is None
        assert batch.verb_labels is None


def test_windows_reach_both_ends_of_the_text():
    iterator = WindowBatches(np.arange(13), 5, 11, seed=1)
    drawn = [next(iterator) for _ in range(17)]
    assert {first for batch in drawn for first in first_ids(batch)} == set(range(8))
    assert max(int(batch.targets.max()) for batch in drawn) == 12


def test_a_text_of_exactly_one_window_is_enough():
    assert next(WindowBatches(np.arange(8), 7, 2, seed=1)).inputs.tolist() == [list(range(7))] * 2


def test_a_text_shorter_than_a_window_is_refused_with_both_lengths():
    with pytest.raises(ValueError, match="8 for context_len 7; got 7"):
        WindowBatches(np.arange(7), 7, 2, seed=1)


@pytest.mark.parametrize("before", [0, 1, 23])
def test_resuming_windows_is_exact_through_json(before):
    original = WindowBatches(np.arange(211), 7, 3, seed=5)
    for _ in range(before):
        next(original)
    resumed = WindowBatches(np.arange(211), 7, 3, seed=5)
    resumed.load_state_dict(json.loads(json.dumps(original.state_dict())))
    for _ in range(5):
        assert equal(next(original), next(resumed))


def test_windows_of_another_text_are_not_resumed():
    state = WindowBatches(np.arange(211), 7, 3, seed=5).state_dict()
    with pytest.raises(ValueError, match="got tokens 211 where this iterator has 212"):
        WindowBatches(np.arange(212), 7, 3, seed=5).load_state_dict(state)
    with pytest.raises(ValueError, match="must have the keys"):
        PaddedBatches(sequences(), 3, seed=5).load_state_dict(state)


def test_a_text_of_equal_length_is_another_text():
    ids = np.arange(211)
    state = WindowBatches(ids, 7, 3, seed=5).state_dict()
    WindowBatches(ids.astype(np.int32), 7, 3, seed=5).load_state_dict(state)  # what is stored how does not matter
    ids[200] = 3
    with pytest.raises(ValueError, match=r"must be those of the run; got sha256 \w+ where this iterator has \w+\."):
        WindowBatches(ids, 7, 3, seed=5).load_state_dict(state)


@pytest.mark.parametrize(
    "change", [{"ids": np.array([10, 4, 7])}, {"loss_start": 2}, {"label": "go"}], ids=lambda change: next(iter(change))
)
def test_examples_that_differ_in_one_place_are_other_examples(change):
    parts = {"ids": np.array([10, 4, 5]), "loss_start": 1, "label": "be"}
    one, other = (
        PaddedBatches([*sequences(3), TokenSequence(**each)], 2, seed=5) for each in (parts, {**parts, **change})
    )
    with pytest.raises(ValueError, match="got sha256"):
        other.load_state_dict(one.state_dict())


def test_validation_batches_must_be_the_same():
    batches = evaluation_windows(np.arange(23), 5, 2)
    state = json.loads(json.dumps(SameBatches(batches).state_dict()))
    SameBatches(evaluation_windows(np.arange(23), 5, 2)).load_state_dict(state)
    for others in (evaluation_windows(np.arange(23) % 22, 5, 2), batches[:-1], evaluation_windows(np.arange(23), 5, 1)):
        with pytest.raises(ValueError, match="got validation_sha256"):
            SameBatches(others).load_state_dict(state)


def test_a_text_in_two_dimensions_is_refused():
    with pytest.raises(ValueError, match=r"one long text; got \(2, 3\)"):
        WindowBatches(IDS, 2, 1, seed=0)


# Evaluation


@pytest.mark.parametrize("batch_size", [1, 4, 11, 13])
def test_evaluation_shows_every_sequence_once_in_order(batch_size):
    data = sequences(11)
    batches = evaluation_batches(data, batch_size)
    assert [first for batch in batches for first in first_ids(batch)] == [int(sequence.ids[0]) for sequence in data]
    assert [len(batch.inputs) for batch in batches[:-1]] == [batch_size] * (len(batches) - 1)
    assert sum(batch.counted for batch in batches) == sum(len(s.ids) - s.loss_start for s in data)


@given(st.integers(2, 97), st.integers(1, 13), st.integers(1, 7))
def test_evaluation_windows_predict_every_token_but_the_first_once(length, context_len, batch_size):
    batches = evaluation_windows(np.arange(length), context_len, batch_size)
    assert np.concatenate([batch.targets.ravel() for batch in batches]).tolist() == list(range(1, length))
    assert np.concatenate([batch.inputs.ravel() for batch in batches]).tolist() == list(range(length - 1))
    assert all(batch.inputs.shape[1] <= context_len and len(batch.inputs) <= batch_size for batch in batches)


def test_evaluation_needs_two_tokens():
    with pytest.raises(ValueError, match="two tokens and more; got 1"):
        evaluation_windows(np.arange(1), 5, 2)


def test_the_module_knows_neither_verbs_nor_characters():
    tree = ast.parse(Path(batches_module.__file__).read_text(encoding="utf-8"))
    roots = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            roots |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            roots.add((node.module or "").split(".")[0])
    assert roots - sys.stdlib_module_names == {"numpy"}
