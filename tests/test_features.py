"""Features of a text that can be counted by hand, and its script and language, where there is enough to tell."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cda.features import TEXT_FEATURES, long_word_share, measure, n_words, phrase_pattern, sentences, words
from cda.languages import language_of, same_language, script_shares

LISTED = "# Plan\n\nDo **this** first!\n\n- one thing\n* two\n  1. three\n10) four\n-not a mark\n1.5 is a number"


def test_every_feature_of_one_text() -> None:
    expected = {
        "words": 18.0,  # "-not" counts once, "1." and "10)" are tokens with a digit
        "sentences": 8.0,
        "list_lines": 4.0,
        "headers": 1.0,
        "bold": 1.0,
        "exclamations": 1.0,
        "emoji": 0.0,
        "wide_spaces": 0.0,
        "questions": 0.0,
        "digit_words": 3.0,
        "long_word_share": 0.0,
        "characters": 93.0,
        "specifics": 1.0,  # 1.5; list marks are no specifics
        "hedges": 0.0,
        "flesch_reading_ease": 206.835 - 1.015 * 15 / 8 - 84.6 * 17 / 15,  # a num-ber, num-ber
        "type_token_ratio": 17 / 18,
    }
    assert {name: measure(LISTED, name) for name in TEXT_FEATURES} == pytest.approx(expected)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("words", "", 0), ("words", "- one", 1), ("words", "— … !", 0), ("words", "a\n\nb\tc", 3), ("words", "Zürich 8001", 2),
        *[("list_lines", f"before\n{line}\nafter", 1) for line in ("- a", "• a", "3) a", "   * a")],
        *[("list_lines", f"before\n{line}\nafter", 0) for line in ("-a", "1.5 a", "- ", "2024. Then")],
        ("long_word_share", "abcdefgh abcdefghi", 0.5),
        ("long_word_share", "long-term self-made", 0),  # 8 letters each
        ("long_word_share", "123456789012", 0), ("long_word_share", "", 0),
        ("emoji", "Good 👍 and ✨✨, not © or →.", 3),
        ("emoji", "A family 👨‍👩‍👧, a flag 🇫🇷, a wave 👋🏽, a heart ❤️.", 4),
        ("wide_spaces", "One  two   three four\n\n  five. ", 2),
        ("wide_spaces", "One\u00a0 two\u00a0three", 1),
        ("wide_spaces", "Code:\n```\nx  =  1\n```\nand  so", 1),
        ("questions", "Is it? Really?! See https://a.b/c?d=1. “Why?” he asked??", 4), ("questions", "No.", 0),
        ("specifics", "In 1969 the crew of Apollo 11 flew to the Moon.", 4),  # 1969, Apollo, 11, Moon
        ("specifics", "We went to New York City. Then I slept, and I'm fine.", 1),
        ("specifics", "Paris is large. It has parks.", 0),  # a name that opens a sentence is not told from any other opening
        ("specifics", "The CO2 level and the GDP rose by 3.5 percent.", 3),
        ("specifics", "# The Great Plan\n1. **Check The Dashboard:** look at it\n2. Done", 0),
        ("specifics", 'Note: This is it. He said "Go".', 0),
        ("hedges", "Perhaps it might work, to some extent. Mighty maybes likely tend to.", 5),
        ("hedges", "It works. The kindly sorter.", 0),
    ],
)  # fmt: skip
def test_features_of_small_texts(name: str, text: str, value: float) -> None:
    assert measure(text, name) == value


def test_a_pattern_is_counted_by_line_and_by_text() -> None:
    text = "Sure, this.\nSure, that.\nMaybe sure."
    assert measure(text, "pattern_count", pattern="^Sure") == 2
    assert measure(text, "pattern_count", pattern=r"\ASure") == 1
    assert measure(text, "pattern_count", pattern="(?i)sure") == 3
    assert measure(text, "pattern_per_100_words", pattern="^Sure") == pytest.approx(100 * 2 / 6)
    assert measure("", "pattern_per_100_words", pattern="^") == 0.0
    with pytest.raises(ValueError, match="pattern_count needs a pattern"):
        measure(text, "pattern_count")
    with pytest.raises(KeyError):
        measure("a", "wrds")


def test_words_keep_apostrophes_and_numbers_together() -> None:
    assert words("It's a well-known 3.5% rise, isn’t it? — yes") == [
        "It's", "a", "well-known", "3.5", "rise", "isn’t", "it", "yes",
    ]  # fmt: skip


def test_sentences_split_at_marks_and_line_breaks_not_at_decimals() -> None:
    text = 'It costs 3.5 euros. "Really?" She paid!\n1. Take it. Then go\nno end'
    assert sentences(text) == [
        "It costs 3.5 euros.", '"Really?"', "She paid!", "1. Take it.", "Then go", "no end",
    ]  # fmt: skip


def test_markers_per_100_words() -> None:
    text = "You’re right, of  course. OF COURSE it matters; coursework does not."
    assert n_words(text) == 11
    assert measure(text, "markers_per_100_words", ["of course", "you're right"]) == pytest.approx(100 * 3 / 11)
    assert measure("", "markers_per_100_words", ["of course"]) == 0.0
    assert measure(text, "markers_per_100_words", []) == 0.0


def test_phrase_pattern_prefers_the_longest_phrase() -> None:
    assert phrase_pattern(("used", "used to be")).findall("It used to be used.") == ["used to be", "used"]


def test_flesch_by_hand_and_in_the_right_order() -> None:
    # 6 words, 1 sentence, 6 syllables: 206.835 − 1.015·6 − 84.6
    assert measure("The cat sat on the mat.", "flesch_reading_ease") == pytest.approx(116.145)
    # 4 words in 2 sentences, hy-phen-ation patterns: wa-ter 2, riv-er 2
    assert measure("Water runs. River 7 ends.", "flesch_reading_ease") == pytest.approx(206.835 - 2.03 - 84.6 * 6 / 4)
    plain = "We use the tool to find out why it broke. Then we fix it."
    stiff = "Utilization of instrumentation facilitates determination of organizational malfunction etiologies."
    assert measure(stiff, "flesch_reading_ease") < 0 < 80 < measure(plain, "flesch_reading_ease")
    assert measure("… 42!", "flesch_reading_ease") == measure("", "flesch_reading_ease") == 0.0


def test_type_token_ratio_does_not_fall_with_length() -> None:
    block = " ".join("abcdefghijklmnopqrstuvwxy"[at] * 3 for at in range(25))  # 25 distinct words
    assert measure(block, "type_token_ratio") == 1.0
    assert measure(f"{block} {block}", "type_token_ratio") == 0.5
    assert measure(" ".join([block] * 20), "type_token_ratio") == 0.5
    assert measure("Yes yes YES no", "type_token_ratio") == 0.5
    assert measure("", "type_token_ratio") == 0.0


@settings(deadline=None, derandomize=True)
@given(st.lists(st.sampled_from("abcdef"), min_size=1, max_size=120))
def test_type_token_ratio_is_the_mean_over_windows(tokens: list[str]) -> None:
    size = min(50, len(tokens))
    windows = [len(set(tokens[at : at + size])) / size for at in range(len(tokens) - size + 1)]
    assert measure(" ".join(tokens), "type_token_ratio") == pytest.approx(sum(windows) / len(windows))


@settings(deadline=None, derandomize=True)
@given(st.text(max_size=200), st.text(max_size=200))
def test_features_are_never_negative_and_words_add_up_over_lines(one: str, other: str) -> None:
    # NaN where a feature does not hold.
    assert not any(measure(one, name) < 0 for name in TEXT_FEATURES if name != "flesch_reading_ease")
    assert not measure(one, "type_token_ratio") > 1
    assert not math.isinf(measure(one, "flesch_reading_ease"))
    assert 0 <= long_word_share(one) <= 1
    assert n_words(f"{one}\n{other}") == n_words(one) + n_words(other)


ENGLISH = "The rope is wet and it will swell, so tie the knot tight and look at it again after the first pull."
GERMAN = (
    "Das Seil ist nass und es quillt, also zieh den Knoten fest und sieh ihn dir nach dem ersten Zug noch einmal an."
)


@pytest.mark.parametrize(
    ("text", "language"),
    [
        (ENGLISH, "en"),
        (GERMAN, "de"),
        ("Le nœud est dans la corde et il ne glisse pas pour vous.", "fr"),
        ("El nudo es para la cuerda y no se suelta con el agua.", "es"),
        ("O nó não é uma boa ideia para você com as mãos molhadas.", "pt"),
        ("Il nodo è una buona idea per la corda e non si scioglie.", "it"),
        ("De knoop is niet los en het touw wordt nat van het water.", "nl"),
        ("Bowline, clove hitch, sheet bend", None),
        ("", None),
    ],
)
def test_language_by_stop_words(text: str, language: str | None) -> None:
    assert language_of(text) == language


def test_script_shares_leave_code_out() -> None:
    assert script_shares("abc где") == {"LATIN": 0.5, "CYRILLIC": 0.5}
    assert script_shares("где `abc` ```\nabc```") == {"CYRILLIC": 1.0}
    assert script_shares("123") == {}


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        (ENGLISH, "Tie it well: bowline, clove hitch, sheet bend, figure eight, reef knot.", True),
        (ENGLISH, GERMAN, False),
        (ENGLISH, "Верёвка мокрая, затяните узел крепче.", False),
        (
            "绳子湿了会膨胀，所以要把结打紧，拉一下之后再检查一次。",
            "ロープは濡れると膨らむので、結び目をしっかり締めてください。",
            False,
        ),
        (ENGLISH, "Да.", True),  # too little to tell
        (f"{ENGLISH} In Russian: верёвка.", ENGLISH, True),
        ("The command is:\n```\nls | grep верёвка\n```", "You may use the command below, if you like to.", True),
    ],
)
def test_same_language(first: str, second: str, same: bool) -> None:
    assert same_language(first, second) == same_language(second, first) == same
