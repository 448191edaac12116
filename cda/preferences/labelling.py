"""Who labels each bias in preference pairs: files, an LLM or its measure; and the labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from cda.biases import Bias
from cda.counterfactuals.label import Labelled, asks_for, labels_of, planned_labels
from cda.data.pairs import PairLabels
from cda.errors import DataError, RecipeError
from cda.preferences.pair_data import Labels, PairData, given_labels
from cda.recipe.load import LoadedRecipe
from cda.resources.artifacts import shown_path
from cda.resources.llm_access import Step, confirm_all, llm_access
from cda.rewriting.labels import measure_of


@dataclass(frozen=True, slots=True)
class ToLabel:
    """Biases to measure; labels that files give of them, with the file; and those that an LLM is asked for."""

    biases: list[Bias]
    given: Mapping[str, tuple[list[Labels], str]]
    asked: list[Bias]

    def steps(self, data: PairData, loaded: LoadedRecipe) -> list[Step]:
        """The LLM's calls."""
        pairs, llm = list(data.pairs or ()), llm_access(loaded)
        return [(llm.settings, planned_labels(pairs, bias, llm.prompts.label)) for bias in self.asked]


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
    if made and data.pairs is None:
        names = ", ".join(bias.name for bias in made)
        raise DataError(
            f"{data.reference}: holds no texts, and no labels of {names}; name only biases that it has labels of (--bias)"
        )
    _check_measured(made, loaded)
    return ToLabel(biases, given, [bias for bias in made if asks_for(bias, loaded.recipe)])


def made_labels(data: PairData, loaded: LoadedRecipe, to_label: ToLabel) -> dict[str, Labelled]:
    """Labels, and their counts, of the biases that no file gives any of. The cost of an LLM is told, and agreed to, once for all."""
    pairs, llm = list(data.pairs or ()), llm_access(loaded)
    confirm_all(to_label.steps(data, loaded), llm.consent, llm.opened)
    made = [bias for bias in to_label.biases if bias.name not in to_label.given]
    return {bias.name: labels_of(pairs, bias, loaded.recipe, llm) for bias in made}


def labelled(data: PairData, loaded: LoadedRecipe, to_label: ToLabel) -> tuple[dict[str, PairLabels], dict[str, str]]:
    """Labels of each bias, and what they are by."""
    labels = {name: data.labelled(own) for name, (own, _) in to_label.given.items()}
    labelled_by = {name: file for name, (_, file) in to_label.given.items()}
    for name, (sides, tally) in made_labels(data, loaded, to_label).items():
        labels[name] = data.labelled([(side.labels["chosen"], side.labels["rejected"]) for side in sides])
        labelled_by[name] = tally.by
    return labels, labelled_by


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
