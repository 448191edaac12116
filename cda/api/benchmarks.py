"""Accuracy, win rates, best-of-n, rewards of many rows, what preference data teach, and corrections that people's votes choose, from Python."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Unpack

from cda.api.finished import as_the_run
from cda.api.results import BestOf, Calibration, DataAudit, Dose, Quality
from cda.benchmarks.best_of_n import BIASES, run_best_of_n
from cda.benchmarks.quality import measure_quality
from cda.calibration.calibrate import run_calibrate
from cda.dosing.stage import run_mixed
from cda.embedded.texts import EMBEDDED_BIASES
from cda.errors import RecipeError
from cda.files.paths import refuse_prose
from cda.finetuning.applied import asked_subjects
from cda.jobs.options import (
    BestOfArguments,
    CalibrateArguments,
    Data,
    DataArguments,
    DoseArguments,
    LabelArguments,
    Model,
    QualityArguments,
    ScoreArguments,
)
from cda.jobs.terms import (
    ROWS,
    RUNS,
    Terms,
    as_reference,
    declared,
    loaded_for_model,
    loaded_with_folder,
    path_text,
    set_at,
    several,
)
from cda.llm.purse import Purse
from cda.preferences.label_file import label_file as run_label_file
from cda.preferences.stage import DataOptions, run_data, without_effect
from cda.recipe.load import LoadedRecipe
from cda.resources.artifacts import folder_suffix
from cda.resources.llm_access import share_purse
from cda.results.scored import ScoreResult
from cda.results.stages import LabelCounts
from cda.shards.score import run_score
from cda.shards.shards import Part


@declared(QualityArguments)
def quality(model: Model, data: Data | Sequence[str | Path], /, **options: Unpack[QualityArguments]) -> Quality:
    """Accuracy on preferences by section, or the win rate of outputs over others, before and after an adapter or of two models, as
    `cda quality` measures it.

    Args:
        model: As for `cda.audit`.
        data: Rows of prompt, chosen and rejected (and perhaps subset or section), or one or several files in any known format;
            with `over`, rows or a file of prompt and response.
        settings: As for `cda.audit`.

    Returns:
        Accuracy of every set by section, with the paired change between two scorings.

    Raises:
        CdaError: As `cda.audit`.

    Example:
        >>> import cda
        >>> pairs = [{"prompt": f"{n} + 1?", "chosen": str(n + 1), "rejected": str(n)} for n in range(20)]
        >>> cda.quality("my-org/my-reward-model", pairs).sets[0].overall.scores["model"].estimate  # doctest: +SKIP
        >>> outcome = cda.quality("judge:gpt-4o", "new.jsonl", over="old.jsonl", budget_usd=5)  # doctest: +SKIP
        >>> outcome.sets[0].win_rates["model"].wins  # doctest: +SKIP
    """
    terms = Terms.of("cda.quality", QualityArguments, options)
    settings, model, held = as_the_run(terms.nested(), model, options["adapter"])
    adapter, dose = path_text(held), options["dose"]
    files = _files(data, terms)
    missing = "pairs: has no rows" if terms["overrides"] is None else "give at least one file of preferences"
    over = terms.files.get("over")
    inputs = {"on": sorted(files), "over": over, "with": adapter, "at": dose}
    problems = [*(() if files else (missing,)), *_data_settings(settings, terms)]
    opened = loaded_with_folder(model, terms, settings, inputs, terms.words, options["against"], problems=problems)
    with opened as (loaded, other):
        return measure_quality(loaded, files, adapter, other, dose, options["figures"], over)


@declared(BestOfArguments)
def best_of(model: Model, responses: Data, /, **options: Unpack[BestOfArguments]) -> BestOf:
    """Prevalence of each bias among the best of n responses as n grows, and in a policy tilted to the reward, as `cda best-of`
    measures it.

    Args:
        model: As for `cda.audit`; it must give rewards.
        responses: Rows of prompt and responses, or of prompt and response.
        settings: As for `cda.audit`.

    Returns:
        A curve over n for each bias, and `tilt`: the same over β.

    Raises:
        CdaError: As `cda.audit`.

    Example:
        >>> import cda
        >>> result = cda.best_of("my-org/my-reward-model", "sampled.jsonl", biases="jargon")  # doctest: +SKIP
        >>> result.attributes[0].slope["model"]  # doctest: +SKIP
    """
    terms = Terms.of("cda.best_of", BestOfArguments, options)
    settings, model, held = as_the_run(terms.nested(), model, options["adapter"])
    adapter, dose = path_text(held), options["dose"]
    columns, split = options["columns"], options["split"]
    file = as_reference(responses, "responses", terms.inputs)
    names, ns, tilts = several(options["biases"]), list(options["sizes"] or ()), list(options["betas"] or ())
    inputs = {"on": file, "with": adapter, "at": dose}
    read = [f"{ours}={theirs}" for ours, theirs in (columns or {}).items()]
    others = (*terms.words, names, ns, read, "" if split == "train" else split, *([tilts] if tilts else []))
    problems = _data_settings(settings, terms)
    opened = loaded_with_folder(model, terms, settings, inputs, others, options["against"], problems=problems)
    with opened as (loaded, other):
        subjects = asked_subjects(loaded.recipe.model, adapter, other, dose)
        return run_best_of_n(
            file, subjects, loaded, out=loaded.recipe.run_path, biases=names or BIASES, sizes=ns or None, betas=tilts,
            columns=columns, split=split, figures=options["figures"], limit=options["limit"],
        )  # fmt: skip


@declared(ScoreArguments)
def score(model: Model, data: Data | Sequence[str | Path], /, **options: Unpack[ScoreArguments]) -> ScoreResult:
    """The reward of every row of any number of rows, written shard by shard, as `cda score` does.

    A call that was stopped goes on where it was. Rows that cannot be scored have null, and are counted by reason.

    Args:
        model: As for `cda.audit`; it must give rewards.
        data: Files, patterns such as `shards/*.jsonl`, folders or a hub id, or rows: of prompt and response, of prompt, chosen and
            rejected, or of messages.
        settings: As for `cda.audit`.

    Returns:
        How far it is, and the rewards in a few numbers. The rows with their rewards are the parquet files in `rows` in the folder.

    Raises:
        CdaError: As `cda.audit`; DataError for inputs that changed or differ in their columns, RunError for another model in the folder.

    Example:
        >>> import cda
        >>> result = cda.score("my-org/my-reward-model", "shards/*.jsonl", out="scored")  # doctest: +SKIP
        >>> result.rewards["reward"].mean, result.without_reward  # doctest: +SKIP
    """
    terms = Terms.of("cda.score", ScoreArguments, options)
    settings, model, held = as_the_run(terms.nested(), model, options["adapter"])
    adapter, dose = path_text(held), options["dose"]
    columns, split, rows = options["columns"] or {}, options["split"], options["shard_rows"]
    files = _files(data, terms)
    missing = "data: has no rows" if terms["overrides"] is None else "give at least one file of rows"
    inputs = {"on": sorted(files), "with": adapter, "at": dose}
    read = [f"{ours}={theirs}" for ours, theirs in columns.items()]
    others = (*terms.words, *read, "" if split == "train" else split, "" if rows is None else f"shards of {rows}")
    problems = [*(() if files else (missing,)), *_data_settings(settings, terms)]
    part = Part.of_words(options["part"])
    with loaded_with_folder(model, terms, settings, inputs, others, problems=problems) as (loaded, _):
        subject = asked_subjects(loaded.recipe.model, adapter, None, dose)[-1]
        return run_score(files, subject, loaded, columns=columns, split=split, part=part, shard_rows=rows)


@declared(DataArguments)
def audit_data(data: Data, /, **options: Unpack[DataArguments]) -> DataAudit:
    """What a reward model would learn of each bias from preference pairs, as `cda data` measures it; no model is asked.

    Args:
        data: Rows of prompt, chosen and rejected, a file of them, or `embedded`.
        settings: As for `cda.audit`; an LLM labels with `llm={"model": …}`.

    Returns:
        Contingency, correlation and odds of each bias, crude and adjusted for the others and the length.

    Raises:
        CdaError: As `cda.audit`.

    Example:
        >>> import cda
        >>> found = cda.audit_data("embedded", biases=["jargon", "length"])  # doctest: +SKIP
        >>> found.bias("jargon").odds.adjusted  # doctest: +SKIP
    """
    terms = Terms.of("cda.audit_data", DataArguments, options)
    biases, columns, split = options["biases"], options["columns"] or {}, options["split"]
    settled = terms.nested()
    given = [word.partition("=")[0] for word in terms["overrides"] or ()]
    if problems := without_effect([*given, *settled], terms.where, options=terms.known):
        raise RecipeError(problems)
    file = as_reference(data, "pairs", terms.inputs)
    labels, by = (tuple(map(str, several(options[name]))) for name in ("labels", "by"))
    if options["out"] is None:
        named = several(biases)
        own = [] if {*named} == {*EMBEDDED_BIASES} else named  # these are measured without a name, too
        others = [*terms.words, *own, *(f"{ours}={theirs}" for ours, theirs in columns.items())]
        others += [] if split == "train" else [split]
        inputs = {"of": file, "by": list(by) or None, "labels": list(labels) or None, "limit": options["limit"]}
        set_at(settled, "run.folder", str(RUNS / f"data{folder_suffix('data', inputs, others)}"))
    rows = path_text(options["rows"])
    asked = DataOptions(by, labels, columns, split, options["limit"], options["figures"], biases is not None, rows)
    with loaded_for_model("embedded", settled, terms) as loaded:
        return run_data(file, loaded, asked)


def label_file(data: str, columns: Mapping[str, str], **options: Any) -> tuple[LabelCounts, str]:
    """The counts of `cda label FILE`, whose options these are, and the file that it wrote. CdaError: as `audit_data`."""
    terms = Terms.of("cda label", LabelArguments, options)
    settled = terms.nested()
    given = [word.partition("=")[0] for word in terms["overrides"] or ()]
    if problems := without_effect([*given, *settled], terms.where, "cda label FILE", terms.known):
        raise RecipeError(problems)
    others = [*terms.words, *(f"{ours}={theirs}" for ours, theirs in columns.items()), *several(options["biases"])]
    default = RUNS / f"label{folder_suffix('label', {'of': data}, others)}.jsonl"
    out = str(default if options["out"] is None else options["out"])
    with loaded_for_model("embedded", settled, terms) as loaded:
        share_purse(loaded, Purse())  # there is no folder of results: a budget is for one call
        return run_label_file(data, loaded, out, columns, options["split"], options["limit"]), out


def _data_settings(settings: Mapping[str, object], terms: Terms) -> list[str]:
    """Mistakes: settings of data, which have no effect on data that are an argument."""
    problems = ["data: has no effect when the data are an argument"] if "data" in settings else []
    return problems + [
        f"{override}: has no effect when files are named on the command line; see --column and --split"
        for override in terms["overrides"] or ()
        if override.partition("=")[0].partition(".")[0] == "data"
    ]


def _files(data: Data | Sequence[str | Path], terms: Terms) -> list[str]:
    """One file, several, or rows as a file."""
    if isinstance(data, list | tuple) and all(isinstance(path, str | Path) for path in data):
        for path in data:
            refuse_prose(path, "data", ROWS)
        return list(dict.fromkeys(map(str, data)))
    return [as_reference(data, "pairs", terms.inputs)]  # type: ignore[arg-type]  # paths are told from rows above


@declared(CalibrateArguments)
def calibrate(model: Model, /, votes: Data | None = None, **options: Unpack[CalibrateArguments]) -> Calibration:
    """Fit corrections of a scorer's margins on people's votes, as `cda calibrate` does; nothing is trained.

    Args:
        model: As for `cda.audit`: a judge, a reward model, a function, or `scores:FILE`.
        votes: People's votes on the contrasts: rows of id and vote; None if the contrasts have them.
        settings: As for `cda.audit`. `dose.repeats` and `dose.max_quality_loss` say how often prompts are split, and how much
            accuracy may be lost.

    Returns:
        The calibration: its numbers out of fold, and a callable that corrects margins.

    Raises:
        CdaError: As `cda.audit`; DataError for too few votes.

    Example:
        >>> import cda
        >>> found = cda.calibrate("judge:gpt-4o", "votes.csv", contrasts="contrasts.jsonl", budget_usd=5)  # doctest: +SKIP
        >>> cda.audit("judge:gpt-4o", **{"score.calibration": found.folder / "calibration.json"})  # doctest: +SKIP
    """
    terms = Terms.of("cda.calibrate", CalibrateArguments, options)
    with _loaded(model, votes, terms, options) as (loaded, _):
        return run_calibrate(loaded, options["figures"])


@declared(DoseArguments)
def dose(before: Model, after: Model, /, votes: Data | None = None, **options: Unpack[DoseArguments]) -> Dose:
    """Choose by people's votes how far to go from one scorer to another, as `cda dose BEFORE --against AFTER` does.

    Rewards are mixed, margin(λ) = (1 − λ)·before + λ·after, which is not the same as scaling an adapter's weights: a
    training chooses its dose on the latter curve (`cda.train` and `run.dose`).

    Args:
        before: The model before debiasing, as for `cda.audit`; `scores:FILE` for scores that you have.
        after: The same after debiasing.
        votes: People's votes on the contrasts: rows of id and vote; None if the contrasts have them.
        settings: As for `cda.audit`. `dose.doses`, `dose.repeats` and `dose.max_quality_loss` say what is tried and how.

    Returns:
        The chosen dose with its numbers on held-out votes, and the dose–response curve.

    Raises:
        CdaError: As `cda.audit`; DataError for too few votes to choose a dose.

    Example:
        >>> import cda
        >>> found = cda.dose("scores:before.jsonl", "scores:after.jsonl", "votes.csv", contrasts="contrasts.jsonl")  # doctest: +SKIP
        >>> found.chosen, found.own.held_out["jargon"].people["gap"]  # doctest: +SKIP
    """
    terms = Terms.of("cda.dose", DoseArguments, options)
    with _loaded(before, votes, terms, options, after) as (loaded, other):
        return run_mixed(loaded, str(other), options["figures"])


@contextmanager
def _loaded(
    model: Model, votes: Data | None, terms: Terms, options: Mapping[str, Any], second: Model | None = None
) -> Iterator[tuple[LoadedRecipe, str | None]]:
    """The settings of a correction with its data; and the name of the second model."""
    nested, file = terms.nested(), None if votes is None else as_reference(votes, "votes", terms.inputs)
    if file is not None:
        set_at(nested, "audit.votes", None if file == "none" else file)
    set_at(nested, "audit.triples", None)  # votes are on contrasts alone
    inputs = {"by": file, "on": terms.files.get("contrasts")}
    others = (*terms.words, str(options["biases"]), str(terms.files.get("quality")))
    with loaded_with_folder(model, terms, nested, inputs, others, second) as opened:
        yield opened
