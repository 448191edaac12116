"""Stage `dose`: how much of the adapter to apply, chosen by people's votes (or for a tie) on contrasts other than those it is
measured on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cda.auditing.audit import what_is_measured
from cda.auditing.groups import Group, make_groups, people_of
from cda.auditing.sources import audited_contrasts, load_audit_texts, load_quality
from cda.counterfactuals.label import PAIRS
from cda.counterfactuals.synthesize import MIX
from cda.data.release import SOURCE
from cda.dosing import result as dose_result
from cda.dosing.choice import MIN_PROMPTS
from cda.dosing.scores import dosed_rewards, read_alike, removals
from cda.embedded.model import NAME as EMBEDDED
from cda.errors import DataError
from cda.files.jsonl import write_json
from cda.finetuning.applied import TEXTS
from cda.finetuning.train import ADAPTER, Training
from cda.launch import say
from cda.recipe.load import LoadedRecipe
from cda.records import Contrast, Pair, prompt_id
from cda.resources.artifacts import read_labelled, read_training
from cda.resources.sources import model_spec
from cda.results.base import save
from cda.results.dose import Aim, DoseResult
from cda.run import RunFolder, Stage
from cda.scorers.compared import Comparison, Rewards, Text, text_id
from cda.stats.streams import drawn

RESULT = "dose.json"
_COUNTED = {"votes": "people's majorities", "tie": "contrasts"}


def stage(loaded: LoadedRecipe, run_folder: RunFolder, training: Training) -> Stage:
    """What decides a training's dose: the training, and all that the audit measures it on."""
    settings, inputs = what_is_measured(loaded)
    settings["dose"] = loaded.recipe.dose.model_dump(mode="json", exclude={"on"})
    settings["schema_version"] = DoseResult.current_schema()
    return Stage(training.stage("dose"), settings, inputs | {"train": run_folder.output_of(training.stage("train"))})


def chosen(loaded: LoadedRecipe, run_folder: RunFolder, training: Training) -> float | None:
    """The dose that was chosen for this very recipe and training; None where none was."""
    if loaded.recipe.dose.on == "no" or not run_folder.is_done(stage(loaded, run_folder, training)):
        return None
    return float(run_folder.record(training.stage("dose")).counts["chosen"])


def is_wanted(loaded: LoadedRecipe) -> bool:
    """Whether the recipe gets a dose: it asks for one, teaches ties, or people voted on enough contrasts of its biases."""
    on = loaded.recipe.dose.on
    if on != "auto":
        return on == "yes"
    if not may_have_votes(loaded) and not loaded.recipe.aims_at_ties:
        return False
    try:
        check(loaded)
    except DataError as error:
        if loaded.recipe.aims_at_ties:
            say(f"\ndose\n  left out: {error}")
        return False
    return True


def may_have_votes(loaded: LoadedRecipe) -> bool:
    """Embedded contrasts have no votes but those of a file."""
    audit = loaded.recipe.audit
    return audit.contrasts != EMBEDDED or audit.votes is not None or audit.release is not None


def check(loaded: LoadedRecipe) -> None:
    """Count votes and quality pairs before anything is spent.

    Raises:
        DataError: Too few to choose a dose by.
    """
    audit, seed = loaded.recipe.audit, loaded.recipe.seed
    contrasts = audited_contrasts(loaded)
    own = [one for bias in loaded.biases for one in _of(contrasts, bias.name, audit.max_contrasts, seed)]
    quality = load_quality(loaded)
    pairs = drawn(quality.pairs if quality else (), audit.max_quality, seed)
    aim, _, prompts = aimed(loaded, own)
    if aim == "tie":
        # A bias without contrasts of its own gets them in the audit; how many is known then.
        prompts = {name: n for name, n in prompts.items() if n}
    _check_enough(aim, prompts, drawn(pairs, loaded.recipe.dose.max_quality, seed))


def _of(contrasts: Sequence[Contrast], bias: str, most: int | None, seed: int) -> list[Contrast]:
    """The contrasts of a bias that the audit measures: a file's or the release's stand for the embedded ones."""
    own = [one for one in contrasts if one.bias == bias]
    files = [one for one in own if one.tags.get("source", "file") in ("file", SOURCE)]
    return drawn(files or own, most, seed)


