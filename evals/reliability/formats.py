"""Claim: published shapes of preference data give the same pairs and counts in every file format, and what cannot be read rightly is
refused: nothing is read wrongly.

For each shape, 40 prompts with two answers (four where a shape ranks several) are written with a truth that is drawn first: the first
answer is better, the second is, both are alike, both are bad, or nobody said. The shape's own columns, words and scales are written as
its publisher documents them, and in further spellings and types (numbers as text, capitals, floats, lists as Python prints them). Each
table is written in ten formats and read back. `right`: exactly the pairs of the truth, and as many rows left out as it has without a
preference; `refused`: an error that names the file's column or columns; `wrong`: anything else. Tables whose preference no reader can
know (words and scales of nobody's, columns that contradict each other) are to be refused, or left out row by row.

Thresholds: no table is read wrongly; every published shape is read rightly in every format; every unknowable one gives no pair.

    python -m evals.reliability.formats      (a minute)
"""

from __future__ import annotations

import csv
import gzip
import json
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from cda.data.load import load_rows
from cda.data.pairs import clean_pairs
from cda.data.tables import rows_in
from cda.errors import DataError
from cda.records import prompt_text
from evals.shared import Check, finish

Truth = Literal["first", "second", "tie", "bad", "none"]
Row = dict[str, Any]
N = 40


@dataclass(frozen=True)
class Item:
    """A prompt, two answers, and the truth about them; `number` tells items apart."""

    number: int
    truth: Truth
    prompt: str
    first: str
    second: str


@dataclass(frozen=True)
class Shape:
    """A way to write items as rows; `truths` are those that it can state."""

    name: str
    write: Callable[[Item], Row | list[Row]]
    truths: tuple[Truth, ...] = ("first", "second", "tie", "none")
    knowable: bool = True


def user(text: str) -> Row:
    return {"role": "user", "content": text}


def bot(text: Any) -> Row:
    return {"role": "assistant", "content": text}


def _two(prompt: str, first: str, second: str, stated: str, words: Mapping[Truth, Any]) -> Callable[[Item], Row]:
    return lambda one: {prompt: one.prompt, first: one.first, second: one.second, stated: words[one.truth]}


def _arena(words: Mapping[Truth, Any], parts: bool = False) -> Callable[[Item], Row]:
    def write(one: Item) -> Row:
        said = [[{"type": "text", "text": text}] if parts else text for text in (one.prompt, one.first, one.second)]
        asked = {"role": "user", "content": said[0]}
        return {"question_id": one.number, "model_a": "x", "model_b": "y", "winner": words[one.truth], "turn": 1,
                "conversation_a": [asked, bot(said[1])], "conversation_b": [asked, bot(said[2])]}  # fmt: skip

    return write


def _better(one: Item) -> tuple[str, str]:
    return (one.second, one.first) if one.truth == "second" else (one.first, one.second)


def _scored(higher: str, lower: str, as_text: bool = False) -> Callable[[Item], Row]:
    """Chosen and rejected in order, and scores that tell ties."""

    def write(one: Item) -> Row:
        chosen, rejected = _better(one)
        scores = (7.0, 7.0) if one.truth == "tie" else (8.5, 7.0)
        own = [f"{score:g}" if as_text else score for score in scores]
        return {"prompt": one.prompt, "chosen": chosen, "rejected": rejected, higher: own[0], lower: own[1]}

    return write


def _ordered(make: Callable[[str, str, str], Row]) -> Callable[[Item], Row]:
    return lambda one: make(one.prompt, *_better(one))


def _rated(key: str, listed: str, text: str, rating: str, best_is_low: bool = False) -> Callable[[Item], Row]:
    def write(one: Item) -> Row:
        high, low = (1.0, 2.0) if best_is_low else (9.5, 3.0)
        ratings = {"first": (high, low), "second": (low, high), "tie": (high, high), "none": (None, low)}[one.truth]
        answers = [
            {text: answer, rating: number} for answer, number in zip((one.first, one.second), ratings, strict=True)
        ]
        return {key: one.prompt, listed: answers}

    return write


def _label_studio(one: Item) -> Row:
    chosen = {
        "first": [{"selected": "left"}],
        "second": [{"selected": "right"}],
        "tie": [{"selected": "left"}, {"selected": "right"}],
        "none": [],
    }
    results = [
        {"result": [{"type": "pairwise", "value": value}], "was_cancelled": False} for value in chosen[one.truth]
    ]
    return {"data": {"prompt": one.prompt, "answer1": one.first, "answer2": one.second}, "annotations": results}


