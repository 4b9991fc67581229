"""Tokenisers of GPT-2 folders: ids that others agree on, round trips, files that are refused, the missing extra."""

import hashlib
import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from minitrain.gpt2_tokenizer import BytePairTokenizer, PlainCharacters, folder_tokenizer
from minitrain.tokenizer import CharTokenizer
from minitrain.tokenizer_file import load_tokenizer

DATA = Path(__file__).parent / "data" / "gpt2_bpe"
REFERENCE = json.loads((DATA / "reference.json").read_text(encoding="utf-8"))
SPELLINGS = {"openai": ("encoder.json", "vocab.bpe"), "huggingface": ("vocab.json", "merges.txt")}

# GPT-2's stand-ins for the bytes 0 … 255, by the rule of its paper's code: printable bytes are themselves.
PRINTABLE = [*range(33, 127), *range(161, 173), *range(174, 256)]
STAND_INS = [chr(byte) for byte in PRINTABLE] + [chr(256 + i) for i in range(256 - len(PRINTABLE))]


def small(**more: int) -> dict[str, int]:
    """A vocabulary of all bytes and a few tokens."""
    return {**{symbol: number for number, symbol in enumerate(STAND_INS)}, **more}


@pytest.fixture(scope="module")
def gpt2() -> BytePairTokenizer:
    pytest.importorskip("tokenizers", reason="needs the extra [gpt2]")
    tokenizer = folder_tokenizer(DATA)
    assert isinstance(tokenizer, BytePairTokenizer)
    return tokenizer


def test_the_files_are_those_of_the_reference() -> None:
    for name, checksum in REFERENCE["sha256"].items():
        assert hashlib.sha256((DATA / name).read_bytes()).hexdigest() == checksum


@pytest.mark.parametrize("case", REFERENCE["cases"], ids=lambda case: repr(case["text"])[:20])
def test_ids_equal_the_reference_and_give_the_text_back(gpt2: BytePairTokenizer, case: dict) -> None:  # type: ignore[type-arg]
    ids = gpt2.encode(case["text"])
    assert ids.dtype == np.int64
    assert ids.tolist() == case["ids"]
    assert gpt2.decode(ids) == gpt2.decode(case["ids"]) == case["text"]


def test_the_vocabulary_has_its_sizes(gpt2: BytePairTokenizer) -> None:
    assert gpt2.vocab_size == REFERENCE["vocab"]
    assert gpt2.end_id == 50256


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_both_spellings_of_a_folder_are_read(tmp_path: Path, gpt2: BytePairTokenizer, spelling: str) -> None:
    for source, name in zip(SPELLINGS["openai"], SPELLINGS[spelling], strict=True):
        shutil.copy(DATA / source, tmp_path / name)
    (tmp_path / "meta.json").write_text('{"chars": "abc"}')
    text = "One folder, two spellings."
    assert np.array_equal(folder_tokenizer(tmp_path).encode(text), gpt2.encode(text))


@settings(max_examples=50, deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=40))
def test_any_text_comes_back(gpt2: BytePairTokenizer, text: str) -> None:
    ids = gpt2.encode(text)
    assert gpt2.decode(ids) == text
    assert gpt2.end_id not in ids


def test_the_end_of_a_text_is_hidden_unless_asked_for(gpt2: BytePairTokenizer) -> None:
    assert gpt2.decode([15496, 50256, 11]) == "Hello,"
    assert gpt2.decode(np.array([15496, 50256, 11]), show_special=True) == "Hello<|endoftext|>,"


def test_half_a_character_is_the_replacement_character(gpt2: BytePairTokenizer) -> None:
    assert gpt2.decode(gpt2.encode("é")[:1]) == "é"
    half = gpt2.encode("日")[:1]
    assert gpt2.decode(half) == "\N{REPLACEMENT CHARACTER}"


@pytest.mark.parametrize("bad", [-1, 50257])
def test_ids_out_of_range_are_refused(gpt2: BytePairTokenizer, bad: int) -> None:
    with pytest.raises(IndexError, match=rf"ids must be in \[0, 50257\); got {bad} at position 1"):
        gpt2.decode([5, bad])


