"""The page of a discovery: what it says first, which sections it has for every outcome, and nothing from outside obeyed."""

from __future__ import annotations

import pytest
import test_discover_tables as tables
from changed import changed
from page_checks import checked, figures, section_ids, words

from cda.discovery.page import discover_page
from cda.discovery.plots import family_plot, front_of
from cda.discovery.tables import excluded_table, lineage_tables, topic_tables
from cda.records import Exclusions
from cda.results.base import Missing
from cda.results.discover import DiscoverResult, Fate, Made, Repeated, StandingRecord, WritingCounts

# The results of the other form, and every text of theirs that comes from outside.
make, hostile = tables.make, tables.hostile
SPACES, QUESTION = tables.SPACES, tables.QUESTION
MakeResult = tables.MakeResult
ALWAYS = ["excluded", "effort", "scoring", "meaning"]


def test_rules_at_several_strengths_are_called_one_rewriter(make: MakeResult) -> None:
    text = words(discover_page(changed(changed(make(), "by", "rules"), "rewriters", ("rules", "rules, 50% of places"))))
    assert "rewritten by one rule engine at 2 strengths (rules, rules, 50% of places)" in text
    assert "at least 2 of 2 strengths of one rule engine, which is one rewriter, show both." in text
    assert "no evidence that another one would find the same" in text
    assert "of 2 rewriters" not in text and "2 rewriters show" not in text


@pytest.mark.parametrize(
    ("until", "sections"),
    [("validation", ["search", "validation", "strength"]), ("search", ["search"]), ("proposals", ["search"])],
)
def test_nothing_found_is_a_page_too(make: MakeResult, until: str, sections: list[str]) -> None:
    text = discover_page(make(until, weak=True))
    page = checked(text)
    assert [one for one in section_ids(page) if one != "limits"] == [*sections, *ALWAYS]
    first = text.split("<nav")[0]
    assert "confirmed" not in first and 'class="bad"' not in first
    assert ("generation-1" in figures(page)) is (until != "proposals")


def test_many_that_are_not_confirmed_are_counted_and_not_spelled_out(make: MakeResult) -> None:
    result = make(weak=True)
    four = tuple(changed(result.tested[1], "attribute", f"attribute {at}") for at in range(4))
    result = changed(result, "tested", four)
    first = words(discover_page(result).split("<nav")[0])
    assert "Not confirmed: 4 more" in first and "attribute 0" not in first


def test_descent_ends_with_numbers_that_nothing_was_selected_on(make: MakeResult) -> None:
    result = make()
    (first,) = result.generations
    later = (changed(first.standings[1], "reward", 0.4), changed(first.standings[0], "reward", 0.9))
    second = first.model_copy(update={"index": 1, "standings": later})
    result = changed(result, "generations", (first, second))
    spaces, question = lineage_tables(result)
    # The ancestor until it had the descendant, then the descendant, then what was held out.
    assert [row[:4] for row in question.rows[:3]] == [
        ("generation 1", "Triple spaces between words", "+1.00", "20%"),
        ("generation 1", "Ends with a question", "−0.10", "20%"),
        ("generation 2", "Ends with a question", "+0.40", "20%"),
    ]
    assert [row[0] for row in question.rows[3:]] == ["validation", "test"]
    assert question.rows[4][2].startswith("−0.05 [") and question.rows[4][4] == "20 (10 prompts)"
    assert [row[2] for row in spaces.rows[:2]] == ["+1.00", "+0.90"]
    assert (
        plot := family_plot(result)
    ) and "2: generation 1 −0.10, generation 2 +0.40, validation −0.05 [" in plot.description


def test_a_proposal_stands_in_the_line_of_what_it_was_varied_into_in_the_first_generation(make: MakeResult) -> None:
    result = make()
    result = changed(result, ("candidates", result.tested[1].candidate, "generation"), 0)
    _, question = lineage_tables(result)
    assert [row[:3] for row in question.rows[:2]] == [
        ("generation 1", "Triple spaces between words", "+1.00"),
        ("generation 1", "Ends with a question", "−0.10"),
    ]
    plot = family_plot(result)
    assert plot is not None and "2: generation 1 −0.10, validation" in plot.description
    assert "<svg" in discover_page(result)


