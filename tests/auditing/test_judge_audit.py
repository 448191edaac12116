"""`cda audit judge:…` over HTTP: one judge, a panel and a rubric, their verdicts, agreement, mistakes and costs."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import Any

import pytest
from changed import stored
from replies import Answer, reply
from typer.testing import CliRunner

import cda
from cda.cli import app

N = 24
Choose = Callable[[str, str], str]


def judge_of(*choose: Choose, **by_model: Choose) -> Answer:
    """A server's answers by one judge, or by judges that are told apart by the model that is asked."""

    def answer(body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        shown = re.findall(r"<<<ANSWER \d>>>\n(.*?)\n<<<END>>>", body["messages"][1]["content"], re.S)
        verdict = (choose[0] if choose else by_model[body["model"]])(*shown)
        return reply(f"Because.\nVerdict: {verdict}")

    return answer


def by_word(first: str, second: str) -> str:
    return "1" if "good" in first else "2" if "good" in second else "tie"


def test_rate_of_a_judge_has_a_naive_effect_within_prompts(
    serve: Any, audit: Any, report: Callable[[], str], tmp_path: Path
) -> None:
    def row(prompt: int, w: int, number: int) -> dict[str, Any]:
        first, other = ("good", "bad") if w else ("bad", "good")
        texts = {
            "original": f"w{number} {first}",
            "rewrite": f"w{number} {other} w1",
            "rewrite_of_rewrite": f"w{number} {first} w1",
        }
        return {"prompt": f"w{prompt} w2", **texts, "has_attribute": w, "flipped": True}

    # Prompts 0 to 5 have both kinds, prompt 0 one more with it; 6 and 7 one kind alone. The judge likes good, but in w11.
    rows = [row(prompt, w, 10 + prompt) for prompt in range(6) for w in (1, 0)]
    rows += [row(0, 1, 30), row(6, 1, 31), row(7, 0, 32)]
    path = tmp_path / "triples.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")

    def choose(first: str, second: str) -> str:
        if first.startswith("w11 "):
            return "tie"
        if {first, second} == {"w15 good", "w15 bad"}:
            return "who knows"
        return "tie" if ("good" in first) == ("good" in second) else by_word(first, second)

    words = ("judge:local", f"llm.base_url={serve(judge_of(choose))}", "--triples", path)
    rate = audit(*words)[1]["rate"]["jargon"]
    effects = {(one["estimand"], one["estimator"]): one["estimate"] for one in rate["measured"]["before"]["effects"]}
    naive = effects["ATE", "naive"]
    # Five pairs with a verdict of one answer each way: four times 1, once a tie.
    assert (naive["value"], naive["n"], naive["n_prompts"]) == (0.8, 5, 5)
    assert rate["naive_unread"] == 1 and rate["n"] == 15
    text = report()
    assert (
        "its naive effect is its preference for an answer that has the bias over another answer to the same prompt"
        in text
    )
    assert "| comparing originals of jargon, naive | no readable verdict of the judge on a comparison | 1 | 6 |" in text
    path.write_text("\n".join(map(json.dumps, rows[::2])), encoding="utf-8")
    without = audit(*words)[1]["rate"]["jargon"]["measured"]["before"]["not_estimated"]
    (reason,) = {one["reason"] for one in without if one["estimator"] == "naive"}
    assert "a judge compares answers to one prompt" in reason


def test_a_panel_of_judges(serve: Any, audit: Any, report: Callable[[], str], votes: Path) -> None:
    def seldom(first: str, second: str) -> str:
        return "who knows" if "w3" in first + second else by_word(second, first)  # for base, where it answers

    url = serve(judge_of(one=by_word, two=lambda *_: "tie", three=seldom))
    said, found = audit("judge:one,two,three", f"llm.base_url={url}", "--votes", votes)
    unread = sum("w3" in f"w{row % 7} w{row % 11} w{row % 5}".split() for row in range(N))
    assert 0 < unread < N // 2
    panel = found["panel"]["jargon"]
    skews = {
        name: (one["skew"]["value"], one["skew"]["n"], one["ties"], one["unread"])
        for name, one in panel["judges"].items()
    }
    assert skews == {"one": (1.0, N, 0, 0), "two": (0.5, N, N, 0), "three": (0.0, N - unread, 0, unread)}
    # Where all answer 1, 0 and −1 make a tie; where the third does not, 1 and 0 are for the biased side.
    expected = (0.5 * (N - unread) + unread) / N
    assert panel["panel"]["skew"]["value"] == pytest.approx(expected) == found["skew"]["jargon"]["before"]["value"]
    assert (panel["mean"]["skew"]["value"], panel["mean"]["skew"]["n"]) == (0.5, N - unread)
    people = found["votes"]["jargon"]
    assert panel["judges"]["one"]["miscalibration"]["value"] == pytest.approx(1 - 8 / 22)
    assert panel["judges"]["two"]["miscalibration"]["value"] == 0.5
    assert panel["panel"]["miscalibration"]["value"] == people["measured"]["miscalibration"]["before"]["value"]
    model = found["model"]
    assert (model["comparisons"], model["unread"], model["partly_judged"]) == (N, 0, unread)
    assert model["judges"]["two"]["comparisons"] == N
    assert "quality" in said and "not measured" in said
    text = report()
    assert f"of {N} comparisons 0 without a verdict of any judge" in text
    assert "jargon, mean of the judges" in text and "Each judge and each criterion by itself, and the panel" in text
    assert text.count("mean preference of the judges who gave a verdict") == 1


