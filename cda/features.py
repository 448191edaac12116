"""Features of a text that can be measured without a model; bias files name them.

Every feature is a pure function of the text (and, for `OWN_FEATURES`, of a bias file's own phrases or pattern), declared once
with the texts for which it holds. Adding a feature here makes it usable in every bias file. A word is what stands between
spaces; in scripts without them (Chinese, Japanese, Thai, …) each letter with its marks counts as one.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import regex

from cda.languages import UNSPACED, Scope, scopes_of
from cda.patterns import compiled

_UNSPACED = regex.compile(rf"{UNSPACED}\p{{M}}*", regex.V1)
_RUN = rf"[[\p{{L}}\p{{Nl}}\p{{No}}]--{UNSPACED}][[\p{{L}}\p{{M}}\p{{Nl}}\p{{No}}]--{UNSPACED}]*"
_WORD = regex.compile(rf"{_UNSPACED.pattern}|{_RUN}(?:['’-]{_RUN})*|\d+(?:[.,:]\d+)*", regex.V1)
# The same in a text of these characters alone, in a quarter of the time.
_PLAIN = re.compile("[\x00-\x7f‘’“”–—…•]*")
_PLAIN_WORD = re.compile(r"[A-Za-z]+(?:['’-][A-Za-z]+)*|[0-9]+(?:[.,:][0-9]+)*")
# What may open a sentence behind white space: a capital, a letter of a script without capitals, a digit.
_OPENS = r"\s+(?=[\"'(\[¿¡«]?[\p{Lu}\p{Lt}\p{Lo}0-9])"
_SENTENCE_END = regex.compile(
    rf"(?<=[.!?؟।॥۔։።။។]){_OPENS}|(?<=[.!?][\"')\]]){_OPENS}|(?<=[。！？｡])(?![。！？｡”』」）])|(?<=[。！？｡][”』」）])"
)
LIST_LINE = re.compile(r"^[ \t]*(?:[-*•+]|\d{1,3}[.)])[ \t]+(?=\S)", re.MULTILINE)
_BULLET = re.compile(r"^[ \t]*[-*•+][ \t]+(?=\S)", re.MULTILINE)
_HEADER = re.compile(r"^[ \t]*#{1,6}[ \t]+\S", re.MULTILINE)
_BOLD = re.compile(r"\*\*[^*\n]+\*\*|__[^_\n]+__")
_LONG_WORD_LETTERS = 9
_BOLD_LEAD_IN = re.compile(r"^([ \t]*(?:[-*•+][ \t]+|\d{1,3}[.)][ \t]+)?)(?:\*\*[^*\n]+\*\*|__[^_\n]+__)", re.MULTILINE)
_HEADER_LINE = re.compile(r"^[ \t]*#{1,6}[ \t]+.*$", re.MULTILINE)
# A capital after a word, not after what may open a sentence, a heading or a quotation; a run of them is one name.
_NAME = regex.compile(r"(?<=[\w,;)%] )(?!I\b)[\p{Lu}\p{Lt}][\w’'.-]*\w(?: (?!I\b)[\p{Lu}\p{Lt}][\w’'.-]*\w)*")
_TTR_WINDOW_WORDS = 50
_PICTURE = "[\U0001f300-\U0001faff\u2600-\u27bf\u2b05-\u2b07\u2b1b\u2b1c\u2b50\u2b55][\ufe0f\U0001f3fb-\U0001f3ff]*"
EMOJI = re.compile(f"[\U0001f1e6-\U0001f1ff]{{2}}|{_PICTURE}(?:\u200d{_PICTURE})*")
BLANKS = " \t\u00a0\u2002-\u200a\u202f\u3000"
_WIDE_SPACE = re.compile(rf"(?<=\S)[{BLANKS}]{{2,}}(?=\S)")
# From the first of a run of marks alone: from each of 60,000 it would take minutes.
_QUESTION = re.compile(r"(?<![?!])!*+\?[?!]*+(?=[\s\"'”’)\]*_]|$)|[？؟՞]++")
_FENCE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
# The core of Hyland (2005), Metadiscourse, appendix; words that mostly mean something else (about, rather) left out.
HEDGES = (
    "apparently", "appear to", "appears to", "approximately", "arguably", "as far as i know", "broadly", "could",
    "depending on", "for the most part", "generally", "i believe", "i think", "in general", "in most cases",
    "in some cases", "it depends", "it seems", "kind of", "largely", "likely", "mainly", "may", "maybe", "might",
    "more or less", "mostly", "perhaps", "plausibly", "possibly", "potentially", "presumably", "probably", "relatively",
    "roughly", "seem to", "seemingly", "seems to", "somewhat", "sort of", "suggests", "tend to", "tends to",
    "to a certain extent", "to some extent", "typically", "unlikely", "usually",
)  # fmt: skip


_TOKEN = re.compile(r"\\s\+|\[.*?\]|\\.|.", re.DOTALL)
"""Of a pattern that `_spaced` makes."""
_ODD_CASE = re.compile("[\u0130\u0131\u017f\u212a]")
"""Letters that are other cases of i, s and k to a pattern, and not to `str.lower`."""


def words(text: str) -> list[str]:
    """The words of a text, numbers included, punctuation and markdown marks left out."""
    found: list[str] = (_PLAIN_WORD if _PLAIN.fullmatch(text) else _WORD).findall(text)
    return found


@lru_cache(maxsize=1024)
def n_words(text: str) -> int:
    """Number of words as a reader counts them: runs of non-space that hold a letter or a digit, and each letter of a script
    without spaces between words.

    >>> n_words("It takes 3 days."), n_words("我用Python写代码。")
    (4, 6)
    """
    spaced, n_letters = (text, 0) if text.isascii() else _UNSPACED.subn(" ", text)
    tokens: list[str] = spaced.split()
    return int(n_letters) + sum(token[0].isalnum() or any(map(str.isalnum, token)) for token in tokens)


def sentences_of(text: str) -> list[str]:
    """Sentences of prose; a line break also ends one, so that list lines do not run together."""
    parts_of_lines: list[str] = []
    for line in text.splitlines():
        mark = LIST_LINE.match(line)
        start = mark.end() if mark else 0
        parts = [part.strip() for part in _SENTENCE_END.split(line[start:]) if part.strip()]
        if mark and parts:
            parts[0] = line[:start].lstrip() + parts[0]  # "1." is a mark, not a sentence
        parts_of_lines += parts
    return parts_of_lines


def n_list_lines(text: str) -> int:
    """Lines that open with a bullet or a number."""
    return len(LIST_LINE.findall(text))


def _alphabetic(text: str) -> list[str]:
    return [word for word in words(text) if not word[0].isdigit()]


def long_word_share(text: str) -> float:
    """Share of words with nine letters or more, list marks and numbers aside; 0.0 for a text without words.

    Latinate and specialist vocabulary is long, so this stands for jargon without a word list; it also rises with
    subjects that have long names, so it agrees with people's labels only in part.
    """
    alphabetic = _alphabetic(text)
    return _n_long(alphabetic) / max(1, len(alphabetic))


def _n_long(alphabetic: list[str]) -> int:
    return sum(
        len(word) >= _LONG_WORD_LETTERS and len(word.replace("-", "")) >= _LONG_WORD_LETTERS for word in alphabetic
    )


def _letters_a_word(text: str) -> float:
    alphabetic = _alphabetic(text)
    return sum(map(len, alphabetic)) / max(1, len(alphabetic))


def flesch_reading_ease(text: str) -> float:
    """Flesch reading ease of English: 206.835 − 1.015 · words/sentences − 84.6 · syllables/words (Flesch, 1948).

    60 to 70 is plain English, below 30 is read with difficulty; negative values and values above 100 occur. Syllables
    are pyphen's hyphenation points plus one, which misses some of short words (`idea` counts one), so values lie
    above those of a pronouncing dictionary; compare them with each other only. 0.0 for a text without words.
    """
    alphabetic = _alphabetic(text)
    if not alphabetic:
        return 0.0
    n_syllables = sum(_n_syllables(word.lower()) for word in alphabetic)
    n_sentences = max(1, len(sentences_of(text)))
    return 206.835 - 1.015 * len(alphabetic) / n_sentences - 84.6 * n_syllables / len(alphabetic)


def type_token_ratio(text: str) -> float:
    """Moving-average type-token ratio: distinct words in a window of 50, averaged over all windows.

    Unlike the plain ratio, which falls as a text grows, it does not depend on length (MATTR; Covington and McFall,
    2010, J. Quant. Linguist. 17, 94–100). A text shorter than one window has the plain ratio, 0.0 without words.
    """
    tokens = [word.lower() for word in words(text)]
    if not tokens:
        return 0.0
    size = min(_TTR_WINDOW_WORDS, len(tokens))
    window = Counter(tokens[:size])
    total = len(window)
    for leaving, entering in zip(tokens, tokens[size:], strict=False):
        window[entering] += 1
        window[leaving] -= 1
        if not window[leaving]:
            del window[leaving]
        total += len(window)
    return total / size / (len(tokens) - size + 1)


def _n_specifics(text: str) -> int:
    """Named specifics: numbers that are not list marks, and names.

    A name is a run of capitalised words that follows another word, so that sentence openings do not count; headers and
    bold lead-ins, which capitalise everything, are left out.
    """
    body = LIST_LINE.sub("", _BOLD_LEAD_IN.sub(r"\1", _HEADER_LINE.sub("", text)))
    without_names, n_names = _NAME.subn("", body)  # CO2 is one name, not a name and a number
    return int(n_names) + _n_digit_words(without_names)


@lru_cache(maxsize=1)
def _hyphenation() -> Any:
    import pyphen  # late: reads a dictionary

    return pyphen.Pyphen(lang="en_US", left=1, right=2)


@lru_cache(maxsize=65536)
def _n_syllables(word: str) -> int:
    return len(_hyphenation().positions(word)) + 1


@lru_cache(maxsize=1024)
def phrase_pattern(phrases: tuple[str, ...]) -> re.Pattern[str]:
    """Pattern that finds whole phrases, longest first, whatever their case and apostrophe."""
    if not phrases:
        return re.compile(r"(?!)")
    longest_first = sorted(set(phrases), key=lambda phrase: (-len(phrase), phrase))
    body = "|".join(map(_spaced, longest_first))
    return re.compile(rf"(?<!\w)(?:{body})(?!\w)", re.IGNORECASE)


def n_phrases(text: str, phrases: tuple[str, ...]) -> int:
    """Number of whole phrases in a text, as `phrase_pattern` finds them."""
    plain = None if _ODD_CASE.search(text) else _phrase_tree(phrases)
    return len(phrase_pattern(phrases).findall(text) if plain is None else plain.findall(text.lower()))


@lru_cache(maxsize=64)
def _phrase_tree(phrases: tuple[str, ...]) -> re.Pattern[str] | None:
    """The pattern of phrases for small letters, with what begins alike told apart once; a tenth of the time. None for other
    letters than ASCII's, whose case has more than one form."""
    if not phrases or not all(map(str.isascii, phrases)):
        return None
    tree: dict[str, Any] = {}
    for phrase in sorted(set(phrases), key=lambda phrase: (-len(phrase), phrase)):
        node = tree
        for token in _TOKEN.findall(_spaced(phrase.lower())):
            node = node.setdefault(token, {})
        node[""] = {}  # one ends here
    return re.compile(rf"(?<!\w){_branches(tree)}(?!\w)")


