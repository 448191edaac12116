"""Fidelity of rewrites: the requested change, any other change, and phrases that many add: a sign of an instruction followed by rote."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from cda.biases import Bias
from cda.features import OWN_FEATURES, n_words, sentences_of, words
from cda.languages import STOP_WORDS, same_language
from cda.records import RewriteRequest
from cda.results.effects import Limit
from cda.stats.drift import DEFAULT_LIMITS

Check = Literal["identical", "refusal", "answer", "language", "words", "list_lines", "flipped", "drift", "other_bias"]
ENFORCED: frozenset[Check] = frozenset({"identical", "refusal", "answer", "language", "words", "list_lines", "flipped"})
"""Checks that reject a rewrite; everything else that is found is only counted."""
WORDS_WITHIN = 0.35
"""Largest change of the word count, as a share of the original's. Rewriters are asked for 15%, and overshoot. Not checked if words
are the bias's treatment."""
_WORDS_SLACK = 10
"""A change of so many words always passes, for the sake of short responses."""
_MIN_OVERLAP = 0.1
"""Least share of content words that the two texts have in common, of the text that has fewer. Not looked at if the choice of
words is the bias's treatment (jargon): short responses then keep none."""
NOT_FLIPPED = "attribute not flipped"
SO_ALREADY = "the measure finds the original as it should become"
_REFUSAL = re.compile(
    r"(?:(?:i['’]?m|i am) (?:very |really |so |truly )?sorry|sorry|i apologi[sz]e|unfortunately|i regret)\b[^.!?\n]{0,30}?"
    r"\b(?:can['’]?t|cannot|can not|not able|unable|won['’]?t)\b"
    r"|i (?:can['’]?t|cannot|can not|won['’]?t|will not|(?:am|['’]?m) (?:unable|not able) to|must decline to|decline to)"
    r" (?:help|assist|do|comply|fulfil+|provide|rewrite|edit|answer|create|generate|write|discuss|support|continue|give|"
    r"offer|engage|complete|process|change|add|remove|make|respond|produce|share)\b"
    r"|i['’]m (?:unable|not able) to\b|i must decline\b",
    re.IGNORECASE,
)
_AS_AN_AI = re.compile(
    r"(?:as|i am|i['’]m) an? (?:ai|artificial intelligence|(?:large )?language model)\b", re.IGNORECASE
)
# An original that mentions the assistant itself may well open so when it is reworded.
_OF_ITSELF = re.compile(r"\b(?:AI|language model|assistant)\b|\bI can (?:help|assist)\b|\bI['’]m here to\b")
_OPENING_MARKS = re.compile(r"[\s\"'“”‘’*_>#-]*")
_MIN_CONTENT_WORDS = 6
_STEM_LETTERS = 5
LONGEST_PHRASE = 12
"""Words of the longest phrase that is looked for."""
_AS_MANY = 0.8
"""A longer phrase stands for its parts if it is in this share of the rewrites that hold them."""
_WORD = re.compile(r"\w+(?:['’]\w+)*")
_SENTENCE_END = re.compile(r"(?<![.!?…:;])[.!?…:;]++(?=\s|$)|\n+")
_SHORTEST_WORD = 4
"""Letters of a word that counts as a phrase by itself."""


@dataclass(frozen=True, slots=True)
class Violation:
    """One thing wrong with a rewrite, in words short enough to be counted."""

    check: Check
    reason: str


def violations(
    request: RewriteRequest,
    text: str,
    bias: Bias,
    *,
    words_within: float = WORDS_WITHIN,
    others: Sequence[Bias] = (),
    relabelled: bool | Literal["measure"] | None = "measure",
    may_answer: bool = True,
) -> list[Violation]:
    """Violations of a rewrite, enforced or not, the gravest first. The bias's `treatment` may change, and its `limits`
    replace those here; the measured labels of `others` must not change. `relabelled`: True if an external label says
    that it exhibits the bias (None: it could not be read); `measure` uses the bias's own measure, if any. `may_answer`:
    False for rules, which edit whatever the text says.
    """
    sides = (request.response, request.reference)
    if any(side is not None and is_unchanged(text, side, bias) for side in sides):
        return [Violation("identical", "unchanged")]
    broken: list[Violation] = []
    if is_refusal(text, request.response):
        broken.append(Violation("refusal", "refusal"))
    if not same_language(request.response, text):
        broken.append(Violation("language", "in another language"))
    elif may_answer and answers_instead(request.response, text, bias):
        broken.append(Violation("answer", "answers instead of editing"))
    if not _words_within(request.response, text, bias, words_within):
        broken.append(Violation("words", "word count beyond the limit"))
    if not _holds("list_lines", request.response, text, bias):
        broken.append(Violation("list_lines", "list lines changed"))
    if reason := not_flipped(request, text, bias, relabelled):
        broken.append(Violation("flipped", reason))
    broken += [Violation("drift", f"drift in {name}") for name in drifted(request.response, text, bias)]
    return broken + [
        Violation("other_bias", f"changed {name}") for name in changed_biases(request.response, text, bias, others)
    ]


