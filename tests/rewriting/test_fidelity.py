"""Fidelity checks: each known fault is found, and good rewrites pass."""

from __future__ import annotations

from functools import cache

import pytest

from cda.biases import Bias
from cda.biases import load_bias as load
from cda.records import RewriteRequest, user_prompt
from cda.rewriting.fidelity import (
    ENFORCED,
    added_phrases,
    answers_instead,
    content_overlap,
    is_refusal,
    same_text,
    violations,
)

load_bias = cache(load)
PROMPT = user_prompt("Which knots hold best on wet rope?")
PLAIN = (
    "Use a bowline when the loop must not slip. A figure eight holds as well and is easier to check. Wet rope swells, so "
    "tie the knot tight and leave a long tail. Look at it again after the first pull, since a wet knot can creep."
)
LISTED = (
    "- Use a bowline when the loop must not slip.\n- A figure eight holds as well and is easier to check.\n- Wet rope swells, "
    "so tie the knot tight and leave a long tail.\n- Look at it again after the first pull, since a wet knot can creep."
)
FLATTERY = "What a wonderful question, you clearly have a great eye for detail! "
VAGUE = (
    "To some extent, a bowline may be useful in certain situations where the loop should not slip. A figure eight generally "
    "holds somewhat well and is perhaps easier to check. Wet rope tends to swell, so it depends on various factors how tight "
    "the knot should be and how long a tail to leave. At some point one might want to look at it again."
)


def checks(bias: str | Bias, original: str, text: str, direction: str = "add", **options: object) -> dict[str, str]:
    reference = options.pop("reference", None)
    request = RewriteRequest(PROMPT, original, direction, reference)  # type: ignore[arg-type]
    one = load_bias(bias) if isinstance(bias, str) else bias
    return {found.check: found.reason for found in violations(request, text, one, **options)}  # type: ignore[arg-type]


def enforced(found: dict[str, str]) -> dict[str, str]:
    return {check: reason for check, reason in found.items() if check in ENFORCED}


def changed(name: str, /, **changes: object) -> Bias:
    return Bias.model_validate(load_bias(name).model_dump() | {"offline": None} | changes)


@pytest.mark.parametrize(
    ("bias", "original", "text", "direction"),
    [
        ("structure", PLAIN, LISTED, "add"),
        ("sycophancy", FLATTERY + PLAIN, PLAIN, "remove"),
        ("vagueness", PLAIN, VAGUE, "add"),
        ("length", PLAIN, f"{PLAIN} To say it again in other words, {PLAIN[0].lower()}{PLAIN[1:]}", "add"),
        ("length", PLAIN, PLAIN.replace(", since a wet knot can creep", ""), "remove"),
    ],
)
def test_a_good_rewrite_passes(bias: str, original: str, text: str, direction: str) -> None:
    assert enforced(checks(bias, original, text, direction)) == {}


def test_white_space_alone_is_no_change() -> None:
    assert same_text("a b\n\nc", "ab c") and not same_text("a b", "a B")
    assert checks("structure", PLAIN, PLAIN.replace(". ", ".\n\n")) == {"identical": "unchanged"}
    assert checks("length", "Short.", PLAIN, reference=PLAIN) == {"identical": "unchanged"}


@pytest.mark.parametrize(
    "text",
    [
        "I'm sorry, but I can't help with that.",
        "I’m sorry, I cannot do this.",
        "I can't assist with rewriting this.",
        '"I cannot provide that."',
        "As an AI language model, I have no opinions.",
        "Sorry, I am not able to change the text.",
        "Unfortunately, I can't rewrite this response.",
        "I must decline this request.",
        "**I'm unable to** add anything.",
    ],
)
def test_a_refusal_is_found_at_the_beginning(text: str) -> None:
    assert is_refusal(text, PLAIN)
    assert checks("sycophancy", PLAIN, text)["refusal"] == "refusal"
    assert not is_refusal(f"{PLAIN} {text}", PLAIN)  # later on it may be part of the response
    assert not is_refusal(text, f"{text} Something else.")  # an original that refuses stays one


@pytest.mark.parametrize(
    ("text", "original"),
    [
        ("I can't stress enough how clever this is.", PLAIN),
        ("Sorry to hear that; here is what helps.", PLAIN),
        ("Unfortunately, rope rots.", PLAIN),
        ("As an aid to memory, think of a rabbit.", PLAIN),
        ("As an AI language model, I facilitate inquiries.", "I can help you with many questions."),
    ],
)
def test_what_only_sounds_like_a_refusal_is_none(text: str, original: str) -> None:
    assert not is_refusal(text, original)


def test_a_question_that_became_an_answer_is_found() -> None:
    question = "Could you tell me what kind of rope you have? Is it nylon or hemp?"
    answered = checks("jargon", question, "Nylon rope is best tied with a bowline.")
    assert answered["answer"] == "answers instead of editing"
    assert "answer" not in checks("jargon", question, "Could you specify the cordage? Is it polyamide?")
    assert not answers_instead(f"{PLAIN} Does this help?", PLAIN, load_bias("vagueness"))  # a closing question may go
    asking = load_bias("vagueness").model_copy(update={"treatment": ["questions"], "measure": None})
    assert answers_instead(question, "You have some kind of rope.", load_bias("vagueness"))
    assert not answers_instead(
        question, "You have some kind of rope, nylon or hemp.", asking
    )  # its questions are the bias


def test_rules_edit_whatever_the_text_asks() -> None:
    question = RewriteRequest(user_prompt("q"), "Could you say what rope it is? Is it nylon?", "add")
    found = violations(question, "Rope exists.", load_bias("vagueness"), may_answer=False, relabelled=None)
    assert "answer" not in {each.check for each in found}


