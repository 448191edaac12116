"""Rule-based rewriting: both directions, what must not be touched, and failures that are never the text itself."""

from __future__ import annotations

import difflib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cda.biases import Bias, load_bias
from cda.embedded.rules import RuleRewriter, rules_of
from cda.embedded.texts import EMBEDDED_BIASES, authored_contrasts, authored_pairs
from cda.errors import RecipeError
from cda.features import n_words
from cda.records import Direction, Rewrite, RewriteRequest, content_id, user_prompt

BLOCK = "```python\ndef use(start):\n    if start:\n        return  'use'  # keep\n```"
INLINE = "`use the start`"
URL = "https://example.com/use/the/start?use=1"
TECHNICAL = (
    f"You can use the helper below to make sure that it works. It is useful, and you need to keep the file. See {URL} "
    f"for more.\n\n{BLOCK}\n\nAfter that, use {INLINE} again. You should check the output. It will take 5 minutes. "
    "This is important. Then find out what you want to change."
)
LISTED = (
    "Start by checking the oven. Then do this:\n\n1. Use a small pan and make sure it is hot.\n"
    "2. You need to add 2 cups of water.\n3. Stop when it is done.\n\nThat is all you need to know. It will help."
)


def rewrite(
    text: str, bias: Bias | str, direction: Direction = "add", reference: str | None = None, seed: int = 42
) -> Rewrite:
    bias = load_bias(bias) if isinstance(bias, str) else bias
    return RuleRewriter(seed).rewrite([RewriteRequest(user_prompt("q"), text, direction, reference)], bias)[0]


def text_of(outcome: Rewrite) -> str:
    assert outcome.text is not None, outcome.reason
    return outcome.text


def likeness(one: str, other: str) -> float:
    """Share of words in common and in order."""
    return difflib.SequenceMatcher(None, one.split(), other.split(), autojunk=False).ratio()


@pytest.mark.parametrize("name", ["length", "jargon", "sycophancy", "vagueness"])
def test_adding_leaves_code_and_addresses_alone(name: str) -> None:
    added = text_of(rewrite(TECHNICAL, name, reference="short answer"))
    for part in (BLOCK, INLINE, URL):
        assert part in added


def own_words(**words: str) -> Bias:
    return Bias.model_validate(
        load_bias("jargon").model_dump() | {"measure": None, "offline": {"words": words | {"make sure": "ascertain"}}}
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("I had a plan.", "I had an idea."),
        ("A plan helps.", "An idea helps."),
        ("It was an apple.", "It was a pear."),
        ("An apple a day.", "A pear a day."),
        ("A car came.", "A unicorn came."),
        ("They had a tool.", "They had a utility."),
        ("PLAN ahead.", "IDEA ahead."),
        ("Make  sure of it.", "Ascertain of it."),
        ("An airplane, planned.", None),
        ("Plan a planet plan.", "Idea a planet idea."),
        (f"Plan `a plan` and {URL}/plan.", f"Idea `a plan` and {URL}/plan."),
    ],
)
def test_words_articles_and_capitals(before: str, after: str | None) -> None:
    bias = own_words(plan="idea", apple="pear", car="unicorn", tool="utility")
    assert rewrite(before, bias).text == after


def test_too_few_changes_are_a_failure() -> None:
    bias = own_words(plan="idea")
    assert bias.offline is not None
    strict = bias.model_copy(update={"offline": bias.offline.model_copy(update={"min_changes": 2})})
    assert rewrite("A plan.", strict) == Rewrite(None, "too few places to change")
    assert rewrite("A plan, a plan.", strict).text == "An idea, an idea."


@pytest.mark.parametrize("name", EMBEDDED_BIASES)
def test_the_same_request_gives_the_same_text_and_seeds_give_others(name: str) -> None:
    text = authored_pairs("quality")[0].pair.rejected
    assert rewrite(text, name) == rewrite(text, name)
    assert len({rewrite(text, name, seed=seed).text for seed in range(8)}) > 1


