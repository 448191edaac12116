"""Discoveries next to each other: recall and effects with known answers, and what cannot be compared."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_discover import discovered
from page_checks import checked, figures, words

import cda
from cda.comparing.discoveries import compare_discoveries, discoveries_document
from cda.discovery.attribute import attribute_bias
from cda.discovery.held_out import confirm
from cda.errors import RecipeError
from cda.records import user_prompt
from cda.results.base import Estimate, Missing
from cda.results.comparison import DiscoveriesResult
from cda.results.discover import CandidateRecord, DiscoverResult, Measured, TestedAttribute
from cda.results.evidence import ConfirmSettings


def found(lifts: dict[str, float]) -> tuple[TestedAttribute, ...]:
    """Attributes as the test finds them on ten prompts with two rewriters: rewarded by so much, which the judge never prefers."""
    biases = {(one := CandidateRecord.of(attribute_bias(name))).id: one for name in lifts}
    rows = {
        one.id: [
            Measured(
                one.id, rewriter, "add", user_prompt(f"{at}?"), "without", "with", lift + 0.1 * (at % 2 - 0.5), 0.0
            )
            for rewriter in ("gpt-x", "gpt-y")
            for at in range(10)
        ]
        for one, lift in zip(biases.values(), lifts.values(), strict=True)
    }
    tested = confirm(rows, ConfirmSettings(), {name: {"gpt-x": {}, "gpt-y": {}} for name in rows})
    return tuple(
        TestedAttribute(**dict(each), attribute=biases[each.candidate].attribute, name="x", examples=())
        for each in tested
    )


@pytest.fixture
def three() -> dict[str, DiscoverResult]:
    """Bold and lists by the first; bold and emoji by the second, which sees no reward in lists; nothing by the third."""
    first, second = (
        {"Bold openings": 2.0, "Many lists": 1.0},
        {"bold  openings.": 3.0, "Emoji": 0.5, "Many lists": -1.0},
    )
    return {
        "a": discovered(tested=found(first), strength={"0.5": 1.5}),
        "b": discovered(tested=found(second), n_test_prompts=10),
        "c": discovered(),
    }


def test_recall_is_of_what_all_confirmed_together_and_effects_stand_side_by_side(
    three: dict[str, DiscoverResult],
) -> None:
    result = compare_discoveries(three)
    recall = {name: one.recall for name, one in result.discoveries.items()}
    assert all(isinstance(one, Estimate) and one.n == 3 for one in recall.values())
    assert [one.value for one in recall.values() if isinstance(one, Estimate)] == pytest.approx([2 / 3, 2 / 3, 0])
    effects = {
        one.attribute: (one.confirmed, {name: one.effect[name].value for name in one.effect})
        for one in result.found_by_any
    }  # type: ignore[union-attr]
    assert effects == {
        "Bold openings": (("a", "b"), pytest.approx({"a": 2.0, "b": 3.0})),
        "Many lists": (("a",), pytest.approx({"a": 1.0, "b": -1.0})),
        "Emoji": (("b",), pytest.approx({"b": 0.5})),
    }
    document = discoveries_document(result)
    text, page = words(document.page()), checked(document.page())
    assert "a: confirmed 2 of the 3 attributes" in text and "They tested on different numbers of prompts" in text
    assert figures(page) == ["recall", "effect-1", "effect-2", "effect-3"]
    assert "not tested" in text and "3 discoveries compared" in text


def test_recall_is_shared_by_discoveries_of_one_model_and_judge_alone(three: dict[str, DiscoverResult]) -> None:
    other = three["b"].model_copy(update={"model": three["b"].model.model_copy(update={"name": "other"})})
    given = three["a"].model_copy(update={"given": True})
    result = compare_discoveries({"a": three["a"], "b": other, "given": given})
    assert result.discoveries["b"].recall == Missing(reason="no other of this model and judge")
    assert result.discoveries["given"].recall == Missing(reason="given attributes, not searched for")
    own = result.discoveries["a"].recall
    assert isinstance(own, Estimate) and (own.value, own.n) == (1.0, 2)
    assert "rewards have other units there" in discoveries_document(result).markdown()


def test_folders_of_discoveries_are_compared_and_other_things_refused(
    three: dict[str, DiscoverResult], tmp_path: Path
) -> None:
    for name, one in three.items():
        one.save(tmp_path / name / "discover.json")
    result = cda.compare(tmp_path / "a", tmp_path / "b" / "discover.json", out=tmp_path / "both")
    assert isinstance(result, DiscoveriesResult) and len(result.found_by_any) == 3
    assert cda.load(tmp_path / "both" / "comparison") == result
    for targets, why in (
        ((tmp_path / "a", "embedded"), "is compared with discoveries; found embedded too"),
        ((tmp_path / "a",), "give two or more discoveries"),
    ):
        with pytest.raises(RecipeError, match=why):
            cda.compare(*targets, out=tmp_path / "none")
    with pytest.raises(RecipeError, match="limit: no effect on discoveries"):
        cda.compare(tmp_path / "a", tmp_path / "b", limit=3, out=tmp_path / "none")
