"""Attributes mined from rated responses without an LLM: how what responses have in common goes with reward, within prompts."""

from __future__ import annotations

import itertools
import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cda.arrays import FloatArray
from cda.biases import Bias
from cda.discovery.attribute import catalogue
from cda.discovery.rules import Phrasing, Position, inserted_bias, more_than, phrase_bias, phrasing_of, symbol_bias
from cda.discovery.search import PromptSamples, Proposals
from cda.errors import DataError
from cda.features import LIST_LINE, sentences_of
from cda.languages import STOP_WORDS
from cda.records import Exclusions

_PRIOR_DEGREES = 20.0
MIN_PROMPTS = 4
MAX_JACCARD = 0.9
_SPARE = 6  # proposals made of wordings, for each one wanted: many turn out to be found in the same responses
_COMMON_SHARE = 0.5
_MAX_FAMILY = 8
_MAX_SENTENCE_WORDS = 18
_MAX_WORDINGS, _MAX_GRAM = 8, 4
_MIN_VERBATIM_PROMPTS = 2  # a wording said to two prompts is not about either
_LEAD = re.compile(r"[\w'’-]+(?:[ ][\w'’-]+){0,11}?(?:[,.!?:]|(?= [—–-] )|$)")
_BEFORE = re.compile(r"[A-Z][\w'’-]*(?: [\w'’-]+){0,5}?,(?= )|[A-Z][\w'’-]*(?: [\w'’-]+){1,8}? that(?= [a-z])")
_WORD = re.compile(r"[a-z]+(?:['’-][a-z]+)*")
_BREAK = re.compile(r"[^a-z'’\s-]+")
_SIGN = re.compile(r"[^\w\s.,!?;:'\"“”‘’()\[\]{}*_#`/\\<>|$%&+=@^~°–—…•-]")
_MIN_OPTIONAL_SHARE = 0.6
_MIN_INSERTED_SHARE = 0.08  # of the prompts: words of fewer are about something
_MAX_BEFORE, _MAX_BEHIND = 12, 24


class Association(NamedTuple):
    """Reward of responses with something minus that of responses to the same prompt without it, over n_prompts with both kinds.

    `difference` is the mean over prompts, in reward units; a prompt weighs n1 · n0 / (n1 + n0). `t`, for ranking only, is the
    difference over its standard error, shrunken towards that of all rewards so that a few prompts that agree do not stand out.
    """

    difference: float
    t: float
    n_prompts: int


class Mined(NamedTuple):
    """A bias with rules both ways, in which responses it is measured, and how that goes with reward; for ranking, not a result."""

    bias: Bias
    association: Association
    present: NDArray[np.bool_]


class Ratings:
    """Rewards of responses, finite, and the prompts they answer, numbered from 0. Both of shape (n,)."""

    def __init__(self, prompts: Sequence[int], rewards: Sequence[float]) -> None:
        self.prompts = np.asarray(prompts, dtype=np.int64)
        self.rewards = np.asarray(rewards, dtype=np.float64)
        self.n_prompts = int(self.prompts.max()) + 1 if len(self.prompts) else 0
        self._counts = np.bincount(self.prompts, minlength=self.n_prompts)
        self._sums = np.bincount(self.prompts, weights=self.rewards, minlength=self.n_prompts)
        means = self._sums / np.maximum(self._counts, 1)
        degrees = len(self.rewards) - int((self._counts > 0).sum())
        within = float(((self.rewards - means[self.prompts]) ** 2).sum())
        self.variance = within / degrees if degrees > 0 else 0.0

    def association(self, present: NDArray[np.int64], min_prompts: int) -> Association | None:
        """Association of presence, at these places, with reward; None for too few prompts, and if rewards never differ."""
        n1 = np.bincount(self.prompts[present], minlength=self.n_prompts)
        n0 = self._counts - n1
        both = (n1 > 0) & (n0 > 0)
        n = int(both.sum())
        if n < max(min_prompts, 1) or self.variance <= 0:
            return None
        sums = np.bincount(self.prompts[present], weights=self.rewards[present], minlength=self.n_prompts)[both]
        n1, n0 = n1[both], n0[both]
        differences = sums / n1 - (self._sums[both] - sums) / n0
        weights = n1 * n0 / (n1 + n0)
        difference = float((weights * differences).sum() / weights.sum())
        spread = float((weights * (differences - difference) ** 2).sum())
        variance = (spread + _PRIOR_DEGREES * self.variance) / (n - 1 + _PRIOR_DEGREES)
        return Association(difference, difference / float(np.sqrt(variance / weights.sum())), n)


