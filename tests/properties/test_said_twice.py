"""What occurs twice in a file of data is refused with its place, where one of both would be lost silently."""

from __future__ import annotations

from pathlib import Path

import pytest

from cda.data.contrasts import load_votes
from cda.data.load import load_rows
from cda.errors import DataError
from cda.studies.export import sheet_rows


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.jsonl", '{"prompt": "a"}\n{"prompt": "b", "x": 1, "prompt": "c"}\n', r"a\.jsonl:2: .*key 'prompt' occurs twice"),
        ("a.jsonl", '{"prompt": [{"role": "user", "role": "system"}]}\n', r"a\.jsonl:1: .*key 'role' occurs twice"),
        ("a.json", '[{"prompt": "b", "prompt": "c"}]', r"a\.json:1: .*key 'prompt' occurs twice"),
        ("a.csv", "prompt,chosen,prompt\na,b,c\n", r"a\.csv:1: column 'prompt' occurs twice"),
        ("a.csv", "prompt,x,y,y,x\na,b,c,d,e\n", r"column 'y', 'x' occurs twice"),
    ],
)  # fmt: skip
def test_a_name_that_stands_twice_is_refused_with_its_place(name: str, content: str, said: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    with pytest.raises(DataError, match=said):
        load_rows(str(tmp_path / name))


def test_the_same_key_in_several_objects_is_as_it_should_be(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"a": {"a": 1}, "b": [{"a": 1}, {"a": 2}]}\n', encoding="utf-8")
    assert load_rows(str(tmp_path / "a.jsonl")) == [{"a": {"a": 1}, "b": [{"a": 1}, {"a": 2}]}]


def test_votes_of_an_item_that_stands_twice_are_not_lost(tmp_path: Path) -> None:
    (tmp_path / "votes.json").write_text('{"1": ["base"], "2": ["tie"], "1": ["tie"]}', encoding="utf-8")
    with pytest.raises(DataError, match="key '1' occurs twice"):
        load_votes(str(tmp_path / "votes.json"))


def test_a_parquet_column_and_a_column_of_a_filled_table(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(
        pa.table([pa.array(["x"]), pa.array(["y"])], names=["prompt", "prompt"]), tmp_path / "a.parquet"
    )
    with pytest.raises(DataError, match="Multiple matches"):
        load_rows(str(tmp_path / "a.parquet"))
    with pytest.raises(DataError, match="'item' occurs twice"):
        list(sheet_rows("study,item,item\na,b,c\n", "items.csv"))
