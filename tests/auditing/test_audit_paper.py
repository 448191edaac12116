"""`audit=paper`: an audit that reads the paper's release ends in the paper's outcome, with a training and without one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from made_release import MORE, VOTED, make_release, write_rows
from typer.testing import CliRunner

from cda.cli import app
from cda.data.release import SOURCE, released_contrasts
from cda.recipe.load import load_recipe
from cda.records import prompt_text
from cda.resources.sources import audit_inputs

# Prefers the long side of even pairs, and neither side of the others.
SCORER = """
def score(prompts, responses):
    return [float(text.startswith("long") and text[-1] in "02468") for text in responses]
"""
SUBSETS = ("alpacaeval-easy", "donotanswer", "hep-go")


@pytest.fixture
def release(tmp_path: Path) -> Path:
    return make_release(tmp_path / "release")


@pytest.fixture
def scorer(tmp_path: Path) -> str:
    path = tmp_path / "scorer.py"
    path.write_text(SCORER, encoding="utf-8")
    return f"{path}:score"


@pytest.fixture
def bench(tmp_path: Path) -> Path:
    """30 RewardBench pairs that the scorer ranks: right in Chat, ties elsewhere; and a row of a prior set."""
    rows = []
    for row in range(30):
        sides = {"chosen": f"{'long' if row < 10 else 'short'} {2 * row}", "rejected": f"no {row}"}
        rows.append({"prompt": f"p {row}", **sides, "subset": SUBSETS[row // 10]})
    return write_rows(tmp_path / "bench.jsonl", [*rows, {**rows[0], "subset": "shp"}])


def cda(*words: object) -> Any:
    return CliRunner().invoke(app, [*map(str, words)])


def of_release(release: Path, *words: object) -> tuple[object, ...]:
    return "audit=paper", f"audit.release={release}", "--pairs", "embedded", "--triples", "embedded", *words


def test_an_audit_ends_in_the_paper_s_outcome(
    release: Path, scorer: str, bench: Path, audit: Any, report: Callable[[], str]
) -> None:
    said, found = audit(scorer, *of_release(release, "--quality", bench))
    assert (
        f"jargon: {VOTED} pairs with people's votes; {VOTED + MORE} triples, of which people voted on {VOTED}" in said
    )
    assert "RewardBench by section will be missing" not in said
    triples = found["triple_skew"]["jargon"]["skew"]["before"]
    assert (triples["value"], triples["n"]) == (0.5, 30)
    groups = {
        group["name"]: group["scores"]["model"]["estimate"]["value"] for group in found["quality_sections"]["sections"]
    }
    assert groups == {"Chat": 1.0, "Safety": 0.0, "Reasoning": 0.0}
    people = found["votes"]["jargon"]
    assert (people["human_skew"]["value"], people["human_skew"]["n"], people["rule"]) == (8 / 20, 20, "as-released")
    assert people["left_out"] == {"tie": 4}
    # Even pairs are preferred: 4 of the 8 that people prefer, and 6 of the 12 that they do not.
    assert people["skew_on_voted"]["before"]["value"] == 0.5 and people["miscalibration"]["before"]["value"] == 0.5
    assert found["skew"]["jargon"]["source"] == SOURCE == found["rate"]["jargon"]["flips"]["by"]
    assert (found["triple_skew"]["jargon"]["n"], found["triple_skew"]["jargon"]["skew"]["before"]["value"]) == (30, 0.5)
    excluded = found["excluded"][f"{SOURCE}: triples of jargon"]
    assert (excluded["seen"], sum(excluded["reasons"].values())) == (31, 1)
    sections = found["quality_sections"]["sections"]
    shares = {one["name"]: one["scores"]["model"]["estimate"]["value"] for one in sections}
    assert shares == {"Chat": 1.0, "Safety": 0.0, "Reasoning": 0.0}
    assert found["quality_sections"]["exclusions"]["reasons"] == {"prior set": 1}
    assert found["quality"]["before"]["n"] == 30
    labels = found["analysis"]["jargon"]["labels"]
    table = labels["contingency"]
    assert [table[cell] for cell in ("both", "only_chosen", "only_rejected", "neither")] == [1, 6, 2, 1]
    assert table["exclusions"]["reasons"] == {"unparsed label": 1}
    assert labels["r_train"]["value"] == pytest.approx(4 / 80**0.5)
    text = report()
    assert "## The paper's outcome" in text and "| jargon | the column of your file | 11 | 1 | 6 | 2 | 1 | 1 |" in text
    # The paper's own models and judges beside them.
    paper = found["paper"]
    jargon = paper["biases"]["jargon"]
    assert paper["missing"] == {} and (jargon["pairs"], jargon["triples"], jargon["triples_voted"]) == (24, 30, 24)
    people = jargon["people"]
    model = people["models"]["2B"]
    assert [model["skew"][when]["value"] for when in ("before", "after", "change")] == [0.5, 0.0, -0.5]
    assert [model["miscalibration"][when]["value"] for when in ("before", "after")] == [0.5, 0.4]
    # 3B has no score of pair 5, where people have a majority.
    assert (people["models"]["3B"]["skew"]["before"]["n"], people["models"]["3B"]["without_score"]) == (19, 1)
    assert (people["mean"]["of"], people["mean"]["skew"]["before"]["n"]) == (["2B", "3B"], 19)
    assert people["mean"]["skew"]["before"]["value"] == pytest.approx(10 / 19)
    assert people["mean"]["skew"]["change"]["value"] == pytest.approx(-10 / 19)
    # Of the 20 pairs with a majority the judge ties on 0, 4, 8, 12 and 16; it is for the base on all others.
    judge = people["judges"]["gpt-4o"]
    assert (judge["skew"]["value"], judge["skew"]["n"], judge["ties"]) == (0.0, 15, 5)
    assert judge["miscalibration"]["value"] == pytest.approx(6 / 15)
    assert jargon["rewardbench"]["2B"]["after"]["Chat"] == 0.75


def test_before_and_after_a_training(
    release: Path, bench: Path, small_job: Callable[..., list[str]], tmp_path: Path
) -> None:
    out = tmp_path / "run"
    words = small_job(out, "audit=paper", f"audit.release={release}", f"audit.quality={bench}", "audit.max_contrasts=24",
                      "audit.max_quality=30", "audit.rate=0", "dose.on=no",
                      "model.precision=fp32", "model.max_length_tokens=32")  # fmt: skip
    done = cda("train", *words)
    assert done.exit_code == 0, done.output
    found = json.loads((out / "audit" / "audit.json").read_text(encoding="utf-8"))
    assert set(found["votes"]["jargon"]["miscalibration"]) >= {"before", "after", "change"}
    assert set(found["triple_skew"]["jargon"]["skew"]) >= {"before", "after", "change"}
    assert found["triple_skew"]["jargon"]["skew"]["change"]["n"] == 30
    assert [one["shift"]["estimate"]["n"] for one in found["quality_sections"]["sections"]] == [10, 10, 10]
    assert found["paper"]["biases"]["jargon"]["labels"]["contingency"]["only_chosen"] == 6
    assert found["sources"]["release"] == str(release)
    text = (out / "report" / "report.md").read_text(encoding="utf-8")
    assert "The paper's labels of its training sample" in text and "bench: Chat Hard" not in text
    votes = release / "human_annotation_data" / "jargon" / "jargon_grouped_human_annotations.json"
    votes.write_text(votes.read_text(encoding="utf-8").replace("Tie", "tie"), encoding="utf-8")
    assert "audit: made again" in cda("train", *words).output


@pytest.fixture
def own(tmp_path: Path) -> Path:
    rows = [{"prompt": f"p {row}", "perturbed": f"long {row}", "base": f"short {row}"} for row in range(8)]
    return write_rows(tmp_path / "own.jsonl", rows)


def test_a_file_of_contrasts_goes_before_the_release(release: Path, scorer: str, own: Path, audit: Any) -> None:
    _, found = audit(scorer, "--pairs", own, f"audit.release={release}", "--triples", "embedded")
    assert (found["skew"]["jargon"]["source"], found["skew"]["jargon"]["before"]["n"]) == ("file", 8)
    assert found["triple_skew"]["jargon"]["n"] == 30 and found["votes"] == {}


def test_training_leaves_out_what_the_release_is_audited_on(release: Path) -> None:
    inputs = audit_inputs(load_recipe("jargon", ["audit=paper", f"audit.release={release}", "audit.quality=null"]))
    prompts = {prompt_text(prompt) for prompt in inputs.existing_prompts()}
    assert {f"question {row}" for row in range(VOTED + MORE)} <= prompts
    votes = released_contrasts(release, "jargon").contrasts
    assert [one for one in inputs.existing_contrasts() if one.tags["source"] == SOURCE] == list(votes)


def test_without_the_folder_the_plan_says_what_is_missing_and_goes_on(tmp_path: Path) -> None:
    def dry(*words: object) -> str:
        done = cda(*words, "--dry-run")
        assert done.exit_code == 0, done.output
        return str(done.output)

    said = dry("audit", "embedded", "audit=paper", "--bias", "jargon", "--out", tmp_path / "out")
    assert "audit.release is not set, so that this run will lack the paper's human skew and miscalibration" in said
    assert "git clone https://github.com/anirudhb123/Preference-Model-Biases" in said
    assert "RewardBench by section will be missing" in said
    folder = f"run.folder={tmp_path / 'run'}"
    assert "audit.release is not set" in dry("train", "jargon", "data=paper", "data.pairs=embedded", folder)
    assert "audit.release" not in dry("train", "jargon", folder)


def test_a_wrong_folder_is_one_sentence(tmp_path: Path, audit: Any) -> None:
    for folder, message in (
        ("nothing", "nothing: no such folder. The released data are at"),
        (".", "holds no released"),
    ):
        assert message in audit("embedded", *of_release(tmp_path / folder), "--dry-run", fails=True)[0]


def test_parts_that_are_missing_are_said_once_at_the_start(release: Path, scorer: str, audit: Any) -> None:
    said, _ = audit(scorer, *of_release(release), "--bias", "jargon", "--bias", "length", "--dry-run")
    assert "missing of length: human votes, triples, LLM verdicts, scores before, scores after, labels" in said


def test_labels_are_for_audits_alone(release: Path, scorer: str, own: Path, audit: Any, tmp_path: Path) -> None:
    labels = next(release.glob("data/reward_model_training_labeled_data/*"))
    refused = cda("audit", "jargon", f"audit.labels={labels}", f"run.folder={tmp_path / 'run'}", "--dry-run")
    assert refused.exit_code != 0 and "audit.labels: a training takes the labels of its own pairs" in refused.output
    _, found = audit(scorer, "--pairs", own, f"audit.labels={labels}")
    assert found["analysis"]["jargon"]["labels"]["contingency"]["selection_rate"]["value"] == 6 / 8


def test_a_benchmark_of_several_responses_is_refused_with_the_command_for_it(
    scorer: str, audit: Any, tmp_path: Path
) -> None:
    three = {"prompt": "p", "chosen": ["a", "b", "c"], "rejected": ["d", "e", "f"], "domain": "chat"}
    path = write_rows(tmp_path / "rm.jsonl", [three])
    said, _ = audit(scorer, "--quality", path, fails=True)
    assert "read as rm-bench, whose items have several responses on a side" in said
    assert f"cda quality MODEL {path}" in said
