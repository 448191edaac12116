"""What a command wrote, in a form that can be kept and compared: nothing that differs between machines, and nothing long.

Of a file of JSON its value is kept, with a long list as its length, a few items and the means of its columns. A file of rows
becomes such a list. A page becomes its visible text, where no Markdown tells the same.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

LONG = 8
"""Lists of more items than this are kept as a summary."""
TEXT = 200
"""Texts and lines of more characters than this are kept without their middle."""
LEAVES = ".leaves"
"""What the record of a file of JSON or of rows is called beyond the file's own name."""
DIGITS = 9
"""Significant digits of a number that is kept: ten times finer than the comparison."""
# Of the machine, the moment or the installation; or settings, which the dry runs show.
UNKEPT_KEYS = frozenset({
    "versions", "seconds", "finished", "contents", "fingerprint", "output", "inputs", "settings", "recipe", "git", "python",
    "platform",
})  # fmt: skip
UNKEPT_COLUMN = re.compile(r"runtime|_per_second|seconds|total_flos")
# Written by libraries, whose versions decide what is in them: their names are kept alone.
FOREIGN = re.compile(r"tokenizer|adapter_config|config\.json|\.jinja$|\.lock$|\.sqlite|\.bin$|\.safetensors$|vocab")
KEPT_SUFFIXES = frozenset({".json", ".jsonl", ".md", ".html", ".yaml", ".csv", ".txt"})
_UNKEPT_LINE = re.compile(r"^(?:- )?(?:commit of this package|Python|machine):.*\n?", re.MULTILINE)
_WORDS = (
    (re.compile(r"\bcda \d+\.\d+\.\d+\S*(?:, [\w-]+ \d[\w.+]*)+"), "<versions>"),
    (re.compile(r"^\d+\.\d+\.\d+$", re.MULTILINE), "<version>"),
    (re.compile(r"\b20\d\d-\d\d-\d\d(?:T[\d:.]+Z?| \d\d:\d\d(?::\d\d)?(?: UTC)?)?"), "<date>"),
    (re.compile(r"\b\d+(?:\.\d+)? (?:s|ms|min|h|seconds|minutes|hours)\b"), "<time>"),
    (re.compile(r"\b[0-9a-f]{16,64}\b"), "<hash>"),
)


class Scrubber:
    """Takes paths, addresses, times, versions and digests out of text.

    Args:
        names: Text to the word that stands for it, such as a folder's path to `<folder>`.
    """

    def __init__(self, names: Mapping[str, str]) -> None:
        # The longest first, so that a folder's own name goes before that of the folder it lies in.
        self.names = sorted(names.items(), key=lambda pair: -len(pair[0]))

    def __call__(self, text: str) -> str:
        for name, word in self.names:
            text = text.replace(name, word)
        text = _UNKEPT_LINE.sub("", text)
        for pattern, word in _WORDS:
            text = pattern.sub(word, text)
        return "\n".join(shortened(line.rstrip()) for line in text.splitlines())


def shortened(text: str) -> str:
    """A text as it is, or without its middle where it is long."""
    return text if len(text) <= TEXT else f"{text[: TEXT // 2]} […] {text[-TEXT // 5 :]} [{len(text)} characters]"


def printed(text: str, scrub: Scrubber) -> str:
    """Printed text without progress bars, which carriage returns tell."""
    return scrub("\n".join(line for line in text.split("\n") if "\r" not in line)) + "\n"


def kept_json(value: Any, scrub: Scrubber) -> Any:
    """JSON without what differs between machines; long lists are summed up."""
    if isinstance(value, Mapping):
        kept = {scrub(str(key)): item for key, item in value.items() if key not in UNKEPT_KEYS}
        return {key: kept_json(item, scrub) for key, item in kept.items() if not UNKEPT_COLUMN.search(key)}
    if isinstance(value, list):
        items = [kept_json(item, scrub) for item in value]
        return summed_up(items) if len(items) > LONG else items
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    return shortened(scrub(value)) if isinstance(value, str) else value


def summed_up(rows: Sequence[Any]) -> dict[str, Any]:
    """A long list: its length, two items and the last, the mean of each column of numbers and the extent of each text."""
    columns: dict[str, list[Any]] = {}
    for row in rows:
        for path, leaf in leaves(row):
            columns.setdefault(re.sub(r"\[\d+\]", "[]", path) or "value", []).append(leaf)
    numbers, texts = {}, {}
    for name, values in columns.items():
        finite = [float(value) for value in values if isinstance(value, (int, float)) and math.isfinite(value)]
        if finite:
            mean = float(f"{math.fsum(finite) / len(finite):.{DIGITS}g}")
            numbers[name] = {"n": len(finite), "mean": mean}
        words = [value for value in values if isinstance(value, str)]
        if words:
            texts[name] = {"n": len(words), "distinct": len(set(words)), "characters": sum(map(len, words))}
    return {"rows": len(rows), "first": list(rows[:2]), "last": rows[-1], "numbers": numbers, "texts": texts}


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every value in nested JSON that holds no further one, with its path: `skew.jargon.before.value`, `rows[3].id`."""
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            yield from leaves(item, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list) and value:
        for place, item in enumerate(value):
            yield from leaves(item, f"{path}[{place}]")
    else:
        yield path, value


def kept_file(path: Path, scrub: Scrubber) -> tuple[str, Any] | None:
    """Suffix of the record of a file, and its text or JSON; None if its name is all that is kept."""
    if FOREIGN.search(path.name) or path.suffix not in KEPT_SUFFIXES:
        return None
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".json":
        return LEAVES, kept_json(json.loads(text), scrub)
    if path.suffix == ".jsonl":
        rows = [kept_json(json.loads(line), scrub) for line in text.splitlines()]
        return LEAVES, summed_up(rows) if len(rows) > LONG else rows
    if path.suffix == ".html":
        if any(path.parent.glob("*.md")):
            return None
        return ".txt", scrub(visible_text(text)) + "\n"
    return "", scrub(text) + "\n"


def visible_text(page: str) -> str:
    """The text of a page, a line for each element; no script, style or drawing."""
    reader = _Visible()
    reader.feed(page)
    return "\n".join(line for line in (" ".join(part.split()) for part in reader.lines) if line)


class _Visible(HTMLParser):
    _INVISIBLE = frozenset({"script", "style", "svg"})
    _INLINE = frozenset({"a", "b", "code", "em", "i", "mark", "small", "span", "strong", "sub", "sup", "abbr", "wbr"})

    def __init__(self) -> None:
        super().__init__()
        self.lines = [""]
        self._hidden = 0

    def handle_starttag(self, tag: str, attrs: Any) -> None:  # noqa: ARG002
        self._hidden += tag in self._INVISIBLE
        if tag not in self._INLINE:
            self.lines.append("")

    def handle_endtag(self, tag: str) -> None:
        self._hidden -= tag in self._INVISIBLE
        if tag not in self._INLINE:
            self.lines.append("")

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self.lines[-1] += data
