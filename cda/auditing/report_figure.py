"""Inline SVG: skew of every bias before and after, with 95% intervals and people's skew where there is one.

Positions are percentages of the width and text keeps its size, so one drawing fits a phone and a wide screen. Colours come
from the CSS custom properties --before, --after, --people, --ink, --faint and --line; marks differ in shape as well.
"""

from __future__ import annotations

from html import escape

from cda.auditing.report_evidence import compares, others, targets
from cda.report.numbers import clipped, percent, share, visible
from cda.results.audit import AuditResult
from cda.results.base import Estimate

_TOP, _ROW, _BOTTOM = 30, 58, 40
_TITLES = {True: "Skew of each bias before and after training", False: "Skew of each bias"}


def skew_chart(audit: AuditResult) -> str:
    """The before/after chart as one <svg> element; everything that comes from outside is escaped."""
    names = [*targets(audit), *others(audit)]
    plain = audit.plain
    voted = any(name in audit.votes for name in names)
    height = _TOP + _ROW * len(names) + _BOTTOM
    parts = [_legend(voted, compares(audit), bool(plain)), _axis(height)]
    parts += [_row(name, audit, _TOP + _ROW * index) for index, name in enumerate(names)]
    return (
        f'<svg class="chart" role="img" aria-labelledby="chart-title chart-desc" width="100%" height="{height}">'
        f'<title id="chart-title">{_TITLES[compares(audit)]}</title>'
        f'<desc id="chart-desc">{_safe(_description(names, audit))}</desc>{"".join(parts)}</svg>'
    )


def _description(names: list[str], audit: AuditResult) -> str:
    """The chart in words, for those who do not see it."""
    sentences = []
    for name in names:
        skew = audit.skew[name]
        label = f"{name}{' (target)' if skew.target and compares(audit) else ''}"
        shares = [f"{share(one)}{f' {when}' if compares(audit) else ''}" for when, one in skew.items()]
        if audit.plain:
            shares.append(f"{share(audit.plain.skew[name].last)} by plain CDA")
        text = f"{label}: {', '.join(shares)}"
        if name in audit.votes:
            text += f", people {share(audit.votes[name].human_skew)}"
        sentences.append(text + ".")
    return " ".join(sentences)


def _row(name: str, audit: AuditResult, top: int) -> str:
    skew = audit.skew[name]
    target = skew.target
    shares = [one for _, one in skew.items()]
    label = clipped(visible(name).replace("\n", " "), 24) + (" (target)" if target and compares(audit) else "")
    values = " → ".join(percent(one.value) for one in shares)
    y = top + 36
    parts = []
    if compares(audit):
        first, last = (_x(one.value) for one in shares[:2])
        parts.append(f'<line class="link" x1="{first}" x2="{last}" y1="{y}" y2="{y}"/>')
    # One scoring is drawn in the colour of `before`: it is the model as it came.
    marks = [("before", -5), ("after", 5)] if compares(audit) else [("before", 0)]
    if audit.plain:
        marks.append(("plain", 11))
        shares.append(audit.plain.skew[name].last)
    parts += [_interval(kind, one, y + shift) for (kind, shift), one in zip(marks, shares, strict=True)]
    parts += [
        f'<circle class="dot {kind}" cx="{_x(one.value)}" cy="{y + shift}" r="5"/>'
        for (kind, shift), one in zip(marks, shares, strict=True)
    ]
    if name in audit.votes:
        people = audit.votes[name].human_skew
        parts += [_interval("people", people, y), _diamond(_x(people.value), y)]
    return (
        f'<g class="{"target" if target else "other"}"><text class="label" x="0" y="{top + 16}">{_safe(label)}</text>'
        f'<text class="value" x="100%" y="{top + 16}">{_safe(values)}</text>{"".join(parts)}</g>'
    )


def _interval(kind: str, estimate: Estimate, y: int) -> str:
    return f'<line class="interval {kind}" x1="{_x(estimate.low)}" x2="{_x(estimate.high)}" y1="{y}" y2="{y}"/>'


def _diamond(x: str, y: int) -> str:
    return f'<svg x="{x}" y="{y}" overflow="visible"><path class="dot people" d="M0-7 6 0 0 7-6 0Z"/></svg>'


def _legend(voted: bool, two: bool, plain: bool) -> str:
    name = "before" if two else "model"
    parts = [f'<circle class="dot before" cx="6" cy="10" r="5"/><text class="key" x="16" y="14">{name}</text>']
    if two:
        parts.append('<circle class="dot after" cx="82" cy="10" r="5"/><text class="key" x="92" y="14">after</text>')
    if voted:
        parts.append(_diamond("148", 10) + '<text class="key" x="159" y="14">people</text>')
    if plain:
        parts.append(
            '<circle class="dot plain" cx="216" cy="10" r="4"/><text class="key" x="226" y="14">plain CDA</text>'
        )
    return "".join(parts)


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
