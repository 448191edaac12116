"""Features of a text that can be measured without a model, and its language; bias files name the features.

Every feature is a pure function of the text (and, for `OWN_FEATURES`, of a bias file's own phrases or pattern).
Adding a feature here makes it usable in every bias file. Readability, hedges and long words are made for English.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from cda.patterns import compiled

_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*|\d+(?:[.,:]\d+)*")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[\"'(\[]?[A-Z0-9])|(?<=[.!?][\"')\]])\s+(?=[\"'(\[]?[A-Z0-9])")
LIST_LINE = re.compile(r"^[ \t]*(?:[-*•+]|\d{1,3}[.)])[ \t]+(?=\S)", re.MULTILINE)
_HEADER = re.compile(r"^[ \t]*#{1,6}[ \t]+\S", re.MULTILINE)
_BOLD = re.compile(r"\*\*[^*\n]+\*\*|__[^_\n]+__")
_LONG_WORD_LETTERS = 9
_BOLD_LEAD_IN = re.compile(r"^([ \t]*(?:[-*•+][ \t]+|\d{1,3}[.)][ \t]+)?)(?:\*\*[^*\n]+\*\*|__[^_\n]+__)", re.MULTILINE)
_HEADER_LINE = re.compile(r"^[ \t]*#{1,6}[ \t]+.*$", re.MULTILINE)
# A capital after a word, not after what may open a sentence, a heading or a quotation; a run of them is one name.
_NAME = re.compile(r"(?<=[\w,;)%] )(?!I\b)[^\W\d_a-zß-öø-ÿ][\w’'.-]*\w(?: (?!I\b)[^\W\d_a-zß-öø-ÿ][\w’'.-]*\w)*")
_TTR_WINDOW_WORDS = 50
_PICTURE = "[\U0001f300-\U0001faff\u2600-\u27bf\u2b05-\u2b07\u2b1b\u2b1c\u2b50\u2b55][\ufe0f\U0001f3fb-\U0001f3ff]*"
EMOJI = re.compile(f"[\U0001f1e6-\U0001f1ff]{{2}}|{_PICTURE}(?:\u200d{_PICTURE})*")
BLANKS = " \t\u00a0\u2002-\u200a\u202f\u3000"
_WIDE_SPACE = re.compile(rf"(?<=\S)[{BLANKS}]{{2,}}(?=\S)")
# From the first of a run of marks alone: from each of 60,000 it would take minutes.
_QUESTION = re.compile(r"(?<![?!])!*+\?[?!]*+(?=[\s\"'”’)\]*_]|$)")
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


def words(text: str) -> list[str]:
    """The words of a text, numbers included, punctuation and markdown marks left out."""
    return _WORD.findall(text)


def n_words(text: str) -> int:
    """Number of words as a reader counts them: runs of non-space that hold a letter or a digit."""
    return sum(any(character.isalnum() for character in token) for token in text.split())


def sentences(text: str) -> list[str]:
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
    long = sum(len(word.replace("-", "")) >= _LONG_WORD_LETTERS for word in alphabetic)
    return long / max(1, len(alphabetic))


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
    n_sentences = max(1, len(sentences(text)))
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
    return n_names + _n_digit_words(without_names)


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


def _spaced(phrase: str) -> str:
    """Pattern of a phrase, for any white space between its words. A space before or behind it is a single one: a run of them,
    tried from each of its places, would take the square of its length."""
    within = re.sub(r"(?:\\\s)+", r"\\s+", re.escape(phrase.strip())).replace("'", "['’]")
    return r"\s" * phrase[:1].isspace() + within + r"\s" * (phrase[-1:].isspace() and bool(within))


def _n_digit_words(text: str) -> int:
    return sum(any(character.isdigit() for character in word) for word in words(text))


def _matches(pattern: re.Pattern[str]) -> Callable[[str], int]:
    return lambda text: len(pattern.findall(text))


TEXT_FEATURES: MappingProxyType[str, Callable[[str], float]] = MappingProxyType(
    {
        "words": n_words,
        "characters": len,
        "sentences": lambda text: len(sentences(text)),
        "list_lines": n_list_lines,
        "headers": _matches(_HEADER),
        "bold": _matches(_BOLD),
        "exclamations": lambda text: text.count("!"),
        # One that is made of several signs counts once.
        "emoji": _matches(EMOJI),
        # Runs of two or more blanks between words, no-break and other wide spaces among them; code blocks left out.
        "wide_spaces": lambda text: len(_WIDE_SPACE.findall(_FENCE.sub("", text))),
        # Question marks at the end of a word, several in a row counted once; those within web addresses are not.
        "questions": _matches(_QUESTION),
        "digit_words": _n_digit_words,
        "specifics": _n_specifics,
        "hedges": lambda text: len(phrase_pattern(HEDGES).findall(text)),
        "long_word_share": long_word_share,
        "flesch_reading_ease": flesch_reading_ease,
        "type_token_ratio": type_token_ratio,
    }
)
PATTERN_FEATURES = ("pattern_count", "pattern_per_100_words")
OWN_FEATURES = ("markers_per_100_words", *PATTERN_FEATURES)
"""Features that depend on the bias file's own content: its phrases, its pattern."""
FEATURE_NAMES = (*TEXT_FEATURES, *OWN_FEATURES)


