"""The calls that a user agrees to are the most there can be, from the prompts that are known."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cda.discovery.discover import planned_calls
from cda.discovery.setup import Asked, Setup, judge_subject, setup_of
from cda.recipe.load import load_model_audit
from cda.recipe.schema import ModelSection
from cda.resources.named_scorer import Subject
from cda.run import RunFolder

SMALL = [
    "llm.model=lead", "discover.rewriters=[ada,bob,cyd]", "discover.populations=[5,4,3]", "discover.batches=[8,8]",
    "discover.mutations=2", "discover.responses_each=2", "discover.parts=[0.3,0.35,0.35]", "discover.removing=true",
]  # fmt: skip


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    """Responses to 20 prompts: at most 6, 7 and 7 in the parts."""
    path = tmp_path / "rows.jsonl"
    lines = [json.dumps({"prompt": f"Question {n}?", "responses": ["One.", "Two."]}) for n in range(20)]
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def calls(folder: Path, *words: str, n_given: int = 0) -> dict[str, int]:
    setup, model, judge = parties(folder, *words)
    return {one.what: one.calls for _, one in planned_calls(setup, RunFolder(folder / "run"), model, judge, n_given)}


def parties(folder: Path, *words: str) -> tuple[Setup, Asked, Asked]:
    settings = {"run": {"folder": str(folder / "run")}}
    loaded = load_model_audit("embedded", settings, [*SMALL, *words])
    section = ModelSection.model_validate(
        {"name_or_path": "reward.py:reward", "precision": "auto", "max_length_tokens": 99}
    )
    (folder / "reward.py").write_text("def reward(prompts, responses):\n    return [0.0] * len(responses)\n")
    section = section.model_copy(update={"name_or_path": f"{folder / 'reward.py'}:reward"})
    return setup_of(loaded), Asked(Subject("model", section), loaded), judge_subject(loaded)


def test_every_call_is_counted_and_nothing_that_is_only_likely_is_left_out(tmp_path: Path, rows: Path) -> None:
    found = calls(tmp_path, f"discover.responses={rows}", "discover.max_validation=null", "discover.max_test=null")
    # 6 train prompts where 8 were wanted, in two directions; 5 candidates, then 4 and two variations of each.
    searched = (5 + 4 * 3) * 6 * 2
    validated = tested = 3 * 7 * 2 * 2
    assert found == {
        # Two questions for ten attributes, four variations, and the groups of either generation.
        "proposing, mutating, grouping": 2 + 4 + 2,
        "rewriting by ada": searched + validated + tested,
        "rewriting by bob": validated + tested,
        "rewriting by cyd": validated + tested,
        "judging in both orders": 2 * (searched + 3 * (validated + tested)),
        "looking at the rewrites": 3 * 3 * tested + 2 * 5 * 3,
    }


def test_a_limit_below_the_prompts_counts_and_given_attributes_use_all_parts(tmp_path: Path, rows: Path) -> None:
    words = (f"discover.responses={rows}", "discover.pair_quality=false", "discover.max_test=2")
    assert calls(tmp_path, *words)["rewriting by bob"] == 3 * (7 + 2) * 2 * 2
    assert calls(tmp_path, *words, n_given=4) == {
        **{f"rewriting by {name}": 4 * 2 * 2 * 2 for name in ("ada", "bob", "cyd")},
        "judging in both orders": 2 * 3 * 4 * 2 * 2 * 2,
    }
    all_of_them = calls(tmp_path, *words[:2], "discover.max_test=null", n_given=1)
    assert all_of_them["rewriting by ada"] == (6 + 7 + 7) * 2 * 2


def test_many_attributes_are_grouped_in_rounds(tmp_path: Path, rows: Path) -> None:
    words = (f"discover.responses={rows}", "discover.populations=[64,16,10]", "discover.batches=[8,8]")
    # 130 attributes are two chunks in at most four rounds; 48 are one question.
    assert calls(tmp_path, *words)["proposing, mutating, grouping"] == 26 + 16 + 2 * 4 + 1


def test_variations_of_proposals_are_asked_for_grouped_rewritten_and_judged(tmp_path: Path, rows: Path) -> None:
    words = (
        f"discover.responses={rows}",
        "discover.populations=[5,3]",
        "discover.batches=[8]",
        "discover.variations=3",
    )
    found = calls(tmp_path, *words)
    searched = 5 * (1 + 3) * 6 * 2
    held_out = 2 * 3 * 7 * 2 * 2
    assert found["rewriting by ada"] == searched + held_out
    assert found["judging in both orders"] == 2 * (searched + 3 * held_out)
    # Two questions for ten attributes, one for the variations of each of the five; their groups, and those of all twenty.
    assert found["proposing, mutating, grouping"] == 2 + 5 + 1 + 1


def test_a_size_brings_its_own_variations_unless_they_are_set(tmp_path: Path, rows: Path) -> None:
    # The first rewriter's calls: for the search on 6 prompts in two directions, then for ten finalists.
    unset = ("discover.populations=null", "discover.batches=null", "discover.mutations=null")
    words = (f"discover.responses={rows}", *unset)
    held_out = 10 * (7 + 7) * 2 * 2
    sizes = {
        "5x16": 64 + 4 * 16 * (1 + 4),
        "3x8": 64 + 2 * 16 * (1 + 8),
        "1": 64 * (1 + 4),
        "3x8-wide": 256 + 2 * 8 * (1 + 4),
        "1-proposals": 320,
        "small": 48 + 2 * 12 * (1 + 4),
    }
    for size, n_measured in sizes.items():
        assert calls(tmp_path, *words, f"discover.size={size}")["rewriting by ada"] == n_measured * 6 * 2 + held_out
    changed = calls(tmp_path, *words, "discover.size=3x8", "discover.mutations=2")
    assert changed["rewriting by ada"] == (64 + 2 * 16 * (1 + 2)) * 6 * 2 + held_out
    changed = calls(tmp_path, *words, "discover.size=1", "discover.variations=0")
    assert changed["rewriting by ada"] == 64 * 6 * 2 + held_out
