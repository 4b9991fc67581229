"""Optimisers: their formulas, whom they move, whose gradients they use, and resuming bit for bit."""

import copy
import pickle
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest
from autograd_core import Dropout, Linear, Module, Parameter, Sequential
from autograd_core import functional as F
from autograd_core.optim import SGD, AdamW, Optimizer, WarmupCosine, clip_grad_norm, decay_groups

Make = Callable[[Iterable[Any]], Optimizer]

BOTH = pytest.mark.parametrize(
    "make",
    [lambda params: AdamW(params, lr=0.1, weight_decay=0.3), lambda params: SGD(params, 0.1, 0.9, 0.3)],
    ids=["AdamW", "SGD"],
)


def adamw_by_hand(
    p: np.ndarray, grads: list[np.ndarray], lr: float, betas: tuple[float, float], eps: float, decay: float
) -> np.ndarray:
    m = v = np.zeros_like(p)
    for t, g in enumerate(grads, start=1):
        p = p * (1 - lr * decay)
        m = betas[0] * m + (1 - betas[0]) * g
        v = betas[1] * v + (1 - betas[1]) * g**2
        p = p - lr * (m / (1 - betas[0] ** t)) / (np.sqrt(v / (1 - betas[1] ** t)) + eps)
    return p


def sgd_by_hand(p: np.ndarray, grads: list[np.ndarray], lr: float, momentum: float, decay: float) -> np.ndarray:
    buffer = None
    for g in grads:
        g = g + decay * p
        buffer = g if buffer is None else momentum * buffer + g
        p = p - lr * buffer
    return p


def run(optimizer: Optimizer, parameters: list[Parameter], grads: list[list[np.ndarray]]) -> None:
    for step in grads:
        for p, g in zip(parameters, step, strict=True):
            p.grad = g
        optimizer.step()


@pytest.mark.parametrize("betas", [(0.9, 0.999), (0.0, 0.0), (0.5, 0.9)])
@pytest.mark.parametrize("decay", [0.0, 0.3])
def test_adamw_follows_its_formula(betas: tuple[float, float], decay: float, rng: np.random.Generator) -> None:
    starts = [rng.standard_normal(shape) for shape in ((3, 5), (7,), ())]
    grads = [[rng.standard_normal(np.shape(s)) for s in starts] for _ in range(5)]
    parameters = [Parameter(s) for s in starts]
    run(AdamW(parameters, lr=0.07, betas=betas, eps=1e-3, weight_decay=decay), parameters, grads)
    for i, (p, start) in enumerate(zip(parameters, starts, strict=True)):
        expected = adamw_by_hand(start, [g[i] for g in grads], 0.07, betas, 1e-3, decay)
        np.testing.assert_allclose(p.value, expected, rtol=1e-12)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("decay", [0.0, 0.3])
def test_sgd_follows_its_formula(momentum: float, decay: float, rng: np.random.Generator) -> None:
    starts = [rng.standard_normal(shape) for shape in ((3, 5), (7,), ())]
    grads = [[rng.standard_normal(np.shape(s)) for s in starts] for _ in range(5)]
    parameters = [Parameter(s) for s in starts]
    run(SGD(parameters, lr=0.07, momentum=momentum, weight_decay=decay), parameters, grads)
    for i, (p, start) in enumerate(zip(parameters, starts, strict=True)):
        expected = sgd_by_hand(start, [g[i] for g in grads], 0.07, momentum, decay)
        np.testing.assert_allclose(p.value, expected, rtol=1e-12)


def test_the_first_step_of_adamw_is_the_learning_rate_in_the_gradients_direction() -> None:
    p = Parameter([1.0, 1.0])
    p.grad = [1e-3, -1e3]
    AdamW([p], lr=0.1, weight_decay=0.0).step()
    np.testing.assert_allclose(p.value, [0.9, 1.1], rtol=1e-4)


