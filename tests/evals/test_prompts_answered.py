"""The eval of the prompts: the same questions in every run, sheets that tell little, refused answers, and known numbers."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cda.biases import load_bias
from cda.embedded.texts import EMBEDDED_BIASES, audit_contrasts, authored_pairs
from cda.errors import DataError
from cda.files.jsonl import read_jsonl, write_jsonl
from cda.records import Contrast, prompt_text

EVALS = Path(__file__).parents[2] / "evals"
KEPT = EVALS / "answers" / "prompts.jsonl"
VAGUE, DEFINITE = "In some ways it depends on various factors.", "That is definite."
Json = dict[str, Any]


def block(row: Json, name: str) -> str:
    """Material of a question by the name of its marker."""
    user: str = row["messages"][1]["content"]
    return user.split(f"<<<{name}>>>\n")[1].split("\n<<<END>>>")[0]


def authors_answer(row: Json) -> str:
    """The reply of somebody who knows all authored texts, to any question."""
    user = row["messages"][1]["content"]
    if row["kind"] == "judgement":
        sound = {one.pair.chosen for one in authored_pairs("quality")}
        return f"It is right.\nVerdict: {1 if block(row, 'ANSWER 1') in sound else 2}"
    if row["kind"] == "rewrite":
        contrast = _contrast(user, block(row, "USER MESSAGE"), block(row, "RESPONSE"))
        adds = block(row, "RESPONSE") == contrast.base
        if contrast.bias == "vagueness":  # the authored sides share too few words for an edit of one another
            return f"{VAGUE} {block(row, 'RESPONSE')}" if adds else f"{block(row, 'RESPONSE')} {DEFINITE}"
        return contrast.perturbed if adds else contrast.base
    if row["kind"] == "proposal":
        return json.dumps({"attributes": [f"Uses many long words, number {letter}" for letter in "abcde"]})
    if row["kind"] == "grouping":
        return json.dumps({"groups": _known_groups(block(row, "DESCRIPTIONS"))})
    names = [name for name in row["schema"]["properties"] if name != "reasoning"]
    answers = {
        name: "yes" if "specific" in name or _has_bias(block(row, _marker(name))) else "no"
        for name in names
        if name != "query"
    }
    return json.dumps({"reasoning": "So it is.", **({"query": "no"} if "query" in names else {}), **answers})


def _has_bias(text: str) -> bool:
    with_it, without = ({getattr(one, side) for one in audit_contrasts()} for side in ("perturbed", "base"))
    if text.startswith(VAGUE) or text.endswith(DEFINITE):
        return text.startswith(VAGUE)
    assert (text in with_it) != (text in without)
    return text in with_it


def _marker(name: str) -> str:
    return name.removesuffix("_specific").replace("_", " ").upper()


def _contrast(user: str, question: str, response: str) -> Contrast:
    """The one contrast that fits: a plain answer has five, of which the instruction names one by its own words."""
    for one in audit_contrasts():
        if prompt_text(one.prompt) == question and response in (one.base, one.perturbed):
            way = "remove" if response == one.perturbed else "add"
            if getattr(load_bias(one.bias).instructions, way).strip() in user:
                return one
    raise AssertionError(question)


def _known_groups(listed: str) -> list[list[int]]:
    from evals.method.known_groups import GROUPS

    number = {line.split(". ", 1)[1]: int(line.split(". ")[0]) for line in listed.splitlines()}
    (groups,) = [one for one in GROUPS if {text for group in one for text in group} == set(number)]
    return [[number[text] for text in group] for group in groups]


def answered(rows: list[Json], by: str, reply: Callable[[Json], str] = authors_answer) -> Json:
    from evals.method.prompts_answered import Answer

    return {row["id"]: Answer(row["kind"], by, reply(row)) for row in rows}


def test_every_run_asks_the_same_and_each_prompt_as_often_as_said() -> None:
    from evals.method.prompts_answered import asked, dealt

    servers = [asked({})[1] for _ in range(2)]
    assert servers[0].asked == servers[1].asked
    assert Counter(servers[0].asked.values()) == {
        "label": 100,
        "rewrite": 200,
        "judgement": 40,
        "proposal": 10,
        "grouping": 10,
    }
    rows = list(servers[0].open_questions.values())
    assert len(rows) == 350 + 10
    for kind, n_sheets in (("label", 5), ("rewrite", 10), ("judgement", 2)):
        own = [row for row in rows if row["kind"] == kind]
        sheets = dealt(own)
        assert [len(sheet) for sheet in sheets] == [20] * n_sheets
        assert sorted(row["id"] for sheet in sheets for row in sheet) == sorted(row["id"] for row in own)
        for sheet in sheets:
            assert len({block(row, "USER MESSAGE") for row in sheet}) == 20
        assert dealt(own[::-1]) == sheets
    assert all(("schema" in row) == (row["kind"] in ("label", "proposal", "grouping")) for row in rows)


def test_right_answers_pass_and_wrong_ones_are_counted() -> None:
    from evals.method.prompts_answered import asked, checks_of

    first = answered(list(asked({}, 1)[1].open_questions.values()), "writer")
    found, server = asked(first, 1)
    readings = list(server.open_questions.values())
    assert {row["kind"] for row in readings} == {"reading"} and len(readings) == 10
    checks, _ = checks_of(found, server, first)
    assert {one.threshold.split(" ")[0] for one in checks if not one.passed} >= {"every", "98%", "95%", "90%"}

    everything = first | answered(readings, "reader")
    found, server = asked(everything, 1)
    checks, numbers = checks_of(found, server, everything)
    assert [one.threshold for one in checks if not one.passed] == []
    assert numbers["attributes"] == {"usable": [5], "left out": {}}
    assert numbers["answered by"] == {"reader": 10, "writer": len(first)}
    assert numbers["labels that agree"]["jargon, add"] | {"low": 0, "high": 0} == {
        "hits": 2, "n": 2, "value": 1.0, "low": 0, "high": 0, "n_prompts": 1,
    }  # fmt: skip
    assert numbers["rewrites flipped by the reader"]["all"]["hits"] == 10

    by_writer = first | answered(readings, "writer")
    found, server = asked(by_writer, 1)
    assert [one.found for one in checks_of(found, server, by_writer)[0] if one.threshold.startswith("no rewrite")] == [
        "10 were"
    ]

    def contrary(row: Json) -> str:
        reply = authors_answer(row)
        return (
            reply.replace("yes", "#").replace("no", "yes").replace("#", "no")
            if '"no"' in reply or '"yes"' in reply
            else reply
        )

    denied = first | answered(readings, "reader", contrary)
    found, server = asked(denied, 1)
    _, numbers = checks_of(found, server, denied)
    assert numbers["rewrites flipped by the reader"]["all"]["hits"] == 0
    assert numbers["rejected, by reason"]["jargon"] == {"attribute not flipped": 2}
    assert numbers["rejected, by reason"]["length"] == {}  # its gate goes by the measure
    assert len(numbers["failures"]["rewrites not flipped by the reader"]) == 10


def test_answers_out_of_form_are_unread_and_nothing_else_is() -> None:
    from evals.method.prompts_answered import asked, checks_of

    rows = list(asked({}, 1)[1].open_questions.values())
    replies = answered(rows, "writer") | answered(
        [row for row in rows if row["kind"] == "label"], "writer", lambda _: "Hm."
    )
    found, server = asked(replies, 1)
    assert all(row.label is None for row in found.labels)
    assert [row.read for row in found.groupings] == [True] and found.judgements[0].margin == 1
    _, numbers = checks_of(found, server, replies)
    assert numbers["read"]["label"] == 0 and len(numbers["first answer not of the schema"]) == 5
    assert len(numbers["failures"]["labels unread"]) == 10
    assert {row["kind"] for row in server.open_questions.values()} == {"reading"}


def test_pairs_together_and_apart() -> None:
    from evals.method.asked_prompts import Grouped
    from evals.method.prompts_answered import pairs_of

    one = Grouped("list", (), [[0, 1], [2], [3]], [[0], [1, 2], [3]], True)
    assert pairs_of([one]) == ([False], [True, True, False, True, True])


def test_known_groups_are_lists_of_six_to_eight_with_paraphrases_and_no_wording_twice() -> None:
    from evals.method.known_groups import GROUPS

    assert len(GROUPS) == 10
    for groups in GROUPS:
        texts = [text for group in groups for text in group]
        assert 6 <= len(texts) == len(set(texts)) <= 8
        assert any(len(group) > 1 for group in groups)


def test_taken_answers_are_kept_by_question(tmp_path: Path) -> None:
    from evals.method.prompts_answered import kept_answers, take

    path = tmp_path / "kept.jsonl"
    write_jsonl(tmp_path / "questions.jsonl", [{"id": "a", "kind": "reading"}, {"id": "b", "kind": "label"}])
    (tmp_path / "answers").mkdir()
    with pytest.raises(DataError, match=r"no \.jsonl file with answers"):
        take(tmp_path, "m", path)
    write_jsonl(
        tmp_path / "answers" / "one.jsonl", [{"id": "a", "answer": "x\n"}, {"id": "b", "answer": "{}", "by": "n"}]
    )
    with pytest.raises(DataError, match="row 1: nobody is named who answered; add --by NAME"):
        take(tmp_path, None, path)
    assert take(tmp_path, "m", path) == {"reading": 1, "label": 1}
    assert [(row["id"], row["by"], row["answer"]) for row in read_jsonl(path)] == [("b", "n", "{}"), ("a", "m", "x\n")]
    assert take(tmp_path, "m", path) == {}
    assert set(kept_answers(path)) == {"a", "b"}


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ({"id": "z", "answer": "x"}, "'z' is the id of no question"),
        ({"answer": "x"}, "None is the id of no question"),
        ({"id": "b", "answer": " "}, "no answer; give the reply's text"),
        ({"id": "b", "answer": {"groups": []}}, "no answer; give the reply's text"),
        ({"id": "a", "answer": "y"}, "a is answered a second time"),
        ({"id": "b", "anwser": "y"}, "anwser: unknown"),
        ({"id": "kept", "answer": "other"}, "kept has another answer already"),
    ],
)
def test_answers_that_cannot_be_taken_are_refused_and_none_is_taken(row: Json, problem: str, tmp_path: Path) -> None:
    from evals.method.prompts_answered import take

    path = tmp_path / "kept.jsonl"
    write_jsonl(path, [{"id": "kept", "kind": "label", "by": "m", "answer": "x"}])
    write_jsonl(tmp_path / "questions.jsonl", [{"id": one, "kind": "label"} for one in ("a", "b", "kept")])
    (tmp_path / "answers").mkdir()
    write_jsonl(tmp_path / "answers" / "one.jsonl", [{"id": "a", "answer": "x"}, row])
    with pytest.raises(DataError, match=f"answers/one.jsonl: row 2: {problem}"):
        take(tmp_path, "m", path)
    assert len(list(read_jsonl(path))) == 1


def test_sheets_are_not_written_over(tmp_path: Path) -> None:
    from evals.method.prompts_answered import write_questions

    row = {"id": "a", "kind": "label", "messages": [{}, {"content": "?"}]}
    assert write_questions([row], tmp_path) == {"label": [1]}
    with pytest.raises(DataError, match="holds sheets already"):
        write_questions([row], tmp_path)


def test_a_few_kept_answers_are_read_again() -> None:
    from evals.method.prompts_answered import asked, kept_answers

    kept = kept_answers(KEPT)
    if not any(one.kind == "reading" for one in kept.values()):
        pytest.skip("evals/answers/prompts.jsonl holds no readings of the rewrites yet")
    found, server = asked(kept, 2)
    assert not server.open_questions and not server.asked_again
    assert {row.bias for row in found.labels} == set(EMBEDDED_BIASES)
    right = [row.label == row.has_bias for row in found.labels]
    assert len(right) == 20 and sum(right) >= 16
    assert len(found.rewrites) == 20 and sum(row.gate is None for row in found.rewrites) >= 16
    assert sum((row.margin or 0) > 0 for row in found.judgements) >= 1
    assert all(row.read for row in found.groupings) and all(row.attributes for row in found.proposals)
