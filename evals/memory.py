"""Peak memory of this process alone.

`ru_maxrss` is no such thing on Linux: a process begins with the peak of the one that started it, also after `exec`, so that a
child of a large parent reports the parent's peak and nothing it allocates shows. `VmHWM` is that of the process's own memory.
"""

from __future__ import annotations

import re
import resource
import sys
from pathlib import Path

_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def peak_bytes() -> int:
    """Most memory that was resident at once, since the start of the process or the last `restart_peak`."""
    if sys.platform == "linux":
        return _status("VmHWM")
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # bytes on macOS, where a child does not inherit it


def restart_peak() -> int:
    """Count the peak from now on, and return what is resident now; elsewhere than on Linux the peak so far stays."""
    if sys.platform != "linux":
        return peak_bytes()
    _CLEAR.write_text("5")
    return _status("VmRSS")


def _status(name: str) -> int:
    found = re.search(rf"^{name}:\s+(\d+) kB$", _STATUS.read_text(encoding="utf-8"), re.MULTILINE)
    assert found is not None, f"{_STATUS} has no {name}"
    return int(found[1]) * 1024
