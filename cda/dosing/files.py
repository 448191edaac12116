"""Dose from score files alone: reads scores before and after, and votes; mixes, chooses, writes the result and its table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import numpy as np

from cda.arrays import FloatArray
from cda.data.votes import KEYS, Opinion, Score, check_named, other_texts, own_opinions, read_opinions, read_scores
from cda.dosing.choice import DOSES, MAX_QUALITY_LOSS, MIN_PROMPTS, REPEATS, DoseCurve, check_enough, dose_response
from cda.dosing.held_out import cross_validated_dose
from cda.errors import DataError
from cda.records import TieRule
from cda.report.numbers import NOT_ESTIMATED, cell, decimals, distance, inert, n_of, percent, points, share
from cda.report.tables import Row, Table, plain_table
from cda.resources.dry_run import stop_if_dry
from cda.results.dose import DoseFilesResult, DosePoint, HeldOutChange, HeldOutDose
from cda.stats.draws import drawn
from cda.stats.votes import Majority, count_votes, majority

NOTE = (
    "Two scores are mixed here, margin(λ) = (1 − λ)·before + λ·after. Scaling the adapter's weights by λ gives another\n"
    "curve wherever scores are not linear in them: cda dose RECIPE measures, chooses and exports on that one."
)
HALVES = (
    "Held-out gaps are those of one half at a time, averaged. Chance makes them larger than on all votes, as in the table,\n"
    "at any dose."
)


Scores = dict[str, Score]
"""By id."""


def dose_from_files(
    before: Path,
    after: Path,
    votes: Path | None = None,
    quality: tuple[Path, Path] | None = None,
    *,
    repeats: int = REPEATS,
    max_quality_loss: float = MAX_QUALITY_LOSS,
    ties: TieRule = "drop",
    seed: int = 0,
    columns: Mapping[str, str] = MappingProxyType({}),
    limit: int | None = None,
    out: Path | None = None,
) -> DoseFilesResult:
    """Dose–response, chosen dose and held-out result of mixing two scorings, of the base model and after debiasing.

    Score files hold a row for each contrast: `id` (or `query`, or `prompt`), and `perturbed_score` and `base_score`, or
    `margin`; those of `quality`, before and after, `chosen_score` and `rejected_score`, or `margin`. Rows of one
    `prompt` (or `query`) stay together. `votes`: as `load_votes` reads them, or in the layout of "Flattery, Fluff, and
    Fog"; without a file, the score files' column `votes` or `preferred` (`perturbed`, `base` or `tie`). DataError: a
    file, column or id is missing, too few votes to choose a dose, and as in `cross_validated_dose`.

    `columns` are our names to those of the score files; `limit`: at most so many contrasts, and quality pairs, drawn with the
    seed; `out` is the file that the caller writes, for the plan of a dry run.
    """
    first, second, notes = _paired(before, after, ("perturbed_score", "base_score"), columns)
    people, left_out = scored_people(first, second, votes, ties, before)
    notes += left_out
    kept = drawn_rows(people, [""] * len(first), limit, seed)
    if len(kept) < len(first):
        notes.append(f"{before}: {int(people.used.sum()) - len(kept)} voted rows not drawn (--limit)")
        names = [*first]
        first, second = ({names[at]: scores[names[at]] for at in kept} for scores in (first, second))
        people = replace(people, target=people.target[kept], used=people.used[kept])
    quality_margins: FloatArray | None = None
    quality_prompts: list[str] = []
    named = [first, second]
    if quality is not None:
        earlier, later, left_out = _paired(*quality, ("chosen_score", "rejected_score"), columns)
        named += [earlier, later]
        if limit is not None and limit < len(earlier):
            left_out.append(f"{quality[0]}: {len(earlier) - limit} of {len(earlier)} rows not drawn (--limit)")
            names = drawn([*earlier], limit, seed)
            earlier, later = ({name: scores[name] for name in names} for scores in (earlier, later))
        quality_margins, quality_prompts = _margins(earlier, later), _prompts(earlier)
        notes += left_out
    scored = DoseCurve((0.0, 1.0), _margins(first, second), people, _prompts(first), quality_margins, quality_prompts)
    check_named(columns, *named)
    voted, checked = check_enough(scored)
    stop_if_dry(
        None,
        lambda: [
            f"reads       {before}, {after}: {n_of(len(first), 'row')} with scores in both",
            f"votes       {votes or before}: {n_of(voted, 'prompt')} with a majority of people",
            *(
                []
                if quality is None
                else [f"quality     {quality[0]}, {quality[1]}: pairs of {n_of(checked, 'prompt')}"]
            ),
            *(f"left out    {inert(note)}" for note in notes),
            f"chooses     one of {len(DOSES)} doses from {DOSES[0]:g} to {DOSES[-1]:g}",
            f"writes      {out}",
        ],
        ("only", "yes"),
    )
    curve = scored.mixed(DOSES)
    response = dose_response(curve)
    held = cross_validated_dose(curve, np.random.default_rng(seed), repeats, max_quality_loss)
    files = {
        "before": str(before),
        "after": str(after),
        "votes": None if votes is None else str(votes),
        "quality": None if quality is None else tuple(map(str, quality)),
    }
    return DoseFilesResult(
        note=NOTE.replace("\n", " "),
        files=files,
        ties=ties,
        seed=seed,
        max_quality_loss=None if quality is None else max_quality_loss,
        left_out=tuple(notes),
        response=response,
        held_out=held,
    )


def dose_files_text(result: DoseFilesResult) -> str:
    """Text for a terminal: exclusions, the dose–response table, and the held-out results."""
    notes = map(inert, result.left_out)
    return "\n".join([*notes, _table(result.response), "", *_sentences(result.held_out), "", NOTE])


def _margins(*scorings: Scores) -> FloatArray:
    return np.array([[score.margin for score in scores.values()] for scores in scorings], dtype=np.float64)


def _prompts(scores: Scores) -> list[str]:
    return [score.prompt for score in scores.values()]


def _paired(
    before: Path, after: Path, sides: tuple[str, str], columns: Mapping[str, str]
) -> tuple[Scores, Scores, list[str]]:
    """Rows that both files have, in the order of the first one, and sentences on exclusions."""
    first, first_out = read_scores(before, sides, columns)
    second, second_out = read_scores(after, sides, columns)
    names = [name for name in first if name in second]
    if not names:
        raise DataError(
            f"{after}: none of its {len(second)} ids is one of {before}. There: {_few(second)}; here: {_few(first)}. "
            f"Give both files the same ids (columns {', '.join(KEYS)}; the first that is there counts)"
        )
    left_out = [f"{path}: {out}" for path, out in ((before, first_out), (after, second_out)) if out.dropped]
    for path, own, other in ((before, first, second), (after, second, first)):
        if missing := [name for name in own if name not in other]:
            left_out.append(f"{path}: {len(missing)} of {len(own)} ids are in this file alone ({_few(missing)})")
    return {name: first[name] for name in names}, {name: second[name] for name in names}, left_out


def drawn_rows(people: Majority, biases: Sequence[str], limit: int | None, seed: int) -> list[int]:
    """Places of the rows to use: all; or, of biases with more than `limit` rows with a majority, so many of these, drawn with the
    seed, and no others. DataError: too few to choose by."""
    if limit is not None and limit < MIN_PROMPTS:
        raise DataError(f"--limit {limit}: people's votes on {MIN_PROMPTS} prompts or more are needed")
    used = [[at for at, own in enumerate(biases) if own == bias and people.used[at]] for bias in dict.fromkeys(biases)]
    if limit is None or all(len(own) <= limit for own in used):
        return list(range(len(biases)))
    return sorted(at for own in used for at in drawn(own, limit, seed))


def scored_people(
    first: Scores, second: Scores, votes: Path | None, ties: TieRule, before: Path
) -> tuple[Majority, list[str]]:
    """Majorities of the paired rows, and sentences on votes that could not be used."""
    where = before if votes is None else votes
    opinions, unread = own_opinions(first, second) if votes is None else read_opinions(votes)
    left_out = [f"{where}: votes {unread}"] if unread.dropped else []
    strangers = [name for name in opinions if name not in first]
    if strangers and len(strangers) == len(opinions):
        raise DataError(
            f"{where}: none of its {len(opinions)} items is a row of both score files. There: {_few(opinions)}; "
            f"scores: {_few(first)}. Votes are matched by {KEYS[0]}, or by {KEYS[1]} where rows have no {KEYS[0]}"
        )
    if strangers:
        left_out.append(f"{where}: {len(strangers)} of {len(opinions)} items have no scores ({_few(strangers)})")
    none = Opinion((), None)
    own = [opinions.get(name, none) for name in first]
    other = [other_texts(opinion, score.row) for opinion, score in zip(own, first.values(), strict=True)]
    if any(other):
        left_out.append(f"{where}: {sum(other)} items belong to other texts than the scores of the same query")
        own = [none if wrong else opinion for opinion, wrong in zip(own, other, strict=True)]
    try:
        people = majority(count_votes([opinion.votes for opinion in own]), ties, [opinion.released for opinion in own])
    except DataError as error:
        raise DataError(f"{where}: {error}") from None
    if people.exclusions.dropped:
        left_out.append(f"scored rows without a majority: {people.exclusions}")
    return people, left_out


def _few(names: Sequence[str] | Mapping[str, object]) -> str:
    first = [inert(name)[:40] for name in list(names)[:3]]
    return ", ".join(first) + (", …" if len(names) > 3 else "")


def _table(response: Sequence[DosePoint]) -> str:
    human = response[0].people.human_skew
    has_quality = response[0].quality is not None
    rows = []
    for point in response:
        people = point.people
        auc = cell(people.auc, decimals) or NOT_ESTIMATED
        row: Row = (f"{point.dose:g}", share(people.skew), share(people.miscalibration), distance(people.gap), auc)
        if point.quality is not None:
            row += share(point.quality), cell(point.quality_change, lambda change: points(change, ""))
        rows.append(row)
    header = ("dose", "skew", "miscalibration", "gap", "AUC", *(("quality", "change") if has_quality else ()))
    n = f"{human.n} contrasts of {human.n_prompts} prompts with a majority; people's skew {share(human)}"
    if (quality := response[0].quality) is not None:
        n += f"; {quality.n} quality pairs of {quality.n_prompts} prompts"
    return plain_table(Table(f"Dose–response with 95% intervals: {n}", header, tuple(rows)))


def _sentences(held: HeldOutDose) -> list[str]:
    people = held.people
    often = ", ".join(f"{dose:g} {percent(part)}" for dose, part in held.chosen.items() if part)
    lines = [f"Chosen dose: {held.dose:g} (halves chose {often})"]
    if held.barred:
        lines.append(f"Doses that lose too much quality: {', '.join(f'{dose:g}' for dose in held.barred)}")
    levels = f"skew {share(people.skew)}, miscalibration {share(people.miscalibration)}, gap {distance(people.gap)}"
    quality = f", quality {share(held.quality)}" if held.quality else ""
    return [
        *lines,
        f"Held out ({held.repeats} × 2-fold by prompt): {levels}{quality}",
        f"  gaps on the same halves: base model {distance(held.base.gap)}, plain CDA {distance(held.plain.gap)}",
        f"  against the base model: {_changes(held.against_base)}",
        f"  against plain CDA: {_changes(held.against_plain)}",
        HALVES,
    ]


def _changes(change: HeldOutChange) -> str:
    changes = (("miscalibration", change.miscalibration), ("gap", change.gap), ("quality", change.quality))
    return ", ".join(f"{name} {points(moved)}" for name, moved in changes if moved is not None)
