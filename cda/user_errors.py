"""Errors as a user meets them: a message and an exit status, and a traceback only if the fault is ours."""

from __future__ import annotations

import errno
import json
import logging
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NoReturn

from cda.errors import CdaError, Terminated, out_of_files
from cda.inert import short_lines, visible
from cda.installed import check_installed
from cda.terminal import put

MISTAKE = 2
"""Exit status for what a user can mend."""
_MAIN_FIRST_S = 10.0
"""Time that the main process of a launch has to tell of a mistake before the others do."""
_FULL = ("No space left on device", "PytorchStreamWriter failed writing", "iostream error", "inline_container.cc")


class _Terminal(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        if "tqdm" not in sys.modules:
            put(record.getMessage(), sys.stdout)
            return
        from tqdm import tqdm

        with tqdm.external_write_mode():  # a bar on the same terminal steps aside
            put(record.getMessage(), sys.stdout)


@contextmanager
def speaking() -> Iterator[None]:
    """Show cda's messages on standard output, as a command does; within another such block, once."""
    log = logging.getLogger("cda")
    if any(isinstance(handler, _Terminal) for handler in log.handlers):
        yield
        return
    terminal, level, propagate = _Terminal(), log.level, log.propagate
    log.addHandler(terminal)
    log.setLevel(logging.INFO)
    log.propagate = False
    try:
        yield
    finally:
        log.removeHandler(terminal)
        log.setLevel(level)
        log.propagate = propagate


@contextmanager
def user_errors() -> Iterator[None]:
    """Run a command: messages go to standard output, and errors a user can act on become messages without a traceback.

    Exit status 2, 130 for Ctrl-C, 143 for SIGTERM; `cda.cli.app.EXIT_CODES` lists all.
    """
    try:
        with speaking():
            check_installed()
            yield
    except KeyboardInterrupt as error:
        status = 143 if isinstance(error, Terminated) else 130
        _fail("stopped. The same command goes on from the last finished stage or checkpoint", status)
    except Exception as error:
        message = explain(error)
        if message is None:
            raise
        _fail(message)
    except BaseException as error:
        if (
            type(error).__name__ != "PanicException"
        ):  # of a library in Rust, and no Exception: a tokenizer gives up over a text
            raise
        said = short_lines(visible(str(error).partition("\n")[0]), 200)
        _fail(
            f"the tokenizer gave up over a text ({said}). A pattern in its tokenizer.json matches in too many ways; correct it there"
        )


def explain(error: BaseException) -> str | None:
    """Message of an error for a user; None if it is a fault of ours, which deserves its traceback."""
    if isinstance(error, CdaError):
        return str(error)
    if disk_is_full(error):
        return "the disk is full. Nothing finished is lost: free some space, and the same command goes on from here"
    if crowded := out_of_files(error):
        return crowded
    if isinstance(error, OSError) and error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"{visible(error.filename)}: cannot be written ({error.strerror})"
    if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:
        return f"{short_lines(visible(error.filename), 100)}: no file can have so long a name"
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return (
            "out of memory. Lower train.per_device_train_batch_size, score.batch_tokens or model.max_length_tokens, "
            "or set train.gradient_checkpointing=true"
        )
    if type(error).__name__ == "AcceleratorError" or "CUDA error" in str(error):
        return (
            f"the GPU failed ({short_lines(str(error).splitlines()[0], 200)}). Finished stages, checkpoints and scores are kept: the same "
            "command goes on from there, and CUDA_VISIBLE_DEVICES= before it runs on the CPU"
        )
    return None


def disk_is_full(error: BaseException) -> bool:
    """True if a write failed for want of space, or by the limit on the size of files (`ulimit -f`)."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return True
    # Some libraries wrap the system's error and leave only its words, and torch not even these.
    return any(words in str(error) for words in _FULL)


def _fail(message: str, status: int = MISTAKE) -> NoReturn:
    # Under several processes each may see the same mistake, or one of them alone. The launcher ends the others with the first that
    # fails, so that those who wait let the main one speak.
    rank = os.environ.get("RANK", "0")
    if rank != "0" and status != MISTAKE:
        sys.exit(status)  # a signal reaches all of them
    if rank != "0":
        try:
            time.sleep(_MAIN_FIRST_S)
        except KeyboardInterrupt:
            sys.exit(status)
    _record(message)
    for line in message.splitlines():
        put(f"error: {line}" if rank == "0" else f"error (process {rank}): {line}")
    sys.exit(status)


def _record(message: str) -> None:
    """Leave the message where torchrun and `accelerate launch` look for the cause, which they show last."""
    if file := os.environ.get("TORCHELASTIC_ERROR_FILE"):
        content = {"message": {"message": message, "extraInfo": {"timestamp": str(int(time.time()))}}}
        with suppress(OSError):
            Path(file).write_text(json.dumps(content), encoding="utf-8")
