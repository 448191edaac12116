"""Rows to contrasts: two responses of which one carries the bias, with people's preference where there is one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from cda.data.contrast_ids import CarriedIds, carried_ids
from cda.data.load import Row
from cda.data.messages import RowError, prompt_of, side_text
from cda.data.votes import vote_words
from cda.errors import DataError
from cda.records import Contrast, Exclusions, Preference, count_reasons

COLUMNS = ("id", "prompt", "base", "perturbed", "response_1", "response_2", "biased", "preferred", "votes", "bias",
           "direction")  # fmt: skip
DIRECTIONS = ("added", "removed")
Values = Mapping[str, Any]
"""Of one row, by our names."""


@dataclass(frozen=True, slots=True)
class CleanContrasts:
    """Contrasts of a file.

    Attributes:
        contrasts: Those that can be used, each once.
        exclusions: Rows that cannot.
        votes: Single votes and verdicts that cannot be read; their contrasts stay, without them.
        ids: What the rows' ids are; a contrast whose id was made from other text stays, under the id of its own.
    """

    contrasts: tuple[Contrast, ...]
    exclusions: Exclusions
    votes: Exclusions
    ids: CarriedIds = field(default_factory=CarriedIds)


def clean_contrasts(
    rows: Sequence[Row],
    biases: Sequence[str],
    columns: Mapping[str, str],
    where: str,
    votes: Mapping[str, Sequence[str]] | None = None,
    verdicts: Mapping[str, Sequence[str]] | None = None,
    setting: str = "audit.columns",
) -> CleanContrasts:
    """Turn rows into contrasts, counting what cannot be used.

    Two layouts: `prompt, base, perturbed`, or `prompt, response_1, response_2, biased` where `biased` says which of
    the two carries the bias. Optional: `preferred` (`perturbed`, `base`, `response_1`, `response_2` or `tie`),
    `votes` (a list of the same words), `id`, `bias` (needed when several are audited), and `direction` (`added`: the
    perturbed side was made from the base; `removed`: the base was made from the perturbed side).

    Args:
        rows: Loaded rows.
        biases: Names of the audited biases; rows of other biases are left out without being counted as broken.
        columns: Our name to the name of the column in the rows.
        where: File named in errors.
        votes: Votes from a file of their own, by the row's `id` or the contrast's; they go before the row's own. An id that
            was made from other text finds none.
        verdicts: Verdicts of LLM judges, by the same ids.
        setting: What maps columns, for messages.

    Raises:
        DataError: Neither layout is there, or several biases and no `bias` column, or no row is usable.
    """
    names = {name: columns.get(name, name) for name in COLUMNS}
    present = {key for row in rows for key in row}
    _check_layout(names, present, biases, where, setting)
    if votes or verdicts:
        _check_ids(rows, names["id"], where)
    contrasts: dict[str, Contrast] = {}
    sided: list[tuple[_Sided, Values]] = []
    reasons: list[str] = []
    unread = _Unread()
    for row in rows:
        values: Values = {ours: row.get(theirs) for ours, theirs in names.items()}
        bias = str(values["bias"]) if names["bias"] in present else biases[0]
        if bias not in biases:
            reasons.append(f"of another bias ({bias[:40]})")
            continue
        try:
            sided.append((_sided(values, bias), values))
        except RowError as problem:
            reasons.append(str(problem))
    ids = carried_ids([one.contrast for one, _ in sided])
    for one, values in sided:
        try:
            contrast = _with_opinions(one, values, ids, votes or {}, verdicts or {}, unread)
            if contrast.id in contrasts:
                # The same two texts once more: one contrast, on which all have voted.
                contrasts[contrast.id] = _pooled(contrasts[contrast.id], contrast)
                raise RowError("duplicate")
        except RowError as problem:
            reasons.append(str(problem))
            continue
        contrasts[contrast.id] = contrast
    exclusions = Exclusions(len(rows), count_reasons(reasons))
    if not contrasts:
        raise DataError(f"{where}: no usable contrast; {exclusions}")
    return CleanContrasts(tuple(contrasts.values()), exclusions, unread.exclusions(), ids)


def with_votes(
    contrasts: Sequence[Contrast], votes: Mapping[str, Sequence[str]], verdicts: Mapping[str, Sequence[str]]
) -> tuple[list[Contrast], Exclusions]:
    """Contrasts with the votes and verdicts that files hold for their ids (`perturbed`, `base` or `tie`), and those that
    cannot be read."""
    unread = _Unread()
    found = [
        replace(one, votes=unread.votes(votes.get(one.id), {}), verdicts=unread.votes(verdicts.get(one.id), {}))
        for one in contrasts
    ]
    return found, unread.exclusions()


@dataclass
class _Unread:
    """Reads votes, and remembers those that it cannot."""

    seen: int = 0
    reasons: list[str] = field(default_factory=list)

    def votes(self, cell: Any, sides: Mapping[str, Preference]) -> tuple[Preference, ...]:
        """The votes of a cell or list that can be read."""
        found = []
        for word in vote_words(cell):
            self.seen += 1
            try:
                found.append(_one_preference(word, sides))
            except RowError:
                self.reasons.append(f"unreadable vote '{word[:40]}'")
        return tuple(found)

    def exclusions(self) -> Exclusions:
        """What was seen and what could not be read."""
        return Exclusions(self.seen, count_reasons(self.reasons))


def _check_ids(rows: Sequence[Row], column: str, where: str) -> None:
    """Votes are matched by id, so that no two pairs may share one."""
    counts = Counter(str(row[column]) for row in rows if row.get(column) not in (None, ""))
    shared = [f"'{name}' ({count} times)" for name, count in counts.items() if count > 1]
    if shared:
        more = f" and {len(shared) - 5} more" if len(shared) > 5 else ""
        raise DataError(
            f"{where}: votes are matched by '{column}', but several rows share one: {', '.join(shared[:5])}{more}. "
            "Give each pair an id of its own"
        )


def _pooled(one: Contrast, other: Contrast) -> Contrast:
    return replace(
        one,
        preferred=one.preferred or other.preferred,
        votes=one.votes + other.votes,
        verdicts=one.verdicts + other.verdicts,
    )


def _check_layout(names: Mapping[str, str], present: set[str], biases: Sequence[str], where: str, setting: str) -> None:
    problems = []
    layouts = (("base", "perturbed"), ("response_1", "response_2", "biased"))
    if not any(all(names[name] in present for name in layout) for layout in layouts):
        problems.append(
            f"{where}: needs the columns base and perturbed, or response_1, response_2 and biased. "
            f"Found: {', '.join(sorted(present))}. Map yours with {setting}.<name>=<your column>"
        )
    if names["prompt"] not in present:
        problems.append(f"{where}: no column '{names['prompt']}'. Map it with {setting}.prompt=<your column>")
    if len(biases) > 1 and names["bias"] not in present:
        problems.append(
            f"{where}: {len(biases)} biases are meant ({', '.join(biases)}), so each row needs a column 'bias'; or name the one "
            f"that they are of (--bias {biases[0]}; in a recipe `biases`)"
        )
    if problems:
        raise DataError("\n".join(problems))


@dataclass(frozen=True, slots=True)
class _Sided:
    """A row's contrast without opinions, and what else its sides are called."""

    contrast: Contrast
    sides: Mapping[str, Preference]


