"""`cda label FILE`: the rows of a file of preference pairs with labels of biases next to their own columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cda.biases import Bias
from cda.errors import RecipeError
from cda.files.paths import user_path
from cda.jobs.perform import Job, Made, OneFile, perform
from cda.launch import say
from cda.preferences.labelling import LABELS, MadeLabels, how_to_label, label_plan, made_labels
from cda.preferences.pair_data import PairData, check_column_names, pair_data
from cda.preferences.rows import check_rows_file
from cda.recipe.load import LoadedRecipe
from cda.results.stages import LabelCounts, Loaded
from cda.rewriting.labels import SIDES, unheld

_LABELS, _WHY, _DETAILS = "labels", "unlabelled", "details"
"""Columns that are written, each by bias: labels by side as a training's stage `label` writes them, why there are none, and an LLM's other
answers. Those of other biases stay, so that a file can be labelled again for further ones."""


def label_file(
    reference: str, loaded: LoadedRecipe, out: str, columns: Mapping[str, str], split: str, limit: int | None
) -> LabelCounts:
    """Label both sides of every pair of a file for the recipe's biases, and write every row of it to `out`, with its own columns.

    RecipeError (all listed): a column that is not read, a bias that cannot be measured if no LLM is named, labels of a bias that the file
    has already, or a place that is no .jsonl file or is read. DataError: the file cannot be used. Further errors as of asking an LLM.
    """
    check_column_names(columns, loaded.biases)
    data = pair_data(reference, split, columns, (), limit, loaded.recipe.seed)
    check_rows_file("--out", out, data, (), ())
    _check_free(data, loaded.biases)
    to_label = how_to_label(data, loaded)

    def work(_: object) -> Made[LabelCounts]:
        say(f"{data.taken}\n{len(data.numbers)} pairs ({data.exclusions})".lstrip())
        labels, _ = made_labels(data, loaded, to_label)
        used = len(data.numbers)
        pairs = Loaded(
            seen=data.exclusions.seen, kept=used + data.not_drawn, dropped=dict(data.exclusions.reasons), used=used
        )
        counts = LabelCounts(pairs=pairs, labels={name: own.tally for name, own in labels.items()})
        return Made(counts, {path.name: _rows(data, labels, to_label.biases)})

    path = user_path(out)
    job = Job(
        lambda: label_plan(data, loaded, to_label),
        work,
        OneFile(path),
        lambda: to_label.steps(data, loaded),
        ("model", "name"),
    )
    return perform(job, loaded)


def _check_free(data: PairData, biases: Sequence[Bias]) -> None:
    """Refuse a file that has labels of a bias already, or other things under the names of the new columns."""
    others: set[str] = set()
    known: set[str] = set()
    columns = [column for column in (_LABELS, _WHY, _DETAILS) if column in data.rows.columns]
    for row in data.rows if columns else ():
        others |= {name for name in columns if not (row.get(name) is None or isinstance(row[name], Mapping))}
        own = row.get(_LABELS)
        known |= own.keys() if isinstance(own, Mapping) else set()
    problems = [
        f"{data.reference}: its column '{column}' is not one that `cda label` wrote; rename it, and it stays as it is"
        for column in columns
        if column in others
    ]
    if _LABELS not in others and (labelled := [bias.name for bias in biases if bias.name in known]):
        problems.insert(
            0,
            f"{data.reference}: has labels of {', '.join(labelled)} already; name other biases (--bias), or give a file without them",
        )
    if problems:
        raise RecipeError(problems)


def _rows(data: PairData, labels: Mapping[str, MadeLabels], biases: Sequence[Bias]) -> Iterator[dict[str, Any]]:
    """Every row of the data, read anew, with its labels."""
    at, is_pair = 0, data.wanted()
    why = {bias.name: unheld(bias) for bias in biases if labels[bias.name].answers is None}
    for number, row in enumerate(data.rows, 1):
        new: dict[str, dict[str, Any]] = {_LABELS: {}, _WHY: {}, _DETAILS: {}}
        for bias, own in labels.items():
            if not is_pair[number]:
                new[_WHY][bias] = data.why_left_out(number)
                continue
            answer = None if own.answers is None else own.answers[at]
            both = LABELS[own.sides[at, 0]], LABELS[own.sides[at, 1]]
            new[_LABELS][bias] = dict(zip(SIDES, both, strict=True))
            reason = answer.reason if answer is not None else why[bias] if None in both else None
            if reason is not None:
                new[_WHY][bias] = reason
            if answer is not None:
                new[_DETAILS][bias] = answer.details()
        at += is_pair[number]
        merged = {
            name: {**(row.get(name) or {}), **own} or None for name, own in new.items() if own or name != _DETAILS
        }
        yield {**row, **merged}
