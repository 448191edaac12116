"""The folder for what a command finds: made, or refused, before anything is scored."""

from __future__ import annotations

import os
from pathlib import Path

from cda.errors import DataError, RunError
from cda.files.paths import user_path


def out_folder(given: str | Path, result: str, command: str) -> Path:
    """The folder, made where it is not there.

    It may hold what the same command wrote earlier, which is then replaced. The processes of a launch may come here one
    after another: what the first of them has begun to write keeps none of the others out, as long as `result` is the
    first file that is written.

    Args:
        given: As the user named it; `~` is the home folder.
        result: Name of the file by which the command's results are known.
        command: Named in errors, such as `cda quality`.

    Raises:
        RunError: It is a file, holds something else, or cannot be made or written.
    """
    try:
        out = user_path(given)
        out.mkdir(parents=True, exist_ok=True)
        names = {path.name for path in out.iterdir()}
    except (OSError, DataError) as error:  # DataError: no such home folder, or a name that no folder has
        reason = error.strerror if isinstance(error, OSError) else error
        raise RunError(
            f"{given}: no folder for results can be made there ({reason}). Choose another with --out"
        ) from None
    if names and not names & {result, f"{result}.partial"}:
        raise RunError(f"{out}: holds something other than results of `{command}`. Choose another folder with --out")
    if not os.access(out, os.W_OK | os.X_OK):
        raise RunError(f"{out}: cannot be written. Choose another folder with --out")
    return out
