"""Who takes part: what the judge of a discovery reads in part only gives no preference, and is counted; rewriters that are not there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cda.discovery.setup import Asked, AskedJudge, judge_subject, setup_of
from cda.errors import LLMError, RecipeError
from cda.llm.protocol import Completion, Request
from cda.recipe.load import LoadedRecipe, load_model_audit
from cda.records import user_prompt
from cda.resources.llm_access import LlmAccess
from cda.resources.model_scorers import Classifier
from cda.resources.named_scorer import Subject
from cda.results.evidence import Verdicts
from cda.scorers.compared import Rewards, text_id

PROMPT = user_prompt("question")


class Scripted:
    """An LLM whose answer is a function of what it is shown first and second."""

    name = "scripted"

    def __init__(self, verdict: Callable[[str, str], str | None]) -> None:
        self.verdict = verdict

    def answers(self, requests: Iterable[Request], label: str, total: int | None = None) -> Iterator[Any]:  # noqa: ARG002
        for position, one in enumerate(requests):
            shown = one.user.split("<<<ANSWER ")[1:]
            said = self.verdict(shown[0], shown[1])
            yield position, Completion(f"Because.\nVerdict: {said}" if said else "I cannot say.")


def judge(name: str) -> AskedJudge:
    loaded = load_model_audit(name, {}, [])
    return AskedJudge(Asked(Subject("judge", loaded.recipe.model), loaded))


def by_llm(verdict: Callable[[str, str], str | None], monkeypatch: pytest.MonkeyPatch) -> AskedJudge:
    monkeypatch.setattr(LlmAccess, "client", lambda _: Scripted(verdict))
    return judge("judge:scripted")


def better(first: str, second: str) -> str | None:
    """Prefers `good`; follows the place between two that are `odd`; says nothing on `mute`, nor where `shy` stands first."""
    if "mute" in first + second or "shy" in first:
        return None
    return "1" if "good" in first or "odd" in first + second else "2"


def test_a_verdict_in_one_order_alone_gives_no_preference(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = by_llm(better, monkeypatch)
    sides = [
        ("good", "plain"),
        ("plain", "good"),
        ("odd", "even"),
        ("shy", "plain"),
        ("mute", "plain"),
        ("good", "plain"),
    ]
    found = asked([(PROMPT, first, second) for first, second in sides])
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
    asked = by_llm(better, monkeypatch)
    with pytest.raises(LLMError, match=r"no verdict readable in both orders on any of 1 comparisons .* no verdict in"):
        asked([(PROMPT, "shy", "plain")])


def test_a_side_that_the_judge_read_in_part_gives_no_preference(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rewards = {text_id(PROMPT, text): float(len(text)) for text in ("a", "bb", "ccc")}
    cut = {text_id(PROMPT, "ccc"): "what was left"}
    monkeypatch.setattr(Classifier, "compare", lambda *_: (Rewards(rewards, cut), {}))
    asked = judge("some/reward-model")
    found = asked(
        [(PROMPT, "bb", "a"), (PROMPT, "ccc", "a"), (PROMPT, "a", "ccc"), (PROMPT, "a", "bb"), (PROMPT, "a", "a")]
    )
    assert np.isnan(found[1:3]).all() and found[[0, 3, 4]].tolist() == [1.0, 0.0, 0.5]
    assert (asked.n_cut, asked.verdicts) == (2, None)
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
    with pytest.raises(
        RecipeError, match=r"judge:a,b: a panel of judges; a discovery is held against one, such as judge:a"
    ):
        judge_subject(offline("discover.judge='judge:a,b'"))
