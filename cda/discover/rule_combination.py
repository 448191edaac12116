"""Two biases as one: the rules of both, and a pattern that is found where both are."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from cda.biases import Bias
from cda.biases.load import Offline
from cda.discover.mined_rules import bias_name
from cda.features import EMOJI, LIST_LINE, PATTERN_FEATURES, phrase_pattern

_COUNTED: Mapping[str, str] = MappingProxyType(
    {
        "headers": r"^[ \t]*#{1,6}[ \t]+\S",
        "bold": r"\*\*[^*\n]+\*\*|__[^_\n]+__",
        "exclamations": "!",
        "questions": r"\?",
        "list_lines": LIST_LINE.pattern,
        "emoji": EMOJI.pattern,
    }
)
_FLAGS = re.compile(r"\A\(\?([aims]+)\)")
_BOTH = r"(?=[\s\S]*?"
_MAX_PARTS = 3


def combined(one: Bias, other: Bias) -> Bias | None:
    """Both biases at once; None where one has no rules, or nothing that could be found beside the other, or too many parts."""
    patterns = found_by(one), found_by(other)
    if one.offline is None or other.offline is None or None in patterns or patterns[0] == patterns[1]:
        return None
    pattern = r"\A" + "".join(_parts(bias.pattern, found) for bias, found in zip((one, other), patterns, strict=True))
    rules = _union(one.offline, other.offline)
    if pattern.count(_BOTH) > _MAX_PARTS or rules is None:
        return None
    return Bias.model_validate(
        {
            "name": bias_name(f"{_stem(one)} and {_stem(other)}", pattern),
            "description": f"{one.description.rstrip('.')}. Also: {other.description}",
            "question": f"Do both of these hold? First: {one.question} Second: {other.question}",
            "instructions": {
                "add": f"{one.instructions.add} At the same time: {other.instructions.add}",
                "remove": f"{one.instructions.remove} At the same time: {other.instructions.remove}",
            },
            "keep": _kept_by_both(one, other),
            "limits": {name: None for name in ("words",) if name in one.limits or name in other.limits},
            "pattern": pattern,
            "measure": {"feature": "pattern_count", "present_above": 0.5},
            "markers": list(dict.fromkeys([*one.markers, *other.markers])),
            "treatment": list(dict.fromkeys(["pattern_count", *one.treatment, *other.treatment])),
            "offline": rules,
        }
    )


def found_by(bias: Bias) -> str | None:
    """A pattern found where the bias is measured as present; None where no pattern says so (lengths, shares, readability)."""
    rule = bias.measure
    if rule is None or rule.relative or rule.present_above is None:
        return None
    if rule.feature == "markers_per_100_words":
        return f"(?i:{phrase_pattern(tuple(bias.markers)).pattern})" if rule.present_above == 0 else None
    if rule.feature in PATTERN_FEATURES and bias.pattern is not None:
        counted: str | None = scoped(bias.pattern)
        if rule.feature == "pattern_per_100_words" and rule.present_above > 0:
            return None
    else:
        counted = _COUNTED.get(rule.feature)
    times = max(1, math.floor(rule.present_above) + 1)
    if counted is None or times == 1:
        return counted
    # Atomic groups: else a text with one match too few is searched in as many ways as there are to choose among its matches.
    return rf"(?>(?:{counted})(?>[\s\S]*?(?:{counted})){{{times - 1}}})"


def scoped(pattern: str) -> str:
    """A pattern whose flags hold for itself alone, so that it can stand within another.

    >>> scoped("(?i)sure")
    '(?i:sure)'
    """
    flags = _FLAGS.match(pattern)
    return f"(?{flags.group(1)}:{pattern[flags.end() :]})" if flags else f"(?:{pattern})"


def _parts(pattern: str | None, found: str | None) -> str:
    """What has to be found; a bias that is already a combination gives its own parts."""
    if pattern is not None and pattern.startswith(r"\A" + _BOTH):
        return pattern.removeprefix(r"\A")
    return f"{_BOTH}(?:{found}))"


def _union(one: Offline, other: Offline) -> dict[str, Any] | None:
    """Rules of both; None where they compete for the same places."""
    if _compete(one, other):
        return None
    mine, theirs = one.model_dump(exclude_defaults=True), other.model_dump(exclude_defaults=True)
    joined = {name: mine[name] + theirs[name] for name in mine.keys() & theirs.keys() if isinstance(mine[name], list)}
    return mine | theirs | {"words": one.words | other.words, "min_changes": 1, "frame": "both"} | joined


def _compete(one: Offline, other: Offline) -> bool:
    swapped = {swap.find for swap in one.swaps_add} & {swap.find for swap in other.swaps_add}
    alone = ("open_with", "close_with", "weave", "lead_with", "restate", "itemize")
    opens = [rules.open_with or (rules.lead_with and rules.lead_every is None) for rules in (one, other)]
    return bool(swapped) or all(opens) or any(getattr(one, name) and getattr(other, name) for name in alone)


def _kept_by_both(one: Bias, other: Bias) -> list[str]:
    both = [what for what in one.keep if what in other.keep]
    return both or list(one.keep)


def _stem(bias: Bias) -> str:
    """The name without the digits that tell it from others."""
    return re.sub(r"-[0-9a-f]{4}\Z", "", bias.name)[:20]
