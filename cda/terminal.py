"""Text for a stream that may know few characters and be narrow: our signs in ASCII, and lines wrapped at a terminal's width."""

from __future__ import annotations

import codecs
import io
import logging
import os
import re
import sys
import unicodedata
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from cda.inert import width

_ASCII = {
    "−": "-", "–": "-", "—": "--", "…": "...", "·": ".", "•": "*", "×": "x", "±": "+/-", "≤": "<=", "≥": ">=", "≈": "~", "≡": "=",
    "→": "->", "←": "<-", "↶": "<", "▲": "^", "▽": "v", "✓": "+", "✗": "x", "◁": "<", "▷": ">", "│": "|", "─": "-", "═": "=", "°": "deg",
    "“": '"', "”": '"', "„": '"', "‘": "'", "’": "'", "«": '"', "»": '"', "α": "alpha", "β": "beta", "λ": "lambda", "θ": "theta",
    "µ": "u", "π": "pi", "ρ": "rho", "σ": "sigma", "χ": "chi", "Δ": "delta", "Σ": "sum", "√": "sqrt", "∛": "cbrt", "∝": "~",
    "█": "#", "▌": "#", "▁": "_",
}  # fmt: skip
_LAID_OUT, _ERRORS = "cda-ascii-laid-out", "cda-ascii"
_LEAST_COLUMNS = 20
# Words, and wide characters one by one: lines may break between them.
_WIDE = r"\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\uac00-\ud7a3\uf900-\ufaff\uff01-\uff60"
_PARTS = re.compile(rf"\s*(?:[{_WIDE}]|[^\s{_WIDE}]+)")


def ascii_of(char: str) -> str:
    """The ASCII form of a character: that of our signs, a letter without its accents, or as many `?` as it has columns.

    >>> [ascii_of(char) for char in "→é中"]
    ['->', 'e', '??']
    """
    known = _ASCII.get(char) or unicodedata.normalize("NFKD", char).encode("ascii", "ignore").decode()
    return known or "?" * width(char)


def _encoded(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(map(ascii_of, error.object[error.start : error.end])), error.end


def _encoded_laid_out(error: UnicodeError) -> tuple[str, int]:
    """Of text that a library has laid out: its mark of what is cut off (of one column) must not become three."""
    said, end = _encoded(error)
    return said.replace("...", "."), end


codecs.register_error(_ERRORS, _encoded)
codecs.register_error(_LAID_OUT, _encoded_laid_out)


def never_fails(stream: object) -> None:
    """Have a stream write the ASCII form of each character that its encoding does not know, whoever prints."""
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors=_LAID_OUT)


def fitted_to_stream(text: str, stream: TextIO) -> str:
    """Text as a stream can show it: in its encoding, and on a terminal with no line wider than that, but for a word that is."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    known = text.encode(encoding, _ERRORS).decode(encoding)
    columns = _columns(stream)
    return known if columns is None else "\n".join(_wrapped(line, columns) for line in known.split("\n"))


def put(text: str, stream: TextIO | None = None) -> None:
    """Print text as its stream can show it; standard error by default."""
    stream = sys.stderr if stream is None else stream
    print(fitted_to_stream(text, stream), file=stream, flush=True)


def _columns(stream: TextIO) -> int | None:
    """Columns of a terminal, COLUMNS before what it says itself; None for a file or a pipe, whose lines are left as they are."""
    if not stream.isatty():
        return None
    given = os.environ.get("COLUMNS", "")
    try:
        found = int(given) if given.isdecimal() else os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):
        return None
    return max(_LEAST_COLUMNS, found) if found else None


def _wrapped(line: str, columns: int) -> str:
    """A line broken at spaces, what follows indented by two more columns; a word that is wider, such as a path, stays whole.

    >>> _wrapped("  one two three", 12)
    '  one two\\n    three'
    """
    if width(line) <= columns:
        return line
    indent = " " * min(len(line) - len(line.lstrip()) + 2, columns // 3)
    lines = [""]
    for part in _PARTS.findall(line):
        if width(lines[-1]) + width(part) <= columns:
            lines[-1] += part
        else:
            word = part.lstrip()
            lines.append((indent if len(indent) + width(word) <= columns else "") + word)
    return "\n".join(lines if lines[0].strip() else lines[1:])


_bars = True


def quiet_libraries() -> None:
    """Progress bars of datasets and tips of the tokenizers off; warnings about the libraries' own internals off."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ.setdefault("HF_DATASETS_DISABLE_PROGRESS_BARS", "1")
    # A warning in each layer and step that 8-bit multiplication casts its input, which is how it works.
    logging.getLogger("bitsandbytes.autograd._functions").setLevel(logging.ERROR)
    # A tip that a faster 4-bit kernel for CPUs could be downloaded: nothing here is in 4 bits.
    logging.getLogger("bitsandbytes.backends.cpu.ops").setLevel(logging.ERROR)
    # That the times of checkpoints may be rough here, so that their numbers are their order, as they are.
    logging.getLogger("transformers.trainer_utils").setLevel(logging.ERROR)
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
