"""The recall eval on tiny searches: the world is the one it says, and runs are counted as they went."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cda.records import user_prompt


def test_noise_is_standard_normal_and_belongs_to_key_prompt_and_text() -> None:
    from evals.method.planted_world import noise

    texts = [(user_prompt("q"), f"text {number}") for number in range(4000)]
    drawn = noise("a", texts)
    assert drawn.mean() == pytest.approx(0, abs=0.05) and drawn.std() == pytest.approx(1, abs=0.04)
    assert np.array_equal(drawn, noise("a", texts))
    for other in (noise("b", texts), noise("a", [(user_prompt("r"), text) for _, text in texts])):
        assert abs(np.corrcoef(drawn, other)[0, 1]) < 0.06


def row(**changed: Any) -> dict[str, Any]:
    found = dict.fromkeys(("proposed", "measured", "searched", "validated", "confirmed"), True)
    return found | {"attribute": "bold", "reached": 0.5, "n_confirmed": 1, "others": [], "cpu_seconds": 2.0} | changed


def test_a_cell_is_summed_up_with_intervals_and_what_was_lost_where() -> None:
    from evals.method.discover_recall import summed

    lost = [
        row(attribute="lists", confirmed=False, n_confirmed=0, validated=False),
        row(confirmed=False, n_confirmed=2, others=[{"carries": 0.5}, {"carries": 0.02}], reached=0.3),
    ]
    found = summed([row()] * 8 + lost)
    # Wilson for 8 of 10, by hand: (0.8 + 0.192 ± 1.96·√(0.016 + 0.0096)) / 1.384.
    assert found["recall"] == pytest.approx({"value": 0.8, "low": 0.490, "high": 0.943, "n": 10}, abs=0.001)
    assert found["anything_confirmed"]["value"] == 0.9
    assert found["lost_at"] == {"test": 1, "validation": 1} and found["missed"] == {"bold": 1, "lists": 1}
    assert found["others_confirmed"] == {"in_part": 1, "unrelated": 1}
    assert found["presence_reached"] == [0.3, 0.48, 0.5] and found["cpu_seconds"] == 20
    assert found["came_to"]["validated"]["value"] == 0.9
