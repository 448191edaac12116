"""`cda calibrate --scores`: corrections fitted on score files and votes, without a scorer and without its texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from cda.arrays import LARGEST, FloatArray
from cda.calibration.corrections import RESULT, Origin, Term, calibration_result, check_prompts
from cda.calibration.effects import Effects
from cda.calibration.fit import Problem, Scored
from cda.calibration.report import PAGE, made
from cda.data.votes import Score, check_named, read_scores
from cda.dosing.choice import MAX_QUALITY_LOSS, MIN_PROMPTS, REPEATS
from cda.dosing.files import drawn_rows, scored_people
from cda.errors import DataError, refuse
from cda.inert import inert
from cda.jobs.perform import Job, Made
from cda.records import TieRule
from cda.resources.artifacts import shown_path
from cda.results.dose import CalibrationResult
from cda.scorers.calibrated import log_odds, preference_of
from cda.stats.draws import drawn
from cda.stats.people import within_preferences
from cda.stats.votes import Majority

ONE_BIAS = "bias"
"""Name of the bias of score files that name none."""
NO_SIDE = "score files do not say of quality pairs which side has the bias: an offset leaves them as they are"
NO_DIFFERENCE = "no column difference (perturbed minus base, in any unit) in the score files"
NO_FIRST = "no column first in the score files, which says the side that was shown first"
Rows = Mapping[str, Score]


def calibrate_files(
    scores: Path,
    votes: Path | None = None,
    quality: Path | None = None,
    *,
    preferences: bool = False,
    repeats: int = REPEATS,
    max_quality_loss: float = MAX_QUALITY_LOSS,
    ties: TieRule = "drop",
    seed: int,
    columns: Mapping[str, str] = MappingProxyType({}),
    limit: int | None = None,
) -> Job[CalibrationResult]:
    """The calibration of the margins of a score file; its rows are each row's margin as it is and out of fold.

    `scores` is read as by `cda dose`; further columns may name the `bias` of a row (one file, several biases), its
    `difference` in the bias's measure, perturbed minus base, and the side that a judge saw `first`. `quality` holds
    chosen_score and rejected_score, or margin; also `difference` (of several biases `difference_<bias>`), chosen minus
    rejected, and `first`. With `preferences`, margins are a judge's preferences from −1 to 1. `columns` are our names to those of
    the score files; `limit`: at most so many contrasts of each bias, and quality pairs, drawn with the seed. DataError: a
    file, column or id is missing, a cell cannot be read, or there are too few votes.
    """
    rows, unusable = read_scores(scores, ("perturbed_score", "base_score"), columns)
    people, notes = scored_people(rows, rows, votes, ties, scores)
    biases = tuple(str(score.row.get("bias") or ONE_BIAS) for score in rows.values())
    if len(taken := drawn_rows(people, biases, limit, seed)) < len(rows):
        notes.append(f"{scores}: {int(people.used.sum()) - len(taken)} voted rows not drawn (--limit)")
        items = [*rows.items()]
        rows = dict(items[at] for at in taken)
        biases = tuple(biases[at] for at in taken)
        people = replace(people, target=people.target[taken], used=people.used[taken])
    enough = check_prompts(_prompts(rows, people, biases), 0, f" {scores}: {unusable}." if unusable.dropped else "")
    checked: Rows = {}
    left_out = {"rows of scores": unusable}  # those without a majority are in the notes
    if quality is not None:
        found, left_out["rows of quality pairs"] = read_scores(quality, ("chosen_score", "rejected_score"), columns)
        checked = {name: found[name] for name in drawn([*found], limit, seed)}
        if len(checked) < len(found):
            notes.append(f"{quality}: {len(found) - len(checked)} of {len(found)} rows not drawn (--limit)")
        check_prompts(dict.fromkeys(enough, MIN_PROMPTS), len({score.prompt for score in checked.values()}))
    check_named(columns, rows, checked)
    terms = _terms(rows, checked, enough)
    notes += _without_difference(rows, biases, terms, scores) + _without_difference(
        checked, (), terms, quality or scores
    )
    kept = [at for at, bias in enumerate(biases) if bias in enough]
    own = {name: score for (name, score), bias in zip(rows.items(), biases, strict=True) if bias in enough}
    contrasts = _scored(own, terms, [biases[at] for at in kept], preferences, scores, ("perturbed", "base"))
    problem = Problem(
        contrasts=contrasts,
        people=Majority(people.target[kept], people.used[kept], people.rule, people.exclusions),
        biases=tuple(biases[at] for at in kept),
        quality=_scored(checked, terms, [""] * len(checked), preferences, quality or scores, ("chosen", "rejected")),
        ties="half" if preferences else "no-hit",
    )
    if not contrasts.margins.any():
        raise DataError(f"{scores}: every margin is 0: there is no preference to correct")
    origin = Origin(
        unit="log odds" if preferences else "reward",
        measures=dict.fromkeys(enough, None),
        uncorrected=dict.fromkeys(
            sorted(set(biases) - set(enough)), f"fewer than {MIN_PROMPTS} prompts with a majority"
        ),
        no_offset={},
        no_slope=dict.fromkeys(enough, NO_DIFFERENCE),
        no_order=_no_order([*rows.values(), *checked.values()]),
        left_out=left_out,
        notes=notes,
        sources={
            name: None if file is None else shown_path(file)
            for name, file in (("scores", scores), ("votes", votes), ("quality", quality))
        },
    )

    def plan(out: Path) -> list[str]:
        named = ", ".join(enough)
        return [
            f"reads       {scores}: {len(rows)} rows of scores ({unusable})",
            f"votes       {votes or scores}: {int(people.used.sum())} rows with a majority of people; corrected: {named}",
            *(f"            {name} is not corrected: {why}" for name, why in origin.uncorrected.items()),
            *([] if quality is None else [f"quality     {quality}: {len(checked)} pairs"]),
            *(f"left out    {inert(note)}" for note in notes),
            f"report      {out / PAGE}",
        ]

    def work(_: Path) -> Made[CalibrationResult]:
        result, effects = calibration_result(problem, terms, origin, seed, repeats, max_quality_loss)
        return made(result, _out_of_fold(own, problem, effects, preferences))

    return Job("cda calibrate", RESULT, plan, work, unused=("bias", "pairs"))


def _prompts(rows: Rows, people: Majority, biases: Sequence[str]) -> dict[str, int]:
    """Prompts with a majority, by bias."""
    used: dict[str, set[str]] = {bias: set() for bias in biases}
    for score, bias, kept in zip(rows.values(), biases, people.used, strict=True):
        if kept:
            used[bias].add(score.prompt)
    return {bias: len(prompts) for bias, prompts in used.items()}


def _terms(rows: Rows, quality: Rows, biases: Sequence[str]) -> list[Term]:
    """An offset for each bias; a slope if its difference is known; the order if every row says which side came first."""
    present = {column for score in rows.values() for column in score.row}
    every = [*rows.values(), *quality.values()]
    terms = [Term(bias, "offset") for bias in biases]
    terms += [Term(bias, "slope", "difference") for bias in biases if present & {"difference", f"difference_{bias}"}]
    return [*terms, *([Term("", "order")] if all(score.row.get("first") for score in every) else [])]


def _scored(
    rows: Rows, terms: Sequence[Term], biases: Sequence[str], preferences: bool, path: Path, sides: tuple[str, str]
) -> Scored:
    """Margins and terms of rows; `biases` are of the rows, empty for quality pairs. DataError names cells that are no number
    or no side, or preferences outside −1 to 1."""
    margins = np.array([score.margin for score in rows.values()], dtype=np.float64)
    if preferences:
        _check_preferences(margins, path)
    problems: list[str] = []
    columns = [
        [_term(term, score, bias, len({t.bias for t in terms if t.bias}), sides, f"{path}: {name[:40]}", problems)
         for name, score, bias in zip(rows, rows.values(), biases, strict=True)]
        for term in terms
    ]  # fmt: skip
    refuse(problems, "more cells")
    matrix = np.array(columns, dtype=np.float64).reshape(len(terms), len(rows)).T
    return Scored(log_odds(margins) if preferences else margins, matrix, [score.prompt for score in rows.values()])


def _check_preferences(margins: FloatArray, path: Path) -> None:
    try:
        within_preferences(margins)
    except DataError as error:
        raise DataError(f"{path}: {error}; leave --preferences out if these are rewards") from None


def _term(
    term: Term, score: Score, bias: str, n_biases: int, sides: tuple[str, str], where: str, problems: list[str]
) -> float:
    """One term of one row; a slope without a cell is 0, as of sides that do not differ (`_without_difference` counts them)."""
    if term.part == "offset":
        return float(term.bias == bias)
    if term.part == "order":
        word = str(score.row["first"]).strip().lower()
        if word not in sides:
            problems.append(f"{where}: first is '{word[:40]}'; give {sides[0]} or {sides[1]}")
        return 1.0 if word == sides[0] else -1.0
    cell = _difference(term.bias, score, bias, n_biases)
    try:
        value = 0.0 if cell in (None, "") else float("nan" if isinstance(cell, bool) else cell)
    except (TypeError, ValueError, OverflowError):  # the last: a whole number beyond all floats
        value = float("nan")
    if not abs(value) <= LARGEST:
        problems.append(f"{where}: difference is '{str(cell)[:40]}'; give a number of at most {LARGEST:g}")
    return value


def _difference(of: str, score: Score, bias: str, n_biases: int) -> Any:
    """The cell of a row with its difference in one bias; `bias` is the row's own, empty for a quality pair."""
    cell = score.row.get(f"difference_{of}")
    if cell is None and (bias == of or (not bias and n_biases == 1)):
        cell = score.row.get("difference")
    return cell


