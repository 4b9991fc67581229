"""The Inspector on models that train: what it sees, when it counts, and that the model never notices."""

import copy
import json
import math
import pickle
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from autograd_core import GELU, Dropout, Linear, Module, Parameter, ReLU, Sequential, Tensor, no_grad
from autograd_core import functional as F
from autograd_core.optim import SGD, AdamW, clip_grad_norm
from minitrain.inspect import FirstNonFinite, Inspector

WIDTH, HIDDEN, BATCH, LENGTH, SYMBOLS = 5, 7, 3, 11, 13


class Layer(Module):
    """A residual layer with an activation to watch, and dropout whose draws nobody else may touch."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.up = Linear(WIDTH, HIDDEN, rng=rng)
        self.act = GELU()
        self.down = Linear(HIDDEN, WIDTH, rng=rng)
        self.dropout = Dropout(0.1, rng=rng)

    def forward(self, x: Tensor, *, scale: float = 1.0) -> Tensor:
        return x + self.dropout(self.down(self.act(self.up(x)))) * scale


class TiedModel(Module):
    """Ids to logits, the embedding used twice."""

    def __init__(self, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.embedding = Parameter(rng.normal(size=(SYMBOLS, WIDTH)))
        self.layers = [Layer(rng), Layer(rng)]

    def forward(self, ids: np.ndarray) -> Tensor:
        x = F.embedding(self.embedding, ids)
        for layer in self.layers:
            x = layer(x, scale=0.5)
        return x @ self.embedding.T


def batch(seed: int, size: int = BATCH) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, SYMBOLS, size=(size, LENGTH))


def loss_of(model: Module, ids: np.ndarray) -> Tensor:
    return F.cross_entropy(model(ids), np.roll(ids, 1, axis=-1))


def watched(model: Module, **kwargs: Any) -> Inspector:
    inspector = Inspector(model, model.parameters(), **kwargs)
    inspector.watch()
    return inspector


def total_hooks(model: Module) -> int:
    return sum(len(each._hooks) for each in (*model.modules(), *model.parameters()))


# --------------------------------------------------------------------------- what is seen


def test_statistics_are_those_of_the_tensors_that_passed() -> None:
    model = TiedModel()
    inspector = watched(model)
    outputs: list[np.ndarray] = []
    model.layers[1].up.register_forward_hook(lambda module, args, kwargs, output: outputs.append(output.value.copy()))
    gradients = []
    for step in range(3):
        model.zero_grad()
        loss_of(model, batch(step)).backward()
        gradients.append(model.layers[1].up.weight.grad.copy())
        inspector.step()

    seen = inspector.snapshot()
    for name, arrays in (("layers.1.up", outputs), ("layers.1.up.weight.grad", gradients)):
        values = np.concatenate([array.ravel() for array in arrays])
        entry = seen[name]
        assert entry["n"] == values.size
        assert entry["mean"] == pytest.approx(values.mean(), rel=1e-10)
        assert entry["std"] == pytest.approx(values.std(), rel=1e-10)
        assert (entry["min"], entry["max"]) == (values.min(), values.max())
        assert entry["l2"] == pytest.approx(np.linalg.norm(arrays[-1]), rel=1e-12)
    assert seen["layers.1.up"]["mean_abs"] == pytest.approx(np.mean(np.abs(outputs)), rel=1e-10)


def test_watch_names_everything_once() -> None:
    model = TiedModel()
    inspector = watched(model)
    assert set(inspector.snapshot()) == (
        {"TiedModel", "embedding.grad"}
        | {f"layers.{i}" for i in (0, 1)}
        | {f"layers.{i}.{part}" for i in (0, 1) for part in ("up", "act", "down", "dropout")}
        | {f"layers.{i}.{m}.{p}.grad" for i in (0, 1) for m in ("up", "down") for p in ("weight", "bias")}
    )


def test_a_tied_parameter_is_observed_once_with_its_whole_gradient() -> None:
    class Tied(Module):
        def __init__(self) -> None:
            self.W = Parameter([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])

        def forward(self, ids: np.ndarray) -> Tensor:
            return F.embedding(self.W, ids) @ self.W.T

    model = Tied()
    inspector = Inspector(model, {"W": model.W, "head": model.W})
    inspector.watch()
    assert len(inspector.handles) == 2
    model(np.array([0, 2])).sum().backward()
    entry = inspector.snapshot()["W.grad"]
    assert entry["n"] == 6
    assert entry["l2"] == pytest.approx(36.742346141747674)  # of [[15, 20], [6, 8], [15, 20]]
    assert entry["mean"] == pytest.approx(14.0)
    assert "head.grad" not in inspector.snapshot()


def test_patterns_choose_modules_and_parameters() -> None:
    model = TiedModel()
    inspector = Inspector(model, dict(model.named_parameters()))
    new = inspector.watch("layers.0.*, TiedModel", exclude=["*.bias", "*.dropout,*.act"])
    assert set(inspector.snapshot()) == {
        "TiedModel",
        "layers.0.up",
        "layers.0.down",
        "layers.0.up.weight.grad",
        "layers.0.down.weight.grad",
    }
    assert new == inspector.handles
    assert inspector.watch("layers.0.*", exclude="*") == []
    assert inspector.watch(["nothing.*"]) == []
    assert len(inspector.watch("layers.?.act")) == 2


def test_a_parameter_from_elsewhere_has_a_name_too() -> None:
    model, stranger = TiedModel(), Parameter(np.ones((2, 3)))
    inspector = Inspector(model, [*model.parameters(), stranger, stranger])
    inspector.watch("parameter.*")
    (stranger * 2.0).sum().backward()
    assert [name for name, entry in inspector.snapshot().items() if entry["n"] == 6] == ["parameter.9.grad"]


def test_an_empty_batch_changes_nothing() -> None:
    model = TiedModel()
    inspector = watched(model)
    loss_of(model, np.empty((0, LENGTH), dtype=np.int64)).backward()
    assert inspector.snapshot()["layers.0.up"]["n"] == 0
    assert inspector.measurements()["dead_fraction"] == {"layers.0.act": None, "layers.1.act": None}
    assert inspector.snapshot()["embedding.grad"]["max"] == 0.0


# --------------------------------------------------------------------------- when it counts


def test_watching_twice_counts_once_and_watching_again_goes_on() -> None:
    model = TiedModel()
    inspector = watched(model)
    handles = list(inspector.handles)
    assert inspector.watch() == []
    assert inspector.handles == handles
    model(batch(0))
    one = BATCH * LENGTH * HIDDEN
    assert inspector.snapshot()["layers.0.up"]["n"] == one

    inspector.remove_all()
    assert inspector.handles == []
    assert total_hooks(model) == 0
    model(batch(0))
    assert inspector.snapshot()["layers.0.up"]["n"] == one

    assert len(inspector.watch()) == len(handles)
    model(batch(0))
    assert inspector.snapshot()["layers.0.up"]["n"] == 2 * one

    inspector.handles[0].remove()
    assert len(inspector.watch()) == 1  # only the one that was gone
    assert len(inspector.handles) == len(handles)
    assert all(handle.active for handle in inspector.handles)


def test_two_models_and_two_inspectors_keep_to_themselves() -> None:
    first, second = TiedModel(1), TiedModel(2)
    a, b, c = watched(first), watched(second), Inspector(first, first.parameters())
    c.register_forward("mine", first.layers[0])
    first(batch(0))
    assert a.snapshot()["layers.0"]["n"] == c.snapshot()["mine"]["n"] == BATCH * LENGTH * WIDTH
    assert b.snapshot()["layers.0"]["n"] == 0
    c.reset()
    assert a.snapshot()["layers.0"]["n"] == BATCH * LENGTH * WIDTH


def test_leaving_the_context_removes_its_own_hooks_and_only_those() -> None:
    model = TiedModel()
    calls: list[str] = []
    model.register_forward_hook(lambda *_: calls.append("forward"))
    model.embedding.register_grad_hook(lambda *_: calls.append("gradient"))
    with Inspector(model, model.parameters()) as outer:
        outer.watch()
        with Inspector(model, model.parameters()) as inner:
            inner.watch()
            loss_of(model, batch(0)).backward()
        loss_of(model, batch(1)).backward()
    loss_of(model, batch(2)).backward()
    assert calls == ["forward", "gradient"] * 3
    assert inner.snapshot()["TiedModel"]["n"] * 2 == outer.snapshot()["TiedModel"]["n"]
    assert total_hooks(model) == 2
    assert inner.handles == outer.handles == []


def test_a_hook_that_raises_leaves_nothing_behind() -> None:
    model, plain = TiedModel(), TiedModel()

    def fail(*_: object) -> None:
        raise ValueError("x")

    def observe_and_fail() -> None:
        with Inspector(model, model.parameters()) as inspector, model.layers[1].register_forward_hook(fail):
            inspector.watch()
            model(batch(0))

    with pytest.raises(ValueError, match=r"^x$"):
        observe_and_fail()
    assert total_hooks(model) == 0
    assert model.training

    for layer, other in zip(model.layers, plain.layers, strict=True):
        layer.dropout.rng = np.random.default_rng(4)
        other.dropout.rng = np.random.default_rng(4)
    assert np.array_equal(model(batch(0)).value, plain(batch(0)).value)

    # In the backward: what had arrived is taken, and the next backward counts as ever.
    inspector = watched(model)
    with pytest.raises(ValueError, match=r"^x$"), model.embedding.register_grad_hook(fail):
        loss_of(model, batch(1)).backward()
    model.zero_grad()
    loss_of(model, batch(1)).backward()
    assert inspector.snapshot()["layers.0.up.weight.grad"]["n"] == WIDTH * HIDDEN
    assert inspector.snapshot()["embedding.grad"]["n"] == SYMBOLS * WIDTH


def test_a_handle_removed_while_hooks_run_still_saw_this_call() -> None:
    model = TiedModel()
    inspector = Inspector(model, model.parameters())

    def remove(*_: object) -> None:
        inspector.remove_all()

    model.register_forward_hook(remove)
    model.embedding.register_grad_hook(remove)
    inspector.watch("TiedModel, embedding")
    out = model(batch(0))
    assert total_hooks(model) == 2
    assert inspector.snapshot()["TiedModel"]["n"] == out.size

    inspector.watch("embedding")
    out.sum().backward()
    assert total_hooks(model) == 2
    assert inspector.snapshot()["embedding.grad"]["n"] == model.embedding.size
    model(batch(0)).sum().backward()
    assert inspector.snapshot()["TiedModel"]["n"] == out.size
    inspector.step()
    assert inspector.snapshot()["embedding.grad"]["n"] == model.embedding.size


def test_evaluation_leaves_the_statistics_alone() -> None:
    model = TiedModel()
    inspector = watched(model)
    loss_of(model, batch(0, size=4)).backward()
    inspector.step()
    model.eval()
    model(batch(1, size=100))
    model.train()
    with no_grad():
        model(batch(1, size=100))
    assert inspector.snapshot()["layers.0"]["n"] == 4 * LENGTH * WIDTH
    assert inspector.snapshot()["embedding.grad"]["n"] == SYMBOLS * WIDTH


def test_with_accumulation_only_the_whole_gradient_of_a_step_counts() -> None:
    model = TiedModel()
    inspector = watched(model)
    weight = model.layers[0].up.weight
    name = "layers.0.up.weight.grad"
    wholes = []
    for step in range(2):
        model.zero_grad()
        for micro in range(3):
            loss_of(model, batch(10 * step + micro)).backward()
            # A finished backward is in the snapshot at once.
            assert inspector.snapshot()[name]["l2"] == pytest.approx(np.linalg.norm(weight.grad), rel=1e-12)
            assert inspector.snapshot()[name]["n"] == (step + 1) * weight.size
        wholes.append(weight.grad.copy())
        inspector.step()
    entry = inspector.snapshot()[name]
    assert entry["n"] == 2 * weight.size
    assert entry["mean"] == pytest.approx(np.mean(wholes), rel=1e-9)
    assert entry["std"] == pytest.approx(np.std(wholes), rel=1e-12)
    assert inspector.snapshot()["layers.0"]["n"] == 6 * BATCH * LENGTH * WIDTH  # every forward counts


def test_a_reset_between_accumulated_backwards_counts_the_rest_anew() -> None:
    model = TiedModel()
    inspector = watched(model)
    loss_of(model, batch(0)).backward()
    inspector.reset()
    assert inspector.snapshot()["embedding.grad"]["n"] == 0
    loss_of(model, batch(1)).backward()
    assert inspector.snapshot()["embedding.grad"]["n"] == model.embedding.size


def test_only_one_step_in_every_is_observed() -> None:
    model = TiedModel()
    inspector = watched(model, every=3)
    optimizer = SGD(model.parameters(), lr=0.1)
    counts, ratios = [], []
    for step in range(7):
        inspector.reset()
        optimizer.zero_grad()
        loss_of(model, batch(step)).backward()
        optimizer.step()
        inspector.step()
        entry = inspector.snapshot()
        counts.append((entry["TiedModel"]["n"] > 0, entry["embedding.grad"]["n"] > 0))
        ratios.append(inspector.measurements()["update_ratio"]["embedding"] is not None)
    assert counts == [(step % 3 == 0,) * 2 for step in range(7)]
    assert ratios == [step % 3 == 0 for step in range(7)]


def test_a_frozen_parameter_is_silent_until_it_thaws() -> None:
    model = TiedModel()
    inspector = watched(model)
    weight = model.layers[0].down.weight
    weight.requires_grad = False
    loss_of(model, batch(0)).backward()
    assert inspector.snapshot()["layers.0.down.weight.grad"]["n"] == 0
    weight.requires_grad = True
    loss_of(model, batch(0)).backward()
    assert inspector.snapshot()["layers.0.down.weight.grad"]["n"] == weight.size


def test_gradients_of_separate_losses_do_not_mix() -> None:
    # Two heads with a backward each and no zero_grad between: a gradient that did not change is not counted again.
    model = Sequential(Linear(3, 2, rng=np.random.default_rng(0)), Linear(3, 2, rng=np.random.default_rng(1)))
    inspector = watched(model)
    x = np.ones((5, 3))
    model.layers[0](x).sum().backward()
    model.layers[1](x).sum().backward()
    inspector.step()
    (model.layers[1](x) * 2.0).sum().backward()
    seen = inspector.snapshot()
    assert seen["layers.0.weight.grad"]["n"] == 6
    assert seen["layers.1.weight.grad"]["n"] == 12
    assert seen["layers.1.weight.grad"]["max"] == 15.0


# --------------------------------------------------------------------------- measurements


def test_measurements_hold_what_a_row_of_the_log_holds() -> None:
    model = TiedModel()
    inspector = watched(model)
    loss_of(model, batch(0)).backward()
    inspector.step()
    row = inspector.measurements()
    snapshot = inspector.snapshot()
    assert list(row) == ["modules", "gradients", "spectral_norm", "dead_fraction", "update_ratio"]
    assert {**row["modules"], **row["gradients"]} == snapshot
    assert all("mean_abs" in entry for entry in row["modules"].values())
    assert not any("mean_abs" in entry for entry in row["gradients"].values())
    matrices = {"embedding", *(f"layers.{i}.{m}.weight" for i in (0, 1) for m in ("up", "down"))}
    assert set(row["spectral_norm"]) == set(row["update_ratio"]) == matrices
    assert set(row["dead_fraction"]) == {"layers.0.act", "layers.1.act"}
    assert json.loads(json.dumps(row, allow_nan=False)) == row


def test_spectral_norms_come_at_their_cadence_and_are_the_matrices() -> None:
    model = TiedModel()
    inspector = watched(model, spectral_every=3)
    rows = [inspector.measurements()["spectral_norm"] for _ in range(7)]
    assert [row["embedding"] is not None for row in rows] == [True, False, False, True, False, False, True]
    for name, value in model.named_parameters():
        if value.ndim == 2:
            largest = np.linalg.svd(value.value, compute_uv=False)[0]
            assert rows[3][name] == pytest.approx(largest, rel=1e-4)


def test_the_update_ratio_is_that_of_the_real_step() -> None:
    model = TiedModel()
    inspector = watched(model)
    optimizer = AdamW(model.parameters(), lr=0.03, weight_decay=0.1)
    assert set(inspector.measurements()["update_ratio"].values()) == {None}
    for step in range(2):
        optimizer.zero_grad()
        for micro in range(2):
            loss_of(model, batch(10 * step + micro)).backward()
        clip_grad_norm(model.parameters(), 0.01)
        before = model.embedding.value.copy()
        optimizer.step()
        inspector.step()
        want = np.linalg.norm(model.embedding.value - before) / np.linalg.norm(before)
        assert inspector.measurements()["update_ratio"]["embedding"] == pytest.approx(want, rel=1e-12)
        assert want > 1e-4
        model.embedding.value[:] *= 1.5  # between the steps: no part of an update
    inspector.reset()
    assert inspector.measurements()["update_ratio"]["embedding"] is None


def test_the_update_ratio_of_a_zero_matrix_is_absent_and_of_a_spoilt_one_is_nan() -> None:
    model = Sequential(
        Linear(3, 2, bias=False, rng=np.random.default_rng(0)), Linear(2, 2, rng=np.random.default_rng(0))
    )
    model.layers[0].weight.value = np.zeros((3, 2))
    model.layers[1].weight.value[0, 0] = math.nan
    inspector = watched(model)
    optimizer = SGD(model.parameters(), lr=1.0)
    model(np.ones((1, 3))).sum().backward()
    optimizer.step()
    inspector.step()
    ratios = inspector.measurements()["update_ratio"]
    assert ratios["layers.0.weight"] is None
    assert math.isnan(ratios["layers.1.weight"])


def dead_share(inspector: Inspector) -> float | None:
    fraction: float | None = inspector.measurements()["dead_fraction"]["act"]
    return fraction


def test_dead_units_are_counted_over_real_tokens_since_the_last_reset() -> None:
    class Units(Module):
        def __init__(self, act: Module) -> None:
            self.act = act

        def forward(self, x: np.ndarray) -> Tensor:
            return self.act(Tensor(x))

    for act in (ReLU(), GELU()):
        model = Units(act)
        inspector = watched(model)
        share = partial(dead_share, inspector)
        x = np.full((2, 3, 4), -20.0)  # (B, T, F)
        x[0, 0, 0] = 1.0
        x[1, 2, 1] = 1.0  # on a padded position
        mask = np.ones((2, 3), dtype=bool)
        mask[1, 1:] = False
        assert share() is None
        inspector.set_pad_mask(mask)
        model(x)
        assert share() == 0.75
        inspector.step()  # forgets the mask
        model(x)
        assert share() == 0.5
        inspector.reset()
        assert share() is None
        inspector.set_pad_mask(np.zeros((2, 3), dtype=bool))
        model(x)
        assert share() is None  # not one real token
        inspector.set_pad_mask(mask)
        inspector.set_pad_mask(None)
        model(x)
        assert share() == 0.5
        inspector.set_pad_mask(np.zeros((5, 3), dtype=bool))  # not the mask of this output
        model(x)
        assert share() == 0.5


def test_a_mask_of_numbers_is_refused() -> None:
    inspector = watched(TiedModel())
    with pytest.raises(TypeError, match="must be boolean, True where the token is real; got int64"):
        inspector.set_pad_mask(np.ones((2, 3), dtype=np.int64))  # type: ignore[arg-type]


# --------------------------------------------------------------------------- what is not finite


def test_nan_never_stops_training_and_its_first_place_is_kept() -> None:
    model = TiedModel()
    inspector = watched(model)
    optimizer = SGD(model.parameters(), lr=0.1)
    assert inspector.first_non_finite is None
    for step in range(3):
        optimizer.zero_grad()
        if step == 1:
            model.layers[1].up.weight.value[0, 0] = math.inf
        with np.errstate(all="ignore"):
            loss_of(model, batch(step)).backward()
            optimizer.step()
        inspector.step()
    assert inspector.first_non_finite == FirstNonFinite(2, "layers.1.up")
    entry = inspector.snapshot()["layers.1.up"]
    assert entry["inf"] + entry["nan"] > 0
    assert math.isfinite(entry["std"])
    assert json.dumps(inspector.snapshot(), allow_nan=False)
    row = inspector.measurements()
    assert math.isnan(row["spectral_norm"]["layers.1.up.weight"])
    inspector.reset()
    assert inspector.first_non_finite == FirstNonFinite(2, "layers.1.up")


def test_a_gradient_that_is_not_finite_is_found_too() -> None:
    model = Sequential(Linear(3, 2, rng=np.random.default_rng(0)))
    inspector = watched(model)
    inspector.step()
    model(np.ones((2, 3))).backward(np.full((2, 2), math.nan))
    assert inspector.first_non_finite is not None
    assert inspector.first_non_finite.step == 2
    assert inspector.first_non_finite.name in ("layers.0.weight.grad", "layers.0.bias.grad")
    assert inspector.snapshot()["layers.0.weight.grad"] == {
        **dict.fromkeys(("mean", "std", "min", "max", "l2")),
        "n": 0,
        "nan": 6,
        "inf": 0,
    }


# --------------------------------------------------------------------------- the model does not notice


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_run_is_bit_identical_with_and_without(dtype: type) -> None:
    def run(observe: Callable[[Module], Inspector] | None) -> tuple[list[np.ndarray], list[float], Any]:
        model = TiedModel().astype(dtype)
        optimizer = AdamW(model.parameters(), lr=0.01)
        inspector = observe(model) if observe else None
        losses = []
        for step in range(20):
            optimizer.zero_grad()
            loss = loss_of(model, batch(step))
            loss.backward()
            clip_grad_norm(model.parameters(), 1.0)
            optimizer.step()
            losses.append(loss.item())
            if inspector is not None:
                inspector.step()
                if step % 5 == 0:
                    inspector.snapshot()
                    inspector.measurements()
                    inspector.reset()
        assert losses[-1] < losses[0]
        return [p.value.copy() for p in model.parameters()], losses, optimizer.state_dict()

    state = np.random.get_state()[1].copy()  # noqa: NPY002  what must not move
    plain, losses, optimizer = run(None)
    for observe in (watched, lambda model: watched(model, every=3, spectral_every=2)):
        seen, seen_losses, seen_optimizer = run(observe)
        assert losses == seen_losses
        assert all(np.array_equal(a, b) and a.dtype == b.dtype == dtype for a, b in zip(plain, seen, strict=True))
        for a, b in zip(optimizer["parameters"], seen_optimizer["parameters"], strict=True):
            assert a.keys() == b.keys()
            assert all(np.array_equal(a[key], b[key]) for key in a)
    assert np.array_equal(state, np.random.get_state()[1])  # noqa: NPY002


def test_copies_and_pickles_of_a_watched_model_are_free_of_it() -> None:
    model = TiedModel()
    inspector = watched(model)
    model.register_forward_hook(lambda *_: None)
    loss_of(model, batch(0)).backward()
    before = inspector.snapshot()
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert total_hooks(twin) == 0
        for seed in range(5):
            loss_of(twin, batch(seed)).backward()
        assert inspector.snapshot() == before
        assert not np.shares_memory(twin.embedding.value, model.embedding.value)
    assert set(model.state_dict()) == {name for name, _ in model.named_parameters()}


def test_no_activation_outlives_its_step() -> None:
    model = TiedModel()
    inspector = watched(model)
    output = model.layers[0](Tensor(np.ones((2, WIDTH))))
    kept = weakref.ref(output.value)
    del output
    assert kept() is None
    assert inspector.snapshot()["layers.0"]["n"] == 2 * WIDTH


# --------------------------------------------------------------------------- resuming


def test_a_resumed_inspector_measures_what_the_uninterrupted_one_does() -> None:
    def train(model: Module, inspector: Inspector, optimizer: SGD, steps: range) -> list[Any]:
        rows = []
        for step in steps:
            optimizer.zero_grad()
            loss_of(model, batch(step)).backward()
            optimizer.step()
            inspector.step()
            if step % 3 == 2:
                rows.append(inspector.measurements())
                inspector.reset()
        return rows

    def made() -> tuple[Module, Inspector, SGD]:
        model = TiedModel()
        model.layers[0].dropout.p = model.layers[1].dropout.p = 0.0
        return model, watched(model, every=2, spectral_every=2), SGD(model.parameters(), lr=0.1)

    whole = train(*made(), range(20))
    model, inspector, optimizer = made()
    first = train(model, inspector, optimizer, range(10))
    state = json.loads(json.dumps(inspector.state_dict()))
    weights = model.state_dict()

    model, inspector, optimizer = made()
    model.load_state_dict(weights)
    inspector.load_state_dict(state)
    assert first + train(model, inspector, optimizer, range(10, 20)) == whole


def test_a_state_of_other_names_is_refused_untouched() -> None:
    model = TiedModel()
    inspector, other = watched(model), Inspector(model, model.parameters())
    other.watch("layers.0")
    model(batch(0))
    before = inspector.state_dict()
    with pytest.raises(ValueError, match="'TiedModel' is in one of the two only"):
        inspector.load_state_dict(other.state_dict())
    assert inspector.state_dict() == before
