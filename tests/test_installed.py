"""A Python or a dependency outside the bounds is told in one sentence; the bounds and names are the same wherever they are stated."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from typer.testing import CliRunner

import cda
from cda import installed
from cda.cli import app
from cda.errors import RunError
from cda.installed import DISTRIBUTION, check_installed, own_version, project_in

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
CLASSIFIED = [one.rpartition(" :: ")[2] for one in PROJECT["classifiers"] if "Python :: 3." in one]
SAYS = "cda runs on Python 3.11 to 3.14, and this is {} ("
# This Python, said to be another, before the package is read.
OTHER = "import sys; sys.version_info = {}; sys.argv = {}; import cda"


@pytest.fixture(autouse=True)
def asked_anew() -> None:
    check_installed.cache_clear()


def having(monkeypatch: pytest.MonkeyPatch, **versions: str | None) -> None:
    """Have packages installed in these versions, None for not at all, as far as their metadata say."""
    true = metadata.version

    def version(name: str) -> str:
        if (found := versions.get(name, true(name) if name not in versions else None)) is None:
            raise metadata.PackageNotFoundError(name)
        return found

    monkeypatch.setattr(metadata, "version", version)


def ends(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


@pytest.mark.parametrize(("version", "said"), [((3, 10, 13), "3.10"), ((3, 15, 0), "3.15")])
def test_another_python_is_refused_in_a_sentence(version: tuple[int, ...], said: str) -> None:
    for argv in (["-m"], ["/usr/bin/cda", "train"], [str(ROOT / "scripts" / "train.py")]):
        done = ends(sys.executable, "-c", OTHER.format(version, argv))
        assert done.returncode == 2 and done.stderr.startswith(f"error: {SAYS.format(said)}"), done.stderr
        assert done.stderr.count("\n") == 1
    done = ends(sys.executable, "-c", OTHER.format(version, ["own.py"]))
    assert f"ImportError: {SAYS.format(said)}" in done.stderr


def test_an_old_python_can_read_what_refuses_it() -> None:
    for file in (ROOT / "cda" / "__init__.py", ROOT / "scripts" / "audit.py", ROOT / "scripts" / "train.py"):
        ast.parse(file.read_text(encoding="utf-8"), feature_version=(3, 7))


def test_a_python_without_the_dependencies_is_told_in_a_sentence() -> None:
    done = ends(sys.executable, "-c", "import sys; sys.modules['typer'] = None; import cda.cli")
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert done.stderr.startswith("error: cda's dependencies are not installed here (no typer). Run in its checkout:")


def test_the_same_pythons_are_named_everywhere() -> None:
    first, last = CLASSIFIED[0], CLASSIFIED[-1]
    assert PROJECT["requires-python"] == f">={first},<3.{int(last.split('.')[1]) + 1}"
    assert f"cda runs on Python {first} to {last}," in (ROOT / "cda" / "__init__.py").read_text(encoding="utf-8")
    for document in ("README.md", "docs/how-to/install.md", "docs/tutorial.md"):
        assert f"Python {first} to {last}" in (ROOT / document).read_text(encoding="utf-8"), document
    workflow = (ROOT / ".github" / "workflows" / "test.yml").read_text(encoding="utf-8")
    assert set(CLASSIFIED) <= set(re.findall(r'"(3\.\d+)"', workflow))


def test_extras_that_are_named_exist() -> None:
    named = re.compile(r"pip install [^`\n]*?'([\w.-]*)\[([a-z,]+)\]")
    files = [
        *(ROOT / "cda").rglob("*.py"),
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "docs").glob("*.ipynb"),
        ROOT / "README.md",
    ]
    found = [match for file in files for match in named.findall(file.read_text(encoding="utf-8"))]
    assert len(found) >= 4
    for name, extras in found:
        assert name in (".", DISTRIBUTION) and set(extras.split(",")) <= set(PROJECT["optional-dependencies"]), (
            name,
            extras,
        )
    assert PROJECT["name"] == DISTRIBUTION and PROJECT["version"] == cda.__version__


def test_what_is_installed_here_is_within_the_bounds(caplog: pytest.LogCaptureFixture) -> None:
    check_installed()
    assert not caplog.records


def test_old_and_missing_dependencies_are_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    having(monkeypatch, torch="2.1.0+cpu", transformers="4.57.6", peft=None)
    said = "cda cannot work with no peft, transformers 4.57.6, torch 2.1.0+cpu. Run: pip install 'peft>=0.21,<0.22' 'transformers>="
    for _ in range(2):  # a refusal is not remembered as a pass
        with pytest.raises(RunError, match=re.escape(said)):
            check_installed()
    result = CliRunner().invoke(app, ["train", "jargon", "--dry-run"])
    assert result.exit_code == 2 and result.output.startswith(f"error: {said}") and result.output.count("\n") == 1
    with pytest.raises(RunError, match=re.escape(said)):
        cda.audit("embedded", biases=["jargon"], progress=False)


def test_newer_dependencies_are_tried_with_a_warning(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    having(monkeypatch, torch="2.14.1", transformers="6.0.0.dev0")
    check_installed()
    check_installed()
    bounds = "'transformers>=5.23,<6' 'torch>=2.8,<=2.13.0'"
    said = f"warning: cda has not run with transformers 6.0.0.dev0, torch 2.14.1 yet. If something fails, run: pip install {bounds}\n"
    assert capfd.readouterr().out == said
    check_installed.cache_clear()
    result = CliRunner().invoke(app, ["version", "--json"])
    assert json.loads(result.stdout) == {"version": cda.__version__} and result.stderr == said


def test_bounds_are_read_off_the_checkout_else_off_the_installation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert project_in(ROOT) == PROJECT and own_version() == cda.__version__ and project_in(tmp_path) is None
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'cda'\n", encoding="utf-8")
    assert project_in(tmp_path) is None
    monkeypatch.setattr(installed, "_CHECKOUT", tmp_path)
    stated = ["torch<=2.13.0,>=2.8", "pandas>=99; extra == 'pandas'", "trl>=1.16 ; python_version < '3.8'"]
    monkeypatch.setattr(metadata, "requires", {DISTRIBUTION: stated}.__getitem__)
    having(monkeypatch, torch="2.7.1", trl=None)
    with pytest.raises(RunError, match=r"with torch 2.7.1. Run: pip install 'torch>=2.8,<=2.13.0'$"):
        check_installed()
