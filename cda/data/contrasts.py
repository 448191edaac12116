"""Ids that were made from a contrast's text, and stand beside another text since: a row was edited after its export."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from cda.data.load import Row
from cda.data.messages import RowError, check_agree, message_text, prompt_of, side_text
from cda.data.votes import vote_words, voter_of
from cda.errors import DataError
from cda.records import Contrast, Exclusions, Preference, count_reasons, equal_texts

_FORM = re.compile(r"[0-9a-f]{16}")  # of content_id
_REASON = "made from other text"


@dataclass(frozen=True, slots=True)
class CarriedIds:
    """The ids that rows of one file carry.

    Attributes:
        seen: Rows with an id.
        outdated: Rows whose id looks like ours and is not that of their text.
        ours: Whether the file holds ids of ours for certain. Anybody's hash may have sixteen digits: an id is known to be
            ours only where some row carries exactly its own, or its own with the sides swapped.
    """

    seen: int = 0
    outdated: int = 0
    ours: bool = False

    def of(self, contrast: Contrast) -> str | None:
        """The id that votes on a row are looked for under; None: only that of its text."""
        item = contrast.tags.get("item")
        return None if self.ours and _is_outdated(contrast) else item

    @property
    def exclusions(self) -> Exclusions:
        """Ids that are not used."""
        return Exclusions(self.seen, {_REASON: self.outdated} if self.ours and self.outdated else {})

    @property
    def notice(self) -> str | None:
        """A sentence for the user, where an id is or may be outdated."""
        if not self.outdated:
            return None
        if self.ours:
            return (
                f"{self.outdated} of {self.seen} rows carry an id that was {_REASON} (or for another bias); votes on that text "
                "are not counted for them. They go by the id of their own text now"
            )
        return (
            f"{self.outdated} of {self.seen} rows carry an id in the form of those that cda makes from a text, and not that of "
            "their own; if they were edited since, votes on the text before count for them. Then leave their ids empty"
        )


def carried_ids(contrasts: Sequence[Contrast]) -> CarriedIds:
    """What the ids (tag `item`) of a file's rows are.

    Args:
        contrasts: One a row, duplicates included.
    """
    carried = [one for one in contrasts if one.tags.get("item")]
    return CarriedIds(len(carried), sum(map(_is_outdated, carried)), any(map(_is_ours, carried)))


def _is_ours(one: Contrast) -> bool:
    return one.tags["item"] in (*_made(one), *_made(replace(one, perturbed=one.base, base=one.perturbed)))


def _is_outdated(one: Contrast) -> bool:
    item = one.tags.get("item", "")
    return _FORM.fullmatch(item) is not None and item not in _made(one)


def _made(one: Contrast) -> tuple[str, ...]:
    """The ids that are made from its text."""
    return replace(one, tags={}).ids


COLUMNS = ("id", "prompt", "base", "perturbed", "response_1", "response_2", "biased", "preferred", "votes", "bias",
           "direction")  # fmt: skip
DIRECTIONS = ("added", "removed")
VOTED_AGAIN = "same texts again, counted as votes"
_TEXTS = ("bias", "prompt", "base", "perturbed", "response_1", "response_2")
Values = Mapping[str, object]
"""Of one row, by our names."""


@dataclass(frozen=True, slots=True)
class CleanContrasts:
    """Contrasts of a file.

    Attributes:
        contrasts: Those that can be used, each once; rows on the same texts are one contrast, and each of them a vote.
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
        votes: Votes from a file of their own, by the row's `id` or the contrast's; they go before the row's own. Of several
            rows on the same texts, votes under each of their ids count. An id that was made from other text finds none.
        verdicts: Verdicts of LLM judges, by the same ids.
        setting: What maps columns, for messages.

    Raises:
        DataError: Neither layout is there, or several biases and no `bias` column, or no row is usable; or rows contradict
            each other: both sides of one pair are said to carry the bias, or one annotator votes on it twice. Names the rows.
    """
    names = {name: columns.get(name, name) for name in COLUMNS}
    present = {key for row in rows for key in row}
    _check_layout(names, present, biases, where, setting)
    groups: dict[str, list[_Sided]] = {}
    reasons: list[str] = []
    about: dict[str, set[str]] = {}
    for number, row in enumerate(rows, 1):
        values: Values = {ours: row.get(theirs) for ours, theirs in names.items()}
        bias = str(values["bias"]) if names["bias"] in present else biases[0]
        texts = about.setdefault(str(values["id"]), set()) if values["id"] not in (None, "") else set()
        try:
            if bias not in biases:
                raise RowError(f"of another bias ({bias[:40]})")
            one = _sided(values, bias, number, voter_of(row))
        except RowError as problem:
            reasons.append(str(problem))
            texts.add(repr([values[name] for name in _TEXTS]))
            continue
        texts.add(one.contrast.id)
        groups.setdefault(one.contrast.id, []).append(one)
    if votes or verdicts:
        _check_ids(about, names["id"], where)
    check_agree(_contradictions(groups), where)
    ids = carried_ids([one.contrast for group in groups.values() for one in group])
    unread = _Unread()
    contrasts = [_pooled(group, ids, votes or {}, verdicts or {}, unread) for group in groups.values()]
    for group, contrast in zip(groups.values(), contrasts, strict=True):
        own = not any(name in (votes or {}) for name in contrast.ids)
        reasons += [VOTED_AGAIN if own and one.has_opinion else "duplicate" for one in group[1:]]
    exclusions = Exclusions(len(rows), count_reasons(reasons))
    if not contrasts:
        raise DataError(f"{where}: no usable contrast; {exclusions}")
    return CleanContrasts(tuple(contrasts), exclusions, unread.exclusions(), ids)


def with_votes(
    contrasts: Sequence[Contrast], votes: Mapping[str, Sequence[str]], verdicts: Mapping[str, Sequence[str]]
) -> tuple[list[Contrast], Exclusions]:
    """Contrasts with the votes and verdicts that files hold for their ids (`perturbed`, `base` or `tie`), and those that
    cannot be read."""
    unread = _Unread()
    found = [
        replace(one, votes=_under(one.ids, votes, {}, unread), verdicts=_under(one.ids, verdicts, {}, unread))
        for one in contrasts
    ]
    return found, unread.exclusions()


@dataclass
class _Unread:
    """Reads votes, and remembers those that it cannot."""

    seen: int = 0
    reasons: list[str] = field(default_factory=list)

    def votes(self, cell: object, sides: Mapping[str, Preference]) -> tuple[Preference, ...]:
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


def _check_ids(about: Mapping[str, set[str]], column: str, where: str) -> None:
    """Votes are matched by id, so that no two pairs may share one; several rows on the same texts may."""
    shared = [f"'{name}' ({len(found)} times)" for name, found in about.items() if len(found) > 1]
    if shared:
        more = f" and {len(shared) - 5} more" if len(shared) > 5 else ""
        raise DataError(
            f"{where}: votes are matched by '{column}', but several rows share one: {', '.join(shared[:5])}{more}. "
            "Give each pair an id of its own"
        )


def _contradictions(groups: Mapping[str, Sequence[_Sided]]) -> Iterator[tuple[list[int], str]]:
    """Rows that cannot all be true, and why."""
    for name, group in groups.items():
        one = group[0].contrast
        other = replace(one, perturbed=one.base, base=one.perturbed).id
        if other in groups and name < other:
            numbers = [row.number for row in (*group, *groups[other])]
            yield numbers, f"the same two answers with their sides swapped, and each side is said to carry {one.bias}"
        directions = {row.contrast.tags["direction"] for row in group if "direction" in row.contrast.tags}
        if len(directions) > 1:
            yield [row.number for row in group], "the same two answers, and the direction is added and removed"
        by_voter: dict[str, list[int]] = {}
        for row in group:
            if row.voter and row.has_opinion:
                by_voter.setdefault(row.voter, []).append(row.number)
        for voter, numbers in by_voter.items():
            if len(numbers) > 1:
                yield numbers, f"the same two answers, and {voter[:40]} votes on them {len(numbers)} times"


def _pooled(
    group: Sequence[_Sided],
    ids: CarriedIds,
    votes: Mapping[str, Sequence[str]],
    verdicts: Mapping[str, Sequence[str]],
    unread: _Unread,
) -> Contrast:
    """The contrast of all rows on the same texts: each row is a vote, and each id's votes count once."""
    items = [item for one in group if (item := ids.of(one.contrast)) is not None]
    tags: dict[str, object] = {name: tag for one in group for name, tag in one.contrast.tags.items() if name != "item"}
    tags |= {"item": items[0]} if items else {}
    if len(group) > 1:
        tags["items"] = (*items, *(name for one in group for name in replace(one.contrast, tags={}).ids))
    contrast = replace(group[0].contrast, tags=tags)
    names = contrast.ids
    # Where rows show the answers in two orders, nobody knows which one a vote for `response_1` saw.
    sides = group[0].sides if all(one.sides == group[0].sides for one in group) else {}
    if any(name in votes for name in names):
        words = _under(names, votes, sides, unread)
    else:
        words = tuple(word for one in group for word in one.own_votes(unread, alone=len(group) == 1))
    stated = {one.preferred for one in group} - {None}
    return replace(
        contrast,
        preferred=stated.pop() if len(stated) == 1 else None,
        votes=words,
        verdicts=_under(names, verdicts, sides, unread),
    )


