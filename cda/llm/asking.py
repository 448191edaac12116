"""Many calls at once: workers in a thread with an event loop, their grace after an interrupt, and the one progress bar."""

from __future__ import annotations

import asyncio
import atexit
import queue
import random
import signal
import sys
import threading
import time
import weakref
from collections.abc import Awaitable, Callable, Generator, Iterable, Iterator, Mapping, Sized
from contextlib import AbstractAsyncContextManager, ExitStack, closing, suppress
from contextvars import ContextVar
from types import FrameType
from typing import TYPE_CHECKING, Protocol

from cda.errors import Terminated
from cda.inert import inert, visible
from cda.llm.protocol import Completion, Request
from cda.terminal import fitted_to_stream

if TYPE_CHECKING:
    from cda.progress import Bar

Answers = Generator[tuple[int, Completion], None, None]


def print_line(message: str) -> None:
    """Print one line on stderr that leaves a progress bar whole."""
    from tqdm import tqdm

    tqdm.write(fitted_to_stream(visible(message), sys.stderr), file=sys.stderr)


def with_progress(
    answers: Answers, requests: Iterable[Request], label: str, total: int | None, spent_usd: Callable[[], float | None]
) -> Answers:
    """Hand on the answers, which are closed with this, behind a bar of calls, dollars spent so far, and answers from the cache."""
    from cda.progress import Bar

    if total is None and isinstance(requests, Sized):
        total = len(requests)
    hits = 0
    with closing(answers), Bar(f"  {inert(label)}", total, "calls", "calls") as bar:
        _BARS.add(bar)
        for position, completion in answers:
            hits += completion.cached
            if completion.cached:
                bar.skip()
            notes = [] if (dollars := spent_usd()) is None else [f"${dollars:.2f}"]
            bar.set_postfix_str(", ".join(notes + ([f"{hits} from the cache"] if hits else [])), refresh=False)
            bar.update()
            yield position, completion


Ask = Callable[[Request], Awaitable[Completion]]
"""One question to its answer; raises LLMError if no question can be answered."""

GRACE_S = 30.0
"""Time that calls under way have after a fatal error, Ctrl-C or SIGTERM: they are paid for, so their answers are kept."""
_LONGEST_BACKOFF_S = 30.0
_SAY_AFTER_S = 0.3
_LOOK_AGAIN_S = 0.05


class Asker(Protocol):
    """A client, or a cache around it. `settings` decide an answer apart from the request, as
    JSON, with `max_tokens`; `concurrency`: most calls under way; `spent_usd`: dollars so far, None without a price.
    """

    @property
    def name(self) -> str: ...
    @property
    def concurrency(self) -> int: ...
    @property
    def settings(self) -> Mapping[str, object]: ...
    @property
    def spent_usd(self) -> float | None: ...

    def session(self) -> AbstractAsyncContextManager[Ask]:
        """Open connections in the running event loop; gives the function that asks one question."""
        ...


_WORKERS: ContextVar[Workers | None] = ContextVar("workers of this event loop", default=None)


async def pause(seconds: float) -> None:
    """Sleep between calls: for the rate, for money, before another try. A run that is broken off does not wait for this."""
    workers, task = _WORKERS.get(), asyncio.current_task()
    if workers is None or task is None:
        await asyncio.sleep(seconds)
        return
    if workers.stopping:
        raise asyncio.CancelledError
    workers.busy.discard(task)
    await asyncio.sleep(seconds)
    workers.busy.add(task)


async def back_off(tries: int, first_s: float, asked_s: float | None) -> None:
    """Sleep before another try: a random time, at most `first_s` after one try and twice as long after each, or as asked for."""
    backoff_s = random.uniform(0, min(_LONGEST_BACKOFF_S, first_s * 2.0 ** (tries - 1)))
    await pause(max(backoff_s, min(asked_s or 0.0, _LONGEST_BACKOFF_S)))


def answered(asker: Asker, items: Iterator[tuple[int, Request | Completion]], grace_s: float = 0.0) -> Answers:
    """Position and answer of each item, as they come; items that are already answered are passed on unchanged.

    Items are taken in the calling thread, one by one, and only while fewer than twice the concurrency are asked and not
    yet handed out: a slow consumer makes the workers wait, and memory does not grow with the number of items. The thread
    starts with the first question. Closing the generator, Ctrl-C or SIGTERM breaks the work off: nothing more is sent,
    calls under way may end within `grace_s` (0 if no one keeps answers that are not passed on), a second signal ends at once.
    LLMError of a worker is raised after every received answer has been passed on.
    """
    with ExitStack() as stack:
        workers: Workers | None = None
        under_way = 0
        more = True
        while more or under_way:
            room = more and under_way < 2 * asker.concurrency
            while workers is not None and under_way and (answer := workers.result(wait=not room)) is not None:
                under_way -= 1
                room = more
                yield answer
            if room:
                position, item = next(items, (-1, None))
                if item is None:
                    more = False
                elif isinstance(item, Completion):
                    yield position, item
                else:
                    workers = workers or stack.enter_context(closing(Workers(asker, grace_s)))
                    workers.submit(position, item)
                    under_way += 1


