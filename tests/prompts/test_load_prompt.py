"""Prompt files: shipped and of ones own, their mistakes, and how they are filled."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pydantic import AfterValidator

from cda.errors import RecipeError
from cda.prompts import (
    GradePrompt,
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
from cda.scorers.judge import UnreadError, stated

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


GRADE = "system: Grade.\nuser: '{user_message} {answer}'\n"


def mistakes(tmp_path: Path, content: str, kind: type[JudgePrompt] | type[GradePrompt] = JudgePrompt) -> str:
    path = tmp_path / "mine.yaml"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(RecipeError) as caught:
        load_prompt(str(path), kind)
    (problem,) = caught.value.problems
    assert problem.startswith(f"{path}: ") and "\n" not in problem
    return problem.removeprefix(f"{path}: ")


def test_every_shipped_form_has_both_sides_and_says_itself_what_to_answer() -> None:
    judges = [load_prompt(name, JudgePrompt) for name in shipped_prompts(JudgePrompt)]
    own = [judge for judge in judges if judge.verdict is not None]
    assert len(own) == 5
    for judge in own:
        assert judge.verdict is not None
        values = judge.verdict.values
        assert sum(values.values()) == pytest.approx(0) and max(values.values()) == 1
        assert "{markers}" in judge.system
    arena = load_prompt("arena-hard", JudgePrompt).verdict
    assert arena is not None and arena.values["a>b"] == pytest.approx(arena.values["a>>b"] / 3)
    scales = {name: load_prompt(name, GradePrompt).grade for name in shipped_prompts(GradePrompt)}
    assert {name: (own.lowest, own.highest) for name, own in scales.items()} == {
        "ours": (1, 10), "mt-bench": (1, 10), "prometheus": (1, 5),
    }  # fmt: skip


def read(pattern: str, answer: str) -> str | None:
    try:
        return stated(answer, pattern, ["q", "a text"], "before", "p")
    except UnreadError:
        return None


@pytest.mark.parametrize(
    ("name", "answer", "verdict"),
    [
        ("mt-bench", "[[ b ]]", "b"),
        ("skywork-critic", "[[ B ]]", "B"),
        ("arena-hard", "[[A >> B]]", "A >> B"),
        ("rm-r1", "<answer> [[ A ]] </answer>", "A"),
        *(
            ("prometheus", f"Fine.\n{answer}", "B")
            for answer in ("**[RESULT]** B", "[RESULT] (B)", "[RESULT] Response B")
        ),
        ("prometheus", "[RESULT] B is worse", None),
    ],
)
def test_shipped_verdicts_are_read_as_judges_write_them(name: str, answer: str, verdict: str | None) -> None:
    form = load_prompt(name, JudgePrompt).verdict
    assert form is not None and read(form.pattern, answer) == verdict


@pytest.mark.parametrize(
    ("name", "answer", "grade"),
    [
        *(("ours", f"Grade: {words}", "7") for words in ("7/10", "7 out of 10", "**7** / 10.")),
        *(("ours", answer, "7") for answer in ("**Grade:** 7", "Grade：7", "# Grade: 7 👍")),
        *(("ours", answer, "7") for answer in ("Helpfulness grade: 9\nGrade: 7", "It is fine. Overall grade: 7")),
        ("ours", "Grade: 7\nHelpfulness grade: 9", None),
        ("ours", "Grade: 7.5", "7.5"),
        *(("ours", f"Grade: {words}", None) for words in ("7/5", "7-8", "10/100", "7,5", "-7", "7 of 20")),
        *(("mt-bench", words, "7") for words in ("[[7/10]]", "[[7]]/10", "Rating: [[ 7 ]]")),
        *(("mt-bench", words, None) for words in ("[[7/100]]", "[[7]]/100", "[7]")),
        *(("prometheus", f"[RESULT] {words}", "4") for words in ("(4)", "Score 4", "4/5", "4 out of 5", "**4**")),
        *(("prometheus", f"[RESULT] {words}", None) for words in ("4/50", "4 out of 10", "2 3", "4-5")),
    ],
)
def test_shipped_grades_are_read_as_judges_write_them(name: str, answer: str, grade: str | None) -> None:
    assert read(load_prompt(name, GradePrompt).grade.pattern, answer) == grade


def test_texts_lists_and_strengths_are_one_declaration(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(
        JUDGE + "verdict: {pattern: '(\\d)', first: {1: 1, 2: 0.5}, second: [5], tie: 3}\n", encoding="utf-8"
    )
    form = load_prompt(str(path), JudgePrompt).verdict
    assert form is not None and form.values == {"1": 1.0, "2": 0.5, "5": -1.0, "3": 0.0}
    assert form.one_token is None


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ("{pattern: '[[A]', first: A, second: B}", "verdict.pattern: not a regular expression"),
        ("{pattern: '[AB]', first: A, second: B}", "verdict.pattern: 0 groups in round brackets; one is needed"),
        ("{pattern: '(A)|(B)', first: A, second: B}", "verdict.pattern: 2 groups"),
        ("{pattern: '([AB]*)', first: A, second: B}", "verdict.pattern: finds something in an empty answer"),
        ("{pattern: '([AB])', first: A}", "verdict.second: missing"),
        ("{pattern: '([AB])', first: A, second: a}", "'a' stands for two verdicts"),
        ("{pattern: '([AB])', first: [[A]], second: B}", "verdict.first: a verdict is a text, in quotes if YAML"),
        ("{pattern: '([AB])', first: {A: 2}, second: B}", "verdict.first.A: input should be less than or equal to 1"),
        ("{pattern: '([AB])', first: A, second: B, ties: C}", "verdict.ties: unknown key. Did you mean 'tie'?"),
    ],
)
def test_verdicts_that_are_refused(tmp_path: Path, form: str, words: str) -> None:
    assert words in mistakes(tmp_path, f"{JUDGE}verdict: {form}\n")


def test_the_forms_that_the_documents_show_are_read(tmp_path: Path) -> None:
    readme = (Path(__file__).parents[2] / "cda" / "prompts" / "README.md").read_text(encoding="utf-8")
    _, verdict, grade = re.findall(r"^```yaml\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)
    (tmp_path / "judge.yaml").write_text(JUDGE + verdict, encoding="utf-8")
    (tmp_path / "grade.yaml").write_text(grade, encoding="utf-8")
    judge = load_prompt(str(tmp_path / "judge.yaml"), JudgePrompt).verdict
    assert judge is not None and judge.values["b>a"] == -0.33
    assert load_prompt(str(tmp_path / "grade.yaml"), GradePrompt).grade.highest == 5


def test_one_form_alone(tmp_path: Path) -> None:
    verdict = "verdict: {pattern: '([AB])', first: A, second: B}\n"
    assert "{form} asks for our own form" in mistakes(tmp_path, JUDGE.replace("Judge.", "'{form}'") + verdict)
    assert "criteria are asked for in our own form" in mistakes(tmp_path, f"{JUDGE}{verdict}criteria: [tone]\n")


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ("{pattern: '(\\d)', lowest: 5, highest: 1}", "grade: lowest (5) is not below highest (1)"),
        ("{pattern: '(\\d)', lowest: 1}", "grade.highest: missing"),
        ("{pattern: '(\\d', lowest: 1, highest: 5}", "grade.pattern: not a regular expression"),
    ],
)
def test_grades_that_are_refused(tmp_path: Path, form: str, words: str) -> None:
    assert words in mistakes(tmp_path, f"{GRADE}grade: {form}\n", GradePrompt)


@pytest.mark.parametrize(
    ("target", "settings", "words", "remedy"),
    [
        ("judge:x", ["score.judge.prompt=mt-bench", "score.judge.reasons=after"], "mt-bench states the form of its verdict", ["score.judge.prompt=mt-bench"]),
        ("judge:x", ["score.judge.prompt=rm-r1", "score.judge.criteria=tone"], "criteria are asked for in ours", ["score.judge.prompt=rm-r1"]),
        ("judge:x", ["score.judge.prompt=arena-hard", "score.judge.by_token=true"], "not one character for each side", ["score.judge.prompt=mt-bench", "score.judge.by_token=true"]),
        ("grade:x", ["llm.model=y"], "the grades are x's; name another as grade:NAME", []),
        ("grade:x,y", [], "cda compare grade:x grade:y", None),
        ("grade:", [], "names no model after the colon", None),
        ("grade:x", ["score.grade.prompt=mtbench"], "Did you mean 'mt-bench'?", ["score.grade.prompt=mt-bench"]),
    ],
)  # fmt: skip
def test_settings_that_do_not_fit_the_form(
    target: str, settings: list[str], words: str, remedy: list[str] | None
) -> None:
    with pytest.raises(RecipeError) as caught:
        load_model_audit(target, {}, settings)
    assert any(words in problem for problem in caught.value.problems), caught.value.problems
    if remedy is not None:
        assert load_model_audit(target, {}, remedy).recipe.model.name_or_path == target


def test_long_scales_are_read_as_written(tmp_path: Path) -> None:
    path = tmp_path / "percent.yaml"
    path.write_text(GRADE + "grade: {pattern: '(\\d+)%', lowest: 0, highest: 100}\n", encoding="utf-8")
    prompt = f"score.grade.prompt={path}"
    with pytest.raises(RecipeError, match="0 to 100, are not among the few tokens"):
        load_model_audit("grade:x", {}, [prompt, "score.grade.by_token=true"])
    assert load_model_audit("grade:x", {}, [prompt]).prompts.grade.grade.highest == 100
