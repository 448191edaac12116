"""Best-of-n in tables, sentences, page and figures: numbers stand where they belong, and nothing from outside is markup."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from changed import changed
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from page_checks import checked, figures, section_ids, words

from cda.benchmarks.best_of_n_report import (
    best_of_n_markdown,
    best_of_n_page,
    best_of_n_plots,
    best_of_n_sentences,
    best_of_n_tables,
    best_of_n_text,
    overview_plot,
    spaced,
)
from cda.report.plots import AFTER, BEFORE, PAGE_INCHES, save_plot
from cda.results.base import Estimate, Missing
from cda.results.benchmarks import BestOfResult, NoSpread

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = "a<script>alert(1)</script>\x1b[31m|\u202eb\ud800\ufffe"


def _measured(value: float, half: float) -> Estimate:
    return Estimate(value=value, low=value - half, high=value + half, n=320, n_prompts=40, unit="u", method="m")


def _alike(value: float) -> NoSpread:
    return NoSpread(value=value, reason="the same in each of 40 prompts")


def _curve(name: str, kind: str, before: list[float], after: list[float], half: float) -> dict[str, Any]:
    at = [
        {
            "n": 2**power,
            "kl_nats": 0.5 * power,
            "n_prompts": 40 - power,
            "n_too_few": power,
            "scorings": {"before": _measured(first, half), "after": _measured(second, half)},
            "complete": {"before": _measured(first, half / 2), "after": _measured(second, half / 2)},
            "change": _measured(second - first, half) if power else None,
        }
        for power, (first, second) in enumerate(zip(before, after, strict=True))
    ]
    return {
        "name": name,
        "kind": kind,
        "unit": "u",
        "at": at,
        "slope": {"before": _measured(0.125, 0.03), "after": _alike(0.0)},
        "slope_change": _measured(-0.125, 0.03),
        "p_value": 0.0004,
        "p_holm": 0.0123,
        "p_method": "paired t over prompts",
        "n_unknown": 0,
        "definition": "share of picks",
    }


@pytest.fixture
def result() -> BestOfResult:
    nothing = {"seen": 0, "reasons": {}}
    quality = _curve("quality", "mean", [2.0, 2.5, 3.0], [2.0, 2.25, 2.5], 0.25) | {"p_holm": None, "n_unknown": 3}
    facts = {"kind": "reward model", "name": "rm", "precision": "fp32", "texts": 300, "truncated": 7}
    asked = {"model": "rm", "adapter": None, "adapter_content": None, "dose": 1.0, "facts": facts}
    found = {
        "responses": "sampled.jsonl",
        "scorings": ["before", "after"],
        "models": dict.fromkeys(("before", "after"), asked),
        "sizes": [1, 2, 4],
        "n_prompts": 40,
        "n_responses": 320,
        "responses_per_prompt": [7, 8.0, 9],
        "n_repeated": 5,
        "excluded": {
            "rows": nothing,
            "responses": {"seen": 325, "reasons": {"empty response": 5}},
            "quality": {"seen": 300, "reasons": {}},
        },
        "attributes": [
            _curve("jargon", "share", [0.25, 0.5, 0.75], [0.25, 0.25, 0.25], 0.125),
            _curve("words", "mean", [100.0, 110.0, 130.0], [100.0, 104.0, 105.0], 4.0),
        ],
        "quality": quality,
        "unvaried": ["structure"],
        "versions": {"cda": "0.1.0"},
    }
    return BestOfResult.model_validate(found)


def _one_model(result: BestOfResult) -> BestOfResult:
    one = result.model_dump()
    one["scorings"], one["models"] = ["model"], {"model": one["models"]["before"]}
    for curve in [*one["attributes"], one["quality"]]:
        curve |= {"slope": {"model": curve["slope"]["before"]}, "slope_change": None, "p_value": None, "p_holm": None}
        for at in curve["at"]:
            at |= {key: {"model": at[key]["before"]} for key in ("scorings", "complete")} | {"change": None}
    return BestOfResult.model_validate(one)


def test_the_largest_n_stands_beside_the_policy(result: BestOfResult) -> None:
    table = best_of_n_tables(result)[0]
    assert table.header == ("picks", "n = 1", "before, n = 4", "after, n = 4", "change", "p", "p (Holm)", "prompts")
    assert table.rows == (
        ("jargon (share)", "25% [19, 31]", "75% [62, 88]", "25% [12, 38]", "−50 [−62, −38] points", "< 0.001", "0.012", "38"),
        ("words (mean)", "100.0 [98.0, 102.0]", "130.0 [126.0, 134.0]", "105.0 [101.0, 109.0]", "−25.0 [−29.0, −21.0]",
         "< 0.001", "0.012", "38"),
        ("quality (mean)", "2.00 [1.88, 2.12]", "3.00 [2.75, 3.25]", "2.50 [2.25, 2.75]", "−0.50 [−0.75, −0.25]",
         "< 0.001", "", "38"),
    )  # fmt: skip


def test_slopes_and_values_without_an_interval(result: BestOfResult) -> None:
    table = best_of_n_tables(result)[1]
    assert table.rows[0] == (
        "jargon (share)",
        "+12.5 [+9.5, +15.5] points",
        "0 points (all alike)",
        "−12.5 [−15.5, −9.5] points",
        "38",
    )
    assert table.rows[1][1:4] == ("+0.125 [+0.095, +0.155]", "0 (all alike)", "−0.125 [−0.155, −0.095]")


def test_rounding_does_not_hide_the_side_of_zero(result: BestOfResult) -> None:
    near = changed(result, "attributes.1.slope_change", _measured(0.5, 0.5004))
    assert best_of_n_tables(near)[1].rows[1][3] == "+0.50 [−0.0004, +1.00]"


def test_every_n_with_its_kl_and_its_prompts(result: BestOfResult) -> None:
    jargon, _, quality = best_of_n_tables(result)[2:]
    assert [row[0] for row in jargon.rows] == ["1", "2", "4"]
    assert jargon.rows[0] == ("1", "0.00", "25% [12, 38]", "25% [12, 38]", "none by construction", "40", "0")
    assert jargon.rows[2][1] == "1.00" and jargon.rows[2][-2:] == ("38", "2")
    assert quality.caption.endswith("unknown in 3 prompts, left out")


def test_what_was_counted_is_said(result: BestOfResult) -> None:
    text = "\n".join(best_of_n_sentences(result))
    assert "320 responses to 40 prompts, 7 to 9 (median 8) each" in text
    assert "Left out of 325 responses: 5 empty response." in text
    assert "5 responses repeat another" in text and "differ in it: structure" in text
    assert "7 of 300 texts were cut" in text and "two n may differ by their prompts" not in text
    assert "two n may differ by their prompts" in str(
        best_of_n_sentences(changed(result, "responses_per_prompt", (3, 8.0, 9)))
    )
    without = changed(result, "quality", Missing(reason="known for 1 prompts"))
    assert "Quality is not followed: known for 1 prompts." in best_of_n_sentences(without)


def _drawn(result: BestOfResult) -> Figure:
    """The panels of the overview, in a figure that nothing has been written of."""
    figure = Figure(layout="constrained")
    overview_plot(result).draw(figure.add_subplot())
    return figure


def _marks(panel: Axes, color: str) -> list[list[float]]:
    """Where the marks of one scoring stand: across, then up."""
    lines = [line for line in panel.lines if line.get_color() == color and line.get_marker() in ("o", "s")]
    return [np.asarray(line.get_data(), float)[:, 0].tolist() for line in lines]


def test_the_page_holds_the_largest_n_beside_one(result: BestOfResult) -> None:
    text = best_of_n_page(result)
    first = words(text.split("<nav")[0])
    jargon = "jargon (share): 25% [19, 31] at n = 1; at n = 4: 75% [62, 88] before, 25% [12, 38] after; change −50 ["
    assert jargon in first and "(p &lt; 0.001, Holm 0.012); 38 prompts." in first
    assert "quality (mean): 2.00 [" in first and first.count("Holm") == 2
    page = checked(text)
    assert section_ids(page) == ["curves", "slopes", "by-n", "scoring", "meaning"]
    assert figures(page) == ["curve-1", "curve-2", "curve-3", "slopes"]
    plots = {plot.id: plot for plot in best_of_n_plots(result)}  # what is written as files
    assert list(plots) == ["best_of_n", *figures(page)]
    assert plots["curve-1"].description.startswith(
        "n = 1: 25% [19, 31] before, 25% [19, 31] after. n = 2: 50% [44, 56] before"
    )
    assert (plots["curve-2"].title, plots["curve-3"].title) == ("words (mean)", "quality (mean)")
    assert plots["slopes"].description == "jargon: +12.5 [+9.5, +15.5] points before, 0 points (all alike) after."


def test_one_model_is_compared_with_nothing(result: BestOfResult) -> None:
    alone = _one_model(result)
    text = best_of_n_page(alone)
    assert figures(checked(text)) == ["curve-1", "curve-2", "curve-3", "slopes"]
    first = words(text.split("<nav")[0])
    assert "at n = 4: 75% [62, 88]; 38 prompts." in first and "change" not in first
    assert not _drawn(alone).legends and "after" not in overview_plot(alone).description
    assert best_of_n_tables(alone)[0].header == ("picks", "n = 1", "model, n = 4", "prompts")
    assert all(len(row) == len(table.header) for table in best_of_n_tables(alone) for row in table.rows)
    assert "after" not in best_of_n_text(alone)


def test_means_alone_have_no_figure_of_slopes(result: BestOfResult) -> None:
    means = changed(result, "attributes", result.attributes[1:])
    assert figures(checked(best_of_n_page(means))) == ["curve-1", "curve-2"]


def test_a_value_that_is_the_same_everywhere_has_a_mark_and_no_interval(result: BestOfResult) -> None:
    for place in range(3):
        for over in ("complete", "scorings"):
            for attribute in range(2):
                result = changed(result, f"attributes.{attribute}.at.{place}.{over}.after", _alike(0.0))
    panel = _drawn(result).axes[1]
    assert [y for _, y in _marks(panel, AFTER)] == [0, 0, 0]
    assert {len(line.get_xdata()) for line in panel.lines if line.get_color() == AFTER} == {1, 3}  # type: ignore[arg-type]
    assert "after. n = 2" in overview_plot(result).description
    text = best_of_n_page(result)
    checked(text)
    assert "0% (all alike) after" in words(text)


def test_every_curve_has_a_panel_and_marks_lie_at_the_numbers(result: BestOfResult) -> None:
    figure = _drawn(result)
    jargon, lengths, _ = figure.axes
    titles = [panel.get_title(loc="left") for panel in figure.axes]
    assert titles == ["jargon (share)", "words (mean)", "quality (mean)"]
    # n by its logarithm, the two scorings beside each other.
    assert _marks(jargon, BEFORE) == [[pytest.approx(at - 0.06), y] for at, y in enumerate((0.25, 0.5, 0.75))]
    assert _marks(lengths, AFTER) == [[pytest.approx(at + 0.06), y] for at, y in enumerate((100, 104, 105))]
    lines = [line for line in lengths.lines if line.get_color() == AFTER and len(line.get_xdata()) == 2]  # type: ignore[arg-type]
    assert [list(line.get_ydata()) for line in lines] == [[98, 102], [102, 106], [103, 107]]  # type: ignore[arg-type]
    assert [label.get_text() for label in jargon.get_xticklabels()] == ["1", "2", "4"]
    (key,) = figure.legends
    assert [text.get_text() for text in key.get_texts()] == ["before", "after"]


@pytest.mark.parametrize(("n", "rows", "width"), [(1, 1, 3.4), (3, 1, PAGE_INCHES), (7, 3, PAGE_INCHES)])
def test_three_panels_stand_beside_each_other(n: int, rows: int, width: float, result: BestOfResult) -> None:
    curves = changed(result, "attributes", result.attributes[:1] * n)
    result = changed(curves, "quality", Missing(reason="none was given"))
    assert overview_plot(result).width == width
    panels = _drawn(result).axes
    assert len(panels) == n and panels[-1].get_subplotspec().get_gridspec().nrows == rows  # type: ignore[union-attr]


def test_sizes_that_would_stand_too_close_are_not_labelled() -> None:
    assert spaced([1, 2, 4, 8], 7) == [1, 2, 4, 8]
    assert spaced([1, 2, 4, 8, 16, 32, 64, 128, 256], 7) == [1, 4, 16, 64, 256]
    assert spaced([1, 2, 3, 4, 5, 6, 7, 8], 4) == [1, 2, 4, 8]


def test_nothing_from_outside_is_markup_or_obeyed(
    result: BestOfResult, tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    names = [
        f"{curve}.{what}" for curve in ("attributes.0", "attributes.1", "quality") for what in ("name", "definition")
    ]
    for path in ("responses", *names, "models.before.model", "models.before.adapter"):
        result = changed(result, path, f"\u4e2d{HOSTILE}")
    page, markdown = best_of_n_page(result), best_of_n_markdown(result)
    checked(page)
    assert "<script>alert" not in page + markdown and "[U+202E]" in page
    rows = [line for line in markdown.splitlines() if line.startswith("| \u4e2da")]
    assert rows and all(line.count(" | ") == 7 for line in rows[:1])
    file = save_plot(overview_plot(result), tmp_path, "svg")
    assert file.name == "best_of_n.svg" and not recwarn.list
    svg = file.read_text(encoding="utf-8")
    for text in (markdown, best_of_n_text(result), svg):
        assert "\x1b" not in text and "\u202e" not in text
    root = ElementTree.fromstring(svg)
    assert not list(root.iter(f"{SVG}script"))
    assert (root.findtext(f"{SVG}title") or "").startswith("What the reward picks among n responses")
    (described,) = root.iter("{http://purl.org/dc/elements/1.1/}description")
    assert described.text and "(mean): n = 1: 100.0 [98.0, 102.0] before, 100.0 [" in described.text
    assert any("a<script>" in (element.text or "") for element in root.iter(f"{SVG}text"))
