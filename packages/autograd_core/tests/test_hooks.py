"""Hooks observe: when they fire, what they are given, and that nothing changes because of them."""

import copy
import gc
import pickle
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from autograd_core import HookHandle, Linear, Module, Parameter, Sequential, Tensor, after_backward, no_grad
from autograd_core import functional as F
from autograd_core.optim import SGD, AdamW, clip_grad_norm


class Scale(Module):
    """Multiplies by its only weight."""

    def __init__(self, value: float = 2.0) -> None:
        self.weight = Parameter([value])

    def forward(self, x: Any) -> Tensor:
        return F.multiply(self.weight, x)


class Tied(Module):
    """Looks ids up in E and scores the result against E."""

    def __init__(self) -> None:
        self.E = Parameter(np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]))
        self.head = self.E

    def forward(self, ids: Any) -> Tensor:
        return F.embedding(self.E, ids) @ self.head.T


def say(words: list[str], word: str) -> Callable[..., None]:
    return lambda *_: words.append(word)


def test_a_forward_hook_gets_the_module_its_arguments_and_the_output() -> None:
    class Masked(Module):
        def forward(self, x: Tensor, *, mask: np.ndarray | None = None) -> Tensor:
            return x * 2.0

    seen: list[tuple[Any, ...]] = []
    module, mask, x = Masked(), np.ones(3, bool), Tensor(np.ones(3))
    module.register_forward_hook(lambda *arguments: seen.append(arguments))
    out = module(x, mask=mask)
    module(x=x)
    assert seen[0][0] is module
    assert seen[0][1][0] is x
    assert seen[0][2]["mask"] is mask
    assert seen[0][3] is out
    assert seen[1][1] == ()
    assert seen[1][2]["x"] is x


def test_forward_hooks_run_once_each_in_order_of_registration() -> None:
    words: list[str] = []
    module = Scale()
    for word in "abc":
        module.register_forward_hook(say(words, word))
    module.register_forward_hook(say(words, "a again"))
    module(1.0)
    assert words == ["a", "b", "c", "a again"]
    module(1.0)
    assert len(words) == 8


def test_calling_forward_directly_runs_no_hook() -> None:
    words: list[str] = []
    module = Scale()
    module.register_forward_hook(say(words, "a"))
    module.forward(1.0)
    assert words == []


def test_a_forward_that_fails_runs_no_hook() -> None:
    words: list[str] = []
    module = Linear(2, 3, rng=np.random.default_rng(0))
    module.register_forward_hook(say(words, "a"))
    with pytest.raises(ValueError, match="linear"):
        module(np.ones(5))
    assert words == []


def test_forward_hooks_also_run_without_gradients() -> None:
    words: list[str] = []
    module = Scale()
    module.register_forward_hook(say(words, "a"))
    with no_grad():
        module(1.0)
    assert words == ["a"]


def test_hooks_of_a_call_are_those_registered_when_it_began() -> None:
    words: list[str] = []
    module = Scale()

    def a(*_: Any) -> None:
        words.append("a")
        handles["a"].remove()
        handles["c"].remove()
        module.register_forward_hook(say(words, "new"))

    handles = {"a": module.register_forward_hook(a)}
    handles["b"] = module.register_forward_hook(say(words, "b"))
    handles["c"] = module.register_forward_hook(say(words, "c"))
    module(1.0)
    assert words == ["a", "b", "c"]
    module(1.0)
    assert words == ["a", "b", "c", "b", "new"]


def test_gradient_hooks_of_a_backward_are_those_registered_when_they_begin() -> None:
    words: list[str] = []
    first, second, third = Parameter([1.0]), Parameter([2.0]), Parameter([3.0])

    def change_the_others(*_: Any) -> None:
        words.append("first")
        of_second.remove()
        of_first.remove()
        second.register_grad_hook(say(words, "new of second"))
        third.register_grad_hook(say(words, "new of third"))

    of_first = first.register_grad_hook(change_the_others)
    of_second = second.register_grad_hook(say(words, "second"))
    (first + second + third).backward()
    assert words == ["first", "second"]
    (first + second + third).backward()
    assert sorted(words[2:]) == ["new of second", "new of third"]


