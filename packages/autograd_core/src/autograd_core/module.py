"""`Module`: a tree of parameters and sub-modules with a forward pass that can be watched.

Children are whatever stands in the attributes, also inside lists, tuples and dicts, found when asked for: there is no
registry to keep in step, and a dotted name is the path a reader would type.
"""

from __future__ import annotations

import copy
import difflib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from .arrays import Array
from .hooks import HookHandle, check_returned_nothing
from .parameter import Parameter
from .tensor import Tensor

ForwardHook = Callable[["Module", tuple[Any, ...], dict[str, Any], Tensor], None]


# What most attributes are: passing them over first is cheaper than asking what else they might be.
_PLAIN = frozenset({int, float, bool, str, type(None), np.ndarray})


def _unimplemented(self: Module, *args: Any, **kwargs: Any) -> Tensor:
    raise NotImplementedError(f"{type(self).__name__}: a Module must define forward(self, ...) -> Tensor.")


class Module:
    """Base of everything that has parameters or can be watched.

    Subclasses define `forward`; callers call the module. `super().__init__()` is not needed.

    Attributes
    ----------
    training : bool
        Set by `train()` and `eval()` for the whole tree.
    """

    training: bool
    _hooks: dict[HookHandle, None]

    # A callable attribute, not a method: a subclass may give `forward` any parameters and stay well typed.
    forward: Callable[..., Tensor] = _unimplemented

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        module = super().__new__(cls)
        module.training = True
        module._hooks = {}
        return module

    def __call__(self, *args: Any, **kwargs: Any) -> Tensor:
        """Run `forward` once, then the forward hooks once each, in order of registration; return forward's object."""
        if not self._hooks:
            return self.forward(*args, **kwargs)
        hooks = tuple(self._hooks)  # those registered when the call began
        output = self.forward(*args, **kwargs)
        for handle in hooks:
            check_returned_nothing(handle.hook_fn(self, args, kwargs, output), handle)
        return output

    def register_forward_hook(self, fn: ForwardHook) -> HookHandle:
        """Call `fn(module, args, kwargs, output)` after each call of this module; return the handle that removes it.

        The hook must return None: it observes. An exception in it propagates and leaves later calls working.
        Calling `module.forward(...)` directly runs no hook.
        """
        return HookHandle(self, fn, "forward")

    # ------------------------------------------------------------------ the tree

    def named_modules(self) -> Iterator[tuple[str, Module]]:
        """Yield (dotted name, module) for this module, named "", and all below it.

        A shared one comes once, under its first name.
        """
        for name, item in self._walk():
            if isinstance(item, Module):
                yield name, item

    def named_parameters(self) -> Iterator[tuple[str, Parameter]]:
        """Yield (dotted name, parameter) for all parameters in the tree; a tied one once, under its first name."""
        for name, item in self._walk():
            if isinstance(item, Parameter):
                yield name, item

    def modules(self) -> Iterator[Module]:
        """Yield this module and all below it, each once."""
        return (module for _, module in self.named_modules())

    def parameters(self) -> Iterator[Parameter]:
        """Yield all parameters in the tree, each once."""
        return (parameter for _, parameter in self.named_parameters())

    def _walk(self) -> list[tuple[str, Module | Parameter]]:
        """Return the tree in the order of declaration, depth first, each object once."""
        found: list[tuple[str, Module | Parameter]] = []
        seen: set[int] = set()
        stack: list[tuple[str, Any]] = [("", self)]
        while stack:
            name, item = stack.pop()
            if isinstance(item, Parameter):
                if id(item) not in seen:
                    seen.add(id(item))
                    found.append((name, item))
                continue
            if id(item) in seen:
                continue
            seen.add(id(item))
            entries: list[tuple[Any, Any]]
            if isinstance(item, Module):
                found.append((name, item))
                entries = [(key, child) for key, child in vars(item).items() if key != "_hooks"]
            elif isinstance(item, dict):
                entries = list(item.items())
            else:
                entries = list(enumerate(item))
            prefix = f"{name}." if name else ""
            children = [
                (f"{prefix}{key}", child)
                for key, child in entries
                if type(child) not in _PLAIN and isinstance(child, (Parameter, Module, list, tuple, dict))
            ]
            stack.extend(reversed(children))
        return found

    # ------------------------------------------------------------------ modes

    def train(self) -> Self:
        """Set training mode in the whole tree; return the module."""
        return self._set_training(True)

    def eval(self) -> Self:
        """Set evaluation mode in the whole tree (dropout passes its input on); return the module."""
        return self._set_training(False)

    def _set_training(self, flag: bool) -> Self:
        for module in self.modules():
            module.training = flag
        return self

    @contextmanager
    def evaluating(self) -> Iterator[None]:
        """Context with the whole tree in evaluation mode; on leaving, each module has the mode it had."""
        before = [(module, module.training) for module in self.modules()]
        self.eval()
        try:
            yield
        finally:
            for module, mode in before:
                module.training = mode

    def zero_grad(self) -> None:
        """Set every parameter's `.grad` to None."""
        for parameter in self.parameters():
            parameter._grad = None

    def astype(self, dtype: npt.DTypeLike) -> Self:
        """Return a copy of the module with all parameters in another floating dtype; ties stay ties.

        Raises
        ------
        TypeError
            If `dtype` is not floating.
        """
        target: object = dtype
        with suppress(TypeError, ValueError):  # of what NumPy does not know either
            target = np.dtype(dtype)
        if not isinstance(target, np.dtype) or target.kind != "f":
            raise TypeError(f"astype: parameters need a floating dtype; got {target}. Give float64 or float32.")
        converted = copy.deepcopy(self)
        for parameter in converted.parameters():
            parameter._value = parameter._value.astype(target)
            parameter._grad = None if parameter._grad is None else parameter._grad.astype(target)
        for module in converted.modules():
            module._arrays_replaced()
        return converted

    # ------------------------------------------------------------------ state

    def state_dict(self) -> dict[str, Array]:
        """Return a copy of every parameter's value by dotted name; a tied parameter once."""
        return {name: parameter.value.copy() for name, parameter in self._by_name().items()}

    def load_state_dict(self, state: Mapping[str, npt.ArrayLike]) -> None:
        """Copy values into the parameters, after checking every key and shape; nothing is written if one is wrong.

        Values are converted to each parameter's dtype.

        Raises
        ------
        ValueError
            Listing missing and unexpected keys, or naming the key, the shape expected and the shape found.
        """
        parameters = self._by_name()
        missing = sorted(parameters.keys() - state.keys())
        unexpected = sorted(state.keys() - parameters.keys())
        if missing or unexpected:
            raise ValueError(
                f"load_state_dict: keys must be the model's; missing {missing or 'none'}, "
                f"unexpected {unexpected or 'none'}."
            )
        arrays: dict[str, Array] = {}
        for name, parameter in parameters.items():
            array = np.asarray(state[name])
            if array.shape != parameter.shape:
                raise ValueError(
                    f"load_state_dict: shapes must agree; {name} is {parameter.shape} and the state has {array.shape}."
                )
            if array.dtype.kind not in "fiu":
                raise ValueError(f"load_state_dict: values must be numbers; {name} has dtype {array.dtype}.")
            arrays[name] = array.astype(parameter.dtype, copy=False)
        for name, parameter in parameters.items():
            parameter.value = arrays[name]

    def _by_name(self) -> dict[str, Parameter]:
        """Return the parameters by dotted name; ValueError if two have the same, as keys of dicts can make it."""
        named = list(self.named_parameters())
        found = dict(named)
        if len(found) < len(named):
            twice = sorted({name for name, parameter in named if found[name] is not parameter})
            raise ValueError(
                f"state_dict: each parameter needs a dotted name of its own; two are called {twice}. "
                "Give dicts of modules keys without dots, all of them strings."
            )
        return found

    # ------------------------------------------------------------------ Python's protocols

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, Parameter) and value.name is None:
            value.name = name  # for messages: an error can say which parameter
        object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        near = difflib.get_close_matches(name, vars(self), n=1)
        hint = f" Did you mean '{near[0]}'?" if near else ""
        raise AttributeError(f"{type(self).__name__} has no attribute '{name}'.{hint}", name=name, obj=self)

    def __getstate__(self) -> dict[str, Any]:
        """Copies and pickles carry no hooks: a copied hook would go on acting on the original."""
        return {key: item for key, item in vars(self).items() if key != "_hooks"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._hooks = {}
        self._arrays_replaced()

    def _arrays_replaced(self) -> None:
        """Called when the parameters got other arrays, in a copy: a module that packed them packs them again."""

    def __repr__(self) -> str:
        lines = [
            f"  {name}: {type(item).__name__}" + (f" {item.shape} {item.dtype}" if isinstance(item, Parameter) else "")
            for name, item in self._walk()[1:]
        ]
        return "\n".join([f"{type(self).__name__}(", *lines, ")"]) if lines else f"{type(self).__name__}()"
