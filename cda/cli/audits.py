"""`cda audit`: models and judges as they are, several next to each other, or a recipe before and after its training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from cda.cli import complete
from cda.cli.app import (
    MEASURE,
    TARGET,
    BiasOption,
    Columns,
    DryRun,
    FailIf,
    Figures,
    Fresh,
    Full,
    Json,
    Limit,
    Only,
    Seed,
    Yes,
    app,
    confirmed,
    json_word,
    settings_apart,
    with_options,
)
from cda.cli.output import Output, running
from cda.cli.recipes import AUDITED_FILES, run_until
from cda.launch import is_main

if TYPE_CHECKING:
    from cda.api.arguments import Terms


@app.command(rich_help_panel=MEASURE)
def audit(
    targets: Annotated[
        list[str],
        Argument(
            help=f"{TARGET} Several, or folders of finished runs, make a panel. Or a recipe: that is audited before and after its "
            "training. And section.key=value, as many as you like.",
            autocompletion=complete.models,
        ),
    ],
    bias: BiasOption = None,
    pairs: Annotated[str | None, Option(help="Contrasts of your own: prompt, base, perturbed.")] = None,
    votes: Annotated[str | None, Option(help="People's votes on them: id and vote, any number an item.")] = None,
    verdicts: Annotated[str | None, Option(help="LLM judges' verdicts on them, to stretch few votes (PPI++).")] = None,
    quality: Annotated[str | None, Option(help="Preference pairs for accuracy; `none` for no such check.")] = None,
    triples: Annotated[str | None, Option(help="RATE triples of your own; `none` for no RATE.")] = None,
    by: Annotated[
        list[str] | None,
        Option(
            help="A column of your contrasts or triples to compare effects by, such as a topic; several times for several."
        ),
    ] = None,
    out: Annotated[
        str | None, Option(help="Folder of the run, or of all runs of a panel. Default: runs/audit-<model>.")
    ] = None,
    export: Annotated[
        str | None,
        Option(help="Also write each audit as one row to share, for `cda leaderboard`: a .json file, or a folder/."),
    ] = None,
    check_reward: Annotated[
        tuple[str, str, float] | None,
        Option(
            metavar="PROMPT RESPONSE REWARD",
            help="No audit: score this one text alone, show how the model reads it, and end with exit code 1 unless its reward is this "
            "number, such as one on the model's card. PROMPT may be messages as JSON.",
        ),
    ] = None,
    fail_if: FailIf = None,
    only: Only = False,
    fresh: Fresh = False,
    limit: Limit = None,
    seed: Seed = None,
    column: Columns = None,
    figures: Figures = None,
    dry_run: DryRun = False,
    full: Full = False,
    as_json: Json = False,
    yes: Yes = False,
) -> None:
    """Measure reward models and judges as they are, several next to each other; with a recipe, before and after its training."""
    words, models = settings_apart(targets)
    words += [f"audit.by={json_word(by)}"] if by else []
    target = models[0] if models else ""
    files = {"contrasts": pairs, "votes": votes, "verdicts": verdicts, "quality": quality, "triples": triples}
    with running(as_json, dry_run, full) as output:
        from cda.api.arguments import Terms
        from cda.api.reports import check_export
        from cda.auditing.conditions import conditions_of
        from cda.errors import RecipeError
        from cda.recipe.load import is_recipe

        if check_reward is not None:
            others = {"bias": bias, "pairs": pairs, "by": by, "out": out, "export": export, "fail-if": fail_if, "only": only,
                      "fresh": fresh, "limit": limit, "figures": figures, **{name: files[name] for name in files if name != "contrasts"}}  # fmt: skip
            unused = [f"--{name}" for name, value in others.items() if value]
            _check_reward(output, models, check_reward, with_options(words, seed), unused)
            return
        check_export(export, len(models))
        overrides = with_options(words, seed, column, AUDITED_FILES)
        recipe = len(models) == 1 and is_recipe(target)
        terms = Terms("cda.train" if recipe else "cda.audit", {}, overrides, out, confirm=confirmed(yes), limit=limit,
                      fresh=fresh, conditions=conditions_of(fail_if or ()))  # fmt: skip
        if len(models) != 1:
            _panel(output, models, terms, bias, files, figures, export)
        elif not recipe:
            _model(output, target, terms, bias, files, figures, export)
        else:
            given = {"bias": (bias, "biases"), "pairs": (pairs, "audit.contrasts"), "by": (by, "audit.by"),
                     **{name: (files[name], f"audit.{name}") for name in ("votes", "verdicts", "quality", "triples")}}  # fmt: skip
            problems = [
                f"--{name}: not with a recipe, which says it itself; use {setting}=..."
                for name, (value, setting) in given.items()
                if value
            ]
            if figures is not None and not problems:
                problems.append(
                    f"--figures: not with a recipe, whose report has them: cda report {target} --figures {figures}"
                )
            if problems:
                raise RecipeError(problems)
            run_until(output, target, terms, "audit", only, export=export)


def _check_reward(
    output: Output, models: Sequence[str], given: tuple[str, str, float], words: Sequence[str], unused: Sequence[str]
) -> None:
    """Compare the reward of one text with a known number; RecipeError for several models, or with `unused` options of an audit."""
    from cda.api.rewards import check_text, reward_function
    from cda.data.tables import columns_of_messages
    from cda.errors import RecipeError

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


def _model(
    output: Output,
    target: str,
    terms: Terms,
    bias: list[str] | None,
    files: Mapping[str, str | None],
    figures: str | None,
    export: str | None,
) -> None:
    """Audit one model as it is."""
    from cda.api.reports import export_run
    from cda.api.runs import audit_run
    from cda.auditing.conditions import failures

    run = audit_run(target, terms, bias, **files, figures=figures)
    export_run(run, export)
    output.show(lambda: run.audit, "")
    if terms.conditions and is_main():
        output.fail(failures(run.audit, terms.conditions))


def _panel(
    output: Output,
    models: Sequence[str],
    terms: Terms,
    bias: list[str] | None,
    files: Mapping[str, str | None],
    figures: str | None,
    export: str | None,
) -> None:
    """Audit several models; RunError if one could not be audited, after the others."""
    from cda.api.panels import audit_panel, plan_panel
    from cda.api.reports import export_run
    from cda.errors import RunError

    if output.dry_run:
        output.show(plan_panel(models, terms, bias, files, output.full), "")
        return
    panel = audit_panel(models, terms, bias, files, figures)
    output.show(panel, f"\n{panel.summary}")
    export_run(panel, export)
    if terms.conditions and is_main():
        output.fail(panel.failures(*(condition.text for condition in terms.conditions)))
    if panel.failed:
        n = len(panel.models) + len(panel.trainings) + len(panel.failed)
        raise RunError(f"{len(panel.failed)} of {n} models could not be audited: {', '.join(panel.failed)}")
