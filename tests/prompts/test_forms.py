"""The forms of verdicts and grades that prompt files state: shipped ones, mistakes in ones own, and settings that do not fit."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cda.errors import RecipeError
from cda.prompts import GradePrompt, JudgePrompt, load_prompt, shipped_prompts
from cda.recipe.load import load_model_audit
from cda.scorers.judge import UnreadError, stated

JUDGE = "system: Judge.\nuser: '{user_message} {answer_1} {answer_2}'\n"
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
