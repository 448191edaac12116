"""The model card of an exported adapter or merged model: its trainings, their audits, their limits, and how to load it.

Markdown with the front matter that model hubs read; text from outside is escaped as in the report.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cda.auditing.report_data import rate_tables
from cda.auditing.report_dose import dose_sentences, dose_tables
from cda.auditing.report_scoring import caveats, how_scored
from cda.auditing.report_tables import main_table, skew_table, votes_table
from cda.auditing.report_verdict import applied, compares, quality_sentence, verdicts
from cda.auditing.seeds import effects_over_seeds, seed_sentences, seed_table
from cda.report.numbers import listed
from cda.report.tables import escaped, markdown_table
from cda.results.audit import AuditResult
from cda.results.dose import DoseResult
from cda.results.facts import RewardModelFacts

EMBEDDED = "embedded"
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", re.ASCII)


@dataclass(frozen=True, slots=True)
class ExportedTraining:
    """One training in an export."""

    name: str
    dose: float | None
    """Dose of its adapter in the export; None if unknown."""
    audit: AuditResult | None = None
    settings: Mapping[str, object] = field(default_factory=dict)
    chosen: DoseResult | None = None
    """Choice of its dose (dose.json), if that is the dose of the export."""
    form: str | None = None
    """Format of prompt and response in training, if known and not given by an audit."""


def model_card(parts: Sequence[ExportedTraining], base: str, merged: str | None) -> str:
    """README.md of an export of one training or several.

    `base` is the base model: hub id, `embedded`, or a folder, which is named by its last part alone. `merged` is the precision of
    a merged model; None for an adapter.
    """
    biases = list(dict.fromkeys(bias.name for part in parts if part.audit is not None for bias in part.audit.biases))
    against = f", debiased of {listed(biases)}" if biases else ", debiased"
    lines = [*_front_matter(base, merged), "", f"# Reward model{escaped(against)}", "", *_what(parts, base, merged)]
    for part in parts:
        title = f"Training: {escaped(part.name)}" if len(parts) > 1 else "Training"
        lines += ["", f"## {title}", "", *_part(part, merged)]
    lines += ["", "## How to load it", "", *_loading(parts, base, merged)]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip() + "\n"


def _front_matter(base: str, merged: str | None) -> list[str]:
    """Fields of the card; no licence, since the base's applies and is unknown here."""
    lines = ["---"]
    if _on_hub(base):
        lines += [f"base_model: {json.dumps(base)}", f"base_model_relation: {'finetune' if merged else 'adapter'}"]
    lines += [f"library_name: {'transformers' if merged else 'peft'}", "pipeline_tag: text-classification", "tags:"]
    return [*lines, "- reward-model", "- debiasing", *([] if merged else ["- lora"]), "---"]


def _what(parts: Sequence[ExportedTraining], base: str, merged: str | None) -> list[str]:
    kind = f"A merged model, with {merged} weights" if merged else "A LoRA adapter with its score head"
    named = "the embedded model of the cda package" if base == EMBEDDED else _source(base)
    lines = [
        f"{kind}: a reward model (sequence classifier with one label) trained by counterfactual data augmentation, so that it "
        f"rewards a style less for itself. Base model: {escaped(named)}.",
        "",
    ]
    if len(parts) > 1:
        summed = ", ".join(f"{escaped(part.name)} at dose {_dose(part.dose)}" for part in parts)
        lines += [f"The sum of the updates of {len(parts)} trainings: {summed}.", ""]
        if any(part.audit is not None for part in parts):
            lines += ["Each audit below is of one training alone. Their sum has not been audited.", ""]
    return lines


def _part(part: ExportedTraining, merged: str | None) -> list[str]:
    lines = [
        f"Dose {_dose(part.dose)}: the share of the trained update that is applied (0 the base, 1 as trained).",
        "",
    ]
    if part.audit is not None:
        lines += [f"- {escaped(bias.name)}: {escaped(bias.description)}" for bias in part.audit.biases]
    if part.settings:
        lines += ["", "How it was trained:", ""]
    for name, value in part.settings.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
        lines.append(f"- {escaped(name)}: {escaped(text)}")
    if part.audit is None:
        return [*lines, "", "No audit of it is at hand: what it changed has not been measured here."]
    lines += ["", "### Audit", "", *_audit(part, part.audit, merged)]
    if part.chosen is not None:
        lines += ["", "### How the dose was chosen", ""]
        lines += [line for sentence in dose_sentences(part.chosen) for line in (escaped(sentence), "")]
        lines += [line for table in dose_tables(part.chosen) for line in markdown_table(table)]
    return [*lines, "", "### Limits", "", *_limits(part.audit, merged)]


