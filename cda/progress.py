"""Progress on standard error: a bar on a terminal, a few lines in a log; and the time left for a whole run."""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from tqdm import tqdm

from cda.launch import is_main
from cda.terminal import hides_bars, put

Kind = Literal["texts", "steps", "calls"]
_KINDS: tuple[Kind, ...] = ("texts", "steps", "calls")
LINE_EVERY_S, LINE_AT_LAST_S, LINE_EVERY_SHARE = 30.0, 600.0, 0.1
"""A log gets a line after a tenth of the work, but none within 30 s of the last one, and one after 10 minutes in any case."""
_SHORT_S = 10.0
"""Work that took less than this gets no line in a log."""
_MEASURED_S = 1.0
"""Time after which a speed is believed."""


@dataclass
class StageWork:
    """Work that is planned for a stage: texts to score, LLM calls, trainings; `is_open` if there is more that cannot be counted
    yet. Each bar of the stage takes its own part away."""

    name: str
    texts: float = 0.0
    calls: float = 0.0
    trainings: int = 0
    is_open: bool = False


class RunProgress:
    """The time left for a run: the work of its stages at the speed so far. Each bar refines both.

    Args:
        stages: The stages in order.
        steps: Planned steps of one training; corrected by the first training that begins.
        texts_a_step: Number of texts whose scoring takes as long as a step, used until both speeds are measured.
    """

    def __init__(self, stages: Sequence[StageWork], steps: float = 0.0, texts_a_step: float = 1.0) -> None:
        self.stages, self._at = list(stages), 0
        self.steps, self._texts_a_step = steps, texts_a_step
        self._bars: list[Bar] = []
        self._measured: dict[Kind, tuple[float, float]] = {}
        """Amount that closed bars did of each kind, and their seconds."""

    @property
    def place(self) -> str:
        """The current stage by its number, such as `stage 3/6`."""
        return f"stage {self._at + 1}/{len(self.stages)}"

    def begin(self, name: str) -> None:
        """Move to a stage; work left of earlier ones is done."""
        self._at = next((at for at, stage in enumerate(self.stages) if stage.name == name), self._at)

    def leave_out(self, name: str) -> None:
        """Take away a stage that turned out not to be needed."""
        self.stages = [stage for stage in self.stages if stage.name != name]
        self._at = max(0, min(self._at, len(self.stages) - 1))

    def opened(self, bar: Bar) -> None:
        """Count a bar's own total in place of what was planned for it."""
        self._bars.append(bar)
        stage = self.stages[self._at] if self.stages else StageWork("")
        if bar.kind == "steps":
            self.steps, stage.trainings = bar.amount, max(0, stage.trainings - 1)
        elif bar.kind is not None:
            setattr(stage, bar.kind, max(0.0, getattr(stage, bar.kind) - bar.amount))

    def closed(self, bar: Bar) -> None:
        """Keep the speed of a bar that has ended."""
        if bar in self._bars:
            self._bars.remove(bar)
            if bar.kind is not None:
                amount, seconds = self._measured.get(bar.kind, (0.0, 0.0))
                self._measured[bar.kind] = amount + bar.amount_done, seconds + bar.seconds

    def seconds_left(self) -> tuple[float, bool] | None:
        """Estimated seconds, and True if they are the least, since something is of unknown speed or size; None before any
        speed is known."""
        left = {kind: self._left(kind) for kind in _KINDS}
        known = {kind: speed for kind in _KINDS if (speed := self._seconds_each(kind)) is not None}
        if not known:
            return None
        more = any(amount and kind not in known for kind, amount in left.items())
        more |= any(stage.is_open for stage in self.stages[self._at :])
        return sum(left[kind] * each for kind, each in known.items()), more

    def _left(self, kind: Kind) -> float:
        stages = self.stages[self._at :]
        planned = (self.steps * stage.trainings if kind == "steps" else getattr(stage, kind) for stage in stages)
        return sum(planned) + sum(bar.amount_left for bar in self._bars if bar.kind == kind)

    def _seconds_each(self, kind: Kind) -> float | None:
        """Seconds for one text, step or call; of a text from a step or the reverse, if only the other was measured."""
        if (own := self._measured_each(kind)) is not None or kind == "calls":
            return own
        other = self._measured_each("steps" if kind == "texts" else "texts")
        if other is None:
            return None
        return other / self._texts_a_step if kind == "texts" else other * self._texts_a_step

    def _measured_each(self, kind: Kind) -> float | None:
        amount, seconds = self._measured.get(kind, (0.0, 0.0))
        amount += sum(bar.amount_done for bar in self._bars if bar.kind == kind)
        seconds += sum(bar.seconds for bar in self._bars if bar.kind == kind)
        return seconds / amount if amount and seconds >= _MEASURED_S else None


