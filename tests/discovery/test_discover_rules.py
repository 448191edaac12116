"""Attributes and variations by rules: what was planted in rewards is mined, and each can be put into texts and taken out."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from rows import rng

from cda.biases import Bias, load_bias
from cda.discovery.attribute import catalogue, shipped_attributes
from cda.discovery.mined import MinedProposer, PresenceGrouper, Ratings
from cda.discovery.rules import (
    Phrasing,
    Position,
    RuleMutator,
    inserted_bias,
    more_than,
    other_places,
    other_position,
    phrase_bias,
    phrasing_of,
    round_trips,
    stronger,
    symbol_bias,
)
from cda.discovery.search import Parent, PromptSamples, Rated, standing
from cda.embedded.rules import RuleRewriter
from cda.embedded.texts import authored_contrasts, authored_pairs
from cda.errors import DataError
from cda.records import Direction, Prompt, RewriteRequest, user_prompt
from cda.results.discover import CandidateRecord

SHIPPED = {bias.name: bias for bias in (*shipped_attributes("formats"), *shipped_attributes("marks"))}
KNOWN = {bias.name: bias for bias in catalogue()}
OPENER = phrase_bias(Phrasing("opening", ("Righty-ho!", "Well now!")))
TEXT = "Water boils at 100 degrees, which is well known. It needs a pot, and a lid. Salt does not change that much."
PROMPT = user_prompt("q")


def rewritten(
    bias: Bias, text: str = TEXT, direction: Direction = "add", prompt: Prompt = PROMPT, share: float = 1.0
) -> str:
    """The rewrite, or nothing."""
    return RuleRewriter(42, share).rewrite([RewriteRequest(prompt, text, direction)], bias)[0].text or ""


@cache
def bases() -> dict[str, Prompt]:
    """The first twelve plain answers of the audit."""
    found = {one.base: one.prompt for one in authored_contrasts("audit")}
    return dict(list(found.items())[:12])


def test_names_differ_and_each_says_what_is_its_treatment() -> None:
    names = [bias.name for bias in catalogue()]
    assert len(set(names)) == len(names) > 30
    for bias in SHIPPED.values():
        assert bias.measure is not None and bias.measure.feature in bias.treatment and bias.offline is not None


@pytest.mark.parametrize("share", [1.0, 0.3])
@pytest.mark.parametrize("name", list(SHIPPED))
def test_added_it_is_measured_and_removed_it_is_gone(name: str, share: float) -> None:
    bias = SHIPPED[name]
    plain = {text: prompt for text, prompt in bases().items() if not bias.shows(text)}
    added = {text: rewritten(bias, text, "add", prompt, share) for text, prompt in plain.items()}
    made = {text: new for text, new in added.items() if new}
    assert len(plain) >= 8 and len(made) >= 0.4 * len(
        plain
    )  # links, italics and capitals need words that not every text has
    assert all(map(bias.shows, made.values()))
    removed = {text: rewritten(bias, new, "remove", plain[text]) for text, new in made.items()}
    assert all(text and not bias.shows(text) for text in removed.values())
    restored = sum(text == back for text, back in removed.items())
    assert restored >= 0.9 * len(made) if name != "parentheses" else restored


@pytest.mark.parametrize(("name", "text", "shows"), [
    ("affirmative", "**Certainly!** Here it is.", True),
    ("affirmative", "I’d be happy to help! First, …", True),
    ("affirmative", "Surely it is.", False),
    ("affirmative", "Of course it rains. Sure!", False),
    ("links", "See [here](https://a.b/c).", True),
    ("links", "See www.example.com for more.", True),
    ("links", "See [1] (later).", False),
    ("opens-praise", "What an interesting question! It is.", True),
    ("opens-praise", "A great question is short.", False),
    ("closes-offer", "It is. Let me know if you have questions!", True),
    ("closes-offer", "Let me know. It is.", False),
    ("importance-phrases", "So it's important to note that it is.", True),
    ("triple-spaces", "One  two\n   three", False),
    ("no-break-spaces", "One\u00a0two", True),
    ("numbered-lists", "1. one\n2. two", True),
    ("numbered-lists", "- one\n- two", False),
])  # fmt: skip
def test_known_texts(name: str, text: str, shows: bool) -> None:
    assert SHIPPED[name].shows(text) is shows


@pytest.mark.parametrize(("name", "text", "plain"), [
    ("affirmative", "Sure, here is how.", "Here is how."),
    ("links", "See [the map](https://a.b/c) first.", "See the map first."),
    ("emoji", "Good 👍🏽 work ✨!", "Good work!"),
    ("bold", "**One:** two __three__ four.", "One: two three four."),
    ("headers", "# One\n\nText.\n\n## Two\nMore.", "Text.\n\nMore."),
    ("opens-praise", "That's a great question! Water boils.", "Water boils."),
    ("closes-offer", "Water boils. Feel free to ask me anything!", "Water boils."),
    ("rhetorical-questions", "Water boils. Why is that so? Heat.", "Water boils. Heat."),
])  # fmt: skip
def test_what_a_model_writes_is_taken_out_too(name: str, text: str, plain: str) -> None:
    assert rewritten(SHIPPED[name], text, "remove") == plain


def parent(bias: Bias) -> Parent:
    candidate = CandidateRecord.of(bias)
    return Parent(((candidate, standing(candidate.id, [], {})),))


def keys(biases: tuple[Bias, ...]) -> set[str]:
    return {str(one.model_dump(include={"pattern", "measure", "offline"})) for one in biases}


def test_variations_are_many_new_drawn_by_the_seed_and_can_be_added_and_removed() -> None:
    given = tuple(KNOWN[name] for name in ("affirmative", "triple-spaces", "importance-phrases", "bold", "emoji"))
    parents = list(map(parent, given))
    found = RuleMutator().mutate(parents, 4, rng(1))
    assert found.sources[:11] == (0,) * 4 + (1,) * 3 + (2,) * 4  # spaces: more, fewer, wider
    n = len(found.biases)
    assert n >= 15 and len(keys(found.biases)) == n and not keys(found.biases) & keys(given)
    assert len({bias.name for bias in (*found.biases, *given)}) == n + 5
    assert RuleMutator().mutate(parents, 4, rng(1)) == found != RuleMutator().mutate(parents, 4, rng(2))
    for bias in found.biases:
        added = rewritten(bias, f"{TEXT}\n\n{TEXT}")
        removed = rewritten(bias, added, "remove")
        assert bias.shows(added) and removed and not bias.shows(removed), bias.name


def test_what_cannot_be_varied_is_counted() -> None:
    asked = load_bias("jargon").model_copy(update={"offline": None})
    found = RuleMutator().mutate([parent(asked)], 4, rng())
    assert found.biases == () and found.exclusions.reasons == {"no offline rules": 4}
    found = RuleMutator(known=()).mutate([parent(KNOWN["opens-as-an-ai"])], 50, rng())
    assert found.exclusions.reasons["no further variation"] == 50 - len(found.biases)
    assert found.exclusions.seen == 50


def test_places_position_and_strength() -> None:
    counts = [
        rewritten(one).count("Note that") for one in other_places(phrase_bias(Phrasing("before", ("Note that",))))
    ]
    assert counts == [3, 1]
    offer = phrase_bias(Phrasing("closing", ("Just ask!",)))
    opened, woven = other_position(offer)
    assert rewritten(opened).startswith("Just ask! Water") and ". Just ask! Salt" in rewritten(woven)
    (twice,) = stronger(phrase_bias(Phrasing("opening", ("Sure!", "Yes!"))))
    assert rewritten(twice)[:10] in ("Sure! Yes!", "Yes! Sure!") and list(stronger(twice)) == []
    (emoji,) = stronger(KNOWN["emoji"])
    assert KNOWN["emoji"].measured(rewritten(emoji), "emoji") == 6
    much, less = other_places(KNOWN["exclamations"])
    assert much.measure is not None and much.measure.present_above == 1.5
    assert rewritten(less).count("!") == 2 and rewritten(KNOWN["exclamations"]).count("!") == 3
    assert list(stronger(load_bias("jargon"))) == []  # words said twice are not jargon twice


def test_rules_that_undo_each_other_are_counted_out() -> None:
    assert round_trips(KNOWN["triple-spaces"], [TEXT]) == 1.0
    broken = KNOWN["triple-spaces"].model_copy(update={"pattern": "x y z"})
    assert round_trips(broken, [TEXT]) == 0.0


@cache
def texts() -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Forty questions with four answers each: sound and flawed, and both without their first sentence."""
    found = []
    for one in authored_pairs("train")[:40]:
        sides = (one.pair.chosen, one.pair.rejected)
        shorter = tuple(side.split(". ", 1)[-1] for side in sides)
        found.append((f"{one.pair.prompt}", (*sides, *shorter)))
    return tuple(found)