def _sided(values: Values, bias: str) -> _Sided:
    prompt = prompt_of(values["prompt"])
    first, second = _answer(values["response_1"]), _answer(values["response_2"])
    perturbed, base = _answer(values["perturbed"]), _answer(values["base"])
    if perturbed is None and base is None:
        biased = str(values["biased"]).strip().lower().replace(" ", "_")
        if biased not in ("response_1", "response_2"):
            raise RowError("biased is neither response_1 nor response_2")
        perturbed, base = (first, second) if biased == "response_1" else (second, first)
        sides: dict[str, Preference] = {
            "response_1": "perturbed" if biased == "response_1" else "base",
            "response_2": "perturbed" if biased == "response_2" else "base",
        }
    else:
        sides = {}
    perturbed, base = side_text(perturbed), side_text(base)
    if perturbed == base:
        raise RowError("identical sides")
    item = None if values["id"] is None else str(values["id"])
    tags = {"item": item, "direction": _direction(values["direction"])}
    given = {name: tag for name, tag in tags.items() if tag is not None}
    return _Sided(Contrast(bias, prompt, perturbed, base, tags=given), sides)


def _with_opinions(
    sided: _Sided,
    values: Values,
    ids: CarriedIds,
    votes: Mapping[str, Sequence[str]],
    verdicts: Mapping[str, Sequence[str]],
    unread: _Unread,
) -> Contrast:
    named, sides, preferred = sided.contrast, sided.sides, values["preferred"]
    item = ids.of(named)
    own = votes.get(item or "", votes.get(named.id, values["votes"]))
    return replace(
        named,
        preferred=None if preferred is None or preferred == "" else _one_preference(preferred, sides),
        votes=unread.votes(own, sides),
        verdicts=unread.votes(verdicts.get(item or "", verdicts.get(named.id)), sides),
        tags={name: tag for name, tag in named.tags.items() if name != "item" or item is not None},
    )


def _direction(value: Any) -> str | None:
    if value is None or value == "":
        return None
    word = str(value).strip().lower()
    if word not in DIRECTIONS:
        raise RowError("direction is neither added nor removed")
    return word


def _answer(value: Any) -> Any:
    """A side that stands as one assistant message, as its text."""
    if isinstance(value, list | tuple) and len(value) == 1 and isinstance(value[0], Mapping):
        return value[0].get("content")
    return value


def _one_preference(value: Any, sides: Mapping[str, Preference]) -> Preference:
    word = str(value).strip().lower().replace(" ", "_")
    if word in sides:
        return sides[word]
    if word == "perturbed":
        return "perturbed"
    if word == "base":
        return "base"
    if word == "tie":
        return "tie"
    raise RowError("unreadable preference")
