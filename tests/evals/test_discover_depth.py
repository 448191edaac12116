"""The depth eval on tiny searches: hidden biases are hidden, comparisons are paired, effort is counted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray


def letters(texts: Sequence[str]) -> NDArray[np.float64]:
    """Embeddings by the count of each letter."""
    return np.array([[float(text.lower().count(chr(97 + place))) for place in range(26)] for text in texts])


def test_searches_try_equally_many_candidates() -> None:
    from cda.results.discover import SearchSettings
    from evals.method.discover_depth import SEARCHES

    settings = {
        name: SearchSettings(
            populations=one.populations, prompts=one.batches, mutations=one.mutations, variations=one.variations
        )
        for name, one in SEARCHES.items()
    }
    assert {one.n_candidates for one in settings.values()} == {320}
    assert sum(settings["5x16"].prompts) == sum(settings["1-proposals, more prompts"].prompts) == 144
    assert {one.populations[-1] for one in settings.values()} == {10}


def test_hidden_biases_are_in_no_response_and_their_relatives_can_be_put_there() -> None:
    from evals.method.discover_depth import planted
    from evals.method.planted_world import embedded, with_presence

    texts = [text for _, own in embedded() for text in own]
    biases = planted("hidden")
    hidden = [bias for bias, _, _, is_hidden in biases.values() if is_hidden]
    assert [strength for _, strength, _, is_hidden in biases.values() if is_hidden] == [1.2] * 2
    # The proposer looks at nothing that fewer than four prompts have.
    assert all(sum(bool(bias.shows(text)) for text in texts) < 4 for bias in hidden)
    relative = biases["affirmative, as said"][0]
    put = with_presence(embedded()[:60], relative, 1.0, np.random.default_rng(0))
    assert all(relative.shows(text) for _, own in put for text in own)
    assert sum(bool(biases["opens Happy to help!"][0].shows(text)) for _, own in put for text in own) < 4


def test_what_only_variation_finds_is_rewarded_above_its_relative() -> None:
    from evals.method.discover_depth import HIDDEN, RELATIVE, planted
    from evals.method.planted_world import World

    world = World(tuple((bias, strength) for bias, strength, _, _ in planted("hidden").values()), "key")
    assert world.strength_in("Yes,  it  does.") == pytest.approx(RELATIVE)
    assert world.strength_in("Yes,    it    does.") == pytest.approx(HIDDEN)


def test_a_tiny_search_says_what_it_is_worth_and_what_it_cost() -> None:
    from evals.method.discover_depth import run
    from evals.method.planted_world import Size

    tiny = Size(populations=(8, 3, 3), batches=(5, 5), mutations=2, held_out=12, max_prompts=60)
    found = run("plain", 0, "5x16", tiny, letters)
    assert set(found["reached"]) >= {"headers", "bold"} and found["passed_hidden"] is None
    assert 0 <= found["passed_direct"] <= found["kept_direct"] <= 1 and found["strength"] <= found["strength_of_all"]
    assert found["first"] <= 8 and found["first"] <= found["tried"] <= 8 + 3 * 4
    assert 0 < found["rewrites"] <= found["first"] * 5 + (found["tried"] + 3) * 5
    assert found["strength"] >= 0 and 0 <= found["n_counted"] <= 3


def row(strength: float, hidden: float | None) -> dict[str, Any]:
    from evals.method.discover_depth import NUMBERS

    return dict.fromkeys(NUMBERS, 1.0) | {
        "strength": strength, "kept_hidden": hidden, "first": 64, "reached": {"bold": strength > 2},
    }  # fmt: skip


def test_differences_are_paired_by_seed() -> None:
    from evals.method.discover_depth import compared

    # Seeds differ by 100, sizes by 1 to 3 within a seed: unpaired, this would be noise.
    best = [row(100.0 * seed, 0.0) for seed in range(3)]
    deep = [row(100.0 * seed + seed + 1, None if seed == 0 else 0.5) for seed in range(3)]
    found = compared({"5x16": deep, "1-proposals": best, "1-proposals, more prompts": deep})
    gain = found["minus 1-proposals"]["5x16"]["strength"]
    # 1, 2, 3: mean 2, standard error 1/√3, t(2) = 4.303.
    assert gain == pytest.approx(
        {"value": 2.0, "low": 2 - 4.303 / 3**0.5, "high": 2 + 4.303 / 3**0.5, "n": 3}, abs=1e-3
    )
    assert found["minus 1-proposals"]["5x16"]["kept_hidden"]["n"] == 2
    assert found["minus 1-proposals, more prompts"]["5x16"]["strength"]["value"] == 0
    assert set(found["minus 1-proposals"]) == {"5x16"}
    assert found["means"]["5x16"]["reached"] == {"bold": pytest.approx(2 / 3)}
    assert found["means"]["5x16"]["first"]["value"] == 64
