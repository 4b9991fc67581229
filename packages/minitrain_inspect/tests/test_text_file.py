"""Text files: what is normalised, where the cut falls, and one clear error for each way a file can be unusable."""

import os
import re

import pytest
from minitrain.text_file import read_text, text_corpus
from minitrain.tokenizer import UNK_ID


def write(folder, content):
    path = folder / "text.txt"
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"one\r\ntwo\rthree\n", "one\ntwo\nthree\n"),
        (b"\xef\xbb\xbft\xc3\xba", "tú"),
        (b"end\r\n\x1a", "end\n"),
        (b"in\x1aside", "in\x1aside"),
        (b"\xe2\x80\xa8\x0b\x0c", "\u2028\x0b\x0c"),
        (b"", ""),
    ],
)
def test_line_ends_and_marks_of_other_systems_are_normalised(tmp_path, content, text):
    assert read_text(write(tmp_path, content)) == text


def test_the_last_part_by_position_is_validation(tmp_path):
    text = "".join(chr(97 + i % 23) for i in range(103)) + "xyz!"
    corpus = text_corpus(write(tmp_path, text.encode()), 0.2, 13)
    assert len(corpus.validation) == 21
    assert len(corpus.train) == 86
    assert corpus.tokenizer.decode(corpus.train) == text[:86]
    assert corpus.tokenizer.decode(corpus.validation) == text[86:-4] + "\ufffd" * 4
    assert corpus.unknown == 4
    assert (corpus.validation[-4:] == UNK_ID).all()


def test_the_cut_counts_characters_not_bytes(tmp_path):
    corpus = text_corpus(write(tmp_path, ("é" * 29 + "e" * 30).encode()), 0.5, 7)
    assert (len(corpus.train), len(corpus.validation)) == (29, 30)
    assert corpus.tokenizer.alphabet == "é"


def test_every_training_character_is_known(tmp_path):
    text = "añ\n\t☃𝄞" * 31
    corpus = text_corpus(write(tmp_path, text.encode()), 0.1, 11)
    assert corpus.tokenizer.decode(corpus.train) + corpus.tokenizer.decode(corpus.validation) == text
    assert corpus.unknown == 0


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"a text file must exist; got '.*absent\.txt'"):
        read_text(tmp_path / "absent.txt")


def test_a_folder_is_named_as_one(tmp_path):
    with pytest.raises(ValueError, match=re.escape(f"{str(tmp_path)!r} is a folder")):
        read_text(tmp_path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_pipe_is_refused_instead_of_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="pipe' is no ordinary file"):
        read_text(tmp_path / "pipe")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"abc\xffdef", r"text\.txt' has byte 0xff at offset 3 \(invalid start byte\)"),
        (b"\xef\xbb\xbfab\xe9", r"has byte 0xe9 at offset 5 \(unexpected end of data\)"),
        ("año".encode("latin-1"), r"has byte 0xf1 at offset 1"),
        ("text".encode("utf-16"), r"has byte 0x.. at offset 0"),
    ],
)
def test_other_encodings_are_refused_with_file_byte_and_offset(tmp_path, content, message):
    with pytest.raises(ValueError, match=message) as caught:
        read_text(write(tmp_path, content))
    assert not isinstance(caught.value, UnicodeDecodeError)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("length", "message"),
    [
        (
            74,
            r"more than 7 characters \(model\.context_len\) .*; '.*text\.txt' of 74 characters has 7 for validation\.",
        ),
        (20, "; .* of 20 characters has 2 for validation"),
        (0, "; .* of 0 characters has 0 for training.*smaller model.context_len or another data.val_fraction"),
    ],
)
def test_a_short_file_is_refused_with_both_lengths(tmp_path, length, message):
    with pytest.raises(ValueError, match=message):
        text_corpus(write(tmp_path, b"a" * length), 0.1, 7)


def test_one_window_and_the_character_after_it_are_enough(tmp_path):
    assert len(text_corpus(write(tmp_path, b"a" * 75), 0.1, 7).validation) == 8


@pytest.mark.parametrize("fraction", [0, 1, -0.1, 1.5, float("nan"), float("inf")])
def test_a_fraction_that_leaves_a_part_empty_is_refused(tmp_path, fraction):
    with pytest.raises(ValueError, match=f"above 0 and below 1; got {fraction}"):
        text_corpus(write(tmp_path, b"a" * 101), fraction, 3)
