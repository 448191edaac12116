"""The report of an audit as one HTML file."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from markupsafe import Markup

from cda.auditing.report_dose import dose_line
from cda.auditing.report_evidence import compares, targets
from cda.auditing.report_figure import skew_chart
from cda.auditing.report_outcome import seed_sentences
from cda.auditing.report_plots_shares import skew_plot
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
from cda.report.differences import Piece, word_differences
from cda.report.page import drawn, rendered
from cda.report.plots import save
from cda.results.audit import AuditResult
from cda.results.facts import Example as AuditedExample

_N_OPEN = 2
_FEW_BIASES = 2
"""So many are described beside their verdicts; more would push the numbers off the first screen."""


@dataclass(frozen=True, slots=True)
class Example:
    """One contrast as the page shows it.

    Attributes:
        bias: Its bias.
        prompt: The prompt.
        base: The side without the bias, in pieces.
        perturbed: The side with it, in pieces.
        margins: What the model said, in words.
        people: What people preferred and whether the model agrees, in words.
        standing: Keys of the filter by people that it fits.
        orders: Its value in every order that the page offers.
        is_open: Whether it starts unfolded.
    """

    bias: str
    prompt: str
    base: list[Piece]
    perturbed: list[Piece]
    margins: str
    people: str
    standing: str
    orders: dict[str, float]
    is_open: bool


def render_html(audit: AuditResult) -> str:
    """The audit as a self-contained page."""
    return rendered(
        "audit.html.j2",
        audit=audit,
        targets=targets(audit),
        verdicts=[(verdict_kind(one.word), one) for one in verdicts(audit)],
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
        examples=_examples(audit),
        bias_choices=[(name, name) for name in dict.fromkeys(one.bias for one in audit.examples)],
        people_choices=people_choices(audit),
        order_choices=order_choices(audit),
    )


def _examples(audit: AuditResult) -> list[Example]:
    """Examples, the largest fall of the margin first."""
    rows = sorted(audit.examples, key=example_order)
    return [_example(row, index < _N_OPEN) for index, row in enumerate(rows)]


def _example(row: AuditedExample, is_open: bool) -> Example:
    base, perturbed = word_differences(row.base, row.perturbed)
    return Example(row.bias, row.prompt, base, perturbed, margins_sentence(row), people_sentence(row),
                   " ".join(people_keys(row)), order_keys(row), is_open)  # fmt: skip


def notebook_html(audit: AuditResult) -> str:
    """One <div> without script or style; the figure stands in it as an image."""
    plot = skew_plot(audit)
    with TemporaryDirectory() as folder:
        figure = b64encode(save(plot, Path(folder), "svg").read_bytes()).decode()
    return drawn(
        "notebook.html.j2",
        verdicts=verdicts(audit),
        quality=quality_sentence(audit),
        main=main_table(audit),
        scored=how_scored(audit),
        description=plot.description,
        figure=figure,
    )
