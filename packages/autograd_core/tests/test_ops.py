"""Every operation from one table: its value, its vjp under a random cotangent, its dtypes, and its manners.

A row is an `OpCase`; the tests below the table run over all rows. Conventions at kinks and ties, extremes and messages
are in `test_op_conventions.py`; equality of fused operations with their compositions in `test_fused.py`.
"""

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import autograd_core
import autograd_core.ops
import numpy as np
import pytest
from autograd_core import Columns, Tensor, no_grad
from autograd_core import functional as F
from autograd_core.graph import Node
from autograd_core.tensor import as_tensor
from autograd_core.testing import check_vjp, graph_size

Shape = tuple[int, ...]
Arrays = list[np.ndarray]


def anywhere(rng: np.random.Generator, shapes: Sequence[Shape]) -> Arrays:
    return [rng.standard_normal(shape) for shape in shapes]


def positive(rng: np.random.Generator, shapes: Sequence[Shape]) -> Arrays:
    return [rng.uniform(0.5, 2.5, shape) for shape in shapes]


def away_from_zero(rng: np.random.Generator, shapes: Sequence[Shape]) -> Arrays:
    return [rng.uniform(0.5, 2.5, shape) * rng.choice([-1.0, 1.0], shape) for shape in shapes]


def distinct(rng: np.random.Generator, shapes: Sequence[Shape]) -> Arrays:
    """All entries of all arrays at least 0.3 apart, and none near 0: no ties, no kinks."""
    total = sum(int(np.prod(shape)) for shape in shapes)
    values = iter((rng.permutation(total) - total // 2) * 0.3 + 0.075)
    return [np.array([next(values) for _ in range(int(np.prod(shape)))]).reshape(shape) for shape in shapes]


def wide(rng: np.random.Generator, shapes: Sequence[Shape]) -> Arrays:
    """Past the points ±10 where the GELU's sigmoid is cut off."""
    return [rng.standard_normal(shape) * 8.0 for shape in shapes]


def huge(rng: np.random.Generator, shapes: Sequence[Shape]) -> Arrays:
    """Around ±800, where exp overflows."""
    return [rng.choice([-800.0, 800.0], shape) + rng.standard_normal(shape) for shape in shapes]


def constant_rows(rng: np.random.Generator, shapes: Sequence[Shape]) -> Arrays:
    first, *others = shapes
    return [np.broadcast_to(rng.standard_normal((*first[:-1], 1)), first).copy(), *anywhere(rng, others)]


def strong_scores(rng: np.random.Generator, shapes: Sequence[Shape]) -> Arrays:
    """Attention scores beyond ±500, past the shortcut without a row maximum."""
    first, *others = shapes
    return [rng.standard_normal(first) * 800.0, *anywhere(rng, others)]


class OpCase(NamedTuple):
    op: str
    label: str
    fn: Callable[..., Tensor]
    shapes: Sequence[Shape]
    domain: Callable[[np.random.Generator, Sequence[Shape]], Arrays] = anywhere
    numpy: Callable[..., Any] | None = None
    atol: float = 1e-8  # of finite differences: larger where values are large

    @property
    def id(self) -> str:
        return f"{self.op}-{self.label}"


def binary(
    op: str, fn: Callable[..., Any], domain: Callable[..., Arrays] = anywhere, shapes: Sequence[str] = ()
) -> list[OpCase]:
    """One case for each way in which two shapes broadcast."""
    pairs: dict[str, tuple[Shape, Shape]] = {
        "same": ((2, 3), (2, 3)),
        "0d": ((), ()),
        "0d_left": ((), (2, 3)),
        "0d_right": ((2, 3), ()),
        "row_column": ((3, 1), (1, 5)),
        "leading": ((2, 3, 5), (5,)),
        "ones": ((2, 1, 5), (1, 3, 1)),
        "empty": ((0, 3), (3,)),
        "empty_stretched": ((1, 3), (0, 3)),
    }
    f = getattr(F, op)
    return [OpCase(op, label, f, shapes, domain, fn) for label, shapes in pairs.items()]


def unary(op: str, fn: Callable[..., Any] | None, domain: Callable[..., Arrays] = anywhere) -> list[OpCase]:
    f = getattr(F, op)
    shapes: dict[str, Shape] = {"0d": (), "2d": (2, 3), "3d": (2, 3, 5), "empty": (0, 3)}
    return [OpCase(op, label, f, (shape,), domain, fn) for label, shape in shapes.items()]


def reduction(op: str, fn: Callable[..., Any], domain: Callable[..., Arrays] = anywhere) -> list[OpCase]:
    f = getattr(F, op)
    settings: dict[str, tuple[Shape, dict[str, Any]]] = {
        "all": ((2, 3, 5), {}),
        "0d": ((), {}),
        "first": ((2, 3), {"axis": 0}),
        "last": ((2, 3, 5), {"axis": -1}),
        "pair": ((2, 3, 5), {"axis": (0, 2)}),
        "pair_negative_kept": ((2, 3, 5), {"axis": (-1, 0), "keepdims": True}),
        "list": ((2, 3, 5), {"axis": [1, 2]}),
        "all_kept": ((2, 3), {"keepdims": True}),
        "size_1": ((2, 1, 3), {"axis": 1}),
        "empty_elsewhere": ((0, 3), {"axis": 1}),
    }

    def expected(kwargs: dict[str, Any]) -> Callable[[np.ndarray], Any]:
        axis = kwargs.get("axis")
        return lambda x: fn(
            x, axis=tuple(axis) if isinstance(axis, list) else axis, keepdims=kwargs.get("keepdims", False)
        )

    return [
        OpCase(op, label, lambda x, kw=kwargs: f(x, **kw), (shape,), domain, expected(kwargs))
        for label, (shape, kwargs) in settings.items()
    ]


def along_axis(op: str) -> list[OpCase]:
    f = getattr(F, op)
    return [
        OpCase(op, "vector", f, ((5,),)),
        OpCase(op, "rows", f, ((2, 5),)),
        OpCase(op, "first_axis", lambda x: f(x, 0), ((3, 2),)),
        OpCase(op, "middle_axis", lambda x: f(x, axis=1), ((2, 3, 5),)),
        OpCase(op, "single", f, ((3, 1),)),
        OpCase(op, "huge", f, ((3, 5),), huge, atol=1e-6),
        OpCase(op, "no_rows", f, ((0, 5),)),
    ]


def shaped(
    op: str, label: str, fn: Callable[..., Tensor], *shapes: Shape, numpy: Callable[..., Any] | None = None
) -> OpCase:
    return OpCase(op, label, fn, shapes, anywhere, numpy)


def picked(label: str, index: Any, shape: Shape = (5, 3, 2)) -> OpCase:
    return OpCase("getitem", label, lambda x: F.getitem(x, index), (shape,), anywhere, lambda x: x[index])


def looked_up(label: str, ids: Any, rows: int = 5) -> OpCase:
    return OpCase(
        "embedding", label, lambda w: F.embedding(w, ids), ((rows, 3),), anywhere, lambda w: w[np.asarray(ids, int)]
    )


def loss(label: str, targets: Any, shape: Shape, domain: Callable[..., Arrays] = anywhere, **kwargs: Any) -> OpCase:
    return OpCase(
        "cross_entropy",
        label,
        lambda z: F.cross_entropy(z, np.asarray(targets, int), **kwargs),
        (shape,),
        domain,
        atol=1e-6 if domain is huge else 1e-8,
    )


def attention(label: str, *shapes: Shape, domain: Callable[..., Arrays] = anywhere, **kwargs: Any) -> OpCase:
    fn = lambda q, k, v: F.scaled_dot_product_attention(q, k, v, **kwargs)  # noqa: E731
    return OpCase(
        "scaled_dot_product_attention", label, fn, shapes, domain, atol=1e-6 if domain is strong_scores else 1e-8
    )


def packed(label: str, shape: Shape, n_heads: int, **kwargs: Any) -> OpCase:
    return OpCase("self_attention", label, lambda x: F.self_attention(x, n_heads, **kwargs), (shape,))


def joined(label: str, weights: int, biases: int, shape: Shape) -> OpCase:
    widths = (2, 7, 5)[:weights]

    def fn(x: Tensor, *parts: Tensor) -> Tensor:
        leaves = [as_tensor(part) for part in parts]
        return F.joined_linear(x, Columns(leaves[:weights]), Columns(leaves[weights:]) if biases else None)

    def with_numpy(x: np.ndarray, *parts: np.ndarray) -> np.ndarray:
        out = x @ np.concatenate(parts[:weights], axis=1)
        return out + np.concatenate(parts[weights:]) if biases else out

    shapes = (shape, *[(3, width) for width in widths], *[(width,) for width in widths[:biases]])
    return OpCase("joined_linear", label, fn, shapes, anywhere, with_numpy)


def rope_tables(*shape: int) -> tuple[np.ndarray, np.ndarray]:
    angles = np.random.default_rng(1).uniform(-3.0, 3.0, shape)
    return np.cos(angles), np.sin(angles)


def recombine(parts: list[Tensor]) -> Tensor:
    return parts[0] * parts[1] + parts[2]


CHOICE = np.array([[True, False, True], [False, True, False]])
MASK = np.array([[True, True, False], [True, True, True]])  # (B, T) = (2, 3)
LEFT_PADDED = np.array([[False, True, True], [True, True, True]])

CASES: list[OpCase] = [
    # arithmetic
    *binary("add", np.add),
    *binary("subtract", np.subtract),
    *binary("multiply", np.multiply),
    *binary("divide", np.divide, away_from_zero),
    *binary("power", np.power, positive),
    *binary("maximum", np.maximum, distinct),
    *binary("minimum", np.minimum, distinct),
    OpCase("add", "same_twice", lambda x: F.add(x, x), ((2, 3),), anywhere, lambda x: 2 * x),
    OpCase("multiply", "same_twice", lambda x: F.multiply(x, x), ((2, 3),), anywhere, np.square),
    OpCase("multiply", "number", lambda x: F.multiply(3, x), ((2, 3),), anywhere, lambda x: 3 * x),
    OpCase("divide", "by_number", lambda x: F.divide(x, 3), ((2, 3),), anywhere, lambda x: x / 3),
    OpCase("divide", "of_number", lambda x: F.divide(3, x), ((2, 3),), away_from_zero, lambda x: 3 / x),
    OpCase("power", "square", lambda x: F.power(x, 2), ((2, 3),), anywhere, np.square),
    OpCase("power", "square_0d", lambda x: F.power(x, 2), ((),), anywhere, np.square),
    OpCase("power", "cube_of_negatives", lambda x: F.power(x, 3), ((2, 3),), away_from_zero, lambda x: x**3),
    OpCase("power", "root", lambda x: F.power(x, 0.5), ((2, 3),), positive, np.sqrt),
    OpCase("power", "reciprocal", lambda x: F.power(x, -1), ((2, 3),), away_from_zero, lambda x: 1 / x),
    OpCase("power", "zeroth", lambda x: F.power(x, 0), ((2, 3),), anywhere, np.ones_like),
    OpCase("power", "number_base", lambda x: F.power(2, x), ((2, 3),), anywhere, np.exp2),
    *unary("negative", np.negative),
    OpCase(
        "where",
        "same",
        lambda a, b: F.where(CHOICE, a, b),
        ((2, 3), (2, 3)),
        anywhere,
        lambda a, b: np.where(CHOICE, a, b),
    ),
    OpCase(
        "where",
        "broadcast",
        lambda a, b: F.where(CHOICE, a, b),
        ((3,), (5, 1, 1)),
        anywhere,
        lambda a, b: np.where(CHOICE, a, b),
    ),
    OpCase("where", "0d", lambda a, b: F.where(np.True_, a, b), ((), ()), anywhere, lambda a, b: a),
    OpCase(
        "where", "numbers", lambda a: F.where(CHOICE, a, 0.5), ((2, 3),), anywhere, lambda a: np.where(CHOICE, a, 0.5)
    ),
    OpCase("where", "empty", lambda a, b: F.where(np.ones((0, 3), bool), a, b), ((0, 3), (3,))),
    OpCase("clip", "both", lambda x: F.clip(x, -0.5, 0.4), ((3, 5),), distinct, lambda x: np.clip(x, -0.5, 0.4)),
    OpCase("clip", "low", lambda x: F.clip(x, -0.5), ((3, 5),), distinct, lambda x: np.maximum(x, -0.5)),
    OpCase("clip", "high", lambda x: F.clip(x, high=1), ((3, 5),), distinct, lambda x: np.minimum(x, 1)),
    OpCase("clip", "0d", lambda x: F.clip(x, -0.5, 0.4), ((),), distinct, lambda x: np.clip(x, -0.5, 0.4)),
    # elementwise
    *unary("exp", np.exp),
    *unary("log", np.log, positive),
    *unary("sqrt", np.sqrt, positive),
    *unary("tanh", np.tanh),
    *unary("sigmoid", lambda x: 1 / (1 + np.exp(-x))),
    *unary("relu", lambda x: np.maximum(x, 0), away_from_zero),
    *unary("abs", np.abs, away_from_zero),
    OpCase("tanh", "huge", F.tanh, ((2, 3),), huge, np.sign),
    OpCase("sigmoid", "huge", F.sigmoid, ((2, 3),), huge, lambda x: np.where(x > 0, 1.0, 0.0)),
    *unary("gelu", lambda x: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))),
    OpCase("gelu", "wide", F.gelu, ((5, 7),), wide),
    OpCase("gelu", "exact", lambda x: F.gelu(x, "none"), ((5, 7),), wide),
    OpCase("gelu", "exact_0d", lambda x: F.gelu(x, "none"), ((),)),
    OpCase("gelu", "exact_empty", lambda x: F.gelu(x, "none"), ((0, 3),)),
    # reductions
    *reduction("sum", np.sum),
    *reduction("mean", np.mean),
    *reduction("var", np.var),
    *reduction("max", np.max, distinct),
    *reduction("min", np.min, distinct),
    OpCase("sum", "over_nothing", lambda x: F.sum(x, axis=0), ((0, 3),), anywhere, lambda x: np.zeros(3)),
    OpCase("sum", "no_axis", lambda x: F.sum(x, axis=()), ((2, 3),), anywhere, lambda x: x),
    # shaping
    shaped("reshape", "numbers", lambda x: F.reshape(x, 3, 2), (2, 3), numpy=lambda x: x.reshape(3, 2)),
    shaped("reshape", "tuple_inferred", lambda x: F.reshape(x, (-1, 5)), (2, 3, 5), numpy=lambda x: x.reshape(-1, 5)),
    shaped("reshape", "numpy_integers", lambda x: F.reshape(x, np.int64(6)), (2, 3), numpy=np.ravel),
    shaped("reshape", "to_0d", lambda x: F.reshape(x, ()), (1, 1), numpy=lambda x: x[0, 0]),
    shaped("reshape", "from_0d", lambda x: F.reshape(x, 1, 1), (), numpy=lambda x: x[None, None]),
    shaped("reshape", "empty", lambda x: F.reshape(x, 3, 0), (0, 3), numpy=lambda x: np.zeros((3, 0))),
    shaped("transpose", "reversed", F.transpose, (2, 3, 5), numpy=np.transpose),
    shaped("transpose", "0d", F.transpose, (), numpy=lambda x: x),
    shaped("transpose", "numbers", lambda x: F.transpose(x, 2, 0, 1), (2, 3, 5), numpy=lambda x: x.transpose(2, 0, 1)),
    shaped(
        "transpose", "negative", lambda x: F.transpose(x, (1, -1, 0)), (2, 3, 5), numpy=lambda x: x.transpose(1, 2, 0)
    ),
    shaped("swapaxes", "pair", lambda x: F.swapaxes(x, 0, -1), (2, 3, 5), numpy=lambda x: x.swapaxes(0, 2)),
    shaped("swapaxes", "empty", lambda x: F.swapaxes(x, 0, 1), (0, 3), numpy=lambda x: x.swapaxes(0, 1)),
    shaped("expand_dims", "first", lambda x: F.expand_dims(x, 0), (2, 3), numpy=lambda x: x[None]),
    shaped("expand_dims", "several", lambda x: F.expand_dims(x, (0, -1)), (2, 3), numpy=lambda x: x[None, :, :, None]),
    shaped("expand_dims", "0d", lambda x: F.expand_dims(x, 0), (), numpy=lambda x: x[None]),
    shaped("squeeze", "all", F.squeeze, (1, 3, 1), numpy=lambda x: x[0, :, 0]),
    shaped("squeeze", "one", lambda x: F.squeeze(x, 0), (1, 3, 1), numpy=lambda x: x[0]),
    shaped("squeeze", "list", lambda x: F.squeeze(x, [0, -1]), (1, 3, 1), numpy=lambda x: x[0, :, 0]),
    shaped(
        "broadcast_to",
        "axes",
        lambda x: F.broadcast_to(x, (2, 3, 5)),
        (3, 1),
        numpy=lambda x: np.broadcast_to(x, (2, 3, 5)),
    ),
    shaped("broadcast_to", "0d", lambda x: F.broadcast_to(x, [2, 3]), (), numpy=lambda x: np.broadcast_to(x, (2, 3))),
    shaped("broadcast_to", "empty", lambda x: F.broadcast_to(x, (0, 3)), (1, 3), numpy=lambda x: np.zeros((0, 3))),
    shaped(
        "concatenate",
        "first",
        lambda a, b, c: F.concatenate([a, b, c]),
        (2, 3),
        (0, 3),
        (5, 3),
        numpy=lambda *a: np.concatenate(a),
    ),
    shaped(
        "concatenate",
        "last",
        lambda a, b: F.concatenate((a, b), axis=-1),
        (2, 3),
        (2, 5),
        numpy=lambda *a: np.concatenate(a, -1),
    ),
    shaped(
        "concatenate",
        "same_twice",
        lambda x: F.concatenate([x, x], axis=1),
        (2, 3),
        numpy=lambda x: np.concatenate([x, x], 1),
    ),
    shaped("stack", "first", lambda a, b: F.stack([a, b]), (2, 3), (2, 3), numpy=lambda *a: np.stack(a)),
    shaped(
        "stack",
        "last",
        lambda a, b, c: F.stack([a, b, c], axis=-1),
        (2, 3),
        (2, 3),
        (2, 3),
        numpy=lambda *a: np.stack(a, -1),
    ),
    shaped("stack", "0d", lambda a, b: F.stack([a, b]), (), (), numpy=lambda *a: np.array(a)),
    shaped(
        "split",
        "sections",
        lambda x: recombine(F.split(x, 3, axis=-1)),
        (2, 6),
        numpy=lambda x: recombine(np.split(x, 3, -1)),
    ),
    shaped("split", "indices", lambda x: F.split(x, [2, 3], axis=1)[1], (2, 5), numpy=lambda x: x[:, 2:3]),
    shaped("split", "negative_index", lambda x: F.split(x, [-2])[1], (5, 3), numpy=lambda x: x[-2:]),
    shaped("split", "overlapping", lambda x: F.split(x, [3, 1])[2], (5, 3), numpy=lambda x: x[1:]),
    shaped("split", "empty_part", lambda x: F.split(x, np.array([2, 2]))[1], (5, 3), numpy=lambda x: x[:0]),
    # indexing
    picked("integer", 1),
    picked("numpy_integer", np.int64(-1)),
    picked("integers", (-1, slice(None), 1)),
    picked("slices", (slice(1, None), slice(None, None, 2), slice(None, None, -1))),
    picked("new_axis", (..., None, slice(1, None))),
    picked("everything", ()),
    picked("0d", ..., shape=()),
    picked("nothing", slice(0, 0)),
    picked("list_repeated", [4, 1, 4, 4]),
    picked("array_repeated", np.array([[0, -1], [4, 0]])),
    picked("array_0d", np.array(2)),
    picked("pairs_repeated", (np.array([0, 0, 4]), np.array([1, 1, 2]))),
    picked("column", (slice(None), np.array([2, 2, 0]))),
    picked("array_beside_integer", (np.array([3, 3, 1]), 1, slice(None))),
    picked("mask", np.arange(30).reshape(5, 3, 2) % 3 == 1),
    picked("mask_of_rows", np.array([True, False, True, True, False])),
    picked("empty_array", np.zeros(0, int)),
    OpCase(
        "getitem",
        "tensor",
        lambda x: F.getitem(x, Tensor(np.array([1, 1, 0]))),
        ((5, 3),),
        anywhere,
        lambda x: x[[1, 1, 0]],
    ),
    OpCase(
        "getitem",
        "tensor_in_tuple",
        lambda x: F.getitem(x, (slice(None), Tensor(np.array([1, 1])))),
        ((5, 3),),
        anywhere,
        lambda x: x[:, [1, 1]],
    ),
    looked_up("repeated", [1, 1, 0, 1]),
    looked_up("2d", [[0, 4, 0], [2, 4, 4]]),
    looked_up("0d", 3),
    looked_up("empty", np.zeros((2, 0), int)),
    looked_up("empty_list", []),
    looked_up("few_of_many", [90, 3, 90], rows=97),
    # products
    shaped("matmul", "vectors", F.matmul, (3,), (3,), numpy=np.matmul),
    shaped("matmul", "matrix_vector", F.matmul, (2, 3), (3,), numpy=np.matmul),
    shaped("matmul", "vector_matrix", F.matmul, (3,), (3, 5), numpy=np.matmul),
    shaped("matmul", "matrices", F.matmul, (2, 3), (3, 5), numpy=np.matmul),
    shaped("matmul", "stack_matrix", F.matmul, (7, 2, 3), (3, 5), numpy=np.matmul),
    shaped("matmul", "matrix_stack", F.matmul, (2, 3), (7, 3, 5), numpy=np.matmul),
    shaped("matmul", "stack_vector", F.matmul, (7, 2, 3), (3,), numpy=np.matmul),
    shaped("matmul", "vector_stack", F.matmul, (3,), (7, 3, 5), numpy=np.matmul),
    shaped("matmul", "stacks_broadcast", F.matmul, (5, 1, 2, 3), (7, 3, 2), numpy=np.matmul),
    shaped("matmul", "no_rows", F.matmul, (0, 3), (3, 2), numpy=np.matmul),
    shaped("matmul", "nothing_to_sum", F.matmul, (2, 0), (0, 3), numpy=np.matmul),
    shaped("matmul", "same_twice", lambda x: F.matmul(x, x), (3, 3), numpy=lambda x: x @ x),
    shaped("linear", "matrix", F.linear, (5, 3), (3, 2), (2,), numpy=lambda x, w, b: x @ w + b),
    shaped("linear", "vector", F.linear, (3,), (3, 2), (2,), numpy=lambda x, w, b: x @ w + b),
    shaped("linear", "stack", F.linear, (2, 5, 3), (3, 2), (2,), numpy=lambda x, w, b: x @ w + b),
    shaped("linear", "no_bias", F.linear, (2, 5, 3), (3, 2), numpy=lambda x, w: x @ w),
    shaped("linear", "no_rows", F.linear, (0, 3), (3, 2), (2,), numpy=lambda x, w, b: np.zeros((0, 2))),
    joined("two", 2, 0, (5, 3)),
    joined("three_with_biases", 3, 3, (5, 3)),
    joined("stack", 3, 3, (2, 5, 3)),
    joined("vector", 2, 2, (3,)),
    joined("one", 1, 1, (5, 3)),
    joined("no_rows", 2, 2, (0, 3)),
    # softmax and losses
    *along_axis("softmax"),
    *along_axis("log_softmax"),
    *along_axis("logsumexp"),
    loss("mean", [2, 0, 4], (3, 5)),
    loss("sum", [2, 0, 4], (3, 5), reduction="sum"),
    loss("none", [2, 0, 4], (3, 5), reduction="none"),
    loss("batch_ignored", [[2, -100, 4], [0, 0, -100]], (2, 3, 5)),
    loss("none_ignored", [[2, -100, 4], [0, 0, -100]], (2, 3, 5), reduction="none"),
    loss("sum_ignored", [1, 3, 3], (3, 5), reduction="sum", ignore_index=3),
    loss("one_example", 3, (5,)),
    loss("huge", [2, 0, 4], (3, 5), huge),
    loss("all_ignored", [-100, -100], (2, 5)),
    loss("no_rows", np.zeros((0, 3), int), (0, 3, 5)),
    # normalisation
    shaped("layer_norm", "rows", F.layer_norm, (5, 7), (7,), (7,)),
    shaped("layer_norm", "stack", F.layer_norm, (2, 3, 7), (7,), (7,)),
    shaped("layer_norm", "vector", F.layer_norm, (7,), (7,), (7,)),
    shaped("layer_norm", "large_eps", lambda x, w, b: F.layer_norm(x, w, b, 0.5), (5, 7), (7,), (7,)),
    shaped("layer_norm", "width_1", F.layer_norm, (5, 1), (1,), (1,)),
    shaped("layer_norm", "no_rows", F.layer_norm, (0, 7), (7,), (7,)),
    OpCase("layer_norm", "constant_rows", F.layer_norm, ((3, 7), (7,), (7,)), constant_rows, atol=1e-5),
    # attention
    attention("one_head", (3, 5), (7, 5), (7, 2)),
    attention("heads", (2, 3, 5, 7), (2, 3, 5, 7), (2, 3, 5, 7)),
    attention("causal", (2, 5, 3), (2, 5, 3), (2, 5, 3), causal=True),
    attention("causal_more_keys", (2, 3, 5), (2, 7, 5), (2, 7, 5), causal=True),
    attention("causal_more_queries", (5, 3), (2, 3), (2, 3), causal=True),
    attention("key_mask", (2, 5, 3), (2, 3, 3), (2, 3, 7), key_mask=MASK),
    attention("dead_rows", (2, 3, 5), (2, 3, 5), (2, 3, 5), causal=True, key_mask=LEFT_PADDED),
    attention("shared_keys", (2, 3, 5, 7), (2, 1, 5, 7), (1, 1, 5, 7)),
    attention("strong_scores", (2, 3, 5), (2, 3, 5), (2, 3, 5), domain=strong_scores, causal=True),
    attention("no_keys", (3, 5), (0, 5), (0, 2)),
    attention("no_batch", (0, 3, 5), (0, 3, 5), (0, 3, 5)),
    packed("one_head", (3, 15), 1),
    packed("heads_causal", (2, 5, 12), 2, causal=True),
    packed("key_mask", (2, 3, 12), 2, key_mask=MASK),
    packed("dead_rows", (2, 3, 12), 2, causal=True, key_mask=LEFT_PADDED),
    packed("mask_without_batch", (3, 12), 2, key_mask=MASK[0]),
    packed("rope", (2, 3, 24), 2, causal=True, rope=rope_tables(3, 2)),
    packed("rope_per_example", (2, 3, 12), 1, rope=rope_tables(2, 3, 2)),
    packed("rope_without_batch", (3, 12), 1, rope=rope_tables(3, 2)),
    packed("no_batch", (0, 3, 12), 2, causal=True),
    # dropout
    OpCase("dropout", "training", lambda x: F.dropout(x, 0.25, rng=np.random.default_rng(5)), ((5, 7),)),
    OpCase("dropout", "0d", lambda x: F.dropout(x, 0.25, rng=np.random.default_rng(5)), ((),)),
    OpCase(
        "dropout",
        "evaluation",
        lambda x: F.dropout(x, 0.25, rng=np.random.default_rng(5), training=False),
        ((2, 3),),
        anywhere,
        lambda x: x,
    ),
]