def _audit(part: ExportedTraining, audit: AuditResult, merged: str | None) -> list[str]:
    """Verdicts and tables; first, how the audited model differs from the exported one."""
    lines = []
    if part.dose != applied(audit):
        column = "the column of plain CDA." if part.dose == 1 and audit.plain else "which this audit did not measure."
        lines += [f"`after` is dose {applied(audit):g}. The export holds dose {_dose(part.dose)}, {column}", ""]
    for verdict in verdicts(audit):
        lines += [f"**{escaped(verdict.sentence)}**", ""]
    for sentence in (quality_sentence(audit), *seed_sentences(audit)):
        lines += [escaped(sentence), ""]
    over_trainings = (seed_table(audit), effects_over_seeds(audit))
    skew = skew_table(audit) if compares(audit) else None
    tables = (main_table(audit), *over_trainings, votes_table(audit), skew, *rate_tables(audit))
    lines += [line for table in tables if table is not None for line in markdown_table(table)]
    lines.append(escaped(how_scored(audit)))
    precision = audit.model.precision if isinstance(audit.model, RewardModelFacts) else None
    if merged and precision and precision != merged:
        lines += [
            "",
            f"The audit scored a {escaped(precision)} base with the adapter beside it. The merged {merged} weights differ by "
            "rounding, which moves a score by a small share of the scores' spread.",
        ]
    return lines


def _limits(audit: AuditResult, merged: str | None) -> list[str]:
    sources = audit.sources
    notes = [
        *caveats(audit),
        f"Trained on: {_source(sources.pairs)}. Measured on contrasts: {_source(sources.contrasts)}; on quality pairs: "
        f"{_source(sources.quality)}. Elsewhere it may behave otherwise.",
    ]
    if not merged:
        notes.append("The adapter fits this base alone, with its head; another base gives scores without meaning.")
    return [f"- {escaped(note)}" for note in notes]


def _loading(parts: Sequence[ExportedTraining], base: str, merged: str | None) -> list[str]:
    """A program that scores one response; it takes the form of the text from the audit, or from the training."""
    scored = [part.audit.model for part in parts if part.audit is not None]
    models = [model for model in scored if isinstance(model, RewardModelFacts)]
    form = next((form for form in (*(model.form for model in models), *(part.form for part in parts)) if form), None)
    length = (models[0].max_length_tokens if models else None) or 512
    lines = ["import torch", *([] if merged else ["from peft import PeftModel"])]
    lines += ["from transformers import AutoModelForSequenceClassification, AutoTokenizer"]
    if not merged and base == EMBEDDED:
        lines += ["from cda.embedded.model import embedded_model_folder"]
    lines += ["", 'folder = "FOLDER"  # this repository, or where you keep its files']
    if merged:
        lines += ["tokenizer = AutoTokenizer.from_pretrained(folder)"]
        lines += ["model = AutoModelForSequenceClassification.from_pretrained(folder).eval()"]
    else:
        known = json.dumps(base) if _on_hub(base) else '"FOLDER-OF-THE-BASE"'
        name = "str(embedded_model_folder())" if base == EMBEDDED else known
        lines += [f"base = {name}", "tokenizer = AutoTokenizer.from_pretrained(base)"]
        lines += ["model = AutoModelForSequenceClassification.from_pretrained(base, num_labels=1)"]
        lines += ["model = PeftModel.from_pretrained(model, folder).eval()"]
    lines += ["", 'prompt, response = "How do I boil an egg?", "Eight minutes in boiling water."']
    lines += [*_encoding(form, length), "with torch.inference_mode():"]
    lines += ["    reward = model(**encoded).logits.item()", "print(reward)"]
    return ["```python", *lines, "```"]


def _encoding(form: str | None, length: int) -> list[str]:
    if form is None:
        lines = ["# How texts were put together in training is not known here: a chat template where there is one."]
        for when, either in (("if tokenizer.chat_template:", "chat template"), ("else:", "pair")):
            lines += [when, *(f"    {line}" for line in _encoding(either, length))]
        return lines
    cut = f'truncation=True, max_length={length}, return_tensors="pt"'
    if form == "pair":
        return [f"encoded = tokenizer(prompt, response, {cut})"]
    if form == "plain text":
        text = 'text = f"{prompt}\\n\\n{response}" + (tokenizer.eos_token or "")'
        return [text, f"encoded = tokenizer(text, {cut})"]
    return [
        'messages = [{"role": "user", "content": prompt}, {"role": "assistant", "content": response}]',
        "text = tokenizer.apply_chat_template(messages, tokenize=False)",
        "# The template writes the start token itself.",
        f"encoded = tokenizer(text, add_special_tokens=False, {cut})",
    ]


def _on_hub(base: str) -> bool:
    return _HUB_ID.fullmatch(base) is not None


def _source(path: object) -> str:
    """Public name of a model or file, without the path of a local folder."""
    if path is None:
        return "none"
    return str(path) if _on_hub(str(path)) else str(path).rstrip("/\\").replace("\\", "/").rsplit("/", 1)[-1]


def _dose(dose: float | None) -> str:
    return "unknown" if dose is None else f"{dose:g}"
