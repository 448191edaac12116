"""Phrases that many rewrites add: the longest one that is shared, counted once, never an original's own."""

from __future__ import annotations

from cda.rewriting.added_phrases import added_phrases

ORIGINALS = [f"Use pan {row} and stir the rice until it is done." for row in range(10)]


def test_the_whole_phrase_stands_for_its_parts() -> None:
    rewrites = [f"What a truly great question! {text}" if row < 8 else text for row, text in enumerate(ORIGINALS)]
    (found,) = added_phrases(ORIGINALS, rewrites)
    assert found.words == "what a truly great question"
    assert found.rows == tuple(range(8))


def test_a_part_that_many_more_hold_stands_for_what_it_is_part_of() -> None:
    endings = ["Kindly note the salt.", "Kindly note the salt.", *["Kindly wait."] * 2, *["Kindly do so now."] * 6]
    rewrites = [f"{text} {ending}" for text, ending in zip(ORIGINALS, endings, strict=True)]
    found = {one.words: len(one.rows) for one in added_phrases(ORIGINALS, rewrites)}
    assert found == {"kindly": 10}


def test_what_an_original_says_is_not_added() -> None:
    rewrites = [f"{text} Stir the rice." for text in ORIGINALS]
    assert added_phrases(ORIGINALS, rewrites) == []
    assert added_phrases(["Stir well."] * 10, rewrites) != []


def test_the_same_rewrite_twice_is_no_repetition() -> None:
    assert added_phrases(["One thing.", "One thing."], ["Henceforth one thing."] * 2) == []


def test_small_words_and_numbers_are_no_phrases() -> None:
    rewrites = [f"{text} In 1999 {row}x." for row, text in enumerate(ORIGINALS)]
    assert added_phrases(ORIGINALS, rewrites) == []


def test_no_more_than_asked_for_and_from_so_many_on() -> None:
    rewrites = [f"{text} Alpha{row % 3}! Bravo{row % 2}!" for row, text in enumerate(ORIGINALS)]
    assert [one.words for one in added_phrases(ORIGINALS, rewrites, most=2)] == ["bravo0", "bravo1"]
    assert [one.words for one in added_phrases(ORIGINALS, rewrites, at_least=4)] == ["bravo0", "bravo1", "alpha0"]
