"""The configuration: what it accepts, what it fills in, and errors of one line that name key and what is allowed."""

import dataclasses
import math
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from minitrain.config import (
    ConfigError,
    DataConfig,
    InspectConfig,
    ModelConfig,
    RunConfig,
    TrainConfig,
    load_config,
)

DEFAULTS = """
[data]
source = "verbs"
val_fraction = 0.1

[model]
d_model = 64
n_heads = 4
n_layers = 2
d_ff = 256
context_len = 64
position = "rope"
causal = true
dtype = "float32"
init_gain = 1.0
"""

KEYS = {
    "data": {"source", "val_fraction"},
    "model": {
        *("d_model", "n_heads", "n_layers", "d_ff", "context_len"),
        *("position", "attention_bias", "causal", "dropout", "init_gain", "ln_eps", "vocab_size", "dtype", "from_gpt2"),
    },
    "train": {
        *("steps", "batch_size", "accumulate", "lr_max", "lr_min", "warmup_steps", "weight_decay", "grad_clip"),
        *("seed", "log_every", "val_every", "checkpoint_every"),
    },
    "inspect": {"enabled", "every", "spectral_every"},
    "faults": {"dead_units", "dead_units_step", "data_fraction", "nan_step"},
}


def refused(*sets: str, path: Path | None = None) -> str:
    """The message of the error, one line by law."""
    with pytest.raises(ConfigError) as caught:
        load_config(path, sets)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_the_keys_are_the_contracts_and_no_others() -> None:
    written = load_config().to_dict()
    assert {section: set(values) for section, values in written.items()} == KEYS
    for section, values in tomllib.loads(DEFAULTS).items():
        for key, value in values.items():
            assert written[section][key] == value
            assert type(written[section][key]) is type(value)


def test_a_configuration_error_is_a_value_error() -> None:
    assert issubclass(ConfigError, ValueError)