def test_updates_longer_than_a_piece_have_no_seam(rng: np.random.Generator) -> None:
    # 70,000 + 3 + 70,000 elements are worked through in pieces of 65,536 that cross the parameters.
    starts = [rng.standard_normal(n) for n in (70_000, 3, 70_000)]
    grads = [[rng.standard_normal(n) for n in (70_000, 3, 70_000)] for _ in range(3)]
    for make, by_hand in (
        (
            lambda params: AdamW(params, 0.1, weight_decay=0.3),
            lambda p, g: adamw_by_hand(p, g, 0.1, (0.9, 0.999), 1e-8, 0.3),
        ),
        (lambda params: SGD(params, 0.1, 0.9, 0.3), lambda p, g: sgd_by_hand(p, g, 0.1, 0.9, 0.3)),
    ):
        parameters = [Parameter(s) for s in starts]
        run(make(parameters), parameters, grads)
        for i, (p, start) in enumerate(zip(parameters, starts, strict=True)):
            np.testing.assert_allclose(p.value, by_hand(start, [g[i] for g in grads]), rtol=1e-9, atol=1e-12)


def test_groups_have_their_own_settings_and_share_the_defaults() -> None:
    a, b = Parameter([1.0]), Parameter([1.0])
    optimizer = SGD([{"params": [a], "lr": 0.5}, {"params": iter([b]), "weight_decay": 1.0}], lr=0.1)
    for p in (a, b):
        p.grad = [1.0]
    optimizer.step()
    assert a.value.tolist() == [0.5]
    assert b.value.tolist() == [0.8]
    assert optimizer.lr == 0.5
    assert [group["lr"] for group in optimizer.param_groups] == [0.5, 0.1]


def test_setting_the_learning_rate_sets_it_in_all_groups() -> None:
    a, b = Parameter([1.0]), Parameter([1.0])
    optimizer = SGD([{"params": [a], "lr": 0.5}, {"params": [b]}], lr=0.1)
    optimizer.lr = 0.25
    for p in (a, b):
        p.grad = [1.0]
    optimizer.step()
    assert a.value.tolist() == b.value.tolist() == [0.75]


def test_a_group_may_be_changed_between_steps() -> None:
    p = Parameter([1.0])
    optimizer = SGD([p], lr=0.1)
    optimizer.param_groups[0]["weight_decay"] = 1.0
    p.grad = [0.0]
    optimizer.step()
    assert p.value.tolist() == [0.9]


def test_decay_groups_spare_arrays_of_fewer_than_two_axes(rng: np.random.Generator) -> None:
    model = Sequential(Linear(3, 5, rng=rng), Linear(5, 2, rng=rng))
    decayed, spared = decay_groups(model, 0.1)
    assert [p.shape for p in decayed["params"]] == [(3, 5), (5, 2)]
    assert [p.shape for p in spared["params"]] == [(5,), (2,)]
    assert (decayed["weight_decay"], spared["weight_decay"]) == (0.1, 0.0)
    optimizer = AdamW([decayed, spared], lr=0.5)
    for p in model.parameters():
        p.value = np.ones(p.shape)
        p.grad = np.zeros(p.shape)
    optimizer.step()
    assert [p.value.flat[0] for p in model.parameters()] == [0.95, 1.0, 0.95, 1.0]


def test_decay_groups_of_a_model_with_only_matrices_have_an_empty_group(rng: np.random.Generator) -> None:
    model = Linear(3, 5, bias=False, rng=rng)
    optimizer = AdamW(decay_groups(model, 0.1), lr=0.1)
    model.weight.grad = np.ones((3, 5))
    optimizer.step()
    assert len(optimizer.param_groups) == 2


@BOTH
def test_a_parameter_given_twice_is_used_once(make: Make) -> None:
    once, twice = Parameter([1.0, 2.0]), Parameter([1.0, 2.0])
    run(make([once]), [once], [[np.ones(2)]] * 3)
    run(make([twice, twice]), [twice], [[np.ones(2)]] * 3)
    assert np.array_equal(once.value, twice.value)
    grouped = Parameter([1.0, 2.0])
    run(make([{"params": [grouped]}, {"params": [grouped], "lr": 99.0}]), [grouped], [[np.ones(2)]] * 3)
    assert np.array_equal(once.value, grouped.value)


@BOTH
def test_frozen_parameters_are_untouched_also_by_decay_until_they_thaw(make: Make) -> None:
    frozen, other = Parameter([1.0, 2.0]), Parameter([1.0, 2.0])
    optimizer = make([other, frozen, Parameter([3.0])])
    frozen.grad = np.ones(2)
    frozen.requires_grad = False
    run(optimizer, [other], [[np.ones(2)]] * 2)
    assert frozen.value.tolist() == [1.0, 2.0]
    frozen.requires_grad = True
    run(optimizer, [frozen], [[np.ones(2)]])
    fresh = Parameter([1.0, 2.0])
    run(make([fresh]), [fresh], [[np.ones(2)]])
    assert np.array_equal(frozen.value, fresh.value)  # its own count of steps, not the optimiser's


