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

from cda.auditing.report_dose import dose_line
from cda.auditing.report_evidence import compares, targets
from cda.auditing.report_outcome import seed_sentences
from cda.auditing.report_plots import skew_plot
from cda.auditing.report_scoring import (
    caveats,
    example_order,
    how_scored,
    margins_sentence,
    order_choices,
    order_keys,
    people_choices,
    people_keys,
    people_sentence,
)
from cda.auditing.report_sections import sections
from cda.auditing.report_tables import main_table
from cda.auditing.report_verdict import (
    others_sentence,
    quality_kind,
    quality_sentence,
    ties_sentence,
    verdict_kind,
    verdicts,
)
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
        targets=targets(audit),
        verdicts=[(verdict_kind(verdict.word), verdict) for verdict in verdicts(audit)],
        quality=quality_sentence(audit),
        quality_kind=quality_kind(audit),
        dose=dose_line(audit),
        seeds=seed_sentences(audit),
        others=others_sentence(audit) if compares(audit) else ties_sentence(audit),
        main=main_table(audit),
        scored=how_scored(audit),
        two=compares(audit),
        few=len(audit.biases) <= _FEW_BIASES,
        caveats=caveats(audit),
        chart=Markup(skew_chart(audit)),
        sections=sections(audit),
        examples=sorted(audit.examples, key=example_order),
        n_open=_N_OPEN,
        word_differences=word_differences,
        margins_sentence=margins_sentence,
        people_sentence=people_sentence,
        people_keys=people_keys,
        order_keys=order_keys,
        bias_choices=[(name, name) for name in dict.fromkeys(example.bias for example in audit.examples)],
        people_choices=people_choices(audit),
        order_choices=order_choices(audit),
    )


def notebook_html(audit: AuditResult) -> str:
    """One <div> without script or style; the figure stands in it as an image."""
    plot = skew_plot(audit)
    with TemporaryDirectory() as folder:
        figure = b64encode(save_plot(plot, Path(folder), "svg").read_bytes()).decode()
    return render(
        "notebook.html.j2",
        verdicts=verdicts(audit),
        quality=quality_sentence(audit),
        main=main_table(audit),
        scored=how_scored(audit),
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
    skew = audit.skew[name]
    shares = [f"{share(estimate)}{f' {when}' if compares(audit) else ''}" for when, estimate in skew.items()]
    shares += [f"{share(audit.plain.skew[name].last)} by plain CDA"] if audit.plain else []
    people = f", people {share(audit.votes[name].human_skew)}" if name in audit.votes else ""
    return f"{name}{_target(name, audit)}: {', '.join(shares)}{people}."


def _target(name: str, audit: AuditResult) -> str:
    return " (target)" if audit.skew[name].target and compares(audit) else ""


def _row(name: str, audit: AuditResult, top: int) -> str:
    skew, y = audit.skew[name], top + 36
    shares = dict[str, Estimate](skew.items())
    label = clipped(visible(name).replace("\n", " "), 24) + _target(name, audit)
    values = " → ".join(percent(estimate.value) for estimate in shares.values())
    # One scoring is drawn in the colour of `before`: it is the model as it came.
    marks = (
        [(_SHIFTS[when], when, shares[when]) for when in shares] if compares(audit) else [(0, "before", skew.before)]
    )
    parts = []
    if compares(audit):
        first, last = (_x(estimate.value) for estimate in shares.values())
        parts.append(f'<line class="link" x1="{first}" x2="{last}" y1="{y}" y2="{y}"/>')
    if audit.plain:
        marks.append((_SHIFTS["plain"], "plain", audit.plain.skew[name].last))
    parts += [_interval(kind, estimate, y + shift) for shift, kind, estimate in marks]
    parts += [
        f'<circle class="dot {kind}" cx="{_x(estimate.value)}" cy="{y + shift}" r="5"/>'
        for shift, kind, estimate in marks
    ]
    if name in audit.votes:
        people = audit.votes[name].human_skew
        parts += [_interval("people", people, y), _diamond(_x(people.value), y)]
    return (
        f'<g class="{"target" if skew.target else "other"}"><text class="label" x="0" y="{top + 16}">{_safe(label)}</text>'
        f'<text class="value" x="100%" y="{top + 16}">{_safe(values)}</text>{"".join(parts)}</g>'
    )


def _interval(kind: str, estimate: Estimate, y: int) -> str:
    return f'<line class="interval {kind}" x1="{_x(estimate.low)}" x2="{_x(estimate.high)}" y1="{y}" y2="{y}"/>'


def _diamond(x: str, y: int) -> str:
    return f'<svg x="{x}" y="{y}" overflow="visible"><path class="dot people" d="M0-7 6 0 0 7-6 0Z"/></svg>'


def _legend(audit: AuditResult) -> str:
    def key(kind: str, x: int, radius: int, text: str, shown: object) -> str:
        dot = f'<circle class="dot {kind}" cx="{x}" cy="10" r="{radius}"/>'
        return f'{dot}<text class="key" x="{x + 10}" y="14">{text}</text>' if shown else ""

    voted = any(name in audit.votes for name in audit.skew)
    people = _diamond("148", 10) + '<text class="key" x="159" y="14">people</text>' if voted else ""
    first = key("before", 6, 5, "before" if compares(audit) else "model", True)
    return (
        first + key("after", 82, 5, "after", compares(audit)) + people + key("plain", 216, 4, "plain CDA", audit.plain)
    )


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
