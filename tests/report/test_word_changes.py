"""Two texts as one with their changes."""

from __future__ import annotations

from cda.report.page import Change, word_changes


def test_changes_keep_both_texts_and_give_up_on_texts_that_share_little() -> None:
    first, second = "Use a pan and stir slowly, please.", "Utilize a large pan and then stir slowly, please."
    changes = word_changes(first, second)
    assert "".join(change.text for change in changes if change.kind != "ins") == first
    assert "".join(change.text for change in changes if change.kind != "del") == second
    assert changes[:3] == [Change("del", "Use"), Change("ins", "Utilize"), Change("same", " a")]
    assert word_changes("Boil rice.", "Simmer the grains gently until done") == []
    assert word_changes("word " * 5000, "word " * 5000) == []
