"""The rows of preference data with what was found of each: labels, measured values, weights, and why a row is no pair."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from cda.arrays import FloatArray
from cda.biases import Bias
from cda.data.load import is_same_place
from cda.data.pairs import SIDES
from cda.errors import DataError, RecipeError
from cda.files.jsonl import write_jsonl
from cda.files.paths import free_place, place_for, user_path, writing
from cda.launch import is_main
from cda.preferences.measure import WORDS, SideLabels, attribute_correlation, is_length
from cda.preferences.pair_data import PairData
from cda.results.base import Missing, or_missing
from cda.results.data import DataWeights
from cda.stats.choice_weights import choice_weights, effective_n
from cda.stats.draws import Stream, generator
from cda.stats.estimators import share_of

COLUMNS = ("row", "sides", "values", "alone", "weight", "left_out")
"""Columns of `--rows`, behind those of the data."""
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
    if taken := [name for name in columns if name in data.rows.columns]:
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


def with_found(data: PairData, found: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Every row of the data, read anew, in order: its own columns, and what was found of its pair or why it is none."""
    left, is_pair = iter(found), data.wanted()
    for number, row in enumerate(data.rows, 1):
        if is_pair[number]:
            yield {**row, "row": number, **next(left), "left_out": None}
        else:
            yield {**row, "row": number, **dict.fromkeys(COLUMNS[1:-1]), "left_out": data.why_left_out(number)}


def surface_differences(
    biases: Sequence[Bias], labels: Mapping[str, SideLabels], values: Mapping[str, FloatArray]
) -> dict[str, FloatArray]:
    """Differences chosen − rejected that weights are by, each of shape (n,): labels of every bias but length, measured features, and the
    number of words as a difference and in doublings. An unknown label or a feature that does not hold for a text is no difference.

    Of a feature it is the signed logarithm sign(d) · log(1 + |d|), so that one long list does not outweigh all others.
    """
    found = {bias.name: labels[bias.name].difference for bias in biases if not is_length(bias)}
    for name, both in values.items():
        d = np.nan_to_num(both[:, 0] - both[:, 1])
        found[f"{name}, measured"] = np.sign(d) * np.log1p(np.abs(d))
    if WORDS in values:
        logs = np.log2(np.maximum(1.0, values[WORDS]))
        found[f"{WORDS}, doublings"] = logs[:, 0] - logs[:, 1]
    return found


def weighted(
    biases: Sequence[Bias],
    labels: Mapping[str, SideLabels],
    values: Mapping[str, FloatArray],
    alone: Sequence[str | None],
    seed: int,
) -> tuple[FloatArray, DataWeights] | Missing:
    """Weights of the pairs, shape (n,), and what they do; Missing if there are too few prompts, or nothing differs."""
    differences = surface_differences(biases, labels, values)
    ids = next(iter(labels.values())).ids
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
        r={bias.name: or_missing(partial(attribute_correlation, labels[bias.name], found.weights)) for bias in biases},
    )


def deciding_alone(biases: Sequence[Bias], labels: Mapping[str, SideLabels]) -> list[str | None]:
    """For each pair the bias that decides it alone: the one measured bias that its sides differ in, which is on the chosen side; None
    if there are none or several, or a label is unknown."""
    own = [labels[bias.name] for bias in biases]
    differing = np.column_stack([(each.chosen != each.rejected) | ~each.known for each in own])
    on_chosen = np.column_stack([each.chosen & ~each.rejected for each in own])
    at = np.where((differing.sum(axis=1) == 1) & (differing & on_chosen).any(axis=1), differing.argmax(axis=1), -1)
    names = [*(bias.name for bias in biases), None]
    return [names[each] for each in at.tolist()]


def found_of_pairs(
    biases: Sequence[Bias],
    labels: Mapping[str, SideLabels],
    values: Mapping[str, FloatArray],
    alone: Sequence[str | None],
    weights: FloatArray | None,
) -> Iterator[dict[str, Any]]:
    """The new columns of each pair in order: `sides` and `values` by bias, `alone`, and `weight` if there are any. The number of words is
    the value of the bias that it is, if that is among them."""
    length = next((bias.name for bias in biases if is_length(bias)), WORDS)
    values = {length if name == WORDS else name: both for name, both in values.items()}
    for at, decides in enumerate(alone):
        sides = {
            name: _SIDE[bool(own.chosen[at]), bool(own.rejected[at])] if own.known[at] else "unparsed"
            for name, own in labels.items()
        }
        measured = {
            name: dict(zip(SIDES, map(_or_none, both[at].tolist()), strict=True)) for name, both in values.items()
        }
        weight = None if weights is None else float(f"{weights[at]:.6g}")
        yield dict(zip(COLUMNS[1:-1], (sides, measured, decides, weight), strict=True))


def _or_none(value: float) -> float | None:
    return None if math.isnan(value) else value
