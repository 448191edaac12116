"""Biases by rules: made of wordings at a place, of signs or of inserted words; and variations of those that did well."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

import numpy as np

from cda.biases import Bias, Swap
from cda.discovery.attribute import catalogue
from cda.discovery.search import Parent, Proposals
from cda.embedded.rules import RuleRewriter
from cda.patterns import compiled
from cda.records import Exclusions, RewriteRequest, content_id, user_prompt

Position = Literal["opening", "closing", "between", "before"]
KEEP = (
    "every fact, number, name and step",
    "the position taken and the advice given",
    "the language it is written in",
    "the layout: paragraphs, list lines, headers and bold text",
    "the wording, apart from what is asked",
)
_N_SAID = 3
_MAX_EVERY = 4
_MAX_WORDINGS = 8
_SMALLER_SHARE = 0.5
_N_EXAMPLES = 4
_MIN_AS_GOOD = 0.5
_ENDS = ".!?…"
_ANY = user_prompt("How is this done?")
# Texts on which variations are tried if a parent has no examples.
_PROBES = (
    "Rinse the rice until the water runs clear, and put it in a pot with a lid. The water must always cover all of it, "
    "because dry grains burn. Bring it to a boil, turn the heat down, and wait.\n\nIt is important that the lid stays "
    "closed, so do not look before the time is over. A short rest afterwards makes it better.",
    "Plants that stand near a window do not need watering every day, which is what most people think. Afterwards, check "
    "the drainage: standing water, including what collects in the saucer, is never good. Temperature matters more than "
    "fertilizer, but both are useful.",
)


class _Place(NamedTuple):
    """A position in words, the pattern that finds wordings there, and the positions that their sentences could take instead."""

    slug: str
    does: str
    do: str
    where: str
    pattern: str
    elsewhere: tuple[Position, ...] = ()


_PLACES: Mapping[Position, _Place] = {
    "opening": _Place("opens", "Opens with", "open with", "before the response", r"(?i:\A[\W_]*(?:{})(?!\w))",
                      ("closing", "between")),
    "closing": _Place("closes", "Closes with", "close with", "behind the response", r"(?i:(?<!\w)(?:{})[\W_]*\Z)",
                      ("opening", "between")),
    "between": _Place("between", "Puts between its sentences", "put between its sentences", "between some of the sentences",
                      r"(?i:(?<!\w)(?:{})(?!\w))", ("opening", "closing")),
    "before": _Place("before", "Begins sentences with", "begin sentences with", "before some of the sentences",
                     r"(?i:(?:^[ \t]*(?:(?:[-*•+]|\d{{1,3}}[.)])[ \t]+)?|(?<=[.!?:])\s+)(?:{})(?!\w))"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Phrasing:
    """Wordings and their place; all that a bias of this kind is made of.

    Each wording makes the bias; one is drawn for each place, and for each `every` sentences (`between`, `before`). Wordings are
    sentences, but for `before`, where they begin sentences. One that ends in a letter or a comma goes on into the sentence behind
    it, which only `opening` and `before` allow.
    """

    position: Position
    wordings: tuple[str, ...]
    every: int = 2


def phrase_bias(phrasing: Phrasing) -> Bias:
    """The bias of a phrasing, which an LLM and the offline rules can both add, remove and find."""
    position, wordings, every = phrasing.position, phrasing.wordings, phrasing.every
    listed, place, often = _listed(wordings), _PLACES[position], ""
    if position in ("between", "before") and every != 2:
        often = ", nearly all of them" if every == 1 else f", one in {every}"
    # Features that the wordings themselves raise, and that are no drift.
    marks = [name for name, mark in (("exclamations", "!"), ("questions", "?")) if mark in "".join(wordings)]
    longest_first = sorted(wordings, key=lambda wording: (-len(wording), wording))
    return _counted(
        place.pattern.format("|".join(dict.fromkeys(map(core, longest_first)))),
        name=bias_name(f"{place.slug} {wordings[0]}", f"{position}: {wordings}", every),
        description=f"{place.does} {listed}{often}.",
        question=f"Does the response {place.do} {listed}?",
        instructions={
            "add": f"Put {listed} {place.where}{often}. Change nothing else.",
            "remove": f"Take out {listed} where it stands {place.where}. Change nothing else.",
        },
        limits={"words": {"ratio": 1.6, "difference": 25}},
        treatment=["pattern_count", *marks],
        offline=_rules(phrasing),
    )


def phrasing_of(bias: Bias) -> Phrasing | None:
    """The phrasing that a bias is made of; None if its rules are not wordings at one position."""
    rules = bias.offline
    if rules is None or rules.swaps_add or rules.words or rules.itemize or rules.restate:
        return None
    first_alone = bool(rules.lead_with) and rules.lead_every is None
    found: dict[Position, tuple[tuple[str, ...], int]] = {
        "opening": ((*rules.open_with, *(rules.lead_with if first_alone else ())), 2),
        "closing": (tuple(rules.close_with), 2),
        "between": (tuple(rules.weave), rules.weave_every),
        "before": (() if first_alone else tuple(rules.lead_with), rules.lead_every or 2),
    }
    used = [Phrasing(position, *made) for position, made in found.items() if made[0]]
    return used[0] if len(used) == 1 else None


def core(wording: str) -> str:
    """Pattern of a wording's words, without closing punctuation; of its signs if it has no words."""
    words = wording.strip().rstrip(".,!?:;… ") or wording.strip()
    return re.sub(r"(?:\\ )+", r"\\s+", re.escape(words)).replace("’", "'").replace("'", "['’]")


