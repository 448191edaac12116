"""`grade:NAME` in every command that takes a reward model: audits, panels, quality, best of n, plans, and refusals."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from replies import reply
from serving import user_text
from typer.testing import CliRunner

from cda.cli import app

N = 12
ROWS = [
    {"prompt": f"w{row} w1", "perturbed": f"w{row % 7} good good w2", "base": f"w{row % 5} bad w3"} for row in range(N)
]


def asked_of(body: dict[str, Any]) -> str:
    found = re.search(r"<<<ANSWER>>>\n(.*?)\n<<<END>>>", user_text(body), re.DOTALL)
    assert found is not None
    return found[1]


def graded(body: dict[str, Any]) -> Any:
    """5 and one more for each `good`; of a comparison the first."""
    if "<<<ANSWER 1>>>" in user_text(body):
        return reply("Fine.\nVerdict: tie")
    grade = 5 + asked_of(body).count("good")
    if not body.get("logprobs"):
        return reply(f"Fine.\nGrade: {grade}")
    listed = [{"token": str(one), "logprob": math.log(share)} for one, share in ((grade, 0.75), (10, 0.25))]
    return reply(str(grade), logprobs={"content": [{**listed[0], "top_logprobs": listed}]})


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    path = tmp_path / "pairs.jsonl"
    path.write_text("\n".join(map(json.dumps, ROWS)), encoding="utf-8")
    return path


def audit(targets: str, pairs: Path, out: Path, url: str, *more: str) -> Result:
    words = f"--bias jargon --contrasts {pairs} --quality none --triples none --out {out} llm.base_url={url}".split()
    return CliRunner().invoke(app, ["compare" if " " in targets else "audit", *targets.split(), *words, *more])


def found_in(out: Path) -> dict[str, Any]:
    read: dict[str, Any] = json.loads((out / "audit" / "audit.json").read_text(encoding="utf-8"))
    read["rows"] = [json.loads(line) for line in (out / "audit" / "margins.jsonl").read_text().splitlines()]
    return read


@pytest.mark.parametrize(("words", "margin"), [((), 2.0), (("score.grade.by_token=true",), 1.5)])
def test_an_audit_by_written_grades_and_by_their_mean(
    serve: Callable[..., str], pairs: Path, tmp_path: Path, words: tuple[str, ...], margin: float
) -> None:
    done = audit("grade:j", pairs, tmp_path / "out", serve(graded), *words)
    assert done.exit_code == 0, done.output
    found = found_in(tmp_path / "out")
    assert found["effects"]["jargon"]["unit"] == "grade" and found["model"]["texts"] == 2 * N
    margins = [row["perturbed_model"] - row["base_model"] for row in found["rows"]]
    assert margins == pytest.approx([margin] * N)
    report = (tmp_path / "out" / "report" / "report.md").read_text(encoding="utf-8")
    assert "Graded by j from 1 to 10, prompt ours" in report


def test_equal_grades_are_ties_that_count_half_and_unread_ones_are_counted(
    serve: Callable[..., str], pairs: Path, tmp_path: Path
) -> None:
    def answer(body: dict[str, Any]) -> Any:
        return reply("I had rather not." if "w0 bad" in asked_of(body) else "Fine.\nGrade: 7")

    url = serve(answer)
    done = audit("grade:j", pairs, tmp_path / "out", url)
    assert done.exit_code == 0, done.output
    found = found_in(tmp_path / "out")
    n_unread = sum("w0 bad" in row["base"] for row in ROWS)
    skew = found["skew"]["jargon"]
    assert (skew["before"]["value"], skew["before"]["n"], skew["unread"]) == (0.5, N - n_unread, n_unread)
    assert found["model"]["unread"] == n_unread and found["model"]["dropped"] == 0
    said = f"{n_unread} of {2 * N} texts have no readable grade and were left out ({n_unread} × nothing in the form"
    assert said in found["model"]["notes"][-1] and said in done.output
    report = (tmp_path / "out" / "report" / "report.md").read_text(encoding="utf-8")
    assert said in report and "each counted as half a preference" in report
    strict = audit("grade:j", pairs, tmp_path / "strict", url, "score.grade.max_unread=0")
    assert strict.exit_code != 0
    assert (
        f"j: no readable grade on {n_unread} of {2 * N} texts, more than score.grade.max_unread=0 allows"
        in strict.output
    )
    assert "Traceback" not in strict.output


def test_next_to_a_judge_with_one_agreement(serve: Callable[..., str], pairs: Path, tmp_path: Path) -> None:
    url, prices = serve(graded), "llm.prices={j: {input: 1, output: 2}}"
    unasked = audit("grade:j judge:j", pairs, tmp_path / "out", url, prices)
    assert unasked.exit_code != 0 and "2 steps would spend money" in unasked.output
    done = audit("grade:j judge:j", pairs, tmp_path / "out", url, prices, "--yes")
    assert done.exit_code == 0, done.output
    assert f"grading single answers: about {2 * N} calls of j" in done.output
    assert f"judging, each in both orders: about {2 * N} calls of j" in done.output
    found = json.loads((tmp_path / "out" / "comparison" / "comparison.json").read_text(encoding="utf-8"))
    assert {name: row["kind"] for name, row in found["audits"].items()} == {
        "grade:j": "reward model",
        "judge:j": "judge",
    }


def test_quality_best_of_n_and_win_rate(serve: Callable[..., str], tmp_path: Path) -> None:
    url = f"llm.base_url={serve(graded)}"
    quality, sampled = tmp_path / "quality.jsonl", tmp_path / "sampled.jsonl"
    rows = [{"prompt": row["prompt"], "chosen": row["perturbed"], "rejected": row["base"]} for row in ROWS]
    rows.append({"prompt": "w1", "chosen": "good", "rejected": "w2 good"})
    quality.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    answers = [{"prompt": row["prompt"], "response": row[side]} for row in ROWS for side in ("perturbed", "base")]
    sampled.write_text("\n".join(map(json.dumps, answers)), encoding="utf-8")

    def run(*words: str) -> str:
        done = CliRunner().invoke(app, [*words, url])
        assert done.exit_code == 0, done.output
        return " ".join(done.output.split())

    out = tmp_path / "q"
    assert "Ties (margin exactly 0) count half: 1 model" in run("quality", "grade:j", str(quality), "--out", str(out))
    result = json.loads((out / "quality.json").read_text(encoding="utf-8"))
    assert result["sets"][0]["overall"]["found"]["accuracy"]["model"]["value"] == pytest.approx((N + 0.5) / (N + 1))
    plan = run("best-of", "grade:j", str(sampled), "--dry-run", "--out", str(tmp_path / "b"))
    n_texts = len({(row["prompt"], row["response"]) for row in answers})
    assert f"grading single answers: about {n_texts} calls of j" in plan
    run("best-of", "grade:j", str(sampled), "--out", str(tmp_path / "b"))
    first, second = tmp_path / "first.jsonl", tmp_path / "second.jsonl"
    for path, side in ((first, "perturbed"), (second, "base")):
        own = [{"prompt": row["prompt"], "response": row[side]} for row in ROWS]
        path.write_text("\n".join(map(json.dumps, own)), encoding="utf-8")
    said = run("quality", "grade:j", str(first), "--over", str(second), "--out", str(tmp_path / "w"))
    assert "scoring win rate" in said and "model 100% [" in said


def test_prompts_can_be_looked_at_and_a_discovery_takes_no_grades(tmp_path: Path) -> None:
    shown = CliRunner().invoke(app, ["inspect", "grade:j", "--prompts", "score.grade.prompt=prometheus"])
    assert shown.exit_code == 0 and "a grade of one answer (score.grade.prompt=prometheus)" in shown.output
    assert "[RESULT] and the number" in shown.output
    refused = CliRunner().invoke(app, ["discover", "grade:j", "--out", str(tmp_path / "d"), "llm.base_url=http://x/v1"])
    assert refused.exit_code != 0 and "grade:j: a discovery takes no grades" in refused.output


def test_a_pattern_that_never_ends_is_one_line_that_names_its_file(
    serve: Callable[..., str], pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cda.patterns.LIMIT_S", 0.05)
    path = tmp_path / "slow.yaml"
    path.write_text(
        "system: Grade.\nuser: '{user_message} {answer}'\n"
        "grade: {pattern: '((?:a|aa)+)$', lowest: 1, highest: 9}\n", encoding="utf-8",
    )  # fmt: skip
    url = serve(lambda _: reply("a" * 20_000 + "!"))
    done = audit("grade:j", pairs, tmp_path / "out", url, f"score.grade.prompt={path}")
    assert done.exit_code != 0 and "Traceback" not in done.output
    assert f"score.grade.prompt: {path}: grade: pattern:" in done.output and "was stopped after 0.05 s" in done.output
