"""What counts as a difference from a recorded output, and what is kept of an output."""

from __future__ import annotations

import json
from typing import Any

import pytest
from compared import COMMON, TOLERANCES, all_differences, differences, settled, tolerance_of
from recorded import Scrubber, kept_json, visible_text

STRICT, LOOSE = "audit-votes", "train"


def said(recorded: Any, found: Any, case: str = STRICT) -> list[str]:
    return [str(one) for one in differences(case, "a.json", json.dumps(recorded), json.dumps(found))]


@pytest.mark.parametrize(
    ("recorded", "found"),
    [(0.75, 0.75 * (1 + 2e-6)), (0.0, 2e-12), ("yes", "yes."), (1, "1"), (1, True), (None, 0), ({}, []), ([1, 2], [1]),
     ({"skew": {"value": 0.5}}, {"skew": {"share": 0.5}})],
)  # fmt: skip
def test_another_number_text_type_length_or_key_is_a_difference(recorded: Any, found: Any) -> None:
    assert said({"a": recorded}, {"a": found}) and said({"a": found}, {"a": recorded})
    assert not said({"a": recorded}, {"a": recorded}) and not said([0.75, 0.0, 4], [0.75 * (1 + 5e-7), 5e-13, 4.0])


def test_lines_and_files_that_went_or_came_are_differences() -> None:
    recorded = "".join(f"line {row}\n" for row in range(30))
    (line,) = differences(STRICT, "printed.txt", recorded, recorded.replace("line 4\n", "line 4\nnew\n"))
    assert str(line) == "printed.txt: line 6: recorded nothing, found new"
    assert len(all_differences(STRICT, {"gone.txt": "", "same.txt": "a"}, {"same.txt": "a", "new.json": "1"})) == 2


def test_numbers_may_be_further_off_after_a_training_alone() -> None:
    assert said({"value": 1.0}, {"value": 1.001}, LOOSE) == [] and said({"value": 1.0}, {"value": 1.01}, LOOSE)
    for recorded, found, same in (
        ("n  9.99", "n 10.00", True),
        ("skew 0.51", "skew 0.53", False),
        ("1 and 2", "1 and", False),
    ):
        assert bool(differences(LOOSE, "printed.txt", recorded, found)) is not same, (recorded, found)
    for case in ("audit-function", "audit-votes", "best-of", "dose-files", "quality", "win-rate", "audit-judge"):
        assert tolerance_of(case, "skew.jargon.value") == COMMON
    assert all(tolerance.relative < 0.01 for _, _, tolerance in TOLERANCES)


def test_what_is_close_is_not_recorded_anew_and_what_differs_between_machines_not_at_all() -> None:
    recorded, found = (
        json.dumps({"a": 0.5, "b": [1.0, 2.0], "gone": 1}),
        json.dumps({"a": 0.5000000001, "b": [1.0, 3.0]}),
    )
    assert json.loads(settled(STRICT, "a.json", recorded, found)) == {"a": 0.5, "b": [1.0, 3.0]}
    scrub = Scrubber({"/home/me": "<home>"})
    assert scrub("/home/me took 12.5 s, id 0123456789abcdef") == "<home> took <time>, id <hash>"
    assert kept_json({"seconds": 3.2, "skew": 0.12345678912}, scrub) == {"skew": 0.123456789}
    assert visible_text("<h1>Skew</h1><p>of <b>jargon</b></p><script>x</script>") == "Skew\nof jargon"
