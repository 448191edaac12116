"""Who labels each bias in preference pairs: files, an LLM or its measure; and the labels."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from cda.arrays import FloatArray
from cda.biases import Bias
from cda.counterfactuals.label import asks_for, labels_of, measured_tally, planned_labels
from cda.errors import DataError, RecipeError
from cda.features import n_words
from cda.preferences.measure import SideLabels, attribute_of, is_length
from cda.preferences.pair_data import PairData, Sides, given_labels
from cda.recipe.load import LoadedRecipe
from cda.records import Pair
from cda.resources.artifacts import shown_path
from cda.resources.llm_access import Step, confirm_all, llm_access
from cda.results.stages import LabelTally
from cda.rewriting.labels import PairLabel, measure_of

LABELS = {1: True, 0: False, -1: None}


@dataclass(frozen=True, slots=True)
class ToLabel:
    """Biases to measure; labels that files give of them, with the file; and those that an LLM is asked for."""

    biases: list[Bias]
    given: Mapping[str, tuple[Sides, str]]
    asked: list[Bias]

    def steps(self, data: PairData, loaded: LoadedRecipe) -> list[Step]:
        """The LLM's calls."""
        if not self.asked:
            return []
        pairs, llm = list(data.pairs()), llm_access(loaded)
        return [(llm.settings, planned_labels(pairs, bias, llm.prompts.label)) for bias in self.asked]

    @property
    def made(self) -> list[Bias]:
        """Those that no file gives labels of."""
        return [bias for bias in self.biases if bias.name not in self.given]


def how_to_label(
    data: PairData,
    loaded: LoadedRecipe,
    files: Sequence[str] = (),
    columns: Mapping[str, str] = MappingProxyType({}),
    biases_named: bool = True,
) -> ToLabel:
    """How each bias is labelled; of biases that were not named, those that `files` give no labels of are left out.
    DataError: no texts to label; RecipeError: neither an LLM nor a measure can."""
    given = given_labels(files, data, loaded.biases, columns)
    biases = list(loaded.biases)
    if files and not biases_named:
        biases = [bias for bias in biases if bias.name in given]
    made = [bias for bias in biases if bias.name not in given]
    if made and data.reader is None:
        names = ", ".join(bias.name for bias in made)
        raise DataError(
            f"{data.reference}: holds no texts, and no labels of {names}; name only biases that it has labels of (--bias)"
        )
    _check_measured(made, loaded)
    return ToLabel(biases, given, [bias for bias in made if asks_for(bias, loaded.recipe)])


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """Numbers of texts, of one pass over n pairs: words and values of features, each of shape (n, 2), chosen and rejected; labels by
    measures; and the first pair without them, with its chosen text."""

    words: FloatArray
    values: dict[str, FloatArray]
    labels: dict[str, Sides]
    first_unknown: dict[str, tuple[int, str]]

    @classmethod
    def of(cls, pairs: Iterable[Pair], to_label: Sequence[Bias], to_keep: Sequence[Bias]) -> Measured:
        """Labels of `to_label`, and values of those `to_keep` that have a measure. Errors as of `Bias.measured`."""
        measured = {bias.name: (bias, bias.measure) for bias in (*to_label, *to_keep) if bias.measure is not None}
        labels, unknown = {bias.name: array("b") for bias in to_label}, dict[str, tuple[int, str]]()
        words, values = array("d"), {bias.name: array("d") for bias in to_keep if bias.measure is not None}
        for at, pair in enumerate(pairs):
            words.extend((n_words(pair.chosen), n_words(pair.rejected)))
            for name, (bias, rule) in measured.items():
                both = bias.measured(pair.chosen, rule.feature), bias.measured(pair.rejected, rule.feature)
                if name in values:
                    values[name].extend(both)
                if name in labels:
                    others = both[::-1] if rule.relative else (1.0, 1.0)
                    own = [rule.holds(value, other) for value, other in zip(both, others, strict=True)]
                    labels[name].extend(-1 if label is None else label for label in own)
                    if None in own:
                        unknown.setdefault(name, (at, pair.chosen))
        kept = {name: np.array(own).reshape(-1, 2) for name, own in values.items()}
        sides = {name: np.array(own, dtype=np.int8).reshape(-1, 2) for name, own in labels.items()}
        return cls(np.array(words).reshape(-1, 2), kept, sides, unknown)


