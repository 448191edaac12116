"""Processes under `accelerate launch` or torchrun: rank, number, a check that all of them run, and waiting without a collective.

Preparing data can take hours, longer than any collective's time-out, so the other processes watch the run folder.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import logging
import os
import platform
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from cda.errors import RunError
from cda.inert import visible

_LOG = logging.getLogger("cda")
_FAILED = ".failed.json"
# Numbers of processes that MPI launchers set in place of WORLD_SIZE; several copies would each take themselves for the main one.
_MPI_SIZES = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE")
_STARTED = time.time()
_SEEN_WITHIN_S = 30.0
"""A network file system may show a new file to other machines some seconds late."""
_CHECKS = itertools.count()


def world_size() -> int:
    """Processes of this launch."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def rank() -> int:
    """Number of this process among all."""
    return int(os.environ.get("RANK", "0"))


def on_one_machine() -> bool:
    """True if all processes of this launch run on this machine."""
    return int(os.environ.get("LOCAL_WORLD_SIZE", world_size())) == world_size()


def is_main() -> bool:
    """True if this process prepares data, writes artifacts and speaks to the user."""
    return rank() == 0


def asked_processes() -> int | None:
    """Processes that the launch asked for, whether or not they run; None if nothing names a number.

    WORLD_SIZE and MPI's variables do, or the command line of an `accelerate launch` above this process, if the system shows it.
    """
    for name in ("WORLD_SIZE", *_MPI_SIZES):
        if os.environ.get(name, "").isdigit():
            return int(os.environ[name])
    return _number_of_processes(_parent_words("cmdline"))


def check_processes() -> None:
    """Refuse a launch (RunError) that was asked for several processes but gave this one no others: `--cpu --num_processes 2`."""
    if "WORLD_SIZE" in os.environ:
        return
    asked = asked_processes()
    if (asked is not None and asked < 2) or (asked is None and not _several_were_prepared()):
        return
    number, n = ("several", "N") if asked is None else (str(asked), str(asked))
    raise RunError(
        f"the launch asked for {number} processes, but this one runs alone. Start them with "
        f"`cda launch --num_processes {n} train ...`, `torchrun --nproc_per_node {n} -m cda train ...`, or "
        f"`accelerate launch --multi_gpu --num_processes {n} -m cda train ...` without --cpu (on CPUs too); "
        "for one process give --num_processes 1"
    )


def check_running(n_running: int) -> None:
    """Compare with the number of processes that the trainer sees, before it trains with an unintended batch size (RunError)."""
    if n_running != world_size():
        raise RunError(
            f"{world_size()} processes were launched, but the trainer sees {n_running}. "
            "Start them with torchrun, or with accelerate launch --multi_gpu, without --cpu"
        )


def check_shared(folder: Path) -> None:
    """RunError unless every machine of this launch sees the folder, before one waits for ever for a file of another's."""
    if on_one_machine():
        return
    store, check = _store(), f"cda/shared/{next(_CHECKS)}"
    probe = folder / f".seen-{uuid.uuid4().hex}"
    if is_main():
        with contextlib.suppress(OSError):  # it is then seen by none
            folder.mkdir(parents=True, exist_ok=True)
            probe.touch()
        store.set(check, probe.name)
    there, end = folder / store.get(check).decode(), time.monotonic() + _SEEN_WITHIN_S
    while not there.exists() and time.monotonic() < end:
        time.sleep(0.1)
    store.set(f"{check}/{rank()}", "" if there.exists() else platform.node() or "?")
    blind = {store.get(f"{check}/{number}").decode() for number in range(world_size())} - {""}
    if is_main():
        probe.unlink(missing_ok=True)
    if blind:
        raise RunError(
            f"{folder}: {', '.join(sorted(blind))} does not see a file that the main process wrote there. The processes of a launch "
            "wait for each other's files: name a folder on a file system that all machines share (--out, run.folder=...)"
        )


@cache
def _store() -> Any:
    """Where the processes of a launch meet. It is kept: torch takes the same one up for its collectives."""
    from torch.distributed.rendezvous import rendezvous

    return next(rendezvous("env://"))[0]