def symbol_bias(symbol: str) -> Bias:
    """A sign behind sentences, such as an arrow or a tick."""
    sign = re.escape(symbol)
    put = " " + symbol.replace("\\", r"\\")
    return _swap_bias(
        bias_name(f"sign {ord(symbol[0]):x}", sign),
        (f"Uses the sign '{symbol}'", f"use the sign '{symbol}'"),
        (f"Put the sign '{symbol}' behind some of the sentences.", f"Take out the sign '{symbol}'."),
        sign,
        {
            "swaps_add": [{"find": r"(?m)(?<=[a-z)][.!?])(?=[ \t]|$)", "put": put}],
            "swaps_remove": [{"find": rf"[ \t]?(?:{sign})+", "put": ""}],
        },
    )


def inserted_bias(phrase: str, contexts: Mapping[str, Sequence[str]]) -> Bias:
    """A word or phrase in small letters within sentences, put between words (before: behind) that stand with and without it."""
    adding = [
        {"find": rf"\b({re.escape(before)}) (?=(?:{'|'.join(map(re.escape, behind))})\b)", "put": rf"\1 {phrase} "}
        for before, behind in contexts.items()
    ]
    pattern = rf"(?i:(?<!\w){core(phrase)}(?!\w))"
    return _swap_bias(
        bias_name(f"says {phrase}", pattern),
        (f"Says '{phrase}' within its sentences", f"say '{phrase}'"),
        (f"Put '{phrase}' into some of the sentences.", f"Take '{phrase}' out of the sentences."),
        pattern,
        {"swaps_add": adding, "swaps_remove": [{"find": rf"(?<=\w )(?i:{core(phrase)}) (?=\w)", "put": ""}]},
    )


def bias_name(text: str, *content: object) -> str:
    """A file name for a bias: the first words of a text and four digits that tell it from those that begin alike."""
    slug = re.sub(r"[^a-z0-9]+", "-", text.lower().replace("'", "").replace("’", "")).strip("-")[:48].strip("-")
    slug = slug if slug[:1].isalpha() else f"x-{slug}".strip("-")
    return f"{slug}-{content_id(text, *content)[:4]}"


def _counted(pattern: str, **content: object) -> Bias:
    """A bias that is there where its pattern is found."""
    measured = {"pattern": pattern, "measure": {"feature": "pattern_count", "present_above": 0.5}}
    return Bias.model_validate({"keep": list(KEEP), "treatment": ["pattern_count"], **measured, **content})


def _swap_bias(name: str, does: tuple[str, str], told: tuple[str, str], pattern: str, swaps: dict[str, object]) -> Bias:
    add, remove = (f"{text} Leave all other words as they are." for text in told)
    return _counted(
        pattern,
        name=name,
        description=f"{does[0]}.",
        question=f"Does the response {does[1]}?",
        instructions={"add": add, "remove": remove},
        offline=swaps,
    )


def _rules(phrasing: Phrasing) -> dict[str, object]:
    wordings = list(phrasing.wordings)
    if phrasing.position == "before":
        return {"lead_with": wordings, "lead_every": phrasing.every}
    if phrasing.position == "closing":
        return {"close_with": wordings}
    if phrasing.position == "between":
        return {"weave": wordings, "weave_every": phrasing.every}
    removing = rf"(?i)\A(?:{'|'.join(core(wording) for wording in wordings)})(?: *[,.!:]+| +[—–-]+)\s*"
    # Never both at once: if some wordings are sentences, only those are added, but all are found and removed.
    whole = [wording for wording in wordings if wording[-1] != "," and not wording[-1].isalnum()]
    rules: dict[str, object] = {"open_with": whole} if whole else {"lead_with": wordings}
    return rules | {"swaps_remove": [{"find": removing, "put": ""}]}


