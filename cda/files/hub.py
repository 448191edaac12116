"""Commits of models and data sets on the Hugging Face hub, each asked for once in a run, so that no run mixes two."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import Literal

HubKind = Literal["model", "dataset"]
_COMMIT, _ID = re.compile(r"[0-9a-f]{40}"), re.compile(r"[\w.-]+(/[\w.-]+)?")
_TIMEOUT_S = 10.0
_known: dict[tuple[HubKind, str, str], str] = {}
_untold: list[str] = []


def commit_of(kind: HubKind, name: str, revision: str | None = None) -> str | None:
    """The commit that a hub id stands for during this run, at a branch, tag or commit (None: main): as the hub says, or, if it
    cannot be asked, of the copy on this machine. None if neither knows it, so that the name may mean something else tomorrow.
    """
    if revision is not None and _COMMIT.fullmatch(revision):
        return revision
    key = (kind, name, revision or "main")
    if key not in _known and _ID.fullmatch(name):
        asked = _asked(*key)
        if found := asked or _copied(*key):
            _known[key] = found
            where = "" if asked else ", as of the copy on this machine; the hub was not reached"
            _untold.append(f"{name} is commit {found} ({revision or 'main'}{where})")
    return _known.get(key)


def commits(of: str) -> dict[str, str]:
    """The commits that were asked for in this run, by hub id and revision, of those ids that a text such as a recipe's names."""
    return {f"{name}@{revision}": commit for (_, name, revision), commit in _known.items() if name in of}


def untold() -> list[str]:
    """A line for the user on each commit that was asked for since the last call."""
    lines, _untold[:] = _untold[:], []
    return lines


def ask_again() -> None:
    """Forget all commits, as when another run begins."""
    _known.clear()
    _untold.clear()


def _asked(kind: HubKind, name: str, revision: str) -> str | None:
    from huggingface_hub import HfApi

    try:
        commit = HfApi().repo_info(name, repo_type=kind, revision=revision, timeout=_TIMEOUT_S).sha
    except Exception:  # out of reach, not there, not for this user: loading says which
        return None
    # The hub's client notes names, by which a copy is found without a connection, only of what it is asked for by name.
    if commit is not None:
        with suppress(OSError):
            note = _note(kind, name, revision)
            note.parent.mkdir(parents=True, exist_ok=True)
            note.write_text(commit, "ascii")
    return commit


def _copied(kind: HubKind, name: str, revision: str) -> str | None:
    try:
        found = _note(kind, name, revision).read_text("ascii").strip()
    except (OSError, ValueError):
        return None
    return found if _COMMIT.fullmatch(found) else None


def _note(kind: HubKind, name: str, revision: str) -> Path:
    """The file in which the hub's client keeps the commit of a name."""
    from huggingface_hub import constants
    from huggingface_hub.file_download import repo_folder_name

    return Path(constants.HF_HUB_CACHE) / repo_folder_name(repo_id=name, repo_type=kind) / "refs" / revision
