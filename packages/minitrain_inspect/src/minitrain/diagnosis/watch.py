"""Diagnosis while a run trains: each finding once, in the row in which it appears."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .finding import Finding
from .judgement import Rule, diagnose
from .record import Record


class Watch:
    """Takes in rows of a running log and says what is new.

    Parameters
    ----------
    rules : sequence of Rule
    rows : iterable of rows
        Those of a run that is being resumed; what they show counts as said.
    """

    def __init__(self, rules: Sequence[Rule], rows: Iterable[Mapping[str, Any]] = ()) -> None:
        self.record = Record()
        self._rules = tuple(rules)
        self._said: set[str] = set()
        for row in rows:
            self.add(row)

    def add(self, row: Mapping[str, Any]) -> list[Finding]:
        """Findings whose code no earlier row has shown, in order."""
        self.record.add(row)
        waiting = [each for each in self._rules if each.code not in self._said]
        new = diagnose(self.record, waiting)
        self._said.update(finding.code for finding in new)
        return new

    def is_symptom(self, finding: Finding) -> bool:
        """Whether something found so far explains it: what to try is then said there."""
        return any(finding.code in each.explains for each in self._rules if each.code in self._said)
