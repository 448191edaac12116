"""Rows to contrasts, with people's votes and the verdicts of LLM judges; every dropped row and vote is counted by reason."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final

from cda.data.load import (
    Row,
    RowError,
    check_agree,
    covariates,
    load_rows,
    looks_like_path,
    message_text,
    prompt_of,
    side_text,
)
from cda.data.tables import structured
from cda.errors import DataError, refuse
from cda.files.jsonl import read_json
from cda.files.paths import is_a_file, user_path
from cda.records import Contrast, Exclusions, Preference, count_reasons, equal_texts

Votes = Mapping[str, tuple[str, ...]]
_VOTERS = ("participant", "annotator")  # columns that may say who voted


@dataclass
class VoteReader:
    """Reads votes, and counts those that it cannot read."""

    seen: int = 0
    reasons: list[str] = field(default_factory=list)

    def read(self, cell: object, sides: Mapping[str, Preference] = MappingProxyType({})) -> tuple[Preference, ...]:
        """The readable votes of a cell; `sides` are further names of the sides."""
        votes = []
        for word in vote_words(cell):
            self.seen += 1
            if (side := side_of(word, sides)) is not None:
                votes.append(side)
            else:
                self.reasons.append(f"unreadable vote '{word[:40]}'")
        return tuple(votes)

    def under(
        self,
        ids: Iterable[str],
        votes: Mapping[str, Sequence[str]],
        sides: Mapping[str, Preference] = MappingProxyType({}),
    ) -> tuple[Preference, ...]:
        """The readable votes under any of these ids."""
        return tuple(side for name in ids for side in self.read(votes.get(name), sides))

    @property
    def exclusions(self) -> Exclusions:
        return Exclusions(self.seen, count_reasons(self.reasons))


def side_of(word: object, sides: Mapping[str, Preference]) -> Preference | None:
    """The side that a word names; `sides`: names besides perturbed, base and tie."""
    known: dict[str, Preference] = {"perturbed": "perturbed", "base": "base", "tie": "tie", **sides}
    return known.get(response_word(word))


def response_word(word: object) -> str:
    """`Response 1` and the like as `response_1`."""
    return str(word).strip().lower().replace(" ", "_")


def load_votes(reference: str) -> Votes:
    """Votes of each item, in file order.

    Three layouts: rows of `id` and `votes` (a list; in CSV also words with commas or semicolons between them), rows of
    `id` and `vote` (one row a vote, any number an item), or one JSON object of item to list of votes. The words are
    read later, with the item: `perturbed`, `base`, `response_1`, `response_2` or `tie`. If a column `participant` or
    `annotator` identifies the voter, who may vote on an item only once.

    Raises:
        DataError: Cannot be loaded, or has no such layout; names rows without an id or a vote, and second votes of one participant.
    """
    if (mapping := _mapping(reference)) is not None:
        return mapping
    rows = load_rows(reference)
    present = {key for row in rows for key in row}
    if "id" not in present or not present & {"vote", "votes"}:
        raise DataError(
            f"{reference}: votes need the columns id and vote (a row a vote), or id and votes (a row an item). "
            f"Found: {', '.join(sorted(present))}"
        )
    if {"vote", "votes"} <= present:
        raise DataError(f"{reference}: has both the columns vote and votes; keep the one that holds the votes")
    column = "votes" if "votes" in present else "vote"
    votes: dict[str, list[str]] = {}
    problems = []
    first: dict[tuple[str, str], tuple[int, list[str]]] = {}
    for number, row in enumerate(rows, 1):
        words, item, voter = vote_words(row.get(column)), row.get("id"), voter_of(row)
        if item in (None, "") or not words:
            problems.append(f"{reference}: row {number} lacks {'an id' if item in (None, '') else 'a vote'}")
            continue
        before, earlier = first.setdefault((str(item), voter), (number, words)) if voter else (number, words)
        if before != number:
            how = "the same" if earlier == words else "another"
            problems.append(
                f"{reference}: row {number}: {voter[:40]} gave {how} vote on {str(item)[:40]} in row {before}; keep one"
            )
        votes.setdefault(str(item), []).extend(words)
    refuse(problems, "more rows")
    return {item: tuple(words) for item, words in votes.items()}


def voter_of(row: Row) -> str:
    """Annotator named in a row; empty if none is."""
    return next((str(row[name]).strip() for name in _VOTERS if row.get(name) not in (None, "")), "")


def vote_words(cell: object) -> list[str]:
    """The words of one cell: a list, a JSON list as text, or words with commas or semicolons between them; else none."""
    cell = structured(cell)
    if isinstance(cell, str):
        text = "" if cell.lstrip().startswith("[") else cell
        return [word.strip() for word in text.replace(";", ",").split(",") if word.strip()]
    if isinstance(cell, list | tuple):
        return [str(word) for word in cell]
    return [] if cell is None else [str(cell)]


def _mapping(reference: str) -> Votes | None:
    """A JSON object of item to votes; None if the file is something else."""
    path = user_path(reference)
    if not looks_like_path(reference) or path.suffix != ".json" or not is_a_file(path):
        return None
    content = read_json(path)
    if not isinstance(content, dict) or not content:
        return None
    listed = [[votes] if isinstance(votes, str) else votes for votes in content.values()]
    # Mappings among the votes are rows under a key.
    if any(not isinstance(votes, list) or any(isinstance(vote, Mapping) for vote in votes) for votes in listed):
        return None
    return {str(item): tuple(map(str, votes)) for item, votes in zip(content, listed, strict=True)}


COLUMNS = ("id", "prompt", "base", "perturbed", "response_1", "response_2", "biased", "preferred", "votes", "bias",
           "direction")  # fmt: skip
DIRECTIONS: Final = ("added", "removed")
_MADE_ID = re.compile(r"[0-9a-f]{16}")  # of content_id
_MADE_FROM = "made from other text"
_TEXTS = ("bias", "prompt", "base", "perturbed", "response_1", "response_2")
Opinions = Mapping[str, Sequence[str]]
"""Votes or verdicts by the id of a row or contrast."""


@dataclass(frozen=True, slots=True)
class CarriedIds:
    """The number of ids in the rows of one file, and of those that look like ours but are not that of their row's text.

    A row that was edited after its export still has the id of its earlier text. But any hash may have sixteen digits: the ids
    are certainly `ours` only if some row carries exactly the id of its text, as it is or with the sides swapped.
    """

    seen: int = 0
    outdated: int = 0
    ours: bool = False

    @classmethod
    def read(cls, contrasts: Sequence[Contrast]) -> CarriedIds:
        """The ids (tag `item`) of the contrasts of all rows, duplicates included."""
        carried = [contrast for contrast in contrasts if contrast.tags.get("item")]
        ours = any(contrast.tags["item"] in (contrast.id, _swapped(contrast).id) for contrast in carried)
        return cls(len(carried), sum(map(_is_outdated, carried)), ours)

    def of(self, contrast: Contrast) -> str | None:
        """The id under which votes on a row are looked for; None: only that of its text."""
        return None if self.ours and _is_outdated(contrast) else contrast.tags.get("item")

    @property
    def exclusions(self) -> Exclusions:
        """Ids that are not used."""
        return Exclusions(self.seen, {_MADE_FROM: self.outdated} if self.ours and self.outdated else {})

    @property
    def notice(self) -> str | None:
        """A sentence for the user, if an id is or may be outdated."""
        if not self.outdated:
            return None
        certain = (
            f"that was {_MADE_FROM} (or for another bias); votes on that text are not counted for them. They go by the id of their "
            "own text now"
        )
        possible = (
            "in the form of those that cda makes from a text, and not that of their own; if they were edited since, votes on the "
            "text before count for them. Then leave their ids empty"
        )
        return f"{self.outdated} of {self.seen} rows carry an id {certain if self.ours else possible}"


@dataclass(frozen=True, slots=True)
class CleanContrasts:
    """Contrasts of a file, each once: rows on the same texts are one contrast, and each of them a vote.

    `votes` are single votes and verdicts that cannot be read; their contrasts stay, without them.
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
    votes: Opinions | None = None,
    verdicts: Opinions | None = None,
    setting: str = "audit.columns",
    by: Sequence[str] = (),
    others: Sequence[str] = (),
) -> CleanContrasts:
    """Turn rows into contrasts, counting unusable rows; `columns` maps our name to the rows', and `setting` maps `columns`.

    Two layouts: `prompt, base, perturbed`, or `prompt, response_1, response_2, biased` where `biased` says which of
    the two carries the bias. Optional: `preferred` (`perturbed`, `base`, `response_1`, `response_2` or `tie`),
    `votes` (a list of the same words), `id`, `bias` (needed when several are audited), and `direction` (`added`: the
    perturbed side was made from the base; `removed`: the base was made from the perturbed side).

    `by` are columns whose values each contrast keeps in its tag `by`; of rows on the same texts that differ in one, none.
    `others` are biases whose rows are taken too, if the column `bias` names them.

    Votes from a separate file go by the row's `id` or the contrast's, and override the row's own. If several rows have the same
    texts, votes under each of their ids count. An id made from other text matches nothing. Verdicts of LLM judges: likewise.

    Raises:
        DataError: Neither layout is there, or several biases and no `bias` column, or no row is usable; or rows contradict
            each other: both sides of one pair are said to carry the bias, or one annotator votes on it twice. Names the rows.
    """
    votes, verdicts = votes or {}, verdicts or {}
    names = {name: columns.get(name, name) for name in COLUMNS}
    present = {key for row in rows for key in row}
    _check_layout(names, present, biases, where, setting)
    groups: dict[str, list[_SidedRow]] = {}
    reasons: list[str] = []
    texts_of: dict[str, set[str]] = {}
    for number, row in enumerate(rows, 1):
        values = {ours: row.get(theirs) for ours, theirs in names.items()}
        bias = str(values["bias"]) if names["bias"] in present else biases[0]
        try:
            if bias not in biases and bias not in others:
                raise RowError(f"of {'a bias without a bias file' if others else 'another bias'} ({bias[:40]})")
            sided = _sided(values, bias, number, voter_of(row), covariates(row, by))
            known_by = sided.contrast.id
            groups.setdefault(known_by, []).append(sided)
        except RowError as problem:
            reasons.append(str(problem))
            known_by = repr([values[name] for name in _TEXTS])
        if values["id"] not in (None, ""):
            texts_of.setdefault(str(values["id"]), set()).add(known_by)
    if votes or verdicts:
        _check_ids(texts_of, names["id"], where)
    check_agree(_contradictions(groups), where)
    ids = CarriedIds.read([row.contrast for group in groups.values() for row in group])
    reader = VoteReader()
    contrasts = [_pooled(group, ids, votes, verdicts, reader) for group in groups.values()]
    for group, contrast in zip(groups.values(), contrasts, strict=True):
        own = not any(name in votes for name in contrast.ids)
        reasons += [
            "same texts again, counted as votes" if own and row.has_opinion else "duplicate" for row in group[1:]
        ]
    exclusions = Exclusions(len(rows), count_reasons(reasons))
    if not contrasts:
        raise DataError(f"{where}: no usable contrast; {exclusions}")
    return CleanContrasts(tuple(contrasts), exclusions, reader.exclusions, ids)