def same_text(one: str, other: str) -> bool:
    """True if two texts differ in nothing but white space."""
    return "".join(one.split()) == "".join(other.split())


def is_unchanged(text: str, original: str, bias: Bias) -> bool:
    """True if a rewrite changed nothing; white space counts only if it may be the bias itself. If the bias has a
    measure, that decides; without one, spaces within lines count, blank lines and the ends of lines do not.
    """
    if not same_text(text, original):
        return False
    if bias.measure is not None:
        return not bias.respaced(text, original)
    lines, before = ([line.strip() for line in side.splitlines() if line.strip()] for side in (text, original))
    return lines == before


def is_refusal(text: str, original: str = "") -> bool:
    """True if a text opens as a refusal, and the original nowhere says the like.

    >>> is_refusal("I'm sorry, but I can't help with that."), is_refusal("I can't stress enough how clever that is.")
    (True, False)
    """
    marks = _OPENING_MARKS.match(text)
    start = marks.end() if marks else 0
    if _AS_AN_AI.match(text, start) and not _OF_ITSELF.search(original):
        return True
    return bool(_REFUSAL.match(text, start)) and not _REFUSAL.search(original)


def answers_instead(original: str, text: str, bias: Bias) -> bool:
    """True if the rewriter answered rather than edited: a question became a statement, or hardly a word was kept. Neither is
    looked at if it is what the bias changes: its questions, or its choice of words."""
    if "questions" not in bias.treated and _is_question(original) and "?" not in text and "？" not in text:
        return True
    kept = None if "long_word_share" in bias.treated else content_overlap(original, text)
    return kept is not None and kept < _MIN_OVERLAP


def content_overlap(one: str, other: str) -> float | None:
    """Share of content words (by their first letters) in common, of the text that has fewer; None for very short texts."""
    first, second = _stems(one), _stems(other)
    fewer = min(len(first), len(second))
    return len(first & second) / fewer if fewer >= _MIN_CONTENT_WORDS else None


def limits_of(bias: Bias) -> dict[str, Limit]:
    """Limits by feature for the difference of a rewrite from its original: the bias file's before the drift report's."""
    own = {name: None if limit is None else Limit(limit.ratio, limit.difference) for name, limit in bias.limits.items()}
    return {name: limit for name, limit in {**DEFAULT_LIMITS, **own}.items() if limit is not None}


def drifted(original: str, text: str, bias: Bias) -> list[str]:
    """Features beyond their limit, the treatment aside."""
    return [name for name in limits_of(bias) if not _holds(name, original, text, bias)]


def changed_biases(original: str, text: str, bias: Bias, others: Sequence[Bias]) -> list[str]:
    """Other biases whose measured label changed; not those measured by features of this bias's treatment."""
    return [
        other.name
        for other in others
        if other.name != bias.name
        and other.measure is not None
        and not other.measure.relative
        and (other.measure.feature not in bias.treatment or other.measure.feature in OWN_FEATURES)
        and other.shows(original) != other.shows(text)
    ]


def not_flipped(
    request: RewriteRequest, text: str, bias: Bias, relabelled: bool | Literal["measure"] | None = "measure"
) -> str | None:
    """Return why the rewrite does not have the attribute as asked for; None if it has, or if nothing can tell. By the
    measure, original and rewrite must lie on either side of the threshold. Arguments as in `violations`.
    """
    adding = request.direction == "add"
    ratio = bias.min_words_of_chosen
    asked_words = ratio * n_words(request.reference) if ratio is not None and request.reference is not None else 0
    if adding and n_words(text) < asked_words:
        return f"shorter than {ratio:g} times the chosen side"
    if relabelled is None:
        return "its label could not be read"
    if relabelled != "measure":
        return None if relabelled == adding else NOT_FLIPPED
    if bias.measure is None:
        return None
    if bias.measure.relative:
        moved = bias.shows(text, request.response) if adding else bias.shows(request.response, text)
        return None if moved else NOT_FLIPPED
    if request.flips and bias.shows(request.response) == adding:
        return SO_ALREADY
    return None if bias.shows(text) in (adding, None) else NOT_FLIPPED


