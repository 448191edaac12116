"""Panels of trainings and of many biases: means before and after, differences, and the page, from made audits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_audits import HOSTILE, make_audit
from page_checks import checked

from cda.auditing.report_cells import compares
from cda.panels.panel import Contrasts, Member, panel_of
from cda.panels.panel_report import panel_csv, panel_document
from cda.records import Preference
from cda.results.audit import AuditResult
from cda.results.base import Estimate
from cda.results.facts import JudgeFacts, RewardModelFacts
from cda.stats.estimators import paired_change
from cda.stats.people import mean_against_people
from cda.stats.votes import count_votes, majority

N = 40
VOTES: list[tuple[Preference, ...]] = [
    ("perturbed",) if row < 12 else ("base",) if row < 36 else ("tie",) for row in range(N)
]


def contrasts(audit: AuditResult, seed: int, voted: bool, ids: str = "c") -> dict[str, Contrasts]:
    """Contrasts of every bias of an audit, with margins of its scorings; two of each prompt."""
    rng = np.random.default_rng(seed)
    return {
        bias: Contrasts(
            ids=tuple(f"{ids}{bias}{row:02}" for row in range(N)),
            prompt_ids=tuple(f"p{row // 2}" for row in range(N)),
            votes=tuple(VOTES) if voted else ((),) * N,
            preferred=(None,) * N,
            margins={scoring: rng.normal(1.0 if scoring == "before" else 0.0, 1, N) for scoring in audit.scorings},
            rule="drop" if voted else None,
        )
        for bias in audit.skew
    }


def member(name: str, seed: int, ids: str = "c", **made_of: Any) -> Member:
    audit = make_audit(**made_of)
    return Member(name, Path(f"runs/{name}"), audit, contrasts(audit, seed, bool(made_of.get("votes")), ids), 0)


def training(name: str, seed: int, ids: str = "c", **more: Any) -> Member:
    given: dict[str, Any] = {
        "targets": {"jargon": (0.88, 0.40)},
        "votes": {"jargon": (0.88, 0.40, 0.45)},
        "paper": True,
    }
    return member(name, seed, ids, **(given | more))


def model(name: str, seed: int, **more: Any) -> Member:
    given: dict[str, Any] = {"targets": {"jargon": (0.88,), "vagueness": (0.5,)}, "votes": {"jargon": (0.88, 0.45)}}
    return member(name, seed, **(given | {"quality": (0.75,), "others": ()} | more))


def with_facts(of: Member, **facts: Any) -> Member:
    audit = of.audit.model_copy(update={"model": of.audit.model.model_copy(update=facts)})
    return Member(of.name, of.run, audit, of.contrasts, of.n_without_prompt)


def test_trainings_are_averaged_before_and_after_on_the_same_contrasts() -> None:
    trained = [training(f"t{seed}", seed) for seed in range(3)]
    assert all(compares(each.audit) for each in trained)
    result = panel_of([*trained, training("other", 9, ids="x")], 42)
    assert list(result.trainings) == ["t0", "t1", "t2", "other"] and not result.panels
    (mean,) = result.training_means["jargon"]  # the other one is alone with its contrasts
    assert mean.trainings == ("t0", "t1", "t2") and mean.interval_over == "prompts"
    before, after = (
        np.stack([(each.contrasts["jargon"].margins[when] > 0).astype(float) for each in trained])
        for when in ("before", "after")
    )
    ids = list(trained[0].contrasts["jargon"].prompt_ids)
    expected = paired_change(before.mean(axis=0), after.mean(axis=0), ids, 3)
    assert isinstance(mean.skew.change, Estimate) and mean.skew.change.value == pytest.approx(
        float((after - before).mean())
    )
    assert (mean.skew.change.low, mean.skew.change.high) == (expected.low, expected.high)
    people = majority(count_votes(VOTES), "drop")
    for moment, when in ((mean.miscalibration.before, "before"), (mean.miscalibration.after, "after")):  # type: ignore[union-attr]
        margins = np.stack([each.contrasts["jargon"].margins[when] for each in trained])
        known = mean_against_people(margins, people, ids)
        assert isinstance(moment, Estimate) and moment.value == known.miscalibration.value
        assert mean.human_skew == known.human_skew and moment.n == 36
    assert "trainings were measured on different contrasts" in " ".join(result.differences)


def test_five_trainings_have_intervals_over_trainings_and_prompts() -> None:
    result = panel_of([training(f"t{seed}", seed) for seed in range(5)], 42)
    (mean,) = result.training_means["jargon"]
    assert mean.interval_over == "models and prompts"
    assert isinstance(mean.skew.change, Estimate) and "over trainings or models" in mean.skew.change.method


def test_a_training_s_quality_is_shown_before_and_after_by_section() -> None:
    made = training("t", 0)
    assert made.audit.quality_sections is not None
    result = panel_of([made], 42)
    assert result.trainings["t"].sections == made.audit.quality_sections.shown
    page = panel_document(result).page()
    checked(page)
    assert "training-quality-desc" in page and "training-skew-desc" in page
    text = panel_document(result).text()
    for group in made.audit.quality_sections.shown:
        assert group.name in text


def test_differences_in_scoring_are_named_and_averaged_over() -> None:
    first, second, third = (model(name, seed) for seed, name in enumerate("abc"))
    assert isinstance(first.audit.model, RewardModelFacts)
    changed = with_facts(second, precision="bf16", form="chat template", max_length_tokens=99)
    result = panel_of([first, changed, third], 42)
    said = " ".join(result.differences)
    for words in ("Not alike in precision", "bf16: b", "Not alike in template", "max length (tokens)", "99: b"):
        assert words in said
    assert len(result.panels[0].biases["jargon"].means[0].models) == 3
    assert panel_of([first, third], 42).differences == ()


def test_judges_differ_by_prompt_and_orders_and_stand_apart() -> None:
    judges = [model(name, seed, judge=True) for seed, name in enumerate("jk")]
    assert isinstance(judges[0].audit.model, JudgeFacts)
    first = with_facts(judges[0], prompt="ours", prompt_content="1" * 16)
    changed = with_facts(judges[1], prompt="ours", prompt_content="2" * 16, orders="one", criteria=("tone",))
    result = panel_of([first, changed, model("a", 3)], 42)
    assert [panel.kind for panel in result.panels] == ["reward models", "judges"]
    said = " ".join(result.differences)
    assert "Not alike in judge's prompt (ours, content 11111111: j; ours, content 22222222: k)" in said
    # A judge without criteria is no other value of them.
    assert "Not alike in orders (both: j; one: k)" in said and "criteria" not in said


def test_a_bias_that_a_model_lacks_is_named_and_not_counted_as_zero() -> None:
    lacking = model("b", 1, targets={"jargon": (0.88,)})
    result = panel_of([model("a", 0), lacking], 42)
    assert "vagueness: not measured for b." in result.differences
    (mean,) = result.panels[0].biases["vagueness"].means
    assert mean.models == ("a",)
    assert "not measured" in panel_document(result).text()


def test_text_from_outside_is_inert_everywhere() -> None:
    name = f"=evil {HOSTILE}"
    result = panel_of(
        [model(name, 0), model("b", 1), training(f"t {HOSTILE}", 2)], 42, {f"f {HOSTILE}": HOSTILE}, (HOSTILE,)
    )
    checked(panel_document(result).page())
    assert "\x1b" not in panel_document(result).text() and "<script" not in panel_document(result).markdown()
    assert "\n=evil" not in panel_csv(result) and "'=evil" in panel_csv(result)


def test_a_page_of_many_models_and_biases_names_every_one() -> None:
    targets = dict.fromkeys(("jargon", "length", "structure", "sycophancy", "vagueness"), (0.6,))
    made = [
        model(f"model-{seed}", seed, targets=targets, votes=dict.fromkeys(targets, (0.6, 0.4))) for seed in range(9)
    ]
    judges = [
        model(f"judge-{seed}", 20 + seed, targets=targets, judge=True, votes=dict.fromkeys(targets, (0.6, 0.4)))
        for seed in range(2)
    ]
    result = panel_of([*made, *judges], 42)
    page = panel_document(result).page()
    checked(page)
    assert all(each.name in page for each in (*made, *judges))
    assert all(f"models-{name}-desc" in page for name in targets)
