"""`sample --gpt2` and `train --from-gpt2`: what they print and leave, what they refuse in one line, resuming."""

import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from minimodel.transformer import MiniGPT, MiniGPTConfig, load_gpt2, save_gpt2
from minitrain import cli
from minitrain.config import ConfigError, load_config
from minitrain.data import load_data
from minitrain.gpt2_tokenizer import BytePairTokenizer, PlainCharacters, folder_tokenizer
from minitrain.run import execute, load_run, prepare
from minitrain.tokenizer_file import load_tokenizer
from tiny_run import assert_equal_runs, results_of, rows_of, tree

BYTE_PAIRS = Path(__file__).parent / "data" / "gpt2_bpe"
CHARACTERS = "abcdé ñ.\n"
CONTEXT = 13

SETS = (
    "train.steps=5",
    "train.batch_size=3",
    "train.log_every=1",
    "train.val_every=2",
    "train.checkpoint_every=2",
)

needs_the_extra = pytest.mark.usefixtures("extra")


@pytest.fixture
def extra() -> None:
    pytest.importorskip("tokenizers", reason="needs the extra [gpt2]")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder: what is written without being asked for would show there."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def gpt2_of(folder: Path, vocab_size: int, **changes: Any) -> MiniGPT:
    """A small random GPT-2, saved in `folder`."""
    sizes = {"d_model": 8, "n_heads": 2, "n_layers": 1, "d_ff": 11, "context_len": CONTEXT, "ln_eps": 1e-4}
    settings = {**sizes, "position": "learned", "attention_bias": True, "init_gain": 3.0, "dtype": "float32", **changes}
    model = MiniGPT(MiniGPTConfig(vocab_size=vocab_size, **settings), rng=np.random.default_rng(5))
    save_gpt2(model, folder)
    return model


@pytest.fixture
def characters(here: Path) -> Path:
    """A folder with a character model."""
    gpt2_of(here / "gpt2", len(CHARACTERS))
    (here / "gpt2" / "meta.json").write_text(json.dumps({"chars": CHARACTERS}), encoding="utf-8")
    return here / "gpt2"


@pytest.fixture
def byte_pairs(here: Path) -> Path:
    """A folder with GPT-2's own vocabulary, and a model of width 4."""
    gpt2_of(here / "gpt2", 50257, d_model=4)
    for name in ("encoder.json", "vocab.bpe"):
        shutil.copy(BYTE_PAIRS / name, here / "gpt2" / name)
    return here / "gpt2"


@pytest.fixture
def book(here: Path) -> Path:
    drawn = np.random.default_rng(6).choice(list(CHARACTERS), size=400)
    (here / "book.txt").write_text("".join(drawn), encoding="utf-8")
    return here / "book.txt"


