"""Order of findings, rules of other people, what a Finding says as JSON and as text."""

import json
import re
import sys
from collections.abc import Callable
from importlib.metadata import EntryPoint, EntryPoints

import pytest
from diagnosed_rows import course
from minitrain.bilingual import Text
from minitrain.diagnosis import (
    RULES,
    Finding,
    Point,
    Record,
    Rule,
    Sighting,
    Watch,
    all_rules,
    diagnose,
    healthy_ranges,
    rule,
)

CODES = [each.code for each in RULES]


def speaking(code: str, *, severity: str = "warning", explains: tuple[str, ...] = ()) -> Rule:
    """A rule that always speaks."""
    return rule(code, cause="c", advice="a", severity=severity, explains=explains)(  # type: ignore[arg-type]
        lambda record: Sighting("here", record.steps, {"x": 1.0})
    )


def order(*rules: Rule) -> list[str]:
    return [finding.code for finding in diagnose(Record(course()), rules)]


# --------------------------------------------------------------------------- order


def test_a_cause_stands_before_what_it_explains_also_through_a_third() -> None:
    symptom = speaking("symptom", severity="error")
    middle = speaking("middle", severity="error", explains=("symptom",))
    cause = speaking("cause", explains=("middle",))
    assert order(symptom, middle, cause) == ["cause", "middle", "symptom"]
    assert order(symptom, cause) == ["symptom", "cause"]  # nothing here explains it: by severity


def test_unrelated_findings_stand_by_severity_and_then_as_listed() -> None:
    a, b, c = speaking("a"), speaking("b", severity="error"), speaking("c", severity="error")
    assert order(a, b, c) == ["b", "c", "a"]
    assert order(c, a, b) == ["c", "b", "a"]


def test_rules_that_explain_each_other_all_speak() -> None:
    a, b = speaking("a", explains=("b",)), speaking("b", explains=("a",))
    assert order(a, b) == ["a", "b"]


def test_every_cause_of_ours_stands_before_every_symptom() -> None:
    symptoms = {"diverged", "exploding-gradients", "vanishing-gradients", "dead-units", "non-finite"}
    for each in RULES:
        assert each.explains <= set(CODES) - {each.code}
    for cause in ("bad-init", "no-warmup", "learning-rate-too-high"):
        (ours,) = [each for each in RULES if each.code == cause]
        assert symptoms <= ours.explains


def test_a_watch_says_each_code_once() -> None:
    watch = Watch([speaking("a"), speaking("b", severity="error")])
    said = [[finding.code for finding in watch.add(row)] for row in course()]
    assert said[0] == ["b", "a"]
    assert not any(said[1:])


def test_a_watch_that_is_resumed_does_not_repeat_itself() -> None:
    rows = course()
    watch = Watch([speaking("a")], rows[:3])
    assert watch.add(rows[3]) == []
    assert watch.record.rows == 4


def test_evidence_and_ranges_hold_finite_numbers_only() -> None:
    most = sys.float_info.max

    @rule("far", cause="c", advice="a")
    def far(record: Record) -> Sighting:
        return Sighting(
            "x", 1, {"sum": most + most, "least": -most}, {"sum": (-2 * most, most), "least": (None, 2 * most)}
        )

    found = far(Record(course()))
    assert found is not None
    json.dumps(found.to_json(), allow_nan=False)
    assert found.evidence == {"least": -most}
    assert found.healthy_range == {"sum": (None, most), "least": (None, None)}


@pytest.mark.parametrize("huge", [lambda place: 1.7e308, lambda place: 1.7e308 * (-1) ** place])
def test_rows_near_the_limit_of_floats_are_judged_in_finite_numbers(huge: Callable[[int], float]) -> None:
    rows = course()
    for place, row in enumerate(rows):
        for key in ("train_loss", "val_loss", "ngram_loss", "uniform_loss", "learning_rate", "grad_norm"):
            row[key] = huge(place)
        row["grad_norm_max"] = huge(place)
        for group in ("spectral_norm", "update_ratio"):
            names = (*row["inspect"][group], "one.more")
            row["inspect"][group] = dict.fromkeys(names, abs(huge(place)))
    record = Record(rows)
    assert record.typical_update.highest == Point(1, 1.7e308)
    for finding in diagnose(record, RULES):
        json.dumps(finding.to_json(), allow_nan=False)
    json.dumps(healthy_ranges(record), allow_nan=False)


