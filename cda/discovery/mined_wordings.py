"""Wordings that responses have in common: how they open and close, sentences and their openings, signs, inserted words."""

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
from cda.discovery.mined_rules import Phrasing, Position, inserted_bias, phrase_bias, symbol_bias
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
"""A wording to the responses it was found in, in ascending order."""


@dataclass(frozen=True, slots=True)
class Wording:
    """Something that responses have in common.

    Attributes:
        places: The responses that have it, in ascending order.
        make: The bias that it is; None if no rule could put it into another response.
    """

    places: Sequence[int]
    make: Callable[[], Bias | None]


def framings(texts: Sequence[str], prompts: Sequence[int], min_prompts: int) -> Iterator[Wording]:
    """First words of responses and first sentences as a whole; then first words of last sentences."""
    framed: tuple[tuple[Position, list[str]], ...] = (
        ("opening", list(map(_first, texts))),
        ("closing", list(map(_last, texts))),
    )
    for position, said in framed:
        grams: Places = defaultdict(list)
        for place, sentence in enumerate(said):
            for gram in _grams_at_start(sentence):
                grams[gram].append(place)
        for places in _common(grams, prompts, min_prompts).values():
            yield Wording(places, partial(_framing, position, [said[at] for at in places], places, prompts))


def sentence_phrases(texts: Sequence[str], prompts: Sequence[int], min_prompts: int) -> Iterator[Wording]:
    """Phrases before sentences (up to a comma, or to `that`), and short sentences said again and again."""
    before: Places = defaultdict(list)
    whole: Places = defaultdict(list)
    for place, text in enumerate(texts):
        said = [LIST_LINE.sub("", sentence) for sentence in sentences(text)]
        # Sorted, here and below: of wordings that stand in the same responses, the first counts.
        for lead in sorted({match.group() for sentence in said if (match := _BEFORE.match(sentence))}):
            before[lead].append(place)
        for sentence in sorted(set(said[1:-1])):
            if len(sentence.split()) <= _MAX_SENTENCE_WORDS and sentence[-1] in ".!?":
                whole[sentence].append(place)
    positions: tuple[tuple[Position, Places], ...] = (("before", before), ("between", whole))
    for position, found in positions:
        for wording, places in _common(found, prompts, min_prompts).items():
            yield Wording(places, partial(phrase_bias, Phrasing(position, (wording,))))


def signs(texts: Sequence[str], prompts: Sequence[int], min_prompts: int) -> Iterator[Wording]:
    """Signs other than the usual punctuation; pictures are among them."""
    found: Places = defaultdict(list)
    for place, text in enumerate(texts):
        for sign in sorted(set(_SIGN.findall(text))):
            found[sign].append(place)
    for sign, places in _common(found, prompts, min_prompts).items():
        yield Wording(places, partial(symbol_bias, sign))


def insertions(texts: Sequence[str], prompts: Sequence[int], min_prompts: int) -> Iterator[Wording]:
    """Words and phrases within sentences, of one to three words, that could as well be left out."""
    runs = [[_WORD.findall(run) for run in _BREAK.split(text.lower())] for text in texts]
    grams: Places = defaultdict(list)
    for place, text_runs in enumerate(runs):
        seen = {" ".join(run[i : i + n]) for run in text_runs for n in (1, 2, 3) for i in range(1, len(run) - n)}
        for gram in sorted(seen):
            grams[gram].append(place)
    neighbours = {pair for text_runs in runs for run in text_runs for pair in itertools.pairwise(run)}
    enough = max(min_prompts, math.ceil(_MIN_INSERTED_SHARE * len(set(prompts))))
    for gram, places in _common(grams, prompts, enough).items():
        if any(word not in STOP_WORDS["en"] for word in gram.split()):
            yield Wording(places, partial(_inserted, gram, [runs[at] for at in places], neighbours))


def _inserted(gram: str, runs: Sequence[Sequence[Sequence[str]]], neighbours: set[tuple[str, str]]) -> Bias | None:
    """None if the words around it do not mostly stand side by side elsewhere: it could then not be left out."""
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


def _framing(position: Position, said: Sequence[str], places: Sequence[int], prompts: Sequence[int]) -> Bias | None:
    """An opening or closing in the wordings that several prompts share word for word; None if there is none."""
    askers: Mapping[str, set[int]] = defaultdict(set)
    for sentence, place in zip(said, places, strict=True):
        askers[_lead(sentence) if position == "opening" else sentence].add(prompts[place])
    shared = sorted(
        (-len(own), wording) for wording, own in askers.items() if wording and len(own) >= _MIN_VERBATIM_PROMPTS
    )
    wordings = tuple(wording for _, wording in shared[:_MAX_WORDINGS])
    return phrase_bias(Phrasing(position, wordings)) if wordings else None


def _lead(sentence: str) -> str:
    """The words of a first sentence up to its first punctuation, with that; nothing if there is none in twelve words."""
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


def _common(found: Places, prompts: Sequence[int], min_prompts: int) -> Places:
    """Wordings found in enough prompts, and not in every response."""
    return {
        wording: places
        for wording, places in found.items()
        if min_prompts <= len(places) < len(prompts) and len({prompts[place] for place in places}) >= min_prompts
    }