each_case = pytest.mark.parametrize("case", CASES, ids=[case.id for case in CASES])


def run(case: OpCase, arrays: Arrays, cotangent: np.ndarray) -> tuple[Tensor, list[np.ndarray | None]]:
    inputs = [Tensor(a, requires_grad=True) for a in arrays]
    out = case.fn(*inputs)
    out.backward(cotangent)
    return out, [x.grad for x in inputs]


def prepared(case: OpCase, rng: np.random.Generator) -> tuple[Arrays, np.ndarray]:
    """Inputs, and a random cotangent of the output's shape."""
    arrays = [np.asarray(a) for a in case.domain(rng, case.shapes)]
    return arrays, np.asarray(rng.standard_normal(case.fn(*arrays).shape))


def test_every_operation_has_a_case_and_every_case_an_operation() -> None:
    assert {case.op for case in CASES} == set(F.__all__)


def test_case_names_are_unique() -> None:
    assert len({case.id for case in CASES}) == len(CASES)


def test_functional_lists_every_operation_of_the_ops_modules() -> None:
    defined = set()
    for module_info in pkgutil.iter_modules(autograd_core.ops.__path__):
        module = importlib.import_module(f"autograd_core.ops.{module_info.name}")
        for name, item in inspect.getmembers(module, inspect.isfunction):
            returns = item.__annotations__.get("return")
            if (
                item.__module__ == module.__name__
                and not name.startswith("_")
                and returns in ("Tensor", "list[Tensor]")
            ):
                defined.add(name)
    assert defined == set(F.__all__)


