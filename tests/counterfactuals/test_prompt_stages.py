"""Prompts through the stages and the command line: what is made anew, what is counted, what reports say of them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from made_audits import make_audit
from page_checks import read_markdown
from replies import reply
from typer.testing import CliRunner

from cda.auditing import audit
from cda.auditing.report_tables import label_table
from cda.cli import app
from cda.counterfactuals import label, synthesize
from cda.data.load import prompt_of
from cda.recipe.load import load_model_audit, load_recipe
from cda.resources.artifacts import stage_counts
from cda.resources.named_scorer import Subject, scorer_settings
from cda.resources.scorers import open_scorer
from cda.results.stages import LabelCounts, TrainingStages
from cda.run import RunFolder

LLM = ["llm.model=x", "llm.base_url=http://127.0.0.1:9/v1", "data.pairs=embedded", "data.max_pairs=12"]
OWN_LABEL = (
    "pair: {system: Label., user: '{user_message} {response_1} {response_2} {questions}'}\n"
    "single: {system: Label., user: '{user_message} {response} {questions}'}\n"
)
Serve = Callable[[Callable[[dict[str, Any]], tuple[int, dict[str, Any]]]], str]


def cda(*words: object) -> Any:
    return CliRunner().invoke(app, list(map(str, words)))


def succeeds(*words: object) -> str:
    """The output of a command, in one line."""
    done = cda(*words)
    assert done.exit_code == 0, done.output
    return " ".join(done.output.split())


def labels_of(folder: Path, *overrides: str) -> str:
    return label.stage(load_recipe("jargon", [*overrides, f"run.folder={folder}"])).fingerprint


def test_a_server_named_by_the_environment_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("label.by=llm", "llm.model=m", "data.pairs=embedded", "model.name_or_path=embedded")
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    found = [labels_of(tmp_path, *words)]
    for url in ("http://a/v1", "http://b/v1"):
        monkeypatch.setenv("OPENAI_BASE_URL", url)
        found.append(labels_of(tmp_path, *words))
    assert len(set(found)) == 3
    assert found[-1] == labels_of(tmp_path, *words, "llm.base_url=http://b/v1")


def test_the_content_of_a_prompt_decides_what_is_made_anew(tmp_path: Path) -> None:
    mine, same = tmp_path / "mine.yaml", tmp_path / "same.yaml"
    for path in (mine, same):
        path.write_text(OWN_LABEL, encoding="utf-8")
    named = [labels_of(tmp_path, *LLM, f"label.prompt={one}") for one in ("ours", "paper", mine, same)]
    assert len(set(named)) == 3 and named[2] == named[3]
    mine.write_text(OWN_LABEL.replace("Label.", "Label it."), encoding="utf-8")
    assert labels_of(tmp_path, *LLM, f"label.prompt={mine}") != named[2]
    assert labels_of(tmp_path, *LLM) == labels_of(tmp_path, *LLM, "label.prompt=ours", "rewrite.prompt=paper")
    assert labels_of(tmp_path) == labels_of(tmp_path, "label.prompt=paper")  # rules read no prompt


def test_rewrites_rest_on_both_prompts_and_an_audit_on_those_that_it_uses() -> None:
    folder: Any = SimpleNamespace(output_of=lambda _: "labelled")

    def rewrites(*overrides: str) -> str:
        loaded = load_recipe("jargon", [*LLM, *overrides])
        return json.dumps(synthesize.stage(loaded, folder).settings["prompts"], sort_keys=True)

    def judged(*overrides: str) -> dict[str, Any]:
        loaded = load_model_audit("judge:x", {}, overrides)
        return open_scorer(Subject("model", loaded.recipe.model), scorer_settings(loaded)).deciding_settings()

    # The gate labels what was rewritten.
    assert len({rewrites(), rewrites("rewrite.prompt=paper"), rewrites("label.prompt=paper")}) == 3
    written_out = ["score.judge.reasons=before", "score.judge.orders=both"]
    assert judged() == judged(*written_out) != judged("score.judge.prompt=paper")
    assert judged("score.judge.prompt=paper") != judged("score.judge.prompt=paper", "score.judge.orders=both")
    plain = load_model_audit("embedded", {}, ["llm.model=x"])
    assert "prompts" not in audit.stage(plain, folder).settings
    rate = load_model_audit("embedded", {}, ["llm.model=x", "audit.rate=2"])
    assert set(audit.stage(rate, folder).settings["prompts"]) == {"rewrite", "label"}


def test_labels_by_a_prompt_of_ones_own_over_http(serve: Serve, tmp_path: Path) -> None:
    systems: list[str] = []

    def clerk(body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        system, user = (one["content"] for one in body["messages"])
        systems.append(system)
        # Every message that opens with "How" is technical, and no response has jargon.
        technical = "yes" if "<<<USER MESSAGE>>>\nHow" in user else "no"
        return reply(json.dumps({"reasoning": "", "query": technical, "response_1": "no", "response_2": "no"}))

    mine = tmp_path / "mine.yaml"
    mine.write_text(OWN_LABEL, encoding="utf-8")
    words = ["label", "jargon", *LLM[:1], *LLM[2:], f"llm.base_url={serve(clerk)}", f"run.folder={tmp_path / 'run'}"]
    words.append(f"label.prompt={mine}")
    printed = succeeds(*words)
    assert len(systems) == 12 and all(one.startswith("Label. Whatever stands between") for one in systems)
    counts = RunFolder(tmp_path / "run").record("label").counts
    tally = counts["labels"]["jargon"]
    assert re.fullmatch(r"mine\.yaml \([0-9a-f]{8}\)", tally["prompt"])
    rows = (tmp_path / "run" / "label" / "pairs.jsonl").read_text(encoding="utf-8").splitlines()
    technical = sum(prompt_of(json.loads(row)["prompt"])[-1].content.startswith("How") for row in rows)
    assert 0 < technical < 12
    asked = tally["asked"]
    assert (asked["query_asked"], asked["query_answered"], asked["query_calls_for_it"]) == (True, 12, technical)
    assert f"neither 12; {technical} of 12 messages call for it (by x)" in printed
    counted = stage_counts(RunFolder(tmp_path / "run"), "label", LabelCounts)
    stages = TrainingStages(label=counted, synthesize=None, train=None)
    table = label_table(make_audit().model_copy(update={"stages": stages}))
    assert table is not None and table.rows[0][1].endswith(f"; {technical} of 12 messages call for it")
    assert "reused" in succeeds(*words) and len(systems) == 12
    mine.write_text(OWN_LABEL.replace("Label.", "Label it."), encoding="utf-8")
    succeeds(*words)
    assert len(systems) == 24  # neither the stage nor the cache takes one question for the other


def test_a_judge_in_the_paper_s_construction_over_http(serve: Serve, tmp_path: Path) -> None:
    rows = [{"prompt": f"question {row}", "perturbed": f"good {row}", "base": f"bad {row}"} for row in range(24)]
    pairs = tmp_path / "pairs.jsonl"
    pairs.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    asked: list[str] = []

    def judge(body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        system, user = (one["content"] for one in body["messages"])
        asked.append(system)
        first = user.index("<<<ANSWER 1>>>\ngood") if "<<<ANSWER 1>>>\ngood" in user else -1
        return reply(f"Verdict: {1 if first >= 0 else 2}\nIt is good. Verdict: 3")

    out = tmp_path / "out"
    options = ("score.judge.prompt=paper", f"llm.base_url={serve(judge)}", "audit.triples=null", "--bias", "jargon")
    options += ("--contrasts", str(pairs), "--quality", "none", "--out", str(out))
    succeeds("audit", "judge:x", *options)
    assert len(asked) == 24 and all(system.startswith("You read a real user's query") for system in asked)
    found = json.loads((out / "audit" / "audit.json").read_text(encoding="utf-8"))
    model, position = found["model"], found["model"]["position"]
    said = (model["orders"], model["flipped"], model["prompt"], model["verdict_reasons"])
    assert said == ("one", None, "paper", "after")
    assert found["skew"]["jargon"]["before"]["value"] == 1.0
    assert position["n"] == 24 and position["low"] < 0 < position["high"]
    report = read_markdown((out / "report" / "report.md").read_text(encoding="utf-8"))
    assert "Asked 24 comparisons in one order each, drawn" in report and "; 0 unreadable" in report
    assert "Each comparison was asked in one order" in report and "asked in both orders" not in report
    succeeds("audit", "judge:x", "score.judge.orders=both", *options)
    report = (out / "report" / "report.md").read_text(encoding="utf-8")
    assert "in both orders; 0 unreadable, 0 readable in one order only, 0 followed the place" in report


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["train", "jargon", "label.prompt=paper", "--dry-run"], "label.prompt=paper: rules label here, and no LLM reads it"),
        (["discover", "embedded", "discover.judge=judge:x", *LLM[:2], "discover.rewriters=[a, b]", "score.judge.orders=one"],
         "score.judge.orders: one order is asked, but a discovery counts only verdicts that were read in both"),
        (["inspect", "jargn", "--prompts"],
         "no recipe, no bias, no judge:NAME and no grade:NAME, whose prompts could be shown. Did you mean 'jargon'?"),
        (["inspect", "jargon", "--prompts", "label.prompt=no.yaml"], "label.prompt: prompt file no.yaml: no such file"),
        (["inspect", "jargon", "--prompts", "--bias", "length"], "--bias length: no bias of"),
    ],
)  # fmt: skip
def test_mistakes_with_prompts(words: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = cda(*words)
    assert done.exit_code == 2 and message in " ".join(done.output.split())
    assert "Traceback" not in done.output
