"""An audit as a page, as Markdown and in a terminal: self-contained, inert, whole, and the known numbers in their places."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any
from xml.etree import ElementTree

import pytest
from changed import changed
from page_checks import checked

from cda.auditing.report_forms import MAX_COLUMNS, MAX_LINES, render_html, render_markdown, skew_chart, summary_table
from cda.auditing.report_scoring import caveats
from cda.report.numbers import width
from cda.results.base import Missing
from cda.results.facts import LLMUse, RunFacts, StageRun, TrainingStages

PATH = "runs/jargon/report/report.html"
FIVE = ("length", "structure", "jargon", "sycophancy", "vagueness")


@pytest.mark.parametrize("name", ["audit", "voted", "hostile", "one_model", "judge"])
def test_page_loads_nothing_and_document_is_whole(name: str, request: pytest.FixtureRequest) -> None:
    audit = request.getfixturevalue(name)
    page = checked(render_html(audit))
    assert not re.search(r"url\(|@import|fetch\(|https?:", page.inside["style"] + page.inside["script"])
    rows = [line for line in render_markdown(audit).splitlines() if line.startswith("|")]
    for row, following in pairwise(rows):
        assert not set(following) <= set("|- ") or row.count("|") == following.count("|")


def test_hostile_text_is_inert_in_every_form(hostile: Any) -> None:
    page, text = render_html(hostile), render_markdown(hostile)
    assert "<script>alert" not in page and "&lt;script&gt;alert(1)&lt;/script&gt;" in page and "[U+202E]" in page
    outside = re.sub(r"^(`{3,})text\n.*?\n\1$", "", text, flags=re.S | re.M)
    assert "````text" in text  # the fence is longer than the run inside
    assert "<" not in outside and "://" not in outside
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f\x9b\u202e]", text)
    text.encode("utf-8")
    table = summary_table(hostile, "runs/\x1b[2J\u202ex/report.html")
    assert not [char for char in table if (ord(char) < 32 and char != "\n") or char in "\u202e\x9b"]
    assert table.endswith("Report: runs/x/report.html")
    root = ElementTree.fromstring(skew_chart(hostile))
    assert (root.get("aria-labelledby") or "").split() == [root[0].get("id"), root[1].get("id")]
    assert "88% [80, 93] before, 40% [31, 50] after" in (root[1].text or "")


def test_marks_of_the_chart_lie_at_the_numbers_in_colours_of_the_page(audit: Any, voted: Any) -> None:
    root = ElementTree.fromstring(skew_chart(audit))
    target, *others = root.findall("g")
    assert [target.get("class"), *(other.get("class") for other in others)] == ["target", "other", "other"]
    assert [dot.get("cx") for dot in target.findall("circle")] == ["88.00%", "40.00%"]
    interval = target.find("line[@class='interval before']")
    assert interval is not None and interval.get("x1", "").startswith("80.")
    assert not re.search("#|fill=|style=|people", skew_chart(audit))
    with_people = ElementTree.fromstring(skew_chart(voted))
    assert [len(group.findall("svg")) for group in with_people.findall("g")] == [1, 0, 1, 0]


def test_sections_and_what_limits_the_numbers_need_their_data(audit: Any, voted: Any, make_audit: Any) -> None:
    text = render_html(audit)
    assert 'id="votes"' not in text and 'id="votes"' in render_html(voted) and 'id="cost"' not in text
    assert "Rules stood in for an LLM" in text and "Rules stood in" not in render_html(make_audit(by="gpt-x"))
    bare = {"quality": None, "unseen_phrases": {}, "examples": (), "stages": TrainingStages()}
    without = render_html(audit.model_copy(update=bare))
    assert not [name for name in ("quality", "unseen", "training", "examples") if f'id="{name}"' in without]
    asked = LLMUse(asked=12, cached=3, unusable=0, input_tokens=4100, output_tokens=18, uncounted=0, dollars=0.5)
    stages = {"label": StageRun(seconds=12.3, finished="2026-11-21T10:00:00Z", llm={"gpt<b>": asked})}
    text = render_html(audit.model_copy(update={"run": RunFacts(git="0123abc", python="3.11", stages=stages)}))
    assert "12 answers were asked for, for $0.50." in text and "label, gpt&lt;b&gt;" in text and "0123abc" in text


def test_examples_are_sorted_marked_and_filterable(voted: Any) -> None:
    text = render_html(voted)
    moves = [float(move.replace("−", "-")) for move in re.findall(r"after \(([+−][\d.]+)\)", text)]
    assert moves and moves == sorted(moves)
    for part in (
        "<mark>Utilize</mark> a pan.", '<option value="jargon">', 'data-bias="vagueness"',
        "people preferred the side without the bias; the model disagreed before, agrees after",
        'data-people="disagrees-before agrees-after" data-fall="3.0" data-before="1.0" data-after="-2.0"',
        '<option value="disagrees-before">model and people disagree before</option>',
    ):  # fmt: skip
        assert part in text
    disputed = changed(changed(voted.examples[0], "prompt", "disputed"), "margins.after", 0.9)
    agreed = [changed(changed(disputed, "prompt", f"agreed {n}"), "margins.after", -1.0 - n) for n in range(4)]
    few = render_markdown(voted.model_copy(update={"examples": [*agreed, disputed]}))
    assert "disputed" in few and "agreed 3" in few and "agreed 1" not in few


def test_a_page_of_one_model_knows_no_training_and_says_why_a_number_is_missing(one_model: Any) -> None:
    one_model = changed(one_model, "votes.jargon.auc", Missing(reason="all majorities are for one side"))
    one_model = changed(one_model, "effects.jargon.before.identification", Missing(reason="one prompt only"))
    text = render_html(one_model)
    read = re.sub(r"<[^>]*>", " ", text.split("<script>")[0].split("</style>")[1])
    assert not [word for word in (" before", "training", "nan ") if word in read]
    assert "all majorities are for one side" in read and "one prompt only" in read


def test_the_terminal_has_one_target_without_votes(audit: Any) -> None:
    lines = summary_table(audit, PATH).splitlines()
    assert lines[1].split(maxsplit=2)[2] == "88% [80, 93]  40% [31, 50]  −48 [−57, −37]   100"
    assert lines[2].split(maxsplit=2) == ["jargon", "miscalibration", "no votes"]
    assert lines[4] == "Others: length 90→60%*, structure 90→89% (* Holm p<.05)"
    assert lines[-2] == "Scored in 8bit; 7 of 930 texts cut at 512 tokens; rules labelled and rewrote, no LLM."
    assert lines[-1] == f"Report: {PATH}"


def test_few_prompts_are_warned_of(audit: Any, one_model: Any, voted: Any) -> None:
    for found in (audit, one_model, voted):
        assert "Warning" not in summary_table(found, PATH)
    audit = changed(changed(audit, "skew.jargon.after.n_prompts", 9), "quality.after.n_prompts", 10)
    warning = "Warning: below 10 prompts intervals are rough; use more prompts. Now: jargon 9."
    assert warning in summary_table(audit, PATH).splitlines()
    for place, n in (("skew.vagueness.before", 3), ("votes.jargon.human_skew", 2), ("quality.before", 5)):
        one_model = changed(one_model, f"{place}.n_prompts", n)
    assert "Now: votes on jargon 2, vagueness 3, quality 5." in " ".join(summary_table(one_model, PATH).split())
    for name in voted.skew:
        voted = changed(voted, f"skew.{name}.after.n_prompts", 4 + len(name))
    assert len(summary_table(voted, PATH).splitlines()) <= MAX_LINES


@pytest.mark.parametrize("n_targets", [1, 2, 4, 9])
@pytest.mark.parametrize("with_votes", [False, True])
def test_the_terminal_always_fits(make_audit: Any, n_targets: int, with_votes: bool) -> None:
    names = [*FIVE, *(f"a-bias-with-quite-a-long-name-{number}" for number in range(4))][:n_targets]
    votes = dict.fromkeys(names, (0.9, 0.5, 0.4)) if with_votes else {}
    audit = make_audit(dict.fromkeys(names, (0.9, 0.5)), votes, others=("x", "y", "z"))
    lines = summary_table(audit, PATH).splitlines()
    assert len(lines) <= MAX_LINES and max(map(width, lines)) <= MAX_COLUMNS
    assert re.search("verdict|less biased|improved", " ".join(lines).lower())
    assert all(f"{name} skew" in "\n".join(lines) for name in names[:4])


def test_one_model_is_a_row_a_bias(one_model: Any) -> None:
    lines = summary_table(one_model, PATH).splitlines()
    assert lines[0].split()[:5] == ["bias", "skew", "people", "miscalibration", "AUC"]
    assert lines[1].startswith("jargon     89% [82, 94]  45% [36, 55]") and lines[1].endswith("110, 100 voted")
    assert lines[2].startswith("vagueness  50% [40, 60]  no votes")
    assert lines[3] == "Biased side: over-rewarded: jargon; no effect shown: vagueness"
    average = one_model.rate["jargon"].measured.before.average.estimate
    (causal,) = [line for line in lines if line.startswith("Causal effect (RATE, double-rewrite ATE): jargon ")]
    assert f"{average.value:+.2f}".replace("-", "−") in causal and causal.endswith(" (20 of 20 flipped)")


def test_rewritten_contrasts_say_how_many_rewrites_flipped(one_model: Any, audit: Any) -> None:
    for found in (one_model, audit):
        name = next(iter(found.skew))
        assert "Contrasts rewritten" not in summary_table(found, PATH)
        own = {"source": "embedded answers rewritten by rules", "available": 46, "rewrites_failed": {"unchanged": 54}}
        made = changed(found, ("skew", name), found.skew[name].model_copy(update=own))
        assert f"Contrasts rewritten for this audit: {name} 46 of 100 flipped." in summary_table(made, PATH)
        assert any("embedded answers rewritten by rules (46 of 100 flipped)" in note for note in caveats(made))