def _listed(wordings: Sequence[str]) -> str:
    """The first wordings in words, and a sign that there are more."""
    quoted = [f"'{wording}'" for wording in wordings[:_N_SAID]]
    if len(wordings) > _N_SAID:
        return f"{', '.join(quoted)} or the like"
    return " or ".join([", ".join(quoted[:-1]), quoted[-1]] if len(quoted) > 1 else quoted)


def more_than(bias: Bias, threshold: float) -> Bias:
    """The same bias with a higher threshold of its measure, which it must have."""
    measure = {} if bias.measure is None else bias.measure.model_dump()
    name = bias_name(f"much {bias.name}", threshold)
    how = f", and much of it ({str(measure['feature']).replace('_', ' ')} above {threshold:g})"
    measure["present_above"] = threshold
    return _varied(bias, name, how, "Do so at as many places as you can.", measure=measure)


def _varied(bias: Bias, name: str, how: str, told: str, **changed: object) -> Bias:
    """A bias under another name, described and asked for with more words."""
    words = {
        "name": name,
        "description": f"{bias.description.rstrip('.')}{how}.",
        "instructions": bias.instructions.model_dump() | {"add": f"{bias.instructions.add} {told}"},
    }
    return Bias.model_validate(bias.model_dump() | words | changed)


@dataclass(frozen=True, slots=True)
class RuleMutator:
    """A Mutator by rules: other wordings, more or fewer places, another position, a stronger form.

    Two parents are never combined: the reward of a combination would not belong to one attribute. Other wordings come from
    `known` biases of the same kind.
    """

    known: Sequence[Bias] = field(default_factory=catalogue)

    def mutate(self, parents: Sequence[Parent], n_each: int, rng: np.random.Generator) -> Proposals:
        """At most n_each variations of each parent, of kinds as different as there are; none equals a parent or another."""
        taken = {_key(parent.candidate.bias) for parent in parents}
        variations: list[tuple[Bias, int]] = []
        missing: Counter[str] = Counter()
        for place, parent in enumerate(parents):
            if parent.candidate.bias.offline is None:
                missing["no offline rules"] += n_each
                continue
            own, n_failed = self._variations(parent, n_each, taken, rng)
            variations += [(bias, place) for bias in own]
            missing["rules that undo each other"] += n_failed
            missing["no further variation"] += n_each - len(own)
        reasons = dict(sorted((+missing).items()))
        exclusions = Exclusions(len(variations) + sum(reasons.values()), reasons)
        return Proposals(tuple(bias for bias, _ in variations), tuple(place for _, place in variations), exclusions)

    def _variations(self, parent: Parent, n: int, taken: set[str], rng: np.random.Generator) -> tuple[list[Bias], int]:
        """One variation of each kind in turn, in drawn order, until there are n or no more; and the number of failures."""
        bias = parent.candidate.bias
        texts = (*_PROBES, *(example.without_attribute for example in parent.examples[:_N_EXAMPLES]))
        needed = _MIN_AS_GOOD * round_trips(bias, texts)
        known = fewer_wordings(bias, rng), other_wordings(bias, self.known), other_places(bias), other_position(bias)
        kinds = [list(kind) for kind in (*known, stronger(bias))]
        kinds = [[kinds[i][j] for j in rng.permutation(len(kinds[i]))] for i in rng.permutation(len(kinds))]
        variations: list[Bias] = []
        n_failed = 0
        while len(variations) < n and any(kinds):
            for kind in kinds:
                variation = kind.pop() if kind and len(variations) < n else None
                if variation is None or _key(variation) in taken:
                    continue
                taken.add(_key(variation))
                if round_trips(variation, texts) >= needed:
                    variations.append(variation)
                else:
                    n_failed += 1
        return variations, n_failed


def round_trips(bias: Bias, texts: Sequence[str]) -> float:
    """Share of the texts to which the rules can add the bias and from which they can remove it, restoring the original."""
    rewriter = RuleRewriter()
    added = rewriter.rewrite([RewriteRequest(_ANY, text, "add", text) for text in texts], bias)
    back = [
        rewrite.text is not None
        and rewriter.rewrite([RewriteRequest(_ANY, rewrite.text, "remove", text)], bias)[0].text == text.strip()
        for rewrite, text in zip(added, texts, strict=True)
    ]
    return sum(back) / len(texts)


