"""Keeps libraries from printing what a user of cda cannot act on."""

from __future__ import annotations

import logging
import os
import warnings


def quiet_libraries() -> None:
    """Progress bars of datasets and tips of the tokenizers off; warnings about the libraries' own internals off."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ.setdefault("HF_DATASETS_DISABLE_PROGRESS_BARS", "1")
    # Said once a layer and step: that 8-bit multiplication casts its input, which is how it works.
    logging.getLogger("bitsandbytes.autograd._functions").setLevel(logging.ERROR)
    # That a faster 4-bit kernel for CPUs could be downloaded: nothing here is in 4 bits.
    logging.getLogger("bitsandbytes.backends.cpu.ops").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", module=r"(torch|bitsandbytes|peft|trl|accelerate|transformers)\b")
