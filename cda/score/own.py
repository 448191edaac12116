"""A user's own scorer: a Python function named `package.module:function` or `path/to/file.py:function`.

Loading it runs the module or file, and scoring runs the function, with all that the user may do: name only code you trust.

A function of two parameters is a reward model: (prompts, responses) to one number each, higher is better. One of three is a
judge: (prompts, first, second) to one preference each, from −1 (the second) over 0 (a tie) to 1 (the first); NaN where it
has no verdict. Each comparison is asked for in both orders, in two calls, so that a taste for a place cancels and is reported.
Parameters with defaults do not count. Each prompt is a list of messages, {"role": ..., "content": ...}, as chat templates
take them, also where there is one message only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cda.errors import ModelError
from cda.records import Prompt
from cda.score.both_orders import BothOrders, of_both_orders
from cda.score.in_memory import InMemoryModel
from cda.score.own_code import OwnCode, code_in_memory, load_code
from cda.score.protocols import FloatArray, StreamingScorer

Scored = tuple[list[int], FloatArray]
"""Rows, and the number of each."""


@dataclass
class OwnPointwise(StreamingScorer):
    """A scorer over a user's function.

    Args:
        code: The function.
        batch_rows: Rows in a call.
    """

    code: OwnCode
    batch_rows: int = 256

    @property
    def name(self) -> str:
        """For artifacts."""
        return self.code.name

    @property
    def settings(self) -> Mapping[str, object]:
        """What decides its answers."""
        return self.code.settings

    @property
    def how(self) -> str:
        """How it scores, for reports."""
        return f"Scored by {self.name}"

    def stream(self, prompts: Sequence[Prompt], responses: Sequence[str]) -> Iterator[Scored]:
        """Rows and their rewards, call by call, so that they can be kept before a later call fails.

        Raises:
            ModelError: The function fails, or a reward is NaN or infinite.
        """
        for rows in _batches(len(prompts), self.batch_rows):
            found = self.code.numbers(rows, prompts, responses)
            broken = np.flatnonzero(~np.isfinite(found))
            if broken.size:
                raise ModelError(
                    f"{self.name}: {broken.size} of {len(rows)} rewards are NaN or infinite (first: text "
                    f"{rows[broken[0]] + 1:,}); every text needs a reward"
                )
            yield list(rows), found


@dataclass
class OwnPairwise:
    """A PairwiseScorer over a user's function, which is asked in both orders as an LLM judge is.

    Args:
        code: The function.
        batch_rows: Comparisons in a call; those in the other order are another call.
        both_orders: A comparison with a verdict in one order only has no margin; otherwise that order alone counts.
        orders: What the two orders of the last comparisons came to; unread is where the function gave NaN.
        reasons: As those of an LLM judge; a function gives none.
    """

    code: OwnCode
    batch_rows: int = 256
    both_orders: bool = False
    orders: BothOrders = field(default=BothOrders(), init=False)
    reasons: dict[str, int] = field(default_factory=dict, init=False)

    @property
    def name(self) -> str:
        """For artifacts."""
        return self.code.name

    @property
    def settings(self) -> Mapping[str, Any]:
        """What decides its answers."""
        return self.code.settings

    def margin(self, prompts: Sequence[Prompt], first: Sequence[str], second: Sequence[str]) -> FloatArray:
        """Preference for the first text, (f(first, second) − f(second, first)) / 2, −1 to 1.

        Returns:
            Shape (n,); NaN where the function has no verdict in either order.

        Raises:
            ModelError: The function fails, or a preference is outside −1 to 1.
        """
        values = np.full((len(prompts), 2), np.nan)
        for rows in _batches(len(prompts), self.batch_rows):
            for order, texts in enumerate(((first, second), (second, first))):
                values[rows, order] = self._asked(rows, prompts, *texts)
        margins, self.orders = of_both_orders(values, self.both_orders)
        return margins

    def _asked(self, rows: range, prompts: Sequence[Prompt], shown: Sequence[str], beside: Sequence[str]) -> FloatArray:
        """Preference for what is shown first, of some rows in one order."""
        found = self.code.numbers(rows, prompts, shown, beside)
        outside = np.flatnonzero(np.abs(found) > 1)
        if outside.size:
            at = outside[0]
            raise ModelError(
                f"{self.name}: the preference of comparison {rows[at] + 1:,} is {found[at]:g}; it must lie between "
                "−1 (the second) and 1 (the first). For rewards take the two parameters (prompts, responses)"
            )
        return found


OwnScorer = OwnPointwise | OwnPairwise | InMemoryModel


def own_scorer(name: str, batch_rows: int = 256) -> OwnPointwise | OwnPairwise:
    """Load and check a user's scorer; this runs its module, see `load_code`.

    Args:
        name: `package.module:function` or `path/to/file.py:function`.
        batch_rows: Rows in a call of the function.

    Raises:
        ModelError: As `load_code`.
    """
    return _scorer(load_code(name), batch_rows)


def scorer_in_memory(function: Callable[..., object], name: str, batch_rows: int = 256) -> OwnPointwise | OwnPairwise:
    """A function that is already there as a scorer.

    Args:
        function: Of two or three parameters, see above.
        name: For messages and reports.
        batch_rows: Rows in a call of the function.

    Raises:
        ModelError: It takes neither two nor three parameters.
    """
    return _scorer(code_in_memory(function, name), batch_rows)


def _scorer(code: OwnCode, batch_rows: int) -> OwnPointwise | OwnPairwise:
    return OwnPointwise(code, batch_rows) if code.n_columns == 2 else OwnPairwise(code, batch_rows)


def _batches(count: int, size: int) -> Iterator[range]:
    return (range(start, min(start + size, count)) for start in range(0, count, size))
