"""What `cda inspect` says of rewrites: tables of the page, and the lines that say the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest

from cda.report.differences import Piece, word_differences
from cda.report.numbers import MINUS, NOT_ESTIMATED, clipped, count, excludes_zero, inert, reward, share, signed, width
from cda.report.tables import Table
from cda.results.base import Estimate, Missing
from cda.results.effects import FeatureDrift
from cda.results.inspect import FeatureChange, InspectResult, RewriteShown, RewriteSummary

YES_NO = {True: "yes", False: "no", None: "not known"}


def name_of(one: RewriteSummary | RewriteShown) -> str:
    """A group of rewrites: bias and direction."""
    return f"{one.bias}, {'added' if one.direction == 'add' else 'removed'}"


def summary_table(inspection: InspectResult) -> Table:
    """A row for each bias and direction."""
    scored = any(not isinstance(one.reward, Missing) for one in inspection.summaries)
    header = ("bias", "rewrites", "flipped", "failed", "the gate would reject", *(("reward",) if scored else ()))
    rows = tuple(
        (
            name_of(one), rewrites_cell(one), flipped_cell(one), failed_cell(one), rejected_cell(one),
            *((reward_cell(one),) if scored else ()),
        )
        for one in inspection.summaries
    )  # fmt: skip
    caption = (
        "Rewrites by bias and direction, with 95% intervals clustered by prompt; flipped, reward and features are of every text "
        "that was written, failed ones among them"
    )
    return Table(caption, header, rows)


def rewrites_cell(one: RewriteSummary) -> str:
    """How many rewrites the numbers are made from, of how many, on how many prompts."""
    of = f" of {one.available}" if one.available > one.n else ""
    prompts = f" ({one.n_prompts} prompts)" if one.n_prompts != one.n else ""
    return f"{one.n}{of}{prompts}"


def flipped_cell(one: RewriteSummary) -> str:
    """Share of rewrites whose label changed as asked for, and who labelled."""
    if not one.n_written:
        return "no text was written"
    if isinstance(one.flipped, Missing):
        return "not known: the bias has no measure, and no LLM labelled"
    by = ", ".join(one.labelled_by)
    had = f"; {one.had_it_before} so before the rewrite" if one.had_it_before else ""
    return f"{_share(one.flipped)} ({by}{had})"


def failed_cell(one: RewriteSummary) -> str:
    """Share of rewrites that were not accepted; and those of which a run kept the number alone."""
    parts = [] if isinstance(one.failed, Missing) else [_share(one.failed)]
    for lost in one.lost:
        n = sum(lost.reasons.values())
        parts.append(f"{n} of {lost.tried} tried ({lost.source})")
    return "; ".join(parts) or (f"not known: {one.failed.reason}" if isinstance(one.failed, Missing) else "")


def rejected_cell(one: RewriteSummary) -> str:
    """Share of the accepted texts that the gate's checks would reject."""
    found = one.rejected
    return "none was accepted" if isinstance(found, Missing) else f"{share(found)}, n = {count(found)}"


def reward_cell(one: RewriteSummary) -> str:
    """Mean difference of rewards."""
    found = one.reward
    return NOT_ESTIMATED if isinstance(found, Missing) else f"{signed(found)}, n = {count(found)}"


def reason_table(inspection: InspectResult) -> Table | None:
    """Every reason for which a rewrite failed or would, and how often; None where there is none."""
    rows = []
    for one in inspection.summaries:
        reasons: dict[str, list[str]] = {}
        for what, counts in _reasons(one):
            for reason, n in counts.items():
                reasons.setdefault(reason, []).append(f"{n} {what}")
        rows += [(f"{name_of(one)}: {reason}", ", ".join(parts)) for reason, parts in reasons.items()]
    return (
        Table("Why rewrites failed, and what the gate finds in the others", ("reason", "rewrites"), tuple(rows))
        if rows
        else None
    )


def _reasons(one: RewriteSummary) -> list[tuple[str, Mapping[str, int]]]:
    lost = [(f"failed ({kept.source})", kept.reasons) for kept in one.lost]
    return [
        ("failed", one.failed_reasons),
        *lost,
        ("accepted, would be rejected", one.rejected_reasons),
        ("counted only", one.noticed),
    ]


def drift_tables(inspection: InspectResult) -> list[Table]:
    """What changes besides, for each bias and direction."""
    header = ("feature", "original", "rewrite", f"rewrite {MINUS} original", "in SDs", "beyond the limit")
    return [
        Table(
            f"{name_of(one)}: mean features of {one.n_written} originals and their rewrites, where they have any",
            header,
            tuple(_drift_row(row) for row in one.drift if row.base_mean or row.perturbed_mean),
        )
        for one in inspection.summaries
        if not isinstance(one.drift, Missing)
    ]


def _drift_row(row: FeatureDrift) -> tuple[str, ...]:
    own = " (the bias itself)" if row.is_treatment else ""
    standardised = row.standardised
    return (
        plain(row.feature) + own, _number(row.base_mean), _number(row.perturbed_mean), signed(row.difference),
        "" if standardised is None else signed(standardised), "" if row.beyond is None or own else share(row.beyond),
    )  # fmt: skip


