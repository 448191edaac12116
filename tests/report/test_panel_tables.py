"""A panel of judges: a row for every judge, the panel and their mean; the line of the terminal; nothing for one judge."""

from __future__ import annotations

from typing import Any

from cda.auditing.report_glossary import glossary
from cda.auditing.report_tables import panel_sentence, panel_table
from cda.auditing.report_text import render_markdown, summary_table
from cda.report.numbers import share


def test_a_row_for_each_judge_the_panel_and_the_mean(make_audit: Any) -> None:
    audit = make_audit(
        {"jargon": (0.88,)}, votes={"jargon": (0.88, 0.45)}, quality=None, others=(), judge=True, panel=True
    )
    unvoted = make_audit({"vagueness": (0.5,)}, quality=None, others=(), judge=True, panel=True)
    audit = audit.model_copy(update={"panel": audit.panel | unvoted.panel})
    table = panel_table(audit)
    assert table is not None
    assert table.header == ("bias, judge", "skew", "n", "ties", "without a verdict", "miscalibration", "n voted")
    rows = {row[0]: row[1:] for row in table.rows}
    assert list(rows) == [f"{bias}, {one}" for bias in ("jargon", "vagueness")
                          for one in ("gpt-x", "gpt<y>", "the panel", "mean of the judges")]  # fmt: skip
    found = audit.panel["jargon"]
    one, other, panel, mean = found.judges["gpt-x"], found.judges["gpt<y>"], found.panel, found.mean
    # The second judge ties throughout: the panel prefers what the first one does, and the mean lies halfway to one half.
    assert panel.skew == one.skew == audit.skew["jargon"].before
    assert other.skew.value == 0.5 and other.ties == other.skew.n and other.unread == 1
    assert abs(mean.skew.value - (one.skew.value + 0.5) / 2) < 0.01 and mean.unread == 1
    assert rows["vagueness, the panel"][4:] == ("", "")  # nobody voted there
    assert rows["jargon, gpt-x"][4] == rows["jargon, the panel"][4] != ""


def test_the_terminal_and_the_page_say_it(make_audit: Any) -> None:
    audit = make_audit({"jargon": (0.88,)}, quality=None, others=(), judge=True, panel=True)
    said = panel_sentence(audit)
    skew = share(audit.skew["jargon"].before)
    assert said == f"Skew by judge: jargon: gpt-x {skew}, gpt<y> 50% [40, 60]; the panel {skew}."
    assert " ".join(summary_table(audit, "r").split()).count(said) == 1
    assert "mean of the judges" in render_markdown(audit)
    assert {"the panel", "mean of the judges"} <= {entry.term for entry in glossary(audit)}


def test_one_judge_is_no_panel(judge: Any, one_model: Any) -> None:
    for audit in (judge, one_model):
        assert panel_table(audit) is None and panel_sentence(audit) == ""
        assert "the panel" not in {entry.term for entry in glossary(audit)}
