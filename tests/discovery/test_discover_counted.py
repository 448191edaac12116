"""What is shown of a tested attribute comes from the rewriters that count for it, trimmed where the recipe trims."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, cast

import pytest

from cda.biases import load_bias
from cda.discovery.evidence import confirm
from cda.discovery.held_out import HeldOutRewrites, read_pairs, read_result, save_pairs, save_tested
from cda.discovery.material import Material
from cda.discovery.result import Finished, _tested, earlier_tests, finished_stages
from cda.discovery.setup import Asked, setup_of
from cda.files.jsonl import read_jsonl, write_jsonl
from cda.recipe.load import load_model_audit
from cda.records import user_prompt
from cda.resources.artifacts import prompt_row
from cda.results.base import save
from cda.results.discover import CandidateRecord, Measured, TestedAttribute
from cda.results.evidence import Confirmation, ConfirmationResult, ConfirmSettings, Strength, Verdicts
from cda.results.facts import LLMUse
from cda.run import RunFolder, Stage

CANDIDATE = CandidateRecord.of(load_bias("jargon"), "given")
FAILED = {CANDIDATE.id: {"bad": {"refusal": 99}}}
MARGINS = (1.0, 1.2, 0.8, 1.1, 0.9, 1.0, 1.0, 1.0)


def rows(rewriter: str, margins: Sequence[float], rewrite: str = "after") -> list[Measured]:
    prompts = [user_prompt(f"question {at}") for at in range(len(margins))]
    return [
        Measured(CANDIDATE.id, rewriter, "add", prompt, f"before {at}", rewrite, margin, at % 2 / 2)
        for at, (prompt, margin) in enumerate(zip(prompts, margins, strict=True))
    ]


ROWS = [*rows("good", MARGINS), *rows("fine", (*MARGINS[:-1], -90.0)), *rows("bad", (500.0,) * 8, "other")]


def result_of(trim: bool = False) -> ConfirmationResult:
    found = confirm({CANDIDATE.id: ROWS}, ConfirmSettings(trim=trim), FAILED)
    return ConfirmationResult(results=tuple(found), failed={}, already={}, n_prompts=8, verdicts=None, cut_for_judge=0)


def shown(trim: bool, folder: Path) -> TestedAttribute:
    loaded = load_model_audit("embedded", {}, [f"discover.trim={str(trim).lower()}"])
    run, nobody = RunFolder(folder), cast(Asked, None)
    run.stage("confirm").mkdir(parents=True, exist_ok=True)
    write_jsonl(run.stage("confirm") / "rewrites.jsonl", map(asdict, ROWS))
    material = Material({}, {row.prompt_id: f"topic {at // 4}" for at, row in enumerate(ROWS[:8])})
    done = Finished("run", setup_of(loaded), run, nobody, nobody, material, (), (), (CANDIDATE,))
    (one,) = _tested(done, result_of(trim))
    return one


def topic(one: TestedAttribute, name: str) -> Strength:
    found = one.topics[name]
    assert isinstance(found, Strength)
    return found


def test_a_rewriter_that_is_excluded_is_shown_nowhere(tmp_path: Path) -> None:
    one = shown(False, tmp_path)
    assert [each.rewriter for each in one.rewriters if each.excluded] == ["bad"]
    assert one.same_by_all == 1.0  # `bad` wrote something else
    assert {row.rewriter for row in one.examples} <= {"good", "fine"} and one.examples
    assert [topic(one, name).reward.n for name in one.topics] == [8, 8]
    assert topic(one, "topic 0").reward.value == pytest.approx(1.025)


def test_topics_are_trimmed_like_the_test(tmp_path: Path) -> None:
    assert topic(shown(False, tmp_path), "topic 1").reward.value < -10
    trimmed = topic(shown(True, tmp_path), "topic 1")
    assert trimmed.reward.value == pytest.approx(6.8 / 7) and trimmed.n_left_out == 1


def test_pairs_are_those_that_count_and_say_who_labelled_them(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    confirmed, out = run.stage("confirm"), tmp_path / "out"
    for folder in (confirmed, out):
        folder.mkdir()
    save(result_of(), confirmed / "result.json")
    write_jsonl(confirmed / "rewrites.jsonl", map(asdict, ROWS))
    save_pairs(setup_of(load_model_audit("embedded", {}, [])), run, [CANDIDATE], out)
    pairs = read_pairs(out)[CANDIDATE.id]
    assert pairs.n == 16 and set(pairs.fidelity_by_rewriter) == {"good", "fine"}
    assert pairs.labelled_by == "measure"


def test_verdicts_are_written(tmp_path: Path) -> None:
    verdicts = Verdicts(asked=24, unread=2, reasons={"no answer": 5}, half_read=1, flipped=3, position_bias=0.25)
    held_out = HeldOutRewrites({CANDIDATE.id: tuple(ROWS)}, FAILED, {CANDIDATE.id: {}}, 8, verdicts, 4)
    save_tested(ConfirmationResult, held_out, ConfirmSettings(), tmp_path)
    result = read_result(ConfirmationResult, tmp_path)
    assert result.cut_for_judge == 4 and len(list(read_jsonl(tmp_path / "rewrites.jsonl"))) == 24
    assert result.verdicts == verdicts and result.failed == FAILED


def test_the_recipe_says_how_the_test_is_corrected_also_for_attributes_that_were_given(tmp_path: Path) -> None:
    # By itself p is below 0.01; for three candidates it is not.
    other = [CandidateRecord.of(load_bias(name), "given") for name in ("length", "vagueness")]
    margins = (1.0, 3.0, -0.8, 2.5, 1.9, -0.9, 2.2, 0.3, 2.0, 1.4)
    judged = [
        replace(row, preference=at % 4 / 8) for name in ("good", "fine") for at, row in enumerate(rows(name, margins))
    ]
    held = HeldOutRewrites({CANDIDATE.id: tuple(judged)} | {one.id: () for one in other}, {}, {}, 10)

    def tested(*words: str) -> Confirmation:
        strictness = setup_of(load_model_audit("embedded", {}, list(words))).strictness
        save_tested(ConfirmationResult, held, strictness, tmp_path)
        return read_result(ConfirmationResult, tmp_path).results[0]

    default, holm, none = tested(), tested("discover.correct=holm"), tested("discover.correct=none")
    assert none.p_value is not None and 0.01 / 3 < none.p_value < 0.01
    assert (default.correct, default.n_entered, default.confirmed) == ("bonferroni", 3, False)
    assert default.p_corrected == holm.p_corrected == pytest.approx(3 * none.p_value)
    assert (holm.correct, holm.confirmed) == ("holm", False)
    assert (none.correct, none.p_corrected, none.confirmed) == ("none", none.p_value, True)


USE = LLMUse(asked=3, cached=0, unusable=0, input_tokens=0, output_tokens=0, uncounted=0, dollars=None)


def finished(folder: RunFolder, name: str, settings: dict[str, Any], prompts: Sequence[str] = ("a", "b")) -> None:
    stage = Stage(name, settings, {})
    if not folder.is_done(stage):
        out = folder.begin(stage)
        write_jsonl(out / "rewrites.jsonl", ({"prompt": prompt_row(user_prompt(one))} for one in prompts))
        folder.finish(stage, {"llm": {"lead": USE.model_dump()}} if name == "search" else {}, 1.0)


def test_other_tests_on_the_same_prompts_are_counted(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    finished(folder, "confirm", {"trim": False})
    assert earlier_tests(folder) == 0
    finished(folder, "confirm", {"trim": False})  # reused
    assert earlier_tests(folder) == 0
    finished(folder, "confirm", {"trim": True})
    finished(folder, "confirm", {"max_failed": 0.2}, ["b", "c"])
    assert earlier_tests(folder) == 2
    (folder.stage("confirm") / "rewrites.jsonl").write_text("", encoding="utf-8")  # damaged, and made again alike
    finished(folder, "confirm", {"max_failed": 0.2}, ["b", "c"])
    assert earlier_tests(folder) == 2
    finished(folder, "confirm", {"max_failed": 0.2}, ["d"])  # the same settings are no other test
    finished(folder, "confirm", {"seed": 2}, ["d"])
    assert earlier_tests(folder) == 0
    folder.begin(Stage("confirm", {"seed": 3}, {}))
    finished(folder, "confirm", {"seed": 4}, ["a"])
    assert earlier_tests(folder) == 2  # an unfinished one has tested nothing


def test_only_stages_that_took_part_are_told(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    for name in ("material", "search", "confirm"):
        finished(folder, name, {})
    found = finished_stages(folder, (True, True, False, True, True))
    assert list(found) == ["material", "search", "confirm"]
    assert found["search"].llm == {"lead": USE}
    assert list(finished_stages(folder, (True, False, False, False, False))) == ["material"]
