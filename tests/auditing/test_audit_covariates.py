"""Effects by columns of the user's data: planted in one topic, growing with a number, and every way in which a column fails."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from made_audits import make_audit
from rows import triples
from scipy import stats

from cda.auditing.analysis import by_columns
from cda.auditing.groups import Group
from cda.auditing.report_plots import section_plots
from cda.auditing.report_tables import by_tables
from cda.biases import load_bias
from cda.data.contrasts import clean_contrasts
from cda.data.triples import clean_triples
from cda.records import Contrast, user_prompt
from cda.resources.sources import by_problems, cutoff_problems
from cda.results.base import Missing, Test
from cda.results.effects import Grouping, Heterogeneity
from cda.scorers.compared import Rewards, text_id

N = 60
RNG = np.random.default_rng(3)
TOPICS = [("home", "music", "travel")[row % 3] for row in range(N)]


def group_of(margins: dict[str, np.ndarray], topics: list[str | None], years: np.ndarray) -> Group:
    contrasts = tuple(
        Contrast("jargon", user_prompt(f"q{row}"), f"p{row}", f"b{row}",
                 tags={"by": {"year": f"{years[row]:g}"} | ({"topic": topic} if topic else {})})
        for row, topic in enumerate(topics)
    )  # fmt: skip
    return Group(load_bias("jargon"), True, contrasts, tuple(f"q{row}" for row in range(N)), margins, "reward", 0)


def found_of(margins: dict[str, np.ndarray], topics: list[str | None] | None = None) -> Any:
    group = group_of(margins, list(TOPICS) if topics is None else topics, np.arange(N) + 1950.0)
    return by_columns([group], [], {}, ["topic", "year"], {"year": [1970, 1990]}, {})["jargon"]


def test_effects_of_opposite_sign_are_found_by_level_and_told_apart() -> None:
    sign = np.array([{"home": 1.0, "music": -1.0, "travel": 0.0}[topic] for topic in TOPICS])
    topic = found_of({"model": sign + RNG.normal(0, 0.5, N)})["contrasts"]["topic"]
    assert isinstance(topic, Grouping) and topic.kind == "categories" and topic.n_missing == 0
    home, music, travel = topic.levels
    assert home.of("margin", "model").value == pytest.approx(1, abs=0.3) and home.n == home.n_prompts == 20
    assert home.of("skew", "model").value > 0.8 > 0.2 > music.of("skew", "model").value
    tests = [level.test for level in (home, music, travel)]
    assert all(isinstance(test, Test) and test.p_holm is not None and test.p_holm >= test.p_value for test in tests)
    assert tests[0].holm < 0.01 > tests[1].holm and tests[2].holm > 0.05  # type: ignore[union-attr]
    assert isinstance(topic.differ["model"], Heterogeneity) and topic.differ["model"].p_value < 1e-6 and not topic.slope


def test_a_slope_over_numbers_and_ranges_by_cutoffs() -> None:
    year = found_of({"model": 0.05 * np.arange(N) + RNG.normal(0, 0.5, N)})["contrasts"]["year"]
    assert isinstance(year, Grouping) and year.kind == "numbers" and year.cutoffs == (1970, 1990)
    assert [level.name for level in year.levels] == ["below 1970", "1970 to below 1990", "1990 or more"]
    slope = year.slope["model"].estimate
    assert slope.unit == "reward per 1 of year" and slope.low < 0.05 < slope.high


def test_a_training_is_tested_for_its_change_in_each_level() -> None:
    before = np.ones(N) + RNG.normal(0, 0.2, N)
    fell = np.where(np.array(TOPICS) == "music", -2.0, 0.0)
    topic = found_of({"before": before, "after": before + fell + RNG.normal(0, 0.1, N)})["contrasts"]["topic"]
    assert list(topic.differ) == ["before", "after", "change"] and topic.differ["change"].p_value < 1e-6
    levels = {level.name: level for level in topic.levels}
    music = levels["music"]
    assert music.of("skew", "change").value == -1
    assert isinstance(music.test, Test) and music.test.holm < 0.001
    assert isinstance(levels["home"].test, Test) and levels["home"].test.p_value == 1


def test_a_report_has_tables_and_a_figure_of_the_levels() -> None:
    before, rows = np.ones(N) + RNG.normal(0, 0.2, N), np.arange(N) + RNG.normal(0, 0.01, N)
    audit = make_audit().model_copy(
        update={"by": {"jargon": found_of({"before": before, "after": before - rows / 30})}}
    )
    levels, none, differ = by_tables(audit)
    assert levels is not None and none is None and differ is not None and len(levels.rows) == 3 + 3
    assert levels.rows[3][:2] == ("jargon, year: below 1970", "100% [84, 100]") and levels.rows[3][5:7] == ("20", "20")
    assert levels.rows[5][3] == "−100 [−100, −77]" and levels.rows[5][8] == "< 0.001"
    slopes = {row[0]: row[2] for row in differ.rows if row[0].startswith("jargon, year")}
    assert slopes["jargon, year: change of the margin"].startswith("−0.033")
    plots = {plot.id: plot for plot in section_plots(audit)["by"]}
    assert set(plots) == {"by-jargon-topic-margin", "by-jargon-year-margin"}
    assert plots["by-jargon-year-margin"].description.count(" after") == 3


def test_rows_without_a_value_are_counted_and_a_column_of_none_is_missing() -> None:
    topics: list[str | None] = [None if row < 6 else topic for row, topic in enumerate(TOPICS)]
    found = found_of({"model": RNG.normal(size=N)}, topics)
    topic = found["contrasts"]["topic"]
    assert topic.n_missing == 6 and sum(level.n for level in topic.levels) == N - 6
    none = found_of({"model": RNG.normal(size=N)}, [None] * N)
    assert none["contrasts"]["topic"] == Missing(reason="these contrasts have no value in it")
    assert isinstance(none["triples"]["topic"], Missing)


def test_rate_by_a_column() -> None:
    """The attribute is worth 1 in one topic and nothing in the other."""
    rows = [replace(row, by=(("topic", "home" if at % 4 < 2 else "music"),)) for at, row in enumerate(triples(48))]
    rewards = {}
    for at, row in enumerate(rows):
        for text, has in ((row.original, row.has_attribute), (row.rewrite, not row.has_attribute),
                          (row.rewrite_of_rewrite, row.has_attribute)):  # fmt: skip
            rewards[text_id(row.prompt, text)] = at + has * (at % 4 < 2) + RNG.normal(0, 0.2)
    group = group_of({"model": RNG.normal(size=N)}, list(TOPICS), np.arange(N) * 1.0)
    found = by_columns([group], rows, {"model": Rewards(rewards)}, ["topic"], {}, {})["jargon"]["triples"]["topic"]
    assert isinstance(found, Grouping) and [level.name for level in found.levels] == ["home", "music"]
    effects = [level.of("rate", "model") for level in found.levels]
    assert effects[0] and effects[0].value == pytest.approx(1, abs=0.2) and effects[0].method == "clustered t 95% (CR2)"
    assert effects[1] and effects[1].low < 0 < effects[1].high
    test, t = found.levels[0].test, effects[0].value / found.levels[0].errors["model"]
    assert isinstance(test, Test) and test.p_value == pytest.approx(2 * stats.t.sf(t, effects[0].n_prompts - 1))
    assert test.holm < 0.001 and isinstance(found.differ["model"], Test) and found.differ["model"].p_value < 1e-6
    refused = by_columns([group], rows, {"model": Rewards(rewards)}, ["topic"], {}, {"jargon": {"ATE": "too few"}})
    assert refused["jargon"]["triples"]["topic"] == Missing(reason="too few")
    assert by_columns([group], rows, {}, [], {}, {}) == {}


def test_columns_are_read_from_files_and_rows_that_differ_have_none() -> None:
    texts = {"prompt": "q", "base": "b", "perturbed": "p"}
    rows = [
        texts | {"topic": "home", "year": 1990},
        texts | {"topic": "music", "year": 1990},
        texts | {"base": "c", "topic": " "},
    ]
    found = clean_contrasts(rows, ["jargon"], {}, "f", by=["topic", "year"])
    assert [contrast.tags.get("by", {}) for contrast in found.contrasts] == [{"year": "1990"}, {}]
    triple = {"prompt": "q", "original": "a", "rewrite": "b", "rewrite_of_rewrite": "c", "has_attribute": 1, "topic": 3}
    assert clean_triples([triple], ["jargon"], {}, "f", by=["topic"]).triples[0].by == (("topic", "3"),)


def test_columns_that_cannot_be_compared_are_named_all_at_once() -> None:
    rows = {"mine.jsonl": [{"topic": "home", "year": 1, "empty": None}, {"topic": "home", "year": 2, "empty": ""}]}
    found = list(by_problems(["topc", "topic", "empty", "year"], rows))
    assert "no column 'topc'. Did you mean 'topic'? Found: empty, topic, year" in found[0]
    assert "'topic' is the same in every row ('home')" in found[1] and "'empty' is empty in every row" in found[2]
    assert len(found) == 3 and "embedded texts have no columns" in next(by_problems(["topic"], {}))
    cut = list(cutoff_problems(["year"], {"yeer": [1], "year": [1, 1]}))
    assert "'yeer' is no column of audit.by (year)" in cut[0] and "different numbers" in cut[1] and len(cut) == 2
