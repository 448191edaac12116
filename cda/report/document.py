"""A result as a document: what stands on its first screen, in its sections and in its text is declared once; the forms (terminal,
Markdown, page, figures) are rendered from it."""

from __future__ import annotations

import re
import textwrap
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType

from cda.report.drawing import FigureForm, obstacle, svg_file, write_plots
from cda.report.glance import MAX_LINES, Glance, screen_lines
from cda.report.next_step import COLUMNS, Named, NextStep
from cda.report.numbers import clipped, inert
from cda.report.page import Entry, Headline, ReportSection, TextPair, render, rendered
from cda.report.plots import Plot
from cda.report.tables import Table, escaped, fenced_block, fitted_table, markdown_table, plain_table

PLAIN = "page.html.j2"
"""The template of a page that needs nothing else."""


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


Block = (
    Table
    | str
    | tuple[str | Headline, ...]
    | Headline
    | Heading
    | Strong
    | Bullets
    | Entry
    | Marked
    | TextPair
    | NextStep
)
"""A part of a text: a table, a sentence, or sentences that belong together."""


@dataclass(frozen=True, slots=True)
class Document:
    """The content of a report in plain text; text from outside is made inert by each form.

    The first screen is `headline`, `glance`, `notes` and `pair`; `findings` are folded below it, and `sections` follow, on a page all but
    the first folded. Markdown has all of them, and a terminal the first screen. `terminal` and `markdown_parts` are other parts of
    these forms, in order.
    """

    title: str
    subtitle: str
    findings: tuple[Headline, ...]
    sections: tuple[ReportSection, ...]
    headline: str = ""
    """The result in one sentence that can be repeated without the page."""
    glance: Glance | None = None
    glance_by_news: Glance | None = None
    """The rows for a terminal, whose last columns may not fit, if other columns come first there."""
    notes: tuple[Headline, ...] = ()
    """Sentences below the rows of the first screen."""
    n_asked: int = 0
    """The first so many notes are on what options asked for, so that rows make room for them."""
    pair: TextPair | None = None
    """The example that the first screen shows, in excerpts."""
    findings_are: str = "more finding"
    """What `findings` are called where they are folded, in the singular."""
    terminal: tuple[Block, ...] = ()
    markdown_parts: tuple[Block, ...] = ()
    figures: tuple[Plot, ...] | None = None
    """Figures for paper, if they are not just those of the sections."""
    template: str = PLAIN
    script: str = "report.js"
    styles: tuple[str, ...] = ("report.css",)
    parts: Mapping[str, object] = field(default_factory=dict)
    """What the template asks for besides."""
    shows_texts: bool = False
    """True if the texts are what was asked for, so that a terminal has them below the first screen."""
    next: NextStep | None = None
    """What to do with the result: the last line of a terminal, a box below the first screen of a page."""
    next_in_brief: NextStep | None = None
    """The same for a terminal, if the rows that were asked for leave no room for the whole."""

    @property
    def plots(self) -> list[Plot]:
        """Every figure for paper, in reading order."""
        return (
            [plot for section in self.sections for plot in section.plots] if self.figures is None else [*self.figures]
        )

    def text(self, end: Sequence[str] = (), named: Named = str, python: bool = False) -> str:
        """The document for a terminal: its first screen, the texts if they are what was asked for, then the `end`, such as the files that
        were written, and the next step. `named`: words of the next command as the user typed them; a call for those who use `python`."""
        step = self.next if python else self.next_in_brief or self.next  # a notebook has room
        last = [line for text in end for line in _wrapped(text)] + (step.lines(named, python) if step else [])
        if self.terminal:
            return "\n".join(["\n\n".join(filter(None, map(_plain, self.terminal))).strip(), *last])
        shown = [] if not self.shows_texts else [text for section in self.sections for text in section.texts]
        texts = [line for text in shown for line in ("", *_plain(text).split("\n"))]
        return "\n".join([*self._screen(MAX_LINES - len(last)), *texts, *([""] if texts else []), *last])

    def _screen(self, room: int) -> list[str]:
        """Headline and rows, and of what else the first screen says as much as there is room for."""
        if not self.headline:
            tables = (table for section in self.sections if not section.aside for table in section.tables)
            return first_screen(self.findings or (self.subtitle,), next(tables, None), room)
        asked = [line for each in self.notes[: self.n_asked] for line in _wrapped(_plain(each), _MOST_LINES)]
        lines = [*screen_lines(self.headline, self.glance_by_news or self.glance, room - len(asked)), *asked]
        for text in (*map(_plain, self.notes[self.n_asked :]), inert(self.subtitle)):
            own = _wrapped(text, _MOST_LINES)
            lines += own if len(lines) + len(own) <= room else []
        return lines

    def markdown(self) -> str:
        """The document as Markdown; text from outside is escaped."""
        lines = [f"# {escaped(self.title)}", ""]
        rows = () if self.glance is None else (self.glance.table(),)
        step = () if self.next is None else (self.next,)
        first = (Strong(self.headline), *rows, self.subtitle, self.notes, self.findings, *step)
        own = (*first, *(block for section in self.sections for block in section_blocks(section)))
        for block in self.markdown_parts or own:
            lines += _marked(block)
        return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip() + "\n"

    @property
    def on_page(self) -> tuple[ReportSection, ...]:
        """The sections as a page has them: if there is a headline, all but the first are folded."""
        rest = (replace(each, folded=True) for each in self.sections[1:])
        return (*self.sections[:1], *rest) if self.headline and self.template == PLAIN else self.sections

    def write_figures(self, folder: Path, form: str) -> str:
        """Every figure as a file in `figures/` of a folder, in a form such as `svg` or `pdf:double`; a sentence for a terminal."""
        return write_plots(self.plots, folder, FigureForm.of(form))

    def notebook(self) -> str:
        """The first screen as one <div> without script or style, with the first table, and the first figure as an image."""
        tables = (table for section in self.sections for table in section.tables)
        plot = None if obstacle() else next(iter(self.plots), None)
        image = None if plot is None else b64encode(svg_file(plot)).decode()
        return render("notebook.html.j2", page=self, table=next(tables, None), plot=plot, image=image)

    def page(self) -> str:
        """The document as a self-contained page; text from outside is escaped."""
        return rendered(self.template, self.script, self.styles, page=self, sections=self.on_page, **self.parts)


