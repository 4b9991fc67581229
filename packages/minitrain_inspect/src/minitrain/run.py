"""From a configuration to a finished run folder: the preset that knows MiniGPT, the data and the files.

`prepare` checks everything and writes nothing; `execute` makes the folder and trains. The folder's contents stand in
BLUEPRINT, section 5. The loop, the Inspector and the log know nothing of this file.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Mapping
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from autograd_core.files import write_atomic
from autograd_core.optim import AdamW, WarmupCosine, decay_groups
from minimodel.transformer import MiniGPT, MiniGPTConfig, load_gpt2, load_weights, save_weights

from .batches import SameBatches
from .checkpoint import Resumable, load_checkpoint, save_checkpoint
from .config import GPT2_KEYS, RunConfig, load_config
from .dashboard import Follower
from .data import Data, load_data
from .diagnosis import Finding, Watch, all_rules, future_leak
from .evaluation import completions, exact_shares
from .faults import faulty_steps
from .gpt2_tokenizer import PlainCharacters, folder_tokenizer
from .inspect import Inspector
from .log import LogWriter, read_until
from .loop import Progress, Row, TrainResult, evaluate, train
from .manifest import build_manifest, write_manifest
from .run_folder import claimed, remove_leftovers, writing_to
from .tokenizer import Tokenizer
from .tokenizer_file import load_tokenizer

LOG_NAME = "inspector.log.jsonl"
RESULTS_SCHEMA = 1

MOST_THREADS = 2**31 - 1
"""What the C integer of a BLAS library holds."""

# The default model has 64 symbols whatever the alphabet, and so its 103,680 parameters; a larger alphabet makes it
# larger.
_LEAST_VOCABULARY = 64


@dataclass(frozen=True, slots=True)
class Prepared:
    """A configuration whose data were read and whose model was made: nothing is left that could be refused."""

    config: RunConfig
    data: Data
    model: MiniGPT


def prepare(config: RunConfig) -> Prepared:
    """Read the data and make the model; write nothing.

    Raises
    ------
    ValueError, OSError
        One line that names what is unusable.
    """
    rng = np.random.default_rng(config.train.seed)
    if config.model.from_gpt2:
        model, tokenizer = _from_gpt2(config, rng)
        ready = Prepared(config, load_data(config, tokenizer), model)
    else:
        data = load_data(config)
        ready = Prepared(config, data, MiniGPT(_model_config(config, data.tokenizer), rng=rng))
    _require_memory(ready)
    return ready


def _require_memory(ready: Prepared) -> None:
    """Raise ValueError if the system refuses an array as large as the largest of a step is sure to be."""
    sizes, corpus = ready.model.config, ready.data.corpus
    length = sizes.context_len if corpus is None else corpus.longest - 1
    batch_size = ready.config.train.batch_size
    count = batch_size * length * max(sizes.vocab_size, sizes.d_ff)
    try:
        np.empty(count, sizes.dtype)  # asked for, never filled: it costs nothing
    except (MemoryError, ValueError):  # ValueError: more than can be addressed
        raise ValueError(
            f"train.batch_size: a step must fit into memory; {batch_size} examples need "
            f"{count * np.dtype(sizes.dtype).itemsize:.1e} bytes for one array. Use a smaller batch, and "
            "train.accumulate for as large a step."
        ) from None


def _from_gpt2(config: RunConfig, rng: np.random.Generator) -> tuple[MiniGPT, Tokenizer]:
    """Model and tokeniser of the folder, which must be what the configuration says."""
    sizes = config.model
    model, tokenizer = load_gpt2_folder(Path(sizes.from_gpt2), dtype=sizes.dtype, dropout=sizes.dropout, rng=rng)
    for key in (*GPT2_KEYS, "init_gain"):
        given, found = getattr(sizes, key), getattr(model.config, key)
        if given != found:
            raise ValueError(
                f"model.{key} must be {found!r}, as the GPT-2 folder {sizes.from_gpt2!r} has it; got {given!r}. "
                "Leave it out."
            )
    return model, tokenizer


def _model_config(config: RunConfig, tokenizer: Tokenizer) -> MiniGPTConfig:
    sizes = config.model
    if 0 < sizes.vocab_size < tokenizer.vocab_size:
        raise ValueError(
            f"model.vocab_size must be at least the {tokenizer.vocab_size} ids of the tokeniser; "
            f"got {sizes.vocab_size}. Leave it out."
        )
    return MiniGPTConfig(
        d_model=sizes.d_model,
        n_heads=sizes.n_heads,
        n_layers=sizes.n_layers,
        d_ff=sizes.d_ff,
        vocab_size=sizes.vocab_size or max(_LEAST_VOCABULARY, tokenizer.vocab_size),
        context_len=sizes.context_len,
        position=sizes.position,
        attention_bias=sizes.attention_bias,
        causal=sizes.causal,
        dropout=sizes.dropout,
        init_gain=sizes.init_gain,
        ln_eps=sizes.ln_eps,
        dtype=sizes.dtype,
    )


def execute(
    prepared: Prepared,
    out: Path,
    *,
    threads: int,
    on_start: Callable[[int], None] | None = None,
    on_step: Callable[[int, float], None] | None = None,
    on_row: Callable[[Row], None] | None = None,
    on_finding: Callable[[Finding], None] | None = None,
    stop_on: Collection[str] = (),
    resume: bool = False,
) -> TrainResult:
    """Train, leave a run folder behind and return how training ended.

    NumPy's warnings of overflow are off meanwhile: the result says where a number was not finite, and the log when.

    Parameters
    ----------
    prepared : Prepared
    out : Path
        New or empty, or with `resume` the folder of a run of the same configuration.
    threads : int
        BLAS threads, for the manifest.
    on_start : callable, optional
        Receives the number of steps done before, once nothing is left that could be refused.
    on_step, on_row : callable, optional
        Progress: see `loop.train`.
    on_finding : callable, optional
        Receives each finding of the diagnosis once, after the row that first shows it, but no symptom of one before.
    stop_on : collection of str
        Codes of findings that end the run there. What a resumed run's log shows already does not.
    resume : bool
        Continue from the last checkpoint; from the beginning if there is none.

    Raises
    ------
    OSError
        If the folder cannot be written.
    ValueError
        If another run holds the folder or it is not empty; with `resume` if the checkpoint is damaged or of another
        configuration, the data or their tokeniser are not those of the run, or the log lacks rows before the
        checkpoint or is damaged other than by a torn last line. Nothing was written then.
    """
    rules = all_rules()
    unknown = sorted(set(stop_on) - {rule.code for rule in rules})
    if unknown:
        raise ValueError(
            f"--stop-on must be a code of the diagnosis; got {unknown[0]!r}. "
            f"The codes are {', '.join(rule.code for rule in rules)}."
        )
    config, data, model = prepared.config, prepared.data, prepared.model
    settings = config.train
    optimizer = AdamW(decay_groups(model, settings.weight_decay), lr=settings.lr_max)
    parts: dict[str, Resumable] = {
        "configuration": _SameConfiguration(config),
        "data": data.train,
        "validation": SameBatches(data.validation),
    }
    inspector = None
    if config.inspect.enabled:
        inspector = Inspector(
            model,
            dict(model.named_parameters()),
            every=config.inspect.every,
            spectral_every=config.inspect.spectral_every,
        )
        parts["inspector"] = inspector
    state = out / "checkpoint" / "state.safetensors"
    page = Follower(out)
    stops: list[str] = []

    def checkpoint(at: Progress) -> None:
        require_here()
        # Its rows first: a state whose log ends before it could not be resumed.
        writer.sync()
        save_checkpoint(state, model, optimizer, at, parts)
        _leave_readable(prepared, out, at, finished=False)
        page.write_in_passing()

    def log(row: Row) -> None:
        writer.write(row)
        if on_row is not None:
            on_row(row)
        for finding in watch.add(row):
            if on_finding is not None and not watch.is_symptom(finding):
                on_finding(finding)
            if finding.code in stop_on:
                stops.append(f"step {row['step']}: the diagnosis found {finding.code}")

    with claimed(out, resume=resume) as require_here, np.errstate(all="ignore"):
        with nullcontext() if inspector is None else inspector:
            if inspector is not None:
                inspector.watch()
            progress, watch = Progress(), Watch(rules)
            if resume:
                # Before anything is written: each of the three may be refused.
                _require_same_tokenizer(prepared, out)
                if state.exists():
                    progress = load_checkpoint(state, model, optimizer, parts)
                watch = Watch(rules, read_until(out / LOG_NAME, progress.step))
            with writing_to(out, resume=resume):
                _begin_folder(prepared, out, threads)
            if on_start is not None:
                on_start(progress.step)
            with LogWriter(out / LOG_NAME) as writer:
                if resume:
                    writer.rewind(progress.step)
                result = train(
                    model,
                    optimizer,
                    WarmupCosine(settings.lr_max, settings.lr_min, settings.warmup_steps, settings.steps),
                    data.train,
                    steps=settings.steps,
                    accumulate=settings.accumulate,
                    grad_clip=settings.grad_clip,
                    inspector=inspector,
                    validate=lambda: evaluate(model, data.validation),
                    val_every=settings.val_every,
                    baseline=data.ngram_loss,
                    uniform=math.log(model.config.vocab_size),
                    leak=lambda: future_leak(model, model.config.vocab_size, model.config.context_len),
                    log=log,
                    log_every=settings.log_every,
                    checkpoint=checkpoint,
                    checkpoint_every=settings.checkpoint_every,
                    stop=lambda _row: stops[0] if stops else None,
                    before_step=faulty_steps(model, config.faults),
                    on_step=on_step,
                    progress=progress,
                )
        require_here()
        _leave_readable(prepared, out, result.progress, finished=result.outcome == "finished", reason=result.reason)
        page.write()
        return result


class _SameConfiguration:
    """What a resumed run must find unchanged: every setting, or config.toml and manifest.json would disagree."""

    def __init__(self, config: RunConfig) -> None:
        sections = config.to_dict()
        self._settings = {f"{name}.{key}": value for name, keys in sections.items() for key, value in keys.items()}

    def state_dict(self) -> dict[str, Any]:
        """JSON: each setting by its dotted name."""
        return self._settings

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Raise ValueError, naming the first setting that differs, unless `state` came from an equal configuration."""
        for key in sorted(state.keys() | self._settings.keys()):
            before, now = state.get(key), self._settings.get(key)
            if before != now:
                raise ValueError(
                    f"{key} was {before!r} when it was written and is {now!r} in config.toml. Put it back, or begin a "
                    "new run with it."
                )