def phrase_tables(inspection: InspectResult) -> list[Table]:
    """Phrases that rewrites add again and again, for each bias and direction."""
    return [
        Table(
            f"{name_of(one)}: phrases in several of {one.n_written} rewrites and in none of their originals",
            ("phrase", "rewrites that hold it"),
            tuple((phrase.words, _share(phrase.share)) for phrase in one.phrases),
        )
        for one in inspection.summaries
        if one.phrases
    ]


def drift_words(one: RewriteSummary) -> list[str]:
    """Features that change on average (the interval excludes 0), the largest change in standard deviations first."""
    if isinstance(one.drift, Missing):
        return [f"not estimated: {one.drift.reason}"]
    found = [
        (abs(row.standardised.value), row)
        for row in one.drift
        if row.standardised is not None and excludes_zero(row.difference)
    ]
    words = []
    for _, row in sorted(found, key=lambda each: -each[0]):
        beyond = row.beyond
        notes = ["the bias itself"] if row.is_treatment else []
        if beyond is not None and beyond.value > 0 and not row.is_treatment:
            notes.append(f"{share(beyond)} beyond the limit")
        words.append(f"{plain(row.feature)} {signed(row.difference)}" + (f" ({', '.join(notes)})" if notes else ""))
    return words


def label_sentence(example: RewriteShown) -> str:
    """Whether original and rewrite exhibit the bias."""
    label = example.label
    if label.by is None:
        return "label: not known (no measure, no LLM)"
    flipped = {True: "flipped", False: "not flipped", None: "not known whether it flipped"}[label.flipped]
    return f"label: {YES_NO[label.before]} → {YES_NO[label.after]}, {flipped} ({label.by})"


def reward_sentence(example: RewriteShown, unit: str) -> str | None:
    """Rewards of original and rewrite; None where there is neither reward nor preference."""
    if example.difference is None:
        return None
    if example.rewards is None:
        return f"{unit} for the rewrite: {reward(example.difference)}"
    before, after = example.rewards
    return f"{unit}: {reward(before)} → {reward(after)} ({reward(example.difference)})"


def gate_sentence(example: RewriteShown) -> str:
    """Whether the rewrite was accepted, and what the gate finds in it."""
    if example.rewrite is None:
        return f"failed: {example.failed}; no text"
    if example.failed is not None:
        more = [one for one in example.rejected if one != example.failed]
        return f"failed: {example.failed}" + (f"; also {', '.join(more)}" if more else "")
    noticed = f"; counted only: {', '.join(example.noticed)}" if example.noticed else ""
    if example.rejected:
        return f"accepted, but the gate would reject it: {', '.join(example.rejected)}{noticed}"
    return f"the gate passes it{noticed}"


def feature_sentence(example: RewriteShown) -> str:
    """Every feature that differs between original and rewrite."""
    if not example.drift:
        return "drift: no measured feature differs"
    return "drift: " + "; ".join(_feature(row) for row in example.drift)


def _feature(row: FeatureChange) -> str:
    notes = " (the bias itself)" if row.is_treatment else " (beyond the limit)" if row.beyond else ""
    return f"{plain(row.feature)} {_number(row.before)} → {_number(row.after)}{notes}"


def plain(feature: str) -> str:
    """A feature's name in words."""
    return feature.replace("_", " ")


def _share(estimate: Estimate | Missing) -> str:
    return NOT_ESTIMATED if isinstance(estimate, Missing) else f"{share(estimate)}, n = {count(estimate)}"


def _number(value: float) -> str:
    text = f"{value:.0f}" if value == round(value) else f"{value:.2f}" if abs(value) < 10 else f"{value:.1f}"
    return text.replace("-", MINUS)


COLUMNS = 100
_SIDE = 48
_MOST_LINES = 24
"""Of a text; the page shows all of it."""
_MOST_PHRASES = _MOST_FEATURES = 6
_NAME = 10


def inspection_text(inspection: InspectResult) -> str:
    """The numbers of each bias and direction, then the rewrites one by one."""
    who = f", by {inspection.by}" if inspection.by else ""
    lines = _wrapped(f"Rewrites of {inspection.where}{who}")
    for note in inspection.notes:
        lines += _wrapped(note)
    for one in inspection.summaries:
        lines += ["", *_summary(one, inspection)]
    examples = inspection.examples
    lines += ["", *_wrapped(order_sentence(inspection) + " Marked: [-only before-], {+only after+}.")]
    for number, example in enumerate(examples, 1):
        lines += ["", *_example(example, f"{number} of {len(examples)}", inspection.unit)]
    return "\n".join(lines)


def order_sentence(inspection: InspectResult) -> str:
    """Which rewrites are shown."""
    n, total = len(inspection.examples), sum(one.n for one in inspection.summaries)
    told = {
        None: f"drawn with seed {inspection.seed}",
        "reward": "those whose reward changed most, in either direction, first",
        "drift": "those that differ most from their originals in all but the bias first",
        "failed": "those that failed, or that the gate would reject",
    }
    return f"{n} of {total} rewrites, for each bias and direction {told[inspection.worst]}."


