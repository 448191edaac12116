"""Scoring in several processes: a pool of our own that computes batches, or the processes of one launch.

On a CPU several processes of few threads multiply more matrices in a second than one process of many threads.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from cda.arrays import FloatArray
from cda.errors import CdaError, ModelError, RunError
from cda.files.jsonl import read_jsonl, write_jsonl
from cda.launch import failure_told, rank, world_size, write_failure
from cda.models.load import RewardModel
from cda.models.precision import Precision
from cda.records import user_prompt
from cda.scorers.batching import Batch, forward, token_ids

Load = Callable[[], RewardModel]
"""Loads the same model in another process; picklable, as `functools.partial(load_reward_model, spec, adapter)` is."""

# Largest difference between two runs of one model, as a share of 1 or the score.
_SAME: Mapping[Precision, float] = {"fp32": 1e-4, "8bit": 2e-2, "bf16": 2e-2}


class WorkerPool:
    """Processes that each hold a copy of one model and compute batches, one at a time; `threads` of torch in each.
    Ctrl-C, an error here or in one of them, and the end of this process end all of them.
    """

    def __init__(self, load: Load, n: int, threads: int = 1) -> None:
        self._n, self._arguments = n, (load, threads)
        self._workers: dict[Connection, BaseProcess] = {}

    def __enter__(self) -> WorkerPool:
        try:
            with _no_interrupts():
                for _ in range(self._n):
                    self._start()
            for connection in self._workers:
                self._answer(connection)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def compute(self, batches: Iterable[Batch]) -> Iterator[tuple[Batch, FloatArray]]:
        """Rewards of every batch, as they come; ModelError if a worker failed or ended."""
        left = iter(batches)
        idle = list(self._workers)
        running: dict[Connection, Batch] = {}
        while True:
            # No worker has more than one batch: so much is lost by a kill.
            while idle and (batch := next(left, None)) is not None:
                connection = idle.pop()
                self._send(connection, token_ids(batch))
                running[connection] = batch
            if not running:
                return
            for ready in wait(list(running)):
                assert isinstance(ready, Connection)
                rewards = self._answer(ready)
                idle.append(ready)
                yield running.pop(ready), rewards

    def check_same(self, reward_model: RewardModel) -> None:
        """Raise ModelError unless the workers score a text as the model of this process does, adapter and dose included."""
        ids = reward_model.template.encode(user_prompt("How are you?"), "I am well, thank you.").ids
        here = float(forward(reward_model, [ids])[0])
        for connection in self._workers:
            self._send(connection, [ids])
        for connection in self._workers:
            there = float(self._answer(connection)[0])
            # Not exactly: another number of threads adds up in another order. NaN is for the texts to show.
            if abs(there - here) > _SAME[reward_model.spec.precision] * max(1.0, abs(here)):
                raise ModelError(
                    f"a scoring worker's model gives {there:.6g} for a text, the one it was made after {here:.6g}: "
                    "what loads it must load the same adapter at the same dose"
                )

    def close(self) -> None:
        """End all workers, whatever they do."""
        for connection, process in self._workers.items():
            connection.close()
            process.terminate()
        for process in self._workers.values():
            process.join(5)
            if process.is_alive():
                process.kill()
                process.join()
        self._workers = {}

    def _start(self) -> None:
        # Not forked: a copy of a process whose libraries run threads may hang.
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_work, args=(theirs, *self._arguments), name="cda-score", daemon=True)
        self._workers[ours] = process
        try:
            process.start()
        except BaseException:
            del self._workers[ours]
            raise
        finally:
            theirs.close()  # held by the worker alone, so that its end is seen here

    def _send(self, connection: Connection, ids: list[list[int]]) -> None:
        try:
            connection.send(ids)
        except OSError:
            raise self._ended(connection) from None

    def _answer(self, connection: Connection) -> Any:
        try:
            failed, content = connection.recv()
        except (EOFError, OSError):
            raise self._ended(connection) from None
        if failed:
            raise ModelError(f"a scoring worker failed: {content}")
        return content

    def _ended(self, connection: Connection) -> ModelError:
        process = self._workers[connection]
        process.join(5)
        killed = " (killed, as happens where memory runs out: use fewer workers)" if process.exitcode == -9 else ""
        return ModelError(f"a scoring worker ended with exit code {process.exitcode}{killed}; its own words are above")


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


def _work(connection: Connection, load: Load, threads: int) -> None:
    """The main function of a worker: load, signal it, then answer each batch with its rewards until the parent is gone."""
    from cda.quiet import quiet_libraries

    try:
        quiet_libraries()
        import torch

        torch.set_num_threads(threads)
        reward_model = load()
        connection.send((False, None))
        while True:
            connection.send((False, forward(reward_model, connection.recv())))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return  # the process that asked is gone
    except Exception as error:
        with contextlib.suppress(OSError):
            connection.send((True, error_line(error)))


@contextlib.contextmanager
def _no_interrupts() -> Iterator[None]:
    """Have processes that are started meanwhile ignore Ctrl-C: this process ends them, without a traceback of each."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before or signal.SIG_DFL)
