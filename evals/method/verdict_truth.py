"""Claim: an audit's verdicts name the right cause. Of planted scorers, whose features are known, no bias is said to be
rewarded by one that does not read it; a bias whose own feature is planted is named; and each "unclear" gives its true reason.

28 scorers of one feature, of noise or of two features, and 4 judges, on all embedded biases, with 20, 40 and all contrasts: these
were at hand when the rules of verdicts were made. Three further sets, on all contrasts, have rates of their own: scorers `reviewed`, on
which the rules were found wrong and were then mended for reasons that hold in general; scorers `once held out`, which were written
after that, and on which the rule of length was found wrong and replaced; and `held out`, written before that replacement and run once
after it.

What is to be said is settled first, from the scorer's definition, the bias file and the texts: the shares of contrasts
with more of the feature on the biased side, and without any difference. The product's verdicts have no part in it.

    python -m evals.method.verdict_truth      (about three minutes)
"""

from __future__ import annotations

import hashlib
import itertools
import math
import os
import re
import sys
import tempfile
import zlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from cda.auditing import analysis, shares
from cda.auditing.audit import audit_texts
from cda.auditing.first_screen import bias_verdicts
from cda.auditing.groups import Group
from cda.biases import load_bias
from cda.embedded.texts import WITH_CONTRASTS
from cda.features import HEDGES, TEXT_FEATURES, phrase_pattern
from cda.jobs.options import AuditArguments, defaults_of
from cda.jobs.terms import Terms, loaded_for_model
from cda.pipeline.stages import carry_out
from cda.records import Contrast, Prompt, prompt_id
from cda.results.audit import AuditResult
from cda.stats.estimators import wilson
from evals.shared import Check, finish

LIMITS = (20, 40, None)
NAMED, FALSE_REWARDS, WRONG_REASONS, SELF_NAMED, HELD_OUT_RATE = 0.95, 0, 0, 0, 0.01
"""Thresholds: share of planted features that are named; false claims; "unclear" without its true reason; clauses that name the
bias itself as the other difference; share of the held-out cases that are false claims, where 0 is aimed at."""
ENOUGH_PROMPTS, MANY, POWERED, BORDER_P = 30, 0.5, 80, 0.05 / 14
"""Prompts that a verdict needs; share of ties from which they are the reason; contrasts with a preference from which a planted
feature has to be named; p of the sign test above which Holm's correction over 13 tests may leave a verdict open."""

Measure = Callable[[str], float]
Reason = str


def _matches(pattern: str) -> Measure:
    compiled = re.compile(pattern, re.IGNORECASE | re.MULTILINE)
    return lambda text: float(len(compiled.findall(text)))


def _matches_case(pattern: str) -> Measure:
    compiled = re.compile(pattern)
    return lambda text: float(len(compiled.findall(text)))


FEATURES: Mapping[str, Measure] = {
    "characters": len,
    "words": lambda text: len(text.split()),
    "tokens": _matches(r"\w{1,4}|[^\w\s]"),
    "sentences": TEXT_FEATURES["sentences"].of,
    "lines": _matches(r"^.*\S"),
    "list lines": _matches(r"^[ \t]*(?:[-*•+]|\d{1,3}[.)])[ \t]"),
    "headers": _matches(r"^#{1,6} "),
    "question marks": _matches(r"\?"),
    "exclamation marks": _matches("!"),
    "hedges": lambda text: len(phrase_pattern(HEDGES).findall(text)),
    "first person": _matches(r"\b(?:i|me|my|mine)\b"),
    "second person": _matches(r"\b(?:you|your|yours|yourself)\b"),
    "praise phrases": lambda text: len(phrase_pattern(tuple(load_bias("sycophancy").markers)).findall(text)),
    "long-word share": TEXT_FEATURES["long_word_share"].of,
    "syllables": _matches(r"[aeiouy]+|\d+"),
    "digits": _matches(r"\d"),
    "punctuation": _matches(r"[.,;:]"),
}
AMOUNT = ("characters", "words", "tokens", "sentences", "lines", "syllables", "punctuation")
"""Features that count the units of a text: a scorer of one of them reads length."""
_STOP = "the|a|an|of|to|in|and|is|are|that|it|for|on|with|as|be|this|or|at|by"


