"""`cda data`: label preference pairs, measure what a reward model would learn from them, write the result."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from cda.arrays import n_distinct
from cda.biases import Bias
from cda.counterfactuals.label import asks_for
from cda.errors import RecipeError, did_you_mean
from cda.jobs.perform import Job, Made, ResultsFolder, perform
from cda.launch import say
from cda.preferences.labelling import Measured, ToLabel, how_to_label, label_plan, labelled
from cda.preferences.measure import WORDS, SideLabels, by_levels, data_biases
from cda.preferences.pair_data import PairData, check_by, check_column_names, pair_data
from cda.preferences.rows import (
    COLUMNS,
    check_rows_file,
    deciding_alone,
    found_of_pairs,
    weighted,
    with_found,
    write_rows,
)
from cda.provenance import versions
from cda.recipe.load import LoadedRecipe
from cda.resources.artifacts import as_given, shown_path
from cda.resources.sources import prompt_name
from cda.results.base import Missing
from cda.results.benchmarks import AskedLLM
from cda.results.data import DataResult, DataWeights
from cda.stats.levels import Levels

_SECTIONS = ("llm", "label", "seed", "run", "name", "biases")
"""Settings that have an effect here."""


@dataclass(frozen=True, slots=True)
class DataOptions:
    """Options of `cda data`, as its help explains them."""

    by: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    columns: Mapping[str, str] = field(default_factory=dict)
    split: str = "train"
    limit: int | None = None
    figures: str | None = None
    biases_named: bool = False
    """The biases were named; of those that were not, labels in files may say nothing."""
    rows: str | None = None
    """File for the rows."""


def run_data(reference: str, loaded: LoadedRecipe, options: DataOptions) -> DataResult:
    """What a reward model would learn of each bias from preference pairs, written into the run's folder.
    RecipeError (all listed): settings without effect, a column that is not read, a bias that cannot be measured if no
    LLM is named. DataError: the file cannot be used, or a column of --by has one value. Further errors as of asking an LLM."""
    _check(loaded, options)
    seed = loaded.recipe.seed
    data = pair_data(reference, options.split, options.columns, options.labels, options.limit, seed)
    check_by(data.rows, options.by, reference)
    if options.rows is not None:
        check_rows_file("--rows", options.rows, data, options.labels, COLUMNS)
    levels = {name: data.levels(name) for name in options.by}  # before anything is asked
    to_label = how_to_label(data, loaded, options.labels, options.columns, options.biases_named)
    job = Job(
        lambda: _plan(data, loaded, options, to_label),
        lambda _: _made(data, loaded, options, to_label, levels),
        ResultsFolder(loaded.recipe.run_path, DataResult.made_by),
        lambda: to_label.steps(data, loaded),
        ("model", "name"),
    )
    return perform(job, loaded, options.figures)


def _made(
    data: PairData, loaded: LoadedRecipe, options: DataOptions, to_label: ToLabel, levels: Mapping[str, Levels]
) -> Made[DataResult]:
    say(f"{data.taken}\n{len(data.numbers)} pairs ({data.exclusions})".lstrip())
    if data.not_drawn:
        say(f"  drawn from {len(data.numbers) + data.not_drawn} (--limit)")
    seed, biases = loaded.recipe.seed, to_label.biases
    labels, labelled_by, measured = labelled(data, loaded, to_label, options.rows is not None)
    found, words, regression = data_biases(biases, labels, labelled_by, None if measured is None else measured.words)
    asked = any(asks_for(bias, loaded.recipe) and labelled_by[bias.name] not in options.labels for bias in biases)
    llm = loaded.recipe.llm
    result = DataResult(
        pairs=shown_path(data.reference),
        split=options.split,
        n_pairs=len(data.numbers),
        n_prompts=n_distinct(data.prompt_ids),
        not_drawn=data.not_drawn,
        excluded=data.exclusions,
        labels=tuple(map(shown_path, options.labels)),
        llm=AskedLLM(model=str(llm.model), base_url=llm.asked.base_url) if asked else None,
        prompt=prompt_name(loaded.recipe.label.prompt, loaded.prompts.label) if asked else None,
        biases=tuple(bias.model_copy(update={"labelled_by": shown_path(bias.labelled_by)}) for bias in found),
        words=words,
        regression=regression,
        by=by_levels(levels, biases, labels),
        rows=None if options.rows is None else shown_path(options.rows),
        weights=None if options.rows is None else _write_rows(options.rows, data, biases, labels, measured, seed),
        seed=seed,
        versions=versions(),
    )
    remark = None
    if suggested := () if options.by else data.suggested():
        remark = (
            f"Columns that may say where pairs come from: {', '.join(suggested)}; see each with --by {suggested[0]}"
        )
    named = dict(zip((bias.name for bias in loaded.biases), loaded.recipe.biases, strict=True))
    names, rows = as_given(data.reference, options.rows, *options.labels), [options.rows] if options.rows else []
    return Made(result, remark=remark, names=names | named, elsewhere=tuple(rows))


def _write_rows(
    file: str,
    data: PairData,
    biases: Sequence[Bias],
    labels: Mapping[str, SideLabels],
    measured: Measured | None,
    seed: int,
) -> DataWeights | Missing:
    """Write a line for each row of the data; what its weights are and do."""
    alone = deciding_alone(biases, labels)
    values = {} if measured is None else {WORDS: measured.words, **measured.values}
    found = weighted(biases, labels, values, alone, seed)
    weights, summary = (None, found) if isinstance(found, Missing) else found
    write_rows(file, with_found(data, found_of_pairs(biases, labels, values, alone, weights)))
    return summary


def _plan(data: PairData, loaded: LoadedRecipe, options: DataOptions, to_label: ToLabel) -> list[str]:
    """Steps of a dry run."""
    rows = f"rows        {options.rows}: {len(data.rows)} rows with labels, values and weights"
    return [
        *label_plan(data, loaded, to_label),
        *([f"compare     by {', '.join(options.by)}"] if options.by else []),
        *([] if options.rows is None else [rows]),
    ]


def _check(loaded: LoadedRecipe, options: DataOptions) -> None:
    if options.limit is not None and options.limit < 2:
        raise RecipeError([f"--limit {options.limit}: 2 or more pairs are needed"])
    check_column_names(options.columns, loaded.biases)


def without_effect(
    names: Sequence[str], where: str, command: str = "cda data", options: Iterable[str] = ()
) -> list[str]:
    """Problems with settings that do nothing here, by their names with dots; `options` are what may have been meant."""
    return [
        f"{where}: {name}: has no effect on `{command}`, which trains and scores nothing; settings of "
        f"{', '.join(_SECTIONS[:3])} have.{did_you_mean(name, options)}"
        for name in names
        if name.partition(".")[0] not in _SECTIONS
    ]
