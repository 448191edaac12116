"""Dependencies as they are installed, against the bounds that this package states: told before any of them is imported."""

from __future__ import annotations

import logging
import os
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cda.errors import RunError

if TYPE_CHECKING:
    from packaging.requirements import Requirement

DISTRIBUTION = "cda-debias"
"""Name on a package index; the package that is imported and the command are called `cda`."""
_CHECKOUT = Path(__file__).resolve().parent.parent


def project_in(folder: Path) -> dict[str, Any] | None:
    """The `project` table of cda's own pyproject.toml; None if the folder has none, or that of another project."""
    import tomllib

    try:
        project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        return dict(project) if project["name"] == DISTRIBUTION else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def own_version() -> str:
    """Version of the checkout that this package runs from, else of its installation; "not installed" if neither is known."""
    project = project_in(_CHECKOUT)
    return str(project["version"]) if project else _version(DISTRIBUTION) or "not installed"


@lru_cache(1)
def check_installed() -> None:
    """Refuse dependencies that are missing or older than cda needs, and warn of newer ones than it has run with.

    A pass is remembered for the rest of the process.

    Raises:
        RunError: A dependency is missing or too old. One sentence names them all, with the command that installs them.
    """
    versions = [(requirement, _version(requirement.name)) for requirement in _requirements()]
    outside = [(each, version) for each, version in versions if not _is_within(each, version)]
    unfit = [(each, version) for each, version in outside if version is None or not _is_enough(each, version)]
    if unfit:
        found = [f"no {each.name}" if version is None else f"{each.name} {version}" for each, version in unfit]
        raise RunError(f"cda cannot work with {', '.join(found)}. Run: {_install([each for each, _ in unfit])}")
    if outside and os.environ.get("RANK", "0") == "0":
        found = [f"{each.name} {version}" for each, version in outside]
        mending = _install([each for each, _ in outside])
        text = f"warning: cda has not run with {', '.join(found)} yet. If something fails, run: {mending}"
        logging.getLogger("cda").warning("%s", text)


def _requirements() -> list[Requirement]:
    """Dependencies without extras: of the checkout that this package runs from, else of its installation; empty if neither is known."""
    from importlib import metadata

    try:
        from packaging.requirements import Requirement
    except ImportError:
        raise RunError("cda cannot work with no packaging. Run: pip install packaging") from None
    project = project_in(_CHECKOUT)
    try:
        stated = project["dependencies"] if project else metadata.requires(DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        return []
    found = [Requirement(text) for text in stated]
    return [each for each in found if each.marker is None or each.marker.evaluate({"extra": ""})]


def _version(name: str) -> str | None:
    from importlib import metadata

    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _is_within(requirement: Requirement, version: str | None) -> bool:
    return version is not None and requirement.specifier.contains(version, prereleases=True)


def _is_enough(requirement: Requirement, version: str) -> bool:
    """True if no bound but an upper one excludes this version."""
    floors = [bound for bound in requirement.specifier if bound.operator not in ("<", "<=")]
    return all(bound.contains(version, prereleases=True) for bound in floors)


def _install(requirements: list[Requirement]) -> str:
    words = [f"'{each.name}{','.join(sorted(map(str, each.specifier), reverse=True))}'" for each in requirements]
    return f"pip install {' '.join(words)}"
