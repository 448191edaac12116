"""The report of an audit as one HTML file, with the skew of every bias as inline SVG; and a <div> for notebooks.

In the chart positions are percentages of the width and text keeps its size, so one drawing fits a phone and a wide screen. Colours
come from the CSS custom properties --before, --after, --people, --ink, --faint and --line; marks differ in shape as well.
"""

from __future__ import annotations

from base64 import b64encode
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory

from markupsafe import Markup

from cda.auditing import report_scoring as scoring
from cda.auditing import report_verdict as verdict
from cda.auditing.report_dose import dose_line
from cda.auditing.report_plots import skew_plot
from cda.auditing.report_sections import sections
from cda.auditing.report_tables import main_table
from cda.auditing.report_verdict import compares
from cda.auditing.seeds import seed_sentences
from cda.report.differences import word_differences
from cda.report.numbers import clipped, percent, share, visible
from cda.report.page import render, rendered
from cda.report.plots import save_plot
from cda.results.audit import AuditResult
from cda.results.base import Estimate

_N_OPEN = 2
_FEW_BIASES = 2
"""Biases that are described next to their verdicts; more would push the numbers off the first screen."""
_TOP, _ROW, _BOTTOM = 30, 58, 40
_SHIFTS = {"before": -5, "after": 5, "plain": 11}
"""Pixels between the marks of a row and its middle."""


def render_html(audit: AuditResult) -> str:
    """The audit as a self-contained page."""
    return rendered(
        "audit.html.j2",
        audit=audit,
        targets=verdict.targets(audit),
        verdicts=[(verdict.verdict_kind(found.word), found) for found in verdict.verdicts(audit)],
        quality=verdict.quality_sentence(audit),
        quality_kind=verdict.quality_kind(audit),
        dose=dose_line(audit),
        seeds=seed_sentences(audit),
        others=verdict.others_sentence(audit) if compares(audit) else verdict.ties_sentence(audit),
        main=main_table(audit),
        scored=scoring.how_scored(audit),
        two=compares(audit),
        few=len(audit.biases) <= _FEW_BIASES,
        caveats=scoring.caveats(audit),
        chart=Markup(skew_chart(audit)),
        sections=sections(audit),
        examples=sorted(audit.examples, key=scoring.example_order),
        n_open=_N_OPEN,
        word_differences=word_differences,
        margins_sentence=scoring.margins_sentence,
        people_sentence=scoring.people_sentence,
        people_keys=scoring.people_keys,
        order_keys=scoring.order_keys,
        bias_choices=[(name, name) for name in dict.fromkeys(example.bias for example in audit.examples)],
        people_choices=scoring.people_choices(audit),
        order_choices=scoring.order_choices(audit),
    )


def notebook_html(audit: AuditResult) -> str:
    """One <div> without script or style; the figure stands in it as an image."""
    plot = skew_plot(audit)
    with TemporaryDirectory() as folder:
        figure = b64encode(save_plot(plot, Path(folder), "svg").read_bytes()).decode()
    return render(
        "notebook.html.j2",
        verdicts=verdict.verdicts(audit),
        quality=verdict.quality_sentence(audit),
        main=main_table(audit),
        scored=scoring.how_scored(audit),
        description=plot.description,
        figure=figure,
    )


def skew_chart(audit: AuditResult) -> str:
    """Skew before and after as one <svg> element; everything that comes from outside is escaped."""
    height = _TOP + _ROW * len(audit.skew) + _BOTTOM
    rows = "".join(_row(name, audit, _TOP + _ROW * index) for index, name in enumerate(audit.skew))
    description = " ".join(_description(name, audit) for name in audit.skew)
    return (
        f'<svg class="chart" role="img" aria-labelledby="chart-title chart-desc" width="100%" height="{height}">'
        f'<title id="chart-title">Skew of each bias{" before and after training" if compares(audit) else ""}</title>'
        f'<desc id="chart-desc">{_safe(description)}</desc>{_legend(audit)}{_axis(height)}{rows}</svg>'
    )


