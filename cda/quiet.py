"""Quiet libraries: no messages that a user of cda cannot act on; and the switch of the progress bars."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

_bars = True


def quiet_libraries() -> None:
    """Progress bars of datasets and tips of the tokenizers off; warnings about the libraries' own internals off."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ.setdefault("HF_DATASETS_DISABLE_PROGRESS_BARS", "1")
    # A warning in each layer and step that 8-bit multiplication casts its input, which is how it works.
    logging.getLogger("bitsandbytes.autograd._functions").setLevel(logging.ERROR)
    # A tip that a faster 4-bit kernel for CPUs could be downloaded: nothing here is in 4 bits.
    logging.getLogger("bitsandbytes.backends.cpu.ops").setLevel(logging.ERROR)
    # Kernels of Liger for hardware that is not here.
    logging.getLogger("liger_kernel").setLevel(logging.ERROR)
    # That its cache is a temporary folder, where there is no home to write into, and that fonts are read for the first time.
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    # A tip that notebooks could show prettier bars, from libraries whose bars are off.
    warnings.filterwarnings("ignore", "IProgress not found")
    warnings.filterwarnings("ignore", module=r"(torch|bitsandbytes|peft|trl|accelerate|transformers)\b")


def hides_bars() -> bool:
    """True if progress bars are switched off; each bar takes it as `disable`."""
    return not _bars


@contextmanager
def progress_bars(shown: bool) -> Iterator[None]:
    """Show or hide the progress bars of this process for a while."""
    global _bars
    before, _bars = _bars, shown
    try:
        yield
    finally:
        _bars = before
