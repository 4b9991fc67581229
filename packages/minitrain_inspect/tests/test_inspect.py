"""The Inspector's public statistics: the four tests of the hooks lab, then what a stream of hard numbers must give."""

import json
import math
from typing import Any

import numpy as np
import pytest
from autograd_core import Linear, Module, Parameter, ReLU, Sequential, Tensor
from autograd_core import functional as F
from minitrain.inspect import HookHandle, Inspector, merge, welford_update
from minitrain.per_class_loss import partition_batch_loss

KEYS = {"n", "mean", "std", "min", "max", "l2", "nan", "inf"}


@pytest.fixture(autouse=True)
def _floating_point_errors_are_errors():
    with np.errstate(all="raise"):
        yield


def stream(*arrays: Any) -> dict[str, float]:
    state: dict[str, float] = {}
    for array in arrays:
        welford_update(state, array)
    return state


def strict_json(value: object) -> Any:
    def refuse(token: str) -> None:
        raise AssertionError(f"{token} is not JSON")

    return json.loads(json.dumps(value, allow_nan=False), parse_constant=refuse)


def mlp(seed: int = 3) -> Sequential:
    rng = np.random.default_rng(seed)
    return Sequential(Linear(5, 7, rng=rng), ReLU(), Linear(7, 3, rng=rng))


# --------------------------------------------------------------------------- the lab's four


def test_welford_matches_numpy() -> None:
    samples = np.random.default_rng(1).normal(loc=3.0, scale=7.0, size=1000)
    state: dict[str, float] = {}
    for sample in samples:
        welford_update(state, sample)
    assert state["n"] == 1000
    assert abs(state["mean"] - np.mean(samples)) < 1e-10
    assert abs(state["m2"] / (state["n"] - 1) - np.var(samples, ddof=1)) < 1e-10
    assert (state["min"], state["max"]) == (samples.min(), samples.max())
    assert state["l2"] == abs(samples[-1])

    whole: dict[str, float] = {}
    welford_update(whole, samples.reshape(10, 20, 5))
    assert abs(whole["mean"] - np.mean(samples)) < 1e-10
    assert abs(whole["m2"] / 999 - np.var(samples, ddof=1)) < 1e-10
    assert whole["l2"] == pytest.approx(np.linalg.norm(samples), rel=1e-14)


def test_hook_handle_removes_cleanly() -> None:
    layer = Linear(5, 3, rng=np.random.default_rng(2))
    inspector = Inspector(layer, layer.parameters())
    handle = inspector.register_forward("layer", layer)
    assert isinstance(handle, HookHandle)
    assert (handle.target, handle.kind) == (layer, "forward")
    assert callable(handle.hook_fn)

    layer(np.ones((4, 5)))
    assert inspector.stats["layer"]["n"] == 12
    seen = dict(inspector.stats["layer"])

    handle.remove()
    layer(np.full((4, 5), 9.0))
    assert inspector.stats["layer"] == seen
    handle.remove()  # a second time is no error

    gradient = inspector.register_backward("layer.weight.grad", layer.weight)
    assert (gradient.target, gradient.kind) == (layer.weight, "backward")
    layer(np.ones((4, 5))).sum().backward()
    assert inspector.stats["layer.weight.grad"]["n"] == 15
    gradient.remove()
    layer(np.ones((4, 5))).sum().backward()
    assert inspector.stats["layer.weight.grad"]["n"] == 15


def test_snapshot_serializable() -> None:
    model = mlp()
    inspector = Inspector(model, model.parameters())
    for name, module in zip(("first", 'ReLU "λ"\u2028</script>', "last"), model.layers, strict=True):
        inspector.register_forward(name, module)
    inspector.register_backward("first.weight.grad", model.layers[0].weight)
    model(np.random.default_rng(0).normal(size=(11, 5)).astype(np.float32)).sum().backward()

    snapshot = inspector.snapshot()
    assert strict_json(snapshot) == snapshot
    assert list(snapshot) == ["first", 'ReLU "λ"\u2028</script>', "last", "first.weight.grad"]
    assert snapshot["first"].keys() == KEYS | {"mean_abs"}
    assert snapshot["first.weight.grad"].keys() == KEYS
    assert {type(value) for entry in snapshot.values() for value in entry.values()} == {int, float}


