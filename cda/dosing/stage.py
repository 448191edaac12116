"""Stage `dose`: the dose of the adapter, chosen by people's votes (or for a tie) on contrasts other than those it is
measured on."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import JsonValue

from cda.arrays import FloatArray
from cda.auditing.audit import audit_texts, measured_settings
from cda.auditing.groups import Group, contrast_comparisons, make_groups, pair_comparisons, people_of, read_margins
from cda.biases import Bias
from cda.counterfactuals.label import PAIRS
from cda.counterfactuals.synthesize import MIX
from cda.dosing.choice import MIN_PROMPTS, DoseCurve, dose_response
from cda.dosing.held_out import cross_validated_doses
from cda.embedded.model import EMBEDDED
from cda.errors import DataError, ModelError
from cda.files.jsonl import write_json
from cda.finetuning.applied import TEXTS
from cda.finetuning.train import ADAPTER, Training
from cda.launch import say
from cda.models.config import ModelSpec
from cda.models.load import RewardModel, free_memory, load_reward_model
from cda.recipe.load import LoadedRecipe
from cda.recipe.sections import AuditSection, DoseSection
from cda.records import Contrast, Exclusions, Pair, TieRule, prompt_id
from cda.resources.artifacts import read_labelled, read_training
from cda.resources.model_scorers import classifier_scores
from cda.resources.named_scorer import ScorerSettings, scorer_settings, texts_of, told_cached
from cda.resources.sources import audit_inputs, model_spec
from cda.results.base import save
from cda.results.dose import (
    Aim,
    BestWay,
    DoseMethod,
    DoseResult,
    HeldOutBias,
    HeldOutChoice,
    HeldOutPeople,
    MixingDiffers,
    PlainChange,
)
from cda.run import RunFolder, Stage
from cda.scorers.compared import Comparison, Rewards, Text, text_id
from cda.scorers.posthoc import bias_direction, feature_correction, head_inputs, head_scores
from cda.stats.draws import Stream, drawn, generator
from cda.stats.drift import measured
from cda.stats.estimators import paired_change
from cda.stats.votes import Majority, assumed_ties
from cda.training.dose import DosedModel

Curve = Mapping[float, Rewards]
MIXING = "mixing"
UNREAD = "a text too long, or both sides the same after cutting"
METHODS = ("dose", MIXING, "direction", "features")
"""The adapter at a dose; scores before and after mixed; a direction of the hidden states, or measured features, taken off."""


def dose_result(
    curves: Mapping[str, Curve],
    groups: Mapping[str, Sequence[Group]],
    pairs: Sequence[Pair],
    ties: TieRule,
    settings: DoseSection,
    seed: int,
    aim: Aim = "votes",
    *,
    too_few: Mapping[str, int],
    missing: Mapping[str, str],
    fitted: Mapping[str, dict[str, JsonValue]],
    available_quality: int,
) -> DoseResult:
    """Everything that a report shows of the dose; DataError for too few prompts to choose it, or no readable quality pair.

    `curves` and `groups` are by method: rewards at every dose, and the contrasts of each bias with their margins there.
    The other methods are compared with `dose`. If a tie is the aim, the gap is |skew − 50%|, and miscalibration is meaningless.
    `too_few`: prompts of each bias that has too few to help choose. `missing`: reason for each method that was not tried.
    `fitted`: fitted values of the methods without training. `available_quality`: quality pairs before sampling.
    """
    measured = {name: _measured(curves[name], groups[name], pairs, ties, aim) for name in curves}
    own = measured["dose"]
    measured[MIXING] = mixed = own.mixed(own.doses)
    methods = {name: _method(measured[name], settings, seed) for name in METHODS if name in measured}
    n_unread = len(pairs) - len(own.quality_prompt_ids)
    return DoseResult(
        doses=own.doses,
        biases=tuple(own.names),
        aim=aim,
        repeats=settings.repeats,
        max_quality_loss=settings.max_quality_loss,
        chosen=methods["dose"].chosen,
        methods=methods,
        mixing_differs=_mixing_differs(own, mixed),
        best=best(methods, aim),
        quality_pairs=len(own.quality_prompt_ids),
        left_out={
            "contrasts": dict(own.people.exclusions.reasons),
            "quality pairs": {UNREAD: n_unread} if n_unread else {},
        },
        seed=seed,
        too_few=dict(too_few),
        missing=dict(missing),
        fitted=dict(fitted),
        available_quality=available_quality,
    )


def best(methods: Mapping[str, DoseMethod], aim: Aim = "votes") -> BestWay:
    """The way of least miscalibration + gap (of least gap, if the aim is a tie), held out, in the mean over biases, among
    those that keep quality.

    Fixed doses 0 (no training) and 1 (plain CDA) are measured on the same halves as the chosen ones: a gap on half of the votes
    is larger by chance than on all of them. Quality is kept if no more than the allowed share is lost in the held-out estimate.
    """
    losses = {name: _loss(method, "people", aim) for name, method in methods.items() if method.quality_kept}
    losses["no training"] = _loss(methods["dose"], "base", aim)
    if methods["dose"].plain_keeps_quality:
        losses["plain CDA"] = _loss(methods["dose"], "plain", aim)
    return BestWay(name=min(losses, key=lambda name: losses[name]), losses=losses)


def _loss(method: DoseMethod, procedure: Literal["people", "base", "plain"], aim: Aim) -> float:
    held: list[HeldOutPeople] = [getattr(of_bias, procedure) for of_bias in method.held_out.values()]
    losses = [people.gap.value + (0 if aim == "tie" else people.miscalibration.value) for people in held]
    return float(np.mean(losses))


def _method(curve: DoseCurve, settings: DoseSection, seed: int) -> DoseMethod:
    limit, own = settings.max_quality_loss, {bias: curve.of(bias) for bias in curve.names}
    held = cross_validated_doses(curve, generator(seed, Stream.INTERVALS), settings.repeats, limit)
    first, response = held[0], {bias: dose_response(of_bias) for bias, of_bias in own.items()}
    plain = response[curve.names[0]][curve.doses.index(1.0)].quality_change
    return DoseMethod(
        chosen=first.dose,
        barred=first.barred,
        shares={f"{dose:g}": share for dose, share in first.chosen.items()},
        quality=first.quality,
        quality_kept=first.against_base.quality is None or first.against_base.quality.value >= -limit,
        plain_keeps_quality=plain is None or plain.value >= -limit,
        held_out={
            bias: HeldOutBias(
                **{name: value for name, value in of_bias if name in HeldOutChoice.model_fields},
                plain_change=_plain_change(own[bias]),
            )
            for bias, of_bias in zip(own, held, strict=True)
        },
        response=response,
    )


def _plain_change(curve: DoseCurve) -> PlainChange:
    """Change from dose 0 to dose 1: nothing is chosen, so it is measured on all rows of a bias."""
    used, target = curve.people.used, curve.people.target[curve.people.used]
    before, after = (curve.margins_at(dose)[used] > 0 for dose in (0.0, 1.0))
    ids = list(compress(curve.prompt_ids, used))
    return PlainChange(
        skew=paired_change(before * 1.0, after * 1.0, ids),
        miscalibration=paired_change(np.abs(before - target), np.abs(after - target), ids),
    )


def _measured(curve: Curve, groups: Sequence[Group], pairs: Sequence[Pair], ties: TieRule, aim: Aim) -> DoseCurve:
    """Margins and majorities of all biases; the majorities' exclusions count the contrasts left out."""
    majorities = [_majority(group, ties, aim) for group in groups]
    reasons = Counter({UNREAD: sum(group.n_unread for group in groups)})
    for majority in majorities:
        reasons.update(majority.exclusions.reasons)
    used = np.concatenate([majority.used for majority in majorities])
    target = np.concatenate([majority.target for majority in majorities])
    exclusions = Exclusions(len(used), {reason: n for reason, n in sorted(reasons.items()) if n})
    margins = [np.array([group.margins[f"{dose:g}"] for dose in curve]) for group in groups]
    quality, quality_ids = _quality(pairs, curve)
    return DoseCurve(
        tuple(curve),
        np.concatenate(margins, axis=1),
        Majority(target, used, ties, exclusions),
        [name for group in groups for name in group.prompt_ids],
        quality,
        quality_ids,
        tuple(group.bias.name for group in groups for _ in range(len(group))),
    )