def _words_within(original: str, text: str, bias: Bias, words_within: float) -> bool:
    if "words" in bias.treatment or "words" in bias.limits:
        return _holds("words", original, text, bias)
    before, after = n_words(original), n_words(text)
    return abs(after - before) <= max(words_within * before, _WORDS_SLACK)


def _holds(feature: str, original: str, text: str, bias: Bias) -> bool:
    """True if a feature is within its limit; without one, and of the treatment, it always is."""
    limit = limits_of(bias).get(feature)
    if limit is None or feature in bias.treatment:
        return True
    before, after = (np.array([bias.measured(side, feature)]) for side in (original, text))
    return bool(limit.holds(after, before)[0])


def _is_question(text: str) -> bool:
    """At least half of its sentences ask."""
    asks = [sentence.rstrip("\"'”’)*_ ").endswith(("?", "？")) for sentence in sentences_of(text)]
    return bool(asks) and 2 * sum(asks) >= len(asks)


def _stems(text: str) -> set[str]:
    return {
        word[:_STEM_LETTERS].lower()
        for word in words(text)
        if len(word) >= 4 and not word[0].isdigit() and word.lower() not in STOP_WORDS["en"]
    }


@dataclass(frozen=True, slots=True)
class AddedPhrase:
    """A phrase that several rewrites hold and no original does."""

    words: str
    """In small letters, with single spaces between them."""
    rows: tuple[int, ...]
    """The rewrites that hold it, in order; never two of the same text."""


def added_phrases(
    originals: Sequence[str], rewrites: Sequence[str], at_least: int = 2, most: int = 10
) -> list[AddedPhrase]:
    """Phrases of one to LONGEST_PHRASE words in the most rewrites, found in none of the originals; at most `most`, in
    `at_least` rewrites or more, most frequent first, the longer first among equals. If one contains another, only the
    longer is given, if it occurs in at least four fifths as many. Single words have four letters and are no stop words.
    """
    ordinary = {phrase for text in set(originals) for phrase in _phrases(text)}
    holders: dict[str, list[int]] = defaultdict(list)
    first_rows: dict[str, int] = {}
    for row, text in enumerate(rewrites):
        first_rows.setdefault(text, row)
    for text, row in first_rows.items():
        for phrase in _phrases(text) - ordinary:
            holders[phrase].append(row)
    repeated = {phrase: rows for phrase, rows in holders.items() if len(rows) >= at_least}
    # For each phrase within a longer one, the most rewrites that hold a longer one.
    longer: dict[str, int] = {}
    for phrase in sorted(repeated, key=lambda phrase: -len(phrase.split())):
        parts = phrase.split()
        n = max(len(repeated[phrase]), longer.get(phrase, 0))
        for part in (parts[1:], parts[:-1]):
            shorter = " ".join(part)
            longer[shorter] = max(n, longer.get(shorter, 0))
    kept: list[AddedPhrase] = []
    for phrase in sorted(repeated, key=lambda phrase: (-len(repeated[phrase]), -len(phrase.split()), phrase)):
        rows = repeated[phrase]
        if len(kept) == most:
            break
        if (
            longer.get(phrase, 0) < _AS_MANY * len(rows)
            and _says_something(phrase)
            and not _is_said(phrase, rows, kept)
        ):
            kept.append(AddedPhrase(phrase, tuple(rows)))
    return kept


def _is_said(phrase: str, rows: Collection[int], kept: Sequence[AddedPhrase]) -> bool:
    """True if a phrase that is kept already says it: it is part of this one, or overlaps it in the same rewrites."""
    return any(
        f" {other.words} " in f" {phrase} " or (set(rows) <= set(other.rows) and _overlap(phrase, other.words))
        for other in kept
    )


def _overlap(phrase: str, other: str) -> bool:
    """True if the end of one is the beginning of the other, as two windows on one long phrase are."""
    first, second = phrase.split(), other.split()
    shorter = min(len(first), len(second))
    return any(first[-n:] == second[:n] or second[-n:] == first[:n] for n in range(2, shorter))


def _phrases(text: str) -> set[str]:
    """Every run of one to LONGEST_PHRASE words within a sentence."""
    return {
        " ".join(said[start:end])
        for sentence in _SENTENCE_END.split(text.lower().replace("’", "'"))
        for said in [_WORD.findall(sentence)]
        for start in range(len(said))
        for end in range(start + 1, min(start + LONGEST_PHRASE, len(said)) + 1)
    }


def _says_something(phrase: str) -> bool:
    """Not a lone short or common word, nor a number."""
    said = phrase.split()
    content = [word for word in said if word not in STOP_WORDS["en"] and not word.isdigit()]
    return bool(content) and (len(said) > 1 or len(content[0]) >= _SHORTEST_WORD)
