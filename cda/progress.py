"""Progress on standard error: a bar on a terminal, a few lines in a log, with the time left and the stage of a run."""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from typing import Any

from tqdm import tqdm

from cda.launch import is_main
from cda.quiet import hides_bars
from cda.terminal import put

LINE_EVERY_S, _SHORT_S = 120.0, 10.0
"""A log gets a line of a bar as often as this, and one at its end if it took longer than that."""
_MEASURED_S = 1.0
"""Time after which a speed is believed."""


class RunProgress:
    """The stages of a run by name, in order, and the one that is under way: bars show its number."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names, self._at = list(names), 0

    @property
    def place(self) -> str:
        """The current stage by its number, such as `stage 3/6`."""
        return f"stage {self._at + 1}/{len(self.names)}"

    def begin(self, name: str) -> None:
        """Move to a stage."""
        self._at = self.names.index(name) if name in self.names else self._at

    def leave_out(self, name: str) -> None:
        """Take away a stage that turned out not to be needed."""
        self.names = [other for other in self.names if other != name]
        self._at = max(0, min(self._at, len(self.names) - 1))


_run: RunProgress | None = None


@contextmanager
def run_progress(run: RunProgress) -> Iterator[RunProgress]:
    """Have bars show the stage of a run for a while."""
    global _run
    before, _run = _run, run
    try:
        yield run
    finally:
        _run = before


def on_terminal() -> bool:
    """True if a bar can be drawn again and again on standard error: on a terminal or in a notebook."""
    return sys.stderr.isatty() or "ipykernel" in sys.modules


def say_waiting(what: str) -> None:
    """Say on a terminal what takes some seconds of silence; a log needs no such line."""
    if is_main() and sys.stderr.isatty() and not hides_bars():
        put(f"{what} ...")


class Bar(tqdm):  # type: ignore[type-arg]
    """A bar on standard error, of the main process alone; none without a label, or with progress switched off.

    Args:
        label: Name of the work; indented ones stand below their stage.
        total: Size of the work, in any unit; None if it is not known.
        unit: Word for the counted things, in the plural.
        initial: Part of `total` that was done before.
    """

    def __init__(self, label: str | None, total: float | None, unit: str, *, initial: float = 0) -> None:
        self._of, self._before = unit, initial
        self._lines = not on_terminal()
        self._said = self._begun = time.monotonic()
        share = "{percentage:.0f}%, " if self._lines else "{percentage:3.0f}%|{bar}| "
        super().__init__(
            total=total, initial=initial, desc=label, leave=not self._lines,
            disable=label is None or total == 0 or hides_bars() or not is_main(),
            bar_format=f"{{desc}}: {share if total else ''}{{counts}}{{postfix}} [{{elapsed}}{{left}}]",
            # Lines of a log are written by `display` and `close`, and this bar must write nothing else.
            file=io.StringIO() if self._lines else None,
        )  # fmt: skip

    def skip(self) -> None:
        """Count the thing that is done next as known from before, which says nothing about speed."""
        self._before += 1

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._begun

    @property
    def counts(self) -> str:
        """Number of things done, and of all."""
        return f"{self.n}/{self.total} {self._of}" if self.total else f"{self.n} {self._of}"

    @property
    def format_dict(self) -> MutableMapping[str, Any]:
        return {**super().format_dict, "counts": self.counts, "left": "".join(f", {part}" for part in self._left())}

    def display(self, msg: str | None = None, pos: int | None = None) -> None:
        """Draw the bar; in a log, write a line if one is due."""
        if not self._lines:
            super().display(msg, pos)
        elif time.monotonic() - self._said >= LINE_EVERY_S:
            self._said = time.monotonic()
            put(str(self).strip())

    def close(self) -> None:
        """End the bar; in a log, say so if it took long enough to be of interest."""
        if self.disable:
            return
        if self._lines and self.seconds >= _SHORT_S:
            put(str(self).strip())
        super().close()

    def _left(self) -> list[str]:
        """The time left for this bar, and the run's stage; nothing at its end."""
        if self.total is not None and self.n >= self.total:
            return []
        place, done = [] if _run is None else [_run.place], self.n - self._before
        if not self.total or done <= 0 or self.seconds < _MEASURED_S:
            return place
        return [f"about {_rounded(self.seconds / done * (self.total - self.n))} left", *place]


def _rounded(seconds: float) -> str:
    """A time without false precision, in the unit that suits it.

    >>> _rounded(2), _rounded(41), _rounded(600), _rounded(9000)
    ('5 s', '40 s', '10 min', '2.5 h')
    """
    if seconds < 90:
        return f"{max(5, 5 * round(seconds / 5))} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
