"""A self-contained page: sections in a frame, styles and script put into it here, nothing loaded; word differences for it."""

from __future__ import annotations

import hashlib
import re
from base64 import b64encode
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cache
from importlib import resources
from typing import Literal

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup, escape

from cda.report.drawing import inline_svg, obstacle
from cda.report.numbers import visible
from cda.report.plots import Plot
from cda.report.tables import Table

Kind = Literal["good", "bad", "none"]
"""Good or bad news, or neither; a colour at a headline's edge and of a chip."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A term with its formula (empty: none is shown) and its meaning."""

    term: str
    formula: str
    meaning: str


@dataclass(frozen=True, slots=True)
class TextPair:
    """A text and what became of it (None: nothing did), with notes; each form marks the words that differ."""

    title: str
    prompt: str
    first: str
    second: str | None
    notes: tuple[str, ...]

    @property
    def changes(self) -> list[Change]:
        """Both as one text; empty if they are read more easily one after the other."""
        return [] if self.second is None else word_changes(self.first, self.second)

    @property
    def excerpt(self) -> list[Change]:
        """The changes with a few words around them, for a first screen; empty as `changes`."""
        return excerpted(self.changes)


@dataclass(frozen=True, slots=True)
class ReportSection:
    """A part of a report; `id` names its anchor.

    `paragraphs` are words of method, and `sentences` what this result has to say.
    """

    id: str
    title: str
    paragraphs: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    plots: tuple[Plot, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()
    entries: tuple[Entry, ...] = ()
    texts: tuple[TextPair, ...] = ()
    sentences: tuple[str, ...] = ()
    aside: bool = False
    """True if a terminal does not take its first table from here."""
    folded: bool = False
    """True if a page shows the title alone until it is opened."""
    folded_tables: bool = False
    """True if a page shows the captions of the tables alone until they are opened."""


@dataclass(frozen=True, slots=True)
class Headline:
    """A sentence of the first screen, with its subject in bold; `more` is the section that says more."""

    name: str
    text: str
    kind: Kind = "none"
    more: str = ""


def rendered(
    template: str, script: str = "report.js", styles: tuple[str, ...] = ("report.css",), **content: object
) -> str:
    """A template of this folder with its styles and script, the only ones that its content security policy allows (by hash); no
    network, no inline handlers. Every string is escaped, control and direction characters spelled out."""
    style, code = "".join(map(resource, styles)), resource(script)
    policy = (
        f"default-src 'none'; style-src '{_source_hash(style)}'; script-src '{_source_hash(code)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    return render(template, csp=Markup(policy), style=Markup(style), script=Markup(code), **content)


def render(template: str, **content: object) -> str:
    """A template of this folder; every string is escaped, and control or direction characters are spelled out."""
    return _environment().get_template(template).render(**content).strip() + "\n"


def resource(name: str) -> str:
    """A file of this folder as the browser reads it: every line end \\n, which the hashes of the policy are over."""
    return (resources.files("cda.report") / name).read_text(encoding="utf-8").replace("\r\n", "\n")


def _source_hash(text: str) -> str:
    return f"sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FunctionLoader(resource), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True,
        finalize=lambda value: value if isinstance(value, Markup) else visible(value),
    )  # fmt: skip
    environment.filters["coded"] = coded
    environment.filters["unbroken"] = unbroken
    environment.filters["svg"] = _svg
    return environment


def _svg(plot: Plot) -> Markup:
    """The figure, or a sentence that says why there is none."""
    problem = obstacle()
    return Markup(f"<p>{escape(problem)}</p>" if problem else inline_svg(plot))


def coded(text: object) -> Markup:
    """A sentence of ours as HTML: escaped, and what stands between two backticks as code.

    >>> coded("`after` is a < b")
    Markup('<code>after</code> is a &lt; b')
    """
    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(visible(text)))))


def unbroken(cell: str) -> str:
    """A cell in which no line breaks within an interval, around ±, after `<`, or within a number of prompts.

    >>> unbroken("50% [40, 60]")
    '50% [40,\\xa060]'
    """
    whole = _INTERVAL.sub("[\\1,\u00a0\\2]", cell)
    for apart in ("< 0", " ± ", " prompts)"):
        whole = whole.replace(apart, apart.replace(" ", "\u00a0"))
    return whole


MAX_WORDS = 2000
MAX_MATCHES = 3_000_000
"""Limit of matches between single words: a text that repeats one word has as many as its length squared."""
_INTERVAL = re.compile(r"\[([+−]?[\d.]+), ([+−]?[\d.]+)\]")
_CODE = re.compile(r"`([^`\n]+)`")
_WORD = re.compile(r"\s+|[^\s\w]|\w+")


def _n_matches(first: list[str], second: list[str]) -> int:
    counts, others = Counter(first), Counter(second)
    return sum(count * others[word] for word, count in counts.items())


@dataclass(frozen=True, slots=True)
class Change:
    """A stretch of two texts: in both (`same`), in the first alone (`del`), in the second alone (`ins`)."""

    kind: Literal["same", "del", "ins"]
    text: str


def word_changes(first: str, second: str) -> list[Change]:
    """Two texts as one, in reading order; empty if less than half of the shorter one is in both, or beyond MAX_WORDS or
    MAX_MATCHES: such texts are read more easily next to each other.

    >>> word_changes("use a pan", "utilize a pan")[:2]
    [Change(kind='del', text='use'), Change(kind='ins', text='utilize')]
    """
    words = _WORD.findall(first), _WORD.findall(second)
    if max(map(len, words)) > 2 * MAX_WORDS or _n_matches(*words) > MAX_MATCHES:
        return []
    changes: list[Change] = []
    gone = new = ""
    for kind, i, j, k, m in [*SequenceMatcher(None, *words, autojunk=False).get_opcodes(), ("equal", 0, 0, 0, 0)]:
        left, right = "".join(words[0][i:j]), "".join(words[1][k:m])
        if kind != "equal" or (left and not left.strip() and gone + new):  # a lone space joins two changes
            gone, new = gone + left, new + right
            continue
        changes += [Change("del", gone), Change("ins", new), Change("same", left)]
        gone = new = ""
    alike = sum(len(change.text) for change in changes if change.kind == "same")
    return [change for change in changes if change.text] if 2 * alike >= min(len(first), len(second)) else []


def excerpted(changes: Sequence[Change], around: int = 12) -> list[Change]:
    """Changes without what is the same in both beyond so many words next to them.

    >>> excerpted([Change("ins", "Sure! "), Change("same", "Use a pan.")], around=2)
    [Change(kind='ins', text='Sure! '), Change(kind='same', text='Use a …')]
    """
    found = []
    for at, change in enumerate(changes):
        words = re.findall(r"\s*\S+\s*", change.text)
        before, after = around * (at > 0), around * (at < len(changes) - 1)
        if change.kind == "same" and len(words) > before + after:
            text = (
                f"{''.join(words[:before])}… {''.join(words[len(words) - after :])}"
                if after
                else f"{''.join(words[:before])}…"
            )
            change = Change("same", text)
        found.append(Change(change.kind, re.sub(r"\s*\n\s*", " ", change.text)))
    return found
