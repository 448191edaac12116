"""Lines on standard error that are no messages of cda: a warning of a library, or a traceback."""

from __future__ import annotations

import re

_OURS = re.compile(r"error(?: \(process \d+\))?: |[\w .,()-]+: (?:\d+%, )?\d+(?:/\d+)? (?:texts|steps|calls)\b")
# Launchers speak before the command begins, and cannot be silenced by it.
_LAUNCHERS = re.compile(
    r"The following values were not passed to `accelerate launch`|\t`--|To avoid this warning pass in values|\*{20,}$"
    r"|W\d{4} .*torch/distributed/run\.py|Setting OMP_NUM_THREADS environment variable"
)


def foreign_lines(stderr: str) -> list[str]:
    """What is left of standard error without the messages of cda and of its launcher."""
    lines = (line for line in stderr.splitlines() if line.strip())
    return [line for line in lines if not (_OURS.match(line) or _LAUNCHERS.match(line))]
