"""Figures of an audit: each exists exactly when its data do, holds the known numbers, and says them in words."""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree

import pytest
from changed import changed
from made_dose import held_out, made_dose
from matplotlib.axes import Axes
from matplotlib.container import ErrorbarContainer
from rows import estimate

from cda.auditing.report import audit_document, sections
from cda.auditing.report_plots import section_plots
from cda.report.drawing import axes_of, inline_svg
from cda.report.plots import Plot
from cda.results.base import Estimate, Missing
from cda.results.effects import FeatureDrift


def plots_of(audit: Any) -> dict[str, Plot]:
    found = audit_document(audit).plots
    assert len({plot.id for plot in found}) == len(found)
    return {plot.id: plot for plot in found}


def drawn(plot: Plot) -> Axes:
    (axes,) = axes_of(plot)
    return axes


def marks(axes: Axes) -> dict[str, tuple[list[float], list[float]]]:
    """Name of a mark to its values across and upwards."""
    found = [one for one in axes.containers if isinstance(one, ErrorbarContainer)]
    return {str(one.get_label()): tuple(list(side) for side in one[0].get_data()) for one in found}  # type: ignore[misc]


def labels(axes: Axes) -> list[str]:
    return [one.get_text() for one in axes.get_yticklabels()]


@pytest.fixture
def full(make_audit: Any) -> Any:
    """Everything but a dose."""
    audit = make_audit(
        {"jargon": (0.88, 0.40), "vagueness": (0.70, 0.30)}, votes={"jargon": (0.88, 0.40, 0.45), "length": (0.9, 0.6, 0.5)},
        rate=True,
    )  # fmt: skip
    return changed(audit, "drift.jargon.0.standardised", estimate(0.1))


@pytest.fixture
def dose() -> Any:
    """A dose of three, the middle one chosen."""
    return made_dose({"jargon": held_out(0.5, 0.2, 0.1, None)})


def test_figures_need_their_data_and_reach_their_section(full: Any, judge: Any, one_model: Any) -> None:
    for audit in (full, judge):
        found = {section.id: section.plots for section in sections(audit) if section.plots}
        assert {id: [plot.id for plot in own] for id, own in found.items()} == {
            id: [plot.id for plot in own] for id, own in section_plots(audit).items()
        }
    kept = tuple(each for each in full.measured if each.measure == "beyond_noise")
    without: dict[str, Any] = {"votes": {}, "analysis": {}, "measured": kept, "rate": {}}
    assert list(plots_of(full.model_copy(update=without))) == ["skew", "drift-jargon", "drift-vagueness"]
    assert "rewards-jargon" in plots_of(full) and "rewards-jargon" not in plots_of(judge)
    assert "human-skew" in plots_of(one_model)


def test_people_beside_the_known_shares(voted: Any) -> None:
    plots = plots_of(voted)
    axes = drawn(plots["human-skew"])
    assert labels(axes) == ["jargon", "length"]
    assert {name: across for name, (across, _) in marks(axes).items()} == {
        "people": pytest.approx([45, 50]), "before": pytest.approx([88, 90]), "after": pytest.approx([40, 60]),
    }  # fmt: skip
    said = plots["human-skew"].description
    assert "jargon: people 45% [36, 55], before 88% [80, 93], after 40% [31, 50] (n = 100)." in said
    missed = marks(drawn(plots["miscalibration"]))
    assert missed["before"][0] == pytest.approx([43, 40]) and missed["after"][0] == pytest.approx([5, 10])
    assert set(missed) == {"before", "after", "second majority of people"}
    for name in voted.votes:
        voted = changed(voted, f"votes.{name}.noise_ceiling", Missing(reason="one vote an item"))
    assert set(marks(drawn(plots_of(voted)["miscalibration"]))) == {"before", "after"}


def test_rate_shows_the_naive_number_once(full: Any) -> None:
    plot = plots_of(full)["rate-jargon"]
    axes = drawn(plot)
    assert labels(axes) == ["naive", "ATE single", "ATE double", "ATT single", "ATT double", "ATU single", "ATU double"]
    effects = {(one.estimand, one.estimator): one.estimate for one in full.rate["jargon"].measured.after.effects}
    found = marks(axes)["after"][0]
    assert (found[0], found[2]) == pytest.approx((effects["ATE", "naive"].value, effects["ATE", "double"].value))
    assert len(axes.patches) == 14  # a bar for each of seven effects, before and after
    assert "RATE effects of jargon on 20 triples. naive: before " in plot.description
    full = changed(full, "rate.jargon.measured.before", Missing(reason="one prompt only"))
    assert set(marks(drawn(plots_of(full)["rate-jargon"]))) == {"after"}


def drifted(
    name: str, standardised: Estimate | None, beyond: Estimate | None = None, is_treatment: bool = False
) -> FeatureDrift:
    found: dict[str, Any] = {"standardised": standardised, "beyond": beyond}
    return FeatureDrift(
        feature=name, is_treatment=is_treatment, perturbed_mean=1.0, base_mean=1.0, difference=estimate(0.0),
        median_ratio=None, limit=None, **found,
    )  # fmt: skip


def test_drift_leaves_the_bias_itself_out(voted: Any) -> None:
    features = [
        drifted("words", estimate(0.5), estimate(0.2)),
        drifted("long_word_share", estimate(2.0), is_treatment=True),
        drifted("bold", None),
        drifted("headers", estimate(-9.0)),
    ]
    voted = changed(voted, "drift.jargon", tuple(features))
    plot = plots_of(voted)["drift-jargon"]
    axes = drawn(plot)
    assert labels(axes) == ["words", "headers"]
    assert axes.get_xlim()[0] == -3  # what lies far outside is named at the edge
    assert [text.get_text() for text in axes.texts] == ["−9.00 ←"]
    assert "words +0.50 [+0.40, +0.60], 20% [10, 30] of pairs beyond the limit." in plot.description
    voted = changed(voted, "drift.jargon", tuple(features[1:3]))
    assert "drift-jargon" not in plots_of(voted)


def test_hostile_names_are_inert(hostile: Any) -> None:
    for plot in audit_document(hostile).plots:
        assert re.fullmatch(r"[a-z0-9-]+", plot.id)
    (change,) = [plot for plot in audit_document(hostile).plots if plot.id == "skew"]
    svg = inline_svg(change)
    ElementTree.fromstring(svg)
    assert "<i>" not in svg and "\x1b" not in svg and "[U+001B]" in svg
