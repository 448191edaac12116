"""`cda audit`: a model or judge as it is, or a recipe before and after its training; `cda compare`, which of
several; and `cda report`, of a recipe or of a finished run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from cda.cli import complete
from cda.cli.app import MEASURE, SHOW, TARGET, Call, job, settings_apart
from cda.cli.output import Output
from cda.cli.recipes import AUDITED_FILES, finish, run_until
from cda.errors import RecipeError, RunError
from cda.jobs.options import AuditArguments
from cda.launch import is_main

Export = Annotated[
    str | None,
    Option(help="Also write each audit as one row to share, for `cda compare FOLDER`: a .json file, or a folder/."),
]


@job(
    MEASURE,
    "biases contrasts votes verdicts quality triples by out export check_reward fail_if only fresh limit seed columns figures",
    AuditArguments,
)
def audit(
    call: Call,
    targets: Annotated[
        list[str],
        Argument(
            help=f"{TARGET} Or a recipe: that is audited before and after its training. And section.key=value, as many as you like.",
            autocompletion=complete.models,
        ),
    ],
    export: Export = None,
    check_reward: Annotated[
        tuple[str, str, float] | None,
        Option(
            metavar="PROMPT RESPONSE REWARD",
            help="No audit: score this one text alone, show how the model reads it, and end with exit code 1 unless its reward is this "
            "number, such as one on the model's card. PROMPT may be messages as JSON.",
        ),
    ] = None,
    **options: Any,
) -> None:
    """Measure a reward model or judge as it is; with a recipe, before and after its training."""
    words, models = settings_apart(targets)
    if check_reward is not None:
        unused = [f"--{name}" for name in call.given if name not in ("check-reward", "seed")]
        _check_reward(call.output, models, check_reward, call.words(words), unused)
        return
    from cda.api.comparing import check_export
    from cda.api.runs import audit_run
    from cda.recipe.load import is_recipe

    check_export(export)
    if len(models) != 1:
        raise RecipeError(
            [f"cda audit takes one model, and found {len(models)}; several: cda compare {' '.join(models) or 'A B …'}"]
        )
    (target,) = models
    if is_recipe(target):
        own = {name: options[name] for name in ("out", "limit", "fresh")}
        call.refuse("not with a recipe, which says it itself; use {setting}=...", *own, of=AuditArguments)
        if options["figures"] is not None:
            raise RecipeError([
                f"--figures: not with a recipe, whose report has them: cda report {target} --figures {options['figures']}"
            ])  # fmt: skip
        run_until(call, target, words, "audit", call.only, export, **own)
        return
    terms = call.terms("cda.audit", AuditArguments, options, words, *AUDITED_FILES)
    finish(call, audit_run(target, terms), terms, export=export)


def _check_reward(
    output: Output, models: Sequence[str], given: tuple[str, str, float], words: Sequence[str], unused: Sequence[str]
) -> None:
    """Compare the reward of one text with a known number; RecipeError for several models, or with `unused` options of an audit."""
    from cda.api.rewards import check_text, reward_function
    from cda.data.tables import columns_of_messages

    if len(models) != 1 or unused:
        found = ", ".join(unused) if unused else f"there are {len(models)} models"
        raise RecipeError([f"--check-reward: takes one model and its settings, and makes no audit; found {found}"])
    prompt, response, expected = given
    (row,) = columns_of_messages([{"prompt": prompt}], "--check-reward")
    with reward_function(models[0], overrides=words) as reward:
        check = reward.check(row["prompt"], response, expected)  # type: ignore[arg-type]  # it checks what it gets
    output.show(check, check_text(check))
    if not check.passed:
        output.fail([f"--check-reward: {check.reward:.6g}, and {expected:.6g} ± {check.tolerance:.2g} was expected"])


@job(
    SHOW,
    "biases contrasts votes verdicts quality triples by out export fail_if fresh limit seed columns figures",
    AuditArguments,
)
def compare(
    call: Call,
    targets: Annotated[
        list[str],
        Argument(
            help=f"{TARGET} Folders of finished runs, files of audits, rows that `--export` wrote, or folders of these. And "
            "section.key=value, as many as you like.",
            autocompletion=complete.models,
        ),
    ],
    export: Export = None,
    **options: Any,
) -> None:
    """Which of these? Models, audited now on the same texts, finished audits and shared rows next to each other."""
    words, models = settings_apart(targets)
    from cda.api.comparing import check_export, compare_targets, export_rows, plan_comparison

    check_export(export, several=True)
    terms = call.terms("cda.compare", AuditArguments, options, words, *AUDITED_FILES)
    if call.output.dry_run:
        call.output.show(plan_comparison(models, terms, call.output.full), "")
        return
    comparison = compare_targets(models, terms)
    call.output.show(comparison, f"\n{comparison.summary}")
    export_rows(comparison, export)
    if terms.conditions and is_main():
        call.output.fail(comparison.failures(*(condition.text for condition in terms.conditions)))
    if comparison.failed:
        n = len(comparison.audits) + len(comparison.failed)
        raise RunError(f"{len(comparison.failed)} of {n} models could not be audited: {', '.join(comparison.failed)}")


@job(SHOW, "only out limit seed columns figures")
def report(
    call: Call,
    recipe: Annotated[str, Argument(help="A recipe, or the folder of a finished run.")],
    overrides: Annotated[list[str] | None, Argument(help="section.key=value, as many as you like.")] = None,
    out: Annotated[
        str | None,
        Option(help="Of a recipe: folder of the run. Of a run's folder: another folder for its report."),
    ] = None,
) -> None:
    """Draw the report, after running whatever is missing for it; or that of a finished run's folder."""
    if Path(recipe).expanduser().is_dir():
        why = f"only with a recipe; {recipe} is the folder of a run, whose report is drawn as it is"
        call.refuse(why.replace("{", "{{").replace("}", "}}"), "out", "figures")
        _redrawn(call, recipe, overrides or [], out)
    elif out is not None and Path(out).suffix == ".html":
        raise RecipeError([f"--out {out}: of a recipe it is the folder of the run"])
    else:
        run_until(call, recipe, overrides, "report", call.only, out=out)


def _redrawn(call: Call, folder: str, words: list[str], out: str | None) -> None:
    """Draw the report of a finished run anew."""
    from cda.quiet import quiet_libraries

    quiet_libraries()
    from cda.api.results import Run
    from cda.files.paths import user_path
    from cda.pipeline.stages import redraw

    redraw(folder, words, call.figures, out)
    call.output.show(lambda: Run(user_path(folder)).audit, "")
