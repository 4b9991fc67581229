"""Worksheets of prompts: the right stream, the right block, the right names; and the command that shows them."""

import subprocess
import sys

import numpy as np
import pytest
from autograd_core import no_grad
from minimodel.transformer import MiniGPT, MiniGPTConfig
from minimodel.transformer.worksheets import hand_example, worksheet
from minitrain.prompt_worksheet import prompt_worksheet
from minitrain.tokenizer import BOS_ID, CharTokenizer


def model_and_tokenizer(**others):
    tokenizer = CharTokenizer("abn |<é")
    config = MiniGPTConfig(d_model=12, n_heads=3, n_layers=3, d_ff=13, vocab_size=17, context_len=40, **others)
    model = MiniGPT(config, rng=np.random.default_rng(5))
    for parameter in model.parameters():
        parameter.value[...] += np.random.default_rng(6).standard_normal(parameter.shape) * 0.1
    return model, tokenizer


@pytest.mark.parametrize("position", ["rope", "learned"])
@pytest.mark.parametrize("block", [0, 2])
def test_it_begins_with_the_stream_that_enters_and_ends_with_the_one_that_leaves(position, block):
    model, tokenizer = model_and_tokenizer(position=position)
    ids = np.array([BOS_ID, *tokenizer.encode("banana")])
    values = prompt_worksheet(model, tokenizer, ids, block=block).values
    with no_grad():
        stream = model.embedding(ids).value
        if position == "learned":
            stream = stream + model.position_embedding.E.value[: len(ids)]
        for index in range(block + 1):
            before, stream = stream, model.blocks[index](stream).value
    assert np.array_equal(values["x"], before)
    np.testing.assert_allclose(values["y"], stream, rtol=1e-12, atol=1e-12)


def test_positions_are_named_by_their_tokens():
    model, tokenizer = model_and_tokenizer()
    text = str(prompt_worksheet(model, tokenizer, np.array([BOS_ID, *tokenizer.encode("a é|<")]), language="es"))
    assert "| 0 &#60;bos&#62; |" in text
    assert "| 1 a |" in text
    assert "| 2 ␣ |" in text
    assert "| 3 é |" in text
    assert "| 4 &#124; |" in text
    assert "| 5 &#60; |" in text
    assert "Pesos de atención" in text


def test_the_model_stays_as_it_was():
    model, tokenizer = model_and_tokenizer(dropout=0.5)
    before = model.state_dict()
    first, second = (prompt_worksheet(model, tokenizer, tokenizer.encode("ban")).values["y"] for _ in range(2))
    assert np.array_equal(first, second), "no dropout"
    assert model.training
    assert all(np.array_equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())


def test_a_block_that_is_not_there_is_refused():
    model, tokenizer = model_and_tokenizer()
    for block in (3, -1):
        with pytest.raises(
            ValueError, match=f"--block: must be from 0 to 2, since the model has 3 blocks; got {block}"
        ):
            prompt_worksheet(model, tokenizer, tokenizer.encode("ban"), block=block)


def test_a_prompt_that_is_empty_or_does_not_fit_is_refused():
    model, tokenizer = model_and_tokenizer()
    with pytest.raises(ValueError, match="--prompt: must have at least one token"):
        prompt_worksheet(model, tokenizer, tokenizer.encode(""))
    with pytest.raises(ValueError, match=r"^--prompt: must have at most 24 tokens, .*; got 25\. Give a shorter text"):
        prompt_worksheet(model, tokenizer, tokenizer.encode("a" * 25))
    with pytest.raises(ValueError, match=r"at most 24 tokens, .*; got 41\."):
        prompt_worksheet(model, tokenizer, tokenizer.encode("a" * 41))


def minitrain(*arguments, cwd):
    return subprocess.run(
        [sys.executable, "-W", "error", "-m", "minitrain", *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run of one step on the verb corpus."""
    place = tmp_path_factory.mktemp("worksheet")
    sizes = ("train.steps=1", "model.d_model=8", "model.n_heads=2", "model.d_ff=12", "model.n_layers=2")
    sets = [part for size in sizes for part in ("--set", size)]
    done = minitrain("train", "--out", "run", *sets, cwd=place)
    assert done.returncode == 0, done.stderr
    return place / "run"


def test_without_a_run_the_command_shows_the_example_worked_out_by_hand(tmp_path):
    done = minitrain("worksheet", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == str(worksheet(*hand_example()))
    spanish = minitrain("worksheet", "--language", "es", cwd=tmp_path)
    assert spanish.stdout == str(worksheet(*hand_example(), language="es"))
    assert list(tmp_path.iterdir()) == []


def test_the_command_writes_a_page_and_says_where(tmp_path):
    done = minitrain("worksheet", "--html", "block.html", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    page = tmp_path / "block.html"
    assert done.stdout.strip() == page.resolve().as_uri()
    assert page.read_text(encoding="utf-8") == worksheet(*hand_example()).html()


def test_the_command_shows_a_block_of_a_run_on_a_prompt(run, tmp_path):
    done = minitrain("worksheet", str(run), "--prompt", "es:yo", "--block", "1", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "| 6 | 8 | 2 | 4 | 12 | 10⁻⁵ |" in done.stdout
    assert "| 0 &#60;bos&#62; |" in done.stdout
    assert "| 5 o |" in done.stdout
    other = minitrain("worksheet", str(run), "--prompt", "es:yo", cwd=tmp_path)
    assert other.returncode == 0, other.stderr
    assert other.stdout != done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--prompt", "es:yo"], "--prompt and --block belong to a model: name a RUN folder"),
        (["--block", "0"], "--prompt and --block belong to a model: name a RUN folder"),
        (["RUN"], "--prompt: a model's worksheet needs a text to read"),
        (["RUN", "--gpt2", "RUN", "--prompt", "a"], "worksheet takes one model"),
        (["--gpt2", "nowhere", "--prompt", "a"], "nowhere"),
        (["RUN", "--prompt", "es:yo", "--block", "2"], "--block: must be from 0 to 1"),
        (["RUN", "--prompt", "es:" + "a" * 30], "--prompt: must have at most 24 tokens"),
        (["RUN", "--prompt", "ж"], "every character must be in the alphabet"),
        (["nowhere", "--prompt", "es:yo"], "a run folder must hold config.toml"),
        (["--html", "no/such/folder/page.html"], "'no/such/folder/page.html' cannot be read or written: No such file"),
    ],
)
def test_what_the_command_cannot_use_is_one_line(run, tmp_path, arguments, message):
    done = minitrain("worksheet", *[str(run) if part == "RUN" else part for part in arguments], cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert message in done.stderr
    assert list(tmp_path.iterdir()) == []