def run(loaded: LoadedRecipe, run_folder: RunFolder, training: Training, folder: Path) -> dict[str, object]:
    """Score the curve, choose, write dose.json, and return what was counted.

    Raises:
        DataError: Too few contrasts, or too few with a majority of people; or no quality pair can be read.
    """
    recipe = loaded.recipe
    texts = load_audit_texts(loaded)
    aim, contrasts, prompts = aimed(loaded, texts.contrasts)
    pairs = drawn(texts.pairs, recipe.dose.max_quality, recipe.seed)
    _check_enough(aim, prompts, pairs)
    for name, n in prompts.items():
        if n < MIN_PROMPTS:
            say(f"  {name}: {_COUNTED[aim]} on {n} prompts, too few to have a say in the dose ({MIN_PROMPTS} needed)")
    spec, adapter = model_spec(recipe.model), run_folder.stage(training.stage("train")) / ADAPTER
    doses = tuple(recipe.dose.doses)
    asked = _texts(contrasts, pairs)
    scored = dosed_rewards(loaded, adapter, doses, asked)
    curves = {"dose": scored}
    missing: dict[str, str] = {}
    fitted: dict[str, Any] = {}
    if recipe.dose.baselines and training.is_first:  # of no training, so the same beside every seed
        lessons = _lessons(loaded, run_folder)
        removed, missing = removals(spec, lessons, asked, doses, recipe.score.batch_tokens)
        own = list(scored.values())
        curves |= {
            name: {strength: read_alike(rewards, own) for strength, rewards in one.by_strength.items()}
            for name, one in removed.items()
        }
        fitted = {name: dict(one.fitted) for name, one in removed.items()}
    groups = {name: _groups(loaded, contrasts, curve) for name, curve in curves.items()}
    result = dose_result.result(
        curves,
        groups,
        pairs,
        recipe.audit.ties,
        recipe.dose,
        recipe.seed,
        aim,
        too_few={name: n for name, n in prompts.items() if n < MIN_PROMPTS},
        missing=missing,
        fitted=fitted,
        available_quality=len(texts.pairs),
    )
    save(result, folder / RESULT)
    write_json(folder / TEXTS, [text_id(*one) for one in asked])
    best = result.chosen
    say(f"  dose {best:g} chosen {'by votes of people' if aim == 'votes' else 'for a tie, not by votes'}")
    counts = {"quality_pairs": result.quality_pairs, "left_out": result.left_out}
    return {"chosen": best, "aim": aim, "prompts": prompts, **counts, "doses": list(doses)}


def _groups(loaded: LoadedRecipe, contrasts: Sequence[Contrast], curve: Mapping[float, Rewards]) -> list[Group]:
    """Contrasts of each bias with their margins at every dose."""
    biases = {bias.name: bias for bias in loaded.biases}
    voted = [name for name in biases if any(one.bias == name for one in contrasts)]
    return make_groups(contrasts, biases, voted, {f"{dose:g}": rewards for dose, rewards in curve.items()})


def aimed(loaded: LoadedRecipe, contrasts: Sequence[Contrast]) -> tuple[Aim, list[Contrast], dict[str, int]]:
    """What the dose is chosen for, the contrasts that choose it, and how many prompts each bias has of them."""
    if loaded.recipe.dose.aim != "tie":
        kept, prompts = _voted(loaded, contrasts)
        if kept or not loaded.recipe.aims_at_ties:
            return "votes", kept, prompts
    own = {bias.name: [one for one in contrasts if one.bias == bias.name] for bias in loaded.biases}
    prompts = {name: len({prompt_id(one.prompt) for one in group}) for name, group in own.items()}
    return "tie", [one for name, group in own.items() if prompts[name] >= MIN_PROMPTS for one in group], prompts


def _voted(loaded: LoadedRecipe, contrasts: Sequence[Contrast]) -> tuple[list[Contrast], dict[str, int]]:
    """Contrasts of the biases on which enough people's majorities are for one side, and how many prompts of each are."""
    kept: list[Contrast] = []
    prompts: dict[str, int] = {}
    for bias in loaded.biases:
        own = [one for one in contrasts if one.bias == bias.name and (one.votes or one.preferred)]
        group = Group(bias, True, tuple(own), tuple(one.id for one in own), {}, "reward", 0)
        people = people_of(group, loaded.recipe.audit.ties)
        used = [] if people is None else people.majority.used.tolist()
        voted = {prompt_id(one.prompt) for one, use in zip(own, used, strict=bool(used)) if use}
        prompts[bias.name] = len(voted)
        if len(voted) >= MIN_PROMPTS:
            kept += own
    return kept, prompts


def _check_enough(aim: Aim, prompts: Mapping[str, int], pairs: Sequence[Pair]) -> None:
    """Raises DataError where there are too few contrasts or quality pairs to choose by, and says how many are needed."""
    if prompts and max(prompts.values()) < MIN_PROMPTS:
        found = ", ".join(f"{name}: {_COUNTED[aim]} on {n} prompts" for name, n in prompts.items())
        what = "contrasts with votes (audit.contrasts, audit.votes)" if aim == "votes" else "more (audit.contrasts)"
        raise DataError(
            f"{found}, and choosing a dose needs {MIN_PROMPTS} at least of one bias (half of them choose, the others "
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
    texts = [(one.prompt, text) for one in contrasts for text in (one.perturbed, one.base)]
    texts += [(pair.prompt, text) for pair in pairs for text in (pair.chosen, pair.rejected)]
    return list(dict.fromkeys(texts))


def _lessons(loaded: LoadedRecipe, run_folder: RunFolder) -> dict[str, list[Comparison]]:
    """Biased and unbiased side of training counterfactuals: a response and its rewrite, drawn for each bias."""
    originals = {row.pair.id: row.pair.rejected for row in read_labelled(run_folder.stage("label") / PAIRS)}
    rows = list(read_training(run_folder.stage("synthesize") / MIX))
    found: dict[str, list[Comparison]] = {}
    for bias in loaded.biases:
        own = [row for row in rows if row.bias == bias.name and row.kind not in ("supplementary", "contrast")]
        sides = dict.fromkeys(
            (
                row.pair.prompt,
                row.pair.rejected,
                originals[row.source_id] if row.kind == "counterfactual" else row.pair.chosen,
            )
            for row in own
        )
        found[bias.name] = drawn(list(sides), loaded.recipe.dose.max_baseline_pairs, loaded.recipe.seed)
    return found