def _branches(node: dict[str, Any]) -> str:
    longer = "|".join(token + _branches(after) for token, after in node.items() if token)
    return f"(?:{longer}){'?' if '' in node else ''}" if longer else ""


def _spaced(phrase: str) -> str:
    """Pattern of a phrase, for any white space between its words. A space before or behind it is a single one: a run of them,
    tried from each of its places, would take the square of its length."""
    within = re.sub(r"(?:\\\s)+", r"\\s+", re.escape(phrase.strip())).replace("'", "['’]")
    return r"\s" * phrase[:1].isspace() + within + r"\s" * (phrase[-1:].isspace() and bool(within))


def _n_digit_words(text: str) -> int:
    return sum(any(character.isdigit() for character in word) for word in words(text))


def _matches(pattern: re.Pattern[str]) -> Callable[[str], int]:
    return lambda text: len(pattern.findall(text))


@dataclass(frozen=True, slots=True)
class Feature:
    """A feature of a text alone, and the texts for which it means something."""

    of: Callable[[str], float]
    holds_in: Scope = "any script"

    def within(self, text: str, scopes: Collection[Scope]) -> float:
        """The feature of a text that lies in these scopes, NaN if it does not hold there."""
        return _value(self, text) if self.holds_in in scopes else math.nan


@lru_cache(maxsize=65536)
def _value(feature: Feature, text: str) -> float:
    # A run measures each text many times: rewrites and their gate, drift under every scoring, the report's examples.
    return float(feature.of(text))


