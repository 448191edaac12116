"""The page of `cda inspect`: the numbers of each bias, then original and rewrite beside each other."""

from __future__ import annotations

from dataclasses import dataclass

from cda.report.differences import Piece, word_differences
from cda.report.inspect_tables import (
    drift_tables,
    failed_cell,
    feature_sentence,
    flipped_cell,
    gate_sentence,
    label_sentence,
    name_of,
    phrase_tables,
    reason_table,
    reward_cell,
    reward_sentence,
    summary_table,
)
from cda.report.inspect_text import order_sentence
from cda.report.page import Finding, Page, rendered
from cda.report.plots.inspection import inspection_plots
from cda.report.sections import Section
from cda.report.tables import Table
from cda.results.base import Missing
from cda.results.inspect import InspectResult, RewriteShown, RewriteSummary

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


def _finding(one: RewriteSummary) -> Finding:
    words = [f"flipped {flipped_cell(one)}", f"failed {failed_cell(one)}"]
    if not isinstance(one.reward, Missing):
        words.append(f"reward {reward_cell(one)}, rewrite − original")
    return Finding(f"{name_of(one)}:", "; ".join(words) + ".")


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
