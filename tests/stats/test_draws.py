"""Random streams, and samples of rows."""

from __future__ import annotations

import pytest

from cda.stats.draws import Stream, drawn, generator


def test_every_stream_and_seed_draws_its_own_and_the_same_again() -> None:
    first = {(seed, stream): tuple(generator(seed, stream).random(3)) for seed in (0, 1, 42) for stream in Stream}
    again = {(seed, stream): tuple(generator(seed, stream).random(3)) for seed in (0, 1, 42) for stream in Stream}
    assert first == again
    assert len(set(first.values())) == len(first)
    assert tuple(generator(42, Stream.REWRITTEN, 0).random(3)) != tuple(generator(42, Stream.REWRITTEN, 1).random(3))


@pytest.mark.parametrize("most", [None, 9, 8, 3, 1])
def test_draws_are_distinct_and_in_order(most: int | None) -> None:
    items = [f"i{row}" for row in range(8)]
    found = drawn(items, most, 7)
    assert found == sorted(set(found)) and len(found) == min(len(items), most or 8)
    assert most in (None, 9, 8, 1) or found != drawn(items, most, 8)