@dataclass(frozen=True, slots=True)
class MinedProposer:
    """A Proposer by association. It draws nothing: the same responses give the same proposals.

    `known` biases are searched for by their measure, in addition to the wordings of the responses; `min_prompts` prompts, 2 or
    more, need responses with and without an attribute.
    """

    known: Sequence[Bias] = field(default_factory=catalogue)
    min_prompts: int = MIN_PROMPTS

    def propose(self, samples: Sequence[PromptSamples], n: int, rng: np.random.Generator) -> Proposals:  # noqa: ARG002
        """The n attributes that go with reward most surely, best first; DataError as of `mine`."""
        left_out: Counter[str] = Counter()
        mined = mine(samples, n, self.known, self.min_prompts, left_out)
        seen = len(mined) + left_out.total()
        biases = tuple(attribute.bias for attribute in _apart(mined, n, self.known, left_out))
        return Proposals(biases, (), Exclusions(seen, dict(sorted(left_out.items()))))


def mine(
    samples: Sequence[PromptSamples], n: int, known: Sequence[Bias], min_prompts: int, left_out: Counter[str]
) -> list[Mined]:
    """Attributes that go with reward, the surest first; `left_out` receives the rest.

    Of wordings, somewhat more than n attributes are looked into. DataError if fewer than min_prompts prompts have two rated
    responses.
    """
    rows = [
        (response.text, place, response.reward)
        for place, sample in enumerate(samples)
        for response in sample.responses
        if np.isfinite(response.reward)
    ]
    n_usable = sum(count >= 2 for count in Counter(place for _, place, _ in rows).values())
    if n_usable < min_prompts:
        raise DataError(
            f"{n_usable} of {len(samples)} prompts have two rated responses or more: mining needs {min_prompts} at the least"
        )
    texts, ratings = [text for text, _, _ in rows], Ratings([place for _, place, _ in rows], [row[2] for row in rows])
    mined: list[Mined] = []

    def look_for(biases: Iterable[Bias]) -> None:
        for bias in biases:
            feature = bias.measure.feature if bias.measure else None
            values = np.array([bias.measured(text, feature) if feature else np.nan for text in texts])
            for variant in _variants(bias, values):
                present = _presence(variant, values, ratings)
                association = _rewarded(np.flatnonzero(present), ratings, min_prompts, left_out)
                if association is not None:
                    mined.append(Mined(variant, association, present))

    look_for(known)
    look_for(_made_of_wordings(texts, ratings, _SPARE * n, min_prompts, left_out))
    look_for(_family(mined))
    return sorted(mined, key=_surest_first)


def _surest_first(one: Mined) -> tuple[float, str]:
    return -one.association.t, one.bias.name


def _rewarded(
    places: NDArray[np.int64], ratings: Ratings, min_prompts: int, left_out: Counter[str]
) -> Association | None:
    """The association if it goes with reward; otherwise None, counted."""
    association = ratings.association(places, min_prompts)
    if association is not None and association.t > 0:
        return association
    few = "too few prompts have responses with and without it"
    left_out[few if association is None else "does not go with reward"] += 1
    return None


def _made_of_wordings(
    texts: Sequence[str], ratings: Ratings, n: int, min_prompts: int, left_out: Counter[str]
) -> list[Bias]:
    """Biases of the wordings that go with reward most surely, one for each set of rules."""
    prompts = ratings.prompts.tolist()
    rewarded: list[tuple[float, Wording]] = []
    for find in (framings, sentence_phrases, signs, insertions):
        for wording in find(texts, prompts, min_prompts):
            association = _rewarded(np.array(wording.places), ratings, min_prompts, left_out)
            if association is not None:
                rewarded.append((-association.t, wording))
    biases: dict[str, Bias] = {}
    for _, wording in sorted(rewarded, key=lambda pair: pair[0]):
        if len(biases) >= n:
            left_out["goes with reward less surely than others"] += 1
        elif (bias := wording.make()) is None:
            left_out["no rule puts it into other responses"] += 1
        elif bias.name in biases:
            left_out["found in the same responses as another"] += 1
        else:
            biases[bias.name] = bias
    return list(biases.values())


