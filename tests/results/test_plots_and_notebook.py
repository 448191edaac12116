"""Figures of results as axes, and what a notebook shows of them."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
from made_audits import HOSTILE, KINDS, make_audit
from made_discover import discovered
from matplotlib.axes import Axes
from page_checks import Parsed

import cda
from cda.comparing.compare import compare_audits
from cda.comparing.members import gather
from cda.discovery.discover import Discovery
from cda.errors import DataError
from cda.pipeline.stages import Run
from cda.results.base import save

PAIRS = [
    {"prompt": f"Why {row}?", "chosen": "It is so because of it." * (2 + row % 2), "rejected": "It is so because." * 3}
    for row in range(12)
]


def _audit() -> Any:
    return make_audit(**KINDS["voted"])


def _run() -> Run:
    run = Run(Path("run"))
    vars(run)["audit"] = _audit()  # as if read from its folder
    return run


@pytest.fixture
def comparison(tmp_path: Path) -> Any:
    for name in ("a", "b"):
        save(_audit(), tmp_path / f"{name}.json")
    return compare_audits(gather([tmp_path]), 42)


@pytest.fixture
def results(comparison: Any) -> dict[str, Any]:
    """One of each that has figures."""
    data = cda.audit_data(PAIRS, biases="length", progress=False)
    return {"audit": _audit(), "run": _run(), "data": data, "comparison": comparison}


def test_each_result_draws_its_figures_as_axes(results: dict[str, Any]) -> None:
    for result in results.values():
        first, *more = [plot.id for plot in result.document().plots]
        axes = result.plot()
        own = [axes] if isinstance(axes, Axes) else list(axes)
        assert all(isinstance(each, Axes) and each.get_figure() is not None for each in own)
        assert own[0].get_figure().get_size_inches()[0] == 3.3
        assert result.plot(first, "double") is not axes
        with pytest.raises(DataError, match=r"no figure 'nope'\. Known: "):
            result.plot("nope")
        with pytest.raises(DataError, match=f"Did you mean '{first}'"):
            result.plot(first[:-1])
        assert more


def test_a_notebook_shows_the_headline_without_script_or_style(results: dict[str, Any]) -> None:
    for name, result in results.items():
        html = result._repr_html_()
        page = Parsed(html)
        tags = [tag for tag, _ in page.tags]
        assert not page.open and not {"script", "style", "link", "iframe"} & set(tags), name
        assert not [key for _, own in page.tags for key in own if key == "style" or key.startswith("on")]
        assert tags.count("img") == 1 and tags.count("table") >= 1 and len(html) < 60_000, (name, len(html))
        assert f"<strong>{result.document().headline[:12]}" in html


def test_a_discovery_in_a_notebook(tmp_path: Path) -> None:
    found = Discovery(tmp_path, discovered())
    html = found._repr_html_()
    assert html is not None and found.document().headline in html and "<img" not in html
    with pytest.raises(DataError, match="there is no figure"):
        found.plot()
    waiting = Discovery(tmp_path, "Waits for a review.")
    assert waiting._repr_html_() is None
    with pytest.raises(DataError, match="not finished"):
        waiting.plot()


def test_a_notebook_without_any_font_has_no_image(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cda.report.document.obstacle", lambda: "No figure can be drawn.")
    html = _audit()._repr_html_()
    assert "<img" not in html and "<table" in html


def test_names_from_outside_are_inert_in_a_notebook() -> None:
    audit = make_audit(votes={"jargon": (0.88, 0.40, 0.45)}, hostile=HOSTILE)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        page = Parsed(audit._repr_html_())
    assert not {"script", "style"} & {tag for tag, _ in page.tags}
    assert [own["src"].partition(",")[0] for tag, own in page.tags if tag == "img"] == ["data:image/svg+xml;base64"]


@pytest.mark.parametrize("column", ["single", "double"])
def test_a_bias_of_second_turns_has_its_whole_name(column: Any) -> None:
    audit = make_audit(targets={"sycophancy-second-turn": (0.88,)}, quality=None, others=())
    axes = audit.plot("skew", column)
    names = [text.get_text().replace("\n", "") for text in axes.get_yticklabels()]
    assert names == ["sycophancy-second-turn"]
    assert all(text.get_window_extent().x0 >= 0 for text in axes.get_yticklabels())
    assert "sycophancy-second-turn: " in audit.document().plots[0].description


def test_a_run_prints_the_table_of_its_audit(tmp_path: Path) -> None:
    run = Run(tmp_path)
    assert str(run) == repr(run) == f"<Run in {tmp_path}>"
    run.__dict__["audit"] = "bias  verdict"
    assert str(run) == "bias  verdict" and repr(run).startswith("<Run in ")
