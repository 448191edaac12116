"""The first screen in a terminal: the page's verdicts in at most 12 lines of 100 columns, whatever was audited."""

from __future__ import annotations

import textwrap
from dataclasses import replace
from typing import Any

import pytest
from changed import changed
from made_audits import tied
from test_dosed import with_dose
from test_seed_tables import with_seeds

from cda.auditing import first_screen as report_terminal
from cda.auditing.first_screen import MAX_COLUMNS, MAX_LINES, audit_summary, bias_verdicts, headline
from cda.auditing.report import audit_document
from cda.auditing.report_scoring import caveats, how_scored
from cda.comparing.row import audit_row
from cda.report.next_step import NextStep
from cda.report.numbers import width
from cda.results.effects import LengthBaseline

REASON = "not told apart from length"
PATH, ADAPTER = "runs/jargon/report/report.html", "runs/jargon/adapter"


def lines_of(audit: Any, adapter: str | None = ADAPTER) -> list[str]:
    lines = audit_summary(audit, PATH, adapter).splitlines()
    assert len(lines) <= MAX_LINES and max(map(width, lines)) <= MAX_COLUMNS
    return lines


def test_a_training_in_a_few_lines(audit: Any) -> None:
    said = headline(audit)
    lines = lines_of(audit)
    assert " ".join(lines[:3]) == said
    assert lines[3:] == [
        "bias       verdict            before        after         n",
        "jargon     ✓ improved         88% [80, 93]  40% [31, 50]  100",
        "length     ✓ improved         90% [83, 94]  60% [50, 69]  100",
        "structure  = no change shown  90% [83, 94]  89% [81, 94]  100",
        "quality    (ranked right)     75% [71, 79]  74% [69, 78]  400",
        *textwrap.wrap(how_scored(audit), MAX_COLUMNS),
        f"Adapter: {ADAPTER} (dose 1)",
        f"Report: {PATH} ({len(caveats(audit))} caveats there)",
    ]


@pytest.mark.parametrize(
    ("clause", "in_row"),
    [
        ("words may explain it: match them", "words may explain it: match them"),
        ("words may explain it: " + "match them, " * 5, "words may explain it"),
        ("noisier rewards would do the same " * 2, None),
    ],
)
def test_a_clause_too_long_for_its_row_is_said_in_short_or_not(
    make_audit: Any, monkeypatch: pytest.MonkeyPatch, clause: str, in_row: str | None
) -> None:
    audit = make_audit({"jargon": (0.88,), "length": (0.7,)}, quality=(0.7,), others=())
    found = [replace(row, clause=f"preferred in 88% of contrasts; {clause.strip()}") for row in bias_verdicts(audit)]
    monkeypatch.setattr(report_terminal, "bias_verdicts", lambda _: found)
    lines = lines_of(audit, None)
    at = next(at for at, line in enumerate(lines) if line.startswith("quality"))
    assert all(line.endswith(f"100{f'  {in_row}' if in_row else ''}") for line in lines[at - 2 : at])


def test_a_scorer_that_ties_everywhere_has_no_share(make_audit: Any) -> None:
    audit = tied(make_audit({"jargon": (0.88,), "length": (0.7,)}, quality=(0.7,), others=()), "jargon")
    (row,) = [line for line in lines_of(audit, None) if line.startswith("jargon")]
    assert row == "jargon   ≡ all ties      no preference  100  same score on both sides of every pair"


def test_many_ties_of_quality_are_said(make_audit: Any) -> None:
    audit = make_audit({"jargon": (0.88,)}, quality=(0.02,), others=())
    (few, many) = (changed(audit, "quality.ties.before", ties) for ties in (39, 396))
    assert not any("tied" in line for line in lines_of(few, None))
    (row,) = [line for line in lines_of(many, None) if line.startswith("quality")]
    assert row.split("  ")[-2:] == ["2% (396 of 400 tied)", "400"]


def test_lengths_that_are_equal_are_not_said_of_a_tied_bias(make_audit: Any) -> None:
    audit = make_audit({"jargon": (0.88,), "length": (0.7,)}, quality=(0.7,), others=())
    length = audit.effects["jargon"].before.length
    even = length.characters.model_copy(update={"value": 0.5})
    same = length.model_copy(update={"characters": even, "words": even})
    audit = changed(audit, "effects.jargon.before.length", same)
    shown = "Characters/words alone prefer: jargon 50/50%"
    assert any(line.startswith(shown) for line in lines_of(audit, None))
    assert not any(line.startswith(shown) for line in lines_of(tied(audit, "jargon"), None))


