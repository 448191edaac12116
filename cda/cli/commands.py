"""The commands, a function or a declaration each, in the order of `cda --help`, and how `cda launch` starts one. What a command is
and has in common with others says `cda.cli.app`."""

from __future__ import annotations

import logging
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from typer import Argument, Option

from cda import __version__
from cda.cli import complete
from cda.cli.app import (
    ALWAYS,
    LOOK_UP,
    MAKE,
    MEASURE,
    SHOW,
    TARGET,
    TRAIN,
    Call,
    Output,
    Overrides,
    Recipe,
    app,
    columns_of,
    job,
    settings_apart,
)
from cda.errors import RecipeError, RunError, did_you_mean
from cda.files.paths import is_a_file, near_path, user_path
from cda.files.shipped import FOLDERS, shipped
from cda.jobs import options as declared
from cda.launch import is_main, say
from cda.records import PERCENT
from cda.terminal import put, quiet_libraries
from cda.user_errors import user_errors

if TYPE_CHECKING:
    from cda.pipeline.stages import Run

_NO_SPACE = "    [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *[=:] ]] && compopt -o nospace\n"
SHELLS = ("bash", "zsh", "fish")
AUDITED_FILES = ("contrasts", "triples", "quality", "samples")
TRAINED_FILES = ("pairs", "supplement", "taught", *AUDITED_FILES)
Votes = Annotated[str | None, Option(help="People's votes on the contrasts: id and vote, any number an item.")]
Export = Annotated[
    str | None,
    Option(help="Also write each audit as one row to share, for `cda compare FOLDER`: a .json file, or a folder/."),
]
Scorer = Annotated[str, Argument(help=TARGET)]


def run_until(
    call: Call,
    recipe: str,
    overrides: Sequence[str] | None,
    until: str,
    only: bool = False,
    export: str | None = None,
    **options: Any,
) -> None:
    """Run a recipe's stages up to one, with other options than the call's if they are given, and finish with its result."""
    from cda.api.runs import train_run

    given = {"until": until, "only": only, "out": call.out, "limit": call.limit, "figures": call.figures, **options}
    files = AUDITED_FILES if until == "audit" else TRAINED_FILES
    terms = call.terms("cda.train", declared.TrainArguments, given, overrides or (), *files)
    finish(call, train_run(recipe, terms), until, export)


def finish(call: Call, run: Run, until: str = "audit", export: str | None = None) -> None:
    """Show the result of a run up to a stage, and hold its audit against the conditions of --fail-if."""
    from cda.auditing.conditions import failures
    from cda.comparing.compare import export_rows

    if export is not None:
        export_rows(run.audit, export)
    call.output.show((lambda: run.audit) if until == "audit" else lambda: run.outcome(until), "")
    if until in ("audit", "report") and call.conditions and is_main():
        call.output.fail(failures(run.audit, call.conditions))


@job(TRAIN, "fail_if only limit seed columns out")
def train(call: Call, recipe: Recipe, overrides: Overrides = None) -> None:
    """The whole job: label, synthesize, finetune, dose, audit and report; with --only, the finetuning alone."""
    if call.only and call.fail_if:
        raise RecipeError(["--fail-if: not with --only, which trains without an audit"])
    run_until(call, recipe, overrides, "train" if call.only else "report", call.only)


@job(TRAIN, "limit seed columns out", declared.LabelArguments)
def label(
    call: Call,
    target: Annotated[
        str,
        Argument(
            help="A recipe, as for `cda train`; or preference pairs by themselves, as for `cda data`.",
            autocompletion=complete.recipes,
        ),
    ],
    overrides: Overrides = None,
    **options: Any,
) -> None:
    """Load and clean the pairs of a recipe, or of a file, and label each side for the bias."""
    from cda.data.load import is_data
    from cda.recipe.load import is_recipe

    if is_recipe(target) or not is_data(target):
        call.refuse(
            {
                "bias": "only with a file of pairs; use biases=...",
                "split": "only with a file of pairs; use data.split=...",
            }
        )
        run_until(call, target, overrides, "label", **{name: options[name] for name in ("out", "limit")})
        return
    from cda.api.benchmarks import label_file
    from cda.report.next_step import after_labels

    counts, out = label_file(target, columns_of(call.columns or ()), **options, **call.paid(overrides))
    step = after_labels(out, options["biases"] or (), call.columns or ())
    call.output.show(counts, "\n".join([f"Written: {out}", *step.lines()]))


