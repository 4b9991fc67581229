"""From the configuration to tokeniser, batches and baseline, for verbs and for text files."""

from pathlib import Path

import numpy as np
import pytest
from minitrain.batches import IGNORED, PaddedBatches, WindowBatches
from minitrain.config import RunConfig, load_config
from minitrain.data import NGRAM_ORDER, load_data
from minitrain.ngram import NGram
from minitrain.per_class_loss import IRREGULAR_VERBS, REGULAR_VERBS
from minitrain.tokenizer import BOS_ID, EOS_ID, PAD_ID

CONTEXT = 11


def configure(*sets: str) -> RunConfig:
    return load_config(None, sets)


def write_text(folder: Path, length: int = 211, name: str = "book.txt") -> Path:
    rng = np.random.default_rng(2)
    (folder / name).write_text("".join(rng.choice(list("abcñ é\n"), size=length)), encoding="utf-8")
    return folder / name


def text_config(path: Path | str, *sets: str) -> RunConfig:
    return configure(f"data.source={path}", f"model.context_len={CONTEXT}", *sets)


# --------------------------------------------------------------------------- verbs


def test_verbs_are_padded_lines_with_their_lemma() -> None:
    data = load_data(configure("train.batch_size=5"))
    assert isinstance(data.train, PaddedBatches)
    batch = next(data.train)
    assert batch.inputs.shape[0] == 5
    assert batch.pad_mask is not None
    assert not batch.pad_mask.all()
    assert (batch.inputs[~batch.pad_mask] == PAD_ID).all()
    assert (batch.inputs[:, 0] == BOS_ID).all()
    assert ((batch.targets == EOS_ID).sum(axis=1) == 1).all()
    assert batch.verb_labels is not None
    assert set(batch.verb_labels) <= REGULAR_VERBS | IRREGULAR_VERBS
    # What counts is the part after the slash, which the source decides.
    for ids, targets in zip(batch.inputs, batch.targets, strict=True):
        assert data.tokenizer.decode(ids[: np.flatnonzero(targets != IGNORED)[0] + 1]).endswith(" / ")


def test_verbs_validate_on_every_held_out_line_once() -> None:
    data = load_data(configure())
    assert data.corpus is not None
    lines = [data.tokenizer.decode(row) for batch in data.validation for row in batch.inputs]
    assert sorted(lines) == sorted(example.text for example in data.corpus.validation)
    assert sum(batch.counted for batch in data.validation) == 879
    assert data.tokenizer.vocab_size == 38


def test_the_seed_orders_the_training_lines_and_nothing_else() -> None:
    a, b, again = (load_data(configure(f"train.seed={seed}")) for seed in (3, 4, 3))
    first = [next(data.train).inputs for data in (a, b, again)]
    assert first[0].shape != first[1].shape or not np.array_equal(first[0], first[1])
    assert np.array_equal(first[0], first[2])
    assert a.ngram_loss == b.ngram_loss
    assert all(np.array_equal(x.inputs, y.inputs) for x, y in zip(a.validation, b.validation, strict=True))


def test_verbs_need_a_context_that_holds_their_longest_line() -> None:
    longest = load_data(configure()).corpus.longest  # type: ignore[union-attr]
    load_data(configure(f"model.context_len={longest - 1}"))
    message = (
        rf"^model\.context_len: the longest verb line needs {longest - 1} positions; got {longest - 2}\. Use 64\.$"
    )
    with pytest.raises(ValueError, match=message):
        load_data(configure(f"model.context_len={longest - 2}"))


def test_the_baseline_sees_the_training_lines_and_is_scored_where_the_model_is() -> None:
    data = load_data(configure())
    assert data.corpus is not None
    assert 0.81 < data.ngram_loss < 0.83
    # Counted anew from the lines themselves.
    ids = [np.array([BOS_ID, *data.tokenizer.encode(example.text), EOS_ID]) for example in data.corpus.train]
    baseline = NGram(NGRAM_ORDER, vocab_size=data.tokenizer.vocab_size).fit(ids)
    assert data.ngram_loss == baseline.nats(data.validation)


def test_another_share_is_another_split() -> None:
    few, many = (load_data(configure(f"data.val_fraction={share}")) for share in (0.05, 0.3))
    assert few.corpus is not None
    assert many.corpus is not None
    assert len(few.corpus.validation) < len(many.corpus.validation)
    assert few.ngram_loss != many.ngram_loss


# --------------------------------------------------------------------------- text files


def test_a_text_is_windows_of_its_first_part_and_validates_on_its_last(tmp_path: Path) -> None:
    path = write_text(tmp_path)
    text = path.read_text("utf-8")
    data = load_data(text_config(path, "data.val_fraction=0.2", "train.batch_size=3"))
    assert isinstance(data.train, WindowBatches)
    batch = next(data.train)
    assert batch.inputs.shape == batch.targets.shape == (3, CONTEXT)
    assert (batch.pad_mask, batch.verb_labels, data.corpus) == (None, None, None)
    for ids, targets in zip(batch.inputs, batch.targets, strict=True):
        window = data.tokenizer.decode(ids) + data.tokenizer.decode(targets[-1:])
        assert window in text[:169]
        assert np.array_equal(ids[1:], targets[:-1])
    held_out = text[169:]
    read = "".join(data.tokenizer.decode(row) for batch in data.validation for row in batch.targets)
    assert read == held_out[1:]
    assert sum(batch.counted for batch in data.validation) == len(held_out) - 1


def test_the_baseline_of_a_text_is_counted_on_its_training_part(tmp_path: Path) -> None:
    path = write_text(tmp_path)
    data = load_data(text_config(path, "data.val_fraction=0.2"))
    training = data.tokenizer.encode(path.read_text("utf-8")[:169])
    baseline = NGram(NGRAM_ORDER, vocab_size=data.tokenizer.vocab_size).fit([training])
    assert data.ngram_loss == baseline.nats(data.validation)


def test_a_source_is_found_from_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_text(tmp_path, name="verbs.txt")
    monkeypatch.chdir(tmp_path)
    assert load_data(text_config("verbs.txt", "data.val_fraction=0.2")).corpus is None


@pytest.mark.parametrize(
    ("prepare", "named"),
    [
        (lambda path: None, "data.source: a text file must exist; got '{path}'"),
        (lambda path: path.mkdir(), "'{path}' is a folder"),
        (lambda path: path.write_bytes(b"caf\xe9"), "must be UTF-8; '{path}' has byte 0xe9 at offset 3"),
        (lambda path: path.write_text("short"), "a text must have more than 11 characters (model.context_len)"),
        (lambda path: path.write_text(""), "'{path}' of 0 characters has 0 for training"),
    ],
)
def test_an_unusable_source_is_one_line_that_names_it(tmp_path: Path, prepare, named: str) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "book.txt"
    prepare(path)
    with pytest.raises((ValueError, OSError)) as caught:
        load_data(text_config(path))
    assert named.format(path=path) in str(caught.value)
    assert "\n" not in str(caught.value)
