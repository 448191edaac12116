"""Rewards of rows in every format, in their order; what cannot be scored; shards that are missing, damaged, of other inputs."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet
import pytest
from score_files import scored, singles, written
from serving import said as said_by

import cda as package
from cda.data import streams

Run = Callable[..., str]


def test_rows_keep_their_columns_and_order_and_get_a_reward(desk: Path, cda: Run) -> None:
    rows = singles(25)
    rows[3]["response"], rows[4]["response"], rows[5]["prompt"] = "", "nan", None
    written(desk / "a.jsonl", rows[:12])
    written(desk / "b.jsonl", rows[12:])
    said = cda("mine.py:reward", "*.jsonl", "--out", "o", "--shard-rows", 5)
    found = scored("o")
    assert [{key: row[key] for key in ("id", "prompt", "response")} for row in found] == rows
    assert [row["reward"] for row in found] == [None if i in (3, 4, 5) else float(i + 1) for i in range(25)]
    lines = said.splitlines()
    assert len(lines) <= 12 and max(map(len, lines)) <= 100
    assert lines[0] == "25 of 25 rows scored by mine.py:reward: 6 of 6 shards"
    assert "no reward 3 rows: 1 × empty response, 1 × NaN or infinite reward, 1 × empty prompt" in said
    assert lines[-1] == "Next: which biases it rewards: cda audit mine.py:reward"
    manifest = json.loads(Path("o/score.json").read_text())
    assert manifest["rewards"]["reward"]["mean"] == pytest.approx(sum({*range(1, 26)} - {4, 5, 6}) / 22)
    assert [each["rows"] for each in manifest["inputs"]] == [12, 13] and manifest["rows_done"] == 25


def pairs() -> list[dict[str, str]]:
    return [{"prompt": f"Why {i}?", "chosen": "b" * (9 + i), "rejected": "c" * 10} for i in range(7)]


def save(form: str, desk: Path) -> str:
    """The pairs in a format; its name."""
    rows, table = pairs(), pa.Table.from_pylist(pairs())
    file = desk / f"pairs.{form}"
    if form in ("jsonl", "json"):
        file.write_text("\n".join(map(json.dumps, rows)) if form == "jsonl" else json.dumps(rows), encoding="utf-8")
    elif form == "jsonl.gz":
        file.write_bytes(gzip.compress("\n".join(map(json.dumps, rows)).encode()))
    elif form in ("csv", "tsv"):
        cells = [[*rows[0]], *([f'"{cell}"' for cell in row.values()] for row in rows)]
        file.write_text("\n".join(("," if form == "csv" else "\t").join(row) for row in cells), encoding="utf-8")
    elif form == "parquet":
        pyarrow.parquet.write_table(table, file, row_group_size=2)
    elif form == "arrow":
        with pyarrow.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table, max_chunksize=2)
    elif form == "saved":
        from datasets import Dataset

        Dataset.from_list(rows).save_to_disk(str(file))
    else:
        (file := desk / "folder").mkdir()
        pyarrow.parquet.write_table(table.slice(0, 4), file / "part-0.parquet")
        pyarrow.parquet.write_table(table.slice(4), file / "part-1.parquet")
    return str(file)


@pytest.mark.parametrize("form", ["jsonl", "jsonl.gz", "json", "csv", "tsv", "parquet", "arrow", "saved", "folder"])
def test_every_format_is_read_in_part(form: str, desk: Path, cda: Run) -> None:
    said = cda("mine.py:reward", save(form, desk), "--out", "o", "--shard-rows", 3)
    found = scored("o")
    assert [{key: row[key] for key in pairs()[0]} for row in found] == pairs()
    assert [row["margin"] for row in found] == [float(i - 1) for i in range(7)]
    assert [row["reward_chosen"] - row["reward_rejected"] for row in found] == [row["margin"] for row in found]
    assert "chosen          beats rejected in 71% of 7 pairs, 1 tie" in said
    assert "Next: which biases go with the choices: cda data o/rows --limit 5000" in said


def test_conversations_also_as_text(desk: Path, cda: Run) -> None:
    turns = [[{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "a" * n}] for n in range(1, 4)]
    written(desk / "m.jsonl", [{"messages": each} for each in turns] + [{"messages": turns[0][:1]}])
    written(
        desk / "t.jsonl", [{"messages": json.dumps(each)} for each in turns] + [{"messages": json.dumps(turns[0][:1])}]
    )
    for name in ("m", "t"):
        said = cda("mine.py:reward", f"{name}.jsonl", "--out", name)
        assert [row["reward"] for row in scored(name)] == [1.0, 2.0, 3.0, None]
        assert "1 row: 1 × last turn is not the assistant's" in said


def test_a_column_of_several_types_is_kept_as_json_and_said(desk: Path, cda: Run) -> None:
    rows: list[dict[str, Any]] = singles(3)
    rows[1]["prompt"] = [{"role": "user", "content": "Why?"}]
    written(desk / "a.jsonl", rows)
    assert "columns of several types, kept as JSON text: prompt" in cda("mine.py:reward", "a.jsonl", "--out", "o")
    found = scored("o")
    assert [json.loads(row["prompt"]) for row in found] == [row["prompt"] for row in rows]
    assert [row["reward"] for row in found] == [1.0, 2.0, 3.0]


def test_only_what_is_missing_or_damaged_is_scored_again(desk: Path, cda: Run) -> None:
    written(desk / "a.jsonl", singles(20))
    call = ("mine.py:reward", "a.jsonl", "--out", "o", "--shard-rows", 5)
    cda(*call)
    before, files = scored("o"), sorted(Path("o/rows").iterdir())
    files[1].unlink()
    files[2].write_bytes(files[2].read_bytes()[:-20])
    (files[1].parent / f".{files[1].name}.1-of-1.partial").write_bytes(b"PAR1")  # a kill left it
    kept = [files[n].stat().st_mtime_ns for n in (0, 3)]
    assert "to do       2 shards, 10 rows; 2 are finished" in cda(*call, "--dry-run")
    assert cda(*call).startswith("20 of 20 rows")
    assert scored("o") == before and [files[n].stat().st_mtime_ns for n in (0, 3)] == kept


def test_parts_share_the_shards_and_say_what_is_missing(desk: Path, cda: Run) -> None:
    written(desk / "a.jsonl", singles(21))
    call = ("mine.py:reward", "a.jsonl", "--out", "o", "--shard-rows", 4)
    said = cda(*call, "--part", "2/3")
    assert said.startswith("8 of 21 rows scored by mine.py:reward: 2 of 6 shards; 4 missing")
    assert "part      2 of 3: its 2 shards finished; what is missing belongs to others" in said
    assert "cda score mine.py:reward a.jsonl --out o --shard-rows 4" in said
    cda(*call, "--part", "1/3")
    assert cda(*call).startswith("21 of 21 rows")  # whoever comes last does the rest
    assert [row["reward"] for row in scored("o")] == [float(i + 1) for i in range(21)]
    assert "--part 4/3: give the number of the part and of all parts, such as 3/16" in cda(
        *call, "--part", "4/3", status=2
    )


def test_inputs_can_be_added_and_nothing_else_may_change(desk: Path, cda: Run) -> None:
    written(desk / "a.jsonl", singles(4))
    written(desk / "b.jsonl", singles(4, 4))
    cda("mine.py:reward", "a.jsonl", "--out", "o")
    cda("mine.py:reward", "[ab].jsonl", "--out", "o")
    assert [row["id"] for row in scored("o")] == [*range(8)]
    cda("mine.py:reward", desk / "a.jsonl", desk / "b.jsonl", "--out", "o")  # they are known by their content
    assert "inputs can only be added" in cda("mine.py:reward", "a.jsonl", "--out", "o", status=2)
    said = cda("mine.py:other", "a.jsonl", "b.jsonl", "--out", "o", status=2)
    assert "o: holds rewards of mine.py:reward, and this is mine.py:other" in said and "--out" in said
    assert "was begun with" in cda("mine.py:reward", "[ab].jsonl", "--out", "o", "--shard-rows", 3, status=2)
    written(desk / "a.jsonl", singles(5))
    said = cda("mine.py:reward", "a.jsonl", "b.jsonl", "--out", "o", status=2)
    assert said.startswith("error: a.jsonl: has changed since o was begun (") and len(said.strip().splitlines()) == 1
    (desk / "mine.py").write_text((desk / "mine.py").read_text() + "\nSCALE = 2\n")
    assert "other weights, code, adapter or settings" in cda(
        "mine.py:reward", "a.jsonl", "b.jsonl", "--out", "o", status=2
    )


@pytest.mark.parametrize(
    ("second", "said"),
    [
        ([{"prompt": "Why?", "response": "So."}], "a.jsonl has the columns id, prompt, response and b.jsonl has the columns prompt, response. "),
        ([{"id": "x", "prompt": "Why?", "response": "So."}], "column 'id' is int64 in a.jsonl and string in b.jsonl. "),
    ],
)  # fmt: skip
def test_inputs_of_two_schemas_are_refused(desk: Path, cda: Run, second: list[dict[str, Any]], said: str) -> None:
    written(desk / "a.jsonl", singles(2))
    written(desk / "b.jsonl", second)
    assert said in cda("mine.py:reward", "a.jsonl", "b.jsonl", "--out", "o", status=2)
    assert not Path("o").exists()


def test_a_second_model_scores_what_the_first_wrote(desk: Path, cda: Run) -> None:
    written(desk / "a.jsonl", singles(3))
    cda("mine.py:reward", "a.jsonl", "--out", "o")
    taken = cda("mine.py:other", "o/rows", "--out", "p", status=2)
    assert "has a column 'reward' already; give the rewards another name with --column reward=<a new column>" in taken
    cda("mine.py:other", "o/rows", "--out", "p", "--column", "reward=other")
    assert [(row["reward"], row["other"]) for row in scored("p")] == [(1.0, -1.0), (2.0, -2.0), (3.0, -3.0)]


def test_what_cannot_be_scored_is_said_before_anything_is_written(desk: Path, cda: Run) -> None:
    written(desk / "a.jsonl", singles(2))
    written(desk / "q.jsonl", [{"question": "Why?", "text": "So."}])
    (desk / "full").mkdir()
    (desk / "full" / "thesis.txt").write_text("mine")
    for words, said in {
        ("mine.py:compares", "a.jsonl"): "compares two answers and gives no reward of single ones",
        ("mine.py:reward", "q.jsonl"): "Or single texts: prompt and response, or messages that end with the answer",
        ("mine.py:reward", "no*.jsonl"): "no*.jsonl: no file matches",
        ("mine.py:reward", "embedded"): "`cda texts FOLDER` writes them as files",
        ("mine.py:reward", "a.jsonl", "--column", "answer=x"): "--column answer is unknown",
        ("mine.py:reward", "a.jsonl", "--column", "response=x"): "no column 'x'",
        ("mine.py:reward", "a.jsonl", "--out", "full"): "holds something other than results of `cda score`",
    }.items():
        assert said in cda(*words, *([] if "--out" in words else ["--out", "o"]), status=2), words
    assert not Path("o").exists() and [each.name for each in Path("full").iterdir()] == ["thesis.txt"]


def test_json_is_the_manifest_and_a_dry_run_writes_nothing(desk: Path, cda: Run) -> None:
    written(desk / "a.jsonl", singles(3))
    before = sorted(desk.rglob("*"))
    lines = json.loads(cda("mine.py:reward", "a.jsonl", "--out", "o", "--dry-run", "--json"))["lines"]
    assert "rows        3 in 1 inputs: 1 shards of 10,000" in lines and sorted(desk.rglob("*")) == before
    shown = json.loads(cda("mine.py:reward", "a.jsonl", "--out", "o", "--json"))
    assert shown == json.loads(Path("o/score.json").read_text()) and shown["rows_per_second"] > 0


@pytest.mark.usefixtures("desk")
def test_from_python_with_rows_and_a_function_in_memory() -> None:
    result = package.score(lambda _, responses: [len(each) for each in responses], singles(4), out="o", progress=False)
    assert result.rewards["reward"].mean == 2.5 and result.missing == 0
    assert [row["reward"] for row in scored("o")] == [1.0, 2.0, 3.0, 4.0]
    with pytest.raises(package.RecipeError, match="shard_rows: give a whole number from 1"):
        package.score(lambda _, responses: [0.0 for _ in responses], singles(4), shard_rows=0)


def test_a_reward_model_cuts_counts_and_reads_tokens(desk: Path, cda: Run) -> None:
    rows = [{"prompt": "Why?", "response": "word " * n} for n in (3, 100, 4)]
    written(desk / "a.jsonl", rows)
    call = ("embedded", "a.jsonl", "--out", "o", "model.max_length_tokens=32", "model.precision=fp32")
    said = cda(*call)
    assert "cut       1 text" in said and " tokens/s" in said
    with package.reward_function("embedded", model={"max_length_tokens": 32, "precision": "fp32"}) as reward:
        expected = reward([row["prompt"] for row in rows], [row["response"] for row in rows])
    assert [row["reward"] for row in scored("o")] == pytest.approx(expected, abs=1e-5)


def test_a_model_without_any_reward_is_an_error(desk: Path, cda: Run) -> None:
    written(desk / "a.jsonl", [row | {"response": "nan"} for row in singles(120)])
    said = cda("mine.py:reward", "a.jsonl", "--out", "o", status=2)
    assert "none of 120 texts has a reward (120 × NaN or infinite reward); earlier shards are kept" in said
    assert not list(Path("o/rows").iterdir())


def test_a_hub_data_set_is_streamed_at_one_commit(cda: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, Any]] = []

    def load_dataset(name: str, **options: Any) -> Any:
        asked.append({"name": name, **options})
        return iter(singles(7))

    monkeypatch.setattr("datasets.load_dataset", load_dataset)
    monkeypatch.setattr(streams, "commit_of", lambda *_: "c" * 40)
    cda("mine.py:reward", "my-org/my-rows", "--out", "o", "--shard-rows", 3, "--split", "test")
    assert [row["reward"] for row in scored("o")] == [float(i + 1) for i in range(7)]
    assert {(each["revision"], each["split"], each["streaming"]) for each in asked} == {("c" * 40, "test", True)}
    monkeypatch.setattr(streams, "commit_of", lambda *_: "d" * 40)
    said = cda("mine.py:reward", "my-org/my-rows", "--out", "o", "--split", "test", status=2)
    assert "my-org/my-rows: has changed since o was begun" in said


def test_grades_of_an_llm_with_their_cost_beforehand(
    desk: Path, cda: Run, serve: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    written(desk / "a.jsonl", singles(4))
    monkeypatch.setenv("OPENAI_API_KEY", "unused")
    url = serve(lambda body: said_by("No." if "Why 2?" in str(body["messages"]) else "Grade: 7"))
    call = ("grade:m", "a.jsonl", "--out", "o", "--shard-rows", 2, f"llm.base_url={url}")
    assert "grading single answers: about 4 calls of m" in cda(*call, "--dry-run")
    assert "1 row: 1 × without a readable grade" in cda(*call)
    assert [row["reward"] for row in scored("o")] == [7.0, 7.0, None, 7.0]
