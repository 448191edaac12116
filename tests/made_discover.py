"""A discovery's result, for tests of what is made of it."""

from __future__ import annotations

from typing import Any

from cda.records import Exclusions
from cda.results.discover import DiscoverResult, MadeFrom, MaterialCounts, SearchedModel, SearchSettings
from cda.results.evidence import ConfirmSettings

MATERIAL = MaterialCounts(
    made=MadeFrom(responses="sampled"), prompts={"train": 40, "validation": 12, "test": 12}, responses=256,
    repeated={"prompts": 0, "responses": 0}, single=0, unanswered=0, unrated=0,
    sampled={"gpt-x": Exclusions(260, {"cut off": 3})}, rewards=Exclusions(257, {"no reward": 1}),
)  # fmt: skip


def discovered(**fields: Any) -> DiscoverResult:
    """A search that found nothing, but for the given fields."""
    nothing: dict[str, Any] = {
        "name": "discover", "given": False, "model": SearchedModel(name="embedded", adapter=None, dose=None),
        "judge": SearchedModel(name="judge:gpt-x", adapter=None, dose=None), "by": "gpt-x",
        "rewriters": ("gpt-x", "gpt-y"), "n_rewriters": 2, "settings": {}, "strictness": ConfirmSettings(),
        "search": SearchSettings(populations=(2, 1), prompts=(16,), directions=("add", "remove")), "material": MATERIAL,
        "generations": (), "candidates": {}, "validation": None, "tested": (), "n_test_prompts": 12, "already": {},
        "verdicts": None, "cut_for_judge": 0, "pairs": {}, "strength": None, "lineage": {}, "seed": 42,
        "versions": {"cda": "0.1"}, "stages": {}, "grouping": {}, "earlier_tests": 0,
    }  # fmt: skip
    return DiscoverResult(**nothing | fields)
