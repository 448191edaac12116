"""The attributes at hand: each can be put into real texts and taken out again, as measured."""

from __future__ import annotations

from functools import cache

import pytest

from cda.biases import Bias
from cda.discovery.attribute import catalogue, shipped
from cda.embedded.rules import RuleRewriter
from cda.embedded.texts import authored_contrasts
from cda.records import Direction, Prompt, RewriteRequest

BIASES = {bias.name: bias for bias in (*shipped("formats"), *shipped("marks"))}


@cache
def bases() -> tuple[tuple[Prompt, str], ...]:
    """The first twelve plain answers of the audit."""
    found = {one.base: one.prompt for one in authored_contrasts("audit")}
    return tuple((prompt, text) for text, prompt in found.items())[:12]


def rewritten(bias: Bias, texts: list[tuple[Prompt, str]], direction: Direction, seed: int, share: float) -> list[str]:
    requests = [RewriteRequest(prompt, text, direction) for prompt, text in texts]
    return [one.text or "" for one in RuleRewriter(seed, share).rewrite(requests, bias)]


def test_names_differ_and_each_says_what_is_its_treatment() -> None:
    names = [bias.name for bias in catalogue()]
    assert len(set(names)) == len(names) > 30
    for bias in BIASES.values():
        assert bias.measure is not None and bias.measure.feature in bias.treatment and bias.offline is not None


@pytest.mark.parametrize("share", [1.0, 0.3])
@pytest.mark.parametrize("name", list(BIASES))
def test_added_it_is_measured_and_removed_it_is_gone(name: str, share: float) -> None:
    bias = BIASES[name]
    plain = [(prompt, text) for prompt, text in bases() if not bias.shows(text)]
    assert len(plain) >= 8
    added = rewritten(bias, plain, "add", 42, share)
    made = [(prompt, text, new) for (prompt, text), new in zip(plain, added, strict=True) if new]
    assert len(made) >= 0.4 * len(plain)  # links, italics and capitals need words that not every text has
    assert all(bias.shows(new) for _, _, new in made)
    removed = rewritten(bias, [(prompt, new) for prompt, _, new in made], "remove", 42, 1.0)
    assert all(text and not bias.shows(text) for text in removed)
    restored = [text == back for (_, text, _), back in zip(made, removed, strict=True)]
    assert sum(restored) >= 0.9 * len(restored) if name != "parentheses" else any(restored)


@pytest.mark.parametrize(
    ("name", "text", "shows"),
    [
        ("affirmative", "Sure, here is how.", True),
        ("affirmative", "**Certainly!** Here it is.", True),
        ("affirmative", "I’d be happy to help! First, …", True),
        ("affirmative", "Surely it is.", False),
        ("affirmative", "Of course it rains. Sure!", False),
        ("links", "See [here](https://a.b/c).", True),
        ("links", "See www.example.com for more.", True),
        ("links", "See [1] (later).", False),
        ("headers", "### Steps\nGo.", True),
        ("lists", "Do:\n1. this\n2. that", True),
        ("opens-praise", "What an interesting question! It is.", True),
        ("opens-praise", "A great question is short.", False),
        ("closes-offer", "It is. Let me know if you have questions!", True),
        ("closes-offer", "Let me know. It is.", False),
        ("closes-question", "It is. Is that clear?", True),
        ("importance-phrases", "So it's important to note that it is.", True),
        ("triple-spaces", "One   two", True),
        ("triple-spaces", "One  two\n   three", False),
        ("no-break-spaces", "One\u00a0two", True),
        ("blank-lines", "One.\n\nTwo.", True),
        ("numbered-lists", "1. one\n2. two", True),
        ("numbered-lists", "- one\n- two", False),
    ],
)
def test_known_texts(name: str, text: str, shows: bool) -> None:
    assert BIASES[name].shows(text) is shows


@pytest.mark.parametrize(
    ("name", "text", "plain"),
    [
        ("affirmative", "Sure, here is how.", "Here is how."),
        ("affirmative", "Certainly! Here is how.", "Here is how."),
        ("links", "See [the map](https://a.b/c) first.", "See the map first."),
        ("emoji", "Good 👍🏽 work ✨!", "Good work!"),
        ("bold", "**One:** two __three__ four.", "One: two three four."),
        ("headers", "# One\n\nText.\n\n## Two\nMore.", "Text.\n\nMore."),
        ("opens-praise", "That's a great question! Water boils.", "Water boils."),
        ("closes-offer", "Water boils. Feel free to ask me anything!", "Water boils."),
        ("rhetorical-questions", "Water boils. Why is that so? Heat.", "Water boils. Heat."),
    ],
)
def test_what_a_model_writes_is_taken_out_too(name: str, text: str, plain: str) -> None:
    prompt = bases()[0][0]
    assert rewritten(BIASES[name], [(prompt, text)], "remove", 42, 1.0) == [plain]
