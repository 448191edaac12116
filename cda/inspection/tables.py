"""Rewrites as a document: tables of all of them, then each with its label, reward, gate and features."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from cda.records import PERCENT
from cda.report.document import Document, section_blocks
from cda.report.glance import UNKNOWN, Cell, Chip, Glance, GlanceRow, Series, marked, percent_axis
from cda.report.names import called, some, without_files
from cda.report.next_step import after_inspection
from cda.report.numbers import MINUS, cell, count, counted, percent, reward, share, signed
from cda.report.page import ReportSection, TextPair
from cda.report.tables import Table, table
from cda.results.base import Estimate, Missing
from cda.results.effects import FeatureDrift
from cda.results.inspect import InspectResult, RewriteShown, RewriteSummary

_YES_NO = {True: "yes", False: "no", None: "not known"}


def name_of(group: RewriteSummary | RewriteShown) -> str:
    """Bias and direction of rewrites."""
    return f"{group.bias}, {'added' if group.direction == 'add' else 'removed'}"


def rewrites_table(inspection: InspectResult, failures: bool = True) -> Table:
    """A row for each bias and direction, with or without the failures."""
    columns = {
        "bias": name_of, "rewrites": _rewrites_cell, "flipped": flipped_share_cell, "failed": failed_cell,
        "the gate would reject": _rejected_cell, "reward": reward_cell,
    }  # fmt: skip
    if all(isinstance(group.reward, Missing) for group in inspection.summaries):
        del columns["reward"]
    if not failures:
        del columns["failed"]
    rows = tuple(tuple(form(group) for form in columns.values()) for group in inspection.summaries)
    caption = f"Rewrites by bias and direction, with {PERCENT} intervals clustered by prompt; flipped and reward count failed ones too"
    return Table(caption, tuple(columns), rows)


def _rewrites_cell(group: RewriteSummary) -> str:
    of = f" of {group.available}" if group.available > group.n else ""
    prompts = f" ({group.n_prompts} prompts)" if group.n_prompts != group.n else ""
    return f"{group.n}{of}{prompts}"


def flipped_share_cell(group: RewriteSummary) -> str:
    """Share of rewrites whose label changed as asked for, and who labelled."""
    if not group.n_written:
        return "no text was written"
    if isinstance(group.flipped, Missing):
        return "not known: the bias has no measure, and no LLM labelled"
    by = ", ".join(group.labelled_by)
    had = f"; {group.had_it_before} so before the rewrite" if group.had_it_before else ""
    return f"{_share(group.flipped)} ({by}{had})"


def failed_cell(group: RewriteSummary) -> str:
    """Share of rewrites that were not accepted; and those of which a run kept the number alone."""
    parts = [] if isinstance(group.failed, Missing) else [_share(group.failed)]
    parts += [f"{sum(lost.reasons.values())} of {lost.tried} tried ({lost.source})" for lost in group.lost]
    return "; ".join(parts) or (f"not known: {group.failed.reason}" if isinstance(group.failed, Missing) else "")


def _rejected_cell(group: RewriteSummary) -> str:
    return "none was accepted" if isinstance(group.rejected, Missing) else _share(group.rejected)


def reward_cell(group: RewriteSummary) -> str:
    """Mean difference of rewards."""
    return cell(group.reward, lambda mean: f"{signed(mean)}, n = {count(mean)}")


def reason_table(inspection: InspectResult) -> Table | None:
    """Every reason for which a rewrite failed or would, with its count; None if there is none."""
    rows = []
    for group in inspection.summaries:
        found: list[tuple[str, Mapping[str, int]]] = [
            ("failed", group.failed_reasons),
            *((f"failed ({lost.source})", lost.reasons) for lost in group.lost),
            ("accepted, would be rejected", group.rejected_reasons),
            ("counted only", group.noticed),
        ]
        reasons: dict[str, list[str]] = {}
        for what, counts in found:
            for reason, n in counts.items():
                reasons.setdefault(reason, []).append(f"{n} {what}")
        rows += [(f"{name_of(group)}: {reason}", ", ".join(parts)) for reason, parts in reasons.items()]
    return table("Why rewrites failed, and what the gate finds in the others", ("reason", "rewrites"), rows)


def drift_table(inspection: InspectResult) -> Table | None:
    """The change of every feature that is not the bias itself, for each bias and direction, in standard deviations of originals."""
    found = {
        name_of(group): {row.name: row for row in group.drift if row.standardised is not None}
        for group in inspection.summaries
        if not isinstance(group.drift, Missing)
    }
    features = dict.fromkeys(name for own in found.values() for name in own)
    rows = ((name, *(_drift_cell(own.get(name)) for own in found.values())) for name in features)
    caption = f"Rewrite {MINUS} original in standard deviations of originals, and the share of rewrites beyond the feature's limit"
    return table(caption, ("feature", *found), rows)


def _drift_cell(row: FeatureDrift | None) -> str:
    if row is None or row.standardised is None:
        return ""
    if row.is_treatment:
        return f"{signed(row.standardised)} (the bias itself)"
    beyond = f", {percent(row.beyond.value)} beyond" if row.beyond is not None and row.beyond.value > 0 else ""
    return f"{signed(row.standardised)}{beyond}"


def phrase_table(inspection: InspectResult) -> Table | None:
    """Phrases that rewrites add again and again."""
    rows = (
        (phrase.words, name_of(group), _share(phrase.share))
        for group in inspection.summaries
        for phrase in group.phrases
    )
    return table(
        "Phrases in several rewrites and in none of their originals",
        ("phrase", "rewrites", "share that holds it"),
        rows,
    )


def label_sentence(example: RewriteShown) -> str:
    """Labels of original and rewrite."""
    label = example.label
    if label.by is None:
        return "label: not known (no measure, no LLM)"
    flipped = {True: "flipped", False: "not flipped", None: "not known whether it flipped"}[label.flipped]
    return f"label: {_YES_NO[label.before]} → {_YES_NO[label.after]}, {flipped} ({label.by})"


def reward_sentence(example: RewriteShown, unit: str) -> str | None:
    """Rewards of original and rewrite; None without reward or preference."""
    if example.difference is None:
        return None
    if example.rewards is None:
        return f"{unit} for the rewrite: {reward(example.difference)}"
    before, after = example.rewards
    return f"{unit}: {reward(before)} → {reward(after)} ({reward(example.difference)})"


def gate_sentence(example: RewriteShown, noticed: bool = True) -> str:
    """Acceptance of the rewrite, and the findings of the gate, with or without those that it only notices."""
    if example.rewrite is None:
        return f"failed: {example.failed}; no text"
    if example.failed is not None:
        more = [reason for reason in example.rejected if reason != example.failed]
        return f"failed: {example.failed}" + (f"; also {', '.join(more)}" if more else "")
    counted_only = f"; counted only: {', '.join(example.noticed)}" if example.noticed and noticed else ""
    if example.rejected:
        return f"accepted, but the gate would reject it: {', '.join(example.rejected)}{counted_only}"
    return f"the gate passes it{counted_only}"


def feature_sentence(example: RewriteShown, beyond: bool = False) -> str:
    """Every feature that differs between original and rewrite, or only those beyond their limits and those of the bias itself."""
    parts = []
    for row in example.drift:
        if beyond and not (row.is_treatment or row.beyond):
            continue
        notes = " (the bias itself)" if row.is_treatment else " (beyond the limit)" if row.beyond else ""
        parts.append(f"{_plain(row.feature)} {_number(row.before)} → {_number(row.after)}{notes}")
    none = "no feature is beyond its limit" if beyond else "no measured feature differs"
    return "drift: " + ("; ".join(parts) or none)


def _plain(feature: str) -> str:
    return feature.replace("_", " ")


def _share(estimate: Estimate | Missing) -> str:
    return cell(estimate, lambda found: f"{share(found)}, n = {count(found)}")


def _number(value: float) -> str:
    text = f"{value:.0f}" if value == round(value) else f"{value:.2f}" if abs(value) < 10 else f"{value:.1f}"
    return text.replace("-", MINUS)


def order_sentence(inspection: InspectResult) -> str:
    """Which rewrites are shown."""
    n, total = len(inspection.examples), sum(group.n for group in inspection.summaries)
    order = {
        None: f"drawn with seed {inspection.seed}",
        "reward": "those whose reward changed most, in either direction, first",
        "drift": "those that differ most from their originals in all but the bias first",
        "failed": "those that failed, or that the gate would reject",
    }[inspection.worst]
    return f"{n} of {total} rewrites, for each bias and direction {order}."


_NUMBERS = (
    "Flipped means that the label changed as asked for. Failed are rewrites that were not accepted, even after asking again. "
    "The gate's checks are made again here on every accepted rewrite, also where it was made without a gate."
)
_DRIFT = "A good rewrite changes the bias and nothing else; a bias file can set its own limits."
_PHRASES = (
    "The same words in many rewrites are a sign of a lazy instruction: a model learns the phrase and not the bias. Rules "
    "repeat themselves by nature."
)


def inspect_document(inspection: InspectResult) -> Document:
    """The numbers of each bias and direction, what else changes, then the rewrites one by one."""
    who = f", by {inspection.by}" if inspection.by else ""
    scored = f" Rewards by {called(inspection.scored_by)}." if inspection.scored_by else " No rewards."
    facts = tuple(
        (f"{bias.name}, {words}", text)
        for bias in inspection.biases
        for words, text in (("what it is", bias.description), ("to add it", bias.add), ("to remove it", bias.remove))
    )
    sections = [
        ReportSection("numbers", "All rewrites", (_NUMBERS,), _tables(inspection), sentences=inspection.notes),
        *(
            ReportSection(id, title, (words,), (found,))
            for id, title, words, found in (
                ("drift", "What else changes", _DRIFT, drift_table(inspection)),
                ("phrases", "Phrases added again and again", _PHRASES, phrase_table(inspection)),
            )
            if found
        ),
        ReportSection("one-by-one", "One by one", texts=_texts(inspection, inspection.examples),
                      sentences=(order_sentence(inspection),)),
        ReportSection("instructions", "What was asked for", facts=facts),
    ]  # fmt: skip
    title = f"Rewrites: {', '.join(bias.name for bias in inspection.biases)}"
    texts = _texts(inspection, [one for one in inspection.examples if one.rewrite is not None][:1], beyond=True)
    return Document(
        title, without_files(f"Rewrites of {inspection.where}{who}.{scored}"), (), tuple(sections), headline=_headline(inspection),
        glance=_glance(inspection), pair=texts[0] if texts else None, shows_texts=True, next=after_inspection(inspection),
    )  # fmt: skip


_FLIPS, _NO_FLIP, _OPEN = Chip("flips", "good", "✓"), Chip("does not flip", "bad", "✗"), Chip("unclear", "none", "?")
_REJECTED = Chip("would be rejected", "bad", "✗")
_SHARES = {
    "flipped": Series("after", "label flipped"), "failed": Series("before", "failed"),
    "rejected": Series("third", "the gate would reject"),
}  # fmt: skip


def _chip(group: RewriteSummary) -> Chip:
    """Whether the gate would reject most rewrites, or most flip the label, by the intervals of these shares."""
    if isinstance(group.rejected, Estimate) and group.rejected.low > 0.5:
        return _REJECTED
    if isinstance(group.flipped, Missing):
        return UNKNOWN
    return _FLIPS if group.flipped.low > 0.5 else _NO_FLIP if group.flipped.high < 0.5 else _OPEN


def _headline(inspection: InspectResult) -> str:
    """How many rewrites flip the label, and how many the gate would reject, in one sentence."""
    groups = inspection.summaries
    flipped, rejected = (_hits([getattr(group, key) for group in groups]) for key in ("flipped", "rejected"))
    names = dict.fromkeys(group.bias for group in groups)
    gate = f"; the gate would reject {rejected[0]} of {rejected[1]} accepted" if rejected[1] else ""
    if not flipped[1]:
        return f"{sum(group.n for group in groups)} rewrites for {some(list(names))}, of which none was labelled{gate}."
    return f"{flipped[0]} of {flipped[1]} rewrites for {some(list(names))} flip the label{gate}."


def _hits(found: Sequence[Estimate | Missing]) -> tuple[int, int]:
    """Rewrites for which it holds, of those for which it is known."""
    known = [each for each in found if isinstance(each, Estimate)]
    return sum(round(each.value * each.n) for each in known), sum(each.n for each in known)


def _glance(inspection: InspectResult) -> Glance:
    rows = []
    for group in inspection.summaries:
        marks = tuple(mark for key, one in _SHARES.items() for mark in marked(one, getattr(group, key)))
        gained = "" if isinstance(group.reward, Missing) else f"; {inspection.unit} {reward(group.reward.value)}"
        rows.append(
            GlanceRow(
                name_of(group),
                (Cell(_chip(group), marks, "" if marks else "not known"),),
                f"n = {group.n} ({group.n_prompts} prompts){gained}",
            )
        )
    return Glance(
        caption="What became of the rewrites.", heading="bias and direction", axis=percent_axis("share of rewrites"), rows=tuple(rows),
        reading=("Flips: the 95% interval of the share whose label changed as asked for lies above 50%; would be rejected: that of the gate does.", _NUMBERS),
    )  # fmt: skip


def _tables(inspection: InspectResult) -> tuple[Table, ...]:
    return tuple(filter(None, (rewrites_table(inspection), reason_table(inspection))))


def with_section(document: Document, inspection: InspectResult) -> Document:
    """A run's report with the numbers of all rewrites and the first rewrite of each bias after its examples, folded."""
    few = tuple({each.bias: each for each in reversed(inspection.examples)}.values())[::-1]
    total = sum(group.n for group in inspection.summaries)
    more = f"{len(few)} of {total} rewrites, drawn with seed {inspection.seed}. cda inspect RUN shows more, and what else they change."
    reasons = sum((Counter(group.rejected_reasons) for group in inspection.summaries), Counter[str]())
    rejected = [f"The gate would reject {reasons.total()} accepted rewrites ({counted(reasons)})."] if reasons else []
    texts, words = _texts(inspection, few, beyond=True), (*inspection.notes, more, *rejected)
    found = rewrites_table(inspection, failures=False)  # what was left out has a section of its own
    section = ReportSection("rewrites", "Rewrites", words, (found,), texts=texts, folded=True)
    parts = list(document.sections)
    after = [place for place, part in enumerate(parts, 1) if part.id == "examples"]
    parts.insert(after[0] if after else len(parts), section)
    return replace(document, sections=tuple(parts), markdown_parts=(*document.markdown_parts, *section_blocks(section)))


def _texts(inspection: InspectResult, examples: Sequence[RewriteShown], beyond: bool = False) -> tuple[TextPair, ...]:
    return tuple(
        TextPair(
            f"{name_of(one)}, {one.source}", one.prompt, one.original, one.rewrite, _notes(one, inspection.unit, beyond)
        )
        for one in examples
    )


def _notes(example: RewriteShown, unit: str, beyond: bool) -> tuple[str, ...]:
    if example.rewrite is None:
        return (gate_sentence(example),)
    rewards = reward_sentence(example, unit)
    said = (label_sentence(example), rewards, gate_sentence(example, not beyond), feature_sentence(example, beyond))
    return tuple(sentence for sentence in said if sentence)