def _majority(group: Group, ties: TieRule, aim: Aim) -> Majority:
    if aim == "tie":
        return assumed_ties(len(group))
    people = people_of(group, ties)
    if people is None:
        raise DataError(f"{group.bias.name}: no contrast has a majority for one side; no dose can be chosen by it")
    return people.majority


def _quality(pairs: Sequence[Pair], curve: Curve) -> tuple[FloatArray | None, tuple[str, ...]]:
    """score(chosen) − score(rejected) at each dose, shape (k, m), of the pairs that have a score at every dose.
    DataError: there are pairs, and none can be read: a dose would be chosen with no limit on the quality it loses.
    """
    if not pairs:
        return None, ()
    margins, ids, _ = read_margins({f"{dose:g}": rewards for dose, rewards in curve.items()}, pair_comparisons(pairs))
    if not ids:
        raise DataError(
            f"none of {len(pairs)} quality pairs can be read at every dose ({UNREAD}), and without one a dose is chosen with "
            "no limit on quality loss. Raise model.max_length_tokens, give shorter pairs (audit.quality), or none at all "
            "(audit.quality=null)"
        )
    return np.array(list(margins.values())), tuple(ids)


def _mixing_differs(own: DoseCurve, mixed: DoseCurve) -> dict[str, MixingDiffers]:
    """Distance of mixed scores from the adapter's own at each dose."""
    ends = own.margins_at(1.0) - own.margins_at(0.0)
    spread = float(np.sqrt((ends**2).mean())) or 1.0
    return {
        f"{dose:g}": MixingDiffers(
            preferences=float(((margins > 0) != (of_mixed > 0)).mean()),
            distance=float(np.abs(margins - of_mixed).mean()) / spread,
            n=len(margins),
        )
        for dose, margins, of_mixed in zip(own.doses, own.margins, mixed.margins, strict=True)
    }


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
    return audit.contrasts != EMBEDDED or audit.votes is not None


