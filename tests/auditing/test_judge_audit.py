"""`cda audit judge:…`: one judge and a panel over HTTP, their verdicts, mistakes, costs and leavings."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from replies import Answer, reply

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
    assert panel["panel"]["miscalibration"]["value"] == people["miscalibration"]["before"]["value"]
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
    assert "24 followed the place" in " ".join(said.split()) and "≡ all ties" in said
    assert f"jargon {N} of {N}." in report()
    text = report()
    assert (
        f"Both sides have the same score in all {N} (12 prompts) pairs: the model does not tell them apart" in text
        and "all 0 tests" not in text
    )


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
    said, _ = audit(*words, "llm.ask_failures_again=true")
    assert f"Asked {N} comparisons in both orders; 0 unreadable" in said


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