def test_settings_win_over_the_file_and_later_ones_over_earlier_ones(tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text("train.steps = 70\ntrain.seed = 5\n[model]\nd_ff = 96\n", "utf-8")
    config = load_config(file, ["train.steps=80", "model.dtype=float64", "train.steps = 90 "])
    assert (config.train.steps, config.train.seed, config.model.d_ff, config.model.dtype) == (90, 5, 96, "float64")
    assert load_config(str(file)).train.steps == 70


@pytest.mark.parametrize(
    ("setting", "section", "key", "value"),
    [
        ("train.lr_max=1", "train", "lr_max", 1.0),
        ("train.lr_max=3e-3", "train", "lr_max", 0.003),
        ("train.grad_clip=inf", "train", "grad_clip", math.inf),
        ("model.causal=false", "model", "causal", False),
        ("model.position=learned", "model", "position", "learned"),
        ('model.position="learned"', "model", "position", "learned"),
        ("data.source=books/a=b, c.txt", "data", "source", "books/a=b, c.txt"),
        ("data.source=a\nb = 3", "data", "source", "a\nb = 3"),
        ("data.source=1\nb = 3", "data", "source", "1\nb = 3"),
        ('data.source="1984"', "data", "source", "1984"),
        ("train.steps=1_000", "train", "steps", 1000),
    ],
)
def test_a_setting_is_toml_or_else_text(setting: str, section: str, key: str, value: object) -> None:
    got = load_config(None, [setting]).to_dict()[section][key]
    assert got == value
    assert type(got) is type(value)


@pytest.mark.parametrize("steps", [1, 2, 9, 10, 11, 999, 1000, 1001, 3000, 10**6])
def test_any_number_of_steps_is_valid_alone_and_shortens_the_warmup(steps: int) -> None:
    train = load_config(None, [f"train.steps={steps}"]).train
    assert train.warmup_steps == min(100, steps // 10)


@pytest.mark.parametrize(
    ("steps", "log_every", "rhythm"),
    [(4000, 10, 10), (1000, 10, 10), (999, 10, 5), (300, 10, 2), (199, 10, 1), (1, 10, 1), (100, 1, 10), (60, 1, 5)],
)
def test_a_short_run_has_ten_measurements_of_spectral_norms(steps: int, log_every: int, rhythm: int) -> None:
    sets = [f"train.steps={steps}", f"train.log_every={log_every}"]
    assert load_config(None, sets).inspect.spectral_every == rhythm
    assert load_config(None, [*sets, "inspect.spectral_every=7"]).inspect.spectral_every == 7


@pytest.mark.parametrize(("peak", "final"), [("1e-3", 1e-4), ("3e-2", 1e-4), ("3e-6", 3e-7), ("5e-324", 0.0)])
def test_any_peak_rate_is_valid_alone_and_lowers_the_final_one(peak: str, final: float) -> None:
    assert load_config(None, [f"train.lr_max={peak}"]).train.lr_min == pytest.approx(final, rel=1e-15)


def test_what_is_given_is_not_adjusted() -> None:
    train = load_config(None, ["train.steps=20", "train.warmup_steps=20", "train.lr_min=1e-3"]).train
    assert (train.warmup_steps, train.lr_min) == (20, 1e-3)
    assert load_config(None, ["train.warmup_steps=0"]).train.warmup_steps == 0
    message = refused("train.steps=20", "train.warmup_steps=21")
    assert message == "train.warmup_steps must be at most train.steps; got 21 for 20 steps."
    assert refused("train.lr_min=4e-3") == "train.lr_min must be at most train.lr_max; got 0.004 above 0.003."


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("train.steps=0", "train.steps must be an integer of at least 1; got 0."),
        ("train.steps=1.5", "train.steps must be an integer of at least 1; got 1.5."),
        ("train.steps=true", "train.steps must be an integer of at least 1; got true."),
        ("train.steps=", "train.steps must be an integer of at least 1; got ''."),
        ("train.batch_size=many", "train.batch_size must be an integer of at least 1; got 'many'."),
        ("train.accumulate=-1", "train.accumulate must be an integer of at least 1; got -1."),
        ("train.warmup_steps=-1", "train.warmup_steps must be an integer of at least 0; got -1."),
        ("train.lr_max=0", "train.lr_max must be a number above 0, finite; got 0."),
        ("train.lr_max=nan", "train.lr_max must be a number above 0, finite; got nan."),
        ("train.lr_max=false", "train.lr_max must be a number above 0, finite; got false."),
        ("train.lr_min=-1e-9", "train.lr_min must be a number of at least 0, finite; got -1e-09."),
        ("train.weight_decay=inf", "train.weight_decay must be a number of at least 0, finite; got inf."),
        ("train.grad_clip=0", "train.grad_clip must be a number above 0 (inf switches clipping off); got 0."),
        ("train.seed=-1", "train.seed must be an integer from 0 to 9223372036854775807; got -1."),
        ("train.checkpoint_every=0", "train.checkpoint_every must be an integer of at least 1; got 0."),
        ("model.causal=1", "model.causal must be true or false; got 1."),
        ("model.causal=yes", "model.causal must be true or false; got 'yes'."),
        ("model.dropout=1.0", "model.dropout must be a number of at least 0 and below 1; got 1.0."),
        ("model.init_gain=-1", "model.init_gain must be a number of at least 0, finite; got -1."),
        ("model.position=alibi", 'model.position must be "rope" or "learned"; got \'alibi\'.'),
        ("model.dtype=float16", 'model.dtype must be "float32" or "float64"; got \'float16\'.'),
        ("data.val_fraction=0", "data.val_fraction must be a number above 0 and below 1; got 0."),
        ("data.val_fraction=1.0", "data.val_fraction must be a number above 0 and below 1; got 1.0."),
        ("data.source=7", 'data.source must be text: "verbs" or the path of a UTF-8 text file; got 7.'),
        ("data.source=", "data.source must be text: \"verbs\" or the path of a UTF-8 text file; got ''."),
        ("inspect.enabled=on", "inspect.enabled must be true or false; got 'on'."),
        ("inspect.every=0", "inspect.every must be an integer of at least 1; got 0."),
        ("model.n_heads=5", "model.n_heads must divide model.d_model; got 5 heads for a width of 64."),
        (
            "model.n_heads=64",
            'model.position "rope" needs heads of even width; got 1 (model.d_model 64 / model.n_heads 64).',
        ),
    ],
)
def test_a_wrong_type_or_range_names_key_value_and_what_is_allowed(setting: str, message: str) -> None:
    assert refused(setting) == message


def test_learned_positions_allow_heads_of_odd_width() -> None:
    assert load_config(None, ["model.n_heads=64", "model.position=learned"]).model.n_heads == 64


def test_a_huge_value_is_refused_in_a_short_line() -> None:
    message = refused(f"train.lr_max=1{'0' * 400}")
    assert message.startswith("train.lr_max must be a number above 0, finite; got 1000")
    assert len(message) < 160
    assert len(refused(f"model.position={'x' * 5000}")) < 160


@pytest.mark.parametrize(
    ("key", "nearest"),
    [
        ("train.step", "train.steps"),
        ("train.learning_rate", "train."),
        ("seed", "train.seed"),
        ("model.seed", "train.seed"),
        ("model.dmodel", "model.d_model"),
        ("Train.steps", "train.steps"),
        ("optim.weight_decay", "train.weight_decay"),
        ("train.steps.more", "train.steps"),
        ("inspect.spectral", "inspect.spectral_every"),
        ("faults.nan_at", "faults.nan_step"),
        ("", ""),
    ],
)
def test_an_unknown_key_names_the_nearest(key: str, nearest: str) -> None:
    message = refused(f"{key}=1")
    assert message.startswith(f"unknown key {key!r}; the nearest is {nearest}")
    section, _, name = message.removesuffix(".").rpartition(" ")[2].partition(".")
    assert name in KEYS[section]


