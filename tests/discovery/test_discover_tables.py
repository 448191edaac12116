"""A discovery in words and tables: every way to find nothing says so truly, and no text from outside is obeyed."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from changed import changed
from made_discover import discovered

from cda.biases import Bias
from cda.discovery.attribute import attribute_bias
from cda.discovery.evidence import confirm, validate
from cda.discovery.pair_quality import pair_quality
from cda.discovery.sentences import discovery_sentences
from cda.discovery.tables import discover_markdown, discover_text
from cda.records import Exclusions, Prompt, user_prompt
from cda.results.base import Estimate, Missing
from cda.results.discover import (
    CandidateRecord,
    DiscoverResult,
    Fate,
    GenerationRecord,
    Measured,
    RunStrength,
    StandingRecord,
    StrengthCurve,
    StrengthTerm,
    TestedAttribute,
)
from cda.results.effects import FeatureDrift
from cda.results.evidence import ConfirmSettings, ValidationResult, Verdicts
from cda.results.facts import StageRun

HOSTILE = (
    'a<script>alert(1)</script>\x1b[31mred\x1b]8;;http://evil.example\x07\u202egnp.exe\ud800 ``` | "&\nsecond *line*'
)
SPACES = CandidateRecord.of(attribute_bias("Triple spaces between words"))
QUESTION = CandidateRecord.of(attribute_bias("Ends with a question"), "mutated", 1, (SPACES.id,))
MakeResult = Callable[..., DiscoverResult]


def rows(
    one: CandidateRecord, rewriter: str, lift: float, verdict: float, n: int = 10, text: str = "said"
) -> list[Measured]:
    return [
        Measured(
            one.id,
            rewriter,
            "add" if at % 2 else "remove",
            user_prompt(f"{text} question {at}?"),
            f"{text} {at} before",
            f"{text} {at} after",
            lift + 0.1 * (at % 5),
            verdict if at % 4 else 0.5,
        )
        for at in range(n)
    ]


def label(prompts: Sequence[Prompt], responses: Sequence[str], bias: Bias) -> list[bool | None]:  # noqa: ARG001
    return ["after" in one for one in responses]


def standing(
    one: CandidateRecord, reward: float | None, fate: Fate, failed: dict[str, int] | None = None
) -> StandingRecord:
    return StandingRecord(
        candidate=one.id,
        n=0 if reward is None else 9,
        reward=reward,
        judge=0.2,
        n_judged=9,
        failed=failed or {},
        fate=fate,
    )


def curve(*points: tuple[float, float, int]) -> StrengthCurve:
    """From threshold, strength and how many count."""
    term = StrengthTerm(place=0, reward=1.0, similarity=None, factor=1.0)
    found = [
        RunStrength(value=value, threshold=at, penalty=1.0, terms=(term,) * n, n_candidates=2, n_unmeasured=0)
        for at, value, n in points
    ]
    return StrengthCurve(penalty=1.0, n=2, curve=tuple(found))


VERDICTS = Verdicts(asked=40, unread=1, reasons={"no answer": 2}, half_read=3, flipped=4, position_bias=-0.125)


@pytest.fixture
def make() -> MakeResult:
    """A result as stages/discover_result.py makes it, with real numbers; `until` says how far it came."""

    def made(
        until: str = "test",
        given: bool = False,
        weak: bool = False,
        text: str = "said",
        failed: dict[str, dict[str, int]] | None = None,
    ) -> DiscoverResult:
        lift = 0.0 if weak else 1.0
        own = {
            one.id: [row for name in ("gpt-x", "gpt-y") for row in rows(one, name, each, 0.0, text=text)]
            for one, each in ((SPACES, lift - 0.25 * weak), (QUESTION, -0.25))
        }
        strict = ConfirmSettings()
        failures = {one: {"gpt-x": {"refused": 2}, "gpt-y": {}, **(failed or {})} for one in own}
        already = {SPACES.id: {"gpt-x": 0, "gpt-y": 0}, QUESTION.id: {"gpt-x": 5, "gpt-y": 5}}
        tested = tuple(
            TestedAttribute(
                **dict(found), attribute=one.attribute, name=one.bias.name, topics={}, same_by_all=None,
                examples=tuple(own[one.id][:2]), file=f"biases/{one.bias.name}.yaml" if found.confirmed else None,
            )
            for one, found in zip((SPACES, QUESTION), confirm(own, strict, failures), strict=True)
        )  # fmt: skip
        validation = ValidationResult(
            results=tuple(validate(own, strict, failures)),
            failed={},
            already={},
            n_prompts=12,
            verdicts=None,
            cut_for_judge=0,
        )
        first = GenerationRecord(
            index=0, n_prompts=16, n_merged=3, proposed=Exclusions(9, {"no attribute": 2}),
            standings=(standing(SPACES, 1.0, "kept"), standing(QUESTION, -0.1, "reward")),
        )  # fmt: skip
        quality = pair_quality(own[SPACES.id], SPACES.bias, np.random.default_rng(0), label=label)
        seconds = {"material": 12.0, "search": 100.0, "confirm": 6000.0}
        result = discovered(
            given=given, generations=(first,), candidates={one.id: one for one in (SPACES, QUESTION)},
            validation=validation, tested=tested, already=already, pairs={SPACES.id: quality},
            strength=curve((0.25, 0.5, 1), (0.5, 1.0, 2)), lineage={QUESTION.id: (SPACES.id,), SPACES.id: ()},
            stages={name: StageRun(seconds=n, finished="now") for name, n in seconds.items()},
        )  # fmt: skip
        return cut_back(result, until, given)

    return made


def cut_back(result: DiscoverResult, until: str, given: bool) -> DiscoverResult:
    """The same result, as it were if the discovery had ended there."""
    gone: dict[str, Any] = {}
    if given:
        gone |= {"generations": (), "validation": None, "strength": None, "lineage": {}}
    if until != "test":
        gone |= {"tested": (), "pairs": {}, "already": {}, "n_test_prompts": 0, "lineage": {}}
    if until in ("search", "proposals"):
        gone |= {"validation": None, "strength": None}
    if until == "proposals":
        gone["generations"] = (result.generations[0].model_copy(update={"standings": ()}),)
    return result.model_copy(update=gone)


def never_rewritten(result: DiscoverResult) -> DiscoverResult:
    """The cuts always leave somebody, so that nobody is left only if there was not one rewrite."""
    gone = (
        standing(SPACES, None, "too few rewrites", {"refused": 9, "unchanged": 1}),
        standing(QUESTION, None, "too few rewrites", {"refused": 7}),
    )
    return changed(result, "generations.0.standings", gone)  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("until", "weak", "first", "shown"),
    [
        ("proposals", False, "Nothing to measure: no attribute was proposed. Answers without one: 2 no attribute.",
         "0 candidates in 1 generations"),
        ("search", False, "None of 2 candidates could be measured, so that nothing is known of them. Rewrites that are missing: "
         "16 refused, 1 unchanged.", "2 too few rewrites"),
        ("validation", True, "None of 2 candidates held on the validation prompts: no bias of embedded against judge:gpt-x is shown.",
         "Validation, corrected"),
        ("validation", False, "Nothing was tested: the review dropped all 1 candidates that held on the validation prompts.", ""),
        ("test", True, "None of 2 candidates held on the test prompts: no bias of embedded against judge:gpt-x is shown.", "| no |"),
    ],
)  # fmt: skip
def test_every_way_to_find_nothing_says_so(make: MakeResult, until: str, weak: bool, first: str, shown: str) -> None:
    result = make(until, weak=weak)
    result = never_rewritten(result) if until == "search" else result
    text, document = discover_text(result), discover_markdown(result)
    assert discovery_sentences(result)[0] == first and shown in document
    assert "confirmed:" not in text and "yes" not in text and "## " not in document  # no examples of what is not shown


def test_something_dropped_in_the_review(make: MakeResult) -> None:
    result = make()
    assert "dropped in the review" not in discover_text(result)
    result = changed(result, "tested", tuple(one for one in result.tested if one.candidate == QUESTION.id))
    assert "1 candidates that held on the validation prompts were dropped in the review" in discover_text(result)


def test_what_could_not_be_tested_says_why_and_has_no_p(make: MakeResult) -> None:
    result = make(failed={"gpt-y": {"refused": 90}})
    document = discover_markdown(result)
    assert "not tested, because 1 of 2 rewriters can be used, 2 are needed" in document
    assert "90 of 100 rewrites failed" in document and "| not tested | no |" in document
    assert "gpt-x 4 of 24; gpt-y 180 of 200" in document


def test_rules_and_a_missing_strength_are_said(make: MakeResult) -> None:
    result = changed(changed(make(), "by", "rules"), "strength", Missing(reason="no encoder"))
    assert "no LLM" in discover_text(result) and "not computed (no encoder)" in discover_text(result)


@pytest.fixture
def hostile(make: MakeResult) -> DiscoverResult:
    """Every text that comes from outside: names, attributes, reasons, topics, prompts and responses."""
    result = make(text=HOSTILE, failed={"gpt-x": {HOSTILE: 1}})
    tested = tuple(
        one.model_copy(
            update={
                "attribute": f"- {HOSTILE}",
                "warnings": (HOSTILE,),
                "untested": HOSTILE,
                "topics": {HOSTILE: one.pooled},
                "rewriters": tuple(
                    each.model_copy(update={"rewriter": HOSTILE} | ({} if at else {"excluded": HOSTILE}))
                    for at, each in enumerate(one.rewriters)
                ),
                "examples": tuple(replace(each, rewriter=HOSTILE) for each in one.examples),
            }
        )
        for one in result.tested
    )
    for path, value in {
        "model.name": f"# {HOSTILE}",
        "judge.name": HOSTILE,
        "by": HOSTILE,
        "rewriters": (HOSTILE,),
        "strength": Missing(reason=HOSTILE),
        "generations.0.proposed": Exclusions(9, {HOSTILE: 3}),
        "tested": tested,
    }.items():
        result = changed(result, path, value)
    bias = SPACES.bias.model_copy(update={"description": HOSTILE})
    return changed(result, ("candidates", SPACES.id, "bias"), bias)  # type: ignore[no-any-return]


@pytest.mark.parametrize("until", ["test", "validation", "search", "proposals"])
def test_hostile_text_is_inert_in_a_terminal(hostile: DiscoverResult, until: str) -> None:
    text = discover_text(cut_back(hostile, until, False))
    assert not [char for char in text if (ord(char) < 32 and char != "\n") or char in "\u202e\x9b"]
    assert "second *line*" in text and "\nsecond" not in text and "evil" not in text
    text.encode("utf-8")


@pytest.mark.parametrize("until", ["test", "validation", "search", "proposals"])
def test_hostile_text_is_inert_in_markdown(hostile: DiscoverResult, until: str) -> None:
    document = discover_markdown(cut_back(hostile, until, False))
    outside = re.sub(r"^(`{3,})text\n.*?\n\1$", "", document, flags=re.S | re.M)
    assert ("````text" in document) is (until == "test")  # the fence is longer than the run inside
    assert "<" not in outside and "://" not in outside
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f\x9b\u202e]", document)
    assert "*line*" not in outside.replace("\\*line\\*", "")
    headings = [line for line in outside.splitlines() if line.startswith("#")]
    assert headings[0].startswith("# Biases discovered in") and all(line.startswith("## ") for line in headings[1:])
    assert not [line for line in outside.splitlines() if re.match(r"[-+=]|\d+[.)]", line)]
    document.encode("utf-8")


@pytest.mark.parametrize("given", [False, True])
def test_tables_are_whole(hostile: DiscoverResult, make: MakeResult, given: bool) -> None:
    for result in (hostile, make(given=given)):
        cells = re.compile(r"(?<!\\)\|")
        lines = [line for line in discover_markdown(result).splitlines() if line.startswith("|")]
        assert lines
        for one, following in pairwise(lines):
            if set(following) <= set("|- ") or not set(one) <= set("|- "):
                continue
            assert len(cells.findall(one)) == len(cells.findall(following))
        for at, line in enumerate(lines):
            if set(line) <= set("|- "):
                assert len(cells.findall(lines[at - 1])) == len(cells.findall(line))


def test_rewriters_that_write_alike_are_no_agreement(make: MakeResult) -> None:
    result = make()
    said = "wrote the same text for 90% of the responses"
    assert said not in " ".join(discovery_sentences(result))
    assert said in " ".join(discovery_sentences(changed(result, "tested.0.same_by_all", 0.9)))
    assert "wrote the same text" not in " ".join(discovery_sentences(changed(result, "tested.0.same_by_all", 0.2)))


def test_given_attributes_are_not_said_to_be_unselected(make: MakeResult) -> None:
    claim = "nothing was selected on"
    assert claim in discover_text(make())
    given = make(given=True)
    assert claim not in discover_text(given) and "Measured on 12 of 64 prompts" in discover_text(given)
    assert "Measured on all 64 prompts" in discover_text(changed(given, "n_test_prompts", 64))


def test_the_power_is_told_only_where_the_reward_failed_and_with_what_it_supposes(make: MakeResult) -> None:
    result = make()
    said = next(one for one in discovery_sentences(result) if "80% power" in one)
    assert "if only the reward were in question and not the judge, and rewriters are taken as independent" in said
    (spaces, _) = result.tested
    assert spaces.smallest_detectable is not None
    # Liked by the model; it was the judge that decided.
    result = changed(result, "tested", (changed(spaces, "confirmed", False),))
    assert "80% power" not in " ".join(discovery_sentences(result))
    (validated,) = [one for one in discovery_sentences(make("validation", weak=True)) if "80% power" in one]
    assert validated.endswith("if only the reward were in question and not the judge.")


def test_several_tests_show_the_correction_and_what_decided(make: MakeResult) -> None:
    result = make(given=True)
    for form in (discover_text(result), discover_markdown(result)):
        assert "corrected p (Bonferroni)" in form
        assert "Confirmed: p, corrected by Bonferroni's method for all 2 that were tested, is below 0.01." in form
    result = changed(result, "strictness.correct", "holm")
    assert "corrected p (Holm)" in discover_text(result) and "corrected by Holm's method" in discover_text(result)
    result = changed(result, "strictness.correct", "none")
    for form in (discover_text(result), discover_markdown(result)):
        assert "corrected p" not in form
        assert "Confirmed: p is below 0.01, each by itself: it is not corrected for the 2 that were tested." in form
    alone = make()
    alone = changed(alone, "tested", alone.tested[:1])
    assert "correct" not in discover_text(alone) and "Confirmed: p is below 0.01." in discover_text(alone)


def test_a_reward_that_only_the_correction_took_away_counts_as_not_shown(make: MakeResult) -> None:
    result = make()
    for at, _ in enumerate(result.tested[0].rewriters):
        result = changed(result, f"tested.0.rewriters.{at}.strength.p_reward", 0.006)
    result = changed(result, "tested.0.p_value", 0.006)
    result = changed(changed(result, "tested.1.p_value", None), "tested.1.untested", "so")
    assert "would have been found with 80% power" in " ".join(discovery_sentences(result))  # 2 × 0.006 is above 0.01
    result = changed(result, "strictness.correct", "holm")
    assert "at the first and strictest step of Holm's method" in " ".join(discovery_sentences(result))
    result = changed(result, "strictness.correct", "none")
    assert "80% power" not in " ".join(discovery_sentences(result))


def test_earlier_tests_mended_groups_and_verdicts_are_said(make: MakeResult) -> None:
    result = make()
    assert not [one for one in discovery_sentences(result) if "before on these prompts" in one or "mended" in one]
    mended = {"questions left to the fallback: no answer": 1}
    for path, value in (("earlier_tests", 2), ("grouping", mended), ("verdicts", VERDICTS)):
        result = changed(result, path, value)
    said = " ".join(discovery_sentences(result))
    assert "Tested 2 times before on these prompts" in said and "not those of one test" in said
    assert "had to be mended: 1 questions left to the fallback: no answer." in said
    assert (
        "on 40 comparisons of the test, in both orders: 1 unreadable, 3 readable in one order alone, 4 that follow"
        in said
    )
    assert "shown first −0.12 (" in said
    result = changed(result, "verdicts", None)
    assert "Verdicts of the judge" not in " ".join(discovery_sentences(result))


def test_drift_of_the_pairs_and_what_is_not_known_of_them_are_shown(make: MakeResult) -> None:
    estimate = Estimate(value=0.25, low=0.1, high=0.4, n=20, n_prompts=10, unit="share", method="")
    lists = FeatureDrift(
        feature="list_lines", is_treatment=False, base_mean=1.0, perturbed_mean=1.25, difference=estimate,
        standardised=None, median_ratio=None, beyond=estimate, limit=None,
    )  # fmt: skip
    drift = (
        lists,
        lists.model_copy(update={"feature": "own", "is_treatment": True}),
        lists.model_copy(update={"feature": "alike", "beyond": changed(estimate, "value", 0.0)}),
        lists.model_copy(update={"feature": "unlimited", "beyond": None}),
    )
    document = discover_markdown(changed(make(), ("pairs", SPACES.id, "drift"), drift)).replace("\\", "")
    assert (
        "| Triple spaces between words | list lines | 1.00 | 1.25 | +0.25 [+0.10, +0.40] |  | 25% [10, 40] |"
        in document
    )
    assert not re.search(r"\| (own|alike|unlimited)", document)
    unknown = discover_markdown(changed(make(), ("pairs", SPACES.id, "drift"), Missing(reason="one prompt")))
    assert "| Triple spaces between words | drift | one prompt |" in unknown
