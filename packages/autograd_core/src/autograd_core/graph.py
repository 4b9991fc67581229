"""The recorded graph and the reverse pass over it.

Read `Node` first, then `run_backward`: collect the nodes below the root, run their vjps from deep to shallow, and hand
the sums to the leaves. Operations know nothing of accumulation, broadcasting or dtypes of gradients: that is all here.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from .arrays import Array, Vjp
from .hooks import check_returned_nothing

if TYPE_CHECKING:
    from .tensor import Tensor


class Node:
    """One recorded operation.

    Attributes
    ----------
    op : str
        Name of the operation, for messages.
    parents : tuple of Node, Tensor or None
        Where the cotangents go: to another node, to a leaf tensor, or nowhere.
    leaves : tuple of (Tensor, int)
        Every leaf tensor that was read, data and frozen parameters too, and its version at recording time.
    vjp : callable or None
        None once the graph was freed.
    depth : int
        One more than the deepest parent's; running from deep to shallow is a topological order.
    shape, dtype
        Of the operation's value: what its cotangent must have.
    aliases : bool
        True if the vjp may return `grad_out` itself or a view of it, so that its results must not be written into.
    guards : tuple of (Array, Array) pairs or None
        Only in `debug()`: arrays the vjp reads, each with a copy taken at recording time.
    """

    __slots__ = ("op", "parents", "leaves", "vjp", "depth", "shape", "dtype", "aliases", "guards", "__weakref__")

    def __init__(self, op: str, parents: tuple[Tensor, ...], value: Array, vjp: Vjp, aliases: bool) -> None:
        edges: list[Node | Tensor | None] = []
        leaves: list[tuple[Tensor, int]] = []
        self.depth: int
        depth = 0
        for parent in parents:
            node = parent._node
            if node is None:
                edges.append(parent if parent._requires_grad else None)
                leaves.append((parent, parent._version))
            else:
                edges.append(node)
                if node.depth > depth:
                    depth = node.depth
        self.op = op
        self.parents: tuple[Node | Tensor | None, ...] = tuple(edges)
        self.leaves = tuple(leaves)
        self.vjp: Vjp | None = vjp
        self.depth = depth + 1
        self.shape = value.shape
        self.dtype: np.dtype[Any] = value.dtype
        self.aliases = aliases
        self.guards: tuple[tuple[Array, Array], ...] | None = None

    def free(self) -> None:
        """Let go of everything the operation kept; it cannot run again."""
        self.vjp = None
        self.parents = ()
        self.leaves = ()
        self.guards = None


def sum_to_shape(grad: Array, shape: tuple[int, ...]) -> Array:
    """Return `grad` summed over the axes along which `shape` was broadcast to `grad.shape`."""
    lead = grad.ndim - len(shape)
    stretched = tuple(range(lead)) + tuple(
        lead + axis for axis, size in enumerate(shape) if size == 1 and grad.shape[lead + axis] != 1
    )
    total: Array = grad.sum(axis=stretched)
    return total.reshape(shape)


def run_backward(root: Tensor, gradient: Array, retain_graph: bool) -> None:
    """Add the gradient of `sum(root * gradient)` to the `.grad` of every leaf below `root`, then run gradient hooks.

    Parameters
    ----------
    root : Tensor
        Where the pass begins; requires a gradient.
    gradient : array, shape of `root`
        The cotangent of `root`. Not written into.
    retain_graph : bool
        Keep the graph for another backward.

    Raises
    ------
    RuntimeError
        If part of the graph was freed by an earlier backward, or a leaf changed since it was used.
    """
    if root._node is None:
        _deliver({id(root): (root, gradient, False)})
        return
    order = _collect(root._node)

    # Cotangents under way: array and whether this call owns it, so that it may be written into.
    pending: dict[Node, tuple[Array, bool]] = {root._node: (gradient, False)}
    leaves: dict[int, tuple[Tensor, Array, bool]] = {}
    for node in order:
        entry = pending.pop(node, None)
        vjp, parents = node.vjp, node.parents
        assert vjp is not None  # _collect refused freed graphs
        if not retain_graph:
            # At once, not at the end: what an operation kept makes room for the cotangents still to come.
            node.free()
        if entry is None:
            continue
        grads = vjp(entry[0])
        del vjp, entry
        fresh = not node.aliases
        for parent, grad in zip(parents, grads, strict=True):
            if parent is None or grad is None:
                continue
            own = fresh
            if grad.shape != parent.shape:
                grad = sum_to_shape(grad, parent.shape)
                own = True
            if grad.dtype != parent.dtype:
                grad = grad.astype(parent.dtype)
                own = True
            if isinstance(parent, Node):
                before = pending.get(parent)
                pending[parent] = (grad, own) if before is None else _add(before[0], before[1], grad, own)
            else:
                known = leaves.get(id(parent))
                if known is None:
                    leaves[id(parent)] = (parent, grad, own)
                else:
                    leaves[id(parent)] = (parent, *_add(known[1], known[2], grad, own))
    _deliver(leaves)


def _collect(root: Node) -> list[Node]:
    """Return the nodes reachable from `root`, deepest first, after checking that each can still run."""
    # A dict, not a set: nodes of one depth then run in the order found, not in that of their addresses. Sums of floats
    # depend on the order, and the same seed must give the same bits.
    seen = {root: None}
    stack = [root]
    while stack:
        node = stack.pop()
        if node.vjp is None:
            raise RuntimeError(
                "backward: a graph is freed by the backward that runs it; "
                f"this one was run before (at operation '{node.op}'). "
                "Call backward(retain_graph=True) the first time, or compute the value again."
            )
        for parent in node.parents:
            if isinstance(parent, Node) and parent not in seen:
                seen[parent] = None
                stack.append(parent)
        for leaf, version in node.leaves:
            if leaf._version != version:
                raise RuntimeError(
                    "backward: parameters and inputs must not change between the forward that used them and backward; "
                    f"{leaf._describe()} changed after operation '{node.op}' used it. "
                    "Call backward before the optimiser's step, load_state_dict or assignment, "
                    "or run the forward again."
                )
        if node.guards is not None:
            for array, copy in node.guards:
                if not np.array_equal(array, copy, equal_nan=array.dtype.kind in "fc"):
                    raise RuntimeError(
                        "backward: an array that a pending backward needs must not be written into; "
                        f"one of shape {array.shape} used by operation '{node.op}' was. "
                        "Write after backward, or into a copy."
                    )
    return sorted(seen, key=attrgetter("depth"), reverse=True)


def _add(a: Array, own_a: bool, b: Array, own_b: bool) -> tuple[Array, bool]:
    """Return a + b, written into whichever operand this backward owns, and that the result is owned."""
    if own_a and a.flags.writeable:
        a += b
        return a, True
    if own_b and b.flags.writeable:
        b += a
        return b, True
    return np.asarray(a + b), True


def _deliver(leaves: dict[int, tuple[Tensor, Array, bool]]) -> None:
    """Accumulate into `.grad` of every leaf not frozen since, then run the gradient hooks, each leaf's once."""
    awake = [entry for entry in leaves.values() if entry[0]._requires_grad]
    for leaf, grad, own in awake:
        leaf._accumulate(grad, own)
    # Of this backward are the hooks registered now: one that registers or removes another changes the next backward.
    hooked = [(leaf, hooks) for leaf, _, _ in awake if (hooks := leaf._grad_hooks())]
    if not hooked:
        return
    callbacks: dict[Callable[[], None], None] = {}
    token = _after_backward.set(callbacks)
    try:
        for leaf, hooks in hooked:
            for handle in hooks:
                check_returned_nothing(handle.hook_fn(leaf, leaf._grad), handle)
    finally:
        _after_backward.reset(token)
        for callback in callbacks:
            callback()


_after_backward: ContextVar[dict[Callable[[], None], None] | None] = ContextVar("autograd_core_after", default=None)


def after_backward(callback: Callable[[], None]) -> None:
    """Ask, from within a gradient hook, for `callback()` once all gradient hooks of this backward have run.

    It is called once however often it was asked for, also if a hook raises: for observers that take the statistics of
    all gradients in one go.

    Raises
    ------
    RuntimeError
        Outside a gradient hook.
    """
    callbacks = _after_backward.get()
    if callbacks is None:
        raise RuntimeError("after_backward: may only be called from a gradient hook, while backward runs its hooks.")
    callbacks[callback] = None
