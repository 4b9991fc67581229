"""The hooked training loop across all four packages: MiniGPT learns the verbs while an Inspector watches everything."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from autograd_core import Module
from autograd_core.optim import AdamW, WarmupCosine, decay_groups
from minimodel.embedding import Embedding
from minimodel.transformer import MiniGPT, MiniGPTConfig
from minitrain import Inspector, TrainResult, evaluate, train
from minitrain.batches import PaddedBatches, evaluation_batches
from minitrain.verbs import encode_example, verb_corpus

WIDTH, HEADS, LAYERS, HIDDEN, VOCABULARY = 18, 3, 2, 29, 41
STEPS, EVERY, BATCH = 60, 12, 7


@dataclass
class Hooked:
    """A run that has been watched, and what was noted on the way."""

    model: MiniGPT
    optimizer: AdamW
    inspector: Inspector
    result: TrainResult
    rows: list[dict[str, Any]]
    hooks_while_training: int
    gradient_calls: list[str] = field(default_factory=list)


def hooks_of(model: Module) -> list[str]:
    """Names of modules and parameters that have a hook, once a hook."""
    return [name for name, each in (*model.named_modules(), *model.named_parameters()) for _ in each._hooks]


def make_model(position: str = "rope", dtype: str = "float32") -> MiniGPT:
    config = MiniGPTConfig(
        d_model=WIDTH,
        n_heads=HEADS,
        n_layers=LAYERS,
        d_ff=HIDDEN,
        vocab_size=VOCABULARY,
        context_len=64,
        position="learned" if position == "learned" else "rope",
        attention_bias=True,
        dropout=0.1,
        dtype=dtype,
    )
    return MiniGPT(config, rng=np.random.default_rng(3))


def train_hooked(model: MiniGPT, *, watched: bool = True) -> Hooked:
    corpus = verb_corpus()
    lines = [encode_example(example, corpus.tokenizer) for example in corpus.train]
    held_out = [encode_example(example, corpus.tokenizer) for example in corpus.validation]
    validation = evaluation_batches(held_out, 64)
    optimizer = AdamW(decay_groups(model, 0.05), lr=0.0)
    rows: list[dict[str, Any]] = []
    calls: list[str] = []
    hooks: list[int] = []
    with Inspector(model, dict(model.named_parameters()), spectral_every=2) as inspector:
        if watched:
            inspector.watch()
            inspector_hooks = len(hooks_of(model))
            assert inspector_hooks == len(inspector.handles)
        # A second observer of the tied table counts how often it is told.
        with model.embedding.E.register_grad_hook(lambda parameter, grad: calls.append(str(grad.dtype))):
            result = train(
                model,
                optimizer,
                WarmupCosine(1e-2, 1e-3, 6, STEPS),
                PaddedBatches(lines, BATCH, seed=5),
                steps=STEPS,
                grad_clip=1.0,
                inspector=inspector if watched else None,
                validate=lambda: evaluate(model, validation),
                val_every=STEPS // 2,
                log=rows.append,
                log_every=EVERY,
                on_step=lambda step, loss: hooks.append(len(hooks_of(model))),
            )
    assert len(set(hooks)) == 1
    return Hooked(model, optimizer, inspector, result, rows, hooks[0], calls)


@pytest.fixture(scope="module")
def hooked() -> Hooked:
    return train_hooked(make_model())


def test_the_loss_falls_in_training_and_validation(hooked: Hooked) -> None:
    assert hooked.result.outcome == "finished"
    losses = [row["train_loss"] for row in hooked.rows]
    assert len(losses) == STEPS // EVERY + 2  # two more, for step 1 and the validation between
    assert 2.5 < losses[0] < 4.5
    assert losses[-1] < 0.8 * losses[0]
    validated = [row["val_loss"] for row in hooked.rows if row["val_loss"] is not None]
    assert validated[1] < validated[0] < 3.5


def test_statistics_of_every_module_and_parameter_arrive_in_every_row(hooked: Hooked) -> None:
    modules = {name or "MiniGPT" for name, _ in hooked.model.named_modules()}
    parameters = {name for name, _ in hooked.model.named_parameters()}
    matrices = {name for name, parameter in hooked.model.named_parameters() if parameter.ndim == 2}
    assert {"embedding", "dropout", "blocks.1.attn", "blocks.0.ffn", "ln_final"} <= modules
    for row in hooked.rows:
        found = row["inspect"]
        assert found["modules"].keys() == modules
        assert found["gradients"].keys() == {f"{name}.grad" for name in parameters}
        assert found["spectral_norm"].keys() == found["update_ratio"].keys() == matrices
        for name, entry in (*found["modules"].items(), *found["gradients"].items()):
            assert entry["n"] > 0, name
            assert entry["nan"] == entry["inf"] == 0, name
            assert entry["min"] <= entry["mean"] <= entry["max"], name
            assert entry["std"] > 0.0, name
        assert all(0.0 < ratio < 1.0 for ratio in found["update_ratio"].values())
        assert len(found["dead_fraction"]) == LAYERS
        assert all(0.0 <= share <= 1.0 for share in found["dead_fraction"].values())
    measured = [row["inspect"]["spectral_norm"]["blocks.0.ffn.W1"] for row in hooked.rows]
    assert [norm is not None for norm in measured] == [*[True, False] * 3, True]
    json.dumps(hooked.rows, allow_nan=False)


def test_spectral_norm_and_update_ratio_are_of_the_real_weights(hooked: Hooked) -> None:
    inspector = Inspector(hooked.model, hooked.model.parameters())
    with inspector:
        inspector.watch("blocks.1.ffn.W2")
        measured = inspector.measurements()["spectral_norm"]["blocks.1.ffn.W2"]
    weights: npt.NDArray[np.float32] = hooked.model.blocks[1].ffn.W2.value
    assert measured == pytest.approx(float(np.linalg.norm(weights.astype(np.float64), 2)), rel=1e-3)


def test_verb_classes_reach_the_rows_without_wiring(hooked: Hooked) -> None:
    for row in hooked.rows:
        assert row["regular_loss"] > 0.0
        assert row["irregular_loss"] > 0.0


def test_the_hooks_are_gone_afterwards(hooked: Hooked) -> None:
    assert (
        hooked.hooks_while_training
        == len(list(hooked.model.named_modules())) + len(list(hooked.model.named_parameters())) + 1
    )
    assert hooks_of(hooked.model) == []
    assert hooked.inspector.handles == []
    before = hooked.inspector.snapshot()
    hooked.model.loss(np.array([[1, 4, 5]]), np.array([[4, 5, 2]])).backward()
    assert hooked.inspector.snapshot() == before


def test_the_tied_embedding_is_observed_once(hooked: Hooked) -> None:
    assert isinstance(hooked.model.embedding, Embedding)
    assert len(hooked.gradient_calls) == STEPS
    for row, steps in zip(hooked.rows, (1, 11, 12, 6, 6, 12, 12), strict=True):
        gradients = row["inspect"]["gradients"]
        tied = [name for name, entry in gradients.items() if entry["n"] % (VOCABULARY * WIDTH) == 0]
        assert tied == ["embedding.E.grad"]
        assert gradients["embedding.E.grad"]["n"] == steps * VOCABULARY * WIDTH
    assert sum(name.startswith("embedding") for name in hooked.rows[0]["inspect"]["gradients"]) == 1


def test_float32_stays_float32(hooked: Hooked) -> None:
    assert {str(parameter.dtype) for parameter in hooked.model.parameters()} == {"float32"}
    assert {str(p.grad.dtype) for p in hooked.model.parameters() if p.grad is not None} == {"float32"}
    assert set(hooked.gradient_calls) == {"float32"}
    moments = hooked.optimizer.state_dict()["parameters"]
    assert {str(entry[name].dtype) for entry in moments for name in ("m", "v")} == {"float32"}
    assert hooked.model(np.array([[1, 4, 5]])).dtype == np.float32


@pytest.mark.parametrize(("position", "dtype"), [("rope", "float32"), ("learned", "float64")])
def test_the_inspector_changes_no_bit(position: str, dtype: str) -> None:
    watched, alone = (train_hooked(make_model(position, dtype), watched=flag) for flag in (True, False))
    for (name, a), (_, b) in zip(watched.model.named_parameters(), alone.model.named_parameters(), strict=True):
        assert a.value.tobytes() == b.value.tobytes(), name
    kept = ("step", "tokens", "train_loss", "val_loss", "learning_rate", "grad_norm", "regular_loss", "irregular_loss")
    assert [[row[key] for key in kept] for row in watched.rows] == [[row[key] for key in kept] for row in alone.rows]
    assert {row["inspect"] is None for row in alone.rows} == {True}
