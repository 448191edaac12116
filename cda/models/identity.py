"""What tells one model from another, for kept scores and finished stages alike."""

from __future__ import annotations

from pathlib import Path

from cda.files.hub import commit_of
from cda.run import file_fingerprint


def content_of(name_or_path: str, revision: str | None) -> str | None:
    """Fingerprint of all files of a folder; name and commit of a hub model, None if the commit is unknown. DataError: the folder
    cannot be read."""
    if Path(name_or_path).is_dir():
        return file_fingerprint(Path(name_or_path))
    commit = commit_of("model", name_or_path, revision)
    return None if commit is None else f"{name_or_path}@{commit}"