def test_what_was_left_out_is_counted_by_step(make: MakeResult) -> None:
    result = make(failed={"gpt-y": {"refused": 3}})
    result = changed(result, "generations.0.standings.0.failed", {"unchanged": 4})
    assert excluded_table(result).rows == (
        ("responses of gpt-x", "cut off", "3", "260"),
        ("rewards", "no reward", "1", "257"),
        ("generation 1: proposals", "no attribute", "2", "9"),
        ("generation 1: candidates", "means the same as another", "3", ""),
        ("generation 1: rewrites", "unchanged", "4", "22"),
        ("validation: rewrites by gpt-x", "refused", "4", "24"),
        ("validation: rewrites by gpt-y", "refused", "6", "26"),
        ("test: rewrites by gpt-x", "refused", "4", "24"),
        ("test: rewrites by gpt-y", "refused", "6", "26"),
        ("test: 2. Ends with a question", "is so already (gpt-x); not rewritten", "5", ""),
        ("test: 2. Ends with a question", "is so already (gpt-y); not rewritten", "5", ""),
    )


def test_nothing_that_is_lost_on_the_way_is_silent(make: MakeResult) -> None:
    result = make()
    kept = Exclusions(9, {})
    made = Made(
        responses="sampled",
        rows=Exclusions(70, {"duplicate": 2}),
        scenarios=WritingCounts(requested=12, kept=11, calls=Exclusions(4, {"no answer": 1}), items=kept),
        written=WritingCounts(requested=55, kept=55, calls=kept, items=Exclusions(60, {"too long": 5})),
    )
    verdicts = tables.VERDICTS.model_copy(update={"reasons": {"no answer": 5}})
    quiet = verdicts.model_copy(update={"unread": 0, "half_read": 0, "reasons": {}})
    for path, value in {
        "material.made": made,
        "material.unanswered": 3,
        "material.unrated": 4,
        "material.repeated": Repeated(prompts=5, responses=6),
        "grouping": {"questions left to the fallback: no answer": 1},
        "verdicts": verdicts,
        "cut_for_judge": 2,
        "validation.verdicts": quiet,
        "validation.results.0.pooled.n_unjudged": 2,
        f"pairs.{SPACES.id}.fidelity.n_unparsed_with": 7,
    }.items():
        result = changed(result, path, value)
    rows = excluded_table(result).rows
    for row in (
        ("prompts: rows", "duplicate", "2", "70"),
        ("writing scenarios: answers", "no answer", "1", "4"),
        ("writing scenarios", "asked for and not written in the end", "1", "12"),
        ("writing prompts", "too long", "5", "60"),
        ("prompts", "no response", "3", ""),
        ("prompts", "no response with a reward", "4", ""),
        ("prompts", "says the same as another prompt", "5", ""),
        ("responses", "to a prompt that says the same as another", "6", ""),
        ("search: groups by meaning", "questions left to the fallback: no answer", "1", ""),
        ("validation: Triple spaces between words", "no verdict of the judge; counts for the reward", "2", "20"),
        ("test: comparisons by the judge", "readable in neither order", "1", "40"),
        ("test: comparisons by the judge", "readable in one order alone", "3", "40"),
        ("test: answers of the judge", "no answer", "5", "80"),
        ("test: comparisons by the judge", "a side was cut for the judge", "2", ""),
        ("pairs: 1. Triple spaces between words", "label of the side with it not read", "7", "20"),
    ):
        assert row in rows, row
    assert not [row for row in rows if row[0] == "validation: comparisons by the judge"]


def test_topics_with_too_little_stand_in_one_row(make: MakeResult) -> None:
    result = make()
    few = Missing(reason="1 rewrites of 1 prompts: two prompts are needed")
    topics = {"art": few, "cooking": result.tested[0].pooled, "law": few}
    (table,) = topic_tables(changed(result, "tested.0.topics", topics))
    assert [row[0] for row in table.rows] == ["cooking", "2 more"] and table.rows[1][1].endswith(": art, law")


def test_the_front_holds_what_no_other_beats() -> None:
    def seen(judge: float | None, gain: float, fate: Fate = "kept") -> tuple[StandingRecord, float]:
        return changed(tables.standing(SPACES, gain, fate), "judge", judge), gain

    rows = [seen(0.2, 1.0), seen(0.1, 0.5), seen(0.3, 0.9, "front"), seen(0.4, 2.0), seen(None, 9.0, "reward"), seen(0.1, 0.2),
            seen(0.9, 5.0, "judge")]  # fmt: skip
    assert front_of(rows) == [(0.1, 0.5), (0.2, 1.0), (0.4, 2.0)]


@pytest.mark.parametrize("until", ["test", "search", "proposals"])
def test_hostile_text_is_inert(hostile: DiscoverResult, until: str) -> None:
    text = discover_page(tables.cut_back(hostile, until, False))
    checked(text)
    assert "<script>alert" not in text and "&lt;script&gt;alert(1)&lt;/script&gt;" in text and "[U+202E]" in text
