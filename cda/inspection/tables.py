"""Results of `cda inspect` in tables for the page, and in lines for a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest

from cda.report.numbers import MINUS, cell, clipped, count, counted, excludes_zero, inert, reward, share, signed, width
from cda.report.page import Piece, word_differences
from cda.report.tables import Table, table
from cda.results.base import Estimate, Missing
from cda.results.effects import FeatureDrift
from cda.results.inspect import InspectResult, RewriteShown, RewriteSummary

_YES_NO = {True: "yes", False: "no", None: "not known"}
_COLUMNS = 100
_SIDE = 48
_MOST_LINES = 24  # lines of a text; the page shows all of it
_MOST_PHRASES = _MOST_FEATURES = 6
_NAME = 10


def name_of(group: RewriteSummary | RewriteShown) -> str:
    """Bias and direction of rewrites."""
    return f"{group.bias}, {'added' if group.direction == 'add' else 'removed'}"


def rewrites_table(inspection: InspectResult) -> Table:
    """A row for each bias and direction."""
    scored = any(not isinstance(group.reward, Missing) for group in inspection.summaries)
    header = ("bias", "rewrites", "flipped", "failed", "the gate would reject", *(("reward",) if scored else ()))
    cells = [
        name_of,
        _rewrites_cell,
        flipped_share_cell,
        failed_cell,
        _rejected_cell,
        *([reward_cell] if scored else []),
    ]
    rows = tuple(tuple(form(group) for form in cells) for group in inspection.summaries)
    caption = (
        "Rewrites by bias and direction, with 95% intervals clustered by prompt; flipped, reward and features are of every text "
        "that was written, failed ones among them"
    )
    return Table(caption, header, rows)


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


def rewrite_drift_tables(inspection: InspectResult) -> list[Table]:
    """Other features that change, for each bias and direction."""
    header = ("feature", "original", "rewrite", f"rewrite {MINUS} original", "in SDs", "beyond the limit")
    return [
        Table(
            f"{name_of(group)}: mean features of {group.n_written} originals and their rewrites, where they have any",
            header,
            tuple(_drift_row(row) for row in group.drift if row.base_mean or row.perturbed_mean),
        )
        for group in inspection.summaries
        if not isinstance(group.drift, Missing)
    ]


def _drift_row(row: FeatureDrift) -> tuple[str, ...]:
    own = " (the bias itself)" if row.is_treatment else ""
    return (
        _plain(row.feature) + own, _number(row.base_mean), _number(row.perturbed_mean), signed(row.difference),
        "" if row.standardised is None else signed(row.standardised), "" if row.beyond is None or own else share(row.beyond),
    )  # fmt: skip


def phrase_tables(inspection: InspectResult) -> list[Table]:
    """Phrases that rewrites add again and again, for each bias and direction."""
    return [
        Table(
            f"{name_of(group)}: phrases in several of {group.n_written} rewrites and in none of their originals",
            ("phrase", "rewrites that hold it"),
            tuple((phrase.words, _share(phrase.share)) for phrase in group.phrases),
        )
        for group in inspection.summaries
        if group.phrases
    ]


def _drift_words(group: RewriteSummary) -> list[str]:
    """Features that change on average (the interval excludes 0), the largest change in standard deviations first."""
    if isinstance(group.drift, Missing):
        return [f"not estimated: {group.drift.reason}"]
    sizes = [(abs(row.standardised.value), row) for row in group.drift if row.standardised is not None]
    changed = [(size, row) for size, row in sizes if excludes_zero(row.difference)]
    words = []
    for _, row in sorted(changed, key=lambda change: -change[0]):
        beyond = row.beyond if row.beyond is not None and row.beyond.value > 0 else None
        note = " (the bias itself)" if row.is_treatment else f" ({share(beyond)} beyond the limit)" if beyond else ""
        words.append(f"{_plain(row.feature)} {signed(row.difference)}{note}")
    return words


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


def gate_sentence(example: RewriteShown) -> str:
    """Acceptance of the rewrite, and the findings of the gate."""
    if example.rewrite is None:
        return f"failed: {example.failed}; no text"
    if example.failed is not None:
        more = [reason for reason in example.rejected if reason != example.failed]
        return f"failed: {example.failed}" + (f"; also {', '.join(more)}" if more else "")
    noticed = f"; counted only: {', '.join(example.noticed)}" if example.noticed else ""
    if example.rejected:
        return f"accepted, but the gate would reject it: {', '.join(example.rejected)}{noticed}"
    return f"the gate passes it{noticed}"


def feature_sentence(example: RewriteShown) -> str:
    """Every feature that differs between original and rewrite."""
    parts = []
    for row in example.drift:
        notes = " (the bias itself)" if row.is_treatment else " (beyond the limit)" if row.beyond else ""
        parts.append(f"{_plain(row.feature)} {_number(row.before)} → {_number(row.after)}{notes}")
    return "drift: " + ("; ".join(parts) or "no measured feature differs")


def _plain(feature: str) -> str:
    return feature.replace("_", " ")


def _share(estimate: Estimate | Missing) -> str:
    return cell(estimate, lambda found: f"{share(found)}, n = {count(found)}")


def _number(value: float) -> str:
    text = f"{value:.0f}" if value == round(value) else f"{value:.2f}" if abs(value) < 10 else f"{value:.1f}"
    return text.replace("-", MINUS)


def inspection_text(inspection: InspectResult) -> str:
    """The numbers of each bias and direction, then the rewrites one by one."""
    who = f", by {inspection.by}" if inspection.by else ""
    lines = []
    for sentence in (f"Rewrites of {inspection.where}{who}", *inspection.notes):
        lines += _fill(inert(sentence), _COLUMNS)
    for group in inspection.summaries:
        lines += ["", *_summary(group, inspection)]
    examples = inspection.examples
    marks = f"{order_sentence(inspection)} Marked: [-only before-], {{+only after+}}."
    lines += ["", *_fill(inert(marks), _COLUMNS)]
    for number, example in enumerate(examples, 1):
        lines += ["", *_example(example, f"{number} of {len(examples)}", inspection.unit)]
    return "\n".join(lines)


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


def _summary(group: RewriteSummary, inspection: InspectResult) -> list[str]:
    each = "; ".join(f"{n} {source}" for source, n in group.sources.items())
    sources = next(iter(group.sources)) if len(group.sources) == 1 else each
    lines = [inert(f"{name_of(group)}: {_rewrites_cell(group)} rewrites, {sources}")]
    lines += _named("flipped", flipped_share_cell(group))
    because = _because(group.failed_reasons, *(lost.reasons for lost in group.lost))
    lines += _named("failed", failed_cell(group) + because)
    if group.n_written:
        lines += _named("gate", f"would reject {_rejected_cell(group)}{_because(group.rejected_reasons)}")
    if not isinstance(group.reward, Missing):
        lines += _named(inspection.unit, f"{reward_cell(group)}, rewrite − original (by {inspection.scored_by})")
    drift = _drift_words(group)
    more = f"; {len(drift) - _MOST_FEATURES} more features" if len(drift) > _MOST_FEATURES else ""
    if group.n_written:
        lines += _named("drift", ("; ".join(drift[:_MOST_FEATURES]) or "no measured feature changes on average") + more)
    phrases = [
        f"“{phrase.words}” {share(phrase.share)}" for phrase in group.phrases if not isinstance(phrase.share, Missing)
    ]
    return lines + (_named("added", "; ".join(phrases[:_MOST_PHRASES])) if phrases else [])


def _because(*counts_of: Mapping[str, int]) -> str:
    reasons = ", ".join(counted(counts) for counts in counts_of if counts)
    return f": {reasons}" if reasons else ""


def _example(example: RewriteShown, number: str, unit: str) -> list[str]:
    head = f"── {number}: {name_of(example)}, {example.source} "
    lines = [clipped(inert(head) + "─" * _COLUMNS, _COLUMNS).replace("…", "─")]
    lines += _named("prompt", _start(example.prompt, 4 * _SIDE))
    if example.rewrite is None:
        lines += _named("original", _start(example.original, 8 * _SIDE))
        return lines + _named("gate", gate_sentence(example))
    before, after = word_differences(example.original, example.rewrite)
    sides = zip_longest(["original", *_side(before, "[-", "-]")], ["rewrite", *_side(after, "{+", "+}")], fillvalue="")
    lines += [f"{left}{' ' * (_SIDE - width(left))} │ {right}".rstrip() for left, right in sides]
    for sentence in (label_sentence(example), reward_sentence(example, unit), feature_sentence(example)):
        if sentence is not None:
            name, _, text = sentence.partition(": ")
            lines += _named(name, text)
    return lines + _named("gate", gate_sentence(example))


def _start(text: str, most: int) -> str:
    """The beginning of a text, cut to so many columns; of a long one the rest is not even looked at."""
    return clipped(inert(text[: 4 * most]), most)


def _side(pieces: Sequence[Piece], before: str, after: str) -> list[str]:
    """A text in lines of a column, with marks around the parts that only it has; each line has its own marks."""

    def marked(line: str) -> str:
        words = line.strip()  # marks close to the words, the white space around them outside
        return line.replace(words, f"{before}{words}{after}") if words else line

    text = "".join("\n".join(map(marked, piece.text.split("\n"))) if piece.differs else piece.text for piece in pieces)
    lines = [part for line in text.split("\n") for part in (_fill(inert(line), _SIDE) or [""])]
    if len(lines) > _MOST_LINES:
        lines = [*lines[: _MOST_LINES - 1], f"… {len(lines) - _MOST_LINES + 1} more lines (--html shows all)"]
    return lines


def _fill(line: str, most: int) -> list[str]:
    """A line in parts no wider than `most` columns, broken at spaces if there are any; by columns, not by characters."""
    parts, current = [], ""
    for word in line.split(" "):
        candidate = f"{current} {word}" if current else word
        if width(candidate) <= most:
            current = candidate
            continue
        if current:
            parts.append(current)
        current = word
        while width(current[: 4 * most]) > most:
            cut = _fitting(current, most)
            parts.append(current[:cut])
            current = current[cut:]
    return [*parts, current] if current else parts


def _fitting(word: str, most: int) -> int:
    """Number of characters of a word that fit into so many columns; one at the least."""
    columns = 0
    for at, char in enumerate(word[: 4 * most]):
        columns += width(char)
        if columns > most:
            return max(at, 1)
    return min(len(word), 4 * most)


def _named(name: str, text: str) -> list[str]:
    parts = _fill(inert(text), _COLUMNS - _NAME - 2) or [""]
    heads = [f"  {inert(name):<{_NAME}}", *[" " * (_NAME + 2)] * (len(parts) - 1)]
    return [f"{head}{part}".rstrip() for head, part in zip(heads, parts, strict=True)]