@job(TRAIN, "only limit seed columns out")
def synthesize(call: Call, recipe: Recipe, overrides: Overrides = None) -> None:
    """Rewrite rejected responses so that they carry the bias."""
    run_until(call, recipe, overrides, "synthesize", call.only)


@job(TRAIN, "against votes biases contrasts quality only out limit seed columns figures", declared.DoseArguments)
def dose(
    call: Call,
    target: Annotated[
        str,
        Argument(
            help="A recipe with people's votes; or with --against the model before debiasing, such as scores:before.jsonl.",
            autocompletion=complete.recipes,
        ),
    ],
    overrides: Overrides = None,
    against: Annotated[
        str | None, Option(help="No recipe: mix TARGET's rewards with those of this model, after debiasing.")
    ] = None,
    votes: Votes = None,
    **options: Any,
) -> None:
    """Choose by people's votes how much of an adapter to apply; or how far to go from one model's rewards to another's."""
    if against is None:
        of_models = ("votes", "bias", "contrasts", "quality")
        call.refuse(dict.fromkeys(of_models, "only with --against; a recipe has settings for it"))
        own = {name: options[name] for name in ("out", "limit", "figures")}
        run_until(
            call, target, [*(overrides or []), "dose.on=yes"], "dose" if call.only else "report", call.only, **own
        )
        return
    from cda.api.benchmarks import dose as chosen

    if call.only:
        raise RecipeError(["--only: only with a recipe"])
    paid = call.paid(overrides, "contrasts", "quality")
    call.output.show(chosen(target, against, votes, **options, **paid))


@job(
    TRAIN, "votes biases contrasts quality out limit seed columns figures", declared.CalibrateArguments,
    does="cda.api.benchmarks:calibrate", files=("contrasts", "quality"),
)  # fmt: skip
def calibrate(model: Scorer, overrides: Overrides = None, votes: Votes = None) -> None:
    """Correct a judge or reward model that cannot be trained: offsets and slopes that people's votes choose."""


@job(
    MEASURE,
    "biases contrasts votes verdicts quality triples samples by out export check_reward fail_if only fresh limit seed columns figures",
    declared.AuditArguments,
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
    from cda.api.runs import audit_run
    from cda.comparing.compare import check_export
    from cda.recipe.load import is_recipe

    check_export(export)
    if len(models) != 1:
        raise RecipeError(
            [f"cda audit takes one model, and found {len(models)}; several: cda compare {' '.join(models) or 'A B …'}"]
        )
    (target,) = models
    if is_recipe(target):
        own = {name: options[name] for name in ("out", "limit", "fresh")}
        call.refuse({
            option.word(name): f"not with a recipe, which says it itself; use {option.arg.setting}=..."
            for name, option in declared.options_of(declared.AuditArguments).items()
            if option.arg.setting and name not in own
        })  # fmt: skip
        if options["figures"] is not None:
            raise RecipeError([
                f"--figures: not with a recipe, whose report has them: cda report {target} --figures {options['figures']}"
            ])  # fmt: skip
        run_until(call, target, words, "audit", call.only, export, **own)
        return
    terms = call.terms("cda.audit", declared.AuditArguments, options, words, *AUDITED_FILES)
    finish(call, audit_run(target, terms), export=export)


def _check_reward(
    output: Output, models: Sequence[str], given: tuple[str, str, float], words: Sequence[str], unused: Sequence[str]
) -> None:
    """Compare the reward of one text with a known number; RecipeError for several models, or with `unused` options of an audit."""
    from cda.api.runs import reward_function
    from cda.data.tables import columns_of_messages
    from cda.resources.reward_function import check_text

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
    "biases contrasts votes verdicts quality triples samples by out export fail_if fresh limit seed columns figures",
    declared.AuditArguments,
)
def compare(
    call: Call,
    targets: Annotated[
        list[str],
        Argument(
            help=f"{TARGET} Folders of finished runs, files of audits, rows that `--export` wrote, or folders of these; or folders "
            "of discoveries. And section.key=value, as many as you like.",
            autocompletion=complete.models,
        ),
    ],
    export: Export = None,
    **options: Any,
) -> None:
    """Which of these? Models, audited now on the same texts, finished audits and shared rows next to each other."""
    words, models = settings_apart(targets)
    from cda.comparing.compare import check_export, compare_targets, export_rows, plan_comparison
    from cda.comparing.discoveries import discoveries_at
    from cda.results.comparison import DiscoveriesResult

    check_export(export, several=True)
    if discoveries_at(models):
        call.refuse(dict.fromkeys(("export", "fail-if"), "only with audits, not with discoveries"))
    terms = call.terms("cda.compare", declared.AuditArguments, options, words, *AUDITED_FILES)
    if call.output.dry_run:
        call.output.show(plan_comparison(models, terms, call.output.full), "")
        return
    comparison = compare_targets(models, terms)
    call.output.show(comparison, f"\n{comparison.summary}")
    if isinstance(comparison, DiscoveriesResult):
        return
    export_rows(comparison, export)
    if call.conditions and is_main():
        call.output.fail(comparison.failures(*(condition.text for condition in call.conditions)))
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
        call.refuse(dict.fromkeys(("only", "limit", "seed", "column"), why))
        quiet_libraries()
        from cda.pipeline.stages import redraw

        run = redraw(recipe, overrides or [], call.figures, out)
        call.output.show(lambda: run.audit, "")
    elif problem := _no_run(recipe):
        raise RecipeError([problem])
    elif out is not None and Path(out).suffix == ".html":
        raise RecipeError([f"--out {out}: of a recipe it is the folder of the run"])
    else:
        run_until(call, recipe, overrides, "report", call.only, out=out)


