"""Prompt files: shipped and of ones own, their mistakes, and how they are filled."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pydantic import AfterValidator

from cda.errors import RecipeError
from cda.prompts import (
    JudgePrompt,
    LabelPair,
    LabelPrompt,
    LabelSingle,
    RewritePrompt,
    check_places,
    filled,
    load_prompt,
    ours,
    places,
    shipped_prompts,
)
from cda.recipe.load import load_model_audit, load_recipe

KINDS = (LabelPrompt, RewritePrompt, JudgePrompt)
JUDGE = "system: Judge.\nuser: '{user_message} {answer_1} {answer_2}'\n"


def told(*overrides: str) -> list[str]:
    with pytest.raises(RecipeError) as caught:
        load_recipe("jargon", overrides)
    return [problem.partition(": ")[2] for problem in caught.value.problems]


def test_each_kind_ships_ours_and_the_paper_s() -> None:
    assert [shipped_prompts(kind) for kind in KINDS[:2]] == [["ours", "paper"]] * 2
    assert {"ours", "paper", "style-blind"} <= {*shipped_prompts(JudgePrompt)}
    assert "do not let style decide" in load_prompt("style-blind", JudgePrompt).system
    judge = load_prompt("paper", JudgePrompt)
    assert (judge.reasons, judge.orders) == ("after", "one")
    assert (ours().judge.reasons, ours().judge.orders) == ("before", "both")
    assert (load_prompt("paper", LabelPrompt).reasons, ours().label.reasons) == ("none", "before")


def test_a_recipe_holds_what_it_names_and_ours_otherwise(tmp_path: Path) -> None:
    assert load_recipe("jargon").prompts == ours()
    (tmp_path / "mine.yaml").write_text(JUDGE + "reasons: none\n", encoding="utf-8")
    (tmp_path / "recipe.yaml").write_text(
        "biases: jargon\nmodel: embedded\ndata: embedded\nscore: {judge: {prompt: mine.yaml}}\n", encoding="utf-8"
    )
    prompts = load_recipe(str(tmp_path / "recipe.yaml")).prompts  # found beside the recipe
    assert (prompts.judge.system, prompts.judge.reasons, prompts.judge.orders) == ("Judge.", "none", "both")
    assert prompts.label == ours().label


def test_the_recipe_s_word_on_reasons_and_orders_goes_before_the_prompt_s() -> None:
    overrides = ["score.judge.prompt=paper", "score.judge.reasons=none", "score.judge.orders=both"]
    judge = load_model_audit("judge:x", {}, overrides).prompts.judge
    assert (judge.reasons, judge.orders) == ("none", "both")
    assert judge.system == load_prompt("paper", JudgePrompt).system


def test_criteria_of_a_prompt_file_stand_unless_the_recipe_has_its_own(tmp_path: Path) -> None:
    (tmp_path / "rubric.yaml").write_text(
        JUDGE + "criteria:\n  - accuracy\n  - {name: tone, question: 'Which is friendlier?'}\n", encoding="utf-8"
    )
    prompt = f"score.judge.prompt={tmp_path / 'rubric.yaml'}"

    def asked(*overrides: str) -> list[tuple[str, str]]:
        judge = load_model_audit("judge:x", {}, [prompt, *overrides]).prompts.judge
        return [(criterion.name, criterion.asked) for criterion in judge.criteria]

    assert asked() == [("accuracy", "Which answer is better in accuracy?"), ("tone", "Which is friendlier?")]
    assert asked("score.judge.criteria=depth") == [("depth", "Which answer is better in depth?")]
    assert asked("score.judge.criteria=[]") == []


@pytest.mark.parametrize(
    ("criteria", "words"),
    [
        ("[{nam: x}]", "score.judge.criteria.0.nam: unknown key. Did you mean 'name'? Known: name, question"),
        ("[{question: Why}]", "score.judge.criteria.0.name: missing"),
        ("['what? why']", "score.judge.criteria.0.name: a name is made of letters, digits, spaces and hyphens, 40 at most"),
        ("[{name: a, question: ''}]", "score.judge.criteria.0.question: a question is one line of text"),
        ("[Overall]", "'overall' is the verdict that is asked for in any case"),
        ("[a b, A-B]", "two criteria are called 'a b'"),
        ("[a, 3]", "a criterion is a name, or a mapping of name and question; 3 is neither"),
        (f"[{', '.join(f'c{row}' for row in range(13))}]", "13 criteria; 12 at most"),
    ],
)  # fmt: skip
def test_criteria_that_are_refused(criteria: str, words: str) -> None:
    with pytest.raises(RecipeError) as caught:
        load_model_audit("judge:x", {}, [f"score.judge.criteria={criteria}"])
    assert words in str(caught.value)


def test_every_mistake_in_every_prompt_is_told_at_once_beside_the_recipe_s_own(tmp_path: Path) -> None:
    (tmp_path / "r.yaml").write_text("system: 'As {bias}.'\nuser: '{respons}'\nstyle: x\n", encoding="utf-8")
    (tmp_path / "j.yaml").write_text(JUDGE.replace("Judge.", "'{answer_1}'") + "orders: two\n", encoding="utf-8")
    found = told(
        f"rewrite.prompt={tmp_path / 'r.yaml'}",
        f"score.judge.prompt={tmp_path / 'j.yaml'}",
        "label.prompt=papr",
        "label.bye=llm",
    )
    for start, words in (
        ("label.prompt: prompt 'papr' is unknown. Did you mean 'paper'? Shipped: ours, paper; or", ""),
        (
            f"rewrite.prompt: {tmp_path / 'r.yaml'}: user: needs {{response}}, {{instruction}}; unknown placeholder",
            "'response'",
        ),
        (f"rewrite.prompt: {tmp_path / 'r.yaml'}: style: unknown key", "Known: system, user"),
        (f"score.judge.prompt: {tmp_path / 'j.yaml'}: system: unknown placeholder {{answer_1}}", "{markers}, {form}"),
        (f"score.judge.prompt: {tmp_path / 'j.yaml'}: orders: input should be 'both' or 'one', found 'two'", ""),
        ("label.bye: unknown key", "'by'"),
    ):
        assert any(one.startswith(start) and words in one for one in found), (start, found)
    assert len(found) == 6


def test_every_field_and_placeholder_is_explained() -> None:
    readme = (Path(__file__).parents[2] / "cda" / "prompts" / "README.md").read_text(encoding="utf-8")
    cells = [[one.strip() for one in line.strip("|").split("|")] for line in readme.splitlines()]
    rows = {f"{row[0]} of {row[1]}": " ".join(row[2:]) for row in cells if len(row) == 4}
    for kind, of, fields in (
        (LabelPair, "label", {"system": "`pair.system`, `single.system`", "user": "`pair.user`"}),
        (LabelSingle, "label", {"user": "`single.user`"}),
        (RewritePrompt, "rewrite", {"system": "`system`", "user": "`user`"}),
        (JudgePrompt, "judge", {"system": "`system`", "user": "`user`"}),
    ):
        for field, name in fields.items():
            check = next(one for one in kind.model_fields[field].metadata if isinstance(one, AfterValidator)).func
            known = check.keywords["known"]  # type: ignore[attr-defined]
            assert sorted(re.findall(r"`\{(\w+)\}`", rows[f"{name} of {of}"])) == sorted(known), (name, of)
    assert {"`reasons`", "`orders`", "`pair.user`", "`single.user`"} <= {one.partition(" of ")[0] for one in rows}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "no such file"),
        ("", "pair: missing; it has no default"),
        ("- a\n", "expected `key: value` lines"),
        ("pair: {system: a, user: '{response_1}'}\nsingle: {system: a, user: b}\n", "pair.user: needs {response_2}, {questions}"),
        ("pair: {system: '', user: b}\n", "pair.system: holds no text"),
        ("pair: 3\n", "pair: input should be a valid dictionary"),
    ],
)  # fmt: skip
def test_a_file_that_is_none_is_named_with_what_it_lacks(tmp_path: Path, content: str | None, words: str) -> None:
    path = tmp_path / "label.yaml"
    if content is not None:
        path.write_text(content, encoding="utf-8")
    with pytest.raises(RecipeError) as caught:
        load_prompt(str(path), LabelPrompt)
    assert words in str(caught.value) and str(path) in str(caught.value)


def test_settings_that_do_not_go_together(tmp_path: Path) -> None:
    both = told("score.judge.by_token=true", "score.judge.reasons=after")
    assert both == ["score.judge.reasons=after: a verdict of one token (score.judge.by_token) has no reasons; leave one of them out"]  # fmt: skip
    (tmp_path / "r.yaml").write_text("system: a\nuser: '{response} {instruction}'\n", encoding="utf-8")
    assert load_recipe("jargon", [f"rewrite.prompt={tmp_path / 'r.yaml'}"]).prompts.rewrite.system == "a"
    with pytest.raises(RecipeError, match=r"user: needs \{length\} for 'length'"):
        load_recipe("length", [f"rewrite.prompt={tmp_path / 'r.yaml'}"])
    (tmp_path / "l.yaml").write_text(
        "pair: {system: a, user: '{response_1} {response_2} {questions}'}\nsingle: {system: a, user: '{response} {questions}'}\n",
        encoding="utf-8",
    )
    label = f"label.prompt={tmp_path / 'l.yaml'}"
    assert load_recipe("sycophancy", [label]).prompts.label.pair.system == "a"
    for field in ("pair.user", "single.user"):
        assert any(
            f"{field}: needs {{user_message}} for 'jargon', which asks a question about it" in one
            for one in told(label)
        )


@pytest.mark.parametrize(
    ("text", "values", "expected"),
    [
        ("{response}\n\n{questions}", {"response": "Say {questions} and {{x}}.\n\n{keep}", "questions": "Q?"},
         "Say {questions} and {{x}}.\n\n{keep}\n\nQ?"),  # a value's own placeholder is text
        ('{{response}} {"a": 1} { x } {}', {}, '{response} {"a": 1} { x } {}'),
        ("{message}\n\n{response}\n\nMessage: {message} {response}\n\n{length}",
         {"message": "", "response": "r", "length": ""}, "r\n\nMessage:  r"),
    ],
)  # fmt: skip
def test_placeholders_are_filled_once_and_empty_paragraphs_left_out(
    text: str, values: dict[str, str], expected: str
) -> None:
    assert filled(text, values) == expected
    assert places("{a} {{b}} {c} { d }") == ["a", "c"] and check_places(" {a}\n", ["a"], ["a"]) == "{a}"
