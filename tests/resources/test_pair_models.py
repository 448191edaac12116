"""Audits and benchmarks by a local model that compares two answers, and what it cannot be asked for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import cda
from cda.cli import app
from cda.discovery.setup import Asked, AskedJudge
from cda.files.jsonl import write_jsonl
from cda.recipe.load import load_model_audit
from cda.records import user_prompt
from cda.resources.named_scorer import Subject
from cda.results.facts import JudgeFacts
from evals.reliability.reward_models_families import FAMILIES, Family

JARGON = (
    "A scalable paradigm that people leverage.",
    "A paradigm.",
    "It is a synergy of verticals and of core assets.",
)
PLAIN = ("A thing that people use.", "It is a plain idea.", "It is a mix of many fields.")
CONTRASTS = [
    {"id": f"c{n}", "prompt": f"What is item {n}?", "perturbed": JARGON[n % 3], "base": PLAIN[n // 3 % 3]}
    for n in range(9)
]
FP32 = {"precision": "fp32"}


def named(title: str) -> Family:
    (found,) = [family for family in FAMILIES if family.title == title]
    return found


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pairs")
    made = {title: folder / named(title).hub_ids[0].split("/")[1] for title in ("PairRM", "pair-preference-model")}
    for title, place in made.items():
        named(title).build(place)
    return made


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.chdir(tmp_path)
    return {"contrasts": CONTRASTS, "biases": "jargon", "quality": "none", "triples": "none", "progress": False}


@pytest.mark.parametrize("title", ["PairRM", "pair-preference-model"])
def test_an_audit_has_the_margins_of_the_authors(folders: dict[str, Path], small: dict[str, Any], title: str) -> None:
    own = named(title)
    numbers = [own.reference(folders[title], row["prompt"], row["perturbed"], row["base"]) for row in CONTRASTS]
    wanted = np.array([own.as_preference(number) for number in numbers])
    audit = cda.audit(folders[title], model=FP32, out="run", **small)
    assert audit.skew["jargon"].before.value == pytest.approx((wanted > 0).mean())
    assert audit.skew["jargon"].mean_margin.before == pytest.approx(wanted.mean(), abs=1e-5)
    facts = audit.model
    assert isinstance(facts, JudgeFacts) and facts.orders == "both"
    assert (facts.comparisons, facts.unread, facts.half_read) == (9, 0, 0)
    assert any("averaged over both orders" in note for note in facts.notes)
    assert any("fp32" in note and "0 of 9 comparisons cut at 2048 tokens" in note for note in facts.notes)


def test_texts_that_are_too_long_are_left_out_or_refused(folders: dict[str, Path], small: dict[str, Any]) -> None:
    small["contrasts"] = [*CONTRASTS, {**CONTRASTS[0], "id": "long", "prompt": "word " * 600}]
    short = FP32 | {"max_length_tokens": 400}
    dropped = cda.audit(folders["PairRM"], model=short, score={"over_length": "drop"}, out="a", **small).model
    assert isinstance(dropped, JudgeFacts) and dropped.unread == 1
    assert dropped.reasons == {"too long for the model": 1}
    cut = cda.audit(folders["PairRM"], model=short, out="b", **small).model
    assert any("1 of 10 comparisons cut at 400 tokens" in note for note in cut.notes)
    with pytest.raises(cda.ModelError, match="2 of 20 texts are longer than 400 tokens"):
        cda.audit(folders["PairRM"], model=short, score={"over_length": "refuse"}, out="c", **small)


def test_quality_and_win_rates_need_no_rewards(folders: dict[str, Path], tmp_path: Path) -> None:
    pairs = [{"prompt": row["prompt"], "chosen": row["base"], "rejected": row["perturbed"]} for row in CONTRASTS]
    own = named("PairRM")
    right = [own.reference(folders["PairRM"], row["prompt"], row["chosen"], row["rejected"]) > 0 for row in pairs]
    found = cda.quality(folders["PairRM"], pairs, model=FP32, out=tmp_path / "q", progress=False)
    assert found.sets[0].overall.found["accuracy"]["model"].value == pytest.approx(np.mean(right))
    sides = [[{"prompt": row["prompt"], "response": row[side]} for row in pairs] for side in ("chosen", "rejected")]
    rate = cda.quality(folders["PairRM"], sides[0], over=sides[1], model=FP32, out=tmp_path / "w", progress=False)
    assert rate.sets[0].win_rates["model"].wins.value == pytest.approx(np.mean(right))


def test_a_discovery_is_held_against_its_preferences(folders: dict[str, Path], tmp_path: Path) -> None:
    own, folder = named("pair-preference-model"), folders["pair-preference-model"]
    settings = {"run": {"folder": str(tmp_path / "run")}, "model": FP32}
    loaded = load_model_audit(str(folder), settings, [])
    judge = AskedJudge(Asked(Subject("judge", loaded.recipe.model), loaded))
    found = judge([(user_prompt(row["prompt"]), row["perturbed"], row["base"]) for row in CONTRASTS])
    wanted = [own.reference(folder, row["prompt"], row["perturbed"], row["base"]) for row in CONTRASTS]
    np.testing.assert_allclose(found, wanted, atol=1e-5)
    assert judge.verdicts is not None and judge.verdicts.asked == 9 and judge.verdicts.unread == 0


def test_what_needs_a_reward_of_one_answer_is_refused_before_anything_is_done(
    folders: dict[str, Path], tmp_path: Path
) -> None:
    folder, said = folders["PairRM"], r"PairRM-hf: compares two answers.*no reward of a single one"
    rows = [{"prompt": "a", "responses": ["b", "c"]}, {"prompt": "d", "responses": ["e", "f"]}]
    with pytest.raises(cda.ModelError, match=said):
        cda.reward_function(folder)
    with pytest.raises(cda.ModelError, match=said):
        cda.best_of(folder, rows, out=tmp_path / "best")
    with pytest.raises(cda.CdaError, match=said):
        cda.train("jargon", model={"name_or_path": str(folder)}, llm={"model": None}, out=tmp_path / "train")
    with pytest.raises(cda.CdaError, match=said):
        cda.discover(folder, out=tmp_path / "found")
    mine = tmp_path / "mine.py"
    mine.write_text("def better(prompts, first, second): return [0.0 for _ in first]\n", encoding="utf-8")
    with pytest.raises(cda.CdaError, match="better: compares two answers and gives no reward of single ones"):
        cda.best_of(f"{mine}:better", rows, out=tmp_path / "best")
    with pytest.raises(cda.CdaError, match="better: compares two answers and gives no reward of single ones"):
        cda.discover(f"{mine}:better", out=tmp_path / "found")
    pairs = [{"prompt": "a", "chosen": "b", "rejected": "c"}]
    (tmp_path / "adapter").mkdir()
    (tmp_path / "adapter" / "adapter_config.json").write_text("{}", encoding="utf-8")
    with pytest.raises(cda.CdaError, match=said):
        cda.quality(folder, pairs, adapter=tmp_path / "adapter", out=tmp_path / "q")
    with pytest.raises(cda.RunError, match="compares two answers, so it cannot be used with another scorer"):
        cda.quality(folder, pairs, against=folder, out=tmp_path / "q")
    assert not [path for path in tmp_path.rglob("*") if path.name in ("best", "train", "q", "found")]


def test_a_plan_says_how_two_answers_are_read(folders: dict[str, Path], tmp_path: Path) -> None:
    write_jsonl(tmp_path / "contrasts.jsonl", CONTRASTS)
    command = ["audit", str(folders["PairRM"]), "--dry-run", "--json", "model.precision=fp32", "biases=[jargon]"]
    planned = json.loads(CliRunner().invoke(app, [*command, f"audit.contrasts={tmp_path}/contrasts.jsonl"]).stdout)
    (reads,) = [line for line in planned["lines"] if line.startswith("reads")]
    for part in (
        "(head score) in fp32",
        "text of its own of two answers, in both orders",
        "lose the end of the prompt",
    ):
        assert part in reads
