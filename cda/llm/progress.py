"""The one progress bar of a run of calls: it stands around the outermost iterator, whatever is composed inside."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterable, Sized
from contextlib import closing

from cda.inert import inert, visible
from cda.llm.protocol import Completion, Request
from cda.quiet import hides_bars

Answers = Generator[tuple[int, Completion], None, None]


def say(message: str) -> None:
    """One line on stderr that leaves a progress bar whole."""
    from tqdm import tqdm

    tqdm.write(visible(message), file=sys.stderr)


def with_progress(
    found: Answers,
    requests: Iterable[Request],
    label: str,
    total: int | None,
    spent_usd: Callable[[], float | None],
) -> Answers:
    """Hand on the answers behind a bar of calls, dollars spent so far, and answers from the cache.

    Args:
        found: The answers; closed when this is.
        requests: Only asked for its length, where it has one and `total` is None.
        label: Stands before the bar.
        total: How many there will be; None where nobody knows.
        spent_usd: Running dollars; None where no price is known.
    """
    from tqdm import tqdm

    if total is None and isinstance(requests, Sized):
        total = len(requests)
    hits = 0
    with (
        closing(found),
        tqdm(total=total, desc=f"  {inert(label)}", unit="call", disable=total == 0 or hides_bars()) as bar,
    ):
        for position, completion in found:
            hits += completion.cached
            bar.set_postfix_str(_note(spent_usd(), hits), refresh=False)
            bar.update()
            yield position, completion


def _note(spent_usd: float | None, hits: int) -> str:
    parts = [f"${spent_usd:.2f}"] if spent_usd is not None else []
    return ", ".join(parts + ([f"{hits} from the cache"] if hits else []))