def _summary(one: RewriteSummary, inspection: InspectResult) -> list[str]:
    lines = [inert(f"{name_of(one)}: {rewrites_cell(one)} rewrites, {_sources(one)}")]
    lines += _named("flipped", flipped_cell(one))
    counted = (one.failed_reasons, *(lost.reasons for lost in one.lost))
    reasons = [f"{n} {reason}" for part in counted for reason, n in part.items()]
    lines += _named("failed", failed_cell(one) + (f": {', '.join(reasons)}" if reasons else ""))
    rejected = [f"{n} {reason}" for reason, n in one.rejected_reasons.items()]
    if one.n_written:
        lines += _named("gate", f"would reject {rejected_cell(one)}" + (f": {', '.join(rejected)}" if rejected else ""))
    if not isinstance(one.reward, Missing):
        lines += _named(inspection.unit, f"{reward_cell(one)}, rewrite − original (by {inspection.scored_by})")
    drift = drift_words(one)
    more = f"; {len(drift) - _MOST_FEATURES} more features" if len(drift) > _MOST_FEATURES else ""
    if one.n_written:
        lines += _named("drift", ("; ".join(drift[:_MOST_FEATURES]) or "no measured feature changes on average") + more)
    phrases = [
        f"“{phrase.words}” {share(phrase.share)}" for phrase in one.phrases if not isinstance(phrase.share, Missing)
    ]
    if phrases:
        lines += _named("added", "; ".join(phrases[:_MOST_PHRASES]))
    return lines


def _sources(one: RewriteSummary) -> str:
    found = one.sources
    return next(iter(found)) if len(found) == 1 else "; ".join(f"{n} {source}" for source, n in found.items())


def _example(example: RewriteShown, number: str, unit: str) -> list[str]:
    head = f"── {number}: {name_of(example)}, {example.source} "
    lines = [clipped(inert(head) + "─" * COLUMNS, COLUMNS).replace("…", "─")]
    lines += _named("prompt", _start(example.prompt, 4 * _SIDE))
    if example.rewrite is None:
        lines += _named("original", _start(example.original, 8 * _SIDE))
        return lines + _named("gate", gate_sentence(example))
    before, after = word_differences(example.original, example.rewrite)
    left, right = _side(before, "[-", "-]"), _side(after, "{+", "+}")
    lines += [
        _beside("original", "rewrite"),
        *(_beside(one, other) for one, other in zip_longest(left, right, fillvalue="")),
    ]
    sentences = [label_sentence(example), reward_sentence(example, unit), feature_sentence(example)]
    for sentence in sentences:
        if sentence is not None:
            name, _, text = sentence.partition(": ")
            lines += _named(name, text)
    return lines + _named("gate", gate_sentence(example))


def _start(text: str, most: int) -> str:
    """The beginning of a text, cut to so many columns; of a long one the rest is not even looked at."""
    return clipped(inert(text[: 4 * most]), most)


def _side(pieces: Sequence[Piece], before: str, after: str) -> list[str]:
    """A text in lines of a column, what only it has between marks; the marks are put on each line by itself."""
    text = "".join(_marked(piece, before, after) for piece in pieces)
    lines = [part for line in text.split("\n") for part in (_fill(inert(line)) or [""])]
    if len(lines) > _MOST_LINES:
        lines = [*lines[: _MOST_LINES - 1], f"… {len(lines) - _MOST_LINES + 1} more lines (--html shows all)"]
    return lines


def _marked(piece: Piece, before: str, after: str) -> str:
    if not piece.differs:
        return piece.text
    return "\n".join(_between(line, before, after) for line in piece.text.split("\n"))


def _between(line: str, before: str, after: str) -> str:
    """Marks close to the words, the white space around them outside."""
    words = line.strip()
    if not words:
        return line
    start = line.index(words)
    return f"{line[:start]}{before}{words}{after}{line[start + len(words) :]}"


def _fill(line: str, most: int = _SIDE) -> list[str]:
    """A line in parts no wider than a column, broken at spaces where there are any; by columns, not by characters."""
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
    """How many characters of a word fit into so many columns; one at the least."""
    columns = 0
    for at, char in enumerate(word[: 4 * most]):
        columns += width(char)
        if columns > most:
            return max(at, 1)
    return min(len(word), 4 * most)


def _beside(left: str, right: str) -> str:
    return f"{left}{' ' * (_SIDE - width(left))} │ {right}".rstrip()


def _named(name: str, text: str) -> list[str]:
    """A line that begins with what it is about, its further lines indented."""
    parts = _fill(inert(text), COLUMNS - _NAME - 2) or [""]
    heads = [f"  {inert(name):<{_NAME}}", *[" " * (_NAME + 2)] * (len(parts) - 1)]
    return [f"{head}{part}".rstrip() for head, part in zip(heads, parts, strict=True)]


def _wrapped(text: str) -> list[str]:
    return _fill(inert(text), COLUMNS)
