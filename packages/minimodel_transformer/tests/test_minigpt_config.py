"""The configuration: defaults, validation of every field, a round trip through JSON."""

import dataclasses
import json

import numpy as np
import pytest
from minimodel.transformer import MiniGPTConfig

SIZES = ["d_model", "n_heads", "n_layers", "d_ff", "vocab_size", "context_len"]


def test_defaults():
    assert dataclasses.asdict(MiniGPTConfig()) == {
        "d_model": 64,
        "n_heads": 4,
        "n_layers": 2,
        "d_ff": 256,
        "vocab_size": 64,
        "context_len": 32,
        "position": "rope",
        "attention_bias": False,
        "causal": True,
        "dropout": 0.0,
        "init_gain": 1.0,
        "ln_eps": 1e-5,
        "dtype": "float64",
    }


def test_round_trip_through_json():
    config = MiniGPTConfig(position="learned", dropout=0.1, dtype="float32", vocab_size=71, causal=False)
    assert MiniGPTConfig(**json.loads(json.dumps(dataclasses.asdict(config)))) == config


def test_is_frozen_and_hashable():
    with pytest.raises(dataclasses.FrozenInstanceError):
        MiniGPTConfig().d_model = 3  # type: ignore[misc]
    assert hash(MiniGPTConfig()) == hash(MiniGPTConfig())


def test_numpy_values_become_plain_ones():
    config = MiniGPTConfig(d_model=np.int64(8), dropout=np.float32(0.5), causal=np.bool_(False), dtype=np.float32)  # type: ignore[arg-type]
    assert [type(v) for v in (config.d_model, config.dropout, config.causal)] == [int, float, bool]
    assert config.dtype == "float32"
    json.dumps(dataclasses.asdict(config))


def test_whole_numbers_are_numbers():
    assert MiniGPTConfig(dropout=0, init_gain=2).init_gain == 2.0


@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize("value", [0, -1])
def test_sizes_below_one_are_refused(name, value):
    with pytest.raises(ValueError, match=f"MiniGPTConfig: {name} must be at least 1; got {value}"):
        MiniGPTConfig(**{name: value})


@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize("value", [8.0, True, "8", None])
def test_sizes_of_another_type_are_refused(name, value):
    with pytest.raises(TypeError, match=f"MiniGPTConfig: {name} must be an integer; got {value!r}"):
        MiniGPTConfig(**{name: value})


@pytest.mark.parametrize("name", ["attention_bias", "causal"])
@pytest.mark.parametrize("value", [1, 0, "true", None])
def test_switches_of_another_type_are_refused(name, value):
    with pytest.raises(TypeError, match=f"{name} must be true or false; got {value!r}"):
        MiniGPTConfig(**{name: value})


@pytest.mark.parametrize("name", ["dropout", "init_gain", "ln_eps"])
@pytest.mark.parametrize("value", ["0.1", True, None, [0.1]])
def test_numbers_of_another_type_are_refused(name, value):
    with pytest.raises(TypeError, match=f"{name} must be a number; got"):
        MiniGPTConfig(**{name: value})


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("dropout", 1.0, "at least 0 and below 1"),
        ("dropout", -0.1, "at least 0 and below 1"),
        ("dropout", float("nan"), "at least 0 and below 1"),
        ("init_gain", -1.0, "finite and not negative"),
        ("init_gain", float("inf"), "finite and not negative"),
        ("ln_eps", 0.0, "finite and positive"),
        ("ln_eps", float("nan"), "finite and positive"),
    ],
)
def test_numbers_out_of_range_are_refused(name, value, allowed):
    with pytest.raises(ValueError, match=f"MiniGPTConfig: {name} must be {allowed}; got {value}"):
        MiniGPTConfig(**{name: value})


@pytest.mark.parametrize("value", ["sinusoidal", "", None, 1])
def test_unknown_position_is_refused(value):
    with pytest.raises(ValueError, match=f"position must be 'rope' or 'learned'; got {value!r}"):
        MiniGPTConfig(position=value)


@pytest.mark.parametrize("value", ["float16", "int64", np.complex128])
def test_other_dtypes_are_refused(value):
    with pytest.raises(TypeError, match="MiniGPTConfig: dtype must be float64 or float32; got"):
        MiniGPTConfig(dtype=value)


def test_sizes_that_do_not_fit_together_are_refused():
    with pytest.raises(ValueError, match="must divide d_model; got d_model=65, n_heads=4"):
        MiniGPTConfig(d_model=65)
    with pytest.raises(ValueError, match="must be even; got 12 / 4 = 3"):
        MiniGPTConfig(d_model=12)
    assert MiniGPTConfig(d_model=12, position="learned").d_model == 12


def test_unknown_field_is_refused():
    with pytest.raises(TypeError, match="n_embd"):
        MiniGPTConfig(n_embd=8)  # type: ignore[call-arg]


@pytest.mark.parametrize("dtype", ["float13", 3, [1], object()])
def test_what_is_no_dtype_is_refused(dtype):
    with pytest.raises(TypeError, match="MiniGPTConfig: dtype must be float64 or float32; got "):
        MiniGPTConfig(dtype=dtype)