def check_counts(loaded: LoadedRecipe) -> None:
    """Count votes and quality pairs before anything is spent; DataError for too few to choose a dose by."""
    recipe, inputs = loaded.recipe, audit_inputs(loaded)
    audit, seed = recipe.audit, recipe.seed
    existing = inputs.existing_contrasts()
    contrasts: list[Contrast] = []
    for name in inputs.names:
        own = [contrast for contrast in existing if contrast.bias == name]
        # A file's contrasts stand for the embedded ones.
        files = [contrast for contrast in own if contrast.tags.get("source", "file") == "file"]
        contrasts += drawn(files or own, audit.max_contrasts, seed)
    quality = inputs.quality()
    pairs = drawn(quality.pairs if quality else (), audit.max_quality, seed)
    aim, _, prompts = aimed(contrasts, loaded.biases, recipe.dose.aim, audit.ties, ties_taught=recipe.aims_at_ties)
    if aim == "tie":
        # A bias without its own contrasts gets them in the audit; their number is known then.
        prompts = {name: n for name, n in prompts.items() if n}
    _check_enough(aim, prompts, drawn(pairs, recipe.dose.max_quality, seed))


def run(loaded: LoadedRecipe, run_folder: RunFolder, training: Training, folder: Path) -> dict[str, object]:
    """Score the curve, choose, write dose.json, and return counts. DataError: too few contrasts, or too few with a
    majority of people; or no quality pair can be read.
    """
    recipe, settings, texts = loaded.recipe, loaded.recipe.dose, audit_texts(loaded)
    aim, contrasts, prompts = aimed(
        texts.contrasts, loaded.biases, settings.aim, recipe.audit.ties, ties_taught=recipe.aims_at_ties
    )
    pairs = drawn(texts.pairs, settings.max_quality, recipe.seed)
    _check_enough(aim, prompts, pairs)
    too_few = {name: n for name, n in prompts.items() if n < MIN_PROMPTS}
    for name, n in too_few.items():
        say(f"  {name}: {_COUNTED[aim]} on {n} prompts, too few to have a say in the dose ({MIN_PROMPTS} needed)")
    to_score = list(dict.fromkeys(texts_of([*contrast_comparisons(contrasts), *pair_comparisons(pairs)])))
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
    """The aim of the dose, the contrasts that choose it, and for each bias the number of prompts that have them; `rule`
    is for people's ties. With `ties_taught`, a tie is the aim if too few people voted.
    """
    every = {bias.name: [contrast for contrast in contrasts if contrast.bias == bias.name] for bias in biases}
    if aim != "tie":
        voted = {
            name: [contrast for contrast in own if contrast.votes or contrast.preferred] for name, own in every.items()
        }
        prompts = {bias.name: _n_prompts(_with_majority(bias, voted[bias.name], rule)) for bias in biases}
        kept = _enough(voted, prompts)
        if kept or not ties_taught:
            return "votes", kept, prompts
    prompts = {name: _n_prompts(own) for name, own in every.items()}
    return "tie", _enough(every, prompts), prompts


