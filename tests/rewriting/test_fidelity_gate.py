"""The gate: failures are asked for again and counted, and no path gives the unmodified text back."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cda.biases import Bias
from cda.biases import load_bias as load
from cda.records import Prompt, Rewrite, RewriteRequest, user_prompt
from cda.rewriting.fidelity import same_text
from cda.rewriting.gate import Gated

load_bias = cache(load)
TEXT = "Use a bowline when the loop must not slip. A figure eight holds as well and is easier to check."
LISTED = "- Use a bowline when the loop must not slip.\n- A figure eight holds as well and is easier to check."


@dataclass
class Scripted:
    """Writes the text of its sample; the last one ever after."""

    written: Sequence[str | None]
    name: str = "scripted"
    sample: int = 0
    calls: list[tuple[int, int]] = field(default_factory=list)

    def rewrite(self, requests: Sequence[RewriteRequest], bias: Bias) -> list[Rewrite]:  # noqa: ARG002
        self.calls.append((self.sample, len(requests)))
        text = self.written[min(self.sample, len(self.written) - 1)]
        return [Rewrite(None, "refused") if text is None else Rewrite(text) for _ in requests]

    def resampled(self, sample: int) -> Scripted:
        return Scripted(self.written, sample=sample, calls=self.calls)


@dataclass
class OneAnswer:
    """A rewriter that has no other answer to give."""

    text: str
    name: str = "rules"
    n_calls: int = 0

    def rewrite(self, requests: Sequence[RewriteRequest], bias: Bias) -> list[Rewrite]:  # noqa: ARG002
        self.n_calls += 1
        return [Rewrite(self.text)] * len(requests)


def requests(n: int = 1, text: str = TEXT) -> list[RewriteRequest]:
    return [RewriteRequest(user_prompt(f"q{number}"), text, "add") for number in range(n)]


def test_a_good_rewrite_passes_at_once() -> None:
    rewriter = Scripted([LISTED])
    gated = Gated(rewriter)
    assert gated.rewrite(requests(3), load_bias("structure")) == [Rewrite(LISTED)] * 3
    assert rewriter.calls == [(0, 3)]
    assert gated.name == "scripted"
    report = gated.report(load_bias("structure"))
    assert (report.asked, report.accepted, report.failed, report.rejected_answers) == (3, 3, 0, {})


def test_failures_are_asked_for_again_and_counted() -> None:
    rewriter = Scripted([TEXT, None, LISTED])
    gated = Gated(rewriter, n_repeats=2)
    assert gated.rewrite(requests(2), load_bias("structure")) == [Rewrite(LISTED)] * 2
    assert rewriter.calls == [(0, 2), (1, 2), (2, 2)]
    report = gated.report(load_bias("structure"))
    assert report.rejected_answers == {"refused": 2, "unchanged": 2}
    assert (report.asked, report.accepted, report.failed) == (6, 2, 0)


def test_what_fails_every_time_keeps_its_last_reason() -> None:
    rewriter = Scripted([None, "I'm sorry, I can't help with that."])
    gated = Gated(rewriter, n_repeats=1)
    assert gated.rewrite(requests(), load_bias("structure")) == [Rewrite(None, "refusal")]
    assert rewriter.calls == [(0, 1), (1, 1)]
    assert gated.report(load_bias("structure")).failed == 1
    assert Gated(Scripted([None]), n_repeats=0).rewrite(requests(), load_bias("jargon")) == [Rewrite(None, "refused")]


def test_a_rewriter_with_one_answer_is_asked_once() -> None:
    rewriter = OneAnswer(TEXT)
    assert Gated(rewriter).rewrite(requests(), load_bias("structure")) == [Rewrite(None, "unchanged")]
    assert rewriter.n_calls == 1


def test_only_what_passed_everything_else_is_labelled() -> None:
    labelled: list[str] = []

    def labeller(prompts: Sequence[Prompt], responses: Sequence[str], bias: Bias) -> list[bool | None]:
        assert len(prompts) == len(responses) and bias.name == "jargon"
        labelled.extend(responses)
        return [None if "unclear" in text else "utilize" in text for text in responses]

    original = "We use a bowline when the loop must not slip, and a figure eight elsewhere."
    texts = {
        "good": original.replace("use", "utilize"),
        "same": original,
        "plain": original.replace("use", "tie"),
        "unclear": original.replace("use", "unclear"),
    }

    class ByPrompt:
        name = "by prompt"

        def rewrite(self, requests: Sequence[RewriteRequest], bias: Bias) -> list[Rewrite]:  # noqa: ARG002
            return [Rewrite(texts[request.prompt[0].content]) for request in requests]

    asked = [RewriteRequest(user_prompt(name), original, "add") for name in texts]
    found = Gated(ByPrompt(), labeller).rewrite(asked, load_bias("jargon"))
    assert [one.text for one in found] == [texts["good"], None, None, None]
    assert [one.reason for one in found] == [None, "unchanged", "attribute not flipped", "its label could not be read"]
    assert texts["same"] not in labelled and len(labelled) == 3


def test_a_measured_bias_is_never_labelled() -> None:
    def labeller(*_: object) -> list[bool | None]:
        raise AssertionError("length is measured")

    longer = f"{TEXT} To say it again, {TEXT} And once more, {TEXT}"
    assert Gated(Scripted([longer]), labeller).rewrite(requests(), load_bias("length")) == [Rewrite(longer)]


def test_what_accepted_rewrites_drifted_in_is_counted() -> None:
    gated = Gated(Scripted([LISTED + " Well done!!!"]), others=[load_bias("sycophancy")])
    assert gated.rewrite(requests(), load_bias("structure"))[0].text is not None
    assert gated.report(load_bias("structure")).found_in_accepted == {"drift in exclamations": 1}
    assert gated.report(load_bias("jargon")).asked == 0


@settings(deadline=None, derandomize=True, max_examples=150)
@given(
    written=st.lists(
        st.sampled_from(
            [TEXT, f"\n{TEXT} ", TEXT.replace(". ", ".\n\n"), " ".join(TEXT), None, LISTED, "Other words."]
        ),
        min_size=1,
        max_size=4,
    ),
    n_repeats=st.integers(0, 3),
    bias=st.sampled_from(["structure", "jargon", "sycophancy", "vagueness", "length"]),
    label=st.sampled_from([True, False, None, "measure"]),
    direction=st.sampled_from(["add", "remove"]),
)
def test_no_path_gives_the_unmodified_text_back(
    written: list[str | None], n_repeats: int, bias: str, label: object, direction: str
) -> None:
    labeller = None if label == "measure" else (lambda _, responses, __: [label] * len(responses))
    gated = Gated(Scripted(written), labeller, n_repeats)  # type: ignore[arg-type]
    asked = [RewriteRequest(user_prompt("q"), TEXT, direction)]  # type: ignore[arg-type]
    (found,) = gated.rewrite(asked, load_bias(bias))
    assert (found.text is None) != (found.reason is None)
    if found.text is not None:
        assert not same_text(found.text, TEXT)


@pytest.mark.parametrize(("first", "second"), [*itertools.permutations([TEXT, LISTED, None], 2)])
def test_requests_keep_their_order(first: str | None, second: str | None) -> None:
    class Two:
        name = "two"

        def rewrite(self, requests: Sequence[RewriteRequest], bias: Bias) -> list[Rewrite]:  # noqa: ARG002
            texts = {"q0": first, "q1": second}
            found = [texts[request.prompt[0].content] for request in requests]
            return [Rewrite(None, "refused") if text is None else Rewrite(text) for text in found]

    found = Gated(Two()).rewrite(requests(2), load_bias("structure"))
    assert [one.text for one in found] == [text if text == LISTED else None for text in (first, second)]