def _presence(bias: Bias, values: FloatArray, ratings: Ratings) -> NDArray[np.bool_]:
    """In which responses it is measured; one relative to another response is compared to the prompt's median."""
    rule = bias.measure
    if rule is None:
        return np.zeros(len(values), dtype=bool)
    reference = np.ones(len(values))
    if rule.relative:
        medians = np.array([np.median(values[ratings.prompts == place]) for place in range(ratings.n_prompts)])
        reference = medians[ratings.prompts]
    above, below = rule.present_above, rule.present_below
    return values > above * reference if above is not None else values < (below or 0.0) * reference


def _variants(bias: Bias, values: FloatArray) -> list[Bias]:
    """The bias, and if more than half of the responses have it anyway, much of it: more than half of these have."""
    rule = bias.measure
    if rule is None or rule.relative or rule.present_above is None:
        return [bias]
    having = values[values > rule.present_above]
    if len(having) <= _COMMON_SHARE * len(values) or (threshold := float(np.median(having))) <= rule.present_above:
        return [bias]
    return [bias, more_than(bias, threshold)]


def _family(mined: Sequence[Mined]) -> list[Bias]:
    """Openings that go with reward, together, if there are several: real biases are families of wordings."""
    phrasings = [
        phrasing_of(attribute.bias) for attribute in sorted(mined, key=_surest_first) if attribute.association.t > 1
    ]
    wordings = dict.fromkeys(
        wording
        for phrasing in phrasings
        if phrasing is not None and phrasing.position == "opening"
        for wording in phrasing.wordings
        if wording[-1] in ".!:"
    )
    return [phrase_bias(Phrasing("opening", tuple(wordings)[:_MAX_FAMILY]))] if len(wordings) > 1 else []


def _apart(mined: Sequence[Mined], n: int, known: Sequence[Bias], left_out: Counter[str]) -> list[Mined]:
    """The best n that are not of one kind and found in the same responses; of those that are, a known one stands for them."""

    def same(one: Mined, other: Mined) -> bool:
        return kind(one.bias) == kind(other.bias) and jaccard(one.present, other.present) > MAX_JACCARD

    names = {bias.name for bias in known}
    kept: list[Mined] = []
    for attribute in mined:
        twin = next((i for i, other in enumerate(kept) if same(attribute, other)), None)
        if twin is not None:
            left_out["found in the same responses as another"] += 1
            if attribute.bias.name in names and kept[twin].bias.name not in names:
                kept[twin] = attribute
        elif len(kept) >= n:
            left_out["goes with reward less surely than others"] += 1
        else:
            kept.append(attribute)
    return kept


@dataclass(frozen=True, slots=True)
class Wording:
    """Something that responses have in common, in ascending order, and what makes a bias of it; None without a rule for it."""

    places: Sequence[int]
    make: Callable[[], Bias | None]


def framings(texts: Sequence[str], prompts: Sequence[int], min_prompts: int) -> Iterator[Wording]:
    """First words of responses and first sentences as a whole; then first words of last sentences."""
    framed: tuple[tuple[Position, list[str]], ...] = (
        ("opening", list(map(_first, texts))),
        ("closing", list(map(_last, texts))),
    )
    for position, said in framed:
        for places in _common(map(_grams_at_start, said), prompts, min_prompts).values():
            yield Wording(places, partial(_framing, position, [said[at] for at in places], places, prompts))