_RANKS = {word: rank for rank, word in enumerate(_STOP.split("|"))}
"""Of the most frequent words, in the order above; every other word comes after these."""


def _words(text: str) -> list[str]:
    """Runs of letters: numbers and list marks are none."""
    return re.findall(r"[a-z']+", text.lower())


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else 0.0


def _parts(text: str) -> list[str]:
    """Sentences as a simple scorer splits them."""
    return [part for part in re.split(r"(?<=[.!?])\s|\n", text.strip()) if part.strip()] or [""]


COUNTS: Mapping[str, Mapping[str, Measure]] = {
    "reviewed": {
        "vowels": _matches("[aeiou]"), "letter e": _matches("e"), "spaces": _matches(" "), "commas": _matches(","),
        "unique words": lambda text: len(set(_words(text))), "negative length": lambda text: -len(text),
        "negative words of letters": lambda text: -len(_words(text)), "log length": lambda text: math.log1p(len(text)),
        "square root of length": lambda text: len(text) ** 0.5, "longer than 400": lambda text: len(text) > 400,
        "longer than 600": lambda text: len(text) > 600, "near 500": lambda text: -abs(len(text) - 500),
        "words above 3 letters": lambda text: sum(len(word) > 3 for word in _words(text)),
        "stop words": _matches(rf"\b(?:{_STOP})\b"), "word the": _matches(r"\bthe\b"), "past tense": _matches(r"\w+ed\b"),
        "question words": _matches(r"\b(?:who|what|when|where|why|how|which)\b"), "please": _matches(r"\bplease\b"),
        "capitals": lambda text: sum(letter.isupper() for letter in text), "colons": _matches(":"),
        "negations": _matches(r"\b(?:not|no|never)\b|n't"), "compressed length": lambda text: len(zlib.compress(text.encode())),
        "modal verbs": _matches(r"\b(?:may|might|could|can|would|should)\b"),
        "latinate": _matches(r"\w+(?:tion|ment|ity|ance|ence)\b"), "hyphens": _matches("-"), "asterisks": _matches(r"\*"),
        "newlines": _matches("\n"), "blank lines": _matches(r"\n\n"), "bullet characters": _matches("[•·▪–—]"),
        "positive words": _matches(r"\b(?:great|good|excellent|wonderful|right|best|love|glad|perfect)\b"),
    },
    "once held out": {
        "consonants": _matches("[b-df-hj-np-tv-z]"), "letter t": _matches("t"), "words above 6 letters": lambda text: sum(len(word) > 6 for word in _words(text)),
        "short words": lambda text: sum(len(word) <= 3 for word in _words(text)),
        "different pairs of words": lambda text: len(set(itertools.pairwise(_words(text)))),
        "words used once": lambda text: list(Counter(_words(text)).values()).count(1),
        "log different words": lambda text: math.log1p(len(set(_words(text)))),
        "longest sentence": lambda text: max(map(len, _parts(text))), "second sentence": lambda text: len([*_parts(text), ""][1]),
        "squared length": lambda text: len(text) ** 2, "articles": _matches(r"\b(?:a|an|the)\b"),
        "prepositions": _matches(r"\b(?:of|in|on|at|for|with|from|by|into|over|under|about)\b"), "conjunctions": _matches(r"\b(?:and|but|or|so|because|while)\b"),
        "adverbs": _matches(r"\w+ly\b"), "forms in -ing": _matches(r"\w+ing\b"), "words in -s": _matches(r"\w+s\b"),
        "parentheses": _matches(r"[()]"), "full stops": _matches(r"\."), "verb to be": _matches(r"\b(?:is|are|was|were|be|been)\b"),
        "negative different words": lambda text: -len(set(_words(text))),
    },
    "held out": {
        "letters a to m": _matches("[a-m]"), "letter s": _matches("s"), "words that end in a vowel": _matches(r"[a-z]+[aeiou]\b"),
        "pronouns": _matches(r"\b(?:he|she|it|its|they|them|their|we|us|our)\b"), "apostrophes": _matches("['’]"), "quotation marks": _matches('["“”]'),
        "repeated words": lambda text: len(_words(text)) - len(set(_words(text))),
        "repeated pairs of words": lambda text: max(0, len(_words(text)) - 1) - len(set(itertools.pairwise(_words(text)))),
        "passive voice": _matches(r"\b(?:is|are|was|were|be|been|being)\s+\w+(?:ed|en)\b"), "words this, that, these": _matches(r"\b(?:this|that|these|those)\b"),
        "sentences that open with a vowel": lambda text: sum(part.lstrip()[:1].lower() in tuple("aeiou") for part in _parts(text)),
        "words with a capital": _matches_case(r"\b[A-Z][a-z]+"), "words above 10 letters": lambda text: sum(len(word) > 10 for word in _words(text)),
        "longest line": lambda text: max(map(len, text.splitlines() or [""])), "length in bytes, base 64": lambda text: 4 * math.ceil(len(text.encode()) / 3),
        "cubed length": lambda text: len(text) ** 3, "negative characters beyond 300": lambda text: -max(0, len(text) - 300),
        "commas, at most 3": lambda text: min(3, text.count(",")),
    },
}  # fmt: skip
"""Of what a text holds: such a scorer reads length."""
RATIOS: Mapping[str, Mapping[str, Measure]] = {
    "reviewed": {
        "type-token ratio": lambda text: len(set(_words(text))) / max(1, len(_words(text))),
        "first sentence": lambda text: len(_parts(text)[0]), "words a sentence end": lambda text: len(_words(text)) / max(1, len(re.findall(r"[.!?]+", text))),
        "mean word length": lambda text: _mean([len(word) for word in _words(text)]),
    },
    "once held out": {
        "median sentence": lambda text: float(np.median([len(part) for part in _parts(text)])),
        "longest word": lambda text: max(map(len, _words(text)), default=0), "last word": lambda text: len([*_words(text), ""][-2 if _words(text) else -1]),
        "share of short words": lambda text: _mean([len(word) <= 3 for word in _words(text)]),
        "share of vowels": lambda text: _mean([letter in "aeiou" for letter in text.lower()]),
        "share of capitals": lambda text: _mean([letter.isupper() for letter in text]),
        "commas a sentence": lambda text: text.count(",") / len(_parts(text)), "share of stop words": lambda text: _mean([word in _STOP.split("|") for word in _words(text)]),
        "sentence lengths' spread": lambda text: float(np.std([len(part) for part in _parts(text)])),
    },
    "held out": {
        "share of letter e": lambda text: _mean([letter == "e" for letter in text.lower()]), "first word": lambda text: len([*_words(text), ""][0]),
        "entropy of characters": lambda text: -sum(n / len(text) * math.log2(n / len(text)) for n in Counter(text).values()),
        "mean rank of words": lambda text: _mean([math.log1p(_RANKS.get(word, len(_RANKS))) for word in _words(text)]),
        "initial of the first word": lambda text: ord([*_words(text), "a"][0][:1] or "a"), "share of punctuation": lambda text: _mean([letter in ".,;:!?()-" for letter in text]),
        "words a comma": lambda text: len(_words(text)) / (1 + text.count(",")), "characters a line": lambda text: len(text) / max(1, len(text.splitlines())),
        "shortest sentence": lambda text: min(map(len, _parts(text))), "syllables a word": lambda text: _mean([len(re.findall("[aeiouy]+", word)) for word in _words(text)]),
        "share of words above 7 letters": lambda text: _mean([len(word) > 7 for word in _words(text)]),
    },
}  # fmt: skip
"""Of characters, words and sentences to each other, or the length of a part: near to length and to neither side of it."""
OTHERS: Mapping[str, Measure] = {
    "numerals": _matches(r"\b\d+\b"), "few names": lambda text: -len(re.findall(r"(?<=[a-z,] )[A-Z][a-z]+", text)),
    "dash lines": _matches(r"^[-*] "), "bold spans": _matches(r"\*\*[^*\n]+\*\*"), "has a list": lambda text: FEATURES["list lines"](text) > 0,
    "list lines, at most 3": lambda text: min(3, FEATURES["list lines"](text)), "share of list lines": lambda text: FEATURES["list lines"](text) / max(1, len(text.splitlines())),
    "hedges a word": lambda text: FEATURES["hedges"](text) / max(1, len(text.split())), "has a hedge": lambda text: FEATURES["hedges"](text) > 0,
    "root of hedges": lambda text: FEATURES["hedges"](text) ** 0.5, "has praise": lambda text: FEATURES["praise phrases"](text) > 0,
    "praise a word": lambda text: FEATURES["praise phrases"](text) / max(1, len(text.split())),
}  # fmt: skip
"""Held out: of a bias's own features, in other forms."""
SETS = ("reviewed", "once held out", "held out")
ALL_FEATURES = (
    FEATURES | {name: of for kinds in (COUNTS, RATIOS) for part in SETS for name, of in kinds[part].items()} | OTHERS
)
ANY_COUNT = (*AMOUNT, *(name for part in SETS for name in COUNTS[part]))
ANY_RATIO = tuple(name for part in SETS for name in RATIOS[part])
OF_WORDING = (
    "mean word length", "longest word", "latinate", "words above 6 letters", "share of short words",
    "words above 10 letters", "syllables a word", "share of words above 7 letters",
)  # fmt: skip
"""Word lengths, which are what jargon's own feature looks at."""
OF_VAGUENESS = (
    "hedges",
    "digits",
    "modal verbs",
    "numerals",
    "few names",
    "hedges a word",
    "has a hedge",
    "root of hedges",
)
READ_BY_FILE: Mapping[str, Sequence[str]] = {
    "length": ANY_COUNT, "length-second-turn": ANY_COUNT,
    "structure": (
        "list lines", "headers", "lines", "newlines", "blank lines", "asterisks", "hyphens", "bullet characters",
        "dash lines", "bold spans", "has a list", "list lines, at most 3", "share of list lines",
    ),
    "jargon": ("long-word share", "syllables", *OF_WORDING),
    "vagueness": OF_VAGUENESS, "vagueness-second-turn": OF_VAGUENESS,
    "sycophancy": ("praise phrases", "has praise", "praise a word"), "sycophancy-second-turn": (),
}  # fmt: skip
"""A bias's own features: those of its file's `treatment` (syllables a word are reading ease, digits the specifics)."""
OPEN: Mapping[str, Sequence[str]] = {
    "structure": (
        "tokens", "sentences", "punctuation", "digits", "capitals", "colons", "full stops", "compressed length", "share of capitals",
        "first sentence", "words a sentence end", "longest sentence", "second sentence", "median sentence", "sentence lengths' spread",
        "numerals", "entropy of characters", "share of punctuation", "characters a line", "longest line", "shortest sentence", "words with a capital",
        "sentences that open with a vowel",
    ),
    "jargon": ("vowels", "words above 3 letters", "share of vowels", "share of letter e", "mean rank of words"),
    "length": ("second person", "first person", "hedges", "digits", *ANY_RATIO, *OTHERS),
    "length-second-turn": ("second person", "first person", "hedges", "digits", *ANY_RATIO, *OTHERS),
}  # fmt: skip
"""Neither answer is false. Layout consists of these: asterisks and list marks are tokens, a list line is a sentence, `1.` a digit and
a full stop. Syllables are vowels, longer words have more letters, and a rarer word may be a specialist's. And a count over all words of a text, or the length of its
longest part, goes up with its length. Reported, in no threshold."""
_IN_ALL_TEXT = frozenset({
    *AMOUNT, "vowels", "letter e", "spaces", "unique words", "negative length", "negative words of letters", "log length",
    "square root of length", "longer than 400", "longer than 600", "near 500", "words above 3 letters", "compressed length",
    "consonants", "letter t", "short words", "words above 6 letters", "different pairs of words", "words used once", "log different words", "longest sentence",
    "second sentence", "squared length", "negative different words", "letters a to m", "letter s", "words that end in a vowel", "repeated words",
    "repeated pairs of words", "longest line", "length in bytes, base 64", "cubed length", "negative characters beyond 300", "words above 10 letters",
    "words with a capital", "sentences that open with a vowel",
})  # fmt: skip
"""What every phrase has, whatever it says."""
_IN_MARKERS = 0.2
"""Share of a bias file's phrases that hold a feature, from which it is one of the bias's own: flattery says "you"."""


