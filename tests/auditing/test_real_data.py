"""The form of command that the README shows for a user's own data, checked on real preferences and real votes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cda.pipeline import plan
from cda.recipe.load import load_recipe
from cda.resources.sources import audit_inputs, load_pairs

ROOT = Path(__file__).parent.parent.parent
DATA = Path(os.environ.get("CDA_DATA", ROOT.parent / "shared" / "data")) / "fff"
pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason=f"public research data absent: {DATA} (set CDA_DATA)")

OVERRIDES = [
    f"data.pairs={DATA}/data/chatbot_arena_labeled_data/chatbot_arena_jargon_labeled.jsonl",
    "data.columns={prompt: query, chosen: chosen_response, rejected: rejected_response}",
    f"audit.contrasts={DATA}/human_annotation_data/jargon/jargon_grouped_human_annotations.json",
    "audit.columns={prompt: query, biased: more_jargony_response, preferred: most_frequent_preference}",
]


def test_arena_preferences_load_and_every_row_is_accounted_for() -> None:
    loaded = load_recipe("jargon", OVERRIDES)
    data = loaded.recipe.data
    cleaned = load_pairs(data.pairs, data.split, data.columns, "data.columns")
    assert cleaned.exclusions.seen == 750
    assert len(cleaned.pairs) + cleaned.exclusions.dropped == 750
    assert len(cleaned.pairs) >= 740


def test_human_votes_give_the_released_human_skew() -> None:
    """20.88% of 91 majorities prefer the jargon side: the release's own figure."""
    contrasts = audit_inputs(load_recipe("jargon", OVERRIDES)).contrasts().contrasts
    voted = [one for one in contrasts if one.preferred in ("perturbed", "base")]
    assert len(contrasts) == 100 and len(voted) == 91
    assert sum(one.preferred == "perturbed" for one in voted) / 91 == pytest.approx(0.2088, abs=1e-4)


def test_a_wrong_column_is_named_with_the_right_ones() -> None:
    from cda.errors import CdaError

    loaded = load_recipe(
        "jargon", [OVERRIDES[0], "data.columns={prompt: querry, chosen: chosen_response, rejected: no}"]
    )
    with pytest.raises(CdaError) as error:
        plan.check(loaded)
    message = str(error.value)
    assert "no column 'querry'. Did you mean 'query'?" in message and "no column 'no'" in message
