"""Effects, drift, RATE and rewards of an audit as a file: what is read is what was written, and of the same types."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from changed import changed
from made_rate import made_rate

from cda.errors import DataError
from cda.results.audit import AuditResult
from cda.results.base import Missing, Saved, load, save
from cda.results.effects import (
    BiasDrift,
    BiasEffects,
    Effect,
    Identified,
    NotIdentified,
    PairsEffect,
    RewardSpread,
    SameMargin,
)
from cda.results.rate import BiasRate, NotEstimated, RateEffects
from cda.stats.clustered import same_in_all


class Parts(Saved):
    """The parts of an audit that are looked at here."""

    schema_version: Literal[1] = 1
    effects: dict[str, BiasEffects]
    drift: dict[str, BiasDrift]
    rate: dict[str, BiasRate]
    rewards: RewardSpread | Missing


def parts(audit: AuditResult) -> Parts:
    return Parts(effects=audit.effects, drift=audit.drift, rate=audit.rate, rewards=audit.rewards)


def again(found: Parts, folder: Path) -> Parts:
    save(found, folder / "parts.json")
    return load(Parts, folder / "parts.json", "cda audit")


@pytest.mark.parametrize("name", ["one_model", "judge", "voted", "trained"])
def test_a_file_holds_what_was_measured(
    name: str, make_audit: Any, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    audit = make_audit(rate=True) if name == "trained" else request.getfixturevalue(name)
    assert again(parts(audit), tmp_path) == parts(audit)


def test_every_kind_of_effect_keeps_its_type(one_model: AuditResult, tmp_path: Path) -> None:
    same = same_in_all(np.ones(9), [f"p{row}" for row in range(9)], "nothing varies")
    whole = one_model.effects["jargon"].before
    assert isinstance(whole.direct, Effect) and isinstance(whole.identification, Identified)
    not_identified = NotIdentified(**{**dict(whole.identification), "verdict": "not identified from these pairs"})
    kinds: list[tuple[str, Any]] = [
        ("direct", same), ("direct", Missing(reason="one prompt only")), ("direct", whole.direct),
        ("identification", not_identified), ("identification", Missing(reason="one prompt only")),
        ("identification", changed(whole.identification, "overlap_effect", same)),
        ("identification", changed(whole.identification, "overlap_effect", Missing(reason="overlap too small"))),
        ("identification", changed(whole.identification, "adjusted.linear", Missing(reason="two prompts"))),
    ]  # fmt: skip
    for place, value in kinds:
        made = parts(changed(one_model, f"effects.jargon.before.{place}", value))
        found = again(made, tmp_path)
        assert found == made
        read = getattr(found.effects["jargon"].before, place)
        assert type(read) is type(value)
        if not isinstance(value, Effect | SameMargin | Missing):
            assert type(read.overlap_effect) is type(value.overlap_effect)
            assert {form: type(one) for form, one in read.adjusted.items()} == {
                form: type(one) for form, one in value.adjusted.items()
            }
    assert isinstance(whole.identification.overlap_effect, PairsEffect)


@pytest.mark.parametrize("value", [0.5, None])
def test_rate_keeps_what_is_estimated_and_what_is_not(
    value: float | None, one_model: AuditResult, tmp_path: Path
) -> None:
    rate = made_rate(value)
    found = again(parts(one_model.model_copy(update={"rate": {"jargon": rate}})), tmp_path).rate["jargon"]
    assert found == rate
    assert list(found.under()) == ["before", "after"]
    assert isinstance(found.under()["after"].average, Missing) == (value is None)


def test_an_effect_that_is_not_estimated_says_why() -> None:
    gap = NotEstimated(estimand="ATE", estimator="double", reason="W is constant")
    found = RateEffects(effects=(), not_estimated=(gap,), n_with=3, n_without=0)
    assert found.find("ATE", "double") == gap
    with pytest.raises(DataError, match="W is constant"):
        found.get("ATE", "double")
    assert "none of the effects" in str(found.find("LATE", "double"))


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("effects", "jargon", "before", "direct", "p_value"), "small"),
        (("effects", "jargon", "before", "identification", "verdict"), "perhaps"),
        (("effects", "jargon", "before", "direct"), {}),
        (("drift", "jargon", "n"), None),
        (("rate", "jargon", "flips", "by"), 7),
        (("rewards", "contrasts", "of", "jargon", "before"), []),
    ],
)
def test_a_changed_file_is_refused_by_its_place(
    place: tuple[str, ...], value: Any, one_model: AuditResult, tmp_path: Path
) -> None:
    path = tmp_path / "parts.json"
    save(parts(one_model), path)
    content = json.loads(path.read_text(encoding="utf-8"))
    inner = content
    for key in place[:-1]:
        inner = inner[key]
    assert place[-1] in inner
    inner[place[-1]] = value
    path.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(DataError, match=rf"at {place[0]}.*run `cda audit` again"):
        load(Parts, path, "cda audit")
    path.write_text(path.read_text(encoding="utf-8")[:-9], encoding="utf-8")
    with pytest.raises(DataError):
        load(Parts, path, "cda audit")