def planted(bias: Bias | None, strength: float, seed: int = 0, presence: float = 0.4) -> list[PromptSamples]:
    """Rewards of noise with SD 1, and of so much more where the bias is, which is put into a share of the answers."""
    draw = rng(seed)
    samples = []
    for question, answers in texts():
        prompt = user_prompt(question)
        rated = []
        for answer in answers:
            if bias is not None and draw.random() < presence:
                outcome = RuleRewriter(seed).rewrite([RewriteRequest(prompt, answer, "add")], bias)[0]
                answer = outcome.text or answer
            there = bias is not None and bool(bias.shows(answer))
            rated.append(Rated(answer, strength * there + float(draw.normal())))
        samples.append(PromptSamples(prompt, tuple(rated)))
    return samples


def described(samples: list[PromptSamples]) -> list[Bias]:
    return list(MinedProposer().propose(samples, 12, rng()).biases)


@pytest.mark.parametrize("name", ["affirmative", "triple-spaces", "headers", "importance-phrases", "em-dashes"])
def test_a_planted_known_feature_is_among_the_first_three(name: str) -> None:
    assert name in [bias.name for bias in described(planted(KNOWN[name], 1.0))[:3]]


def test_a_planted_wording_that_nobody_listed_is_found_word_for_word() -> None:
    found = described(planted(OPENER, 1.0))
    assert any("Righty-ho!" in one.description and "Well now!" in one.description for one in found[:4])  # as one family
    closing = phrase_bias(Phrasing("closing", ("That is the whole of the matter.",)))
    assert described(planted(closing, 1.0, 1))[0].description == "Closes with 'That is the whole of the matter.'."
    assert "→" in described(planted(symbol_bias("→"), 1.0, 2))[0].description
    before = phrase_bias(Phrasing("before", ("In point of fact,",)))
    assert any("In point of fact," in one.description for one in described(planted(before, 1.0, 3))[:2])


