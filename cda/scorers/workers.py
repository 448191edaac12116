"""Scoring shared out: over threads, each with batches of its own, or over the processes of one launch."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, as_completed, wait
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from cda.arrays import FloatArray
from cda.errors import CdaError, RunError
from cda.files.jsonl import read_jsonl, write_jsonl
from cda.launch import failure_told, rank, world_size, write_failure
from cda.scorers.batching import Batch


def in_threads(
    compute: Callable[[Batch], FloatArray], batches: Iterable[Batch], n: int
) -> Iterator[tuple[Batch, FloatArray]]:
    """Every batch with its rewards, as they come; n threads compute one batch each, with their share of torch's threads.

    Products of matrices leave Python to the other threads, so that n cores work; together on one product they would wait for
    each other, and burn their time in it where other programs use the cores. No batch is fetched before a thread is free.
    """
    import torch

    total = torch.get_num_threads()
    each = partial(torch.set_num_threads, max(1, total // n))  # for the thread that calls it
    with ThreadPoolExecutor(n, "cda-score", each) as pool:
        running: dict[Future[FloatArray], Batch] = {}
        try:
            for batch in batches:
                running[pool.submit(compute, batch)] = batch
                if len(running) == n:
                    for done in wait(running, return_when=FIRST_COMPLETED).done:
                        yield running.pop(done), done.result()
            for done in as_completed(running):
                yield running[done], done.result()
        finally:
            pool.shutdown(cancel_futures=True)
            torch.set_num_threads(total)


def dealt(sizes: Sequence[int], n: int) -> list[list[int]]:
    """Rows for each of n processes, even in number and in size; every process finds the same shares by itself. Sorted
    by size and dealt to and fro, so that sums differ by no more than the largest size, also by any other measure that
    rises with `sizes`: characters stand for tokens here, cut texts included.
    """
    order = sorted(range(len(sizes)), key=lambda row: (-sizes[row], row))
    shares: list[list[int]] = [[] for _ in range(n)]
    for at, row in enumerate(order):
        lap, seat = divmod(at, n)
        shares[seat if lap % 2 == 0 else n - 1 - seat].append(row)
    return shares


@dataclass(frozen=True, slots=True)
class Exchange:
    """Rows of each process of a launch, shared by files in a `folder` that all see: no collective that would wait for a
    failed process. The files stay, by their content (`name`: fingerprint of all that determines the rows): a process
    that finds its own from an earlier launch need not work again.
    """

    folder: Path
    name: str
    poll_s: float = 0.2
    """Pause between two looks."""

    def gathered(self, own: Callable[[], Iterable[object]]) -> Iterator[dict[str, Any]]:
        """Rows of all processes in the order of their ranks; `own` computes those of this one. RunError if another one failed."""
        part = self._file("rows.jsonl")
        self._file("failed.json").unlink(missing_ok=True)
        if not part.is_file():
            part.parent.mkdir(parents=True, exist_ok=True)
            try:
                write_jsonl(part, own())
            except BaseException as error:
                with contextlib.suppress(OSError):
                    write_failure(self._file("failed.json"), error_line(error))
                raise
        parts = [self._file("rows.jsonl", number) for number in range(world_size())]
        for number, path in enumerate(parts):
            while not path.is_file():
                self._check(number)
                time.sleep(self.poll_s)
        return (row for path in parts for row in read_jsonl(path))

    def _check(self, waited_for: int) -> None:
        for number in range(world_size()):
            if (error := failure_told(self._file("failed.json", number))) is not None:
                raise RunError(
                    f"process {number} of {world_size()} failed while process {rank()} waited for process {waited_for}: {error}"
                )

    def _file(self, ending: str, number: int | None = None) -> Path:
        which = rank() if number is None else number
        return self.folder / self.name / f"{which}-of-{world_size()}.{ending}"


def error_line(error: BaseException) -> str:
    """An error in one line: our own as it stands, others with their class."""
    text = str(error)
    return text if isinstance(error, CdaError) else f"{type(error).__name__}: {text}".removesuffix(": ")
