"""Stage `report`: the audit as HTML and Markdown, and the table that a run ends with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cda.files.jsonl import read_json
from cda.launch import say
from cda.report.html import render_html
from cda.report.markdown import render_markdown
from cda.report.terminal import summary_table
from cda.run import RunFolder
from cda.stages import dose
from cda.stages.audit import RESULT


def run(run_folder: RunFolder, with_dose: bool = True) -> Path:
    """Draw the report anew from audit.json (it takes no time), print the table, return the HTML file."""
    run_folder.output_of("audit")  # says what to run first where there is no audit
    audit: dict[str, Any] = read_json(run_folder.stage("audit") / RESULT)
    if with_dose and dose.fits(run_folder):
        audit["dose"] = read_json(run_folder.stage("dose") / dose.RESULT)
    folder = run_folder.path / "report"
    folder.mkdir(exist_ok=True)
    html = folder / "report.html"
    html.write_text(render_html(audit), encoding="utf-8")
    (folder / "report.md").write_text(render_markdown(audit), encoding="utf-8")
    say("\n" + summary_table(audit, str(html)))
    return html
