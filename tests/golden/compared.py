"""Recorded and found outputs, compared: text exactly, numbers within a tolerance; and every tolerance but the common one."""

from __future__ import annotations

import difflib
import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from recorded import LEAVES, leaves

SHOWN = 40
"""Differences that a failure lists."""


@dataclass(frozen=True)
class Tolerance:
    """How far a number may be from the recorded one.

    Attributes:
        relative: Share of the larger of the two.
        absolute: In the number's own unit; the larger of both counts.
        in_text: Numbers within text may differ by one unit of their last digit, too, and blanks by their number.
        reason: Why, if it is not the common one.
    """

    relative: float = 1e-6
    absolute: float = 1e-12
    in_text: bool = False
    reason: str = ""

    def close(self, recorded: float, found: float) -> bool:
        if math.isnan(recorded) or math.isnan(found):
            return math.isnan(recorded) and math.isnan(found)
        return recorded == found or abs(recorded - found) <= max(
            self.absolute, self.relative * max(abs(recorded), abs(found))
        )


COMMON = Tolerance()
_SCORED = Tolerance(
    1e-4, 1e-4, in_text=True,
    reason="rewards of the embedded model: processors with other vector units sum in another order, about 1e-6 of a reward "
    "apart, and a difference of rewards near 0 is small itself",
)  # fmt: skip
_TRAINED = Tolerance(
    2e-3, 1e-3, in_text=True, reason="rewards after a training, in which such differences grow from step to step"
)  # fmt: skip
_HISTOGRAM = Tolerance(0, 2, reason="counts of a histogram of such rewards: one near an edge falls into either bar")
_LIKENESS = Tolerance(
    1e-4, 1e-6, reason="likeness of two descriptions by the embedded encoder, which sums as the model does"
)
# The one place for values that cannot be compared as closely as all others: cases, the values' paths, and how closely. The
# first that fits counts.
TOLERANCES: tuple[tuple[str, str, Tolerance], ...] = (
    ("train|train-seeds|audit-model", r"(.*\.)?counts\b.*", _HISTOGRAM),
    ("train|train-reused|train-seeds|report|report-compare|merge|inspect-run", ".*", _TRAINED),
    ("audit-model", ".*", _SCORED),
    ("discover-.*", r"(.*\.)?strength\..*", _LIKENESS),
)


def tolerance_of(case: str, path: str = "") -> Tolerance:
    """How closely a value of a case is compared; without a path, a line of text."""
    for cases, paths, tolerance in TOLERANCES:
        if re.fullmatch(cases, case) and re.fullmatch(paths, path):
            return tolerance
    return COMMON


_NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[-+]?\d+)?")


@dataclass(frozen=True)
class Difference:
    """A value that is not as it was recorded; None stands for one that is not there."""

    file: str
    place: str
    recorded: str | None
    found: str | None

    def __str__(self) -> str:
        start = _parting(self.recorded or "", self.found or "")
        both = (_short(value, start) if value is not None else "nothing" for value in (self.recorded, self.found))
        return f"  {self.place}: recorded {next(both)}, found {next(both)}"


def differences(case: str, file: str, recorded: Any, found: Any) -> list[Difference]:
    """Where a file differs from the recorded one: JSON by value, text by line."""
    if file.endswith(LEAVES):
        return list(_json_differences(case, file, recorded, found))
    return list(_line_differences(file, recorded.splitlines(), found.splitlines(), tolerance_of(case)))


def all_differences(case: str, recorded: Mapping[str, Any], found: Mapping[str, Any]) -> list[Difference]:
    """Differences of a case's files, by name; a file that is missing or was not recorded is one."""
    listed = []
    for file in sorted({*recorded, *found}):
        if file in recorded and file in found:
            listed += differences(case, file, recorded[file], found[file])
        else:
            here = ("a file", None) if file in recorded else (None, "a file")
            listed.append(Difference(file, "the whole file", *here))
    return listed


def report(listed: list[Difference]) -> str:
    """The first differences in words, by file, and how many more there are."""
    shown: list[str] = []
    for place, difference in enumerate(listed):
        new = [difference.file] if not place or difference.file != listed[place - 1].file else []
        if len(shown) + len(new) >= SHOWN:
            rest = Counter(left.file for left in listed[place:])
            counts = ", ".join(f"{file} {n}" for file, n in rest.most_common(3))
            more = f", and {len(rest) - 3} more files" if len(rest) > 3 else ""
            return "\n".join([*shown, f"and {len(listed) - place} more: {counts}{more}"])
        shown += [*new, str(difference)]
    return "\n".join(shown)