def test_partition_batch_loss() -> None:
    mixed = partition_batch_loss(np.array([1.0, 2.0, 4.0, 9.0]), ["work", "be", "play", "go"])
    assert mixed == (2.5, 5.5)

    regular, irregular = partition_batch_loss(np.array([1.0, 4.0]), ["work", "play"])
    assert regular == 2.5
    assert math.isnan(irregular)


# --------------------------------------------------------------------------- panel 7 with an ignored token


def test_class_losses_leave_out_ignored_tokens() -> None:
    # Probability 1/2 of each target of the regular verbs, 1/4 of the irregular one's; the last token is ignored.
    logits = np.zeros((3, 2, 2))
    logits[2, :, 1] = math.log(3.0)
    targets = np.array([[0, 1], [1, 0], [0, -100]])
    losses = F.cross_entropy(Tensor(logits), targets, reduction="none").value
    counts = (targets != -100).sum(axis=1)
    each = losses.sum(axis=1) / counts
    regular, irregular = partition_batch_loss(each, ["walk", "talk", "see"])
    assert regular == pytest.approx(0.693147, abs=1e-6)
    assert irregular == pytest.approx(1.386294, abs=1e-6)
    assert (2 * regular + irregular) / 3 == pytest.approx(0.924196, abs=1e-6)
    assert partition_batch_loss(each[:2], ["walk", "talk"])[0] == pytest.approx(0.693147, abs=1e-6)


# --------------------------------------------------------------------------- streams


def test_variance_survives_a_large_offset() -> None:
    values = 1e9 + np.array([4.0, 7.0, 13.0, 16.0])
    for state in (stream(values), stream(*values), stream(values[:1], values[1:])):
        assert state["mean"] == 1000000010.0
        assert state["m2"] / state["n"] == 22.5
        assert state["m2"] / (state["n"] - 1) == 30.0


@pytest.mark.parametrize("value", [1783468800000.0, 0.1, -1e-300, 1.79e301, 0.0])
def test_a_constant_stream_has_no_variance_at_all(value: float) -> None:
    for state in (stream(*[value] * 5), stream(np.full(7, value)), stream(np.full((2, 3), value), np.full(11, value))):
        assert state["m2"] == 0.0
        assert state["mean"] == state["min"] == state["max"] == value


def test_one_value_has_variance_zero_and_no_value_leaves_no_statistics() -> None:
    assert stream(2.5) == {"n": 1, "mean": 2.5, "m2": 0.0, "min": 2.5, "max": 2.5, "l2": 2.5}
    assert stream(np.array([])) == {}
    state = stream([3.0, 5.0])
    before = dict(state)
    welford_update(state, np.empty((0, 4), dtype=np.float32))
    assert state == before


def test_updates_take_any_shape_and_float_dtype_and_sum_in_float64() -> None:
    big = np.full(4099, 0.1, dtype=np.float32)
    big[0] = 0.25
    for x in (big, big.reshape(-1, 4099).T, big[::-1], big.astype(np.float64)):
        state = stream(x)
        assert state["n"] == 4099
        assert state["mean"] == pytest.approx(np.mean(big, dtype=np.float64), rel=1e-15)
        assert state["m2"] == pytest.approx(np.var(big, dtype=np.float64) * 4099, rel=1e-12)
    assert stream(np.float16(1.5)) == stream(1.5) == stream(np.array(1.5))
    assert {type(value) for value in stream(np.float32(1.5)).values()} == {int, float}


def test_the_input_is_left_alone() -> None:
    x = np.array([1.0, 5.0, 3.0])
    copy = x.copy()
    welford_update({}, x)
    assert np.array_equal(x, copy)
    a, b = stream([1.0, 2.0]), stream([3.0])
    before = dict(a), dict(b)
    merge(a, b)
    assert (a, b) == before


