"""Runs `cda` with one fault in it: at a given file event the process is killed, cut in the middle of a write, or its disk filled.

    python -m evals.reliability.fault_hook '{"event": "os.rename", "path": "label$", "do": "kill"}' train jargon run.folder=...

Python tells of every file it opens, renames, makes or deletes before it does so (`sys.addaudithook`): nothing in cda knows of
the fault, and it comes at the same place every time.
"""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

FILLER = "filler"


def kill(_: dict[str, Any]) -> None:
    """SIGKILL, before the event happens."""
    os.kill(os.getpid(), signal.SIGKILL)


def cut(fault: dict[str, Any]) -> None:
    """From here on, whoever makes a file larger than so many bytes is killed by the kernel in the middle of the write."""
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (fault["bytes"], fault["bytes"]))


def fill(fault: dict[str, Any]) -> None:
    """Fill the disk until so many bytes are left."""
    folder = Path(fault["disk"])
    with (folder / FILLER).open("ab") as file:
        size = shutil.disk_usage(folder).free - fault["bytes"]
        os.posix_fallocate(file.fileno(), file.tell(), max(1, size))


def delete(fault: dict[str, Any]) -> None:
    """Delete a folder with everything in it."""
    shutil.rmtree(fault["folder"])


DEEDS: dict[str, Callable[[dict[str, Any]], None]] = {"kill": kill, "cut": cut, "fill": fill, "delete": delete}


def hook(fault: dict[str, Any]) -> Callable[[str, tuple[Any, ...]], None]:
    """An audit hook that does the deed once, at the n-th event whose name and any path fit."""
    pattern, left = re.compile(fault["path"]), [int(fault.get("nth", 1))]

    def heard(event: str, arguments: tuple[Any, ...]) -> None:
        if event != fault["event"] or left[0] == 0:
            return
        paths = [os.fsdecode(one) for one in arguments if isinstance(one, str | bytes | os.PathLike)]
        if any(pattern.search(path) for path in paths):
            left[0] -= 1
            if left[0] == 0:
                DEEDS[fault["do"]](fault)

    return heard


if __name__ == "__main__":
    from cda.cli import main

    given = json.loads(sys.argv[1])
    if given:
        sys.addaudithook(hook(given))
    sys.argv = ["cda", *sys.argv[2:]]
    main()
