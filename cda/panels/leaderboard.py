"""A leaderboard: rows of a folder, each checked, grouped by the texts that they were measured on, and ranked within a group."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean

from cda.errors import DataError, refuse
from cda.files.jsonl import read_json
from cda.files.paths import is_a_file, is_a_folder, user_path
from cda.records import content_id
from cda.results.base import Estimate, Missing, load
from cda.results.leaderboard import (
    BiasRow,
    Entry,
    LeaderboardResult,
    LeaderboardRow,
    RankedBy,
    RankedGroup,
    Superseded,
)
from cda.stats.draws import ROUNDING

AGAIN = "cda audit --export"
_MARK = "text_set"
"""A field that no other file of cda has."""
Rows = dict[str, LeaderboardRow]


def read_leaderboard(folder: str | Path) -> LeaderboardResult:
    """The leaderboard of a folder's rows, in folders below it too. Files of JSON that are no row are refused with a reason each.

    Raises:
        DataError: No such folder, or no row in it; with the reasons of the files that were refused.
    """
    place = user_path(folder)
    if not is_a_folder(place):
        other = "a file; give the folder that it lies in" if is_a_file(place) else "no such folder"
        raise DataError(f"{folder}: {other}")
    rows: Rows = {}
    refused: dict[str, str] = {}
    for file in sorted(place.rglob("*.json")):
        name = file.relative_to(place).as_posix()
        try:
            content = read_json(file)
            if _is_own(content):
                continue
            if isinstance(content, dict) and _MARK not in content:
                raise DataError(f"no row: a row has the field {_MARK}")
            rows[name] = load(LeaderboardRow, file, AGAIN)
        except DataError as error:
            # The page is shared: it says nothing of folders on this machine.
            reason = str(error).replace(str(file), "", 1).removeprefix(": ")
            refused[name] = re.sub(r"^:(\d+): ", r"line \1: ", reason)
    if not rows:
        problems = [f"{name}: {reason}" for name, reason in refused.items()]
        refuse([f"{folder}: no row that `{AGAIN} {Path(folder) / 'NAME.json'}` wrote", *problems], "more files")
    kept, superseded = newest(rows)
    return LeaderboardResult(
        name=place.resolve().name, groups=tuple(_groups(kept)), superseded=tuple(superseded), refused=refused
    )


def _is_own(content: object) -> bool:
    """True for the leaderboard's own numbers, which lie in the same folder."""
    return isinstance(content, dict) and "superseded" in content and "groups" in content and _MARK not in content


def newest(rows: Mapping[str, LeaderboardRow]) -> tuple[Rows, list[Superseded]]:
    """Of rows on one model, scored alike on the same texts, the newest (of equal dates the first file); and the others."""
    by_subject: dict[str, list[str]] = {}
    for name, row in rows.items():
        by_subject.setdefault(_subject(row), []).append(name)
    kept: Rows = {}
    superseded = []
    for names in by_subject.values():
        first = max(names, key=lambda name: (rows[name].date or "", -names.index(name)))
        kept[first] = rows[first]
        superseded += [
            Superseded(file=name, by=first, same_numbers=_numbers(rows[name]) == _numbers(rows[first]))
            for name in names
            if name != first
        ]
    return {name: kept[name] for name in rows if name in kept}, superseded


def _subject(row: LeaderboardRow) -> str:
    scored = row.scored.model_dump(exclude={"truncated"})
    training = row.training.model_dump() if row.training else None
    return content_id(row.model, row.revision, row.content, scored, training, row.text_set)


def _numbers(row: LeaderboardRow) -> object:
    return {name: bias.model_dump() for name, bias in row.biases.items()}, row.quality.model_dump()


def _groups(rows: Mapping[str, LeaderboardRow]) -> Iterator[RankedGroup]:
    """The rows of each text set and its biases, the largest set first; those of unknown texts last."""
    sets: dict[tuple[str | None, tuple[str, ...]], Rows] = {}
    for name, row in rows.items():
        # Of one text set the biases are the same, unless a row was changed by hand.
        biases = () if row.text_set is None else tuple(sorted(row.biases))
        sets.setdefault((row.text_set, biases), {})[name] = row
    order = sorted(sets, key=lambda key: (key[0] is None, -len(sets[key]), key[0] or "", key[1]))
    yield from (ranked(key[0], sets[key]) for key in order)