def _description(name: str, audit: AuditResult) -> str:
    """A row of the chart in words, for those who do not see it."""
    shares = [f"{share(found)}{f' {when}' if compares(audit) else ''}" for when, found in audit.skew[name].items()]
    shares += [f"{share(audit.plain.skew[name].last)} by plain CDA"] if audit.plain else []
    people = f", people {share(audit.votes[name].human_skew)}" if name in audit.votes else ""
    return f"{name}{_target(name, audit)}: {', '.join(shares)}{people}."


def _target(name: str, audit: AuditResult) -> str:
    return " (target)" if audit.skew[name].target and compares(audit) else ""


def _row(name: str, audit: AuditResult, top: int) -> str:
    skew, y = audit.skew[name], top + 36
    label = clipped(visible(name).replace("\n", " "), 24) + _target(name, audit)
    shares = dict[str, Estimate](skew.items())
    values = " → ".join(percent(found.value) for found in shares.values())
    # One scoring is drawn in the colour of `before`: it is the model as it came.
    marks = (
        [(_SHIFTS[when], when, shares[when]) for when in shares] if compares(audit) else [(0, "before", skew.before)]
    )
    parts = []
    if compares(audit):
        first, last = (_x(found.value) for found in shares.values())
        parts.append(f'<line class="link" x1="{first}" x2="{last}" y1="{y}" y2="{y}"/>')
    if audit.plain:
        marks.append((_SHIFTS["plain"], "plain", audit.plain.skew[name].last))
    parts += [_interval(kind, found, y + shift) for shift, kind, found in marks]
    parts += [_dot(kind, _x(found.value), y + shift, 5) for shift, kind, found in marks]
    if name in audit.votes:
        people = audit.votes[name].human_skew
        parts += [_interval("people", people, y), _diamond(_x(people.value), y)]
    return (
        f'<g class="{"target" if skew.target else "other"}"><text class="label" x="0" y="{top + 16}">{_safe(label)}</text>'
        f'<text class="value" x="100%" y="{top + 16}">{_safe(values)}</text>{"".join(parts)}</g>'
    )


def _interval(kind: str, found: Estimate, y: int) -> str:
    return f'<line class="interval {kind}" x1="{_x(found.low)}" x2="{_x(found.high)}" y1="{y}" y2="{y}"/>'


def _dot(kind: str, x: object, y: int, radius: int) -> str:
    return f'<circle class="dot {kind}" cx="{x}" cy="{y}" r="{radius}"/>'


def _diamond(x: object, y: int) -> str:
    return f'<svg x="{x}" y="{y}" overflow="visible"><path class="dot people" d="M0-7 6 0 0 7-6 0Z"/></svg>'


def _legend(audit: AuditResult) -> str:
    two, voted = compares(audit), any(name in audit.votes for name in audit.skew)
    keys = (
        (_dot("before", 6, 10, 5), 16, "before" if two else "model", True),
        (_dot("after", 82, 10, 5), 92, "after", two),
        (_diamond(148, 10), 159, "people", voted),
        (_dot("plain", 216, 10, 4), 226, "plain CDA", audit.plain),
    )
    return "".join(f'{mark}<text class="key" x="{x}" y="14">{text}</text>' for mark, x, text, shown in keys if shown)


def _axis(height: int) -> str:
    """Vertical lines at 0, 25, 50, 75 and 100% with their numbers below."""
    bottom = height - _BOTTOM + 6
    parts = []
    for tick in (0, 25, 50, 75, 100):
        anchor = {0: "start", 100: "end"}.get(tick, "middle")
        kind = "grid middle" if tick == 50 else "grid"
        parts.append(f'<line class="{kind}" x1="{tick}%" x2="{tick}%" y1="{_TOP}" y2="{bottom}"/>')
        parts.append(f'<text class="tick" x="{tick}%" y="{bottom + 15}" text-anchor="{anchor}">{tick}%</text>')
    parts.append(f'<text class="tick" x="50%" y="{bottom + 31}" text-anchor="middle">prefers the biased side</text>')
    return "".join(parts)


def _x(value: float) -> str:
    return f"{100 * value:.2f}%"


def _safe(text: str) -> str:
    return escape(visible(text))