def _argilla(one: Item) -> Row:
    values = {"first": ["response-1"], "second": ["response-2"], "tie": ["response-1", "response-2"], "none": []}[
        one.truth
    ]
    fields = {"prompt": one.prompt, "response-1": one.first, "response-2": one.second}
    return {"fields": fields, "responses": {"preference": [{"value": value, "user_id": "u"} for value in values]}}


def _helpsteer(one: Item) -> list[Row]:
    ratings = {"first": (4, 1), "second": (0, 3), "tie": (2, 2), "none": (None, 2)}[one.truth]
    return [
        {
            "prompt": one.prompt,
            "response": text,
            "helpfulness": rating,
            "correctness": 4,
            "coherence": 4,
            "complexity": 1,
            "verbosity": 1,
        }
        for text, rating in zip((one.first, one.second), ratings, strict=True)
    ]


ARENA: Mapping[Truth, Any] = {
    "first": "model_a",
    "second": "model_b",
    "tie": "tie",
    "bad": "tie (bothbad)",
    "none": None,
}
LETTERS: Mapping[Truth, Any] = {"first": "A", "second": "b", "tie": "Tie", "bad": "Both bad", "none": ""}
SIGNS: Mapping[Truth, Any] = {"first": -2, "second": 3, "tie": 0, "none": None}
TEXT_SIGNS: Mapping[Truth, Any] = {"first": "-2.0", "second": "3", "tie": "0.0", "none": "NaN"}
ALPACA: Mapping[Truth, Any] = {"first": 1.2, "second": 2.0, "tie": 1.5, "none": float("nan")}
INDEX: Mapping[Truth, Any] = {"first": 0, "second": 1, "none": None}
ONE_TWO: Mapping[Truth, Any] = {"first": "1", "second": "2.0"}
ALL: tuple[Truth, ...] = ("first", "second", "tie", "bad", "none")
SIDES: tuple[Truth, ...] = ("first", "second")
TIED: tuple[Truth, ...] = ("first", "second", "tie")