def use_all_cores() -> None:
    """Give a single process on a CPU all of its cores, and let others have them while it waits; call before torch is imported.

    `accelerate launch` sets OMP_NUM_THREADS to 1 by default, which leaves every other core idle. By GCC's OpenMP, torch's threads
    spin for milliseconds before they sleep: where another program wants the cores, a training then takes twice as long.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "3000")
    by_accelerate = "ACCELERATE_MIXED_PRECISION" in os.environ and os.environ.get("OMP_NUM_THREADS") == "1"
    if by_accelerate and world_size() == 1:
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        os.environ["OMP_NUM_THREADS"] = str(cores)


def say(text: str) -> None:
    """Tell the user, from the main process alone, with control characters spelled out.

    A message goes to the logger `cda`, which the command line shows on standard output; see `cda.user_errors.speaking`.
    """
    if is_main():
        _LOG.info("%s", visible(text))


@contextlib.contextmanager
def unsaid() -> Iterator[None]:
    """Say nothing, as while something is looked at that will be said later."""
    before, _LOG.disabled = _LOG.disabled, True
    try:
        yield
    finally:
        _LOG.disabled = before


def wait_until(ready: Callable[[], bool], folder: Path, poll_s: float = 1.0) -> None:
    """Wait until the main process has made something; RunError if it failed."""
    while not ready():
        if failure_told(folder / _FAILED) is not None:
            raise RunError("the main process failed; see its message")
        time.sleep(poll_s)


def launch_id() -> str:
    """The same for all processes of one launch, on all machines; a later launch may have it too."""
    return ":".join(os.environ.get(name, "") for name in ("MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID"))


def tell_failure(folder: Path) -> None:
    """Let waiting processes of this launch know that the main one failed."""
    if is_main() and world_size() > 1 and folder.is_dir():
        # If the folder cannot be written, that is the error to be shown, and the launcher ends the others.
        with contextlib.suppress(OSError):
            clear_failure(folder)  # a link in its place would be written through
            write_failure(folder / _FAILED)


def write_failure(marker: Path, error: str = "") -> None:
    """Tell the other processes of this launch of a failure, by a file that all see."""
    marker.write_text(json.dumps({"launch": launch_id(), "error": error}), encoding="utf-8")


def failure_told(marker: Path) -> str | None:
    """The error that a process of this launch told by a file; None if there is none, or an earlier launch left it."""
    try:
        # Files of several machines are dated by the clock of the one that holds them, so this process's start is read off that.
        if marker.stat().st_mtime <= _STARTED + _clock_ahead_s(marker.parent):
            return None
        told = json.loads(marker.read_text(encoding="utf-8"))
        return str(told["error"]) if told["launch"] == launch_id() else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def clear_failure(folder: Path) -> None:
    """Forget that an earlier launch failed."""
    (folder / _FAILED).unlink(missing_ok=True)


def _several_were_prepared() -> bool:
    """True if `accelerate launch` set a meeting place for several processes and then started one.

    Its launcher of one process sets MASTER_ADDR only if more processes or machines were asked for. If the variable stood
    in the launcher's own environment, it says nothing.
    """
    if "ACCELERATE_MIXED_PRECISION" not in os.environ or "MASTER_ADDR" not in os.environ:
        return False
    return not any(word.startswith("MASTER_ADDR=") for word in _parent_words("environ"))


def _number_of_processes(words: Sequence[str]) -> int | None:
    """The number behind --num_processes on the command line of an `accelerate launch`; the last one counts."""
    if not any(Path(word).name.startswith("accelerate") for word in words):
        return None
    number = None
    for word, following in zip(words, [*words[1:], ""], strict=True):
        option, _, value = word.replace("-", "_").partition("=")
        value = value or following
        if option == "__num_processes" and value.isdigit():
            number = int(value)
    return number


def _parent_words(file: str) -> list[str]:
    """Command line or environment of the process that started this one; empty if the system does not show it."""
    try:
        content = (Path("/proc") / str(os.getppid()) / file).read_bytes()
    except OSError:
        return []
    return content.decode("utf-8", "replace").split("\0")


def _clock_ahead_s(folder: Path) -> float:
    """Seconds by which the clock that dates a folder's files is ahead of this machine's; 0 if that cannot be seen."""
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".clock-") as probe:
            probe.write(b".")
            probe.flush()
            return Path(probe.name).stat().st_mtime - time.time()
    except OSError:
        return 0.0