def test_a_setting_without_a_value_says_how_one_is_written() -> None:
    assert refused("train.steps") == "a setting must be key=value; got 'train.steps'. For example train.steps=500."


def test_a_section_is_no_key(tmp_path: Path) -> None:
    assert refused("train=5") == "train is a section and must hold keys; got 5. For example train.steps."
    file = tmp_path / "run.toml"
    for content in ("model = 3", "[[model]]\nd_ff = 3"):
        file.write_text(content, "utf-8")
        assert refused(path=file).startswith("model is a section and must hold keys; got ")


@pytest.mark.parametrize(
    ("content", "nearest"),
    [("steps = 5", "train.steps"), ("[trian]\nsteps = 5", "train.steps"), ("[train.steps]\nn = 5", None)],
)
def test_a_file_is_held_to_the_same_rules(tmp_path: Path, content: str, nearest: str | None) -> None:
    file = tmp_path / "run.toml"
    file.write_text(content, "utf-8")
    message = refused(path=file)
    if nearest is None:
        assert message == "train.steps must be an integer of at least 1; got {'n': 5}."
    else:
        assert message.startswith("unknown key ")
        assert message.endswith(f"the nearest is {nearest}.")


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "no such file.toml"
    assert refused(path=missing) == f"configuration {str(missing)!r} cannot be read: No such file or directory."
    assert "cannot be read: " in refused(path=tmp_path)
    broken = tmp_path / "broken.toml"
    broken.write_text("steps = = 5", "utf-8")
    assert refused(path=broken).startswith(f"configuration {str(broken)!r} must be TOML: ")
    broken.write_bytes("name = 'ñ'".encode("latin-1"))
    assert refused(path=broken) == f"configuration {str(broken)!r} must be UTF-8; byte 8 is not. Save it as UTF-8."
    broken.write_text("a = " + "[" * 100_000, "utf-8")
    assert refused(path=broken).startswith(f"configuration {str(broken)!r} must be TOML")


def test_a_byte_order_mark_and_an_empty_file_are_no_mistakes(tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text("\ufefftrain.steps = 7\n", "utf-8")
    assert load_config(file).train.steps == 7
    file.write_text("[train]\n[unknown]\n", "utf-8")
    assert refused(path=file).startswith("unknown key 'unknown'; the nearest is ")
    file.write_text("", "utf-8")
    assert load_config(file) == load_config()


def test_text_that_no_file_can_hold_is_refused() -> None:
    assert "data.source must be text" in refused("data.source=a\udcff.txt")
    assert "data.source must be text" in refused("data.source=a\0.txt")


def test_dataclasses_are_held_to_the_same_rules_and_are_frozen() -> None:
    with pytest.raises(ConfigError, match=r"train\.steps must be an integer of at least 1; got 0"):
        TrainConfig(steps=0)
    with pytest.raises(ConfigError, match=r"inspect\.every"):
        InspectConfig(every=True)
    assert DataConfig(val_fraction=0.25).val_fraction == 0.25
    assert type(TrainConfig(lr_max=1).lr_max) is float
    with pytest.raises(dataclasses.FrozenInstanceError):
        ModelConfig().d_model = 3  # type: ignore[misc]
    assert RunConfig() == load_config()
    assert dataclasses.replace(TrainConfig(steps=30), steps=60).warmup_steps == 3  # resolved once, then given


@given(
    st.builds(
        RunConfig,
        data=st.builds(
            DataConfig,
            source=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1),
            val_fraction=st.floats(0.0, 1.0, exclude_min=True, exclude_max=True),
        ),
        model=st.builds(ModelConfig, causal=st.booleans(), position=st.sampled_from(["rope", "learned"])),
        train=st.builds(
            TrainConfig,
            steps=st.integers(1, 10**12),
            lr_max=st.floats(1e-300, 1e300),
            grad_clip=st.floats(min_value=0.0, exclude_min=True),
            seed=st.integers(0, 2**63 - 1),
        ),
        inspect=st.builds(InspectConfig, enabled=st.booleans(), every=st.integers(1, 99)),
    )
)
def test_the_resolved_configuration_loads_back_equal(
    tmp_path_factory: pytest.TempPathFactory, config: RunConfig
) -> None:
    file = tmp_path_factory.getbasetemp() / "config.toml"
    file.write_bytes(config.to_toml().encode("utf-8"))
    assert load_config(file) == config
    assert load_config(file).to_toml() == config.to_toml()
    assert tomllib.loads(config.to_toml()).keys() == KEYS.keys()