_MEASURES: dict[RankedBy, Callable[[BiasRow], Estimate | Missing]] = {
    "miscalibration": lambda row: row.miscalibration,
    "size of RATE's effect": lambda row: _size(row.rate, 0.0),
    "distance of skew from 50%": lambda row: _size(row.skew, 0.5),
}
"""Measures in the order of preference; lower is better, or at least less of an effect."""


def _size(value: Estimate | Missing, null: float) -> Estimate | Missing:
    """Distance from `null`, with the interval of the distances of all values in the interval."""
    if isinstance(value, Missing):
        return value
    ends = sorted((abs(value.low - null), abs(value.high - null)))
    low = 0.0 if value.low <= null <= value.high else ends[0]
    return value.model_copy(update={"value": abs(value.value - null), "low": low, "high": ends[1]})


def ranked(text_set: str | None, rows: Mapping[str, LeaderboardRow]) -> RankedGroup:
    """Rows of one text set, the lowest score first, each with the range of places that its interval allows; rows of unknown texts
    are listed by name, without places."""
    measure = None if text_set is None else _measure_of(list(rows.values()))
    if measure is None:
        missing = Missing(reason="the texts behind the row are unknown" if text_set is None else "no bias was measured")
        unranked = sorted(rows.items(), key=lambda item: (item[1].label, item[0]))
        entries = [
            Entry(file=name, row=row, score=missing, best_place=None, worst_place=None) for name, row in unranked
        ]
        return RankedGroup(text_set=text_set, ranked_by=None, entries=tuple(entries))
    scores = {
        name: mean_of_biases([_MEASURES[measure](bias) for bias in row.biases.values()]) for name, row in rows.items()
    }
    order = sorted(rows, key=lambda name: (scores[name].value, rows[name].label, name))
    return RankedGroup(
        text_set=text_set, ranked_by=measure, entries=tuple(_entry(name, rows, scores) for name in order)
    )


def _entry(name: str, rows: Mapping[str, LeaderboardRow], scores: Mapping[str, Estimate]) -> Entry:
    own = scores[name]
    below = sum(other.high < own.low for other in scores.values())
    above = sum(other.low > own.high for other in scores.values())
    tied = [each for each, other in scores.items() if each != name and other.low <= own.high and other.high >= own.low]
    equal = [each for each in tied if abs(scores[each].value - own.value) <= ROUNDING * max(1.0, abs(own.value))]
    return Entry(
        file=name, row=rows[name], score=own, best_place=1 + below, worst_place=len(scores) - above, tied_with=tuple(tied),
        equal_to=tuple(equal),
    )  # fmt: skip


def _measure_of(rows: Sequence[LeaderboardRow]) -> RankedBy | None:
    """The first measure that every row has for each of its biases; rows of one text set have the same biases."""
    for measure, part in _MEASURES.items():
        found = [part(bias) for row in rows for bias in row.biases.values()]
        if found and all(isinstance(value, Estimate) for value in found):
            return measure
    return None


def mean_of_biases(values: Sequence[Estimate | Missing]) -> Estimate:
    """Mean over the biases of one row, each of the same weight. The interval has the mean of the intervals' ends, as wide as if all
    biases erred together: an upper bound, since their contrasts may share prompts. DataError: a missing value, or none."""
    known = [value for value in values if isinstance(value, Estimate)]
    if not known or len(known) < len(values):
        raise DataError("a mean over biases needs a value for each of them")
    return Estimate(
        value=fmean(value.value for value in known),
        low=fmean(value.low for value in known),
        high=fmean(value.high for value in known),
        n=sum(value.n for value in known),
        n_prompts=max(value.n_prompts for value in known),
        unit=known[0].unit,
        method="mean of the biases' interval ends, an upper bound",
    )
