"""The wheel works without the source tree, holds everything that the package reads and nothing else; the sdist is complete."""

from __future__ import annotations

import os
import site
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from documents import ROOT
from made_audits import make_audit

from cda.results.base import save

MOST_BYTES = 6 * 2**20  # of the wheel; the embedded texts and the two small adapters are most of it
# The pages of an audit, drawn from its JSON alone: every template, style sheet and script is read.
DRAW = """
import sys
from pathlib import Path
import cda
assert Path(cda.__file__).is_relative_to(sys.prefix), cda.__file__
from cda.auditing.report import audit_document, audit_document
from cda.auditing.first_screen import audit_summary
from cda.results.audit import AuditResult
from cda.results.base import load
from cda.recipe.load import load_recipe
audit = load(AuditResult, Path("audit.json"), "cda audit")
assert load_recipe("jargon").recipe.model.precision == "auto"
Path("report.html").write_text(audit_document(audit).page(), encoding="utf-8")
Path("report.md").write_text(audit_document(audit).markdown(), encoding="utf-8")
print(audit_summary(audit, "report.html"))
"""


def _files(folder: str) -> set[str]:
    """What lies under a folder of the source tree, caches aside."""
    found = {path.relative_to(ROOT).as_posix() for path in (ROOT / folder).rglob("*") if path.is_file()}
    found = {name for name in found if "__pycache__" not in name and not Path(name).name.startswith(".")}
    assert found
    return found


class Installed:
    """The wheel in an environment of its own, and a folder far from the source tree to work in."""

    def __init__(self, folder: Path) -> None:
        self.files = {name: _files(name) for name in ("cda", "recipes", "scripts", "tests", "evals")}
        build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-t", "sdist", "-d", str(folder / "dist")]
        subprocess.run(build, cwd=ROOT, check=True, capture_output=True, text=True)
        (self.wheel,) = (folder / "dist").glob("*.whl")
        (self.sdist,) = (folder / "dist").glob("*.tar.gz")
        self.python = folder / "venv" / "bin" / "python"
        self.work = folder / "work"
        self.work.mkdir()
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder / "venv")], check=True)
        (packages,) = (folder / "venv" / "lib").glob("python*/site-packages")
        # The dependencies of this environment; its own .pth files, an editable cda among them, are not read from there.
        (packages / "dependencies.pth").write_text("\n".join(site.getsitepackages()) + "\n", encoding="utf-8")
        pip = [sys.executable, "-m", "pip", "--python", str(self.python), "install", "-q", "--no-deps", "--no-index"]
        subprocess.run([*pip, "--disable-pip-version-check", str(self.wheel)], check=True, capture_output=True)

    def run(self, *words: str) -> str:
        """What `cda …` prints, run in the folder `work`; an error fails the test."""
        return self._output([str(self.python.parent / "cda"), *words])

    def run_python(self, program: str) -> str:
        return self._output([str(self.python), "-c", program])

    def _output(self, command: list[str]) -> str:
        kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
        found = subprocess.run(command, cwd=self.work, env=kept, capture_output=True, text=True)
        assert found.returncode == 0, found.stdout + found.stderr
        return found.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    return Installed(tmp_path_factory.mktemp("packaging"))


def test_the_wheel_is_small_and_holds_the_package_the_recipes_and_nothing_else(installed: Installed) -> None:
    assert installed.wheel.stat().st_size < MOST_BYTES
    with zipfile.ZipFile(installed.wheel) as wheel:
        names = set(wheel.namelist())
    recipes = {name.replace("recipes/", "cda/_recipes/", 1) for name in installed.files["recipes"]}
    package = {name for name in names if ".dist-info/" not in name}
    assert package == installed.files["cda"] | recipes
    described = {name.split(".dist-info/")[1] for name in names - package}
    assert {"licenses/LICENSE", "licenses/THIRD_PARTY_NOTICES.md", "entry_points.txt"} <= described


def test_the_sdist_holds_what_tests_and_evals_need(installed: Installed) -> None:
    with tarfile.open(installed.sdist) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    assert set().union(*installed.files.values()) - names == set()
    assert {"CITATION.cff", "pyproject.toml", "README.md", "LICENSE", "THIRD_PARTY_NOTICES.md", ".ci/run"} <= names
    assert {name.split("/")[0] for name in names} <= {
        ".ci", ".github", ".gitignore", "CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md", "LICENSE", "PKG-INFO", "README.md",
        "THIRD_PARTY_NOTICES.md", "cda", "docs", "evals", "mkdocs.yml", "pyproject.toml", "recipes", "scripts", "tests",
    }  # fmt: skip


def test_commands_run_from_any_folder(installed: Installed) -> None:
    assert installed.run("version").strip() == "0.1.0"
    assert "contrasts" in installed.run("texts", "my-texts")
    assert len((installed.work / "my-texts" / "contrasts.jsonl").read_text(encoding="utf-8").splitlines()) == 700


def test_a_shipped_recipe_is_found_and_a_report_drawn(installed: Installed) -> None:
    save(make_audit(), installed.work / "audit.json")
    assert "reduced jargon" in installed.run_python(DRAW)
    page = (installed.work / "report.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>") and "<svg" in page and "--ink" in page
    assert (installed.work / "report.md").read_text(encoding="utf-8").startswith("# Bias audit: jargon")