def test_a_planted_word_within_sentences_is_found() -> None:
    word = inserted_bias("frankly", {"is": ["a", "the", "not", "too"], "the": ["most", "same"], "of": ["the", "a"]})
    found = MinedProposer([]).propose(planted(word, 2.0, presence=0.6), 12, rng()).biases
    assert any("'frankly'" in bias.description for bias in found[:3])


def test_every_proposal_can_be_added_and_removed_and_tells_responses_apart() -> None:
    samples = planted(OPENER, 1.0)
    proposals = MinedProposer().propose(samples, 25, rng())
    assert len(proposals.biases) > 5
    assert proposals.exclusions.seen == len(proposals.biases) + proposals.exclusions.dropped
    assert len({bias.name for bias in proposals.biases}) == len(proposals.biases)
    probes = [RewriteRequest(one.prompt, one.responses[0].text, "add", "x " * 60) for one in samples]
    for bias in proposals.biases:
        made = [one.text for one in RuleRewriter().rewrite(probes, bias) if one.text is not None]
        assert made, bias.name
        assert bias.measure is not None
        if not bias.measure.relative:
            assert all(bias.shows(text) for text in made)
            assert any(len({bias.shows(rated.text) for rated in one.responses}) == 2 for one in samples)


def test_too_little_to_mine_is_said_and_broken_rewards_are_left_out() -> None:
    samples = planted(None, 0.0)[:3]
    with pytest.raises(DataError, match="3 of 3 prompts have two rated responses or more: mining needs 4"):
        MinedProposer().propose(samples, 5, rng())
    lost = Rated("Sure! Nothing.", float("nan"))
    broken = [PromptSamples(one.prompt, (*one.responses, lost)) for one in planted(None, 0.0)]
    assert MinedProposer().propose(broken, 5, rng()) == MinedProposer().propose(planted(None, 0.0), 5, rng())
    alike = [PromptSamples(one.prompt, tuple(Rated(r.text, 1.0) for r in one.responses)) for one in broken]
    assert MinedProposer().propose(alike, 5, rng()).biases == ()