@BOTH
def test_parameters_without_a_gradient_are_untouched_and_count_no_step(make: Make, rng: np.random.Generator) -> None:
    starts = [rng.standard_normal(3) for _ in range(4)]
    pattern = [(1, 1, 0, 1), (0, 1, 1, 1), (0, 0, 0, 0), (1, 1, 1, 1), (1, 0, 1, 1)]
    grads = rng.standard_normal((len(pattern), 4, 3))
    together = [Parameter(s) for s in starts]
    optimizer = make(together)
    for present, step in zip(pattern, grads, strict=True):
        for p, here, g in zip(together, present, step, strict=True):
            p.grad = g if here else None
        optimizer.step()
    for i, start in enumerate(starts):
        alone = Parameter(start)
        run(make([alone]), [alone], [[g[i]] for g, present in zip(grads, pattern, strict=True) if present[i]])
        np.testing.assert_allclose(together[i].value, alone.value, rtol=1e-14)


@BOTH
def test_a_gradient_of_an_earlier_step_is_not_used_again(make: Make) -> None:
    a, b = Parameter([1.0]), Parameter([1.0])
    optimizer = make([a, b])
    (a * b).backward()
    optimizer.step()
    optimizer.zero_grad()
    assert a.grad is None
    assert b.grad is None
    kept = b.value.copy()
    (a * 2.0).backward()
    optimizer.step()
    assert np.array_equal(b.value, kept)


@BOTH
def test_gradients_of_several_backwards_are_summed(make: Make) -> None:
    a, b = Parameter([1.0, 2.0]), Parameter([1.0, 2.0])
    one, two = make([a]), make([b])
    (a * 3.0).sum().backward()
    (a * 4.0).sum().backward()
    (b * 7.0).sum().backward()
    one.step()
    two.step()
    assert np.array_equal(a.value, b.value)


@BOTH
def test_gradients_assigned_at_any_time_are_the_ones_used(make: Make) -> None:
    expected = Parameter([1.0, 2.0])
    run(make([expected]), [expected], [[np.array([5.0, -5.0])]])
    before, after_backward, changed = Parameter([1.0, 2.0]), Parameter([1.0, 2.0]), Parameter([1.0, 2.0])
    before.grad = [5.0, -5.0]
    optimizer = make([before, after_backward, changed])
    ((after_backward + changed) * 3.0).sum().backward()
    after_backward.grad = [5.0, -5.0]
    changed.grad[...] = [5.0, -5.0]
    optimizer.step()
    for p in (before, after_backward, changed):
        assert np.array_equal(p.value, expected.value)


@BOTH
def test_a_step_changes_no_gradient_and_moves_no_array(make: Make) -> None:
    p = Parameter([1.0, 2.0])
    home = p.value
    optimizer = make([p])
    (p * p).sum().backward()
    optimizer.step()
    assert p.grad.tolist() == [2.0, 4.0]
    assert p.value is home
    assert home.tolist() != [1.0, 2.0]


def test_gradients_of_one_optimiser_share_no_memory_with_each_other() -> None:
    a, b = Parameter([1.0, 2.0]), Parameter([1.0, 2.0])
    SGD([a, b], lr=0.1)
    (a * b).sum().backward()
    assert not np.shares_memory(a.grad, b.grad)
    a.grad[...] = 0.0
    assert b.grad.tolist() == [1.0, 2.0]


def test_two_optimisers_on_one_model_both_step_with_its_gradients() -> None:
    p, q = Parameter([1.0, 2.0]), Parameter([3.0])
    first = SGD([p, q], lr=0.1)
    second = SGD([q, p], lr=0.01)  # houses the gradients now
    for _ in range(2):
        first.zero_grad()
        (p * 5.0).sum().backward()
        (q * 7.0).sum().backward()
        first.step()
        second.step()
    np.testing.assert_allclose(p.value, np.array([1.0, 2.0]) - 2 * 0.11 * 5.0, rtol=1e-14)
    np.testing.assert_allclose(q.value, [3.0 - 2 * 0.11 * 7.0], rtol=1e-14)


