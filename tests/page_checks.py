"""What every page of a report has to keep: nothing loaded, nothing run that is not ours, nothing broken."""

from __future__ import annotations

import hashlib
import re
from base64 import b64encode
from html import unescape
from html.parser import HTMLParser

LOADS = {"src", "href", "srcset", "data", "action", "formaction", "poster", "background", "xlink:href", "style"}
VOID = {"meta", "br", "img", "input", "link", "hr"}


class Parsed(HTMLParser):
    """Tags with their attributes, the text of scripts and styles, and whether every tag is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.inside: dict[str, str] = {}
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in ("style", "script"):
            self.inside[self.open[-1]] = self.inside.get(self.open[-1], "") + data


def checked(text: str) -> Parsed:
    """The page, parsed; it loads nothing, its policy allows its own style and script alone, and its links lead somewhere."""
    page = Parsed(text)
    assert not page.open
    loads = [(tag, value) for tag, attrs in page.tags for key, value in attrs.items() if key in LOADS]
    assert loads and all(tag in ("a", "use") and value.startswith("#") for tag, value in loads)
    assert not [tag for tag, _ in page.tags if tag in ("img", "iframe", "link", "object", "embed", "base", "form")]
    assert not [key for _, attrs in page.tags for key in attrs if key.startswith("on")]
    ids = [attrs["id"] for _, attrs in page.tags if "id" in attrs]
    assert len(ids) == len(set(ids)) and {value[1:] for _, value in loads} <= set(ids)
    (policy,) = [attrs["content"] for _, attrs in page.tags if attrs.get("http-equiv") == "Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; ") and "unsafe" not in policy
    for kind in ("style", "script"):
        assert [tag for tag, _ in page.tags].count(kind) == 1
        digest = b64encode(hashlib.sha256(page.inside[kind].encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}';" in policy
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text)
    text.encode("utf-8")
    return page


def words(text: str) -> str:
    """What a reader reads, in one line."""
    body = re.sub(r"<(style|script)>.*?</\1>", "", text, flags=re.S)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", body))


def read_markdown(text: str) -> str:
    """Markdown as a reader reads it, without its escapes and marks."""
    return unescape(re.sub(r"\\([^A-Za-z0-9])", r"\1", text.replace("**", "")))


def section_ids(page: Parsed) -> list[str]:
    """Anchors of the sections, in order."""
    return [attrs["aria-labelledby"].removeprefix("heading-") for tag, attrs in page.tags if tag == "section"]


def figures(page: Parsed) -> list[str]:
    """Identifiers of the figures, in order."""
    return [
        attrs["aria-labelledby"].split("-title")[0]
        for tag, attrs in page.tags
        if tag == "svg" and "aria-labelledby" in attrs
    ]


_UNREADABLE = {
    "exponent": r"\d(?:\.\d+)?e[-+−]\d+",
    "more than two digits that count": r"(?<![\w.,-])(?:\d*[1-9]\d*\.\d{3,}|0\.0*[1-9]\d{2,})(?!\.?\d)",
    # A setting is written with its section, such as audit.max_contrasts, and a file with its ending.
    "key": r"(?<![\w./:<-])[a-z]+(?:_[a-z0-9]+)+(?![\w./]|\()",
    "backtick": r"\\?`[^`\n]{1,40}`",
    "value of Python": r"\b(?:nan|NaN|inf|True|False|None(?! (?:of|is|was|has)\b))\b",
}
"""What no sentence or cell of ours shows, by what it is called."""
# A p-value just beside the level that it is held against, and what a user may set exactly: doses, strengths, rates.
_EXACT = re.compile(r"0\.0(?:4[5-9]|5[0-4]|09|10)\d+|\b(?:dose|strength|rate)s? [\d., ]+|0\.(?:0625|125|375|625|875)\b")


def unreadable(text: str) -> list[str]:
    """Numbers and words in visible text that say little to a reader: what it is, and the place with its neighbours."""
    plain = _EXACT.sub("", text)
    return [
        f"{name}: {plain[max(0, found.start() - 40) : found.end() + 20]!r}"
        for name, pattern in _UNREADABLE.items()
        for found in re.finditer(pattern, plain)
    ]
