"""A discovery in words, tables and a page: every way to find nothing says so truly, and no text from outside is obeyed."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from changed import changed
from made_discover import discovered
from page_checks import checked, figures, read_markdown, section_ids, words

from cda.biases import Bias, load_bias
from cda.discovery.attribute import attribute_bias
from cda.discovery.decisions import NO_OBJECTION
from cda.discovery.discovery_page import discovery_document, excluded_table
from cda.discovery.discovery_result import _with_files
from cda.discovery.held_out import confirm, pair_quality, validate
from cda.records import Exclusions, Prompt, user_prompt
from cda.results.base import Missing
from cda.results.discover import (
    CandidateRecord,
    DiscoverResult,
    Fate,
    GenerationRecord,
    MadeFrom,
    Measured,
    StandingRecord,
    TestedAttribute,
    WritingCounts,
)
from cda.results.evidence import ConfirmSettings, ValidationResult, Verdicts
from cda.results.facts import StageRun

HOSTILE = (
    'a<script>alert(1)</script>\x1b[31mred\x1b]8;;http://evil.example\x07\u202egnp.exe\ud800 ``` | "&\nsecond *line*'
)
SPACES = CandidateRecord.of(attribute_bias("Triple spaces between words"))
QUESTION = CandidateRecord.of(attribute_bias("Ends with a question"), "mutated", 1, (SPACES.id,))
MakeResult = Callable[..., DiscoverResult]


def rows(one: CandidateRecord, rewriter: str, lift: float, text: str) -> list[Measured]:
    return [
        Measured(one.id, rewriter, "add" if at % 2 else "remove", user_prompt(f"{text} question {at}?"), f"{text} {at} before",
                 f"{text} {at} after", lift + 0.1 * (at % 5), 0.0 if at % 4 else 0.5)
        for at in range(10)
    ]  # fmt: skip


def label(prompts: Sequence[Prompt], responses: Sequence[str], bias: Bias) -> list[bool | None]:  # noqa: ARG001
    return ["after" in one for one in responses]


def standing(
    one: CandidateRecord, reward: float | None, fate: Fate, failed: dict[str, int] | None = None
) -> StandingRecord:
    n = 0 if reward is None else 9
    return StandingRecord(candidate=one.id, n=n, reward=reward, judge=0.2, n_judged=9, failed=failed or {}, fate=fate)


VERDICTS = Verdicts(asked=40, unread=1, reasons={"no answer": 2}, half_read=3, flipped=4, position_bias=-0.125)


@pytest.fixture
def make() -> MakeResult:
    """A result as the last stage makes it, with real numbers; `until` says how far it came."""

    def made(until: str = "test", weak: bool = False, text: str = "said", failed: Any = None) -> DiscoverResult:
        own = {
            one.id: [row for name in ("gpt-x", "gpt-y") for row in rows(one, name, lift, text)]
            for one, lift in ((SPACES, -0.25 if weak else 1.0), (QUESTION, -0.25))
        }
        strict = ConfirmSettings()
        failures = {one: {"gpt-x": {"refused": 2}, "gpt-y": {}, **(failed or {})} for one in own}
        already = {SPACES.id: {"gpt-x": 0, "gpt-y": 0}, QUESTION.id: {"gpt-x": 5, "gpt-y": 5}}
        tested = tuple(
            TestedAttribute(
                **dict(found), attribute=one.attribute, name=one.bias.name,
                examples=tuple(own[one.id][:2]), file=f"biases/{one.bias.name}.yaml" if found.confirmed else None,
            )
            for one, found in zip((SPACES, QUESTION), confirm(own, strict, failures), strict=True)
        )  # fmt: skip
        held = tuple(validate(own, strict, failures))
        validation = ValidationResult(results=held, failed={}, already={}, n_prompts=12, verdicts=None, cut_for_judge=0)
        first = GenerationRecord(
            index=0, n_prompts=16, n_merged=3, proposed=Exclusions(9, {"no attribute": 2}),
            standings=(standing(SPACES, 1.0, "kept"), standing(QUESTION, -0.1, "reward")),
        )  # fmt: skip
        quality = pair_quality(own[SPACES.id], SPACES.bias, label=label)
        seconds = {"material": 12.0, "search": 100.0, "confirm": 6000.0}
        result = discovered(
            generations=(first,), candidates={one.id: one for one in (SPACES, QUESTION)},
            validation=validation, tested=tested, already=already, pairs={SPACES.id: quality},
            strength={"0.25": 0.5, "0.5": 1.0}, lineage={QUESTION.id: (SPACES.id,), SPACES.id: ()},
            stages={name: StageRun(seconds=n, finished="now") for name, n in seconds.items()},
        )  # fmt: skip
        return cut_back(result, until)

    return made


def cut_back(result: DiscoverResult, until: str) -> DiscoverResult:
    """The same result, as it were if the discovery had ended there."""
    gone: dict[str, Any] = {}
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


def text_of(result: DiscoverResult) -> str:
    return read_markdown(discovery_document(result).markdown())


@pytest.mark.parametrize(("until", "weak", "first", "shown", "sections"), [
    ("proposals", False, "Nothing to measure: no attribute was proposed. Answers without one: 2 no attribute.",
     "0 candidates in 1 generations", []),
    ("search", False, "None of 2 candidates could be measured, so that nothing is known of them. Rewrites that are missing: "
     "16 refused, 1 unchanged.", "let go: too few rewrites | 2", []),
    ("validation", True, "None of 2 candidates held on the validation prompts: no bias of the embedded model against the judge gpt-x is shown.",
     "Validation, corrected", ["validation"]),
    ("validation", False, "Nothing was tested: the review dropped all 1 candidates that held on the validation prompts.", "",
     ["validation"]),
    ("test", True, "None of 2 candidates held on the test prompts: no bias of the embedded model against the judge gpt-x is shown.",
     "| not shown |", ["tested", "rewriters", "validation"]),
])  # fmt: skip
def test_every_way_to_find_nothing_says_so(
    make: MakeResult, until: str, weak: bool, first: str, shown: str, sections: list[str]
) -> None:
    result = make(until, weak=weak)
    document = discovery_document(never_rewritten(result) if until == "search" else result)
    text, markdown, page = document.text(), document.markdown(), document.page()
    assert first in " ".join(text.split()) and shown in markdown
    assert "### " not in markdown and 'class="bad"' not in page.split("<nav")[0]  # no examples of what is not shown
    found = [one for one in section_ids(checked(page)) if one != "limits"]
    assert found == [*sections, "excluded", "effort", "made", "meaning"]
    assert ("tested" in figures(checked(page))) is (until == "test")
    for plot in document.plots:  # its caption stands without the table
        assert [f"{at} ({one.attribute}): reward" in plot.description for at, one in enumerate(result.tested, 1)] == [
            True
        ] * 2


def test_the_first_screen_tells_what_is_confirmed_and_what_is_only_rewarded(make: MakeResult) -> None:
    result = make()
    page = discovery_document(result).page()
    first = words(page.split("<nav")[0])
    assert "1 of 2 tested candidates confirmed" in first and "1. Triple spaces between words: reward +1.20 [" in first
    assert (
        "Not confirmed: 1 more, with their numbers in the table below." in first
        and "Bias file: biases/triple-sp" in first
    )
    # The strongest pair of each.
    assert page.count('<details class="example"') == 1 and "said 0 <del>after</del><ins>before</ins>" in page
    # The judge took the confirmation away, not the reward.
    unobjectionable = changed(changed(result, "tested.0.confirmed", False), "tested.0.file", None)
    rows = [line for line in discovery_document(unobjectionable).markdown().splitlines() if "Triple spaces" in line]
    assert any(f"| {NO_OBJECTION} |" in line for line in rows)
    assert "None of 2 candidates held" in text_of(unobjectionable)
    assert "Rewarded, but the judge is not shown to object: Triple spaces between words." in text_of(unobjectionable)


def described(result: DiscoverResult, candidate: str, **update: str) -> DiscoverResult:
    bias = result.candidates[candidate].bias.model_copy(update=update)
    return changed(result, f"candidates.{candidate}.bias", bias)  # type: ignore[no-any-return]


def test_long_attributes_go_by_short_names_and_stand_in_full_once(make: MakeResult) -> None:
    result = make()
    words = (
        "Closes with an offer of further help that nobody has asked for",
        "Closes with an offer of a summary in bullet points",
    )
    for at, (entry, text) in enumerate(zip(result.tested, words, strict=True)):
        result = changed(result, f"tested.{at}.attribute", text)
        result = described(result, entry.candidate, description=text)
    document = discovery_document(result)
    text, glance = read_markdown(document.markdown()), document.glance
    assert glance is not None and [row.label for row in glance.rows] == [
        "Closes with an offer",
        "Closes with an offer (2)",
    ]
    assert [text.count(each) for each in words] == [1, 1] and "…" not in text and "…" not in document.text()
    assert f"Closes with an offer (2): {words[1]}" in text
    own = described(result, result.tested[1].candidate, short_name="Offers a summary")
    again = DiscoverResult.model_validate_json(own.model_dump_json())
    assert [row.label for row in discovery_document(again).glance.rows][1] == "Offers a summary"  # type: ignore[union-attr]


def test_the_file_of_a_confirmed_attribute_has_a_short_name(make: MakeResult, tmp_path: Path) -> None:
    result = _with_files(make(), (SPACES, QUESTION), {}, tmp_path / "biases")
    (file,) = (tmp_path / "biases").glob("*.yaml")
    assert result.tested[0].file == f"biases/{file.name}"
    assert load_bias(str(file)).short_name == "Triple spaces between words"


def test_a_validation_that_only_the_judge_fails_says_so(make: MakeResult) -> None:
    result = make("validation")
    for field, value in {"p_judge": 0.5, "passed": False}.items():
        result = changed(result, f"validation.results.0.{field}", value)
    text, table = text_of(result), discovery_document(result).markdown()
    assert "None of 2 candidates held on the validation prompts: no bias" in text
    assert "Rewarded, but the judge is not shown to object: Triple spaces between words." in text
    assert f"| {NO_OBJECTION} |" in table and "| not shown |" in table
    # Of the reward alone: that attribute is validated, and the other one is not.
    assert "(DABS) of the 1 validated attributes, by their validation numbers: 1.00 reward units." in table


def test_the_page_says_what_the_judge_was_asked_and_how_far_it_follows_the_place(make: MakeResult) -> None:
    assert "The judge gpt-x gives rewards: of two sides it prefers the one with the higher reward" in text_of_method(
        make()
    )
    assert (
        "The judge gpt-x was asked which of the two responses is better, in both orders, in 40 comparisons of the test: of the 36 read in both, "
        "4 follow the place and not the text, a mean preference for the first text of -0.12 (−1 to 1); they count as ties."
    ) in text_of_method(changed(make(), "verdicts", VERDICTS))


def text_of_method(result: DiscoverResult) -> str:
    return words(discovery_document(result).page())


def test_what_could_not_be_tested_says_why_and_has_no_p(make: MakeResult) -> None:
    document = discovery_document(make(failed={"gpt-y": {"refused": 90}})).markdown()
    assert "not tested, because 1 of 2 rewriters can be used, 2 are needed" in document
    assert "90 of 100 rewrites failed" in document and "| not tested |" in document
    assert "| test: rewrites by gpt-y | refused | 180 | 200 |" in document


@pytest.fixture
def hostile(make: MakeResult) -> DiscoverResult:
    """Every text that comes from outside: names, attributes, reasons, topics, prompts and responses."""
    result = make(text=HOSTILE, failed={"gpt-x": {HOSTILE: 1}})

    def tainted(one: TestedAttribute) -> TestedAttribute:
        first, *others = (each.model_copy(update={"rewriter": HOSTILE}) for each in one.rewriters)
        examples = tuple(replace(each, rewriter=HOSTILE) for each in one.examples)
        own = {
            "attribute": f"- {HOSTILE}",
            "warnings": (HOSTILE,),
            "untested": HOSTILE,
        }
        rewriters = (first.model_copy(update={"excluded": HOSTILE}), *others)
        return one.model_copy(update={**own, "rewriters": rewriters, "examples": examples})

    for path, value in {
        "model.name": f"# {HOSTILE}", "judge.name": HOSTILE, "by": HOSTILE, "rewriters": (HOSTILE,),
        "strength": Missing(reason=HOSTILE), "generations.0.proposed": Exclusions(9, {HOSTILE: 3}),
        "tested": tuple(map(tainted, result.tested)),
    }.items():  # fmt: skip
        result = changed(result, path, value)
    bias = SPACES.bias.model_copy(update={"description": HOSTILE})
    return changed(result, ("candidates", SPACES.id, "bias"), bias)  # type: ignore[no-any-return]


@pytest.mark.parametrize("until", ["test", "validation", "search", "proposals"])
def test_hostile_text_is_inert(hostile: DiscoverResult, until: str) -> None:
    result = cut_back(hostile, until)
    made = discovery_document(result)
    text, document, page = made.text(), made.markdown(), made.page()
    assert not [char for char in text if (ord(char) < 32 and char != "\n") or char in "\u202e\x9b\ud800"]
    assert "second *line*" in read_markdown(document) and "\nsecond" not in text and "evil" not in text
    assert ("````text" in document) is (until == "test")  # the fence is longer than the run inside
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f\x9b\u202e\ud800]", document)
    outside = re.sub(r"^(`{3,})text\n.*?\n\1$", "", document, flags=re.S | re.M)
    assert "<" not in outside and "://" not in outside and "*line*" not in outside.replace("\\*line\\*", "")
    headings = [line for line in outside.splitlines() if line.startswith("#")]
    assert headings[0].startswith("# Biases discovered in") and all(
        line.startswith(("## ", "### ")) for line in headings[1:]
    )
    # Lists are those of the document: no text from outside opens one.
    assert not [line for line in outside.splitlines() if re.match(r"[+=]|-(?! [\w*])|- a&lt;|\d+[.)]", line)]
    cells = [(len(re.findall(r"(?<!\\)\|", line)), line) for line in outside.splitlines()]
    tables = [[n for n, _ in rows] for is_row, rows in groupby(cells, lambda one: one[1].startswith("|")) if is_row]
    assert tables and all(len(set(table)) == 1 for table in tables)
    checked(page)
    assert "<script>alert" not in page and "&lt;script&gt;alert(1)&lt;/script&gt;" in page and "[U+202E]" in page


def test_the_power_is_told_only_where_the_reward_failed(make: MakeResult) -> None:
    result = make()
    assert "80% power, if only the reward were in question" in text_of(result)
    assert "80% power" in text_of(make("validation", weak=True))
    (spaces, _) = result.tested
    assert spaces.smallest_detectable is not None
    # Liked by the model; it was the judge that decided.
    result = changed(result, "tested", (changed(spaces, "confirmed", False),))
    assert "80% power" not in text_of(result)


def test_nothing_that_is_lost_on_the_way_is_silent(make: MakeResult) -> None:
    result = make(failed={"gpt-y": {"refused": 3}})
    kept = Exclusions(9, {})
    made = MadeFrom(
        responses="sampled", rows=Exclusions(70, {"duplicate": 2}),
        scenarios=WritingCounts(requested=12, kept=11, calls=Exclusions(4, {"no answer": 1}), items=kept),
        written=WritingCounts(requested=55, kept=55, calls=kept, items=Exclusions(60, {"too long": 5})),
    )  # fmt: skip
    quiet = VERDICTS.model_copy(update={"unread": 0, "half_read": 0, "reasons": {}})
    for path, value in {
        "material.made": made, "material.unanswered": 3, "material.unrated": 4,
        "material.repeated": {"prompts": 5, "responses": 6},
        "grouping": {"questions without a readable answer: no answer": 1}, "generations.0.standings.0.failed": {"unchanged": 4},
        "verdicts": VERDICTS, "cut_for_judge": 2, "validation.verdicts": quiet,
        "validation.results.0.pooled.n_unjudged": 2, f"pairs.{SPACES.id}.fidelity.n_unparsed_with": 7,
    }.items():  # fmt: skip
        result = changed(result, path, value)
    table = excluded_table(result)
    assert table is not None and set(table.rows) == {
        ("prompts: rows", "duplicate", "2", "70"),
        ("writing scenarios: answers", "no answer", "1", "4"),
        ("writing scenarios", "asked for and not written in the end", "1", "12"),
        ("writing prompts", "too long", "5", "60"),
        ("prompts", "no response", "3", ""),
        ("prompts", "no response with a reward", "4", ""),
        ("prompts", "says the same as another prompt", "5", ""),
        ("responses", "to a prompt that says the same as another", "6", ""),
        ("responses of gpt-x", "cut off", "3", "260"),
        ("rewards", "no reward", "1", "257"),
        ("search: groups by meaning", "questions without a readable answer: no answer", "1", ""),
        ("generation 1: proposals", "no attribute", "2", "9"),
        ("generation 1: candidates", "means the same as another", "3", ""),
        ("generation 1: candidates", "let go: reward", "1", ""),
        ("generation 1: rewrites", "unchanged", "4", "22"),
        ("validation: rewrites by gpt-x", "refused", "4", "24"),
        ("validation: rewrites by gpt-y", "refused", "6", "26"),
        ("validation: rewrites", "no verdict of the judge; counts for the reward", "2", "40"),
        ("test: rewrites by gpt-x", "refused", "4", "24"),
        ("test: rewrites by gpt-y", "refused", "6", "26"),
        ("test: responses for gpt-x", "is so already; not rewritten", "5", ""),
        ("test: responses for gpt-y", "is so already; not rewritten", "5", ""),
        ("test: comparisons by the judge", "readable in neither order", "1", "40"),
        ("test: comparisons by the judge", "readable in one order alone", "3", "40"),
        ("test: answers of the judge", "no answer", "2", "80"),
        ("test: comparisons by the judge", "a side was cut for the judge", "2", ""),
        ("pairs: 1. Triple spaces between words", "label of a side not read", "7", "40"),
    }
