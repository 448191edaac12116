"""An audit as a cell of a notebook shows it: the verdicts, the figure of skews and the table, without the page around them."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path
from tempfile import TemporaryDirectory

from cda.report.page import drawn
from cda.report.plots.plot import save
from cda.report.plots.shares import skew_plot
from cda.report.scoring import how_scored
from cda.report.tables import main_table
from cda.report.verdict import quality_sentence, verdicts
from cda.results.audit import AuditResult


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