PUBLISHED: tuple[Shape, ...] = (
    Shape("Chatbot Arena", _arena(ARENA), ALL),
    Shape("Chatbot Arena, content in parts, both_bad", _arena({**ARENA, "bad": "both_bad"}, parts=True), ALL),
    Shape("HelpSteer3", lambda one: {"context": [user(one.prompt)], "response1": one.first, "response2": one.second,
                                     "overall_preference": SIGNS[one.truth]}),
    Shape("HelpSteer2 preferences", _two("prompt", "response_1", "response_2", "preference_strength", SIGNS)),
    Shape("HelpSteer2 preferences, numbers as text", _two("prompt", "response_1", "response_2", "preference_strength", TEXT_SIGNS)),
    Shape("HelpSteer2", _helpsteer),
    Shape("UltraFeedback", _rated("instruction", "completions", "response", "overall_score")),
    Shape("UltraFeedback binarized", lambda one: _scored("score_chosen", "score_rejected")(one) | {
        "chosen": [user(one.prompt), bot(_better(one)[0])], "rejected": [user(one.prompt), bot(_better(one)[1])]}, TIED),
    Shape("Nectar", _rated("prompt", "answers", "answer", "rank", best_is_low=True)),
    Shape("SHP", _two("history", "human_ref_A", "human_ref_B", "labels", {"first": 1, "second": 0}), SIDES),
    Shape("PKU-SafeRLHF", _two("prompt", "response_0", "response_1", "better_response_id", INDEX), (*SIDES, "none")),
    Shape("AlpacaEval", _two("instruction", "output_1", "output_2", "preference", ALPACA)),
    Shape("LLMBar", _two("input", "output_1", "output_2", "label", ONE_TWO), SIDES),
    Shape("OpenAI preferences", _ordered(lambda prompt, good, bad: {"input": {"messages": [user(prompt)]}, "preferred_output": [bot(good)],
                                                                    "non_preferred_output": [bot(bad)]}), SIDES),
    Shape("ShareGPT pairs", _ordered(lambda prompt, good, bad: {"conversations": [{"from": "human", "value": prompt}],
          "chosen": {"from": "gpt", "value": good}, "rejected": {"from": "gpt", "value": bad}}), SIDES),
    Shape("hh-rlhf", _ordered(lambda prompt, good, bad: {"chosen": f"\n\nHuman: {prompt}\n\nAssistant: {good}",
                                                         "rejected": f"\n\nHuman: {prompt}\n\nAssistant: {bad}"}), SIDES),
    Shape("Argilla binarized", _scored("chosen-rating", "rejected-rating"), TIED),
    Shape("Argilla binarized, ratings as text", _scored("chosen_rating", "rejected_rating", as_text=True), TIED),
    Shape("Argilla records", _argilla),
    Shape("Label Studio", _label_studio),
    Shape("RewardBench results", _ordered(lambda prompt, good, bad: {"text_chosen": [user(prompt), bot(good)],
          "text_rejected": [user(prompt), bot(bad)], "results": 0, "scores_chosen": 0.1, "scores_rejected": 0.9}), SIDES),
    Shape("two answers and a winner", _two("question", "answer_a", "answer_b", "winner", LETTERS), ALL),
    Shape("pairs with ties as truth values", lambda one: {"prompt": one.prompt, "chosen": _better(one)[0], "rejected": _better(one)[1],
                                                          "tie": "True" if one.truth == "tie" else "False"}, TIED),
)  # fmt: skip
UNKNOWABLE: tuple[Shape, ...] = (
    Shape("winner of models under chosen and rejected", lambda one: {"prompt": one.prompt, "chosen": one.first, "rejected": one.second,
                                                                    "winner": ARENA[one.truth]}, SIDES, False),
    Shape("label 0 and 1 under chosen and rejected", lambda one: {"prompt": one.prompt, "chosen": one.first, "rejected": one.second,
                                                                 "label": INDEX[one.truth]}, SIDES, False),
    Shape("winner 0 and 1 of answers a and b", _two("prompt", "response_a", "response_b", "winner", INDEX), SIDES, False),
    Shape("preference 0 to 1 of outputs 1 and 2", _two("prompt", "output_1", "output_2", "preference", {"first": 0.25, "second": 0.75}), SIDES, False),
    Shape("AlpacaEval beyond its scale", _two("instruction", "output_1", "output_2", "preference", {"first": -1, "second": 3}), SIDES, False),
    Shape("no column says which is preferred", lambda one: {"prompt": one.prompt, "response_a": one.first, "response_b": one.second}, SIDES, False),
    Shape("scores in words", lambda one: {"prompt": one.prompt, "chosen": one.first, "rejected": one.second, "score_chosen": "high",
                                          "score_rejected": "low"}, SIDES, False),
    Shape("scores against their columns", lambda one: {"prompt": one.prompt, "chosen": one.first, "rejected": one.second, "score_chosen": 1,
                                                       "score_rejected": 2}, SIDES, False),
    Shape("texts of a model's chat template", lambda one: {"text_chosen": f"<s>[INST] {one.prompt} [/INST] {one.first}</s>",
          "text_rejected": f"<s>[INST] {one.prompt} [/INST] {one.second}</s>", "results": 1}, SIDES, False),
    Shape("transcripts that part before the last turn", lambda one: {
          "chosen": f"\n\nHuman: {one.prompt}\n\nAssistant: Hm.\n\nHuman: So?\n\nAssistant: {one.first}",
          "rejected": f"\n\nHuman: {one.prompt}\n\nAssistant: Hi.\n\nHuman: So?\n\nAssistant: {one.second}"}, SIDES, False),
)  # fmt: skip


def _items(truths: Sequence[Truth], rng: random.Random) -> list[Item]:
    drawn = [*truths, *rng.choices(truths, k=N - len(truths))]
    odd = ("plain words", 'a "quoted", comma', "two\nlines; and\ta tab", "3.0", "[1, 2]", "None", "été 。")
    return [
        Item(
            number,
            truth,
            f"Question {number}, {rng.choice(odd)}?",
            f"First {number}: {rng.choice(odd)}",
            f"Second {number}: {rng.choice(odd)}",
        )
        for number, truth in enumerate(drawn)
    ]