def _under(
    names: Iterable[str], found: Mapping[str, Sequence[str]], sides: Mapping[str, Preference], unread: _Unread
) -> tuple[Preference, ...]:
    """Votes under any of a contrast's ids."""
    return tuple(word for name in names for word in unread.votes(found.get(name), sides))


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
    """One row.

    Attributes:
        contrast: Its texts, without opinions.
        sides: Further names of the sides.
        preferred: As the row states it.
        votes: The row's own, not read yet.
        number: Of the row, from 1.
        voter: Who the row says has voted; empty where it does not.
    """

    contrast: Contrast
    sides: Mapping[str, Preference]
    preferred: Preference | None
    votes: object
    number: int
    voter: str

    @property
    def has_opinion(self) -> bool:
        return self.preferred is not None or bool(vote_words(self.votes))

    def own_votes(self, unread: _Unread, alone: bool) -> tuple[Preference, ...]:
        """The row's votes; among several rows on the same texts, a row that states a preference alone is one vote."""
        votes = unread.votes(self.votes, self.sides)
        return votes if alone or vote_words(self.votes) or self.preferred is None else (self.preferred,)


def _sided(values: Values, bias: str, number: int, voter: str) -> _Sided:
    prompt = prompt_of(values["prompt"])
    first, second = message_text(values["response_1"]), message_text(values["response_2"])
    perturbed, base = message_text(values["perturbed"]), message_text(values["base"])
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
    if equal_texts(perturbed, base):
        raise RowError("identical sides")
    item = None if values["id"] in (None, "") else str(values["id"])
    tags = {"item": item, "direction": _direction(values["direction"])}
    given = {name: tag for name, tag in tags.items() if tag is not None}
    preferred = None if values["preferred"] in (None, "") else _one_preference(values["preferred"], sides)
    return _Sided(Contrast(bias, prompt, perturbed, base, tags=given), sides, preferred, values["votes"], number, voter)


def _direction(value: object) -> str | None:
    if value is None or value == "":
        return None
    word = str(value).strip().lower()
    if word not in DIRECTIONS:
        raise RowError("direction is neither added nor removed")
    return word


def _one_preference(value: object, sides: Mapping[str, Preference]) -> Preference:
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
