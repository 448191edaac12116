"""Trainings compared: means before and after, the cross-bias changes with their stars, differences, and the page, from made audits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from made_audits import make_audit
from page_checks import checked

from cda.comparing.compare import compare_audits
from cda.comparing.members import Gathered, Margins, Member
from cda.comparing.page import comparison_document
from cda.comparing.row import audit_row
from cda.numbers.people import against_people
from cda.numbers.views import numbers_in
from cda.records import Preference
from cda.results.comparison import ComparisonResult, MeasuredTexts
from cda.stats.proportions import paired_change
from cda.stats.votes import count_votes, majority

N = 40
VOTES: list[tuple[Preference, ...]] = [
    ("perturbed",) if row < 12 else ("base",) if row < 36 else ("tie",) for row in range(N)
]


def member(name: str, seed: int, ids: str = "c", **made_of: Any) -> Member:
    """A made audit with margins of its scorings on contrasts of every bias, two of each prompt."""
    audit = make_audit(**made_of)
    rng, voted = np.random.default_rng(seed), bool(made_of.get("votes"))
    margins = {
        bias: Margins(
            ids=tuple(f"{ids}{bias}{row:02}" for row in range(N)),
            prompt_ids=tuple(f"p{row // 2}" for row in range(N)),
            votes=tuple(VOTES) if voted else ((),) * N,
            preferred=(None,) * N,
            by_scoring={scoring: rng.normal(1.0 if scoring == "before" else 0.0, 1, N) for scoring in audit.scorings},
            rule="drop" if voted else None,
        )
        for bias in audit.skew
    }
    row = audit_row(audit, None)
    texts = {name: MeasuredTexts(name="made", n=N, content=ids) for name in row.texts}
    return Member(name, f"runs/{name}", row.model_copy(update={"texts": texts}), margins, audit)


def training(name: str, seed: int, ids: str = "c", **more: Any) -> Member:
    given: dict[str, Any] = {
        "targets": {"jargon": (0.88, 0.40)},
        "votes": {"jargon": (0.88, 0.40, 0.45)},
        "sections": True,
    }
    return member(name, seed, ids, **(given | more))


def model(name: str, seed: int, **more: Any) -> Member:
    given: dict[str, Any] = {"targets": {"jargon": (0.88,), "vagueness": (0.5,)}, "votes": {"jargon": (0.88, 0.45)}}
    return member(name, seed, **(given | {"quality": (0.75,), "others": ()} | more))


def scored(of: Member, **scored: str) -> Member:
    row = of.row.model_copy(update={"scored": {**of.row.scored, **scored}})
    return Member(of.name, of.source, row, of.margins, of.audit)


def compared(*members: Member) -> ComparisonResult:
    return compare_audits(Gathered(members, {}, ()), 42)


def findings(result: ComparisonResult) -> str:
    return " ".join(f"{each.name} {each.text}" for each in result.findings)


def found(result: ComparisonResult, measure: str, audit: str, moment: str, bias: str = "jargon") -> Any:
    (number,) = numbers_in(result).where(measure, moment, audit=audit, bias=bias)
    return number.found


def test_trainings_are_averaged_before_and_after_on_the_same_contrasts() -> None:
    trained = [training(f"t{seed}", seed) for seed in range(3)]
    result = compared(*trained, training("other", 9, ids="x"))
    (mean,) = [mean for mean in result.means if mean.bias == "jargon"]  # the other one is alone with its contrasts
    assert mean.audits == ("t0", "t1", "t2") and mean.interval_over == "prompts"
    before, after = (
        np.stack([(each.margins["jargon"].by_scoring[when] > 0).astype(float) for each in trained])
        for when in ("before", "after")
    )
    ids = list(trained[0].margins["jargon"].prompt_ids)
    expected = paired_change(before.mean(axis=0), after.mean(axis=0), ids, 3)
    change = found(result, "skew", mean.name, "change")
    assert change.value == pytest.approx(float((after - before).mean()))
    assert (change.low, change.high) == (expected.low, expected.high)
    people = majority(count_votes(VOTES), "drop")
    for when in ("before", "after"):
        margins = np.stack([each.margins["jargon"].by_scoring[when] for each in trained])
        known = against_people(margins, people, ids)
        own = found(result, "miscalibration", mean.name, when)
        assert (own.value, own.n) == (known["miscalibration"].value, 36)
    assert found(result, "human_skew", mean.name, "before") == known["human_skew"]
    assert "jargon, length and structure: measured on different contrasts (t0, t1 and t2; other)" in findings(result)
    assert {"jargon"} == {mean.bias for mean in result.means}  # other biases were not trained against
    five = compared(*(training(f"t{seed}", seed) for seed in range(5)))
    assert "models, and prompts" in found(five, "skew", five.means[0].name, "change").method


def test_all_changes_are_tested_together_and_shown_with_targets_and_sections() -> None:
    one = member("one", 0, targets={"jargon": (0.88, 0.40)}, others=("length", "structure"), sections=True)
    two = member("two", 1, targets={"length": (0.90, 0.60)}, others=("structure",))
    result = compared(one, two)
    table, *_ = comparison_document(result).sections[0].tables
    rows = {row[0]: row[1:] for row in table.rows}
    assert table.header[1:4] == ("jargon, n 100", "length, n 100", "structure, n 100")
    assert rows["one, change"][0] == "−48 [−57, −37]* (target)" and rows["two, change"][0] == ""
    assert rows["two, change"][1].endswith("* (target)") and "*" not in rows["one, change"][2]
    assert rows["one, before"][3] == "75% [71, 79]" and rows["two, before"][0] == "not measured"
    text = comparison_document(result).markdown()
    assert one.audit is not None and one.audit.quality_sections is not None
    assert all(section.name in text for section in one.audit.quality_sections.shown)
    assert "one, jargon: " in findings(result)
    page = comparison_document(result).page()
    checked(page)
    assert "skew-jargon-desc" not in page and "skew-length-desc" in page  # of an only one there is no figure


def test_differences_in_scoring_are_named_and_judges_stand_apart() -> None:
    first, second, third = (model(name, seed) for seed, name in enumerate("abc"))
    changed = scored(second, precision="bf16", template="chat template")
    judges = [model(name, seed, judge=True) for seed, name in enumerate("jk")]
    judges[1] = scored(judges[1], orders="one", criteria="tone")
    result = compared(first, changed, third, *judges)
    assert [(mean.kind, len(mean.audits)) for mean in result.means] == [
        ("reward models", 3), ("reward models", 3), ("judges", 2), ("judges", 2),
    ]  # fmt: skip
    said = findings(result)
    for words in ("Not alike in precision", "bf16: b", "Not alike in template", "one: k"):
        assert words in said
    assert "criteria" not in said  # a judge without criteria is no other value of them
    assert "Not alike" not in findings(compared(first, third))


def test_a_bias_that_a_model_lacks_is_named_and_not_counted_as_zero() -> None:
    result = compared(model("a", 0), model("b", 1, targets={"jargon": (0.88,)}))
    assert "vagueness: not measured for b." in findings(result)
    assert {mean.bias for mean in result.means} == {"jargon"}
    assert "not measured" in comparison_document(result).text()
