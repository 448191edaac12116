"""The page of `cda inspect`: numbers, figures of all else that rewrites change, and the rewrites one by one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from cda.auditing.report_plots import draw_differences
from cda.inspection import tables
from cda.report.numbers import signed
from cda.report.page import Headline, Page, Piece, ReportSection, rendered, word_differences
from cda.report.plots import AFTER, BEFORE, Mark, Plot, Row, named, rows_height, slugs
from cda.results.base import Estimate, Missing
from cda.results.inspect import InspectResult, RewriteShown, RewriteSummary

if TYPE_CHECKING:
    pass


_MARKS = {"add": Mark("bias added", AFTER, "o"), "remove": Mark("bias removed", BEFORE, "s", filled=False)}
_N_OPEN = 3
_OUTCOMES = {
    "flipped": "flipped as asked for",
    "unflipped": "not flipped",
    "rejected": "the gate would reject it",
    "failed": "failed",
}
_NUMBERS = (
    "Flipped means that the label changed as asked for. Failed are rewrites that were not accepted, even after asking again. "
    "The gate's checks are made again here on every accepted rewrite, also where it was made without a gate."
)
_DRIFT = (
    "A good rewrite changes the bias and nothing else. A limit says how far a rewrite may be from its original in a feature "
    "and still be alike; the bias file can set limits of its own."
)
_PHRASES = (
    "The same words in many rewrites are a sign of a lazy instruction: a model learns the phrase and not the bias. Rules "
    "repeat themselves by nature."
)


@dataclass(frozen=True, slots=True)
class ShownRewrite:
    """One rewrite as the page shows it: texts in pieces, facts in words, outcomes to filter and orders to sort by."""

    bias: str
    title: str
    prompt: str
    original: list[Piece]
    rewrite: list[Piece] | None
    facts: tuple[str, ...]
    short: str
    is_open: bool
    outcomes: str
    orders: tuple[tuple[str, float], ...]


def render_inspection(inspection: InspectResult) -> str:
    """The inspection as a self-contained page."""
    who = f", by {inspection.by}" if inspection.by else ""
    scored = f" Rewards by {inspection.scored_by}." if inspection.scored_by else " No rewards."
    page = Page(
        title="Rewrites: " + ", ".join(bias.name for bias in inspection.biases),
        subtitle=f"Of {inspection.where}{who}.{scored}",
        findings=tuple(map(_headline, inspection.summaries)),
        sections=tuple(_sections(inspection)),
    )
    shown = [_shown(example, number, inspection.unit) for number, example in enumerate(inspection.examples)]
    outcomes = {outcome for example in shown for outcome in example.outcomes.split()}
    return rendered(
        "inspect.html.j2", page=page, sections=page.sections, examples=shown,
        names=[(bias.name, bias.name) for bias in inspection.biases],
        outcomes=[(key, words) for key, words in _OUTCOMES.items() if key in outcomes],
        orders=[("shown", "as in the terminal"), ("drift", "what changed most besides"),
                *([("reward", "where the reward moved most")] if inspection.scored_by else [])],
    )  # fmt: skip


def _headline(group: RewriteSummary) -> Headline:
    words = [f"flipped {tables.flipped_share_cell(group)}", f"failed {tables.failed_cell(group)}"]
    if not isinstance(group.reward, Missing):
        words.append(f"reward {tables.reward_cell(group)}, rewrite − original")
    return Headline(f"{tables.name_of(group)}:", "; ".join(words) + ".")


def _sections(inspection: InspectResult) -> Iterator[ReportSection]:
    reasons, drift = tables.reason_table(inspection), tables.rewrite_drift_tables(inspection)
    phrases = tables.phrase_tables(inspection)
    first = (tables.rewrites_table(inspection), *(() if reasons is None else (reasons,)))
    yield ReportSection("numbers", "All rewrites", (_NUMBERS, *inspection.notes), first)
    yield ReportSection("examples", "One by one", (tables.order_sentence(inspection),))
    if phrases:
        yield ReportSection("phrases", "Phrases added again and again", (_PHRASES,), tuple(phrases))
    if drift:
        yield ReportSection("drift", "What else changes", (_DRIFT,), tuple(drift), tuple(_plots(inspection)))
    facts = tuple(
        (f"{bias.name}, {words}", text)
        for bias in inspection.biases
        for words, text in (("what it is", bias.description), ("to add it", bias.add), ("to remove it", bias.remove))
    )
    yield ReportSection("instructions", "What was asked for", facts=facts)


def _plots(inspection: InspectResult) -> Iterator[Plot]:
    for name, word in slugs(dict.fromkeys(group.bias for group in inspection.summaries)).items():
        groups = [group for group in inspection.summaries if group.bias == name]
        changes = {_MARKS[group.direction]: own for group in groups if (own := _changes(group))}
        features = dict.fromkeys(feature for own in changes.values() for feature in own)
        if not features:
            continue
        rows = [Row(named(feature, 24), tuple(own.get(feature) for own in changes.values())) for feature in features]
        told = [
            f"{mark.name}: {', '.join(f'{feature} {signed(change)}' for feature, change in own.items())}"
            for mark, own in changes.items()
        ]
        title = f"{name}: what else a rewrite changes, in standard deviations. Within the grey band a difference is usually called balanced"
        text = f"Rewrite − original of {name}, in standard deviations. {'. '.join(told)}."
        draw = partial(draw_differences, rows, list(changes), "rewrite − original (SDs)")
        yield Plot(f"changes-{word}", title, text, draw, rows_height(len(rows), len(changes)))


def _changes(group: RewriteSummary) -> dict[str, Estimate]:
    rows = () if isinstance(group.drift, Missing) else group.drift
    return {
        row.feature.replace("_", " "): row.standardised
        for row in rows
        if not row.is_treatment and row.standardised is not None and row.standardised.low < row.standardised.high
    }


def _shown(example: RewriteShown, number: int, unit: str) -> ShownRewrite:
    original, rewrite = [Piece(example.original, False)], None
    label, gate = tables.label_sentence(example), tables.gate_sentence(example)
    rewards = tables.reward_sentence(example, unit)
    short, facts = gate, [gate]
    if example.rewrite is not None:
        original, rewrite = word_differences(example.original, example.rewrite)
        first = [label, *([rewards] if rewards else [])]
        short, facts = "; ".join([*first, gate]), [*first, gate, tables.feature_sentence(example)]
    flipped = {True: ["flipped"], False: ["unflipped"], None: []}[example.label.flipped]
    outcome = ["failed"] if example.failed is not None else ["rejected"] if example.rejected else []
    return ShownRewrite(
        example.bias, f"{tables.name_of(example)}, {example.source}", example.prompt, original, rewrite,
        tuple(fact[:1].upper() + fact[1:] for fact in facts), short, number < _N_OPEN, " ".join([*flipped, *outcome]),
        (("shown", -number), ("drift", example.distance), ("reward", abs(example.difference or 0.0))),
    )  # fmt: skip