def _enough(by_bias: Mapping[str, Sequence[Contrast]], prompts: Mapping[str, int]) -> list[Contrast]:
    """Contrasts of the biases that have some on enough prompts."""
    return [contrast for name, own in by_bias.items() for contrast in own if prompts[name] >= MIN_PROMPTS]


def _with_majority(bias: Bias, contrasts: Sequence[Contrast], rule: TieRule) -> list[Contrast]:
    ids = tuple(contrast.id for contrast in contrasts)
    people = people_of(Group(bias, True, tuple(contrasts), ids, {}, "reward", 0), rule)
    return [] if people is None else list(compress(contrasts, people.majority.used))


def _n_prompts(rows: Sequence[Contrast] | Sequence[Pair]) -> int:
    return len({prompt_id(row.prompt) for row in rows})


def _check_enough(aim: Aim, prompts: Mapping[str, int], pairs: Sequence[Pair]) -> None:
    """Raise DataError for too few contrasts or quality pairs to choose by, with the number that is needed."""
    if prompts and max(prompts.values()) < MIN_PROMPTS:
        counts = ", ".join(f"{name}: {_COUNTED[aim]} on {n} prompts" for name, n in prompts.items())
        what = "contrasts with votes (audit.contrasts, audit.votes)" if aim == "votes" else "more (audit.contrasts)"
        raise DataError(
            f"{counts}, and choosing a dose needs {MIN_PROMPTS} at least of one bias (half of them choose, the others "
            f"measure). Give {what}, or take a dose of your own with `cda merge --dose`"
        )
    n_prompts = _n_prompts(pairs)
    if 0 < n_prompts < MIN_PROMPTS:
        raise DataError(
            f"quality pairs on {n_prompts} prompts, and a limit on quality loss needs {MIN_PROMPTS} at least. Give more "
            "(audit.quality, audit.max_quality, dose.max_quality), or none at all (audit.quality=null)"
        )


def _lessons(run_folder: RunFolder, biases: Sequence[Bias], most: int, seed: int) -> dict[str, list[Comparison]]:
    """Biased and unbiased side of training counterfactuals: a response and its rewrite, drawn for each bias."""
    originals = {row.pair.id: row.pair.rejected for row in read_labelled(run_folder.stage("label") / PAIRS)}
    lessons: dict[str, dict[Comparison, None]] = {bias.name: {} for bias in biases}
    for row in read_training(run_folder.stage("synthesize") / MIX):
        if row.bias in lessons and row.kind not in ("supplementary", "contrast"):
            unbiased = originals[row.source_id] if row.kind == "counterfactual" else row.pair.chosen
            lessons[row.bias][row.pair.prompt, row.pair.rejected, unbiased] = None
    return {name: drawn(list(sides), most, seed) for name, sides in lessons.items()}


@dataclass(frozen=True, slots=True)
class Removal:
    """A removal without training: rewards of the texts at each strength (0: the base model), and the fitted values."""

    by_strength: Mapping[float, Rewards]
    fitted: dict[str, JsonValue]


def dosed_rewards(
    spec: ModelSpec, settings: ScorerSettings, adapter: Path, doses: Sequence[float], texts: Sequence[Text]
) -> dict[float, Rewards]:
    """Rewards at each dose λ by the weights-space curve that is exported; earlier scores are taken from the cache. Dose
    0 is scored without the adapter and dose 1 with it as trained, so that the audit finds their scores.
    """

    def scored(reward_model: RewardModel, adapter: Path | None, dose: float, label: str) -> Rewards:
        scores = classifier_scores(reward_model, texts, settings, label, adapter=adapter, dose=dose)
        if scores.n_cached:
            say(f"{label}: {told_cached(scores.n_cached, len(scores.by_text))}")
        return scores

    rewards = {}
    if 0 in doses:
        base = load_reward_model(spec)
        rewards[0.0] = scored(base, None, 1.0, "  dose 0")
        del base
        free_memory()
    reward_model = load_reward_model(spec, adapter)
    dosed = DosedModel(reward_model)
    for dose in filter(None, doses):
        dosed.set(dose)
        rewards[dose] = scored(reward_model, adapter, dose, f"  dose {dose:g}")
    del reward_model, dosed
    free_memory()
    return rewards


