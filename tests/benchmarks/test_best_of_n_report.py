"""Best-of-n in tables, page and figures: marks lie at the numbers, and nothing from outside is markup."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from changed import changed
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from page_checks import checked

from cda.benchmarks import best_of_n_report as report
from cda.benchmarks.best_of_n import Attribute, best_of_n, tilted
from cda.records import Exclusions
from cda.report.drawing import FigureForm, plotted, save_plot
from cda.report.plots import AFTER, BEFORE
from cda.results.benchmarks import AskedModel, BestOfResult
from cda.results.facts import RewardModelFacts

HOSTILE = "中a<script>alert(1)</script>\x1b[31m|\u202eb\ud800\ufffe"


def result_of(*labels: str) -> BestOfResult:
    """Two attributes and a quality of 40 prompts with 7 or 8 responses each, under random rewards that like both."""
    rng = np.random.default_rng(0)
    shown, lengths = rng.integers(0, 2, 40 * 8), rng.normal(100, 20, 40 * 8)
    rewards = {label: shown + lengths / 20 + rng.normal(size=320) for label in labels}
    attributes = [Attribute("jargon", "share", shown * 1.0), Attribute("words", "mean", lengths)]
    prompts = [f"p{row // 8}" if row else "p39" for row in range(320)]
    quality = Attribute("quality", "mean", rng.normal(size=320))
    curves = best_of_n(rewards, attributes, prompts, quality=quality)
    facts = RewardModelFacts(kind="reward model", name="rm", precision="fp32", texts=300, truncated=7)
    asked = AskedModel(model="rm", adapter=None, adapter_content=None, dose=1.0, facts=facts)
    return BestOfResult(
        **dict(curves),
        tilt=tilted(rewards, attributes, prompts, curves, [0.5, 3.0], quality),
        responses="sampled.jsonl",
        scorings=labels,
        models=dict.fromkeys(labels, asked),
        n_repeated=5,
        excluded={"responses": Exclusions(325, {"empty response": 5}), "quality": Exclusions(300, {})},
        versions={"cda": "0.1.0"},
    )


TWO, ALONE = result_of("before", "after"), result_of("model")


def panels(result: BestOfResult) -> Figure:
    """The figure of the curves, which nothing has been written of."""
    return plotted(report.best_of_n_document(result).plots, "best_of_n", "double")[0].figure


def marks(panel: Axes, color: str) -> list[list[float]]:
    """One scoring's marks: their place across and up, and the ends of their intervals."""
    (drawn,) = (each for each in panel.containers if each.lines[0].get_color() == color)  # type: ignore[attr-defined]
    line, _, (bars,) = drawn.lines  # type: ignore[attr-defined]
    ends = ([low[1], high[1]] for low, high in bars.get_segments())
    return [[*place, *own] for place, own in zip(zip(*line.get_data(), strict=True), ends, strict=True)]


def test_every_curve_has_a_panel_and_marks_lie_at_the_numbers() -> None:
    figure = panels(TWO)
    jargon, lengths, _ = figure.axes
    titles = [panel.get_title(loc="left") for panel in figure.axes]
    assert titles == ["jargon (share)", "words (mean)", "quality (mean)"]
    # n by its logarithm, the two scorings next to each other.
    for panel, curve in zip((jargon, lengths), TWO.attributes, strict=True):
        for label, color, shift in (("before", BEFORE, -0.06), ("after", AFTER, 0.06)):
            at = [size.complete[label] for size in curve.at]
            expected = [[place + shift, each.value, each.low, each.high] for place, each in enumerate(at)]  # type: ignore[union-attr]
            assert marks(panel, color) == [pytest.approx(each) for each in expected]
    assert [label.get_text() for label in jargon.get_xticklabels()] == ["1", "2", "4", "8"]
    (key,) = figure.legends
    assert [text.get_text() for text in key.get_texts()] == ["before", "after"]


def test_nothing_from_outside_is_markup_or_obeyed(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    result = TWO
    curves = [f"{curve}.{part}" for curve in ("attributes.0", "quality") for part in ("name", "definition")]
    for path in ("responses", *curves, "models.before.model", "models.before.adapter"):
        result = changed(result, path, HOSTILE)
    page, markdown = report.best_of_n_document(result).page(), report.best_of_n_document(result).markdown()
    checked(page)
    assert "<script>alert" not in page + markdown and "[U+202E]" in page
    glance, *_, row = [line for line in markdown.splitlines() if line.startswith("| 中a")][:3]
    assert (glance.count(" | "), row.count(" | ")) == (5, 7)
    plot, _ = report.best_of_n_document(result).plots
    file = save_plot(plot, tmp_path, FigureForm("svg")).path
    assert file.name == "best_of_n.svg" and not recwarn.list
    svg = file.read_text(encoding="utf-8")
    for text in (markdown, report.best_of_n_document(result).text(), svg):
        assert "\x1b" not in text and "\u202e" not in text
    texts = [element.text or "" for element in ElementTree.fromstring(svg).iter() if not element.tag.endswith("script")]
    assert len(texts) == len(list(ElementTree.fromstring(svg).iter())) and any("a<script>" in text for text in texts)
