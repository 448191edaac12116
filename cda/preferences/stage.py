"""`cda data`: label preference pairs, measure what a reward model would learn from them, write the result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cda.biases import Bias
from cda.counterfactuals.label import asks_for, labels_of, planned_labels
from cda.data.load import Row, load_rows
from cda.data.pairs import PairLabels, clean_pairs, cluster_of, read_pairs, row_labels
from cda.embedded.model import EMBEDDED
from cda.embedded.texts import authored_pairs
from cda.errors import DataError, RecipeError, did_you_mean, refuse
from cda.inert import inert
from cda.jobs.perform import Job, Made, ResultsFolder, perform
from cda.launch import say
from cda.preferences.measure import by_levels, data_biases
from cda.provenance import versions
from cda.recipe.load import LoadedRecipe
from cda.records import Exclusions, Pair, prompt_id, prompt_text, text_key
from cda.resources.artifacts import as_given, shown_path
from cda.resources.llm_access import Step, confirm_all, llm_access
from cda.resources.sources import prompt_name
from cda.results.benchmarks import AskedLLM
from cda.results.data import DataResult
from cda.rewriting.labels import measure_of
from cda.stats.draws import Stream, drawn
from cda.stats.levels import Levels, levels_of

_SIDES = ("chosen", "rejected")
_READ = ("prompt", *_SIDES, "preference")
_USUAL = ("source", "topic", "domain", "category", "subset", "dataset", "language")
"""Columns that often name where pairs come from."""
_MOST_CHARACTERS = 60
Labels = tuple[bool | None, bool | None]


@dataclass(frozen=True, slots=True, eq=False)
class PairData:
    """Usable pairs in row order, and their rows.

    `pairs` is None for a file that holds labels and no texts; then every row counts as a pair.
    """

    reference: str
    rows: Sequence[Row]
    """All rows of the file."""
    numbers: tuple[int, ...]
    """Row of each pair, from 1."""
    pairs: tuple[Pair, ...] | None
    exclusions: Exclusions
    not_drawn: int = 0
    taken: str = ""
    """The shape of the rows, and what was taken for what."""

    @property
    def prompt_ids(self) -> tuple[str, ...]:
        if self.pairs is not None:
            return tuple(prompt_id(pair.prompt) for pair in self.pairs)
        return tuple(cluster_of(self.rows[number - 1], number) for number in self.numbers)

    @property
    def sides(self) -> tuple[tuple[str, str], ...] | None:
        return None if self.pairs is None else tuple((pair.chosen, pair.rejected) for pair in self.pairs)

    def labelled(self, labels: Sequence[Labels]) -> PairLabels:
        """Labels of the pairs, with their prompts and texts."""
        chosen, rejected = zip(*labels, strict=True)
        return PairLabels(chosen, rejected, self.prompt_ids, self.sides)

    def levels(self, column: str) -> Levels:
        """Levels of the pairs by a column. DataError: no such column, or it does not divide them."""
        check_by(self.rows, [column], self.reference)
        cells = [self.rows[number - 1].get(column) for number in self.numbers]
        values = [
            None if cell is None or not str(cell).strip() else inert(str(cell).strip())[:_MOST_CHARACTERS]
            for cell in cells
        ]
        try:
            return levels_of(values, self.prompt_ids)
        except DataError as error:
            raise DataError(f"--by {column}: {error}; name another column") from None

    def suggested(self) -> list[str]:
        """Columns that often name where pairs come from, and have several values here."""
        found = [name for name in _USUAL if name in self.rows[0]]
        return [name for name in found if len(set(map(str, (row.get(name) for row in self.rows)))) > 1]


def pair_data(
    reference: str,
    split: str,
    columns: Mapping[str, str],
    labels: Sequence[str],
    limit: int | None,
    seed: int,
) -> PairData:
    """Pairs of `embedded` or of a reference that `load_rows` takes, at most so many of them; rows without texts count if
    `labels` names the same file. DataError: it cannot be loaded, a column is missing, or nothing usable is left."""
    rows = _embedded_rows() if reference == EMBEDDED else load_rows(reference, split)
    names = {name: theirs for name, theirs in columns.items() if name in _READ}
    present = {name for row in rows for name in row}
    if reference in labels and not present & {names.get(side, side) for side in _SIDES}:
        numbers = tuple(drawn(range(1, len(rows) + 1), limit, seed, Stream.PAIRS))
        return PairData(reference, rows, numbers, None, Exclusions(len(rows), {}), len(rows) - len(numbers))
    cleaned = clean_pairs(rows, names, reference, "--column ")
    if not cleaned.pairs:
        raise DataError(f"{reference}: no usable pair; {cleaned.exclusions}")
    pairs = dict(zip(cleaned.numbers, cleaned.pairs, strict=True))
    kept = drawn(cleaned.numbers, limit, seed, Stream.PAIRS)
    own, taken = tuple(pairs[number] for number in kept), "" if reference == EMBEDDED else cleaned.taken
    return PairData(reference, rows, tuple(kept), own, cleaned.exclusions, len(pairs) - len(kept), taken)


def _embedded_rows() -> list[Row]:
    return [
        {
            "prompt": prompt_text(row.pair.prompt), "chosen": row.pair.chosen, "rejected": row.pair.rejected,
            "domain": row.domain, "flaw_kind": row.flaw_kind,
        }
        for row in authored_pairs("train")
    ]  # fmt: skip


def check_by(rows: Sequence[Row], by: Sequence[str], reference: str) -> None:
    """Refuse columns that no row has with a DataError that names each."""
    present = sorted({name for row in rows for name in row})
    refuse([
        f"--by {name}: no such column in {reference}.{did_you_mean(name, present)} Found: {', '.join(map(inert, present))}"
        for name in by
        if name not in present
    ])  # fmt: skip


def check_column_names(columns: Mapping[str, str], biases: Sequence[Bias]) -> None:
    """Refuse columns that the command does not read with a RecipeError that names each."""
    known = [*_READ, *(f"{side}_{bias.name}" for bias in biases for side in _SIDES)]
    problems = [
        f"--column {name}: not a column that is read.{did_you_mean(name, known)} Known: {', '.join(known)}"
        for name in columns
        if name not in known
    ]
    if problems:
        raise RecipeError(problems)


def given_labels(
    files: Sequence[str], data: PairData, biases: Sequence[Bias], columns: Mapping[str, str]
) -> dict[str, tuple[list[Labels], str]]:
    """Labels of each pair in files, by bias, with the file; the first file that has a bias counts, and biases that none has are
    left out. A pair without a row there has unknown labels.

    Raises:
        DataError: A file cannot be read or matched to the pairs, or holds labels of none of the biases.
    """
    found: dict[str, tuple[list[Labels], str]] = {}
    for file in files:
        rows = _label_rows(file, data, columns)
        own = {bias.name: labels for bias in biases if (labels := _of_bias(rows, bias.name)) is not None}
        if not own:
            present = ", ".join(sorted({inert(key) for row in rows if row is not None for key in row}))
            raise DataError(
                f"{file}: no labels of {', '.join(bias.name for bias in biases)}. Found: {present}. Needed: the columns "
                f"chosen_{biases[0].name} and rejected_{biases[0].name} (yes or no), or labels as `cda label` writes them; other "
                f"names with --column chosen_{biases[0].name}=<your column>"
            )
        found = {name: (labels, file) for name, labels in own.items()} | found
    return found


def _of_bias(rows: Sequence[Row | None], bias: str) -> list[Labels] | None:
    labels = [None if row is None else row_labels(row, bias) for row in rows]
    return None if all(each is None for each in labels) else [(None, None) if each is None else each for each in labels]


def _label_rows(file: str, data: PairData, columns: Mapping[str, str]) -> list[Row | None]:
    """The row of labels of each pair, None without one: of the same file, by its texts, or in the order of the rows."""
    renamed = {ours: theirs for ours, theirs in columns.items() if ours not in _READ}
    rows = data.rows if file == data.reference else load_rows(file)
    rows = [{**row, **{ours: row[theirs] for ours, theirs in renamed.items() if theirs in row}} for row in rows]
    if file == data.reference:
        return [rows[number - 1] for number in data.numbers]
    if any(side in row for row in rows for side in _SIDES):
        return _by_texts(file, rows, data)
    if len(rows) != len(data.rows):
        raise DataError(
            f"{file}: {len(rows)} rows of labels without texts for {len(data.rows)} rows of {data.reference}; give one for each "
            "row in the same order, or the columns prompt, chosen and rejected"
        )
    return [rows[number - 1] for number in data.numbers]


def _by_texts(file: str, rows: Sequence[Row], data: PairData) -> list[Row | None]:
    by_texts = {
        text_key(pair.prompt, pair.chosen, pair.rejected): rows[number - 1]
        for number, pair in read_pairs(rows, {}, file, "--column ").numbered
    }
    found = [by_texts.get(text_key(pair.prompt, pair.chosen, pair.rejected)) for pair in data.pairs or ()]
    if not any(row is not None for row in found):
        raise DataError(
            f"{file}: none of its {len(rows)} rows is one of the {len(data.numbers)} pairs of {data.reference}; prompt, chosen and "
            "rejected have to be the same texts"
        )
    return found


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


def run_data(reference: str, loaded: LoadedRecipe, options: DataOptions) -> DataResult:
    """What a reward model would learn of each bias from preference pairs, written into the run's folder.
    RecipeError (all listed): settings without effect, a column that is not read, a bias that cannot be measured if no
    LLM is named. DataError: the file cannot be used, or a column of --by has one value. Further errors as of asking an LLM."""
    _check(loaded, options)
    seed = loaded.recipe.seed
    data = pair_data(reference, options.split, options.columns, options.labels, options.limit, seed)
    check_by(data.rows, options.by, reference)
    levels = {name: data.levels(name) for name in options.by}  # before anything is asked
    to_label = _to_label(data, loaded, options)
    job = Job(
        lambda: _plan(data, loaded, options, to_label),
        lambda _: _made(data, loaded, options, to_label, levels),
        ResultsFolder(loaded.recipe.run_path, DataResult.made_by),
        lambda: to_label.steps(data, loaded),
        ("model", "name"),
    )
    return perform(job, loaded, options.figures)


def _made(
    data: PairData,
    loaded: LoadedRecipe,
    options: DataOptions,
    to_label: _ToLabel,
    levels: Mapping[str, Levels],
) -> Made[DataResult]:
    say(f"{data.taken}\n{len(data.numbers)} pairs ({data.exclusions})".lstrip())
    if data.not_drawn:
        say(f"  drawn from {len(data.numbers) + data.not_drawn} (--limit)")
    seed, biases = loaded.recipe.seed, to_label.biases
    labels, labelled_by = _labelled(data, loaded, to_label)
    found, words, regression = data_biases(biases, labels, labelled_by)
    asked = any(asks_for(bias, loaded.recipe) and labelled_by[bias.name] not in options.labels for bias in biases)
    llm = loaded.recipe.llm
    result = DataResult(
        pairs=shown_path(data.reference),
        split=options.split,
        n_pairs=len(data.numbers),
        n_prompts=len(set(data.prompt_ids)),
        not_drawn=data.not_drawn,
        excluded=data.exclusions,
        labels=tuple(map(shown_path, options.labels)),
        llm=AskedLLM(model=str(llm.model), base_url=llm.asked.base_url) if asked else None,
        prompt=prompt_name(loaded.recipe.label.prompt, loaded.prompts.label) if asked else None,
        biases=tuple(bias.model_copy(update={"labelled_by": shown_path(bias.labelled_by)}) for bias in found),
        words=words,
        regression=regression,
        by=by_levels(levels, biases, labels),
        seed=seed,
        versions=versions(),
    )
    remark = None
    if suggested := () if options.by else data.suggested():
        remark = (
            f"Columns that may say where pairs come from: {', '.join(suggested)}; see each with --by {suggested[0]}"
        )
    return Made(result, remark=remark, names=as_given(data.reference, *options.labels))


def _plan(data: PairData, loaded: LoadedRecipe, options: DataOptions, to_label: _ToLabel) -> list[str]:
    """Steps of a dry run."""
    of = f" of {len(data.numbers) + data.not_drawn}" if data.not_drawn else ""
    asked = {bias.name for bias in to_label.asked}
    files = {name: shown_path(file) for name, (_, file) in to_label.given.items()}
    llm = str(loaded.recipe.llm.model)
    by = [
        f"label       {name}, by {files.get(name) or (llm if name in asked else 'its measure')}"
        for name in (bias.name for bias in to_label.biases)
    ]
    compared = [f"compare     by {', '.join(options.by)}"] if options.by else []
    return [
        f"pairs       {data.reference}: {len(data.numbers)}{of} ({data.exclusions})",
        *([f"            {data.taken}"] if data.taken else []),
        *by,
        *compared,
    ]


def _check(loaded: LoadedRecipe, options: DataOptions) -> None:
    if options.limit is not None and options.limit < 2:
        raise RecipeError([f"--limit {options.limit}: 2 or more pairs are needed"])
    check_column_names(options.columns, loaded.biases)


def without_effect(names: Sequence[str], where: str) -> list[str]:
    """Problems with settings that do nothing here, by their names with dots."""
    return [
        f"{where}: {name}: has no effect on `cda data`, which trains and scores nothing; settings of {', '.join(_SECTIONS[:3])} have"
        for name in names
        if name.partition(".")[0] not in _SECTIONS
    ]


@dataclass(frozen=True, slots=True)
class _ToLabel:
    """Biases to measure; labels that files give of them, with the file; and those that an LLM is asked for."""

    biases: list[Bias]
    given: Mapping[str, tuple[list[Labels], str]]
    asked: list[Bias]

    def steps(self, data: PairData, loaded: LoadedRecipe) -> list[Step]:
        """The LLM's calls."""
        pairs, llm = list(data.pairs or ()), llm_access(loaded)
        return [(llm.settings, planned_labels(pairs, bias, llm.prompts.label)) for bias in self.asked]


