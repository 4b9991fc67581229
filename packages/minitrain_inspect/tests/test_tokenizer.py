"""`CharTokenizer`: ids, reserved tokens, unknown characters, the strict JSON form."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from minitrain.tokenizer import BOS_ID, EOS_ID, PAD_ID, SPECIAL_TOKENS, UNK_ID, CharTokenizer

# Every code point a UTF-8 file can hold, the awkward ones included.
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=43)


def test_reserved_ids_come_first_in_every_vocabulary():
    assert (PAD_ID, BOS_ID, EOS_ID, UNK_ID) == (0, 1, 2, 3)
    assert SPECIAL_TOKENS == ("<pad>", "<bos>", "<eos>", "<unk>")
    tokenizer = CharTokenizer("zé")
    assert tokenizer.vocab_size == 6
    assert tokenizer.encode("éz").tolist() == [5, 4]


def test_ids_are_int64_also_for_no_text():
    tokenizer = CharTokenizer("ab")
    for text in ("", "abba"):
        ids = tokenizer.encode(text)
        assert ids.dtype == np.int64
        assert ids.shape == (len(text),)


@given(TEXT)
def test_decoding_undoes_encoding(text):
    tokenizer = CharTokenizer.from_text(text)
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert tokenizer.vocab_size == 4 + len(set(text))
    assert ids.min(initial=4) >= 4


def test_from_text_orders_by_code_point():
    assert CharTokenizer.from_text("tú y él: I").alphabet == " :Ilty\xe9\xfa"


def test_text_cannot_spell_a_reserved_token():
    tokenizer = CharTokenizer.from_text("<bos>")
    assert tokenizer.encode("<bos>").min() >= 4
    assert len(tokenizer.encode("<bos>")) == 5


def test_reserved_tokens_are_left_out_of_text_or_shown():
    tokenizer = CharTokenizer("no")
    ids = [BOS_ID, 4, 5, UNK_ID, EOS_ID, PAD_ID]
    assert tokenizer.decode(ids) == "no\ufffd"
    assert tokenizer.decode(ids, show_special=True) == "<bos>no<unk><eos><pad>"


def test_an_unknown_character_is_named_with_its_position():
    with pytest.raises(
        ValueError, match=r"alphabet of 3; got 'ñ' at position 2\. Leave it out; the alphabet is 'abn'\.$"
    ):
        CharTokenizer("abn").encode("abñ")


def test_a_long_alphabet_is_named_in_part():
    letters = "".join(map(chr, range(0x4E00, 0x4E00 + 500)))
    with pytest.raises(ValueError, match=f"alphabet of 500; got 'ñ' .* is '{letters[:120]}\\.\\.\\.'\\.$"):
        CharTokenizer(letters).encode("ñ")


def test_a_decomposed_accent_is_told_apart_from_an_unknown_letter():
    tokenizer = CharTokenizer("tú")
    with pytest.raises(ValueError, match=r"got 'u' at position 1\. Write accented letters as one code point"):
        tokenizer.encode("tu\u0301")


def test_unknown_characters_can_become_unk():
    assert CharTokenizer("abn").encode("bañ!", unknown="unk").tolist() == [5, 4, UNK_ID, UNK_ID]


def test_another_choice_for_unknown_is_refused():
    with pytest.raises(ValueError, match="must be 'error' or 'unk'; got 'skip'"):
        CharTokenizer("a").encode("a", unknown="skip")


@pytest.mark.parametrize("bad", [-1, 6, 10**20])
def test_an_id_outside_the_vocabulary_is_named_with_its_position(bad):
    with pytest.raises(IndexError, match=rf"ids must be in \[0, 6\); got {bad} at position 1"):
        CharTokenizer("ab").decode([4, bad])


def test_an_alphabet_names_each_character_once():
    with pytest.raises(ValueError, match="got 'a' twice"):
        CharTokenizer("aba")


def test_an_alphabet_holds_no_lone_surrogate():
    with pytest.raises(ValueError, match=r"got '\\ud83d'"):
        CharTokenizer("a\ud83d")


@given(TEXT)
def test_json_round_trip_keeps_every_id(text):
    tokenizer = CharTokenizer.from_text(text)
    assert CharTokenizer.from_json(tokenizer.to_json()) == tokenizer


def test_save_and_load(tmp_path):
    tokenizer = CharTokenizer("\n \u2028\"'\\áz")
    tokenizer.save(tmp_path / "tokenizer.json")
    again = CharTokenizer.load(tmp_path / "tokenizer.json")
    assert again == tokenizer
    assert hash(again) == hash(tokenizer)
    assert "á".encode() in (tmp_path / "tokenizer.json").read_bytes()


def test_tokenizers_with_other_ids_differ():
    assert CharTokenizer("ab") != CharTokenizer("ba")
    assert CharTokenizer("ab") != "ab"


def form(**changes):
    return json.dumps({**json.loads(CharTokenizer("ab").to_json()), **changes})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "must be JSON"),
        ("[]", "must be a JSON object; got list"),
        ("{}", r"must have the keys \['alphabet', 'kind', 'schema', 'special_tokens'\]; got \[\]"),
        (form(extra=1), r"got \['alphabet', 'extra', 'kind', 'schema', 'special_tokens'\]"),
        (form(schema=2), "'schema' must be 1; got 2"),
        (form(schema=True), "'schema' must be 1; got True"),
        (form(kind="bpe"), "'kind' must be 'char'; got 'bpe'"),
        (form(special_tokens=["<pad>"]), r"'special_tokens' must be .*; got \['<pad>'\]"),
        (form(alphabet=["a"]), "'alphabet' must be a string; got list"),
        (form(alphabet="aa"), "got 'a' twice"),
    ],
)
def test_a_damaged_json_form_is_refused(text, message):
    with pytest.raises(ValueError, match=message):
        CharTokenizer.from_json(text)


def test_loading_names_the_damaged_file(tmp_path):
    path = tmp_path / "tokenizer.json"
    path.write_text("nonsense")
    with pytest.raises(ValueError, match=r"tokenizer\.json: a tokenizer must be JSON"):
        CharTokenizer.load(path)
