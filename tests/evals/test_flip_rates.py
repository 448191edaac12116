"""The eval of flips: what the rules put in they take out again, and what is left out has its reason."""

from __future__ import annotations


def test_every_triple_counts_by_its_readers() -> None:
    from evals.method.flip_rates import triple_cells

    cells = triple_cells()
    assert len(cells) == 10 and all(len(one.hits) == 40 for one in cells.values())
    assert sum(sum(one.hits) for one in cells.values()) == 399
