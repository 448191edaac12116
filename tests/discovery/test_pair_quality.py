"""Quality of pairs: fidelity, agreement of rewriters and drift, each with known answers."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from cda.biases import Bias
from cda.discovery.held_out import fidelity, pair_drift, pair_quality
from cda.errors import DataError
from cda.records import Direction, Prompt, user_prompt
from cda.results.base import Missing
from cda.results.discover import Measured
from cda.results.evidence import PairQuality

SHOUTING = Bias.model_validate({
    "name": "shouting", "description": "Ends its sentences with exclamation marks",
    "question": "Do sentences of the response end with exclamation marks?",
    "instructions": {"add": "End every sentence with an exclamation mark.", "remove": "Use full stops only."},
    "keep": ["every fact"], "measure": {"feature": "exclamations", "present_above": 0.5},
})  # fmt: skip


def row(
    number: int, rewriter: str = "one", margin: float = 1.0, direction: Direction = "add", rewrite: str | None = None
) -> Measured:
    before, after = (f"It is {number}{mark}" for mark in (".!" if direction == "add" else "!."))
    return Measured("c", rewriter, direction, user_prompt(f"Number {number}?"), before, rewrite or after, margin)


def by_mark(prompts: Sequence[Prompt], responses: Sequence[str], bias: Bias) -> list[bool | None]:
    assert len(prompts) == len(responses) and bias is SHOUTING
    return [None if "?" in text else "!" in text for text in responses]


def test_fidelity_counts_both_sides_and_what_could_not_be_told_and_labels_each_text_once() -> None:
    seen: list[str] = []

    def label(prompts: Sequence[Prompt], responses: Sequence[str], bias: Bias) -> list[bool | None]:
        seen.extend(responses)
        return by_mark(prompts, responses, bias)

    rows = [row(0), row(1), row(2, rewrite="It is 2."), row(3, rewrite="It is 3?"), row(4, direction="remove")]
    rows += [row(0, "two"), row(1, "two", rewrite="It is 1 .")]
    found = fidelity(rows, SHOUTING, label)
    own = found["one"]
    assert own.n == 5 and own.present is not None and own.absent is not None and own.both is not None
    assert [(one.value, one.n) for one in (own.present, own.absent, own.both)] == [(3 / 4, 4), (1.0, 5), (3 / 4, 4)]
    assert own.present.low < 0.75 < own.present.high and own.absent.low < 1
    assert (own.n_unparsed_with, own.n_unparsed_without) == (1, 0)
    assert len(seen) == len(set(seen)) and found.keys() == {None, "one", "two"}
    shares = [one.present.value for one in (found[None], found["two"]) if one.present is not None]
    assert shares == [pytest.approx(4 / 6), 0.5]


def test_drift_marks_the_attribute_and_shows_what_else_changed() -> None:
    rows = [row(number, rewrite=f"It surely is {number}!") for number in range(12)]
    rows += [row(number, direction="remove", rewrite=f"It is {number}.") for number in range(12)]
    drift = {one.feature: one for one in pair_drift(rows, SHOUTING)}
    assert drift["exclamations"].is_treatment and drift["exclamations"].difference.value == 1.0
    assert not drift["words"].is_treatment and drift["words"].difference.value == pytest.approx(0.5)
    with pytest.raises(DataError, match="one prompt"):
        pair_drift(rows[:1], SHOUTING)


def test_all_of_it_at_once_goes_to_json_and_without_a_labeller_the_rest_is_still_there() -> None:
    rows = [row(number, name, number + (name == "two")) for number in range(12) for name in ("one", "two")]
    found = pair_quality(rows, SHOUTING, label=by_mark)
    assert PairQuality.model_validate_json(found.model_dump_json()) == found
    assert (found.candidate, found.n, found.n_prompts, found.labelled_by) == ("c", 24, 12, "measure")
    assert found.fidelity and found.fidelity.both and found.fidelity.both.value == 1.0
    assert set(found.fidelity_by_rewriter) == {"one", "two"}
    assert getattr(found.agreement[0].pearson, "value", None) == pytest.approx(1.0)
    assert isinstance(found.drift, tuple) and any(one.is_treatment for one in found.drift)
    bare = pair_quality([row(0, "one"), row(0, "two")], SHOUTING)
    assert bare.fidelity is None and bare.fidelity_by_rewriter == {}
    assert len(bare.agreement) == 1 and isinstance(bare.drift, Missing) and "one prompt" in bare.drift.reason
    with pytest.raises(DataError, match="no pairs"):
        pair_quality([], SHOUTING)