@each_case
def test_vjp_agrees_with_finite_differences(case: OpCase, rng: np.random.Generator) -> None:
    check_vjp(case.fn, *case.domain(rng, case.shapes), rng=rng, atol=case.atol)


WITH_NUMPY = [case for case in CASES if case.numpy]


@pytest.mark.parametrize("case", WITH_NUMPY, ids=[case.id for case in WITH_NUMPY])
def test_value_is_numpys(case: OpCase, rng: np.random.Generator) -> None:
    assert case.numpy is not None
    arrays = case.domain(rng, case.shapes)
    expected = np.asarray(case.numpy(*arrays))
    value = case.fn(*[Tensor(a) for a in arrays]).value
    assert type(value) is np.ndarray
    assert value.shape == expected.shape
    np.testing.assert_allclose(value, expected, rtol=1e-14, atol=1e-14)


@each_case
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dtype_in_is_dtype_out_for_value_and_gradients(case: OpCase, dtype: type, rng: np.random.Generator) -> None:
    arrays, cotangent = prepared(case, rng)
    out, grads = run(case, [a.astype(dtype) for a in arrays], cotangent.astype(dtype))
    assert type(out.value) is np.ndarray
    assert out.dtype == dtype
    for grad, array in zip(grads, arrays, strict=True):
        assert type(grad) is np.ndarray
        assert grad.dtype == dtype
        assert grad.shape == array.shape
        assert grad.flags.writeable


