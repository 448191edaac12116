"""Results that were saved earlier, read with care: they may be of another version of cda, or changed by hand."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cda.errors import CdaError, DataError


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