def _without_difference(rows: Rows, biases: Sequence[str], terms: Sequence[Term], path: Path) -> list[str]:
    """Sentences on rows without a difference in a bias that has a slope, of its contrasts or (without `biases`) of quality pairs."""
    sloped = [term.bias for term in terms if term.part == "slope"]
    n_biases = len({term.bias for term in terms if term.bias})
    sentences = []
    for of in sloped:
        own = [
            (score, bias)
            for score, bias in zip(rows.values(), biases or [""] * len(rows), strict=True)
            if bias in ("", of)
        ]
        n = sum(_difference(of, score, bias, n_biases) in (None, "") for score, bias in own)
        if n:
            sentences.append(
                f"{path}: {n} of {len(own)} rows have no difference in {of}; they count as alike in it, and its slope leaves them as they are"
            )
    return sentences


def _no_order(scores: Sequence[Score]) -> str:
    """Why the order of the sides is not corrected, if it is not."""
    n = sum(not score.row.get("first") for score in scores)
    return NO_FIRST if n == len(scores) else f"{n} of {len(scores)} rows do not say in first which side was shown first"


def _out_of_fold(rows: Rows, problem: Problem, found: Effects, preferences: bool) -> list[dict[str, object]]:
    corrected = preference_of(found.corrected) if preferences else found.corrected
    return [
        {"bias": bias, "id": name, "margin": score.margin, "out_of_fold": after}
        for (name, score), bias, after in zip(rows.items(), problem.biases, corrected.tolist(), strict=True)
    ]
