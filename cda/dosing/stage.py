"""Stage `dose`: the dose of the adapter, chosen by people's votes (or for a tie) on contrasts other than those it is
measured on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import compress
from pathlib import Path
from typing import Literal

from pydantic import JsonValue

from cda.auditing.audit import audit_texts, measured_settings
from cda.auditing.groups import Group, contrast_comparisons, make_groups, pair_comparisons, people_of
from cda.biases import Bias
from cda.counterfactuals.label import PAIRS
from cda.counterfactuals.synthesize import MIX
from cda.data.release import SOURCE
from cda.dosing.choice import MIN_PROMPTS
from cda.dosing.result import dose_result
from cda.dosing.scores import dosed_rewards, read_alike, removals
from cda.embedded.model import EMBEDDED
from cda.errors import DataError
from cda.files.jsonl import write_json
from cda.finetuning.applied import TEXTS
from cda.finetuning.train import ADAPTER, Training
from cda.launch import say
from cda.recipe.load import LoadedRecipe
from cda.recipe.sections import AuditSection
from cda.records import Contrast, Pair, TieRule, prompt_id
from cda.resources.artifacts import read_labelled, read_training
from cda.resources.named_scorer import scorer_settings, texts_of
from cda.resources.sources import audit_inputs, model_spec
from cda.results.base import save
from cda.results.dose import Aim, DoseResult
from cda.run import RunFolder, Stage
from cda.scorers.compared import Comparison, Text, text_id
from cda.stats.streams import drawn

DOSE_FILE = "dose.json"
_COUNTED = {"votes": "people's majorities", "tie": "contrasts"}


def stage(loaded: LoadedRecipe, run_folder: RunFolder, training: Training) -> Stage:
    """The stage with the inputs of a training's dose: the training, and all data that the audit measures it on."""
    settings, inputs = measured_settings(loaded)
    settings["dose"] = loaded.recipe.dose.model_dump(mode="json", exclude={"on"})
    settings["schema_version"] = DoseResult.current_schema()
    return Stage(training.stage("dose"), settings, inputs | {"train": run_folder.output_of(training.stage("train"))})


def chosen(loaded: LoadedRecipe, run_folder: RunFolder, training: Training) -> float | None:
    """The dose that was chosen for this very recipe and training; None if none was."""
    if loaded.recipe.dose.on == "no" or not run_folder.is_done(stage(loaded, run_folder, training)):
        return None
    return float(run_folder.record(training.stage("dose")).counts["chosen"])


def is_wanted(loaded: LoadedRecipe) -> bool:
    """True if the recipe asks for a dose, teaches ties, or people voted on enough contrasts of its biases."""
    recipe = loaded.recipe
    if recipe.dose.on != "auto":
        return recipe.dose.on == "yes"
    if not may_have_votes(recipe.audit) and not recipe.aims_at_ties:
        return False
    try:
        check_counts(loaded)
    except DataError as error:
        if recipe.aims_at_ties:
            say(f"\ndose\n  left out: {error}")
        return False
    return True


def may_have_votes(audit: AuditSection) -> bool:
    """False if the contrasts are the embedded ones, and no file has votes on them."""
    return audit.contrasts != EMBEDDED or audit.votes is not None or audit.release is not None


def check_counts(loaded: LoadedRecipe) -> None:
    """Count votes and quality pairs before anything is spent.

    Raises:
        DataError: Too few to choose a dose by.
    """
    recipe, inputs = loaded.recipe, audit_inputs(loaded)
    audit, seed = recipe.audit, recipe.seed
    existing = inputs.existing_contrasts()
    contrasts: list[Contrast] = []
    for name in inputs.names:
        own = [contrast for contrast in existing if contrast.bias == name]
        # A file's contrasts or the release's stand for the embedded ones.
        files = [contrast for contrast in own if contrast.tags.get("source", "file") in ("file", SOURCE)]
        contrasts += drawn(files or own, audit.max_contrasts, seed)
    quality = inputs.quality()
    pairs = drawn(quality.pairs if quality else (), audit.max_quality, seed)
    aim, _, prompts = aimed(contrasts, loaded.biases, recipe.dose.aim, audit.ties, ties_taught=recipe.aims_at_ties)
    if aim == "tie":
        # A bias without its own contrasts gets them in the audit; their number is known then.
        prompts = {name: n for name, n in prompts.items() if n}
    _check_enough(aim, prompts, drawn(pairs, recipe.dose.max_quality, seed))


