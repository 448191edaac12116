"""The page of `cda best-of`: prevalence against n with its numbers in words, one model or two, inert text."""

from __future__ import annotations

import test_best_of_n_tables as tables
from changed import changed
from page_checks import checked, figures, section_ids, words

from cda.benchmarks.best_of_n_report import best_of_n_page, best_of_n_plots, curve_plots, slope_plot
from cda.results.base import Missing
from cda.results.benchmarks import BestOfResult

result = tables.result


def test_the_first_screen_holds_the_largest_n_beside_one(result: BestOfResult) -> None:
    text = best_of_n_page(result)
    first = words(text.split("<nav")[0])
    assert (
        "jargon (share): 25% [19, 31] at n = 1; at n = 4: 75% [62, 88] before, 25% [12, 38] after; change −50 ["
        in first
    )
    assert "(p &lt; 0.001, Holm 0.012); 38 prompts." in first
    assert "quality (mean): 2.00 [" in first and first.count("Holm") == 2
    page = checked(text)
    assert section_ids(page) == ["curves", "slopes", "by-n", "scoring", "meaning"]
    assert figures(page) == ["curve-1", "curve-2", "curve-3", "slopes"]
    assert [one.id for one in best_of_n_plots(result)] == ["best_of_n", *figures(page)]  # what is written as files


def test_every_figure_has_its_numbers_in_words(result: BestOfResult) -> None:
    jargon, words_, quality = curve_plots(result)
    assert jargon.description.startswith("n = 1: 25% [19, 31] before, 25% [19, 31] after. n = 2: 50% [44, 56] before")
    assert (words_.title, quality.title) == ("words (mean)", "quality (mean)")
    slopes = slope_plot(result)
    assert slopes and slopes.description == "jargon: +12.5 [+9.5, +15.5] points before, 0 points (all alike) after."


def test_one_model_is_compared_with_nothing(result: BestOfResult) -> None:
    text = best_of_n_page(tables._one_model(result))
    assert "figure" in text and figures(checked(text)) == ["curve-1", "curve-2", "curve-3", "slopes"]
    first = words(text.split("<nav")[0])
    assert "at n = 4: 75% [62, 88]; 38 prompts." in first and "change" not in first


def test_means_alone_have_no_figure_of_slopes(result: BestOfResult) -> None:
    result = changed(result, "attributes", result.attributes[1:])
    assert slope_plot(result) is None
    assert figures(checked(best_of_n_page(result))) == ["curve-1", "curve-2"]


def test_a_value_that_is_the_same_everywhere_has_no_interval(result: BestOfResult) -> None:
    result = changed(changed(result, "attributes", result.attributes[:1]), "quality", Missing(reason="none was given"))
    for place in range(3):
        for over in ("complete", "scorings"):
            result = changed(result, f"attributes.0.at.{place}.{over}.after", tables._alike(0.0))
    text = best_of_n_page(result)
    checked(text)
    assert "0% (all alike) after" in words(text)


def test_hostile_names_are_inert(result: BestOfResult) -> None:
    hostile = tables.HOSTILE + "\ud800\ufffe"
    for path in ("responses", *(f"{one}.{what}" for one in ("attributes.0", "attributes.1", "quality") for what in ("name", "definition")),
                 "models.before.model", "models.before.adapter"):  # fmt: skip
        result = changed(result, path, hostile)
    text = best_of_n_page(result)
    checked(text)
    assert "<script>alert" not in text and "[U+202E]" in text