ORDINARY = [case for case in CASES if case.domain not in (huge, strong_scores, constant_rows)]


@pytest.mark.parametrize("case", ORDINARY, ids=[case.id for case in ORDINARY])
def test_float32_agrees_with_float64(case: OpCase, rng: np.random.Generator) -> None:
    arrays, cotangent = prepared(case, rng)
    arrays = [a.astype(np.float32).astype(np.float64) for a in arrays]
    wide_out, wide_grads = run(case, arrays, cotangent)
    out, grads = run(case, [a.astype(np.float32) for a in arrays], cotangent.astype(np.float32))
    np.testing.assert_allclose(out.value, wide_out.value, rtol=2e-5, atol=2e-5)
    for grad, expected in zip(grads, wide_grads, strict=True):
        np.testing.assert_allclose(grad, expected, rtol=2e-5, atol=5e-5)


@each_case
def test_non_contiguous_read_only_inputs_and_cotangents_change_nothing(case: OpCase, rng: np.random.Generator) -> None:
    arrays, cotangent = prepared(case, rng)

    def awkward(array: np.ndarray) -> np.ndarray:
        """Equal entries, in every second place of a reversed-axes array, and not writable."""
        spaced = np.zeros(tuple(2 * n for n in reversed(array.shape)))
        view = spaced[(..., *[slice(None, None, 2)] * array.ndim)].T
        view[...] = array
        view.flags.writeable = False
        return view

    plain_out, plain_grads = run(case, arrays, cotangent)
    out, grads = run(case, [awkward(a) for a in arrays], awkward(cotangent))
    np.testing.assert_allclose(out.value, plain_out.value, rtol=1e-13, atol=1e-13)
    for grad, expected in zip(grads, plain_grads, strict=True):
        np.testing.assert_allclose(grad, expected, rtol=1e-12, atol=1e-12)


