"""`partition_batch_loss` beyond the hand-computed case of `test_inspect.py`: absent classes, NaN, bad input."""

import ast
import math
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from minitrain import per_class_loss
from minitrain.per_class_loss import IRREGULAR_VERBS, REGULAR_VERBS, partition_batch_loss


def test_the_two_classes_are_the_twenty_verbs_and_do_not_overlap():
    assert len(REGULAR_VERBS) == 12
    assert len(IRREGULAR_VERBS) == 8
    assert REGULAR_VERBS.isdisjoint(IRREGULAR_VERBS)
    assert sorted(REGULAR_VERBS)[:6] == ["finish", "like", "listen", "look", "play", "start"]
    assert sorted(REGULAR_VERBS)[6:] == ["study", "talk", "walk", "want", "watch", "work"]
    assert sorted(IRREGULAR_VERBS) == ["be", "come", "do", "eat", "go", "have", "see", "write"]
    assert isinstance(REGULAR_VERBS, frozenset)
    assert isinstance(IRREGULAR_VERBS, frozenset)


def test_class_means_weighted_by_counts_give_the_batch_mean():
    losses = np.array([math.log(2), math.log(4), math.log(2)])
    regular, irregular = partition_batch_loss(losses, ["work", "go", "like"])
    assert regular == pytest.approx(0.693147, abs=1e-6)
    assert irregular == pytest.approx(1.386294, abs=1e-6)
    assert (2 * regular + irregular) / 3 == pytest.approx(0.924196, abs=1e-6) == losses.mean()


def test_an_absent_class_is_nan_without_a_warning():
    regular, irregular = partition_batch_loss(np.array([3.0, 5.0]), ["be", "eat"])
    assert math.isnan(regular)
    assert irregular == 4.0
    assert all(math.isnan(mean) for mean in partition_batch_loss(np.array([]), []))


def test_results_are_plain_floats_also_from_float32_and_lists():
    for losses in (np.array([0.5, 1.5], dtype=np.float32), [0.5, 1.5], (1, 2)):
        means = partition_batch_loss(losses, ("study", "write"))
        assert [type(mean) for mean in means] == [float, float]


def test_float32_losses_are_averaged_in_float64():
    losses = np.array([1e8] + [1.0] * 7, dtype=np.float32)
    regular, _ = partition_batch_loss(losses, ["walk"] * 8)
    assert regular == (1e8 + 7) / 8


def test_a_nan_example_spoils_its_own_class_only():
    regular, irregular = partition_batch_loss([math.nan, 1.0, 7.0], ["walk", "talk", "see"])
    assert math.isnan(regular)
    assert irregular == 7.0


def test_the_input_is_left_alone():
    losses = np.array([2.0, 3.0])
    losses.flags.writeable = False
    partition_batch_loss(losses, ["look", "do"])
    assert losses.tolist() == [2.0, 3.0]


@given(st.lists(st.tuples(st.sampled_from(sorted(REGULAR_VERBS | IRREGULAR_VERBS)), st.floats(-1e6, 1e6)), max_size=29))
def test_means_equal_the_plain_python_reference(examples):
    means = partition_batch_loss([loss for _, loss in examples], [lemma for lemma, _ in examples])
    for mean, lemmas in zip(means, (REGULAR_VERBS, IRREGULAR_VERBS), strict=True):
        chosen = [loss for lemma, loss in examples if lemma in lemmas]
        if chosen:
            assert mean == pytest.approx(math.fsum(chosen) / len(chosen), abs=1e-9, rel=1e-12)
        else:
            assert math.isnan(mean)


def test_different_lengths_are_refused_with_both():
    with pytest.raises(ValueError, match="got 3 losses and 2 labels"):
        partition_batch_loss(np.zeros(3), ["work", "go"])


def test_an_unknown_lemma_is_refused_by_name_and_position():
    with pytest.raises(ValueError, match="got 'worked' at position 1"):
        partition_batch_loss(np.zeros(2), ["work", "worked"])


def test_losses_of_positions_instead_of_examples_are_refused():
    with pytest.raises(ValueError, match=r"got shape \(2, 3\)"):
        partition_batch_loss(np.zeros((2, 3)), ["work", "go"])
    with pytest.raises(ValueError, match=r"got shape \(\)"):
        partition_batch_loss(0.5, ["work"])


def test_the_module_needs_numpy_and_the_standard_library_only():
    tree = ast.parse(Path(per_class_loss.__file__).read_text(encoding="utf-8"))
    roots = {
        name.split(".")[0]
        for node in ast.walk(tree)
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert roots - sys.stdlib_module_names == {"numpy"}
