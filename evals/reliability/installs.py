"""Claim: cda installs and works on every Python that it names, with the highest and the lowest versions of its dependencies, from a wheel, an sdist and a checkout.

Each Python and choice of versions gets a virtual environment of its own, far from the checkout. The wheel is installed first and does a
small job there, by `cda train`; with the highest versions also by `accelerate launch -m cda train`. The sdist takes its place: it has to
install the same files, byte for byte, and to run. Last comes the checkout, with the short tests of `.ci/short-tests`. `lowest` takes of each direct dependency the
lowest version that pyproject.toml allows and this Python has a wheel of; what the dependencies need themselves is as new as they allow.
A Python that is not on this machine is said to be missing and counts as failed.

    python -m evals.reliability.installs            (needs `pip install uv twine`; 10 minutes for each Python)

Finished environments are kept in --work and are not made again; so a Python that runs elsewhere, in a chroot for instance, can add its own.
UV_CONSTRAINT names a file of further constraints, which the result states.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

from cda.files.jsonl import read_json, write_json
from evals.shared import ROOT, Check, finish

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PYTHONS = [one.rpartition(" :: ")[2] for one in PROJECT["classifiers"] if "Python :: 3." in one]
RESOLUTIONS = {"highest": "highest", "lowest": "lowest-direct"}
SOURCES = ("wheel", "sdist", "checkout")
SMALL = (
    "data.max_pairs=20", "audit.max_contrasts=4", "audit.max_quality=6", "audit.rate=2", "model.max_length_tokens=64",
    "train.num_train_epochs=1",
)  # fmt: skip
NAMED = ("torch", "transformers", "trl", "peft", "bitsandbytes", "datasets", "accelerate", "numpy", "scipy", "pydantic")
# The top of an sdist: what a checkout has, and PKG-INFO.
SDIST = {
    ".ci", ".github", ".gitignore", "CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md", "LICENSE", "PKG-INFO", "README.md",
    "THIRD_PARTY_NOTICES.md", "cda", "docs", "evals", "mkdocs.yml", "pyproject.toml", "recipes", "scripts", "tests",
}  # fmt: skip


@dataclass
class Environment:
    """One source on one Python with one choice of versions, and what became of it."""

    python: str
    versions: str
    source: str
    result: str = "passed"
    date: str = field(default_factory=lambda: date.today().isoformat())
    seconds: float = 0.0
    ran: list[str] = field(default_factory=list)
    installed: dict[str, str] = field(default_factory=dict)
    failure: str = ""


class Place:
    """A virtual environment with the dependencies of one choice of versions, and a folder to work in."""

    def __init__(self, python: str, resolution: str, folder: Path) -> None:
        self.folder, self.constraints, self.ran = folder, folder / "versions.txt", list[str]()
        self.bin = folder / "venv" / "bin"
        self.work = folder / "work"
        self.work.mkdir()
        compile_ = [
            "uv",
            "pip",
            "compile",
            "-q",
            "pyproject.toml",
            "--extra",
            "quickstart",
            "--extra",
            "pandas",
            "--no-build",
        ]
        more = ["--resolution", resolution, "--python-version", python, "-o", str(self.constraints)]
        self._start(["uv", "venv", "-q", "-p", f"python{python}", str(folder / "venv")], ROOT)
        self._start([*compile_, *more], ROOT)

    def install(self, *what: str) -> None:
        pip = ["uv", "pip", "install", "-q", "-p", str(self.bin / "python"), "-c", str(self.constraints)]
        self._start([*pip, "--reinstall-package", PROJECT["name"], *what], ROOT)
        self.ran.append(_told("install", *what))

    def run(self, *command: str, cwd: Path | None = None) -> str:
        """Output of a command of this environment, in the empty folder or another."""
        self.ran.append(_told(*command))
        return self._start(
            [str(self.bin / command[0]) if "/" not in command[0] else command[0], *command[1:]], cwd or self.work
        )

    def files(self) -> dict[str, bytes]:
        """The installed package, byte for byte."""
        (package,) = (self.folder / "venv" / "lib").glob("python*/site-packages/cda")
        found = {path.relative_to(package).as_posix(): path for path in package.rglob("*") if path.is_file()}
        return {name: path.read_bytes() for name, path in found.items() if "__pycache__" not in name}

    def versions(self) -> dict[str, str]:
        listed = json.loads(
            self._start(["uv", "pip", "list", "-p", str(self.bin / "python"), "--format", "json"], ROOT)
        )
        return {row["name"]: row["version"] for row in listed if row["name"] in NAMED}

    def _start(self, command: list[str], cwd: Path) -> str:
        kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
        env = kept | {"PATH": f"{self.bin}{os.pathsep}{kept['PATH']}", "HF_HUB_OFFLINE": "1"}
        done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True)
        if done.returncode:
            said = (done.stdout + done.stderr).replace(str(self.folder), "").strip()
            raise RuntimeError(f"{_told(*command[:4])} …: exit status {done.returncode}: {said[-600:]}")
        return done.stdout


def _told(*words: str) -> str:
    """A command without the paths of this machine."""
    return re.sub(r"file://\S*/", "", " ".join(words).replace(str(ROOT), "."))


def try_wheel(place: Place, versions: str, dist: Path) -> None:
    (wheel,) = dist.glob("*.whl")
    place.install(f"{PROJECT['name']}[quickstart] @ {wheel.as_uri()}")
    if f"{PROJECT['version']}\n" != place.run("cda", "version"):
        raise RuntimeError("another version was installed")
    launchers = [["cda"]] + ([["accelerate", "launch", "-m", "cda"]] if versions == "highest" else [])
    for number, launcher in enumerate(launchers):
        place.run(*launcher, "train", "jargon", f"run.folder=runs/{number}", *SMALL)
        if not (place.work / "runs" / str(number) / "report" / "report.html").is_file():
            raise RuntimeError("no report was written")


def try_sdist(place: Place, _: str, dist: Path) -> None:
    by_wheel = place.files()
    (sdist,) = dist.glob("*.tar.gz")
    place.install(f"{PROJECT['name']}[quickstart] @ {sdist.as_uri()}")
    if different := {name for name, _ in by_wheel.items() ^ place.files().items()}:
        raise RuntimeError(f"installs other files than the wheel: {', '.join(sorted(different)[:5])}")
    place.run("cda", "texts", "texts")


def try_checkout(place: Place, _: str, _dist: Path) -> None:
    place.install("-e", f"{ROOT}[short]")
    place.run(str(ROOT / ".ci" / "short-tests"), "-n0", cwd=ROOT)


TRIES = dict(zip(SOURCES, (try_wheel, try_sdist, try_checkout), strict=True))


def tried(python: str, versions: str, dist: Path) -> Iterator[Environment]:
    """Each source on this Python with this choice of versions."""
    with tempfile.TemporaryDirectory(prefix="installs-") as folder:
        place: Place | None = None
        for source in SOURCES:
            start, found = time.monotonic(), Environment(python, versions, source)
            try:
                place = place or Place(python, RESOLUTIONS[versions], Path(folder))
                place.ran = found.ran
                TRIES[source](place, versions, dist)
                found.installed = place.versions()
            except RuntimeError as error:
                found.result, found.failure = "failed", str(error)
            found.seconds = round(time.monotonic() - start)
            yield found


def build(dist: Path) -> list[Check]:
    """Wheel and sdist of this checkout, and checks of both."""
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", str(dist)], cwd=ROOT, check=True, capture_output=True
    )
    twine = subprocess.run(
        ["twine", "--no-color", "check", "--strict", *map(str, dist.iterdir())], capture_output=True, text=True
    )
    (sdist,), (wheel,) = dist.glob("*.tar.gz"), dist.glob("*.whl")
    with tarfile.open(sdist) as opened:
        top = {name.split("/")[1] for name in opened.getnames() if "/" in name}
    with zipfile.ZipFile(wheel) as zipped:
        packages = {name.split("/")[0] for name in zipped.namelist()} - {f"cda_debias-{PROJECT['version']}.dist-info"}
    return [
        Check(
            "twine check --strict passes",
            " ".join(twine.stdout.split()[-1:]) or twine.stderr[-200:],
            twine.returncode == 0,
        ),
        Check("the sdist holds a checkout and nothing else", f"differences: {sorted(top ^ SDIST)}", top == SDIST),
        Check("the wheel holds the package `cda` alone", ", ".join(sorted(packages)), packages == {"cda"}),
    ]


def is_here(python: str) -> bool:
    """True if the interpreter runs: a shim may stand for one that does not."""
    program = shutil.which(f"python{python}")
    return bool(program) and subprocess.run([str(program), "-c", ""], capture_output=True).returncode == 0


def ran(python: str, asked: Sequence[str], dist: Path, work: Path, kept_only: bool) -> list[Environment]:
    """All environments of a Python: those that are kept, and those that can be made here."""
    found, here = [], is_here(python)
    for versions in asked:
        kept = [work / f"{python}-{versions}-{source}.json" for source in SOURCES]
        if here and not kept_only and not all(path.is_file() for path in kept):
            for path, environment in zip(kept, tried(python, versions, dist), strict=True):
                write_json(path, asdict(environment))
                print(
                    f"{path.stem}: {environment.result}, {environment.seconds:.0f} s {environment.failure}", flush=True
                )
        for source, path in zip(SOURCES, kept, strict=True):
            missing = Environment(python, versions, source, result="not run" if here else "no interpreter", date="")
            found.append(Environment(**read_json(path)) if path.is_file() else missing)
    return found


def check_of(python: str, environments: list[Environment]) -> Check:
    wrong = [f"{each.versions} from {each.source}: {each.result}" for each in environments if each.result != "passed"]
    n_passed = len(environments) - len(wrong)
    found = f"{n_passed} of {len(environments)}" + (f" ({'; '.join(wrong)})" if wrong else "")
    return Check(f"Python {python}: all environments pass", found, not wrong)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--work", type=Path, default=ROOT / "runs" / "installs", help="folder of finished environments")
    parser.add_argument("--python", action="append", choices=PYTHONS, help="only these; then no result is written")
    parser.add_argument(
        "--versions", action="append", choices=RESOLUTIONS, help="only these; then no result is written"
    )
    parser.add_argument("--kept", action="store_true", help="make no environment; the result says which were not run")
    asked = parser.parse_args()
    asked.work.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        checks = build(Path(folder))
        environments = {
            python: ran(python, asked.versions or list(RESOLUTIONS), Path(folder), asked.work, asked.kept)
            for python in asked.python or PYTHONS
        }
    checks += [check_of(python, found) for python, found in environments.items()]
    if asked.python or asked.versions:
        print(*checks, sep="\n")
        return 0
    constraint = os.environ.get("UV_CONSTRAINT")
    numbers: dict[str, Any] = {
        "constrained": Path(constraint).read_text(encoding="utf-8").split() if constraint else [],
        "environments": [asdict(each) for found in environments.values() for each in found],
    }
    claim = " ".join(str(__doc__).splitlines()[0].removeprefix("Claim: ").split())
    return finish("installs", claim, checks, numbers)


if __name__ == "__main__":
    sys.exit(main())
