"""The evals' own machinery: the simulated world has the effect it plants, levels keep their margins, failures count."""

from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

EVALS = Path(__file__).parent.parent.parent / "evals"


def test_a_world_has_its_planted_effect_and_misleads_the_others() -> None:
    from cda.stats.rate import effect
    from evals.method.simulated_world import World, draw

    sample = draw(World(), np.random.default_rng(0), 20_000, 3).contrasts()
    assert effect(sample).estimate.value == pytest.approx(0.5, abs=0.02)
    # ξ: half of the rows gain 0.8 − 0.4, the other half 0.4 − 0.
    assert effect(sample, "ATE", "single").estimate.value == pytest.approx(0.5 + 0.4, abs=0.02)
    assert effect(sample, "ATE", "naive").estimate.value > 1.5


def test_without_distortion_all_estimators_agree() -> None:
    from cda.stats.rate import effect
    from evals.method.simulated_world import World, draw

    world = World(effect_by_z=0, z_reward=0, xi_reward=0)
    sample = draw(world, np.random.default_rng(0), 5000, 1).contrasts()
    found = [effect(sample, "ATE", estimator).estimate.value for estimator in ("double", "single", "naive")]
    assert found == pytest.approx([0.5] * 3, abs=0.05)


def test_paired_errors_are_narrower_than_welch_s() -> None:
    from scipy import stats

    from cda.stats.rate import effect
    from evals.method.simulated_world import World, draw, welch_standard_error

    sample = draw(World(), np.random.default_rng(0), 200, 3)
    assert effect(sample.contrasts()).standard_error < 0.8 * welch_standard_error(sample)
    # The reference code's errors by scipy: one Welch test a direction, weighted.
    variance = 0.0
    for group in (sample.attribute, ~sample.attribute):
        back, rewrite = sample.rewrite_of_rewrite[group], sample.rewrite[group]
        test = stats.ttest_ind(back, rewrite, equal_var=False)
        variance += (group.mean() * (back.mean() - rewrite.mean()) / test.statistic) ** 2
    assert welch_standard_error(sample) == pytest.approx(math.sqrt(variance))


def test_every_level_keeps_its_margins() -> None:
    from evals.method.distribution_shift import LEVELS, cells

    rows = list(cells(100))
    assert len(rows) == 100 * len(LEVELS)
    for level in LEVELS:
        found = Counter((long, positive) for at, long, positive in rows if at == level)
        assert found[True, True] == round(50 * level)
        assert found[True, True] + found[True, False] == 50  # half are long
        assert found[True, True] + found[False, True] == 50  # half are positive


def test_the_classifier_s_regression_is_the_library_s() -> None:
    from evals.method.distribution_shift import RIDGE, logistic

    library = pytest.importorskip("sklearn.linear_model")

    random = np.random.default_rng(0)
    features = random.normal(size=(200, 5))
    labels = features[:, 0] + random.normal(size=200) > 0.3
    weights, intercept = logistic(features, labels)
    known = library.LogisticRegression(C=1 / (RIDGE * 200), tol=1e-8).fit(features, labels)
    assert weights == pytest.approx(known.coef_[0], abs=1e-3)
    assert intercept == pytest.approx(known.intercept_[0], abs=1e-3)


def test_triples_come_in_both_directions_from_real_rules() -> None:
    from cda.features import n_words
    from evals.method.distribution_shift import triple

    text = "Bread is a good food. It is easy to make. Many people find it useful. It is popular, and a nice idea for a meal."
    for long in (True, False):
        versions, reason = triple("What is bread?", text, long, True)
        assert versions is not None, reason
        original, rewrite, back = (n_words(version) for version in versions)
        assert (original > 1.3 * rewrite and back > 1.3 * rewrite) if long else (rewrite > 1.3 * original > 0.9 * back)
        assert versions[0] != text  # made positive
    assert triple("?", "Nothing.", False, True) == (None, "sentiment add: too few places to change")


def test_a_missed_threshold_ends_with_a_failing_status(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from evals import shared as outcome

    monkeypatch.setattr(outcome, "ROOT", tmp_path)
    (tmp_path / "evals").mkdir()
    missed = [outcome.Check("a", "1", True), outcome.Check("b", "2", False)]
    assert outcome.finish("x", "Claim: y.", missed, {"n": 3}) == 1
    written = json.loads((tmp_path / "evals" / "results" / "x.json").read_text())
    assert written["passed"] is False and written["numbers"] == {"n": 3} and len(written["date"]) == 10
    assert "FAILED  b" in capsys.readouterr().out
    assert outcome.finish("x", "Claim: y.", missed[:1], {}) == 0
    assert outcome.finish("x", "Claim: y.", [], {}) == 1  # nothing checked is nothing shown


def test_few_draws_of_each_simulation_run() -> None:
    from evals.method import null_bias, planted_effect
    from evals.method.simulated_world import World

    covered, ratios = planted_effect.coverage(World(), np.random.default_rng(0), 5)
    assert covered["double"] >= 0.6 and covered["naive"] == 0
    assert len(ratios) == 5 and max(ratios) < 1
    found = null_bias.p_values(np.random.default_rng(0), 3)
    assert found["double"].shape == (3, 10) and found["naive"].max() < 0.01


def test_the_results_hold_no_machine_path() -> None:
    for name in ("planted_effect", "null_bias", "distribution_shift", "rate_triples"):
        text = (EVALS / "results" / f"{name}.json").read_text(encoding="utf-8")
        assert "/tmp" not in text and "/work" not in text and "/home" not in text
        assert json.loads(text)["claim"].startswith("Claim: ")
