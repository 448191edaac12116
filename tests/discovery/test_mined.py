"""Mining: what was planted in rewards comes first, what was not counts for nothing, and every proposal can be rewritten."""

from __future__ import annotations

from collections import Counter
from functools import cache

import numpy as np
import pytest

from cda.biases import Bias
from cda.discovery.attribute import catalogue
from cda.discovery.candidates import PromptSamples, Rated
from cda.discovery.grouping import PresenceGrouper
from cda.discovery.mined import MinedProposer, Ratings, mine
from cda.discovery.rules import Phrasing, Position, inserted_bias, more_than, phrase_bias, phrasing_of, symbol_bias
from cda.embedded.rules import RuleRewriter
from cda.embedded.texts import authored_pairs
from cda.errors import DataError
from cda.records import RewriteRequest, user_prompt

RNG = np.random.default_rng(0)
KNOWN = {bias.name: bias for bias in catalogue()}
OPENER = phrase_bias(Phrasing("opening", ("Righty-ho!", "Well now!")))


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
    rng = np.random.default_rng(seed)
    samples = []
    for question, answers in texts():
        prompt = user_prompt(question)
        rated = []
        for answer in answers:
            if bias is not None and rng.random() < presence:
                outcome = RuleRewriter(seed).rewrite([RewriteRequest(prompt, answer, "add")], bias)[0]
                answer = outcome.text or answer
            there = bias is not None and bool(bias.shows(answer))
            rated.append(Rated(answer, strength * there + float(rng.normal())))
        samples.append(PromptSamples(prompt, tuple(rated)))
    return samples


def described(samples: list[PromptSamples], n: int, known: list[Bias] | None = None) -> list[Bias]:
    proposer = MinedProposer() if known is None else MinedProposer(known)
    return list(proposer.propose(samples, n, RNG).biases)


@pytest.mark.parametrize("name", ["affirmative", "triple-spaces", "headers", "importance-phrases", "em-dashes"])
def test_a_planted_known_feature_is_among_the_first_three(name: str) -> None:
    assert name in [bias.name for bias in described(planted(KNOWN[name], 1.0), 12)[:3]]


def test_a_planted_wording_that_nobody_listed_is_found_word_for_word() -> None:
    found = described(planted(OPENER, 1.0), 12)
    assert any("Righty-ho!" in one.description and "Well now!" in one.description for one in found[:4])  # as one family
    closing = phrase_bias(Phrasing("closing", ("That is the whole of the matter.",)))
    (first, *_) = described(planted(closing, 1.0, seed=1), 12)
    assert first.description == "Closes with 'That is the whole of the matter.'."
    arrows = symbol_bias("→")
    assert "→" in described(planted(arrows, 1.0, seed=2), 12)[0].description
    before = phrase_bias(Phrasing("before", ("In point of fact,",)))
    assert any("In point of fact," in one.description for one in described(planted(before, 1.0, seed=3), 12)[:2])


def test_a_planted_word_within_sentences_is_found() -> None:
    word = inserted_bias("frankly", {"is": ["a", "the", "not", "too"], "the": ["most", "same"], "of": ["the", "a"]})
    found = described(planted(word, 2.0, presence=0.6), 12, known=[])
    assert any("'frankly'" in bias.description for bias in found[:3])


def test_noise_gives_no_sure_candidate() -> None:
    ts = []
    for seed in range(2):
        left_out: Counter[str] = Counter()
        found, _ = mine(planted(None, 0.0, seed), 12, catalogue(), 4, left_out)
        ts.append(max(one.association.t for one in found))
    assert max(ts) < 4.5
    left_out = Counter()
    found, _ = mine(planted(KNOWN["headers"], 1.0), 12, catalogue(), 4, left_out)
    assert found[0].association.t > 5


