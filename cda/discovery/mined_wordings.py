"""What responses have in common word for word: how they open and close, sentences and their openings, signs, inserted words."""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from cda.biases import Bias
from cda.data.language import STOP_WORDS
from cda.discovery.mined_rules import Phrasing, inserted_bias, phrase_bias, symbol_bias
from cda.features import LIST_LINE, sentences

_MAX_OPENING_WORDS = 12
_MAX_SENTENCE_WORDS = 18
_MAX_WORDINGS = 8
_MAX_GRAM = 4
_MIN_VERBATIM_PROMPTS = 2  # a wording said to two prompts is not about either
_LEAD = re.compile(r"[\w'’-]+(?:[ ][\w'’-]+){0,11}?(?:[,.!?:]|(?= [—–-] )|$)")
_BEFORE = re.compile(r"[A-Z][\w'’-]*(?: [\w'’-]+){0,5}?,(?= )|[A-Z][\w'’-]*(?: [\w'’-]+){1,8}? that(?= [a-z])")
_WORD = re.compile(r"[a-z]+(?:['’-][a-z]+)*")
_BREAK = re.compile(r"[^a-z'’\s-]+")
_SIGN = re.compile(r"[^\w\s.,!?;:'\"“”‘’()\[\]{}*_#`/\\<>|$%&+=@^~°–—…•-]")
_MIN_OPTIONAL_SHARE = 0.6
_MIN_INSERTED_SHARE = 0.08  # of the prompts: words of fewer are about something
_MAX_BEFORE, _MAX_BEHIND = 12, 24

Places = dict[str, list[int]]
"""What was found, to the responses it was found in, in ascending order."""


@dataclass(frozen=True, slots=True)
class Found:
    """Something that responses have in common.

    Attributes:
        places: The responses that have it, in ascending order.
        make: The bias that it is; None where no rule could put it into another response.
    """

    places: Sequence[int]
    make: Callable[[], Bias | None]


def openings(texts: Sequence[str], prompts: Sequence[int], min_prompts: int) -> Iterator[Found]:
    """First words of responses, and first sentences as a whole."""
    firsts = [_first(text) for text in texts]
    grams: Places = defaultdict(list)
    for place, first in enumerate(firsts):
        for gram in _grams_at_start(first):
            grams[gram].append(place)
    for places in _common(grams, prompts, min_prompts).values():
        yield Found(places, partial(_framing, "opening", [firsts[one] for one in places], places, prompts))


def closings(texts: Sequence[str], prompts: Sequence[int], min_prompts: int) -> Iterator[Found]:
    """First words of last sentences."""
    lasts = [_last(text) for text in texts]
    grams: Places = defaultdict(list)
    for place, last in enumerate(lasts):
        for gram in _grams_at_start(last):
            grams[gram].append(place)
    for places in _common(grams, prompts, min_prompts).values():
        yield Found(places, partial(_framing, "closing", [lasts[one] for one in places], places, prompts))


def sentence_phrases(texts: Sequence[str], prompts: Sequence[int], min_prompts: int) -> Iterator[Found]:
    """Phrases before sentences (up to a comma, or to `that`), and short sentences said again and again."""
    before: Places = defaultdict(list)
    whole: Places = defaultdict(list)
    for place, text in enumerate(texts):
        said = [LIST_LINE.sub("", sentence) for sentence in sentences(text)]
        for lead in {match.group() for one in said if (match := _BEFORE.match(one))}:
            before[lead].append(place)
        for one in {one for one in said[1:-1] if len(one.split()) <= _MAX_SENTENCE_WORDS and one[-1] in ".!?"}:
            whole[one].append(place)
    for lead, places in _common(before, prompts, min_prompts).items():
        yield Found(places, partial(phrase_bias, Phrasing("before", (lead,))))
    for one, places in _common(whole, prompts, min_prompts).items():
        yield Found(places, partial(phrase_bias, Phrasing("between", (one,))))


def signs(texts: Sequence[str], prompts: Sequence[int], min_prompts: int) -> Iterator[Found]:
    """Signs other than the usual punctuation; pictures are among them."""
    found: Places = defaultdict(list)
    for place, text in enumerate(texts):
        for sign in set(_SIGN.findall(text)):
            found[sign].append(place)
    for sign, places in _common(found, prompts, min_prompts).items():
        yield Found(places, partial(symbol_bias, sign))


