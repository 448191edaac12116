"""Figures of `cda inspect`: what rewrites change besides the bias, in both directions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from cda.inspection.tables import (
    drift_tables,
    failed_cell,
    feature_sentence,
    flipped_cell,
    gate_sentence,
    label_sentence,
    name_of,
    order_sentence,
    phrase_tables,
    reason_table,
    reward_cell,
    reward_sentence,
    summary_table,
)
from cda.report.differences import Piece, word_differences
from cda.report.numbers import reward, signed
from cda.report.page import Headline, Page, Section, rendered
from cda.report.plots import AFTER, BEFORE, LINE, Mark, Plot, Row, Scale, draw_rows, named, rows_height, slugs
from cda.report.tables import Table
from cda.results.base import Estimate, Missing
from cda.results.inspect import InspectResult, RewriteShown, RewriteSummary

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_MARKS = {"add": Mark("bias added", AFTER, "o"), "remove": Mark("bias removed", BEFORE, "s", filled=False)}
_IMBALANCE = 0.1
_MOST_SDS = 3.0


def inspection_plots(inspection: InspectResult) -> list[Plot]:
    """For each bias: the standardized change of every feature that is not the bias itself and changes at all."""
    names = list(dict.fromkeys(one.bias for one in inspection.summaries))
    words = slugs(names)
    found = [_plot(name, [one for one in inspection.summaries if one.bias == name], words[name]) for name in names]
    return [plot for plot in found if plot is not None]


def _plot(name: str, groups: Sequence[RewriteSummary], word: str) -> Plot | None:
    changes = {one.direction: _changes(one) for one in groups}
    changes = {direction: own for direction, own in changes.items() if own}
    features = list(dict.fromkeys(feature for own in changes.values() for feature in own))
    if not features:
        return None
    rows = [
        Row(named(feature.replace("_", " "), 24), tuple(own.get(feature) for own in changes.values()))
        for feature in features
    ]
    marks = [_MARKS[direction] for direction in changes]
    told = [
        f"{_MARKS[direction].name}: "
        + ", ".join(f"{feature.replace('_', ' ')} {signed(one)}" for feature, one in own.items())
        for direction, own in changes.items()
    ]
    title = f"{name}: what else a rewrite changes, in standard deviations. Within the grey band a difference is usually called balanced"
    text = f"Rewrite − original of {name}, in standard deviations. {'. '.join(told)}."
    return Plot(f"changes-{word}", title, text, partial(_draw, rows, marks), rows_height(len(rows), len(marks)))


def _changes(one: RewriteSummary) -> dict[str, Estimate]:
    if isinstance(one.drift, Missing):
        return {}
    return {
        row.feature: row.standardised
        for row in one.drift
        if not row.is_treatment and row.standardised is not None and row.standardised.low < row.standardised.high
    }


def _draw(rows: Sequence[Row], marks: Sequence[Mark], axes: Axes) -> None:
    estimates = [found for row in rows for found in row.estimates if found is not None]
    low, high = min(one.low for one in estimates), max(one.high for one in estimates)
    limits = (max(-_MOST_SDS, min(low, -0.2) - 0.1), min(_MOST_SDS, max(high, 0.2) + 0.1))
    axes.axvspan(-_IMBALANCE, _IMBALANCE, color=LINE, alpha=0.6, linewidth=0, zorder=0)
    draw_rows(axes, rows, marks, Scale("rewrite − original (SDs)", limits=limits, reference=0))
    for y, row in enumerate(rows):
        for found in row.estimates:
            # Features that are nearly constant have huge standardized differences: the number stands at the edge.
            if found is not None and not limits[0] <= found.value <= limits[1]:
                right = found.value > 0
                axes.text(limits[right], y, f"{reward(found.value)} {'→' if right else '←'}", fontsize=6.5, va="center",
                          ha="right" if right else "left")  # fmt: skip


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
    """One rewrite as the page shows it.

    Attributes:
        bias: Its bias.
        title: Bias, direction and source.
        prompt: The prompt.
        original: The text before, in pieces.
        rewrite: The text after, in pieces; None where there is none.
        facts: Label, rewards, gate and drift, in words.
        short: What of it is said while it is folded.
        is_open: Whether it starts unfolded.
        outcomes: Words of _OUTCOMES that hold, with spaces between them.
        orders: Keys to sort by, the largest first.
    """

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
    page = inspection_page(inspection)
    shown = [_shown(one, number, inspection.unit) for number, one in enumerate(inspection.examples)]
    names = [(bias.name, bias.name) for bias in inspection.biases]
    return rendered(
        "inspect.html.j2", page=page, sections=page.sections, examples=shown, names=names,
        outcomes=[(key, words) for key, words in _OUTCOMES.items() if any(key in one.outcomes.split() for one in shown)],
        orders=[("shown", "as in the terminal"), ("drift", "what changed most besides"),
                *([("reward", "where the reward moved most")] if inspection.scored_by else [])],
    )  # fmt: skip


def inspection_page(inspection: InspectResult) -> Page:
    """Everything on the page but the rewrites themselves."""
    who = f", by {inspection.by}" if inspection.by else ""
    scored = f" Rewards by {inspection.scored_by}." if inspection.scored_by else " No rewards."
    return Page(
        title="Rewrites: " + ", ".join(bias.name for bias in inspection.biases),
        subtitle=f"Of {inspection.where}{who}.{scored}",
        findings=tuple(_finding(one) for one in inspection.summaries),
        sections=tuple(section for section in _sections(inspection) if section is not None),
    )


def _finding(one: RewriteSummary) -> Headline:
    words = [f"flipped {flipped_cell(one)}", f"failed {failed_cell(one)}"]
    if not isinstance(one.reward, Missing):
        words.append(f"reward {reward_cell(one)}, rewrite − original")
    return Headline(f"{name_of(one)}:", "; ".join(words) + ".")


def _sections(inspection: InspectResult) -> list[Section | None]:
    reasons, drift, phrases = reason_table(inspection), drift_tables(inspection), phrase_tables(inspection)
    return [
        Section("numbers", "All rewrites", (_NUMBERS, *inspection.notes), _tables(summary_table(inspection), reasons)),
        Section("examples", "One by one", (order_sentence(inspection),)),
        Section("phrases", "Phrases added again and again", (_PHRASES,), tuple(phrases)) if phrases else None,
        Section("drift", "What else changes", (_DRIFT,), tuple(drift), tuple(inspection_plots(inspection)))
        if drift
        else None,
        Section("instructions", "What was asked for", (), facts=tuple(_instructions(inspection))),
    ]


def _tables(*tables: Table | None) -> tuple[Table, ...]:
    return tuple(table for table in tables if table is not None)


def _instructions(inspection: InspectResult) -> list[tuple[str, str]]:
    return [
        (f"{bias.name}, {words}", text)
        for bias in inspection.biases
        for words, text in (("what it is", bias.description), ("to add it", bias.add), ("to remove it", bias.remove))
    ]


def _shown(example: RewriteShown, number: int, unit: str) -> ShownRewrite:
    rewrite = None
    original = [Piece(example.original, False)]
    if example.rewrite is not None:
        original, rewrite = word_differences(example.original, example.rewrite)
    rewards = reward_sentence(example, unit)
    facts = [gate_sentence(example)]
    if rewrite is not None:
        facts = [label_sentence(example), *([rewards] if rewards else []), *facts, feature_sentence(example)]
    short = "; ".join([label_sentence(example), *([rewards] if rewards else []), gate_sentence(example)])
    return ShownRewrite(
        example.bias, f"{name_of(example)}, {example.source}", example.prompt, original, rewrite,
        tuple(fact[:1].upper() + fact[1:] for fact in facts), short if rewrite is not None else facts[0], number < _N_OPEN,
        " ".join(_outcomes(example)),
        (("shown", -number), ("drift", example.distance), ("reward", abs(example.difference or 0.0))),
    )  # fmt: skip


def _outcomes(example: RewriteShown) -> list[str]:
    flipped = {True: ["flipped"], False: ["unflipped"], None: []}[example.label.flipped]
    if example.failed is not None:
        return [*flipped, "failed"]
    return [*flipped, *(["rejected"] if example.rejected else [])]
