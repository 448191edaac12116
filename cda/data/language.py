"""Script and language of a text: enough to notice that a rewrite changed it, with no model and no data."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from functools import lru_cache

_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]+`|https?://\S+", re.DOTALL)
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?")
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
    counts = Counter(_script(letter) for letter in _CODE.sub(" ", text) if letter.isalpha())
    total = counts.total()
    return {name: count / total for name, count in counts.items()}


def language_of(text: str) -> str | None:
    """Language by its stop words; None for few words, for other languages, and if two come close.

    >>> language_of("The cat sat on the mat because it was warm"), language_of("Der Hund ist nicht auf der Matte")
    ('en', 'de')
    """
    words = _words(text)
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
    words = _words(text)
    hits = sum(word in STOP_WORDS[language] for word in words if len(word) > 1)  # single letters are words everywhere
    return len(words) >= _MIN_WORDS and hits < _LACKING * len(words)


def _words(text: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(_CODE.sub(" ", text))]


@lru_cache(maxsize=8192)
def _script(letter: str) -> str:
    return unicodedata.name(letter, "UNKNOWN").split()[0].split("-")[0]
