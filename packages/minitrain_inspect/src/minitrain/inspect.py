"""The Inspector: statistics of every activation and gradient of any model made of `autograd_core` modules.

The chain of calls, and where the Inspector stands in it::

    output = module(x)
        Module.__call__
            forward(x)                        runs once
            forward hooks, in order           -> Inspector: moments of output, dead units
    loss.backward()
        engine: every vjp, every .grad        whole gradients, uses of a tied parameter summed
        gradient hooks, once a parameter      -> Inspector: remembers whose gradients came
        end of backward                       -> Inspector: moments of them all at once, copy of the matrices
    optimizer.step()                          writes the parameters
    inspector.step()                          closes the step: |Δw| / |w| against the copy
    inspector.measurements()                  one row of the log; then inspector.reset()

A hook cannot fire twice for one call. Forward hooks are dispatched in one place, `Module.__call__`; `forward`
dispatches none, so a module that wraps another fires its own hook and the inner module's, once each, and there is
no second way in. Gradient hooks run after the whole backward, once for each parameter however often it was used.
And the Inspector keeps one hook a name: registering a name again while its hook is alive returns the handle there
is. The price: a module whose `forward` is called directly goes unobserved, and its statistics say so with `n` 0 and
`None`.

Hooks observe: they return None, draw no shared random numbers and write into nothing of the model, so a run is
bit-identical with and without. Statistics are O(1) in steps: ten numbers a name, one copy of the watched matrices,
scratch of the largest tensor or all gradients, whichever is more. No activation is kept. The statistics themselves
are in `meter.py`, `dead_units.py` and `matrices.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, Generic, NamedTuple, Self, TypeVar

import numpy as np
import numpy.typing as npt
from autograd_core import GELU, HookHandle, Module, Parameter, ReLU, Tensor, after_backward, is_grad_enabled

from .dead_units import DeadUnits
from .matrices import WatchedMatrix
from .meter import Meter
from .moments import Array, State, absorb, describe, merge, welford_update
from .selection import Selection, name_parameters

__all__ = ["FirstNonFinite", "HookHandle", "Inspector", "merge", "welford_update"]

Target = TypeVar("Target", bound=Module | Parameter)


class FirstNonFinite(NamedTuple):
    """Where NaN or Inf was first seen: the optimiser step under way, counted from 1, and the observed name."""

    step: int
    name: str


class _Watched(Generic[Target]):
    """One watched module or parameter. `before` holds the statistics as they were when the open step began."""

    __slots__ = ("before", "dead", "handle", "name", "state", "target")

    def __init__(self, name: str, target: Target, state: State) -> None:
        self.name = name
        self.target = target
        self.state = state
        self.before: State | None = None
        self.dead = DeadUnits() if isinstance(target, (GELU, ReLU)) else None
        self.handle: HookHandle | None = None

    @property
    def alive(self) -> bool:
        return self.handle is not None and self.handle.active


class Inspector:
    """Watches modules and parameters of one model; usable in `with`, which removes its own hooks and only those.

    Nothing is watched until `watch` or `register_…` is called. Several Inspectors on one model are independent.

    Parameters
    ----------
    model : Module
        Root of what is watched. Forwards count while `model.training` is true and gradients are enabled, so that
        evaluation leaves the statistics alone.
    params : iterable of Parameter, or mapping of name to Parameter
        Whose gradients `watch` may observe. Names of an iterable are those of `model.named_parameters()`, or
        `parameter.<position>` for a stranger. The same parameter twice is observed once, under its first name.
    every : int, at least 1
        Observe one optimiser step in `every`: those before which a multiple of it was closed. On others hooks
        return at once.
    spectral_every : int, at least 1
        Measure spectral norms on the first of `spectral_every` calls of `measurements`.

    Attributes
    ----------
    handles : list of HookHandle
        Hooks of this Inspector.
    stats : dict
        Name to state, as in `welford_update`, for modules with `mean_abs`; `{}` where nothing was observed since
        `reset`. Of the step that is still open, the last backward counts.
    first_non_finite : FirstNonFinite or None
        Where NaN or Inf was first seen on an observed step. `reset` keeps it.

    Raises
    ------
    TypeError
        If `model` is not a Module, or `params` holds something other than Parameters.
    ValueError
        If `every` or `spectral_every` is below 1.

    Examples
    --------
    >>> from autograd_core import Linear, ReLU, Sequential
    >>> model = Sequential(Linear(3, 5, rng=np.random.default_rng(0)), ReLU())
    >>> with Inspector(model, model.parameters()) as inspector:
    ...     handles = inspector.watch(exclude="*.bias")
    ...     model(np.ones((2, 3))).sum().backward()
    >>> sorted(inspector.snapshot())
    ['Sequential', 'layers.0', 'layers.0.weight.grad', 'layers.1']
    >>> inspector.snapshot()["layers.0"]["n"]
    10
    """

    def __init__(
        self,
        model: Module,
        params: Iterable[Parameter] | Mapping[str, Parameter],
        *,
        every: int = 1,
        spectral_every: int = 10,
    ) -> None:
        if not isinstance(model, Module):
            raise TypeError(
                f"Inspector: model must be an autograd_core.Module; got {type(model).__name__}. "
                "Wrap what you watch in a Module."
            )
        for name, value in (("every", every), ("spectral_every", spectral_every)):
            if value < 1:
                raise ValueError(f"Inspector: {name} must be at least 1; got {value}. Use 1 to observe always.")
        self.model = model
        self.every = every
        self.spectral_every = spectral_every
        self.handles: list[HookHandle] = []
        self.stats: dict[str, State] = {}
        self.first_non_finite: FirstNonFinite | None = None
        self._parameters = name_parameters(model, params)
        self._modules: dict[str, _Watched[Module]] = {}
        self._gradients: dict[str, _Watched[Parameter]] = {}
        self._matrices: dict[str, WatchedMatrix] = {}
        self._meter = Meter()
        self._arrived: list[tuple[_Watched[Parameter], Array]] = []
        self._closed_steps = 0
        self._measured = 0
        self._observing = True
        self._update_open = False
        self._real: npt.NDArray[np.bool_] | None = None  # by position, whether it holds a real token; None: all do

    # ------------------------------------------------------------------ registering

    def register_forward(self, name: str, module: Module) -> HookHandle:
        """Return the handle of a hook that observes every output of `module` under `name`.

        A name whose hook is alive is not registered again: its handle is returned. Only floating Tensors are observed.

        Raises
        ------
        TypeError
            If `module` is not a Module.
        ValueError
            If `name` is in use for something else.
        """
        if not isinstance(module, Module):
            raise TypeError(
                f"register_forward: {name!r} must name a Module; got {type(module).__name__}. "
                "Gradients of a Parameter are watched with register_backward."
            )
        watched = self._enter(self._modules, name, module)
        if watched.handle is not None and watched.handle.active:
            return watched.handle

        def observe(_module: Module, _args: tuple[Any, ...], _kwargs: dict[str, Any], output: object) -> None:
            if self._observing and self.model.training and is_grad_enabled() and isinstance(output, Tensor):
                self._take_output(watched, output.value)

        return self._keep(watched, module.register_forward_hook(observe))

    def register_backward(self, name: str, param: Parameter) -> HookHandle:
        """Return the handle of a hook that observes every whole gradient of `param` under `name`.

        A parameter with two axes is also measured as a matrix (update ratio, spectral norm), under `name` without a
        final ".grad". A name whose hook is alive is not registered again: its handle is returned.

        Raises
        ------
        TypeError
            If `param` is not a Parameter.
        ValueError
            If `name` is in use for something else, or its matrix is.
        """
        if not isinstance(param, Parameter):
            raise TypeError(
                f"register_backward: {name!r} must name a Parameter; got {type(param).__name__}. "
                "Outputs of a Module are watched with register_forward."
            )
        key = name.removesuffix(".grad")
        twin = self._gradients.get(key if name != key else f"{key}.grad")
        if (
            twin is not None
            and twin.alive
            and twin.target is not param
            and twin.target.value.ndim == param.value.ndim == 2
        ):
            raise ValueError(
                f"Inspector: a name stands for one matrix; {key!r} of {name!r} is in use for another, {twin.name!r}. "
                "Choose another name, or remove its hook first."
            )
        watched = self._enter(self._gradients, name, param)
        if watched.handle is not None and watched.handle.active:
            return watched.handle
        if param.value.ndim == 2 and all(matrix.parameter is not param for matrix in self._matrices.values()):
            self._matrices[key] = WatchedMatrix(param, seed=len(self._matrices))

        def observe(_param: Parameter, grad: Array) -> None:
            if self._observing:
                self._arrived.append((watched, grad))
                after_backward(self._take_gradients)

        return self._keep(watched, param.register_grad_hook(observe))

    def watch(self, include: str | Iterable[str] = "*", exclude: str | Iterable[str] = "") -> list[HookHandle]:
        """Register every module and parameter whose dotted name matches; return the handles that are new.

        Modules are observed under their dotted name, the root under its class's, in parentheses where a module of
        it is called like that; gradients under the parameter's
        name with ".grad". What is being watched already is left as it is.

        Parameters
        ----------
        include, exclude : str or iterable of str
            As in `Selection`: `watch("blocks.*", exclude="*.bias, *.ln1")`.
        """
        chosen = Selection(include, exclude)
        before = set(self.handles)
        modules = dict(self.model.named_modules())
        root = type(self.model).__name__
        for dotted, module in modules.items():
            name = dotted or (f"({root})" if root in modules else root)
            if name in chosen:
                self.register_forward(name, module)
        for name, param in self._parameters.items():
            if name in chosen:
                self.register_backward(f"{name}.grad", param)
        return [handle for handle in self.handles if handle not in before]

    def remove_all(self) -> None:
        """Remove every hook of this Inspector and empty `handles`; what was collected stays, and `watch` may go on."""
        for handle in self.handles:
            handle.remove()
        self.handles.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove_all()

    # ------------------------------------------------------------------ reading

    def snapshot(self) -> dict[str, dict[str, float | None]]:
        """Return name to `n mean std min max l2 nan inf`, for modules also `mean_abs`: plain numbers, strict JSON.

        Moments are population moments over the finite values since the last `reset`; `l2` is the norm of the last
        tensor seen. Where nothing was observed `n` is 0 and the rest None. A finished backward is in it at once.
        """
        return {name: describe(state, absolute=name in self._modules) for name, state in self.stats.items()}

    def measurements(self) -> dict[str, Any]:
        """Return what one row of the log holds: the `inspect` object described in the BLUEPRINT, section 5.

        Returns
        -------
        dict
            `modules` and `gradients`, as in `snapshot`. By matrix: `spectral_norm`, None unless this call measures
            it, and `update_ratio`, None where no observed step was closed since `reset` or the matrix was zero;
            both NaN or Inf where a weight is. By activation module: `dead_fraction` in [0, 1], None where no real
            token was observed.
        """
        due = self._measured % self.spectral_every == 0
        self._measured += 1
        with np.errstate(all="ignore"):
            norms = {name: matrix.spectral_norm() if due else None for name, matrix in self._matrices.items()}
        return {
            "modules": {name: describe(each.state, absolute=True) for name, each in self._modules.items()},
            "gradients": {name: describe(each.state, absolute=False) for name, each in self._gradients.items()},
            "spectral_norm": norms,
            "dead_fraction": {
                name: each.dead.fraction() for name, each in self._modules.items() if each.dead is not None
            },
            "update_ratio": {name: matrix.update_ratio for name, matrix in self._matrices.items()},
        }

    # ------------------------------------------------------------------ between the steps

    def set_pad_mask(self, mask: npt.NDArray[np.bool_] | None) -> None:
        """Say which positions of the coming forward hold real tokens; only dead units ask.

        Parameters
        ----------
        mask : bool array of shape (B, T), or None
            True where the token is real; None means all are. Holds until the next call or `step`. Outputs with another
            number of positions are taken as all real.

        Raises
        ------
        TypeError
            If the mask is not boolean.
        """
        if mask is None:
            self._real = None
            return
        mask = np.asarray(mask)
        if mask.dtype != np.bool_:
            raise TypeError(
                f"set_pad_mask: the mask must be boolean, True where the token is real; got {mask.dtype}. "
                "Use mask.astype(bool)."
            )
        self._real = mask.reshape(-1)

    def step(self) -> None:
        """Close an optimiser step. Call it after the update, so that the update ratio is that of the real step."""
        if self._update_open:
            with np.errstate(all="ignore"):
                for matrix in self._matrices.values():
                    matrix.close_update()
            self._update_open = False
        if self._observing:
            for gradient in self._gradients.values():
                gradient.before = None
        self._real = None
        self._closed_steps += 1
        self._observing = self._closed_steps % self.every == 0

    def reset(self) -> None:
        """Forget statistics, dead units and update ratios. Count of steps, warm vectors and `first_non_finite` stay."""
        for state in self.stats.values():
            state.clear()
        for gradient in self._gradients.values():
            gradient.before = None
        for module in self._modules.values():
            if module.dead is not None:
                module.dead.reset()
        for matrix in self._matrices.values():
            matrix.forget()

    # ------------------------------------------------------------------ resuming

    def state_dict(self) -> dict[str, Any]:
        """Return what a resumed run needs to go on bit-identically: JSON values (floats may be non-finite).

        To be taken between two steps. The padding mask is not part of it.
        """
        return {
            "closed_steps": self._closed_steps,
            "measured": self._measured,
            "first_non_finite": None if self.first_non_finite is None else list(self.first_non_finite),
            "stats": {name: dict(state) for name, state in self.stats.items()},
            "dead_units": {
                name: each.dead.state_dict() for name, each in self._modules.items() if each.dead is not None
            },
            "matrices": {name: matrix.state_dict() for name, matrix in self._matrices.items()},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state_dict` returned. Watch the same names first.

        Raises
        ------
        ValueError
            If other names are watched; nothing is changed then.
        """
        if state["stats"].keys() != self.stats.keys():
            unlike = sorted(state["stats"].keys() ^ self.stats.keys())
            raise ValueError(
                f"Inspector: a state fits the names it was taken from; {unlike[0]!r} is in one of the two only. "
                "Call watch() with the same patterns on the same model first."
            )
        self._closed_steps = state["closed_steps"]
        self._observing = self._closed_steps % self.every == 0
        self._measured = state["measured"]
        place = state["first_non_finite"]
        self.first_non_finite = None if place is None else FirstNonFinite(*place)
        self.reset()
        for name, numbers in state["stats"].items():
            self.stats[name].update(numbers)
        for name, units in state["dead_units"].items():
            dead = self._modules[name].dead
            if dead is not None:
                dead.load_state_dict(units)
        for name, numbers in state["matrices"].items():
            self._matrices[name].load_state_dict(numbers)
        self._update_open = False

    # ------------------------------------------------------------------ what the hooks do

    def _take_output(self, watched: _Watched[Module], value: Array) -> None:
        part = self._meter.measure(value, absolute=True)
        absorb(watched.state, part)
        if "nan" in part:
            self._note_non_finite(watched.name)
        if watched.dead is not None and value.ndim:
            real = self._real
            if real is not None and value.size != real.size * value.shape[-1]:
                real = None
            watched.dead.observe(value, real)

    def _take_gradients(self) -> None:
        arrived, self._arrived = self._arrived, []
        if not self._update_open:
            # Here and not in step(): whatever wrote into the weights between two steps is no part of an update.
            for matrix in self._matrices.values():
                matrix.open_update()
            self._update_open = True
        for (watched, _), part in zip(arrived, self._meter.measure_all([grad for _, grad in arrived]), strict=True):
            state = watched.state
            if watched.before is None:
                watched.before = dict(state)
            else:  # an earlier backward of this step: .grad now holds both
                state.clear()
                state.update(watched.before)
            absorb(state, part)
            if "nan" in part:
                self._note_non_finite(watched.name)

    def _note_non_finite(self, name: str) -> None:
        if self.first_non_finite is None:
            self.first_non_finite = FirstNonFinite(self._closed_steps + 1, name)

    def _keep(self, watched: _Watched[Any], handle: HookHandle) -> HookHandle:
        if watched.handle in self.handles:  # removed by its owner
            self.handles.remove(watched.handle)
        watched.handle = handle
        self.handles.append(handle)
        return handle

    def _enter(self, table: dict[str, _Watched[Target]], name: str, target: Target) -> _Watched[Target]:
        """Return the entry of `name` in `table`, made if need be; ValueError if the name stands for something else."""
        watched = table.get(name)
        if watched is not None and watched.target is target:
            return watched
        for others in (self._modules, self._gradients):
            other = others.get(name)
            if other is not None and other.alive:
                raise ValueError(
                    f"Inspector: a name stands for one module or parameter; {name!r} is in use for another. "
                    "Choose another name, or remove its hook first."
                )
        self._modules.pop(name, None)
        self._gradients.pop(name, None)
        self.stats[name] = {}
        watched = table[name] = _Watched(name, target, self.stats[name])
        return watched
