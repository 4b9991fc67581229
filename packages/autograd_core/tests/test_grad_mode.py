"""`no_grad`: nested, through exceptions, as a decorator, and in threads, contexts and generators."""

import asyncio
import contextvars
import threading
from collections.abc import AsyncIterator, Iterator

import numpy as np
import pytest
from autograd_core import Parameter, Tensor, is_grad_enabled, no_grad


def test_nothing_is_recorded_inside_and_recording_resumes_after() -> None:
    p = Parameter([3.0])
    with no_grad():
        assert not is_grad_enabled()
        inside = p * 2.0
    outside = p * 2.0
    assert not inside.requires_grad
    assert outside.requires_grad
    assert inside.value == outside.value


def test_new_parameters_still_require_gradients_inside() -> None:
    with no_grad():
        assert Parameter([1.0]).requires_grad
        assert Tensor([1.0], requires_grad=True).requires_grad


def test_blocks_nest_and_one_object_may_be_entered_inside_itself() -> None:
    block = no_grad()
    with block:
        with block, no_grad():
            assert not is_grad_enabled()
        assert not is_grad_enabled()
    assert is_grad_enabled()


def test_an_exception_restores_the_mode() -> None:
    with pytest.raises(KeyError), no_grad():
        raise KeyError
    assert is_grad_enabled()


def test_as_a_decorator_it_covers_each_call() -> None:
    @no_grad()
    def evaluate(depth: int) -> bool:
        """Say whether recording is on, after calling itself."""
        if depth:
            assert not evaluate(depth - 1)
        return is_grad_enabled()

    assert evaluate(2) is False
    assert is_grad_enabled()
    assert evaluate.__name__ == "evaluate"


def test_a_decorated_function_that_raises_restores_the_mode() -> None:
    @no_grad()
    def fail() -> None:
        raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert is_grad_enabled()


def test_backward_works_inside() -> None:
    p = Parameter([3.0])
    loss = p * p
    with no_grad():
        loss.backward()
    assert p.grad == np.array([6.0])


def test_a_thread_starts_with_recording_on_whatever_its_parent_does() -> None:
    found: list[bool] = []
    with no_grad():
        thread = threading.Thread(target=lambda: found.append(is_grad_enabled()))
        thread.start()
        thread.join()
        assert found == [True]
        assert not is_grad_enabled()


def test_a_thread_that_switches_it_off_disturbs_no_other() -> None:
    entered, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with no_grad():
            entered.set()
            leave.wait(10)

    thread = threading.Thread(target=hold)
    thread.start()
    assert entered.wait(10)
    assert is_grad_enabled()
    assert (Parameter([1.0]) * 2.0).requires_grad
    leave.set()
    thread.join()


def test_one_decorated_function_may_run_in_two_threads_at_once() -> None:
    # The first to enter leaves first, while the second is still inside.
    inside = {name: threading.Event() for name in "ab"}
    leave = {name: threading.Event() for name in "ab"}
    found: list[tuple[str, bool]] = []

    @no_grad()
    def wait(name: str) -> None:
        inside[name].set()
        assert leave[name].wait(10)
        found.append((name, is_grad_enabled()))

    def call(name: str) -> None:
        wait(name)
        found.append((name, is_grad_enabled()))

    threads = {name: threading.Thread(target=call, args=name) for name in "ab"}
    for name, thread in threads.items():
        thread.start()
        assert inside[name].wait(10)
    for name, thread in threads.items():
        leave[name].set()
        thread.join()
    assert found == [("a", False), ("a", True), ("b", False), ("b", True)]


def test_tasks_do_not_disturb_each_other() -> None:
    async def off() -> None:
        with no_grad():
            await asyncio.sleep(0.01)
            assert not is_grad_enabled()

    async def on() -> None:
        await asyncio.sleep(0.001)
        assert is_grad_enabled()

    async def both() -> None:
        await asyncio.gather(off(), on())

    asyncio.run(both())
    assert is_grad_enabled()


def test_another_context_has_its_own_mode() -> None:
    context = contextvars.copy_context()
    with no_grad():
        assert context.run(is_grad_enabled)


def test_a_generator_may_hold_the_block_open_between_its_steps_in_its_own_context() -> None:
    def batches() -> Iterator[bool]:
        with no_grad():
            yield is_grad_enabled()

    context = contextvars.copy_context()
    generator = batches()
    assert context.run(next, generator) is False
    assert is_grad_enabled()
    context.run(generator.close)


def test_a_generator_or_coroutine_function_cannot_be_decorated() -> None:
    def steps() -> Iterator[int]:
        yield 1

    async def later() -> int:
        return 1

    async def several() -> AsyncIterator[int]:
        yield 1

    for function in (steps, later, several):
        with pytest.raises(TypeError, match=r"no_grad: decorates .* a generator or coroutine. Write `with no_grad"):
            no_grad()(function)


def test_a_generator_may_be_closed_in_another_context() -> None:
    def steps() -> Iterator[None]:
        with no_grad():
            yield

    def run() -> None:
        suspended = steps()
        next(suspended)
        assert not is_grad_enabled()  # it shares its caller's context
        contextvars.Context().run(suspended.close)

    contextvars.Context().run(run)
