"""Scripts and languages of texts: enough to notice a change, and silent where there is too little to tell."""

from __future__ import annotations

import pytest

from cda.features import language_of, same_language, script_shares

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
