"""What counts as a difference from a recorded output, how it is said, and what is kept of an output."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from compared import COMMON, SHOWN, TOLERANCES, all_differences, differences, report, settled, tolerance_of
from recorded import LONG, TEXT, Scrubber, kept_file, kept_json, printed, summed_up, visible_text

UNSCRUBBED = Scrubber({})
STRICT, LOOSE = "audit-votes", "train"


def said(recorded: Any, found: Any, case: str = STRICT) -> list[str]:
    return [str(one) for one in differences(case, "a.json", json.dumps(recorded), json.dumps(found))]


@pytest.mark.parametrize("value", [0.75, -123.456, 3e-5, 2e7])
def test_a_number_is_compared_to_a_millionth(value: float) -> None:
    assert tolerance_of(STRICT) == COMMON
    assert said({"skew": value}, {"skew": value * (1 + 5e-7)}) == []
    (line,) = said({"skew": value}, {"skew": value * (1 + 2e-6)})
    assert line.startswith(f"a.json: skew: recorded {json.dumps(value)}, found ")


def test_what_rounding_leaves_of_zero_is_zero() -> None:
    assert said([0.0], [5e-13]) == []
    assert said([0.0], [2e-12]) == ["a.json: [0]: recorded 0.0, found 2e-12"]


def test_keys_that_went_or_came_are_named_with_their_values() -> None:
    recorded = {"skew": {"jargon": {"value": 0.5, "n": 4}}}
    found = {"skew": {"jargon": {"share": 0.5, "n": 4}}}
    assert said(recorded, found) == [
        "a.json: skew.jargon.value: recorded 0.5, found nothing",
        "a.json: skew.jargon.share: recorded nothing, found 0.5",
    ]


@pytest.mark.parametrize(
    ("recorded", "found"),
    [
        ("yes", "yes."),
        (1, "1"),
        (1, True),
        (None, 0),
        (None, {}),
        ({}, []),
        (0.5, None),
        ([1, 2], [1]),
        (float("nan"), 1.0),
    ],
)
def test_another_text_type_or_length_is_a_difference(recorded: Any, found: Any) -> None:
    assert said({"a": recorded}, {"a": found})
    assert said({"a": found}, {"a": recorded})
    assert not said({"a": recorded}, {"a": recorded})


def test_whole_and_decimal_numbers_of_one_size_are_the_same() -> None:
    assert said({"n": 4}, {"n": 4.0}) == []


def test_text_is_compared_line_by_line_and_to_the_last_digit() -> None:
    recorded = "jargon 75% [60, 86]\nn = 40\n"
    (line,) = differences(STRICT, "printed.txt", recorded, recorded.replace("86", "87"))
    assert str(line) == "printed.txt: line 1: recorded jargon 75% [60, 86], found jargon 75% [60, 87]"


def test_a_line_more_is_one_difference_and_not_one_for_each_line_after_it() -> None:
    recorded = "".join(f"line {row}\n" for row in range(30))
    found = recorded.replace("line 4\n", "line 4\nnew\n")
    (line,) = differences(STRICT, "printed.txt", recorded, found)
    assert str(line) == "printed.txt: line 6: recorded nothing, found new"
    (line,) = differences(STRICT, "printed.txt", found, recorded)
    assert str(line) == "printed.txt: line 6: recorded new, found nothing"


def test_files_that_are_missing_or_were_not_recorded_are_differences() -> None:
    listed = all_differences(STRICT, {"gone.txt": "", "same.txt": "a"}, {"same.txt": "a", "new.json": "1"})
    assert [str(one) for one in listed] == [
        "gone.txt: the whole file: recorded a file, found nothing",
        "new.json: the whole file: recorded nothing, found a file",
    ]


def test_a_long_list_of_differences_is_cut_and_counted() -> None:
    listed = differences(STRICT, "a.json", json.dumps(list(range(50))), json.dumps(list(range(1, 51))))
    lines = report(listed).splitlines()
    assert len(lines) == SHOWN + 1 and lines[-1] == "... and 30 more"
    assert "more" not in report(listed[:SHOWN])


def test_after_a_training_numbers_may_be_further_off_also_within_text() -> None:
    assert said({"value": 1.0}, {"value": 1.001}, LOOSE) == []
    assert said({"value": 1.0}, {"value": 1.01}, LOOSE)
    for recorded, found, same in [
        ("skew 0.51 [0.4, 0.6]", "skew 0.52 [0.4, 0.6]", True),
        ("skew 0.51 [0.4, 0.6]", "skew 0.53 [0.4, 0.6]", False),
        ("n  9.99", "n 10.00", True),
        ("less biased 0.5", "more biased 0.5", False),
        ("+0.01", "-0.01", False),
        ("1 and 2", "1 and", False),
    ]:
        assert bool(differences(LOOSE, "printed.txt", recorded, found)) is not same, (recorded, found)


def test_only_bars_of_a_histogram_may_differ_by_a_pair() -> None:
    assert said({"rewards": {"counts": [3, 8], "n": 11}}, {"rewards": {"counts": [4, 7], "n": 11}}, LOOSE) == []
    assert said({"rewards": {"counts": [3, 8], "n": 11}}, {"rewards": {"counts": [3, 8], "n": 12}}, LOOSE)


def test_no_tolerance_reaches_a_case_whose_rewards_are_made_by_rule() -> None:
    for case in ("audit-function", "audit-votes", "best-of", "dose-files", "quality", "win-rate", "audit-judge"):
        assert tolerance_of(case, "skew.jargon.value") == COMMON
    assert tolerance_of("discover-offline", "tested[0].pooled.reward.value") == COMMON
    assert all(tolerance.relative < 0.01 for _, _, tolerance in TOLERANCES)


def test_what_is_close_is_not_recorded_anew() -> None:
    recorded = json.dumps({"a": 0.5, "b": [1.0, 2.0], "gone": 1})
    found = json.dumps({"a": 0.5000000001, "b": [1.0000000001, 3.0, 4.0], "new": 2})
    assert json.loads(settled(STRICT, "a.json", recorded, found)) == {"a": 0.5, "b": [1.0, 3.0, 4.0], "new": 2}
    assert settled(STRICT, "a.json", recorded, recorded.replace("0.5", "0.5000000001")) == recorded
    assert settled(STRICT, "printed.txt", "a\n", "b\n") == "b\n"


def test_paths_times_versions_and_digests_are_taken_out() -> None:
    scrub = Scrubber({"/home/me": "<home>", "/home/me/run": "<folder>"})
    assert scrub("/home/me/run/audit and /home/me") == "<folder>/audit and <home>"
    assert scrub("took 12.5 s, finished 2026-11-23T17:22:06Z") == "took <time>, finished <date>"
    assert scrub("cda 0.1.0, torch 2.13.0+cpu, scipy 1.17.1 on it") == "<versions> on it"
    assert scrub("id 0123456789abcdef, skew 0.123456") == "id <hash>, skew 0.123456"
    assert scrub("- Python: 3.11.7\n- seed: 42") == "- seed: 42"
    assert printed("one\n\r 5%|#\rdone\ntwo", UNSCRUBBED) == "one\ntwo\n"
    assert kept_json({"seconds": 3.2, "eval_runtime": 1.0, "skew": 0.12345678912}, UNSCRUBBED) == {"skew": 0.123456789}


def test_a_long_list_is_kept_as_its_ends_and_means() -> None:
    rows = [{"margin": float(row), "text": "ab" if row % 2 else "abc"} for row in range(LONG + 1)]
    kept = kept_json(rows, UNSCRUBBED)
    assert kept == summed_up(rows)
    assert (kept["rows"], kept["first"], kept["last"]) == (LONG + 1, rows[:2], rows[-1])
    assert kept["numbers"] == {"margin": {"n": LONG + 1, "mean": LONG / 2}}
    assert kept["texts"]["text"]["distinct"] == 2
    assert kept_json(rows[:LONG], UNSCRUBBED) == rows[:LONG]
    rows[LONG // 2]["margin"] += 0.001
    assert said(kept, summed_up(rows)) == [f"a.json: numbers.margin.mean: recorded {LONG / 2}, found 4.00011111"]


def test_a_long_text_keeps_its_ends_and_length() -> None:
    text = "a" * TEXT + "end"
    assert UNSCRUBBED(text).endswith(f"end [{TEXT + 3} characters]") and len(UNSCRUBBED(text)) < len(text)
    assert UNSCRUBBED("a" * TEXT) == "a" * TEXT


def test_a_page_is_its_visible_text_unless_markdown_tells_the_same(tmp_path: Path) -> None:
    page = "<style>p {}</style><h1>Skew</h1><p>of <b>jargon</b>:\n 5 &lt; 6</p><svg><text>axis</text></svg><script>x</script>"
    assert visible_text(page) == "Skew\nof jargon: 5 < 6"
    file = tmp_path / "report.html"
    file.write_text(page, encoding="utf-8")
    assert kept_file(file, UNSCRUBBED) == (".txt", "Skew\nof jargon: 5 < 6\n")
    (tmp_path / "report.md").write_text("# Skew\n", encoding="utf-8")
    assert kept_file(file, UNSCRUBBED) is None
    assert kept_file(tmp_path / "report.md", UNSCRUBBED) == ("", "# Skew\n")


def test_files_of_libraries_and_weights_are_named_alone(tmp_path: Path) -> None:
    for name in ("tokenizer.json", "adapter_model.safetensors", "score-cache.sqlite", ".lock", "best_of_n.svg"):
        (tmp_path / name).write_bytes(b"\xff")
        assert kept_file(tmp_path / name, UNSCRUBBED) is None