def test_gradient_hooks_run_once_when_all_gradients_are_whole() -> None:
    first, second = Parameter([3.0]), Parameter([5.0])
    seen: list[tuple[float, float]] = []
    for p in (first, second):
        p.register_grad_hook(lambda *_: seen.append((first.grad.item(), second.grad.item())))
    (first * second + first * first + second).backward()
    assert seen == [(5.0 + 6.0, 3.0 + 1.0)] * 2


def test_a_gradient_hook_gets_the_parameter_and_its_accumulated_grad() -> None:
    p = Parameter([3.0])
    seen: list[float] = []

    def hook(param: Parameter, grad: np.ndarray) -> None:
        assert param is p
        assert grad is p.grad
        seen.append(grad.item())

    p.register_grad_hook(hook)
    for _ in range(3):
        (p * 2.0).backward()
    assert seen == [2.0, 4.0, 6.0]


def test_a_gradient_hook_stays_silent_when_its_parameter_is_not_reached() -> None:
    words: list[str] = []
    p, q = Parameter([1.0]), Parameter([1.0])
    q.register_grad_hook(say(words, "q"))
    (p * 2.0).backward()
    with no_grad():
        q * 2.0
    assert words == []


def test_a_hook_on_a_frozen_parameter_is_silent_until_it_thaws() -> None:
    words: list[str] = []
    p, q = Parameter([1.0]), Parameter([2.0])
    p.requires_grad = False
    p.register_grad_hook(say(words, "p"))
    (p * q).backward()
    assert words == []
    p.requires_grad = True
    (p * q).backward()
    assert words == ["p"]
    late = p * q
    p.requires_grad = False  # frozen between forward and backward
    late.backward()
    assert words == ["p"]


def test_a_tied_parameter_fires_once_with_the_full_gradient() -> None:
    model = Tied()
    seen: list[np.ndarray] = []
    model.E.register_grad_hook(lambda _, grad: seen.append(grad.copy()))
    loss = model([0, 2]).sum()
    loss.backward()
    assert loss.item() == 150.0
    assert len(seen) == 1
    assert seen[0].tolist() == [[15.0, 20.0], [6.0, 8.0], [15.0, 20.0]]
    assert np.array_equal(model.E.grad, seen[0])


@pytest.mark.parametrize("repeat", [1, 2], ids=["once", "listed_twice"])
def test_a_tied_parameter_is_counted_clipped_and_stepped_once(repeat: int) -> None:
    model = Tied()
    assert [name for name, _ in model.named_parameters()] == ["E"]
    assert sum(p.size for p in model.parameters()) == 6
    parameters = list(model.parameters()) * repeat
    optimizer = SGD(parameters, lr=0.1)
    model([0, 2]).sum().backward()
    assert clip_grad_norm(parameters, 1e9) == pytest.approx(36.742346141747674, rel=1e-15)
    optimizer.step()
    np.testing.assert_allclose(model.E.value[0], [-0.5, 0.0], atol=1e-15)


def test_a_hook_that_raises_leaves_nothing_behind() -> None:
    module = Scale()
    before = module(3.0).value
    with pytest.raises(ValueError, match=r"^x$"), module.register_forward_hook(raise_value_error):
        module(3.0)
    assert len(module._hooks) == 0
    assert module.training
    out = module(3.0)
    assert np.array_equal(out.value, before)
    out.backward()
    assert module.weight.grad.tolist() == [3.0]


def raise_value_error(*_: Any) -> None:
    raise ValueError("x")


def test_a_gradient_hook_that_raises_leaves_later_backwards_working() -> None:
    words: list[str] = []
    p = Parameter([2.0])
    handle = p.register_grad_hook(raise_value_error)
    p.register_grad_hook(say(words, "later"))
    with pytest.raises(ValueError, match=r"^x$"):
        (p * 3.0).backward()
    assert p.grad.tolist() == [3.0]
    handle.remove()
    (p * 3.0).backward()
    assert words == ["later"]