@pytest.mark.parametrize(("words", "message"), [
    (("judge:one,two,one",), "judge:one,two,one: names one twice"),
    (("judge:one,,two",), "judge:one,,two: has a comma without a judge"),
    (("judge:one,two", "llm.model=three"), "the judges are one, two; name one of them"),
    (("judge:",), "names no model after the colon"),
])  # fmt: skip
def test_names_of_judges_that_are_refused(words: tuple[str, ...], message: str, audit: Any) -> None:
    assert message in audit(*words, "llm.base_url=http://127.0.0.1:9/v1", fails=True)[0]


def test_a_judge_that_follows_the_place_is_shown_as_such(serve: Any, audit: Any, report: Callable[[], str]) -> None:
    said, found = audit("judge:local", f"llm.base_url={serve(judge_of(lambda *_: '1'))}")
    skew = found["skew"]["jargon"]
    assert (skew["before"]["value"], skew["ties"]["before"]) == (0.5, N)  # a judge's tie is half a vote
    direct = found["effects"]["jargon"]["before"]["direct"]
    assert "nothing varies" in direct["reason"] and "estimate" not in direct  # no error can be given
    assert direct["value"] == 0 and found["n_tests"] == 0
    assert "≡ all ties" in said
    assert "position (by place) 100%" in said
    assert "24 followed the place" in " ".join(report().split()) and "score.judge.prompt=mt-bench" in said
    assert "check" not in said and "the two orders cancel in every pair" in said
    assert f"jargon {N} of {N}." in report()
    text = report()
    assert (
        f"Both sides have the same score in all {N} (12 prompts) pairs, as the place decides and both orders are averaged"
        in text
        and "all 0 tests" not in text
    )