@each_case
def test_plain_arrays_are_operands_and_record_nothing(case: OpCase, rng: np.random.Generator) -> None:
    arrays, cotangent = prepared(case, rng)
    out = case.fn(*arrays)
    recorded, _ = run(case, arrays, cotangent)
    assert isinstance(out, Tensor)
    assert not out.requires_grad
    assert graph_size(out) == 0
    assert np.array_equal(out.value, recorded.value)


@each_case
def test_no_grad_records_nothing_and_changes_no_bit(case: OpCase, rng: np.random.Generator) -> None:
    arrays, cotangent = prepared(case, rng)
    recorded, _ = run(case, arrays, cotangent)
    with no_grad():
        out = case.fn(*[Tensor(a, requires_grad=True) for a in arrays])
    if out.requires_grad:  # evaluation-mode dropout hands its input on
        assert case.id == "dropout-evaluation"
    else:
        assert graph_size(out) == 0
    assert np.array_equal(out.value, recorded.value)


OF_SEVERAL = [case for case in CASES if len(case.shapes) > 1]


@pytest.mark.parametrize("case", OF_SEVERAL, ids=[case.id for case in OF_SEVERAL])
def test_each_gradient_is_the_same_when_the_others_are_not_wanted(case: OpCase, rng: np.random.Generator) -> None:
    arrays, cotangent = prepared(case, rng)
    _, grads = run(case, arrays, cotangent)
    for wanted in range(len(arrays)):
        inputs = [Tensor(a, requires_grad=i == wanted) for i, a in enumerate(arrays)]
        case.fn(*inputs).backward(cotangent)
        np.testing.assert_allclose(inputs[wanted].grad, grads[wanted], rtol=1e-14, atol=1e-14)
        assert all(x.grad is None for i, x in enumerate(inputs) if i != wanted)


