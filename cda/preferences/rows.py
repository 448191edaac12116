"""The rows of preference data with what was found of each: labels, measured values, weights, and why a row is no pair."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from cda.arrays import FloatArray
from cda.biases import Bias
from cda.data.load import is_same_place
from cda.data.pairs import SIDES, PairLabels
from cda.errors import DataError, RecipeError
from cda.features import n_words
from cda.files.jsonl import write_jsonl
from cda.files.paths import free_place, place_for, user_path, writing
from cda.launch import is_main
from cda.preferences.measure import WORDS, attribute_correlation, is_length, label_difference
from cda.preferences.pair_data import PairData
from cda.results.base import Missing, or_missing
from cda.results.data import DataWeights
from cda.stats.choice_weights import choice_weights, effective_n
from cda.stats.draws import Stream, generator
from cda.stats.estimators import share_of

COLUMNS = ("row", "sides", "values", "alone", "weight", "left_out")
"""Columns of `--rows`, behind those of the data."""
OF_A_GROUP = "read together with an earlier row of its prompt"
_SIDE = {
    (True, True): "both", (True, False): "chosen", (False, True): "rejected", (False, False): "neither",
}  # fmt: skip


def check_rows_file(option: str, file: str, data: PairData, inputs: Sequence[str], columns: Sequence[str]) -> None:
    """Refuse, before anything is spent, a file that rows cannot go to, with a RecipeError that names every reason: another
    ending than .jsonl, data that are read, or columns of the data under the names of new ones. RunError: it cannot be written."""
    problems = []
    if not file.endswith(".jsonl"):
        problems.append(f"{option} {file}: rows are written as JSON lines; give a name that ends in .jsonl")
    if own := [name for name in (data.reference, *inputs) if is_same_place(name, file)]:
        problems.append(f"{option} {file}: {own[0]} is read, and would be written over; name another file")
    present = {name for row in data.rows for name in row}
    if taken := [name for name in columns if name in present]:
        problems.append(
            f"{data.reference}: has columns {', '.join(taken)}, under whose names {option} writes its own; rename or remove them"
        )
    if problems:
        raise RecipeError(problems)
    free_place(user_path(file))


def write_rows(file: str, rows: Iterator[dict[str, Any]]) -> Path:
    """Write rows by the main process, all of them or none; the file."""
    path = user_path(file)
    if is_main():
        with writing(place_for(path)):
            write_jsonl(path, rows)
    return path


def with_found(data: PairData, found: Mapping[int, Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Every row of the data, in order: its own columns, and what was found of its pair (by number) or why it is none."""
    for number, row in enumerate(data.rows, 1):
        reason = None if number in found else data.left_out.get(number, OF_A_GROUP)
        yield {**row, "row": number, **found.get(number, dict.fromkeys(COLUMNS[1:-1])), "left_out": reason}


def measured_values(biases: Sequence[Bias], sides: Sequence[tuple[str, str]]) -> dict[str, FloatArray]:
    """Measured feature of both sides of every pair, chosen and rejected, by bias that has a measure, and the number of words under
    `WORDS`: shapes (n, 2), NaN for a text for which a feature does not hold."""
    by_words = {text: n_words(text) for pair in sides for text in pair}
    values = {WORDS: np.array([[float(by_words[text]) for text in pair] for pair in sides])}
    for bias in biases:
        if bias.measure is not None and not is_length(bias):
            by_text = {text: bias.measured(text, bias.measure.feature) for text in by_words}
            values[bias.name] = np.array([[by_text[text] for text in pair] for pair in sides])
    return values


