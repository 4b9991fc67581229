"""What a diagnosis says: a code, a place, the numbers beside the healthy ones, the likely cause and what to try."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ..bilingual import LANGUAGES, Text, joined, number, plain

Severity = Literal["error", "warning"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning")
"""Worst first."""

Range = tuple[float | None, float | None]
"""Lowest and highest healthy value; None where that side is open."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault; its fields are the keys of `minitrain diagnose --json`.

    Attributes
    ----------
    code : str
        For instance "bad-init".
    severity : "error" or "warning"
        Of an error the run cannot recover; with a warning it is worse than it need be.
    where : str
        Name of a module, parameter or gradient, or the key of the series in the log.
    step : int
        Optimiser step from which on it shows; of what builds up, where it began.
    evidence : dict
        Name to number, finite: what was measured.
    healthy_range : dict
        The same names, those that have a healthy range, to `(lowest, highest)`.
    cause, advice : Text
        In English and Spanish.
    """

    code: str
    severity: Severity
    where: str
    step: int
    evidence: Mapping[str, float]
    healthy_range: Mapping[str, Range]
    cause: Text
    advice: Text

    def to_json(self, language: str = "en") -> dict[str, Any]:
        """Return the finding as JSON values, its sentences in one language.

        Raises
        ------
        ValueError
            If there is no such language.
        """
        at = _language(language)
        return {
            "code": self.code,
            "severity": self.severity,
            "where": self.where,
            "step": self.step,
            "evidence": dict(self.evidence),
            "healthy_range": {name: list(bounds) for name, bounds in self.healthy_range.items()},
            "cause": self.cause[at],
            "advice": self.advice[at],
        }

    def describe(self, language: str = "en") -> str:
        """Return the finding as a few lines for a person.

        Raises
        ------
        ValueError
            If there is no such language.
        """
        at = _language(language)
        severity = _SEVERITY_WORDS[self.severity]
        head = _HEAD.fill(severity=severity, code=self.code, step=str(self.step), where=self.where)
        numbers = [f"  {shown[at]}" for shown in self.shown_evidence()]
        return "\n".join([head[at], *numbers, f"  {_CAUSE[at]} {self.cause[at]}", f"  {_ADVICE[at]} {self.advice[at]}"])

    def shown_evidence(self) -> list[Text]:
        """Each number of the evidence with its name, beside its healthy range in brackets where it has one."""
        return [
            joined((plain(f"{name} {number(value)}"), _beside(*self.healthy_range.get(name, (None, None)))), "")
            for name, value in self.evidence.items()
        ]


def _beside(low: float | None, high: float | None) -> Text:
    if low is None and high is None:
        return plain("")
    words = _AT_LEAST if high is None else _AT_MOST if low is None else _EXACTLY if low == high else _BETWEEN
    return words.fill(low=float(low or 0.0), high=float(high or 0.0))


def _language(language: str) -> int:
    if language not in LANGUAGES:
        raise ValueError(f"language must be one of {', '.join(LANGUAGES)}; got {language!r}. Use en.")
    return LANGUAGES.index(language)


_HEAD = Text("{severity}: {code} at step {step}, {where}", "{severity}: {code} en el paso {step}, {where}")
_SEVERITY_WORDS: dict[Severity, Text] = {"error": Text("error", "error"), "warning": Text("warning", "aviso")}
_CAUSE = Text("Likely cause:", "Causa probable:")
_ADVICE = Text("Try:", "Pruebe:")
_EXACTLY = Text(" (healthy: {low})", " (sano: {low})")
_BETWEEN = Text(" (healthy: {low} to {high})", " (sano: de {low} a {high})")
_AT_MOST = Text(" (healthy: at most {high})", " (sano: como mucho {high})")
_AT_LEAST = Text(" (healthy: at least {low})", " (sano: al menos {low})")
