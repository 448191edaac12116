"""Several models and audits compared: models are audited one after the other with one plan and one budget; finished runs, files of
audits and shared rows are read as they are."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from os import PathLike
from pathlib import Path
from typing import NamedTuple

from cda.auditing.audit import planned_calls
from cda.comparing.compare import compare_audits
from cda.comparing.discoveries import discoveries_at, read_discoveries
from cda.comparing.members import Gathered, audits_at, gather
from cda.comparing.page import comparison_csv
from cda.comparing.row import row_file
from cda.errors import DataError, RecipeError, RunError
from cda.files.paths import free_place, is_there, own_folder, user_path
from cda.jobs.options import Model
from cda.jobs.perform import Job, Made, perform
from cda.jobs.terms import RUNS, Terms, loaded_for_model, refuse_results
from cda.launch import is_main, say
from cda.llm.purse import FOLDER, Purse
from cda.pipeline import plan as planning
from cda.pipeline.stages import carry_out, planned_run
from cda.recipe.load import LoadedRecipe, Opened, is_recipe
from cda.resources.dry_run import NOTHING_DONE, noting
from cda.resources.llm_access import Step, agreed_calls, confirm_all, price_of, share_purse, tell_costs
from cda.results.audit import AuditResult
from cda.results.commands import ComparisonPlan, Plan
from cda.results.comparison import ComparisonResult, DiscoveriesResult
from cda.run import fingerprint
from cda.scorers.kinds import scorer_kind
from cda.user_errors import explain

_LONGEST = 40
"""Characters of the targets' names in the name of a comparison's folder."""
_OF_COMPARISONS = ("figures", "out", "confirm", "progress", "overrides")
"""Options that have an effect on a comparison of finished audits."""


def check_export(place: str | None, several: bool = False) -> None:
    """Refuse, before any work, a place for rows that is neither a folder nor, for one model, a .json file, or cannot be written."""
    if place is not None:
        free_place(row_file(place, "row.json", several))


def export_rows(of: AuditResult | ComparisonResult, place: str | None) -> None:
    """Write the rows of audits, if a place is given, and say where."""
    if place is not None and is_main():
        written = of.export(place)
        for file in (written,) if isinstance(written, Path) else written:
            say(f"Row: {file}")


class _PlannedAudit(NamedTuple):
    """One model: its name, the folder of its run, and what is audited."""

    name: str
    run: Path
    target: Model


class _Asked(NamedTuple):
    """What is compared: models to audit with their settings, and what is finished."""

    models: Sequence[_PlannedAudit]
    settings: Mapping[str, object]
    finished: Sequence[str | Path]
    repeated: Sequence[str]
    seed: int
    folder: Path


def compare_targets(targets: Sequence[Model], terms: Terms) -> ComparisonResult | DiscoveriesResult:
    """Audit every model in a folder of its own, reusing what is there, and compare all that could be audited with what is finished.

    Mistakes in the settings are raised before anything is spent; a model that fails afterwards is named in the result, and does not
    stop the others. The cost of all LLMs is agreed to once, and `llm.budget_usd` holds for all models together. Folders of
    discoveries are compared with each other.
    """
    if discoveries := discoveries_at(targets):
        return _compared_discoveries(discoveries, terms)
    asked = _checked(targets, terms)
    gather(asked.finished) if asked.finished else None  # what cannot be read is known before anything is spent
    steps, failed = _costs(asked, terms)
    opened = Opened()
    if steps:
        say(f"\n{len(asked.models)} models, their LLM calls together")
        confirm_all(steps, terms.consent, opened)
    purse = Purse(own_folder(asked.folder / FOLDER)) if any(price_of(llm) for llm, _ in steps) else None
    agreed = terms.but(confirm=True) if steps else terms

    def audit(_: str, loaded: LoadedRecipe) -> None:
        share_purse(loaded, purse, agreed_calls(opened))
        carry_out(loaded)

    failed |= _each(asked, agreed, audit, without=tuple(failed))
    if purse is not None and purse.n_calls:
        say(f"\n{purse.n_calls:,} LLM calls for ${purse.spent:,.2f}, in all starts")
    done = [each.run for each in asked.models if each.name not in failed]
    if not done and not asked.finished:
        raise _none_left(failed)
    return _compared(asked, gather(asked.finished, done), failed, terms)


def plan_comparison(targets: Sequence[Model], terms: Terms, full: bool = False) -> ComparisonPlan:
    """Check everything, and say the plan of every audit; do nothing. Raises as `compare_targets`, RunError if any model fails."""
    if discoveries := discoveries_at(targets):
        _compared_discoveries(discoveries, terms)  # its dry run ends here
    asked = _checked(targets, terms)
    if not asked.models:
        _compared(asked, gather(asked.finished), {}, terms)  # its dry run ends here
    plans: dict[str, Plan] = {}
    if failed := _each(asked, terms, lambda name, loaded: plans.update({name: planned_run(loaded, full)})):
        raise _none_left(failed)
    with noting():
        steps, _ = _costs(asked, terms)
    if steps:
        say("\nLLM calls of all models")
        tell_costs(steps)
    read = [f"reads       {place}" for place in asked.finished]
    say("\n".join(["", *read, f"comparison  {asked.folder}", "", NOTHING_DONE]))
    return ComparisonPlan(models=plans, folder=asked.folder)


def _compared_discoveries(files: Mapping[str, Path], terms: Terms) -> DiscoveriesResult:
    """Compare discoveries, whose results are read as they are, and write every form."""
    given = [name for name in terms.given if name not in _OF_COMPARISONS]
    if given := [*given, *terms.settings, *(terms["overrides"] or ())]:
        raise RecipeError([f"{terms.where}: {', '.join(given)}: no effect on discoveries, which are read as they are"])
    result = read_discoveries(files)
    mark = fingerprint(sorted(str(file.resolve()) for file in files.values()))[:6]
    folder = RUNS / f"compare-discoveries-{mark}" if terms["out"] is None else user_path(terms["out"]) / "comparison"
    plan = [f"reads       {name}: {one.n_confirmed} confirmed" for name, one in result.discoveries.items()]
    return perform(Job(DiscoveriesResult, lambda: plan, lambda _: Made(result)), None, folder, terms["figures"])


def _compared(asked: _Asked, gathered: Gathered, failed: Mapping[str, str], terms: Terms) -> ComparisonResult:
    """Compare what was read, and write every form."""

    def plan() -> list[str]:
        said = [
            f"reads       {each.source}: {each.row.label}; biases: {', '.join(each.row.biases)}"
            for each in gathered.members
        ]
        left = [f"            {name}: {reason}" for name, reason in gathered.refused.items()]
        return [*said, *left]

    def work(_: Path) -> Made[ComparisonResult]:
        result = compare_audits(gathered, asked.seed, failed, asked.repeated)
        return Made(result, {"comparison.csv": partial(comparison_csv, result)})

    return perform(Job(ComparisonResult, plan, work), None, asked.folder, terms["figures"])


def _none_left(failed: Mapping[str, str]) -> RunError:
    return RunError("\n".join(f"{name}: {problem}" for name, problem in failed.items()))


def _checked(targets: Sequence[Model], terms: Terms) -> _Asked:
    """Models with their folders and the settings of all, and what is finished; RecipeError carries every mistake."""
    problems: list[str] = []
    models: list[Model] = []
    finished: list[str | Path] = []
    once, repeated = _distinct(targets)
    for target in once:
        if wrong := refuse_results(target, of_one=False):
            problems += wrong
            continue
        try:
            is_finished = isinstance(target, str | PathLike) and audits_at(target) is not None
        except DataError as error:
            problems.append(str(error))
            continue
        if is_finished:
            finished.append(str(target))
        else:
            models.append(target)
    is_folder = any(said != place for place in finished for _, said in audits_at(place) or ())
    if not problems and len(once) < 2 and not is_folder:
        one = str(once[0]) if once else "none"
        missing = bool(once) and not finished and isinstance(once[0], str | PathLike) and not is_there(user_path(one))
        found = f"{one}, no such file or folder" if missing else f"{one}{' twice' * bool(repeated)}"
        problems.append(f"{terms.where}: give two or more to compare, or a folder of them; found {found}")
    given = [name for name in terms.given if name not in _OF_COMPARISONS]
    given += [*terms.settings, *(terms["overrides"] or ())]
    if given and not models:
        problems.append(
            f"{terms.where}: {', '.join(given)}: no effect on finished audits, and no model is audited here"
        )
    settings = terms.nested()
    planned, seed = _planned(models, settings, terms, problems)
    names = [*(each.run.name.removeprefix("audit-") for each in planned), *(Path(place).name for place in finished)]
    mark = fingerprint(sorted(str(user_path(place)) for place in (*(each.run for each in planned), *finished)))[:6]
    folder = RUNS / f"compare-{'-'.join(names)[:_LONGEST].strip('-.')}-{mark}"
    folder = folder if terms["out"] is None else user_path(terms["out"]) / "comparison"
    return _Asked(planned, settings, finished, repeated, seed, folder)


def _costs(asked: _Asked, terms: Terms) -> tuple[list[Step], dict[str, str]]:
    """The LLM calls of all models, those that several have in common once; and problems of models that would ask an LLM and
    cannot be audited, by name."""
    steps: list[Step] = []

    def plan(_: str, loaded: LoadedRecipe) -> None:
        if own := planned_calls(loaded):
            planning.check(loaded)
            steps.extend(step for step in own if step not in steps)

    failed = _each(asked, terms, plan, tell=False)
    return steps, failed


def _each(
    asked: _Asked,
    terms: Terms,
    do: Callable[[str, LoadedRecipe], object],
    without: Collection[str] = (),
    tell: bool = True,
) -> dict[str, str]:
    """Do something with each model, one after the other; problems by name of those that failed. Raises those that no user can act
    on."""
    failed: dict[str, str] = {}
    models = [each for each in asked.models if each.name not in without]
    for number, (name, run, target) in enumerate(models, 1):
        if tell:
            say(f"\n[{number}/{len(models)}] {name}")
        try:
            placed = {**asked.settings, "run": {"folder": str(run)}}
            with loaded_for_model(target, placed, terms) as loaded:
                do(name, loaded)
        except Exception as error:
            if (problem := explain(error)) is None:
                raise
            failed[name] = "; ".join(line.removeprefix(f"{name}: ") for line in problem.splitlines())
            if tell:
                say(f"  failed: {failed[name]}")
    return failed


def _resolved(path: str) -> str:
    return str(user_path(path).resolve()) if is_there(user_path(path)) else path


def _distinct(targets: Sequence[Model]) -> tuple[list[Model], list[str]]:
    """Each target once, whatever way a path is written; and the names of those that were repeated."""
    found: dict[object, Model] = {}
    repeated: list[str] = []
    for target in targets:
        key: object = id(target)
        if isinstance(target, str | PathLike):
            kind = scorer_kind(str(target))
            key = kind, kind.written(kind.bare(str(target)), _resolved)
        if key in found and str(target) not in repeated:
            repeated.append(str(target))
        found.setdefault(key, target)
    return list(found.values()), repeated


def _planned(
    targets: Sequence[Model], settings: Mapping[str, object], terms: Terms, problems: Sequence[str]
) -> tuple[list[_PlannedAudit], int]:
    """Name and folder of every model, and the seed; RecipeError carries every mistake in settings and targets, and `problems`."""
    found = list(problems)
    planned: list[_PlannedAudit] = []
    seed = 42
    for target in targets:
        try:
            if isinstance(target, str) and is_recipe(target):
                raise RecipeError(
                    [f"{terms.where}: {target} is a recipe: train it, and give the folder of its run here"]
                )
            with loaded_for_model(target, settings, terms) as loaded:
                recipe = loaded.recipe
        except RecipeError as error:
            found += error.problems
            continue
        seed = recipe.seed
        if recipe.run.folder not in (None, str(terms["out"])):
            found.append(f"{terms.where}: run.folder: names the folder of one run; that of several is `out`, or --out")
        own = recipe.run_path if terms["out"] is None else user_path(terms["out"]) / recipe.name
        name = recipe.model.name_or_path
        if not isinstance(target, str | PathLike) and any(each.name == name for each in planned):
            found.append(f"{terms.where}: two objects of the name {name}; rename one of the functions")
        if any(each.run == own for each in planned):  # org/model and org-model
            own = own.with_name(f"{own.name}-{fingerprint(name)[:6]}")
        planned.append(_PlannedAudit(name, own, target))
    if found:
        raise RecipeError(dict.fromkeys(found))
    return planned, seed
