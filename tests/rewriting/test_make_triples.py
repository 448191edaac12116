"""RATE triples: both directions, from labelled responses and from queries alone, every loss counted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from cda.biases import Bias, load_bias
from cda.llm.protocol import Completion, Request
from cda.records import Prompt, Rewrite, RewriteRequest, Triple, user_prompt
from cda.results.rate import Flips
from cda.rewriting.gate import Gated
from cda.rewriting.questions import Answered
from cda.rewriting.triples import (
    Original,
    checked_triples,
    flips_of,
    make_triples,
    triples_of_queries,
    triples_of_responses,
)

BIAS = load_bias("jargon")


class Words:
    """Adds and takes away `utilize`; refuses what says so."""

    name = "words"

    def rewrite(self, requests: Sequence[RewriteRequest], bias: Bias) -> list[Rewrite]:  # noqa: ARG002
        return [self._one(request) for request in requests]

    def _one(self, request: RewriteRequest) -> Rewrite:
        if "refuse" in request.response or (request.direction == "remove" and "stuck" in request.response):
            return Rewrite(None, "refused")
        words = ("use", "utilize") if request.direction == "add" else ("utilize", "use")
        return Rewrite(request.response.replace(*words))


class Assistant:
    """Gives each query the response named in it."""

    name = "assistant"

    def answers(
        self,
        requests: Iterable[Request],
        label: str,  # noqa: ARG002
        total: int | None = None,  # noqa: ARG002
    ) -> Iterator[tuple[int, Completion]]:
        for position, request in enumerate(requests):
            yield (
                position,
                Completion(None, "refused") if "silent" in request.user else Completion(f"We {request.user}."),
            )


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
    triples, exclusions = make_triples(originals, BIAS, Words())
    assert [(one.has_attribute, one.original, one.rewrite, one.rewrite_of_rewrite) for one in triples] == [
        (False, "We use it.", "We utilize it.", "We use it."),
        (True, "We utilize it.", "We use it.", "We utilize it."),
    ]
    assert dict(exclusions.reasons) == {"rewrite of the rewrite: refused": 1, "rewrite: refused": 1}


def test_responses_are_labelled_first() -> None:
    responses = [Answered(user_prompt(text), text) for text in ("We use it.", "We utilize it.", "unclear")]
    triples, exclusions = triples_of_responses(responses, BIAS, label, Words())
    assert [one.has_attribute for one in triples] == [False, True]
    assert [one.prompt for one in triples] == [responses[0].prompt, responses[1].prompt]
    assert (exclusions.seen, dict(exclusions.reasons)) == (3, {"its label could not be read": 1})


def test_queries_are_answered_labelled_and_rewritten() -> None:
    queries = ["use it", "utilize it", "stay silent", "unclear", "refuse"]
    triples, exclusions = triples_of_queries(queries, BIAS, Assistant(), label, Words())
    assert [(one.original, one.rewrite, one.has_attribute) for one in triples] == [
        ("We use it.", "We utilize it.", False),
        ("We utilize it.", "We use it.", True),
    ]
    assert exclusions.seen == 5 == len(triples) + exclusions.dropped
    assert dict(exclusions.reasons) == {
        "no baseline response: refused": 1,
        "its label could not be read": 1,
        "rewrite: refused": 1,
    }


def test_behind_a_gate_a_triple_is_made_of_rewrites_that_passed() -> None:
    originals = [Original(user_prompt("a"), "We use it.", False), Original(user_prompt("b"), "We tie it.", False)]
    triples, exclusions = make_triples(originals, BIAS, Gated(Words(), label))
    assert [one.original for one in triples] == ["We use it."]
    assert dict(exclusions.reasons) == {"rewrite: unchanged": 1}


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


def test_flips_are_counted_by_the_original() -> None:
    kept = [triple(PROSE, LIST, PROSE, False), triple(LIST, PROSE, LIST, True)]
    found = flips_of([True, True, False], kept, "rules", "measured list lines")
    assert found == Flips(
        by="rules", checked_by="measured list lines", tried_with=2, flipped_with=1, tried_without=1, flipped_without=1
    )


def test_a_gate_s_word_is_kept_in_the_triple() -> None:
    originals = [Original(user_prompt("a"), "We use it.", False)]
    assert [one.flipped for one in make_triples(originals, BIAS, Words())[0]] == [None]
    assert [one.flipped for one in make_triples(originals, BIAS, Gated(Words(), label))[0]] == [True]


def test_a_gate_that_nothing_checks_says_nothing_of_the_flip() -> None:
    unmeasured = BIAS.model_copy(update={"measure": None})
    originals = [Original(user_prompt("a"), "We use it.", False)]
    assert [one.flipped for one in make_triples(originals, unmeasured, Gated(Words()))[0]] == [None]


def test_flips_without_triples_that_are_left_out_later() -> None:
    kept = [triple(PROSE, LIST, PROSE, False), triple(LIST, PROSE, LIST, True)]
    found = flips_of([True, True, False], kept, "rules", "measured list lines", made=True)
    assert found.less(kept[1:]) == Flips(
        by="rules",
        checked_by="measured list lines",
        tried_with=1,
        flipped_with=0,
        tried_without=1,
        flipped_without=1,
        made=True,
    )
