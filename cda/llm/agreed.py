"""Calls that the user agreed to and calls that are made: a plan that is exceeded stops, and asks."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from cda.errors import RunError

_SHARE, _FEW = 1.5, 10
"""More calls than that share of the plan and a few exceed it: unreadable answers are asked for again."""


@dataclass(eq=False)
class Agreed:
    """Counts of one run; calls that cost nothing are not in them."""

    planned: int | None = None
    """None: the user was not asked, having agreed to everything, or up to a budget."""
    made: int = 0

    def plan(self, calls: int) -> None:
        """The user is asked about so many more."""
        self.planned = (self.planned or 0) + calls

    def again(self) -> None:
        """A call is made once more; the next one that is admitted finds out whether that exceeds the plan."""
        self.made += 1

    def admit(self) -> None:
        """Count one more call. RunError: it exceeds the plan, and the user declines or cannot be asked."""
        if self.planned is not None and self.made >= _SHARE * self.planned + _FEW:
            said = f"{self.made:,} LLM calls were made, and about {self.planned:,} were planned"
            if not sys.stdin.isatty():
                raise RunError(
                    f"{said}. What was answered is kept: start again with --yes to go on without being asked"
                )
            if input(f"  {said}. Go on? [y/N] ").strip().lower() not in ("y", "yes"):
                raise RunError(f"{said}. What was answered is kept, and nothing more was sent")
            self.planned = self.made
        self.made += 1