WORDS = [
    "use",
    "a plan",
    "help you",
    "It depends.",
    "very",
    "Great!",
    "\n",
    "- one",
    "1. two",
    "`use`",
    ".",
    "!",
    "5 cups",
    "##",
]


@settings(deadline=None, derandomize=True, max_examples=20)
@given(
    st.lists(st.sampled_from(WORDS), max_size=25).map(" ".join),
    st.sampled_from(EMBEDDED_BIASES),
    st.sampled_from(["add", "remove"]),
)
def test_an_outcome_is_a_changed_text_or_a_reason(text: str, name: str, direction: Direction) -> None:
    outcome = rewrite(text, name, direction)
    if outcome.text is None:
        assert outcome.reason
    else:
        assert outcome.text.strip()
        assert outcome.text != text


def test_a_bias_without_rules_needs_an_llm() -> None:
    bias = load_bias("jargon").model_copy(update={"offline": None})
    with pytest.raises(RecipeError, match=r"bias 'jargon' has no offline rules.*set llm\.model"):
        rules_of(bias)
    with pytest.raises(RecipeError):
        rewrite("A text.", bias)


PROSE = (
    "Water boils at 100 degrees. You should use a small pot and make sure that it is covered. It is important to note that "
    "salt raises that a little! In order to cook rice, you need a plan. Great question! It will help you to find out more. "
    "Let me know if you need anything."
)
BULLETS = (
    "The point is simple:\n\n- **Use** less water.\n- Start early, so that you get it done.\n\nPerhaps it depends. This is a "
    "very good way to do it."
)
# The trained weights of the embedded presets depend on these additions: they must not change.
OUTPUTS = {
    "length": "3eaf1ffdf4146853",
    "structure": "281c9961daef86a5",
    "jargon": "6ec8c48b1680a9db",
    "sycophancy": "1af48f2c8bea98e0",
    "vagueness": "24629f118bcdd510",
}


@pytest.mark.parametrize("name", EMBEDDED_BIASES)
def test_additions_at_all_places_are_what_they_always_were(name: str) -> None:
    bias = load_bias(name)
    requests = [
        RewriteRequest(user_prompt("q"), text, "add", reference)
        for text in (TECHNICAL, LISTED, PROSE, BULLETS)
        for reference in (None, "A short answer.")
        if name == "length" or not bias.shows(text)
    ]
    found = [[one.text, one.reason] for one in RuleRewriter().rewrite(requests, bias)]
    assert content_id(found) == OUTPUTS[name]


@pytest.mark.parametrize("name", EMBEDDED_BIASES)
def test_rules_put_the_bias_in_and_take_out_again_what_they_put_in(name: str) -> None:
    """On 100 answers written without the bias, by its own measure; what comes back is nearer to the original."""
    bias, rewriter = load_bias(name), RuleRewriter()
    bases = [one for one in authored_contrasts("audit", [name]) if name == "length" or not bias.shows(one.base)]
    added = rewriter.rewrite([RewriteRequest(one.prompt, one.base, "add") for one in bases], bias)
    made = [(one, outcome.text) for one, outcome in zip(bases, added, strict=True) if outcome.text is not None]
    assert len(made) >= 95 and all(bias.shows(text, one.base) for one, text in made)
    removed = rewriter.rewrite([RewriteRequest(one.prompt, text, "remove") for one, text in made], bias)
    back = [(one.base, text, out.text) for (one, text), out in zip(made, removed, strict=True) if out.text is not None]
    gone = [n_words(out) < n_words(text) if name == "length" else not bias.shows(out) for _, text, out in back]
    assert sum(gone) >= (0.9 if name == "vagueness" else 0.95) * len(made)
    near = [likeness(base, out) for base, _, out in back]
    assert np.median(near) >= 0.93 and np.mean(near) > np.mean([likeness(base, text) for base, text, _ in back]) + 0.03


