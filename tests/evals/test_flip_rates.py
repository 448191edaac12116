"""The eval of flips: what the rules put in they take out again, and what is left out has its reason."""

from __future__ import annotations

from typing import Any

from cda.biases import load_bias
from cda.records import user_prompt

ITEMS = "- Use the lamp.\n- Use the pan."


def test_kept_rewrites_have_flipped_and_all_others_have_a_reason() -> None:
    from evals.method.flip_rates import by_rules, together

    rates = _rates("structure", 5)
    assert together(rates, "add").hits == [True] * 10
    assert together(rates, "back").hits == [True] * 10
    assert all(one.is_accounted_for for one in rates.values())
    prompt = user_prompt("q")
    found = by_rules(load_bias("structure"), [(prompt, ITEMS), (prompt, "No list here.")], "remove")
    assert found.texts[1] is None and found.texts[0] is not None
    assert found.reasons == {"the measure finds the original as it should become": 1} or found.reasons == {
        "unchanged": 1
    }
    assert found.kept == [(prompt, found.texts[0])] and found.is_accounted_for
    assert found.to_json()["hits"] == 1 and found.to_json()["n"] == 2


def test_what_authors_wrote_is_beyond_the_rules_for_flattery() -> None:
    from evals.method.flip_rates import together

    rates = _rates("sycophancy", 10)
    assert together(rates, "back").hits == [True] * 20
    assert sum(together(rates, "remove").hits) <= 3
    assert sum(sum(one.reasons.values()) for name, one in rates.items() if name.startswith("remove")) >= 17


def test_every_triple_counts_by_its_readers() -> None:
    from evals.method.flip_rates import triple_cells

    cells = triple_cells()
    assert len(cells) == 10 and all(len(one.hits) == 40 for one in cells.values())
    assert sum(sum(one.hits) for one in cells.values()) == 399


def _rates(name: str, limit: int) -> dict[str, Any]:
    from evals.method.flip_rates import rule_rates

    found: dict[str, Any] = rule_rates(load_bias(name), limit)
    return found
