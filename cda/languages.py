"""The language and the script of a text, and the scopes within which text features hold."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from functools import lru_cache
from itertools import islice
from typing import Literal

import regex

Scope = Literal[
    "any script",
    "scripts with spaces between words",
    "scripts that mark the end of a sentence",
    "scripts with capitals",
    "English",
]
"""The texts for which a feature holds, in words that a report can print."""
# Runs of these letters hold many words, and only a dictionary could part them: each letter, with its marks, counts as a word.
UNSPACED = (
    r"[[\p{Han}\p{Hiragana}\p{Katakana}\p{Bopomofo}\p{Yi}ー々〆\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\p{Tibetan}\p{Tai_Tham}"
    r"\p{Tai_Le}\p{New_Tai_Lue}\p{Tai_Viet}\p{Javanese}\p{Balinese}]&&[\p{L}\p{Nl}]]"
)
# Letters outside each scope; most scripts have neither capitals nor another rule, so capitals are listed by what has them.
_OUTSIDE: dict[Scope, str] = {
    "scripts with spaces between words": UNSPACED,
    "scripts that mark the end of a sentence": r"[[\p{Thai}\p{Lao}\p{Tai_Tham}\p{Javanese}\p{Balinese}]&&\p{L}]",
    "scripts with capitals": r"[\p{L}--[\p{Latin}\p{Cyrillic}\p{Greek}\p{Armenian}]]",
}
_OUTSIDE_OF = {scope: regex.compile(letters, regex.V1) for scope, letters in _OUTSIDE.items()}
_MOST_OUTSIDE = 0.2
"""Share of a text's letters that may lie outside a scope: names, quotations."""
_CODE_OR_ADDRESS = re.compile(r"```.*?(?:```|\Z)|`[^`\n]+`|https?://\S+", re.DOTALL)
_LETTERS = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?")
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
_LANGUAGES_OF = {
    word: [name for name, stop in STOP_WORDS.items() if word in stop]
    for word in frozenset().union(*STOP_WORDS.values())
}


@lru_cache(maxsize=4096)
def scopes_of(text: str) -> frozenset[Scope]:
    """The scopes that a text lies in; code and web addresses are left out, and a text without letters lies in all.

    >>> sorted(scopes_of("这个问题的答案很简单。"))
    ['any script', 'scripts that mark the end of a sentence']
    """
    scopes: set[Scope] = {"any script"}
    prose = _prose(text)
    if prose.isascii():
        scopes.update(_OUTSIDE)
    else:
        most = _MOST_OUTSIDE * sum(map(str.isalpha, prose))
        scopes.update(scope for scope, outside in _OUTSIDE_OF.items() if len(outside.findall(prose)) <= most)
    if is_english(text):
        scopes.add("English")
    return frozenset(scopes)


def is_english(text: str) -> bool:
    """True for an English text, and for one too short to tell in Latin letters.

    >>> is_english("Der Hund ist nicht auf der Matte, und das ist gut."), is_english("Photosynthesis!"), is_english("答案")
    (False, True, False)
    """
    if script_shares(text).get("LATIN", 1.0 if not script_shares(text) else 0.0) < 1 - _MOST_OUTSIDE:
        return False
    language = language_of(text)
    return language == "en" or (language is None and not _lacks(text, "en"))


@lru_cache(maxsize=1024)
def script_shares(text: str) -> dict[str, float]:
    """Share of the letters in each script (`LATIN`, `CYRILLIC`, …), code and addresses left out; empty without letters."""
    counts: Counter[str] = Counter()
    for letter, n in Counter(_prose(text)).items():
        if letter.isalpha():
            counts[_script(letter)] += n
    total = counts.total()
    return {name: count / total for name, count in counts.items()}


@lru_cache(maxsize=1024)
def language_of(text: str) -> str | None:
    """Language by its stop words; None for few words, for other languages, and if two come close.

    >>> language_of("The cat sat on the mat because it was warm"), language_of("Der Hund ist nicht auf der Matte")
    ('en', 'de')
    """
    words = _lower_words(text)
    hits = dict.fromkeys(STOP_WORDS, 0)
    for word in words:
        for name in _LANGUAGES_OF.get(word, ()):
            hits[name] += 1
    (best, most), (_, second) = sorted(hits.items(), key=lambda item: -item[1])[:2]
    enough = most >= max(_MIN_HITS, _MIN_HIT_SHARE * len(words)) and most >= _LEAD * second
    return best if enough else None


def same_language(one: str, other: str, min_letters: int = 20) -> bool:
    """True if two texts may be in the same language, or if there is too little of either to tell."""
    if any(sum(1 for _ in islice(filter(str.isalpha, text), min_letters)) < min_letters for text in (one, other)):
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
    return [word.lower() for word in _LETTERS.findall(_prose(text))]


def _prose(text: str) -> str:
    """A text without code and web addresses."""
    return _CODE_OR_ADDRESS.sub(" ", text) if "`" in text or "http" in text else text


@lru_cache(maxsize=8192)
def _script(letter: str) -> str:
    return unicodedata.name(letter, "UNKNOWN").split()[0].split("-")[0]
