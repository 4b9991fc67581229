"""What a rule is, how one is written, and how the findings of many are put in order.

A rule is a small pure function of a `Record`: it returns a `Sighting`, or None. The decorator `rule` adds what is the
same each time it speaks. Nothing is registered anywhere: rules are handed over as a sequence, `RULES` being ours, or
found through the entry points of installed packages.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import entry_points

from ..bilingual import Text, plain
from .finding import SEVERITIES, Finding, Range, Severity
from .record import Record

ENTRY_POINTS = "minitrain.diagnose.rules"
"""Group of entry points; each names a Rule."""

PANELS = (
    *("loss", "learning_rate", "grad_norm", "activation"),
    *("spectral_norm", "dead_fraction", "update_ratio", "verbs"),
)
"""Keys of the dashboard's charts; a rule names the one that shows its fault best."""


@dataclass(frozen=True, slots=True)
class Sighting:
    """What a rule saw: `Finding` has the meaning of the fields.

    `cause` and `advice` stand in for the rule's own, where one code has causes that are mended differently.
    """

    where: str
    step: int
    evidence: Mapping[str, float]
    healthy_range: Mapping[str, Range] = field(default_factory=dict)
    cause: Text | None = None
    advice: Text | None = None


Check = Callable[[Record], Sighting | None]


@dataclass(frozen=True, slots=True)
class Rule:
    """A check with what does not change: `rule(record)` is the Finding, or None.

    Attributes
    ----------
    code : str
    check : callable
        From a Record to a Sighting or None; pure.
    severity : "error" or "warning"
    panel : str
        One of `PANELS`.
    cause, advice : Text
    explains : frozenset of str
        Codes that are symptoms of this one; findings of them stand after it.
    """

    code: str
    check: Check
    severity: Severity
    panel: str
    cause: Text
    advice: Text
    explains: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if self.severity not in SEVERITIES:
            raise ValueError(f"rule {self.code}: severity must be {' or '.join(SEVERITIES)}; got {self.severity!r}.")
        if self.panel not in PANELS:
            raise ValueError(f"rule {self.code}: panel must be one of {', '.join(PANELS)}; got {self.panel!r}.")

    def __call__(self, record: Record) -> Finding | None:
        seen = self.check(record)
        if seen is None:
            return None
        return Finding(
            code=self.code,
            severity=self.severity,
            where=seen.where,
            step=seen.step,
            # What is more than floats hold was not measured, and JSON has no word for it.
            evidence={name: value for name, value in seen.evidence.items() if math.isfinite(value)},
            healthy_range={name: (_open(low), _open(high)) for name, (low, high) in seen.healthy_range.items()},
            cause=seen.cause or self.cause,
            advice=seen.advice or self.advice,
        )


def rule(
    code: str,
    *,
    cause: Text | str,
    advice: Text | str,
    severity: Severity = "warning",
    panel: str = "loss",
    explains: Iterable[str] = (),
) -> Callable[[Check], Rule]:
    """Return a decorator that makes a Rule of a check; sentences given as `str` are the same in both languages.

    Raises
    ------
    ValueError
        If `severity` or `panel` is none of those there are.

    Examples
    --------
    >>> @rule("slow-start", cause="The first hundred steps taught nothing.", advice="Look at the data.")
    ... def slow_start(record):
    ...     losses = record.scalars["train_loss"]
    ...     if record.steps < 100 or losses.lowest.value < losses.first.value:
    ...         return None
    ...     return Sighting("train_loss", record.steps, {"lowest_loss": losses.lowest.value})
    >>> rows = [{"step": 1, "train_loss": 2.0}, {"step": 100, "train_loss": 2.5}]
    >>> [finding.code for finding in diagnose(Record(rows), [slow_start])]
    ['slow-start']
    """

    def make(check: Check) -> Rule:
        return Rule(code, check, severity, panel, _text(cause), _text(advice), frozenset(explains))

    return make


def _open(bound: float | None) -> float | None:
    """The bound; None, an open side, where it is not finite."""
    return None if bound is None or not math.isfinite(bound) else bound


def _text(words: Text | str) -> Text:
    return words if isinstance(words, Text) else plain(words)


def diagnose(record: Record, rules: Sequence[Rule]) -> list[Finding]:
    """Findings of `rules` about `record`: causes before the symptoms they explain, then by severity, then as listed."""
    found = [(each, finding) for each in rules if (finding := each(record)) is not None]
    found.sort(key=lambda pair: SEVERITIES.index(pair[0].severity))  # stable: rules keep their order
    ordered: list[Finding] = []
    while found:
        # The first that no other of the rest explains; of a circle, simply the first.
        place = next(
            (
                place
                for place, (each, _) in enumerate(found)
                if not any(each.code in other.explains for other, _ in found if other is not each)
            ),
            0,
        )
        ordered.append(found.pop(place)[1])
    return ordered


def installed_rules() -> list[Rule]:
    """Rules that installed packages offer, by name of their entry point.

    Raises
    ------
    ValueError
        If an entry point cannot be imported or is no Rule.
    """
    rules = []
    for point in sorted(entry_points(group=ENTRY_POINTS), key=lambda point: point.name):
        try:
            found = point.load()
        except (ImportError, AttributeError) as error:
            raise ValueError(
                f"entry point {point.name!r} of {ENTRY_POINTS} must name a Rule; {point.value} cannot be loaded "
                f"({error}). Mend or remove its package."
            ) from error
        if not isinstance(found, Rule):
            raise ValueError(
                f"entry point {point.name!r} of {ENTRY_POINTS} must name a Rule; {point.value} is "
                f"{type(found).__name__}. Decorate the function with minitrain.diagnosis.rule."
            )
        rules.append(found)
    return rules
