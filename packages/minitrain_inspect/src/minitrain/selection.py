"""Which modules and parameters are meant: names for parameters, and patterns over names."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Mapping

from autograd_core import Module, Parameter


class Selection:
    """The names that match one of `include` and none of `exclude`.

    Parameters
    ----------
    include, exclude : str or iterable of str
        Patterns as in file names (`*`, `?`, `[…]`; upper and lower case distinct); one string may hold several,
        separated by commas.

    Examples
    --------
    >>> chosen = Selection("blocks.*, ln_final", exclude="*.bias")
    >>> [name in chosen for name in ("blocks.0", "blocks.0.bias", "ln_final", "embedding")]
    [True, False, True, False]
    """

    def __init__(self, include: str | Iterable[str] = "*", exclude: str | Iterable[str] = "") -> None:
        self._include = _patterns(include)
        self._exclude = _patterns(exclude)

    def __contains__(self, name: str) -> bool:
        return _matches(name, self._include) and not _matches(name, self._exclude)


def name_parameters(model: Module, params: Iterable[Parameter] | Mapping[str, Parameter]) -> dict[str, Parameter]:
    """Return name to parameter, each parameter once, under its first name.

    Parameters
    ----------
    model : Module
        Gives the names of an iterable's parameters; one it does not know becomes `parameter.<position>`.
    params : iterable of Parameter, or mapping of name to Parameter

    Raises
    ------
    TypeError
        If something other than a Parameter is among them.
    """
    if isinstance(params, Mapping):
        pairs = list(params.items())
    else:
        known = {id(param): name for name, param in model.named_parameters()}
        pairs = [(known.get(id(param), f"parameter.{index}"), param) for index, param in enumerate(params)]
    named: dict[str, Parameter] = {}
    seen: set[int] = set()
    for name, param in pairs:
        if not isinstance(param, Parameter):
            raise TypeError(
                f"Inspector: params must hold Parameters; got {type(param).__name__} as {name!r}. "
                "Pass model.parameters() or a dict of names."
            )
        if id(param) not in seen:
            seen.add(id(param))
            named[name] = param
    return named


def _patterns(patterns: str | Iterable[str]) -> list[str]:
    strings = [patterns] if isinstance(patterns, str) else patterns
    return [pattern.strip() for string in strings for pattern in string.split(",") if pattern.strip()]


def _matches(name: str, patterns: list[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