def test_a_forward_hook_that_returns_something_is_a_type_error_naming_hook_and_module() -> None:
    def replaces(*_: Any) -> Any:
        return Tensor(0.0)  # falsy: must not pass for None

    module = Scale()
    module.register_forward_hook(replaces)
    with pytest.raises(TypeError, match=r"must return None; <forward hook .*replaces on Scale> returned Tensor"):
        module(5.0)


def test_a_gradient_hook_that_returns_something_is_a_type_error() -> None:
    p = Parameter([1.0])
    p.register_grad_hook(lambda _, grad: grad * 2.0)
    with pytest.raises(TypeError, match=r"backward hook .* on Parameter> returned ndarray"):
        (p * 1.0).backward()


def test_the_output_of_a_hooked_call_is_the_object_that_forward_returned() -> None:
    class Remember(Module):
        def forward(self, x: Tensor) -> Tensor:
            self.made = x * 2.0
            return self.made

    module = Remember()
    module.register_forward_hook(lambda *_: None)
    assert module(Tensor(1.0)) is module.made


@pytest.mark.parametrize("register", [Scale().register_forward_hook, Parameter([1.0]).register_grad_hook])
def test_a_hook_must_be_callable(register: Callable[[Any], HookHandle]) -> None:
    with pytest.raises(TypeError, match="hook must be callable; got int"):
        register(5)


def test_a_handle_knows_what_it_is_and_can_be_removed_twice() -> None:
    words: list[str] = []
    hook = say(words, "a")
    module, p = Scale(), Parameter([1.0])
    for target, handle, kind in (
        (module, module.register_forward_hook(hook), "forward"),
        (p, p.register_grad_hook(hook), "backward"),
    ):
        assert handle.target is target
        assert handle.hook_fn is hook
        assert handle.kind == kind
        assert handle.active
        handle.remove()
        handle.remove()
        assert not handle.active
    module(1.0)
    (p * 1.0).backward()
    assert words == []


def test_a_handle_in_with_removes_its_hook_also_after_an_exception() -> None:
    words: list[str] = []
    module = Scale()
    with module.register_forward_hook(say(words, "a")) as handle:
        assert isinstance(handle, HookHandle)
        module(1.0)
    with pytest.raises(KeyError), module.register_forward_hook(say(words, "b")):
        raise KeyError
    module(1.0)
    assert words == ["a"]


def test_removing_one_observers_hooks_leaves_those_of_others() -> None:
    words: list[str] = []
    module = Scale()
    module.register_forward_hook(say(words, "U"))
    module.weight.register_grad_hook(say(words, "G"))
    outer = [module.register_forward_hook(say(words, "outer")), module.weight.register_grad_hook(say(words, "outer"))]
    inner = [module.register_forward_hook(say(words, "inner")), module.weight.register_grad_hook(say(words, "inner"))]
    module(1.0).backward()
    for handle in inner:
        handle.remove()
    module(1.0).backward()
    for handle in outer:
        handle.remove()
    module(1.0).backward()
    assert words == ["U", "outer", "inner", "G", "outer", "inner", "U", "outer", "G", "outer", "U", "G"]


def test_a_handle_does_not_keep_its_target_alive() -> None:
    gc.disable()
    try:
        module = Scale()
        handles = [module.register_forward_hook(print), module.weight.register_grad_hook(print)]
        assert "on Scale" in repr(handles[0])
        watched = weakref.ref(module), weakref.ref(module.weight)
        del module
        assert [ref() for ref in watched] == [None, None]
    finally:
        gc.enable()
    for handle in handles:
        assert handle.target is None
        assert not handle.active
        assert "a target that is gone" in repr(handle)
        handle.remove()