def _require_same_tokenizer(prepared: Prepared, out: Path) -> None:
    """Raise ValueError unless a run's `tokenizer.json`, if it is there, is the one that the data give now."""
    path = out / "checkpoint" / "tokenizer.json"
    if not path.exists():
        return  # a kill before it was written: it is made again
    try:
        saved = load_tokenizer(path)
    except ValueError as error:
        raise ValueError(f"{error} Delete the file: it is then written anew from the data.") from error
    if saved.to_json() != prepared.data.tokenizer.to_json():
        raise ValueError(
            f"{path}: a run must be resumed with the tokeniser that it began with; the data now give another, since "
            f"the characters of {prepared.config.data.source!r} differ. Put the data back as they were, or begin a new "
            "run."
        )


def _begin_folder(prepared: Prepared, out: Path, threads: int) -> None:
    """Write what stands in a folder from the start; of a resumed run only what is missing."""
    remove_leftovers(out)
    # The configuration first: from then on a killed run can be resumed.
    if not (out / "config.toml").exists():
        write_atomic(out / "config.toml", prepared.config.to_toml())
    if not (out / "manifest.json").exists():
        write_manifest(out / "manifest.json", build_manifest(prepared.config, threads=threads))
    (out / "checkpoint").mkdir(exist_ok=True)
    if not (out / "checkpoint" / "tokenizer.json").exists():
        prepared.data.tokenizer.save(out / "checkpoint" / "tokenizer.json")