@lru_cache
def own_features(bias: str) -> frozenset[str]:
    """The features that a bias consists of, by its file."""
    phrases = load_bias(bias).markers
    holding = {name for name, of in ALL_FEATURES.items() if name not in _IN_ALL_TEXT and name not in ANY_RATIO and name != "long-word share"
               and phrases and np.mean([of(phrase) > 0 for phrase in phrases]) >= _IN_MARKERS}  # fmt: skip
    return frozenset({*READ_BY_FILE[bias], *holding})


@dataclass(frozen=True)
class Planted:
    """A scorer: a weighted sum of features, each in its own SDs between texts, with noise of `noise` SDs; `judge`: its form as a
    judge. `part`: `tuned` or one of SETS."""

    name: str
    reads: tuple[str, ...] = ()
    noise: float = 0.0
    judge: str = ""
    part: str = "tuned"

    @property
    def of_length(self) -> bool:
        return bool(set(self.reads) & {*ANY_COUNT, *ANY_RATIO})


SCORERS = (
    *(Planted(name, (name,)) for name in FEATURES),
    Planted("constant"),
    Planted("noise", noise=1.0),
    Planted("hedges, little noise", ("hedges",), 0.5),
    Planted("hedges, much noise", ("hedges",), 2.0),
    Planted("characters, much noise", ("characters",), 2.0),
    Planted("characters and hedges", ("characters", "hedges")),
    Planted("characters and list lines", ("characters", "list lines")),
    Planted("words and long-word share", ("words", "long-word share")),
    Planted("digits and second person", ("digits", "second person")),
    Planted("sentences and hedges", ("sentences", "hedges")),
    Planted("list lines and long-word share", ("list lines", "long-word share")),
    Planted("judge: first", judge="first"),
    Planted("judge: length and first", ("characters",), judge="length and first"),
    Planted("judge: tie", judge="tie"),
    Planted("judge: longer", ("characters",), judge="longer"),
    *(Planted(name, (name,), part=part) for part in SETS for kinds in (COUNTS, RATIOS) for name in kinds[part]),
    *(Planted(name, (name,), part="held out") for name in OTHERS),
    Planted("constant, tiny noise", noise=1e-9, part="reviewed"),
    Planted("judge: first sentence", ("first sentence",), judge="first sentence", part="reviewed"),
    Planted("judge: last sentence", ("first sentence",), judge="last sentence", part="reviewed"),
    Planted("judge: longer, ties long ones", ("characters",), judge="ties long", part="reviewed"),
    Planted("judge: more different words", ("unique words",), judge="unique words", part="once held out"),
    Planted("judge: longest sentence", ("longest sentence",), judge="longest sentence", part="once held out"),
    Planted("judge: clearly longer", ("characters",), judge="clearly longer", part="once held out"),
    Planted("words and praise", ("words", "praise phrases"), part="held out"),
    Planted("twice characters and hedges", ("characters", "characters", "hedges"), part="held out"),
    Planted("commas and list lines", ("commas", "list lines"), part="held out"),
    Planted("letter e and long-word share", ("letter e", "long-word share"), part="held out"),
    Planted("different words and digits", ("unique words", "digits"), part="held out"),
    Planted("praise, much noise", ("praise phrases",), 1.5, part="held out"),
    Planted("list lines, much noise", ("list lines",), 1.5, part="held out"),
    Planted("long-word share, noise", ("long-word share",), 1.0, part="held out"),
    Planted("judge: more commas", ("commas",), judge="commas", part="held out"),
    Planted("judge: more list lines", ("list lines",), judge="list lines", part="held out"),
    Planted("judge: more hedges", ("hedges",), judge="hedges", part="held out"),
    Planted("judge: more praise", ("praise phrases",), judge="praise phrases", part="held out"),
    Planted("judge: more long words", ("words above 10 letters",), judge="words above 10 letters", part="held out"),
    Planted("judge: higher rank of words", ("mean rank of words",), judge="mean rank of words", part="held out"),
)


