"""The documents as a site: every page is built, and no link or anchor leads nowhere."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_the_site_is_built_strictly(tmp_path: Path) -> None:
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    result = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    settings = (tmp_path / "reference" / "settings" / "index.html").read_text(encoding="utf-8")
    assert "lora.target_modules" in settings and "longer texts are cut" in settings
    commands = (tmp_path / "reference" / "commands" / "index.html").read_text(encoding="utf-8")
    assert "cda study import" in commands and "--attention-pass" in commands
    functions = (tmp_path / "reference" / "python" / "index.html").read_text(encoding="utf-8")
    assert "cda.quality" in functions and "budget_usd" in functions