def read_alike(rewards: Rewards, curve: Iterable[Rewards]) -> Rewards:
    """The same rewards, without those of texts that a curve of the same model has no reward of. A removal is computed
    from a model's states for every text; what the curve leaves out, because a text is too long or both sides are the
    same after the cut, must be left out here too, or two ways are measured on two sets.
    """
    of_curve = list(curve)
    unread = {name: math.nan for at_dose in of_curve for name, value in at_dose.by_text.items() if math.isnan(value)}
    read = {name: cut for at_dose in of_curve for name, cut in at_dose.read.items()}
    return replace(rewards, by_text={**rewards.by_text, **unread}, read=read)


def removals(
    spec: ModelSpec,
    lessons: Mapping[str, Sequence[Comparison]],
    texts: Sequence[Text],
    strengths: Sequence[float],
    batch_tokens: int | None,
) -> tuple[dict[str, Removal], dict[str, str]]:
    """Removals without training: measured features, and a direction of the hidden states, subtracted from the base
    model; by name, and the reason for each that could not be made.

    Both are fitted on the training counterfactuals (`lessons`, by bias: prompt, biased and unbiased side), and on none
    of the reported `texts`. Each bias has its own direction, since differences of several would cancel in their mean.
    """
    reward_model = load_reward_model(spec)
    pairs = [pair for own in lessons.values() for pair in own]
    prompts, responses = zip(*texts_of(pairs), *texts, strict=True)
    try:
        states = head_inputs(reward_model, prompts, responses, batch_tokens, "  base model")
    except (ModelError, DataError) as error:
        return {}, {"direction": str(error), "features": str(error)}
    n_taught = 2 * len(pairs)
    biased, plain, shown = states[:n_taught:2], states[1:n_taught:2], states[n_taught:]

    def rewarded(values: FloatArray) -> Rewards:
        return Rewards({text_id(*text): float(value) for text, value in zip(texts, values, strict=True)})

    def direction(model: RewardModel) -> Removal:
        basis = _directions(biased, plain, lessons)
        along = (shown @ basis) @ basis.T
        rewards = {strength: rewarded(head_scores(model, shown - strength * along)) for strength in strengths}
        return Removal(rewards, {"pairs": len(pairs), "directions": basis.shape[1], "hidden_size": len(basis)})

    def features(model: RewardModel) -> Removal:
        margins = head_scores(model, biased) - head_scores(model, plain)
        first, second = (measured(side) for side in (responses[:n_taught:2], responses[1:n_taught:2]))
        # A feature that does not hold for a text (NaN) is no difference, and nothing is taken off for it.
        differences = {name: np.nan_to_num(first[name] - second[name]) for name in first}
        fit = feature_correction(margins, differences, [prompt_id(prompt) for prompt, _, _ in pairs])
        base = head_scores(model, shown)
        of_texts = {name: np.nan_to_num(values) for name, values in measured([text for _, text in texts]).items()}
        rewards = {strength: rewarded(fit.corrected(base, of_texts, strength)) for strength in strengths}
        return Removal(rewards, fit.to_json())

    removed: dict[str, Removal] = {}
    missing: dict[str, str] = {}
    for removal in (direction, features):
        try:
            removed[removal.__name__] = removal(reward_model)
        except DataError as error:
            missing[removal.__name__] = str(error)
    del reward_model
    free_memory()
    return removed, missing


def _directions(biased: FloatArray, plain: FloatArray, lessons: Mapping[str, Sequence[Comparison]]) -> FloatArray:
    """An orthonormal basis of the biases' directions, shape (hidden size, biases)."""
    ends = np.cumsum([len(own) for own in lessons.values()])[:-1]
    sides = zip(np.split(biased, ends), np.split(plain, ends), lessons.values(), strict=True)
    directions = [
        bias_direction(first, second, [prompt_id(prompt) for prompt, _, _ in own]) for first, second, own in sides
    ]
    return np.asarray(np.linalg.qr(np.column_stack(directions))[0], dtype=np.float64)