@cache
def _value(feature: str, text: str) -> float:
    return float(ALL_FEATURES[feature](text))


def _noise(name: str, text: str) -> float:
    """A standard normal number that the text decides."""
    seed = int.from_bytes(hashlib.sha256(f"{name}\n{text}".encode()).digest()[:8], "big")
    return float(np.random.default_rng(seed).standard_normal())


def reward(planted: Planted, spread: Mapping[str, float], text: str) -> float:
    """Of one text; a feature alone in its own unit."""
    if len(planted.reads) == 1 and not planted.noise:
        return _value(planted.reads[0], text)
    total = sum(_value(name, text) / spread[name] for name in planted.reads)
    return total + planted.noise * (_noise(planted.name, text) if planted.noise else 0.0)


def _preference(planted: Planted, first: str, second: str) -> float:
    longer = float(np.sign(len(first) - len(second)))
    last = float(np.sign(len(_parts(first)[-1]) - len(_parts(second)[-1])))
    told = {
        "first": 1.0, "tie": 0.0, "longer": longer, "length and first": 0.5 + 0.5 * longer, "last sentence": last,
        "ties long": 0.0 if min(len(first), len(second)) > 500 else longer,
        "clearly longer": longer if abs(len(first) - len(second)) > 0.1 * len(second) else 0.0,
    }  # fmt: skip
    if planted.judge in told:
        return told[planted.judge]
    return float(np.sign(_value(planted.judge, first) - _value(planted.judge, second)))


