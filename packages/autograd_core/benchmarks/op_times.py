"""CPU time an operation, forward and backward: of this package, and of the hand-written step beside it.

Functions are wrapped for the duration of the profile; what a wrapped function calls counts for the callee alone. A
clock reading costs about a third of a microsecond, so a step of sixty operations looks some 40 µs longer than it is.
"""

from __future__ import annotations

import statistics
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, wraps
from typing import Any

Key = tuple[str, str]  # operation, "forward" or "backward"

# Operations that stand in one row with another.
OURS = {"joined_linear": "linear"}

# The hand-written step's methods by the operations of this package.
HAND: dict[str, Key] = {
    "_embed": ("embedding", "forward"),
    "_embed_vjp": ("embedding", "backward"),
    "_normalise": ("layer_norm", "forward"),
    "_normalise_vjp": ("layer_norm", "backward"),
    "_weight_gradient": ("linear", "backward"),
    "_attend": ("self_attention", "forward"),
    "_attend_vjp": ("self_attention", "backward"),
    "_gelu": ("gelu", "forward"),
    "_loss": ("cross_entropy", "forward"),
    "_forward": ("the rest", "forward"),
    "_backward": ("the rest", "backward"),
    "_fold": ("folding of weights", "forward"),
    "_unfold": ("folding of weights", "backward"),
    "_update": ("clipping and AdamW", "forward"),
}


@dataclass
class _Running:
    key: Key
    in_callees: float = 0.0  # seconds


class Clock:
    """Exclusive times: a stack of what is running."""

    def __init__(self) -> None:
        self.running: list[_Running] = []
        self.spent: dict[Key, float] = defaultdict(float)
        self.calls: dict[Key, int] = defaultdict(int)

    def timed(self, function: Callable[..., Any], key: Callable[[], Key]) -> Callable[..., Any]:
        @wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            name = key()
            entry = _Running(name)
            self.running.append(entry)
            start = time.thread_time()
            try:
                return function(*args, **kwargs)
            finally:
                took = time.thread_time() - start
                self.running.pop()
                self.spent[name] += took - entry.in_callees
                self.calls[name] += 1
                if self.running:
                    self.running[-1].in_callees += took

        return wrapper

    def in_backward(self) -> bool:
        return any(entry.key[1] == "backward" for entry in self.running)


class Profile:
    """A contestant with its functions wrapped."""

    def __init__(self, name: str, contestant: Any, run: Callable[[], Any]) -> None:
        self.clock = Clock()
        if name in ("hand", "hand_block"):
            self.run = _wrap_hand(self.clock, contestant, run)
        elif name == "ours":
            self.run = _wrap_ours(self.clock, contestant, run)
        else:
            raise ValueError(f"profile: only 'hand' and 'ours' are taken apart; got {name!r}.")

    def measure(self, steps: int) -> list[dict[str, Any]]:
        """One record an operation and direction, in the order of first use; seconds are medians over the steps."""
        clock = self.clock
        self.run()
        each_step = []
        for _ in range(steps):
            clock.spent.clear()
            clock.calls.clear()
            self.run()
            each_step.append(dict(clock.spent))
        return [
            {
                "operation": key[0],
                "direction": key[1],
                "calls": clock.calls[key],
                "seconds": statistics.median(step.get(key, 0.0) for step in each_step),
            }
            for key in each_step[-1]
        ]


def middle(turns: list[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Records of several measurements, medians over them."""
    seconds: dict[Key, list[float]] = defaultdict(list)
    for records in turns:
        for record in records:
            seconds[record["operation"], record["direction"]].append(record["seconds"])
    return [
        {**record, "seconds": statistics.median(seconds[record["operation"], record["direction"]])}
        for record in turns[-1]
    ]


def _same(key: Key) -> Key:
    return key


def _wrap_hand(clock: Clock, contestant: Any, run: Callable[[], Any]) -> Callable[[], Any]:
    for method, key in HAND.items():
        if hasattr(contestant, method):
            setattr(contestant, method, clock.timed(getattr(contestant, method), partial(_same, key)))
    product = clock.timed(contestant._product, lambda: ("linear", "backward" if clock.in_backward() else "forward"))
    contestant._product = product
    return clock.timed(run, lambda: ("the rest", "forward"))


def _wrap_ours(clock: Clock, contestant: Any, run: Callable[[], Any]) -> Callable[[], Any]:
    from autograd_core import functional
    from autograd_core.optim import clip_grad_norm
    from autograd_core.tensor import Tensor
    from contestants import ours

    for op in functional.__all__:
        setattr(functional, op, clock.timed(getattr(functional, op), partial(_same, (OURS.get(op, op), "forward"))))

    from_op = Tensor.from_op

    def from_op_with_clock(value: Any, parents: Any, vjp: Any, op: str, **options: Any) -> Tensor:
        return from_op(value, parents, clock.timed(vjp, partial(_same, (OURS.get(op, op), "backward"))), op, **options)

    Tensor.from_op = staticmethod(from_op_with_clock)  # type: ignore[method-assign]
    Tensor.backward = clock.timed(Tensor.backward, lambda: ("the rest", "backward"))  # type: ignore[method-assign]
    clip = clock.timed(clip_grad_norm, lambda: ("clipping and AdamW", "forward"))
    ours.clip_grad_norm = clip  # type: ignore[attr-defined]
    contestant.optimizer.step = clock.timed(contestant.optimizer.step, lambda: ("clipping and AdamW", "forward"))
    return clock.timed(run, lambda: ("the rest", "forward"))


def table(ours: list[dict[str, Any]], hand: list[dict[str, Any]]) -> str:
    """Both side by side, as Markdown, in microseconds."""
    columns = [{(r["operation"], r["direction"]): r for r in records} for records in (ours, hand)]
    operations = list(dict.fromkeys(r["operation"] for records in (ours, hand) for r in records))
    lines = [
        "| operation | calls | ours, forward µs | backward µs | hand, forward µs | backward µs | ours − hand µs |",
        "|---|---|---|---|---|---|---|",
    ]
    totals = [0.0] * 5
    for operation in operations:
        times = [
            found.get((operation, direction), {"seconds": 0.0})["seconds"] * 1e6
            for found in columns
            for direction in ("forward", "backward")
        ]
        times.append(times[0] + times[1] - times[2] - times[3])
        totals = [total + value for total, value in zip(totals, times, strict=True)]
        calls = columns[0].get((operation, "forward"), {"calls": 0})["calls"]
        lines.append(f"| {operation} | {calls} | " + " | ".join(f"{value:.0f}" for value in times) + " |")
    lines.append("| **sum** | | " + " | ".join(f"**{value:.0f}**" for value in totals) + " |")
    return "\n".join(lines)