def test_a_judge_is_asked_again_and_agrees_with_itself_or_not(
    serve: Any, audit: Any, report: Callable[[], str], tmp_path: Path
) -> None:
    times, order = Counter[str](), {"1": "2", "2": "1"}
    lock = Lock()

    def answer(body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        question = body["messages"][1]["content"]
        with lock:
            times[question] += 1
            nth = times[question]
        shown = re.findall(r"<<<ANSWER \d>>>\n(.*?)\n<<<END>>>", question, re.S)
        said = by_word(*shown)
        # A third of the answers about texts with w3 are the other way round, in both orders.
        return reply(f"Verdict: {order[said] if 'w3' in ' '.join(shown).split() and nth % 3 == 0 else said}")

    words = ("judge:local", f"llm.base_url={serve(answer)}", "score.judge.repeats=3")
    plan, _ = audit(*words, "--dry-run")
    assert f"judging, each in both orders, 3 times each: about {6 * N} calls" in plan and not times
    said, found = audit(*words)
    model, changing = found["model"], sum("w3" in f"w{row % 7} w{row % 11} w{row % 5}".split() for row in range(N))
    assert set(times.values()) == {3} and len(times) == 2 * N and 0 < changing < N
    stability = model["stability"]
    assert (model["repeats"], stability["n"], stability["n_prompts"]) == (3, N, 12)
    assert stability["value"] == pytest.approx(1 - changing / N)
    assert found["skew"]["jargon"]["before"]["value"] == 1 and model["unread_share"]["value"] == 0
    probability = stored(found, "probability", "model", bias="jargon")["value"]
    assert probability == pytest.approx(
        1 - changing / N / 3
    )  # a preference of 1/3 in place of 1 where a third says otherwise
    shown = f"{100 * (1 - changing / N):.0f}% ["
    assert (
        f"stability (asked again) {shown}" in said
        and f"Asked 3 times, it agrees with itself in {shown}" in report().replace("\\", "")
    )
    assert "| judge | decided by place | unread | same when asked again |" in report()
    assert "3 times each" in said and "stability (agreement with itself)" in report()
    audit(*words)
    assert sum(times.values()) == 6 * N  # each repeat is kept by itself
    again = cda.load(tmp_path / "out" / "audit" / "audit.json")
    assert [each.split(": ")[1][:5] for each in again.failures("stability<0.99")] == ["found"]
    audit(*words[:2], "score.judge.repeats=4")
    assert set(times.values()) == {4}
    _, once = audit(*words[:2])
    assert sum(times.values()) == 8 * N and not {"stability", "repeats"} & set(once["model"])
    assert "asked again" not in report()


@pytest.mark.parametrize(("words", "message"), [
    (("score.judge.repeats=0",), "score.judge.repeats: input should be greater than or equal to 1, found 0"),
    (("score.judge.repeats=-2",), "score.judge.repeats: input should be greater than or equal to 1, found -2"),
    (("--fail-if", "stability<0.9"), "--fail-if stability<0.9: no comparison was asked again: score.judge.repeats=3 asks"),
])  # fmt: skip
def test_repeats_that_cannot_be(words: tuple[str, ...], message: str, audit: Any) -> None:
    said, _ = audit("judge:m", "llm.base_url=http://127.0.0.1:9/v1", *words, fails=True)
    assert message in said and said.count("error:") == 1


def test_a_judge_that_seldom_answers_says_nothing_of_the_others(serve: Any, audit: Any) -> None:
    url = serve(judge_of(lambda first, second: "1" if " w9 " in first + second else "who knows"))
    said, _ = audit("judge:local", f"llm.base_url={url}", fails=True)
    assert "on 22 of 24 comparisons, more than score.judge.max_unread=0.5 allows" in said
    _, found = audit("judge:local", f"llm.base_url={url}", "score.judge.max_unread=0.95")
    assert found["skew"]["jargon"]["unread"] == 22


def test_unread_verdicts_name_the_cache_and_what_asks_again(serve: Any, audit: Any, tmp_path: Path) -> None:
    mended = False
    words = (
        "judge:m",
        f"llm.base_url={serve(lambda _: reply('Verdict: 1') if mended else reply('Verdi', finish_reason='length'))}",
    )
    said, _ = audit(*words, fails=True)
    assert f"{2 * N} × cut off at llm.max_tokens" in said and "llm.ask_failures_again=true" in said
    assert f"are kept in {tmp_path / 'llm-cache.sqlite'}" in said
    mended = True
    audit(*words, fails=True)  # a failure that lasts, until it is asked again
    _, found = audit(*words, "llm.ask_failures_again=true")
    assert (found["model"]["comparisons"], found["model"]["unread"], found["model"]["orders"]) == (N, 0, "both")


@pytest.mark.parametrize("kind", ["judge", "model"])
def test_texts_with_marks_of_chat_templates_are_counted_in_the_report(
    serve: Any, audit: Any, report: Callable[[], str], llama: Path, tmp_path: Path, kind: str
) -> None:
    rows = [
        {"prompt": f"w{row} w1", "perturbed": f"w{row % 7} good <|end|>", "base": f"w{row % 5} bad w3"}
        for row in range(12)
    ]
    pairs = tmp_path / "marked.jsonl"
    pairs.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    url = f"llm.base_url={serve(lambda _: reply('Verdict: 1'))}"
    words = ("judge:m", url) if kind == "judge" else (llama, "model.precision=fp32")
    note = "12 of 24 texts hold marks of chat templates"
    assert note in audit(*words, "--contrasts", pairs)[0] and note in report()
    assert note in (tmp_path / "out" / "report" / "report.html").read_text(encoding="utf-8")


RUBRIC = "score.judge.criteria=[accuracy, {name: wording, question: Which is worded better}]"


def shown(body: dict[str, Any]) -> list[str]:
    return re.findall(r"<<<ANSWER \d>>>\n(.*?)\n<<<END>>>", body["messages"][1]["content"], re.S)


def for_good(first: str) -> str:
    return "1" if "good" in first else "2"


def for_bad(first: str) -> str:
    return "1" if "bad" in first else "2"


def rubric_judge(body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    """Of the biased side in wording, of the other in accuracy; overall neither; nothing on wording where w3 is."""
    first, other = shown(body)
    wording = "" if "w3" in f"{first} {other}".split() else f"Verdict on wording: {for_good(first)}\n"
    return reply(f"So.\nVerdict on accuracy: {for_bad(first)}\n{wording}Verdict: tie")


def test_the_bias_is_seen_by_criterion(serve: Any, audit: Any, report: Callable[[], str], votes: Path) -> None:
    url = f"llm.base_url={serve(rubric_judge)}"
    said, found = audit("judge:local", url, RUBRIC, "--votes", votes)
    n_wordless = sum("w3" in f"w{row % 7} w{row % 11} w{row % 5}".split() for row in range(N))
    own = found["criteria"]["jargon"]
    shares = {name: (one["skew"]["value"], one["skew"]["n"], one["unread"]) for name, one in own.items()}
    assert shares == {"accuracy": (0.0, N, 0), "wording": (1.0, N - n_wordless, n_wordless)} and n_wordless
    assert {name: one["against_overall"]["value"] for name, one in own.items()} == {"accuracy": -0.5, "wording": 0.5}
    assert found["skew"]["jargon"]["before"]["value"] == 0.5
    # Every third majority is for the biased side: 8 of 22.
    assert own["accuracy"]["miscalibration"]["value"] == pytest.approx(8 / 22)
    model = found["model"]
    assert model["criteria"] == ["accuracy", "wording"] and model["comparisons"] == N
    assert f"no readable verdict on wording for {n_wordless} of {N} comparisons." in said
    assert "overall and by accuracy and wording" in said
    text = report()
    assert "| jargon, by wording | 100%" in text and "| jargon | 50%" in text
    assert text.count("50% \\[25, 75\\] | 22 (11 prompts)") >= 1  # miscalibration of the verdict overall
    assert "## By judge and criterion" in text and "A criterion whose skew is above the one overall" in text


def test_criteria_by_token_are_calls_of_their_own_and_cost_so(serve: Any, audit: Any) -> None:
    asked: list[str] = []

    def answer(body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        asked.append(body["messages"][1]["content"].splitlines()[-1])
        good = for_good(shown(body)[0]) if "accuracy" in asked[-1] else for_bad(shown(body)[0])
        top = [{"token": good, "logprob": math.log(0.75)}, {"token": "0", "logprob": math.log(0.25)}]
        return reply(good, logprobs={"content": [{"token": good, "logprob": 0.0, "top_logprobs": top}]})

    url = f"llm.base_url={serve(answer)}"
    words = ("judge:local", url, "score.judge.by_token=true", "score.judge.criteria=accuracy")
    said, found = audit(*words)
    assert f"judging, each in both orders, overall and by 1 criterion: about {4 * N} calls" in said
    assert len(asked) == 4 * N
    assert found["criteria"]["jargon"]["accuracy"]["skew"]["value"] == 1
    assert found["skew"]["jargon"]["before"]["value"] == 0


def judges(**by_model: Callable[[str], str]) -> Answer:
    def answer(body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        own = by_model[body["model"]](shown(body)[0])
        return reply(f"So.\nVerdict on accuracy: {own}\nVerdict: {own}")

    return answer


@pytest.mark.parametrize("model", ["judge:sure", "embedded"])
def test_a_rule_for_a_panel_needs_a_panel(model: str) -> None:
    done = CliRunner().invoke(app, ["audit", model, "score.judge.panel=majority", "--dry-run"])
    said = " ".join(done.output.split())
    assert done.exit_code == 2 and f"score.judge.panel=majority: {model} is no panel of judges; name several" in said


def test_two_prompts_of_one_judge_are_told_apart(serve: Any, audit: Any, report: Callable[[], str]) -> None:
    """The workflow of a mitigation: the same judge with two prompts, each named with the mark of its content."""

    def answer(body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        blind = "do not let style decide" in body["messages"][0]["content"]
        return reply(f"So.\nVerdict: {'tie' if blind else for_good(shown(body)[0])}")

    url, prompt = f"llm.base_url={serve(answer)}", "score.judge.prompt=style-blind"
    _, before = audit("judge:local", url)
    marks, skews = [before["model"]["prompt_content"]], [before["skew"]["jargon"]["before"]["value"]]
    for words in ((prompt,), ("score.judge.criteria=accuracy", prompt)):
        _, found = audit("judge:local", url, *words)
        marks.append(found["model"]["prompt_content"])
        skews.append(found["skew"]["jargon"]["before"]["value"])
        assert f"{found['model']['prompt']}, content {marks[-1][:8]}" in report()
    assert len(set(marks)) == 3 and skews == [1, 0.5, 0.5]


def test_commands_that_report_no_criteria_do_not_pay_for_them(tmp_path: Path) -> None:
    rows = tmp_path / "quality.jsonl"
    rows.write_text(json.dumps({"prompt": "q", "chosen": "a", "rejected": "b"}), encoding="utf-8")
    words = ("quality", "judge:local", rows, "llm.base_url=http://127.0.0.1:9/v1", "score.judge.by_token=true")
    done = CliRunner().invoke(app, [*map(str, words), "score.judge.criteria=accuracy"])
    assert done.exit_code == 2 and "score.judge.criteria=[] here" in " ".join(done.output.split())