def test_association_by_hand() -> None:
    ratings = Ratings([0, 0, 0, 1, 1, 2, 2], [3.0, 1.0, 1.0, 2.0, 0.0, 5.0, 9.0])
    found = ratings.association(np.array([0, 3, 5, 6]), 2)
    assert found is not None and found.n_prompts == 2  # all of prompt 2 have it: it says nothing
    assert found.difference == pytest.approx((2 / 3 * 2 + 1 / 2 * 2) / (2 / 3 + 1 / 2))
    within = (16 / 9 + 4 / 9 + 4 / 9) + 2 + 8
    assert ratings.variance == pytest.approx(within / 4)
    spread = 20 * ratings.variance / 21
    assert found.t == pytest.approx(2 / np.sqrt(spread / (7 / 6)))
    assert ratings.association(np.array([0, 3]), 3) is None


@pytest.mark.parametrize(("position", "wordings", "text", "added"), [
    ("opening", ("Righty-ho!",), "Water boils.", "Righty-ho! Water boils."),
    ("opening", ("Now then,",), "Water boils.", "Now then, water boils."),
    ("closing", ("That is all.",), "Water boils.", "Water boils. That is all."),
    ("between", ("Mark this.",), "Water boils. It is hot.", "Water boils. It is hot. Mark this."),
    ("before", ("Note that",), "Water boils. It is hot.", "Water boils. Note that it is hot."),
])  # fmt: skip
def test_phrasings_both_ways(position: Position, wordings: tuple[str, ...], text: str, added: str) -> None:
    phrasing = Phrasing(position, wordings)
    bias = phrase_bias(phrasing)
    assert phrasing_of(bias) == phrasing
    assert rewritten(bias, text) == added and rewritten(bias, added, "remove") == text
    assert bias.shows(added) and not bias.shows(text)


def test_presence_is_found_in_other_spellings_but_not_elsewhere() -> None:
    opening = phrase_bias(Phrasing("opening", ("It’s clear!",)))
    assert opening.shows("**it's CLEAR, so go.") and not opening.shows("No. It's clear!")
    closing = phrase_bias(Phrasing("closing", ("That is all.",)))
    assert closing.shows("Go. that is all!\n") and not closing.shows("That is all. Go.")
    before = phrase_bias(Phrasing("before", ("However,",)))
    assert before.shows("- One.\n- However, two.") and not before.shows("One, however, two.")


def test_groups_by_rules_pattern_and_presence_but_not_by_dose() -> None:
    sure = phrase_bias(Phrasing("opening", ("Sure!",)))
    surely = phrase_bias(Phrasing("opening", ("Sure.",)))
    renamed = sure.model_copy(update={"name": "other", "description": "Something else."})
    twice, (_, fewer) = more_than(KNOWN["exclamations"], 1.5), other_places(KNOWN["exclamations"])
    responses = ["Sure! Water boils.", "Sure. It is hot.", "Sure! Go on.", "Water boils.", "Go!"]
    biases = [sure, renamed, KNOWN["exclamations"], surely, KNOWN["affirmative"], twice, fewer]
    assert PresenceGrouper(responses).groups(biases) == [[0, 1, 3, 4], [2], [5], [6]]
    assert PresenceGrouper().groups(biases) == [[0, 1, 3], [2], [4], [5], [6]]
    assert PresenceGrouper().groups([]) == []
