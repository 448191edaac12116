"""The HTML report: self-contained, inert, and every number of the first table with n and interval."""

from __future__ import annotations

import hashlib
import re
from base64 import b64encode
from typing import Any

import pytest
from changed import changed
from page_checks import LOADS, Parsed

from cda.auditing.report_html import render_html
from cda.results.base import Missing
from cda.results.facts import LLMUse, RunFacts, StageRun, TrainingStages
from cda.results.skew import UnseenPhrases


@pytest.mark.parametrize("name", ["audit", "voted", "hostile", "one_model", "judge"])
def test_loads_nothing(name: str, request: pytest.FixtureRequest) -> None:
    page = Parsed(render_html(request.getfixturevalue(name)))
    links = [(tag, key, value) for tag, attrs in page.tags for key, value in attrs.items() if key in LOADS]
    assert links
    # Figures use their own marks more than once.
    assert all(tag in ("a", "use") and value.startswith("#") for tag, _, value in links)
    assert not [tag for tag, _ in page.tags if tag in ("img", "iframe", "link", "object", "embed", "base", "form")]
    assert not [key for _, attrs in page.tags for key in attrs if key.startswith("on")]
    assert not re.search(r"url\(|@import|fetch\(|https?:", page.inside["style"] + page.inside["script"])


def test_policy_allows_exactly_our_style_and_script(hostile: Any) -> None:
    page = Parsed(render_html(hostile))
    (policy,) = [attrs["content"] for _, attrs in page.tags if attrs.get("http-equiv") == "Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; ")
    for kind in ("style", "script"):
        digest = b64encode(hashlib.sha256(page.inside[kind].encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}';" in policy
        assert [tag for tag, _ in page.tags].count(kind) == 1
    assert "unsafe" not in policy


def test_hostile_text_is_inert(hostile: Any) -> None:
    text = render_html(hostile)
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert "[U+202E]" in text
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text)
    text.encode("utf-8")


def test_first_table_gives_n_and_intervals(voted: Any) -> None:
    table = re.search(r"<table.*?</table>", render_html(voted), re.S)
    assert table
    rows = re.findall(r'<tr><th scope="row">(.*?)</th>(.*?)</tr>', table[0])
    assert [name for name, _ in rows] == [
        "jargon skew", "jargon miscalibration", "vagueness skew", "vagueness miscalibration", "quality accuracy",
    ]  # fmt: skip
    for name, cells in rows:
        values = re.findall(r"<td.*?>(.*?)</td>", cells)
        if name == "vagueness miscalibration":
            assert values == ["no votes", "no votes", "", ""]
            continue
        assert all(re.search(r"\[\S+, \S+\]", value) for value in values[:3])
        assert re.fullmatch(r"\d+( \(\d+ prompts\))?", values[3])


def test_says_what_limits_the_numbers(audit: Any, make_audit: Any) -> None:
    text = render_html(audit)
    assert "written by the authors of this package, with no human votes" in text
    assert "Rules stood in for an LLM" in text
    assert "Rules stood in" not in render_html(make_audit(by="gpt-x"))


def test_sections_need_data(audit: Any, voted: Any) -> None:
    assert 'id="votes"' not in render_html(audit)
    assert 'id="votes"' in render_html(voted)
    bare = audit.model_copy(
        update={
            "quality": None,
            "unseen_phrases": {},
            "examples": (),
            "stages": TrainingStages(),
        }
    )
    text = render_html(bare)
    for name in ("quality", "unseen", "training", "examples"):
        assert f'id="{name}"' not in text


def test_examples_are_sorted_marked_and_filterable(voted: Any) -> None:
    text = render_html(voted)
    moves = [float(move.replace("−", "-")) for move in re.findall(r"after \(([+−][\d.]+)\)", text)]
    assert moves == sorted(moves)
    assert "<mark>Utilize</mark> a pan." in text
    assert '<option value="jargon">' in text
    assert 'data-bias="vagueness"' in text


def test_examples_say_who_agrees_and_how_they_were_chosen(voted: Any) -> None:
    text = render_html(voted)
    assert "people preferred the side without the bias; the model disagreed before, agrees after" in text
    assert 'data-people="disagrees-before agrees-after" data-fall="3.0" data-before="1.0" data-after="-2.0"' in text
    assert '<option value="disagrees-before">model and people disagree before</option>' in text
    assert "Kept are 2 of 110 contrasts of jargon, 2 of 100 contrasts of vagueness, taken in turn" in text


def test_first_screen_says_which_model_and_what_happened(voted: Any, one_model: Any) -> None:
    first = render_html(voted).split('<nav class="section-nav"')[0]
    assert "(recipe <strong>joint</strong>) did to the model <strong>embedded</strong>" in first
    assert '<li class="good"><p><strong>jargon: improved.</strong> Model and people disagreed on 43%' in first
    assert "Description of jargon." in first
    assert '<li class="good"><p>Quality: a loss of more than 5 points is excluded' in first
    assert first.count("<table") == first.count("<figure>") == 1
    assert "How the model <strong>embedded</strong> treats these biases." in render_html(one_model)


def test_cost_and_place_where_the_run_is_known(audit: Any) -> None:
    assert 'id="cost"' not in render_html(audit)
    asked = LLMUse(asked=12, cached=3, unusable=0, input_tokens=4100, output_tokens=18, uncounted=0, dollars=0.5)
    stages = {"label": StageRun(seconds=12.3, finished="2026-11-21T10:00:00Z", llm={"gpt<b>": asked})}
    run = RunFacts(git="0123abc", python="3.11", platform="Linux", stages=stages)
    text = render_html(audit.model_copy(update={"run": run}))
    assert "12 answers were asked for, for $0.50." in text
    assert "label, gpt&lt;b&gt;" in text and "0123abc" in text


def test_no_phrase_free_contrast_is_said(audit: Any) -> None:
    none = UnseenPhrases(n=0, of=100, skew=Missing(reason="no such contrast"))
    assert "no such contrast" in render_html(audit.model_copy(update={"unseen_phrases": {"jargon": none}}))


def test_methods_are_those_of_the_audit(audit: Any, voted: Any) -> None:
    assert "Dirichlet" not in render_html(audit)
    text = render_html(voted)
    assert "Newcombe paired interval" in text
    assert "Dirichlet" in text
    assert "prompt-clustered bootstrap" in text


def test_one_model_has_no_before(one_model: Any) -> None:
    text = render_html(one_model)
    read = re.sub(r"<[^>]*>", " ", text.split("<script>")[0].split("</style>")[1])
    for word in (" before", "training"):
        assert word not in read, word
    for name in ("votes", "effects", "rate", "drift", "data"):
        assert f'id="{name}"' in text
    assert "over-rewarded" in text
    assert "RATE effects on 20 triples" in text


def test_what_cannot_be_estimated_says_why(one_model: Any) -> None:
    one_model = changed(one_model, "votes.jargon.auc", Missing(reason="all majorities are for one side"))
    one_model = changed(one_model, "effects.jargon.before.identification", Missing(reason="one prompt only"))
    text = render_html(one_model)
    assert "all majorities are for one side" in text
    assert "one prompt only" in text
    assert "nan" not in text.lower().replace("finance", "").split("<script>")[0].split("</style>")[1]