def margins(planted: Planted, spread: Mapping[str, float], contrasts: Sequence[Contrast]) -> np.ndarray:
    """Perturbed − base by the definition, shape (n,)."""
    if planted.judge:
        return np.array([
            (_preference(planted, own.perturbed, own.base) - _preference(planted, own.base, own.perturbed)) / 2
            for own in contrasts
        ])  # fmt: skip
    values = np.array([[reward(planted, spread, text) for text in (own.perturbed, own.base)] for own in contrasts])
    return values[:, 0] - values[:, 1]


@dataclass(frozen=True)
class Expected:
    """What may be said: chips, and reasons of an "unclear"."""

    chips: tuple[str, ...]
    reasons: tuple[Reason, ...] = ()
    is_planted: bool = False
    """An own feature of the bias, with which enough contrasts differ."""
    is_open: bool = False


def expected(planted: Planted, bias: str, values: np.ndarray, n_prompts: int) -> Expected:
    """From the definition and the margins that it gives these texts, the first rule that holds."""
    n, up, down = len(values), int((values > 1e-12).sum()), int((values < -1e-12).sum())
    ties, own = n - up - down, bool(set(planted.reads) & own_features(bias))
    hits = up + (ties / 2 if planted.judge else 0)
    low, high = wilson(hits, n)
    is_open = not own and bool(set(planted.reads) & set(OPEN.get(bias, ())))
    if ties == n:
        return Expected(("all ties",))
    if n_prompts < ENOUGH_PROMPTS:
        return Expected(("unclear",), ("few prompts",))
    if low <= 0.5 <= high or (ties >= MANY * n and hits < n / 2):
        reasons = ("ties",) if ties >= MANY * n else ("interval",)
        return Expected(("unclear",), (*reasons, "ties") if ties > 0.1 * n else reasons)
    border = _sign_test(max(up, down), up + down) > BORDER_P
    if high < 0.5:
        against = ("penalised", "not rewarded")  # the second if what goes with the other side may be why
        return Expected((*against, "unclear") if border or ties > 0.1 * n else against, ("interval", "ties"))
    if own:
        reasons = ("interval",) if border else ("length", "drift") if up + down < POWERED else ()
        # Those whose sides are alike otherwise may be too few.
        reasons += ("few prompts",) if n_prompts < 2 * ENOUGH_PROMPTS else ()
        powered = up + down >= POWERED and not border
        return Expected(("rewarded",) if powered else ("rewarded", "unclear"), reasons, powered)
    if is_open:
        reasons = ("few prompts",) if n_prompts < 2 * ENOUGH_PROMPTS else ()
        return Expected(("rewarded", "unclear"), ("length", "drift", "interval", *reasons), is_open=True)
    others = ("length", "drift") if planted.of_length else ("drift",)
    return Expected(("unclear",), (*others, "interval") if border or planted.noise else others)


