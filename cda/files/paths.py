"""Paths and names that somebody else wrote: what no file can be called is the name of no file, and nothing leads outside."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path

from cda.errors import DataError, RunError, near

_RESERVED = frozenset(
    ("con", "prn", "aux", "nul", *(f"{kind}{digit}" for kind in ("com", "lpt") for digit in range(1, 10)))
)
"""Devices on Windows, with any ending."""
_NO_PART = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff/\\<>:\"|?*]+")
_LONGEST_PART = 150
"""Bytes; most disks take 255, of which an ending and `.partial` need some."""


def user_path(given: str | Path) -> Path:
    """A path as a user wrote it, in which `~` and `~name` are home folders.

    Raises:
        DataError: There is no such home folder, or no path can be written like this.
    """
    if "\0" in str(given):
        raise DataError(f"{given}: no file can have such a name")
    try:
        return Path(given).expanduser()
    except RuntimeError:
        raise DataError(f"{given}: no home folder is known under this name; write the whole path") from None


def cache_folder() -> Path:
    """This user's folder for what can be made again: `CDA_CACHE`, or `cda` among the caches of other programs."""
    own = os.environ.get("CDA_CACHE")
    return user_path(own or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "cda")


def is_reserved(name: str) -> bool:
    """Whether Windows takes a name for a device, whatever its ending.

    >>> is_reserved("nul"), is_reserved("Aux.yaml"), is_reserved("console")
    (True, True, False)
    """
    return name.partition(".")[0].strip().casefold() in _RESERVED


def as_part(name: str) -> str:
    """A name out of data as one part of a path: it cannot lead elsewhere, and every system takes it. Plain names stay.

    >>> as_part("eval set"), as_part("../../x"), as_part(".."), as_part("nul.json")
    ('eval set', '..-..-x', 'unnamed', 'nul_.json')
    """
    part = _NO_PART.sub("-", name).strip()
    part = part.rstrip(". ") or "unnamed"
    if is_reserved(part):
        head, dot, rest = part.partition(".")
        part = f"{head}_{dot}{rest}"
    if len(part.encode()) <= _LONGEST_PART:
        return part
    kept = part.encode()[: _LONGEST_PART - 9].decode("utf-8", "ignore")
    return f"{kept}-{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"


def own_folder(path: Path) -> Path:
    """A folder within one that a command writes into, made where it is not there.

    A whole results folder may lie behind a link. One within it may not, or files elsewhere would be written and deleted.

    Raises:
        RunError: It is a link.
    """
    refuse_link(path)
    path.mkdir(parents=True, exist_ok=True)
    return path


def near_path(reference: str) -> str | None:
    """A file or folder that is there under nearly this name, as it would be given; None where there is none."""
    try:
        path = user_path(reference)
        found = near(path.name, [one.name for one in path.parent.iterdir() if not one.name.startswith(".")])
    except (OSError, DataError):  # no such folder, or no file can have such a name
        return None
    return None if found is None else str(Path(reference).with_name(found))


def refuse_link(path: Path) -> None:
    """See `own_folder`; makes nothing.

    Raises:
        RunError: It is a link.
    """
    if path.is_symlink():
        raise RunError(f"{path}: a link, and nothing is written through links within a results folder; remove the link")


def place_for(file: Path) -> Path:
    """A file to be written after long work: its folder is made, and what stands against it is said, before that work.

    Raises:
        RunError: It is a folder, or its folder cannot be made.
    """
    try:
        if file.is_dir():
            raise RunError(f"{file}: a folder; name a file")
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"{file}: cannot be written ({error.strerror or error}); choose another place") from None
    return file


def is_there(path: str | Path) -> bool:
    """Whether the path exists; false where it is too long, holds a NUL, or may not be looked at."""
    try:
        return Path(path).exists()
    except (OSError, ValueError):
        return False


def is_a_file(path: str | Path) -> bool:
    """Whether the path is a file; false as in `is_there`."""
    try:
        return Path(path).is_file()
    except (OSError, ValueError):
        return False


def is_a_folder(path: str | Path) -> bool:
    """Whether the path is a folder; false as in `is_there`."""
    try:
        return Path(path).is_dir()
    except (OSError, ValueError):
        return False
