"""Effects by columns of the user's data: planted in one topic, growing with a number, and every way in which a column fails."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from rows import triples
from scipy import stats

from cda.auditing.analysis import by_columns
from cda.auditing.groups import Group
from cda.biases import load_bias
from cda.data.contrasts import clean_contrasts
from cda.data.triples import clean_triples
from cda.records import Contrast, user_prompt
from cda.resources.sources import by_problems, cutoff_problems
from cda.results.base import Estimate, Measure, Missing, Test
from cda.results.effects import ByColumn, Effect
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
    assert isinstance(topic, ByColumn) and topic.kind == "categories" and topic.n_missing == 0
    home, music, travel = topic.levels
    assert isinstance(home.effect.last, Effect) and home.effect.last.estimate.value == pytest.approx(1, abs=0.3)
    assert isinstance(home.skew, Measure) and isinstance(music.skew, Measure)
    assert home.skew.before.value > 0.8 > 0.2 > music.skew.before.value and home.n == home.n_prompts == 20
    tests = [level.test for level in (home, music, travel)]
    assert all(isinstance(test, Test) and test.p_holm is not None and test.p_holm >= test.p_value for test in tests)
    assert tests[0].holm < 0.01 > tests[1].holm and tests[2].holm > 0.05  # type: ignore[union-attr]
    assert isinstance(topic.differ.last, Test) and topic.differ.last.p_value < 1e-6
    assert isinstance(topic.slope.last, Missing) and "categories" in topic.slope.last.reason


def test_a_slope_over_numbers_and_ranges_by_cutoffs() -> None:
    year = found_of({"model": 0.05 * np.arange(N) + RNG.normal(0, 0.5, N)})["contrasts"]["year"]
    assert isinstance(year, ByColumn) and year.kind == "numbers" and year.cutoffs == (1970, 1990)
    assert [level.name for level in year.levels] == ["below 1970", "1970 to below 1990", "1990 or more"]
    assert isinstance(year.slope.last, Effect) and year.slope.last.estimate.unit == "reward per 1 of year"
    assert year.slope.last.estimate.low < 0.05 < year.slope.last.estimate.high


def test_a_training_is_tested_for_its_change_in_each_level() -> None:
    before = np.ones(N) + RNG.normal(0, 0.2, N)
    fell = np.where(np.array(TOPICS) == "music", -2.0, 0.0)
    topic = found_of({"before": before, "after": before + fell + RNG.normal(0, 0.1, N)})["contrasts"]["topic"]
    assert isinstance(topic, ByColumn) and isinstance(topic.change_differs, Test)
    assert topic.change_differs.p_value < 1e-6
    levels = {level.name: level for level in topic.levels}
    music = levels["music"]
    assert isinstance(music.skew, Measure) and isinstance(music.skew.change, Estimate) and music.skew.change.value == -1
    assert isinstance(music.test, Test) and music.test.holm < 0.001
    assert isinstance(levels["home"].test, Test) and levels["home"].test.p_value == 1


def test_rows_without_a_value_are_counted_and_a_column_of_none_is_missing() -> None:
    topics: list[str | None] = [None if row < 6 else topic for row, topic in enumerate(TOPICS)]
    found = found_of({"model": RNG.normal(size=N)}, topics)
    topic = found["contrasts"]["topic"]
    assert isinstance(topic, ByColumn) and topic.n_missing == 6 and sum(level.n for level in topic.levels) == N - 6
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
    assert isinstance(found, ByColumn) and [level.name for level in found.levels] == ["home", "music"]
    home, music = (level.effect.last for level in found.levels)
    assert isinstance(home, Effect) and isinstance(music, Effect) and home.estimate.value == pytest.approx(1, abs=0.2)
    assert music.estimate.low < 0 < music.estimate.high and home.estimate.method == "clustered t 95% (CR2)"
    assert home.p_value == pytest.approx(
        2 * stats.t.sf(home.estimate.value / home.standard_error, home.estimate.n_prompts - 1)
    )
    assert (
        isinstance(found.levels[0].test, Test)
        and found.levels[0].test.holm < 0.001
        and isinstance(found.differ.last, Test)
        and found.differ.last.p_value < 1e-6
    )
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
