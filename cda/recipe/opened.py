"""What a run has read and opened: each input once, each client once."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TypeVar, cast

T = TypeVar("T")


class Opened:
    """Inputs and clients of one run, made when they are first asked for. Nobody may change what it hands out."""

    def __init__(self) -> None:
        self._made: dict[Hashable, object] = {}

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """What was made under this key, or what `make` makes now.

        Args:
            key: Its kind first, then everything that decides it.
            make: Makes it. An error leaves nothing behind.
        """
        if key not in self._made:
            self._made[key] = make()
        return cast(T, self._made[key])
