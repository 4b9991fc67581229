"""config.json of GPT-2: what is read, what absent keys mean, and what makes it another model."""

import json

import pytest
from minimodel.transformer import MiniGPTConfig
from minimodel.transformer.gpt2_config import config_json, read_config

SIZES = {"vocab_size": 11, "n_positions": 7, "n_embd": 12, "n_head": 3, "n_layer": 2}
LEAST = {"model_type": "gpt2", **SIZES}


@pytest.fixture
def read(tmp_path):
    def reader(table, **arguments):
        path = tmp_path / "config.json"
        path.write_text(table if isinstance(table, str) else json.dumps(table), encoding="utf-8")
        return read_config(path, **{"dtype": "float32", "dropout": 0.0, **arguments})

    return reader


def test_absent_keys_mean_gpt2(read):
    assert read(LEAST) == MiniGPTConfig(
        d_model=12,
        n_heads=3,
        n_layers=2,
        d_ff=48,
        vocab_size=11,
        context_len=7,
        position="learned",
        attention_bias=True,
        dtype="float32",
    )


def test_values_are_read(read):
    config = read({**LEAST, "n_inner": 20, "layer_norm_epsilon": 1e-3}, dtype="float64", dropout=0.25)
    assert (config.d_ff, config.ln_eps, config.dtype, config.dropout) == (20, 1e-3, "float64", 0.25)
    assert read({**LEAST, "n_inner": None}).d_ff == 48


def test_keys_that_decide_nothing_are_passed_over(read):
    besides = {
        "resid_pdrop": 0.1,
        "n_ctx": 7,
        "eos_token_id": 50256,
        "task_specific_params": {"x": 1},
        "pruned_heads": {},
    }
    assert read({**LEAST, **besides}) == read(LEAST)


def test_the_other_name_of_the_tanh_form_is_taken(read):
    assert read({**LEAST, "activation_function": "gelu_pytorch_tanh"}) == read(LEAST)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("model_type", "gpt_neo"),
        ("model_type", None),
        ("activation_function", "gelu"),
        ("activation_function", "relu"),
        ("activation_function", None),
        ("scale_attn_weights", False),
        ("scale_attn_weights", 1),
        ("scale_attn_by_inverse_layer_idx", True),
        ("reorder_and_upcast_attn", True),
        ("add_cross_attention", True),
        ("tie_word_embeddings", False),
        ("pruned_heads", {"0": [1]}),
    ],
)
def test_other_models_are_refused_by_the_key_that_makes_them_so(read, key, value):
    with pytest.raises(ValueError, match=rf"config\.json: {key} must be .*; got ") as error:
        read({**LEAST, key: value})
    assert json.dumps(value) in str(error.value)
    assert "\n" not in str(error.value)


def test_missing_model_type_is_refused(read):
    with pytest.raises(ValueError, match='model_type must be "gpt2"; the key is missing'):
        read(SIZES)


@pytest.mark.parametrize("key", [*SIZES, "n_inner"])
@pytest.mark.parametrize("value", [0, -1, 1.5, 12.0, "12", True, [12]], ids=str)
def test_sizes_that_are_none_are_refused(read, key, value):
    with pytest.raises(
        ValueError, match=rf"{key} must be an integer of at least 1; got {json.dumps(value)}".replace("[", r"\[")
    ):
        read({**LEAST, key: value})


@pytest.mark.parametrize("key", SIZES)
def test_missing_sizes_are_refused(read, key):
    with pytest.raises(ValueError, match=f"{key} must be an integer of at least 1; the key is missing"):
        read({name: value for name, value in LEAST.items() if name != key})


def test_heads_that_do_not_divide_are_refused(read):
    with pytest.raises(ValueError, match="n_head must divide n_embd; got 5 heads for 12"):
        read({**LEAST, "n_head": 5})


@pytest.mark.parametrize("written", ["0", "-1e-5", "1", "NaN", "Infinity", '"1e-5"', "null", "true"])
def test_impossible_epsilons_are_refused(read, written):
    with pytest.raises(ValueError, match="layer_norm_epsilon must be a number between 0 and 1; got "):
        read(json.dumps(LEAST)[:-1] + f', "layer_norm_epsilon": {written}}}')


@pytest.mark.parametrize("written", ["", "{", '{"n_embd": }', "[" * 100_000, "\N{NO-BREAK SPACE}"])
def test_files_that_are_not_json_are_refused(read, written):
    with pytest.raises(ValueError, match=r"config\.json must be a JSON object; ") as error:
        read(written)
    assert "\n" not in str(error.value)


def test_json_that_is_no_object_is_refused(read):
    with pytest.raises(ValueError, match=r"must be a JSON object; got \[1, 2\]"):
        read("[1, 2]")


def test_bytes_that_are_not_utf8_are_refused(tmp_path):
    (tmp_path / "config.json").write_bytes(b'{"model_type": "\xff"}')
    with pytest.raises(ValueError, match="must be a JSON object; 'utf-8' codec"):
        read_config(tmp_path / "config.json", dtype="float32", dropout=0.0)


def test_long_values_are_cut_in_messages(read):
    with pytest.raises(ValueError, match=r'got "x{50,60}\.\.\.\.') as error:
        read({**LEAST, "activation_function": "x" * 1000})
    assert len(str(error.value)) < 400


@pytest.mark.parametrize("d_ff", [48, 20])
def test_what_is_written_is_read_back(read, d_ff):
    config = MiniGPTConfig(
        d_model=12, n_heads=3, d_ff=d_ff, position="learned", attention_bias=True, ln_eps=1e-7, dropout=0.1
    )
    written = config_json(config)
    assert json.loads(written)["n_inner"] == (None if d_ff == 48 else 20)
    assert read(written, dtype="float64", dropout=0.1) == config
