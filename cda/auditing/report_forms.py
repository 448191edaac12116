"""The report of an audit in its forms: a page, a <div> for notebooks, Markdown, and the model card of an export. Text from outside
is escaped in all of them."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from markupsafe import Markup

from cda.auditing import report_scoring as scoring
from cda.auditing import report_trainings as trainings
from cda.auditing import report_verdict as verdict
from cda.auditing.report_cells import EMBEDDED, applied, compares, report_texts, targets
from cda.auditing.report_data import rate_tables
from cda.auditing.report_plots import skew_plot
from cda.auditing.report_scoring import caveats, few_of, how_scored, margins_sentence, people_sentence
from cda.auditing.report_sections import sections
from cda.auditing.report_tables import main_table, skew_table, votes_table
from cda.auditing.report_trainings import dose_line
from cda.auditing.report_verdict import verdicts
from cda.auditing.verdicts import KINDS, SHAPES, bias_verdicts, chip_rules, glance_table, headline, ns_said, share_words
from cda.report.numbers import listed
from cda.report.page import ReportSection, render, rendered, word_changes, word_differences
from cda.report.plots import save_plot
from cda.report.tables import Table, escaped, fenced_block, markdown_table
from cda.results.audit import AuditResult
from cda.results.dose import DoseResult
from cda.results.facts import RewardModelFacts

_EXAMPLES_PER_BIAS = 3
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", re.ASCII)
_N_OPEN = 2


def render_html(audit: AuditResult) -> str:
    """The audit as a self-contained page."""
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
    for bias in audit.biases if section.id == "examples" else ():
        for example in few_of([shown for shown in audit.examples if shown.bias == bias.name], _EXAMPLES_PER_BIAS):
            lines += [f"### {escaped(bias.name)}: {margins_sentence(example)}; {people_sentence(example)}", ""]
            texts = {"Prompt": example.prompt, "Without the bias": example.base, "With the bias": example.perturbed}
            for title, text in texts.items():
                lines += [f"{title}:", "", *fenced_block(text), ""]
    return lines


@dataclass(frozen=True, slots=True)
class ExportedTraining:
    """One training in an export: its adapter's dose there, if known; how it was chosen, if the export has that dose; and the
    format of prompt and response in training, if known and not given by an audit."""

    name: str
    dose: float | None
    audit: AuditResult | None = None
    settings: Mapping[str, object] = field(default_factory=dict)
    chosen: DoseResult | None = None
    form: str | None = None


def model_card(parts: Sequence[ExportedTraining], base: str, merged: str | None) -> str:
    """Model card (README.md) of an export, with the front matter that model hubs read. `base` is a hub id, `embedded`, or a folder, which is named by its last part alone; `merged` is
    the precision of a merged model, None for an adapter."""
    audits = [part.audit for part in parts if part.audit is not None]
    biases = list(dict.fromkeys(bias.name for audit in audits for bias in audit.biases))
    models = [audit.model for audit in audits if isinstance(audit.model, RewardModelFacts)]
    forms = (*(model.form for model in models), *(part.form for part in parts))
    text = render(
        "model_card.md.j2",
        parts=parts,
        biases=listed(biases) if biases else "",
        merged=merged,
        base="the embedded model of the cda package" if base == EMBEDDED else _source(base),
        embedded=base == EMBEDDED,
        hub=Markup(json.dumps(base)) if _HUB_ID.fullmatch(base) else "",
        form=next((form for form in forms if form), None),
        length=(models[0].max_length_tokens if models else None) or 512,
        md=_inert,
        json=partial(json.dumps, ensure_ascii=False, default=str),
        dose=_dose,
        audited=partial(_audited, merged=merged),
        chosen=_chosen,
        limits=partial(_limits, merged=merged),
    )
    return re.sub(r"\n{3,}", "\n\n", text)


def _audited(part: ExportedTraining, merged: str | None) -> Iterator[Markup]:
    """Verdicts and tables; first, how the audited model differs from the exported one."""
    audit = part.audit
    assert audit is not None  # the template asks for audited trainings alone
    if part.dose != applied(audit):
        column = "the column of plain CDA." if part.dose == 1 and audit.plain else "which this audit did not measure."
        yield Markup(f"`after` is dose {applied(audit):g}. The export holds dose {_dose(part)}, {column}")
    for found in verdicts(audit):
        yield Markup(f"**{escaped(found.sentence)}**")
    yield from map(_inert, (verdict.quality_sentence(audit), *trainings.seed_sentences(audit)))
    over_trainings = (trainings.seed_table(audit), trainings.effects_over_seeds(audit))
    skew = skew_table(audit) if compares(audit) else None
    yield from _tables((main_table(audit), *over_trainings, votes_table(audit), skew, *rate_tables(audit)))
    yield _inert(how_scored(audit))
    precision = audit.model.precision if isinstance(audit.model, RewardModelFacts) else None
    if merged and precision and precision != merged:
        yield Markup(
            f"The audit scored a {escaped(precision)} base with the adapter applied unmerged. The merged {merged} weights differ by "
            "rounding, which moves a score by a small share of the scores' spread."
        )


def _chosen(part: ExportedTraining) -> Iterator[Markup]:
    if part.chosen is not None:
        yield from map(_inert, trainings.dose_sentences(part.chosen))
        yield from _tables(trainings.dose_tables(part.chosen))


def _limits(audit: AuditResult, merged: str | None) -> list[str]:
    sources = audit.sources
    notes = [
        *caveats(audit),
        f"Trained on: {_source(sources.pairs)}. Measured on contrasts: {_source(sources.contrasts)}; on quality pairs: "
        f"{_source(sources.quality)}. On other data it may behave differently.",
    ]
    own = "The adapter fits this base alone, with its head; another base gives scores without meaning."
    return notes if merged else [*notes, own]


def _inert(text: object) -> Markup:
    return Markup(escaped(text))


def _tables(tables: Iterable[Table | None]) -> Iterator[Markup]:
    return (Markup("\n".join(markdown_table(table))) for table in tables if table is not None)


def _source(path: object) -> str:
    """Public name of a model or file, without the path of a local folder."""
    if path is None:
        return "none"
    text = str(path)
    return text if _HUB_ID.fullmatch(text) else text.rstrip("/\\").replace("\\", "/").rsplit("/", 1)[-1]


def _dose(part: ExportedTraining) -> str:
    return "unknown" if part.dose is None else f"{part.dose:g}"
