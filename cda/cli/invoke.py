"""From the words of a command to a resolved recipe and its stages. Imports nothing heavy until a stage runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cda.user_errors import user_errors

if TYPE_CHECKING:
    from cda.recipe.load import LoadedRecipe


def run_recipe(
    recipe: str,
    overrides: list[str],
    last: str,
    dry_run: bool = False,
    only: bool = False,
    yes: bool = False,
    figures: str | None = None,
) -> None:
    """Resolve a recipe and run its stages up to `last`; a user's mistake ends in a message and a status.

    With `figures` (svg, pdf), the report's figures are written as files of this format as well.
    """
    with user_errors():
        from cda.recipe.load import load_recipe

        _run(lambda: load_recipe(recipe, overrides), last, dry_run, only, yes, figures)


# Options of `cda audit MODEL`, and the recipe setting that each of them is.
_AUDIT_OPTIONS = {
    "bias": ("biases",),
    "pairs": ("audit", "contrasts"),
    "votes": ("audit", "votes"),
    "verdicts": ("audit", "verdicts"),
    "quality": ("audit", "quality"),
    "triples": ("audit", "triples"),
    "out": ("run", "folder"),
}


def run_audit(
    target: str,
    overrides: list[str],
    options: dict[str, Any],
    dry_run: bool = False,
    only: bool = False,
    yes: bool = False,
    figures: str | None = None,
) -> None:
    """Audit a model, a judge or a recipe; a user's mistake ends in a message and a status."""
    with user_errors():
        from cda.errors import RecipeError
        from cda.recipe.load import is_recipe, load_model_audit

        if is_recipe(target):
            if options:
                raise RecipeError(
                    f"--{name}: not with a recipe, which says it itself; use {'.'.join(_AUDIT_OPTIONS[name])}=..."
                    for name in options
                )
            if figures is not None:
                raise RecipeError(
                    [f"--figures: not with a recipe, whose report has them: cda report {target} --figures {figures}"]
                )
            run_recipe(target, overrides, "audit", dry_run, only, yes)
            return
        settings: dict[str, Any] = {}
        for name, value in options.items():
            section, *key = _AUDIT_OPTIONS[name]
            value = None if name in ("quality", "triples") and value == "none" else value
            if key:
                settings.setdefault(section, {})[key[0]] = value
            else:
                settings[section] = value
        load = partial(load_model_audit, target, settings, overrides)
        _run(load, "report", dry_run, only=False, yes=yes, figures=figures)


def asked_model(
    target: str,
    overrides: list[str],
    what: str,
    out: str | None,
    beside: Mapping[str, object] | None = None,
    settings: Sequence[object] = (),
) -> tuple[LoadedRecipe, Path]:
    """Settings of a model that is asked outside a run, and the folder for what it says.

    Args:
        target: The model.
        overrides: `section.key=value` words.
        what: First word of the folder's name.
        out: The folder, where the user named one.
        beside: What else was asked for, such as an adapter or files, each under a word that stands before it in the
            folder's name: what is asked about another one goes elsewhere. None is left out.
        settings: What else decides the answer: other settings go elsewhere too. Empty ones are left out.

    Raises:
        RecipeError: A setting is wrong or says nothing here, or the target is a recipe.
    """
    from dataclasses import replace

    from cda.errors import RecipeError
    from cda.files.paths import user_path
    from cda.launch import use_all_cores
    from cda.quiet import quiet_libraries
    from cda.recipe.load import is_recipe, load_model_audit
    from cda.resources.artifacts import told_apart

    use_all_cores()
    quiet_libraries()
    problems = [
        f"{word}: says nothing here, where files are named on the command line; see --column and --split"
        for word in overrides
        if word.partition("=")[0].partition(".")[0] == "data"
    ]
    if is_recipe(target):
        problems.append(f"{target}: a recipe; give a model (hub id, folder, `embedded`, judge:NAME, …)")
    if problems:
        raise RecipeError(problems)
    loaded = load_model_audit(target, {"run": {"folder": out}} if out else {}, overrides)
    recipe = loaded.recipe
    name = f"{what}-{recipe.name.removeprefix('audit-')}{told_apart(target, beside or {}, [str(one) for one in settings if one])}"
    folder = recipe.run.folder or f"runs/{name}"
    # What is kept of an unfinished call lies beside its results, and nothing of another call does.
    run = recipe.run.model_copy(update={"folder": folder})
    return replace(loaded, recipe=recipe.model_copy(update={"run": run})), user_path(folder)


def columns_of(words: Sequence[str]) -> dict[str, str]:
    """Our columns to the user's, from the words of `--column ours=theirs`.

    Raises:
        RecipeError: A word of another form, or two for one column.
    """
    from cda.errors import RecipeError

    found: dict[str, str] = {}
    problems = []
    for word in words:
        ours, _, theirs = word.partition("=")
        if not (ours and theirs):
            problems.append(f"--column {word}: has the form ours=theirs, such as prompt=question")
        elif found.setdefault(ours, theirs) != theirs:
            problems.append(f"--column {ours}: given as '{found[ours]}' and as '{theirs}'")
    if problems:
        raise RecipeError(problems)
    return found


def _run(
    load: Callable[[], LoadedRecipe], last: str, dry_run: bool, only: bool, yes: bool, figures: str | None = None
) -> None:
    from dataclasses import replace

    from cda.launch import is_main, say, use_all_cores
    from cda.quiet import quiet_libraries

    use_all_cores()
    quiet_libraries()
    if figures is not None:
        from cda.resources.artifacts import checked_form

        checked_form(figures)
    from cda.pipeline import plan as planning

    loaded = replace(load(), confirmed=yes)
    if dry_run:
        if is_main():
            planning.check(loaded)
            say(f"{planning.describe(loaded)}\n\n{planning.plan(loaded)}")
        return
    from cda.pipeline.stages import run_stages

    run_stages(loaded, last, only, figures)