def test_nan_and_infinity_are_counted_and_kept_out() -> None:
    state = stream([1.0, math.nan, 3.0, math.inf])
    assert (state["n"], state["nan"], state["inf"]) == (2, 1, 1)
    assert (state["mean"], state["m2"] / state["n"], state["min"], state["max"]) == (2.0, 1.0, 1.0, 3.0)
    assert state["l2"] == pytest.approx(math.sqrt(10.0))
    assert "nan" not in stream([1.0])

    welford_update(state, [-math.inf, math.nan])
    assert (state["n"], state["nan"], state["inf"], state["mean"], state["l2"]) == (2, 2, 2, 2.0, 0.0)

    empty = stream([math.nan, math.nan])
    assert empty == {"n": 0, "nan": 2, "inf": 0}
    welford_update(empty, 4.0)
    assert (empty["n"], empty["mean"], empty["nan"]) == (1, 4.0, 2)


# --------------------------------------------------------------------------- merging


def test_merging_gives_the_moments_of_both_streams() -> None:
    state = merge(stream([4.0, 7.0]), stream([13.0, 16.0]))
    assert (state["n"], state["mean"], state["m2"]) == (4, 10.0, 90.0)
    state = merge(stream([1.0, 2.0]), stream([10.0, 20.0, 30.0]))
    assert state["n"] == 5
    assert state["mean"] == pytest.approx(12.6, rel=1e-15)
    assert state["m2"] == pytest.approx(611.2, rel=1e-15)
    assert state["l2"] == stream([10.0, 20.0, 30.0])["l2"]


def test_an_empty_stream_is_the_identity_of_merging() -> None:
    full = stream([1.0, 5.0])
    assert merge(full, {}) == merge({}, full) == full
    assert merge({}, {}) == {}
    assert merge({}, full) is not full


def test_merging_adds_up_the_counts_of_what_is_not_finite() -> None:
    state = merge(stream([math.nan, 1.0]), stream([math.inf, math.nan]))
    assert (state["n"], state["nan"], state["inf"], state["mean"]) == (1, 2, 1, 1.0)
    assert merge({}, stream([math.nan])) == stream([math.nan])
    assert merge(stream([2.0]), stream([math.nan]))["nan"] == 1


def test_one_value_merges_with_a_million() -> None:
    many = np.random.default_rng(5).normal(size=1_000_003)
    for state in (merge(stream(7.25), stream(many)), merge(stream(many), stream(7.25))):
        both = np.append(many, 7.25)
        assert state["n"] == 1_000_004
        assert state["mean"] == pytest.approx(both.mean(), rel=1e-12)
        assert state["m2"] == pytest.approx(both.var() * both.size, rel=1e-12)


def test_no_raw_sum_is_kept_that_could_overflow() -> None:
    batch = stream(np.full(500_000, 1.79e301))
    state: dict[str, float] = {}
    for _ in range(100):
        state = merge(state, batch)
    assert state["n"] == 50_000_000
    assert state["mean"] == pytest.approx(1.79e301, rel=1e-12)
    assert state["m2"] == 0.0

    opposite = merge(stream(1.7e308), stream(-1.7e308))
    assert opposite["mean"] == 0.0
    assert math.isfinite(stream(np.array([1.7e308, 1.6e308, 1.5e308]))["mean"])
    assert stream([3e200, 4e200])["l2"] == pytest.approx(5e200)
    assert stream([3e-200, 4e-200])["l2"] == pytest.approx(5e-200)


def test_every_split_and_order_of_a_stream_agrees() -> None:
    rng = np.random.default_rng(8)
    values = rng.normal(loc=1e6, size=97)
    mean, m2 = values.mean(), values.var() * 97
    for cut in range(98):
        for state in (
            merge(stream(values[:cut]), stream(values[cut:])),
            merge(stream(values[cut:]), stream(values[:cut])),
            stream(values[:cut], *values[cut:]),
        ):
            assert state["n"] == 97
            assert state["mean"] == pytest.approx(mean, rel=1e-12)
            assert state["m2"] == pytest.approx(m2, rel=1e-8)  # an offset of 1e6 leaves ten digits of m2
    centred = values - 1e6
    assert stream(*rng.permutation(centred))["m2"] == pytest.approx(stream(centred)["m2"], rel=1e-12)


