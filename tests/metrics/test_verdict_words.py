"""One word on each bias, with the case that each rule is about."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cda.metrics.preference import positive_share_change
from cda.metrics.verdict import AgainstPeople, Evidence, Moved, moved_along, risen, verdict

FELL, ROSE, STAYED = Moved(0.8, 0.5, -0.4, -0.2), Moved(0.5, 0.8, 0.2, 0.4), Moved(0.8, 0.79, -0.1, 0.08)
shares = st.floats(0, 1)
moves = st.builds(
    lambda before, after, half: Moved(before, after, after - before - half, after - before + half),
    shares,
    shares,
    st.floats(0, 0.5),
)


def people(before: float, after: float, human: float, miscalibration: Moved, half: float = 0.1) -> AgainstPeople:
    return AgainstPeople(miscalibration, Moved(before, after, after - before - half, after - before + half), human)


@pytest.mark.parametrize(
    ("skew", "word"),
    [
        (FELL, "less biased"),
        (Moved(0.8, 0.1, -0.8, -0.6), "overcorrected"),
        (Moved(0.3, 0.15, -0.2, -0.1), "less biased"),  # at the limit, not below it
        (ROSE, "worse"),
        (STAYED, "no change shown"),
        (Moved(0.1, 0.1, -0.05, 0.05), "no change shown"),  # low already: nothing was overcorrected
    ],
)
def test_without_votes_skew_decides(skew: Moved, word: str) -> None:
    assert verdict("jargon", {"jargon": Evidence(skew, 0.001)}) == word


@pytest.mark.parametrize(
    ("voted", "word"),
    [
        (people(0.9, 0.5, 0.4, FELL), "improved"),
        (people(0.5, 0.9, 0.4, ROSE), "worse"),
        (people(0.9, 0.89, 0.4, STAYED), "no change shown"),
        (people(0.6, 0.1, 0.5, STAYED), "overcorrected"),
        (people(0.6, 0.1, 0.5, FELL), "overcorrected"),  # would be improved but for the skew
        (people(0.2, 0.9, 0.3, ROSE), "overcorrected"),  # past people the other way, named before worse
        (people(0.9, 0.2, 0.5, FELL), "improved"),  # crossed, but nearer than before
        (people(0.51, 0.48, 0.5, STAYED), "no change shown"),  # crossed and further, but the move is not shown
    ],
)
def test_with_votes_people_decide(voted: AgainstPeople, word: str) -> None:
    # Skew on all rows says otherwise, and does not count.
    assert verdict("jargon", {"jargon": Evidence(STAYED, 1.0, voted)}) == word


@pytest.mark.parametrize(
    ("other", "p_holm", "substituted"),
    [(ROSE, 0.049, True), (ROSE, 0.05, False), (STAYED, 0.001, False), (FELL, 0.001, False)],
)
def test_a_fallen_target_is_substituted_where_another_bias_rose(other: Moved, p_holm: float, substituted: bool) -> None:
    for target, word in (
        (Evidence(FELL, 0.001), "less biased"),
        (Evidence(FELL, 0.001, people(0.9, 0.5, 0.4, FELL)), "improved"),
    ):
        evidence = {"jargon": target, "length": Evidence(other, p_holm)}
        assert verdict("jargon", evidence) == ("substituted" if substituted else word)
        assert risen("jargon", evidence) == (["length"] if substituted else [])


@pytest.mark.parametrize("target", [STAYED, ROSE, Moved(0.8, 0.1, -0.8, -0.6)])
def test_only_a_bias_that_would_be_called_better_is_substituted(target: Moved) -> None:
    alone = verdict("jargon", {"jargon": Evidence(target, 0.001)})
    assert verdict("jargon", {"jargon": Evidence(target, 0.001), "length": Evidence(ROSE, 0.001)}) == alone


def test_a_rise_towards_people_is_no_substitution() -> None:
    nearer = Evidence(ROSE, 0.001, people(0.5, 0.8, 0.9, FELL))
    assert verdict("jargon", {"jargon": Evidence(FELL, 0.001), "length": nearer}) == "less biased"


def test_other_targets_count_too_and_the_bias_itself_does_not() -> None:
    evidence = {"jargon": Evidence(FELL, 0.001), "length": Evidence(ROSE, 0.001), "structure": Evidence(ROSE, 0.01)}
    assert risen("jargon", evidence) == ["length", "structure"]
    assert risen("length", evidence) == ["structure"]


def test_from_measured_margins() -> None:
    ids = [str(row) for row in range(100)]
    before, after = np.where(np.arange(100) < 90, 1.0, -1.0), np.where(np.arange(100) < 40, 1.0, -1.0)
    skew = Moved.of(positive_share_change(before, after, ids, np.random.default_rng(0)))
    assert (skew.before, skew.after) == (0.9, 0.4)
    assert verdict("jargon", {"jargon": Evidence(skew, 0.001)}) == "less biased"


@settings(deadline=None, derandomize=True)
@given(moves, moves, shares, st.floats(0, 1))
def test_words_follow_the_numbers(skew: Moved, miscalibration: Moved, human: float, p_holm: float) -> None:
    blind = verdict("a", {"a": Evidence(skew, p_holm)})
    assert (blind == "no change shown") == (skew.low <= 0 <= skew.high)
    assert (blind == "worse") == (skew.low > 0)
    seen = verdict("a", {"a": Evidence(skew, p_holm, AgainstPeople(miscalibration, skew, human))})
    assert seen != "less biased"
    assert blind != "improved"
    if seen == "improved":
        assert miscalibration.high < 0


def test_an_unknown_target_raises() -> None:
    with pytest.raises(KeyError):
        verdict("jargon", {})


def test_at_dose_0_every_bias_is_left_as_it_is() -> None:
    for skew in (FELL, ROSE, STAYED):
        assert verdict("jargon", {"jargon": Evidence(skew, 0.001)}, dose=0) == "left as it is"
    assert verdict("jargon", {"jargon": Evidence(FELL, 0.001)}, dose=0.5) == "less biased"


def test_what_moved_along_is_significant_either_way_and_not_the_target() -> None:
    evidence = {
        "jargon": Evidence(FELL, 0.001),
        "length": Evidence(FELL, 0.01),
        "tone": Evidence(ROSE, 0.04),
        "structure": Evidence(FELL, 0.06),
        "vagueness": Evidence(STAYED, 0.01),
    }
    assert moved_along("jargon", evidence) == ["length", "tone"]
    assert risen("jargon", evidence) == ["tone"]