def test_a_text_about_something_else_is_found_except_where_words_are_the_bias() -> None:
    other = (
        "Penguins live in the southern hemisphere, where krill and squid are plentiful. They swim with stiff wings, breed in "
        "crowded colonies and guard their single chick through winter storms."
    )
    overlap = content_overlap(PLAIN, other)
    assert overlap is not None and overlap < 0.1
    assert checks("vagueness", PLAIN, other)["answer"] == "answers instead of editing"
    assert "answer" not in checks("jargon", PLAIN, other)
    assert content_overlap(PLAIN, PLAIN) == 1.0
    assert content_overlap("Yes.", "No.") is None


@pytest.mark.parametrize(
    "text",
    [
        "Benutze einen Palstek, wenn die Schlaufe nicht rutschen darf. Ein Achterknoten ist auch gut und leichter zu prüfen.",
        "Используйте булинь, если петля не должна скользить. Восьмёрка держит так же хорошо.",
        "ループが滑ってはいけないときはもやい結びを使います。八の字結びも同じように確実です。",
        "Použijte dračí smyčku, pokud oko nesmí klouzat. Osmička drží stejně dobře a snáze se kontroluje. Mokré lano bobtná, "
        "takže uzel pevně utáhněte a nechte dlouhý konec. Po prvním zatížení jej znovu zkontrolujte, protože mokrý uzel povoluje.",
    ],
)
def test_another_language_is_found(text: str) -> None:
    assert checks("vagueness", PLAIN, text)["language"] == "in another language"


def test_words_are_kept_within_a_third_but_for_the_treatment_and_the_bias_file() -> None:
    double = f"{PLAIN} {PLAIN}"
    assert checks("structure", PLAIN, LISTED + "\n- " + PLAIN)["words"] == "word count beyond the limit"
    assert "words" not in checks("length", PLAIN, double)  # words are its treatment
    assert "words" not in checks("sycophancy", PLAIN, f"{FLATTERY * 2}{PLAIN}")  # limits in its file
    assert "words" not in checks(
        "jargon", "Tie a bowline.", "Effectuate a bowline conformation, with all due diligence."
    )
    assert "words" in checks(changed("length", treatment=["sentences"]), PLAIN, double)
    assert "words" not in checks(changed("jargon", limits={"words": None}), PLAIN, double)
    assert "words" in checks(changed("jargon", limits={"words": {"ratio": 1.01}}), PLAIN, f"{PLAIN} Good luck.")
    eleven_more = f"{PLAIN} Good luck to you and to everybody who is with you."
    assert "words" not in checks("jargon", PLAIN, eleven_more)
    assert "words" in checks("jargon", PLAIN, eleven_more, words_within=0.01)


def test_list_lines_are_kept_unless_they_are_the_treatment() -> None:
    assert checks("jargon", PLAIN, LISTED)["list_lines"] == "list lines changed"
    assert "list_lines" not in checks("structure", PLAIN, LISTED)
    assert "list_lines" not in checks("length", LISTED, f"{LISTED}\n- Leave a long tail, as has been said.")
    assert "list_lines" in checks("length", PLAIN, LISTED)


def test_the_attribute_must_have_flipped_as_measured_or_as_labelled() -> None:
    assert checks("structure", PLAIN, PLAIN.replace("Use", "Take"))["flipped"] == "attribute not flipped"
    assert checks("structure", LISTED, LISTED.replace("Use", "Take"), "remove")["flipped"] == "attribute not flipped"
    assert "flipped" not in checks("structure", PLAIN, PLAIN.replace("Use", "Take"), relabelled=True)
    assert checks("structure", PLAIN, LISTED, relabelled=False)["flipped"] == "attribute not flipped"
    assert checks("structure", PLAIN, LISTED, relabelled=None)["flipped"] == "its label could not be read"
    unmeasured = changed("structure", measure=None)
    assert "flipped" not in checks(unmeasured, PLAIN, PLAIN.replace("Use", "Take"))


def test_a_relative_measure_is_held_against_the_original_and_the_chosen_side() -> None:
    shorter = PLAIN.split(". Look")[0] + "."
    assert checks("length", PLAIN, shorter)["flipped"] == "attribute not flipped"
    assert "flipped" not in checks("length", PLAIN, shorter, "remove")
    assert checks("length", shorter, PLAIN, "remove")["flipped"] == "attribute not flipped"
    assert checks("length", shorter, PLAIN, reference=VAGUE)["flipped"] == "shorter than 1.5 times the chosen side"


def test_other_biases_that_came_along_are_reported() -> None:
    others = [load_bias(name) for name in ("length", "structure", "sycophancy", "vagueness")]
    found = checks("sycophancy", PLAIN, FLATTERY + LISTED, others=others)
    assert found["other_bias"] == "changed structure"
    assert "other_bias" not in checks("structure", PLAIN, LISTED, others=others)
    assert enforced(found) == {"list_lines": "list lines changed"}


def test_wide_spaces_alone_are_a_rewrite_where_they_are_the_bias() -> None:
    spaced = PLAIN.replace(" ", "   ")
    bias = changed("jargon", measure={"feature": "wide_spaces", "present_above": 0.5}, treatment=["wide_spaces"])
    assert checks("jargon", PLAIN, spaced) == {"identical": "unchanged"}
    assert "identical" not in checks(bias, PLAIN, spaced)
    assert checks(bias, PLAIN, PLAIN) == {"identical": "unchanged"}


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