@each_case
def test_vjps_close_over_arrays_and_never_over_a_tensor(case: OpCase, rng: np.random.Generator) -> None:
    # A tensor in a vjp would point back at the graph: a cycle, which reference counting cannot free.
    arrays, _ = prepared(case, rng)
    out = case.fn(*[Tensor(a, requires_grad=True) for a in arrays])
    nodes = [out._node] if out._node else []
    while nodes:
        node = nodes.pop()
        kept = [cell.cell_contents for cell in node.vjp.__closure__ or ()]
        for content in kept:
            parts = content if isinstance(content, (tuple, list)) else (content,)
            assert not any(isinstance(part, (Tensor, Node)) for part in parts)
        nodes.extend(parent for parent in node.parents if isinstance(parent, Node))


def refusal(call: Callable[[], None]) -> str:
    try:
        call()
    except RuntimeError as error:
        return str(error)
    return ""


@each_case
def test_in_debug_a_write_into_an_input_is_an_error_or_changes_no_gradient(
    case: OpCase, rng: np.random.Generator
) -> None:
    arrays, cotangent = prepared(case, rng)
    _, expected = run(case, arrays, cotangent)
    for written in range(len(arrays)):
        inputs = [Tensor(a.copy(), requires_grad=True) for a in arrays]
        with autograd_core.debug():
            out = case.fn(*inputs)
        inputs[written].value[...] += 1.0
        message = refusal(lambda out=out: out.backward(cotangent))
        if message:
            assert "must not be written into" in message
            assert all(x.grad is None for x in inputs)
            continue
        for x, grad in zip(inputs, expected, strict=True):
            assert np.array_equal(x.grad, grad)