def _no_run(target: str) -> str | None:
    """The mistake of naming a file of a run, or what is neither a folder nor a recipe, where a run's folder is meant."""
    from cda.recipe.load import is_recipe
    from cda.run import MANIFEST

    path = user_path(target)
    if is_recipe(target):
        return None
    if run := next((folder for folder in path.parents if is_a_file(folder / MANIFEST)), None):
        return f"{target}: in the folder of a run; give that folder: cda report {run}"
    if is_a_file(path):
        return f"{target}: a file; give the folder of a finished run, or a recipe (.yaml)" if path.suffix else None
    if "/" not in target:
        return None  # a recipe's name, misspelt: that is said where recipes are found
    close = near_path(target)
    hint = f" Did you mean '{close}'?" if close else ""
    return f"{target}: no such folder.{hint} Give the folder of a finished run, or a recipe"


@job(MEASURE, "seed", declared.DataArguments, does="cda.api.benchmarks:audit_data")
def data(
    pairs: Annotated[str, Argument(help="Preference pairs in TRL's format, or `embedded`.")],
    overrides: Overrides = None,
) -> None:
    """What a reward model would learn of each bias from preference pairs, before anything is trained."""


@job(MEASURE, "seed columns", declared.QualityArguments, does="cda.api.benchmarks:quality", files=("quality",))
def quality(
    model: Scorer,
    files: Annotated[
        list[str],
        Argument(
            help="Preference files: RewardBench 1 or 2, RM-Bench, LLMBar, pairs in TRL's format, or `embedded`; and "
            "section.key=value, as many as you like."
        ),
    ],
) -> None:
    """Accuracy on preference benchmarks by section, or win rate of outputs over others, before and after an adapter."""


@job(MEASURE, "seed", declared.BestOfArguments, ALWAYS, "best-of", does="cda.api.benchmarks:best_of")
def best_of(
    model: Scorer,
    responses: Annotated[str, Argument(help="Sampled responses: prompt and responses, or prompt and response.")],
    overrides: Overrides = None,
) -> None:
    """How prevalent each bias is among the best of n responses, and in a policy tilted to the reward, before and after an adapter."""


@job(MEASURE, "", declared.ScoreArguments, does="cda.api.benchmarks:score")
def score(
    model: Scorer,
    files: Annotated[
        list[str],
        Argument(
            metavar="DATA…",
            help="Rows of prompt and response, of prompt, chosen and rejected, or of messages: files, patterns in quotation marks "
            "('shards/*.jsonl'), folders or a hub id; and section.key=value, as many as you like.",
        ),
    ],
) -> None:
    """Reward of every row of any number of rows, written shard by shard by one process or many; goes on after a kill."""


@job(MEASURE, "seed columns", declared.DiscoverArguments)
def discover(call: Call, model: Scorer, overrides: Overrides = None, **options: Any) -> None:
    """Find attributes that the model rewards and a judge does not, confirm them on unseen prompts, write bias files."""
    from cda.api.runs import discover as search
    from cda.results.commands import Plan

    if call.output.as_json and options["review"]:
        raise RecipeError(["--json: not with --review, which has no result before the test"])
    result = search(model, **options, **call.paid(overrides, "responses"))
    # Only a search that waits for its review has no result.
    call.output.show(Plan(settings={}, lines=()) if isinstance(result.found, str) else result.found, result.summary)