def test_an_optimiser_for_each_half_of_a_model() -> None:
    p, q = Parameter([1.0]), Parameter([1.0])
    for_p, for_q = SGD([p], lr=0.1), AdamW([q], lr=0.1, weight_decay=0.0)
    (p * 2.0 + q * 3.0).backward()
    for_p.step()
    assert q.value.tolist() == [1.0]
    for_q.step()
    assert p.value.tolist() == [0.8]
    np.testing.assert_allclose(q.value, [0.9], rtol=1e-7)


def test_a_copied_parameter_leaves_the_optimiser_of_the_original() -> None:
    p = Parameter([1.0])
    optimizer = SGD([p], lr=0.1)
    twin = copy.deepcopy(p)
    (twin * 5.0).backward()
    optimizer.step()
    assert p.grad is None
    assert p.value.tolist() == [1.0]


def test_a_parameter_without_elements_is_no_obstacle() -> None:
    p, empty = Parameter([1.0]), Parameter(np.zeros((0, 3)))
    optimizer = AdamW([empty, p], lr=0.1, weight_decay=0.0)
    ((p * 2.0).sum() + empty.sum()).backward()
    assert clip_grad_norm([empty, p], 100.0) == 2.0
    optimizer.step()
    np.testing.assert_allclose(p.value, [0.9], rtol=1e-7)


@BOTH
def test_float32_stays_float32_with_the_steps_of_float64(make: Make, rng: np.random.Generator) -> None:
    start, grads = rng.standard_normal((3, 5)), rng.standard_normal((10, 3, 5))
    parameters = Parameter(start.astype(np.float32)), Parameter(start)
    optimizers = [make([p]) for p in parameters]
    schedule = WarmupCosine(0.1, 0.01, 3, 10)
    for step, g in enumerate(grads):
        for p, optimizer in zip(parameters, optimizers, strict=True):
            p.grad = g.astype(p.dtype)
            clip_grad_norm([p], 1.0)
            optimizer.lr = np.float64(schedule(step))  # a NumPy scalar must not widen either
            optimizer.step()
    narrow, wide = parameters
    assert narrow.dtype == narrow.grad.dtype == np.float32
    state = optimizers[0].state_dict()["parameters"][0]
    assert all(array.dtype == np.float32 for name, array in state.items() if name != "steps")
    np.testing.assert_allclose(narrow.value, wide.value, rtol=1e-4, atol=1e-5)


@BOTH
def test_parameters_of_both_dtypes_in_one_optimiser(make: Make) -> None:
    narrow, wide, last = Parameter(np.ones(2, np.float32)), Parameter(np.ones(3)), Parameter(np.ones(5, np.float32))
    run(
        make([narrow, wide, last]), [narrow, wide, last], [[np.ones(2, np.float32), np.ones(3), np.ones(5, np.float32)]]
    )
    alone = Parameter([1.0])
    run(make([alone]), [alone], [[np.ones(1)]])
    for p in (narrow, wide, last):
        np.testing.assert_allclose(p.value, np.full(p.shape, alone.value[0]), rtol=1e-6)
    assert [p.dtype for p in (narrow, wide, last)] == [np.float32, np.float64, np.float32]


class Run:
    """A small model with dropout, clipping, two groups and a parameter that sometimes gets no gradient."""

    def __init__(self, kind: str) -> None:
        rng = np.random.default_rng(11)
        self.model = Sequential(
            Linear(3, 7, rng=rng), Dropout(0.3, rng=np.random.default_rng(12)), Linear(7, 2, rng=rng)
        )
        self.extra = Parameter(np.array([1.0]))
        groups = [*decay_groups(self.model, 0.1), {"params": [self.extra]}]
        self.optimizer: Optimizer = AdamW(groups, lr=0.01) if kind == "AdamW" else SGD(groups, 0.01, momentum=0.9)

    def steps(self, first: int, last: int) -> list[bytes]:
        losses = []
        for step in range(first, last):
            batch = np.random.default_rng([13, step])
            loss = F.cross_entropy(self.model(batch.standard_normal((5, 3))), batch.integers(0, 2, 5))
            if step % 3 == 0:
                loss = loss * self.extra
            self.optimizer.zero_grad()
            loss.sum().backward()
            clip_grad_norm([*self.model.parameters(), self.extra], 0.5)
            self.optimizer.lr = 0.01 / (step + 1)
            self.optimizer.step()
            losses.append(loss.value.tobytes())
        return losses

    def bits(self) -> list[bytes]:
        return [p.value.tobytes() for p in (*self.model.parameters(), self.extra)]