def test_every_proposal_can_be_added_and_removed_and_says_where_it_comes_from() -> None:
    samples = planted(OPENER, 1.0)
    proposals = MinedProposer().propose(samples, 25, RNG)
    assert len(proposals.biases) == len(proposals.sources) > 5
    assert proposals.exclusions.seen == len(proposals.biases) + proposals.exclusions.dropped
    assert len({bias.name for bias in proposals.biases}) == len(proposals.biases)
    probes = [RewriteRequest(one.prompt, one.responses[0].text, "add", "x " * 60) for one in samples]
    for bias, source in zip(proposals.biases, proposals.sources, strict=True):
        made = [one.text for one in RuleRewriter().rewrite(probes, bias) if one.text is not None]
        assert made, bias.name
        assert bias.measure is not None
        if not bias.measure.relative:
            assert all(bias.shows(text) for text in made)
            shown = [bias.shows(one.text) for one in samples[source].responses]
            assert any(shown) and not all(shown)


def test_too_little_to_mine_is_said_and_broken_rewards_are_left_out() -> None:
    samples = planted(None, 0.0)[:3]
    with pytest.raises(DataError, match="3 of 3 prompts have two rated responses or more: mining needs 4"):
        MinedProposer().propose(samples, 5, RNG)
    broken = [
        PromptSamples(one.prompt, (*one.responses, Rated("Sure! Nothing.", float("nan")))) for one in planted(None, 0.0)
    ]
    assert MinedProposer().propose(broken, 5, RNG) == MinedProposer().propose(planted(None, 0.0), 5, RNG)
    alike = [PromptSamples(one.prompt, tuple(Rated(r.text, 1.0) for r in one.responses)) for one in broken]
    assert MinedProposer().propose(alike, 5, RNG).biases == ()


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
    assert ratings.telling_prompt(np.array([3, 5, 6])) == 1


def test_a_few_prompts_that_happen_to_agree_do_not_come_first() -> None:
    rng = np.random.default_rng(3)
    prompts = np.repeat(np.arange(100), 4)
    rewards = rng.normal(size=400)
    rewards[[0, 4, 8, 12]] = [rewards[4 * i + 1 : 4 * i + 4].mean() + 0.8 for i in range(4)]  # nearly no spread
    few = Ratings(prompts, rewards).association(np.array([0, 4, 8, 12]), 4)
    assert few is not None and few.difference == pytest.approx(0.8)
    assert few.t < 2


@pytest.mark.parametrize(
    ("position", "wordings", "text", "added"),
    [
        ("opening", ("Righty-ho!",), "Water boils.", "Righty-ho! Water boils."),
        ("opening", ("Now then,",), "Water boils.", "Now then, water boils."),
        ("closing", ("That is all.",), "Water boils.", "Water boils. That is all."),
        ("between", ("Mark this.",), "Water boils. It is hot.", "Water boils. It is hot. Mark this."),
        ("before", ("Note that",), "Water boils. It is hot.", "Water boils. Note that it is hot."),
    ],
)
def test_phrasings_both_ways(position: Position, wordings: tuple[str, ...], text: str, added: str) -> None:
    phrasing = Phrasing(position, wordings)
    bias = phrase_bias(phrasing)
    assert phrasing_of(bias) == phrasing
    prompt = user_prompt("q")
    assert RuleRewriter().rewrite([RewriteRequest(prompt, text, "add")], bias)[0].text == added
    assert bias.shows(added) and not bias.shows(text)
    assert RuleRewriter().rewrite([RewriteRequest(prompt, added, "remove")], bias)[0].text == text


def test_wordings_of_two_makes_are_not_put_at_once() -> None:
    mixed = phrase_bias(Phrasing("opening", ("Sure!", "Certainly,")))
    added = RuleRewriter().rewrite([RewriteRequest(user_prompt("q"), "Water boils.", "add")], mixed)[0].text
    assert added == "Sure! Water boils." and mixed.shows("Certainly, water boils.")


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
    twice = more_than(KNOWN["exclamations"], 1.5)
    responses = ["Sure! Water boils.", "Sure. It is hot.", "Sure! Go on.", "Water boils.", "Go!"]
    biases = [sure, renamed, KNOWN["exclamations"], surely, KNOWN["affirmative"], twice]
    assert PresenceGrouper(responses).groups(biases) == [[0, 1, 3, 4], [2], [5]]
    assert PresenceGrouper().groups(biases) == [[0, 1, 3], [2], [4], [5]]
    assert PresenceGrouper().groups([]) == []