def settled(case: str, file: str, recorded: Any, found: Any) -> Any:
    """What to record anew: the recorded value wherever the found one is close to it, so that a diff shows changes alone."""
    if not file.endswith(LEAVES):
        return found if differences(case, file, recorded, found) else recorded
    return _settled_json(case, "", dict(leaves(recorded)), found)


def _json_differences(case: str, file: str, recorded: Any, found: Any) -> Iterator[Difference]:
    before, after = dict(leaves(recorded)), dict(leaves(found))
    for path in {**before, **after}:
        if path in before and path in after and _same(before[path], after[path], tolerance_of(case, path)):
            continue
        both = (json.dumps(side[path], ensure_ascii=False) if path in side else None for side in (before, after))
        yield Difference(file, path or "the value", next(both), next(both))


def _line_differences(file: str, recorded: list[str], found: list[str], tolerance: Tolerance) -> Iterator[Difference]:
    if len(recorded) == len(found):
        for place, (before, after) in enumerate(zip(recorded, found, strict=True)):
            if not _same_text(before, after, tolerance):
                yield Difference(file, f"line {place + 1}", before, after)
        return
    # A line more or less moves the others, which are no differences.
    matcher = difflib.SequenceMatcher(None, recorded, found, autojunk=False)
    for kind, first, last, other_first, other_last in matcher.get_opcodes():
        if kind == "equal":
            continue
        for place, (before, after) in enumerate(zip_longest(recorded[first:last], found[other_first:other_last])):
            if before is None or after is None or not _same_text(before, after, tolerance):
                yield Difference(file, f"line {first + place + 1}", before, after)


def _same(recorded: Any, found: Any, tolerance: Tolerance) -> bool:
    if isinstance(recorded, str) and isinstance(found, str):
        return _same_text(recorded, found, tolerance)
    if isinstance(recorded, bool) or isinstance(found, bool):
        return recorded is found
    if isinstance(recorded, (int, float)) and isinstance(found, (int, float)):
        return tolerance.close(recorded, found)
    return type(recorded) is type(found) and recorded == found


def _same_text(recorded: str, found: str, tolerance: Tolerance) -> bool:
    if recorded == found or not tolerance.in_text:
        return recorded == found
    if [part.split() for part in _NUMBER.split(recorded)] != [part.split() for part in _NUMBER.split(found)]:
        return False
    pairs = list(zip(_NUMBER.findall(recorded), _NUMBER.findall(found), strict=True))
    if any(math.isinf(float(number)) for pair in pairs for number in pair):
        return False  # a mark such as 9244e829, which is no number
    return all(
        abs(float(before) - float(after)) <= 1.001 * max(_last_digit(before), _last_digit(after))
        for before, after in pairs
    )


def _last_digit(number: str) -> float:
    """One unit of the last digit of a number as it is written."""
    digits, _, exponent = number.partition("e")
    return float(10.0 ** (int(exponent or 0) - len(digits.partition(".")[2])))


def _settled_json(case: str, path: str, recorded: Mapping[str, Any], found: Any) -> Any:
    """The value found at a path, with the recorded leaves, by path, that are close."""
    if isinstance(found, dict) and found:
        return {
            key: _settled_json(case, f"{path}.{key}" if path else key, recorded, item) for key, item in found.items()
        }
    if isinstance(found, list) and found:
        return [_settled_json(case, f"{path}[{place}]", recorded, item) for place, item in enumerate(found)]
    near = path in recorded and _same(recorded[path], found, tolerance_of(case, path))
    return recorded[path] if near else found


def _parting(text: str, other: str) -> int:
    """How many characters two texts begin with alike."""
    return next(
        (place for place, (a, b) in enumerate(zip(text, other, strict=False)) if a != b), min(len(text), len(other))
    )


def _short(text: str, start: int, most: int = 100) -> str:
    """A text as it is, or the part of a long one around a place."""
    if len(text) <= most:
        return text
    first = max(0, min(start - most // 4, len(text) - most))
    return f"{'…' if first else ''}{text[first : first + most]}{'…' if first + most < len(text) else ''}"