def test_a_removal_that_leaves_the_bias_is_a_failure() -> None:
    """Embedded answers with jargon hold terms that no rule knows."""
    bias = load_bias("jargon")
    shown = [one for one in authored_contrasts("shown", ["jargon"]) if bias.shows(one.perturbed)]
    found = RuleRewriter().rewrite([RewriteRequest(one.prompt, one.perturbed, "remove") for one in shown], bias)
    assert len(shown) == 39
    assert all(one.text is None or not bias.shows(one.text) for one in found)
    assert sum(one.reason == "attribute not flipped" for one in found) > 30


def ruled(measure: dict[str, object] | None = None, pattern: str | None = None, **offline: object) -> Bias:
    base = load_bias("jargon").model_dump() | {"measure": measure, "pattern": pattern, "offline": offline}
    treatment = ["pattern_count"] if pattern else ["wide_spaces"]
    return Bias.model_validate(base | {"treatment": treatment})


def test_a_share_of_the_places_is_changed() -> None:
    bias = ruled(swaps_add=[{"find": r"\bx\b", "put": "y"}])
    text = " ".join(["x"] * 10)
    for share, n in ((1.0, 10), (0.6, 6), (0.3, 3), (0.01, 1)):
        outcome = RuleRewriter(1, share).rewrite([RewriteRequest(user_prompt("q"), text, "add")], bias)[0]
        assert text_of(outcome).count("y") == n
    halved = ruled(swaps_add=[{"find": r"\bx\b", "put": "y"}], share=0.5)
    assert text_of(rewrite(text, halved)).count("y") == 5
    words = ruled(words={"x": "y"}, share=0.2)
    assert text_of(rewrite(text, words)).count("y") == 2


def test_white_space_alone_is_a_rewrite_where_it_is_the_bias() -> None:
    spaces = ruled(
        {"feature": "wide_spaces", "present_above": 0.5},
        swaps_add=[{"find": r"(?<=\S) (?=\S)", "put": "   "}],
        swaps_remove=[{"find": r"(?<=\S) {3}(?=\S)", "put": " "}],
    )
    added = text_of(rewrite("Water boils. It is `a b` hot.", spaces))
    assert added == "Water   boils.   It   is `a b` hot."  # blanks beside code are left as they are
    assert text_of(rewrite(added, spaces, "remove")) == "Water boils. It is `a b` hot."
    assert rewrite("Water boils.", spaces, "remove") == Rewrite(None, "unchanged")


def test_phrases_before_sentences_and_back() -> None:
    text = "Water boils. It is hot. See Paris, said Anna. Anna knows."
    every = ruled(lead_with=["Note that"], lead_every=2)
    added = text_of(rewrite(text, every))
    assert added == "Water boils. Note that it is hot. See Paris, said Anna. Note that Anna knows."
    assert text_of(rewrite(added, every, "remove")) == text
    first = ruled(lead_with=["Certainly,"])
    assert text_of(rewrite(text, first)) == f"Certainly, water{text[5:]}"
    assert text_of(rewrite("- Water boils.\n- It is hot.", first)) == "- Certainly, water boils.\n- It is hot."
    assert rewrite(f"{BLOCK}\nDone.", first).text is None
    assert text_of(rewrite("1. Note that Water.\n2. NOTE THAT it.", every, "remove")) == "1. Water.\n2. It."


def test_what_comes_after_a_removed_opening_begins_with_a_capital() -> None:
    bias = ruled(swaps_remove=[{"find": r"(?i)\Asure, ", "put": ""}])
    assert text_of(rewrite("Sure, water boils.", bias, "remove")) == "Water boils."


def test_addresses_change_only_where_a_swap_says_so() -> None:
    link = {"find": r"\[(\w+)\]\(https?://[^)\s]*\)", "put": r"\1"}
    assert rewrite("See [this](https://a.b/c).", ruled(swaps_remove=[link]), "remove").text is None
    freed = ruled(swaps_remove=[link | {"addresses": True}])
    assert (
        text_of(rewrite("See [this](https://a.b/c). `[x](https://a.b)`", freed, "remove"))
        == "See this. `[x](https://a.b)`"
    )