def sentence_phrases(texts: Sequence[str], prompts: Sequence[int], min_prompts: int) -> Iterator[Wording]:
    """Phrases before sentences (up to a comma, or to `that`), and short sentences said again and again."""
    said = [[LIST_LINE.sub("", sentence) for sentence in sentences_of(text)] for text in texts]
    before = [[match.group() for sentence in own if (match := _BEFORE.match(sentence))] for own in said]
    whole = [[each for each in own[1:-1] if _is_short(each) and each[-1] in ".!?"] for own in said]
    found: tuple[tuple[Position, list[list[str]]], ...] = (("before", before), ("between", whole))
    for position, wordings in found:
        for wording, places in _common(wordings, prompts, min_prompts).items():
            yield Wording(places, partial(phrase_bias, Phrasing(position, (wording,))))


def signs(texts: Sequence[str], prompts: Sequence[int], min_prompts: int) -> Iterator[Wording]:
    """Signs other than the usual punctuation; pictures are among them."""
    for sign, places in _common(map(_SIGN.findall, texts), prompts, min_prompts).items():
        yield Wording(places, partial(symbol_bias, sign))


def insertions(texts: Sequence[str], prompts: Sequence[int], min_prompts: int) -> Iterator[Wording]:
    """Words and phrases within sentences, of one to three words, that could as well be left out."""
    runs, neighbours = _runs(texts)
    grams = (
        [" ".join(run[i : i + n]) for run in text_runs for n in (1, 2, 3) for i in range(1, len(run) - n)]
        for text_runs in runs
    )
    enough = max(min_prompts, math.ceil(_MIN_INSERTED_SHARE * len(set(prompts))))
    for gram, places in _common(grams, prompts, enough).items():
        if any(word not in STOP_WORDS["en"] for word in gram.split()):
            yield Wording(places, partial(_inserted, gram, [runs[at] for at in places], neighbours))


def inserted(gram: str, texts: Sequence[str]) -> Bias | None:
    """The bias of a word or phrase in small letters within sentences, by the places where it stands in texts; None as in `insertions`."""
    runs, neighbours = _runs(texts)
    return _inserted(gram, [own for own in runs if any(gram in " ".join(run) for run in own)], neighbours)


def _runs(texts: Sequence[str]) -> tuple[list[list[list[str]]], set[tuple[str, str]]]:
    """The words of each text between its punctuation, in small letters, and all pairs of words that stand side by side."""
    runs = [[_WORD.findall(run) for run in _BREAK.split(text.lower())] for text in texts]
    return runs, {pair for text_runs in runs for run in text_runs for pair in itertools.pairwise(run)}


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
    said_to = ((-len(own), wording) for wording, own in askers.items() if wording)
    shared = sorted(entry for entry in said_to if -entry[0] >= _MIN_VERBATIM_PROMPTS)
    wordings = tuple(wording for _, wording in shared[:_MAX_WORDINGS])
    return phrase_bias(Phrasing(position, wordings)) if wordings else None


def _lead(sentence: str) -> str:
    """The words of a first sentence up to its first punctuation, with that; nothing if there is none in twelve words."""
    match = _LEAD.match(sentence)
    return match.group() if match and match.group()[-1] in ",.!?:" else ""


def _first(text: str) -> str:
    found = sentences_of(text.lstrip(" \n#*_>\"'“"))
    return found[0] if found and not LIST_LINE.match(found[0]) else ""


def _last(text: str) -> str:
    found = sentences_of(text)
    last = LIST_LINE.sub("", found[-1]) if len(found) > 1 else ""
    return last if _is_short(last) else ""


def _is_short(sentence: str) -> bool:
    return len(sentence.split()) <= _MAX_SENTENCE_WORDS


def _grams_at_start(sentence: str) -> list[str]:
    """Its first one to four words in small letters, and no further than its first punctuation."""
    words = re.match(r"[\w'’-]*(?: [\w'’-]+){0,11}", sentence)
    tokens = words.group().lower().replace("’", "'").split() if words else []
    return [" ".join(tokens[:n]) for n in range(1, min(_MAX_GRAM, len(tokens)) + 1)]


