"""Keeps libraries from printing what a user of cda cannot act on, and says whether progress bars are shown."""

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
    # Said once a layer and step: that 8-bit multiplication casts its input, which is how it works.
    logging.getLogger("bitsandbytes.autograd._functions").setLevel(logging.ERROR)
    # That a faster 4-bit kernel for CPUs could be downloaded: nothing here is in 4 bits.
    logging.getLogger("bitsandbytes.backends.cpu.ops").setLevel(logging.ERROR)
    # That notebooks could show prettier bars: it is said by libraries whose bars are off.
    warnings.filterwarnings("ignore", "IProgress not found")
    warnings.filterwarnings("ignore", module=r"(torch|bitsandbytes|peft|trl|accelerate|transformers)\b")


def hides_bars() -> bool:
    """Whether progress bars were switched off; what each bar takes as `disable`."""
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
