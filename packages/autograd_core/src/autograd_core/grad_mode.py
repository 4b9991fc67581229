"""Whether operations record a graph: a flag of the current thread and context.

A `ContextVar` rather than a module variable: each thread starts with recording on, and an `asyncio` task that enters
`no_grad` does not switch it off for its neighbours. A generator shares its caller's context: one that yields inside a
block leaves recording off for the caller until it goes on.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import ContextDecorator
from contextvars import ContextVar
from types import TracebackType
from typing import Any, TypeVar

_Decorated = TypeVar("_Decorated", bound=Callable[..., Any])

_recording: ContextVar[bool] = ContextVar("autograd_core_recording", default=True)

is_grad_enabled = _recording.get
"""Return True where operations on tensors that require a gradient record a graph."""


class no_grad(ContextDecorator):
    """Context manager and decorator inside which nothing is recorded.

    The setting before is restored on leaving, also by an exception. Blocks may be nested, and one object may be entered
    again inside itself.

    Examples
    --------
    >>> from autograd_core import Parameter, no_grad
    >>> p = Parameter([1.0])
    >>> with no_grad():
    ...     y = p * 2.0
    >>> y.requires_grad
    False
    """

    def __init__(self) -> None:
        self._before: list[bool] = []

    def __call__(self, function: _Decorated) -> _Decorated:
        """Return `function` running inside `no_grad()`.

        Raises
        ------
        TypeError
            If it is a generator or coroutine function: its body runs after the call, where recording is on again.
        """
        kinds = (inspect.isgeneratorfunction, inspect.iscoroutinefunction, inspect.isasyncgenfunction)
        if any(is_kind(function) for is_kind in kinds):
            name = getattr(function, "__qualname__", repr(function))
            raise TypeError(
                f"no_grad: decorates functions whose body runs in the call; got {name}, a generator or coroutine. "
                "Write `with no_grad():` inside it, round statements that neither yield nor await."
            )
        return super().__call__(function)

    def _recreate_cm(self) -> no_grad:
        # A decorated function may run in several threads at once: each call gets an object of its own.
        return no_grad()

    def __enter__(self) -> None:
        self._before.append(_recording.get())
        _recording.set(False)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Not by a token: a generator may be closed in another context than the one that entered the block.
        _recording.set(self._before.pop())