def with_votes(contrasts: Sequence[Contrast], votes: Opinions, verdicts: Opinions) -> tuple[list[Contrast], Exclusions]:
    """Contrasts with the votes and verdicts (`perturbed`, `base` or `tie`) of their ids, and those that cannot be read."""
    reader = VoteReader()
    if not votes and not verdicts:  # the ids of hundreds of texts, which are hashes, need not be made
        return [replace(contrast, votes=(), verdicts=()) for contrast in contrasts], reader.exclusions
    voted = [
        replace(contrast, votes=reader.under(contrast.ids, votes), verdicts=reader.under(contrast.ids, verdicts))
        for contrast in contrasts
    ]
    return voted, reader.exclusions


@dataclass(frozen=True, slots=True)
class _SidedRow:
    """One row: its contrast without opinions, further names of the sides, the side it prefers, its unread votes, its voter."""

    number: int
    voter: str
    contrast: Contrast
    sides: Mapping[str, Preference]
    preferred: Preference | None
    votes: object

    @property
    def has_opinion(self) -> bool:
        return self.preferred is not None or bool(vote_words(self.votes))


def _sided(values: Mapping[str, object], bias: str, number: int, voter: str, by: Mapping[str, str]) -> _SidedRow:
    prompt = prompt_of(values["prompt"])
    given = {name: value for name, value in values.items() if value not in (None, "")}
    sides: dict[str, Preference] = {}
    perturbed, base = message_text(values["perturbed"]), message_text(values["base"])
    if perturbed is None and base is None:
        biased = response_word(values["biased"])
        if biased not in ("response_1", "response_2"):
            raise RowError("biased is neither response_1 nor response_2")
        other = "response_2" if biased == "response_1" else "response_1"
        perturbed, base = message_text(values[biased]), message_text(values[other])
        sides = {biased: "perturbed", other: "base"}
    perturbed, base = side_text(perturbed), side_text(base)
    if equal_texts(perturbed, base):
        raise RowError("identical sides")
    tags: dict[str, object] = {"item": str(given["id"])} if "id" in given else {}
    tags |= {"by": by} if by else {}
    if "direction" in given:
        tags["direction"] = direction = str(given["direction"]).strip().lower()
        if direction not in DIRECTIONS:
            raise RowError("direction is neither added nor removed")
    preferred = side_of(given["preferred"], sides) if "preferred" in given else None
    if "preferred" in given and preferred is None:
        raise RowError("unreadable preference")
    contrast = Contrast(bias, prompt, perturbed, base, tags=tags)
    return _SidedRow(number, voter, contrast, sides, preferred, values["votes"])


