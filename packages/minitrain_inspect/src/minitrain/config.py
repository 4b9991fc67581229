"""The configuration of a run: five sections of checked values, read from TOML and from `key=value` settings.

Read the five dataclasses first: they are the reference of all keys, with their defaults. `load_config` fills them.
Whatever is wrong is a `ConfigError` of one line that names the key and what is allowed.
"""

from __future__ import annotations

import difflib
import math
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

import tomli_w
from minimodel.transformer.gpt2_config import read_config

from .config_fields import ConfigError, check_fields, choice, flag, integer, number, shown, text

__all__ = [
    "ConfigError",
    "DataConfig",
    "FaultsConfig",
    "GPT2_KEYS",
    "InspectConfig",
    "ModelConfig",
    "RunConfig",
    "TrainConfig",
    "load_config",
]

GPT2_KEYS = (
    *("d_model", "n_heads", "n_layers", "d_ff", "context_len"),
    *("position", "attention_bias", "causal", "ln_eps", "vocab_size"),
)
"""Keys of `model` that a GPT-2 folder decides, by the names they have in MiniGPTConfig too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataConfig:
    """What is learned from.

    Attributes
    ----------
    source : str
        "verbs", the built-in corpus, or the path of a UTF-8 text file, relative to the working directory.
    val_fraction : float
        Share of the data held out for validation, between 0 and 1.
    """

    source: str = text("verbs", 'text: "verbs" or the path of a UTF-8 text file')
    val_fraction: float = number(0.1, "above 0 and below 1", lambda x: 0.0 < x < 1.0)

    def __post_init__(self) -> None:
        check_fields(self, "data")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """The model's sizes and switches; the vocabulary comes from the data.

    Attributes
    ----------
    d_model, n_heads, n_layers, d_ff : int
        Width of the residual stream, heads (which divide it), blocks, hidden width of the feed-forward networks.
    context_len : int
        Longest sequence, in tokens. The longest verb line has 51, of which the last is only predicted.
    position : "rope" or "learned"
        Rotary positions (the width of a head must be even) or a learned table.
    attention_bias : bool
        Biases on the projections of attention.
    causal : bool
        Whether a position sees only itself and earlier ones.
    dropout : float
        Fraction dropped while training.
    init_gain : float
        Multiplies every drawn weight.
    ln_eps : float
        Of LayerNorm.
    vocab_size : int
        Ids of the model. 0: those of the data, at least 64.
    dtype : "float32" or "float64"
    from_gpt2 : str
        Folder of a GPT-2 whose weights and tokeniser the run starts from, relative to the working directory; empty for
        none. Sizes and switches that are not given are then the folder's.
    """

    d_model: int = integer(64, least=1)
    n_heads: int = integer(4, least=1)
    n_layers: int = integer(2, least=1)
    d_ff: int = integer(256, least=1)
    context_len: int = integer(64, least=1)
    position: Literal["rope", "learned"] = choice("rope", "rope", "learned")
    attention_bias: bool = flag(False)
    causal: bool = flag(True)
    dropout: float = number(0.1, "of at least 0 and below 1", lambda x: 0.0 <= x < 1.0)
    init_gain: float = number(1.0, "of at least 0, finite", lambda x: 0.0 <= x < math.inf)
    ln_eps: float = number(1e-5, "above 0 and below 1", lambda x: 0.0 < x < 1.0)
    vocab_size: int = integer(0, least=0)
    dtype: Literal["float32", "float64"] = choice("float32", "float32", "float64")
    from_gpt2: str = text("", "text: the path of a GPT-2 folder, or empty")

    def __post_init__(self) -> None:
        check_fields(self, "model")
        if self.d_model % self.n_heads:
            raise ConfigError(
                f"model.n_heads must divide model.d_model; got {self.n_heads} heads for a width of {self.d_model}."
            )
        if self.position == "rope" and self.d_model // self.n_heads % 2:
            raise ConfigError(
                f'model.position "rope" needs heads of even width; got {self.d_model // self.n_heads} '
                f"(model.d_model {self.d_model} / model.n_heads {self.n_heads})."
            )


def _final_rate(train: TrainConfig) -> float:
    return min(1e-4, train.lr_max / 10.0)


def _short_warmup(train: TrainConfig) -> int:
    return min(100, train.steps // 10)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainConfig:
    """How it is trained.

    Attributes
    ----------
    steps : int
        Optimiser steps.
    batch_size, accumulate : int
        Examples a batch, batches a step.
    lr_max, lr_min : float
        Peak and final learning rate. `lr_min` left out is 1e-4, or a tenth of `lr_max` where that is less.
    warmup_steps : int
        Steps of linear warm-up. Left out: 100, or a tenth of `steps` where that is less.
    weight_decay : float
        Of AdamW, on matrices.
    grad_clip : float
        Greatest global norm of the gradient; `inf` switches clipping off.
    seed : int
        Of the weights, the order of the data and dropout.
    log_every, val_every, checkpoint_every : int
        Steps between rows of the log, validations, checkpoints.
    """

    steps: int = integer(4000, least=1)
    batch_size: int = integer(32, least=1)
    accumulate: int = integer(1, least=1)
    lr_max: float = number(3e-3, "above 0, finite", lambda x: 0.0 < x < math.inf)
    lr_min: float = number(_final_rate, "of at least 0, finite", lambda x: 0.0 <= x < math.inf)
    warmup_steps: int = integer(_short_warmup, least=0)
    weight_decay: float = number(0.3, "of at least 0, finite", lambda x: 0.0 <= x < math.inf)
    grad_clip: float = number(1.0, "above 0 (inf switches clipping off)", lambda x: x > 0.0)
    seed: int = integer(0, least=0, most=2**63 - 1)
    log_every: int = integer(10, least=1)
    val_every: int = integer(100, least=1)
    checkpoint_every: int = integer(500, least=1)

    def __post_init__(self) -> None:
        check_fields(self, "train")
        if self.warmup_steps > self.steps:
            raise ConfigError(
                f"train.warmup_steps must be at most train.steps; got {self.warmup_steps} for {self.steps} steps."
            )
        if self.lr_min > self.lr_max:
            raise ConfigError(f"train.lr_min must be at most train.lr_max; got {self.lr_min} above {self.lr_max}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectConfig:
    """What is watched.

    Attributes
    ----------
    enabled : bool
        Whether an Inspector is attached. It changes no result.
    every : int
        Observe one step in so many.
    spectral_every : int
        Measure spectral norms in one row of the log in so many. Left out of a file or of settings it is 10, or in a run
        of fewer than a hundred rows 5, 2 or 1, so that there are ten measurements at least.
    """

    enabled: bool = flag(True)
    every: int = integer(1, least=1)
    spectral_every: int = integer(10, least=1)

    def __post_init__(self) -> None:
        check_fields(self, "inspect")


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultsConfig:
    """What is broken on purpose, so that one can learn what a fault looks like; the diagnosis never sees it.

    Attributes
    ----------
    dead_units : float
        Share of the hidden units of each feed-forward network that are killed: before step `dead_units_step` their bias
        is set to -10, where GELU gives 0.
    dead_units_step : int
        Counted from 1.
    data_fraction : float
        Share of the training part that is learned from. Validation and n-gram baseline stay those of the whole.
    nan_step : int
        Before this step one weight of the first block becomes NaN. 0: never.
    """

    dead_units: float = number(0.0, "from 0 to 1", lambda x: 0.0 <= x <= 1.0)
    dead_units_step: int = integer(20, least=1)
    data_fraction: float = number(1.0, "above 0, at most 1", lambda x: 0.0 < x <= 1.0)
    nan_step: int = integer(0, least=0)

    def __post_init__(self) -> None:
        check_fields(self, "faults")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunConfig:
    """Everything that decides what a run does.

    Examples
    --------
    >>> config = load_config(None, ["train.steps=50", "model.position=learned"])
    >>> config.train.warmup_steps, config.model.position
    (5, 'learned')
    """

    data: DataConfig = field(default_factory=DataConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    inspect: InspectConfig = field(default_factory=InspectConfig)
    faults: FaultsConfig = field(default_factory=FaultsConfig)

    def to_dict(self) -> dict[str, dict[str, Any]]:
        """Return section to key to value, every key written out."""
        return asdict(self)

    def to_toml(self) -> str:
        """Return the configuration as TOML, every key written out: `load_config` makes an equal one of it."""
        return tomli_w.dumps(self.to_dict())


_SECTIONS: dict[str, type[Any]] = {
    "data": DataConfig,
    "model": ModelConfig,
    "train": TrainConfig,
    "inspect": InspectConfig,
    "faults": FaultsConfig,
}


def load_config(path: str | Path | None = None, sets: Sequence[str] = (), *, from_gpt2: str | None = None) -> RunConfig:
    """Return the configuration of a TOML file and of settings, the later ones winning.

    Parameters
    ----------
    path : path of a TOML file, or None for the defaults
    sets : sequence of str
        Each `section.key=value`. The value is read as TOML, and as text if it is not TOML.
    from_gpt2 : str, optional
        `model.from_gpt2` as it is, which wins over both.

    Raises
    ------
    ConfigError
        In one line: a file that cannot be read, an unknown key (with the nearest known one), a wrong type, a value
        out of range, values that do not go together, sizes to be taken from a folder that is no GPT-2.
    """
    values: dict[str, dict[str, Any]] = {section: {} for section in _SECTIONS}
    for key, value in _from_file(path) if path is not None else ():
        _put(values, key, value)
    for setting in sets:
        _put(values, *_from_setting(setting))
    if from_gpt2 is not None:
        _put(values, "model.from_gpt2", from_gpt2)
    _fill_from_gpt2(values["model"])
    train = TrainConfig(**values["train"])
    rows = train.steps // train.log_every
    # Divisors of 10: what a long run measures, a short one measures too.
    values["inspect"].setdefault("spectral_every", max(every for every in (1, 2, 5, 10) if every <= max(1, rows // 10)))
    return RunConfig(**{section: kind(**values[section]) for section, kind in _SECTIONS.items()})


def _fill_from_gpt2(model: dict[str, Any]) -> None:
    """Enter the sizes of the folder that `from_gpt2` names, where they are not given."""
    folder = model.get("from_gpt2")
    if not isinstance(folder, str) or not folder or all(key in model for key in GPT2_KEYS):
        return
    try:
        sizes = read_config(Path(folder) / "config.json", dtype="float32", dropout=0.0)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise ConfigError(f"model.from_gpt2 must be a folder with config.json; {folder!r}: {reason}.") from error
    except ValueError as error:
        raise ConfigError(f"model.from_gpt2: {error}") from error
    for key in GPT2_KEYS:
        model.setdefault(key, getattr(sizes, key))


def _from_file(path: str | Path) -> Iterable[tuple[str, object]]:
    """Yield dotted key and value of everything in a TOML file."""
    try:
        table = tomllib.loads(Path(path).read_bytes().decode("utf-8-sig"))
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise ConfigError(f"configuration {str(path)!r} cannot be read: {reason}.") from error
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"configuration {str(path)!r} must be UTF-8; byte {error.start} is not. Save it as UTF-8."
        ) from error
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        reason = " ".join(str(error).split())
        raise ConfigError(f"configuration {str(path)!r} must be TOML: {reason}.") from error
    for name, content in table.items():
        if name in _SECTIONS and isinstance(content, Mapping):
            yield from ((f"{name}.{key}", value) for key, value in content.items())
        elif name not in _SECTIONS and isinstance(content, Mapping) and content:
            yield f"{name}.{next(iter(content))}", None  # an unknown section: its first key is what gets named
        else:
            yield name, content


def _from_setting(setting: str) -> tuple[str, object]:
    """Return key and value of `key=value`."""
    key, equals, written = setting.partition("=")
    if not equals:
        raise ConfigError(f"a setting must be key=value; got {shown(setting)}. For example train.steps=500.")
    try:
        parsed = tomllib.loads(f"value = {written}")
    except (tomllib.TOMLDecodeError, RecursionError):
        return key.strip(), written
    # More than the one key: the text held a line break, and is not one TOML value.
    return key.strip(), parsed["value"] if len(parsed) == 1 else written


def _put(values: dict[str, dict[str, Any]], key: str, value: object) -> None:
    """Enter `value` under the dotted `key`; ConfigError if there is no such key."""
    section, _, name = key.partition(".")
    if section in _SECTIONS and not name:
        example = f"{section}.{fields(_SECTIONS[section])[0].name}"
        raise ConfigError(f"{section} is a section and must hold keys; got {shown(value)}. For example {example}.")
    if section not in _SECTIONS or name not in {each.name for each in fields(_SECTIONS[section])}:
        raise ConfigError(f"unknown key {shown(key)}; the nearest is {_nearest(key)}.")
    values[section][name] = value


def _nearest(key: str) -> str:
    """Return the known key that looks most like `key`, whose own name counts for more than its section."""
    name = key.partition(".")[2] or key
    known = [f"{section}.{each.name}" for section, kind in _SECTIONS.items() for each in fields(kind)]

    def likeness(candidate: str) -> float:
        whole = difflib.SequenceMatcher(None, key, candidate).ratio()
        own = difflib.SequenceMatcher(None, name, candidate.partition(".")[2]).ratio()
        return whole + 2.0 * own

    return max(known, key=likeness)
