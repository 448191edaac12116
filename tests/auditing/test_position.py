"""What the place of an answer decides: measured for own comparing functions and panels, and shown wherever an audit is read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from changed import changed
from made_audits import make_audit

import cda
from cda.auditing import position
from cda.auditing.first_screen import audit_summary, headline
from cda.auditing.report import sections
from cda.comparing.row import read_row
from cda.numbers.frames import rows_of
from cda.numbers.views import numbers_in
from cda.records import user_prompt
from cda.results.base import Estimate, Missing
from cda.results.facts import JudgeFacts
from cda.scorers.compared import BothOrders, Preferences, as_panel, comparison_id
from cda.stats.estimators import share_of

N = 40
FIRST = 30
"""Contrasts of which the judge takes the first answer."""
PANEL = [(user_prompt(f"q {row}"), "a", "b") for row in range(4)]


def contrasts() -> list[dict[str, str]]:
    return [
        {
            "id": f"c{row}", "prompt": f"What is item {row // 2}?", "base": f"It is plain thing {row} that people use.",
            "perturbed": f"It is scalable paradigm {row} that people leverage.",
        }
        for row in range(N)
    ]  # fmt: skip


def by_place(_: Sequence[Any], first: Sequence[str], second: Sequence[str]) -> list[float]:
    """Takes the first answer of 30 contrasts; of the others the longer one, without a verdict on one, in one order on another."""

    def one(shown: str, other: str) -> float:
        number = int(next(word for word in shown.split() if word.isdigit()))
        if number == N - 1 or (number == N - 2 and "plain" in shown):
            return float("nan")
        return 1.0 if number < FIRST or len(shown) > len(other) else -1.0

    return [one(*both) for both in zip(first, second, strict=True)]


def by_text(_: Sequence[Any], first: Sequence[str], second: Sequence[str]) -> list[float]:
    return [float(np.sign(len(one) - len(other))) for one, other in zip(first, second, strict=True)]


def by_length(_: Sequence[Any], responses: Sequence[str]) -> list[float]:
    return [float(len(text)) for text in responses]


COMMON: dict[str, Any] = {"biases": "jargon", "quality": "none", "triples": "none", "progress": False}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[cda.Audit, Path]:
    out = tmp_path_factory.mktemp("position") / "out"
    return cda.audit(by_place, contrasts=contrasts(), out=out, **COMMON), out


def test_the_share_decided_by_place_is_measured_once_and_stands_everywhere(made: tuple[cda.Audit, Path]) -> None:
    audit, out = made
    # 38 contrasts were read in both orders, two of each prompt but of the last.
    prompts = [str(row // 2) for row in range(N - 2)]
    expected = share_of(np.arange(N - 2) < FIRST, prompts)
    assert isinstance(audit.model, JudgeFacts) and audit.model.by_place == expected
    assert (expected.n, expected.n_prompts, round(expected.value, 3)) == (38, 19, 0.789)
    assert (audit.model.unread, audit.model.half_read, audit.model.flipped) == (1, 1, FIRST)
    (number,) = numbers_in(audit).where("position")
    assert (number.moment, dict(number.at), number.found) == ("model", {}, expected)
    assert [row["value"] for row in rows_of(audit) if row["measure"] == "position"] == [expected.value]
    row = read_row(audit.export(out / "row.json"))
    assert [each.found for each in row.numbers if each.measure == "position"] == [expected]
    assert audit.failures("position>0.8", "position>0.7") == [
        f"position>0.7: found 0.789 [{expected.low:.3f}, {expected.high:.3f}] (n = 38)"
    ]
    assert cda.load(out / "audit" / "audit.json").model.by_place == expected


def test_the_headline_and_each_bias_say_what_the_place_leaves(made: tuple[cda.Audit, Path]) -> None:
    audit, _ = made
    said = headline(audit)
    assert said.startswith("by_place goes by the place in 79% [57, 91] of comparisons, whatever the answers say")
    assert (
        "picking the first in 89% of verdicts; bias estimates are weak. Too few texts to tell whether it rewards jargon."
        in said
    )
    lines = audit_summary(audit).splitlines()
    (row,) = [line for line in lines if line.startswith("position")]
    assert row.split(maxsplit=3)[1:] == ["(by", "place)", "79% [57, 91]  38"]
    (shown,) = [part for part in sections(audit) if part.id == "position"]
    judges, biases = shown.tables
    assert judges.rows == (("by_place", "79% [57, 91]", "2% [0.4, 14]", "89%", "40", "1"),)
    # One of the 39 contrasts with a margin was read in one order only.
    assert biases.rows == (("jargon", "79% [57, 91]", "38", "8"),)


def test_a_judge_that_goes_by_the_text_has_no_weak_estimates(tmp_path: Path) -> None:
    audit = cda.audit(by_text, contrasts=contrasts(), out=tmp_path, **COMMON)
    found = position.decided(audit)
    assert found is not None and found.value == 0 and found.n == N
    assert "place" not in headline(audit) and position.kept_words(audit, "jargon") == ""
    assert audit.failures("position>0.1") == []


def test_a_reward_model_has_no_place(tmp_path: Path) -> None:
    audit = cda.audit(by_length, contrasts=contrasts(), out=tmp_path, **COMMON)
    assert not numbers_in(audit).where("skew").where(moment="before") and "position" not in audit_summary(audit)
    assert "position" not in numbers_in(audit).values_of("measure")
    assert audit.failures("position>0.1") == [
        "position>0.1: no value: the model does not compare two texts, so that no place decides"
    ]
    for wrong in ("quality.position>0.1", "jargon.position>0.1", "accuracy>0.1"):
        with pytest.raises(cda.RecipeError, match=r"no measure of|of a judge, position>0\.5"):
            audit.failures(wrong)


def test_a_panel_has_the_mean_of_its_judges_verdicts() -> None:
    names = [comparison_id(*each) for each in PANEL]

    def judge(*followed: float | None) -> Preferences:
        known = {name: each for name, each in zip(names, followed, strict=True) if each is not None}
        return Preferences(dict.fromkeys(names, 0.5), by_place=known)

    panel = as_panel({"one": judge(1, 0, None, None), "other": judge(1, 1, 0, None)})
    assert panel.by_place == dict(zip(names[:3], (1.0, 0.5, 0.0), strict=True))
    found = panel.decided_by_place(PANEL)
    assert isinstance(found, Estimate) and (found.value, found.n) == (0.5, 3)
    assert isinstance(judge(None, None, None, None).decided_by_place(PANEL), Missing)


def test_one_order_does_not_show_what_the_place_decides() -> None:
    assert BothOrders(by_place=None).n_flipped is None
    assert BothOrders(by_place=(True, None, False, True)).n_flipped == 2
    audit = make_audit({"jargon": (0.6,)}, quality=None, others=(), judge=True)
    picks = Estimate(value=0.8, low=0.6, high=0.9, n=40, n_prompts=40, unit="preference", method="Wilson")
    one = {"orders": "one", "flipped": None, "position_bias": 0.8, "position": picks}
    asked = changed(audit, "model", audit.model.model_copy(update=one))
    assert headline(asked).startswith(
        "llm:gpt-x, asked in one order, picks the first in 90% of verdicts; bias estimates"
    )
    (shown,) = [part for part in sections(asked) if part.id == "position"]
    assert "asked in one order" in shown.paragraphs[0] and shown.tables[0].rows[0][3] == "90% [80, 95]"


def test_characters_and_words_stand_beside_each_bias(tmp_path: Path) -> None:
    audit = cda.audit(by_length, contrasts=contrasts(), out=tmp_path, **COMMON)
    length = audit.effects["jargon"].before.length
    assert length is not None
    assert (length.characters.value, length.words.value) == (1.0, 0.5)  # as many words, but longer ones
    assert "Characters/words alone prefer: jargon 100/50%" in audit_summary(audit).splitlines()
