"""`cda.quality` and `cda.best_of`: objects and rows in, typed results out, the same as the commands'."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas
import pytest

import cda
from cda.report.scoring import accuracy_of

PAIRS = [
    {"prompt": f"Question {n}?", "chosen": "A good answer." if n % 4 else "Good.", "rejected": "Bad one.",
     "subset": "facts" if n % 2 else "tone"}
    for n in range(24)
]  # fmt: skip


def longer(prompts: list[Any], responses: list[str]) -> list[int]:
    assert len(prompts) == len(responses)
    return [len(response) for response in responses]


def shorter(prompts: list[Any], responses: list[str]) -> list[int]:
    return [-reward for reward in longer(prompts, responses)]


def assert_saved(result: cda.Quality | cda.BestOf | cda.Dose) -> None:
    result.save("result.json")
    again = cda.load("result.json")
    assert isinstance(again, type(result)) and again.model_dump() == result.model_dump()


def test_accuracy_of_a_function_and_of_two() -> None:
    found = cda.quality(longer, PAIRS, progress=False)
    (facts,) = found.sets
    assert accuracy_of(facts.overall, "model").value == 18 / 24
    assert facts.labels == ("model",) and [group.name for group in facts.sections] == ["tone", "facts"]
    both = cda.quality(longer, pandas.DataFrame(PAIRS), against=shorter, progress=False)
    change = accuracy_of(both.sets[0].overall, "change")
    assert both.labels == ("first", "second") and change.value == -0.5
    assert_saved(both)
    both.report("page.html")
    assert both.folder is not None and cda.load(both.folder).model_dump() == both.model_dump()
    assert Path("page.html").read_text() == (both.folder / "report.html").read_text()
    assert "Question" not in str(both) and "facts" in str(both)
    frame = both.to_frame()
    assert set(frame[frame.measure == "accuracy"].unit) == {"share", "share difference"}
    fell = frame[(frame.section == "facts") & (frame.moment == "change")].iloc[0]
    assert fell.n == 12 and fell.p_holm == both.sets[0].sections[1].test.p_holm  # type: ignore[union-attr]


def test_a_win_rate_of_rows() -> None:
    first = [{"prompt": f"Question {n}?", "response": "A long answer."} for n in range(10)]
    other = ["The longest answer of all.", *["Short."] * 9]
    second = [{"prompt": f"Question {n}?", "response": response} for n, response in enumerate(other)]
    found = cda.quality(longer, first, over=second, progress=False)
    assert accuracy_of(found.sets[0].overall, "model").value == found.sets[0].win_rates["model"].wins.value == 0.9
    assert found.sets[0].win_rates["model"].test.p_value == pytest.approx(22 / 1024)
    assert_saved(found)
    with pytest.raises(AttributeError, match=r"use quality\(model, first, over=second\)"):
        cda.win_rate  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(AttributeError, match=r"use compare\(folder\)"):
        cda.leaderboard  # type: ignore[attr-defined]  # noqa: B018


def test_what_does_not_go_together_is_said() -> None:
    def twin(prompts: list[Any], responses: list[str]) -> list[int]:
        return shorter(prompts, responses)

    twin.__name__ = "longer"
    with pytest.raises(cda.RecipeError, match="two objects of the name longer"):
        cda.quality(longer, PAIRS, against=twin)
    with pytest.raises(cda.RecipeError, match="data: has no effect"):
        cda.quality(longer, PAIRS, data={"split": "test"})
    with pytest.raises(cda.CdaError, match="takes none"):
        cda.quality(longer, PAIRS, adapter="nowhere")

    def compares(prompts: list[Any], first: list[str], second: list[str]) -> list[float]:
        return [0.0 for _ in zip(prompts, first, second, strict=True)]

    with pytest.raises(cda.ModelError, match="compares two answers"):
        cda.best_of(compares, [{"prompt": "a", "responses": ["b", "c"]}, {"prompt": "d", "responses": ["e", "f"]}])