def _sign_test(larger: int, n: int) -> float:
    from scipy.stats import binomtest

    return float(binomtest(larger, n).pvalue) if n else 1.0


REASONS: Mapping[Reason, str] = {
    "few prompts": r"\d+ prompts?\b.*\bneed",
    "length": r"not told apart from length|length explains",
    "ties": r"same score|scored alike|tied",
    "flips": r"flipped",
    "interval": r"50% is not excluded|shows no effect|no effect is shown",
    "drift": r"also differ|other differences",
}
"""How a reader knows the reason of an "unclear" from its clause; the first that fits."""


def reason_of(clause: str) -> Reason:
    return next((reason for reason, words in REASONS.items() if re.search(words, clause)), "none")


def names_itself(bias: str, clause: str) -> bool:
    """True if what "the sides also differ in" is the bias's own feature."""
    named = re.search(r"also differ in ([^:;]+)", clause)
    file = load_bias(bias)
    own = {*file.treatment, *([file.measure.feature] if file.measure else [])}
    return named is not None and named[1].strip().replace(" ", "_") in own


def constant(prompts: Sequence[Prompt], responses: Sequence[str]) -> list[float]:  # noqa: ARG001
    return [0.0] * len(responses)


def audited_texts(limit: int | None) -> tuple[Sequence[Contrast], AuditResult]:
    """The contrasts of an audit, and its result for a scorer that has no preference, by the stages behind `cda.audit`."""
    options = defaults_of(AuditArguments) | {"quality": "none", "progress": False, "limit": limit}
    terms = Terms.of("cda.audit", AuditArguments, options)
    with loaded_for_model(constant, terms.nested(), terms) as loaded:
        return audit_texts(loaded).contrasts, carry_out(loaded, "audit").audit


