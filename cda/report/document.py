"""A result as a document: what stands on its first screen, in its sections and in its text is declared once; the forms (terminal,
Markdown, page, figures) are rendered from it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from cda.report.numbers import clipped, inert
from cda.report.page import Entry, Headline, ReportSection, TextPair, plots_of, rendered
from cda.report.plots import Plot
from cda.report.tables import Table, escaped, fenced_block, markdown_table, plain_table


@dataclass(frozen=True, slots=True)
class Heading:
    """The title of a part of a Markdown document."""

    title: str


@dataclass(frozen=True, slots=True)
class Strong:
    """A sentence in bold."""

    text: str


@dataclass(frozen=True, slots=True)
class Bullets:
    """Sentences as a list."""

    items: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Marked:
    """Lines that are in their form already."""

    lines: tuple[str, ...]


Block = Table | str | tuple[str | Headline, ...] | Headline | Heading | Strong | Bullets | Entry | Marked | TextPair
"""A part of a text: a table, a sentence, or sentences that belong together."""


@dataclass(frozen=True, slots=True)
class Document:
    """The content of a report in plain text; text from outside is made inert by each form.

    `findings` fill the first screen of the page and `sections` follow. `terminal` and `markdown` are the parts of these forms, in
    order; without `markdown` it has those of `terminal`.
    """

    title: str
    subtitle: str
    findings: tuple[Headline, ...]
    sections: tuple[ReportSection, ...]
    terminal: tuple[Block, ...] = ()
    markdown_parts: tuple[Block, ...] | None = None
    markdown_title: str | None = None
    figures: tuple[Plot, ...] | None = None
    """Figures for paper, if they are not just those of the sections."""
    template: str = "page.html.j2"
    script: str = "report.js"
    styles: tuple[str, ...] = ("report.css",)
    parts: Mapping[str, object] = field(default_factory=dict)
    """What the template asks for besides."""

    @property
    def plots(self) -> list[Plot]:
        """Every figure for paper, in reading order."""
        return plots_of(self.sections) if self.figures is None else list(self.figures)

    def text(self) -> str:
        """The document for a terminal."""
        return "\n\n".join(map(_plain, self.terminal)).strip()

    def markdown(self) -> str:
        """The document as Markdown; text from outside is escaped."""
        lines = [f"# {escaped(self.markdown_title or self.title)}", ""]
        for block in self.terminal if self.markdown_parts is None else self.markdown_parts:
            lines += _marked(block)
        return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip() + "\n"

    def page(self) -> str:
        """The document as a self-contained page; text from outside is escaped."""
        return rendered(self.template, self.script, self.styles, page=self, sections=self.sections, **self.parts)


def headings(sections: Iterable[ReportSection]) -> list[Block]:
    """The tables of sections, each section under its title; sections without tables are left out."""
    blocks: list[Block] = []
    for section in sections:
        blocks += (Heading(section.title), *section.tables) if section.tables else ()
    return blocks


def _plain(block: Block) -> str:
    match block:
        case Table():
            return plain_table(block)
        case Headline():
            return inert(f"{block.name} {block.text}".strip())
        case Marked():
            return "\n".join(block.lines)
        case TextPair():
            return "\n".join(clipped(inert(line), _LONGEST) for line in _pair_lines(block))
        case str():
            return inert(block)
        case tuple():
            return "\n".join(map(_plain, block))
    return "\n".join(_marked(block)).strip()


def _marked(block: Block) -> list[str]:
    match block:
        case Table():
            return ["", *markdown_table(block)]
        case Headline():
            return [f"- **{escaped(block.name)}** {escaped(block.text)}"]
        case Heading():
            return ["", f"## {escaped(block.title)}", ""]
        case Strong():
            return ["", f"**{escaped(block.text)}**", ""]
        case Bullets():
            return ["", *(f"- {escaped(item)}" for item in block.items), ""]
        case Entry():
            return [f"- **{escaped(block.term)}** = {escaped(block.formula)}. {escaped(block.meaning)}"]
        case Marked():
            return list(block.lines)
        case TextPair():
            texts = (block.prompt, block.first, *([] if block.second is None else [block.second]))
            fenced = [line for text in texts for line in (*fenced_block(text), "")]
            return ["", f"### {escaped(block.title)}", "", *fenced, *(f"- {escaped(note)}" for note in block.notes), ""]
        case str():
            return ["", escaped(block), ""]
    return [line for sentence in block for line in _marked(sentence)]


_LONGEST = 1000
"""Columns of a text in a terminal; a page has all of it."""
_MARKS = {"same": "{}", "del": "[-{}-]", "ins": "{{+{}+}}"}


def _pair_lines(pair: TextPair) -> list[str]:
    """A text and what became of it: as one, [-only before-] and {+only after+} marked, or one after the other."""
    lines = [f"── {pair.title}", f"prompt: {pair.prompt}"]
    if changes := pair.changes:
        lines.append("text: " + "".join(_MARKS[change.kind].format(change.text) for change in changes))
    else:
        lines += [f"before: {pair.first}", *([] if pair.second is None else [f"after: {pair.second}"])]
    return [*lines, *pair.notes]
