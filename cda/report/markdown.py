"""The report as Markdown: the same tables and sections as the HTML, for terminals, diffs and repositories."""

from __future__ import annotations

import re

from cda.report.dose_tables import dose_line
from cda.report.examples import few_of, people_sentence
from cda.report.numbers import inert, visible
from cda.report.scoring import caveats, how_scored, margins_sentence
from cda.report.sections import Section, sections
from cda.report.seed_tables import seed_sentences
from cda.report.tables import Table, compares, main_table
from cda.report.verdict import others_sentence, quality_sentence, ties_sentence, verdicts
from cda.results.audit import AuditResult

EXAMPLES_PER_BIAS = 3
_OPENING = re.compile(r"\A(\s*(?:\d{1,9}(?=[.)](?:\s|\Z))|(?=[#=+-]+(?:\s|\Z))))([.)#=+-])")
_WWW = re.compile(r"(?<![A-Za-z0-9])(www)\.", re.IGNORECASE)
_SPECIAL = re.compile(r"([\\`*_\[\]|~])")


def render_markdown(audit: AuditResult) -> str:
    """The audit as a Markdown document; text from outside is escaped, longer texts stand in fenced blocks."""
    names = ", ".join(bias.name for bias in audit.biases)
    recipe = f", recipe {escaped(audit.recipe)}" if compares(audit) else ""
    lines = [f"# Bias audit: {escaped(names)}", "", f"Model {escaped(audit.model.name)}{recipe}.", ""]
    for verdict in verdicts(audit):
        lines += [f"**{escaped(verdict.sentence)}**", ""]
    for sentence in (quality_sentence(audit), dose_line(audit), *seed_sentences(audit)):
        lines += [escaped(sentence), ""]
    lines += [escaped(others_sentence(audit) if compares(audit) else ties_sentence(audit)), ""]
    lines += [*markdown_table(main_table(audit)), escaped(how_scored(audit)), ""]
    lines += [*(f"- {escaped(note)}" for note in caveats(audit)), ""]
    lines += [f"- {escaped(bias.name)}: {escaped(bias.description)}" for bias in audit.biases]
    for section in sections(audit):
        lines += ["", f"## {section.title}", "", *_section(section, audit)]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip() + "\n"


def _section(section: Section, audit: AuditResult) -> list[str]:
    lines = [line for paragraph in section.paragraphs for line in (escaped(paragraph), "")]
    for table in section.tables:
        lines += markdown_table(table)
    lines += [f"- {escaped(name)}: {escaped(value)}" for name, value in section.facts]
    lines += [f"- **{entry.term}** = {escaped(entry.formula)}. {escaped(entry.meaning)}" for entry in section.entries]
    if section.id == "examples":
        lines += _examples(audit)
    return lines


def markdown_table(table: Table) -> list[str]:
    """Lines of a table, its caption above it."""
    rows = [table.header, tuple("---" for _ in table.header), *table.rows]
    return [f"{escaped(table.caption)}:", "", *(f"| {' | '.join(map(_escaped_cell, row))} |" for row in rows), ""]


def _examples(audit: AuditResult) -> list[str]:
    lines = []
    for bias in audit.biases:
        own = [one for one in audit.examples if one.bias == bias.name]
        for one in few_of(own, EXAMPLES_PER_BIAS):
            lines += [f"### {escaped(one.bias)}: {margins_sentence(one)}; {people_sentence(one)}", ""]
            texts = (("Prompt", one.prompt), ("Without the bias", one.base), ("With the bias", one.perturbed))
            for title, text in texts:
                lines += [f"{title}:", "", *fenced_block(text), ""]
    return lines


def fenced_block(text: str) -> list[str]:
    """The text in a fence longer than any run of backticks in it."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return [f"{fence}text", visible(text), fence]


def escaped(text: object) -> str:
    """One inert line in which nothing is markup, also where it opens a line or an item of a list.

    >>> escaped("# www.example.org"), escaped("1. <b>")
    ('\\\\# www&#46;example.org', '1\\\\. &lt;b&gt;')
    """
    plain = _OPENING.sub(r"\1\\\2", _SPECIAL.sub(r"\\\1", inert(text)))
    plain = plain.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    # Some renderers make links of bare addresses, with or without http.
    return _WWW.sub(r"\1&#46;", plain.replace("://", "&#58;//"))


def _escaped_cell(text: str) -> str:
    return text if text == "---" else escaped(text)