TEXT_FEATURES: MappingProxyType[str, Feature] = MappingProxyType(
    {
        "words": Feature(n_words),
        "characters": Feature(len),
        "sentences": Feature(lambda text: len(sentences_of(text)), "scripts that mark the end of a sentence"),
        "list_lines": Feature(n_list_lines),
        "headers": Feature(_matches(_HEADER)),
        "bold": Feature(_matches(_BOLD)),
        "exclamations": Feature(lambda text: text.count("!") + text.count("！")),
        # One that is made of several signs counts once.
        "emoji": Feature(_matches(EMOJI)),
        # Runs of two or more blanks between words, no-break and other wide spaces among them; code blocks left out.
        "wide_spaces": Feature(lambda text: len(_WIDE_SPACE.findall(_FENCE.sub("", text)))),
        # Question marks at the end of a word, several in a row counted once; those within web addresses are not.
        "questions": Feature(_matches(_QUESTION)),
        "digit_words": Feature(_n_digit_words),
        "specifics": Feature(_n_specifics, "scripts with capitals"),
        "hedges": Feature(lambda text: n_phrases(text, HEDGES), "English"),
        "long_word_share": Feature(long_word_share, "English"),
        "flesch_reading_ease": Feature(flesch_reading_ease, "English"),
        "type_token_ratio": Feature(type_token_ratio, "scripts with spaces between words"),
    }
)