def _pooled(
    group: Sequence[_SidedRow], ids: CarriedIds, votes: Opinions, verdicts: Opinions, reader: VoteReader
) -> Contrast:
    """The contrast of all rows on the same texts: each row is a vote, and each id's votes count once."""
    items = [item for row in group if (item := ids.of(row.contrast)) is not None]
    tags: dict[str, object] = {name: tag for row in group for name, tag in row.contrast.tags.items() if name != "item"}
    tags |= {"item": items[0]} if items else {}
    tags |= {"by": _agreed([row.contrast.tags.get("by", {}) for row in group])} if "by" in tags else {}
    if len(group) > 1:
        tags["items"] = tuple(items)
    contrast = replace(group[0].contrast, tags=tags)
    names = contrast.ids
    # If rows show the answers in two orders, the order behind a vote for `response_1` is unknown.
    sides = group[0].sides if all(row.sides == group[0].sides for row in group) else {}
    words = reader.under(names, votes, sides)
    for row in () if any(name in votes for name in names) else group:
        own = reader.read(row.votes, row.sides)
        # Among several rows on the same texts, one that states a preference alone is a vote.
        states_alone = len(group) > 1 and not vote_words(row.votes)
        words += (row.preferred,) if states_alone and row.preferred is not None else own
    stated = {row.preferred for row in group} - {None}
    return replace(
        contrast,
        preferred=stated.pop() if len(stated) == 1 else None,
        votes=words,
        verdicts=reader.under(names, verdicts, sides),
    )


