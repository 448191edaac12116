"""Provenance of a result: versions of packages, and the commit of this package's checkout."""

from __future__ import annotations

import os
import subprocess
from functools import cache
from importlib import metadata
from pathlib import Path

from cda.installed import own_version, project_in

_PACKAGES = (
    "torch", "transformers", "tokenizers", "trl", "peft", "bitsandbytes", "datasets", "accelerate", "openai", "scipy",
)  # fmt: skip


def versions() -> dict[str, str]:
    """Versions of the packages that a result depends on."""
    installed = {"cda": own_version()}
    for name in _PACKAGES:
        try:
            installed[name] = _version(name)
        except metadata.PackageNotFoundError:
            installed[name] = "not installed"
    return installed


_version = cache(metadata.version)  # each is looked for in every folder of packages


def git_commit() -> str | None:
    """Commit of cda's own checkout that this package runs from, `-dirty` if it has changes.

    None if the package is installed, or copied into a repository of something else: the repository around a virtual
    environment says nothing of the code that ran.
    """
    package = Path(__file__).resolve().parent
    top = _git(package, "rev-parse", "--show-toplevel")
    if top is None or Path(top).resolve() != package.parent or project_in(package.parent) is None:
        return None
    if _git(package, "ls-files", "--error-unmatch", Path(__file__).name) is None:
        return None
    commit, status = _git(package, "rev-parse", "HEAD"), _git(package, "status", "--porcelain")
    return None if commit is None else commit + ("-dirty" if status else "")


def _git(folder: Path, *words: str) -> str | None:
    """Output of a git command in a folder; None if it fails. Without GIT_DIR and its like, which name another repository."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        done = subprocess.run(["git", *words], cwd=folder, env=environment, capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return None if done.returncode else done.stdout.strip()