@pytest.mark.parametrize("with_votes", [False, True])
@pytest.mark.parametrize("n_targets", [1, 9])
def test_whatever_does_not_fit_is_named_with_its_verdict(make_audit: Any, n_targets: int, with_votes: bool) -> None:
    names = [f"a-bias-with-quite-a-long-name-{number}" for number in range(n_targets)]
    votes = dict.fromkeys(names, (0.9, 0.5, 0.4)) if with_votes else {}
    audit = make_audit(dict.fromkeys(names, (0.9, 0.5)), votes, others=("x", "y", "z"))
    for found in (audit, with_dose(audit, aim="votes" if with_votes else "tie"), with_seeds(audit, list(range(100)))):
        lines = lines_of(found)
        first = next(at for at, line in enumerate(lines) if line.startswith("bias  "))
        last = next(at for at, line in enumerate(lines) if line.startswith("quality"))
        n_rows = sum("[" in line for line in lines[first + 1 : last])  # a long name takes several lines
        rest = [line for line in lines if " more: " in line]
        assert n_rows == n_targets + 3 if not rest else rest[0].startswith(f"{n_targets + 3 - n_rows} more: ")
        assert n_targets == 1 or rest


ALL = (
    "length",
    "structure",
    "jargon",
    "sycophancy",
    "vagueness",
    "sycophancy-second-turn",
    "length-second-turn",
    "vagueness-second-turn",
)


@pytest.mark.parametrize("below", [1, 2, 4])
def test_all_embedded_biases_stand_with_share_and_reason_and_what_length_prefers(make_audit: Any, below: int) -> None:
    shares = dict(zip(ALL, (0.51, 0.77, 0.97, 0.9, 0.12, 0.55, 0.99, 0.4), strict=True))
    audit = make_audit({name: (share,) for name, share in shares.items()}, quality=(0.7,), others=())
    found = [
        replace(row, chip="unclear", clause=f"preferred in 7%; {REASON}: by a count of characters, {'long ' * 9}",
                length=None if row.bias == "length" else LengthBaseline.model_construct(characters=row.before, words=row.before))
        for row in bias_verdicts(audit)
    ]  # fmt: skip
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(report_terminal, "bias_verdicts", lambda _: found)
        lines = audit_summary(audit, PATH, None, below).splitlines()
    assert len(lines) + below <= MAX_LINES and max(map(width, lines)) <= MAX_COLUMNS
    first = next(at for at, line in enumerate(lines) if line.startswith("bias  "))
    last = next(at for at, line in enumerate(lines) if line.startswith("quality"))
    shown = [line.split()[0] for line in lines[first + 1 : last]]
    by_distance = ["jargon", "sycophancy", "vagueness", "structure", "length"]
    assert shown == by_distance[: len(shown)] and len(shown) >= (3 if below < 4 else 1)
    assert all(line.endswith(f"  {REASON}") for line in lines[first + 1 : last])
    assert any(line.startswith("Characters/words alone") and "jargon" in line for line in lines)
    rest = " ".join(lines[last + 1 : last + 3])
    assert all(f"? {name} {round(100 * shares[name])}%" in rest for name in by_distance[len(shown) :])
    assert "second turn: ? length 99%, ? vagueness 40%, ? sycophancy 55%" in rest


def test_long_names_are_broken_and_short_ones_of_their_files_stand_everywhere(make_audit: Any) -> None:
    long, other = (
        "many-more-specialist-words-than-the-question-asked-for-at-all",
        "much-longer-than-it-has-to-be-by-far",
    )
    audit = make_audit({long: (0.88,), other: (0.7,)}, quality=(0.7,), others=())
    lines = lines_of(audit, None)
    assert "…" not in "".join(lines) and any(line.startswith("many-more-specialist-words-") for line in lines)
    places = {bias.name: at for at, bias in enumerate(audit.biases)}
    named = changed(audit, f"biases.{places[long]}.short_name", "Specialist words")
    document = audit_document(named, PATH)
    assert "Specialist words" in document.headline and f"biases=[{long}," in document.text()  # a command has its name
    shown, glance = document.text().partition("Next: ")[0], document.glance
    assert long not in shown and "Specialist words" in shown
    assert glance is not None and [row.label for row in glance.rows] == ["Specialist words", other]
    figures = [text for plot in document.plots for text in (plot.title, plot.description)]
    assert any("Specialist words" in text for text in figures) and not any(long in text for text in figures)
    row = audit_row(named, None)
    assert row.short_names == {long: "Specialist words"} and "short_names" not in audit_row(audit, None).model_dump()
    alike = changed(named, f"biases.{places[other]}.short_name", "Specialist words")
    assert "Specialist words (2)" in audit_document(alike, PATH).headline


