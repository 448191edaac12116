"""What is shown of a tested attribute comes from the rewriters that count for it, trimmed where the recipe trims."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import cast

import pytest

from cda.biases import load_bias
from cda.discovery.evidence import confirm
from cda.discovery.held_out import HeldOutRewrites, read_pairs, read_result, save_pairs, save_tested
from cda.discovery.material import Material
from cda.discovery.result import Finished, _tested
from cda.discovery.setup import Asked, setup_of
from cda.files.jsonl import read_jsonl, write_jsonl
from cda.recipe.load import load_model_audit
from cda.records import user_prompt
from cda.results.base import save
from cda.results.discover import CandidateRecord, Measured, TestedAttribute
from cda.results.evidence import ConfirmationResult, ConfirmSettings, Strength, Verdicts
from cda.run import RunFolder

CANDIDATE = CandidateRecord.of(load_bias("jargon"), "given")
FAILED = {CANDIDATE.id: {"bad": {"refusal": 99}}}
MARGINS = (1.0, 1.2, 0.8, 1.1, 0.9, 1.0, 1.0, 1.0)


def rows(rewriter: str, margins: Sequence[float], rewrite: str = "after") -> list[Measured]:
    return [
        Measured(
            CANDIDATE.id, rewriter, "add", user_prompt(f"question {at}"), f"before {at}", rewrite, margin, at % 2 / 2
        )
        for at, margin in enumerate(margins)
    ]


ROWS = [*rows("good", MARGINS), *rows("fine", (*MARGINS[:-1], -90.0)), *rows("bad", (500.0,) * 8, "other")]


def material() -> Material:
    topics = {row.prompt_id: f"topic {at // 4}" for at, row in enumerate(ROWS[:8])}
    return Material({}, topics)


def result_of(trim: bool = False) -> ConfirmationResult:
    found = confirm({CANDIDATE.id: ROWS}, ConfirmSettings(trim=trim), FAILED)
    return ConfirmationResult(results=tuple(found), failed={}, already={}, n_prompts=8, verdicts=None, cut_for_judge=0)


def shown(trim: bool, folder: Path) -> TestedAttribute:
    loaded = load_model_audit("embedded", {}, [f"discover.trim={str(trim).lower()}"])
    run, nobody = RunFolder(folder), cast(Asked, None)
    run.stage("confirm").mkdir(parents=True, exist_ok=True)
    write_jsonl(run.stage("confirm") / "rewrites.jsonl", map(asdict, ROWS))
    finished = Finished("run", setup_of(loaded), run, nobody, nobody, material(), (), (), (CANDIDATE,))
    (one,) = _tested(finished, result_of(trim))
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
    judged = [
        replace(row, rewriter=name, preference=at % 4 / 8)
        for name in ("good", "fine")
        for at, row in enumerate(rows("one", (1.0, 3.0, -0.8, 2.5, 1.9, -0.9, 2.2, 0.3, 2.0, 1.4)))
    ]
    held = HeldOutRewrites({CANDIDATE.id: tuple(judged)} | {one.id: () for one in other}, {}, {}, 10)
    found = {}
    for words in ((), ("discover.correct=holm",), ("discover.correct=none",)):
        folder = tmp_path / "-".join(words or ("default",))
        folder.mkdir()
        save_tested(
            ConfirmationResult, held, setup_of(load_model_audit("embedded", {}, list(words))).strictness, folder
        )
        found[words] = read_result(ConfirmationResult, folder).results[0]
    default, holm, none = found.values()
    assert none.p_value is not None and 0.01 / 3 < none.p_value < 0.01
    assert (default.correct, default.n_entered, default.confirmed) == ("bonferroni", 3, False)
    assert default.p_corrected == holm.p_corrected == pytest.approx(3 * (none.p_value or 0))
    assert (holm.correct, holm.confirmed) == ("holm", False)
    assert (none.correct, none.p_corrected, none.confirmed) == ("none", none.p_value, True)
