"""Frames of results: the same plain columns for all, one row a number, and every level declared."""

from __future__ import annotations

import types
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from made_audits import KINDS, make_audit
from made_discover import discovered
from made_dose import held_out, made_dose
from pydantic import BaseModel

import cda
from cda.numbers.frames import FIRST, ITEMS, KEYS, LAST, PLACES, rows_of
from cda.results.base import Estimate, Missing, Number
from cda.results.effects import Level
from cda.results.kinds import KINDS as RESULTS

TOPICS = ("home", "music")
PAIRS = [
    {"prompt": f"Question {n}?", "chosen": "A good answer." if n % 4 else "Good.", "rejected": "Bad one." if n % 3 else "- bad\n- one",
     "topic": TOPICS[n % 2], "subset": TOPICS[n % 2]}
    for n in range(48)
]  # fmt: skip


def longer(prompts: list[Any], responses: list[str]) -> list[int]:
    assert len(prompts) == len(responses)
    return [len(response) for response in responses]


def levels(rows: list[dict[str, object]]) -> list[str]:
    return [name for name in rows[0] if name not in (*FIRST[3:], *LAST)]


def assert_tidy(result: Any) -> None:
    """Columns first as promised, no dotted names, and no two rows that differ by nothing but their values."""
    rows = rows_of(result)
    assert rows and tuple(rows[0])[: len(FIRST)] == FIRST and tuple(rows[0])[-len(LAST) :] == LAST
    assert all(tuple(row) == tuple(rows[0]) for row in rows)
    assert not [row for row in rows if "." in str(row["measure"]) or " " in str(row["measure"]) or not row["measure"]]
    places = [tuple(row[name] for name in levels(rows)) for row in rows]
    assert len(set(places)) == len(places), sorted(place for place in places if places.count(place) > 1)


@pytest.mark.parametrize("name", KINDS)
def test_audits_are_tidy_whether_measured_or_read(name: str, tmp_path: Path) -> None:
    audit = make_audit(**KINDS[name])
    assert_tidy(audit)
    audit.save(tmp_path / "audit.json")
    read = cda.load(tmp_path / "audit.json")
    assert isinstance(read, cda.Audit) and rows_of(read) == rows_of(audit)
    rows = {(row["measure"], row["bias"], row["moment"]) for row in rows_of(audit)}
    found = [each for each in audit.numbers if isinstance(each.found, Estimate)]
    assert found and {(each.measure, each.at.get("bias", ""), each.moment) for each in found} <= rows


def test_a_table_of_biases_by_moment_is_one_pivot() -> None:
    pytest.importorskip("pandas")
    audit = make_audit(**KINDS["voted"])
    frame = audit.to_frame()
    table = frame[frame.measure == "skew"].pivot(index="bias", columns="moment", values="value")
    for bias, skew in audit.skew.items():
        trained = skew.of_training()
        assert tuple(table.loc[bias, ["before", "after", "change"]]) == (
            trained.before.value, trained.after.value, trained.change.value,
        )  # fmt: skip
    own = audit.numbers.where("skew", "change").to_frame()
    assert list(own.columns[:7]) == list(FIRST) and list(own.bias) == list(audit.skew)


def test_data_quality_and_policies_are_tidy_with_their_levels_in_columns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pandas")
    monkeypatch.chdir(tmp_path)
    data = cda.audit_data(PAIRS, biases=["length", "structure"], by="topic", progress=False)
    assert_tidy(data)
    frame = data.to_frame()
    rate = frame[(frame.measure == "chosen_responses") & (frame.bias == "length")]
    assert list(rate.topic) == list(TOPICS) and set(rate.n) == {24}
    whole = frame[(frame.measure == "chosen_rate") & (frame.bias == "length")].iloc[0]
    assert whole.topic == "" and whole.value == data.bias("length").contingency.chosen_rate.value  # type: ignore[union-attr]
    quality = cda.quality(longer, PAIRS, progress=False)
    assert_tidy(quality)
    assert set(quality.to_frame().section) == {"", *TOPICS}
    lengths = [{"prompt": f"Q {n}?", "responses": ["so " * (1 + (n + k) % 9) for k in range(8)]} for n in range(12)]
    policies = cda.best_of(longer, lengths, biases="length", progress=False)
    assert_tidy(policies)
    curve = policies.to_frame().query("measure == 'mean'")
    assert curve.responses.is_monotonic_increasing and curve.value.is_monotonic_increasing


def test_doses_and_discoveries_are_tidy() -> None:
    held = {"jargon": held_out(0.4, 0.1, 0.05, None), "length": held_out(0.3, 0.1, 0.05, None)}
    assert_tidy(made_dose(held))
    assert rows_of(discovered()) == []
    with pytest.raises(cda.DataError, match="not finished"):
        cda.Discovery(Path("runs/x"), "3 candidates to review").to_frame()


def parts(kind: Any, field: str, seen: tuple[Any, ...], levels: tuple[str, ...] = ()) -> Iterator[tuple[str, str]]:
    """Fields on the way to an estimate that hold several, each with what is wrong about its declaration; empty if nothing is."""
    origin, given = typing.get_origin(kind), typing.get_args(kind)
    if kind in (Estimate, Missing, Number) or kind in seen:
        return
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        for name, info in kind.model_fields.items():
            full = f"{kind.__name__}.{name}"
            yield from parts(info.annotation, name, (*seen, kind), KEYS.get(full, KEYS.get(name, ())))
    elif origin in (typing.Union, types.UnionType, typing.Annotated):
        for each in given if origin is not typing.Annotated else given[:1]:
            yield from parts(each, field, seen, levels)
    elif origin is not None and isinstance(origin, type) and issubclass(origin, Mapping):
        if estimates(given[1]):
            yield field, "" if levels else "no level of its names is declared in KEYS"
        yield from parts(given[1], field, seen, levels[1:])
    elif origin in (tuple, list) and given[0] is not Number and estimates(given[0]):
        own = _declared(given[0]) or field in PLACES or field == "policies"
        yield field, "" if own else f"neither {given[0]} in ITEMS nor the list in PLACES"
        yield from parts(given[0], field, seen, levels)


def _declared(kind: Any) -> bool:
    return any(each.__name__ in ITEMS or each is Level for each in getattr(kind, "__mro__", ()))


def estimates(kind: Any, seen: tuple[Any, ...] = ()) -> bool:
    """True if a type holds an estimate, however deep."""
    if kind is Estimate:
        return True
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return kind not in seen and any(estimates(i.annotation, (*seen, kind)) for i in kind.model_fields.values())
    return any(estimates(each, seen) for each in typing.get_args(kind))


@pytest.mark.parametrize("name", RESULTS)
def test_every_level_of_every_result_is_declared(name: str) -> None:
    found = list(parts(RESULTS[name], "", ()))
    assert found and [(field, wrong) for field, wrong in found if wrong] == []
