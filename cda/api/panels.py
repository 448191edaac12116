"""Audits of several models, one after the other with one budget, and the panel over them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path

from cda.api.arguments import RUNS, Terms, audited, loaded_for_model, refuse_results
from cda.api.results import Panel, carry_out, planned_run, shown
from cda.api.rows import as_reference
from cda.auditing.audit import planned_calls
from cda.errors import RecipeError, RunError
from cda.files.paths import is_there, own_folder, user_path
from cda.jobs.options import AuditArguments, Model
from cda.launch import say
from cda.llm.agreed import Agreed
from cda.llm.purse import FOLDER, Purse
from cda.panels.panel import is_finished_audit, run_panel
from cda.pipeline import plan as planning
from cda.recipe.load import LoadedRecipe, Opened, is_recipe
from cda.resources.dry_run import NOTHING_DONE, noting
from cda.resources.llm_access import Step, agreed_calls, confirm_all, price_of, share_purse, tell_costs
from cda.results.commands import PanelPlan, Plan
from cda.run import fingerprint
from cda.scorers.kinds import scorer_kind
from cda.user_errors import explain

_LONGEST = 40
"""Characters of the models' names in the name of a panel's folder."""


@dataclass(frozen=True, slots=True)
class _Planned:
    """One model of a panel: its folder, and what is audited (None: a finished run, read as it is)."""

    name: str
    run: Path
    target: Model | None


def audit_panel(targets: Sequence[Model], terms: Terms, options: AuditArguments) -> Panel:
    """Audit every model in a folder of its own, reusing what is there, and write the panel over all that could be audited.

    A target that is the folder of a finished run is read as it is. Mistakes in the settings are raised before anything is
    spent; a model that fails afterwards is named in the result, and does not stop the others. The cost of all LLMs is agreed to
    once, and `llm.budget_usd` holds for all models together.

    Raises:
        RecipeError: A wrong setting or target; all at once.
        RunError: No model at all could be audited, the panel's folder cannot be used, or the cost was declined.
        SpendingError: The cost was not agreed to.
    """
    planned, settings, repeated, seed = _checked(targets, terms, options)
    steps, failed = _costs(planned, settings, terms)
    opened = Opened()
    if steps:
        say(f"\n{len(planned)} models, their LLM calls together")
        confirm_all(steps, terms.consent, opened)
    is_priced = any(price_of(llm) for llm, _ in steps)
    purse = Purse(own_folder(_folder(terms, planned) / FOLDER)) if is_priced else None
    agreed = replace(terms, confirm=True) if steps else terms
    failed |= _failures(
        [each for each in planned if each.name not in failed], settings, agreed, purse, agreed_calls(opened)
    )
    if purse is not None and purse.n_calls:
        say(f"\n{purse.n_calls:,} LLM calls for ${purse.spent:,.2f}, in all starts")
    done = [each.run for each in planned if each.name not in failed]
    if not done:
        raise _none_left(failed)
    panel = shown(Panel, run_panel(done, _folder(terms, planned), seed, failed, repeated, options["figures"]))
    panel._runs = tuple(done)
    return panel


def plan_panel(targets: Sequence[Model], terms: Terms, options: AuditArguments, full: bool = False) -> PanelPlan:
    """Check everything, and say the plan of every audit; do nothing. Raises as `audit_panel`, RunError if any model fails."""
    planned, settings, _, _ = _checked(targets, terms, options)
    plans: dict[str, Plan] = {}
    if failed := _failures(
        planned, settings, terms, plan=lambda name, loaded: plans.update({name: planned_run(loaded, full)})
    ):
        raise _none_left(failed)
    with noting():
        steps, _ = _costs(planned, settings, terms)
    if steps:
        say("\nLLM calls of all models")
        tell_costs(steps)
    say(f"\npanel       {_folder(terms, planned)}\n\n{NOTHING_DONE}")
    return PanelPlan(models=plans, folder=_folder(terms, planned))


def _none_left(failed: Mapping[str, str]) -> RunError:
    return RunError("\n".join(f"{name}: {problem}" for name, problem in failed.items()))


def _checked(
    targets: Sequence[Model], terms: Terms, options: AuditArguments
) -> tuple[list[_Planned], dict[str, object], list[str], int]:
    """Models with their folders, the settings of all, targets that were repeated, and the seed."""
    once, repeated = _distinct(targets)
    files = {
        f"audit.{name}": (name, rows if rows is None else as_reference(rows, name, terms.inputs))
        for name, rows in audited(options).items()
    }
    settings = terms.nested(files, options["biases"])
    planned, seed = _planned(once, settings, terms)
    return planned, settings, repeated, seed


def _costs(
    planned: Sequence[_Planned], settings: Mapping[str, object], terms: Terms
) -> tuple[list[Step], dict[str, str]]:
    """The LLM calls of all models, those that several have in common once; and problems of models that would ask an LLM and
    cannot be audited, by name."""
    steps: list[Step] = []
    failed: dict[str, str] = {}
    for each in planned:
        if each.target is None:
            continue
        try:
            with _loaded(each, each.target, settings, terms) as loaded:
                own = planned_calls(loaded)
                if own:
                    planning.check(loaded)
        except Exception as error:
            failed[each.name] = _problem(each.name, error)
        else:
            steps += [step for step in own if step not in steps]
    return steps, failed


def _carried_out(_: str, loaded: LoadedRecipe) -> None:
    carry_out(loaded)


def _failures(
    planned: Sequence[_Planned],
    settings: Mapping[str, object],
    terms: Terms,
    purse: Purse | None = None,
    calls: Agreed | None = None,
    plan: Callable[[str, LoadedRecipe], None] | None = None,
) -> dict[str, str]:
    """Audit the models one after the other, paying from one purse; problems by name of those that failed. With `plan` only
    check and plan them."""
    failed: dict[str, str] = {}
    for number, each in enumerate(planned, 1):
        if each.target is None:
            say(f"\n[{number}/{len(planned)}] {each.name}: a finished run, read as it is")
            continue
        say(f"\n[{number}/{len(planned)}] {each.name}")
        try:
            with _loaded(each, each.target, settings, terms) as loaded:
                share_purse(loaded, purse, calls)
                (plan or _carried_out)(each.name, loaded)
        except Exception as error:
            failed[each.name] = _problem(each.name, error)
            say(f"  failed: {failed[each.name]}")
    return failed


def _resolved(path: str) -> str:
    return str(user_path(path).resolve()) if is_there(user_path(path)) else path


def _distinct(targets: Sequence[Model]) -> tuple[list[Model], list[str]]:
    """Each target once, whatever way a path is written; and the names of those that were repeated."""
    if not targets:
        raise RecipeError(["give at least one model"])
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


def _planned(targets: Sequence[Model], settings: Mapping[str, object], terms: Terms) -> tuple[list[_Planned], int]:
    """Name and folder of every model, and the seed; RecipeError carries every mistake in settings and targets."""
    problems: list[str] = []
    planned: list[_Planned] = []
    seed = 42
    for target in targets:
        if isinstance(target, str | PathLike) and is_finished_audit(str(target)):
            planned.append(_Planned(str(target), user_path(Path(target)), None))
            continue
        problems += refuse_results(target)
        try:
            if isinstance(target, str) and is_recipe(target):
                raise RecipeError(
                    [f"{terms.where}: {target} is a recipe: train it, and give the folder of its run here"]
                )
            with loaded_for_model(target, settings, terms) as loaded:
                recipe = loaded.recipe
            seed = recipe.seed
            if recipe.run.folder not in (None, str(terms.out)):
                problems.append(
                    f"{terms.where}: run.folder: names the folder of one run; that of several is `out`, or --out"
                )
            own = user_path(terms.out) / recipe.name if terms.out is not None else recipe.run_path
            name = recipe.model.name_or_path
            if not isinstance(target, str | PathLike) and any(each.name == name for each in planned):
                problems.append(f"{terms.where}: two objects of the name {name}; rename one of the functions")
            if any(each.run == own for each in planned):  # org/model and org-model
                own = own.with_name(f"{own.name}-{fingerprint(name)[:6]}")
            planned.append(_Planned(name, own, target))
        except RecipeError as error:
            problems += error.problems
    if problems:
        raise RecipeError(dict.fromkeys(problems))
    return planned, seed


@contextmanager
def _loaded(planned: _Planned, target: Model, settings: Mapping[str, object], terms: Terms) -> Iterator[LoadedRecipe]:
    """The settings of one model's audit, in its own folder."""
    placed = {**settings, "run": {"folder": str(planned.run)}}
    with loaded_for_model(target, placed, replace(terms, out=planned.run)) as loaded:
        yield loaded


def _problem(name: str, error: Exception) -> str:
    """An error of this model in words, which name it no second time; raises those that no user can act on."""
    problem = explain(error)
    if problem is None:
        raise error
    return "; ".join(line.removeprefix(f"{name}: ") for line in problem.splitlines())


def _folder(terms: Terms, planned: Sequence[_Planned]) -> Path:
    """`panel` in the folder that was given; else a name of the models' and a fingerprint of their folders."""
    if terms.out is not None:
        return user_path(terms.out) / "panel"
    names = "-".join(each.run.name.removeprefix("audit-") for each in planned)
    mark = fingerprint(sorted(str(each.run) for each in planned))[:6]
    return RUNS / f"panel-{names[:_LONGEST].strip('-.')}-{mark}"
