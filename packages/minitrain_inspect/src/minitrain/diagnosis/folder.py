"""The diagnosis of a run folder: its log, and where the log has no answer a probe of its weights."""

from __future__ import annotations

import json
import math
import os
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open

from ..log import read_log
from .finding import Finding
from .judgement import Rule, diagnose, installed_rules
from .probes import future_leak
from .record import Record
from .rules import RULES


def all_rules() -> list[Rule]:
    """Our rules and those of installed packages.

    Raises
    ------
    ValueError
        As `installed_rules`, or if two rules have one code.
    """
    rules = [*RULES, *installed_rules()]
    codes = [rule.code for rule in rules]
    twice = [code for code in codes if codes.count(code) > 1]
    if twice:
        raise ValueError(f"each rule must have a code of its own; {twice[0]!r} belongs to two. Rename one.")
    return rules


def findings(run: str | os.PathLike[str], *, rules: Sequence[Rule] | None = None) -> list[Finding]:
    """Findings about the run in a folder, first the causes; an empty list is a healthy run.

    Parameters
    ----------
    run : path of the folder
    rules : sequence of Rule, optional
        By default `all_rules()`.

    Raises
    ------
    ValueError
        As `record_of` and `all_rules`.
    """
    return diagnose(record_of(run), all_rules() if rules is None else rules)


def record_of(run: str | os.PathLike[str]) -> Record:
    """What a folder tells the rules.

    The log is read as a stream. Where no row says whether later tokens leak and the folder has weights, their model is
    made and probed. Neither configuration nor manifest is ever opened.

    Parameters
    ----------
    run : path of the folder

    Raises
    ------
    ValueError
        If the folder has no log, or one that cannot be read or is empty, or weights that are needed and damaged.
    """
    folder = Path(run)
    log = folder / "inspector.log.jsonl"
    if not log.is_file():
        raise ValueError(f"a run folder must hold inspector.log.jsonl; {str(folder)!r} does not.")
    record = Record(read_log(log))
    if record.rows == 0:
        raise ValueError(f"a log must hold a row to be diagnosed; {str(log)!r} has none yet. Train some steps first.")
    if record.last("future_leak") is None:
        leak = _probed(folder)
        if leak is not None:
            record.scalars["future_leak"].add(record.steps, leak)
    return record


def _probed(folder: Path) -> float | None:
    """What the probe says of the folder's weights; None where it cannot be asked.

    The model is made as the header of its weights says, which was written with them: config.toml may have been edited
    since, and what is read here must not depend on it.
    """
    # Here, since it brings in MiniGPT, which the rest of the diagnosis does not need.
    from minimodel.transformer import MiniGPT, MiniGPTConfig, load_weights

    weights = folder / "checkpoint" / "model.safetensors"
    if not weights.is_file():
        return None  # a log alone, or a run killed before its first checkpoint
    # What is there and cannot be read is said, not passed over: silence would call the mask sound.
    try:
        with safe_open(weights, "numpy") as file:
            header = file.metadata() or {}
        if "config" not in header:
            return None  # weights alone do not tell whether their model had a mask
        model = MiniGPT(MiniGPTConfig(**json.loads(header["config"])), rng=np.random.default_rng(0))
    except (SafetensorError, ValueError, TypeError) as error:
        raise ValueError(f"{weights}: weights must be a whole file that minitrain train wrote; {error}.") from error
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of weights that are NaN: the log says so already
        load_weights(model, weights)
    leak = future_leak(model, model.config.vocab_size, model.config.context_len)
    return leak if math.isfinite(leak) else None