def insertions(texts: Sequence[str], prompts: Sequence[int], min_prompts: int) -> Iterator[Found]:
    """Words and phrases within sentences, of one to three words, that could as well be left out where they stand."""
    runs = [[_WORD.findall(run) for run in _BREAK.split(text.lower())] for text in texts]
    grams: Places = defaultdict(list)
    for place, text_runs in enumerate(runs):
        seen = {" ".join(run[i : i + n]) for run in text_runs for n in (1, 2, 3) for i in range(1, len(run) - n)}
        for gram in seen:
            grams[gram].append(place)
    neighbours = {pair for text_runs in runs for run in text_runs for pair in itertools.pairwise(run)}
    enough = max(min_prompts, math.ceil(_MIN_INSERTED_SHARE * len(set(prompts))))
    for gram, places in _common(grams, prompts, enough).items():
        if any(word not in STOP_WORDS["en"] for word in gram.split()):
            yield Found(places, partial(_inserted, gram, [runs[one] for one in places], neighbours))


def _inserted(gram: str, runs: Sequence[Sequence[Sequence[str]]], neighbours: set[tuple[str, str]]) -> Bias | None:
    """None where the words around it do not mostly stand side by side elsewhere: it could then not be left out."""
    words = gram.split()
    n, around = len(words), Counter[tuple[str, str]]()
    for run in (run for text_runs in runs for run in text_runs):
        around.update(
            (run[i - 1], run[i + n]) for i in range(1, len(run) - n) if run[i] == words[0] and run[i : i + n] == words
        )
    optional = {pair: count for pair, count in around.items() if pair in neighbours}
    if not optional or sum(optional.values()) < _MIN_OPTIONAL_SHARE * around.total():
        return None
    contexts: dict[str, list[str]] = defaultdict(list)
    for (ahead, behind), _ in sorted(optional.items(), key=lambda item: (-item[1], item[0])):
        if (len(contexts) < _MAX_BEFORE or ahead in contexts) and len(contexts[ahead]) < _MAX_BEHIND:
            contexts[ahead].append(behind)
    return inserted_bias(gram, contexts)


def _framing(position: str, said: Sequence[str], places: Sequence[int], prompts: Sequence[int]) -> Bias | None:
    """An opening or closing in the wordings that several prompts share word for word; None where there is none."""
    askers: Mapping[str, set[int]] = defaultdict(set)
    for one, place in zip(said, places, strict=True):
        askers[_lead(one) if position == "opening" else one].add(prompts[place])
    shared = sorted((-len(asked), one) for one, asked in askers.items() if len(asked) >= _MIN_VERBATIM_PROMPTS and one)
    if not shared:
        return None
    wordings = tuple(one for _, one in shared[:_MAX_WORDINGS])
    return phrase_bias(Phrasing("opening" if position == "opening" else "closing", wordings))


def _lead(sentence: str) -> str:
    """The words of a first sentence up to its first punctuation, with that; nothing where there is none in twelve words."""
    match = _LEAD.match(sentence)
    return match.group() if match and match.group()[-1] in ",.!?:" else ""


def _first(text: str) -> str:
    found = sentences(text.lstrip(" \n#*_>\"'“"))
    return found[0] if found and not LIST_LINE.match(found[0]) else ""


def _last(text: str) -> str:
    found = sentences(text)
    last = LIST_LINE.sub("", found[-1]) if len(found) > 1 else ""
    return last if len(last.split()) <= _MAX_SENTENCE_WORDS else ""


def _grams_at_start(sentence: str) -> list[str]:
    """Its first one to four words in small letters, and no further than its first punctuation."""
    words = re.match(r"[\w'’-]*(?: [\w'’-]+){0,11}", sentence)
    tokens = words.group().lower().replace("’", "'").split() if words else []
    return [" ".join(tokens[:n]) for n in range(1, min(_MAX_GRAM, len(tokens)) + 1)]


def _common(found: Mapping[str, list[int]], prompts: Sequence[int], min_prompts: int) -> dict[str, list[int]]:
    """What is found in enough prompts, and not in every response."""
    return {
        what: places
        for what, places in found.items()
        if min_prompts <= len(places) < len(prompts) and len({prompts[one] for one in places}) >= min_prompts
    }
