"""Every kind of data file, made hostile: what comes back is a value or an error of ours, fit to be printed."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mutations import CONTROLS, as_json, broken, mutated

from cda.data.contrasts import clean_contrasts, load_votes
from cda.data.load import check_columns, load_rows
from cda.data.pairs import clean_pairs
from cda.data.quality_sets import load_quality_set
from cda.data.queries import clean_queries, why_not
from cda.data.sampled import load_outputs, load_sampled
from cda.data.scores import load_scores
from cda.data.triples import clean_triples
from cda.errors import CdaError, DataError
from cda.files.jsonl import MAX_DEPTH, parse_json
from cda.records import count_reasons

FUZZ = settings(deadline=None, derandomize=True, max_examples=25)
UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
BIASES = ["jargon", "length"]
ASKED = [{"role": "user", "content": "Why is it so?"}]


def _pairs(path: str) -> object:
    rows = load_rows(path)
    check_columns(rows, {"prompt": "prompt"}, path, "data.columns.")
    return clean_pairs(rows)


FILES: Mapping[str, tuple[Any, Callable[[str], object]]] = {
    "pairs": (
        [
            {"prompt": "Why?", "chosen": "because", "rejected": "no", "score_chosen": 1.0, "score_rejected": 2},
            {"prompt": ASKED, "chosen": [{"role": "assistant", "content": "a"}], "rejected": [{"role": "assistant", "content": "b"}]},
            {"chosen": "\n\nHuman: q\n\nAssistant: a", "rejected": "\n\nHuman: q\n\nAssistant: b", "winner": "tie"},
        ],
        _pairs,
    ),
    "contrasts": (
        [
            {"id": "1", "prompt": "q", "base": "a", "perturbed": "b", "preferred": "base", "votes": ["tie"], "bias": "jargon"},
            {"id": "2", "prompt": "q", "response_1": "a", "response_2": "b", "biased": "response_1", "bias": "length",
             "preferred": "response_1", "direction": "added"},
        ],
        lambda path: clean_contrasts(load_rows(path), BIASES, {}, path, votes={"1": ["tie"]}),
    ),
    "votes by row": ([{"id": "1", "vote": "base"}, {"id": "2", "vote": "tie"}], load_votes),
    "votes by item": ([{"id": "1", "votes": ["base"]}, {"id": "2", "votes": '["tie"]'}], load_votes),
    "votes by name": ({"1": ["base"], "2": "tie"}, load_votes),
    "triples": (
        [{"prompt": "q", "original": "a", "rewrite": "b", "rewrite_of_rewrite": "c", "has_attribute": True, "bias": "length"}],
        lambda path: clean_triples(load_rows(path), BIASES, {}, path),
    ),
    "sampled": (
        [{"prompt": "q", "responses": ["a", "b"], "quality": [1, 2.0]}, {"prompt": ASKED, "responses": '["a"]', "quality": "[1]"}],
        load_sampled,
    ),
    "outputs": ([{"prompt": "q", "response": "a", "quality": 1}, {"prompt": "q", "response": "b", "quality": "2"}], load_outputs),
    "scores": (
        [{"query": "q", "perturbed": "a", "base": "b", "perturbed_score": 1.0, "base_score": "2"},
         {"query": ASKED, "perturbed": "c", "base": "d", "perturbed_score": 1, "base_score": 0}],
        load_scores,
    ),
    "preferences": ([{"prompt": "q", "response_a": "a", "response_b": "b", "preference": -0.5}], load_scores),
    "queries": (
        [{"prompt": "Why is the sky blue in the morning?", "language": "en"}, {"conversation": ASKED}],
        lambda path: clean_queries(load_rows(path), path),
    ),
    "RewardBench": ([{"prompt": "q", "chosen": "a", "rejected": "b", "subset": "math-prm", "id": 1}], load_quality_set),
    "RewardBench 2": (
        [{"prompt": "q", "chosen": ["a", "c"], "rejected": ["b"], "subset": "Ties", "id": f"{kind}:1"} for kind in ("ref", "tied")],
        load_quality_set,
    ),
    "RM-Bench": ([{"prompt": "q", "chosen": ["a", "c", "d"], "rejected": ["b", "e", "f"], "domain": "chat"}], load_quality_set),
    "LLMBar": ([{"input": "q", "output_1": "a", "output_2": "b", "label": 1}], load_quality_set),
}  # fmt: skip


def ours_or_nothing(work: Callable[[], object]) -> None:
    """Runs it; only an error of ours may come out, and only one that can be printed."""
    try:
        work()
    except CdaError as error:
        assert not UNPRINTABLE.search(str(error)), ascii(str(error))
        assert len(str(error)) < 50_000


@pytest.mark.parametrize("kind", FILES)
@FUZZ
@given(seed=st.integers(0, 2**32))
def test_hostile_files_are_read_or_refused(kind: str, tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    valid, read = FILES[kind]
    rng = random.Random(seed)
    content = mutated(valid, rng, rng.randint(1, 3))
    folder = tmp_path_factory.getbasetemp()
    if isinstance(content, list) and rng.random() < 0.5:
        path, lines = folder / "rows.jsonl", b"\n".join(map(as_json, content))
        path.write_bytes(broken(lines, rng) if rng.random() < 0.3 else lines)
    else:
        path = folder / "rows.json"
        path.write_bytes(as_json(content, rng))
    ours_or_nothing(lambda: read(str(path)))


@pytest.mark.parametrize("kind", FILES)
def test_the_valid_file_is_read(kind: str, tmp_path: Path) -> None:
    """Or the fuzzing above would only ever see the first refusal."""
    valid, read = FILES[kind]
    path = tmp_path / "rows.json"
    path.write_bytes(as_json(valid))
    assert read(str(path))


@FUZZ
@given(seed=st.integers(0, 2**32))
def test_hostile_csv_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    rng = random.Random(seed)
    path = tmp_path_factory.getbasetemp() / "rows.csv"
    cells = [
        '"a ""b"" c"',
        '"two\nlines"',
        CONTROLS.encode("utf-8", "replace").decode(),
        "x" * 200_000,
        "=cmd|' /C calc'!A0",
        ",",
        '"',
        "é",
    ]
    rows = ["id,prompt,chosen,rejected,votes", *(",".join(rng.choices(cells, k=rng.randint(1, 6))) for _ in range(3))]
    content = "\n".join(rows).encode()
    path.write_bytes(broken(content, rng) if rng.random() < 0.5 else content)
    ours_or_nothing(lambda: clean_pairs(load_rows(str(path))))
    ours_or_nothing(lambda: load_votes(str(path)))


@settings(FUZZ, max_examples=12)
@given(seed=st.integers(0, 2**32))
def test_hostile_parquet_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    import pyarrow
    import pyarrow.parquet

    rng = random.Random(seed)
    path = tmp_path_factory.getbasetemp() / "rows.parquet"
    columns: list[pyarrow.Array] = [
        pyarrow.array([b"\xff\xfe", None]), pyarrow.array([b"\xff\xfe", b"a"]).view("string"), pyarrow.array([1.5, None]),
        pyarrow.array([2**62, -(2**62)]).view(pyarrow.timestamp("us")), pyarrow.array([["a"], None]), pyarrow.array(["a", "b"]),
        pyarrow.array([[{"role": "user", "content": "q"}], []]),
    ]  # fmt: skip
    names = ["prompt", "chosen", "rejected"]
    pyarrow.parquet.write_table(pyarrow.table([rng.choice(columns) for _ in names], names=names), path)
    if rng.random() < 0.4:
        whole = path.read_bytes()
        at = rng.randrange(len(whole))
        path.write_bytes(whole[:at] + b"\x00\xff" + whole[at + 2 :])
    ours_or_nothing(lambda: clean_pairs(load_rows(str(path))))


@pytest.mark.parametrize(
    ("kind", "content", "message"),
    [
        ("votes by row", '[{"id": "1", "vote": "%s"}]' % ("[" * 3000), "row 1 lacks a vote"),
        ("sampled", '[{"prompt": "q", "responses": ["a", "b"], "quality": [1, 1e5, 2]}, {"prompt": "q", "responses": "%s"}]' % ("[" * 3000),
         None),
        ("outputs", '[{"prompt": "q", "response": "a", "quality": 1%s}]' % ("0" * 400), None),
        ("scores", '[{"prompt": "q", "response": "a", "score": 1%s}]' % ("0" * 400), "give a number from"),
        ("RewardBench", '[{"prompt": "q", "chosen": "a", "rejected": "b", "subset": {"a": 1}}]', None),
        ("RewardBench 2", '[{"prompt": "q", "chosen": ["a"], "rejected": ["b"], "subset": ["Ties"], "num_correct": 1}]', None),
        ("RewardBench 2", '[{"prompt": "q", "chosen": ["a"], "rejected": ["b"], "subset": "Ties", "id": "ref:%s"}]' % ("9" * 5000),
         "neither ref:N nor tied:N"),
        ("pairs", "{" + '"a":{' * 150 + "}" * 151, "nested too deeply"),
    ],
)  # fmt: skip
def test_what_once_ended_in_a_traceback(kind: str, content: str, message: str | None, tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    path.write_text(content, "utf-8")
    read = FILES[kind][1]
    if message is None:
        read(str(path))
    else:
        with pytest.raises(DataError, match=message):
            read(str(path))


def test_depth_is_limited_and_what_is_flat_is_not() -> None:
    assert parse_json("[" * MAX_DEPTH + "]" * MAX_DEPTH)
    assert len(parse_json(f"[{','.join(['[]'] * 1000)}]")) == 1000
    for depth in (MAX_DEPTH + 1, 900, 100_000):
        with pytest.raises(ValueError, match="nested too deeply"):
            parse_json("[" * depth + "]" * depth)


def test_many_different_reasons_are_counted_in_no_time() -> None:
    reasons = [f"of another bias ({number})" for number in range(20_000)]
    assert sum(count_reasons([*reasons, *reasons]).values()) == 40_000  # took the square of that


def test_a_query_of_any_length_is_looked_at_in_no_time() -> None:
    assert why_not("[a" * 500_000 + "?") == "longer than 5,000 characters"  # took hours
    assert why_not("a-" * 500_000 + "?") == "longer than 5,000 characters"