def test_copies_and_pickles_carry_no_hooks_and_leave_the_originals_alone() -> None:
    words: list[str] = []
    model = Tied()
    model.register_forward_hook(lambda *_: words.append("forward"))
    model.E.register_grad_hook(lambda *_: words.append("grad"))
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        for _ in range(5):
            twin([0, 2]).sum().backward()
        assert words == []
        assert twin.head is twin.E
        assert not np.shares_memory(twin.E.value, model.E.value)
        assert model.E.grad is None
    model([0, 2]).sum().backward()
    assert words == ["forward", "grad"]


def test_a_copy_can_be_hooked_on_its_own() -> None:
    words: list[str] = []
    twin = copy.deepcopy(Scale())
    twin.register_forward_hook(say(words, "f"))
    twin.weight.register_grad_hook(say(words, "g"))
    twin(1.0).backward()
    assert words == ["f", "g"]


def test_after_backward_runs_once_after_the_last_hook_in_order_of_asking() -> None:
    words: list[str] = []
    first, second = Parameter([1.0]), Parameter([2.0])

    def whole() -> None:
        words.append(f"whole {first.grad.item()} {second.grad.item()}")

    def ask(param: Parameter, grad: np.ndarray) -> None:
        words.append("hook")
        after_backward(whole)
        after_backward(finished)

    def finished() -> None:
        words.append("finished")

    first.register_grad_hook(ask)
    second.register_grad_hook(ask)
    (first * second).backward()
    assert words == ["hook", "hook", "whole 2.0 1.0", "finished"]
    (first * 3.0).backward()
    assert words[4:] == ["hook", "whole 5.0 1.0", "finished"]


def test_after_backward_runs_also_when_a_hook_raises() -> None:
    words: list[str] = []
    p = Parameter([1.0])
    p.register_grad_hook(lambda *_: after_backward(lambda: words.append("after")))
    handle = p.register_grad_hook(raise_value_error)
    with pytest.raises(ValueError, match=r"^x$"):
        (p * 1.0).backward()
    assert words == ["after"]
    handle.remove()
    (p * 1.0).backward()
    assert words == ["after", "after"]


def test_after_backward_belongs_to_the_innermost_backward() -> None:
    words: list[str] = []
    outer, inner = Parameter([1.0]), Parameter([1.0])
    inner.register_grad_hook(lambda *_: after_backward(lambda: words.append("inner done")))

    def nested(*_: Any) -> None:
        after_backward(lambda: words.append("outer done"))
        (inner * 1.0).backward()
        words.append("hook done")

    outer.register_grad_hook(nested)
    (outer * 1.0).backward()
    assert words == ["inner done", "hook done", "outer done"]


def test_after_backward_outside_a_gradient_hook_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="only be called from a gradient hook"):
        after_backward(lambda: None)
    p = Parameter([1.0])
    p.register_grad_hook(lambda *_: None)
    (p * 1.0).backward()
    with pytest.raises(RuntimeError, match="only be called from a gradient hook"):
        after_backward(lambda: None)


def trained(hooked: bool) -> tuple[list[bytes], int]:
    """The bits of a small model after 20 steps, and how often hooks ran."""
    rng = np.random.default_rng(7)
    model = Sequential(Linear(3, 5, rng=rng), Linear(5, 2, rng=rng))
    optimizer = AdamW(model.parameters(), lr=0.01)
    sums: list[float] = []
    if hooked:
        for module in model.modules():
            module.register_forward_hook(lambda m, a, k, out: sums.append(float(out.value.sum())))
        for parameter in model.parameters():
            parameter.register_grad_hook(lambda p, grad: sums.append(float(grad.sum())))
    for _ in range(20):
        loss = F.cross_entropy(model(rng.standard_normal((7, 3))), rng.integers(0, 2, 7))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return [p.value.tobytes() for p in model.parameters()] + [loss.value.tobytes()], len(sums)


def test_a_hooked_training_run_has_the_same_bits_as_a_plain_one() -> None:
    plain, none = trained(hooked=False)
    watched, calls = trained(hooked=True)
    assert (none, calls) == (0, 20 * (3 + 4))
    assert watched == plain