def run(loaded: LoadedRecipe, run_folder: RunFolder, training: Training, folder: Path) -> dict[str, object]:
    """Score the curve, choose, write dose.json, and return counts.

    Raises:
        DataError: Too few contrasts, or too few with a majority of people; or no quality pair can be read.
    """
    recipe = loaded.recipe
    settings = recipe.dose
    texts = audit_texts(loaded)
    aim, contrasts, prompts = aimed(
        texts.contrasts, loaded.biases, settings.aim, recipe.audit.ties, ties_taught=recipe.aims_at_ties
    )
    pairs = drawn(texts.pairs, settings.max_quality, recipe.seed)
    _check_enough(aim, prompts, pairs)
    too_few = {name: n for name, n in prompts.items() if n < MIN_PROMPTS}
    for name, n in too_few.items():
        say(f"  {name}: {_COUNTED[aim]} on {n} prompts, too few to have a say in the dose ({MIN_PROMPTS} needed)")
    to_score = _texts(contrasts, pairs)
    spec, adapter = model_spec(recipe.model), run_folder.stage(training.stage("train")) / ADAPTER
    curves = {"dose": dosed_rewards(spec, scorer_settings(loaded), adapter, settings.doses, to_score)}
    missing: dict[str, str] = {}
    fitted: dict[str, dict[str, JsonValue]] = {}
    if settings.baselines and training.is_first:  # of no training, so the same for every seed
        lessons = _lessons(run_folder, loaded.biases, settings.max_baseline_pairs, recipe.seed)
        removed, missing = removals(spec, lessons, to_score, settings.doses, recipe.score.batch_tokens)
        own = list(curves["dose"].values())
        for name, removal in removed.items():
            curves[name] = {dose: read_alike(rewards, own) for dose, rewards in removal.by_strength.items()}
            fitted[name] = removal.fitted
    biases = {bias.name: bias for bias in loaded.biases}
    with_contrasts = [name for name in biases if any(contrast.bias == name for contrast in contrasts)]
    groups = {
        name: make_groups(contrasts, biases, with_contrasts, {f"{dose:g}": rewards for dose, rewards in curve.items()})
        for name, curve in curves.items()
    }
    result = dose_result(
        curves,
        groups,
        pairs,
        recipe.audit.ties,
        settings,
        recipe.seed,
        aim,
        too_few=too_few,
        missing=missing,
        fitted=fitted,
        available_quality=len(texts.pairs),
    )
    save(result, folder / DOSE_FILE)
    write_json(folder / TEXTS, [text_id(*text) for text in to_score])
    say(f"  dose {result.chosen:g} chosen {'by votes of people' if aim == 'votes' else 'for a tie, not by votes'}")
    counts = {"quality_pairs": result.quality_pairs, "left_out": result.left_out}
    return {"chosen": result.chosen, "aim": aim, "prompts": prompts, **counts, "doses": list(settings.doses)}


def aimed(
    contrasts: Sequence[Contrast],
    biases: Sequence[Bias],
    aim: Literal["auto", "votes", "tie"],
    rule: TieRule,
    *,
    ties_taught: bool,
) -> tuple[Aim, list[Contrast], dict[str, int]]:
    """The aim of the dose, the contrasts that choose it, and for each bias the number of prompts that have them.

    Args:
        contrasts: Contrasts of all biases.
        aim: The recipe's `dose.aim`.
        rule: Rule for people's ties.
        ties_taught: A tie is the aim if too few people voted.
    """
    voted: list[Contrast] = []
    prompts: dict[str, int] = {}
    for bias in biases if aim != "tie" else ():
        of_bias = [contrast for contrast in contrasts if contrast.bias == bias.name]
        own = tuple(contrast for contrast in of_bias if contrast.votes or contrast.preferred)
        people = people_of(Group(bias, True, own, tuple(contrast.id for contrast in own), {}, "reward", 0), rule)
        with_majority = [] if people is None else list(compress(own, people.majority.used))
        prompts[bias.name] = len({prompt_id(contrast.prompt) for contrast in with_majority})
        voted += own if prompts[bias.name] >= MIN_PROMPTS else []
    if aim != "tie" and (voted or not ties_taught):
        return "votes", voted, prompts
    kept: list[Contrast] = []
    for bias in biases:
        of_bias = [contrast for contrast in contrasts if contrast.bias == bias.name]
        prompts[bias.name] = len({prompt_id(contrast.prompt) for contrast in of_bias})
        kept += of_bias if prompts[bias.name] >= MIN_PROMPTS else []
    return "tie", kept, prompts


def _check_enough(aim: Aim, prompts: Mapping[str, int], pairs: Sequence[Pair]) -> None:
    """Raise DataError for too few contrasts or quality pairs to choose by, with the number that is needed."""
    if prompts and max(prompts.values()) < MIN_PROMPTS:
        counts = ", ".join(f"{name}: {_COUNTED[aim]} on {n} prompts" for name, n in prompts.items())
        what = "contrasts with votes (audit.contrasts, audit.votes)" if aim == "votes" else "more (audit.contrasts)"
        raise DataError(
            f"{counts}, and choosing a dose needs {MIN_PROMPTS} at least of one bias (half of them choose, the others "
            f"measure). Give {what}, or take a dose of your own with `cda merge --dose`"
        )
    n_prompts = len({prompt_id(pair.prompt) for pair in pairs})
    if 0 < n_prompts < MIN_PROMPTS:
        raise DataError(
            f"quality pairs on {n_prompts} prompts, and a limit on quality loss needs {MIN_PROMPTS} at least. Give more "
            "(audit.quality, audit.max_quality, dose.max_quality), or none at all (audit.quality=null)"
        )


def _texts(contrasts: Sequence[Contrast], pairs: Sequence[Pair]) -> list[Text]:
    """Every text once, in order."""
    return list(dict.fromkeys(texts_of([*contrast_comparisons(contrasts), *pair_comparisons(pairs)])))


def _lessons(run_folder: RunFolder, biases: Sequence[Bias], most: int, seed: int) -> dict[str, list[Comparison]]:
    """Biased and unbiased side of training counterfactuals: a response and its rewrite, drawn for each bias."""
    originals = {row.pair.id: row.pair.rejected for row in read_labelled(run_folder.stage("label") / PAIRS)}
    lessons: dict[str, dict[Comparison, None]] = {bias.name: {} for bias in biases}
    for row in read_training(run_folder.stage("synthesize") / MIX):
        if row.bias in lessons and row.kind not in ("supplementary", "contrast"):
            unbiased = originals[row.source_id] if row.kind == "counterfactual" else row.pair.chosen
            lessons[row.bias][row.pair.prompt, row.pair.rejected, unbiased] = None
    return {name: drawn(list(sides), most, seed) for name, sides in lessons.items()}