@pytest.mark.parametrize("kind", ["AdamW", "SGD"])
def test_a_resumed_run_continues_bit_for_bit(kind: str) -> None:
    whole = Run(kind)
    expected = whole.steps(0, 20)

    stopped = Run(kind)
    first_half = stopped.steps(0, 10)
    saved = (
        stopped.model.state_dict(),
        stopped.extra.value.copy(),
        stopped.optimizer.state_dict(),
        copy.deepcopy(stopped.model.layers[1].rng.bit_generator.state),
    )
    stopped.steps(10, 13)  # must not reach what was saved

    resumed = Run(kind)
    resumed.model.load_state_dict(saved[0])
    resumed.extra.value = saved[1]
    resumed.optimizer.load_state_dict(saved[2])
    resumed.model.layers[1].rng.bit_generator.state = saved[3]
    assert first_half + resumed.steps(10, 20) == expected
    assert resumed.bits() == whole.bits()
    theirs, ours = whole.optimizer.state_dict(), resumed.optimizer.state_dict()
    assert theirs["groups"] == ours["groups"]
    for a, b in zip(theirs["parameters"], ours["parameters"], strict=True):
        assert a.keys() == b.keys()
        assert all(np.array_equal(a[name], b[name]) for name in a)


def test_a_state_restores_the_settings_of_the_groups() -> None:
    p = Parameter([1.0])
    optimizer = AdamW([p], lr=0.1, betas=(0.5, 0.6), eps=1e-3, weight_decay=0.2)
    other = AdamW([Parameter([1.0])], lr=9.0)
    other.load_state_dict(optimizer.state_dict())
    group = other.param_groups[0]
    assert (group["lr"], group["betas"], group["eps"], group["weight_decay"]) == (0.1, (0.5, 0.6), 1e-3, 0.2)


