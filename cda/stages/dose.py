"""Stage `dose`: how much of the adapter to apply, chosen by people's votes and measured on votes that had no say in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cda.config.load import LoadedRecipe
from cda.embedded.model import NAME as EMBEDDED
from cda.errors import DataError
from cda.files.jsonl import write_json
from cda.launch import say
from cda.metrics.held_out_dose import MIN_PROMPTS
from cda.records import Contrast, Pair
from cda.run import RunFolder, Stage
from cda.score.compared import Comparison, Rewards
from cda.stages import dose_result
from cda.stages.audit_groups import Group, make_groups, people_of
from cda.stages.audit_sources import audited_contrasts, drawn, load_audit_texts
from cda.stages.dose_scores import Text, audit_rewards, dosed_rewards, export, removals
from cda.stages.label import PAIRS
from cda.stages.rows import read_labelled, read_training
from cda.stages.sources import model_spec
from cda.stages.synthesize import MIX
from cda.stages.train import ADAPTER

RESULT = "dose.json"


def stage(loaded: LoadedRecipe, run_folder: RunFolder) -> Stage:
    """What decides the dose."""
    recipe = loaded.recipe
    settings = {"dose": recipe.dose.model_dump(mode="json", exclude={"on"}), "seed": recipe.seed}
    return Stage("dose", settings, {"audit": run_folder.output_of("audit"), "train": run_folder.output_of("train")})


def is_wanted(loaded: LoadedRecipe) -> bool:
    """Whether a recipe that does not ask for it gets a dose: people voted on enough contrasts of its biases.

    Only contrasts of files are looked at; embedded ones have no votes but those of a file.
    """
    on = loaded.recipe.dose.on
    if on != "auto":
        return on == "yes"
    audit = loaded.recipe.audit
    if audit.contrasts == EMBEDDED and audit.votes is None:
        return False
    return _n_voted_prompts(_voted(loaded, audited_contrasts(loaded)), loaded) >= MIN_PROMPTS


def fits(run_folder: RunFolder) -> bool:
    """Whether the folder holds a dose of its present adapter, chosen from its present audit."""
    inputs = run_folder.record("dose").get("inputs", {})
    return bool(inputs) and all(
        inputs.get(name) == run_folder.record(name).get("output") for name in ("audit", "train")
    )


def run(loaded: LoadedRecipe, run_folder: RunFolder, folder: Path) -> dict[str, Any]:
    """Score the curve, choose, write dose.json and the adapter at the chosen dose, and return what was counted.

    Raises:
        DataError: Too few contrasts have a majority of people.
    """
    recipe = loaded.recipe
    texts = load_audit_texts(loaded)
    contrasts = _voted(loaded, texts.contrasts)
    found = _n_voted_prompts(contrasts, loaded)
    if found < MIN_PROMPTS:
        names = ", ".join(bias.name for bias in loaded.biases)
        raise DataError(
            f"{names}: people's majorities on {found} prompts, and choosing a dose needs {MIN_PROMPTS} at least "
            "(half of them choose, the others measure). Give contrasts with votes (audit.contrasts, audit.votes), or take "
            "a dose of your own with `cda merge --dose`"
        )
    pairs = drawn(texts.pairs, recipe.dose.max_quality, recipe.seed)
    spec, adapter = model_spec(recipe.model), run_folder.stage("train") / ADAPTER
    scored = audit_rewards(run_folder.stage("audit") / "margins.jsonl", contrasts, pairs)
    doses = tuple(recipe.dose.doses)
    further = [dose for dose in doses if dose not in scored]
    asked = _texts(contrasts, pairs)
    scored |= dosed_rewards(spec, adapter, further, asked, recipe.score.batch_tokens)
    curves = {"dose": {dose: scored[dose] for dose in doses}}
    missing: dict[str, str] = {}
    fitted: dict[str, Any] = {}
    if recipe.dose.baselines:
        lessons = _lessons(loaded, run_folder)
        removed, missing = removals(spec, lessons, asked, doses, recipe.score.batch_tokens)
        curves |= {name: dict(one.by_strength) for name, one in removed.items()}
        fitted = {name: dict(one.fitted) for name, one in removed.items()}
    groups = {name: _groups(loaded, contrasts, curve) for name, curve in curves.items()}
    result = dose_result.result(curves, groups, pairs, recipe.audit.ties, recipe.dose, recipe.seed)
    result |= {"missing": missing, "fitted": fitted, "available_quality": len(texts.pairs)}
    write_json(folder / RESULT, result)
    chosen = float(result["chosen"])
    export(spec, adapter, chosen, folder / ADAPTER)
    say(f"  dose {chosen:g} chosen by people's votes on {found} prompts")
    return {"chosen": chosen, "voted_prompts": found, "quality_pairs": len(pairs), "doses": list(doses)}


def _groups(loaded: LoadedRecipe, contrasts: Sequence[Contrast], curve: Mapping[float, Rewards]) -> list[Group]:
    """Contrasts of each bias with their margins at every dose."""
    biases = {bias.name: bias for bias in loaded.biases}
    voted = [name for name in biases if any(one.bias == name for one in contrasts)]
    return make_groups(contrasts, biases, voted, {f"{dose:g}": rewards for dose, rewards in curve.items()})


def _voted(loaded: LoadedRecipe, contrasts: Sequence[Contrast]) -> list[Contrast]:
    """Contrasts of the recipe's biases on which people voted or stated a preference."""
    names = {bias.name for bias in loaded.biases}
    return [one for one in contrasts if one.bias in names and (one.votes or one.preferred)]


def _n_voted_prompts(contrasts: Sequence[Contrast], loaded: LoadedRecipe) -> int:
    """Prompts on which people's majority is for one side, by the recipe's rule of ties."""
    found = set()
    for name in {one.bias for one in contrasts}:
        own = tuple(one for one in contrasts if one.bias == name)
        bias = next(bias for bias in loaded.biases if bias.name == name)
        ids = tuple(one.id for one in own)
        group = Group(bias, True, own, ids, {}, "reward", 0)
        people = people_of(group, loaded.recipe.audit.ties)
        if people is not None:
            found |= {str(one.prompt) for one, used in zip(own, people.majority.used, strict=True) if used}
    return len(found)


def _texts(contrasts: Sequence[Contrast], pairs: Sequence[Pair]) -> list[Text]:
    """Every text once, in order."""
    texts = [(one.prompt, text) for one in contrasts for text in (one.perturbed, one.base)]
    texts += [(pair.prompt, text) for pair in pairs for text in (pair.chosen, pair.rejected)]
    return list(dict.fromkeys(texts))


def _lessons(loaded: LoadedRecipe, run_folder: RunFolder) -> list[Comparison]:
    """Biased and unbiased side of training counterfactuals: a response and its rewrite, drawn for each bias."""
    originals = {row.pair.id: row.pair.rejected for row in read_labelled(run_folder.stage("label") / PAIRS)}
    found: list[Comparison] = []
    rows = list(read_training(run_folder.stage("synthesize") / MIX))
    for bias in loaded.biases:
        own = [row for row in rows if row.bias == bias.name and row.kind not in ("supplementary", "contrast")]
        sides = [
            (
                row.pair.prompt,
                row.pair.rejected,
                originals[row.source_id] if row.kind == "counterfactual" else row.pair.chosen,
            )
            for row in own
        ]
        found += drawn(list(dict.fromkeys(sides)), loaded.recipe.dose.max_baseline_pairs, loaded.recipe.seed)
    return found