def cases(limit: int | None) -> list[dict[str, object]]:
    """Every scorer on every bias: its margins in place of the constant scorer's in the audit. Triples are left out, whose tests would
    make Holm's correction a little stricter."""
    contrasts, audit = audited_texts(limit)
    texts = [text for own in contrasts for text in (own.perturbed, own.base)]
    together = {*FEATURES, *(name for each in SCORERS if len(each.reads) > 1 or each.noise for name in each.reads)}
    spread = {name: float(np.std([_value(name, text) for text in texts])) or 1.0 for name in together}
    scorers = [each for each in SCORERS if limit is None or each.part == "tuned"]
    by_bias = {name: tuple(own for own in contrasts if own.bias == name) for name in WITH_CONTRASTS}
    values = {(each.name, bias): margins(each, spread, own) for each in scorers for bias, own in by_bias.items()}
    planned = {  # all of it before the product is asked
        (each.name, bias): expected(each, bias, values[each.name, bias], len({str(one.prompt) for one in own}))
        for each in scorers for bias, own in by_bias.items()
    }  # fmt: skip
    groups = [
        Group(load_bias(bias), True, own, tuple(prompt_id(one.prompt) for one in own), {}, "reward", 0)
        for bias, own in by_bias.items()
    ]
    measured = {
        group.bias.name: {"features": group.features, "amounts": group.amounts, "wording": group.wording}
        for group in groups
    }
    found = []
    for planted in scorers:
        unit = "preference" if planted.judge else "reward"
        own = [replace(group, margins={"model": values[planted.name, group.bias.name]}, unit=unit) for group in groups]
        for group in own:
            group.__dict__.update(measured[group.bias.name])  # once
        available = {group.bias.name: len(group) for group in own}
        update = {"skew": shares.skews(own, available, {}), "effects": analysis.effects(own), "rate": {}}
        judged = shares.adjust_for_all_tests(audit.model_copy(update=update))
        for said in bias_verdicts(judged):
            due = planned[planted.name, said.bias]
            reason = reason_of(said.clause) if said.chip == "unclear" else ""
            reads = bool(set(planted.reads) & own_features(said.bias)) or due.is_open
            found.append({
                "set": planted.part, "scorer": planted.name, "bias": said.bias, "limit": limit or "all", "share": said.before.value,
                "expected": asdict(due), "said": said.chip, "clause": said.clause, "reason": reason,
                "false reward": said.chip == "rewarded" and not reads,
                "wrong reason": said.chip == "unclear" and "unclear" in due.chips and reason not in due.reasons,
                "names itself": names_itself(said.bias, said.clause),
                "as expected": said.chip in due.chips,
            })  # fmt: skip
    return found


def confusion(found: Sequence[Mapping[str, object]]) -> dict[str, dict[str, int]]:
    """What was to be said, and what was: numbers of cases."""
    table: dict[str, Counter[str]] = {}
    for case in found:
        due = case["expected"]
        assert isinstance(due, dict)
        row = "open" if due["is_open"] else " or ".join(
            f"unclear ({', '.join(dict.fromkeys(due['reasons']))})" if chip == "unclear" else chip for chip in due["chips"]
        )  # fmt: skip
        reason = f" ({case['reason']})" if case["reason"] else ""
        table.setdefault(row, Counter())[f"{case['said']}{reason}"] += 1
    return {row: dict(said) for row, said in table.items()}