def minitrain(*arguments: str | Path) -> Result:
    result = CliRunner().invoke(cli.main, [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def refusal(*arguments: str | Path, below: Path) -> str:
    """The one line with which the command refuses; nothing below `below` may have changed."""
    before = tree(below)
    result = minitrain(*arguments)
    assert tree(below) == before
    assert (result.exit_code, result.stdout) == (2, "")
    (line,) = result.stderr.splitlines()
    return line.removeprefix("minitrain: ")


def settings(*sets: str) -> list[str]:
    return [part for each in (*SETS, *sets) for part in ("--set", each)]


# --------------------------------------------------------------------------- sampling


def test_a_character_model_continues_a_prompt(characters: Path) -> None:
    result = minitrain("sample", "--gpt2", characters, "--prompt", "ñ a")
    model, tokenizer = load_gpt2(characters), PlainCharacters(CHARACTERS)
    ids = model.generate(tokenizer.encode("ñ a"), CONTEXT - 3, temperature=0)
    assert len(ids) == CONTEXT
    assert (result.exit_code, result.stdout) == (0, tokenizer.decode(ids) + "\n")


def test_sampling_options_are_used(characters: Path) -> None:
    model, tokenizer = load_gpt2(characters), PlainCharacters(CHARACTERS)
    options = ("--tokens", "40", "--temperature", "0.9", "--top-k", "5", "--top-p", "0.95", "--seed", "3")
    result = minitrain("sample", "--gpt2", characters, "--prompt", "a", *options)
    drawn = model.generate(
        tokenizer.encode("a"), 40, temperature=0.9, top_k=5, top_p=0.95, rng=np.random.default_rng(3)
    )
    assert result.stdout == tokenizer.decode(drawn) + "\n"


@needs_the_extra
def test_byte_pairs_continue_a_prompt(byte_pairs: Path) -> None:
    prompt = "Hello, wörld"
    result = minitrain("sample", "--gpt2", byte_pairs, "--prompt", prompt, "--tokens", "4")
    model, tokenizer = load_gpt2(byte_pairs), folder_tokenizer(byte_pairs)
    ids = model.generate(tokenizer.encode(prompt), 4, temperature=0)
    assert result.exit_code == 0
    assert result.stdout == prompt + tokenizer.decode(ids[-4:], show_special=True) + "\n"


@needs_the_extra
def test_what_is_printed_ends_where_the_text_does(byte_pairs: Path) -> None:
    model = load_gpt2(byte_pairs)
    # The final stream is one constant vector, whose product with the last row is the largest.
    model.ln_final.gamma.value[...] = 0.0
    model.ln_final.beta.value[...] = 1.0
    model.embedding.E.value[50256] = 1.0
    save_gpt2(model, byte_pairs)
    result = minitrain("sample", "--gpt2", byte_pairs, "--prompt", "<|endoftext|> is text in a prompt", "--tokens", "1")
    assert result.stdout == "<|endoftext|> is text in a prompt\n"


@needs_the_extra
def test_ids_that_are_no_token_are_shown(byte_pairs: Path) -> None:
    model = gpt2_of(byte_pairs, 50264, d_model=4)  # padded, as such vocabularies often are
    model.ln_final.gamma.value[...] = 0.0
    model.ln_final.beta.value[...] = 1.0
    model.embedding.E.value[-1] = 1.0
    save_gpt2(model, byte_pairs)
    assert minitrain("sample", "--gpt2", byte_pairs, "--prompt", "ab", "--tokens", "2").stdout == "ab<unk><unk>\n"


def test_characters_of_another_model_are_refused(characters: Path, here: Path) -> None:
    (characters / "meta.json").write_text(json.dumps({"chars": "abc"}))
    message = refusal("sample", "--gpt2", "gpt2", "--prompt", "ab", below=here)
    assert "must be as many as its model's ids; 'gpt2' has 3 for 9" in message


@pytest.mark.parametrize("arguments", [[], ["run", "--gpt2", "gpt2"]])
def test_a_run_or_a_folder_is_sampled_not_both_and_not_none(characters: Path, here: Path, arguments: list[str]) -> None:
    assert refusal("sample", *arguments, "--prompt", "a", below=here) == (
        "sample needs a model: name a RUN folder or give --gpt2 FOLDER, one of the two."
    )


def test_unusable_folders_are_refused_in_one_line(characters: Path, here: Path) -> None:
    def refused(prompt: str = "a") -> str:
        return refusal("sample", "--gpt2", "gpt2", "--prompt", prompt, below=here)

    assert "alphabet of 9; got 'x' at position 1" in refused("ax")
    assert "--prompt: must have at least one and, without --tokens, at most 13 tokens; got 0." in refused("")
    assert "at most 13 tokens; got 14." in refused("a" * 14)
    (characters / "meta.json").write_text(json.dumps({"chars": CHARACTERS + "x"}))
    assert "no more ids than its model; 'gpt2' has 10 for 9. Put the files of one model together." in refused()
    (characters / "meta.json").unlink()
    assert "a GPT-2 folder must hold its tokeniser" in refused()
    whole = (characters / "model.safetensors").read_bytes()
    (characters / "model.safetensors").write_bytes(whole[:-1])
    assert "model.safetensors must be a whole safetensors file" in refused()
    (characters / "config.json").unlink()
    assert "there is no config.json in gpt2" in refused()


def test_without_the_extra_one_line_names_it(byte_pairs: Path, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    assert refusal("sample", "--gpt2", byte_pairs, "--prompt", "a", below=here) == (
        "GPT-2's byte pairs need the extra [gpt2], which is not installed. "
        "Install it from the checkout: pip install './packages/minitrain_inspect[gpt2]'."
    )


# --------------------------------------------------------------------------- fine-tuning


def test_a_run_starts_from_the_folder(characters: Path, book: Path, here: Path) -> None:
    start = load_gpt2(characters)
    prepared = prepare(load_config(None, (*SETS, "data.source=book.txt"), from_gpt2="gpt2"))
    for (name, parameter), other in zip(prepared.model.named_parameters(), start.parameters(), strict=True):
        assert np.array_equal(parameter.value, other.value), name
    batch = next(prepared.data.train)
    assert CHARACTERS[batch.inputs[0, 0]] in book.read_text("utf-8")
    assert prepared.data.tokenizer.vocab_size == 9


@pytest.mark.parametrize("way", ["option", "setting", "file"])
def test_fine_tuning_leaves_a_run_that_needs_the_folder_no_more(
    characters: Path, book: Path, here: Path, way: str
) -> None:
    start = load_gpt2(characters)
    (here / "tuned.toml").write_text('[model]\nfrom_gpt2 = "gpt2"\n')
    chosen = {
        "option": ["--from-gpt2", "gpt2"],
        "setting": ["--set", "model.from_gpt2=gpt2"],
        "file": ["--config", "tuned.toml"],
    }[way]
    result = minitrain("train", "--out", "run", *chosen, *settings("data.source=book.txt"))
    assert (result.exit_code, result.stderr.count("\n")) == (0, 4)
    assert results_of(here / "run")["finished"] is True
    assert [row["step"] for row in rows_of(here / "run")] == [1, 2, 3, 4, 5]

    shutil.rmtree(characters)
    config, model, tokenizer = load_run(here / "run")
    assert (config.model.from_gpt2, config.model.vocab_size, config.model.context_len) == ("gpt2", 9, CONTEXT)
    assert isinstance(tokenizer, PlainCharacters)
    assert model.config == replace(start.config, dropout=config.model.dropout)
    moved = [
        float(np.abs(a.value - b.value).max()) for a, b in zip(model.parameters(), start.parameters(), strict=True)
    ]
    assert all(0 < distance < 0.1 for distance in moved)
    assert minitrain("sample", "run", "--prompt", "ñ a").stdout.startswith("ñ a")


@needs_the_extra
def test_byte_pairs_are_fine_tuned(byte_pairs: Path, here: Path) -> None:
    (here / "book.txt").write_text("The quick brown fox jumps over the lazy dog.\n" * 40)
    result = minitrain("train", "--out", "run", "--from-gpt2", "gpt2", *settings("data.source=book.txt"))
    assert result.exit_code == 0
    shutil.rmtree(byte_pairs)
    _, model, tokenizer = load_run(here / "run")
    assert isinstance(tokenizer, BytePairTokenizer)
    assert model.config.vocab_size == tokenizer.vocab_size == 50257
    # Ten words, a full stop and a line break: counted in tokens, not in characters.
    data = prepare_tokens(here / "run", here / "book.txt")
    assert len(data) == 40 * 11
    assert minitrain("sample", "run", "--prompt", "The quick", "--tokens", "2").stdout.startswith("The quick")


def prepare_tokens(run: Path, source: Path) -> list[int]:
    """Ids of a text by the tokeniser in a run."""
    ids: list[int] = load_tokenizer(run / "checkpoint" / "tokenizer.json").encode(source.read_text("utf-8")).tolist()
    return ids


@pytest.mark.parametrize(("vocab_size", "rows"), [(100, 64), (2**26 // CONTEXT // 5, 5), (2**40, 1)])
def test_validation_holds_a_bounded_number_of_logits(book: Path, vocab_size: int, rows: int) -> None:
    class Wide(PlainCharacters):
        """Characters, and many ids that no text has."""

        def __init__(self) -> None:
            super().__init__(CHARACTERS)
            self.vocab_size = vocab_size

    book.write_text("abcd" * 5000)
    config = load_config(None, ("data.source=book.txt", f"model.context_len={CONTEXT}"))
    validation = load_data(config, Wide()).validation
    assert [len(batch.inputs) for batch in validation[:-1]][:-1] == [rows] * (len(validation) - 2)


def test_a_broken_off_run_goes_on_bit_identically(characters: Path, book: Path, here: Path) -> None:
    config = load_config(None, (*SETS, "data.source=book.txt", "model.dropout=0.2"), from_gpt2="gpt2")
    execute(prepare(config), here / "whole", threads=1)

    def stop(step: int, loss: float) -> None:
        if step == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        execute(prepare(config), here / "broken", threads=1, on_step=stop)
    assert not (here / "broken" / "results.json").exists() or not results_of(here / "broken")["finished"]
    assert minitrain("train", "--resume", "broken").exit_code == 0
    assert_equal_runs(here / "whole", here / "broken")


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("model.d_model=16", "model.d_model must be 8, as the GPT-2 folder 'gpt2' has it; got 16. Leave it out."),
        ("model.n_heads=4", "model.n_heads must be 2, "),
        ("model.n_layers=2", "model.n_layers must be 1, "),
        ("model.d_ff=32", "model.d_ff must be 11, "),
        ("model.context_len=12", "model.context_len must be 13, "),
        ("model.position=rope", "model.position must be 'learned', as the GPT-2 folder 'gpt2' has it; got 'rope'."),
        ("model.attention_bias=false", "model.attention_bias must be True, "),
        ("model.causal=false", "model.causal must be True, "),
        ("model.ln_eps=1e-5", "model.ln_eps must be 0.0001, "),
        ("model.vocab_size=64", "model.vocab_size must be 9, "),
        ("model.init_gain=2.0", "model.init_gain must be 1.0, "),
    ],
)
def test_sizes_that_contradict_the_folder_are_refused(
    characters: Path, book: Path, here: Path, setting: str, message: str
) -> None:
    arguments = ("train", "--out", "run", "--from-gpt2", "gpt2", *settings("data.source=book.txt", setting))
    assert refusal(*arguments, below=here).startswith(message)


def test_sizes_that_agree_with_the_folder_may_be_given(characters: Path, book: Path) -> None:
    prepare(load_config(None, ("data.source=book.txt", "model.d_model=8", "model.ln_eps=1e-4"), from_gpt2="gpt2"))


def test_what_cannot_be_fine_tuned_is_refused(characters: Path, book: Path, here: Path) -> None:
    def refused(*arguments: str) -> str:
        return refusal("train", "--out", "run", *arguments, below=here)

    assert refused("--from-gpt2", "gpt2").startswith(
        'data.source must be a text file with model.from_gpt2; got "verbs", whose lines need tokens of their own.'
    )
    source = ("--set", "data.source=book.txt")
    assert refused("--from-gpt2", "nowhere", *source).startswith(
        "model.from_gpt2 must be a folder with config.json; 'nowhere': No such file or directory."
    )
    assert refused("--set", "model.from_gpt2=3", *source) == (
        "model.from_gpt2 must be text: the path of a GPT-2 folder, or empty; got 3."
    )
    book.write_text("abcx" * 100)
    assert "alphabet of 9; got 'x' at position 3" in refused("--from-gpt2", "gpt2", *source)
    book.write_text("abc" * 10)
    assert "must have more than 13 tokens (model.context_len) for each of training and validation; " in refused(
        "--from-gpt2", "gpt2", *source
    )
    (characters / "config.json").write_text('{"model_type": "bert"}')
    assert refused("--from-gpt2", "gpt2", *source).startswith(
        'model.from_gpt2: gpt2/config.json: model_type must be "gpt2"; got "bert".'
    )
    assert refusal("train", "--resume", "run", "--from-gpt2", "gpt2", below=here).endswith(
        "leave out --config, --set, --out and --from-gpt2."
    )


# --------------------------------------------------------------------------- the keys it needs, in runs of our own


def test_the_switches_of_gpt2_may_be_set_without_one(book: Path) -> None:
    plain = ("data.source=book.txt", f"model.context_len={CONTEXT}")
    sets = (*plain, "model.attention_bias=true", "model.ln_eps=1e-3", "model.vocab_size=70")
    model = prepare(load_config(None, sets)).model
    assert (model.config.attention_bias, model.config.ln_eps, model.config.vocab_size) == (True, 1e-3, 70)
    assert prepare(load_config(None, plain)).model.config.vocab_size == 64


def test_fewer_ids_than_the_data_have_are_refused(book: Path, here: Path) -> None:
    sets = settings("data.source=book.txt", f"model.context_len={CONTEXT}", "model.vocab_size=12")
    assert refusal("train", "--out", "run", *sets, below=here) == (
        "model.vocab_size must be at least the 13 ids of the tokeniser; got 12. Leave it out."
    )


def test_no_folder_is_read_where_all_sizes_are_given(characters: Path, here: Path) -> None:
    resolved = load_config(None, (), from_gpt2="gpt2")
    (here / "resolved.toml").write_text(resolved.to_toml())
    shutil.rmtree(characters)
    assert load_config(here / "resolved.toml") == resolved
    with pytest.raises(ConfigError, match=r"must be a folder with config\.json"):
        load_config(None, (), from_gpt2="gpt2")
