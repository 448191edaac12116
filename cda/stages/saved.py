"""Results that were saved earlier, read with care: they may be of another version of cda, or changed by hand."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cda.errors import CdaError, DataError
from cda.files.jsonl import read_json

_PARTS = {
    "recipe": str, "scorings": list, "model": dict, "biases": list, "sources": dict, "skew": dict, "votes": dict,
    "effects": dict, "drift": dict, "rate": dict, "examples": list, "excluded": dict, "stages": dict,
}  # fmt: skip
"""What every audit.json holds, and as what."""


def read_audit(path: Path) -> dict[str, Any]:
    """An audit.json with all its parts; what they hold is not looked into, see `of_this_version`.

    Raises:
        DataError: Missing, not JSON, or no audit of this version; says which part is missing or of another kind.
    """
    audit = read_json(path)
    if not isinstance(audit, dict):
        raise DataError(f"{path}: not an audit (a {type(audit).__name__}); run `cda audit` again")
    wrong = [
        f"'{name}' is " + ("missing" if name not in audit else f"a {type(audit[name]).__name__} and no {kind.__name__}")
        for name, kind in _PARTS.items()
        if not isinstance(audit.get(name), kind)
    ]
    if wrong:
        raise DataError(f"{path}: not an audit of this version of cda ({'; '.join(wrong)}); run `cda audit` again")
    return audit


@contextmanager
def of_this_version(path: Path, again: str = "cda audit") -> Iterator[None]:
    """Around whatever is made of a saved result: what its content does not allow is said of the file.

    Args:
        path: The file or folder.
        again: Command that makes it anew.

    Raises:
        DataError: Something that this version writes was not there, or was something else. Names it, and the place in the
            source that wanted it, so that a fault of ours can be told from a changed file.
    """
    try:
        yield
    except (CdaError, OSError, MemoryError):
        raise
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        missing = f"no {error}" if isinstance(error, KeyError) else f"{type(error).__name__}: {str(error)[:200]}"
        raise DataError(
            f"{path}: cannot be read as this version of cda writes it ({missing}; {Path(place.filename).name}:{place.lineno}). "
            f"It is of another version, or was changed: run `{again}` again. If neither is so, please report this"
        ) from error