def test_a_lone_surrogate_is_refused(gpt2: BytePairTokenizer) -> None:
    with pytest.raises(ValueError, match="surrogates not allowed"):
        gpt2.encode("a\ud800")


def test_ids_need_not_follow_the_merges() -> None:
    pytest.importorskip("tokenizers", reason="needs the extra [gpt2]")
    tokenizer = BytePairTokenizer(small(ab=900, abc=300, bc=400), [("b", "c"), ("a", "b"), ("a", "bc")])
    assert tokenizer.encode("abc").tolist() == [300]
    assert tokenizer.encode("ab").tolist() == [900]
    assert tokenizer.vocab_size == 901
    assert tokenizer.end_id is None


# --------------------------------------------------------------------------- files


def test_a_saved_tokeniser_loads_back(tmp_path: Path, gpt2: BytePairTokenizer) -> None:
    gpt2.save(tmp_path / "tokenizer.json")
    again = load_tokenizer(tmp_path / "tokenizer.json")
    assert (again.vocab_size, again.end_id) == (gpt2.vocab_size, gpt2.end_id)
    for case in REFERENCE["cases"]:
        assert again.encode(case["text"]).tolist() == case["ids"]
        assert again.decode(case["ids"]) == case["text"]


@pytest.mark.parametrize("tokenizer", [PlainCharacters("añ\n b"), CharTokenizer("añ\n b")], ids=["plain", "reserved"])
def test_tokenisers_of_characters_load_back_as_what_they_are(
    tmp_path: Path, tokenizer: PlainCharacters | CharTokenizer
) -> None:
    tokenizer.save(tmp_path / "tokenizer.json")
    again = load_tokenizer(tmp_path / "tokenizer.json")
    assert type(again) is type(tokenizer)
    assert (again.vocab_size, again.end_id) == (tokenizer.vocab_size, tokenizer.end_id)
    assert again.encode("ña b\n").tolist() == tokenizer.encode("ña b\n").tolist()


def test_plain_characters_are_their_places() -> None:
    tokenizer = PlainCharacters("añ\n b")
    assert (tokenizer.vocab_size, tokenizer.end_id) == (5, None)
    assert tokenizer.encode("b ñ").tolist() == [4, 3, 1]
    assert tokenizer.encode("").tolist() == []
    assert tokenizer.decode(np.array([4, 3, 1])) == tokenizer.decode([4, 3, 1], show_special=True) == "b ñ"
    with pytest.raises(IndexError, match=r"ids must be in \[0, 5\); got 5 at position 0"):
        tokenizer.decode([5])
    with pytest.raises(ValueError, match="alphabet of 5; got 'c' at position 1"):
        tokenizer.encode("bc")
    with pytest.raises(ValueError, match="each character once; got 'a' twice"):
        PlainCharacters("aba")


def test_characters_of_a_folder_are_read(tmp_path: Path) -> None:
    (tmp_path / "meta.json").write_text('{"chars": "abc", "steps": 3}')
    assert folder_tokenizer(str(tmp_path)).encode("cab").tolist() == [2, 0, 1]


@pytest.mark.parametrize("present", [[], ["vocab.json"], ["merges.txt", "encoder.json"], ["tokenizer.json"]])
def test_a_folder_without_tokeniser_is_refused(tmp_path: Path, present: list[str]) -> None:
    for name in present:
        (tmp_path / name).write_text("{}")
    with pytest.raises(ValueError, match=r"must hold its tokeniser, vocab\.json and merges\.txt, .* has none"):
        folder_tokenizer(tmp_path)


@pytest.mark.parametrize("content", ["", "{", "[1]", '{"chars": ""}', '{"chars": 3}', "{}", b"\xff"])
def test_a_meta_file_without_characters_is_refused(tmp_path: Path, content: str | bytes) -> None:
    (tmp_path / "meta.json").write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ValueError, match=r"meta\.json must (be a JSON object|have the model's characters)"):
        folder_tokenizer(tmp_path)