class Workers:
    """A thread with an event loop in which as many workers as the asker's concurrency take questions in turn, each its
    next one only when the asker has returned: with a cache, once the answer is in it.
    """

    def __init__(self, asker: Asker, grace_s: float = 0.0) -> None:
        self._asker = asker
        self._grace_s = grace_s
        self.busy: set[asyncio.Task[None]] = set()
        """Workers with a call under way."""
        self.stopping = False
        """No more calls may begin."""
        self._broken_off = asyncio.Event()
        self._inbox: asyncio.Queue[tuple[int, Request]] = asyncio.Queue()
        self._results: queue.SimpleQueue[tuple[int, Completion] | BaseException] = queue.SimpleQueue()
        self._loop = asyncio.new_event_loop()
        self._main = self._loop.create_task(self._serve())
        self._thread = threading.Thread(target=self._run, name="llm-workers", daemon=True)
        self._thread.start()
        self._hears_sigterm = bool(grace_s) and _hear_sigterm()
        if grace_s:
            _OPEN.add(self)

    def submit(self, position: int, request: Request) -> None:
        """Ask this as soon as a worker is free."""
        with suppress(RuntimeError):  # the loop ended in an error, which result() raises
            self._loop.call_soon_threadsafe(self._inbox.put_nowait, (position, request))

    def result(self, wait: bool) -> tuple[int, Completion] | None:
        """The next answer; None if it is not waited for and not there."""
        try:
            answer = self._results.get(block=wait)
        except queue.Empty:
            return None
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def close(self) -> None:
        """End the thread, once calls under way have ended or their grace is over; a signal meanwhile ends it at once."""
        try:
            if self._grace_s:
                with suppress(RuntimeError):
                    self._loop.call_soon_threadsafe(self._broken_off.set)
                self._thread.join(timeout=_SAY_AFTER_S)
                if self._thread.is_alive() and (n_calls := len(self.busy)):
                    print_line(
                        f"{n_calls} calls under way are paid for: waiting up to {self._grace_s:g} s to keep their answers. "
                        "Ctrl-C ends at once"
                    )
                self._thread.join(timeout=self._grace_s + 1)
        finally:
            with suppress(RuntimeError):  # it has ended by itself
                self._loop.call_soon_threadsafe(self._main.cancel)
            self._thread.join(timeout=10)
            _OPEN.discard(self)
            if self._hears_sigterm and signal.getsignal(signal.SIGTERM) is _terminate:
                signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._main)
        except asyncio.CancelledError:
            pass
        except BaseException as error:
            self._results.put(error)
        finally:
            self._loop.close()

    async def _serve(self) -> None:
        _WORKERS.set(self)
        async with self._asker.session() as ask:
            tasks = [asyncio.create_task(self._work(ask)) for _ in range(self._asker.concurrency)]
            broken_off = asyncio.create_task(self._broken_off.wait())
            try:
                # A worker only ends by an error.
                ended, _ = await asyncio.wait([*tasks, broken_off], return_when=asyncio.FIRST_COMPLETED)
                await self._drained(tasks)
                for task in ended:
                    task.result()
            finally:
                for task in (*tasks, broken_off):
                    task.cancel()
                await asyncio.gather(*tasks, broken_off, return_exceptions=True)

    async def _drained(self, tasks: list[asyncio.Task[None]]) -> None:
        """Wait for workers that have a call under way, and for no others."""
        self.stopping = True
        until = time.monotonic() + (self._grace_s or GRACE_S)
        while left := [task for task in tasks if not task.done()]:
            for task in left:
                if task not in self.busy:
                    task.cancel()
            if time.monotonic() > until:
                return
            await asyncio.wait(left, timeout=_LOOK_AGAIN_S)

    async def _work(self, ask: Ask) -> None:
        own = asyncio.current_task()
        assert own is not None
        while not self.stopping:
            position, request = await self._inbox.get()
            self.busy.add(own)
            self._results.put((position, await ask(request)))
            self.busy.discard(own)


_OPEN: weakref.WeakSet[Workers] = weakref.WeakSet()
_BARS: weakref.WeakSet[Bar] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """Close workers and bars of a generator that an interrupt in the consumer of the answers left open: the traceback holds it.

    Python 3.13 and later fail, or even crash, where a bar is closed only when the interpreter is being taken down.
    """
    with suppress(KeyboardInterrupt):
        for workers in list(_OPEN):
            workers.close()
    for bar in list(_BARS):
        bar.close()


def _hear_sigterm() -> bool:
    """Make SIGTERM an exception in the main thread, as Ctrl-C is; False if another handler is set."""
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
        return False
    signal.signal(signal.SIGTERM, _terminate)
    return True


def _terminate(_number: int, _frame: FrameType | None) -> None:
    raise Terminated