def first_screen(findings: Sequence[str | Headline], table: Table | None, room: int) -> list[str]:
    """Findings, then as many rows and columns of a table as there is room for; what is left out stands on the page, and is counted."""
    rows = 0 if table is None else min(2 + len(table.rows), max(3, room // 2))
    lines: list[str] = []
    for at, finding in enumerate(findings):
        own, left = _wrapped(_plain(finding), _MOST_LINES), len(findings) - at
        if lines and len(lines) + len(own) > room - rows - (left > 1):
            lines.append(f"{left} more in the report.")
            break
        lines += own
    if table is None or room - len(lines) < 3:
        return lines
    return [*lines, *fitted_table(table, room - len(lines))]


def _wrapped(text: str, most: int | None = None) -> list[str]:
    return textwrap.wrap(
        text, COLUMNS, max_lines=most, placeholder=" …", break_long_words=False, break_on_hyphens=False
    )


def section_blocks(section: ReportSection) -> list[Block]:
    """All of a section but its figures; nothing of one that has these alone."""
    facts = (Bullets(tuple(f"{name}: {value}" for name, value in section.facts)),) if section.facts else ()
    parts = (*section.tables, *facts, *section.entries, *section.texts)
    said = [each for each in (section.paragraphs, section.sentences) if each]
    return [Heading(section.title), *said, *parts] if said or parts or not section.plots else []


def how_made(
    versions: Mapping[str, str], sentences: Iterable[str], facts: Mapping[str, object] = MappingProxyType({})
) -> ReportSection:
    """The section on how a result was made: sentences, facts (those that are not None), and versions of packages."""
    known = {**facts, "versions": tuple(f"{name} {version}" for name, version in versions.items())}
    shown = ((name.replace("_", " "), _fact(value)) for name, value in known.items() if value not in (None, ()))
    return ReportSection("made", "How it was made", facts=tuple(shown), sentences=tuple(sentences))


def _fact(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def meaning(*entries: Entry) -> ReportSection:
    """The section of terms, which a terminal leaves out."""
    return ReportSection("meaning", "What the numbers mean", entries=entries, aside=True)


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
            return [f"- **{escaped(block.name)}** {escaped(block.text)}" if block.name else f"- {escaped(block.text)}"]
        case Heading():
            return ["", f"## {escaped(block.title)}", ""]
        case Strong():
            return ["", f"**{escaped(block.text)}**", ""] if block.text else []
        case Bullets():
            return ["", *(f"- {escaped(item)}" for item in block.items), ""]
        case Entry():
            formula = f" = {escaped(block.formula)}." if block.formula else ":"
            return [f"- **{escaped(block.term)}**{formula} {escaped(block.meaning)}"]
        case Marked():
            return list(block.lines)
        case NextStep():
            command = fenced_block("\n".join(block.shared())) if block.words else []
            return ["", f"**Next:** {escaped(block.why)}{':' if command else '.'}", "", *command, ""]
        case TextPair():
            texts = (block.prompt, block.first, *([] if block.second is None else [block.second]))
            fenced = [line for text in texts for line in (*fenced_block(text), "")]
            return ["", f"### {escaped(block.title)}", "", *fenced, *(f"- {escaped(note)}" for note in block.notes), ""]
        case str():
            return ["", escaped(block), ""]
    return [line for sentence in block for line in _marked(sentence)]


_MOST_LINES = 3
"""Of one finding there."""
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