# --------------------------------------------------------------------------- the Inspector's arguments


@pytest.mark.parametrize(("name", "value"), [("every", 0), ("spectral_every", -3)])
def test_a_cadence_below_one_is_refused(name: str, value: int) -> None:
    with pytest.raises(ValueError, match=f"{name} must be at least 1; got {value}"):
        Inspector(mlp(), [], **{name: value})  # type: ignore[arg-type]


def test_what_is_no_module_or_parameter_is_refused_by_name() -> None:
    model = mlp()
    with pytest.raises(TypeError, match=r"model must be an autograd_core\.Module; got list"):
        Inspector([], [])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="params must hold Parameters; got Tensor as 'w'"):
        Inspector(model, {"w": Tensor(1.0)})  # type: ignore[dict-item]
    inspector = Inspector(model, model.parameters())
    with pytest.raises(TypeError, match="'p' must name a Module; got Parameter"):
        inspector.register_forward("p", Parameter(1.0))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="'m' must name a Parameter; got ReLU"):
        inspector.register_backward("m", ReLU())  # type: ignore[arg-type]
    assert inspector.handles == []


def test_a_name_stands_for_one_thing() -> None:
    model = mlp()
    inspector = Inspector(model, model.parameters())
    handle = inspector.register_forward("x", model.layers[0])
    assert inspector.register_forward("x", model.layers[0]) is handle
    with pytest.raises(ValueError, match="'x' is in use for another"):
        inspector.register_forward("x", model.layers[2])
    with pytest.raises(ValueError, match="'x' is in use for another"):
        inspector.register_backward("x", model.layers[0].weight)
    assert inspector.handles == [handle]
    model(np.ones((2, 5)))
    handle.remove()
    inspector.register_forward("x", model.layers[2])
    assert inspector.snapshot()["x"]["n"] == 0
    model(np.ones((2, 5)))
    assert inspector.snapshot()["x"]["n"] == 6


def test_statistics_of_what_never_ran_are_absent() -> None:
    class Shortcut(Module):
        def __init__(self) -> None:
            self.inner = Linear(5, 3, rng=np.random.default_rng(0))

        def forward(self, x: np.ndarray) -> Tensor:
            return self.inner.forward(x)

    model = Shortcut()
    inspector = Inspector(model, model.parameters())
    inspector.watch()
    model(np.ones((2, 5))).sum().backward()
    unseen = inspector.snapshot()["inner"]
    assert unseen["n"] == unseen["nan"] == unseen["inf"] == 0
    assert all(unseen[key] is None for key in ("mean", "std", "min", "max", "l2", "mean_abs"))
    assert inspector.snapshot()["Shortcut"]["n"] == 6


def test_two_parameters_cannot_be_one_matrix() -> None:
    model = Linear(3, 4, rng=np.random.default_rng(0))
    other = Linear(3, 4, rng=np.random.default_rng(1))
    inspector = Inspector(model, [])
    inspector.register_backward("W", model.weight)
    with pytest.raises(ValueError, match=r"a name stands for one matrix; 'W' of 'W\.grad' is in use for another, 'W'"):
        inspector.register_backward("W.grad", other.weight)
    assert "W.grad" not in inspector.stats
    # One parameter under both names is one matrix, and a name whose hook is gone is free.
    inspector.register_backward("W.grad", model.weight)
    inspector.remove_all()
    inspector.register_backward("W.grad", other.weight)
    assert list(inspector.measurements()["update_ratio"]) == ["W"]


def test_a_root_whose_class_is_called_like_its_child_is_watched() -> None:
    class head(Module):
        def __init__(self) -> None:
            super().__init__()
            self.head = Linear(3, 2, rng=np.random.default_rng(0))

        def forward(self, x: np.ndarray) -> Tensor:
            return self.head(x)

    model = head()
    with Inspector(model, model.parameters()) as inspector:
        inspector.watch()
        model(np.ones((2, 3)))
        assert list(inspector.snapshot()) == ["(head)", "head", "head.weight.grad", "head.bias.grad"]
