"""Which texts that came back unchanged were as they should become, and which rewriter is lazy."""

from __future__ import annotations

from cda.discover.measure import ALREADY
from cda.stages.discover_confirm import told_apart


def test_what_all_hand_back_is_so_already() -> None:
    failed, already = told_apart({"ada": {"unchanged": 7, "refused": 1}, "bob": {"unchanged": 7}})
    assert (failed, already) == ({"ada": {"refused": 1}, "bob": {}}, {"ada": 7, "bob": 7})


def test_who_hands_back_more_than_the_others_fails() -> None:
    failed, already = told_apart({"ada": {"unchanged": 2}, "bob": {"unchanged": 40}, "cy": {"unchanged": 4}})
    assert failed["bob"] == {"unchanged, where the other rewriters changed more": 37}
    assert already == {"ada": 2, "bob": 3, "cy": 4}
    assert not failed["ada"] and not failed["cy"]


def test_what_was_measured_to_be_so_is_nobodys_failure() -> None:
    assert told_apart({"rules": {ALREADY: 9, "unchanged": 3}}) == ({"rules": {}}, {"rules": 12})
