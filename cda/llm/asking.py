"""Many questions at once from a background thread, in bounded memory, with the answers handed to the calling thread."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, ExitStack, closing, suppress
from typing import Any, Protocol

from cda.llm.progress import Answers
from cda.llm.protocol import Completion, Request

Ask = Callable[[Request], Awaitable[Completion]]
"""One question to its answer; raises LLMError where no question can be answered."""

GRACE_S = 30.0
"""After a fatal error, how long calls under way may take to finish: they are paid for, so their answers are kept."""


class Asker(Protocol):
    """What can be composed: a client, a budget around it, a cache around both."""

    @property
    def name(self) -> str:
        """Model name."""
        ...

    @property
    def concurrency(self) -> int:
        """Most calls under way at once."""
        ...

    @property
    def settings(self) -> Mapping[str, Any]:
        """What decides an answer apart from the request, as JSON; holds `max_tokens`."""
        ...

    @property
    def spent_usd(self) -> float | None:
        """Dollars so far; None where no price is known."""
        ...

    def session(self) -> AbstractAsyncContextManager[Ask]:
        """Open connections in the running event loop; gives the function that asks one question."""
        ...


def answered(asker: Asker, items: Iterator[tuple[int, Request | Completion]]) -> Answers:
    """Position and answer of each item, as they come; what is answered already is handed on as it is.

    Items are taken in the calling thread, one by one, and only while fewer than twice the concurrency are asked and not
    yet handed out. So a slow consumer makes the workers wait, and memory does not grow with the number of items. Where
    nothing has to be asked no thread is started. Closing the generator, or Ctrl-C, cancels what is under way.

    Raises:
        LLMError: From a worker, after every answer that came in has been handed out.
    """
    with ExitStack() as stack:
        workers: Workers | None = None
        under_way = 0
        more = True
        while more or under_way:
            while workers is not None and (ready := workers.ready()) is not None:
                under_way -= 1
                yield ready
            if more and (workers is None or under_way < workers.window):
                position, item = next(items, (-1, None))
                if item is None:
                    more = False
                elif isinstance(item, Completion):
                    yield position, item
                else:
                    workers = workers or stack.enter_context(closing(Workers(asker)))
                    workers.submit(position, item)
                    under_way += 1
            elif workers is not None and under_way:
                found = workers.result()
                under_way -= 1
                yield found


class Workers:
    """A thread with an event loop in which as many workers as the asker's concurrency take questions in turn.

    A worker takes its next question only when the asker has returned, that is, where there is a cache, once the answer
    is in it.
    """

    def __init__(self, asker: Asker) -> None:
        self.window = 2 * asker.concurrency
        self._asker = asker
        self._stopping = False
        self._busy: set[asyncio.Task[None] | None] = set()
        self._inbox: asyncio.Queue[tuple[int, Request]] = asyncio.Queue()
        self._found: queue.SimpleQueue[tuple[int, Completion] | BaseException] = queue.SimpleQueue()
        self._loop = asyncio.new_event_loop()
        self._main = self._loop.create_task(self._serve())
        self._thread = threading.Thread(target=self._run, name="llm-workers", daemon=True)
        self._thread.start()

    def submit(self, position: int, request: Request) -> None:
        """Ask this as soon as a worker is free."""
        with suppress(RuntimeError):  # the loop ended in an error, which result() raises
            self._loop.call_soon_threadsafe(self._inbox.put_nowait, (position, request))

    def result(self) -> tuple[int, Completion]:
        """Wait for the next answer."""
        return _value(self._found.get())

    def ready(self) -> tuple[int, Completion] | None:
        """The next answer if there is one by now."""
        try:
            return _value(self._found.get_nowait())
        except queue.Empty:
            return None

    def close(self) -> None:
        """Cancel what is under way and end the thread."""
        with suppress(RuntimeError):  # it has ended by itself
            self._loop.call_soon_threadsafe(self._main.cancel)
        self._thread.join(timeout=10)

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._main)
        except asyncio.CancelledError:
            pass
        except BaseException as error:
            self._found.put(error)
        finally:
            self._loop.close()

    async def _serve(self) -> None:
        async with self._asker.session() as ask:
            tasks = [asyncio.create_task(self._work(ask)) for _ in range(self._asker.concurrency)]
            try:
                # A worker only ends by an error.
                ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                self._stopping = True
                for task in tasks:
                    if task not in self._busy:
                        task.cancel()
                await asyncio.wait(tasks, timeout=GRACE_S)
                for task in ended:
                    task.result()
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    async def _work(self, ask: Ask) -> None:
        while not self._stopping:
            position, request = await self._inbox.get()
            self._busy.add(asyncio.current_task())
            self._found.put((position, await ask(request)))
            self._busy.discard(asyncio.current_task())


def _value(found: tuple[int, Completion] | BaseException) -> tuple[int, Completion]:
    if isinstance(found, BaseException):
        raise found
    return found
