"""Which texts that came back unchanged were as they should become, and which rewriter is lazy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np
import pytest

from cda.discovery.attribute import attribute_bias
from cda.discovery.held_out import failed_or_already, rewrite_all
from cda.discovery.measure import ALREADY, UNCHANGED, CandidateRewrites
from cda.discovery.records import Candidate
from cda.records import Rewrite, RewriteRequest, user_prompt
from cda.rewriting.rewriter import Rewriter

LAZY = "unchanged, where the other rewriters changed more"
FIRST, SECOND, ALL = range(32), range(32, 64), range(64)


def response(at: int) -> RewriteRequest:
    return RewriteRequest(user_prompt(f"question {at}"), f"answer {at}", "add")


def rewritten(unchanged: Iterable[int] = (), changed: Iterable[int] = (), **reasons: int) -> CandidateRewrites:
    """Which responses came back as they were, which as another text, and what else is missing."""
    back = Counter(map(response, unchanged))
    missing = {UNCHANGED: back.total(), **reasons}
    return CandidateRewrites(
        [], [why for why, n in missing.items() for _ in range(n)], back, set(map(response, changed))
    )


def test_what_all_hand_back_is_so_already() -> None:
    failed, already = failed_or_already({"ada": rewritten(range(7), refused=1), "bob": rewritten(range(7))})
    assert (failed, already) == ({"ada": {"refused": 1}, "bob": {}}, {"ada": 7, "bob": 7})


def test_as_many_others_handed_back_excuse_nothing() -> None:
    """Two that each leave the half alone that the other changes: equal counts, and not one response in common."""
    failed, already = failed_or_already({"a": rewritten(FIRST, SECOND), "b": rewritten(SECOND, FIRST)})
    assert failed == {"a": {LAZY: 32}, "b": {LAZY: 32}} and already == {"a": 0, "b": 0}


def test_who_hands_back_more_than_the_others_fails() -> None:
    bob = rewritten(range(40), range(40, 64))
    found = {"ada": rewritten(range(2), range(2, 64)), "bob": bob, "cy": rewritten(range(4), range(4, 64))}
    failed, already = failed_or_already(found)
    # Half of the others are enough: of responses 2 and 3, ada is the only one to have changed them.
    assert failed == {"ada": {}, "bob": {LAZY: 36}, "cy": {}}
    assert already == {"ada": 2, "bob": 4, "cy": 4}


@pytest.mark.parametrize(
    ("others", "believed"),
    [
        ([rewritten([0]), rewritten((), [0])], True),
        ([rewritten([0]), rewritten((), [0]), rewritten((), [0])], False),
        ([rewritten([0]), rewritten(refused=1), rewritten(refused=1)], True),
        ([rewritten(refused=1), rewritten(refused=1)], False),
    ],
    ids=["half", "a third", "those that answered", "nobody answered"],
)
def test_half_of_the_others_that_answered_have_to_agree(others: list[CandidateRewrites], believed: bool) -> None:
    failed, already = failed_or_already({"me": rewritten([0])} | dict(zip("xyz", others, strict=False)))
    assert (failed["me"], already["me"]) == (({}, 1) if believed else ({LAZY: 1}, 0))


def test_a_response_drawn_twice_counts_twice() -> None:
    failed, already = failed_or_already({"a": rewritten([0, 0, 1, 1]), "b": rewritten([0, 0], [1, 1])})
    assert failed == {"a": {LAZY: 2}, "b": {}} and already == {"a": 2, "b": 2}


def test_a_rewriter_alone_is_believed_and_what_was_measured_to_be_so_is_nobodys_failure() -> None:
    found = {"rules": rewritten(range(3), **{ALREADY: 9})}
    assert failed_or_already(found) == ({"rules": {}}, {"rules": 12})


class Half:
    """Changes the responses of one half, and hands the others back."""

    def __init__(self, name: str, edits: range) -> None:
        self.name, self.edits = name, edits

    def rewrite(self, requests: object, bias: object) -> list[Rewrite]:  # noqa: ARG002
        return [
            Rewrite(f"{one.response}!" if int(one.response.split()[-1]) in self.edits else one.response)
            for one in requests  # type: ignore[attr-defined]
        ]


def test_a_confirmation_counts_them_response_by_response() -> None:
    candidate = Candidate(attribute_bias("Ends with an exclamation mark"))
    rewriters: list[Rewriter] = [Half("a", SECOND), Half("b", FIRST)]
    originals = [(user_prompt(f"question {at}"), f"answer {at}") for at in ALL]
    found = rewrite_all(
        [candidate], originals, rewriters, lambda texts: np.zeros(len(texts)), lambda asked: np.zeros(len(asked)), ("add",)
    )  # fmt: skip
    assert found.failed[candidate.id] == {"a": {LAZY: 32}, "b": {LAZY: 32}}
    assert found.already[candidate.id] == {"a": 0, "b": 0} and found.verdicts is None
    assert [row.rewriter for row in found.rows[candidate.id]] == ["a"] * 32 + ["b"] * 32
    assert all(row.preference == 0.0 for row in found.rows[candidate.id])
