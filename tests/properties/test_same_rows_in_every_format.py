"""One table, written as JSON lines, JSON, CSV, TSV, parquet, arrow, gzip and in memory: the same pairs and the same counts."""

from __future__ import annotations

import csv
import gzip
import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cda.data.contrasts import load_votes
from cda.data.load import load_rows
from cda.data.pairs import CleanPairs, clean_pairs
from cda.data.tables import rows_in
from cda.errors import DataError
from cda.studies.export import sheet_rows

Rows = Sequence[Mapping[str, Any]]


def _json(path: Path, rows: Rows) -> None:
    path.write_text(json.dumps(rows), encoding="utf-8")


def _jsonl(path: Path, rows: Rows) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def _table(path: Path, rows: Rows) -> None:
    """As pandas writes one: nothing for a missing value, JSON for what is nested."""
    with path.open("w", encoding="utf-8", newline="") as file:
        names = list(dict.fromkeys(name for row in rows for name in row))
        writer = csv.writer(file, delimiter="\t" if path.suffix == ".tsv" else ",")
        writer.writerow(names)
        writer.writerows([[_cell(row.get(name)) for name in names] for row in rows])


def _cell(value: object) -> object:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    return json.dumps(value) if isinstance(value, list | dict) else value


def _parquet(path: Path, rows: Rows) -> None:
    import pyarrow.parquet

    pyarrow.parquet.write_table(_arrow_table(rows), path)


def _arrow(path: Path, rows: Rows) -> None:
    import pyarrow.feather

    pyarrow.feather.write_feather(_arrow_table(rows), str(path), compression="uncompressed")


def _stream(path: Path, rows: Rows) -> None:
    import pyarrow.ipc

    table = _arrow_table(rows)
    with pyarrow.OSFile(str(path), "wb") as file, pyarrow.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table)


def _arrow_table(rows: Rows) -> Any:
    import pyarrow

    return pyarrow.Table.from_pylist([dict(row) for row in rows])


def _gzip(path: Path, rows: Rows) -> None:
    path.write_bytes(gzip.compress("".join(json.dumps(row) + "\n" for row in rows).encode()))


FILES: Mapping[str, Callable[[Path, Rows], None]] = {
    "rows.jsonl": _jsonl, "rows.json": _json, "rows.csv": _table, "rows.tsv": _table, "rows.parquet": _parquet, "rows.arrow": _arrow,
    "stream.arrow": _stream, "rows.jsonl.gz": _gzip,
}  # fmt: skip


def _outcome(read: Callable[[], Any]) -> tuple[object, object] | str:
    """Pairs and counts; or the refusal, without the name of the file and the spelling of the cells."""
    try:
        cleaned: CleanPairs = clean_pairs(read())
    except DataError as refused:
        return str(refused).partition(" (the first is row")[0]
    return cleaned.pairs, dict(cleaned.exclusions.reasons)


def in_every_format(rows: Rows, folder: Path) -> dict[str, object]:
    import pandas
    from datasets import Dataset

    found: dict[str, object] = {"list": _outcome(lambda: rows_in(list(rows), "rows"))}
    for name, write in FILES.items():
        path = folder / name
        write(path, rows)
        found[name] = _outcome(lambda path=path: load_rows(str(path)))  # type: ignore[misc]
    found["DataFrame"] = _outcome(lambda: rows_in(pandas.DataFrame(list(rows)), "rows"))
    found["Dataset"] = _outcome(lambda: rows_in(Dataset.from_list([dict(row) for row in rows]), "rows"))
    return found


_TEXTS = st.sampled_from(
    ["a good answer", 'another, "quoted"\nline', "3.0", "None", "NaN", "[1, 2]", '{"a": 1}', "", "é ; ü\tx", "True"]
)
_WINNERS = st.sampled_from(["a", "model_b", "tie", "Tie (bothbad)", "", None, "B"])


@settings(deadline=None, derandomize=True, max_examples=25)
@given(
    rows=st.lists(
        st.fixed_dictionaries({"prompt": _TEXTS, "response_a": _TEXTS, "response_b": _TEXTS, "winner": _WINNERS}),
        min_size=1,
        max_size=6,
    )
)
def test_two_answers_with_a_winner(tmp_path_factory: pytest.TempPathFactory, rows: Rows) -> None:
    found = in_every_format(rows, tmp_path_factory.mktemp("rows"))
    assert all(outcome == found["list"] for outcome in found.values()), found


