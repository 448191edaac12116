"""Variations of attributes that did well, by rules."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from cda.biases import Bias
from cda.biases.load import Swap
from cda.discovery.attribute import catalogue
from cda.discovery.mined import more_than
from cda.discovery.mined_rules import Phrasing, Position, bias_name, phrase_bias, phrasing_of
from cda.discovery.records import Parent, Proposals
from cda.embedded.rules import RuleRewriter
from cda.patterns import compiled
from cda.records import Exclusions, RewriteRequest, user_prompt

_MAX_EVERY = 4
_MAX_WORDINGS = 8
_SMALLER_SHARE = 0.5
_N_EXAMPLES = 4
_MIN_AS_GOOD = 0.5
_ENDS = ".!?…"
_ANY = user_prompt("How is this done?")
_ELSEWHERE: dict[Position, tuple[Position, ...]] = {
    "opening": ("closing", "between"),
    "closing": ("opening", "between"),
    "between": ("opening", "closing"),
    "before": (),
}
# Texts on which variations are tried if a parent has no examples.
_PROBES = (
    "Rinse the rice until the water runs clear, and put it in a pot with a lid. The water must always cover all of it, "
    "because dry grains burn. Bring it to a boil, turn the heat down, and wait.\n\nIt is important that the lid stays "
    "closed, so do not look before the time is over. A short rest afterwards makes it better.",
    "Plants that stand near a window do not need watering every day, which is what most people think. Afterwards, check "
    "the drainage: standing water, including what collects in the saucer, is never good. Temperature matters more than "
    "fertilizer, but both are useful.",
)


@dataclass(frozen=True, slots=True)
class RuleMutator:
    """A Mutator by rules: other wordings, more or fewer places, another position, a stronger form.

    Two parents are never combined: the reward of a combination would not belong to one attribute. Other wordings come from
    `known` biases of the same kind.
    """

    known: Sequence[Bias] = field(default_factory=catalogue)

    def mutate(self, parents: Sequence[Parent], n_each: int, rng: np.random.Generator) -> Proposals:
        """At most n_each variations of each parent, of kinds as different as there are; none equals a parent or another."""
        taken = {_key(parent.standing.candidate.bias) for parent in parents}
        variations: list[tuple[Bias, int]] = []
        missing: Counter[str] = Counter()
        for place, parent in enumerate(parents):
            if parent.standing.candidate.bias.offline is None:
                missing["no offline rules"] += n_each
                continue
            own, n_failed = self._varied(parent, n_each, taken, rng)
            variations += [(bias, place) for bias in own]
            missing["rules that undo each other"] += n_failed
            missing["no further variation"] += n_each - len(own)
        reasons = dict(sorted((+missing).items()))
        exclusions = Exclusions(len(variations) + sum(reasons.values()), reasons)
        return Proposals(tuple(bias for bias, _ in variations), tuple(place for _, place in variations), exclusions)

    def _varied(self, parent: Parent, n: int, taken: set[str], rng: np.random.Generator) -> tuple[list[Bias], int]:
        """One variation of each kind in turn, in drawn order, until there are n or no more; and the number of failures."""
        bias = parent.standing.candidate.bias
        texts = (*_PROBES, *(example.without_attribute for example in parent.examples[:_N_EXAMPLES]))
        needed = _MIN_AS_GOOD * round_trips(bias, texts)
        kinds = [
            list(kind)
            for kind in (
                fewer_wordings(bias, rng),
                other_wordings(bias, self.known),
                other_places(bias),
                other_position(bias),
                stronger(bias),
            )
        ]
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
    """One of its wordings, or half of them."""
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
    """At more or at fewer places."""
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
    phrasing = phrasing_of(bias)
    if phrasing is not None:
        whole = tuple(wording for wording in phrasing.wordings if wording[-1] in _ENDS)
        for position in _ELSEWHERE[phrasing.position] if whole else ():
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
    offline = (bias.offline.model_dump() if bias.offline else {}) | rules
    return Bias.model_validate(
        bias.model_dump()
        | {
            "name": bias_name(f"{slug} {bias.name}", json.dumps(rules, sort_keys=True)),
            "description": f"{bias.description.rstrip('.')}, {how}.",
            "instructions": bias.instructions.model_dump() | {"add": f"{bias.instructions.add} {told}"},
            "offline": offline,
        }
    )


def _key(bias: Bias) -> str:
    """Its rules and its measure, without its words."""
    return json.dumps(bias.model_dump(mode="json", include={"pattern", "measure", "offline"}), sort_keys=True)
