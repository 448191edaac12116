"""Best-of-n in tables and sentences: numbers stand where they belong, and nothing from outside is markup."""

from __future__ import annotations

from typing import Any

import pytest
from changed import changed

from cda.benchmarks.best_of_n_report import best_of_n_markdown, best_of_n_sentences, best_of_n_tables, best_of_n_text
from cda.results.base import Estimate, Missing
from cda.results.benchmarks import BestOfResult, NoSpread

HOSTILE = "a<script>alert(1)</script>\x1b[31m|\u202eb"


def _measured(value: float, half: float) -> Estimate:
    return Estimate(value=value, low=value - half, high=value + half, n=320, n_prompts=40, unit="u", method="m")


def _alike(value: float) -> NoSpread:
    return NoSpread(value=value, reason="the same in each of 40 prompts")


def _curve(name: str, kind: str, before: list[float], after: list[float], half: float) -> dict[str, Any]:
    at = [
        {
            "n": 2**power,
            "kl_nats": 0.5 * power,
            "n_prompts": 40 - power,
            "n_too_few": power,
            "scorings": {"before": _measured(first, half), "after": _measured(second, half)},
            "complete": {"before": _measured(first, half / 2), "after": _measured(second, half / 2)},
            "change": _measured(second - first, half) if power else None,
        }
        for power, (first, second) in enumerate(zip(before, after, strict=True))
    ]
    return {
        "name": name,
        "kind": kind,
        "unit": "u",
        "at": at,
        "slope": {"before": _measured(0.125, 0.03), "after": _alike(0.0)},
        "slope_change": _measured(-0.125, 0.03),
        "p_value": 0.0004,
        "p_holm": 0.0123,
        "p_method": "paired t over prompts",
        "n_unknown": 0,
        "definition": "share of picks",
    }


@pytest.fixture
def result() -> BestOfResult:
    nothing = {"seen": 0, "reasons": {}}
    quality = _curve("quality", "mean", [2.0, 2.5, 3.0], [2.0, 2.25, 2.5], 0.25) | {"p_holm": None, "n_unknown": 3}
    facts = {"kind": "reward model", "name": "rm", "precision": "fp32", "texts": 300, "truncated": 7}
    asked = {"model": "rm", "adapter": None, "adapter_content": None, "dose": 1.0, "facts": facts}
    found = {
        "responses": "sampled.jsonl",
        "scorings": ["before", "after"],
        "models": dict.fromkeys(("before", "after"), asked),
        "sizes": [1, 2, 4],
        "n_prompts": 40,
        "n_responses": 320,
        "responses_per_prompt": [7, 8.0, 9],
        "n_repeated": 5,
        "excluded": {
            "rows": nothing,
            "responses": {"seen": 325, "reasons": {"empty response": 5}},
            "quality": {"seen": 300, "reasons": {}},
        },
        "attributes": [
            _curve("jargon", "share", [0.25, 0.5, 0.75], [0.25, 0.25, 0.25], 0.125),
            _curve("words", "mean", [100.0, 110.0, 130.0], [100.0, 104.0, 105.0], 4.0),
        ],
        "quality": quality,
        "unvaried": ["structure"],
        "versions": {"cda": "0.1.0"},
    }
    return BestOfResult.model_validate(found)


def _one_model(result: BestOfResult) -> BestOfResult:
    one = result.model_dump()
    one["scorings"], one["models"] = ["model"], {"model": one["models"]["before"]}
    for curve in [*one["attributes"], one["quality"]]:
        curve |= {"slope": {"model": curve["slope"]["before"]}, "slope_change": None, "p_value": None, "p_holm": None}
        for at in curve["at"]:
            at |= {key: {"model": at[key]["before"]} for key in ("scorings", "complete")} | {"change": None}
    return BestOfResult.model_validate(one)


