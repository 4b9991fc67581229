"""One configuration value: the check it must pass, and the words in which an error says what is allowed.

A field of a configuration dataclass is declared with `integer`, `number`, `flag`, `choice` or `text`; the check
travels in the field's metadata, so that a dataclass made in Python, a TOML file and `--set` are held to the same
rule.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any


class ConfigError(ValueError):
    """A configuration that cannot be used; the message is one line that names the key and what is allowed."""


@dataclass(frozen=True, slots=True)
class Rule:
    """What a value must be: `accept` returns it as stored, or None where it is refused; `allowed` says so in words.

    `derive` makes the value where none is given, from the fields that stand above it.
    """

    allowed: str
    accept: Callable[[object], Any]
    derive: Callable[[Any], Any] | None = None


# The constructors return Any, as `dataclasses.field` pretends to: the annotation beside them is what counts.


def integer(default: int | Callable[[Any], int], *, least: int, most: int | None = None) -> Any:
    """Return a field for an integer in [least, most]; a callable default derives it from the fields above."""
    allowed = f"an integer of at least {least}" if most is None else f"an integer from {least} to {most}"

    def accept(value: object) -> int | None:
        if isinstance(value, bool) or not isinstance(value, int):
            return None
        return value if value >= least and (most is None or value <= most) else None

    return _field(default, allowed, accept)


def number(default: float | Callable[[Any], float], allowed: str, holds: Callable[[float], bool]) -> Any:
    """Return a field for a number, stored as a float, for which `holds` is true; `allowed` says what that means.

    A callable default derives it from the fields above.
    """

    def accept(value: object) -> float | None:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return None
        try:
            real = float(value)
        except OverflowError:  # an integer beyond the largest float
            return None
        return real if not math.isnan(real) and holds(real) else None

    return _field(default, f"a number {allowed}", accept)


def flag(default: bool) -> Any:
    """Return a field for true or false."""
    return _field(default, "true or false", lambda value: value if isinstance(value, bool) else None)


def choice(default: str, *options: str) -> Any:
    """Return a field for one of `options`."""
    allowed = " or ".join(f'"{option}"' for option in options)
    return _field(default, allowed, lambda value: value if isinstance(value, str) and value in options else None)


def text(default: str, allowed: str) -> Any:
    """Return a field for text that UTF-8 can hold; empty only if the default is."""

    def accept(value: object) -> str | None:
        if not isinstance(value, str) or "\0" in value or (default and not value):
            return None
        # A lone surrogate: a byte of the command line that was not text.
        return None if any("\ud800" <= character <= "\udfff" for character in value) else value

    return _field(default, allowed, accept)


def check_fields(section: object, name: str) -> None:
    """Hold every field of the frozen dataclass `section`, called `name`, to its rule; store what the rule accepts.

    Raises
    ------
    ConfigError
        For the first that is refused.
    """
    for each in fields(section):  # type: ignore[arg-type]  # any dataclass
        value = getattr(section, each.name)
        rule: Rule = each.metadata["rule"]
        if value is None and rule.derive is not None:
            value = rule.derive(section)
        stored = rule.accept(value)
        if stored is None:
            raise ConfigError(f"{name}.{each.name} must be {rule.allowed}; got {shown(value)}.")
        object.__setattr__(section, each.name, stored)


def _field(default: Any, allowed: str, accept: Callable[[object], Any]) -> Any:
    if callable(default):
        return field(default=None, metadata={"rule": Rule(allowed, accept, default)})
    return field(default=default, metadata={"rule": Rule(allowed, accept)})


def shown(value: object) -> str:
    """Return `value` on one line, as TOML would have it where that is easy, cut where it is long."""
    written = str(value).lower() if isinstance(value, bool) else repr(value)
    return written if len(written) <= 80 else f"{written[:77]}..."
