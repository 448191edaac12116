"""Benchmark formats: told apart by their columns, read by hand-made rows, bad rows named with file and row."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from cda.data.quality_sets import N_PAIRS, SECTIONS, WEIGHTS, load_quality_set, quality_set
from cda.errors import DataError
from cda.records import user_prompt

ROOT = Path(__file__).parent.parent.parent
DATA = Path(os.environ.get("CDA_DATA", ROOT.parent / "shared" / "data"))


def pair(subset: str | None = None, number: int = 0, **changes: Any) -> dict[str, Any]:
    row: dict[str, Any] = {"prompt": f"Q{number}?", "chosen": "Good.", "rejected": "Bad.", "id": number}
    return row | ({"subset": subset} if subset else {}) | changes


def best_of(subset: str, name: str, chosen: list[str], rejected: list[str]) -> dict[str, Any]:
    return {"id": name, "prompt": f"Q {name}?", "chosen": chosen, "rejected": rejected, "subset": subset,
            "num_correct": len(chosen), "total_completions": len(chosen) + len(rejected)}  # fmt: skip


def styled(domain: str | None, chosen: int = 3) -> dict[str, Any]:
    row = {"prompt": "Q?", "chosen": [f"c{i}" for i in range(chosen)], "rejected": ["r0", "r1", "r2"]}
    return row if domain is None else row | {"domain": domain}


def compared(label: Any, first: str = "One.", second: str = "Two.") -> dict[str, Any]:
    return {"input": "Do it.", "output_1": first, "output_2": second, "label": label}


def test_the_benchmark_is_whole() -> None:
    assert sum(N_PAIRS.values()) == 2985
    assert sum(WEIGHTS[one] for one in SECTIONS["Reasoning"] if one != "math-prm") == WEIGHTS["math-prm"] == 984
    assert {subset for subsets in SECTIONS.values() for subset in subsets} == set(N_PAIRS) == set(WEIGHTS)


def test_rewardbench_sections_and_prior_sets() -> None:
    rows = [pair("alpacaeval-easy", 1), pair("hep-go", 2), pair("shp", 3), pair("shp", 4)]
    found = quality_set(rows, "rb.jsonl")
    assert (found.format, found.name) == ("rewardbench", "rb")
    first, second = found.items
    assert (first.section, first.subset, first.name, first.row) == ("Chat", "alpacaeval-easy", "1", 1)
    assert (second.section, second.row, first.prompt) == ("Reasoning", 2, user_prompt("Q1?"))
    assert found.exclusions.reasons == {"prior set": 2}  # half of the rows, and yet no broken file
    assert found.left_out_rows == {"prior set": (3, 4)}
    assert len(quality_set([pair("hep-go"), pair("hep-go")], "rb.jsonl").items) == 2  # the benchmark repeats pairs


def test_rewardbench_2_is_known_by_its_columns_and_pairs_its_ties() -> None:
    rows = [
        best_of("Math", "m1", ["a"], ["b", "c", "d"]),
        best_of("Ties", "ref:4", ["a"], ["b"]),
        best_of("Ties", "tied:4", ["a", "e"], ["b"]),
        best_of("Focus", "f1", ["a"], ["b", "c", "d"]),
        best_of("Ties", "tied:5", ["a", "e"], ["b"]),
        *[best_of("Math", f"n{number}", ["a"], ["b", "c", "d"]) for number in range(3)],
    ]
    found = quality_set(rows, "rb2.parquet")
    assert found.format == "rewardbench-2"
    assert [item.tied for item in found.items[:4]] == [None, ("ref", 4), ("tied", 4), None]
    assert found.left_out_rows == {"Ties row without its partner": (5,)}
    assert found.weights == {"Math": 1.0, "Ties": 1.0, "Focus": 1.0}


def test_mapped_columns_are_pairs() -> None:
    rows = [{"q": "Why?", "a": "So.", "b": "No.", "prompt": "other"}]
    found = quality_set(rows, "own.csv", {"prompt": "q", "chosen": "a", "rejected": "b"})
    assert (found.items[0].prompt, found.items[0].chosen) == (user_prompt("Why?"), ("So.",))
    with pytest.raises(DataError, match=r"no column 'x'.*audit.quality_columns.chosen"):
        quality_set(rows, "own.csv", {"prompt": "q", "chosen": "x", "rejected": "b"})


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        ([pair("hep-go"), pair("hep-goo")], "row 2: unknown subset 'hep-goo'"),
        ([pair("hep-go"), pair("hep-go", chosen=" ")], "row 2: empty side"),
        ([pair("hep-go"), pair("hep-go", prompt="")], "row 2: empty prompt"),
        ([pair("hep-go"), pair("hep-go", rejected=7)], "row 2: rejected is not text"),
        ([pair("hep-go"), pair("hep-go", rejected="Good.")], "row 2: identical sides"),
        ([best_of("Math", "1", ["a"], ["b"]), best_of("Math", "2", ["a"], [])], "row 2: rejected is not a list"),
        ([best_of("Ties", "4", ["a"], ["b"])], "row 1: Ties row whose id is neither ref:N nor tied:N"),
        ([best_of("Ties", f"{kind}:4", ["a"], ["b"]) for kind in ("ref", "tied")], "row 2: tied row with one chosen"),
        ([styled("chat"), styled("chat", chosen=2)], "row 2: 2 chosen responses, not 3"),
        ([compared(1), compared(3)], "the first is row 2: '3'"),
        ([compared(1), compared(2, first="")], "row 2: empty side"),
        ([pair(), {**pair(), "chosen": "Same.", "rejected": "Same."}], "row 2: identical sides"),
        ([{"text": "a", "label": 1}], "no known shape of preferences. Found: label, text"),
        ([{"input": "a", "output_1": "b", "output_2": "c"}], "without its column label"),
        ([{"prompt": "a", "chosen": ["b"], "rejected": ["c"]}], "neither RewardBench 2's"),
        ([{"prompt": "a", "chosen": ["b"], "rejected": ["c"], "num_correct": 1}], "without its column subset"),
    ],
)
def test_bad_rows_and_unknown_columns_are_named_with_their_file(rows: list[dict[str, Any]], problem: str) -> None:
    with pytest.raises(DataError) as error:
        quality_set(rows, "my/file.jsonl")
    assert str(error.value).startswith("my/file.jsonl: ") and problem in str(error.value)


def test_a_few_bad_rows_are_counted(tmp_path: Path) -> None:
    rows = [*[pair("hep-go", number) for number in range(9)], pair("hep-go", 9, chosen="")]
    file = tmp_path / "rb.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)))
    found = load_quality_set(str(file))
    assert len(found.items) == 9
    assert found.left_out_rows == {"empty side": (10,)}


@pytest.mark.skipif(not DATA.is_dir(), reason=f"public research data absent: {DATA} (set CDA_DATA)")
def test_released_files_are_read_whole() -> None:
    styles = load_quality_set(str(DATA / "rm_bench" / "chat_filtered.json"))
    assert (styles.format, len(styles.items), styles.exclusions.dropped) == ("rm-bench", 129, 0)
    assert {one.subset for one in styles.items} == {"chat"}
    natural = load_quality_set(str(DATA / "llmbar" / "natural.json"))
    assert (natural.format, len(natural.items), natural.name) == ("llmbar", 100, "natural")


def test_lists_of_responses_that_a_table_holds_as_text() -> None:
    row = {"prompt": "q", "chosen": '["a", "b", "c"]', "rejected": '["d", "e", "f"]', "domain": "chat"}
    found = quality_set([row], "rows.csv")
    assert (found.format, found.items[0].chosen) == ("rm-bench", ("a", "b", "c"))
    prose = [{"prompt": "q", "chosen": '["a"]', "rejected": "prose"}]
    assert quality_set(prose, "rows.csv").items[0].chosen == ('["a"]',)
