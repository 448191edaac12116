"""The model card of an export: its metadata for model hubs, the audit, limits, and a program that loads it. Text from outside is
escaped."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from markupsafe import Markup

from cda.auditing import report_trainings as trainings
from cda.auditing import verdict_sentences as verdict
from cda.auditing.first_screen import BiasVerdict, bias_verdicts, headline, share_words
from cda.auditing.report_cells import EMBEDDED, applied
from cda.auditing.report_scoring import caveats, how_scored
from cda.auditing.report_tables import main_table, rate_tables, votes_table
from cda.auditing.verdict_sentences import verdicts
from cda.files.jsonl import write_text
from cda.inert import inert
from cda.numbers.measures import MEASURES
from cda.numbers.views import tracked_numbers
from cda.records import PERCENT
from cda.report.drawing import FigureForm, obstacle, save_plot
from cda.report.numbers import count, listed, share
from cda.report.page import render
from cda.report.plots import PEOPLE_MARK, SCORINGS, Plot, named, percent_scale, rows_plot
from cda.report.tables import Table, escaped, markdown_table
from cda.results.audit import AuditResult
from cda.results.base import Estimate, Number
from cda.results.dose import DoseResult
from cda.results.facts import RewardModelFacts

if TYPE_CHECKING:
    from huggingface_hub import EvalResult

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", re.ASCII)


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
    at: int = 0
    """Place among the trainings of the audit, whose own numbers are those of the first."""


def model_card(parts: Sequence[ExportedTraining], base: str, merged: str | None, label: int | None = None) -> str:
    """Model card (README.md) of an export, with the front matter that model hubs read. `base` is a hub id, `embedded`, or a folder, which is named by its last part alone; `merged` is
    the precision of a merged model, None for an adapter; `label` is the one of the base's several labels that is the reward."""
    audits = [part.audit for part in parts if part.audit is not None]
    biases = list(dict.fromkeys(bias.name for audit in audits for bias in audit.biases))
    models = [audit.model for audit in audits if isinstance(audit.model, RewardModelFacts)]
    forms = (*(model.form for model in models), *(part.form for part in parts))
    text = render(
        "model_card.md.j2",
        parts=parts,
        biases=listed(biases) if biases else "",
        merged=merged,
        label=label,
        base=(shown := "the embedded model of the cda package" if base == EMBEDDED else _source(base)),
        embedded=base == EMBEDDED,
        hub=Markup(json.dumps(base)) if _HUB_ID.fullmatch(base) else "",
        metadata=Markup(_metadata(parts, base, merged)),
        form=next((form for form in forms if form), None),
        length=(models[0].max_length_tokens if models else None) or 512,
        md=_inert,
        json=partial(json.dumps, ensure_ascii=False, default=str),
        dose=_dose,
        audited=partial(_audited, merged=merged, base=shown, parts=parts),
        chosen=_chosen,
        limits=partial(_limits, merged=merged),
    )
    return re.sub(r"\n{3,}", "\n\n", text)


def _metadata(parts: Sequence[ExportedTraining], base: str, merged: str | None) -> str:
    """Front matter, by the hub's own types: the base if it is on the hub, and the audit's numbers after the training as
    `model-index`, if the audit measured this very export."""
    from huggingface_hub import ModelCardData

    audit = parts[0].audit if len(parts) == 1 else None
    results = [] if audit is None else [_eval_result(*found, audit) for found in _exported_numbers(parts[0], audit)]
    on_hub = _HUB_ID.fullmatch(base) is not None
    return ModelCardData(
        base_model=base if on_hub else None,
        base_model_relation=("finetune" if merged else "adapter") if on_hub else None,
        library_name="transformers" if merged else "peft",
        pipeline_tag="text-classification",
        tags=["reward-model", "debiasing", *([] if merged else ["lora"])],
        model_name=_slug(parts[0].name) if results else None,
        eval_results=results or None,
    ).to_yaml()


def _eval_result(number: Number, found: Estimate, audit: AuditResult) -> EvalResult:
    from huggingface_hub import EvalResult

    measure, bias, place = MEASURES[number.measure], number.at.get("bias"), _place(number, audit)
    words = measure.title if bias is None else f"{measure.title} of {bias}"
    return EvalResult(
        task_type="text-classification",
        task_name="reward modelling",
        dataset_type=place,
        dataset_name=place,
        metric_type=measure.shown_as.get("tracker", number.measure),
        metric_name=f"{_slug(words, ' ')} ({PERCENT} interval {found.low:.2f} to {found.high:.2f}, n = {found.n})",
        metric_value=round(found.value, 4),
    )


def _exported_numbers(part: ExportedTraining, audit: AuditResult) -> list[tuple[Number, Estimate]]:
    """The audit's numbers of the dose that is exported; none if it measured another, or if they have no intervals by themselves, as
    with a training after the first."""
    if part.at:
        return []
    measured = audit if part.dose == applied(audit) else audit.plain if part.dose == 1 else None
    return [found for found in tracked_numbers(measured) if found[0].moment == "after"] if measured else []


