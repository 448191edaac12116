"""`cda inspect` in a terminal: 100 columns, both texts beside each other, nothing that a terminal obeys."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from cda.report.differences import Piece, word_differences
from cda.report.inspect_tables import (
    drift_words,
    failed_cell,
    feature_sentence,
    flipped_cell,
    gate_sentence,
    label_sentence,
    name_of,
    rejected_cell,
    reward_cell,
    reward_sentence,
    rewrites_cell,
)
from cda.report.numbers import clipped, inert, share, width
from cda.results.base import Missing
from cda.results.inspect import InspectResult, RewriteShown, RewriteSummary

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
