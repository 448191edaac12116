"""The notebook in docs/, executed from top to bottom by a real kernel."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import nbclient
import nbformat
import pytest

NOTEBOOK = Path(__file__).parents[2] / "docs" / "python.ipynb"
SMALLER = {
    '"max_pairs": 80': '"max_pairs": 20',
    '"max_contrasts": 40, "max_quality": 40, "rate": 10': '"max_contrasts": 8, "max_quality": 8, "max_samples": 2, "rate": 2',
    '"precision": "fp32"': '"precision": "fp32", "max_length_tokens": 32',
}
"""The same code on fewer texts, cut earlier."""


def test_the_notebook_runs_and_shows_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The kernel of this very environment, whatever others are installed for the user.
    kernel = tmp_path / "jupyter" / "kernels" / "python3"
    kernel.mkdir(parents=True)
    argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    (kernel / "kernel.json").write_text(json.dumps({"argv": argv, "display_name": "Python 3", "language": "python"}))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "jupyter"))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert not any(cell.outputs for cell in cells)
    for cell in cells:
        for size, smaller in SMALLER.items():
            cell.source = cell.source.replace(size, smaller)
    nbclient.NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = [output for cell in cells for output in cell.outputs]
    shown = [output.data for output in outputs if output.output_type == "execute_result"]
    assert sum("text/html" in each and "data:image/svg" in each["text/html"] for each in shown) == 2
    assert any("image/png" in output.data for output in outputs if output.output_type == "display_data")
    assert not [output.text for output in outputs if output.output_type == "stream" and output.name == "stderr"]
    assert (tmp_path / "report.html").is_file() and (tmp_path / "runs" / "jargon" / "adapter").is_dir()
