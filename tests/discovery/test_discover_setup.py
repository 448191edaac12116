"""Who takes part in a discovery, the judge's preferences, and the most calls that a user agrees to."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from scripted_llm import ScriptedLLM

from cda.discovery.discover import search_calls
from cda.discovery.held_out import rewrite_all
from cda.discovery.setup import Asked, AskedJudge, AskedSearch, judge_subject, setup_of
from cda.errors import LLMError, RecipeError
from cda.llm.protocol import Request
from cda.recipe.load import LoadedRecipe, load_model_audit
from cda.records import Prompt, user_prompt
from cda.resources.llm_access import LlmAccess
from cda.resources.model_scorers import Classifier
from cda.resources.named_scorer import Subject
from cda.results.evidence import Verdicts
from cda.scorers.compared import Rewards, text_id

PROMPT = user_prompt("question")


def pairs(*sides: str) -> list[tuple[Prompt, str, str]]:
    return [(PROMPT, first, second) for first, second in map(str.split, sides)]


def judge(name: str) -> AskedJudge:
    loaded = load_model_audit(name, {}, [])
    return AskedJudge(Asked(Subject("judge", loaded.recipe.model), loaded))


def by_llm(monkeypatch: pytest.MonkeyPatch) -> AskedJudge:
    def answer(request: Request) -> str:
        said = better(*request.user.split("<<<ANSWER ")[1:])
        return f"Because.\nVerdict: {said}" if said else "I cannot say."

    monkeypatch.setattr(LlmAccess, "client", lambda _: ScriptedLLM(answer))
    return judge("judge:scripted")


def better(first: str, second: str) -> str | None:
    """Prefers `good`; follows the place between two that are `odd`; says nothing on `mute`, nor where `shy` stands first."""
    if "mute" in first + second or "shy" in first:
        return None
    return "1" if "good" in first or "odd" in first + second else "2"


def test_a_verdict_in_one_order_alone_gives_no_preference(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = by_llm(monkeypatch)
    found = asked(pairs("good plain", "plain good", "odd even", "shy plain", "mute plain", "good plain"))
    assert found.tolist()[:3] == [1.0, 0.0, 0.5] and np.isnan(found[3:5]).all() and found[5] == 1.0
    unread = "no verdict in the last line"
    assert asked.verdicts is not None and asked.verdicts == Verdicts(
        asked=5, unread=1, reasons={unread: 3}, half_read=1, flipped=1, position_bias=asked.verdicts.position_bias
    )
    assert asked.verdicts.position_bias == pytest.approx(1 / 3)
    said = "1 comparisons without a readable verdict, 1 with one in one order alone, which does not count"
    assert said in capsys.readouterr().out
    assert asked([]).shape == (0,) and asked.verdicts is None  # of the latest call


def test_no_verdict_in_both_orders_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = by_llm(monkeypatch)
    with pytest.raises(LLMError, match=r"no verdict readable in both orders on any of 1 comparisons .* no verdict in"):
        asked(pairs("shy plain"))


def test_a_side_that_the_judge_read_in_part_gives_no_preference(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rewards = {text_id(PROMPT, text): float(len(text)) for text in ("a", "bb", "ccc")}
    cut = {text_id(PROMPT, "ccc"): "what was left"}
    monkeypatch.setattr(Classifier, "compare", lambda *_: (Rewards(rewards, cut), {}))
    asked = judge("some/reward-model")
    found = asked(pairs("bb a", "ccc a", "a ccc", "a bb", "a a"))
    assert np.isnan(found[1:3]).all() and found[[0, 3, 4]].tolist() == [1.0, 0.0, 0.5]
    assert (asked.n_cut, asked.verdicts) == (2, None)
    assert rewrite_all([], [], [], lambda _: np.zeros(0), asked, ("add",)).counts.cut_for_judge == 2
    assert "2 comparisons without a preference" in capsys.readouterr().out


def offline(*overrides: str) -> LoadedRecipe:
    return load_model_audit("embedded", {}, list(overrides))


def test_more_rewriters_than_there_are_cannot_be_required(tmp_path: Path) -> None:
    assert setup_of(offline("discover.required_rewriters=3")).problems() == []
    (problem,) = setup_of(offline("discover.required_rewriters=4")).problems()
    assert problem.startswith(
        "discover.required_rewriters is 4: without an LLM there is one rule engine at 3 strengths"
    )
    with pytest.raises(RecipeError, match="not fewer than required_rewriters"):
        offline("llm.model=lead", "discover.rewriters=[a,b]", "discover.required_rewriters=3", f"run.folder={tmp_path}")


def test_a_panel_is_no_judge_of_a_discovery() -> None:
    with pytest.raises(RecipeError, match="judge:a,b: a panel of judges; a discovery is held against one, such as"):
        judge_subject(offline("discover.judge='judge:a,b'"))


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
    file = folder / "reward.py"
    file.write_text("def reward(prompts, responses):\n    return [0.0] * len(responses)\n")
    loaded = load_model_audit("embedded", {"run": {"folder": str(folder / "run")}}, [*SMALL, *words])
    model = Subject("model", loaded.recipe.model.model_copy(update={"name_or_path": f"{file}:reward"}))
    planned = search_calls(AskedSearch(loaded, Asked(model, loaded), judge_subject(loaded)), n_given)
    return {one.what: one.calls for _, one in planned}


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
        "looking at the rewrites": 2 * 3 * tested,
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
    uneven = calls(tmp_path, *words[:2], "discover.max_test=null", "discover.parts=[0.31,0.34,0.35]", n_given=1)
    assert uneven["rewriting by ada"] == (7 + 7 + 7) * 2 * 2  # of 6.2, 6.8 and 7