def _to_label(data: PairData, loaded: LoadedRecipe, options: DataOptions) -> _ToLabel:
    """How each bias is labelled. DataError: no texts to label; RecipeError: neither an LLM nor a measure can."""
    given = given_labels(options.labels, data, loaded.biases, options.columns)
    biases = list(loaded.biases)
    if options.labels and not options.biases_named:
        biases = [bias for bias in biases if bias.name in given]
    made = [bias for bias in biases if bias.name not in given]
    if made and data.pairs is None:
        names = ", ".join(bias.name for bias in made)
        raise DataError(
            f"{data.reference}: holds no texts, and no labels of {names}; name only biases that it has labels of (--bias)"
        )
    _check_measured(made, loaded)
    return _ToLabel(biases, given, [bias for bias in made if asks_for(bias, loaded.recipe)])


def _labelled(data: PairData, loaded: LoadedRecipe, to_label: _ToLabel) -> tuple[dict[str, PairLabels], dict[str, str]]:
    """Labels of each bias, and what they are by. The cost of an LLM is told, and agreed to, once for all biases."""
    pairs, llm = list(data.pairs or ()), llm_access(loaded)
    confirm_all(to_label.steps(data, loaded), llm.consent, llm.opened)
    labels = {name: data.labelled(own) for name, (own, _) in to_label.given.items()}
    labelled_by = {name: file for name, (_, file) in to_label.given.items()}
    for bias in to_label.biases:
        if bias.name in labels:
            continue
        sides, tally = labels_of(pairs, bias, loaded.recipe, llm)
        labels[bias.name] = data.labelled([(side.labels["chosen"], side.labels["rejected"]) for side in sides])
        labelled_by[bias.name] = tally.by
    return labels, labelled_by


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