@pytest.mark.parametrize(
    ("vocabulary", "merges", "message"),
    [
        ("{", "", r"vocab\.json must be a JSON object"),
        ("[]", "", r"vocab\.json must be a JSON object; got list"),
        ('{"a": "b"}', "", "ids must be integers of 0 and more; 'a' has 'b'"),
        ('{"a": true}', "", "ids must be integers of 0 and more; 'a' has True"),
        ('{"a": -1}', "", "ids must be integers of 0 and more; 'a' has -1"),
        ('{"a": 0, "b": 0}', "", "ids must be distinct"),
        ("{}", "", "a token for each of 256 bytes; 256 are missing"),
        ('{"a": 0}', "", "a token for each of 256 bytes; 255 are missing"),
        (small(), "#version: 0.2\na b c\n", r"merges\.txt must have two tokens a line; line 2 is 'a b c'"),
        (small(), "ab\n", r"merges\.txt must have two tokens a line; line 1 is 'ab'"),
        (small(), "a b\n", "merges must be of tokens and make tokens; .*ab"),
        (small(), b"\xff", r"merges\.txt must be UTF-8"),
    ],
    ids=str,
)
def test_damaged_files_are_one_line_that_names_what_is_wrong(
    tmp_path: Path, vocabulary: str | dict[str, int], merges: str | bytes, message: str
) -> None:
    pytest.importorskip("tokenizers", reason="needs the extra [gpt2]")
    (tmp_path / "vocab.json").write_text(vocabulary if isinstance(vocabulary, str) else json.dumps(vocabulary))
    (tmp_path / "merges.txt").write_bytes(merges if isinstance(merges, bytes) else merges.encode())
    with pytest.raises(ValueError, match=message) as caught:
        folder_tokenizer(tmp_path)
    assert "\n" not in str(caught.value)


def test_merges_that_end_too_soon_are_refused(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers", reason="needs the extra [gpt2]")
    shutil.copy(DATA / "encoder.json", tmp_path / "encoder.json")
    whole = (DATA / "vocab.bpe").read_text("utf-8").split("\n")
    (tmp_path / "vocab.bpe").write_text("\n".join(whole[:500]), "utf-8")
    with pytest.raises(ValueError, match=r"merges must make every token of several bytes; 49\d\d\d of .* made by none"):
        folder_tokenizer(tmp_path)


def test_merges_may_have_dos_line_ends_and_no_version(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers", reason="needs the extra [gpt2]")
    (tmp_path / "vocab.json").write_text(json.dumps(small(ab=256)))
    (tmp_path / "merges.txt").write_bytes(b"a b\r\n\r\n")
    assert folder_tokenizer(tmp_path).encode("ab").tolist() == [256]


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ({"kind": "gpt2-byte-pairs", "schema": 2}, "key 'schema' must be 1; got 2"),
        ({"kind": "gpt2-byte-pairs", "schema": 1, "vocabulary": []}, "must have 'vocabulary' and 'merges'"),
        ({"kind": "gpt2-byte-pairs", "schema": 1, "vocabulary": {}, "merges": ["a"]}, "each of 'merges' must be two"),
        ({"kind": "gpt2-byte-pairs", "schema": 1, "vocabulary": {}, "merges": [3]}, "each of 'merges' must be two"),
        ({"kind": "characters", "schema": 1}, "must have 'characters', a text"),
        ({"kind": "words", "schema": 1}, "a tokenizer must have the keys"),
        ([], "a tokenizer must be a JSON object"),
    ],
    ids=str,
)
def test_damaged_tokenizer_files_are_refused_by_name(tmp_path: Path, form: object, message: str) -> None:
    (tmp_path / "tokenizer.json").write_text(json.dumps(form))
    with pytest.raises(ValueError, match=rf"tokenizer\.json: .*{message}"):
        load_tokenizer(tmp_path / "tokenizer.json")
    (tmp_path / "tokenizer.json").write_text("{")
    with pytest.raises(ValueError, match=r"tokenizer\.json: a tokenizer must be JSON"):
        load_tokenizer(tmp_path / "tokenizer.json")


def test_without_the_extra_one_line_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(ValueError, match=r"need the extra \[gpt2\], which is not installed\. .*") as caught:
        folder_tokenizer(DATA)
    assert str(caught.value).endswith("pip install './packages/minitrain_inspect[gpt2]'.")
    assert "\n" not in str(caught.value)