def _agreed(rows: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Values of columns on which no two rows differ."""
    values: dict[str, set[str]] = {}
    for row in rows:
        for name, value in row.items():
            values.setdefault(name, set()).add(value)
    return {name: own.pop() for name, own in values.items() if len(own) == 1}


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
    refuse(problems)


def _check_ids(texts_of: Mapping[str, set[str]], column: str, where: str) -> None:
    """Votes are matched by id, so that no two pairs may share one; several rows on the same texts may."""
    shared = [f"'{name}' ({len(texts)} times)" for name, texts in texts_of.items() if len(texts) > 1]
    if shared:
        more = f" and {len(shared) - 5} more" if len(shared) > 5 else ""
        raise DataError(
            f"{where}: votes are matched by '{column}', but several rows share one: {', '.join(shared[:5])}{more}. "
            "Give each pair an id of its own"
        )


def _contradictions(groups: Mapping[str, Sequence[_SidedRow]]) -> Iterator[tuple[list[int], str]]:
    for name, group in groups.items():
        contrast = group[0].contrast
        other = _swapped(contrast).id
        if other in groups and name < other:
            numbers = [row.number for row in (*group, *groups[other])]
            yield (
                numbers,
                f"the same two answers with their sides swapped, and each side is said to carry {contrast.bias}",
            )
        if len({row.contrast.tags["direction"] for row in group if "direction" in row.contrast.tags}) > 1:
            yield [row.number for row in group], "the same two answers, and the direction is added and removed"
        by_voter: dict[str, list[int]] = {}
        for row in group:
            if row.voter and row.has_opinion:
                by_voter.setdefault(row.voter, []).append(row.number)
        for voter, numbers in by_voter.items():
            if len(numbers) > 1:
                yield numbers, f"the same two answers, and {voter[:40]} votes on them {len(numbers)} times"


def _swapped(contrast: Contrast) -> Contrast:
    return replace(contrast, perturbed=contrast.base, base=contrast.perturbed)


def _is_outdated(contrast: Contrast) -> bool:
    item = contrast.tags.get("item", "")
    return _MADE_ID.fullmatch(item) is not None and item != contrast.id