def test_the_largest_n_stands_beside_the_policy(result: BestOfResult) -> None:
    table = best_of_n_tables(result)[0]
    assert table.header == ("picks", "n = 1", "before, n = 4", "after, n = 4", "change", "p", "p (Holm)", "prompts")
    assert table.rows == (
        ("jargon (share)", "25% [19, 31]", "75% [62, 88]", "25% [12, 38]", "−50 [−62, −38] points", "< 0.001", "0.012", "38"),
        ("words (mean)", "100.0 [98.0, 102.0]", "130.0 [126.0, 134.0]", "105.0 [101.0, 109.0]", "−25.0 [−29.0, −21.0]",
         "< 0.001", "0.012", "38"),
        ("quality (mean)", "2.00 [1.88, 2.12]", "3.00 [2.75, 3.25]", "2.50 [2.25, 2.75]", "−0.50 [−0.75, −0.25]",
         "< 0.001", "", "38"),
    )  # fmt: skip


def test_slopes_and_values_without_an_interval(result: BestOfResult) -> None:
    table = best_of_n_tables(result)[1]
    assert table.rows[0] == (
        "jargon (share)",
        "+12.5 [+9.5, +15.5] points",
        "0 points (all alike)",
        "−12.5 [−15.5, −9.5] points",
        "38",
    )
    assert table.rows[1][1:4] == ("+0.125 [+0.095, +0.155]", "0 (all alike)", "−0.125 [−0.155, −0.095]")


def test_rounding_does_not_hide_the_side_of_zero(result: BestOfResult) -> None:
    near = changed(result, "attributes.1.slope_change", _measured(0.5, 0.5004))
    assert best_of_n_tables(near)[1].rows[1][3] == "+0.50 [−0.0004, +1.00]"


def test_every_n_with_its_kl_and_its_prompts(result: BestOfResult) -> None:
    jargon, _, quality = best_of_n_tables(result)[2:]
    assert [row[0] for row in jargon.rows] == ["1", "2", "4"]
    assert jargon.rows[0] == ("1", "0.00", "25% [12, 38]", "25% [12, 38]", "none by construction", "40", "0")
    assert jargon.rows[2][1] == "1.00" and jargon.rows[2][-2:] == ("38", "2")
    assert quality.caption.endswith("unknown in 3 prompts, left out")


def test_one_model_has_no_changes(result: BestOfResult) -> None:
    one = _one_model(result)
    assert best_of_n_tables(one)[0].header == ("picks", "n = 1", "model, n = 4", "prompts")
    assert all(len(row) == len(table.header) for table in best_of_n_tables(one) for row in table.rows)
    assert "after" not in best_of_n_text(one)


def test_what_was_counted_is_said(result: BestOfResult) -> None:
    text = "\n".join(best_of_n_sentences(result))
    assert "320 responses to 40 prompts, 7 to 9 (median 8) each" in text
    assert "Left out of 325 responses: 5 empty response." in text
    assert "5 responses repeat another" in text and "differ in it: structure" in text
    assert "7 of 300 texts were cut" in text and "two n may differ by their prompts" not in text
    assert "two n may differ by their prompts" in str(
        best_of_n_sentences(changed(result, "responses_per_prompt", (3, 8.0, 9)))
    )
    without = changed(result, "quality", Missing(reason="known for 1 prompts"))
    assert "Quality is not followed: known for 1 prompts." in best_of_n_sentences(without)


def test_nothing_from_outside_is_markup_or_obeyed(result: BestOfResult) -> None:
    result = changed(changed(result, "attributes.0.name", HOSTILE), "responses", HOSTILE)
    for text in (best_of_n_markdown(result), best_of_n_text(result)):
        assert "\x1b" not in text and "\u202e" not in text
    assert "<script" not in best_of_n_markdown(result)
    rows = [line for line in best_of_n_markdown(result).splitlines() if line.startswith("| a")]
    assert rows and all(line.count(" | ") == 7 for line in rows[:1])