def _lines(rows: Sequence[Row]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def _table(path: Path, rows: Sequence[Row], nested: Callable[[Any], str]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter="\t" if path.suffix == ".tsv" else ",")
        writer.writerow(rows[0])
        writer.writerows(
            [
                nested(cell) if isinstance(cell, list | dict) else "" if cell is None or cell != cell else cell
                for cell in row.values()
            ]
            for row in rows
        )


def _arrow(path: Path, rows: Sequence[Row]) -> None:
    import pyarrow.feather
    import pyarrow.parquet

    table = pyarrow.Table.from_pylist(list(rows))
    if path.suffix == ".parquet":
        pyarrow.parquet.write_table(table, path)
    else:
        pyarrow.feather.write_feather(table, str(path), compression="uncompressed")


def _frame(_: Path, rows: Sequence[Row]) -> Any:
    import pandas

    return pandas.DataFrame(list(rows))


def _dataset(_: Path, rows: Sequence[Row]) -> Any:
    from datasets import Dataset

    return Dataset.from_list(list(rows))


def _saved(path: Path, rows: Sequence[Row]) -> None:
    _dataset(path, rows).save_to_disk(str(path))


FORMATS: Mapping[str, tuple[str, Callable[[Path, Sequence[Row]], Any]]] = {
    "JSON lines": ("rows.jsonl", lambda path, rows: path.write_text(_lines(rows), "utf-8")),
    "JSON": ("rows.json", lambda path, rows: path.write_text(json.dumps(rows), "utf-8")),
    "JSON lines, gzip": ("rows.jsonl.gz", lambda path, rows: path.write_bytes(gzip.compress(_lines(rows).encode()))),
    "CSV": ("rows.csv", lambda path, rows: _table(path, rows, json.dumps)),
    "CSV, lists as Python prints them": ("python.csv", lambda path, rows: _table(path, rows, repr)),
    "TSV": ("rows.tsv", lambda path, rows: _table(path, rows, json.dumps)),
    "parquet": ("rows.parquet", _arrow),
    "arrow": ("rows.arrow", _arrow),
    "saved dataset": ("saved", _saved),
    "pandas frame": ("", _frame),
    "datasets.Dataset": ("", _dataset),
}


def outcome(shape: Shape, form: str, rows: Sequence[Row], items: Sequence[Item], folder: Path) -> tuple[str, str]:
    """right, refused or wrong; and why."""
    name, write = FORMATS[form]
    path = folder / (name or "memory")
    in_memory = write(path, rows)
    try:
        found = clean_pairs(load_rows(str(path)) if name else rows_in(in_memory, "rows"), {}, name or "rows")
    except DataError as error:
        return "refused", str(error).splitlines()[0]
    pairs = Counter(
        (prompt_text(pair.prompt).strip(), pair.chosen.strip(), pair.rejected.strip()) for pair in found.pairs
    )
    if not shape.knowable:
        return ("wrong", f"{len(found.pairs)} pairs") if pairs else ("refused", str(found.exclusions))
    wanted = Counter((one.prompt, *_better(one)) for one in items if one.truth in SIDES)
    left_out = len(items) - sum(wanted.values())
    if pairs == wanted and found.exclusions.dropped == left_out:
        return "right", ""
    return (
        "wrong",
        f"{sum((pairs - wanted).values())} pairs that are none, {sum((wanted - pairs).values())} lost; {found.exclusions}",
    )


def main() -> int:
    """Every shape in every format."""
    rng = random.Random(0)
    table: dict[str, dict[str, str]] = {}
    problems: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        for place, shape in enumerate((*PUBLISHED, *UNKNOWABLE)):
            items = _items(shape.truths, rng)
            written = [shape.write(one) for one in items]
            rows = [row for each in written for row in (each if isinstance(each, list) else [each])]
            table[shape.name] = {}
            for form in FORMATS:
                own = Path(folder) / f"{place}-{form}"
                own.mkdir()
                verdict, why = outcome(shape, form, rows, items, own)
                table[shape.name][form] = verdict
                if verdict == "wrong" or (verdict == "refused" and shape.knowable):
                    problems[f"{shape.name}, {form}"] = f"{verdict}: {why}"
    known = Counter(verdict for shape in PUBLISHED for verdict in table[shape.name].values())
    unknown = Counter(verdict for shape in UNKNOWABLE for verdict in table[shape.name].values())
    n_known, n_unknown = len(PUBLISHED) * len(FORMATS), len(UNKNOWABLE) * len(FORMATS)
    checks = [
        Check(
            "no table is read wrongly",
            f"{known['wrong'] + unknown['wrong']} of {n_known + n_unknown}",
            not known["wrong"] + unknown["wrong"],
        ),
        Check(
            "every published shape is read rightly in every format",
            f"{known['right']} of {n_known}",
            known["right"] == n_known,
        ),
        Check(
            "every unknowable table gives no pair",
            f"{unknown['refused']} of {n_unknown}",
            unknown["refused"] == n_unknown,
        ),
    ]
    claim = "published shapes of preference data give the same pairs and counts in every file format, and nothing is read wrongly"
    return finish("formats", claim, checks, {"outcomes": table, "problems": problems, "rows_a_table": N})


if __name__ == "__main__":
    sys.exit(main())
