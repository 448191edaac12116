"""Rule-based rewriting from a bias file's `offline` section, a recognisable stand-in for an LLM, and no more: the operations of
`rule_edits`, their order and words, and at how many of the possible places."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from cda.biases import Bias, Offline
from cda.embedded import rule_edits as edits
from cda.errors import DataError, RecipeError
from cda.features import n_words, phrase_pattern
from cda.inert import clipped, inert
from cda.patterns import SlowPatternError
from cda.records import Rewrite, RewriteRequest, content_id, prompt_text
from cda.rewriting.fidelity import not_flipped
from cda.rewriting.labels import exhibits

_FEWER_PLACES = 0.7


@dataclass(frozen=True, slots=True)
class RuleRewriter:
    """A Rewriter that needs no LLM; the same request always gives the same text. The seed selects wordings, `share` the part of
    the places, drawn for each request, one at least; others differ, but share wording and blind spots."""

    seed: int = 42
    share: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise ValueError(f"share must be above 0 and at most 1, found {self.share}")

    @property
    def name(self) -> str:
        return "rules" if self.share == 1 else f"rules, {100 * self.share:g}% of places"

    def rewrite(self, requests: Sequence[RewriteRequest], bias: Bias) -> list[Rewrite]:
        """Rewrite by the bias file's offline rules. RecipeError: it has none. DataError: a pattern takes too long over a
        text, or most texts are in another language than the rules; a few of them are failed rewrites."""
        rules = rules_of(bias)
        other = [number for number, request in enumerate(requests, 1) if not bias.speaks_as(request.response)]
        if 2 * len(other) > len(requests):
            raise DataError(
                f"bias '{bias.name}': its offline rules are in another language than {len(other)} of {len(requests)} texts; the "
                f"first is text {other[0]} ('{clipped(inert(requests[other[0] - 1].response), 30)}'). Have an LLM rewrite them: "
                "llm.model=NAME"
            )
        try:
            return [self._rewritten(request, bias, rules) for request in requests]
        except SlowPatternError as error:
            raise bias.too_slow("offline", error) from None

    def resampled(self, sample: int) -> RuleRewriter:
        """The same rules at fewer places, for a rewrite that changed too much."""
        return replace(self, seed=self.seed + sample, share=self.share * _FEWER_PLACES**sample)

    def _rewritten(self, request: RewriteRequest, bias: Bias, rules: Offline) -> Rewrite:
        if not bias.speaks_as(request.response):
            return Rewrite(None, "in another language than the rules")
        key = content_id(self.seed, bias.name, request.direction, prompt_text(request.prompt), request.response)
        rng = np.random.default_rng(int(key, 16))
        puts_in = (request.direction == "add") is not rules.reverse
        if puts_in:
            text = _add(request, rules, bias, rng, self.share * rules.share)
        else:
            text = _remove(request.response, rules)
        if text is None or not text.strip():
            too_few = "places to change" if puts_in else "sentences to cut"
            return Rewrite(None, f"too few {too_few}")
        # Tidied white space is not a rewrite, unless white space is the bias.
        same_words = text.split() == request.response.split() and "\n- " not in text
        if same_words and not bias.respaced(text, request.response):
            return Rewrite(None, "unchanged")
        reason = not_flipped(request, text, bias)
        return Rewrite(text) if reason is None else Rewrite(None, reason)


def rules_of(bias: Bias) -> Offline:
    """The offline rules of a bias; RecipeError if it has none."""
    if bias.offline is None:
        needed = "so it needs an LLM: set llm.model, or add `offline:` to its bias file"
        raise RecipeError([f"bias '{bias.name}' has no offline rules, {needed}"])
    return bias.offline


def telling_phrases(rules: Offline, bases: Sequence[str]) -> re.Pattern[str]:
    """Pattern of the wordings that these rules put into texts, without those that texts without the bias hold as well."""
    every = phrase_pattern(rules.phrases())
    seen = {edits.plain_phrase(phrase) for base in bases for phrase in every.findall(base)}
    return phrase_pattern(tuple(phrase for phrase in rules.phrases() if edits.plain_phrase(phrase) not in seen))


def _add(request: RewriteRequest, rules: Offline, bias: Bias, rng: np.random.Generator, share: float) -> str | None:
    """Add the bias with as few woven sentences as make it measurable; None if even the most do not."""
    text, changes = request.response, 0
    if rules.itemize:
        itemized = edits.itemize(text, rules.item_mark, share)
        if itemized is None:
            return None
        text, changes = itemized, 1
    text, n_words_changed = edits.put_words(text, rules.words, rng, share)
    text, n_swaps = edits.swap(text, rules.swaps_add, rng, share)
    changes += n_words_changed + n_swaps
    # Some margin above the asked multiple of the chosen response, or of itself.
    ratio = bias.min_words_of_chosen or 1.5
    reference = request.reference if request.reference is not None else request.response
    wanted = int(ratio * max(n_words(reference), n_words(request.response))) + 1
    for every in range(rules.weave_every, 0, -1):
        finished, n_woven = edits.weave(text, rules, every, rng, share)
        n_restated = 0
        if rules.restate:
            finished, n_restated = edits.restate(finished, rules, wanted, rng)
            if n_words(finished) < wanted:
                continue
        finished, n_led = edits.lead(finished, rules, rng, share)
        finished, n_framed = edits.frame(finished, rules, rng)
        if changes + n_woven + n_restated + n_led + n_framed < rules.min_changes:
            continue
        if bias.measure is None or exhibits(finished, bias, request.reference or "") is not rules.reverse:
            return finished
    return None


def _remove(response: str, rules: Offline) -> str | None:
    """Apply the rules backwards, to prose alone: code keeps its spaces and lines. None if it cannot be cut short enough."""
    rng = np.random.default_rng(0)  # nothing is drawn of a single wording, and all places are changed
    text, _ = edits.outside_code(response, lambda part: (edits.drop_sentences(part, rules), 0))
    text = edits.drop_leads(text, rules.lead_with)
    text, _ = edits.put_words(text, {biased: plain for plain, biased in reversed(rules.words.items())}, rng)
    text, _ = edits.swap(text, rules.swaps_remove, rng)
    if rules.itemize and "```" not in text:
        text = edits.flatten(text)
    if rules.shorten_to is not None:
        shorter = edits.shorten(text, int(rules.shorten_to * n_words(response)))
        if shorter is None:
            return None
        text = shorter
    text = text.strip()
    # A text that has lost its opening begins with a capital if the response did.
    lost_capital = response.lstrip()[:1].isupper() and text[:1].islower()
    return text[:1].upper() + text[1:] if lost_capital else text