_run: RunProgress | None = None


@contextmanager
def run_progress(run: RunProgress) -> Iterator[RunProgress]:
    """Have bars show the stage and the time left of a run for a while."""
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
        kind: Kind of work that the run's time left counts it as; None: not counted.
        amount: Number of texts, steps or calls that `total` stands for; None: `total` itself.
        initial: Part of `total` that was done before.
    """

    def __init__(
        self, label: str | None, total: float | None, unit: str, kind: Kind | None, *, amount: float | None = None,
        initial: float = 0,
    ) -> None:  # fmt: skip
        self.kind, self._label, self._of, self._before = kind, label or "", unit, initial
        self._amount = total if amount is None else amount
        self._lines = not on_terminal()
        self._said = self._begun = time.monotonic()
        self._said_share = initial / total if total else 0.0
        self._run = _run
        count = "{percentage:3.0f}%|{bar}| {counts}" if total else "{counts}"
        disable = label is None or total == 0 or hides_bars() or not is_main()
        super().__init__(
            total=total, initial=initial, desc=label, disable=disable, leave=not self._lines,
            bar_format=f"{{desc}}: {count}{{postfix}} [{{elapsed}}{{left}}]",
            # Lines of a log are written by `_say`, and this bar must write nothing else.
            file=io.StringIO() if self._lines else None,
        )  # fmt: skip
        if self._run is not None and not disable:
            self._run.opened(self)

    @property
    def amount(self) -> float:
        """Texts, steps or calls that are not known from before."""
        return (self._amount or 0.0) * (1 - self._before / self.total) if self.total else 0.0

    @property
    def amount_done(self) -> float:
        """Those of them that are done; of an unknown total the count itself."""
        return (self._amount or 0.0) * (self.n - self._before) / self.total if self.total else float(self.n)

    @property
    def amount_left(self) -> float:
        return max(0.0, self.amount - self.amount_done) if self.total else 0.0

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
        elif self._is_due():
            self._say()

    def close(self) -> None:
        """End the bar; in a log, say so if it took long enough to be of interest."""
        if self.disable:
            return
        if self._run is not None:
            self._run.closed(self)
        if self._lines and self.seconds >= _SHORT_S:
            self._say()
        super().close()

    def _is_due(self) -> bool:
        since, share = time.monotonic() - self._said, self.n / self.total if self.total else 1.0
        is_a_tenth = share - self._said_share >= LINE_EVERY_SHARE or not self.total
        return since >= LINE_AT_LAST_S or (since >= LINE_EVERY_S and is_a_tenth)

    def _say(self) -> None:
        self._said, self._said_share = time.monotonic(), self.n / self.total if self.total else 0.0
        share = f"{self.n / self.total:.0%}, " if self.total else ""
        postfix = f", {self.postfix}" if self.postfix else ""
        spent = f"{_rounded(self.seconds)} so far" if self._left() else f"done in {_rounded(self.seconds)}"
        said = [f"{self._label.strip()}: {share}{self.counts}{postfix}", spent, *self._left()]
        put("; ".join(said))

    def _left(self) -> list[str]:
        """The run's stage, and the time left for the run, or for this bar if there is no run; nothing at its end."""
        if self.total is not None and self.n >= self.total:
            return []
        if self._run is not None:
            left, place = self._run.seconds_left(), [self._run.place]
        else:
            done, place = self.amount_done, []
            known = done > 0 and self.seconds >= _MEASURED_S and self.total
            left = (self.seconds / done * self.amount_left, False) if known else None
        return place if left is None else [*place, f"{'at least' if left[1] else 'about'} {_rounded(left[0])} left"]


def _rounded(seconds: float) -> str:
    """A time without false precision, in the unit that suits it.

    >>> _rounded(2), _rounded(41), _rounded(600), _rounded(9000)
    ('5 s', '40 s', '10 min', '2.5 h')
    """
    if seconds < 90:
        return f"{max(5, 5 * round(seconds / 5))} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
