"""The report of an audit in its forms: a page, a <div> for notebooks, and Markdown. Text from outside is escaped in all of them."""

from __future__ import annotations

import re
from base64 import b64encode
from pathlib import Path
from tempfile import TemporaryDirectory

from cda.auditing import report_scoring as scoring
from cda.auditing import report_trainings as trainings
from cda.auditing import report_verdict as verdict
from cda.auditing.report_cells import compares, report_texts, targets
from cda.auditing.report_plots import skew_plot
from cda.auditing.report_scoring import caveats, few_examples, how_scored, margins_sentence, people_sentence
from cda.auditing.report_sections import sections
from cda.auditing.report_tables import main_table
from cda.auditing.report_trainings import dose_line
from cda.auditing.report_verdict import verdicts
from cda.auditing.verdicts import KINDS, SHAPES, bias_verdicts, chip_rules, glance_table, headline, ns_said, share_words
from cda.report.page import ReportSection, render, rendered, word_changes, word_differences
from cda.report.plots import save_plot
from cda.report.tables import escaped, fenced_block, markdown_table
from cda.results.audit import AuditResult

_N_OPEN = 2


def render_html(audit: AuditResult) -> str:
    """The audit as a self-contained page."""
    printed = {id(example) for few in few_examples(audit).values() for example in few}
    return rendered(
        "audit.html.j2",
        audit=audit,
        targets=targets(audit),
        headline=headline(audit),
        rows=(rows := bias_verdicts(audit)),
        kinds=KINDS,
        shapes=SHAPES,
        people=any(row.people for row in rows),
        ns=ns_said(rows),
        share_words=share_words,
        rules=chip_rules(audit),
        verdicts=[(verdict.verdict_kind(found.word), found) for found in verdicts(audit)],
        quality=verdict.quality_sentence(audit),
        quality_kind=verdict.quality_kind(audit),
        dose=dose_line(audit),
        seeds=trainings.seed_sentences(audit),
        two=compares(audit),
        caveats=caveats(audit),
        sections=[_numbers(audit), *sections(audit)],
        examples=sorted(audit.examples, key=scoring.example_order),
        printed=printed,
        few=scoring.FEW,
        is_printed=lambda example: id(example) in printed,
        n_open=_N_OPEN,
        word_changes=word_changes,
        word_differences=word_differences,
        margins_sentence=margins_sentence,
        people_sentence=people_sentence,
        people_keys=scoring.people_keys,
        order_keys=scoring.order_keys,
        bias_choices=[(name, name) for name in dict.fromkeys(example.bias for example in audit.examples)],
        people_choices=scoring.people_choices(audit),
        order_choices=scoring.order_choices(audit),
    )


def _numbers(audit: AuditResult) -> ReportSection:
    """The sentences and the table behind the first screen; a page draws the verdicts itself."""
    last = verdict.others_sentence(audit) if compares(audit) else verdict.ties_sentence(audit)
    words = tuple(text for text in (last, how_scored(audit)) if text)
    return ReportSection("numbers", report_texts()["numbers"]["title"], words, (main_table(audit),))


def notebook_html(audit: AuditResult) -> str:
    """One <div> without script or style; the figure stands in it as an image."""
    plot = skew_plot(audit)
    with TemporaryDirectory() as folder:
        figure = b64encode(save_plot(plot, Path(folder), "svg").read_bytes()).decode()
    return render(
        "notebook.html.j2",
        headline=headline(audit),
        verdicts=verdicts(audit),
        quality=verdict.quality_sentence(audit),
        main=main_table(audit),
        scored=how_scored(audit),
        description=plot.description,
        figure=figure,
    )


def render_markdown(audit: AuditResult) -> str:
    """The audit as a Markdown document; text from outside is escaped, longer texts stand in fenced blocks."""
    names = ", ".join(bias.name for bias in audit.biases)
    recipe = f", recipe {escaped(audit.recipe)}" if compares(audit) else ""
    lines = [f"# Bias audit: {escaped(names)}", "", f"Model {escaped(audit.model.name)}{recipe}.", ""]
    lines += [f"**{escaped(headline(audit))}**", "", *markdown_table(glance_table(audit))]
    for found in verdicts(audit):
        lines += [f"**{escaped(found.sentence)}**", ""]
    last = verdict.others_sentence(audit) if compares(audit) else verdict.ties_sentence(audit)
    for sentence in (verdict.quality_sentence(audit), dose_line(audit), *trainings.seed_sentences(audit), last):
        lines += [escaped(sentence), ""]
    lines += [*markdown_table(main_table(audit)), escaped(how_scored(audit)), ""]
    lines += [*(f"- {escaped(note)}" for note in caveats(audit)), ""]
    lines += [f"- {escaped(bias.name)}: {escaped(bias.description)}" for bias in audit.biases]
    for section in sections(audit):
        lines += ["", f"## {section.title}", "", *_markdown_section(section, audit)]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip() + "\n"


def _markdown_section(section: ReportSection, audit: AuditResult) -> list[str]:
    lines = [line for paragraph in section.paragraphs for line in (escaped(paragraph), "")]
    lines += [line for table in section.tables for line in markdown_table(table)]
    lines += [f"- {escaped(name)}: {escaped(value)}" for name, value in section.facts]
    lines += [f"- **{entry.term}** = {escaped(entry.formula)}. {escaped(entry.meaning)}" for entry in section.entries]
    for bias, few in few_examples(audit).items() if section.id == "examples" else ():
        for example in few:
            lines += [f"### {escaped(bias)}: {margins_sentence(example)}; {people_sentence(example)}", ""]
            texts = {"Prompt": example.prompt, "Without the bias": example.base, "With the bias": example.perturbed}
            for title, text in texts.items():
                lines += [f"{title}:", "", *fenced_block(text), ""]
    return lines
