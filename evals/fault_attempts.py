"""One attempt to make `cda` return a wrong number, lose an answer, follow a link or stall, and how it ended."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Kind = Literal["wrong numbers", "kills", "disks and files", "endpoint faults", "hostile text", "limits", "commands"]


@dataclass(frozen=True)
class Attempt:
    """`attack` works in an empty folder of its own and returns what went wrong, or `None` where `cda` survived."""

    kind: Kind
    name: str
    attack: Callable[[Path], str | None]
