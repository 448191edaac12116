"""Errors as a user meets them: a message and an exit status, and a traceback only where the fault is ours."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from cda.errors import CdaError


@contextmanager
def user_errors() -> Iterator[None]:
    """Turn errors a user can act on into messages without a traceback. Exit status 1, or 130 for Ctrl-C."""
    try:
        yield
    except KeyboardInterrupt:
        _fail("stopped. The same command goes on from the last finished stage or checkpoint", 130)
    except Exception as error:
        message = explain(error)
        if message is None:
            raise
        _fail(message)


def explain(error: BaseException) -> str | None:
    """What to tell a user of an error; None where it is a fault of ours, which deserves its traceback."""
    if isinstance(error, CdaError):
        return str(error)
    number = error.errno if isinstance(error, OSError) else None
    # Some libraries wrap the system's error and leave only its words.
    if number in (errno.ENOSPC, errno.EDQUOT) or "No space left on device" in str(error):
        return "the disk is full. Nothing finished is lost: free some space, and the same command goes on from here"
    if number in (errno.EACCES, errno.EPERM, errno.EROFS) and isinstance(error, OSError):
        return f"{error.filename}: cannot be written ({error.strerror})"
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return (
            "out of memory. Lower train.per_device_train_batch_size, score.batch_tokens or model.max_length_tokens, "
            "or set train.gradient_checkpointing=true"
        )
    return None


def _fail(message: str, status: int = 1) -> NoReturn:
    # Under several processes each may see the same mistake, or one of them alone.
    rank = os.environ.get("RANK", "0")
    for line in message.splitlines():
        print(f"error: {line}" if rank == "0" else f"error (process {rank}): {line}", file=sys.stderr)
    sys.exit(status)