def _common(said: Iterable[Sequence[str]], prompts: Sequence[int], min_prompts: int) -> dict[str, list[int]]:
    """Wordings of responses to the responses with it, in ascending order; those in enough prompts, and not in every response."""
    found: dict[str, list[int]] = defaultdict(list)
    for place, wordings in enumerate(said):
        # Sorted: of wordings that stand in the same responses, the first counts.
        for wording in sorted(set(wordings)):
            found[wording].append(place)
    return {
        wording: places
        for wording, places in found.items()
        if len(places) < len(prompts) and len({prompts[place] for place in places}) >= min_prompts
    }


MIN_JACCARD = 0.9
"""Above this share of texts in common, of all texts with either, two are the same."""
MIN_TEXTS = 3
MAX_TEXTS = 250


@dataclass(frozen=True, slots=True)
class PresenceGrouper:
    """A Grouper: the same rules, the same pattern, or measured present in the same responses.

    Attributes asked for at more or fewer places are apart on purpose, however alike their presence: how often is what a
    mutation varies. So are attributes of another kind: where every opening `Sure!` brings the only exclamation mark, which
    of the two is rewarded is for rewrites to tell. Presence is looked for in at most MAX_TEXTS of the texts, at even steps; without
    texts, rules and patterns alone decide.
    """

    texts: Sequence[str] = ()

    def groups(self, biases: Sequence[Bias]) -> list[list[int]]:
        """A partition of the places. Each joins the first group whose first member it equals, so that chains do not grow."""
        texts = self.texts[:: -(-len(self.texts) // MAX_TEXTS)] if self.texts else ()
        keys = [_Key.of(bias, texts) for bias in biases]
        groups: dict[int, list[int]] = {}
        for place, key in enumerate(keys):
            first = next((first for first in groups if key.equals(keys[first])), place)
            groups.setdefault(first, []).append(place)
        return list(groups.values())


class _Key(NamedTuple):
    """Criteria of likeness: the rules, what finds it, how much of it the rules put in, its kind, and its presence."""

    rules: str | None
    found_by: str | None
    dose: tuple[object, ...]
    kind: str
    present: NDArray[np.bool_]

    @classmethod
    def of(cls, bias: Bias, texts: Sequence[str]) -> _Key:
        measure, own = bias.measure.model_dump(mode="json") if bias.measure else None, bias.offline
        rules = found_by = None
        dose: tuple[object, ...] = ()
        if own is not None:
            rules = json.dumps([own.model_dump(mode="json"), measure], sort_keys=True)
            threshold = None if bias.measure is None else (bias.measure.present_above, bias.measure.present_below)
            longest = max((len(put) for swap in own.swaps_add for put in swap.options()), default=0)
            dose = (own.share, own.weave_every, own.lead_every, own.frame, threshold, longest)
        if measure is not None:
            found_by = json.dumps([measure, bias.pattern, sorted(bias.markers)], sort_keys=True)
        return cls(rules, found_by, dose, kind(bias), presence(bias, texts))

    def equals(self, other: _Key) -> bool:
        if self.rules is not None and self.rules == other.rules:
            return True
        if self.dose != other.dose:
            return False
        alike = self.found_by is not None and self.found_by == other.found_by
        return alike or (self.kind == other.kind and jaccard(self.present, other.present) > MIN_JACCARD)


def presence(bias: Bias, texts: Sequence[str]) -> NDArray[np.bool_]:
    """In which texts a bias is measured; in none without a measure, or with one relative to another text. Shape (n,)."""
    absolute = bias.measure is not None and not bias.measure.relative
    return np.array([absolute and bool(bias.shows(text)) for text in texts], dtype=bool)


def kind(bias: Bias) -> str:
    """The rules' material: sentences or phrases at a place, words within sentences, or signs."""
    if (phrasing := phrasing_of(bias)) is not None:
        return "start" if phrasing.position in ("opening", "before") else phrasing.position
    if (rules := bias.offline) is None:
        return "none"
    puts = "".join(put for swap in rules.swaps_add for put in swap.options())
    return "words" if rules.words or any(map(str.isalpha, puts)) else "signs"


def jaccard(one: NDArray[np.bool_], other: NDArray[np.bool_]) -> float:
    """Share in common of two sets of texts; 0.0 if they are too few to say so."""
    either = int((one | other).sum())
    return float((one & other).sum() / either) if either >= MIN_TEXTS else 0.0
