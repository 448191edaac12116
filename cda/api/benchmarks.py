"""Accuracy, win rates, best-of-n and doses from Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, Unpack, get_args

from cda.api.arguments import RUNS, Terms, check_types, declared, loaded_with_folder, path_text, several
from cda.api.results import BestOf, Dose, Quality, shown
from cda.api.rows import as_reference
from cda.benchmarks.best_of_n import BIASES, run_best_of_n
from cda.benchmarks.quality import measure_quality
from cda.dosing.files import dose_from_files
from cda.errors import DataError
from cda.files.paths import free_place, place_for, user_path
from cda.finetuning.applied import asked_subjects
from cda.jobs.options import BestOfArguments, Data, Model, QualityArguments
from cda.records import TieRule


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
    adapter, dose = path_text(options["adapter"]), options["dose"]
    files = _files(data, terms)
    missing = "pairs: has no rows" if terms.overrides is None else "give at least one file of preferences"
    over = None if options["over"] is None else as_reference(options["over"], "over", terms.inputs)
    inputs = {"on": sorted(files), "over": over, "with": adapter, "at": dose}
    settings = terms.nested()
    problems = [*(() if files else (missing,)), *_data_settings(settings, terms)]
    opened = loaded_with_folder(model, terms, settings, inputs, terms.words, options["against"], problems=problems)
    with opened as (loaded, other):
        return shown(Quality, measure_quality(loaded, files, adapter, other, dose, options["figures"], over))


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
    adapter, dose = path_text(options["adapter"]), options["dose"]
    columns, split = options["columns"], options["split"]
    file = as_reference(responses, "responses", terms.inputs)
    names, ns, tilts = several(options["biases"]), list(options["sizes"] or ()), list(options["betas"] or ())
    inputs = {"on": file, "with": adapter, "at": dose}
    others = (*terms.words, names, ns, *_reading(columns, split), *([tilts] if tilts else []))
    settings = terms.nested()
    problems = _data_settings(settings, terms)
    opened = loaded_with_folder(model, terms, settings, inputs, others, options["against"], problems=problems)
    with opened as (loaded, other):
        subjects = asked_subjects(loaded.recipe.model, adapter, other, dose)
        done = run_best_of_n(
            file, subjects, loaded, out=loaded.recipe.run_path, biases=names or BIASES, sizes=ns or None, betas=tilts,
            columns=columns, split=split, figures=options["figures"], limit=terms.limit,
        )  # fmt: skip
        return shown(BestOf, done)


def _data_settings(settings: Mapping[str, object], terms: Terms) -> list[str]:
    """Mistakes: settings of data, which have no effect on data that are an argument."""
    problems = ["data: has no effect when the data are an argument"] if "data" in settings else []
    return problems + [
        f"{override}: has no effect when files are named on the command line; see --column and --split"
        for override in terms.overrides or ()
        if override.partition("=")[0].partition(".")[0] == "data"
    ]


def _reading(columns: Mapping[str, str] | None, split: str) -> tuple[object, ...]:
    """Settings for reading files that differ from the defaults."""
    return [f"{ours}={theirs}" for ours, theirs in (columns or {}).items()], "" if split == "train" else split


def _files(data: Data | Sequence[str | Path], terms: Terms) -> list[str]:
    """One file, several, or rows as a file."""
    if isinstance(data, list | tuple) and all(isinstance(path, str | Path) for path in data):
        return list(dict.fromkeys(map(str, data)))
    return [as_reference(data, "pairs", terms.inputs)]  # type: ignore[arg-type]  # paths are told from rows above


def dose(
    before: Data,
    after: Data,
    /,
    votes: Data | None = None,
    *,
    quality_before: Data | None = None,
    quality_after: Data | None = None,
    ties: Literal["drop", "half", "as-released"] = "drop",
    seed: int = 42,
    columns: Mapping[str, str] | None = None,
    limit: int | None = None,
    out: str | Path | None = None,
) -> Dose:
    """Choose the dose of a debiasing by people's votes, from scores before and after it, as `cda dose` does from files.

    Scores are mixed, margin(λ) = (1 − λ)·before + λ·after, which is not the same as scaling an adapter's weights: a
    training chooses its dose on the latter curve (`cda.train` and `run.dose`).

    Args:
        before: Rows of id (or prompt), and perturbed_score and base_score, or margin: scores of the base model.
        after: The same after debiasing.
        votes: People's votes: rows of id and vote; None: a column `votes` or `preferred` of the scores.
        quality_before: Rows of chosen_score and rejected_score on quality pairs.
        quality_after: The same after debiasing.
        ties: Value of people's ties and splits.
        seed: Seed of splits and intervals.
        columns: Our column names to those of the score files, such as `{"margin": "gap"}`.
        limit: Take at most so many voted rows, and quality pairs, drawn with the seed.
        out: Also write the result to this file.

    Returns:
        The chosen dose with its numbers on held-out votes, and the dose–response curve.

    Raises:
        DataError: A column or id is missing, or there are too few votes to choose a dose.
        RunError: The file `out` cannot be written.

    Example:
        >>> import cda
        >>> rows = [{"id": f"c{n}", "margin": 1.0, "preferred": "base" if n % 4 else "perturbed"} for n in range(40)]
        >>> turned = [row | {"margin": -1.0 if n % 4 else 1.0} for n, row in enumerate(rows)]
        >>> cda.dose(rows, turned).held_out.dose  # doctest: +SKIP
    """
    check_types("cda.dose", seed=seed, columns=columns, limit=limit, out=out)
    if ties not in get_args(TieRule):
        raise DataError(f"ties: {', '.join(get_args(TieRule))}; found '{ties}'")
    if (quality_before is None) != (quality_after is None):
        missing = "quality_before" if quality_before is None else "quality_after"
        raise DataError(f"{missing}: needed together with the other one")

    def path(data: Data, name: str) -> Path:
        return user_path(as_reference(data, name, RUNS / "inputs"))

    scores, voted, quality = (path(before, "before"), path(after, "after")), None, None
    if votes is not None:
        voted = path(votes, "votes")
    if quality_before is not None and quality_after is not None:
        quality = path(quality_before, "quality-before"), path(quality_after, "quality-after")
    file = None if out is None else free_place(user_path(out))
    found = dose_from_files(*scores, voted, quality, ties=ties, seed=seed, columns=columns or {}, limit=limit, out=file)
    result = Dose(**dict(found))
    if file is not None:
        result.save(place_for(file))
    return result
