"""What is wrong with a run: rules over its recorded series and probes of its model, never over its configuration.

`findings(run)` is the one call for a run folder. `finding.py` says what comes back, `record.py` what rules see,
`judgement.py` how to write one, `rules.py` has ours.
"""

from ..bilingual import Text
from .finding import Finding, Range
from .folder import all_rules, findings, record_of
from .judgement import Rule, Sighting, diagnose, rule
from .probes import future_leak
from .record import Record
from .rules import RULES, healthy_ranges, judges_overfitting
from .series import Course, Point, Series, Table
from .watch import Watch

__all__ = [
    "RULES",
    "Course",
    "Finding",
    "Point",
    "Range",
    "Record",
    "Rule",
    "Series",
    "Sighting",
    "Table",
    "Text",
    "Watch",
    "all_rules",
    "diagnose",
    "findings",
    "future_leak",
    "healthy_ranges",
    "judges_overfitting",
    "record_of",
    "rule",
]
