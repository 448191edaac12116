"""The report as Markdown: the same tables and sections as the HTML, for terminals, diffs and repositories."""

from __future__ import annotations

import re

from cda.auditing.report_dose import dose_line
from cda.auditing.report_examples import few_of, people_sentence
from cda.auditing.report_scoring import caveats, how_scored, margins_sentence
from cda.auditing.report_sections import sections
from cda.auditing.report_seeds import seed_sentences
from cda.auditing.report_tables import compares, main_table
from cda.auditing.report_verdict import others_sentence, quality_sentence, ties_sentence, verdicts
from cda.report.page import Section
from cda.report.tables import escaped, fenced_block, markdown_table
from cda.results.audit import AuditResult

EXAMPLES_PER_BIAS = 3


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