@dataclass(frozen=True, slots=True)
class Amount:
    """A measure of how much a text or a part of it holds, and the features that it is a part of: to a bias that consists of one of
    these it belongs, to any other it is a rival."""

    of: Callable[[str], float]
    part_of: frozenset[str] = frozenset()


_OF_SENTENCES = frozenset({"sentences", "list_lines"})
AMOUNTS: MappingProxyType[str, Amount] = MappingProxyType(
    {
        "vowels": Amount(_matches(re.compile("[aeiouy]", re.IGNORECASE)), frozenset({"flesch_reading_ease"})),
        "letters_a_word": Amount(_letters_a_word, frozenset({"flesch_reading_ease", "long_word_share"})),
        "long_words": Amount(lambda text: _n_long(_alphabetic(text)), frozenset({"long_word_share"})),
        # Numbers are a bias's own where it removes specifics.
        "different_words": Amount(
            lambda text: len({word.lower() for word in _alphabetic(text)}), frozenset({"type_token_ratio"})
        ),
        "bullet_lines": Amount(_matches(_BULLET), frozenset({"list_lines"})),
        "words_a_sentence": Amount(lambda text: n_words(text) / max(1, len(sentences_of(text))), _OF_SENTENCES),
        "first_sentence": Amount(lambda text: len((sentences_of(text) or [""])[0]), _OF_SENTENCES),
        "last_sentence": Amount(lambda text: len((sentences_of(text) or [""])[-1]), _OF_SENTENCES),
    }
)
"""For `cda.stats.length` alone. They have no limit of drift: most go up with length."""


def wording(text: str) -> Counter[str]:
    """Counts of the words of a text, of its letters (`letter e`) and of the last two letters of words of four or more (`-ly`)."""
    tokens = [word.lower() for word in words(text)]
    counts = Counter(tokens)
    counts.update(f"letter {letter}" for letter in text.lower() if letter.isalpha())
    counts.update(f"-{word[-2:]}" for word in tokens if len(word) > 3)
    return counts


PATTERN_FEATURES = ("pattern_count", "pattern_per_100_words")
OWN_FEATURES = ("markers_per_100_words", *PATTERN_FEATURES)
"""Features that depend on the bias file's own content: its phrases, its pattern."""
FEATURE_NAMES = (*TEXT_FEATURES, *OWN_FEATURES)


def scope_in_words(feature: str) -> str:
    """The texts for which a feature holds, in words."""
    return TEXT_FEATURES[feature].holds_in if feature in TEXT_FEATURES else "the language of the bias's own phrases"


def measure(text: str, feature: str, markers: Sequence[str] = (), pattern: str | None = None) -> float:
    """One feature (of FEATURE_NAMES) of one text; counts per 100 words are 0.0 for a text without words. NaN for a text for
    which the feature does not hold.

    `markers`: phrases, for `markers_per_100_words`; `pattern`: regular expression, for PATTERN_FEATURES, whose matches do not
    overlap. SlowPatternError: it takes too long over this text. ValueError: a feature needs one, and there is none.
    """
    if feature in TEXT_FEATURES:
        return TEXT_FEATURES[feature].within(text, scopes_of(text))
    if feature == "markers_per_100_words":
        count = n_phrases(text, tuple(markers))
    elif feature in PATTERN_FEATURES:
        if pattern is None:
            raise ValueError(f"feature {feature} needs a pattern")
        count = sum(1 for _ in compiled(pattern, multiline=True).finditer(text))
    else:
        raise KeyError(feature)
    if feature == "pattern_count":
        return float(count)
    total = n_words(text)
    return 100.0 * count / total if total else 0.0
