"""`cda quality`: accuracy of a scorer on preference files, before and after an adapter or beside a second model.

Reads the files, scores every distinct text once, writes quality.json (every number), report.html and
quality.md (drawn from it), scores.jsonl (every item with its scores) and, under rewardbench/, the result files that RewardBench's own tools read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product
from pathlib import Path
from shutil import rmtree

import numpy as np

from cda.config.load import LoadedRecipe, is_recipe, load_model_audit
from cda.data.quality_sets import QualitySet
from cda.data.quality_sets_rows import QualityItem
from cda.errors import DataError, RecipeError
from cda.files.jsonl import write_json, write_jsonl, write_text
from cda.files.paths import own_folder, refuse_link
from cda.launch import is_main, say
from cda.metrics.quality import measure, with_holm
from cda.metrics.quality_rules import Ranked, Rule
from cda.records import count_reasons, prompt_id
from cda.report.quality_files import rewardbench_files
from cda.report.quality_page import quality_page, quality_page_plots
from cda.report.quality_text import quality_markdown, quality_summary
from cda.results.benchmarks import QualityResult, SetQuality
from cda.results.saved import save
from cda.run import versions
from cda.score.compared import Compared, Comparison, Rewards
from cda.score.protocols import FloatArray
from cda.stages.audit_quality import set_quality
from cda.stages.figures import checked_form, write_figures
from cda.stages.out_folder import out_folder
from cda.stages.quality_names import named_sets, public_names, quality_scoring
from cda.stages.rows import prompt_row
from cda.stages.scorers import compare, shared_folder
from cda.stages.shown import told_apart
from cda.stages.sources import load_quality_source, source_fingerprint
from cda.stages.subjects import asked_subjects, check_subject

RESULT, SCORES, REWARDBENCH = "quality.json", "scores.jsonl", "rewardbench"
PAGE, TABLES = "report.html", "quality.md"
TOO_LONG, SAME = "a text is too long for the model", "both sides read the same after the cut"
NO_VERDICT, NO_PARTNER = "no readable verdict", "its partner in Ties has no score"
_RULES: Mapping[str, Rule] = {"rewardbench-2": "best-of", "rm-bench": "styles"}


@dataclass(frozen=True, slots=True)
class QualityOptions:
    """What `cda quality` was asked for.

    Attributes:
        adapter: Folder of an adapter, or of a finished run.
        against: A second model.
        dose: How much of the adapter; None for all of it.
        out: Folder for the results; None for runs/quality-<model>, followed by what was asked for.
        confirmed: Whether the user agreed beforehand to what asking an LLM will cost.
        figures: Also write every figure as a file of this format (svg, pdf) into figures/.
    """

    adapter: str | None = None
    against: str | None = None
    dose: float | None = None
    out: str | None = None
    confirmed: bool = False
    figures: str | None = None


def quality_of_words(model: str, words: Sequence[str], options: QualityOptions) -> tuple[QualityResult, str]:
    """`measure_quality` of what stands on the command line: files, and settings of the form section.key=value.

    Raises:
        RecipeError: Options that do not go together, or a wrong setting.
    """
    settings = [word for word in words if "=" in word and not Path(word).exists()]
    files = list(dict.fromkeys(word for word in words if word not in settings))
    problems = []
    if is_recipe(model):
        problems.append(f"{model}: a recipe; give a model (hub id, folder, `embedded`, judge:NAME, …)")
    if not files:
        problems.append("give at least one file of preferences")
    if problems:
        raise RecipeError(problems)
    loaded = load_model_audit(model, {"run": {"folder": options.out}} if options.out else {}, settings)
    # What is kept of an unfinished call lies beside its results, and nothing of another call does.
    run = loaded.recipe.run.model_copy(update={"folder": _folder(loaded, files, options, settings)})
    recipe = loaded.recipe.model_copy(update={"run": run})
    return measure_quality(replace(loaded, recipe=recipe, confirmed=options.confirmed), files, options)


def measure_quality(loaded: LoadedRecipe, files: Sequence[str], options: QualityOptions) -> tuple[QualityResult, str]:
    """Check everything, score, measure and write.

    Every process of a launch may call this and finds the same; the main one writes.

    Args:
        loaded: Settings: model, score.batch_tokens, audit.quality_split, audit.quality_columns, seed.
        files: Files, saved folders or hub ids in any known format, or `embedded`.
        options: What to compare with, and where results go.

    Returns:
        The result, and tables for a terminal with what was written.

    Raises:
        DataError: A file cannot be used.
        ModelError: A model or adapter cannot be used.
        RunError: The folder for results holds something else, or --adapter is neither adapter nor run.
        RecipeError: Another format of figures.
    """
    if options.figures is not None:
        checked_form(options.figures)
    recipe = loaded.recipe
    split, columns = recipe.audit.quality_split, recipe.audit.quality_columns
    sets = named_sets([load_quality_source(one, split, columns) for one in files])
    # Now, while the files are what was read: scoring may take hours.
    sources = {one.name: source_fingerprint(file, "quality") for one, file in zip(sets, files, strict=True)}
    subjects = asked_subjects(recipe.model, options.adapter, options.against, options.dose)
    for subject in subjects:
        check_subject(subject, loaded)
    out = out_folder(_folder(loaded, files, options), RESULT, "cda quality")
    comparisons = [one for each in sets for item in each.items for one in _comparisons(item)]
    for each in sets:
        say(f"{each.name}: {len(each.items)} items, read as {each.format}; {each.exclusions}")
    names = public_names(subjects, loaded)
    scored: dict[str, Compared] = {}
    scorings = []
    for subject in subjects:
        compared, facts = compare(subject, comparisons, loaded, shared_folder(loaded))
        scored[subject.label] = compared
        scorings.append(quality_scoring(subject, names[subject.label], compared.unit, facts, loaded))
    measured, rows = _measured(sets, scored, recipe.seed)
    result = QualityResult(
        scorings=tuple(scorings),
        n_tests=sum(len(one.sections) for one in measured) if len(scored) == 2 else 0,
        sets=tuple(measured),
        seed=recipe.seed,
        versions=versions(),
        files=sources,
    )
    written = ""
    if is_main():
        _write(out, result, rows)
        if options.figures is not None:
            written = f"\n{write_figures(quality_page_plots(result), out, options.figures)}"
    files_written = f"{out / PAGE}, {TABLES}, {RESULT}, {SCORES}, {REWARDBENCH}/{written}"
    return result, f"{quality_summary(result)}\nWritten: {files_written}"


def _folder(loaded: LoadedRecipe, files: Sequence[str], options: QualityOptions, settings: Sequence[str] = ()) -> str:
    """The folder for the results: another one for other files or settings, another adapter, dose or second model."""
    if given := options.out or loaded.recipe.run.folder:
        return given
    beside = {"on": sorted(files), "with": options.adapter, "at": options.dose, "against": options.against}
    name = loaded.recipe.name.removeprefix("audit-")
    return f"runs/quality-{name}{told_apart(loaded.recipe.model.name_or_path, beside, settings)}"


def _comparisons(item: QualityItem) -> list[Comparison]:
    """Each chosen response over each rejected one; in Ties also the chosen ones among each other."""
    over = [(item.prompt, better, worse) for better, worse in product(item.chosen, item.rejected)]
    among = [(item.prompt, *two) for two in combinations(item.chosen, 2)] if item.tied else []
    return [*over, *among]


def _measured(
    sets: Sequence[QualitySet], scored: Mapping[str, Compared], seed: int
) -> tuple[list[SetQuality], list[dict[str, object]]]:
    half_ties = next(iter(scored.values())).unit == "preference"
    results, rows = [], []
    for one in sets:
        margins = {
            label: [compared.margins(_comparisons(item)) for item in one.items] for label, compared in scored.items()
        }
        unread = _unread(one, scored, margins)
        if None not in unread:
            why = "; ".join(f"{n} × {reason}" for reason, n in count_reasons(list(filter(None, unread))).items())
            raise DataError(f"{one.source}: no item could be scored ({why})")
        kept = {
            label: [
                _ranked(*each) for each, why in zip(zip(one.items, found, strict=True), unread, strict=True) if not why
            ]
            for label, found in margins.items()
        }
        found = measure(kept, _RULES.get(one.format, "pair"), one.weights, seed, half_ties)
        results.append(set_quality(one, found, [why for why in unread if why]))
        for at, item in enumerate(one.items):
            own = {label: found[at] for label, found in margins.items()}
            rows.append(_score_row(one, item, scored, own, unread[at]))
    return with_holm(results), rows


def _unread(
    one: QualitySet, scored: Mapping[str, Compared], margins: Mapping[str, Sequence[FloatArray]]
) -> list[str | None]:
    """Why each item is left out of all scorings, None where it is not."""
    found = [
        next(filter(None, (_why(item, margins[label][at], each) for label, each in scored.items())), None)
        for at, item in enumerate(one.items)
    ]
    numbers = {item.tied[1] for item, why in zip(one.items, found, strict=True) if item.tied and why}
    return [
        NO_PARTNER if item.tied and item.tied[1] in numbers and not why else why
        for item, why in zip(one.items, found, strict=True)
    ]


def _why(item: QualityItem, margins: FloatArray, compared: Compared) -> str | None:
    """Why a comparison of an item has no margin, also one among the right answers of Ties: their spread needs it."""
    if np.isfinite(margins).all():
        return None
    if not isinstance(compared, Rewards):
        return NO_VERDICT
    without = [_reward(compared, item, text) is None for text in (*item.chosen, *item.rejected)]
    return TOO_LONG if any(without) else SAME


def _reward(rewards: Rewards, item: QualityItem, text: str) -> float | None:
    """Reward of a response; None where it was too long to have one."""
    found = rewards.of(item.prompt, text)
    return float(found) if np.isfinite(found) else None


def _ranked(item: QualityItem, margins: FloatArray) -> Ranked:
    n_over = len(item.chosen) * len(item.rejected)
    over = margins[:n_over].reshape(len(item.chosen), len(item.rejected))
    spread = float(np.abs(margins[n_over:]).max(initial=0.0))
    return Ranked(prompt_id(item.prompt), item.subset, item.section, over, spread, item.tied)


def _score_row(
    one: QualitySet,
    item: QualityItem,
    scored: Mapping[str, Compared],
    margins: Mapping[str, FloatArray],
    left_out: str | None,
) -> dict[str, object]:
    row: dict[str, object] = {
        "set": one.name, "row": item.row, "id": item.name, "subset": item.subset, "section": item.section,
        "used": left_out is None, "left_out": left_out,
        "prompt": prompt_row(item.prompt), "chosen": list(item.chosen), "rejected": list(item.rejected),
    }  # fmt: skip
    for label, compared in scored.items():
        if isinstance(compared, Rewards):
            sides = {"chosen": item.chosen, "rejected": item.rejected}
            row[label] = {side: [_reward(compared, item, text) for text in texts] for side, texts in sides.items()}
        else:
            row[label] = {"margins": [float(one) if np.isfinite(one) else None for one in margins[label]]}
    return row


def _write(out: Path, result: QualityResult, rows: Sequence[Mapping[str, object]]) -> None:
    # All of it first: a full disk leaves what an earlier call wrote as it is.
    new = out / f"{RESULT}.partial"
    refuse_link(new)
    if new.is_dir():
        rmtree(new)  # a kill left it
    own_folder(new)
    save(result, new / RESULT)
    write_jsonl(new / SCORES, rows)
    write_text(new / PAGE, quality_page(result))
    write_text(new / TABLES, quality_markdown(result))
    for name, content in rewardbench_files(result, rows).items():
        file = new / REWARDBENCH / name
        file.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, list):
            write_jsonl(file, content)
        else:
            write_json(file, content)
    refuse_link(out / REWARDBENCH)
    rmtree(out / REWARDBENCH, ignore_errors=True)  # of an earlier call, perhaps on other files
    for path in sorted(new.iterdir(), key=lambda one: one.name == RESULT):  # it last: by it the others are known
        path.replace(out / path.name)
    rmtree(new)