def surface_differences(
    biases: Sequence[Bias], labels: Mapping[str, PairLabels], values: Mapping[str, FloatArray]
) -> dict[str, FloatArray]:
    """Differences chosen − rejected that weights are by, each of shape (n,): labels of every bias but length, measured features, and the
    number of words as a difference and in doublings. An unknown label or a feature that does not hold for a text is no difference.

    Of a feature it is the signed logarithm sign(d) · log(1 + |d|), so that one long list does not outweigh all others.
    """
    found = {bias.name: label_difference(labels[bias.name]) for bias in biases if not is_length(bias)}
    for name, both in values.items():
        d = np.nan_to_num(both[:, 0] - both[:, 1])
        found[f"{name}, measured"] = np.sign(d) * np.log1p(np.abs(d))
    if WORDS in values:
        logs = np.log2(np.maximum(1.0, values[WORDS]))
        found[f"{WORDS}, doublings"] = logs[:, 0] - logs[:, 1]
    return found


def weighted(
    biases: Sequence[Bias],
    labels: Mapping[str, PairLabels],
    values: Mapping[str, FloatArray],
    alone: Sequence[str | None],
    seed: int,
) -> tuple[FloatArray, DataWeights] | Missing:
    """Weights of the pairs, shape (n,), and what they do; Missing if there are too few prompts, or nothing differs."""
    differences = surface_differences(biases, labels, values)
    ids = list(next(iter(labels.values())).prompt_ids)
    try:
        found = choice_weights(differences, ids, generator(seed, Stream.WEIGHTS))
    except DataError as error:
        return Missing(reason=str(error))
    told = np.where(found.told == 0.5, 0.5, found.told > 0.5)
    return found.weights, DataWeights(
        n=len(ids),
        effective_n=effective_n(found.weights),
        terms=tuple(differences),
        told=share_of(told, ids),
        folds=found.n_folds,
        smallest=float(found.weights.min()),
        largest=float(found.weights.max()),
        capped=found.n_capped,
        alone={bias.name: alone.count(bias.name) for bias in biases},
        r={
            bias.name: or_missing(partial(attribute_correlation, bias, labels[bias.name], found.weights))
            for bias in biases
        },
    )


def deciding_alone(biases: Sequence[Bias], labels: Mapping[str, PairLabels]) -> list[str | None]:
    """For each pair the bias that decides it alone: the one measured bias that its sides differ in, which is on the chosen side; None
    if there are none or several, or a label is unknown."""
    names = [bias.name for bias in biases]
    sides = [list(zip(labels[name].chosen, labels[name].rejected, strict=True)) for name in names]
    found: list[str | None] = []
    for of_pair in zip(*sides, strict=True):
        differing = [
            (name, own) for name, own in zip(names, of_pair, strict=True) if own[0] is not own[1] or None in own
        ]
        found.append(differing[0][0] if len(differing) == 1 and differing[0][1] == (True, False) else None)
    return found


def found_of_pairs(
    data: PairData,
    biases: Sequence[Bias],
    labels: Mapping[str, PairLabels],
    values: Mapping[str, FloatArray],
    alone: Sequence[str | None],
    weights: FloatArray | None,
) -> dict[int, dict[str, Any]]:
    """The new columns of each pair, by the number of its row: `sides` and `values` by bias, `alone`, and `weight` if there are any.
    The number of words is the value of the bias that it is, if that is among them."""
    length = next((bias.name for bias in biases if is_length(bias)), WORDS)
    values = {length if name == WORDS else name: both for name, both in values.items()}
    found = {}
    for at, number in enumerate(data.numbers):
        sides = {name: _side(own.chosen[at], own.rejected[at]) for name, own in labels.items()}
        measured = {
            name: dict(zip(SIDES, map(_or_none, both[at].tolist()), strict=True)) for name, both in values.items()
        }
        weight = None if weights is None else float(f"{weights[at]:.6g}")
        found[number] = dict(zip(COLUMNS[1:-1], (sides, measured, alone[at], weight), strict=True))
    return found


def _side(chosen: bool | None, rejected: bool | None) -> str:
    return "unparsed" if chosen is None or rejected is None else _SIDE[chosen, rejected]


def _or_none(value: float) -> float | None:
    return None if math.isnan(value) else value