def _place(number: Number, audit: AuditResult) -> str:
    """The data that a number was measured on, by its public name: every bias has contrasts of its own."""
    sources, on, own = audit.sources, MEASURES[number.measure].on, EMBEDDED
    if on == "contrasts":
        own = audit.skew[number.at["bias"]].source
    contrasts = sources.contrasts if own == "file" or on == "votes" else own
    place = {"triples": sources.triples, "quality": sources.quality}.get(on, contrasts)
    return "cda-embedded" if place == EMBEDDED else _slug(_source(place))


def _slug(text: str, between: str = "-") -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", between, text).strip("-. ") or "unnamed"


def save_card(folder: Path, card: str, parts: Sequence[ExportedTraining]) -> None:
    """Write a card, and the figures that it shows, into the folder of an export."""
    for part in parts:
        if part.audit is not None and not part.at and not obstacle():
            save_plot(_figure(part.audit, _number(part, parts)), folder, FigureForm("png"))
    write_text(folder / "README.md", card)


def _number(part: ExportedTraining, parts: Sequence[ExportedTraining]) -> str:
    """The end of the names of a training's files, if there are several."""
    return f"-{parts.index(part) + 1}" if len(parts) > 1 else ""


def _figure(audit: AuditResult, number: str) -> Plot:
    """The shares of the first screen, with people's, as a figure."""
    found = bias_verdicts(audit)
    shown = [(f"{named(row.bias)}: {row.chip}", {**_shares(row), "people": row.people}) for row in found]
    voted = any(row.people for row in found)
    marks = {key: SCORINGS[key] for key in _shares(found[0])} | ({"people": PEOPLE_MARK} if voted else {})
    text = f"{headline(audit)} {' '.join(f'{inert(row.bias)}: {share_words(row)}.' for row in found)}"
    title = "How often the model prefers the side with the bias, with 95% intervals"
    return rows_plot(
        f"audit{number}", title, text, shown, marks, percent_scale("prefers the side with the bias (%)", 50)
    )


def _shares(row: BiasVerdict) -> dict[str, Estimate]:
    return {"model": row.before} if row.after is None else {"before": row.before, "after": row.after}


def _first_screen(part: ExportedTraining, audit: AuditResult, base: str, number: str) -> Iterator[Markup]:
    """The audit at a glance: the figure with its words, the headline, a row for each bias, and what the numbers are of."""
    plot = _figure(audit, number)
    if not obstacle():
        yield Markup(f"![{escaped(plot.description)}]({plot.id}.png)")
    yield Markup(f"**{escaped(headline(audit))}**")
    rows = [
        (
            row.bias,
            row.chip,
            *map(share, _shares(row).values()),
            share(row.people) if row.people else "no votes",
            count(row.last),
            row.clause,
        )
        for row in bias_verdicts(audit)
    ]
    header = ("bias", "verdict", *_shares(bias_verdicts(audit)[0]), "people", "n", "in short")
    yield from _tables((Table("How often the model prefers the side with the bias", header, tuple(rows)),))
    sources, votes = audit.sources, {name: voted.human_skew for name, voted in audit.votes.items()}
    said = {
        "Base": base,
        "Dose": f"{_dose(part)}, of the trained update",
        "Measured on": f"contrasts: {_source(sources.contrasts)}; quality pairs: {_source(sources.quality)}; RATE triples: {_source(sources.triples)}",
        "Votes": f"{_source(sources.votes or sources.contrasts)}, majorities: {listed([f'{name} {count(skew)}' for name, skew in votes.items()])}"
        if votes
        else "none: no people's votes say what is right",
    }
    yield Markup("\n".join(f"- {name}: {escaped(words)}" for name, words in said.items()))


def _audited(
    part: ExportedTraining, merged: str | None, base: str, parts: Sequence[ExportedTraining]
) -> Iterator[Markup]:
    """First how the audited model differs from the exported one, and its first screen; then verdicts and tables."""
    audit = part.audit
    assert audit is not None  # the template asks for audited trainings alone
    if part.at:
        yield from map(_inert, trainings.place_sentences(audit, part.at))
        yield from _tables((trainings.seed_table(audit, part.at),))
        yield _inert(how_scored(audit))
        return
    if part.dose != applied(audit):
        column = "the column of plain CDA." if part.dose == 1 and audit.plain else "which this audit did not measure."
        yield Markup(f"`after` is dose {applied(audit):g}. The export holds dose {_dose(part)}, {column}")
    yield from _first_screen(part, audit, base, _number(part, parts))
    for found in verdicts(audit):
        yield Markup(f"**{escaped(found.sentence)}**")
    yield from map(_inert, (verdict.quality_sentence(audit), *trainings.seed_sentences(audit)))
    yield from _tables((main_table(audit), trainings.seed_table(audit), votes_table(audit), *rate_tables(audit)))
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


def _limits(part: ExportedTraining, merged: str | None) -> list[str]:
    audit = part.audit
    assert audit is not None  # the template asks for audited trainings alone
    sources, known = audit.sources, caveats(audit)
    if part.at:  # those of the first training's verdicts and dose are no part of it
        first = trainings.seeds_caveat(audit)
        known = [note for note in caveats(audit.model_copy(update={"dose": None})) if note != first]
    notes = [
        *known,
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