def _rates(found: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Of one further set: numbers of cases, of scorers, and of what is wrong, each case of which is named."""
    false, reasons = ([case for case in found if case[what]] for what in ("false reward", "wrong reason"))
    planted = [case for case in found if case["expected"]["is_planted"]]
    wrong = [
        f"{case['scorer']}, {case['bias']}: {case['said']}, {case['share']:.0%}: {case['clause']}"
        for case in (*false, *reasons, *(case for case in planted if case["said"] != "rewarded"))
    ]
    named = sum(case["said"] == "rewarded" for case in planted)
    return {
        "scorers": len({case["scorer"] for case in found}), "cases": len(found), "false rewards": len(false),
        "wrong reasons": len(reasons), "planted": len(planted), "named": named, "wrong": wrong,
    }  # fmt: skip


def main() -> int:
    os.chdir(tempfile.mkdtemp())
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere, redirect_stdout(nowhere):
        every = [case for limit in LIMITS for case in cases(limit)]
    found, others_ = ([case for case in every if (case["set"] == "tuned") is tuned] for tuned in (True, False))
    for row, said in confusion(found).items():
        print(f"{row}:")
        print("\n".join(f"    {n:4d}  {what}" for what, n in sorted(said.items(), key=lambda item: -item[1])))
    planted = [case for case in found if case["expected"]["is_planted"]]  # type: ignore[index]
    named = np.mean([case["said"] == "rewarded" for case in planted])
    false, reasons, itself = (
        [case for case in found if case[what]] for what in ("false reward", "wrong reason", "names itself")
    )
    others = [case for case in found if not case["as expected"] and not case["false reward"] and case not in planted]
    for title, wrong in {"false rewards": false, "wrong reasons": reasons, "others": others,
                         "not named": [case for case in planted if case["said"] != "rewarded"]}.items():  # fmt: skip
        print(f"\n{title}: {len(wrong)}")
        for case in wrong:
            print(f"    {case['scorer']}, {case['bias']}, {case['limit']}: {case['said']}: {case['clause']}")
    rates = {part: _rates([case for case in others_ if case["set"] == part]) for part in SETS}
    for part, rate in rates.items():
        print(f"\n{part}: " + ", ".join(f"{what} {n}" for what, n in rate.items() if what != "wrong"))
        print("\n".join(f"    {line}" for line in rate["wrong"]))
    checks = [
        Check(f"said to reward a bias that it does not read: {FALSE_REWARDS} of {len(found)}", str(len(false)), len(false) <= FALSE_REWARDS),
        Check(f"planted in {POWERED} contrasts or more and named: {NAMED:.0%}", f"{named:.0%} of {len(planted)}", bool(named >= NAMED)),
        Check(f"unclear without its true reason: {WRONG_REASONS}", str(len(reasons)), len(reasons) <= WRONG_REASONS),
        Check(f"clauses that name the bias itself: {SELF_NAMED}", str(len(itself)), len(itself) <= SELF_NAMED),
    ]  # fmt: skip
    unseen = rates["held out"]
    checks.append(
        Check(f"held out, said to reward a bias that it does not read: at most {HELD_OUT_RATE:.0%}",
              f"{unseen['false rewards']} of {unseen['cases']}", unseen["false rewards"] <= HELD_OUT_RATE * unseen["cases"])
    )  # fmt: skip
    checks.append(
        Check(f"held out, planted in {POWERED} contrasts or more and named: {NAMED:.0%}",
              f"{unseen['named']} of {unseen['planted']}", unseen["named"] >= NAMED * unseen["planted"])
    )  # fmt: skip
    numbers = {
        "scorers": sum(each.part == "tuned" for each in SCORERS),
        **rates,
        "confusion": confusion(found),
        "wrong": [*false, *reasons, *others],
    }
    return finish(
        "verdict_truth", (__doc__ or "").split("\n\n")[0].removeprefix("Claim: ").replace("\n", " "), checks, numbers
    )


if __name__ == "__main__":
    sys.exit(main())
