"""Mutations by rules: each kind, none twice, the same draw for the same seed, and all of them can be rewritten."""

from __future__ import annotations

import numpy as np

from cda.biases import Bias, load_bias
from cda.discovery.attribute import catalogue
from cda.discovery.candidates import Parent, standing
from cda.discovery.rules import (
    Phrasing,
    RuleMutator,
    other_places,
    other_position,
    other_wordings,
    phrase_bias,
    round_trips,
    stronger,
)
from cda.embedded.rules import RuleRewriter
from cda.records import RewriteRequest, user_prompt
from cda.results.discover import CandidateRecord

KNOWN = {bias.name: bias for bias in catalogue()}
TEXT = "Water boils at 100 degrees, which is well known. It needs a pot, and a lid. Salt does not change that much."
PROMPT = user_prompt("q")


def parent(bias: Bias) -> Parent:
    candidate = CandidateRecord.of(bias)
    return Parent(((candidate, standing(candidate.id, [], {})),))


def add(bias: Bias, text: str = TEXT) -> str:
    outcome = RuleRewriter().rewrite([RewriteRequest(PROMPT, text, "add")], bias)[0]
    assert outcome.text is not None, outcome.reason
    return outcome.text


def remove(bias: Bias, text: str) -> str | None:
    return RuleRewriter().rewrite([RewriteRequest(PROMPT, text, "remove")], bias)[0].text


def keys(biases: tuple[Bias, ...]) -> set[str]:
    return {str(one.model_dump(include={"pattern", "measure", "offline"})) for one in biases}


def test_variations_are_many_new_and_drawn_by_the_seed() -> None:
    parents = [parent(bias) for bias in (KNOWN["affirmative"], KNOWN["triple-spaces"], KNOWN["importance-phrases"])]
    found = RuleMutator().mutate(parents, 4, np.random.default_rng(1))
    assert found.sources == (0,) * 4 + (1,) * 3 + (2,) * 4  # spaces: more, fewer, wider
    given = tuple(each.candidate.bias for each in parents)
    assert len(keys(found.biases)) == 11 and not keys(found.biases) & keys(given)
    assert len({bias.name for bias in (*found.biases, *given)}) == 14
    assert RuleMutator().mutate(parents, 4, np.random.default_rng(1)) == found
    assert RuleMutator().mutate(parents, 4, np.random.default_rng(2)) != found


def test_every_mutation_can_be_added_and_is_measured() -> None:
    parents = [parent(KNOWN[name]) for name in ("affirmative", "em-dashes", "closes-offer", "bold", "emoji")]
    found = RuleMutator().mutate(parents, 5, np.random.default_rng(0))
    assert len(found.biases) >= 15
    for bias in found.biases:
        added = add(bias, f"{TEXT}\n\n{TEXT}")
        assert bias.shows(added), bias.name
        removed = remove(bias, added)
        assert removed is not None and not bias.shows(removed), bias.name


def test_without_rules_there_is_nothing_to_vary() -> None:
    asked = load_bias("jargon").model_copy(update={"offline": None})
    found = RuleMutator().mutate([parent(asked)], 4, np.random.default_rng(0))
    assert found.biases == () and found.exclusions.reasons == {"no offline rules": 4}


def test_too_few_variations_are_counted() -> None:
    found = RuleMutator(known=()).mutate([parent(KNOWN["opens-as-an-ai"])], 50, np.random.default_rng(0))
    assert found.exclusions.reasons["no further variation"] == 50 - len(found.biases)
    assert found.exclusions.seen == len(found.biases) + found.exclusions.dropped


def test_other_wordings_are_of_the_same_kind() -> None:
    bias = phrase_bias(Phrasing("opening", ("Yes!", "Certainly!")))
    instead, together = other_wordings(bias, catalogue())
    assert instead.offline is not None and together.offline is not None
    assert "Sure!" in instead.offline.open_with and "Certainly!" not in instead.offline.open_with
    assert {"Sure!", "Yes!"} <= set(together.offline.open_with)
    assert list(other_wordings(phrase_bias(Phrasing("opening", ("Righty-ho!",))), catalogue())) == []


def test_places_position_and_strength() -> None:
    counts = [add(one).count("Note that") for one in other_places(phrase_bias(Phrasing("before", ("Note that",))))]
    assert counts == [3, 1]
    offer = phrase_bias(Phrasing("closing", ("Just ask!",)))
    opened, woven = other_position(offer)
    assert add(opened).startswith("Just ask! Water") and ". Just ask! Salt" in add(woven)
    (twice,) = stronger(phrase_bias(Phrasing("opening", ("Sure!", "Yes!"))))
    assert add(twice)[:10] in ("Sure! Yes!", "Yes! Sure!") and list(stronger(twice)) == []
    (emoji,) = stronger(KNOWN["emoji"])
    assert KNOWN["emoji"].measured(add(emoji), "emoji") == 6
    much, less = other_places(KNOWN["exclamations"])
    assert much.measure is not None and much.measure.present_above == 1.5
    assert add(less).count("!") == 2 and add(KNOWN["exclamations"]).count("!") == 3
    assert list(stronger(load_bias("jargon"))) == []  # words said twice are not jargon twice


def test_rules_that_undo_each_other_are_counted_out() -> None:
    assert round_trips(KNOWN["triple-spaces"], [TEXT]) == 1.0
    broken = KNOWN["triple-spaces"].model_copy(update={"pattern": "x y z"})
    assert round_trips(broken, [TEXT]) == 0.0
