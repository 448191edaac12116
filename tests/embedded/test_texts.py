"""The shipped texts: how many, how alike the two sides of a contrast are, and that nothing leaks between parts."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from cda.biases import load_bias
from cda.embedded.rules import telling_phrases
from cda.embedded.texts import EMBEDDED_BIASES, PARTS, authored_contrasts, authored_pairs, questions
from cda.features import n_list_lines, n_words

CONTRASTS = [(part, bias) for part in ("audit", "shown", "lessons") for bias in EMBEDDED_BIASES]
WITHIN = 0.15


def test_pairs_have_two_different_sides_and_say_what_is_wrong() -> None:
    for part in ("train", "quality"):
        for one in authored_pairs(part):
            assert one.pair.chosen.strip() != one.pair.rejected.strip()
            assert one.flaw.strip()
            assert one.flaw_kind in {"wrong fact", "wrong step", "misses the point", "incomplete"}
            assert set(one.sound_shows) | set(one.flawed_shows) <= set(EMBEDDED_BIASES)


def test_held_out_quality_does_not_reward_length() -> None:
    ratios = [n_words(one.pair.chosen) / n_words(one.pair.rejected) for one in authored_pairs("quality")]
    assert 0.95 <= np.median(ratios) <= 1.05
    assert 0.8 <= min(ratios) <= max(ratios) <= 1.25


def _ratios(part: str, bias: str) -> list[float]:
    return [n_words(one.perturbed) / n_words(one.base) for one in authored_contrasts(part, [bias])]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("part", "bias"), [one for one in CONTRASTS if one[1] != "length" and one != ("lessons", "structure")]
)
def test_sides_of_a_contrast_have_about_the_same_words(part: str, bias: str) -> None:
    assert all(abs(ratio - 1) <= WITHIN for ratio in _ratios(part, bias))


@pytest.mark.parametrize(("part", "bias"), CONTRASTS)
def test_lists_are_of_structure_alone(part: str, bias: str) -> None:
    for one in authored_contrasts(part, [bias]):  # type: ignore[arg-type]
        lines = n_list_lines(one.perturbed), n_list_lines(one.base)
        assert (lines[0] >= 2 and lines[1] == 0) if bias == "structure" else lines[0] == lines[1]


@pytest.mark.parametrize("bias", ["jargon", "sycophancy", "vagueness"])
def test_word_lists_are_not_taken_from_the_audit(bias: str) -> None:
    """Enough audit texts hold no wording that the rules can write, so that unlearning a list shows as such."""
    offline = load_bias(bias).offline
    assert offline is not None
    contrasts = authored_contrasts("audit", [bias])
    pattern = telling_phrases(offline, [one.base for one in contrasts])
    unseen = np.mean([not pattern.search(one.perturbed) for one in contrasts])
    assert unseen >= 0.3
    # Whole sentences that the rules weave in are in no audit text at all.
    sentences = [*offline.open_with, *offline.weave, *offline.close_with]
    assert sentences
    assert not any(sentence in one.perturbed for sentence in sentences for one in contrasts)


def test_no_question_occurs_twice() -> None:
    asked = [question.strip().lower() for part in PARTS for question in questions(part)]  # type: ignore[arg-type]
    assert len(set(asked)) == len(asked)


def test_parts_share_no_text() -> None:
    texts = {
        part: {text for one in authored_pairs(part) for text in (one.pair.chosen, one.pair.rejected)}  # type: ignore[arg-type]
        for part in ("train", "quality")
    } | {
        part: {text for one in authored_contrasts(part) for text in (one.base, one.perturbed)}  # type: ignore[arg-type]
        for part in ("audit", "shown", "lessons")
    }
    for one, other in itertools.combinations(texts, 2):
        assert not texts[one] & texts[other]