# --------------------------------------------------------------------------- rules of other people


def test_a_rule_refuses_a_severity_or_a_panel_that_there_is_not() -> None:
    with pytest.raises(ValueError, match="rule x: severity must be error or warning; got 'fatal'"):
        speaking("x", severity="fatal")
    with pytest.raises(ValueError, match=r"rule x: panel must be one of loss, learning_rate,.*; got 'costs'"):
        rule("x", cause="c", advice="a", panel="costs")(lambda record: None)


def install(monkeypatch: pytest.MonkeyPatch, **values: str) -> None:
    """Pretend that a package with these entry points is installed."""
    points = EntryPoints(EntryPoint(name, value, "minitrain.diagnose.rules") for name, value in values.items())
    monkeypatch.setattr("minitrain.diagnosis.judgement.entry_points", lambda *, group: points.select(group=group))


OURS = speaking("theirs")
TWICE = speaking("bad-init")


def test_a_rule_of_an_installed_package_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, one="test_rule_table:OURS")
    assert [each.code for each in all_rules()] == [*CODES, "theirs"]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            "no_such_module:x",
            r"entry point 'one' of minitrain\.diagnose\.rules must name a Rule; no_such_module:x cannot",
        ),
        ("test_rule_table:nothing", "cannot be loaded"),
        ("test_rule_table:CODES", r"must name a Rule; test_rule_table:CODES is list\. Decorate the function"),
        ("test_rule_table:TWICE", "each rule must have a code of its own; 'bad-init' belongs to two"),
    ],
)
def test_what_is_no_rule_is_named(monkeypatch: pytest.MonkeyPatch, value: str, message: str) -> None:
    install(monkeypatch, one=value)
    with pytest.raises(ValueError, match=message):
        all_rules()


# --------------------------------------------------------------------------- what a finding says

FINDING = Finding(
    code="a-code",
    severity="warning",
    where="blocks.0",
    step=17,
    evidence={"one": 2.5, "two": 3, "free": 7.0},
    healthy_range={"one": (None, 1.0), "two": (1.0, 2.0)},
    cause=Text("Because.", "Porque sí."),
    advice=Text("Do.", "Haga."),
)


def test_a_finding_as_json_has_the_keys_of_the_contract_in_their_order() -> None:
    assert json.dumps(FINDING.to_json(), allow_nan=False) == (
        '{"code": "a-code", "severity": "warning", "where": "blocks.0", "step": 17, '
        '"evidence": {"one": 2.5, "two": 3, "free": 7.0}, '
        '"healthy_range": {"one": [null, 1.0], "two": [1.0, 2.0]}, "cause": "Because.", "advice": "Do."}'
    )
    assert FINDING.to_json("es")["cause"] == "Porque sí."
    with pytest.raises(ValueError, match="language must be one of en, es; got 'fr'"):
        FINDING.to_json("fr")


def test_a_finding_as_text_has_each_number_beside_its_healthy_range() -> None:
    assert FINDING.describe() == (
        "warning: a-code at step 17, blocks.0\n"
        "  one 2.5 (healthy: at most 1)\n"
        "  two 3 (healthy: 1 to 2)\n"
        "  free 7\n"
        "  Likely cause: Because.\n"
        "  Try: Do."
    )
    assert FINDING.describe("es").startswith("aviso: a-code en el paso 17, blocks.0\n  one 2.5 (sano: como mucho 1)")


@pytest.mark.parametrize("each", RULES, ids=CODES)
def test_every_code_has_its_sentences_in_both_languages(each: Rule) -> None:
    for text in (each.cause, each.advice):
        assert text.en != text.es
        assert all(re.search(r"\w.*\.$", sentence) and "{" not in sentence for sentence in text)