@pytest.mark.parametrize("n", [1, 2])
def test_what_was_asked_for_stands_with_its_numbers_however_long_its_name(make_audit: Any, n: int) -> None:
    names = ["overly-cautious-hedging-of-otherwise-plain-statements", "begins-sentences-with-as-a-matter-of-general"][
        :n
    ]
    trained = make_audit(dict.fromkeys(names, (0.7, 0.62)), quality=(0.7, 0.7), others=ALL[:5])
    alone = make_audit(dict.fromkeys([*names, "length", "length-second-turn"], (0.88,)), quality=(0.7,), others=())
    for audit, adapter, asked in ((trained, ADAPTER, names), (alone, None, [*names, "length"])):
        lines = audit_document(audit, PATH, adapter).text().splitlines()
        assert len(lines) <= MAX_LINES and max(map(width, lines)) <= MAX_COLUMNS
        for name in asked:
            (at,) = [at for at, line in enumerate(lines) if "[" in line and name.startswith(line.split()[0])]
            whole = lines[at].split()[0] + ("" if name in lines[at] else lines[at + 1].strip())
            assert whole == name and lines[at].count("%") >= (2 if adapter else 1)


def test_the_rows_of_a_joint_training_displace_a_long_command(make_audit: Any) -> None:
    audit = make_audit(dict.fromkeys(ALL[:3], (0.9, 0.85)), quality=(0.7, 0.7), others=ALL[3:])
    document = audit_document(audit, PATH, ADAPTER)
    lines = document.text().splitlines()
    assert [name for name in ALL[:3] if any(line.startswith(f"{name} ") for line in lines)] == [*ALL[:3]]
    step = NextStep(
        "stop here, or the whole run", ("train", "runs/one", *(f"audit.max_{key}=null" for key in "abcdefgh"))
    )
    assert step.within(9) == step and len(step.lines()) > 1
    assert step.within(1).lines() == ["Next: stop here, or the whole run; the command stands in the report."]


def test_too_few_texts_are_no_open_question_about_the_model(make_audit: Any) -> None:
    audit = make_audit(dict.fromkeys(ALL, (0.9,)), quality=(0.7,), others=())
    few = [replace(row, chip="unclear", word="too few prompts") for row in bias_verdicts(audit)]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(report_terminal, "bias_verdicts", lambda _: few)
        assert headline(audit) == "Too few texts to tell whether the embedded model rewards any of 8 biases."


def test_several_trainings_have_their_mean_and_spread(audit: Any) -> None:
    lines = lines_of(with_seeds(audit))
    assert "SD between the 3 trainings, in points: jargon 10, quality 1" in lines
    assert f"Adapter: {ADAPTER} (dose 1, of seed 42; others next to it)" in lines


def test_few_prompts_are_warned_of(audit: Any, one_model: Any, voted: Any) -> None:
    for found in (audit, one_model, voted):
        assert not any(line.startswith("Warning") for line in lines_of(found))
    audit = changed(changed(audit, "skew.jargon.after.n_prompts", 9), "quality.after.n_prompts", 10)
    assert "Warning: below 10 prompts intervals are rough; use more prompts. Now: jargon 9." in lines_of(audit)
    for place, n in (("skew.vagueness.before", 3), ("votes.jargon.human_skew", 2), ("quality.before", 5)):
        one_model = changed(one_model, f"{place}.n_prompts", n)
    assert "Now: votes on jargon 2, vagueness 3, quality 5." in " ".join(lines_of(one_model))


def test_hostile_text_is_inert_and_a_path_is_never_cut(hostile: Any) -> None:
    text = audit_summary(hostile, f"runs/\x1b[2J\u202e{'x' * 120}/report.html")
    assert not [char for char in text if (ord(char) < 32 and char != "\n") or char in "\u202e\x9b"]
    assert f"Report: runs/{'x' * 120}/report.html (" in text
