"""Paths and names from users and data: names that no file can have, links, and paths that lead outside."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from cda.errors import CdaError, DataError, RunError, near
from cda.inert import clipped

_RESERVED = frozenset(
    ("con", "prn", "aux", "nul", *(f"{kind}{digit}" for kind in ("com", "lpt") for digit in range(1, 10)))
)
"""Devices on Windows, with any ending."""
_NO_PART = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff/\\<>:\"|?*]+")
_LONGEST_PART = 150  # bytes; most disks take 255, of which an ending and `.partial` need some


def user_path(given: str | Path) -> Path:
    """A path as a user wrote it, in which `~` and `~name` are home folders; DataError for what can be none."""
    if not isinstance(given, str | os.PathLike):
        raise DataError(f"found {given!r}; give a path")
    if "\0" in str(given):
        raise DataError(f"{given}: no file can have such a name")
    try:
        return Path(given).expanduser()
    except RuntimeError:
        raise DataError(f"{given}: no home folder is known under this name; write the whole path") from None


def is_prose(given: str) -> bool:
    """True for a text that is no path or name: several lines, or more words or letters than a name has.

    >>> is_prose("I think that this answer is long"), is_prose("my data/the pairs of last week.jsonl"), is_prose("org/model")
    (True, False, False)
    """
    longest = max(len(part.encode("utf-8", "surrogatepass")) for part in re.split(r"[/\\]", given))
    many = len(given.split()) > 4 and not re.search(r"[/\\]|\.\w{1,8}$", given)
    return (many or longest > 255 or "\n" in given.strip()) and not is_there(given)


def prose_problem(given: object, what: str, wanted: str) -> str | None:
    """The mistake of giving a text in place of a path or name, in a line of 80 characters; None if it is none."""
    if not isinstance(given, str) or not is_prose(given):
        return None
    said = f"{what}: found text ''; give {wanted}"
    return f"{what}: found text '{clipped(' '.join(given.split()), max(16, 80 - len(said)))}'; give {wanted}"


def refuse_prose(given: object, what: str, wanted: str) -> None:
    """Raise DataError as of `prose_problem`."""
    if problem := prose_problem(given, what, wanted):
        raise DataError(problem)


def nearest_existing(path: Path) -> Path:
    """The path, or the nearest folder above it that is there."""
    return next(parent for parent in [path, *path.absolute().parents] if parent.exists())


def unwritable(folder: Path) -> str | None:
    """Why a folder can be neither made nor written in, as a clause that names the place; None if it can."""
    existing = nearest_existing(folder)
    if not existing.is_dir():
        return f"{existing}: is a file, so that no folder can be made there"
    return None if os.access(existing, os.W_OK | os.X_OK) else f"{existing}: cannot be written"


def cache_folder() -> Path:
    """This user's cache folder: `CDA_CACHE`, or `cda` in the system's cache folder."""
    own = os.environ.get("CDA_CACHE")
    return user_path(own or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "cda")


def is_reserved(name: str) -> bool:
    """True if Windows takes a name for a device, whatever its ending.

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
    """A folder within one that a command writes into; made if it is missing.

    A results folder itself may lie behind a link. One within it may not (RunError), or files elsewhere would be written and deleted.
    """
    refuse_link(path)
    path.mkdir(parents=True, exist_ok=True)
    return path


def near_path(reference: str) -> str | None:
    """An existing file or folder of nearly this name, as it would be given; None if there is none."""
    try:
        path = user_path(reference)
        name = near(path.name, [other.name for other in path.parent.iterdir() if not other.name.startswith(".")])
    except (OSError, DataError):  # no such folder, or no file can have such a name
        return None
    return None if name is None else str(Path(reference).with_name(name))


def refuse_link(path: Path) -> None:
    """Raise RunError if a path is a link; see `own_folder`."""
    if path.is_symlink():
        raise RunError(f"{path}: a link, and nothing is written through links within a results folder; remove the link")


def free_place(file: Path) -> Path:
    """A file that can be written, as far as can be seen without writing; RunError for a folder, or a place where nothing can."""
    with writing(file):
        if file.is_dir():
            raise RunError(f"{file}: a folder; name a file")
        problem = unwritable(file.parent)
    if problem is not None:
        raise RunError(f"{file}: cannot be written ({problem}); choose another place")
    return file


def place_for(file: Path) -> Path:
    """A file to be written after long work: its folder is made, and problems are raised (RunError), before that work."""
    with writing(free_place(file)):
        file.parent.mkdir(parents=True, exist_ok=True)
    return file


@contextmanager
def writing(file: Path) -> Iterator[None]:
    """Writing a file, in which the system's errors become a RunError that says which file and what to do."""
    try:
        yield
    except OSError as error:
        raise RunError(f"{file}: cannot be written ({error.strerror or error}); choose another place") from None


@contextmanager
def reading(file: Path, error: Callable[[str], CdaError] = DataError) -> Iterator[None]:
    """Reading a file, in which the system's errors become one of ours that says which file."""
    try:
        yield
    except FileNotFoundError:
        raise error(f"{file}: no such file") from None
    except OSError as problem:
        raise error(f"{file}: cannot be read: {problem.strerror or problem}") from None
    except ValueError as problem:
        raise error(f"{file}: cannot be read: {problem}") from None  # a NUL in the name


def is_there(path: str | Path, test: Callable[[Path], bool] = Path.exists) -> bool:
    """True if the path exists; False if it is too long, holds a NUL, or may not be looked at."""
    try:
        return test(Path(path))
    except (OSError, ValueError):
        return False


def is_a_file(path: str | Path) -> bool:
    """True if the path is a file; False as in `is_there`."""
    return is_there(path, Path.is_file)


def is_a_folder(path: str | Path) -> bool:
    """True if the path is a folder; False as in `is_there`."""
    return is_there(path, Path.is_dir)