_NUMBERS = st.sampled_from([3, 3.0, 2.5, None, float("nan"), -1, 8])


@settings(deadline=None, derandomize=True, max_examples=25)
@given(rows=st.lists(st.fixed_dictionaries({"prompt": _TEXTS, "chosen": _TEXTS, "rejected": _TEXTS, "score_chosen": _NUMBERS,
                                           "score_rejected": _NUMBERS, "tie": st.sampled_from([True, False, None])}), min_size=1, max_size=6))  # fmt: skip
def test_scores_and_ties(tmp_path_factory: pytest.TempPathFactory, rows: Rows) -> None:
    found = in_every_format(rows, tmp_path_factory.mktemp("rows"))
    assert all(outcome == found["list"] for outcome in found.values()), found


def test_unknown_preferences_are_refused_in_every_format(tmp_path: Path) -> None:
    rows = [{"prompt": "q", "response_a": "x", "response_b": "y", "winner": word} for word in ("a", "c", "d")]
    found = in_every_format(rows, tmp_path)
    assert set(found.values()) == {"rows: column 'winner' states a preference that is not known in 2 of 3 rows"}


def test_nested_cells_in_every_format(tmp_path: Path) -> None:
    turn = {"role": "user", "content": "Why,\nso?"}
    rows = [
        {"conversation_a": [turn, {"role": "assistant", "content": "x"}], "conversation_b": [turn, {"role": "assistant", "content": "y"}], "winner": "model_b"},
        {"conversation_a": [turn, {"role": "assistant", "content": "z"}], "conversation_b": [turn, {"role": "assistant", "content": "y"}], "winner": "tie"},
    ]  # fmt: skip
    ranked = [{"prompt": "q", "answers": [{"answer": "x", "rank": 2.0}, {"answer": "y", "rank": 1.0}]}]
    for table, chosen in ((rows, "y"), (ranked, "y")):
        found = in_every_format(table, tmp_path)
        assert all(outcome == found["list"] for outcome in found.values()), found
        assert [pair.chosen for pair in found["list"][0]] == [chosen]  # type: ignore[index]


def test_files_that_break_off_are_named(tmp_path: Path) -> None:
    rows = [{"prompt": "q", "chosen": "x", "rejected": "y"}] * 50
    for name in ("rows.jsonl.gz", "rows.arrow", "rows.parquet"):
        path = tmp_path / name
        FILES[name](path, rows)
        path.write_bytes(path.read_bytes()[:-30])
        with pytest.raises(DataError) as refused:
            load_rows(str(path))
        assert str(refused.value).startswith(f"{path}: not a ") and "\n" not in str(refused.value)
    (tmp_path / "plain.csv.gz").write_text("a,b\n1,2\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"plain\.csv\.gz: cannot be read: Not a gzipped file"):
        load_rows(str(tmp_path / "plain.csv.gz"))


def test_lines_of_a_table_are_those_at_which_rows_begin(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(b'prompt,chosen\r\n"two\nlines","x"\r\n\r\n"a\nb\nc",y,extra\r\n')
    with pytest.raises(DataError, match=r"rows\.csv:5: not as many fields"):
        load_rows(str(path))
    path.write_bytes(b'sep=,\n"pro\nmpt",chosen\n"x\ny"\n')
    with pytest.raises(DataError, match=r"rows\.csv:4: not as many fields"):
        load_rows(str(path))
    path.write_bytes(b'prompt,chosen\n"x\ny",z\n"open,z\n')
    with pytest.raises(DataError, match=r"rows\.csv:4: not valid CSV"):
        load_rows(str(path))


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
    with pytest.raises(DataError, match="the column 'prompt' occurs twice"):
        load_rows(str(tmp_path / "a.parquet"))
    with pytest.raises(DataError, match="'item' occurs twice"):
        list(sheet_rows("study,item,item\na,b,c\n", "items.csv"))
