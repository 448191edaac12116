"""`cda audit MODEL`: a reward model without a recipe, with and without people's votes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cda.cli import app

N = 24
Report = Callable[[], str]


def written(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return path


def voted(path: Path, words: dict[str, list[str]]) -> Path:
    path.write_text(json.dumps(words), encoding="utf-8")
    return path


def double_contrasts(out: Path) -> tuple[list[dict[str, Any]], list[float]]:
    """The scored triples, and the score with the bias minus the score without it, both of rewrites."""
    rows = [json.loads(line) for line in (out / "audit" / "triples.jsonl").read_text(encoding="utf-8").splitlines()]
    signs = [1 if row["has_attribute"] else -1 for row in rows]
    return rows, [
        sign * (row["rewards_model"][2] - row["rewards_model"][1]) for sign, row in zip(signs, rows, strict=True)
    ]


def test_a_folder_with_pairs_and_votes(llama: Path, audit: Any, votes: Path, tmp_path: Path) -> None:
    words = (llama, "--votes", votes, "--triples", "embedded", "audit.rate=4")
    said, found = audit(*words)
    assert "1 of 25 items are none of the contrasts" in said
    assert re.search(r"jargon +\? unclear +\d+% \[\d+, \d+\] +36% \[", said)
    people = found["votes"]["jargon"]
    human = people["human_skew"]
    assert (human["value"], human["n"], human["n_prompts"]) == (8 / 22, 22, 11)
    assert people["left_out"] == {"split": 1, "tie": 1}
    assert people["agreement"]["n_votes"] == 3 * (N - 2) + 4
    assert people["noise_ceiling"]["reason"] == "votes on 12 prompts, and a noise ceiling needs at least 20"
    assert found["scorings"] == ["model"] and "accuracy" not in {each["measure"] for each in found["measured"]}
    assert found["effects"]["jargon"]["test"]["p_holm"] <= 1
    flips = found["rate"]["jargon"]["flips"]
    assert (flips["by"], flips["tried_with"], flips["tried_without"], flips["made"]) == ("rules", 4, 4, True)
    assert (tmp_path / "out" / "report" / "report.html").is_file()
    assert "done before, reused" in audit(*words)[0]
    assert audit(*words, "audit.ties=half")[1]["votes"]["jargon"]["human_skew"]["value"] == (8 + 1) / 24


def test_triples_alone_are_an_audit_whose_verdict_is_rates(audit: Any, report: Report, tmp_path: Path) -> None:
    """A bias file without rules or a measure, no LLM, and a small effect against it that skew alone would call unclear."""
    bias = written(tmp_path / "yes.yaml", [])
    bias.write_text(
        "name: yes-bias\ndescription: Opens with Yes.\nquestion: Does it open with Yes?\nkeep: [the rest]\n"
        "instructions: {add: Open with Yes., remove: Drop the opening Yes.}\n",
        encoding="utf-8",
    )
    (tmp_path / "own.py").write_text(
        "def score(prompts, responses):\n"
        "    noise = [(int(r.split()[-1]) * 7 + 3 * ('back' in r)) % 10 / 1000 for r in responses]\n"
        "    return [n - 0.004 * r.startswith('Yes') for n, r in zip(noise, responses)]\n",
        encoding="utf-8",
    )
    rows = [
        {"prompt": f"question {row}", "original": f"{'Yes ' * has}first {row}", "rewrite": f"{'Yes ' * (not has)}flipped {row}",
         "rewrite_of_rewrite": f"{'Yes ' * has}back {row}", "has_attribute": has, "bias": "yes-bias"}
        for row in range(60) for has in [row % 2 == 0]
    ]  # fmt: skip
    path, model = written(tmp_path / "mine.jsonl", rows), f"{tmp_path / 'own.py'}:score"
    words = ("--bias", bias, "--triples", path)
    said, found = audit(model, *words, "--contrasts", "none")
    ate = next(one for one in found["rate"]["yes-bias"]["measured"]["before"]["effects"]
               if (one["estimand"], one["estimator"]) == ("ATE", "double"))["estimate"]  # fmt: skip
    assert ate["value"] == pytest.approx(sum(double_contrasts(tmp_path / "out")[1]) / 60) and ate["high"] < 0
    assert found["sources"]["contrasts"] == "both rewrites of triples" and found["n_tests"] == 1
    assert "does not reward yes-bias, by RATE on triples." in said and re.search(
        r"−0\.00\d \[−0\.00[1-9], −0\.00[1-9]\]", said
    )
    assert "nothing checks that the rewrites flipped it" in said and "yes-bias: not rewarded" in report()
    for has, estimand, on in ((1, "ATT", "answers with it"), (0, "ATU", "answers without it")):
        written(path, [row for row in rows if row["has_attribute"] == has])
        said, one_side = audit(model, *words, "--contrasts", "none")
        assert f"does not reward yes-bias, by RATE on {on}." in said and f"] ({estimand}) 30 {on} alone" in said
        assert one_side["rate"]["yes-bias"]["test"]["p_holm"] < 0.01 and one_side["n_tests"] == 1
        assert f"({estimand}, double rewrites of {on}, there are no others; p (Holm) " in report()
        assert "RATE's ATE is not estimated" in report()
    tiny = tmp_path / "tiny.py"
    tiny.write_text(
        (tmp_path / "own.py").read_text(encoding="utf-8").replace("[n - 0.004", "[1e-5 * n - 4e-8"), encoding="utf-8"
    )
    written(path, rows)
    said = audit(f"{tiny}:score", *words, "--contrasts", "none")[0]
    assert "does not reward yes-bias, by RATE on triples." in said and re.search(
        r"−\d\.\de-8 \[−\d\.\de-8, −\d\.\de-8\]", said
    )
    assert "0.00 [0.00" not in report() and "+0.00 [" not in report()
    opposite = tmp_path / "opposite.py"
    opposite.write_text(
        (tmp_path / "own.py")
        .read_text(encoding="utf-8")
        .replace("[n - 0.004", "[n + (0.2, -0.05)[int(r.split()[-1]) % 2]"),
        encoding="utf-8",
    )
    said = audit(f"{opposite}:score", *words, "--contrasts", "none")[0]
    assert "is unclear" in said and re.search(r"opposite effects: ATT \+0\.2\d*, ATU −0\.0[45]", said)
    assert re.search(
        r"the effect is \+0\.2.* on answers that have the bias and −0\.0[45].* on those that lack it", report()
    )
    for spelling in ("audit.contrasts=none", "audit.contrasts=null"):
        assert audit(model, *words, "--contrasts", "embedded", spelling)[1]["skew"] == found["skew"]
    assert (
        "there are none; give contrasts, or, for cda audit, triples"
        in audit(model, "--bias", bias, "--contrasts", "none", fails=True)[0]
    )
    refused = audit(model, *words, "--contrasts", "none", "--votes", path, fails=True)[0]
    assert "audit.votes are on contrasts" in refused
    written(path, [row | {"flipped": row["prompt"].endswith("0")} for row in rows])
    assert "? unclear" in (few := audit(model, *words, "--contrasts", "none")[0]) and "6 of 60 triples flipped" in few


def test_rate_triples_of_a_file(llama: Path, audit: Any, tmp_path: Path) -> None:
    rows = [
        {"prompt": f"w{row}", "original": f"w{row} good good", "rewrite": f"w{row} bad w3",
         "rewrite_of_rewrite": f"w{row} good w3", "has_attribute": row % 2}
        for row in range(12)
    ]  # fmt: skip
    empty = rows[0] | {"rewrite": ""}
    path = written(tmp_path / "triples.jsonl", [*rows, empty])
    _, found = audit(llama, "--triples", path)
    unlabelled = found["rate"]["jargon"]
    # The measure of jargon, long words, sees nothing of these; nobody else was asked.
    assert unlabelled["n"] == 0 and unlabelled["flips"]["checked_by"] == "measured long word share"
    assert "0 of 6 answers with the bias" in unlabelled["measured"]["reason"]
    written(path, [*(row | {"flipped": row["original"] != "w11 good good"} for row in rows), empty])
    _, found = audit(llama, "--triples", path)
    rate = found["rate"]["jargon"]
    assert (rate["n"], rate["measured"]["before"]["n_with"]) == (11, 5)
    assert rate["flips"] == {
        "by": str(path), "checked_by": "the column flipped", "tried_with": 6, "flipped_with": 5, "tried_without": 6,
        "flipped_without": 6, "made": False,
    }  # fmt: skip
    assert found["excluded"]["triples of jargon"]["reasons"] == {"readers or labels found the attribute not flipped": 1}
    assert found["excluded"]["triples"]["reasons"] == {"a side is missing": 1}
    effects = {
        (one["estimand"], one["estimator"]): one["estimate"]["value"] for one in rate["measured"]["before"]["effects"]
    }
    assert effects["ATE", "double"] == pytest.approx(sum(double_contrasts(tmp_path / "out")[1]) / 11)
    lost = [rows[1] | {"original": f"w{row} lost", "rewrite": None, "rewrite_of_rewrite": None, "failed": "rewrite: refused"}
            for row in range(5)]  # fmt: skip
    written(path, [*(row | {"flipped": True} for row in rows), *lost])
    _, few = audit(llama, "--triples", path)
    assert few["excluded"]["triples of jargon"] == {"seen": 17, "reasons": {"rewrite: refused": 5}}
    assert [few["rate"]["jargon"]["flips"][f"{what}_with"] for what in ("tried", "flipped")] == [11, 6]
    assert "measured" in few["rate"]["jargon"] and few["rate"]["jargon"]["measured"]["before"]["effects"]
    written(
        path,
        [
            *(row | {"flipped": True} for row in rows),
            *lost,
            *(row | {"original": row["original"] + "!"} for row in lost),
        ],
    )
    _, refused = audit(llama, "--triples", path)
    assert (
        "6 of 16 answers with the bias" in refused["rate"]["jargon"]["measured"]["before"]["not_estimated"][0]["reason"]
    )


@pytest.mark.parametrize(("words", "messages"), [
    (("no/such/model",), ["no such folder"]),
    (("embedded", "--bias", "jargn"), ["bias 'jargn' is unknown. Did you mean 'jargon'?"]),
    (("embedded", "--contrasts", "none.jsonl", "--quality", "gone.jsonl"), ["none.jsonl: no such file", "gone.jsonl: no such"]),
    (("embedded", "audit.ratee=3", "model.precision=4bit"), ["audit.ratee", "model.precision"]),
    (("jargon", "--bias", "length", "--out", "x"), ["--bias: not with a recipe"]),
    (("recipes/none.yaml",), ["no such recipe"]),
])  # fmt: skip
def test_mistakes_are_all_named_without_a_traceback(
    words: tuple[str, ...], messages: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["audit", *words])
    assert done.exit_code == 2 and "Traceback" not in done.output
    assert [message for message in messages if message not in done.output] == []


def test_votes_that_decide_nothing_are_no_votes(llama: Path, audit: Any, report: Report, tmp_path: Path) -> None:
    path = voted(tmp_path / "votes.json", {f"item{row}": ["tie", "tie"] for row in range(N)})
    _, found = audit(llama, "--votes", path)
    assert (found["votes"], found["votes_undecided"]) == ({}, {"jargon": N})
    assert f"People voted on {N} contrasts of jargon, and on none of them more for one side" in report()


def test_sides_that_are_the_same_after_cutting_say_nothing(llama: Path, audit: Any, tmp_path: Path) -> None:
    rows = [{"prompt": f"w{row}", "base": "w1 " * 30 + "w3", "perturbed": "w1 " * 30 + "w4"} for row in range(6)]
    rows += [{"prompt": f"w{row}", "base": "w5 good", "perturbed": "w6 bad"} for row in range(6)]
    pairs = written(tmp_path / "cut.jsonl", rows)
    skew = audit(llama, "--contrasts", pairs, "model.max_length_tokens=24")[1]["skew"]["jargon"]
    assert (skew["before"]["n"], skew["unread"]) == (6, 6)


def test_another_rewriter_makes_the_audit_anew(llama: Path, audit: Any) -> None:
    words = (
        llama,
        "--bias",
        "sentiment",
        "--contrasts",
        "embedded",
        "--triples",
        "embedded",
        "audit.max_contrasts=3",
        "audit.rate=2",
    )
    audit(*words)
    assert "reused" in audit(*words)[0]
    said, _ = audit(*words, "llm.model=x", "llm.base_url=http://127.0.0.1:9/v1", fails=True)
    assert "cannot be reached" in said