@dataclass(frozen=True, slots=True, eq=False)
class MadeLabels:
    """Labels of one bias that were made here, with their counts, and an LLM's answers."""

    sides: Sides
    tally: LabelTally
    answers: Sequence[PairLabel] | None = None


def made_labels(
    data: PairData, loaded: LoadedRecipe, to_label: ToLabel, to_keep: Sequence[Bias] = ()
) -> tuple[dict[str, MadeLabels], Measured | None]:
    """Labels, and their counts, of the biases that no file gives any of; and what was measured of the texts, if there are any. The cost
    of an LLM is told, and agreed to, once for all; the pairs that it is asked about are held."""
    found: dict[str, MadeLabels] = {}
    if data.reader is None:
        return found, None
    llm = llm_access(loaded)
    confirm_all(to_label.steps(data, loaded), llm.consent, llm.opened)
    pairs = list(data.pairs()) if to_label.asked else data.pairs()
    measured = Measured.of(pairs, [bias for bias in to_label.made if bias not in to_label.asked], to_keep)
    for bias in to_label.made:
        if bias in to_label.asked:
            answers, tally = labels_of(list(pairs), bias, loaded.recipe, llm)
            labels = [[answer.labels["chosen"], answer.labels["rejected"]] for answer in answers]
            sides = np.array([[-1 if label is None else label for label in both] for both in labels], dtype=np.int8)
            found[bias.name] = MadeLabels(sides, tally, answers)
        else:
            sides = measured.labels[bias.name]
            both = ((LABELS[chosen], LABELS[rejected]) for chosen, rejected in sides.tolist())
            first = measured.first_unknown.get(bias.name, (0, ""))
            found[bias.name] = MadeLabels(sides, measured_tally(bias, loaded.recipe, both, *first))
    return found, measured


def labelled(
    data: PairData, loaded: LoadedRecipe, to_label: ToLabel, keeps_values: bool
) -> tuple[dict[str, SideLabels], dict[str, str], Measured | None]:
    """Labels of each bias, what they are by, and what was measured of the texts: the values of features that are attributes; of all, if
    they are to be kept."""
    to_keep = [
        bias
        for bias in to_label.biases
        if not is_length(bias) and (keeps_values or attribute_of(bias, True) != "label")
    ]
    made, measured = made_labels(data, loaded, to_label, to_keep)
    sides = {name: own for name, (own, _) in to_label.given.items()} | {name: own.sides for name, own in made.items()}
    labelled_by = {name: file for name, (_, file) in to_label.given.items()} | {
        n: own.tally.by for n, own in made.items()
    }
    labels = {}
    for bias in to_label.biases:
        values = None
        if measured is not None and attribute_of(bias, True) != "label":
            values = measured.words if is_length(bias) else measured.values[bias.name]
        feature = None if values is None else values[:, 0] - values[:, 1]
        labels[bias.name] = SideLabels.of(sides[bias.name], data.prompt_ids, feature)
    return labels, labelled_by, measured


def label_plan(data: PairData, loaded: LoadedRecipe, to_label: ToLabel) -> list[str]:
    """Steps of a dry run: the pairs, and who labels each bias."""
    of = f" of {len(data.numbers) + data.not_drawn}" if data.not_drawn else ""
    asked = {bias.name for bias in to_label.asked}
    files = {name: shown_path(file) for name, (_, file) in to_label.given.items()}
    llm = str(loaded.recipe.llm.model)
    return [
        f"pairs       {data.reference}: {len(data.numbers)}{of} ({data.exclusions})",
        *([f"            {data.taken}"] if data.taken else []),
        *(
            f"label       {name}, by {files.get(name) or (llm if name in asked else 'its measure')}"
            for name in (bias.name for bias in to_label.biases)
        ),
    ]


def _check_measured(biases: Sequence[Bias], loaded: LoadedRecipe) -> None:
    """Refuse biases that neither an LLM nor a measure can label, all at once."""
    problems: list[str] = []
    for bias in biases:
        try:
            if not asks_for(bias, loaded.recipe):
                measure_of(bias)
        except RecipeError as error:
            problems += error.problems
    if problems:
        raise RecipeError(problems)