def measure(text: str, feature: str, markers: Sequence[str] = (), pattern: str | None = None) -> float:
    """One feature (of FEATURE_NAMES) of one text; counts per 100 words are 0.0 for a text without words.

    `markers`: phrases, for `markers_per_100_words`; `pattern`: regular expression, for PATTERN_FEATURES, whose matches do not
    overlap. SlowPatternError: it takes too long over this text. ValueError: a feature needs one, and there is none.
    """
    if feature in TEXT_FEATURES:
        return float(TEXT_FEATURES[feature](text))
    if feature == "markers_per_100_words":
        count = len(phrase_pattern(tuple(markers)).findall(text))
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


_CODE_OR_ADDRESS = re.compile(r"```.*?(?:```|\Z)|`[^`\n]+`|https?://\S+", re.DOTALL)
_LETTERS = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?")
_MIN_LETTERS = 20
_MIN_HITS = 3
_MIN_HIT_SHARE = 0.12
_LEAD = 1.3
_MIN_WORDS = 25
_LACKING = 0.03  # of 4,500 English responses in a public release none is below 6%, Czech ones are at 1%
_KANA = ("HIRAGANA", "KATAKANA")
# Frequent words that carry no content. Some belong to several languages; the lead over the next language settles it.
_STOP_WORDS = {
    "en": "the and of to is that for with are this you it be as on your can or have not by from at which will how what why "
    "do does an if should i my in a was were would could there when who where",
    "de": "der die und das ist nicht mit ein eine zu den von auch sich für auf sie werden dem wie im es",
    "fr": "le les et des est une dans pour que vous pas sur avec qui ce au du la il nous je plus sont",
    "es": "el los las y es una que para por con se del como su más la en un lo pero son",
    "pt": "o os as e é uma que para por com se do da como não mais em um na no são ao",
    "it": "il gli e è una che per con di del della sono non si un la nel anche più le i",
    "nl": "de het een en is van dat niet voor met zijn op te aan ook wordt bij je ze deze",
}
STOP_WORDS: dict[str, frozenset[str]] = {name: frozenset(text.split()) for name, text in _STOP_WORDS.items()}


def script_shares(text: str) -> dict[str, float]:
    """Share of the letters in each script (`LATIN`, `CYRILLIC`, …), code and addresses left out; empty without letters."""
    counts = Counter(_script(letter) for letter in _CODE_OR_ADDRESS.sub(" ", text) if letter.isalpha())
    total = counts.total()
    return {name: count / total for name, count in counts.items()}


def language_of(text: str) -> str | None:
    """Language by its stop words; None for few words, for other languages, and if two come close.

    >>> language_of("The cat sat on the mat because it was warm"), language_of("Der Hund ist nicht auf der Matte")
    ('en', 'de')
    """
    words = _lower_words(text)
    hits = {name: sum(word in stop for word in words) for name, stop in STOP_WORDS.items()}
    (best, most), (_, second) = sorted(hits.items(), key=lambda item: -item[1])[:2]
    enough = most >= max(_MIN_HITS, _MIN_HIT_SHARE * len(words)) and most >= _LEAD * second
    return best if enough else None


def same_language(one: str, other: str) -> bool:
    """True if two texts may be in the same language, or if there is too little of either to tell."""
    if any(sum(map(str.isalpha, text)) < _MIN_LETTERS for text in (one, other)):
        return True
    shares, others = script_shares(one), script_shares(other)
    if shares and others:
        main = max(shares, key=lambda name: shares[name])
        if others.get(main, 0.0) < shares[main] / 2:
            return False
        if (sum(shares.get(name, 0.0) for name in _KANA) > 0.1) != (sum(others.get(name, 0.0) for name in _KANA) > 0.1):
            return False
    first, second = language_of(one), language_of(other)
    if first is not None and second is not None:
        return first == second
    # One is in a language we know; the other may be in one we do not, and then has none of its stop words.
    return not (_lacks(other, first) if first is not None else _lacks(one, second) if second is not None else False)


def _lacks(text: str, language: str) -> bool:
    """Long enough a text, with next to no stop word of the language."""
    words = _lower_words(text)
    hits = sum(word in STOP_WORDS[language] for word in words if len(word) > 1)  # single letters are words everywhere
    return len(words) >= _MIN_WORDS and hits < _LACKING * len(words)


def _lower_words(text: str) -> list[str]:
    return [word.lower() for word in _LETTERS.findall(_CODE_OR_ADDRESS.sub(" ", text))]


@lru_cache(maxsize=8192)
def _script(letter: str) -> str:
    return unicodedata.name(letter, "UNKNOWN").split()[0].split("-")[0]