@app.command(rich_help_panel=TRAIN, context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
def launch(
    words: Annotated[
        list[str],
        Argument(
            metavar="WORDS…",
            help="Options of `accelerate launch` (--num_processes 2, --config_file FILE, …), then a command of cda with its own.",
        ),
    ],
) -> None:
    """Run a command on several processes or GPUs, as `accelerate launch -m cda` does, without its warnings and tracebacks."""
    with user_errors():
        start(words)


@job(
    MEASURE, "limit html prompts dry_run full columns", declared.InspectOptions,
    does="cda.inspection.inspect:inspect_rewrites", files=("triples",),
)  # fmt: skip
def inspect(
    target: Annotated[
        str,
        Argument(
            help="A run folder, a file of RATE triples, a recipe (its run's rewrites, or a few made now), or a bias (name or "
            "file; a few made now)."
        ),
    ],
    overrides: Overrides = None,
) -> None:
    """Look at rewrites: original and rewrite side by side, label, reward, drift, gate, and phrases that recur."""


@job(
    MAKE,
    "limit seed columns",
    declared.TriplesOptions,
    does="cda.counterfactuals.triples:write_triples",
    files=("triples",),
)
def triples(
    out: Annotated[str, Argument(help="Where the triples go: a .jsonl file.")], overrides: Overrides = None
) -> None:
    """Make RATE triples to audit on: each answer rewritten to flip the bias, and rewritten back."""


@job(MAKE, end=ALWAYS)
def texts(
    call: Call,
    out: Annotated[str, Argument(help="New folder for them.")],
    form: Annotated[
        str, Option("--format", help="jsonl, or datasets (folders for datasets.load_from_disk).")
    ] = "jsonl",
    run: Annotated[
        str | None,
        Option(
            help="Folder of a finished audit: the contrasts that it made by rules, an LLM or from triples, to edit."
        ),
    ] = None,
) -> None:
    """Write the embedded texts (contrasts, quality and training pairs), or the contrasts that an audit made, as files that need no cda."""
    from cda.embedded.texts import FORMATS, export, tables, write_tables
    from cda.jobs.perform import Job, Made, NewFolder, perform
    from cda.report.next_step import after_texts
    from cda.results.commands import Written

    if form not in FORMATS:
        raise RecipeError([f"--format {form}: there are {' and '.join(FORMATS)}"])
    folder = user_path(out)
    made = None
    if run is not None:
        from cda.auditing.audit import made_contrasts

        made = {"contrasts": made_contrasts(user_path(run))}

    def plan() -> list[str]:
        counts = {name: len(rows) for name, rows in (made or tables()).items()}
        each = ", ".join(f"{name} {n}" for name, n in counts.items())
        source = "that ship with cda" if made is None else f"that the audit of {run} made"
        return [f"texts       {sum(counts.values()):,} rows {source}: {each}"]

    def work(new: Path) -> Made[Written]:
        rows = export(new, form) if made is None else write_tables(made, new, form)
        counts = [f"{n:5} {name}" for name, n in rows.items()]
        said = f"{folder}: written{'; README.md there is their data card' if made is None else ''}"
        step = after_texts(str(folder / "contrasts.jsonl")) if form == "jsonl" and made is None else None
        lines = [*counts, said, *(step.lines() if step else ())]
        return Made(Written(folder=folder, rows=rows), remark="\n".join(lines))

    place = NewFolder(folder, "each as a table, and README.md, their data card" if made is None else "the contrasts")
    call.output.show(perform(Job(plan, work, place), None))


@job(TRAIN, "", declared.MergeOptions, ALWAYS, does="cda.pipeline.merge:merge")
def merge(
    sources: Annotated[
        list[str], Argument(help="Folders of finished runs, or of adapters; several are added together.")
    ],
) -> None:
    """Turn finished runs or adapters into one ordinary model, or one adapter, at the doses wanted."""


@job(LOOK_UP, "", declared.SampleArguments, ALWAYS, does="cda.jobs.samples:samples")
def samples(
    half_width: Annotated[float, Argument(help=f"Half of the wanted {PERCENT} interval: 0.05 for ± 5 points.")],
) -> None:
    """How many contrasts, votes and prompts an interval of the wanted width needs."""


bias = typer.Typer(no_args_is_help=True, help="A bias of your own: a file from a description in words.")
app.add_typer(bias, name="bias", rich_help_panel=MAKE)


@job(
    None,
    "seed columns",
    declared.NewBiasArguments,
    name="new",
    group=bias,
    does="cda.api.runs:new_bias",
    files=("pairs",),
)
def new(
    words: Annotated[str, Argument(help="What an answer with the bias does, in quotation marks: 'uses hedging'.")],
    overrides: Overrides = None,
) -> None:
    """Draft a bias file from words, try it on 20 pairs and in three rewrites, and say what is missing."""


study = typer.Typer(no_args_is_help=True, help="Have people judge contrasts: write a study's folder, read the answers.")
app.add_typer(study, name="study", rich_help_panel=MAKE)


@job(None, "", declared.ExportOptions, ALWAYS, "export", study, does="cda.studies.export:export_study")
def export_(
    contrasts: Annotated[
        str, Argument(help="Contrasts (prompt, base, perturbed) or RATE triples, as for `cda audit`.")
    ],
    out: Annotated[str, Argument(help="New folder for the study.")],
) -> None:
    """Write a folder with what people judge, in the form of their tool, and a key for the import."""


@job(None, end=ALWAYS, name="import", group=study)
def import_(
    call: Call,
    folder: Annotated[str, Argument(help="Folder of `cda study export`.")],
    results: Annotated[
        list[str], Argument(help="Filled tables and reports of Prolific (CSV), exports of Label Studio (JSON).")
    ],
    out: Annotated[str | None, Option(help="Where the votes go. Default: votes.jsonl in the folder.")] = None,
    min_seconds: Annotated[float, Option(help="Leave out answers given in less time. Default: none.")] = 0.0,
    attention_pass: Annotated[
        float, Option(help="Share of attention checks to be right, or the participant is left out.")
    ] = 0.75,
) -> None:
    """Check what people sent back, and write votes for `cda audit --votes` and a summary of who said what."""
    from cda.results.study import Rules
    from cda.studies.import_answers import import_study

    place = user_path(out) if out else None
    files = [user_path(path) for path in results]
    found = import_study(user_path(folder), files, place, Rules(pass_share=attention_pass, min_seconds=min_seconds))
    call.output.show(found)


@job(LOOK_UP, end="as_json", name="list")
def list_(
    call: Call,
    kind: Annotated[
        str | None,
        Argument(help="biases, recipes, models (presets) or prompts. Default: the names of all.", autocompletion=complete.kinds),
    ] = None,
) -> None:  # fmt: skip
    """List the biases, recipes, model presets or prompts that come with the package, each with its file."""
    from cda.results.commands import Name, Names

    if kind is None:
        if call.output.as_json:
            raise RecipeError([f"--json: name a kind: {', '.join(FOLDERS)}"])
        names = {each: ", ".join(name for name, *_ in shipped(each)) for each in FOLDERS}
        say("\n".join(f"{each:{max(map(len, FOLDERS))}}  {found}" for each, found in names.items()))
        say("`cda list KIND` describes each, with its file")
        return
    if kind not in FOLDERS:
        raise RecipeError([f"{kind}: nothing of this kind.{did_you_mean(kind, FOLDERS)} Known: {', '.join(FOLDERS)}"])
    found = tuple(Name(name=name, description=sentence, file=file) for name, sentence, file in shipped(kind))
    width = max(len(each.name) for each in found)
    lines = (f"{each.name:{width}}  {each.description}\n{'':{width}}  {each.file}" for each in found)
    call.output.show(Names(kind=kind, names=found), "\n".join(lines))


@job(LOOK_UP, end="as_json")
def config(
    call: Call,
    key: Annotated[
        str | None,
        Argument(help="A setting (train.learning_rate) or a section (audit). Default: all sections.",
                 autocompletion=complete.setting_names),
    ] = None,
) -> None:  # fmt: skip
    """Explain a setting of a recipe: its type, default, allowed values and meaning, and the recipes and presets that set it."""
    from cda.recipe.explain import explained, explained_text

    found = explained(key or "")
    call.output.show(found, explained_text(found))


@job(LOOK_UP, end="")
def completion(
    _: Call,
    shell: Annotated[str, Argument(help="bash, zsh or fish.", autocompletion=lambda: list(SHELLS))],
) -> None:
    """Print a script that completes commands, options, names and settings: eval "$(cda completion bash)"."""
    from typer._completion_shared import get_completion_script

    if shell not in SHELLS:
        raise RecipeError(
            [f"{shell}: no completion for this shell.{did_you_mean(shell, SHELLS)} Known: {', '.join(SHELLS)}"]
        )
    script = get_completion_script(prog_name="cda", complete_var="_CDA_COMPLETE", shell=shell)
    if shell == "bash":  # no space behind `audit.quality=` or `judge:`, which have to go on
        script = script.replace("    return 0\n", f"{_NO_SPACE}    return 0\n")
    print(script)


@job(LOOK_UP, end="as_json")
def version(call: Call) -> None:
    """Print the version."""
    from cda.results.commands import Version

    call.output.show(Version(version=__version__), __version__)


def _arguments(words: list[str]) -> Any:
    """Accelerate's arguments, with its own defaults filled in that it would warn of; a usage error ends the process with status 2."""
    from accelerate.commands.launch import launch_command_parser

    arguments = launch_command_parser().parse_args(words)
    if arguments.training_script not in _commands():
        raise RunError(
            f"cda launch: '{arguments.training_script}' is no command of cda. First the options of `accelerate launch`, then the "
            f"command: cda launch --num_processes 2 train jargon. Commands: {', '.join(sorted(_commands()))}"
        )
    arguments.module, arguments.no_python = True, False
    arguments.quiet = False  # it would end with 1, whatever the command's status
    arguments.training_script_args = [arguments.training_script, *arguments.training_script_args]
    arguments.training_script = "cda"
    if arguments.config_file is None:
        _fill(arguments)
    return arguments


def _fill(arguments: Any) -> None:
    """Set what accelerate would take anyway, and warn of; several processes on CPUs are started as on GPUs."""
    import torch
    from accelerate.commands.config.config_args import default_config_file

    if Path(default_config_file).is_file() and not arguments.cpu:
        return  # the user's own file decides
    n = arguments.num_processes if arguments.num_processes is not None else max(1, torch.cuda.device_count())
    arguments.num_processes = n
    arguments.num_machines = arguments.num_machines or 1
    arguments.mixed_precision = arguments.mixed_precision or "no"
    arguments.dynamo_backend = arguments.dynamo_backend or "no"
    others = (arguments.use_deepspeed, arguments.use_fsdp, arguments.use_megatron_lm, arguments.tpu)
    if n > 1 and not any(others):
        arguments.multi_gpu, arguments.cpu = True, False
    if arguments.num_machines == 1 and arguments.main_process_port is None:
        arguments.main_process_port = 0  # any free one: a second launch on the machine would find the default one taken


def _commands() -> set[str]:
    group = typer.main.get_command(app)
    return {name for name in getattr(group, "commands", {}) if name != "launch"}


def start(words: list[str]) -> None:
    """Start a command by the launcher, and end as it does; RunError: it is none, or options do not go together."""
    arguments = _arguments(words)
    from accelerate.commands.launch import launch_command
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

    # Ctrl-C reaches the command too, which says how to go on; the launcher waits for its end.
    signal.signal(signal.SIGINT, lambda *_: None)
    signal.signal(signal.SIGTERM, _terminate)  # of several processes, torch's launcher sets its own
    # The launchers' own warnings and errors repeat in their words what the command has said.
    logging.disable(logging.ERROR)
    try:
        launch_command(arguments)
    except subprocess.CalledProcessError as error:
        ended_by(0, error.returncode)
    except ChildFailedError as error:
        rank, failure = error.get_first_failure()
        ended_by(rank, failure.exitcode)
    except SignalException as error:
        sys.exit(128 + error.sigval)
    except (ValueError, ConnectionError) as error:  # options that do not go together, or a port that is taken
        raise RunError(f"cda launch: {error}") from None


def _terminate(*_: object) -> None:
    """Pass SIGTERM on to the command, whose end the launcher waits for; left alone, it would go on without a launcher."""
    import psutil

    children = psutil.Process().children()
    for child in children:
        with suppress(psutil.Error):  # it has just ended
            child.terminate()
    if not children:
        sys.exit(128 + signal.SIGTERM)


def ended_by(rank: int, status: int) -> NoReturn:
    """End as the command did; a process that was ended by a signal could not say anything itself."""
    if status < 0:
        name = signal.Signals(-status).name
        why = ", as the system does when memory runs out" if name == "SIGKILL" else ""
        put(f"error: process {rank} was ended by {name}{why}")
    sys.exit(status if status > 0 else 128 - status)