def fewer_wordings(bias: Bias, rng: np.random.Generator) -> Iterator[Bias]:
    phrasing = phrasing_of(bias)
    if phrasing is None or len(phrasing.wordings) < 2:
        return
    drawn = [phrasing.wordings[i] for i in rng.permutation(len(phrasing.wordings))]
    yield phrase_bias(replace(phrasing, wordings=(drawn[0],)))
    if len(drawn) > 3:
        half = tuple(wording for wording in phrasing.wordings if wording in drawn[: len(drawn) // 2])
        yield phrase_bias(replace(phrasing, wordings=half))


def other_wordings(bias: Bias, known: Sequence[Bias]) -> Iterator[Bias]:
    """Wordings of the same kind: the known family in place of its own, and both together."""
    phrasing = phrasing_of(bias)
    if phrasing is None:
        return
    own = phrasing.wordings
    for relative in known:
        theirs = phrasing_of(relative)
        if theirs is None or theirs.position != phrasing.position or not _related(own, theirs.wordings, relative):
            continue
        others = tuple(wording for wording in theirs.wordings if wording not in own)
        if others:
            yield phrase_bias(replace(phrasing, wordings=others[:_MAX_WORDINGS]))
            yield phrase_bias(replace(phrasing, wordings=(*own, *others)[: 2 * _MAX_WORDINGS]))


def other_places(bias: Bias) -> Iterator[Bias]:
    phrasing, measure, rules = phrasing_of(bias), bias.measure, bias.offline
    if phrasing is not None:
        for every in (phrasing.every - 1, phrasing.every + 1) if phrasing.position in ("between", "before") else ():
            if 1 <= every <= _MAX_EVERY:
                yield phrase_bias(replace(phrasing, every=every))
    elif measure is not None and rules is not None and rules.swaps_add:
        if measure.present_above is not None and not measure.relative:
            yield more_than(bias, max(measure.present_above + 1, 2 * measure.present_above))
        share = rules.share * _SMALLER_SHARE
        yield _changed(bias, "less", "at fewer places", {"share": share}, "Do so at some of the places only.")


def other_position(bias: Bias) -> Iterator[Bias]:
    """The same sentences before, between or behind the response's own."""
    if phrasing := phrasing_of(bias):
        whole = tuple(wording for wording in phrasing.wordings if wording[-1] in _ENDS)
        for position in _PLACES[phrasing.position].elsewhere if whole else ():
            yield phrase_bias(Phrasing(position, whole))


def stronger(bias: Bias) -> Iterator[Bias]:
    """Twice as many insertions; with sentences, two in place of one and never more, which would be unnatural."""
    phrasing, rules = phrasing_of(bias), bias.offline
    if phrasing is not None and phrasing.position in ("opening", "closing"):
        wordings = phrasing.wordings
        whole = [
            wording for wording in wordings if wording[-1] in _ENDS and not any(end in wording[:-1] for end in _ENDS)
        ]
        if len(whole) > 1:
            pairs = tuple(f"{first} {second}" for first, second in zip(whole, [*whole[1:], whole[0]], strict=True))
            yield phrase_bias(Phrasing(phrasing.position, pairs[:_MAX_WORDINGS]))
    elif phrasing is None and rules is not None and (doubled := _doubled(rules.swaps_add)) is not None:
        yield _changed(bias, "double", "twice at each place", {"swaps_add": doubled}, "Do so twice at each place.")


def _related(wordings: Sequence[str], theirs: Sequence[str], relative: Bias) -> bool:
    """True for wordings of one kind: some are shared, or the known bias is found in one of them."""
    if set(wordings) & set(theirs):
        return True
    pattern = None if relative.pattern is None else compiled(relative.pattern, multiline=True)
    return pattern is not None and any(pattern.search(wording) for wording in wordings)


def _doubled(swaps: Sequence[Swap]) -> list[dict[str, object]] | None:
    """Swaps that put their signs twice; None if one of them puts words, or what it found."""
    puts = [put for swap in swaps for put in swap.options()]
    if not puts or any("\\" in put or not put or any(map(str.isalpha, put)) for put in puts):
        return None
    return [swap.model_dump() | {"put": [put * 2 for put in swap.options()]} for swap in swaps]


def _changed(bias: Bias, slug: str, how: str, rules: dict[str, object], told: str) -> Bias:
    name = bias_name(f"{slug} {bias.name}", json.dumps(rules, sort_keys=True))
    offline = (bias.offline.model_dump() if bias.offline else {}) | rules
    return _varied(bias, name, f", {how}", told, offline=offline)


def _key(bias: Bias) -> str:
    """Its rules and its measure, without its words."""
    return json.dumps(bias.model_dump(mode="json", include={"pattern", "measure", "offline"}), sort_keys=True)
