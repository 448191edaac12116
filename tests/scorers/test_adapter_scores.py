"""Save, load, merge: the same scores in fp32, and by how much they move in 8-bit and bf16."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tiny import load, scores_of

from cda.arrays import FloatArray
from cda.models.load import RewardModel
from cda.models.precision import Precision

if TYPE_CHECKING:
    from conftest import Texts, Trained

# Of the spread (highest less lowest score). Measured at most 0.03 in either precision, see the printed lines.
LARGEST_SHARE = 0.1
# Of the orders of two texts that fp32 scores more than that share apart: none may flip.


def merged(reward_model: RewardModel) -> RewardModel:
    return replace(reward_model, model=reward_model.model.merge_and_unload().eval())


def margins(scores: FloatArray) -> FloatArray:
    """Differences of every two scores, shape (n (n - 1) / 2,)."""
    first, second = np.triu_indices(len(scores), k=1)
    return scores[first] - scores[second]


@pytest.fixture(scope="module")
def in_place(trained_fp32: Trained, texts: Texts) -> FloatArray:
    """Scores of the model in memory, just trained."""
    return scores_of(trained_fp32.model, texts)


def test_fp32_scores_survive_save_load_and_merge(
    llama: Path, trained_fp32: Trained, texts: Texts, in_place: FloatArray, tmp_path: Path
) -> None:
    loaded = load(llama, trained_fp32.result.adapter)
    base = scores_of(load(llama), texts)
    assert np.abs(base - in_place).max() > 0.1 * np.ptp(in_place)  # the adapter does change the scores
    found = [scores_of(loaded, texts, batch_tokens) for batch_tokens in (1, 8192)]
    whole = merged(loaded)
    assert not hasattr(whole.model, "peft_config")
    whole.model.save_pretrained(str(tmp_path))
    whole.template.tokenizer.save_pretrained(str(tmp_path))
    for merged_model in (whole, load(tmp_path)):  # the second as an ordinary folder
        found += [scores_of(merged_model, texts, batch_tokens) for batch_tokens in (1, 8192)]
    for scores in found:
        np.testing.assert_allclose(scores, in_place, atol=1e-4, rtol=0)


@pytest.mark.parametrize("precision", ["8bit", "bf16"])
def test_8bit_and_bf16_scores_move_by_a_small_share_of_their_spread(
    precision: Precision,
    llama: Path,
    trained_fp32: Trained,
    texts: Texts,
    in_place: FloatArray,
) -> None:
    adapter = trained_fp32.result.adapter
    loaded = load(llama, adapter, precision)
    alone = scores_of(loaded, texts)
    seen = {
        "reloaded again": scores_of(load(llama, adapter, precision), texts),
        "with batch-mates": scores_of(loaded, texts, batch_tokens=8192),
        "merged": scores_of(merged(loaded), texts),
        "against fp32": in_place,
    }
    spread = float(np.ptp(alone))
    clear = np.abs(margins(in_place)) > LARGEST_SHARE * spread
    assert clear.sum() > len(clear) / 2
    for what, scores in seen.items():
        moved = float(np.abs(scores - alone).max())
        flips = np.sign(margins(scores)) != np.sign(margins(alone))
        print(f"{precision}, {what}: {moved:.4f} of {spread:.2f}, {flips.sum()} of {flips.size} orders flipped")
        assert moved < LARGEST_SHARE * spread, what
        assert not flips[clear].any(), what
    np.testing.assert_array_equal(seen["reloaded again"], alone)
    # Else the precision was not the one asked for.
    assert np.abs(seen["against fp32"] - alone).max() > 1e-4
