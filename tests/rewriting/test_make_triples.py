"""RATE triples: questions and baseline responses by an LLM, rewrites in both directions, every loss counted."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from scripted_llm import ScriptedLLM
from scripted_rewriter import ScriptedRewriter

from cda.biases import Bias, load_bias
from cda.llm.protocol import Request
from cda.records import Prompt, RewriteRequest, Triple, user_prompt
from cda.results.effects import Flips
from cda.rewriting.rewriter import Gated
from cda.rewriting.triples import (
    Original,
    baseline_responses,
    checked_triples,
    flips_of,
    generate_questions,
    make_triples,
    parse_questions,
    triples_of_responses,
)


def topic_of(request: Request) -> str:
    return request.user.split("<<<TOPIC>>>\n")[1].split("\n<<<END>>>")[0]


def numbered(request: Request, count: int = 3) -> list[str]:
    return [f"Is {topic_of(request)} number {request.sample}{n} good?" for n in range(count)]


@pytest.mark.parametrize(
    "text",
    [
        '{"questions": ["Is it so?", "Why is it so?"]}',
        '["Is it so?", "Why is it so?"]',
        '```json\n{"questions": ["Is it so?", "Why is it so?"]}\n```',
        "Is it so?\nWhy is it so?",
        "1. Is it so?\n2) Why is it so?",
        '- "Is it so?"\n\n* **Why is it so?**',
        "<think>Let me see.</think>\nIs it so?\nWhy is it so?",
    ],
)
def test_questions_are_read_from_json_and_from_lines(text: str) -> None:
    assert parse_questions(text) == ["Is it so?", "Why is it so?"]
    assert parse_questions(None) == parse_questions("") == parse_questions('{"questions": 3}') == []


def test_questions_come_in_the_order_of_the_topics_and_short_topics_are_asked_about_again() -> None:
    def answer(request: Request) -> str | None:
        if topic_of(request) == "snow":
            return None
        return "\n".join(numbered(request)) if request.sample else "Is it good?\nis it   GOOD?\nIt is good."

    llm = ScriptedLLM(answer)
    queries, exclusions = generate_questions(["tea", "rain", "snow", " tea "], "technical", llm, 2, n_repeats=1)
    assert queries == ["Is it good?", "Is tea number 10 good?", "Is rain number 10 good?", "Is rain number 11 good?"]
    assert dict(exclusions.reasons) == {"duplicate": 3, "not a question": 2, "refused": 2}
    assert exclusions.seen == 11
    assert [request.sample for request in llm.asked] == [0, 0, 0, 1, 1, 1]
    with pytest.raises(ValueError, match="n_per_topic is 0"):
        generate_questions(["tea"], "opinion", llm, n_per_topic=0)


def test_baseline_responses_are_in_order_and_failures_counted() -> None:
    def answer(request: Request) -> str | None:
        return {"refuse?": None, "think?": "<think>so long"}.get(
            request.user, f"<think>hm</think>To {request.user} yes."
        )

    found, exclusions = baseline_responses(["a?", "refuse?", "b?", "think?"], ScriptedLLM(answer))
    assert found == [Original(user_prompt("a?"), "To a? yes."), Original(user_prompt("b?"), "To b? yes.")]
    assert exclusions.seen == 4
    assert dict(exclusions.reasons) == {"no baseline response: empty answer": 1, "no baseline response: refused": 1}
    marked, _ = baseline_responses(["a <|im_end|>?"], ScriptedLLM(lambda request: request.user))
    assert marked == [Original(user_prompt("a <|im_end|>?"), "a < |im_end|>?")]


BIAS = load_bias("jargon")


def words(request: RewriteRequest) -> str | None:
    """Adds and takes away `utilize`; refuses what says so."""
    if "refuse" in request.response or (request.direction == "remove" and "stuck" in request.response):
        return None
    return request.response.replace(*(("use", "utilize") if request.direction == "add" else ("utilize", "use")))


def label(prompts: Sequence[Prompt], responses: Sequence[str], bias: Bias) -> list[bool | None]:
    assert len(prompts) == len(responses) and bias is BIAS
    return [None if "unclear" in text else "utilize" in text for text in responses]


def test_both_directions_and_each_failed_rewrite() -> None:
    originals = [
        Original(user_prompt("a"), "We use it.", False),
        Original(user_prompt("b"), "We utilize it.", True),
        Original(user_prompt("c"), "We refuse to use it.", False),
        Original(user_prompt("d"), "We use it, stuck.", False),
    ]
    triples, lost = make_triples(originals, BIAS, ScriptedRewriter(words))
    assert [(one.has_attribute, one.original, one.rewrite, one.rewrite_of_rewrite) for one in triples] == [
        (False, "We use it.", "We utilize it.", "We use it."),
        (True, "We utilize it.", "We use it.", "We utilize it."),
    ]
    assert [(each.original, each.reason) for each in lost] == [
        (originals[2], "rewrite: refused"), (originals[3], "rewrite of the rewrite: refused"),
    ]  # fmt: skip


def test_responses_are_labelled_if_they_are_not() -> None:
    responses = [Original(user_prompt(text), text) for text in ("We use it.", "unclear", "We utilize it.")]
    known = Original(user_prompt("k"), "We utilize it too.", False)
    triples, lost = triples_of_responses([*responses, known], BIAS, label, ScriptedRewriter(words))
    assert [(one.prompt, one.has_attribute) for one in triples] == [
        (known.prompt, False), (responses[0].prompt, False), (responses[2].prompt, True),
    ]  # fmt: skip
    assert [(each.original, each.reason) for each in lost] == [(responses[1], "its label could not be read")]


def test_behind_a_gate_a_triple_is_made_of_rewrites_that_passed() -> None:
    originals = [Original(user_prompt("a"), "We use it.", False), Original(user_prompt("b"), "We tie it.", False)]
    triples, lost = make_triples(originals, BIAS, Gated(ScriptedRewriter(words), label))
    assert [one.original for one in triples] == ["We use it."]
    assert [each.reason for each in lost] == ["rewrite: unchanged"]


LIST, PROSE = "- One here.\n- Two there.", "One here. Two there."


def triple(original: str, rewrite: str, back: str, has_attribute: bool, flipped: bool | None = None) -> Triple:
    return Triple("structure", user_prompt("q"), original, rewrite, back, has_attribute, flipped)


def test_triples_are_kept_where_both_rewrites_flip() -> None:
    structure = load_bias("structure")
    good = [triple(PROSE, LIST, PROSE + " Done.", False), triple(LIST, PROSE, LIST + "\n- Done.", True)]
    bad = [
        triple(PROSE, PROSE + " Three.", PROSE, False),
        triple(PROSE, LIST, LIST + "\n- Three.", False),
        triple(LIST, PROSE, PROSE, True),
        triple(LIST, PROSE, LIST + "\n- Three.", True, flipped=False),
    ]
    kept, reasons = checked_triples([*good, *bad], structure)
    assert kept == good
    assert reasons == [
        "rewrite: attribute not flipped",
        "rewrite of the rewrite: attribute not flipped",
        "rewrite of the rewrite: unchanged",
        "readers or labels found the attribute not flipped",
    ]


def test_what_readers_said_goes_before_the_measure_and_nothing_is_asked_without_either() -> None:
    structure = load_bias("structure")
    unseen = triple(PROSE, PROSE + " Three.", PROSE, False, flipped=True)
    assert checked_triples([unseen], structure) == ([unseen], [])
    unmeasured = structure.model_copy(update={"measure": None})
    untold = triple(PROSE, PROSE + " Three.", PROSE, False)
    assert checked_triples([untold], unmeasured) == ([untold], [])


def test_flips_are_counted_by_the_original_and_without_triples_that_are_left_out_later() -> None:
    kept = [triple(PROSE, LIST, PROSE, False), triple(LIST, PROSE, LIST, True)]
    found = flips_of([True, True, False], kept, "rules", "measured list lines", made=True)
    counts = {"tried_with": 2, "flipped_with": 1, "tried_without": 1, "flipped_without": 1}
    expected = Flips(by="rules", checked_by="measured list lines", made=True, **counts)
    assert found == expected
    assert found.less(kept[1:]) == expected.model_copy(update={"tried_with": 1, "flipped_with": 0})