def _leave_readable(prepared: Prepared, out: Path, at: Progress, *, finished: bool, reason: str = "") -> None:
    """Write weights and results as of now: a run killed later leaves these, whole."""
    data, model = prepared.data, prepared.model
    # With the model's own shape: who probes the weights need not believe config.toml, which anybody may edit.
    save_weights(model, out / "checkpoint" / "model.safetensors", {"config": json.dumps(asdict(model.config))})
    results: dict[str, Any] = {
        "schema": RESULTS_SCHEMA,
        "finished": finished,
        "steps": at.step,
        "parameters": sum(p.size for p in model.parameters()),
        "train_loss": _finite(at.train_loss),
        "val_loss": _finite(at.val_loss),
        "best_val_loss": _finite(at.best_val_loss),
        "best_step": at.best_step,
        "ngram_loss": data.ngram_loss,
    }
    if reason:
        results["stopped"] = reason
    if finished and data.corpus is not None:
        results["held_out_exact"] = exact_shares(completions(model, data.corpus))
    results["train_seconds"] = at.elapsed_seconds
    write_atomic(out / "results.json", json.dumps(results, indent=2, allow_nan=False) + "\n")


def _finite(number: float | None) -> float | None:
    return number if number is not None and math.isfinite(number) else None


def recorded_threads(run: Path) -> int | None:
    """Return the BLAS threads that the manifest of a run folder says were asked for; None if it does not say."""
    try:
        threads = json.loads((run / "manifest.json").read_text("utf-8"))["blas"]["threads_asked"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return threads if type(threads) is int and 1 <= threads <= MOST_THREADS else None


def load_run(run: Path) -> tuple[RunConfig, MiniGPT, Tokenizer]:
    """Configuration, model with its last saved weights, and tokeniser of a run folder.

    Raises
    ------
    ValueError
        If the folder is not a run, or has no weights yet.
    """
    weights = run / "checkpoint" / "model.safetensors"
    if not (run / "config.toml").is_file() or not weights.is_file():
        raise ValueError(
            f"a run folder must hold config.toml and checkpoint/model.safetensors; {str(run)!r} does not. "
            "Name a folder that minitrain train wrote."
        )
    config = load_config(run / "config.toml", ())
    tokenizer = load_tokenizer(run / "checkpoint" / "tokenizer.json")
    model = MiniGPT(_model_config(config, tokenizer), rng=np.random.default_rng(0))
    load_weights(model, weights)
    return config, model, tokenizer


def load_gpt2_folder(
    folder: Path, *, dtype: str = "float32", dropout: float = 0.0, rng: np.random.Generator | None = None
) -> tuple[MiniGPT, Tokenizer]:
    """Model and tokeniser of a GPT-2 folder; the other arguments as in `load_gpt2`.

    Raises
    ------
    ValueError, OSError
        If the folder holds no GPT-2 or no tokeniser, or the two do not belong together.
    """
    model = load_gpt2(folder, dtype=dtype, dropout=dropout, rng=rng)
    tokenizer = folder_tokenizer(folder)
    if tokenizer.vocab_size > model.config.vocab_size:
        raise ValueError(
            f"a GPT-2 folder's tokeniser must have no more ids than its model; {str(folder)!r} has "
            f"{tokenizer.vocab_size} for {model.config.vocab_size}. Put the files of one model together."
        )
    # Byte-pair vocabularies are padded to round numbers; characters never are.
    if isinstance(tokenizer, PlainCharacters) and tokenizer.vocab_size != model.config.vocab_size:
        raise ValueError(
            f"the characters of a GPT-2 folder must be as many as its model's ids; {str(folder)!r} has "
            f"{tokenizer.vocab_size} for {model.config.vocab_size}. Put the files of one model together."
        )
    return model, tokenizer