def altered(**changes: Any) -> dict[str, Any]:
    state = AdamW([{"params": [Parameter([1.0, 2.0])]}, {"params": [Parameter([3.0])]}], lr=0.5).state_dict()
    return {**state, **changes}


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (SGD([Parameter([1.0])], lr=0.1).state_dict(), "state must be of AdamW; got SGD"),
        ({}, r"it has no \["),
        (altered(groups=[]), "needs 2 groups and 2 parameters; got 0 and 2"),
        (altered(parameters=[]), "got 2 and 0"),
        (
            altered(parameters=[{"steps": 1, "m": np.ones(2), "v": np.ones(2)}, {"steps": 1, "m": np.ones(2)}]),
            "parameter 1 needs 'm' of 1 elements; got 2",
        ),
        (
            altered(parameters=[{"steps": 1, "m": np.ones(2), "v": np.ones(2)}, {"steps": 1, "m": np.ones(1)}]),
            "parameter 1 needs 'v' of 1 elements; got none",
        ),
    ],
)
def test_a_state_that_does_not_fit_is_refused_and_nothing_is_written(state: dict[str, Any], message: str) -> None:
    optimizer = AdamW([{"params": [Parameter([1.0, 2.0])]}, {"params": [Parameter([3.0])]}], lr=0.1)
    with pytest.raises(ValueError, match=message):
        optimizer.load_state_dict(state)
    assert optimizer.lr == 0.1
    assert all(not entry["m"].any() and entry["steps"] == 0 for entry in optimizer.state_dict()["parameters"])


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: SGD([], lr=0.1), ValueError, "SGD: needs at least one parameter; got none"),
        (lambda: AdamW([{"params": []}], lr=0.1), ValueError, "AdamW: needs at least one parameter; got none"),
        (lambda: SGD([np.ones(2)], lr=0.1), TypeError, "optimises Parameters; got ndarray. Pass model.parameters"),
        (lambda: SGD(Parameter([1.0, 2.0]), lr=0.1), TypeError, "got Tensor"),
        (lambda: SGD({"a": Parameter([1.0])}, lr=0.1), TypeError, "got str"),
        (lambda: SGD([{"lr": 1.0}], lr=0.1), TypeError, r"a group is a dict with \"params\"; got \['lr'\]"),
        (lambda: SGD([{"params": [Parameter(1.0)]}, Parameter(2.0)], lr=0.1), TypeError, "got Parameter"),
        (lambda: SGD([Parameter(2.0), {"params": [Parameter(1.0)]}], lr=0.1), TypeError, "got Parameter"),
        (
            lambda: SGD([{"params": [Parameter(1.0)], "beta": 0.9}], lr=0.1),
            ValueError,
            r"a group may set \['lr', 'momentum', 'weight_decay'\]; got unknown \['beta'\]",
        ),
        (lambda: SGD([Parameter(1.0)], lr=-0.1), ValueError, "SGD: lr must be at least 0; got -0.1"),
        (lambda: AdamW([Parameter(1.0)], lr=float("nan")), ValueError, "lr must be at least 0; got nan"),
        (lambda: AdamW([Parameter(1.0)], 0.1, weight_decay=-1), ValueError, "weight_decay must be at least 0; got -1"),
        (
            lambda: AdamW([Parameter(1.0)], 0.1, betas=(0.9, 1.0)),
            ValueError,
            r"betas must be in \[0, 1\), two numbers; got \(0.9, 1",
        ),
        (lambda: AdamW([Parameter(1.0)], 0.1, betas=(0.9,)), ValueError, r"two numbers; got \(0.9,\)"),
        (lambda: AdamW([Parameter(1.0)], 0.1, eps=-1.0), ValueError, "AdamW: eps must be at least 0; got -1.0"),
        (lambda: decay_groups(Linear(2, 2), -1.0), ValueError, "decay_groups: weight_decay must be at least 0; got -1"),
        (lambda: SGD([Parameter(1.0)], 0.1, momentum=1.0), ValueError, r"momentum must be in \[0, 1\); got 1.0"),
    ],
)
def test_what_does_not_fit_is_an_error_that_names_it(make: Callable[[], Any], error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        make()


def test_the_base_class_has_no_update_of_its_own() -> None:
    p = Parameter([1.0])
    p.grad = [1.0]
    with pytest.raises(NotImplementedError):
        Optimizer([p], {"lr": 0.1, "weight_decay": 0.0}).step()


def test_any_iterable_of_parameters_is_taken(rng: np.random.Generator) -> None:
    model: Module = Linear(3, 5, rng=rng)
    for params in (model.parameters(), list(model.parameters()), dict.fromkeys(model.parameters()).keys()):
        optimizer = SGD(params, lr=0.1)
        assert sum(len(group["params"]) for group in optimizer.param_groups) == 2


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda pair: pickle.loads(pickle.dumps(pair))])
@pytest.mark.parametrize("make", [lambda ps: SGD(ps, lr=0.1, momentum=0.9), lambda ps: AdamW(ps, lr=0.1)])
def test_a_copied_optimiser_goes_on_as_the_original_and_leaves_it_alone(copied: Any, make: Any) -> None:
    parameters = [Parameter([1.0, 2.0]), Parameter([[3.0]])]
    optimizer = make(parameters)
    (parameters[0] * parameters[1]).sum().backward()
    optimizer.step()
    twins, twin = copied((parameters, optimizer))
    before = [p.value.copy() for p in parameters]
    for step in range(3):
        for ps, opt in ((parameters, optimizer), (twins, twin)):
            opt.zero_grad()
            (ps[0] * ps[1] * (step + 1.0)).sum().backward()
            opt.step()
            if ps is twins and step == 0:
                assert all(np.any(p.value != b) for p, b in zip(twins, before, strict=True))
        for p, q in zip(parameters, twins, strict=True):
            np.testing.assert_array_equal(p.value, q.value)
    twins[0].grad[...] = 100.0
    assert not np.shares_memory(twins[0].grad, parameters[0].grad)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda state: state.pop("groups"), r"it has no \['groups'\]"),
        (lambda state: state["parameters"][1].pop("steps"), "parameter 1 needs 'steps'"),
        (lambda state: state["groups"][0].pop("lr"), "each group needs the settings"),
    ],
)
def test_a_state_that_lacks_something_is_refused_and_nothing_is_written(spoil: Any, message: str) -> None:
    optimizer = AdamW([Parameter([1.0]), Parameter([2.0])], lr=0.1)
    state = AdamW([Parameter([1.0]), Parameter([2.0])], lr=77.0).state_dict()
    spoil(state)
    with pytest.raises(ValueError, match=message):
        optimizer.load_state_dict(state)
    assert optimizer.lr == 0.1
