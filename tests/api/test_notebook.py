"""The notebook in docs/, executed from top to bottom by a real kernel."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import nbclient
import nbformat
import pytest

NOTEBOOK = Path(__file__).parents[2] / "docs" / "python.ipynb"


@pytest.mark.slow
def test_the_notebook_runs_and_shows_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The kernel of this very environment, whatever others are installed for the user.
    kernel = tmp_path / "jupyter" / "kernels" / "python3"
    kernel.mkdir(parents=True)
    argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    (kernel / "kernel.json").write_text(json.dumps({"argv": argv, "display_name": "Python 3", "language": "python"}))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "jupyter"))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("OMP_NUM_THREADS", str(min(2, os.cpu_count() or 1)))
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    assert not any(cell.outputs for cell in notebook.cells if cell.cell_type == "code")
    nbclient.NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = [one for cell in notebook.cells if cell.cell_type == "code" for one in cell.outputs]
    shown = [one.data for one in outputs if one.output_type == "execute_result"]
    assert sum("text/html" in one and "data:image/svg" in one["text/html"] for one in shown) == 2
    assert any("image/png" in one.data for one in outputs if one.output_type == "display_data")
    assert not [one.text for one in outputs if one.output_type == "stream" and one.name == "stderr"]
    assert (tmp_path / "report.html").is_file() and (tmp_path / "runs" / "jargon" / "adapter").is_dir()
