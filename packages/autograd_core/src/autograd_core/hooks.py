"""`HookHandle`: what registering a hook returns, and the only way to remove the hook."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from types import TracebackType
from typing import Any


class HookHandle:
    """A registered hook. May be removed twice, works in `with`, and does not keep its target alive.

    Parameters
    ----------
    target : Module or Parameter
        What the hook watches. Use `target.register_forward_hook` or `target.register_grad_hook` rather than this class.
    hook_fn : callable
        The function to call; must return None.
    kind : {"forward", "backward"}

    Attributes
    ----------
    target : Module, Parameter or None
        None once the target is gone.

    Raises
    ------
    TypeError
        If `hook_fn` is not callable.
    """

    __slots__ = ("_target", "hook_fn", "kind", "__weakref__")

    def __init__(self, target: Any, hook_fn: Callable[..., None], kind: str) -> None:
        if not callable(hook_fn):
            raise TypeError(
                f"a {kind} hook must be callable; got {type(hook_fn).__name__}. Pass a function that returns None."
            )
        # Weak, so that module -> handle -> module is no cycle: a hooked model is freed with its last reference.
        self._target = weakref.ref(target)
        self.hook_fn = hook_fn
        self.kind = kind
        # The registry is a dict used as an ordered set: hooks run in order of registration, removal is one step.
        target._hooks[self] = None

    @property
    def target(self) -> Any:
        return self._target()

    @property
    def active(self) -> bool:
        """Whether the hook is still registered."""
        target = self._target()
        return target is not None and self in target._hooks

    def remove(self) -> None:
        """Remove the hook. A call that has begun still runs it; later calls do not."""
        target = self._target()
        if target is not None:
            target._hooks.pop(self, None)

    def __enter__(self) -> HookHandle:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()

    def __repr__(self) -> str:
        owner = type(self.target).__name__ if self.target is not None else "a target that is gone"
        return f"<{self.kind} hook {getattr(self.hook_fn, '__qualname__', repr(self.hook_fn))} on {owner}>"


def check_returned_nothing(returned: object, handle: HookHandle) -> None:
    """Raise TypeError, naming hook and target, unless a hook returned None: hooks observe, they never replace."""
    if returned is not None:
        raise TypeError(
            f"a hook observes and must return None; {handle!r} returned {type(returned).__name__}. "
            "To change a value, change the module."
        )
